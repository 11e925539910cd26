"""Numbers in few digits, rounded away from the truth."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from sharpdp.bracket import rounded

__all__ = ["ROUND_CEILING", "ROUND_FLOOR", "digits", "percent"]


def percent(share: float | Decimal, direction: str) -> str:
    """The share as a percentage, rounded in the given direction.

    >>> percent(0.00406845, ROUND_CEILING)
    '0.407%'
    """
    exact = share if isinstance(share, Decimal) else Decimal(repr(share))
    return f"{digits(exact * 100, direction)}%"


def digits(number: float | Decimal, direction: str) -> str:
    """The number in three digits, rounded in the given direction.

    >>> digits(1.8283, ROUND_CEILING)
    '1.83'
    """
    return f"{rounded(number, 3, direction).normalize():f}"
