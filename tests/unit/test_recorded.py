"""Reports in JSON follow their published schema, and are held against a new computation when read."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sharpdp as dp
from sharpdp import report
from sharpdp.report.__main__ import main
from tests.laws.enrolled import MAKERS, Subject, some
from tests.unit.make_schemas import texts

CHECK = jsonschema.Draft202012Validator(json.loads(report.schema("report")))
ANSWER = dp.account(dp.Gaussian(noise_multiplier=1.0))
RECORDED: dict[str, Any] = json.loads(ANSWER.report("json"))

WIDTH = 0.1
"""A relative width that is quickly reached."""


def changed(**fields: Any) -> str:
    """The report with some fields replaced."""
    return json.dumps({**copy.deepcopy(RECORDED), **fields})


@pytest.mark.parametrize("path", list(texts()), ids=lambda path: path.name)
def test_published_schemas_are_in_step(path: Any) -> None:
    assert path.read_text("utf-8") == texts()[path], "python -m tests.unit.make_schemas"
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text("utf-8")))


def test_schemas_by_name() -> None:
    assert json.loads(report.schema("plan"))["$id"] == "urn:sharpdp:plan"
    with pytest.raises(dp.InvalidArgument, match=r"Did you mean 'report'\?"):
        report.schema("reprot")


@pytest.mark.parametrize("subject", list(MAKERS), ids=str)
def test_reports_of_every_kind_follow_the_schema(subject: Subject) -> None:
    (run,) = some(subject, 8, 1)
    if isinstance(run, dp.BatchQueries):
        run = run.stopped_after(1)  # quick
    answer = dp.account(run, relative_width=WIDTH)
    text = answer.report("json", delta=1e-3)
    data = json.loads(text)
    CHECK.validate(data)
    if isinstance(run, dp.ProfileMechanism):
        assert data["plan"] is data["hash"] is data["verify"] is None
        with pytest.raises(dp.InvalidArgument, match="must have a plan"):
            dp.Guarantee.from_json(text)
        return
    again = dp.Guarantee.from_json(text)
    assert again.mechanism.describe() == run.describe()
    assert (again.adjacency, again.relative_width) == (answer.adjacency, WIDTH)


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": []},
        {"hash": "abc"},
        {"format": 2},
        {"more": 1},
        {"theorems": [{"name": "x"}]},
        {"plan": {"mechanism": {"kind": "Gaussian"}}},
        {"advantage": {"quantity": "advantage", "lower": "0", "upper": 1, "rigor": "certified"}},
    ],
)
def test_the_schema_refuses_what_is_no_report(fields: dict[str, Any]) -> None:
    assert CHECK.is_valid(RECORDED)
    assert not CHECK.is_valid(json.loads(changed(**fields)))


def test_infinite_ends_are_written_and_read() -> None:
    answer = dp.account(dp.ApproximateDP(epsilon=1.0, delta=1e-3))
    text = answer.report("json")
    entry = json.loads(text)["epsilon"][0]
    assert (entry["lower"], entry["upper"]) == ("inf", "inf")
    CHECK.validate(json.loads(text))
    assert dp.Guarantee.from_json(text) == answer


def test_a_report_without_a_lower_side_is_read() -> None:
    answer = dp.account(dp.RenyiCurve(orders=[2.0, 8.0], values=[0.1, 0.5]))
    text = answer.report("json", delta=1e-3)
    assert json.loads(text)["epsilon"][0]["lower"] is None
    again = dp.Guarantee.from_json(text).epsilon(delta=1e-3)
    assert again.upper == answer.epsilon(delta=1e-3).upper


def test_a_report_is_verified() -> None:
    lines = report.verify(changed())
    assert RECORDED["hash"] in lines[0]
    assert "11 recorded" in lines[1]


def test_a_report_is_verified_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_text(changed())
    assert main([str(path)]) == 0
    assert RECORDED["hash"] in capsys.readouterr().out
    path.write_text(changed(hash="0" * 64))
    for wrong in ([str(path)], [str(tmp_path / "none.json")], []):
        assert main(wrong) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert len(shown.err.splitlines()) == 1


def test_a_bracket_of_another_version_that_does_not_overlap_is_an_error() -> None:
    """Noise multiplier 1 has epsilon 4.377... at delta 1e-5."""
    wrong = copy.deepcopy(RECORDED)
    wrong["epsilon"][0].update(lower=4.0, upper=4.3)
    wrong["versions"]["sharpdp"] = "0.0.7"
    with pytest.raises(dp.InvalidArgument) as caught:
        dp.Guarantee.from_json(json.dumps(wrong))
    words = str(caught.value)
    assert "epsilon at delta=1e-05: the report of sharpdp 0.0.7 records a bracket" in words
    assert "from 4.0 to 4.3" in words
    assert f"sharpdp {dp.__version__} computes one from 4.37" in words
    assert "do not overlap" in words
    wider = copy.deepcopy(RECORDED)
    wider["epsilon"][0].update(lower=4.0, upper=4.5)
    assert dp.Guarantee.from_json(json.dumps(wider)) == ANSWER


def without(name: str) -> str:
    return json.dumps({key: one for key, one in RECORDED.items() if key != name})


PLAN = RECORDED["plan"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be JSON"),
        ("[]", "must hold one object"),
        (without("plan"), "must have a field 'plan'"),
        (without("mu"), "must have a field 'mu'"),
        (changed(format=7), "must have format 1; got 7"),
        (changed(plan={**PLAN, "delta": [1e-4]}), "The plan or the hash was changed"),
        (changed(plan={**PLAN, "deltas": [1e-4]}), r"Did you mean 'delta'\?"),
        (changed(hash="0" * 64), "The plan or the hash was changed"),
        (changed(epsilon=[3]), "epsilon must record brackets; got 3"),
        (changed(mu={"lower": 0, "upper": "wide"}), "mu must have numbers for its ends"),
        (changed(mu={"lower": 2, "upper": 1}), "mu must have its lower end first"),
        (changed(epsilon=[{"lower": 0, "upper": 1}]), "delta must be"),
    ],
)
def test_reports_that_are_none(text: str, words: str) -> None:
    with pytest.raises((dp.InvalidArgument, dp.WrongType), match=words):
        dp.Guarantee.from_json(text)


def test_only_text_is_read() -> None:
    with pytest.raises(dp.WrongType, match="must be text; got 3"):
        dp.Guarantee.from_json(3)  # type: ignore[arg-type]
