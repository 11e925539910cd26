"""The privacy profile of one pair: delta at epsilon and epsilon at delta, straight from its values."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sharpdp.errors import NotCertified
from sharpdp.numerics.directed import exp_down, exp_up
from sharpdp.numerics.roots import straight_crossing
from sharpdp.numerics.special import UNIT_ROUNDOFF, safe_log
from sharpdp.pairs.pair import Pair

_JUST_BEFORE = 2.0 ** -np.arange(45.0, 20.0, -5.0)
"""How far before the upper crossing the lower one is looked for, relative to it."""

_LOOKS = 2.0 ** -np.arange(0.0, 16.0, 0.5)
"""Shares of the largest loss at which two profiles are compared."""

_WIDE_LOOKS = 2.0 ** np.arange(-20.0, 10.0, 0.5)
"""Thresholds at which they are compared as well if there is no largest loss."""

_UNSEEN = -800.0
"""Logarithms of values that are not looked at: so small that they are not accurate."""

_LEAST_ACCURATE = 1.0
"""Profiles whose logarithm is not known to within this are of no use."""


def log_delta_of(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Certified (lower, upper) for log delta of one pair at epsilon >= 0."""
    if pair.accuracy > _LEAST_ACCURATE:
        raise NotCertified(
            f"the profile of a {type(pair).__name__} is lost in rounding: its parameters are too "
            "extreme for double precision. With so little noise nothing is private."
        )
    ends = np.array([epsilon + pair.loss_error, max(epsilon - pair.loss_error, 0.0)])
    values = pair.log_hockey_stick(np.minimum(ends, pair.accurate_range[1]))
    # beyond what is resolved only monotony is used, and that there is nothing beyond the support
    values[0] = -np.inf if ends[0] > pair.accurate_range[1] else values[0]
    values[1] = -np.inf if ends[1] >= pair.support[1] else values[1]
    if epsilon < pair.loss_error:
        # no threshold below zero makes up for the rounding of losses
        values[1] = np.logaddexp(values[1], safe_log(pair.mean_loss_error))
    least, most = pair.infinite_p_ends
    if np.isnan(values).any() or not 0.0 <= least <= most <= 1.0:
        raise NotCertified(
            f"the profile of a {type(pair).__name__} is not a number at epsilon = {epsilon!r}."
        )
    slack = 2.0 * pair.accuracy
    low, high = np.logaddexp(values - [slack, -slack], [safe_log(least), safe_log(most)])
    if most > 0.0:
        # of each logarithm itself: a few units of it, however small the mass
        low -= 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(low)) if np.isfinite(low) else 0.0
        high += 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(high))
    return float(low), min(float(high), 0.0)


def epsilon_of(pair: Pair, log_delta: float, delta: float | None = None) -> tuple[float, float]:
    """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

    `delta`, if given, is the value itself, of which log_delta is the rounded logarithm: only so are
    values next to the mass at infinite loss told apart.
    """
    below, above = beside_mass(pair.infinite_p_ends, log_delta, delta)
    if below:
        return np.inf, np.inf
    ceiling = log_delta - 2.0 * UNIT_ROUNDOFF * abs(log_delta)

    def depth(end: int) -> Callable[[float], float]:
        # nearly straight in epsilon, since the profile falls like that of a Gaussian
        return lambda epsilon: float(np.sqrt(max(-log_delta_of(pair, epsilon)[end], 0.0)))

    if not log_delta_of(pair, 0.0)[1] > ceiling:
        return 0.0, 0.0
    largest = pair.support[1] + pair.loss_error
    high = min(1.0, largest)
    while high < largest and log_delta_of(pair, high)[1] > ceiling:
        high = min(2.0 * high, largest)
    top = high if above else np.inf
    if log_delta_of(pair, high)[1] <= ceiling:
        top = straight_crossing(depth(1), _above(-ceiling), 0.0, high)[1]
    floor = log_delta + 2.0 * UNIT_ROUNDOFF * abs(log_delta)
    # the two ends of the profile are close, so that the other crossing is just before this one
    for share in _JUST_BEFORE:
        before = high * (1.0 - share) if np.isinf(top) else top * (1.0 - share)
        if log_delta_of(pair, before)[0] >= floor:
            return before, top
    if not log_delta_of(pair, 0.0)[0] > floor:
        return 0.0, top
    return straight_crossing(depth(0), _below(-floor), 0.0, high)[0], top


def beside_mass(
    mass: tuple[float, float], log_delta: float, delta: float | None = None
) -> tuple[bool, bool]:
    """Whether delta is certainly below a mass at infinite loss, and whether it certainly is not.

    The mass is given as (lower, upper), delta as in `epsilon_of`.
    """
    if delta is None:
        slack = 2.0 * UNIT_ROUNDOFF * abs(log_delta)
        return exp_up(log_delta + slack) < mass[0], exp_down(log_delta - slack) >= mass[1]
    return delta < mass[0], delta >= mass[1]


@lru_cache(maxsize=64)
def seems_above(pair: Pair, other: Pair) -> bool:
    """Whether the profile of a pair is above the other's at all thresholds of a look (not certified).

    Thresholds below zero stand for the reversed pairs.
    """
    if pair.infinite_p < other.infinite_p or pair.infinite_q < other.infinite_q:
        return False
    ends = np.abs([*other.support, *pair.support])
    finite = ends[np.isfinite(ends)]
    scales = np.max(finite, initial=0.0) * _LOOKS
    if finite.size < ends.size:
        scales = np.append(scales, _WIDE_LOOKS)
    scales = np.unique(scales)
    thresholds = np.concatenate([-scales[::-1], [0.0], scales])
    return bool(
        np.all(
            np.maximum(pair.log_hockey_stick(thresholds), _UNSEEN)
            >= other.log_hockey_stick(thresholds)
        )
    )


def _above(square: float) -> float:
    """The root, rounded up far enough that a depth at or above it means a value at or below."""
    return float(np.sqrt(square)) * (1.0 + 4.0 * UNIT_ROUNDOFF)


def _below(square: float) -> float:
    """The root, rounded down far enough that a depth below it means a value above."""
    return float(np.sqrt(square)) * (1.0 - 4.0 * UNIT_ROUNDOFF)
