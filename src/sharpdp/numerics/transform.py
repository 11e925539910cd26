"""Exponential moments of weighted points on the real line, at real and complex arguments.

For points l_j with weights p_j > 0 and z = theta + i t this module evaluates

    M(z) = sum_j p_j e^{z l_j} = M(theta) e^{i t c} (1 + psi(t)),   c any center,

together with a bound on the error of log M(theta) and of psi. Two evaluators of psi exist: a direct
sum, whose error shrinks with t, and a gridded FFT (`nufft`) for many frequencies.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.nufft import gridded_transform
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    ComplexArray,
    log_convexity_gap,
    log_sum,
)

# numpy sums a contiguous axis pairwise: at most 19 additions in a block of 128, then log2 of the
# number of blocks; sin, cos, exp and products add a handful. 64 units cover all sizes below 2^30.
SUM_ERROR = 64.0 * UNIT_ROUNDOFF
# Exponentials at many frequencies are products of those at so many.
_BLOCK = 32
# Matrix products this small stay on one thread: on a busy machine waiting for a second one takes longer.
_SINGLE_THREAD = 1 << 15


def _nothing() -> Array:
    return np.zeros(0)


def phase_moves(points: Array, weights: Array, t: Array) -> ComplexArray:
    """sum_j w_j (e^{i t x_j} - 1) at each t, every term to a few units of |t x_j| w_j."""
    half = 0.5 * np.multiply.outer(t, points)
    sine = np.sin(half)
    real = np.sum(-2.0 * weights * sine * sine, axis=-1)
    return np.asarray(real + 1j * np.sum(2.0 * weights * sine * np.cos(half), axis=-1))


def phase_sums(
    points: Array, weights: Array, step: float, indices: NDArray[np.intp]
) -> ComplexArray:
    """sum_j w_j e^{i k step x_j} at each index k; at many of them by products of few exponentials.

    The product of two exponentials has an error of some units, like each of them.
    """
    if indices.size <= _BLOCK:
        phases = np.exp(1j * np.multiply.outer(step * indices, points))
        return np.asarray(np.sum(phases * weights, axis=1))
    fine = np.exp(1j * np.multiply.outer(step * np.arange(_BLOCK), points))
    blocks, block = np.unique(indices // _BLOCK, return_inverse=True)
    coarse = np.exp(1j * np.multiply.outer(step * _BLOCK * blocks, points)) * weights
    rows = max(_SINGLE_THREAD // fine.size, 1)
    parts = [coarse[row : row + rows] @ fine.T for row in range(0, blocks.size, rows)]
    return np.asarray(np.concatenate(parts)[block, indices % _BLOCK])


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
    noise_points: Array = field(default_factory=_nothing)
    log_noise: Array = field(default_factory=_nothing)
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
        return phase_moves(self.offsets, self.weights, t), rounding
