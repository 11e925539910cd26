"""The profile of one of many steps, chosen at random, at as many thresholds as a width asks for.

Under Q the ratio X = S / T is the mean of T independent copies of U = exp(mu y - mu^2 / 2), y standard
normal, and both directions of delta are positive parts of the same sum,

    delta_PQ(k) = E(S - c)_+ / T  at c = T e^k,    delta_QP(k) = E(c - S)_+ / c  at c = T e^-k.

Going outwards from k = 0, thresholds are cut into stretches over which the profile falls by a few nats,
each with a contour of its own (`sum_contour`). Here its tilt, window, smoothing and spacing are chosen
from moments on a coarse grid. None of this is certified or needs to be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.bounds.allocation.sum_contour import (
    LARGEST_Y,
    LEFT_TILTS,
    RIGHT_TILTS,
    Stretch,
    Values,
)
from sharpdp.numerics.special import Array, ndtr

# A stretch is so many nats of its tilt long; more where single large values decide, since the profile
# falls more slowly there than the tilt says, and still more with so little noise that it has no end.
_NATS, _MORE_NATS, _MOST_NATS, _LARGE_MU = 3.5, 14.0, 20.0, 5.0
# A cap is so many deviations beyond the threshold, or where the rest is negligible at the end of a
# stretch over which the value may fall by so many nats.
_DEVIATIONS, _FALL = 8.0, 12.0
# Errors of e^-this of the tolerance are nothing.
_NOTHING = 5.0
_LEAST_TOP = -8.0
# A tilt below the saddle's may lose so many nats.
_MOST_LOST = 6.0
# How much of the width errors of values may take, and how large they are at most.
_VALUE_SHARE, _LARGEST_ERROR = 0.2, 1e-2
_MOST_STRETCHES = 1000
# A lattice of a window has at most so many places; a profile that needs more ends there.
_MOST_PLACES = 1 << 21


@dataclass(frozen=True)
class _Made:
    """A stretch with its base and its values."""

    base: float
    stretch: Stretch
    values: Values


def _joined(parts: list[Values]) -> Values:
    """All values, in the order of their losses."""
    losses = np.concatenate([part.losses for part in parts])
    new = np.append(True, np.diff(losses) > 0.0)
    return Values(
        losses[new],
        np.concatenate([part.log_low for part in parts])[new],
        np.concatenate([part.log_high for part in parts])[new],
    )


@dataclass(frozen=True)
class Profile:
    """One direction of one of `steps` steps: sign 1 for P against Q (calls), -1 for Q against P."""

    mu: float
    steps: int
    sign: float
    width: float

    def values(self, depth: float) -> Values:
        """Values from loss zero to where they are below e^-depth, or to where work ends."""
        return _joined(self._made_until(lambda part: not part.log_high[-1] > -depth))

    def depth_at(self, loss: float) -> float:
        """About -log delta at a loss, or at the last one before it."""
        values = _joined(self._made_until(lambda part: bool(part.losses[-1] > loss)))
        return -float(np.interp(loss, values.losses, values.log_high))

    def _made_until(self, is_enough: Callable[[Values], bool]) -> list[Values]:
        """Stretches from loss zero on to the first one that is enough, or to where work ends.

        They are kept: who wants to know more of the profile goes on where the last question ended.
        """
        made = self._made
        for number in range(_MOST_STRETCHES):
            if number == len(made):
                made = (*made, self._following(made[-1] if made else None))
                self.__dict__["_made"] = made
            last = made[number]
            if last is None:
                return [part.values for part in made[:number] if part is not None]
            if is_enough(last.values):
                break
        return [part.values for part in made[: number + 1] if part is not None]

    @cached_property
    def _made(self) -> tuple[_Made | None, ...]:
        """The stretches that were made, with None where work has ended."""
        return ()

    def _following(self, last: _Made | None) -> _Made | None:
        """The first stretch, or the next one; None if none can be planned, or rounding hides it."""
        base, gap, length = 1.0, 0.0, min(1.5 * self.deviation(self.mu), float(self.steps))
        log_value, saddle = math.log(0.3 * length), 0.0
        if last is not None:
            base, gap, length = last.base, last.stretch.end, last.stretch.length
            log_value = float(last.values.log_high[-1]) + math.log(self.steps)
            saddle = last.stretch.theta
            if self.sign < 0.0 and base == 1.0 and gap > 0.5 * self.steps:
                base, gap = 0.0, gap - self.steps
        stretch = self._next(base, gap, length, log_value, saddle)
        if stretch is None:
            return None
        values = stretch.values()
        if last is not None and not values.log_high[-1] < last.values.log_high[-1]:
            return None
        return _Made(base, stretch, values)

    def deviation(self, top: float) -> float:
        """About the standard deviation of S over U up to that of y = top."""
        mu = self.mu
        if mu < 0.1:
            return mu * math.sqrt(self.steps)
        mass, mean, square = ndtr(np.array([top, top - mu, top - 2.0 * mu]))
        variance = math.exp(mu * mu) * square - 2.0 * mean + mass
        return math.sqrt(max(variance, 0.1 * mass) * self.steps)

    def _top(self, end: float, log_value: float) -> float:
        """The y of the cap for gaps up to the end; e^log_value is about the first value."""
        mu, top = self.mu, self.mu + LARGEST_Y
        if self.sign < 0.0:
            return top
        for _ in range(4):
            beyond = 1.0 + end + _DEVIATIONS * self.deviation(top)
            cap = min(beyond, self.steps + end)
            top = min(math.log(cap) / mu + 0.5 * mu + 1e-9, self.mu + LARGEST_Y)
        log_chance = log_value - _FALL + math.log(self.width) - math.log(self.steps * beyond)
        return min(top, _tail_point(log_chance))

    def _next(
        self, base: float, gap: float, length: float, log_value: float, saddle: float = 0.0
    ) -> Stretch | None:
        """The stretch from this gap on, about as long as the last; None if none can be planned.

        `saddle` is about that of the last one, or zero.
        """
        longest = 0.6 * (base * self.steps - gap) if self.sign < 0.0 else math.inf
        length = min(length, longest)
        for _ in range(8):
            plan = _Plan.of(self, base, self._top(gap + length, log_value))
            saddle = plan.saddle(gap + 0.5 * length, saddle)
            most = _MORE_NATS if self.mu <= _LARGE_MU else _MOST_NATS
            more = min(most, 0.6 * gap * saddle) if self.sign > 0.0 else 0.0
            wanted = min(max(_NATS, more) / saddle, longest)
            if 0.7 * wanted <= length <= 1.4 * wanted:
                break
            length = min(max(wanted, 0.3 * length), 3.0 * length)
        return plan.stretch(gap, length, saddle)


def _tail_point(log_chance: float) -> float:
    """About the y beyond which a normal variable is with this small probability."""
    y = math.sqrt(max(-2.0 * log_chance, 1.0))
    for _ in range(4):
        y = math.sqrt(max(-2.0 * (log_chance + math.log(max(y, 1.0)) + 0.92), 1.0))
    return y


@dataclass(frozen=True)
class _Plan:
    """Values of sign (U - base) with weights on a coarse grid of y, up to a cap."""

    profile: Profile
    base: float
    top: float
    values: Array
    weights: Array

    @classmethod
    def of(cls, profile: Profile, base: float, top: float) -> _Plan:
        """Points up to the cap, many next to it, where tilts are felt most; for puts all that matter."""
        mu = profile.mu
        y = np.linspace(-12.0, mu + 6.0, 240)
        if profile.sign > 0.0:
            close = top + np.log(np.linspace(0.02, 1.0, 60)) / mu
            y = np.unique(np.concatenate([np.linspace(-9.0, top, 180), close[close > -9.0]]))
        exponent = mu * y - 0.5 * mu**2
        values = np.expm1(exponent) if base == 1.0 else np.exp(exponent)
        weights = np.exp(-0.5 * y * y) * np.gradient(y) / math.sqrt(2.0 * math.pi)
        return cls(profile, base, top, profile.sign * values, weights)

    def log_moments(self, tilts: Array) -> Array:
        """About T log E[e^{tilt value}]."""
        lost = max(1.0 - float(np.sum(self.weights)), 0.0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            exponents = np.multiply.outer(tilts, self.values)
            growth = np.expm1(exponents) @ self.weights - lost
            logs = np.log1p(growth)
            small = growth < -0.5
            if small.any():
                total = np.exp(exponents[small]) @ self.weights
                logs[small] = np.log(total + np.finfo(float).tiny)
        return np.asarray(self.profile.steps * logs)

    def _heights(self, tilts: Array, gap: float) -> Array:
        """About log E[e^{tilt D}] at a gap."""
        return np.asarray(self.log_moments(tilts) - tilts * gap)

    def saddle(self, gap: float, near: float) -> float:
        """About the tilt at which tilt^-2 E[e^{tilt D}] is smallest; `near`, if positive, is a guess."""
        middle = -math.log(self.profile.deviation(self.top))
        low, high = middle - 60.0, middle + 90.0
        largest = float(np.max(self.values))
        if largest > 0.0:
            high = min(high, math.log(600.0 / largest))

        def narrowed(low: float, high: float, points: int) -> tuple[float, float]:
            tilts = np.exp(np.linspace(low, high, points))
            best = int(np.nanargmin(self._heights(tilts, gap) - 2.0 * np.log(tilts)))
            step = (high - low) / (points - 1)
            return low + (best - 1) * step, low + (best + 1) * step

        if near > 0.0:
            left, right = math.log(near) - 1.0, min(math.log(near) + 1.0, high)
            if left < right:
                ends = narrowed(left, right, 12)
                if left <= ends[0] and ends[1] <= right:
                    return math.exp(0.5 * sum(narrowed(*ends, 12)))
        for _ in range(3):
            low, high = narrowed(low, high, 32)
        return math.exp(0.5 * (low + high))

    def stretch(self, gap: float, length: float, saddle: float) -> Stretch | None:
        """Tilt, window, smoothing and spacing for a stretch; None where they are no numbers."""
        profile, middle = self.profile, gap + 0.5 * length
        near = saddle * np.array([0.9, 1.0, 1.1])
        heights = self._heights(near, middle) - 2.0 * np.log(near)
        curvature = float(heights[0] - 2.0 * heights[1] + heights[2]) / (0.1 * saddle) ** 2
        if not math.isfinite(curvature):
            return None
        log_value = float(heights[1]) - 0.5 * math.log(2.0 * math.pi * max(curvature, saddle**-2.0))
        share = self.base + profile.sign * middle / profile.steps
        fall = abs(math.log(share)) * saddle * share * profile.steps
        # about the width relative to epsilon; next to epsilon = 0 as if log delta fell with log epsilon
        allowed = profile.width * max(0.5, fall)
        tolerance = min(_VALUE_SHARE * allowed, _LARGEST_ERROR)
        smoothing = 0.9 * math.sqrt(tolerance) / saddle
        best = (math.inf, 0.0, 0.0)
        for factor in (1.0, 0.85, 0.7, 0.55):
            theta = factor * saddle
            lost = self._heights(np.array([theta, saddle]), middle)
            if not lost[0] - lost[1] <= _MOST_LOST:
                break
            wanted = log_value + math.log(0.1 * tolerance)
            window = self._window(theta, gap, length, wanted, smoothing)
            best = min(best, (window * math.sqrt(factor), theta, window))
        _, theta, window = best
        if not 0.0 < window < math.inf:
            return None
        top = self.top
        if profile.sign < 0.0:
            # of what a cap leaves out, T e^{-theta U} relative to the moment is as good as nothing
            log_mean = float(self.log_moments(np.array([theta]))[0]) / profile.steps
            nats = (
                _NOTHING
                + math.log(profile.steps / tolerance)
                - min(log_mean - theta * self.base, 0)
            )
            nothing = math.log(nats / theta) / profile.mu + 0.5 * profile.mu
            top = min(max(nothing, _LEAST_TOP), top)
        spacing = math.sqrt(1.4 * allowed) / saddle
        if max(length / spacing, 2.0) * window > _MOST_PLACES * length:
            return None
        return Stretch(
            profile.mu,
            profile.steps,
            profile.sign,
            self.base,
            top,
            gap,
            length,
            theta,
            window,
            smoothing,
            spacing,
            tolerance,
        )

    def _window(
        self, theta: float, gap: float, length: float, wanted: float, smoothing: float
    ) -> float:
        """The smallest window whose images are below e^wanted in the middle, and so at both ends."""
        # values fall faster than the tilt says where the bulk decides
        end, half = gap + length, 0.5 * theta * length + 2.0
        s, a = theta * RIGHT_TILTS, theta * LEFT_TILTS
        right = self._heights(s, gap) - 1.0 - np.log(s) + 0.5 * (s * smoothing) ** 2
        if self.profile.sign > 0.0:
            left = self._heights(-a, end) - 1.0 - np.log(a) + 0.5 * (a * smoothing) ** 2
        else:
            a = np.zeros(1)
            left = np.log([self.profile.steps * (1.0 - self.base) + end + smoothing])
        with np.errstate(invalid="ignore"):
            window = max(
                float(np.nanmin(np.logaddexp(0.0, right - wanted - half) / (s - theta))),
                float(np.nanmin(np.logaddexp(0.0, left - wanted + half) / (theta + a))),
                # what is subtracted in closed form may exceed the value so far before it costs digits
                (half - wanted - math.log(theta) - 30.0) / theta + length,
                3.0 / theta,
            )
        return 1.05 * window + length
