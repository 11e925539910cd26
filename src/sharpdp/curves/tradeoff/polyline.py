"""Piecewise linear trade-off functions in exact fractions: the ones of pairs with finitely many outcomes.

f(x) is the smallest false-negative rate of a test with false-positive rate x. The null hypothesis is
tested against the alternative; a segment of f is an outcome, its width the probability under the null
and its drop the one under the alternative. Doubles are fractions too: nothing here is ever rounded,
except the last step of an answer to a question that was asked in doubles.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from sharpdp._validate import LARGEST_SUM_ERROR, has_entries, invalid, short_repr
from sharpdp.curves.tradeoff.exact import (
    ONE,
    ZERO,
    Line,
    Number,
    Point,
    above_both,
    all_exact,
    at,
    by_slope,
    exactly,
    hull,
    lines_outline,
    listed,
    pairs,
    turn,
    up,
)
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["Polyline"]


@dataclass(frozen=True, repr=False)
class Polyline:
    """A trade-off function by its knots, from (0, f(0)) to (1, 0): convex, falling, at most 1 - x.

    Knots that are integers or fractions are taken at their word. Doubles may be rounded: what they
    miss by at most 1e-12 is mended downwards. Knots in the middle of a straight piece are left out,
    so that equal functions are equal objects. ``f <= g`` asks for the order at every rate.

    >>> f = Polyline((0, Fraction(1, 4), 1), (1, Fraction(1, 4), 0))
    >>> f(Fraction(1, 8)), f(0.125)
    (Fraction(5, 8), 0.625)
    """

    fpr: tuple[Fraction, ...]
    fnr: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        """Check the knots and leave out those that are none."""
        raw = {name: _kept(name, getattr(self, name)) for name in ("fpr", "fnr")}
        xs, ys = (listed(name, entries) for name, entries in raw.items())
        strict = all_exact((*raw["fpr"], *raw["fnr"]))
        # doubles may miss convexity and the diagonal; the curve is then the largest one below them
        _check_knots(xs, ys, ZERO if strict else Fraction(1, 10**12))
        points = [(x, max(ZERO, min(y, 1 - x))) for x, y in zip(xs, ys, strict=True)]
        self._settle([*points, (ONE, ZERO)])

    def _settle(self, points: Iterable[Point]) -> None:
        xs, ys = zip(*hull(points), strict=True)
        object.__setattr__(self, "fpr", xs)
        object.__setattr__(self, "fnr", ys)

    @classmethod
    def _trusted(cls, points: Iterable[Point]) -> Polyline:
        """The lower outline of points that are known to make a trade-off function."""
        polyline = cls.__new__(cls)
        polyline._settle(points)
        return polyline

    @classmethod
    def perfect(cls) -> Polyline:
        """1 - x: nothing can be distinguished."""
        return cls._trusted([(ZERO, ONE), (ONE, ZERO)])

    @classmethod
    def revealed(cls) -> Polyline:
        """0 everywhere: everything can be distinguished."""
        return cls._trusted([(ZERO, ZERO), (ONE, ZERO)])

    @classmethod
    def from_pmfs(cls, null: Iterable[Number], alternative: Iterable[Number]) -> Polyline:
        """T(null, alternative) of two pmfs on the same points: outcomes sorted by likelihood ratio.

        Masses that are doubles are divided by their sum if it is off by at most 1e-9.

        Source: blackwell1953.

        >>> Polyline.from_pmfs(
        ...     [Fraction(1, 4), Fraction(3, 4)], [Fraction(3, 4), Fraction(1, 4)]
        ... ).fnr
        (Fraction(1, 1), Fraction(1, 4), Fraction(0, 1))
        """
        widths, drops = _masses("null", null), _masses("alternative", alternative)
        if len(widths) != len(drops):
            raise InvalidArgument(
                "null and alternative must have equally many points; "
                f"got {len(widths)} and {len(drops)}. "
                "Give a point that one of them never takes the probability 0."
            )
        return cls._pooled(zip(widths, drops, strict=True))

    @classmethod
    def from_segments(
        cls, segments: Iterable[tuple[Number, Number]], jump: Number = ZERO
    ) -> Polyline:
        """The function with these (width, drop) in whatever order, and f(0) = 1 - jump.

        The widths sum to 1, the drops to 1 - jump. A width of 0 adds to the jump.
        """
        pieces: list[object] = [*_kept("segments", segments, "pairs (width, drop)"), (0, jump)]
        for index, piece in enumerate(pieces):
            if not isinstance(piece, tuple | list) or len(piece) != 2:
                raise WrongType(
                    f"segments[{index}] must be (width, drop); got {short_repr(piece)}."
                )
        exactly(jump=jump)
        columns: list[tuple[object, ...]] = list(zip(*pieces, strict=True))
        widths = _masses("widths of segments", columns[0])
        drops = _masses("drops of segments, with the jump,", columns[1])
        return cls._pooled(zip(widths, drops, strict=True))

    @classmethod
    def _pooled(cls, outcomes: Iterable[Point]) -> Polyline:
        every = list(outcomes)
        inside = [(width, drop) for width, drop in every if width > 0]
        x, y = ZERO, 1 - sum((drop for width, drop in every if width == 0), ZERO)
        points = [(x, y)]
        for width, drop in by_slope(inside):
            x, y = x + width, y - drop
            points.append((x, y))
        return cls._trusted(points)

    @classmethod
    def from_lines(cls, lines: Iterable[Line]) -> Polyline:
        """The largest of the lines height - steepness x, and zero; each at most 1 - x on [0, 1].

        A hockey-stick value H at x = e^epsilon is the line (1 - H, x).
        """
        every = pairs("lines", lines, "(height, steepness)")
        for index, (height, steepness) in enumerate(every):
            if steepness < 0 or height > min(ONE, steepness):
                raise InvalidArgument(
                    f"lines[{index}] must stay at or below 1 - x on [0, 1]; got height "
                    f"{up(height):.12g} and steepness {up(steepness):.12g}."
                )
        return cls._trusted(lines_outline(every))

    @classmethod
    def from_points(cls, points: Iterable[tuple[Number, Number]]) -> Polyline:
        """The chords through points that some tests reach, and through (0, 1) and (1, 0).

        Never below a trade-off function that is at most the second number of each point at the first.
        """
        every = pairs("points", points, "two rates")
        for index, (x, y) in enumerate(every):
            if not (0 <= x <= 1 and y >= 0):
                raise invalid(f"points[{index}]", "two rates", (up(x), up(y)))
        return cls._trusted([*((x, min(y, 1 - x)) for x, y in every), (ZERO, ONE), (ONE, ZERO)])

    def __repr__(self) -> str:
        """The call that makes it, or the number of its knots if there are many."""
        if len(self.fpr) > 8:
            return f"<Polyline: {len(self.fpr)} knots>"
        return f"Polyline(fpr={self.fpr!r}, fnr={self.fnr!r})"

    @property
    def knots(self) -> tuple[Point, ...]:
        """The knots as (false-positive rate, false-negative rate)."""
        return tuple(zip(self.fpr, self.fnr, strict=True))

    @cached_property
    def segments(self) -> tuple[Point, ...]:
        """(width, drop) of each straight piece, from the steepest to the flattest."""
        return tuple(
            (right[0] - left[0], left[1] - right[1])
            for left, right in itertools.pairwise(self.knots)
        )

    @property
    def jump(self) -> Fraction:
        """1 - f(0): the mass of the alternative where the null has none."""
        return 1 - self.fnr[0]

    @property
    def rest(self) -> Fraction:
        """The length of the last piece where f is zero: null mass where the alternative has none."""
        width, drop = self.segments[-1]
        return width if drop == 0 else ZERO

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse."""
        return self == self.inverse()

    def at(self, fpr: Number) -> Fraction:
        """f at one rate in [0, 1], exactly."""
        x = exactly(fpr=fpr)
        if not 0 <= x <= 1:
            raise invalid("fpr", "in [0, 1]", fpr, "It is the false-positive rate of an attack.")
        return at(self.fpr, self.fnr, x)

    def __call__(self, fpr: Number) -> Fraction | float:
        """f at one rate in [0, 1]: a fraction for a fraction or an integer, the nearest double else."""
        return _like(fpr, self.at(fpr))

    def inverse(self) -> Polyline:
        """The smallest x with f(x) <= y as a function of y: null and alternative exchanged."""
        return self._trusted([*((y, x) for x, y in self.knots), (ONE, ZERO)])

    def conjugate(self, slope: Number) -> Fraction | float:
        """f*(slope) = max over x of slope x - f(x)."""
        value = exactly(slope=slope)
        return _like(slope, max(value * x - y for x, y in self.knots))

    def hockey_stick(self, ratio: Number) -> Fraction | float:
        """sum of (alternative - ratio null)_+ over all outcomes, ratio >= 0: 1 + f*(-ratio).

        delta at epsilon = log(ratio), with the null as the data that delta is measured against.

        >>> Polyline((0, Fraction(1, 4), 1), (1, Fraction(1, 4), 0)).hockey_stick(1)
        Fraction(1, 2)
        """
        value = exactly(ratio=ratio)
        if value < 0:
            raise invalid("ratio", "at least 0", ratio, "It is e^epsilon.")
        return _like(ratio, 1 - min(y + value * x for x, y in self.knots))

    def profile(self) -> tuple[Point, ...]:
        """(ratio, hockey stick) at the ratio of every outcome that both take, and of 1, rising.

        Between them the hockey stick is straight, so that ``from_profile`` gives f back.
        """
        ratios = {drop / width for width, drop in self.segments if drop > 0} | {ONE}
        return tuple(
            (ratio, 1 - min(y + ratio * x for x, y in self.knots)) for ratio in sorted(ratios)
        )

    @classmethod
    def from_profile(cls, points: Iterable[tuple[Number, Number]]) -> Polyline:
        """The smallest trade-off function with hockey sticks at most these, (ratio, value) each."""
        every = pairs("points", points, "(ratio, value)")
        for index, (ratio, value) in enumerate(every):
            if ratio < 0 or not max(ZERO, 1 - ratio) <= value <= 1:
                hint = "A hockey stick is at least 1 - ratio, and at most 1."
                raise invalid(f"points[{index}]", "a hockey stick", (up(ratio), up(value)), hint)
        return cls.from_lines((1 - value, ratio) for ratio, value in every)

    def symmetrized(self) -> Polyline:
        """Dual(f): what delta at epsilon >= 0, read off f, implies if it holds in both orders.

        Steep pieces of f and their mirror images; what f says beyond slope -1 is not used.

        Source: wang2023 Theorem 4.2, with the middle piece of equation (3) corrected.
        """
        forth = [(1 - value, ratio) for ratio, value in self.profile() if ratio >= 1]
        back = [(height / ratio, 1 / ratio) for height, ratio in forth]
        return self.from_lines([*forth, *back])

    def symmetric_hull(self) -> Polyline:
        """min{f, f^-1}**: the largest trade-off function that is below both orders."""
        return self.minimum(self.inverse())

    def maximum(self, other: Polyline) -> Polyline:
        """The larger of both at every rate, which is a trade-off function."""
        return self._trusted(above_both(self.knots, _other(other).knots))

    def minimum(self, other: Polyline) -> Polyline:
        """The largest trade-off function that is below both: the convex outline of the smaller."""
        return self._trusted([*self.knots, *_other(other).knots])

    def __le__(self, other: object) -> bool:
        """Whether f is at most the other at every rate: at least as easy to attack."""
        if not isinstance(other, Polyline):
            return NotImplemented
        return all(here <= there for here, there in self._beside(other))

    def distance(self, other: Polyline) -> Fraction:
        """The largest difference of the two at any rate."""
        return max(abs(here - there) for here, there in self._beside(_other(other)))

    def _beside(self, other: Polyline) -> list[Point]:
        """Both values at every knot of either: between them the difference is straight."""
        places = sorted({*self.fpr, *other.fpr})
        return [(at(self.fpr, self.fnr, x), at(other.fpr, other.fnr, x)) for x in places]

    def fixed_point(self) -> Fraction:
        """The rate x with f(x) = x.

        >>> Polyline.perfect().fixed_point()
        Fraction(1, 2)
        """
        pieces = itertools.pairwise(self.knots)
        (x, y), (u, v) = next((left, right) for left, right in pieces if right[1] <= right[0])
        return x + (y - x) * (u - x) / (u - x + y - v)

    def advantage(self) -> Fraction:
        """The largest 1 - x - f(x): the total variation distance."""
        return 1 - min(x + y for x, y in self.knots)

    def area(self) -> Fraction:
        """The area under f: 1/2 for perfect privacy, 0 if everything is revealed."""
        return sum(
            ((u - x) * (y + v) / 2 for (x, y), (u, v) in itertools.pairwise(self.knots)), ZERO
        )


