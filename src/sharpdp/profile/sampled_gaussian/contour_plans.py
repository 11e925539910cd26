"""Plans for contours of Poisson-sampled Gaussians: saddle points, tilts and windows from a coarse look.

Nothing here is certified; the contours that are made from a plan are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.contour import log_call_constant
from sharpdp.numerics.special import Array
from sharpdp.profile.engine import ContourPlan, Declined, Saddle
from sharpdp.profile.sampled_gaussian.moments import lattice
from sharpdp.profile.sampled_gaussian.steps import NO_OVERFLOW, StepRows

FINEST = 1e-8
"""Tolerance in log delta that is aimed at, however coarse the question: it costs little."""


_TILTS_PER_OCTAVE = 4


_OCTAVES_BELOW, _OCTAVES_ABOVE = 10, 2


_TILTS = 2.0 ** (
    np.arange(-_OCTAVES_BELOW * _TILTS_PER_OCTAVE, _OCTAVES_ABOVE * _TILTS_PER_OCTAVE + 1.0)
    / _TILTS_PER_OCTAVE
)
"""Tilts of a plan around a first guess: heavy tails ask for much smaller ones than thin tails."""


@dataclass(frozen=True, eq=False)
class TiltTable:
    """log M_T at many tilts, a row for each composition (not certified).

    `cumulant` and its derivatives `mean` and `variance` are those of the losses that matter for a delta,
    which lead to saddle points; `log_moment` is that of all losses, from which windows follow. `left` are
    tilts a <= 1 with log M_T at -a.
    """

    tilts: Array
    cumulant: Array
    mean: Array
    variance: Array
    log_moment: Array
    left: Array
    left_log_moment: Array

    @classmethod
    def at(cls, coarse: Sequence[CoarseStep], tilts: Array, left: Array) -> TiltTable:
        """The table at these tilts, a row for each composition."""
        both = np.concatenate([tilts, -left], axis=1)
        totals = np.zeros((4, *both.shape))
        for part in coarse:
            for total, values in zip(totals, part.cumulants(both), strict=True):
                part.rows.add_to(total, values)
        size = tilts.shape[1]
        cumulant, mean, variance, log_moment = totals[:, :, :size]
        return cls(tilts, cumulant, mean, variance, log_moment, left, totals[3, :, size:])

    def with_more(self, coarse: Sequence[CoarseStep], tilts: Array) -> TiltTable:
        """The table with some more tilts after its own."""
        more = TiltTable.at(coarse, tilts, self.left[:, :0])
        fields = ("tilts", "cumulant", "mean", "variance", "log_moment")
        joined = {
            name: np.concatenate([getattr(self, name), getattr(more, name)], axis=1)
            for name in fields
        }
        return replace(self, **joined)

    def saddles(self) -> tuple[Array, Array]:
        """At each tilt the threshold for which it is the saddle point, and log delta to first order."""
        theta, more = self.tilts, 1.0 + self.tilts
        threshold = self.mean - 1.0 / theta - 1.0 / more
        curvature = self.variance + theta**-2.0 + more**-2.0
        log_value = self.cumulant - theta * threshold - np.log(theta * more)
        return threshold, log_value - 0.5 * np.log(2.0 * np.pi * curvature)


@dataclass(frozen=True, eq=False)
class CoarseStep:
    """Losses of each kind of step at a coarse quadrature's nodes, with log-weights."""

    rows: StepRows
    points: Array
    log_p: Array
    last: Array

    @classmethod
    def of(cls, rows: StepRows, log_values: Array) -> CoarseStep:
        """Nodes that reach all y which matter for a delta of each composition's size."""
        nats = np.maximum(40.0, np.log(rows.count) + 14.0 - log_values[rows.owner])
        low = -np.sqrt(2.0 * nats)
        high = rows.mu + np.sqrt(2.0 * np.maximum(40.0, nats + np.log(rows.rate)))
        step = np.minimum(0.2, 0.35 / rows.mu)
        if not ((high - low) / step).max() <= 1 << 17:
            raise Declined("so little noise takes more points than other engines")
        y, inside = lattice(low, high, step)
        log_w = rows.log_ratio(y)
        log_p = np.where(rows.sign > 0, log_w, 0.0) - 0.5 * y * y
        log_p = np.where(inside, log_p + np.log(step / math.sqrt(2.0 * math.pi)), -np.inf)
        return cls(rows, np.where(inside, rows.sign * log_w, 0.0), log_p, high)

    def variances(self) -> Array:
        """T times the variance of the losses at the nodes, a column."""
        weights = np.exp(self.log_p)
        total = weights.sum(axis=1, keepdims=True)
        mean = (weights * self.points).sum(axis=1, keepdims=True) / total
        square = (weights * (self.points - mean) ** 2).sum(axis=1, keepdims=True) / total
        return np.asarray(self.rows.count * np.maximum(square, 1e-300))

    def cumulants(self, tilts: Array) -> tuple[Array, Array, Array, Array]:
        """T log M of these losses and its two derivatives at each row's tilts, and T log M of all losses.

        Beyond the last node w is about q e^a, so that E[w^s] gains q^s e^{s (s - 1) mu^2 / 2}.
        """
        rows, count = self.rows, self.rows.count
        tilts = tilts[rows.owner]
        theta = tilts[:, :, None]
        exponent = theta * self.points[:, None, :] + self.log_p[:, None, :]
        peak = exponent.max(axis=2)
        weight = np.exp(exponent - peak[:, :, None])
        total = weight.sum(axis=2)
        mean = np.matmul(weight, self.points[:, :, None])[:, :, 0] / total
        square = np.matmul(weight, (self.points * self.points)[:, :, None])[:, :, 0] / total
        log_m = peak + np.log(total)
        if count.max() > 1e7:
            # so many repetitions of the plain sum's rounding would show
            gaps = np.exp(self.log_p)[:, None, :] * _convexity_gap(theta, self.points[:, None, :])
            log_m = np.where(np.abs(log_m) < 1.0, np.log1p(gaps.sum(axis=2)), log_m)
        s = rows.exponent(tilts)
        far = s * (np.log(rows.rate) + 0.5 * (s - 1.0) * rows.mu**2)
        far = np.where(s * rows.mu > self.last, far, -np.inf)
        variance = np.maximum(square - mean * mean, 1e-300)
        return count * log_m, count * mean, count * variance, count * np.logaddexp(log_m, far)


