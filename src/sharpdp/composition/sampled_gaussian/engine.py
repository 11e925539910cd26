"""Poisson-sampled Gaussians without a grid of losses: their moments by quadrature, to twelve digits.

With noise N(0, 1) in units of the noise, mu = 1/noise multiplier and

    w(y) = 1 - q + q e^{mu y - mu^2/2},      A(s) = E[w(y)^s],  y ~ N(0, 1),

the generating function of the loss is M(z) = A(z + 1) where the record is present under P, and
M(z) = A(-z) in the other direction. The trapezoid rule in y converges geometrically, because w has no
zero within |Im y| < pi/mu. Contour and Chernoff bounds are those of every composition; there is no
smoothing, since the losses have densities, whose characteristic functions are bounded layer by layer.

This engine declines when it would be slow or inexact: few repetitions, tilts that reach
into the far tail, too many nodes or frequencies. The generic engine then answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sharpdp.bracket import Side
from sharpdp.composition.engine import (
    Cumulants,
    Declined,
    Engine,
    Plan,
    Saddle,
    Steps,
    find_saddle,
    make_plan,
    window_for,
)
from sharpdp.composition.sampled_gaussian.density import (
    Batch,
    Line,
    SampledGaussian,
    last_frequency,
    lattice,
    layers_of,
    log_moments,
)
from sharpdp.composition.sampled_gaussian.quadrature import tables
from sharpdp.numerics.contour import Chernoff, Contour, make_contour
from sharpdp.numerics.special import Array
from sharpdp.numerics.transform import Atoms
from sharpdp.pairs.pair import GaussianPair, ReversedPair
from sharpdp.pairs.subsampled import PoissonSampledPair

FEWEST_REPETITIONS = 32
MOST_FREQUENCIES = 8_000
FINEST = 1e-8
"""Tolerance in log delta that is aimed at, however coarse the question: it costs little."""

_PLANNED = 1e-5
"""Plans may lose as many nats as this tolerance leaves: a smaller tilt than the saddle's is safe from the
explosion of moments beyond it, and shortens the window by far; rounding allows for more than FINEST."""

_EXTRA_TILTS = np.array([0.04, 0.1, 0.25, 0.5, 1.0])
_FEWEST_NATS = 40.0
# Rounding of a sum for log A(s).
_SUM_ERROR = 5e-14
# Closer to one than this, the generic engine's two sides are the better tool.
_LARGEST_LOG_VALUE = -0.02
# A first contour is good enough for a threshold at which its two sides are this close in log delta.
_SHARP = 1e-7
# The threshold for a value is looked for until the value is this close, in nats.
_SECANTS, _CROSSED = 10, 1e-7
# A first look with more points than this would take longer than the other engines.
_LONGEST_LOOK = 1 << 17
# An answer is taken if its two sides are this close in log delta.
_SHARP_ENOUGH = 1e-5
# A plan made for a value is redone if the value it found is further off than this, in nats; one that
# missed its value by more than the second number even then is of no use.
_NEAR_ENOUGH, _TOO_FAR = 0.5, 3.0
# Nor is a better threshold that is this many nats away, or infinite.
_ASTRAY = 60.0
# So many kinds of steps are worked on together: enough to be quick, few enough to stay small.
_ROWS = 64


@dataclass(frozen=True)
class SampledGaussianEvaluation(Engine):
    """One contour from closed moments, which serves both sides; no mass is at infinite loss."""

    contour: Contour

    @classmethod
    def for_threshold(
        cls,
        steps: Steps,
        epsilon: float,
        tolerance: float,
        coarser: Engine | None = None,
        log_delta: float = 0.0,
    ) -> SampledGaussianEvaluation:
        if tolerance < FINEST:
            raise Declined("it is as fine as that from the start, or never")
        plan, contour = prepared(batches_of(steps), threshold=epsilon)
        return cls(plan.saddle, FINEST, exhausted=False, contour=contour)._sharp()

    @classmethod
    def for_value(
        cls, steps: Steps, log_delta: float, relative_width: float
    ) -> SampledGaussianEvaluation:
        plan, contour = prepared_for_value(batches_of(steps), log_delta)
        work = cls(plan.saddle, FINEST, exhausted=False, contour=contour)
        threshold, theta = plan.saddle.threshold, plan.saddle.theta
        low, high = contour.log_call(threshold)
        if not (abs(high - log_delta) > _NEAR_ENOUGH and high - low < 1.0):
            return work._sharp()
        # the first guess of the threshold was rough; what it gave leads to a better one
        better = work.epsilon(log_delta, Side.UPPER)
        if abs(better - threshold) * theta > _ASTRAY:
            raise Declined("the value leads to no threshold")
        work = cls.for_threshold(steps, better, FINEST)
        if not abs(work.log_delta(better, Side.UPPER) - log_delta) < _TOO_FAR:
            raise Declined("the threshold for the value was missed")
        return work

    def _sharp(self) -> SampledGaussianEvaluation:
        """This work if rounding leaves enough of its digits; it declines otherwise."""
        low, high = self.contour.log_call(self.saddle.threshold)
        if not high - low <= _SHARP_ENOUGH:
            raise Declined("rounding is too large for closed moments")
        return self

    @property
    def size(self) -> int:
        return self.contour.frequencies.size

    def log_delta(self, epsilon: float, side: Side) -> float:
        low, high = self.contour.log_call(epsilon)
        return high if side is Side.UPPER else low


def batches_of(steps: Steps) -> list[Batch]:
    """The steps in batches of similar ones, which need about as many nodes.

    Declines unless all are Poisson-sampled Gaussians, often enough repeated.
    """
    parts = []
    for pair, count in steps:
        sign = 1
        if isinstance(pair, ReversedPair):
            pair, sign = pair.forward, -1
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        parts.append(SampledGaussian(pair.rate, pair.base.mu, sign, float(count)))
    if sum(part.count for part in parts) < FEWEST_REPETITIONS:
        raise Declined("too few repetitions")
    alike = sorted(parts, key=lambda part: part.mu)
    return [Batch.of(alike[start : start + _ROWS]) for start in range(0, len(alike), _ROWS)]


def prepared_for_value(many: Sequence[Batch], log_value: float) -> tuple[Plan, Contour]:
    """A plan and a contour for about the threshold that has this value."""
    plan, contour = prepared(many, log_value=log_value)
    # the first guess of the threshold may be rough; what it gave leads to a better one
    better = _crossing(contour, plan.saddle, log_value)
    if better is None:
        return plan, contour
    low, high = contour.log_call(better.threshold)
    if high - low <= _SHARP:
        return replace(plan, saddle=better), contour
    return prepared(many, threshold=better.threshold)


def _crossing(contour: Contour, saddle: Saddle, log_value: float) -> Saddle | None:
    """About the threshold at which the contour takes a value, by the secant method; None if it fails."""
    at, slope = saddle.threshold, saddle.theta
    excess = contour.log_call(at)[1] - log_value
    for _ in range(_SECANTS):
        if not np.isfinite(excess):
            return None
        following = max(at + excess / slope, 0.0)
        if abs(excess) < _CROSSED or following == at:
            break
        over = contour.log_call(following)[1] - log_value
        seen = (excess - over) / (following - at)
        slope = seen if 0.1 * slope < seen < 10.0 * slope else slope
        at, excess = following, over
    return replace(saddle, threshold=at, log_value=log_value)


def prepared(
    many: Sequence[Batch], *, threshold: float | None = None, log_value: float | None = None
) -> tuple[Plan, Contour]:
    """A plan for one threshold or value from a coarse look, and its contour."""
    plan = _planned(many, threshold, log_value)
    lines = _lines(many, plan)
    chernoff, log_m = _chernoff(lines, plan)
    plan = replace(plan, window=window_for(chernoff, plan.theta, plan.saddle, 0.05 * FINEST))
    found = last_frequency(
        [
            layers_of(line, line.batch.exponent(plan.theta), log_a)
            for line, log_a in zip(lines, log_m, strict=True)
        ],
        0.02 * FINEST * float(np.exp(plan.log_share)),
        2.0 * np.pi / plan.window * MOST_FREQUENCIES,
    )
    if found is None:
        raise Declined("too many frequencies")
    size = int(np.ceil(found[0] * plan.window / (2.0 * np.pi))) + 1
    if size > MOST_FREQUENCIES:
        raise Declined("too many frequencies")
    return plan, _contour(lines, plan, size, found[1], chernoff)


def _contour(
    lines: Sequence[Line], plan: Plan, size: int, beyond: float, chernoff: Chernoff
) -> Contour:
    """The contour with so many frequencies; declines if a table would be too large.

    Tables are exact to about FINEST / repetitions.
    """
    last = 2.0 * np.pi / plan.window * (size - 1)
    complete, counts = [], []
    for line in lines:
        count = line.batch.count
        log_error = np.log(1e-3 * FINEST / count) + min(plan.log_share, 0.0)
        rows = tables(line, plan.theta, last, log_error)
        if rows is None:
            raise Declined("too many nodes")
        complete += rows
        counts += count[:, 0].tolist()
    return make_contour(
        complete,
        counts,
        plan.window,
        size,
        beyond=beyond,
        harmless=0.1 * FINEST,
        chernoff=chernoff,
    )


def _planned(many: Sequence[Batch], threshold: float | None, log_value: float | None) -> Plan:
    """A first plan from a coarse look; declines where delta is too close to one."""
    guess = -30.0 if log_value is None else log_value
    for _ in range(6):
        cumulants = _look(many, guess)
        saddle = find_saddle(cumulants, threshold=threshold, log_value=log_value)
        if log_value is not None or saddle.log_value >= guess - 1.0:
            break
        guess = 1.2 * saddle.log_value - 5.0
    if saddle.log_value > _LARGEST_LOG_VALUE:
        raise Declined("delta is too close to one")
    return make_plan(cumulants, saddle, _PLANNED, _EXTRA_TILTS, np.zeros(0))


def _look(many: Sequence[Batch], log_value: float) -> Cumulants:
    """Coarse quadrature that reaches all y which matter for a value of this size."""
    coarse = []
    for batch in many:
        nats = np.maximum(_FEWEST_NATS, -log_value + np.log(batch.count) + 14.0)
        low = -np.sqrt(2.0 * nats)
        high = batch.mu + np.sqrt(2.0 * np.maximum(_FEWEST_NATS, nats + np.log(batch.rate)))
        step = np.minimum(0.2, 0.35 / batch.mu)
        if np.max((high - low) / step) > _LONGEST_LOOK:
            raise Declined("so little noise takes too many points")
        y, inside = lattice(low, high, step)
        log_w = batch.log_ratio(y)
        log_p = np.where(batch.sign > 0, log_w, 0.0) - 0.5 * y * y
        log_p = np.where(inside, log_p + np.log(step) - 0.5 * np.log(2.0 * np.pi), -np.inf)
        points = np.where(inside, batch.sign * log_w, 0.0)
        coarse += [
            (Atoms(*row), count)
            for *row, count in zip(points, log_p, batch.count[:, 0].tolist(), strict=True)
        ]
    return Cumulants(coarse)


def _lines(many: Sequence[Batch], plan: Plan) -> list[Line]:
    """Where the moments at the plan's tilts draw their mass from; declines if that is too far."""
    lines = []
    for batch in many:
        s = batch.exponent(_tilts(plan))
        least, most = np.min(s, axis=1, keepdims=True), np.max(s, axis=1, keepdims=True)
        line = Line(batch, np.minimum(least, 0.0), np.maximum(most, 1.0))
        if line.too_long:
            raise Declined("the tilts reach too far into the tail")
        lines.append(line)
    return lines


def _tilts(plan: Plan) -> Array:
    """The tilt itself and those for Chernoff's bounds on both sides."""
    return np.concatenate([[plan.theta], plan.right_tilts, -plan.left_tilts])


def _chernoff(lines: Sequence[Line], plan: Plan) -> tuple[Chernoff, list[Array]]:
    """log M_T at the plan's Chernoff tilts, and each row's log M at its tilt."""
    tilts = _tilts(plan)
    total, at_tilt = np.zeros(tilts.size), []
    for line in lines:
        log_a = log_moments(line, line.batch.exponent(tilts))
        at_tilt.append(log_a[:, :1])
        total += np.sum(line.batch.count * (log_a + _SUM_ERROR), axis=0)
    right, left = np.split(total[1:], [plan.right_tilts.size])
    return Chernoff(plan.right_tilts, right, plan.left_tilts, left), at_tilt
