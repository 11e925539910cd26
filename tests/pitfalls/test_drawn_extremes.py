"""Users who are drawn from hardly more than all, or from all the world: what an audit found."""

from __future__ import annotations

import warnings
from fractions import Fraction

import pytest

import sharpdp as dp
from sharpdp.bounds.shuffle_model.known_pairs import drawn_rate
from sharpdp.bracket import Side
from sharpdp.mechanisms import BlanketRandomizer


@pytest.mark.parametrize(
    ("users", "population"), [(1, 3), (10**12 - 1, 10**12), (999_966_600_580, 999_966_600_581)]
)
def test_rates_are_rounded_to_a_side(users: int, population: int) -> None:
    one = dp.ShuffledReports(users=users, local_epsilon=1.0, population=population).parts()[0][0]
    low, high = (Fraction(drawn_rate(one, side)) for side in (Side.LOWER, Side.UPPER))
    assert low <= Fraction(users, population) <= high
    assert high - low <= Fraction(1, 2**52)


@pytest.mark.parametrize(("delta", "dataset"), [(1e-2, 29.4381857913), (1e-8, 29.7990565298)])
def test_all_but_one_of_a_trillion(delta: float, dataset: float) -> None:
    """The exact epsilon of ternary response where all others hold the third symbol, in 60 digits."""
    run = dp.ShuffledReports(users=10**12 - 1, local_epsilon=30.0, population=10**12)
    found = dp.account(run).epsilon(delta=delta)
    assert found.lower <= dataset <= found.upper


def test_the_upper_side_is_not_below_its_pair() -> None:
    """The blanket's pair by a direct sum with 1 - users/population exact."""
    run = dp.ShuffledReports(users=999_966_600_580, local_epsilon=30.0, population=999_966_600_581)
    assert dp.account(run).epsilon(delta=1e-2).upper >= 29.4685809260


@pytest.mark.parametrize(
    ("users", "population", "local", "categories"),
    [(1, 10**12, 0.5, 2), (2, 10**9, 1e-4, 2), (1, 10**12, 1e-3, 2), (10, 10**12, 1e-6, 3)],
)
def test_hardly_any_loss(users: int, population: int, local: float, categories: int) -> None:
    response = dp.RandomizedResponse(local_epsilon=local, categories=categories)
    run = dp.ShuffledReports(users=users, randomizer=response, population=population)
    found = dp.account(run).epsilon(delta=1e-30)
    assert 0.0 <= found.lower <= found.upper <= local
    if (
        users == 1
    ):  # one report, drawn: the ratio is 1 + rate (E - 1) / (rate + (1 - rate)(E + 1)/2...)
        assert found.upper <= 2.0 * local * users / population + 2e-12


def test_reports_that_say_nothing() -> None:
    nothing = BlanketRandomizer(local_epsilon=0.1, blanket=1.0)
    run = dp.ShuffledReports(users=10**9, population=2 * 10**9 + 1, randomizer=nothing)
    assert dp.account(run).epsilon(delta=1e-6).lower == 0.0


@pytest.mark.parametrize(
    ("users", "extra", "local", "randomizer"),
    [(10**11, 2, 23.04, "shared"), (10**11, 1, 22.495, "individual")],
)
def test_few_clones_among_very_many_warn_of_nothing(
    users: int, extra: int, local: float, randomizer: str
) -> None:
    run = dp.ShuffledReports(
        users=users, population=users + extra, local_epsilon=local, randomizer=randomizer
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dp.account(run).epsilon(delta=1e-4)
    assert 0.0 < found.lower <= found.upper <= local * (1.0 + 1e-12)


def test_a_budget_that_hides_nothing_warns_of_nothing() -> None:
    response = dp.RandomizedResponse(local_epsilon=30.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dp.account(dp.ShuffledReports(users=200, randomizer=response)).epsilon(delta=1e-6)
    assert 29.0 < found.lower <= found.upper <= 30.0 * (1.0 + 1e-12)
