"""Trade-off curves: error rates of the best test at each false-positive rate, enclosed.

The null hypothesis is Q, the data without the record, and the alternative is P. With x = e^epsilon over
the whole line, the smallest false-negative rate and the largest true-positive rate are

    f(alpha) = sup_x 1 - H_x(P||Q) - x alpha,        t(alpha) = inf_x H_x(P||Q) + x alpha,

of a concave and a convex function of x. Any x gives a lower bound on f and an upper bound on t. Points
around the extremum give the other side, because such a function stays on one side of the extended
chords of its neighbors. Of the two rates the smaller one is computed, relative to itself: one minus
the other would be rounded next to one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.errors import NotCertified
from sharpdp.numerics.hull import cell_minima, concave_maximum
from sharpdp.numerics.roots import (
    crossing_in_passes,
    falling_root,
    falling_root_in_passes,
    golden_maximum,
)
from sharpdp.numerics.special import (
    Array,
    add_up,
    exp_down,
    exp_up,
    one_minus_down,
    one_minus_up,
    safe_log,
)
from sharpdp.pairs.pair import Pair

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

FARTHEST = 1e7
"""No threshold beyond this is looked for."""

_SMALLEST_ALPHA = 1e-300
"""Rates below this are answered by monotony: their inverses would be no doubles."""

_TERM = 1e-15
"""Terms of a sum of hockey stick and x alpha, and x itself, are right to within this."""

_SHIFTED = 4e-13
"""By so much, relative to itself, rounding a logarithm of up to 1500 moves its exponential at most."""

_SMALLEST_RATE, FINEST = 1e-3, 1e-8
"""Rates below the first are not resolved relative to themselves, nor is delta below the second."""


@dataclass(frozen=True)
class BoundedLine:
    """1 - H_x - x alpha, or H_x + x alpha, at one x between two bounds.

    The double `x` is right to within `_TERM` of itself.
    """

    x: float
    low: float
    high: float


def _arrays(lines: list[BoundedLine]) -> tuple[Array, Array, Array]:
    """x, lower and upper bounds of some lines."""
    x, low, high = np.array([(line.x, line.low, line.high) for line in lines]).T
    return x, low, high


def _bounded(epsilons: Array, low: Array, high: Array) -> list[BoundedLine]:
    """The bounds at each threshold."""
    rows = zip(np.exp(epsilons).tolist(), low.tolist(), high.tolist(), strict=True)
    return [BoundedLine(*row) for row in rows]


def missed_lines(
    epsilons: Array, alphas: Array | float, low: Array, high: Array
) -> tuple[Array, Array]:
    """(lower, upper) of 1 - H_x - x alpha at x = e^epsilon, from the ends of log delta at |epsilon|.

    Below zero log delta is that of the other direction: 1 - H_x = x (1 - H_{1/x}).
    """
    x, delta_low, delta_high = np.exp(epsilons), np.exp(low), np.exp(high)
    ahead = epsilons >= 0.0
    size = np.where(ahead, 1.0, x)
    cost = x * alphas
    below, above = size * (1.0 - delta_high) - cost, size * (1.0 - delta_low) - cost
    rounding = 2.0 * _TERM * (size + cost)
    return below - rounding, above + rounding


def hit_points(
    epsilons: Array, alphas: Array | float, low: Array, high: Array, *, scale: float = 1.0
) -> tuple[Array, Array]:
    """(lower, upper) of H_x + x alpha at x = e^epsilon: sums of positive terms, each relative to itself.

    Below zero H_x(P||Q) = 1 - x + x H_{1/x}(Q||P), and log delta is that of the other direction. With a
    scale all of it is multiplied by that, but for alpha.
    """
    x = np.exp(epsilons)
    ahead = epsilons >= 0.0
    rest, share = scale * np.where(ahead, 0.0, -np.expm1(epsilons)), np.where(ahead, 1.0, x)
    tiny = np.finfo(float).tiny  # what is below all normal doubles counts as that or as nothing
    shift = float(np.log(scale))
    delta_low, delta_high = np.exp(low + shift), np.minimum(np.exp(high + shift), scale)
    below = rest + share * np.where(delta_low > tiny, delta_low, 0.0) + x * alphas
    above = rest + share * np.maximum(delta_high, tiny) + x * alphas
    # shifted logarithms are rounded once more
    rounding = 2.0 * _TERM + (_SHIFTED if shift else 0.0)
    return below * (1.0 - rounding), above * (1.0 + rounding)


def false_negatives(
    composition: Composition, alpha: float, tolerance: float
) -> tuple[float, float]:
    """Certified (lower, upper) for the smallest false-negative rate at false-positive rate alpha.

    Thresholds above zero are read from this direction, those below from the reversed one:
    H_x(P||Q) = 1 - x + x H_{1/x}(Q||P).
    """
    mass_low, mass_high = composition.infinite_p_ends
    # f begins at or below `top` and is zero from `end` on, and is convex in between
    top, end = one_minus_up(mass_low), one_minus_up(composition.reverse().infinite_p_ends[0])
    if alpha >= end:
        return 0.0, 0.0
    if alpha < _SMALLEST_ALPHA:
        low = one_minus_down(mass_high) if alpha == 0.0 else 0.0
        if alpha > 0.0:
            low = false_negatives(composition, _SMALLEST_ALPHA, tolerance)[0]
        return low, top
    negligible = min(alpha, 1e-11)
    if 1.0 - np.exp(composition.estimate(0.0)[0]) <= negligible:
        # where f has slope -1 both rates add up to 1 - H_1: if alpha is no less, f is no more there
        high = one_minus_up(exp_down(composition.log_delta(0.0, tolerance)[0]))
        if high <= negligible:
            return 0.0, high
    profile, lines = _around_the_maximum(composition, alpha, tolerance)
    low, high = max(0.0, *(line.low for line in lines)), concave_maximum(*_arrays(lines))
    if not high < 1.0 - alpha:
        # 1 - H_x grows with x and x alpha exceeds one beyond 1/alpha: f(alpha) <= 1 - H_{1/alpha}
        farthest = -float(np.log(alpha)) * (1.0 + _TERM)
        high = min(one_minus_up(alpha), profile.covered(farthest)[1])
    high = min(high, top * (end - alpha) / end * (1.0 + _TERM))
    if high - low > tolerance * high > _SMALLEST_RATE * tolerance:
        hit = _convex_minimum(composition, alpha, tolerance)
        low, high = max(low, one_minus_down(hit[1])), min(high, one_minus_up(hit[0]))
    if high - low > tolerance * high:
        low, high = _outlined(profile, alpha, lines, (low, high))
    return low, max(low, high)


def _around_the_maximum(
    composition: Composition, alpha: float, tolerance: float
) -> tuple[FullProfile, list[BoundedLine]]:
    """Three lines, the middle one about the largest, and where to ask for more of them."""
    profile = FullProfile(composition, composition.reverse(), tolerance)
    best, scale = profile.argmax(alpha)
    step = 1e-3 * scale
    if composition.single_pair is not None:
        # one pair is cheap to evaluate, and may have kinks: find the maximum itself
        best = profile.kink(composition.single_pair, best, scale, alpha)
        step = 1e-7 * scale
    rough = max(profile.line(best, alpha).high, 0.0)
    above = max(profile.delta_above(best), _SMALLEST_RATE)
    finer = tolerance * min(1.0, max(rough, _SMALLEST_RATE) / above)
    profile = replace(profile, tolerance=max(finer, FINEST))
    lines = profile.lines([best - step, best, best + step], alpha)
    for _ in range(8):
        if lines[0].high <= lines[1].low and lines[2].high <= lines[1].low:
            break
        step *= 4.0
        before, after = profile.lines([best - step, best + step], alpha)
        lines = [before, lines[1], after]
    return profile, lines


def _outlined(
    profile: FullProfile, alpha: float, lines: list[BoundedLine], interval: tuple[float, float]
) -> tuple[float, float]:
    """(lower, upper) of the maximum, from more lines: one at the corner that leaves most open, each time.

    It ends after 24 lines, or where four of them did not halve the width.

    1 - H_x - x alpha is 0 at x = 0 and at most 0 at x = 1/alpha, and concave in between: on every piece
    it is below the extended chords of the neighboring ones. Where f has a corner the maximum is a
    plateau, and the ends of that are found.
    """
    low, high = interval
    smallest = 1e-9
    if min(alpha, high) < smallest:
        return interval  # it is at most x itself, and x at most 1/alpha: both stay ordinary numbers
    sharper = replace(profile, tolerance=max(0.25 * profile.tolerance, FINEST))
    asked = {line.x for line in lines if smallest < line.x < 1.0 / alpha}
    inside = {x: sharper.line(float(np.log(x)), alpha) for x in asked}
    outer = [BoundedLine(0.0, 0.0, 0.0), BoundedLine(1.0 / alpha, -1.0, 0.0)]
    lines = sorted([*inside.values(), *outer], key=lambda line: line.x)
    widths: list[float] = []
    for _ in range(24):
        x, lows, highs = _arrays(lines)
        # the slope is at most 1 - alpha at x = 0, and nowhere less than -alpha
        minima, corners = cell_minima(x, -highs, -lows, -one_minus_up(alpha), alpha)
        cell = int(np.argmin(minima))
        high = min(high, max(-float(minima[cell]), low))
        left, right = lines[cell].x, lines[cell + 1].x
        margin = 0.02 * (right - left)
        widths.append(high - low)
        stuck = len(widths) > 4 and widths[-1] > 0.5 * widths[-5]
        if widths[-1] <= profile.tolerance * high or margin <= 1e-12 * right or stuck:
            break
        corner = min(max(float(corners[cell]), left + margin), right - margin)
        lines.insert(cell + 1, sharper.line(float(np.log(corner)), alpha))
        low = max(low, lines[cell + 1].low)
    return low, high


def true_positives(composition: Composition, alpha: float, tolerance: float) -> tuple[float, float]:
    """Certified (lower, upper) for the largest true-positive rate at false-positive rate alpha.

    At alpha = 0 that is the P-mass at infinite loss. Next to one it is read off the false-negative rate.
    """
    mass_low, mass_high = composition.infinite_p_ends
    if alpha == 0.0 or mass_low >= 1.0:
        return mass_low, mass_high
    if alpha < _SMALLEST_ALPHA:
        return max(mass_low, alpha), true_positives(composition, _SMALLEST_ALPHA, tolerance)[1]
    if alpha == 1.0:
        return 1.0, 1.0
    # what is missed is no less than 1 - alpha - H_1, which often shows that the bound is not needed
    if add_up(alpha, exp_up(composition.log_total_variation_upper)) > 0.999:
        log_missed = composition.log_missed_upper(alpha)
        if log_missed <= -38.0:  # it does not show in one minus it
            return one_minus_down(exp_up(log_missed)), 1.0
    low, high = _convex_minimum(composition, alpha, tolerance)
    low, high = max(low, mass_low, alpha), min(max(high, mass_high, alpha), 1.0)
    if low > 0.5:
        missed = false_negatives(composition, alpha, tolerance)
        low, high = max(low, one_minus_down(missed[1])), min(high, one_minus_up(missed[0]))
    return low, max(low, high)


def _convex_minimum(
    composition: Composition, alpha: float, tolerance: float
) -> tuple[float, float]:
    """(lower, upper) of the smallest H_x + x alpha: points where most is open, until little is."""
    # at x = 1, where H is the total variation
    at_one = add_up(alpha, exp_up(composition.log_total_variation_upper))
    low, high = alpha, min(at_one, 1.0)
    if high - low <= tolerance * high:
        return low, high
    profile = FullProfile(composition, composition.reverse(), max(0.2 * tolerance, FINEST))
    lines = _first_points(profile, alpha)
    widths: list[float] = []
    for _ in range(40):
        high = min(high, *(line.high for line in lines))
        # the slope is at least -1, and at most alpha
        minima, corners = cell_minima(*_arrays(lines), -1.0, alpha)
        cell = int(np.argmin(minima))
        low = max(low, float(minima[cell]))
        widths.append(high - low)
        stuck = len(widths) > 8 and widths[-1] > 0.5 * widths[-9]
        left, right = lines[cell].x, lines[cell + 1].x
        if widths[-1] <= tolerance * high or stuck or right - left <= 1e-12 * right:
            break
        point = profile.point(_inside(left, float(corners[cell]), right), alpha)
        if point is None:
            break
        lines.insert(cell + 1, point)
    return low, high


def _first_points(profile: FullProfile, alpha: float) -> list[BoundedLine]:
    """Points about the minimum and at the largest loss, between what is known at x = 0 and 1/alpha.

    H is 1 at x = 0, and at 1/alpha the sum is above 1 by what is left of H.
    """
    composition, farthest = profile.composition, -float(np.log(alpha))
    rest = composition.infinite_p_ends[0]
    outer = [
        BoundedLine(0.0, 1.0, 1.0),
        BoundedLine(1.0 / alpha, (1.0 + rest) * (1.0 - _TERM), 2.0),
    ]
    try:
        best, scale = profile.argmax(alpha)
    except NotCertified:  # nothing rides on where the search begins
        best, scale = 0.0, 1.0
    if composition.single_pair is not None:
        best = profile.kink(composition.single_pair, best, scale, alpha)
    size = max(abs(best), 1.0)
    step = min(max(1e-3 * scale, 1e-7 * size), 0.05 * size)
    best = min(best, farthest - step)
    epsilons = {best - step, best, best + step}
    if composition.single_pair is not None:  # others cost little more, and it may have a kink
        epsilons |= {best + share * step for share in (-1e-2, -1e-4, 1e-4, 1e-2)}
    # points that are hardly told apart would spoil the chords of the cells beside them
    largest = composition.largest_loss
    asked = [epsilon for epsilon in epsilons if abs(epsilon - largest) > 1e-12 * size]
    points = profile.points([epsilon for epsilon in [*asked, largest] if epsilon < farthest], alpha)
    seen = {point.x: point for point in points if 0.0 < point.x < outer[1].x}
    return sorted([*seen.values(), *outer], key=lambda line: line.x)


def _inside(left: float, x: float, right: float) -> float:
    """log of a number between two others, not too close to either; ratios count, not differences."""
    if left > 0.0 and right > 2.0 * left:
        log_left, log_right = float(np.log(left)), float(np.log(right))
        margin = 0.02 * (log_right - log_left)
        return min(max(float(np.log(max(x, left))), log_left + margin), log_right - margin)
    margin = 0.02 * (right - left)
    return float(np.log(min(max(x, left + margin), right - margin)))


@dataclass(frozen=True)
class FullProfile:
    """H_x for all x > 0: this direction at thresholds above zero, the reversed one below."""

    composition: Composition
    reverse: Composition
    tolerance: float

    def _direction(self, epsilon: float) -> Composition:
        """The composition whose delta at |epsilon| gives the profile at e^epsilon."""
        return self.composition if epsilon >= 0.0 else self.reverse

    def covered(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) of 1 - H at e^epsilon, any sign."""
        direction = self._direction(epsilon)
        low, high = direction.log_delta(abs(epsilon), self.tolerance)
        low, high = one_minus_down(min(exp_up(high), 1.0)), one_minus_up(exp_down(low))
        if epsilon >= 0.0:
            return low, high
        shrink = float(np.exp(epsilon))
        return shrink * low * (1.0 - _TERM), shrink * high * (1.0 + _TERM)

    def delta_above(self, epsilon: float) -> float:
        """About the delta that is subtracted from one at this threshold."""
        direction = self._direction(epsilon)
        return float(np.exp(min(direction.estimate(abs(epsilon))[0], 0.0)))

    def line(self, epsilon: float, alpha: float) -> BoundedLine:
        """The bounds on 1 - H_x - x alpha at one threshold."""
        direction = self._direction(epsilon)
        log_ends = direction.log_delta(abs(epsilon), self.tolerance)
        low, high = missed_lines(np.array([epsilon]), alpha, *(np.array([end]) for end in log_ends))
        return BoundedLine(float(np.exp(epsilon)), float(low[0]), float(high[0]))

    def lines(self, epsilons: list[float], alpha: float) -> list[BoundedLine]:
        """`line` at some thresholds, in one pass if that is quicker."""
        if self.composition.single_pair is None:
            return [self.line(epsilon, alpha) for epsilon in epsilons]
        thresholds = np.array(epsilons)
        return _bounded(thresholds, *missed_lines(thresholds, alpha, *self.log_deltas(thresholds)))

    def point(self, epsilon: float, alpha: float) -> BoundedLine | None:
        """H_x + x alpha at x = e^epsilon, a sum of positive terms; None if it cannot be computed."""
        direction = self._direction(epsilon)
        try:
            log_ends = direction.log_delta(abs(epsilon), self.tolerance)
        except NotCertified:  # other points may do
            return None
        low, high = hit_points(np.array([epsilon]), alpha, *(np.array([end]) for end in log_ends))
        return BoundedLine(float(np.exp(epsilon)), float(low[0]), float(high[0]))

    def points(self, epsilons: list[float], alpha: float) -> list[BoundedLine]:
        """`point` at some thresholds, in one pass if that is quicker; only those that can be computed."""
        if self.composition.single_pair is not None:
            thresholds = np.array(epsilons)
            try:
                ends = hit_points(thresholds, alpha, *self.log_deltas(thresholds))
            except NotCertified:
                pass
            else:
                return _bounded(thresholds, *ends)
        points = (self.point(epsilon, alpha) for epsilon in epsilons)
        return [point for point in points if point is not None]

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        """All lower and all upper ends of the log delta that gives the profile at each threshold."""
        low, high = np.empty(epsilons.size), np.empty(epsilons.size)
        for direction, chosen in (
            (self.composition, epsilons >= 0.0),
            (self.reverse, epsilons < 0.0),
        ):
            if chosen.any():
                distance = np.abs(epsilons[chosen])
                low[chosen], high[chosen] = direction.log_deltas(distance, self.tolerance)
        return low, high

    def missed(self, epsilons: Array) -> tuple[Array, Array]:
        """All lower and all upper ends of H at e^epsilon, any sign, to within rounding of one."""
        low, high = np.exp(self.log_deltas(epsilons))
        x, ahead = np.exp(epsilons), epsilons >= 0.0
        low, high = (np.where(ahead, delta, 1.0 - x * (1.0 - delta)) for delta in (low, high))
        slack = np.where(ahead, 0.0, 4.0 * _TERM)
        return np.maximum(low - slack, 0.0), np.minimum(high + slack, 1.0)

    def kink(self, pair: Pair, best: float, scale: float, alpha: float) -> float:
        """The threshold near `best` at which Q[L > k] passes alpha, where the bound on f is largest."""
        scale = min(scale, 700.0 - min(abs(best), 690.0))  # between jumps it may be anything
        low, high = best - scale, best + scale
        target = -float(np.log(alpha))
        low, sign = (max(low, 0.0), -1.0) if best >= 0.0 else (low, 1.0)
        if best < 0.0:
            high, target = min(high, -1e-300), float(np.log1p(-alpha))

        def passed(k: Array) -> Array:
            return sign * pair.log_tail_q(k)

        at_low, at_high = passed(np.array([low, high])).tolist()
        if at_low < target <= at_high:
            return crossing_in_passes(passed, target, low, high)[1]
        return golden_maximum(lambda k: self.line(k, alpha).low, best - scale, best + scale)

    def argmax(self, alpha: float) -> tuple[float, float]:
        """About the threshold at which the bound on f(alpha) is largest, and the scale there.

        Where the slope of the bound vanishes, alpha = Q[L > k]; below zero this reads
        1 - alpha = P[L > -k] in the other direction. Nothing rides on the result.
        """
        positive = threshold_at_rate(self.composition, alpha)
        if positive > 0.0:
            return positive, _scale(self.composition, positive)

        def over(epsilon: float) -> float:
            log_delta, slope = self.reverse.estimate(epsilon)
            return float(log_delta + np.log1p(slope) - np.log1p(-alpha))

        if over(0.0) <= 0.0:
            return 0.0, _scale(self.composition, 0.0)
        start, farthest = _scale(self.reverse, 0.0), min(self.reverse.largest_loss, FARTHEST)
        if (pair := self.reverse.single_pair) is None:
            root = falling_root(over, start, farthest)
        else:
            log_mass = safe_log(self.reverse.infinite_p_ends[1])

            def all_over(epsilons: Array) -> Array:
                log_delta = np.logaddexp(pair.log_hockey_stick(epsilons), log_mass)
                tail = np.logaddexp(log_delta, pair.log_tail_q(epsilons) + epsilons)
                return np.asarray(tail - np.log1p(-alpha))

            root = falling_root_in_passes(all_over, start, farthest)
        return -root, _scale(self.reverse, root)


def threshold_at_rate(composition: Composition, alpha: float) -> float:
    """About the threshold k >= 0 with Q[L > k] = alpha; 0 if it is below zero."""

    def over(epsilon: float) -> float:
        log_delta, slope = composition.estimate(epsilon)
        return float(log_delta + np.log(slope) - epsilon - np.log(alpha))

    if over(0.0) <= 0.0:
        return 0.0
    start, farthest = _scale(composition, 0.0), min(composition.largest_loss, FARTHEST)
    if (pair := composition.single_pair) is None:
        return falling_root(over, start, farthest)
    return falling_root_in_passes(lambda k: pair.log_tail_q(k) - np.log(alpha), start, farthest)


def _scale(composition: Composition, epsilon: float) -> float:
    """About the distance over which delta falls by a factor of e; bounded where it hardly falls."""
    return 1.0 / max(composition.estimate(epsilon)[1], 1.0 / FARTHEST)
