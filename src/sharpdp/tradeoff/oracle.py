"""What answers a trade-off curve's questions: two polylines, a pair of distributions, or a guarantee.

The null hypothesis is Q, the data without the record, and the alternative is P. An oracle answers with
certified (lower, upper): error rates, delta, epsilon and divergences, one point at a time; `enclosed`
gives polylines around the whole curve. The oracle of a guarantee is made in `accounting`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from sharpdp._validate import invalid, short_repr
from sharpdp.composition.pair_sequence import PairSequence
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.numerics.directed import exp_down, exp_up
from sharpdp.pairs.pair import Pair
from sharpdp.tradeoff.divergences import renyi
from sharpdp.tradeoff.enclosure import enclosing, line_at, stick_between
from sharpdp.tradeoff.exact import down, log, ratio_down, ratio_up, up
from sharpdp.tradeoff.geometry import ONE, ZERO, Line, lines_outline
from sharpdp.tradeoff.polyline import Polyline

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee

__all__ = [
    "LARGEST_EPSILON",
    "Bounds",
    "CurveOracle",
    "Interval",
    "PairOracle",
    "PointwiseOracle",
    "PolylineOracle",
    "distance_between",
    "falling",
    "largest_excess",
    "points_polylines",
    "rising",
]

Interval: TypeAlias = tuple[float, float]
Bounds: TypeAlias = tuple[Polyline, Polyline]
Reading: TypeAlias = Callable[[Polyline], "Fraction | float"]

TOLERANCE = 1e-6
"""Relative width that is asked of a pair's own answers."""

LARGEST_EPSILON = 700.0
"""Beyond this, e^epsilon leaves double precision; delta is read off here instead."""


class CurveOracle(ABC):
    """A trade-off curve that can be asked one point at a time; answers are certified (lower, upper)."""

    guarantee: Guarantee | None
    """What the curve is a reading of, if it comes from an answer."""

    @abstractmethod
    def inverse(self) -> CurveOracle:
        """The curve with null and alternative exchanged."""

    @abstractmethod
    def false_negatives(self, fpr: float) -> Interval:
        """The smallest false-negative rate."""

    @abstractmethod
    def true_positives(self, fpr: float) -> Interval:
        """The largest true-positive rate."""

    @abstractmethod
    def delta(self, epsilon: float) -> Interval:
        """The larger delta of both directions, epsilon >= 0."""

    @abstractmethod
    def epsilon(self, delta: float) -> Interval:
        """The smallest epsilon for both directions, delta in [0, 1)."""

    @abstractmethod
    def renyi(self, order: float) -> Interval:
        """The larger Renyi divergence of both directions."""

    def renyi_of_null(self, order: float) -> float:
        """Upper bound on the Renyi divergence of the null from the alternative; infinite if unknown."""
        return math.inf

    @abstractmethod
    def hockey_stick(self, ratio: float) -> Interval:
        """The sum of (alternative - ratio null)_+, ratio > 0."""

    @abstractmethod
    def enclosed(self, width: float) -> Bounds:
        """(lower, upper) polylines, at most `width` apart as far as the curve is known."""


