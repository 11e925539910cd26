"""Plain data as YAML that every reader takes for the same data. Only the standard library."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

__all__ = ["to_yaml"]


def to_yaml(data: Mapping[str, Any]) -> str:
    """Mappings, lists, texts and numbers in blocks; texts in double quotes, as JSON writes them.

    >>> print(
    ...     to_yaml(
    ...         {"tags": ["privacy"], "privacy": {"epsilon": 2.0, "delta": 1e-05, "lower": None}}
    ...     )
    ... )
    tags:
      - "privacy"
    privacy:
      epsilon: 2.0
      delta: 1.0e-05
      lower: null
    """
    return "\n".join(_block(data, ""))


def _block(data: Any, indent: str) -> list[str]:
    lines: list[str] = []
    pairs = (
        ((f"{name}:", value) for name, value in data.items())
        if isinstance(data, Mapping)
        else (("-", value) for value in data)
    )
    for start, value in pairs:
        if isinstance(value, Mapping | list | tuple) and len(value):
            lines += [f"{indent}{start}", *_block(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{start} {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    """One value. YAML 1.1 takes 1e-05 for a text: a number needs its point."""
    if isinstance(value, float):
        if math.isinf(value):
            return ".inf" if value > 0 else "-.inf"
        mantissa, exponent, power = repr(value).partition("e")
        point = "" if "." in mantissa else ".0"
        return f"{mantissa}{point}{exponent}{power}"
    return json.dumps(value, ensure_ascii=False)
