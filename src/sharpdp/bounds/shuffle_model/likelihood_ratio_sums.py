"""Shuffled reports of a known randomizer: finite pairs that dominate them, or are dominated.

Seen from a reference law nu of one report, with X and Y the likelihood ratios of the two records that
one user may hold, n shuffled reports are the pair

    dP = mean(X_i) dnu^n,   dQ = mean(Y_i) dnu^n,   h(x) = E[(sum_i X_i - x Y_i)_+] / n,   E X = E Y = 1.

With nu the reports of another record that all other users hold, this is the exact pair of two data
sets. With nu the part that all records have in common (its blanket), and X = Y = 0 outside of it, it
bounds every pair of data sets with these two records. Source: balle2019 Lemma 5.3.

If the users are drawn from more, each at some rate, somebody else takes the place of an absent user, and
X becomes 1 - rate + rate X, Y likewise: exactly if all others hold the same record, and as a bound with
the blanket (docs/proofs/shuffle-proof.md).

Few results are listed one by one. Otherwise certified values of h at well-chosen ratios (from
`numerics.expected_positive_part`) are joined: by chords above a convex function, by extended chords
below it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.expected_positive_part import Sums
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gammaln
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, calls_below, pair_from_halves

# So many results are listed.
_MOST_RESULTS = 6000
# Thresholds: their distance in standard deviations of the loss, on each side of the bracket, out to so
# many of those; from there on it grows in proportion, or faster than that if they were too many.
_STEP = {Side.UPPER: 0.02, Side.LOWER: 0.012}
_CENTRAL = 9.0
_FEWEST_STEPS = 200
_PROBES = 128
_TOLERANCE, _FAR_FROM_ONE = 1e-3, 2e-4
"""How far sums may be from the truth, relative to it, besides the second number for each nat."""


@dataclass(frozen=True)
class Reports:
    """n reports, each with these weights of nu, ratios X (first) and Y (second).

    With a ``rate`` both ratios are 1 - rate + rate times those.

    >>> coin = Reports.others_hold([[0.75, 0.25], [0.25, 0.75]], 0, 1, 0, 2)
    >>> coin.first, coin.second
    ((1.0, 1.0), (0.3333333333333333, 3.0))
    """

    weights: tuple[float, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]
    users: int
    rate: float = 1.0

    @classmethod
    def others_hold(
        cls,
        rows: Sequence[Sequence[float]] | Array,
        first: int,
        second: int,
        other: int,
        users: int,
        rate: float = 1.0,
    ) -> Reports:
        """Exactly: one user holds record `first` or `second`, all others hold `other`."""
        table = np.array(rows, dtype=float)
        possible = table[other] > 0.0
        nu, x, y = table[other][possible], table[first][possible], table[second][possible]
        return cls(_floats(nu), _floats(x / nu), _floats(y / nu), users, rate)

    @classmethod
    def blanket(
        cls, rows: Sequence[Sequence[float]], first: int, second: int, users: int, rate: float = 1.0
    ) -> Reports:
        """The upper bound over all data sets: what all rows have in common, or nothing."""
        table = np.array(rows, dtype=float)
        common = np.min(table, axis=0)
        shared = common > 0.0
        nu, x, y = common[shared], table[first][shared], table[second][shared]
        # what is not common tells nothing about the other reports
        nothing = max(math.fsum((table[first] - common).tolist()), 0.0)
        if nothing == 0.0:
            return cls(_floats(nu), _floats(x / nu), _floats(y / nu), users, rate)
        weights = (*_floats(nu), nothing)
        return cls(weights, (*_floats(x / nu), 0.0), (*_floats(y / nu), 0.0), users, rate)

    @classmethod
    def clones(cls, users: int, epsilon: float, clone_rate: float, rate: float = 1.0) -> Reports:
        """Any randomizer with this budget, whose reports are clones of the two at some rate.

        X = 2 t / p and Y = 2 (1 - t) / p, or exchanged, with weight p/2 each; t = E/(E + 1).
        """
        truth = 1.0 / (1.0 + math.exp(-epsilon))
        more, less = 2.0 * truth / clone_rate, 2.0 * truth * math.exp(-epsilon) / clone_rate
        half = 0.5 * clone_rate
        return cls(
            (half, half, 1.0 - clone_rate), (more, less, 0.0), (less, more, 0.0), users, rate
        )

    def swapped(self) -> Reports:
        """The other order of the two records."""
        return replace(self, first=self.second, second=self.first)

    @property
    def law(self) -> tuple[tuple[float, float, float], ...]:
        """The reports as one sorted table, equal for records that play the same role."""
        return tuple(sorted(zip(self.weights, self.first, self.second, strict=True)))

    @property
    def ratios(self) -> tuple[Array, Array, Array]:
        """X, Y and X - Y, with the rate; each accurate by itself."""
        x, y = np.array(self.first), np.array(self.second)
        stay = 1.0 - self.rate
        return stay + self.rate * x, stay + self.rate * y, self.rate * (x - y)

    @property
    def largest_loss(self) -> float:
        """log of the largest ratio X / Y, not below it."""
        _, y, gap = self.ratios
        ratio = float(np.max(gap[y > 0.0] / y[y > 0.0]))
        return math.log1p(ratio) * (1.0 + _RATIO_UNITS) + self.rate * _RATIO_UNITS

    @property
    def spread(self) -> float:
        """About the standard deviation of the loss, sqrt(E[(X - Y)^2] / n)."""
        return float(np.sqrt(np.array(self.weights) @ self.ratios[2] ** 2 / self.users))

    def log_alone(self, losses: Array) -> Array:
        """log E[(X - x Y)_+] of one report, not below it."""
        _, y, gap = self.ratios
        calls = np.maximum(gap - np.expm1(losses)[:, None] * y, 0.0) @ np.array(self.weights)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(calls * (1.0 + 1e-12) + 1e-15))

    def sums(self, losses: Array) -> Sums:
        """S = sum of X_i - x Y_i for each threshold x = e^loss."""
        _, y, gap = self.ratios
        more = np.expm1(losses)[:, None] * y
        size = self.rate * (np.array(self.first) + np.array(self.second)) + np.abs(more)
        weights = np.broadcast_to(self.weights, size.shape)
        users = np.full(losses.size, float(self.users))
        return Sums(weights, gap - more, _RATIO_UNITS * size, users)

    def log_uppers(self, losses: Array) -> Array:
        """Upper bounds on log E[S_+] at each threshold."""
        sums = self.sums(losses)
        tilts = sums.tilts()
        ceilings = sums.log_ceilings(tilts)
        return np.minimum(sums.log_values(tilts, _tolerances(ceilings))[1], ceilings)


def _tolerances(log_values: Array) -> Array:
    return _TOLERANCE + _FAR_FROM_ONE * np.abs(log_values)


_RATIO_UNITS = 16.0 * UNIT_ROUNDOFF
"""Ratios are quotients of masses that are off by five units each."""


def _floats(values: Array) -> tuple[float, ...]:
    return tuple(values.tolist())


def merged_reports(rows: Array, limit: int) -> Array:
    """The rows with neighboring reports put together until there are at most so many.

    Neighbors in the order of the losses between the first two rows: whoever is told less can tell no
    more. Equal columns are always put together.
    """
    rows = rows[:, np.max(rows, axis=0) > 0.0]
    order = np.lexsort((rows[2] / rows[1], rows[0] / rows[1]))
    rows = rows[:, order]
    ratios = rows / rows[1]
    starts = np.flatnonzero(np.append(True, np.any(np.diff(ratios, axis=1) != 0.0, axis=0)))
    if starts.size > limit:
        starts = starts[
            np.unique(np.arange(starts.size) * limit // starts.size, return_index=True)[1]
        ]
    stops = np.append(starts[1:], rows.shape[1])
    return np.array(
        [[math.fsum(row[a:b]) for a, b in zip(starts, stops, strict=True)] for row in rows.tolist()]
    )


def dominating(
    orders: Sequence[Reports], coarseness: float = 1.0, missing: float = 0.0
) -> AtomicPair:
    """A finite pair, the same in both directions, that dominates all of these and their reverses.

    With something `missing` h is larger by so many times that of one report alone. Coarser ones take less
    time. What epsilon is too large by grows with the square of the coarseness; it is about 5e-5 for 1.
    """
    every = list(
        {reports.law: reports for order in orders for reports in (order, order.swapped())}.values()
    )
    is_pair = len(every) <= 2 and every[0].law in (every[-1].law, every[-1].swapped().law)
    if is_pair and missing == 0.0:
        listed_pair = listed(every[0], Side.UPPER)
        if listed_pair is not None and every[0].law == every[0].swapped().law:
            return listed_pair
    losses = thresholds(every, Side.UPPER, coarseness)
    log_high = np.full(losses.shape, -np.inf)
    kinds = [reports.sums(losses) for reports in every]
    tilts = [kind.tilts() for kind in kinds]
    ceilings = np.array([kind.log_ceilings(tilt) for kind, tilt in zip(kinds, tilts, strict=True)])
    # the kind with the largest ceiling first at each threshold, the next ones where they may be larger
    ranks = np.argsort(-ceilings, axis=0, kind="stable")
    for rank in ranks:
        for which, kind in enumerate(kinds):
            asked = np.flatnonzero((rank == which) & (ceilings[which] > log_high))
            if asked.size:
                known = ceilings[which][asked]
                _, values = kind.chosen(asked).log_values(tilts[which][asked], _tolerances(known))
                log_high[asked] = np.maximum(log_high[asked], np.minimum(values, known))
    largest = max(reports.largest_loss for reports in every)
    log_high = log_high - np.log(every[0].users)
    if missing > 0.0:
        alone = np.max([reports.log_alone(losses) for reports in every], axis=0)
        log_high = np.logaddexp(log_high, math.log(missing) + alone)
    log_high = np.minimum(log_high, 0.0)
    calls = calls_above(losses, log_high, largest)
    return pair_from_halves(calls, calls, side=Side.UPPER)


def dominated(reports: Reports, coarseness: float = 1.0) -> AtomicPair:
    """A finite pair that is dominated by these reports; coarser ones take less time.

    What is lost of epsilon grows with the square of the coarseness; it is about 1e-4 for 1.
    """
    pair = listed(reports, Side.LOWER)
    if pair is not None:
        return pair
    swapped = reports.swapped()
    same = swapped.law == reports.law
    losses = thresholds([reports, swapped], Side.LOWER, coarseness)
    ahead = certified_values(reports, losses)
    behind = ahead if same else certified_values(swapped, losses)
    first = calls_below(losses, ahead, behind, reports.largest_loss)
    second = first if same else calls_below(losses, behind, ahead, swapped.largest_loss)
    return pair_from_halves(first, second, side=Side.LOWER)


def certified_values(reports: Reports, losses: Array) -> tuple[Array, Array]:
    """Certified log h, from below and from above, at each threshold."""
    sums = reports.sums(losses)
    tilts = sums.tilts()
    low, high = sums.log_values(tilts, _tolerances(sums.log_ceilings(tilts)))
    log_users = np.log(reports.users)
    return low - log_users, np.minimum(high - log_users, 0.0)


def thresholds(kinds: Sequence[Reports], side: Side, coarseness: float = 1.0) -> Array:
    """Losses from zero on, spaced by the spread of the loss, as far as values can be told from zero."""
    spread = max(reports.spread for reports in kinds)
    end = max(reports.largest_loss for reports in kinds)
    probes = end * np.arange(1, _PROBES) / _PROBES
    probes = np.unique(np.concatenate([probes, np.minimum(spread * np.arange(1.0, _PROBES), end)]))
    alive = np.zeros(probes.shape, dtype=bool)
    for reports in kinds:
        sums = reports.sums(probes)
        # smaller values are not told from zero
        alive |= sums.log_ceilings(sums.tilts()) - np.log(reports.users) > -740.0
    reach = float(probes[alive][-1]) if alive.any() else float(probes[0])
    step = coarseness * min(_STEP[side] * spread, reach / _FEWEST_STEPS)
    central = np.arange(0.0, min(_CENTRAL * spread, reach), step)
    nats = max(math.log(reach / central[-1]), 0.0)
    growth = max(step / (_CENTRAL * spread), math.expm1(nats / 1500.0))
    more = math.ceil(nats / math.log1p(growth))
    beyond = central[-1] * (1.0 + growth) ** np.arange(1.0, more + 1.0)
    losses = np.concatenate([central, beyond])
    return np.asarray(losses[losses < end * (1.0 - 1e-9)])


def listed(reports: Reports, side: Side) -> AtomicPair | None:
    """All results but extremely unlikely ones, safe on one side; None if there are too many.

    A result is how often each report but the most likely one occurs. What is not listed counts as
    revealed on the upper side, and as nothing on the lower one.
    """
    order = np.argsort(-np.array(reports.weights), kind="stable")
    weights = np.array(reports.weights)[order]
    first, second, gap = (ratios[order] for ratios in reports.ratios)
    users, kinds = reports.users, weights.size - 1
    limit = _most_rare(users, kinds)
    rare = float(np.sum(weights[1:]))
    log_rest = log_tail(users, limit, rare) if limit < users and kinds else -np.inf
    if log_rest > -150.0:  # the rest is too likely
        return None
    times = _counts(kinds, limit)
    total = np.sum(times, axis=1)
    log_ways = log_falling(users, limit)[total.astype(int)] - np.sum(gammaln(times + 1.0), axis=1)
    chances = log_ways + times @ np.log(weights[1:]) + (users - total) * np.log1p(-rare)
    base = users - total
    x, y, more = (times @ each[1:] + base * each[0] for each in (first, second, gap))
    size = float(np.max(np.abs(log_ways) + np.abs(chances - log_ways)))
    return _pair(
        chances - np.log(users), x, y, more, size, log_rest if side is Side.UPPER else -np.inf
    )


def log_falling(users: int, limit: int) -> Array:
    """log of users (users - 1) ... of as many factors as 0, 1, ..., limit."""
    return np.array(_running_sums(np.log(users - np.arange(float(limit))).tolist()))


def _running_sums(values: list[float]) -> list[float]:
    """All partial sums from the empty one on, to within two units: what each addition loses is kept."""
    sums, total, lost = [0.0], 0.0, 0.0
    for value in values:
        new = total + value
        lost += (total - new) + value if abs(total) >= abs(value) else (value - new) + total
        total = new
        sums.append(total + lost)
    return sums


def _pair(
    log_nu: Array, x: Array, y: Array, gap: Array, size: float, log_rest: float
) -> AtomicPair:
    """The pair with masses nu X and nu Y; outcomes of no mass are left out."""
    possible = (x > 0.0) & (y > 0.0)
    log_nu, x, y, gap = log_nu[possible], x[possible], y[possible], gap[possible]
    ratio = gap / y
    small = np.abs(ratio) < 0.5
    losses = np.where(small, np.log1p(np.where(small, ratio, 0.0)), np.log(x) - np.log(y))
    order = np.argsort(losses, kind="stable")
    rest = math.exp(log_rest)
    return AtomicPair(
        _floats(losses[order]),
        _floats((log_nu + np.log(x))[order]),
        _floats((log_nu + np.log(y))[order]),
        rest,
        rest,
        _RATIO_UNITS * 4.0,
        32.0 * UNIT_ROUNDOFF * (size + 16.0),
    )


def _most_rare(users: int, kinds: int) -> int:
    """The number of reports other than the most likely one that can be listed."""
    if kinds == 0:
        return 0
    count = 0
    while count < users and math.comb(count + 1 + kinds, kinds) <= _MOST_RESULTS:
        count += 1
    return count


def _counts(kinds: int, limit: int) -> Array:
    """All ways in which `kinds` counts add up to at most `limit`, one row each."""
    rows = np.zeros((1, 0))
    for _ in range(kinds):
        room = limit - np.sum(rows, axis=1)
        repeats = (room + 1.0).astype(int)
        start = np.repeat(np.cumsum(repeats) - repeats, repeats)
        last = np.arange(repeats.sum()) - start
        rows = np.column_stack([np.repeat(rows, repeats, axis=0), last])
    return rows


def log_tail(users: int, count: int, rare: float) -> float:
    """Chernoff's bound on log P[at least `count` of n], which bounds what is not listed under P and Q.

    E[mean(X); more than `count`] <= E[X_1] P[at least `count` among the other n - 1].
    """
    share = count / users
    if share <= rare:
        return 0.0
    stay = (1.0 - share) * math.log1p((rare - share) / (1.0 - rare)) if share < 1.0 else 0.0
    return -users * (share * math.log(share / rare) + stay) * (1.0 - 1e-9)
