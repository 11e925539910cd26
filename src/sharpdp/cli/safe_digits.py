"""Numbers in a few digits, rounded to the safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR

__all__ = ["down", "up"]

DIGITS = 6
"""Digits of a value in a table."""


def up(value: float, digits: int = DIGITS) -> str:
    """The value in a few digits, rounded up.

    >>> up(1.41882154), up(float("inf"))
    ('1.41883', 'inf')
    """
    return _rounded(value, digits, ROUND_CEILING)


def down(value: float, digits: int = DIGITS) -> str:
    """The value in a few digits, rounded down.

    >>> down(1.41882154)
    '1.41882'
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    from sharpdp.bracket import rounded  # brings numpy, which help and refusals do without

    return f"{float(rounded(value, digits, direction)):.{digits}g}"
