"""Moments of Poisson-sampled Gaussians at orders whose tilted noise is beyond all quadrature.

Let X = 1 - q + q e^{mu y - mu^2 / 2} with y normal under Q, and a >= 1 the order: E_Q[X^a] is wanted.
By Minkowski's inequality above, and because powers of sums are at least sums of powers below,

    (1 - q)^a + q^a e^{a (a - 1) mu^2 / 2} <= E_Q[X^a] <= (1 - q + q e^{(a - 1) mu^2 / 2})^a,

which meet where (a - 1) mu^2 is large. Elsewhere, with a = n + t, n whole and 0 <= t < 1,

    E_Q[X^a] = sum over k of C(n, k) (1 - q)^{n - k} q^k e^{k (k - 1) mu^2 / 2} E[X^t at y + k mu]

and max(u, v) <= X^t <= u + v with the t-th powers u, v of the two terms of X, whose means at y + k mu are
(1 - q)^t and q^t e^{t k mu^2 - t (1 - t) mu^2 / 2}.
"""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.special import Array, gammaln, log_sum

MOST_TERMS = 100_000
"""Binomial sums are taken up to this order."""

_ROUNDING = 1e-13
"""Relative allowance for the rounding of each exponent: a handful of products and log-gammas."""


def moments_of_large_orders(
    rate: float, mu: float, orders: Array, relative_width: float
) -> tuple[Array, Array]:
    """(lower, upper) of log E_Q[X^order] for orders above one; terms are summed where that is needed.

    >>> low, high = moments_of_large_orders(0.01, 10.0, np.array([64.0]), 1e-3)
    >>> [round(float(end[0]) / 63.0, 4) for end in (low, high)]
    [3195.3217, 3195.3217]
    """
    low, high = _without_sums(rate, mu, orders)
    wide = (high - low > relative_width * high) & (orders <= MOST_TERMS)
    for index in np.flatnonzero(wide):
        below, above = _binomial(rate, mu, float(orders[index]))
        low[index], high[index] = max(low[index], below), min(high[index], above)
    return low, high


def _without_sums(rate: float, mu: float, orders: Array) -> tuple[Array, Array]:
    log_rate, log_rest = np.log(rate), np.log1p(-rate)
    growth = 0.5 * (orders - 1.0) * mu**2
    low = np.logaddexp(orders * log_rest, orders * (log_rate + growth))
    high = orders * np.logaddexp(log_rest, log_rate + growth)
    sizes = _ROUNDING * orders * (abs(log_rate) + abs(log_rest) + growth + 1.0)
    return np.maximum(low - sizes, 0.0), high + sizes


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
