"""One round of work on one question: nodes, two loss distributions, a contour for each side.

`for_threshold` prepares delta(epsilon), `for_value` prepares epsilon(delta); both aim at a tolerance in
log delta and then answer for thresholds near the one they were made for. Every answer is certified,
whatever the plan was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sharpdp.bracket import Side
from sharpdp.composition.declined import Declined
from sharpdp.composition.discretize import (
    Nodes,
    exact,
    first_look,
    lower,
    node_shares,
    pieces_of,
    refined,
)
from sharpdp.composition.loss_distribution import LossDistribution
from sharpdp.composition.saddle import Cumulants, Plan, Saddle, find_saddle, make_plan
from sharpdp.composition.sampled_gaussian.engine import FINEST, prepared, recognized
from sharpdp.numerics.contour import Chernoff, Contour, make_contour
from sharpdp.numerics.roots import certified_crossing
from sharpdp.numerics.special import Array, log_any, safe_log
from sharpdp.numerics.transform import Atoms, Tilted
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair, Pair

# How a tolerance in log delta is split: nodes, smoothing; the rest covers aliases and rounding.
_NODE_SHARE, _SMOOTHING_SHARE = 0.5, 0.3
_MOST_NODES = 60_000
_MOST_FREQUENCIES = 1 << 19
# With more frequencies than this a contour without an answer is not asked again and again.
_LARGE = 1 << 17
# A wider Gaussian would leave the range in which the rise by smoothing is bounded.
_WIDEST_SMOOTHING = 0.5
# The analytic engine's answer is taken if its two sides are this close in log delta.
_SHARP_ENOUGH = 1e-5
# A plan made for a value is redone if the value it found is further off than this, in nats.
_NEAR_ENOUGH = 0.5
# One that missed its value by more nats even then is of no use.
_TOO_FAR = 3.0
# Nor is a better threshold that is this many nats away, or infinite.
_ASTRAY = 60.0
# If no loss that was looked at reaches the threshold, smaller values are looked at by this factor.
_DEEPER = 4.0
# Planning from the first look is good enough if its two sides are this close in log M_T.
_COARSE_ENOUGH = 0.3

NATS_NEAR = 1.5
"""Work is shared between thresholds that are this many nats apart."""

Steps = tuple[tuple[Pair, int], ...]


@dataclass(frozen=True)
class Question:
    """What a plan is made for: a threshold, or a value to be reached."""

    threshold: float | None = None
    log_value: float | None = None


@dataclass(frozen=True)
class ContourEvaluation:
    """One round of work: a contour for each side, made for one question at one tolerance."""

    plan: Plan
    contours: dict[Side, Contour]
    log_infinite: dict[Side, float]
    tolerance: float
    exhausted: bool

    @classmethod
    def for_threshold(
        cls,
        steps: Steps,
        epsilon: float,
        tolerance: float,
        slope: float | None = None,
        log_delta: float = 0.0,
    ) -> ContourEvaluation:
        """Prepare delta(epsilon); `slope` is how fast log delta falls there, if known, from log_delta."""
        steps, gaussian = without_gaussians(steps)
        log_value = min(-30.0, log_delta - 5.0)
        for _ in range(8):
            nodes, cumulants = look(steps, gaussian, log_value, tolerance)
            if epsilon >= cumulants.most:
                log_value *= _DEEPER
                continue
            saddle = find_saddle(cumulants, threshold=epsilon)
            if saddle.log_value >= log_value - 1.0:
                break
            log_value = 1.2 * saddle.log_value - 5.0
        if epsilon >= cumulants.most:
            raise Declined("no finite loss that matters reaches the threshold")
        saddle = replace(saddle, log_value=min(saddle.log_value, log_delta))
        question = Question(threshold=epsilon)
        return cls._from(steps, nodes, cumulants, saddle, question, tolerance, slope)

    @classmethod
    def for_value(
        cls, steps: Steps, infinite_p: float, log_delta: float, width: float
    ) -> ContourEvaluation:
        """Prepare epsilon(delta); `width` is relative to epsilon."""
        steps, gaussian = without_gaussians(steps)
        rest = safe_log(float(np.exp(log_delta)) - infinite_p)
        log_value = rest if infinite_p > 0.0 else log_delta
        nodes, cumulants = look(steps, gaussian, log_value, width)
        saddle = find_saddle(cumulants, log_value=log_value)
        tolerance = 0.5 * width * max(saddle.threshold * saddle.theta, 1e-3)
        question = Question(log_value=log_value)
        return cls._from(steps, nodes, cumulants, saddle, question, min(tolerance, 0.2))

    @classmethod
    def analytic(
        cls, steps: Steps, *, threshold: float | None = None, log_value: float | None = None
    ) -> ContourEvaluation:
        """Prepare either from closed moments; declines where a step has none or that is not sharp.

        One contour serves both sides.
        """
        plan, contour = prepared(recognized(steps), threshold=threshold, log_value=log_value)
        sides = {Side.LOWER: contour, Side.UPPER: contour}
        work = cls(plan, sides, dict.fromkeys(Side, -np.inf), FINEST, exhausted=False)
        low, high = contour.log_call(plan.saddle.threshold)
        if log_value is not None and abs(high - log_value) > _NEAR_ENOUGH and high - low < 1.0:
            # the first guess of the threshold was rough; what it gave leads to a better one
            better = work.epsilon(log_value, Side.UPPER)
            astray = abs(better - plan.saddle.threshold) * plan.saddle.theta > _ASTRAY
            if astray:
                raise Declined("the value leads to no threshold")
            again = cls.analytic(steps, threshold=better)
            if not abs(again.log_delta(better, Side.UPPER) - log_value) < _TOO_FAR:
                raise Declined("the threshold for the value was missed")
            return again
        if not high - low <= _SHARP_ENOUGH:
            raise Declined("rounding is too large for closed moments")
        return work

    @classmethod
    def _from(
        cls,
        steps: Steps,
        nodes: Sequence[Nodes | None],
        cumulants: Cumulants,
        saddle: Saddle,
        question: Question,
        tolerance: float,
        slope: float | None = None,
    ) -> ContourEvaluation:
        tilts = (saddle.theta, slope or 1.5 * saddle.theta)
        fine, all_nodes = refine(steps, nodes, tilts, saddle.log_value, _NODE_SHARE * tolerance)
        if coarseness(steps, nodes, saddle.theta) > _COARSE_ENOUGH:
            # so many repetitions blow up the errors of the first look: plan from the fine nodes
            cumulants = Cumulants(_upper_atoms(steps, fine), cumulants.gaussian)
            known = saddle.log_value
            saddle = find_saddle(
                cumulants, threshold=question.threshold, log_value=question.log_value
            )
            saddle = replace(saddle, log_value=min(saddle.log_value, 0.0))
            tilts = (saddle.theta, slope or 1.5 * saddle.theta)
            fine, all_nodes = refine(steps, nodes, tilts, known, _NODE_SHARE * tolerance)
        plan = make_plan(cumulants, saddle, 0.05 * tolerance)
        steepest = max(tilts)
        smoothing = np.sqrt(_SMOOTHING_SHARE * tolerance / (steepest * (steepest + 1.0)))
        # a Gaussian among the steps damps high frequencies by itself
        gaussian = cumulants.gaussian
        smoothing = 0.0 if gaussian >= smoothing**2 else min(float(smoothing), _WIDEST_SMOOTHING)
        damping = float(np.sqrt(smoothing**2 + gaussian))
        size, all_frequencies = frequency_count(plan, damping, tolerance)
        contours, log_infinite = {}, {}
        for side in Side:
            contours[side], log_infinite[side] = _composed(
                steps, fine, side, plan, (smoothing, gaussian), size, 0.01 * tolerance
            )
        complete = all_nodes and all_frequencies
        return cls(plan, contours, log_infinite, tolerance, exhausted=not complete)

    def serves(self, epsilon: float) -> bool:
        """Whether this is likely to be sharp at epsilon as well."""
        saddle = self.plan.saddle
        return abs(epsilon - saddle.threshold) * saddle.theta <= NATS_NEAR

    @property
    def saddle(self) -> Saddle:
        """The threshold that this was made for, with the tilt there."""
        return self.plan.saddle

    @property
    def size(self) -> int:
        """How many frequencies are held."""
        return sum(contour.frequencies.size for contour in self.contours.values())

    def slope(self, epsilon: float) -> float:
        """About how fast log delta falls with epsilon (not certified)."""
        contour, theta = self.contours[Side.UPPER], self.plan.saddle.theta
        if not np.isfinite(epsilon):
            return theta
        step = 1e-4 / theta
        fall = (contour.log_call(epsilon - step)[1] - contour.log_call(epsilon + step)[1]) / step
        return 0.5 * fall if np.isfinite(fall) and fall > 0.0 else theta

    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta at epsilon, safe on the given side."""
        low, high = self.contours[side].log_call(epsilon)
        value = high if side is Side.UPPER else low
        rest = self.log_infinite[side]
        if not np.isfinite(rest):
            return value
        sign = 1.0 if side is Side.UPPER else -1.0
        total = float(np.logaddexp(value, rest + sign * 1e-14 * (1.0 + abs(rest))))
        return total + sign * 1e-15 * (1.0 + abs(total))

    def epsilon(self, log_delta: float, side: Side) -> float:
        """epsilon at which this side's delta passes e^log_delta, safe on that side."""
        sign = 1.0 if side is Side.UPPER else -1.0

        def excess(epsilon: float) -> float:
            return self.log_delta(epsilon, side) - log_delta

        if self.size > _LARGE and not np.isfinite(excess(self.plan.saddle.threshold)):
            # so much work for nothing: looking elsewhere would take long
            return np.inf if side is Side.UPPER else 0.0
        return certified_crossing(excess, self.plan.saddle.threshold, self.plan.saddle.theta, sign)


