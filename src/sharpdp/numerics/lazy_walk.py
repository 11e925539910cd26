"""A lazy symmetric walk: +1 or -1 with the same probability, else 0; masses and tails for any length.

Masses are the trapezoid sum of the tilted characteristic function around the circle, which is exact up
to images a circumference away; its cost does not depend on the number of steps.
"""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.special import Array, complex_log1p

_CIRCUMFERENCE = 30.0
"""Images are this many deviations away: e^-45 of the value and less."""

_FREQUENCIES = 56
"""So many reach 11.7 deviations of the characteristic function, where it is e^-68."""

_SMALL_DEVIATION, _WHOLE_CIRCLE = 8.0, 256
"""Up to this deviation the whole circle is summed, at so many points."""

_LEAST_TILT = 1.5
"""A tail is tilted by at least this over the deviation: images then stay below e^-45."""

WALK_ACCURACY = 1e-12
"""Bound on the error of log_step_mass and log_step_tail for values down to e^-800, checked with arb."""


def log_step_mass(steps: int, each: float, at: Array) -> Array:
    """log P[W = at] for whole numbers at >= 0; `each` is the probability of +1, and of -1.

    >>> round(float(np.exp(log_step_mass(2, 0.25, np.array([1.0])))[0]), 12)  # 2 * 1/4 * 1/2
    0.25
    """
    value = np.where(at == steps, steps * np.log(each), -np.inf)
    value[at < steps] = _log_circle(steps, each, at[at < steps], tail=False)
    return value


def log_step_tail(steps: int, each: float, at: Array) -> Array:
    """log P[W > at] for whole numbers at >= 0.

    >>> round(float(np.exp(log_step_tail(2, 0.25, np.array([0.0])))[0]), 12)  # 1/4 + 1/16
    0.3125
    """
    value = np.full(at.shape, -np.inf)
    value[at < steps] = _log_circle(steps, each, at[at < steps], tail=True)
    return value


def _log_circle(steps: int, each: float, at: Array, *, tail: bool) -> Array:
    """log of e^{-theta at} M^steps times the mean over the circle of what is left."""
    stay = 1.0 - 2.0 * each
    # the saddle: each (steps - at) x^2 - at stay x - each (steps + at) = 0 for x = e^theta
    root = np.sqrt((at * stay) ** 2 + 4.0 * each**2 * (steps - at) * (steps + at))
    theta = np.log((at * stay + root) / (2.0 * each * (steps - at)))
    deviation = _deviation(steps, each, theta)
    if tail:
        theta = np.maximum(theta, _LEAST_TILT / deviation)
        deviation = _deviation(steps, each, theta)
    value = np.empty(at.shape)
    whole = deviation < _SMALL_DEVIATION
    for chosen, circle in ((whole, True), (~whole, False)):
        if chosen.any():
            one = (at[chosen], theta[chosen], deviation[chosen])
            mean = _mean(steps, each, *one, tail=tail, circle=circle)
            value[chosen] = np.log(np.maximum(mean, 0.0))
    log_moment = np.log1p(4.0 * each * np.sinh(0.5 * theta) ** 2)
    return np.asarray(value + steps * log_moment - theta * at)


def _deviation(steps: int, each: float, theta: Array) -> Array:
    """Standard deviation of the tilted walk."""
    moment = 1.0 - 2.0 * each + 2.0 * each * np.cosh(theta)
    drift = 2.0 * each * np.sinh(theta) / moment
    return np.asarray(
        np.sqrt(steps * np.maximum(2.0 * each * np.cosh(theta) / moment - drift**2, 0.0))
    )


def _mean(
    steps: int,
    each: float,
    at: Array,
    theta: Array,
    deviation: Array,
    *,
    tail: bool,
    circle: bool,
) -> Array:
    """The mean of the tilted characteristic function times e^{-i t at}; over 1 - e^{-z} for a tail."""
    count = _WHOLE_CIRCLE // 2 if circle else _FREQUENCIES
    around = np.full(at.shape, float(_WHOLE_CIRCLE)) if circle else _CIRCUMFERENCE * deviation
    t = 2.0 * np.pi * np.arange(count + 1.0) / around[:, None]
    cosh, sinh = np.cosh(theta)[:, None], np.sinh(theta)[:, None]
    moment = 1.0 - 2.0 * each + 2.0 * each * cosh
    change = -2.0 * cosh * np.sin(0.5 * t) ** 2 + 1j * sinh * np.sin(t)
    with np.errstate(divide="ignore"):
        log_value = steps * complex_log1p(2.0 * each / moment * change)
    value = np.exp(log_value - 1j * t * at[:, None])
    if tail:
        value = value / np.expm1(theta[:, None] + 1j * t)
    weights = np.full(count + 1, 2.0)
    weights[0] = 1.0
    if circle:
        weights[-1] = 1.0
    return np.asarray((value.real @ weights) / around)
