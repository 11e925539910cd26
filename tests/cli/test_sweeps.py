"""Sweeps and comma-separated values on the command line, and the command `design`."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from sharpdp.cli import main

Captured = pytest.CaptureFixture[str]


def printed(line: str, capsys: Captured, code: int = 0) -> str:
    assert main(line.split()) == code
    output = capsys.readouterr()
    return output.err if code else output.out


def table(line: str, capsys: Captured) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(printed(f"{line} --csv", capsys))))


def answers(line: str, capsys: Captured) -> list[dict[str, Any]]:
    data = json.loads(printed(f"{line} --json", capsys))
    found: list[dict[str, Any]] = data["answers"]
    return found


RUN = "dpsgd --sample-rate 0.01 --steps 100 --delta 1e-5"


def test_each_combination_is_answered_as_alone(capsys: Captured) -> None:
    swept = answers(f"{RUN} --noise-multiplier 0.8 2 --group-size 1 2", capsys)
    assert [(row["noise_multiplier"], row["group_size"]) for row in swept] == [
        (0.8, 1), (0.8, 2), (2, 1), (2, 2),
    ]  # fmt: skip
    for row in swept:
        noise, size = row.pop("noise_multiplier"), row.pop("group_size")
        (alone,) = answers(f"{RUN} --noise-multiplier {noise} --group-size {size}", capsys)
        assert row == alone


def test_csv_has_the_fields_of_json(capsys: Captured) -> None:
    line = f"{RUN} --noise-multiplier 0.8 2"
    for row, data in zip(table(line, capsys), answers(line, capsys), strict=True):
        assert row == {name: "" if value is None else str(value) for name, value in data.items()}


def test_plans_of_a_sweep_can_be_asked_again(capsys: Captured) -> None:
    data = json.loads(printed(f"{RUN} --noise-multiplier 1 2 --json", capsys))
    assert data["plan"] is None
    assert data["swept"] == {"noise_multiplier": [1, 2]}
    assert [plan["mechanism"]["noise_multiplier"] for plan in data["plans"]] == [1.0, 2.0]


def test_calibrated_values_stand_with_all_digits(capsys: Captured) -> None:
    line = "calibrate noise-multiplier --sample-rate 0.01 --steps 100 --delta 1e-6 --epsilon 1 2"
    rows = answers(line, capsys)
    assert rows[0]["noise_multiplier"] > rows[1]["noise_multiplier"]
    text = printed(line, capsys)
    assert all(repr(row["noise_multiplier"]) in text for row in rows)


@pytest.mark.parametrize(
    "line",
    [
        "shuffle --users 100 200 --local-epsilon 1 --delta 1e-6",
        "tradeoff --noise-multiplier 2 --sample-rate 0.01 --steps 500 600 --fpr 0.1",
        "risk --noise-multiplier 2 --sample-rate 0.01 --steps 500 --prior 0.5 0.1",
        "compare shuffle --users 100 200 --local-epsilon 1 --delta 1e-6",
        "design --users 100 200 --local-epsilon 1",
        "account laplace --delta 1e-6",
    ],
)
def test_tables_of_sweeps_have_a_row_per_run(line: str, capsys: Captured) -> None:
    if line.startswith("account"):
        assert (
            main(["account", "laplace scale=2", "--delta", "1e-6", "--group-size", "1", "2"]) == 0
        )
        text = capsys.readouterr().out
        assert "group size" in text
        return
    text = printed(line, capsys)
    name = "prior" if "prior" in line else "steps" if "steps 500 600" in line else "users"
    assert f" {name} " in text
    assert "you must ensure" in text


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (f"{RUN} --noise-multiplier 1 2 -o a.svg", "--output draws one run"),
        ("report --noise-multiplier 1 2 --sample-rate 0.01 --steps 9", "a report is about one run"),
        (f"{RUN} --noise-multiplier 1 --json --csv", "give --json or --csv"),
        (f"{RUN} --noise-multiplier 1 x", "must be a number"),
        ("design --categories 3", "design needs --users"),
        ("design --users 10 --drop-outs 2", "--drop-outs must be"),
    ],
)
def test_wrong_sweeps_get_a_sentence(line: str, sentence: str, capsys: Captured) -> None:
    pytest.importorskip("matplotlib")
    assert sentence in printed(line, capsys, code=2)


def test_a_design_of_one_local_epsilon_has_a_plan(capsys: Captured) -> None:
    data = json.loads(printed("design --users 500 --local-epsilon 2 --rounds 2 --json", capsys))
    assert data["plan"]["mechanism"]["rounds"] == 2
    assert data["answers"][0]["central_upper"] > data["answers"][0]["central_lower"]
    several = json.loads(printed("design --users 500 --local-epsilon 1 2 --json", capsys))
    assert several["plan"] is None
