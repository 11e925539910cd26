"""`sharpdp verify` holds a report against a new computation, `sharpdp schema` prints the schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sharpdp.cli import main

PLAN = {"delta": 1e-5, "mechanism": {"kind": "Gaussian", "noise_multiplier": 1.0}}


@pytest.fixture
def folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_text(json.dumps(PLAN), "utf-8")
    assert main(["report", "plan.json", "-o", "report.json"]) == 0
    capsys.readouterr()
    return tmp_path


def said(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words)
    streams = capsys.readouterr()
    return code, streams.out, streams.err


def test_the_command_that_a_report_names_verifies_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads(Path("report.json").read_text("utf-8"))
    name, *words = recorded["verify"].split()
    assert name == "sharpdp"
    code, out, err = said(words, capsys)
    assert (code, err) == (0, "")
    assert recorded["hash"] in out
    code, out, _ = said([*words, "--json"], capsys)
    assert json.loads(out)["verified"] == "report.json"


def off(report: dict[str, Any]) -> None:
    report["epsilon"][0].update(lower=4.0, upper=4.3)  # it is 4.377...


def other(report: dict[str, Any]) -> None:
    report["plan"]["mechanism"]["noise_multiplier"] = 2.0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [(off, "They do not overlap"), (other, "The plan or the hash was changed")],
)
def test_a_changed_report_is_refused(
    change: Any, sentence: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads(Path("report.json").read_text("utf-8"))
    change(recorded)
    Path("report.json").write_text(json.dumps(recorded), "utf-8")
    code, out, err = said(["verify", "report.json"], capsys)
    assert (code, out) == (2, "")
    assert err.startswith("sharpdp: in report.json: ")
    assert sentence in err


def test_what_is_no_report_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(["verify", "plan.json"], capsys)
    assert (code, err) == (
        2,
        "sharpdp: in plan.json: the report must have a field 'format'; got none.\n",
    )


@pytest.mark.parametrize(("name", "file"), [("plan", "plan.json"), ("report", "report.json")])
def test_what_is_written_follows_the_printed_schema(
    name: str, file: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(["schema", name], capsys)
    assert (code, err) == (0, "")
    published = json.loads(out)
    jsonschema.Draft202012Validator(published).validate(json.loads(Path(file).read_text("utf-8")))
    assert json.loads(said(["schema", name, "--json"], capsys)[1]) == published
