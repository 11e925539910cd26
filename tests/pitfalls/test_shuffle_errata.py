"""Published statements about the shuffle model, each checked at an exact example.

Every test shows where the printed form fails or how it is to be read, in fractions or balls, and that
sharpdp's answer to the same question holds. The labels are in `reproduce` (see test_verdicts.py).
Papers: wang2023, chen2024; then what other programs get wrong.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb, exp, expm1, log, log1p, sqrt, tanh

import numpy as np
import pytest
from flint import arb

import sharpdp as dp
from sharpdp.bounds import published
from sharpdp.bounds.shuffle_model.published import renyi as formulas
from tests.golden.printed import near, unit
from tests.reference import finite, gaussian, shuffle
from tests.reference import shuffle_printed as printed
from tests.reference import shuffle_small as small
from tests.reference.balls import ball, precision

ODDS = Fraction(3)
GRID = [Fraction(i, 40) for i in range(41)]


def shuffled(users: int, odds: Fraction | float, randomizer: str = "shared") -> dp.Guarantee:
    """sharpdp's answer for local_epsilon = log(odds)."""
    return dp.account(
        dp.ShuffledReports(users=users, local_epsilon=log(odds), randomizer=randomizer)
    )


def worst(pair: small.Pair, x: Fraction) -> Fraction:
    """delta in the worse direction."""
    return max(finite.delta([pair], x), finite.delta([pair[::-1]], x))


def worst_response(users: int, odds: Fraction, x: Fraction) -> Fraction:
    """delta of shuffled binary randomized response, over all data sets."""
    return max(worst(small.binary(users, odds, ones), x) for ones in range(users))


def encloses(bracket: dp.Bracket, attained: Fraction, dominating: Fraction) -> bool:
    """The upper end is not below the pair (up to rounding of the question), the lower not above it.

    `attained` is what some mechanism reaches: the upper end may not be below it either.
    """
    slack = 1 + Fraction(1, 10**9)
    upper, lower = Fraction(bracket.upper), Fraction(bracket.lower)
    return upper * slack >= dominating >= attained and lower <= dominating * slack


# --- wang2023 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("users", [3, 6, 10])
@pytest.mark.parametrize("odds", [3, 6, 20])
def test_corollary_4_3_reads_minus_one_over_t(users: int, odds: int) -> None:
    """wang2023: p_i is a mass function, so l(t) = -1/t at every knot; with it the corollary holds."""
    local, rate = Fraction(odds), small.shared_rate(Fraction(odds))
    knots = printed.ratios(users)[1:]
    assert [printed.slope(users, rate, t) for t in knots] == [-1 / t for t in knots]
    corners = small.knots(small.bare_clones(users, rate))
    steep = {(fa - fb) / (b - a) for (a, fa), (b, fb) in itertools.pairwise(corners)}
    assert steep == {1 / t for t in knots}
    for x in (1 + Fraction(k * (odds - 1), 8) for k in range(1, 8)):
        claimed = printed.corollary_delta(users, local, x, printed.threshold(local, x))
        exact = finite.delta([small.clones(users, local, rate)], x)
        attained = worst_response(users, local, x)
        assert claimed >= exact >= attained
        assert encloses(shuffled(users, local).delta(epsilon=log(x)), attained, exact)


def test_corollary_4_3_at_the_knot_of_six_users() -> None:
    """6 users, E = 3, e^epsilon = 3/2: t_epsilon is a knot, where the corollary needs no reading."""
    users, odds, x = 6, ODDS, Fraction(3, 2)
    at = printed.threshold(odds, x)
    assert printed.threshold_among_knots(users, odds, x) == at == Fraction(1, 2)
    assert printed.corollary_delta(users, odds, x, at) == Fraction(153, 1024)


def test_corollary_4_3_over_knots_alone_is_one_knot_too_far() -> None:
    """wang2023: 2 users, E = 3, x = 35/12: -5/48, where randomized response attains 1/64."""
    users, x = 2, Fraction(35, 12)
    far = printed.threshold_among_knots(users, ODDS, x)
    assert far == 1 > printed.threshold(ODDS, x)
    assert printed.corollary_delta(users, ODDS, x, far) == Fraction(-5, 48)
    assert worst_response(users, ODDS, x) == Fraction(1, 64)


