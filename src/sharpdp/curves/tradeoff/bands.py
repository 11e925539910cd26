"""A privacy profile known at some points, and the bands that are true between them.

Both curves follow from the privacy profile H(x) = delta at x = e^epsilon, which is convex in x on the
whole line, so its chords lie above it and its extended chords below. They are computed in fractions, and
rounded outwards once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sharpdp.curves.tradeoff.enclosure import FARTHEST, HockeyStick, outline_of, polylines_of
from sharpdp.curves.tradeoff.exact import ONE, ZERO, Line, Point, at, down, ratio_down, ratio_up, up
from sharpdp.curves.tradeoff.polyline import Polyline

if TYPE_CHECKING:
    from sharpdp.questions.account import Guarantee


__all__ = ["Samples", "profile_band", "sampled", "tradeoff_band"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Samples:
    """The privacy profile at some epsilons from 0 on: delta between lower and upper."""

    epsilon: Array
    lower: Array
    upper: Array

    @cached_property
    def outline(self) -> tuple[list[HockeyStick], list[Line]]:
        """H at e^-epsilon and e^epsilon, and the corners below it; the worse of both directions."""
        columns = (self.epsilon.tolist(), self.lower.tolist(), self.upper.tolist())
        return outline_of({row[0]: HockeyStick.at(*row) for row in zip(*columns, strict=True)})

    @cached_property
    def polylines(self) -> tuple[Polyline, Polyline]:
        """(lower, upper) polylines around the trade-off function."""
        return polylines_of(*self.outline)


def tradeoff_band(samples: Samples, fpr: Array) -> tuple[Array, Array]:
    """(lower, upper) of the trade-off function f(a) = max over x of 1 - H(x) - x a, for all a.

    Each x with H <= upper gives a line below f. Above f: H is at least its extended chords, so the
    maximum is at most that over the corners of those.

    >>> known = Samples(np.array([0.0]), np.array([0.25]), np.array([0.25]))
    >>> [float(end[0]) for end in tradeoff_band(known, np.array([0.5]))]
    [0.25, 0.375]
    """
    lower, upper = samples.polylines
    rates = fpr.tolist()
    return (
        np.array([down(lower.at(rate)) for rate in rates]),
        np.array([up(upper.at(rate)) for rate in rates]),
    )


def profile_band(samples: Samples, epsilon: Array) -> tuple[Array, Array]:
    """(lower, upper) of the profile at every epsilon: extended chords below it, chords above.

    It does not rise: below it is read off at e^epsilon rounded up, above at e^epsilon rounded down.
    """
    sticks, corners = samples.outline
    above = [(ZERO, ONE), *((stick.ratio, stick.high) for stick in sticks)]
    nodes = [(ZERO, ONE), *((stick.ratio, stick.low) for stick in sticks)]
    below = list(itertools.chain.from_iterable(zip(nodes, corners, strict=True)))
    epsilons = epsilon.tolist()
    return (
        np.array([down(value) for value in _chords(below, map(ratio_up, epsilons))]),
        np.array([up(value) for value in _chords(above, map(ratio_down, epsilons))]),
    )


def _chords(points: Sequence[Point], ratios: Iterable[Fraction]) -> list[Fraction]:
    """The chords through the points at these ratios, from the last point on its own value."""
    xs, ys = zip(*points, strict=True)
    return [at(xs, ys, ratio) if ratio < xs[-1] else ys[-1] for ratio in ratios]


def sampled(
    guarantee: Guarantee, shares: tuple[float, ...] = (0.5, 0.1, 1e-2, 1e-4, 1e-7)
) -> Samples:
    """The profile at epsilons that are closer together where delta changes more.

    Between two epsilons at which delta falls to these shares of delta(0) it is asked ten times.
    """
    marks = _marks(guarantee, shares)
    pieces = [np.linspace(a, b, 11) for a, b in itertools.pairwise(marks)]
    nodes = np.unique(np.concatenate(pieces))
    delta = guarantee.delta(epsilon=nodes)
    return Samples(nodes, np.asarray(delta.lower), np.asarray(delta.upper))


def _marks(guarantee: Guarantee, shares: tuple[float, ...]) -> list[float]:
    """0, and about the epsilons at which delta falls to these shares of delta(0), ascending.

    If it never falls that far, the last one lies a little beyond the others.
    """
    rough = guarantee.rough_upper()  # where delta is asked need not be known well
    top = float(rough.advantage())
    if top == 0.0:
        return [0.0, 1.0]
    epsilons = np.asarray(rough.epsilon(delta=top * np.array(shares)).upper)
    finite = np.minimum(epsilons[np.isfinite(epsilons)], FARTHEST)
    marks: list[float] = np.unique(np.append(finite, 0.0)).tolist()
    if len(marks) == 1 or len(finite) < len(epsilons):
        marks.append(1.15 * marks[-1] or 1.0)
    return marks
