"""Pairs that look the same in both directions, known by three values at each threshold."""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache

import numpy as np

from sharpdp.curves.pair import Pair
from sharpdp.numerics.special import Array


class MirroredPair(Pair):
    """A symmetric pair with bounded losses; what costs time is done once for all three values."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest loss, attained with positive probability."""

    @abstractmethod
    def three_values(self, loss: Array) -> Array:
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

    def in_company(self) -> MirroredPair:
        return self

    def log_otm(self, loss: Array) -> Array:
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
        return _kept(self, k.tobytes())[:, back.reshape(loss.shape)]


@lru_cache(maxsize=32)
def _kept(pair: MirroredPair, thresholds: bytes) -> Array:
    """The three values at these thresholds; kept, since they are asked for one after the other."""
    k = np.frombuffer(thresholds)
    value = np.full((3, k.size), -np.inf)
    inside = k <= pair.largest
    if inside.any():
        value[:, inside] = pair.three_values(k[inside])
    value[0, k >= pair.largest] = -np.inf
    return value
