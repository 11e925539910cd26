"""Pairs that look the same in both directions, known by three values at each threshold."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np

from sharpdp.numerics.special import Array
from sharpdp.pairs.pair import Pair

_MOST_KNOWN = 1 << 17
"""Values are kept for so many thresholds of a pair; then it starts anew."""


class SymmetricPair(Pair):
    """A symmetric pair with bounded losses; what costs time is done once for all three values."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest loss, attained with positive probability."""

    @abstractmethod
    def call_and_tails(self, loss: Array) -> Array:
        """logs of E_Q[(X - e^k)_+], Q[L >= k] and P[L >= k] at thresholds 0 <= k <= largest, stacked."""

    @property
    def support(self) -> tuple[float, float]:
        return (-self.largest, self.largest)

    @property
    def atoms(self) -> tuple[float, ...]:
        return self.support

    @property
    def symmetric(self) -> bool:
        return True

    def for_composition(self) -> SymmetricPair:
        return self

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        return np.asarray(self._both_ways(k)[0] + np.minimum(k, 0.0))

    def log_tail_q(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        _, farther, nearer = self._both_ways(k)
        return np.asarray(np.where(k < 0.0, nearer, farther))

    def log_tail_p(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        _, farther, nearer = self._both_ways(k)
        return np.asarray(np.where(k < 0.0, farther, nearer))

    def _both_ways(self, loss: Array) -> Array:
        """The three values at |loss|; nothing is beyond the largest loss."""
        k, back = np.unique(np.abs(loss), return_inverse=True)
        return _known(self).at(k)[:, back.reshape(loss.shape)]


class _Known:
    """The three values of one pair at all thresholds that were asked for, in increasing order.

    Compositions of different length ask for nearly the same thresholds, over and over.
    """

    def __init__(self, pair: SymmetricPair) -> None:
        self.pair = pair
        self.thresholds = np.zeros(0)
        self.values = np.zeros((3, 0))

    def at(self, k: Array) -> Array:
        """The values at increasing thresholds; only those not known yet are computed."""
        place = np.searchsorted(self.thresholds, k)
        if self.thresholds.size > _MOST_KNOWN:
            self.thresholds, self.values, place = (
                np.zeros(0),
                np.zeros((3, 0)),
                np.zeros_like(place),
            )
        known = np.append(self.thresholds, np.inf)[place] == k
        if not known.all():
            missing = k[~known]
            self.thresholds = np.insert(self.thresholds, place[~known], missing)
            self.values = np.insert(self.values, place[~known], self._computed(missing), axis=1)
            place = np.searchsorted(self.thresholds, k)
        return self.values[:, place]

    def _computed(self, k: Array) -> Array:
        value = np.full((3, k.size), -np.inf)
        inside = k <= self.pair.largest
        if inside.any():
            value[:, inside] = self.pair.call_and_tails(k[inside])
        value[0, k >= self.pair.largest] = -np.inf
        return value


@lru_cache(maxsize=16)
def _known(pair: SymmetricPair) -> _Known:
    """The cache of values of one pair."""
    return _Known(pair)
