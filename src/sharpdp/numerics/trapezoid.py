"""The trapezoid rule on the whole line, with the error bound for functions analytic in a strip.

If f is analytic in |Im y| <= b and the integrals of |f| along both edges are at most N, then

    | step * sum_j f(j step) - integral f | <= 2 N / (e^{2 pi b / step} - 1).

Source: trefethen2014 Theorem 5.1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.numerics.special import Array


def log_strip_error(strip: ArrayLike, step: ArrayLike, log_edge_integral: ArrayLike) -> Array:
    """log of 2 N / (e^{2 pi b / step} - 1), the rule's error; the step must be well below 2 pi b.

    >>> bool(log_strip_error(1.0, 0.1, 0.0) < -60)
    True
    """
    turns = 2.0 * np.pi * np.asarray(strip) / np.asarray(step)
    return np.asarray(np.log(2.0) + log_edge_integral - turns - np.log(-np.expm1(-turns)))


def step_for(strip: ArrayLike, log_error: ArrayLike, log_edge_integral: ArrayLike) -> Array:
    """The largest step whose error is about e^log_error.

    >>> bool(log_strip_error(1.0, step_for(1.0, -30.0, 2.0), 2.0) <= -30 + 1e-9)
    True
    """
    nats = np.maximum(np.asarray(log_edge_integral) - log_error + np.log(2.0), 1.0)
    return np.asarray(2.0 * np.pi * np.asarray(strip) / nats)
