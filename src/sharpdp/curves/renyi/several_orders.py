"""All orders of a Renyi curve at once: what no single order implies, and when there is nothing more.

An event has the probabilities P(E) = p and Q(E) = q, and the divergences of these two coins are at most
those of P and Q. So the largest delta at epsilon, whatever else P and Q are, is

    max p - e^epsilon q   over coins with D_a(p||q) <= v_a and D_a(q||p) <= v_a at every order a,

and coins attain it. In x = e^epsilon it is the largest convex function below the best conversions of
single orders, those of the other direction being reflected, h(x) = 1 - x + x h'(1/x). Only two orders
matter at a time: delta lies on a chord between a point of the one and a point of the other.

That chords of upper bounds are upper bounds is the convexity of H_x in x, which is all that a guarantee
here rests on. Which two points to connect is planned with the coins, without error bounds.

Source: riess2026, of which this is the statement about epsilon and delta; proof: docs/topics/renyi.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.curves.renyi.conversion import delta_from, least_divergence
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    log1mexp,
    log_convexity_gap,
    log_expm1,
)

__all__ = ["ConvertedLevel", "joint_conversion"]

_WORTHWHILE = 1e-3
"""Where the best coin of the best order exceeds no other order by more than this, relatively, the best
delta is at most so much smaller, and is not looked for."""

_CLOSE_ENOUGH = 1e-7
"""Relative distance between the chord and the best coin at which planning ends."""

_LARGEST_LOGIT = 36.0
"""Of probabilities p that are looked at: beyond, 1 - p is below all digits of p."""

_ROUNDING = 32.0 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class ConvertedLevel:
    """What one order implies: epsilon or delta, of the divergence `level`."""

    value: float
    order: float
    level: float


@dataclass(frozen=True)
class _Tangent:
    """A boundary point of all coins that one order allows: p - x q is at most what it is here."""

    p: float
    q: float
    order: float
    level: float
    log_slope: float
    """log x."""
    is_reversed: bool
    """Whether it is the divergence of Q from P."""

    @property
    def slope(self) -> float:
        return math.exp(self.log_slope)

    def crossing(self, other: _Tangent) -> float:
        """The q at which the two tangents meet, this one being the steeper one."""
        rise = (other.p - other.slope * other.q) - (self.p - self.slope * self.q)
        return rise / (self.slope - other.slope)


@dataclass(frozen=True)
class _Coins:
    """The pairs of coins (p, q), p >= q, that divergences at many orders allow, in both directions."""

    orders: Array
    levels: Array

    @cached_property
    def _finite(self) -> NDArray[np.bool_]:
        return np.isfinite(self.orders)

    @cached_property
    def _s(self) -> Array:
        return np.asarray(self.orders[self._finite] - 1.0)

    @cached_property
    def _log_allowed(self) -> Array:
        """log of the largest e^{s D} - 1 at each order."""
        return log_expm1(self._s * self.levels[self._finite])

    @cached_property
    def _largest_loss(self) -> float:
        return float(np.min(self.levels[~self._finite], initial=np.inf))

    @cached_property
    def _labels(self) -> tuple[Array, Array]:
        """Order and level of each entry of `excesses`, without the direction."""
        finite = self._finite
        one = np.append(self.orders[finite], np.inf)
        levels = np.append(self.levels[finite], self._largest_loss)
        return np.tile(one, 2), np.tile(levels, 2)

    def excesses(self, p: float, q: float) -> tuple[Array, Array, Array]:
        """By how much each order is exceeded, in logarithms; its derivative in logit p; log of its slope.

        The orders of P from Q, the infinite one last, then those of Q from P, where the coins are
        (1 - q, 1 - p). Of S = sum q phi(t), t = p / q, phi(t) = t^a - 1 - a (t - 1).
        """
        s, logs = self._s, np.log([p, 1.0 - p, q, 1.0 - q])
        log_p, log_rest_p, log_q, log_rest_q = logs
        up, down = log_p - log_q, log_rest_p - log_rest_q
        losses = np.array([up, down, -down, -up])[:, None]
        weights = np.array([log_p, log_rest_p, log_rest_q, log_q])[:, None]
        powers = np.broadcast_to(s, (4, s.size))
        terms = weights + log_convexity_gap(powers, np.broadcast_to(losses, powers.shape))
        log_sums = np.logaddexp(terms[::2], terms[1::2])
        # the derivatives are a (t^s - u^s) and s (t^a - u^a), at the two likelihood ratios t and u
        exponents = np.stack([s, s + 1.0])[:, None]
        differences = exponents * losses[::2] + log1mexp(np.minimum(exponents * (down - up), 0.0))
        by_p = np.log1p(s) + differences[0] - log_sums
        by_q = np.log(s) + differences[1] - log_sums
        # of the other direction p is 1 - q, and what falls with q there rises with p here
        size = s.size + 1
        excess, rising, log_slope = np.empty((3, 2, size))
        excess[:, :-1] = log_sums - self._log_allowed
        excess[:, -1] = np.array([up, -down]) - self._largest_loss
        rising[:, :-1] = np.exp(np.stack([by_p[0], by_q[1]]) + log_p + log_rest_p)
        rising[:, -1] = 1.0 - p, p
        log_slope[:, :-1] = by_q - by_p
        log_slope[1] *= -1.0
        log_slope[:, -1] = self._largest_loss, -self._largest_loss
        return excess.ravel(), rising.ravel(), log_slope.ravel()

    def highest(self, q: float, guess: float) -> _Tangent:
        """The largest p beside this q, by Newton's method inside a bracket of logits; not certified."""
        low, high = math.log(q) - math.log1p(-q), _LARGEST_LOGIT
        z = min(max(guess, low), high)
        for _ in range(60):
            p = 1.0 / (1.0 + math.exp(-z))
            excess, rising, log_slope = self.excesses(p, q)
            worst = int(np.nanargmax(excess))
            too_high = excess[worst] > 0.0
            low, high = (low, z) if too_high else (z, high)
            new = z - float(excess[worst] / rising[worst])
            if not low < new < high:
                new = 0.5 * (low + high)
            if abs(new - z) <= 1e-9 * (1.0 + abs(z)):
                break
            z = new
        orders, levels = self._labels
        is_reversed = worst >= orders.size // 2
        return _Tangent(
            p, q, float(orders[worst]), float(levels[worst]), float(log_slope[worst]), is_reversed
        )


