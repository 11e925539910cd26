"""Numbers without rounding: doubles are fractions too, and are rounded once, to a stated side."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from sharpdp._validate import has_entries, invalid, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.numerics.directed import down, exp_down, exp_up, up

__all__ = [
    "CONTEXT",
    "ROUNDING",
    "Number",
    "all_exact",
    "down",
    "exactly",
    "listed",
    "log",
    "pairs",
    "ratio_down",
    "ratio_up",
    "up",
]

Number: TypeAlias = "Fraction | int | float"
"""What arguments may be: fractions and integers stay exact, a double is the fraction it stands for."""

CONTEXT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Decimals of sixty digits, of any size, for what is no fraction."""

ROUNDING = Decimal("1e-50")
"""Relative rounding of a few operations in those digits, logarithms included, with a wide margin."""


def exactly(*, hint: str = "", **argument: object) -> Fraction:
    """The argument as the fraction that it is, without rounding.

    >>> exactly(fpr=0.25)
    Fraction(1, 4)
    """
    ((name, value),) = argument.items()
    if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and value.ndim == 0):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, numbers.Rational | float | Decimal):
        raise WrongType(f"{name} must be a number; got {short_repr(value)}. Pass a plain number.")
    if isinstance(value, Decimal) and not _is_moderate(value):
        raise invalid(name, "a finite number of moderate size", value, hint)
    if isinstance(value, float) and not math.isfinite(value):
        raise invalid(name, "a finite number", value, hint)
    return Fraction(value)


def _is_moderate(value: Decimal) -> bool:
    """Whether a decimal can be written out as a fraction of reasonable length."""
    return value.is_finite() and abs(value.adjusted()) <= 5000


def listed(name: str, entries: object) -> tuple[Fraction, ...]:
    """The entries of a list, each as the fraction that it is."""
    if not has_entries(entries):
        raise WrongType(f"{name} must be a list of numbers; got {short_repr(entries)}.")
    return tuple(exactly(**{f"{name}[{index}]": entry}) for index, entry in enumerate(entries))


def pairs(name: str, entries: object, words: str) -> list[tuple[Fraction, Fraction]]:
    """The entries of a list of pairs of numbers, each as the fractions that they are."""
    if not has_entries(entries):
        raise WrongType(f"{name} must be a list of pairs {words}; got {short_repr(entries)}.")
    result = []
    for index, entry in enumerate(entries):
        if not has_entries(entry):
            raise WrongType(f"{name}[{index}] must be {words}; got {short_repr(entry)}.")
        pair = listed(f"{name}[{index}]", entry)
        if len(pair) != 2:
            raise InvalidArgument(f"{name}[{index}] must be {words}; got {short_repr(entry)}.")
        result.append((pair[0], pair[1]))
    return result


def all_exact(entries: Iterable[object]) -> bool:
    """Whether all entries are integers or fractions, so that no rounding is to be forgiven."""
    return all(isinstance(entry, numbers.Rational) for entry in entries)


def log(value: Fraction) -> tuple[Fraction, Fraction]:
    """(lower, upper) of the logarithm of a positive fraction.

    >>> low, high = log(Fraction(3))
    >>> float(low) == float(high) == math.log(3)
    True
    """
    if value == 1:
        return Fraction(0), Fraction(0)
    with localcontext(CONTEXT):
        nearest = Fraction((Decimal(value.numerator) / Decimal(value.denominator)).ln())
    slack = (1 + abs(nearest)) * Fraction(ROUNDING)
    return nearest - slack, nearest + slack


def ratio_up(epsilon: float) -> Fraction:
    """e^epsilon, not below it; 1 at 0."""
    return Fraction(exp_up(epsilon) if epsilon else 1)


def ratio_down(epsilon: float) -> Fraction:
    """e^epsilon, not above it; 1 at 0."""
    return Fraction(exp_down(epsilon) if epsilon else 1)
