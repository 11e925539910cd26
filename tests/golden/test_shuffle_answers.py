"""sharpdp's brackets for shuffled reports: each end where it belongs, as narrow as asked, on its side.

The upper end follows the pair of clones, the lower end the worse of two kinds of randomized response;
golden values say exactly where these lie (tests/reference/shuffle.py, tests/golden/make_shuffle.py).
The printed numbers are those of other work, to all their digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any

import pytest

import sharpdp as dp
from tests.golden import test_shuffle_references as known
from tests.golden.load import Golden, golden
from tests.golden.printed import near, unit
from tests.reference import finite
from tests.reference import shuffle_small as small

QUICK = 12  # one question in so many by default; all of them if slow
WIDTH = 1e-3
MOST_SPLIT = 2000
"""With fewer users the others may also hold different records, which can be worse than both kinds."""


@dataclass(frozen=True)
class Question:
    """One question with the exact values of the pairs on both sides."""

    clones: Golden
    responses: tuple[Golden, ...]

    def __str__(self) -> str:
        return str(self.clones)

    def bracket(self, width: float) -> dp.Bracket:
        """sharpdp's answer."""
        told = {k: v for k, v in self.clones.mechanism.items() if k != "kind"}
        answer = dp.account(dp.ShuffledReports(**told), relative_width=width)
        quantity, at = self.clones.ask.values()
        return answer.epsilon(delta=at) if quantity == "epsilon" else answer.delta(epsilon=at)


def questions() -> Iterator[Question]:
    """The golden lines, grouped by question; the lower side is the same for both kinds."""
    lines = golden("shuffle")

    def key(one: Golden) -> tuple[object, ...]:
        told = {k: v for k, v in one.mechanism.items() if k != "randomizer"}
        return (*told.values(), *one.ask.values())

    for line in lines:
        if line.name == "clones":
            same = [one for one in lines if one.name != "clones" and key(one) == key(line)]
            yield Question(line, tuple(same))


def narrowest(question: Question) -> float:
    """The width that can be had: crowds are counted in groups, tiny losses drown in rounding."""
    if question.clones.mechanism["users"] > 10**5:
        return 1e-3
    return 1e-5 if question.clones.mechanism["local_epsilon"] < 1e-5 else 0.0


def check(question: Question, width: float) -> None:
    """Neither end is on the wrong side of its pair, nor further from it than asked."""
    bracket = question.bracket(width)
    room = 1 + Fraction(max(width, narrowest(question))) * (1 + Fraction(1, 10**6))
    upper, lower = Fraction(bracket.upper), Fraction(bracket.lower)
    assert upper >= question.clones.lower
    assert upper <= question.clones.upper * room
    assert lower <= max(one.upper for one in (question.clones, *question.responses))
    if len(question.responses) == 2:
        best = max(one.upper for one in question.responses)
        if question.clones.mechanism["users"] > MOST_SPLIT:
            assert lower <= best
        assert lower * room >= max(one.lower for one in question.responses)
    assert bracket.rigor.proved


ALL = list(questions())


@pytest.mark.parametrize("question", ALL[::QUICK], ids=str)
def test_golden_values_are_where_the_ends_are(question: Question) -> None:
    check(question, WIDTH)


@pytest.mark.slow
@pytest.mark.parametrize("width", [1e-3, 1e-6])
@pytest.mark.parametrize("question", ALL, ids=str)
def test_all_golden_values_are_where_the_ends_are(question: Question, width: float) -> None:
    check(question, width)


def test_there_are_questions_of_every_size() -> None:
    assert {q.clones.mechanism["users"] for q in ALL} >= {1, 1000, 10**6, 10**9, 10**12}


# --- printed values ---------------------------------------------------------------------------------


def run(users: int, local: float, kind: str = "shared", rounds: int = 1) -> dp.Guarantee:
    one = dp.ShuffledReports(users=users, local_epsilon=local, randomizer=kind, rounds=rounds)
    return dp.account(one, relative_width=WIDTH)


def quickly(cases: Sequence[Any], every: int) -> list[Any]:
    """All cases, of which one in so many runs by default."""
    return [
        case if i % every == 0 else pytest.param(*case, marks=pytest.mark.slow)
        for i, case in enumerate(cases)
    ]


