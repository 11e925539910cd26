"""What is known of shuffled reports if their randomizer is: tables of chances, and pairs from both sides.

The pairs from above are those of blankets, or of all data sets; those from below of one real pair of data
sets. With a ``rate`` the users are drawn from more, each with this probability. The theorems are in
`known_randomizer`.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

import numpy as np

from sharpdp.bounds.shuffle_model.all_datasets import (
    MOST_USERS,
    all_likely,
    few_datasets,
    over_all_datasets,
    some_datasets,
    telling_datasets,
    worst_binary_dataset,
)
from sharpdp.bounds.shuffle_model.laplace_reports import binned_noise, noise_blanket
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import (
    Reports,
    dominated,
    dominating,
    merged_reports,
)
from sharpdp.bracket import Side
from sharpdp.mechanisms.local import DiscreteRandomizer, LocalLaplace, RandomizedResponse
from sharpdp.mechanisms.shuffle import SampledReports, ShuffledReports
from sharpdp.numerics.special import Array
from sharpdp.pairs.finite import AtomicPair

AnyReports = ShuffledReports | SampledReports
"""Reports of all users, or of users who are drawn."""

Rows = tuple[tuple[float, ...], ...]
Triple = tuple[int, int, int]
"""The two records of the victim, and that of all others."""

LARGEST_NOISY = 12.0
"""Beyond this local epsilon a shuffler hides nothing that noise does not, and nothing more is said."""

ROUGH = 5.0
"""How coarse an upper side may be that is asked before the final one: by 1e-3 of epsilon."""

COARSE = 2.5
"""How coarse the lower side may be with many reports, or if it decides for few questions."""


# Every question asks for the same pairs again.
any_binary_crowd = lru_cache(maxsize=32)(worst_binary_dataset)
_chosen = lru_cache(maxsize=32)(telling_datasets)
_exhausted = lru_cache(maxsize=32)(over_all_datasets)
_worst = lru_cache(maxsize=32)(dominating)
_attained = lru_cache(maxsize=32)(dominated)


def drawn_rate(mechanism: SampledReports, side: Side) -> float:
    """users / population, rounded to a side: profiles of drawn users grow with the rate.

    For x >= 1 they are convex in the rate, nowhere negative, and zero at zero. Next to one the last digit
    counts: users times what is missing to one is compared with the number of clones.

    >>> third = ShuffledReports(users=1, local_epsilon=1.0, population=3).parts()[0][0]
    >>> [3 * Fraction(drawn_rate(third, side)) > 1 for side in (Side.LOWER, Side.UPPER)]
    [False, True]
    """
    return rounded_rate(mechanism.reports.users, mechanism.population, side)


def rounded_rate(users: int, population: int, side: Side) -> float:
    """users / population, rounded to a side."""
    exact, nearest = Fraction(users, population), users / population
    if side is Side.UPPER:
        return math.nextafter(nearest, 1.0) if Fraction(nearest) < exact else nearest
    return math.nextafter(nearest, 0.0) if Fraction(nearest) > exact else nearest


def one_round(mechanism: AnyReports, side: Side) -> tuple[ShuffledReports, float]:
    """The reports of a round, and the rate at which a user takes part in it, rounded to a side."""
    if isinstance(mechanism, SampledReports):
        return mechanism.reports, drawn_rate(mechanism, side)
    return mechanism, 1.0


def reports_of(mechanism: AnyReports) -> ShuffledReports:
    """The reports of a round."""
    return mechanism.reports if isinstance(mechanism, SampledReports) else mechanism


def randomizer_of(mechanism: AnyReports) -> object:
    """The randomizer that each user runs; None for sampled rounds that are not taken apart yet."""
    reports = reports_of(mechanism)
    return reports.randomizer if reports.population is None else None


def is_response(mechanism: AnyReports, *categories: int) -> bool:
    """True if reports are randomized response with one of these numbers of categories."""
    randomizer = randomizer_of(mechanism)
    return isinstance(randomizer, RandomizedResponse) and randomizer.categories in categories


def has_own_blanket(mechanism: AnyReports) -> bool:
    """True if the randomizer is known, with few enough kinds of pairs of records.

    The blanket of binary randomized response is the worst there is, so the bound on any shared
    randomizer says the same.
    """
    randomizer = randomizer_of(mechanism)
    if isinstance(randomizer, DiscreteRandomizer):
        return bool(_kinds(randomizer.matrix, reports_of(mechanism).users))
    if isinstance(randomizer, RandomizedResponse):
        return randomizer.categories > 2
    return isinstance(randomizer, LocalLaplace) and _moderate(randomizer)


def has_known_rows(mechanism: AnyReports) -> bool:
    """True if the chances of all reports are known, and do not differ beyond measure."""
    randomizer = randomizer_of(mechanism)
    if isinstance(randomizer, LocalLaplace) and not _moderate(randomizer):
        return False
    return isinstance(randomizer, RandomizedResponse | LocalLaplace | DiscreteRandomizer)


def has_binary_reports(mechanism: ShuffledReports) -> bool:
    """True if reports are binary randomized response, of few enough users to group their data sets."""
    return is_response(mechanism, 2) and mechanism.users <= MOST_USERS


def has_few_datasets(mechanism: AnyReports) -> bool:
    """True if the randomizer is a table and all data sets can be gone through, with all their counts."""
    randomizer, users = randomizer_of(mechanism), reports_of(mechanism).users
    if isinstance(randomizer, RandomizedResponse):
        few = few_datasets(randomizer.categories, randomizer.categories, users)
    elif isinstance(randomizer, DiscreteRandomizer):
        few = few_datasets(len(randomizer.matrix), len(randomizer.matrix[0]), users)
    else:
        return False
    return few and all_likely(_table(randomizer, limit=None), users)


def has_some_datasets(mechanism: ShuffledReports) -> bool:
    """True if the randomizer is a table and its plainest data sets can be gone through."""
    randomizer = randomizer_of(mechanism)
    if not isinstance(randomizer, RandomizedResponse | DiscreteRandomizer):
        return False
    rows = _chosen_rows(randomizer, mechanism.users)
    size = len(rows), len(rows[0]), mechanism.users
    return few_datasets(*size) or some_datasets(*size)


def _chosen_rows(randomizer: object, users: int) -> Rows:
    """The rows of all records, if all data sets can be gone through, else of those that differ."""
    if isinstance(randomizer, RandomizedResponse):
        every = few_datasets(randomizer.categories, randomizer.categories, users)
        return _table(randomizer, limit=None if every else 3)
    return _table(randomizer)


def _moderate(noise: LocalLaplace) -> bool:
    """True if there is so much noise that sums of its likelihood ratios can be told apart quickly."""
    return noise.local_epsilon <= LARGEST_NOISY


def own_blanket(reports: ShuffledReports, rate: float = 1.0, coarseness: float = 1.0) -> AtomicPair:
    """The pair that dominates by the randomizer's own blanket, whatever the others hold."""
    randomizer, users = reports.randomizer, reports.users
    if isinstance(randomizer, LocalLaplace):
        return _worst((noise_blanket(randomizer.local_epsilon, users, rate),), coarseness)
    return _worst(_kinds(_table(randomizer), users, rate), coarseness)


