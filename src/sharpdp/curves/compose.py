"""Composition: certified brackets for delta(epsilon) and epsilon(delta) of many experiments together.

A question fixes the tilt; the tilt fixes where nodes are needed; nodes give two LossDistributions; each
is composed on a contour. The bracket is refined until it is as narrow as asked. One direction (P against
Q) at a time; the other is the composition of the reversed pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.discretize import Nodes, cell_gaps, exact, first_look, lower, refined, upper
from sharpdp.curves.pair import AtomicPair, GaussianPair, Pair
from sharpdp.curves.plan import Cumulants, Plan, Saddle, find_saddle, make_plan
from sharpdp.errors import NotCertified
from sharpdp.numerics.contour import Contour, make_contour
from sharpdp.numerics.special import Array

# How a requested relative width of delta is split: nodes, smoothing; the rest covers aliases and rounding.
_NODE_SHARE, _SMOOTHING_SHARE = 0.5, 0.3
_MOST_NODES = 400_000
_ROUNDS = 6
# Relative width of a first, cheap answer from which the real one is planned.
_COARSE = 1e-3
_ROOT_STEPS = 60
_MOST_FREQUENCIES = 1 << 21
# Largest losses are sums of rounded logarithms: thresholds this close to them are not told apart.
_EDGE = 1e-12

Steps = tuple[tuple[Pair, int], ...]


@dataclass(frozen=True)
class Composition:
    """P against Q for a sequence of independent experiments, each repeated a number of times."""

    steps: Steps

    def reverse(self) -> Composition:
        """The other direction."""
        return Composition(tuple((pair.reverse(), count) for pair, count in self.steps))

    @cached_property
    def merged(self) -> Steps:
        """Equal pairs together, all Gaussians as one (their squared distances add up)."""
        counts: dict[Pair, int] = {}
        square = 0.0
        for pair, count in self.steps:
            if isinstance(pair, GaussianPair):
                square += count * pair.mu**2
            else:
                counts[pair] = counts.get(pair, 0) + count
        if square > 0.0:
            counts[GaussianPair(float(np.sqrt(square)))] = 1
        return tuple(counts.items())

    @cached_property
    def single(self) -> Pair | None:
        """The one pair that this is, if it is one."""
        if len(self.merged) == 1 and self.merged[0][1] == 1:
            return self.merged[0][0]
        return None

    @cached_property
    def infinite_p(self) -> float:
        """P-mass at infinite loss."""
        return float(-np.expm1(sum(count * np.log1p(-p.infinite_p) for p, count in self.merged)))

    @cached_property
    def largest_loss(self) -> float:
        """Largest finite total loss (infinite if unbounded)."""
        return float(sum(count * pair.support[1] for pair, count in self.merged))

    def log_delta(self, epsilon: float, tolerance: float) -> tuple[float, float]:
        """Certified (lower, upper) for log delta at epsilon; aims at upper - lower <= tolerance."""
        if self.single is not None:
            return single_log_delta(self.single, epsilon)
        if epsilon >= self.largest_loss * (1.0 + _EDGE):
            return _logged(self.infinite_p), _logged(self.infinite_p)
        low, high = -np.inf, 0.0
        work = Workings.for_threshold(self, epsilon, max(tolerance, 0.02))
        for _ in range(_ROUNDS):
            low = max(low, work.log_delta(epsilon, Side.LOWER))
            high = min(high, work.log_delta(epsilon, Side.UPPER))
            if high - low <= tolerance or work.exhausted:
                break
            slope = work.slope(epsilon, epsilon)
            wanted = work.tolerance * min(0.5, 0.8 * tolerance / (high - low))
            work = Workings.for_threshold(self, epsilon, wanted, slope, high)
        if not low <= high:
            raise NotCertified(_crossed("log delta", low, high))
        return low, high

    def epsilon(self, log_delta: float, relative_width: float) -> tuple[float, float]:
        """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
        if log_delta <= _logged(self.infinite_p):
            top = self.largest_loss
            return (top, top) if log_delta == _logged(self.infinite_p) else (np.inf, np.inf)
        if self.single is not None:
            return single_epsilon(self.single, log_delta)
        low, high = 0.0, self.largest_loss
        work = Workings.for_value(self, log_delta, max(relative_width, _COARSE))
        for _ in range(_ROUNDS):
            low = max(low, work.epsilon(log_delta, Side.LOWER))
            high = min(high, work.epsilon(log_delta, Side.UPPER))
            if high - low <= relative_width * high or work.exhausted:
                break
            slope = work.slope(high, low)
            tolerance = work.tolerance * min(0.5, 0.8 * relative_width * high / (high - low))
            work = Workings.for_threshold(self, high, tolerance, slope, log_delta)
        if not low <= high:
            raise NotCertified(_crossed("epsilon", low, high))
        return low, high


def _logged(x: float) -> float:
    return float(np.log(x)) if x > 0.0 else -np.inf


def _crossed(what: str, low: float, high: float) -> str:
    return (
        f"the two sides of {what} crossed: lower {low!r}, upper {high!r}. This is a defect of sharpdp; "
        "please report the mechanism and the question."
    )


