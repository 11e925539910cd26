"""Tails of the normal distribution to sixty digits, so that differences of them are doubles."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal, localcontext

DIGITS = 60
"""Decimal digits that are carried; at least forty of them are right, which the tests check."""

_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
_FAR = Decimal(4)


def normal_tails(points: Iterable[Decimal]) -> list[Decimal]:
    """P[Z > x] at each point, for points up to 1000.

    By the series phi(x) (x + x^3/3 + x^5/15 + ...) below 4, whose terms are positive, and by Laplace's
    continued fraction beyond.

    >>> f"{normal_tails([Decimal(2)])[0]:.30f}"
    '0.022750131948179207200282637167'
    """
    with localcontext(Context(prec=DIGITS)):
        return [_tail(point) for point in points]


def _tail(x: Decimal) -> Decimal:
    if x < 0:
        return 1 - _tail(-x)
    density = (-x * x / 2).exp() / (2 * _PI).sqrt()
    if x < _FAR:
        square, term, total, odd = x * x, x, x, 1
        while term > total.scaleb(-DIGITS):
            odd += 2
            term = term * square / odd
            total += term
        return Decimal("0.5") - density * total
    # its error falls like e^{-2 x sqrt(2 depth)}
    depth = int((160 / float(x)) ** 2 / 8.0) + 40
    fraction = x
    for level in range(depth, 0, -1):
        fraction = x + level / fraction
    return density / fraction
