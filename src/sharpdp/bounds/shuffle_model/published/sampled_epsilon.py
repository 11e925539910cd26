"""What has been published about shuffled reports of sampled users, each as printed, for comparison.

E = e^local_epsilon, k = users of a round, g = sample rate, T = rounds. Sums over j are in
`sampled_renyi`; the divergences of T rounds add up, and the best order turns them into an epsilon.
"""

import math
from collections.abc import Callable
from functools import partial

from sharpdp.bounds.published import formula as register
from sharpdp.bounds.shuffle_model.published import refuse_individual
from sharpdp.bounds.shuffle_model.published.sampled_renyi import (
    amplified_divergence,
    chernoff_terms,
    clone_terms,
    pure_divergence,
    response_divergence,
    subset_divergence,
)
from sharpdp.bracket import Side
from sharpdp.curves.renyi.conversion import epsilon_from
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import SampledReports
from sharpdp.numerics.special import mul_up

__all__ = [
    "amplified_moments_epsilon_upper",
    "amplified_moments_upper",
    "least_epsilon",
    "response_moments_epsilon",
    "response_moments_lower",
    "sampled_clones_moments_epsilon_upper",
    "sampled_clones_moments_upper",
    "sampled_moments_classical_upper",
    "sampled_moments_epsilon_upper",
    "sampled_moments_upper",
    "sampled_unshuffled_upper",
]

Divergence = Callable[[SampledReports, float], float]
"""That of one round at an order."""

formula = partial(
    register,
    composes=True,
    holds_when="users are drawn without replacement; those of a round share one randomizer",
)


@formula(
    holds_when="each report is local_epsilon-LDP, also if nobody shuffles",
    source="balle2018subsampling; dwork2014 Theorem 3.16",
)
def sampled_unshuffled_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound without any shuffling: epsilon = T log(1 + g (E - 1)), at every delta.

    Numerics: moved up by a relative 1e-12.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> half = SampledReports(ShuffledReports(users=5, local_epsilon=math.log(3), rounds=4), 10)
    >>> round(math.exp(sampled_unshuffled_upper(half, 1e-6)), 9)  # (1 + 1/2 * 2)^4
    16.0
    """
    return mul_up(float(mechanism.reports.rounds), pure_divergence(mechanism))


@formula(source="girgis2021 Theorem 1, chords between whole orders")
def sampled_moments_upper(mechanism: SampledReports, order: float) -> float:
    """Upper bound on the Renyi divergence of any order, at most T log(1 + g (E - 1)).

        T log(1 + sum over j from 2 of C(order, j) g^j (B_j + r^j e^{-(k-1)/(8E)})) / (order - 1)
        B_2 = 4 V/m',  B_j = j Gamma(j/2) (2 r^2/m')^{j/2},  m' = floor((k - 1)/(2E)) + 1

    with r = E - 1/E and V = (E - 1)^2/E; between whole orders (order - 1) times it is joined by chords.

    Numerics: see `sampled_renyi.subset_divergence`.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> alone = SampledReports(ShuffledReports(users=1, local_epsilon=math.log(2)), 10)
    >>> moment = 1 + 0.01 * (4 * 0.5 + 1.5**2)  # V = 1/2, r = 3/2, nobody to hide behind
    >>> round(sampled_moments_upper(alone, 2) - math.log(moment), 9)
    0.0
    """
    return _all_rounds(mechanism, order, partial(subset_divergence, terms=chernoff_terms))


@formula(source="girgis2021 Lemma 2 with Theorems 5 and 6")
def sampled_clones_moments_upper(mechanism: SampledReports, order: float) -> float:
    """Upper bound on the Renyi divergence of any order: Theorem 1 without its Chernoff bound.

    As `sampled_moments_upper` with E[min(r^j, B_j(M + 1))] for the bracket, M ~ Bin(k - 1, 1/E) clones.

    Numerics: above some thousand users clones are rounded down, by at most a fiftieth of a deviation.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> alone = SampledReports(ShuffledReports(users=1, local_epsilon=math.log(2)), 10)
    >>> round(sampled_clones_moments_upper(alone, 2) - math.log(1 + 0.01 * 2), 9)  # min(9/4, 2)
    0.0
    """
    return _all_rounds(mechanism, order, partial(subset_divergence, terms=clone_terms))


@formula(source="girgis2021renyi Theorem 1; wang2019 Theorem 9")
def amplified_moments_upper(mechanism: SampledReports, order: float) -> float:
    """Upper bound on the Renyi divergence of any order: shuffling first, then any subsampling.

    Formula and numerics: see `sampled_renyi.amplified_divergence`.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> all_ = SampledReports(ShuffledReports(users=2, local_epsilon=0.1), 2)
    >>> round(amplified_moments_upper(all_, 2000), 9)  # nothing is gained
    0.1
    """
    return _all_rounds(mechanism, order, amplified_divergence)


@formula(holds_when="the randomizer is the worst one", source="girgis2021 Theorem 2")
def response_moments_lower(mechanism: SampledReports, order: float) -> float:
    """Lower bound on the Renyi divergence of any order, both directions: binary randomized response.

    Formula and numerics: see `sampled_renyi.response_divergence`.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> alone = SampledReports(ShuffledReports(users=1, local_epsilon=math.log(2)), 10)
    >>> round(math.exp(response_moments_lower(alone, 2)), 9)  # 1 + g^2 V
    1.005
    """
    if not isinstance(mechanism.reports.randomizer, str):
        raise Inapplicable("it is about the worst randomizer, not about this one")
    return mechanism.reports.rounds * response_divergence(mechanism, order)


@formula(source="girgis2021 Theorem 1, converted by balle2020 Theorem 21")
def sampled_moments_epsilon_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound on epsilon from `sampled_moments_upper`, at the best whole order.

    Numerics: see `least_epsilon`.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> digits = ShuffledReports(users=2000, local_epsilon=2, rounds=6000)
    >>> round(
    ...     sampled_moments_epsilon_upper(SampledReports(digits, 60_000), 1e-5), 2
    ... )  # 5.8 in print
    5.79
    """
    return _best(mechanism, delta, partial(subset_divergence, terms=chernoff_terms))


