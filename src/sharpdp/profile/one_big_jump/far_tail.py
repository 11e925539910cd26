"""The event that some step's loss is far beyond epsilon: P(far) - e^k Q(far), and what that leaves out.

What is left out, E[(e^{k - S} - 1)_+; far], is bounded by Chernoff.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import Array, log1mexp, log_diff, log_ndtr
from sharpdp.profile.one_big_jump.loss_cells import (
    JumpingSteps,
    core_atoms,
    grid,
    integrated_cells,
    log_tail_p,
    y_at_loss,
)

# Losses of y this far beyond mu have a probability below e^-800.
_BEYOND = 40.0
# Tabulated moments may be off by this much of their logarithms.
MOMENT_SLACK = 1e-6


@dataclass(frozen=True)
class FarTail:
    """The event that some step's loss is beyond f: its masses, and orders with moments for the remainder.

    Steps whose losses are beyond f with a probability below e^-800 are far earlier, at their own loss.
    """

    steps: JumpingSteps
    starts: tuple[float, ...]
    losses: tuple[float, ...]
    orders: Array
    log_moments: Array

    @classmethod
    def beyond(
        cls,
        steps: JumpingSteps,
        loss: float,
        orders: Array,
        moments: Array,
    ) -> FarTail:
        """The tail beyond a loss; steps end earlier where the probability is below e^-800."""
        starts, losses = [], []
        for step, _ in steps:
            end = step.mu + _BEYOND
            last = float(step.log_ratio(np.array(end)))
            starts.append(y_at_loss(step, loss) if loss < last else end)
            # less than the loss at these points, which are rounded
            losses.append(min(loss, last) * (1.0 - MOMENT_SLACK))
        return cls(steps, tuple(starts), tuple(losses), orders, moments)

    @property
    def loss(self) -> float:
        """The loss at which the tail begins for the steps that jump farthest."""
        return max(self.losses)

    def slope(self, threshold: float) -> float:
        """How fast log_value falls, e^k Q(far) over the value (not certified); 0 if that is nothing."""
        gain, log_give, log_scale = self._masses
        give = math.exp(min(threshold + float(log1mexp(-threshold)) + log_give - log_scale, 700.0))
        return float(give / -np.expm1(-threshold) / (gain - give)) if gain > give else 0.0

    def log_value(self, threshold: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E[(1 - e^{k - S})_+; far]."""
        low, high = self.log_values(np.array([threshold]))
        return float(low[0]), float(high[0])

    def log_values(self, thresholds: Array) -> tuple[Array, Array]:
        """Certified lower and upper ends of log E[(1 - e^{k - S})_+; far] at many thresholds k."""
        gain, log_give, log_scale = self._masses
        log_factor = thresholds + log1mexp(-thresholds)
        give = np.exp(np.minimum(log_factor + log_give - log_scale, 700.0))
        slack = self.slack
        low = gain * (1.0 - slack) - give * (1.0 + slack)
        high = gain * (1.0 + slack) - give * (1.0 - slack)
        with np.errstate(divide="ignore"):
            log_low, log_high = (log_scale + np.log(np.maximum(end, 0.0)) for end in (low, high))
        log_high = np.logaddexp(log_high, self._log_remainders(thresholds))
        return log_low, np.minimum(log_high, self.log_probability)

    @property
    def slack(self) -> float:
        """Relative error of the two parts of log_value: normal tails, and a difference of two of them."""
        shifts = [
            step.mu * max(y, 1.0) for (step, _), y in zip(self.steps, self.starts, strict=True)
        ]
        return 4e-13 * (4.0 + max(y * y for y in self.starts) / 16.0) * (1.0 + 1.0 / min(shifts))

    @cached_property
    def _masses(self) -> tuple[float, float, float]:
        """P(far) - Q(far) over e^{the third number}, and log Q(far)."""
        tails = [
            (log_ndtr(step.mu - y), log_ndtr(-y))
            for (step, _), y in zip(self.steps, self.starts, strict=True)
        ]
        log_q = np.array([tail for _, tail in tails])
        rates = np.array([step.rate for step, _ in self.steps])
        log_gain = np.log(rates) + log_diff(np.array([tail for tail, _ in tails]), log_q)
        counts = np.array([count for _, count in self.steps])
        log_scale = float(np.max(log_gain + np.log(counts)))
        log_once = float(np.max(np.log(counts) + np.logaddexp(log_gain, log_q)))
        if log_once < -46.0:  # an event this rare happens at most once, to twenty digits
            gain = float(np.sum(counts * np.exp(log_gain - log_scale)))
            log_give = float(np.logaddexp.reduce(np.log(counts) + log_q))
        else:
            log_none = float(np.sum(counts * np.log1p(-np.exp(log_q))))
            less = np.log1p(-np.exp(log_gain) / -np.expm1(log_q))
            gain = -float(np.exp(log_none - log_scale) * np.expm1(np.sum(counts * less)))
            log_give = float(log1mexp(log_none))
        return gain, log_give, log_scale

    def _log_remainders(self, thresholds: Array) -> Array:
        """log of bounds on E[(e^{k - S} - 1)_+; far]: some step is far, all others are anything.

        (e^x - 1)_+ <= (a - 1)^{a - 1} / a^a e^{a x} for a > 1; E e^{-a L} >= 1 for the step left out.
        """
        a = self.orders
        constant = (a - 1.0) * np.log(a - 1.0) - a * np.log(a) + self.log_moments
        bounds = [
            np.min(constant + a * (thresholds - loss)[:, None], axis=1) + log_probability
            for loss, log_probability in zip(self.losses, self._log_probabilities, strict=True)
        ]
        return np.asarray(np.logaddexp.reduce(bounds) + MOMENT_SLACK)

    @cached_property
    def log_probability(self) -> float:
        """log of a bound on P(far)."""
        return float(np.logaddexp.reduce(self._log_probabilities)) + MOMENT_SLACK

    @cached_property
    def _log_probabilities(self) -> list[float]:
        """About the log of the probability that some step of each kind is far."""
        return [
            float(np.log(count) + log_tail_p(step, y))
            for (step, count), y in zip(self.steps, self.starts, strict=True)
        ]


