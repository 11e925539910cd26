"""Records of a ledger: the schema of each kind, and what must agree within one.

A chain of hashes has no secret, so anybody may write one that is whole. What is read is therefore
checked like any other file: by a schema, and then by everything that can be computed again.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sharpdp._validate import one_line, renyi_order, short_repr
from sharpdp.budget.cohorts import folded
from sharpdp.budget.moments import moment
from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.mechanisms.composed import notion
from sharpdp.plans import Plan
from sharpdp.plans.files import canonical
from sharpdp.report.json_schema import faults

__all__ = ["CHOICES", "FORMAT", "SCHEMAS", "checked", "checked_header", "checked_release"]

Record = dict[str, Any]

CHOICES = ("adaptive", "fixed in advance")
"""How releases were chosen: after seeing earlier results, or before seeing any."""

FORMAT = 1
"""Counts the changes of the format that a reader must know of."""

TEXT = {"type": "string"}
NAME = {"type": ["string", "null"], "minLength": 1}
HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
HASH_OR_NULL = {**HASH, "type": ["string", "null"]}
POSITIVE_OR_NULL = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "null"}]}
COST = {"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}
END = {"anyOf": [{"type": "number", "minimum": 0}, {"enum": ["inf"]}]}


def _record(kind: str, optional: tuple[str, ...] = (), **fields: Any) -> Record:
    properties = {"kind": {"const": kind}, "time": TEXT, **fields}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


SCHEMAS = {
    "ledger": _record(
        "ledger",
        ("cohorts",),
        format={"const": FORMAT},
        epsilon={"type": "number", "exclusiveMinimum": 0},
        delta={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        choice={"enum": list(CHOICES)},
        adjacency=NAME,
        unit=TEXT,
        order=POSITIVE_OR_NULL,
        limit=POSITIVE_OR_NULL,
        cohorts={"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 1},
    ),
    "release": _record(
        "release",
        ("run", "batches"),
        plan={"type": "object"},
        plan_hash=HASH,
        note=TEXT,
        cohort=NAME,
        key=NAME,
        report_hash=HASH_OR_NULL,
        cost=COST,
        exceeded={"type": "boolean"},
        run=HASH_OR_NULL,
        batches=HASH,
    ),
    "checkpoint": _record(
        "checkpoint",
        releases={"type": "integer", "minimum": 0},
        epsilon={"type": "array", "items": END, "minItems": 2, "maxItems": 2},
    ),
}
"""The JSON Schema of each kind of record. Which run a release without "run" was is not known, nor from
which key it drew its batches without "batches"."""


def checked(record: Record, line: int) -> str:
    """The kind of a record that is one of a ledger and stands where it may.

    Args:
        record: What a line holds.
        line: Its number, from 1 on; the first line is the budget, and no other is.

    Returns:
        "ledger", "release" or "checkpoint".

    Raises:
        InvalidArgument: It is no such record.
    """
    kinds = ("ledger",) if line == 1 else ("release", "checkpoint")
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in kinds:
        allowed = " or ".join(map(repr, kinds))
        raise InvalidArgument(f"kind must be {allowed}; got {short_repr(kind)}.")
    for place, why, found in faults(SCHEMAS[kind], record):
        raise InvalidArgument(f"{place[1:]}: {why}; got {short_repr(found)}.")
    for name in ("unit", "note", "cohort", "key"):
        if record.get(name) is not None:
            one_line(**{name: record[name]})
    return kind


def checked_header(record: Record) -> Record:
    """The first line of a ledger, if its fields agree; the time in UTC.

    Args:
        record: It, as `checked` found it.

    Returns:
        Its fields, of which none is missing.

    Raises:
        InvalidArgument: They do not agree.
    """
    if record["adjacency"] is not None:
        notion(record["adjacency"])
    names = record.get("cohorts")
    for name in names or ():
        one_line(cohorts=name)
    if len({folded(name) for name in names or ()}) < len(names or ()):
        raise InvalidArgument(f"cohorts must have different names; got {short_repr(names)}.")
    is_adaptive = record["choice"] == "adaptive"
    for name in ("order", "limit"):
        _check_filter(name, record, is_adaptive=is_adaptive)
    if is_adaptive:
        renyi_order(order=record["order"])
    return {**record, "cohorts": names, "time": moment(time=record["time"])}


def checked_release(record: Record, *, is_adaptive: bool) -> tuple[Plan, str]:
    """The plan and the time of a release whose fields agree.

    Args:
        record: It, as `checked` found it.
        is_adaptive: Whether it must have a cost.

    Returns:
        The plan, and the time in UTC.

    Raises:
        InvalidArgument: They do not agree.
    """
    if hashlib.sha256(canonical(record["plan"]).encode()).hexdigest() != record["plan_hash"]:
        raise InvalidArgument("plan_hash must be the hash of the plan; got that of something else.")
    _check_filter("cost", record, is_adaptive=is_adaptive)
    try:
        plan = Plan.from_dict(record["plan"])
    except (SharpDPError, RecursionError) as fault:
        raise InvalidArgument(f"plan: {fault}") from fault
    return plan, moment(time=record["time"])


def _check_filter(name: str, record: Record, *, is_adaptive: bool) -> None:
    """What a filter needs is there if there is a filter, and only then."""
    if (record[name] is not None) != is_adaptive:
        wanted = "a number" if is_adaptive else "null"
        where = "adaptive" if is_adaptive else "fixed in advance"
        raise InvalidArgument(
            f"{name} must be {wanted} where releases are {where}; got {short_repr(record[name])}."
        )
