"""Finite pairs from certified values of a profile: convex functions above it, and below it.

h(x) = H_x(P||Q) is convex in x = e^loss and falls from 1 at x = 0 to 0 at the largest ratio. From
values at thresholds x_0 = 1 < x_1 < ... for both orders of P and Q one gets

- above: the lower convex hull of the points (x_j, upper value). Its knots lie above h, hence so do its
  chords;
- below: between x_j and x_{j+1} h is at least the line through (x_{j-1}, upper) and (x_j, lower), and
  that through (x_{j+1}, lower) and (x_{j+2}, upper); the hull of the corners of all these lies below.

A convex function with these ends is the profile of a pair whose Q-mass at x is the change of slope
there. Values span hundreds of orders of magnitude, so everything is kept as logarithms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdp.curves.atomic import AtomicPair
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_diff

# The masses are rounded; their profile is computed again, with error below this, and scaled to a side.
_MARGIN = 1e-9
# Losses that are closer than this are rounded versions of one.
_SAME_LOSS = 1e-12
# At so many losses the profiles of several pairs are compared.
_MOST_KNOTS = 400
_LOSS_ERROR = 8.0 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class Calls:
    """The part of a pair at losses > 0: log Q-masses, P-masses being e^loss times those; and log h(1)."""

    losses: Array
    log_q: Array
    log_total: float

    @property
    def log_p(self) -> Array:
        """log of the P-masses."""
        return self.log_q + self.losses

    def scaled(self, log_factor: float) -> Calls:
        """All masses times a factor."""
        return Calls(self.losses, self.log_q + log_factor, self.log_total + log_factor)

    def without_first(self) -> Calls:
        """All but the smallest loss."""
        return Calls(self.losses[1:], self.log_q[1:], self.log_total)

    def starting_with(self, mass: float) -> Calls:
        """The same with another Q-mass at the smallest loss."""
        if mass == 0.0:
            return self.without_first()
        return Calls(self.losses, np.append(np.log(mass), self.log_q[1:]), self.log_total)


def above_all(pairs: Sequence[AtomicPair]) -> AtomicPair:
    """A pair, the same in both directions, that dominates all of these and their reverses.

    It has the largest of all their profiles at many of their losses, joined by chords; if there are
    few losses also between them, where one profile may cross another.
    """
    every = [one for pair in pairs for one in (pair, pair.reverse())]
    losses = np.unique(np.concatenate([one.losses for one in every if isinstance(one, AtomicPair)]))
    losses = np.append(0.0, losses[losses > _SAME_LOSS])
    losses = losses[np.append(np.diff(losses) > _SAME_LOSS, True)]
    error = max(one.loss_error for one in every)
    last = losses.size - 1
    if last == 0:  # all losses are as good as none: one that is larger stands for them
        log_high = np.array([max(float(one.log_otm(losses)[0]) for one in every) + _MARGIN])
        calls = calls_above(losses, log_high, _SAME_LOSS + error)
        return joined(calls, calls, outwards=1.0)
    places = np.linspace(0.0, last, max(_MOST_KNOTS // last, 1) * last + 1)
    if last > _MOST_KNOTS:
        places = np.unique(np.linspace(0.0, last, _MOST_KNOTS).astype(int))
    knots = np.interp(places, np.arange(losses.size), losses)[:-1]
    # a loss is known to within its rounding, and profiles fall with it
    log_high = np.full(knots.shape, -np.inf)
    for one in every:
        values = one.log_otm(np.maximum(knots - error, 0.0)) + 2.0 * one.accuracy
        log_high = np.maximum(log_high, values)
    calls = calls_above(knots, log_high, float(losses[-1]) + error)
    return joined(calls, calls, outwards=1.0)


def calls_above(losses: Array, log_high: Array, largest_loss: float) -> Calls:
    """Masses whose profile is at least h, from upper values at losses 0 < ... < largest_loss."""
    knots = np.append(losses, largest_loss)
    values = np.append(np.minimum.accumulate(log_high), -np.inf)
    return _masses(*_hull(np.expm1(knots), knots, values), 1.0)


def calls_below(
    losses: Array, ahead: tuple[Array, Array], behind: tuple[Array, Array], largest_loss: float
) -> Calls:
    """Masses whose profile is at most h; `behind` are the values of (Q, P), for the line before x = 1."""
    shift = np.append(np.expm1(losses), np.expm1(largest_loss))
    low, high = (np.append(side, -np.inf) for side in ahead)
    start = min(float(low[0]), float(behind[0][0]))
    low = low.copy()
    low[0] = start
    # one step before x = 1: h(1/x) = 1 - 1/x + (1/x) H_x(Q||P), and no slope is below -1
    before = np.exp(-losses[1])
    first = -1.0 + (np.exp(start) - before * np.exp(behind[1][1])) / -np.expm1(-losses[1])
    corner, log_corner = _corners(shift, low, high, max(first, -1.0))
    shift, values = np.concatenate([shift, corner]), np.concatenate([low, log_corner])
    order = np.argsort(shift, kind="stable")
    shift, values = shift[order], values[order]
    last = int(np.argmax(np.isneginf(values)))
    if last == 0:
        return Calls(np.zeros(0), np.zeros(0), -np.inf)
    shift, values = shift[: last + 1], values[: last + 1]
    return _masses(*_hull(shift, np.log1p(shift), values), -1.0)


def _corners(shift: Array, low: Array, high: Array, first: float) -> tuple[Array, Array]:
    """Where the two lines over each cell meet, if they meet inside; all in units of the left value."""
    width = np.diff(shift)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        unit = low[:-1]
        right = np.exp(low[1:] - unit)
        steep = (1.0 - np.exp(high[:-2] - unit[1:])) / width[:-1]
        steep = np.concatenate([[first * np.exp(-unit[0])], steep])
        flat = np.minimum(np.exp(high[2:] - unit[:-1]) - right[:-1], 0.0) / width[1:]
        flat = np.append(flat, 0.0)
        place = (right - flat * width - 1.0) / (steep - flat)
        value = 1.0 + steep * place
        # a hair lower, for the rounding of all this
        value = value - _MARGIN * (1.0 + np.abs(steep) * width)
        inside = (steep < flat) & (place > 0.0) & (place < width) & np.isfinite(unit)
    log_value = unit[inside] + np.log(np.maximum(value[inside], 1e-300))
    log_value = np.where(value[inside] > 0.0, log_value, -np.inf)
    return shift[:-1][inside] + place[inside], log_value


def _hull(shift: Array, losses: Array, values: Array) -> tuple[Array, Array, Array]:
    """The lower convex hull of points (x - 1, e^value) that start at x = 1 and end with value 0."""
    kept: list[int] = []
    slopes: list[float] = []
    for new in range(shift.size):
        while kept:
            slope = _log_slope(shift, values, kept[-1], new)
            if len(kept) == 1 or slope < slopes[-1]:
                slopes.append(slope)
                break
            kept.pop()
            slopes.pop()
        kept.append(new)
    return shift[kept], losses[kept], values[kept]


def _log_slope(shift: Array, values: Array, left: int, right: int) -> float:
    """log of how steeply the line through two points falls; -inf if it does not."""
    if not values[right] < values[left]:
        return -np.inf
    fall = values[left] + np.log(-np.expm1(values[right] - values[left]))
    return float(fall - np.log(shift[right] - shift[left]))


def _masses(shift: Array, losses: Array, values: Array, outwards: float) -> Calls:
    """Changes of slope as masses, scaled until their own profile is beyond all values on this side."""
    widths = np.log(np.diff(shift))
    log_slope = log_diff(values[:-1], values[1:]) - widths
    log_q = log_diff(log_slope, np.append(log_slope[1:], -np.inf))
    tails = np.logaddexp.accumulate(log_q[::-1])[::-1]
    own = np.logaddexp.accumulate((tails + widths)[::-1])[::-1]
    known = np.isfinite(values[:-1])
    beyond = outwards * float(np.max(outwards * (values[:-1] - own)[known])) + outwards * _MARGIN
    positive = np.isfinite(log_q)
    calls = Calls(losses[1:][positive], log_q[positive], float(own[0]))
    return calls.scaled(beyond)


def joined(ahead: Calls, behind: Calls, *, outwards: float) -> AtomicPair:
    """The pair with these masses above loss zero, seen from both sides, and the rest at loss zero.

    Both sides must agree on h(1): the one that is off is moved outwards (+1 up, -1 down).
    """
    aim = outwards * max(outwards * ahead.log_total, outwards * behind.log_total)
    if aim == -np.inf:
        # nothing is known to be revealed
        return AtomicPair((0.0,), (0.0,), (0.0,))
    same = ahead is behind
    ahead = ahead.scaled(aim - ahead.log_total)
    behind = ahead if same else behind.scaled(aim - behind.log_total)
    middle = 1.0 - float(np.sum(np.exp(ahead.log_q))) - float(np.sum(np.exp(behind.log_p)))
    if middle < 0.0:
        ahead, behind = _without_middle(ahead, behind)
    log_middle = [np.log(middle)] if middle > 0.0 else []
    zero = [0.0] * len(log_middle)
    return AtomicPair(
        (*(-behind.losses[::-1]).tolist(), *zero, *ahead.losses.tolist()),
        (*behind.log_q[::-1].tolist(), *log_middle, *ahead.log_p.tolist()),
        (*behind.log_p[::-1].tolist(), *log_middle, *ahead.log_q.tolist()),
        rounded=_LOSS_ERROR,
    )


def _without_middle(ahead: Calls, behind: Calls) -> tuple[Calls, Calls]:
    """The same with one chord across loss zero, where the knot there would lie above it.

    Knots next to zero that lie above the chord are left out too, until none does.
    """
    same = ahead is behind
    while ahead.losses.size and behind.losses.size:
        alpha, beta = _ends_of_chord(ahead, behind)
        if alpha >= 0.0 and beta >= 0.0:
            ahead, behind = ahead.starting_with(alpha), behind.starting_with(beta)
            return ahead, ahead if same else behind
        if alpha < 0.0 or same:
            ahead = ahead.without_first()
        if beta < 0.0 or same:
            behind = behind.without_first()
    raise NotCertified("the values of a profile are too far apart to make a pair of them.")


def _ends_of_chord(ahead: Calls, behind: Calls) -> tuple[float, float]:
    """The nearest masses on both sides that give P and Q mass one each.

    With b, a the nearest ratios and R_p, R_q what the other masses leave, Q has
    (R_p - a R_q) / (b - a) at b, and P has a (b R_q - R_p) / (b - a) at a.
    """
    to_b, to_a = float(np.expm1(ahead.losses[0])), -float(np.expm1(-behind.losses[0]))
    rest_q = 1.0 - float(np.sum(np.exp(ahead.log_q[1:])) + np.sum(np.exp(behind.log_p[1:])))
    # R_p - R_q, without forming either
    gap = float(np.sum(np.exp(behind.log_q[1:]) * np.expm1(behind.losses[1:])))
    gap -= float(np.sum(np.exp(ahead.log_q[1:]) * np.expm1(ahead.losses[1:])))
    alpha = (gap + to_a * rest_q) / (to_b + to_a)
    return alpha, (1.0 - to_a) * (to_b * rest_q - gap) / (to_b + to_a)