def _like(asked: object, value: Fraction) -> Fraction | float:
    return float(value) if isinstance(asked, float | np.floating) else value


def _kept(name: str, entries: object, of: str = "numbers") -> tuple[object, ...]:
    """The entries of a list as they are, or an error."""
    if not has_entries(entries):
        raise WrongType(f"{name} must be a list of {of}; got {short_repr(entries)}.")
    return tuple(entries)


def _other(other: object) -> Polyline:
    if isinstance(other, Polyline):
        return other
    raise WrongType(f"other must be a Polyline; got {short_repr(other)}.")


def _masses(name: str, entries: object) -> tuple[Fraction, ...]:
    """A pmf as fractions that sum to one exactly."""
    raw = _kept(name, entries)
    masses = listed(name, raw)
    for index, mass in enumerate(masses):
        if mass < 0:
            raise invalid(f"{name}[{index}]", "at least 0", up(mass), "It is a probability.")
    total = sum(masses, ZERO)
    allowed = 0 if all_exact(raw) else LARGEST_SUM_ERROR
    if abs(total - 1) > allowed:
        raise InvalidArgument(
            f"{name} must be probabilities with sum 1; got masses with sum {up(total):.12g}. "
            "Divide them by their sum if that is what you mean."
        )
    return masses if total == 1 else tuple(mass / total for mass in masses)


