"""DP-SGD over balls-and-bins and random allocation: which bounds answer, and for which mechanism."""

from __future__ import annotations

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.profile.composition import Composition
from tests.reference.allocation import deltas


def bins(count: int, noise: float, epochs: int = 1) -> dp.DPSGD:
    plan = dp.BallsAndBins(dataset_size=10 * count, batch_size=10, epochs=epochs)
    return dp.DPSGD(plan, noise_multiplier=noise)


def some(participations: int, steps: int, noise: float, epochs: int = 1) -> dp.DPSGD:
    plan = dp.RandomAllocation(steps=steps, participations=participations, epochs=epochs)
    return dp.DPSGD(plan, noise_multiplier=noise)


def names(answer: dp.Guarantee) -> set[str]:
    return {bound.name for bound in answer.bounds}


def test_one_participation_is_balls_and_bins() -> None:
    first, second = (dp.account(run) for run in (bins(20, 1.5, 2), some(1, 20, 1.5, 2)))
    for delta in (1e-2, 1e-6):
        one, other = first.epsilon(delta=delta), second.epsilon(delta=delta)
        assert (one.lower, one.upper) == (other.lower, other.upper)


def test_both_notions_of_neighbors_have_the_same_pair() -> None:
    run = bins(20, 1.5, 2)
    ends = [
        dp.account(run, adjacency=notion).epsilon(delta=1e-5)
        for notion in ("zero-out", "add-remove")
    ]
    assert ends[0].lower == ends[1].lower
    assert ends[0].upper == ends[1].upper


def test_two_of_four_steps_is_bracketed_and_not_the_known_blocks() -> None:
    """A program of others gives [2.7172, 2.7266] at 1e-2: blocks of two steps, that nobody knows here."""
    answer = dp.account(some(2, 4, 1.0))
    assert 2.5975 in answer.epsilon(delta=1e-2)
    assert answer.epsilon(delta=1e-2).lower > 2.59
    assert 5.68 in answer.epsilon(delta=1e-6)
    assert answer.epsilon(delta=1e-2).upper < 2.62
    forward, _ = deltas(1.0, 4, 2, 4.0, count=6)  # converged to 1e-3
    bracket = answer.delta(epsilon=4.0)
    assert bracket.lower < 0.999 * forward
    assert 1.001 * forward < bracket.upper


def test_the_lower_side_of_ten_of_a_hundred_is_close_to_a_simulation() -> None:
    """Importance sampling, 160,000 draws: 9.83 +- 0.02 at noise 0.8, 6.58 +- 0.03 at noise 1."""
    for noise, truth in ((0.8, 9.83), (1.0, 6.58)):
        lower = dp.account(some(10, 100, noise)).epsilon(delta=1e-6).lower
        assert 0.985 * truth < lower < 1.01 * truth


@pytest.mark.parametrize(("noise", "epsilon"), [(1.0, 0.5), (1.0, 3.0), (0.5, 6.0)])
def test_two_of_three_steps_is_bracketed(noise: float, epsilon: float) -> None:
    bracket = dp.account(some(2, 3, noise)).delta(epsilon=epsilon)
    truth = max(deltas(noise, 3, 2, epsilon))
    assert bracket.lower <= truth * (1.0 + 1e-6)
    assert truth <= bracket.upper * (1.0 + 1e-6)


def test_all_of_the_steps_is_a_gaussian() -> None:
    answer = dp.account(some(9, 9, 3.0)).epsilon(delta=1e-6)
    gaussian = dp.account(dp.Gaussian(1.0)).epsilon(delta=1e-6)
    assert answer.lower <= gaussian.upper
    assert gaussian.lower <= answer.upper
    assert answer.upper - answer.lower < 1e-9


def test_the_upper_side_uses_every_step() -> None:
    """Seven steps for two participations: blocks of three and four, not two of three."""
    (bound,) = (one for one in dp.all_bounds() if one.name == "random_allocation_upper")
    pieces = bound(some(2, 7, 1.0), dp.Adjacency.ZERO_OUT)
    assert [count for _, count in pieces] == [1, 1]
    blocks = dp.account(some(1, 3, 1.0) + some(1, 4, 1.0)).epsilon(delta=1e-5)
    upper = Composition(pieces).epsilon(np.log(1e-5), 1e-4)[1]
    assert upper == pytest.approx(blocks.upper, rel=1e-3)
    # steps that are hidden among all seven tell less
    assert dp.account(some(2, 7, 1.0)).epsilon(delta=1e-5).upper < 0.95 * blocks.lower


def test_epochs_are_repetitions() -> None:
    plan, once = dp.account(bins(20, 1.5, 4)), dp.account(bins(20, 1.5) * 4)
    for delta in (1e-2, 1e-8):
        one, other = plan.epsilon(delta=delta), once.epsilon(delta=delta)
        assert one.lower <= other.upper
        assert other.lower <= one.upper


def test_brackets_are_narrow() -> None:
    answer = dp.account(bins(100, 0.7, 3))
    epsilon = answer.epsilon(delta=np.array([1e-3, 1e-6, 1e-12]))
    assert np.all(epsilon.upper - epsilon.lower <= 3e-3 * epsilon.upper)
    assert answer.tradeoff().lower(0.1) <= answer.tradeoff().upper(0.1)


@pytest.mark.parametrize("run", [bins(50, 0.02), some(3, 50, 0.02)])
def test_hardly_any_noise_has_an_answer(run: dp.DPSGD) -> None:
    answer = dp.account(run)
    epsilon = answer.epsilon(delta=1e-6)
    assert 300.0 < epsilon.lower <= epsilon.upper < 6000.0
    assert "random_allocation_upper" not in names(answer)


def test_tiny_deltas_fall_back_on_revealed_bins() -> None:
    epsilon = dp.account(bins(20, 1.5)).epsilon(delta=1e-60)
    gaussian = dp.account(dp.Gaussian(1.5)).epsilon(delta=1e-60)
    assert 0.0 < epsilon.lower <= epsilon.upper <= gaussian.upper * (1.0 + 1e-9)


def test_very_many_steps_have_an_answer() -> None:
    run = dp.DPSGD(
        dp.BallsAndBins(dataset_size=10**12, batch_size=1, epochs=1), noise_multiplier=1.0
    )
    epsilon = dp.account(run).epsilon(delta=1e-9)
    assert 0.0 <= epsilon.lower <= epsilon.upper < 1e-3


def test_each_side_says_what_it_rests_on() -> None:
    assert names(dp.account(bins(20, 1.5))) == {
        "random_allocation_lower",
        "random_allocation_upper",
        "revealed_allocation_upper",
    }
    many = dp.account(some(2, 12, 2.0))
    tests = {"allocated_losses_lower", "allocated_large_losses_lower", "allocated_jumps_lower"}
    assert tests <= names(many)
    assert "random_allocation_lower" not in names(many)
    assert "gap between best known bounds" in str(many.epsilon(delta=1e-6))
