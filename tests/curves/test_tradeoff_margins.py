"""Conversions, hockey sticks and lines of trade-off curves: each is rounded to its safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np

from sharpdp.curves.renyi.conversion import theorem4_f
from sharpdp.curves.tradeoff.enclosure import HockeyStick, line_at, sticks_between
from sharpdp.curves.tradeoff.exact import log as log_of_fraction
from tests.reference.digits import DIGITS, mp


def test_forcing_levels_are_rounded_down() -> None:
    rng = np.random.default_rng(9)
    orders, epsilons = 1.0 + 10.0 ** rng.uniform(-1.0, 2.0, 60), rng.uniform(0.1, 5.0, 60)
    deltas = 10.0 ** rng.uniform(-9.0, -3.0, 60)
    found = theorem4_f(orders, epsilons, deltas).tolist()
    with mpmath.workdps(DIGITS):
        rows = zip(orders.tolist(), epsilons.tolist(), deltas.tolist(), found, strict=True)
        for order, epsilon, delta, value in rows:
            a, x, d = mp(order), mpmath.exp(mp(epsilon)), mp(delta)
            inner = (x - a * d) * ((1 - d) / (x - d)) ** a + a * d
            assert mp(value) < mp(epsilon) + mpmath.log(inner) / (a - 1)


def gaussian_stick(ratio: mpmath.mpf) -> mpmath.mpf:
    """H of N(1, 1) against N(0, 1)."""
    a = mpmath.log(ratio) - mpmath.mpf("0.5")
    return mpmath.ncdf(-a) - ratio * mpmath.ncdf(-a - 1)


def test_hockey_sticks_at_doubles_are_enclosed() -> None:
    """The double next to e^epsilon is another ratio, at which H is another number."""
    for epsilon in np.linspace(0.3, 3.0, 40).tolist():
        with mpmath.workdps(DIGITS):
            delta = gaussian_stick(mpmath.exp(mp(epsilon)))
            ends = math.nextafter(float(delta), 0.0), math.nextafter(float(delta), 1.0)
            stick = HockeyStick.at(epsilon, *ends)
            truth = gaussian_stick(mp(stick.ratio))
            assert mp(stick.low) < truth < mp(stick.high)
            back = stick.mirrored()
            assert mp(back.low) < 1 - mp(back.ratio) + mp(back.ratio) * truth < mp(back.high)


class Jump:
    """Everything is told up to a ratio of 3, and nothing from there on."""

    def deltas_towards(self, epsilons: np.ndarray) -> list[tuple[float, float]]:
        with mpmath.workdps(DIGITS):
            before = [mpmath.exp(mp(epsilon)) < 3 for epsilon in epsilons.tolist()]
        return [(float(one), float(one)) for one in before]


def test_hockey_sticks_between_logarithms_are_enclosed() -> None:
    """log 3 is no double: H there lies between those of its neighbors."""
    ((low, high),) = sticks_between(Jump(), np.array([3.0]))  # type: ignore[arg-type]
    assert (low, high) == (0.0, 1.0)


def test_lines_below_curves_are_rounded_down() -> None:
    for epsilon in np.linspace(-3.0, 3.0, 61).tolist():
        if epsilon:
            height, steepness = line_at(epsilon, Fraction(1, 10))
            with mpmath.workdps(DIGITS):
                ratio = mpmath.exp(mp(epsilon))
                if epsilon > 0.0:
                    assert mp(steepness) > ratio
                else:
                    assert mp(height) < ratio * (1 - mp(Fraction(1, 10)))


def test_logarithms_of_fractions_are_enclosed() -> None:
    for value in (Fraction(3), Fraction(2, 7), Fraction(10**20 + 1, 10**20)):
        low, high = log_of_fraction(value)
        with mpmath.workdps(90):
            assert mp(low) < mpmath.log(mp(value)) < mp(high)
            assert mp(high) - mp(low) < mpmath.mpf("1e-45")
