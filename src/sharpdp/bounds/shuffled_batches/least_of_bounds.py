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
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import Array
from sharpdp.numerics.tolerances import PROFILE_ERROR

__all__ = ["LeastOfBounds", "Places"]

Places: TypeAlias = NDArray[np.intp]

Terms: TypeAlias = Callable[[Places, Array, Array], tuple[Array, Array]]
"""From the places of settings, losses, and the shares that may be added for rounding and chords, to the
logs of both terms."""

Estimates: TypeAlias = Callable[[Places, Array], tuple[Array, Array]]
"""About the same, quickly, for plans."""

_LOG_SHARE = math.log(0.1)
"""Estimates suggest the first setting of whose bound the second term is at most this share."""


class LeastOfBounds:
    """The log of the least bound at many losses at once.

    At the losses that are asked first the best setting is searched: from one that estimates suggest to
    its neighbors, as long as they are better. Later losses take the better of those that were best
    nearby.
    """

    def __init__(
        self, terms: Terms, estimates: Estimates, size: int, similar: LeastOfBounds | None = None
    ) -> None:
        """The terms of so many settings; a similar search says where this one starts."""
        self._terms, self._estimates, self._size = terms, estimates, size
        self._losses, self._places, self._logs = np.zeros(1), np.zeros(1), np.zeros(0)
        self._similar = similar

    def log_estimates(self, losses: Array) -> Array:
        """About the log of the least bound at rising losses; the settings are those to start with."""
        if self._similar is None:
            places, logs = self._suggested(losses)
        else:
            places = np.rint(np.interp(losses, self._similar._losses, self._similar._places))
            places = places.astype(np.intp)
            logs = np.logaddexp(*self._estimates(places, losses))
        self._losses, self._places = losses, places.astype(float)
        return logs

    def log_values(self, losses: Array, allowed: Array) -> Array:
        """The log of about the least bound at rising losses."""
        near = np.interp(losses, self._losses, self._places)
        before, after = np.floor(near).astype(np.intp), np.ceil(near).astype(np.intp)
        if self._logs.size:
            # between two settings that were best nearby both are tried
            apart = np.flatnonzero(before < after)
            both = np.append(np.arange(losses.size), apart)
            places = np.append(after, before[apart])
            found = self._tried(places, losses[both], allowed[both])
            logs = found[: losses.size]
            logs[apart] = np.minimum(logs[apart], found[losses.size :])
            return logs
        places, logs = self._searched(before, losses, allowed)
        self._losses, self._places, self._logs = losses, places.astype(float), logs
        return logs

    def best_at(self, level: float) -> int:
        """The place of the setting where the log of the bound first fell to a level."""
        below = np.flatnonzero(self._logs <= level)
        return int(self._places[below[0] if below.size else -1])

    def _suggested(self, losses: Array) -> tuple[Places, Array]:
        """By halving, the first setting of whose bound the second term is a small share; estimates."""
        low = np.zeros(losses.size, dtype=np.intp)
        high = np.full(losses.size, self._size - 1, dtype=np.intp)
        logs = np.full(losses.size, np.inf)
        for _ in range(self._size.bit_length()):
            middle = (low + high) // 2
            first, second = self._estimates(middle, losses)
            total = np.logaddexp(first, second)
            logs = np.minimum(logs, total)
            is_large = second - total > _LOG_SHARE
            low = np.where(is_large, np.minimum(middle + 1, high), low)
            high = np.where(is_large, high, middle)
        return low, logs

    def _searched(self, places: Places, losses: Array, allowed: Array) -> tuple[Places, Array]:
        """The best settings, as far as a search from these goes, and the logs of their bounds."""
        first, last = np.maximum(places - 1, 0), np.minimum(places + 1, self._size - 1)
        every = np.stack([first, places, last])
        shape = every.shape
        found = self._tried(every.ravel(), np.tile(losses, 3), np.tile(allowed, 3)).reshape(shape)
        best, all_losses = np.argmin(found, axis=0), np.arange(losses.size)
        steps = best - 1
        places, logs = every[best, all_losses], found[best, all_losses]
        going = np.flatnonzero(steps)
        for _ in range(self._size):
            other = places[going] + steps[going]
            inside = (other >= 0) & (other < self._size)
            going, other = going[inside], other[inside]
            if not going.size:
                break
            more = self._tried(other, losses[going], allowed[going])
            better = more < logs[going]
            going, other, more = going[better], other[better], more[better]
            places[going], logs[going] = other, more
        return places, logs

    def _tried(self, places: Places, losses: Array, allowed: Array) -> Array:
        """The logs of some bounds."""
        return np.asarray(np.logaddexp(*self._terms(places, losses, allowed)) + PROFILE_ERROR)
