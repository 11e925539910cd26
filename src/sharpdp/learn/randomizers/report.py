"""What every local randomizer offers: reports, unbiased estimates, variance, and its accounting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import HintedKeywords
from sharpdp.errors import InvalidArgument
from sharpdp.learn.randomizers.report_codes import Bits, ReportCode
from sharpdp.learn.randomizers.validation import rows_of
from sharpdp.mechanisms import BlanketRandomizer, Mechanism, PureDP, ShuffledReports
from sharpdp.randomness.system_stream import Floats, Randomness

__all__ = ["Randomizer", "VectorRandomizer"]


class Randomizer(HintedKeywords, ABC):
    """One client's record in, one report out that is local_epsilon-DP in it; frozen data.

    ``reports`` draws, and everything else is arithmetic on what was drawn. All randomness comes from
    the operating system unless a generator is passed, which is for tests.

    Args:
        local_epsilon: Budget of one report: log of the largest ratio of its probabilities.
    """

    local_epsilon: float

    @abstractmethod
    def reports(self, records: ArrayLike, rng: Randomness = None) -> NDArray[Any]:
        """Reports of the clients, one row or number each, drawn independently.

        Args:
            records: The records, one row or number per client.
            rng: None for the operating system's randomness, which privacy needs; a numpy Generator or a
                seed in tests.

        Returns:
            One report per client, in the same order.

        Raises:
            InvalidArgument: The records have the wrong shape, or are not those that the randomizer takes.
            WrongType: records is no array of numbers.
        """

    @abstractmethod
    def estimates(self, reports: ArrayLike) -> Floats:
        """One unbiased estimate per report, a row each.

        Args:
            reports: What `reports` gave, in any order.

        Returns:
            An array with a row per report.

        Raises:
            InvalidArgument: The reports have the wrong shape, or could not have been sent.
            WrongType: reports is no array of numbers.
        """

    @abstractmethod
    def variance(self, records: ArrayLike) -> Floats:
        """E ||estimate - record||^2 for each record.

        Args:
            records: The records, one row or number per client.

        Returns:
            One variance per record.

        Raises:
            InvalidArgument: The records have the wrong shape, or are not those that the randomizer takes.
            WrongType: records is no array of numbers.
        """

    @property
    @abstractmethod
    def largest_variance(self) -> float:
        """The largest variance over all records."""

    @property
    @abstractmethod
    def code(self) -> ReportCode:
        """How reports are written as bits."""

    @property
    def bits(self) -> float:
        """Bits that a report takes to send: the expected length of its code, at most, for every record.

        The code is that of `encoded`. Reports that are whole numbers take the same number of bits each;
        entries of vectors may be arbitrarily large, with small probability, so their codes vary.
        """
        return self.code.bits

    def encoded(self, reports: ArrayLike) -> list[Bits]:
        """The bits that send each report; ``np.packbits(code).tobytes()`` makes bytes of them.

        Args:
            reports: What `reports` gave.

        Returns:
            One array of zeros and ones per report, in the same order.

        Raises:
            InvalidArgument: The reports are not those of this randomizer.
            WrongType: reports is no array of numbers.
        """
        return self.code.encoded(reports)

    def decoded(self, codes: Iterable[Any]) -> NDArray[Any]:
        """The reports that were sent, every digit of them.

        Args:
            codes: One array of zeros and ones per report, as `encoded` gave it; zeros that fill up the
                last byte may follow.

        Returns:
            The reports, in the same order.

        Raises:
            InvalidArgument: A code is not one of this randomizer.
            WrongType: A code is no array of zeros and ones.
        """
        return self.code.decoded(codes)

    @property
    def blanket(self) -> float | None:
        """Lower bound on the part of a report that does not depend on the record; None if not known."""
        return None

    @property
    def mechanism(self) -> Mechanism:
        """One report as a mechanism: its budget, and its blanket if that is known."""
        if self.blanket is None:
            return PureDP(epsilon=self.local_epsilon)
        return BlanketRandomizer(local_epsilon=self.local_epsilon, blanket=self.blanket)

    def mean(self, reports: ArrayLike) -> Floats:
        """The average of the estimates: unbiased for the average of the records.

        Args:
            reports: What `reports` gave, at least one, in any order.

        Returns:
            One vector.

        Raises:
            InvalidArgument: There is no report, or the reports are not those of this randomizer.
            WrongType: reports is no array of numbers.
        """
        rows = self.estimates(reports)
        if not len(rows):
            raise InvalidArgument("reports must be at least one; got none. A mean needs reports.")
        average: Floats = rows.mean(axis=0)
        return average

    def shuffled(
        self, *, users: int, rounds: int = 1, population: int | None = None
    ) -> ShuffledReports:
        """The mechanism when ``users`` of these reports are shuffled in each round.

        Args:
            users: Reports that are shuffled in a round, from 1 to 10^12.
            rounds: Rounds, at least 1.
            population: Users of whom those of a round are drawn without replacement, at least users; None
                if the same users report in every round.

        Returns:
            The mechanism, to be accounted.

        Raises:
            InvalidArgument: An argument is out of range.
            WrongType: An argument has the wrong type.
        """
        mechanism = self.mechanism
        return ShuffledReports(
            users=users,
            local_epsilon=self.local_epsilon,
            rounds=rounds,
            population=population,
            randomizer="shared" if isinstance(mechanism, PureDP) else mechanism,  # type: ignore[arg-type]
        )


class VectorRandomizer(Randomizer):
    """A randomizer of vectors with l_norm norm at most ``radius``.

    Args:
        dimension: Number of coordinates.
        radius: Largest norm of a record.
        norm: Order of that norm, from 1 to math.inf.
    """

    dimension: int
    radius: float
    norm: float

    def estimates(self, reports: ArrayLike) -> Floats:
        """The reports themselves: each is an unbiased estimate."""
        return rows_of(reports, self.dimension, "reports")


def squared_sizes(rows: Floats) -> Floats:
    """The squared Euclidean norm of each row.

    >>> squared_sizes(np.array([[3.0, 4.0]])).tolist()
    [25.0]
    """
    sizes: Floats = np.einsum("ij,ij->i", rows, rows)
    return sizes
