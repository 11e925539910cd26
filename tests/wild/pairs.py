"""Pairs of laws on finitely many outcomes that enclose a mechanism's pair, in plain floats.

An outcome has a probability p with the record and q without it. Merging outcomes can only hide
(`low`); splitting an outcome into its smallest and largest loss, both masses kept, can only reveal
(`high`). Nothing here is shared with sharpdp.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import binom

Array = np.ndarray
FAR = 38.0  # deviations beyond which a normal tail is below the smallest double
STEP = 0.08  # deviations in one cell
LEAST = 1e-300  # smaller masses lose digits, which e^epsilon or an order would enlarge


@dataclass(frozen=True)
class Pair:
    """Masses of the same outcomes with the record (p) and without it (q)."""

    p: Array
    q: Array

    def reverse(self) -> Pair:
        return Pair(self.q, self.p)


@dataclass(frozen=True)
class Known:
    """A pair that hides at least as much as the true one, and one that reveals at least as much."""

    low: Pair
    high: Pair
    symmetric: bool = False

    def reverse(self) -> Known:
        return self if self.symmetric else Known(self.low.reverse(), self.high.reverse())


def equal(pair: Pair, symmetric: bool = False) -> Known:
    return Known(pair, pair, symmetric)


SILENT = Pair(np.ones(1), np.ones(1))
REVEALING = Pair(np.array([1.0, 0.0]), np.array([0.0, 1.0]))


def of(p: Sequence[float], q: Sequence[float]) -> Pair:
    return Pair(np.asarray(p, dtype=float), np.asarray(q, dtype=float))


def together(shares: Sequence[float], pairs: Sequence[Pair]) -> Pair:
    """One of several, and it is seen which."""
    weighted = [(w * one.p, w * one.q) for w, one in zip(shares, pairs, strict=True)]
    return Pair(np.concatenate([a for a, _ in weighted]), np.concatenate([b for _, b in weighted]))


def mixed(shares: Sequence[float], laws: Sequence[Known], symmetric: bool = False) -> Known:
    return Known(
        together(shares, [one.low for one in laws]),
        together(shares, [one.high for one in laws]),
        symmetric,
    )


def cells(p: Array, q: Array, least: Array, most: Array, symmetric: bool = False) -> Known:
    """Cells of outcomes with masses p and q, whose losses lie between two bounds."""
    kept = (p > 0.0) | (q > 0.0)
    p, q, least, most = p[kept], q[kept], least[kept], most[kept]
    with np.errstate(all="ignore"):
        loss = np.clip(np.log(p) - np.log(q), least, most)
        up = np.expm1(least - loss) / np.expm1(least - most)
        up = np.where(most - least > 1e-13, np.clip(up, 0.0, 1.0), 1.0)
        up = np.where(np.isneginf(least), 1.0, up)
        up = np.where(np.isposinf(most), np.maximum(-np.expm1(least - loss), 0.0), up)
        here = np.concatenate([p * up, p * (1.0 - up)])
        other = np.concatenate([p * up * np.exp(-most), p * (1.0 - up) * np.exp(-least)])
    other[~np.isfinite(other)] = 0.0
    here = np.where(here < LEAST, np.nextafter(here, 1.0), here)
    other = np.where(other < LEAST, np.nextafter(other, 0.0), other)
    hidden = np.where(np.isneginf(least), np.maximum(q - p * np.exp(-most), 0.0), 0.0)
    high = Pair(np.append(here, 0.0), np.append(other, float(np.sum(hidden))))
    both = (p >= LEAST) & (q >= LEAST)  # leaving outcomes out can only hide
    return Known(Pair(p[both], q[both]), high, symmetric)


def normal_masses(ends: Array, mean: float = 0.0, deviation: float = 1.0) -> Array:
    """Masses of a normal law between neighboring ends, with their digits in both tails."""
    z = (ends - mean) / deviation
    left, right = ndtr(z), ndtr(-z)
    return np.where(z[:-1] > 0.0, right[:-1] - right[1:], left[1:] - left[:-1])


def _line(low: float, high: float, step: float) -> Array:
    inner = np.linspace(low, high, int((high - low) / step) + 2)
    return np.concatenate([[-np.inf], inner, [np.inf]])


def gaussian(mu: float) -> Known:
    x = _line(-FAR, FAR + mu, max(STEP, (2 * FAR + mu) / 4000))
    loss = mu * x - 0.5 * mu * mu
    return cells(normal_masses(x, mu), normal_masses(x), loss[:-1], loss[1:], symmetric=True)


def poisson(rate: float, mu: float) -> Known:
    """A Gaussian step in which the record takes part with probability `rate`."""
    if rate == 1.0:
        return gaussian(mu)
    x = _line(-FAR, FAR + mu, max(STEP, (2 * FAR + mu) / 4000))
    a = mu * x - 0.5 * mu * mu
    with np.errstate(over="ignore"):
        loss = np.where(
            a > 1.0,
            np.maximum(a, 1.0) + np.log(rate + (1.0 - rate) * np.exp(-np.maximum(a, 1.0))),
            np.log1p(rate * np.expm1(np.minimum(a, 1.0))),
        )
    q = normal_masses(x)
    return cells((1.0 - rate) * q + rate * normal_masses(x, mu), q, loss[:-1], loss[1:])


def laplace(scale: float) -> Known:
    e = 1.0 / scale
    x = np.linspace(0.0, 1.0, int(min(max(e / 0.01, 200), 4000)))
    left = -0.5 * np.diff(np.exp(-x * e))  # of the law around 0
    q = np.concatenate([[0.5], left, [0.5 * np.exp(-e)]])
    loss = np.concatenate([[-e], e * (2.0 * x - 1.0), [e]])
    return cells(q[::-1], q, loss[:-1], loss[1:], symmetric=True)


def normals(
    shares: Sequence[float],
    means: Sequence[float],
    other_means: Sequence[float],
    deviation: float,
    other_shares: Sequence[float] | None = None,
) -> Known:
    """Mixtures of normal laws of one deviation; which one it was is not seen."""
    a, b = np.asarray(means) / deviation, np.asarray(other_means) / deviation
    others = shares if other_shares is None else other_shares
    low, high = min(*a, *b), max(*a, *b)
    step = max(STEP, (2 * FAR + high - low) / 4000)
    x = _line(low - FAR, high + FAR, step)
    inner = x[1:-1]

    def log_density(weights: Sequence[float], centers: Array) -> Array:
        parts = [np.log(w) - 0.5 * (inner - m) ** 2 for w, m in zip(weights, centers, strict=True)]
        return np.logaddexp.reduce(parts)

    loss = log_density(shares, a) - log_density(others, b)
    # the logarithm of a mixture bends by at most the variance of its slopes
    bend = step**2 / 8.0 * ((np.ptp(a) ** 2 + np.ptp(b) ** 2) / 4.0) + 1e-12
    least = np.concatenate([[-np.inf], np.minimum(loss[:-1], loss[1:]) - bend, [-np.inf]])
    most = np.concatenate([[np.inf], np.maximum(loss[:-1], loss[1:]) + bend, [np.inf]])
    p = sum(w * normal_masses(x, m) for w, m in zip(shares, a, strict=True))
    q = sum(w * normal_masses(x, m) for w, m in zip(others, b, strict=True))
    known = cells(p[1:-1], q[1:-1], least[1:-1], most[1:-1])
    tails = p[[0, -1]], q[[0, -1]]
    return Known(
        Pair(np.append(known.low.p, tails[0]), np.append(known.low.q, tails[1])),
        Pair(
            np.concatenate([known.high.p, tails[0], [0.0, 0.0]]),
            np.concatenate([known.high.q, [0.0, 0.0], tails[1]]),
        ),
    )


def two_normals(mean: float, other: float, deviation: float, other_deviation: float) -> Known:
    """Two normal laws of different deviations: the loss is a parabola."""
    s, t = deviation, other_deviation
    low = min(mean - FAR * s, other - FAR * t)
    high = max(mean + FAR * s, other + FAR * t)
    near = [np.linspace(m - FAR * d, m + FAR * d, 1200) for m, d in ((mean, s), (other, t))]
    turn = (mean / s**2 - other / t**2) / (1.0 / s**2 - 1.0 / t**2)
    inner = np.unique(np.concatenate([*near, [turn]] if low < turn < high else near))
    x = np.concatenate([[-np.inf], inner, [np.inf]])
    loss = np.log(t / s) - 0.5 * ((inner - mean) / s) ** 2 + 0.5 * ((inner - other) / t) ** 2
    end = np.inf if s > t else -np.inf
    loss = np.concatenate([[end], loss, [end]])
    if not low < turn < high:
        loss[0] = loss[-1] = np.nan  # the tails may turn
    least, most = np.fmin(loss[:-1], loss[1:]), np.fmax(loss[:-1], loss[1:])
    slack = 1e-12 * (1.0 + np.abs(np.where(np.isfinite(most), most, 0.0)))
    p, q = normal_masses(x, mean, s), normal_masses(x, other, t)
    return cells(p, q, least - slack, most + slack)


def response(epsilon: float, categories: int = 2) -> Pair:
    """Randomized response: truthful with odds e^epsilon against each other category."""
    total = 1.0 + (categories - 1) * np.exp(-epsilon)
    heavy, light = 1.0 / total, np.exp(-epsilon) / total
    if categories == 2:
        return of([heavy, light], [light, heavy])
    return of([heavy, light, (categories - 2) * light], [light, heavy, (categories - 2) * light])


def approximate(epsilon: float, delta: float) -> Pair:
    one = response(epsilon)
    return of([delta, *(1.0 - delta) * one.p, 0.0], [0.0, *(1.0 - delta) * one.q, delta])


def largest_of(steps: int, participations: int, mu: float) -> Pair:
    """The largest of some noisy numbers, `participations` of which are moved by mu: all at a glance.

    Whoever sees all of them sees at least that, whichever ones are moved.
    """
    x = np.linspace(-5.0, mu + 9.0, 120)
    rest = steps - participations
    q, p = steps * log_ndtr(x), rest * log_ndtr(x) + participations * log_ndtr(x - mu)

    def masses(log_cdf: Array) -> Array:
        above = -np.expm1(log_cdf)
        below = np.exp(log_cdf)
        inner = np.where(below[1:] < 0.5, np.diff(below), -np.diff(above))
        return np.concatenate([[below[0]], inner, [above[-1]]])

    a, b = masses(p), masses(q)
    # cells too light to be right are joined to the last heavy one on their side
    heavy = np.flatnonzero((a > 1e-9) & (b > 1e-9))
    first, last = int(heavy[0]), int(heavy[-1])

    def join(m):
        return np.concatenate(
            [[m[: first + 1].sum()], m[first + 1 : last], [m[last:].sum()]]
            if last > first
            else [[1.0]]
        )

    return Pair(join(a), join(b))


def shuffled_response(users: int, epsilon: float, rate: float = 1.0) -> Pair:
    """Mixed binary responses, all others with the victim's first value; the victim drawn with `rate`."""
    light = 1.0 / (1.0 + np.exp(epsilon))
    spread = 45.0 * np.sqrt(users * light * (1.0 - light)) + 45.0
    mean = users * light
    k = np.arange(max(0, int(mean - spread)), min(users, int(mean + spread)) + 1)
    rest, before = binom.pmf(k, users - 1, light), binom.pmf(k - 1, users - 1, light)
    alike = (
        1.0 - light
    ) * rest + light * before  # k ones if the victim's value is like the others'
    other = light * rest + (1.0 - light) * before
    return Pair(alike, (1.0 - rate) * alike + rate * other)


