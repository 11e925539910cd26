"""Pairs that someone knows by their privacy profile: delta as a function of epsilon.

Nothing but values of the profile is used, each with an interval that is believed to hold the truth. A
profile is convex in e^epsilon, so values at nodes enclose it: chords lie above it, extended chords below
(see `pairs.from_profile_values`). Either enclosure is the profile of a pair with finitely many
outcomes. How fast the
profile falls is nowhere computed from a difference of two close values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.errors import InvalidArgument
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import AtomicPair, TabulatedPair
from sharpdp.pairs.from_profile_values import (
    CallSide,
    calls_above,
    calls_below,
    convex_knots,
    pair_from_halves,
)
from sharpdp.pairs.pair import NO_HINTS, Hints

__all__ = ["ProfilePair", "profile_pairs"]

Curve = Callable[[Array], Array]

RELATIVE_ERROR, THRESHOLD_ERROR = 1e-9, 16.0 * UNIT_ROUNDOFF
"""What is asked of a user's function: its relative error above the value that it falls to, and how
far off, relative to 1 + epsilon, the epsilon may be that its value belongs to."""

SMALLEST_DELTA = 1e-300
"""Smaller values may have underflowed; they count as this much from above, and as zero from below."""

_MOST_PIECES, _ROUNDS = 8, 64
_NARROWEST = 2.0**-44
"""Cells are not split if they are narrower than this, relative to 1 + epsilon."""


@dataclass(frozen=True)
class ProfilePair(TabulatedPair):
    """A pair with finitely many outcomes whose profile is on one side of a given one."""

    @property
    def symmetric(self) -> bool:
        return self.outcomes.symmetric

    def reverse(self) -> ProfilePair:
        reverse = self.outcomes.reverse()
        assert isinstance(reverse, AtomicPair)
        return ProfilePair(reverse)

    @property
    def hints(self) -> Hints:
        # few outcomes are composed one by one; from more of them compositions choose for their question
        return super().hints if len(self.outcomes.losses) <= 4096 else NO_HINTS

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}] of this pair."""
        return self.outcomes.log_moment(order)


def profile_pairs(
    profile: Curve, reverse: Curve | None = None, largest_loss: float = np.inf
) -> dict[Side, ProfilePair]:
    """Pairs below and above a profile delta(epsilon), epsilon >= 0, and that with P and Q swapped.

    Beyond the last epsilon at which both are numbers, or at which noise shows, the upper side counts
    all that is left as P-mass at loss +inf, and the lower side leaves it out. What is left at
    `largest_loss`, or at the largest double if that gives a number, is at +inf on both sides.

    Numerics: values are believed to be right to a relative 1e-9, at an epsilon that is off by 2e-15
    (1 + epsilon); below 1e-300 they may have underflowed, unless `largest_loss` says that there is
    nothing more.

    >>> def response(k):
    ...     return np.maximum(-np.expm1(np.minimum(k, 1) - 1) / (1 + np.exp(-1)), 0)
    >>> pairs = profile_pairs(response)
    >>> round(
    ...     float(np.exp(pairs[Side.LOWER].log_hockey_stick(np.array([0.5]))[0])), 5
    ... )  # (1 - e^-1/2) / (1 + e^-1)
    0.28765
    """
    curves = (profile,) if reverse is None else (profile, reverse)
    nodes = _chosen(curves, largest_loss)
    for _ in range(_ROUNDS):
        bounds, noisy = _enclosed(curves, nodes, largest_loss)
        if noisy is None:
            break
        nodes = _cut(nodes, *noisy)
    else:
        raise _refusal("profile", nodes, 0, 0)
    if not bounds[0].low[0] <= bounds[-1].high[0] or not bounds[-1].low[0] <= bounds[0].high[0]:
        values = nodes.values[:, 0]
        raise InvalidArgument(
            "reverse must begin at the same delta as profile, since the total variation is the same in "
            f"both orders; got {float(values[-1])!r} and {float(values[0])!r} at epsilon = 0."
        )
    ahead, behind = bounds[0], bounds[-1]
    upper = _above(nodes.losses, ahead, behind)
    if np.exp(upper.log_hockey_stick(np.zeros(1))[0]) + upper.infinite_p < max(
        ahead.low[0], behind.low[0]
    ):
        raise InvalidArgument(
            "profile must be that of a pair of distributions; got one that falls too fast at epsilon = 0"
            f" ({float(nodes.values[0, 0]):.12g} there) for what it is with the two data sets swapped. "
            "Give that as reverse, or TradeoffCurve.from_points if it is an upper bound only."
        )
    lower = _below(nodes.losses, ahead, behind)
    return {Side.LOWER: ProfilePair(lower), Side.UPPER: ProfilePair(upper)}


