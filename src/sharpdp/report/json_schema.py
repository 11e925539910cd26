"""A report as plain data for JSON, and the published JSON Schemas of reports and of plans."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import short_repr
from sharpdp.accounting import Guarantee
from sharpdp.bracket import Bracket
from sharpdp.errors import InvalidArgument
from sharpdp.nearest_word import hint
from sharpdp.plans import plan_schema
from sharpdp.plans.plain_data import number_to_data
from sharpdp.plans.signature_schema import DIALECT
from sharpdp.proofs import cited
from sharpdp.report.citations import bibtex, keys
from sharpdp.report.results import DELTAS, TITLE, VERIFY, Findings, findings
from sharpdp.report.words import in_words, neighbors, obligations, sampler, trusted, unit

__all__ = [
    "FORMAT",
    "SCHEMAS",
    "as_data",
    "as_json",
    "faults",
    "plain",
    "report_fields",
    "report_schema",
    "schema",
    "theorems",
    "to_dict",
    "to_json",
]

FORMAT = 1
"""Counts the changes of the format that a reader must know of."""


def to_json(guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None) -> str:
    """The report on an answer as JSON; `from_json` gives the guarantee back.

    Args:
        guarantee: The answer to report on, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print, text of one line; none is printed by default.

    Returns:
        JSON of several lines that follows `report_schema`.

    Raises:
        InvalidArgument: A delta is out of range.
        WrongType: delta is no number or array of numbers.
        NotCertified: An answer cannot be given with a proof.
    """
    return as_json(findings(guarantee, delta=delta, date=date))


def as_json(found: Findings) -> str:
    """The findings as JSON."""
    return json.dumps(as_data(found), indent=2, allow_nan=False) + "\n"


def to_dict(
    guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None
) -> dict[str, Any]:
    """The report on an answer as plain data for JSON.

    Args:
        guarantee: The answer to report on, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to print, text of one line; none is printed by default.

    Returns:
        The data of `to_json`. Infinite ends are "inf", a missing lower side is None.

    Raises:
        InvalidArgument: A delta is out of range.
        WrongType: delta is no number or array of numbers.
        NotCertified: An answer cannot be given with a proof.
    """
    return as_data(findings(guarantee, delta=delta, date=date))


def as_data(found: Findings) -> dict[str, Any]:
    """The findings as plain data for JSON."""
    guarantee = found.guarantee
    run = guarantee.mechanism
    written = not found.unwritten
    return {
        "title": TITLE,
        "format": FORMAT,
        "mechanism": run.describe(),
        "in_words": in_words(run),
        "adjacency": str(guarantee.adjacency),
        "neighbors": neighbors(guarantee.adjacency),
        "unit": unit(run),
        "sampler": sampler(run),
        "trusted": trusted(run),
        **_answers(found),
        "tradeoff": [dict(zip(("fpr", "lower", "upper"), p, strict=True)) for p in found.curve],
        "theorems": _theorems(found),
        "not_covered": obligations(run),
        "bibtex": bibtex(guarantee.bounds),
        "versions": dict(found.versions),
        "relative_width": guarantee.relative_width,
        "plan": found.plan.to_dict() if written else None,
        "hash": found.plan.hash if written else None,
        "verify": VERIFY if written else None,
        **({} if found.date is None else {"date": found.date}),
    }


def _answers(found: Findings) -> dict[str, Any]:
    answer = found.guarantee
    return {
        "epsilon": [{"delta": at, **plain(answer, one)} for at, one in found.epsilons],
        "delta": [{"epsilon": at, **plain(answer, one)} for at, one in found.deltas],
        "tpr": [{"fpr": at, **plain(answer, one)} for at, one in found.rates],
        "advantage": plain(answer, found.advantage),
        "mu": plain(answer, found.mu),
    }


def _theorems(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "sides": [str(side) for side in one.sides],
            "rigor": str(one.rigor),
            "decided": [str(side) for side in found.decided[one]],
            "holds_when": one.holds_when or None,
            "attained_when": one.attained_when or None,
            "source": one.source,
            "proof": cited(one.proof) if one.proof else None,
            "keys": keys([one]),
        }
        for one in found.guarantee.bounds
    ]


def theorems(guarantee: Guarantee) -> dict[str, Any]:
    """What was run and what the answers rest on, as plain data.

    Args:
        guarantee: The answer, from `account`.

    Returns:
        The mechanism, the neighbors, and of every bound its name, condition and source.

    >>> from sharpdp.accounting import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> theorems(account(Gaussian(noise_multiplier=1.0)))["sources"]
    ['dong2022 Theorem 2.7; balle2018 Theorem 8']
    """
    from sharpdp import __version__

    return {
        "mechanism": guarantee.mechanism.describe(),
        "adjacency": str(guarantee.adjacency),
        "bounds": [one.name for one in guarantee.bounds],
        "holds_when": [one.holds_when or None for one in guarantee.bounds],
        "attained_when": [one.attained_when or None for one in guarantee.bounds],
        "sources": [one.grounds for one in guarantee.bounds],
        "version": __version__,
    }


def plain(guarantee: Guarantee, bracket: Bracket) -> dict[str, Any]:
    """One bracket of an answer as plain data for JSON.

    Args:
        guarantee: The answer that the bracket is from.
        bracket: One of its brackets.

    Returns:
        Its quantity, lower end (None if no lower side is known), upper end and rigor. Infinite ends are
        "inf"; those of arrays become flat lists.
    """
    return {
        "quantity": bracket.quantity,
        "lower": _json(bracket.lower) if guarantee.lower_derivations else None,
        "upper": _json(bracket.upper),
        "rigor": str(bracket.rigor),
    }


def _json(end: Any) -> Any:
    """A number, or a list of numbers, as JSON can hold it: infinities by their names."""
    if isinstance(end, np.ndarray):
        return [_json(float(one)) for one in end.ravel()]
    return number_to_data(float(end))


Schema = dict[str, Any]

SCHEMAS = ("plan", "report")
"""What has a published schema."""

NUMBER: Schema = {"anyOf": [{"type": "number"}, {"enum": ["inf", "-inf"]}]}
LARGEST_NUMBER = 10**308
"""Whole numbers beyond are no doubles."""

WORDS: Schema = {"type": "string", "minLength": 1}
WORDS_OR_NULL: Schema = {"type": ["string", "null"], "minLength": 1}
LIST: Schema = {"type": "array", "items": WORDS}
SENTENCES: Schema = {**LIST, "minItems": 1}
RATE: Schema = {"type": "number", "minimum": 0, "maximum": 1}
SIDES: Schema = {"type": "array", "items": {"enum": ["lower", "upper"]}, "uniqueItems": True}


TYPES: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: (
        isinstance(value, float | int)
        and not isinstance(value, bool)
        and abs(value) < LARGEST_NUMBER
        and math.isfinite(value)
    ),
    "null": lambda value: value is None,
}
"""What each type of the schema of reports means."""

RANGES: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", lambda value, limit: value >= limit),
    "maximum": ("at most", lambda value, limit: value <= limit),
    "exclusiveMinimum": ("more than", lambda value, limit: value > limit),
}
"""Limits of numbers."""


def schema(name: str) -> str:
    """The published schema of "report" or "plan", as JSON.

    Args:
        name: "plan" or "report".

    Returns:
        The schema that ships with sharpdp.

    Raises:
        InvalidArgument: There is no schema of this name.

    >>> '"title": "A plan of sharpdp"' in schema("plan")
    True
    """
    if name not in SCHEMAS:
        allowed = " or ".join(map(repr, SCHEMAS))
        ask = hint(str(name), SCHEMAS)
        raise InvalidArgument(f"name must be {allowed}; got {short_repr(name)}.{ask}")
    return files("sharpdp").joinpath(f"schemas/{name}.schema.json").read_text("utf-8")


def report_schema() -> Schema:
    """The JSON Schema (2020-12) of reports; that of plans is part of it.

    Returns:
        The schema as a dictionary.
    """
    return {
        "$schema": DIALECT,
        "$id": "urn:sharpdp:report",
        "title": "A report of sharpdp",
        "description": "What was run, how private it is, and on what that rests.",
        **report_fields(),
        "$defs": {"plan": plan_schema()},
    }


def report_fields() -> Schema:
    """The fields of a report; plans are referred to."""
    names = {**_run_fields(), **_answer_fields(), **_evidence_fields()}
    return {**_object(names), "required": [name for name in names if name != "date"]}


def _run_fields() -> Schema:
    """What was run, in words."""
    return {
        "title": {"description": "Always the same.", "const": "Privacy report"},
        "format": {"description": "Counts changes of this format.", "const": FORMAT},
        "mechanism": {"description": "What was run, in one line.", **WORDS},
        "in_words": {"description": "The same in sentences, one per part.", **SENTENCES},
        "adjacency": {"description": "The notion of neighboring data sets.", **WORDS},
        "neighbors": {"description": "That notion as a sentence.", **WORDS},
        "unit": {"description": "What is protected.", **WORDS},
        "sampler": {"description": "How batches, orders or users are drawn.", **LIST},
        "trusted": {"description": "Who is trusted if reports are shuffled.", **LIST},
    }


def _answer_fields() -> Schema:
    """The answers."""
    points = {"fpr": RATE, "lower": RATE, "upper": RATE}
    return {
        "epsilon": {"description": "Epsilon at each delta asked.", **_brackets("delta")},
        "delta": {"description": "Delta at some epsilons.", **_brackets("epsilon")},
        "tpr": {
            "description": "The largest true-positive rate of any attack at some false-positive rates.",
            **_brackets("fpr"),
        },
        "advantage": {
            "description": "The largest true-positive rate minus false-positive rate.",
            **_bracket(),
        },
        "mu": {
            "description": "The smallest mu whose Gaussian trade-off curve lies below this one.",
            **_bracket(),
        },
        "tradeoff": {
            "description": "False-negative rates of the best attack along the trade-off curve.",
            "type": "array",
            "items": _object(points),
            "minItems": 2,
        },
    }


def _evidence_fields() -> Schema:
    """What the answers rest on, and what is needed to check them."""
    theorem = {
        "name": WORDS,
        "sides": {**SIDES, "minItems": 1},
        "rigor": WORDS,
        "decided": {"description": "The ends of epsilon that it decided.", **SIDES},
        "holds_when": {"description": "What the upper side needs.", **WORDS_OR_NULL},
        "attained_when": {"description": "What attains the lower side.", **WORDS_OR_NULL},
        "source": WORDS,
        "proof": {"description": "The page of a proof of our own.", **WORDS_OR_NULL},
        "keys": {"description": "Entries of the bibliography.", **LIST},
    }
    made = dict.fromkeys(("sharpdp", "numpy", "scipy", "python"), WORDS)
    sha = {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"}
    return {
        "theorems": {"type": "array", "items": _object(theorem), "minItems": 1},
        "not_covered": {
            "description": "What the caller owes, and what no report covers.",
            **SENTENCES,
        },
        "bibtex": {"type": "string"},
        "versions": _object(made),
        "relative_width": {"type": "number", "exclusiveMinimum": 0},
        "plan": {
            "description": "The plan, or null if the mechanism holds functions.",
            "anyOf": [{"$ref": "urn:sharpdp:plan"}, {"type": "null"}],
        },
        "hash": {"description": "SHA-256 of the plan as JSON in one line, names sorted.", **sha},
        "verify": {
            "description": "The command that checks hash and brackets.",
            "type": ["string", "null"],
        },
        "date": {"description": "Only if it was asked for.", **WORDS},
    }


def _bracket(**more: Schema) -> Schema:
    """A quantity between two numbers; the lower one is null if nothing is known from below."""
    ends = {"lower": {"anyOf": [*NUMBER["anyOf"], {"type": "null"}]}, "upper": NUMBER}
    return _object({**more, "quantity": WORDS, **ends, "rigor": WORDS})


def _brackets(given: str) -> Schema:
    return {"type": "array", "items": _bracket(**{given: {"type": "number"}}), "minItems": 1}


def _object(names: dict[str, Any]) -> Schema:
    return {
        "type": "object",
        "properties": names,
        "required": list(names),
        "additionalProperties": False,
    }


Fault = tuple[str, str, Any]
"""A place such as /epsilon/0/upper, what is wrong there, and what stands there."""


def faults(expected: Schema, data: Any, place: str = "") -> Iterator[Fault]:
    """What is wrong with some data by a schema, as far as the schema of reports uses JSON Schema.

    Plans, which are referred to, are left to their own reader.

    >>> list(faults(WORDS, 3, "/title"))
    [('/title', 'it must be of type string', 3)]
    """
    if "anyOf" in expected:
        ways = [list(faults(way, data, place)) for way in expected["anyOf"]]
        if all(ways):
            yield place, " or ".join(dict.fromkeys(why for way in ways for _, why, _ in way)), data
        return
    if "const" in expected or "enum" in expected:
        allowed = [expected["const"]] if "const" in expected else expected["enum"]
        if not any(type(data) is type(one) and data == one for one in allowed):
            yield place, f"it must be {' or '.join(map(repr, allowed))}", data
        return
    types = expected.get("type", ())
    types = [types] if isinstance(types, str) else types
    if types and not any(TYPES[one](data) for one in types):
        yield place, f"it must be of type {' or '.join(types)}", data
        return
    if isinstance(data, dict):
        yield from _faults_of_object(expected, data, place)
    elif isinstance(data, list):
        yield from _faults_of_list(expected, data, place)
    elif isinstance(data, str):
        if len(data) < expected.get("minLength", 0):
            yield place, "it must not be empty", data
        if "pattern" in expected and not re.search(expected["pattern"], data):
            yield place, f"it must match {expected['pattern']}", data
    else:
        for name in RANGES.keys() & expected.keys():
            words, holds = RANGES[name]
            if not holds(data, expected[name]):
                yield place, f"it must be {words} {expected[name]:g}", data


def _faults_of_object(expected: Schema, data: dict[str, Any], place: str) -> Iterator[Fault]:
    known = expected.get("properties")
    if known is None:
        return
    for name in expected["required"]:
        if name not in data:
            yield f"{place}/{name}", "it is missing", None
    for name, value in data.items():
        if name in known:
            yield from faults(known[name], value, f"{place}/{name}")
        else:
            yield f"{place}/{name}", "there is no such field", value


def _faults_of_list(expected: Schema, data: list[Any], place: str) -> Iterator[Fault]:
    if len(data) < expected.get("minItems", 0):
        yield place, f"it must have at least {expected['minItems']} entries", data
    for index, value in enumerate(data):
        yield from faults(expected["items"], value, f"{place}/{index}")
    if expected.get("uniqueItems") and len(set(map(repr, data))) < len(data):
        yield place, "its entries must differ", data
