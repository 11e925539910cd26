"""Ledgers that were written by others: what does not agree with itself is refused in a sentence.

The chain of hashes has no secret, so a forged ledger is whole. These tests forge one record after the
other, write the chain anew, and ask the reader, `verify`, the command and the page.
"""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.budget.ledger import Ledger
from sharpdp.cli import main
from sharpdp.explore.officer_view import reports
from sharpdp.storage.hash_chain import HashChain
from tests.reference.hash_chain import chain_lines

GOLDEN = Path(__file__).parents[1] / "golden" / "ledgers"
NOISE = dp.Gaussian(noise_multiplier=20.0)
WEAK = dp.Gaussian(noise_multiplier=0.1)
PROOF = "only a head that was kept elsewhere proves that no release is missing or changed"
Record = dict[str, Any]


def records_of(path: Path) -> list[Record]:
    return [json.loads(line)["record"] for line in path.read_text().splitlines()]


def written(path: Path, records: list[Any]) -> Path:
    """A whole chain of these records, as anybody can write one."""
    path.unlink(missing_ok=True)
    path.with_name(f"{path.name}.head").unlink(missing_ok=True)
    lines, last = chain_lines(records)
    path.write_text("".join(lines))
    head = {"hash": last, "lines": len(records)}
    path.with_name(f"{path.name}.head").write_text(json.dumps(head))
    return path


def adaptive(folder: Path) -> list[Record]:
    """An adaptive ledger with a release that is far beyond its budget, and a checkpoint."""
    path = folder / "made.jsonl"
    ledger = dp.Ledger(path, epsilon=1.0, delta=1e-6)
    ledger.add(NOISE, note="a table", key="first", cohort="north")
    ledger.add(WEAK, despite_budget=True)
    ledger.checkpoint()
    return records_of(path)


def fixed(folder: Path) -> list[Record]:
    path = folder / "fixed.jsonl"
    ledger = dp.Ledger(path, epsilon=3.0, delta=1e-6, choice="fixed in advance", cohorts=["north"])
    ledger.add(NOISE, run=b"r" * 32, group_size=2)
    ledger.add(dp.Laplace(scale=10.0), cohort="north")
    ledger.checkpoint()
    return records_of(path)


@pytest.mark.parametrize("name", ["adaptive", "fixed"])
def test_ledgers_of_earlier_versions_are_read(name: str, tmp_path: Path) -> None:
    for file in GOLDEN.glob(f"{name}.jsonl*"):
        shutil.copy(file, tmp_path)
    path = tmp_path / f"{name}.jsonl"
    assert Ledger.verify(path) == ()
    ledger = dp.Ledger(path)
    assert all(entry.run is None for entry in ledger.entries)
    times = [entry.time for entry in ledger.entries]
    if name == "adaptive":
        # written as 2026-05-31, 2026-06-30T23:00:00-10:00, 20260701 and 2026-W30-1
        assert times == [
            "2026-05-31T00:00:00Z",
            "2026-07-01T09:00:00Z",
            "2026-07-01T00:00:00Z",
            "2026-07-20T00:00:00Z",
        ]
        assert ledger.total().upper == float("inf")  # South is beyond its budget
        assert [entry.exceeded for entry in ledger.entries] == [False, False, False, True]
    else:
        assert times == ["2026-01-15T08:30:00Z", "2026-02-15T00:00:00Z", "2026-03-15T12:00:00Z"]
        assert ledger.cohorts == ("north", "South")
        south = dp.account(dp.Gaussian(noise_multiplier=10.0) * 2).epsilon(delta=1e-6).upper
        assert ledger.total(cohort="south").upper == pytest.approx(south)
    ledger.add(NOISE, cohort="SOUTH", despite_budget=True)
    assert Ledger.verify(path) == ()


def set_to(line: int, name: str, value: Any) -> Callable[[list[Any]], None]:
    def change(records: list[Any]) -> None:
        records[line][name] = value

    return change


