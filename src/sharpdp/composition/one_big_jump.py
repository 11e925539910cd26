"""One round of work on one question by summing over jumps: a contour for every draw that matters.

The counterpart of `workings` for compositions of rarely jumping steps; `jumps` has the decomposition.
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
    Cells,
    Draw,
    Far,
    Moments,
    SampledGaussianStep,
    Split,
    core_atoms,
    find_far,
    jump_atoms,
    make_cells,
    make_split,
    refined,
)
from sharpdp.numerics.contour import Contour
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.numerics.transform import Atoms, Tilted
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.privacy_profile import epsilon_of
from sharpdp.pairs.subsampled import PoissonSampledPair

# What is dropped may take up this part of the tolerance.
_DROPPED_SHARE = 0.05
# No term is asked for less than this in its logarithm, nor a total for less than the second.
_LOOSEST, _LOOSEST_TOTAL = 0.3, 0.1
# The part of a width that is aimed at.
_USED = 0.7
# Draws this many nats below what matters are not looked at more closely.
_OVERSIGHT = 3.0
_MOST_JUMPS, _MOST_DRAWS, _MOST_TERMS = 8, 200, 24
# Cores end at these parts of epsilon: the first for which few enough draws matter. No small number of
# them adds up to epsilon, where a draw's part of delta would vanish.
_CORES = (0.47, 0.8, 1.6)
_LARGEST_RATE = 0.2
# With more jumps than this on average a larger core is tried.
_OFTEN = 0.7
# Beyond this multiple of epsilon it is not jumps that matter.
_FARTHEST = 32.0
# Searches for the threshold of a value stop at the first distance in nats, and give up at the second.
_NEAR_ENOUGH, _TOO_FAR = 0.3, 3.0
_SEARCHES, _LONGEST_MOVE, _LEAST_SHARE = 12, 2.0, 0.1
_ROUGH = 0.05
# What is far begins so many nats after a threshold that was only guessed.
_MARGIN = 0.7
# A sum for a threshold that stays this much wider than it aimed at is not taken, nor one for a value
# whose two sides are this far apart in log delta.
_OFF_THE_MARK, _USEFUL = 4.0, 0.5

JumpingSteps = tuple[tuple[SampledGaussianStep, float], ...]


@dataclass(frozen=True)
class Term:
    """One draw: a contour for each side, the logarithm of what it is multiplied by, and its error."""

    moments: Moments
    contours: dict[Side, Contour]
    log_weights: dict[Side, float]
    log_weight_error: float

    def log_value(self, threshold: float, side: Side) -> float:
        """log of the draw's part of delta, safe on the given side."""
        low, high = self.contours[side].log_call(threshold)
        if side is Side.UPPER:
            return high + self.log_weights[side] + self.log_weight_error
        return low + self.log_weights[side] - self.log_weight_error

    @property
    def size(self) -> int:
        """How many frequencies are held."""
        return sum(contour.frequencies.size for contour in self.contours.values())


@dataclass(frozen=True)
class Sketch:
    """What a round of work will do: which draws matter, about how much, and what bounds the others."""

    epsilon: float
    far: Far
    split: Split
    draws: tuple[tuple[Draw, Moments, float], ...]
    dropped: tuple[Moments, ...]
    log_total: float
    slope: float

    @property
    def margin(self) -> float:
        """How far after epsilon far should begin if thresholds nearby are to be served too."""
        return min(_MARGIN / self.slope, self.epsilon) if self.slope > 0.0 else self.epsilon


@dataclass(frozen=True)
class JumpExpansion(Engine):
    """A sum over draws: a term for each that matters, bounds for what is far and what is dropped."""

    far: Far
    split: Split
    terms: tuple[Term, ...]
    dropped: tuple[Moments, ...]
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
        rough = _sketch(parts, epsilon, _ROUGH)
        work = _from(_sketch(parts, epsilon, aimed, rough.margin), aimed)
        return work._no_wider_than(_OFF_THE_MARK * aimed)

    @classmethod
    def for_value(cls, steps: Steps, log_delta: float, relative_width: float) -> JumpExpansion:
        parts = jumping(steps)
        rough = _search(steps, parts, log_delta)
        aimed = min(_USED * relative_width * rough.epsilon * rough.slope, _LOOSEST_TOTAL)
        work = _from(_sketch(parts, rough.epsilon, aimed, rough.margin), aimed)
        return work._no_wider_than(_USEFUL)

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
    found = []
    for pair, count in steps:
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        if pair.rate > _LARGEST_RATE:
            raise Declined("a step is not sampled rarely")
        found.append((SampledGaussianStep(pair.rate, pair.base.mu), float(count)))
    return tuple(found)


