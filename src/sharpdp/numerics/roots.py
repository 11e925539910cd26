"""Where functions cross a level, or conditions cease to hold: certified, and rough for planning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import Array


def certified_crossing(
    excess: Callable[[float], float],
    start: float,
    slope: float,
    sign: float,
    relative_width: float = 1e-15,
) -> float:
    """A point close to the zero of a decreasing function where sign * excess <= 0 was seen; >= 0.

    Sign +1 asks for a point at or after the crossing, -1 for one at or before it (0 if none is seen).
    The search ends when points on both sides of the crossing are this close, relative to it.
    """
    x, step_slope = max(start, 0.0), slope
    left, right = 0.0, np.inf
    best = np.inf if sign > 0 else 0.0
    previous: tuple[float, float] | None = None
    for _ in range(60):
        value = excess(x)
        if sign * value <= 0.0:
            best = min(best, x) if sign > 0 else max(best, x)
            if abs(value) < 1e-10 or x == 0.0:
                break
        if not np.isfinite(value):
            x = x - sign * np.sign(value) * 2.0 / slope if sign > 0 else x - 1.0 / slope
            if x <= 0.0:
                break
            continue
        if previous is not None and value != previous[1] and x != previous[0]:
            local = -(value - previous[1]) / (x - previous[0])
            if 0.05 * slope < local < 20.0 * slope:
                step_slope = local
        previous = (x, value)
        left, right = (max(left, x), right) if value > 0.0 else (left, min(right, x))
        if right - left <= relative_width * right < np.inf:
            break
        nudge = 1e-11 if abs(value) < 1e-6 else 1e-3 * abs(value)
        x = max(x + (value + sign * nudge) / step_slope, 0.0)
        if not left <= x <= right:
            x = 0.5 * (left + right)
    return float(best)


def falling_root(
    function: Callable[[float], float], start: float = 1.0, farthest: float = 1e7
) -> float:
    """About the positive zero of a decreasing function that is positive at zero (not certified).

    The search doubles or halves from `start`; nothing is looked for beyond `farthest`.
    """
    low, high = 0.0, min(start, farthest)
    while high < farthest and function(high) > 0.0:
        low, high = high, min(2.0 * high, farthest)
    while low == 0.0 and high > 1e-14 and function(0.5 * high) <= 0.0:
        high *= 0.5
    low, high = last_true(lambda x: function(x) > 0.0, low, high, halvings=40, relative_width=1e-4)
    return 0.5 * (low + high)


def last_true(
    holds: Callable[[float], bool],
    low: float,
    high: float,
    *,
    halvings: float = np.inf,
    width: float = 0.0,
    relative_width: float = 0.0,
) -> tuple[float, float]:
    """The last point seen to satisfy a condition that holds at low and not beyond, and the first not to.

    `holds(low)` must be true and `holds(high)` false. The result is two neighboring doubles, or as
    near to each other as the widths say, or what so many halvings give.

    >>> last_true(lambda x: x * x <= 2.0, 1.0, 2.0)[0]
    1.414213562373095
    """
    while halvings > 0:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
        if high - low <= width + relative_width * high:
            break
        halvings -= 1
    return low, high


def many_last_true(
    holds: Callable[[Array], NDArray[np.bool_]], low: Array, high: Array, halvings: int
) -> tuple[Array, Array]:
    """`last_true` of many conditions at once.

    >>> low, high = many_last_true(lambda x: x * x <= [2.0, 3.0], np.ones(2), np.full(2, 2.0), 20)
    >>> np.round(low, 5)
    array([1.41421, 1.73205])
    """
    for _ in range(halvings):
        middle = 0.5 * (low + high)
        is_held = holds(middle)
        low, high = np.where(is_held, middle, low), np.where(is_held, high, middle)
    return low, high


def straight_crossing(
    function: Callable[[float], float], target: float, low: float, high: float
) -> tuple[float, float]:
    """Where an increasing function passes a target: the last point seen below it, the first not below.

    `function(low) < target <= function(high)` must hold; infinite values are allowed. The two points
    are 2^-46 apart or neighboring doubles. Fast if the function is nearly straight (secants that aim
    a little beyond the crossing, so that both ends close in; bisection whenever that stalls), never
    wrong if it is not.

    >>> low, high = straight_crossing(lambda x: x * x, 2.0, 1.0, 2.0)
    >>> bool(low < 2**0.5 <= high < low + 1e-13)
    True
    """
    first, second = (low, function(low) - target), (high, function(high) - target)
    width, close = high - low, 2.0**-46
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= close * high:
            return low, high
        guess = _beyond_root(first, second, close * high) if high - low <= width else middle
        middle = guess if low < guess < high else middle
        width = 0.7 * width
        value = function(middle) - target
        first, second = second, (middle, value)
        low, high = (middle, high) if value < 0.0 else (low, middle)


def falling_root_in_passes(
    function: Callable[[Array], Array], start: float = 1.0, farthest: float = 1e7
) -> float:
    """`falling_root` for a function of arrays (not certified).

    >>> round(falling_root_in_passes(lambda x: 2.0 - x * x), 3)
    1.414
    >>> falling_root_in_passes(lambda x: 1.0 - x, farthest=0.0)
    0.0
    """
    if farthest <= 0.0:
        return 0.0
    start = max(min(start, farthest), min(1e-14, farthest))
    doublings = max(0.0, np.ceil(np.log2(farthest / start)))
    points = np.minimum(start * 2.0 ** np.arange(-47.0, doublings + 1.0), farthest)
    low, high = 0.0, float(points[-1])
    for _ in range(4):
        passed = np.flatnonzero(~(function(points) > 0.0))
        index = int(passed[0]) if passed.size else points.size - 1
        low, high = float(points[index - 1]) if index else low, float(points[index])
        points = np.linspace(low, high, 34)[1:]
    return 0.5 * (low + high)


def _beyond_root(first: tuple[float, float], second: tuple[float, float], shortest: float) -> float:
    """Where the line through two points crosses zero, and a little further; NaN if nowhere."""
    (x, at_x), (y, at_y) = first, second
    if not (np.isfinite(at_x) and np.isfinite(at_y)) or at_x == at_y:
        return np.nan
    step = -at_y * (y - x) / (at_y - at_x)
    share = min(0.1, np.sqrt(abs(step) / max(abs(y), shortest)))
    return float(y + step + np.copysign(max(share * abs(step), 0.5 * shortest), step))
