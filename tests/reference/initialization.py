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