def meets(upper: float, printed: str) -> bool:
    """An upper end that is the printed number, up to its last digit and the width asked for."""
    low = Fraction(printed) - unit(printed)
    high = (Fraction(printed) + unit(printed)) * (1 + Fraction(WIDTH))
    return low <= Fraction(upper) <= high


@pytest.mark.parametrize(("users", "local", "epsilon", "kind", "printed"), quickly(known.DELTAS, 2))
def test_printed_deltas(users: int, local: float, epsilon: float, kind: str, printed: str) -> None:
    assert meets(run(users, local, kind).delta(epsilon=epsilon).upper, printed)


@pytest.mark.parametrize(("users", "local", "delta", "kind", "printed"), quickly(known.EPSILONS, 2))
def test_printed_epsilons(users: int, local: float, delta: float, kind: str, printed: str) -> None:
    assert meets(run(users, local, kind).epsilon(delta=delta).upper, printed)


MANY = [  # users, local epsilon, delta, lower and upper of the pair's epsilon
    *known.BRACKETS,
    (10**12, 4.0, 1e-12, "4.96603e-5", "4.96605e-5"),
]


@pytest.mark.parametrize(("users", "local", "delta", "lower", "upper"), MANY)
def test_printed_brackets_of_many_users(
    users: int, local: float, delta: float, lower: str, upper: str
) -> None:
    bracket = run(users, local).epsilon(delta=delta)
    assert Fraction(lower) <= Fraction(bracket.upper) <= Fraction(upper) * (1 + Fraction(WIDTH))
    assert bracket.lower <= float(upper)


@pytest.mark.parametrize(
    ("users", "local", "epsilon", "lower", "upper"),
    [
        (10**6, 2.0, 0.013, "1.055724e-8", "1.055766e-8"),
        (10**8, 2.0, 0.0014, "2.300416e-10", "2.300435e-10"),
        (10**9, 4.0, 0.0017, "3.525875e-12", "3.525913e-12"),
    ],
)
def test_printed_deltas_of_many_users(
    users: int, local: float, epsilon: float, lower: str, upper: str
) -> None:
    found = run(users, local).delta(epsilon=epsilon).upper
    assert Fraction(lower) <= Fraction(found) <= Fraction(upper) * (1 + Fraction(WIDTH))


@pytest.mark.parametrize(("delta", "ternary", "binary"), known.LOWER)
def test_printed_lower_sides(delta: float, ternary: str, binary: str) -> None:
    """Ternary response is the better of the two here."""
    lower = Fraction(run(10**4, 4.444).epsilon(delta=delta).lower)
    best = Fraction(ternary) + unit(ternary)
    assert (Fraction(ternary) - unit(ternary)) * (1 - Fraction(WIDTH)) <= lower <= best
    assert lower > Fraction(binary)


COMPOSED = [  # users, local epsilon, delta, rounds, lower and upper of the pair's epsilon
    (10**4, 1.0, 1e-6, 10, "0.148469", "0.148471"),
    (10**4, 1.0, 1e-6, 1000, "1.75821", "1.75851"),
    (10**4, 4.0, 1e-6, 10, "1.39669", "1.39675"),
    (10**4, 4.0, 1e-6, 1000, "19.8639", "19.8702"),
    (10**6, 2.0, 1e-8, 10, "0.0436678", "0.0436683"),
    (10**6, 2.0, 1e-8, 1000, "0.485860", "0.485878"),
    (10**8, 2.0, 1e-10, 10, "0.00481394", "0.00481398"),
    (10**8, 2.0, 1e-10, 1000, "0.0523505", "0.0523509"),
]


@pytest.mark.parametrize(
    ("users", "local", "delta", "rounds", "lower", "upper"), quickly(COMPOSED, 5)
)
def test_printed_brackets_of_many_rounds(
    users: int, local: float, delta: float, rounds: int, lower: str, upper: str
) -> None:
    bracket = run(users, local, rounds=rounds).epsilon(delta=delta)
    assert Fraction(lower) <= Fraction(bracket.upper) <= Fraction(upper) * (1 + Fraction(WIDTH))
    assert bracket.upper / 1.16 <= bracket.lower <= float(upper)


