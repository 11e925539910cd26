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
    assert json.loads(out)["hash"] == recorded["hash"]


def smaller(report: dict[str, Any]) -> None:
    report["epsilon"][0]["upper"] = 0.001  # there is no lower side that contradicts it


def curve(report: dict[str, Any]) -> None:
    for one in report["tradeoff"]:
        one["lower"] = one["upper"] = 1 - one["fpr"]


def dropped(report: dict[str, Any]) -> None:
    del report["epsilon"][1:]


FORGERIES: dict[str, Any] = {
    "/epsilon/0/upper": smaller,
    "/epsilon/1": dropped,
    "/epsilon": lambda report: report.update(epsilon=[]),
    "/tradeoff/1/lower": curve,
    "/adjacency": lambda report: report.update(adjacency="add/remove"),
    "/unit": lambda report: report.update(unit="one person, for life"),
    "/mechanism": lambda report: report.update(mechanism="Gaussian noise (noise multiplier 100)"),
    "/in_words/0": lambda report: report.update(in_words=["Nothing is released."]),
    "/not_covered": lambda report: report.update(not_covered=[]),
    "/sampler/0": lambda report: report.update(sampler=["Nobody knows."]),
    "/theorems": lambda report: report.update(theorems=[]),
    "/format": lambda report: report.update(format=True),
    "/approved": lambda report: report.update(approved=True),
    "/hash": lambda report: report["plan"]["mechanism"].update(local_epsilon=0.5),
}
"""What was done to a report, by the field that has to be named."""


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a run whose epsilon has no lower side."""
    folder = tmp_path_factory.mktemp("blocks")
    run = {"kind": "ShuffledBlocks", "blocks": 3, "block_size": 2, "local_epsilon": 1.0}
    plan = {"delta": [1e-5, 1e-6], "mechanism": run}
    (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
    assert main(["report", str(folder / "plan.json"), "-o", str(folder / "report.json")]) == 0
    return (folder / "report.json").read_text("utf-8")


@pytest.mark.parametrize("field", list(FORGERIES))
def test_s1b_a_doctored_report_is_named_and_exits_1(
    field: str, blocks: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads(blocks)
    FORGERIES[field](recorded)
    Path("forged.json").write_text(json.dumps(recorded), "utf-8")
    code, out, err = said(["verify", "forged.json", "--json"], capsys)
    assert (code, err) == (1, "")
    answer = json.loads(out)
    assert answer["verdict"] in ("not confirmed", "contradicted")
    assert field in [one["field"] for one in answer["answers"]]
    if field == "/unit":
        code, out, err = said(["verify", "forged.json"], capsys)
        assert (code, err) == (1, "")
        assert "/unit: recorded 'one person, for life'; recomputed 'one record'" in out


@pytest.mark.parametrize("field", ["/epsilon/0/upper", "/epsilon"])
def test_s4_a_smaller_epsilon_or_none_is_not_accepted(
    field: str, blocks: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads(blocks)
    FORGERIES[field](recorded)
    Path("forged.json").write_text(json.dumps(recorded), "utf-8")
    assert said(["verify", "forged.json"], capsys)[0] != 0


def test_s1b_exit_codes_and_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """0 confirmed, 1 not confirmed, 2 cannot be read; JSON in all three."""
    text = Path("report.json").read_text("utf-8")
    Path("forged.json").write_text(text.replace('"certified"', '"exact"', 1), "utf-8")
    Path("twice.json").write_text(text.replace('"mu": {', '"unit": "x", "mu": {'), "utf-8")
    Path("report.md").write_text("## Privacy report\n", "utf-8")
    for file, wanted, verdict in (
        ("report.json", 0, "confirmed"),
        ("forged.json", 1, "contradicted"),
        ("twice.json", 2, "cannot be read"),
        ("report.md", 2, "cannot be read"),
        ("none.json", 2, "cannot be read"),
    ):
        code, out, err = said(["verify", file, "--json"], capsys)
        assert (code, err) == (wanted, "")
        assert (json.loads(out)["verdict"], json.loads(out)["report"]) == (verdict, file)
        code, out, err = said(["verify", file], capsys)
        assert code == wanted
        assert (out == "") == (wanted == 2) == (err != "")


def test_s1b_a_page_is_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "plan.json", "-o", "report.html"]) == 0
    capsys.readouterr()
    assert said(["verify", "report.html"], capsys)[0] == 0
    page = Path("report.html").read_text("utf-8")
    Path("report.html").write_text(page.replace("ε ≤ 4.37718", "ε ≤ 1.37718"), "utf-8")
    code, out, _ = said(["verify", "report.html"], capsys)
    assert code == 1
    assert "of the page: recorded" in out


def test_several_reports_are_verified_at_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that cannot be read does not hide the others; the exit code is that of the worst."""
    text = Path("report.json").read_text("utf-8")
    Path("forged.json").write_text(text.replace('"certified"', '"exact"', 1), "utf-8")
    code, out, err = said(["verify", "report.json", "forged.json"], capsys)
    assert (code, err) == (1, "")
    assert out.index("report.json:\n  confirmed") < out.index("forged.json:\n  contradicted")
    code, out, err = said(["verify", "none.json", "report.json"], capsys)
    assert (code, err) == (2, "")
    assert "none.json:\n  cannot be read: " in out
    assert "report.json:\n  confirmed" in out
    code, out, err = said(["verify", "none.json", "report.json", "--json"], capsys)
    assert (code, err) == (2, "")
    verdicts = [answer["verdict"] for answer in json.loads(out)["answers"]]
    assert verdicts == ["cannot be read", "confirmed"]


