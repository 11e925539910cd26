"""One of many steps with little noise: the largest of the T likelihood ratios decides.

P = mean over t of N(mu e_t, I) against Q = N(0, I): X = dP/dQ is the mean of T lognormal X_t, which span
so many orders of magnitude that their sum is about the largest of them.

From above, for x >= 1, theta in (0, 1), and h the profile of N(mu) against N(0),

    H_x(P||Q) <= h(theta T x) + (T - 1) Q[X_1 > (1 - theta) T x / (T - 1)]:

with Y_t = min(X_t, theta T x), the sum of X_t - Y_t has mean T h(theta T x). The sum of the Y_t exceeds
T x only if, for every t, the others exceed (1 - theta) T x, and then by at most itself: a mean of at most
T E[Y_1] times the chance of that. And since X is at least the largest ratio over T,

    H_x(Q||P) <= E(1 - x max_t X_t / T)_+.

From below: which cell the largest result is in is a post-processing, with

    P[max <= y] = Phi(y - mu) Phi(y)^{T-1},    Q[max <= y] = Phi(y)^T.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import Array, log_ndtr, log_normal_call
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves

MOST_MU = 25.0
"""Distance in units of the noise above which there would be too many thresholds."""

_LOG_LEFT = -np.log(10.0) * np.arange(0.5, 8.5, 0.25)
"""Logs of the 1 - theta that are tried."""

_AHEAD, _BEHIND, _REACH = 0.05, 0.3, 16.0
"""Distances of thresholds of the two directions, and how many deviations they reach."""

_CELLS, _LEFTMOST, _DEEPEST = 0.02, -8.0, 690.0
"""Cells of the largest result: their width, where they begin, and the log of the smallest tails."""

_MASS_ERROR = 1e-11
"""Beyond the rounding of a cell's mass, a difference of tails, relative to itself."""


def lead(mu: float, steps: int) -> float:
    """By how many deviations the record's result is above the largest of the others, in the middle.

    From 1.5 on this is worth asking, from 3.3 on nothing else is.

    >>> lead(7.0, 100) > 3.3 > lead(4.0, 100)
    True
    """
    return mu - float(np.sqrt(2.0 * np.log(steps)))


def largest_ratio_above(mu: float, steps: int) -> AtomicPair:
    """A pair that dominates that of one of so many steps, steps >= 2.

    >>> pair = largest_ratio_above(7.0, 100)
    >>> gaussian = float(log_normal_call(7.0, 50.0))
    >>> float(pair.log_hockey_stick(np.array([50.0 - np.log(100.0)]))[0]) - gaussian < 1e-2
    True
    """
    halves, revealed = [], []
    for profile, step in ((_with_record, _AHEAD), (_against_null, _BEHIND)):
        losses = step * np.arange(0.0, int((0.5 * mu**2 + _REACH * mu) / step) + 2)
        values = np.minimum.accumulate(profile(losses, mu, steps))
        rest = float(values[-1])
        end = max(int(np.argmax(values <= rest)), 1)
        log_more = np.log(np.maximum(values[:end] - rest, np.finfo(float).tiny)) + PROFILE_ERROR
        halves.append(calls_above(losses[:end], log_more, float(losses[end])))
        revealed.append(rest * (1.0 + PROFILE_ERROR))
    return pair_from_halves(*halves, side=Side.UPPER, infinite=(revealed[0], revealed[1]))


def _with_record(losses: Array, mu: float, steps: int) -> Array:
    """H_x(P||Q) from above; revealing the step leaves h(x)."""
    high = np.exp(log_normal_call(mu, losses))
    for log_left in _LOG_LEFT:
        theta = -np.expm1(log_left)
        alone = np.exp(log_normal_call(mu, losses + np.log(steps * theta)))
        place = (log_left + losses + np.log(steps / (steps - 1.0)) + 0.5 * mu**2) / mu
        high = np.minimum(high, alone + (steps - 1.0) * np.exp(log_ndtr(-place)))
    return np.asarray(np.minimum(high, 1.0), dtype=float)


def _against_null(losses: Array, mu: float, steps: int) -> Array:
    """H_x(Q||P) from above: over a cell of the largest result, the value at its left end."""
    # beyond the last edge X exceeds one
    edges = np.arange(_LEFTMOST, 0.5 * mu + np.log(steps) / mu + 2.0 * _CELLS, _CELLS)
    # below the first edge the value is at most one
    masses = np.diff(np.append(0.0, np.exp(steps * log_ndtr(edges)))) * (1.0 + _MASS_ERROR)
    log_ratios = mu * edges - 0.5 * mu**2 - np.log(steps)
    values = -np.expm1(np.minimum(losses[:, None] + log_ratios[None, :-1], 0.0))
    # differences of distribution functions are off by units of one
    return np.asarray(np.minimum(masses[0] + values @ masses[1:] + 1e-15, 1.0))


def largest_ratio_below(mu: float, steps: int) -> AtomicPair:
    """A pair that is dominated by that of one of so many steps, steps >= 2."""
    edges = _edges(mu, steps)
    log_q = steps * log_ndtr(edges)
    log_p = log_ndtr(edges - mu) + (steps - 1.0) * log_ndtr(edges)
    pair = AtomicPair.from_rounded_pmfs(_masses(log_p), _masses(log_q))
    error = pair.loss_error + 2.0 * _MASS_ERROR
    return replace(pair, loss_error=error, mass_error=_MASS_ERROR)


def _edges(mu: float, steps: int) -> Array:
    """Edges of cells of the largest result, where tails are not too small for doubles."""
    edges = np.arange(_LEFTMOST, mu + _REACH, _CELLS)
    left = log_ndtr(edges - mu) + steps * log_ndtr(edges)
    return edges[(left > -_DEEPEST) & (log_ndtr(-edges) > -_DEEPEST)]


def _masses(log_left: Array) -> Array:
    """The masses of cells from the logs of the distribution function at all edges."""
    left, right = np.exp(log_left), -np.expm1(log_left)
    inner = np.where(log_left[:-1] < -0.5, np.diff(left), -np.diff(right))
    return np.concatenate([left[:1], inner, right[-1:]])
