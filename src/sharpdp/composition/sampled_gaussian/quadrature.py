"""Complex moments of Poisson-sampled Gaussians by the trapezoid rule, with a bound on the rule's error.

Owns the tables A(s + i t) = E[w^{s + i t}] for all frequencies |t| up to a last one: which nodes they
need, and what is missed (`sampled_gaussian` has w and the real moments). Rows are kinds of steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpdp.composition.sampled_gaussian.density import (
    Batch,
    Line,
    lattice,
    log_shrinkage,
    strips_of,
)
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray, log_convexity_gap
from sharpdp.numerics.transform import SUM_ERROR, Tilted
from sharpdp.numerics.trapezoid import log_strip_error, step_for

MOST_NODES = 5_000

# Values this many nats below the largest are left out of the quadrature.
_TAIL_NATS = 46.0
# Nats left for the slack of cells and for what the coarse look at the edges misses.
_CELL_NATS = 5.0
# Steps are shortened by this factor, so many times, while what is beyond exceeds the aim so many times.
_SHORTER, _SHORTENINGS, _SPOILT = 0.8, 10, 10.0
# Points of the coarse look at the edges of a strip.
_EDGE_POINTS = 96
# Relative error of the weights: those of w and of the normal density.
_ACCURACY = 64.0 * UNIT_ROUNDOFF
# From so many frequencies on, products of two shorter tables are cheaper than sines and cosines.
_FEW = 16
# What products add to the rounding of a direct sum, and to the number of terms in the bound for a dot
# product: rounded frequencies and factors, one more product and two more additions.
_MORE_ERROR, _MORE_TERMS = SUM_ERROR, 8
# Larger matrix products are given to several threads, whose waiting costs more than they save.
_BLOCK = 1 << 18
_NO_OVERFLOW = 700.0


@dataclass(frozen=True)
class Quadrature(Tilted):
    """Nodes under a tilt, whose transform at multiples of one frequency is made from products.

    With e(t) = e^{i t (l - c)} - 1 and t = t' + t'', e(t) = e(t') e(t'') + e(t') + e(t''). So for n
    frequencies 2 sqrt(n) rows of sines and cosines and a matrix product suffice.
    """

    def psi(self, t: Array) -> tuple[ComplexArray, Array]:
        """psi at each t, and a bound on its rounding error."""
        if t.size > _FEW and np.array_equal(t, t[1] * np.arange(t.size)):
            return self.psi_many(float(t[1]), t.size)
        return super().psi(t)

    def psi_many(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values), and a bound on its rounding error.

        The single factors are summed as in a direct sum, with its error for t' and t'' together. The
        dot products of n terms are off by at most (n + a few) units times sum p |e(t')| |e(t'')|, which
        Cauchy and Schwarz bound by the square roots of sum p |e|^2 = -2 Re psi; their factors' own
        errors, a few units of t' |l - c| or t'' |l - c| each, are covered by one more SUM_ERROR.
        """
        columns = int(np.ceil(np.sqrt(count)))
        rows = -(-count // columns)
        fine_real, fine_imag = self._turned(step * np.arange(float(columns)))
        real, imag = self._turned(step * columns * np.arange(float(rows)))
        fine_real, fine_imag = self.weights * fine_real, self.weights * fine_imag
        fine = np.sum(fine_real, axis=1) + 1j * np.sum(fine_imag, axis=1)
        coarse = np.sum(self.weights * real, axis=1) + 1j * np.sum(self.weights * imag, axis=1)
        product = np.zeros((rows, columns), dtype=complex)
        block = max(_BLOCK // (rows * columns), 1)
        for start in range(0, self.offsets.size, block):
            some = slice(start, start + block)
            x, y, u, v = real[:, some], imag[:, some], fine_real[:, some].T, fine_imag[:, some].T
            product += (x @ u - y @ v) + 1j * (x @ v + y @ u)
        psi = (product + coarse[:, None] + fine).ravel()[:count]
        sizes = np.sqrt(np.multiply.outer(-2.0 * coarse.real, -2.0 * fine.real)).ravel()[:count]
        terms = 2.0 * (self.offsets.size + _MORE_TERMS) * UNIT_ROUNDOFF
        spread = (2.0 * SUM_ERROR + _MORE_ERROR) * step * np.arange(count) * self.mean_spread
        return psi, spread + terms * sizes

    def _turned(self, t: Array) -> tuple[Array, Array]:
        """Real and imaginary part of e(t) at each node."""
        half = np.multiply.outer(0.5 * t, self.offsets)
        sine = np.sin(half)
        return -2.0 * sine * sine, 2.0 * sine * np.cos(half)


@dataclass(frozen=True, eq=False)
class Nodes:
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
    def on(cls, batch: Batch, theta: float, low: Array, high: Array, step: Array) -> Nodes:
        """Nodes on one batch's ranges; log M(theta) from the sum without the two normalizations."""
        y, inside = lattice(low, high, step)
        log_w = batch.log_ratio(y)
        log_density = -0.5 * y * y - 0.5 * np.log(2.0 * np.pi) + np.log(step)
        log_p = np.where(batch.sign > 0, log_density + log_w, log_density)
        points = np.where(inside, batch.sign * log_w, 0.0)
        gaps = np.where(inside, log_p + log_convexity_gap(theta, points), -np.inf)
        peak = np.max(gaps, axis=1, keepdims=True)
        far = peak > _NO_OVERFLOW
        total = np.sum(np.exp(gaps - np.where(far, peak, 0.0)), axis=1, keepdims=True)
        log_m = np.where(far, peak + np.log(total), np.log1p(total))
        weights = np.where(inside, np.exp(log_p + theta * points - log_m), 0.0)
        return cls(y, inside, points, np.where(inside, log_p, 0.0), log_m, weights)

    def tilted(self, theta: float, quadrature: Array) -> list[Quadrature]:
        """Each row as a table, with the given bound on its quadrature error; cf. `Atoms.tilted`."""
        total = np.sum(self.weights, axis=1, keepdims=True)
        weights = self.weights / total
        center = np.sum(weights * self.points, axis=1, keepdims=True)
        offsets = self.points - center
        inflation = 1.0 + (np.abs(self.log_p) + np.abs(theta * self.points)) / 16.0
        mean_spread = np.sum(weights * np.abs(offsets) * inflation, axis=1)
        log_m = self.log_moment
        exponents = np.max(np.abs(self.log_p), axis=1, keepdims=True) + np.abs(log_m)
        structured = -np.expm1(-log_m) * (_ACCURACY + SUM_ERROR + 4.0 * UNIT_ROUNDOFF * exponents)
        return [
            Quadrature(
                theta=theta,
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
class Rule:
    """The trapezoid rule for A(s + i t), |t| <= last: a strip and a step for each row."""

    batch: Batch
    s: Array
    last: float
    strip: Array
    step: Array

    @classmethod
    def best(
        cls, line: Line, s: Array, last: float, ends: tuple[Array, Array], log_error: Array
    ) -> tuple[Rule, Array]:
        """The strips that allow the largest steps, from a coarse look at their edges; what is left out.

        Where what is beyond the range would spoil the error that is aimed at, steps are shortened.
        """
        batch, (low, high) = line.batch, ends
        y = low + (high - low) * np.linspace(0.0, 1.0, _EDGE_POINTS)
        log_f = s * batch.log_ratio(y) - 0.5 * y * y
        log_f -= _log_sum(log_f)
        strips = strips_of(batch)
        rise = log_f[:, None, :] + last * argument(batch, y[:, None, :], strips[:, :, None])
        steps = step_for(
            strips, log_error - _CELL_NATS, _log_lift(batch, s, strips) + _log_sum(rise)[:, :, 0]
        )
        # the cell slack of the certificate grows with the step: curvature step^2 / 8
        room = 8.0 * (_CELL_NATS - 2.0) / _curvature(batch, s, last, strips)
        steps = np.minimum(steps, np.sqrt(room))
        left_out, rows = line.sides_left_out(s, low, high), np.arange(s.size)
        for _ in range(_SHORTENINGS):
            best = np.argmax(steps, axis=1)
            rule = cls(batch, s, last, strips[rows, best][:, None], steps[rows, best][:, None])
            beyond = rule.beyond(np.hstack(ends), left_out)
            spoilt = (beyond > _SPOILT * np.exp(log_error))[:, 0]
            if not spoilt.any():
                break
            steps[rows[spoilt], best[spoilt]] *= _SHORTER
        return rule, beyond + np.sum(left_out, axis=1, keepdims=True)

    def log_real_error(self, s: Array) -> Array:
        """log of the relative error of A(s) at real s.

        On the edge |w(y + ib)| <= w(y), and >= w(y) cos(mu b / 2), so that the edge integral is at most
        e^{b^2/2} A(s), times cos(mu b / 2)^s if s < 0.
        """
        return log_strip_error(self.strip, self.step, _log_lift(self.batch, s, self.strip))

    def log_edge(self, nodes: Nodes) -> Array:
        """log of the error of A(s + i t) over A(s), for all |t| up to the last, within the range.

        On the edge |w^{i t}| = e^{|t| |arg w|}. Its mean under the tilted law is summed over cells, each
        at most its two ends' sum times e^{curvature step^2 / 8}.
        """
        rise = np.where(nodes.inside, self.last * argument(self.batch, nodes.y, self.strip), 0.0)
        top = np.max(rise, axis=1, keepdims=True)
        weight = nodes.weights
        sums = np.sum(weight * np.exp(rise - top), axis=1, keepdims=True)
        mean = top + np.log(sums / np.sum(weight, axis=1, keepdims=True))
        curvature = _curvature(self.batch, self.s, self.last, self.strip)
        slack = np.log(2.0) + curvature * self.step**2 / 8.0
        return np.asarray(self.log_real_error(self.s) + mean + slack)

    def beyond(self, ends: Array, left_out: Array) -> Array:
        """The rest of the error of A(s + i t), relative to A(s): the edge outside the range.

        The error bound holds for any curve that keeps clear of the zeros of w, with the integrand
        divided by e^{2 pi |Im y| / step} - 1. Outside the range the curve runs at a height b' at which
        w^{i t} grows by at most e; at both ends of the range it drops to there. `left_out` bounds what
        is outside on either side.
        """
        batch, s, strip, step = self.batch, self.s, self.strip, self.step
        narrow = np.minimum(step * np.log(2.0) / (2.0 * np.pi), 1.0 / (self.last * batch.mu))
        narrow = np.minimum(strip, narrow)
        outside = np.exp(1.0 + _log_lift(batch, s, narrow)) / np.expm1(2.0 * np.pi * narrow / step)
        pieces = int(np.ceil(np.max(2.0 * np.pi * strip / step))) + 1  # a nat of the divisor each
        heights = narrow + (strip - narrow) * np.linspace(0.0, 1.0, pieces + 1)
        turn = np.maximum.accumulate(_largest_argument(batch, ends, heights), axis=2)
        turns = 2.0 * np.pi * heights[:, :-1] / step
        # on each piece of the drop, the growth at its top and the divisor at its bottom
        fall = _log_lift(batch, s, heights[:, 1:]) - turns - np.log(-np.expm1(-turns))
        gain = np.max(self.last * turn[:, :, 1:] + fall[:, None, :], axis=2)
        drop = strip * np.exp(np.minimum(gain, _NO_OVERFLOW))
        return np.asarray(np.sum(2.0 * left_out * (outside + 2.0 * drop), axis=1, keepdims=True))


def tables(line: Line, theta: float, last: float, log_error: Array) -> list[Quadrature] | None:
    """Each row's moments under a tilt, up to the last frequency; None if that takes too many nodes.

    `log_error` is what is aimed at, relative to A(s), for each row; the tables say what was reached.
    """
    batch = line.batch
    s = batch.exponent(theta)
    least, most = np.minimum(s, 0.0), np.maximum(s, 1.0)
    nats = _TAIL_NATS + np.log(batch.count)
    ends = line.range(least, most, nats)
    rule, beyond = Rule.best(line, s, last, ends, log_error)
    if np.any((ends[1] - ends[0]) / rule.step > MOST_NODES):
        return None
    nodes = Nodes.on(batch, theta, *ends, rule.step)
    error = beyond + np.exp(rule.log_edge(nodes))
    # both normalizations enter the sum for log M, so their quadrature errors do too
    bases = line.left_out(least, most, nats) + np.exp(rule.log_real_error(np.ones_like(s)))
    error += (4.0 + 2.0 * np.abs(s)) * bases * np.exp(-np.minimum(nodes.log_moment, 0.0))
    return nodes.tilted(theta, error)


def argument(batch: Batch, y: Array, strip: Array) -> Array:
    """|arg w(y + i b)|."""
    extra = (1,) * (y.ndim - batch.mu.ndim)
    mu, rate = batch.mu.reshape(-1, 1, *extra), batch.rate.reshape(-1, 1, *extra)
    odds = np.exp(np.minimum(mu * y - 0.5 * mu**2, _NO_OVERFLOW)) * rate
    return np.arctan2(odds * np.sin(mu * strip), 1.0 - rate + odds * np.cos(mu * strip))


def _largest_argument(batch: Batch, y: Array, heights: Array) -> Array:
    """max |arg w(y + i b')| over all 0 <= b' <= b, for each row's y and its increasing heights b.

    Where q e^a < 1 - q the argument peaks at arcsin(q e^a / (1 - q)) and falls again.
    """
    turn = argument(batch, y[:, :, None], heights[:, None, :])
    odds = batch.rate * np.exp(np.minimum(batch.mu * y - 0.5 * batch.mu**2, _NO_OVERFLOW))
    ratio = np.minimum(odds / np.maximum(1.0 - batch.rate, 1e-300), 1.0)[:, :, None]
    peak = np.where(ratio < 1.0, np.arcsin(ratio), 0.0)
    past = np.cos(batch.mu * heights)[:, None, :] <= -ratio
    return np.where(past, np.maximum(turn, peak), turn)


def _log_lift(batch: Batch, s: Array, height: Array) -> Array:
    """log of the most by which |w^s phi| at y + i height exceeds its value at y; grows with height."""
    return np.asarray(0.5 * height**2 + log_shrinkage(batch, s, height))


def _curvature(batch: Batch, s: Array, last: float, strip: Array) -> Array:
    """Bound on the second derivative of the logarithm of |w^{s + i t} phi| along the edge."""
    flat = np.cos(0.5 * batch.mu * strip) ** 2
    return np.asarray(1.0 + (np.abs(s) + last / flat) * batch.mu**2 / 4.0)


def _log_sum(log_f: Array) -> Array:
    """log of the sum over the last axis, which is kept."""
    peak = np.max(log_f, axis=-1, keepdims=True)
    return np.asarray(peak + np.log(np.sum(np.exp(log_f - peak), axis=-1, keepdims=True)))
