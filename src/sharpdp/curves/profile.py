"""The privacy profile of one pair: delta at epsilon and epsilon at delta, straight from its values."""

from __future__ import annotations

import numpy as np

from sharpdp.curves.pair import Pair
from sharpdp.errors import NotCertified
from sharpdp.numerics.monotone import last_true
from sharpdp.numerics.special import UNIT_ROUNDOFF, safe_log

_LEAST_ACCURATE = 1.0
"""Profiles whose logarithm is not known to within this are of no use."""


def log_delta_of(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Certified (lower, upper) for log delta of one pair at epsilon >= 0."""
    if pair.accuracy > _LEAST_ACCURATE:
        raise NotCertified(
            f"the profile of {pair!r} is lost in rounding: its parameters are too extreme for double "
            "precision. With so little noise nothing is private."
        )
    ends = np.array([epsilon + pair.loss_error, max(epsilon - pair.loss_error, 0.0)])
    values = pair.log_otm(np.minimum(ends, pair.resolved[1]))
    # beyond what is resolved only monotony is used, and that there is nothing beyond the support
    values[0] = -np.inf if ends[0] > pair.resolved[1] else values[0]
    values[1] = -np.inf if ends[1] >= pair.support[1] else values[1]
    if np.isnan(values).any() or not 0.0 <= pair.infinite_p <= 1.0:
        raise NotCertified(f"the profile of {pair!r} is not a number at epsilon = {epsilon!r}.")
    rest, slack = safe_log(pair.infinite_p), 2.0 * pair.accuracy
    low, high = np.logaddexp(values - [slack, -slack], rest)
    if np.isneginf(low) and np.isneginf(high):
        return -np.inf, -np.inf
    rounding = 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(high)) if np.isfinite(rest) else 0.0
    return float(low - rounding), min(float(high + rounding), 0.0)


def epsilon_of(pair: Pair, log_delta: float) -> tuple[float, float]:
    """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    wanted = log_delta - 2.0 * UNIT_ROUNDOFF * abs(log_delta)
    if log_delta < safe_log(pair.infinite_p):
        return np.inf, np.inf

    def over(epsilon: float) -> bool:
        return log_delta_of(pair, epsilon)[1] > max(wanted, safe_log(pair.infinite_p))

    def under(epsilon: float) -> bool:
        return log_delta_of(pair, epsilon)[0] >= log_delta + 2.0 * UNIT_ROUNDOFF * abs(log_delta)

    if not over(0.0):
        return 0.0, 0.0
    largest = pair.support[1] + pair.loss_error
    high = min(1.0, largest)
    while high < largest and over(high):
        high = min(2.0 * high, largest)
    top = high if high == largest and over(high) else last_true(over, 0.0, high)[1]
    return (last_true(under, 0.0, high)[0] if under(0.0) else 0.0), top
