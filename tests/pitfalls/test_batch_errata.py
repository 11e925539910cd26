"""What chua2024 prints wrongly, and what shuffling is mistaken for: each held to certified values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp


def shuffled(noise: float, batches: int) -> dp.Guarantee:
    plan = dp.ShuffledBatches(dataset_size=batches, batch_size=1, epochs=1)
    return dp.account(dp.DPSGD(plan, noise_multiplier=noise))


def revealed(noise: float, epsilon: float) -> float:
    """delta of Gaussian noise, by its formula."""
    far = noise * epsilon
    return float(ndtr(0.5 / noise - far) - np.exp(epsilon) * ndtr(-0.5 / noise - far))


def test_the_values_under_epsilon_1_are_those_of_epsilon_one_half() -> None:
    """The paragraph on sigma = 1 and 1000 batches quotes 0.004 as the lower bound at epsilon = 1."""
    answer = shuffled(1.0, 1000)
    at_half, at_one = answer.delta(epsilon=0.5).lower, answer.delta(epsilon=1.0).lower
    assert at_half == pytest.approx(0.004655, rel=2e-3)
    assert at_one == pytest.approx(1.0147e-3, rel=5e-3)
    assert round(at_half, 3) == pytest.approx(0.005)
    assert at_one < 0.004 / 3


def test_seven_and_a_half_is_more_than_the_order_revealed() -> None:
    """delta_S(12) >= 7.5e-5 is printed for sigma = 0.4 and 10^4 batches; delta_D(12) is 7.474e-5."""
    limit = revealed(0.4, 12.0)
    assert limit == pytest.approx(7.474381e-5, rel=1e-6)
    assert limit < 7.5e-5
    found = shuffled(0.4, 10_000).delta(epsilon=12.0)
    assert found.lower == pytest.approx(7.473379e-5, rel=1e-5)
    assert found.lower <= limit <= found.upper * (1.0 + 1e-9)


def test_deterministic_column_of_the_text() -> None:
    assert revealed(0.4, 4.0) == pytest.approx(0.2438199, rel=1e-6)
    for noise, batches, delta, printed in (
        (0.4, 10**5, 1e-6, 14.450777),
        (0.5, 10**4, 1e-6, 10.997151),
        (0.7, 10**3, 1e-5, 6.652488),
    ):
        assert shuffled(noise, batches).epsilon(delta=delta).upper == pytest.approx(
            printed, abs=2e-6
        )


def test_shuffled_batches_are_not_poisson_batches() -> None:
    """Reporting the epsilon of Poisson batches for a shuffled loader: 3 against more than 14."""
    poisson = dp.PoissonBatches(dataset_size=10**5, batch_size=1, epochs=1)
    claimed = dp.account(dp.DPSGD(poisson, noise_multiplier=0.4)).epsilon(delta=1e-6)
    truth = shuffled(0.4, 10**5).epsilon(delta=1e-6)
    assert claimed.upper < 3.0
    assert truth.lower > 14.45


def test_clones_need_an_order_that_is_drawn_anew() -> None:
    """An order that is kept is found out: after 100 epochs it hides nothing."""
    sizes = {"dataset_size": 10_000, "batch_size": 1, "epochs": 100}
    kept, redrawn = (
        dp.account(
            dp.DPSGD(dp.ShuffledBatches(**sizes, order=order), noise_multiplier=4.0)
        ).epsilon(delta=1e-6)
        for order in ("kept", "redrawn")
    )
    assert kept.lower > 20.0 * redrawn.upper
