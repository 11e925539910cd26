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
    corners, at_corners = _corners(x, low, high)
    below = np.max(1.0 - high[:, None] - x[:, None] * fpr, axis=0)
    above = np.max(1.0 - at_corners[:, None] - corners[:, None] * fpr, axis=0)
    lower = np.clip(below, 0.0, 1.0 - fpr)
    return lower, np.clip(above, lower, 1.0 - fpr)


def profile_band(samples: Samples, epsilon: Array) -> tuple[Array, Array]:
    """(lower, upper) of the profile at every epsilon: extended chords below it, chords above."""
    x, low, high = samples.whole_line()
    at = np.exp(epsilon)
    left, right = _extended_chords(x, low, high)
    piece = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    below = np.maximum(
        low[piece] + left[piece] * (at - x[piece]),
        low[piece + 1] + right[piece] * (at - x[piece + 1]),
    )
    upper = np.interp(at, x, high)
    return np.clip(below, 0.0, upper), upper


def _extended_chords(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Slopes of lines below H on each piece: one through its left end, one through its right end.

    A convex function runs, to the right of a chord, above its extension; the chord that uses the
    upper value at its far end is the lower one. At x = 0 the slope is at least -1, far right it
    is at most 0.
    """
    step = np.diff(x)
    left = np.concatenate([[-1.0], (low[1:-1] - high[:-2]) / step[:-1]])
    right = np.concatenate([(high[2:] - low[1:-1]) / step[1:], [0.0]])
    return np.minimum(left, 0.0), np.minimum(right, 0.0)


def _corners(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The corners (x, H) of the lower outline of H: its nodes, and where extended chords meet.

    Beyond the last node the last chord is extended until it reaches 0, which H does not undercut.
    """
    left, right = _extended_chords(x, low, high)
    step = np.diff(x)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        meet = np.nan_to_num((low[:-1] - low[1:] + right * step) / (right - left))
        end = x[-1] + low[-1] * step[-1] / max(high[-2] - low[-1], 0.0)
    meet = x[:-1] + np.clip(meet, 0.0, step)
    at_meet = np.maximum(low[:-1] + left * (meet - x[:-1]), low[1:] + right * (meet - x[1:]))
    ends = [float(end)] if np.isfinite(end) else []
    corners = np.concatenate([x, meet, ends])
    return corners, np.concatenate([low, at_meet, np.zeros(len(ends))])


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
