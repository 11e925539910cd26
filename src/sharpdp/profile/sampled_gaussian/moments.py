"""Moments of Poisson-sampled Gaussians at real tilts: E[w^s] by the trapezoid rule, with its error.

The rule in y converges geometrically, because w has no zero within |Im y| < pi/mu. What lies outside the
range that is summed is bounded from a grid on which w^s phi is looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.contour import step_for
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.profile.engine import Declined
from sharpdp.profile.sampled_gaussian.steps import StepRows

LOG_MOMENT_ERROR = 5e-14
"""Rounding of a sum for log A(s)."""


_BLOCK = 256
"""So many moments of one kind of step are summed together."""


def lattice(low: Array, high: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Multiples of each row's step that cover its range, and which of them are needed for that."""
    first, last = np.floor(low / step), np.ceil(high / step)
    index = np.arange(np.max(last - first) + 1.0)
    return step * (first + index), index <= last - first


@dataclass(frozen=True, eq=False)
class IntegrandGrid:
    """Points y that cover everything from which w^s can draw its mass, and log w at these."""

    rows: StepRows
    points: Array
    log_w: Array

    @classmethod
    def covering(cls, rows: StepRows, s_low: Array, s_high: Array) -> IntegrandGrid:
        """The grid for s from s_low to s_high; declines if it would be too long or w^s too steep.

        Tilting by s > 0 moves the normal by at most s mu, by s < 0 at most to `_leftmost`.
        """
        low = _leftmost(rows, np.minimum(s_low, 0.0)) - 40.0
        length = np.maximum(s_high, 0.0) * rows.mu + 40.0 - low
        longest = float(np.max(length))
        steepest = float((np.maximum(-s_low, 0.0) * rows.mu**2).max())
        if not (longest <= 400.0 and steepest <= 1e5):  # true for NaN too
            raise Declined("the tilts reach too far into the tail")
        pieces = 256 * int(np.ceil(longest / 80.0)) - 1
        points = low + length / pieces * np.arange(pieces + 1.0)
        return cls(rows, points, rows.log_ratio(points))

    def of(self, rows: NDArray[np.intp]) -> IntegrandGrid:
        """Some of the rows."""
        return IntegrandGrid(self.rows.at(rows), self.points[rows], self.log_w[rows])

    def log_integrand(self, s: Array) -> Array:
        """log of w^s phi at the points, up to a constant."""
        return np.asarray(s * self.log_w - 0.5 * self.points**2)

    def range(self, s_low: Array, s_high: Array, nats: ArrayLike) -> tuple[Array, Array]:
        """Where w^s phi can be within e^-nats of its largest value, for s from s_low to s_high.

        The ends are the next points, where it is not.
        With s the mode moves to the right, and at a point on its right (left) the ratio to the largest
        value grows (falls): the least exponent reaches farthest to the left, the most to the right.
        """
        low = self.log_integrand(s_low)
        high = self.log_integrand(s_high)
        first = (low > low.max(axis=1, keepdims=True) - nats).argmax(axis=1)
        inside = high > high.max(axis=1, keepdims=True) - nats
        last = inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)
        index, y = np.arange(first.size), self.points
        left, right = np.maximum(first - 1, 0), np.minimum(last + 1, y.shape[1] - 1)
        return y[index, left][:, None], y[index, right][:, None]

    def left_out(self, s_low: Array, s_high: Array, nats: ArrayLike) -> Array:
        """Bound on the integral of w^s phi outside `range`, relative to A(s), for s from s_low to s_high.

        Outside, w^s phi is at most e^-nats of its largest value, up to the curvature between the
        points where that was checked; A(s) is at least the largest value times
        sqrt(2 pi / curvature). Beyond the ends of the grid the normal tail is below e^-700.
        """
        y = self.points
        length, spacing = y[:, -1:] - y[:, :1], y[:, 1:2] - y[:, :1]
        curvature = 1.0 + np.maximum(np.abs(s_low), np.abs(s_high)) * self.rows.mu**2 / 4.0
        log_rest = -np.asarray(nats) + np.log(length) + curvature * spacing**2 / 8.0
        return np.asarray(np.exp(log_rest + 0.5 * np.log(curvature / (2.0 * np.pi))))

    def sides_left_out(self, s: Array, low: Array, high: Array) -> Array:
        """Bound as in `left_out` for one exponent, on either side of a range between two points."""
        log_f = self.log_integrand(s)
        left = np.where(self.points <= low, log_f, -np.inf).max(axis=1, keepdims=True)
        right = np.where(self.points >= high, log_f, -np.inf).max(axis=1, keepdims=True)
        nats = log_f.max(axis=1, keepdims=True) - np.concatenate([left, right], axis=1)
        return self.left_out(s, s, nats)


