"""Polylines in exact fractions against brute force over all tests; errors that name the knot."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpdp.curves.tradeoff import Polyline
from sharpdp.errors import InvalidArgument, WrongType
from tests.curves.pairs import Pmf, pairs, rates, ratios
from tests.reference.tests_of_pairs import hockey_stick, rejection_regions, tradeoff

Pair = tuple[Pmf, Pmf]
F = Fraction
quick = settings(max_examples=60, deadline=None)


@quick
@given(pairs(), rates())
def test_it_is_the_best_of_all_randomized_tests(pair: Pair, fpr: F) -> None:
    assert Polyline.from_pmfs(*pair)(fpr) == tradeoff(*pair, fpr)


@quick
@given(pairs())
def test_knots_are_those_of_a_tradeoff_function(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    null, alternative = pair
    assert (f.fpr[0], f.fpr[-1], f.fnr[-1]) == (0, 1, 0)
    assert f.fnr[0] == 1 - sum(q for p, q in zip(*pair, strict=True) if p == 0)
    assert 1 - f.rest == 1 - sum(p for p, q in zip(*pair, strict=True) if q == 0)
    slopes = [(y - v) / (u - x) for (x, y), (u, v) in itertools.pairwise(f.knots)]
    assert all(one > other for one, other in itertools.pairwise(slopes))
    assert slopes[-1] >= 0
    assert f <= Polyline.perfect()
    assert set(f.knots) <= set(rejection_regions(null, alternative))
    assert f.symmetric == (f.inverse() == f)


@quick
@given(pairs())
def test_exchanging_the_hypotheses_inverts(pair: Pair) -> None:
    null, alternative = pair
    f = Polyline.from_pmfs(null, alternative)
    assert f.inverse() == Polyline.from_pmfs(alternative, null)
    assert f.inverse().inverse() == f


@quick
@given(pairs(), ratios())
def test_the_conjugate_is_the_hockey_stick(pair: Pair, ratio: F) -> None:
    null, alternative = pair
    f = Polyline.from_pmfs(null, alternative)
    assert f.hockey_stick(ratio) == hockey_stick(alternative, null, ratio)
    assert 1 + f.conjugate(-ratio) == hockey_stick(alternative, null, ratio)
    assert f.advantage() == hockey_stick(null, alternative, F(1))
    back = 1 - ratio + ratio * f.inverse().hockey_stick(1 / ratio)
    assert f.hockey_stick(ratio) == back


@quick
@given(pairs())
def test_the_way_over_delta_and_back_is_exact(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    assert Polyline.from_profile(f.profile()) == f
    assert Polyline.from_segments(reversed(f.segments), f.jump) == f
    assert Polyline(f.fpr, f.fnr) == f


@quick
@given(pairs(), st.data())
def test_processing_never_lowers_it(pair: Pair, data: st.DataObject) -> None:
    null, alternative = pair
    rows = [
        data.draw(st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any)) for _ in null
    ]
    channel = [[F(entry, sum(row)) for entry in row] for row in rows]

    def after(law: Pmf) -> Pmf:
        pushed = [sum(p * row[j] for p, row in zip(law, channel, strict=True)) for j in range(3)]
        return [F(one) for one in pushed]

    whole = Polyline.from_pmfs(null, alternative)
    assert whole <= Polyline.from_pmfs(after(null), after(alternative))


@quick
@given(pairs(), pairs(), rates())
def test_order_and_lattice(pair: Pair, other: Pair, fpr: F) -> None:
    f, g = Polyline.from_pmfs(*pair), Polyline.from_pmfs(*other)
    top, bottom = f.maximum(g), f.minimum(g)
    assert top(fpr) == max(f(fpr), g(fpr))
    assert bottom(fpr) <= min(f(fpr), g(fpr))
    assert bottom <= f <= top
    assert bottom <= g <= top
    # the largest convex function below both: a line below both is below it
    for ratio in (F(1, 3), F(1), F(5, 2)):
        assert bottom.hockey_stick(ratio) == max(f.hockey_stick(ratio), g.hockey_stick(ratio))
    assert f.distance(g) >= abs(f(fpr) - g(fpr))
    assert (f.distance(g) == 0) == (f == g)
    assert (f <= g) == (f.maximum(g) == g)
    assert (f >= g) == (g.minimum(f) == g)


@quick
@given(pairs(), rates())
def test_both_ways_to_make_it_symmetric(pair: Pair, fpr: F) -> None:
    f = Polyline.from_pmfs(*pair)
    dual, bottom = f.symmetrized(), f.symmetric_hull()
    assert dual.symmetric
    assert bottom.symmetric
    assert bottom <= f
    assert bottom <= dual
    # the formula with delta at epsilon >= 0 in both orders; corners of delta are enough
    deltas = [(g, hockey_stick(pair[1], pair[0], g)) for g, _ in f.profile() if g >= 1]
    lines = [(1 - d - g * fpr, (1 - d - fpr) / g) for g, d in deltas]
    assert dual(fpr) == max(0, *itertools.chain(*lines))
    if f.symmetric:
        assert f == dual == bottom


def test_the_two_symmetric_functions_may_differ() -> None:
    f = Polyline.from_pmfs([F(1, 2), F(1, 2)], [1, 0])
    assert f.symmetrized().knots == ((0, 1), (F(1, 3), F(1, 3)), (1, 0))
    assert f.symmetric_hull().knots == ((0, F(1, 2)), (F(1, 2), 0), (1, 0))


@quick
@given(pairs())
def test_fixed_point_and_area(pair: Pair) -> None:
    f = Polyline.from_pmfs(*pair)
    x = f.fixed_point()
    assert f(x) == x or (f.fnr[0] == 0 and x == 0)
    # the chance that a draw of the null looks worse than one of the alternative, ties halved
    area = F(0)
    for (p, q), (u, v) in itertools.product(zip(*pair, strict=True), repeat=2):
        ahead = q * u - v * p  # the first has the larger ratio alternative / null
        area += p * v * (1 if ahead > 0 else F(1, 2) if ahead == 0 else 0)
    assert f.area() == area


def test_fixtures_of_the_shuffle_pair() -> None:
    """n = 3, p = 1/2, e^eps0 = 3: spec mixtures-and-shuffle 5.3."""
    knots = (0, 1), (F(9, 64), F(37, 64)), (F(7, 32), F(15, 32))
    half = Polyline(*zip(*knots, *[(y, x) for x, y in reversed(knots)], strict=True))
    assert half.symmetric
    assert (half.hockey_stick(1), half.hockey_stick(F(3, 2))) == (F(5, 16), F(27, 128))
    assert half.hockey_stick(2) == F(9, 64)
    assert half.hockey_stick(3) == 0
    bare = Polyline((0, F(1, 16), F(5, 16), F(7, 16), 1), (F(7, 16), F(5, 16), F(1, 16), 0, 0))
    w = F(1, 4)
    mixed = bare.from_segments(
        [(2 * w, 2 * w), *(((1 - 2 * w) * dx, (1 - 2 * w) * dy) for dx, dy in bare.segments)],
        (1 - 2 * w) * bare.jump,
    )
    # Theorem 4.2: its symmetric form, by either operator
    wanted = Polyline((0, F(1, 16), F(5, 8), F(23, 32), 1), (F(23, 32), F(5, 8), F(1, 16), 0, 0))
    pointwise = Polyline.from_lines(
        [(2 * w + (1 - 2 * w) * (1 - h), 2 * w + (1 - 2 * w) * g) for g, h in bare.profile()]
    )
    assert mixed <= pointwise
    assert pointwise.symmetrized() == pointwise.symmetric_hull() == wanted
    assert wanted <= half


def test_doubles_are_fractions_too() -> None:
    f = Polyline.from_pmfs([0.1, 0.2, 0.7], [0.7, 0.2, 0.1])
    assert sum(width for width, _ in f.segments) == 1
    assert isinstance(f(0.3), float)
    assert isinstance(f(np.float64(0.3)), float)
    assert isinstance(f(F(3, 10)), F)
    assert f(0.3) == pytest.approx(
        tradeoff([F(1, 10), F(1, 5), F(7, 10)], [F(7, 10), F(1, 5), F(1, 10)], F(3, 10)), abs=1e-15
    )
    assert f.hockey_stick(1.0) == pytest.approx(0.6)


def test_knots_that_are_rounded_above_one_are_mended() -> None:
    curve = Polyline((0.0, 0.5, 1.0), (math.nextafter(1.0, 2.0), 0.25, 0.0))
    assert curve.fnr[0] == 1


def test_rounding_of_doubles_is_mended_downwards() -> None:
    third = np.linspace(0.0, 1.0, 11)
    assert Polyline(third, 1.0 - third).distance(Polyline.perfect()) < F(1, 10**15)
    steps = [0.0, 0.1, 0.2, 0.3, 1.0]
    bent = Polyline(steps, [1.0, 0.8, 0.6 + 1e-14, 0.4, 0.0])
    assert bent(0.2) <= 0.6 + 1e-16
    with pytest.raises(InvalidArgument, match=r"fnr\[2\] must not lie above the chord"):
        Polyline(steps, [1.0, 0.8, 0.6 + 1e-11, 0.4, 0.0])


@pytest.mark.parametrize(
    ("fpr", "fnr", "words"),
    [
        ((0, F(1, 2), 1), (1, F(3, 5), 0), r"fnr\[1\] must be between 0 and 1 - fpr\[1\] = 0.5"),
        ((0, F(1, 4), F(1, 2), 1), (F(1, 2), F(1, 4), F(3, 8), 0), r"fnr\[2\] must be at most fnr"),
        ((0, F(1, 4), F(1, 2), 1), (F(1, 2), F(1, 2), F(1, 8), 0), r"fnr\[1\] must not lie above"),
        (
            (0, F(1, 2), F(1, 4), 1),
            (1, F(1, 4), F(1, 8), 0),
            r"fpr\[2\] must be greater than fpr\[1",
        ),
        ((0, 0, 1), (1, F(1, 2), 0), r"fpr\[1\] must be greater than .* fnr\[0\] < 1"),
        ((F(1, 8), 1), (F(1, 2), 0), r"fpr\[0\] must be 0"),
        ((0, F(1, 2)), (1, 0), r"must end with the knot \(1, 0\); got the knot \(0.5, 0\)"),
        ((0, F(3, 2)), (1, 0), r"fnr\[1\] must be between 0 and"),
        ((0, 1), (1, F(-1, 8)), r"fnr\[1\] must be between 0 and"),
        ((0,), (1,), "equally many entries, at least 2; got 1 and 1"),
        ((0, 1), (1, F(1, 2), 0), "equally many entries, at least 2; got 2 and 3"),
        ((0, math.nan, 1), (1, 0.5, 0), r"fpr\[1\] must be a finite number; got nan"),
        ((0, 0.5, 1), (1, math.inf, 0), r"fnr\[1\] must be a finite number; got inf"),
        ((0, "0.5", 1), (1, 0.5, 0), r"fpr\[1\] must be a number; got '0.5'"),
        ((0, True), (1, 0), r"fpr\[1\] must be a number; got True"),
        (7, (1, 0), "fpr must be a list of numbers; got 7"),
    ],
)
def test_wrong_knots_are_named(fpr: object, fnr: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words):
        Polyline(fpr, fnr)  # type: ignore[arg-type]


def test_wrong_pmfs_and_questions() -> None:
    with pytest.raises(InvalidArgument, match="equally many points; got 1 and 2"):
        Polyline.from_pmfs([1], [F(1, 2), F(1, 2)])
    with pytest.raises(InvalidArgument, match=r"null must be probabilities .* sum 0\.75"):
        Polyline.from_pmfs([F(1, 2), F(1, 4)], [F(1, 2), F(1, 2)])
    with pytest.raises(InvalidArgument, match=r"alternative\[1\] must be at least 0"):
        Polyline.from_pmfs([F(1, 2), F(1, 2)], [F(3, 2), F(-1, 2)])
    with pytest.raises(InvalidArgument, match="sum 1"):
        Polyline.from_pmfs([], [])
    with pytest.raises(WrongType, match=r"segments\[0\] must be \(width, drop\)"):
        Polyline.from_segments([0.5])  # type: ignore[list-item]
    with pytest.raises(InvalidArgument, match="widths of segments must be probabilities"):
        Polyline.from_segments([(F(1, 2), 1)])
    with pytest.raises(InvalidArgument, match=r"lines\[0\] must stay at or below 1 - x"):
        Polyline.from_lines([(F(1), F(1, 2))])
    with pytest.raises(InvalidArgument, match=r"points\[0\] must be two rates"):
        Polyline.from_points([(2, 0)])
    with pytest.raises(InvalidArgument, match=r"fpr must be in \[0, 1\]; got 1.5"):
        Polyline.perfect()(1.5)
    with pytest.raises(InvalidArgument, match="ratio must be at least 0"):
        Polyline.perfect().hockey_stick(-1)
