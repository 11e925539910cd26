"""Convex functions known at some points: hulls of the points, and lines that stay below in between.

A convex function lies below a chord between its ends, and above it beyond. So the lower hull of upper
values is above the function; and in each cell it is above two extended chords, that of the cell before,
through the left end, and that of the cell after, through the right end, which meet in a corner. Concave
functions are convex ones with the sign changed.

Arrays hold doubles, or fractions as objects, for which every operation is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import Array
from sharpdp.numerics.tolerances import POINT_ERROR

__all__ = [
    "cell_minima",
    "concave_maximum",
    "corners",
    "extended_chords",
    "lower_hull",
    "meeting",
    "slope",
]

Number = TypeVar("Number", float, Fraction)
Values = NDArray[Any]
"""Doubles, or fractions as objects."""

_SMALLEST = 1e-290
"""Below this a number, or what rounding adds to it, may not be right to within that share."""


def slope(left: tuple[Number, Number], right: tuple[Number, Number]) -> Number:
    """Slope of the chord between two points (x, y)."""
    return (right[1] - left[1]) / (right[0] - left[0])


def lower_hull(
    points: Sequence[tuple[Number, Number]],
    slope: Callable[[tuple[Number, Number], tuple[Number, Number]], Number] = slope,
) -> list[int]:
    """Indices of the points, sorted by x, that are corners of their lower convex hull.

    `slope` of two points must rise with the slope of their chord.

    >>> lower_hull([(0.0, 2.0), (1.0, 1.5), (2.0, 0.0), (3.0, 0.0)])
    [0, 2, 3]
    """
    indices: list[int] = []
    slopes: list[Number] = []
    for index, point in enumerate(points):
        while indices:
            new = slope(points[indices[-1]], point)
            if not slopes or slopes[-1] < new:
                slopes.append(new)
                break
            indices.pop()
            slopes.pop()
        indices.append(index)
    return indices


def extended_chords(
    x: Values, low: Values, high: Values, first: Any, last: Any, *, blur: float = 0.0
) -> tuple[Values, Values]:
    """Slopes of lines through (x, low) below a convex function: right of each point, left of each.

    They belong to the chords to (x, high) on the other side of the point. `first` is no more than any
    slope of the function, `last` no less. If every x is off by `blur` of itself, slopes are steeper
    by that.

    >>> x = np.array([0.0, 1.0, 3.0])
    >>> after, before = extended_chords(x, x * x, x * x, 0.0, 6.0)
    >>> after.tolist(), before.tolist()
    ([0.0, 1.0, 4.0], [1.0, 4.0, 6.0])
    """
    shortest, longest = _widths(x, blur)
    falls, rises = low[1:] - high[:-1], high[1:] - low[:-1]
    with np.errstate(divide="ignore"):
        after = falls / np.where(falls < 0, shortest, longest)
        before = rises / np.where(rises > 0, shortest, longest)
    return np.append(first, after), np.append(before, last)


def _widths(x: Values, blur: float) -> tuple[Values, Values]:
    """(lower, upper) of the widths of the cells, each x being off by `blur` of itself."""
    width = np.diff(x)
    if blur == 0.0:
        return width, width
    return np.maximum(width - 2.0 * blur * x[1:], 0.0), width + 2.0 * blur * x[1:]


def meeting(left: Values, right: Values, after: Values, before: Values, width: Values) -> Values:
    """How far behind the left end of a cell the lines through its ends meet; 0 if they never do."""
    apart = before - after
    parallel = apart == 0
    return np.where(parallel, 0, (left - right + before * width) / np.where(parallel, 1, apart))


def corners(x: Values, low: Values, after: Values, before: Values) -> tuple[Values, Values]:
    """(x, y) of the corner in each cell, of lines with these slopes through (x, low).

    If they meet outside the cell, the larger one at the nearer end.

    >>> x = np.array([0.0, 1.0, 3.0])
    >>> [y.tolist() for y in corners(x, x * x, *extended_chords(x, x * x, x * x, 0.0, 7.0))]
    [[0.75, 2.0], [0.0, 2.0]]
    """
    width = np.diff(x)
    with np.errstate(over="ignore", invalid="ignore"):
        across = meeting(low[:-1], low[1:], after[:-1], before[1:], width)
    across = np.clip(across, 0, width)
    values = np.maximum(low[:-1] + after[:-1] * across, low[1:] + before[1:] * (across - width))
    return x[:-1] + across, values


def cell_minima(
    x: Array, low: Array, high: Array, first: float, last: float
) -> tuple[Array, Array]:
    """Lower bounds on a convex function in each cell, and where in the cell they are reached.

    Where the line through the left end falls and that through the right end rises, the function is
    above the first one up to any place and above the second one from there on: the bound is the smaller
    of the two there. Several places next to the meeting are tried.

    Numerics: x may be off by POINT_ERROR of itself. Steps along a line are longer by twice that share,
    which covers a difference, a division and a product; once that share of the result covers the sum.
    """
    after, before = extended_chords(x, low, high, first, last, blur=POINT_ERROR)
    fall, rise = -after[:-1], before[1:]
    left, right = low[:-1], low[1:]
    width = _widths(x, POINT_ERROR)[1]
    with np.errstate(all="ignore"):
        middle = meeting(left, right, -fall, rise, width)
        aside = 8.0 * POINT_ERROR * (np.abs(left) + np.abs(right) + rise * width) / fall
        near = np.stack([middle, middle - aside, middle + aside, 0.0 * width, width])
        across = np.clip(np.nan_to_num(near), 0.0, width)
        # for no distance a slope may be infinite
        down = np.where(across > 0.0, fall * across, -np.inf) * (1.0 + 2.0 * POINT_ERROR)
        up = np.where(across < width, rise * (width - across), -np.inf) * (1.0 + 2.0 * POINT_ERROR)
        values = np.minimum(left - down, right - up)
        values -= POINT_ERROR * np.abs(values)
    best = np.argmax(values, axis=0)[None]
    value, offset = (np.take_along_axis(rows, best, axis=0)[0] for rows in (values, across))
    falls, rises = fall > 0.0, rise > 0.0
    value = np.where(falls, np.where(rises, value, right), left)
    return value, x[:-1] + np.where(falls, np.where(rises, offset, np.diff(x)), 0.0)


def concave_maximum(x: Array, low: Array, high: Array) -> float:
    """An upper bound on the maximum of a concave function known between bounds, like `cell_minima`.

    If it is not seen to fall off beyond the first and last points, or points are not told apart, there
    is none (inf).

    >>> x = np.array([0.0, 1.0, 3.0, 4.0])
    >>> tent = np.minimum(x, 4.0 - x)
    >>> round(concave_maximum(x, tent, tent), 12)
    2.0
    >>> concave_maximum(np.zeros(3), np.zeros(3), np.zeros(3))
    inf
    >>> concave_maximum(1e-320 * x, 1e-320 * tent, 1e-320 * tent)
    inf
    """
    if x.size < 2 or not _told_apart(x).all() or low[1] < high[0] or low[-2] < high[-1]:
        return np.inf
    return -float(np.min(cell_minima(x, -high, -low, -np.inf, np.inf)[0]))


def _told_apart(x: Array) -> NDArray[np.bool_]:
    """Which neighbors, along the last axis, are certainly in order: numbers near the smallest are not."""
    later = x[..., 1:]
    return np.asarray((np.diff(x) > 2.0 * POINT_ERROR * later) & (later > _SMALLEST))
