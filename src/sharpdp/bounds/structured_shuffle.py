"""Bounds on shuffled reports whose randomizer is known: randomized response, noise, or a table.

Upper sides use what all records have in common (the blanket), lower sides one real pair of data sets:
one user holds either of two records, all others hold a third. Both are pairs of `curves.reports`.
"""

import math
from collections.abc import Iterable
from functools import lru_cache
from itertools import combinations

import numpy as np

from sharpdp.bounds.registry import Pieces, bound
from sharpdp.bracket import Rigor, Side
from sharpdp.curves.atomic import AtomicPair
from sharpdp.curves.datasets import few_datasets, over_all_datasets, worst_dataset
from sharpdp.curves.noisy_reports import binned_noise, noise_blanket
from sharpdp.curves.reports import Reports, dominated, dominating
from sharpdp.mechanisms import (
    Adjacency,
    DiscreteRandomizer,
    LocalLaplace,
    RandomizedResponse,
    ShuffledReports,
)

__all__ = [
    "distinct_dataset_lower",
    "every_dataset_upper",
    "fixed_others_lower",
    "own_blanket_upper",
    "revealing_dataset_lower",
]

Rows = tuple[tuple[float, ...], ...]

MOST_PAIRS = 24
"""With more kinds of pairs of records than this, the bound on any shared randomizer has to do."""

LARGEST_NOISY = 12.0
"""Beyond this local epsilon a shuffler hides nothing that noise does not, and nothing more is said."""

MODERATE = 4.0
"""The share of the local epsilon at which data sets are compared besides zero."""


