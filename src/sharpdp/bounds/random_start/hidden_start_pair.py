"""Least squares whose start is hidden: the two laws of the result, with a record and without it.

With n points, each with y = a x and x^2 = 1, learning rate h and noise of deviation v on the gradient, a
step takes I to s(I) + h v Z, where

    s(I) = I - h n clip(I - a),

three straight pieces. On a piece s = b I + d the density of the result is a normal density times the
probability of an interval, so that the two densities (n points, n - 1 points) are known in closed form.
Without clipping s is one piece, and the result of any number of steps is normal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_rule, log1mexp, log_ndtr
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.line_densities import (
    LONGEST,
    NormalMixture,
    density_pair,
    length,
    normal_mixture_pair,
)

__all__ = ["HiddenStart"]

_DEVIATIONS = 14.0
"""Starts and noise beyond so many deviations have probability below 1e-43."""

_CUT = 0.01
"""Pieces that end within this distance of the farthest start are left out."""

_SHORTEST = 1e-3
"""Pieces shorter than this, in deviations of the start and of the noise, lose too many digits."""

_FARTHEST = 18.0
"""A record that moves the result by more deviations of the noise is left to other bounds."""

_LONGEST = 2000.0
"""So many deviations of the noise may there be between two results of clipped gradients."""

_ACCURACY = 1e-9
"""Error of a log density or mass: of normal tails where they matter, and their differences."""


Piece = tuple[float, float, float, float, float]
"""(b, value, origin, low, high): s(origin + J) = value + b J for J between the last two."""


@dataclass(frozen=True)
class HiddenStart:
    """Both laws of the result of least squares from a hidden standard normal start.

    Args:
        slope: The slope a of all points.
        clip: The norm at which gradients are clipped, or infinity.
        points: The number n of points.
        noise_deviation: The deviation v of the noise, in units of the gradient.
        learning_rate: The step size h.
        steps: The number of steps, one if gradients are clipped.
    """

    slope: float
    clip: float
    points: int
    noise_deviation: float
    learning_rate: float
    steps: int

    @property
    def is_resolved(self) -> bool:
        """Whether double precision holds both laws: they are not too long, nor a piece too short."""
        if self.clip == math.inf:
            laws = self._normal_laws
            return laws is not None and length(*laws) <= LONGEST
        shortest = _SHORTEST * max(self.learning_rate * self.noise_deviation, 1.0)
        farthest = min(self.clip, abs(self.slope) + _DEVIATIONS) / self.noise_deviation
        if self.steps > 1 or self.clip < shortest or farthest > _FARTHEST:
            return False
        ends = [end for law in self._clipped_laws for end in law.ends()]
        return max(map(abs, ends)) <= _LONGEST and max(ends) - min(ends) <= _LONGEST

    def pair(self, side: Side) -> AtomicPair:
        """The pair of the two laws, safe on a side.

        >>> start = HiddenStart(1.0, 2.0, 2, 1.0, 1.0, 1)
        >>> pairs = [start.pair(side) for side in (Side.LOWER, Side.UPPER)]
        >>> [round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 4) for pair in pairs]
        [0.3296, 0.3296]
        """
        if self.clip < math.inf:
            return density_pair(*self._clipped_laws, side, _ACCURACY)
        laws = self._normal_laws
        assert laws is not None
        # powers are off by so many units for each step, and the slope multiplies their difference
        error = 8.0 * UNIT_ROUNDOFF * (4.0 + self.steps) * (1.0 + abs(self.slope))
        return normal_mixture_pair(*laws, side, error)

    @property
    def _clipped_laws(self) -> tuple[ClippedStep, ClippedStep]:
        one, other = (
            ClippedStep(tuple(self._pieces(count))) for count in (self.points, self.points - 1)
        )
        return one, other

    def _pieces(self, count: int) -> Iterator[Piece]:
        """The pieces of s for so many points, in deviations of the noise."""
        center, clip, unit = abs(self.slope), self.clip, self.learning_rate * self.noise_deviation
        moved = count * clip / self.noise_deviation
        inner = float(1 - Fraction(self.learning_rate) * count) / unit
        # seen from the slope, where the inner piece may be short and steep
        for b, value, origin, low, high in (
            (1.0 / unit, moved, 0.0, -math.inf, center - clip),
            (inner, center / unit, center, -clip, clip),
            (1.0 / unit, -moved, 0.0, center + clip, math.inf),
        ):
            # what is cut too short at the ends is left out
            if origin + low < _DEVIATIONS - _CUT and origin + high > _CUT - _DEVIATIONS:
                ends = max(low, -_DEVIATIONS - origin), min(high, _DEVIATIONS - origin)
                yield b, value, origin, *ends

    @property
    def _normal_laws(self) -> tuple[NormalMixture, NormalMixture] | None:
        """The two normal laws, in units of the smaller deviation; None if they overflow."""
        kept, deviations = [], []
        for count in (self.points, self.points - 1):
            factor = float(1 - Fraction(self.learning_rate) * count)
            log_kept = math.log(abs(factor)) if factor else -math.inf
            if self.steps * log_kept > 300.0:
                return None
            kept.append(factor**self.steps)
            noise = (
                self.learning_rate * self.noise_deviation * _root_of_squares(log_kept, self.steps)
            )
            deviations.append(math.hypot(kept[-1], noise))
        unit = min(deviations)
        if not (unit > 0.0 and max(deviations) < math.inf):
            return None
        # the mean is a (1 - kept)
        means = abs(self.slope) * (kept[1] - kept[0]) / unit, 0.0
        one, other = (
            NormalMixture((1.0,), (mean,), (deviation / unit,))
            for mean, deviation in zip(means, deviations, strict=True)
        )
        return one, other


def _root_of_squares(log_factor: float, steps: int) -> float:
    """The root of the sum of factor^(2i) over i < steps.

    >>> round(_root_of_squares(math.log(0.5), 3) ** 2, 12)  # 1 + 1/4 + 1/16
    1.3125
    """
    if log_factor == 0.0:
        return math.sqrt(steps)
    if log_factor == -math.inf:
        return 1.0
    return math.sqrt(math.expm1(2.0 * steps * log_factor) / math.expm1(2.0 * log_factor))


@dataclass(frozen=True)
class ClippedStep:
    """The law of s(I) + Z, without the starts beyond 14 deviations.

    There are no gaps between the values of s, and a record moves them by 18 at most: wherever either law
    may be, it has a log density above -900. Noise of 60 deviations has one below -1800.

    Args:
        pieces: The pieces of s.
    """

    pieces: tuple[Piece, ...]
    deviation: float = 1.0
    least: float = math.log(1e-30)
    farthest: float = 60.0

    def ends(self) -> tuple[float, float]:
        """The interval outside which there is a negligible rest."""
        values = [value + b * end for b, value, _, *interval in self.pieces for end in interval]
        return min(values) - _DEVIATIONS, max(values) + _DEVIATIONS

    def log_density(self, x: Array) -> Array:
        """log of the density: the sum over the pieces of s."""
        return np.asarray(np.logaddexp.reduce([_log_piece(x, *piece) for piece in self.pieces]))

    def log_masses(self, edges: Array) -> Array:
        """log of the mass of each cell, by a Gauss rule for the density."""
        half = 0.5 * np.diff(edges)
        middle = edges[:-1] + half
        nodes, weights = gauss_rule(10)
        logs = [
            self.log_density(middle + node * half) + math.log(weight)
            for node, weight in zip(nodes, weights, strict=True)
        ]
        return np.asarray(np.logaddexp.reduce(logs) + np.log(half))

    def log_tails(self, low: float, high: float) -> tuple[float, float]:
        """log of a bound on all that is left out, on either side: starts and noise that are far out."""
        left_out = math.log(2.0) + float(log_ndtr(np.array([_CUT - _DEVIATIONS]))[0])
        return left_out, left_out


def _log_piece(x: Array, b: float, value: float, origin: float, low: float, high: float) -> Array:
    """log of the integral of the normal densities of I and of x - s(I) over a piece of s.

    For J = I - origin the product is a normal density of x - value, of variance v, times one of J.
    """
    v, gap = b * b + 1.0, x - value
    mean, unit = (b * gap - origin) / v, 1.0 / math.sqrt(v)
    left, right = (low - mean) / unit, (high - mean) / unit
    # the same interval mirrored, where that has the smaller tails
    left, right = np.where(left > 0.0, -right, left), np.where(left > 0.0, -left, right)
    log_right, log_left = log_ndtr(right), log_ndtr(left)
    inside = log_right + log1mexp(np.minimum(log_left - log_right, -UNIT_ROUNDOFF))
    return np.asarray(inside - 0.5 * (gap + b * origin) ** 2 / v - 0.5 * np.log(2.0 * np.pi * v))
