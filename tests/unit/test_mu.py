"""The Gaussian curve just below a trade-off curve, against the curves' own formulas."""

from __future__ import annotations

from collections.abc import Callable
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
