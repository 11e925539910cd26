"""Engine for rare large losses: delta as a sum over jump patterns, a contour for every one that matters.

`jump_decomposition` has the partition of the losses, the patterns, and bounds on what is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sharpdp.bracket import Side
from sharpdp.composition.engine import (
    MOST_NODES,
    NODE_SHARE,
    SMALLEST_LOG_DELTA,
    SMOOTHING_SHARE,
    WIDEST_SMOOTHING,
    Cumulants,
    Declined,
    Engine,
    Saddle,
    Steps,
    contour_of_atoms,
    find_saddle,
    frequency_count,
    make_plan,
    tilted,
)
from sharpdp.composition.jump_decomposition import (
    FarTail,
    JumpPattern,
    LossCells,
    LossPartition,
    MomentBounds,
    SampledGaussianStep,
    core_atoms,
    find_far_tail,
    integrated_cells,
    jump_atoms,
    make_partition,
    refined,
)
from sharpdp.numerics.contour import Atoms, Contour, Tilted
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.pairs.pair import GaussianPair, epsilon_of
from sharpdp.pairs.subsampled import PoissonSampledPair

_LARGEST_RATE = 0.2
_MOST_JUMPS, _MOST_PATTERNS, _MOST_TERMS = 8, 200, 24
# Cores end at these parts of epsilon: the first for which few enough patterns matter. No small number of
# them adds up to epsilon, where a pattern's part of delta would vanish.
_CORES = (0.47, 0.8, 1.6)
# What is dropped may take up this part of the tolerance.
_DROPPED_SHARE = 0.05
# A total is not asked for less than this in log delta; a first plan is made for less.
_LOOSEST_TOTAL, _ROUGH = 0.1, 0.05

JumpingSteps = tuple[tuple[SampledGaussianStep, float], ...]


@dataclass(frozen=True)
class Term:
    """One jump pattern: a contour for each side, the log of what it is multiplied by, and its error."""

    moments: MomentBounds
    contours: dict[Side, Contour]
    log_weights: dict[Side, float]
    log_weight_error: float

    def log_value(self, threshold: float, side: Side) -> float:
        """log of the pattern's part of delta, safe on the given side."""
        low, high = self.contours[side].log_call(threshold)
        if side is Side.UPPER:
            return high + self.log_weights[side] + self.log_weight_error
        return low + self.log_weights[side] - self.log_weight_error

    @property
    def size(self) -> int:
        """How many frequencies are held."""
        return sum(contour.frequencies.size for contour in self.contours.values())


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


@dataclass(frozen=True)
class JumpExpansion(Engine):
    """A sum over jump patterns: a term for each that matters, bounds on the far tail and the rest."""

    far: FarTail
    terms: tuple[Term, ...]
    dropped: tuple[MomentBounds, ...]
    slope_step: ClassVar[float] = 1e-3

    @classmethod
    def for_threshold(
        cls,
        steps: Steps,
        epsilon: float,
        tolerance: float,
        coarser: Engine | None = None,
        log_delta: float = 0.0,
    ) -> JumpExpansion:
        parts = jumping(steps)
        if not epsilon > 0.0:
            raise Declined("jumps are sorted by their size in units of epsilon")
        aimed = min(tolerance, _LOOSEST_TOTAL)
        rough = _plan(parts, epsilon, _ROUGH)
        work = _expanded(_plan(parts, epsilon, aimed, rough.margin), aimed)
        return work._no_wider_than(4.0 * aimed)

    @classmethod
    def for_value(cls, steps: Steps, log_delta: float, relative_width: float) -> JumpExpansion:
        parts = jumping(steps)
        rough = _search(steps, parts, log_delta)
        aimed = min(0.7 * relative_width * rough.epsilon * rough.slope, _LOOSEST_TOTAL)
        work = _expanded(_plan(parts, rough.epsilon, aimed, rough.margin), aimed)
        return work._no_wider_than(0.5)

    def _no_wider_than(self, nats: float) -> JumpExpansion:
        """This work if its two sides are that close in log delta; it declines otherwise."""
        low, high = (self.log_delta(self.saddle.threshold, side) for side in Side)
        if high - low <= nats:
            return self
        raise Declined("the sum over jumps is not sharp")

    def serves(self, epsilon: float) -> bool:
        return super().serves(epsilon) and (
            epsilon < self.far.loss or self.far.log_probability < SMALLEST_LOG_DELTA
        )

    @property
    def size(self) -> int:
        return sum(term.size for term in self.terms)

    def log_delta(self, epsilon: float, side: Side) -> float:
        values = [term.log_value(epsilon, side) for term in self.terms]
        values.append(self.far.log_value(epsilon)[0 if side is Side.LOWER else 1])
        if side is Side.UPPER:
            bounds = [term.moments.log_bound(epsilon) for term in self.terms]
            values[:-1] = np.minimum(values[:-1], bounds).tolist()
            values += [moments.log_bound(epsilon) for moments in self.dropped]
        total = float(np.logaddexp.reduce(values))
        # each term may be lost in the rounding of a sum
        outwards = (32.0 + 4.0 * len(values)) * UNIT_ROUNDOFF * (1.0 + abs(total))
        return total + outwards if side is Side.UPPER else total - outwards


