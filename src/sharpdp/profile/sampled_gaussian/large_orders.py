"""Moments of sampled Gaussians at orders whose tilted noise is beyond all quadrature.

Let X = 1 - q + q e^{mu y - mu^2 / 2} with y normal under Q, and a >= 1 the order: E_Q[X^a] is wanted.
By Minkowski's inequality above, and because powers of sums are at least sums of powers below,

    (1 - q)^a + q^a e^{a (a - 1) mu^2 / 2} <= E_Q[X^a] <= (1 - q + q e^{(a - 1) mu^2 / 2})^a,

which meet where (a - 1) mu^2 is large; and so for any mixture of shifts. Elsewhere, with a = n + t, n
whole and 0 <= t < 1,

    E_Q[X^a] = sum over k of C(n, k) (1 - q)^{n - k} q^k e^{k (k - 1) mu^2 / 2} E[X^t at y + k mu]

and max(u, v) <= X^t <= u + v with the t-th powers u, v of the two terms of X, whose means at y + k mu are
(1 - q)^t and q^t e^{t k mu^2 - t (1 - t) mu^2 / 2}.

Against a record of the opposite sign, Y = 1 - q + q e^{-mu y - mu^2 / 2} takes the place of 1 under Q:

    E[X^a] E_a[Y]^{1 - a} <= E[X^a Y^{1 - a}] <= E[X^a] (1 - q)^{1 - a},

the left side by Jensen's inequality, E_a being the mean with density X^a / E[X^a].
"""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.special import Array, gammaln, log_sum

MOST_TERMS = 100_000
"""Binomial sums are taken up to this order."""

_ROUNDING = 1e-13
"""Relative allowance for the rounding of each exponent: a handful of products and log-gammas."""


def sampled_moments(
    rate: float, mu: float, orders: Array, relative_width: float
) -> tuple[Array, Array]:
    """(lower, upper) of log E_Q[X^order] for orders above one; terms are summed where that is needed.

    >>> low, high = sampled_moments(0.01, 10.0, np.array([64.0]), 1e-3)
    >>> [round(float(end[0]) / 63.0, 4) for end in (low, high)]
    [3195.3217, 3195.3217]
    """
    low, high = mixture_moments(np.log([1.0 - rate, rate]), np.array([0.0, mu]), orders)
    wide = (high - low > relative_width * high) & (orders <= MOST_TERMS)
    for index in np.flatnonzero(wide):
        below, above = _binomial(rate, mu, float(orders[index]))
        low[index], high[index] = max(low[index], below), min(high[index], above)
    return low, high


def mixture_moments(log_weights: Array, shifts: Array, orders: Array) -> tuple[Array, Array]:
    """(lower, upper) of log E_Q[X^order] where X is a mixture of shifted normals against N(0, 1).

    >>> low, high = mixture_moments(np.log([0.5, 0.5]), np.array([0.0, 3.0]), np.array([8.0]))
    >>> bool(low[0] < high[0] < low[0] * (1.0 + 1e-9))
    True
    """
    a = orders[:, None]
    growth = 0.5 * (a - 1.0) * shifts**2
    exponents = log_weights + growth
    sizes = _ROUNDING * orders * np.max(1.0 + np.abs(log_weights) + growth, axis=1)
    low, high = log_sum(a * exponents), orders * log_sum(exponents)
    return np.maximum(low - sizes, 0.0), np.maximum(high + sizes, 0.0)


def opposed_moments(
    rate: float, mu: float, orders: Array, relative_width: float
) -> tuple[Array, Array]:
    """(lower, upper) of log E[X^order Y^{1 - order}], the record being replaced by its opposite.

    >>> low, high = opposed_moments(0.5, 6.0, np.array([32.0]), 1e-3)
    >>> bool(low[0] < high[0] < low[0] * (1.0 + 1e-9))
    True
    """
    low, high = sampled_moments(rate, mu, orders, relative_width)
    log_rest = np.log1p(-rate)
    # E[X^a (Y - (1 - q))] / q = E[X(y - mu)^a], again by Minkowski's inequality
    moved = np.array([log_rest, np.log(rate) - mu**2])
    shifted = mixture_moments(moved, np.array([0.0, mu]), orders)[1]
    log_mean = np.minimum(np.logaddexp(log_rest, np.log(rate) + shifted - low), 0.0)
    tilts = orders - 1.0
    sizes = _ROUNDING * (1.0 + tilts * abs(log_rest) + low)
    return np.maximum(low - tilts * log_mean - sizes, 0.0), high - tilts * log_rest + sizes


def _binomial(rate: float, mu: float, order: float) -> tuple[float, float]:
    whole = np.floor(order)
    part = order - whole
    k = np.arange(whole + 1.0)
    log_rate, log_rest = np.log(rate), np.log1p(-rate)
    counted = gammaln(whole + 1.0) - gammaln(k + 1.0) - gammaln(whole - k + 1.0)
    growth = 0.5 * k * (k - 1.0) * mu**2
    terms = counted + (whole - k) * log_rest + k * log_rate + growth
    sizes = 3.0 * gammaln(whole + 1.0) + order * (abs(log_rest) + abs(log_rate)) + growth
    low = high = terms
    if part > 0.0:
        absent = part * log_rest + np.zeros_like(k)
        present = part * (log_rate + (k - 0.5 * (1.0 - part)) * mu**2)
        low, high = terms + np.maximum(absent, present), terms + np.logaddexp(absent, present)
        sizes = sizes + part * (k + 1.0) * mu**2
    error = _ROUNDING * (1.0 + sizes)
    return float(log_sum(low - error)) - _ROUNDING, float(log_sum(high + error)) + _ROUNDING
