"""The optimal conversion against 300-bit balls, against pairs, and against the printed tables."""

from __future__ import annotations

import numpy as np
import pytest

from sharpdp.curves.renyi.conversion import (
    CONVERSIONS,
    delta_from,
    epsilon_from,
    forcing_level,
    least_divergence,
    theorem4_f,
    theorem4_g,
)
from tests.reference import conversion as reference

# order, level, delta; classical, Balle, Lemma 1, optimal (spec of issue 5, section 2)
TABLE = [
    (1.5, 0.1, 1e-5, 23.125851, 21.216308, 16.274250, 15.175930),
    (2.0, 0.01, 1e-3, 6.917755, 5.531461, 1.795931, 1.256055),
    (2.0, 0.1, 1e-5, 11.612925, 10.226631, 8.567800, 7.874843),
    (8.0, 0.05, 1e-6, 2.023644, 1.593050, 1.552338, 1.418822),
    (8.0, 1.0, 1e-6, 2.973644, 2.543050, 2.543050, 2.542920),
    (16.0, 0.01, 1e-5, 0.777528, 0.528151, 0.461343, 0.397169),
    (32.0, 0.001, 1e-5, 0.372385, 0.228838, 0.148357, 0.118008),
    (128.0, 0.05, 1e-5, 0.140653, 0.094605, 0.094605, 0.094591),
    (512.0, 0.01, 1e-5, 0.032530, 0.018367, 0.018367, 0.018356),
    (2.0, 0.3, 0.2, 1.909438, 0.523144, 0.523144, 0.212951),
    (20.0, 0.05, 0.06, 0.198074, 0.0, 0.0, 0.0),
]
LEVELS = [
    (2.0, 0.5, 0.01, "0.0260076995"),
    (2.0, 1.0, 1e-5, "6.87293112e-05"),
    (5.0, 0.3, 1e-3, "0.00639276409"),
    (10.0, 1.0, 1e-5, "0.125382749"),
    (1.2, 2.0, 0.1, "0.48866189"),
    (4.0, 1.0, 0.3, "1.35667494"),
]


def settings(seed: int, count: int) -> np.ndarray:
    """Random orders, epsilons and deltas with order * delta < 1."""
    rng = np.random.default_rng(seed)
    order = 1.0 + np.exp(rng.uniform(np.log(0.01), np.log(3000.0), count))
    epsilon = np.where(rng.random(count) < 0.15, 0.0, np.exp(rng.uniform(-6.0, 3.0, count)))
    delta = np.exp(rng.uniform(np.log(1e-14), np.log(0.99), count)) / order
    return np.stack([order, epsilon, delta], axis=1)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: str(row[:3]))
def test_the_table_to_the_printed_digits(row: tuple[float, ...]) -> None:
    order, level, delta, *printed = row
    names = ("classical", "balle", "lemma1", "optimal")
    for name, value in zip(names, printed, strict=True):
        assert abs(float(epsilon_from(order, level, delta, name)) - value) <= 0.51e-6


@pytest.mark.parametrize(("order", "epsilon", "delta", "printed"), LEVELS)
def test_the_levels_to_the_printed_digits(
    order: float, epsilon: float, delta: float, printed: str
) -> None:
    digits = len(printed.split("e")[0].lstrip("0.").replace(".", ""))
    assert (
        f"{float(forcing_level(order, epsilon, delta)):.{digits}g}"
        == f"{float(printed):.{digits}g}"
    )


def test_the_level_is_a_lower_bound_and_close() -> None:
    for order, epsilon, delta in settings(1, 60):
        truth = reference.forcing_level(order, epsilon, delta)
        found = float(forcing_level(order, epsilon, delta))
        assert found <= truth * (1.0 + 2.0**-52)
        assert found >= truth * (1.0 - 1e-11), (order, epsilon, delta)
        assert truth - found <= 1e-12
        assert float(theorem4_f(order, epsilon, delta)) <= truth
        assert float(theorem4_g(order, epsilon, delta)) <= truth


def test_epsilon_is_the_smallest_one_within_a_billionth_of_a_thousandth() -> None:
    rng = np.random.default_rng(2)
    for order, _, delta in settings(3, 40):
        level = float(np.exp(rng.uniform(-12.0, 2.0)))
        epsilon = float(epsilon_from(order, level, delta))
        assert reference.forcing_level(order, epsilon, delta) >= level * (1.0 - 2.0**-52)
        before = epsilon - 1e-12 * max(1.0, epsilon)
        if before >= 0.0:
            assert reference.forcing_level(order, before, delta) < level


def test_delta_is_the_smallest_one() -> None:
    rng = np.random.default_rng(4)
    for order, epsilon, _ in settings(5, 40):
        level = float(np.exp(rng.uniform(-12.0, 1.0)))
        delta = float(delta_from(order, level, epsilon))
        if order * delta >= 1.0 or delta < 1e-60:  # what the reference resolves
            continue
        assert reference.forcing_level(order, epsilon, delta) >= level * (1.0 - 2.0**-52)
        assert reference.forcing_level(order, epsilon, delta * (1.0 - 1e-11)) < level


