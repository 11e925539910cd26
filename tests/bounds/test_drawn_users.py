"""Shuffled reports of users who are drawn: known randomizers and places of their own, by enumeration."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction
from itertools import combinations, permutations, product
from math import exp, log

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.shuffle_model.known_randomizer import (
    every_dataset_upper,
    fixed_others_lower,
    own_blanket_upper,
)
from sharpdp.mechanisms import SampledReports
from sharpdp.pairs.pair import Pair, log_delta_of
from tests.reference import finite
from tests.reference import sampled_shuffle as sampled
from tests.reference import shuffle_small as small

REPLACE = dp.Adjacency.REPLACE_ONE
LEVELS = [Fraction(1), Fraction(21, 20), Fraction(6, 5), Fraction(3, 2)]
CROWDS = [(1, 3), (2, 3), (2, 4), (3, 4)]


def sixteenths(*rows: list[int]) -> small.Matrix:
    return [[Fraction(mass, 16) for mass in row] for row in rows]


TABLES = [
    small.randomized_response(3, Fraction(4)),
    sixteenths([8, 5, 3], [3, 8, 5], [5, 5, 6]),
    sixteenths([4, 4, 8], [8, 2, 6]),
]


def drawn(matrix: small.Matrix, users: int, population: int) -> SampledReports:
    rows = [[float(mass) for mass in row] for row in matrix]
    reports = dp.ShuffledReports(users=users, randomizer=dp.DiscreteRandomizer(rows))
    return SampledReports(reports, population)


def values(pair: Pair, x: Fraction) -> tuple[float, float]:
    """Certified delta of a pair at e^epsilon = x."""
    low, high = log_delta_of(pair, log(x))
    return exp(low), exp(high)


def worst(matrix: small.Matrix, users: int, population: int, x: Fraction) -> Fraction:
    """The largest delta over all neighbors."""
    return max(
        finite.delta([sampled.sampled(matrix, others, users, victim)], x)
        for others, victim in sampled.neighbors(len(matrix), population)
    )


@pytest.mark.parametrize("matrix", TABLES)
@pytest.mark.parametrize(("users", "population"), CROWDS)
def test_no_data_set_of_drawn_users_is_worse(
    matrix: small.Matrix, users: int, population: int
) -> None:
    one = drawn(matrix, users, population)
    blanket = own_blanket_upper(one, REPLACE)[0][0]
    every = every_dataset_upper(one, REPLACE)[0][0]
    for x in LEVELS:
        truth = float(worst(matrix, users, population, x))
        assert values(blanket, x)[1] >= truth * (1 - 1e-12)
        assert values(every, x)[1] >= truth * (1 - 1e-12)
        if population == users + 1:  # there is only one way to do without the victim
            assert values(every, x)[1] <= truth * (1 + 1e-2) + 1e-6


def test_six_binary_reports_of_seven() -> None:
    coin = small.randomized_response(2, Fraction(3))
    every = every_dataset_upper(drawn(coin, 6, 7), REPLACE)[0][0]
    for x in LEVELS:
        truth = float(worst(coin, 6, 7, x))
        assert truth * (1 - 1e-12) <= values(every, x)[1] <= truth * (1 + 1e-3)


@pytest.mark.parametrize("matrix", TABLES)
@pytest.mark.parametrize(("users", "population"), [*CROWDS, (3, 6), (4, 5)])
def test_the_lower_side_is_one_pair_of_data_sets(
    matrix: small.Matrix, users: int, population: int
) -> None:
    lower = fixed_others_lower(drawn(matrix, users, population), REPLACE)[0][0]
    found = [
        sampled.sampled(matrix, [other] * (population - 1), users, victim)
        for other in range(len(matrix))
        for victim in permutations(range(len(matrix)), 2)
    ]
    ours = [values(lower, x)[0] for x in LEVELS]
    every = [[float(finite.delta([pair], x)) for x in LEVELS] for pair in found]
    # it is one of them, and of these one with nearly the largest total variation or more
    assert any(ours == pytest.approx(one, rel=1e-9, abs=1e-12) for one in every)
    assert all(
        a <= max(b) * (1 + 1e-12) for a, b in zip(ours, zip(*every, strict=True), strict=True)
    )


@pytest.mark.parametrize(
    ("categories", "users", "population"), [(3, 300, 301), (5, 2000, 60_000), (9, 40, 10**6)]
)
def test_both_sides_of_many_categories_meet(categories: int, users: int, population: int) -> None:
    response = dp.RandomizedResponse(local_epsilon=2.0, categories=categories)
    run = dp.ShuffledReports(users=users, randomizer=response, population=population)
    found = dp.account(run).epsilon(delta=1e-6 * users / population)
    assert 0 < found.lower <= found.upper <= found.lower * 1.005


# --- noise, one or two users -------------------------------------------------------------------------


@pytest.mark.parametrize("users", [1, 2])
@pytest.mark.parametrize("other", [0.0, 0.4, 1.0])
def test_noise_of_drawn_users(users: int, other: float) -> None:
    local, rate = 1.5, 0.25
    y = np.linspace(-9.0, 10.0, 1901)
    zero, one, rest = (
        0.5 * local * np.exp(-local * np.abs(y - value)) * (y[1] - y[0])
        for value in (0.0, 1.0, other)
    )

    def law(victim: np.ndarray) -> np.ndarray:
        absent, mixed = (rest, victim) if users == 1 else (np.outer(rest, rest), None)
        if mixed is None:
            mixed = 0.5 * (np.outer(rest, victim) + np.outer(victim, rest))
        return np.asarray((1 - rate) * absent + rate * mixed)

    reports = dp.ShuffledReports(users=users, randomizer=dp.LocalLaplace(local))
    answer = dp.account(SampledReports(reports, int(users / rate)))
    p, q = law(zero), law(one)
    for x in (1.0, 1.1, 1.5):
        truth = float(np.maximum(p - x * q, 0.0).sum())
        found = answer.delta(epsilon=log(x))
        assert found.upper >= truth * (1 - 2e-3)  # the sum over cells of 0.01 is that exact
        if other == 0.0:
            assert found.lower <= max(truth, float(np.maximum(q - x * p, 0.0).sum())) * (1 + 2e-3)


# --- a randomizer for each place, the second chosen after the first report ---------------------------


def in_places(
    people: list[int], users: int, first: small.Matrix, second: list[small.Matrix]
) -> dict[tuple[int, int], Fraction]:
    """The law of two reports in order: records are drawn and mixed, each place has a randomizer."""
    orders = [order for chosen in combinations(people, users) for order in permutations(chosen)]
    law: defaultdict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for one, other in orders:
        for report, mass in enumerate(first[one]):
            for last, chance in enumerate(second[report][other]):
                law[report, last] += mass * chance / len(orders)
    return law


def test_places_with_randomizers_of_their_own() -> None:
    odds, population = Fraction(3), 3
    rows = [
        sixteenths([12, 4], [4, 12], [4, 12]),
        sixteenths([4, 12], [12, 4], [8, 8]),
        sixteenths([6, 10], [2, 14], [4, 12]),
    ]
    pair = sampled.drawn_clones(2, odds, small.individual_rate(odds), Fraction(2, population))
    for x in LEVELS:
        most = finite.delta([pair], x)
        for first in rows:
            for second in product(rows, repeat=2):
                for others in product((0, 1, 2), repeat=population - 1):
                    p, q = (
                        in_places([victim, *others], 2, first, list(second)) for victim in (0, 1)
                    )
                    keys = {*p, *q}
                    truth = sum((max(p[k] - x * q[k], Fraction(0)) for k in keys), Fraction(0))
                    assert truth <= most
