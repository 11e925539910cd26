"""One step of a Poisson-sampled Gaussian as a function of the normal variable, and its real moments.

Owns w(y) = 1 - q + q e^{mu y - mu^2/2}, where w^s draws its mass from, A(s) = E[w^s] at real s, and how
fast the characteristic function of the loss falls; `analytic` builds contours from these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.numerics.special import Array, log_mixture

_LONGEST = 400.0
_STEEPEST = 1e5
_POINTS_PER_EIGHTY = 256
# Half-widths, in y, of the windows around the mode whose smallest density is used as a layer.
_LAYERS = np.array([0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.7, 3.3])
# Bounds on the characteristic function are evaluated in blocks of frequencies that grow by this ratio.
_BLOCK_RATIO = 1.1
_MOST_BLOCKS = 400


@dataclass(frozen=True)
class SampledGaussian:
    """One kind of step: rate q, shift mu, repetitions; sign +1 if the record is there under P."""

    rate: float
    mu: float
    sign: int
    count: float

    def exponent(self, z: ArrayLike) -> Array:
        """s with M(z) = A(s)."""
        return np.asarray(z) + 1.0 if self.sign > 0 else -np.asarray(z)

    def log_ratio(self, y: Array) -> Array:
        """log w(y)."""
        return log_mixture(self.rate, self.mu * y - 0.5 * self.mu**2)

    def posterior(self, y: Array) -> Array:
        """The probability that the record took part, q e^a / w; mu times it is the slope of log w."""
        a = self.mu * y - 0.5 * self.mu**2
        return np.asarray(np.exp(np.log(self.rate) + a - self.log_ratio(y)))


@dataclass(frozen=True)
class Line:
    """Points that cover everything from which w^s can draw its mass, for some exponents s."""

    part: SampledGaussian
    exponents: tuple[float, ...]

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Tilting by s > 0 moves the normal by at most s mu, by s < 0 at most to `_leftmost`."""
        least, most = min(0.0, *self.exponents), max(0.0, *self.exponents)
        return _leftmost(self.part, least) - 40.0, most * self.part.mu + 40.0

    @cached_property
    def points(self) -> Array:
        low, high = self.ends
        return np.linspace(low, high, _POINTS_PER_EIGHTY * int(np.ceil((high - low) / 80.0)))

    @property
    def too_long(self) -> bool:
        steepest = max(0.0, *(-s for s in self.exponents)) * self.part.mu**2
        return self.ends[1] - self.ends[0] > _LONGEST or steepest > _STEEPEST

    def range(self, nats: float) -> tuple[float, float]:
        """Where any w^s phi is within e^-nats of its largest value."""
        y = self.points
        log_w = self.part.log_ratio(y)
        kept = np.zeros(y.shape, dtype=bool)
        for s in self.exponents:
            log_f = s * log_w - 0.5 * y * y
            kept |= log_f > np.max(log_f) - nats
        inside = np.flatnonzero(kept)
        spacing = float(y[1] - y[0])
        return float(y[inside[0]]) - spacing, float(y[inside[-1]]) + spacing

    def left_out(self, nats: float) -> float:
        """Bound on the integral of w^s phi outside `range`, relative to A(s).

        Outside, w^s phi is at most e^-nats of its largest value, up to the curvature between the
        points where that was checked; A(s) is at least the largest value times
        sqrt(2 pi / curvature). Beyond the ends of the line the normal tail is below e^-700.
        """
        y = self.points
        length, spacing = float(y[-1] - y[0]), float(y[1] - y[0])
        curvature = 1.0 + max(abs(s) for s in self.exponents) * self.part.mu**2 / 4.0
        log_rest = -nats + np.log(length) + curvature * spacing**2 / 8.0
        return float(np.exp(log_rest + 0.5 * np.log(curvature / (2.0 * np.pi))))


def _leftmost(part: SampledGaussian, s: float) -> float:
    """A point at or below the mode of w^s phi for s <= 0.

    The mode is at y = s mu r(y), r <= q e^a / (1 - q) and r <= 1; the first point of a falling sequence
    of trial points at which the right side no longer reaches down to the point bounds it.
    """
    if s >= 0.0:
        return 0.0
    y = s * part.mu
    while y < -1.0:
        odds = part.rate / max(1.0 - part.rate, 1e-300) * np.exp(part.mu * 0.5 * y)
        if s * part.mu * min(1.0, odds) < 0.5 * y:
            break
        y *= 0.5
    return float(y)


