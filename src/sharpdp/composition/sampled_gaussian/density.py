"""Steps of Poisson-sampled Gaussians as functions of the normal variable, and their real moments.

Owns w(y) = 1 - q + q e^{mu y - mu^2/2}, where w^s draws its mass from, A(s) = E[w^s] at real s, and how
fast the characteristic function of the loss falls; `analytic` builds contours from these. Everything is
done for many kinds of steps at once: one row each, and columns where a number differs between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.special import Array, log_mixture
from sharpdp.numerics.trapezoid import step_for

_LONGEST = 400.0
_STEEPEST = 1e5
_POINTS_PER_EIGHTY = 256
# Real moments: values so many nats below the largest are left out, and the rule is off by e^-40.
_MOMENT_NATS, _LOG_MOMENT_ERROR = 60.0, -40.0
# Strips tried, as fractions of the distance pi/mu to the nearest zero of w, and capped.
STRIPS = np.array([0.05, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85])
WIDEST_STRIP = 9.0
# Half-widths, in y, of the windows around the mode whose smallest density is used as a layer.
_LAYERS = np.array([0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.7, 3.3])
_LAYER_GRID = 20
# Bounds on the characteristic function are evaluated in blocks of frequencies that grow by this ratio.
_BLOCK_RATIO = 1.1
_FEWEST_BLOCKS, _MOST_BLOCKS = 20, 400
# So many blocks are looked at beyond the last frequency that can be afforded.
_MORE_BLOCKS = 15


@dataclass(frozen=True)
class SampledGaussian:
    """One kind of step: rate q, shift mu, repetitions; sign +1 if the record is there under P."""

    rate: float
    mu: float
    sign: int
    count: float


@dataclass(frozen=True, eq=False)
class Batch:
    """Several kinds of steps, as columns: one row for each."""

    rate: Array
    mu: Array
    sign: Array
    count: Array

    @classmethod
    def of(cls, parts: Iterable[SampledGaussian]) -> Batch:
        """The columns of some steps."""
        rows = np.array([(part.rate, part.mu, part.sign, part.count) for part in parts])
        return cls(*(rows[:, [k]] for k in range(rows.shape[1])))

    def exponent(self, z: ArrayLike) -> Array:
        """s with M(z) = A(s), a row for each kind of step."""
        return np.where(self.sign > 0, np.asarray(z) + 1.0, -np.asarray(z))

    def log_ratio(self, y: Array) -> Array:
        """log w(y)."""
        return log_mixture(self.rate, self.mu * y - 0.5 * self.mu**2)


def lattice(low: Array, high: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Multiples of each row's step that cover its range, and which of them are needed for that."""
    first, last = np.floor(low / step), np.ceil(high / step)
    index = np.arange(np.max(last - first) + 1.0)
    return step * (first + index), index <= last - first


