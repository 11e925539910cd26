"""The profile of k of T steps, chosen at random, at as many thresholds as a width asks for.

Going outwards from loss zero, thresholds are cut into stretches that share one statistic and one tilt
(`symmetric_mean`). Here these are chosen, from moments on a coarse grid: the tilt centers P at the
thresholds of the stretch, and x makes posterior probabilities x U / (1 + x U) add up to k there. None of
this is certified or needs to be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from sharpdp.bounds.allocation.ratio_law import depth_of, pair_above
from sharpdp.bounds.allocation.sum_contour import Values
from sharpdp.bounds.allocation.symmetric_mean import (
    EXTRA_TILTS,
    FARTHEST,
    SymmetricMean,
    log_hypergeometric,
)
from sharpdp.bracket import Side
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import Array, log_sum
from sharpdp.pairs.finite import AtomicPair, TabulatedPair
from sharpdp.pairs.from_events import Attacks
from sharpdp.pairs.pair import GaussianPair, Pair

_MOST_STRETCHES = 400
# What lies beyond a window is below e^-32; a tilt below the saddle's may lose so many nats.
_NOTHING, _MOST_LOST = 32.0, 12.0
# Stretches end where the posterior mean is off by so many deviations.
_DRIFT = 0.25
# They are at most so many deviations of Y long, in both directions.
_SHARE = 0.6
_MOST_PLACES = 1 << 15
# What hardly ever happens has probability e^-55.
_NEVER = 55.0
_MARGIN = 1e-9
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
            slope = abs(tilt) if self.sign > 0.0 else abs(tilt + 1.0)
            allowed = self.width * max(0.5, slope * (loss + reach))
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

    @cached_property
    def _grid(self) -> tuple[Array, Array, Array]:
        """log U on a coarse grid, with the logs of weights under Q and under P."""
        y = np.linspace(-9.0, self.mu + FARTHEST, 300)
        log_u = self.mu * y - 0.5 * self.mu**2
        return log_u, -0.5 * y * y, -0.5 * y * y + log_u

    def _moments(self, tilt: float, log_x: Array) -> Array:
        """Mean and variance of Y, and of the posterior mean, and its own variance, for each log x."""
        log_u, *log_weights = self._grid
        score = np.logaddexp(0.0, log_x[:, None] + log_u)
        chance = np.exp(log_x[:, None] + log_u - score)
        total = np.zeros((5, log_x.size))
        counts = (self.steps - self.participations, self.participations)
        for logs, count in zip(log_weights, counts, strict=True):
            exponent = logs + tilt * score
            weight = np.exp(exponent - np.max(exponent, axis=1)[:, None])
            weight = weight / np.sum(weight, axis=1)[:, None]

            def mean(x: Array, weight: Array = weight) -> Array:
                return np.asarray(np.sum(weight * x, axis=1))

            y, m = mean(score), mean(chance)
            total += count * np.array(
                [
                    y,
                    mean((score - y[:, None]) ** 2),
                    m,
                    mean((chance - m[:, None]) ** 2),
                    mean(chance * (1.0 - chance)),
                ]
            )
        return total

    def _center(self, tilt: float) -> _Center:
        """The log x at which the posterior mean is k, under this tilt."""
        steps, count = self.steps, self.participations
        start = math.log(count / (steps - count))
        low, high = start - 40.0, start + 40.0
        for _ in range(4):
            grid = np.linspace(low, high, 17)
            gaps = self._moments(tilt, grid)[2] - count
            index = int(np.clip(np.searchsorted(gaps, 0.0), 1, 16))
            low, high = float(grid[index - 1]), float(grid[index])
        log_x = 0.5 * (low + high)
        y, square, _, posterior, variance = self._moments(tilt, np.array([log_x]))[:, 0].tolist()
        rate = count / steps
        # as if the count had the shape of a binomial one
        log_ratio = y - count * log_x + count * math.log(rate) + (steps - count) * math.log1p(-rate)
        log_ratio += 0.5 * math.log(count * (1.0 - rate) / variance)
        return _Center(tilt, log_x, log_ratio, y, math.sqrt(square), math.sqrt(posterior), variance)

    @cached_property
    def _usual_log_x(self) -> float:
        """The log x of results without the record."""
        return self._center(-1.0).log_x

    def _center_at(self, log_ratio: float, near: float) -> _Center | None:
        """The center at which L is about e^log_ratio; None if there is none."""
        tilts = [near, near + 0.1 * self.sign]
        centers = [self._center(tilt) for tilt in tilts]
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
            centers.append(self._center(second.tilt + max(min(step, largest), -largest)))
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
                log_sum(weights + np.multiply.outer(tilts, score)) - log_sum(log_weights[0])
                for weights in log_weights[: power + 1]
            ]
            if power == 0:
                return np.asarray(steps * logs[0])
            if power == 1:
                return np.asarray((steps - count) * logs[0] + count * logs[1])
            # about the likeliest number of common steps
            common = np.arange(max(2 * count - steps, 0), count + 1, dtype=float)[:, None]
            terms = log_hypergeometric(steps, count)[:, None] + common * logs[2]
            terms = terms + 2.0 * (count - common) * logs[1]
            return np.asarray(log_sum(terms + (steps - 2 * count + common) * logs[0], axis=0))

        def heights(tilt: float) -> Array:
            """How high the three tilted measures are at the center, as Chernoff bounds have it."""
            logs = [
                float(log_moments(power, np.array([tilt + 1.0 - power]))[0]) for power in range(3)
            ]
            return np.array(logs) - (tilt + np.array([1.0, 0.0, -1.0])) * center.mean

        origin = 0.0 if self.sign > 0.0 else -1.0
        saddle = heights(center.tilt)
        best = (math.inf, center.tilt, 0.0, 0.0)
        for share in (1.0, 0.85, 0.7, 0.5, 0.3, 0.1, 0.0):
            tilt = origin + share * (center.tilt - origin)
            lost = float(np.max(heights(tilt) - saddle))
            if lost > _MOST_LOST:
                break
            ends = [center.mean - 3.0 * center.deviation, center.mean + 3.0 * center.deviation]
            for power, move in enumerate((1.0, 0.0, -1.0)):
                logs = log_moments(power, tilt + move + np.append(extra, 0.0))
                reach = (logs[:-1] - logs[-1] + _NOTHING) / extra
                half = extra.size // 2
                ends = [min(ends[0], np.max(reach[:half])), max(ends[1], np.min(reach[half:]))]
            size = (ends[1] - ends[0]) * (1.0 + 0.2 * max(lost, 0.0))
            best = min(best, (size, tilt, ends[0], ends[1]))
        return best[1:]

    def _end(self, center: _Center, side: float) -> float:
        """A log x so small (side 1) or large (-1) that posterior means hardly ever reach k under Q."""
        log_u, log_weight, _ = self._grid
        reach = 4.0 * center.posterior_deviation / center.variance
        b = side * np.geomspace(1.0, 30.0, 12) / center.posterior_deviation
        usual = self._usual_log_x
        log_x = min(usual, center.log_x) if side > 0.0 else max(usual, center.log_x)
        for _ in range(60):
            log_x -= side * 0.3 * reach
            chance = np.exp(-np.logaddexp(0.0, -log_x - log_u))
            logs = log_sum(log_weight + np.multiply.outer(b, chance)) - log_sum(log_weight)
            if np.min(self.steps * logs - b * self.participations) < -_NEVER:
                break
        return log_x


def several_allocated(
    noise_multiplier: float,
    steps: int,
    participations: int,
    times: int,
    side: Side,
    width: float,
) -> Pair:
    """A pair above (upper) or below (lower) that of k of T steps, to be repeated `times` times.

    Holds when: LEAST_NOISE <= noise_multiplier <= MOST_NOISE and 1 < participations < steps.

    >>> from sharpdp.pairs.pair import epsilon_of
    >>> sides = [several_allocated(1.0, 100, 10, 1, side, 1e-2) for side in Side]
    >>> low, high = (epsilon_of(pair, math.log(1e-5)) for pair in sides)
    >>> bool(5.80 < low[0] < high[1] < 5.88)
    True
    """
    mu = 1.0 / noise_multiplier
    try:
        return TabulatedPair(_pair(mu, steps, participations, depth_of(times), side, width))
    except NotCertified:
        revealed = GaussianPair(mu * math.sqrt(participations))
        return revealed if side is Side.UPPER else AtomicPair((0.0,), (0.0,), (0.0,))


@lru_cache(maxsize=64)
def _pair(
    mu: float, steps: int, participations: int, depth: float, side: Side, width: float
) -> AtomicPair:
    """Chords between upper values, or the best of all events."""
    ahead, behind = (
        _direction(mu, steps, participations, sign, depth, width) for sign in (1.0, -1.0)
    )
    if side is Side.LOWER:
        return Attacks(ahead.q, ahead.p, behind.q, behind.p).pair()
    revealed = GaussianPair(mu * math.sqrt(participations))
    halves = []
    for part in (ahead, behind):
        known = revealed.log_hockey_stick(part.losses) + _MARGIN
        log_high = np.minimum(np.minimum(part.log_high, known), 0.0)
        halves.append(Values(part.losses, np.full(log_high.shape, -np.inf), log_high))
    return pair_above(halves[0], halves[1])


_direction = lru_cache(maxsize=64)(
    lambda mu, steps, participations, sign, depth, width: SeveralSteps(
        mu, steps, participations, sign, width
    ).direction(depth)
)
