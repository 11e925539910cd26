"""Probabilities of coins as whole numbers of 2^64, rounded so that the stated budget holds exactly.

e^local_epsilon is taken in decimal arithmetic of 60 digits, whose exponential is correctly rounded.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

import numpy as np

from sharpdp.randomness.system_stream import WORDS, Floats, Words

__all__ = ["DIGITS", "odds_down", "thresholds", "truth_threshold", "whole_down", "whole_up"]

DIGITS = 60
"""Digits of the decimal arithmetic in which constants are found."""

_SLACK = Decimal(10) ** -50
"""What all roundings of a short formula stay below, relative to its value."""


def odds_down(local_epsilon: float) -> Decimal:
    """e^local_epsilon, not above it, by at most 1e-49 of itself.

    >>> float(odds_down(0.0))
    1.0
    """
    with localcontext() as context:
        context.prec = DIGITS
        return Decimal(local_epsilon).exp() * (1 - _SLACK)


def whole_down(value: Decimal) -> int:
    """The largest whole number of 2^-64 that is not above the value, whatever was rounded in it.

    >>> whole_down(Decimal("0.5")) < 2**63
    True
    """
    with localcontext() as context:
        context.prec = DIGITS
        return int((value * (1 - _SLACK) * WORDS).to_integral_value(ROUND_FLOOR))


def whole_up(value: Decimal) -> int:
    """The smallest whole number of 2^-64 that is not below the value, whatever was rounded in it.

    >>> whole_up(Decimal("0.5")) > 2**63
    True
    """
    with localcontext() as context:
        context.prec = DIGITS
        return int((value * (1 + _SLACK) * WORDS).to_integral_value(ROUND_CEILING))


def truth_threshold(local_epsilon: float, categories: int) -> int:
    """The largest T with T (k - 1) / (2^64 - T) <= e^local_epsilon, or one less.

    T / 2^64 is the probability of the true answer among k = ``categories``. Source: kairouz2016.

    >>> truth_threshold(1.0, 2) / 2**64
    0.7310585786300049
    """
    odds = odds_down(local_epsilon)
    with localcontext() as context:
        context.prec = DIGITS
        return whole_down(odds / (odds + categories - 1))


def thresholds(probabilities: Floats) -> Words:
    """The probabilities as whole numbers of 2^64, rounded down; one stays 2^-64 short.

    >>> thresholds(np.array([0.5, 1.0])).tolist() == [2**63, 2**64 - 1]
    True
    """
    certain = probabilities >= 1.0
    # a double below one times 2^64 fits into a word
    words = np.ldexp(np.where(certain, 0.0, probabilities), 64).astype(np.uint64)
    words[certain] = np.uint64(WORDS - 1)
    return words
