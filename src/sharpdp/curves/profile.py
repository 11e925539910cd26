"""The privacy profile of one pair: delta at epsilon and epsilon at delta, straight from its values."""

from __future__ import annotations

import numpy as np

from sharpdp.curves.pair import Pair
from sharpdp.numerics.monotone import last_true
from sharpdp.numerics.special import safe_log


def log_delta_of(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Certified (lower, upper) for log delta of one pair at epsilon >= 0."""
    value = float(pair.log_otm(np.array([float(epsilon)]))[0])
    rest, slack = safe_log(pair.infinite_p), 2.0 * pair.accuracy
    low, high = np.logaddexp(value - slack, rest), np.logaddexp(value + slack, rest)
    return float(low), min(float(high), 0.0)


def epsilon_of(pair: Pair, log_delta: float) -> tuple[float, float]:
    """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
    if log_delta_of(pair, 0.0)[1] <= log_delta:
        return 0.0, 0.0
    low, high = 0.0, 1.0
    while log_delta_of(pair, high)[1] > log_delta:
        low, high = high, 2.0 * high
    _, top = last_true(lambda x: log_delta_of(pair, x)[1] > log_delta, low, high)
    if log_delta_of(pair, 0.0)[0] < log_delta:
        return 0.0, top
    bottom, _ = last_true(lambda x: log_delta_of(pair, x)[0] >= log_delta, 0.0, high)
    return bottom, top
