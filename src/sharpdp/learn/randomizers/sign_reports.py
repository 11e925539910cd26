"""One random sign per client: of a random coordinate, or of a random row of a Hadamard matrix."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import invalid, positive_scale
from sharpdp.errors import InvalidArgument
from sharpdp.learn.randomizers.coin_thresholds import odds_down, thresholds, whole_up
from sharpdp.learn.randomizers.report import VectorRandomizer, squared_sizes
from sharpdp.learn.randomizers.report_codes import FixedLengthCode
from sharpdp.learn.randomizers.validation import (
    blocks,
    checked_norms,
    codes_of,
    dimensions,
    local_budget,
    rows_of,
    writable,
)
from sharpdp.randomness.system_stream import (
    WORDS,
    Floats,
    Randomness,
    SystemStream,
    system_stream_for,
)

__all__ = ["CoordinateSigns", "HadamardSigns"]

Codes = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class SignRandomizer(VectorRandomizer):
    """A public random index j, and a sign that leans towards what the client holds there.

    A report is the whole number 2 j + [sign is plus]: that is all a client sends. With L(e) =
    1/(e^local_epsilon + 1) rounded up to a whole number of 2^-64,

        Pr[plus] = 1/2 + (1 - 2 L) h / (2 radius),   |h| <= radius the client's value at j

    is kept between L and 1 - L, so the budget holds exactly, whatever else was rounded.
    """

    dimension: int
    local_epsilon: float
    radius: float = 1.0

    def __post_init__(self) -> None:
        """Check all fields."""
        hint = "It is the largest norm; vectors are clipped to it."
        object.__setattr__(self, "dimension", dimensions(self.dimension))
        object.__setattr__(self, "local_epsilon", local_budget(self.local_epsilon))
        object.__setattr__(self, "radius", positive_scale(radius=self.radius, hint=hint))

    @property
    @abstractmethod
    def indices(self) -> int:
        """Number of values of the public index."""

    @property
    def code(self) -> FixedLengthCode:
        """The index and the sign: ceil(log2 indices) + 1 bits."""
        return FixedLengthCode(2 * self.indices)

    @abstractmethod
    def _values(self, rows: Floats, index: Codes) -> Floats:
        """Entry of each row at its index."""

    @cached_property
    def rarest(self) -> int:
        """The rarer sign's least probability, in units of 2^-64."""
        return whole_up(Decimal(1) / (odds_down(self.local_epsilon) + 1))

    @cached_property
    def lean(self) -> float:
        """1 - 2 L, about tanh(local_epsilon / 2): the mean sign of a client whose value is the radius."""
        return (WORDS - 2 * self.rarest) / WORDS

    def reports(self, records: ArrayLike, rng: Randomness = None) -> Codes:
        """Reports: one whole number 2 j + [sign is plus] per row."""
        rows = rows_of(records, self.dimension)
        checked_norms(rows, self.radius, self.norm)
        source = system_stream_for(rng)
        index = source.below(self.indices, len(rows))
        values = np.empty(len(rows))
        for block in blocks(*rows.shape):
            values[block] = self._values(rows[block], index[block])
        return 2 * index + self.signs(values, source)

    def signs(self, values: Floats, source: SystemStream) -> NDArray[np.bool_]:
        """Whether each sign is plus, for the values at the indices that were drawn."""
        bounds = np.uint64(self.rarest), np.uint64(WORDS - self.rarest)
        shares = 0.5 + (0.5 * self.lean) * np.clip(values / self.radius, -1.0, 1.0)
        return source.coins(np.clip(thresholds(shares), *bounds))

    def variance(self, records: ArrayLike) -> Floats:
        """The squared norm of every estimate, less that of the vector."""
        rows = rows_of(records, self.dimension)
        checked_norms(rows, self.radius, self.norm)
        return self.largest_variance - squared_sizes(rows)

    def _read(self, reports: ArrayLike) -> tuple[Codes, Floats]:
        """The indices and signs of reports that could have been sent."""
        codes = codes_of("reports", reports, "Pass what reports() gave.")
        if codes.size and not (codes.min() >= 0 and codes.max() < 2 * self.indices):
            worst = codes.max() if codes.max() >= 2 * self.indices else codes.min()
            raise invalid("reports", f"numbers from 0 to {2 * self.indices - 1}", int(worst))
        return codes // 2, np.where(codes % 2 == 1, 1.0, -1.0)

    def _balance(self, reports: ArrayLike) -> Floats:
        """The average sign at each index, over all reports."""
        index, signs = self._read(reports)
        if not index.size:
            raise InvalidArgument("reports must be at least one; got none. A mean needs reports.")
        return np.bincount(index, weights=signs, minlength=self.indices) / index.size