def every_dataset(reports: ShuffledReports, rate: float = 1.0) -> AtomicPair:
    """The pair that dominates all pairs of neighboring data sets."""
    return _exhausted(_table(reports.randomizer, limit=None), reports.users, rate)


def fixed_others(reports: ShuffledReports, rate: float = 1.0) -> AtomicPair:
    """The pair that is attained if all others hold one record, the one that reveals most."""
    return _others_hold(reports, rate, _most_informative)


def sure_others(reports: ShuffledReports, rate: float = 1.0) -> AtomicPair:
    """The pair that is attained if all others hold the record that makes the largest loss most likely."""
    return _others_hold(reports, rate, _most_extreme, COARSE)


def _others_hold(
    reports: ShuffledReports,
    rate: float,
    choice: Callable[[Array, int], Triple],
    coarseness: float = 1.0,
) -> AtomicPair:
    randomizer = reports.randomizer
    noisy = isinstance(randomizer, LocalLaplace)
    rows = binned_noise(reports.local_epsilon) if noisy else _table(randomizer)
    table = np.array(rows)
    # of noise the victim holds 0 or 1, the others may hold more
    victims = 2 if noisy else len(rows)
    three = merged_reports(table[list(choice(table, victims))], limit=64)
    if three.shape[1] > 8:  # up to so many reports it is found quickly
        coarseness *= COARSE
    return _attained(Reports.others_hold(three, 0, 1, 2, reports.users, rate), coarseness)


