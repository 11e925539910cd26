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

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.curves.pair import GaussianPair, Pair, ReversedPair
from sharpdp.curves.plan import Cumulants, Plan, find_saddle, make_plan, window_for
from sharpdp.curves.sampled import PoissonSampledPair
from sharpdp.numerics.contour import Chernoff, Contour, make_contour
from sharpdp.numerics.quadrature import log_strip_error, step_for
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
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
_FARTHEST = 300.0
_STEEPEST = 1e5
_RANGE_POINTS = 512
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
        a = self.mu * y - 0.5 * self.mu**2
        near = np.log1p(self.rate * np.expm1(np.minimum(a, 1.0)))
        far = a + np.log(self.rate + (1.0 - self.rate) * np.exp(-np.abs(a)))
        return np.where(a > 1.0, far, near)

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


def _range(part: SampledGaussian, s: float, nats: float) -> tuple[float, float] | None:
    """The part of the line outside which w^s, 1 and w are below e^-nats of their largest."""
    reach = max(0.0, s, 1.0) * part.mu
    if reach > _FARTHEST:
        return None
    y = np.linspace(-40.0, reach + 40.0, _RANGE_POINTS)
    log_w = part.log_ratio(y)
    kept = np.zeros(y.shape, dtype=bool)
    for power in (s, 0.0, 1.0):
        log_f = power * log_w - 0.5 * y * y
        kept |= log_f > np.max(log_f) - nats
    inside = np.flatnonzero(kept)
    spacing = float(y[1] - y[0])
    return float(y[inside[0]]) - spacing, float(y[inside[-1]]) + spacing


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
        if float(np.max(s)) * part.mu > _FARTHEST or float(np.max(-s)) * part.mu**2 > _STEEPEST:
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
    reach = max(float(np.max(s)), 0.0) * part.mu
    steepest = max(float(np.max(-s)), 1.0)
    step = min(0.1, 0.2 / part.mu, 1.0 / (part.mu * np.sqrt(steepest)))
    y = np.arange(-14.0, reach + 14.0, step)
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
    nats = _TAIL_NATS + float(np.log(part.count))
    ends = _range(part, s, nats)
    if ends is None:
        return None
    low, high = ends
    log_error = float(np.log(1e-3 * FINEST / part.count)) + min(plan.log_share, 0.0)
    strip, step = _best_strip(part, s, last, low, high, log_error)
    if (high - low) / step > MOST_NODES:
        return None
    y, atoms = _atoms(part, low, high, step)
    tilted = atoms.tilted(plan.theta)
    left_out = _left_out(part, s, nats)
    error = left_out + np.exp(_log_edge(part, y, atoms, s, last, strip, plan.theta, step))
    # both normalisations enter the sum for log M, so their quadrature errors do too
    bases = left_out + np.exp(_log_real_error(part, 1.0, strip, step))
    total = float(error + (2.0 + abs(s)) * bases * np.exp(-min(tilted.log_moment, 0.0)))
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


def _argument(part: SampledGaussian, y: Array, strip: float) -> Array:
    """|arg w(y + i b)|."""
    a = part.mu * y - 0.5 * part.mu**2
    beta = part.mu * strip
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


def _left_out(part: SampledGaussian, s: float, nats: float) -> float:
    """Bound on what the quadrature leaves out beyond its ends, relative to A(s), A(0) and A(1).

    Outside, w^s phi is at most e^-nats of its largest value (up to the curvature between the points
    where that was checked), over a line of length reach + 80; A(s) is at least the largest value times
    sqrt(2 pi / curvature). Beyond that line the normal tail is below e^-700.
    """
    length = max(0.0, s, 1.0) * part.mu + 80.0
    spacing = length / (_RANGE_POINTS - 1)
    curvature = 1.0 + max(abs(s), 1.0) * part.mu**2 / 4.0
    log_rest = -nats + np.log(length) + curvature * spacing**2 / 8.0
    return float(np.exp(log_rest + 0.5 * np.log(curvature / (2.0 * np.pi))))


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
    reach = max(s, 0.0) * part.mu
    coarse = np.linspace(-12.0, reach + 12.0, 400)
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