def test_corollary_4_3_with_the_floors_of_its_proof_is_another() -> None:
    """wang2023 Appendix C.2 puts floors into l(t): -4/3 instead of -1, and less than is attained."""
    assert printed.slope_of_the_proof(7, Fraction(1, 2), Fraction(1)) == Fraction(-4, 3)
    assert printed.slope(7, Fraction(1, 2), Fraction(1)) == -1
    users, x = 6, Fraction(3, 2)
    at = printed.threshold_among_knots(users, ODDS, x, printed.slope_of_the_proof)
    assert printed.corollary_delta(users, ODDS, x, at) < worst_response(users, ODDS, x)


def test_the_mixed_curve_is_no_bound_until_it_is_symmetrized() -> None:
    """wang2023 Theorem 4.2: the curve itself over-claims at large rates, by 0.026 for 7 users."""
    bare = small.knots(small.bare_clones(7, Fraction(1, 2)))
    exact = small.knots(small.clones(7, ODDS, Fraction(1, 2)))
    excess = [printed.mixed(bare, ODDS, a) - printed.interpolated(exact, a) for a in GRID]
    assert 0.025 < max(excess) < 0.027
    assert all(printed.symmetrized(bare, ODDS, a) <= printed.interpolated(exact, a) for a in GRID)
    curve = shuffled(7, ODDS).tradeoff()
    for a in GRID[30:31]:
        assert Fraction(curve.lower(float(a))) <= printed.interpolated(exact, a) + Fraction(
            1, 10**12
        )


@pytest.mark.parametrize("users", [2, 3, 7])
def test_equation_3_as_printed_is_a_negative_rate(users: int) -> None:
    """wang2023 (3): the middle piece is bar + f(bar) - x; printed is bar - f(bar) - x."""
    bare = small.knots(small.bare_clones(users, Fraction(1, 2)))
    bar = printed.turning(bare)
    middle = (bar + printed.mixed(bare, ODDS, bar)) / 2
    assert printed.symmetrized(bare, ODDS, middle, sign=-1) < 0
    assert printed.symmetrized(bare, ODDS, middle) == middle


SYMMETRIZED = {
    2: "0,5/8 5/8,0",
    3: "0,23/32 1/16,5/8 5/8,1/16 23/32,0",
}


@pytest.mark.parametrize("users", SYMMETRIZED)
def test_theorem_4_2_is_right_but_not_almost_the_tightest(users: int) -> None:
    """It lies between the bare curve and the exact one, and at 0 far below the exact one."""
    bare = small.knots(small.bare_clones(users, Fraction(1, 2)))
    exact = small.knots(small.clones(users, ODDS, Fraction(1, 2)))
    for text in SYMMETRIZED[users].split():
        a, b = (Fraction(part) for part in text.split(","))
        assert printed.symmetrized(bare, ODDS, a) == b
    for a in GRID:
        value = printed.symmetrized(bare, ODDS, a)
        assert printed.interpolated(bare, a) * (a <= bare[-1][0]) <= value
        assert value <= printed.interpolated(exact, a)
    assert printed.interpolated(exact, Fraction(0)) == 1
    assert (
        printed.corollary_delta(users, ODDS, Fraction(2), printed.threshold(ODDS, Fraction(2)))
        == {2: Fraction(3, 8), 3: Fraction(9, 32)}[users]
    )


def test_theorem_4_2_for_one_user_forgets_the_local_guarantee() -> None:
    """It allows a false-negative rate of 1/2 at no false positives; the randomizer allows none."""
    bare = small.knots(small.bare_clones(1, Fraction(1, 2)))
    assert printed.symmetrized(
        [(Fraction(0), Fraction(0)), *bare[1:]], ODDS, Fraction(0)
    ) == Fraction(1, 2)
    bracket = shuffled(1, ODDS).fnr(fpr=1e-12)
    assert 1 - 1e-11 < bracket.lower <= bracket.upper < 1.0


