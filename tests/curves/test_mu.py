"""The Gaussian curve just below a trade-off curve, against the curves' own formulas."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from math import e, exp
from statistics import NormalDist

import numpy as np
import pytest

import sharpdp as dp

z = NormalDist().inv_cdf


def asked(rate: float, other: float) -> float:
    """The mu whose Gaussian passes through a point of error rates."""
    return -z(rate) - z(other)


def largest(curve: Callable[[float], float], rate: float, corner: float) -> float:
    """The largest number asked for by a symmetric curve, by trying its corner and many points."""
    points = [corner, *np.geomspace(rate, 0.5, 200_001).tolist()]
    return max(
        asked(a, curve(a)) for a in points if rate <= curve(a) < 1.0 and a <= curve(a) + 1e-12
    )


def laplace(a: float) -> float:
    """Laplace noise of scale one: straight lines and a hyperbola between them."""
    if a <= exp(-1.0) / 2.0:
        return 1.0 - e * a
    return exp(-1.0) / (4.0 * a)


def promise(a: float) -> float:
    """(epsilon, delta) = (1, 1e-3)."""
    return max(0.0, 1.0 - 1e-3 - e * a, (1.0 - 1e-3 - a) / e)


EXACT = {
    "laplace": (dp.Laplace(1.0), laplace, exp(-1.0) / 2.0),
    "pure": (dp.PureDP(epsilon=1.0), lambda a: max(1.0 - e * a, (1.0 - a) / e), 1.0 / (1.0 + e)),
    "promise": (dp.ApproximateDP(epsilon=1.0, delta=1e-3), promise, 0.999 / (1.0 + e)),
}


@pytest.mark.parametrize("rate", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("name", EXACT)
def test_mu_of_curves_with_a_formula(name: str, rate: float) -> None:
    mechanism, curve, corner = EXACT[name]
    truth = largest(curve, rate, corner)
    mu = dp.account(mechanism).mu(smallest_fpr=rate)
    assert mu.lower <= truth * (1.0 + 1e-9)
    assert mu.upper >= truth * (1.0 - 1e-9)
    assert mu.upper - mu.lower <= 1.01e-3 * mu.upper


@pytest.mark.parametrize("true_mu", [1e-4, 0.3, 2.0, 9.0])
def test_mu_of_a_gaussian_is_its_own(true_mu: float) -> None:
    mu = dp.account(dp.Gaussian(noise_multiplier=2.0 / true_mu) * 4).mu()
    assert mu.lower <= true_mu <= mu.upper
    assert mu.upper - mu.lower <= 1e-6 * true_mu


@pytest.mark.parametrize("rate", [1e-9, 1e-3])
def test_a_curve_below_the_rate_asks_for_no_more_than_the_corner(rate: float) -> None:
    """Beyond mu = 2 z(rate) a Gaussian has no point with both rates that large."""
    mu = dp.account(dp.Gaussian(noise_multiplier=0.01)).mu(smallest_fpr=rate)
    assert mu.lower <= -2.0 * z(rate) * (1.0 + 1e-12) <= mu.upper * (1.0 + 1e-8)


def test_mu_covers_known_points_of_sampled_batches() -> None:
    """The published points of reference case (g) lie above the Gaussian of the upper mu."""
    plan = dp.PoissonBatches(sample_rate=0.01, steps=1000)
    mu = dp.account(dp.DPSGD(plan, noise_multiplier=1.0)).mu()
    known = [(10 / 999, 0.970836), (100 / 999, 0.805644), (500 / 999, 0.340958)]
    assert mu.upper >= max(asked(a, b + 1e-6) for a, b in known)
    # and what is asked for at the smallest rate, where delta(1.8282367) = 1e-5 bounds the curve
    tail = 1.0 - 1e-5 - exp(1.8282368) * 1e-6
    assert mu.lower <= asked(1e-6, tail)
    assert mu.upper - mu.lower <= 1.01e-3 * mu.upper


def test_mu_of_products_of_randomized_response() -> None:
    """Five repetitions: a binomial, whose curve is a polygon with known corners."""
    p = e / (1.0 + e)
    ways = [1, 5, 10, 10, 5, 1]
    with_p = [w * p**i * (1.0 - p) ** (5 - i) for i, w in enumerate(ways)]
    with_q = with_p[::-1]
    corners = [(sum(with_q[i:]), 1.0 - sum(with_p[i:])) for i in range(1, 6)]
    truth = max(asked(a, b) for a, b in corners)
    mu = dp.account(dp.RandomizedResponse(local_epsilon=1.0) * 5).mu()
    assert mu.lower <= truth * (1.0 + 1e-9)
    assert mu.upper >= truth * (1.0 - 1e-9)
    assert mu.upper - mu.lower <= 1e-3 * mu.upper


def polygon(p: list[Fraction], q: list[Fraction]) -> list[tuple[Fraction, Fraction]]:
    """The corners (fpr, fnr) of the trade-off function of two pmfs, Q as the null."""
    points = sorted(zip(p, q, strict=True), key=lambda one: (one[1] > 0, -one[0] / (one[1] or 1)))
    corners, fpr, fnr = [(Fraction(0), Fraction(1))], Fraction(0), Fraction(1)
    for with_p, with_q in points:
        fpr, fnr = fpr + with_q, fnr - with_p
        corners.append((fpr, fnr))
    return corners


def height(corners: list[tuple[Fraction, Fraction]], fpr: Fraction) -> Fraction:
    """The trade-off function at one rate."""
    found = [y for x, y in corners if x == fpr]
    for (a, b), (c, d) in pairwise(corners):
        if a < fpr < c:
            found.append(b + (d - b) * (fpr - a) / (c - a))
    return min(found)


def random_pair(rng: np.random.Generator) -> tuple[list[Fraction], list[Fraction]]:
    """Two pmfs on a few points with small denominators; some points are impossible for one of them."""
    size = int(rng.integers(2, 6))
    spread = float(rng.choice([0.05, 0.3, 2.0]))
    found = []
    for _ in range(2):
        weights = [Fraction(int(1000 * one) + 0) for one in rng.gamma(spread, size=size) + 1e-3]
        found.append([one / sum(weights) for one in weights])
    return found[0], found[1]


@pytest.mark.parametrize("seed", range(40))
def test_where_one_minus_h_is_small_the_curve_is(seed: int) -> None:
    """The lemma of docs/proofs/method.md: 1 - H_x <= x r implies f(r) <= 1 - H_x, in fractions."""
    rng = np.random.default_rng([seed, 7])
    p, q = random_pair(rng)
    corners = polygon(p, q)
    for _ in range(40):
        x = Fraction(float(np.exp(rng.uniform(-8.0, 8.0))))
        rest = 1 - sum(max(a - x * b, Fraction(0)) for a, b in zip(p, q, strict=True))
        # the smallest rate to which the lemma applies, and a larger one
        for rate in (rest / x, rest / x + Fraction(float(rng.uniform(0.0, 1.0)))):
            if rate <= 1:
                assert height(corners, rate) <= rest


@pytest.mark.parametrize("seed", range(12))
def test_mu_of_random_pmfs_is_that_of_their_corners(seed: int) -> None:
    """Brute force over the corners and the ends of the rates, also where the curve is below the rate."""
    rng = np.random.default_rng([seed, 8])
    p, q = random_pair(rng)
    rate = float(rng.choice([1e-9, 1e-4, 0.05, 0.2]))
    given = dp.FinitePair(p=list(map(float, p)), q=list(map(float, q)))
    truth = 0.0
    for one in (polygon(p, q), polygon(q, p)):
        bound = Fraction(rate)
        crossing = []
        for (a, b), (c, d) in pairwise(one):
            if b > bound >= d:
                crossing.append((a + (c - a) * (b - bound) / (b - d), bound))
        ends = [*one, (bound, max(height(one, bound), bound)), *crossing]
        inside = [(a, b) for a, b in ends if a >= bound and b >= bound and a + b < 1]
        truth = max([truth, *(asked(float(a), float(b)) for a, b in inside)])
    mu = dp.account(given).mu(smallest_fpr=rate)
    assert mu.lower <= truth * (1.0 + 1e-9) + 1e-12
    assert mu.upper >= truth * (1.0 - 1e-9) - 1e-12


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.2])
def test_mu_is_capped_where_the_total_variation_leaves_less_than_the_rate(rate: float) -> None:
    """1 - H_1 <= r: mu is 2 z(r), just so, and with twice the rest it is less."""
    rest = rate * 0.999
    both = dp.FinitePair(p=[1.0 - rest / 2, rest / 2], q=[rest / 2, 1.0 - rest / 2])
    mu = dp.account(both).mu(smallest_fpr=rate)
    assert mu.lower <= -2.0 * z(rate) * (1 + 1e-12)
    assert mu.upper >= -2.0 * z(rate) * (1 - 1e-12)
    assert mu.upper - mu.lower <= 2e-3 * mu.upper
    other = dp.FinitePair(p=[1.0 - 2 * rest, 2 * rest], q=[2 * rest, 1.0 - 2 * rest])
    assert dp.account(other).mu(smallest_fpr=rate).upper < -2.0 * z(rate) * (1 - 1e-3)


@pytest.mark.parametrize("rate", [0.5, 0.7])
def test_rates_from_one_half_on_leave_nothing_to_compare(rate: float) -> None:
    with pytest.raises(dp.InvalidArgument, match=r"^smallest_fpr must be in \(0, 1/2\); got 0\."):
        dp.account(dp.Gaussian(noise_multiplier=1.0)).mu(smallest_fpr=rate)
