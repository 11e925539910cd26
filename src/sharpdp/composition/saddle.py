"""Choosing tilt and window for a question, from a coarse look at the losses; nothing here is certified.

A plan only decides where to spend work. Whatever it picks, the contour's error bound is evaluated
afterwards, so that a bad plan costs width, never correctness.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.contour import Chernoff, log_call_constant
from sharpdp.numerics.special import Array
from sharpdp.numerics.transform import Atoms

_SMALLEST_LOG_TILT, _LARGEST_LOG_TILT = -46.0, 46.0
_BISECTIONS = 60
_MANY = 1e8
# Chernoff bounds on the left use these multiples of the tilt, up to one; those on the right go beyond
# the tilt by these multiples of it, and by these over the largest loss, beyond which moments explode.
_NEAR_TILTS = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
_LEFT_TILTS = np.array([0.25, 0.5, 1.0, 2.0, 4.0, 8.0])
_EXTRA_TILTS = np.array([0.03, 0.06, 0.12, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0])
# Smaller tilts than the saddle's are tried, as long as they lose fewer nats than rounding leaves.
_TILT_FACTORS = (1.0, 0.85, 0.7, 0.55, 0.4)
_MOST_NATS_LOST = 6.0
_NATS_PER_TOLERANCE = 0.4
_ROUNDING_TOLERANCE = 1e-8
# Images in closed form may exceed the answer by this many nats before they cost digits.
_IMAGE_NATS = 7.0


@dataclass(frozen=True)
class Saddle:
    """Tilt at which the question's threshold is typical, with the estimates it gives."""

    theta: float
    threshold: float
    log_value: float


@dataclass(frozen=True)
class Plan:
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
        longest = max(atoms.points.size for atoms, _ in parts)
        self.points = np.zeros((len(parts), longest))
        self.log_weights = np.full((len(parts), longest), -np.inf)
        self.counts = np.array([count for _, count in parts])
        self.parts = parts
        for row, (atoms, _) in enumerate(parts):
            self.points[row, : atoms.points.size] = atoms.points
            self.log_weights[row, : atoms.points.size] = atoms.log_weights

    def __call__(self, theta: float) -> tuple[float, float, float]:
        """(K, K', K'') at theta."""
        exponent = self.log_weights + theta * self.points
        peak = np.max(exponent, axis=1)
        weight = np.exp(exponent - peak[:, None])
        total = np.sum(weight, axis=1)
        first = np.einsum("ij,ij->i", weight, self.points) / total
        offset = self.points - first[:, None]
        second = np.einsum("ij,ij,ij->i", weight, offset, offset) / total
        return (
            self._log_moment(theta, peak, total),
            float(self.counts @ first) + 0.5 * self.gaussian * (2.0 * theta + 1.0),
            float(self.counts @ second) + self.gaussian,
        )

    @property
    def largest(self) -> float:
        """The largest point that carries weight."""
        return max(float(np.max(self.points[np.isfinite(self.log_weights)])), 1e-300)

    @property
    def most(self) -> float:
        """The largest total of the points that carry weight; infinite beside a Gaussian."""
        if self.gaussian > 0.0:
            return np.inf
        points = np.where(np.isfinite(self.log_weights), self.points, -np.inf)
        return float(self.counts @ np.max(points, axis=1))

    def value(self, theta: float) -> float:
        """K at theta."""
        exponent = self.log_weights + theta * self.points
        peak = np.max(exponent, axis=1)
        return self._log_moment(theta, peak, np.sum(np.exp(exponent - peak[:, None]), axis=1))

    def _log_moment(self, theta: float, peak: Array, total: Array) -> float:
        """K; where repetitions would blow up its rounding, from the sum without the leading one."""
        known = 0.5 * self.gaussian * theta * (theta + 1.0)
        if float(np.max(self.counts)) < _MANY:
            return known + float(self.counts @ (peak + np.log(total)))
        return known + sum(count * atoms.log_moment(theta) for atoms, count in self.parts)


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
    """The saddle point for a given threshold, or for a given value."""

    def too_far(saddle: Saddle) -> bool:
        if threshold is not None:
            return saddle.threshold > threshold
        assert log_value is not None
        return saddle.log_value < log_value

    _, _, variance = cumulants(0.0)
    start = -0.5 * np.log(variance) if variance > 0 else 0.0
    low, high = start - 3.0, start + 3.0
    while low > start + _SMALLEST_LOG_TILT and too_far(saddle_at(cumulants, np.exp(low))):
        low -= 4.0
    while high < start + _LARGEST_LOG_TILT and not too_far(saddle_at(cumulants, np.exp(high))):
        high += 4.0
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if too_far(saddle_at(cumulants, np.exp(middle))):
            high = middle
        else:
            low = middle
        if high - low < 1e-3:
            break
    return saddle_at(cumulants, float(np.exp(low)))


def make_plan(
    cumulants: Cumulants,
    saddle: Saddle,
    tolerance: float,
    extra_tilts: Array = _EXTRA_TILTS,
    near_tilts: Array = _NEAR_TILTS,
) -> Plan:
    """The tilt (at or below the saddle's) and the window that need the fewest frequencies."""
    lead = cumulants.value(saddle.theta) - saddle.theta * saddle.threshold
    spare = _NATS_PER_TOLERANCE * np.log(tolerance / _ROUNDING_TOLERANCE)
    most_lost = min(_MOST_NATS_LOST, max(spare, 0.1))
    best: Plan | None = None
    for factor in _TILT_FACTORS:
        theta = factor * saddle.theta
        lost = cumulants.value(theta) - theta * saddle.threshold - lead
        if best is not None and lost > most_lost:
            break
        beyond = np.concatenate([theta * extra_tilts, near_tilts / cumulants.largest])
        plan = _windowed(cumulants, theta, saddle, tolerance, theta + beyond)
        if best is None or plan.window * plan.theta < best.window * best.theta:
            best = plan
    assert best is not None
    return best


def _windowed(
    cumulants: Cumulants, theta: float, saddle: Saddle, tolerance: float, right: Array
) -> Plan:
    """The smallest window whose images stay below tolerance times the value, at this tilt."""
    left = np.append(np.minimum(theta * _LEFT_TILTS, 1.0), 1.0)
    chernoff = Chernoff(
        right,
        np.array([cumulants.value(float(s)) for s in right]),
        left,
        np.array([cumulants.value(-float(a)) for a in left]),
    )
    share = saddle.log_value - (cumulants.value(theta) - theta * saddle.threshold)
    window = window_for(chernoff, theta, saddle, tolerance)
    return Plan(theta, window, share, saddle, right, left)


def window_for(chernoff: Chernoff, theta: float, saddle: Saddle, tolerance: float) -> float:
    """The smallest window for which Chernoff's bounds keep both kinds of images below tolerance."""
    k, s, a = saddle.threshold, chernoff.right_tilts, chernoff.left_tilts
    wanted = saddle.log_value + np.log(tolerance)
    over_right = chernoff.right_log_moments - s * k + log_call_constant(s) - wanted
    over_left = chernoff.left_log_moments + a * k - wanted
    window = max(
        float(np.min(np.logaddexp(0.0, over_right) / (s - theta))),
        float(np.min(np.logaddexp(0.0, over_left) / (theta + a))),
        (-saddle.log_value - _IMAGE_NATS) / theta,
        1.0 / theta,
    )
    return 1.02 * window
