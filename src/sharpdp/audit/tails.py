"""Tails of counts, never too small: binomial ones exactly, hypergeometric ones by Chernoff's bound."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.numerics.special import Array, betainc, betaincc

__all__ = ["binomial_at_least", "binomial_at_most", "two_sided", "two_sided_binomial", "urn_tail"]

MARGIN = 1.0 + 1e-9
"""What the incomplete beta function is trusted to."""

SMALLEST = 1e-300
"""What is possible has at least this probability, although doubles may end above it."""


def binomial_at_least(successes: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Array:
    """P[Bin(trials, rate) >= successes], rounded up.

    >>> round(float(binomial_at_least(1, 2, 0.5)), 6)
    0.75
    """
    k, n, p = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (successes, trials, rate))
    )
    inside = (k > 0) & (k <= n)
    tail = betainc(np.where(inside, k, 1.0), np.where(inside, n - k + 1.0, 1.0), p)
    return np.where(k <= 0, 1.0, np.where(k > n, 0.0, np.clip(tail * MARGIN, SMALLEST, 1.0)))


def binomial_at_most(successes: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Array:
    """P[Bin(trials, rate) <= successes], rounded up.

    >>> round(float(binomial_at_most(0, 2, 0.5)), 6)
    0.25
    """
    k, n, p = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (successes, trials, rate))
    )
    inside = (k >= 0) & (k < n)
    tail = betaincc(np.where(inside, k + 1.0, 1.0), np.where(inside, n - k, 1.0), p)
    return np.where(k < 0, 0.0, np.where(k >= n, 1.0, np.clip(tail * MARGIN, SMALLEST, 1.0)))


def two_sided(low: ArrayLike, high: ArrayLike) -> Array:
    """The p-value of a count from its two tails: twice the smaller one."""
    return np.minimum(2.0 * np.minimum(low, high), 1.0)


def two_sided_binomial(successes: ArrayLike, trials: ArrayLike, rate: ArrayLike) -> Array:
    """The p-value of a binomial count.

    >>> round(float(two_sided_binomial(0, 4, 0.5)), 6)
    0.125
    """
    tails = (tail(successes, trials, rate) for tail in (binomial_at_most, binomial_at_least))
    return two_sided(*tails)


def urn_tail(marked: ArrayLike, drawn: ArrayLike, share: ArrayLike) -> Array:
    """Upper bound on the probability of at least `marked` marked balls among those drawn from an urn.

    Balls are drawn without replacement from an urn of which `share` are marked. Chernoff's bound for
    draws with replacement holds for them as well: exp(-drawn KL(marked / drawn || share)); 1 if no more
    are marked than expected.

    Source: hoeffding1963 Theorem 4.

    >>> round(float(urn_tail(2, 2, 0.5)), 6)
    0.25
    """
    k, b, q = np.broadcast_arrays(
        *(np.asarray(x, dtype=np.float64) for x in (marked, drawn, share))
    )
    rate = np.divide(k, b, out=np.zeros_like(k), where=b > 0)
    above = (b > 0) & (rate > q)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = rate * np.log(rate / q) + np.where(
            rate < 1.0, (1.0 - rate) * (np.log1p(-rate) - np.log1p(-q)), 0.0
        )
        tail = np.exp(-b * gain * (1.0 - 1e-9)) * MARGIN
    return np.where(above, np.clip(tail, SMALLEST, 1.0), 1.0)
