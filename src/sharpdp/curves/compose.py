"""Composition: certified brackets for delta(epsilon) and epsilon(delta) of many experiments together.

A question fixes the tilt; the tilt fixes where nodes are needed; nodes give two LossDistributions; each
is composed on a contour. The bracket is refined until it is as narrow as asked. One direction (P against
Q) at a time; the other is the composition of the reversed pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
_ROUNDS = 5
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
        wanted = tolerance
        for _ in range(_ROUNDS):
            work = Workings.for_threshold(self, epsilon, wanted)
            low = max(low, work.log_delta(epsilon, Side.LOWER))
            high = min(high, work.log_delta(epsilon, Side.UPPER))
            if high - low <= tolerance or work.exhausted:
                break
            wanted *= max(0.02, min(0.5, 0.7 * tolerance / (high - low)))
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
        wanted = 0.1 * relative_width
        for _ in range(_ROUNDS):
            work = Workings.for_value(self, log_delta, wanted)
            low = max(low, work.epsilon(log_delta, Side.LOWER))
            high = min(high, work.epsilon(log_delta, Side.UPPER))
            if high - low <= relative_width * high or work.exhausted:
                break
            wanted *= max(0.01, min(0.5, 0.7 * relative_width * high / (high - low)))
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
    exhausted: bool

    @classmethod
    def for_threshold(cls, composition: Composition, epsilon: float, tolerance: float) -> Workings:
        """Prepare delta(epsilon)."""
        log_value = -30.0
        for _ in range(8):
            nodes, cumulants = look(composition.merged, log_value, tolerance)
            saddle = find_saddle(cumulants, threshold=epsilon)
            if saddle.log_value >= log_value - 1.0:
                break
            log_value = 1.2 * saddle.log_value - 5.0
        return cls._from(composition, nodes, cumulants, saddle, tolerance)

    @classmethod
    def for_value(cls, composition: Composition, log_delta: float, width: float) -> Workings:
        """Prepare epsilon(delta); `width` is relative to epsilon."""
        rest = _logged(float(np.exp(log_delta)) - composition.infinite_p)
        log_value = rest if composition.infinite_p > 0.0 else log_delta
        nodes, cumulants = look(composition.merged, log_value, width)
        saddle = find_saddle(cumulants, log_value=log_value)
        tolerance = width * max(saddle.threshold, 1e-3 / saddle.theta) * saddle.theta
        return cls._from(composition, nodes, cumulants, saddle, min(tolerance, 0.2))

    @classmethod
    def _from(
        cls,
        composition: Composition,
        nodes: Sequence[Nodes | None],
        cumulants: Cumulants,
        saddle: Saddle,
        tolerance: float,
    ) -> Workings:
        plan = make_plan(cumulants, saddle, 0.05 * tolerance)
        steps = composition.merged
        fine, all_nodes = refine(steps, nodes, plan.theta, _NODE_SHARE * tolerance)
        counts = [float(count) for _, count in steps]
        smoothing = np.sqrt(_SMOOTHING_SHARE * tolerance / (plan.theta * (plan.theta + 1.0)))
        size, all_frequencies = frequency_count(plan, saddle, smoothing, tolerance)
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
            )
            lost = sum(c * np.log1p(-t.infinite_p) for t, c in zip(tables, counts, strict=True))
            infinite[side] = float(-np.expm1(lost))
        return cls(composition, plan, contours, infinite, not (all_nodes and all_frequencies))

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
    steps: Steps, nodes: Sequence[Nodes | None], theta: float, tolerance: float
) -> tuple[list[Nodes], bool]:
    """Nodes fine enough that the two sides differ by about tolerance in log delta; whether they are.

    The difference is T theta (theta + 1) / M(theta) times the integral of e^{theta u} (chord - tangents),
    a triangle in each cell; a cell cut into k pieces contributes 1/k^2 of it.
    """
    shares: list[Array] = []
    for (_, count), part in zip(steps, nodes, strict=True):
        if part is None:
            shares.append(np.zeros(0))
            continue
        width = np.diff(part.losses)
        middle = 0.5 * (part.losses[:-1] + part.losses[1:])
        log_m = upper(part).atoms.log_moment(theta)
        with np.errstate(divide="ignore"):
            log_share = cell_gaps(part) + theta * middle + np.log(0.5 * width) - log_m
        log_share += np.log(count * theta * (theta + 1.0))
        shares.append(np.exp(np.minimum(log_share, 60.0) / 3.0))
    total = sum(float(np.sum(share)) for share in shares)
    wanted = np.sqrt(total**3 / tolerance)
    factor = min(wanted, _MOST_NODES) / max(total, 1e-300)
    fine = [
        part if part is None else refined(part, np.ceil(factor * share + 1e-9).astype(np.int64).clip(1))
        for part, share in zip(nodes, shares, strict=True)
    ]
    return fine, wanted <= _MOST_NODES


def frequency_count(
    plan: Plan, saddle: Saddle, smoothing: float, tolerance: float
) -> tuple[int, bool]:
    """How many frequencies reach to where the smoothing has damped everything; whether all fit."""
    reach = np.sqrt(2.0 * max(np.log(1e4 / tolerance) + np.log1p(1.0 / (saddle.theta)), 20.0))
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