def joint_conversion(
    quantity: str, given: float, orders: Array, levels: Array, best: ConvertedLevel
) -> tuple[float, tuple[float, ...]]:
    """The smallest "epsilon" or "delta" that all orders imply together, and the orders that give it.

    One order if nothing better than `best` is found, otherwise two, which are equal if both directions
    of one order give it.

    Holds when: the divergences of both directions are at most `levels`, and `best` is a conversion of one
    of them, or of another order. Never above `best`, which counts where nothing better is proved.

    Numerics: rounded up; a chord of two conversions that are certified. Within about 1e-6 of what coins
    attain where the search ends early, and 1e-3 in delta where it is not worthwhile.

    >>> both = np.array([2.0, 8.0]), np.array([0.1, 0.4])
    >>> best = ConvertedLevel(0.0486477, 2.0, 0.1)
    >>> value, orders = joint_conversion("delta", 0.4, *both, best)
    >>> round(value, 6), orders
    (0.044246, (2.0, 8.0))
    """
    alone = best.value, (best.order,)
    known = np.isfinite(levels) & (levels > 0.0)
    if not known.any() or not 0.0 < best.value < np.inf or (given == 0.0 and quantity == "epsilon"):
        return alone
    coins = _Coins(orders[known], levels[known])
    with np.errstate(all="ignore"):
        try:
            tangents = _planned(quantity, given, coins, best)
        except (ArithmeticError, ValueError):  # a coin left the doubles
            return alone
        if len(tangents) < 2:
            return alone
        value = _chord(quantity, given, *_certified(tangents))
    orders_used = tuple(sorted(tangent.order for tangent in tangents))
    return (value, orders_used) if value < best.value else alone


