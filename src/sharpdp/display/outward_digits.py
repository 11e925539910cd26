"""The one rule of rounding: numbers for people are rounded away from the truth, to one number of digits.

A lower end is rounded down and an upper end up, to `DIGITS` significant digits, on every surface; shares
and factors in sentences have `FEW`. Whoever needs more reads the doubles.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

__all__ = [
    "DIGITS",
    "FEW",
    "MOST_DIGITS",
    "ROUND_CEILING",
    "ROUND_FLOOR",
    "few_digits",
    "in_digits",
    "percent",
    "rounded",
]

DIGITS = 6
"""Significant digits of every number that is printed, drawn or put on a page."""

FEW = 3
"""Significant digits of percentages and factors in sentences, rounded like the others."""

MOST_DIGITS = 15
"""Decimal numbers with up to this many digits pass through a double unchanged."""


def rounded(number: float | Decimal, digits: int, direction: str) -> Decimal:
    """A finite number rounded to some digits. Its shortest decimal form stands for it: 0.9 stays 0.9.

    >>> rounded(1.8283, 3, ROUND_CEILING)
    Decimal('1.83')
    """
    exact = number if isinstance(number, Decimal) else Decimal(repr(float(number)))
    return Context(prec=digits, rounding=direction).create_decimal(exact)


def in_digits(number: float, direction: str, digits: int = DIGITS) -> str:
    """The number rounded to some digits, in print.

    >>> in_digits(42.42829889, ROUND_CEILING), in_digits(31.22871182, ROUND_FLOOR)
    ('42.4283', '31.2287')
    """
    number = float(number)
    if not math.isfinite(number):
        return str(number)
    decimal = rounded(number, digits, direction)
    # doubles lose digits on their way to denormal numbers; decimals do not
    if 0 < abs(number) < 1e-290:
        return format(decimal.normalize(), "g")
    return f"{float(decimal):.{MOST_DIGITS}g}"


def few_digits(number: float | Decimal, direction: str) -> str:
    """The number in three digits, without an exponent: for sentences.

    >>> few_digits(1.8283, ROUND_CEILING)
    '1.83'
    """
    return f"{rounded(number, FEW, direction).normalize():f}"


def percent(share: float | Decimal, direction: str) -> str:
    """The share as a percentage in three digits.

    >>> percent(0.00406845, ROUND_CEILING)
    '0.407%'
    """
    exact = share if isinstance(share, Decimal) else Decimal(repr(float(share)))
    return f"{few_digits(exact * 100, direction)}%"
