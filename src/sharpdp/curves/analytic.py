"""Poisson-sampled Gaussians without a grid of losses: their moments by quadrature, to twelve digits.

With noise N(0, 1) in units of the noise, mu = 1/noise multiplier and

    w(y) = 1 - q + q e^{mu y - mu^2/2},      A(s) = E[w(y)^s],  y ~ N(0, 1),

the generating function of the loss is M(z) = A(z + 1) where the record is present under P, and
M(z) = A(-z) in the other direction. The trapezoid rule in y converges geometrically, because w has no
zero within |Im y| < pi/mu. Contour and Chernoff bounds are those of every composition; there is no
smoothing, since the losses have densities, whose characteristic functions are bounded layer by layer.

This engine declines (returns None) when it would be slow or inexact: few repetitions, tilts that reach
into the far tail, too many nodes or frequencies. The generic engine then answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.curves.pair import GaussianPair, Pair, ReversedPair
from sharpdp.curves.plan import Cumulants, Plan, find_saddle, make_plan, window_for
from sharpdp.curves.sampled import PoissonSampledPair
from sharpdp.numerics.contour import Chernoff, Contour, make_contour
from sharpdp.numerics.quadrature import log_strip_error, step_for
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_mixture
from sharpdp.numerics.transform import Atoms, Tilted

FEWEST_REPETITIONS = 32
MOST_NODES = 3_000
MOST_FREQUENCIES = 1_500
FINEST = 1e-8
"""Tolerance in log delta that is aimed at, however coarse the question: it costs little."""

_EXTRA_TILTS = np.array([0.04, 0.1, 0.25, 0.5, 1.0])
# Strips tried, as fractions of the distance pi/mu to the nearest zero of w, and capped.
_STRIPS = np.array([0.05, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85])
_WIDEST_STRIP = 9.0
# Values this many nats below the largest are left out of the quadrature.
_TAIL_NATS = 46.0
_LONGEST = 400.0
_POINTS_PER_EIGHTY = 256
_DROP_PIECES = 64
_FEWEST_NATS = 40.0
# Closer to one than this, the generic engine's two sides are the better tool.
_LARGEST_LOG_VALUE = -0.02
# Half-widths, in y, of the windows around the mode whose smallest density is used as a layer.
_LAYERS = np.array([0.15, 0.3, 0.45, 0.6, 0.8, 1.0, 1.25, 1.5, 1.8, 2.2, 2.7, 3.3])
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
        return np.exp(np.log(self.rate) + a - self.log_ratio(y))


def recognised(steps: Sequence[tuple[Pair, int]]) -> list[SampledGaussian] | None:
    """The steps as sampled Gaussians, if they all are and are often enough repeated."""
    parts = []
    for pair, count in steps:
        sign = 1
        if isinstance(pair, ReversedPair):
            pair, sign = pair.forward, -1
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            return None
        parts.append(SampledGaussian(pair.rate, pair.base.mu, sign, float(count)))
    return parts if sum(part.count for part in parts) >= FEWEST_REPETITIONS else None


def _atoms(part: SampledGaussian, low: float, high: float, step: float) -> tuple[Array, Atoms]:
    """Quadrature nodes y with the losses and P-weights there."""
    y = step * np.arange(np.floor(low / step), np.ceil(high / step) + 1.0)
    log_w = part.log_ratio(y)
    log_density = -0.5 * y * y - 0.5 * np.log(2.0 * np.pi) + np.log(step)
    log_p = log_density + log_w if part.sign > 0 else log_density
    return y, Atoms(part.sign * log_w, log_p, accuracy=64.0 * UNIT_ROUNDOFF)


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
        return self.ends[1] - self.ends[0] > _LONGEST

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


def prepared(
    parts: Sequence[SampledGaussian],
    *,
    threshold: float | None = None,
    log_value: float | None = None,
) -> tuple[Plan, Contour] | None:
    """A plan and a contour for one question, or None where this engine declines."""
    guess = -30.0 if log_value is None else log_value
    for _ in range(6):
        cumulants = _look(parts, guess)
        saddle = find_saddle(cumulants, threshold=threshold, log_value=log_value)
        if log_value is not None or saddle.log_value >= guess - 1.0:
            break
        guess = 1.2 * saddle.log_value - 5.0
    if saddle.log_value > _LARGEST_LOG_VALUE:
        return None
    plan = make_plan(cumulants, saddle, 0.05 * FINEST, _EXTRA_TILTS)
    chernoff = _chernoff(parts, plan)
    if chernoff is None:
        return None
    plan = replace(plan, window=window_for(chernoff, plan.theta, saddle, 0.05 * FINEST))
    size_and_rest = _frequencies(parts, plan)
    if size_and_rest is None:
        return None
    size, beyond = size_and_rest
    last = 2.0 * np.pi / plan.window * (size - 1)
    tilted = []
    for part in parts:
        table = _table(part, plan, last)
        if table is None:
            return None
        tilted.append(table)
    counts = [part.count for part in parts]
    contour = make_contour(
        tilted,
        counts,
        plan.window,
        size,
        beyond=beyond,
        harmless=0.1 * FINEST,
        chernoff=chernoff,
    )
    return plan, contour


def _chernoff(parts: Sequence[SampledGaussian], plan: Plan) -> Chernoff | None:
    """log M_T at the plan's Chernoff tilts; None if one of them reaches too far."""
    right, left = np.zeros_like(plan.right_tilts), np.zeros_like(plan.left_tilts)
    for part in parts:
        s = part.exponent(np.concatenate([plan.right_tilts, -plan.left_tilts]))
        if Line(part, tuple(s.tolist())).too_long:
            return None
        log_a = part.count * _log_moments(part, s)
        right = right + log_a[: right.size]
        left = left + log_a[right.size :]
    return Chernoff(plan.right_tilts, right, plan.left_tilts, left)


