"""Bounds on randomizers of which a part is known that does not depend on the record: their blanket.

Let E = e^local_epsilon, G the blanket, w(y) = inf_x R_x(y) and X = R_x0 / w, Y = R_x1 / w, which lie in
[1, E] and have mean 1/G under w / G. For x >= 1, no law of (X, Y) makes the average of a convex function
of X - x Y larger than (E, 1) and (1, E) with probability s each and (1, 1) otherwise, where
G s = (1 - G)/(E - 1) =: a, as long as a <= 1/(E + 1):

- moved to the corners of the square, they take (E, 1), (1, E), (1, 1), (E, E) with probabilities p, p, b
  and c, where p + c = s because both means are 1/G;
- X - x Y at (E, E) and at (1, 1) lies between its values at (1, E) and (E, 1), which have the same sum:
  moving c of each outwards increases the average.

A smaller G is a larger a: mass at (1, 1) is spread without changing its mean. At a = 1/(E + 1) this is
the bound on any shared randomizer. So the blanket lemma of balle2019 gives

    h(x) <= E[(sum_i Z_i)_+] / n
    Z = E - x, 1 - x E, 1 - x, 0   with weights   a, a, 1 - a (E + 1), a (E - 1)

for n shuffled reports, and the randomizer with rows (a E, a, rest), (a, a E, rest) attains it for one.
"""

import math
from dataclasses import replace
from functools import lru_cache, partial

from sharpdp.bounds.registry import Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffle_model.known_pairs import (
    ROUGH,
    AnyReports,
    one_round,
    randomizer_of,
    reports_of,
)
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import (
    Reports,
    dominated,
    dominating,
    listed,
)
from sharpdp.bounds.shuffle_model.rare_reports import rare_reports
from sharpdp.bracket import Side
from sharpdp.mechanisms import Adjacency, BlanketRandomizer, SampledReports, ShuffledReports
from sharpdp.pairs.finite import AtomicPair

__all__ = [
    "blanket_others_lower",
    "blanket_report_lower",
    "blanket_report_upper",
    "blanket_shuffled_upper",
]

LARGEST_SUMMED = 7.0
"""Beyond this local epsilon sums of numbers so far apart are known less well than few listed results."""

_UP, _DOWN = 1.0 + 2.0**-46, 1.0 - 2.0**-46
"""A share that is too large is safe for an upper side, one that is too small for a lower side."""

bound = partial(register, source="balle2019 Lemma 5.3")


def _share(randomizer: BlanketRandomizer) -> float:
    """a = min((1 - G)/(E - 1), 1/(E + 1))."""
    epsilon = randomizer.local_epsilon
    worst = math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    return min((1.0 - randomizer.blanket) / math.expm1(epsilon), worst) if epsilon else 0.5


def _rows(
    randomizer: BlanketRandomizer, towards: float, smallest: float = 0.0
) -> tuple[tuple[float, ...], ...]:
    """The two rows (a E, a, rest) and (a, a E, rest) of the worst randomizer for one report."""
    odds = math.exp(randomizer.local_epsilon)
    small = min(max(_share(randomizer) * towards, smallest), 1.0 / (odds + 1.0))
    large = odds * small
    rest = max(1.0 - large - small, 0.0)
    return ((large, small, rest), (small, large, rest))


@bound(holds_when="one user's record changes to any other")
def blanket_report_upper(mechanism: BlanketRandomizer, adjacency: Adjacency) -> PairCounts:
    """Upper side of one report: (a E, a, rest) against (a, a E, rest), a = (1 - G)/(E - 1).

    Numerics: a is rounded up.

    >>> coin = BlanketRandomizer(local_epsilon=math.log(3.0), blanket=0.5)
    >>> pair = blanket_report_upper(coin, Adjacency.REPLACE_ONE)[0][0]
    >>> [round(math.exp(mass), 9) for mass in pair.log_p]
    [0.25, 0.75]
    """
    return ((AtomicPair.from_rounded_pmfs(*_rows(mechanism, _UP)), 1),)


@bound(
    attained_when="the randomizer is the one with three reports that has this blanket",
    source="balle2019 Section 5",
)
def blanket_report_lower(mechanism: BlanketRandomizer, adjacency: Adjacency) -> PairCounts:
    """Lower side of one report: a randomizer with three reports and this blanket.

    Formula: (a E, a, rest) against (a, a E, rest). Numerics: a is rounded down.

    >>> half = BlanketRandomizer(local_epsilon=math.log(3.0), blanket=0.75)
    >>> pair = blanket_report_lower(half, Adjacency.REPLACE_ONE)[0][0]
    >>> [round(math.exp(mass), 9) for mass in pair.log_p]
    [0.125, 0.5, 0.375]
    """
    return ((AtomicPair.from_rounded_pmfs(*_rows(mechanism, _DOWN)), 1),)


def _has_known_blanket(mechanism: AnyReports) -> bool:
    """True if the blanket is known, and users are not too many to be told apart."""
    few = reports_of(mechanism).users <= 10**9
    return few and isinstance(randomizer_of(mechanism), BlanketRandomizer)


def _dominating(mechanism: AnyReports, coarseness: float = 1.0) -> PairCounts:
    reports, rate = one_round(mechanism, Side.UPPER)
    return ((_above(reports.randomizer, reports.users, rate, coarseness), reports.rounds),)


def _rough(mechanism: AnyReports, _: Adjacency) -> PairCounts:
    return _dominating(mechanism, ROUGH)


shuffled_bound = partial(
    bound, applies=needs(_has_known_blanket, "a known blanket, and at most 1e9 users")
)


