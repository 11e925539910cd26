"""What every local randomizer offers: reports, unbiased estimates, variance, and its accounting."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import HintedKeywords
from sharpdp.errors import InvalidArgument
from sharpdp.learn.randomizers.validation import rows_of
from sharpdp.mechanisms import BlanketRandomizer, Mechanism, PureDP, ShuffledReports
from sharpdp.randomness.system_stream import Floats, Randomness

__all__ = ["Randomizer", "VectorRandomizer"]


class Randomizer(HintedKeywords, ABC):
    """One client's record in, one report out that is local_epsilon-DP in it; frozen data.

    ``reports`` draws, and everything else is arithmetic on what was drawn. All randomness comes from
    the operating system unless a generator is passed, which is for tests.
    """

    local_epsilon: float

    @abstractmethod
    def reports(self, records: ArrayLike, rng: Randomness = None) -> NDArray[Any]:
        """Reports of the clients, one row or number each, drawn independently."""

    @abstractmethod
    def estimates(self, reports: ArrayLike) -> Floats:
        """One unbiased estimate per report, a row each."""

    @abstractmethod
    def variance(self, records: ArrayLike) -> Floats:
        """E ||estimate - record||^2 for each record."""

    @property
    @abstractmethod
    def largest_variance(self) -> float:
        """The largest variance over all records."""

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
        """The average of the estimates: unbiased for the average of the records."""
        rows = self.estimates(reports)
        if not len(rows):
            raise InvalidArgument("reports must be at least one; got none. A mean needs reports.")
        average: Floats = rows.mean(axis=0)
        return average

    def shuffled(
        self, *, users: int, rounds: int = 1, population: int | None = None
    ) -> ShuffledReports:
        """The mechanism when ``users`` of these reports are shuffled in each round.

        With ``population`` the users of a round are drawn from it, without replacement.
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
    """Vectors of ``dimension`` numbers with l_norm norm at most ``radius``."""

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
