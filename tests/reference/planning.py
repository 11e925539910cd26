"""Where to put contours and nodes: plain floats, heuristics only.

Nothing here enters a reference value except through choices (tilt, step, cut-offs) whose
consequences are then bounded in ball arithmetic by `moments` and `poisson`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import exp, log, pi, sqrt

import numpy as np

Steps = tuple[tuple[float, float, int], ...]  # (rate, noise multiplier, how often)
FloatFactor = tuple[float, complex]

NODES = 400_000  # never more float nodes than this
DEPTH = 60.0  # nats below the peak that still count


def log_ratio(q: float, s: float, u: np.ndarray) -> np.ndarray:
    """log w(u) for complex u, without overflow."""
    a = (2 * u - 1) / (2 * s * s)
    big = np.real(a) > 0
    small_a = np.where(big, 0.0, a)
    large_a = np.where(big, a, 0.0)
    return np.where(
        big,
        large_a + np.log(q + (1 - q) * np.exp(-large_a)),
        np.log1p(q * np.expm1(small_a)),
    )


def log_sum_exp(v: np.ndarray) -> float:
    top = float(np.max(v))
    return top + log(float(np.sum(np.exp(v - top))))


@lru_cache(maxsize=4096)
def support(q: float, s: float, power: float) -> np.ndarray:
    """Points that resolve phi w^power where it is within e^-60 of its peak."""
    upper = max(power, 0.5) + 12 * s
    lower = -12 * s - (0.0 if power > 0 else 3 * s)
    coarse = np.linspace(lower, upper, int(min(NODES, max(200, 2 * (upper - lower) / s))))
    values = -coarse * coarse / (2 * s * s) + power * log_ratio(q, s, coarse)
    kept = np.flatnonzero(values > np.max(values) - DEPTH)
    first, last = coarse[max(kept[0] - 1, 0)], coarse[min(kept[-1] + 1, len(coarse) - 1)]
    count = int(min(NODES, max(200, (last - first) / min(s / 12, s * s / 2))))
    return np.linspace(first, last, count)


@lru_cache(maxsize=65536)
def log_moment(q: float, s: float, power: float) -> float:
    """log A(power), A(z) = E_Q w^z."""
    x = support(q, s, power)
    values = -x * x / (2 * s * s) + power * log_ratio(q, s, x)
    return log_sum_exp(values) + log((x[1] - x[0]) / (s * sqrt(2 * pi)))


def log_line(q: float, s: float, factors: Sequence[FloatFactor], c: float, x: np.ndarray) -> float:
    """log of the integral of |F(x + ic)|."""
    values = (c * c - x * x) / (2 * s * s)
    for b, z in factors:
        ratio = log_ratio(q, s, x + 1j * (c + b))
        values = values + z.real * ratio.real - z.imag * ratio.imag
    return log_sum_exp(values) + log((x[1] - x[0]) / (s * sqrt(2 * pi)))


def shifts(s: float) -> np.ndarray:
    """Candidate imaginary shifts up to nearly pi s^2 / 2 (at most 40 s: useless beyond)."""
    return min(0.46 * pi * s * s, 40 * s) * np.geomspace(1e-6, 0.98, 30)


def decay(q: float, s: float, power: float, t: float) -> tuple[float, float]:
    """(log B, b): the best bound of |A(power + iu)| for all |u| >= t among shifts b."""
    x = support(q, s, power)
    best, best_b = log_line(q, s, [(0.0, complex(power))], 0.0, x), 0.0
    for b in shifts(s):
        value = log_line(q, s, [(0.0, complex(power, t))], float(b), x)
        if value < best:
            best, best_b = value, float(b)
    return best, best_b


def minimum(f: Callable[[float], float], low: float, high: float, rounds: int = 60) -> float:
    """argmin of a unimodal function by golden section."""
    ratio = (sqrt(5) - 1) / 2
    a, b = low, high
    c, d = b - ratio * (b - a), a + ratio * (b - a)
    fc, fd = f(c), f(d)
    for _ in range(rounds):
        if fc < fd:
            b, d, fd = d, c, fc
            c = b - ratio * (b - a)
            fc = f(c)
        else:
            a, c, fc = c, d, fd
            d = a + ratio * (b - a)
            fd = f(d)
    return (a + b) / 2


def power_of(direction: str, tilt: float) -> float:
    """The real exponent s with M(tilt) = A(s): tilt + 1 (remove) or -tilt (add)."""
    return tilt + 1 if direction == "remove" else -tilt


def log_total_moment(steps: Steps, direction: str, tilt: float) -> float:
    """K_T(tilt) = sum of counts times log A."""
    power = power_of(direction, tilt)
    return sum(n * log_moment(q, s, power) for q, s, n in steps)


def saddle(steps: Steps, direction: str, epsilon: float) -> float:
    """The tilt that minimizes K_T(tilt) - tilt eps - log tilt - log(1 + tilt)."""

    def height(log_tilt: float) -> float:
        tilt = exp(log_tilt)
        return log_total_moment(steps, direction, tilt) - tilt * epsilon - log_tilt - log(1 + tilt)

    low = log(1e-3)
    step = 1.0
    at = low
    value = height(at)
    while True:  # walk right until it rises: larger tilts are never evaluated
        following = height(at + step)
        if following >= value or at > log(1e14):
            break
        at, value = at + step, following
    return exp(minimum(height, at - step, at + step, 40))


def log_delta(steps: Steps, direction: str, epsilon: float) -> float:
    """First-order saddle-point value of log delta: a guess, wrong by up to 30 %."""
    tilt = saddle(steps, direction, epsilon)
    height = log_total_moment(steps, direction, tilt) - tilt * epsilon
    d = 0.02 * tilt
    second = (
        log_total_moment(steps, direction, tilt + d)
        - 2 * log_total_moment(steps, direction, tilt)
        + log_total_moment(steps, direction, tilt - d)
    ) / (d * d)
    curvature = max(second, 0.0) + 1 / tilt**2 + 1 / (1 + tilt) ** 2
    return height - log(tilt) - log(1 + tilt) - 0.5 * log(2 * pi * curvature)


def guess_epsilon(steps: Steps, direction: str, delta: float) -> float:
    """A rough epsilon(delta) from the saddle-point value, by bisection."""
    low, high = 0.0, 1.0
    if direction == "add":
        bound = sum(-n * np.log1p(-q) for q, _, n in steps)
        high = min(high, float(bound) / 2)
    while log_delta(steps, direction, high) > log(delta):
        low = high
        high = 2 * high if direction == "remove" else min(2 * high, (high + float(bound)) / 2)
    for _ in range(30):
        middle = (low + high) / 2
        if log_delta(steps, direction, middle) > log(delta):
            low = middle
        else:
            high = middle
    return (low + high) / 2
