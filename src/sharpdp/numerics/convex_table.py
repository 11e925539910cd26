"""A falling convex function known between bounds at some points: its minimum plus any line, many at once.

For y convex on [0, inf) with slopes between -1, or another bound, and 0 the minima of y(x) + a x, for
many a > 0, are read off one table: above them are the smallest of the upper values, below them the
smallest of the lower ones and of the corners in which the extended chords of neighboring cells meet (see
`hull`). Corners do not depend on a, and a new point sharpens the minima of all lines that touch the
function near it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.hull import extended_chords, meeting
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.numerics.tolerances import POINT_ERROR

__all__ = ["ConvexTable"]

_BLOCK, _MANY, _LARGE = 128, 1 << 14, 256
"""So many lines are looked at together; up to so many sums are all looked at; from so many points on a
convex chain is worth the work to find it."""

_TINY = 1e-290
"""More than any rounding of numbers that are not normal doubles."""


@dataclass(frozen=True)
class ConvexTable:
    """Points of a falling convex function, the first one at x = 0, and a floor below it.

    Args:
        x: The points in increasing order; doubles that are right to within 1e-15 of themselves.
        low: Lower bounds on the function there.
        high: Upper bounds.
        floor: No more than any value of the function.
        steepest: Slopes are between minus this and 0.

    >>> table = ConvexTable(np.array([0.0, 1.0]), np.array([1.0, 0.0]), np.array([1.0, 0.5]), 0.0)
    >>> [ends.round(9).tolist() for ends in table.minima(np.array([0.2, 0.7]))[:2]]
    [[0.2, 0.7], [0.7, 1.0]]
    """

    x: Array
    low: Array
    high: Array
    floor: float
    steepest: float = 1.0

    @cached_property
    def corners(self) -> tuple[Array, Array]:
        """(x, y) of a corner behind each point: the function is nowhere below the polyline through all.

        For any place in a cell the function is above the first line up to there and above the second
        one from there on; so the place may be rounded, and only the lines' values there may not.
        Behind the last point the second line is the floor.
        """
        x, low = self.x, np.maximum(self.low, self.floor)
        after, before = extended_chords(x, low, self.high, -self.steepest, 0.0, blur=POINT_ERROR)
        fall, rise = (-np.clip(slopes, -self.steepest, 0.0) for slopes in (after, before))
        width = np.diff(x)
        with np.errstate(all="ignore"):
            across = meeting(low[:-1], low[1:], -fall[:-1], -rise[1:], width)
            last = (low[-1] - self.floor) / fall[-1]
        across = np.clip(np.nan_to_num(across), 0.0, width)
        last = min(last, 1e3 * (1.0 + x[-1])) if fall[-1] > 0.0 else 0.0
        place = x + np.append(across, last)
        walked = (place - x * (1.0 - POINT_ERROR)) * (1.0 + POINT_ERROR)
        first = low - fall * walked
        left = np.maximum(x[1:] * (1.0 - POINT_ERROR) - place[:-1], 0.0) * (1.0 - POINT_ERROR)
        second = np.append(low[1:] + rise[1:] * left, self.floor if fall[-1] > 0.0 else low[-1])
        # it falls, so that what is known behind a cell holds in it: slopes lose that to rounding
        behind = np.append(low[1:], self.floor)
        size = np.abs(low) + np.abs(behind)
        return place, np.maximum(np.minimum(first, second) - POINT_ERROR * size, behind)

    @cached_property
    def _vertices(self) -> tuple[Array, Array]:
        """Lower bounds on y and on x of points and corners in turn, rounded down for sums y + a x."""
        corner_x, corner_y = self.corners
        lowest = np.stack([self.x, corner_x]).T.ravel() * (1.0 - POINT_ERROR)
        lowest = np.minimum.accumulate(lowest[::-1])[::-1]
        values = np.stack([np.maximum(self.low, self.floor), corner_y]).T.ravel()
        return values - POINT_ERROR * np.abs(values), lowest

    @cached_property
    def _chain(self) -> ConvexChain | None:
        """The vertices that can be the lowest, in large tables, if they are seen to be convex."""
        return ConvexChain.through(*self._vertices) if self.x.size >= _LARGE else None

    def minima(
        self, slopes: Array
    ) -> tuple[Array, Array, NDArray[np.intp], NDArray[np.intp], NDArray[np.bool_]]:
        """Bounds on the smallest y(x) + a x for each a > 0, and where they are reached.

        Returns:
            Lower and upper bounds; the point that has the upper one; the cell, by the index of its left
            point, that has the lower one; and whether that is a corner rather than a point itself.
        """
        chain = self._chain
        if chain is None:
            vertex, low = _smallest_sums(*self._vertices, slopes)
        else:
            vertex, low = chain.smallest_sums(slopes)
        # any point bounds the minimum from above; the best one is next to where the polyline has its own
        near = (vertex // 2 + np.arange(-1, 3)[:, None]).clip(0, self.x.size - 1)
        tops = self.high + POINT_ERROR * np.abs(self.high)
        above = tops[near] + slopes * (self.x * (1.0 + POINT_ERROR))[near]
        chosen, column = above.argmin(axis=0), np.arange(slopes.size)
        return low, above[chosen, column], near[chosen, column], vertex // 2, vertex % 2 == 1

    def crossings(self, values: Array) -> tuple[Array, Array, NDArray[np.intp]]:
        """Bounds on the smallest x at which y is at most each value, and the cell that has the upper one.

        The first is where the lower polyline passes the value for the last time, the second where the
        chords between upper values do so first; infinite, with the last cell, where none of them does.
        """
        corner_x, corner_y = self.corners
        x = np.stack([self.x, corner_x]).T.ravel()
        y = np.stack([np.maximum(self.low, self.floor), corner_y]).T.ravel()
        behind = np.maximum.accumulate(y[::-1])[::-1]  # falls, so that it can be searched
        last = np.searchsorted(-behind, -values, side="left") - 1
        low = _between(x, y, np.clip(last, 0, x.size - 2), values) * (1.0 - 4.0 * POINT_ERROR)
        low = np.where(last < 0, 0.0, np.where(last > x.size - 2, x[-1], low))
        before = np.minimum.accumulate(self.high)
        first = np.searchsorted(-before, -values, side="left")
        cell = np.clip(first - 1, 0, self.x.size - 2)
        high = _between(self.x, self.high, cell, values) * (1.0 + 4.0 * POINT_ERROR)
        high = np.where(first == 0, 0.0, np.where(first > self.x.size - 1, np.inf, high))
        return low * (1.0 - POINT_ERROR), high, cell

    def joined(self, x: Array, low: Array, high: Array) -> ConvexTable:
        """The table with more points; what is known twice of one of them counts together."""
        if (np.diff(x, prepend=self.x[-1]) > 0.0).all():
            lows, highs = (
                np.append(self.low, np.maximum(low, self.floor)),
                np.append(self.high, high),
            )
            return replace(self, x=np.append(self.x, x), low=lows, high=highs)
        every, index = np.unique(np.append(self.x, x), return_inverse=True)
        lows, highs = np.full(every.size, self.floor), np.full(every.size, np.inf)
        np.maximum.at(lows, index, np.append(self.low, low))
        np.minimum.at(highs, index, np.append(self.high, high))
        return replace(self, x=every, low=lows, high=highs)


@dataclass(frozen=True)
class ConvexChain:
    """Vertices of a strictly convex polyline, which hold all minima of y + a x over some vertices.

    Slopes are right to within 4 units of themselves, and rise by more than that from one to the next. So
    the minimum is at the vertex before which slopes are below -a, or next to it.
    """

    index: NDArray[np.intp]
    x: Array
    y: Array
    slopes: Array

    @classmethod
    def through(cls, y: Array, x: Array) -> ConvexChain | None:
        """The chain of the first point and all corners, of points and corners in turn, if it is convex.

        A point that is certainly on or above the chord of the corners beside it is above one of them
        for every a.
        """
        before, point, after = slice(1, -2, 2), slice(2, -1, 2), slice(3, None, 2)
        left = (y[point] - y[before]) * (x[after] - x[before])
        right = (y[after] - y[before]) * (x[point] - x[before])
        rounding = 8.0 * UNIT_ROUNDOFF * (np.abs(left) + np.abs(right)) + _TINY
        if not (left - right >= rounding).all():  # false for NaN too
            return None
        index = np.append(0, np.arange(1, y.size, 2))
        x, y = x[index], y[index]
        width = np.diff(x)
        if not (width > _TINY).all():
            return None
        slopes = np.diff(y) / width
        blur = 4.0 * UNIT_ROUNDOFF * np.abs(slopes) + _TINY
        if not (slopes[:-1] + blur[:-1] < slopes[1:] - blur[1:]).all():
            return None
        return cls(index, x, y, slopes)

    def smallest_sums(self, slopes: Array) -> tuple[NDArray[np.intp], Array]:
        """For each slope a > 0 the index of the vertex with the smallest y + a x, and that sum."""
        middle = np.searchsorted(self.slopes, -slopes)
        near = (middle + np.arange(-1, 2)[:, None]).clip(0, self.x.size - 1)
        sums = self.y[near] + slopes * self.x[near]
        chosen, column = sums.argmin(axis=0), np.arange(slopes.size)
        return self.index[near[chosen, column]], sums[chosen, column]


def _smallest_sums(y: Array, x: Array, slopes: Array) -> tuple[NDArray[np.intp], Array]:
    """For each slope a the index of the smallest y + a x, and that sum; x does not fall.

    The larger the slope, the smaller the index. So the indices at every 128th slope bound those between;
    sums that rounding does not tell apart from the smallest one count as such.
    """
    if y.size * slopes.size <= _MANY:
        every = y + slopes[:, None] * x
        best = every.argmin(axis=1)
        return best, every[np.arange(slopes.size), best]
    if (slopes[1:] < slopes[:-1]).any():
        order = np.argsort(slopes)
        index, sums = np.empty(slopes.size, np.intp), np.empty(slopes.size)
        index[order], sums[order] = _smallest_sums(y, x, slopes[order])
        return index, sums
    index, sums = np.empty(slopes.size, np.intp), np.empty(slopes.size)
    starts = range(0, slopes.size, _BLOCK)
    anchors = slopes[np.append(starts, slopes.size - 1)][:, None] * x
    some = y + anchors
    blur = POINT_ERROR * (np.abs(y) + anchors)
    open_ = some - blur <= (some + blur).min(axis=1, keepdims=True)
    first, last = open_.argmax(axis=1).tolist(), y.size - open_[:, ::-1].argmax(axis=1)
    for block, start in enumerate(starts):
        rows, columns = slice(start, start + _BLOCK), slice(first[block + 1], int(last[block]))
        every = np.multiply.outer(slopes[rows], x[columns])
        every += y[columns]
        best = every.argmin(axis=1)
        index[rows], sums[rows] = best + columns.start, every[np.arange(best.size), best]
    return index, sums


def _between(x: Array, y: Array, cell: NDArray[np.intp], values: Array) -> Array:
    """Where the line from one point to the next passes each value."""
    share = (y[cell] - values) / (y[cell] - y[cell + 1])
    return np.asarray(x[cell] + np.clip(share, 0.0, 1.0) * (x[cell + 1] - x[cell]))