def log_moments(part: SampledGaussian, s: Array) -> Array:
    """log A(s) for several real s, by the trapezoid rule; relative error of A below e^-40.

    On a strip of half-width b the error is at most e^{b^2/2} cos(mu b/2)^{-|s|} e^{-2 pi b / step} for
    s < 0 and without the cosine for s > 0; with the step chosen here some b makes this e^-40.
    """
    low, high = Line(part, tuple(s.tolist())).range(60.0)
    steepest = max(float(np.max(-s)), 1.0)
    step = min(0.1, 0.2 / part.mu, 1.0 / (part.mu * np.sqrt(steepest)))
    y = np.arange(low, high, step)
    log_f = np.multiply.outer(s, part.log_ratio(y)) - 0.5 * y * y
    peak = np.max(log_f, axis=1)
    total = np.sum(np.exp(log_f - peak[:, None]), axis=1)
    return np.asarray(peak + np.log(total * step / np.sqrt(2.0 * np.pi)))


def last_frequency(
    parts: Sequence[SampledGaussian], theta: float, largest_rest: float
) -> tuple[float, float] | None:
    """A frequency t and a bound, at most largest_rest, on (1/pi) int |M_T(z)/M_T(theta)| / t^2 beyond."""
    layers = [_layers(part, theta) for part in parts]
    variance = sum(
        part.count * float(m @ (ell**2)) / 12.0
        for part, (m, ell) in zip(parts, layers, strict=True)
    )
    if not variance > 0.0:
        return None
    t = 1.0 / np.sqrt(variance) * _BLOCK_RATIO ** np.arange(_MOST_BLOCKS)
    log_bound = np.zeros(t.shape)
    for part, (mass, length) in zip(parts, layers, strict=True):
        reach = _envelope(0.5 * np.multiply.outer(t, length))
        log_bound += part.count * np.log1p(-(1.0 - reach) @ mass)
    block = np.exp(log_bound) * (1.0 / t - 1.0 / (_BLOCK_RATIO * t)) / np.pi
    last = np.exp(log_bound[-1]) / (_BLOCK_RATIO * t[-1] * np.pi)
    rest = np.cumsum(block[::-1])[::-1] + last
    enough = np.flatnonzero(rest <= largest_rest)
    if not enough.size:
        return None
    return float(t[enough[0]]), float(rest[enough[0]])


def _envelope(x: Array) -> Array:
    """A decreasing function that is at least |sin x / x|: itself up to 2.5, then min(0.24, 1/x)."""
    return np.where(x < 2.5, np.sinc(x / np.pi), np.minimum(0.24, 1.0 / np.maximum(x, 2.5)))


def _layers(part: SampledGaussian, theta: float) -> tuple[Array, Array]:
    """Masses and lengths of uniform layers below the tilted density of the loss.

    On windows around the mode the density is at least its smallest value on a grid of spacing 1/20,
    times e^{-curvature / 3200}. A law with uniform layers of mass m and length l has a characteristic
    function of modulus at most 1 - sum m (1 - |sinc(t l / 2)|).
    """
    s = float(part.exponent(theta))
    coarse = Line(part, (s,)).points
    mode = float(coarse[np.argmax(s * part.log_ratio(coarse) - 0.5 * coarse**2)])
    half = round(20 * float(_LAYERS[-1]))
    y = mode + np.arange(-half, half + 1) / 20.0
    log_w = part.log_ratio(y)
    log_m = float(log_moments(part, np.array([s]))[0])
    log_f = s * log_w - 0.5 * y * y - 0.5 * np.log(2.0 * np.pi) - log_m
    log_f -= np.log(part.mu * part.posterior(y))
    curvature = 1.0 + (abs(s) + 1.0) * part.mu**2 / 4.0
    floor = np.exp(log_f - curvature / 3200.0 - 1e-6)
    outward = np.minimum(
        np.minimum.accumulate(floor[half:]), np.minimum.accumulate(floor[half::-1])
    )
    index = np.rint(20 * _LAYERS).astype(int)
    height = outward[index]
    length = log_w[half + index] - log_w[half - index]
    mass = (height - np.append(height[1:], 0.0)) * length
    return mass, length