@pytest.mark.parametrize(
    ("users", "local", "epsilon", "theorem", "exact"),
    [
        (10**4, 4.444, 0.5, "3.03086166696e-6", "2.74463804649e-6"),
        (10**4, 4.444, 0.6, "1.27109926196e-7", "1.08440971090e-7"),
        (10**4, 4.444, 0.8, "8.70092358327e-11", "6.24305446380e-11"),
        (10**4, 4.444, 1.0, "2.44552070902e-14", "1.37458264027e-14"),
        (1000, 1.0, 0.1, "1.32092640e-4", "8.20116625e-5"),
        (1000, 1.0, 0.2, "3.66440824e-8", "2.26567267e-9"),
        (1000, 4.0, 1.0, "4.54991722e-4", "3.81046783e-4"),
    ],
)
def test_theorem_4_2_loses_up_to_a_factor_of_16(
    users: int, local: float, epsilon: float, theorem: str, exact: str
) -> None:
    """wang2023 calls it near-optimal, as it is in epsilon; the exact pair costs no more to compute."""
    with precision(400):
        odds, x = ball(local).exp(), ball(epsilon).exp()
        w = 1 / (odds + 1)
        g = (x - 2 * w) / (1 - 2 * w)  # H_g of the bare pair, from the exact pair at another level
        level = ((1 - w) * g + w) / ((1 - w) + w * g)
        bare = shuffle.delta(users, local, level.log()) / (1 - w - level * w)
        assert near((1 - 2 * w) * bare, theorem)
    answer = dp.account(dp.ShuffledReports(users=users, local_epsilon=local))
    upper = answer.delta(epsilon=epsilon).upper
    assert (
        Fraction(exact) - unit(exact) <= Fraction(upper) <= Fraction(exact) * (1 + Fraction(2e-3))
    )
    assert arb(upper) >= shuffle.delta(users, local, epsilon)
    sharper = answer.epsilon(delta=float(theorem)).upper
    assert sharper < epsilon < sharper * (1.014 if users == 10**4 else 1.125)


def test_the_closed_form_row_of_table_1_is_for_another_local_epsilon() -> None:
    """wang2023 Table 1, first row: 0.9494 at 0.5 belongs to 4.44448, not to 4.444."""

    def closed(local: float, epsilon: float) -> float:
        excess, users = expm1(epsilon) / expm1(local), 10**4
        root = (excess - 4 / users) * sqrt((exp(local) + 1) * users) / 4
        return 4 * exp(-root * root / 2)

    assert round(closed(4.444478461269134, 0.5), 4) == 0.9495  # printed 0.9494, truncated
    assert round(closed(4.444478461269134, 0.6), 4) == 0.3764
    assert round(closed(4.444, 0.6), 4) == 0.3759


def test_proposition_6_4_needs_a_symmetric_pair() -> None:
    """P0 = (5/7, 2/7, 0), Q0 = (0, 5/6, 1/6), w = 1/5: the claimed curve is 0.075 too high."""
    p0 = [Fraction(5, 7), Fraction(2, 7), Fraction(0)]
    q0 = [Fraction(0), Fraction(5, 6), Fraction(1, 6)]
    w, at = Fraction(1, 5), Fraction(13, 30)
    pair = mixtures(p0, q0, w, 1 - w)
    truth = value(pair, at)
    bare = small.knots((p0, q0))
    mixed = [(a, 2 * w * (1 - a) + (1 - 2 * w) * b) for a, b in [*bare, (Fraction(1), Fraction(0))]]
    claimed = printed.interpolated(printed.hull(mixed), at)
    assert round(float(claimed - truth), 4) == 0.0754
    assert_exact(pair, at)


def mixtures(a: list[Fraction], b: list[Fraction], w: Fraction, v: Fraction) -> small.Pair:
    """((1-w) a + w b, (1-v) a + v b)."""
    return (
        [(1 - w) * x + w * y for x, y in zip(a, b, strict=True)],
        [(1 - v) * x + v * y for x, y in zip(a, b, strict=True)],
    )


def value(pair: small.Pair, fpr: Fraction) -> Fraction:
    """T(P, Q) at this rate."""
    return printed.interpolated(small.knots(pair), fpr)


def assert_exact(pair: small.Pair, fpr: Fraction) -> None:
    """sharpdp's curve for the two laws themselves is no higher than the truth."""
    p, q = ([float(x) for x in side] for side in pair)
    bracket = dp.account(dp.FinitePair(p=p, q=q)).fnr(fpr=float(fpr))
    both = min(value(pair, fpr), value(pair[::-1], fpr))
    assert bracket.lower - 1e-12 <= both <= bracket.upper + 1e-12


def test_proposition_6_1_is_about_a_mixture_of_laws() -> None:
    """Q1 = Q2 = Bern(1/2), P1 = Bern(1/5), P2 = Bern(4/5): the mixture is 3/4, the parts give 15/32.

    The sum of ratios is 1 everywhere, like the ratio of the mixture; the law of p_I/q_I is another, and
    under that reading the condition fails as it should. It holds for components on disjoint sets.
    """
    half = [Fraction(1, 2)] * 2
    p = [Fraction(1, 5), Fraction(4, 5)]
    mixture = (half, half)  # (P1 + P2) / 2 = Bern(1/2) as well
    assert value(mixture, Fraction(1, 4)) == Fraction(3, 4)
    released = ([x / 2 for x in (*p, *p[::-1])], [x / 2 for x in (*half, *half)])
    assert value(released, Fraction(1, 4)) == Fraction(15, 32)
    assert {(a + b) / (2 * c) for a, b, c in zip(p, p[::-1], half, strict=True)} == {1}
    assert law_of_the_ratio(*mixture) == {1: 1}
    assert law_of_the_ratio(*released) == {
        Fraction(8, 5): Fraction(4, 5),
        Fraction(2, 5): Fraction(1, 5),
    }


