"""Shuffled blocks: an exact small mechanism, special cases, bad input."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import sharpdp as dp


def test_blocks_of_one_record_are_individual_reports() -> None:
    for unit in ("record", "block"):
        blocks = dp.ShuffledBlocks(blocks=50, local_epsilon=1.5, epochs=3, unit=unit)
        reports = dp.ShuffledReports(users=50, local_epsilon=1.5, rounds=3, randomizer="individual")
        one, other = (dp.account(each).epsilon(delta=1e-5).upper for each in (blocks, reports))
        assert one == pytest.approx(other, rel=1e-6)


def test_one_block_is_its_own_budget() -> None:
    alone = dp.ShuffledBlocks(blocks=1, local_epsilon=2.0, block_size=4)
    assert dp.account(alone).epsilon(delta=1e-12).upper == pytest.approx(0.5, rel=1e-6)
    whole = dp.ShuffledBlocks(blocks=1, local_epsilon=2.0, block_size=4, unit="block")
    assert dp.account(whole).epsilon(delta=1e-12).upper == pytest.approx(2.0, rel=1e-6)


def noisy_sum(total: int, size: int, step: float) -> np.ndarray:
    """Two-sided geometric noise on a sum of bits, cut off at the ends (post-processing)."""
    reach = 4
    points = np.arange(-60, 61)
    mass = np.exp(-step * np.abs(points))
    cells = np.clip(total + points, -reach, size + reach) + reach
    return np.bincount(cells, mass / mass.sum(), minlength=size + 2 * reach + 1)


@pytest.mark.parametrize("others", list(itertools.product([0, 2], repeat=2)))
def test_a_real_pass_over_three_blocks_of_two_bits(others: tuple[int, int]) -> None:
    """Blocks hold two bits, noise has budget `step` for one bit; the outputs of a pass, enumerated."""
    step, size = 0.6, 2
    laws = [noisy_sum(total, size, step) for total in others]

    def passed(total: int) -> np.ndarray:
        blocks = [noisy_sum(total, size, step), *laws]
        orders = list(itertools.permutations(range(3)))
        return sum(
            np.einsum("a,b,c->abc", *(blocks[place] for place in order)) for order in orders
        ) / len(orders)

    bound = dp.account(dp.ShuffledBlocks(blocks=3, local_epsilon=size * step, block_size=size))
    for before, after in ((0, 1), (1, 0), (1, 2), (2, 1)):
        p, q = passed(before), passed(after)
        for epsilon in (0.0, 0.1, 0.3, 0.5):
            exact = float(np.maximum(p - np.exp(epsilon) * q, 0.0).sum())
            assert exact <= bound.delta(epsilon=epsilon).upper + 1e-12


def test_the_printed_noise_does_not_hide_a_record_among_far_blocks() -> None:
    # chen2024's noise is eps0 for one record; blocks of 600 are then 600 eps0 apart, and nothing hides
    printed = dp.ShuffledBlocks(blocks=100, local_epsilon=600.0, block_size=600)
    alone = dp.PureDP(epsilon=1.0)
    for times in (1, 50):
        one, other = (dp.account(run * times).epsilon(delta=1e-5) for run in (printed, alone))
        assert one.upper == pytest.approx(other.upper, rel=2e-3)
    with pytest.raises(dp.InvalidArgument, match="local_epsilon must be between"):
        dp.ShuffledBlocks(blocks=100, local_epsilon=600.0, block_size=600, unit="block")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("blocks", 0),
        ("blocks", 10**13),
        ("block_size", 0),
        ("epochs", 0),
        ("local_epsilon", 0.0),
        ("local_epsilon", float("nan")),
        ("local_epsilon", 31.0),
        ("unit", "user"),
    ],
)
def test_bad_input_names_its_argument(field: str, value: object) -> None:
    with pytest.raises(dp.InvalidArgument, match=field):
        dp.ShuffledBlocks(**{"blocks": 5, "local_epsilon": 1.0, field: value})
