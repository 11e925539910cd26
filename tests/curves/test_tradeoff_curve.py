"""Curves enclose what they stand for, whatever they are made from, and compose."""

from __future__ import annotations

import math
import pickle
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sharpdp as dp
from sharpdp.curves.tradeoff import Polyline
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair, LaplacePair
from sharpdp.profile.discretize import first_look, lower, upper
from tests.curves.pairs import Pmf, pairs
from tests.reference import finite

Curve = dp.TradeoffCurve
Pair = tuple[Pmf, Pmf]
NORMAL = NormalDist()
RATES = [0.001, 0.01, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99]
quick = settings(max_examples=30, deadline=None)
F = Fraction


def gaussian_fnr(mu: float, fpr: float) -> float:
    return NORMAL.cdf(NORMAL.inv_cdf(1.0 - fpr) - mu)


@quick
@given(pairs(), st.floats(0.0, 1.0), st.floats(0.0, 5.0), st.floats(0.0, 0.99))
def test_brackets_of_finite_pairs_hold_and_are_narrow(
    pair: Pair, fpr: float, epsilon: float, delta: float
) -> None:
    null, alternative = pair
    curve = Curve.from_pmfs(null=null, alternative=alternative)
    exact = finite.tradeoff([(alternative, null)], F(fpr))
    found = curve.fnr(fpr=fpr)
    assert F(found.lower) <= exact <= F(found.upper)
    assert found.upper - found.lower < 1e-15
    both = [finite.delta_ball([one], epsilon) for one in ((alternative, null), (null, alternative))]
    answer = curve.delta(epsilon=epsilon)
    assert not any(one > answer.upper for one in both)
    assert any(not (one < answer.lower) for one in both)
    assert answer.upper - answer.lower < 1e-14
    ratio = [
        finite.exp_epsilon([one], F(delta)) for one in ((alternative, null), (null, alternative))
    ]
    epsilons = curve.epsilon(delta=delta)
    if None in ratio:
        assert epsilons.lower == epsilons.upper == math.inf
    else:
        exact_epsilon = math.log(max(ratio))  # type: ignore[type-var, arg-type]
        assert epsilons.lower - 1e-15 <= exact_epsilon <= epsilons.upper + 1e-15
        assert epsilons.upper - epsilons.lower < 1e-14


@pytest.mark.parametrize(("mu", "width"), [(0.1, 1e-4), (1.0, 1e-3), (1.0, 1e-2), (4.0, 1e-2)])
def test_polylines_enclose_the_gaussian_curve(mu: float, width: float) -> None:
    curve = Curve.gaussian(mu=mu).refined(width=width)
    assert float(curve.lower_polyline.distance(curve.upper_polyline)) <= width * 1.001
    for fpr in [1e-9, *RATES, 1 - 1e-6]:
        exact = gaussian_fnr(mu, fpr)
        assert curve.lower(fpr) <= exact + 1e-14
        assert curve.upper(fpr) >= exact - 1e-14
    for fpr in RATES:
        assert gaussian_fnr(mu, fpr) == pytest.approx(
            float(Curve.gaussian(mu=mu).lower(fpr)), rel=1e-5
        )


def test_values_of_the_figure_of_a_half_hidden_gaussian() -> None:
    """w Id + (1 - w) G_mu, mu = 1, w = 1/3: spec mixtures-and-shuffle 5.6, first row."""
    table = {
        0.01: 0.9350918346,
        0.05: 0.8103259848,
        0.1: 0.7072375389,
        0.2: 0.5580527815,
        0.5: 0.2724368360,
        0.9: 0.04083860968,
    }
    bounds = Curve.gaussian(mu=1.0).refined(width=1e-4).bounds
    for fpr, printed in table.items():
        ends = [(F(1, 3) * (1 - F(fpr)) + F(2, 3) * one.at(fpr)) for one in bounds]
        assert ends[0] - F(1, 10**10) <= printed <= ends[1] + F(1, 10**10)


def assert_same(one: dp.Bracket, other: dp.Bracket) -> None:
    """Brackets of one number: they overlap, and are about as narrow as answers are."""
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)
    assert max(one.relative_width, other.relative_width) <= 1e-2


