"""What an engine of composition is, and the planning of contours that all engines share.

An engine encloses log delta near some thresholds, with certified error on both sides; it declines by
`Declined` where another one serves better. `composition.ENGINES` lists them in the order in which they
are asked. Plans are not certified: a plan only decides where to spend work. Whatever it picks, the
contour's error bound is evaluated afterwards, so that a bad plan costs width, never correctness.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.bracket import Side
from sharpdp.numerics.contour import (
    Atoms,
    Chernoff,
    Contour,
    Tilted,
    log_call_constant,
    make_contour,
)
from sharpdp.numerics.roots import certified_crossing, last_true
from sharpdp.numerics.special import Array
from sharpdp.pairs.pair import GaussianPair, Pair

NODE_SHARE, SMOOTHING_SHARE = 0.5, 0.3
"""How a tolerance in log delta is split: nodes, smoothing; the rest covers aliases and rounding."""

SMALLEST_LOG_DELTA = -745.2
"""Below this the exponential is zero in double precision."""

MOST_NODES = 60_000
WIDEST_SMOOTHING = 0.5
"""A wider Gaussian would leave the range in which the rise by smoothing is bounded."""

Steps = tuple[tuple[Pair, int], ...]
"""Pairs with how often each is repeated."""


class Declined(Exception):
    """An engine has no answer to a question; another one may have. Never leaves this folder."""


@dataclass(frozen=True, eq=False)
class Thresholds:
    """Where log delta is asked: at rising epsilons, or where it falls to certain values.

    `values` are epsilons, or, `by_value`, falling log deltas. `log_delta` is an upper bound on the answer
    and `slope` about how fast it falls there, if earlier work says so.
    """

    values: Array
    by_value: bool = False
    log_delta: float = 0.0
    slope: float | None = None

    @classmethod
    def at(
        cls, epsilon: float, *, log_delta: float = 0.0, slope: float | None = None
    ) -> Thresholds:
        """One epsilon."""
        return cls(np.array([epsilon]), log_delta=log_delta, slope=slope)

    @classmethod
    def of(cls, log_delta: float) -> Thresholds:
        """The epsilon at which log delta has this value."""
        return cls(np.array([log_delta]), by_value=True)

    @property
    def first(self) -> float:
        """The smallest epsilon, or the largest log delta."""
        return float(self.values[0])

    @property
    def middle(self) -> float:
        """The one in the middle."""
        return float(self.values[self.values.size // 2])

    @property
    def last(self) -> float:
        """The largest epsilon, or the smallest log delta."""
        return float(self.values[-1])


@dataclass(frozen=True)
class Saddle:
    """Tilt at which the question's threshold is typical, with the estimates it gives."""

    theta: float
    threshold: float
    log_value: float


@dataclass(frozen=True)
class Engine(ABC):
    """Certified delta(epsilon) near one threshold, aimed at a tolerance in log delta.

    `exhausted` says that its resources were not enough for the tolerance: a finer one would not help.
    """

    saddle: Saddle
    tolerance: float
    exhausted: bool
    slope_step: ClassVar[float] = 1e-4
    """Slopes are differences over this part of the scale on which delta falls."""

    asked_first: ClassVar[bool] = False
    """Whether where it answers elementary bounds are not worth a look."""

    @classmethod
    @abstractmethod
    def enclose(cls, steps: Steps, thresholds: Thresholds, tolerance: float) -> Engine:
        """Enclose log delta at the thresholds, or at as many of them as one work serves.

        Args:
            steps: What is composed.
            thresholds: Where log delta is asked.
            tolerance: How far apart its two ends may be; relative to epsilon if values are given.

        Raises:
            Declined: another engine serves better.
        """

    @property
    @abstractmethod
    def size(self) -> int:
        """How many frequencies are held."""

    @abstractmethod
    def log_delta(self, epsilon: float, side: Side) -> float:
        """log delta at epsilon, safe on the given side."""

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """All lower and all upper ends of log delta at many epsilons."""
        ends = [[self.log_delta(float(k), side) for k in epsilons] for side in Side]
        return np.array(ends[0]), np.array(ends[1])

    def log_finite_delta(self, epsilon: float) -> float:
        """Upper bound on log delta at epsilon without the mass at infinite loss."""
        return self.log_delta(epsilon, Side.UPPER)

    def largest_width(self, tolerance: float) -> float:
        """How far apart its ends may be in an answer of this tolerance: a sharp engine stays sharp."""
        return tolerance if self.tolerance > 1e-6 else min(tolerance, 1e-6)

    def nats_away(self, epsilons: ArrayLike) -> Array:
        """About by how many nats delta at each epsilon differs from that where this was made for."""
        return np.abs(np.asarray(epsilons) - self.saddle.threshold) * self.saddle.theta

    def slope(self, epsilon: float) -> float:
        """About how fast log delta of the finite losses falls with epsilon (not certified)."""
        theta = self.saddle.theta
        if not np.isfinite(epsilon):
            return theta
        step = self.slope_step / theta
        before, after = (self.log_finite_delta(epsilon + move) for move in (-step, step))
        fall = 0.5 * (before - after) / step
        return fall if np.isfinite(fall) and fall > 0.0 else theta

    def epsilon_ends(self, log_delta: float, rounding: float) -> tuple[float, float]:
        """Certified (lower, upper) of epsilon at a delta whose logarithm is off by the rounding."""
        return (
            self.epsilon(log_delta + rounding, Side.LOWER),
            self.epsilon(log_delta - rounding, Side.UPPER),
        )

    def epsilon(self, log_delta: float, side: Side) -> float:
        """epsilon at which this side's delta passes e^log_delta, safe on that side."""
        sign = 1.0 if side is Side.UPPER else -1.0
        return certified_crossing(
            lambda epsilon: self.log_delta(epsilon, side) - log_delta,
            self.saddle.threshold,
            self.saddle.theta,
            sign,
        )


