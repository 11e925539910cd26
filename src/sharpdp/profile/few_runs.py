"""Two or three runs of pairs with listed outcomes: all sums of two losses, and the third one by one.

So few runs with rare large losses are no task for a contour, which needs many to be smooth. Let L be the
losses of two runs together, sorted, with masses W. Then

    H(t) = sum_{L_m > t} W_m (1 - e^{t - L_m})

is delta of two runs at t, and that of three is sum_k p_k H(epsilon - l_k). For t between two neighbors
L_{m-1} and L_m, with S_m the mass from L_m on and g = 1 - e^{t - L_m},

    H(t) = g S_m + (1 - g) H(L_m),     e^{-L_{m-1}} H(L_{m-1}) = e^{-L_m} H(L_m) + e^{-L_{m-1}} g S_m,

so that both S and e^{-L} H are running sums of positive terms: nothing cancels, and a sum of M terms is
right to M units of itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, at_least_once
from sharpdp.pairs.finite import AtomicPair
from sharpdp.profile.contour_engine import RangeEnds
from sharpdp.profile.engine import Declined, Engine, Saddle, Steps

_MOST_SUMS = 1 << 20
_LARGEST_LOSS = 100.0
"""Of all runs together: e^{-L} stays far from the ends of the double range."""

_SHARP = 1e-8
"""In log delta, at every threshold: work for one question serves all others."""

_LOST = 1e-210
"""More than what underflows: 2^20 terms of 3e-308, blown up by e^{200}."""


@dataclass(frozen=True)
class TwoRuns:
    """Sums of the losses of two runs with finite outcomes, in order, and running sums over them."""

    losses: Array
    tails: Array
    scaled: Array

    @classmethod
    def of(cls, first: AtomicPair, second: AtomicPair) -> TwoRuns:
        """All pairs of outcomes."""
        losses = np.add.outer(np.array(first.losses), np.array(second.losses)).ravel()
        masses = np.exp(np.add.outer(np.array(first.log_p), np.array(second.log_p)).ravel())
        order = np.argsort(losses)
        losses, masses = losses[order], masses[order]
        tails = np.cumsum(masses[::-1])[::-1]
        steps = np.exp(-losses[:-1]) * -np.expm1(losses[:-1] - losses[1:]) * tails[1:]
        scaled = np.append(np.cumsum(steps[::-1])[::-1], 0.0)
        return cls(losses, tails, scaled)

    def values(self, thresholds: Array) -> tuple[Array, Array]:
        """H and the mass beyond each threshold."""
        place = np.searchsorted(self.losses, thresholds, side="right")
        is_inside = place < self.losses.size
        place = np.minimum(place, self.losses.size - 1)
        gap = np.minimum(thresholds - self.losses[place], 0.0)
        tail = np.where(is_inside, self.tails[place], 0.0)
        rest = np.where(is_inside, np.exp(thresholds) * self.scaled[place], 0.0)
        return -np.expm1(gap) * tail + rest, tail


@dataclass(frozen=True)
class FewRuns(Engine):
    """delta of two or three runs, exact but for rounding at every threshold."""

    pairs: tuple[AtomicPair, ...]
    two: TwoRuns

    @classmethod
    def for_threshold(
        cls,
        steps: Steps,
        epsilon: float,
        tolerance: float,
        coarser: Engine | None = None,
        log_delta: float = 0.0,
    ) -> FewRuns:
        return cls._of(steps)._aimed_at(epsilon)

    @classmethod
    def for_value(cls, steps: Steps, log_delta: float, relative_width: float) -> FewRuns:
        work = cls._of(steps)
        largest = sum(pair.losses[-1] for pair in work.pairs)
        epsilon, _ = last_true(
            lambda at: work.log_delta(at, Side.UPPER) > log_delta,
            0.0,
            max(largest, 0.0),
            relative_width=0.01 * relative_width,
        )
        return work._aimed_at(epsilon)

    @classmethod
    def for_range(cls, steps: Steps, ends: RangeEnds, tolerance: float) -> FewRuns:
        """Prepare delta at many thresholds: the same sums as for one."""
        if ends.by_value:
            return cls.for_value(steps, ends.first, tolerance)
        return cls.for_threshold(steps, ends.first, tolerance)

    @classmethod
    def _of(cls, steps: Steps) -> FewRuns:
        """The sums; where they are aimed at does not matter to what they give."""
        pairs, two = _listed(steps)
        return cls(Saddle(1.0, 0.0, 0.0), _SHARP, pairs=pairs, two=two, exhausted=True)

    def _aimed_at(self, epsilon: float) -> FewRuns:
        """The same sums with the slope at this epsilon; Declined where too little mass is beyond it."""
        value, tail = self._finite(np.array([epsilon]))
        if value[0] < 1e-180:
            raise Declined("no listed loss that matters is beyond the threshold")
        saddle = Saddle(float(tail[0] / value[0]) - 1.0 or 1.0, epsilon, float(np.log(value[0])))
        return replace(self, saddle=saddle)

    @property
    def size(self) -> int:
        return self.two.losses.size

    def log_finite_delta(self, epsilon: float) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log(self._finite(np.array([epsilon]))[0][0]))

    def log_delta(self, epsilon: float, side: Side) -> float:
        return float(self._end(np.array([epsilon]), side)[0])

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        return self._end(epsilons, Side.LOWER), self._end(epsilons, Side.UPPER)

    def _end(self, epsilons: Array, side: Side) -> Array:
        """One end of log delta: losses moved, masses and sums widened to the safe side."""
        sign = 1.0 if side is Side.UPPER else -1.0
        finite = self._finite(epsilons - sign * self._loss_error)[0]
        infinite = self._infinite[1 if side is Side.UPPER else 0]
        value = finite * (1.0 + sign * self._relative_error) + sign * _LOST + infinite
        with np.errstate(divide="ignore"):
            log_value = np.log(np.maximum(value * (1.0 + sign * 4.0 * UNIT_ROUNDOFF), 0.0))
        return np.minimum(log_value + sign * 4.0 * UNIT_ROUNDOFF * np.abs(log_value), 0.0)

    def _finite(self, epsilons: Array) -> tuple[Array, Array]:
        """delta without infinite losses, and the mass beyond, as computed."""
        if len(self.pairs) == 2:
            return self.two.values(epsilons)
        losses, masses = self._third
        parts = [self.two.values(epsilon - losses) for epsilon in epsilons.tolist()]
        return (
            np.array([masses @ value for value, _ in parts]),
            np.array([masses @ tail for _, tail in parts]),
        )

    @cached_property
    def _third(self) -> tuple[Array, Array]:
        """Losses and masses of the third run."""
        return np.array(self.pairs[2].losses), np.exp(np.array(self.pairs[2].log_p))

    @cached_property
    def _infinite(self) -> tuple[float, float]:
        return at_least_once((pair.infinite_p_ends, 1) for pair in self.pairs)

    @cached_property
    def _loss_error(self) -> float:
        """How far a sum of losses, or a threshold without the third, may be from what it stands for."""
        largest = sum(max(map(abs, pair.losses)) for pair in self.pairs)
        rounding = 8.0 * UNIT_ROUNDOFF * (largest + self.two.losses[-1])
        return float(sum(pair.loss_error for pair in self.pairs) + rounding)

    @cached_property
    def _relative_error(self) -> float:
        """Of masses, exponentials and running sums."""
        masses = sum(2.0 * pair.accuracy for pair in self.pairs)
        exponents = sum(max(map(abs, pair.log_p)) for pair in self.pairs)
        terms = 2 * self.two.losses.size + len(self.pairs[-1].losses) + 64
        return masses + 2.0 * UNIT_ROUNDOFF * (exponents + terms)


@lru_cache(maxsize=2)  # both directions of the run that is asked about: 25 MB each at most
def _listed(steps: Steps) -> tuple[tuple[AtomicPair, ...], TwoRuns]:
    """The runs one by one, fewest outcomes last, and the first two together; or Declined."""
    pairs: list[AtomicPair] = []
    for pair, count in steps:
        if not isinstance(pair, AtomicPair) or not pair.losses or count > 3:
            raise Declined("not a few runs with listed outcomes")
        pairs += [pair] * count
    if not 2 <= len(pairs) <= 3:
        raise Declined("not two or three runs")
    pairs.sort(key=lambda pair: -len(pair.losses))
    if len(pairs[0].losses) * len(pairs[1].losses) > _MOST_SUMS:
        raise Declined("too many outcomes to list")
    if sum(max(map(abs, pair.losses)) for pair in pairs) > _LARGEST_LOSS:
        raise Declined("losses too large to list")
    return tuple(pairs), TwoRuns.of(pairs[0], pairs[1])
