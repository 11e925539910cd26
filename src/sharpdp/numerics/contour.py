"""Sums of many independent losses, read off a tilted contour: value plus error bound.

For independent L_1, L_2, ... with generating function M_T(z) = prod M_i(z)^{T_i} (defective if some mass
is infinite) and z = theta + i t, theta > 0,

    E[(1 - e^{k - L})_+] = (1/2 pi) int M_T(z) e^{-z k} / (z (z + 1)) dt.

The trapezoid rule with step 2 pi / W gives exactly the sum of this function at k + m W, weighted by
e^{theta m W}. Images to the right are nonnegative. Those to the left are the finite mass A less
E[min(1, e^{k - mW - L})]: the A's add up to A / (e^{theta W} - 1). What is not subtracted has Chernoff
bounds. To make the sum over frequencies finite,
a Gaussian loss of standard deviation w is added, which raises the value by at most

    w^2 (1 + w) e^{w^2/8} (1/2 pi) int M_T(z) e^{w^2 z (z+1)/2} e^{-z k} dt.

Each loss has weighted points l_j (`Atoms`) with weights p_j > 0, and

    M(z) = sum_j p_j e^{z l_j} = M(theta) e^{i t c} (1 + psi(t)),   c any center,

is evaluated with a bound on the error of log M(theta) and of psi. Two evaluators of psi exist: a direct
sum, whose error shrinks with t, and for many frequencies a gridded FFT. Integrals of functions that are
known in closed form have the error bound of `log_strip_error`.

Sources: alghamdi2023 (the contour), abate1992 (image sums), trefethen2014 (the trapezoid rule),
greengard2004 (the gridded FFT).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.matrix_product import matrix_product
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    ComplexArray,
    complex_log1p,
    log_convexity_gap,
    log_expm1,
    log_sum,
)


def gridded_transform(
    points: Array, weights: Array, step: float, count: int
) -> tuple[ComplexArray, Array]:
    """sum_j w_j e^{i k step x_j} for k = 0 .. count-1 (complex), and a bound on each error.

    Weights are nonnegative with sum one at most; see `Gridding`.
    """
    return Gridding(points, step, count).sums(weights)


class Gridding:
    """Sums of w_j e^{i k step x_j} for k = 0 .. count-1 by one FFT for each set of weights w.

    Gaussian gridding (greengard2004): spread every weight over a fine periodic grid with a narrow
    Gaussian, take one FFT, divide by the Gaussian's transform. Weights are nonnegative with sum one at
    most. With period 2 pi / step the points become angles in [-pi, pi); grid size G >= 4 count, Gaussian
    exp(-angle^2 / (4 tau)) with tau = a / G^2. The k-th value is the FFT of the grid times
    sqrt(pi / tau) e^{tau k^2} / G.

    Numerics, for weights of sum one and k <= G/4:
    aliases sum to at most 2.1 e^{-tau (G^2 - 2 G k)}; the truncated spread costs at most
    2.1 sqrt(pi/a) e^{-pi^2 S^2 / a} e^{tau k^2}; the FFT's rounding is log2(G) stage errors of the
    grid's sum, times e^{tau k^2}. Reducing the angles moves each by a few units of |step x|, which
    the caller accounts for (it needs the weights' mean of |x|).

    >>> values, errors = Gridding(np.array([0.0, 1.0]), 0.5, 100).sums(np.array([0.25, 0.75]))
    >>> bool(abs(values[40] - 0.25 - 0.75 * np.exp(20j)) < errors[40] < 1e-12)
    True
    """

    def __init__(self, points: Array, step: float, count: int) -> None:
        """Spread every point over the grid."""
        self._grid_size = _fast_length(4 * max(count, 64))
        self._nearest, self._spreads = _spread(points * (step / (2.0 * np.pi)), self._grid_size)
        self._growth, self._error = _gridding_error(self._grid_size, count)

    def sums(self, weights: Array) -> tuple[ComplexArray, Array]:
        """The sums with these weights, and a bound on each error."""
        values = self._spreads * weights
        grid, crowd = _gridded(values, self._nearest, _SHIFTS, self._grid_size)
        transform = np.conj(np.fft.rfft(grid)[: self._growth.size]) * (self._growth * _GRID_SCALE)
        return transform, self._growth * _grid_rounding(self._grid_size, crowd) + self._error


def _spread(turns: Array, grid_size: int) -> tuple[NDArray[np.int64], Array]:
    """The grid points left of angles, given in turns, and the Gaussians around them at all shifts.

    A Gaussian at p - s is e^{-d p^2} (e^{2 d p})^s e^{-d s^2}: powers by products are off by two units
    for each shift, where the Gaussian is still large by fewer than twenty.
    """
    position = (turns - np.rint(turns)) * grid_size
    nearest = np.floor(position)
    position -= nearest
    spreads = np.empty((_SHIFTS.size, *position.shape))
    factor = np.exp(2.0 * _DECAY * position)
    zero = _SPREAD - 1
    spreads[zero] = np.exp(-_DECAY * position * position)
    for place in range(zero + 1, _SHIFTS.size):
        np.multiply(spreads[place - 1], factor, out=spreads[place])
    np.divide(1.0, factor, out=factor)
    for place in range(zero - 1, -1, -1):
        np.multiply(spreads[place + 1], factor, out=spreads[place])
    spreads *= np.exp(-_DECAY * (_SHIFTS * _SHIFTS)).reshape(-1, *[1] * position.ndim)
    return nearest.astype(np.int64), spreads


@lru_cache(maxsize=256)
def _gridding_error(grid_size: int, count: int) -> tuple[Array, Array]:
    """By how much each of the first values is to be enlarged, and what truncation and aliases leave."""
    k = np.arange(float(count))
    tau = _WIDTH / grid_size**2
    growth = np.exp(tau * k * k)
    truncation = 2.1 * np.sqrt(np.pi / _WIDTH) * np.exp(-_DECAY * _SPREAD**2)
    aliases = 2.1 * np.exp(-tau * grid_size * (grid_size - 2.0 * k))
    return growth, np.asarray(growth * truncation + aliases)


def _grid_rounding(grid_size: int, crowd: int) -> float:
    """The elementwise error of an FFT of nonnegative data relative to their sum, and that of the data."""
    stage_error = (2.0 + math.sqrt(5.0)) * UNIT_ROUNDOFF  # per radix-2 stage
    return (math.log2(grid_size) + 4.0) * stage_error + (128.0 + crowd) * UNIT_ROUNDOFF


# With grid = 2 x frequencies and a Gaussian exp(-a) wide, aliasing is 2 e^{-a/2} and truncating the
# spread at S grid points costs e^{-pi^2 S^2 / a + a/16}; both are below 2e-15 here.
_WIDTH, _SPREAD = 69.0, 16
_DECAY, _GRID_SCALE = np.pi**2 / _WIDTH, np.sqrt(np.pi / _WIDTH)
_SHIFTS = np.arange(-_SPREAD + 1, _SPREAD + 1)


def _fast_length(least: int) -> int:
    """The smallest number 2^k m, m one of a few products of 3 and 5, that is not below the least.

    >>> _fast_length(1000), _fast_length(1025)
    (1024, 1152)
    """
    return min(m << (-(-least // m) - 1).bit_length() for m in (1, 3, 5, 9, 15, 25, 27))


def _gridded(
    values: Array, nearest: NDArray[np.int64], shifts: NDArray[np.int64], grid_size: int
) -> tuple[Array, int]:
    """The values added up on the grid, and the most additions that any cell saw one after another.

    Points that follow each other into the same cell are summed pairwise first, so that the rounding of
    a crowded cell grows with the logarithm of the crowd.
    """
    starts = np.flatnonzero(np.append(True, np.diff(nearest) != 0))
    runs = np.add.reduceat(values, starts, axis=1)
    index = ((nearest[starts] + shifts[:, None]) % grid_size).ravel()
    crowd = int(np.max(np.bincount(index, minlength=1)))
    grid: Array = np.bincount(index, weights=runs.ravel(), minlength=grid_size).astype(float)
    return grid, crowd


# numpy sums a contiguous axis pairwise: at most 19 additions in a block of 128, then log2 of the
# number of blocks; sin, cos, exp and products add a handful. 64 units cover all sizes below 2^30.
SUM_ERROR = 64.0 * UNIT_ROUNDOFF


def phase_moves(points: Array, weights: Array, t: Array) -> ComplexArray:
    """sum_j w_j (e^{i t x_j} - 1) at each t, every term to a few units of |t x_j| w_j.

    Points and weights may be those of each t, one row for each.
    """
    half = 0.5 * t[:, None] * points
    sine = np.sin(half)
    real = np.sum(-2.0 * weights * sine * sine, axis=-1)
    return np.asarray(real + 1j * np.sum(2.0 * weights * sine * np.cos(half), axis=-1))


class PhaseTable:
    """Exponentials e^{i k step x_j} at given k, for sums with several weights, by products of few.

    The product of two exponentials has an error of some units, like each of them.

    >>> table = PhaseTable(np.array([0.0, 1.0]), 0.5, np.arange(100))
    >>> bool(abs(table.sums(np.array([0.25, 0.75]))[40] - 0.25 - 0.75 * np.exp(20j)) < 1e-14)
    True
    """

    def __init__(
        self, points: Array, step: float, indices: NDArray[np.intp], block_size: int = 32
    ) -> None:
        """Take the exponentials of one block of indices, and of the starts of all blocks."""
        self._fine = np.exp(1j * np.multiply.outer(step * np.arange(block_size), points)).T
        blocks, self._block = np.unique(indices // block_size, return_inverse=True)
        self._coarse = np.exp(1j * np.multiply.outer(step * block_size * blocks, points))
        self._within = indices % block_size

    def sums(self, weights: Array) -> ComplexArray:
        """sum_j w_j e^{i k step x_j} at each index k."""
        every = matrix_product(self._coarse * weights, self._fine)
        return np.asarray(every[self._block, self._within])


MANY_POINTS = 64
"""From so many points on a `Gridding` is quicker than products of exponentials."""


@dataclass(frozen=True)
class Atoms:
    """Points with log-weights, the noise in them, and what is known about their exact sums.

    The exact weights satisfy sum p_j = 1 - deficit and sum p_j e^{-l_j} = 1 - dual_deficit; the deficit
    is kept as a logarithm, since it may be below all doubles. Points are known to within `point_error`.
    The computed ones are those of a function (the profile) known to relative `accuracy`, whose slopes
    carry extra absolute noise `exp(log_noise)` around each of the `noise_points`.
    """

    points: Array
    log_weights: Array
    noise_points: Array = field(default_factory=partial(np.zeros, 0))
    log_noise: Array = field(default_factory=partial(np.zeros, 0))
    log_deficit: float = -np.inf
    dual_deficit: float = 0.0
    accuracy: float = 0.0
    point_error: float = 0.0

    @property
    def deficit(self) -> float:
        """One minus the total weight."""
        return float(np.exp(self.log_deficit))

    def log_moment(self, theta: float) -> float:
        """log M(theta), from the sum that has both normalizations taken out."""
        log_gaps = self.log_weights + log_convexity_gap(theta, self.points)
        linear = -self.deficit + theta * (self.dual_deficit - self.deficit)
        peak = float(np.max(log_gaps, initial=-np.inf))
        sign = 1.0 if theta * (theta + 1.0) >= 0.0 else -1.0
        if peak < 600.0:
            return float(np.log1p(sign * np.sum(np.exp(log_gaps)) + linear))
        return float(log_sum(log_gaps))

    def log_moments(self, thetas: Array, *, exactly: bool = False) -> Array:
        """log M at several real arguments, as plain sums unless wanted exactly: error about 1e-14."""
        if exactly:
            return np.array([self.log_moment(float(theta)) for theta in thetas])
        exponent = self.log_weights + np.multiply.outer(thetas, self.points)
        return log_sum(exponent)

    def tilted(self, theta: float) -> Tilted:
        """These points with weights p_j e^{theta l_j} / M(theta).

        If M(theta) is so small that its rounding error hides it, the error is infinite.
        """
        log_m = self.log_moment(theta)
        exponent = self.log_weights + theta * self.points
        weights = np.exp(exponent - log_m)
        total = float(np.sum(weights))
        hidden = total == 0.0
        if hidden:
            weights = np.exp(exponent - np.max(exponent))
            total = float(np.sum(weights))
        center = float(np.sum(weights * self.points)) / total
        # a weight's exponent carries a rounding error proportional to the numbers it was added from
        inflation = 1.0 + (np.abs(self.log_weights) + np.abs(theta * self.points)) / 16.0
        spread = np.abs(self.points - center) * inflation
        noise = float(np.sum(np.exp(self.log_noise + theta * self.noise_points - log_m)))
        # e^{log M} - 1 - linear is the structured part; at most M + 1 + |linear| in size.
        linear = -self.deficit + theta * (self.dual_deficit - self.deficit)
        structured = abs(np.expm1(log_m) - linear) * np.exp(-log_m) if log_m < 600.0 else 1.0
        # the value at the last node was taken off everywhere below it
        last = theta * float(np.max(self.points, initial=0.0)) - log_m
        structured += 2.0 * (abs(theta) + 1.0) * np.exp(min(self.log_deficit + last, 700.0))
        exponents = float(np.max(np.abs(self.log_weights), initial=0.0)) + abs(log_m)
        return Tilted(
            theta=theta,
            log_moment=log_m,
            center=center,
            offsets=self.points - center,
            weights=weights / total,
            mean_spread=float(np.sum(weights * spread)) / total,
            slope_noise=noise,
            point_error=self.point_error,
            structured=np.inf
            if hidden
            else float(structured) * (self.accuracy + SUM_ERROR + 4.0 * UNIT_ROUNDOFF * exponents),
        )


@dataclass(frozen=True)
class Tilted:
    """Atoms under an exponential tilt, ready to be transformed.

    With z = theta + i t the error of M(z) / M(theta) caused by the noise in the weights is at most
    |z + 1| slope_noise + |z| point_error + |z (z + 1)| / |theta (theta + 1)| structured + quadrature.
    """

    theta: float
    log_moment: float
    center: float
    offsets: Array
    weights: Array
    mean_spread: float
    slope_noise: float
    point_error: float
    structured: float
    quadrature: float = 0.0

    def weight_error(self, t: Array) -> Array:
        """Bound on the error of M(z) / M(theta) that comes from the weights."""
        theta = self.theta
        z1 = np.hypot(theta + 1.0, t)
        ratio = np.hypot(theta, t) * z1 / abs(theta * (theta + 1.0))
        linear = z1 * self.slope_noise + np.hypot(theta, t) * self.point_error
        return np.asarray(linear + ratio * self.structured + self.quadrature)

    @property
    def log_moment_error(self) -> float:
        """Bound on the error of log M(theta)."""
        relative = float(self.weight_error(np.zeros(1))[0])
        return relative / (1.0 - min(relative, 0.5)) + 4.0 * UNIT_ROUNDOFF * abs(self.log_moment)

    def psi_many(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values) by a gridded FFT, and its rounding error."""
        phi, gridding = gridded_transform(self.offsets, self.weights, step, count)
        argument = SUM_ERROR * self.mean_spread * step * np.arange(count)
        return phi - 1.0, gridding + argument

    def psi(self, t: Array) -> tuple[ComplexArray, Array]:
        """psi at each t (complex) by direct summation, and a bound on its rounding error.

        Each term is -2 sin^2(a/2) + i sin a with a = t (l - c), of modulus at most |a|, computed with
        relative error of a few units; the argument's own rounding moves it by at most 4 units times
        |a|. Hence rounding is below SUM_ERROR t E|l - c|.
        """
        rounding = 2.0 * SUM_ERROR * np.abs(t) * self.mean_spread
        rows = max(1, (1 << 20) // max(self.offsets.size, 1))  # what fits into the cache
        if t.size <= rows:
            return phase_moves(self.offsets, self.weights, t), rounding
        blocks = (t[row : row + rows] for row in range(0, t.size, rows))
        parts = [phase_moves(self.offsets, self.weights, block) for block in blocks]
        return np.concatenate(parts), rounding


def log_strip_error(strip: ArrayLike, step: ArrayLike, log_edge_integral: ArrayLike) -> Array:
    """log of the trapezoid rule's error on the whole line, for functions analytic in a strip.

    If f is analytic in |Im y| <= b and the integrals of |f| along both edges are at most N, then

        | step * sum_j f(j step) - integral f | <= 2 N / (e^{2 pi b / step} - 1).

    The step must be well below 2 pi b.

    Source: trefethen2014 Theorem 5.1.

    >>> bool(log_strip_error(1.0, 0.1, 0.0) < -60)
    True
    """
    turns = 2.0 * np.pi * np.asarray(strip) / np.asarray(step)
    return np.asarray(np.log(2.0) + log_edge_integral - turns - np.log(-np.expm1(-turns)))


def step_for(strip: ArrayLike, log_error: ArrayLike, log_edge_integral: ArrayLike) -> Array:
    """The largest step whose error is about e^log_error.

    >>> bool(log_strip_error(1.0, step_for(1.0, -30.0, 2.0), 2.0) <= -30 + 1e-9)
    True
    """
    nats = np.maximum(np.asarray(log_edge_integral) - log_error + np.log(2.0), 1.0)
    return np.asarray(2.0 * np.pi * np.asarray(strip) / nats)


@dataclass(frozen=True)
class Contour:
    """Everything needed to evaluate E[(1 - e^{k - L})_+] near the threshold the tilt was made for."""

    theta: float
    window: float
    smoothing: float
    damping: float
    beyond: float
    log_scale: float
    log_scale_error: float
    center: float
    center_size: float
    frequencies: Array
    values: ComplexArray
    errors: Array
    log_finite: float
    chernoff: Chernoff
    dropped: tuple[float, float] = (0.0, 0.0)
    """Bounds on what further frequencies add to payoffs and to the density, besides what is `beyond`."""
    last: float | None = None
    """The frequency from which damping is counted; None if that is the last one held."""

    def trimmed(self, negligible: float = 1e-20) -> Contour:
        """The same contour without last frequencies that add less than this share to any payoff."""
        weight = 2.0 * (np.abs(self.values) + self.errors) / self.window
        z = self.theta + 1j * self.frequencies
        kernel = 1.0 / (z * (z + 1.0))
        payoffs = np.cumsum((weight * np.abs(kernel))[::-1])[::-1]
        kept = max(int(np.count_nonzero(payoffs > negligible * payoffs[0])), 2)
        if kept >= self.frequencies.size:
            return self
        return replace(
            self,
            frequencies=self.frequencies[:kept],
            values=self.values[:kept],
            errors=self.errors[:kept],
            dropped=(1.01 * float(payoffs[kept]), 1.01 * float(np.sum(weight[kept:]))),
            last=float(self.frequencies[-1]),
        )

    def log_call(self, threshold: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E[(1 - e^{k - L})_+; L < inf]; lower may be -inf."""
        low, high = self.log_calls(np.array([threshold]))
        return float(low[0]), float(high[0])

    def log_calls(self, thresholds: Array) -> tuple[Array, Array]:
        """`log_call` at many thresholds in one pass: all lower and all upper ends."""
        value, error, rise = self._sums(thresholds)
        shift = self.theta * thresholds
        lead = self.log_scale - shift
        slack = self.log_scale_error + 4.0 * UNIT_ROUNDOFF * (abs(self.log_scale) + np.abs(shift))
        images, image_error = self._left_images(lead)
        # the images are known in absolute terms: an error of the lead changes their size in its units
        image_error = image_error + images * np.expm1(np.minimum(slack, 700.0))
        left, right = self._log_images
        k = thresholds[:, None]
        left = (left + self.chernoff.left_tilts * k).min(axis=1)
        right = (right - self.chernoff.right_tilts * k).min(axis=1)
        value = value - images
        error = error + image_error
        high = value + error + _scaled(left - lead)
        low = value - error - rise - _scaled(right - lead)
        # a NaN, or an upper end that is not positive, means that the error bound broke: no answer
        with np.errstate(divide="ignore", invalid="ignore"):
            log_high = np.where(high > 0.0, lead + np.log(high) + slack, np.inf)
            log_low = np.where(low > 0.0, lead + np.log(low) - slack, -np.inf)
        return log_low, log_high

    @cached_property
    def _log_images(self) -> tuple[Array, Array]:
        return self.chernoff.log_images(self.theta, self.window)

    @cached_property
    def _payoff(self) -> TrapezoidTerms:
        z = self.theta + 1j * self.frequencies
        return TrapezoidTerms.of(self, np.asarray(1.0 / (z * (z + 1.0)), dtype=complex))

    @cached_property
    def _density(self) -> TrapezoidTerms:
        return TrapezoidTerms.of(self, np.ones(self.frequencies.size, dtype=complex))

    def _sums(self, thresholds: Array) -> tuple[Array, Array, Array | float]:
        """Trapezoid values, their errors, and upper bounds on the rise by smoothing; all e^-lead."""
        t, w = self.frequencies, self.smoothing
        turns = self.center - thresholds
        value, error = self._payoff.at(t, turns), self._payoff.error(thresholds)
        error = error + self.dropped[0]
        if self.damping == 0.0:
            return value, error + self.beyond, 0.0
        # |M_T(z)| <= M_T(theta), and the Gaussian factors decay
        last = float(t[-1]) if self.last is None else self.last
        more, more_density = beyond_last(self.damping, last, float(t[1]))
        if w == 0.0:
            return value, error + more, 0.0
        density = (
            self._density.at(t, turns)
            + self._density.error(thresholds)
            + more_density
            + self.dropped[1]
        )
        rise = w * w * (1.0 + w) * np.exp(w * w / 8.0) * density
        return value, error + more, np.maximum(rise, 0.0)

    def _left_images(self, lead: Array) -> tuple[Array, Array]:
        """Closed part of the images to the left, in units of e^lead, and its rounding error."""
        exponent = self.theta * self.window
        log_images = self.log_finite - exponent - float(np.log(-np.expm1(-exponent)))
        images = _scaled(log_images - lead)
        size = abs(log_images) + np.abs(lead) + exponent + 8.0
        return images, images * 4.0 * UNIT_ROUNDOFF * size


_FINE = 10
"""So many frequencies share a factor of their phases."""


@dataclass(frozen=True, eq=False)
class TrapezoidTerms:
    """The terms of a trapezoid sum over frequencies that no threshold changes.

    The sum at threshold k is that of real e^{i t (c - k)} parts, its error `fixed` + |k| `growing`:
    those of the values, 64 units of each term, and four of t (|c| + |k|) for the rounding of phases.
    """

    real: Array
    imag: Array
    fixed: float
    growing: float

    @classmethod
    def of(cls, contour: Contour, kernel: ComplexArray) -> TrapezoidTerms:
        """The terms of values times a kernel; frequencies t and -t are conjugate."""
        t = contour.frequencies
        terms = contour.values * kernel * (2.0 / contour.window)
        sizes = np.abs(kernel) * (2.0 / contour.window)
        terms[0], sizes[0] = 0.5 * terms[0], 0.5 * sizes[0]
        rounding = UNIT_ROUNDOFF * sizes * np.abs(contour.values)
        growing = float((4.0 * rounding * t).sum())
        fixed = float((sizes * contour.errors + 64.0 * rounding).sum())
        fixed += contour.center_size * growing
        return cls(
            np.ascontiguousarray(terms.real), np.ascontiguousarray(terms.imag), fixed, growing
        )

    def at(self, t: Array, turns: Array) -> Array:
        """The sums at the values of c - k; t are multiples of one frequency."""
        is_long = t.size > 2 * _FINE and turns.size > 8
        # as many thresholds at a time as fit into the cache
        rows = max((1 << (19 if is_long else 16)) // t.size, 1)
        sums = self._by_products if is_long else self._directly
        if turns.size <= rows:
            return sums(t, turns)
        parts = [sums(t, turns[row : row + rows]) for row in range(0, turns.size, rows)]
        return np.concatenate(parts)

    def _directly(self, t: Array, turns: Array) -> Array:
        phases = turns[:, None] * t
        terms = np.cos(phases) * self.real - np.sin(phases) * self.imag
        return np.asarray(terms.sum(axis=1))

    def _by_products(self, t: Array, turns: Array) -> Array:
        """The sums with e^{i t a} = e^{i t' a} e^{i t'' a}, t' one of the first ten frequencies.

        Of the 64 units a dot product of 20 numbers takes 29 in its two parts, the pairwise sum 24, and
        the factors with their products 8. Phases are rounded as in a direct sum.
        """
        fine, coarse = turns[:, None] * t[:_FINE], turns[:, None] * t[::_FINE]
        turned = np.concatenate([np.cos(fine), np.sin(fine)], axis=1)
        to_real, to_imag = self._blocks
        terms = np.cos(coarse) * matrix_product(turned, to_real)
        terms -= np.sin(coarse) * matrix_product(turned, to_imag)
        return np.asarray(terms.sum(axis=1))

    @cached_property
    def _blocks(self) -> tuple[Array, Array]:
        """The terms in columns of ten, as matrices that cosines and sines are multiplied with."""
        columns = -(-self.real.size // _FINE)
        padded = np.zeros((2, columns * _FINE))
        padded[:, : self.real.size] = self.real, self.imag
        real, imag = padded.reshape(2, columns, _FINE).transpose(0, 2, 1)
        return np.concatenate([real, -imag]), np.concatenate([imag, real])

    def error(self, thresholds: Array) -> Array:
        """Bounds on the errors of the sums."""
        return np.asarray(self.fixed + self.growing * np.abs(thresholds))


def _scaled(log_value: Array) -> Array:
    return np.asarray(np.exp(np.minimum(log_value, 700.0)))


@dataclass(frozen=True)
class Chernoff:
    """log M_T at real tilts on both sides, for bounds on what lies a whole window away."""

    right_tilts: Array
    right_log_moments: Array
    left_tilts: Array
    left_log_moments: Array

    @classmethod
    def of(
        cls, many: Sequence[tuple[Atoms, float]], right_tilts: Array, left_tilts: Array
    ) -> Chernoff:
        """Evaluate the parts at s > theta and at -a, 0 < a <= 1."""
        right, left = np.zeros_like(right_tilts), np.zeros_like(left_tilts)
        for part, count in many:
            exactly = count > 1e7  # so many repetitions of plain rounding would show
            right = right + count * part.log_moments(right_tilts, exactly=exactly)
            left = left + count * part.log_moments(-left_tilts, exactly=exactly)
        return cls(right_tilts, right, left_tilts, left)

    def with_gaussian(self, square: float) -> Chernoff:
        """These moments with a Gaussian loss of this variance added."""
        s, a = self.right_tilts, self.left_tilts
        return Chernoff(
            s,
            self.right_log_moments + 0.5 * square * s * (s + 1.0),
            a,
            self.left_log_moments + 0.5 * square * a * (a - 1.0),
        )

    def log_images(self, theta: float, window: float) -> tuple[Array, Array]:
        """log of bounds at threshold zero on what is left of the left images, and on the right ones.

        Left, 0 < a <= 1: min(1, e^x) <= e^{a x} gives M_T(-a) e^{a k} / (e^{(theta + a) W} - 1).
        Right, s > theta: c(s) M_T(s) e^{-s k} / (e^{(s - theta) W} - 1), c(s) = s^s/(1 + s)^{1 + s}.
        Rounding of the moments is covered by an allowance of 1e-6 of their logarithms, and of one.
        """
        s, a = self.right_tilts, self.left_tilts
        left = self.left_log_moments + 1e-6 * (1.0 + np.abs(self.left_log_moments))
        right = self.right_log_moments + 1e-6 * (1.0 + np.abs(self.right_log_moments))
        left = left - log_expm1((theta + a) * window)
        return left, right + log_call_constant(s) - log_expm1((s - theta) * window)


def log_call_constant(s: Array) -> Array:
    """log of the largest value of (1 - e^{-x})_+ e^{-s x}."""
    return np.asarray(-s * np.log1p(1.0 / s) - np.log1p(s))


def powers(
    tilted: Sequence[Tilted],
    counts: Sequence[float],
    t: Array,
    harmless: float,
    replaced: float | None = None,
) -> tuple[ComplexArray, Array]:
    """prod (1 + psi_i)^{T_i} at equally spaced frequencies from 0 on, and a bound on each error.

    Where an FFT's rounding may make a power's error larger than `harmless`, all that is larger than
    `replaced`, or 1e-4 of it, is replaced by direct sums.
    """
    replaced = 1e-4 * harmless if replaced is None else replaced
    size, step = t.size, float(t[1])
    log_value = np.zeros(size, dtype=complex)
    log_error, log_bound = np.zeros(size), np.zeros(size)
    # Few terms are summed directly, which is more accurate than gridding; if all parts together have
    # many, only so few that it is as fast.
    few = 1 << 16 if size * sum(part.offsets.size for part in tilted) <= 1 << 20 else 1 << 12
    for part, count in zip(tilted, counts, strict=True):
        if size * part.offsets.size <= few:
            psi, error = part.psi(t)
        else:
            psi, error = part.psi_many(step, size)
            if count * float(error[0]) > harmless:
                psi, error = _repaired(part, count, t, psi, error, replaced)
        # numerator and denominator of M(z) / M(theta)
        error = error + part.weight_error(t) + part.weight_error(np.zeros(1))
        for total, term in zip(
            (log_value, log_error, log_bound), log_power(psi, error, count), strict=True
        ):
            total += term
    return exponential(log_value, log_error, log_bound)


def log_power(
    psi: ComplexArray, error: Array, count: float | Array
) -> tuple[ComplexArray, Array, Array]:
    """n log(1 + psi), a bound on its error, and a bound on its real part.

    Holds when: psi is known to within `error`, and 1 + psi has modulus at most 1. Where that may be 0
    the first bound is infinite.
    """
    modulus = np.abs(1.0 + psi)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_value = count * complex_log1p(psi)
        room = modulus - error
        ratio = np.minimum(count * error / np.maximum(room, 1e-290), 1e9)
        rounding = 8.0 * UNIT_ROUNDOFF * (np.abs(log_value.real) + np.abs(log_value.imag))
        log_bound = count * np.log(np.minimum(modulus, 1.0) + error)
    return log_value, np.where(room > 0.0, ratio, np.inf) + rounding, log_bound


def exponential(
    log_value: ComplexArray, log_error: Array, log_bound: Array
) -> tuple[ComplexArray, Array]:
    """The exponential of a number known to within an error, and a bound on the error of the result.

    Where the error is large, or NaN, the bound on the modulus is used, which is at most 1.
    """
    value = np.exp(np.where(np.isfinite(log_value.real), log_value, -np.inf))
    small = log_error < 0.1
    return value, np.where(
        small,
        np.abs(value) * np.expm1(np.where(small, log_error, 0.0)),
        np.abs(value) + np.exp(np.minimum(log_bound, 0.0)),
    )


def beyond_last(damping: float, last: float, step: float) -> tuple[float, float]:
    """Bounds on the frequencies beyond the last one, T: on payoffs with kernel at most t^-2, on density.

    Values are at most h = e^{-(v t)^2 / 2}, v = damping. Since h / t^2 is convex its sum is at most the
    integral from T + step/2 on, hence at most h(T) / ((T + step) (v T)^2); that of h is at most
    h(T) / (v^2 T).
    """
    more, more_density = beyond_each_last(np.float64(damping), np.float64(last), np.float64(step))
    return float(more), float(more_density)


def beyond_each_last(damping: Array, last: Array, step: Array) -> tuple[Array, Array]:
    """`beyond_last` of many sums."""
    reach = damping * last
    with np.errstate(over="ignore", divide="ignore"):
        damp = 1.01 * np.exp(-0.5 * reach**2) / np.pi
        return damp / (last + step) / reach**2, damp / (damping * reach)


def _repaired(
    part: Tilted, count: float, t: Array, psi: ComplexArray, error: Array, harmless: float
) -> tuple[ComplexArray, Array]:
    """Replace the leading frequencies, where the error of the power still matters, by direct sums.

    That is where it may exceed `harmless`; at most 2^13 of them are replaced.
    """
    with np.errstate(divide="ignore"):
        log_bound = count * np.log(np.minimum(np.abs(1.0 + psi) + error, 1.0))
        matters = np.flatnonzero(log_bound + np.log(count * error) > np.log(harmless))
    size = min(int(matters[-1]) + 1 if matters.size else 0, 1 << 13)
    psi[:size], error[:size] = part.psi(t[:size])
    return psi, error


def make_contour(
    tilted: Sequence[Tilted],
    counts: Sequence[float],
    window: float,
    size: int,
    *,
    smoothing: float = 0.0,
    gaussian: float = 0.0,
    beyond: float = 0.0,
    harmless: float = 0.0,
    replaced: float | None = None,
    log_finite: float = 0.0,
    chernoff: Chernoff,
) -> Contour:
    """Transform every tilted part and multiply the powers.

    The FFT's rounding, times the repetitions, may reach `harmless` before direct sums replace it, down
    to errors of powers of `replaced`.
    A further part with M(z) = e^{g z (z + 1) / 2}, g = `gaussian`, needs no table. Without it and
    without smoothing the caller bounds the frequencies `beyond` the last one.
    """
    theta, w = tilted[0].theta, smoothing
    t: Array = (2.0 * np.pi / window) * np.arange(max(size, 2), dtype=float)
    values, errors = powers(tilted, counts, t, harmless, replaced)
    square = w * w + gaussian
    damp = np.exp(-0.5 * square * t**2)
    terms = [
        (count * part.center, count * part.log_moment, count * part.log_moment_error)
        for part, count in zip(tilted, counts, strict=True)
    ]
    centers, log_moments, log_moment_errors = zip(*terms, strict=True)
    return Contour(
        theta=theta,
        window=window,
        smoothing=w,
        damping=math.sqrt(square),
        beyond=beyond,
        log_scale=math.fsum(log_moments) + 0.5 * square * theta * (theta + 1.0),
        log_scale_error=sum(log_moment_errors),
        center=math.fsum(centers) + 0.5 * square * (2.0 * theta + 1.0),
        center_size=math.fsum(map(abs, centers)) + square * (theta + 1.0),
        frequencies=t,
        values=values * damp,
        errors=errors * damp,
        log_finite=log_finite,
        chernoff=chernoff.with_gaussian(square),
    )