def find_far_tail(
    steps: JumpingSteps,
    epsilon: float,
    tolerance: float,
    margin: float = 0.0,
) -> FarTail:
    """The nearest far tail whose two bounds are close, else one that is beyond everything.

    It begins at least a margin after epsilon, so that the bounds stay close for thresholds up to there.
    """
    highest = max(float(step.log_ratio(np.array(step.mu + _BEYOND))) for step, _ in steps)
    candidates = (1.0 + 0.01 * 2.0 ** (np.arange(22) / 2.0)) * epsilon
    losses = [loss for loss in candidates.tolist() if epsilon + margin < loss < highest]
    a = 1.0 + np.geomspace(0.5, 3e5, 36) / epsilon
    log_moments = np.zeros(a.shape)
    for step, count in steps:
        top = step.mu + _BEYOND
        atoms = core_atoms(integrated_cells(step, grid(step, -np.inf, top)), Side.UPPER)
        within = atoms.log_moments(-a, exactly=count > 1e7)
        # beyond the top e^{-a L} < 1
        log_moments += count * np.logaddexp(within, log_tail_p(step, top))
    log_moments += MOMENT_SLACK * (1.0 + np.abs(log_moments))
    largest = -np.inf
    for loss in losses:
        far = FarTail.beyond(steps, loss, a, log_moments)
        low, high = far.log_value(epsilon)
        largest = max(largest, low)  # nearer tails are the larger ones
        if float(log_diff(high, low)) < largest + np.log(0.05 * tolerance):
            return far
    return FarTail.beyond(steps, highest, a, log_moments)
