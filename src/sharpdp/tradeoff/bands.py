"""A privacy profile known at some points, and the bands that are true between them.

Both curves follow from the privacy profile H(x) = delta at x = e^epsilon, which is convex in x on the
whole line, so its chords lie above it and its extended chords below.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.hull import corners, extended_chords

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee


__all__ = ["Samples", "profile_band", "sampled", "tradeoff_band"]

Array = NDArray[np.float64]

LEVELS = (0.5, 0.1, 1e-2, 1e-4, 1e-7)
"""The profile is asked between the epsilons at which delta falls to these shares of delta(0)."""

NODES_PER_LEVEL = 10
"""How often, between two of those epsilons. A question costs some milliseconds."""

LARGEST_EPSILON = 600.0
"""Beyond this, e^epsilon leaves double precision."""

BEYOND = 1.15
"""How far the picture of a delta goes that levels out, beyond the last fall."""


@dataclass(frozen=True)
class Samples:
    """The privacy profile at some epsilons from 0 on: delta between lower and upper."""

    epsilon: Array
    lower: Array
    upper: Array

    def whole_line(self) -> tuple[Array, Array, Array]:
        """(x, lower, upper) of H at x = 0, e^-epsilon and e^epsilon, ascending in x.

        H(0) = 1, and H(1/x) = 1 - 1/x + H(x)/x for the worse of both directions.
        """
        x = np.exp(self.epsilon)
        inverse = np.exp(-self.epsilon[:0:-1])
        ends = [
            np.concatenate([[1.0], 1.0 - inverse + inverse * one[:0:-1], one])
            for one in (self.lower, self.upper)
        ]
        return np.concatenate([[0.0], inverse, x]), ends[0], ends[1]


def tradeoff_band(samples: Samples, fpr: Array) -> tuple[Array, Array]:
    """(lower, upper) of the trade-off function f(a) = max over x of 1 - H(x) - x a, for all a.

    Each x with H <= upper gives a line below f. Above f: H is at least its extended chords, so the
    maximum is at most that over the corners of those.

    >>> known = Samples(np.array([0.0]), np.array([0.25]), np.array([0.25]))
    >>> [float(end[0]) for end in tradeoff_band(known, np.array([0.5]))]
    [0.25, 0.375]
    """
    x, low, high = samples.whole_line()
    places, values = _outline(x, low, high)
    below = np.max(1.0 - high[:, None] - x[:, None] * fpr, axis=0)
    above = np.max(1.0 - values[:, None] - places[:, None] * fpr, axis=0)
    lower = np.clip(below, 0.0, 1.0 - fpr)
    return lower, np.clip(above, lower, 1.0 - fpr)


def profile_band(samples: Samples, epsilon: Array) -> tuple[Array, Array]:
    """(lower, upper) of the profile at every epsilon: extended chords below it, chords above."""
    x, low, high = samples.whole_line()
    ratio = np.exp(epsilon)
    after, before = _lines_below(x, low, high)
    left = np.clip(np.searchsorted(x, ratio, side="right") - 1, 0, len(x) - 2)
    right = left + 1
    below = np.maximum(
        low[left] + after[left] * (ratio - x[left]), low[right] + before[right] * (ratio - x[right])
    )
    upper = np.interp(ratio, x, high)
    return np.clip(below, 0.0, upper), upper


def _lines_below(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Slopes of the extended chords; that of H is at least -1 at x = 0, and nowhere above 0."""
    after, before = extended_chords(x, low, high, -1.0, 0.0)
    return np.minimum(after, 0.0), np.minimum(before, 0.0)


def _outline(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The corners (x, H) of the lower outline of H: its nodes, and where extended chords meet.

    Beyond the last node the last chord is extended until it reaches 0, which H does not undercut.
    """
    meet, at_meet = corners(x, low, *_lines_below(x, low, high))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        end = x[-1] + low[-1] * (x[-1] - x[-2]) / max(high[-2] - low[-1], 0.0)
    ends = [float(end)] if np.isfinite(end) else []
    return np.concatenate([x, meet, ends]), np.concatenate([low, at_meet, np.zeros(len(ends))])


def sampled(guarantee: Guarantee, shares: tuple[float, ...] = LEVELS) -> Samples:
    """The profile at epsilons that are closer together where delta changes more."""
    marks = _marks(guarantee, shares)
    pieces = [np.linspace(a, b, NODES_PER_LEVEL + 1) for a, b in itertools.pairwise(marks)]
    nodes = np.unique(np.concatenate(pieces))
    delta = guarantee.delta(epsilon=nodes)
    return Samples(nodes, np.asarray(delta.lower), np.asarray(delta.upper))


def _marks(guarantee: Guarantee, shares: tuple[float, ...]) -> list[float]:
    """0, and the epsilons at which delta falls to these shares of delta(0), ascending.

    If it never falls that far, the last one lies a little beyond the others.
    """
    top = float(guarantee.advantage())
    if top == 0.0:
        return [0.0, 1.0]
    found = np.asarray(guarantee.epsilon(delta=top * np.array(shares)).upper)
    finite = np.minimum(found[np.isfinite(found)], LARGEST_EPSILON)
    marks: list[float] = np.unique(np.append(finite, 0.0)).tolist()
    if len(marks) == 1 or len(finite) < len(found):
        marks.append(BEYOND * marks[-1] or 1.0)
    return marks