def _log_moments(part: SampledGaussian, s: Array) -> Array:
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


def _look(parts: Sequence[SampledGaussian], log_value: float) -> Cumulants:
    """Coarse quadrature that reaches all y which matter for a value of this size."""
    coarse = []
    for part in parts:
        nats = max(_FEWEST_NATS, -log_value + np.log(part.count) + 14.0)
        low = -np.sqrt(2.0 * nats)
        high = part.mu + np.sqrt(2.0 * max(_FEWEST_NATS, nats + np.log(part.rate)))
        coarse.append((_atoms(part, low, high, min(0.2, 0.35 / part.mu))[1], part.count))
    return Cumulants(coarse)


def _table(part: SampledGaussian, plan: Plan, last: float) -> Tilted | None:
    """Quadrature of one part, exact to about FINEST / repetitions up to the last frequency."""
    s = float(part.exponent(plan.theta))
    line = Line(part, (s, 0.0, 1.0))
    if line.too_long:
        return None
    nats = _TAIL_NATS + float(np.log(part.count))
    low, high = line.range(nats)
    log_error = float(np.log(1e-3 * FINEST / part.count)) + min(plan.log_share, 0.0)
    strip, step = _best_strip(part, s, last, low, high, log_error)
    if (high - low) / step > MOST_NODES:
        return None
    y, atoms = _atoms(part, low, high, step)
    tilted = atoms.tilted(plan.theta)
    left_out = line.left_out(nats)
    error = left_out + np.exp(_log_edge(part, y, atoms, s, last, strip, plan.theta, step))
    error += _beyond_edge(part, (float(y[0]), float(y[-1])), s, last, strip, step, left_out)
    # both normalisations enter the sum for log M, so their quadrature errors do too
    bases = left_out + np.exp(_log_real_error(part, 1.0, strip, step))
    total = float(error + (4.0 + 2.0 * abs(s)) * bases * np.exp(-min(tilted.log_moment, 0.0)))
    return replace(tilted, quadrature=total)


def _log_real_error(part: SampledGaussian, s: float, strip: float, step: float) -> float:
    """log of the relative quadrature error of A(s) at real s.

    On the edge |w(y + ib)| <= w(y), and >= w(y) cos(mu b / 2), so that the edge integral is at most
    e^{b^2/2} A(s), times cos(mu b / 2)^s if s < 0.
    """
    edge = 0.5 * strip * strip
    if s < 0.0:
        edge += s * float(np.log(np.cos(0.5 * part.mu * strip)))
    return log_strip_error(strip, step, edge)


