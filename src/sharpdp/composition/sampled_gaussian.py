"""Poisson-sampled Gaussians without a grid of losses: their moments by quadrature, to twelve digits.

With noise N(0, 1) in units of the noise, mu = 1/noise multiplier and

    w(y) = 1 - q + q e^{mu y - mu^2/2},      A(s) = E[w(y)^s],  y ~ N(0, 1),

the generating function of the loss is M(z) = A(z + 1) where the record is present under P, and
M(z) = A(-z) in the other direction. The trapezoid rule in y converges geometrically, because w has no
zero within |Im y| < pi/mu. Contour and Chernoff bounds are those of every composition; there is no
smoothing, since the losses have densities, whose characteristic functions are bounded layer by layer.

Everything is done for many kinds of steps at once: one row each, and columns where a number differs
between them. The rows may belong to one composition or to many: plans and moments of a whole sweep are
one table. This engine declines when it would be slow or inexact: few repetitions, tilts that reach into
the far tail, too many nodes or frequencies. The next engine then answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.bracket import Side
from sharpdp.composition.engine import ContourPlan, Declined, Engine, Saddle, Steps
from sharpdp.numerics.contour import (
    SUM_ERROR,
    Chernoff,
    Contour,
    Tilted,
    log_call_constant,
    log_strip_error,
    make_contour,
    step_for,
)
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    ComplexArray,
    log_convexity_gap,
    log_mixture,
    log_sum,
)
from sharpdp.pairs.pair import GaussianPair, Pair, ReversedPair
from sharpdp.pairs.subsampled import PoissonSampledPair

FINEST = 1e-8
"""Tolerance in log delta that is aimed at, however coarse the question: it costs little."""

MOST_FREQUENCIES = 8_000
"""With more frequencies than this the engine declines."""

MOST_NODES = 20_000
"""With more quadrature nodes than this the engine declines."""

_SUM_ERROR = 5e-14
"""Rounding of a sum for log A(s)."""

_NO_OVERFLOW = 700.0

_STRIPS = np.pi * np.array([0.05, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85])
"""Half-widths of strips to choose from, at mu = 1."""

_LOOK = np.linspace(0.0, 1.0, 96)
"""Where a coarse look is taken, as parts of a range."""

_BLOCK = 256
"""So many moments of one kind of step are summed together."""


@dataclass(frozen=True)
class SampledGaussianEvaluation(Engine):
    """One contour from closed moments, which serves both sides; no mass is at infinite loss."""

    contour: Contour
    fall: float
    """About how fast log delta falls at the threshold that it was made for."""
    ends: tuple[float, float]
    """The two ends of log delta there."""

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
        return cls._at_threshold(epsilon, prepared(kinds_of(steps), threshold=epsilon))

    @classmethod
    def for_thresholds(
        cls, compositions: Sequence[Steps], epsilons: Array
    ) -> list[SampledGaussianEvaluation | Declined]:
        """`for_threshold` of several compositions at once: the work of each, or why there is none.

        Declines as a whole if one of the compositions cannot even be planned.
        """
        made = contours_of([kinds_of(steps) for steps in compositions], thresholds=epsilons)
        works: list[SampledGaussianEvaluation | Declined] = []
        for epsilon, result in zip(epsilons.tolist(), made, strict=True):
            try:
                works.append(cls._at_threshold(epsilon, result))
            except Declined as reason:
                works.append(reason)
        return works

    @classmethod
    def _at_threshold(
        cls, epsilon: float, made: tuple[ContourPlan, Contour] | Declined
    ) -> SampledGaussianEvaluation:
        if isinstance(made, Declined):
            raise made
        plan, contour = made
        low, high = contour.log_call(epsilon)
        return cls._sharp(plan.saddle, contour, plan.saddle.theta, low, high)

    @classmethod
    def for_value(
        cls, steps: Steps, log_delta: float, relative_width: float
    ) -> SampledGaussianEvaluation:
        kinds = kinds_of(steps)
        return cls._at_value(kinds, log_delta, prepared(kinds, log_value=log_delta))

    @classmethod
    def for_values(
        cls, compositions: Sequence[Steps], log_deltas: Array
    ) -> list[SampledGaussianEvaluation | Declined]:
        """`for_value` of several compositions at once: the work of each, or why there is none.

        Declines as a whole if one of the compositions cannot even be planned.
        """
        kinds = [kinds_of(steps) for steps in compositions]
        made = contours_of(kinds, log_values=log_deltas)
        works: list[SampledGaussianEvaluation | Declined] = []
        for own, log_delta, result in zip(kinds, log_deltas.tolist(), made, strict=True):
            try:
                works.append(cls._at_value(own, log_delta, result))
            except Declined as reason:
                works.append(reason)
        return works

    @classmethod
    def _at_value(
        cls,
        kinds: Sequence[StepKind],
        log_delta: float,
        made: tuple[ContourPlan, Contour] | Declined,
    ) -> SampledGaussianEvaluation:
        """The work from a first contour; the threshold that it leads to may ask for a better one."""
        if isinstance(made, Declined):
            raise made
        saddle, fall, low, high = contour_crossing(made[1], made[0].saddle, log_delta)
        if high - low > 1e-7:
            made = prepared(kinds, threshold=saddle.threshold)
            saddle, fall, low, high = contour_crossing(made[1], made[0].saddle, log_delta)
        if not abs(high - log_delta) < 3.0:
            raise Declined("the threshold for the value was missed")
        return cls._sharp(saddle, made[1], fall, low, high)

    @classmethod
    def _sharp(
        cls, saddle: Saddle, contour: Contour, fall: float, low: float, high: float
    ) -> SampledGaussianEvaluation:
        """The work if rounding leaves enough digits at its threshold; it declines otherwise."""
        if not high - low <= 1e-5:
            raise Declined("rounding is too large for closed moments")
        return cls(saddle, FINEST, exhausted=False, contour=contour, fall=fall, ends=(low, high))

    @property
    def size(self) -> int:
        return self.contour.frequencies.size

    def epsilon_ends(self, log_delta: float, rounding: float) -> tuple[float, float]:
        # next to the threshold that it was made for, where straight lines lead from the two ends
        before = after = self.saddle.threshold
        low, high = self.ends
        nudge = 0.01 * (high - low) + 1e-14 * (1.0 - log_delta)
        for _ in range(4):
            less, more = log_delta + rounding - low, high - log_delta + rounding
            if not abs(less) + abs(more) < 1e-4:
                break
            before = max(before - (less + nudge) / self.fall, 0.0)
            after = after + (more + nudge) / self.fall
            lows, highs = self.contour.log_calls(np.array([before, after]))
            low, high = float(lows[0]), float(highs[1])
            if low >= log_delta + rounding and high <= log_delta - rounding:
                return before, after
        return super().epsilon_ends(log_delta, rounding)

    def log_delta(self, epsilon: float, side: Side) -> float:
        low, high = self.contour.log_call(epsilon)
        return high if side is Side.UPPER else low

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        return self.contour.log_calls(epsilons)


def is_sampled_gaussian(pair: Pair) -> bool:
    """Whether it is a Poisson-sampled Gaussian, in either direction."""
    base = pair.base if isinstance(pair, ReversedPair) else pair
    return isinstance(base, PoissonSampledPair) and isinstance(base.base, GaussianPair)


def contour_crossing(
    contour: Contour, saddle: Saddle, log_value: float
) -> tuple[Saddle, float, float, float]:
    """About the threshold at which the contour takes a value, how fast it falls, its two ends there.

    Parabolas in the logarithm through three thresholds each: the next one is off by about the cube of
    what is left, so that what is left after 1e-4 need not be looked at. Nothing here is certified.
    """
    x, slope = saddle.threshold, saddle.theta
    for _ in range(10):
        step = 0.1 / slope
        low, high = contour.log_calls(np.array([max(x - step, 0.0), x, x + step]))
        before, middle, after = high.tolist()
        excess, local = middle - log_value, (before - after) / (x + step - max(x - step, 0.0))
        slope = local if 0.05 * slope < local < 20.0 * slope else slope
        if not math.isfinite(excess) or abs(excess) < 1e-9:
            break
        bend = (before + after - 2.0 * middle) / step**2 if x > step else 0.0
        root = slope * slope - 2.0 * bend * excess
        # excess - slope d + bend d^2 / 2 = 0, its root that is nearest to zero
        move = 2.0 * excess / (slope + math.sqrt(root)) if root > 0.0 else excess / slope
        x = max(x + move, 0.0)
        if abs(excess) < 1e-4 and x > 0.0:
            slope, middle = slope - bend * move, log_value
            break
    saddle = replace(saddle, threshold=x, log_value=log_value)
    return saddle, slope, middle - float(high[1] - low[1]), middle


def kinds_of(steps: Steps) -> list[StepKind]:
    """The kinds of the steps; declines unless all are Poisson-sampled Gaussians, often repeated."""
    kinds, repetitions = [], 0
    for pair, count in steps:
        sign = 1
        if isinstance(pair, ReversedPair):
            pair, sign = pair.base, -1
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        kinds.append(StepKind(pair.rate, pair.base.mu, sign, float(count)))
        repetitions += count
    if repetitions < 32:
        raise Declined("too few repetitions")
    return kinds


def typical_loss(kinds: Sequence[StepKind]) -> float:
    """About the size of a typical total loss; large ones do not count, however much they vary."""
    squares = (kind.repetitions * kind.rate**2 * math.expm1(min(kind.mu**2, 1.0)) for kind in kinds)
    return math.sqrt(sum(squares))


def prepared(
    kinds: Sequence[StepKind], *, threshold: float | None = None, log_value: float | None = None
) -> tuple[ContourPlan, Contour]:
    """A plan for one threshold or value, and its contour."""
    (result,) = contours_of(
        [kinds],
        thresholds=None if threshold is None else np.array([threshold]),
        log_values=None if log_value is None else np.array([log_value]),
    )
    if isinstance(result, Declined):
        raise result
    return result


def contours_of(
    compositions: Sequence[Sequence[StepKind]],
    *,
    thresholds: Array | None = None,
    log_values: Array | None = None,
) -> list[tuple[ContourPlan, Contour] | Declined]:
    """For each composition a plan for its threshold or value, and a contour; or why it has none.

    Tables are exact to about FINEST / repetitions. Declines as a whole if one of the compositions cannot
    even be planned.
    """
    batches = batches_of(compositions)
    plans = planned(batches, len(compositions), thresholds, log_values)
    grids, layers, chernoffs = moments_at(batches, plans)
    columns = [(plan.theta, plan.saddle.threshold, plan.saddle.log_value) for plan in plans]
    fields = ("right_tilts", "right_log_moments", "left_tilts", "left_log_moments")
    moments = [np.array([getattr(chernoff, name) for chernoff in chernoffs]) for name in fields]
    theta, threshold, log_value = np.array(columns).T[:, :, None]
    right, at_right, left, at_left = moments
    window = windows_for(right, at_right, left, at_left, theta, threshold, log_value)[0]
    frequency = 2.0 * np.pi / window
    shares = np.array([[plan.log_share] for plan in plans])
    goal = 0.02 * FINEST * np.exp(shares)
    last, beyond = last_frequencies(layers, goal, frequency * MOST_FREQUENCIES)
    with np.errstate(invalid="ignore"):
        sizes = np.ceil(last / frequency) + 1.0
    served = (sizes <= MOST_FREQUENCIES)[:, 0]  # false for NaN too
    made: list[list[QuadratureTable | None]] = [[] for _ in plans]
    counts: list[list[float]] = [[] for _ in plans]
    for grid in grids:
        if not served.all():
            grid = grid.of(np.flatnonzero(served[grid.rows.owner]))
        owner, count = grid.rows.owner, grid.rows.count
        if not owner.size:
            continue
        log_error = np.log(1e-3 * FINEST / count) + np.minimum(shares[owner], 0.0)
        reach = (frequency * (sizes - 1.0))[owner]
        found = tables(grid, theta[owner], reach, log_error)
        for index, table, times in zip(owner.tolist(), found, count[:, 0].tolist(), strict=True):
            made[index].append(table)
            counts[index].append(times)
    results: list[tuple[ContourPlan, Contour] | Declined] = []
    for index, plan in enumerate(plans):
        ready = [table for table in made[index] if table is not None]
        if not served[index] or len(ready) < len(made[index]):
            what = "nodes" if served[index] else "frequencies"
            results.append(Declined(f"too many {what}"))
            continue
        contour = make_contour(
            ready,
            counts[index],
            float(window[index, 0]),
            int(sizes[index, 0]),
            beyond=float(beyond[index, 0]),
            harmless=0.1 * FINEST * math.exp(min(plan.log_share, 0.0)),
            replaced=0.1 * FINEST * math.exp(min(plan.log_share, 0.0)),
            chernoff=chernoffs[index],
        )
        results.append((replace(plan, window=contour.window), contour))
    return results


def batches_of(compositions: Sequence[Sequence[StepKind]]) -> list[StepRows]:
    """All steps in batches of similar ones, which need about as many nodes."""
    kinds = [(kind, owner) for owner, own in enumerate(compositions) for kind in own]
    if len(kinds) > 1:
        kinds.sort(key=lambda row: row[0].mu)
    # 64 rows together are enough to be quick, and few enough to stay small
    return [
        StepRows.of(*zip(*kinds[row : row + 64], strict=True)) for row in range(0, len(kinds), 64)
    ]


_TILTS_PER_OCTAVE = 4
_OCTAVES_BELOW, _OCTAVES_ABOVE = 10, 2
_TILTS = 2.0 ** (
    np.arange(-_OCTAVES_BELOW * _TILTS_PER_OCTAVE, _OCTAVES_ABOVE * _TILTS_PER_OCTAVE + 1.0)
    / _TILTS_PER_OCTAVE
)
"""Tilts of a plan around a first guess: heavy tails ask for much smaller ones than thin tails."""


@dataclass(frozen=True, eq=False)
class TiltTable:
    """log M_T at many tilts, a row for each composition (not certified).

    `cumulant` and its derivatives `mean` and `variance` are those of the losses that matter for a delta,
    which lead to saddle points; `log_moment` is that of all losses, from which windows follow. `left` are
    tilts a <= 1 with log M_T at -a.
    """

    tilts: Array
    cumulant: Array
    mean: Array
    variance: Array
    log_moment: Array
    left: Array
    left_log_moment: Array

    @classmethod
    def at(cls, coarse: Sequence[CoarseStep], tilts: Array, left: Array) -> TiltTable:
        """The table at these tilts, a row for each composition."""
        both = np.concatenate([tilts, -left], axis=1)
        totals = np.zeros((4, *both.shape))
        for part in coarse:
            for total, values in zip(totals, part.cumulants(both), strict=True):
                part.rows.add_to(total, values)
        size = tilts.shape[1]
        cumulant, mean, variance, log_moment = totals[:, :, :size]
        return cls(tilts, cumulant, mean, variance, log_moment, left, totals[3, :, size:])

    def with_more(self, coarse: Sequence[CoarseStep], tilts: Array) -> TiltTable:
        """The table with some more tilts after its own."""
        more = TiltTable.at(coarse, tilts, self.left[:, :0])
        fields = ("tilts", "cumulant", "mean", "variance", "log_moment")
        joined = {
            name: np.concatenate([getattr(self, name), getattr(more, name)], axis=1)
            for name in fields
        }
        return replace(self, **joined)

    def saddles(self) -> tuple[Array, Array]:
        """At each tilt the threshold for which it is the saddle point, and log delta to first order."""
        theta, more = self.tilts, 1.0 + self.tilts
        threshold = self.mean - 1.0 / theta - 1.0 / more
        curvature = self.variance + theta**-2.0 + more**-2.0
        log_value = self.cumulant - theta * threshold - np.log(theta * more)
        return threshold, log_value - 0.5 * np.log(2.0 * np.pi * curvature)


@dataclass(frozen=True, eq=False)
class CoarseStep:
    """Losses of each kind of step at a coarse quadrature's nodes, with log-weights."""

    rows: StepRows
    points: Array
    log_p: Array
    last: Array

    @classmethod
    def of(cls, rows: StepRows, log_values: Array) -> CoarseStep:
        """Nodes that reach all y which matter for a delta of each composition's size."""
        nats = np.maximum(40.0, np.log(rows.count) + 14.0 - log_values[rows.owner])
        low = -np.sqrt(2.0 * nats)
        high = rows.mu + np.sqrt(2.0 * np.maximum(40.0, nats + np.log(rows.rate)))
        step = np.minimum(0.2, 0.35 / rows.mu)
        if not ((high - low) / step).max() <= 1 << 17:
            raise Declined("so little noise takes more points than other engines")
        y, inside = lattice(low, high, step)
        log_w = rows.log_ratio(y)
        log_p = np.where(rows.sign > 0, log_w, 0.0) - 0.5 * y * y
        log_p = np.where(inside, log_p + np.log(step / math.sqrt(2.0 * math.pi)), -np.inf)
        return cls(rows, np.where(inside, rows.sign * log_w, 0.0), log_p, high)

    def cumulants(self, tilts: Array) -> tuple[Array, Array, Array, Array]:
        """T log M of these losses and its two derivatives at each row's tilts, and T log M of all losses.

        Beyond the last node w is about q e^a, so that E[w^s] gains q^s e^{s (s - 1) mu^2 / 2}.
        """
        rows, count = self.rows, self.rows.count
        tilts = tilts[rows.owner]
        theta = tilts[:, :, None]
        exponent = theta * self.points[:, None, :] + self.log_p[:, None, :]
        peak = exponent.max(axis=2)
        weight = np.exp(exponent - peak[:, :, None])
        total = weight.sum(axis=2)
        mean = np.matmul(weight, self.points[:, :, None])[:, :, 0] / total
        square = np.matmul(weight, (self.points * self.points)[:, :, None])[:, :, 0] / total
        log_m = peak + np.log(total)
        if count.max() > 1e7:
            # so many repetitions of the plain sum's rounding would show
            gaps = np.exp(self.log_p)[:, None, :] * _convexity_gap(theta, self.points[:, None, :])
            log_m = np.where(np.abs(log_m) < 1.0, np.log1p(gaps.sum(axis=2)), log_m)
        s = rows.exponent(tilts)
        far = s * (np.log(rows.rate) + 0.5 * (s - 1.0) * rows.mu**2)
        far = np.where(s * rows.mu > self.last, far, -np.inf)
        variance = np.maximum(square - mean * mean, 1e-300)
        return count * log_m, count * mean, count * variance, count * np.logaddexp(log_m, far)


