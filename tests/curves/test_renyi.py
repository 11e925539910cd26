"""Renyi curves: what they accept, how they compose, and what they convert to."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import WrongType

ORDERS = [1.5, 2.0, 4.0, 8.0, 32.0, math.inf]
VALUES = [0.01, 0.02, 0.04, 0.07, 0.2, 0.5]


def gaussian(noise: float) -> dp.RenyiCurve:
    return dp.RenyiCurve.zcdp(rho=0.5 / noise**2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"orders": [1.0], "values": [0.1]}, r"orders\[0\] must be greater than 1; got 1\.0"),
        ({"orders": [2, 0.5], "values": [0.1, 0.2]}, r"orders\[1\] must be greater than 1"),
        ({"orders": [math.nan], "values": [0.1]}, r"orders\[0\] must be a number; got nan"),
        ({"orders": [2.0], "values": [math.nan]}, r"values\[0\] must be a number; got nan"),
        ({"orders": [2.0], "values": [-0.1]}, r"values\[0\] must be at least 0; got -0\.1"),
        ({"orders": [2.0, 4.0], "values": [0.3, 0.1]}, "values must not fall as the order grows"),
        ({"orders": [2.0, 4.0], "values": [0.3]}, "equally many entries; got 2 and 1"),
        ({"orders": [], "values": []}, "orders must have at least one entry"),
        ({"orders": [2.0, 2.0], "values": [0.3, 0.3]}, "different from each other; got 2 twice"),
        ({"orders": "2", "values": [0.3]}, "orders must be a list of numbers"),
        ({"orders": 2.0, "values": 0.3}, "orders must be a list of numbers"),
        ({"orders": [2.0], "values": [0.1], "function": np.sqrt}, "without orders and values"),
        ({"function": lambda orders: -orders}, "never fall"),
        ({"function": lambda orders: 1.0 / orders}, "never fall"),
        ({"function": lambda orders: 1.0}, "as many values"),
        ({"function": 3}, "function must map orders to values"),
        ({"orders": [2.0], "values": ["0.1"]}, r"values\[0\] must be"),
    ],
)
def test_bad_curves_are_refused(arguments: dict[str, object], words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        dp.RenyiCurve(**arguments)  # type: ignore[arg-type]


def test_bad_questions_are_refused() -> None:
    curve = dp.RenyiCurve(orders=[2.0], values=[0.1])
    for delta in (-0.1, 1.0, 2.0, math.nan):
        with pytest.raises(dp.InvalidArgument, match=r"delta must be in \[0, 1\)"):
            curve.epsilon(delta=delta)
    with pytest.raises(dp.InvalidArgument, match="epsilon must be"):
        curve.delta(epsilon=-1.0)
    with pytest.raises(dp.InvalidArgument, match="conversion must be one of 'joint', 'optimal'"):
        curve.epsilon(delta=0.1, conversion="best")
    with pytest.raises(dp.InvalidArgument, match="exactly one of delta and epsilon"):
        curve.best_order()
    with pytest.raises(dp.InvalidArgument, match="order must be greater than 1"):
        curve.renyi(order=1.0)
    with pytest.raises(dp.InvalidArgument, match="count must be"):
        curve * 0.5
    with pytest.raises(WrongType, match="multiplied by how often"):
        curve * curve
    with pytest.raises(WrongType, match="must be a RenyiCurve"):
        dp.compare_conversions([2.0], delta=0.1)  # type: ignore[arg-type]


def test_values_between_orders_lie_on_chords() -> None:
    curve = dp.RenyiCurve(orders=ORDERS, values=VALUES)
    # (3 - 1) D(3) <= ((2 - 1) 0.02 + (4 - 1) 0.04) / 2
    assert curve.renyi(order=3.0).upper == pytest.approx(0.035, rel=1e-12)
    # 63 D(64) <= 31 * 0.2 + 32 * 0.5
    assert curve.renyi(order=64.0).upper == pytest.approx(22.2 / 63.0, rel=1e-12)
    assert curve.renyi(order=1.2).upper == 0.01
    assert list(curve.renyi(order=ORDERS).upper) == VALUES
    assert dp.RenyiCurve(orders=[2.0], values=[0.1]).renyi(order=2.5).upper == math.inf


def test_chords_are_above_the_truth() -> None:
    """The curve of randomized response, from a few of its orders."""
    truth = lambda a: np.log(0.75**a * 0.25 ** (1 - a) + 0.25**a * 0.75 ** (1 - a)) / (a - 1)  # noqa: E731
    known = np.array([1.3, 2.0, 5.0, 11.0])
    curve = dp.RenyiCurve(orders=[*known, math.inf], values=[*truth(known), math.log(3.0)])
    places = np.linspace(1.05, 60.0, 400)
    assert np.all(curve.renyi(order=places).upper >= truth(places) * (1.0 - 1e-14))


def test_lists_as_other_libraries_make_them() -> None:
    orders = [1 + x / 10.0 for x in range(1, 100)] + list(range(12, 64))
    values = [0.005 * a for a in orders]
    curve = dp.RenyiCurve(orders=np.array(orders), values=values)
    assert curve.orders == tuple(orders)
    assert curve.values == tuple(values)
    dip = dp.RenyiCurve(orders=[2.0, 3.0], values=[0.1 * (1 + 1e-12), 0.1])
    assert dip.values == (0.1, 0.1)
    assert dp.RenyiCurve(orders=[4, 2], values=[0.2, 0.1]).orders == (2.0, 4.0)


def test_composition_adds_and_repetition_multiplies() -> None:
    a = dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, 0.3])
    b = dp.RenyiCurve(orders=[4.0], values=[0.2])
    both = a + b
    assert isinstance(both, dp.RenyiCurve)
    # (4 - 1) D(4) <= (2/3) 0.1 + (1/3) 7 * 0.3 = 2.3/3
    assert both.renyi(order=4.0).upper == pytest.approx(2.3 / 9.0 + 0.2, rel=1e-12)
    assert (a * 7).renyi(order=8.0).upper == pytest.approx(2.1, rel=1e-12)
    assert (7 * a).renyi(order=8.0).upper >= 2.1
    mixed = gaussian(1.0) + b
    assert isinstance(mixed, dp.RenyiCurve)
    assert mixed.renyi(order=4.0).upper == pytest.approx(2.2, rel=1e-12)
    assert isinstance(a + dp.Gaussian(1.0), dp.Sequence)


@pytest.mark.parametrize(
    ("rounds", "printed"), [(1, 0.177498), (100, 2.165712), (500, 5.377671), (1000, 8.078359)]
)
def test_a_continuous_curve_finds_its_order(rounds: int, printed: float) -> None:
    """Figure 2 of asoodeh2020: Theorem 3 over all orders, sigma = 20, delta = 1e-5."""
    curve = gaussian(20.0) * rounds
    found = float(curve.epsilon(delta=1e-5))
    assert abs(found - printed) <= 1.1e-6
    order = curve.best_order(delta=1e-5)
    for other in (0.9, 1.1):
        near = 1.0 + (order - 1.0) * other
        beside = dp.RenyiCurve(orders=[near], values=[near * rounds / 800.0])
        assert float(beside.epsilon(delta=1e-5)) >= found
    assert float(curve.delta(epsilon=found)) == pytest.approx(1e-5, rel=1e-4)


def test_orders_between_the_given_ones_can_be_better() -> None:
    known = {25.0: 0.0185, 600.0: 0.045}
    curve = dp.RenyiCurve(orders=list(known), values=list(known.values()))
    alone = [
        float(dp.RenyiCurve(orders=[a], values=[v]).epsilon(delta=0.0047, conversion="optimal"))
        for a, v in known.items()
    ]
    order = curve.best_order(delta=0.0047)
    chord = ((600.0 - order) * 24.0 * 0.0185 + (order - 25.0) * 599.0 * 0.045) / 575.0
    there = dp.RenyiCurve(orders=[order], values=[chord / (order - 1.0)])
    found = float(curve.epsilon(delta=0.0047, conversion="optimal"))
    assert found == pytest.approx(
        float(there.epsilon(delta=0.0047, conversion="optimal")), rel=1e-9
    )
    assert 25.0 < order < 600.0
    assert found < 0.95 * min(alone)
    assert float(curve.epsilon(delta=0.0047)) < 0.96 * found


def test_answers_say_which_order_and_which_side() -> None:
    curve = dp.RenyiCurve(orders=[8.0], values=[0.05])
    answer = curve.epsilon(delta=1e-6)
    assert "optimal conversion at order 8" in answer.context
    assert answer.lower == 0.0
    assert curve.epsilon(delta=[1e-6, 1e-5]).upper.shape == (2,)
    assert curve.epsilon(delta=0.0).upper == math.inf
    unbounded = dp.RenyiCurve(orders=[2.0, 4.0], values=[math.inf, math.inf])
    assert unbounded.epsilon(delta=1e-5).upper == math.inf
    pure = dp.RenyiCurve(orders=[math.inf], values=[1.0])
    assert pure.epsilon(delta=0.0).upper == 1.0
    assert 0.0 < gaussian(1.0).delta(epsilon=500.0).upper < 1e-300


def test_a_pure_curve_is_that_of_pure_dp() -> None:
    pure = dp.RenyiCurve(orders=[math.inf], values=[1.5])
    truth = dp.account(dp.PureDP(1.5)).delta(epsilon=0.4)
    assert float(pure.delta(epsilon=0.4)) == pytest.approx(float(truth), rel=1e-10)


def test_conversions_side_by_side() -> None:
    table = dp.compare_conversions(gaussian(20.0), delta=1e-5)
    values = [value for value, _ in table.values()]
    assert list(table) == ["joint", "optimal", "lemma1", "balle", "classical"]
    assert values == sorted(values)
    deltas = dp.compare_conversions(gaussian(20.0), epsilon=0.1)
    assert [value for value, _ in deltas.values()] == sorted(value for value, _ in deltas.values())