def test_no_pair_of_coins_escapes() -> None:
    """Bernoulli pairs are all there is: the joint range of two divergences is spanned by them."""
    rng = np.random.default_rng(6)
    for _ in range(120):
        order = 1.0 + float(np.exp(rng.uniform(-3.0, 5.0)))
        p, q = (float(x) for x in rng.beta(0.5, 0.5, 2))
        level = reference.bernoulli_divergence(order, p, q) * (1.0 + 1e-15)
        epsilon = float(rng.exponential(0.7) * abs(np.log(p / q)))
        stick = max(p - np.exp(epsilon) * q, (1.0 - p) - np.exp(epsilon) * (1.0 - q))
        for name in CONVERSIONS:
            delta = float(delta_from(order, level, epsilon, name))
            assert stick <= delta * (1.0 + 1e-13) + 1e-15
            if 0.0 < stick < 1.0:
                assert epsilon <= float(epsilon_from(order, level, stick, name)) + 1e-12


def test_the_extremal_pair_attains_it() -> None:
    for order, epsilon, delta in settings(7, 30):
        one = least_divergence(*(np.array([x]) for x in (order, epsilon, delta)))
        p = float(one.success[0])
        q = (p - delta) * np.exp(-epsilon)
        level = reference.bernoulli_divergence(order, p, q)
        assert level * (1.0 - 1e-6) - 1e-9 <= float(one.lower[0]) <= level * (1.0 + 1e-6) + 1e-9
        assert abs(p - np.exp(epsilon) * q - delta) <= 1e-14


def test_each_conversion_is_at_most_the_next_one() -> None:
    rng = np.random.default_rng(8)
    order = 1.0 + np.exp(rng.uniform(-3.0, 8.0, 500))
    level, delta = np.exp(rng.uniform(-12.0, 2.0, 500)), np.exp(rng.uniform(-30.0, -0.1, 500))
    best = epsilon_from(order, level, delta)
    for name in ("lemma1", "balle", "classical"):
        following = epsilon_from(order, level, delta, name)
        assert np.all(best <= following * (1.0 + 1e-12) + 1e-15)
        best = following
    epsilon = np.exp(rng.uniform(-6.0, 2.0, 500))
    best = delta_from(order, level, epsilon)
    for name in ("lemma1", "balle", "classical"):
        following = delta_from(order, level, epsilon, name)
        assert np.all(best <= following * (1.0 + 1e-12))
        best = following


def test_the_level_rises_with_epsilon_delta_and_order() -> None:
    epsilon, delta = np.linspace(0.0, 5.0, 200), np.geomspace(1e-12, 0.9, 200)
    for order in (1.1, 2.0, 30.0):
        assert np.all(np.diff(forcing_level(order, epsilon, 1e-4)) > 0.0)
        assert np.all(np.diff(forcing_level(order, 0.3, delta)) > 0.0)
    orders = np.geomspace(1.01, 1e4, 300)
    assert np.all(np.diff(forcing_level(orders, 0.3, 1e-3)) >= -1e-14)


def test_the_two_branches_meet_at_one_over_the_order() -> None:
    for order in (1.5, 3.0, 7.0, 49.0):
        below, at, above = forcing_level(order, 0.4, (1.0 + np.array([-1e-9, 0, 1e-9])) / order)
        assert below <= at <= above <= below + 1e-6
        assert at == pytest.approx(0.4 - np.log1p(-1.0 / order), rel=1e-9)


def test_the_limits() -> None:
    assert float(forcing_level(3.0, 1.0, 0.0)) == 0.0
    assert float(epsilon_from(3.0, 1.0, 0.0)) == np.inf
    assert float(epsilon_from(3.0, 0.0, 1e-9)) == 0.0
    assert float(delta_from(3.0, 0.0, 0.0)) == 0.0
    assert float(epsilon_from(3.0, np.inf, 0.5)) == np.inf
    assert float(delta_from(3.0, np.inf, 0.5)) == 1.0
    assert float(epsilon_from(np.inf, 2.0, 0.0)) == 2.0
    assert float(delta_from(np.inf, 1.0, 1.0)) == 0.0
    # randomized response: (e^2 - e) / (1 + e^2)
    truth = (np.exp(2.0) - np.e) / (1.0 + np.exp(2.0))
    assert float(delta_from(np.inf, 2.0, 1.0)) == pytest.approx(truth, rel=1e-13)
    assert float(epsilon_from(np.inf, 2.0, truth)) == pytest.approx(1.0, rel=1e-13)
    assert float(forcing_level(np.inf, 1.0, truth)) == pytest.approx(2.0, rel=1e-13)
    assert float(epsilon_from(2.0, 1e-3, 1e-290)) > 600.0


def test_there_and_back_again() -> None:
    for order, epsilon, delta in settings(9, 20):
        level = float(forcing_level(order, epsilon, delta))
        assert float(epsilon_from(order, level, delta)) == pytest.approx(
            epsilon, rel=1e-6, abs=1e-6
        )
        assert float(delta_from(order, level, epsilon)) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize(
    ("order", "epsilon", "delta"),
    [
        # order * delta within 1e-8 of one: 1 - order * delta must not cancel
        (1.000002591402242, 4.486253429870187e-10, 0.9999974086043916),
        # a level of 1e-25: its logarithm carries its own rounding
        (1.0000994574344033, 1.9510550755830336e-08, 2.5054872341752426e-18),
    ],
)
def test_extreme_levels_are_not_above_the_truth(order: float, epsilon: float, delta: float) -> None:
    truth = reference.forcing_level(order, epsilon, delta)
    found = float(forcing_level(order, epsilon, delta))
    assert truth * (1.0 - 1e-11) <= found <= truth
