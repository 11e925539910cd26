"""TOML and JSON texts as data: what is no such text is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sharpdp._validate import shown
from sharpdp.errors import InvalidArgument, MissingExtra, WrongType

__all__ = ["canonical", "parsed", "written"]

LARGEST_FILE = 10**7
"""Bytes of a plan; one that lists every mass of a large randomizer has fewer."""

LONG_NUMBER = "one of its numbers has thousands of digits or is no date"
"""What makes a parser fail that has nothing against the grammar of a file."""


def written(path: object) -> Mapping[str, Any]:
    """What stands in a TOML or JSON file, told apart by the ending of its name."""
    if not isinstance(path, str | Path):
        raise WrongType(f"path must be the name of a plan file; got {shown(path)}.")
    file = Path(path)
    text = _text(file)
    if file.suffix.lower() == ".json":
        return parsed(text, file.name)
    table: dict[str, Any] = _read(text, file.name, "TOML", _toml().loads)
    return table


def _text(file: Path) -> str:
    """What a file of bearable size holds."""
    try:
        if not file.is_file():
            raise InvalidArgument(
                f"path must be a plan file; got {shown(str(file))}, which is none."
            )
        if (size := file.stat().st_size) > LARGEST_FILE:
            raise InvalidArgument(
                f"{file.name} must be a plan; it has {size} bytes, more than a plan can."
            )
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidArgument(f"{file.name} must be text in UTF-8; {fault}.") from fault
    except OSError as fault:
        name = shown(str(file))
        raise InvalidArgument(f"path must be a plan file; got {name}: {fault.strerror}.") from fault


def parsed(text: str, name: str = "text") -> Mapping[str, Any]:
    """The object in a JSON text; names that come twice are refused.

    >>> parsed('{"delta": 1e-5}')
    {'delta': 1e-05}
    """
    if not isinstance(text, str):
        raise WrongType(f"{name} must be text; got {shown(text)}.")
    data = _read(text, name, "JSON", lambda one: json.loads(one, object_pairs_hook=_once))
    if not isinstance(data, dict):
        raise InvalidArgument(f"{name} must hold one object; got {shown(data)}.")
    return data


def canonical(data: object) -> str:
    """The data as JSON, one line: equal data give equal texts.

    >>> canonical({"b": 1, "a": 2.0})
    '{"a":2.0,"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _read(text: str, name: str, language: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text)
    except RecursionError as fault:
        raise InvalidArgument(f"{name} must be {language}; it is nested too deeply.") from fault
    except ValueError as fault:
        why = LONG_NUMBER if type(fault) is ValueError else fault
        raise InvalidArgument(f"{name} must be {language}; {why}.") from fault


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, if no name comes twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument(f"the name {twice!r} comes twice in one object")
    return found


def _toml() -> Any:
    try:
        return import_module("tomllib")
    except ModuleNotFoundError as fault:
        raise MissingExtra(
            "TOML plans need Python 3.11 or newer; write the plan as JSON."
        ) from fault