def test_the_curve_of_an_answer_is_what_it_was() -> None:
    answer = dp.account(dp.Laplace(1.0) * 3)
    curve = answer.tradeoff()
    for fpr in (0.01, 0.4):
        assert_same(curve.fnr(fpr=fpr), answer.fnr(fpr=fpr))
    assert curve.lower(0.0) > 0.99
    assert_same(curve.delta(epsilon=1.0), answer.delta(epsilon=1.0))
    assert_same(curve.epsilon(delta=1e-3), answer.epsilon(delta=1e-3))
    assert_same(Curve.of(dp.Laplace(1.0) * 3).fnr(fpr=0.1), curve.fnr(fpr=0.1))
    assert curve.inverse() is curve
    more = dp.account(dp.Laplace(1.0) * 6).epsilon(delta=1e-6)
    assert_same(dp.account(curve * 2).epsilon(delta=1e-6), more)
    assert curve.adjacencies == (answer.adjacency,)


def test_the_last_answer_is_given_again_only_to_the_same_question() -> None:
    curve = Curve.gaussian(mu=1.0)
    rates = np.array([0.1, 0.3])
    first = curve.fnr(fpr=rates)
    assert curve.fnr(fpr=rates) is first
    rates[0] = 0.2  # what was asked is not what the caller makes of the array
    for fpr in (rates, [0.1, 0.3, 0.5], [[0.1], [0.3]], 0.1):
        answer = curve.fnr(fpr=fpr)
        assert np.shape(answer.lower) == np.shape(fpr)
        for rate, low, high in zip(
            np.ravel(fpr), np.ravel(answer.lower), np.ravel(answer.upper), strict=True
        ):
            assert low - 1e-12 <= gaussian_fnr(1.0, float(rate)) <= high + 1e-12
    copied = pickle.loads(pickle.dumps(curve))
    assert copied == curve
    assert "_last_rates" not in copied.__dict__


def test_polylines_of_an_answer_enclose_the_worse_direction() -> None:
    """Outcomes that one input never gives: neither direction is its own inverse."""
    p, q = [F(1, 2), F(1, 4), F(1, 4), F(0)], [F(1, 8), F(1, 2), F(1, 8), F(1, 4)]
    pair = dp.FinitePair(p=[float(x) for x in p], q=[float(x) for x in q])
    exact = Polyline.from_pmfs(q, p).symmetric_hull()
    found = dp.account(pair).tradeoff().refined(width=1e-3)
    slack = F(1, 10**9)
    for x in {*exact.fpr, *found.lower_polyline.fpr, *found.upper_polyline.fpr}:
        assert found.lower_polyline.at(x) <= exact.at(x) + slack
        assert exact.at(x) <= found.upper_polyline.at(x) + slack
    assert found.lower_polyline.distance(exact) < F(2, 1000)


def test_points_of_a_profile() -> None:
    """f(x) = max{0, 1 - delta - e^epsilon x, e^-epsilon (1 - delta - x)} over the points."""
    epsilons, deltas = [0.0, 0.7, 2.0], [0.3, 0.1, 1e-4]
    free = Curve.from_points(epsilons=epsilons, deltas=deltas)
    worst = Curve.from_points(epsilons=epsilons, deltas=deltas, attained=True)
    for x in [0.0, *RATES, 1.0]:
        lines = [
            max(1 - d - math.exp(e) * x, math.exp(-e) * (1 - d - x))
            for e, d in zip(epsilons, deltas, strict=True)
        ]
        exact = max(0.0, *lines)
        assert free.lower(x) == pytest.approx(exact, abs=1e-14)
        assert free.lower(x) <= worst.upper(x)
        assert worst.upper(x) == pytest.approx(exact, abs=1e-14)
        assert free.upper(x) == pytest.approx(1 - x, abs=1e-15)
    for e, d in zip(epsilons, deltas, strict=True):
        assert d <= free.delta(epsilon=e).upper <= d + 1e-14
    assert dp.account(free * 4).epsilon(delta=1e-2).lower == 0.0
    four = dp.account(worst * 4)
    assert four.delta(epsilon=1.0).lower > 0.39
    both = dp.account(free * 4).delta(epsilon=1.0).upper, four.delta(epsilon=1.0).upper
    assert both[0] == pytest.approx(both[1], rel=2e-3)
    one = dp.account(dp.ApproximateDP(epsilon=0.7, delta=0.1) * 4).delta(epsilon=1.0)
    promise = Curve.from_points(epsilons=[0.7], deltas=[0.1], attained=True)
    assert dp.account(promise * 4).delta(epsilon=1.0).upper == pytest.approx(one.upper, rel=1e-9)


