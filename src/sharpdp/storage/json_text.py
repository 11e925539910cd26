"""JSON texts as data: what is no such text, or is nested too deeply, is refused in one sentence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["parsed", "read_by"]

DEEPEST = 200
"""So deep may lists and objects be nested: plans nest mechanisms 64 deep, each in a list of its own."""


def parsed(text: str, name: str = "text") -> Mapping[str, Any]:
    """The object in a JSON text; names that come twice are refused.

    Args:
        text: JSON with one object at the top.
        name: What the text is called in messages.

    Returns:
        The object as a dictionary.

    Raises:
        InvalidArgument: The text is not JSON, is nested too deeply, holds no object, or repeats a name.
        WrongType: text is no text.

    >>> parsed('{"delta": 1e-5}')
    {'delta': 1e-05}
    """
    if not isinstance(text, str):
        raise WrongType(f"{name} must be text; got {short_repr(text)}.")
    data = read_by(
        lambda json_text: json.loads(json_text, object_pairs_hook=_once), text, name, "JSON"
    )
    if not isinstance(data, dict):
        raise InvalidArgument(f"{name} must hold one object; got {short_repr(data)}.")
    return data


def read_by(read: Callable[[str], Any], text: str, name: str, language: str) -> Any:
    """The data that a parser reads from a text; whatever stops it is said in a sentence.

    Args:
        read: The parser.
        text: The text.
        name: What the text is called in messages.
        language: What the text should be, such as "JSON".

    Returns:
        The data.

    Raises:
        InvalidArgument: The parser refuses the text, or it is nested too deeply.
    """
    try:
        data = read(text)
    except RecursionError as fault:
        raise InvalidArgument(f"{name} must be {language}; it is nested too deeply.") from fault
    except ValueError as fault:
        # what makes a parser fail that has nothing against the grammar of a file
        why = (
            "one of its numbers has thousands of digits or is no date"
            if type(fault) is ValueError
            else fault
        )
        raise InvalidArgument(f"{name} must be {language}; {why}.") from fault
    if _is_deep(data):
        raise InvalidArgument(f"{name} must be {language}; it is nested too deeply.")
    return data


def _is_deep(data: Any) -> bool:
    """Whether data are nested deeper than the functions that walk through them can go."""
    level = [data] if isinstance(data, dict | list) else []
    for _ in range(DEEPEST):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, if no name comes twice."""
    table = dict(pairs)
    if len(table) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, times in counts.items() if times > 1)
        raise InvalidArgument(f"the name {short_repr(twice)} comes twice in one object")
    return table
