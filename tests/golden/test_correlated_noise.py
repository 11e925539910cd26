"""Correlated noise against values that are not ours: jax-privacy's, and closed forms by whole numbers."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

import sharpdp as dp

JAX_PRIVACY_SENSITIVITIES = (
    (64, 8, 8, 4.5821209),
    (256, 16, 16, 8.1056423),
    (1024, 64, 16, 7.6841488),
)
"""Steps, separation, participations: `get_min_sep_sensitivity_upper_bound`, in single precision."""

JAX_PRIVACY_EPSILONS = ((1000, 4, 0.04, 1.0, 4.826144242), (10_000, 16, 0.1, 2.0, 7.035462472))
"""Steps, bands, sample rate, noise: `amplified_bandmf_event` with dp-accounting 0.6.0, pessimistic."""

JAX_PRIVACY_DRAWS = 1.1955
"""Epsilon at delta 0.01 of the strategy (8, 4, 2, 1), 10 bins, 10 epochs, noise 3: 100,000 draws."""


def square_root(bands: int) -> list[float]:
    """Coefficients of (1 - z)^(-1/2), in units of the norm of a column."""
    entries = [math.comb(2 * k, k) / 4**k for k in range(bands)]
    norm = math.sqrt(sum(entry * entry for entry in entries))
    return [entry / norm for entry in entries]


@pytest.mark.parametrize(("steps", "separation", "uses", "published"), JAX_PRIVACY_SENSITIVITIES)
def test_sensitivities_of_jax_privacy(
    steps: int, separation: int, uses: int, published: float
) -> None:
    plan = dp.MinSeparation(steps=steps, separation=separation, participations=uses)
    strategy = dp.BandedStrategy(coefficients=square_root(steps))
    answer = dp.account(dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=10.0))
    mu = answer.mu()
    assert mu.lower <= published / 10.0
    assert mu.upper == pytest.approx(published / 10.0, rel=1e-6)


@pytest.mark.parametrize(("steps", "bands", "rate", "noise", "published"), JAX_PRIVACY_EPSILONS)
def test_banded_amplification_of_jax_privacy(
    steps: int, bands: int, rate: float, noise: float, published: float
) -> None:
    plan = dp.batches.CyclicPoissonBatches(sample_rate=rate, steps=steps, cycle_length=bands)
    strategy = dp.BandedStrategy(coefficients=square_root(bands))
    run = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=noise)
    answer = dp.account(run).epsilon(delta=1e-6)
    assert answer.upper <= published
    assert answer.lower == pytest.approx(published, rel=1e-6)


def test_draws_of_jax_privacy() -> None:
    norm = math.sqrt(85.0)
    strategy = dp.BandedStrategy(coefficients=[entry / norm for entry in (8, 4, 2, 1)])
    plan = dp.BallsAndBins(dataset_size=10, batch_size=1, epochs=10, order="kept")
    run = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=3.0)
    drawn = dp.estimate(run, delta=0.01, samples=20_000, confidence=0.999, rng=1)
    assert drawn.lower <= JAX_PRIVACY_DRAWS * 1.005
    assert drawn.upper >= JAX_PRIVACY_DRAWS * 0.995
    certified = dp.account(run).epsilon(delta=0.01)
    assert certified.lower < JAX_PRIVACY_DRAWS < certified.upper


def test_single_participation_of_the_square_root_by_whole_numbers() -> None:
    """The first column of the square root of prefix sums over 200 steps, squared, as a fraction."""
    square = sum(Fraction(math.comb(2 * k, k), 4**k) ** 2 for k in range(200))
    strategy = dp.BandedStrategy(coefficients=[math.comb(2 * k, k) / 4**k for k in range(200)])
    plan = dp.DeterministicBatches(dataset_size=200, batch_size=1, epochs=1)
    mu = dp.account(dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=1.0)).mu()
    assert mu.lower <= math.sqrt(square) * (1.0 + 1e-12)
    assert mu.upper >= math.sqrt(square) * (1.0 - 1e-12)
    assert mu.upper == pytest.approx(math.sqrt(square), rel=1e-6)