@quick
@given(pairs(3), st.integers(1, 4), st.fractions(1, 5, max_denominator=8))
def test_curves_compose_like_their_pairs(pair: Pair, count: int, ratio: Fraction) -> None:
    null, alternative = pair
    curve = Curve.from_pmfs(null=null, alternative=alternative)
    answer = dp.account(curve * count)
    orders = ([(alternative, null)] * count, [(null, alternative)] * count)
    found = answer.delta(epsilon=math.log(ratio))
    exact = max(float(finite.delta(one, ratio)) for one in orders)
    assert found.lower * (1 - 1e-9) - 1e-13 <= exact <= found.upper * (1 + 1e-9) + 1e-13
    assert found.upper - found.lower <= 2e-3 * found.upper + 1e-12


def test_an_enclosed_curve_composes_on_both_sides() -> None:
    whole = dp.account(dp.Gaussian(1.0) * 10)
    narrow = Curve.gaussian(mu=1.0).refined(width=1e-4)
    answer = dp.account(narrow * 10)
    for epsilon in (0.0, 1.0, 3.0):
        found, exact = answer.delta(epsilon=epsilon), whole.delta(epsilon=epsilon)
        assert found.lower <= exact.upper
        assert exact.lower <= found.upper
        assert found.upper - found.lower < 2e-3
    lazy = dp.account(Curve.gaussian(mu=1.0) * 10).epsilon(delta=1e-9)
    assert lazy.upper == pytest.approx(whole.epsilon(delta=1e-9).upper, rel=1e-9)
    both = dp.account(narrow + dp.Gaussian(2.0)).delta(epsilon=1.0)
    assert dp.account(dp.Gaussian(1.0) + dp.Gaussian(2.0)).delta(epsilon=1.0).upper in both


@quick
@given(pairs())
def test_losses_and_back(pair: Pair) -> None:
    curve = Curve.from_pmfs(null=pair[0], alternative=pair[1])
    exact = curve.polyline
    below = Curve.from_losses(curve.losses(dp.Side.UPPER))
    above = Curve.from_losses(curve.losses(dp.Side.LOWER))
    assert below.lower_polyline <= exact <= above.upper_polyline
    assert below.lower_polyline.distance(exact) < F(1, 10**11)
    assert above.upper_polyline.distance(exact) < F(1, 10**11)
    assert below.upper_polyline == Polyline.perfect()
    assert above.lower_polyline == Polyline.revealed()


@pytest.mark.parametrize("pair", [GaussianPair(0.7), LaplacePair(1.3)])
def test_discretized_losses_enclose_the_curve(pair: GaussianPair | LaplacePair) -> None:
    nodes = first_look(pair, -40.0)
    below = Curve.from_losses(upper(nodes))
    above = Curve.from_losses(lower(nodes))
    exact = Curve.from_pair(pair)
    for fpr in RATES:
        assert below.lower(fpr) <= exact.upper(fpr)
        assert above.upper(fpr) >= exact.lower(fpr)
        assert above.upper(fpr) - below.lower(fpr) < 0.05


def test_pairs_keep_their_direction() -> None:
    p, q = [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]
    one_way = Curve.from_pair(AtomicPair.from_pmfs(p, q))
    exact = Curve.from_pmfs(null=q, alternative=p)
    for fpr in RATES:
        assert one_way.lower(fpr) == pytest.approx(float(exact.lower(fpr)), abs=1e-6)
        back = one_way.inverse().lower(fpr)
        assert back == pytest.approx(float(exact.inverse().lower(fpr)), abs=1e-6)
    assert one_way.refined(width=1e-4).upper(0.0) == pytest.approx(1.0)
    assert one_way.inverse().refined(width=1e-4).upper(0.0) == pytest.approx(0.5)


def test_order_and_distance_of_enclosures() -> None:
    one, two = Curve.gaussian(mu=1.0), Curve.gaussian(mu=2.0)
    exact = max(gaussian_fnr(1.0, x) - gaussian_fnr(2.0, x) for x in np.linspace(0.01, 0.99, 9801))
    assert one.distance(two).lower <= exact <= one.distance(two).upper
    assert float(one.distance(two).width) < 3e-3
    assert two.below(one, smallest_rate=1e-3)
    assert not one <= two
    with pytest.raises(dp.Undecided):
        _ = two <= one
    with pytest.raises(dp.Undecided):
        one.below(Curve.gaussian(mu=1.0))
    assert one.minimum(two).lower_polyline <= two.lower_polyline
    assert one.maximum(two).upper(0.3) >= gaussian_fnr(1.0, 0.3)
    pure = Curve.of(dp.PureDP(1.0))
    assert pure.below(Curve.from_knots(fpr=[0, 1], fnr=[1, 0]))


