"""Polylines that enclose a curve of which delta can be asked at one epsilon at a time.

With H the hockey stick at g = e^epsilon, f is the largest of the lines 1 - H - g x over all g > 0. Those
at which H was asked, taken from its upper bounds, make a lower polyline. H is convex in g, so that
between two of them it stays above the extended chords of its neighbors; the corners of these, as lines,
make an upper polyline. The next g asked are the corners at which the two are too far apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.numerics.hull import corners, extended_chords
from sharpdp.tradeoff.exact import down, log, ratio_down, ratio_up, up
from sharpdp.tradeoff.geometry import ONE, ZERO, Line, lines_outline
from sharpdp.tradeoff.polyline import Polyline

if TYPE_CHECKING:
    from sharpdp.tradeoff.curve import PointwiseOracle

__all__ = ["enclosing", "line_at", "stick_between"]

ROUNDING = Fraction(1, 2**48)
"""H at a rounded e^epsilon: it moves by the relative rounding times g Q[L > epsilon], at most 1."""

FIRST_EPSILON, FARTHEST = 0.25, 600.0
"""Where a curve is asked next to 0 at first, and the largest epsilon that is asked."""

GROWTH = 2.0
"""By which the largest epsilon grows while something is left beyond it."""

MOST_ROUNDS, MOST_QUESTIONS = 60, 4000
"""A curve is refined no further than this, however narrow it should be."""

NOISE = 8
"""Corners miss H by some times the width of the answers next to them: no question helps there."""

FAR = Fraction(1, 20)
"""Relative distance of two bounds on delta that is no matter of rounding or work."""

INSIDE = 0.05
"""New questions keep this part of a piece away from its ends."""

CLOSE = 1e-9
"""Epsilons closer together than this are not told apart."""


@dataclass(frozen=True)
class HockeyStick:
    """H at one ratio, between two bounds."""

    ratio: Fraction
    low: Fraction
    high: Fraction

    def mirrored(self) -> HockeyStick:
        """H in the other direction: H_{1/g} = 1 - 1/g + H_g / g."""
        inverse = 1 / self.ratio
        low, high = (1 - inverse + inverse * one for one in (self.low, self.high))
        return HockeyStick(inverse, low, high)

    def planned(self) -> HockeyStick:
        """The bounds to plan questions from: the upper one alone if the lower one is far off.

        Two theorems, or one without a lower side, are not brought together by more questions.
        """
        return self if self.high - self.low <= FAR * self.high else replace(self, low=self.high)


def enclosing(source: PointwiseOracle, width: float) -> tuple[Polyline, Polyline]:
    """Certified (lower, upper) polylines, at most `width` apart at every rate if that can be.

    What the source does not know any closer, they do not either.

    Numerics: questions are planned in doubles, the polylines made in fractions from certified numbers.
    """
    known = {epsilon: _asked(source, epsilon) for epsilon in _first(source)}
    for _ in range(MOST_ROUNDS):
        planned = {epsilon: one.planned() for epsilon, one in known.items()}
        before = len(known)
        for epsilon in _wanted(source, *_outline(source, planned), width):
            if all(abs(epsilon - other) > CLOSE for other in known):
                known[epsilon] = _asked(source, epsilon)
        if len(known) == before or before > MOST_QUESTIONS:
            break
    lower, upper = _polylines(*_outline(source, known))
    for attacker in source.attackers:
        upper = upper.minimum(enclosing(attacker, width)[1])
    return lower, upper


def _first(source: PointwiseOracle) -> tuple[float, ...]:
    return (0.0, FIRST_EPSILON) if source.symmetric else (-FIRST_EPSILON, 0.0, FIRST_EPSILON)


def _asked(source: PointwiseOracle, epsilon: float) -> HockeyStick:
    """H at a double next to e^epsilon, from delta of the order that epsilon's sign says."""
    low, high = (Fraction(end) for end in source.delta_towards(epsilon))
    ratio = Fraction(math.exp(abs(epsilon)))
    slack = ROUNDING if epsilon else ZERO
    stick = HockeyStick(ratio, max(low - slack, ZERO), min(high + slack, ONE))
    return stick if epsilon >= 0.0 else stick.mirrored()


