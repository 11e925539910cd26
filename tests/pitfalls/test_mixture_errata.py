"""Statements of wang2023 about mixtures, each checked at an example.

Every test shows where the printed form fails, or how it is to be read, and that sharpdp's form of the
same statement holds. The labels are in `reproduce.wang2023`.
Numbers in brackets count the errata of the paper. Those about the shuffle model, (1), (2), (18), (19)
and the counterexamples of (8), are in test_shuffle_errata.py; (10), (11) and (15) are in
test_initialization_errata.py.
(17), a slip of words about errors of the second kind, leaves nothing to compute.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import cos, pi, sqrt
from statistics import NormalDist

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.curves.mixtures.advanced_joint_concavity import advanced, transposed
from sharpdp.curves.mixtures.inequalities import (
    averaged,
    coupled,
    diluted,
    hidden,
    nothing_lost,
    released,
    subsampled,
    swapped,
    swapped_bound,
)
from sharpdp.curves.tradeoff import Polyline
from sharpdp.curves.tradeoff.divergences import of_function, power_sum
from tests.reference import shuffle_printed as printed
from tests.reference import shuffle_small as small
from tests.reference.tests_of_pairs import hockey_stick, tradeoff

F = Fraction
HALF, ZERO, ONE = F(1, 2), F(0), F(1)
T = Polyline.from_pmfs
NORMAL = NormalDist()
Law = list[Fraction]


def ours(laws: list[tuple[Law, Law]]) -> list[tuple[Law, Law]]:
    """Printed pairs (P_i, Q_i) have P_i as the null, which sharpdp calls Q and puts second."""
    return [(q, p) for p, q in laws]


# --- (7): the curve of the bare shuffle pair --------------------------------------------------------


def test_the_errors_of_the_second_kind_lack_their_complement() -> None:
    """(7): printed is beta = sum of w_i F_i(s_i + 1), which rises with alpha."""
    users = 5
    curve = T(*small.bare_clones(users, HALF))
    for t in (F(1, 2), ONE, F(2)):
        alpha, beta = printed.bare_errors(users, HALF, t)
        claimed = sum(
            weight * printed.coins_at_most(i, int((t * i - 1) // (t + 1)) + 1)
            for i, weight in enumerate(printed.clones_law(users, HALF))
        )
        assert claimed == 1 - beta
        assert curve(alpha) == beta != claimed


def test_the_ratio_of_the_bare_pair_is_a_over_b() -> None:
    """(7): with A_i = a - 1 above and below, as printed, it would be one everywhere."""
    p, q = small.bare_clones(4, HALF)
    ratios = {x / y for x, y in zip(p, q, strict=True) if y}
    assert ratios == set(printed.ratios(4)) != {ONE}


# --- (4), (5), (16): divergences --------------------------------------------------------------------


def variation(p: list[Fraction], q: list[Fraction]) -> Fraction:
    return hockey_stick(p, q, ONE)


def test_proposition_3_3_lacks_the_weights_in_its_middle_term() -> None:
    """(4): the middle term counts every component once; the two sides have it with its weight."""
    pair = ([F(3, 4), F(1, 4)], [F(1, 4), F(3, 4)])
    laws, weights = [pair, pair, pair], [F(1, 3)] * 3
    right = sum(w * variation(*one) for w, one in zip(weights, laws, strict=True))
    middle = sum(variation(*one) for one in laws)
    assert right == HALF < middle == F(3, 2)
    joint = released([T(*one) for one in laws], weights)
    assert joint.advantage() == right >= hidden(ours(laws), weights).advantage()


def test_the_rate_of_a_slope_is_taken_at_minus_t() -> None:
    """(4): alpha_i = (f_i')^-1(t) has no solution at t > 0: slopes are never positive."""
    curve = T([HALF, HALF], [F(1, 4), F(3, 4)])
    assert max(-drop / width for width, drop in curve.segments) <= 0
    t = F(3, 2)
    assert t in {drop / width for width, drop in curve.segments}


def test_divergences_with_the_printed_sign_of_the_change_of_variables_are_negative() -> None:
    """(4): alpha falls as t rises, so dalpha/dt is negative, and F >= 0 integrates to less than 0."""
    mu = 1.0

    def alpha(log_t: float) -> float:  # rate of the test at the ratio t, N(0, 1) against N(1, 1)
        return NORMAL.cdf(-log_t / mu - mu / 2)

    grid = np.linspace(-8.0, 8.0, 1601)
    steps = np.diff([alpha(one) for one in grid])
    middle = np.exp(0.5 * (grid[:-1] + grid[1:]))
    claimed = float(np.sum(0.5 * np.abs(1.0 / middle - 1.0) * middle * steps))
    truth = 2 * NORMAL.cdf(mu / 2) - 1
    assert claimed == pytest.approx(-truth, abs=1e-4)
    assert dp.account(dp.Gaussian(1.0)).advantage().upper == pytest.approx(truth, rel=1e-3)


def test_f_at_zero_is_the_limit_of_f() -> None:
    """(5): with lim F(s)/s, half the absolute difference would be infinite at a mass of zero."""
    null, alternative = [ZERO, ONE], [F(1, 4), F(3, 4)]
    curve = T(null, alternative)

    def half_difference(s: float) -> float:
        return abs(s - 1) / 2

    right = of_function(curve, half_difference, at_zero=0.5, at_infinity=0.5)
    assert right == pytest.approx(float(variation(null, alternative))) == 0.25
    assert all(half_difference(s) / s > 0.4 / s for s in (1e-3, 1e-6, 1e-9))  # no limit


def test_the_power_divergence_is_not_the_exponential_of_renyi() -> None:
    """(16): F(s) = (s^a - a (s - 1) - 1) / (a (a - 1)) gives (e^((a-1) R) - 1) / (a (a - 1))."""
    p, q, order = [F(3, 4), F(1, 4)], [F(1, 4), F(3, 4)], 3
    moment = sum(a**order / b ** (order - 1) for a, b in zip(p, q, strict=True))
    curve = T(p, q)

    def power(s: float) -> float:
        return (s**order - order * (s - 1) - 1) / (order * (order - 1))

    ends = {"at_zero": power(0.0), "at_infinity": float("inf")}
    assert of_function(curve, power, **ends) == pytest.approx(float(moment - 1) / 6)
    assert power_sum(curve, order) == moment


# --- (6), (9): thresholds and the order of experiments ----------------------------------------------


def test_a_test_that_rejects_at_small_ratios_is_the_worst_one() -> None:
    """(6): the proof of Proposition B.2 has alpha = P[q/p < t]; with it f' = -t fails."""
    p, q = [HALF, F(1, 4), F(1, 4)], [F(1, 8), F(1, 4), F(5, 8)]
    t = ONE
    claimed = sum(a for a, b in zip(p, q, strict=True) if b < t * a)
    beta = sum(b for a, b in zip(p, q, strict=True) if b <= t * a)
    right = sum(a for a, b in zip(p, q, strict=True) if b > t * a)
    curve = T(p, q)
    assert curve(right) == beta == tradeoff(p, q, right)
    assert curve(claimed) != beta
    slopes = {x: drop / width for x, (width, drop) in zip(curve.fpr, curve.segments, strict=False)}
    assert slopes[right] <= t  # to the right of the knot; to its left the ratio is 5/2


def test_the_mixture_is_a_function_of_the_released_pair_not_the_other_way_round() -> None:
    """(9): equal laws stay equal under every channel, so (P_w, Q_w) cannot give (P_I, Q_I) back."""
    laws = [([ONE, ZERO], [ZERO, ONE]), ([ZERO, ONE], [ONE, ZERO])]
    weights = [HALF, HALF]
    assert hidden(ours(laws), weights) == Polyline.perfect()
    curve = released([T(*one) for one in laws], weights)
    assert curve.advantage() == 1
    assert curve <= hidden(ours(laws), weights)
    kept = dp.Mixture(
        components=[
            dp.FinitePair(p=[1.0, 0.0], q=[0.0, 1.0]),
            dp.FinitePair(p=[0.0, 1.0], q=[1.0, 0.0]),
        ],
        weights=[0.5, 0.5],
    )
    assert dp.account(kept).advantage().upper == 0.0


# --- (8): the inequalities that we use, at the examples of repaired.md ------------------------------


def test_proposition_6_1_at_points() -> None:
    """Read as a sum of ratios the condition holds here, ours does not, and the curves do differ."""
    even, low, high = [HALF, HALF], [F(4, 5), F(1, 5)], [F(1, 5), F(4, 5)]
    laws, weights = [(low, even), (high, even)], [HALF, HALF]
    for x in range(2):  # p_w / q_w = sum of w_i p_i / q_i at every point
        mixed = (low[x] + high[x]) / (2 * HALF) / 2
        assert mixed / HALF == HALF * low[x] / even[x] + HALF * high[x] / even[x]
    assert not nothing_lost(ours(laws), weights)
    at = F(1, 4)
    assert hidden(ours(laws), weights)(at) == F(3, 4)
    assert released([T(*one) for one in laws], weights)(at) == F(15, 32)


def test_disjoint_components_meet_the_printed_condition_and_ours() -> None:
    """Disjoint components meet the printed condition in every reading, and ours."""
    laws = [([ONE, ZERO, ZERO], [ONE, ZERO, ZERO]), ([ZERO, ONE, ZERO], [ZERO, ZERO, ONE])]
    weights = [F(1, 3), F(2, 3)]
    assert nothing_lost(ours(laws), weights)
    assert hidden(ours(laws), weights) == released([T(*one) for one in laws], weights)


def test_proposition_b_1_at_a_common_threshold() -> None:
    a, b, c = [ONE, ZERO, ZERO], [ZERO, ONE, ZERO], [ZERO, ZERO, ONE]
    null, alternative = [a, b], [a, c]
    table = [[T(p, q) for q in alternative] for p in null]
    at, weights = F(1, 4), [HALF, HALF]
    claimed = sum(w * table[i][i](at) for i, w in enumerate(weights))
    truth = hidden(list(zip(alternative, null, strict=True)), weights)(at)
    assert coupled(table, weights, weights)(at) == truth == F(1, 4) < claimed == F(3, 8)


def test_lemma_6_3_repaired() -> None:
    """P1=(0,1), Q1=(1,0), P2=(3/8,5/8), Q2=(5/8,3/8), w = 2/5: printed 0.34, true 0.15."""
    p1, q1 = [ZERO, ONE], [ONE, ZERO]
    p2, q2 = [F(3, 8), F(5, 8)], [F(5, 8), F(3, 8)]
    w, at = F(2, 5), F(3, 20)
    laws = [(p1, q1), (p2, q2)]
    truth = hidden(ours(laws), [1 - w, w])
    assert truth(at) == F(3, 20)
    mixed_q = [(1 - w) * a + w * b for a, b in zip(q1, q2, strict=True)]
    one_null = [T(p, mixed_q) for p, _ in laws]  # printed: different nulls, added at equal rates
    claimed = averaged(one_null, [1 - w, w]).symmetric_hull()
    assert claimed(at) == F(17, 50) > truth(at)
    table = [[T(p, q) for _, q in laws] for p, _ in laws]
    mixed_p = [(1 - w) * a + w * b for a, b in zip(p1, p2, strict=True)]
    assert averaged([T(mixed_p, q) for _, q in laws], [1 - w, w]) <= truth
    assert averaged([T(mixed_q, p) for p, _ in laws], [1 - w, w]).inverse() <= truth
    for gamma, eta in itertools.product(
        (ZERO, w / 2, w * F(9, 10)), (ONE, (1 + w) / 2, w * F(11, 10))
    ):
        assert advanced(table, w, gamma, eta) <= truth
        assert advanced(transposed(table), w, gamma, eta).inverse() <= truth


def test_lemma_6_3_with_the_laws_exchanged_is_false() -> None:
    """With the null and the alternative exchanged in the table it is no bound."""
    p1, q1 = [ZERO, ONE], [ONE, ZERO]
    p2, q2 = [F(3, 8), F(5, 8)], [F(5, 8), F(3, 8)]
    w = F(2, 5)
    laws = [(p1, q1), (p2, q2)]
    truth = hidden(ours(laws), [1 - w, w])
    exchanged = [[T(p, q) for p, _ in laws] for _, q in laws]  # [j][i] as if Q_j were the null
    violated = [
        (gamma, eta)
        for gamma, eta in itertools.product((F(1, 10), F(3, 10)), (F(5, 10), F(7, 10)))
        if not advanced(exchanged, w, gamma, eta) <= truth
    ]
    assert violated


def test_proposition_6_4_with_a_symmetric_curve() -> None:
    p0, q0 = [F(5, 7), F(2, 7), ZERO], [ZERO, F(5, 6), F(1, 6)]
    w, at = F(1, 5), F(13, 30)
    f = T(p0, q0)
    truth = T(
        [(1 - w) * a + w * b for a, b in zip(p0, q0, strict=True)],
        [(1 - w) * b + w * a for a, b in zip(p0, q0, strict=True)],
    )
    claimed = diluted(f, 2 * w).symmetric_hull()
    assert round(float(claimed(at) - truth(at)), 4) == 0.0754
    assert swapped_bound(f, w) <= truth
    assert swapped(f, w) == truth


def test_proposition_e_1_repaired() -> None:
    """The subsampling form refuses a curve that is below T(P1, Q1) only."""
    p1, q1 = [F(3, 4), F(1, 4), ZERO], [F(1, 4), F(3, 4), ZERO]
    common, w, at = [ZERO, ZERO, ONE], HALF, F(7, 60)
    truth = T(
        [(1 - w) * c + w * a for c, a in zip(common, p1, strict=True)],
        [(1 - w) * c + w * a for c, a in zip(common, q1, strict=True)],
    )
    f = T(p1, q1)
    assert truth(at) == F(13, 20)
    assert round(float(diluted(f, 1 - w).symmetric_hull()(at)), 4) == 0.7667
    far = [T(common, p1), T(common, q1)]
    with pytest.raises(dp.InvalidArgument, match=r"curve must lie below T\(C, Q\)"):
        subsampled(f, w, between=f, from_common=far)
    lowest = f.minimum(far[0]).minimum(far[1]).symmetric_hull()
    assert subsampled(lowest, w, between=f, from_common=far) <= truth


# --- Example F.3: right, and exact without symmetrization -------------------------------------------


def gaussian_curve(mu: float, fpr: float) -> float:
    return NORMAL.cdf(-NORMAL.inv_cdf(fpr) - mu)


def test_symmetrizing_example_f_3_throws_something_away() -> None:
    """T(P, w P + (1-w) Q) = w Id + (1-w) T(P, Q); C(.) of it is smaller for larger rates."""
    w, rates = F(1, 3), (0.3, 0.5, 0.7, 0.9)
    edges = [
        ZERO,
        *(F(round(1e6 * (1 - cos(pi * k / 160)) / 2), 10**6) for k in range(1, 160)),
        ONE,
    ]
    cells = [(b - a) for a, b in itertools.pairwise(edges)]
    levels = [1.0, *(gaussian_curve(1.0, float(a)) for a in edges[1:-1]), 0.0]
    drops = [F(round(1e9 * (a - b)), 10**9) for a, b in itertools.pairwise(levels)]
    curve = T(cells, [drop / sum(drops) for drop in drops])
    exact, mirrored = diluted(curve, w), diluted(curve, w).symmetrized()
    for rate, text, less in zip(
        rates,
        ("0.4447865802", "0.2724368360", "0.1424695640", "0.04083860968"),
        ("0.4447865802", "0.2484632430", "0.1040814837", "0.01886511647"),
        strict=True,
    ):
        assert exact(rate) == pytest.approx(float(text), abs=2e-4)
        assert mirrored(rate) == pytest.approx(float(less), abs=2e-4)
    assert mirrored <= exact


# --- (12) to (14): descent from a random start ------------------------------------------------------


def derivative(function: object, at: float, step: float = 1e-6) -> float:
    assert callable(function)
    return float(function(at + step) - function(at - step)) / (2 * step)


def test_the_gradient_of_least_squares_belongs_to_half_the_squares() -> None:
    """(12), (13): the printed loss has twice the printed gradient, whose sign leaves mu = I - a."""
    x, slope, start = 1.0, 1.5, 0.25
    y = slope * x

    def squares(theta: float) -> float:
        return (y - theta * x) ** 2

    gradient = (y - start * x) * (-x)
    assert derivative(squares, start) == pytest.approx(2 * gradient)
    assert gradient == start - slope  # printed: a - I; only its size matters
    assert abs(gradient) == abs(slope - start)


def test_a_gaussian_density_integrates_to_one() -> None:
    """(14): without 1 / sqrt(2 pi) the printed alpha(t) reaches sqrt(2 pi) as t grows."""
    grid = np.linspace(-12.0, 12.0, 20_001)
    weights = np.exp(-(grid**2) / 2) * (grid[1] - grid[0])
    assert float(np.sum(weights)) == pytest.approx(sqrt(2 * pi), rel=1e-9)
    assert sqrt(2 * pi) > 1
