"""Numbers and outlines without rounding: doubles are fractions too, rounded once, to a stated side.

Outlines are plane geometry: convex outlines of points and of lines, and crossings. Points are (x, y) with
rising x, lines are (height, steepness): y = height - steepness x.
"""

from __future__ import annotations

import itertools
import math
import numbers
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cmp_to_key
from operator import itemgetter
from typing import TypeAlias

from sharpdp._validate import check_unmasked, has_entries, invalid, short_repr, single
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.numerics.hull import lower_hull
from sharpdp.numerics.special import down, exp_down, exp_up, up

__all__ = [
    "CONTEXT",
    "Line",
    "Number",
    "ONE",
    "Point",
    "ROUNDING",
    "ZERO",
    "above_both",
    "all_exact",
    "at",
    "by_slope",
    "down",
    "exactly",
    "hull",
    "lines_outline",
    "listed",
    "log",
    "pairs",
    "ratio_down",
    "ratio_up",
    "turn",
    "up",
]

Number: TypeAlias = "Fraction | int | float"
"""What arguments may be: fractions and integers stay exact, a double is the fraction it stands for."""

Point: TypeAlias = tuple[Fraction, Fraction]
Line: TypeAlias = tuple[Fraction, Fraction]

ZERO, ONE = Fraction(0), Fraction(1)

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
    check_unmasked(**argument)
    value = single(value)
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


def turn(a: Point, b: Point, c: Point) -> Fraction:
    """Positive if the way from a over b to c turns left, so that b lies below the chord."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def hull(points: Iterable[Point]) -> tuple[Point, ...]:
    """The corners of the lower convex outline of some points, from left to right.

    >>> corners = hull([(ZERO, ONE), (Fraction(1, 2), Fraction(3, 4)), (ONE, ZERO)])
    >>> len(corners)
    2
    """
    lowest = [next(points) for _, points in itertools.groupby(sorted(points), itemgetter(0))]
    return tuple(lowest[index] for index in lower_hull(lowest))


def at(xs: Sequence[Fraction], ys: Sequence[Fraction], x: Fraction) -> Fraction:
    """The value at x of the chords through the points, x between the first and the last of them."""
    index = min(bisect_right(xs, x), len(xs) - 1)
    left, right = xs[index - 1], xs[index]
    return ys[index - 1] + (ys[index] - ys[index - 1]) * (x - left) / (right - left)


def above_both(first: Sequence[Point], second: Sequence[Point]) -> list[Point]:
    """The larger of two sets of chords over the same stretch: all knots, and where they cross."""
    (xs, ys), (us, vs) = (tuple(zip(*knots, strict=True)) for knots in (first, second))
    places = sorted({*xs, *us})
    gaps = [(x, at(xs, ys, x), at(us, vs, x)) for x in places]
    points: list[Point] = []
    for (x, here, there), (next_x, next_here, next_there) in itertools.pairwise(gaps):
        points.append((x, max(here, there)))
        before, after = here - there, next_here - next_there
        if before * after < 0:
            share = before / (before - after)
            points.append((x + share * (next_x - x), here + share * (next_here - here)))
    x, here, there = gaps[-1]
    return [*points, (x, max(here, there))]


def lines_outline(lines: Iterable[Line]) -> tuple[Point, ...]:
    """The corners over [0, 1] of the largest of some lines and zero.

    >>> lines_outline([(ONE, Fraction(2))])
    ((Fraction(0, 1), Fraction(1, 1)), (Fraction(1, 2), Fraction(0, 1)), (Fraction(1, 1), Fraction(0, 1)))
    """
    highest: dict[Fraction, Fraction] = {ZERO: ZERO}
    for height, steepness in lines:
        highest[steepness] = max(height, highest.get(steepness, height))
    top: list[Line] = []
    meets: list[Fraction] = []  # where top[i] gives way to top[i + 1]
    for steepness in sorted(highest, reverse=True):
        line = (highest[steepness], steepness)
        while top and (meeting := _meeting(top[-1], line)) <= (meets[-1] if meets else ZERO):
            top.pop()
            if meets:
                meets.pop()
        if top:
            if meeting >= 1:
                continue
            meets.append(meeting)
        top.append(line)
    corners = [(ZERO, top[0][0])]
    corners += [(x, line[0] - line[1] * x) for x, line in zip(meets, top, strict=False)]
    return (*corners, (ONE, top[-1][0] - top[-1][1]))


def _meeting(steeper: Line, flatter: Line) -> Fraction:
    """Where the steeper line falls below the flatter one."""
    return (steeper[0] - flatter[0]) / (steeper[1] - flatter[1])


def by_slope(segments: Iterable[Point]) -> list[Point]:
    """Segments (width, drop) from the steepest to the flattest, those of one slope as one.

    Slopes are compared by cross products: drop_i width_j against drop_j width_i. A rough order by
    doubles comes first, so that few of these are needed.
    """
    rough = sorted(segments, key=_roughly, reverse=True)
    merged: list[Point] = []
    for width, drop in sorted(rough, key=cmp_to_key(_steeper_first)):
        if merged and drop * merged[-1][0] == merged[-1][1] * width:
            merged[-1] = (merged[-1][0] + width, merged[-1][1] + drop)
        else:
            merged.append((width, drop))
    return merged


def _roughly(segment: Point) -> float:
    width, drop = float(segment[0]), float(segment[1])
    return drop / width if width > 0 else 0.0


def _steeper_first(one: Point, other: Point) -> int:
    left, right = one[1] * other[0], other[1] * one[0]
    return (left < right) - (left > right)
