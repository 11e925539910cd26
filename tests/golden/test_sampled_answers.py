"""Sampled users: the specification's table on both sides, and small cases against enumeration.

The table was computed by other code: connect-the-dots on a fine grid, good to some 2e-4 in all columns.
Its upper sides count whoever replaces an absent user as the worst one; ours are below them, see
docs/proofs/shuffle-proof.md, and are held to sums over all counts of clones.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from math import exp, expm1, log, log1p, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import binom, norm

import sharpdp as dp
from tests.reference import finite
from tests.reference import sampled_shuffle as sampled
from tests.reference import shuffle_small as small

Array = NDArray[np.float64]

SETTINGS = {
    "A": (1000, 1.0, 10**6, 1e-8),
    "C": (1000, 3.0, 10**6, 1e-8),
    "E": (2000, 2.0, 60_000, 1e-5),
}
# setting, rounds: pair of 2021, exact pair, ternary response, binary response
TABLE = """
A    100 .0018497 .0015052 .0013016 .0012095
A   1000 .0062555 .0050991 .0044186 .0041025
A  10000 .021024  .017157  .014881  .013816
A 100000 .070290  .057405  .049820  .046259
C    100 .012261  .0083230 .0073729 .0054263
C   1000 .040476  .027713  .024762  .018142
C  10000 .134826  .092480  .082738  .060562
C 100000 .449511  .308237  .275800  .201789
E     30 .051059  .036871  .033452  .026108
E    300 .179481  .130346  .118813  .092829
E   1500 .431101  .313369  .285850  .223430
E   3000 .629080  .457092  .416956  .325857
E   6000 .919114  .667129  .608446  .475279
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


def always(*chosen: str) -> list[object]:
    """All rows, those that are not chosen only if slow tests are wanted."""
    names = [f"{row[0]}-{row[1]}" for row in ROWS]
    return [
        pytest.param(row, id=name, marks=[] if name in chosen else pytest.mark.slow)
        for row, name in zip(ROWS, names, strict=True)
    ]


WIDTH, GRID = 2e-4, 3e-4


def answer(row: list[str], kind: str = "shared") -> dp.Guarantee:
    users, local, population, _ = SETTINGS[row[0]]
    run = dp.ShuffledReports(
        users=users,
        local_epsilon=local,
        population=population,
        rounds=int(row[1]),
        randomizer=kind,
    )
    return dp.account(run, relative_width=WIDTH)


@pytest.mark.parametrize("row", always("A-1000", "C-100", "C-100000", "E-30", "E-6000"))
def test_the_table_of_the_specification(row: list[str]) -> None:
    upper, lower = float(row[3]), max(float(row[4]), float(row[5]))
    users, local, population, delta = SETTINGS[row[0]]
    found = answer(row).epsilon(delta=delta)
    assert found.lower == pytest.approx(lower, rel=WIDTH + GRID)
    assert found.lower <= found.upper < 0.985 * upper
    # with many rounds only variances count
    mu = users / population * sqrt(int(row[1]) * variance(local) / users)
    assert found.upper == pytest.approx(gaussian(mu, delta), rel=0.015)


def variance(local: float) -> float:
    """Users times that of the loss, for clones of any shared randomizer: 2 (E - 1)^2 / (E + 1)."""
    return 2 * (exp(local) - 1) ** 2 / (exp(local) + 1)


def gaussian(mu: float, delta: float) -> float:
    """epsilon of Gaussian noise."""
    return float(
        brentq(
            lambda e: norm.cdf(mu / 2 - e / mu) - exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 9
        )
    )


def counts(local: float, users: int, rate: float) -> tuple[Array, Array, Array]:
    """Masses of all counts of clones, and rate (mean(X) - 1), rate (mean(Y) - 1) there."""
    odds = exp(local)
    n = np.arange(users + 1.0)[:, None]
    a = np.arange(users + 1.0)[None, :]
    with np.errstate(invalid="ignore"):
        masses = binom.pmf(n, users, 2 / (odds + 1)) * binom.pmf(a, n, 0.5)
    kept = masses > 0
    first = rate * ((odds * a + (n - a)) / users - 1)
    second = rate * ((a + odds * (n - a)) / users - 1)
    return masses[kept], first[kept], second[kept]


