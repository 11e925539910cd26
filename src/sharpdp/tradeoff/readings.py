"""Numbers read off a lower and an upper polyline, rounded outwards once.

A quantity that rises with the curve has its lower end at the lower polyline, one that falls with it,
such as every divergence, at the upper one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TypeAlias

from sharpdp._validate import invalid
from sharpdp.errors import InvalidArgument
from sharpdp.tradeoff.enclosure import line_at
from sharpdp.tradeoff.exact import down, log, ratio_down, ratio_up, up
from sharpdp.tradeoff.geometry import ONE, ZERO, Line, lines_outline
from sharpdp.tradeoff.polyline import Polyline

__all__ = [
    "delta_between",
    "distance_between",
    "epsilon_between",
    "falling",
    "largest_excess",
    "points_polylines",
    "rates_between",
    "rising",
]

Interval: TypeAlias = tuple[float, float]
Reading: TypeAlias = Callable[[Polyline], "Fraction | float"]

LARGEST_EPSILON = 700.0
"""Beyond this, e^epsilon leaves double precision; delta is read off here instead."""


def rising(lower: Polyline, upper: Polyline, reading: Reading) -> Interval:
    """(lower, upper) of a quantity that is larger for a larger curve."""
    return down(Fraction(reading(lower))), up(Fraction(reading(upper)))


def falling(lower: Polyline, upper: Polyline, reading: Reading) -> Interval:
    """(lower, upper) of a quantity that is smaller for a larger curve."""
    return rising(upper, lower, reading)


def rates_between(lower: Polyline, upper: Polyline, fpr: float) -> Interval:
    """(lower, upper) of the false-negative rate; 0 at least, whatever a double makes of it."""
    low, high = rising(lower, upper, lambda f: f.at(fpr))
    return max(low, 0.0), high


def delta_between(lower: Polyline, upper: Polyline, epsilon: float) -> Interval:
    """(lower, upper) of delta, the larger of both orders."""
    low = max(_stick(one, epsilon, ratio_up) for one in (upper, upper.inverse()))
    high = max(_stick(one, epsilon, ratio_down) for one in (lower, lower.inverse()))
    return max(down(low), 0.0), up(high)


def _stick(f: Polyline, epsilon: float, rounded: Callable[[float], Fraction]) -> Fraction:
    """The hockey stick at e^epsilon, rounded; from where doubles end only the jump is a lower bound."""
    if epsilon > LARGEST_EPSILON and rounded is ratio_up:
        return f.jump
    return Fraction(f.hockey_stick(rounded(min(epsilon, LARGEST_EPSILON))))


def epsilon_between(lower: Polyline, upper: Polyline, delta: float) -> Interval:
    """(lower, upper) of the smallest epsilon >= 0 with delta(epsilon) <= delta in both orders."""
    ends = []
    for f in (upper, lower):
        ratios = [_ratio(one, Fraction(delta)) for one in (f, f.inverse())]
        if any(one is None for one in ratios):
            ends.append((math.inf, math.inf))
        else:
            low, high = log(max(one for one in ratios if one is not None))
            ends.append((max(down(low), 0.0), max(up(high), 0.0)))
    return ends[0][0], ends[1][1]


def _ratio(f: Polyline, delta: Fraction) -> Fraction | None:
    """The smallest ratio >= 1 whose hockey stick max over knots of 1 - y - ratio x is at most delta."""
    if f.jump > delta:
        return None
    return max([ONE, *((1 - y - delta) / x for x, y in f.knots if x > 0)])


def distance_between(
    first: tuple[Polyline, Polyline], second: tuple[Polyline, Polyline]
) -> Interval:
    """(lower, upper) of the largest difference of two curves, each between two polylines."""
    low = max(largest_excess(first[0], second[1]), largest_excess(second[0], first[1]), ZERO)
    high = max(largest_excess(first[1], second[0]), largest_excess(second[1], first[0]))
    return down(low), up(high)


def largest_excess(f: Polyline, g: Polyline, smallest: Fraction = ZERO) -> Fraction:
    """The largest f - g where fpr is between the smallest rate and one minus it."""
    places = {x for x in (*f.fpr, *g.fpr) if smallest <= x <= 1 - smallest}
    return max(f.at(x) - g.at(x) for x in {*places, smallest, 1 - smallest})


def points_polylines(
    epsilons: Sequence[Fraction], deltas: Sequence[Fraction]
) -> tuple[Polyline, Polyline]:
    """(lower, upper) of the function that (epsilon, delta)-DP at these points implies, both orders."""
    if len(epsilons) != len(deltas) or not epsilons:
        raise InvalidArgument(
            "epsilons and deltas must have equally many entries, at least 1; "
            f"got {len(epsilons)} and {len(deltas)}."
        )
    below: list[Line] = []
    above: list[Line] = []
    for place, (epsilon, delta) in enumerate(zip(epsilons, deltas, strict=True)):
        if not 0 <= epsilon <= LARGEST_EPSILON:
            allowed = f"between 0 and {LARGEST_EPSILON:g}"
            raise invalid(f"epsilons[{place}]", allowed, up(epsilon))
        if not 0 <= delta <= 1:
            hint = "Did you swap epsilons and deltas?"
            raise invalid(f"deltas[{place}]", "in [0, 1]", up(delta), hint)
        steep = line_at(up(epsilon), delta)
        flat = line_at(-up(epsilon), delta)
        factor = ratio_up(-down(epsilon))
        below += [steep, flat]
        above += [(1 - delta, ratio_down(down(epsilon))), (factor * (1 - delta), factor)]
    return Polyline.from_lines(below), Polyline.from_points(lines_outline(above))