@dataclass(frozen=True)
class _Nodes:
    """Thresholds from zero on and the values of one or two profiles there; whether the last is the end.

    `complete` says that whatever is left at the last threshold is at infinite loss.
    """

    losses: Array
    values: Array
    complete: bool

    def at(self, curves: tuple[Curve, ...], losses: Array) -> _Nodes:
        """The profile's values at more thresholds."""
        new = np.setdiff1d(losses, self.losses)
        every = np.concatenate([self.losses, new])
        order = np.argsort(every)
        values = np.concatenate([self.values, _read(curves, new)], axis=1)
        return replace(self, losses=every[order], values=values[:, order])


@dataclass(frozen=True)
class _Bounds:
    """Bounds on one profile at all nodes, and on its mass at infinite loss."""

    low: Array
    high: Array
    least_infinite: float
    most_infinite: float


def _read(curves: tuple[Curve, ...], losses: Array) -> Array:
    """The values of each curve, in a row; not a number where it is none in [0, 1]."""
    with np.errstate(all="ignore"):
        rows = [np.asarray(curve(losses.copy()), dtype=float) for curve in curves]
    for row in rows:
        if row.shape != losses.shape:
            raise InvalidArgument(
                "profile must return one delta for each entry of an array of epsilon; got an array of "
                f"shape {row.shape} for {losses.size} entries."
            )
    values = np.stack(rows)
    return np.where((values >= 0.0) & (values <= 1.0), values, np.nan)


def _are_numbers(curves: tuple[Curve, ...], losses: Array) -> NDArray[np.bool_]:
    """Where all curves have values."""
    return np.asarray(np.all(np.isfinite(_read(curves, losses)), axis=0))


def _chosen(curves: tuple[Curve, ...], largest_loss: float) -> _Nodes:
    """Nodes close enough for the wanted gaps, up to the last epsilon at which the curves are numbers."""
    octaves = 2.0 ** np.arange(-60.0, 41.0)
    first = np.unique(np.concatenate([[0.0], octaves[largest_loss > octaves]]))
    are_numbers = _are_numbers(curves, first)
    if not are_numbers[0]:
        with np.errstate(all="ignore"):
            got = ", ".join(f"{float(np.asarray(curve(np.zeros(1)))[0])!r}" for curve in curves)
        raise InvalidArgument(f"profile must be a delta in [0, 1] at epsilon = 0; got {got}.")
    if are_numbers.all():
        end, complete = _last(curves, float(first[-1]), largest_loss)
    else:
        index = int(np.argmin(are_numbers))
        end, complete = _last_number(curves, float(first[index - 1]), float(first[index])), False
    losses = np.unique(np.concatenate([first[first < end], [0.5 * end, end]]))
    nodes = _Nodes(losses, _read(curves, losses), complete)
    # nothing is learned where the first value is not left, nor where the last one is reached
    over = np.all(nodes.values <= nodes.values[:, -1:], axis=0)
    flat = np.all(nodes.values >= nodes.values[:, :1] * (1.0 - _NARROWEST), axis=0)
    last = max(int(np.argmax(over)), 2)
    start = min(int(np.argmin(flat)), last) - 1
    indices = np.append(0, np.arange(max(start, 1), last + 1))
    nodes = replace(nodes, losses=losses[indices], values=nodes.values[:, indices])
    return _refined(curves, nodes)