@pytest.mark.parametrize("row", always("C-1000", "E-1500"))
def test_the_pair_of_2021_and_binary_response(row: list[str]) -> None:
    users, local, population, delta = SETTINGS[row[0]]
    found = answer(row, "individual").epsilon(delta=delta)
    assert found.lower < found.upper < 0.96 * float(row[2])
    runs = dp.ShuffledReports(
        users=users,
        local_epsilon=local,
        population=population,
        rounds=int(row[1]),
        randomizer="individual",
    )
    old = dp.compare(runs, delta=delta, relative_width=WIDTH)["sampled_individual_clones_upper"]
    assert old.value == pytest.approx(float(row[2]), rel=WIDTH + GRID)
    run = dp.ShuffledReports(
        users=users, local_epsilon=local, population=population, rounds=int(row[1])
    )
    binary = dp.compare(run, delta=delta, relative_width=WIDTH)["sampled_binary_response_lower"]
    assert binary.value == pytest.approx(float(row[5]), rel=WIDTH + GRID)


FIGURES = [  # local epsilon, users, population, epsilon of the exact pair after 10^5 rounds at 1e-8
    (1.0, 10**4, 10**5, 2.1330), (1.0, 10**4, 10**6, 0.18919), (1.0, 10**4, 10**8, 0.0014857),
    (3.0, 1000, 10**5, 3.5260), (3.0, 1000, 10**7, 0.027687), (3.0, 1000, 10**8, 0.0024403),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("local", "users", "population", "epsilon"), FIGURES)
def test_the_third_panels(local: float, users: int, population: int, epsilon: float) -> None:
    run = dp.ShuffledReports(users=users, local_epsilon=local, population=population, rounds=10**5)
    found = dp.account(run, relative_width=WIDTH).epsilon(delta=1e-8)
    assert 0.9 * epsilon < found.upper < epsilon
    assert found.lower <= found.upper <= 1.14 * found.lower


@pytest.mark.underflows
def test_one_round_is_the_profile_inverted() -> None:
    run = dp.ShuffledReports(users=1000, local_epsilon=1.0, population=10**6)
    found = dp.account(run).epsilon(delta=1e-8)
    masses, first, second = counts(1.0, 1000, 1e-3)

    def excess(epsilon: float) -> float:
        return float(masses @ np.maximum(first - second - expm1(epsilon) * (1 + second), 0)) - 1e-8

    exact = brentq(excess, 0, 1e-3, xtol=1e-12)
    assert exact * (1 - 1e-8) <= found.upper <= exact * (1 + 2e-4)
    assert found.upper < 1.3318498e-4  # with the worst one in the place of an absent user


@pytest.mark.underflows
@pytest.mark.parametrize(
    ("local", "order", "subset"),
    [(1.0, 2, 1.6405039e-9), (1.0, 10, 8.2025197e-9), (3.0, 2, 4.0798701e-8)],
)
def test_moments_of_the_pair(local: float, order: int, subset: float) -> None:
    run = dp.ShuffledReports(users=1000, local_epsilon=local, population=10**6)
    found = dp.account(run, relative_width=1e-5).renyi(order=order)
    masses, first, second = counts(local, 1000, 1e-3)
    grown = np.expm1(order * np.log1p(first) + (1 - order) * np.log1p(second))
    exact = log1p(float(masses @ (grown - order * first - (1 - order) * second))) / (order - 1)
    assert exact * (1 - 1e-6) <= found.upper <= exact * (1 + 5e-4)
    assert found.upper < subset * 1.01


# --- enumeration ------------------------------------------------------------------------------------

ODDS = Fraction(3)
TINY = Fraction(1, 10**13)  # next to the largest loss a delta of zero is known up to rounding
LEVELS = [Fraction(1), Fraction(9, 8), Fraction(5, 4), Fraction(3, 2), Fraction(2)]
CROWDS = [(1, 2), (2, 3), (2, 4), (3, 4), (3, 5), (4, 5)]
STAIRCASES = {records: list(small.staircases(records, ODDS)) for records in (2, 3)}


def bound(users: int, population: int, rate: Fraction | None = None) -> small.Pair:
    """The pair of clones of drawn users, in fractions."""
    clones = rate or small.shared_rate(ODDS)
    return sampled.drawn_clones(users, ODDS, clones, Fraction(users, population))


def every_pair(records: int, users: int, population: int) -> list[small.Pair]:
    """What is seen under neighbors, for all extremal randomizers on so many records."""
    return [
        sampled.sampled(matrix, others, users, victim)
        for matrix in STAIRCASES[records]
        for others, victim in sampled.neighbors(records, population)
    ]


