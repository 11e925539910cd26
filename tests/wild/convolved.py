"""delta, trade-off and Renyi divergence of a composition, enclosed by one transform per direction.

Losses are moved to a grid of spacing h by a coin whose odds keep both masses, which can only reveal:
the grid's delta' is above the true delta. A move changes the sum of n losses by some N with values
in a range of h each and a mean of at most n h^2 / 8, so that delta(e) >= delta'(e + r) - Pr[N > r],
and Hoeffding bounds the last term. Both hold after tilting, which keeps the digits of small deltas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.signal import lfilter
from scipy.special import ndtri

from tests.wild.pairs import LEAST, Array, Pair

POINTS = 1 << 13
MANY_POINTS = 1 << 15
MANY = 300  # steps from which on the finer grid pays
DEVIATIONS = 9.0  # of the sum of all moves
FLOATS = 1e-7  # relative error granted to masses and sums in floats


@dataclass
class Composition:
    """Finite pairs, each so many times, in one direction."""

    steps: Sequence[tuple[Pair, int]]
    _laws: list[tuple[Array, Array, int]] = field(init=False)

    def __post_init__(self) -> None:
        self._laws = []
        self.log_finite = 0.0  # log of the probability that no outcome gives the record away
        for pair, count in self.steps:
            seen = (pair.p > 0.0) & (pair.q > 0.0)
            away = float(np.sum(pair.p[(pair.p > 0.0) & (pair.q == 0.0)]))
            with np.errstate(divide="ignore"):
                self.log_finite += count * float(np.log1p(-min(away, 1.0)))
            if not np.any(seen):  # every outcome gives the record away
                self._laws.append((np.zeros(1), np.ones(1), count))
                continue
            loss = np.log(pair.p[seen]) - np.log(pair.q[seen])
            mass = pair.p[seen] / max(1.0 - away, 1e-300)
            self._laws.append((loss, mass, count))

    @property
    def count(self) -> int:
        return sum(count for *_, count in self._laws)

    @property
    def revealed(self) -> float:
        return -float(np.expm1(self.log_finite))

    @cached_property
    def top(self) -> float:
        return sum(count * float(np.max(loss, initial=-np.inf)) for loss, _, count in self._laws)

    @cached_property
    def bottom(self) -> float:
        return sum(count * float(np.min(loss, initial=np.inf)) for loss, _, count in self._laws)

    @cached_property
    def steepest(self) -> float:
        """The largest tilt at which weights of one run stay ordinary numbers."""
        return 600.0 / max(max(float(np.ptp(loss)) for loss, *_ in self._laws), 1e-9)

    def moments(self, theta: float) -> tuple[float, float, float]:
        """log E e^(theta L) of the finite losses, and mean and variance after tilting."""
        total = mean = variance = 0.0
        for loss, mass, count in self._laws:
            power = theta * loss
            high = float(np.max(power))
            weight = mass * np.exp(power - high)
            whole = float(np.sum(weight))
            center = float(weight @ loss) / whole
            total += count * (high + np.log(whole))
            mean += count * center
            variance += count * max(float(weight @ (loss - center) ** 2) / whole, 0.0)
        return total, mean, variance

    def renyi(self, order: float) -> tuple[float, float]:
        """(least, most) of an order; anything where masses that have lost digits matter."""
        if self.revealed >= LEAST:
            return np.inf, np.inf
        if self._faint_share(order - 1.0) > 1e-9:
            return 0.0, np.inf
        value = self.moments(order - 1.0)[0] / (order - 1.0)
        return value, value

    def _faint_share(self, theta: float) -> float:
        """The largest share that outcomes near the smallest double have after tilting."""
        shares = [0.0]
        for loss, mass, _ in self._laws:
            log_weight = np.log(mass) + theta * loss
            weight = np.exp(log_weight - np.max(log_weight))
            faint = (mass < LEAST) | (np.log(mass) - loss < np.log(LEAST))
            shares.append(float(np.sum(weight[faint]) / np.sum(weight)))
        return max(shares)

    def _tilt(self, goes_down: object) -> float:
        """Bisect the tilt for a condition that holds for small ones."""
        low, high = 0.0, min(1.0, self.steepest)
        while goes_down(high) and high < self.steepest:  # type: ignore[operator]
            low, high = high, min(2.0 * high, self.steepest)
        for _ in range(12):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if goes_down(middle) else (low, middle)  # type: ignore[operator]
        return low

    def tilt_at(self, epsilon: float) -> float:
        return self._tilt(lambda theta: self.moments(theta)[1] < epsilon)

    def tilt_for(self, log_delta: float) -> float:
        def above(theta: float) -> bool:
            height, mean, _ = self.moments(theta)
            return height - theta * mean > log_delta

        return self._tilt(above)

    def tilt_for_rate(self, log_fpr: float) -> float:
        """The same for the probability without the record that a loss is as large."""

        def above(theta: float) -> bool:
            height, mean, _ = self.moments(theta)
            return height - (theta + 1.0) * mean > log_fpr

        return self._tilt(above)

    def _reach(self, theta: float, mean: float, deviation: float) -> tuple[float, float]:
        """How far to both sides of the mean all but 1e-15 of the tilted mass lies."""
        height = self.moments(theta)[0]
        ends = []
        for sign, most in ((1.0, self.top - mean), (-1.0, mean - self.bottom)):
            best = most
            for factor in (0.3, 1.0, 3.0, 8.0, 20.0):
                shift = sign * factor / max(deviation, 1e-300)
                if not np.isfinite(shift) or theta + shift < -1e6 or abs(shift) > 1e9:
                    continue
                grown = self.moments(theta + shift)[0] - height - shift * mean
                best = min(best, (grown + 34.5) / abs(shift))
            ends.append(max(best, 0.0))
        return ends[0], ends[1]

    def on_grid(self, theta: float) -> Grid:
        _, mean, variance = self.moments(theta)
        deviation = float(np.sqrt(variance))
        right, left = self._reach(theta, mean, deviation)
        size = MANY_POINTS if self.count > MANY else POINTS
        span = max(right + left, 1e-12 * (1.0 + abs(mean)), 1e-290)
        h = 1.02 * span / (size - 64)
        log_total, transform = 0.0, np.ones(size // 2 + 1, dtype=complex)
        for loss, mass, count in self._laws:
            place = np.floor(loss / h)
            low = loss - place * h
            up = np.clip(np.expm1(-low) / np.expm1(-h), 0.0, 1.0)
            places = np.concatenate([place, place + 1.0])
            masses = np.concatenate([mass * (1.0 - up), mass * up])
            power = theta * h * places
            high = float(np.max(power))
            weight = masses * np.exp(power - high)
            whole = float(np.sum(weight))
            log_total += count * (high + np.log(whole))
            row = np.bincount(
                np.mod(places, size).astype(np.int64), weights=weight / whole, minlength=size
            )
            with np.errstate(all="ignore"):
                transform *= np.fft.rfft(row) ** count
        transform[~np.isfinite(transform)] = 0.0
        circular = np.maximum(np.fft.irfft(transform, size), 0.0)
        start = int(np.floor((mean - left) / h)) - 24
        masses = circular[np.mod(start + np.arange(size), size)]
        noise = 2e-14 + 5e-16 * self.count
        return Grid(self, theta, h, start, masses, log_total, noise)


@dataclass
class Grid:
    """The tilted law of the moved losses around its mean."""

    of: Composition
    theta: float
    h: float
    start: int
    mass: Array
    log_total: float
    noise: float

    @property
    def _variance(self) -> float:
        return self.of.count * self.h**2 / 4.0

    @property
    def shift(self) -> float:
        """How much later the lower side looks."""
        drift = self.of.count * self.h**2 / 8.0
        return drift + self.theta * self._variance + DEVIATIONS * float(np.sqrt(self._variance))

    @property
    def _stray(self) -> float:
        """What moves beyond the shift add, in units of e^(log_total - theta (epsilon + shift))."""
        drift = self.of.count * self.h**2 / 8.0
        power = self.theta * drift + 0.5 * self._variance * self.theta**2 - 0.5 * DEVIATIONS**2
        return float(np.exp(min(power, 700.0)))

    def _scaled(self, epsilon: float) -> tuple[float, float]:
        """delta' e^(theta epsilon - log_total), and what rounding may make of it."""
        first = max(int(np.floor(epsilon / self.h)) - self.start, 0)
        places = np.arange(min(first, self.mass.size), self.mass.size)
        beyond = (self.start + places) * self.h - epsilon
        beyond, mass = beyond[beyond > 0.0], self.mass[first:][beyond > 0.0]
        with np.errstate(under="ignore"):
            weight = np.exp(-self.theta * beyond) * -np.expm1(-beyond)
        return float(mass @ weight), self.noise * float(np.sum(weight)) + 3.0 * self.noise

    def delta(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper), next to what is revealed for certain."""
        return self.delta_low(epsilon), self.delta_high(epsilon)

    def delta_high(self, epsilon: float) -> float:
        if epsilon >= self.of.top * (1.0 + 1e-12) + 1e-300:
            return self.of.revealed * (1.0 + FLOATS)
        value, error = self._scaled(epsilon)
        size = np.exp(min(self.log_total - self.theta * epsilon, 700.0))
        left = np.exp(self.of.log_finite)
        return min(self.of.revealed + left * size * (value + error) * (1.0 + FLOATS) + 1e-320, 1.0)

    def delta_low(self, epsilon: float) -> float:
        at = epsilon + self.shift
        value, error = self._scaled(at)
        size = np.exp(min(self.log_total - self.theta * at, 700.0))
        found = max(value - error - self._stray, 0.0) * (1.0 - FLOATS)
        return self.of.revealed * (1.0 - FLOATS) + float(np.exp(self.of.log_finite) * size * found)

    def curve(self) -> tuple[Array, Array, Array]:
        """epsilon, lower and upper delta at all places of the grid."""
        back = self.mass[::-1]

        def summed(rate: float) -> Array:
            decay = np.exp(-rate * self.h)
            return lfilter([0.0, decay], [1.0, -decay], back)[::-1]

        scaled = summed(self.theta) - summed(self.theta + 1.0)
        epsilon = (self.start + np.arange(self.mass.size)) * self.h
        reach = min(self.mass.size, 1.0 / max(-np.expm1(-self.theta * self.h), 1e-9))
        error = self.noise * (reach + 5.0)
        with np.errstate(over="ignore", under="ignore"):
            size = np.exp(np.minimum(self.log_total - self.theta * epsilon, 700.0))
            later = int(np.ceil(self.shift / self.h))
            left, revealed = np.exp(self.of.log_finite), self.of.revealed
            high = revealed + left * size * (scaled + error) * (1.0 + FLOATS)
            low = left * size * np.maximum(scaled - error - self._stray, 0.0) * (1.0 - FLOATS)
        low = np.append(low[later:], np.zeros(min(later, low.size)))[: high.size]
        return epsilon, low + revealed * (1.0 - FLOATS), np.minimum(high, 1.0)

    def tpr(self, fpr: float) -> tuple[float, float]:
        """(lower, upper) of the largest true-positive rate: the least delta + e^epsilon fpr."""
        epsilon, low, high = self.curve()
        with np.errstate(over="ignore"):
            price = fpr * np.exp(np.minimum(epsilon, 700.0))
        upper = float(np.min(high + price))
        # between two places delta falls, and the price rises
        lower = low[1:] + price[:-1]
        ends = min(lower[0], lower[-1])
        found = float(np.min(lower)) if upper < ends else fpr  # convex: the least is inside
        return min(max(found, fpr), 1.0), min(upper, 1.0)

    def mu(self, smallest: float) -> tuple[float, float]:
        """Enclosure of the largest shift of normal quantiles, both error rates at least `smallest`."""
        epsilon, low, high = self.curve()
        thin = slice(None, None, max(epsilon.size // 2048, 1))
        price = np.exp(np.clip(epsilon[thin], -700.0, 700.0))
        fpr = ndtri_grid(smallest)
        least = np.min(
            np.append(low[thin][1:], low[-1])[None, :] + fpr[:, None] * price[None, :], axis=1
        )
        most = np.minimum(np.min(high[thin][None, :] + fpr[:, None] * price[None, :], axis=1), 1.0)
        inside = 1.0 - least > smallest
        if not np.any(inside):
            return 0.0, np.inf
        lower = np.max((ndtri(least) - ndtri(fpr))[inside & (least > fpr)], initial=0.0)
        capped = np.minimum(most, 1.0 - smallest)
        upper = np.max(ndtri(capped[1:]) - ndtri(fpr[:-1]), initial=0.0)
        return float(lower), max(float(upper), 0.0)


def ndtri_grid(smallest: float) -> Array:
    """False-positive rates, close to each other in normal quantiles."""
    from scipy.special import ndtr

    end = -float(ndtri(smallest))
    return ndtr(np.linspace(-end, end, 300))