def without(line: int, name: str) -> Callable[[list[Any]], None]:
    def change(records: list[Any]) -> None:
        del records[line][name]

    return change


def replaced(line: int, record: Any) -> Callable[[list[Any]], None]:
    def change(records: list[Any]) -> None:
        records[line] = record

    return change


FORGED: dict[str, tuple[Callable[[list[Any]], None], str]] = {
    "cost null": (set_to(2, "cost", None), "cost must be a number where releases are adaptive"),
    "no cost": (without(2, "cost"), "cost: it is missing"),
    "cost too small by 0.09 %": (
        lambda records: records[2].update(cost=[cost * (1 - 9e-4) for cost in records[2]["cost"]]),
        "its cost is",
    ),
    "one cost too small by 0.09 %": (
        lambda records: records[2]["cost"].__setitem__(1, records[2]["cost"][1] * (1 - 9e-4)),
        "its cost is",
    ),
    "cost 0": (set_to(2, "cost", [0.0] * 3), "its cost is 0; computed now"),
    "cost of one order": (set_to(2, "cost", 1e9), "cost must have 3 entries; got 1"),
    "cost text": (set_to(2, "cost", "x"), "cost: it must be of type array or it must be of type number"),
    "limit": (set_to(0, "limit", [1e9] * 3), "limit must be at most"),
    "one limit": (
        lambda records: records[0]["limit"].__setitem__(0, records[0]["limit"][0] * 1.01),
        "limit must be at most",
    ),
    "limit of one order": (set_to(0, "limit", 0.1), "limit must have one entry for each order"),
    "no orders": (lambda records: records[0].update(order=[], limit=[]), "order must have an entry"),
    "other orders": (
        lambda records: records[0].update(order=[order * 0.9 for order in records[0]["order"]]),
        "limit must be at most",
    ),
    "an order twice": (
        lambda records: records[0].update(
            order=[*records[0]["order"], records[0]["order"][0]],
            limit=[*records[0]["limit"], records[0]["limit"][0]],
        ),
        "limit must be at most",
    ),
    "expected": (
        lambda records: records[0].update(
            expected={"mechanism": {"kind": "Gaussian", "noise_multiplier": 0.1}}
        ),
        "expected must fit the budget",
    ),
    "expected beside the limits": (
        lambda records: records[0].update(
            expected={"mechanism": {"kind": "Gaussian", "noise_multiplier": 6.0}}
        ),
        "limit must be at most",
    ),
    "expected number": (set_to(0, "expected", {"mechanism": 5}), "expected: "),
    "limit null": (set_to(0, "limit", None), "limit must be a number"),
    "limit beyond by 1e-6": (
        lambda records: records[0].update(limit=[one * (1 + 1e-6) for one in records[0]["limit"]]),
        "limit must be at most",
    ),
    "order 1": (set_to(0, "order", [1.0] * 3), "order must be"),
    "unknown kind": (set_to(2, "kind", "relase"), "kind must be 'release' or 'checkpoint'; got 'relase'"),
    "kind list": (set_to(2, "kind", ["release"]), "kind must be"),
    "second header": (lambda records: records.append(records[0]), "kind must be"),
    "no header": (lambda records: records.pop(0), "kind must be 'ledger'"),
    "hash of another plan": (set_to(2, "plan_hash", "0" * 64), "plan_hash must be the hash of the plan"),
    "plan of another hash": (
        lambda records: records[2].update(plan=records[1]["plan"]),
        "plan_hash must be the hash of the plan",
    ),
    "epsilon -1": (set_to(0, "epsilon", -1), "epsilon: it must be more than 0; got -1"),
    "epsilon text": (set_to(0, "epsilon", "1"), "epsilon: it must be of type number"),
    "epsilon null": (set_to(0, "epsilon", None), "epsilon: it must be of type number"),
    "delta 2": (set_to(0, "delta", 2), "delta: it must be less than 1; got 2"),
    "choice": (set_to(0, "choice", "whatever"), "choice: it must be 'adaptive' or"),
    "no choice": (without(0, "choice"), "choice: it is missing"),
    "format": (set_to(0, "format", True), "format: it must be 1 or 2; got True"),
    "later format": (set_to(0, "format", 3), "format: it must be 1 or 2; got 3"),
    "adjacency": (set_to(0, "adjacency", "whatever"), "adjacency must be one of"),
    "note with ESC": (set_to(2, "note", "a\x1b[31m"), "note must be text of one line"),
    "unit with ESC": (set_to(0, "unit", "\x1b"), "unit must be text of one line"),
    "cohort with a mark": (set_to(1, "cohort", "a\u202e"), "cohort must be text of one line"),
    "time null": (set_to(2, "time", None), "time: it must be of type string"),
    "time": (set_to(2, "time", "yesterday"), "time must be a date or time of ISO 8601"),
    "time of the header": (set_to(0, "time", "x"), "time must be a date"),
    "time of a checkpoint": (set_to(3, "time", "x"), "time must be a date"),
    "no plan": (without(2, "plan"), "plan: it is missing"),
    "plan list": (set_to(2, "plan", []), "plan: it must be of type object"),
    "record 5": (replaced(2, 5), "line 3: it is no record of a chain"),
    "record list": (replaced(2, []), "line 3: it is no record of a chain"),
    "record null": (replaced(2, None), "line 3: it is no record of a chain"),
    "record of another kind": (replaced(2, {"x": 1}), "kind must be"),
    "unknown field": (set_to(2, "spent", 0), "spent: there is no such field"),
    "exceeded text": (set_to(2, "exceeded", "no"), "exceeded: it must be of type boolean"),
    "exceeded unsaid": (set_to(2, "exceeded", False), "exceed the budget, and none is said to"),
    "report hash": (set_to(2, "report_hash", "0" * 64 + "\n"), "report_hash: it must match"),
    "run": (set_to(2, "run", "me"), "run: it must match"),
    "empty checkpoint": (replaced(3, {"kind": "checkpoint"}), "time: it is missing"),
    "checkpoint of other releases": (set_to(3, "releases", 1), "releases must be as many"),
    "checkpoint too small": (set_to(3, "epsilon", [0.0, 0.5]), "the checkpoint says 0 to 0.5"),
    "checkpoint of texts": (set_to(3, "epsilon", ["a", "b"]), "epsilon/0: it must be"),
    "checkpoint of three": (set_to(3, "epsilon", [0, 1, 2]), "it must have at most 2 entries"),
}  # fmt: skip