def responses(users: int, population: int) -> list[small.Pair]:
    """Binary and ternary randomized response, all others hold one symbol; both directions."""
    two, three = (small.randomized_response(categories, ODDS) for categories in (2, 3))
    pairs = [
        sampled.sampled(two, [0] * (population - 1), users, (0, 1)),
        sampled.sampled(three, [2] * (population - 1), users, (0, 1)),
    ]
    return [*pairs, *(pair[::-1] for pair in pairs)]


@pytest.mark.parametrize(("users", "population"), CROWDS)
def test_no_randomizer_exceeds_the_pair(users: int, population: int) -> None:
    """In exact fractions, and the answer has the pair between its ends."""
    records = 3 if population <= 3 else 2
    pair = bound(users, population)
    found = every_pair(records, users, population)
    run = dp.ShuffledReports(users=users, local_epsilon=log(3), population=population)
    known = dp.account(run)
    for x in LEVELS:
        most = finite.delta([pair], x)
        worst = max(finite.delta([one], x) for one in found)
        assert worst <= most
        bracket = known.delta(epsilon=log(x))
        assert Fraction(bracket.upper) >= most * (1 - Fraction(1, 10**9))
        assert Fraction(bracket.upper) <= most * (1 + Fraction(1, 10**9)) + TINY
        real = max(finite.delta([one], x) for one in responses(users, population))
        assert Fraction(bracket.lower) <= real * (1 + Fraction(1, 10**9)) + TINY
        assert Fraction(bracket.lower) >= real * (1 - Fraction(1, 10**3)) - TINY
        assert real <= most
        # attained: by a single user at every level, by two at the total variation
        if users == 1 or (users == 2 and x == 1):
            assert worst == most


def test_with_all_users_the_pair_is_attained_at_the_end() -> None:
    """Four users of four, e^epsilon = 2: a staircase on three records has exactly the bound."""
    x = Fraction(2)
    pairs = every_pair(3, 4, 4)
    assert max(finite.delta([one], x) for one in pairs) == finite.delta([bound(4, 4)], x) > 0


@pytest.mark.parametrize(("users", "population"), [(1, 2), (2, 3), (3, 4), (4, 5)])
def test_two_rounds_also_if_the_second_depends_on_the_first(users: int, population: int) -> None:
    pair = bound(users, population)
    found = every_pair(2, users, population)
    run = dp.ShuffledReports(users=users, local_epsilon=log(3), population=population, rounds=2)
    known = dp.account(run)
    for x in (Fraction(1), Fraction(5, 4), Fraction(2)):
        most = finite.delta([pair, pair], x)
        fixed = max(finite.delta([one, one], x) for one in found)
        chosen = max(sampled.adaptive(first, found, x) for first in found)
        assert fixed <= chosen <= most
        bracket = known.delta(epsilon=log(x))
        slack = Fraction(1, 10**9)
        assert most * (1 - slack) <= Fraction(bracket.upper) <= most * Fraction(1.0021) + slack
        real = max(finite.delta([one, one], x) for one in responses(users, population))
        assert real <= most
        assert (
            real * Fraction(0.9979) - TINY <= Fraction(bracket.lower) <= real * (1 + slack) + TINY
        )


@pytest.mark.parametrize(("users", "population"), [(1, 2), (2, 4), (3, 4)])
def test_individual_randomizers_have_the_pair_of_2021(users: int, population: int) -> None:
    """On a subset, or with its clones drawn: whatever is less."""
    rate = small.individual_rate(ODDS)
    pairs = [
        bound(users, population, rate),
        sampled.on_a_subset(small.clones(users, ODDS, rate), Fraction(users, population)),
    ]
    run = dp.ShuffledReports(
        users=users, local_epsilon=log(3), population=population, randomizer="individual"
    )
    known = dp.account(run)
    for x in LEVELS:
        most = min(finite.delta([pair], x) for pair in pairs)
        slack = Fraction(1, 10**9)
        assert most * (1 - slack) <= Fraction(known.delta(epsilon=log(x)).upper)
        assert Fraction(known.delta(epsilon=log(x)).upper) <= most * (1 + slack) + TINY


@pytest.mark.parametrize("order", [2, 3, 7])
def test_renyi_divergences_stay_below_every_bound(order: int) -> None:
    users, population = 2, 3
    run = dp.ShuffledReports(users=users, local_epsilon=log(3), population=population)
    rows = dp.compare(run, order=order, relative_width=1e-3).rows
    worst = max(finite.renyi_sum([one], order) for one in every_pair(3, users, population))
    truth = log(worst) / (order - 1)
    uppers = [row.value for row in rows if str(row.side) == "upper" and row.value is not None]
    lowers = [row.value for row in rows if str(row.side) == "lower" and row.value is not None]
    assert len(uppers) >= 4
    assert max(lowers) <= truth * (1 + 1e-9)
    assert truth <= min(uppers)