class PointwiseOracle(CurveOracle):
    """A curve of which delta can be asked at one epsilon at a time, to be enclosed by polylines."""

    attackers: tuple[PointwiseOracle, ...] = ()
    """Curves of experiments that some attacker can make: this one is below each of them."""

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether the curve is its own inverse."""

    @property
    @abstractmethod
    def revealed(self) -> Interval:
        """Lower bounds on delta at infinite epsilon: of the alternative, and of the null."""

    @abstractmethod
    def delta_towards(self, epsilon: float) -> Interval:
        """delta of the alternative for epsilon >= 0, of the null at -epsilon below."""

    def hockey_stick(self, ratio: float) -> Interval:
        return stick_between(self, ratio)

    def enclosed(self, width: float) -> Bounds:
        return enclosing(self, width)


@dataclass(frozen=True)
class PairOracle(PointwiseOracle):
    """T(Q, P) of a sequence of pairs (P, Q): this direction only."""

    pairs: PairSequence
    guarantee = None

    @classmethod
    def of(cls, pair: Pair) -> PairOracle:
        """The curve of one pair."""
        return cls(PairSequence(((pair, 1),)))

    @property
    def symmetric(self) -> bool:
        return self.pairs.symmetric

    @property
    def revealed(self) -> Interval:
        return self.pairs.infinite_p_ends[0], self.pairs.reverse().infinite_p_ends[0]

    def inverse(self) -> PairOracle:
        return PairOracle(self.pairs.reverse())

    def false_negatives(self, fpr: float) -> Interval:
        return self.pairs.false_negatives(fpr, TOLERANCE)

    def true_positives(self, fpr: float) -> Interval:
        return self.pairs.true_positives(fpr, TOLERANCE)

    def delta(self, epsilon: float) -> Interval:
        return _delta(self._worse_direction(lambda pairs: pairs.log_delta(epsilon, TOLERANCE)))

    def epsilon(self, delta: float) -> Interval:
        if delta == 0.0:
            return self._worse_direction(lambda pairs: pairs.pure_epsilon(TOLERANCE))
        log_delta = math.log(delta)
        return self._worse_direction(lambda pairs: pairs.epsilon(log_delta, TOLERANCE, delta))

    def delta_towards(self, epsilon: float) -> Interval:
        pairs = self.pairs if epsilon >= 0.0 else self.pairs.reverse()
        return _delta(pairs.log_delta(abs(epsilon), TOLERANCE))

    def renyi(self, order: float) -> Interval:
        return self._worse_direction(lambda pairs: pairs.renyi(order, TOLERANCE))

    def renyi_of_null(self, order: float) -> float:
        return self.pairs.reverse().renyi(order, TOLERANCE)[1]

    def _worse_direction(self, ask: Callable[[PairSequence], Interval]) -> Interval:
        forward, backward = ask(self.pairs), ask(self.pairs.reverse())
        return max(forward[0], backward[0]), max(forward[1], backward[1])


def _delta(log_delta: Interval) -> Interval:
    return exp_down(log_delta[0]), min(exp_up(log_delta[1]), 1.0)


@dataclass(frozen=True)
class PolylineOracle(CurveOracle):
    """Any curve between two polylines; answers are read off in fractions and rounded outwards once."""

    lower: Polyline
    upper: Polyline
    guarantee = None

    def __post_init__(self) -> None:
        """Check that the two polylines are in order."""
        lower, upper = self.lower, self.upper
        for name, polyline in (("lower", lower), ("upper", upper)):
            if not isinstance(polyline, Polyline):
                raise WrongType(f"{name} must be a Polyline; got {short_repr(polyline)}.")
        if lower is not upper and not lower <= upper:
            fpr = next(x for x in sorted({*lower.fpr, *upper.fpr}) if lower.at(x) > upper.at(x))
            raise InvalidArgument(
                f"lower must be at most upper at every rate; got {float(lower.at(fpr)):.12g} and "
                f"{float(upper.at(fpr)):.12g} at fpr={float(fpr):.12g}."
            )

    def inverse(self) -> PolylineOracle:
        return PolylineOracle(self.lower.inverse(), self.upper.inverse())

    def false_negatives(self, fpr: float) -> Interval:
        low, high = rising(self.lower, self.upper, lambda f: f.at(fpr))
        return max(low, 0.0), high  # whatever a double makes of it

    def true_positives(self, fpr: float) -> Interval:
        return falling(self.lower, self.upper, lambda f: 1 - f.at(fpr))

    def delta(self, epsilon: float) -> Interval:
        low = max(_hockey_stick(f, epsilon, ratio_up) for f in _directions(self.upper))
        high = max(_hockey_stick(f, epsilon, ratio_down) for f in _directions(self.lower))
        return max(down(low), 0.0), up(high)

    def epsilon(self, delta: float) -> Interval:
        low, high = (_log_ratio(f, Fraction(delta)) for f in (self.upper, self.lower))
        return low[0], high[1]

    def renyi(self, order: float) -> Interval:
        low = max(renyi(f, order)[0] for f in _directions(self.upper))
        return low, max(renyi(f, order)[1] for f in _directions(self.lower))

    def hockey_stick(self, ratio: float) -> Interval:
        return falling(self.lower, self.upper, lambda f: f.hockey_stick(Fraction(ratio)))

    def enclosed(self, width: float) -> Bounds:
        return self.lower, self.upper


def _directions(f: Polyline) -> Bounds:
    return f, f.inverse()


def _hockey_stick(f: Polyline, epsilon: float, rounded: Callable[[float], Fraction]) -> Fraction:
    """The hockey stick at e^epsilon, rounded; from where doubles end only the jump is a lower bound."""
    if epsilon > LARGEST_EPSILON and rounded is ratio_up:
        return f.jump
    return Fraction(f.hockey_stick(rounded(min(epsilon, LARGEST_EPSILON))))


def _log_ratio(f: Polyline, delta: Fraction) -> Interval:
    """(lower, upper) of the smallest epsilon >= 0 whose hockey stick is at most delta, both directions.

    The hockey stick at x = e^epsilon is the largest 1 - y - x alpha over the knots (alpha, y).
    """
    if any(one.jump > delta for one in _directions(f)):
        return math.inf, math.inf
    knots = (knot for one in _directions(f) for knot in one.knots)
    low, high = log(max([ONE, *((1 - y - delta) / alpha for alpha, y in knots if alpha > 0)]))
    return max(down(low), 0.0), max(up(high), 0.0)


def rising(lower: Polyline, upper: Polyline, reading: Reading) -> Interval:
    """(lower, upper) of a quantity that is larger for a larger curve."""
    return down(Fraction(reading(lower))), up(Fraction(reading(upper)))


def falling(lower: Polyline, upper: Polyline, reading: Reading) -> Interval:
    """(lower, upper) of a quantity that is smaller for a larger curve, such as every divergence."""
    return rising(upper, lower, reading)


def distance_between(first: Bounds, second: Bounds) -> Interval:
    """(lower, upper) of the largest difference of two curves, each between two polylines."""
    low = max(largest_excess(first[0], second[1]), largest_excess(second[0], first[1]), ZERO)
    high = max(largest_excess(first[1], second[0]), largest_excess(second[1], first[0]))
    return down(low), up(high)


def largest_excess(f: Polyline, g: Polyline, smallest: Fraction = ZERO) -> Fraction:
    """The largest f - g where fpr is between the smallest rate and one minus it."""
    knots = {fpr for fpr in (*f.fpr, *g.fpr) if smallest <= fpr <= 1 - smallest}
    return max(f.at(fpr) - g.at(fpr) for fpr in {*knots, smallest, 1 - smallest})


def points_polylines(epsilons: Sequence[Fraction], deltas: Sequence[Fraction]) -> Bounds:
    """(lower, upper) of the curve that (epsilon, delta)-DP at these points implies, both directions."""
    if len(epsilons) != len(deltas) or not epsilons:
        raise InvalidArgument(
            "epsilons and deltas must have equally many entries, at least 1; "
            f"got {len(epsilons)} and {len(deltas)}."
        )
    below: list[Line] = []
    above: list[Line] = []
    for index, (epsilon, delta) in enumerate(zip(epsilons, deltas, strict=True)):
        if not 0 <= epsilon <= LARGEST_EPSILON:
            allowed = f"between 0 and {LARGEST_EPSILON:g}"
            raise invalid(f"epsilons[{index}]", allowed, up(epsilon))
        if not 0 <= delta <= 1:
            hint = "Did you swap epsilons and deltas?"
            raise invalid(f"deltas[{index}]", "in [0, 1]", up(delta), hint)
        steep = line_at(up(epsilon), delta)
        flat = line_at(-up(epsilon), delta)
        factor = ratio_up(-down(epsilon))
        below += [steep, flat]
        above += [(1 - delta, ratio_down(down(epsilon))), (factor * (1 - delta), factor)]
    return Polyline.from_lines(below), Polyline.from_points(lines_outline(above))
