"""Reports in JSON follow their published schema, and are held against a new computation when read."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonschema
import pytest

import sharpdp as dp
from sharpdp import report
from sharpdp.errors import WrongType
from sharpdp.mechanisms import ProfileMechanism
from sharpdp.mechanisms.composed import Grouped
from tests.laws.registered import MAKERS, Subject, some

CHECK = jsonschema.Draft202012Validator(json.loads(report.schema("report")))
ANSWER = dp.account(dp.Gaussian(noise_multiplier=1.0))
RECORDED: dict[str, Any] = json.loads(ANSWER.report("json"))

WIDTH = 0.1
"""A relative width that is quickly reached."""


def changed(**fields: Any) -> str:
    """The report with some fields replaced."""
    return json.dumps({**copy.deepcopy(RECORDED), **fields})


@pytest.mark.parametrize("name", report.json_schema.SCHEMAS)
def test_published_schemas_are_valid(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(report.schema(name)))


def test_schemas_by_name() -> None:
    assert json.loads(report.schema("plan"))["$id"] == "urn:sharpdp:plan"
    with pytest.raises(dp.InvalidArgument, match=r"Did you mean report\?"):
        report.schema("reprot")


# Reports on these take ten seconds and more.
LONG = {"SampledReports", "ShuffledBatches"}


@pytest.mark.parametrize(
    "subject",
    [
        pytest.param(
            one,
            id=str(one),
            marks=[pytest.mark.slow] if LONG & {getattr(k, "__name__", "") for k in one} else [],
        )
        for one in MAKERS
    ],
)
def test_reports_of_every_kind_follow_the_schema(subject: Subject) -> None:
    (run,) = some(subject, 8, 1)
    # a last iterate may end with an epoch only, and is quick
    if isinstance(run, dp.BatchQueries | dp.SameBatches) and not isinstance(run, dp.LastIterate):
        run = run.stopped_after(1)  # quick
    answer = dp.account(run, relative_width=WIDTH)
    text = answer.report("json", delta=1e-3)
    data = json.loads(text)
    CHECK.validate(data)
    if isinstance(run, ProfileMechanism | Grouped):  # the plan of a group has a group_size
        assert data["plan"] is data["hash"] is data["verify"] is None
        with pytest.raises(dp.InvalidArgument, match="the report has no plan"):
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
        {"format": 3},
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
    found = report.verify(changed())
    assert found.verdict is report.Verdict.CONFIRMED
    assert found.findings == ()
    assert len(found.brackets) == 11 + len(RECORDED["tradeoff"])
    assert any(RECORDED["hash"] in line for line in found.lines())
    json.dumps(found.to_dict(), allow_nan=False)


def test_s4_reports_do_not_depend_on_what_was_asked_before() -> None:
    """Work for one question sharpens the next answer; reports are the same whenever they are written."""
    run = dp.Gaussian(noise_multiplier=2.0) * 3 + dp.Laplace(scale=2.0)
    fresh, used = (dp.account(run, relative_width=1e-2) for _ in range(2))
    used.epsilon(delta=3e-7)
    used.delta(epsilon=0.3)
    assert used.report("json", delta=1e-5) == fresh.report("json", delta=1e-5)


def of_another_version(upper: float, lower: float = 4.3) -> report.Verification:
    """Noise multiplier 1 has epsilon 4.377178... at delta 1e-5."""
    data = copy.deepcopy(RECORDED)
    data["epsilon"][0].update(lower=lower, upper=upper)
    data["versions"]["sharpdp"] = "0.0.7"
    return report.verify(json.dumps(data))


@pytest.mark.parametrize(
    ("lower", "upper", "verdict"),
    [
        (4.3, 4.4, report.Verdict.CONFIRMED),  # wider than what is known now
        (4.3, 4.3771, report.Verdict.CONTRADICTED),
        (4.38, 4.4, report.Verdict.CONTRADICTED),
    ],
)
def test_s4_three_verdicts_on_a_bracket_of_another_version(
    lower: float, upper: float, verdict: report.Verdict
) -> None:
    found = of_another_version(upper, lower)
    assert found.verdict is found.brackets[0].verdict is verdict
    assert any("/versions/sharpdp (0.0.7; here" in one for one in found.unchecked)
    assert any("verify it with sharpdp 0.0.7" in one for one in found.lines())


def test_s4_a_sharper_claim_is_consistent_but_not_confirmed() -> None:
    """Blocks of two records have no lower side: nothing contradicts a smaller epsilon, or shows it."""
    answer = dp.account(dp.ShuffledBlocks(blocks=3, block_size=2, local_epsilon=1.0))
    for version, verdict in (
        ("0.0.7", report.Verdict.UNCONFIRMED),
        (dp.__version__, report.Verdict.CONTRADICTED),  # which gives another number
    ):
        data = json.loads(answer.report("json", delta=1e-5))
        data["epsilon"][0]["upper"] = 0.001
        data["versions"]["sharpdp"] = version
        found = report.verify(json.dumps(data))
        assert found.verdict is found.brackets[0].verdict is verdict
        assert [one.field for one in found.findings] == ["/epsilon/0/upper"]


@pytest.mark.parametrize("numpy", [None, "1.26.4"])
@pytest.mark.parametrize(
    ("end", "factor"), [("upper", 0.99), ("upper", 1.01), ("lower", 0.99), ("lower", 1.01)]
)
def test_b13_an_end_that_this_version_does_not_give_is_contradicted(
    end: str, factor: float, numpy: str | None
) -> None:
    """In either direction, whatever packages the report names: ends move by less than the width."""
    run = dp.ShuffledReports(users=50, local_epsilon=1.0)
    data = json.loads(dp.account(run, relative_width=1e-3).report("json", delta=1e-5))
    low, high = data["epsilon"][0]["lower"], data["epsilon"][0]["upper"]
    data["epsilon"][0][end] *= factor
    if numpy is not None:
        data["versions"]["numpy"] = numpy
    if end == "upper":
        assert low < data["epsilon"][0]["upper"]  # brackets overlap
    else:
        assert data["epsilon"][0]["lower"] < high
    found = report.verify(json.dumps(data))
    assert [(one.field, one.verdict) for one in found.findings] == [
        (f"/epsilon/0/{end}", report.Verdict.CONTRADICTED)
    ]


@pytest.mark.parametrize(
    "version", ["9.9 (reviewed by NIST)", "", "v1", "1.0<b>", "1.0\u0663x", "1..2", "1.0-final"]
)
@pytest.mark.parametrize("package", ["sharpdp", "python"])
def test_b13_versions_are_versions(package: str, version: str) -> None:
    data = copy.deepcopy(RECORDED)
    data["versions"][package] = version
    found = report.verify(json.dumps(data))
    assert found.verdict is report.Verdict.CONTRADICTED
    assert found.findings[0].field == f"/versions/{package}"


@pytest.mark.parametrize(
    "version", ["0.0.7", "1.0rc1", "2.0.post1", "2.5.0.dev0+git2026.ab", "3.14.0a1+"]
)
def test_b13_versions_of_all_kinds_are_read(version: str) -> None:
    data = copy.deepcopy(RECORDED)
    data["versions"] = dict.fromkeys(data["versions"], version)
    assert not any("versions" in one.field for one in report.verify(json.dumps(data)).findings)


@pytest.mark.parametrize(
    "date", ["<b>x", "last week", "2026-13-01", "2026-1-1", "20260131", "2026-02-31"]
)
def test_b13_dates_are_dates(date: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=r"date must be a date as YYYY-MM-DD; got "):
        ANSWER.report(date=date)
    with pytest.raises(dp.InvalidArgument, match=r"date must be a date as YYYY-MM-DD; got "):
        ANSWER.report("json", header={"date": date})
    data = copy.deepcopy(RECORDED)
    data["date"] = date
    assert report.verify(json.dumps(data)).verdict is not report.Verdict.CONFIRMED
    data["versions"]["sharpdp"] = "0.0.7"
    found = report.verify(json.dumps(data))
    assert found.verdict is report.Verdict.UNCONFIRMED
    data["date"] = "2026-01-31"
    assert report.verify(json.dumps(data)).verdict is report.Verdict.CONFIRMED


def test_s4_a_true_claim_that_is_sharper_by_less_than_the_width_is_confirmed() -> None:
    """A wide bracket is asked for; the claim is that of a narrow one, which more work confirms."""
    run = dp.Gaussian(noise_multiplier=2.0) * 3 + dp.Laplace(scale=2.0)
    wide = json.loads(dp.account(run, relative_width=0.1).report("json", delta=1e-5))
    narrow = dp.account(run, relative_width=1e-3).epsilon(delta=1e-5)
    assert narrow.upper < wide["epsilon"][0]["upper"]
    for upper, verdict in (
        (narrow.upper, report.Verdict.CONFIRMED),
        (narrow.lower * 0.999, report.Verdict.CONTRADICTED),
    ):
        data = copy.deepcopy(wide)
        data["epsilon"][0].update(upper=upper, lower=0.0)
        data["versions"]["sharpdp"] = "0.0.7"
        assert report.verify(json.dumps(data)).brackets[0].verdict is verdict


def test_s4_words_of_another_version_are_not_confirmed() -> None:
    """A changed version must not be a way around the comparison of words."""
    data = copy.deepcopy(RECORDED)
    data["versions"]["sharpdp"] = "0.0.7"
    data["adjacency"] = "replace-one"
    found = report.verify(json.dumps(data))
    assert found.verdict is report.Verdict.UNCONFIRMED
    assert [one.field for one in found.findings] == ["/adjacency"]
    assert all(one.verdict is report.Verdict.CONFIRMED for one in found.brackets)


def test_s4_brackets_of_another_version_are_judged_where_it_asked() -> None:
    data = copy.deepcopy(RECORDED)
    data["versions"]["sharpdp"] = "0.0.7"
    data["delta"] = [{**data["delta"][0], "epsilon": 3.0, "lower": 1e-9, "upper": 1e-8}]
    found = report.verify(json.dumps(data))
    (judged,) = (one for one in found.brackets if one.field.startswith("/delta"))
    exact = ANSWER.delta(epsilon=3.0)
    assert exact.lower > 1e-8
    assert judged.verdict is report.Verdict.CONTRADICTED


def test_s4_other_packages_may_change_the_last_digits() -> None:
    data = copy.deepcopy(RECORDED)
    data["versions"]["numpy"] = "9.9"
    data["epsilon"][0]["upper"] *= 1 + 1e-7
    found = report.verify(json.dumps(data))
    assert found.verdict is report.Verdict.CONFIRMED
    assert any("/versions/numpy (9.9" in one for one in found.unchecked)
    data["epsilon"][0]["upper"] *= 1.01
    assert report.verify(json.dumps(data)).findings[0].field == "/epsilon/0/upper"


def without(name: str) -> str:
    return json.dumps({key: one for key, one in RECORDED.items() if key != name})


PLAN = RECORDED["plan"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be JSON"),
        ("[]", "must hold one object"),
        ("{}", "without most of its fields"),
        (changed().replace('"mu": {', '"hash": "0", "mu": {'), "'hash' comes twice"),
        ("# Privacy report\n\n", "got text or Markdown"),
        ("<html></html>", "must hold one report as JSON"),
    ],
)
def test_texts_that_are_no_reports(text: str, words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        report.verify(text)
    with pytest.raises(dp.InvalidArgument, match=words):
        dp.Guarantee.from_json(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (without("plan"), "/plan: contradicted: it is missing"),
        (without("mu"), "/mu: contradicted: it is missing"),
        (
            changed(format=7),
            "/format: recorded 7; not confirmed: this version reads formats 1 to 2",
        ),
        (changed(format=True), "/format: recorded True; contradicted: it must be 1"),
        (changed(format=1.0), "/format: recorded 1.0; contradicted: it must be 1"),
        (changed(plan={**PLAN, "delta": [1e-4]}), "the plan or the hash was changed"),
        (changed(plan={**PLAN, "deltas": [1e-4]}), r"Did you mean delta\?"),
        (changed(hash="0" * 64), "the plan or the hash was changed"),
        (changed(epsilon=[]), "/epsilon: .* at least 1 entries"),
        (changed(epsilon=[3]), "/epsilon/0: recorded 3; .* type object"),
        (changed(more=3), "/more: recorded 3; contradicted: there is no such field"),
        (changed(mu={"lower": 0, "upper": "wide"}), "/mu/quantity"),
        (changed(mu={**RECORDED["mu"], "upper": True}), "/mu/upper: recorded True; .* type number"),
        (changed(mu={**RECORDED["mu"], "lower": 2, "upper": 1}), "/mu/lower: recorded 2"),
        (changed(epsilon=RECORDED["epsilon"][:1]), r"/epsilon/1: recorded '\(absent\)'"),
        (changed(unit="one person\u202e"), "/unit: .* control or formatting characters"),
    ],
)
def test_s4_reports_that_are_not_confirmed_raise(text: str, words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        dp.Guarantee.from_json(text)


def test_only_text_is_read() -> None:
    with pytest.raises(WrongType, match="must be text; got 3"):
        dp.Guarantee.from_json(3)  # type: ignore[arg-type]