def law_of_the_ratio(p: list[Fraction], q: list[Fraction]) -> dict[Fraction, Fraction]:
    """The law of p/q under p."""
    found: dict[Fraction, Fraction] = {}
    for a, b in zip(p, q, strict=True):
        found[a / b] = found.get(a / b, Fraction(0)) + a
    return found


def test_proposition_b_1_is_false_at_equal_rates() -> None:
    """P1 = Q1 = a, P2 = b, Q2 = c, weights 1/2: the mixture has 1/4 at 1/4, not 3/8.

    With each curve at the rate of a common threshold, as in Lemma 3.1, it is an equality here: at 1/2
    of T(a, a) and 0 of T(b, c), whose mean is the rate 1/4.
    """
    half, zero = Fraction(1, 2), Fraction(0)
    pair = ([half, half, zero], [half, zero, half])
    at = Fraction(1, 4)
    claimed = half * (1 - at) + half * 0  # T(a, a) = 1 - x and T(b, c) = 0
    assert value(pair, at) == Fraction(1, 4)
    assert claimed == Fraction(3, 8)
    assert half * (1 - half) + half * 0 == value(pair, half * half + half * zero)
    assert_exact(pair, at)


def test_lemma_6_3_at_equal_gamma_and_eta() -> None:
    """P1=(0,1), Q1=(1,0), P2=(3/8,5/8), Q2=(5/8,3/8), w = 2/5: T = 0.15, claimed 0.34."""
    one, zero = Fraction(1), Fraction(0)
    p1, q1 = [zero, one], [one, zero]
    p2, q2 = [Fraction(3, 8), Fraction(5, 8)], [Fraction(5, 8), Fraction(3, 8)]
    w, at = Fraction(2, 5), Fraction(3, 20)
    p, _ = mixtures(p1, p2, w, w)
    q, _ = mixtures(q1, q2, w, w)
    rates = {a for pair in ((p1, q), (p2, q)) for a, _ in small.knots(pair)}
    parts = [
        (a, (1 - w) * value((p1, q), a) + w * value((p2, q), a))
        for a in sorted({*rates, Fraction(1)})
    ]
    claimed = printed.interpolated(printed.hull(parts), at)
    assert value((p, q), at) == Fraction(3, 20)
    assert claimed == Fraction(17, 50)
    assert_exact((p, q), at)


def conjugate(pair: small.Pair, y: Fraction, stretch: Fraction) -> Fraction:
    """sup of x y - F(x) with F(x) = T(P, Q)(stretch x): at a knot, since the curve is a polyline."""
    return max(a / stretch * y - b for a, b in [*small.knots(pair), (Fraction(1), Fraction(0))])


def test_lemma_6_3_between_gamma_and_eta() -> None:
    """The same laws, gamma = 1/5, eta = 3/5, by its conjugates: at 3/20 it claims 69/400, T is 3/20."""
    one, zero = Fraction(1), Fraction(0)
    p = [[zero, one], [Fraction(3, 8), Fraction(5, 8)]]
    q = [[one, zero], [Fraction(5, 8), Fraction(3, 8)]]
    w, gamma, eta, at = Fraction(2, 5), Fraction(1, 5), Fraction(3, 5), Fraction(3, 20)
    stretch = [(1 - w) * (eta - gamma) / (eta - w), w * (eta - gamma) / (w - gamma)]
    weight = [[(1 - w) * (1 - gamma), (1 - w) * gamma], [w * (1 - eta), w * eta]]
    places = list(itertools.product(range(2), range(2)))
    slopes = {Fraction(0), Fraction(-(10**6))}  # those of the F_ij, where the supremum is attained
    for i, j in places:
        for (a, fa), (b, fb) in itertools.pairwise(small.knots((p[i], q[j]))):
            if b > a:
                slopes.add((fb - fa) / (b - a) * stretch[i])

    def claimed(x: Fraction) -> Fraction:
        return max(
            x * y - sum(weight[i][j] * conjugate((p[i], q[j]), y, stretch[i]) for i, j in places)
            for y in slopes
        )

    corners = [(x, claimed(x)) for x in (Fraction(k, 400) for k in range(401))]
    null, _ = mixtures(p[0], p[1], w, w)
    alternative, _ = mixtures(q[0], q[1], w, w)
    assert value((null, alternative), at) == Fraction(3, 20)
    assert claimed(at) == Fraction(37, 200)
    assert printed.interpolated(printed.hull(corners), at) == Fraction(69, 400)