TRADEOFF = [
    (local, fpr, printed)
    for local, row in known.TRADEOFF.items()
    for fpr, printed in zip(known.CURVE, row.split(), strict=True)
]


@pytest.mark.parametrize(("local", "fpr", "printed"), quickly(TRADEOFF, 12))
def test_printed_tradeoff_functions(local: float, fpr: float, printed: str) -> None:
    low = Fraction(run(10**4, local).tradeoff().lower(fpr))
    high = Fraction(printed) + unit(printed)
    assert high * (1 - Fraction(WIDTH)) <= low <= high


RENYI = [
    (users, local, order, cell)
    for (users, local), row in known.RENYI.items()
    for order, cell in zip(known.ORDERS, row.split(), strict=True)
]


@pytest.mark.parametrize(("users", "local", "order", "cell"), quickly(RENYI, 7))
def test_published_renyi_divergences(users: int, local: float, order: int, cell: str) -> None:
    for kind, printed in zip(("individual", "shared"), cell.split(";"), strict=True):
        assert meets(run(users, local, kind).renyi(order=float(order)).upper, printed)


MORE_RENYI = {  # at 10^4 users, shared; local epsilon: (order, printed)
    1.0: [(2, "1.588158e-4"), (8, "6.352633e-4"), (32, "2.541060e-3"), (128, "1.016466e-2")],
    2.0: [(2, "9.734108e-4"), (8, "3.893679e-3"), (32, "1.557716e-2"), (128, "6.246965e-2")],
    4.0: [(2, "1.036137e-2"), (32, "1.693529e-1"), (64, "1.119059"), (128, "2.570872")],
}


@pytest.mark.slow
@pytest.mark.parametrize("local", MORE_RENYI)
def test_published_renyi_divergences_at_large_orders(local: float) -> None:
    answer = run(10**4, local)
    for order, printed in MORE_RENYI[local]:
        assert meets(answer.renyi(order=float(order)).upper, printed)


# --- exact fractions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("users", known.FIXTURES)
def test_exact_fractions(users: int) -> None:
    """local epsilon log 3: deltas, corners of the trade-off curve, moments."""
    answer = dp.account(dp.ShuffledReports(users=users, local_epsilon=log(3)), relative_width=1e-6)
    fixture = known.FIXTURES[users]
    for x, text in zip((1.0, 1.5, 2.0), fixture["delta"].split(), strict=True):
        assert float(Fraction(text)) == pytest.approx(answer.delta(epsilon=log(x)).upper, rel=2e-6)
    for order, text in zip((2, 3), fixture["moments"].split(), strict=True):
        exact = log(Fraction(text)) / (order - 1)
        assert answer.renyi(order=float(order)).upper == pytest.approx(exact, rel=2e-6)
    for a, b in known.fractions(fixture["knots"])[1:2]:
        assert answer.tradeoff().lower(float(a)) == pytest.approx(float(b), rel=1e-5)


@pytest.mark.parametrize("users", [2, 3, 4])
def test_no_extremal_randomizer_is_above_the_upper_end(users: int) -> None:
    """Brute force over data sets and staircases, against the answer itself."""
    odds, levels = Fraction(3), [Fraction(1), Fraction(3, 2), Fraction(2)]
    answer = dp.account(dp.ShuffledReports(users=users, local_epsilon=log(3)))
    worst = dict.fromkeys(levels, Fraction(0))
    for matrix in small.staircases(3, odds):
        for others in small.datasets(users, 3):
            seen = small.reports(matrix, others)
            for x in levels:
                worst[x] = max(worst[x], finite.delta([seen], x))
    for x, most in worst.items():
        bracket = answer.delta(epsilon=log(x))
        assert Fraction(bracket.upper) * (1 + Fraction(1, 10**9)) >= most
        assert Fraction(bracket.lower) <= most * (1 + Fraction(1, 10**9))


def test_one_user_is_the_local_randomizer() -> None:
    bracket = run(1, log(3)).delta(epsilon=log(2))
    assert near(bracket.upper, "0.2500", 3)
    assert near(bracket.lower, "0.2500", 3)
