"""Reports y = s x + Z with probability 1 - b, y = Z otherwise, shuffled: an upper bound on epsilon.

|x| <= 1 and Z is normal in any dimension. Seen from b phi, the common part, the worst two records have

    X = 1 + k e^{s u - s^2/2},   Y = 1 + k e^{-s u - s^2/2},   k = (1 - b)/b,   u normal

(docs/randomizers.md). (X - 1, Y - 1) lies on a hyperbola. A piece of it lies in the triangle of its ends
and the point where their tangents meet, so spreading it onto these three points, with its mean kept,
makes the mean of every convex function larger. Weights follow from three masses of the normal law.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, dominating
from sharpdp.composition.composition import Composition

CELL = 0.25
"""Width of a piece, in deviations of u."""

REACH = 9.0
"""Records are told apart beyond so many deviations with probability 1e-19 per report: left out."""


def reports(blanket: float, scale: float, users: int, rate: float = 1.0) -> Reports:
    """Likelihood ratios of one report under the common part, spread onto points."""
    edges = np.arange(-REACH - scale, REACH + scale + CELL, CELL)

    def masses(shift: float) -> np.ndarray:
        left, right = ndtr(edges - shift), ndtr(shift - edges)
        return np.where(edges[:-1] < shift, left[1:] - left[:-1], right[:-1] - right[1:])

    means = np.array([masses(0.0), masses(scale), masses(-scale)])
    first = np.exp(scale * edges - 0.5 * scale**2)
    product, odds = math.exp(-(scale**2)), (1.0 - blanket) / blanket
    points: list[tuple[float, float, float]] = [(1.0 - blanket, 0.0, 0.0)]
    for low, high, mean in zip(first, first[1:], means.T, strict=False):
        ends = np.array([low, high, 2.0 * low * high / (low + high)])
        others = np.array([product / low, product / high, 2.0 * product / (low + high)])
        size = np.array([1.0, high, product / low])
        table = np.array([np.ones(3), ends, others])
        weights = np.linalg.solve(table / size[:, None], mean / size)
        points += [
            (blanket * weight, 1.0 + odds * x, 1.0 + odds * y)
            for weight, x, y in zip(weights, ends, others, strict=True)
            if weight > 0.0
        ]
    weights, xs, ys = np.array(sorted(points, key=lambda point: point[1])).T
    return Reports(*(tuple(row.tolist()) for row in (weights, xs, ys)), users, rate)


def epsilon(
    blanket: float, scale: float, *, users: int, rate: float, rounds: int, delta: float
) -> float:
    """An upper bound on epsilon of all rounds, but for rounding in the last digits of weights."""
    pair = dominating((reports(blanket, scale, users, rate),), 8.0)
    upper: float = Composition(((pair, rounds),)).epsilon(math.log(delta), 1e-3)[1]
    return upper
