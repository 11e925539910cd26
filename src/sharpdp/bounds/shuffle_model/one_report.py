"""Bounds on one report of a local randomizer that is not shuffled: Laplace noise, or any table."""

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import combinations

import numpy as np

from sharpdp.bounds.registry import PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.mechanisms import Adjacency, DiscreteRandomizer, LocalLaplace
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import above_all
from sharpdp.pairs.pair import LaplacePair

__all__ = ["distinct_rows_lower", "extreme_rows_lower", "local_laplace_tight", "rows_upper"]

Rows = tuple[tuple[float, ...], ...]

bound = partial(register, source="blackwell1953")


@bound(
    holds_when="one user's value changes within [0, 1]",
    attained_when="it changes from 0 to 1",
    source="balle2018subsampling Theorem 3",
)
def local_laplace_tight(mechanism: LocalLaplace, adjacency: Adjacency) -> PairCounts:
    """Both sides of one report with Laplace noise: the values 0 and 1, as far apart as can be.

    Numerics: none but that of the pair.

    >>> local_laplace_tight(LocalLaplace(0.5), Adjacency.REPLACE_ONE)
    ((LaplacePair(epsilon=0.5), 1),)
    """
    if mechanism.local_epsilon == 0:
        return ((AtomicPair.from_pmfs([1.0], [1.0]), 1),)
    return ((LaplacePair(mechanism.local_epsilon), 1),)


@bound(
    holds_when="one user's record changes to any other; of several reports of that user, from the same "
    "record to the same other one"
)
def rows_upper(mechanism: DiscreteRandomizer, adjacency: Adjacency) -> PairCounts:
    """Upper side of one report: a pair that dominates every two rows of the matrix.

    With two rows it is these two. With more it has the largest of all their profiles at many ratios,
    joined by chords; a convex function above each of them.

    Numerics: masses are rounded to the safe side, by less than 2e-9 of themselves.

    >>> rows = DiscreteRandomizer([[0.75, 0.25], [0.25, 0.75]])
    >>> [round(loss, 6) for loss in rows_upper(rows, Adjacency.REPLACE_ONE)[0][0].losses]
    [-1.098612, 1.098612]
    """
    rows = tuple(dict.fromkeys(mechanism.matrix))
    if len(rows) <= 2:
        return ((AtomicPair.from_pmfs(rows[0], rows[-1]), 1),)
    return ((_above_all(rows), 1),)


@lru_cache(maxsize=32)
def _above_all(rows: Rows) -> AtomicPair:
    return above_all([AtomicPair.from_pmfs(*pair) for pair in combinations(rows, 2)])


@bound(attained_when="the two records with the largest ratio in a column occur, in every round")
def extreme_rows_lower(mechanism: DiscreteRandomizer, adjacency: Adjacency) -> PairCounts:
    """Lower side of one report: the two rows with the largest ratio of probabilities.

    Numerics: the masses are the given doubles.

    >>> rows = DiscreteRandomizer([[0.5, 0.5], [0.6, 0.4], [0.25, 0.75]])
    >>> pair = extreme_rows_lower(rows, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.losses[-1])), 12)  # 0.6 against 0.25
    2.4
    """

    def ratio(first: int, second: int) -> float:
        table = np.array(mechanism.matrix)
        logs = np.log(table[:, np.max(table, axis=0) > 0.0])
        return float(np.max(np.abs(logs[first] - logs[second])))

    return _two_rows(mechanism.matrix, ratio)


@bound(attained_when="the two records with the largest total variation occur, in every round")
def distinct_rows_lower(mechanism: DiscreteRandomizer, adjacency: Adjacency) -> PairCounts:
    """Lower side of one report: the two rows with the largest total variation.

    Numerics: the masses are the given doubles.

    >>> rows = DiscreteRandomizer([[0.5, 0.5], [0.6, 0.4], [0.25, 0.75]])
    >>> pair = distinct_rows_lower(rows, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 12)
    0.35
    """

    def variation(first: int, second: int) -> float:
        table = np.array(mechanism.matrix)
        return float(np.sum(np.abs(table[first] - table[second])))

    return _two_rows(mechanism.matrix, variation)


def _two_rows(rows: Rows, score: Callable[[int, int], float]) -> PairCounts:
    """The two rows with the largest score."""
    first, second = max(combinations(range(len(rows)), 2), key=lambda places: score(*places))
    return ((AtomicPair.from_pmfs(rows[first], rows[second]), 1),)