def _convexity_gap(theta: Array, x: Array) -> Array:
    """e^{theta x} - 1 + theta (e^{-x} - 1), about."""
    return np.asarray(
        np.expm1(np.minimum(theta * x, _NO_OVERFLOW))
        + theta * np.expm1(np.minimum(-x, _NO_OVERFLOW))
    )


def planned(
    batches: Sequence[StepRows],
    compositions: int,
    thresholds: Array | None,
    log_values: Array | None,
) -> list[ContourPlan]:
    """For each composition the tilt that needs the smallest window; declines where delta is near one."""
    shape = (compositions, 1)
    if log_values is not None:
        guess, k = np.reshape(log_values, shape), None
    else:
        assert thresholds is not None
        guess, k = np.full(shape, -30.0), np.reshape(thresholds, shape)
    for _ in range(6):
        coarse = [CoarseStep.of(rows, guess) for rows in batches]
        table, theta, threshold, log_value = _saddles(coarse, guess, k)
        if k is None or not (log_value < guess - 1.0).any():
            break
        guess = np.where(log_value < guess - 1.0, 1.2 * log_value - 5.0, guess)
    if not (log_value <= -0.02).all():
        raise Declined("delta is so close to one that two sides are the better tool")
    repetitions = np.zeros(shape)
    for rows in batches:
        rows.add_to(repetitions, rows.count)
    return _smallest_windows(table, theta, threshold, log_value, repetitions)


