"""Engine for Poisson-sampled Gaussians: contours with moments by quadrature, for one or many runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Chernoff, Contour, make_contour
from sharpdp.numerics.special import Array
from sharpdp.profile.engine import ContourPlan, Declined, Engine, Saddle, Steps, Thresholds
from sharpdp.profile.sampled_gaussian.characteristic_bounds import (
    Layers,
    last_frequencies,
    layers_of,
)
from sharpdp.profile.sampled_gaussian.contour_plans import FINEST, planned, windows_for
from sharpdp.profile.sampled_gaussian.moments import (
    LOG_MOMENT_ERROR,
    IntegrandGrid,
    log_moments,
)
from sharpdp.profile.sampled_gaussian.steps import StepKind, StepRows, batches_of, kinds_of
from sharpdp.profile.sampled_gaussian.trapezoid_tables import QuadratureTable, tables

MOST_FREQUENCIES = 8_000
"""With more frequencies than this the engine declines."""


@dataclass(frozen=True)
class SampledGaussianEvaluation(Engine):
    """One contour from closed moments, which serves both sides; no mass is at infinite loss."""

    contour: Contour
    fall: float
    """About how fast log delta falls at the threshold that it was made for."""
    ends: tuple[float, float]
    """The two ends of log delta there."""

    asked_first = True

    @classmethod
    def enclose(
        cls, steps: Steps, thresholds: Thresholds, tolerance: float
    ) -> SampledGaussianEvaluation:
        # one contour, at the middle, has the digits of many
        kinds = kinds_of(steps)
        if thresholds.by_value:
            log_delta = thresholds.middle
            return cls._at_value(kinds, log_delta, prepared(kinds, log_value=log_delta))
        if tolerance < FINEST:
            raise Declined("it is as fine as that from the start, or never")
        return cls._at_threshold(thresholds.middle, prepared(kinds, threshold=thresholds.middle))

    @classmethod
    def enclose_each(
        cls,
        compositions: Sequence[Steps],
        *,
        thresholds: Array | None = None,
        log_deltas: Array | None = None,
    ) -> list[SampledGaussianEvaluation | Declined]:
        """`enclose` of several compositions at once, each at a threshold or at a value.

        For each its work, or why there is none. Declines as a whole if one of the compositions cannot
        even be planned.
        """
        kinds = [kinds_of(steps) for steps in compositions]
        made = contours_of(kinds, thresholds=thresholds, log_values=log_deltas)
        asked = log_deltas if thresholds is None else thresholds
        assert asked is not None
        works: list[SampledGaussianEvaluation | Declined] = []
        for own, value, result in zip(kinds, asked.tolist(), made, strict=True):
            try:
                if thresholds is None:
                    works.append(cls._at_value(own, value, result))
                else:
                    works.append(cls._at_threshold(value, result))
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
        rows.add_to(total, rows.count * (log_a + LOG_MOMENT_ERROR))
    chernoffs = []
    for plan, row in zip(plans, total, strict=True):
        last = 1 + plan.right_tilts.size
        chernoffs.append(Chernoff(plan.right_tilts, row[1:last], plan.left_tilts, row[last:]))
    return grids, layers, chernoffs