def _last(curves: tuple[Curve, ...], last: float, largest_loss: float) -> tuple[float, bool]:
    """The end of the losses if all that was looked at are numbers, and whether it is certain."""
    if np.isfinite(largest_loss):
        if _are_numbers(curves, np.array([largest_loss])).all():
            _check_largest(curves, largest_loss)
            return largest_loss, True
        return _last_number(curves, last, largest_loss), False
    far, there = _read(curves, np.array([np.finfo(float).max, last])).T
    return last, bool(np.all(far == there))


def _check_largest(curves: tuple[Curve, ...], largest_loss: float) -> None:
    """An error if a profile is known to fall beyond the largest loss."""
    places = np.array([largest_loss, 1.25 * largest_loss, 2.0 * largest_loss])
    for here, *beyond in _read(curves, places):
        for value in beyond:
            if 0.0 < value < here * (1.0 - 1e-6) - 1e-12:
                raise InvalidArgument(
                    "largest_loss must be where delta has reached its final value; got "
                    f"{largest_loss!r}, where delta is {float(here)!r}, and {float(value)!r} beyond it."
                )


def _last_number(curves: tuple[Curve, ...], low: float, high: float) -> float:
    """About the last epsilon at which the curves are numbers, between one that is and one that is not."""
    for _ in range(3):
        losses = np.linspace(low, high, 66)
        are_numbers = _are_numbers(curves, losses)
        are_numbers[0], are_numbers[-1] = True, False
        index = int(np.argmin(are_numbers))
        low, high = float(losses[index - 1]), float(losses[index])
    return low


def _refined(curves: tuple[Curve, ...], nodes: _Nodes) -> _Nodes:
    """The nodes with cells split until chords and extended chords are close enough."""
    for _ in range(_ROUNDS):
        losses, steps = nodes.losses, np.diff(nodes.losses)
        if losses.size > 40_000:
            break
        excess = np.max([_excess(losses, row) for row in nodes.values], axis=0)
        pieces = np.ceil(np.sqrt(excess)).clip(1, _MOST_PIECES)
        pieces[steps <= _NARROWEST * (1.0 + losses[1:])] = 1
        split = pieces > 1
        if not split.any():
            break
        new = [
            np.linspace(left, right, int(count) + 1)[1:-1]
            for left, right, count in zip(
                losses[:-1][split], losses[1:][split], pieces[split], strict=True
            )
        ]
        nodes = nodes.at(curves, np.concatenate(new))
    return nodes


def _excess(losses: Array, values: Array) -> Array:
    """How many times too large the gap of each cell is; zero where there is nothing to see.

    The relative distance of chords and extended chords may be 8e-6 where the profile begins, grows by a
    factor of e over six nats of its fall, and is at most 1e-2.
    """
    finite = np.where(np.isfinite(values), values, 0.0)
    rest = finite - finite[-1]
    steps = np.diff(losses)
    with np.errstate(all="ignore"):
        # in units of the ratio at the left end of each cell
        width = np.expm1(np.minimum(steps, 700.0))
        slope = np.diff(rest) / width
        before = np.append(slope[0], slope[:-1] * np.exp(steps[:-1]))
        before[0] = min(2.0 * slope[0], slope[0] - 0.25 * abs(slope[0]))
        after = np.append(slope[1:] * np.exp(-steps[:-1]), 0.0)
        bend = np.maximum(slope - before, 0.0), np.maximum(after - slope, 0.0)
        gap = width * bend[0] * bend[1] / (bend[0] + bend[1])
        share = gap / np.maximum(rest[:-1] - gap, 0.0)
        depth = np.log(rest[0] / rest[:-1])
        wanted = np.minimum(8e-6 * np.exp(np.minimum(depth / 6.0, 50.0)), 1e-2)
        excess = np.where(gap > 0.0, share / wanted, 0.0)
    excess = np.where(rest[:-1] > SMALLEST_DELTA, excess, 0.0)
    return np.nan_to_num(excess, nan=0.0, posinf=float(_MOST_PIECES) ** 2)


