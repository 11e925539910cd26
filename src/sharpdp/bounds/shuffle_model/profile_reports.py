"""Reports of a randomizer of which only a profile is known: pairs from both sides.

Let h0(x) be at least H_x(R_a || R_b) for all records a, b. For any E >= 1, another user's report is with
probability 1/E a draw from nu = (R_x0 + R_x1)/2, up to a part of mass h0(E)/E, whatever the user holds.
For any m <= n, eta = h0(E)/E, tau = m eta, users drawn at rate g and (p, q) any pair with the profile h0,

    h(x) <= E[((1 - g)(1 - x) + g mean(X_i - x Y_i))_+]
            + tau ((x - 1)(1 + 2 (1 - g) eta) + 2 g h0(1 + (x - 1)/g)),   x >= 1,
    (X, Y) = 2 E (p, q) / (p + q) with probability 1/E, drawn from (p + q)/2; else (0, 0),

the mean being over m terms. Proof: docs/proofs/gaussian-reports.md, Theorem 2. The smallest value over
some E and m is taken at each x.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np

from sharpdp.bounds.registry import bounds_for
from sharpdp.bounds.shuffle_model.gaussian_reports import pair_above
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import (
    Reports,
    certified_values,
    listed,
    thresholds,
)
from sharpdp.bracket import Side
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms.shuffle import LocalProfile
from sharpdp.numerics.special import Array, log_diff, safe_log
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, calls_below, pair_from_halves
from sharpdp.pairs.pair import Pair

# What all deficits together may cost, as powers of ten; each asks for another E.
_COSTS = -np.array([4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0, 20.0])
_POINTS, _THRESHOLDS = 120, 220
_LEAST_LOG = math.log(1e-42)
_MASS_ERROR = 1e-13
_REPORTS = 64


@lru_cache(maxsize=32)
def local_pair(randomizer: LocalProfile) -> AtomicPair:
    """A finite pair, the same in both directions, with a profile of at least that of the mechanism."""
    pair = _pairs(randomizer, Side.UPPER)[0]
    if isinstance(pair, AtomicPair) and pair.symmetric and 1 < len(pair.losses) <= _POINTS:
        return pair
    both = (pair, pair.reverse())
    infinite = max(each.infinite_p_ends[1] for each in both)
    losses = _knots(pair)
    if losses[-1] == 0.0:
        return _revealing(infinite)
    # a loss is known to within its rounding, and profiles fall with it
    error = max(each.loss_error for each in both) + 1e-14
    lowered = np.maximum(losses * (1.0 - 1e-14) - error, 0.0)
    high = np.max([each.log_hockey_stick(lowered) + 2.0 * each.accuracy for each in both], axis=0)
    high = np.minimum.accumulate(high)
    revealed = infinite + math.exp(high[-1])
    calls = calls_above(losses[:-1], log_diff(high[:-1], high[-1]), float(losses[-1]))
    return pair_from_halves(calls, calls, side=Side.UPPER, infinite=(revealed, revealed))


def _revealing(mass: float) -> AtomicPair:
    """Everything is revealed with this probability, else nothing."""
    if mass >= 1.0:
        return AtomicPair((), (), (), 1.0, 1.0)
    rest = (math.log1p(-mass),)
    return AtomicPair((0.0,), rest, rest, mass, mass)


def has_side(randomizer: LocalProfile, side: Side) -> bool:
    """True if one output of the mechanism is bounded on this side."""
    return any(side in entry.sides for entry in bounds_for(randomizer))


@lru_cache(maxsize=32)
def attained_pair(randomizer: LocalProfile) -> AtomicPair | None:
    """A finite pair from below; None if there is none."""
    pairs = _pairs(randomizer, Side.LOWER)
    return next((pair for pair in pairs if isinstance(pair, AtomicPair)), None)


def _pairs(randomizer: LocalProfile, side: Side) -> list[Pair]:
    """The pairs by which one output of the mechanism is bounded on one side."""
    return [
        entry(randomizer, randomizer.adjacency())[0][0]
        for entry in bounds_for(randomizer)
        if side in entry.sides
    ]


def _knots(pair: Pair) -> Array:
    """Losses from zero to where the profile ends, or is nothing."""
    if isinstance(pair, AtomicPair):
        end = max((abs(loss) for loss in pair.losses), default=0.0)
    else:
        end = max(abs(bound) for bound in pair.support)
    if not math.isfinite(end):
        ends = np.geomspace(1e-6, 600.0, 100)
        end = ends[np.argmax(np.append(pair.log_hockey_stick(ends[:-1]) <= _LEAST_LOG, True))]
    return np.linspace(0.0, end, _POINTS + 1)


@lru_cache(maxsize=32)
def dominating_profile(randomizer: LocalProfile, users: int, rate: float = 1.0) -> AtomicPair:
    """A pair that dominates n shuffled reports of any randomizer with this profile."""
    return clones_above(local_pair(randomizer), users, rate)


def clones_above(pair: AtomicPair, users: int, rate: float = 1.0) -> AtomicPair:
    """A pair that dominates n shuffled reports whose profile is at most that of a symmetric pair."""
    if not pair.losses or pair.losses[-1] == 0.0:
        return _revealing(min(rate * pair.infinite_p_ends[1] * (1.0 + 1e-15), 1.0))
    budgets = _budgets(pair, users)
    losses = _losses(pair, rate, budgets)
    log_alone = _log_alone(pair, rate, losses)
    log_high = log_alone.copy()
    for log_budget, mixed in budgets:
        log_deficit = float(_log_profile(pair, np.array([log_budget]))[0]) - log_budget
        log_cost = math.log(mixed) + log_deficit
        factor = 1.0 + 2.0 * (1.0 - rate) * math.exp(log_deficit) + 1e-15
        excess = np.log(factor * np.expm1(losses) + 2.0 * np.exp(log_alone) + 1e-300) + log_cost
        here = np.flatnonzero(excess < log_high)
        if not here.size:
            continue
        reports = clones_of(pair, log_budget, mixed, rate)
        values = reports.log_uppers(losses[here])
        values += mixed * (_MASS_ERROR + 2.0 * pair.accuracy) - math.log(mixed)
        log_high[here] = np.minimum(log_high[here], np.logaddexp(values, excess[here]) + 1e-13)
    return pair_above(losses, np.minimum(log_high, 0.0))


def clones_of(pair: AtomicPair, log_budget: float, users: int, rate: float = 1.0) -> Reports:
    """Reports that are with probability 1/E draws from the mean of both distributions of a pair.

    >>> coin = AtomicPair.pure(math.log(3.0))
    >>> clones = clones_of(coin, math.log(3.0), 5)
    >>> [round(ratio, 6) for ratio in clones.first], [round(w, 6) for w in clones.weights]
    ([1.5, 4.5, 0.0], [0.166667, 0.166667, 0.666667])
    """
    budget = math.exp(log_budget) * (1.0 + 1e-15)
    p = np.append(np.exp(pair.log_p), [pair.infinite_p_ends[1], 0.0])
    q = np.append(np.exp(pair.log_q), [0.0, pair.infinite_q_ends[1]])
    middle = 0.5 * (p + q)
    kept = middle > 0.0
    p, q, middle = p[kept], q[kept], middle[kept]
    rest = max(1.0 - 1.0 / budget, 0.0)
    # what is no clone, if anything is not
    none = (0.0,) if rest > 0.0 else ()
    return Reports(
        (*(middle / budget).tolist(), *(rest for _ in none)),
        (*(budget * (p / middle)).tolist(), *none),
        (*(budget * (q / middle)).tolist(), *none),
        users,
        rate,
    )


def _log_profile(pair: AtomicPair, losses: Array) -> Array:
    """log h0, infinite losses included, rounded up."""
    values = pair.log_hockey_stick(np.maximum(losses * (1.0 - 1e-14) - pair.loss_error, 0.0))
    return np.logaddexp(values + 2.0 * pair.accuracy, safe_log(pair.infinite_p_ends[1]))


def _log_alone(pair: AtomicPair, rate: float, losses: Array) -> Array:
    """log of the profile of one report, of a user who takes part at this rate."""
    inner = losses if rate == 1.0 else np.log1p(np.expm1(losses) / rate * (1.0 - 1e-15))
    return np.asarray(_log_profile(pair, inner) + math.log(rate) + 1e-15)


def _budgets(pair: AtomicPair, users: int) -> list[tuple[float, int]]:
    """Choices of log E and m: for each cost of all deficits together the one with the smallest E/m."""
    end = max(pair.losses[-1], 1e-3)
    grid = np.append(np.linspace(0.0, end, 400), end * (1.0 + 1e-12))
    deficits = _log_profile(pair, grid) - grid
    chosen = set()
    for cost in _COSTS * math.log(10.0):
        log_mixed = np.minimum(np.maximum(cost - deficits, 0.0), math.log(users))
        best = int(np.argmin(grid - log_mixed))
        chosen.add((float(grid[best]), min(max(int(math.exp(log_mixed[best])), 1), users)))
    return sorted(chosen)


def _losses(pair: AtomicPair, rate: float, budgets: list[tuple[float, int]]) -> Array:
    """Thresholds from a part of the spread of the loss to the largest loss."""
    variance = float(np.sum(pair_variance(pair)))
    spread = rate * min(math.sqrt(math.exp(log_e) * variance / m) for log_e, m in budgets)
    end = math.log1p(rate * math.expm1(pair.losses[-1]))
    start = min(0.05 * spread, 0.01 * end)
    return np.append(0.0, np.geomspace(start, end, _THRESHOLDS))


def pair_variance(pair: AtomicPair) -> Array:
    """Terms of sum (p - q)^2 / ((p + q)/2)."""
    p, q = np.exp(pair.log_p), np.exp(pair.log_q)
    return np.asarray(2.0 * (p - q) ** 2 / (p + q))


@lru_cache(maxsize=64)
def attained_profile(
    randomizer: LocalProfile, users: int, rate: float, held: str, coarseness: float
) -> AtomicPair:
    """A pair that is attained by the randomizer whose reports on two records are the pair itself.

    All others hold the second record, or the first one.
    """
    pair = attained_pair(randomizer)
    if pair is None:
        raise Inapplicable("no pair with finitely many outcomes is known from below")
    return _with_others(pair if held == "second" else pair.reverse(), users, rate, coarseness)


def _with_others(pair: Pair, users: int, rate: float, coarseness: float) -> AtomicPair:
    """One user draws from P or Q, all others from Q."""
    assert isinstance(pair, AtomicPair)
    infinite = rate * pair.infinite_p_ends[0]
    if infinite >= 1.0:
        return _revealing(1.0)
    weights, ratios = _few(pair)
    reports = Reports(weights, ratios, (1.0,) * len(weights), users, rate)
    swapped = reports.swapped()
    slack = users * (_MASS_ERROR + 2.0 * pair.accuracy)
    # all reports are ones that P never sends: then Q is certain, if everybody takes part
    silent = math.fsum(w for w, ratio in zip(weights, ratios, strict=True) if ratio == 0.0)
    minus = math.exp(users * math.log(silent) - slack) if silent > 0.0 and rate == 1.0 else 0.0
    every = listed(reports, Side.LOWER)
    if every is not None:
        return replace(
            every,
            at_plus_infinity=infinite,
            at_minus_infinity=minus,
            mass_error=every.mass_error + slack,
        )
    if min(reports.largest_loss, swapped.largest_loss) < 1e-9:  # of which the rounding is no part
        # whether something is revealed, and nothing else
        if infinite == 0.0:
            return AtomicPair((0.0,), (0.0,), (0.0,))
        stay = math.log1p(-infinite)
        return AtomicPair((stay,), (stay,), (0.0,), infinite)
    losses = thresholds([reports, swapped], Side.LOWER, coarseness)
    ahead, behind = (
        (low - slack, np.minimum(high + slack, 0.0))
        for low, high in (certified_values(each, losses) for each in (reports, swapped))
    )
    beyond = -math.inf
    if minus > 0.0:
        log_minus = math.log(minus)
        behind = log_diff(behind[0], log_minus + 2.0 * slack), log_diff(behind[1], log_minus)
        # sums of such reports and others have larger ratios than any one report
        beyond = float(behind[1][losses < swapped.largest_loss][-1])
    first = calls_below(losses, ahead, behind, reports.largest_loss, infinite=(infinite, minus))
    second = calls_below(
        losses, behind, ahead, swapped.largest_loss, beyond, infinite=(minus, infinite)
    )
    return pair_from_halves(first, second, side=Side.LOWER, infinite=(infinite, minus))


def _few(pair: AtomicPair) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Q-masses and ratios of so many reports at most, neighbors put together."""
    p, q = np.exp(pair.log_p), np.exp(pair.log_q)
    p, q = np.append(0.0, p), np.append(pair.infinite_q_ends[0], q)
    starts = np.unique(np.linspace(0, p.size, min(_REPORTS, p.size) + 1).astype(int))[:-1]
    p, q = np.add.reduceat(p, starts), np.add.reduceat(q, starts)
    kept = q > 0.0
    return tuple(q[kept].tolist()), tuple((p[kept] / q[kept]).tolist())
