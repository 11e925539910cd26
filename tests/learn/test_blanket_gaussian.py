"""Gaussian reports mixed with a blanket, against PrivUnit: what docs/topics/randomizers.md says of
them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.learn import PrivUnitBall
from tests.reference.blanket_gaussian import epsilon, reports


def test_points_have_the_means_of_the_law() -> None:
    law, _ = reports(0.3, 1.2, 10)
    weights, first, second = np.array(law.weights), np.array(law.first), np.array(law.second)
    assert weights.sum() == pytest.approx(1.0, rel=1e-6)
    assert weights @ first == pytest.approx(1.0, rel=1e-6)
    assert weights @ second == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize(("price", "room"), [(1.0, 0.0), (2.0, -1.0), (5.0, 3.0), (0.5, 0.5)])
def test_spread_is_above_the_integral_and_near_it(price: float, room: float) -> None:
    """E(X - price Y - room)_+ of one report, by plain summation over a fine grid."""
    blanket, scale = 0.3, 1.2
    law, _ = reports(blanket, scale, 10)
    values = np.array(law.first) - price * np.array(law.second) - room
    spread = float(np.array(law.weights) @ np.maximum(values, 0.0))
    u = np.arange(-10.0, 12.0, 1e-4)
    density = np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi) * 1e-4
    odds = (1.0 - blanket) / blanket
    x, y = (1.0 + odds * np.exp(sign * scale * u - 0.5 * scale**2) for sign in (1.0, -1.0))
    exact = blanket * float(density @ np.maximum(x - price * y - room, 0.0))
    exact += (1.0 - blanket) * max(-room, 0.0)
    # ratios are cut far out, which takes less than 1e-6 of them
    assert exact * (1.0 - 1e-6) <= spread <= exact * 1.02 + 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_opposite_records_are_the_worst(seed: int) -> None:
    """Plackett's identity: E(A e^U - B e^V - c)_+ falls with the correlation of U and V."""
    rng = np.random.default_rng(seed)
    scale, a, b, c = rng.uniform(0.3, 2.0), *rng.uniform(0.2, 3.0, 2), rng.uniform(-2.0, 2.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    weights = weights / weights.sum()
    means = []
    for correlation in (-1.0, -0.7, 0.0, 0.5, 0.9):
        u, other = np.meshgrid(nodes, nodes)
        v = correlation * u + math.sqrt(1.0 - correlation**2) * other
        value = a * np.exp(scale * u) - b * np.exp(scale * v) - c
        # a smooth convex function, for which the sum is exact to many digits
        smooth = np.sqrt(1.0 + value**2)
        means.append(float(weights @ smooth @ weights))
    assert means == sorted(means, reverse=True)


def test_next_to_no_blanket_is_gaussian_noise() -> None:
    """One report of one user: the total variation 2 Phi(s) - 1 of the two noises, times 1 - b."""
    law, _ = reports(1e-3, 2.0, 1)
    gaps = np.array(law.first) - np.array(law.second)
    total = float(np.array(law.weights) @ np.maximum(gaps, 0.0))
    assert total == pytest.approx((2.0 * float(ndtr(2.0)) - 1.0) * 0.999, rel=0.02)


ROWS = [
    (0.02, 0.725, 0.8633, 17.74, 20.57),
    (0.1, 0.43, 1.2130, 2.09, 1.80),
    (0.5, 0.16, 1.5847, 0.564, 0.375),
    (1.0, 0.12, 1.7395, 0.427, 0.244),
    (3.0, 0.08, 2.0166, 0.291, 0.149),
]
"""Target epsilon, blanket b, scale s, and variances over d, as docs/topics/randomizers.md prints them."""


@pytest.mark.slow
@pytest.mark.parametrize(("target", "blanket", "scale", "variance", "unit"), ROWS)
def test_rows_of_the_page(
    target: float, blanket: float, scale: float, variance: float, unit: float
) -> None:
    case = {"users": 2000, "rate": 1 / 30, "rounds": 300, "delta": 1e-5}
    assert epsilon(blanket, scale, **case) <= target
    assert epsilon(blanket, 1.03 * scale, **case) > target
    assert 1.0 / ((1.0 - blanket) * scale) ** 2 == pytest.approx(variance, rel=6e-3)

    def run(budget: float) -> dp.ShuffledReports:
        ball = PrivUnitBall(dimension=1000, local_epsilon=budget)
        return ball.shuffled(users=2000, population=60_000, rounds=300)

    budget = float(dp.calibrate(run, epsilon=target, delta=1e-5, relative_error=1e-3, whole=False))
    ball = PrivUnitBall(dimension=1000, local_epsilon=budget)
    assert ball.largest_variance / 1000 == pytest.approx(unit, rel=6e-3)
