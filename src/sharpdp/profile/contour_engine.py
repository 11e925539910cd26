"""Engine that serves every composition: nodes, a loss distribution and a contour for each side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms, Contour
from sharpdp.numerics.special import Array, at_least_once, log_any, safe_log
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import Pair
from sharpdp.profile.discretize import (
    LossDistribution,
    Nodes,
    exact,
    first_look,
    lower,
    node_shares,
    pieces_of,
    refined,
)
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
    plan_between,
    without_gaussians,
)

_MOST_FOR_RANGES = 1 << 16
"""With more frequencies than this a range is not worth its contour."""


@dataclass(frozen=True)
class ContourEvaluation(Engine):
    """A contour for each side, and the log of the P-mass at infinite loss there; serves all steps."""

    contours: dict[Side, Contour]
    log_infinite: dict[Side, float]

    @classmethod
    def enclose(cls, steps: Steps, thresholds: Thresholds, tolerance: float) -> ContourEvaluation:
        if thresholds.values.size > 1:
            return cls._over_range(steps, thresholds, tolerance)
        if thresholds.by_value:
            return cls._at_value(steps, thresholds.first, tolerance)
        return cls._at_threshold(steps, thresholds, tolerance)

    @classmethod
    def _at_threshold(
        cls, steps: Steps, thresholds: Thresholds, tolerance: float
    ) -> ContourEvaluation:
        epsilon, log_delta = thresholds.first, thresholds.log_delta
        steps, gaussian = without_gaussians(steps)
        log_value = min(-30.0, log_delta - 5.0)
        for _ in range(8):
            nodes, cumulants = look(steps, gaussian, log_value, tolerance)
            if epsilon >= cumulants.largest_total:
                log_value *= 4.0  # no loss that was looked at reaches the threshold
                continue
            saddle = find_saddle(cumulants, threshold=epsilon)
            if saddle.log_value >= log_value - 1.0:
                break
            log_value = 1.2 * saddle.log_value - 5.0
        if epsilon >= cumulants.largest_total:
            raise Declined("no finite loss that matters reaches the threshold")
        saddle = replace(saddle, log_value=min(saddle.log_value, log_delta))
        goals = [partial(find_saddle, threshold=epsilon)]
        return cls._from(steps, nodes, cumulants, [saddle], goals, tolerance, thresholds.slope)

    @classmethod
    def _over_range(
        cls, steps: Steps, thresholds: Thresholds, tolerance: float
    ) -> ContourEvaluation:
        """From the first to the last of many thresholds, or as far as one contour goes.

        Nodes are fine enough for the tilts at both ends, and a tilt in between serves both.
        """
        steps, gaussian = without_gaussians(steps)
        first, last = _goals(thresholds)
        # about the smallest log delta that is looked for at first
        floor = thresholds.last - 1.0 if thresholds.by_value else -45.0
        for _ in range(4):
            nodes, cumulants = look(steps, gaussian, floor, min(tolerance, 1e-2))
            saddles = [first(cumulants), last(cumulants)]
            log_values = [min(saddle.log_value, 0.0) for saddle in saddles]
            if not (thresholds.by_value or thresholds.first < cumulants.largest_total):
                raise Declined("no finite loss that matters reaches the threshold")
            if not thresholds.by_value:
                wanted = tolerance
            else:
                nats = min(saddle.threshold * saddle.theta for saddle in saddles)
                wanted = min(0.4 * tolerance * max(nats, 0.3), 0.2)
            # so many nats apart the ends of one contour keep the digits that are wanted
            deepest = log_values[0] - max(2.0 * float(np.log(wanted / 1e-12)), 10.0)
            if log_values[1] < deepest:
                last = partial(find_saddle, log_value=deepest)
                saddles[1] = last(cumulants)
            if saddles[1].log_value >= floor - 1.0:
                break
            floor = 1.1 * saddles[1].log_value - 5.0
        if not saddles[0].theta < saddles[1].theta:
            raise Declined("there is no range")
        return cls._from(steps, nodes, cumulants, saddles, [first, last], wanted)

    @classmethod
    def _at_value(cls, steps: Steps, log_delta: float, relative_width: float) -> ContourEvaluation:
        width = max(relative_width, 1e-3)  # a finer answer is planned from a first, cheap one
        infinite_p = at_least_once((pair.infinite_p_ends, count) for pair, count in steps)[1]
        steps, gaussian = without_gaussians(steps)
        rest = safe_log(float(np.exp(log_delta)) - infinite_p)
        log_value = rest if infinite_p > 0.0 else log_delta
        nodes, cumulants = look(steps, gaussian, log_value, width)
        goal = partial(find_saddle, log_value=log_value)
        saddle = goal(cumulants)
        tolerance = 0.5 * width * max(saddle.threshold * saddle.theta, 1e-3)
        return cls._from(steps, nodes, cumulants, [saddle], [goal], min(tolerance, 0.2))

    @classmethod
    def _from(
        cls,
        steps: Steps,
        nodes: Sequence[Nodes | None],
        cumulants: Cumulants,
        saddles: Sequence[Saddle],
        goals: Sequence[Callable[[Cumulants], Saddle]],
        tolerance: float,
        slope: float | None = None,
    ) -> ContourEvaluation:
        """Nodes and contours for the saddles of one threshold, or of the first and the last one."""
        tilts = _tilts(saddles, slope)
        deepest = min(saddle.log_value for saddle in saddles)
        fine, all_nodes = refine(steps, nodes, tilts, deepest, NODE_SHARE * tolerance)
        if coarseness(steps, nodes, saddles[-1].theta) > 0.3:
            # so many repetitions blow up the errors of the first look: plan from the fine nodes
            cumulants = Cumulants(_upper_atoms(steps, fine), cumulants.gaussian)
            saddles = [goal(cumulants) for goal in goals]
            saddles = [replace(saddle, log_value=min(saddle.log_value, 0.0)) for saddle in saddles]
            tilts = _tilts(saddles, slope)
            fine, all_nodes = refine(steps, nodes, tilts, deepest, NODE_SHARE * tolerance)
        plan = make_plan(cumulants, saddles[-1], 0.05 * tolerance)
        if len(saddles) > 1:
            plan = plan_between(cumulants, saddles[0], saddles[-1], 0.05 * tolerance)
        steepest = max(tilts)
        smoothing = np.sqrt(SMOOTHING_SHARE * tolerance / (steepest * (steepest + 1.0)))
        # a Gaussian among the steps damps high frequencies by itself
        gaussian = cumulants.gaussian
        smoothing = 0.0 if gaussian >= smoothing**2 else min(float(smoothing), WIDEST_SMOOTHING)
        damping = float(np.sqrt(smoothing**2 + gaussian))
        size, all_frequencies = frequency_count(plan, damping, tolerance)
        if len(saddles) > 1 and size > _MOST_FOR_RANGES:
            raise Declined("so wide a range takes more frequencies than its questions one by one")
        contours, log_infinite = {}, {}
        for side in Side:
            tables = [_table(pair, part, side) for (pair, _), part in zip(steps, fine, strict=True)]
            counts = [float(count) for _, count in steps]
            contours[side] = contour_of_atoms(
                [(table.atoms, count) for table, count in zip(tables, counts, strict=True)],
                plan,
                size,
                smoothing=smoothing,
                gaussian=gaussian,
                harmless=0.01 * tolerance,
            ).trimmed()
            log_infinite[side] = log_any([table.log_infinite_p for table in tables], counts)
        complete = all_nodes and all_frequencies
        return cls(plan.saddle, tolerance, not complete, contours, log_infinite)

    @property
    def size(self) -> int:
        return sum(contour.frequencies.size for contour in self.contours.values())

    def log_finite_delta(self, epsilon: float) -> float:
        return self.contours[Side.UPPER].log_call(epsilon)[1]

    def log_delta(self, epsilon: float, side: Side) -> float:
        return float(self._end(np.array([epsilon]), side)[0])

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        return self._end(epsilons, Side.LOWER), self._end(epsilons, Side.UPPER)

    def _end(self, epsilons: Array, side: Side) -> Array:
        """One end of log delta at many epsilons: finite losses, and the mass at infinite loss."""
        low, high = self.contours[side].log_calls(epsilons)
        value = high if side is Side.UPPER else low
        rest = self.log_infinite[side]
        if not np.isfinite(rest):
            return value
        total = np.logaddexp(value, rest)
        # a few units of the mass's logarithm, which are no more than as many of the sum's, or of one
        outwards = 1e-14 * (1.0 + np.abs(total))
        return np.asarray(total + outwards if side is Side.UPPER else total - outwards)

    def epsilon(self, log_delta: float, side: Side) -> float:
        start = self.saddle.threshold
        if self.size > 1 << 17 and not np.isfinite(self.log_delta(start, side)):
            # so much work for nothing: looking elsewhere would take long
            return np.inf if side is Side.UPPER else 0.0
        return super().epsilon(log_delta, side)


def _goals(
    thresholds: Thresholds,
) -> tuple[Callable[[Cumulants], Saddle], Callable[[Cumulants], Saddle]]:
    """How the saddles of the first and the last one of many thresholds are found."""
    first, last = thresholds.first, thresholds.last
    if thresholds.by_value:
        return (
            partial(find_saddle, log_value=min(0.5 * first, first + 1.0)),
            partial(find_saddle, log_value=last - 1.0),
        )

    def at_last(cumulants: Cumulants) -> Saddle:
        reached = min(last, first + 0.98 * (cumulants.largest_total - first))
        return find_saddle(cumulants, threshold=reached)

    return partial(find_saddle, threshold=first), at_last


def _tilts(saddles: Sequence[Saddle], slope: float | None) -> list[float]:
    """Tilts for which nodes are to be fine enough: of all saddles, and how fast delta falls there."""
    return [saddle.theta for saddle in saddles] + [slope or 1.5 * saddles[-1].theta]


def look(
    steps: Steps, gaussian: float, log_value: float, tolerance: float
) -> tuple[list[Nodes | None], Cumulants]:
    """Coarse nodes of every pair that reach far enough for a value of this size, and their cumulants."""
    total = float(sum(count for _, count in steps))
    floor = log_value - np.log(total) + np.log(min(tolerance, 1e-2)) - 5.0
    nodes = [None if isinstance(p, AtomicPair) else first_look(p, floor) for p, _ in steps]
    return nodes, Cumulants(_upper_atoms(steps, nodes), gaussian)


def _upper_atoms(steps: Steps, nodes: Sequence[Nodes | None]) -> list[tuple[Atoms, float]]:
    """The upper atoms of every pair with its repetitions; pairs without nodes are atomic."""
    return [
        (_table(pair, part, Side.UPPER).atoms, float(count))
        for (pair, count), part in zip(steps, nodes, strict=True)
    ]


def _table(pair: Pair, nodes: Nodes | None, side: Side) -> LossDistribution:
    """The loss distribution of one pair on one side."""
    if nodes is None:
        assert isinstance(pair, AtomicPair)
        return exact(pair, side)
    return nodes.chords if side is Side.UPPER else lower(nodes)


def coarseness(steps: Steps, nodes: Sequence[Nodes | None], theta: float) -> float:
    """How far apart the two sides of these nodes are in log M_T(theta)."""
    total = 0.0
    for (_, count), part in zip(steps, nodes, strict=True):
        if part is not None:
            shares = node_shares(part, theta, float(count))
            total += float(np.sum(np.exp(np.minimum(shares, 60.0))))
    return total


def refine(
    steps: Steps,
    nodes: Sequence[Nodes | None],
    tilts: Sequence[float],
    log_value: float,
    tolerance: float,
) -> tuple[list[Nodes | None], bool]:
    """Nodes fine enough that the two sides differ by about tolerance in log delta; whether they are.

    The largest share of a cell over the given tilts counts; no loss can weigh more than one over the
    value, since a profile is at most one.
    """
    shares: list[Array] = []
    for (_, count), part in zip(steps, nodes, strict=True):
        if part is None:
            shares.append(np.zeros(0))
            continue
        logs = [node_shares(part, theta, float(count), -log_value) for theta in tilts]
        shares.append(np.exp(np.minimum(np.max(logs, axis=0), 60.0) / 3.0))
    total = sum(float(np.sum(share)) for share in shares)
    wanted = np.sqrt(total**3 / tolerance)
    factor = min(wanted, MOST_NODES) / max(total, 1e-300)
    fine = [
        None if part is None else refined(part, pieces_of(share, factor))
        for part, share in zip(nodes, shares, strict=True)
    ]
    return fine, wanted <= MOST_NODES