def _enclosed(
    curves: tuple[Curve, ...], nodes: _Nodes, largest_loss: float
) -> tuple[list[_Bounds], tuple[str, int, int] | None]:
    """Bounds on each profile, and the first place (curve, node) that contradicts them."""
    every = []
    worst: tuple[str, int, int] | None = None
    for row, (name, curve) in enumerate(zip(("profile", "reverse"), curves, strict=False)):
        values = nodes.values[row]
        broken = np.isnan(values)
        if broken.any():
            index: int | None = int(np.argmax(broken))
        else:
            exact_zero = bool(np.isfinite(largest_loss))
            bounds = _bounds(nodes.losses, values, complete=nodes.complete, exact_zero=exact_zero)
            index = _contradiction(nodes.losses, bounds, curve)
            every.append(bounds)
        if index is not None and (worst is None or index < worst[2]):
            worst = (name, row, index)
    return every, worst


def _bounds(losses: Array, values: Array, *, complete: bool, exact_zero: bool) -> _Bounds:
    """Bounds on a profile from its computed values."""
    rest = float(values[-1]) if complete else 0.0
    fall = np.maximum(-np.diff(values), 0.0) / np.diff(losses)
    # a value belongs to an epsilon that is off by a little: the profile is no steeper than before it
    off = 4.0 * THRESHOLD_ERROR * (1.0 + losses) * np.append(fall[:1], fall)
    error = 4.0 * RELATIVE_ERROR * np.maximum(values - rest, 0.0) + off
    error += 4.0 * UNIT_ROUNDOFF * values if rest > 0.0 else 0.0
    low = np.maximum(values - error, 0.0)
    high = np.minimum(values + error, 1.0)
    if not exact_zero:
        low = np.where(low < SMALLEST_DELTA, 0.0, low)
        high = np.maximum(high, SMALLEST_DELTA)
    elif complete:
        # the final value itself, which does not change with epsilon
        high[-1] = min(rest * (1.0 + 4.0 * UNIT_ROUNDOFF), float(high[-1]))
    return _Bounds(low, high, float(low[-1]) if complete else 0.0, float(high[-1]))


def _contradiction(losses: Array, bounds: _Bounds, curve: Curve) -> int | None:
    """The first node whose value no falling profile that is convex in e^epsilon can have."""
    falling = np.minimum.accumulate(bounds.high)
    wrong = bounds.low > falling
    with np.errstate(divide="ignore"):
        knots = convex_knots(losses, np.log(falling))
    wrong |= bounds.low > _straight(losses, losses[knots], falling[knots])
    wrong[1:] |= _noisy(losses, bounds, curve)
    return int(np.argmax(wrong)) if wrong.any() else None


def _straight(places: Array, losses: Array, values: Array) -> Array:
    """Values between knots, linear in e^loss."""
    cell = np.clip(np.searchsorted(losses, places, side="right") - 1, 0, max(losses.size - 2, 0))
    if losses.size == 1:
        return np.full(places.shape, values[0])
    left, right = losses[cell], losses[cell + 1]
    share = np.exp(places - right) * -np.expm1(left - places) / -np.expm1(left - right)
    return np.asarray(values[cell] + (values[cell + 1] - values[cell]) * np.clip(share, 0.0, 1.0))


