"""Poisson batches that are cut to a physical size: how often that happens, and what it reveals.

Given M others that are drawn, M ~ Bin(others, r), a batch with room for B is an ordinary Poisson batch if
M < B. If M >= B, the record gets a place with probability r B / (M + 1), and then another record has to
leave: that is a random subset of fixed size. M has the same law for both data sets, so that it may be
released on the upper side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.counts import MASS_ERROR, beyond_over_at, log_mass, ratio_error
from sharpdp.numerics.tolerances import FORMULA_ERROR

_UNDERFLOW = 1e-320
"""More than probabilities next to the end of the doubles are rounded by."""


@dataclass(frozen=True)
class Overflow:
    """Batches with room for `room` of `population` examples, each drawn at `rate`."""

    population: int
    rate: float
    room: int

    def _tail(self, trials: int, hits: int) -> tuple[float, float]:
        """(lower, upper) for P[Bin(trials, rate) >= hits]; hits is not below the mean."""
        if hits > trials:
            return 0.0, 0.0
        n, k = np.array([float(trials)]), np.array([float(hits)])
        log_at = log_mass(n, k, self.rate)
        value = float(np.exp(log_at[0]) * (1.0 + beyond_over_at(n, k, self.rate, log_at)[0]))
        # beyond six deviations the ratio is small and its own error does not count
        error = MASS_ERROR + ratio_error(float(trials)) + FORMULA_ERROR * (1.0 + self.room)
        low, high = value * (1.0 - error) - _UNDERFLOW, value * (1.0 + error) + _UNDERFLOW
        return max(low, 0.0), min(high, 1.0)

    def full(self, others: int) -> tuple[float, float]:
        """(lower, upper) for the probability that so many others fill the room."""
        return self._tail(others, self.room)

    @property
    def displacing(self) -> tuple[float, float]:
        """(lower, upper) for the probability that the record is in a batch and another one had to leave.

        E[rate B / (M + 1); M >= B] = (B / n) P[Bin(n, rate) > B] with M ~ Bin(n - 1, rate).
        """
        low, high = self._tail(self.population, self.room + 1)
        share = self.room / self.population
        return share * low * (1.0 - FORMULA_ERROR), share * high * (1.0 + FORMULA_ERROR)

    @property
    def least_rate(self) -> float:
        """Not above the probability that the record is in a batch, displacing or not."""
        high = self.full(self.population - 1)[1]
        return (self.rate * (1.0 - high) + self.displacing[0]) * (1.0 - FORMULA_ERROR)

    @property
    def full_rate(self) -> float:
        """Not below the probability that the record gets a place in a batch that is full without it."""
        return min(self.rate * self.room / (self.room + 1.0) * (1.0 + FORMULA_ERROR), 1.0)
