"""Engine for rare large losses: a contour for every jump pattern that matters, bounds on the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms, Contour, Tilted
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.profile.engine import (
    MOST_NODES,
    NODE_SHARE,
    SMOOTHING_SHARE,
    WIDEST_SMOOTHING,
    Cumulants,
    Declined,
    Engine,
    Saddle,
    Steps,
    Thresholds,
    contour_of_atoms,
    find_saddle,
    frequency_count,
    make_plan,
    tilted,
)
from sharpdp.profile.one_big_jump.far_tail import FarTail
from sharpdp.profile.one_big_jump.jump_patterns import JumpPattern, LossPartition, MomentBounds
from sharpdp.profile.one_big_jump.jump_plans import JumpPlan, jumping, plan_at, plan_for_value
from sharpdp.profile.one_big_jump.loss_cells import (
    LossCells,
    core_atoms,
    integrated_cells,
    jump_atoms,
    refined,
)


@dataclass(frozen=True)
class Term:
    """One jump pattern: a contour for each side, the log of what it is multiplied by, and its error."""

    moments: MomentBounds
    contours: dict[Side, Contour]
    log_weights: dict[Side, float]
    log_weight_error: float

    def log_values(self, thresholds: Array, side: Side) -> Array:
        """log of the pattern's part of delta at many thresholds, safe on the given side."""
        low, high = self.contours[side].log_calls(thresholds)
        if side is Side.UPPER:
            return high + self.log_weights[side] + self.log_weight_error
        return low + self.log_weights[side] - self.log_weight_error

    @property
    def size(self) -> int:
        """How many frequencies are held."""
        return sum(contour.frequencies.size for contour in self.contours.values())


@dataclass(frozen=True)
class JumpExpansion(Engine):
    """A sum over jump patterns: a term for each that matters, bounds on the far tail and the rest."""

    far: FarTail
    terms: tuple[Term, ...]
    dropped: tuple[MomentBounds, ...]
    slope_step: ClassVar[float] = 1e-3

    @classmethod
    def enclose(cls, steps: Steps, thresholds: Thresholds, tolerance: float) -> JumpExpansion:
        if thresholds.values.size > 1:
            raise Declined("jumps are sorted by their size in units of one epsilon")
        parts = jumping(steps)
        if thresholds.by_value:
            rough = plan_for_value(steps, parts, thresholds.first)
            tolerance = min(0.7 * tolerance * rough.epsilon * rough.slope, 0.1)
            widest = 0.5
        else:
            if not thresholds.first > 0.0:
                raise Declined("jumps are sorted by their size in units of epsilon")
            tolerance = min(tolerance, 0.1)
            rough = plan_at(parts, thresholds.first)
            widest = 4.0 * tolerance
        work = _expanded(plan_at(parts, rough.epsilon, tolerance, rough.margin), tolerance)
        return work._no_wider_than(widest)

    def _no_wider_than(self, nats: float) -> JumpExpansion:
        """This work if its two sides are that close in log delta; it declines otherwise."""
        low, high = (self.log_delta(self.saddle.threshold, side) for side in Side)
        if high - low <= nats:
            return self
        raise Declined("the sum over jumps is not sharp")

    @property
    def size(self) -> int:
        return sum(term.size for term in self.terms)

    def log_delta(self, epsilon: float, side: Side) -> float:
        return float(self._end(np.array([epsilon]), side)[0])

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        return self._end(epsilons, Side.LOWER), self._end(epsilons, Side.UPPER)

    def _end(self, epsilons: Array, side: Side) -> Array:
        """One end of log delta at many epsilons."""
        values = [term.log_values(epsilons, side) for term in self.terms]
        end = 0 if side is Side.LOWER else 1
        far = self.far.log_values(epsilons)[end]
        if side is Side.UPPER:
            bounds = [term.moments.log_bounds(epsilons) for term in self.terms]
            values = [np.minimum(*both) for both in zip(values, bounds, strict=True)]
            values += [moments.log_bounds(epsilons) for moments in self.dropped]
        values.append(far)
        total = np.logaddexp.reduce(values)
        # each term may be lost in the rounding of a sum
        outwards = (32.0 + 4.0 * len(values)) * UNIT_ROUNDOFF * (1.0 + np.abs(total))
        return np.asarray(total + outwards if side is Side.UPPER else total - outwards)


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
