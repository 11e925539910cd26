"""Standard normal numbers from random bits: doubles with a proven error, and rounding without any.

A word w of 64 random bits stands for the endless binary fraction P = 0.w... whose further bits have not
been drawn, and P for the standard normal number Z = quantile(P). A double holds Z up to `ERROR`. Whether
Z is above or below a given number is decided from that double where it is farther away than the error;
otherwise further bits of P are drawn and compared with the distribution function in decimal arithmetic.
So what is decided has the law of a real normal number, however short the words are.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import ndtri

__all__ = ["ERROR", "FINEST", "rounded", "rounded_exactly", "tails"]

Floats = NDArray[np.float64]
Words = NDArray[np.uint64]

ERROR = 2.0**-46
"""Bound on |double - Z|, relative to max(1, |Z|): 64 times the unit of rounding.

It covers the bits not drawn and the error of scipy's quantile; the tests compare both with ball
arithmetic, and find them below a quarter of it.
"""

FINEST = 2.0**25
"""Numbers are rounded to no finer grid than this many steps to a standard deviation."""

_FEW = np.uint64(1 << 46)
"""A smaller number of units of 2^-64 in the tail has too few digits: one word in 2^17."""

_DIGITS = 70
"""Digits of decimal arithmetic."""

_SURE = Decimal(10) ** -60
"""Absolute error of the distribution function and of P, generously."""


def tails(words: Words, more: Callable[[int], Words]) -> tuple[NDArray[np.bool_], Floats]:
    """Whether P is above 1/2, and its distance from the nearer end, to a relative 2^-46.

    >>> tails(np.array([2**63 + 2**62], dtype=np.uint64), lambda count: np.zeros(0))[1].tolist()
    [0.25]
    """
    upper, units = _units(words)
    shares = _shares(units)
    _extend(shares, units, more)
    return upper, shares


def _extend(shares: Floats, units: Words, more: Callable[[int], Words]) -> None:
    """Further bits for the shares that have too few digits."""
    few = np.flatnonzero(units < _FEW)
    if few.size:
        for index, word in zip(few.tolist(), more(few.size).tolist(), strict=True):
            bits, number = 128, (int(units[index]) << 64) + word
            while number < int(_FEW):
                bits, number = bits + 64, (number << 64) + int(more(1)[0])
            shares[index] = np.ldexp(float(number), -bits)


def rounded(
    words: Words, shifts: Floats, scale: float, more: Callable[[int], Callable[[], int]]
) -> Floats:
    """The whole number nearest to shift + scale Z for each word, decided without error.

    ``scale`` is at most `FINEST` and shifts are between -1 and 1. ``more(place)`` draws further words of
    the number at that place; about one number in 2^16 is decided by decimal arithmetic.

    >>> rounded(np.array([2**63 + 2**62], dtype=np.uint64), np.zeros(1), 100.0, lambda place: int)
    array([67.])
    """
    upper, units = _units(words)
    numbers = ndtri(_shares(units))
    np.negative(numbers, out=numbers, where=upper)
    numbers *= scale
    numbers += shifts
    whole: Floats = np.rint(numbers)
    numbers -= whole
    # so near to the edge of a cell nothing is decided from doubles; |Z| is below 5 where they are asked
    unsure = np.abs(numbers, out=numbers) > 0.5 - FINEST * ERROR * 8.0
    unsure |= units < _FEW
    for index in np.flatnonzero(unsure).tolist():
        whole[index] = rounded_exactly(int(words[index]), float(shifts[index]), scale, more(index))
    return whole


def rounded_exactly(word: int, shift: float, scale: float, more: Callable[[], int]) -> int:
    """The whole number nearest to shift + scale Z for one word, by decimal arithmetic.

    k is nearest if distribution(k - 1/2) <= P <= distribution(k + 1/2), both sides read at
    (k -+ 1/2 - shift) / scale. P lies between word and word + 1, in units of its last bit.

    >>> rounded_exactly(2**63 + 2**62, 0.0, 100.0, lambda: 0)
    67
    """
    bits = 64
    with localcontext() as context:
        context.prec = _DIGITS
        while True:
            k = round(shift + scale * _guess(word, bits))
            unit = Decimal(1) / (1 << bits)
            low, high = word * unit - _SURE, (word + 1) * unit + _SURE
            while high <= (below := _distribution_at(2 * k - 1, shift, scale)):
                k -= 1
            while low >= (above := _distribution_at(2 * k + 1, shift, scale)):
                k += 1
                below = _distribution_at(2 * k - 1, shift, scale)
            # after 192 bits, what is undecided (less than 2^-180 of all cases) is settled by the double
            if (below <= low and high <= above) or bits >= 192:
                return k
            word, bits = (word << 64) + more(), bits + 64


def _units(words: Words) -> tuple[NDArray[np.bool_], Words]:
    """Whether P is above 1/2, and how far it is from the nearer end, in whole units of 2^-64."""
    upper = words >= np.uint64(1 << 63)
    return upper, np.where(upper, ~words, words)


def _shares(units: Words) -> Floats:
    """The middle of each cell of 2^-64."""
    shares: Floats = units.view(np.int64).astype(np.float64)  # which are below 2^63
    shares += 0.5
    shares *= 2.0**-64
    return shares


def _guess(word: int, bits: int) -> float:
    """The normal number of P as a double."""
    other = (1 << bits) - 1 - word
    share = np.ldexp(float(min(word, other)) + 0.5, -bits)
    number = float(ndtri(share))
    return -number if other < word else number


def _distribution_at(twice: int, shift: float, scale: float) -> Decimal:
    """The normal distribution function at (twice / 2 - shift) / scale."""
    return _distribution((Decimal(twice) / 2 - Decimal(shift)) / Decimal(scale))


def _distribution(x: Decimal) -> Decimal:
    """1/2 + density(x) sum_n x^(2n+1) / (1 3 5 ... (2n+1)): all terms have one sign, so nothing cancels.

    Once the ratio of terms is below 1/2, what is left out is less than the last term.
    """
    square = x * x
    total = term = x
    odd = 1
    while True:
        odd += 2
        term = term * square / odd
        total += term
        if 2 * square < odd and abs(term) < _SURE / 1000:
            return Decimal("0.5") + total * (-square / 2).exp() / _root_of_two_pi()


@cache
def _root_of_two_pi() -> Decimal:
    """sqrt(2 pi), pi by Machin's formula."""
    with localcontext() as context:
        context.prec = _DIGITS + 10
        pi = 16 * _arctan_of_inverse(5) - 4 * _arctan_of_inverse(239)
        return (2 * pi).sqrt()


def _arctan_of_inverse(n: int) -> Decimal:
    """arctan(1 / n) = sum_k (-1)^k / ((2k+1) n^(2k+1)), to all digits."""
    terms = (Decimal((-1) ** k) / ((2 * k + 1) * n ** (2 * k + 1)) for k in range(_DIGITS))
    return sum(terms, Decimal(0))