def stick_between(source: PointwiseOracle, ratio: float) -> tuple[float, float]:
    """(lower, upper) of H at one ratio > 0, asked from delta at the logarithms around it."""
    exact = Fraction(ratio)
    far = exact if exact >= 1 else 1 / exact
    before, after = log(far)
    sign = 1.0 if exact >= 1 else -1.0
    low = Fraction(source.delta_towards(sign * up(after))[0])
    high = Fraction(source.delta_towards(sign * max(down(before), 0.0))[1])
    if exact < 1:
        low, high = 1 - exact + exact * low, 1 - exact + exact * high
    return down(low), up(high)


def _outline(
    source: PointwiseOracle, known: dict[float, HockeyStick]
) -> tuple[list[HockeyStick], list[Line]]:
    """All sticks by rising ratio, and (ratio, lower bound on H) of the corners between and beyond them.

    The first corner lies before the first stick, the last beyond the last one.
    """
    every = list(known.values())
    if source.symmetric:
        every += [one.mirrored() for epsilon, one in known.items() if epsilon]
    sticks = sorted(every, key=lambda one: one.ratio)
    ahead, behind = (Fraction(one) for one in source.revealed)
    nodes = [HockeyStick(ZERO, ONE, ONE), *sticks]
    ratio, low, high = (
        np.array([getattr(node, name) for node in nodes], dtype=object)
        for name in ("ratio", "low", "high")
    )
    # H falls nowhere faster than at 0, and does not rise
    slopes = extended_chords(ratio, low, high, behind - 1, ZERO)
    after, before = (np.minimum(values, 0) for values in slopes)
    inside = zip(*corners(ratio, low, after, before), strict=True)
    last, fall = nodes[-1], -after[-1]
    floor = min(ahead, last.low)
    beyond = (last.ratio + (last.low - floor) / fall, floor) if fall > 0 else (last.ratio, last.low)
    return sticks, [*inside, beyond]


def _polylines(sticks: Sequence[HockeyStick], outline: Sequence[Line]) -> tuple[Polyline, Polyline]:
    lower = Polyline.from_lines((1 - one.high, one.ratio) for one in sticks)
    above = [(1 - value, ratio) for ratio, value in outline]
    above += [(1 - one.low, one.ratio) for one in sticks]
    return lower, Polyline.from_points(lines_outline(above))


def _wanted(
    source: PointwiseOracle, sticks: Sequence[HockeyStick], outline: Sequence[Line], width: float
) -> list[float]:
    """The epsilons to ask at next: corners at whose place the polylines are too far apart."""
    found: list[float] = []
    ends = (None, *sticks), (*sticks, None)
    for corner, before, after in zip(outline, *ends, strict=True):
        noise = float(max(one.high - one.low for one in (before, after) if one))
        if _gap(corner, before, after) > max(width, NOISE * noise):
            found.append(_between(corner[0], before, after))
    least = 0.0 if source.symmetric else -FARTHEST
    return [one for one in found if least <= one <= FARTHEST]


def _gap(corner: Line, before: HockeyStick | None, after: HockeyStick | None) -> float:
    """How far apart the polylines are where the lines of two neighboring sticks meet.

    The line before the first stick is zero; beyond the last one it is the axis.
    """
    height, ratio = (1 - before.high, before.ratio) if before else (ZERO, ZERO)
    x = ZERO
    if after is not None:
        x = min(max((1 - after.high - height) / (after.ratio - ratio), ZERO), ONE)
    below = max([ZERO, *(1 - one.high - one.ratio * x for one in (before, after) if one)])
    above = [1 - one.low - one.ratio * x for one in (before, after) if one]
    return float(min(max(1 - corner[1] - corner[0] * x, *above), 1 - x) - below)


def _between(corner: Fraction, before: HockeyStick | None, after: HockeyStick | None) -> float:
    """log of the corner, well between the two sticks; farther out if there is only one."""
    if before is None or after is None:
        edge = math.log(before.ratio if before else after.ratio)  # type: ignore[union-attr]
        return edge * GROWTH if edge else FIRST_EPSILON
    low, high = math.log(before.ratio), math.log(after.ratio)
    margin = INSIDE * (high - low)
    return min(max(math.log(corner), low + margin), high - margin)


def line_at(epsilon: float, delta: Fraction) -> Line:
    """A line below every f with this delta: 1 - delta - e^epsilon x, e^epsilon (1 - delta - x) below 0.

    Numerics: e^epsilon is rounded to the side on which the line stays below.
    """
    if epsilon >= 0.0:
        return 1 - delta, ratio_up(epsilon)
    factor = ratio_down(epsilon)
    return factor * (1 - delta), factor