@shuffled_bound(
    name="sampled_blanket_upper",
    of=SampledReports,
    holds_when="users are drawn without replacement; those of a round run the same randomizer with this "
    "blanket",
    proof="shuffle-proof",
    effort=Effort(rough=_rough),
)
@shuffled_bound(
    of=ShuffledReports,
    holds_when="all users of a round run the same local_epsilon-DP randomizer with this blanket",
    effort=Effort(rough=_rough),
)
def blanket_shuffled_upper(mechanism: AnyReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of shuffled reports whose randomizer has a known blanket.

    Formula: that of the module, proved there; with users who are drawn at rate g it is
    h(x) <= E[((1 - g)(1 - x) + g mean(Z_i))_+]. Numerics: certified values joined by chords, about 5e-5
    of epsilon too large.

    >>> coin = BlanketRandomizer(local_epsilon=1.0, blanket=0.3)
    >>> one = ShuffledReports(users=1, randomizer=coin)
    >>> pair = blanket_shuffled_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(pair.losses[0], 9), round(pair.losses[-1], 9)
    (-1.0, 1.0)
    >>> drawn = SampledReports(ShuffledReports(users=5, randomizer=coin), population=20)
    >>> pair = blanket_shuffled_upper(drawn, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 9) == round(1 + (math.e - 1) / 4, 9)
    True
    """
    return _dominating(mechanism)


@shuffled_bound(
    attained_when="the randomizer is one with few reports that has this blanket",
    source="balle2019 Section 5; girgis2021 Theorem 2 for users who are drawn",
)
def blanket_others_lower(mechanism: AnyReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports with a known blanket: one such randomizer, others hold one record.

    Formula: rows (a E, a, a, rest), (a, a E, a, rest), (a, a, a E, rest) if a (E + 2) <= 1, and all
    others hold the third; otherwise (a E, a, rest), (a, a E, rest), and all others hold the second.

    With users who are drawn at rate g: (1 - g) R + g P against (1 - g) R + g Q, where R is the law
    without the victim; seen from R^n, likelihood ratios X and Y of one report become 1 - g + g X and
    1 - g + g Y.

    Numerics: see `dominated`.

    >>> import numpy as np
    >>> three = BlanketRandomizer(local_epsilon=math.log(2.0), blanket=0.75)  # rows (2, 1, 1)/4
    >>> two = ShuffledReports(users=2, randomizer=three)
    >>> pair = blanket_others_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.log_hockey_stick(np.zeros(1))[0]), 9)  # 3/16, as for ternary response
    0.1875
    >>> coin = BlanketRandomizer(local_epsilon=1.0, blanket=0.5)
    >>> drawn = SampledReports(ShuffledReports(users=1, randomizer=coin), population=4)
    >>> pair = blanket_others_lower(drawn, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 6) == round(1 + (math.e - 1) / 4, 6)
    True
    """
    reports, rate = one_round(mechanism, Side.LOWER)
    return ((_below(reports.randomizer, reports.users, rate), reports.rounds),)


@lru_cache(maxsize=32)
def _above(randomizer: BlanketRandomizer, users: int, rate: float, coarseness: float) -> AtomicPair:
    """The pair that dominates n shuffled reports, on a subset drawn at this rate."""
    pair = _by_few_revealing(randomizer, users, rate, Side.UPPER)
    if pair is not None:
        return pair
    kinds = _kinds_above(randomizer, users, rate)
    if listed(kinds, Side.UPPER) is None:
        # sums with a smaller share than a thousandth of a report in a cap on average are no easier
        kinds = _kinds_above(randomizer, users, rate, 1e-3 / users)
    return dominating((kinds,), coarseness)


def _kinds_above(
    randomizer: BlanketRandomizer, users: int, rate: float, smallest: float = 0.0
) -> Reports:
    """The reports of the module's formula, with a share that is at least this."""
    odds = math.exp(randomizer.local_epsilon)
    (large, small, rest), _ = _rows(randomizer, _UP, smallest)
    weights = (small, small, rest, max(large - small, 0.0))
    kinds = Reports(weights, (odds, 1.0, 1.0, 0.0), (1.0, odds, 1.0, 0.0), users, rate)
    return _without_nothing(kinds)


def _by_few_revealing(
    randomizer: BlanketRandomizer, users: int, rate: float, side: Side
) -> AtomicPair | None:
    """The pair of few reports that reveal something, where other ones are less sharp; else None."""
    if randomizer.local_epsilon <= LARGEST_SUMMED:
        return None
    if listed(_kinds_above(randomizer, users, rate), Side.UPPER) is not None:
        return None
    share = _rows(randomizer, _UP if side is Side.UPPER else _DOWN)[0][1]
    return rare_reports(math.exp(randomizer.local_epsilon), share, users, rate, side)


def _without_nothing(reports: Reports) -> Reports:
    """The reports without kinds of no weight."""
    indices = [index for index, weight in enumerate(reports.weights) if weight > 0.0]
    weights, first, second = (
        tuple(values[index] for index in indices)
        for values in (reports.weights, reports.first, reports.second)
    )
    return replace(reports, weights=weights, first=first, second=second)


@lru_cache(maxsize=32)
def _below(randomizer: BlanketRandomizer, users: int, rate: float) -> AtomicPair:
    """A pair that n shuffled reports of one randomizer attain, on a subset drawn at this rate.

    All others hold a third record if the randomizer can have one, else the victim's second.
    """
    two = _rows(randomizer, _DOWN)
    (large, small, rest), _ = two
    if rest < small:
        return dominated(Reports.others_hold(two, 0, 1, 1, users, rate))
    rest -= small
    pair = _by_few_revealing(randomizer, users, rate, Side.LOWER)
    if pair is not None:
        return pair
    three = ((large, small, small, rest), (small, large, small, rest), (small, small, large, rest))
    return dominated(Reports.others_hold(three, 0, 1, 2, users, rate))
