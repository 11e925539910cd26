"""What has been published about epsilon after one round of shuffled reports, each as printed.

E = e^local_epsilon, n = users, w = 1/(E + 1). All formulas are about "any local_epsilon-LDP
randomizer"; limits, moments and what follows from them are in `renyi`.
"""

import math
from collections.abc import Callable

import numpy as np

from sharpdp.bounds.published import formula
from sharpdp.bounds.shuffle_model.any_randomizer import individual_clones_upper, shared_clones_upper
from sharpdp.bounds.shuffle_model.published import (
    COMPOSED_WIDTH,
    SHARED,
    closed_form,
    refuse_individual,
)
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import Adjacency, ShuffledReports
from sharpdp.numerics.roots import last_true, straight_crossing
from sharpdp.numerics.special import CLOSED_FORM_ERROR, UNIT_ROUNDOFF, mul_up
from sharpdp.pairs.pair import log_delta_of
from sharpdp.profile.composition import Composition

__all__ = [
    "blanket_bennett_upper",
    "blanket_hoeffding_upper",
    "clones_closed_form_upper",
    "clones_numeric_upper",
    "mixture_tradeoff_upper",
    "stronger_clones_closed_form_upper",
    "swap_upper",
    "unshuffled_upper",
]

PLACED = "users are put in random order first; the randomizer may depend on the place in that order"


@formula(
    holds_when="each report is local_epsilon-LDP, also if nobody shuffles",
    source="dwork2014 Theorem 3.16",
    composes=True,
)
def unshuffled_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound without any shuffling: epsilon = rounds * local_epsilon, at every delta.

    Numerics: one product, rounded up.

    >>> round(unshuffled_upper(ShuffledReports(users=10, local_epsilon=0.5, rounds=4), 1e-6), 9)
    2.0
    """
    if mechanism.rounds == 1:
        return mechanism.local_epsilon
    return mul_up(float(mechanism.rounds), mechanism.local_epsilon)


@formula(
    holds_when=f"users >= 1000, local_epsilon < 1/2, delta < 1/100; {PLACED}",
    source="erlingsson2019 amplification by shuffling",
)
def swap_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound of the first analysis, by swapping: epsilon = 12 local_epsilon sqrt(log(1/delta)/n).

    Numerics: moved up by a relative 1e-12.

    >>> wide = ShuffledReports(users=14_400, local_epsilon=0.25)
    >>> round(swap_upper(wide, math.exp(-16)), 12)  # 12 * 0.25 * 4 / 120
    0.1
    """
    if mechanism.users < 1000:
        raise Inapplicable("it needs at least 1000 users")
    if mechanism.local_epsilon >= 0.5:
        raise Inapplicable("it needs local_epsilon below 0.5")
    if delta >= 0.01:
        raise Inapplicable("it needs delta below 0.01")
    share = 12.0 * math.sqrt(-math.log(delta) / mechanism.users)
    return mechanism.local_epsilon * share * (1.0 + CLOSED_FORM_ERROR)


