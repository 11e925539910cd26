"""Mixtures in exact fractions: identities, inequalities and their order, on random pairs of pmfs.

The reference is brute force over all tests (tests/reference/tests_of_pairs.py), or the laws written
out; never the curves of sharpdp themselves.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpdp.curves.mixtures.advanced_joint_concavity import (
    advanced,
    best_advanced,
    height_at,
    slack_at,
    transposed,
)
from sharpdp.curves.mixtures.inequalities import (
    averaged,
    coupled,
    diagonal_coupling,
    diluted,
    hidden,
    nothing_lost,
    relabeled,
    released,
    subsampled,
    swapped,
    swapped_bound,
)
from sharpdp.curves.tradeoff import Polyline
from sharpdp.errors import InvalidArgument, WrongType
from tests.curves.pairs import Pmf, normalized, pairs, rates, ratios
from tests.reference.tests_of_pairs import hockey_stick, tradeoff

F = Fraction
Pair = tuple[Pmf, Pmf]
Mixed = tuple[list[Pair], Pmf, Pmf]
T = Polyline.from_pmfs
quick = settings(max_examples=40, deadline=None)
HALF = F(1, 2)


@st.composite
def mixtures(draw: st.DrawFn, components: tuple[int, int] = (2, 3), points: int = 4) -> Mixed:
    """Some pairs on the same points, and weights of either law; zeros and ties are common."""
    count, size = draw(st.integers(*components)), draw(st.integers(2, points))

    def one(length: int) -> Pmf:
        weights = st.lists(st.integers(0, 5), min_size=length, max_size=length)
        return normalized(draw(weights.filter(any)))

    laws = [(one(size), one(size)) for _ in range(count)]
    return laws, one(count), one(count)


def added(laws: list[Pmf], weights: Pmf) -> Pmf:
    """The law of a hidden mixture, written out."""
    return [
        sum(w * law[x] for w, law in zip(weights, laws, strict=True)) for x in range(len(laws[0]))
    ]


def mixed(one: Pmf, other: Pmf, w: F) -> Pmf:
    return [(1 - w) * a + w * b for a, b in zip(one, other, strict=True)]


def curve_of(pair: Pair) -> Polyline:
    """T(Q, P) of a pair (P, Q)."""
    p, q = pair
    return T(q, p)


def table(laws: list[Pair]) -> list[list[Polyline]]:
    """Entry [i][j] is T(Q_i, P_j)."""
    return [[T(q, p) for p, _ in laws] for _, q in laws]


def told(laws: list[Pair], weights: Pmf, other: Pmf) -> Pair:
    """The law (P, Q) of a mixture whose index is released, written out."""
    return (
        [w * mass for w, (p, _) in zip(weights, laws, strict=True) for mass in p],
        [w * mass for w, (_, q) in zip(other, laws, strict=True) for mass in q],
    )


# --- what is exact ----------------------------------------------------------------------------------


@quick
@given(mixtures(), rates())
def test_the_mixture_itself_is_the_best_of_all_tests(mixture: Mixed, fpr: F) -> None:
    laws, weights, other = mixture
    p, q = added([p for p, _ in laws], weights), added([q for _, q in laws], other)
    assert hidden(laws, weights, other)(fpr) == tradeoff(q, p, fpr)


@settings(max_examples=25, deadline=None)
@given(mixtures(components=(2, 2), points=3), rates())
def test_a_released_index_is_the_best_of_all_tests_that_see_it(mixture: Mixed, fpr: F) -> None:
    laws, weights, other = mixture
    curve = released([curve_of(pair) for pair in laws], weights, other)
    p, q = told(laws, weights, other)
    assert curve(fpr) == tradeoff(q, p, fpr)


@quick
@given(mixtures(), ratios())
def test_hockey_sticks_of_a_released_index_add_up(mixture: Mixed, ratio: F) -> None:
    """Equal weights: J* = sum of w_i f_i*, and J at common thresholds, not at common rates."""
    laws, weights, _ = mixture
    curve = released([curve_of(pair) for pair in laws], weights)
    sticks = [hockey_stick(p, q, ratio) for p, q in laws]
    assert curve.hockey_stick(ratio) == sum(w * h for w, h in zip(weights, sticks, strict=True))
    conjugates = [curve_of(pair).conjugate(-ratio) for pair in laws]
    assert curve.conjugate(-ratio) == sum(
        w * one for w, one in zip(weights, conjugates, strict=True)
    )


@quick
@given(pairs(), st.fractions(0, 1, max_denominator=12), rates())
def test_the_mixing_identity(pair: Pair, w: F, fpr: F) -> None:
    p, q = pair
    curve = swapped(T(q, p), w)
    assert curve(fpr) == tradeoff(mixed(q, p, w), mixed(p, q, w), fpr)


@quick
@given(pairs(), st.fractions(0, F(5, 11), max_denominator=12), ratios())
def test_the_mixing_identity_of_hockey_sticks(pair: Pair, w: F, x: F) -> None:
    """H_x((1-w) P + w Q || (1-w) Q + w P) = (1 - w - w x) H_g(P || Q), below the ratio (1-w)/w."""
    p, q = pair
    here = hockey_stick(mixed(p, q, w), mixed(q, p, w), x)
    assert swapped(T(q, p), w).hockey_stick(x) == here
    share = 1 - w - w * x
    inner = (1 - w) * x - w
    if share > 0 and inner > 0:
        assert here == share * hockey_stick(p, q, inner / share)
    elif share <= 0:
        assert here == 0


@quick
@given(pairs(), st.fractions(0, 1, max_denominator=12), rates())
def test_dilution_is_exact(pair: Pair, w: F, fpr: F) -> None:
    p, q = pair
    curve = diluted(T(q, p), w)
    assert curve(fpr) == tradeoff(q, mixed(p, q, w), fpr)
    assert curve(fpr) == w * (1 - fpr) + (1 - w) * tradeoff(q, p, fpr)


def test_swapping_completely_exchanges_the_laws() -> None:
    f = T([F(1, 2), F(1, 3), F(1, 6)], [F(0), F(1, 4), F(3, 4)])
    assert swapped(f, 1) == f.inverse()
    assert swapped(f, HALF) == Polyline.perfect()
    assert swapped(f, 0) == diluted(f, 0) == f
    assert diluted(f, 1) == Polyline.perfect()


# --- the inequalities -------------------------------------------------------------------------------


@quick
@given(mixtures())
def test_telling_the_index_never_helps_privacy(mixture: Mixed) -> None:
    """Also equality if and only if the components agree wherever two of them can occur."""
    laws, weights, other = mixture
    for second in (None, other):
        curve = released([curve_of(pair) for pair in laws], weights, second)
        truth = hidden(laws, weights, second)
        assert curve <= truth
        assert nothing_lost(laws, weights, second) == (curve == truth)


@quick
@given(mixtures(points=3))
def test_disjoint_components_lose_nothing(mixture: Mixed) -> None:
    laws, weights, other = mixture
    size = len(laws[0][0])

    def apart(law: Pmf, place: int) -> Pmf:
        return [F(0)] * (place * size) + law + [F(0)] * ((len(laws) - 1 - place) * size)

    spread = [(apart(p, i), apart(q, i)) for i, (p, q) in enumerate(laws)]
    assert nothing_lost(spread, weights, other)
    assert hidden(spread, weights, other) == released(
        [curve_of(one) for one in laws], weights, other
    )


@quick
@given(mixtures(), st.data())
def test_any_coupling_of_the_indices_is_a_bound(mixture: Mixed, data: st.DataObject) -> None:
    laws, weights, other = mixture
    curves, truth = table(laws), hidden(laws, weights, other)
    assert coupled(curves, weights, other) <= truth
    independent = [[w * v for w in weights] for v in other]
    assert coupled(curves, weights, other, independent) <= truth
    part = data.draw(st.fractions(0, 1, max_denominator=6))
    both = [
        [part * a + (1 - part) * b for a, b in zip(one, two, strict=True)]
        for one, two in zip(diagonal_coupling(other, weights), independent, strict=True)
    ]
    assert coupled(curves, weights, other, both) <= truth


@quick
@given(mixtures())
def test_the_diagonal_coupling_is_one_and_maximal(mixture: Mixed) -> None:
    _, weights, other = mixture
    joint = diagonal_coupling(weights, other)
    assert [sum(row) for row in joint] == weights
    assert [sum(column) for column in zip(*joint, strict=True)] == other
    assert min(mass for row in joint for mass in row) >= 0
    assert all(joint[i][i] == min(weights[i], other[i]) for i in range(len(weights)))
    laws = mixture[0]
    if weights == other:
        curves = table(laws)
        diagonal = [curves[i][i] for i in range(len(laws))]
        assert coupled(curves, weights, other) == released(diagonal, weights)


@quick
@given(mixtures(components=(2, 2)), st.data())
def test_any_labels_are_a_bound(mixture: Mixed, data: st.DataObject) -> None:
    """Shares of four labels, drawn for either law on its own."""
    laws, _, _ = mixture
    fours = st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any).map(normalized)
    b, a = data.draw(fours), data.draw(fours)
    null, alternative = [b[:2], b[2:]], [a[:2], a[2:]]
    truth = hidden(laws, [a[0] + a[2], a[1] + a[3]], [sum(row) for row in null])
    assert relabeled(table(laws), null, alternative) <= truth


@settings(max_examples=60, deadline=None)
@given(mixtures(components=(2, 2)), st.data())
def test_advanced_joint_concavity_holds_for_all_parameters(
    mixture: Mixed, data: st.DataObject
) -> None:
    laws, _, _ = mixture
    w = data.draw(st.fractions(F(1, 9), F(8, 9), max_denominator=9))
    low = data.draw(st.fractions(0, w, max_denominator=9).filter(lambda x: x < w))
    high = data.draw(st.fractions(w, 1, max_denominator=9).filter(lambda x: x > w))
    curves, truth = table(laws), hidden(laws, [1 - w, w])
    for gamma, eta in ((low, high), (high, low)):
        assert advanced(curves, w, gamma, eta) <= truth
        assert advanced(transposed(curves), w, gamma, eta).inverse() <= truth
    assert advanced(curves, w, 0, 1) == released([curves[0][0], curves[1][1]], [1 - w, w])


@quick
@given(mixtures(components=(2, 2)), st.fractions(F(1, 9), F(8, 9), max_denominator=9), ratios())
def test_advanced_joint_concavity_by_hockey_sticks(mixture: Mixed, w: F, ratio: F) -> None:
    """wang2023 Lemma 6.2 written out, of which the curve is the conjugate."""
    ((p1, q1), (p2, q2)), _, _ = mixture
    gamma, eta = w / 2, (w + 1) / 2
    first = (eta - w) / ((1 - w) * (eta - gamma))
    second = (w - gamma) / (w * (eta - gamma))
    sticks = (
        (1 - w) * (1 - gamma) * hockey_stick(p1, q1, first * ratio)
        + (1 - w) * gamma * hockey_stick(p1, q2, first * ratio)
        + w * (1 - eta) * hockey_stick(p2, q1, second * ratio)
        + w * eta * hockey_stick(p2, q2, second * ratio)
    )
    curves = table([(p1, q1), (p2, q2)])
    assert advanced(curves, w, gamma, eta).hockey_stick(ratio) == sticks
    assert sticks >= hockey_stick(mixed(p1, p2, w), mixed(q1, q2, w), ratio)


@settings(max_examples=15, deadline=None)
@given(mixtures(components=(2, 2)), st.fractions(F(1, 9), F(8, 9), max_denominator=9))
def test_the_search_is_at_least_as_good_as_joint_concavity(mixture: Mixed, w: F) -> None:
    laws, _, _ = mixture
    curves, truth = table(laws), hidden(laws, [1 - w, w])
    plain = released([curves[0][0], curves[1][1]], [1 - w, w])
    found = best_advanced(curves, w, height_at(0.125))
    assert plain(F(1, 8)) - F(1, 10**9) <= found.curve(F(1, 8))
    assert found.curve <= truth
    steep = best_advanced(curves, w, slack_at(2.0))
    assert steep.curve.hockey_stick(2) <= plain.hockey_stick(2) + F(1, 10**9)
    assert steep.curve <= truth
    assert advanced(curves, w, steep.gamma, steep.eta) == steep.curve


@quick
@given(mixtures())
def test_curves_of_a_common_null_may_be_averaged(mixture: Mixed) -> None:
    laws, weights, other = mixture
    null = added([q for _, q in laws], other)
    curve = averaged([T(null, p) for p, _ in laws], weights)
    assert curve <= hidden(laws, weights, other)


@quick
@given(mixtures(components=(2, 2)), st.fractions(0, 1, max_denominator=9))
def test_the_subsampling_form_under_its_condition(mixture: Mixed, w: F) -> None:
    ((p, q), (common, _)), _, _ = mixture
    between, from_common = T(q, p), [T(common, q), T(common, p)]
    f = between.symmetric_hull()
    for curve in from_common:
        f = f.minimum(curve)
    bound = subsampled(f, w, between=between, from_common=from_common)
    assert bound.symmetric
    for null, alternative in ((p, q), (q, p)):
        assert bound <= T(mixed(common, null, w), mixed(common, alternative, w))


@quick
@given(pairs(), st.fractions(0, HALF, max_denominator=9))
def test_the_swapped_bound_is_one(pair: Pair, w: F) -> None:
    p, q = pair
    f = T(q, p)
    assert swapped_bound(f, w) <= swapped(f, w)
    assert swapped_bound(f, w) <= swapped(f.inverse(), w)
    middle = mixed(p, q, HALF)
    hull = f.symmetric_hull()
    same = subsampled(hull, 1 - 2 * w, between=f, from_common=[T(middle, q), T(middle, p)])
    assert same == swapped_bound(f, w)


@quick
@given(mixtures(components=(2, 2)))
def test_symmetric_components_make_a_symmetric_released_curve(mixture: Mixed) -> None:
    """wang2023 Proposition 3.2."""
    laws, weights, _ = mixture
    curves = [curve_of(pair).symmetric_hull() for pair in laws]
    assert released(curves, weights).symmetric


@quick
@given(pairs(4), st.data())
def test_a_random_channel_never_lowers_the_curve(pair: Pair, data: st.DataObject) -> None:
    rows = st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any).map(normalized)
    channel = [data.draw(rows) for _ in pair[0]]
    p, q = (added(channel, law) for law in pair)
    assert T(*pair) <= T(p, q)


# --- what is refused --------------------------------------------------------------------------------

EVEN = Polyline.perfect()
COINS = [([HALF, HALF], [HALF, HALF]), ([F(1), F(0)], [F(0), F(1)])]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: released([EVEN, EVEN], [0.5, 0.6]),
            "weights must be probabilities with sum 1; got",
        ),
        (lambda: released([EVEN, EVEN], [1.5, -0.5]), r"weights\[0\] must be in \[0, 1\]"),
        (
            lambda: released([EVEN, EVEN], [1.0]),
            "weights must have one entry per component; got 1 for 2",
        ),
        (lambda: released([EVEN], [float("nan")]), r"weights\[0\] must be a finite number"),
        (lambda: released([EVEN], "1"), "weights must be a list of numbers"),
        (lambda: released([EVEN], [1], [True]), r"other_weights\[0\] must be a number"),
        (
            lambda: hidden([*COINS[:1], ([F(1)], [F(1)])], [0.5, 0.5]),
            "laws must be on the same points",
        ),
        (lambda: hidden(COINS, [0.5, 0.5], [1]), "other_weights must have one entry per component"),
        (
            lambda: hidden([([0.5, 0.6], [1, 0])], [1]),
            r"laws\[0\]\[0\] must be probabilities with sum 1",
        ),
        (
            lambda: nothing_lost([([2, -1], [1, 0])], [1]),
            r"laws\[0\]\[0\]\[0\] must be in \[0, 1\]",
        ),
        (lambda: swapped(EVEN, 1.5), r"weight must be in \[0, 1\]; got 1.5"),
        (lambda: diluted(EVEN, -1), r"weight must be in \[0, 1\]"),
        (lambda: swapped_bound(EVEN, 0.75), "weight must be at most 1/2"),
        (
            lambda: relabeled([[EVEN]], [[1]], [[0.5, 0.5]]),
            "one share per curve; got 1 and 2 for 1",
        ),
        (
            lambda: coupled([[EVEN, EVEN]] * 2, [HALF] * 2, [HALF] * 2, [[1, 0], [0, 0]]),
            "coupling must have",
        ),
        (lambda: advanced([[EVEN, EVEN]] * 2, 0.5, 0.5, 1), "weight must lie strictly between"),
        (lambda: advanced([[EVEN, EVEN]], 0.5, 0, 1), "curves must be two rows of two"),
        (
            lambda: best_advanced([[EVEN, EVEN]] * 2, 0, height_at(0.5)),
            r"weight must be in \(0, 1\)",
        ),
        (lambda: subsampled(EVEN, 0.5, between=EVEN, from_common=[]), "from_common must be"),
        (
            lambda: subsampled(EVEN, 0.5, between=EVEN, from_common=[EVEN, T([1, 0], [0, 1])]),
            r"curve must lie below T\(C, P\)",
        ),
    ],
)
def test_errors_name_the_argument(call: object, message: str) -> None:
    assert callable(call)
    with pytest.raises((InvalidArgument, WrongType), match=message):
        call()


def test_adding_at_equal_rates_is_above_the_pooled_curve() -> None:
    """Curves of different nulls must not be averaged: T(a, a) and T(b, c) at 1/4."""
    curves = [EVEN, T([1, 0], [0, 1])]
    pooled, mean = released(curves, [HALF] * 2), averaged(curves, [HALF] * 2)
    at = F(1, 4)
    assert pooled(at) == F(1, 4) < mean(at) == F(3, 8)
    assert pooled <= mean


def test_all_pairs_of_small_coins() -> None:
    """Every mixture of two coins with chances in thirds: 256 truths, three bounds."""
    coin = [[F(k, 3), 1 - F(k, 3)] for k in range(4)]
    for a, b, c, d in itertools.product(coin, repeat=4):
        laws = [(a, c), (b, d)]
        truth = hidden(laws, [HALF, HALF])
        plain = released([curve_of(pair) for pair in laws], [HALF, HALF])
        assert plain <= truth
        assert (plain == truth) == nothing_lost(laws, [HALF, HALF])
        assert advanced(table(laws), HALF, F(1, 4), F(3, 4)) <= truth
