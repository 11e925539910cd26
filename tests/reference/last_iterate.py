"""Noisy gradient descent in one or two dimensions, by exact recursions and by quadrature."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]
Map = Callable[[Array], Array]


def cheapest_shifts(c: Fraction, used: Sequence[int], start: Fraction = Fraction(0)) -> Fraction:
    """The price of the greatest convex minorant, every step a knot, in exact arithmetic."""
    steps = len(used)
    width, height = Fraction(0), start * c**steps
    hull = [(Fraction(0), Fraction(0))]
    for k, use in enumerate(used):
        after = steps - 1 - k
        width += c ** (2 * after)
        height += use * c**after
        point = (width, height)
        while len(hull) > 1 and _slope(hull[-2], hull[-1]) >= _slope(hull[-2], point):
            hull.pop()
        hull.append(point)
    pieces = itertools.pairwise(hull)
    return sum((_slope(a, b) ** 2 * (b[0] - a[0]) for a, b in pieces), Fraction(0))


def _slope(a: tuple[Fraction, Fraction], b: tuple[Fraction, Fraction]) -> Fraction:
    return (b[1] - a[1]) / (b[0] - a[0])


def gaussian_mu(steps: Sequence[tuple[Array, Array]]) -> float:
    """mu of x <- H x + m + N(0, I) against x <- H x + N(0, I), both from zero."""
    size = steps[0][1].size
    mean, covariance = np.zeros(size), np.zeros((size, size))
    for matrix, move in steps:
        mean = matrix @ mean + move
        covariance = matrix @ covariance @ matrix.T + np.eye(size)
    return float(np.sqrt(mean @ np.linalg.solve(covariance, mean)))


def last_laws(
    steps: Sequence[Sequence[tuple[float, Map, Map]]], edge: float = np.inf, cells: int = 1500
) -> tuple[Array, Array]:
    """Probabilities of cells of the line for the last iterate, with the record and without.

    Each step lists (chance, map with the record, map without); noise has deviation one; iterates are
    projected onto [-edge, edge]. Both laws go through the same cells, so that their pair is close to that
    of the iterates, and coarser.
    """
    reach = min(edge, 14.0)
    grid = np.linspace(-reach, reach, cells)
    half = 0.5 * (grid[1] - grid[0])
    ends = np.concatenate([[-np.inf], grid[:-1] + half, [np.inf]])
    laws = []
    for side in (1, 2):
        law = np.zeros(cells)
        law[cells // 2] = 1.0
        for step in steps:
            later = np.zeros(cells)
            for choice in step:
                to: Map = choice[side]
                kernel = np.diff(stats.norm.cdf(ends[:, None] - to(grid)[None, :]), axis=0)
                later += choice[0] * (kernel @ law)
            law = later
        laws.append(law)
    return laws[0], laws[1]


def delta(p: Array, q: Array, epsilon: float) -> float:
    """The hockey stick of two pmfs."""
    return float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)))
