"""TOML and JSON texts as data: what is no such text is refused in one sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, MissingExtra, WrongType
from sharpdp.storage.json_text import parsed, read_by

__all__ = ["as_toml", "canonical", "text_of", "written"]


QUOTED = re.compile(
    r'"""(?:\\.|[^\\])*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:\\[^\n]|[^"\\\n])*"?'
    r"|'[^'\n]*'?"
    r"|#[^\n]*",
    re.DOTALL,
)
"""Strings and comments of TOML. One that does not end is taken to its line's end, so that no text is
looked at twice."""


def written(path: object) -> Mapping[str, Any]:
    """Data of a TOML or JSON file, distinguished by the extension.

    Args:
        path: A file whose name ends in .json, or any other file, which is read as TOML.

    Returns:
        The names and values at the top of the file.

    Raises:
        InvalidArgument: The file cannot be read, has more than 10^7 bytes (or, as TOML, 250,000
            characters), or is neither TOML nor JSON.
        WrongType: path is no path.
        MissingExtra: The file is TOML, and neither tomllib (Python 3.11) nor tomli is installed.
    """
    if not isinstance(path, str | Path):
        raise WrongType(f"path must be the name of a plan file; got {short_repr(path)}.")
    file = Path(path)
    text = text_of(file)
    if file.suffix.lower() == ".json":
        return parsed(text, file.name)
    _check_toml(text, file.name)
    table: dict[str, Any] = read_by(_toml().loads, text, file.name, "TOML")
    return table


def text_of(file: Path, kind: str = "plan") -> str:
    """Text of a file that is not too large; errors name its kind.

    Args:
        file: The file, at most 10^7 bytes of UTF-8.
        kind: What it should be, such as "plan" or "report"; only messages use it.

    Returns:
        The text, without a byte-order mark.

    Raises:
        InvalidArgument: There is no such file, it is too large, it is not UTF-8, or it cannot be read.
    """
    wanted = f"path must be a {kind} file; got {short_repr(str(file))}"
    try:
        if not file.is_file():
            why = "which is no file" if file.exists() else "and there is no such file"
            raise InvalidArgument(f"{wanted}, {why}.")
        # bytes of a plan or a report; one that lists every mass of a large randomizer has fewer
        if (size := file.stat().st_size) > 10**7:
            raise InvalidArgument(
                f"{file.name} must be a {kind}; it has {size} bytes, more than a {kind} can."
            )
        return file.read_text("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise InvalidArgument(f"{file.name} must be text in UTF-8; {fault}.") from fault
    except OSError as fault:
        raise InvalidArgument(f"{wanted}: {fault.strerror}.") from fault


def canonical(data: object) -> str:
    """The data as JSON, one line: equal data give equal texts.

    >>> canonical({"b": 1, "a": 2.0})
    '{"a":2.0,"b":1}'
    """
    return json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)


def as_toml(data: Mapping[str, Any]) -> str:
    """The data as TOML, tables after the plain values of theirs.

    Args:
        data: Numbers, words, lists and mappings, such as `Plan.to_dict` gives; None is left out.

    Returns:
        Text that `written` reads back as the same data.

    >>> print(
    ...     as_toml({"mechanism": {"kind": "Gaussian", "noise_multiplier": 1.0}, "delta": [1e-5]})
    ... )
    delta = [1e-05]
    <BLANKLINE>
    [mechanism]
    kind = "Gaussian"
    noise_multiplier = 1.0
    <BLANKLINE>
    """
    return "\n".join(_toml_lines(data, ())).lstrip("\n") + "\n"


def _toml_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    tables = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    lines = ["", f"[{'.'.join(path)}]"] if path else []
    lines += [
        f"{name} = {_toml_value(value)}"
        for name, value in table.items()
        if name not in tables and value is not None
    ]
    for name, value in tables.items():
        lines += _toml_lines(value, (*path, name))
    return lines


def _toml_value(value: object) -> str:
    """One value in one line; mappings in lists are inline tables. JSON's strings are TOML's."""
    if isinstance(value, Mapping):
        words = (f"{name} = {_toml_value(entry)}" for name, entry in value.items())
        return f"{{ {', '.join(words)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, allow_nan=False)


def _check_toml(text: str, name: str) -> None:
    """Refuse what the parser of TOML would take minutes for."""
    if len(text) > 250_000:  # Python reads TOML a hundred times slower than JSON
        raise InvalidArgument(
            f"{name} must have at most 250000 characters; got {len(text)}. "
            "Write a plan of that size as JSON."
        )
    # what is left between other signs is keys and numbers, and numbers have one dot
    keys = re.split(r"[^\w \t.-]+", QUOTED.sub("q", text))
    if (dots := max(key.count(".") for key in keys)) > 16:
        # each dot opens a table, and reading a key takes the square of their number
        raise InvalidArgument(f"{name} must be TOML with at most 16 dots in a key; got {dots}.")


def _toml() -> Any:
    """The parser of TOML: that of Python from 3.11 on, before that the package it was made from."""
    for name in ("tomllib", "tomli"):
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise MissingExtra(
        "TOML plans need Python 3.11 or newer, or the package tomli; pip install tomli, or write the "
        "plan as JSON."
    )