@formula(source="girgis2021 Theorem 1, converted by mironov2017 Proposition 3")
def sampled_moments_classical_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound on epsilon from `sampled_moments_upper` by the older conversion, at the best order.

    Numerics: see `least_epsilon`.
    """
    return _best(mechanism, delta, partial(subset_divergence, terms=chernoff_terms), "classical")


@formula(source="girgis2021 Lemma 2 with Theorems 5 and 6, converted by balle2020 Theorem 21")
def sampled_clones_moments_epsilon_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound on epsilon from `sampled_clones_moments_upper`, at the best whole order.

    Numerics: see `least_epsilon`.
    """
    return _best(mechanism, delta, partial(subset_divergence, terms=clone_terms))


@formula(source="girgis2021renyi Theorem 1; wang2019 Theorem 9, converted by balle2020 Theorem 21")
def amplified_moments_epsilon_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound on epsilon from `amplified_moments_upper`, at the best whole order.

    Numerics: see `least_epsilon`.
    """
    return _best(mechanism, delta, amplified_divergence)


@formula(
    holds_when="neither an upper nor a lower bound: a lower bound on moments through an upper conversion",
    source="girgis2021 Theorem 2, converted by balle2020 Theorem 21",
    side=Side.LOWER,
)
def response_moments_epsilon(mechanism: SampledReports, delta: float) -> float:
    """Estimate of epsilon, not a bound: the divergences of `response_moments_lower`, converted.

    It may be read as a lower bound, but the conversion is an upper one: it lies above what
    binary randomized response has, and below what other randomizers have.

    Numerics: as computed.
    """
    rounds = mechanism.reports.rounds
    return least_epsilon(lambda order: rounds * response_divergence(mechanism, order), delta)[0]


def _all_rounds(mechanism: SampledReports, order: float, divergence: Divergence) -> float:
    """The divergence of all rounds, from that of one; for a randomizer that all users share."""
    refuse_individual(mechanism.reports)
    return mul_up(float(mechanism.reports.rounds), divergence(mechanism, order))


def _best(
    mechanism: SampledReports, delta: float, divergence: Divergence, conversion: str = "balle"
) -> float:
    """Epsilon at the best order, never more than without shuffling."""
    refuse_individual(mechanism.reports)
    rounds = mechanism.reports.rounds
    epsilon, _ = least_epsilon(
        lambda order: rounds * divergence(mechanism, order), delta, conversion
    )
    return min(epsilon, sampled_unshuffled_upper(mechanism, delta))


def least_epsilon(
    divergence: Callable[[float], float], delta: float, conversion: str = "balle"
) -> tuple[float, float]:
    """The smallest epsilon that is found over whole orders from 2 on, and its order.

    Orders are doubled until epsilon grows, then searched by thirds between the neighbors of the best.
    Every order gives an upper bound, so a search that misses the best one is safe.

    Numerics: rounded up; see `renyi.conversion`.

    >>> epsilon, order = least_epsilon(lambda a: 0.01 * a, 1e-6, "classical")
    >>> order  # the minimum of 0.01 a + 13.8 / (a - 1)
    38.0
    """
    epsilons: dict[float, float] = {}

    def epsilon_at(order: float) -> float:
        if order not in epsilons:
            epsilons[order] = float(epsilon_from(order, divergence(order), delta, conversion))
        return epsilons[order]

    order, worse = 2.0, 0
    best = order
    # whole numbers up to here are exact; three doublings in a row that make things worse end the search
    while order < 2.0**52 and worse < 3:
        worse = 0 if epsilon_at(order) <= epsilon_at(best) else worse + 1
        best = order if worse == 0 else best
        order *= 2.0
    low, high = max(2.0, best / 2.0), best * 2.0
    # epsilon is flat next to its minimum
    while high - low > max(2.0, 1e-4 * low):
        third = math.floor((high - low) / 3.0)
        left, right = low + third, high - third
        if epsilon_at(left) <= epsilon_at(right):
            high = right - 1.0 if right - 1.0 >= left else right
        else:
            low = left + 1.0
    for order in (low, low + 1.0, high):
        epsilon_at(order)
    best = min(epsilons, key=lambda order: (epsilons[order], order))
    return epsilons[best], best
