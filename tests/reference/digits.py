"""Fifty digits: doubles and fractions as mpmath has them, without rounding in between."""

from __future__ import annotations

from fractions import Fraction

import mpmath

DIGITS = 50
"""For `mpmath.workdps`."""


def mp(x: float | Fraction) -> mpmath.mpf:
    """The number itself, to the precision that is set."""
    exactly = Fraction(x)
    return mpmath.mpf(exactly.numerator) / exactly.denominator