def jumping(steps: Steps) -> JumpingSteps:
    """The steps as rarely jumping ones; declines unless they all are."""
    parts = []
    for pair, count in steps:
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        if pair.rate > _LARGEST_RATE:
            raise Declined("a step is not sampled rarely")
        parts.append((SampledGaussianStep(pair.rate, pair.base.mu), float(count)))
    return tuple(parts)


def _search(steps: Steps, parts: JumpingSteps, log_delta: float) -> JumpPlan:
    """A plan at about the threshold that has this value; the search begins at that of a single jump.

    It ends within 0.3 nats of the value; a plan that misses it by 3 nats is of no use.
    """
    total = float(np.log(sum(count for _, count in parts)))
    epsilon = max(epsilon_of(pair, log_delta - total)[1] for pair, _ in steps)
    best: JumpPlan | None = None
    distance = 3.0
    ends: dict[bool, tuple[float, float]] = {}
    for _ in range(12):
        if not 0.0 < epsilon < np.inf:
            break
        try:
            plan = _plan(parts, epsilon, _ROUGH)
        except Declined:
            break
        excess = plan.log_total - log_delta
        if abs(excess) < distance:
            best, distance = plan, abs(excess)
        if distance < 0.3:
            break
        ends[excess > 0.0] = (epsilon, excess)
        if len(ends) == 2:
            (high, under), (low, over) = ends[False], ends[True]
            share = min(max(over / (over - under), 0.1), 0.9)
            epsilon = low + share * (high - low)
        else:
            move = excess / plan.slope
            epsilon = min(max(epsilon + move, epsilon / 2.0), epsilon * 2.0)
    if best is None:
        raise Declined("no threshold was seen near the value")
    return best


def _plan(parts: JumpingSteps, epsilon: float, tolerance: float, margin: float = 0.0) -> JumpPlan:
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
    log_share = float(np.log(_DROPPED_SHARE * tolerance))
    for jumps in range(_MOST_JUMPS + 1):
        if partition.pattern_count(jumps) > _MOST_PATTERNS:
            return None
        candidates += _sharpened(partition, jumps, values, epsilon, log_share)
        log_total = float(np.logaddexp.reduce([value for value, _ in values]))
        dropped = [partition.moments_beyond(jumps)]
        log_dropped = dropped[0].log_bound(epsilon)
        if log_dropped < log_total + log_share - 1.0:
            break
    kept = []
    for pattern, moments in sorted(candidates, key=lambda item: item[1].log_bound(epsilon)):
        more = float(np.logaddexp(log_dropped, moments.log_bound(epsilon)))
        if more < log_total + log_share:
            log_dropped = more
            dropped.append(moments)
        else:
            kept.append((pattern, moments, moments.estimate(epsilon)[0]))
    if len(kept) > _MOST_TERMS:
        return None
    slope = sum(float(np.exp(value - log_total)) * slope for value, slope in values)
    return JumpPlan(epsilon, far, partition, tuple(kept), tuple(dropped), log_total, slope)


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


def _expanded(plan: JumpPlan, tolerance: float) -> JumpExpansion:
    """The contours of every pattern, each as fine as its part of the whole asks for."""
    # work grows as one over the square root of a tolerance: these tolerances make it least
    weights = [float(np.exp(min(value - plan.log_total, 0.0))) for _, _, value in plan.patterns]
    total = sum(weight ** (1.0 / 3.0) for weight in weights)
    terms, complete = [], True
    for (pattern, moments, _), weight in zip(plan.patterns, weights, strict=True):
        own = tolerance / (total * max(weight, tolerance**2) ** (2.0 / 3.0))
        term, is_fine = _make_term(plan.partition, pattern, moments, plan.epsilon, min(own, 0.3))
        terms.append(term)
        complete &= is_fine
    saddle = Saddle(plan.slope, plan.epsilon, plan.log_total)
    return JumpExpansion(saddle, tolerance, not complete, plan.far, tuple(terms), plan.dropped)


