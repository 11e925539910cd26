"""One of many steps, chosen at random: P = mean over t of N(e_t, s^2 I) against Q = N(0, s^2 I).

`bounds.allocation.sum_profile` has certified values of both directions of delta at many thresholds.
Chords between them are above the profile and lines beside them below it, so that they make a pair that
dominates (P, Q) and one that is dominated, at every threshold and under composition: a pair with the
larger profile is the law of a ratio that is above X = dP/dQ in the convex order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from sharpdp.bounds.allocation.sum_contour import Values
from sharpdp.bounds.allocation.sum_profile import Profile
from sharpdp.bracket import Side
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair, PairOfOutcomes, TabulatedPair
from sharpdp.pairs.from_profile_values import CallSide, calls_above, calls_below, pair_from_halves
from sharpdp.pairs.pair import STANDARD_WIDTH, GaussianPair, Hints, Pair

Blocks = tuple[tuple[int, int], ...]
"""Numbers of steps, of which one is chosen, each with how often."""

LEAST_NOISE = 0.1
"""Noise below which ratios span too many orders of magnitude for so few stretches."""

MOST_NOISE = 1e4
"""Noise above which nothing was tried."""

MOST_STEPS = 1 << 30
"""Sums of more terms would lose their moments in rounding."""

_NEGLIGIBLE, _STRIDE = 12.0, 8.0
"""Nats below the delta that is asked for to which a table reaches, in strides of so many."""


def allocated(
    noise_multiplier: float, steps: int, times: int, side: Side, width: float = STANDARD_WIDTH
) -> Pair:
    """A pair above (upper) or below (lower) that of one step of `steps`, to be repeated `times` times.

    Holds when: LEAST_NOISE <= noise_multiplier <= MOST_NOISE and steps <= MOST_STEPS.

    Numerics: the distance of the two sides is about `width` of epsilon for deltas from 1e-3 to 1e-15.
    Below 1e-18 the upper one is infinite.

    >>> allocated(2.0, 1, 1, Side.UPPER)
    GaussianPair(mu=0.5)
    """
    mu = 1.0 / noise_multiplier
    if steps == 1:
        return GaussianPair(mu)
    if times == 1:
        # what single epochs add up to is asked of their whole profile, and not of one threshold
        return OneStepPair(mu, steps, side, 2.0 * width)
    return TabulatedPair(_pair(mu, steps, depth_of(times), side, width))


@dataclass(frozen=True)
class OneStepPair(PairOfOutcomes):
    """A pair above (upper) or below (lower) that of one step of `steps`, tabulated as far as needed.

    `moved` is what losses, and logarithms of masses, may be off by besides their rounding.
    """

    mu: float
    steps: int
    side: Side
    width: float
    moved: float = 0.0

    @cached_property
    def outcomes(self) -> AtomicPair:
        return self._outcomes_to(depth_of(1))

    @property
    def hints(self) -> Hints:
        return replace(super().hints, few_thresholds=self._deep_enough)

    def _deep_enough(self, log_delta: float, epsilon: float) -> Pair:
        # what is left at the end of a table counts as revealed
        depth = -log_delta
        if epsilon < np.inf:
            depth = max(depth, _profile(self.mu, self.steps, 1.0, self.width).depth_at(epsilon))
        elif log_delta == 0.0:
            depth = np.inf
        depth = _STRIDE * math.ceil(min(depth + _NEGLIGIBLE, 1e3) / _STRIDE)
        return TabulatedPair(self._outcomes_to(depth)) if depth < depth_of(1) else self

    def _outcomes_to(self, depth: float) -> AtomicPair:
        outcomes = _pair(self.mu, self.steps, depth, self.side, self.width)
        if self.moved == 0.0:
            return outcomes
        return replace(
            outcomes,
            loss_error=outcomes.loss_error + self.moved,
            mass_error=outcomes.mass_error + self.moved,
            mean_errors=(self.moved, self.moved),
        )


def depth_of(times: int) -> float:
    """The depth to which a table reaches that is repeated `times` times: deltas of e^-42 for one.

    As much deeper as it is repeated, in strides of four.
    """
    return 42.0 + 4.0 * float(np.ceil(np.log(times) / 4.0))


_profile = lru_cache(maxsize=64)(Profile)


@lru_cache(maxsize=64)
def _pair(mu: float, steps: int, depth: float, side: Side, width: float) -> AtomicPair:
    """The pair from the values of both directions."""
    ahead, behind = (_values(mu, steps, sign, depth, width) for sign in (1.0, -1.0))
    return pair_above(ahead, behind) if side is Side.UPPER else pair_below(ahead, behind)


@lru_cache(maxsize=64)
def _values(mu: float, steps: int, sign: float, depth: float, width: float) -> Values:
    """One direction, no higher than that of the step that is revealed."""
    values = _profile(mu, steps, sign, width).values(depth)
    revealed = GaussianPair(mu).log_hockey_stick(values.losses) + PROFILE_ERROR
    return Values(values.losses, values.log_low, np.minimum(values.log_high, revealed))


def pair_above(ahead: Values, behind: Values) -> AtomicPair:
    """The pair whose profiles are the chords between upper values, revealed beyond the last one."""
    start = min(ahead.log_high[0], behind.log_high[0])
    halves, revealed = [], []
    for part in (ahead, behind):
        values = np.exp(np.minimum(np.minimum.accumulate(part.log_high), start))
        with np.errstate(divide="ignore"):
            log_more = np.log(values[:-1] - values[-1])
        halves.append(calls_above(part.losses[:-1], log_more, float(part.losses[-1])))
        revealed.append(float(values[-1]) * (1.0 + PROFILE_ERROR))
    return pair_from_halves(
        halves[0], halves[1], side=Side.UPPER, infinite=(revealed[0], revealed[1])
    )


def pair_below(ahead: Values, behind: Values) -> AtomicPair:
    """The pair whose profiles are lines below, beside lower values."""
    return pair_from_halves(
        _lines_below(ahead, behind), _lines_below(behind, ahead), side=Side.LOWER
    )


def _lines_below(ahead: Values, behind: Values) -> CallSide:
    """One half: nothing is known beyond its last loss but what the profile is there."""
    # the chord of the other half is above it at the first loss of this one
    first = np.interp(np.exp(ahead.losses[1]), np.exp(behind.losses), np.exp(behind.log_high))
    other = (
        behind.log_low[:1],
        np.array([behind.log_high[0], float(np.log(first)) + PROFILE_ERROR]),
    )
    return calls_below(
        ahead.losses[:-1],
        (ahead.log_low[:-1], ahead.log_high[:-1]),
        other,
        float(ahead.losses[-1]),
        float(ahead.log_high[-1]),
    )
