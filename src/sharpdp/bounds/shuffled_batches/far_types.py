"""How far types of contributions may be from the mean of all, whatever the population.

The proof is in docs/proofs/displaced-example.md (lemma on far types).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sharpdp.numerics.special import Array, log_normal_call, log_normal_calls
from sharpdp.numerics.tolerances import PROFILE_ERROR

__all__ = ["far_types"]

_CUTS_PER_FACTOR, _LARGEST_LOG_CUT = 5.0, 16.0
"""Ratios are cut at powers of e^(1/5), up to e^16."""

_MEANS, _DISTANCES = 40, 60
"""Cells of the mean of all contributions, and of squared distances from it."""

_TAIL = 9.5
"""A normal tail from here on is below 1e-20, and as good as the profile."""


@lru_cache(maxsize=64)
def far_types(noise: float) -> tuple[Array, Array]:
    """log K for many K, and bounds on the mean over v of H_K(phi_v || mean phi), for any population of v.

    Let beta be the distance of the mean of all v from zero and sigma^2 <= 1 - beta^2 their variance. The
    mean of all phi_v is at least e^{-sigma^2 / (2 s^2)} times phi at the mean of v. So H_K is at most the
    normal profile at the distance of v from that mean, at K e^{-sigma^2 / (2 s^2)}. Squared distances
    have mean sigma^2 and are at most (1 + beta)^2. The largest mean over all distributions of them is
    that of two values. beta and distances are seen through cells, with everything at its worst end.
    """
    log_cuts = np.arange(1.0 / _CUTS_PER_FACTOR, _LARGEST_LOG_CUT, 1.0 / _CUTS_PER_FACTOR)
    means = np.linspace(0.0, 1.0, _MEANS + 1)
    variances = 1.0 - means[:-1] ** 2
    squares = np.linspace(0.0, (1.0 + means[1:]) ** 2, _DISTANCES + 1, axis=-1)
    distances = np.sqrt(squares[:, None, 1:]) / noise
    lowered = (log_cuts - 0.5 * variances[:, None] / noise**2)[:, :, None]
    deep = lowered / distances - 0.5 * distances
    # a profile is at most the tail that it is a part of, or one
    profiles = np.where(lowered > 0.0, np.exp(-0.5 * np.maximum(deep, 0.0) ** 2), 1.0)
    sharp = (lowered > 0.0) & (deep < _TAIL)
    profiles[sharp] = np.exp(
        log_normal_calls(
            *(np.broadcast_to(part, deep.shape)[sharp] for part in (distances, lowered))
        )
    )
    values = np.max(
        [_largest_mean(*each) for each in zip(squares[:, :-1], profiles, variances, strict=True)],
        axis=0,
    )
    apart = np.exp(log_normal_call(2.0 / noise, log_cuts))
    return log_cuts, np.minimum(np.minimum(values, apart), 1.0) * (1.0 + PROFILE_ERROR)


def _largest_mean(points: Array, values: Array, mean: float) -> Array:
    """The largest mean of rising values, one row each, over laws on the points with at most this mean."""
    below = int(np.searchsorted(points, mean, side="right"))
    best = values[:, below - 1]
    near, far = points[:below, None], points[None, below:]
    share = (mean - near) / (far - near)
    mixed = (1.0 - share) * values[:, :below, None] + share * values[:, None, below:]
    return np.asarray(np.maximum(best, mixed.max(axis=(1, 2), initial=0.0)))
