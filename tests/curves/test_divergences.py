"""Divergences by the knots of the curve against sums over outcomes, in fractions or arb balls."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from flint import arb
from hypothesis import given, settings
from hypothesis import strategies as st

import sharpdp as dp
from sharpdp.curves.tradeoff import Polyline
from sharpdp.curves.tradeoff.divergences import (
    chi_squared,
    kl,
    length,
    of_function,
    power_sum,
    renyi,
    squared_hellinger,
)
from tests.curves.pairs import Pmf, pairs
from tests.reference.balls import ball, precision

Pair = tuple[Pmf, Pmf]
quick = settings(max_examples=50, deadline=None)
BITS = 200


def outcomes(pair: Pair) -> list[tuple[Fraction, Fraction]]:
    return [(p, q) for p, q in zip(*pair, strict=True) if p or q]


def encloses(ends: tuple[float, float], exact: arb) -> bool:
    """Whether the exact value, a ball, may lie between the ends, and the ends are close to it."""
    low, high = ends
    near = math.isclose(low, float(exact.mid()), rel_tol=1e-14, abs_tol=1e-40)
    return not (exact < ball(low)) and not (exact > ball(high)) and near and high - low < 1e-13


@quick
@given(pairs())
def test_kl(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    if any(q == 0 < p for p, q in outcomes(pair)):
        assert kl(f) == (math.inf, math.inf)
        return
    with precision(BITS):
        exact = sum((ball(p) * ball(p / q).log() for p, q in outcomes(pair) if p), arb(0))
        assert encloses(kl(f), exact)


@quick
@given(pairs())
def test_hellinger_and_length(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    with precision(BITS):
        gaps = [ball(p).sqrt() - ball(q).sqrt() for p, q in outcomes(pair)]
        assert encloses(squared_hellinger(f), sum((gap * gap / 2 for gap in gaps), arb(0)))
        whole = sum((ball(p * p + q * q).sqrt() for p, q in outcomes(pair)), arb(0))
        # merging outcomes of one ratio keeps the sum: the root is homogeneous
        assert encloses(length(f), whole)
    assert math.sqrt(2) - 1e-15 <= length(f)[1]
    assert length(f)[1] <= 2


@quick
@given(pairs())
def test_chi_squared_and_total_variation_are_exact(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    if f.rest:
        assert chi_squared(f) == math.inf
    else:
        assert chi_squared(f) == sum((p - q) ** 2 / q for p, q in outcomes(pair) if q)
    assert f.advantage() == sum(abs(p - q) for p, q in outcomes(pair)) / 2


@quick
@given(pairs(), st.sampled_from([2, 3, 7]))
def test_renyi_of_whole_orders(pair: Pair, order: int) -> None:
    f = Polyline.from_pmfs(*pair)
    if f.rest:
        assert renyi(f, order) == (math.inf, math.inf)
        return
    exact = sum(p**order / q ** (order - 1) for p, q in outcomes(pair) if q)
    assert power_sum(f, order) == exact
    with precision(BITS):
        assert encloses(renyi(f, order), ball(Fraction(exact)).log() / (order - 1))


@quick
@given(pairs(), st.sampled_from([0.5, 1.25, 2.75, 100.5, 1e6]))
def test_renyi_of_other_orders(pair: Pair, order: float) -> None:
    f = Polyline.from_pmfs(*pair)
    both = [(p, q) for p, q in outcomes(pair) if p and q]
    if (order > 1 and f.rest) or not both:
        assert math.isinf(renyi(f, order)[1])
        return
    with precision(BITS):
        a = ball(order)
        powers = [(a * ball(p).log() + (1 - a) * ball(q).log()).exp() for p, q in both]
        assert encloses(renyi(f, order), sum(powers, arb(0)).log() / (a - 1))


def test_moments_of_the_shuffle_pair() -> None:
    """E_Q (P/Q)^2 and ^3 for n = 2 and 3, e^eps0 = 3: spec mixtures-and-shuffle 5.3."""
    two = Polyline.from_pmfs(*_mirrored([Fraction(3, 16), Fraction(1, 4)], Fraction(7, 16)))
    assert two.knots[1] == (Fraction(3, 16), Fraction(7, 16))
    assert (power_sum(two, 2), power_sum(two, 3)) == (2, Fraction(16, 3))
    thirds = (0, Fraction(9, 64), Fraction(7, 32)), (1, Fraction(37, 64), Fraction(15, 32))
    three = Polyline((*thirds[0], *reversed(thirds[1])), (*thirds[1], *reversed(thirds[0])))
    assert (power_sum(three, 2), power_sum(three, 3)) == (
        Fraction(62, 35),
        Fraction(5288, 1225),
    )


def _mirrored(widths: list[Fraction], first_fnr: Fraction) -> Pair:
    """The symmetric pair with three outcomes whose first knot is (widths[0], first_fnr)."""
    rest = 1 - widths[0] - widths[1]
    return [*widths, rest], [1 - first_fnr, widths[1], widths[0]]


@quick
@given(pairs())
def test_a_function_of_the_user(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    root = of_function(f, lambda s: math.sqrt(1.0 + s * s), 1.0, 1.0)
    assert root == pytest.approx(length(f)[0], rel=1e-12)
    stick = of_function(f, lambda s: max(1.0 - 2.0 * s, 0.0), 1.0, 0.0)
    assert stick == pytest.approx(float(f.hockey_stick(Fraction(2))), abs=1e-12)


def test_curves_give_brackets() -> None:
    """Gaussian, mu = 1: squared Hellinger 1 - e^(-1/8), total variation 2 Phi(1/2) - 1."""
    curve = dp.TradeoffCurve.gaussian(mu=1.0)
    for width in (1e-2, 1e-3):
        found = curve.refined(width=width).divergence("squared hellinger")
        assert 1 - math.exp(-1 / 8) in found
        assert float(found.width) < 2 * width
    assert 0.3829249225480262 in curve.divergence("total variation")
    # mu^2 / 2 and e^(mu^2) - 1, of which polylines alone leave the upper side open
    assert 0.5 in curve.divergence("kl")
    assert float(curve.divergence("kl").width) < 2e-3
    assert curve.refined(width=1e-3).divergence("kl").upper == math.inf
    assert math.e - 1.0 in curve.divergence("chi squared")
    assert float(curve.divergence("chi squared").width) < 0.03
    assert 8.0 in curve.renyi(order=16.0)
    exact = dp.TradeoffCurve.from_pmfs(null=[0.25, 0.75], alternative=[0.75, 0.25])
    assert 0.5 * math.log(3) in exact.divergence("kl")
    assert math.log(7 / 3) in exact.renyi(order=2.0)
    mine = exact.divergence(lambda s: s * math.log(s), at_zero=0.0, at_infinity=math.inf)
    assert mine.rigor is dp.Rigor.APPROXIMATE
    assert mine.upper == pytest.approx(0.5 * math.log(3))


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (lambda c: c.divergence("KL"), "kind must be 'total variation', 'kl'"),
        (lambda c: c.divergence("kl", at_zero=0.0), "kind must be"),
        (lambda c: c.divergence(math.sqrt), "at_zero=None, at_infinity=None"),
        (lambda c: c.divergence(3, at_zero=0.0, at_infinity=0.0), "got 3"),
        (
            lambda c: c.divergence(lambda s: -s * s, at_zero=0.0, at_infinity=0.0),
            "kind must be a convex function",
        ),
        (
            lambda c: c.divergence(lambda s: math.nan, at_zero=0.0, at_infinity=0.0),
            "kind must be a function that is finite",
        ),
        (
            lambda c: c.divergence(lambda s: "x", at_zero=0.0, at_infinity=0.0),
            "kind must be a function of a float to a float",
        ),
        (lambda c: c.renyi(order=1.0), "order must be greater than 1"),
        (lambda c: c.renyi(order=math.nan), "order must be"),
        (lambda c: c.hockey_stick(ratio=0.0), "ratio must be"),
    ],
)
def test_wrong_questions(question: object, words: str) -> None:
    curve = dp.TradeoffCurve.from_pmfs(null=[0.2, 0.3, 0.5], alternative=[0.5, 0.3, 0.2])
    assert callable(question)
    with pytest.raises(dp.InvalidArgument, match=words):
        question(curve)
