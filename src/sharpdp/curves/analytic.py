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
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.curves.pair import GaussianPair, Pair, ReversedPair
from sharpdp.curves.plan import Cumulants, Plan, find_saddle, make_plan, window_for
from sharpdp.curves.sampled import PoissonSampledPair
from sharpdp.curves.sampled_gaussian import Line, SampledGaussian, last_frequency, log_moments
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
_DROP_PIECES = 64
_FEWEST_NATS = 40.0
# Rounding of a sum for log A(s).
_SUM_ERROR = 5e-14
# Closer to one than this, the generic engine's two sides are the better tool.
_LARGEST_LOG_VALUE = -0.02


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


def prepared(
    parts: Sequence[SampledGaussian],
    *,
    threshold: float | None = None,
    log_value: float | None = None,
) -> tuple[Plan, Contour] | None:
    """A plan and a contour for one question, or None where this engine declines."""
    plan = _planned(parts, threshold, log_value)
    chernoff = None if plan is None else _chernoff(parts, plan)
    if plan is None or chernoff is None:
        return None
    plan = replace(plan, window=window_for(chernoff, plan.theta, plan.saddle, 0.05 * FINEST))
    found = last_frequency(parts, plan.theta, 0.02 * FINEST * float(np.exp(plan.log_share)))
    if found is None:
        return None
    size = int(np.ceil(found[0] * plan.window / (2.0 * np.pi))) + 1
    if size > MOST_FREQUENCIES:
        return None
    last = 2.0 * np.pi / plan.window * (size - 1)
    tilted = [_table(part, plan, last) for part in parts]
    complete = [table for table in tilted if table is not None]
    if len(complete) < len(tilted):
        return None
    contour = make_contour(
        complete,
        [part.count for part in parts],
        plan.window,
        size,
        beyond=found[1],
        harmless=0.1 * FINEST,
        chernoff=chernoff,
    )
    return plan, contour


def _planned(
    parts: Sequence[SampledGaussian], threshold: float | None, log_value: float | None
) -> Plan | None:
    """A first plan from a coarse look; None where delta is too close to one."""
    guess = -30.0 if log_value is None else log_value
    for _ in range(6):
        cumulants = _look(parts, guess)
        saddle = find_saddle(cumulants, threshold=threshold, log_value=log_value)
        if log_value is not None or saddle.log_value >= guess - 1.0:
            break
        guess = 1.2 * saddle.log_value - 5.0
    if saddle.log_value > _LARGEST_LOG_VALUE:
        return None
    return make_plan(cumulants, saddle, 0.05 * FINEST, _EXTRA_TILTS, np.zeros(0))


def _chernoff(parts: Sequence[SampledGaussian], plan: Plan) -> Chernoff | None:
    """log M_T at the plan's Chernoff tilts; None if one of them reaches too far."""
    right, left = np.zeros_like(plan.right_tilts), np.zeros_like(plan.left_tilts)
    for part in parts:
        s = part.exponent(np.concatenate([plan.right_tilts, -plan.left_tilts]))
        if Line(part, tuple(s.tolist())).too_long:
            return None
        log_a = part.count * (log_moments(part, s) + _SUM_ERROR)
        right = right + log_a[: right.size]
        left = left + log_a[right.size :]
    return Chernoff(plan.right_tilts, right, plan.left_tilts, left)


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
    slack = float(np.log(2.0)) + _curvature(part, s, last, strip) * step * step / 8.0
    return float(_log_real_error(part, s, strip, step) + mean + slack)


def _curvature(part: SampledGaussian, s: float, last: float, strip: float) -> float:
    """Bound on the second derivative of the logarithm of |w^{s + i t} phi| along the edge."""
    flat = float(np.cos(0.5 * part.mu * strip)) ** 2
    return 1.0 + (abs(s) + last / flat) * part.mu**2 / 4.0


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
    turn = np.maximum.accumulate(_largest_argument(part, np.array(ends), heights))
    gain = last * turn[1:] - np.log(np.expm1(np.minimum(2.0 * np.pi * heights[:-1] / step, 700.0)))
    drop = strip * np.exp(min(common + float(np.max(gain)), 700.0))
    return float(2.0 * left_out * (outside + 2.0 * drop))


def _largest_argument(part: SampledGaussian, y: Array, heights: Array) -> Array:
    """max |arg w(y + i b')| over the given y and all 0 <= b' <= b, for increasing heights b.

    Where q e^a < 1 - q the argument peaks at arcsin(q e^a / (1 - q)) and falls again.
    """
    turn = _argument(part, y[:, None], heights[None, :])
    odds = part.rate * np.exp(np.minimum(part.mu * y - 0.5 * part.mu**2, 700.0))
    ratio = odds / max(1.0 - part.rate, 1e-300)
    peak = np.where(ratio < 1.0, np.arcsin(np.minimum(ratio, 1.0)), 0.0)
    past = np.cos(part.mu * heights)[None, :] <= -np.minimum(ratio, 1.0)[:, None]
    return np.asarray(np.max(np.where(past, np.maximum(turn, peak[:, None]), turn), axis=0))


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
    # the cell slack of the certificate grows with the step; leave room for a few nats of it
    room = np.sqrt(24.0 / _curvature(part, s, last, best[0]))
    return best[0], min(0.9 * best[1], float(room))
