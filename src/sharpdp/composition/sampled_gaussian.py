"""Poisson-sampled Gaussians without a grid of losses: their moments by quadrature, to twelve digits.

With noise N(0, 1) in units of the noise, mu = 1/noise multiplier and

    w(y) = 1 - q + q e^{mu y - mu^2/2},      A(s) = E[w(y)^s],  y ~ N(0, 1),

the generating function of the loss is M(z) = A(z + 1) where the record is present under P, and
M(z) = A(-z) in the other direction. The trapezoid rule in y converges geometrically, because w has no
zero within |Im y| < pi/mu. Contour and Chernoff bounds are those of every composition; there is no
smoothing, since the losses have densities, whose characteristic functions are bounded layer by layer.

Everything is done for many kinds of steps at once: one row each, and columns where a number differs
between them. This engine declines when it would be slow or inexact: few repetitions, tilts that reach
into the far tail, too many nodes or frequencies. The next engine then answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.bracket import Side
from sharpdp.composition.engine import (
    ContourPlan,
    Cumulants,
    Declined,
    Engine,
    Saddle,
    Steps,
    find_saddle,
    make_plan,
    window_for,
)
from sharpdp.numerics.contour import (
    SUM_ERROR,
    Atoms,
    Chernoff,
    Contour,
    Tilted,
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

_SUM_ERROR = 5e-14
"""Rounding of a sum for log A(s)."""

_NO_OVERFLOW = 700.0


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
        if not (abs(high - log_delta) > 0.5 and high - low < 1.0):
            return work._sharp()
        # the first guess of the threshold was rough; what it gave leads to a better one
        better = work.epsilon(log_delta, Side.UPPER)
        if abs(better - threshold) * theta > 60.0:
            raise Declined("the value leads to no threshold")
        work = cls.for_threshold(steps, better, FINEST)
        if not abs(work.log_delta(better, Side.UPPER) - log_delta) < 3.0:
            raise Declined("the threshold for the value was missed")
        return work

    def _sharp(self) -> SampledGaussianEvaluation:
        """This work if rounding leaves enough of its digits; it declines otherwise."""
        low, high = self.contour.log_call(self.saddle.threshold)
        if not high - low <= 1e-5:
            raise Declined("rounding is too large for closed moments")
        return self

    @property
    def size(self) -> int:
        return self.contour.frequencies.size

    def log_delta(self, epsilon: float, side: Side) -> float:
        low, high = self.contour.log_call(epsilon)
        return high if side is Side.UPPER else low

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        return self.contour.log_calls(epsilons)


def is_sampled_gaussian(pair: Pair) -> bool:
    """Whether it is a Poisson-sampled Gaussian, in either direction."""
    base = pair.base if isinstance(pair, ReversedPair) else pair
    return isinstance(base, PoissonSampledPair) and isinstance(base.base, GaussianPair)


def batches_of(steps: Steps) -> list[StepRows]:
    """The steps in batches of similar ones, which need about as many nodes.

    Declines unless all are Poisson-sampled Gaussians, often enough repeated.
    """
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
    kinds.sort(key=attrgetter("mu"))
    batches = []
    while kinds:  # 64 rows together are enough to be quick, and few enough to stay small
        batches.append(StepRows.of(kinds[:64]))
        kinds = kinds[64:]
    return batches


def prepared_for_value(
    batches: Sequence[StepRows], log_value: float
) -> tuple[ContourPlan, Contour]:
    """A plan and a contour for about the threshold that has this value, to 1e-7 nats."""
    plan, contour = prepared(batches, log_value=log_value)
    # the first guess of the threshold may be rough; what it gave leads to a better one
    better = _crossing(contour, plan.saddle, log_value)
    if better is None:
        return plan, contour
    low, high = contour.log_call(better.threshold)
    if high - low <= 1e-7:
        return replace(plan, saddle=better), contour
    return prepared(batches, threshold=better.threshold)


def _crossing(contour: Contour, saddle: Saddle, log_value: float) -> Saddle | None:
    """About the threshold at which the contour takes a value, by the secant method; None if it fails."""
    threshold, slope = saddle.threshold, saddle.theta
    excess = contour.log_call(threshold)[1] - log_value
    for _ in range(10):
        if not np.isfinite(excess):
            return None
        following = max(threshold + excess / slope, 0.0)
        if abs(excess) < 1e-7 or following == threshold:
            break
        over = contour.log_call(following)[1] - log_value
        secant = (excess - over) / (following - threshold)
        slope = secant if 0.1 * slope < secant < 10.0 * slope else slope
        threshold, excess = following, over
    return replace(saddle, threshold=threshold, log_value=log_value)


def prepared(
    batches: Sequence[StepRows], *, threshold: float | None = None, log_value: float | None = None
) -> tuple[ContourPlan, Contour]:
    """A plan for one threshold or value from a coarse look, and its contour.

    Tables are exact to about FINEST / repetitions.
    """
    plan = _planned(batches, threshold, log_value)
    grids, layers, chernoff = moments_at(batches, plan)
    plan = replace(plan, window=window_for(chernoff, plan.theta, plan.saddle, 0.05 * FINEST))
    frequency = 2.0 * np.pi / plan.window
    last = last_frequency(
        layers,
        0.02 * FINEST * float(np.exp(plan.log_share)),
        frequency * MOST_FREQUENCIES,
    )
    if last is None:
        raise Declined("too many frequencies")
    size = int(np.ceil(last[0] * plan.window / (2.0 * np.pi))) + 1
    if size > MOST_FREQUENCIES:
        raise Declined("too many frequencies")
    made, counts = [], []
    for grid in grids:
        count = grid.rows.count
        log_error = np.log(1e-3 * FINEST / count) + min(plan.log_share, 0.0)
        made += tables(grid, plan.theta, frequency * (size - 1), log_error)
        counts += count[:, 0].tolist()
    contour = make_contour(
        made,
        counts,
        plan.window,
        size,
        beyond=last[1],
        harmless=0.1 * FINEST,
        chernoff=chernoff,
    )
    return plan, contour


def _planned(
    batches: Sequence[StepRows], threshold: float | None, log_value: float | None
) -> ContourPlan:
    """A first plan from a coarse look; declines where delta is too close to one.

    Plans may lose as many nats as a tolerance of 1e-5 leaves, not FINEST: a tilt below the saddle's is
    safe from the explosion of moments beyond it, and shortens the window by far.
    """
    guess = -30.0 if log_value is None else log_value
    for _ in range(6):
        cumulants = _look(batches, guess)
        saddle = find_saddle(cumulants, threshold=threshold, log_value=log_value)
        if log_value is not None or saddle.log_value >= guess - 1.0:
            break
        guess = 1.2 * saddle.log_value - 5.0
    if saddle.log_value > -0.02:
        raise Declined("delta is so close to one that two sides are the better tool")
    return make_plan(cumulants, saddle, 1e-5, (0.04, 0.1, 0.25, 0.5, 1.0), ())


def _look(batches: Sequence[StepRows], log_value: float) -> Cumulants:
    """Coarse quadrature that reaches all y which matter for a value of this size."""
    coarse = []
    for rows in batches:
        nats = np.maximum(40.0, -log_value + np.log(rows.count) + 14.0)
        low = -np.sqrt(2.0 * nats)
        high = rows.mu + np.sqrt(2.0 * np.maximum(40.0, nats + np.log(rows.rate)))
        step = np.minimum(0.2, 0.35 / rows.mu)
        if np.max((high - low) / step) > 1 << 17:
            raise Declined("so little noise takes more points than other engines")
        y, inside = lattice(low, high, step)
        log_w = rows.log_ratio(y)
        log_p = np.where(rows.sign > 0, log_w, 0.0) - 0.5 * y * y
        log_p = np.where(inside, log_p + np.log(step) - 0.5 * np.log(2.0 * np.pi), -np.inf)
        points = np.where(inside, rows.sign * log_w, 0.0)
        for *row, count in zip(points, log_p, rows.count[:, 0].tolist(), strict=True):
            coarse.append((Atoms(*row), count))
    return Cumulants(coarse)


def moments_at(
    batches: Sequence[StepRows], plan: ContourPlan
) -> tuple[list[IntegrandGrid], list[Layers], Chernoff]:
    """Of each batch its grid and its layers at the plan's tilt; log M_T at the plan's Chernoff tilts."""
    tilts = np.concatenate([[plan.theta], plan.right_tilts, -plan.left_tilts])
    grids, layers, total = [], [], np.zeros(tilts.size)
    for rows in batches:
        s = rows.exponent(tilts)
        s_low, s_high = np.min(s, axis=1, keepdims=True), np.max(s, axis=1, keepdims=True)
        grids.append(IntegrandGrid.covering(rows, np.minimum(s_low, 0.0), np.maximum(s_high, 1.0)))
        log_a = log_moments(grids[-1], s)
        layers.append(layers_of(grids[-1], s[:, :1], log_a[:, :1]))
        total += np.sum(rows.count * (log_a + _SUM_ERROR), axis=0)
    right, left = np.split(total[1:], [plan.right_tilts.size])
    return grids, layers, Chernoff(plan.right_tilts, right, plan.left_tilts, left)


Layers = tuple[Array, Array, Array]
"""Masses, lengths and repetitions of uniform layers below densities, a row for each kind of step."""


class StepKind(NamedTuple):
    """One kind of step: rate q, shift mu, repetitions; sign +1 if the record is there under P."""

    rate: float
    mu: float
    sign: int
    repetitions: float


@dataclass(frozen=True, eq=False)
class StepRows:
    """Several kinds of steps, as columns: one row for each."""

    rate: Array
    mu: Array
    sign: Array
    count: Array

    @classmethod
    def of(cls, kinds: Sequence[StepKind]) -> StepRows:
        """The columns of some steps."""
        return cls(*np.array(kinds).T[:, :, None])

    def exponent(self, z: ArrayLike) -> Array:
        """s with M(z) = A(s), a row for each kind of step."""
        return np.where(self.sign > 0, np.asarray(z) + 1.0, -np.asarray(z))

    def log_ratio(self, y: Array) -> Array:
        """log w(y)."""
        return log_mixture(self.rate, self.mu * y - 0.5 * self.mu**2)

    @property
    def strips(self) -> Array:
        """Half-widths of strips to choose from, a row for each kind of step.

        Fractions of the distance pi/mu to the nearest zero of w, capped.
        """
        fractions = np.array([0.05, 0.1, 0.18, 0.28, 0.4, 0.55, 0.7, 0.85])
        return np.minimum(fractions * np.pi / self.mu, 9.0)


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
        if longest > 400.0 or np.max(np.maximum(-s_low, 0.0) * rows.mu**2) > 1e5:
            raise Declined("the tilts reach too far into the tail")
        pieces = 256 * int(np.ceil(longest / 80.0)) - 1
        points = low + length / pieces * np.arange(pieces + 1.0)
        return cls(rows, points, rows.log_ratio(points))

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
        first = np.argmax(low > np.max(low, axis=1, keepdims=True) - nats, axis=1)
        inside = high > np.max(high, axis=1, keepdims=True) - nats
        last = inside.shape[1] - 1 - np.argmax(inside[:, ::-1], axis=1)
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
        left = np.max(np.where(self.points <= low, log_f, -np.inf), axis=1)
        right = np.max(np.where(self.points >= high, log_f, -np.inf), axis=1)
        nats = np.max(log_f, axis=1, keepdims=True) - np.stack([left, right], axis=1)
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


def log_moments(grid: IntegrandGrid, s: Array) -> Array:
    """log A(s) for several real s in each row, by the trapezoid rule; relative error below e^-39.

    On a strip of half-width b the error is at most 2 e^{b^2/2} / (e^{2 pi b / step} - 1), for s < 0 times
    cos(mu b/2)^{-|s|}; the step is the largest that makes this e^-40 on some strip.
    """
    rows = grid.rows
    s_low, s_high = np.min(s, axis=1, keepdims=True), np.max(s, axis=1, keepdims=True)
    low, high = grid.range(s_low, s_high, 60.0)
    strips = rows.strips
    steps = step_for(strips, -40.0, log_lift(rows, s_low, strips))
    step = np.max(steps, axis=1, keepdims=True)
    y, _ = lattice(low, high, step)
    log_f = s[:, :, None] * rows.log_ratio(y)[:, None, :] - (0.5 * y * y)[:, None, :]
    peak = np.max(log_f, axis=2)
    total = np.sum(np.exp(log_f - peak[:, :, None]), axis=2)
    return np.asarray(peak + np.log(total * step / np.sqrt(2.0 * np.pi)))


def moments_by_quadrature(rate: float, mu: float, sign: int, orders: Array) -> tuple[Array, Array]:
    """(lower, upper) of log E_P[e^{(order - 1) L}] of one sampled Gaussian at many orders.

    Rounding: exponents are products and squares, off by a few units of their size; what was left out
    and the trapezoid rule, e^-39, are far below the units of the sum.
    """
    if not orders.size:
        raise Declined("no order is asked for")
    rows = StepRows.of([StepKind(rate, mu, sign, 1.0)])
    s = rows.exponent(orders[None] - 1.0)
    ends = np.min(s, axis=1, keepdims=True), np.max(s, axis=1, keepdims=True)
    grid = IntegrandGrid.covering(rows, np.minimum(ends[0], 0.0), np.maximum(ends[1], 1.0))
    values = np.concatenate(
        [log_moments(grid, block)[0] for block in np.array_split(s, -(-s.size // 256), axis=1)]
    )
    first, last = (edge[0, 0] for edge in grid.range(*ends, 60.0))
    used = (grid.points >= first) & (grid.points <= last)
    exponent = np.abs(s[0]) * float(np.max(np.abs(grid.log_w[used])))
    size = exponent + 0.5 * max(first**2, last**2) + np.abs(values)
    error = _SUM_ERROR + 8.0 * UNIT_ROUNDOFF * size
    return np.maximum(values - error, 0.0), values + error


def last_frequency(
    layers: Sequence[Layers], largest_rest: float, farthest: float
) -> tuple[float, float] | None:
    """A frequency t and a bound, at most largest_rest, on (1/pi) int |M_T(z)/M_T(theta)| / t^2 beyond.

    `layers` are masses, lengths and repetitions; nothing much beyond `farthest` is looked for.
    """
    variance = 0.0
    for mass, length, count in layers:
        variance += float(np.sum(count * mass * length**2)) / 12.0
    if not variance > 0.0:
        return None
    first = 1.0 / np.sqrt(variance)
    ratio = 1.1  # by which blocks of frequencies grow
    blocks = int(np.ceil(np.log(max(farthest / first, 1.0)) / np.log(ratio)))
    blocks = min(max(blocks + 15, 20), 400)
    t = first * ratio ** np.arange(blocks)
    log_bound = np.zeros(t.shape)
    for mass, length, count in layers:
        missing = _missing(0.5 * length[:, :, None] * t)
        log_bound += np.sum(count * np.log1p(-np.sum(mass[:, :, None] * missing, axis=1)), axis=0)
    block = np.exp(log_bound) * (1.0 / t - 1.0 / (ratio * t)) / np.pi
    last = np.exp(log_bound[-1]) / (ratio * t[-1] * np.pi)
    rest = np.cumsum(block[::-1])[::-1] + last
    enough = np.flatnonzero(rest <= largest_rest)
    if not enough.size:
        return None
    return float(t[enough[0]]), float(rest[enough[0]])


def _missing(x: Array) -> Array:
    """At most 1 - |sin y / y| for all y >= x >= 0: without cancellation where x is small.

    x^2/6 - x^4/120 below 0.1, 1 - sin x / x up to 2.5, then 1 - min(0.24, 1/x).
    """
    square = x * x
    direct = 1.0 - np.where(x < 2.5, np.sinc(x / np.pi), np.minimum(0.24, 1.0 / np.maximum(x, 2.5)))
    return np.where(x < 0.1, square / 6.0 * (1.0 - square / 20.0), direct)


def layers_of(grid: IntegrandGrid, s: Array, log_moment: Array) -> Layers:
    """Masses and lengths of uniform layers below the tilted densities of the loss, and repetitions.

    On windows around the mode the density is at least its smallest value on a grid of spacing 1/20,
    times e^{-curvature / 3200}. A law with uniform layers of mass m and length l has a characteristic
    function of modulus at most 1 - sum m (1 - |sinc(t l / 2)|). `log_moment` is log A(s).
    """
    rows = grid.rows
    mode = grid.points[np.arange(s.shape[0]), np.argmax(grid.log_integrand(s), axis=1)][:, None]
    # half-widths of the windows in points of the grid: 0.15 to 3.3 in y
    index = np.array([3, 6, 9, 12, 16, 20, 25, 30, 36, 44, 54, 66])
    half = int(index[-1])
    y = mode + np.arange(-half, half + 1) / 20
    a = rows.mu * y - 0.5 * rows.mu**2
    log_w = log_mixture(rows.rate, a)
    # the slope of log w is mu times the probability that the record took part, q e^a / w
    log_slope = np.log(rows.mu) + np.log(rows.rate) + a - log_w
    log_f = s * log_w - 0.5 * y * y - 0.5 * np.log(2.0 * np.pi) - log_moment - log_slope
    curvature = 1.0 + (np.abs(s) + 1.0) * rows.mu**2 / 4.0
    floor = np.exp(log_f - curvature / 3200.0 - 1e-6)
    outward = np.minimum(
        np.minimum.accumulate(floor[:, half:], axis=1),
        np.minimum.accumulate(floor[:, half::-1], axis=1),
    )
    height = outward[:, index]
    length = log_w[:, half + index] - log_w[:, half - index]
    above = np.concatenate([height[:, 1:], np.zeros((height.shape[0], 1))], axis=1)
    return (height - above) * length, length, rows.count


@dataclass(frozen=True)
class QuadratureTable(Tilted):
    """Nodes under a tilt, whose transform at multiples of one frequency is made from products.

    With e(t) = e^{i t (l - c)} - 1 and t = t' + t'', e(t) = e(t') e(t'') + e(t') + e(t''). So for n
    frequencies 2 sqrt(n) rows of sines and cosines and a matrix product suffice.
    """

    def psi(self, t: Array) -> tuple[ComplexArray, Array]:
        """psi at each t, and a bound on its rounding error."""
        # with few frequencies sines and cosines are cheaper than products
        if t.size > 16 and np.array_equal(t, t[1] * np.arange(t.size)):
            return self.psi_many(float(t[1]), t.size)
        return super().psi(t)

    def psi_many(self, step: float, count: int) -> tuple[ComplexArray, Array]:
        """psi at t = 0, step, 2 step, ... (count values), and a bound on its rounding error.

        The single factors are summed as in a direct sum, with its error for t' and t'' together. The
        dot products of n terms are off by at most (n + a few) units times sum p |e(t')| |e(t'')|, which
        Cauchy and Schwarz bound by the square roots of sum p |e|^2 = -2 Re psi; their factors' own
        errors, a few units of t' |l - c| or t'' |l - c| each, are covered by one more SUM_ERROR.
        """
        columns = int(np.ceil(np.sqrt(count)))
        rows = -(-count // columns)
        fine_real, fine_imag = self._turned(step * np.arange(float(columns)))
        real, imag = self._turned(step * columns * np.arange(float(rows)))
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

    def _turned(self, t: Array) -> tuple[Array, Array]:
        """Real and imaginary part of e(t) at each node."""
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
        cls, rows: StepRows, theta: float, low: Array, high: Array, step: Array
    ) -> QuadratureNodes:
        """Nodes on the range of each row; log M(theta) from the sum without the two normalizations."""
        y, inside = lattice(low, high, step)
        log_w = rows.log_ratio(y)
        log_density = -0.5 * y * y - 0.5 * np.log(2.0 * np.pi) + np.log(step)
        log_p = np.where(rows.sign > 0, log_density + log_w, log_density)
        points = np.where(inside, rows.sign * log_w, 0.0)
        gaps = np.where(inside, log_p + log_convexity_gap(theta, points), -np.inf)
        peak = np.max(gaps, axis=1, keepdims=True)
        far = peak > _NO_OVERFLOW
        total = np.sum(np.exp(gaps - np.where(far, peak, 0.0)), axis=1, keepdims=True)
        log_m = np.where(far, peak + np.log(total), np.log1p(total))
        weights = np.where(inside, np.exp(log_p + theta * points - log_m), 0.0)
        return cls(y, inside, points, np.where(inside, log_p, 0.0), log_m, weights)

    def tilted(self, theta: float, quadrature: Array) -> list[QuadratureTable]:
        """Each row as a table, with the given bound on its quadrature error; cf. `Atoms.tilted`."""
        total = np.sum(self.weights, axis=1, keepdims=True)
        weights = self.weights / total
        center = np.sum(weights * self.points, axis=1, keepdims=True)
        offsets = self.points - center
        inflation = 1.0 + (np.abs(self.log_p) + np.abs(theta * self.points)) / 16.0
        mean_spread = np.sum(weights * np.abs(offsets) * inflation, axis=1)
        log_m = self.log_moment
        exponents = np.max(np.abs(self.log_p), axis=1, keepdims=True) + np.abs(log_m)
        # weights are those of w and of the normal density
        accuracy = 64.0 * UNIT_ROUNDOFF + SUM_ERROR + 4.0 * UNIT_ROUNDOFF * exponents
        structured = -np.expm1(-log_m) * accuracy
        return [
            QuadratureTable(
                theta=theta,
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
    last: float
    strip: Array
    step: Array

    @classmethod
    def best(
        cls,
        grid: IntegrandGrid,
        s: Array,
        last: float,
        y_range: tuple[Array, Array],
        log_error: Array,
    ) -> tuple[TrapezoidRule, Array]:
        """The strips that allow the largest steps, from a coarse look at their edges; what is left out.

        Five nats are left for the slack of cells and for what the coarse look misses. Where what is
        beyond the range would spoil the error that is aimed at, steps are shortened.
        """
        rows, (low, high) = grid.rows, y_range
        y = low + (high - low) * np.linspace(0.0, 1.0, 96)
        log_f = s * rows.log_ratio(y) - 0.5 * y * y
        log_f -= log_sum(log_f)[..., None]
        strips = rows.strips
        rise = log_f[:, None, :] + last * argument(rows, y[:, None, :], strips[:, :, None])
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
        gain = np.max(self.last * turn[:, :, 1:] + fall[:, None, :], axis=2)
        drop = strip * np.exp(np.minimum(gain, _NO_OVERFLOW))
        return np.asarray(np.sum(2.0 * left_out * (outside + 2.0 * drop), axis=1, keepdims=True))


def tables(
    grid: IntegrandGrid, theta: float, last: float, log_error: Array
) -> list[QuadratureTable]:
    """Each row's moments under a tilt, up to the last frequency; declines if there are too many nodes.

    `log_error` is what is aimed at, relative to A(s), for each row; the tables say what was reached.
    """
    rows = grid.rows
    s = rows.exponent(theta)
    s_low, s_high = np.minimum(s, 0.0), np.maximum(s, 1.0)
    nats = 46.0 + np.log(rows.count)
    y_range = grid.range(s_low, s_high, nats)
    rule, beyond = TrapezoidRule.best(grid, s, last, y_range, log_error)
    if np.any((y_range[1] - y_range[0]) / rule.step > 5_000):
        raise Declined("too many nodes")
    nodes = QuadratureNodes.on(rows, theta, *y_range, rule.step)
    error = beyond + np.exp(rule.log_edge(nodes))
    # both normalizations enter the sum for log M, so their quadrature errors do too
    bases = grid.left_out(s_low, s_high, nats) + np.exp(rule.log_real_error(np.ones_like(s)))
    error += (4.0 + 2.0 * np.abs(s)) * bases * np.exp(-np.minimum(nodes.log_moment, 0.0))
    return nodes.tilted(theta, error)


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


def _curvature(rows: StepRows, s: Array, last: float, strip: Array) -> Array:
    """Bound on the second derivative of the logarithm of |w^{s + i t} phi| along the edge."""
    flat = np.cos(0.5 * rows.mu * strip) ** 2
    return np.asarray(1.0 + (np.abs(s) + last / flat) * rows.mu**2 / 4.0)
