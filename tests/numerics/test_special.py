"""The elementary functions against balls of 300 bits, over the whole range that profiles use."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from flint import arb

from sharpdp.numerics import special
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    log1mexp,
    log_convexity_gap,
    log_diff,
    log_normal_call,
)
from sharpdp.pairs.pair import ACCURACY, GaussianPair
from tests.numerics import exact
from tests.reference.balls import precision

MEAN_SHIFTS = [1e-6, 1e-3, 0.03, 0.2, 0.4999, 0.5, 0.51, 1.0, 3.0, 30.0, 1e3]


def thresholds(m: float, rng: np.random.Generator) -> np.ndarray:
    """From zero to where the value is 1e-320, dense where formulas change (a = 0, a = 6)."""
    a = np.concatenate([rng.uniform(0.0, 38.2, 20), [0.0, 1e-9, 5.9999, 6.0, 6.0001, 38.3]])
    k = np.concatenate([m * (a + 0.5 * m), 0.5 * m * m * rng.random(8), [0.0, 1e-300]])
    return k[k >= 0.0]


@pytest.mark.parametrize("m", MEAN_SHIFTS)
def test_normal_call_is_as_accurate_as_its_pair_claims(m: float) -> None:
    k = thresholds(m, np.random.default_rng(round(1e6 * m)))
    values = log_normal_call(m, k)
    pair = GaussianPair(m)
    worst = 0.0
    with precision(exact.BITS):
        for threshold, value in zip(k, values, strict=True):
            truth = exact.otm(pair, arb(threshold)).log()
            if truth > -740:
                worst = max(worst, float(abs(truth - arb(value))))
    assert worst <= pair.accuracy
    assert worst <= 0.2 * ACCURACY * (1.0 + m)  # the margin that its docstring promises


@pytest.mark.parametrize("m", [1e-5, 0.3, 2.0, 50.0])
def test_normal_tails_are_as_accurate_as_their_pair_claims(m: float) -> None:
    k = thresholds(m, np.random.default_rng(3))
    k = np.concatenate([k, -k[k > 0]])
    pair = GaussianPair(m)
    got = {"q": pair.log_tail_q(k), "p": pair.log_tail_p(k)}
    with precision(exact.BITS):
        for i, threshold in enumerate(k):
            for under, tail in (("q", exact.tail_q), ("p", exact.tail_p)):
                truth = tail(pair, arb(threshold)).log()
                if truth > -740:
                    assert abs(truth - arb(got[under][i])) <= pair.accuracy, (under, threshold)


NORMAL_TAILS = {
    # the truth in balls, and the units that the docstring promises
    "erfcx": (lambda x: (x * x).exp() * x.erfc(), lambda x: 16.0 + (2.0 * x * x if x < 0 else 0.0)),
    "ndtr": (lambda x: (-x / arb(2).sqrt()).erfc() / 2, lambda x: 24.0),
    "log_ndtr": (lambda x: ((-x / arb(2).sqrt()).erfc() / 2).log(), lambda x: 24.0),
}


@pytest.mark.parametrize("name", NORMAL_TAILS)
def test_normal_tails_without_scipy_keep_their_promise(name: str) -> None:
    """On a dense grid, next to zero, and far out; in short arrays and in a long one, by scipy."""
    rng = np.random.default_rng(8)
    near = np.concatenate([np.linspace(-12.0, 12.0, 2001), rng.normal(size=500) * 3.0])
    far = np.concatenate([np.geomspace(1e-12, 37.0, 300), -np.geomspace(1e-12, 37.0, 300)])
    x = np.concatenate([near, far, [0.0, 5e-324]])
    x = x[x > -26.0] if name == "erfcx" else x
    function = getattr(special, name)
    short = np.concatenate([function(part) for part in np.array_split(x, x.size // 200 + 1)])
    truth, units = NORMAL_TAILS[name]
    with precision(exact.BITS + 2100):  # erfc far out is subtracted from one
        for point, value, other in zip(
            x.tolist(), short.tolist(), function(x).tolist(), strict=True
        ):
            right = truth(arb(point))
            if abs(right) > 1e-300:
                assert abs(arb(value) / right - 1) <= units(point) * UNIT_ROUNDOFF, (point, value)
                assert abs(arb(other) / right - 1) <= 1e-12, (point, other)


def test_normal_tails_at_the_ends_of_the_doubles() -> None:
    ends = np.array([-inf, -1e200, 1e200, inf])
    assert special.ndtr(ends).tolist() == [0.0, 0.0, 1.0, 1.0]
    assert special.log_ndtr(ends).tolist() == [-inf, -inf, 0.0, 0.0]
    assert special.erfcx(ends).tolist() == [inf, inf, pytest.approx(1e-200 / np.pi**0.5), 0.0]
    assert np.isnan(special.log_ndtr(np.array([np.nan]))).all()


def test_log1mexp_is_accurate_to_a_few_units() -> None:
    x = -np.geomspace(1e-300, 700.0, 300)
    values = log1mexp(x)
    with precision(300):
        for at, value in zip(x, values, strict=True):
            truth = (-arb(at).expm1()).log() if at > -1 else (-arb(at).exp()).log1p()
            assert abs(truth - arb(value)) <= 4 * UNIT_ROUNDOFF * abs(truth), at


def test_log_diff_loses_only_what_its_arguments_lose() -> None:
    rng = np.random.default_rng(5)
    large = rng.uniform(-700, 700, 200)
    small = large - np.exp(rng.uniform(-30, 6, 200))
    values = log_diff(large, small)
    with precision(300):
        for a, b, value in zip(large, small, values, strict=True):
            truth = (arb(a).exp() - arb(b).exp()).log()
            assert abs(truth - arb(value)) <= 8 * UNIT_ROUNDOFF * (1 + abs(truth) + abs(arb(a)))
    assert log_diff(-inf, -inf) == -inf


EXPONENTS = [1e-9, 1e-3, 0.5, 1.0, 7.3, 400.0, 1e6, -0.1, -0.5, -0.9, -1.03, -1.5, -8.0, -300.0]


@pytest.mark.parametrize("s", EXPONENTS)
def test_convexity_gap_is_accurate_where_sums_need_it(s: float) -> None:
    rng = np.random.default_rng(7)
    reach = np.exp(rng.uniform(np.log(1e-16), np.log(60.0), 60)) / max(1.0, abs(s)) ** 0.5
    edge = 0.05 / max(1.0, abs(s)) * np.array([0.999999, 1.0, 1.000001])
    x = np.concatenate([reach, -reach, edge, -edge])
    values = log_convexity_gap(s, x)
    with precision(exact.BITS):
        for at, value in zip(x, values, strict=True):
            k, e = arb(at), arb(s)
            truth = abs((e * k).expm1() + e * (-k).expm1()).log()
            # beyond rounding of the exponent itself, 1e-13 relative; next to s = -1, where the gap
            # vanishes and only Chernoff bounds with a millionth of slack are evaluated, less
            allowed = 1e-13 / min(1.0, 10.0 * abs(s + 1.0)) + 4 * UNIT_ROUNDOFF * (
                abs(s * at) + abs(at) + abs(float(truth))
            )
            assert abs(truth - arb(value)) <= allowed, (s, at, float(abs(truth - arb(value))))


@pytest.mark.parametrize("name", ["add", "mul"])
def test_directed_operations_are_above_and_close(name: str) -> None:
    rng = np.random.default_rng(11)
    up = getattr(special, f"{name}_up")
    with precision(3000):
        for x, y in rng.normal(size=(200, 2)) * 10.0 ** rng.integers(-150, 150, size=(200, 1)):
            truth = arb(x) + arb(y) if name == "add" else arb(x) * arb(y)
            assert truth <= arb(up(x, y)) <= truth + 4 * UNIT_ROUNDOFF * abs(truth)


def test_directed_exponentials_enclose_down_to_the_last_denormal() -> None:
    rng = np.random.default_rng(13)
    with precision(300):
        for x in np.concatenate([rng.uniform(-760, 700, 300), [0.0, -745.2, -744.4, -1e9]]):
            truth = arb(x).exp()
            assert arb(special.exp_down(float(x))) <= truth <= arb(special.exp_up(float(x)))
