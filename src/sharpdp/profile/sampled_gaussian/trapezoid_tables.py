"""Tables of tilted nodes whose sums are the moments of a Poisson-sampled Gaussian at complex tilts.

The trapezoid rule for A(s + i t) is accurate up to a last frequency: each table states its error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.contour import SUM_ERROR, Tilted, log_strip_error, step_for
from sharpdp.numerics.matrix_product import matrix_product
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray, log_convexity_gap, log_sum
from sharpdp.profile.sampled_gaussian.moments import IntegrandGrid, lattice, log_lift
from sharpdp.profile.sampled_gaussian.steps import NO_OVERFLOW, StepRows

MOST_NODES = 20_000
"""With more quadrature nodes than this the engine declines."""


_LOOK = np.linspace(0.0, 1.0, 96)
"""Where a coarse look is taken, as parts of a range."""


@dataclass(frozen=True)
class QuadratureTable(Tilted):
    """Nodes under a tilt, whose transform at multiples of one frequency is made from products.

    With e(t) = e^{i t (l - c)} - 1 and t = t' + t'', e(t) = e(t') e(t'') + e(t') + e(t''). So for n
    frequencies 2 sqrt(n) rows and a matrix product suffice; most of the rows are products, too.
    """

    def psi(self, t: Array) -> tuple[ComplexArray, Array]:
        """psi at each t, and a bound on its rounding error."""
        # with few frequencies sines and cosines are cheaper than products
        if t.size > 16 and np.array_equal(t, t[1] * np.arange(t.size)):
            return self.psi_by_products(float(t[1]), t.size)
        return super().psi(t)

    def psi_many(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values), and a bound on its rounding error."""
        # beyond this a gridded FFT is faster, though less exact: where that matters sums replace it
        if self.offsets.size * count > 1 << 19:
            return super().psi_many(step, count)
        return self.psi_by_products(step, count)

    def psi_by_products(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values), and a bound on its rounding error.

        The single factors are summed as in a direct sum, with its error for t' and t'' together. The
        dot products of n terms are off by at most (n + a few) units times sum p |e(t')| |e(t'')|, which
        Cauchy and Schwarz bound by the square roots of sum p |e|^2 = -2 Re psi; their factors' own
        errors, a few units of t' |l - c| or t'' |l - c| each, are covered by one more SUM_ERROR.
        """
        columns = int(np.ceil(np.sqrt(count)))
        rows = -(-count // columns)
        fine_real, fine_imag = self._turned(step, columns)
        real, imag = self._turned(step * columns, rows)
        fine_real, fine_imag = self.weights * fine_real, self.weights * fine_imag
        fine = np.sum(fine_real, axis=1) + 1j * np.sum(fine_imag, axis=1)
        coarse = np.sum(self.weights * real, axis=1) + 1j * np.sum(self.weights * imag, axis=1)
        u, v = fine_real.T, fine_imag.T
        product = matrix_product(real, u) - matrix_product(imag, v) + 0j
        product.imag = matrix_product(real, v) + matrix_product(imag, u)
        psi = (product + coarse[:, None] + fine).ravel()[:count]
        sizes = np.sqrt(np.multiply.outer(-2.0 * coarse.real, -2.0 * fine.real)).ravel()[:count]
        # rounded frequencies and factors, one more product and two more additions
        terms = 2.0 * (self.offsets.size + 8) * UNIT_ROUNDOFF
        spread = 3.0 * SUM_ERROR * step * np.arange(count) * self.mean_spread
        return psi, spread + terms * sizes

    def _turned(self, step: float, count: int) -> tuple[Array, Array]:
        """Real and imaginary part of e(t) at each node, t = 0, step, 2 step, ... (count rows).

        Sines and cosines for the first eight rows and for powers of two, products of two rows for the
        others. A product adds the errors of its two rows and 8 units of t |l - c|; over all digits of a
        multiple that is 16 units, beside those of sines and cosines.
        """
        start = min(count, 8)
        real, imag = np.empty((2, count, self.offsets.size))
        real[:start], imag[:start] = self._turned_by(step * np.arange(float(start)))
        while start < count:
            x, y = self._turned_by(np.array([step * start]))
            more = min(start, count - start)
            u, v = real[:more], imag[:more]
            real[start : start + more] = u * (1.0 + x) - v * y + x
            imag[start : start + more] = u * y + v * (1.0 + x) + y
            start *= 2
        return real, imag

    def _turned_by(self, t: Array) -> tuple[Array, Array]:
        """Real and imaginary part of e(t) at each node, a row for each t."""
        half = np.multiply.outer(0.5 * t, self.offsets)
        sine = np.sin(half)
        return -2.0 * sine * sine, 2.0 * sine * np.cos(half)


@dataclass(frozen=True, eq=False)
class QuadratureNodes:
    """Quadrature nodes y, the losses and log-weights there, and the weights under the tilt.

    Rows are as long as the longest; what is not `inside` a row's range weighs nothing.
    """

    y: Array
    inside: NDArray[np.bool_]
    points: Array
    log_p: Array
    log_moment: Array
    weights: Array

    @classmethod
    def on(
        cls, rows: StepRows, theta: Array, low: Array, high: Array, step: Array
    ) -> QuadratureNodes:
        """Nodes on the range of each row; log M(theta) from the sum without the two normalizations."""
        y, inside = lattice(low, high, step)
        log_w = rows.log_ratio(y)
        log_density = -0.5 * y * y - 0.5 * np.log(2.0 * np.pi) + np.log(step)
        log_p = np.where(rows.sign > 0, log_density + log_w, log_density)
        points = np.where(inside, rows.sign * log_w, 0.0)
        same = bool((theta == theta[0, 0]).all())
        tilt = theta[0, 0] if same else np.broadcast_to(theta, points.shape)
        gaps = np.where(inside, log_p + log_convexity_gap(tilt, points), -np.inf)
        peak = gaps.max(axis=1, keepdims=True)
        far = peak > NO_OVERFLOW
        total = np.exp(gaps - np.where(far, peak, 0.0)).sum(axis=1, keepdims=True)
        log_m = np.where(far, peak + np.log(total), np.log1p(total))
        weights = np.where(inside, np.exp(log_p + theta * points - log_m), 0.0)
        return cls(y, inside, points, np.where(inside, log_p, 0.0), log_m, weights)

    def tilted(self, theta: Array, quadrature: Array) -> list[QuadratureTable]:
        """Each row as a table, with the given bound on its quadrature error; cf. `Atoms.tilted`."""
        total = self.weights.sum(axis=1, keepdims=True)
        weights = self.weights / total
        center = (weights * self.points).sum(axis=1, keepdims=True)
        offsets = self.points - center
        sizes = np.abs(self.log_p)
        inflation = 1.0 + (sizes + np.abs(theta * self.points)) / 16.0
        mean_spread = (weights * np.abs(offsets) * inflation).sum(axis=1)
        log_m = self.log_moment
        exponents = sizes.max(axis=1, keepdims=True) + np.abs(log_m)
        # weights are those of w and of the normal density
        accuracy = 64.0 * UNIT_ROUNDOFF + SUM_ERROR + 4.0 * UNIT_ROUNDOFF * exponents
        structured = -np.expm1(-log_m) * accuracy
        return [
            QuadratureTable(
                theta=float(theta[row, 0]),
                log_moment=float(log_m[row, 0]),
                center=float(center[row, 0]),
                offsets=offsets[row, inside],
                weights=weights[row, inside],
                mean_spread=float(mean_spread[row]),
                slope_noise=0.0,
                point_error=0.0,
                structured=float(structured[row, 0]),
                quadrature=float(quadrature[row, 0]),
            )
            for row, inside in enumerate(self.inside)
        ]


@dataclass(frozen=True, eq=False)
class TrapezoidRule:
    """The trapezoid rule for A(s + i t), |t| <= last: a strip and a step for each row."""

    rows: StepRows
    s: Array
    last: Array
    strip: Array
    step: Array

    def at(self, rows: NDArray[np.intp]) -> TrapezoidRule:
        """Some of the rows."""
        columns = (self.s, self.last, self.strip, self.step)
        return TrapezoidRule(self.rows.at(rows), *(column[rows] for column in columns))

    @classmethod
    def best(
        cls,
        grid: IntegrandGrid,
        s: Array,
        last: Array,
        y_range: tuple[Array, Array],
        log_error: Array,
    ) -> tuple[TrapezoidRule, Array]:
        """The strips that allow the largest steps, from a coarse look at their edges; what is left out.

        Five nats are left for the slack of cells and for what the coarse look misses. Where what is
        beyond the range would spoil the error that is aimed at, steps are shortened.
        """
        rows, (low, high) = grid.rows, y_range
        y = low + (high - low) * _LOOK
        log_f = s * rows.log_ratio(y) - 0.5 * y * y
        log_f -= log_sum(log_f)[..., None]
        strips = rows.strips
        turn = argument(rows, y[:, None, :], strips[:, :, None])
        rise = log_f[:, None, :] + last[:, :, None] * turn
        steps = step_for(strips, log_error - 5.0, log_lift(rows, s, strips) + log_sum(rise))
        # the cell slack of the certificate grows with the step, curvature step^2 / 8: it gets three nats
        room = 24.0 / _curvature(rows, s, last, strips)
        steps = np.minimum(steps, np.sqrt(room))
        left_out, index = grid.sides_left_out(s, low, high), np.arange(s.size)
        for _ in range(10):
            best = np.argmax(steps, axis=1)
            rule = cls(rows, s, last, strips[index, best][:, None], steps[index, best][:, None])
            beyond = rule.beyond(np.hstack(y_range), left_out)
            spoilt = (beyond > 10.0 * np.exp(log_error))[:, 0]
            if not spoilt.any():
                break
            steps[index[spoilt], best[spoilt]] *= 0.8
            # at the end of the range w^{i t} grows by this much with the height, at first
            odds = rows.rate * np.exp(np.minimum(rows.mu * high - 0.5 * rows.mu**2, NO_OVERFLOW))
            growth = last * rows.mu * np.minimum(odds, 1.0)
            shorter = np.minimum(steps, 2.0 * np.pi / growth)
            # with shorter ones there would be too many nodes
            steps[spoilt] = np.maximum(shorter, (high - low) / (2.0 * MOST_NODES))[spoilt]
        return rule, beyond + np.sum(left_out, axis=1, keepdims=True)

    def log_real_error(self, s: Array) -> Array:
        """log of the relative error of A(s) at real s.

        On the edge |w(y + ib)| <= w(y), and >= w(y) cos(mu b / 2), so that the edge integral is at most
        e^{b^2/2} A(s), times cos(mu b / 2)^s if s < 0.
        """
        return log_strip_error(self.strip, self.step, log_lift(self.rows, s, self.strip))

    def log_edge(self, nodes: QuadratureNodes) -> Array:
        """log of the error of A(s + i t) over A(s), for all |t| up to the last, within the range.

        On the edge |w^{i t}| = e^{|t| |arg w|}. Its mean under the tilted law is summed over cells, each
        at most its two ends' sum times e^{curvature step^2 / 8}.
        """
        rise = np.where(nodes.inside, self.last * argument(self.rows, nodes.y, self.strip), 0.0)
        top = np.max(rise, axis=1, keepdims=True)
        weight = nodes.weights
        sums = np.sum(weight * np.exp(rise - top), axis=1, keepdims=True)
        mean = top + np.log(sums / np.sum(weight, axis=1, keepdims=True))
        curvature = _curvature(self.rows, self.s, self.last, self.strip)
        slack = np.log(2.0) + curvature * self.step**2 / 8.0
        return np.asarray(self.log_real_error(self.s) + mean + slack)

    def beyond(self, ends: Array, left_out: Array) -> Array:
        """The rest of the error of A(s + i t), relative to A(s): the edge outside the range.

        The error bound holds for any curve that keeps clear of the zeros of w, with the integrand
        divided by e^{2 pi |Im y| / step} - 1. Outside the range the curve runs at a height b' at which
        w^{i t} grows by at most e; at both ends of the range it drops to there. `left_out` bounds what
        is outside on either side.
        """
        rows, s, strip, step = self.rows, self.s, self.strip, self.step
        narrow = np.minimum(step * np.log(2.0) / (2.0 * np.pi), 1.0 / (self.last * rows.mu))
        narrow = np.minimum(strip, narrow)
        outside = np.exp(1.0 + log_lift(rows, s, narrow)) / np.expm1(2.0 * np.pi * narrow / step)
        pieces = int(np.ceil(np.max(2.0 * np.pi * strip / step))) + 1  # a nat of the divisor each
        heights = narrow + (strip - narrow) * np.linspace(0.0, 1.0, pieces + 1)
        turn = np.maximum.accumulate(_largest_argument(rows, ends, heights), axis=2)
        turns = 2.0 * np.pi * heights[:, :-1] / step
        # on each piece of the drop, the growth at its top and the divisor at its bottom
        fall = log_lift(rows, s, heights[:, 1:]) - turns - np.log(-np.expm1(-turns))
        gain = (self.last[:, :, None] * turn[:, :, 1:] + fall[:, None, :]).max(axis=2)
        drop = strip * np.exp(np.minimum(gain, NO_OVERFLOW))
        return np.asarray(np.sum(2.0 * left_out * (outside + 2.0 * drop), axis=1, keepdims=True))


def tables(
    grid: IntegrandGrid, theta: ArrayLike, last: ArrayLike, log_error: Array
) -> list[QuadratureTable | None]:
    """Each row's moments under its tilt, up to its last frequency; None where there are too many nodes.

    `log_error` is what is aimed at, relative to A(s), for each row; the tables say what was reached.
    """
    rows = grid.rows
    theta, last = (np.broadcast_to(np.asarray(x, float), rows.mu.shape) for x in (theta, last))
    s = rows.exponent(theta)
    s_low, s_high = np.minimum(s, 0.0), np.maximum(s, 1.0)
    nats = 46.0 + np.log(rows.count)
    low, high = grid.range(s_low, s_high, nats)
    rule, beyond = TrapezoidRule.best(grid, s, last, (low, high), log_error)
    # both normalizations enter the sum for log M, so their quadrature errors do too
    bases = grid.left_out(s_low, s_high, nats) + np.exp(rule.log_real_error(np.ones_like(s)))
    bases *= 4.0 + 2.0 * np.abs(s)
    made: list[QuadratureTable | None] = [None] * rows.owner.size
    for own in _of_similar_length(((high - low) / rule.step)[:, 0]):
        part = rule if own.size == rows.owner.size else rule.at(own)
        nodes = QuadratureNodes.on(part.rows, theta[own], low[own], high[own], part.step)
        error = beyond[own] + np.exp(part.log_edge(nodes))
        error += bases[own] * np.exp(-np.minimum(nodes.log_moment, 0.0))
        for row, table in zip(own.tolist(), nodes.tilted(theta[own], error), strict=True):
            made[row] = table
    return made


def _of_similar_length(lengths: Array) -> list[NDArray[np.intp]]:
    """The rows that are not too long, in groups whose lengths differ by less than a factor of two."""
    fits = np.flatnonzero(lengths <= MOST_NODES)
    if fits.size == lengths.size == 1:
        return [fits]
    octave = np.floor(np.log2(np.maximum(lengths[fits], 128.0)))
    return [fits[octave == value] for value in np.unique(octave)]


def argument(rows: StepRows, y: Array, strip: Array) -> Array:
    """|arg w(y + i b)|."""
    extra = (1,) * (y.ndim - rows.mu.ndim)
    mu, rate = rows.mu.reshape(-1, 1, *extra), rows.rate.reshape(-1, 1, *extra)
    odds = np.exp(np.minimum(mu * y - 0.5 * mu**2, NO_OVERFLOW)) * rate
    return np.arctan2(odds * np.sin(mu * strip), 1.0 - rate + odds * np.cos(mu * strip))


def _largest_argument(rows: StepRows, y: Array, heights: Array) -> Array:
    """max |arg w(y + i b')| over all 0 <= b' <= b, for each row's y and its increasing heights b.

    Where q e^a < 1 - q the argument peaks at arcsin(q e^a / (1 - q)) and falls again.
    """
    turn = argument(rows, y[:, :, None], heights[:, None, :])
    odds = rows.rate * np.exp(np.minimum(rows.mu * y - 0.5 * rows.mu**2, NO_OVERFLOW))
    ratio = np.minimum(odds / np.maximum(1.0 - rows.rate, 1e-300), 1.0)[:, :, None]
    peak = np.where(ratio < 1.0, np.arcsin(ratio), 0.0)
    past = np.cos(rows.mu * heights)[:, None, :] <= -ratio
    return np.where(past, np.maximum(turn, peak), turn)


def _curvature(rows: StepRows, s: Array, last: Array, strip: Array) -> Array:
    """Bound on the second derivative of the logarithm of |w^{s + i t} phi| along the edge."""
    flat = np.cos(0.5 * rows.mu * strip) ** 2
    return np.asarray(1.0 + (np.abs(s) + last / flat) * rows.mu**2 / 4.0)
