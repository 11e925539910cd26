"""A plan: what is run, for which neighbors, and where epsilon is asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from sharpdp._validate import HintedKeywords, elementwise, half_open_probability, short_repr
from sharpdp.accounting import Guarantee, account, checked_width
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.nearest_word import hint
from sharpdp.plans.files import canonical, parsed, written
from sharpdp.plans.plain_data import mechanism_from_data, to_data

__all__ = ["DELTAS", "Plan"]

DELTAS = (1e-5, 1e-6, 1e-8)
"""Where epsilon is asked for if a plan does not say."""

WIDTH = 1e-3
"""The relative width of brackets if a plan does not say."""


@dataclass(frozen=True)
class Plan(HintedKeywords):
    """What is run, for which neighbors, and the deltas at which epsilon is asked for.

    Args:
        mechanism: What is run.
        delta: Deltas at which epsilon is asked for, each in [0, 1): one number or several.
        adjacency: Which data sets are neighbors, in words such as "add/remove"; None for the default of
            the mechanism.
        relative_width: Largest relative width of the brackets, from 1e-9 to 0.5.

    Raises:
        InvalidArgument: A field is out of range, or there is no such adjacency.
        WrongType: A field has the wrong type.
        Unsupported: The mechanism has no theorem for this adjacency.

    >>> plan = Plan.from_dict({"mechanism": {"kind": "Gaussian", "noise_multiplier": 1.0}})
    >>> plan.guarantee().mechanism == plan.mechanism
    True
    >>> plan.adjacency, plan.delta
    ('neighboring inputs', (1e-05, 1e-06, 1e-08))
    """

    mechanism: Mechanism
    delta: tuple[float, ...] = DELTAS
    adjacency: str = None  # type: ignore[assignment]  # None stands for that of the mechanism
    relative_width: float = WIDTH

    def __post_init__(self) -> None:
        """Check every field."""
        if not isinstance(self.mechanism, Mechanism):
            raise WrongType(
                f"mechanism must be a mechanism; got {short_repr(self.mechanism)}. "
                "Try Gaussian(noise_multiplier=1.0)."
            )
        asked = np.ravel(elementwise(half_open_probability, delta=self.delta)).tolist()
        adjacency: Adjacency | str | None = self.adjacency
        if adjacency is not None and not isinstance(adjacency, str):
            raise WrongType(
                f"adjacency must be a word, such as 'add/remove'; got {short_repr(adjacency)}."
            )
        object.__setattr__(self, "delta", tuple(asked))
        object.__setattr__(self, "adjacency", str(self.mechanism.adjacency(adjacency)))
        object.__setattr__(self, "relative_width", checked_width(self.relative_width))

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
        """The plan in a TOML or JSON file, told apart by the ending of its name.

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
            A mapping of the four fields.

        Raises:
            Unsupported: The mechanism holds a function or a curve that cannot be written.
        """
        return {
            "mechanism": to_data(self.mechanism),
            "delta": list(self.delta),
            "adjacency": self.adjacency,
            "relative_width": self.relative_width,
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
            What `account` says for the plan's width and adjacency.

        Raises:
            Unsupported: No theorem covers the mechanism.
        """
        return account(self.mechanism, relative_width=self.relative_width, adjacency=self.adjacency)
