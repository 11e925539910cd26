"""Comparisons: everything that is known, in order, each with its side, its condition and its source."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds import bounds_for
from sharpdp.bounds.published import formulas_for
from sharpdp.bracket import Rigor, Side
from sharpdp.errors import WrongType
from sharpdp.questions.compare import Comparison, Row

SHUFFLE = dp.ShuffledReports(users=10_000, local_epsilon=1.0)
CERTIFIED_CASES = [
    dp.ShuffledReports(users=2, local_epsilon=1.0),
    dp.ShuffledReports(users=1000, local_epsilon=0.3),
    dp.ShuffledReports(users=10_000, local_epsilon=4.444),
    dp.ShuffledReports(users=10**5, local_epsilon=6.0),
    dp.ShuffledReports(users=5000, local_epsilon=0.4, randomizer="individual"),
]


def test_everything_registered_appears() -> None:
    found = dp.compare(SHUFFLE, delta=1e-6)
    bounds = {one.name for one in bounds_for(SHUFFLE)}
    formulas = {one.name for one in formulas_for(SHUFFLE, "epsilon")}
    assert bounds
    assert {row.name for row in found.rows} == bounds | formulas
    assert {row.side for row in found.rows} == set(Side)
    assert found.adjacency is dp.Adjacency.REPLACE_ONE
    for one in formulas_for(SHUFFLE, "epsilon"):
        row = found[one.name]
        assert (row.side, row.rigor) == (one.side, one.rigor)
        assert (row.holds_when, row.source) == (one.holds_when, one.source)


def test_values_are_those_of_the_tables() -> None:
    """Table 2 of wang2023 at delta = 3e-6, and the exact values that the specification adds."""
    found = dp.compare(dp.ShuffledReports(users=10_000, local_epsilon=4.444), delta=3e-6)
    expected = {
        "shared_clones_upper": 0.49706913,
        "mixture_tradeoff_upper": 0.50034406,
        "clones_numeric_upper": 0.73968,
        "stronger_clones_closed_form_upper": 1.084936,
        "unshuffled_upper": 4.444,
    }
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, rel=2e-5)
    lowers = [row.value for row in found.rows if row.side is Side.LOWER and row.value is not None]
    assert max(lowers) == pytest.approx(0.49365, rel=2e-5)  # ternary randomized response
    assert found["swap_upper"].value is None
    assert found["swap_upper"].reason == "it needs local_epsilon below 0.5"


@pytest.mark.parametrize("mechanism", CERTIFIED_CASES, ids=lambda one: one.describe())
@pytest.mark.parametrize("at", [{"delta": 1e-3}, {"delta": 1e-9}, {"order": 2.0}])
def test_no_certified_lower_is_above_a_certified_upper(
    mechanism: dp.Mechanism, at: dict[str, float]
) -> None:
    rows = [row for row in dp.compare(mechanism, **at).rows if row.rigor.proved]
    lowers = [row.value for row in rows if row.side is Side.LOWER and row.value is not None]
    uppers = [row.value for row in rows if row.side is Side.UPPER and row.value is not None]
    assert lowers
    assert uppers
    assert max(lowers) <= min(uppers)


def test_rows_are_sorted_and_those_without_a_value_come_last() -> None:
    values = [row.value for row in dp.compare(SHUFFLE, delta=1e-6).rows]
    held = [value for value in values if value is not None]
    assert held == sorted(held)
    assert values == [*held, *[None] * (len(values) - len(held))]
    assert None in values


def test_answers_are_the_best_of_the_registered_rows() -> None:
    found, answer = dp.compare(SHUFFLE, delta=1e-6), dp.account(SHUFFLE).epsilon(delta=1e-6)
    names = {one.name for one in bounds_for(SHUFFLE)}
    values = {side: [] for side in Side}  # type: dict[Side, list[float]]
    for row in found.rows:
        if row.name in names and row.value is not None:
            values[row.side].append(row.value)
    assert max(values[Side.LOWER]) == pytest.approx(float(answer.lower), rel=1e-9)
    assert min(values[Side.UPPER]) == pytest.approx(float(answer.upper), rel=1e-9)


def test_several_rounds() -> None:
    often = dp.ShuffledReports(users=10_000, local_epsilon=1.0, rounds=10)
    found = dp.compare(often, delta=1e-6, relative_width=1e-3)
    shared = found["shared_clones_upper"].value
    assert shared is not None
    assert 0.148469 <= shared <= 0.148471 * (1 + 1e-3)  # the specification's certified bracket
    assert found["mixture_tradeoff_upper"].reason == "it covers one round only"
    assert found["unshuffled_upper"].value == pytest.approx(10.0, rel=1e-12)
    moments = found["moments_epsilon_upper"].value
    assert moments is not None
    assert moments > shared
    few = dp.ShuffledReports(users=3, local_epsilon=1.0)
    twice = dp.compare(few * 2, delta=1e-6).rows
    assert twice == dp.compare(dataclasses.replace(few, rounds=2), delta=1e-6).rows


def test_individual_randomizers() -> None:
    run = dp.ShuffledReports(users=10_000, local_epsilon=1.0, randomizer="individual")
    found = dp.compare(run, delta=1e-6)
    held = {row.name for row in found.rows if row.value is not None and row.side is Side.UPPER}
    assert "individual_clones_upper" in held
    assert "clones_closed_form_upper" in held
    assert not {"shared_clones_upper", "mixture_tradeoff_upper", "moments_epsilon_upper"} & held
    assert found["individual_clones_upper"].value == pytest.approx(0.0530053, rel=1e-5)


def test_renyi_divergences() -> None:
    """chen2024 Figure 3 at order 2, with the exact values of the specification."""
    run = dp.ShuffledReports(users=10_000, local_epsilon=2.0)
    found = dp.compare(run, order=2, relative_width=1e-4)
    expected = {
        "binary_moments_lower": 5.52286600e-4,
        "shared_clones_upper": 9.73410833e-4,
        "clones_renyi_upper": 1.71507455e-3,
        "gaussian_limit_renyi": 2.95591803e-3,
        "moments_upper": 0.241181907,
    }
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, rel=2e-4)
    assert found.quantity == "renyi"
    between = dp.compare(dp.ShuffledReports(users=10_000, local_epsilon=2.0), order=2.5)
    assert between["moments_upper"].reason == "it covers whole orders from 2 on only"
    assert between["shared_clones_upper"].value is not None


def test_other_mechanisms_have_their_own_bounds() -> None:
    found = dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=0.1269367375)
    assert [(row.name, row.side) for row in found.rows] == [
        ("gaussian_tight", Side.LOWER),
        ("gaussian_tight", Side.UPPER),
        ("gaussian_optimal_upper", Side.UPPER),
        ("gaussian_lemma2_upper", Side.UPPER),
        ("gaussian_moments_upper", Side.UPPER),
    ]
    for row in found.rows[:2]:
        assert row.value == pytest.approx(1.0, rel=1e-8)
    both = dp.compare(dp.Gaussian(2.0) * 10 + dp.Laplace(1.0), delta=1e-5)
    assert {row.name for row in both.rows} == {"gaussian_tight + laplace_tight"}


def test_the_adjacency_can_be_chosen() -> None:
    plan = dp.DeterministicBatches(dataset_size=10, batch_size=5, epochs=1)
    run = dp.DPSGD(plan, noise_multiplier=1.0)
    once, twice = (
        dp.compare(run, delta=1e-3, adjacency=notion).rows[0].value
        for notion in ("zero-out", "replace-one")
    )
    assert once is not None
    assert twice is not None
    assert twice > 1.5 * once


def test_a_bound_without_a_condition_holds_always() -> None:
    found = dp.compare(dp.Gaussian(noise_multiplier=2.0), delta=1e-5)
    assert found["gaussian_moments_upper"].condition == "holds always"
    assert "when always" not in str(found)


def test_the_text_is_a_table_with_all_conditions() -> None:
    found = dp.compare(SHUFFLE, delta=1e-6)
    lines = str(found).splitlines()
    assert lines[0] == (
        "epsilon at delta=1e-06 | 10,000 shuffled reports (local epsilon 1, shared randomizer), "
        "replace-one"
    )
    table = lines[1 : 2 + len(found.rows)]
    for column in ("side", "rigor", "bound", "source"):
        place = table[0].index(f" {column}")
        assert all(line[place] == " " and line[place + 1] != " " for line in table)
    assert all(len(line) <= 100 for line in lines[1:])
    text = " ".join(" ".join(lines).split())
    for row in found.rows:
        assert row.condition in text
        assert row.source in text
        assert row.reason in text


def test_digits_are_rounded_to_the_safe_side() -> None:
    def row(value: float | None, side: Side, rigor: Rigor = Rigor.CERTIFIED) -> Row:
        return Row("name", side, rigor, value, "", "always", "here")

    assert row(0.12345601, Side.UPPER).shown == "0.123457"
    assert row(0.12345699, Side.LOWER).shown == "0.123456"
    assert row(0.12345601, Side.UPPER, Rigor.APPROXIMATE).shown == "0.123456"
    assert row(math.inf, Side.UPPER).shown == "inf"
    assert row(None, Side.UPPER).shown == "-"


def test_data_for_json() -> None:
    found = dp.compare(SHUFFLE, delta=1e-6)
    data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert data["quantity"] == "epsilon"
    assert data["delta"] == 1e-6
    assert [entry["name"] for entry in data["bounds"]] == [row.name for row in found.rows]
    failing = next(entry for entry in data["bounds"] if entry["name"] == "swap_upper")
    assert failing["value"] is None
    assert failing["reason"] == "it needs local_epsilon below 0.5"
    endless = dp.compare(dp.ApproximateDP(epsilon=1.0, delta=0.01), delta=1e-3).to_dict()
    assert {entry["value"] for entry in endless["bounds"]} == {"inf"}


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, "exactly one of delta and order must be given; got neither."),
        ({"delta": 0.1, "order": 2}, "exactly one of delta and order must be given; got both."),
        ({"delta": 1}, r"delta must be in \[0, 1\); got 1"),
        ({"delta": [1e-5, 1e-6]}, r"delta must be in \[0, 1\)"),
        ({"order": 1}, "order must be greater than 1; got 1.0"),
        ({"order": math.nan}, "order must be"),
    ],
)
def test_bad_questions(given: dict[str, object], sentence: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=sentence):
        dp.compare(SHUFFLE, **given)  # type: ignore[arg-type]


def test_what_is_no_mechanism_is_refused() -> None:
    with pytest.raises(WrongType, match="must be a mechanism"):
        dp.compare("shuffle", delta=1e-6)  # type: ignore[arg-type]


def test_a_name_that_is_not_there() -> None:
    found = dp.compare(dp.Gaussian(1.0), delta=1e-5)
    assert isinstance(found, Comparison)
    for name in (np.zeros(2), None, 1):
        with pytest.raises(WrongType, match="the name of a bound must be text; got "):
            found[name]  # type: ignore[index]
    with pytest.raises(KeyError, match="there is no bound 'swap_upper'"):
        found["swap_upper"]


def test_theorems_that_say_nothing_here_say_why() -> None:
    scheme = dp.ShuffledBatches(dataset_size=100, batch_size=10, epochs=2)
    table = dp.compare(dp.DPSGD(scheme, noise_multiplier=0.5), delta=1e-5)
    reasons = dict(table.declined)
    assert reasons["vacant_seat_upper"].startswith(
        "needs a new order for every epoch, which leaves"
    )
    assert reasons["displaced_example_upper"] == (
        "batches are too small, or there is too little noise, to hide who gives way"
    )
    assert not reasons.keys() & {row.name for row in table.rows}
    assert table.to_dict()["declined"] == reasons
    shown = str(table).partition("not here:")[2]
    assert all(name in shown for name in reasons)
    assert shown.count("batches are too small") == 1
    assert "not here" not in str(dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5))