def test_proposition_e_1_needs_curves_against_the_common_part_too() -> None:
    """P0 disjoint from P1 = (3/4, 1/4), Q1 = (1/4, 3/4), w = 1/2, at 7/60: T = 0.65, claimed 0.7667."""
    half, at = Fraction(1, 2), Fraction(7, 60)
    p = [Fraction(3, 8), Fraction(1, 8), half]
    q = [Fraction(1, 8), Fraction(3, 8), half]
    inner = ([Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)])
    assert value((p, q), at) == Fraction(13, 20)
    claimed = half * (1 - at) + half * value(inner, at)
    assert round(float(claimed), 4) == 0.7667
    assert_exact((p, q), at)


# --- chen2024 ---------------------------------------------------------------------------------------


def test_theorem_1_is_about_another_pair_as_printed() -> None:
    """chen2024 Theorem 1: (A, C - A + D) against (A + D, C - A) has infinite Renyi divergence."""
    users, rate = 4, 1 / ODDS
    p: dict[tuple[int, ...], Fraction] = {}
    q: dict[tuple[int, ...], Fraction] = {}
    for c, weight in enumerate(printed.clones_law(users, rate)):
        for a in range(c + 1):
            for d, chance in ((0, 1 - rate), (1, rate)):
                mass = weight * printed.coins(c, a) * chance
                p[a, c - a + d] = p.get((a, c - a + d), Fraction(0)) + mass
                q[a + d, c - a] = q.get((a + d, c - a), Fraction(0)) + mass
    assert any(mass > 0 and q.get(point, 0) == 0 for point, mass in p.items())
    answer = shuffled(users, ODDS, "individual").renyi(order=2.0)
    assert answer.upper < 2 * log(3)


def chen_curve(users: int, t: Fraction, sign: int, first: int) -> tuple[Fraction, Fraction]:
    """chen2024 Theorem 1 at one threshold: (alpha, h); `first` is where its sum over v starts."""
    q, p = 1 / (ODDS + 1), 1 / ODDS
    alpha = last = Fraction(0)
    for v, weight in enumerate(printed.clones_law(users, p)):
        for a in range(v + 1):
            mass = weight * printed.coins(v, a)
            alpha += (1 - q) * mass * (a > t * (v - a + 1)) + q * mass * (a + 1 > t * (v - a))
        k = (t * v - 1) // (t + 1) + 1
        last += weight * printed.coins(v, int(k)) * (v >= first)
    return alpha, 1 - alpha - sign * (1 - 2 * q) * last


@pytest.mark.parametrize("t", [Fraction(1, 2), Fraction(1), Fraction(3, 2)])
def test_theorem_1_with_the_printed_sign_is_better_than_perfect_privacy(t: Fraction) -> None:
    """chen2024: c0 must be + tanh(local_epsilon / 2); and the sum must start at v = 0."""
    users = 5
    alpha, claimed = chen_curve(users, t, -1, 1)
    assert claimed > 1 - alpha
    truth = value(small.clones(users, ODDS, 1 / ODDS), alpha)
    assert chen_curve(users, t, 1, 0) == (alpha, truth)
    _, without = chen_curve(users, t, 1, 1)
    assert without - truth == (1 - 2 / (ODDS + 1)) * (1 - 1 / ODDS) ** (users - 1)
    assert_near_curve(users, alpha, truth)


def assert_near_curve(users: int, alpha: Fraction, truth: Fraction) -> None:
    curve = shuffled(users, ODDS, "individual").tradeoff()
    assert Fraction(curve.lower(float(alpha))) <= truth + Fraction(1, 10**12)


def test_theorem_1_prints_a_law_that_does_not_sum_to_one() -> None:
    """chen2024: P(A = k | C = v) = C(v, k) (1/2)^k sums to (3/2)^v."""
    v = 4
    total = sum(printed.coins(v, k) * 2**v / Fraction(2) ** k for k in range(v + 1))
    assert total == Fraction(3, 2) ** v


