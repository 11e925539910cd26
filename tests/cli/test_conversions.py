"""`sharpdp compare conversions`: one table of conversions, or one JSON object."""

from __future__ import annotations

import json
import shlex

import pytest

from sharpdp.cli import main

CURVE = "compare conversions --orders 2 8 inf --values 0.01 0.05 3"


def test_every_conversion_in_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(shlex.split(f"{CURVE} --delta 1e-6")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("epsilon at delta=1e-06 | mechanism known by its Renyi divergences")
    values = [float(line.split()[0]) for line in lines[2:]]
    # order 8, level 0.05, delta 1e-6 (spec of issue 5), rounded up
    assert values == [1.41883, 1.41883, 1.55234, 1.59305, 2.02365]
    assert [line.split()[1:3] for line in lines[2:4]] == [["joint", "8"], ["optimal", "8"]]


def test_json_for_delta(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(shlex.split("compare conversions --orders inf --values 1 --epsilon 0.5 --json")) == 0
    )
    data = json.loads(capsys.readouterr().out)
    # (e - e^0.5) / (1 + e)
    first, *_, last = data["answers"]
    assert first["upper"] == pytest.approx(0.28764913, abs=1e-7)
    assert (first["quantity"], first["order"], first["lower"]) == ("delta", "inf", None)
    assert first["name"] == "joint"
    assert last["upper"] == 1.0


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (CURVE, "give --delta to ask for epsilon, or --epsilon to ask for delta; got neither."),
        (
            "compare conversions --orders 2 4 --values 1 --delta 0.1",
            "equally many entries; got 2 and 1.",
        ),
        (
            "compare conversions --orders 1 --values 1 --delta 0.1",
            "orders[0] must be greater than 1; got 1.",
        ),
        (
            "compare conversions --orders 2 --values 1 --delta 1",
            "--delta must be in [0, 1); got 1.",
        ),
        ("compare conversions --orders 2 --delta 1", "--values"),
    ],
)
def test_wrong_lines_get_a_sentence(
    line: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(line)) == 2
    assert sentence in capsys.readouterr().err
