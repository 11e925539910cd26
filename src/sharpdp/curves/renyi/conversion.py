"""From Renyi divergences to epsilon and delta: the best conversion there is, and the earlier ones.

If D_order(P||Q) <= level then H_{e^epsilon}(P||Q) <= delta. At order infinity the level is meant for
both directions, as in pure differential privacy. Every function here takes arrays of one shape (or
numbers) and answers entry by entry, on the safe side. Conversions have names:

    optimal    asoodeh2020 Theorem 3: no better one exists for a single order
    lemma1     asoodeh2020 Lemma 1: a closed form above it
    balle      balle2020 Theorem 21 = canonne2020 Proposition 12 (one formula, two names)
    classical  mironov2017 Proposition 3 = abadi2016 Theorem 2 (the moments accountant)

Which order to use is left to `RenyiCurve`.

The optimal one rests on `least_divergence`, the smallest divergence at which one event gains a given
excess. For Bernoulli distributions with success probabilities p and q = (p - excess) e^{-threshold}, the
excess is p - e^threshold q. The divergence of order a = 1 + s is log(1 + S) / s with

    S = p gap(s, log(p/q)) + (1 - p) gap(s, log((1 - p)/(1 - q)))
    gap(s, x) = e^{s x} - 1 + s (e^{-x} - 1) >= 0,

a sum of nonnegative terms, so that small divergences keep their digits. S is convex in p. With
u = p / (p - excess) and v = (1 - p) / (e^threshold - p + excess) it is least where k(u) = k(v),
k(w) = a w^s - s w^a.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, exact_product, log_convexity_gap

__all__ = [
    "CONVERSIONS",
    "Least",
    "delta_from",
    "epsilon_from",
    "forcing_level",
    "least_divergence",
    "theorem4_f",
    "theorem4_g",
]

_ROUNDING = 16.0 * UNIT_ROUNDOFF
"""Elementary formulas are moved outwards by so much of their largest term."""

_NEARLY_ONE = 0.5
"""log k(w) = log(1 - small) where s |log w| is below this; a sum of larger logarithms elsewhere."""

_FARTHEST = 720.0
"""Logits that are looked at."""

_SMALLEST_LOG_DELTA = -700.0


@dataclass(frozen=True)
class Least:
    """The least divergence: a certified lower bound on it, and how fast it rises (not certified)."""

    lower: Array
    by_threshold: Array
    by_log_excess: Array
    place: Array
    """Where the minimum was found, as a logit; a good place to start the next search from."""
    success: Array
    """The p of the pair that attains it."""


@dataclass(frozen=True)
class _Setting:
    """Order, threshold and excess, and what follows from them alone."""

    s: Array
    threshold: Array
    excess: Array
    room: Array
    """1 - order excess."""
    log_step: Array
    """log of (e^threshold - 1 + excess)."""

    @classmethod
    def of(cls, order: Array, threshold: Array, excess: Array) -> _Setting:
        share = -np.expm1(-threshold) + excess * np.exp(-threshold)
        product, rest = exact_product(order, excess)
        room = (1.0 - product) - rest
        return cls(order - 1.0, threshold, excess, room, threshold + np.log(share))


@dataclass(frozen=True)
class _Point:
    """Everything at one p for each setting; p = order excess + (1 - order excess) sigmoid(z)."""

    p: Array
    log_rest: Array
    """log(1 - p)."""
    log_u: Array
    log_v: Array
    log_k_u: Array
    log_k_v: Array
    slope: Array
    """The derivative of log k(u) - log k(v) in z."""
    log_speed: Array
    """log dp/dz."""

    @classmethod
    def at(cls, setting: _Setting, z: Array) -> _Point:
        s, d = setting.s, setting.excess
        a = s + 1.0
        room = setting.room
        log_sig, log_cosig = -np.logaddexp(0.0, -z), -np.logaddexp(0.0, z)
        sig, cosig = np.exp(log_sig), np.exp(log_cosig)
        below = s * d + room * sig  # p - excess
        log_rest = np.log(room) + log_cosig
        log_w = setting.log_step - log_rest
        log_v = -np.logaddexp(0.0, log_w)
        log_u = np.log1p(d / below)
        v = np.exp(log_v)
        p = below + d
        log_k_u = s * log_u + np.log(room) + log_sig - np.log(below)
        log_k_v = s * log_v + np.log(a - s * v)
        small = np.maximum(1.0, s) * np.maximum(log_u, -log_v) < _NEARLY_ONE
        if small.any():
            log_k_u[small] = _log_k(s[small], log_u[small])
            log_k_v[small] = _log_k(s[small], log_v[small])
        gain = sig * np.exp(2.0 * (log_w + log_v)) / (a - s * v)
        slope = a * s * (cosig * (d / below) * (d / p) + gain)
        return cls(
            p, log_rest, log_u, log_v, log_k_u, log_k_v, slope, np.log(room) + log_sig + log_cosig
        )

    @property
    def force(self) -> Array:
        """log k(u) - log k(v): the sign of the derivative of S."""
        return self.log_k_u - self.log_k_v


def least_divergence(
    order: Array, threshold: Array, excess: Array, start: Array | None = None
) -> Least:
    """A certified lower bound on the least divergence over p, with the slopes at the minimum.

    Holds when: order > 1 finite, threshold >= 0, 0 < order excess < 1; arrays of one shape.

    Numerics: a convex function is at least its tangent, and the minimizer is proved to be within 1e-6
    (in the logit) of where the tangent is taken, so that the loss is of second order; S is moved down
    by 128 units of rounding and 8 for each unit of its logarithm and exponents. Relative error below
    1e-13 in usual settings; where the sign cannot be decided the bound is 0.

    >>> one = least_divergence(np.array([2.0]), np.array([0.5]), np.array([0.01]))
    >>> round(float(one.lower[0]), 10)
    0.0260076995
    """
    setting = _Setting.of(order, threshold, excess)
    with np.errstate(all="ignore"):
        z = _minimizer(setting, _first_guess(setting) if start is None else start)
        return _measured(setting, z)


def _first_guess(setting: _Setting) -> Array:
    """The logit for a p next to order excess, where log k(u) is a line in it and k(v) a constant."""
    s, d = setting.s, setting.excess
    a = s + 1.0
    log_room = np.log(setting.room)
    log_v = -np.logaddexp(0.0, setting.log_step - log_room)
    log_k_v = s * log_v + np.log(a - s * np.exp(log_v))
    line = np.log(s) + np.log(d) - log_room - s * np.log1p(1.0 / s) + log_k_v
    return np.asarray(np.clip(line, -_FARTHEST, 0.0))


def _minimizer(setting: _Setting, z: Array) -> Array:
    """About the logit at which the derivative vanishes: Newton's method inside a shrinking bracket."""
    low, high = np.full_like(z, -_FARTHEST), np.full_like(z, _FARTHEST)
    z = np.clip(z, -_FARTHEST, _FARTHEST)
    for _ in range(80):
        point = _Point.at(setting, z)
        force = point.force
        low, high = np.where(force < 0.0, z, low), np.where(force < 0.0, high, z)
        step = force / point.slope
        new = z - step
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        settled = np.abs(new - z) <= 1e-9 * (1.0 + np.abs(z))
        z = new
        if settled.all():
            break
    return z


