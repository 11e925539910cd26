"""Strategy matrices of correlated noise: lower-triangular C, and C^-1 z one step after the other."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import (
    HintedKeywords,
    count,
    has_entries,
    invalid,
    kind_of,
    positive_scale,
    real,
    short_repr,
)
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["BandedStrategy", "BufferedLinearToeplitz", "MatrixStrategy", "Strategy"]

Floats = NDArray[np.float64]

MOST_ROWS = 4096
"""Rows of a strategy that is given entry by entry."""

MOST_ENTRIES = 1 << 24
"""Entries of a strategy that is written out as a dense matrix."""

LARGEST_ENTRY = 1e30
"""Entries whose squares and sums of squares are ordinary doubles."""


class Strategy(HintedKeywords, ABC):
    """A lower-triangular matrix C with a positive diagonal, for any number of steps up to a limit.

    A run of T steps uses the leading T x T block, so that a run that is stopped early has the same noise.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def most_steps(self) -> int | None:
        """The number of rows that there are; None if there is no limit."""

    @property
    @abstractmethod
    def toeplitz(self) -> bool:
        """Whether C[s, t] is known to depend on s - t only."""

    @abstractmethod
    def bands(self, steps: int) -> int:
        """How many diagonals, the main one included, are not zero in the leading block.

        Args:
            steps: number of steps, at least 1.

        Returns:
            The number of bands, 1 to ``steps``; 1 means independent noise.
        """

    @abstractmethod
    def column(self, step: int, steps: int) -> Floats:
        """A column of the leading block: how the contribution of one step enters the noised sums.

        Args:
            step: the column, counted from 0.
            steps: number of rows of the block.

        Returns:
            Entries from the diagonal downwards, ``steps - step`` of them, or fewer if the rest is zero.
        """

    @abstractmethod
    def correlated(self, fresh: Any, memory: Sequence[Any] = ()) -> tuple[Any, tuple[Any, ...]]:
        """The next entry of C^-1 z from the next entry of z.

        Args:
            fresh: z_t, independent noise: a number, or an array of numpy or torch.
            memory: what the previous call returned; empty (default) in the first step.

        Returns:
            The correlated noise, and the memory for the next step: all that a checkpoint has to keep.

        Raises:
            InvalidArgument: ``memory`` has more or fewer entries than this strategy keeps, one of another
                shape than ``fresh``, or ``fresh`` is a number that is not finite.
            WrongType: ``fresh`` is no number and no array of numbers, or ``memory`` no sequence of such.
        """

    @abstractmethod
    def describe(self) -> str:
        """The strategy in a few words."""


class _Toeplitz(Strategy):
    """Base of the strategies whose columns are shifted copies of the first one."""

    __slots__ = ()

    @property
    def most_steps(self) -> None:
        """None: there is no limit."""

    @property
    def toeplitz(self) -> bool:
        """True."""
        return True

    @abstractmethod
    def first_column(self, steps: int) -> Floats:
        """The first column of the leading block, without the zeros at its end.

        Args:
            steps: number of rows of the block, at least 1.

        Returns:
            Its entries from the diagonal downwards.
        """

    def column(self, step: int, steps: int) -> Floats:
        """A column of the leading block; see `Strategy.column`."""
        rows, step = _checked_column(step, steps)
        return self.first_column(rows)[: rows - step]


