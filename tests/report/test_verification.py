"""`verify` names every changed leaf of a report: mutations of reports of five kinds of runs."""

from __future__ import annotations

import copy
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.report import Results, Verdict, Verification, verification
from sharpdp.report.results import as_data

Path = tuple[str | int, ...]
Mutation = tuple[str, Path, Any]
"""What was done, where, and the report that came of it."""

RUNS: dict[str, dp.Mechanism] = {
    "Gaussian": dp.Gaussian(noise_multiplier=1.0),
    "Poisson": dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0),
    "shuffled batches": dp.DPSGD(
        dp.ShuffledBatches(dataset_size=600, batch_size=60, epochs=1), noise_multiplier=0.8
    ),
    "shuffled reports": dp.ShuffledReports(users=1000, local_epsilon=1.0),
    "shuffled blocks": dp.ShuffledBlocks(blocks=3, block_size=2, local_epsilon=1.0),
    "sequence": dp.Gaussian(noise_multiplier=2.0) * 3 + dp.Laplace(scale=2.0),
}
QUICK = "Gaussian"
SLOW = [name for name in RUNS if name != QUICK]

DATE = "2026-01-31"
GONE = object()
SLIGHTLY = 1e-6

FREE = ("date", "header", "versions")
"""Texts of which no computation knows whether they are true: they are listed as not checked."""


class Subject:
    """A report, and a verification of its mutants that computes the plan once."""

    def __init__(self, name: str) -> None:
        answer = dp.account(RUNS[name], relative_width=1e-2)
        self.results = Results.of(answer, date=DATE, header={"project": "a b", "owner": "c d"})
        self.data: dict[str, Any] = json.loads(json.dumps(as_data(self.results)))

    def verify(self, data: Any, patch: pytest.MonkeyPatch) -> Verification:
        compute = Results.of

        def kept(guarantee: dp.Guarantee, *, delta: Any, date: str | None, form: int) -> Results:
            asked = tuple(value for value, _ in self.results.epsilons)
            same = guarantee.mechanism == self.results.guarantee.mechanism and delta == asked
            return replace(self.results, date=date) if same else compute(guarantee, delta=delta)

        with patch.context() as during:
            during.setattr(Results, "of", kept)
            return verification.verify(json.dumps(data))


@pytest.fixture(scope="module")
def gaussian() -> Subject:
    return Subject(QUICK)


def leaves(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if isinstance(data, dict):
        for name, one in data.items():
            yield from leaves(one, (*path, name))
    elif isinstance(data, list):
        for index, one in enumerate(data):
            yield from leaves(one, (*path, index))
    else:
        yield path, data


def with_leaf(data: Any, path: Path, value: Any) -> Any:
    """A copy with another value at this place, or without it."""
    new = copy.deepcopy(data)
    inner = new
    for part in path[:-1]:
        inner = inner[part]
    if value is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return new


def others(path: Path, value: Any, texts: list[str]) -> dict[str, Any]:
    """What could stand there instead."""
    found: dict[str, Any] = {"deleted": GONE, "null": None, "true": True, "list": [value]}
    if isinstance(value, str):
        found |= {
            "emptied": "",
            "other text": "anything",
            "space added": f"{value} ",
            "cut": value[:-1],
            "swapped": texts[(texts.index(value) + 7) % len(texts)],
            "number": 3,
            "escape": f"{value}\x1b[2J",
            "bidi": f"{value}\u202e",
        }
    elif value is not None and not isinstance(value, bool):
        found |= {
            "slightly less": value * (1 - SLIGHTLY),
            "slightly more": value * (1 + SLIGHTLY),
            "half": value / 2,
            "double": value * 2,
            "negative": -value,
            "zero": 0,
            "inf": "inf",
            "text": str(value),
            "nan": math.nan,
        }
    else:
        found |= {"zero": 0.0, "one": 1.0, "text": "none"}
    return {way: one for way, one in found.items() if _differ(one, value)}


def _differ(one: Any, other: Any) -> bool:
    """Whether JSON tells the two apart; it has one kind of numbers."""
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (one, other))
    if numbers:
        return bool(one != other) and not (one == 0 == other)
    return one is GONE or type(one) is not type(other) or one != other


def mutants(data: Any, paths: list[tuple[Path, Any]]) -> Iterator[Mutation]:
    texts = sorted({one for _, one in leaves(data) if isinstance(one, str)})
    for path, value in paths:
        for way, new in others(path, value, texts).items():
            yield way, path, with_leaf(data, path, new)


