"""Mixtures of normal laws seen through cells of the line: pairs that are attained, from below."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sharpdp.numerics.special import Array, cell_masses
from sharpdp.pairs.finite import AtomicPair

__all__ = ["binned_normals"]

_CELLS, _REACH, _FARTHEST = 2000, 9.5, 30.0
"""Cells of the line, from so many deviations below the least mean to as many above the largest, but no
farther from zero than the last number: both laws have masses there that are doubles."""

_CELL_ERROR = 1e-12
"""Relative error of a cell's probability: that of differences of tails, and of the weights."""


def binned_normals(weights: Array, means: Array, other_means: Array) -> AtomicPair:
    """Which cell a number lies in that is N(mean, 1), or N(other mean, 1), both drawn with these weights.

    Holds when: a mean of zero has a weight of at least 1e-200 under both, and the weights are right to a
    relative 1e-13.

    >>> coin = binned_normals(np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.array([0.0, 0.0]))
    >>> round(float(np.exp(coin.log_hockey_stick(np.zeros(1))[0])), 4)  # (2 Phi(1/2) - 1) / 2
    0.1915
    """
    every = np.concatenate([means, other_means])
    low = max(float(np.min(every)) - _REACH, -_FARTHEST)
    high = min(float(np.max(every)) + _REACH, _FARTHEST)
    edges = np.concatenate([[-np.inf], np.linspace(low, high, _CELLS - 1), [np.inf]])
    p, q = (_mixed(edges, weights, one) for one in (means, other_means))
    pair = AtomicPair.from_rounded_pmfs(p, q)
    return replace(pair, loss_error=pair.loss_error + _CELL_ERROR, mass_error=_CELL_ERROR)


def _mixed(edges: Array, weights: Array, means: Array) -> Array:
    total = np.zeros(edges.size - 1)
    for mean in np.unique(means):
        total += float(np.sum(weights[means == mean])) * cell_masses(edges, float(mean))
    return total
