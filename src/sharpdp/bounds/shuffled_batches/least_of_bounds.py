"""The least of several bounds of one form, of which another one is the best at each threshold.

Each is a sum of two terms: how well a record is hidden in a setting, and what the setting itself gives
away. Settings are listed so that the first term rises and the second one falls.

Any choice is safe, and so is another one at each threshold. The profile of an epoch, or the largest of
all adversaries, falls and is convex in x = e^loss. Values above it at some thresholds are knots, and
chords between knots are above it, whichever bounds the knots come from; past the last knot it is at most
what it was there. The lower convex hull of the knots is therefore a profile above it, and the pair with
that profile in each direction (`pairs.from_profile_values`) dominates the epoch: epochs compose. That the
least of the bounds is no profile itself does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

__all__ = ["LeastOfBounds"]

Terms: TypeAlias = Callable[[float, float], tuple[float, float]]
"""From a loss, and the share that may be added for rounding and chords, to the logs of both terms."""

_LOG_SHARE, _PATIENCE = math.log(0.1), 2
"""The share of the second term above which the next setting is tried, and below which the one before; and
after how many thresholds again if it was no better."""

_MARGIN = 1e-9
"""Rounding of a sum of two numbers, taken upwards."""


class LeastOfBounds:
    """The log of the least bound at losses that grow.

    The search starts with the first setting, and goes on at each loss with the one that was best before:
    to the next one where much of the bound is the second term, back where little of it is.
    """

    def __init__(self, bounds: Sequence[Terms]) -> None:
        self._bounds = bounds
        self._place, self._wait = 0, 0
        self._seen: list[tuple[float, int]] = []

    def log_value(self, loss: float, allowed: float = 0.0) -> float:
        """The log of about the least bound at a loss."""
        log_value, log_second = self._tried(self._place, loss, allowed)
        self._wait -= 1
        while self._wait <= 0:
            step = 1 if log_second - log_value > _LOG_SHARE else -1
            place = self._place + step
            if not 0 <= place < len(self._bounds):
                break
            other, other_second = self._tried(place, loss, allowed)
            # the first settings may be alike
            is_better = other < log_value or (other == log_value and step > 0)
            if not is_better:
                self._wait = _PATIENCE
                break
            log_value, log_second, self._place = other, other_second, place
        self._seen.append((log_value, self._place))
        return log_value

    def best_at(self, level: float) -> int:
        """The place of the setting where the log of the bound first fell to a level."""
        return next((place for value, place in self._seen if value <= level), self._seen[-1][1])

    def _tried(self, place: int, loss: float, allowed: float) -> tuple[float, float]:
        """The logs of one bound and of its second term."""
        first, second = self._bounds[place](loss, allowed)
        return float(np.logaddexp(first, second)) + _MARGIN, second