def chosen_dataset(reports: ShuffledReports, index: int) -> AtomicPair:
    """The pair of one of a few data sets that are told apart well, the first one best of all."""
    randomizer, users = reports.randomizer, reports.users
    rows = _chosen_rows(randomizer, users)
    # all pairs of records of randomized response are alike
    victims = 2 if isinstance(randomizer, RandomizedResponse) else len(rows)
    return _chosen(rows, users, 3, victims)[index]


def split_coins(users: int, local_epsilon: float) -> AtomicPair:
    """The pair of binary randomized response in the data sets that are told apart best."""
    coin = RandomizedResponse(local_epsilon=local_epsilon)
    return chosen_dataset(ShuffledReports(users=users, randomizer=coin), 0)


def _table(randomizer: object, limit: int | None = 3) -> Rows:
    """The rows of the records, reports that play the same role put together.

    Of randomized response so many at most, or all: no more than three play different roles.
    """
    if isinstance(randomizer, DiscreteRandomizer):
        return randomizer.matrix
    assert isinstance(randomizer, RandomizedResponse)
    truth, others = math.exp(randomizer.local_epsilon), randomizer.categories
    total = truth + (others - 1.0)
    shown = others if limit is None else min(others, limit)
    rest = (float(others - shown),) if others > shown else ()
    return tuple(
        tuple(mass / total for mass in (*(truth if y == x else 1.0 for y in range(shown)), *rest))
        for x in range(shown)
    )


@lru_cache(maxsize=32)
def _kinds(rows: Rows, users: int, rate: float = 1.0) -> tuple[Reports, ...]:
    """The blankets of all pairs of records, equal ones once; none if there are too many."""
    if len(rows) > 64:
        return ()
    kinds: dict[object, Reports] = {}
    for x0, x1 in combinations(range(len(rows)), 2):
        blanket = Reports.blanket(rows, x0, x1, users, rate)
        if blanket.first != blanket.second:
            kinds.setdefault(min(blanket.law, blanket.swapped().law), blanket)
        # with more kinds the bound on any shared randomizer has to do
        if len(kinds) > 24:
            return ()
    return tuple(kinds.values())


def _most_informative(table: Array, victims: int) -> Triple:
    """The x0 < x1 < victims and r with the largest sum of (R_x0 - R_x1)^2 / R_r."""
    table = table[:, np.max(table, axis=0) > 0.0]
    # so many products are formed at most; of more records only some are tried
    step = -(-table.shape[0] * victims**2 * table.shape[1] // 10**9)
    best, triple = -1.0, (0, 1, 0)
    for other in range(0, len(table), step):
        scaled = table[:victims] / np.sqrt(table[other])
        norms, products = np.sum(scaled**2, axis=1), scaled @ scaled.T
        gaps = np.triu(norms[:, None] + norms - 2.0 * products, 1)
        index = int(np.argmax(gaps))
        if gaps.flat[index] >= best:
            best, triple = float(gaps.flat[index]), (*divmod(index, victims), other)
    return triple


def _most_extreme(table: Array, victims: int) -> Triple:
    """The x0, x1 < victims and r with which the report of largest loss is most often that of everybody.

    The loss of n reports is largest if each of them is; the others send these most often if they hold r.
    """
    table = table[:, np.max(table, axis=0) > 0.0]
    ratios = np.max(table[:victims], axis=0) / np.min(table[:victims], axis=0)
    # reports with the same largest ratio: the most likely one
    often = np.max(table, axis=0) * (ratios >= np.max(ratios) * (1.0 - 1e-9))
    report = int(np.argmax(often))
    column = table[:, report]
    high, low = int(np.argmax(column[:victims])), int(np.argmin(column[:victims]))
    return (high, low, int(np.argmax(column)))
