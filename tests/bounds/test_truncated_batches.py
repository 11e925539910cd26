"""Truncated Poisson batches of few examples against quadrature: neither kind of batch dominates."""

from __future__ import annotations

import numpy as np
import pytest

import sharpdp as dp

POINTS = np.linspace(-12.0, 12.0, 200_001)


def delta(
    first: list[tuple[float, float]], second: list[tuple[float, float]], noise: float, x: float
) -> float:
    """int (P - x Q)_+ for mixtures of (weight, mean) of Gaussians, by the trapezoidal rule."""
    y = POINTS * (1.0 + noise)

    def law(parts: list[tuple[float, float]]) -> np.ndarray:
        density = sum(w * np.exp(-0.5 * ((y - m) / noise) ** 2) for w, m in parts)
        return density / (noise * np.sqrt(2.0 * np.pi))

    return float(np.trapezoid(np.maximum(law(first) - x * law(second), 0.0), y))


@pytest.mark.parametrize("noise", [0.3, 0.4, 0.5, 0.7, 0.8, 2.0, 5.239])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_two_examples_one_place_one_removed(noise: float, epsilon: float) -> None:
    # rate 1/2 each; the record is +1, the other -1; if both are drawn one of them is kept
    inside, outside = [(0.25, 0.0), (0.375, 1.0), (0.375, -1.0)], [(0.5, 0.0), (0.5, -1.0)]
    x = float(np.exp(epsilon))
    truth = max(delta(inside, outside, noise, x), delta(outside, inside, noise, x))
    plan = dp.TruncatedPoissonBatches(dataset_size=2, batch_size=1, physical_batch_size=1, steps=1)
    run = dp.DPSGD(plan, noise_multiplier=noise)
    answer = dp.account(run, adjacency="add/remove").delta(epsilon=epsilon)
    assert answer.lower <= answer.upper
    assert truth <= answer.upper + 1e-9


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 2, 2), (3, 2, 2), (10, 5, 6), (100, 100, 100)])
@pytest.mark.parametrize("adjacency", ["add/remove", "zero-out"])
def test_the_two_sides_do_not_cross(sizes: tuple[int, int, int], adjacency: str) -> None:
    size, batch, room = sizes
    plan = dp.TruncatedPoissonBatches(
        dataset_size=size, batch_size=batch, physical_batch_size=room, steps=1
    )
    for noise in (0.1, 0.5, 4.0):
        answer = dp.account(dp.DPSGD(plan, noise_multiplier=noise), adjacency=adjacency)
        for epsilon in (0.0, 0.5, 5.0):
            bracket = answer.delta(epsilon=epsilon)
            assert bracket.lower <= bracket.upper