def _convexity_gap(theta: Array, x: Array) -> Array:
    """e^{theta x} - 1 + theta (e^{-x} - 1), about."""
    return np.asarray(
        np.expm1(np.minimum(theta * x, NO_OVERFLOW)) + theta * np.expm1(np.minimum(-x, NO_OVERFLOW))
    )


def planned(
    batches: Sequence[StepRows],
    compositions: int,
    thresholds: Array | None,
    log_values: Array | None,
) -> list[ContourPlan]:
    """For each composition the tilt that needs the smallest window; declines where delta is near one."""
    shape = (compositions, 1)
    if log_values is not None:
        guess, k = np.reshape(log_values, shape), None
    else:
        assert thresholds is not None
        guess, k = np.full(shape, -30.0), np.reshape(thresholds, shape)
    for _ in range(6):
        coarse = [CoarseStep.of(rows, guess) for rows in batches]
        table, theta, threshold, log_value = _saddles(coarse, guess, k)
        if k is None or not (log_value < guess - 1.0).any():
            break
        guess = np.where(log_value < guess - 1.0, 1.2 * log_value - 5.0, guess)
    if not (log_value <= -0.02).all():
        raise Declined("delta is so close to one that two sides are the better tool")
    repetitions = np.zeros(shape)
    for rows in batches:
        rows.add_to(repetitions, rows.count)
    return _smallest_windows(table, theta, threshold, log_value, repetitions)


def _saddles(
    coarse: Sequence[CoarseStep], log_values: Array, thresholds: Array | None
) -> tuple[TiltTable, Array, Array, Array]:
    """A table of tilts around the saddle points, these, and their thresholds and values."""
    variance = np.zeros_like(log_values)
    for part in coarse:
        part.rows.add_to(variance, part.variances())
    scale = np.sqrt(variance)
    start = np.sqrt(-2.0 * log_values) if thresholds is None else thresholds / scale
    guess = np.maximum(start, 1.0) / scale
    goal = log_values if thresholds is None else thresholds
    for _ in range(6):
        tilts = guess * _TILTS
        left = np.minimum(tilts[:, :: 2 * _TILTS_PER_OCTAVE], 1.0)
        table = TiltTable.at(coarse, tilts, left)
        k, v = table.saddles()
        beyond = v < goal if thresholds is None else k > goal
        none, first = ~beyond.any(axis=1, keepdims=True), beyond[:, :1]
        if not (none | first).any():
            break
        move = 2.0 ** (_OCTAVES_BELOW - 1.0)
        guess = guess * np.where(none, move, np.where(first, 1.0 / move, 1.0))
    else:
        raise Declined("no tilt leads to such a value")
    cells = _cell(tilts, k, v, beyond)
    for _ in range(3):
        (t0, t1), _, (v0, v1) = cells
        if not (v0 - v1 > 3.0 - 0.6 * np.maximum(v0, -1e3)).any():
            break
        # next to a phase transition all thresholds belong to nearly one tilt
        between = t0 * (t1 / t0) ** (np.arange(1.0, 8.0) / 8.0)
        table = table.with_more(coarse, between)
        more_k, more_v = (values[:, -7:] for values in table.saddles())
        beyond = more_v < goal if thresholds is None else more_k > goal
        ends = np.zeros_like(goal, dtype=bool)
        beyond = np.concatenate([ends, beyond, ~ends], axis=1)
        inner = (between, more_k, more_v)
        tilts, k, v = (
            np.concatenate([outer[0], values, outer[1]], axis=1)
            for outer, values in zip(cells, inner, strict=True)
        )
        cells = _cell(tilts, k, v, beyond)
    (t0, t1), (k0, k1), (v0, v1) = cells
    # between two tilts a straight line in the logarithm; the slope of log delta is the tilt
    if thresholds is None:
        share = (v0 - goal) / (v0 - v1)
        after, before = k0 + (v0 - goal) / t0, k1 - (goal - v1) / t1
        threshold, log_value = np.clip(after + share * (before - after), k0, k1), goal
    else:
        share, threshold = (goal - k0) / (k1 - k0), goal
        after, before = v0 - t0 * (goal - k0), v1 + t1 * (k1 - goal)
        log_value = after + share * (before - after)
    return table, t0 * (t1 / t0) ** share, threshold, log_value