def _measured(setting: _Setting, z: Array) -> Least:
    """The certified value and the slopes at an approximate minimizer."""
    point = _Point.at(setting, z)
    s, eps = setting.s, setting.threshold
    log_ratio = eps + point.log_u  # log(p / q)
    log_other = point.log_v + eps  # log((1 - p) / (1 - q)), up to cancellation
    tiny = np.abs(log_other) < _NEARLY_ONE
    p, rest = point.p, np.exp(point.log_rest)
    exact = -np.log1p((p * -np.expm1(-eps) + setting.excess * np.exp(-eps)) / rest)
    log_other = np.where(tiny, exact, log_other)
    log_gain, log_loss = log_convexity_gap(s, log_ratio), log_convexity_gap(s, log_other)
    log_s = np.logaddexp(np.log(p) + log_gain, point.log_rest + log_loss)
    logarithms = np.abs(log_s) + np.abs(np.log(p)) + np.abs(point.log_rest)
    units = 128.0 + 8.0 * (s * log_ratio + np.abs(log_other) + logarithms)
    lost = units * UNIT_ROUNDOFF + np.exp(_log_loss(setting, point, z) - log_s)
    log_share = np.log(np.maximum(1.0 - lost, 0.0))
    lower = np.logaddexp(0.0, log_s + log_share) / s * (1.0 - 8.0 * UNIT_ROUNDOFF)
    log_h = np.logaddexp(0.0, log_s) - s * eps
    a = s + 1.0
    by_threshold = -np.expm1(a * point.log_v + eps - log_h)
    gain = np.exp(a * point.log_u - log_h) - np.exp(a * point.log_v - log_h)
    return Least(
        np.where(np.isnan(lower), 0.0, lower), by_threshold, setting.excess * gain, z, point.p
    )


