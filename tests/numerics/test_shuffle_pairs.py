"""The pairs of the shuffle model: profiles and tails against enumeration, arb and each other."""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import pytest

from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.bounds.shuffle_model.response_pairs import (
    BinaryResponsePair,
    DifferencePair,
    ThreeCountsPair,
)
from sharpdp.pairs.pair import Pair
from sharpdp.pairs.subsampled import PoissonSampledPair, SubsetSampledPair
from tests.reference import shuffle

Pmfs = tuple[list[float], list[float]]


def rate_of(local_epsilon: float) -> float:
    return float(2.0 / (np.exp(local_epsilon) + 1.0))


def clones(n: int, e: float, rate: float) -> Pmfs:
    """P and Q of the pair of clones, point by point."""
    w, p, q = 1.0 / (np.exp(e) + 1.0), [], []
    for c in range(n):
        of_c = comb(n - 1, c) * rate**c * (1 - rate) ** (n - 1 - c)
        for a in range(c + 2):  # the first count
            p0 = comb(c, a - 1) / 2**c if a >= 1 else 0.0
            q0 = comb(c, a) / 2**c if a <= c else 0.0
            p.append(of_c * ((1 - w) * p0 + w * q0))
            q.append(of_c * ((1 - w) * q0 + w * p0))
    return p, q


def ternary(n: int, e: float) -> Pmfs:
    """Counts of three reports, all others holding the third symbol."""
    big = np.exp(e)
    v, p, q = 1.0 / (big + 2.0), [], []
    for a in range(n + 1):
        for b in range(n + 1 - a):
            c = n - a - b
            mass = comb(n, a) * comb(n - a, b) * v ** (a + b) * (big * v) ** c
            p.append(mass * (big * a + b + c / big) / n)
            q.append(mass * (a + big * b + c / big) / n)
    return p, q


def binary(n: int, e: float) -> Pmfs:
    """The number of ones, all others holding 0, the victim 1 or 0."""
    w = 1.0 / (np.exp(e) + 1.0)
    q = [comb(n, m) * w**m * (1 - w) ** (n - m) for m in range(n + 1)]
    others = [comb(n - 1, m) * w**m * (1 - w) ** (n - 1 - m) for m in range(n)]
    p = [w * [*others, 0.0][m] + (1 - w) * [0.0, *others][m] for m in range(n + 1)]
    return p, q


def difference(n: int, e: float) -> Pmfs:
    """The difference of the first two counts."""
    big = np.exp(e)
    v = 1.0 / (big + 2.0)
    walk = np.ones(1)
    for _ in range(n - 1):
        walk = np.convolve(walk, [v, 1 - 2 * v, v])
    p = np.convolve(walk, [v, v, big * v])
    return p.tolist(), p[::-1].tolist()


CASES: dict[str, Callable[[int, float], tuple[Pair, Pmfs]]] = {
    "clones": lambda n, e: (ShufflePair(n, e, rate_of(e)), clones(n, e, rate_of(e))),
    "individual": lambda n, e: (ShufflePair(n, e, np.exp(-e)), clones(n, e, np.exp(-e))),
    "ternary": lambda n, e: (ThreeCountsPair(n, e), ternary(n, e)),
    "binary": lambda n, e: (BinaryResponsePair(n, e), binary(n, e)),
    "difference": lambda n, e: (DifferencePair(n, e), difference(n, e)),
}


def direct(pmfs: Pmfs, k: float) -> tuple[float, float, float]:
    """Out-of-the-money value and both tails, by their definitions."""
    p, q = np.array(pmfs[0]), np.array(pmfs[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.log(p / q)
    if k >= 0:
        beyond = loss >= k
        return (np.maximum(p - np.exp(k) * q, 0).sum(), q[beyond].sum(), p[beyond].sum())
    beyond = loss <= k
    return (np.maximum(np.exp(k) * q - p, 0).sum(), q[beyond].sum(), p[beyond].sum())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("e", [0.3, 1.7, 5.0])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 40])
def test_values_and_tails_are_those_of_the_definition(name: str, n: int, e: float) -> None:
    if name == "difference" and n < 9:
        pytest.skip("the walk is for more steps")
    pair, pmfs = CASES[name](n, e)
    for share in (-0.83, -0.31, -0.123, 0.0317, 0.127, 0.459, 0.813):
        k = share * e
        mine = [
            np.exp(f(np.array([k]))[0])
            for f in (pair.log_hockey_stick, pair.log_tail_q, pair.log_tail_p)
        ]
        assert mine == pytest.approx(direct(pmfs, k), rel=1e-9, abs=1e-15)


def subset(base: Pmfs, rate: float) -> Pmfs:
    """The extremal pair of a subset: a random point of the base above one, mirrored, the rest at zero."""
    p, q = [], []
    for mass_p, mass_q in zip(*base, strict=True):
        if mass_p > mass_q:
            p += [(1 - rate) * mass_q + rate * mass_p, mass_q]
            q += [mass_q, (1 - rate) * mass_q + rate * mass_p]
    return [*p, 1 - sum(p)], [*q, 1 - sum(q)]