def _saddles(
    coarse: Sequence[CoarseStep], log_values: Array, thresholds: Array | None
) -> tuple[TiltTable, Array, Array, Array]:
    """A table of tilts around the saddle points, these, and their thresholds and values."""
    variance = np.zeros_like(log_values)
    for part in coarse:
        part.rows.add_to(variance, part.cumulants(np.zeros_like(log_values))[2])
    scale = np.sqrt(variance)
    start = np.sqrt(-2.0 * log_values) if thresholds is None else thresholds / scale
    guess = np.maximum(start, 1.0) / scale
    goal = log_values if thresholds is None else thresholds
    for _ in range(6):
        tilts = guess * _TILTS
        left = np.minimum(tilts[:, :: 2 * _TILTS_PER_OCTAVE], 1.0)
        table = TiltTable.at(coarse, tilts, left)
        k, v = table.saddles()
        beyond = v < goal if thresholds is None else k > goal
        none, first = ~beyond.any(axis=1, keepdims=True), beyond[:, :1]
        if not (none | first).any():
            break
        move = 2.0 ** (_OCTAVES_BELOW - 1.0)
        guess = guess * np.where(none, move, np.where(first, 1.0 / move, 1.0))
    else:
        raise Declined("no tilt leads to such a value")
    cells = _cell(tilts, k, v, beyond)
    for _ in range(3):
        (t0, t1), _, (v0, v1) = cells
        if not (v0 - v1 > 3.0 - 0.6 * np.maximum(v0, -1e3)).any():
            break
        # next to a phase transition all thresholds belong to nearly one tilt
        between = t0 * (t1 / t0) ** (np.arange(1.0, 8.0) / 8.0)
        table = table.with_more(coarse, between)
        more_k, more_v = (values[:, -7:] for values in table.saddles())
        beyond = more_v < goal if thresholds is None else more_k > goal
        ends = np.zeros_like(goal, dtype=bool)
        beyond = np.concatenate([ends, beyond, ~ends], axis=1)
        inner = (between, more_k, more_v)
        tilts, k, v = (
            np.concatenate([outer[0], values, outer[1]], axis=1)
            for outer, values in zip(cells, inner, strict=True)
        )
        cells = _cell(tilts, k, v, beyond)
    (t0, t1), (k0, k1), (v0, v1) = cells
    # between two tilts a straight line in the logarithm; the slope of log delta is the tilt
    if thresholds is None:
        share = (v0 - goal) / (v0 - v1)
        after, before = k0 + (v0 - goal) / t0, k1 - (goal - v1) / t1
        threshold, log_value = np.clip(after + share * (before - after), k0, k1), goal
    else:
        share, threshold = (goal - k0) / (k1 - k0), goal
        after, before = v0 - t0 * (goal - k0), v1 + t1 * (k1 - goal)
        log_value = after + share * (before - after)
    return table, t0 * (t1 / t0) ** share, threshold, log_value


def _cell(
    tilts: Array, k: Array, v: Array, beyond: NDArray[np.bool_]
) -> tuple[tuple[Array, Array], ...]:
    """Tilts, thresholds and values before and at the first tilt beyond a goal, for each composition."""
    cell = beyond.argmax(axis=1)[:, None]
    rows = np.arange(cell.shape[0])[:, None]
    return tuple((values[rows, cell - 1], values[rows, cell]) for values in (tilts, k, v))


