"""Pairs above and below that of k of T steps, chosen at random.

Where few thresholds are asked, each answer comes from a statistic that is made for thresholds like it.
Everything else, such as compositions and trade-off curves, needs all of the profile: a table of it is
made when it is first asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sharpdp.bounds.allocation.ratio_law import depth_of, pair_above
from sharpdp.bounds.allocation.sum_contour import Values
from sharpdp.bounds.allocation.symmetric_mean_profile import Outline, SeveralSteps
from sharpdp.bracket import Side
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import Array
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair, PairOfOutcomes, TabulatedPair
from sharpdp.pairs.from_events import Attacks
from sharpdp.pairs.pair import GaussianPair, Hints, Pair

# Where log delta is this small rounding may hide it, and a statistic for a smaller loss may say more.
_ROUNDED = -34.0


@dataclass(frozen=True)
class SeveralStepsPair(PairOfOutcomes):
    """A pair above (upper) or below (lower) that of k of T steps; tabulated if the whole is needed."""

    mu: float
    steps: int
    participations: int
    side: Side
    width: float

    @cached_property
    def outcomes(self) -> AtomicPair:
        try:
            return _pair(
                self.mu, self.steps, self.participations, depth_of(1), self.side, self.width
            )
        except NotCertified:
            if self.side is Side.LOWER:
                return AtomicPair((0.0,), (0.0,), (0.0,))
            mu = self.mu * math.sqrt(self.participations)
            losses = np.linspace(0.0, 0.5 * mu**2 + 9.0 * mu, 1000)
            log_high = GaussianPair(mu).log_hockey_stick(losses) + PROFILE_ERROR
            values = Values(losses, np.full(losses.size, -np.inf), log_high)
            return pair_above(values, values)

    @property
    def hints(self) -> Hints:
        return replace(
            super().hints,
            few_thresholds=lambda log_delta, _: (
                self if log_delta < _ROUNDED else self._at_thresholds
            ),
        )

    @cached_property
    def _at_thresholds(self) -> SeveralStepsAtThresholds:
        return SeveralStepsAtThresholds(
            self.mu, self.steps, self.participations, self.side, self.width
        )


@dataclass(frozen=True)
class SeveralStepsAtThresholds(Pair):
    """Values above or below the profile of k of T steps, from a statistic that is made for them."""

    mu: float
    steps: int
    participations: int
    side: Side
    width: float

    @property
    def hints(self) -> Hints:
        # the total variation of the sum of all results
        summed = GaussianPair(self.participations * self.mu / math.sqrt(self.steps))
        least = summed.hints.least_total_variation
        return Hints(planning=self._outline, least_total_variation=least)

    def _outline(self) -> Pair:
        try:
            return _OutlinePair(*(self._directions[sign].outline for sign in (1.0, -1.0)))
        except NotCertified:
            return self

    @cached_property
    def _directions(self) -> dict[float, SeveralSteps]:
        return {
            sign: _planned(self.mu, self.steps, self.participations, sign, self.width)
            for sign in (1.0, -1.0)
        }

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        # at zero both directions have the same value
        best = np.fmin if self.side is Side.UPPER else np.fmax
        values = np.full(k.shape, np.nan)
        for sign in (1.0, -1.0):
            chosen = sign * k >= 0.0
            if chosen.any():
                values[chosen] = best(values[chosen], self._values(sign, np.abs(k[chosen])))
        return np.asarray(values + np.minimum(k, 0.0))

    def _values(self, sign: float, losses: Array) -> Array:
        """log of upper or lower bounds on delta of one direction, each from the nearest statistic."""
        revealed = GaussianPair(self.mu * math.sqrt(self.participations))
        known = np.minimum(revealed.log_hockey_stick(losses) + PROFILE_ERROR, 0.0)
        values = known if self.side is Side.UPPER else np.full(losses.size, -np.inf)
        try:
            nearest = self._directions[sign].nearest(losses)
        except NotCertified:
            return values
        for index in np.unique(nearest).tolist():
            chosen = nearest == index
            statistic = _statistic(self._directions[sign], index)
            if statistic is None:
                continue
            if self.side is Side.UPPER:
                log_high = statistic.log_upper(sign, losses[chosen])
                values[chosen] = np.fmin(values[chosen], log_high)
            else:
                log_low = statistic.log_lower(sign, losses[chosen])
                values[chosen] = np.fmax(values[chosen], log_low)
        return values

    def log_tail_q(self, loss: Array) -> Array:
        return self._whole.log_tail_q(loss)

    def log_tail_p(self, loss: Array) -> Array:
        return self._whole.log_tail_p(loss)

    @cached_property
    def _whole(self) -> Pair:
        return SeveralStepsPair(self.mu, self.steps, self.participations, self.side, self.width)


@dataclass(frozen=True)
class _OutlinePair(Pair):
    """About the profile of k of T steps, for planning."""

    ahead: Outline
    behind: Outline

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        ahead, behind = (self._log_deltas(one, np.abs(k)) for one in (self.ahead, self.behind))
        return np.where(k >= 0.0, ahead, behind + k)

    @staticmethod
    def _log_deltas(outline: Outline, losses: Array) -> Array:
        """By interpolation of the square root, in which profiles are nearly straight."""
        known, depths = outline.losses, np.sqrt(-outline.log_deltas)
        slope = (depths[-1] - depths[-2]) / (known[-1] - known[-2])
        beyond = np.maximum(losses - known[-1], 0.0) * slope
        return np.asarray(-((np.interp(losses, known, depths) + beyond) ** 2))

    def log_tail_q(self, loss: Array) -> Array:
        return self.log_hockey_stick(loss)

    def log_tail_p(self, loss: Array) -> Array:
        return self.log_hockey_stick(loss)


_planned = lru_cache(maxsize=64)(SeveralSteps)
# Both sides, and questions that are close together, share these; they may have millions of masses.
_statistic = lru_cache(maxsize=4)(SeveralSteps.statistic)


def several_allocated(
    noise_multiplier: float,
    steps: int,
    participations: int,
    times: int,
    side: Side,
    width: float,
) -> Pair:
    """A pair above (upper) or below (lower) that of k of T steps, to be repeated `times` times.

    Holds when: LEAST_NOISE <= noise_multiplier <= MOST_NOISE and 1 < participations < steps.

    >>> from sharpdp.pairs.pair import epsilon_of
    >>> sides = [several_allocated(1.0, 100, 10, 1, side, 1e-2) for side in Side]
    >>> low, high = (epsilon_of(pair, math.log(1e-5)) for pair in sides)
    >>> bool(5.80 < low[0] < high[1] < 5.88)
    True
    """
    mu = 1.0 / noise_multiplier
    if times == 1:
        return SeveralStepsPair(mu, steps, participations, side, width)
    try:
        return TabulatedPair(_pair(mu, steps, participations, depth_of(times), side, width))
    except NotCertified:
        revealed = GaussianPair(mu * math.sqrt(participations))
        return revealed if side is Side.UPPER else AtomicPair((0.0,), (0.0,), (0.0,))


@lru_cache(maxsize=64)
def _pair(
    mu: float, steps: int, participations: int, depth: float, side: Side, width: float
) -> AtomicPair:
    """Chords between upper values, or the best of all events."""
    ahead, behind = (
        _direction(mu, steps, participations, sign, depth, width) for sign in (1.0, -1.0)
    )
    if side is Side.LOWER:
        return Attacks(ahead.q, ahead.p, behind.q, behind.p).pair()
    revealed = GaussianPair(mu * math.sqrt(participations))
    halves = []
    for part in (ahead, behind):
        known = revealed.log_hockey_stick(part.losses) + PROFILE_ERROR
        log_high = np.minimum(np.minimum(part.log_high, known), 0.0)
        halves.append(Values(part.losses, np.full(log_high.shape, -np.inf), log_high))
    return pair_above(halves[0], halves[1])


_direction = lru_cache(maxsize=64)(
    lambda mu, steps, participations, sign, depth, width: _planned(
        mu, steps, participations, sign, width
    ).direction(depth)
)
