"""Divergences of trade-off functions: sums over segments, enclosed by decimals of sixty digits.

For f = T(null, alternative) with segments (w, d), f(0) = 1 - jump, zero on a last piece of length rest,

    D_F(null || alternative) = sum d F(w / d) + F(0) jump + F'(inf) rest,

F convex, F(0) its limit at zero and F'(inf) that of F(s)/s at infinity. The other order is the divergence
of the inverse. They never fall as f falls, so that a lower curve gives an upper value.

Source: wang2023 Lemma B.4, with F(0) = lim F(s) as corrected.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import TypeAlias

from sharpdp._validate import invalid, real, short_repr
from sharpdp.curves.tradeoff.exact import CONTEXT, ROUNDING, ZERO, down, exactly, log, up
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.errors import InvalidArgument, WrongType

__all__ = [
    "DIVERGENCES",
    "chi_squared",
    "kl",
    "length",
    "limit",
    "of_function",
    "power_sum",
    "renyi",
    "squared_hellinger",
]

Interval: TypeAlias = tuple[float, float]
Convex: TypeAlias = Callable[[float], float]

LARGEST_EXACT_ORDER = 64
"""Whole orders up to this are summed in fractions; beyond, powers get too long."""

Term: TypeAlias = tuple[Decimal, Decimal]
"""A value, and the size of the numbers that it was added from."""


def kl(f: Polyline) -> Interval:
    """(lower, upper) of sum w log(w / d): the Kullback-Leibler divergence, infinite if rest > 0.

    >>> low, high = kl(Polyline((0, Fraction(1, 4), 1), (1, Fraction(1, 4), 0)))
    >>> low <= 0.5 * math.log(3) <= high
    True
    """
    if f.rest > 0:
        return math.inf, math.inf

    def terms() -> Iterable[Term]:
        for width, drop in _apart(f):
            w, d = _decimal(width), _decimal(drop)
            gained = w * _decimal(width / drop).ln()
            yield gained - w + d, abs(gained) + w + d

    return _total(terms(), f.jump)


def squared_hellinger(f: Polyline) -> Interval:
    """(lower, upper) of sum (sqrt w - sqrt d)^2 / 2, which is between 0 and 1."""

    def terms() -> Iterable[Term]:
        for width, drop in _apart(f):
            w, d = _decimal(width), _decimal(drop)
            yield (w.sqrt() - d.sqrt()) ** 2 / 2, w + d

    low, high = _total(terms(), (f.jump + f.rest) / 2)
    return low, min(high, 1.0)


def chi_squared(f: Polyline) -> Fraction | float:
    """sum (w - d)^2 / d, exactly; infinite if rest > 0.

    >>> chi_squared(Polyline((0, Fraction(1, 4), 1), (1, Fraction(1, 4), 0)))
    Fraction(4, 3)
    """
    if f.rest > 0:
        return math.inf
    return f.jump + sum(((w - d) ** 2 / d for w, d in f.segments), ZERO)


def length(f: Polyline) -> Interval:
    """(lower, upper) of the length of the graph of f with the jump at 0: sum sqrt(w^2 + d^2) + jump.

    Between sqrt 2 for perfect privacy and 2 if everything is revealed.

    Source: wang2023 Section B.7.
    """

    def terms() -> Iterable[Term]:
        for width, drop in f.segments:
            root = _decimal(width * width + drop * drop).sqrt()
            yield root, root

    low, high = _total(terms(), f.jump)
    return low, min(high, 2.0)


def power_sum(f: Polyline, order: int) -> Fraction | float:
    """sum w^order d^(1 - order) for a whole order from 2 to 64, exactly; infinite if rest > 0.

    >>> power_sum(Polyline((0, Fraction(1, 4), 1), (1, Fraction(1, 4), 0)), 2)
    Fraction(7, 3)
    """
    if order != int(order) or not 2 <= order <= LARGEST_EXACT_ORDER:
        raise invalid("order", f"a whole number from 2 to {LARGEST_EXACT_ORDER}", order)
    if f.rest > 0:
        return math.inf
    return sum((d * (w / d) ** int(order) for w, d in f.segments), ZERO)


def renyi(f: Polyline, order: float) -> Interval:
    """(lower, upper) of the Renyi divergence of the null from the alternative, order > 0, not 1.

    log(sum w^order d^(1 - order)) / (order - 1), infinite for orders above 1 if rest > 0.

    Source: wang2023 Section B.2; vanerven2014.
    """
    both = [(width, drop) for width, drop in f.segments if drop > 0]
    if (order > 1 and f.rest > 0) or not both:
        return math.inf, math.inf
    if order == int(order) and order <= LARGEST_EXACT_ORDER:
        bounds = list(log(Fraction(power_sum(f, int(order)))))
    else:
        bounds = _log_powers(both, exactly(order=order))
    low, high = sorted(end / (exactly(order=order) - 1) for end in bounds)
    return max(down(low), 0.0), max(up(high), 0.0)


def _log_powers(outcomes: Iterable[tuple[Fraction, Fraction]], order: Fraction) -> list[Fraction]:
    """(lower, upper) of the logarithm of sum w^order d^(1 - order), which may be no double at all."""
    with localcontext(CONTEXT):
        power = _decimal(order)
        exponents, sizes = [], []
        for width, drop in outcomes:
            log_w, log_d = _decimal(width).ln(), _decimal(drop).ln()
            exponents.append(power * log_w + (1 - power) * log_d)
            sizes.append((1 + power) * (1 + abs(log_w) + abs(log_d)))
        largest = max(exponents)
        total = sum(((exponent - largest).exp() for exponent in exponents), Decimal(0))
        nearest = Fraction(largest + total.ln())
        slack = Fraction(ROUNDING * (len(sizes) + 1) * max(sizes))
    return [nearest - slack, nearest + slack]


def of_function(f: Polyline, function: Convex, at_zero: float, at_infinity: float) -> float:
    """D_F for a function F of the user, in doubles: no rounding of F is accounted for."""
    ratios = [min(up(width / drop), sys.float_info.max) for width, drop in f.segments if drop > 0]
    values = [_value(function, ratio) for ratio in ratios]
    _check_convex(ratios, values)
    drops = [float(drop) for _, drop in f.segments if drop > 0]
    limits = [
        limit * float(mass) for limit, mass in ((at_zero, f.jump), (at_infinity, f.rest)) if mass
    ]
    try:
        return math.fsum([*(d * value for d, value in zip(drops, values, strict=True)), *limits])
    except OverflowError:
        raise InvalidArgument(
            "kind must have values that can be added in double precision; got sums beyond it."
        ) from None


def limit(**argument: object) -> float:
    """A limit of a convex function: a number, or positive infinity.

    >>> limit(at_zero=math.inf)
    inf
    """
    ((name, value),) = argument.items()
    if isinstance(value, float) and value == math.inf:
        return math.inf
    allowed = "It is a limit of a convex function, maybe math.inf."
    return real(hint=allowed, **{name: value})


def _value(function: Convex, ratio: float) -> float:
    value = function(ratio)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType(
            f"kind must be a function of a float to a float; got {short_repr(value)} at {ratio:.6g}."
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidArgument(
            f"kind must be a function that is finite at positive ratios; got {short_repr(value)} at "
            f"{ratio:.6g}."
        )
    return number


def _check_convex(ratios: list[float], values: list[float]) -> None:
    """Ratios rise along the segments: the slopes between them must, too, but for rounding."""
    slack = 1e-9 * max((abs(value) for value in values), default=0.0)
    points = list(zip(ratios, values, strict=True))
    for (x, a), (y, b), (z, c) in zip(points, points[1:], points[2:], strict=False):
        if z > x and b > a + (c - a) * (y - x) / (z - x) + slack:
            raise InvalidArgument(
                f"kind must be a convex function; got {a:.6g}, {b:.6g}, {c:.6g} "
                f"at {x:.6g}, {y:.6g}, {z:.6g}."
            )


def _apart(f: Polyline) -> list[tuple[Fraction, Fraction]]:
    """The outcomes that both take, with different probabilities."""
    return [(width, drop) for width, drop in f.segments if 0 < drop != width]


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _fractions(terms: Iterable[Term]) -> tuple[Fraction, Fraction]:
    """A sum of decimals between two fractions."""
    with localcontext(CONTEXT):
        values, sizes = [], []
        for value, size in terms:  # computed here, in these digits
            values.append(value)
            sizes.append(size)
        total = sum(values, Decimal(0))
        slack = ROUNDING * (1 + len(sizes)) * sum(sizes, Decimal(0))
        return Fraction(total - slack), Fraction(total + slack)


def _total(terms: Iterable[Term], more: Fraction) -> Interval:
    """The sum and an exact rest, in doubles, at least 0."""
    low, high = _fractions(terms)
    return max(down(low + more), 0.0), up(high + more)


def _chi_squared(f: Polyline) -> Interval:
    value = chi_squared(f)
    return (down(value), up(value)) if isinstance(value, Fraction) else (value, value)


def _total_variation(f: Polyline) -> Interval:
    return down(f.advantage()), up(f.advantage())


DIVERGENCES: dict[str, Callable[[Polyline], Interval]] = {
    "total variation": _total_variation,
    "kl": kl,
    "squared hellinger": squared_hellinger,
    "chi squared": _chi_squared,
}
"""By name; hockey sticks and Renyi divergences have an argument of their own."""