def _planned(
    quantity: str, given: float, coins: _Coins, best: ConvertedLevel
) -> tuple[_Tangent, ...]:
    """The two tangents between which the best coin is; none if the best order alone is enough."""
    p, q = _coin(quantity, given, best)
    if float(np.nanmax(coins.excesses(p, q)[0])) <= _WORTHWHILE:
        return ()

    def wanted_slope(p: float, q: float) -> float:
        """Its logarithm: best coins have tangents of this slope."""
        if quantity == "delta":
            return given
        return math.log((p - given) / q) if p > given else -math.inf

    def is_steep(tangent: _Tangent) -> bool:
        """Whether better coins are to the right."""
        return tangent.log_slope > wanted_slope(tangent.p, tangent.q)

    def worth(coin: _Tangent) -> float:
        return (
            coin.p - math.exp(given) * coin.q
            if quantity == "delta"
            else wanted_slope(coin.p, coin.q)
        )

    first = coins.highest(q, math.log(p / (1.0 - p)))
    logit = math.log(first.p / (1.0 - first.p))
    most, step = worth(first), 0.25
    alone = _Tangent(p, q, best.order, best.level, wanted_slope(p, q), is_reversed=False)
    steep, flat = (first, None) if is_steep(first) else (None, first)
    if steep and alone.log_slope < steep.log_slope:
        flat = alone
    if flat and alone.log_slope > flat.log_slope:
        steep = alone
    low, high = (q, 1.0) if steep is first else (0.0, q)
    for _ in range(40):
        if steep and flat:
            reached = _chord(quantity, given, _point(steep), _point(flat))
            if reached < math.inf and reached - most <= _CLOSE_ENOUGH * abs(reached):
                break
            middle = steep.crossing(flat)
        else:  # farther out, until the slope that is wanted is passed
            step *= 2.0
            middle = low * (1.0 + step) if steep else high / (1.0 + step)
        if not low < middle < high:
            break
        tangent = coins.highest(middle, logit)
        most = max(most, worth(tangent))
        if is_steep(tangent):
            steep, low = tangent, middle
        else:
            flat, high = tangent, middle
    return (steep, flat) if steep and flat else ()


def _coin(quantity: str, given: float, best: ConvertedLevel) -> tuple[float, float]:
    """About the coins that attain the conversion of the best order."""
    epsilon, delta = (given, best.value) if quantity == "delta" else (best.value, given)
    if math.isinf(best.order):
        p = 1.0 / (1.0 + math.exp(-best.level))
    elif best.order * delta < 1.0:
        least = least_divergence(*(np.array([x]) for x in (best.order, epsilon, delta)))
        p = float(least.success[0])
    else:
        p = 1.0 - 2.0**-50
    return p, (p - delta) * math.exp(-epsilon)


def _point(tangent: _Tangent) -> tuple[float, float]:
    """log x and p - x q of a tangent, as planned."""
    return tangent.log_slope, tangent.p - tangent.slope * tangent.q


def _certified(tangents: tuple[_Tangent, ...]) -> list[tuple[float, float]]:
    """log x of each, and an upper bound on H_x that is certified.

    The conversion of one order is about x >= 1, and by reflection about x <= 1 for the other direction;
    a pure guarantee has H_x = 0 from its end on.
    """
    signs = np.array([-1.0 if tangent.is_reversed else 1.0 for tangent in tangents])
    orders, levels, log_slopes = np.array([(t.order, t.level, t.log_slope) for t in tangents]).T
    epsilons = np.where(np.isinf(orders), levels, np.maximum(signs * log_slopes, 0.0))
    deltas = delta_from(orders, levels, epsilons)
    reflected = (-np.expm1(-epsilons) + np.exp(-epsilons) * deltas) * (1.0 + _ROUNDING)
    values = np.where(signs < 0.0, reflected, deltas)
    return list(zip((signs * epsilons).tolist(), values.tolist(), strict=True))


def _chord(
    quantity: str, given: float, steep: tuple[float, float], flat: tuple[float, float]
) -> float:
    """Epsilon or delta on the chord between two points (log x, H_x), rounded up; the steep one is right.

    Infinite where the chord does not reach what is given.
    """
    (right, low), (left, high) = steep, flat
    width = math.expm1(right - left)
    if not (left < right and low < high and width < math.inf):
        return math.inf
    if quantity == "delta":
        if not left <= given <= right:
            return math.inf
        share = math.expm1(given - left) / width * (1.0 - _ROUNDING * (1.0 + right - left))
        return (high - share * (high - low)) * (1.0 + _ROUNDING) + _ROUNDING * high
    if not low <= given <= high:
        return math.inf
    share = (high - given) / (high - low)
    # shares lose what the difference loses; the distance to the right end is bounded in the same way
    share = min(share * (1.0 + _ROUNDING) + _ROUNDING * high / (high - low), 1.0)
    epsilon = left + math.log1p(share * width)
    return epsilon + _ROUNDING * (1.0 + abs(left) + abs(right))
