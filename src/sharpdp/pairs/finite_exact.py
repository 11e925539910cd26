"""Pairs with finitely many outcomes whose probabilities are exact fractions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from sharpdp.numerics.directed import down, up
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.pairs.finite import AtomicPair

__all__ = ["rational_pair"]

NEAR_ONE = Fraction(1, 2)
"""Ratios at most this far from 1 have their logarithm taken of the difference."""

SMALLEST_NORMAL = Fraction(2) ** -1000
"""Fractions between this and its inverse round to ordinary doubles."""


def rational_pair(p: Sequence[Fraction], q: Sequence[Fraction]) -> AtomicPair:
    """The pair of two laws on the same points, points of one ratio merged; each sums to one.

    Numerics: ratios are compared exactly, so equal ones never fall apart. A loss is the logarithm of
    an exact ratio, rounded by less than `rounded`; logarithms of masses are off by less than 1e-12.

    >>> pair = rational_pair([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(1, 2)])
    >>> pair.losses, pair.log_p
    ((0.0,), (0.0,))
    >>> third, rest = Fraction(1, 3), Fraction(2, 3)
    >>> rational_pair([third, rest], [rest, third]).symmetric
    True
    """
    both: dict[Fraction, list[Fraction]] = {}
    revealed, hidden = Fraction(0), Fraction(0)
    for here, there in zip(p, q, strict=True):
        if here == 0 or there == 0:
            revealed, hidden = revealed + here, hidden + there
            continue
        masses = both.setdefault(here / there, [Fraction(0), Fraction(0)])
        masses[0], masses[1] = masses[0] + here, masses[1] + there
    ratios = sorted(both)
    log_p = tuple(_log(both[ratio][0]) for ratio in ratios)
    log_q = tuple(_log(both[ratio][1]) for ratio in ratios)
    # a ratio of one has the loss 0, which is not rounded
    sizes = (
        1.0 + abs(a) + abs(b)
        for ratio, a, b in zip(ratios, log_p, log_q, strict=True)
        if ratio != 1
    )
    return AtomicPair(
        # so that exchanging both laws changes signs and nothing else
        tuple(_log(ratio) if ratio >= 1 else -_log(1 / ratio) for ratio in ratios),
        log_p,
        log_q,
        float(revealed),
        float(hidden),
        # the logarithm of one ratio: at worst a difference of two rounded logarithms
        8.0 * UNIT_ROUNDOFF * max(sizes, default=0.0),
        infinite_ends=((down(revealed), up(revealed)), (down(hidden), up(hidden))),
    )


def _log(x: Fraction) -> float:
    """log x for x > 0, also where x itself is no double."""
    if abs(x - 1) < NEAR_ONE:
        return math.log1p(float(x - 1))
    if SMALLEST_NORMAL < x < 1 / SMALLEST_NORMAL:
        return math.log(float(x))
    return math.log(x.numerator) - math.log(x.denominator)