def _search(steps: Steps, parts: JumpingSteps, log_delta: float) -> Sketch:
    """A sketch at about the threshold that has this value, from that of a single jump on."""
    total = float(np.log(sum(count for _, count in parts)))
    epsilon = max(epsilon_of(pair, log_delta - total)[1] for pair, _ in steps)
    best: Sketch | None = None
    distance = _TOO_FAR
    ends: dict[bool, tuple[float, float]] = {}
    for _ in range(_SEARCHES):
        if not 0.0 < epsilon < np.inf:
            break
        try:
            sketch = _sketch(parts, epsilon, _ROUGH)
        except Declined:
            break
        excess = sketch.log_total - log_delta
        if abs(excess) < distance:
            best, distance = sketch, abs(excess)
        if distance < _NEAR_ENOUGH:
            break
        ends[excess > 0.0] = (epsilon, excess)
        if len(ends) == 2:
            (high, under), (low, over) = ends[False], ends[True]
            share = min(max(over / (over - under), _LEAST_SHARE), 1.0 - _LEAST_SHARE)
            epsilon = low + share * (high - low)
        else:
            move = excess / sketch.slope
            epsilon = min(max(epsilon + move, epsilon / _LONGEST_MOVE), epsilon * _LONGEST_MOVE)
    if best is None:
        raise Declined("no threshold was seen near the value")
    return best


def _sketch(parts: JumpingSteps, epsilon: float, tolerance: float, margin: float = 0.0) -> Sketch:
    """The draws that matter; declines if there are too many."""
    far = find_far(parts, epsilon, tolerance, margin)
    if far.loss > _FARTHEST * epsilon:
        raise Declined("it is not single jumps that matter")
    for core in _CORES:
        split = make_split(far, epsilon, core)
        rare = split.mean_jumps < _OFTEN
        sketch = _chosen(far, split, epsilon, tolerance) if rare else None
        if sketch is not None:
            return sketch
    raise Declined("too many draws matter")


def _chosen(far: Far, split: Split, epsilon: float, tolerance: float) -> Sketch | None:
    """The draws of this split that matter; None if there are too many."""
    looked_at: list[tuple[Draw, Moments]] = []
    values = [(far.log_value(epsilon)[0], far.slope(epsilon))]
    for jumps in range(_MOST_JUMPS + 1):
        if split.draw_count(jumps) > _MOST_DRAWS:
            return None
        fresh = [(draw, split.moments(draw)) for draw in split.draws(jumps)]
        looked_at += _looked_at(split, fresh, values, epsilon, tolerance)
        log_total = float(np.logaddexp.reduce([value for value, _ in values]))
        rest = split.moments_beyond(jumps)
        room = log_total + float(np.log(_DROPPED_SHARE * tolerance))
        used = rest.log_bound(epsilon)
        if used < room - 1.0:
            break
    dropped, kept = [rest], []
    for draw, moments in sorted(looked_at, key=lambda one: one[1].log_bound(epsilon)):
        more = float(np.logaddexp(used, moments.log_bound(epsilon)))
        if more < room:
            used = more
            dropped.append(moments)
        else:
            kept.append((draw, moments, moments.estimate(epsilon)[0]))
    if len(kept) > _MOST_TERMS:
        return None
    slope = sum(float(np.exp(value - log_total)) * slope for value, slope in values)
    return Sketch(epsilon, far, split, tuple(kept), tuple(dropped), log_total, slope)


def _looked_at(
    split: Split,
    fresh: Sequence[tuple[Draw, Moments]],
    values: list[tuple[float, float]],
    epsilon: float,
    tolerance: float,
) -> list[tuple[Draw, Moments]]:
    """The draws, those that seem to matter with sharper moments; their estimates join the values.

    A coarse look only overestimates: draws that are too small even so are left at it.
    """
    result = []
    log_total = float(np.logaddexp.reduce([value for value, _ in values]))
    room = float(np.log(_DROPPED_SHARE * tolerance)) - _OVERSIGHT
    for draw, coarse in sorted(fresh, key=lambda one: -one[1].estimate(epsilon)[0]):
        matters = coarse.estimate(epsilon)[0] > log_total + room
        moments = split.zoomed(draw, epsilon) if matters else coarse
        result.append((draw, moments))
        values.append(moments.estimate(epsilon))
        log_total = float(np.logaddexp(log_total, values[-1][0]))
    return result