@dataclass(frozen=True, kw_only=True)
class CoordinateSigns(SignRandomizer):
    """R_infinity: vectors with all entries between -a and a = radius; the sign of a random coordinate.

        j uniform among d,  sign plus with probability 1/2 + x_j / (2 a K),  K = (E + 1)/(E - 1)
        estimate = sign a d K e_j,   variance (a d K)^2 - ||x||^2

    Source: girgis2021 Algorithm 1, whose R_infinity it is.

    Args:
        dimension: Number d of coordinates, from 1 to 10^8.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest absolute value a of an entry, from 1e-30 to 1e30.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> box = CoordinateSigns(dimension=2, local_epsilon=math.log(3.0), radius=0.5)
    >>> [[round(x, 12) for x in row] for row in box.estimates([1, 2]).tolist()]
    [[2.0, 0.0], [0.0, -2.0]]
    """

    norm = math.inf

    @property
    def indices(self) -> int:
        """The coordinates."""
        return self.dimension

    def _values(self, rows: Floats, index: Codes) -> Floats:
        return rows[np.arange(len(rows)), index]

    @property
    def largest_variance(self) -> float:
        """(a d K)^2, for the zero vector."""
        return (self.radius * self.dimension / self.lean) ** 2

    def estimates(self, reports: ArrayLike) -> Floats:
        """sign a d K e_j for each report."""
        index, signs = self._read(reports)
        rows = np.zeros(writable(len(index), self.dimension))
        rows[np.arange(len(index)), index] = signs * (self.radius * self.dimension / self.lean)
        return rows

    def mean(self, reports: ArrayLike) -> Floats:
        """The average of the estimates, without writing them out: O(reports + d)."""
        return self._balance(reports) * (self.radius * self.dimension / self.lean)


@dataclass(frozen=True, kw_only=True)
class HadamardSigns(SignRandomizer):
    """R_1: vectors with l1 norm at most a = radius; the sign of a random row of the Hadamard matrix.

        D = 2^ceil(log2 d),  H_j(i) = (-1)^(bits that i and j share),  j uniform among D
        sign plus with probability 1/2 + <H_j, x> / (2 a K),  K = (E + 1)/(E - 1)
        estimate = sign a K H_j, its first d entries;   variance a^2 K^2 d - ||x||^2

    Source: girgis2021 Algorithm 1, whose R_1 it is.

    Args:
        dimension: Number d of coordinates, from 1 to 10^8.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest l1 norm a of a record, from 1e-30 to 1e30.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> cross = HadamardSigns(dimension=3, local_epsilon=math.log(3.0))
    >>> [round(x, 12) for x in cross.estimates([2 * 3 + 1])[0].tolist()]
    [2.0, -2.0, -2.0]
    """

    norm = 1.0

    @property
    def digits(self) -> int:
        """The number of binary digits of an index."""
        return (self.dimension - 1).bit_length()

    @property
    def indices(self) -> int:
        """The smallest power of two that is not below the dimension."""
        return 1 << self.digits

    def _values(self, rows: Floats, index: Codes) -> Floats:
        """<H_j, x>, halving: the upper half of x is added or subtracted, as the highest bit of j says."""
        folded = np.zeros((len(rows), self.indices))
        folded[:, : self.dimension] = rows
        for bit in reversed(range(self.digits)):
            lower, upper = np.split(folded, 2, axis=1)
            folded = lower + _signs(index, bit)[:, None] * upper
        values: Floats = folded[:, 0]
        return values

    @property
    def largest_variance(self) -> float:
        """a^2 K^2 d, for the zero vector."""
        return self.dimension * (self.radius / self.lean) ** 2

    def estimates(self, reports: ArrayLike) -> Floats:
        """sign a K H_j, its first d entries, for each report."""
        index, signs = self._read(reports)
        rows = np.empty(writable(len(index), self.indices))
        rows[:, 0] = signs * (self.radius / self.lean)
        for bit in range(self.digits):
            half = 2**bit
            rows[:, half : 2 * half] = rows[:, :half] * _signs(index, bit)[:, None]
        return rows[:, : self.dimension]

    def mean(self, reports: ArrayLike) -> Floats:
        """The average of the estimates by one fast transform: O(reports + D log D)."""
        balance = self._balance(reports)
        for bit in range(self.digits):
            pairs = balance.reshape(-1, 2, 2**bit)
            balance = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1)
        average: Floats = balance.reshape(-1)[: self.dimension] * (self.radius / self.lean)
        return average


def _signs(index: Codes, bit: int) -> Floats:
    """-1 where the bit of the index is set, else 1."""
    return np.where((index >> bit) & 1, -1.0, 1.0)