@formula(holds_when=SHARED, source="balle2019 Section 5, with Hoeffding's inequality")
def blanket_hoeffding_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound from the privacy blanket of mass 1/E, with Hoeffding's inequality.

        delta = b^2 / (4 a n g) (1 - g (1 - e^{-2 a^2/b^2}))^n
        a = e^eps - 1,  b = (e^eps + 1)(E - 1/E),  g = 1/E

    g is the least mass that a blanket can have and b the widest range; both are safe for every
    randomizer, since the right-hand side falls with g and grows with b.

    Numerics: the logarithm of the right-hand side is off by a relative 1e-12 at most, and is asked to
    be that much smaller; the epsilon returned is one at which that was seen.

    >>> round(blanket_hoeffding_upper(ShuffledReports(users=5000, local_epsilon=0.4), 1e-6), 9)
    0.057461648
    """
    n, blanket = float(mechanism.users), math.exp(-mechanism.local_epsilon)
    spread = 2.0 * math.sinh(mechanism.local_epsilon)

    def log_delta(epsilon: float) -> float:
        drift, width = math.expm1(epsilon), (math.exp(epsilon) + 1.0) * spread
        share = -math.expm1(-2.0 * (drift / width) ** 2)
        log_factor = 2.0 * math.log(width) - math.log(4.0 * drift * n * blanket)
        return log_factor + n * math.log1p(-blanket * share)

    return _inverted(mechanism, delta, log_delta)


@formula(holds_when=SHARED, source="balle2019 Section 5, with Bennett's inequality")
def blanket_bennett_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound from the privacy blanket of mass 1/E, with Bennett's inequality.

        delta = b / (n g log(1 + u)) (1 - g (1 - e^{-c phi(u)/b^2}))^n,   u = a b / c
        a = e^eps - 1,  b = E - e^eps/E,  c = E (e^{2 eps} + 1) - 2 e^eps / E^3,  g = 1/E

    with phi(u) = (1 + u) log(1 + u) - u; b and c bound the largest value and the second moment.

    Numerics: as for Hoeffding's form. The event that nobody is covered by the blanket, which adds
    nothing, is left in: that is a little larger than printed for a handful of users.

    >>> round(blanket_bennett_upper(ShuffledReports(users=5000, local_epsilon=0.4), 1e-6), 9)
    0.113016791
    """
    n, local = float(mechanism.users), mechanism.local_epsilon
    blanket = math.exp(-local)

    def log_delta(epsilon: float) -> float:
        # b and c without cancellation: e^{eps - local} (e^{2 local - eps} - 1), and
        # 2 e^{eps + local} (cosh eps - 1 + 1 - e^{-4 local})
        largest = math.exp(epsilon - local) * math.expm1(2.0 * local - epsilon)
        second = 2.0 * math.sinh(0.5 * epsilon) ** 2 - math.expm1(-4.0 * local)
        second *= 2.0 * math.exp(epsilon + local)
        u = math.expm1(epsilon) * largest / second
        share = -math.expm1(-_bennett(u) * second / largest**2)
        log_factor = math.log(largest) - math.log(n * blanket * math.log1p(u))
        return log_factor + n * math.log1p(-blanket * share)

    return _inverted(mechanism, delta, log_delta)


@formula(
    holds_when=f"users >= 16 E log(2/delta), E = e^local_epsilon; {PLACED}",
    source="feldman2021 Theorem 3.1",
)
def clones_closed_form_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound in closed form from clones at rate 1/E.

        epsilon = log(1 + (E - 1)/(E + 1) (8 sqrt(E log(4/delta) / n) + 8 E / n))

    Randomizers may be chosen adaptively along the random order.

    Numerics: moved up by a relative 1e-12.

    >>> many = ShuffledReports(users=1600, local_epsilon=math.log(4))
    >>> round(math.exp(clones_closed_form_upper(many, 4 * math.exp(-4))), 9)  # 1 + 0.6 (0.8 + 0.02)
    1.492
    """
    return _clones(mechanism, delta, math.exp(-mechanism.local_epsilon))


@formula(holds_when=PLACED, source="feldman2021 Theorem 3.1, its pair evaluated", composes=True)
def clones_numeric_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound from the pair with clones at rate 1/E itself, composed over rounds.

    Randomizers may be chosen adaptively along the random order; for shared ones the rate 2/(E + 1) is
    better. Rounds are composed by zhu2022.

    Numerics: a certified bracket, at most 1e-4 wide relative to epsilon.

    >>> alone = ShuffledReports(users=1, local_epsilon=1.0)  # nobody to hide behind
    >>> round(clones_numeric_upper(alone, 1e-9), 6)
    1.0
    """
    pieces = individual_clones_upper(mechanism, Adjacency.REPLACE_ONE)
    return Composition(pieces).epsilon(math.log(delta), COMPOSED_WIDTH)[1]


