"""Lower ends of shuffled reports try the worst data sets, and no data set exceeds the upper ends.

All truths are enumerated with fractions: all data sets of the others, all pairs of records.
"""

import importlib
import math
from fractions import Fraction
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds import all_bounds, bounds_for
from sharpdp.bounds.registry import ROUGH_WIDTH
from sharpdp.bracket import Side
from tests.reference import finite
from tests.reference import shuffle_small as small


@lru_cache
def pairs(matrix: small.Matrix, users: int) -> list[small.Pair]:
    """The laws of the counts for all data sets of the others, and all pairs of the victim's records."""
    found = []
    for others in small.datasets(users, len(matrix)):
        for x0, x1 in permutations(range(len(matrix)), 2):
            rest = [x for x in range(len(matrix)) if x not in (x0, x1)]
            order = [x0, x1, *rest]
            rows = tuple(matrix[x] for x in order)
            found.append(small.reports(rows, [order.index(x) for x in others]))
    return found


def truth(matrix: small.Matrix, users: int, loss: float) -> float:
    """The largest delta at this epsilon of any data sets, e^loss the double next to it."""
    x = Fraction(math.exp(loss))
    return float(max(finite.delta([one], x) for one in pairs(matrix, users)))


def close(bracket: dp.Bracket, value: float, width: float = 1e-6) -> bool:
    """Whether the value is in the bracket, whose lower end is within this relative width of it."""
    low, high = float(bracket.lower), float(bracket.upper)
    return value * (1 - width) <= low <= value * (1 + 1e-12) and value <= high * (1 + 1e-12)


def shuffled(users: int, randomizer: object, **more: int) -> dp.Guarantee:
    return dp.account(dp.ShuffledReports(users=users, randomizer=randomizer, **more))  # type: ignore[arg-type]


def all_alike(users: int, odds: Fraction, categories: int, x: Fraction) -> Fraction:
    """delta of k-ary randomized response if all others hold what the victim holds under P.

    Seen are the reports of that record, of the victim's other one, and the rest: (a, b, c).
    """
    scale = odds + categories - 1
    truth, lie, rest = odds / scale, 1 / scale, (categories - 2) / scale
    total = Fraction(0)
    for a in range(users + 1):
        for b in range(users - a + 1):
            c = users - a - b
            ways = math.factorial(users) // (
                math.factorial(a) * math.factorial(b) * math.factorial(c)
            )
            p = ways * truth**a * lie**b * rest**c
            ratio = (Fraction(a) / odds + b * odds + c) / users  # of Q to P
            total += max(p * (1 - x * ratio), Fraction(0))
    return total


@pytest.mark.parametrize(
    ("users", "odds", "loss"), [(5, 2, 0.6), (5, 2, 0.68), (12, 3, 1.0), (30, 7, 1.9), (9, 50, 3.8)]
)
def test_f3_others_who_hold_what_the_victim_may_hold(users: int, odds: int, loss: float) -> None:
    randomizer = dp.RandomizedResponse(local_epsilon=math.log(odds), categories=4)
    value = float(all_alike(users, Fraction(odds), 4, Fraction(math.exp(loss))))
    bracket = shuffled(users, randomizer).delta(epsilon=loss)
    assert value * (1 - 1e-3) <= float(bracket.lower)
    assert value <= float(bracket.upper)


def test_f3_epsilon_near_the_local_one() -> None:
    # 100 users, three categories: with all others alike delta exceeds 1e-4 at 3.9963
    randomizer = dp.RandomizedResponse(local_epsilon=4.0, categories=3)
    # the odds of doubles: e^4 rounded down, so that the reference is not above the truth
    odds = Fraction(math.floor(math.exp(4.0) * 1e9), 10**9)
    lie = 1 / (odds + 2)
    # all reports are the common one, or one of them is another
    n, x = 100, Fraction(math.exp(3.9963))
    every = (odds * lie) ** n
    at_least = every * (1 - x / odds)
    assert float(at_least) > 1e-4
    answer = shuffled(n, randomizer).epsilon(delta=1e-4)
    assert 3.9963 <= float(answer.lower) <= float(answer.upper) <= 3.99635


@pytest.mark.parametrize("loss", [0.0, 0.05, 0.1, 0.2, 0.25, 0.3, 0.35])
def test_f3_a_table_of_two_rows(loss: float) -> None:
    rows = [[0.15450146718743368, 0.8454985328125664], [0.22107017064558332, 0.7789298293544167]]
    exact = tuple(tuple(Fraction(mass) / sum(map(Fraction, row)) for mass in row) for row in rows)
    answer = shuffled(4, dp.DiscreteRandomizer(rows)).delta(epsilon=loss)
    assert close(answer, truth(exact, 4, loss), 0.07)