def _smallest_windows(
    table: TiltTable, theta: Array, threshold: Array, log_value: Array, repetitions: Array
) -> list[ContourPlan]:
    """The tilt at or below each saddle's that needs the smallest window, with Chernoff tilts.

    A tilt below the saddle's is safe from the explosion of moments beyond it, and shortens the window
    by far. It costs as many nats as its terms are larger than the saddle's, which rounding must leave.
    """
    lead = table.log_moment - table.tilts * threshold
    below = table.tilts <= theta * 2.0 ** (1.0 / _TILTS_PER_OCTAVE)
    lost = lead - np.where(below, lead, np.inf).min(axis=1, keepdims=True)
    most_lost = np.clip(np.log(FINEST / 1e-12) - 0.5 * np.log(repetitions), 0.1, 10.0)
    windows, right, left = windows_for(
        table.tilts,
        table.log_moment,
        table.left,
        table.left_log_moment,
        table.tilts,
        threshold,
        log_value,
    )
    kept = np.minimum(lost, 12.0)
    cost = windows * np.sqrt(22.0 + kept) * np.exp(0.05 * kept)
    cost = np.where(below & (lost <= most_lost), cost, np.inf)
    plans = []
    for row, best in enumerate(cost.argmin(axis=1).tolist()):
        tilt, k, v = (
            float(table.tilts[row, best]),
            float(threshold[row, 0]),
            float(log_value[row, 0]),
        )
        beyond = (float(table.tilts[row, right[row, best]]) - tilt) * np.array(
            [0.25, 0.5, 1.0, 1.8, 3.0]
        )
        before = float(table.left[row, left[row, best]]) * np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        plans.append(
            ContourPlan(
                theta=tilt,
                window=float(windows[row, best]),
                log_share=v - float(lead[row, best]),
                saddle=Saddle(float(theta[row, 0]), k, v),
                right_tilts=tilt + beyond,
                left_tilts=np.append(np.minimum(before, 1.0), 1.0),
            )
        )
    return plans


def windows_for(
    right_tilts: Array,
    right_moments: Array,
    left_tilts: Array,
    left_moments: Array,
    theta: Array,
    threshold: Array,
    log_value: Array,
) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
    """At each tilt theta the smallest window that keeps images small, and which tilts show it.

    Chernoff's bounds keep both kinds of images below 0.01 FINEST of the value; images in closed form may
    exceed it by seven nats before they cost digits. All arguments have a row for each composition.
    """
    wanted = log_value + math.log(0.01 * FINEST)
    s, a = right_tilts, left_tilts
    over_right = np.logaddexp(0.0, right_moments - s * threshold + log_call_constant(s) - wanted)
    over_left = np.logaddexp(0.0, left_moments + a * threshold - wanted)
    ahead = s[:, None, :] - theta[:, :, None]
    with np.errstate(divide="ignore"):
        right = np.where(ahead > 0.0, over_right[:, None, :] / ahead, np.inf)
    left = over_left[:, None, :] / (theta[:, :, None] + a[:, None, :])
    best_right, best_left = right.argmin(axis=2), left.argmin(axis=2)
    window = np.maximum(right.min(axis=2), left.min(axis=2))
    window = np.maximum(window, np.maximum(-log_value - 7.0, 1.0) / theta)
    return 1.02 * window, best_right, best_left


def moments_at(
    batches: Sequence[StepRows], plans: Sequence[ContourPlan]
) -> tuple[list[IntegrandGrid], list[Layers], list[Chernoff]]:
    """Of each batch its grid and its layers at the plans' tilts; log M_T at the plans' Chernoff tilts."""
    tilts = np.array([[plan.theta, *plan.right_tilts, *-plan.left_tilts] for plan in plans])
    grids, layers, total = [], [], np.zeros(tilts.shape)
    for rows in batches:
        s = rows.exponent(tilts[rows.owner])
        s_low, s_high = s.min(axis=1, keepdims=True), s.max(axis=1, keepdims=True)
        grids.append(IntegrandGrid.covering(rows, np.minimum(s_low, 0.0), np.maximum(s_high, 1.0)))
        log_a, _ = log_moments(grids[-1], s)
        layers.append(layers_of(grids[-1], s[:, :1], log_a[:, :1]))
        rows.add_to(total, rows.count * (log_a + _SUM_ERROR))
    chernoffs = []
    for plan, row in zip(plans, total, strict=True):
        last = 1 + plan.right_tilts.size
        chernoffs.append(Chernoff(plan.right_tilts, row[1:last], plan.left_tilts, row[last:]))
    return grids, layers, chernoffs


class StepKind(NamedTuple):
    """One kind of step: rate q, shift mu, repetitions; sign +1 if the record is there under P."""

    rate: float
    mu: float
    sign: int
    repetitions: float


@dataclass(frozen=True, eq=False)
class StepRows:
    """Several kinds of steps, as columns: one row for each, with the composition that it belongs to."""

    rate: Array
    mu: Array
    sign: Array
    count: Array
    owner: NDArray[np.intp]

    @classmethod
    def of(cls, kinds: Sequence[StepKind], owners: Sequence[int] | None = None) -> StepRows:
        """The columns of some steps; they belong to one composition unless told otherwise."""
        owner = np.zeros(len(kinds), dtype=np.intp) if owners is None else np.array(owners)
        rate, mu, sign, count = np.array(kinds).T[:, :, None]
        return cls(rate, mu, sign, count, owner)

    def at(self, rows: NDArray[np.intp]) -> StepRows:
        """Some of the rows."""
        rate, mu, sign, count = (x[rows] for x in (self.rate, self.mu, self.sign, self.count))
        return StepRows(rate, mu, sign, count, self.owner[rows])

    def add_to(self, totals: Array, values: Array) -> None:
        """Add each row's values to those of its composition."""
        np.add.at(totals, self.owner, values)

    def exponent(self, z: ArrayLike) -> Array:
        """s with M(z) = A(s), a row for each kind of step."""
        return np.where(self.sign > 0, np.asarray(z) + 1.0, -np.asarray(z))

    def log_ratio(self, y: Array) -> Array:
        """log w(y)."""
        return log_mixture(self.rate, self.mu * y - 0.5 * self.mu**2)

    @cached_property
    def strips(self) -> Array:
        """Half-widths of strips to choose from, a row for each kind of step.

        Fractions of the distance pi/mu to the nearest zero of w, capped.
        """
        return np.minimum(_STRIPS / self.mu, 9.0)


@dataclass(frozen=True, eq=False)
class Layers:
    """Masses and lengths of uniform layers below densities, a row for each kind of step."""

    rows: StepRows
    masses: Array
    lengths: Array

    def add_log_bounds(self, totals: Array, t: Array) -> None:
        """Add to each composition's total the log of a bound on |M(theta + it)/M(theta)|^T, at its t.

        The bound at one t holds for all larger ones.
        """
        frequencies = t[self.rows.owner][:, None, :]
        missing = _missing(0.5 * self.lengths[:, :, None] * frequencies)
        lost = (self.masses[:, :, None] * missing).sum(axis=1)
        self.rows.add_to(totals, self.rows.count * np.log1p(-lost))


