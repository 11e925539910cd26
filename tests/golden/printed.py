"""Printed numbers: what a decimal with so many digits says about the number behind it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

from flint import arb

from tests.reference.balls import ball


def unit(text: str) -> Fraction:
    """One unit in the last printed place.

    >>> unit("0.39745"), unit("3.03e-6")
    (Fraction(1, 100000), Fraction(1, 100000000))
    """
    exponent = Decimal(text).as_tuple().exponent
    assert isinstance(exponent, int)
    return Fraction(10) ** exponent


def near(value: arb | float | Fraction, text: str, units: float = 1.0) -> bool:
    """Whether a value (all of it, if a ball) lies within so many units of the printed number.

    >>> near(0.397452, "0.39745"), near(0.397462, "0.39745")
    (True, False)
    """
    middle = ball(Fraction(text))
    return bool(abs(ball(value) - middle) <= ball(unit(text) * Fraction(units)))