# --- laws -------------------------------------------------------------------------------------------


def epsilon(
    users: int, local: float, population: int, rounds: int, kind: str = "shared"
) -> dp.Bracket:
    run = dp.ShuffledReports(
        users=users, local_epsilon=local, population=population, rounds=rounds, randomizer=kind
    )
    return dp.account(run).epsilon(delta=1e-6)


def grows(brackets: list[dp.Bracket]) -> bool:
    """Both ends grow, as far as the width lets them be told apart."""
    return all(
        b.lower >= a.lower * (1 - 2e-3) and b.upper >= a.upper * (1 - 2e-3)
        for a, b in itertools.pairwise(brackets)
    )


def test_more_of_anything_but_people_is_less_private() -> None:
    assert grows([epsilon(300, 1.0, 3000, rounds) for rounds in (1, 2, 50, 5000)])
    assert grows([epsilon(300, local, 3000, 20) for local in (0.1, 1.0, 4.0)])
    assert grows([epsilon(300, 1.0, people, 20) for people in (10**7, 10**4, 1000, 300)])


@pytest.mark.parametrize("kind", ["shared", "individual"])
def test_all_users_drawn_is_no_sampling(kind: str) -> None:
    all_drawn = epsilon(300, 2.0, 300, 5, kind)
    run = dp.ShuffledReports(users=300, local_epsilon=2.0, rounds=5, randomizer=kind)
    plain = dp.account(run).epsilon(delta=1e-6)
    assert all_drawn.upper == pytest.approx(plain.upper, rel=2e-3)
    assert all_drawn.lower == pytest.approx(plain.lower, rel=2e-3)


@pytest.mark.parametrize(
    ("users", "local", "population", "rounds"),
    [(1, 1.0, 2, 3), (5, 3.0, 50, 4), (1000, 0.5, 10**4, 100), (50, 8.0, 60, 2)],
)
def test_sharing_helps_and_pure_privacy_is_the_limit(
    users: int, local: float, population: int, rounds: int
) -> None:
    shared, own = (
        epsilon(users, local, population, rounds, kind) for kind in ("shared", "individual")
    )
    assert 0 <= shared.lower <= shared.upper <= own.upper * (1 + 2e-3)
    pure = dp.compare(
        dp.ShuffledReports(users=users, local_epsilon=local, population=population, rounds=rounds),
        delta=1e-6,
        relative_width=0.1,
    )["sampled_unshuffled_upper"].value
    assert pure is not None
    assert own.upper <= pure * (1 + 1e-9)


def test_sampling_composes_with_other_things() -> None:
    one = dp.ShuffledReports(users=100, local_epsilon=1.0).sampled(population=1000)
    both = dp.account(one * 10 + dp.Gaussian(noise_multiplier=5.0)).epsilon(delta=1e-6)
    alone = dp.account(one * 10).epsilon(delta=1e-6)
    assert alone.upper < both.upper
    assert both.lower > 0


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 10**4, 10**7])
@pytest.mark.parametrize("local", [0.5, 3.0])
def test_the_largest_scale(local: float, rounds: int) -> None:
    found = epsilon(10**7, local, 10**10, rounds)
    assert found.upper < 1
    assert found.upper <= 1.3 * found.lower


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ({"users": 9, "population": 8}, "population must be at least the 9 users of one round; got 8"),
        ({"users": 1, "population": 1}, "population must be a whole number, at least 2; got 1"),
        ({"users": 9, "population": 10.5}, "population must be a whole number, at least 2; got 10.5"),
        ({"users": 9, "population": "many"}, "population must be"),
        ({"users": 9, "population": 10**13}, r"population must be at most 10\^12"),
        ({"users": 9, "population": 20, "rounds": 0}, "rounds must be a whole number, at least 1; got 0"),
        ({"users": 0, "population": 20}, "users must be a whole number, at least 1; got 0"),
        ({"users": 9, "population": 20, "local_epsilon": 1e-9}, "local_epsilon must be 0, or between"),
        ({"users": 9, "population": 20, "local_epsilon": -1.0}, "local_epsilon must be 0, or between"),
    ],
)  # fmt: skip
def test_bad_input(words: dict[str, object], sentence: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=sentence):
        dp.ShuffledReports(**{"local_epsilon": 1.0, **words})  # type: ignore[arg-type]