def _log_edge(
    part: SampledGaussian,
    y: Array,
    atoms: Atoms,
    s: float,
    last: float,
    strip: float,
    theta: float,
    step: float,
) -> float:
    """log of the quadrature error of A(s + i t) over A(s), for all |t| up to the last frequency.

    On the edge |w^{i t}| = e^{|t| |arg w|}. Its mean under the tilted law is summed over cells, each at
    most its two ends' sum times e^{curvature step^2 / 8}.
    """
    turn = _argument(part, y, strip)
    exponent = atoms.log_weights + theta * atoms.points
    peak = float(np.max(exponent))
    weight = np.exp(exponent - peak)
    rise = last * turn
    top = float(np.max(rise))
    mean = top + float(np.log(np.sum(weight * np.exp(rise - top)) / np.sum(weight)))
    flat = np.cos(0.5 * part.mu * strip) ** 2
    curvature = 1.0 + (abs(s) + last / flat) * part.mu**2 / 4.0
    slack = float(np.log(2.0)) + curvature * step * step / 8.0
    return _log_real_error(part, s, strip, step) + mean + slack


def _beyond_edge(
    part: SampledGaussian,
    ends: tuple[float, float],
    s: float,
    last: float,
    strip: float,
    step: float,
    left_out: float,
) -> float:
    """The rest of the quadrature error, relative to A(s): the edge outside the range.

    The error bound holds for any curve that keeps clear of the zeros of w, with the integrand divided
    by e^{2 pi |Im y| / step} - 1. Outside the range the curve runs at a height b' at which w^{i t} grows
    by at most e; at both ends of the range it drops to there.
    """
    narrow = min(strip, step * np.log(2.0) / (2.0 * np.pi), 1.0 / (last * part.mu))
    shrink = -s * float(np.log(np.cos(0.5 * part.mu * strip))) if s < 0.0 else 0.0
    common = 0.5 * strip * strip + shrink
    outside = np.exp(1.0 + common) / np.expm1(2.0 * np.pi * narrow / step)
    heights = np.geomspace(narrow, strip, _DROP_PIECES)
    turn = np.max([_argument(part, np.array(ends)[:, None], heights[None, :])], axis=(0, 1))
    gain = last * turn[1:] - np.log(np.expm1(np.minimum(2.0 * np.pi * heights[:-1] / step, 700.0)))
    drop = strip * np.exp(min(common + float(np.max(gain)), 700.0))
    return float(2.0 * left_out * (outside + 2.0 * drop))


def _argument(part: SampledGaussian, y: Array, strip: ArrayLike) -> Array:
    """|arg w(y + i b)|."""
    a = part.mu * y - 0.5 * part.mu**2
    beta = part.mu * np.asarray(strip)
    odds = np.exp(np.minimum(a, 700.0)) * part.rate
    return np.arctan2(odds * np.sin(beta), 1.0 - part.rate + odds * np.cos(beta))


def _best_strip(
    part: SampledGaussian, s: float, last: float, low: float, high: float, log_error: float
) -> tuple[float, float]:
    """The strip that allows the largest step, and that step, from a coarse look at the edges."""
    y = np.linspace(low, high, 256)
    log_f = s * part.log_ratio(y) - 0.5 * y * y
    log_f -= np.log(np.sum(np.exp(log_f - np.max(log_f)))) + np.max(log_f)
    best = (0.0, 0.0)
    for fraction in _STRIPS:
        strip = min(float(fraction) * np.pi / part.mu, _WIDEST_STRIP)
        rise = log_f + last * _argument(part, y, strip)
        top = float(np.max(rise))
        edge = 0.5 * strip * strip + top + float(np.log(np.sum(np.exp(rise - top))))
        if s < 0.0:
            edge += s * float(np.log(np.cos(0.5 * part.mu * strip)))
        step = step_for(strip, log_error - 2.0, edge)
        if step > best[1]:
            best = (strip, step)
    flat = np.cos(0.5 * part.mu * best[0]) ** 2
    curvature = 1.0 + (abs(s) + last / flat) * part.mu**2 / 4.0
    # the cell slack of the certificate grows with the step; leave room for a few nats of it
    return best[0], min(0.9 * best[1], float(np.sqrt(24.0 / curvature)))


def _frequencies(parts: Sequence[SampledGaussian], plan: Plan) -> tuple[int, float] | None:
    """How many frequencies are needed, and a bound on all beyond them (in units of the scale)."""
    layers = [_layers(part, plan.theta) for part in parts]
    variance = sum(part.count * float(m @ (ell**2)) / 12.0 for part, (m, ell) in zip(parts, layers, strict=True))
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
    enough = np.flatnonzero(rest <= 0.02 * FINEST * np.exp(plan.log_share))
    if not enough.size:
        return None
    size = int(np.ceil(t[enough[0]] * plan.window / (2.0 * np.pi))) + 1
    return (size, float(rest[enough[0]])) if size <= MOST_FREQUENCIES else None


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
    log_m = float(_log_moments(part, np.array([s]))[0])
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
