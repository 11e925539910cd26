"""Numbers of the pages that tell how other libraries count, by hand."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest

import sharpdp as dp

PHI = NormalDist().cdf


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of N(mu, 1) against N(0, 1) (balle2018 Theorem 8)."""
    return PHI(mu / 2 - epsilon / mu) - math.exp(epsilon) * PHI(-mu / 2 - epsilon / mu)


def test_the_hull_of_both_directions_is_attained_by_no_attack() -> None:
    """docs/how-to/attack-risk.md: riskcal's convention, peers.md B3."""
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=100), noise_multiplier=0.0)
    fnr = dp.account(run).fnr(fpr=0.1)
    assert fnr.lower == pytest.approx(0.99**100 * 0.9, rel=1e-9)
    assert fnr.lower > 0.99**100 - 0.1 + 0.06


def test_a_replaced_client_moves_a_sum_by_twice_the_norm() -> None:
    """docs/how-to/flower.md: Flower's convention, peers.md B4."""
    everybody = dp.FixedSizeBatches(dataset_size=100, batch_size=100, steps=1)
    run = dp.DPSGD(everybody, noise_multiplier=1.0)
    epsilon = dp.account(run, adjacency="replace-one").epsilon(delta=1e-5)
    assert f"{epsilon.upper:.3f}" == "9.997"
    assert gaussian_delta(2.0, epsilon.upper) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_delta(1.0, 4.377178096) == pytest.approx(1e-5, rel=1e-6)  # one norm apart


def test_either_data_set_of_truncated_sampling_may_have_the_stated_size() -> None:
    """docs/topics/batches.md and docs/migration.md: dp-accounting's convention, peers.md B1."""
    full = dp.TruncatedPoissonBatches(
        dataset_size=10, batch_size=10, physical_batch_size=10, steps=1
    )
    run = dp.DPSGD(full, noise_multiplier=1.0)
    one, two = gaussian_delta(1.0, 0.0), gaussian_delta(2.0, 0.0)
    assert f"{one:.3f} {two:.3f}" == "0.383 0.683"
    kept = dp.account(run, adjacency="zero-out").delta(epsilon=0.0)
    assert kept.lower == pytest.approx(one, rel=1e-6)
    assert kept.upper == pytest.approx(one, rel=1e-6)
    # 11 records of which 10 are kept, all contributions opposed to that of the record: 10 of 11 batches
    # lose one of the others to it
    added = dp.account(run, adjacency="add/remove").delta(epsilon=0.0)
    assert added.lower == pytest.approx(one, rel=1e-4)
    assert 10 / 11 * two <= added.upper <= two * (1 + 1e-6)
