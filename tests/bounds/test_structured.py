"""Local randomizers that are known, alone and shuffled: what they refuse, and that they bracket."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

import sharpdp as dp
from sharpdp.bounds.shuffle_model.all_datasets import worst_binary_dataset
from sharpdp.bounds.shuffle_model.laplace_reports import noise_blanket
from sharpdp.errors import InvalidArgument, WrongType
from tests.reference import finite
from tests.reference import shuffle_small as small

MATRIX = [[0.5, 0.3, 0.2], [0.2, 0.5, 0.3], [0.3, 0.3, 0.4]]


def shuffled(users: int, randomizer: object, **more: object) -> dp.ShuffledReports:
    return dp.ShuffledReports(users=users, randomizer=randomizer, **more)  # type: ignore[arg-type]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("matrix", "kind", "words"),
    [
        ([[0.5, 0.5], [0.6, 0.3]], InvalidArgument, ("row 1", "0.9", "off by -0.1")),
        (
            [[0.5, 0.5], [1.0, 0.0]],
            InvalidArgument,
            ("0.5 against 0", "report 1", "records 0 and 1"),
        ),
        ([[0.5, 0.5], [0.2, 0.3, 0.5]], InvalidArgument, ("2 reports in row 0", "3 in row 1")),
        ([[0.5, 0.5], [1.5, -0.5]], InvalidArgument, ("matrix[1][1]", "-0.5")),
        ([[0.5, 0.5], [math.nan, 0.5]], InvalidArgument, ("matrix[1][0]",)),
        ([[0.5, 0.5]], InvalidArgument, ("at least two rows",)),
        ("0.5, 0.5", WrongType, ("list of rows",)),
        ([0.5, 0.5], WrongType, ("row 0",)),
    ],
)
def test_matrices_that_are_none(matrix: object, kind: type, words: tuple[str, ...]) -> None:
    with pytest.raises(kind) as caught:
        dp.DiscreteRandomizer(matrix)  # type: ignore[arg-type]
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_matrix_that_breaks_its_promise_says_by_how_much_and_where() -> None:
    with pytest.raises(InvalidArgument) as caught:
        dp.DiscreteRandomizer([[0.75, 0.25], [0.25, 0.75]], local_epsilon=1.0)
    message = str(caught.value)
    assert "0.0986123 too much" in message  # log 3 - 1
    assert "report 0 of records 0 and 1" in message


def test_the_local_epsilon_of_a_matrix_is_computed() -> None:
    known = dp.DiscreteRandomizer(MATRIX)
    assert known.local_epsilon == pytest.approx(math.log(0.5 / 0.2), rel=1e-15)
    assert dp.DiscreteRandomizer(MATRIX, local_epsilon=1.0) == known
    assert shuffled(10, known).local_epsilon == known.local_epsilon


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"randomizer": dp.LocalLaplace(1.0), "local_epsilon": 2.0}, InvalidArgument, "1.0"),
        (
            {"randomizer": dp.LocalLaplace(1.0), "local_epsilon": math.nan},
            InvalidArgument,
            "finite",
        ),
        ({"randomizer": "shared"}, WrongType, "local_epsilon"),
        ({}, WrongType, "local_epsilon"),
        ({"randomizer": dp.PureDP(1.0), "local_epsilon": 1.0}, WrongType, "RandomizedResponse"),
        ({"randomizer": dp.Gaussian(1.0), "local_epsilon": 1.0}, InvalidArgument, "left out"),
        ({"randomizer": dp.LocalGaussian(0.1)}, InvalidArgument, "between 0.2 and 10000"),
        ({"randomizer": "shared", "local_epsilon": math.inf}, InvalidArgument, "local_epsilon"),
        ({"randomizer": "own", "local_epsilon": 1.0}, InvalidArgument, "individual"),
        ({"randomizer": dp.LocalLaplace(1e-9)}, InvalidArgument, "between 1e-06 and 30"),
    ],
)
def test_shuffled_reports_that_make_no_sense(
    arguments: dict[str, object], kind: type, words: str
) -> None:
    with pytest.raises(kind, match=words):
        dp.ShuffledReports(users=10, **arguments)  # type: ignore[arg-type]


def test_descriptions() -> None:
    reports = shuffled(100, dp.RandomizedResponse(local_epsilon=1, categories=3), rounds=2)
    assert reports.describe() == (
        "2 rounds of 100 shuffled reports of randomized response (local epsilon 1, 3 categories)"
    )
    assert reports.label == "shuffled reports of randomized response"
    assert shuffled(100, reports.randomizer, rounds=2, local_epsilon=1.0) == reports


# --- one report -----------------------------------------------------------------------------------


def test_one_report_with_noise_is_laplace_noise() -> None:
    local, central = dp.account(dp.LocalLaplace(0.5)), dp.account(dp.Laplace(scale=2.0))
    assert local.delta(epsilon=0.2).upper == central.delta(epsilon=0.2).upper
    # delta = 1 - e^{(epsilon - local)/2}
    assert 1 - math.exp(-0.15) in local.delta(epsilon=0.2)


def test_one_report_of_a_table() -> None:
    answer = dp.account(dp.DiscreteRandomizer(MATRIX))
    for epsilon in (0.0, 0.1, 0.4, 0.8):
        worst = max(
            sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(one, other, strict=True))
            for one, other in product(MATRIX, repeat=2)
        )
        bracket = answer.delta(epsilon=epsilon)
        assert bracket.lower <= worst * (1 + 1e-12) <= bracket.upper * (1 + 2e-12)
        assert bracket.upper <= worst * 1.02 + 1e-6


# --- shuffled reports -----------------------------------------------------------------------------


def test_laplace_noise_on_an_interval() -> None:
    answer = dp.account(shuffled(10_000, dp.LocalLaplace(1.0))).epsilon(delta=1e-6)
    assert 0.0378431 <= answer.upper <= 0.0378431 * (1 + 2e-4)
    # all others at 0 is like binary randomized response in its limit, not sharper than that
    assert 0.0300 < answer.lower < answer.upper


def two_values(first: float, second: float, x: float, c: float) -> float:
    """E[(R_first - x R_second - c w)_+], w the blanket, for noise of scale one half, by a fine sum."""
    y = np.linspace(-12.0, 13.0, 20_001)
    rows = [np.exp(-2.0 * np.abs(y - value)) for value in (first, second)]
    blanket = np.exp(-2.0 * np.maximum(y, 1.0 - y))
    return float(np.sum(np.maximum(rows[0] - x * rows[1] - c * blanket, 0.0))) * (y[1] - y[0])


@pytest.mark.parametrize("values", [(0.1, 0.9), (0.0, 0.4), (0.6, 1.0), (0.3, 0.45), (0.8, 0.9)])
def test_zero_and_one_are_the_worst_values(values: tuple[float, float]) -> None:
    # convex order of the summand, for which all c count; both signs of c
    for x, c in product((1.0, 1.2, 2.0, 5.0), (-6.0, -2.0, -0.5, 0.0, 0.5, 2.0, 6.0)):
        if x < math.exp(2.0 * abs(values[0] - values[1])):
            for first, second in (values, values[::-1]):
                assert two_values(first, second, x, c) <= two_values(0.0, 1.0, x, c) + 1e-5


def test_the_noise_is_spread_without_moving_means() -> None:
    reports = noise_blanket(2.0, 5)
    weights = np.array(reports.weights)
    assert np.sum(weights) == pytest.approx(1.0, abs=1e-14)
    assert weights @ reports.first == pytest.approx(1.0, abs=1e-14)
    assert weights @ reports.second == pytest.approx(1.0, abs=1e-14)
    # the blanket of Laplace noise on an interval has mass e^{-epsilon/2}
    assert 1.0 - weights[-1] == pytest.approx(math.exp(-1.0), abs=1e-14)


def test_few_binary_reports_are_known_exactly() -> None:
    coin = dp.RandomizedResponse(local_epsilon=1.0)
    answer = dp.account(shuffled(20, coin)).epsilon(delta=1e-3)
    assert answer.upper <= answer.lower * (1 + 1e-6)


@pytest.mark.parametrize(("users", "odds"), [(1, 3), (2, 3), (7, 2), (12, 5)])
def test_no_binary_crowd_is_worse(users: int, odds: int) -> None:
    pair = worst_binary_dataset(users, math.log(odds))
    for x in (Fraction(1), Fraction(11, 10), Fraction(5, 4), Fraction(3, 2), Fraction(19, 10)):
        crowds = [small.binary(users, Fraction(odds), ones) for ones in range(users)]
        every = [finite.delta([one], x) for crowd in crowds for one in (crowd, crowd[::-1])]
        truth = float(max(every))
        found = math.exp(pair.log_hockey_stick(np.array([math.log(x)]))[0])
        assert truth * (1 - 1e-12) <= found <= truth * (1 + 0.02) + 1e-9


@pytest.mark.parametrize(("users", "local", "width"), [(400, 0.3, 0.02), (3000, 2.0, 2e-3)])
def test_many_binary_reports_are_known_closely(users: int, local: float, width: float) -> None:
    coin = dp.RandomizedResponse(local_epsilon=local)
    pair = worst_binary_dataset(users, local)
    lie, share = 1 / (math.exp(local) + 1), 0.35
    losses = local * share * np.array([0.05, 0.2, 0.5])
    for zeros in (0, 1, users // 10, users // 3, users // 2):
        others = np.convolve(
            binom.pmf(np.arange(zeros + 1), zeros, lie),
            binom.pmf(np.arange(users - zeros), users - 1 - zeros, 1 - lie),
        )
        p = np.convolve(others, [lie, 1 - lie])
        q = np.convolve(others, [1 - lie, lie])
        for one, other in ((p, q), (q, p)):
            for loss, known in zip(losses, np.exp(pair.log_hockey_stick(losses)), strict=True):
                assert np.maximum(one - math.exp(loss) * other, 0).sum() <= known + 1e-15
    answer = dp.account(shuffled(users, coin)).epsilon(delta=1e-6)
    assert answer.lower <= answer.upper <= answer.lower * (1 + width)


def test_not_all_the_same_may_be_the_worst_data_set() -> None:
    coin = dp.RandomizedResponse(local_epsilon=0.5)
    answer = dp.account(shuffled(3, coin)).epsilon(delta=0.1)
    # one of the other two holds 1: 44 % more than if both hold 0
    assert 0.0662 < answer.lower <= answer.upper < 0.0663


def test_randomizers_with_structure_are_sharper_than_any() -> None:
    response = dp.RandomizedResponse(local_epsilon=1.0, categories=3)
    known = dp.account(shuffled(10_000, response)).epsilon(delta=1e-6)
    anything = dp.account(dp.ShuffledReports(users=10_000, local_epsilon=1.0)).epsilon(delta=1e-6)
    assert known.upper < 0.9 * anything.upper
    assert 0.0379981 * (1 - 1e-4) < known.lower < 0.0379982
    assert 0.0380012 < known.upper < 0.0380013 * (1 + 1e-4)


def test_rounds_compose() -> None:
    response = dp.RandomizedResponse(local_epsilon=1.0, categories=3)
    once = dp.account(shuffled(200, response))
    many = dp.account(shuffled(200, response, rounds=50)).epsilon(delta=1e-6)
    assert once.epsilon(delta=1e-6).upper < many.lower <= many.upper < many.lower * 1.01
    # a Gaussian of the same variance: mu^2 = 50 * 2 (E - 1)^2 / ((E + 2) n)
    mu = math.sqrt(100 * (math.e - 1) ** 2 / ((math.e + 2) * 200))
    gaussian = dp.account(dp.Gaussian(1 / mu)).epsilon(delta=1e-6)
    assert many.lower == pytest.approx(gaussian.lower, rel=0.05)
