"""How reports are written as bits: numbers of a fixed length, and vectors of a lattice by Rice codes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import has_entries, invalid, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.randomizers.validation import codes_of, rows_of
from sharpdp.randomness.system_stream import Floats

__all__ = ["Bits", "FixedLengthCode", "LatticeCode", "ReportCode"]

Bits = NDArray[np.uint8]
"""Zeros and ones, in the order in which they are sent."""

_BYTE = 8

_ROUNDED_UP = 1.0 + 1e-9
"""Factor that pays for rounding where a number of bits is a bound."""

_LONGEST = 10**9
"""Reports of more bits than this are not written out."""


class ReportCode(Protocol):
    """A prefix code: whoever knows the randomizer reads off where a report ends."""

    @property
    def bits(self) -> float:
        """The expected number of bits, at most, of the record for which it is largest."""

    def encoded(self, reports: ArrayLike) -> list[Bits]:
        """The bits of each report."""

    def decoded(self, codes: Iterable[Any]) -> NDArray[Any]:
        """The reports, in the same order."""


@dataclass(frozen=True)
class FixedLengthCode:
    """Whole numbers from 0 to values - 1, by their binary digits, the highest first.

    >>> code = FixedLengthCode(6)
    >>> code.bits, code.encoded([5])[0].tolist()
    (3, [1, 0, 1])
    """

    values: int

    @property
    def bits(self) -> int:
        """ceil(log2(values)), for every report."""
        return (self.values - 1).bit_length()

    def encoded(self, reports: ArrayLike) -> list[Bits]:
        """The digits of each number."""
        numbers = codes_of("reports", reports, "Pass what reports() gave.")
        self._check(numbers)
        places = np.arange(self.bits - 1, -1, -1)
        return list((numbers[:, None] >> places & 1).astype(np.uint8))

    def decoded(self, codes: Iterable[Any]) -> NDArray[np.int64]:
        """The numbers."""
        weights = 1 << np.arange(self.bits - 1, -1, -1, dtype=np.int64)
        rows = [_cut(bits, self.bits) @ weights for bits in _bits_of(codes)]
        numbers = np.array(rows, dtype=np.int64)
        self._check(numbers, "codes")
        return numbers

    def _check(self, numbers: NDArray[np.int64], name: str = "reports") -> None:
        bad = numbers[(numbers < 0) | (numbers >= self.values)]
        if bad.size:
            raise invalid(name, f"numbers from 0 to {self.values - 1}", int(bad[0]))


@dataclass(frozen=True)
class LatticeCode:
    """Vectors whose entries are whole multiples n of the spacing, by the Rice code of each n.

        u = 2 n if n >= 0, else -2 n - 1;   floor(u / 2^r) zeros and a one, for all entries;
        then the r lowest digits of all u

    The expected number of bits is at most d (r + 1) + 2^(1 - r) sqrt(d E||n||^2), since u <= 2 |n|; r
    is the number of digits for which that is least.

    Args:
        dimension: Number d of entries.
        spacing: The distance of the lattice.
        largest_square: E||n||^2, at most, for every record.

    >>> code = LatticeCode(2, 0.5, 18.0)
    >>> code.digits, round(code.bits, 6)
    (2, 9.0)
    >>> code.encoded([[1.5, -0.5]])[0].tolist()  # u = 6 and 1
    [0, 1, 1, 1, 0, 0, 1]
    """

    dimension: int
    spacing: float
    largest_square: float

    @property
    def digits(self) -> int:
        """r: so many digits of each number are sent as they are."""
        return min(range(64), key=self._bits)

    @property
    def bits(self) -> float:
        """The expected number of bits of a report, at most."""
        return self._bits(self.digits) * _ROUNDED_UP

    def _bits(self, digits: int) -> float:
        sizes = math.sqrt(self.dimension * self.largest_square)  # at least E||n||_1
        return self.dimension * (digits + 1) + math.ldexp(sizes, 1 - digits)

    def encoded(self, reports: ArrayLike) -> list[Bits]:
        """The bits of each report."""
        rows = rows_of(reports, self.dimension, "reports")
        return [self._encoded(row) for row in rows]

    def _encoded(self, row: Floats) -> Bits:
        whole = np.rint(row / self.spacing)
        # products of whole numbers and the spacing are rounded as they were when the report was made
        if not np.all(whole * self.spacing == row):
            hint = "Pass what reports() gave, without rounding."
            raise InvalidArgument(
                f"reports must be whole multiples of {self.spacing:.12g}; got others. {hint}"
            )
        if 2.0 * np.abs(whole).sum() > math.ldexp(_LONGEST, self.digits):
            raise InvalidArgument(f"reports must have at most {_LONGEST} bits; got more.")
        signed = whole.astype(np.int64)
        numbers = np.where(signed < 0, -2 * signed - 1, 2 * signed)
        ends = np.cumsum((numbers >> self.digits) + 1)
        unary = np.zeros(int(ends[-1]), dtype=np.uint8)
        unary[ends - 1] = 1
        places = np.arange(self.digits - 1, -1, -1)
        rest = (numbers[:, None] >> places & 1).astype(np.uint8)
        return np.concatenate([unary, rest.reshape(-1)])

    def decoded(self, codes: Iterable[Any]) -> Floats:
        """The vectors, each number as it was."""
        rows = [self._decoded(bits) for bits in _bits_of(codes)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self.dimension)

    def _decoded(self, bits: Bits) -> Floats:
        ones = np.flatnonzero(bits)[: self.dimension]
        unary = int(ones[-1]) + 1 if ones.size == self.dimension else bits.size + 1
        bits = _cut(bits, unary + self.dimension * self.digits)
        weights = 1 << np.arange(self.digits - 1, -1, -1, dtype=np.int64)
        rest = bits[unary:].reshape(self.dimension, self.digits) @ weights
        zeros = np.diff(ones, prepend=-1) - 1
        numbers = (zeros << self.digits) + rest
        signed = np.where(numbers % 2 == 1, -(numbers + 1) // 2, numbers // 2)
        vector: Floats = signed * self.spacing
        return vector


def _bits_of(codes: object) -> Iterator[Bits]:
    """Each code as an array of zeros and ones."""
    allowed = "arrays of zeros and ones, one per report"
    if not has_entries(codes):
        raise WrongType(f"codes must be {allowed}; got {short_repr(codes)}.")
    for code in codes:
        bits = np.asarray(code)
        if bits.ndim != 1 or bits.dtype.kind not in "biu":
            raise WrongType(
                f"codes must be {allowed}; got shape {bits.shape} of {bits.dtype}. "
                "Try np.unpackbits(...) for bytes."
            )
        if bits.size and (bits.min() < 0 or bits.max() > 1):
            raise invalid("codes", "zeros and ones", int(bits.max()), "Try np.unpackbits(...).")
        yield bits.astype(np.uint8)


def _cut(bits: Bits, length: int) -> Bits:
    """So many bits; what fills up the last byte is left out."""
    if not length <= bits.size < length + _BYTE or bits[length:].any():
        raise InvalidArgument(
            f"codes must be what encoded() gave; got one of {bits.size} bits that is none of this "
            "randomizer."
        )
    return bits[:length]