def clones(users: int, epsilon: float, rate: float) -> Pair:
    """Reports of which each one is with probability `rate` a copy of the victim's, either way."""
    heavy = 1.0 / (1.0 + np.exp(-epsilon))
    size = users + 1
    p, q = np.zeros((size, size)), np.zeros((size, size))
    for c in range(users):
        a = np.arange(c + 1)
        mass = binom.pmf(c, users - 1, rate) * binom.pmf(a, c, 0.5)
        np.add.at(p, (a + 1, c - a), heavy * mass)
        np.add.at(p, (a, c - a + 1), (1.0 - heavy) * mass)
    q = p.T
    return Pair(p.ravel(), q.ravel().copy())


def lines(epsilons: Sequence[float], deltas: Sequence[float]) -> Pair:
    """The worst pair that is (epsilon, delta)-DP at all of these points, in both orders."""
    parts = [(Fraction(0), Fraction(0))]
    for e, d in zip(epsilons, deltas, strict=True):
        x, rest = Fraction(float(np.exp(e))), 1 - Fraction(d)
        parts += [(rest, -x), (rest / x, -1 / x)]  # f >= start + slope * fpr
    knots = [Fraction(0)]
    at = knots[0]
    value = lambda line: line[0] + line[1] * at  # noqa: E731
    here = max(parts, key=lambda one: (value(one), one[1]))
    heights = [value(here)]
    while at < 1:
        crossings = [
            ((here[0] - one[0]) / (one[1] - here[1]), one) for one in parts if one[1] > here[1]
        ]
        ahead = [(max(c, at), one) for c, one in crossings]
        if not ahead:
            break
        at = min(c for c, _ in ahead)
        here = max((one for c, one in ahead if c == at), key=lambda one: one[1])
        at = min(at, Fraction(1))
        knots.append(at)
        heights.append(value(here))
    if knots[-1] < 1:
        knots.append(Fraction(1))
        heights.append(Fraction(0))
    p = [1 - heights[0], *(float(a - b) for a, b in itertools.pairwise(heights))]
    q = [0.0, *(float(b - a) for a, b in itertools.pairwise(knots))]
    return of([float(v) for v in p], q)
