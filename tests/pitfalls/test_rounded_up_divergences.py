"""Renyi divergences of curves are rounded up: compared with exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import sharpdp as dp

RNG = np.random.default_rng(17)


def test_zcdp_is_not_below_rho_times_order() -> None:
    rhos = np.exp(RNG.uniform(np.log(1e-12), np.log(1e12), 60))
    orders = 1.0 + np.exp(RNG.uniform(np.log(1e-6), np.log(1e6), 20))
    for rho in rhos.tolist():
        for curve in (dp.RenyiCurve.zcdp(rho=rho), dp.account(dp.RenyiCurve.zcdp(rho=rho))):
            uppers = np.asarray(curve.renyi(order=orders).upper)
            for order, upper in zip(orders.tolist(), uppers.tolist(), strict=True):
                exact = Fraction(rho) * Fraction(order)
                assert exact <= Fraction(upper) <= exact * (1 + Fraction(1, 2**51))


@pytest.mark.parametrize(("rho", "order"), [(0.5, 4.0), (3.0, 7.0), (2.0**-40, 2.0**30)])
def test_exact_products_stay_exact(rho: float, order: float) -> None:
    assert dp.RenyiCurve.zcdp(rho=rho).renyi(order=order).upper == rho * order


@pytest.mark.parametrize("rho", [5e-324, 1e-310, 1e-300, 1e300])
def test_the_ends_of_the_range_are_rounded_up_too(rho: float) -> None:
    for order in (1.1, 3.7, 1e5, 1e300):
        upper = dp.RenyiCurve.zcdp(rho=rho).renyi(order=order).upper
        assert upper == np.inf or Fraction(float(upper)) >= Fraction(rho) * Fraction(order)


def test_sums_and_chords_of_curves() -> None:
    for _ in range(200):
        low, rise, other = (Fraction(float(x)) for x in np.exp(RNG.uniform(-3.0, 3.0, 3)))
        top = Fraction(float(low + rise))
        one = dp.RenyiCurve(orders=[2.0, 5.0], values=[float(low), float(top)])
        two = dp.RenyiCurve(orders=[2.0, 5.0], values=[float(other), float(other)])
        assert Fraction(float((one + two).renyi(order=5.0).upper)) >= top + other
        assert Fraction(float((one * 7).renyi(order=2.0).upper)) >= 7 * low
        order = Fraction(float(RNG.uniform(2.0, 5.0)))
        share = (order - 2) / 3
        chord = ((1 - share) * low + share * 4 * top) / (order - 1)
        assert Fraction(float(one.renyi(order=float(order)).upper)) >= chord