def _cell(
    tilts: Array, k: Array, v: Array, beyond: NDArray[np.bool_]
) -> tuple[tuple[Array, Array], ...]:
    """Tilts, thresholds and values before and at the first tilt beyond a goal, for each composition."""
    cell = beyond.argmax(axis=1)[:, None]
    rows = np.arange(cell.shape[0])[:, None]
    return tuple((values[rows, cell - 1], values[rows, cell]) for values in (tilts, k, v))


def _smallest_windows(
    table: TiltTable, theta: Array, threshold: Array, log_value: Array, repetitions: Array
) -> list[ContourPlan]:
    """The tilt at or below each saddle's that needs the smallest window, with Chernoff tilts.

    A tilt below the saddle's is safe from the explosion of moments beyond it, and shortens the window
    by far. It costs as many nats as its terms are larger than the saddle's, which rounding must leave.
    """
    lead = table.log_moment - table.tilts * threshold
    below = table.tilts <= theta * 2.0 ** (1.0 / _TILTS_PER_OCTAVE)
    lost = lead - np.where(below, lead, np.inf).min(axis=1, keepdims=True)
    most_lost = np.clip(np.log(FINEST / 1e-12) - 0.5 * np.log(repetitions), 0.1, 10.0)
    windows, right, left = windows_for(
        table.tilts,
        table.log_moment,
        table.left,
        table.left_log_moment,
        table.tilts,
        threshold,
        log_value,
    )
    kept = np.minimum(lost, 12.0)
    cost = windows * np.sqrt(22.0 + kept) * np.exp(0.05 * kept)
    cost = np.where(below & (lost <= most_lost), cost, np.inf)
    plans = []
    for row, best in enumerate(cost.argmin(axis=1).tolist()):
        tilt, k, v = (
            float(table.tilts[row, best]),
            float(threshold[row, 0]),
            float(log_value[row, 0]),
        )
        beyond = (float(table.tilts[row, right[row, best]]) - tilt) * np.array(
            [0.25, 0.5, 1.0, 1.8, 3.0]
        )
        before = float(table.left[row, left[row, best]]) * np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        plans.append(
            ContourPlan(
                theta=tilt,
                window=float(windows[row, best]),
                log_share=v - float(lead[row, best]),
                saddle=Saddle(float(theta[row, 0]), k, v),
                right_tilts=tilt + beyond,
                left_tilts=np.append(np.minimum(before, 1.0), 1.0),
            )
        )
    return plans


def windows_for(
    right_tilts: Array,
    right_moments: Array,
    left_tilts: Array,
    left_moments: Array,
    theta: Array,
    threshold: Array,
    log_value: Array,
) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """At each tilt theta the smallest window that keeps images small, and which tilts show it.

    Chernoff's bounds keep both kinds of images below 0.01 FINEST of the value; images in closed form may
    exceed it by seven nats before they cost digits. All arguments have a row for each composition.
    """
    wanted = log_value + math.log(0.01 * FINEST)
    s, a = right_tilts, left_tilts
    over_right = np.logaddexp(0.0, right_moments - s * threshold + log_call_constant(s) - wanted)
    over_left = np.logaddexp(0.0, left_moments + a * threshold - wanted)
    ahead = s[:, None, :] - theta[:, :, None]
    with np.errstate(divide="ignore"):
        right = np.where(ahead > 0.0, over_right[:, None, :] / ahead, np.inf)
    left = over_left[:, None, :] / (theta[:, :, None] + a[:, None, :])
    best_right, best_left = right.argmin(axis=2), left.argmin(axis=2)
    window = np.maximum(right.min(axis=2), left.min(axis=2))
    window = np.maximum(window, np.maximum(-log_value - 7.0, 1.0) / theta)
    return 1.02 * window, best_right, best_left