@dataclass(frozen=True, kw_only=True)
class BandedStrategy(_Toeplitz):
    """A lower-triangular Toeplitz matrix with few diagonals: C[s, t] = coefficients[s - t].

    The noise of a step uses one earlier noise vector for every band after the first. A single
    coefficient is independent noise, as in DP-SGD. The strategy does not fix the number of steps: the
    batches of a run do, and a run that stops early has the same strategy.

    Args:
        coefficients: the first column from the diagonal downwards; the first one 1e-30 to 1e30, the
            others at most 1e30 in size. Zeros at the end are left out.

    Raises:
        InvalidArgument: there is no coefficient, or one is out of range.
        WrongType: ``coefficients`` is not a list of numbers.

    >>> strategy = BandedStrategy(coefficients=(1.0, 0.5))
    >>> noise, memory = strategy.correlated(1.0)
    >>> strategy.correlated(1.0, memory)
    (0.5, (0.5,))
    """

    coefficients: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the coefficients."""
        entries = list(_row("coefficients", self.coefficients))
        if not entries:
            raise invalid("coefficients", "at least one number", self.coefficients)
        first: dict[str, Any] = {"coefficients[0]": entries[0]}
        entries[0] = positive_scale(**first)
        while entries[-1] == 0.0:
            entries.pop()
        object.__setattr__(self, "coefficients", tuple(entries))

    def bands(self, steps: int) -> int:
        """How many diagonals are not zero; see `Strategy.bands`."""
        return min(count(steps=steps), len(self.coefficients))

    def first_column(self, steps: int) -> Floats:
        """The coefficients, as many as there are rows for.

        Args:
            steps: number of rows of the block, at least 1.

        Returns:
            The entries from the diagonal downwards.
        """
        return np.array(self.coefficients[: count(steps=steps)])

    def correlated(self, fresh: Any, memory: Sequence[Any] = ()) -> tuple[Any, tuple[Any, ...]]:
        """The next entry of C^-1 z, from the latest ones; see `Strategy.correlated`."""
        noise, memory = _checked_noise(fresh, memory)
        if len(memory) >= len(self.coefficients):
            raise _wrong_length(memory, f"at most {len(self.coefficients) - 1} entries")
        for coefficient, earlier in zip(self.coefficients[1:], memory, strict=False):
            noise = noise - coefficient * earlier
        noise = noise / self.coefficients[0]
        return noise, (noise, *memory)[: len(self.coefficients) - 1]

    def describe(self) -> str:
        """The strategy in a few words."""
        bands = len(self.coefficients)
        return "independent noise" if bands == 1 else f"banded Toeplitz strategy, {bands} bands"


@dataclass(frozen=True, kw_only=True)
class BufferedLinearToeplitz(_Toeplitz):
    """A Toeplitz matrix whose coefficients are sums of geometric ones, a BLT: O(buffers) memory.

    C[t, t] = 1, and C[s, t] = sum over buffers j of scales[j] * decays[j]^(s - t - 1) for s > t.

    Args:
        scales: one number for each buffer, at most 1e30 in size.
        decays: one number from 0 to 1 for each buffer.

    Raises:
        InvalidArgument: a number is out of range, there are no buffers, or not as many scales as decays.
        WrongType: one of them is not a list of numbers.

    >>> strategy = BufferedLinearToeplitz(scales=(0.5,), decays=(0.5,))
    >>> strategy.first_column(4).tolist()
    [1.0, 0.5, 0.25, 0.125]
    """

    scales: tuple[float, ...]
    decays: tuple[float, ...]

    def __post_init__(self) -> None:
        """Check the buffers."""
        scales, decays = _row("scales", self.scales), _row("decays", self.decays)
        if not decays:
            raise invalid("decays", "at least one number", self.decays, "One for each buffer.")
        if len(scales) != len(decays):
            raise InvalidArgument(
                f"scales must be as many as decays; got {len(scales)} and {len(decays)}."
            )
        for index, decay in enumerate(decays):
            if not 0.0 <= decay <= 1.0:
                raise invalid(f"decays[{index}]", "in [0, 1]", decay)
        object.__setattr__(self, "scales", scales)
        object.__setattr__(self, "decays", decays)

    def bands(self, steps: int) -> int:
        """All diagonals; see `Strategy.bands`."""
        rows = count(steps=steps)
        return rows if any(self.scales) else 1

    def first_column(self, steps: int) -> Floats:
        """One, then the sums of geometric sequences, to the nearest double or so.

        Args:
            steps: number of rows of the block, at least 1.

        Returns:
            The entries from the diagonal downwards.
        """
        rows = count(steps=steps)
        lags = np.arange(max(rows - 1, 0))
        powers = np.power(np.array(self.decays)[:, None], lags[None, :])
        return np.concatenate([[1.0], np.array(self.scales) @ powers])

    def correlated(self, fresh: Any, memory: Sequence[Any] = ()) -> tuple[Any, tuple[Any, ...]]:
        """The next entry of C^-1 z, from one buffer for each decay; see `Strategy.correlated`."""
        noise, memory = _checked_noise(fresh, memory)
        if len(memory) not in (0, len(self.decays)):
            raise _wrong_length(memory, f"{len(self.decays)} entries, one for each buffer")
        for scale, buffer in zip(self.scales, memory, strict=False):
            noise = noise - scale * buffer
        if not memory:
            return noise, tuple(1.0 * noise for _ in self.decays)
        return noise, tuple(
            decay * buffer + noise for decay, buffer in zip(self.decays, memory, strict=True)
        )

    def describe(self) -> str:
        """The strategy in a few words."""
        buffers = len(self.decays)
        return f"buffered linear Toeplitz strategy, {buffers} buffer{'s' if buffers > 1 else ''}"


@dataclass(frozen=True, kw_only=True)
class MatrixStrategy(Strategy):
    """A lower-triangular matrix that is given entry by entry; the noise of a step takes all earlier ones.

    Args:
        matrix: its rows, up to the diagonal or in full with zeros above it; at most 4096 rows. The
            diagonal is 1e-30 to 1e30, other entries are at most 1e30 in size.

    Raises:
        InvalidArgument: it is empty, too large, not lower triangular, or an entry is out of range.
        WrongType: ``matrix`` is not a list of rows of numbers.

    >>> MatrixStrategy(matrix=[[1.0, 0.0], [0.5, 2.0]]).matrix
    ((1.0,), (0.5, 2.0))
    """

    matrix: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        """Check the entries and leave out what is above the diagonal."""
        if not has_entries(self.matrix):
            raise WrongType(f"matrix must be a list of rows; got {short_repr(self.matrix)}.")
        given = tuple(self.matrix)
        if not 1 <= len(given) <= MOST_ROWS:
            raise invalid("matrix", f"1 to {MOST_ROWS} rows", len(given))
        rows = []
        for index, row in enumerate(given):
            entries = _row(f"matrix[{index}]", row)
            if len(entries) not in (index + 1, len(given)) or any(entries[index + 1 :]):
                raise invalid(
                    f"matrix[{index}]",
                    f"a row of {index + 1} numbers, or {len(given)} with zeros above the diagonal",
                    row,
                    "A step cannot use noise of later steps: the strategy is lower triangular.",
                )
            diagonal: dict[str, Any] = {f"matrix[{index}][{index}]": entries[index]}
            positive_scale(**diagonal)
            rows.append(entries[: index + 1])
        object.__setattr__(self, "matrix", tuple(rows))

    @property
    def most_steps(self) -> int:
        """The number of rows."""
        return len(self.matrix)

    @property
    def toeplitz(self) -> bool:
        """False: it is not looked at whether the diagonals are constant."""
        return False

    def bands(self, steps: int) -> int:
        """How many diagonals are not zero; see `Strategy.bands`."""
        rows = self.matrix[: self._rows(steps)]
        # the first entry of a row that is not zero says how far down its band reaches
        firsts = (next(t for t, entry in enumerate(row) if entry) for row in rows)
        return max(s - first + 1 for s, first in enumerate(firsts))

    def column(self, step: int, steps: int) -> Floats:
        """A column of the leading block; see `Strategy.column`."""
        rows, step = _checked_column(step, self._rows(steps))
        return np.array([self.matrix[row][step] for row in range(step, rows)])

    def correlated(self, fresh: Any, memory: Sequence[Any] = ()) -> tuple[Any, tuple[Any, ...]]:
        """The next entry of C^-1 z, from all earlier ones; see `Strategy.correlated`."""
        noise, memory = _checked_noise(fresh, memory)
        step = len(memory)
        if step >= len(self.matrix):
            raise _wrong_length(memory, f"fewer entries than the {len(self.matrix)} rows")
        row = self.matrix[step]
        for entry, earlier in zip(row, memory, strict=False):
            noise = noise - entry * earlier
        noise = noise / row[step]
        return noise, (*memory, noise)

    def describe(self) -> str:
        """The strategy in a few words."""
        return f"explicit strategy matrix, {len(self.matrix)} rows"

    def _rows(self, steps: int) -> int:
        rows = count(steps=steps)
        if rows > len(self.matrix):
            raise invalid("steps", f"at most the {len(self.matrix)} rows of the strategy", rows)
        return rows


def dense(strategy: Strategy, steps: int) -> Floats:
    """The leading block of a strategy as an array; not for long runs.

    >>> dense(BandedStrategy(coefficients=(2.0, 1.0)), 3).tolist()
    [[2.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 1.0, 2.0]]
    """
    rows = count(steps=steps)
    if rows * rows > MOST_ENTRIES:
        raise invalid("steps", f"at most {math.isqrt(MOST_ENTRIES)} for a dense matrix", rows)
    block = np.zeros((rows, rows))
    for step in range(rows):
        column = strategy.column(step, rows)
        block[step : step + column.size, step] = column
    return block


def _row(name: str, values: object) -> tuple[float, ...]:
    """A list of numbers of moderate size, checked."""
    if not has_entries(values):
        raise WrongType(f"{name} must be a list of numbers; got {short_repr(values)}.")
    entries = tuple(real(**{f"{name}[{index}]": value}) for index, value in enumerate(values))
    for index, entry in enumerate(entries):
        if abs(entry) > LARGEST_ENTRY:
            raise invalid(f"{name}[{index}]", f"at most {LARGEST_ENTRY:g} in size", entry)
    return entries


def _checked_noise(fresh: Any, memory: Any) -> tuple[Any, tuple[Any, ...]]:
    """The noise of a step and a memory of the same shape; what is kept stays out of messages."""
    if isinstance(memory, str | bytes) or not isinstance(memory, Sequence):
        raise WrongType(
            f"memory must be what the previous call returned; got {kind_of(memory)}. "
            "Leave it out in the first step."
        )
    noise = _noise("fresh", fresh)
    kept = tuple(_noise(f"memory[{index}]", entry) for index, entry in enumerate(memory))
    for index, entry in enumerate(kept):
        if np.shape(entry) != np.shape(noise):
            raise InvalidArgument(
                f"memory[{index}] must have the shape of fresh, {np.shape(noise)}; got "
                f"{np.shape(entry)}. All steps of a run have the same parameters."
            )
    return noise, kept


def _noise(name: str, value: Any) -> Any:
    """An array as it is, a number as a float."""
    if isinstance(value, np.ndarray) and value.dtype.kind not in "fiu":
        raise WrongType(f"{name} must hold real numbers; got an array of {value.dtype}.")
    if isinstance(getattr(value, "shape", None), tuple) and not isinstance(value, np.generic):
        return value
    return real(**{name: value}, hint="Noise is a number, or an array of numpy or torch.")


def _wrong_length(memory: tuple[Any, ...], allowed: str) -> InvalidArgument:
    return InvalidArgument(
        f"memory must have {allowed}; got {len(memory)}. Pass what the previous call of this strategy "
        "returned, and nothing in the first step."
    )


def _checked_column(step: int, steps: int) -> tuple[int, int]:
    """The number of rows and the column, checked."""
    rows, column = count(steps=steps), count(least=0, step=step)
    if column >= rows:
        raise invalid("step", f"below steps = {rows}", column)
    return rows, column