@dataclass(frozen=True)
class Workings:
    """One round of work: a contour for each side, made for one question at one tolerance."""

    composition: Composition
    plan: Plan
    contours: dict[Side, Contour]
    infinite: dict[Side, float]
    tolerance: float
    exhausted: bool

    @classmethod
    def for_threshold(
        cls,
        composition: Composition,
        epsilon: float,
        tolerance: float,
        slope: float | None = None,
        log_delta: float = 0.0,
    ) -> Workings:
        """Prepare delta(epsilon); `slope` is how fast log delta falls there, if known, from log_delta."""
        log_value = min(-30.0, log_delta - 5.0)
        for _ in range(8):
            nodes, cumulants = look(composition.merged, log_value, tolerance)
            saddle = find_saddle(cumulants, threshold=epsilon)
            if saddle.log_value >= log_value - 1.0:
                break
            log_value = 1.2 * saddle.log_value - 5.0
        saddle = replace(saddle, log_value=min(saddle.log_value, log_delta))
        return cls._from(composition, nodes, cumulants, saddle, tolerance, slope)

    @classmethod
    def for_value(cls, composition: Composition, log_delta: float, width: float) -> Workings:
        """Prepare epsilon(delta); `width` is relative to epsilon."""
        rest = _logged(float(np.exp(log_delta)) - composition.infinite_p)
        log_value = rest if composition.infinite_p > 0.0 else log_delta
        nodes, cumulants = look(composition.merged, log_value, width)
        saddle = find_saddle(cumulants, log_value=log_value)
        tolerance = 0.5 * width * max(saddle.threshold * saddle.theta, 1e-3)
        return cls._from(composition, nodes, cumulants, saddle, min(tolerance, 0.2))

    @classmethod
    def _from(
        cls,
        composition: Composition,
        nodes: Sequence[Nodes | None],
        cumulants: Cumulants,
        saddle: Saddle,
        tolerance: float,
        slope: float | None = None,
    ) -> Workings:
        plan = make_plan(cumulants, saddle, 0.05 * tolerance)
        steps = composition.merged
        tilts = (saddle.theta, slope or 1.5 * saddle.theta)
        fine, all_nodes = refine(steps, nodes, tilts, saddle.log_value, _NODE_SHARE * tolerance)
        counts = [float(count) for _, count in steps]
        steepest = max(tilts)
        smoothing = np.sqrt(_SMOOTHING_SHARE * tolerance / (steepest * (steepest + 1.0)))
        size, all_frequencies = frequency_count(plan, smoothing, tolerance)
        contours, infinite = {}, {}
        for side, make in ((Side.LOWER, lower), (Side.UPPER, upper)):
            tables = [
                exact(pair, side) if isinstance(pair, AtomicPair) else make(part)
                for (pair, _), part in zip(steps, fine, strict=True)
            ]
            contours[side] = make_contour(
                [table.atoms for table in tables],
                counts,
                plan.theta,
                plan.window,
                smoothing,
                size,
                plan.right_tilts,
                plan.left_tilts,
                0.01 * tolerance,
            )
            lost = sum(c * np.log1p(-t.infinite_p) for t, c in zip(tables, counts, strict=True))
            infinite[side] = float(-np.expm1(lost))
        complete = all_nodes and all_frequencies
        return cls(composition, plan, contours, infinite, tolerance, not complete)

    def slope(self, high: float, low: float) -> float:
        """About how fast log delta falls with epsilon between two thresholds (not certified)."""
        gap = max(high - low, 1e-3 * high) if np.isfinite(high) else 1.0
        ends = [self.contours[Side.UPPER].log_call(x)[1] for x in (high - gap, high)]
        fall = (ends[0] - ends[1]) / gap
        return fall if np.isfinite(fall) and fall > 0.0 else self.plan.saddle.theta

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta at epsilon, safe on the given side."""
        low, high = self.contours[side].log_call(epsilon)
        value = high if side is Side.UPPER else low
        return float(np.logaddexp(value, _logged(self.infinite[side])))

    def epsilon(self, log_delta: float, side: Side) -> float:
        """epsilon at which this side's delta passes e^log_delta, safe on that side."""
        sign = 1.0 if side is Side.UPPER else -1.0

        def excess(epsilon: float) -> float:
            return self.log_delta(epsilon, side) - log_delta

        return certified_crossing(excess, self.plan.saddle.threshold, self.plan.saddle.theta, sign)


