"""From neighbors to data sets several changes apart: a pair above every chain of given pairs.

Let (P_0, P_1), ..., (P_{n-1}, P_n) be dominated by given pairs, the links. For x = x_1 ... x_n

    P_0 - x P_n = sum over i of x_1 ... x_{i-1} (P_{i-1} - x_i P_i),   hence
    H_x(P_0 || P_n) <= sum over i of x_1 ... x_{i-1} H_{x_i}(link i).

Every split of x is safe. The best one has the thresholds of one event: if the event has probability a
under P_i, its threshold in link i is the one at which the best test has the false-positive rate a. Then
the sum is the profile of the composed trade-off functions, which is the least upper bound that the links
allow. With n equal links this is group privacy.

A pair that is not symmetric may stand for neighbors in either order. Then a chain may have links of both
orders, and each link is made symmetric first: `either_way` has the larger of both profiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp.bracket import Side
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    expit,
    log1mexp,
    log_sum,
    logit,
    safe_log,
)
from sharpdp.pairs.finite import AtomicPair, PairOfOutcomes, TabulatedPair
from sharpdp.pairs.from_profile import ProfilePair
from sharpdp.pairs.from_profile_values import CallSide, calls_above, pair_from_halves
from sharpdp.pairs.opposed import OpposedPair
from sharpdp.pairs.pair import (
    STANDARD_WIDTH,
    GaussianPair,
    LaplacePair,
    Pair,
    ReversedPair,
    for_composition,
)
from sharpdp.pairs.sampled_group import SampledGroupPair
from sharpdp.pairs.subsampled import PoissonSampledPair

__all__ = ["chained", "either_way", "ladder", "pair_above"]

_FINEST, _GROWTH = 0.02, 400.0
"""Thresholds of the last link: a fiftieth of the typical loss apart at zero, one in 400 far out. Errors
of the profile go with the square of that."""

_LARGEST_LOSS, _SMALLEST_LOG, _LEAST = 600.0, -700.0, 1e-7
"""No threshold is larger, or has a smaller value; and the smallest typical loss that is resolved."""

_MOST_ATOMS, _MOST_VALUES = 256, 4_000_000
"""Losses that occur are thresholds if there are at most so many; and how many values are taken in all."""

_IMPOSSIBLE = 1e4
"""Log odds beyond this stand for an event that never happens, or always."""

_REVEALED = (0.0, 1e-8, 1e-4)
"""Shares of finite losses that are taken for revealed where rounding leaves no mass at loss zero."""

_SAME_LOSS = 1e-12
"""Losses of the two directions of a pair that are closer than this are rounded versions of one."""

_COARSER = 4.0
"""Links whose values take long are tabulated for a width so many times as wide."""

_QUICK = GaussianPair | PoissonSampledPair | SampledGroupPair | OpposedPair
"""Pairs that are closed formulas."""

_MARGIN = 1e-11
"""Relative rounding of a sum of a few exponentials; far more than that."""


def chained(links: Sequence[Pair], width: float = STANDARD_WIDTH) -> Pair:
    """A pair that dominates (P_0, P_n) in both directions if link i dominates (P_{i-1}, P_i) in both.

    Gaussian links add up to a Gaussian, Laplace links to a Laplace pair: these are exact.

    Args:
        links: The pairs that dominate one change each, in order.
        width: About how far, relative to epsilon, the pair may be from the best one.

    Returns:
        The pair; what lies beyond its largest threshold counts as revealed.

    >>> chained([GaussianPair(0.5), GaussianPair(0.25)])
    GaussianPair(mu=0.75)
    """
    return _chained(tuple(links), width)


@lru_cache(maxsize=64)
def either_way(pair: Pair, width: float = STANDARD_WIDTH) -> Pair:
    """A symmetric pair that dominates (P, Q) and (Q, P): the larger of both profiles, joined by chords.

    Args:
        pair: The pair; one that is symmetric is its own answer.
        width: About how far, relative to epsilon, the result may be from the best one.

    Returns:
        The pair; what lies beyond its largest threshold counts as revealed.

    >>> coin = AtomicPair.from_pmfs([0.5, 0.5], [0.25, 0.75])
    >>> either_way(coin).symmetric, either_way(GaussianPair(0.5))
    (True, GaussianPair(mu=0.5))
    """
    if pair.symmetric:
        return pair
    link = _tabulated(pair, width)
    both = (link, link.reverse())
    losses = np.unique(np.concatenate([[0.0], *(_Tests.of(way, width).losses for way in both)]))
    losses = losses[losses >= 0.0]
    # of thresholds that are rounded versions of one, the largest
    losses = np.append(0.0, losses[1:][np.append(np.diff(losses[1:]) > _SAME_LOSS, True)])
    if isinstance(link, AtomicPair):
        losses = np.union1d(losses, _crossings(losses, *(_log_call(way, losses) for way in both)))
    log_high = np.max([_log_call(way, losses) for way in both], axis=0) + _MARGIN
    values = losses, np.minimum.accumulate(np.minimum(log_high, 0.0))
    above = pair_above(values, values)
    if isinstance(link, AtomicPair) and isinstance(above, ProfilePair):
        return above.outcomes
    return above


def _crossings(losses: Array, log_first: Array, log_second: Array) -> Array:
    """Where one of two profiles passes the other if both are straight in e^loss between these losses."""
    top = np.maximum(log_first, log_second)
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.exp(log_first - top) - np.exp(log_second - top)
        after = apart[1:] * np.exp(top[1:] - top[:-1])
        share = apart[:-1] / (apart[:-1] - after)
        within = losses[:-1] + np.log1p(share * np.expm1(np.diff(losses)))
    return np.asarray(within[(apart[:-1] * after < 0.0) & np.isfinite(within)])


@lru_cache(maxsize=64)
def _chained(links: tuple[Pair, ...], width: float) -> Pair:
    if len(links) == 1:
        return links[0]
    normals = [link for link in links if isinstance(link, GaussianPair)]
    if len(normals) == len(links):
        return GaussianPair(math.fsum(link.mu for link in normals))
    doubles = [link for link in links if isinstance(link, LaplacePair)]
    if len(doubles) == len(links):
        return LaplacePair(math.fsum(link.epsilon for link in doubles))
    known = {link: _tabulated(link, width) for link in links}
    links = tuple(known[link] for link in links)
    return _above(links, width)


def _tabulated(link: Pair, width: float) -> Pair:
    """The link itself if its values are quick to find, else one with finitely many outcomes above it."""
    if isinstance(link, AtomicPair) and len(link.losses) > _MOST_ATOMS:
        return TabulatedPair(link)
    if isinstance(link, AtomicPair | PairOfOutcomes | _QUICK | ReversedPair):
        return link
    return _above((for_composition(link),), _COARSER * width)


def _above(links: tuple[Pair, ...], width: float) -> Pair:
    """A pair with finitely many outcomes above the chain."""
    back = tuple(link.reverse() for link in reversed(links))
    ahead = _knots(links, width)
    return pair_above(ahead, ahead if back == links else _knots(back, width))


def pair_above(ahead: tuple[Array, Array], behind: tuple[Array, Array]) -> Pair:
    """A pair with finitely many outcomes above given values of a profile, and of that of the reverse.

    Args:
        ahead: Losses from zero on, rising, and logarithms of values that are not below the profile there;
            what is left at the last loss counts as revealed.
        behind: The same for the profile with P and Q exchanged.

    Returns:
        The pair.
    """
    # the total variation is the same in both directions
    log_at_zero = min(ahead[1][0], behind[1][0])
    for share in _REVEALED:
        calls, plus = _calls(*ahead, log_at_zero, share)
        other, minus = (calls, plus) if behind is ahead else _calls(*behind, log_at_zero, share)
        with suppress(NotCertified):
            halves = pair_from_halves(calls, other, side=Side.UPPER, infinite=(plus, minus))
            return ProfilePair(halves)
    revealed = min(math.exp(log_at_zero) * (1.0 + _MARGIN), 1.0)
    return AtomicPair.from_pmfs([revealed, 1.0 - revealed, 0.0], [0.0, 1.0 - revealed, revealed])


def _knots(links: tuple[Pair, ...], width: float) -> tuple[Array, Array]:
    """Losses from zero on, rising, and the logarithms of values above the profile of the chain there."""
    thresholds = _one_event(links, width)
    # the sum itself is rounded; a value of a smaller threshold is larger
    sizes = np.sum(np.abs(thresholds), axis=0)
    totals = np.sum(thresholds, axis=0) + 4.0 * len(links) * UNIT_ROUNDOFF * sizes
    totals = np.maximum.accumulate(totals)
    log_high = np.minimum.accumulate(_log_values(links, thresholds))
    above = int(np.searchsorted(totals, 0.0, side="right"))
    if above == 0:  # nothing is known of smaller thresholds
        totals, log_high, above = np.append(0.0, totals), np.append(0.0, log_high), 1
    log_at_zero = _log_chord(totals, log_high, above - 1)
    losses, log_high = np.append(0.0, totals[above:]), np.append(log_at_zero, log_high[above:])
    kept = np.append(np.diff(losses) > 0.0, True)
    return losses[kept], log_high[kept]


def _calls(
    losses: Array, log_high: Array, log_at_zero: float, share: float
) -> tuple[CallSide, float]:
    """Masses whose profile is above these values, and what counts as revealed: this share of them too."""
    log_high = np.minimum(log_high, log_at_zero)
    rest = float(np.exp(log_high[-1])) * (1.0 + _MARGIN)
    if losses.size == 1:
        return CallSide(np.zeros(0), np.zeros(0), -np.inf), rest
    beyond = np.full(losses.size - 1, -np.inf)
    seen = log_high[:-1] > safe_log(rest)
    beyond[seen] = log_high[:-1][seen] + log1mexp(safe_log(rest) - log_high[:-1][seen])
    calls = calls_above(losses[:-1], beyond, float(losses[-1]))
    if share == 0.0:
        return calls, rest
    return calls.scaled(math.log1p(-share)), rest + share * math.exp(calls.log_total)


def _log_chord(losses: Array, log_high: Array, index: int) -> float:
    """log of an upper end at loss zero, between the loss of this index, at or below it, and the next."""
    if losses[index] == 0.0 or index + 1 == losses.size:
        return float(log_high[index])
    # a profile is convex in e^loss
    share = math.expm1(losses[index]) / (math.expm1(losses[index]) - math.expm1(losses[index + 1]))
    before, after = math.exp(log_high[index]), math.exp(log_high[index + 1])
    return math.log(before + share * (after - before)) + _MARGIN


def _log_values(links: tuple[Pair, ...], thresholds: Array) -> Array:
    """Upper ends of the logarithm of the sum, for a threshold of each link (rows)."""
    reached = np.zeros(thresholds.shape[1])
    terms = []
    for link, threshold in zip(links, thresholds, strict=True):
        terms.append(reached + _log_call(link, threshold))
        reached = reached + threshold
    sizes = np.sum(np.abs(thresholds), axis=0)
    total = log_sum(np.stack(terms), axis=0) + _MARGIN + 8.0 * UNIT_ROUNDOFF * sizes
    return np.asarray(np.minimum(total, 0.0))


def _log_call(link: Pair, threshold: Array) -> Array:
    """Upper ends of log H_x at x = e^threshold, which may be below one."""
    k = threshold - link.loss_error
    # beyond what is resolved only monotony is used
    outside = link.log_hockey_stick(np.minimum(k, link.accurate_range[1])) + 2.0 * link.accuracy
    outside = np.where((k >= 0.0) & (k >= link.support[1]), -np.inf, outside)
    with np.errstate(divide="ignore"):
        # below zero the value is that of a put, and 1 - x more
        inside = np.where(k < 0.0, log1mexp(np.minimum(k, 0.0)), -np.inf)
    # of the masses at infinite loss the put does not have that of Q, the call not that of P
    infinite = np.where(k < 0.0, link.infinite_q_ends[1] * np.exp(np.minimum(k, 0.0)), 0.0)
    infinite = np.where(k < 0.0, infinite, link.infinite_p_ends[1])
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.logaddexp(outside, inside), np.log(infinite)))


def _one_event(links: tuple[Pair, ...], width: float) -> Array:
    """Thresholds of all links (rows) for many events, in the order of their sum; a plan, not certified.

    The events are those of the thresholds of one link, for the first and the last link and some between.
    """
    tests = {link: _Tests.of(link, width) for link in links}
    size = max(one.losses.size for one in tests.values())
    count = max(min(_MOST_VALUES // (size * len(links)), len(links)), 2)
    columns = []
    for pivot in np.unique(np.linspace(0, len(links) - 1, count).astype(int)):
        test = tests[links[pivot]]
        rows = [test.losses]
        log_odds = test.under_p
        for link in reversed(links[:pivot]):
            losses, log_odds = tests[link].at(log_odds, of_p=False)
            rows.append(losses)
        rows.reverse()
        log_odds = test.under_q
        for link in links[pivot + 1 :]:
            losses, log_odds = tests[link].at(log_odds, of_p=True)
            rows.append(losses)
        columns.append(np.stack(rows))
    every = np.concatenate(columns, axis=1)
    return every[:, np.argsort(np.sum(every, axis=0), kind="stable")]


@dataclass(frozen=True)
class _Tests:
    """The best tests of a link: thresholds, and the log odds under P and Q that the loss reaches them."""

    losses: Array
    under_p: Array
    under_q: Array
    atomic: bool

    @classmethod
    def of(cls, link: Pair, width: float) -> _Tests:
        """Tests at all losses that occur if they are few, else on a ladder."""
        atomic = isinstance(link, AtomicPair)
        losses = np.unique(link.atoms) if atomic else _ladder(link, width)
        under_p, under_q = (_log_odds(link, losses, of_p=of_p) for of_p in (True, False))
        end = link.support[1] if np.isfinite(link.support[1]) else float(losses[-1])
        if np.isfinite(link.support[1]) or link.infinite_p > 0.0:
            # the event of an infinite loss; nothing finite is at or beyond this threshold
            losses = np.append(losses, end + 2.0 * link.loss_error)
            under_p = np.append(under_p, logit(link.infinite_p))
            under_q = np.append(under_q, -np.inf)
        falling = np.minimum.accumulate(under_p), np.minimum.accumulate(under_q)
        return cls(losses, falling[0], falling[1], atomic)

    def at(self, log_odds: Array, *, of_p: bool) -> tuple[Array, Array]:
        """Threshold of the test that has these odds under one law, and its odds under the other."""
        here, there = (self.under_p, self.under_q) if of_p else (self.under_q, self.under_p)
        if not self.atomic:
            place, other, event = (
                np.clip(odds, -_IMPOSSIBLE, _IMPOSSIBLE) for odds in (here, there, log_odds)
            )
            return np.interp(-event, -place, self.losses), np.interp(-event, -place, other)
        # a loss that occurs is the threshold of all events between those without it and with it
        index = np.clip(np.searchsorted(-here, -log_odds, side="right") - 1, 0, here.size - 1)
        ends, others = (np.append(expit(odds), 0.0) for odds in (here, there))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (expit(log_odds) - ends[index + 1]) / (ends[index] - ends[index + 1])
        share = np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)
        chance = others[index + 1] + share * (others[index] - others[index + 1])
        return self.losses[index], logit(chance)


def _log_odds(link: Pair, losses: Array, *, of_p: bool) -> Array:
    """log of the odds that the loss is at or above each threshold, under P or Q."""
    below = losses < 0.0
    # below zero tails are those of all losses up to the threshold
    places = np.where(below, np.nextafter(losses, -np.inf), losses)
    tail = link.log_tail_p(places) if of_p else link.log_tail_q(places)
    infinite = link.infinite_p if of_p else 0.0
    missing = 0.0 if of_p else link.infinite_q
    with np.errstate(divide="ignore", invalid="ignore"):
        beyond = np.logaddexp(tail, np.log(np.where(below, missing, infinite)))
        beyond = np.minimum(beyond, 0.0)
        odds = beyond - log1mexp(beyond)
    return np.where(below, -odds, odds)


def _ladder(link: Pair, width: float) -> Array:
    """Thresholds on both sides of zero, where the link has values."""
    low, high = link.accurate_range
    at_zero = float(np.exp(link.log_hockey_stick(np.zeros(1))[0])) + link.infinite_p
    ahead, behind = (ladder(min(end, _LARGEST_LOSS), at_zero, width) for end in (high, -low))
    losses = np.concatenate([-behind[:0:-1], ahead])
    visible = (link.log_hockey_stick(losses) > _SMALLEST_LOG) | (losses == 0.0)
    return np.asarray(losses[visible])


def ladder(end: float, at_zero: float, width: float) -> Array:
    """Thresholds from zero to the end, closest at zero, for a profile with this value there.

    >>> [float(loss) for loss in ladder(0.0, 0.5, 1e-3)]
    [0.0]
    """
    finer = min(max(np.sqrt(width / STANDARD_WIDTH), 0.05), 4.0)
    unit = _FINEST * finer * max(min(2.5 * at_zero, 1.0), _LEAST)
    return np.append(0.0, _rungs(end, unit, _GROWTH / finer))


def _rungs(end: float, unit: float, growth: float) -> Array:
    """A graded ladder from the unit up to the end, which is its last rung."""
    if end <= 0.0:
        return np.zeros(0)
    count = int(np.ceil(growth * np.log1p(end / (growth * unit))))
    rungs = growth * unit * np.expm1(np.arange(1, count + 1) / growth)
    return np.append(rungs[rungs < end], end)
