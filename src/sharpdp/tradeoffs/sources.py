"""Where a curve can be asked one point at a time, and the polylines that enclose such a curve.

A source answers with certified numbers: how small the false-negative rate is at one false-positive
rate, and one line below the curve. Lines make a lower polyline, since a trade-off function is the largest
of its supporting lines; points make an upper one, since it is convex. Points and lines are added where
the two are farthest apart.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from sharpdp.bracket import Bracket
from sharpdp.curves.compose import Composition
from sharpdp.curves.pair import Pair
from sharpdp.curves.renyi import log_moment
from sharpdp.curves.tradeoff import false_negatives
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.numerics.directed import exp_down, exp_up
from sharpdp.tradeoffs.numbers import ratio_down, ratio_up
from sharpdp.tradeoffs.outlines import Line, lines_outline
from sharpdp.tradeoffs.polyline import Polyline

__all__ = ["Answers", "OneWay", "Source", "Worst", "enclosing", "lines_at"]

Interval: TypeAlias = tuple[float, float]

TOLERANCE = 1e-6
"""Width that is asked of a pair's own answers."""

FIRST_RATES = (1e-3, 0.03, 0.2, 0.5, 0.8, 0.97)
"""Where a curve is asked first."""

MOST_ROUNDS = 40
MOST_POINTS = 4000
"""A curve is refined no further than this, however narrow it should be."""

CLOSE = 1e-13
"""Rates closer together than this, relative to themselves, are not told apart."""

REVEALED = 1e-12
"""Allowance for the rounding of a mass at infinite loss."""


