"""What questions about a composition leave for later ones: one object with one bound on memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from sharpdp.numerics.special import Array
from sharpdp.profile.engine import Engine

MOST_KEPT = 1 << 18
"""So many frequencies and points are kept together, besides the newest work: about ten megabytes."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class ProfilePoints:
    """Thresholds of any sign, and both ends of log delta at their distances from zero.

    Below zero that is delta of the other direction.
    """

    epsilons: Array = field(default_factory=lambda: np.zeros(0))
    low: Array = field(default_factory=lambda: np.zeros(0))
    high: Array = field(default_factory=lambda: np.zeros(0))

    def joined(self, other: ProfilePoints) -> ProfilePoints:
        """Those of both; of what is known twice the sharper ends."""
        if not self.epsilons.size and (np.diff(other.epsilons) > 0.0).all():
            return other
        both = np.append(self.epsilons, other.epsilons)
        every, index = np.unique(both, return_inverse=True)
        low, high = np.full(every.size, -np.inf), np.full(every.size, np.inf)
        np.maximum.at(low, index, np.append(self.low, other.low))
        np.minimum.at(high, index, np.append(self.high, other.high))
        return ProfilePoints(every, low, high)

    def mirrored(self) -> ProfilePoints:
        """The same points as those of the other direction; at zero both have one delta."""
        return ProfilePoints(-self.epsilons[::-1], self.low[::-1], self.high[::-1])


@dataclass
class Kept:
    """Work of engines, points of the profile, and what quick bounds have shown.

    Args:
        works: Recent work; the newest is the last.
        points: Points of the profile that questions about error rates left.
        shown: Epsilons with log deltas at which quick bounds have shown this direction to be private.
        failures: For some work the thresholds before and after its own at which it is not sharp.
    """

    works: list[Engine] = field(default_factory=list)
    points: ProfilePoints = field(default_factory=ProfilePoints)
    shown: list[Interval] = field(default_factory=list)
    failures: dict[int, Interval] = field(default_factory=dict)

    def add(self, work: Engine) -> Engine:
        """Keep some work; the oldest goes first when it is too much."""
        self.works.append(work)
        self._shrink()
        return work

    def add_points(self, points: ProfilePoints) -> None:
        """Keep these points in place of the former ones."""
        self.points = points if points.epsilons.size <= MOST_KEPT else ProfilePoints()
        self._shrink()

    def _shrink(self) -> None:
        rest = MOST_KEPT - self.points.epsilons.size
        while sum(work.size for work in self.works[:-1]) > rest:
            self.failures.pop(id(self.works.pop(0)), None)

    def near(self, epsilon: float, tolerance: float) -> tuple[Engine, Interval] | None:
        """Work that is sharp at epsilon to within the tolerance, with its answer; None if none is kept.

        The nearest two are looked at, each only within the thresholds at which it was not seen to fail.
        """
        fine = [work for work in self.works if work.tolerance <= tolerance]
        fine.sort(key=lambda work: float(work.nats_away(epsilon)))
        for work in fine[:2]:
            first, last = self.failures.get(id(work), (-inf, inf))
            if first < epsilon < last:
                low, high = (float(end[0]) for end in work.log_deltas(np.array([epsilon])))
                if high - low <= work.largest_width(tolerance):
                    return work, (low, high)
                is_after = epsilon > work.saddle.threshold
                self.failures[id(work)] = (first, epsilon) if is_after else (epsilon, last)
        return None

    def made_for(self, log_delta: float) -> Engine | None:
        """Work that was made for the epsilon of just this delta; None if none is kept."""
        exact = (work for work in reversed(self.works) if work.saddle.log_value == log_delta)
        return next(exact, None)

    def clear(self) -> None:
        """Drop everything."""
        self.works.clear()
        self.points = ProfilePoints()
        self.shown.clear()
        self.failures.clear()
