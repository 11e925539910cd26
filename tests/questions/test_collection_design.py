"""Designs of a data collection: what the columns are, held against other ways to compute them."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import pytest

import sharpdp as dp
from sharpdp.errors import InvalidArgument
from sharpdp.learn import RandomizedAnswers


def test_rows_are_what_the_mechanisms_cost() -> None:
    design = dp.design_collection(
        users=2000, rounds=3, categories=4, local_epsilon=[1, 2.5], delta=1e-6, drop_outs=0.1
    )
    assert [row.local_epsilon for row in design] == [1.0, 2.5]
    for row in design:
        answer = dp.RandomizedResponse(local_epsilon=row.local_epsilon, categories=4)
        for users, bracket in ((2000, row.central), (1800, row.central_with_drop_outs)):
            run = dp.ShuffledReports(users=users, randomizer=answer, rounds=3)
            assert bracket == dp.account(run).epsilon(delta=1e-6)
        assert row.without_shuffler == dp.account(answer * 3).epsilon(delta=1e-6)
        assert row.central.upper < row.central_with_drop_outs.upper < row.without_shuffler.upper
        assert row.error < row.error_with_drop_outs


@pytest.mark.parametrize("categories", [2, 3, 6])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 1.0])
def test_standard_errors_are_those_of_all_outcomes(categories: int, share: float) -> None:
    """One user, whose category and coins are enumerated with fractions."""
    answers = RandomizedAnswers(local_epsilon=1.3, categories=categories)
    truth = Fraction(answers.truth, 2**64)
    other = (1 - truth) / (categories - 1)
    estimates = {1: (1 - other) / (truth - other), 0: -other / (truth - other)}
    held = Fraction(share)
    named = held * truth + (1 - held) * other
    mean = named * estimates[1] + (1 - named) * estimates[0]
    square = named * estimates[1] ** 2 + (1 - named) * estimates[0] ** 2
    assert mean == held  # unbiased
    exact = math.sqrt(float(square - mean**2))
    assert answers.standard_error(users=1, share=share) == pytest.approx(exact, rel=1e-12)
    assert answers.standard_error(users=400, share=share) == pytest.approx(exact / 20, rel=1e-12)


def test_the_largest_error_is_that_of_some_share() -> None:
    for answers in (
        RandomizedAnswers(local_epsilon=0.3, categories=2),
        RandomizedAnswers(local_epsilon=0.5, categories=9),
        RandomizedAnswers(local_epsilon=4.0, categories=3),
    ):
        shares = [answers.standard_error(users=10, share=index / 1000) for index in range(1001)]
        largest = answers.standard_error(users=10)
        assert max(shares) <= largest * (1 + 1e-12)
        assert max(shares) == pytest.approx(largest, rel=1e-5)


def test_digits_are_rounded_outwards() -> None:
    design = dp.design_collection(users=1000, categories=3, local_epsilon=[0.7, 3], delta=1e-5)
    for row, cells in zip(design, design.cells(), strict=True):
        assert float(cells[1]) >= float(row.central)
        assert float(cells[2].removeprefix("+-")) >= 100 * row.error
        assert float(cells[3]) >= float(row.without_shuffler)
        assert float(cells[4]) >= float(row.central_with_drop_outs)


def test_delta_fits_the_number_of_users() -> None:
    for users, delta in ((100, 1e-6), (10**5, 1e-6), (10**5 + 1, 1e-7)):
        design = dp.design_collection(users=users, local_epsilon=1)
        assert design.delta == delta
        assert delta <= 0.1 / users


def test_no_drop_outs_cost_nothing() -> None:
    (row,) = dp.design_collection(users=50, local_epsilon=1, drop_outs=0)
    assert row.central == row.central_with_drop_outs
    assert row.error == row.error_with_drop_outs


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"users": 1}, "users must be"),
        ({"users": 2, "drop_outs": 0.9}, "users must leave at least one honest report"),
        ({"users": 10, "drop_outs": 1.0}, "drop_outs must be"),
        ({"users": 10, "delta": 0.0}, "delta must be"),
        ({"users": 10, "local_epsilon": []}, "local_epsilon must be"),
        ({"users": 10, "local_epsilon": 31}, "local_epsilon must be"),
        ({"users": 10, "categories": 1}, "categories must be"),
        ({"users": 10, "rounds": 0}, "rounds must be"),
    ],
)
def test_wrong_designs_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        dp.design_collection(**wrong)  # type: ignore[arg-type]


def test_data_has_every_digit_and_pictures_are_drawn(tmp_path: Path) -> None:
    design = dp.design_collection(users=300, local_epsilon=[2, 1])
    data = json.loads(json.dumps(design.to_dict()))
    assert data["rows"][0]["central_upper"] == float(design.rows[0].central)
    assert "<table" in design._repr_html_()
    pytest.importorskip("matplotlib")
    design.save(str(tmp_path / "design.svg"))
    assert (tmp_path / "design.svg").stat().st_size > 1000
    with pytest.raises(InvalidArgument, match="output must end"):
        design.save(str(tmp_path / "design.docx"))