def test_a_mixture_of_two_laws_is_not_one_of_them() -> None:
    """chen2024 (18): T(P2, Q2) = T(P, Q) is 0.97 against 0.565 at 0.01 (6 users, E = 3)."""
    at = Fraction(1, 100)
    mixed = value(small.clones(6, ODDS, 1 / ODDS), at)
    bare = value(small.bare_clones(6, 1 / ODDS), at)
    assert float(mixed) == 0.97
    assert round(float(bare), 3) == 0.565


@pytest.mark.parametrize(
    ("users", "local", "order", "attained", "claimed"),
    [
        (100, 4.0, 2, "2.282932", "2.205986"),
        (1000, 4.0, 16, "2.790005", "1.748890"),
        (1000, 3.0, 32, "1.432711", "1.286761"),
    ],
)
def test_corollary_2_is_below_binary_randomized_response(
    users: int, local: float, order: int, attained: str, claimed: str
) -> None:
    """chen2024 Corollary 2: 2 E order / (n - 1) is exceeded by a mechanism that people run."""
    truth = shuffle.binary_renyi(users, local, order, 0)
    assert near(truth, attained)
    run = dp.ShuffledReports(users=users, local_epsilon=local)
    estimate = formulas.gaussian_limit_renyi(run, float(order))
    assert near(estimate, claimed)
    answer = dp.account(run).renyi(order=float(order))
    assert estimate < answer.lower <= float(truth.upper()) * (1 + 1e-12)
    assert answer.upper >= truth


def test_one_line_that_refutes_corollary_2() -> None:
    """If all reports agree: D >= (order e - (n-1) log(1 + 1/E) - log(1 + E)) / (order - 1)."""
    users, local, order = 3000, 3.0, 0.7 * 2999 * exp(-3.0)
    floor = order * local - (users - 1) * log1p(exp(-local)) - log1p(exp(local))
    floor /= order - 1
    assert floor > 2 * exp(local) * order / (users - 1)
    assert shuffle.binary_renyi(users, local, order, 0) > floor
    answer = dp.account(dp.ShuffledReports(users=users, local_epsilon=local))
    assert answer.renyi(order=order).upper >= floor


def test_limits_are_told_from_bounds() -> None:
    """`compare` calls them approximate, whatever side they are meant for."""
    found = {one.name: one.rigor for one in published.all_formulas()}
    limits = [name for name in found if "limit" in name]
    assert limits
    assert {found[name] for name in limits} == {dp.Rigor.APPROXIMATE}


@pytest.mark.parametrize(
    ("users", "local", "epsilon", "corrected", "claimed", "shared"),
    [
        (1000, 4.0, 2.81, False, "2.7e-10", "1.1e-8"),
        (10**4, 4.444, 0.641, True, "9.4e-9", "2.6e-8"),
    ],
)
def test_gaussian_limits_are_below_the_truth(
    users: int, local: float, epsilon: float, corrected: bool, claimed: str, shared: str
) -> None:
    """chen2024 Theorem 2, and its corrected limit, at a small delta."""
    rate = 2 / (exp(local) + 1)
    mu = 2 * exp(local / 2) / sqrt(users - 1)
    if corrected:
        mu = 2 * tanh(local / 2) / sqrt((users - 1) * rate)
    limit = gaussian.delta_of_mu(arb(mu), arb(epsilon))
    assert near(limit, claimed)
    truth = shuffle.delta(users, local, epsilon)
    assert near(truth, shared)
    attained = shuffle.ternary_delta(users, local, epsilon)
    assert attained > limit
    bracket = dp.account(dp.ShuffledReports(users=users, local_epsilon=local)).delta(
        epsilon=epsilon
    )
    assert arb(bracket.upper) >= truth
    assert limit < arb(bracket.lower) <= truth


def test_a_limit_at_a_large_local_epsilon_claims_half_the_truth() -> None:
    """10^4 users, local epsilon 7, delta 1e-6: 3.08 is claimed, 6.46 is attained."""
    run = dp.ShuffledReports(users=10**4, local_epsilon=7.0)
    assert near(formulas.gaussian_limit(run, 1e-6), "3.08", 2)
    assert dp.account(run).epsilon(delta=1e-6).lower > 6.46