@dataclass(frozen=True, eq=False)
class Line:
    """Points that cover everything from which w^s can draw its mass, for s between two exponents."""

    batch: Batch
    least: Array
    most: Array

    @cached_property
    def ends(self) -> tuple[Array, Array]:
        """Tilting by s > 0 moves the normal by at most s mu, by s < 0 at most to `_leftmost`."""
        low = _leftmost(self.batch, np.minimum(self.least, 0.0))
        return low - 40.0, np.maximum(self.most, 0.0) * self.batch.mu + 40.0

    @cached_property
    def points(self) -> Array:
        low, high = self.ends
        length = high - low
        pieces = _POINTS_PER_EIGHTY * int(np.ceil(np.max(length) / 80.0)) - 1
        return low + length / pieces * np.arange(pieces + 1.0)

    @cached_property
    def log_w(self) -> Array:
        """log w at the points."""
        return self.batch.log_ratio(self.points)

    @property
    def too_long(self) -> bool:
        low, high = self.ends
        steepest = np.max(np.maximum(-self.least, 0.0) * self.batch.mu**2)
        return bool(np.max(high - low) > _LONGEST or steepest > _STEEPEST)

    def log_integrand(self, s: Array) -> Array:
        """log of w^s phi at the points, up to a constant."""
        return np.asarray(s * self.log_w - 0.5 * self.points**2)

    def range(self, least: Array, most: Array, nats: ArrayLike) -> tuple[Array, Array]:
        """Where w^s phi can be within e^-nats of its largest value, for s from least to most.

        The ends are the next points, where it is not.
        With s the mode moves to the right, and at a point on its right (left) the ratio to the largest
        value grows (falls): the least exponent reaches farthest to the left, the most to the right.
        """
        low = self.log_integrand(least)
        high = self.log_integrand(most)
        first = np.argmax(low > np.max(low, axis=1, keepdims=True) - nats, axis=1)
        kept = high > np.max(high, axis=1, keepdims=True) - nats
        last = kept.shape[1] - 1 - np.argmax(kept[:, ::-1], axis=1)
        rows, y = np.arange(first.size), self.points
        left, right = np.maximum(first - 1, 0), np.minimum(last + 1, y.shape[1] - 1)
        return y[rows, left][:, None], y[rows, right][:, None]

    def left_out(self, least: Array, most: Array, nats: ArrayLike) -> Array:
        """Bound on the integral of w^s phi outside `range`, relative to A(s), for s from least to most.

        Outside, w^s phi is at most e^-nats of its largest value, up to the curvature between the
        points where that was checked; A(s) is at least the largest value times
        sqrt(2 pi / curvature). Beyond the ends of the line the normal tail is below e^-700.
        """
        y = self.points
        length, spacing = y[:, -1:] - y[:, :1], y[:, 1:2] - y[:, :1]
        curvature = 1.0 + np.maximum(np.abs(least), np.abs(most)) * self.batch.mu**2 / 4.0
        log_rest = -np.asarray(nats) + np.log(length) + curvature * spacing**2 / 8.0
        return np.asarray(np.exp(log_rest + 0.5 * np.log(curvature / (2.0 * np.pi))))

    def sides_left_out(self, s: Array, low: Array, high: Array) -> Array:
        """The same for one exponent, on the left and on the right of a range whose ends are points."""
        log_f = self.log_integrand(s)
        left = np.max(np.where(self.points <= low, log_f, -np.inf), axis=1)
        right = np.max(np.where(self.points >= high, log_f, -np.inf), axis=1)
        nats = np.max(log_f, axis=1, keepdims=True) - np.stack([left, right], axis=1)
        return self.left_out(s, s, nats)


def _leftmost(batch: Batch, s: Array) -> Array:
    """Points at or below the modes of w^s phi for s <= 0.

    The mode is at y = s mu r(y), r <= q e^a / (1 - q) and r <= 1; the first point of a falling sequence
    of trial points at which the right side no longer reaches down to the point bounds it.
    """
    y = s * batch.mu
    odds = batch.rate / np.maximum(1.0 - batch.rate, 1e-300)
    going = y < -1.0
    while going.any():
        reach = s * batch.mu * np.minimum(1.0, odds * np.exp(batch.mu * 0.5 * y))
        going = going & (y < -1.0) & (reach >= 0.5 * y)
        y = np.where(going, 0.5 * y, y)
    return np.asarray(y)


def strips_of(batch: Batch) -> Array:
    """Half-widths of strips to choose from, a row for each kind of step."""
    return np.minimum(STRIPS * np.pi / batch.mu, WIDEST_STRIP)


def log_shrinkage(batch: Batch, s: Array, strip: Array) -> Array:
    """log of the most by which |w^s| on the edge of a strip exceeds w^s below it: 0 if s >= 0.

    On the edge w(y) cos(mu b / 2) <= |w(y + ib)| <= w(y).
    """
    return np.asarray(np.minimum(s, 0.0) * np.log(np.cos(0.5 * batch.mu * strip)))


def log_moments(line: Line, s: Array) -> Array:
    """log A(s) for several real s in each row, by the trapezoid rule; relative error below e^-39.

    On a strip of half-width b the error is at most 2 e^{b^2/2} / (e^{2 pi b / step} - 1), for s < 0 times
    cos(mu b/2)^{-|s|}; the step is the largest that makes this e^-40 on some strip.
    """
    batch = line.batch
    least, most = np.min(s, axis=1, keepdims=True), np.max(s, axis=1, keepdims=True)
    low, high = line.range(least, most, _MOMENT_NATS)
    strip = strips_of(batch)
    log_edge = 0.5 * strip * strip + log_shrinkage(batch, least, strip)
    step = np.max(step_for(strip, _LOG_MOMENT_ERROR, log_edge), axis=1, keepdims=True)
    y, _ = lattice(low, high, step)
    log_f = s[:, :, None] * batch.log_ratio(y)[:, None, :] - (0.5 * y * y)[:, None, :]
    peak = np.max(log_f, axis=2)
    total = np.sum(np.exp(log_f - peak[:, :, None]), axis=2)
    return np.asarray(peak + np.log(total * step / np.sqrt(2.0 * np.pi)))


