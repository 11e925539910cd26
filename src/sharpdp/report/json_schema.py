"""The published JSON Schemas of reports and of plans, and what is wrong with a report by its schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from sharpdp._validate import short_repr
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument
from sharpdp.plans.header import DATE
from sharpdp.plans.plan import header_schema, plan_schema

__all__ = ["SCHEMAS", "faults", "report_fields", "report_schema", "schema"]

Schema = dict[str, Any]

SCHEMAS = ("plan", "report")
"""What has a published schema."""

WORDS: Schema = {"type": "string", "minLength": 1}
LIST: Schema = {"type": "array", "items": WORDS}
VERSION: Schema = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)*((a|b|rc)[0-9]+)?(\.post[0-9]+)?(\.dev[0-9]+)?"
    r"(\+[0-9A-Za-z.]{0,40})?$",
}


def schema(name: str) -> str:
    """The published schema of "report" or "plan", as JSON.

    Args:
        name: "plan" or "report".

    Returns:
        The schema of this version of sharpdp.

    Raises:
        InvalidArgument: There is no schema of this name.

    >>> '"title": "A plan of sharpdp"' in schema("plan")
    True
    """
    if name not in SCHEMAS:
        allowed = " or ".join(map(repr, SCHEMAS))
        ask = hint(str(name), SCHEMAS)
        raise InvalidArgument(f"name must be {allowed}; got {short_repr(name)}.{ask}")
    made = plan_schema() if name == "plan" else report_schema()
    return json.dumps(made, indent=2) + "\n"


def report_schema() -> Schema:
    """The JSON Schema (2020-12) of reports; that of plans is part of it.

    Returns:
        The schema as a dictionary.
    """
    plan = plan_schema()
    return {
        "$schema": plan["$schema"],
        "$id": "urn:sharpdp:report",
        "title": "A report of sharpdp",
        "description": "What was run, how private it is, and on what that rests.",
        **report_fields(),
        "$defs": {"plan": plan},
    }


def report_fields(form: int = 2) -> Schema:
    """The fields of a report in this format, 1 or 2; plans are referred to."""
    names = {**_run_fields(form), **_answer_fields(), **_evidence_fields()}
    if form == 1:
        names = {
            name: names[name] for name in names if name not in ("checklist", "conditions", "header")
        }
    optional = ("audits", "conditions", "date", "header")
    return {**_object(names), "required": [name for name in names if name not in optional]}


def _run_fields(form: int) -> Schema:
    """Fields that describe the run in words."""
    return {
        "title": {"description": "Always the same.", "const": "Privacy report"},
        "format": {"description": "Counts changes of this format.", "const": form},
        "mechanism": {"description": "What was run, in one line.", **WORDS},
        "in_words": {"description": "The same in sentences, one per part.", **LIST, "minItems": 1},
        "adjacency": {
            "description": "The notion of neighboring data sets, and the size of groups.",
            **WORDS,
        },
        "neighbors": {"description": "That notion as a sentence.", **WORDS},
        "unit": {"description": "What is protected.", **WORDS},
        "sampler": {"description": "How batches, orders or users are drawn.", **LIST},
        "trusted": {"description": "Who is trusted if reports are shuffled.", **LIST},
    }


def _answer_fields() -> Schema:
    """The answers."""
    rate = {"type": "number", "minimum": 0, "maximum": 1}
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
            "items": _object({"fpr": rate, "lower": rate, "upper": rate}),
            "minItems": 2,
        },
    }


def _evidence_fields() -> Schema:
    """Fields for the grounds of the answers, and for checking them."""
    sides = {"type": "array", "items": {"enum": ["lower", "upper"]}, "uniqueItems": True}
    words_or_null = {"type": ["string", "null"], "minLength": 1}
    theorem = {
        "name": WORDS,
        "sides": {**sides, "minItems": 1},
        "rigor": WORDS,
        "decided": {"description": "The ends of epsilon that it decided.", **sides},
        "holds_when": {"description": "What the upper side needs.", **words_or_null},
        "attained_when": {"description": "What attains the lower side.", **words_or_null},
        "source": WORDS,
        "proof": {"description": "The page of a proof of our own.", **words_or_null},
        "keys": {"description": "Entries of the bibliography.", **LIST},
    }
    audit = {"title": WORDS, "consistent": {"type": ["boolean", "null"]}, "sentences": LIST}
    about = header_schema()["properties"]
    made = dict.fromkeys(("sharpdp", "numpy", "scipy", "python"), VERSION)
    sha = {"type": ["string", "null"], "pattern": "^[0-9a-f]{64}$"}
    return {
        "theorems": {"type": "array", "items": _object(theorem), "minItems": 1},
        "checklist": {
            "description": "What must be true for the upper ends to hold, one thing to check in each.",
            **LIST,
            "minItems": 1,
        },
        "conditions": {
            "description": "What the run needs beyond the conditions of theorems, if anything.",
            **LIST,
            "minItems": 1,
        },
        "not_covered": {
            "description": "What the caller owes, and what no report covers.",
            **LIST,
            "minItems": 1,
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
        "header": {
            "description": "What the report says about itself, if anything; nobody checks it.",
            **_object({name: text for name, text in about.items() if name != "date"}),
            "required": [],
            "minProperties": 1,
        },
        "date": {"description": "Only if it was asked for.", "type": "string", "pattern": DATE},
        "audits": {
            "description": "What audits of the run found, if any were reported.",
            "type": "array",
            "items": _object(audit),
            "minItems": 1,
        },
    }


def _bracket(**more: Schema) -> Schema:
    """A quantity between two numbers; the lower one is null if nothing is known from below."""
    number: list[Schema] = [{"type": "number"}, {"enum": ["inf", "-inf"]}]
    sides = {"lower": {"anyOf": [*number, {"type": "null"}]}, "upper": {"anyOf": number}}
    return _object({**more, "quantity": WORDS, **sides, "rigor": WORDS})


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


def faults(expected: Schema, data: Any, path: str = "") -> Iterator[Fault]:
    """Faults of data by a schema, as far as reports and ledgers use JSON Schema.

    Plans, which are referred to, are left to their own reader.

    >>> list(faults(WORDS, 3, "/title"))
    [('/title', 'it must be of type string', 3)]
    """
    if "anyOf" in expected:
        ways = [list(faults(way, data, path)) for way in expected["anyOf"]]
        if all(ways):
            yield path, " or ".join(dict.fromkeys(why for way in ways for _, why, _ in way)), data
        return
    if "const" in expected or "enum" in expected:
        allowed = [expected["const"]] if "const" in expected else expected["enum"]
        if not any(type(data) is type(value) and data == value for value in allowed):
            yield path, f"it must be {' or '.join(map(repr, allowed))}", data
        return
    types = expected.get("type", ())
    types = [types] if isinstance(types, str) else types
    if types and not any(_is_of(name, data) for name in types):
        yield path, f"it must be of type {' or '.join(types)}", data
        return
    if isinstance(data, dict):
        yield from _faults_of_object(expected, data, path)
    elif isinstance(data, list):
        yield from _faults_of_list(expected, data, path)
    elif isinstance(data, str):
        if len(data) < expected.get("minLength", 0):
            yield path, "it must not be empty", data
        if "pattern" in expected and not re.fullmatch(expected["pattern"], data):
            yield path, f"it must match {expected['pattern']}", data
    else:
        if "minimum" in expected and data < expected["minimum"]:
            yield path, f"it must be at least {expected['minimum']:g}", data
        if "maximum" in expected and data > expected["maximum"]:
            yield path, f"it must be at most {expected['maximum']:g}", data
        if "exclusiveMaximum" in expected and data >= expected["exclusiveMaximum"]:
            yield path, f"it must be less than {expected['exclusiveMaximum']:g}", data
        if "exclusiveMinimum" in expected and data <= expected["exclusiveMinimum"]:
            yield path, f"it must be more than {expected['exclusiveMinimum']:g}", data


def _is_of(name: str, value: Any) -> bool:
    """Whether a value is of a type that a schema names."""
    if name == "number":
        is_number = isinstance(value, float | int) and not isinstance(value, bool)
        # whole numbers beyond are no doubles
        return is_number and abs(value) < 10**308 and math.isfinite(value)
    if name == "integer":
        return type(value) is int
    types: dict[str, type] = {
        "object": dict,
        "array": list,
        "string": str,
        "boolean": bool,
        "null": type(None),
    }
    return isinstance(value, types[name])


def _faults_of_object(expected: Schema, data: dict[str, Any], path: str) -> Iterator[Fault]:
    properties = expected.get("properties")
    if properties is None:
        return
    if len(data) < expected.get("minProperties", 0):
        yield path, "it must not be empty", data
    for name in expected["required"]:
        if name not in data:
            yield f"{path}/{name}", "it is missing", None
    for name, value in data.items():
        if name in properties:
            yield from faults(properties[name], value, f"{path}/{name}")
        else:
            yield f"{path}/{name}", "there is no such field", value


def _faults_of_list(expected: Schema, data: list[Any], path: str) -> Iterator[Fault]:
    if len(data) < expected.get("minItems", 0):
        yield path, f"it must have at least {expected['minItems']} entries", data
    if len(data) > expected.get("maxItems", len(data)):
        yield path, f"it must have at most {expected['maxItems']} entries", data
    for index, value in enumerate(data):
        yield from faults(expected["items"], value, f"{path}/{index}")
    if expected.get("uniqueItems") and len(set(map(repr, data))) < len(data):
        yield path, "its entries must differ", data
