"""Elementary operations rounded to a stated side: direction in the name.

Each result is the nearest double moved outwards by enough units to be safe against the rounding of
the operation itself: one unit for + and *, four for exp, which the platform's library has to within one.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

from sharpdp.numerics.special import UNIT_ROUNDOFF


def _moved(x: float, toward: float, units: int) -> float:
    for _ in range(units):
        x = math.nextafter(x, toward)
    return x


def add_up(x: float, y: float) -> float:
    """x + y, not below the exact sum.

    >>> add_up(1.0, 1e-30) > 1.0
    True
    """
    return _moved(x + y, math.inf, 1)


def mul_up(x: float, y: float) -> float:
    """x * y, not below the exact product."""
    return _moved(x * y, math.inf, 1)


def one_minus_up(x: float) -> float:
    """1 - x for x in [0, 1], not below the exact difference.

    >>> one_minus_up(1e-30), one_minus_up(0.75)
    (1.0, 0.25)
    """
    rest = 1.0 - x
    return _moved(rest, math.inf, 1) if 1.0 - rest > x else rest


def one_minus_down(x: float) -> float:
    """1 - x for x in [0, 1], not above the exact difference.

    >>> one_minus_down(1e-30) < 1.0, one_minus_down(0.75)
    (True, 0.25)
    """
    rest = 1.0 - x
    return _moved(rest, -math.inf, 1) if 1.0 - rest < x else rest


def widened(x: float, relative: float) -> tuple[float, float]:
    """(lower, upper) around a probability known to within a relative error; itself if that is 0.

    >>> widened(0.25, 0.0), widened(0.0, 1e-3)
    ((0.25, 0.25), (0.0, 0.0))
    """
    if relative == 0.0 or x == 0.0:
        return x, x
    low = _moved(x * (1.0 - relative), -math.inf, 2)
    return max(low, 0.0), min(_moved(x * (1.0 + relative), math.inf, 2), 1.0)


def at_least_once(chances: Iterable[tuple[tuple[float, float], int]]) -> tuple[float, float]:
    """(lower, upper) of 1 - prod (1 - chance)^count, each chance given as (lower, upper) in [0, 1].

    Numerics: every term of the sum of logarithms has the same sign, so that relative errors do not
    grow: two units for a term, one for each addition, and log1p and expm1 within a few units.

    >>> at_least_once([((0.25, 0.25), 1), ((0.0, 0.0), 10)])
    (0.25, 0.25)
    >>> low, high = at_least_once([((1e-5, 1e-5), 3)])
    >>> low <= 2.9999700001e-05 < high < low * (1.0 + 1e-14)
    True
    """
    some = [(interval, count) for interval, count in chances if interval[1] > 0.0 and count > 0]
    if sum(count for _, count in some) <= 1:
        return some[0][0] if some else (0.0, 0.0)
    if any(interval[0] >= 1.0 for interval, _ in some):
        return 1.0, 1.0
    units = (16 + 2 * len(some)) * UNIT_ROUNDOFF
    low, high = (_any_of([(interval[k], count) for interval, count in some]) for k in (0, 1))
    return widened(low, units)[0], widened(high, units)[1]


def _any_of(chances: list[tuple[float, int]]) -> float:
    """1 - prod (1 - chance)^count, about."""
    if any(chance >= 1.0 for chance, _ in chances):
        return 1.0
    return -math.expm1(sum(count * math.log1p(-chance) for chance, count in chances))


def down(value: Fraction) -> float:
    """The largest double that is not above the value.

    >>> down(Fraction(1, 3)) < Fraction(1, 3) < up(Fraction(1, 3))
    True
    """
    return 0.0 - up(-value)  # no negative zero


def up(value: Fraction) -> float:
    """The smallest double that is not below the value."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -sys.float_info.max
    return math.nextafter(nearest, math.inf) if nearest < value else nearest


def exp_up(x: float) -> float:
    """e^x, not below the exact value; the smallest positive double for x = -745 and below."""
    if x in (0.0, -math.inf):
        return float(x == 0.0)
    return _moved(math.exp(x), math.inf, 4)


def exp_down(x: float) -> float:
    """e^x, not above the exact value, at least 0."""
    if x in (0.0, -math.inf):
        return float(x == 0.0)
    return max(_moved(math.exp(x), -math.inf, 4), 0.0)