def test_lattice_of_exact_curves() -> None:
    a = Curve.from_pmfs(null=[F(1, 2), F(1, 2)], alternative=[1, 0])
    assert a.symmetrized().polyline.knots == ((0, 1), (F(1, 3), F(1, 3)), (1, 0))
    assert a.symmetric_hull().polyline.knots == ((0, F(1, 2)), (F(1, 2), 0), (1, 0))
    assert a.symmetric_hull() <= a
    assert a.maximum(a.inverse()).polyline.fixed_point() == F(1, 3)
    assert (a.fixed_point().lower, a.area().upper) == (pytest.approx(1 / 3), 0.25)
    assert a.distance(a.inverse()).upper == 0.5
    assert a.hockey_stick(ratio=1.0).upper == 0.5
    assert a.conjugate(slope=-1.0).lower == -0.5
    assert not a.symmetrized().attained


def test_hockey_sticks_of_a_source_are_asked_from_it() -> None:
    """delta_mu at epsilon = log 2 and, by 1 - r + r H_{1/r}, at the ratio 1/2; mu = 1."""
    curve = Curve.gaussian(mu=1.0)
    for ratio in (0.5, 1.0, 2.0, 40.0):
        far = math.log(ratio) - 0.5, math.log(ratio) + 0.5
        exact = NORMAL.cdf(-far[0]) - ratio * NORMAL.cdf(-far[1])
        found = curve.hockey_stick(ratio=ratio)
        assert found.lower - 1e-14 <= exact <= found.upper + 1e-14
        assert found.upper - found.lower < 1e-10
        assert curve.conjugate(slope=-ratio).upper == pytest.approx(exact - 1, abs=1e-9)
    assert curve.conjugate(slope=2.0).upper == 2.0


def test_exactness_is_told() -> None:
    with pytest.raises(dp.NotCertified, match=r"known to within 0\.00\d+ only"):
        _ = Curve.gaussian(mu=1.0).polyline
    assert Curve.gaussian(mu=0.0).polyline == Polyline.perfect()
    assert Curve.gaussian(mu=1.0).label == 'trade-off curve "1-GDP"'
    assert "1-GDP" in repr(Curve.gaussian(mu=1.0))
    named = Curve.from_knots(fpr=[0, 1], fnr=[0.5, 0], name="half revealed")
    quoted = 'named by its author: "half revealed"'
    assert named.describe() == f"mechanism known by its trade-off curve, {quoted}"
    assert dp.account(named).epsilon(delta=0.1).upper == math.inf
    assert named.epsilon(delta=0.6).upper == 0.0


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Curve.from_knots(fpr=[0, 0.5, 1], fnr=[1, 0.7, 0]), r"fnr\[1\] must be between"),
        (lambda: Curve.from_knots(fpr=[0, math.nan, 1], fnr=[1, 0.2, 0]), r"fpr\[1\] must be"),
        (lambda: Curve.gaussian(mu=-1.0), "mu must be"),
        (lambda: Curve.gaussian(mu=math.nan), "mu must be"),
        (lambda: Curve.from_points(epsilons=[1], deltas=[]), "equally many entries"),
        (lambda: Curve.from_points(epsilons=[], deltas=[]), "at least 1"),
        (
            lambda: Curve.from_points(epsilons=[-1], deltas=[0.1]),
            r"epsilons\[0\] must be between 0",
        ),
        (
            lambda: Curve.from_points(epsilons=[1e9], deltas=[0.1]),
            r"epsilons\[0\] must be between 0",
        ),
        (lambda: Curve.from_points(epsilons=[0.1], deltas=[2]), "Did you swap"),
        (lambda: Curve.from_pair(3), "pair must be a Pair"),  # type: ignore[arg-type]
        (lambda: Curve.from_losses("x"), "distribution must be"),  # type: ignore[arg-type]
        (
            lambda: Curve.between(Polyline.perfect(), Polyline.revealed()),
            "lower must be at most upper",
        ),
        (lambda: Curve.between(1, 2), "lower must be a Polyline"),  # type: ignore[arg-type]
        (lambda: Curve.gaussian(mu=1.0).refined(width=0.0), "width must be between"),
        (lambda: Curve.gaussian(mu=1.0).refined(width=math.nan), "width must be"),
        (lambda: Curve.gaussian(mu=1.0).lower(-0.1), r"fpr must be in \[0, 1\]"),
        (lambda: Curve.gaussian(mu=1.0).lower([0.1, "x"]), r"fpr\[1\] must be"),
        (lambda: Curve.gaussian(mu=1.0).delta(epsilon=-1.0), "epsilon must be"),
        (lambda: Curve.gaussian(mu=1.0).epsilon(delta=1.0), r"delta must be in \[0, 1\)"),
        (lambda: Curve.gaussian(mu=1.0).minimum(3), "other must be a TradeoffCurve"),  # type: ignore[arg-type]
        (
            lambda: Curve.gaussian(mu=1.0).below(Curve.gaussian(mu=2.0), smallest_rate=0.5),
            "smallest_rate",
        ),
        (lambda: Curve.gaussian(mu=1.0).losses("upper"), "side must be a Side"),  # type: ignore[arg-type]
        (lambda: Curve.from_knots(fpr=[0, 1], fnr=[1, 0], name=3), "name must be text"),  # type: ignore[arg-type]
    ],
)
def test_wrong_input(call: object, words: str) -> None:
    assert callable(call)
    with pytest.raises(dp.InvalidArgument, match=words):
        call()


