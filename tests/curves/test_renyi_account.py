"""Renyi curves in `account`: alone, beside other mechanisms, and back to lists."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sharpdp as dp


def poisson(rate: float, noise: float, steps: int) -> dp.DPSGD:
    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise)


def test_alone_it_is_its_own_conversion() -> None:
    curve = dp.RenyiCurve(orders=[4.0, 8.0, 16.0], values=[0.03, 0.05, 0.3])
    answer = dp.account(curve)
    epsilon = curve.epsilon(delta=1e-6).upper
    assert epsilon <= answer.epsilon(delta=1e-6).upper <= epsilon * (1.0 + 1e-12)
    assert answer.delta(epsilon=1.0).upper == pytest.approx(
        curve.delta(epsilon=1.0).upper, rel=1e-12
    )
    assert answer.renyi(order=8.0).upper == 0.05
    assert answer.renyi(order=17.0).upper == math.inf
    assert answer.epsilon(delta=1e-6).lower <= 0.0
    assert [bound.name for bound in answer.bounds] == ["renyi_curve_upper"]
    assert not answer.lower_derivations


def test_divergences_of_other_parts_are_added() -> None:
    """Gaussian noise beside its own curve: order / 2 (1/400 + 1/100)."""
    both = dp.account(dp.RenyiCurve.zcdp(rho=1.0 / 800.0) * 3 + dp.Gaussian(10.0))
    whole = dp.RenyiCurve.zcdp(rho=3.0 / 800.0 + 1.0 / 200.0)
    truth = dp.account(dp.Gaussian(1.0 / math.sqrt(0.0175)))
    for delta in (1e-3, 1e-6, 1e-10, 1e-150):
        found, wanted = both.epsilon(delta=delta).upper, whole.epsilon(delta=delta).upper
        assert truth.epsilon(delta=delta).lower <= found <= wanted * (1.0 + 1e-3)
    assert both.renyi(order=6.0).upper == pytest.approx(6.0 * 0.00875, rel=1e-9)
    for epsilon in (0.0, 0.1, 0.5):
        assert both.delta(epsilon=epsilon).upper >= truth.delta(epsilon=epsilon).lower
    for fpr in (1e-3, 0.05, 0.4, 0.9):
        assert 0.0 <= both.fnr(fpr=fpr).lower <= truth.fnr(fpr=fpr).upper
    assert both.mu(smallest_fpr=1e-3).upper >= math.sqrt(0.0175) * (1.0 - 1e-9)
    assert both.advantage().upper >= truth.advantage().lower


@pytest.mark.parametrize("other", [poisson(0.02, 1.0, 50), dp.PureDP(0.3)])
def test_what_is_exchanged_for_its_curve_is_never_below_the_truth(other: dp.Mechanism) -> None:
    pair = dp.FinitePair(p=[0.5, 0.3, 0.2], q=[0.3, 0.3, 0.4])
    curve = dp.account(pair).renyi_curve(orders=[1.5, 2, 3, 5, 9, 17, 33, 65, 129])
    known = dp.account(curve + other)
    truth = dp.account(pair + other)
    for delta in (0.1, 1e-3, 1e-6):
        upper = known.epsilon(delta=delta).upper
        assert truth.epsilon(delta=delta).lower <= upper <= truth.epsilon(delta=delta).upper + 1.5
    assert known.delta(epsilon=0.3).upper >= truth.delta(epsilon=0.3).lower
    for fpr in (0.01, 0.3):
        assert known.fnr(fpr=fpr).lower <= truth.fnr(fpr=fpr).upper


def test_an_answer_gives_its_curve() -> None:
    run = poisson(0.01, 1.0, 1000)
    answer = dp.account(run)
    curve = answer.renyi_curve(orders=[2, 4, 8, 16])
    assert curve.orders == (2.0, 4.0, 8.0, 16.0)
    brackets = answer.renyi(order=curve.orders)
    assert np.all(np.array(curve.values) >= brackets.lower)
    assert np.all(np.array(curve.values) <= brackets.upper)
    assert answer.epsilon(delta=1e-5).lower <= curve.epsilon(delta=1e-5).upper
    lists = dp.account(dp.Gaussian(2.0)).renyi_curve()
    assert len(lists.orders) == 151
    assert lists.values[-1] == pytest.approx(63.0 / 8.0)


def test_a_revealing_part_leaves_no_divergence() -> None:
    answer = dp.account(dp.RenyiCurve.zcdp(rho=0.1) + dp.ApproximateDP(epsilon=0.1, delta=1e-6))
    assert answer.renyi(order=2.0).upper == math.inf
    assert answer.epsilon(delta=1e-7).upper == math.inf
    assert answer.delta(epsilon=1e3).upper >= 1e-6
    assert answer.epsilon(delta=0.0).upper == math.inf


def test_reports_comparisons_and_calibration_take_it() -> None:
    curve = dp.RenyiCurve.zcdp(rho=0.01)
    words = dp.account(curve).report()
    named = 'Renyi divergences (at all orders, named by its author: "0.01-zCDP")'
    assert f"mechanism known by its {named}" in " ".join(words.split())
    assert "No lower bound is known" in words
    assert [row.name for row in dp.compare(curve, delta=1e-5).rows] == ["renyi_curve_upper"]
    rounds = dp.calibrate(lambda t: dp.RenyiCurve.zcdp(rho=0.01 * t), epsilon=2.0, delta=1e-5)
    assert float(dp.RenyiCurve.zcdp(rho=0.01 * rounds).epsilon(delta=1e-5)) <= 2.0
    assert float(dp.RenyiCurve.zcdp(rho=0.0101 * rounds).epsilon(delta=1e-5)) > 2.0
