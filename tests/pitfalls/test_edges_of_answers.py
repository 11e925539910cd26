"""Answers at their edges: the mass at infinite loss, the largest loss, rates of 0 and deltas of 0.

References are exact fractions of the given doubles, or closed forms in high precision.
"""

from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.numerics.directed import at_least_once, down, up

ONE = Fraction(1)


def steps_around(mass: Fraction, units: int) -> list[float]:
    """The doubles next to a mass, so many on each side."""
    below, above = down(mass), up(mass)
    found = {below, above}
    for _ in range(units):
        below, above = nextafter(below, 0.0), nextafter(above, 1.0)
        found |= {below, above}
    return sorted(found)


def revealed(*parts: tuple[float, int]) -> Fraction:
    """1 - prod (1 - delta)^count of doubles, exactly."""
    kept = ONE
    for delta, count in parts:
        kept *= (1 - Fraction(delta)) ** count
    return 1 - kept


MASSES = [
    (dp.ApproximateDP(epsilon=1.0, delta=1e-5) * 3, revealed((1e-5, 3)), 3.0),
    (dp.ApproximateDP(epsilon=1.0, delta=1e-6), Fraction(1e-6), 1.0),
    (dp.ApproximateDP(epsilon=0.5, delta=1e-250) * 10, revealed((1e-250, 10)), 5.0),
    (dp.ApproximateDP(epsilon=0.0, delta=1e-6), Fraction(1e-6), 0.0),
    (
        dp.FinitePair(p=[0.5, 0.25, 0.25], q=[0.75, 0.25, 0.0]) * 2,
        revealed((0.25, 2)),
        2 * np.log(1.5),
    ),
    (
        dp.Sequence(
            [
                dp.ApproximateDP(epsilon=0.5, delta=1e-7) * 4,
                dp.ApproximateDP(epsilon=0.25, delta=3e-9),
                dp.PureDP(0.125) * 3,
            ]
        ),
        revealed((1e-7, 4), (3e-9, 1)),
        2.625,
    ),
    (
        dp.TradeoffCurve.from_points(epsilons=[0.0, 1.0], deltas=[0.4, 1e-6], attained=True),
        Fraction(1e-6),
        1.0,
    ),
]


@pytest.mark.parametrize(("mechanism", "mass", "largest"), MASSES)
def test_v4_epsilon_beside_the_mass_at_infinity(
    mechanism: dp.Mechanism, mass: Fraction, largest: float
) -> None:
    answer = dp.account(mechanism)
    for delta in steps_around(mass, 3):
        found = answer.epsilon(delta=delta)
        if Fraction(delta) < mass:
            assert found.upper == inf
        else:
            assert found.lower <= largest * (1.0 + 1e-15)


def test_v4_finite_pair_beside_its_mass_at_infinity() -> None:
    pair = dp.FinitePair(p=[0.5 - 1e-7, 0.5, 1e-7], q=[0.5, 0.5, 0.0])
    assert dp.account(pair).epsilon(delta=9.99999999999999e-08).upper == inf


def test_v4_epsilon_at_the_mass_itself_is_finite() -> None:
    found = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-6)).epsilon(delta=1e-6)
    assert found.lower <= 1.0 <= found.upper < 1.0 + 1e-9
    sequence = dp.Sequence([dp.ApproximateDP(epsilon=1.0, delta=1e-6), dp.PureDP(0.5) * 7])
    found = dp.account(sequence).epsilon(delta=1e-6)
    assert found.lower <= 4.5 <= found.upper < 4.5 + 1e-9


@pytest.mark.parametrize(
    ("delta", "count"),
    [(6.89050388475668e-259, 2), (1.7363128634611577e-116, 7), (1e-300, 3), (1e-5, 4)],
)
def test_v5_delta_at_the_largest_loss(delta: float, count: int) -> None:
    mechanism = dp.ApproximateDP(epsilon=0.5, delta=delta) * count
    truth = revealed((delta, count))
    for epsilon in (0.5 * count, 0.5 * count + 1.0):
        found = dp.account(mechanism).delta(epsilon=epsilon)
        assert Fraction(float(found.lower)) <= truth <= Fraction(float(found.upper))


def test_v4_at_least_once_is_an_enclosure() -> None:
    rng = np.random.default_rng(15)
    for _ in range(300):
        chances = 10.0 ** rng.uniform(-20, -0.01, size=int(rng.integers(1, 4)))
        counts = rng.integers(1, 30, size=chances.size)
        parts = list(zip(chances.tolist(), counts.tolist(), strict=True))
        low, high = at_least_once([((chance, chance), count) for chance, count in parts])
        assert Fraction(low) <= revealed(*parts) <= Fraction(high)
        assert high <= low * (1.0 + 1e-14)
