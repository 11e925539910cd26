"""Random allocation by brute quadrature: few steps, likelihood ratios written out.

With U_t = exp(mu y_t - mu^2 / 2), y_t standard normal and mu = 1 / noise_multiplier, the ratio X of
"k of T steps" is the mean over all sets of k steps of the product of their U_t. It is affine in the last
one, X = a + b U_T, so the expectation over y_T is a closed form, a call or a put on a lognormal variable;
the other variables are integrated by composite Gauss rules. Nothing of sharpdp is used.
"""

from __future__ import annotations

from functools import cache
from math import comb, exp, log

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]

FARTHEST = 9.5
"""Normal variables beyond this, from their mean under either law, have probability 2e-21."""


def panels(low: float, high: float, count: int, order: int = 12) -> tuple[Array, Array]:
    """A composite Gauss rule."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, count + 1)
    half = np.diff(edges)[:, None] / 2.0
    return (edges[:-1, None] + half * (1.0 + nodes)).ravel(), (half * weights).ravel()


def call(mu: float, strike: Array) -> Array:
    """E (U - strike)_+."""
    with np.errstate(divide="ignore", invalid="ignore"):
        d = -np.log(strike) / mu - mu / 2.0
        value = ndtr(d + mu) - strike * ndtr(d)
    return np.where(strike > 0.0, value, 1.0 - strike)


def put(mu: float, strike: Array) -> Array:
    """E (strike - U)_+."""
    with np.errstate(divide="ignore", invalid="ignore"):
        d = -np.log(strike) / mu - mu / 2.0
        value = strike * ndtr(-d) - ndtr(-d - mu)
    return np.where(strike > 0.0, value, 0.0)


def density(y: Array) -> Array:
    """The standard normal density."""
    return np.asarray(np.exp(-(y**2) / 2.0) / np.sqrt(2.0 * np.pi))


def outer(mu: float, variables: int, most: int, count: int) -> tuple[list[Array], Array]:
    """Elementary symmetric polynomials of U_1, ..., U_variables, up to this order, with weights."""
    y, weight = panels(-FARTHEST, mu + FARTHEST, count)
    u, mass = np.exp(mu * y - mu**2 / 2.0), weight * density(y)
    sums, weights = [np.ones(1), *[np.zeros(1)] * most], np.ones(1)
    for _ in range(variables):
        low = [np.zeros(1), *sums[:-1]]
        sums = [
            (np.multiply.outer(one, np.ones_like(u)) + np.multiply.outer(less, u)).ravel()
            for one, less in zip(sums, low, strict=True)
        ]
        weights = np.multiply.outer(weights, mass).ravel()
    return sums, weights


@cache
def deltas(
    noise_multiplier: float, steps: int, participations: int, epsilon: float, count: int = 24
) -> tuple[float, float]:
    """delta of (P, Q) and of (Q, P) at epsilon, for two or more steps.

    X = a + b U_T with a and b affine in v = U_{T-1}; where a passes the threshold the expectation over
    U_T stops being smooth, so the integral over y_{T-1} is cut there.
    """
    mu, k = 1.0 / noise_multiplier, participations
    sums, weights = outer(mu, steps - 2, k, count)
    e = [one[:, None] / comb(steps, k) for one in ([np.zeros(1)] * 2 + sums)[k : k + 3]]
    total = np.zeros(2)
    for place, threshold in enumerate((exp(epsilon), exp(-epsilon))):
        with np.errstate(divide="ignore", invalid="ignore"):
            cut = np.log((threshold - e[2]) / e[1]) / mu + mu / 2.0
        cut = np.where(np.isnan(cut), -FARTHEST, np.clip(cut, -FARTHEST, mu + FARTHEST))
        for low, high in ((-FARTHEST, cut), (cut, mu + FARTHEST)):
            t, weight = panels(0.0, 1.0, count)
            # close to the cut, on its left, there are ever smaller scales
            t, weight = 1.0 - (1.0 - t) ** 3, weight * 3.0 * (1.0 - t) ** 2
            y = low + (high - low) * t
            v = np.exp(mu * y - mu**2 / 2.0)
            a, b = e[2] + e[1] * v, e[1] + e[0] * v
            value = (call, put)[place](mu, (threshold - a) / b) * b
            inner = np.sum(value * density(y) * weight * (high - low), axis=1)
            total[place] += float(weights @ inner)
    return float(total[0]), exp(epsilon) * float(total[1])


def one_of_two(noise_multiplier: float, epsilon: float) -> tuple[float, float]:
    """The same for one of two steps, by tanh-sinh quadrature in thirty digits."""
    first, second = (
        one_way_of_two(noise_multiplier, epsilon, forward=way) for way in (True, False)
    )
    return first, second


@cache
def one_way_of_two(noise_multiplier: float, epsilon: float, *, forward: bool) -> float:
    """The delta of (P, Q) alone, or that of (Q, P)."""
    with mpmath.workdps(30):
        mu = 1 / mpmath.mpf(noise_multiplier)

        def side(strike: mpmath.mpf, sign: int) -> mpmath.mpf:
            """E (sign (U_1 + U_2 - strike))_+ / 2 for y_1 up to where U_1 is the strike."""

            def inner(y: mpmath.mpf) -> mpmath.mpf:
                left = strike - mpmath.exp(mu * y - mu**2 / 2)
                if left <= 0:
                    return mpmath.mpf(0)
                d = -mpmath.log(left) / mu - mu / 2
                near, far = mpmath.ncdf(sign * (d + mu)), mpmath.ncdf(sign * d)
                return mpmath.npdf(y) * sign * (near - left * far) / 2

            end = mpmath.log(strike) / mu + mu / 2
            marks = [-14, -8, -4, -2, 0, 2, 4, 8]
            return mpmath.quad(inner, [m for m in marks if m < end] + [end])

        if not forward:
            return float(mpmath.exp(epsilon) * side(2 * mpmath.exp(-mpmath.mpf(epsilon)), -1))
        strike = 2 * mpmath.exp(epsilon)
        end = mpmath.log(strike) / mu + mu / 2
        beyond = ((1 - strike) * mpmath.ncdf(-end) + mpmath.ncdf(mu - end)) / 2
        return float(side(strike, 1) + beyond)


def sampled_ratios(
    noise_multiplier: float, steps: int, participations: int, count: int, seed: int
) -> tuple[Array, Array]:
    """Ratios X drawn under P and under Q: normalized elementary symmetric polynomials of U."""
    rng = np.random.default_rng(seed)
    mu = 1.0 / noise_multiplier
    y = rng.standard_normal((count, steps))
    without = _ratio(mu, y, participations)
    y = rng.standard_normal((count, steps))
    y[:, :participations] += mu  # all sets are alike
    return _ratio(mu, y, participations), without


def _ratio(mu: float, y: Array, participations: int) -> Array:
    u = np.exp(mu * y - mu**2 / 2.0)
    sums = np.zeros((y.shape[0], participations + 1))
    sums[:, 0] = 1.0
    for column in u.T:
        sums[:, 1:] += column[:, None] * sums[:, :-1]
    return np.asarray(sums[:, -1] / comb(y.shape[1], participations))


def confidence(samples: Array, log_alarm: float = -log(4e9)) -> tuple[float, float]:
    """An interval for the mean of samples in [0, 1] that misses it with probability 2 e^log_alarm.

    Bernstein's inequality with the variance estimated from the samples (Maurer and Pontil 2009, Theorem
    4): the error is at most sqrt(2 v l / n) + 7 l / (3 (n - 1)), l = log(2) - log_alarm.
    """
    n, nats = samples.size, log(2.0) - log_alarm
    mean, variance = float(np.mean(samples)), float(np.var(samples, ddof=1))
    error = float(np.sqrt(2.0 * variance * nats / n)) + 7.0 * nats / (3.0 * (n - 1))
    return mean - error, mean + error