def certified_crossing(
    excess: Callable[[float], float], start: float, slope: float, sign: float
) -> float:
    """A point close to the zero of a decreasing function where sign * excess <= 0 was seen; >= 0.

    Sign +1 asks for a point at or after the crossing, -1 for one at or before it (0 if none is seen).
    """
    x, step_slope = max(start, 0.0), slope
    best = np.inf if sign > 0 else 0.0
    previous: tuple[float, float] | None = None
    for _ in range(_ROOT_STEPS):
        value = excess(x)
        if sign * value <= 0.0:
            better = min(best, x) if sign > 0 else max(best, x)
            best = better
            if abs(value) < 1e-10 or x == 0.0:
                break
        if not np.isfinite(value):
            x = x - sign * np.sign(value) * 2.0 / slope if sign > 0 else x - 1.0 / slope
            if x <= 0.0:
                break
            continue
        if previous is not None and value != previous[1] and x != previous[0]:
            local = -(value - previous[1]) / (x - previous[0])
            if 0.05 * slope < local < 20.0 * slope:
                step_slope = local
        previous = (x, value)
        nudge = 1e-11 if abs(value) < 1e-6 else 1e-3 * abs(value)
        x = max(x + (value + sign * nudge) / step_slope, 0.0)
    return float(best)


def look(
    steps: Steps, log_value: float, tolerance: float
) -> tuple[list[Nodes | None], Cumulants]:
    """Coarse nodes of every pair that reach far enough for a value of this size, and their cumulants."""
    total = float(sum(count for _, count in steps))
    floor = log_value - np.log(total) + np.log(min(tolerance, 1e-2)) - 5.0
    nodes = [None if isinstance(p, AtomicPair) else first_look(p, floor) for p, _ in steps]
    parts = [
        (exact(pair, Side.UPPER).atoms if part is None else upper(part).atoms, float(count))
        for (pair, count), part in zip(steps, nodes, strict=True)
        if part is not None or isinstance(pair, AtomicPair)
    ]
    return nodes, Cumulants(parts)


def refine(
    steps: Steps,
    nodes: Sequence[Nodes | None],
    tilts: Sequence[float],
    log_value: float,
    tolerance: float,
) -> tuple[list[Nodes | None], bool]:
    """Nodes fine enough that the two sides differ by about tolerance in log delta; whether they are.

    Under a tilt the difference is T theta (theta + 1) / M(theta) times the integral of
    e^{theta u} (chord - tangents), a triangle in each cell; a cell cut into k pieces contributes 1/k^2
    of it. The largest share over the given tilts counts; no loss can weigh more than one over the value.
    """
    shares: list[Array] = []
    for (_, count), part in zip(steps, nodes, strict=True):
        if part is None:
            shares.append(np.zeros(0))
            continue
        atoms = upper(part).atoms
        middle = 0.5 * (part.losses[:-1] + part.losses[1:])
        with np.errstate(divide="ignore"):
            log_area = cell_gaps(part) + np.log(0.5 * count * np.diff(part.losses))
        logs = [
            log_area
            + np.log(theta * (theta + 1.0))
            + np.minimum(theta * middle - atoms.log_moment(theta), -log_value)
            for theta in tilts
        ]
        shares.append(np.exp(np.minimum(np.max(logs, axis=0), 60.0) / 3.0))
    total = sum(float(np.sum(share)) for share in shares)
    wanted = np.sqrt(total**3 / tolerance)
    factor = min(wanted, _MOST_NODES) / max(total, 1e-300)
    fine = [
        None if part is None else refined(part, np.ceil(factor * share).astype(np.int64).clip(1))
        for part, share in zip(nodes, shares, strict=True)
    ]
    return fine, wanted <= _MOST_NODES


def frequency_count(plan: Plan, smoothing: float, tolerance: float) -> tuple[int, bool]:
    """How many frequencies reach to where the smoothing has damped everything; whether all fit.

    Frequencies beyond t contribute at most e^{-(w t)^2 / 2} / (pi t (w t)^2) of the contour's scale.
    """
    nats = np.log(smoothing / (0.02 * tolerance)) - plan.log_share
    reach = np.sqrt(2.0 * max(nats - 3.0 * np.log(5.0), 4.0))
    wanted = int(np.ceil(reach / smoothing * plan.window / (2.0 * np.pi))) + 2
    return min(wanted, _MOST_FREQUENCIES), wanted <= _MOST_FREQUENCIES


def single_log_delta(pair: Pair, epsilon: float) -> tuple[float, float]:
    """log delta of one pair at epsilon >= 0, from its profile."""
    value = float(pair.log_otm(np.array([float(epsilon)]))[0])
    rest = _logged(pair.infinite_p)
    low, high = value - 2.0 * pair.accuracy, value + 2.0 * pair.accuracy
    return float(np.logaddexp(low, rest)), min(float(np.logaddexp(high, rest)), 0.0)


def single_epsilon(pair: Pair, log_delta: float) -> tuple[float, float]:
    """epsilon of one pair: bisection on its profile, both ends checked with the profile's accuracy."""
    if single_log_delta(pair, 0.0)[1] <= log_delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while single_log_delta(pair, high)[1] > log_delta:
        low, high = high, 2.0 * high
    upper_low = low
    for _ in range(200):
        middle = 0.5 * (upper_low + high)
        if middle in (upper_low, high):
            break
        if single_log_delta(pair, middle)[1] > log_delta:
            upper_low = middle
        else:
            high = middle
    top = high
    for _ in range(200):
        middle = 0.5 * (low + top)
        if middle in (low, top):
            break
        if single_log_delta(pair, middle)[0] >= log_delta:
            low = middle
        else:
            top = middle
    return low, high
