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

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sharpdp.bracket import Side
from sharpdp.errors import NotCertified
from sharpdp.numerics.hull import lower_hull, meeting
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_diff, safe_log
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import Pair

# Losses that are closer than this are rounded versions of one.
_SAME_LOSS = 1e-12


@dataclass(frozen=True)
class CallSide:
    """The part of a pair at losses > 0: log Q-masses, P-masses being e^loss times those; and log h(1)."""

    losses: Array
    log_q: Array
    log_total: float

    @property
    def log_p(self) -> Array:
        """log of the P-masses."""
        return self.log_q + self.losses

    def scaled(self, log_factor: float) -> CallSide:
        """All masses times a factor."""
        return CallSide(self.losses, self.log_q + log_factor, self.log_total + log_factor)

    def without_first(self) -> CallSide:
        """All but the smallest loss."""
        return CallSide(self.losses[1:], self.log_q[1:], self.log_total)

    def starting_with(self, mass: float) -> CallSide:
        """These masses with another Q-mass at the smallest loss."""
        if mass == 0.0:
            return self.without_first()
        return CallSide(self.losses, np.append(np.log(mass), self.log_q[1:]), self.log_total)


def above_all(pairs: Sequence[AtomicPair], limit: int = 400) -> AtomicPair:
    """A pair, the same in both directions, that dominates all of these and their reverses.

    It has the largest of all their profiles at so many of their losses, joined by chords; if there are
    few losses also between them, where one profile may cross another.
    """
    every = list({member: None for pair in pairs for member in (pair, pair.reverse())})
    losses = np.unique(np.concatenate([member.losses for member in every]))
    losses = np.append(0.0, losses[losses > _SAME_LOSS])
    losses = losses[np.append(np.diff(losses) > _SAME_LOSS, True)]
    error = max(member.loss_error for member in every)
    last = losses.size - 1
    if last == 0:  # all losses are as good as none: one that is larger stands for them
        log_high = np.array([max(_log_at_zero(member) for member in every) + PROFILE_ERROR])
        calls = calls_above(losses, log_high, _SAME_LOSS + error)
        return pair_from_halves(calls, calls, side=Side.UPPER)
    indices = np.linspace(0.0, last, max(limit // last, 1) * last + 1)
    if last > limit:
        indices = np.unique(np.linspace(0.0, last, limit).astype(int))
    knots = np.interp(indices, np.arange(losses.size), losses)[:-1]
    # a loss is known to within its rounding, and profiles fall with it
    log_high = np.full(knots.shape, -np.inf)
    for member in every:
        values = member.log_hockey_stick(np.maximum(knots - error, 0.0)) + 2.0 * member.accuracy
        short = np.where(knots < error, safe_log(member.mean_loss_error), -np.inf)
        log_high = np.maximum(log_high, np.logaddexp(values, short))
    calls = calls_above(knots, log_high, float(losses[-1]) + error)
    return pair_from_halves(calls, calls, side=Side.UPPER)


def _log_at_zero(pair: Pair) -> float:
    """log of the value at loss zero, the rounding of losses included."""
    return float(
        np.logaddexp(pair.log_hockey_stick(np.zeros(1))[0], safe_log(pair.mean_loss_error))
    )


def calls_above(losses: Array, log_high: Array, largest_loss: float) -> CallSide:
    """Masses whose profile is at least h, from upper values at losses 0 < ... < largest_loss."""
    knots = np.append(losses, largest_loss)
    values = np.append(np.minimum.accumulate(log_high), -np.inf)
    corners = convex_knots(knots, values)
    return _masses(knots[corners], values[corners], Side.UPPER)


def calls_below(
    losses: Array,
    ahead: tuple[Array, Array],
    behind: tuple[Array, Array],
    largest_loss: float,
    log_rest: float = -np.inf,
    infinite: tuple[float, float] = (0.0, 0.0),
) -> CallSide:
    """Masses whose profile is at most h; `behind` are the values of (Q, P), for the line before x = 1.

    h is at most e^log_rest at the largest loss: zero, unless losses may be larger after all. All values
    are those above the `infinite` masses, of P at loss +inf and of Q at -inf.
    """
    # thresholds may go on for the other order: beyond the largest loss there is nothing to extend
    within = losses < largest_loss
    knots = np.append(losses[within], largest_loss)
    low, high = np.append(ahead[0][within], -np.inf), np.append(ahead[1][within], log_rest)
    plus, minus = infinite
    other = float(behind[0][0])
    if plus != minus:
        other = safe_log(max(math.exp(other) + minus - plus, 0.0))
    start = min(float(low[0]), other)
    low[0] = start
    # one step before x = 1: h(1/x) = 1 - 1/x + (1/x) H_x(Q||P), and no slope is below -1
    before = math.exp(-losses[1]) * (math.exp(behind[1][1]) + minus)
    first = -1.0 + (math.exp(start) + plus - before) / -math.expm1(-losses[1])
    corner, log_corner = _corners(knots, low, high, max(first, -1.0))
    knots, values = np.concatenate([knots, corner]), np.concatenate([low, log_corner])
    order = np.lexsort((values, knots))  # of two values at one loss the lower one
    knots, values = knots[order], values[order]
    new = np.append(True, np.diff(knots) > 0.0)
    knots, values = knots[new], values[new]
    last = int(np.argmax(np.isneginf(values)))
    if last == 0:
        return CallSide(np.zeros(0), np.zeros(0), -np.inf)
    knots, values = knots[: last + 1], values[: last + 1]
    corners = convex_knots(knots, values)
    return _masses(knots[corners], values[corners], Side.LOWER)


def _corners(losses: Array, low: Array, high: Array, first: float) -> tuple[Array, Array]:
    """Where the two lines over each cell meet, if they meet inside, and the log value there.

    All in units of the value and of the ratio x at the cell's left end.
    """
    steps = np.diff(losses)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        width = np.expm1(steps)
        unit = low[:-1]
        right = np.exp(low[1:] - unit)
        # each slope from one difference of logarithms, so that it is right relative to itself
        steep = np.expm1(high[:-2] - unit[1:]) / np.expm1(-steps[:-1])
        steep = np.concatenate([[first * np.exp(-unit[0])], steep])
        flat = right[:-1] * np.minimum(np.expm1(high[2:] - low[1:-1]), 0.0)
        flat = np.append(flat / (np.exp(steps[:-1]) * width[1:]), 0.0)
        # over a cell too wide for doubles the right value alone is used: h falls
        flat = np.where(np.isfinite(width), flat, 0.0)
        offset = meeting(np.ones(1), right, steep, flat, np.where(flat < 0.0, width, 0.0))
        value = 1.0 + steep * offset
        # a hair lower, for the rounding of all this
        value = value - PROFILE_ERROR * (1.0 + np.abs(steep) * offset)
        inside = (steep < flat) & (offset > 0.0) & (offset < width) & np.isfinite(unit)
        corner = losses[:-1] + np.log1p(offset)
        # a corner that is rounded to an end of its cell is moved to the right one, where h is lower
        low_there = np.where(corner > losses[:-1], value, np.minimum(value, right))
        corner = np.where(corner > losses[:-1], np.minimum(corner, losses[1:]), losses[1:])
        log_value = np.where(low_there > 0.0, unit + np.log(np.maximum(low_there, 1e-300)), -np.inf)
    return corner[inside], log_value[inside]


def convex_knots(losses: Array, values: Array) -> list[int]:
    """Which of the points (e^loss, e^value), in rising order, are on their lower convex hull."""
    return lower_hull(list(zip(losses.tolist(), values.tolist(), strict=True)), _minus_log_fall)


def _minus_log_fall(left: tuple[float, float], right: tuple[float, float]) -> float:
    """-log of how steeply the chord of (e^loss, e^value) falls; inf if it does not."""
    (loss, value), (next_loss, next_value) = left, right
    if not next_value < value:
        return np.inf
    fall = value + math.log(-math.expm1(next_value - value))
    return -(fall - next_loss - math.log(-math.expm1(loss - next_loss)))


def _masses(losses: Array, values: Array, side: Side) -> CallSide:
    """Changes of slope as masses, scaled until their own profile is beyond all values on this side."""
    log_slope = log_diff(values[:-1], values[1:]) - log_diff(losses[1:], losses[:-1])
    log_q = log_diff(log_slope, np.append(log_slope[1:], -np.inf))
    own = _profile(losses, log_q + losses[1:])
    finite = np.isfinite(values[:-1])
    off = side.sign * (values[:-1][finite] - own[finite])
    beyond = (
        side.sign * (float(np.max(off, initial=-np.inf)) + PROFILE_ERROR) if finite.any() else 0.0
    )
    positive = np.isfinite(log_q)
    calls = CallSide(losses[1:][positive], log_q[positive], float(own[0]))
    return calls.scaled(beyond)


def _profile(losses: Array, log_p: Array) -> Array:
    """log of the calls at all losses but the last, of P-masses at all but the first.

    With T the Q-mass beyond a loss times e^loss, calls grow by T (1 - e^-step) from one loss to the one
    before. Both are kept relative to e^unit, the largest term so far to within 300 nats, so that sums of
    n terms are off by n units of rounding.
    """
    tail, call, unit = 0.0, 0.0, -np.inf
    logs = []
    for step, log_mass in zip(np.diff(losses)[::-1].tolist(), log_p[::-1].tolist(), strict=True):
        if log_mass > unit + 300.0:
            shrink = math.exp(unit - log_mass)
            tail, call, unit = tail * shrink, call * shrink, log_mass
        tail += math.exp(log_mass - unit) if math.isfinite(log_mass) else 0.0
        call += tail * -math.expm1(-step)
        tail *= math.exp(-step)
        logs.append(unit + math.log(call) if call > 0.0 else -np.inf)
    return np.array(logs[::-1])


def pair_from_halves(
    ahead: CallSide, behind: CallSide, *, side: Side, infinite: tuple[float, float] = (0.0, 0.0)
) -> AtomicPair:
    """The pair with these masses above loss zero, seen from both sides, and the rest at loss zero.

    `infinite` are the P-mass at loss +inf and the Q-mass at -inf. Both sides must agree on h(1): the
    one that is off is moved to the safe side.
    """
    plus, minus = infinite
    log_totals = side.sign * np.array(
        [
            np.logaddexp(ahead.log_total, safe_log(plus)),
            np.logaddexp(behind.log_total, safe_log(minus)),
        ]
    )
    aim = side.sign * float(np.max(log_totals))
    if aim == -np.inf:
        # nothing is known to be revealed
        return AtomicPair((0.0,), (0.0,), (0.0,))
    same = ahead is behind
    ahead, plus = _moved(ahead, aim, plus)
    behind, minus = (ahead, plus) if same else _moved(behind, aim, minus)
    middle = 1.0 - minus - float(np.sum(np.exp(ahead.log_q))) - float(np.sum(np.exp(behind.log_p)))
    if middle < 0.0:
        ahead, behind = _without_middle(ahead, behind, (plus, minus))
    log_middle = [np.log(middle)] if middle > 0.0 else []
    zero = [0.0] * len(log_middle)
    return AtomicPair(
        (*(-behind.losses[::-1]).tolist(), *zero, *ahead.losses.tolist()),
        (*behind.log_q[::-1].tolist(), *log_middle, *ahead.log_p.tolist()),
        (*behind.log_p[::-1].tolist(), *log_middle, *ahead.log_q.tolist()),
        plus,
        minus,
        loss_error=8.0 * UNIT_ROUNDOFF,
        mean_errors=(0.0, 0.0),  # the pair is the one with these losses
    )


def _moved(calls: CallSide, aim: float, infinite: float) -> tuple[CallSide, float]:
    """The masses with finite losses scaled until h(1) is e^aim; the infinite one if there are none."""
    if calls.losses.size and aim > safe_log(infinite):
        return calls.scaled(float(log_diff(aim, safe_log(infinite))) - calls.log_total), infinite
    return CallSide(np.zeros(0), np.zeros(0), -np.inf), math.exp(aim)


def _without_middle(
    ahead: CallSide, behind: CallSide, infinite: tuple[float, float]
) -> tuple[CallSide, CallSide]:
    """Both halves with one chord across loss zero, where the knot there would lie above it.

    Knots next to zero that lie above the chord are left out too, until none does; so are those whose
    masses are beyond all doubles. A chord across a knot is above it or safe without it.
    """
    same = ahead is behind
    while ahead.losses.size and behind.losses.size:
        alpha, beta = _ends_of_chord(ahead, behind, infinite)
        if alpha >= 0.0 and beta >= 0.0:
            ahead, behind = ahead.starting_with(alpha), behind.starting_with(beta)
            return ahead, ahead if same else behind
        if not alpha >= 0.0 or same:
            ahead = ahead.without_first()
        if not beta >= 0.0 or same:
            behind = behind.without_first()
    raise NotCertified("the values of a profile are too far apart to make a pair of them.")


def _ends_of_chord(
    ahead: CallSide, behind: CallSide, infinite: tuple[float, float]
) -> tuple[float, float]:
    """The nearest masses on both sides that give P and Q mass one each.

    With b, a the nearest ratios and R_p, R_q what the other masses leave, Q has
    (R_p - a R_q) / (b - a) at b, and P has a (b R_q - R_p) / (b - a) at a.
    """
    to_b, to_a = float(np.expm1(ahead.losses[0])), -float(np.expm1(-behind.losses[0]))
    plus, minus = infinite
    rest_q = 1.0 - minus - float(np.sum(np.exp(ahead.log_q[1:])) + np.sum(np.exp(behind.log_p[1:])))
    # R_p - R_q, without forming either
    gap = minus - plus - float(np.sum(np.exp(behind.log_p[1:]) * np.expm1(-behind.losses[1:])))
    gap += float(np.sum(np.exp(ahead.log_p[1:]) * np.expm1(-ahead.losses[1:])))
    alpha = (gap + to_a * rest_q) / (to_b + to_a)
    # a itself, which is no difference from one: its P-mass may be tiny where its Q-mass is not
    ratio = math.exp(-behind.losses[0])
    return alpha, ratio * (rest_q - gap / to_b) / (1.0 + to_a / to_b)
