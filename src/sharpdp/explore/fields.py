"""Fields of a question as the page sends them, and answers as the page takes them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sharpdp.bracket import Bracket
from sharpdp.errors import InvalidArgument

__all__ = ["bracket_data", "finite", "number", "text"]


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


def text(fields: Mapping[str, Any], name: str, default: str = "") -> str:
    """A field that holds text."""
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise InvalidArgument(f"{name} must be text; got {value!r}.")
    return value.strip()


def finite(value: float) -> float | None:
    """A number that JSON has; None for an infinite one."""
    return float(value) if math.isfinite(value) else None


def bracket_data(bracket: Bracket, digits: int = 4) -> dict[str, Any]:
    """A bracket of one number: its ends, the same in a few digits rounded outwards, and its rigor."""
    return {
        "lower": finite(float(bracket.lower)),
        "upper": finite(float(bracket.upper)),
        "shown": bracket.shown(digits),
        "most": f"{bracket:.{digits}g}".split(" to ")[1],
        "rigor": str(bracket.rigor),
    }
