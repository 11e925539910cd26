"""Sums of products as two doubles, whose exact sum is the result to about 32 digits.

Sums and products of two doubles have rounding errors that are doubles themselves, and are computed
without error by a few more operations (Dekker, Knuth). Adding these errors up in a second double leaves
an error of the square of 2^-53 in place of 2^-53 itself.

Holds when: no product is above 1e290 in size; what is below 2^-960 may be lost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["add_exactly", "add_multiple", "multiply_exactly"]

Floats = NDArray[np.float64]

_SPLITTER = 2.0**27 + 1.0
"""A double times this, cut off, has its leading 26 bits."""


def add_exactly(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The nearest doubles to the sums, and what is missing.

    >>> float(add_exactly(np.array([1.0]), np.array([2.0**-60]))[1][0]) == 2.0**-60
    True
    """
    total = first + second
    kept = total - first
    return total, (first - (total - kept)) + (second - kept)


def multiply_exactly(factor: float, numbers: Floats) -> tuple[Floats, Floats]:
    """The nearest doubles to the products, and what is missing.

    >>> product, rest = multiply_exactly(1.0 + 2.0**-40, np.array([1.0 + 2.0**-30]))
    >>> float(rest[0]) == 2.0**-70
    True
    """
    product = factor * numbers
    large, small = _halves(np.array(factor))
    upper, lower = _halves(numbers)
    rest = small * lower - (((product - large * upper) - small * upper) - large * lower)
    return product, rest


def add_multiple(total: Floats, rest: Floats, factor: float, numbers: Floats) -> None:
    """Add a multiple of the numbers to the pair of doubles, in place.

    After n such additions to zero, the error is at most 2 n^2 2^-106 times the sum of the sizes of all
    products: each of the 2 n numbers that are added up in ``rest`` is a rounding error of at most 2^-53
    of that sum, and each addition rounds once more.
    """
    product, missing = multiply_exactly(factor, numbers)
    total[...], lost = add_exactly(total, product)
    rest += missing + lost


def _halves(numbers: Floats) -> tuple[Floats, Floats]:
    """Leading 26 bits and the rest, both exact."""
    scaled = _SPLITTER * numbers
    upper = scaled - (scaled - numbers)
    return upper, numbers - upper