def extremes_allowed() -> np.errstate:
    """Infinite and zero results of numpy's arithmetic without warnings: bounds may be trivial."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")


@dataclass(frozen=True)
class ContourPlan:
    """Tilt, window and Chernoff tilts for one question.

    `log_share` is the log of the value over e^{K(theta) - theta threshold}: what is left of the size of
    the contour's terms after they have canceled.
    """

    theta: float
    window: float
    log_share: float
    saddle: Saddle
    right_tilts: Array
    left_tilts: Array


class Cumulants:
    """log M_T and its first two derivatives at real tilts, from coarse atoms."""

    def __init__(self, parts: Sequence[tuple[Atoms, float]], gaussian: float = 0.0) -> None:
        """Stack the parts, the shorter ones padded with points of no weight.

        `gaussian` is the variance of a further, Gaussian loss.
        """
        self.gaussian = gaussian
        every, counts = zip(*parts, strict=True)
        longest = max(atoms.points.size for atoms in every)
        self.points = np.zeros((len(parts), longest))
        self.log_weights = np.full((len(parts), longest), -np.inf)
        self.counts = np.array(counts)
        self.parts = parts
        for row, (atoms, _) in enumerate(parts):
            self.points[row, : atoms.points.size] = atoms.points
            self.log_weights[row, : atoms.points.size] = atoms.log_weights
        is_weighty = np.isfinite(self.log_weights)
        self.largest = float(np.max(self.points[is_weighty], initial=1e-300))

    def __call__(self, theta: float) -> tuple[float, float, float]:
        """K = log M_T and its first two derivatives at theta."""
        exponent = self.log_weights + theta * self.points
        peak = exponent.max(axis=1)
        weight = np.exp(exponent - peak[:, None])
        total = weight.sum(axis=1)
        first = np.einsum("ij,ij->i", weight, self.points) / total
        offset = self.points - first[:, None]
        second = np.einsum("ij,ij,ij->i", weight, offset, offset) / total
        if self._many:
            value = float(self.values(np.array([theta]))[0])
        else:
            value = 0.5 * self.gaussian * theta * (theta + 1.0)
            value += float(self.counts @ (peak + np.log(total)))
        return (
            value,
            float(self.counts @ first) + 0.5 * self.gaussian * (2.0 * theta + 1.0),
            float(self.counts @ second) + self.gaussian,
        )

    @property
    def largest_total(self) -> float:
        """The largest total of the points that carry weight; infinite beside a Gaussian."""
        if self.gaussian > 0.0:
            return np.inf
        points = np.where(np.isfinite(self.log_weights), self.points, -np.inf)
        return float(self.counts @ np.max(points, axis=1))

    def values(self, thetas: Array) -> Array:
        """K = log M_T at many tilts."""
        gaussian = 0.5 * self.gaussian * thetas * (thetas + 1.0)
        if self._many:
            exactly = [[atoms.log_moment(t) for atoms, _ in self.parts] for t in thetas.tolist()]
            return np.asarray(gaussian + np.array(exactly) @ self.counts)
        total = np.empty(thetas.size)
        rows = max((1 << 18) // self.points.size, 1)  # so many tilts fit into the cache together
        for start in range(0, thetas.size, rows):
            some = thetas[start : start + rows, None, None]
            exponent = self.log_weights + some * self.points
            peak = exponent.max(axis=2)
            sums = np.exp(exponent - peak[:, :, None]).sum(axis=2)
            total[start : start + rows] = (peak + np.log(sums)) @ self.counts
        return np.asarray(gaussian + total)

    @property
    def _many(self) -> bool:
        """Whether so many repetitions would blow up the rounding of a plain sum."""
        return float(self.counts.max()) >= 1e8


def saddle_at(cumulants: Cumulants, theta: float) -> Saddle:
    """The threshold for which theta is the saddle point, and the value there to first order."""
    value, mean, variance = cumulants(theta)
    threshold = mean - 1.0 / theta - 1.0 / (1.0 + theta)
    curvature = variance + theta**-2.0 + (1.0 + theta) ** -2.0
    log_value = value - theta * threshold - np.log(theta) - np.log1p(theta)
    return Saddle(theta, threshold, float(log_value - 0.5 * np.log(2.0 * np.pi * curvature)))


def find_saddle(
    cumulants: Cumulants, *, threshold: float | None = None, log_value: float | None = None
) -> Saddle:
    """The saddle point for a given threshold, or for a given value.

    It is looked for within 46 nats of one over the standard deviation.
    """

    def falls_short(log_tilt: float) -> bool:
        saddle = saddle_at(cumulants, np.exp(log_tilt))
        if threshold is not None:
            return not saddle.threshold > threshold  # true for NaN too
        assert log_value is not None
        return not saddle.log_value < log_value

    _, _, variance = cumulants(0.0)
    start = -0.5 * np.log(variance) if variance > 0 else 0.0
    low, high = start - 3.0, start + 3.0
    while low > start - 46.0 and not falls_short(low):
        low -= 4.0
    while high < start + 46.0 and falls_short(high):
        high += 4.0
    low, _ = last_true(falls_short, low, high, width=1e-3)
    return saddle_at(cumulants, float(np.exp(low)))


def make_plan(
    cumulants: Cumulants,
    saddle: Saddle,
    tolerance: float,
    extra_tilts: Sequence[float] = (0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
    near_tilts: Sequence[float] = (0.5, 1.0, 2.0, 4.0, 8.0),
    factors: Sequence[float] = (1.0, 0.85, 0.7, 0.55, 0.4),
) -> ContourPlan:
    """The tilt (at or below the saddle's) and the window that need the fewest frequencies.

    Smaller tilts than the saddle's are tried, as long as they lose fewer nats than rounding leaves.
    Chernoff bounds on the left use multiples of the tilt, up to one; those on the right go beyond the
    tilt by `extra_tilts` times it, and by `near_tilts` over the largest loss, beyond which moments
    explode.
    """
    most_lost = min(6.0, max(0.4 * np.log(tolerance / 1e-8), 0.1))
    thetas = saddle.theta * np.array(factors)
    log_moments = cumulants.values(thetas)
    lost = log_moments - thetas * saddle.threshold
    lost -= lost[0]
    tried = max(int(np.argmax(lost > most_lost)) if (lost > most_lost).any() else thetas.size, 1)
    # all Chernoff tilts of all tilts to be tried, in one pass
    relative, near = np.array(extra_tilts), np.array(near_tilts) / cumulants.largest
    few = thetas[:tried, None]
    rights = few + np.concatenate(
        [few * relative, np.broadcast_to(near, (tried, near.size))], axis=1
    )
    lefts = np.minimum(few * np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0]), 1.0)
    lefts = np.concatenate([lefts, np.ones((tried, 1))], axis=1)
    tilts = np.concatenate([rights, -lefts], axis=1)
    moments = cumulants.values(tilts.ravel()).reshape(tilts.shape)
    best: ContourPlan | None = None
    for index, (right, left) in enumerate(zip(rights, lefts, strict=True)):
        theta, log_moment = float(thetas[index]), float(log_moments[index])
        at_right, at_left = np.split(moments[index], [right.size])
        chernoff = Chernoff(right, at_right, left, at_left)
        window = window_for(chernoff, theta, saddle, tolerance)
        if best is None or window * theta < best.window * best.theta:
            share = saddle.log_value - (log_moment - theta * saddle.threshold)
            best = ContourPlan(theta, window, share, saddle, right, left)
    assert best is not None
    return best


def plan_between(
    cumulants: Cumulants, first: Saddle, last: Saddle, tolerance: float
) -> ContourPlan:
    """One contour for all thresholds between two: its tilt loses about equally many nats at both ends.

    The saddle of the plan is the one at the tilt. The window keeps images small at both ends.
    """
    theta = 0.5 * (first.theta + last.theta)
    _, mean, _ = cumulants(theta)
    saddle = find_saddle(cumulants, threshold=mean - 1.0 / theta - 1.0 / (1.0 + theta))
    plan = make_plan(cumulants, saddle, tolerance, factors=(1.0,))
    right, left = plan.right_tilts, plan.left_tilts
    at_right, at_left = np.split(cumulants.values(np.append(right, -left)), [right.size])
    chernoff = Chernoff(right, at_right, left, at_left)
    log_moment = float(cumulants.values(np.array([plan.theta]))[0])
    window, share = plan.window, plan.log_share
    for end in (first, last):
        window = max(window, window_for(chernoff, plan.theta, end, tolerance))
        share = min(share, end.log_value - (log_moment - plan.theta * end.threshold))
    return replace(plan, window=window, log_share=share)


def window_for(chernoff: Chernoff, theta: float, saddle: Saddle, tolerance: float) -> float:
    """The smallest window for which Chernoff's bounds keep both kinds of images below tolerance."""
    k, s, a = saddle.threshold, chernoff.right_tilts, chernoff.left_tilts
    wanted = saddle.log_value + np.log(tolerance)
    over_right = chernoff.right_log_moments - s * k + log_call_constant(s) - wanted
    over_left = chernoff.left_log_moments + a * k - wanted
    window = max(
        float(np.min(np.logaddexp(0.0, over_right) / (s - theta))),
        float(np.min(np.logaddexp(0.0, over_left) / (theta + a))),
        # images in closed form may exceed the answer by seven nats before they cost digits
        (-saddle.log_value - 7.0) / theta,
        1.0 / theta,
    )
    return 1.02 * window


def frequency_count(plan: ContourPlan, damping: float, tolerance: float) -> tuple[int, bool]:
    """How many frequencies reach to where the Gaussians have damped everything; whether all fit.

    Frequencies beyond t contribute at most e^{-(w t)^2 / 2} / (pi t (w t)^2) of the contour's scale.
    """
    nats = np.log(damping / (0.02 * tolerance)) - plan.log_share
    reach = np.sqrt(2.0 * max(nats - 3.0 * np.log(5.0), 4.0))
    if not np.isfinite(reach / damping * plan.window):
        raise Declined("the masses are beyond all doubles, so that no plan is a number")
    wanted = int(np.ceil(reach / damping * plan.window / (2.0 * np.pi))) + 2
    allowed = 1 << 19
    return min(wanted, allowed), wanted <= allowed


def tilted(atoms: Atoms, theta: float) -> Tilted:
    """Atoms under a tilt; declines if that leaves nothing but rounding errors."""
    result = atoms.tilted(theta)
    if not np.isfinite(result.structured):
        raise Declined("the moment at this tilt is lost in rounding")
    return result


def contour_of_atoms(
    parts: Sequence[tuple[Atoms, float]],
    plan: ContourPlan,
    size: int,
    *,
    smoothing: float,
    gaussian: float = 0.0,
    harmless: float,
    tilt: Callable[[Atoms, float], Tilted] = tilted,
) -> Contour:
    """The contour of atoms with repetitions, beside Gaussian steps of this variance."""
    return make_contour(
        [tilt(atoms, plan.theta) for atoms, _ in parts],
        [count for _, count in parts],
        plan.window,
        size,
        smoothing=smoothing,
        gaussian=gaussian,
        harmless=harmless,
        log_finite=sum(count * float(np.log1p(-atoms.deficit)) for atoms, count in parts),
        chernoff=Chernoff.of(parts, plan.right_tilts, plan.left_tilts),
    )


def without_gaussians(steps: Steps) -> tuple[Steps, float]:
    """All steps but the Gaussian ones, and the variance of the loss of these together."""
    others = tuple((pair, count) for pair, count in steps if not isinstance(pair, GaussianPair))
    square = sum(count * pair.mu**2 for pair, count in steps if isinstance(pair, GaussianPair))
    return others, square