def structural(data: dict[str, Any]) -> Iterator[Mutation]:
    """Fields and entries that are dropped, added, doubled, emptied or put in another order."""
    for name, value in data.items():
        if name not in ("date", "header"):
            yield "field dropped", (name,), with_leaf(data, (name,), GONE)
        yield "field renamed", (name,), {("X" + k if k == name else k): v for k, v in data.items()}
        if value == []:
            yield "entry added", (name,), with_leaf(data, (name,), ["anything"])
        elif isinstance(value, list):
            yield "emptied", (name,), with_leaf(data, (name,), [])
            yield "entry doubled", (name,), with_leaf(data, (name,), [*value, value[-1]])
            yield "last dropped", (name,), with_leaf(data, (name,), value[:-1])
            if len(value) > 1:
                yield "reversed", (name,), with_leaf(data, (name,), value[::-1])
            if isinstance(value[0], dict):
                yield "entry field", (name, 0, "x"), with_leaf(data, (name, 0, "x"), 1)
        if isinstance(value, dict):
            yield "emptied", (name,), with_leaf(data, (name,), {})
            yield "entry field", (name, "x"), with_leaf(data, (name, "x"), 1)
    yield "unknown field", ("x",), {**data, "x": 1}
    guessing = [
        {"fpr": one["fpr"], "lower": 1 - one["fpr"], "upper": 1.0} for one in data["tradeoff"]
    ]
    yield "perfect privacy", ("tradeoff",), with_leaf(data, ("tradeoff",), guessing)


def named(found: Verification, path: Path) -> bool:
    """Whether a finding is about this place, what it is part of, or a part of it."""
    if path[0] in ("plan", "hash"):  # a plan and its hash vouch for each other
        return any(one.field.startswith(("/plan", "/hash")) for one in found.findings)
    place = "/".join(["", *map(str, path)])
    names = (one.field for one in found.findings)
    return any(
        f"{one}/".startswith(f"{place}/") or f"{place}/".startswith(f"{one}/") for one in names
    )


def is_free(path: Path, data: Any) -> bool:
    """Whether the mutant only says something else about who wrote it, and when."""
    if path[0] not in FREE:
        return False
    try:
        value = data
        for part in path:
            value = value[part]
    except (KeyError, IndexError):
        return path[0] in ("date", "header")
    shape = {"date": r"\d{4}-\d\d-\d\d", "versions": r"\d+(\.\d+)*"}.get(str(path[0]), ".+")
    return isinstance(value, str) and value.isprintable() and bool(re.fullmatch(shape, value))


def examined(subject: Subject, many: Iterator[Mutation], patch: pytest.MonkeyPatch) -> Counter[str]:
    """How many mutants there were, by the field and what became of them; none may pass unnamed."""
    table: Counter[str] = Counter()
    for way, path, data in many:
        found = subject.verify(data, patch)
        what = f"{way} at {'/'.join(map(str, path))}"
        if is_free(path, data):
            place = f"/{path[0]}"
            said = place != "/versions" or any(place in one for one in found.unchecked)
            assert said, what
            table[f"{path[0]}: not checked, and said so"] += 1
            continue
        assert found.verdict is not Verdict.CONFIRMED, what
        assert named(found, path), (what, [one.field for one in found.findings])
        table[f"{path[0]}: named, {found.verdict}"] += 1
    return table


def some(data: Any) -> list[tuple[Path, Any]]:
    """Leaves of every field: the first of each list, and a point of the curve in the middle."""
    kept = []
    for path, value in leaves(data):
        indices = [part for part in path if isinstance(part, int)]
        if not any(indices) or indices[0] == 40:
            kept.append((path, value))
    return kept


def test_s4_every_field_of_a_report_is_checked(
    gaussian: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gaussian.verify(gaussian.data, monkeypatch).verdict is Verdict.CONFIRMED
    ways = ("deleted", "slightly less", "other text")
    few = (one for one in mutants(gaussian.data, some(gaussian.data)) if one[0] in ways)
    table = examined(gaussian, few, monkeypatch)
    assert sum(table.values()) > 100
    fields = {key.partition(":")[0] for key in table}
    assert fields == {name for name, value in gaussian.data.items() if value != []}


def test_s4_the_structure_of_a_report_is_checked(
    gaussian: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = examined(gaussian, structural(gaussian.data), monkeypatch)
    assert sum(table.values()) > 60


@pytest.mark.slow
@pytest.mark.parametrize("name", list(RUNS))
def test_s4_every_leaf_of_every_kind(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = Subject(name)
    assert subject.verify(subject.data, monkeypatch).verdict is Verdict.CONFIRMED
    table = examined(subject, mutants(subject.data, list(leaves(subject.data))), monkeypatch)
    table += examined(subject, structural(subject.data), monkeypatch)
    rows = [f"{number:5d}  {key}" for key, number in sorted(table.items())]
    sys.stdout.write("\n".join([f"\n{name}: {sum(table.values())} mutants", *rows, ""]))