def _log_loss(setting: _Setting, point: _Point, z: Array) -> Array:
    """log of what S at this point may exceed its minimum by: the slope times the distance.

    The minimum lies between order excess and one; where the signs beside the point are certain, it
    lies between the neighbors, 1e-6 away in the logit. The difference whose sign is looked for is off by
    64 units of its terms.
    """
    near = 1e-6
    log_rest = point.log_rest + z  # log(p - order excess)
    log_reach = np.full_like(z, -np.inf)
    noise = np.zeros_like(z)
    for side, bound in ((-1.0, log_rest), (1.0, point.log_rest)):
        beside = _Point.at(setting, z + side * near)
        size = setting.s * np.maximum(beside.log_u, -beside.log_v)
        scale = np.where(
            np.maximum(size, beside.log_u - beside.log_v) < _NEARLY_ONE,
            np.abs(beside.log_k_u) + np.abs(beside.log_k_v),
            1.0 + size + np.abs(z),
        )
        noise = np.maximum(noise, 64.0 * UNIT_ROUNDOFF * scale)
        reach = np.log(2.0 * near) + point.log_speed
        log_reach = np.maximum(log_reach, np.where(side * beside.force > noise, reach, bound))
    share = np.minimum(np.abs(point.force) + noise, 1.0)
    log_slope = (
        setting.s * setting.threshold + np.maximum(point.log_k_u, point.log_k_v) + np.log(share)
    )
    return np.asarray(log_slope + log_reach)


def _log_k(s: Array, log_w: Array) -> Array:
    """log k(w) for w near one, from 1 - k(w) = w^s gap(s, -log w)."""
    return np.asarray(np.log1p(-np.exp(s * log_w + log_convexity_gap(s, -log_w))))


