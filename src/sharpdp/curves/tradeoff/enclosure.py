"""Polylines that enclose a curve of which delta can be asked at any epsilon.

With H_x the hockey stick at x = e^epsilon, f is the largest of the lines 1 - H_x - x fpr over all x > 0.
Those at which it was asked, taken from its upper bounds, make a lower polyline. H_x is convex in x, so
that between two of them it stays above the extended chords of its neighbors; the corners of these, as
lines, make an upper polyline. The next x asked are the corners at which the two are too far apart.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.curves.tradeoff.exact import (
    ONE,
    ZERO,
    Line,
    down,
    lines_outline,
    log,
    ratio_down,
    ratio_up,
    up,
)
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.numerics.hull import corners, extended_chords
from sharpdp.numerics.special import Array

if TYPE_CHECKING:
    from sharpdp.curves.tradeoff.curve import PointwiseOracle

__all__ = [
    "FARTHEST",
    "HockeyStick",
    "enclosing",
    "line_at",
    "outline_of",
    "polylines_of",
    "sticks_between",
]

FIRST_EPSILON, FARTHEST = 0.25, 600.0
"""Where a curve is asked next to 0 at first, and the largest epsilon that is asked."""


@dataclass(frozen=True)
class HockeyStick:
    """H at one ratio, between two bounds."""

    ratio: Fraction
    low: Fraction
    high: Fraction

    @classmethod
    def at(cls, epsilon: float, low: float, high: float) -> HockeyStick:
        """H at a double next to e^epsilon, epsilon >= 0, from bounds on delta.

        It moves by the relative rounding of x = e^epsilon times x Q[L > epsilon], which is at most 1.
        """
        slack = Fraction(1, 2**48) if epsilon else ZERO
        return cls(
            Fraction(math.exp(epsilon)),
            max(Fraction(low) - slack, ZERO),
            min(Fraction(high) + slack, ONE),
        )

    def mirrored(self) -> HockeyStick:
        """H in the other direction: H_{1/x} = 1 - 1/x + H_x / x."""
        inverse = 1 / self.ratio
        return HockeyStick(
            inverse, 1 - inverse + inverse * self.low, 1 - inverse + inverse * self.high
        )

    def planned(self) -> HockeyStick:
        """The bounds to plan questions from: the upper one alone if the lower one is far off.

        Two theorems, or one without a lower side, are not brought together by more questions: a relative
        distance of a twentieth is no matter of rounding or work.
        """
        is_near = self.high - self.low <= self.high / 20
        return self if is_near else replace(self, low=self.high)


def enclosing(source: PointwiseOracle, width: float) -> tuple[Polyline, Polyline]:
    """Certified (lower, upper) polylines, at most `width` apart at every rate if that can be.

    What the source does not know any closer, they do not either.

    Numerics: questions are planned in doubles, the polylines made in fractions from certified numbers.
    """
    first = (0.0, FIRST_EPSILON) if source.symmetric else (-FIRST_EPSILON, 0.0, FIRST_EPSILON)
    sticks = _asked(source, first)
    for _ in range(60):
        planned = {epsilon: stick.planned() for epsilon, stick in sticks.items()}
        before = len(sticks)
        outline = outline_of(planned, symmetric=source.symmetric, revealed=source.revealed)
        wanted: list[float] = []
        for epsilon in _wanted(source, *outline, width):
            if all(abs(epsilon - other) > 1e-9 for other in (*sticks, *wanted)):
                wanted.append(epsilon)
        sticks |= _asked(source, wanted)
        if len(sticks) == before or before > 4000:
            break
    outline = outline_of(sticks, symmetric=source.symmetric, revealed=source.revealed)
    lower, upper = polylines_of(*outline)
    for attacker in source.attackers:
        upper = upper.minimum(enclosing(attacker, width)[1])
    return lower, upper


def _asked(source: PointwiseOracle, epsilons: Sequence[float]) -> dict[float, HockeyStick]:
    """H at a double next to each e^epsilon, from delta of the order that epsilon's sign says."""
    if not epsilons:
        return {}
    sticks = {}
    for epsilon, ends in zip(epsilons, source.deltas_towards(np.array(epsilons)), strict=True):
        stick = HockeyStick.at(abs(epsilon), *ends)
        sticks[epsilon] = stick if epsilon >= 0.0 else stick.mirrored()
    return sticks


