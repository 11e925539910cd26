"""One epoch over batches in a random order, from above: other records pass for the null record.

One record of every batch, the one in question among them, is singled out; what all others contribute is
told to the attacker. In each of T places, given the past, the law of the null record is N(0, s^2 I) =:
phi_0, that of the record phi_u, those of others phi_v; |u|, |v| <= 1. For any c < 1 replace phi_v by the
larger max(phi_v, c phi_0), of mass 1 + g at most: another record then passes with weight c for null. With
N - 1 ~ Bin(T - 1, c/(1 + g)) such clones the record is hidden among N places, and for M = (1 + g)^{T-1}

    H_x(P||Q) <= M E[(mean_{i<=N} X_i - x)_+] + x (M - 1),
    H_x(Q||P) <= M E[(1 - x mean_{i<=N} X_i)_+] + x (M - 1),

X = e^{z/s - 1/(2 s^2)}, z normal; g = c H_{1/c} of two normal laws at distance 1/s. The proof is in
docs/proofs/shuffled-batches.md. With b = c/(1 + g) and B_i ~ Bern(b) the means over N are
E[(sum_{i<=T} B_i (X_i - x))_+] / (T b), which `numerics.expected_positive_part` bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from sharpdp.bounds.shuffled_batches.least_of_bounds import LeastOfBounds, Places
from sharpdp.bracket import Side
from sharpdp.numerics.expected_positive_part import Sums
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    log_ndtr,
    log_normal_call,
    ndtri,
    normal_nodes,
)
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair

_LOG_LOST = -np.log(10.0) * np.arange(1.0, 17.0, 0.5)
"""Logs of the (T - 1) g that are tried; which one is best depends on the threshold."""

_OVERFLOW = 1e-3
"""The share of M - 1 that ratios beyond the last cell may have."""

_CELLS, _LEFTMOST, _GAUSS_POINTS = 200, -8.5, 10
_RATIO_UNITS = 16.0 * UNIT_ROUNDOFF
"""Ratios are exponentials of rounded numbers."""

_SHARP = 0.03
"""How far sums may be above the truth, relative to it."""

_STEP, _ROUGH_STEP, _SPREADS, _GROWTH = 0.15, 0.2, 8.0, 1.15
"""Thresholds: in steps of this part of the loss's spread, of a rough pair of the second, up to so many of
them, then by this factor."""

_DEEPEST = 14.0
"""How far odds are tabulated, in deviations of the Gaussian loss: g is below 1e-40 there."""

_REACH = 8.0
"""The last threshold, in deviations of the Gaussian loss: what is beyond counts as revealed."""


def _log_odds(noise: float, batches: int, log_lost: float) -> float:
    """About log(1/c) for which (T - 1) g is e^log_lost; any number would do."""
    log_odds, log_grown = _grown_table(noise)
    aim = log_lost - float(np.log(batches - 1.0))
    return float(np.interp(-aim, -log_grown, log_odds))


@lru_cache(maxsize=64)
def _grown_table(noise: float) -> tuple[Array, Array]:
    """log(1/c) at many places, from zero to where g is as good as zero, and log g there."""
    end = (_DEEPEST + 0.5 / noise) / noise
    log_odds = np.append(0.0, np.geomspace(1e-4 * end, end, 3000))
    return log_odds, np.asarray(log_normal_call(1.0 / noise, log_odds)) - log_odds


def _log_grown(noise: float, log_odds: float) -> float:
    """log g = log(c H_{1/c}), c = e^-log_odds."""
    return float(log_normal_call(1.0 / noise, log_odds)) - log_odds


@dataclass(frozen=True)
class NullRecordClones:
    """T places, noise s, and about the log of (T - 1) g, from which everything else follows."""

    noise: float
    batches: int
    log_lost: float

    @cached_property
    def _grown(self) -> float:
        """g, rounded up."""
        odds = _log_odds(self.noise, self.batches, self.log_lost)
        return float(np.exp(_log_grown(self.noise, odds))) * (1.0 + PROFILE_ERROR)

    @cached_property
    def lost(self) -> float:
        """M - 1 = (1 + g)^{T-1} - 1."""
        return float(np.expm1((self.batches - 1.0) * np.log1p(self._grown))) * (1.0 + PROFILE_ERROR)

    @cached_property
    def rate(self) -> float:
        """c / (1 + g), rounded down."""
        odds = _log_odds(self.noise, self.batches, self.log_lost)
        return float(np.exp(-odds)) / (1.0 + self._grown) * (1.0 - PROFILE_ERROR)

    @property
    def usable(self) -> bool:
        """True if so many clones can be expected that losses are smaller than those of the noise."""
        return self.rate * self.batches > 1.0 and self.spread < 1.0 / self.noise

    @cached_property
    def spread(self) -> float:
        """About the standard deviation of the loss."""
        return float(np.sqrt(np.expm1(self.noise**-2) / (1.0 + self.rate * self.batches)))

    def log_terms(self, loss: float) -> tuple[float, float]:
        """Logs of upper bounds on both terms of the larger profile at the threshold e^loss >= 1."""
        first, second = _log_terms((self,), np.zeros(1, dtype=np.intp), np.array([loss]))
        return float(first[0]), float(second[0])

    def variable(self, losses: Array, *, is_ahead: bool) -> tuple[Array, Array, Array]:
        """Weights, values and errors of B (X - x), or of B (1 - x X), a row for each loss."""
        weights, ratios = _spread_ratios(self.noise, self._cut)
        weights = np.append(self.rate * weights, 1.0 - self.rate)
        x, ratio = np.exp(losses)[:, None], np.append(ratios, 0.0)
        values = ratio - x if is_ahead else 1.0 - x * ratio
        sizes = x + ratio if is_ahead else 1.0 + x * ratio
        values[:, -1], sizes[:, -1] = 0.0, 0.0
        return np.tile(weights, (losses.size, 1)), values, _RATIO_UNITS * sizes

    def log_added(self, losses: Array) -> Array:
        """The log of what is added to both profiles, at most."""
        more = _OVERFLOW * self.lost * (1.0 + self.lost)
        return np.log(np.exp(losses) * self.lost + more)

    @property
    def log_share(self) -> float:
        """log of T b / M, by which expectations of sums are divided."""
        return float(np.log(self.rate * self.batches) - np.log1p(self.lost))

    @property
    def _cut(self) -> float:
        """The last cell's end: what lies beyond has a small share of M - 1 under the record's law."""
        return 1.0 / self.noise - float(ndtri(_OVERFLOW * self.lost * (1.0 - PROFILE_ERROR)))


@lru_cache(maxsize=64)
def _spread_ratios(noise: float, cut: float) -> tuple[Array, Array]:
    """X = e^{z/s - 1/(2 s^2)}, z normal, spread onto the ends of cells with its mean kept.

    Below the first cell X is spread between zero and its end; above the last it is cut, which loses
    ratios but no mass. Weights come from integrals of positive functions, so they are off by units.
    """
    edges = np.linspace(_LEFTMOST, cut, _CELLS)
    left, half = edges[:-1, None], 0.5 * (edges[1] - edges[0])
    z, density = normal_nodes(edges, _GAUSS_POINTS)
    up = np.expm1((z - left) / noise) / np.expm1(2.0 * half / noise)
    down = -np.expm1((z - left) / noise - 2.0 * half / noise) / -np.expm1(-2.0 * half / noise)
    weights = np.zeros(edges.size + 1)
    weights[1:-1] += np.sum(density * down, axis=1)
    weights[2:] += np.sum(density * up, axis=1)
    weights[-1] += np.exp(log_ndtr(-edges[-1]))
    ratios = np.append(0.0, np.exp(edges / noise - 0.5 / noise**2))
    below = np.exp(log_ndtr(edges[0] - 1.0 / noise)) / ratios[1]
    weights[1] += below
    weights[0] += max(float(np.exp(log_ndtr(edges[0])) - below), 0.0)
    return weights, ratios


@lru_cache(maxsize=64)
def _levels(noise: float, batches: int) -> tuple[NullRecordClones, ...]:
    """The choices of c that say something."""
    if batches <= 1:
        return ()
    every = (NullRecordClones(noise, batches, float(log_lost)) for log_lost in _LOG_LOST)
    return tuple(clones for clones in every if clones.usable)


def clones_help(noise: float, batches: int) -> bool:
    """True if clones can be expected at all.

    >>> clones_help(4.0, 10_000), clones_help(0.3, 10_000)
    (True, False)
    """
    return bool(_levels(noise, batches))


def dominating_epoch(noise: float, batches: int, *, is_rough: bool = False) -> AtomicPair:
    """A finite pair, the same in both directions, that dominates one epoch; clones must help.

    The smallest known bound at each threshold (clones for some c, or Gaussian noise), joined by
    chords; what is left at the last one counts as revealed. A rough pair has fewer thresholds.
    """
    levels = _levels(noise, batches)
    losses = _thresholds(noise, levels, _ROUGH_STEP if is_rough else _STEP)
    least = LeastOfBounds(
        lambda places, at, _: _log_terms(levels, places, at),
        partial(_log_estimates, levels),
        len(levels),
    )
    known = GaussianPair(1.0 / noise).log_hockey_stick(losses) + PROFILE_ERROR
    # the best level is searched at some thresholds; far out the noise alone says more
    first = np.zeros(losses.size, dtype=bool)
    first[::_EVERY] = first[-1] = True
    estimated = np.interp(losses, losses[first], least.log_estimates(losses[first]))
    worth = estimated < known + _NOT_BEHIND
    high = known.copy()
    for some in (first & worth, ~first & worth):
        if some.any():
            high[some] = least.log_values(losses[some], np.zeros(int(some.sum())))
    high = np.minimum(np.minimum(high, known), 0.0)
    return _with_revealed(losses, np.minimum.accumulate(high))


_NEGLIGIBLE, _EVERY, _NOT_BEHIND = 7.0, 4, 3.0
"""So many nats below what is added anyway, Chernoff's bound is good enough; at every so many thresholds
the best c is searched; and so many nats estimates may be above what is known anyway."""


def _variables(
    levels: Sequence[NullRecordClones], places: Places, losses: Array, *, is_ahead: bool
) -> Sums:
    """The sums of B (X - x) over all places, or of B (1 - x X), one for each loss with its level."""
    parts = [
        levels[place].variable(losses[places == place], is_ahead=is_ahead)
        for place in np.unique(places)
    ]
    order = np.argsort(np.argsort(places, kind="stable"))
    weights, values, errors = (np.concatenate(part)[order] for part in zip(*parts, strict=True))
    return Sums(weights, values, errors, np.full(losses.size, float(levels[0].batches)))


def _at_levels(
    levels: Sequence[NullRecordClones], places: Places, losses: Array
) -> tuple[Array, Array]:
    """Logs of what is added at each loss with its level, and of what expectations are divided by."""
    added, shares = np.empty(losses.size), np.empty(losses.size)
    for place in np.unique(places):
        here = places == place
        added[here] = levels[place].log_added(losses[here])
        shares[here] = levels[place].log_share
    return added, shares


def _log_terms(
    levels: Sequence[NullRecordClones], places: Places, losses: Array
) -> tuple[Array, Array]:
    """Logs of upper bounds on both terms of the larger profile at each loss with its level."""
    log_added, log_share = _at_levels(levels, places, losses)
    log_high = np.full(losses.size, -np.inf)
    for is_ahead in (True, False):
        sums = _variables(levels, places, losses, is_ahead=is_ahead)
        tilts = sums.tilts()
        logs = sums.log_ceilings(tilts) - log_share
        # Chernoff's bound is good enough where the other direction is larger, or what is added
        rows = np.flatnonzero(logs > np.maximum(log_high, log_added - _NEGLIGIBLE))
        _, sharp = sums.chosen(rows).log_values(tilts[rows], _SHARP)
        logs[rows] = np.minimum(logs[rows], sharp - log_share[rows])
        log_high = np.maximum(log_high, logs)
    return log_high + PROFILE_ERROR, log_added


def _log_estimates(
    levels: Sequence[NullRecordClones], places: Places, losses: Array
) -> tuple[Array, Array]:
    """About the same in one direction, for plans."""
    log_added, log_share = _at_levels(levels, places, losses)
    sums = _variables(levels, places, losses, is_ahead=True)
    return sums.log_estimates(sums.tilts()) - log_share, log_added


def _thresholds(noise: float, levels: tuple[NullRecordClones, ...], step: float) -> Array:
    """Losses from zero on, spaced by the spread of the loss, to where Gaussian noise reveals nothing."""
    spread = levels[len(levels) // 2].spread
    end = (_REACH + 0.5 / noise) / noise
    near = spread * np.arange(0.0, _SPREADS, step)
    near = near[near < 0.5 * end]
    more = np.log(end / near[-1]) / np.log(_GROWTH) if near[-1] > 0.0 else 0.0
    far = near[-1] * _GROWTH ** np.arange(1.0, max(more, 0.0))
    return np.concatenate([near, far, [end]])


def _with_revealed(losses: Array, log_high: Array) -> AtomicPair:
    """The pair above these values; the last one, r, is revealed with probability r / (1 - h(1)).

    (1 - d) g + d >= g + r for every g <= g(1) if d = r / (1 - g(1)).
    """
    values = np.exp(log_high)
    rest = float(values[-1])
    # from here on nothing is left but what is revealed
    end = max(int(np.argmax(values <= rest)), 1)
    with np.errstate(divide="ignore"):
        log_more = np.log(np.maximum(values[:end] - rest, 0.0))
    calls = calls_above(losses[:end], log_more, float(losses[end]))
    pair = pair_from_halves(calls, calls, side=Side.UPPER)
    # the pair is above its values by about the margin of a hull
    revealed = rest / (1.0 - float(values[0]) * (1.0 + 4.0 * PROFILE_ERROR)) * (1.0 + PROFILE_ERROR)
    keep = float(np.log1p(-revealed))
    return AtomicPair(
        pair.losses,
        tuple(value + keep for value in pair.log_p),
        tuple(value + keep for value in pair.log_q),
        revealed,
        revealed,
        pair.loss_error,
        PROFILE_ERROR,
    )