def _composed(
    steps: Steps,
    nodes: Sequence[Nodes | None],
    side: Side,
    plan: Plan,
    widths: tuple[float, float],
    size: int,
    harmless: float,
) -> tuple[Contour, float]:
    """The contour of one side, and the log of the P-mass at infinite loss there.

    `widths` are the smoothing's standard deviation and the variance of the Gaussian steps.
    """
    tables = [_table(pair, part, side) for (pair, _), part in zip(steps, nodes, strict=True)]
    counts = [float(count) for _, count in steps]
    many = [(table.atoms, count) for table, count in zip(tables, counts, strict=True)]
    contour = make_contour(
        [tilted(part, plan.theta) for part, _ in many],
        counts,
        plan.window,
        size,
        smoothing=widths[0],
        gaussian=widths[1],
        harmless=harmless,
        log_finite=sum(count * np.log1p(-part.deficit) for part, count in many),
        chernoff=Chernoff.of(many, plan.right_tilts, plan.left_tilts),
    )
    return contour, log_any([table.log_infinite_p for table in tables], counts)


def tilted(atoms: Atoms, theta: float) -> Tilted:
    """Atoms under a tilt; declines if that leaves nothing but rounding errors."""
    result = atoms.tilted(theta)
    if not np.isfinite(result.structured):
        raise Declined("the moment at this tilt is lost in rounding")
    return result


