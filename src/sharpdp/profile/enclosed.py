"""One convex function between two bounds: h(x) = H_x(P||Q) of a composition, at any x in (0, inf).

Everything that is asked of a composition is a reading of this function. Thresholds are log x: above zero
H_x(P||Q) is delta of the composition, below zero H_x(P||Q) = 1 - x + x H_{1/x}(Q||P) is read off the
other direction.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.errors import NotCertified
from sharpdp.numerics.roots import falling_root, falling_root_in_passes
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, safe_log
from sharpdp.profile.kept import ProfilePoints
from sharpdp.profile.planning import estimate

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

Ends = tuple[Array, Array]
"""All lower and all upper ends."""

FARTHEST = 1e7
"""No threshold beyond this is looked for."""

TERM = 1e-15
"""Terms of a sum of hockey stick and x alpha, and x itself, are right to within this."""

_SHIFTED = 4e-13
"""By so much, relative to itself, rounding a logarithm of up to 1500 moves its exponential at most."""


@dataclass(frozen=True)
class EnclosedProfile:
    """H_x for all x > 0, as sharp as the tolerance asks for in log delta.

    >>> from sharpdp.pairs.pair import GaussianPair
    >>> from sharpdp.profile.composition import Composition
    >>> profile = EnclosedProfile(Composition(((GaussianPair(1.0), 1),)), 1e-3)
    >>> low, high = profile.at(np.array([0.5, 1.0, 2.0]))
    >>> [round(value, 6) for value in high.tolist()]  # at 1/2 it is 1/2 + H_2 / 2
    [0.595305, 0.382925, 0.19061]
    """

    composition: Composition
    tolerance: float

    def at(self, x: Array) -> Ends:
        """All lower and all upper ends of H_x at numbers x > 0."""
        thresholds = np.log(x)
        rounding = 4.0 * UNIT_ROUNDOFF * np.abs(thresholds)
        later, earlier = thresholds + rounding, thresholds - rounding
        low, high = self.heights(np.append(later, earlier))
        return low[: x.size], high[x.size :]

    def heights(self, thresholds: Array) -> Ends:
        """All lower and all upper ends of H at e^threshold."""
        low, high = heights(thresholds, *self.log_deltas(thresholds))
        return low, np.minimum(high, 1.0)

    def log_deltas(self, thresholds: Array) -> Ends:
        """All lower and all upper ends of the log delta from which H at e^threshold is read."""
        low, high = np.empty(thresholds.size), np.empty(thresholds.size)
        ahead = thresholds >= 0.0
        for reverse, chosen in ((False, ahead), (True, ~ahead)):
            if chosen.any():
                direction = self.composition.reverse() if reverse else self.composition
                distance = np.abs(thresholds[chosen])
                low[chosen], high[chosen] = direction.log_deltas(distance, self.tolerance)
        return low, high

    def certified_points(self, thresholds: Array) -> ProfilePoints:
        """`log_deltas` where they can be certified; NotCertified if that is nowhere."""
        try:
            return ProfilePoints(thresholds, *self.log_deltas(thresholds))
        except NotCertified:
            points = ProfilePoints()
            for each in thresholds[:, None] if thresholds.size > 1 else ():
                with suppress(NotCertified):
                    points = points.joined(ProfilePoints(each, *self.log_deltas(each)))
            if not points.epsilons.size:
                raise
            return points

    def touching(self, alpha: float) -> tuple[float, float]:
        """About the threshold at which a line of slope -alpha touches H, and the scale there.

        That is where alpha = Q[L > k]; below zero this reads 1 - alpha = P[L > -k] in the other
        direction. Nothing rides on the result.
        """
        direction, sign, over = self.composition, 1.0, _over_rate
        if _over_rate(direction, np.zeros(1), alpha)[0] <= 0.0:
            direction, sign, over = direction.reverse(), -1.0, _over_rest
            if over(direction, np.zeros(1), alpha)[0] <= 0.0:
                return 0.0, _scale(self.composition, 0.0)
        start, farthest = _scale(direction, 0.0), min(direction.largest_loss, FARTHEST)
        if direction.single_pair is not None:
            root = falling_root_in_passes(lambda k: over(direction, k, alpha), start, farthest)
        else:
            root = falling_root(
                lambda k: float(over(direction, np.array([k]), alpha)[0]), start, farthest
            )
        return sign * root, _scale(direction, root)


def _over_rate(direction: Composition, thresholds: Array, alpha: float) -> Array:
    """log of Q[L > k] over alpha (not certified)."""
    if (pair := direction.single_pair) is not None:
        return np.asarray(pair.log_tail_q(thresholds) - np.log(alpha))
    log_delta, slope = _estimates(direction, thresholds)
    return np.asarray(log_delta + np.log(slope) - thresholds - np.log(alpha))


def _over_rest(direction: Composition, thresholds: Array, alpha: float) -> Array:
    """log of P[L > k] over 1 - alpha (not certified)."""
    if (pair := direction.single_pair) is not None:
        log_mass = safe_log(direction.infinite_p_ends[1])
        log_delta = np.logaddexp(pair.log_hockey_stick(thresholds), log_mass)
        tail = np.logaddexp(log_delta, pair.log_tail_q(thresholds) + thresholds)
        return np.asarray(tail - np.log1p(-alpha))
    log_delta, slope = _estimates(direction, thresholds)
    return np.asarray(log_delta + np.log1p(slope) - np.log1p(-alpha))


def _estimates(direction: Composition, thresholds: Array) -> Ends:
    """log delta and how fast it falls (not certified)."""
    value, slope = np.array([estimate(direction, k) for k in thresholds.tolist()]).T
    return value, slope


def _scale(direction: Composition, threshold: float) -> float:
    """About the distance over which delta falls by a factor of e; bounded where it hardly falls."""
    return 1.0 / max(estimate(direction, threshold)[1], 1.0 / FARTHEST)


def heights(thresholds: Array, low: Array, high: Array, *, scale: float = 1.0) -> Ends:
    """(lower, upper) of H at e^threshold: sums of positive terms, each relative to itself.

    `low` and `high` are the ends of log delta at the distance from zero, below zero those of the other
    direction: H_x(P||Q) = 1 - x + x H_{1/x}(Q||P). With a scale all of it is multiplied by that.
    """
    ahead = thresholds >= 0.0
    rest = scale * np.where(ahead, 0.0, -np.expm1(thresholds))
    share = np.where(ahead, 1.0, np.exp(thresholds))
    tiny = np.finfo(float).tiny  # what is below all normal doubles counts as that or as nothing
    shift = float(np.log(scale))
    delta_low, delta_high = np.exp(low + shift), np.minimum(np.exp(high + shift), scale)
    below = rest + share * np.where(delta_low > tiny, delta_low, 0.0)
    above = rest + share * np.maximum(delta_high, tiny)
    # shifted logarithms are rounded once more
    rounding = 2.0 * TERM + (_SHIFTED if shift else 0.0)
    return below * (1.0 - rounding), above * (1.0 + rounding)


def depths(thresholds: Array, low: Array, high: Array) -> Ends:
    """(lower, upper) of 1 - H at e^threshold, from the same ends: 1 - H_x = x (1 - H_{1/x})."""
    size = np.where(thresholds >= 0.0, 1.0, np.exp(thresholds))
    rounding = 2.0 * TERM * size
    below, above = size * (1.0 - np.exp(high)), size * (1.0 - np.exp(low))
    return below - rounding, above + rounding
