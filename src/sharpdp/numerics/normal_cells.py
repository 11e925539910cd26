"""Normal distributions on cells of the line: masses, and Gauss nodes to integrate over each cell."""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.scipy_special import gauss_rule, ndtr
from sharpdp.numerics.special import Array

__all__ = ["cell_masses", "gauss_nodes", "log_cell_masses"]

_LOG_SQRT_2_PI = 0.5 * np.log(2.0 * np.pi)


def cell_masses(edges: Array, mean: float) -> Array:
    """N(mean, 1) of each cell, as a difference of the smaller tails.

    >>> cell_masses(np.array([-np.inf, 0.0, np.inf]), 0.0).tolist()
    [0.5, 0.5]
    """
    left, right = edges[:-1] - mean, edges[1:] - mean
    above = ndtr(-left) - ndtr(-right)
    return np.where(left > 0.0, above, ndtr(right) - ndtr(left))


def gauss_nodes(middle: Array, half: Array, points: int) -> tuple[Array, Array]:
    """Nodes of a Gauss rule in each cell, as moves from its middle, and their weights under N(0, 1).

    The weights are those over half the cell's width times the density at its middle; a last axis counts
    the nodes.
    """
    nodes, weights = gauss_rule(points)
    moves = half[..., None] * nodes
    return moves, weights * np.exp(-moves * (middle[..., None] + 0.5 * moves))


def log_cell_masses(middle: Array, half: Array, weights: Array) -> Array:
    """log N(0, 1) of each cell from the weights of its nodes: no difference of distribution functions.

    >>> middle, half = np.array([-0.5, 0.5]), np.array([0.5, 0.5])
    >>> _, weights = gauss_nodes(middle, half, 12)
    >>> round(float(np.sum(np.exp(log_cell_masses(middle, half, weights)))), 10)  # one deviation
    0.6826894921
    """
    log_total = np.log(np.sum(weights, axis=-1) * half)
    return np.asarray(-0.5 * middle * middle + log_total - _LOG_SQRT_2_PI)
