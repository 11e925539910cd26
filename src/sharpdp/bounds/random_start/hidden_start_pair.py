"""One clipped least-squares step whose start is hidden: what an attacker certainly learns from it.

With n points, each with y = a x and x^2 = 1, the step is s(I) + N(0, v^2) with a standard normal I and

    s(I) = I - n clip(I - a),

three straight pieces. On a piece s = b I + d the density of the result is a normal density times the
probability of an interval, so that the two densities (n points, n - 1 points) are known in closed form.
Seen through cells of the result, a post-processing, they are a finite pair and a lower side.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_rule, log1mexp, log_ndtr
from sharpdp.pairs.finite import AtomicPair

__all__ = ["hidden_start_pair"]

DEVIATIONS = 12.0
"""Starts and noise beyond so many deviations have probability below 1e-32."""

ACCURACY = 1e-9
"""Relative error of a cell's probability: of a few normal tails and their differences."""


def hidden_start_pair(
    slope: float, clip: float, points: int, noise_deviation: float
) -> AtomicPair | None:
    """The laws of the result with all points and with one fewer, in cells; None if it takes too many.

    Numerics: cell probabilities are right to a relative 1e-9, which goes into losses and masses.

    >>> pair = hidden_start_pair(slope=1.0, clip=1.0, points=1, noise_deviation=1.0)
    >>> float(np.sum(np.exp(pair.log_p)).round(12))
    1.0
    """
    size = abs(slope)
    # the start moves the result by I - n clip(I - a), whose size this bounds
    moved = points * (clip if clip < np.inf else size + DEVIATIONS)
    reach = moved + DEVIATIONS * (1.0 + noise_deviation)
    cells = int(np.ceil(2.0 * reach * 40.0 / noise_deviation))
    # differences of normal tails cancel where a piece is short
    if cells > 1 << 14 or clip < 1e-3 * max(noise_deviation, 1.0):
        return None
    edges = np.linspace(-reach, reach, cells + 1)
    p, q = (
        _cell_masses(edges, size, clip, count, noise_deviation) for count in (points, points - 1)
    )
    told_apart = (p + q > 1e-30) & (np.minimum(p, q) > 1e-250)
    heaviest = int(np.argmax(np.minimum(p, q)))
    # whatever is outside, too rare or too one-sided is not told apart from the heaviest cell
    p[heaviest] += np.sum(p[~told_apart])
    q[heaviest] += np.sum(q[~told_apart])
    pair = AtomicPair.from_rounded_pmfs(p[told_apart], q[told_apart])
    return replace(pair, loss_error=pair.loss_error + 2.0 * ACCURACY, mass_error=2.0 * ACCURACY)


def _cell_masses(edges: Array, slope: float, clip: float, points: int, deviation: float) -> Array:
    """Probabilities of cells of the result, by a Gauss rule for the density."""
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    total = np.zeros_like(middle)
    # for all noise within 38 deviations seven points are right to 1e-15
    for node, weight in zip(*gauss_rule(7), strict=True):
        total += weight * np.exp(_log_density(middle + node * half, slope, clip, points, deviation))
    return np.asarray(half * total)


def _log_density(x: Array, slope: float, clip: float, points: int, deviation: float) -> Array:
    """log of the density of the result: the sum over the pieces of s."""
    inner = (1.0 - points, points * slope)
    pieces = [(*inner, slope - clip, slope + clip)]
    if clip < np.inf:
        pieces += [
            (1.0, points * clip, -np.inf, slope - clip),
            (1.0, -points * clip, slope + clip, np.inf),
        ]
    logs = [_log_piece(x, deviation, *piece) for piece in pieces]
    return np.asarray(np.logaddexp.reduce(logs, axis=0))


def _log_piece(
    x: Array, deviation: float, factor: float, shift: float, low: float, high: float
) -> Array:
    """log of the integral of the normal densities of I and of x - factor I - shift over low < I < high.

    The product is a normal density of x, of variance v, times one of I with mean m and deviation t.
    """
    v = factor * factor + deviation * deviation
    m, t = factor * (x - shift) / v, deviation / np.sqrt(v)
    left, right = (low - m) / t, (high - m) / t
    # the same interval mirrored, where that has the smaller tails
    left, right = np.where(left > 0.0, -right, left), np.where(left > 0.0, -left, right)
    log_right, log_left = log_ndtr(right), log_ndtr(left)
    inside = log_right + log1mexp(np.minimum(log_left - log_right, -UNIT_ROUNDOFF))
    return np.asarray(inside - 0.5 * (x - shift) ** 2 / v - 0.5 * np.log(2.0 * np.pi * v))
