"""From Renyi divergences to epsilon and delta: the best conversion there is, and the earlier ones.

If D_order(P||Q) <= level then H_{e^epsilon}(P||Q) <= delta. At order infinity the level is meant for
both directions, as in pure differential privacy. Every function here takes arrays of one shape (or
numbers) and answers entry by entry, on the safe side. Conversions have names:

    optimal    asoodeh2020 Theorem 3: no better one exists for a single order
    lemma1     asoodeh2020 Lemma 1: a closed form above it
    balle      balle2020 Theorem 21 = canonne2020 Proposition 12 (one formula, two names)
    classical  mironov2017 Proposition 3 = abadi2016 Theorem 2 (the moments accountant)

Which order to use is left to `RenyiCurve`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.bernoulli import Least, least_divergence
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array

__all__ = [
    "CONVERSIONS",
    "delta_from",
    "epsilon_from",
    "forcing_level",
    "theorem4_f",
    "theorem4_g",
]

# Elementary formulas are moved outwards by so many units of rounding of their largest term.
_UNITS = 16.0
_ROUNDING = _UNITS * UNIT_ROUNDOFF
_STEPS = 60
_SETTLED = 2.0**-45
# A solution is moved outwards, by factors of eight from the first number, until it is proved.
_FIRST_NUDGE, _NUDGES = 2.0**-51, 14
_SMALLEST_LOG_DELTA, _SMALLEST_DELTA = -700.0, 1e-304


def forcing_level(order: ArrayLike, epsilon: ArrayLike, delta: ArrayLike) -> Array:
    """Lower bound on the largest divergence of this order that still forces (epsilon, delta)-DP.

        order delta >= 1:  epsilon - log(1 - delta)
        otherwise:         the least divergence of two Bernoulli distributions with
                           p - e^epsilon q = delta

    0 at delta = 0, except at order infinity, where it is log((e^epsilon + delta) / (1 - delta)).

    Holds when: order > 1, epsilon >= 0, 0 <= delta < 1.

    Numerics: rounded down; relative error below 1e-13 in usual settings (see `numerics.bernoulli`),
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
    a, eps, d = (np.asarray(one, dtype=float) for one in (order, epsilon, delta))
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
    a, eps, d = (np.asarray(one, dtype=float) for one in (order, epsilon, delta))
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
        result = np.maximum(result, _SMALLEST_DELTA)
    result = np.where(np.isneginf(log_delta), 0.0, np.where(np.isnan(log_delta), 1.0, result))
    result = np.where(gamma == 0.0, 0.0, np.minimum(result, 1.0))
    return result.reshape(np.broadcast_shapes(*map(np.shape, (order, level, epsilon))))


def _aligned(*numbers: ArrayLike) -> tuple[Array, ...]:
    """The numbers as flat arrays of one length."""
    every = np.broadcast_arrays(*(np.asarray(one, dtype=float) for one in numbers))
    return tuple(np.array(one, dtype=float).ravel() for one in every)


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
    kept, spent = 1.0 - d, d * np.exp(-gamma)
    both = gamma + np.log(kept - spent + _ROUNDING * (kept + spent)) + _ROUNDING * (1.0 + gamma)
    result = np.where(np.isinf(a), np.where(np.isnan(both), 0.0, both), result)
    open_ = (a * d < 1.0) & (d > 0.0) & (gamma > 0.0) & np.isfinite(gamma) & (result > 0.0)
    if open_.any():
        a, gamma, d, top = a[open_], gamma[open_], d[open_], result[open_]

        def least(x: Array, start: Array | None) -> tuple[Least, Array]:
            one = least_divergence(a, x, d, start)
            return one, one.by_threshold

        result[open_] = _rising_root(least, gamma, np.zeros_like(top), top, top)
    return result


_Evaluated = Callable[[Array, "Array | None"], tuple[Least, Array]]


def _rising_root(
    least: _Evaluated, level: Array, low: Array, high: Array, otherwise: Array
) -> Array:
    """The smallest x seen in [low, high] at which the certified divergence reaches the level.

    Newton's method inside a bracket, then outwards until it is proved; `otherwise` where it is not.
    """
    x, top, start = high, high, None
    untried = np.ones(x.shape, dtype=bool)  # whether the lower end has not been looked at
    for _ in range(_STEPS):
        one, slope = least(x, start)
        start = one.place
        low, high = np.where(one.lower < level, x, low), np.where(one.lower < level, high, x)
        # the logarithm of the divergence is closer to a line than the divergence itself
        new = x - np.log(one.lower / level) * one.lower / slope
        untried &= x > low
        new = np.where(untried, np.maximum(new, low), new)
        new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        settled = np.abs(new - x) <= _SETTLED * np.abs(x)
        x = new
        if settled.all():
            break
    result: Array = otherwise.copy()
    nudge = _FIRST_NUDGE
    missing = np.ones(x.shape, dtype=bool)
    for _ in range(_NUDGES):
        candidate = np.minimum(x + nudge * np.abs(x), top)
        proved = missing & (least(candidate, start)[0].lower >= level)
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
    least = np.fmin(_log_delta_balle(a, gamma, eps), flat)
    # delta = 1 - e^{eps - gamma}, but at least 1/a
    whole = np.log(-np.expm1(eps - gamma)) + _ROUNDING * (1.0 + (gamma + eps) / (gamma - eps))
    whole = np.where(gamma <= eps, -np.inf, whole)
    at_least = np.where(np.isinf(a), whole, np.maximum(whole, _ROUNDING - log_edge))
    clear = least < -log_edge - _ROUNDING * (1.0 + log_edge)
    return np.where(clear, np.fmin(least, at_least), at_least)


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

        def least(y: Array, start: Array | None) -> tuple[Least, Array]:
            one = least_divergence(a, eps, np.exp(y), start)
            return one, one.by_log_excess

        low = np.full_like(top, _SMALLEST_LOG_DELTA)
        result[open_] = _rising_root(least, gamma, low, top, otherwise)
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
