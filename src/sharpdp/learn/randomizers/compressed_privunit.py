"""PrivUnit in a few bits: a client names a direction of a public list instead of sending a vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, betaln, gammaln

from sharpdp._validate import count, invalid, positive_scale
from sharpdp.errors import InvalidArgument
from sharpdp.learn.randomizers.coin_thresholds import (
    DIGITS,
    odds_down,
    thresholds,
    whole_down,
)
from sharpdp.learn.randomizers.lattice_rounding import directions
from sharpdp.learn.randomizers.report import VectorRandomizer
from sharpdp.learn.randomizers.report_codes import FixedLengthCode
from sharpdp.learn.randomizers.validation import (
    checked_norms,
    codes_of,
    dimensions,
    local_budget,
    rows_of,
    writable,
)
from sharpdp.numerics.roots import last_true
from sharpdp.randomness.system_stream import (
    WORDS,
    Floats,
    Randomness,
    SystemStream,
    system_stream_for,
)

__all__ = ["CompressedPrivUnit", "largest_mean"]

LISTS = 2**32
"""Number of public lists. Reports about the same list share its accidents; so few do not matter."""

MOST_CANDIDATES = 2**16

_USUAL_CANDIDATES = 2**8

_PARTS = 2**10
"""Intervals of Simpson's rule, for ten digits and more."""

_UNLIKELY = 1e-15
"""Shares of the sphere beyond these quantiles are left out."""

_TINY = 1e-300