def _leftmost(rows: StepRows, s: Array) -> Array:
    """Points at or below the modes of w^s phi for s <= 0.

    The mode is at y = s mu r(y), r <= q e^a / (1 - q) and r <= 1; the first point of a falling sequence
    of trial points at which the right side no longer reaches down to the point bounds it.
    """
    y = s * rows.mu
    odds = rows.rate / np.maximum(1.0 - rows.rate, 1e-300)
    going = y < -1.0
    while going.any():
        reach = s * rows.mu * np.minimum(1.0, odds * np.exp(rows.mu * 0.5 * y))
        going = going & (y < -1.0) & (reach >= 0.5 * y)
        y = np.where(going, 0.5 * y, y)
    return np.asarray(y)


def log_lift(rows: StepRows, s: Array, height: Array) -> Array:
    """log of the most by which |w^s phi| at y + i height exceeds its value at y; grows with height.

    w(y) cos(mu b / 2) <= |w(y + ib)| <= w(y), so that |w^s| grows only if s < 0.
    """
    shrinkage = np.minimum(s, 0.0) * np.log(np.cos(0.5 * rows.mu * height))
    return np.asarray(0.5 * height**2 + shrinkage)


def log_moments(grid: IntegrandGrid, s: Array) -> tuple[Array, tuple[Array, Array]]:
    """log A(s) for several real s in each row, by the trapezoid rule, and the range that was summed.

    The relative error of A is below e^-39.

    On a strip of half-width b the error is at most 2 e^{b^2/2} / (e^{2 pi b / step} - 1), for s < 0 times
    cos(mu b/2)^{-|s|}; the step is the largest that makes this e^-40 on some strip.
    """
    rows = grid.rows
    s_low, s_high = s.min(axis=1, keepdims=True), s.max(axis=1, keepdims=True)
    low, high = grid.range(s_low, s_high, 60.0)
    strips = rows.strips
    steps = step_for(strips, -40.0, log_lift(rows, s_low, strips))
    step = steps.max(axis=1, keepdims=True)
    y, _ = lattice(low, high, step)
    # in place: other arrays of this size would cost more than the sums
    terms = s[:, :, None] * rows.log_ratio(y)[:, None, :]
    terms -= (0.5 * y * y)[:, None, :]
    peak = terms.max(axis=2)
    terms -= peak[:, :, None]
    total = np.exp(terms, out=terms).sum(axis=2)
    return peak + np.log(total * step / np.sqrt(2.0 * np.pi)), (low, high)


def moments_by_quadrature(rows: StepRows, tilts: Array) -> tuple[Array, Array]:
    """(lower, upper) of log M of each row at its many tilts above -1.

    Rounding: exponents are products and squares, off by a few units of their size; what was left out
    and the trapezoid rule, e^-39, are far below the units of the sum.
    """
    s = rows.exponent(tilts)
    ends = s.min(axis=1, keepdims=True), s.max(axis=1, keepdims=True)
    grid = IntegrandGrid.covering(rows, np.minimum(ends[0], 0.0), np.maximum(ends[1], 1.0))
    if s.shape[1] <= _BLOCK:
        values, (first, last) = log_moments(grid, s)
    else:
        starts = range(0, s.shape[1], _BLOCK)
        blocks = [log_moments(grid, s[:, start : start + _BLOCK])[0] for start in starts]
        values, (first, last) = np.concatenate(blocks, axis=1), grid.range(*ends, 60.0)
    # log w rises with y
    largest = np.maximum(np.abs(rows.log_ratio(first)), np.abs(rows.log_ratio(last)))
    size = np.abs(s) * largest + 0.5 * np.maximum(first**2, last**2) + np.abs(values)
    error = LOG_MOMENT_ERROR + 8.0 * UNIT_ROUNDOFF * size
    return values - error, values + error
