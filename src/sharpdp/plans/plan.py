"""A plan: what is run, for which neighbors, and where epsilon is asked for; and the schema of plans."""

from __future__ import annotations

import collections.abc
import hashlib
import inspect
import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Union, get_args, get_origin

import numpy as np

from sharpdp import batches
from sharpdp._validate import HintedKeywords, elementwise, half_open_probability, short_repr
from sharpdp.batches import BatchScheme
from sharpdp.bracket import STANDARD_WIDTH, Rigor
from sharpdp.display.nearest_word import hint
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.mechanisms.composed import MOST_RECORDS, checked_group_size
from sharpdp.plans.files import canonical, written
from sharpdp.plans.header import DATE, Header
from sharpdp.plans.plain_data import (
    EXACT,
    INFINITIES,
    Maker,
    arguments,
    kinds,
    mechanism_from_data,
    to_data,
)
from sharpdp.questions.account import NARROWEST, WIDEST, Guarantee, account, checked_width
from sharpdp.storage.json_text import parsed

__all__ = ["DELTAS", "Plan", "header_schema", "plan_schema"]

Schema = dict[str, Any]

DELTAS = (1e-5, 1e-6, 1e-8)
"""Where epsilon is asked for if a plan does not say."""

MOST_DELTAS, MOST_PARTS = 1000, 10_000
"""Each delta, and each part that differs from all others, takes time of its own."""

PLAIN: dict[Any, Schema] = {
    int: {"type": "integer"},
    str: {"type": "string"},
    bool: {"type": "boolean"},
    float: {"$ref": "#/$defs/number"},
    Fraction: {"$ref": "#/$defs/fraction"},
    type(None): {"type": "null"},
}
"""What is no mechanism and no list."""


