"""The references agree with each other across independent routes, and with printed values.

Nothing here imports sharpdp.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import log

import numpy as np
import pytest
from flint import acb, arb

from tests.golden.load import golden
from tests.reference import (
    finite,
    gaussian,
    laplace,
    moments,
    planning,
    poisson,
    poisson_direct,
    randomized,
)
from tests.reference.balls import ball, precision, relative_radius

DIRECTIONS = ("remove", "add")
ISSUE_B = ((0.01, 1.0, 1000),)


def agree(a: arb, b: arb, digits: int) -> bool:
    """Both balls are that narrow and they overlap."""
    narrow = max(relative_radius(a), relative_radius(b)) <= 10.0**-digits
    return narrow and bool(a.overlaps(b))


# --- printed values ---------------------------------------------------------------------------

PRINTED = {
    ("a", "epsilon", 1e-6): ("0.947195", 1e-6),
    ("a", "delta", 1.0): ("5.3196e-7", 1e-11),
    ("b", "epsilon", 1e-5): ("1.8282367", 1e-7),
    ("d", "epsilon", 1e-5): ("7.5112759007", 1e-10),
    ("f", "noise_multiplier", 1.0): ("1.562666", 1e-6),
    ("g", "tradeoff", 10 / 999): ("0.970836", 1e-6),
    ("g", "tradeoff", 100 / 999): ("0.805644", 1e-6),
    ("g", "tradeoff", 500 / 999): ("0.340958", 1e-6),
    ("g", "delta", 0.0): ("0.161018", 1e-6),
    ("i", "epsilon", 1e-12): ("3.914298", 1e-6),
    ("i", "epsilon", 1e-20): ("6.361700", 1e-6),
}


@pytest.mark.parametrize("case", golden("issue"), ids=str)
def test_golden_values_round_to_the_printed_ones(case):
    quantity, *arguments = case.ask.values()
    printed = PRINTED.get((case.name, quantity, arguments[0]))
    if printed is None:
        pytest.skip("no value printed for this one")
    assert case.upper - case.lower < Fraction(1e-11)
    assert abs(case.middle - float(printed[0])) <= printed[1]


@pytest.mark.underflows
@pytest.mark.parametrize(
    ("steps", "direction", "delta", "lower", "upper"),
    [
        (((0.001, 0.8, 10**4),), "remove", 1e-6, 0.94719568236, 0.94719569218),
        (((0.01, 1.0, 1000),), "remove", 1e-5, 1.8282366649, 1.8282366682),
        (((0.0001, 0.6, 10**6),), "remove", 1e-6, 1.92073742434, 1.92073743568),
        (((1e-5, 0.4, 10**5),), "add", 1e-6, 0.14311386114, 0.143113865490),
        (((1e-5, 0.4, 10**5),), "add", 1e-30, 0.303251469594, 0.303251470767),
        (((1e-5, 0.4, 10**5),), "add", 1e-100, 0.444060134451, 0.444060135021),
    ],
)
def test_poisson_epsilon_lies_in_the_brackets_of_the_trial(steps, direction, delta, lower, upper):
    value = poisson.epsilon(steps, direction, delta, 12)
    assert value > lower
    assert value < upper


# --- the contour against other routes -----------------------------------------------------------


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("q", "s", "epsilon"), [(0.3, 5.0, 0.01), (0.6, 3.0, 0.2)])
def test_contour_of_two_steps_equals_direct_integration(q, s, epsilon, direction):
    direct = poisson_direct.two_steps(q, s, direction, epsilon, 14)
    contour = poisson.delta(((q, s, 2),), direction, epsilon, 10)
    assert agree(direct, contour, 10)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_contour_of_one_step_equals_the_closed_form(direction):
    closed = poisson_direct.one_step(0.5, 5.0, direction, 0.05)
    contour = poisson.delta(((0.5, 5.0, 1),), direction, 0.05, 10)
    assert agree(closed, contour, 10)


@pytest.mark.underflows
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("q", "s", "steps", "epsilon"), [(0.5, 1.0, 16, 3.0), (0.1, 1.0, 64, 1.0)])
def test_contour_equals_plain_convolution_of_densities(q, s, steps, epsilon, direction):
    """A float check by an unrelated method: the loss density on a grid."""
    truth = float(poisson.delta(((q, s, steps),), direction, epsilon, 12))
    assert convolved_delta(q, s, steps, epsilon, direction) == pytest.approx(truth, rel=1e-7)


def convolved_delta(q, s, steps, epsilon, direction):
    """E (1 - e^(eps - L))_+ from the density of L on a fine grid, T-fold by one FFT, untilted."""
    h, size = 2.0**-14, 2**20
    losses = h * np.arange(-size // 2, size // 2)
    density = np.fft.ifftshift(loss_density(q, s, direction, losses))
    total = np.fft.irfft(np.fft.rfft(density * h) ** steps, size) / h
    return corner_integral(losses, np.fft.fftshift(total), epsilon, h)


def loss_density(q, s, direction, losses):
    """Density of L = +-log w under P (remove) or Q (add)."""
    ratio = np.exp(losses if direction == "remove" else -losses)
    inside = np.maximum((ratio - 1 + q) / q, 1e-290)
    x = s * s * np.log(inside) + 0.5
    slope = ratio * s * s / (q * inside)  # |dx / dL|
    under_q = np.exp(-x * x / (2 * s * s)) / (s * np.sqrt(2 * np.pi))
    weight = ratio if direction == "remove" else 1.0
    return np.where(inside > 1e-290, under_q * weight * slope, 0.0)


def corner_integral(grid, density, epsilon, h):
    """Trapezoid rule for (1 - e^(eps - l))_+ p(l), with the Euler-Maclaurin term of its corner."""
    above = grid > epsilon
    fraction = (grid[above][0] - epsilon) / h
    values = -np.expm1(epsilon - grid[above]) * density[above]
    slope = np.interp(epsilon, grid, density)
    bernoulli = fraction**2 - fraction + 1 / 6
    return h * values.sum() + slope * h * h * bernoulli / 2


def test_moment_quadrature_agrees_with_the_adaptive_integrator_of_arb():
    step, z = moments.Sampled(0.1, 0.8), acb(2.5, 7.0)
    with precision(160):
        ours = moments.integral(step, [(arb(0), z)], 0.0, -70.0)

        def integrand(x, analytic):
            w = 1 - step.q + step.q * ((2 * x - 1) / (2 * step.s**2)).exp()
            power = z * w.log(analytic=analytic)
            return (power - x * x / (2 * step.s**2)).exp() / (step.s * (2 * arb.pi()).sqrt())

        theirs = acb.integral(integrand, acb(-14), acb(18))
        assert ours.real.rad() < 1e-28
        assert abs(ours - theirs).upper() < 1e-27


@pytest.mark.parametrize("power", [0.0, 1.0])
def test_moments_of_order_zero_and_one_are_one(power):
    for q, s in ((0.3, 0.5), (1e-6, 2.0), (0.99, 10.0)):
        with precision(128):
            value = poisson.real_moment(moments.Sampled(q, s), power, -60.0)
        assert value.contains(1)
        assert value.rad() < 1e-24


def test_the_falling_bound_of_a_moment_really_bounds_it():
    step = moments.Sampled(0.05, 0.9)
    for power, t in ((3.0, 5.0), (8.0, 40.0), (-4.0, 300.0)):
        with precision(128):
            bound = poisson.falling_bound(step, power, t, 100)
            for factor in (1.0, 1.3, 4.0):
                moment = moments.integral(step, [(arb(0), acb(power, t * factor))], 0.0, -40.0)
                assert abs(moment).upper() <= bound


@pytest.mark.underflows
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_different_contours_give_overlapping_balls(direction):
    first = poisson.build(poisson.lay_out(ISSUE_B, direction, 1.0, 12)).delta(1.1)
    second = poisson.build(poisson.lay_out(ISSUE_B, direction, 1.3, 18)).delta(1.1)
    assert agree(first, second, 9)


def test_a_rate_near_one_approaches_the_gaussian():
    near = poisson.epsilon(((1 - 2.0**-40, 2.0, 10),), "remove", 1e-6, 12)
    exact = gaussian.epsilon(2.0, 10, 1e-6)
    assert abs(near - exact) < 1e-9


@pytest.mark.underflows
def test_equal_parts_merge():
    parts = ((0.02, 1.0, 300), (0.02, 1.0, 200))
    assert agree(
        poisson.delta(parts, "remove", 1.0, 12),
        poisson.delta(((0.02, 1.0, 500),), "remove", 1.0, 12),
        12,
    )


# --- closed forms, lattice sums, brute force ----------------------------------------------------


def test_gaussian_epsilon_inverts_delta():
    for s, steps, target in ((20.0, 1000, 1e-5), (0.1, 1, 1e-300), (1000.0, 10**8, 0.5)):
        epsilon = gaussian.epsilon(s, steps, target)
        assert gaussian.delta(s, steps, epsilon.lower()) >= ball(target) * (1 - 1e-20)
        assert gaussian.delta(s, steps, epsilon.upper()) <= ball(target) * (1 + 1e-20)


def test_gaussian_tradeoff_is_the_dual_of_the_profile():
    alpha, mu = 0.05, 2.0
    beta = gaussian.tradeoff(0.5, 1, alpha)
    for epsilon in np.linspace(-4, 8, 60):
        line = 1 - gaussian.delta_of_mu(arb(mu), arb(epsilon)) - alpha * arb(epsilon).exp()
        assert line <= beta
    best = max(
        float(1 - gaussian.delta_of_mu(arb(mu), arb(e)) - alpha * arb(e).exp())
        for e in np.linspace(1.2, 1.4, 2001)
    )
    assert best == pytest.approx(float(beta), abs=1e-9)


P, Q = [Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]


def test_randomized_response_equals_brute_force():
    for rounds in (1, 2, 3, 5):
        pairs = [(P, Q)] * rounds
        for x in (Fraction(1), Fraction(3, 2), Fraction(10)):
            exact = finite.delta(pairs, x)
            with precision(128):
                epsilon = ball(x).log()
            value = randomized.delta(log(3), rounds, epsilon)
            assert abs(value - ball(exact)) < 1e-15


def test_k_ary_randomized_response_equals_brute_force():
    p = [Fraction(3, 6), *[Fraction(1, 6)] * 3]
    q = [Fraction(1, 6), Fraction(3, 6), Fraction(1, 6), Fraction(1, 6)]
    for x in (Fraction(1), Fraction(2), Fraction(7)):
        with precision(128):
            epsilon = ball(x).log()
        value = randomized.delta(log(3), 3, epsilon, 4)
        assert abs(value - ball(finite.delta([(p, q)] * 3, x))) < 1e-15


def test_two_category_polynomial_equals_the_binomial_sum():
    with precision(256):
        polynomial = randomized.k_ary_delta_ball(0.3, 2, 40, 2.0)
    assert agree(polynomial, randomized.delta(0.3, 40, 2.0), 25)


def test_brute_force_inverse_and_tradeoff():
    pairs = [(P, Q)] * 3
    x = finite.exp_epsilon(pairs, Fraction(1, 10))
    assert finite.delta(pairs, x) == Fraction(1, 10)
    assert abs(randomized.epsilon(log(3), 3, 0.1) - ball(x).log()) < 1e-14
    beta = finite.tradeoff(pairs, Fraction(1, 10))
    assert abs(randomized.tradeoff(log(3), 3, 0.1) - ball(beta)) < 1e-14
    ratios = [Fraction(27), Fraction(3), Fraction(1), Fraction(1, 3)]
    dual = max(1 - finite.delta(pairs, x) - x / 10 for x in ratios)
    assert beta == dual


def test_ten_repetitions_of_randomized_response_are_not_one():
    assert randomized.epsilon(log(3), 10, 1e-6) > 10.98


def test_laplace_one_round_is_the_known_profile():
    for epsilon in (0.0, 0.25, 0.75):
        value = laplace.delta(1.0, 1, epsilon)
        assert abs(value - (1 - ((arb(epsilon) - 1) / 2).exp())) < 1e-14


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_laplace_rounds_follow_from_one_round_less(rounds):
    """delta_T(eps) = E delta_(T-1)(eps - L): two atoms and an ordinary integral, in floats."""
    e, epsilon = 0.8, 0.3
    nodes, weights = np.polynomial.legendre.leggauss(40)

    def before(x):
        return float(laplace.delta(1.25, rounds - 1, x, 15))

    total = 0.5 * before(epsilon - e) + 0.5 * np.exp(-e) * before(epsilon + e)
    corners = {epsilon - k * e for k in range(-rounds, rounds + 1)}
    cuts = sorted({-e, e} | {c for c in corners if -e < c < e})
    for a, b in itertools.pairwise(cuts):
        points = (a + b) / 2 + (b - a) / 2 * nodes
        values = [before(epsilon - p) * np.exp((p - e) / 2) / 4 for p in points]
        total += (b - a) / 2 * float(np.dot(weights, values))
    assert total == pytest.approx(float(laplace.delta(1.25, rounds, epsilon, 15)), rel=1e-12)


# --- Renyi --------------------------------------------------------------------------------------


def test_renyi_binomial_sum_equals_quadrature():
    for order in (2, 8, 32):
        exact = poisson_direct.renyi(0.01, 1.0, 1000, order)
        assert agree(exact, poisson.renyi(ISSUE_B, "remove", float(order)), 18)


def test_renyi_of_randomized_response_equals_brute_force():
    value = randomized.renyi(log(3), 2, 3)
    exact = ball(finite.renyi_sum([(P, Q)] * 2, 3)).log() / 2
    assert abs(value - exact) < 1e-14


def test_renyi_of_laplace_equals_integration():
    e, order = 0.8, 3
    nodes, weights = np.polynomial.legendre.leggauss(60)
    losses = e * nodes
    inner = float(np.dot(weights, np.exp((order - 1) * losses + (losses - e) / 2) / 4)) * e
    moment = 0.5 * np.exp((order - 1) * e) + 0.5 * np.exp(-e - (order - 1) * e) + inner
    expected = np.log(moment) / (order - 1)
    assert float(laplace.renyi(1.25, 1, order)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.underflows
def test_planning_is_only_planning():
    """A wrong guess of delta may widen a ball but not move it."""
    right = poisson.delta(ISSUE_B, "remove", 1.0, 12)
    layout = poisson.lay_out(
        ISSUE_B, "remove", 1.0, 12, planning.log_delta(ISSUE_B, "remove", 1.0) + 3
    )
    assert poisson.build(layout).delta(1.0).overlaps(right)