def _check_knots(xs: Sequence[Fraction], ys: Sequence[Fraction], slack: Fraction) -> None:
    """Errors that name the first knot at which this is no trade-off function."""
    if len(xs) != len(ys) or len(xs) < 2:
        raise InvalidArgument(
            f"fpr and fnr must have equally many entries, at least 2; got {len(xs)} and {len(ys)}."
        )
    if xs[0] != 0:
        raise invalid("fpr[0]", "0", up(xs[0]), "Begin with the knot (0, f(0)).")
    for index, (x, y) in enumerate(zip(xs, ys, strict=True)):
        if index and x <= xs[index - 1]:
            hint = "Sort the knots; a jump at 0 is given by fnr[0] < 1."
            before = f"greater than fpr[{index - 1}] = {up(xs[index - 1]):.12g}"
            raise invalid(f"fpr[{index}]", before, up(x), hint)
        if not -slack <= y <= 1 - x + slack:
            allowed = f"between 0 and 1 - fpr[{index}] = {up(1 - x):.12g}"
            raise invalid(f"fnr[{index}]", allowed, up(y), "Guessing does no worse than that.")
        if index and y > ys[index - 1] + slack:
            before = f"at most fnr[{index - 1}] = {up(ys[index - 1]):.12g}"
            raise invalid(f"fnr[{index}]", before, up(y), "Trade-off functions never rise.")
    if xs[-1] != 1 or ys[-1] > slack:
        end = f"the knot ({up(xs[-1]):.12g}, {up(ys[-1]):.12g})"
        raise InvalidArgument(f"fpr and fnr must end with the knot (1, 0); got {end}.")
    _check_convex(xs, ys, slack)


def _check_convex(xs: Sequence[Fraction], ys: Sequence[Fraction], slack: Fraction) -> None:
    points = list(zip(xs, ys, strict=True))
    for index in range(1, len(points) - 1):
        a, b, c = points[index - 1 : index + 2]
        if turn(a, b, c) < -slack * (c[0] - a[0]):
            raise InvalidArgument(
                f"fnr[{index}] must not lie above the chord of its neighbors; got the knot "
                f"({up(b[0]):.12g}, {up(b[1]):.12g}). Trade-off functions are convex."
            )