def test_the_rate_of_a_corner_is_no_blind_spot() -> None:
    """Randomized response: f = max(1 - e x, (1 - x) / e) has its corner at x = 1 / (1 + e)."""
    corner = 1.0 / (1.0 + math.e)
    found = dp.account(dp.RandomizedResponse(local_epsilon=1.0)).fnr(fpr=corner)
    assert found.lower - 1e-12 <= corner <= found.upper
    assert found.upper - found.lower < 1e-5
    curve = Curve.of(dp.RandomizedResponse(local_epsilon=1.0)).refined(width=1e-3)
    assert float(curve.advantage().width) < 1e-3
    assert math.tanh(0.5) == pytest.approx(curve.advantage().upper, abs=1e-9)


def test_a_curve_without_an_upper_side_is_enclosed_from_below() -> None:
    """zCDP bounds the Gaussian curve with the same divergences from below, and says nothing else."""
    curve = Curve.of(dp.RenyiCurve.zcdp(rho=0.5)).refined(width=1e-2)
    assert curve.upper_polyline.distance(Polyline.perfect()) < F(1, 10**12)
    assert len(curve.lower_polyline.fpr) > 10
    for fpr in RATES:
        assert curve.lower(fpr) <= gaussian_fnr(1.0, fpr)
    assert curve.lower(0.3) > 0.22


def test_rates_where_everything_is_revealed() -> None:
    """An outcome that only the alternative gives, or only the null: f begins low, or ends early."""
    disjoint = dp.account(dp.FinitePair(p=[1.0, 0.0], q=[0.0, 1.0]) * 4)
    assert disjoint.fnr(fpr=0.3).upper == 0.0
    pair = dp.FinitePair(p=[0.75, 0.25, 0.0], q=[0.25, 0.0, 0.75]) * 2
    # f is zero from Q^2[P > 0] = 1/16 on, its inverse from P^2[Q > 0] = 9/16 on
    assert dp.account(pair).fnr(fpr=0.8).upper == 0.0
    early = Curve.from_pair(AtomicPair.from_pmfs([0.75, 0.25, 0.0], [0.25, 0.0, 0.75]))
    assert early.upper(0.26) == 0.0
    assert early.upper(0.125) == pytest.approx(0.375, abs=1e-9)


@quick
@given(pairs(4), st.sampled_from([1e-2, 1e-4]))
def test_polylines_asked_from_a_pair_enclose_it(pair: Pair, width: float) -> None:
    null, alternative = ([F(int(p * 4096), 4096) for p in one] for one in pair)
    null[0] += 1 - sum(null)
    alternative[0] += 1 - sum(alternative)
    exact = Polyline.from_pmfs(null, alternative)
    doubles = AtomicPair.from_pmfs([float(q) for q in alternative], [float(p) for p in null])
    curve = Curve.from_pair(doubles).refined(width=width)
    assert curve.lower_polyline <= exact <= curve.upper_polyline
    # no question is asked beyond epsilon = 600: a jump there is not seen at rates below e^-600
    inside = [x for x in curve.upper_polyline.fpr if F(1, 10**9) < x < 1 - F(1, 10**9)]
    for x in inside:
        assert curve.upper_polyline.at(x) - curve.lower_polyline.at(x) <= F(width) * F(101, 100)


def test_a_single_finite_loss_beside_a_revealing_outcome_has_a_report() -> None:
    """f(x) = 0.9 (1 - x): mu is asked for most at the smallest rate, by G_mu(0.05) = 0.855."""
    answer = dp.account(Curve.from_knots(fpr=[0, 1], fnr=[0.9, 0]))
    wanted = -NORMAL.inv_cdf(0.05) - NORMAL.inv_cdf(0.855)
    assert wanted in answer.mu(smallest_fpr=0.05)
    assert "known by its trade-off curve" in answer.report()
