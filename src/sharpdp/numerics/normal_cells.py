"""Masses of normal distributions in cells of the line."""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.scipy_special import ndtr
from sharpdp.numerics.special import Array

__all__ = ["cell_masses"]


def cell_masses(edges: Array, mean: float) -> Array:
    """N(mean, 1) of each cell, as a difference of the smaller tails.

    >>> cell_masses(np.array([-np.inf, 0.0, np.inf]), 0.0).tolist()
    [0.5, 0.5]
    """
    left, right = edges[:-1] - mean, edges[1:] - mean
    above = ndtr(-left) - ndtr(-right)
    return np.where(left > 0.0, above, ndtr(right) - ndtr(left))
