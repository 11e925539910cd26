"""Renyi divergences as a function of the order: between known orders, and at the best one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sharpdp.numerics.special import Array

__all__ = ["OUTWARDS", "chords", "least_over"]

OUTWARDS = 2.0**-50
"""Relative allowance for the rounding of sums, products and chords of divergences."""

# So many orders are tried around the best one at a time.
_NEXT_ORDERS = 24


def least_over(
    orders: Array, answers: Callable[[Array], Array], refinements: int = 4
) -> tuple[float, float]:
    """The smallest answer and its order: at the rising orders, and closer and closer around the best.

    >>> value, order = least_over(np.array([2.0, 4.0, 6.0]), lambda a: (a - 3.0) ** 2 + 1.0)
    >>> round(value, 6), round(order, 3)
    (1.0, 3.0)
    """
    found = answers(orders)
    for _ in range(refinements):
        best = int(np.argmin(found))
        last = int(np.isfinite(orders).sum()) - 1
        if last < 1 or not 0.0 < found[best] < np.inf:
            break
        low, high = orders[max(min(best, last) - 1, 0)], orders[min(best + 1, last)]
        between = 1.0 + np.geomspace(low - 1.0, high - 1.0, _NEXT_ORDERS + 2)[1:-1]
        between = np.setdiff1d(between, orders)
        if between.size == 0:
            break
        orders, found = np.concatenate([orders, between]), np.concatenate([found, answers(between)])
        rising = np.argsort(orders)
        orders, found = orders[rising], found[rising]
    best = int(np.argmin(found))
    return float(found[best]), float(orders[best])


def chords(known: Array, values: Array, orders: Array) -> Array:
    """Upper bounds between known orders, from the convexity of (order - 1) times the divergence.

    Below the first order its value holds; beyond the last finite one the slope is at most the value at
    infinity, if that is known, and nothing is known otherwise.

    Numerics: moved up by a relative 4e-15.

    Source: vanerven2014 Theorem 3, Corollary 2.

    >>> chords(np.array([2.0, 4.0]), np.array([1.0, 3.0]), np.array([3.0])).round(
    ...     9
    ... )  # (1 + 9) / 2 / 2
    array([2.5])
    """
    finite = np.isfinite(known)
    x, y = known[finite], values[finite]
    top = values[~finite][0] if not finite.all() else np.inf
    if x.size == 0:
        return np.full(orders.shape, top)
    place = np.clip(np.searchsorted(x, orders) - 1, 0, x.size - 1)
    after = np.minimum(place + 1, x.size - 1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # a mean of the two values with weights that add up to one
        weight = (orders - x[place]) * (x[after] - 1.0) / ((x[after] - x[place]) * (orders - 1.0))
        mean = y[place] + weight * (y[after] - y[place])
        beyond = y[-1] + (orders - x[-1]) / (orders - 1.0) * (top - y[-1])
    mean = np.where(weight >= 1.0, y[after], mean * (1.0 + 4.0 * OUTWARDS))
    beyond = np.where(np.isnan(beyond), top, beyond * (1.0 + 4.0 * OUTWARDS))
    result = np.where(orders > x[-1], np.minimum(beyond, top), mean)
    result = np.where(orders <= x[0], y[0], result)
    exact = np.isin(orders, x)
    result[exact] = y[np.searchsorted(x, orders[exact])]
    return np.where(np.isnan(result), np.inf, result)
