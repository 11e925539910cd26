"""Mixtures as mechanisms: their laws, their answers, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from math import inf, log, nan

import numpy as np
import pytest
from flint import arb

import sharpdp as dp
from tests.reference import finite, gaussian

COIN = dp.FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
BACK = dp.FinitePair(p=[0.25, 0.75], q=[0.75, 0.25])
STILL = dp.FinitePair(p=[0.5, 0.5], q=[0.5, 0.5])
SURE = dp.FinitePair(p=[1.0, 0.0], q=[0.5, 0.5])
F = Fraction


def encloses(bracket: dp.Bracket, truth: Fraction | float) -> bool:
    return Fraction(bracket.lower) <= truth <= Fraction(bracket.upper)


def worst(pairs: list[tuple[list[Fraction], list[Fraction]]], x: Fraction) -> Fraction:
    return max(finite.delta(pairs, x), finite.delta(finite.reverse(pairs), x))


def test_a_hidden_index_adds_the_laws() -> None:
    mixed = dp.Mixture(components=[COIN, SURE], weights=[0.25, 0.75])
    assert mixed.laws() == ((F(15, 16), F(1, 16)), (F(7, 16), F(9, 16)))
    assert mixed.index == "hidden"


def test_a_released_index_keeps_them_apart() -> None:
    mixed = dp.Mixture(components=[COIN, SURE], weights=[0.25, 0.75], index="released")
    assert mixed.laws() == (
        (F(3, 16), F(1, 16), F(3, 4), F(0)),
        (F(1, 16), F(3, 16), F(3, 8), F(3, 8)),
    )


def test_other_weights_are_those_of_the_data_set_without_the_record() -> None:
    mixed = dp.Mixture(components=[COIN, STILL], weights=[0.5, 0.5], other_weights=[0.25, 0.75])
    assert mixed.laws() == ((F(5, 8), F(3, 8)), (F(7, 16), F(9, 16)))
    same = dp.Mixture(components=[COIN, STILL], weights=[0.5, 0.5], other_weights=[0.5, 0.5])
    assert same == dp.Mixture(components=[COIN, STILL], weights=[0.5, 0.5])


def test_mixtures_of_mixtures_are_mixtures() -> None:
    inner = dp.Mixture(components=[COIN, BACK], weights=[0.75, 0.25])
    outer = dp.Mixture(components=[inner, STILL], weights=[0.5, 0.5])
    flat = dp.Mixture(components=[COIN, BACK, STILL], weights=[0.375, 0.125, 0.5])
    assert outer.laws() == flat.laws()
    told = dp.Mixture(
        components=[inner, dp.FinitePair(p=[1.0], q=[1.0])], weights=[0.5, 0.5], index="released"
    )
    assert len(told.laws()[0]) == 3


def test_exact_sums_are_one_and_fractions_stay_short() -> None:
    """Ten masses of 0.1 sum to more than one: the double 0.1 is above a tenth."""
    tenths = dp.FinitePair(p=[0.1] * 10, q=[0.1] * 10)
    mixed = dp.Mixture(components=[tenths, tenths], weights=[0.3, 0.7])
    for law in mixed.laws():
        assert sum(law) == 1
        assert max(abs(mass - F(1, 10)) for mass in law) < F(1, 10**15)
        assert max(mass.denominator for mass in law) <= 2**120


@pytest.mark.parametrize("index", ["hidden", "released"])
@pytest.mark.parametrize("rounds", [1, 3])
def test_answers_enclose_the_truth(index: str, rounds: int) -> None:
    """Brute force over all joint outcomes, in fractions."""
    run = dp.Mixture(
        components=[COIN, SURE, STILL],
        weights=[0.5, 0.125, 0.375],
        other_weights=[0.25, 0.25, 0.5],
        index=index,
    )
    laws = [run.laws()] * rounds
    answer = dp.account(run * rounds)
    for epsilon in (0.0, 0.3, 1.0):
        x = Fraction(np.exp(epsilon))
        slack = 1 + F(1, 10**12)
        bracket = answer.delta(epsilon=epsilon)
        assert Fraction(bracket.lower) <= worst(laws, x) * slack
        assert worst(laws, x) <= Fraction(bracket.upper) * slack
    fpr = F(1, 16)
    both = min(finite.tradeoff(laws, fpr), finite.tradeoff(finite.reverse(laws), fpr))
    assert encloses(answer.fnr(fpr=float(fpr)), both)


def test_hiding_the_index_never_hurts_and_can_make_things_perfect() -> None:
    told = dp.Mixture(components=[COIN, BACK], weights=[0.5, 0.5], index="released")
    kept = dp.Mixture(components=[COIN, BACK], weights=[0.5, 0.5])
    assert dp.account(kept).advantage().upper == 0.0
    assert encloses(dp.account(told).advantage(), F(1, 2))


def test_probabilities_far_below_the_smallest_double_keep_their_ratio() -> None:
    rare = dp.FinitePair(p=[1e-300, 1.0], q=[2e-300, 1.0])
    run = dp.Mixture(components=[rare, rare], weights=[1e-20, 1.0], index="released")
    bracket = dp.account(run).renyi(order=2.0)
    assert bracket.upper < 1e-200
    assert dp.account(run).epsilon(delta=1e-9).upper == 0.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"weights": [0.5, 0.6]},
            "weights must be probabilities with sum 1; got masses with sum 1.1",
        ),
        ({"weights": [1.5, -0.5]}, r"weights\[1\] must be a finite number, at least 0; got -0.5"),
        ({"weights": [nan, 1.0]}, r"weights\[0\] must be .*not a number"),
        ({"weights": [inf, 1.0]}, r"weights\[0\] must be a finite number"),
        ({"weights": [1.0]}, "weights must have one entry per component; got 1 for 2 components"),
        ({"weights": 0.5}, "weights must be a list of at least one probability"),
        ({"weights": ["0.5", 0.5]}, "Pass the number without quotes"),
        ({"weights": []}, "weights must be a list of at least one probability; got an empty one"),
        ({"other_weights": [0.2, 0.2]}, "other_weights must be probabilities with sum 1"),
        ({"other_weights": [1.0, 0.0, 0.0]}, "other_weights must have one entry per component"),
        ({"index": "secret"}, "index must be 'hidden' or 'released'; got 'secret'"),
        ({"index": None}, "index must be"),
        ({"components": []}, "components must be at least one mechanism; got none"),
        ({"components": COIN}, "components must be a list of mechanisms"),
        ({"components": [COIN, 0.5]}, r"components\[1\] must be a mechanism; got 0.5"),
        (
            {"components": [COIN, dp.FinitePair(p=[1.0], q=[1.0])]},
            "components must have the same outcomes if the index is hidden; got pmfs on 2, 1 points",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, object], message: str) -> None:
    good: dict[str, object] = {"components": [COIN, STILL], "weights": [0.5, 0.5]}
    with pytest.raises(dp.InvalidArgument, match=message):
        dp.Mixture(**{**good, **fields})


def test_components_must_share_their_neighbors() -> None:
    start = dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=1.0, claim="instance")
    response = dp.RandomizedResponse(local_epsilon=log(3))
    with pytest.raises(dp.Unsupported, match="share a notion of neighboring"):
        dp.Mixture(components=[start, response], weights=[0.5, 0.5], index="released")


def test_other_weights_need_laws_that_are_known_point_by_point() -> None:
    parts = [dp.Gaussian(1.0), dp.Laplace(1.0)]
    with pytest.raises(dp.Unsupported, match="other_weights are supported if all components"):
        dp.Mixture(components=parts, weights=[0.5, 0.5], other_weights=[0.2, 0.8])
    with pytest.raises(dp.Unsupported, match="point by point"):
        dp.Mixture(components=parts, weights=[0.5, 0.5]).laws()


def test_descriptions_stay_short() -> None:
    many = dp.Mixture(components=[COIN] * 9, weights=[1 / 9] * 9, other_weights=[1.0] + [0.0] * 8)
    assert many.describe().endswith("5 more")
    assert "other weights" in many.describe()
    assert many.label == "hidden mixture"


def test_a_released_index_averages_the_profiles_of_any_components() -> None:
    """delta = 1/4 delta_Gaussian + 1/2 delta_Laplace + 1/4 delta_coin, each in closed form."""
    run = dp.Mixture(
        components=[dp.Gaussian(1.0), dp.Laplace(2.0), COIN],
        weights=[0.25, 0.5, 0.25],
        index="released",
    )
    answer = dp.account(run)
    for epsilon in (0.125, 0.25, 1.0):
        coin = max(arb(0.75) - arb(epsilon).exp() * arb(0.25), arb(0))
        laplace = max(1 - ((arb(epsilon) - arb(0.5)) / 2).exp(), arb(0))
        truth = (gaussian.delta_of_mu(arb(1), arb(epsilon)) + 2 * laplace + coin) / 4
        bracket = answer.delta(epsilon=epsilon)
        assert arb(bracket.lower) <= truth <= arb(bracket.upper)
        assert bracket.upper - bracket.lower < 1e-6


def test_a_hidden_index_of_other_components_has_an_upper_side_only() -> None:
    parts = [dp.Gaussian(1.0), dp.Gaussian(2.0)]
    told = dp.account(dp.Mixture(components=parts, weights=[0.5, 0.5], index="released"))
    kept = dp.account(dp.Mixture(components=parts, weights=[0.5, 0.5]))
    assert kept.lower_derivations == ()
    assert kept.delta(epsilon=0.5).upper >= told.delta(epsilon=0.5).lower
    assert [one.name for one in kept.bounds] == ["released_index_upper", "gaussian_tight"]
    composed = dp.account(dp.Mixture(components=parts, weights=[0.5, 0.5]) * 10 + dp.Laplace(1.0))
    assert composed.epsilon(delta=1e-5).upper > kept.epsilon(delta=1e-5).upper


@pytest.mark.parametrize("index", ["hidden", "released"])
def test_equal_components_are_one(index: str) -> None:
    parts = [dp.Gaussian(1.0), dp.Gaussian(1.0), dp.Laplace(1.0)]
    both = dp.Mixture(components=parts, weights=[0.3, 0.7, 0.0], index=index)
    truth = gaussian.delta_of_mu(arb(1), arb(1))
    bracket = dp.account(both).delta(epsilon=1.0)
    assert arb(bracket.lower) <= truth <= arb(bracket.upper)
    assert bracket.upper - bracket.lower < 1e-9


@pytest.mark.parametrize(
    "component",
    [
        dp.Laplace(1.0) * 3,
        dp.Gaussian(1.0) + dp.Laplace(1.0),
        dp.RenyiCurve.zcdp(rho=0.1),
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=10), noise_multiplier=1.0),
    ],
)
def test_a_component_must_have_one_pair(component: dp.Mechanism) -> None:
    run = dp.Mixture(components=[component, component], weights=[0.5, 0.5])
    with pytest.raises(dp.Unsupported, match="components must each be known by one pair"):
        dp.account(run)


def test_repeated_noise_is_one_pair() -> None:
    """Four rounds of noise multiplier 2 are one of noise multiplier 1; two coins are three outcomes."""
    run = dp.Mixture(
        components=[dp.Gaussian(2.0) * 4, dp.RandomizedResponse(local_epsilon=log(3)) * 2],
        weights=[0.5, 0.5],
        index="released",
    )
    coins = [(F(9, 16), F(1, 16)), (F(6, 16), F(6, 16)), (F(1, 16), F(9, 16))]
    answer = dp.account(run)
    for epsilon in (0.25, 1.0):
        response = sum((max(p - arb(epsilon).exp() * q, arb(0)) for p, q in balls(coins)), arb(0))
        truth = (gaussian.delta_of_mu(arb(1), arb(epsilon)) + response) / 2
        bracket = answer.delta(epsilon=epsilon)
        assert arb(bracket.lower) <= truth <= arb(bracket.upper)
        assert bracket.upper - bracket.lower < 1e-6


def balls(points: list[tuple[Fraction, Fraction]]) -> list[tuple[arb, arb]]:
    return [(arb(float(p)), arb(float(q))) for p, q in points]  # sixteenths are doubles