@dataclass(frozen=True)
class Plan(HintedKeywords):
    """A plan: a mechanism, the neighbors, and the deltas at which epsilon is asked for.

    Args:
        mechanism: What is run; at most 10,000 different parts.
        delta: Deltas at which epsilon is asked for, each in [0, 1): one number or up to 1000.
        adjacency: Which data sets are neighbors, in words such as "add/remove"; None for the default of
            the mechanism.
        relative_width: Largest relative width of the brackets, from 1e-9 to 0.5.
        group_size: In how many records neighbors differ at most, from 1 to 1000.
        header: What reports of this plan say about themselves, as a mapping. It is no part of what is
            asked: plans that differ in it are equal and have the same hash, and `to_dict` leaves it out.

    Raises:
        InvalidArgument: A field is out of range, or there is no such adjacency.
        WrongType: A field has the wrong type.
        Unsupported: The mechanism has too many parts, or no theorem for this adjacency.

    >>> plan = Plan.from_dict({"mechanism": {"kind": "Gaussian", "noise_multiplier": 1.0}})
    >>> plan.guarantee().mechanism == plan.mechanism
    True
    >>> plan.adjacency, plan.delta
    ('neighboring inputs', (1e-05, 1e-06, 1e-08))
    """

    mechanism: Mechanism
    delta: tuple[float, ...] = DELTAS
    adjacency: str = None  # type: ignore[assignment]  # None stands for that of the mechanism
    relative_width: float = STANDARD_WIDTH
    group_size: int = 1
    header: Header = field(default=Header(), compare=False)

    def __post_init__(self) -> None:
        """Check every field."""
        if not isinstance(self.mechanism, Mechanism):
            raise WrongType(
                f"mechanism must be a mechanism; got {short_repr(self.mechanism)}. "
                "Try Gaussian(noise_multiplier=1.0)."
            )
        asked = np.ravel(elementwise(half_open_probability, delta=self.delta)).tolist()
        if len(asked) > MOST_DELTAS:
            raise InvalidArgument(
                f"delta must have at most {MOST_DELTAS:,} values in a plan; got {len(asked):,}. "
                "Ask plan.guarantee().epsilon(delta=...) for more."
            )
        if (parts := len(self.mechanism.parts())) > MOST_PARTS:
            raise Unsupported(
                f"mechanism must have at most {MOST_PARTS:,} different parts in a plan; got {parts:,}. "
                "Split it into several plans, or use account(mechanism)."
            )
        adjacency: Adjacency | str | None = self.adjacency
        if adjacency is not None and not isinstance(adjacency, str):
            raise WrongType(
                f"adjacency must be a word, such as 'add/remove'; got {short_repr(adjacency)}."
            )
        object.__setattr__(self, "delta", tuple(asked))
        object.__setattr__(self, "adjacency", str(self.mechanism.adjacency(adjacency)))
        object.__setattr__(self, "relative_width", checked_width(self.relative_width))
        object.__setattr__(self, "group_size", checked_group_size(self.group_size))
        object.__setattr__(self, "header", Header.of(self.header))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The plan written as plain data, as `to_dict` gives it.

        Args:
            data: The fields of a plan by name, the mechanism as `to_data` writes it. A field that is left
                out or None has its default.

        Returns:
            The plan.

        Raises:
            InvalidArgument: There is no mechanism, a field is unknown, or a value is out of range; the
                message names the place in the plan.
            WrongType: data is no mapping, or a value has the wrong type.
            Unsupported: The mechanism has no theorem for this adjacency.
        """
        if not isinstance(data, Mapping):
            raise WrongType(f"a plan must be a mapping with a mechanism; got {short_repr(data)}.")
        names = [field.name for field in fields(cls)]
        for name in data:
            if name not in names:
                ask = hint(str(name), names, f"It has {', '.join(names)}.")
                raise InvalidArgument(f"a plan has no field {name!r}.{ask}")
        if "mechanism" not in data:
            raise InvalidArgument("a plan must have a mechanism; got none. Write [mechanism].")
        values = {name: value for name, value in data.items() if value is not None}
        return cls(**{**values, "mechanism": mechanism_from_data(data["mechanism"])})

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """The plan in a TOML or JSON file, distinguished by the extension.

        Args:
            path: A file whose name ends in .json, or any other file, which is read as TOML.

        Returns:
            The plan.

        Raises:
            InvalidArgument: The file cannot be read, is neither TOML nor JSON, or holds no plan.
            WrongType: path is no path, or a value in the plan has the wrong type.
            MissingExtra: The file is TOML, and neither tomllib (Python 3.11) nor tomli is installed.
            Unsupported: The mechanism has no theorem for this adjacency.
        """
        return cls.from_dict(written(path))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """The plan in a JSON text.

        Args:
            text: A JSON object, as `to_json` gives it.

        Returns:
            The plan.

        Raises:
            InvalidArgument: The text is not JSON, or holds no plan.
            WrongType: text is no text, or a value in the plan has the wrong type.
            Unsupported: The mechanism has no theorem for this adjacency.
        """
        return cls.from_dict(parsed(text))

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; `from_dict` gives it back.

        Returns:
            A mapping of the fields; without the size of groups if they are single records.

        Raises:
            Unsupported: The mechanism holds a function or a curve that cannot be written.
        """
        return {
            "mechanism": to_data(self.mechanism),
            "delta": list(self.delta),
            "adjacency": self.adjacency,
            "relative_width": self.relative_width,
            **({"group_size": self.group_size} if self.group_size > 1 else {}),
        }

    def to_json(self) -> str:
        """The plan as JSON in one line with sorted names; `from_json` gives it back.

        Returns:
            JSON without spaces; equal plans give equal texts.

        Raises:
            Unsupported: The mechanism holds a function or a curve that cannot be written.
        """
        return canonical(self.to_dict())

    @property
    def hash(self) -> str:
        """SHA-256 of `to_json`: plans that ask for the same have the same hash."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def guarantee(self) -> Guarantee:
        """The guarantee of what is run.

        Returns:
            What `account` says for the plan's width, adjacency and size of groups.

        Raises:
            Unsupported: No theorem covers the mechanism.
        """
        return account(
            self.mechanism,
            relative_width=self.relative_width,
            adjacency=self.adjacency,
            group_size=self.group_size,
        )


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
        "delta": {
            "anyOf": [
                delta,
                {"type": "array", "items": delta, "minItems": 1, "maxItems": MOST_DELTAS},
            ]
        },
        "adjacency": {"type": "string", "examples": [str(adjacency) for adjacency in Adjacency]},
        "relative_width": width,
        "group_size": {"type": "integer", "minimum": 1, "maximum": MOST_RECORDS},
        "header": header_schema(),
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:sharpdp:plan",
        "title": "A plan of sharpdp",
        "description": "What is run, and the deltas at which epsilon is asked for.",
        "type": "object",
        "properties": names,
        "required": ["mechanism"],
        "additionalProperties": False,
        "$defs": _definitions(),
    }


def header_schema() -> Schema:
    """The JSON Schema of what a report says about itself: texts of one line."""
    text = {"type": "string", "minLength": 1}
    return {
        "type": "object",
        "properties": {
            entry.name: {"type": "string", "pattern": DATE} if entry.name == "date" else text
            for entry in fields(Header)
        },
        "additionalProperties": False,
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
