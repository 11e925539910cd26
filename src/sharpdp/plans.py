"""Plans: what is run and what is asked of it, as plain data that is read from TOML or JSON files.

A mechanism is written as its kind and its fields, a batch scheme inside it likewise:

    delta = [1e-5, 1e-6]

    [mechanism]
    kind = "DPSGD"
    noise_multiplier = 0.8

    [mechanism.batches]
    kind = "ShuffledBatches"
    dataset_size = 60000
    batch_size = 512
    epochs = 30
"""

from __future__ import annotations

import difflib
import hashlib
import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sharpdp import batches, mechanisms
from sharpdp._validate import each, open_probability, shown
from sharpdp.account import Guarantee, account
from sharpdp.errors import (
    InvalidArgument,
    MissingExtra,
    SharpDPError,
    Unsupported,
    WrongType,
)
from sharpdp.mechanisms import Mechanism
from sharpdp.renyi import RenyiCurve

__all__ = ["Plan", "mechanism_from_data", "to_data", "written"]

DELTAS = (1e-5, 1e-6, 1e-8)
"""Where epsilon is asked for if a plan does not say."""

WIDTH = 1e-3
"""The relative width of brackets if a plan does not say."""

LONG_NUMBER = "one of its numbers has thousands of digits or is no date."
"""What makes a parser fail that has nothing against the grammar of a file."""

LARGEST_FILE = 10**7
"""Bytes of a plan; one that lists every mass of a large randomizer has fewer."""

CLOSE = 0.5
"""Names at least this similar are suggested for one that is not known."""


def kinds() -> dict[str, type]:
    """Everything that a plan can be made of, by name.

    >>> kinds()["Gaussian"].__name__
    'Gaussian'
    """
    found = [getattr(mechanisms, name) for name in mechanisms.__all__]
    found += [getattr(batches, name) for name in batches.__all__]
    concrete = [one for one in (*found, RenyiCurve) if inspect.isclass(one) and is_dataclass(one)]
    return {one.__name__: one for one in concrete}