@pytest.mark.parametrize("loss", [0.0, 0.1, 0.25, 0.45, 0.6, 0.8, 0.95])
@pytest.mark.parametrize(
    "matrix",
    [
        ((5, 3, 2), (2, 5, 3), (4, 2, 4)),
        ((6, 2, 1, 1), (1, 2, 3, 4)),
        ((1, 9), (3, 7)),
    ],
)
def test_f3_tables_are_known_closely(matrix: tuple[tuple[int, ...], ...], loss: float) -> None:
    exact = tuple(tuple(Fraction(mass, 10) for mass in row) for row in matrix)
    randomizer = dp.DiscreteRandomizer([[float(mass) for mass in row] for row in exact])
    at = loss * randomizer.local_epsilon
    answer, value = shuffled(3, randomizer).delta(epsilon=at), truth(exact, 3, at)
    assert close(answer, value, 0.01)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9])
def test_f3_splits_of_the_others_are_chosen_by_what_they_reveal(share: float) -> None:
    # which of the nine others hold which record is worst depends on epsilon
    exact = ((Fraction(1, 10), Fraction(9, 10)), (Fraction(3, 10), Fraction(7, 10)))
    randomizer = dp.DiscreteRandomizer([[0.1, 0.9], [0.3, 0.7]])
    at = share * randomizer.local_epsilon
    assert close(shuffled(10, randomizer).delta(epsilon=at), truth(exact, 10, at), 0.01)


@pytest.mark.parametrize(("users", "odds"), [(3, 3), (7, 7), (8, 2), (6, 20)])
@pytest.mark.parametrize("randomizer", ["shared", "individual"])
def test_f3_split_data_of_an_unknown_randomizer(users: int, odds: int, randomizer: str) -> None:
    value = truth(small.randomized_response(2, Fraction(odds)), users, 0.0)
    mechanism = dp.ShuffledReports(users=users, local_epsilon=math.log(odds), randomizer=randomizer)
    answer = dp.account(mechanism).advantage()
    assert value * (1 - 1e-9) <= float(answer.lower)
    assert float(answer.lower) <= float(answer.upper)


def test_f3_the_number_of_the_review() -> None:
    # seven users, local epsilon 2: three of the others hold each symbol
    answer = dp.account(dp.ShuffledReports(users=7, local_epsilon=2.0)).advantage()
    assert 0.41530 < float(answer.lower) < 0.41532


@pytest.mark.parametrize("rounds", [2])
def test_f3_one_pair_of_data_sets_in_every_round(rounds: int) -> None:
    """The lower end is attained by one pair of data sets, the upper end holds for all of them."""
    matrix = small.randomized_response(3, Fraction(3))
    randomizer = dp.RandomizedResponse(local_epsilon=math.log(3.0), categories=3)
    for loss in (0.8, 1.6):
        x = Fraction(math.exp(loss))
        every = [finite.delta([one] * rounds, x) for one in pairs(matrix, 2)]
        value = float(max(every))
        bracket = shuffled(2, randomizer, rounds=rounds).delta(epsilon=loss)
        assert float(bracket.lower) <= value * (1 + 1e-12)
        assert value <= float(bracket.upper) * (1 + 1e-12)
        assert value * 0.9 <= float(bracket.lower)


def drawn(users: int, population: int, odds: int, x: Fraction) -> Fraction:
    """delta for three categories if users are drawn and everyone but the victim holds record 0."""
    matrix = small.randomized_response(3, Fraction(odds))
    p, q = small.reports(matrix, [0] * (users - 1))
    rate = Fraction(users, population)
    # without the victim the law is that of the victim with record 0
    mixed = [rate * b + (1 - rate) * a for a, b in zip(p, q, strict=True)]
    both = (
        finite.delta([(tuple(p), tuple(mixed))], x),
        finite.delta([(tuple(mixed), tuple(p))], x),
    )
    return max(both)


