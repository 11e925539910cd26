"""Trade-off curves at the ends of their range: delta 0, huge orders, and numbers that are none."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.curves.mixtures.inequalities import coupled, hidden, released
from sharpdp.curves.tradeoff import Polyline

CURVE = dp.TradeoffCurve.from_knots(fpr=[0, 0.25, 1], fnr=[1, 0.25, 0])
LINE = CURVE.polyline


@pytest.mark.parametrize(
    ("run", "epsilon"),
    [
        (dp.PureDP(epsilon=1.0), 1.0),
        (dp.PureDP(epsilon=900.0), 900.0),
        (dp.PureDP(epsilon=0.0), 0.0),
        (dp.Laplace(scale=2.0), 0.5),
        (dp.Laplace(scale=1.0) * 20, 20.0),
        (dp.RandomizedResponse(local_epsilon=1.0) * 10, 10.0),
        (dp.ApproximateDP(epsilon=1.0, delta=1e-6), math.inf),
        (dp.FinitePair(p=[0.5, 0.5, 0.0], q=[0.25, 0.5, 0.25]), math.inf),
        (dp.FinitePair(p=[0.2, 0.8], q=[0.6, 0.4]), math.log(3.0)),
    ],
    ids=lambda one: one.describe() if isinstance(one, dp.Mechanism) else None,
)
def test_epsilon_at_delta_zero_is_the_largest_loss(run: dp.Mechanism, epsilon: float) -> None:
    found = dp.TradeoffCurve.of(run).epsilon(delta=0)
    assert found.lower <= epsilon <= found.upper
    if math.isfinite(epsilon):
        assert found.upper - found.lower <= 1e-9 * max(epsilon, 1.0)
    else:
        assert found.lower == math.inf


def test_noise_without_a_largest_loss_has_no_epsilon_at_delta_zero() -> None:
    for curve in (
        dp.TradeoffCurve.of(dp.Gaussian(noise_multiplier=1.0)),
        dp.TradeoffCurve.gaussian(mu=1.0),
    ):
        found = curve.epsilon(delta=0)
        assert found.upper == math.inf
        assert found.lower > 37.0  # that at delta = 1e-300


@pytest.mark.parametrize("order", [1e12, 1e15, 1e50, 1e200, 1e300, 1e308])
def test_huge_orders(order: float) -> None:
    gaussian = dp.Gaussian(noise_multiplier=1.0) * 3  # 3 order / 2
    pure = dp.RandomizedResponse(local_epsilon=1.0) * 10  # up to 10, less log(1 + e^-1) 10 / order
    sampled = dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=10), noise_multiplier=1.0)
    for ask in (lambda run: dp.account(run), dp.TradeoffCurve.of):
        found = ask(gaussian).renyi(order=order)
        assert found.lower <= 1.5 * order <= found.upper
        assert found.upper <= 1.5 * order * (1.0 + 1e-9)
        found = ask(pure).renyi(order=order)
        assert 10.0 - 1e-9 <= found.lower <= 10.0 <= found.upper + 4.0 / order
        found = ask(sampled).renyi(order=order)
        assert found.lower <= found.upper
    found = CURVE.renyi(order=order)
    assert found.lower <= math.log(3.0)
    assert found.upper >= math.log(3.0) - 2.0 / order - 1e-15


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: Polyline.from_lines(3), "lines must be a list of pairs"),
        (lambda: Polyline.from_lines([3]), r"lines\[0\] must be \(height, steepness\)"),
        (lambda: Polyline.from_lines([(1,)]), r"lines\[0\] must be \(height, steepness\)"),
        (lambda: Polyline.from_lines([(1, 2, 3)]), r"lines\[0\] must be \(height, steepness\)"),
        (lambda: Polyline.from_lines(["ab"]), r"lines\[0\] must be \(height, steepness\)"),
        (lambda: Polyline.from_lines([(10**400, 1)]), r"lines\[0\] must stay at or below"),
        (lambda: Polyline.from_points([(0.5,)]), r"points\[0\] must be two rates"),
        (lambda: Polyline.from_profile([(10**400, 2)]), r"points\[0\] must be a hockey stick"),
        (lambda: Polyline.from_profile([(1,)]), r"points\[0\] must be \(ratio, value\)"),
        (lambda: Polyline((0, 10**400, 1), (1, 0, 0)), "must be"),
        (lambda: Polyline(np.array(3.0), (1, 0)), "fpr must be a list of numbers"),
        (lambda: Polyline.from_pmfs([10**400, 1], [1, 0]), "null must be probabilities"),
        (lambda: Polyline.from_segments(None), "segments must be a list of pairs"),
        (lambda: Polyline.from_segments([(1, 1)], jump="x"), "jump must be a number"),
        (lambda: LINE.at(Decimal("1e999999999")), "fpr must be a finite number of moderate size"),
        (lambda: LINE.at(Decimal("-1e-999999999")), "fpr must be a finite number of moderate size"),
        (lambda: LINE.at(Decimal("sNaN")), "fpr must be a finite number of moderate size"),
        (lambda: LINE.maximum(None), "other must be a Polyline"),
        (lambda: LINE.distance(CURVE), "other must be a Polyline"),
        (lambda: CURVE.divergence(abs, at_zero=math.nan, at_infinity=0.0), "at_zero must be"),
        (lambda: CURVE.divergence(abs, at_zero="x", at_infinity=0.0), "at_zero must be"),
        (lambda: CURVE.divergence(abs, at_zero=0.0, at_infinity=[1]), "at_infinity must be"),
        (lambda: CURVE.divergence(abs, at_zero=10**400, at_infinity=0.0), "at_zero must be"),
        (lambda: CURVE.divergence(lambda s: 10**400, at_zero=0.0, at_infinity=0.0), "kind must be"),
        (lambda: dp.TradeoffCurve.from_points(epsilons=[10**400], deltas=[0]), r"epsilons\[0\]"),
        (lambda: dp.TradeoffCurve.from_points(epsilons=[1], deltas=[10**400]), r"deltas\[0\]"),
        (
            lambda: dp.TradeoffCurve.from_points(epsilons=[1], deltas=[0], attained=np.zeros(2)),
            "attained must be True or False",
        ),
        (lambda: released([3], [1]), r"curves\[0\] must be a Polyline"),
        (lambda: released([], []), "curves must be a list of at least one"),
        (lambda: coupled([[LINE]], [1], [1], [[1, 0]]), "coupling must have rows of 1 entries"),
        (lambda: hidden([3], [1]), r"laws\[0\] must be a list"),
        (lambda: hidden([], []), "laws must be a list of at least one"),
        (lambda: hidden([((1,), (1,), (1,))], [1]), r"laws\[0\] must be two laws"),
    ],
)
def test_numbers_and_lists_that_are_none(ask: Any, words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        ask()


def test_a_keyword_that_is_none_is_pythons_own_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
        dp.TradeoffCurve.of(dp.PureDP(epsilon=1.0), foo=1)  # type: ignore[call-arg]


def test_fractions_beyond_doubles_stay_exact() -> None:
    steep = Polyline.from_segments(
        [(Fraction(1, 10**400), Fraction(1, 2)), (1 - Fraction(1, 10**400), Fraction(1, 2))]
    )
    assert steep.symmetrized() <= steep
    assert steep.hockey_stick(1) == Fraction(1, 2) - Fraction(1, 10**400)