def without_gaussians(steps: Steps) -> tuple[Steps, float]:
    """The other steps, and the variance of the loss of all Gaussian ones together."""
    others = tuple((pair, count) for pair, count in steps if not isinstance(pair, GaussianPair))
    square = sum(count * pair.mu**2 for pair, count in steps if isinstance(pair, GaussianPair))
    return others, square


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
    factor = min(wanted, _MOST_NODES) / max(total, 1e-300)
    fine = [
        None if part is None else refined(part, pieces_of(share, factor))
        for part, share in zip(nodes, shares, strict=True)
    ]
    return fine, wanted <= _MOST_NODES


def frequency_count(plan: Plan, damping: float, tolerance: float) -> tuple[int, bool]:
    """How many frequencies reach to where the Gaussians have damped everything; whether all fit.

    Frequencies beyond t contribute at most e^{-(w t)^2 / 2} / (pi t (w t)^2) of the contour's scale.
    """
    nats = np.log(damping / (0.02 * tolerance)) - plan.log_share
    reach = np.sqrt(2.0 * max(nats - 3.0 * np.log(5.0), 4.0))
    if not np.isfinite(reach / damping * plan.window):
        raise Declined("the masses are beyond all doubles, so that no plan is a number")
    wanted = int(np.ceil(reach / damping * plan.window / (2.0 * np.pi))) + 2
    return min(wanted, _MOST_FREQUENCIES), wanted <= _MOST_FREQUENCIES
