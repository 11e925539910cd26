"""The Gaussian mechanism that is worst-case no more private than a given profile: one number mu."""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.special import Array, log_normal_call

# Between two thresholds the profile is bounded by its chord, on so many pieces.
_PIECES = 100
_BISECTIONS = 60
# Allowance for the relative error of log_normal_call at the magnitudes that occur.
_ACCURACY = 2e-12


def mu_bracket(epsilon: Array, log_lower: Array, log_upper: Array) -> tuple[float, float]:
    """(lower, upper) for the smallest mu with delta <= delta_mu at all thresholds up to the last one.

    Lower: every mu must reach the lower bound on delta at every node. Upper: between nodes delta is
    at most its chord in e^epsilon; on a piece [a, b] of it, delta_mu(b) >= chord(a) suffices because
    both decrease. Thresholds start at zero.
    """
    x = np.exp(epsilon)
    share = np.arange(_PIECES) / _PIECES
    starts = (x[:-1, None] + np.diff(x)[:, None] * share).ravel()
    ends = (x[:-1, None] + np.diff(x)[:, None] * (share + 1.0 / _PIECES)).ravel()
    chord = np.interp(starts, x, np.exp(log_upper))
    need = np.log(np.maximum(chord, 1e-300)) + 2.0 * _ACCURACY
    high = _smallest(np.log(ends), need)
    low = _smallest(epsilon, log_lower - 2.0 * _ACCURACY)
    return low * (1.0 - 1e-9), high * (1.0 + 1e-9)


def _smallest(epsilon: Array, log_delta: Array) -> float:
    """The smallest mu with delta_mu(epsilon) >= delta at all given points, up to bisection."""
    low, high = 0.0, 1.0
    while not bool(np.all(log_normal_call(high, epsilon) >= log_delta)):
        low, high = high, 2.0 * high
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        if bool(np.all(log_normal_call(middle, epsilon) >= log_delta)):
            high = middle
        else:
            low = middle
        if high - low <= 1e-10 * high:
            break
    return high