def absent(base: Pmfs, reference: list[float], rate: float) -> Pmfs:
    """Both laws mixed with the one in which another user takes the victim's place."""
    p, q = (
        [rate * a + (1 - rate) * r for a, r in zip(one, reference, strict=True)] for one in base
    )
    return p, q


@pytest.mark.parametrize("rate", [0.9, 0.2, 0.003])
@pytest.mark.parametrize("e", [0.3, 1.7, 5.0])
@pytest.mark.parametrize("n", [2, 9, 30])
def test_sampled_pairs_are_those_of_the_definition(n: int, e: float, rate: float) -> None:
    counts = [
        (comb(n, a) * comb(n - a, b)) * np.exp(e * (n - a - b)) / (np.exp(e) + 2.0) ** n
        for a in range(n + 1)
        for b in range(n + 1 - a)
    ]
    big = np.exp(e)
    walk = np.ones(1)
    for _ in range(n):
        walk = np.convolve(walk, np.array([1.0, big, 1.0]) / (big + 2.0))
    cases: list[tuple[Pair, Pmfs]] = [
        (
            SubsetSampledPair(ShufflePair(n, e, rate_of(e)), rate),
            subset(clones(n, e, rate_of(e)), rate),
        ),
        (ThreeCountsPair(n, e, rate), absent(ternary(n, e), counts, rate)),
        (
            PoissonSampledPair(BinaryResponsePair(n, e), rate),
            absent(binary(n, e), binary(n, e)[1], rate),
        ),
    ]
    if n > 2:
        cases.append((DifferencePair(n, e, rate), absent(difference(n, e), walk.tolist(), rate)))
    for pair, pmfs in cases:
        for share in (-0.31, -0.123, 0.0317, 0.459, 0.813):
            k = share * pair.support[1]
            if k <= pair.accurate_range[0]:
                continue
            mine = [
                float(np.exp(f(np.array([k]))[0])) for f in (pair.log_hockey_stick, pair.log_tail_q)
            ]
            assert mine == pytest.approx(direct(pmfs, k)[:2], rel=1e-8, abs=1e-15)


@pytest.mark.parametrize("name", CASES)
def test_the_ends_of_the_support_are_right(name: str) -> None:
    pair, (p, q) = CASES[name](12, 2.0)
    end = pair.support[1]
    assert np.isneginf(pair.log_hockey_stick(np.array([end, end + 1.0]))).all()
    largest = max(np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0 and b > 0)
    assert end == pytest.approx(largest, rel=1e-12)


@pytest.mark.parametrize(("users", "e"), [(1000, 0.05), (1000, 1.0), (1000, 6.0), (20_000, 3.0)])
@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_clones_are_exact_in_deep_tails(users: int, e: float, share: float) -> None:
    exact = shuffle.delta(users, e, share * e, digits=20)
    pair = ShufflePair(users, e, rate_of(e))
    mine = float(pair.log_hockey_stick(np.array([share * e]))[0])
    if float(exact.log()) > -780:
        assert abs(mine - float(exact.log())) <= pair.accuracy


@pytest.mark.parametrize("make", [BinaryResponsePair, ThreeCountsPair])
@pytest.mark.parametrize("share", [0.02, 0.2, 0.6])
def test_responses_are_exact_in_deep_tails(make: type[Pair], share: float) -> None:
    users, e = 2000, 2.0
    pair = make(users, e)  # type: ignore[call-arg]
    if make is BinaryResponsePair:
        exact = shuffle.binary_delta(users, e, share * e, victim=1)
    else:
        exact = shuffle.ternary_delta(users, e, share * e)
    mine = float(pair.log_hockey_stick(np.array([share * e]))[0])
    assert abs(mine - float(exact.log())) <= pair.accuracy


@pytest.mark.parametrize("users", [10**5, 10**7, 10**9])
def test_rounding_the_clones_down_only_raises_the_value(users: int) -> None:
    e, at = 2.0, np.array([0.3, 2.0, 6.0]) / np.sqrt(users)
    rate = rate_of(e)
    fine = ShufflePair(users, e, rate).log_hockey_stick(at)
    coarse = ShufflePair(users, e, rate, error=1e-3).log_hockey_stick(at)
    assert (coarse >= fine - 1e-9).all()
    assert (coarse - fine < 0.05).all()
    assert (coarse - fine > 0.0).any()


def test_the_difference_loses_little_and_never_gains() -> None:
    users, e = 10**5, 1.0
    at = np.array([0.002, 0.01, 0.03])
    all_counts, only = (
        ThreeCountsPair(users, e).log_hockey_stick(at),
        DifferencePair(users, e).log_hockey_stick(at),
    )
    assert (only <= all_counts + 1e-9).all()
    assert (all_counts - only < 4e-4 * -all_counts).all()  # a share of 1/N of the exponent