def _make_term(
    partition: LossPartition,
    pattern: JumpPattern,
    moments: MomentBounds,
    epsilon: float,
    tolerance: float,
) -> tuple[Term, bool]:
    """The term of one jump pattern, and whether nodes and frequencies sufficed."""
    coarse = _pieces(partition, pattern)
    cumulants = Cumulants([(_atoms(cells, Side.UPPER)[0], count) for cells, count in coarse])
    saddle = find_saddle(cumulants, threshold=epsilon)
    theta = saddle.theta
    fine, all_nodes = _refined(coarse, theta, NODE_SHARE * tolerance)
    plan = make_plan(cumulants, saddle, 0.05 * tolerance)
    smoothing = float(np.sqrt(SMOOTHING_SHARE * tolerance / (theta * (theta + 1.0))))
    smoothing = min(smoothing, WIDEST_SMOOTHING)
    size, all_frequencies = frequency_count(plan, smoothing, tolerance)
    contours, log_weights, error = {}, {}, 0.0
    for side in Side:
        parts, log_masses = [], []
        for cells, count in fine:
            atoms, log_mass = _atoms(cells, side)
            parts.append((atoms, count))
            log_masses.append(count * log_mass)
        contours[side] = contour_of_atoms(
            parts, plan, size, smoothing=smoothing, harmless=0.01 * tolerance, tilt=_tilted
        )
        log_weights[side] = pattern.log_ways + sum(log_masses)
        magnitude = abs(pattern.log_ways) + sum(map(abs, log_masses))
        mass_error = pattern.jump_count * max(atoms.accuracy for atoms, _ in parts)
        error = max(error, 2.0 * mass_error + 8.0 * UNIT_ROUNDOFF * magnitude)
    return Term(moments, contours, log_weights, error), all_nodes and all_frequencies


def _tilted(atoms: Atoms, theta: float) -> Tilted:
    """Atoms under a tilt, which multiplies the relative errors of their losses too."""
    part = tilted(atoms, theta)
    reach = 1.0 + theta * float(np.max(np.abs(atoms.points)))
    return replace(part, structured=part.structured * reach)


def _pieces(partition: LossPartition, pattern: JumpPattern) -> list[tuple[LossCells, float]]:
    """The cells of core and stretches with how many steps fall into each; cores begin at -inf."""
    cores = [
        (cells, count - pattern.of_kind(kind))
        for kind, (cells, (_, count)) in enumerate(
            zip(partition.core, partition.steps, strict=True)
        )
        if count > pattern.of_kind(kind)
    ]
    jumps = [(partition.stretches[kind][k], float(times)) for (kind, k), times in pattern.jumps]
    return cores + jumps


def _atoms(cells: LossCells, side: Side) -> tuple[Atoms, float]:
    """Atoms of some cells, and the logarithm of the mass that was taken out of them."""
    return (core_atoms(cells, side), 0.0) if cells.is_core else jump_atoms(cells, side)


def _refined(
    coarse: Sequence[tuple[LossCells, float]], theta: float, tolerance: float
) -> tuple[list[tuple[LossCells, float]], bool]:
    """Cells fine enough that the two sides differ by about tolerance in log M(theta); whether they are.

    A cell of loss width h and tilted mass p counts p theta (theta + 1) h^2 / 8.
    """
    shares = []
    for cells, count in coarse:
        losses, log_p = cells.points(Side.LOWER)
        exponent = log_p + theta * losses
        weight = np.exp(exponent - np.max(exponent))
        square = np.diff(cells.end_losses) ** 2 * weight / np.sum(weight)
        shares.append(np.cbrt(count * theta * (theta + 1.0) / 8.0 * square))
    total = sum(float(np.sum(share)) for share in shares)
    wanted = np.sqrt(total**3 / tolerance)
    factor = min(wanted, MOST_NODES) / max(total, 1e-300)
    fine = []
    for (cells, count), share in zip(coarse, shares, strict=True):
        # where all masses underflow no share is a number, and no cell matters
        many = np.nan_to_num(np.ceil(factor * share), nan=1.0, posinf=float(MOST_NODES))
        pieces = np.clip(many, 1.0, float(MOST_NODES)).astype(np.int64)
        fine.append((integrated_cells(cells.part, refined(cells.edges, pieces)), count))
    return fine, wanted <= MOST_NODES