PLANS: dict[str, tuple[Any, str]] = {
    "empty": ({}, "plan: a plan must have a mechanism"),
    "group size": (
        {"mechanism": {"kind": "Gaussian", "noise_multiplier": 20.0}, "group_size": "x"},
        "plan: group_size must be",
    ),
    "group size 0": (
        {"mechanism": {"kind": "Gaussian", "noise_multiplier": 20.0}, "group_size": 0},
        "plan: group_size must be",
    ),
    "kind": ({"mechanism": {"kind": "Gausian"}}, "plan: "),
    "number": ({"mechanism": 5}, "plan: "),
    "adjacency": (
        {"mechanism": {"kind": "Gaussian", "noise_multiplier": 20.0}, "adjacency": "x"},
        "plan: adjacency must be one of",
    ),
}


def with_plan(plan: Any) -> Callable[[list[Any]], None]:
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))

    def change(records: list[Any]) -> None:
        records[2] |= {"plan": plan, "plan_hash": hashlib.sha256(text.encode()).hexdigest()}

    return change


ALL = FORGED | {f"plan: {name}": (with_plan(plan), why) for name, (plan, why) in PLANS.items()}


@pytest.mark.parametrize("name", ALL)
def test_a_forged_ledger_is_not_confirmed(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, why = ALL[name]
    records = adaptive(tmp_path)
    assert Ledger.verify(written(tmp_path / "honest.jsonl", records)) == ()
    change(records)
    path = written(tmp_path / "forged.jsonl", records)
    problems = Ledger.verify(path)
    assert any(why in problem for problem in problems), problems
    # the command says it, without a traceback
    assert main(["ledger", "verify", str(path)]) == 1
    told = capsys.readouterr()
    assert "NOT CONFIRMED  " in told.out + told.err
    assert "Traceback" not in told.err
    # and so does the page
    (answer,) = reports(
        {"reports": [{"name": "forged.jsonl", "text": path.read_text()}], "delta": 1e-6}
    )
    assert answer["ledger"]["verdict"] in ("contradicted", "cannot be read")
    # what can be opened claims nothing that is not so
    try:
        ledger = dp.Ledger(path)
    except dp.InvalidArgument:
        return
    assert ledger.total().upper == float("inf")
    assert ledger.remaining().upper == 0.0
    assert ledger.would_exceed(NOISE)


def test_costs_are_added_up_as_they_are_computed_now_or_were_counted(tmp_path: Path) -> None:
    records = adaptive(tmp_path)
    records[2] |= {"cost": [0.0] * 3, "exceeded": False}
    low = dp.Ledger(written(tmp_path / "low.jsonl", records[:3]))
    assert low.total().upper == float("inf")
    assert low.odometer() == float("inf")
    records = records[:2]
    records[1]["cost"] = [2.0 * cost for cost in records[1]["cost"]]
    high = dp.Ledger(written(tmp_path / "high.jsonl", records))
    spent = 1.0 - float(high.remaining().lower)
    shares = [c / limit for c, limit in zip(records[1]["cost"], records[0]["limit"], strict=True)]
    assert spent == pytest.approx(min(shares), rel=1e-12)
    assert Ledger.verify(high.path) == ()


def test_confirmed_does_not_mean_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(
        tmp_path / "a.jsonl", fixed(tmp_path)[:2]
    )  # two releases fewer, a chain as whole
    assert Ledger.verify(path) == ()
    assert main(["ledger", "verify", str(path)]) == 0
    assert PROOF in capsys.readouterr().out
    fields = {"reports": [{"name": "a.jsonl", "text": path.read_text()}], "delta": 1e-6}
    (answer,) = reports(fields)
    assert (answer["ledger"]["verdict"], answer["ledger"]["proof"]) == ("confirmed", PROOF)


HOSTILE: list[Any] = [
    None, True, False, 0, -1, 1, 2, 1e-300, 1e300, 10**400, 0.5, 1e9, "", " ", "x", "inf", "nan", "1",
    "a\nb", "\ud800", "\u202e", "zero-out", "replace-one", "adaptive", "fixed in advance", "release",
    "2026-01-31", "9999-12-31T23:59:59-23:59", "0" * 64, [], [[]], {}, {"kind": "Gaussian"}, [1, 2],
]  # fmt: skip


def leaves(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values, those that hold others included."""
    if place:
        yield place
    items = (
        data.items()
        if isinstance(data, dict)
        else enumerate(data)
        if isinstance(data, list)
        else ()
    )
    for name, value in items:
        yield from leaves(value, (*place, name))


def changed(records: list[Any], place: tuple[Any, ...], value: Any) -> list[Any]:
    copied = copy.deepcopy(records)
    inner: Any = copied
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return copied


MEANT = {"delta", "cohort", "cohorts", "adjacency"}
"""Fields of which another value is another honest ledger, with another total."""


@pytest.mark.parametrize("make", [adaptive, fixed])
def test_every_value_may_be_hostile(make: Callable[[Path], list[Record]], tmp_path: Path) -> None:
    records = make(tmp_path)
    honest = float(dp.Ledger(written(tmp_path / "honest.jsonl", records)).total().upper)
    accepted = 0
    for place in list(leaves(records)):
        for value in HOSTILE:
            path = written(tmp_path / "forged.jsonl", changed(records, place, value))
            try:
                problems = Ledger.verify(path)
                assert all(isinstance(problem, str) for problem in problems)
                ledger = dp.Ledger(path)
                total, left = ledger.total(), ledger.remaining()
                shown = [entry.describe() for entry in ledger.entries]
            except dp.SharpDPError:
                continue
            accepted += 1
            assert all(line.isprintable() for line in shown)
            if place[-1] not in MEANT and "cohorts" not in place:
                assert float(total.upper) >= honest * (1 - 1e-9), (place, value)
            assert float(total.upper) <= ledger.epsilon or float(left.lower) == 0.0
    assert accepted > 100


def test_a_file_that_ends_in_head_may_hold_anything(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", fixed(tmp_path))
    head = path.with_name("a.jsonl.head")
    for text in (
        '{"hash": "", "lines": 1e400}', '{"hash": "", "lines": Infinity}', '{"lines": true, "hash": ""}',
        '{"lines": 2.5, "hash": ""}', "[" * 100_000, "5", "null", '{"lines": -1, "hash": ""}', "\u00e4",
        '{"lines": 1, "hash": 3}',
    ):  # fmt: skip
        head.write_text(text, "utf-8")
        (problem,) = Ledger.verify(path)
        assert "a.jsonl.head" in problem


def test_a_missing_head_is_a_finding(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.jsonl", epsilon=3.0, delta=1e-6)
    head = tmp_path / "budget.jsonl.head"
    head.unlink()
    assert Ledger.verify(ledger.path) == ()  # the first line alone: a kill comes before the head
    for _ in range(3):
        ledger.add(NOISE)
    kept = ledger.head
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    head.unlink()
    ledger.path.write_bytes(b"".join(lines[:-1]))
    (problem,) = Ledger.verify(ledger.path)
    assert "budget.jsonl.head is missing beside 3 lines" in problem
    assert kept not in problem  # the hash of the last line is another one
    assert HashChain(ledger.path).read()  # what is there can be read


def test_the_head_is_there_before_the_second_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = dp.Ledger(tmp_path / "budget.jsonl", epsilon=3.0, delta=1e-6)
    head = tmp_path / "budget.jsonl.head"
    head.unlink()  # as if the first append had been killed
    monkeypatch.setattr(HashChain, "_write", lambda *_: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(dp.InvalidArgument):
        ledger.add(NOISE)
    assert json.loads(head.read_text())["lines"] == 1


def test_what_killed_processes_leave_of_a_head_is_removed(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.jsonl", epsilon=3.0, delta=1e-6)
    left = tmp_path / "budget.jsonl.head.abcd1234.new"
    other = tmp_path / "budget.jsonl.header.abcd1234.new"
    for file in (left, other):
        file.write_text("{}")
    ledger.add(NOISE)
    assert not left.exists()
    assert other.exists()


def test_a_file_that_is_replaced_while_it_is_open_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "budget.jsonl"
    ledger = dp.Ledger(path, epsilon=9.0, delta=1e-6, choice="fixed in advance")
    ledger.add(NOISE)
    records = records_of(path)
    other = dp.Ledger(tmp_path / "b.jsonl", epsilon=9.0, delta=1e-6, choice="fixed in advance")
    other.add(dp.Gaussian(noise_multiplier=2.0))
    written(path, [records[0], records_of(other.path)[1]])
    assert ledger.total().upper == other.total().upper
    written(path, [{**records[0], "epsilon": 100.0}, records[1]])
    with pytest.raises(dp.InvalidArgument, match="that of another ledger"):
        ledger.total()
    written(path, records)  # back again, with all of its releases
    assert ledger.total().upper == dp.account(NOISE).epsilon(delta=1e-6).upper