def forcing_level(order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """Lower bound on the largest divergence of this order that still forces (epsilon, delta)-DP.

        order delta >= 1:  epsilon - log(1 - delta)
        otherwise:         the least divergence of two Bernoulli distributions with
                           p - e^epsilon q = delta

    0 at delta = 0, except at order infinity, where it is log((e^epsilon + delta) / (1 - delta)).

    Holds when: order > 1, epsilon >= 0, 0 <= delta < 1.

    Numerics: rounded down; relative error below 1e-13 in usual settings (see `least_divergence`),
    and never below the two bounds of Theorem 4.

    Source: asoodeh2020 Theorem 3.

    >>> round(float(forcing_level(10, 1.0, 1e-5)), 9)
    0.125382749
    """
    a, eps, d = _aligned(order, epsilon, delta)
    d, inside = _off_the_edge(a, d)
    both = np.where(np.isinf(a), np.log1p(d * np.exp(-eps)), 0.0)
    level = (eps + both - np.log1p(-d)) * (1.0 - _ROUNDING)
    level = np.where((d == 0.0) & np.isfinite(a), 0.0, level)
    if inside.any():
        a, eps, d = a[inside], eps[inside], d[inside]
        level[inside] = np.maximum(least_divergence(a, eps, d).lower, _theorem4(a, eps, d))
    return np.maximum(level, 0.0).reshape(
        np.broadcast_shapes(*map(np.shape, (order, epsilon, delta)))
    )


def theorem4_f(order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """Lower bound on the forcing level, sharp at small delta.

        f = epsilon + log((e^epsilon - a delta) ((1 - delta)/(e^epsilon - delta))^a + a delta) / (a - 1)

    Holds when: 0 < a delta < 1.

    Numerics: rounded down by 16 units of the largest term.

    Source: asoodeh2020 Theorem 4.

    >>> round(float(np.exp(theorem4_f(2, np.log(2), 0.25))), 9)  # 2 (3/2 (3/7)^2 + 1/2)
    1.551020408
    """
    a, eps, d = (np.asarray(values, dtype=float) for values in (order, epsilon, delta))
    shrunk = np.exp(-eps)
    # ((1 - d)/(e^eps - d))^a (e^eps - a d), with e^((a - 1) eps) taken out
    move = -np.log1p(-d * np.expm1(-eps) / (1.0 - d))
    first = a * move + np.log1p(-a * d * shrunk)
    second = np.log(a * d) + (a - 1.0) * eps
    value = np.logaddexp(first, second) / (a - 1.0)
    size = (a * np.abs(move) + np.abs(first) + np.abs(np.log(a * d)) + 1.0) / (a - 1.0) + eps
    return np.asarray(value - _ROUNDING * size)


def theorem4_g(order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """Lower bound on the forcing level, sharp at large levels: epsilon - log(zeta / delta) / (a - 1).

    zeta = (1 - 1/a)^{a - 1} / a.

    Holds when: 0 < a delta < 1.

    Numerics: rounded down by 16 units of the largest term.

    Source: asoodeh2020 Theorem 4.

    >>> round(float(theorem4_g(2, 3.0, 0.25)), 9)  # zeta = 1/4
    3.0
    """
    a, eps, d = (np.asarray(values, dtype=float) for values in (order, epsilon, delta))
    return np.asarray(eps - _penalty(a, d, _log_zeta(a)) - _ROUNDING * eps)


def epsilon_from(
    order: ArrayLike, level: ArrayLike, delta: ArrayLike, conversion: str = "optimal"
) -> Array:
    """Upper bound on epsilon at delta if the divergence of this order is at most `level`.

    The best one if the conversion is optimal: some pair attains it.

    Holds when: order > 1 (infinity allowed), level >= 0 (infinity gives infinity), 0 <= delta < 1.

    Numerics: rounded up; the optimal one is within 1e-12 of the solution.

    Source: asoodeh2020 Theorem 3 and Lemma 1; balle2020 Theorem 21; mironov2017 Proposition 3.

    >>> [round(float(epsilon_from(8, 0.05, 1e-6, name)), 6) for name in CONVERSIONS]
    [1.418822, 1.552338, 1.59305, 2.023644]
    """
    a, gamma, d = _aligned(order, level, delta)
    d, _ = _off_the_edge(a, d)
    with np.errstate(all="ignore"):
        result = np.maximum(CONVERSIONS[conversion](a, gamma, d), 0.0)
    result = np.where(np.isinf(a) & (d == 0.0), gamma, np.where(d == 0.0, np.inf, result))
    result = np.where(gamma == 0.0, 0.0, np.where(np.isnan(result), np.inf, result))
    return result.reshape(np.broadcast_shapes(*map(np.shape, (order, level, delta))))


def delta_from(
    order: ArrayLike, level: ArrayLike, epsilon: ArrayLike, conversion: str = "optimal"
) -> Array:
    """Upper bound on delta at epsilon if the divergence of this order is at most `level`.

    The best one if the conversion is optimal: some pair attains it. 1 if nothing is known.

    Holds when: order > 1 (infinity allowed), level >= 0, epsilon >= 0.

    Numerics: rounded up; the optimal one is within a relative 1e-12 of the solution, at least 1e-304.

    Source: asoodeh2020 Theorem 3 and Lemma 1; balle2020 Theorem 21; mironov2017 Proposition 3.

    >>> bool(abs(delta_from(8, 0.05, 1.418822) - 1e-6) < 1e-11)
    True
    """
    a, gamma, eps = _aligned(order, level, epsilon)
    with np.errstate(all="ignore"):
        log_delta = _LOG_DELTAS[conversion](a, gamma, eps)
        result = np.exp(log_delta) * (1.0 + _ROUNDING * (1.0 + np.abs(log_delta)))
        result = np.maximum(result, 1e-304)
    result = np.where(np.isneginf(log_delta), 0.0, np.where(np.isnan(log_delta), 1.0, result))
    result = np.where(gamma == 0.0, 0.0, np.minimum(result, 1.0))
    return result.reshape(np.broadcast_shapes(*map(np.shape, (order, level, epsilon))))


def _aligned(*numbers: ArrayLike) -> tuple[Array, ...]:
    """The numbers as flat arrays of one length."""
    every = np.broadcast_arrays(*(np.asarray(values, dtype=float) for values in numbers))
    return tuple(np.array(values, dtype=float).ravel() for values in every)


def _log_zeta(a: Array) -> Array:
    return np.asarray(-np.log(a) + (a - 1.0) * np.log1p(-1.0 / a))


def _penalty(a: Array, d: Array, log_zeta: Array | float) -> Array:
    """(log zeta - log delta) / (a - 1), rounded up."""
    size = np.abs(log_zeta) + np.abs(np.log(d)) + 1.0
    return np.asarray((log_zeta - np.log(d) + _ROUNDING * size) / (a - 1.0))


def _off_the_edge(a: Array, d: Array) -> tuple[Array, NDArray[np.bool_]]:
    """delta, moved down where rounding hides on which side of 1/order it is; and where it is below."""
    product = np.where(d > 0.0, a, 0.0) * d
    edge = np.abs(product - 1.0) <= _ROUNDING
    return np.where(edge, d * (1.0 - 4.0 * _ROUNDING), d), (product < 1.0 + _ROUNDING) & (d > 0.0)


def _theorem4(a: Array, eps: Array, d: Array) -> Array:
    return np.maximum(theorem4_f(a, eps, d), theorem4_g(a, eps, d))


def _classical(a: Array, gamma: Array, d: Array) -> Array:
    return np.asarray(gamma * (1.0 + _ROUNDING) + _penalty(a, d, 0.0))


def _balle(a: Array, gamma: Array, d: Array) -> Array:
    penalty = np.where(np.isinf(a), 0.0, _penalty(a, d, _log_zeta(a)))
    return np.asarray(gamma * (1.0 + _ROUNDING) + penalty)


def _lemma1(a: Array, gamma: Array, d: Array) -> Array:
    s = a - 1.0
    exponent = s * gamma
    # log(e^x - 1) = x + log(1 - e^-x)
    log_rise = exponent + np.log(-np.expm1(-exponent)) - np.log(a * d)
    size = exponent + np.abs(np.log(a * d)) + np.abs(log_rise) + 1.0
    flat = (np.logaddexp(0.0, log_rise) * (1.0 + _ROUNDING * size)) / s
    whole = gamma + np.log1p(-d) + _ROUNDING * (gamma + np.abs(np.log1p(-d)))
    return np.where(a * d >= 1.0, whole, np.minimum(np.maximum(_balle(a, gamma, d), 0.0), flat))


def _optimal(a: Array, gamma: Array, d: Array) -> Array:
    result = np.maximum(_lemma1(a, gamma, d), 0.0)
    # a pure guarantee in both directions is attained by randomized response: e^gamma (1 - d) - d
    remaining, spent = 1.0 - d, d * np.exp(-gamma)
    both = (
        gamma
        + np.log(remaining - spent + _ROUNDING * (remaining + spent))
        + _ROUNDING * (1.0 + gamma)
    )
    result = np.where(np.isinf(a), np.where(np.isnan(both), 0.0, both), result)
    open_ = (a * d < 1.0) & (d > 0.0) & (gamma > 0.0) & np.isfinite(gamma) & (result > 0.0)
    if open_.any():
        a, gamma, d, top = a[open_], gamma[open_], d[open_], result[open_]

        def evaluated(x: Array, start: Array | None) -> tuple[Least, Array]:
            least = least_divergence(a, x, d, start)
            return least, least.by_threshold

        result[open_] = _rising_root(evaluated, gamma, np.zeros_like(top), top, top)
    return result


_Evaluated = Callable[[Array, "Array | None"], tuple[Least, Array]]


def _rising_root(
    evaluated: _Evaluated, level: Array, low: Array, high: Array, otherwise: Array
) -> Array:
    """The smallest x seen in [low, high] at which the certified divergence reaches the level.

    Newton's method inside a bracket, then outwards until it is proved; `otherwise` where it is not.
    """
    x, top, start = high, high, None
    untried = np.ones(x.shape, dtype=bool)  # whether the lower end has not been looked at
    for _ in range(60):
        least, slope = evaluated(x, start)
        start = least.place
        low, high = np.where(least.lower < level, x, low), np.where(least.lower < level, high, x)
        # the logarithm of the divergence is closer to a line than the divergence itself
        new = x - np.log(least.lower / level) * least.lower / slope
        untried &= x > low
        new = np.where(untried, np.maximum(new, low), new)
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        settled = np.abs(new - x) <= 2.0**-45 * np.abs(x)
        x = new
        if settled.all():
            break
    result: Array = otherwise.copy()
    nudge = 2.0**-51
    missing = np.ones(x.shape, dtype=bool)
    for _ in range(14):
        candidate = np.minimum(x + nudge * np.abs(x), top)
        proved = missing & (evaluated(candidate, start)[0].lower >= level)
        result[proved] = candidate[proved]
        missing &= ~proved
        if not missing.any():
            break
        nudge *= 8.0
    return result


def _log_delta_classical(a: Array, gamma: Array, eps: Array) -> Array:
    return _log_power(a, gamma, eps, np.zeros_like(a))


def _log_delta_balle(a: Array, gamma: Array, eps: Array) -> Array:
    return _log_power(a, gamma, eps, _log_zeta(a))


def _log_power(a: Array, gamma: Array, eps: Array, log_factor: Array) -> Array:
    """log(factor e^{(a - 1)(gamma - eps)}), rounded up; at order infinity all or nothing."""
    size = 1.0 + np.abs(log_factor) + (a - 1.0) * (gamma + eps)
    finite = log_factor + (a - 1.0) * (gamma - eps) + _ROUNDING * size
    return np.where(np.isinf(a), np.where(gamma <= eps, -np.inf, 0.0), finite)


def _log_delta_lemma1(a: Array, gamma: Array, eps: Array) -> Array:
    s, log_edge = a - 1.0, np.log(a)
    # delta = (e^{s gamma} - 1) / (a (e^{s eps} - 1)), where that is below 1/a
    up, down = s * gamma, s * eps
    log_up, log_down = np.log(-np.expm1(-up)), np.log(-np.expm1(-down))
    flat = up + log_up - down - log_down - log_edge
    size = up + down + log_edge + np.abs(log_up) + np.abs(log_down)
    flat = flat + _ROUNDING * (1.0 + 4.0 * size)
    smaller = np.fmin(_log_delta_balle(a, gamma, eps), flat)
    # delta = 1 - e^{eps - gamma}, but at least 1/a
    whole = np.log(-np.expm1(eps - gamma)) + _ROUNDING * (1.0 + (gamma + eps) / (gamma - eps))
    whole = np.where(gamma <= eps, -np.inf, whole)
    at_least = np.where(np.isinf(a), whole, np.maximum(whole, _ROUNDING - log_edge))
    clear = smaller < -log_edge - _ROUNDING * (1.0 + log_edge)
    return np.where(clear, np.fmin(smaller, at_least), at_least)


def _log_delta_optimal(a: Array, gamma: Array, eps: Array) -> Array:
    result = _log_delta_lemma1(a, gamma, eps)
    # (e^gamma - e^eps) / (1 + e^gamma): both directions
    result = result - np.where(np.isinf(a), np.log1p(np.exp(-gamma)) * (1.0 - _ROUNDING), 0.0)
    # at order delta = 1 the level is epsilon - log(1 - 1/order); beyond it the closed form is exact
    open_ = (gamma > 0.0) & np.isfinite(gamma) & np.isfinite(a)
    open_ &= (gamma < eps - np.log1p(-1.0 / a)) & (result > _SMALLEST_LOG_DELTA)
    if open_.any():
        a, gamma, eps, otherwise = a[open_], gamma[open_], eps[open_], result[open_]
        top = np.minimum(otherwise, -np.log(a) - 2.0 * _ROUNDING * (1.0 + np.log(a)))

        def evaluated(y: Array, start: Array | None) -> tuple[Least, Array]:
            least = least_divergence(a, eps, np.exp(y), start)
            return least, least.by_log_excess

        low = np.full_like(top, _SMALLEST_LOG_DELTA)
        result[open_] = _rising_root(evaluated, gamma, low, top, otherwise)
    return result


CONVERSIONS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "optimal": _optimal,
    "lemma1": _lemma1,
    "balle": _balle,
    "classical": _classical,
}
"""The conversions by name, the best one first: from order, level and delta to epsilon."""

_LOG_DELTAS: dict[str, Callable[[Array, Array, Array], Array]] = {
    "optimal": _log_delta_optimal,
    "lemma1": _log_delta_lemma1,
    "balle": _log_delta_balle,
    "classical": _log_delta_classical,
}
