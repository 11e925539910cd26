"""Which jump patterns matter at a threshold: a plan, and the search for the threshold of a value.

Nothing here is certified, except that patterns which are dropped come with bounds on them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.pairs.pair import GaussianPair, epsilon_of
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.engine import Declined, Steps
from sharpdp.profile.one_big_jump.far_tail import FarTail, find_far_tail
from sharpdp.profile.one_big_jump.jump_patterns import (
    JumpPattern,
    LossPartition,
    MomentBounds,
    make_partition,
)
from sharpdp.profile.one_big_jump.loss_cells import JumpingSteps, SampledGaussianStep

# Cores end at these parts of epsilon: the first for which few enough patterns matter. No small number of
# them adds up to epsilon, where a pattern's part of delta would vanish.
_CORES = (0.47, 0.8, 1.6)


@dataclass(frozen=True)
class JumpPlan:
    """Which jump patterns matter at a threshold, about how much, and what bounds the others."""

    epsilon: float
    far: FarTail
    partition: LossPartition
    patterns: tuple[tuple[JumpPattern, MomentBounds, float], ...]
    dropped: tuple[MomentBounds, ...]
    log_total: float
    slope: float

    @property
    def margin(self) -> float:
        """How far after epsilon the far tail should begin if thresholds nearby are to be served too."""
        return min(0.7 / self.slope, self.epsilon) if self.slope > 0.0 else self.epsilon


def jumping(steps: Steps) -> JumpingSteps:
    """The steps as rarely jumping ones; declines unless they all are."""
    parts = []
    for pair, count in steps:
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        if pair.rate > 0.2:
            raise Declined("a step is not sampled rarely")
        parts.append((SampledGaussianStep(pair.rate, pair.base.mu), float(count)))
    return tuple(parts)


def plan_for_value(steps: Steps, parts: JumpingSteps, log_delta: float) -> JumpPlan:
    """A plan at about the threshold that has this value; the search begins at that of a single jump.

    It ends within 0.3 nats of the value; a plan that misses it by 3 nats is of no use.
    """
    total = float(np.log(sum(count for _, count in parts)))
    epsilon = max(epsilon_of(pair, log_delta - total)[1] for pair, _ in steps)
    best: JumpPlan | None = None
    distance = 3.0
    bracket: dict[bool, tuple[float, float]] = {}
    for _ in range(12):
        if not 0.0 < epsilon < np.inf:
            break
        try:
            plan = plan_at(parts, epsilon)
        except Declined:
            break
        excess = plan.log_total - log_delta
        if abs(excess) < distance:
            best, distance = plan, abs(excess)
        if distance < 0.3:
            break
        bracket[excess > 0.0] = (epsilon, excess)
        if len(bracket) == 2:
            (high, under), (low, over) = bracket[False], bracket[True]
            share = min(max(over / (over - under), 0.1), 0.9)
            epsilon = low + share * (high - low)
        else:
            move = excess / plan.slope
            epsilon = min(max(epsilon + move, epsilon / 2.0), epsilon * 2.0)
    if best is None:
        raise Declined("no threshold was seen near the value")
    return best


def plan_at(
    parts: JumpingSteps, epsilon: float, tolerance: float = 0.05, margin: float = 0.0
) -> JumpPlan:
    """The plan with the smallest core for which few enough patterns matter; declines if none does."""
    far = find_far_tail(parts, epsilon, tolerance, margin)
    if far.loss > 32.0 * epsilon:
        raise Declined("it is not single jumps that matter")
    for core in _CORES:
        partition = make_partition(far, epsilon, core)
        is_rare = partition.mean_jumps < 0.7
        plan = _selected(far, partition, epsilon, tolerance) if is_rare else None
        if plan is not None:
            return plan
    raise Declined("too many patterns matter")


def _selected(
    far: FarTail, partition: LossPartition, epsilon: float, tolerance: float
) -> JumpPlan | None:
    """The plan with the patterns of a partition that matter; None if there are too many."""
    candidates: list[tuple[JumpPattern, MomentBounds]] = []
    values = [(far.log_value(epsilon)[0], far.slope(epsilon))]
    log_share = float(np.log(0.05 * tolerance))  # what is dropped may take up that
    for jumps in range(9):
        if partition.pattern_count(jumps) > 200:
            return None
        candidates += _sharpened(partition, jumps, values, epsilon, log_share)
        log_total = float(np.logaddexp.reduce([value for value, _ in values]))
        dropped = [partition.moments_beyond(jumps)]
        log_dropped = dropped[0].log_bound(epsilon)
        if log_dropped < log_total + log_share - 1.0:
            break
    selected = []
    for pattern, moments in sorted(candidates, key=lambda item: item[1].log_bound(epsilon)):
        more = float(np.logaddexp(log_dropped, moments.log_bound(epsilon)))
        if more < log_total + log_share:
            log_dropped = more
            dropped.append(moments)
        else:
            selected.append((pattern, moments, moments.estimate(epsilon)[0]))
    if len(selected) > 24:
        return None
    slope = sum(float(np.exp(value - log_total)) * slope for value, slope in values)
    return JumpPlan(epsilon, far, partition, tuple(selected), tuple(dropped), log_total, slope)


def _sharpened(
    partition: LossPartition,
    jumps: int,
    values: list[tuple[float, float]],
    epsilon: float,
    log_share: float,
) -> list[tuple[JumpPattern, MomentBounds]]:
    """Patterns with this many jumps, sharper moments for those that seem to matter.

    Their estimates join the values. A coarse look only overestimates: patterns that are three nats below
    what matters even so are left at it.
    """
    coarse = [(pattern, partition.moments(pattern)) for pattern in partition.patterns(jumps)]
    log_total = float(np.logaddexp.reduce([value for value, _ in values]))
    result = []
    for pattern, moments in sorted(coarse, key=lambda item: -item[1].estimate(epsilon)[0]):
        if moments.estimate(epsilon)[0] > log_total + (log_share - 3.0):
            moments = partition.zoomed(pattern, epsilon)
        result.append((pattern, moments))
        values.append(moments.estimate(epsilon))
        log_total = float(np.logaddexp(log_total, values[-1][0]))
    return result