def lattice(low: Array, high: Array, step: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Multiples of each row's step that cover its range, and which of them are needed for that."""
    first, last = np.floor(low / step), np.ceil(high / step)
    index = np.arange(np.max(last - first) + 1.0)
    return step * (first + index), index <= last - first


@dataclass(frozen=True, eq=False)
class IntegrandGrid:
    """Points y that cover everything from which w^s can draw its mass, and log w at these."""

    rows: StepRows
    points: Array
    log_w: Array

    @classmethod
    def covering(cls, rows: StepRows, s_low: Array, s_high: Array) -> IntegrandGrid:
        """The grid for s from s_low to s_high; declines if it would be too long or w^s too steep.

        Tilting by s > 0 moves the normal by at most s mu, by s < 0 at most to `_leftmost`.
        """
        low = _leftmost(rows, np.minimum(s_low, 0.0)) - 40.0
        length = np.maximum(s_high, 0.0) * rows.mu + 40.0 - low
        longest = float(np.max(length))
        steepest = float((np.maximum(-s_low, 0.0) * rows.mu**2).max())
        if not (longest <= 400.0 and steepest <= 1e5):  # true for NaN too
            raise Declined("the tilts reach too far into the tail")
        pieces = 256 * int(np.ceil(longest / 80.0)) - 1
        points = low + length / pieces * np.arange(pieces + 1.0)
        return cls(rows, points, rows.log_ratio(points))

    def of(self, rows: NDArray[np.intp]) -> IntegrandGrid:
        """Some of the rows."""
        return IntegrandGrid(self.rows.at(rows), self.points[rows], self.log_w[rows])

    def log_integrand(self, s: Array) -> Array:
        """log of w^s phi at the points, up to a constant."""
        return np.asarray(s * self.log_w - 0.5 * self.points**2)

    def range(self, s_low: Array, s_high: Array, nats: ArrayLike) -> tuple[Array, Array]:
        """Where w^s phi can be within e^-nats of its largest value, for s from s_low to s_high.

        The ends are the next points, where it is not.
        With s the mode moves to the right, and at a point on its right (left) the ratio to the largest
        value grows (falls): the least exponent reaches farthest to the left, the most to the right.
        """
        low = self.log_integrand(s_low)
        high = self.log_integrand(s_high)
        first = (low > low.max(axis=1, keepdims=True) - nats).argmax(axis=1)
        inside = high > high.max(axis=1, keepdims=True) - nats
        last = inside.shape[1] - 1 - inside[:, ::-1].argmax(axis=1)
        index, y = np.arange(first.size), self.points
        left, right = np.maximum(first - 1, 0), np.minimum(last + 1, y.shape[1] - 1)
        return y[index, left][:, None], y[index, right][:, None]

    def left_out(self, s_low: Array, s_high: Array, nats: ArrayLike) -> Array:
        """Bound on the integral of w^s phi outside `range`, relative to A(s), for s from s_low to s_high.

        Outside, w^s phi is at most e^-nats of its largest value, up to the curvature between the
        points where that was checked; A(s) is at least the largest value times
        sqrt(2 pi / curvature). Beyond the ends of the grid the normal tail is below e^-700.
        """
        y = self.points
        length, spacing = y[:, -1:] - y[:, :1], y[:, 1:2] - y[:, :1]
        curvature = 1.0 + np.maximum(np.abs(s_low), np.abs(s_high)) * self.rows.mu**2 / 4.0
        log_rest = -np.asarray(nats) + np.log(length) + curvature * spacing**2 / 8.0
        return np.asarray(np.exp(log_rest + 0.5 * np.log(curvature / (2.0 * np.pi))))

    def sides_left_out(self, s: Array, low: Array, high: Array) -> Array:
        """Bound as in `left_out` for one exponent, on either side of a range between two points."""
        log_f = self.log_integrand(s)
        left = np.where(self.points <= low, log_f, -np.inf).max(axis=1, keepdims=True)
        right = np.where(self.points >= high, log_f, -np.inf).max(axis=1, keepdims=True)
        nats = log_f.max(axis=1, keepdims=True) - np.concatenate([left, right], axis=1)
        return self.left_out(s, s, nats)


def _leftmost(rows: StepRows, s: Array) -> Array:
    """Points at or below the modes of w^s phi for s <= 0.

    The mode is at y = s mu r(y), r <= q e^a / (1 - q) and r <= 1; the first point of a falling sequence
    of trial points at which the right side no longer reaches down to the point bounds it.
    """
    y = s * rows.mu
    odds = rows.rate / np.maximum(1.0 - rows.rate, 1e-300)
    going = y < -1.0
    while going.any():
        reach = s * rows.mu * np.minimum(1.0, odds * np.exp(rows.mu * 0.5 * y))
        going = going & (y < -1.0) & (reach >= 0.5 * y)
        y = np.where(going, 0.5 * y, y)
    return np.asarray(y)


def log_lift(rows: StepRows, s: Array, height: Array) -> Array:
    """log of the most by which |w^s phi| at y + i height exceeds its value at y; grows with height.

    w(y) cos(mu b / 2) <= |w(y + ib)| <= w(y), so that |w^s| grows only if s < 0.
    """
    shrinkage = np.minimum(s, 0.0) * np.log(np.cos(0.5 * rows.mu * height))
    return np.asarray(0.5 * height**2 + shrinkage)


def log_moments(grid: IntegrandGrid, s: Array) -> tuple[Array, tuple[Array, Array]]:
    """log A(s) for several real s in each row, by the trapezoid rule, and the range that was summed.

    The relative error of A is below e^-39.

    On a strip of half-width b the error is at most 2 e^{b^2/2} / (e^{2 pi b / step} - 1), for s < 0 times
    cos(mu b/2)^{-|s|}; the step is the largest that makes this e^-40 on some strip.
    """
    rows = grid.rows
    s_low, s_high = s.min(axis=1, keepdims=True), s.max(axis=1, keepdims=True)
    low, high = grid.range(s_low, s_high, 60.0)
    strips = rows.strips
    steps = step_for(strips, -40.0, log_lift(rows, s_low, strips))
    step = steps.max(axis=1, keepdims=True)
    y, _ = lattice(low, high, step)
    # in place: other arrays of this size would cost more than the sums
    terms = s[:, :, None] * rows.log_ratio(y)[:, None, :]
    terms -= (0.5 * y * y)[:, None, :]
    peak = terms.max(axis=2)
    terms -= peak[:, :, None]
    total = np.exp(terms, out=terms).sum(axis=2)
    return peak + np.log(total * step / np.sqrt(2.0 * np.pi)), (low, high)


def moments_by_quadrature(rows: StepRows, tilts: Array) -> tuple[Array, Array]:
    """(lower, upper) of log M of each row at its many tilts above -1.

    Rounding: exponents are products and squares, off by a few units of their size; what was left out
    and the trapezoid rule, e^-39, are far below the units of the sum.
    """
    s = rows.exponent(tilts)
    ends = s.min(axis=1, keepdims=True), s.max(axis=1, keepdims=True)
    grid = IntegrandGrid.covering(rows, np.minimum(ends[0], 0.0), np.maximum(ends[1], 1.0))
    if s.shape[1] <= _BLOCK:
        values, (first, last) = log_moments(grid, s)
    else:
        starts = range(0, s.shape[1], _BLOCK)
        blocks = [log_moments(grid, s[:, start : start + _BLOCK])[0] for start in starts]
        values, (first, last) = np.concatenate(blocks, axis=1), grid.range(*ends, 60.0)
    # log w rises with y
    largest = np.maximum(np.abs(rows.log_ratio(first)), np.abs(rows.log_ratio(last)))
    size = np.abs(s) * largest + 0.5 * np.maximum(first**2, last**2) + np.abs(values)
    error = _SUM_ERROR + 8.0 * UNIT_ROUNDOFF * size
    return values - error, values + error


@dataclass(frozen=True, eq=False)
class MomentBounds:
    """Quick upper bounds by Chernoff from moments by quadrature: c(s) M_T(s) e^{-s k} at some tilts s."""

    tilts: Array
    leads: Array

    @classmethod
    def of(
        cls, compositions: Sequence[Steps], smallest: float, largest: float
    ) -> list[MomentBounds]:
        """Bounds for deltas that lie between so many standard deviations of the loss.

        Of many compositions at once; declines if one of them is not made of sampled Gaussians.
        """
        every = [kinds_of(steps) for steps in compositions]
        scales = np.array([typical_loss(kinds) for kinds in every])
        octaves = math.log2(largest / smallest) + 3.5
        spread = 2.0 ** np.linspace(-2.0, octaves - 2.0, math.ceil(2.0 * octaves))
        tilts = smallest * spread / scales[:, None]
        leads = log_call_constant(tilts)
        size = np.abs(leads)
        for rows in batches_of(every):
            moments = rows.count * moments_by_quadrature(rows, tilts[rows.owner])[1]
            rows.add_to(leads, moments)
            rows.add_to(size, np.abs(moments))
        terms = np.array([[len(kinds)] for kinds in every])
        leads += (16.0 + terms) * UNIT_ROUNDOFF * size
        return [cls(*row) for row in zip(tilts, leads, strict=True)]

    def epsilons(self, log_deltas: Array) -> Array:
        """Upper bounds on the smallest epsilons >= 0 at these deltas."""
        gap = self.leads - log_deltas[:, None]
        bounds = (gap + 4.0 * UNIT_ROUNDOFF * np.abs(gap)) / self.tilts
        return np.asarray(np.maximum(bounds.min(axis=1) * (1.0 + 4.0 * UNIT_ROUNDOFF), 0.0))

    def best_tilt(self, epsilon: float) -> float:
        """About the tilt whose bound on delta at epsilon is the smallest, between the given ones."""
        bounds = self.leads - self.tilts * epsilon
        best = min(max(int(np.argmin(bounds)), 1), bounds.size - 2)
        before, middle, after = bounds[best - 1 : best + 2].tolist()
        bend = before + after - 2.0 * middle
        share = 0.5 * (before - after) / bend if bend > 0.0 else 0.0
        move = math.log(self.tilts[1] / self.tilts[0]) * min(max(share, -1.0), 1.0)
        return float(self.tilts[best]) * math.exp(move)


_STEPS = np.concatenate([np.arange(0.0, 6.0, 0.05), 6.0 * 1.1 ** np.arange(81.0)])
"""Frequencies at which a characteristic function is bounded, in units of one over the deviation."""


def log_delta_bounds(compositions: Sequence[Steps], tilts: Array, epsilons: Array) -> Array:
    """Upper bounds on log delta of each composition at its epsilon, from the sizes of contour terms.

    With the tilt s > 0, and layers below the tilted density of each loss as for the last frequency,

        delta(k) <= M_T(s) e^{-s k} (1/pi) int_0^inf |M_T(s + it) / M_T(s)| / |z (z + 1)| dt.

    The bound on the ratio falls with t, and so does the kernel: a sum over intervals takes both at their
    beginnings. Sharper than Chernoff's bound by what the density at its mode differs from one.
    """
    batches = batches_of([kinds_of(steps) for steps in compositions])
    s, k = tilts[:, None], epsilons[:, None]
    lead, size, variance = -s * k, s * k, np.zeros_like(s)
    layers = []
    for rows in batches:
        power = rows.exponent(s[rows.owner])
        ends = np.minimum(power, 0.0), np.maximum(power, 1.0)
        grid = IntegrandGrid.covering(rows, *ends)
        log_a, _ = log_moments(grid, power)
        layer = layers_of(grid, power, log_a)
        layers.append(layer)
        error = _SUM_ERROR + 1e-12 * (1.0 + np.abs(log_a))
        rows.add_to(lead, rows.count * (log_a + error))
        rows.add_to(size, rows.count * np.abs(log_a))
        spread = (layer.masses * layer.lengths**2).sum(axis=1, keepdims=True)
        rows.add_to(variance, rows.count * spread / 12.0)
    if not (variance > 0.0).all():
        raise Declined("no layer fits below a density")
    t = _STEPS / np.sqrt(variance)
    log_bound = np.zeros(t.shape)
    for layer in layers:
        layer.add_log_bounds(log_bound, t)
    kernel = 1.0 / (np.hypot(s, t) * np.hypot(s + 1.0, t))
    bound = np.exp(log_bound)
    total = (bound[:, :-1] * kernel[:, :-1] * np.diff(t, axis=1)).sum(axis=1)
    total += bound[:, -1] / t[:, -1]
    # a sum of some two hundred positive terms, and the products that lead to each
    rounding = 1e-12 + 16.0 * UNIT_ROUNDOFF * (1.0 + len(layers)) * size[:, 0]
    return np.asarray(np.minimum(lead[:, 0] + np.log(total / np.pi) + rounding, 0.0))


def last_frequencies(
    layers: Sequence[Layers], largest_rest: Array, farthest: Array
) -> tuple[Array, Array]:
    """Frequencies t and bounds, at most largest_rest, on (1/pi) int |M_T(z)/M_T(theta)| / t^2 beyond.

    NaN where none is found; nothing much beyond `farthest` is looked for. All arrays are columns with a
    row for each composition.
    """
    variance = np.zeros(largest_rest.shape)
    for layer in layers:
        spread = layer.rows.count * layer.masses * layer.lengths**2
        layer.rows.add_to(variance, spread.sum(axis=1, keepdims=True) / 12.0)
    with np.errstate(divide="ignore"):
        first = 1.0 / np.sqrt(variance)
    ratio = 1.1  # by which blocks of frequencies grow
    with np.errstate(invalid="ignore"):
        reach = farthest / first
    longest = float(np.max(reach, where=np.isfinite(reach), initial=1.0))
    blocks = min(max(math.ceil(math.log(longest) / math.log(ratio)) + 15, 20), 400)
    t = first * ratio ** np.arange(blocks)
    log_bound = np.zeros(t.shape)
    with np.errstate(invalid="ignore"):
        for layer in layers:
            layer.add_log_bounds(log_bound, t)
        bound = np.exp(log_bound)
        block = bound * (1.0 / t - 1.0 / (ratio * t)) / np.pi
        last = bound[:, -1:] / (ratio * t[:, -1:] * np.pi)
        rest = np.cumsum(block[:, ::-1], axis=1)[:, ::-1] + last
    enough = rest <= largest_rest
    best = enough.argmax(axis=1)[:, None]
    index = np.arange(best.shape[0])[:, None]
    found = enough[index, best]
    return np.where(found, t[index, best], np.nan), np.where(found, rest[index, best], np.nan)


def _missing(x: Array) -> Array:
    """At most 1 - |sin y / y| for all y >= x >= 0: without cancellation where x is small.

    x^2/6 - x^4/120 below 0.1, 1 - sin x / x up to 2.5, then 1 - min(0.24, 1/x).
    """
    square = x * x
    direct = 1.0 - np.where(x < 2.5, np.sinc(x / np.pi), np.minimum(0.24, 1.0 / np.maximum(x, 2.5)))
    return np.where(x < 0.1, square / 6.0 * (1.0 - square / 20.0), direct)


_REACHES = np.array(
    [3, 6, 9, 12, 16, 20, 25, 30, 36, 42, 48, 55, 62, 70, 80, 90, 105, 120, 140, 160]
)
"""How far layers reach to the right of the mode, in points of a grid."""


def layers_of(grid: IntegrandGrid, s: Array, log_moment: Array) -> Layers:
    """Masses and lengths of uniform layers below the tilted densities of the loss.

    On a stretch around its mode the density is at least its smallest value at points of spacing h, times
    e^{-curvature h^2 / 8}. Layers reach so far to the right, and to the left as far as their height
    allows. A law with uniform layers of mass m and length l has a characteristic function of modulus at
    most 1 - sum m (1 - |sinc(t l / 2)|). `log_moment` is log A(s).
    """
    rows, index = grid.rows, np.arange(s.shape[0])
    mode = grid.points[index, grid.log_integrand(s).argmax(axis=1)][:, None]
    curvature = 1.0 + (np.abs(s) + 1.0) * rows.mu**2 / 4.0
    spacing = 0.05 * np.minimum(1.0, 4.0 / np.sqrt(curvature))
    y = mode + spacing * np.arange(-100.0, 101.0)
    a = rows.mu * y - 0.5 * rows.mu**2
    log_w = log_mixture(rows.rate, a)
    # the slope of log w is mu times the probability that the record took part, q e^a / w
    log_slope = np.log(rows.mu * rows.rate) + a - log_w
    log_f = s * log_w - 0.5 * y * y - 0.5 * np.log(2.0 * np.pi) - log_moment - log_slope
    density = np.exp(log_f - curvature * spacing**2 / 8.0 - 1e-6)
    place = np.arange(y.shape[1])
    # with little noise the density is highest where hardly any mass is: stay near that of y
    near = np.abs(y - mode) <= 1.0 / np.maximum(rows.mu, 1.0) ** 2
    top = np.where(near, density, 0.0).argmax(axis=1)[:, None]
    after = np.minimum.accumulate(np.where(place >= top, density, np.inf), axis=1)
    before = np.minimum.accumulate(np.where(place <= top, density, np.inf)[:, ::-1], axis=1)
    right = np.minimum(top + _REACHES, y.shape[1] - 1)
    height = after[index[:, None], right]
    # to the left of the top so many points are at least as high
    left = y.shape[1] - (before[:, None, :] >= height[:, :, None]).sum(axis=2)
    length = log_w[index[:, None], right] - log_w[index[:, None], left]
    below = np.concatenate([height[:, 1:], np.zeros((height.shape[0], 1))], axis=1)
    return Layers(rows, (height - below) * length, length)


@dataclass(frozen=True)
class QuadratureTable(Tilted):
    """Nodes under a tilt, whose transform at multiples of one frequency is made from products.

    With e(t) = e^{i t (l - c)} - 1 and t = t' + t'', e(t) = e(t') e(t'') + e(t') + e(t''). So for n
    frequencies 2 sqrt(n) rows and a matrix product suffice; most of the rows are products, too.
    """

    def psi(self, t: Array) -> tuple[ComplexArray, Array]:
        """psi at each t, and a bound on its rounding error."""
        # with few frequencies sines and cosines are cheaper than products
        if t.size > 16 and np.array_equal(t, t[1] * np.arange(t.size)):
            return self.psi_by_products(float(t[1]), t.size)
        return super().psi(t)

    def psi_many(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values), and a bound on its rounding error."""
        # beyond this a gridded FFT is faster, though less exact: where that matters sums replace it
        if self.offsets.size * count > 1 << 19:
            return super().psi_many(step, count)
        return self.psi_by_products(step, count)

    def psi_by_products(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values), and a bound on its rounding error.

        The single factors are summed as in a direct sum, with its error for t' and t'' together. The
        dot products of n terms are off by at most (n + a few) units times sum p |e(t')| |e(t'')|, which
        Cauchy and Schwarz bound by the square roots of sum p |e|^2 = -2 Re psi; their factors' own
        errors, a few units of t' |l - c| or t'' |l - c| each, are covered by one more SUM_ERROR.
        """
        columns = int(np.ceil(np.sqrt(count)))
        rows = -(-count // columns)
        fine_real, fine_imag = self._turned(step, columns)
        real, imag = self._turned(step * columns, rows)
        fine_real, fine_imag = self.weights * fine_real, self.weights * fine_imag
        fine = np.sum(fine_real, axis=1) + 1j * np.sum(fine_imag, axis=1)
        coarse = np.sum(self.weights * real, axis=1) + 1j * np.sum(self.weights * imag, axis=1)
        product = np.zeros((rows, columns), dtype=complex)
        # larger matrix products are given to several threads, whose waiting costs more than they save
        block = max((1 << 18) // (rows * columns), 1)
        for start in range(0, self.offsets.size, block):
            some = slice(start, start + block)
            x, y, u, v = real[:, some], imag[:, some], fine_real[:, some].T, fine_imag[:, some].T
            product += (x @ u - y @ v) + 1j * (x @ v + y @ u)
        psi = (product + coarse[:, None] + fine).ravel()[:count]
        sizes = np.sqrt(np.multiply.outer(-2.0 * coarse.real, -2.0 * fine.real)).ravel()[:count]
        # rounded frequencies and factors, one more product and two more additions
        terms = 2.0 * (self.offsets.size + 8) * UNIT_ROUNDOFF
        spread = 3.0 * SUM_ERROR * step * np.arange(count) * self.mean_spread
        return psi, spread + terms * sizes

    def _turned(self, step: float, count: int) -> tuple[Array, Array]:
        """Real and imaginary part of e(t) at each node, t = 0, step, 2 step, ... (count rows).

        Sines and cosines for the first eight rows and for powers of two, products of two rows for the
        others. A product adds the errors of its two rows and 8 units of t |l - c|; over all digits of a
        multiple that is 16 units, beside those of sines and cosines.
        """
        start = min(count, 8)
        real, imag = np.empty((2, count, self.offsets.size))
        real[:start], imag[:start] = self._turned_by(step * np.arange(float(start)))
        while start < count:
            x, y = self._turned_by(np.array([step * start]))
            more = min(start, count - start)
            u, v = real[:more], imag[:more]
            real[start : start + more] = u * (1.0 + x) - v * y + x
            imag[start : start + more] = u * y + v * (1.0 + x) + y
            start *= 2
        return real, imag

    def _turned_by(self, t: Array) -> tuple[Array, Array]:
        """Real and imaginary part of e(t) at each node, a row for each t."""
        half = np.multiply.outer(0.5 * t, self.offsets)
        sine = np.sin(half)
        return -2.0 * sine * sine, 2.0 * sine * np.cos(half)


@dataclass(frozen=True, eq=False)
class QuadratureNodes:
    """Quadrature nodes y, the losses and log-weights there, and the weights under the tilt.

    Rows are as long as the longest; what is not `inside` a row's range weighs nothing.
    """

    y: Array
    inside: NDArray[np.bool_]
    points: Array
    log_p: Array
    log_moment: Array
    weights: Array

    @classmethod
    def on(
        cls, rows: StepRows, theta: Array, low: Array, high: Array, step: Array
    ) -> QuadratureNodes:
        """Nodes on the range of each row; log M(theta) from the sum without the two normalizations."""
        y, inside = lattice(low, high, step)
        log_w = rows.log_ratio(y)
        log_density = -0.5 * y * y - 0.5 * np.log(2.0 * np.pi) + np.log(step)
        log_p = np.where(rows.sign > 0, log_density + log_w, log_density)
        points = np.where(inside, rows.sign * log_w, 0.0)
        same = bool((theta == theta[0, 0]).all())
        tilt = theta[0, 0] if same else np.broadcast_to(theta, points.shape)
        gaps = np.where(inside, log_p + log_convexity_gap(tilt, points), -np.inf)
        peak = gaps.max(axis=1, keepdims=True)
        far = peak > _NO_OVERFLOW
        total = np.exp(gaps - np.where(far, peak, 0.0)).sum(axis=1, keepdims=True)
        log_m = np.where(far, peak + np.log(total), np.log1p(total))
        weights = np.where(inside, np.exp(log_p + theta * points - log_m), 0.0)
        return cls(y, inside, points, np.where(inside, log_p, 0.0), log_m, weights)

    def tilted(self, theta: Array, quadrature: Array) -> list[QuadratureTable]:
        """Each row as a table, with the given bound on its quadrature error; cf. `Atoms.tilted`."""
        total = self.weights.sum(axis=1, keepdims=True)
        weights = self.weights / total
        center = (weights * self.points).sum(axis=1, keepdims=True)
        offsets = self.points - center
        sizes = np.abs(self.log_p)
        inflation = 1.0 + (sizes + np.abs(theta * self.points)) / 16.0
        mean_spread = (weights * np.abs(offsets) * inflation).sum(axis=1)
        log_m = self.log_moment
        exponents = sizes.max(axis=1, keepdims=True) + np.abs(log_m)
        # weights are those of w and of the normal density
        accuracy = 64.0 * UNIT_ROUNDOFF + SUM_ERROR + 4.0 * UNIT_ROUNDOFF * exponents
        structured = -np.expm1(-log_m) * accuracy
        return [
            QuadratureTable(
                theta=float(theta[row, 0]),
                log_moment=float(log_m[row, 0]),
                center=float(center[row, 0]),
                offsets=offsets[row, inside],
                weights=weights[row, inside],
                mean_spread=float(mean_spread[row]),
                slope_noise=0.0,
                point_error=0.0,
                structured=float(structured[row, 0]),
                quadrature=float(quadrature[row, 0]),
            )
            for row, inside in enumerate(self.inside)
        ]


@dataclass(frozen=True, eq=False)
class TrapezoidRule:
    """The trapezoid rule for A(s + i t), |t| <= last: a strip and a step for each row."""

    rows: StepRows
    s: Array
    last: Array
    strip: Array
    step: Array

    def at(self, rows: NDArray[np.intp]) -> TrapezoidRule:
        """Some of the rows."""
        columns = (self.s, self.last, self.strip, self.step)
        return TrapezoidRule(self.rows.at(rows), *(column[rows] for column in columns))

    @classmethod
    def best(
        cls,
        grid: IntegrandGrid,
        s: Array,
        last: Array,
        y_range: tuple[Array, Array],
        log_error: Array,
    ) -> tuple[TrapezoidRule, Array]:
        """The strips that allow the largest steps, from a coarse look at their edges; what is left out.

        Five nats are left for the slack of cells and for what the coarse look misses. Where what is
        beyond the range would spoil the error that is aimed at, steps are shortened.
        """
        rows, (low, high) = grid.rows, y_range
        y = low + (high - low) * _LOOK
        log_f = s * rows.log_ratio(y) - 0.5 * y * y
        log_f -= log_sum(log_f)[..., None]
        strips = rows.strips
        turn = argument(rows, y[:, None, :], strips[:, :, None])
        rise = log_f[:, None, :] + last[:, :, None] * turn
        steps = step_for(strips, log_error - 5.0, log_lift(rows, s, strips) + log_sum(rise))
        # the cell slack of the certificate grows with the step, curvature step^2 / 8: it gets three nats
        room = 24.0 / _curvature(rows, s, last, strips)
        steps = np.minimum(steps, np.sqrt(room))
        left_out, index = grid.sides_left_out(s, low, high), np.arange(s.size)
        for _ in range(10):
            best = np.argmax(steps, axis=1)
            rule = cls(rows, s, last, strips[index, best][:, None], steps[index, best][:, None])
            beyond = rule.beyond(np.hstack(y_range), left_out)
            spoilt = (beyond > 10.0 * np.exp(log_error))[:, 0]
            if not spoilt.any():
                break
            steps[index[spoilt], best[spoilt]] *= 0.8
            # at the end of the range w^{i t} grows by this much with the height, at first
            odds = rows.rate * np.exp(np.minimum(rows.mu * high - 0.5 * rows.mu**2, _NO_OVERFLOW))
            growth = last * rows.mu * np.minimum(odds, 1.0)
            shorter = np.minimum(steps, 2.0 * np.pi / growth)
            # with shorter ones there would be too many nodes
            steps[spoilt] = np.maximum(shorter, (high - low) / (2.0 * MOST_NODES))[spoilt]
        return rule, beyond + np.sum(left_out, axis=1, keepdims=True)

    def log_real_error(self, s: Array) -> Array:
        """log of the relative error of A(s) at real s.

        On the edge |w(y + ib)| <= w(y), and >= w(y) cos(mu b / 2), so that the edge integral is at most
        e^{b^2/2} A(s), times cos(mu b / 2)^s if s < 0.
        """
        return log_strip_error(self.strip, self.step, log_lift(self.rows, s, self.strip))

    def log_edge(self, nodes: QuadratureNodes) -> Array:
        """log of the error of A(s + i t) over A(s), for all |t| up to the last, within the range.

        On the edge |w^{i t}| = e^{|t| |arg w|}. Its mean under the tilted law is summed over cells, each
        at most its two ends' sum times e^{curvature step^2 / 8}.
        """
        rise = np.where(nodes.inside, self.last * argument(self.rows, nodes.y, self.strip), 0.0)
        top = np.max(rise, axis=1, keepdims=True)
        weight = nodes.weights
        sums = np.sum(weight * np.exp(rise - top), axis=1, keepdims=True)
        mean = top + np.log(sums / np.sum(weight, axis=1, keepdims=True))
        curvature = _curvature(self.rows, self.s, self.last, self.strip)
        slack = np.log(2.0) + curvature * self.step**2 / 8.0
        return np.asarray(self.log_real_error(self.s) + mean + slack)

    def beyond(self, ends: Array, left_out: Array) -> Array:
        """The rest of the error of A(s + i t), relative to A(s): the edge outside the range.

        The error bound holds for any curve that keeps clear of the zeros of w, with the integrand
        divided by e^{2 pi |Im y| / step} - 1. Outside the range the curve runs at a height b' at which
        w^{i t} grows by at most e; at both ends of the range it drops to there. `left_out` bounds what
        is outside on either side.
        """
        rows, s, strip, step = self.rows, self.s, self.strip, self.step
        narrow = np.minimum(step * np.log(2.0) / (2.0 * np.pi), 1.0 / (self.last * rows.mu))
        narrow = np.minimum(strip, narrow)
        outside = np.exp(1.0 + log_lift(rows, s, narrow)) / np.expm1(2.0 * np.pi * narrow / step)
        pieces = int(np.ceil(np.max(2.0 * np.pi * strip / step))) + 1  # a nat of the divisor each
        heights = narrow + (strip - narrow) * np.linspace(0.0, 1.0, pieces + 1)
        turn = np.maximum.accumulate(_largest_argument(rows, ends, heights), axis=2)
        turns = 2.0 * np.pi * heights[:, :-1] / step
        # on each piece of the drop, the growth at its top and the divisor at its bottom
        fall = log_lift(rows, s, heights[:, 1:]) - turns - np.log(-np.expm1(-turns))
        gain = (self.last[:, :, None] * turn[:, :, 1:] + fall[:, None, :]).max(axis=2)
        drop = strip * np.exp(np.minimum(gain, _NO_OVERFLOW))
        return np.asarray(np.sum(2.0 * left_out * (outside + 2.0 * drop), axis=1, keepdims=True))


def tables(
    grid: IntegrandGrid, theta: ArrayLike, last: ArrayLike, log_error: Array
) -> list[QuadratureTable | None]:
    """Each row's moments under its tilt, up to its last frequency; None where there are too many nodes.

    `log_error` is what is aimed at, relative to A(s), for each row; the tables say what was reached.
    """
    rows = grid.rows
    theta, last = (np.broadcast_to(np.asarray(x, float), rows.mu.shape) for x in (theta, last))
    s = rows.exponent(theta)
    s_low, s_high = np.minimum(s, 0.0), np.maximum(s, 1.0)
    nats = 46.0 + np.log(rows.count)
    low, high = grid.range(s_low, s_high, nats)
    rule, beyond = TrapezoidRule.best(grid, s, last, (low, high), log_error)
    # both normalizations enter the sum for log M, so their quadrature errors do too
    bases = grid.left_out(s_low, s_high, nats) + np.exp(rule.log_real_error(np.ones_like(s)))
    bases *= 4.0 + 2.0 * np.abs(s)
    made: list[QuadratureTable | None] = [None] * rows.owner.size
    for own in _of_similar_length(((high - low) / rule.step)[:, 0]):
        part = rule if own.size == rows.owner.size else rule.at(own)
        nodes = QuadratureNodes.on(part.rows, theta[own], low[own], high[own], part.step)
        error = beyond[own] + np.exp(part.log_edge(nodes))
        error += bases[own] * np.exp(-np.minimum(nodes.log_moment, 0.0))
        for row, table in zip(own.tolist(), nodes.tilted(theta[own], error), strict=True):
            made[row] = table
    return made


def _of_similar_length(lengths: Array) -> list[NDArray[np.intp]]:
    """The rows that are not too long, in groups whose lengths differ by less than a factor of two."""
    fits = np.flatnonzero(lengths <= MOST_NODES)
    if fits.size == lengths.size == 1:
        return [fits]
    octave = np.floor(np.log2(np.maximum(lengths[fits], 128.0)))
    return [fits[octave == value] for value in np.unique(octave)]


def argument(rows: StepRows, y: Array, strip: Array) -> Array:
    """|arg w(y + i b)|."""
    extra = (1,) * (y.ndim - rows.mu.ndim)
    mu, rate = rows.mu.reshape(-1, 1, *extra), rows.rate.reshape(-1, 1, *extra)
    odds = np.exp(np.minimum(mu * y - 0.5 * mu**2, _NO_OVERFLOW)) * rate
    return np.arctan2(odds * np.sin(mu * strip), 1.0 - rate + odds * np.cos(mu * strip))


def _largest_argument(rows: StepRows, y: Array, heights: Array) -> Array:
    """max |arg w(y + i b')| over all 0 <= b' <= b, for each row's y and its increasing heights b.

    Where q e^a < 1 - q the argument peaks at arcsin(q e^a / (1 - q)) and falls again.
    """
    turn = argument(rows, y[:, :, None], heights[:, None, :])
    odds = rows.rate * np.exp(np.minimum(rows.mu * y - 0.5 * rows.mu**2, _NO_OVERFLOW))
    ratio = np.minimum(odds / np.maximum(1.0 - rows.rate, 1e-300), 1.0)[:, :, None]
    peak = np.where(ratio < 1.0, np.arcsin(ratio), 0.0)
    past = np.cos(rows.mu * heights)[:, None, :] <= -ratio
    return np.where(past, np.maximum(turn, peak), turn)


def _curvature(rows: StepRows, s: Array, last: Array, strip: Array) -> Array:
    """Bound on the second derivative of the logarithm of |w^{s + i t} phi| along the edge."""
    flat = np.cos(0.5 * rows.mu * strip) ** 2
    return np.asarray(1.0 + (np.abs(s) + last / flat) * rows.mu**2 / 4.0)