def sticks_between(source: PointwiseOracle, ratios: Array) -> list[tuple[float, float]]:
    """(lower, upper) of H at each ratio > 0, asked from delta at the logarithms around it."""
    exact = [Fraction(ratio) for ratio in ratios.tolist()]
    around = [log(ratio if ratio >= 1 else 1 / ratio) for ratio in exact]
    signs = np.array([1.0 if ratio >= 1 else -1.0 for ratio in exact])
    later = signs * [up(after) for _, after in around]
    earlier = signs * [max(down(before), 0.0) for before, _ in around]
    lows = [low for low, _ in source.deltas_towards(later)]
    highs = [high for _, high in source.deltas_towards(earlier)]
    intervals = []
    for ratio, ends in zip(exact, zip(lows, highs, strict=True), strict=True):
        low, high = map(Fraction, ends)
        if ratio < 1:
            low, high = 1 - ratio + ratio * low, 1 - ratio + ratio * high
        intervals.append((down(low), up(high)))
    return intervals


def outline_of(
    known: dict[float, HockeyStick],
    *,
    symmetric: bool = True,
    revealed: tuple[float, float] = (0.0, 0.0),
) -> tuple[list[HockeyStick], list[Line]]:
    """All sticks by rising ratio, and (ratio, lower bound on H) of the corners between and beyond them.

    The first corner lies before the first stick, the last beyond the last one. `known` are the sticks by
    epsilon, also in the other direction if the curve is symmetric; `revealed` is as of an oracle.
    """
    sticks = list(known.values())
    if symmetric:
        sticks += [stick.mirrored() for epsilon, stick in known.items() if epsilon]
    sticks.sort(key=attrgetter("ratio"))
    ahead, behind = Fraction(revealed[0]), Fraction(revealed[1])
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


def polylines_of(
    sticks: Sequence[HockeyStick], outline: Sequence[Line]
) -> tuple[Polyline, Polyline]:
    """(lower, upper) polylines of the curves whose hockey stick is between the bounds and the outline."""
    lower = Polyline.from_lines((1 - stick.high, stick.ratio) for stick in sticks)
    above = [(1 - value, ratio) for ratio, value in outline]
    above += [(1 - stick.low, stick.ratio) for stick in sticks]
    return lower, Polyline.from_points(lines_outline(above))


def _wanted(
    source: PointwiseOracle, sticks: Sequence[HockeyStick], outline: Sequence[Line], width: float
) -> list[float]:
    """The epsilons to ask at next: corners at which the polylines are too far apart.

    Corners miss H by some times the width of the answers next to them: no question helps there.
    """
    epsilons: list[float] = []
    first = 0.0 if source.symmetric else -FARTHEST
    neighbors = (None, *sticks), (*sticks, None)
    for corner, before, after in zip(outline, *neighbors, strict=True):
        noise = float(max(stick.high - stick.low for stick in (before, after) if stick))
        if _gap(corner, before, after) > max(width, 8 * noise):
            epsilon = _between(corner[0], before, after)
            if first <= epsilon <= FARTHEST:
                epsilons.append(epsilon)
    return epsilons


def _gap(corner: Line, before: HockeyStick | None, after: HockeyStick | None) -> float:
    """How far apart the polylines are where the lines of two neighboring sticks meet.

    The line before the first stick is zero; beyond the last one it is the axis.
    """
    height, ratio = (1 - before.high, before.ratio) if before else (ZERO, ZERO)
    x = ZERO
    if after is not None:
        x = min(max((1 - after.high - height) / (after.ratio - ratio), ZERO), ONE)
    sticks = [stick for stick in (before, after) if stick]
    below = max([ZERO, *(1 - stick.high - stick.ratio * x for stick in sticks)])
    above = [1 - stick.low - stick.ratio * x for stick in sticks]
    return float(min(max(1 - corner[1] - corner[0] * x, *above), 1 - x) - below)


def _between(corner: Fraction, before: HockeyStick | None, after: HockeyStick | None) -> float:
    """log of the corner, well between the two sticks; twice as far out if there is only one."""
    if before is None or after is None:
        edge = math.log(before.ratio if before else after.ratio)  # type: ignore[union-attr]
        return edge * 2.0 if edge else FIRST_EPSILON
    low, high = math.log(before.ratio), math.log(after.ratio)
    margin = 0.05 * (high - low)
    return min(max(math.log(corner), low + margin), high - margin)


def line_at(epsilon: float, delta: Fraction) -> Line:
    """A line below every f with this delta: 1 - delta - e^epsilon x, e^epsilon (1 - delta - x) below 0.

    Numerics: e^epsilon is rounded to the side on which the line stays below.
    """
    if epsilon >= 0.0:
        return 1 - delta, ratio_up(epsilon)
    factor = ratio_down(epsilon)
    return factor * (1 - delta), factor