@dataclass(frozen=True, kw_only=True)
class CompressedPrivUnit(VectorRandomizer):
    """Vectors in a ball, by the number of a direction: PrivUnit at a few dozen bits, whatever d.

    Public lists hold N = ``candidates`` random directions each. A client draws one of 2^32 lists, and
    u = +-x / ||x||, plus with probability (1 + ||x||/C) / 2, C = radius. Its report is a number:

        one of the T directions of the list that are nearest to u with probability beta, else any of the N
        ratio of probabilities: at most 1 + beta N / ((1 - beta) T) <= e^local_epsilon
        estimate = C V / m,   V the direction,   m = beta E[mean height of the T highest of N]
        variance C^2 / m^2 - ||x||^2

    T is the number with about the smallest variance, which is that of `PrivUnitBall` and a few percent:
    1.6% at local epsilon 4 and 4% at 6 with 256 candidates. A client computes all N directions of its
    list, the receiver one for each report.

    Holds when: rows have l2 norm at most the radius; use `clipped`. Numerics: the budget holds for every
    list, whatever was rounded in it: which T directions are named depends on the record in any way, but
    T of them are, by exact coins (docs/topics/randomizers.md has the proof). The estimate is unbiased
    for random lists; these come from a fixed generator (Philox), and the error of all 2^32 is that of
    as many reports.

    Source: shah2022 for public candidates, ye2018 for subsets; the rest is proved here.

    Args:
        dimension: Number d of coordinates, from 2 to 10^8.
        local_epsilon: Budget of one report, from 1e-6 to 30.
        radius: Largest l2 norm of a record, from 1e-30 to 1e30.
        candidates: Number N of directions in a list, a power of two from 2 to 65,536. None for 256, or
            the power of two from e^local_epsilon / 2 on if that is more.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> short = CompressedPrivUnit(dimension=784, local_epsilon=4.0)
    >>> short.bits, short.candidates, short.chosen
    (40, 256, 16)
    >>> short.estimates(short.reports(np.zeros((2, 784)))).shape
    (2, 784)
    """

    dimension: int
    local_epsilon: float
    radius: float = 1.0
    # None stands for the usual number, which is there from the start
    candidates: int = None  # type: ignore[assignment]

    norm = 2.0

    def __post_init__(self) -> None:
        """Check all fields."""
        hint = "On a line there are two directions only: use CoordinateSigns."
        object.__setattr__(self, "dimension", dimensions(self.dimension, least=2, hint=hint))
        object.__setattr__(self, "local_epsilon", local_budget(self.local_epsilon))
        hint = "It is the largest norm; gradients are clipped to it."
        object.__setattr__(self, "radius", positive_scale(radius=self.radius, hint=hint))
        number: int | None = self.candidates
        if number is None:
            doublings = math.ceil(self.local_epsilon / math.log(2.0)) - 1
            number = min(max(_USUAL_CANDIDATES, 2 ** max(doublings, 0)), MOST_CANDIDATES)
        number = count(candidates=number, least=2, hint="It counts the directions in a list.")
        if number > MOST_CANDIDATES or number & (number - 1):
            raise invalid("candidates", f"a power of two up to {MOST_CANDIDATES}", number)
        object.__setattr__(self, "candidates", number)

    @cached_property
    def chosen(self) -> int:
        """T: so many directions of a list are the nearest."""
        return _best(self.dimension, self.local_epsilon, self.candidates)

    @cached_property
    def coin(self) -> int:
        """beta in units of 2^-64, the largest that the budget allows."""
        return _coin(self.local_epsilon, self.candidates, self.chosen)

    @cached_property
    def mean_height(self) -> float:
        """m: the mean of <V, u>."""
        height = largest_mean(self.dimension, self.candidates, self.chosen)
        return self.coin / WORDS * height

    @property
    def blanket(self) -> float:
        """1 - beta, not above it: so much of a report is any direction of any list."""
        return math.nextafter((WORDS - self.coin) / WORDS, 0.0)

    @property
    def code(self) -> FixedLengthCode:
        """The list and the direction: 32 + log2 N bits."""
        return FixedLengthCode(LISTS * self.candidates)

    @property
    def largest_variance(self) -> float:
        """(C / m)^2, for the zero vector."""
        return (self.radius / self.mean_height) ** 2

    def variance(self, records: ArrayLike) -> Floats:
        """(C / m)^2 - ||x||^2 for each vector x."""
        rows = rows_of(records, self.dimension)
        return self.largest_variance - checked_norms(rows, self.radius, self.norm) ** 2

    def reports(self, records: ArrayLike, rng: Randomness = None) -> NDArray[np.int64]:
        """Reports: one whole number per row, that of the list times N and that of the direction."""
        rows = rows_of(records, self.dimension)
        sizes = checked_norms(rows, self.radius, self.norm)
        source = system_stream_for(rng)
        clients = len(rows)
        plus = source.coins(thresholds(0.5 + 0.5 * (sizes / self.radius)))
        lists = source.below(LISTS, clients)
        places = source.below(self.candidates, clients)
        near = source.coins(np.full(clients, self.coin, dtype=np.uint64))
        ranks = source.below(self.chosen, clients)
        for client in np.flatnonzero(near):
            row = rows[client] if plus[client] else -rows[client]
            first = int(lists[client]) * self.candidates
            # T different numbers, whatever the heights are
            order = np.argsort(-self._heights(first, row), kind="stable")
            places[client] = order[ranks[client]]
        return lists * self.candidates + places

    def _heights(self, first: int, row: Floats) -> Floats:
        """<V, row> for all directions V of a list."""
        last = first + self.candidates
        return np.array([listed(number, self.dimension) @ row for number in range(first, last)])

    def estimates(self, reports: ArrayLike) -> Floats:
        """C V / m for each report."""
        numbers = self._read(reports)
        rows = np.empty(writable(numbers.size, self.dimension))
        for row, number in zip(rows, numbers.tolist(), strict=True):
            row[:] = listed(number, self.dimension)
        rows *= self.radius / self.mean_height
        return rows

    def mean(self, reports: ArrayLike) -> Floats:
        """The average of the estimates, without writing them out."""
        numbers = self._read(reports)
        if not numbers.size:
            raise InvalidArgument("reports must be at least one; got none. A mean needs reports.")
        total = np.zeros(self.dimension)
        for number in numbers.tolist():
            total += listed(number, self.dimension)
        average: Floats = total * (self.radius / self.mean_height / numbers.size)
        return average

    def _read(self, reports: ArrayLike) -> NDArray[np.int64]:
        """Reports that could have been sent."""
        numbers = codes_of("reports", reports, "Pass what reports() gave.")
        last = LISTS * self.candidates - 1
        bad = numbers[(numbers < 0) | (numbers > last)]
        if bad.size:
            raise invalid("reports", f"numbers from 0 to {last}", int(bad[0]))
        return numbers


