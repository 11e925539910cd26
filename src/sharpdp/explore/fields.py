"""Fields of a question as the page sends them, and answers as the page takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sharpdp._validate import invalid, positive
from sharpdp.bracket import Bracket
from sharpdp.errors import InvalidArgument

__all__ = ["bracket_data", "finite", "number", "target", "text"]

LARGEST_TARGET = 1000.0
"""A larger target epsilon says nothing."""


def number(fields: Mapping[str, Any], name: str, default: float | None = None) -> Any:
    """A field that holds a number, as it was sent; whether it makes sense is for others to say."""
    value = fields.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidArgument(
            f"{name} must be a number; got {'none' if value is None else value!r}."
        )
    return value


def target(fields: Mapping[str, Any]) -> float:
    """The field target_epsilon, within what a search ends soon for."""
    value = positive(target_epsilon=number(fields, "target_epsilon"))
    if value > LARGEST_TARGET:
        raise invalid("target_epsilon", f"at most {LARGEST_TARGET:g}", value)
    return value


def text(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    """A field that holds text."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text; got {value!r}.")
    return value.strip()


def finite(value: float) -> float | None:
    """A number that JSON has; None for an infinite one."""
    return float(value) if math.isfinite(value) else None


def bracket_data(bracket: Bracket) -> dict[str, Any]:
    """A bracket of one number: its ends, the same in digits rounded outwards, and its rigor."""
    least, most = bracket.printed
    return {
        "lower": finite(float(bracket.lower)),
        "upper": finite(float(bracket.upper)),
        "shown": bracket.shown(),
        "least": least,
        "most": most,
        "rigor": bracket.rigor.by(bracket.stated_by),
    }