def _noisy(losses: Array, bounds: _Bounds, curve: Curve) -> NDArray[np.bool_]:
    """Cells in which three close values are not convex, of some that are looked at.

    Steps are 2^-13 of a cell; noise of 2.5 times the relative error is not overlooked.
    """
    steps, seen = np.diff(losses), np.zeros(losses.size - 1, dtype=bool)
    some = np.unique(np.linspace(0, steps.size - 1, min(4096, steps.size)).astype(int))
    some = some[
        (steps[some] > 1e6 * _NARROWEST * (1.0 + losses[1:][some])) & (bounds.low[1:][some] > 0)
    ]
    if not some.size:
        return seen
    middle, step = losses[:-1][some] + 0.5 * steps[some], 2.0**-13 * steps[some]
    values = _read((curve,), np.concatenate([middle - step, middle, middle + step]))[0].reshape(
        3, -1
    )
    share = 1.0 / (1.0 + np.exp(step))
    chord = values[0] * (1.0 - share) + values[2] * share
    seen[some] = ~(values[1] * (1.0 - 2.5 * RELATIVE_ERROR) <= chord)
    return seen


def _cut(nodes: _Nodes, name: str, row: int, index: int) -> _Nodes:
    """The nodes before a contradiction that can still be believed; an error if too little is left.

    Values up to twice the one there are not believed; they may be a thousandth of the first one.
    """
    values = nodes.values[row]
    noisy = values[index] if np.isfinite(values[index]) else values[max(index - 1, 0)]
    credible = values[:index] > 2.0 * noisy
    last = int(np.argmin(credible)) if not credible.all() else index
    if last < 2 or not values[last - 1] <= 1e-3 * values[0]:
        raise _refusal(name, nodes, row, index)
    return _Nodes(nodes.losses[:last], nodes.values[:, :last], complete=False)


def _refusal(name: str, nodes: _Nodes, row: int, index: int) -> InvalidArgument:
    """What is wrong with a profile, and where."""
    around = slice(max(index - 1, 0), index + 2)
    values = ", ".join(f"{float(value):.12g}" for value in nodes.values[row][around])
    places = ", ".join(f"{float(loss):.12g}" for loss in nodes.losses[around])
    return InvalidArgument(
        f"{name} must fall, convex in e^epsilon, and be right to a relative {RELATIVE_ERROR:g}; got "
        f"{values} at epsilon = {places}. Write it without cancellation; if it is an upper bound only, "
        "use TradeoffCurve.from_points."
    )


def _above(losses: Array, ahead: _Bounds, behind: _Bounds) -> AtomicPair:
    """A pair whose profile is at least the given one."""
    same = ahead is behind
    # the last loss may be a rounded one
    losses = np.append(losses[:-1], losses[-1] + THRESHOLD_ERROR * (1.0 + losses[-1]))
    calls = [_calls_above(losses, bounds) for bounds in ((ahead,) if same else (ahead, behind))]
    return pair_from_halves(
        calls[0], calls[-1], side=Side.UPPER, infinite=(ahead.most_infinite, behind.most_infinite)
    )


def _calls_above(losses: Array, bounds: _Bounds) -> CallSide:
    with np.errstate(divide="ignore"):
        log_high = np.log(
            np.maximum(np.minimum.accumulate(bounds.high) - bounds.most_infinite, 0.0)
        )
    return calls_above(losses[:-1], log_high[:-1], float(losses[-1]))


def _below(losses: Array, ahead: _Bounds, behind: _Bounds) -> AtomicPair:
    """A pair whose profile is at most the given one."""
    infinite = (ahead.least_infinite, behind.least_infinite)
    calls = _calls_below(losses, ahead, behind)
    other = calls if ahead is behind else _calls_below(losses, behind, ahead)
    return pair_from_halves(calls, other, side=Side.LOWER, infinite=infinite)


def _calls_below(losses: Array, ahead: _Bounds, behind: _Bounds) -> CallSide:
    infinite = (ahead.least_infinite, behind.least_infinite)
    with np.errstate(divide="ignore"):
        values, other_values = (
            (
                np.log(np.maximum(bounds.low - rest, 0.0)),
                np.log(np.maximum(bounds.high - rest, 0.0)),
            )
            for bounds, rest in zip((ahead, behind), infinite, strict=True)
        )
    # losses may go on beyond the last node: the profile is only known not to rise
    last = float(losses[-1])
    beyond = last + (last - float(losses[-2]))
    return calls_below(losses, values, other_values, beyond, float(values[1][-1]), infinite)