@formula(
    holds_when="users >= 8 (E + 1) log(2/delta), E = e^local_epsilon; " + SHARED,
    source="feldman2023 Theorem 3.2, for shared randomizers",
)
def stronger_clones_closed_form_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound in closed form from clones at rate 2/(E + 1).

        epsilon = log(1 + (E - 1) (4 sqrt(2 log(4/delta) / ((E + 1) n)) + 4 / n))

    It is the closed form for clones with their rate 2/(E + 1) in place of 1/E.

    The publication claims it for individual randomizers as well, but the proof of its key lemma has an
    erratum; for shared ones the rate is proved without it.

    Numerics: moved up by a relative 1e-12.

    >>> many = ShuffledReports(users=1600, local_epsilon=math.log(3))
    >>> round(math.exp(stronger_clones_closed_form_upper(many, 4 * math.exp(-2))), 9)
    1.205
    """
    refuse_individual(mechanism)
    return _clones(mechanism, delta, 2.0 / (math.exp(mechanism.local_epsilon) + 1.0))


@formula(holds_when=SHARED, source="wang2023 Theorem 4.2 and Corollary 4.3")
def mixture_tradeoff_upper(mechanism: ShuffledReports, delta: float) -> float:
    """Upper bound from the joint concavity of trade-off functions, at most local_epsilon.

        delta(eps) = (1 - 2w) H_g(P0 || Q0),   g = (e^eps - 2w)/(1 - 2w)

    where P0 and Q0 are the two sides given that the victim's report tells the truth. H_g is read from
    the exact pair P = (1 - w) P0 + w Q0 against Q = (1 - w) Q0 + w P0, whose profile d it determines:
    (1 - 2w) H_g = ((1 - w) + w g) d(log x),  x = ((1 - w) g + w) / ((1 - w) + w g).

    Never sharper than the exact pair. The threshold t_eps of Corollary 4.3 is 1/g, with l(t) = -1/t.

    Numerics: certified as the profile of the pair is; the epsilon returned is one at which a delta
    below the given one was seen.

    >>> alone = ShuffledReports(users=1, local_epsilon=1.0)  # nobody to hide behind
    >>> round(mixture_tradeoff_upper(alone, 1e-6), 9)
    1.0
    """
    refuse_individual(mechanism)
    ((pair, _),) = shared_clones_upper(mechanism, Adjacency.REPLACE_ONE)
    e = mechanism.local_epsilon
    lie = 1.0 / (1.0 + math.exp(e))

    def depth(epsilon: float) -> float:
        """Root of -log delta: nearly straight in epsilon, as for a Gaussian."""
        # weight = (1 - w) + w g = 1 + w (e^eps - 1)/(1 - 2w), and x - 1 = (e^eps - 1)/weight
        excess = math.expm1(epsilon)
        weight = 1.0 + lie * excess / math.tanh(0.5 * e)
        inner = math.log1p(excess / weight) * (1.0 - 4.0 * UNIT_ROUNDOFF)
        return math.sqrt(max(-math.log(weight) - log_delta_of(pair, inner)[1], 0.0))

    wanted = math.sqrt(-_lowered(math.log(delta)))
    if depth(e) < wanted:
        return e
    return 0.0 if depth(0.0) >= wanted else straight_crossing(depth, wanted, 0.0, e)[1]


def _clones(mechanism: ShuffledReports, delta: float, rate: float) -> float:
    """The closed form with n rate clones expected, if they are enough."""
    clones = mechanism.users * rate * (1.0 - CLOSED_FORM_ERROR)
    needed = 16.0 * (math.log(2.0) - math.log(delta))
    if clones < needed:
        users = math.ceil(needed / rate)
        raise Inapplicable(f"it needs about {users} users at this local_epsilon and delta")
    return closed_form(mechanism.local_epsilon, clones, math.log(4.0) - math.log(delta))


def _inverted(
    mechanism: ShuffledReports, delta: float, log_delta: Callable[[float], float]
) -> float:
    """An epsilon up to local_epsilon at which log_delta falls to log(delta), close to the smallest.

    Every epsilon at which it does is an upper bound, whether or not the function falls all the way.
    """
    refuse_individual(mechanism)
    wanted = _lowered(math.log(delta))
    candidates = mechanism.local_epsilon * np.geomspace(1e-8, 1.0, 400)
    previous = 0.0
    for candidate in candidates.tolist():
        if log_delta(candidate) <= wanted:
            return last_true(
                lambda epsilon: epsilon == 0.0 or log_delta(epsilon) > wanted, previous, candidate
            )[1]
        previous = candidate
    raise Inapplicable("no epsilon up to local_epsilon brings its delta down that far")


def _lowered(log_delta: float) -> float:
    """A logarithm, lowered by more than rounding can have raised what it is compared with."""
    return log_delta - CLOSED_FORM_ERROR * (1.0 + abs(log_delta))


def _bennett(u: float) -> float:
    """(1 + u) log(1 + u) - u for u > 0, without cancellation for small u.

    >>> abs(_bennett(1.0) - (2 * math.log(2) - 1)) < 1e-15
    True
    """
    if u > 0.02:
        return (1.0 + u) * math.log1p(u) - u
    # what is left out of the series is below 1e-20
    return math.fsum((-u) ** k / (k * (k - 1)) for k in range(2, 12))
