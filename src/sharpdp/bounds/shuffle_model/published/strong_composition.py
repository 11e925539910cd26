"""Shuffled reports of sampled users by composing one round's epsilon and delta, for comparison.

Clones give (epsilon, delta) of the shuffled reports, a subset shrinks both, and Kairouz, Oh and Viswanath
compose the rounds. One half of delta is for the rounds, one for the composition.
"""

import math
from functools import partial

from sharpdp.bounds.published import formula as register
from sharpdp.bounds.shuffle_model.any_randomizer import individual_clones_upper
from sharpdp.bounds.shuffle_model.published import COMPOSED_WIDTH, closed_form
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import Adjacency, SampledReports, ShuffledReports
from sharpdp.numerics.special import CLOSED_FORM_ERROR, log_mixture
from sharpdp.pairs.finite import AtomicPair
from sharpdp.profile.composition import Composition

__all__ = [
    "clones_strong_composition_upper",
    "local_strong_composition_upper",
    "numeric_clones_strong_composition_upper",
    "numeric_clones_tight_composition_upper",
    "strong_composition",
]

SUBSET = "users are drawn without replacement"

formula = partial(register, composes=True)
numeric_formula = partial(
    formula, holds_when=f"{SUBSET}; the randomizer may depend on the place in a random order"
)


def strong_composition(epsilon: float, rounds: int, delta: float) -> float:
    """Upper bound on epsilon of `rounds` runs of an epsilon-DP mechanism, delta spent on composing.

        min(T e, b + e sqrt(2 T log(e_ + sqrt(T) e / d)), b + e sqrt(2 T log(1/d))),  b = T e tanh(e/2)

    with e_ = 2.718...

    Numerics: moved up by a relative 1e-12.

    Source: kairouz2015 Theorem 3.4.

    >>> strong_composition(0.5, 1, 1e-6)
    0.5
    """
    if rounds == 1:
        return epsilon
    drift = rounds * epsilon * math.tanh(0.5 * epsilon)
    deviation = epsilon * math.sqrt(2.0 * rounds)
    inner = math.e + math.sqrt(rounds) * epsilon / delta
    log_term = min(math.log(inner), -math.log(delta))
    return min(rounds * epsilon, drift + deviation * math.sqrt(log_term)) * (
        1.0 + CLOSED_FORM_ERROR
    )


@formula(
    holds_when=f"users >= 16 E log(4/delta'), delta' = delta / (2 rounds rate); {SUBSET}",
    source="feldman2021 Theorem 3.1; balle2018subsampling; kairouz2015 Theorem 3.4",
)
def clones_strong_composition_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound from clones in closed form, one round on a subset, and strong composition.

        s = log(1 + (E - 1)/(E + 1) (8 sqrt(E log(4/d)/k) + 8 E/k)),   d = delta / (2 T g)

    then log(1 + g (e^s - 1)) for a round, composed with delta/2 left.

    The publication asks for log(2/d) in place of log(4/d); the larger constant is the one of the
    authors' code.

    Numerics: moved up by a relative 1e-12 at each step.

    >>> many = SampledReports(ShuffledReports(users=1600, local_epsilon=math.log(4)), 1600)
    >>> delta = 8 * math.exp(-4)  # half of it for the one round: 1 + 0.6 (0.8 + 0.02)
    >>> round(math.exp(clones_strong_composition_upper(many, delta)), 9)
    1.492
    """
    local, users = mechanism.reports.local_epsilon, mechanism.reports.users
    # print has 2 for 4
    log_share = math.log(4.0) - _log_share(mechanism, delta)
    clones = users * math.exp(-local) * (1.0 - CLOSED_FORM_ERROR)
    if clones < 16.0 * log_share:
        needed = math.ceil(16.0 * log_share * math.exp(local))
        raise Inapplicable(f"it needs about {needed} users at this local_epsilon, rounds and delta")
    shuffled = closed_form(local, clones, max(log_share, 0.0))
    return _composed(mechanism, min(shuffled, local), 0.5 * delta)


@numeric_formula(
    source="feldman2021 Theorem 3.1, its pair evaluated; balle2018subsampling; kairouz2015 Theorem 3.4"
)
def numeric_clones_strong_composition_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound from the pair of clones evaluated, one round on a subset, and strong composition.

    Numerics: the epsilon of one round is certified, at most 1e-4 above the exact one.
    """
    return _composed(mechanism, _shuffled(mechanism, delta), 0.5 * delta)


@numeric_formula(
    source="feldman2021 Theorem 3.1, its pair evaluated; balle2018subsampling; kairouz2015 Theorem 3.3"
)
def numeric_clones_tight_composition_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound as `numeric_clones_strong_composition_upper`, its rounds composed exactly.

    The worst epsilon-DP mechanism is binary randomized response: the loss is (2X - T) epsilon,
    X ~ Bin(T, 1/(1 + e^-epsilon)).

    Numerics: certified brackets, at most 1e-4 wide.
    """
    each = _on_a_subset(mechanism, _shuffled(mechanism, delta))
    if each == 0.0:
        return 0.0
    whole = Composition(((AtomicPair.pure(each), mechanism.reports.rounds),))
    return whole.epsilon(math.log(0.5 * delta), COMPOSED_WIDTH)[1]


@formula(
    holds_when=f"{SUBSET}; each report is local_epsilon-LDP, also if nobody shuffles",
    source="balle2018subsampling; kairouz2015 Theorem 3.4",
)
def local_strong_composition_upper(mechanism: SampledReports, delta: float) -> float:
    """Upper bound without shuffling, by strong composition of log(1 + g (E - 1)).

    It is what is left of `clones_strong_composition_upper` where users are too few for that.

    Numerics: moved up by a relative 1e-12 at each step.

    >>> half = SampledReports(ShuffledReports(users=5, local_epsilon=math.log(3)), 10)
    >>> round(math.exp(local_strong_composition_upper(half, 1e-6)), 9)
    2.0
    """
    return _composed(mechanism, mechanism.reports.local_epsilon, delta)


def _log_share(mechanism: SampledReports, delta: float) -> float:
    """log of the delta that the shuffled reports of one round may have, moved down."""
    reports = mechanism.reports
    log_rounds = math.log(2.0 * reports.rounds * mechanism.sample_rate)
    return (
        math.log(delta) - log_rounds - CLOSED_FORM_ERROR * (1.0 - math.log(delta) + abs(log_rounds))
    )


def _shuffled(mechanism: SampledReports, delta: float) -> float:
    """Epsilon of the shuffled reports of one round at its share of delta, from the pair of clones."""
    log_share = _log_share(mechanism, delta)
    if log_share >= 0.0:
        return 0.0
    reports = ShuffledReports(
        users=mechanism.reports.users, local_epsilon=mechanism.reports.local_epsilon
    )
    pieces = individual_clones_upper(reports, Adjacency.REPLACE_ONE)
    return Composition(pieces).epsilon(log_share, COMPOSED_WIDTH)[1]


def _on_a_subset(mechanism: SampledReports, epsilon: float) -> float:
    """log(1 + g (e^epsilon - 1))."""
    return float(log_mixture(mechanism.sample_rate, epsilon)) * (1.0 + CLOSED_FORM_ERROR)


def _composed(mechanism: SampledReports, epsilon: float, delta: float) -> float:
    """All rounds, each on a subset, by strong composition."""
    each = _on_a_subset(mechanism, epsilon)
    return strong_composition(each, mechanism.reports.rounds, delta)
