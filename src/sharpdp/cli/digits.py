"""Numbers in a few digits, rounded to the safe side."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = ["down", "span", "up"]

DIGITS = 6
"""Digits of a value in a table."""

NARROW = 2e-3
"""Brackets of a smaller relative width are shown as one number, their upper end."""


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


def span(lower: float, upper: float, digits: int) -> str:
    """Both ends, rounded outwards; one number if they are close, the upper end.

    >>> span(4.52285, 4.52291, 5), span(31.2234, 51.8617, 5)
    ('4.523', '31.223 to 51.862')
    """
    if lower == upper or upper - lower <= NARROW * lower:
        return up(upper, digits)
    return f"{down(lower, digits)} to {up(upper, digits)}"


def _rounded(value: float, digits: int, direction: str) -> str:
    if not math.isfinite(value):
        return str(value)
    exact = Context(prec=digits, rounding=direction).create_decimal(Decimal(repr(value)))
    return f"{float(exact):.{digits}g}"
