"""The profile of k of T steps, chosen at random, at as many thresholds as a width asks for.

Going outwards from loss zero, thresholds are cut into stretches that share one statistic and one tilt
(`symmetric_mean`). Here these are chosen, from moments on a coarse grid: the tilt centers P at the
thresholds of the stretch, and x makes posterior probabilities x U / (1 + x U) add up to k there. None of
this is certified or needs to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.allocation.symmetric_mean import (
    EXTRA_TILTS,
    FARTHEST,
    SymmetricMean,
    log_hypergeometric,
)
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import Array, erfcx, log_sum

_MOST_STRETCHES = 400
# Steps of Newton's method before intervals are halved.
_NEWTON_STEPS = 15
# What lies beyond a window is below e^-32; a tilt below the saddle's may lose so many nats.
_NOTHING, _MOST_LOST = 32.0, 12.0
# Stretches end where the posterior mean is off by so many deviations.
_DRIFT = 0.25
# They are at most so many deviations of Y long, in both directions.
_SHARE = 0.6
_MOST_PLACES = 1 << 15
# What hardly ever happens has probability e^-55.
_NEVER = 55.0
# How many kinds of posterior sums are told apart, how many a deviation, and how much of what is allowed
# the rounding of Y may take: with very few steps, with few in or out, and with many.
_RESOLUTIONS = ((64, 16.0, 0.006), (32, 10.0, 0.02), (1, 1.0, 0.05))
_VERY_FEW_STEPS, _FEW_STEPS, _SOME_STEPS = 6, 30, 300
_VERY_FEW_EITHER, _FEW_EITHER = 3, 5


@dataclass(frozen=True)
class _Center:
    """A tilt of P with the log x at which posterior means add up to k, and moments of the sums there."""

    tilt: float
    log_x: float
    log_ratio: float
    mean: float
    deviation: float
    posterior_deviation: float
    variance: float


@dataclass(frozen=True)
class Outline:
    """Losses from below zero on, with about the tilts that belong to them, log delta, and reaches."""

    losses: Array
    tilts: Array
    log_deltas: Array
    reaches: Array

    @cached_property
    def places(self) -> Array:
        """How far each loss is from zero, counted in reaches."""
        steps = np.diff(self.losses) * 0.5 * (1.0 / self.reaches[1:] + 1.0 / self.reaches[:-1])
        places = np.append(0.0, np.cumsum(steps))
        return np.asarray(places - np.interp(0.0, self.losses, places))


@dataclass(frozen=True)
class Direction:
    """One direction: upper logs of delta at losses from zero on, and the masses of events.

    Of an event, Q and P: for P against Q, of "with the record", not below and not above; for Q against
    P, of "without it", not above and not below.
    """

    losses: Array
    log_high: Array
    q: Array
    p: Array


@dataclass(frozen=True)
class SeveralSteps:
    """One direction of k of T steps: sign 1 for P against Q, -1 for Q against P."""

    mu: float
    steps: int
    participations: int
    sign: float
    width: float

    def direction(self, depth: float) -> Direction:
        """From loss zero to where delta is below e^-depth, or to where work ends."""
        parts: list[tuple[Array, ...]] = []
        loss, tilt, last = 0.0, -0.5, math.inf
        for _ in range(_MOST_STRETCHES):
            first = self._center_at(self.sign * loss, tilt)
            if first is None:
                break
            reach = _DRIFT * math.sqrt(first.variance) * first.deviation
            reach = min(reach / max(first.posterior_deviation, 1e-300), _SHARE * first.deviation)
            center = self._center_at(self.sign * (loss + reach), first.tilt)
            if center is None:
                break
            tilt = center.tilt
            slope, allowed = self._allowed(center, loss + reach)
            spacing = math.sqrt(2.0 * allowed) / max(slope, 1.0 / center.deviation)
            count = max(math.ceil(2.0 * reach / spacing), 1)
            losses = loss + 2.0 * reach * np.arange(count) / count
            statistic = self._statistic(center, allowed / max(slope, 1.0))
            log_high = statistic.log_upper(self.sign, losses)
            if last < -1.0 and not log_high[-1] < last:
                break  # rounding hides all that is beyond
            last = float(log_high[-1])
            parts.append((losses, log_high, *statistic.attacks(self.sign, losses)))
            loss += 2.0 * reach
            if last < -depth:
                break
        if not parts:
            raise NotCertified("no threshold of several steps could be planned for.")
        return Direction(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _allowed(self, center: _Center, loss: float) -> tuple[float, float]:
        """About how fast log delta falls at a loss, and by how much it may be off."""
        slope = abs(center.tilt) if self.sign > 0.0 else abs(center.tilt + 1.0)
        return slope, self.width * max(0.5, slope * loss)

    def nearest(self, losses: Array) -> NDArray[np.int64]:
        """Which of the losses that have statistics of their own is the nearest one to each.

        They are as far apart as a stretch reaches.
        """
        outline = self.outline
        beyond = np.maximum(losses - outline.losses[-1], 0.0) / outline.reaches[-1]
        places = np.interp(losses, outline.losses, outline.places) + beyond
        # next to zero the statistic of a loss that is a little larger says more
        return np.asarray(np.maximum(np.round(places), 1.0), dtype=np.int64)

    def statistic(self, index: int) -> SymmetricMean | None:
        """The statistic for the losses that are nearest to one; None if none can be planned.

        It depends on nothing that was asked before, so that answers do not.
        """
        outline, place = self.outline, float(index)
        loss = float(np.interp(place, outline.places, outline.losses))
        loss += max(place - float(outline.places[-1]), 0.0) * float(outline.reaches[-1])
        near = float(np.interp(loss, outline.losses, outline.tilts))
        center = self._center_at(self.sign * loss, near)
        if center is None:
            return None
        slope, allowed = self._allowed(center, loss)
        return self._statistic(center, allowed / max(slope, 1.0))

    @cached_property
    def outline(self) -> Outline:
        """About which tilt belongs to which loss, and log delta there.

        With log L normal under the tilted law, of deviation s, and a > 0 the tilt away from loss zero,

            log delta = log moment - a loss + log(B(a s) - B((a + 1) s)),  B(x) = e^{x^2 / 2} Phi(-x).
        """
        center = self._center(-0.5)
        away = np.linspace(0.0, 14.0, 29) / max(center.deviation, 1e-300)
        tilts = away - 1.0 if self.sign > 0.0 else -away
        log_x, moments = self._balanced(tilts, np.full(tilts.size, center.log_x))
        log_ratios = self._log_ratios(log_x, moments)
        losses = self.sign * log_ratios
        # Y plus this is log L
        shift = log_ratios - moments[1]
        log_weights = [float(log_sum(logs)) for logs in self._grid[1:]]
        log_moment = moments[0] - (self.steps - self.participations) * log_weights[0]
        log_moment = log_moment - self.participations * log_weights[1] + tilts * shift
        a = tilts if self.sign > 0.0 else -1.0 - tilts
        deviation = np.sqrt(np.maximum(moments[2], 0.0))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            first, second = (0.5 * erfcx(x * deviation * math.sqrt(0.5)) for x in (a, a + 1.0))
            log_delta = log_moment - a * losses + np.log(first - second)
        reaches = np.minimum(
            _DRIFT * deviation * np.sqrt(moments[5] / np.maximum(moments[4], 1e-300)),
            _SHARE * deviation,
        )
        usable = np.isfinite(losses) & np.isfinite(log_delta) & (reaches > 0.0)
        usable &= np.append(True, np.diff(losses) > 0.0)
        usable = np.cumsum(~usable) == 0
        if np.count_nonzero(usable) < 2 or losses[0] > 0.0:
            raise NotCertified("no threshold of several steps could be planned for.")
        return Outline(
            losses[usable], tilts[usable], np.minimum(log_delta[usable], -1e-3), reaches[usable]
        )

    @cached_property
    def _grid(self) -> tuple[Array, Array, Array]:
        """log U on a coarse grid, with the logs of weights under Q and under P."""
        y = np.linspace(-9.0, self.mu + FARTHEST, 300)
        log_u = self.mu * y - 0.5 * self.mu**2
        return log_u, -0.5 * y * y, -0.5 * y * y + log_u

    def _moments(self, tilts: Array, log_x: Array) -> Array:
        """Sums over all steps under tilts of P, each with its log x.

        log E[e^{tilt Y}], mean and variance of Y, and of the posterior mean, and its own variance.
        """
        log_u, *log_weights = self._grid
        odds = log_x[:, None] + log_u
        score = np.logaddexp(0.0, odds)
        chance = np.exp(odds - score)
        total = np.zeros((6, log_x.size))
        counts = (self.steps - self.participations, self.participations)
        for logs, count in zip(log_weights, counts, strict=True):
            exponent = logs + tilts[:, None] * score
            peak = np.max(exponent, axis=1)
            weight = np.exp(exponent - peak[:, None])
            mass = np.sum(weight, axis=1)
            weight = weight / mass[:, None]
            sums = [peak + np.log(mass)]
            for x in (score, chance):
                mean = np.einsum("ij,ij->i", weight, x)
                sums += [mean, np.einsum("ij,ij->i", weight, (x - mean[:, None]) ** 2)]
            sums.append(np.einsum("ij,ij->i", weight, chance * (1.0 - chance)))
            total += count * np.array(sums)
        return total

    def _balanced(self, tilts: Array, log_x: Array) -> tuple[Array, Array]:
        """The log x at which the posterior mean is k under each tilt, and the moments there.

        By Newton's method, and by halving where that leaves the interval or does not end: the mean rises.
        """
        usual = math.log(self.participations / (self.steps - self.participations))
        low, high = np.full(tilts.size, usual - 40.0), np.full(tilts.size, usual + 40.0)
        for trial in range(40):
            moments = self._moments(tilts, log_x)
            _, _, _, mean, spread, variance = moments
            slope = variance + tilts * spread
            step = (self.participations - mean) / np.where(slope > 0.2 * variance, slope, variance)
            if np.max(np.abs(step)) < 1e-4:
                break
            is_below = mean < self.participations
            low, high = np.where(is_below, log_x, low), np.where(is_below, high, log_x)
            following = log_x + np.clip(step, -2.0, 2.0)
            inside = (low < following) & (following < high) & (trial < _NEWTON_STEPS)
            log_x = np.where(inside, following, 0.5 * (low + high))
        return log_x, moments

    @cached_property
    def _log_share(self) -> float:
        """log of (k/T)^k (1 - k/T)^(T-k)."""
        rate = self.participations / self.steps
        return self.participations * math.log(rate) + (
            self.steps - self.participations
        ) * math.log1p(-rate)

    def _log_ratios(self, log_x: Array, moments: Array) -> Array:
        """About log L where Y is at its mean, as if the count had the shape of a binomial one."""
        count, rate = self.participations, self.participations / self.steps
        bent = 0.5 * np.log(count * (1.0 - rate) / moments[5])
        return np.asarray(moments[1] - count * log_x + self._log_share + bent)

    def _center(self, tilt: float, near: float | None = None) -> _Center:
        """The log x at which the posterior mean is k, under this tilt; `near` is a guess."""
        start = math.log(self.participations / (self.steps - self.participations))
        log_x, moments = self._balanced(
            np.array([tilt]), np.array([start if near is None else near])
        )
        log_ratio = float(self._log_ratios(log_x, moments)[0])
        _, y, square, _, posterior, variance = moments[:, 0].tolist()
        deviations = math.sqrt(max(square, 0.0)), math.sqrt(max(posterior, 0.0))
        return _Center(tilt, float(log_x[0]), log_ratio, y, *deviations, variance)

    @cached_property
    def _usual_log_x(self) -> float:
        """The log x of results without the record."""
        return self._center(-1.0).log_x

    def _center_at(self, log_ratio: float, near: float) -> _Center | None:
        """The center at which L is about e^log_ratio; None if there is none."""
        centers = [self._center(near)]
        centers.append(self._center(near + 0.1 * self.sign, centers[0].log_x))
        for _ in range(40):
            (first, second) = centers[-2:]
            rise = (second.log_ratio - first.log_ratio) / (second.tilt - first.tilt)
            if not (math.isfinite(rise) and rise > 0.0):
                return None
            step = (log_ratio - second.log_ratio) / rise
            if (
                abs(step) < 1e-3 * (1.0 + abs(second.tilt))
                or abs(log_ratio - second.log_ratio) < 0.02 * second.deviation
            ):
                return second
            largest = 0.5 * (1.0 + abs(second.tilt))
            tilt = second.tilt + max(min(step, largest), -largest)
            centers.append(self._center(tilt, second.log_x))
        return None

    def _statistic(self, center: _Center, allowed: float) -> SymmetricMean:
        """The statistic around a center; `allowed` is how much log L may vary by the rounding of Y."""
        from scipy.fft import next_fast_len

        few_of_either = min(self.participations, self.steps - self.participations)
        row = 1 if self.steps <= _FEW_STEPS else 2
        if self.steps <= _VERY_FEW_STEPS or (row == 1 and few_of_either <= _VERY_FEW_EITHER):
            row = 0
        elif few_of_either <= _FEW_EITHER and self.steps <= _SOME_STEPS:
            row = 1
        kinds, per_deviation, share = _RESOLUTIONS[row]
        noise = share * max(allowed, 1e-3 * center.deviation**2)
        tilt, low, high = self._window(center)
        unit = min(math.sqrt(12.0 * noise / self.steps), 0.1 * center.deviation)
        unit = max(unit, (high - low) / _MOST_PLACES)
        # Y is counted from the score of the lowest cell
        start = self.steps * float(
            np.logaddexp(0.0, center.log_x - FARTHEST * self.mu - 0.5 * self.mu**2)
        )
        first = math.floor((low - start) / unit) - 8
        places = int(next_fast_len(int((high - low) / unit) + 16, real=True))
        half = math.sqrt(0.1 / min(0.25 * self.steps, few_of_either))
        least, most = (self._end(center, side) - center.log_x for side in (1.0, -1.0))
        moves = np.linspace(least, most, max(math.ceil((most - least) / (2.0 * half)), 1) + 1)
        return SymmetricMean(
            self.mu,
            self.steps,
            self.participations,
            center.log_x,
            tilt,
            center.tilt,
            unit,
            first,
            places,
            min(max(round((center.mean - start) / unit) - first, 1), places - 2),
            moves,
            center.deviation,
            center.posterior_deviation,
            center.variance,
            kinds,
            per_deviation / center.posterior_deviation,
        )

    def _window(self, center: _Center) -> tuple[float, float, float]:
        """A tilt, and ends of Y between which all that matters lies under it, for Q, P and L^2 Q.

        The tilt that centers P makes single large values likely if these decide. Smaller tilts do not,
        and suffice where what they leave at the center is not too little for doubles.
        """
        log_u, *log_weights = self._grid
        log_weights.append(log_weights[1] + log_u)
        score = np.logaddexp(0.0, center.log_x + log_u)
        steps, count = self.steps, self.participations
        extra = np.concatenate([-EXTRA_TILTS, EXTRA_TILTS]) / center.deviation

        def log_moments(power: int, tilts: Array) -> Array:
            logs = [
                log_sum(weights + tilts[..., None] * score) - log_sum(log_weights[0])
                for weights in log_weights[: power + 1]
            ]
            if power == 0:
                return np.asarray(steps * logs[0])
            if power == 1:
                return np.asarray((steps - count) * logs[0] + count * logs[1])
            # about the likeliest number of common steps
            common = np.arange(max(2 * count - steps, 0), count + 1, dtype=float)
            logs = [each[..., None] for each in logs]
            terms = log_hypergeometric(steps, count) + common * logs[2]
            terms = terms + 2.0 * (count - common) * logs[1]
            return log_sum(terms + (steps - 2 * count + common) * logs[0])

        origin = 0.0 if self.sign > 0.0 else -1.0
        tilts = origin + np.array([1.0, 0.85, 0.7, 0.5, 0.3, 0.1, 0.0]) * (center.tilt - origin)
        lost = np.full(tilts.size, -np.inf)
        low = np.full(tilts.size, center.mean - 3.0 * center.deviation)
        high = np.full(tilts.size, center.mean + 3.0 * center.deviation)
        half = EXTRA_TILTS.size
        for power, move in enumerate((1.0, 0.0, -1.0)):
            own = tilts + move
            logs = log_moments(power, own[:, None] + np.append(extra, 0.0))
            # how high the tilted measure is at the center, as Chernoff bounds have it
            heights = logs[:, -1] - own * center.mean
            lost = np.maximum(lost, heights - heights[0])
            reach = (logs[:, :-1] - logs[:, -1:] + _NOTHING) / extra
            low = np.minimum(low, np.max(reach[:, :half], axis=1))
            high = np.maximum(high, np.min(reach[:, half:], axis=1))
        # the tilts are tried one after the other, until one loses too much
        usable = np.cumsum(~(lost <= _MOST_LOST)) == 0
        size = (high - low) * (1.0 + 0.2 * np.maximum(lost, 0.0))
        size = np.where(usable & np.isfinite(size), size, np.inf)
        best = int(np.argmin(size))
        if not np.isfinite(size[best]):
            return center.tilt, 0.0, 0.0
        return float(tilts[best]), float(low[best]), float(high[best])

    def _end(self, center: _Center, side: float) -> float:
        """A log x so small (side 1) or large (-1) that posterior means hardly ever reach k under Q."""
        log_u, log_weight, _ = self._grid
        reach = 4.0 * center.posterior_deviation / center.variance
        b = side * np.geomspace(1.0, 30.0, 12) / center.posterior_deviation
        usual = self._usual_log_x
        log_x = min(usual, center.log_x) if side > 0.0 else max(usual, center.log_x)
        for _ in range(6):
            tried = log_x - side * 0.3 * reach * np.arange(1.0, 11.0)
            chance = np.exp(-np.logaddexp(0.0, -tried[:, None] - log_u))
            logs = log_sum(log_weight + b[:, None] * chance[:, None, :]) - log_sum(log_weight)
            never = np.min(self.steps * logs - b * self.participations, axis=1) < -_NEVER
            log_x = float(tried[int(np.argmax(never))] if never.any() else tried[-1])
            if never.any():
                break
        return log_x
