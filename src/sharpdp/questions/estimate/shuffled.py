"""One epoch of shuffled batches on the data that the lower bounds are about.

All other records pull one way and the record the other, so that its batch shows:

    P_S = sum_t c_t N(2 mu e_t, I),   Q_S = sum_t c_t N(mu e_t, I),   c_t the chance of batch t

What can be told apart here is a lower bound for shuffled batches. It is no upper bound
(docs/proofs/vacant-seat.md).

Source: chua2024 Section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.special import Array
from sharpdp.questions.estimate.experiment import PLAIN, Direction, Draws, Experiment, Tilt, by_rows

__all__ = ["ShuffledRun"]


@dataclass(frozen=True)
class ShuffledRun(Experiment):
    """T = `steps` batches, the last with a share of its own; `absent` is the chance of no batch."""

    steps: int
    share: float
    last_share: float
    mu: float
    absent: float = 0.0

    @property
    def coordinates(self) -> int:
        """A normal for each batch."""
        return self.steps

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """Shifts of the record's normal. Their weights have no upper bound: they serve lower ends."""
        if direction is Direction.WITHOUT_RECORD:
            return (PLAIN,)
        return (PLAIN, *map(Tilt, (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0)))

    def log_moment(self, direction: Direction, tilt: Tilt) -> float:
        """No bound, except without a tilt."""
        return 0.0 if tilt == PLAIN else math.inf

    def draw(
        self, rng: np.random.Generator, samples: int, repeats: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Epoch after epoch, in rows that fit into memory."""
        return by_rows(
            samples, repeats, self.steps, lambda rows: self._one_epoch(rng, rows, direction, tilt)
        )

    def _one_epoch(
        self, rng: np.random.Generator, samples: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """The record's batch is the first or, by its share, the last, or none."""
        drawn = (2.0 * self.mu if direction is Direction.WITH_RECORD else self.mu) + tilt.order
        y = rng.standard_normal((samples, self.steps))
        uniform = rng.random(samples)
        first = uniform < self.share * (self.steps - 1)
        last = ~first & (uniform < self.share * (self.steps - 1) + self.last_share)
        y[first, 0] += drawn
        y[last, -1] += drawn
        with_record, without = self._log_ratio(y, 2.0 * self.mu), self._log_ratio(y, self.mu)
        if direction is Direction.WITHOUT_RECORD:
            return Draws(without - with_record, np.zeros(samples))
        tilted = self._log_ratio(y, drawn) - with_record if tilt != PLAIN else np.zeros(samples)
        return Draws(with_record - without, tilted)

    def _log_ratio(self, y: Array, shift: float) -> Array:
        """log of sum_t c_t e^(shift y_t - shift^2/2), plus the chance of no batch."""
        exponent = shift * y - 0.5 * shift**2
        top = np.maximum(np.max(exponent, axis=1), 0.0)
        terms = np.exp(exponent - top[:, None])
        total = self.share * np.sum(terms[:, :-1], axis=1) + self.last_share * terms[:, -1]
        return np.asarray(top + np.log(total + self.absent * np.exp(-top)))
