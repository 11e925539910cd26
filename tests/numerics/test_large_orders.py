"""Moments of sampled Gaussians at orders beyond quadrature, against sums and integrals of 50 digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp, mpf

import sharpdp as dp
from sharpdp.profile.sampled_gaussian.large_orders import (
    mixture_moments,
    opposed_moments,
    sampled_moments,
)


def whole_order(rate: float, mu: float, order: int) -> mpf:
    """log E[X^order] by the binomial theorem."""
    q, m = mpf(rate), mpf(mu)
    terms = (
        mp.binomial(order, k) * (1 - q) ** (order - k) * q**k * mp.exp(mpf(k) * (k - 1) * m**2 / 2)
        for k in range(order + 1)
    )
    return mp.log(mp.fsum(terms))


def integral(rate: float, mu: float, order: float, *, opposed: bool = False) -> mpf:
    """log E[X^order], or of X^order Y^(1 - order), by quadrature."""
    q, m, a = mpf(rate), mpf(mu), mpf(order)

    def density(y: mpf) -> mpf:
        ahead = 1 - q + q * mp.exp(m * y - m * m / 2)
        behind = 1 - q + q * mp.exp(-m * y - m * m / 2) if opposed else mpf(1)
        return ahead**a * behind ** (1 - a) * mp.npdf(y)

    top = a * m
    places = {mpf(k) for k in (-12, -6, 0, 6, 12)} | {top + k for k in range(-12, 13, 3)}
    places |= {top * k / 16 for k in range(1, 16)}
    return mp.log(mp.quad(density, sorted(places)))


def encloses(low: float, high: float, truth: mpf, width: float) -> bool:
    return bool(mpf(low) <= truth <= mpf(high) and high - low <= width * float(truth))


@pytest.mark.parametrize(
    ("rate", "noise", "order", "printed"),
    [
        (0.01, 0.1, 64, 3195.3217),  # dp-accounting's and autodp's closed form
        (0.01, 0.1, 512, None),
        (0.01, 0.25, 128, None),
        (1e-6, 0.1, 64, None),
        (0.9, 0.05, 33, None),
        (0.1, 20.0, 7000, None),
    ],
)
def test_divergences_beyond_losses_of_700(
    rate: float, noise: float, order: int, printed: float | None
) -> None:
    with mp.workdps(50):
        truth = whole_order(rate, 1 / mpf(noise), order) / (order - 1)
        run = dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=1), noise_multiplier=noise)
        bracket = dp.account(run, relative_width=1e-9).renyi(order=float(order))
        # 1 / noise is rounded
        assert bracket.lower <= truth * (1 + mpf(1e-15))
        assert truth * (1 - mpf(1e-15)) <= bracket.upper
        assert bracket.upper - bracket.lower <= 1e-9 * float(truth)
    if printed is not None:
        assert float(bracket.upper) == pytest.approx(printed, abs=1e-4)


@pytest.mark.parametrize(
    ("rate", "mu", "order", "width"),
    [
        (0.01, 10.0, 64.5, 1e-9),
        (0.01, 3.0, 3.3, 1e-3),
        (0.3, 1.0, 17.2, 1e-3),
        (0.5, 0.1, 50.7, 0.2),
    ],
)
def test_orders_between_whole_ones(rate: float, mu: float, order: float, width: float) -> None:
    with mp.workdps(30):
        low, high = sampled_moments(rate, mu, np.array([order]), 1e-12)
        assert encloses(float(low[0]), float(high[0]), integral(rate, mu, order), width)


@pytest.mark.parametrize(
    ("rate", "mu", "order"),
    [(0.01, 10.0, 20.0), (0.5, 5.0, 16.5), (0.2, 2.0, 8.0), (0.9, 1.0, 4.0)],
)
def test_records_that_are_replaced_by_their_opposite(rate: float, mu: float, order: float) -> None:
    with mp.workdps(30):
        truth = integral(rate, mu, order, opposed=True)
        low, high = opposed_moments(rate, mu, np.array([order]), 1e-12)
        assert mpf(float(low[0])) <= truth <= mpf(float(high[0]))
        if order * mu > 80:
            assert encloses(float(low[0]), float(high[0]), truth, 1e-6)


def test_groups_are_mixtures_of_shifts() -> None:
    """Two records that are drawn singly: N(0), N(mu), N(2 mu), order 3 by all products."""
    q, mu = 0.25, 2.0
    weights, shifts = np.array([(1 - q) ** 2, 2 * q * (1 - q), q * q]), mu * np.arange(3.0)
    total = 0.0
    for i in range(3):
        for j in range(3):
            for k in range(3):
                cross = shifts[i] * shifts[j] + shifts[j] * shifts[k] + shifts[i] * shifts[k]
                total += weights[i] * weights[j] * weights[k] * math.exp(cross)
    low, high = mixture_moments(np.log(weights), shifts, np.array([3.0]))
    assert low[0] <= math.log(total) <= high[0]
    run = dp.DPSGD(dp.PoissonBatches(sample_rate=q, steps=1), noise_multiplier=0.05)
    bracket = dp.account(run, group_size=2).renyi(order=50.0)
    # of 40 shifted deviations: log(q^2)^50 + 50 49 40^2 / 2, and nothing else counts
    assert bracket.lower <= (50.0 * math.log(q * q) + 1225.0 * 1600.0) / 49.0 <= bracket.upper
    assert bracket.upper - bracket.lower <= 1e-9 * bracket.upper


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_displaced_records_have_divergences(noise: float) -> None:
    """Fixed-size batches, zero-out: at least those of the pair that attains the lower side."""
    run = dp.DPSGD(
        dp.FixedSizeBatches(dataset_size=1000, batch_size=10, steps=1), noise_multiplier=noise
    )
    bracket = dp.account(run, adjacency="zero-out").renyi(order=3.0)
    mu, r = mpf(1 / noise), mpf("0.01")

    def density(z: mpf) -> mpf:
        other, record, null = (mp.npdf(z + mu), mp.npdf(z - mu), mp.npdf(z))
        return ((1 - r) * other + r * record) ** 3 / ((1 - r) * other + r * null) ** 2

    with mp.workdps(30):
        truth = mp.log(mp.quad(density, [-40, -20, -10, -5, 0, 5, 10, 20, 40])) / 2
    assert truth * (1 - mpf(1e-12)) <= bracket.upper <= 1.25 * truth
