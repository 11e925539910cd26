"""Published formulas on sampled users: the specification's tables, balls, and every condition.

Values come from tables that were computed by other code, and from sums in 60-digit balls
(tests/reference/sampled_shuffle.py); none from our own code.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator

import pytest
from flint import arb, ctx

import sharpdp as dp
from sharpdp.bounds.published import Formula, all_formulas
from sharpdp.bounds.shuffle_model.published.sampled_epsilon import least_epsilon
from sharpdp.bounds.shuffle_model.published.sampled_renyi import (
    _numbers,
    _shuffled_moments,
    subset_divergence,
)
from sharpdp.bounds.shuffle_model.published.sampled_renyi import chernoff_terms as chernoff
from sharpdp.bounds.shuffle_model.published.strong_composition import strong_composition
from sharpdp.bracket import Rigor, Side
from sharpdp.curves.renyi.conversion import epsilon_from
from sharpdp.errors import Inapplicable, NotCertified
from sharpdp.mechanisms import RandomizedResponse, SampledReports, ShuffledReports
from tests.reference import sampled_shuffle as exact

EVERY = [one for one in all_formulas() if one.of is SampledReports]
FORMULAS = {one.name: one for one in EVERY}


def drawn(
    users: int, local_epsilon: float, population: int, rounds: int = 1, kind: str = "shared"
) -> SampledReports:
    reports = ShuffledReports(
        users=users, local_epsilon=local_epsilon, rounds=rounds, randomizer=kind
    )
    return SampledReports(reports, population)


SETTINGS = {
    "A": (1000, 1.0, 10**6, 1e-8),
    "C": (1000, 3.0, 10**6, 1e-8),
    "E": (2000, 2.0, 60_000, 1e-5),
}
COLUMNS = (
    "sampled_moments_epsilon_upper",
    "sampled_moments_classical_upper",
    "sampled_clones_moments_epsilon_upper",
    "amplified_moments_epsilon_upper",
    "clones_strong_composition_upper",
    "numeric_clones_strong_composition_upper",
    "response_moments_epsilon",
)
# setting, rounds, best order of Theorem 1, then a value in each column; * where clones are too few
TABLE = """
A    100 1721  .009959  .014444  .006901  .03235  .04456  .01225  .001321
A   1000  732  .027129  .036710  .018849  .07320  .15592  .04534  .004445
A  10000  287  .080467  .102166  .056024  .17010  .54244  .16459  .014877
A 100000  103  .253841  .305761  .176882  .41420  3.3875* .59075  .049553
C    100   86  .238795  .300309  .162549  .18524  1.1123* .20403  .005877
C   1000   41  .563306  .677746  .378605  .47379  3.7565* .89094  .019518
C  10000   19 1.436091 1.650977  .942982 1.36229  13.262* 4.0404  .064813
C 100000    8 4.086200 4.500476 2.587527 4.35433  54.159* 20.453  .214995
E     30   22  .580024  .763584  .400582  .66169  1.1824  .31671  .029610
E    300   11 1.470039 1.805139 1.014719 1.62375  4.5001  1.2952  .103565
E   1500    6 2.987518 3.474869 2.051024 3.19624  11.729! 3.4622  .247066
E   3000    5 4.118289 4.743792 2.822531 4.37423  106.5*  5.3260  .359110
E   6000    4 5.794552 6.544332 3.976555 6.06228  183.2*  8.1588  .522163
"""
ROWS = [line.split() for line in TABLE.strip().splitlines()]


def digits(printed: str) -> float:
    """Half a unit of the last printed digit, and a little for values that were rounded twice."""
    return 0.55 * 10.0 ** -len(printed.partition(".")[2])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_table_of_the_specification(row: list[str]) -> None:
    *setting, delta = SETTINGS[row[0]]
    run = drawn(*setting, rounds=int(row[1]))  # type: ignore[arg-type]
    for name, printed in zip(COLUMNS, row[3:], strict=True):
        if printed[-1] in "*!":
            # the table keeps log(2/delta) in the condition at "!"; the safe constant is 4
            with pytest.raises(Inapplicable, match="it needs about"):
                FORMULAS[name](run, delta)
            if printed[-1] == "*":
                value = FORMULAS["local_strong_composition_upper"](run, delta)
                assert value == pytest.approx(float(printed[:-1]), abs=digits(printed[:-1]))
        else:
            value = FORMULAS[name](run, delta)
            slack = 1e-4 * value if name.startswith("numeric") else 0.0
            assert value == pytest.approx(float(printed), abs=digits(printed) + slack)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[1]}")
def test_the_best_order_of_the_specification(row: list[str]) -> None:
    *setting, delta = SETTINGS[row[0]]
    run, rounds = drawn(*setting), int(row[1])  # type: ignore[arg-type]
    _, order = least_epsilon(lambda a: rounds * subset_divergence(run, a, chernoff), delta)
    assert order == float(row[2])


# local epsilon, order, then Theorem 1, without Chernoff, Theorem 2, and unsampled reports
MOMENTS = [
    (1.0, 2, 2.3612201e-08, 1.1809970e-08, 1.0861613e-09, 5.8856956e-03),
    (1.0, 10, 1.1858290e-07, 5.9234546e-08, 5.4308220e-09, 8.2321130e-02),
    (3.0, 2, 3.7024612e-06, 1.4570298e-06, 1.8135324e-08, 9.2830389e-01),
    (3.0, 10, 2.5279878e-05, 9.6221610e-06, 9.0680991e-08, 2.6427204),
]


@pytest.mark.parametrize(("local", "order", "first", "second", "lower", "shuffled"), MOMENTS)
def test_golden_moments(
    local: float, order: int, first: float, second: float, lower: float, shuffled: float
) -> None:
    run = drawn(1000, local, 10**6)
    assert FORMULAS["sampled_moments_upper"](run, order) == pytest.approx(first, rel=3e-8)
    assert FORMULAS["sampled_clones_moments_upper"](run, order) == pytest.approx(second, rel=3e-8)
    assert FORMULAS["response_moments_lower"](run, order) == pytest.approx(lower, rel=3e-8)
    found = _shuffled_moments(_numbers(run), 64)[order] / (order - 1)
    assert found == pytest.approx(shuffled, rel=3e-8)


FIGURES = [  # local epsilon, users, population, epsilon of Theorem 1 after 10^5 rounds at 1e-8
    (1.0, 10**4, 10**5, 10.1930), (1.0, 10**4, 10**6, 0.845448), (1.0, 10**4, 10**8, 0.006856),
    (3.0, 1000, 10**5, 54.05), (3.0, 1000, 10**7, 0.36084), (3.0, 1000, 10**8, 0.03245),
]  # fmt: skip


@pytest.mark.parametrize(("local", "users", "population", "epsilon"), FIGURES)
def test_the_third_panels(local: float, users: int, population: int, epsilon: float) -> None:
    run = drawn(users, local, population, 10**5)
    found = FORMULAS["sampled_moments_epsilon_upper"](run, 1e-8)
    assert found == pytest.approx(epsilon, rel=2e-4)


@pytest.fixture(autouse=True)
def sixty_digits() -> Iterator[None]:
    precision, ctx.prec = ctx.prec, 260
    yield
    ctx.prec = precision


Moment = Callable[[int, arb, int, arb], arb]


def _lemma(terms: Callable[[int, arb, int], arb]) -> Moment:
    def moment(users: int, odds: arb, order: int, rate: arb) -> arb:
        every = [terms(users, odds, j) for j in range(2, order + 1)]
        return exact.subset_moment(every, order, rate)

    return moment


IN_BALLS: dict[str, Moment] = {
    "sampled_moments_upper": _lemma(exact.with_chernoff),
    "sampled_clones_moments_upper": _lemma(exact.with_clones),
    "amplified_moments_upper": exact.amplified_moment,
    "response_moments_lower": exact.response_moment,
}
SMALL = [(1, 0.7, 3), (2, 2.0, 2), (7, 1e-3, 50), (60, 0.3, 61), (90, 4.0, 9000), (150, 1.5, 10**9)]


@pytest.mark.parametrize("name", IN_BALLS)
@pytest.mark.parametrize(("users", "local", "population"), SMALL)
@pytest.mark.parametrize("order", [2, 3, 9, 40])
def test_sums_are_on_their_side_and_close(
    name: str, users: int, local: float, population: int, order: int
) -> None:
    odds, rate = arb(local).exp(), arb(users) / population
    clip = (1 + rate * (odds - 1)).log()
    moment = IN_BALLS[name](users, odds, order, rate) / (order - 1)
    value = arb(FORMULAS[name](drawn(users, local, population), order))
    if name.endswith("lower"):
        assert moment * (1 - arb("1e-10")) < value <= moment
    else:
        assert moment.min(clip) <= value < moment.min(clip) * (1 + arb("1e-10"))


@pytest.mark.parametrize("order", [1.01, 1.5, 6.25])
@pytest.mark.parametrize("name", [name for name in IN_BALLS if name.endswith("upper")])
def test_chords_between_whole_orders(name: str, order: float) -> None:
    users, local, population = 90, 1.0, 9000
    odds, rate = arb(local).exp(), arb(users) / population
    low, share = math.floor(order), arb(order) - math.floor(order)
    below = arb(0) if low == 1 else IN_BALLS[name](users, odds, low, rate)
    above = IN_BALLS[name](users, odds, low + 1, rate)
    chord = ((1 - share) * below + share * above) / (arb(order) - 1)
    value = arb(FORMULAS[name](drawn(users, local, population), order))
    assert chord <= value < chord * (1 + arb("1e-10"))


@pytest.mark.parametrize("order", [1.01, 1.5, 6.25, 200.5])
@pytest.mark.parametrize("population", [90, 9000])
def test_the_lower_moments_at_real_orders(order: float, population: int) -> None:
    rate = arb(90) / population
    truth = exact.response_moment(90, arb(2).exp(), order, rate) / (arb(order) - 1)
    value = arb(FORMULAS["response_moments_lower"](drawn(90, 2.0, population), order))
    assert truth * (1 - arb("1e-9")) < value <= truth


def test_long_sums_end_where_the_rest_is_known() -> None:
    """Order 3000: all terms in balls against the few that are added up."""
    odds, rate = arb(1).exp(), arb(1000) / 10**6
    every = [exact.with_chernoff(1000, odds, j) for j in range(2, 3001)]
    truth = exact.subset_moment(every, 3000, rate) / 2999
    value = arb(FORMULAS["sampled_moments_upper"](drawn(1000, 1.0, 10**6), 3000))
    assert truth <= value < truth * (1 + arb("1e-10"))


@pytest.mark.parametrize(("users", "local"), [(10**7, 3.0), (10**9, 1.0)])
def test_grouped_clones_are_above_and_close(users: int, local: float) -> None:
    """E[1/(M + 1)] = (1 - (1 - p)^k)/(k p) is the exact mean at order 2."""
    rate = 1e-3
    run = drawn(users, local, round(users / rate))
    odds = arb(local).exp()
    mean = odds / users  # (1 - p)^k is below e^-10^5
    truth = (1 + arb(rate) ** 2 * 4 * (odds - 1) ** 2 / odds * mean).log()
    value = arb(FORMULAS["sampled_clones_moments_upper"](run, 2))
    assert truth * (1 - arb("1e-11")) <= value < truth * (1 + arb("1e-3"))


@pytest.mark.parametrize(("epsilon", "rounds", "delta"), [(0.01, 100, 1e-6), (1.0, 7, 1e-9)])
def test_strong_composition_in_balls(epsilon: float, rounds: int, delta: float) -> None:
    e, d = arb(epsilon), arb(delta)
    drift = rounds * e * (e.exp() - 1) / (e.exp() + 1)
    wide = e * (2 * rounds * (arb(1).exp() + arb(rounds).sqrt() * e / d).log()).sqrt()
    plain = e * (2 * rounds * (1 / d).log()).sqrt()
    truth = (rounds * e).min(drift + wide).min(drift + plain)
    value = arb(strong_composition(epsilon, rounds, delta))
    assert truth <= value < truth * (1 + arb("1e-11"))


def test_the_closed_form_needs_more_users_than_were_printed() -> None:
    """16 E log(4/d) users, not 16 E log(2/d): between 1988 and 2070 nothing is claimed."""
    name = "clones_strong_composition_upper"
    delta, rounds = 1e-5, 1500
    fine, wrong = drawn(2072, 2.0, 62_160, rounds), drawn(2064, 2.0, 61_920, rounds)
    assert FORMULAS[name](fine, delta) > 0
    with pytest.raises(Inapplicable, match="it needs about 2070 users"):
        FORMULAS[name](wrong, delta)


NEEDS_SHARED = {name for name in FORMULAS if "moments" in name and "response" not in name}


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_individual_randomizers_are_covered_by_some(one: Formula) -> None:
    run = drawn(4000, 0.3, 8000, kind="individual")
    at = 1e-6 if one.quantity == "epsilon" else 2.0
    if one.name in NEEDS_SHARED:
        with pytest.raises(Inapplicable, match="all users share"):
            one(run, at)
    else:
        assert one(run, at) > 0


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
def test_rounds_are_composed(one: Formula) -> None:
    assert one.composes
    at = 1e-6 if one.quantity == "epsilon" else 2.0
    once, often = (one(drawn(4000, 0.3, 8000, rounds), at) for rounds in (1, 4))
    if one.quantity == "renyi" or one.name == "sampled_unshuffled_upper":
        assert often == pytest.approx(4 * once, rel=1e-9)
    else:
        assert 1.9 < often / once < 5  # the share of delta for one round shrinks as well


def test_a_known_randomizer_is_not_the_worst() -> None:
    known = ShuffledReports(users=100, randomizer=RandomizedResponse(local_epsilon=1.0))
    run = SampledReports(known, 1000)
    with pytest.raises(Inapplicable, match="the worst randomizer"):
        FORMULAS["response_moments_lower"](run, 2.0)
    assert FORMULAS["sampled_moments_upper"](run, 2.0) > 0


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.name)
@pytest.mark.parametrize(
    ("users", "local", "population"),
    [(1, 1e-6, 2), (1, 30.0, 10**12), (10**9, 1e-6, 10**12), (10**12, 30.0, 10**12)],
)
def test_extremes_give_a_number_or_a_reason(
    one: Formula, users: int, local: float, population: int
) -> None:
    run = drawn(users, local, population, 10**6)
    for at in (1e-300, 1 - 1e-9) if one.quantity == "epsilon" else (1.5, 9.0):
        value = 0.0
        with contextlib.suppress(Inapplicable, NotCertified):
            value = one(run, at)
        assert 0 <= value <= 1.001 * 10**6 * math.log1p(users / population * math.expm1(local))


@pytest.mark.parametrize(
    ("users", "local", "population", "rounds", "delta"),
    [(5, 1.0, 20, 3, 1e-3), (1000, 0.3, 4000, 50, 1e-9), (300, 4.0, 300, 2, 1e-5)],
)
def test_every_formula_is_on_its_side_of_the_answer(
    users: int, local: float, population: int, rounds: int, delta: float
) -> None:
    run = dp.ShuffledReports(users=users, local_epsilon=local, population=population, rounds=rounds)
    answer = dp.account(run).epsilon(delta=delta)
    for row in dp.compare(run, delta=delta, relative_width=1e-3).rows:
        if row.value is None or not row.rigor.proved:
            continue
        if row.side is Side.UPPER:
            assert row.value >= answer.lower
            assert row.value >= answer.upper * (1 - 1e-3)  # none of them is sharper
        else:
            assert row.value <= answer.upper


def test_the_converted_lower_bound_is_not_one_on_epsilon() -> None:
    """C, 10^5 rounds: .2150, while binary randomized response has .2018 and ternary one .2758."""
    run = dp.ShuffledReports(users=1000, local_epsilon=3.0, population=10**6, rounds=10**5)
    found = dp.compare(run, delta=1e-8, relative_width=1e-3)
    binary, drawn_as = found["sampled_binary_response_lower"], found["response_moments_epsilon"]
    assert drawn_as.rigor is Rigor.APPROXIMATE
    assert drawn_as.value == pytest.approx(0.2150, abs=1e-4)
    assert binary.value == pytest.approx(0.2018, abs=1e-3 * 0.2018)


def test_a_search_that_misses_no_order() -> None:
    """Against all whole orders up to 400, for a divergence that is clipped half way."""

    def divergence(order: float) -> float:
        return min(0.02 * order, 1.1)

    for delta in (1e-3, 1e-5, 1e-8):
        best = min(float(epsilon_from(a, divergence(a), delta, "balle")) for a in range(2, 400))
        assert least_epsilon(divergence, delta)[0] <= best
