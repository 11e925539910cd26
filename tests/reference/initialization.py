"""One step of gradient descent from a random start, by quadrature: nothing of sharpdp is used.

The released start by mpmath, with break points where the integrand bends; the true marginals, whose
start is hidden, by Gauss rules for the start and a trapezoid rule for the result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mpmath
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Real = mpmath.mpf

DIGITS = 18


def delta_of(mu: Real, epsilon: float) -> Real:
    """delta of N(mu, 1) against N(0, 1); 0 at distance 0."""
    if mu == 0:
        return mpmath.mpf(0)
    a = epsilon / mu - mu / 2
    return mpmath.ncdf(-a) - mpmath.exp(epsilon) * mpmath.ncdf(-a - mu)


def rejected(mu: Real, threshold: Real) -> Real:
    """Phi(t/mu - mu/2), the false-positive rate at log-likelihood threshold t."""
    if mu == 0:
        return mpmath.mpf(1 if threshold >= 0 else 0)
    return mpmath.ncdf(threshold / mu - mu / 2)


def least_squares_mean(value: Callable[[Real], Real], slope: float, clip: float, at: float) -> Real:
    """E of a function of min(|Z|, clip), Z ~ N(slope, 1); `at` is the threshold it depends on."""
    with mpmath.workdps(DIGITS):
        a, c = mpmath.mpf(slope), mpmath.mpf(clip)
        breaks = [abs(at), mpmath.sqrt(2 * abs(at)), abs(a), abs(a) + 3, abs(a) / 2]
        inner = sorted({point for point in map(mpmath.mpf, breaks) if 0 < point < c})
        inside = mpmath.quad(
            lambda m: (mpmath.npdf(m - a) + mpmath.npdf(m + a)) * value(m), [0, *inner, c]
        )
        return inside + (mpmath.ncdf(a - c) + mpmath.ncdf(-a - c)) * value(c)


def logistic_mean(value: Callable[[Real], Real], margin: float) -> Real:
    """E of a function of margin / (1 + e^(-|I| margin)), I ~ N(0, 1)."""
    with mpmath.workdps(DIGITS):
        return 2 * mpmath.quad(
            lambda u: mpmath.npdf(u) * value(margin / (1 + mpmath.exp(-u * margin))),
            [0, 0.5, 1, 2, 4, 8, 16],
        )


def record_mean(value: Callable[[Real], Real], margin: float) -> Real:
    """E of a function of margin / (1 + e^(I margin)): one record, with x y = margin."""
    with mpmath.workdps(DIGITS):
        return mpmath.quad(
            lambda u: mpmath.npdf(u) * value(margin / (1 + mpmath.exp(u * margin))),
            [-16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16],
        )


def marginals(
    points: int, slope: float, clip: float, reach: float = 14.0, count: int = 6001
) -> tuple[Array, Array, float]:
    """Densities of the result with all points and with one fewer, on a grid, and its step.

    theta = I - n clip(I - slope) + N(0, 1), every point having y = slope x and x^2 = 1. The start is
    integrated by Gauss rules between its kinks, to nearly all digits.
    """
    kinks = [end for end in (slope - clip, slope + clip) if -9.0 < end < 9.0]
    nodes, weights = np.polynomial.legendre.leggauss(90)
    start, weight = [], []
    for low, high in itertools.pairwise([-9.0, *kinks, 9.0]):
        start.append(0.5 * (low + high) + 0.5 * (high - low) * nodes)
        weight.append(
            0.5 * (high - low) * weights * np.exp(-0.5 * start[-1] ** 2) / np.sqrt(2 * np.pi)
        )
    i, w = np.concatenate(start), np.concatenate(weight)
    result = np.linspace(-reach, reach, count)
    gradient = np.clip(i - slope, -clip, clip)
    densities = [
        np.exp(-0.5 * (result[:, None] - (i - n * gradient)) ** 2) @ w for n in (points, points - 1)
    ]
    step = float(result[1] - result[0])
    return densities[0] / np.sqrt(2.0 * np.pi), densities[1] / np.sqrt(2.0 * np.pi), step


def tradeoff_of(null: Array, alternative: Array, step: float, fpr: float) -> float:
    """The false-negative rate of the likelihood-ratio test between two densities on a grid."""
    order = np.argsort(-(alternative / null), kind="stable")
    rates = np.append(0.0, np.cumsum(null[order]) * step)
    missed = 1.0 - np.append(0.0, np.cumsum(alternative[order]) * step)
    return float(np.interp(fpr, rates, missed))


def delta_of_densities(one: Array, other: Array, step: float, epsilon: float) -> float:
    """The hockey-stick divergence of two densities on a grid."""
    return float(np.sum(np.maximum(one - np.exp(epsilon) * other, 0.0)) * step)


def descended(
    points: int, slope: float, clip: float, noise: float, rate: float, steps: int
) -> tuple[Array, Array, float]:
    """Densities of the last iterate with all points and with one fewer, on a grid, and its step.

    I - rate (n clip(I - slope) + noise Z), step by step: each density is the one before it, times the
    transition density, by Gauss rules between the kinks. Nothing is known about normal laws here.
    """
    unit = rate * noise

    def moved(x: Array, count: int) -> Array:
        return np.asarray(x - rate * count * np.clip(x - slope, -clip, clip))

    counts, reaches = (points, points - 1), [8.0]
    for _ in range(steps):
        ends = np.linspace(-reaches[-1], reaches[-1], 10_001)
        farthest = max(float(np.max(np.abs(moved(ends, count)))) for count in counts)
        reaches.append(farthest + 8.0 * unit)
    cell = min(unit, 1.0) / max(1.0, *(abs(1.0 - rate * count) for count in counts))
    rules = [_between_kinks(reach, slope, clip, 2.0 * cell) for reach in reaches[:-1]]
    last = np.linspace(-reaches[-1], reaches[-1], int(2.0 * reaches[-1] / unit * 60) | 1)
    densities = []
    for count in counts:
        density = np.exp(-0.5 * rules[0][0] ** 2) / np.sqrt(2.0 * np.pi)
        for place, (here, weight) in enumerate(rules):
            there = rules[place + 1][0] if place + 1 < steps else last
            kernel = np.exp(-0.5 * ((there[:, None] - moved(here, count)) / unit) ** 2)
            density = kernel @ (density * weight) / unit / np.sqrt(2.0 * np.pi)
        densities.append(density)
    return densities[0], densities[1], float(last[1] - last[0])


def _between_kinks(reach: float, slope: float, clip: float, cell: float) -> tuple[Array, Array]:
    """Nodes and weights: twelve in each cell, and no kink within one."""
    kinks = [end for end in (slope - clip, slope + clip) if -reach < end < reach]
    nodes, weights = np.polynomial.legendre.leggauss(12)
    places, shares = [], []
    for low, high in itertools.pairwise([-reach, *kinks, reach]):
        edges = np.linspace(low, high, int(np.ceil((high - low) / cell)) + 1)
        half = 0.5 * np.diff(edges)[:, None]
        places.append((edges[:-1, None] + half * (1.0 + nodes)).ravel())
        shares.append((half * weights).ravel())
    return np.concatenate(places), np.concatenate(shares)
