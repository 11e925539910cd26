"""Records of a ledger: the schema of each kind, and what must agree within one.

A chain of hashes has no secret, so anybody may write one that is whole. What is read is therefore
checked like any other file: by a schema, and then by everything that can be computed again.
"""

from __future__ import annotations

import hashlib
from typing import Any

from sharpdp._validate import invalid, is_among, one_line, renyi_order, short_repr
from sharpdp.budget.cohorts import folded
from sharpdp.budget.moments import moment
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument, SharpDPError
from sharpdp.mechanisms.composed import notion
from sharpdp.plans import Plan
from sharpdp.plans.files import canonical
from sharpdp.report.json_schema import faults

__all__ = [
    "CHOICES",
    "FORMAT",
    "SCHEMAS",
    "checked",
    "checked_choice",
    "checked_header",
    "checked_release",
]

Record = dict[str, Any]

CHOICES = ("adaptive", "fixed")
"""How releases were chosen: after seeing earlier results, or before seeing any."""

FORMER = {"fixed in advance": "fixed"}
"""Words of earlier versions, which stand in their ledgers and are still understood."""

FORMAT = 2
"""Counts the changes of the format that a reader must know of.

Format 1 has one order, limit and cost, where format 2 has lists of them, and knows nothing of `expected`.
"""

TEXT = {"type": "string"}
NAME = {"type": ["string", "null"], "minLength": 1}
HASH = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
HASH_OR_NULL = {**HASH, "type": ["string", "null"]}
POSITIVE = {"type": "number", "exclusiveMinimum": 0}
POSITIVES = {"anyOf": [{"type": "array", "items": POSITIVE}, POSITIVE, {"type": "null"}]}
END = {"anyOf": [{"type": "number", "minimum": 0}, {"enum": ["inf"]}]}


def _record(kind: str, optional: tuple[str, ...] = (), **fields: Any) -> Record:
    properties = {"kind": {"const": kind}, "time": TEXT, **fields}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }


COST = {"type": "number", "minimum": 0}
COSTS = {"anyOf": [{"type": "array", "items": END}, COST, {"type": "null"}]}


SCHEMAS = {
    "ledger": _record(
        "ledger",
        ("cohorts", "expected"),
        format={"enum": [1, FORMAT]},
        epsilon={"type": "number", "exclusiveMinimum": 0},
        delta={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        choice={"enum": [*CHOICES, *FORMER]},
        adjacency=NAME,
        unit=TEXT,
        order=POSITIVES,
        limit=POSITIVES,
        expected={"type": "object"},
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
        cost=COSTS,
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
which key it drew its batches without "batches".

A cost may be "inf" at one of several orders.
"""


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
    for path, why, found in faults(SCHEMAS[kind], record):
        raise InvalidArgument(f"{path[1:]}: {why}; got {short_repr(found)}.")
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
    filters = {name: _listed(name, record, is_adaptive=is_adaptive) for name in ("order", "limit")}
    for order in filters["order"]:
        renyi_order(order=order)
    if len(filters["order"]) != len(filters["limit"]):
        raise InvalidArgument("limit must have one entry for each order; got another number.")
    expected = record.get("expected")
    if expected is not None and (not is_adaptive or record["format"] == 1):
        raise InvalidArgument("expected must be left out where there is no filter of format 2.")
    if is_adaptive and expected is None and not filters["order"]:
        raise InvalidArgument("order must have an entry where nothing is expected; got none.")
    choice = FORMER.get(record["choice"], record["choice"])
    more = {"cohorts": names, "time": moment(time=record["time"]), "choice": choice}
    plan = None if expected is None else _plan("expected", expected)
    return {**record, **more, **filters, "expected": plan}


def checked_release(record: Record, *, limits: int | None) -> tuple[Plan, Record]:
    """The plan and the fields of a release, if they agree.

    Args:
        record: It, as `checked` found it.
        limits: How many limits the filter has, against each of which it has a cost; None for no filter.

    Returns:
        The plan; and the fields with the time in UTC, and the costs as a tuple or None.

    Raises:
        InvalidArgument: They do not agree.
    """
    if hashlib.sha256(canonical(record["plan"]).encode()).hexdigest() != record["plan_hash"]:
        raise InvalidArgument("plan_hash must be the hash of the plan; got that of something else.")
    costs = _listed("cost", record, is_adaptive=limits is not None)
    if len(costs) != (limits or 0):
        raise InvalidArgument(f"cost must have {limits} entries; got {len(costs)}.")
    fields = {"time": moment(time=record["time"]), "cost": None if limits is None else costs}
    return _plan("plan", record["plan"]), {**record, **fields}


def checked_choice(choice: object) -> str:
    """How releases are chosen, in the word that is used now.

    Args:
        choice: "adaptive", "fixed", or what stood for them in earlier versions.

    Returns:
        "adaptive" or "fixed".

    Raises:
        InvalidArgument: It is neither.
        WrongType: It is no text.

    >>> checked_choice("fixed in advance")
    'fixed'
    """
    if is_among((*CHOICES, *FORMER), choice):
        return FORMER.get(str(choice), str(choice))
    words = " or ".join(map(repr, CHOICES))
    raise invalid("choice", words, choice, hint(str(choice), CHOICES).strip())


def _plan(name: str, data: Record) -> Plan:
    try:
        return Plan.from_dict(data)
    except (SharpDPError, RecursionError) as fault:
        raise InvalidArgument(f"{name}: {fault}") from fault


def _listed(name: str, record: Record, *, is_adaptive: bool) -> tuple[float, ...]:
    """One list entry per limit of the filter, present if and only if there is a filter."""
    found = record[name]
    if (found is not None) != is_adaptive:
        wanted = "a number" if is_adaptive else "null"
        where = "adaptive" if is_adaptive else "fixed in advance"
        raise InvalidArgument(
            f"{name} must be {wanted} where releases are {where}; got {short_repr(found)}."
        )
    listed = found if isinstance(found, list) else [] if found is None else [found]
    return tuple(float(value) for value in listed)