def last_frequency(
    layers: Sequence[tuple[Array, Array, Array]], largest_rest: float, farthest: float
) -> tuple[float, float] | None:
    """A frequency t and a bound, at most largest_rest, on (1/pi) int |M_T(z)/M_T(theta)| / t^2 beyond.

    `layers` are masses, lengths and repetitions; nothing much beyond `farthest` is looked for.
    """
    variance = sum(float(np.sum(count * m * ell**2)) / 12.0 for m, ell, count in layers)
    if not variance > 0.0:
        return None
    first = 1.0 / np.sqrt(variance)
    blocks = int(np.ceil(np.log(max(farthest / first, 1.0)) / np.log(_BLOCK_RATIO)))
    blocks = min(max(blocks + _MORE_BLOCKS, _FEWEST_BLOCKS), _MOST_BLOCKS)
    t = first * _BLOCK_RATIO ** np.arange(blocks)
    log_bound = np.zeros(t.shape)
    for mass, length, count in layers:
        missing = _missing(0.5 * length[:, :, None] * t)
        log_bound += np.sum(count * np.log1p(-np.sum(mass[:, :, None] * missing, axis=1)), axis=0)
    block = np.exp(log_bound) * (1.0 / t - 1.0 / (_BLOCK_RATIO * t)) / np.pi
    last = np.exp(log_bound[-1]) / (_BLOCK_RATIO * t[-1] * np.pi)
    rest = np.cumsum(block[::-1])[::-1] + last
    enough = np.flatnonzero(rest <= largest_rest)
    if not enough.size:
        return None
    return float(t[enough[0]]), float(rest[enough[0]])


def _missing(x: Array) -> Array:
    """At most 1 - |sin y / y| for all y >= x >= 0: without cancellation where x is small.

    x^2/6 - x^4/120 below 0.1, 1 - sin x / x up to 2.5, then 1 - min(0.24, 1/x).
    """
    square = x * x
    direct = 1.0 - np.where(x < 2.5, np.sinc(x / np.pi), np.minimum(0.24, 1.0 / np.maximum(x, 2.5)))
    return np.where(x < 0.1, square / 6.0 * (1.0 - square / 20.0), direct)


def layers_of(line: Line, s: Array, log_moment: Array) -> tuple[Array, Array, Array]:
    """Masses and lengths of uniform layers below the tilted densities of the loss, and repetitions.

    On windows around the mode the density is at least its smallest value on a grid of spacing 1/20,
    times e^{-curvature / 3200}. A law with uniform layers of mass m and length l has a characteristic
    function of modulus at most 1 - sum m (1 - |sinc(t l / 2)|). `log_moment` is log A(s).
    """
    batch = line.batch
    mode = line.points[np.arange(s.shape[0]), np.argmax(line.log_integrand(s), axis=1)][:, None]
    half = round(_LAYER_GRID * float(_LAYERS[-1]))
    y = mode + np.arange(-half, half + 1) / _LAYER_GRID
    a = batch.mu * y - 0.5 * batch.mu**2
    log_w = log_mixture(batch.rate, a)
    # the slope of log w is mu times the probability that the record took part, q e^a / w
    log_slope = np.log(batch.mu) + np.log(batch.rate) + a - log_w
    log_f = s * log_w - 0.5 * y * y - 0.5 * np.log(2.0 * np.pi) - log_moment - log_slope
    curvature = 1.0 + (np.abs(s) + 1.0) * batch.mu**2 / 4.0
    floor = np.exp(log_f - curvature / (8.0 * _LAYER_GRID**2) - 1e-6)
    outward = np.minimum(
        np.minimum.accumulate(floor[:, half:], axis=1),
        np.minimum.accumulate(floor[:, half::-1], axis=1),
    )
    index = np.rint(_LAYER_GRID * _LAYERS).astype(int)
    height = outward[:, index]
    length = log_w[:, half + index] - log_w[:, half - index]
    above = np.concatenate([height[:, 1:], np.zeros((height.shape[0], 1))], axis=1)
    return (height - above) * length, length, batch.count
