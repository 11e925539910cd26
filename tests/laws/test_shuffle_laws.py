"""Laws of the shuffle model that do not hold for mechanisms in general.

Both ends of a bracket are held to each law, up to the width that was asked for: each end follows one
exact pair, for which the law holds.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import exp, expm1, log

import numpy as np
import pytest

import sharpdp as dp
from tests.reference import finite
from tests.reference import shuffle_small as small

WIDTH = 1e-3
SLACK = 1 + 2 * WIDTH
KINDS = ("shared", "individual")
SAMPLES = [  # users, local epsilon, delta
    (1, 0.7, 1e-3),
    (2, 3.0, 1e-5),
    (9, 0.2, 1e-4),
    (150, 6.0, 1e-9),
    (4000, 1.5, 1e-6),
    (10**6, 0.01, 1e-9),
    (10**10, 9.0, 1e-12),
]


def reports(users: int, local: float, kind: str = "shared", rounds: int = 1) -> dp.ShuffledReports:
    return dp.ShuffledReports(users=users, local_epsilon=local, rounds=rounds, randomizer=kind)


def epsilon(run: dp.Mechanism, delta: float) -> dp.Bracket:
    return dp.account(run, relative_width=WIDTH).epsilon(delta=delta)


def falls(brackets: list[dp.Bracket]) -> bool:
    """Both ends fall, as far as the width lets them be told apart."""
    return all(
        b.lower <= a.lower * SLACK and b.upper <= a.upper * SLACK
        for a, b in itertools.pairwise(brackets)
    )


@pytest.mark.parametrize(("local", "kind"), [(0.3, "individual"), (2.0, "shared"), (6.0, "shared")])
def test_more_users_hide_better(local: float, kind: str) -> None:
    crowds = [1, 2, 30, 1000, 1001, 10**12]
    assert falls([epsilon(reports(users, local, kind), 1e-7) for users in crowds])


@pytest.mark.parametrize(
    ("users", "kind"), [(3, "shared"), (10**4, "shared"), (10**9, "individual")]
)
def test_a_smaller_local_epsilon_is_more_private(users: int, kind: str) -> None:
    locals_ = [30.0, 12.0, 4.0, 3.999, 1e-2, 1e-6]
    assert falls([epsilon(reports(users, local, kind), 1e-8) for local in locals_])


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_rounds_are_more_private(kind: str) -> None:
    counts = [100, 2, 1]
    assert falls([epsilon(reports(1000, 1.0, kind, rounds), 1e-6) for rounds in counts])


@pytest.mark.parametrize(("users", "local", "delta"), SAMPLES)
def test_the_sides_are_in_order_and_sharing_helps(users: int, local: float, delta: float) -> None:
    shared, individual = (epsilon(reports(users, local, kind), delta) for kind in KINDS)
    assert 0 <= shared.lower <= shared.upper <= local * (1 + 1e-12)
    assert individual.lower <= individual.upper <= local * (1 + 1e-12)
    assert shared.upper <= individual.upper * SLACK
    assert shared.lower == individual.lower  # the same data sets attain it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("local", [1e-6, 0.1, 1.0, 8.0, 30.0])
def test_a_single_user_has_the_local_guarantee(local: float, kind: str) -> None:
    answer = dp.account(reports(1, local, kind), relative_width=1e-6)
    alone = dp.account(dp.PureDP(epsilon=local), relative_width=1e-6)
    for share in (0.0, 0.3, 0.9):
        got, known = answer.delta(epsilon=share * local), alone.delta(epsilon=share * local)
        truth = (expm1(local) - expm1(share * local)) / (exp(local) + 1)
        assert got.lower <= truth * (1 + 1e-9)
        assert got.upper >= truth * (1 - 1e-9)
        assert got.lower == pytest.approx(known.lower, rel=1e-5)
        assert got.upper == pytest.approx(known.upper, rel=1e-5)
    assert answer.delta(epsilon=local * (1 + 1e-9) + 1e-12).upper == 0.0


@pytest.mark.parametrize("users", [1, 10**7])
def test_silent_randomizers_give_perfect_privacy(users: int) -> None:
    answer = dp.account(reports(users, 1e-6))
    assert answer.advantage().upper < 1e-6
    assert answer.fnr(fpr=0.25).lower > 0.75 - 1e-6
    assert answer.epsilon(delta=1e-6).upper == 0.0
    assert answer.renyi(order=2.0).upper < 1e-11


@pytest.mark.parametrize(("users", "local", "delta"), SAMPLES[:5:2])
def test_one_round_composed_is_one_round_asked_directly(
    users: int, local: float, delta: float
) -> None:
    """Beside a step that reveals nothing the profile takes the way of compositions."""
    nothing = dp.FinitePair(p=[0.5, 0.5], q=[0.5, 0.5])
    direct, composed = (
        epsilon(reports(users, local), delta),
        epsilon(reports(users, local) + nothing, delta),
    )
    assert composed.upper == pytest.approx(direct.upper, rel=2 * WIDTH)
    assert composed.lower == pytest.approx(direct.lower, rel=2 * WIDTH)


ODDS = Fraction(3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("users", "rounds"), [(2, 2), (2, 3), (3, 2), (4, 2)])
def test_a_few_rounds_of_a_few_users_equal_enumeration(users: int, rounds: int, kind: str) -> None:
    rate = small.shared_rate(ODDS) if kind == "shared" else small.individual_rate(ODDS)
    upper = [small.clones(users, ODDS, rate)] * rounds
    binary = [small.binary(users, ODDS)] * rounds
    ternary = [small.ternary(users, ODDS)] * rounds
    answer = dp.account(reports(users, log(3), kind, rounds))
    for x in (Fraction(1), Fraction(7, 5), Fraction(4)):
        bracket = answer.delta(epsilon=log(x))
        pair = finite.delta(upper, x)
        lower = max(
            finite.delta(one, x)
            for one in (binary, finite.reverse(binary), ternary, finite.reverse(ternary))
        )
        assert pair * (1 - Fraction(1, 10**9)) <= Fraction(bracket.upper) <= pair * Fraction(SLACK)
        assert Fraction(bracket.lower) <= lower * (1 + Fraction(1, 10**9))
        assert Fraction(bracket.lower) * Fraction(SLACK) >= lower


@pytest.mark.parametrize(("users", "local"), [(3, 1.0)])
def test_the_tradeoff_curve_is_its_own_mirror_image(users: int, local: float) -> None:
    """A symmetric pair: the curve applied twice returns the rate."""
    curve = dp.account(reports(users, local)).tradeoff()
    fnr = float(curve.lower(0.1))
    assert float(curve.lower(fnr)) == pytest.approx(0.1, abs=5e-3)


@pytest.mark.slow
def test_rounds_may_differ_and_come_in_any_order() -> None:
    small_round, large_round = reports(200, 1.0), reports(5000, 2.0)
    one, other = (
        epsilon(dp.Sequence(parts), 1e-6)
        for parts in ([small_round, large_round], [large_round, small_round])
    )
    assert one.upper == pytest.approx(other.upper, rel=2 * WIDTH)
    for alone in (small_round, large_round):
        assert epsilon(alone, 1e-6).upper <= one.upper * SLACK


@pytest.mark.parametrize(("users", "local"), [(5, 1.0), (1000, 4.0)])
def test_renyi_grows_with_the_order_up_to_the_local_epsilon(users: int, local: float) -> None:
    answer = dp.account(reports(users, local))
    brackets = [answer.renyi(order=order) for order in (1.01, 4.0, 2000.0)]
    for a, b in itertools.pairwise(brackets):
        assert b.upper * SLACK >= a.upper
        assert b.upper >= a.lower
    assert np.all([b.upper <= local * (1 + 1e-9) for b in brackets])
    assert brackets[-1].upper > 0.9 * local
