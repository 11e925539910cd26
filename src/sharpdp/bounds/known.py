"""What is known of shuffled reports if their randomizer is: tables of chances, and pairs from both sides.

The pairs from above are those of blankets, or of all data sets; those from below of one real pair of data
sets. With a ``rate`` the users are drawn from more, each with this probability. No theorem is registered
here; `structured_shuffle` and `sampled_structured` do that.
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.atomic import AtomicPair
from sharpdp.curves.crowds import MOST_USERS, worst_crowd
from sharpdp.curves.datasets import few_datasets, over_all_datasets, worst_dataset
from sharpdp.curves.noisy_reports import binned_noise, noise_blanket
from sharpdp.curves.reports import Reports, dominated, dominating
from sharpdp.mechanisms import (
    DiscreteRandomizer,
    LocalLaplace,
    RandomizedResponse,
    SampledReports,
    ShuffledReports,
)

Rows = tuple[tuple[float, ...], ...]

MOST_PAIRS = 24
"""With more kinds of pairs of records than this, the bound on any shared randomizer has to do."""

LARGEST_NOISY = 12.0
"""Beyond this local epsilon a shuffler hides nothing that noise does not, and nothing more is said."""

COARSE = 2.5
"""How coarse the lower side of noise may be: cells and the choice of data sets cost more."""


def drawn_rate(mechanism: SampledReports, side: Side) -> float:
    """users / population, rounded to a side: profiles of drawn users grow with the rate.

    For x >= 1 they are convex in the rate, nowhere negative, and zero at zero. Next to one the last digit
    counts: users times what is missing to one is compared with the number of clones.

    >>> third = ShuffledReports(users=1, local_epsilon=1.0, population=3).parts()[0][0]
    >>> [3 * Fraction(drawn_rate(third, side)) > 1 for side in (Side.LOWER, Side.UPPER)]
    [False, True]
    """
    exact, nearest = Fraction(mechanism.reports.users, mechanism.population), mechanism.sample_rate
    if side is Side.UPPER:
        return math.nextafter(nearest, 1.0) if Fraction(nearest) < exact else nearest
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def has_own_blanket(reports: ShuffledReports) -> bool:
    """Whether the randomizer is known, with few enough kinds of pairs of records.

    The blanket of binary randomized response is the worst there is, so the bound on any shared
    randomizer says the same.
    """
    randomizer = reports.randomizer
    if isinstance(randomizer, DiscreteRandomizer):
        return 0 < len(_kinds(randomizer.matrix, reports.users)) <= MOST_PAIRS
    if isinstance(randomizer, RandomizedResponse):
        return randomizer.categories > 2
    return isinstance(randomizer, LocalLaplace) and _moderate(randomizer)


def has_known_rows(reports: ShuffledReports) -> bool:
    """Whether the chances of all reports are known, and do not differ beyond measure."""
    randomizer = reports.randomizer
    if isinstance(randomizer, LocalLaplace) and not _moderate(randomizer):
        return False
    return isinstance(randomizer, RandomizedResponse | LocalLaplace | DiscreteRandomizer)


def has_binary_crowd(reports: ShuffledReports) -> bool:
    """Whether reports are binary randomized response, of so many that crowds are taken in groups."""
    randomizer = reports.randomizer
    binary = isinstance(randomizer, RandomizedResponse) and randomizer.categories == 2
    return binary and reports.users <= MOST_USERS and not has_few_datasets(reports)


def has_few_datasets(reports: ShuffledReports) -> bool:
    """Whether the randomizer is a table and all data sets can be gone through."""
    randomizer = reports.randomizer
    if isinstance(randomizer, RandomizedResponse):
        return few_datasets(randomizer.categories, randomizer.categories, reports.users)
    if isinstance(randomizer, DiscreteRandomizer):
        matrix = randomizer.matrix
        return few_datasets(len(matrix), len(matrix[0]), reports.users)
    return False


def _moderate(noise: LocalLaplace) -> bool:
    """Whether there is so much noise that sums of its likelihood ratios can be told apart quickly."""
    return noise.local_epsilon <= LARGEST_NOISY


def own_blanket(reports: ShuffledReports, rate: float = 1.0) -> AtomicPair:
    """What the blanket of the randomizer bounds from above, whatever the others hold."""
    randomizer, users = reports.randomizer, reports.users
    if isinstance(randomizer, LocalLaplace):
        return _worst((noise_blanket(randomizer.local_epsilon, users, rate),))
    return _worst(_kinds(_table(randomizer), users, rate))


def every_dataset(reports: ShuffledReports, rate: float = 1.0) -> AtomicPair:
    """What no pair of data sets exceeds."""
    return _exhausted(_table(reports.randomizer, most=None), reports.users, rate)


@lru_cache(maxsize=32)
def any_binary_crowd(users: int, local_epsilon: float) -> AtomicPair:
    """What no pair of data sets exceeds if reports are binary randomized response."""
    return worst_crowd(users, local_epsilon)


def fixed_others(reports: ShuffledReports, rate: float = 1.0) -> AtomicPair:
    """What is attained if all others hold one record, the one that reveals most."""
    randomizer, users = reports.randomizer, reports.users
    if isinstance(randomizer, LocalLaplace):
        rows = binned_noise(randomizer.local_epsilon)
        pairs: Iterable[tuple[int, int]] = ((0, 1),)
    else:
        rows = _table(randomizer)
        pairs = combinations(range(len(rows)), 2)
    first, second, other = _most_informative(rows, pairs)
    coarseness = COARSE if isinstance(randomizer, LocalLaplace) else 1.0
    return _attained(Reports.others_hold(rows, first, second, other, users, rate), coarseness)


def chosen_dataset(reports: ShuffledReports, loss: float) -> AtomicPair:
    """What is attained by the data sets with the largest profile at this loss."""
    return _chosen(_table(reports.randomizer, most=None), reports.users, loss)


@lru_cache(maxsize=32)
def _chosen(rows: Rows, users: int, loss: float) -> AtomicPair:
    return worst_dataset(rows, users, loss)


@lru_cache(maxsize=32)
def _exhausted(rows: Rows, users: int, rate: float) -> AtomicPair:
    return over_all_datasets(rows, users, rate)


@lru_cache(maxsize=32)
def _worst(orders: tuple[Reports, ...]) -> AtomicPair:
    return dominating(orders)


@lru_cache(maxsize=32)
def _attained(reports: Reports, coarseness: float) -> AtomicPair:
    return dominated(reports, coarseness)


def _table(randomizer: object, most: int | None = 3) -> Rows:
    """The rows of the records, reports that play the same role put together.

    Of randomized response so many at most, or all: no more than three play different roles.
    """
    if isinstance(randomizer, DiscreteRandomizer):
        return randomizer.matrix
    assert isinstance(randomizer, RandomizedResponse)
    truth, others = math.exp(randomizer.local_epsilon), randomizer.categories
    total = truth + (others - 1.0)
    shown = others if most is None else min(others, most)
    rest = (float(others - shown),) if others > shown else ()
    return tuple(
        tuple(mass / total for mass in (*(truth if y == x else 1.0 for y in range(shown)), *rest))
        for x in range(shown)
    )


@lru_cache(maxsize=32)
def _kinds(rows: Rows, users: int, rate: float = 1.0) -> tuple[Reports, ...]:
    """The blankets of all pairs of records, equal ones once."""
    pairs = combinations(range(len(rows)), 2)
    every = (Reports.blanket(rows, x0, x1, users, rate) for x0, x1 in pairs)
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
