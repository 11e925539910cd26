"""Correlated noise by brute force: all patterns and signs, and mixtures of normal laws on a grid."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

__all__ = ["adaptive_ratio", "hockey_sticks", "largest_norms", "mixture_ratio", "separated"]

Floats = NDArray[np.float64]


def separated(steps: int, separation: int, uses: int) -> list[list[int]]:
    """All patterns of at most so many steps, at least ``separation`` apart."""
    found: list[list[int]] = []

    def extend(start: int, pattern: list[int]) -> None:
        if pattern:
            found.append(pattern)
        if len(pattern) < uses:
            for step in range(start, steps):
                extend(step + separation, [*pattern, step])

    extend(0, [])
    return found


def largest_norms(matrix: Floats, patterns: list[list[int]]) -> tuple[float, float]:
    """The largest norm of a signed sum of columns, and that with all inner products positive."""
    gram = matrix.T @ matrix
    signed, absolute = 0.0, 0.0
    for pattern in patterns:
        part = gram[np.ix_(pattern, pattern)]
        absolute = max(absolute, float(np.abs(part).sum()))
        for signs in itertools.product((1.0, -1.0), repeat=len(pattern) - 1):
            vector = np.array((1.0, *signs))
            signed = max(signed, float(vector @ part @ vector))
    return signed**0.5, absolute**0.5


def grid(dimension: int, reach: float = 9.0, points: int = 721) -> tuple[list[Floats], Floats]:
    """Standard normal coordinates on a grid, and the weights of its points."""
    line = np.linspace(-reach, reach, points)
    weights = np.exp(-0.5 * line**2)
    weights /= weights.sum()
    axes = np.meshgrid(*([line] * dimension), indexing="ij")
    product = weights
    for _ in range(dimension - 1):
        product = np.multiply.outer(product, weights)
    return [axis.ravel() for axis in axes], product.ravel()


def mixture_ratio(means: Floats, chances: Floats, points: list[Floats]) -> Floats:
    """dP/dQ of a mixture of N(mean, I) against N(0, I); one row of means for each component."""
    total = np.zeros_like(points[0])
    for mean, chance in zip(means, chances, strict=True):
        total += chance * np.exp(
            sum(m * y for m, y in zip(mean, points, strict=True)) - mean @ mean / 2
        )
    return total


def adaptive_ratio(
    matrix: Floats,
    patterns: list[list[int]],
    chances: Floats,
    policy: list[object],
    points: list[Floats],
) -> Floats:
    """dP/dQ if the contribution of step t is policy[t](earlier results), in [-1, 1]."""
    gradients = [choose(*points[:step]) for step, choose in enumerate(policy)]  # type: ignore[operator]
    total = np.zeros_like(points[0])
    for pattern, chance in zip(patterns, chances, strict=True):
        exponent = np.zeros_like(points[0])
        for row, result in enumerate(points):
            shift = sum(matrix[row, step] * gradients[step] for step in pattern if step <= row)
            exponent += shift * result - 0.5 * np.square(shift)
        total += chance * np.exp(exponent)
    return total


def hockey_sticks(ratio: Floats, weights: Floats, epsilon: float) -> tuple[float, float]:
    """(P against Q, Q against P) at e^epsilon."""
    x = np.exp(epsilon)
    there = float(weights @ np.maximum(ratio - x, 0.0))
    return there, float(weights @ np.maximum(1.0 - x * ratio, 0.0))