@pytest.mark.parametrize(("users", "population", "odds"), [(3, 4, 3), (4, 12, 9), (5, 6, 5)])
def test_f3_users_who_are_drawn(users: int, population: int, odds: int) -> None:
    randomizer = dp.RandomizedResponse(local_epsilon=math.log(odds), categories=3)
    answer = shuffled(users, randomizer, population=population)
    for share in (0.0, 0.3, 0.6, 0.9):
        loss = share * math.log1p(users / population * (odds - 1))
        value = float(drawn(users, population, odds, Fraction(math.exp(loss))))
        bracket = answer.delta(epsilon=loss)
        assert value * (1 - 1e-9) <= float(bracket.lower) * (1 + 1e-6) + 1e-300
        assert value <= float(bracket.upper) * (1 + 1e-12)


def test_every_new_lower_side_is_below_the_truth() -> None:
    """Random tables, all data sets enumerated: no lower side of one round exceeds the largest delta."""
    random = np.random.default_rng(15)
    lowers = [
        one for one in all_bounds() if one.of is dp.ShuffledReports and Side.LOWER in one.sides
    ]
    for records, reports, users in [(2, 2, 5), (2, 3, 3), (3, 2, 4), (3, 3, 2)]:
        weights = random.integers(1, 30, size=(records, reports))
        exact = tuple(tuple(Fraction(int(w), int(row.sum())) for w in row) for row in weights)
        randomizer = dp.DiscreteRandomizer([[float(mass) for mass in row] for row in exact])
        mechanism = dp.ShuffledReports(users=users, randomizer=randomizer)
        for one in lowers:
            if one.applies_to(mechanism):
                pair = one(mechanism, mechanism.adjacency())[0][0]
                for share in (0.0, 0.3, 0.6, 0.9):
                    loss = share * randomizer.local_epsilon
                    at = np.array([loss])
                    found = max(
                        pair.log_hockey_stick(at)[0], pair.reverse().log_hockey_stick(at)[0]
                    )
                    assert math.exp(found) <= truth(exact, users, loss) * (1 + 1e-9), one.name


def test_more_users_than_can_be_gone_through() -> None:
    # counts of 400 coins, half of the others hold each symbol, against exact sums
    from sharpdp.bounds.shuffle_model.all_datasets import (
        telling_datasets,  # not at a15ee80, where the others fail
    )

    users, odds = 400, 9
    lie = Fraction(1, odds + 1)
    (pair,) = telling_datasets([[0.9, 0.1], [0.1, 0.9]], users, 1, 2)
    found = math.exp(pair.log_hockey_stick(np.zeros(1))[0])

    def law(zeros: int, ones: int) -> list[float]:
        coins = np.array([1.0])
        for rate in [float(lie)] * zeros + [1.0 - float(lie)] * ones:
            coins = np.convolve(coins, [1.0 - rate, rate])
        return list(coins)

    # delta at zero is (1 - 2 w) times the largest mass of the others' count
    known = [float(1 - 2 * lie) * max(law(k, users - 1 - k)) for k in (0, 100, 200, 300, 399)]
    assert found == pytest.approx(max(known), rel=1e-9)


@pytest.mark.parametrize("size", [80, 300])
def test_resources_large_tables(size: int) -> None:
    """Pairs of many records are not gone through: what holds for any randomizer answers."""
    weights = np.random.default_rng(1).uniform(1.0, 3.0, (size, size))
    rows = weights / weights.sum(axis=1, keepdims=True)
    randomizer = dp.DiscreteRandomizer(rows.tolist())
    mechanism = dp.ShuffledReports(users=1000, randomizer=randomizer)
    asked = [one.name for one in bounds_for(mechanism)]
    assert "own_blanket_upper" not in asked
    assert "shared_clones_upper" in asked
    assert "fixed_others_lower" in asked


def test_resources_calibration_asks_few_pairs_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them takes seconds; lower sides only say how far the best value may be."""
    module = importlib.import_module("sharpdp.questions.calibrate")
    asked: list[tuple[Side, bool]] = []

    class Counted(module.Derivations):  # type: ignore[name-defined, misc]
        def __init__(
            self, mechanism: dp.Mechanism, adjacency: object, side: Side, **options: Any
        ) -> None:
            asked.append((side, options["width"] < ROUGH_WIDTH))
            super().__init__(mechanism, adjacency, side, **options)

    monkeypatch.setattr(module, "Derivations", Counted)
    dp.calibrate(
        lambda e: dp.ShuffledReports(
            users=50, randomizer=dp.RandomizedResponse(local_epsilon=e, categories=3)
        ),
        epsilon=1.0,
        delta=1e-6,
    )
    assert asked.count((Side.UPPER, True)) <= 6
    assert sum(side is Side.LOWER for side, _ in asked) <= 4
