"""How far one example can move C x, over the patterns of steps that it may take part in.

With unit contributions g_t at the steps of a pattern, C x moves by sum over t of c_t g_t^T, c_t the
columns, and the square of that is

    sum over s, t of <c_s, c_t> <g_s, g_t>  <=  sum over s, t of |<c_s, c_t>|,

with equality for equal g_t if no inner product is negative. Uppers hold for all patterns at once; lowers
are of one pattern with contributions along one line.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.correlated_noise.columns import Columns
from sharpdp.numerics.tolerances import FORMULA_ERROR

__all__ = [
    "once_per_epoch_upper",
    "positions_lower",
    "positions_upper",
    "separated_lower",
    "separated_upper",
]

Steps = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_DENSE = 2048
"""Steps of which all inner products of columns are looked at."""

MOST_STACKED = 1 << 23
"""Entries of the columns of one pattern that are looked at together."""


def positions_upper(columns: Columns, cycle: int) -> float:
    """Upper end over the patterns j, j + cycle, j + 2 cycle, ... for every j below the cycle."""
    starts = range(min(cycle, columns.steps))
    if columns.nonnegative and columns.first is not None:
        # later starts are the same sums of columns with their ends cut off
        return columns.norm_upper(_pattern(columns, 0, cycle))
    if columns.nonnegative:
        return max(columns.norm_upper(_pattern(columns, start, cycle)) for start in starts)
    uses = -(-columns.steps // cycle)
    if columns.steps * uses > MOST_STACKED:
        starts = starts if columns.first is None else starts[:1]
        return max(columns.norm_upper(_pattern(columns, start, cycle)) for start in starts)
    if columns.bands <= cycle:
        return separated_upper(columns, cycle, uses)
    squares = (columns.gram_upper(_pattern(columns, start, cycle)).sum() for start in starts)
    return math.sqrt(max(map(float, squares))) * (1.0 + FORMULA_ERROR)


def positions_lower(columns: Columns, cycle: int) -> float:
    """Lower end: the pattern that begins with the first step, and some others for explicit matrices."""
    starts = [0] if columns.first is not None else range(min(cycle, columns.steps))
    return max(_signed_norm(columns, _pattern(columns, start, cycle)) for start in starts)


def separated_upper(columns: Columns, separation: int, participations: int) -> float:
    """Upper end over all patterns of at most so many steps, at least ``separation`` apart."""
    uses = min(participations, -(-columns.steps // separation))
    first_uses = separation * np.arange(uses, dtype=np.int64)
    if columns.nonincreasing:
        return columns.norm_upper(first_uses)
    squares = columns.squares_upper()
    if columns.bands <= separation:
        # columns of one pattern do not overlap; the first ones are the longest if they are all alike
        if columns.first is not None:
            return math.sqrt(math.fsum(squares[first_uses].tolist())) * (1.0 + FORMULA_ERROR)
        return math.sqrt(best_sum(squares, separation, uses)[0]) * (1.0 + FORMULA_ERROR)
    if columns.steps <= MOST_DENSE:
        gram = columns.gram_upper(np.arange(columns.steps))
        shares = np.array(
            [_share_upper(gram[step], step, separation, uses) for step in range(len(gram))]
        )
        return math.sqrt(best_sum(shares, separation, uses)[0]) * (1.0 + FORMULA_ERROR)
    return _falling_majorant(columns).norm_upper(first_uses)


def separated_lower(columns: Columns, separation: int, participations: int) -> float:
    """Lower end: the longest columns that are far enough apart, or the first ones."""
    uses = min(participations, -(-columns.steps // separation))
    first_uses = separation * np.arange(uses, dtype=np.int64)
    lower = _signed_norm(columns, first_uses)
    if columns.first is None:
        _, chosen = best_sum(columns.squares_upper(), separation, uses)
        lower = max(lower, _signed_norm(columns, chosen))
    return lower


def once_per_epoch_upper(columns: Columns, cycle: int) -> float:
    """Upper end over patterns with one step in each epoch, anywhere in it.

    Each inner product is bounded by itself, by the largest one of two epochs.
    """
    epochs = -(-columns.steps // cycle)
    if columns.first is None:
        if columns.steps > MOST_DENSE:
            largest = float(columns.squares_upper().max())
            return epochs * math.sqrt(largest) * (1.0 + FORMULA_ERROR)
        gram = columns.gram_upper(np.arange(columns.steps))
        edges = cycle * np.arange(epochs)
        blocks = np.maximum.reduceat(np.maximum.reduceat(gram, edges, axis=0), edges, axis=1)
        return math.sqrt(float(blocks.sum())) * (1.0 + FORMULA_ERROR)
    entries = _falling_majorant(columns).majorant
    total = 0.0
    for apart in range(epochs):
        lag = max((apart - 1) * cycle + 1, 0) if apart else 0
        if lag >= entries.size:
            break
        # sums of products up to each length; the later epoch begins at least apart * cycle steps late
        sums = np.cumsum(entries[: entries.size - lag] * entries[lag:])
        lengths = columns.steps - cycle * np.arange(apart, epochs)
        ends = np.minimum(lengths, sums.size) - 1
        total += (2.0 if apart else 1.0) * float(sums[ends].sum())
    return math.sqrt(total * (1.0 + 2.0 * columns.rounding)) * (1.0 + FORMULA_ERROR)


def best_sum(values: Floats, separation: int, uses: int) -> tuple[float, Steps]:
    """The largest sum of at most so many values that are at least ``separation`` apart, and where.

    >>> best_sum(np.array([1.0, 5.0, 1.0, 4.0]), 2, 2)
    (9.0, array([1, 3]))
    """
    size = values.size
    best = np.zeros((uses + 1, size + separation))  # of the values from here on
    for use in range(1, uses + 1):
        taken = values + best[use - 1, separation : size + separation]
        best[use, :size] = np.maximum.accumulate(taken[::-1])[::-1]
    chosen, step, left = [], 0, uses
    while left and step < size and best[left, step] > 0.0:
        while step + 1 < size and best[left, step + 1] == best[left, step]:
            step += 1
        chosen.append(step)
        step, left = step + separation, left - 1
    return float(best[uses, 0]), np.array(chosen, dtype=np.int64)


def _share_upper(row: Floats, step: int, separation: int, uses: int) -> float:
    """The most that one step adds to a pattern with it: its inner products with the others."""
    before, after = row[: max(step - separation + 1, 0)], row[step + separation :]
    rest = uses - 1
    if rest == 0:
        return float(row[step])
    left = (
        best_sum(before, separation, min(rest, -(-before.size // separation)))[0]
        if before.size
        else 0.0
    )
    right = (
        best_sum(after, separation, min(rest, -(-after.size // separation)))[0]
        if after.size
        else 0.0
    )
    return float(row[step]) + left + right


def _falling_majorant(columns: Columns) -> Columns:
    """A Toeplitz matrix with coefficients that do not grow, entrywise not below the absolute entries."""
    assert columns.first is not None or columns.block is not None
    if columns.first is not None:
        falling = np.maximum.accumulate(columns.majorant[::-1])[::-1]
    else:
        lags = [float(np.diagonal(columns.majorant, -lag).max()) for lag in range(columns.steps)]
        falling = np.maximum.accumulate(np.array(lags)[::-1])[::-1]
    return Columns(
        columns.steps, falling, None, falling, columns.error, nonnegative=True, nonincreasing=True
    )


def _pattern(columns: Columns, start: int, cycle: int) -> Steps:
    return np.arange(start, columns.steps, cycle, dtype=np.int64)


def _signed_norm(columns: Columns, pattern: Steps) -> float:
    """Lower end of the norm of these columns, with the best signs that are quickly found."""
    if pattern.size == 0:
        return 0.0
    signs = np.ones(pattern.size)
    if not columns.nonnegative and columns.steps * pattern.size <= MOST_STACKED:
        signs = columns.signs(pattern)
    return columns.norm_lower(pattern, signs)
