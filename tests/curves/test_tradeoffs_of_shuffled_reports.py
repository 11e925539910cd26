"""The shuffle pair as a mixture: its curves for a few users, in exact fractions.

Laws come from enumeration (tests/reference/shuffle_small.py); what is tested is how curves of mixtures
relate: order, symmetry, monotonicity, divergences read off the knots.
"""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from sharpdp.curves.mixtures.inequalities import released, swapped, swapped_bound
from sharpdp.curves.tradeoff import Polyline
from tests.reference import finite
from tests.reference import shuffle_printed as printed
from tests.reference import shuffle_small as small
from tests.reference.tests_of_pairs import hockey_stick

F = Fraction
CASES = [(n, F(odds)) for n in (1, 2, 3, 5, 7) for odds in (F(3, 2), 3, 20)]
THRESHOLDS = [F(1), F(5, 4), F(3, 2), F(2), F(3), F(19)]


def curve(pair: small.Pair) -> Polyline:
    return Polyline.from_pmfs(*pair)


def bare(users: int, odds: F) -> Polyline:
    return curve(small.bare_clones(users, small.shared_rate(odds)))


def exact(users: int, odds: F) -> Polyline:
    return curve(small.clones(users, odds, small.shared_rate(odds)))


def pure(odds: F) -> Polyline:
    """The trade-off function of local_epsilon-DP: max{1 - E x, (1 - x) / E}."""
    corner = 1 / (1 + odds)
    return Polyline((F(0), corner, F(1)), (F(1), corner, F(0)))


@pytest.mark.parametrize(("users", "odds"), CASES)
def test_the_exact_pair_is_the_bare_one_mixed(users: int, odds: F) -> None:
    """From the curve of the bare pair alone, without its law."""
    assert swapped(bare(users, odds), 1 / (odds + 1)) == exact(users, odds)


@pytest.mark.parametrize(("users", "odds"), CASES)
def test_curves_are_symmetric_and_in_order(users: int, odds: F) -> None:
    w = 1 / (odds + 1)
    plain, theorem, truth = (
        bare(users, odds),
        swapped_bound(bare(users, odds), w),
        exact(users, odds),
    )
    assert plain.symmetric
    assert theorem.symmetric
    assert truth.symmetric
    assert plain <= theorem <= truth <= Polyline.perfect()
    assert pure(odds) <= truth
    for x in THRESHOLDS:
        assert truth.hockey_stick(x) <= theorem.hockey_stick(x) <= plain.hockey_stick(x)


@pytest.mark.parametrize(("users", "odds"), CASES)
def test_theorem_4_2_has_its_closed_form(users: int, odds: F) -> None:
    """delta = (1 - 2w) H_g(P0 || Q0), g = (x - 2w) / (1 - 2w)."""
    w = 1 / (odds + 1)
    p0, q0 = small.bare_clones(users, small.shared_rate(odds))
    theorem = swapped_bound(bare(users, odds), w)
    for x in THRESHOLDS:
        g = (x - 2 * w) / (1 - 2 * w)
        assert theorem.hockey_stick(x) == (1 - 2 * w) * hockey_stick(p0, q0, g)


@pytest.mark.parametrize("odds", [F(3, 2), F(3), F(20)])
def test_more_users_and_more_clones_help_and_a_larger_budget_does_not(odds: F) -> None:
    chain = [exact(users, odds) for users in (1, 2, 3, 4, 6)]
    assert all(few <= more for few, more in itertools.pairwise(chain))
    rates = [F(k, 5) for k in range(6)]
    clones = [curve(small.clones(4, odds, rate)) for rate in rates]
    assert all(few <= more for few, more in itertools.pairwise(clones))
    budgets = [exact(4, odds * k) for k in (1, 2, 3)]
    assert all(large <= less for less, large in itertools.pairwise(budgets))


@pytest.mark.parametrize("users", [2, 3, 5])
@pytest.mark.parametrize("odds", [F(3, 2), F(3), F(20)])
def test_dominating_pairs_lie_below_what_they_dominate(users: int, odds: F) -> None:
    individual = curve(small.clones(users, odds, small.individual_rate(odds)))
    shared = exact(users, odds)
    assert individual <= shared
    assert shared <= curve(small.ternary(users, odds))
    for ones in range(users):
        assert shared <= curve(small.binary(users, odds, ones))


def test_one_user_has_the_local_guarantee_and_no_budget_is_perfect() -> None:
    for odds in (F(3, 2), F(3), F(20)):
        assert exact(1, odds) == pure(odds)
    assert exact(5, F(1)) == Polyline.perfect()


@pytest.mark.parametrize(("users", "odds"), CASES)
@pytest.mark.parametrize("order", [2, 3, 5])
def test_renyi_moments_by_points_by_knots_and_reversed(users: int, odds: F, order: int) -> None:
    pair = small.clones(users, odds, small.shared_rate(odds))
    by_points = finite.renyi_sum([pair], order)
    by_knots = sum(
        width**order * drop ** (1 - order) for width, drop in exact(users, odds).segments
    )
    assert by_points == by_knots == finite.renyi_sum([pair[::-1]], order)


@pytest.mark.parametrize("users", [2, 5])
def test_the_number_of_clones_may_be_told(users: int) -> None:
    """wang2023 Proposition 4.1 is an equality: the sum of both counts says C anyway."""
    rate = F(1, 2)
    given = [
        (
            [F(0), *(printed.coins(c, a) for a in range(c + 1))],
            [*(printed.coins(c, a) for a in range(c + 1)), F(0)],
        )
        for c in range(users)
    ]
    curves = [curve((list(p), list(q))) for p, q in given]
    assert released(curves, printed.clones_law(users, rate)) == curve(
        small.bare_clones(users, rate)
    )