@pytest.mark.parametrize("order", [2, 4, 16])
def test_girgis_bound_as_printed_is_below_its_own_lower_bound(order: int) -> None:
    """chen2024 (5) prints (local_epsilon - 1)^2, which is 0 at 1; meant is (E - 1)^2."""
    users, local = 10**4, 1.0
    blanket = int((users - 1) / (2 * exp(local))) + 1
    claimed = log(
        exp(order**2 * (local - 1) ** 2 / blanket)
        + exp(local * order - (users - 1) / (8 * exp(local)))
    ) / (order - 1)
    attained = log1p(order * (order - 1) * expm1(local) ** 2 / (2 * users * exp(local))) / (
        order - 1
    )
    assert claimed < attained
    run = dp.ShuffledReports(users=users, local_epsilon=local)
    assert formulas.binary_moments_lower(run, order) == pytest.approx(attained, rel=1e-9)
    assert formulas.moments_upper(run, order) > attained


def test_corollary_2_is_not_tighter_for_small_local_epsilon() -> None:
    """chen2024 calls it significantly tighter than (5): not below 0.535, and it does not vanish."""
    users = 10**4
    for local, order in ((0.5, 2.0), (0.6, 4.0), (0.65, 16.0)):
        run = dp.ShuffledReports(users=users, local_epsilon=local)
        assert formulas.gaussian_limit_renyi(run, order) > formulas.moments_upper(run, order)
    silent = dp.ShuffledReports(users=users, local_epsilon=1e-5)
    assert formulas.gaussian_limit_renyi(silent, 2.0) > 4e-4
    assert dp.account(silent).renyi(order=2.0).upper < 1e-12


# A loss that counts, for Theorem 3: clip 10, local epsilon 1, step 1. Every block moves theta to the
# nearest multiple of 2 HALF; the target's moves it further by HALF - C/m, or HALF + C/m with the changed
# record. Noise has the scale 2C/m, so one of the two is above HALF with probability 1 - e^(-1/2)/2.
CLIP = 10.0
COUNTING = [(100, 600, 25.0), (600, 100, 0.8)]
"""Blocks, records of a block, HALF; Table 2 says m = 100 and "batch size", which leaves two readings."""


def binomial(count: int, rate: arb) -> list[arb]:
    return [arb(comb(count, k)) * rate**k * (1 - rate) ** (count - k) for k in range(count + 1)]


@pytest.mark.parametrize("passes", [1, 2, 50])
@pytest.mark.parametrize(("blocks", "size", "half"), COUNTING)
def test_theorem_3_fails_for_the_last_iterate(
    blocks: int, size: int, half: float, passes: int
) -> None:
    """chen2024 Theorem 3: 0.5497 a pass of order 2 in the last iterate alone, where 0.1098 is claimed."""
    with precision(300):
        change = arb(2 * CLIP) / blocks
        assert 2 * half + change / 2 <= arb(size) * CLIP / blocks  # no block moves further
        strayed = blocks * passes * (-(half - change / 2) / change).exp()  # some noise as large
        flip = (-arb(1) / 2).exp() / 2
        p, q = binomial(passes, 1 - flip), binomial(passes, flip)
        moment = sum(
            (a - strayed) ** 2 / (b + strayed) for a, b in zip(p, q, strict=True) if a > strayed
        )
        claimed = 2 * passes * arb(1).exp() * 2 / (blocks - 1)
        assert moment.log() > 3 * claimed
        if blocks == 100:
            assert near(moment.log(), {1: "0.549686", 2: "1.09937", 50: "27.4843"}[passes])
            assert near(claimed, {1: "0.109830", 2: "0.219659", 50: "5.49148"}[passes])
            most = dp.account(dp.Laplace(scale=1.0) * passes).renyi(order=2.0)
            assert moment.log() < most.upper


@pytest.mark.parametrize(("blocks", "size", "half"), COUNTING)
def test_the_run_behind_theorem_3_is_algorithm_1(blocks: int, size: int, half: float) -> None:
    """Records clipped one by one, the sum divided by m, noise of scale 2C/(eps0 m): as computed above."""
    rng, runs, passes = np.random.default_rng(0), 5000, 2

    def moved(theta: np.ndarray, record: np.ndarray | float, others: np.ndarray) -> np.ndarray:
        total = np.clip(record, -CLIP, CLIP) + (size - 1) * np.clip(others, -CLIP, CLIP)
        return theta - total / blocks - rng.laplace(0.0, 2 * CLIP / blocks, runs)

    for changed, up in ((CLIP, exp(-0.5) / 2), (-CLIP, 1 - exp(-0.5) / 2)):
        theta = np.zeros(runs)
        for _ in range(passes):
            place = rng.integers(blocks, size=runs)
            for step in range(blocks):
                pull = (theta - 2 * half * np.rint(theta / (2 * half))) * blocks
                other = moved(theta, pull / size, pull / size)
                target = moved(theta, changed, (pull - half * blocks) / (size - 1))
                theta = np.where(place == step, target, other)
        counts = np.bincount(np.rint(theta / (2 * half)).astype(int), minlength=passes + 1) / runs
        wanted = [(1 - up) ** 2, 2 * up * (1 - up), up**2]
        assert counts == pytest.approx(wanted, abs=5 * sqrt(0.25 / runs))