class Answers(Protocol):
    """What a Guarantee can be asked; both directions at once, the worse one counts."""

    @property
    def mechanism(self) -> Mechanism:
        """What was run."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """For which neighbours."""
        ...

    def fnr(self, *, fpr: ArrayLike) -> Bracket:
        """The smallest false-negative rate."""
        ...

    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """The smallest delta."""
        ...

    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """The smallest epsilon."""
        ...

    def renyi(self, *, order: ArrayLike) -> Bracket:
        """The Renyi divergence."""
        ...


class Source(Protocol):
    """A curve that is asked one point at a time."""

    @property
    def symmetric(self) -> bool:
        """Whether the curve is its own inverse."""
        ...

    @property
    def top(self) -> float:
        """An upper bound on the false-negative rate without false positives."""
        ...

    def rates(self, fpr: float) -> Interval:
        """(lower, upper) of the smallest false-negative rate, fpr in (0, 1]."""
        ...

    def delta(self, epsilon: float) -> Interval:
        """(lower, upper) of delta, the larger of both orders, epsilon >= 0."""
        ...

    def epsilon(self, delta: float) -> Interval:
        """(lower, upper) of the smallest epsilon, both orders, delta in (0, 1)."""
        ...

    def delta_towards(self, epsilon: float) -> float:
        """An upper bound on delta: of the alternative for epsilon >= 0, of the null at -epsilon below."""
        ...

    def renyi(self, order: float) -> Interval:
        """(lower, upper) of the Renyi divergence, the larger of both orders."""
        ...


@dataclass(frozen=True, eq=False)
class OneWay:
    """T(Q, P) of a composition of pairs (P, Q): this direction only."""

    composition: Composition

    @classmethod
    def of(cls, pair: Pair) -> OneWay:
        """The curve of one pair."""
        return cls(Composition(((pair, 1),)))

    @property
    def symmetric(self) -> bool:
        return self.composition.symmetric

    @property
    def top(self) -> float:
        return min(1.0 - self.composition.infinite_p + REVEALED, 1.0)

    def rates(self, fpr: float) -> Interval:
        return false_negatives(self.composition, fpr, TOLERANCE)

    def delta(self, epsilon: float) -> Interval:
        both = (self.composition, self.composition.reverse())
        ends = [one.log_delta(epsilon, TOLERANCE) for one in both]
        return exp_down(max(end[0] for end in ends)), min(exp_up(max(end[1] for end in ends)), 1.0)

    def epsilon(self, delta: float) -> Interval:
        both = (self.composition, self.composition.reverse())
        ends = [one.epsilon(math.log(delta), TOLERANCE) for one in both]
        return max(end[0] for end in ends), max(end[1] for end in ends)

    def delta_towards(self, epsilon: float) -> float:
        one = self.composition if epsilon >= 0.0 else self.composition.reverse()
        return min(exp_up(one.log_delta(abs(epsilon), TOLERANCE)[1]), 1.0)

    def renyi(self, order: float) -> Interval:
        ends = []
        for one in (self.composition, self.composition.reverse()):
            known = [(count, log_moment(pair, order, TOLERANCE)) for pair, count in one.merged]
            ends.append([sum(count * end[i] for count, end in known) for i in (0, 1)])
        slack = TOLERANCE * TOLERANCE
        low, high = (max(end[i] for end in ends) / (order - 1.0) for i in (0, 1))
        return max(low * (1.0 - slack), 0.0), high * (1.0 + slack)


@dataclass(frozen=True, eq=False)
class Worst:
    """The curve of an answer: at each rate the best attack on any neighbours, in either direction.

    Its polylines enclose the largest trade-off function below that, which is its own inverse.
    """

    answers: Answers
    symmetric = True
    top = 1.0

    def rates(self, fpr: float) -> Interval:
        found = self.answers.fnr(fpr=fpr)
        return float(found.lower), float(found.upper)

    def delta(self, epsilon: float) -> Interval:
        found = self.answers.delta(epsilon=epsilon)
        return float(found.lower), float(found.upper)

    def epsilon(self, delta: float) -> Interval:
        found = self.answers.epsilon(delta=delta)
        return float(found.lower), float(found.upper)

    def delta_towards(self, epsilon: float) -> float:
        return self.delta(abs(epsilon))[1]

    def renyi(self, order: float) -> Interval:
        found = self.answers.renyi(order=order)
        return float(found.lower), float(found.upper)


def lines_at(epsilon: float, delta: Fraction) -> Line:
    """A line below every f with this delta: 1 - delta - e^epsilon x, e^epsilon (1 - delta - x) below 0.

    Numerics: e^epsilon is rounded to the side on which the line stays below.
    """
    if epsilon >= 0.0:
        return 1 - delta, ratio_up(epsilon)
    factor = ratio_down(epsilon)
    return factor * (1 - delta), factor


@dataclass
class _Enclosure:
    """Points above the curve and lines below it, so far."""

    source: Source
    points: dict[float, float]
    lines: dict[float, Line]

    def ask_rate(self, fpr: float) -> None:
        if fpr not in self.points:
            self.points[fpr] = self.source.rates(fpr)[1]
            if self.source.symmetric and self.points[fpr] > 0.0:
                self.points.setdefault(self.points[fpr], fpr)

    def ask_line(self, epsilon: float) -> None:
        if epsilon not in self.lines:
            delta = Fraction(self.source.delta_towards(epsilon))
            self.lines[epsilon] = lines_at(epsilon, delta)
            if self.source.symmetric:
                self.lines[-epsilon] = lines_at(-epsilon, delta)

    def wide_pieces(self, width: float) -> list[tuple[float, float]]:
        """(rate, epsilon) to ask for next, one for each chord that is too far above the lines."""
        low = np.array(lines_outline(self.lines.values()), dtype=float)
        upper = Polyline.from_points(self.points.items())
        high = np.array(upper.knots, dtype=float)
        gaps = np.interp(low[:, 0], high[:, 0], high[:, 1]) - low[:, 1]
        found = []
        for (x, y), (u, v) in itertools.pairwise(high.tolist()):
            inside = (low[:, 0] >= x) & (low[:, 0] <= u) & (gaps > width)
            if not inside.any() or u - x < CLOSE * u:
                continue
            at = float(low[inside][np.argmax(gaps[inside]), 0])
            # at an end of the piece the chord is at fault, too far from the curve there
            rate = min(max(at, x + 0.1 * (u - x)), u - 0.1 * (u - x))
            if y > v:
                found.append((rate, math.log((y - v) / (u - x))))
        return found


def enclosing(source: Source, width: float) -> tuple[Polyline, Polyline]:
    """Certified (lower, upper) polylines, at most about `width` apart at every rate if that can be.

    Numerics: the plan is made in doubles, the polylines in fractions from certified numbers.
    """
    known = _Enclosure(source, {0.0: source.top}, {})
    for rate in FIRST_RATES:
        known.ask_rate(rate)
    known.ask_line(0.0)
    for _ in range(MOST_ROUNDS):
        wanted = known.wide_pieces(width)
        if not wanted or len(known.points) > MOST_POINTS:
            break
        for rate, epsilon in wanted:
            known.ask_rate(rate)
            known.ask_line(epsilon)
    lower = Polyline.from_lines(known.lines.values())
    return lower, Polyline.from_points(known.points.items())