def _from(sketch: Sketch, tolerance: float) -> JumpExpansion:
    """The contours of every draw, each as fine as its part of the whole asks for."""
    # work grows as one over the square root of a tolerance: these tolerances make it least
    weights = [float(np.exp(min(value - sketch.log_total, 0.0))) for _, _, value in sketch.draws]
    total = sum(weight ** (1.0 / 3.0) for weight in weights)
    terms, complete = [], True
    for (draw, moments, _), weight in zip(sketch.draws, weights, strict=True):
        own = tolerance / (total * max(weight, tolerance**2) ** (2.0 / 3.0))
        term, done = _make_term(sketch.split, draw, moments, sketch.epsilon, min(own, _LOOSEST))
        terms.append(term)
        complete &= done
    saddle = Saddle(sketch.slope, sketch.epsilon, sketch.log_total)
    left = sketch.far, sketch.split, tuple(terms), sketch.dropped
    return JumpExpansion(saddle, tolerance, not complete, *left)


def _make_term(
    split: Split, draw: Draw, moments: Moments, epsilon: float, tolerance: float
) -> tuple[Term, bool]:
    """The contours of one draw, and whether nodes and frequencies sufficed."""
    coarse = _pieces(split, draw)
    cumulants = Cumulants([(_table(cells, Side.UPPER)[0], count) for cells, count in coarse])
    saddle = find_saddle(cumulants, threshold=epsilon)
    theta = saddle.theta
    fine, all_nodes = _refined(coarse, theta, NODE_SHARE * tolerance)
    plan = make_plan(cumulants, saddle, 0.05 * tolerance)
    smoothing = float(np.sqrt(SMOOTHING_SHARE * tolerance / (theta * (theta + 1.0))))
    smoothing = min(smoothing, WIDEST_SMOOTHING)
    size, all_frequencies = frequency_count(plan, smoothing, tolerance)
    contours, weights, error = {}, {}, 0.0
    for side in Side:
        tables = [(*_table(cells, side), count) for cells, count in fine]
        many = [(atoms, count) for atoms, _, count in tables]
        contours[side] = contour_of_atoms(
            many, plan, size, smoothing=smoothing, harmless=0.01 * tolerance, tilt=_tilted
        )
        weights[side] = draw.log_ways + sum(count * log_mass for _, log_mass, count in tables)
        size_of = abs(draw.log_ways) + sum(count * abs(mass) for _, mass, count in tables)
        inexact = sum(times for _, times in draw.jumps) * max(atoms.accuracy for atoms, _ in many)
        error = max(error, 2.0 * inexact + 8.0 * UNIT_ROUNDOFF * size_of)
    return Term(moments, contours, weights, error), all_nodes and all_frequencies


def _tilted(atoms: Atoms, theta: float) -> Tilted:
    """Under the tilt, which multiplies the relative errors of the losses too."""
    part = tilted(atoms, theta)
    reach = 1.0 + theta * float(np.max(np.abs(atoms.points)))
    return replace(part, structured=part.structured * reach)


def _pieces(split: Split, draw: Draw) -> list[tuple[Cells, float]]:
    """The cells of core and stretches with how many steps fall into each; cores begin at -inf."""
    cores = [
        (cells, count - draw.of_kind(kind))
        for kind, (cells, (_, count)) in enumerate(zip(split.core, split.steps, strict=True))
        if count > draw.of_kind(kind)
    ]
    jumps = [(split.stretches[kind][k], float(times)) for (kind, k), times in draw.jumps]
    return cores + jumps


def _table(cells: Cells, side: Side) -> tuple[Atoms, float]:
    """Atoms and the logarithm of the mass that was taken out of them."""
    return (core_atoms(cells, side), 0.0) if cells.is_core else jump_atoms(cells, side)


def _refined(
    coarse: Sequence[tuple[Cells, float]], theta: float, tolerance: float
) -> tuple[list[tuple[Cells, float]], bool]:
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
        fine.append((make_cells(cells.part, refined(cells.edges, pieces)), count))
    return fine, wanted <= MOST_NODES