def test_publications_are_cited_by_their_keys(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = said(["cite", "balle2018", "gaussian_tight"], capsys)
    assert (code, err) == (0, "")
    entries = [line for line in out.splitlines() if line.startswith("@")]
    assert entries == ["@inproceedings{balle2018,", "@article{dong2022,"]  # each once
    code, _, err = said(["cite", "balle2091"], capsys)
    assert code == 2
    assert "Did you mean balle20" in err


def test_a_page_stands_for_its_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "plan.json", "-o", "report.html"]) == 0
    capsys.readouterr()
    answers = [
        said(["account", file, "plan.json", "--delta", "1e-5", "--json"], capsys)
        for file in ("report.html", "plan.json")
    ]
    assert answers[0] == answers[1]
    assert answers[0][0] == 0
    Path("other.html").write_text("<p>", "utf-8")
    code, _, err = said(["account", "other.html"], capsys)
    assert code == 2
    assert "must hold one report as JSON" in err


def test_s11_foreign_text_cannot_steer_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded = json.loads(Path("report.json").read_text("utf-8"))
    recorded["versions"]["sharpdp"] = "\x1b[2J\x1b[31mPWN\u202e"
    Path("forged.json").write_text(json.dumps(recorded), "utf-8")
    for words in (["verify", "forged.json"], ["verify", "forged.json", "--json"]):
        code, out, err = said(words, capsys)
        assert code == 1
        assert "/versions/sharpdp" in out
        assert "\x1b" not in out + err
        assert "\u202e" not in out + err
    curve = {"kind": "RenyiCurve", "orders": [2], "values": [0.1], "name": "\x1b[2J\x07\u202e"}
    Path("plan.json").write_text(json.dumps({"mechanism": curve}), "utf-8")
    for words in (["account", "plan.json"], ["report", "plan.json"]):
        code, out, err = said(words, capsys)
        assert (code, out) == (2, "")
        assert "name must be text of one line without control" in err
        assert err.rstrip("\n").isprintable()


def test_what_is_no_report_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(["verify", "plan.json"], capsys)
    assert code == 2
    assert "in plan.json: the report must be what report('json') gives" in err


@pytest.mark.parametrize(("name", "file"), [("plan", "plan.json"), ("report", "report.json")])
def test_what_is_written_follows_the_printed_schema(
    name: str, file: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = said(["schema", name], capsys)
    assert (code, err) == (0, "")
    published = json.loads(out)
    jsonschema.Draft202012Validator(published).validate(json.loads(Path(file).read_text("utf-8")))
    assert json.loads(said(["schema", name, "--json"], capsys)[1])["answers"] == [published]
