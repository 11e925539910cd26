"""Groups with different local epsilons, held to all data sets of few users in exact fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import flint
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.shuffle_model import groups_of_users
from sharpdp.bounds.shuffle_model.counts_of_groups import law_of_sum, smaller_binomial
from sharpdp.bounds.shuffle_model.groups_of_users import (
    distinct_group_lower,
    group_blanket_upper,
    group_crowds_upper,
    group_others_lower,
    revealing_group_lower,
    worst_group_upper,
)
from sharpdp.errors import WrongType
from sharpdp.mechanisms import RandomizedResponse, ReportsOfGroup, ShuffledGroups

REPLACE = dp.Adjacency.REPLACE_ONE
RATIOS = (
    Fraction(1),
    Fraction(51, 50),
    Fraction(6, 5),
    Fraction(3, 2),
    Fraction(5, 2),
    Fraction(4),
)
Law = dict[tuple[int, ...], Fraction]


def with_report(law: Law, row: list[Fraction]) -> Law:
    after: Law = {}
    for counts, chance in law.items():
        for report, mass in enumerate(row):
            more = (*counts[:report], counts[report] + 1, *counts[report + 1 :])
            after[more] = after.get(more, Fraction(0)) + chance * mass
    return after


def row_of(odds: int, record: int, categories: int) -> list[Fraction]:
    total = odds + categories - 1
    return [Fraction(odds if y == record else 1, total) for y in range(categories)]


def divergence(p: Law, q: Law, ratio: Fraction) -> Fraction:
    return sum((max(p[key] - ratio * q[key], Fraction(0)) for key in p), Fraction(0))


@cache
def worst(
    users: tuple[int, ...], odds: tuple[int, ...], categories: int, victim: int
) -> dict[Fraction, Fraction]:
    """The largest divergence of a user of one group over all data sets, at each ratio."""
    others = [count - (index == victim) for index, count in enumerate(users)]
    choices = [combinations_with_replacement(range(categories), count) for count in others]
    found = dict.fromkeys(RATIOS, Fraction(0))
    for held in product(*choices):
        law: Law = {(0,) * categories: Fraction(1)}
        for group, records in enumerate(held):
            for record in records:
                law = with_report(law, row_of(odds[group], record, categories))
        own = [
            with_report(law, row_of(odds[victim], record, categories))
            for record in range(categories)
        ]
        for p, q in permutations(own, 2):
            for ratio in RATIOS:
                found[ratio] = max(found[ratio], divergence(p, q, ratio))
    return found


def profile(pair: Any, ratio: Fraction) -> float:
    return float(np.exp(pair.log_hockey_stick(np.log([float(ratio)]))[0]))


SMALL = [
    ((1, 2), (2, 5), 2),
    ((2, 2), (3, 9), 2),
    ((1, 5), (9, 2), 2),
    ((3, 3), (1, 6), 2),
    ((2, 2, 2), (2, 4, 20), 2),
    ((1, 2), (2, 5), 3),
    ((2, 3), (9, 2), 3),
    ((1, 1, 2), (2, 4, 20), 3),
    ((1, 4), (3, 1), 3),
]


@pytest.mark.parametrize(("users", "odds", "categories"), SMALL)
def test_no_data_set_is_outside_of_the_bracket(
    users: tuple[int, ...], odds: tuple[int, ...], categories: int
) -> None:
    run = ShuffledGroups(
        users=users, local_epsilon=[math.log(each) for each in odds], categories=categories
    )
    whole = dict.fromkeys(RATIOS, Fraction(0))
    for group in run.groups:
        if not group.local_epsilon:
            continue
        truth = worst(users, odds, categories, group.index)
        upper = group_blanket_upper(group, REPLACE)[0][0]
        uppers = [upper]
        if categories == 2 and len(users) == 2:
            uppers.append(group_crowds_upper(group, REPLACE)[0][0])
        lower = group_others_lower(group, REPLACE)[0][0]
        for ratio in RATIOS:
            whole[ratio] = max(whole[ratio], truth[ratio])
            for pair in uppers:
                assert profile(pair, ratio) >= float(truth[ratio]) * (1.0 - 1e-12)
            assert profile(lower, ratio) <= float(truth[ratio]) * (1.0 + 1e-9) + 1e-14
        # at the ratio 1 the lower side is not far away
        assert profile(lower, RATIOS[0]) >= 0.6 * float(truth[RATIOS[0]])
    above = worst_group_upper(run, REPLACE)[0][0]
    below = [bound(run, REPLACE)[0][0] for bound in (distinct_group_lower, revealing_group_lower)]
    for ratio in RATIOS:
        assert profile(above, ratio) >= float(whole[ratio]) * (1.0 - 1e-12)
        for pair in below:
            assert profile(pair, ratio) <= float(whole[ratio]) * (1.0 + 1e-9) + 1e-14


def formula(others: tuple[int, ...], rates: list[Fraction], odds: int, categories: int) -> Any:
    """E over M of the positive part of the mean, from the law of M and fresh enumeration."""
    law = [Fraction(1)]
    for count, rate in zip(others, rates, strict=True):
        for _ in range(count):
            stay, move = [*law, Fraction(0)], [Fraction(0), *law]
            law = [(1 - rate) * s + rate * m for s, m in zip(stay, move, strict=True)]
    large = Fraction(categories * odds, odds + categories - 1)
    small = large / odds

    def at(ratio: Fraction) -> Fraction:
        total = Fraction(0)
        for m, chance in enumerate(law):
            n = m + 1
            for i in range(n + 1):
                for j in range(n + 1 - i):
                    ways = math.comb(n, i) * math.comb(n - i, j) * (categories - 2) ** (n - i - j)
                    first, second = ((large - small) * one + small * n for one in (i, j))
                    value = max(first - ratio * second, Fraction(0)) / n
                    total += chance * Fraction(ways, categories**n) * value
        return total

    return at


@pytest.mark.parametrize("categories", [2, 5])
def test_the_upper_side_is_the_formula(categories: int) -> None:
    users, odds = (8, 15), (2, 30)
    run = ShuffledGroups(users=users, local_epsilon=np.log(odds), categories=categories)
    others = [(users[0] - 1, users[1]), (users[0], users[1] - 1)]
    rates = [Fraction(categories, each + categories - 1) for each in odds]
    for index in (0, 1):
        exact = formula(others[index], rates, odds[index], categories)
        pair = group_blanket_upper(run.group(index), REPLACE)[0][0]
        for ratio in RATIOS[:4]:
            truth = float(exact(ratio))
            assert truth * (1.0 - 1e-12) <= profile(pair, ratio) <= truth * 1.03 + 1e-4


@pytest.mark.parametrize("most_cells", [4e5, 100.0])
@pytest.mark.parametrize("categories", [2, 3, 6])
def test_data_sets_attain_the_lower_side(
    categories: int, most_cells: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_of_users, "MOST_CELLS", most_cells)
    groups_of_users._below.cache_clear()
    users, odds, seen = (4, 7), (2, 8), min(categories, 3)
    run = ShuffledGroups(users=users, local_epsilon=np.log(odds), categories=categories)
    other = 0 if categories == 2 else 2
    for index in (0, 1):
        law: Law = {(0,) * seen: Fraction(1)}
        for group, count in enumerate(users):
            row = row_of(odds[group], other, categories)
            row = [*row[: seen - 1], sum(row[seen - 1 :], Fraction(0))]
            for _ in range(count - (group == index)):
                law = with_report(law, row)
        p, q = (row_of(odds[index], record, categories) for record in (0, 1))
        p, q = ([*row[: seen - 1], sum(row[seen - 1 :], Fraction(0))] for row in (p, q))
        laws = [with_report(law, row) for row in (p, q)]
        pair = group_others_lower(run.group(index), REPLACE)[0][0]
        for ratio in RATIOS[:4]:
            for one, (first, second) in ((pair, laws), (pair.reverse(), laws[::-1])):
                truth = float(divergence(first, second, ratio))
                assert profile(one, ratio) <= truth * (1.0 + 1e-9)
                # blocks of N lose something where there are few
                least = 0.999 if most_cells > 1e3 else 0.5
                assert profile(one, ratio) >= least * truth - 1e-4
    groups_of_users._below.cache_clear()


SUMS = [
    ((3, 0.5), (4, 0.1)),
    ((1, 0.9), (1, 0.8), (40, 0.02)),
    ((5, 1.0), (200, 0.036)),
    ((300, 0.5), (300, 0.1), (100, 0.7)),
    ((1000, 0.538), (9000, 0.036)),
    ((1000, 0.853), (9000, 0.157)),
]


def exact_law(groups: tuple[tuple[int, float], ...]) -> list[Any]:
    total = flint.arb_poly([1])
    for count, rate in groups:
        exact = flint.arb(rate)
        total *= flint.arb_poly([1 - exact, exact]) ** count
    return list(total.coeffs())


@pytest.mark.parametrize("groups", SUMS)
def test_the_smaller_binomial_is_smaller(groups: tuple[tuple[int, float], ...]) -> None:
    before, flint.ctx.prec = flint.ctx.prec, 600
    try:
        smaller = smaller_binomial(groups)
        size = sum(count for count, _ in groups) + 1
        below_sum = below_binomial = flint.arb(0)
        binomial = exact_law(((smaller.trials, smaller.rate),))
        for mass, other in zip(exact_law(groups), binomial + [flint.arb(0)] * size, strict=False):
            below_sum, below_binomial = below_sum + mass, below_binomial + other
            assert bool(below_sum <= below_binomial + smaller.missing + flint.arb("1e-140"))
    finally:
        flint.ctx.prec = before
    mean = sum(count * rate for count, rate in groups)
    assert smaller.missing < 1e-59
    assert mean - 0.4 < smaller.trials * smaller.rate < mean


@pytest.mark.parametrize("groups", SUMS)
def test_the_law_of_a_sum_is_exact(groups: tuple[tuple[int, float], ...]) -> None:
    before, flint.ctx.prec = flint.ctx.prec, 600
    try:
        counts, masses, error = law_of_sum(groups)
        exact = exact_law(groups)
        for count, mass in zip(counts.astype(int).tolist(), masses.tolist(), strict=True):
            assert mass == pytest.approx(float(exact[count]), rel=error, abs=0.0)
    finally:
        flint.ctx.prec = before
    assert masses.sum() == pytest.approx(1.0, rel=1e-11)


@pytest.mark.parametrize("index", [0, 1])
def test_results_next_to_counts_that_are_left_out_reveal_nothing(index: int) -> None:
    """They lacked half of their mass: delta of 50 and 1,000 users was 2e-40 where 6e-61 is true."""
    users, odds = (50, 1000), (55, 2)
    run = ShuffledGroups(
        users=list(users), local_epsilon=[math.log(each) for each in odds], categories=2
    )
    pair = group_others_lower(run.group(index), REPLACE)[0][0]
    rates = [Fraction(1, each + 1) for each in odds]
    others = flint.fmpq_poly([1])
    for each, (count, rate) in enumerate(zip(users, rates, strict=True)):
        factor = flint.fmpq_poly([fmpq(1 - rate), fmpq(rate)])
        others *= factor ** (count - (each == index))
    rare, often = fmpq(rates[index]), fmpq(1 - rates[index])
    p, q = (others * flint.fmpq_poly(one) for one in ([often, rare], [rare, often]))
    for share in (0.02, 0.3, 0.6, 0.9):
        loss = share * math.log(odds[index])
        ratio = fmpq(Fraction(math.exp(loss)))
        for one, first, second in ((pair, p, q), (pair.reverse(), q, p)):
            gaps = (a - ratio * b for a, b in zip(first, second, strict=True))
            truth = sum((gap for gap in gaps if gap > 0), flint.fmpq(0))
            below = float(one.log_hockey_stick(np.array([loss]))[0])
            assert not flint.arb(below).exp() > flint.arb(truth) * (1 + flint.arb("1e-9"))


def test_totals_beyond_the_counts_that_are_kept_are_left_out() -> None:
    kept = np.array([3.0, 4.0]), np.array([0.4, 0.3])
    assert groups_of_users._totals(*kept, 9) == [(3, 0.4, 0.0), (4, 0.3, 0.4)]
    assert groups_of_users._totals(*kept, 4)[-1] == (5, 0.0, 0.3)


def fmpq(number: Fraction) -> Any:
    return flint.fmpq(number.numerator, number.denominator)


def test_a_rate_that_is_larger_would_be_seen() -> None:
    """The comparison decides: at the mean of the sum the binomial is no longer smaller."""
    groups = ((3, 0.5), (4, 0.1))
    mean = 1.9
    smaller = smaller_binomial(groups)
    law = [float(mass) for mass in exact_law(groups)]
    larger = exact_law(((smaller.trials, mean / smaller.trials),))
    below = np.cumsum([float(mass) for mass in larger])
    assert (np.cumsum(law)[: below.size] > below + 1e-9).any()


def test_groups_hide_each_other_if_they_answer_the_same_question() -> None:
    sizes = {"users": [1000, 9000], "local_epsilon": [1.0, 4.0]}
    known, unknown = ShuffledGroups(**sizes, categories=10), ShuffledGroups(**sizes)
    ends = [
        dp.account(run.group(g)).epsilon(delta=1e-6) for run in (known, unknown) for g in (0, 1)
    ]
    assert ends[0].upper < 0.6 * 0.0801 < 0.0801 < ends[2].lower
    assert ends[1].upper < 0.8 * 0.4031 < 0.4031 < ends[3].lower
    assert all(end.upper < 1.002 * end.lower for end in ends[:2])
    both = dp.account(known).epsilon(delta=1e-6)
    assert both.lower == pytest.approx(ends[1].lower, rel=1e-3)
    assert both.upper == pytest.approx(ends[1].upper, rel=1e-3)
    both = dp.account(unknown).epsilon(delta=1e-6)
    assert max(ends[2].lower, ends[3].lower) * (1.0 - 1e-3) <= both.lower
    assert both.upper == pytest.approx(max(ends[2].upper, ends[3].upper), rel=1e-3)


def test_two_answers_hide_by_all_their_noise() -> None:
    """A report on a known record varies as w (1 - w), its uniform part as w/2 only."""
    run = ShuffledGroups(users=[60, 500], local_epsilon=[1.0, 4.0], categories=2)
    for group in run.groups:
        answer = dp.account(group).epsilon(delta=1e-6)
        assert answer.upper < 1.03 * answer.lower
        blanket = group_blanket_upper(group, REPLACE)[0][0]
        crowds = group_crowds_upper(group, REPLACE)[0][0]
        loss = np.array([answer.upper])
        assert crowds.log_hockey_stick(loss) < blanket.log_hockey_stick(loss) - 0.5


def test_unknown_randomizers_are_hidden_by_their_own_group() -> None:
    run = ShuffledGroups(users=[50, 400], local_epsilon=[1.0, 2.0], rounds=3)
    alone = dp.ShuffledReports(users=400, local_epsilon=2.0)
    assert run.group(1).parts() == ((alone, 3),)
    # fewer users with a larger local epsilon are surely the worst
    run = ShuffledGroups(users=[50, 400], local_epsilon=[2.0, 1.0])
    assert run.parts() == ((dp.ShuffledReports(users=50, local_epsilon=2.0), 1),)


def test_few_users_are_worse_than_many_with_a_larger_local_epsilon() -> None:
    """Where the two profiles cross the chords of the larger one are short: epsilon is not 1.5."""
    run = ShuffledGroups(users=[10, 9000], local_epsilon=[1.0, 1.5])
    answer = dp.account(run).epsilon(delta=1e-6)
    few = dp.account(run.group(0)).epsilon(delta=1e-6)
    assert few.lower * 0.999 <= answer.lower <= answer.upper <= few.upper * 1.001


def test_groups_that_differ_in_nothing_are_one() -> None:
    response = RandomizedResponse(local_epsilon=2.0, categories=5)
    run = ShuffledGroups(users=[50, 400], local_epsilon=[2.0, 2.0], categories=5, rounds=2)
    one = dp.ShuffledReports(users=450, randomizer=response)
    assert run.parts() == run.group(1).parts() == ((one, 2),)
    near = ShuffledGroups(users=[50, 400], local_epsilon=[2.0, 2.0 + 1e-9], categories=5)
    found = dp.account(near).epsilon(delta=1e-6)
    assert found.upper == pytest.approx(dp.account(one).epsilon(delta=1e-6).upper, rel=1e-3)


def test_users_are_grouped_by_their_local_epsilon() -> None:
    run = ShuffledGroups(local_epsilon=[1.0, 4.0, 1.0, 0.0, 4.0, 4.0], categories=3)
    assert (run.users, run.local_epsilon) == ((2, 3, 1), (1.0, 4.0, 0.0))
    assert dp.account(run.group(2)).epsilon(delta=1e-6).upper == 0.0
    assert hash(run) == hash(ShuffledGroups(users=[2, 3, 1], local_epsilon=[1, 4, 0], categories=3))


def test_groups_compose_and_are_calibrated() -> None:
    run = ShuffledGroups(users=[300, 700], local_epsilon=[1.0, 3.0], categories=4, rounds=2)
    group = run.group(0)
    twice = dp.account(group * 2).epsilon(delta=1e-6)
    four = ShuffledGroups(users=[300, 700], local_epsilon=[1.0, 3.0], categories=4, rounds=4)
    assert twice.upper == pytest.approx(
        dp.account(four.group(0)).epsilon(delta=1e-6).upper, rel=1e-3
    )
    found = dp.calibrate(
        lambda epsilon: ShuffledGroups(
            users=[300, 700], local_epsilon=[1.0, epsilon], categories=4
        ).group(1),
        epsilon=0.5,
        delta=1e-6,
    )
    run = ShuffledGroups(users=[300, 700], local_epsilon=[1.0, found], categories=4)
    assert dp.account(run.group(1)).epsilon(delta=1e-6).upper <= 0.5


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"users": 10, "local_epsilon": [1.0]}, WrongType, "users must be a list"),
        ({"local_epsilon": 1.0}, WrongType, "local_epsilon must be a list"),
        ({"local_epsilon": []}, dp.InvalidArgument, "at least one entry"),
        ({"users": [1, 2], "local_epsilon": [1.0]}, dp.InvalidArgument, "one entry per group, 2"),
        ({"users": [1, 0], "local_epsilon": [1, 2]}, dp.InvalidArgument, r"users\[1\] must be"),
        ({"local_epsilon": [1.0, 31.0]}, dp.InvalidArgument, r"local_epsilon\[1\] must be"),
        ({"local_epsilon": [1.0, 2.0], "categories": 1}, dp.InvalidArgument, "categories must be"),
        ({"local_epsilon": np.linspace(1, 2, 101)}, dp.InvalidArgument, "at most 100 groups"),
        ({"users": [10**12, 1], "local_epsilon": [1, 2]}, dp.InvalidArgument, "together"),
    ],
)
def test_bad_groups_are_refused(
    fields: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ShuffledGroups(**fields)


def test_only_groups_that_exist_can_be_asked_for() -> None:
    run = ShuffledGroups(users=[10, 20], local_epsilon=[1.0, 2.0])
    with pytest.raises(dp.InvalidArgument, match="index must be below"):
        run.group(2)
    with pytest.raises(WrongType, match="groups must be"):
        ReportsOfGroup("x", 0)  # type: ignore[arg-type]
    with pytest.raises(WrongType, match=r"Use mechanisms\.ShuffledGroups\(local_epsilon"):
        dp.ShuffledReports(users=2, local_epsilon=[1.0, 2.0])  # type: ignore[arg-type]
