"""Pairs of neighboring data sets, one by one: all of few users, the plainest of more.

The reports of n users are seen as how often each report occurs. The others hold any multiset of
records; one user holds either of two. Probabilities of counts are sums of products of positive
numbers, so they keep their relative accuracy.

If the users are drawn from more, that one takes part at some rate g. Draw as many users T among the
rest, and one of them, j: if the user is absent, T reports, else T without j and with the user. Whoever is
told T, but not j, sees (1 - g) [T] + g mean_j [T - j + x]. To be told more can only help: H_x is jointly
convex.

Binary randomized response with more users: the others may hold any number of zeros and ones. Let f be the
masses of S, the number of ones that n - 1 others report, w = 1/(E + 1) and l >= 1. If one user holds 1
against 0, the number of all ones is more likely to be large, and

    H_l = max_s (1 - w - l w) f(s - 1) - (l - 1) P[S >= s]:

S is a sum of independent coins, so f is log-concave and the best test rejects from some s on. One user
more in the crowd can only hide better, since whoever sees the others may add a report. So all crowds with
k to k + d zeros are dominated by the one with k zeros and as many ones as each of them has. With the
symbols exchanged a crowd is its mirror image, and the victim's two records change places.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations, permutations, product

import numpy as np

from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, thresholds
from sharpdp.bracket import Side
from sharpdp.numerics.counts import log_mass
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import above_all, calls_above, pair_from_halves

MOST_TERMS = 30_000_000
"""So many terms are added up to find the laws of a few data sets, constant and split ones."""

LEAST_MASS = 1e-250
"""Less likely counts are left out on the lower side; on the upper one all must be more likely."""

SPLITS = (7, 3)
"""In how many ways the others are split between two records: the most that can be gone through."""

MOST_PLACES = 40_000
"""Data sets times different counts that are gone through."""

MOST_KINDS = 16
"""With more records or reports there are too many counts for even two users."""


def few_datasets(records: int, reports: int, users: int) -> bool:
    """True if all data sets can be gone through."""
    if max(records, reports) > MOST_KINDS or users > MOST_PLACES:
        return False
    datasets = math.comb(users + records - 2, records - 1) * math.comb(records, 2)
    return bool(datasets * (users + 1) ** (reports - 1) <= MOST_PLACES)


def some_datasets(records: int, reports: int, users: int) -> bool:
    """True if the data sets in which the others hold one record, or two, can be gone through."""
    if max(records, reports) > MOST_KINDS:
        return False
    return _terms(SPLITS[-1], records, reports, users) <= MOST_TERMS


def _terms(splits: int, records: int, reports: int, users: int) -> int:
    """The number of terms to be added if the others hold one record, or are split in several ways."""
    crowds = records + splits * math.comb(records, 2)
    return int(crowds * users * reports * (users + 1) ** (reports - 1))


def all_likely(rows: Sequence[Sequence[float]], users: int) -> bool:
    """True if no counts are so unlikely that their probabilities lose digits."""
    smallest = min(mass for row in rows for mass in row if mass > 0.0)
    return users * math.log(smallest) > math.log(LEAST_MASS)


def over_all_datasets(rows: Sequence[Sequence[float]], users: int, rate: float = 1.0) -> AtomicPair:
    """A pair that dominates the shuffled reports of all neighboring data sets, also of drawn users.

    >>> flip = [[0.75, 0.25], [0.25, 0.75]]
    >>> pair = over_all_datasets(flip, 2)  # counts 0, 1, 2: (9, 6, 1)/16 against (3, 10, 3)/16
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 6)
    0.375
    """
    return above_all(list(_pairs(rows, users, rate)))


def telling_datasets(
    rows: Sequence[Sequence[float]], users: int, count: int, victims: int
) -> list[AtomicPair]:
    """Pairs of neighboring data sets that together come close to the worst one at every loss.

    One user holds either of two of the first `victims` records, the others hold any, or one or two if
    there are too many data sets. The first pair has the largest total variation. Each further one has the
    largest profile at the loss where those before it fall most behind, the one that is worst at the
    largest losses included. Any choice is safe, so the profiles that decide it need not be exact.

    >>> flip = [[0.75, 0.25], [0.25, 0.75]]
    >>> pair = telling_datasets(flip, 3, 1, 2)[0]  # the others hold one of each record
    >>> round(
    ...     float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 12
    ... )  # (3/4 - 1/4) (9 + 1)/16
    0.3125
    """
    table = np.array(rows, dtype=float)
    ratios = np.exp(np.linspace(0.0, _largest_loss(table), 64, endpoint=False))
    pairs = [
        (p.ravel(), q.ravel())
        for others in _gone_through(table, users)
        for p, q in permutations([_with_user(others, row) for row in table[:victims]], 2)
    ]
    values = np.array([_profile(p, q, ratios) for p, q in pairs])
    largest = np.maximum(np.max(values, axis=0), LEAST_MASS)
    chosen, index = [int(np.argmax(values[:, -1]))], 0
    for _ in range(count):
        chosen.append(int(np.argmax(values[:, index])))
        index = int(np.argmin(np.max(values[chosen], axis=0) / largest))
    return [_pair(*pairs[row], table.shape[1], users, LEAST_MASS) for row in chosen[1:]]


def _largest_loss(table: Array) -> float:
    """The largest loss of one report."""
    possible = table[:, np.min(table, axis=0) > 0.0]
    return float(np.max(np.log(np.max(possible, axis=0) / np.min(possible, axis=0))))


def _profile(p: Array, q: Array, ratios: Array) -> Array:
    """The sum of (one - x other)_+ for every ratio x, rounded."""
    possible = (p > LEAST_MASS) & (q > LEAST_MASS)
    p, q = p[possible], q[possible]
    order = np.argsort(q / p)  # the largest ratios first
    above = np.searchsorted(-(p / q)[order], -ratios)
    sums = (np.append(0.0, np.cumsum(mass[order]))[above] for mass in (p, q))
    return np.asarray(np.maximum(next(sums) - ratios * next(sums), 0.0))


def _gone_through(table: Array, users: int) -> Iterator[Array]:
    """The laws of the counts of the others, for all they may hold, or for one record or two."""
    size = len(table), table.shape[1], users
    if few_datasets(*size):
        return (law for law, _ in _crowds(table, users, 1.0))
    splits = next((count for count in SPLITS if _terms(count, *size) <= MOST_TERMS), SPLITS[-1])
    return _plain(table, users - 1, splits)


def _plain(rows: Array, users: int, splits: int) -> Iterator[Array]:
    """The laws of the counts of this many users who all hold one record, or in part another."""
    shape = (users + 2,) * (rows.shape[1] - 1)
    empty = np.zeros(shape)
    empty[(0,) * len(shape)] = 1.0
    places = {round(part * users / (splits + 1)) for part in range(1, splits + 1)}
    for first, row in enumerate(rows):
        law = empty
        for held in range(users + 1):
            if held == users:
                yield law
            elif held in places and held:
                for other in rows[first + 1 :]:
                    mixed = law
                    for _ in range(users - held):
                        mixed = _with_user(mixed, other)
                    yield mixed
            law = _with_user(law, row) if held < users else law


def _pairs(rows: Sequence[Sequence[float]], users: int, rate: float = 1.0) -> Iterator[AtomicPair]:
    """The pairs of all neighboring data sets, each in one order."""
    table = np.array(rows, dtype=float)
    for others, absent in _crowds(table, users, rate):
        laws = [rate * _with_user(others, row) + absent for row in table]
        for p, q in combinations(laws, 2):
            yield _pair(p, q, table.shape[1], users)


def _pair(p: Array, q: Array, reports: int, users: int, smallest: float = 0.0) -> AtomicPair:
    """The pair of two laws of counts, without what is at most so likely."""
    # each user adds a sum of as many products as there are reports
    error = 16.0 * UNIT_ROUNDOFF * (users + 1) * (1 + reports)
    possible = (p > smallest) & (q > smallest)
    pair = AtomicPair.from_rounded_pmfs(p[possible], q[possible])
    return replace(pair, loss_error=pair.loss_error + error, mass_error=error)


def _crowds(rows: Array, users: int, rate: float) -> Iterator[tuple[Array, Array]]:
    """Laws of the counts of all other users, and of those who report without the one, times 1 - rate."""
    shape = (users + 1,) * (rows.shape[1] - 1)
    empty = np.zeros(shape)
    empty[(0,) * len(shape)] = 1.0
    others = dict(_others(rows, users - 1, empty, ()))
    if rate == 1.0:
        yield from ((law, np.zeros(shape)) for law in others.values())
        return
    for crowd, law in _others(rows, users, empty, ()):
        mean = np.zeros(shape)
        for record, times in enumerate(crowd):
            if times:
                left = (*crowd[:record], times - 1, *crowd[record + 1 :])
                mean += (times / users) * others[left]
        yield mean, (1.0 - rate) * law


Crowd = tuple[int, ...]
"""How many users hold each record."""


def _others(rows: Array, users: int, law: Array, before: Crowd) -> Iterator[tuple[Crowd, Array]]:
    """The laws of the counts of this many users, for every multiset of records, on top of a law."""
    if len(rows) == 1:
        for _ in range(users):
            law = _with_user(law, rows[0])
        yield (*before, users), law
        return
    for taken in range(users + 1):
        yield from _others(rows[1:], users - taken, law, (*before, taken))
        if taken < users:
            law = _with_user(law, rows[0])


def _with_user(law: Array, row: Array) -> Array:
    """The law of the counts with one more report from this row; the last report is not counted."""
    total = row[-1] * law
    for axis, chance in enumerate(row[:-1]):
        shifted = np.zeros_like(law)
        target = [slice(None)] * law.ndim
        source = [slice(None)] * law.ndim
        target[axis], source[axis] = slice(1, None), slice(None, -1)
        shifted[tuple(target)] = law[tuple(source)]
        total = total + chance * shifted
    return np.asarray(total)


MOST_USERS = 20_000
"""With more users the laws of the crowds take too long."""


WIDTHS, MOST_CROWDS = (0.05, 0.1, 0.2), 6000
"""How wide groups of data sets may be, and so many are gone through if that is enough."""


def worst_binary_dataset(users: int, local_epsilon: float) -> AtomicPair:
    """A pair that dominates shuffled binary randomized response, whatever the others hold.

    >>> alone = worst_binary_dataset(1, float(np.log(3.0)))
    >>> round(float(np.exp(alone.log_hockey_stick(np.array([0.0]))[0])), 6)  # 3/4 - 1/4
    0.5
    """
    lie = _lie(local_epsilon)
    rows = [[1.0 - lie, lie], [lie, 1.0 - lie]]
    losses = thresholds([Reports.others_hold(rows, 0, 1, 0, users)], Side.UPPER)
    return worst_binary_crowd(((users - 1, local_epsilon),), local_epsilon, losses)


def worst_binary_crowd(
    others: Sequence[tuple[int, float]], local_epsilon: float, losses: Array
) -> AtomicPair:
    """The same for a user of this local epsilon among one or two groups of others with their own.

    The profile is evaluated at these losses. More than two groups have too many crowds.
    """
    shares = (share for share in WIDTHS if _crowds_of_groups(others, share) <= MOST_CROWDS)
    share = next(shares, WIDTHS[-1])
    crowds = [_laws(users, each, share) for users, each in others]
    # exchanging the symbols gives the other half of the first group
    for laws in crowds[1:]:
        laws += [law[::-1] for law in laws]
    value = np.zeros(losses.shape)
    for crowd in product(*crowds):
        masses = _kept(reduce(np.convolve, crowd))
        for law in (masses, masses[::-1]):
            value = np.maximum(value, _best_tests(law, local_epsilon, losses))
    with np.errstate(divide="ignore"):
        # more than all masses that are left out: for a smaller delta other bounds answer
        log_high = np.logaddexp(np.log(value), -115.0)
    largest = local_epsilon * (1.0 + 8.0 * UNIT_ROUNDOFF)
    calls = calls_above(losses, np.minimum(log_high, 0.0), largest)
    return pair_from_halves(calls, calls, side=Side.UPPER)


def _lie(local_epsilon: float) -> float:
    """w = 1/(E + 1)."""
    return float(np.exp(-np.logaddexp(0.0, local_epsilon)))


def _crowds_of_groups(others: Sequence[tuple[int, float]], share: float) -> int:
    """How many crowds are gone through."""
    halves = math.prod(len(_groups(users, share)) for users, _ in others)
    return halves << (len(others) - 1)


def _laws(users: int, local_epsilon: float, share: float) -> list[Array]:
    """Masses of the number of ones that these users report, for the smallest crowd of each group."""
    counts = zip(*_groups(users, share), strict=True)
    zeros, ones = (_coins(each, _lie(local_epsilon)) for each in counts)
    # whoever holds 1 reports it without a lie: counted by lies, whose rate is not rounded
    return [_kept(np.convolve(one, two[::-1])) for one, two in zip(zeros, ones, strict=True)]


def _groups(users: int, share: float) -> list[tuple[int, int]]:
    """The least numbers of zeros and ones in each group of data sets; not more zeros than ones in all.

    A group is so wide relative to its number of zeros.
    """
    groups, zeros = [], 0
    while zeros <= users // 2:
        width = max(int(share * zeros), 1)
        groups.append((zeros, max(users + 1 - zeros - width, 0)))
        zeros += width
    return groups


def _coins(counts: Sequence[int], rate: float) -> list[Array]:
    """Masses of the number of ones among so many coins each, but those that are left out."""
    ranges = []
    for count in counts:
        # by Bernstein's inequality what lies farther away has less than e^-138
        away = 17.0 * math.sqrt(count * rate * (1.0 - rate)) + 100.0
        first, last = math.floor(count * rate - away), math.ceil(count * rate + away)
        ranges.append(np.arange(max(first, 0), min(last, count) + 1.0))
    sizes = [ones.size for ones in ranges]
    masses = np.exp(log_mass(np.repeat(np.array(counts), sizes), np.concatenate(ranges), rate))
    return [_kept(some) for some in np.split(masses, np.cumsum(sizes)[:-1])]


def _kept(masses: Array) -> Array:
    """Without what is left out at both ends; a shift of the number of ones changes nothing."""
    inside = np.flatnonzero(masses > 1e-60)
    return masses[inside[0] : inside[-1] + 1]


def _best_tests(masses: Array, local_epsilon: float, losses: Array) -> Array:
    """Not less than H_l at each loss, for a crowd with these masses of the number of ones.

    The two terms cancel where few ones are expected, so each is rounded on its own.
    """
    truth = 1.0 / (1.0 + np.exp(-local_epsilon))
    # 1 - w - l w = (1 - w)(1 - l / E): near the largest loss from its distance to that
    gain = truth * -np.expm1(losses - local_epsilon)
    beyond = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    ratio = np.append(masses[:-1] / masses[1:], np.inf)
    with np.errstate(divide="ignore"):
        first = np.searchsorted(np.maximum.accumulate(ratio), 1.0 + np.expm1(losses) / gain)
    value = np.zeros(losses.shape)
    for near in (-1, 0, 1):
        # the neighbors too, since ratios are rounded
        index = np.clip(first + near, 0, masses.size - 1)
        more, less = gain * masses[index], np.expm1(losses) * beyond[index + 1]
        # twice MASS_ERROR, and two units for each user of a sum
        value = np.maximum(value, more - less + 2e-11 * (more + less))
    return value