def to_data(value: object) -> Any:
    """A mechanism, a batch scheme or one of their fields as numbers, words, lists and mappings.

    >>> to_data(mechanisms.Gaussian(noise_multiplier=2.0) * 3)
    {'kind': 'Repeated', 'mechanism': {'kind': 'Gaussian', 'noise_multiplier': 2.0}, 'count': 3}
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): to_data(one) for name, one in value.items()}
    if is_dataclass(value) and type(value).__name__ in kinds():
        names = [one.name for one in fields(value) if not one.name.startswith("_")]
        given = {name: getattr(value, name) for name in names}
        written = {name: to_data(one) for name, one in given.items() if one is not None}
        return {"kind": type(value).__name__, **written}
    if isinstance(value, tuple | list):
        return [to_data(one) for one in value]
    raise Unsupported(
        f"a plan cannot hold {shown(value)}: only mechanisms made of numbers and words can be written."
    )


def mechanism_from_data(data: object, where: str = "mechanism") -> Any:
    """The mechanism or batch scheme that was written; what is wrong is named by its place in the plan.

    >>> mechanism_from_data({"kind": "Gaussian", "noise_multiplier": 2.0})
    Gaussian(noise_multiplier=2.0)
    """
    if isinstance(data, list):
        return [mechanism_from_data(one, f"{where}[{place}]") for place, one in enumerate(data)]
    if not isinstance(data, Mapping):
        return data
    if "kind" not in data:
        raise InvalidArgument(
            f"{where} must have a kind; got {', '.join(map(str, data)) or 'nothing'}."
        )
    known = kinds()
    if not isinstance(data["kind"], str) or data["kind"] not in known:
        hint = _nearest(str(data["kind"]), known) or f"There are {', '.join(sorted(known))}."
        raise InvalidArgument(f"{where}.kind must be known; got {shown(data['kind'])}. {hint}")
    made = known[data["kind"]]
    allowed = inspect.signature(made).parameters
    given = {}
    for name, value in data.items():
        if name == "kind":
            continue
        if name not in allowed:
            hint = _nearest(str(name), allowed) or f"It has {', '.join(allowed)}."
            raise InvalidArgument(f"{where}: {made.__name__} has no field {name!r}. {hint}")
        given[name] = mechanism_from_data(value, f"{where}.{name}")
    try:
        return made(**given)
    except SharpDPError:
        raise
    except TypeError as fault:
        needed = [name for name, one in allowed.items() if one.default is one.empty]
        missing = [name for name in needed if name not in given]
        raise InvalidArgument(
            f"{where}: {made.__name__} needs {', '.join(missing) or fault}."
        ) from fault


def written(path: str | Path) -> Mapping[str, Any]:
    """What stands in a TOML or JSON file, told apart by the ending of its name."""
    file = Path(path)
    try:
        if not file.is_file():
            raise InvalidArgument(
                f"path must be a plan file; got {shown(str(path))}, which is none."
            )
        if file.stat().st_size > LARGEST_FILE:
            raise InvalidArgument(
                f"{file.name} must be a plan; it has {file.stat().st_size} bytes, more than a plan can."
            )
        text = file.read_text("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidArgument(f"{file.name} must be text in UTF-8; {fault}.") from fault
    except OSError as fault:
        name = shown(str(path))
        raise InvalidArgument(f"path must be a plan file; got {name}: {fault.strerror}.") from fault
    try:
        return _json(text, file) if file.suffix == ".json" else _toml(text, file)
    except RecursionError as fault:
        raise InvalidArgument(f"{file.name} must be a plan; it is nested too deeply.") from fault


@dataclass(frozen=True)
class Plan:
    """What is run, for which neighbours, and the deltas at which epsilon is asked for.

    >>> plan = Plan.from_dict({"mechanism": {"kind": "Gaussian", "noise_multiplier": 1.0}})
    >>> plan.guarantee().mechanism == plan.mechanism
    True
    """

    mechanism: Mechanism
    delta: tuple[float, ...] = DELTAS
    adjacency: str | None = None
    relative_width: float = WIDTH

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Plan:
        """The plan that was written."""
        names = [one.name for one in fields(cls)]
        for name in data:
            if name not in names:
                hint = _nearest(str(name), names) or f"It has {', '.join(names)}."
                raise InvalidArgument(f"a plan has no field {name!r}. {hint}")
        if "mechanism" not in data:
            raise InvalidArgument("a plan must have a mechanism; got none. Write [mechanism].")
        try:
            run = mechanism_from_data(data["mechanism"])
        except RecursionError as fault:
            raise InvalidArgument("mechanism must be nested less deeply.") from fault
        if not isinstance(run, Mechanism):
            raise WrongType(f"mechanism must be a mechanism; got {shown(run)}.")
        asked = data.get("delta", DELTAS)
        deltas = tuple(np.atleast_1d(each(open_probability, delta=asked)).tolist())
        rest = {name: data[name] for name in ("adjacency", "relative_width") if name in data}
        return cls(run, deltas, **rest)

    @classmethod
    def read(cls, path: str | Path) -> Plan:
        """The plan in a TOML or JSON file, told apart by the ending of its name."""
        return cls.from_dict(written(path))

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; `from_dict` gives it back."""
        data = {
            "mechanism": to_data(self.mechanism),
            "delta": list(self.delta),
            "relative_width": self.relative_width,
        }
        return data if self.adjacency is None else {**data, "adjacency": self.adjacency}

    @property
    def hash(self) -> str:
        """SHA-256 of the plan as JSON with sorted names: equal plans have equal hashes."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def guarantee(self) -> Guarantee:
        """The privacy of what is run."""
        return account(self.mechanism, relative_width=self.relative_width, adjacency=self.adjacency)


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=CLOSE)
    return f"Did you mean {close[0]!r}?" if close else ""


def _json(text: str, file: Path) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as fault:
        raise InvalidArgument(f"{file.name} must be JSON; {fault}.") from fault
    except ValueError as fault:
        raise InvalidArgument(f"{file.name} must be JSON; {LONG_NUMBER}") from fault
    if not isinstance(data, dict):
        raise InvalidArgument(f"{file.name} must hold one object; got {shown(data)}.")
    return data


def _toml(text: str, file: Path) -> Mapping[str, Any]:
    try:
        tomllib = import_module("tomllib")
    except ModuleNotFoundError as fault:
        raise MissingExtra(
            "TOML plans need Python 3.11 or newer; write the plan as JSON."
        ) from fault
    try:
        data: Mapping[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise InvalidArgument(f"{file.name} must be TOML; {fault}.") from fault
    except ValueError as fault:
        raise InvalidArgument(f"{file.name} must be TOML; {LONG_NUMBER}") from fault
    return data
