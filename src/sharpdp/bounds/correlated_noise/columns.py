"""Columns of a strategy matrix C, sums of them and their Gram matrix, with error bounds.

Entries of banded and explicit strategies are exact doubles. Those of buffered linear Toeplitz strategies
are computed, and off by at most ``error`` times their size: the same sums of absolute values.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.mechanisms.strategies import (
    BandedStrategy,
    BufferedLinearToeplitz,
    MatrixStrategy,
    Strategy,
)

__all__ = ["Columns", "columns_of"]

Floats = NDArray[np.float64]

UNIT = 2.0**-53
"""Relative error of one rounding."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of the leading block of C.

    Args:
        steps: number of rows and columns.
        first: for Toeplitz strategies the first column without its zeros; None for others.
        block: for others the block itself.
        size: in the same form, what the errors of entries are relative to; not less than their absolutes.
        error: how far entries may be off, relative to the size.
        nonnegative: whether no entry is negative.
        nonincreasing: whether it is Toeplitz with coefficients that are not negative and never grow.
    """

    steps: int
    first: Floats | None
    block: Floats | None
    size: Floats
    error: float
    nonnegative: bool
    nonincreasing: bool

    @property
    def bands(self) -> int:
        """How many diagonals are not zero."""
        if self.first is not None:
            return int(self.first.size)
        rows, columns = np.nonzero(self.size)
        return int((rows - columns).max()) + 1

    @property
    def rounding(self) -> float:
        """Relative to sums of products of majorants: errors of entries, and of sums of as many terms."""
        sums = 2.0 * (self.steps + 8) * UNIT
        return (2.0 * self.error + sums) * (1.0 + 2.0**-20)

    @property
    def entries(self) -> Floats:
        """The first column, or the block."""
        entries = self.block if self.first is None else self.first
        assert entries is not None
        return entries

    @property
    def majorant(self) -> Floats:
        """Not less than the absolute values of the entries."""
        return np.asarray(np.abs(self.entries) + 2.0 * self.error * self.size)

    def column(self, step: int, entries: Floats | None = None) -> Floats:
        """A column from the diagonal downwards, of the entries or of others in their place."""
        entries = self.entries if entries is None else entries
        return entries[: self.steps - step] if self.first is not None else entries[step:, step]

    def combined(
        self, steps: NDArray[np.int64], signs: Floats, entries: Floats | None = None
    ) -> Floats:
        """A signed sum of columns, as a vector of length ``steps``."""
        total = np.zeros(self.steps)
        for step, sign in zip(steps.tolist(), signs.tolist(), strict=True):
            column = self.column(step, entries)
            total[step : step + column.size] += sign * column
        return total

    def norm_upper(self, steps: NDArray[np.int64]) -> float:
        """Not less than the norm of the sum of these columns of the majorant."""
        total = self.combined(steps, np.ones(steps.size), self.majorant)
        return _root_up(float(total @ total) * (1.0 + 2.0 * self.rounding))

    def norm_lower(self, steps: NDArray[np.int64], signs: Floats) -> float:
        """Not more than the norm of the signed sum of these columns."""
        total = self.combined(steps, signs)
        most = self.combined(steps, np.ones(steps.size), self.size)
        # the norm of what may be off, then the rounding of the norm itself
        off = self.rounding * math.sqrt(float(most @ most)) * (1.0 + 2.0**-20)
        norm = math.sqrt(float(total @ total)) * (1.0 - 2.0 * (self.steps + 8) * UNIT)
        return max(norm - off, 0.0)

    def gram_upper(self, steps: NDArray[np.int64]) -> Floats:
        """Entrywise not less than the absolute inner products of these columns."""
        own = self._stacked(steps)
        size = self._stacked(steps, self.size)
        return np.asarray(np.abs(own.T @ own) + 1.01 * self.rounding * (size.T @ size))

    def signs(self, steps: NDArray[np.int64]) -> Floats:
        """Signs that make the norm of the sum of these columns large; found by single flips."""
        own = self._stacked(steps)
        gram = own.T @ own
        chosen = np.ones(steps.size)
        for _ in range(4 * steps.size):
            gains = -chosen * (gram @ chosen) + np.diag(gram)
            best = int(np.argmax(gains))
            if gains[best] <= 1e-12 * abs(gram[best, best]):
                break
            chosen[best] = -chosen[best]
        return chosen

    def squares_upper(self) -> Floats:
        """Not less than the squared norms of all columns."""
        squares = self._squares(self.majorant)
        return squares * (1.0 + 2.0 * self.rounding)

    def squares_lower(self) -> Floats:
        """Not more than the squared norms of all columns."""
        off = 2.0 * self.rounding * self._squares(self.size)
        return np.maximum(self._squares(self.entries) - off, 0.0)

    def projections_lower(self, weights: Floats) -> Floats:
        """Not more than the inner products of all columns with a vector."""
        values = self._transposed(weights, self.entries)
        sizes = self._transposed(np.abs(weights), self.size)
        return values - 2.0 * self.rounding * sizes

    def _transposed(self, vector: Floats, entries: Floats) -> Floats:
        """C^T times a vector."""
        if self.first is not None:
            return np.convolve(vector[::-1], entries)[: self.steps][::-1]
        return np.asarray(entries.T @ vector)

    def times(self, vector: Floats) -> Floats:
        """C times a vector, to rounding."""
        if self.first is not None:
            return np.convolve(vector, self.first)[: self.steps]
        assert self.block is not None
        return np.asarray(self.block @ vector)

    def _squares(self, entries: Floats) -> Floats:
        if self.first is None:
            return np.asarray(np.einsum("st,st->t", entries, entries))
        sums = np.cumsum(entries**2)
        lengths = np.minimum(self.steps - np.arange(self.steps), entries.size)
        return np.asarray(sums[lengths - 1])

    def _stacked(self, steps: NDArray[np.int64], entries: Floats | None = None) -> Floats:
        stacked = np.zeros((self.steps, steps.size))
        for index, step in enumerate(steps.tolist()):
            column = self.column(step, entries)
            stacked[step : step + column.size, index] = column
        return stacked


def _root_up(square: float) -> float:
    return math.sqrt(square) * (1.0 + 4.0 * UNIT)


@lru_cache(maxsize=8)
def columns_of(strategy: Strategy, steps: int) -> Columns:
    """The columns of a strategy for so many steps, with how far they may be off.

    >>> columns_of(BandedStrategy(coefficients=(1.0, 0.5)), 3).bands
    2
    """
    if isinstance(strategy, BandedStrategy):
        first = strategy.first_column(steps)
        nonnegative = bool(np.all(first >= 0.0))
        falls = nonnegative and bool(np.all(np.diff(first) <= 0.0))
        return Columns(steps, first, None, np.abs(first), 0.0, nonnegative, falls)
    if isinstance(strategy, BufferedLinearToeplitz):
        return _buffered(strategy, steps)
    assert isinstance(strategy, MatrixStrategy)
    block = np.zeros((steps, steps))
    for row, entries in enumerate(strategy.matrix[:steps]):
        block[row, : row + 1] = entries
    return Columns(
        steps, None, block, np.abs(block), 0.0, bool(np.all(block >= 0.0)), nonincreasing=False
    )


def _buffered(strategy: BufferedLinearToeplitz, steps: int) -> Columns:
    """Powers by repeated products: each of at most ``steps`` roundings."""
    decays = np.array(strategy.decays)[:, None]
    powers = np.ones((decays.size, max(steps - 1, 0)))
    powers[:, 1:] = np.cumprod(np.broadcast_to(decays, (decays.size, max(steps - 2, 0))), axis=1)
    scales = np.array(strategy.scales)
    first = np.concatenate([[1.0], scales @ powers])
    error = (steps + 2.0 * decays.size + 8.0) * UNIT
    size = np.concatenate([[1.0], np.abs(scales) @ powers])
    size = size * (1.0 + 2.0 * error) + np.finfo(float).tiny
    nonnegative = bool(np.all(scales >= 0.0)) or bool(np.all(first >= error * size))
    falls = bool(np.all(scales >= 0.0)) and math.fsum(strategy.scales) <= 1.0
    return Columns(steps, first, None, size, error, nonnegative, falls)
