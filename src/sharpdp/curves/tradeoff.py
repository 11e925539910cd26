"""Trade-off curves: the smallest false-negative rate at each false-positive rate, enclosed.

For H0 = Q and H1 = P and x = e^epsilon over the whole line,

    f(alpha) = sup_x 1 - H_x(P||Q) - x alpha,

a supremum of a concave function of x. Any x gives a lower bound on f. Three points around the maximum
give an upper bound, because a concave function stays below the extended chords of its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sharpdp.curves.compose import Composition, refusing_nonsense
from sharpdp.curves.pair import Pair
from sharpdp.numerics.monotone import falling_root, golden_maximum, straight_crossing

# The three points are this fraction of the profile's own scale apart, in epsilon.
_STEP, _SMALL_STEP = 1e-3, 1e-7
_WIDENINGS, _GROWTH = 8, 4.0
_FARTHEST = 1e7
_TINY = 1e-300
# Rates below the first are not resolved relative to themselves, nor is delta below the second.
_SMALLEST_RATE, _FINEST = 1e-3, 1e-8
# Allowance for the rounding of masses at infinite loss.
_REVEALED = 1e-12
# If three lines leave more open than was asked, so many more are asked for, sharper by this factor, each
# this far from the ends of its piece, down to pieces this short relative to where they are; as long as so
# many of them halve the width.
_MORE_LINES, _SHARPER, _INSIDE, _CLOSE, _PATIENCE = 24, 0.25, 0.02, 1e-12, 4
# Rates smaller than this are not worth more lines.
_FINEST_RATE = 1e-9


@dataclass(frozen=True)
class Line:
    """1 - H_x - x alpha at one x, between two bounds."""

    x: float
    low: float
    high: float


def false_negatives(
    composition: Composition, alpha: float, tolerance: float
) -> tuple[float, float]:
    """Certified (lower, upper) for the smallest false-negative rate at false-positive rate alpha.

    Thresholds above zero are read from this direction, those below from the reversed one:
    H_x(P||Q) = 1 - x + x H_{1/x}(Q||P).
    """
    # f begins at or below the one and is zero from the other on, and is convex in between
    top = 1.0 - composition.infinite_p + _REVEALED
    end = 1.0 - composition.reverse().infinite_p + _REVEALED
    if alpha >= min(end, 1.0):
        return 0.0, 0.0
    with refusing_nonsense():
        forward, lines = _around_the_maximum(composition, alpha, tolerance)
        low, high = max(0.0, *(line.low for line in lines)), concave_maximum(lines)
        if not high < 1.0 - alpha:
            # 1 - H_x grows with x and x alpha exceeds one beyond 1/alpha: f(alpha) <= 1 - H_{1/alpha}
            high = min(1.0 - alpha, forward.covered(-float(np.log(alpha)))[1])
        high = min(high, top * (1.0 - alpha / end) + _REVEALED)
        if high - low > tolerance * high:
            low, high = _outlined(forward, alpha, lines, (low, high))
        return low, max(low, high)


def _around_the_maximum(
    composition: Composition, alpha: float, tolerance: float
) -> tuple[Sided, list[Line]]:
    """Three lines, the middle one about the largest, and where to ask for more of them."""
    forward = Sided(composition, composition.reverse(), tolerance)
    best, scale = forward.argmax(alpha)
    step = _STEP * scale
    if composition.single is not None:
        # one pair is cheap to evaluate, and may have kinks: find the maximum itself
        best = forward.kink(composition.single, best, scale, alpha)
        step = _SMALL_STEP * scale
    rough = max(forward.line(best, alpha).high, 0.0)
    above = max(forward.delta_above(best), _SMALLEST_RATE)
    finer = tolerance * min(1.0, max(rough, _SMALLEST_RATE) / above)
    forward = replace(forward, tolerance=max(finer, _FINEST))
    lines = [forward.line(best + offset, alpha) for offset in (-step, 0.0, step)]
    for _ in range(_WIDENINGS):
        if lines[0].high <= lines[1].low and lines[2].high <= lines[1].low:
            break
        step *= _GROWTH
        lines = [forward.line(best - step, alpha), lines[1], forward.line(best + step, alpha)]
    return forward, lines


def _outlined(
    forward: Sided, alpha: float, lines: list[Line], known: tuple[float, float]
) -> tuple[float, float]:
    """(lower, upper) of the maximum, from more lines: one at the corner that leaves most open, each time.

    1 - H_x - x alpha is 0 at x = 0 and at most 0 at x = 1/alpha, and concave in between: on every piece
    it is below the extended chords of the neighbouring ones. Where f has a corner the maximum is a
    plateau, and the ends of that are found.
    """
    low, high = known
    if min(alpha, high) < _FINEST_RATE:
        return known  # it is at most x itself, and x at most 1/alpha: both stay ordinary numbers
    sharper = replace(forward, tolerance=max(_SHARPER * forward.tolerance, _FINEST))
    places = {line.x for line in lines if _FINEST_RATE < line.x < 1.0 / alpha}
    inside = {x: sharper.line(float(np.log(x)), alpha) for x in places}
    ends = [Line(0.0, 0.0, 0.0), Line(1.0 / alpha, -1.0, 0.0)]
    lines = sorted([*inside.values(), *ends], key=lambda line: line.x)
    widths: list[float] = []
    for _ in range(_MORE_LINES):
        corners = [_corner(lines, place, alpha) for place in range(len(lines) - 1)]
        most, at, place = max((*corner, place) for place, corner in enumerate(corners))
        high = min(high, max(most, low))
        left, right = lines[place].x, lines[place + 1].x
        margin = _INSIDE * (right - left)
        widths.append(high - low)
        stuck = len(widths) > _PATIENCE and widths[-1] > 0.5 * widths[-1 - _PATIENCE]
        if widths[-1] <= forward.tolerance * high or margin <= _CLOSE * right or stuck:
            break
        at = min(max(at, left + margin), right - margin)
        lines.insert(place + 1, sharper.line(float(np.log(at)), alpha))
        low = max(low, lines[place + 1].low)
    return low, high


def _corner(lines: list[Line], place: int, alpha: float) -> tuple[float, float]:
    """(value, x) of the largest value that concavity leaves open between two neighbouring lines.

    The slope is at most 1 - alpha at x = 0, and nowhere less than -alpha.
    """
    left, right = lines[place], lines[place + 1]
    step, rise, fall = right.x - left.x, 1.0 - alpha, alpha
    if place > 0:
        before = lines[place - 1]
        rise = (left.high - before.low) / (left.x - before.x)
    if place + 2 < len(lines):
        after = lines[place + 2]
        fall = (right.high - after.low) / (after.x - right.x)
    meeting = 0.0
    if rise + fall > 0.0:
        meeting = min(max((right.high - left.high + fall * step) / (rise + fall), 0.0), step)

    def bound(across: float) -> float:
        parts = rise * across, fall * (step - across)
        slack = 1e-15 * (1.0 + abs(parts[0]) + abs(parts[1]))
        return min(left.high + parts[0], right.high + parts[1]) + slack

    return max((bound(across), left.x + across) for across in (0.0, meeting, step))


def concave_maximum(lines: list[Line]) -> float:
    """An upper bound on the maximum of a concave function known to within bounds at three points.

    Between two of the points the chord of the other two, extended, bounds it from above; outside
    them too, where it falls away. If it is not seen to fall on both sides there is no bound (inf).
    """
    left, middle, right = lines
    if left.high > middle.low or right.high > middle.low:
        return np.inf
    rise_left = max(middle.high - right.low, 0.0) / (right.x - middle.x)
    rise_right = max(middle.high - left.low, 0.0) / (middle.x - left.x)
    return middle.high + max(rise_left * (middle.x - left.x), rise_right * (right.x - middle.x))


@dataclass(frozen=True)
class Sided:
    """The profile on the whole line from the two directions at nonnegative thresholds."""

    forward: Composition
    backward: Composition
    tolerance: float

    def covered(self, epsilon: float) -> tuple[float, float]:
        """(lower, upper) of 1 - H at e^epsilon, any sign."""
        if epsilon >= 0.0:
            low, high = self.forward.log_delta(epsilon, self.tolerance)
            return 1.0 - float(np.exp(high)), 1.0 - float(np.exp(low))
        low, high = self.backward.log_delta(-epsilon, self.tolerance)
        shrink = float(np.exp(epsilon))
        return shrink * (1.0 - float(np.exp(high))), shrink * (1.0 - float(np.exp(low)))

    def delta_above(self, epsilon: float) -> float:
        """About the delta that is subtracted from one at this threshold."""
        side = self.forward if epsilon >= 0.0 else self.backward
        return float(np.exp(min(side.estimate(abs(epsilon))[0], 0.0)))

    def line(self, epsilon: float, alpha: float) -> Line:
        """The bounds at one threshold."""
        x = float(np.exp(epsilon))
        low, high = self.covered(epsilon)
        rounding = 1e-15 * (1.0 + x * alpha)
        return Line(x, low - x * alpha - rounding, high - x * alpha + rounding)

    def kink(self, pair: Pair, best: float, scale: float, alpha: float) -> float:
        """The threshold near `best` at which Q[L > k] passes alpha, where the bound on f is largest."""
        low, high = best - scale, best + scale
        target = -float(np.log(alpha))
        low, sign = (max(low, 0.0), -1.0) if best >= 0.0 else (low, 1.0)
        if best < 0.0:
            high, target = min(high, -_TINY), float(np.log1p(-alpha))

        def passed(k: float) -> float:
            return sign * float(pair.log_tail_q(np.array([k]))[0])

        if passed(low) < target <= passed(high):
            return straight_crossing(passed, target, low, high)[1]
        return golden_maximum(lambda k: self.line(k, alpha).low, best - scale, best + scale)

    def argmax(self, alpha: float) -> tuple[float, float]:
        """About the threshold at which the bound on f(alpha) is largest, and the scale there.

        Where the slope of the bound vanishes, alpha = Q[L > k]; below zero this reads
        1 - alpha = P[L > -k] in the other direction. Nothing rides on the result.
        """
        positive = threshold_at_rate(self.forward, alpha)
        if positive > 0.0:
            return positive, 1.0 / self.forward.estimate(positive)[1]

        def over(epsilon: float) -> float:
            log_delta, slope = self.backward.estimate(epsilon)
            return float(log_delta + np.log1p(slope) - np.log1p(-alpha))

        if over(0.0) <= 0.0:
            return 0.0, 1.0 / self.forward.estimate(0.0)[1]
        scale = 1.0 / max(self.backward.estimate(0.0)[1], 1.0 / _FARTHEST)
        root = falling_root(over, scale, min(self.backward.largest_loss, _FARTHEST))
        return -root, 1.0 / self.backward.estimate(root)[1]


def threshold_at_rate(composition: Composition, alpha: float) -> float:
    """About the threshold k >= 0 with Q[L > k] = alpha; 0 if it is below zero."""

    def over(epsilon: float) -> float:
        log_delta, slope = composition.estimate(epsilon)
        return float(log_delta + np.log(slope) - epsilon - np.log(alpha))

    if over(0.0) <= 0.0:
        return 0.0
    scale = 1.0 / max(composition.estimate(0.0)[1], 1.0 / _FARTHEST)
    return falling_root(over, scale, min(composition.largest_loss, _FARTHEST))