def test_noise_for_one_record_does_not_cover_a_block() -> None:
    """chen2024 Theorem 3, all block results seen, far apart: the Laplace mechanism, 0.619 not 0.110."""
    claimed = 2 * exp(1.0) * 2 / 99
    assert near(claimed, "0.109830")
    answer = dp.account(dp.Laplace(scale=1.0)).renyi(order=2.0)
    assert near(answer.upper, "0.619124")
    assert answer.lower > 5 * claimed


# --- what is easily taken for granted ---------------------------------------------------------------


def test_all_others_at_zero_is_not_the_worst_data_set_of_binary_response() -> None:
    """4 users, local epsilon 1/2, epsilon 0.14: two others holding 1 give a delta 23 % larger."""
    odds, x = Fraction(exp(0.5)), Fraction(exp(0.14))
    by_ones = [worst(small.binary(4, odds, ones), x) for ones in range(4)]
    assert round(float(by_ones[2] / by_ones[0]), 2) == 1.23
    assert by_ones[1] == by_ones[2] > by_ones[0] == by_ones[3]
    exact = finite.delta([small.clones(4, odds, small.shared_rate(odds))], x)
    assert by_ones[2] < exact
    bracket = dp.account(dp.ShuffledReports(users=4, local_epsilon=0.5)).delta(epsilon=0.14)
    assert encloses(bracket, by_ones[2], exact)


def test_users_who_bring_their_own_labels_are_not_hidden() -> None:
    """Different randomizers are covered by place in a random order, never by user.

    If nobody else uses the victim's labels, mixing the reports hides nothing: delta is that of the
    victim's randomizer alone, above what the rate 1/E says for randomizers by place.
    """
    response = small.randomized_response(2, ODDS)
    labeled = small.own_labels(response, 3)
    by_place = small.clones(3, ODDS, small.individual_rate(ODDS))
    for x in (Fraction(1), Fraction(3, 2), Fraction(2)):
        alone = finite.delta([(list(response[0]), list(response[1]))], x)
        assert finite.delta([labeled], x) == alone > finite.delta([by_place], x)


# --- what other programs get wrong --------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.9, 1.0, 1.5, 2.0, 3.0, 4.4])
def test_small_deltas_have_no_floor(epsilon: float) -> None:
    """One minus a distribution function stops at 1e-16, and slightly below the truth before that."""
    run = dp.ShuffledReports(users=10**4, local_epsilon=4.444)
    truth = shuffle.delta(10**4, 4.444, epsilon)
    bracket = dp.account(run).delta(epsilon=epsilon)
    assert truth <= arb(bracket.upper) <= truth * 1.002


def test_a_tiny_delta_does_not_mean_the_local_epsilon() -> None:
    """A program that drops tails returns local_epsilon whenever delta < n 1e-19."""
    run = dp.ShuffledReports(users=10**6, local_epsilon=2.0)
    bracket = dp.account(run).epsilon(delta=1e-20)
    assert bracket.upper < 0.03
    assert shuffle.delta(10**6, 2.0, bracket.upper, digits=12) <= 1e-20


def test_asking_for_a_narrower_bracket_never_widens_it() -> None:
    """A truncation term that is added once it falls below delta makes finer steps worse."""
    run = dp.ShuffledReports(users=10**5, local_epsilon=1.0)
    ends = [dp.account(run, relative_width=w).epsilon(delta=1e-8).upper for w in (1e-2, 1e-4, 1e-6)]
    assert ends[2] <= ends[1] * (1 + 1e-9)
    assert ends[1] <= ends[0] * (1 + 1e-9)
    assert shuffle.delta(10**5, 1.0, ends[2]) <= 1e-8


def test_epsilon_grows_with_the_root_of_the_rounds() -> None:
    """A wrong factor makes epsilon grow linearly; 100 rounds cost about 10 times one."""
    one = dp.account(dp.ShuffledReports(users=10**4, local_epsilon=1.0)).epsilon(delta=1e-6)
    many = dp.account(dp.ShuffledReports(users=10**4, local_epsilon=1.0, rounds=100)).epsilon(
        delta=1e-6
    )
    assert 9 < many.upper / one.upper < 13