def _structured(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer is known, with few enough kinds of pairs of records.

    The blanket of binary randomized response is the worst there is, so the bound on any shared
    randomizer says the same.
    """
    randomizer = mechanism.randomizer
    if mechanism.population is not None:
        return False
    if isinstance(randomizer, DiscreteRandomizer):
        return 0 < len(_kinds(randomizer.matrix, mechanism.users)) <= MOST_PAIRS
    if isinstance(randomizer, RandomizedResponse):
        return randomizer.categories > 2
    return isinstance(randomizer, LocalLaplace) and _moderate(randomizer)


def _moderate(noise: LocalLaplace) -> bool:
    """Whether there is so much noise that sums of its likelihood ratios can be told apart quickly."""
    return noise.local_epsilon <= LARGEST_NOISY


def _known(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer is known, and so are the users: those who are drawn reveal less."""
    randomizer = mechanism.randomizer
    if isinstance(randomizer, LocalLaplace) and not _moderate(randomizer):
        return False
    exact = isinstance(randomizer, RandomizedResponse | LocalLaplace | DiscreteRandomizer)
    return exact and mechanism.population is None


@bound(
    of=ShuffledReports,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="all users of a round run the given randomizer, each once and independently",
    source="balle2019 Lemma 5.3",
    applies=_structured,
)
def own_blanket_upper(mechanism: ShuffledReports, adjacency: Adjacency) -> Pieces:
    """Upper side of shuffled reports of a known randomizer: its own blanket hides one user.

        w(y) = min_x R_x(y),  h(l) <= E[(sum_i B_i (R_x0(y_i) - l R_x1(y_i)) / w(y_i))_+] / n

    with B_i of mean sum(w) and y_i from w / sum(w), the largest over all pairs of records x0, x1. The
    right side is the profile of a pair, so it composes. For k-ary randomized response all pairs are
    alike. For Laplace noise on [0, 1] the values 0 and 1 are the worst, as `curves.noisy_reports` proves.

    Holds when: the n reports are independent, and only their multiset is seen.

    Numerics: certified values joined by chords, about 5e-5 of epsilon too large; noise is spread onto
    the ends of its cells.

    Source: balle2019 Lemma 5.3.

    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=1, randomizer=coin)
    >>> pair = own_blanket_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> [round(loss, 12) for loss in pair.losses]
    [-1.0, 1.0]
    """
    randomizer, users = mechanism.randomizer, mechanism.users
    if isinstance(randomizer, LocalLaplace):
        return ((_worst((noise_blanket(randomizer.local_epsilon, users),)), mechanism.rounds),)
    return ((_worst(_kinds(_table(randomizer), users)), mechanism.rounds),)


@bound(
    of=ShuffledReports,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="one user holds either of two records and all others hold a third, in every round",
    source="balle2019 Section 5",
    applies=_known,
)
def fixed_others_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> Pieces:
    """Lower side of shuffled reports of a known randomizer: all other users hold one record r.

        h(l) = E[(sum_i (R_x0(y_i) - l R_x1(y_i)) / R_r(y_i))_+] / n,   y_i from R_r

    is exact for these two data sets. Taken are the x0, x1, r with the largest
    sum_y (R_x0(y) - R_x1(y))^2 / R_r(y), which decides for many users. Noise is seen through cells.

    Holds when: the same two data sets are used in every round.

    Numerics: all results listed if there are few; otherwise certified values joined by extended
    chords, about 1e-4 of epsilon too small.

    Source: balle2019 Section 5.

    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=2, randomizer=coin)
    >>> len(fixed_others_lower(one, Adjacency.REPLACE_ONE)[0][0].losses)  # 0, 1 or 2 ones
    3
    """
    randomizer, users = mechanism.randomizer, mechanism.users
    if isinstance(randomizer, LocalLaplace):
        rows = binned_noise(randomizer.local_epsilon)
        pairs: Iterable[tuple[int, int]] = ((0, 1),)
    else:
        rows = _table(randomizer)
        pairs = combinations(range(len(rows)), 2)
    first, second, other = _most_informative(rows, pairs)
    return ((_attained(Reports.others_hold(rows, first, second, other, users)), mechanism.rounds),)


def _few(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer is a table and all data sets can be gone through."""
    randomizer = mechanism.randomizer
    if mechanism.population is not None:
        return False
    if isinstance(randomizer, RandomizedResponse):
        return few_datasets(randomizer.categories, randomizer.categories, mechanism.users)
    if isinstance(randomizer, DiscreteRandomizer):
        matrix = randomizer.matrix
        return few_datasets(len(matrix), len(matrix[0]), mechanism.users)
    return False


@bound(
    of=ShuffledReports,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="all users of a round run the given randomizer, each once and independently",
    source="blackwell1953",
    applies=_few,
)
def every_dataset_upper(mechanism: ShuffledReports, adjacency: Adjacency) -> Pieces:
    """Upper side of few shuffled reports of a known randomizer: the worst of all data sets.

    The largest profile over everything that the other users may hold, and over all pairs of records of
    one user, joined by chords. Which data set is the worst depends on epsilon: for binary randomized
    response it is mostly, but not always, the one in which all others hold the same.

    Holds when: the n reports are independent, and only their multiset is seen.

    Numerics: masses are rounded to the safe side, by less than 1e-8 of themselves.

    Source: blackwell1953.

    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> pair = every_dataset_upper(ShuffledReports(users=2, randomizer=coin), Adjacency.REPLACE_ONE)
    >>> round(float(np.exp(pair[0][0].log_otm(np.zeros(1))[0])), 6)  # 9/16 - 3/16
    0.375
    """
    return ((_exhausted(_whole_table(mechanism.randomizer), mechanism.users), mechanism.rounds),)


@bound(
    of=ShuffledReports,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="the data sets of all that are easiest to tell apart occur, in every round",
    source="blackwell1953",
    applies=_few,
)
def distinct_dataset_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> Pieces:
    """Lower side of few shuffled reports: the data sets with the largest total variation.

    Holds when: the same two data sets are used in every round.

    Numerics: sums of positive products, with their rounding counted.

    Source: blackwell1953.

    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> two = ShuffledReports(users=2, randomizer=coin)
    >>> pair = distinct_dataset_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_otm(np.zeros(1))[0])), 12)
    0.375
    """
    rows, users = _whole_table(mechanism.randomizer), mechanism.users
    return ((_chosen(rows, users, 0.0), mechanism.rounds),)


@bound(
    of=ShuffledReports,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="the data sets of all that reveal most beyond a quarter of the local epsilon occur, in "
    "every round",
    source="blackwell1953",
    applies=_few,
)
def revealing_dataset_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> Pieces:
    """Lower side of few shuffled reports: the data sets with the largest delta at local_epsilon / 4.

    Holds when: the same two data sets are used in every round.

    Numerics: sums of positive products, with their rounding counted.

    Source: blackwell1953.

    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> two = ShuffledReports(users=2, randomizer=coin)
    >>> pair = revealing_dataset_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 12)  # 9/16 against 3/16
    3.0
    """
    rows, users = _whole_table(mechanism.randomizer), mechanism.users
    return ((_chosen(rows, users, mechanism.local_epsilon / MODERATE), mechanism.rounds),)


@lru_cache(maxsize=32)
def _chosen(rows: Rows, users: int, loss: float) -> AtomicPair:
    return worst_dataset(rows, users, loss)


@lru_cache(maxsize=32)
def _exhausted(rows: Rows, users: int) -> AtomicPair:
    return over_all_datasets(rows, users)


def _whole_table(randomizer: object) -> Rows:
    """All rows of a table, also of k-ary randomized response."""
    if isinstance(randomizer, DiscreteRandomizer):
        return randomizer.matrix
    assert isinstance(randomizer, RandomizedResponse)
    truth, categories = math.exp(randomizer.local_epsilon), randomizer.categories
    total = truth + (categories - 1.0)
    return tuple(
        tuple((truth if y == x else 1.0) / total for y in range(categories))
        for x in range(categories)
    )


@lru_cache(maxsize=32)
def _worst(orders: tuple[Reports, ...]) -> AtomicPair:
    return dominating(orders)


@lru_cache(maxsize=32)
def _attained(reports: Reports) -> AtomicPair:
    return dominated(reports)


def _table(randomizer: object) -> Rows:
    """The rows of the records that matter, reports that play the same role put together."""
    if isinstance(randomizer, DiscreteRandomizer):
        return randomizer.matrix
    assert isinstance(randomizer, RandomizedResponse)
    truth, others = math.exp(randomizer.local_epsilon), randomizer.categories
    total = truth + (others - 1.0)
    shown = min(others, 3)
    rest = (others - 3.0,) if others > 3 else ()
    return tuple(
        tuple(mass / total for mass in (*(truth if y == x else 1.0 for y in range(shown)), *rest))
        for x in range(shown)
    )


@lru_cache(maxsize=32)
def _kinds(rows: Rows, users: int) -> tuple[Reports, ...]:
    """The blankets of all pairs of records, equal ones once."""
    every = (Reports.blanket(rows, x0, x1, users) for x0, x1 in combinations(range(len(rows)), 2))
    found: dict[object, Reports] = {}
    for one in every:
        if one.first != one.second:
            found.setdefault(min(one.law, one.swapped().law), one)
    return tuple(found.values())


def _most_informative(rows: Rows, pairs: Iterable[tuple[int, int]]) -> tuple[int, int, int]:
    """The x0, x1 and r with the largest sum of (R_x0 - R_x1)^2 / R_r."""
    table = np.array(rows)
    table = table[:, np.max(table, axis=0) > 0.0]
    best = max(
        (float(np.sum((table[x0] - table[x1]) ** 2 / table[r])), x0, x1, r)
        for x0, x1 in pairs
        for r in range(len(rows))
    )
    return best[1:]
