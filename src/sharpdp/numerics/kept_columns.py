"""Values of a function at all points that were asked for so far; only new points are computed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sharpdp.numerics.special import Array

__all__ = ["KeptColumns"]


class KeptColumns:
    """A table with a column of values for each point, in increasing order; threads may share it.

    Points and columns are replaced together, as one object, and never changed in place: a thread sees
    the table before or after the points of another one, and nothing in between. After many points it
    starts anew.

    Args:
        rows: Values of each column.
        compute: The columns of increasing points.

    >>> squares = KeptColumns(1, lambda x: x[None] ** 2)
    >>> squares.at(np.array([1.0, 3.0])).tolist(), squares.at(np.array([2.0, 3.0])).tolist()
    ([[1.0, 9.0]], [[4.0, 9.0]])
    """

    limit = 1 << 17

    def __init__(self, rows: int, compute: Callable[[Array], Array]) -> None:
        """Nothing is known yet."""
        self._compute = compute
        self._empty = np.zeros(0), np.zeros((rows, 0))
        self._known = self._empty

    def __len__(self) -> int:
        """Points whose values are known."""
        return int(self._known[0].size)

    def at(self, points: Array) -> Array:
        """The columns of increasing points."""
        known, columns = self._known
        if known.size > self.limit:
            known, columns = self._empty
        index = np.searchsorted(known, points)
        new = np.append(known, np.inf)[index] != points
        if new.any():
            found = self._compute(points[new])
            columns = np.insert(columns, index[new], found, axis=1)
            known = np.insert(known, index[new], points[new])
            self._known = known, columns
            index = np.searchsorted(known, points)
        return np.asarray(columns[:, index])
