"""The JSON Schema of plans, made from the signatures of everything that a plan can hold."""

from __future__ import annotations

import collections.abc
import inspect
import types
from fractions import Fraction
from typing import Any, Union, get_args, get_origin

from sharpdp import batches
from sharpdp.accounting import NARROWEST, WIDEST
from sharpdp.batches import BatchScheme
from sharpdp.bracket import Rigor
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.plans.kinds import Maker, arguments, kinds
from sharpdp.plans.plain_data import EXACT, INFINITIES, to_data

__all__ = ["DIALECT", "plan_schema"]

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"

PLAIN: dict[Any, Schema] = {
    int: {"type": "integer"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    float: {"$ref": "#/$defs/number"},
    Fraction: {"$ref": "#/$defs/fraction"},
    type(None): {"type": "null"},
}
"""What is no mechanism and no list."""


def plan_schema() -> Schema:
    """The JSON Schema (2020-12) of plans.

    Returns:
        The schema as a dictionary.

    >>> plan_schema()["required"]
    ['mechanism']
    """
    delta = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
    width = {"type": "number", "minimum": NARROWEST, "maximum": WIDEST}
    names = {
        "mechanism": {"$ref": "#/$defs/mechanism"},
        "delta": {"anyOf": [delta, {"type": "array", "items": delta, "minItems": 1}]},
        "adjacency": {"type": "string", "examples": [str(adjacency) for adjacency in Adjacency]},
        "relative_width": width,
    }
    return {
        "$schema": DIALECT,
        "$id": "urn:sharpdp:plan",
        "title": "A plan of sharpdp",
        "description": "What is run, and the deltas at which epsilon is asked for.",
        "type": "object",
        "properties": names,
        "required": ["mechanism"],
        "additionalProperties": False,
        "$defs": _definitions(),
    }


def _definitions() -> Schema:
    """Numbers, every kind, and which of them are mechanisms and batch schemes."""
    words = {"enum": list(INFINITIES)}
    exact = {"type": "string", "pattern": f"^{EXACT.pattern}$"}
    return {
        "number": {"anyOf": [{"type": "number"}, words]},
        "fraction": {"anyOf": [{"type": "number"}, exact]},
        "mechanism": _one_of(Mechanism),
        "batches": _one_of(BatchScheme),
        **{name: _kind(name, made) for name, made in sorted(kinds().items())},
    }


def _kind(name: str, made: Maker) -> Schema:
    """Schema of a kind with its fields."""
    taken = arguments(made)
    title = (inspect.getdoc(made) or "").partition("\n")[0].replace("``", "")
    needed = [
        field_name
        for field_name, field in taken.items()
        if field.default is inspect.Parameter.empty
    ]
    return {
        "description": title,
        "type": "object",
        "properties": {
            "kind": {"const": name},
            **{field_name: _field(field) for field_name, field in taken.items()},
        },
        "required": ["kind", *needed],
        "additionalProperties": False,
    }


def _field(field: inspect.Parameter) -> Schema:
    """Schema of a field with its default."""
    if field.default is inspect.Parameter.empty:
        return _fitting(field.annotation)
    if field.default is None:
        return _fitting(field.annotation | None)
    return {**_fitting(field.annotation), "default": to_data(field.default)}


def _fitting(annotation: Any) -> Schema:
    """Schema of an annotation; functions are left out, since none can be written."""
    if isinstance(annotation, str):  # the alias of numbers that may be fractions
        return PLAIN[Fraction]
    if annotation in PLAIN:
        return PLAIN[annotation]
    if annotation is Rigor:
        return {"enum": [rigor.value for rigor in Rigor if rigor.proved]}
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        schemas = [_fitting(part) for part in parts if _can_be_written(part)]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    if origin in (tuple, collections.abc.Iterable):
        if Ellipsis in parts or origin is not tuple:
            return {"type": "array", "items": _fitting(parts[0])}
        entries = [_fitting(part) for part in parts]
        return {"type": "array", "prefixItems": entries, "minItems": len(parts), "items": False}
    shared = {Mechanism: "mechanism", BatchScheme: "batches"}
    if annotation in shared:
        return {"$ref": f"#/$defs/{shared[annotation]}"}
    return _one_of(annotation)


def _can_be_written(annotation: Any) -> bool:
    """Whether values of an annotation can be written: plain ones, lists, and kinds."""
    origin = get_origin(annotation)
    if origin is not None:
        return origin is not collections.abc.Mapping
    return annotation in PLAIN or bool(_names(annotation))


def _names(wanted: Any) -> list[str]:
    """The kinds that give one of this class: subclasses, and what is made by its class methods."""
    names = []
    for name, made in sorted(kinds().items()):
        owner, _, method = name.partition(".")
        if method:
            fits = wanted is Mechanism or owner == wanted.__name__
        elif wanted is BatchScheme:  # a protocol, which has no subclasses
            fits = hasattr(batches, name)
        else:
            fits = inspect.isclass(made) and issubclass(made, wanted)
        if fits:
            names.append(name)
    return names


def _one_of(wanted: Any) -> Schema:
    references: list[Schema] = [{"$ref": f"#/$defs/{name}"} for name in _names(wanted)]
    return references[0] if len(references) == 1 else {"oneOf": references}