def listed(number: int, dimension: int) -> Floats:
    """The direction with this number, the same on every machine but for last bits.

    >>> round(float(np.linalg.norm(listed(5, 3))), 9)
    1.0
    """
    stream = SystemStream(np.random.Philox(key=number).random_raw)
    row: Floats = directions(1, dimension, stream)[0]
    return row


@lru_cache(maxsize=1024)
def largest_mean(dimension: int, candidates: int, chosen: int) -> float:
    """The mean height <V, u> of the highest so many of N independent directions V, fewer than all.

        (N / T) E[M(U)],   U ~ Beta(T, N - T),   M(share) = C cos(angle)^(d - 1) / (d - 1)

    U is the share of the sphere that is higher than the first direction that is not chosen, and M the
    integral of the height over a cap of this share, whose rim is at sin(angle).

    >>> round(
    ...     largest_mean(3, 8, 3), 12
    ... )  # slices of a ball in space: heights are uniform on [-1, 1]
    0.555555555556
    """
    fewest = float(betaincinv(chosen, candidates - chosen, _UNLIKELY))
    most = 1.0 - float(betaincinv(candidates - chosen, chosen, _UNLIKELY))
    angles = np.linspace(_rim(dimension, most), _rim(dimension, fewest), _PARTS + 1)
    log_cosines = np.log(np.maximum(np.cos(angles), _TINY))
    higher, lower = (np.maximum(share, _TINY) for share in _shares(dimension, angles))
    # sin(angle) has the density C cos(angle)^(d - 3), the angle one more power of the cosine
    constant = gammaln(0.5 * dimension) - gammaln(0.5 * (dimension - 1)) - 0.5 * math.log(math.pi)
    logs = 2.0 * constant + (2 * dimension - 3) * log_cosines - math.log(dimension - 1)
    logs += (chosen - 1) * np.log(higher) + (candidates - chosen - 1) * np.log(lower)
    logs -= betaln(chosen, candidates - chosen)
    weights = np.full(_PARTS + 1, 2.0)
    weights[1::2], weights[[0, -1]] = 4.0, 1.0
    simpson = (angles[-1] - angles[0]) / (3.0 * _PARTS)
    return float(candidates / chosen * simpson * (weights @ np.exp(logs)))


def _shares(dimension: int, angles: Floats) -> tuple[Floats, Floats]:
    """The shares of the sphere above and below the height sin(angle)."""
    small = 0.5 * betainc(0.5 * (dimension - 1), 0.5, np.cos(angles) ** 2)
    large = 1.0 - small
    return np.where(angles < 0.0, large, small), np.where(angles < 0.0, small, large)


def _rim(dimension: int, share: float) -> float:
    """The angle above which about this share of the sphere is, by halving."""
    quarter = 0.5 * math.pi

    def is_below(angle: float) -> bool:
        return bool(_shares(dimension, np.array(angle))[0] > share)

    return last_true(is_below, -quarter, quarter, halvings=45)[0]


@lru_cache(maxsize=256)
def _best(dimension: int, local_epsilon: float, candidates: int) -> int:
    """The number of nearest directions with the smallest variance, of four in each doubling.

    More than half of them are never the best: a cap is at most half of the sphere.
    """
    doublings = candidates.bit_length() - 2
    numbers = {int(2.0 ** (quarter / 4.0)) for quarter in range(4 * doublings + 1)}

    def mean(chosen: int) -> float:
        return _coin(local_epsilon, candidates, chosen) * largest_mean(
            dimension, candidates, chosen
        )

    return max(sorted(numbers), key=mean)


def _coin(local_epsilon: float, candidates: int, chosen: int) -> int:
    """The largest beta with 1 + beta N / ((1 - beta) T) <= e^local_epsilon, in units of 2^-64."""
    with localcontext() as context:
        context.prec = DIGITS
        excess = (odds_down(local_epsilon) - 1) * chosen / Decimal(candidates)
        return whole_down(excess / (1 + excess))
