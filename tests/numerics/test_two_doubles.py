"""Sums of products as two doubles, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sharpdp.numerics.two_doubles import add_exactly, add_multiple, multiply_exactly


def wild(rng: np.random.Generator, size: int) -> np.ndarray:
    """Numbers of all magnitudes and both signs, with all their bits in use."""
    return rng.normal(size=size) * 2.0 ** rng.integers(-200, 200, size=size)


def test_sums_and_products_of_two_doubles_are_exact() -> None:
    rng = np.random.default_rng(0)
    first, second = wild(rng, 2000), wild(rng, 2000)
    total, missing = add_exactly(first, second)
    for a, b, s, e in zip(first, second, total, missing, strict=True):
        assert Fraction(a) + Fraction(b) == Fraction(s) + Fraction(e)
    for factor in (1.0 / 3.0, -7.3e5, 2.0**-80):
        product, rest = multiply_exactly(factor, first)
        for a, p, r in zip(first, product, rest, strict=True):
            assert Fraction(factor) * Fraction(a) == Fraction(p) + Fraction(r)


@pytest.mark.parametrize("terms", [2, 10, 300])
def test_dot_products_are_within_the_stated_error(terms: int) -> None:
    """Also where nearly everything cancels, so that one double would hold no digit."""
    rng = np.random.default_rng(terms)
    factors = rng.normal(size=terms)
    numbers = rng.normal(size=(terms, 20)) * 2.0 ** rng.integers(-20, 20, size=(terms, 20))
    numbers[-1] = -(factors[:-1] @ numbers[:-1]) / factors[-1]
    total, rest = np.zeros(20), np.zeros(20)
    for factor, row in zip(factors, numbers, strict=True):
        add_multiple(total, rest, float(factor), row)
    for place in range(20):
        pairs = [
            (Fraction(f), Fraction(x)) for f, x in zip(factors, numbers[:, place], strict=True)
        ]
        exact = sum(f * x for f, x in pairs)
        size = sum(abs(f * x) for f, x in pairs)
        error = abs(exact - Fraction(total[place]) - Fraction(rest[place]))
        assert error <= 2 * terms**2 * Fraction(1, 2**106) * size
        # one double would not do
        assert abs(exact) < size * Fraction(1, 2**40)
