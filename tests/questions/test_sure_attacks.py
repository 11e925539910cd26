"""Attacks without false alarms: what they find is the mass of outcomes that give the record away."""

from __future__ import annotations

from statistics import NormalDist

import pytest

import sharpdp as dp

CASES = [
    (dp.Gaussian(noise_multiplier=1.0), 0.0),
    (dp.PureDP(epsilon=1.0), 0.0),
    (dp.ApproximateDP(epsilon=1.0, delta=0.25), 0.25),
    (dp.FinitePair(p=[0.5, 0.5, 0.0], q=[0.0, 0.5, 0.5]), 0.5),
    (dp.FinitePair(p=[0.75, 0.25, 0.0], q=[0.0, 0.75, 0.25]), 0.75),
]


@pytest.mark.parametrize(("run", "mass"), CASES, ids=str)
def test_the_mass_that_gives_a_record_away(run: dp.Mechanism, mass: float) -> None:
    answer = dp.account(run)
    found = answer.tpr(fpr=0.0)
    assert mass in found
    assert found.upper <= mass + 1e-3
    assert 1.0 - mass in answer.fnr(fpr=0)
    curve = answer.tradeoff().tpr(fpr=0.0)
    assert (found.lower, found.upper) == (curve.lower, curve.upper)


def test_rates_of_gaussian_noise() -> None:
    """Phi(Phi^-1(x) + 1) at mu = 1; 0 among other rates."""
    normal = NormalDist()
    exact = normal.cdf(normal.inv_cdf(0.1) + 1.0)
    for asked in (
        dp.account(dp.Gaussian(noise_multiplier=1.0)),
        dp.TradeoffCurve.gaussian(mu=1.0),
    ):
        found = asked.tpr(fpr=[0.0, 0.1, 1.0])
        assert found.quantity == "tpr"
        assert found.lower[0] == 0.0
        assert found.lower[1] <= exact + 1e-12
        assert exact - 1e-12 <= found.upper[1] <= found.lower[1] + 1e-3
        assert found.lower[2] >= 1.0 - 1e-12
