"""Pairs under sampling: the record takes part only with some probability."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.curves.pair import Pair
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_mixture

# e^{k'} loses digits next to the left end log(1 - rate); nodes stay where it is above this.
_SMALLEST_RATIO = 2.0**-10
_OUTWARDS = 8.0 * UNIT_ROUNDOFF


@dataclass(frozen=True)
class PoissonSampledPair(Pair):
    """(1 - rate) Q + rate P against Q, for a base pair (P, Q): one record enters with probability rate.

    The ratio is X = 1 - rate + rate X_base, hence (X - e^k)_+ = rate (X_base - e^{k'})_+ with
    e^{k'} = 1 + (e^k - 1)/rate: the amplification lemma without cancellation. `reverse()` is the
    direction in which the record is added.
    """

    base: Pair
    rate: float

    @property
    def accuracy(self) -> float:
        # the base threshold carries an error of 2^10 units next to the left end
        return 2e-12 + 2.0 * self.base.accuracy

    @property
    def support(self) -> tuple[float, float]:
        low, high = (self._loss_of(end) for end in self.base.support)
        # a few units outwards, so that no loss lies outside
        return (low - _OUTWARDS * abs(low), high + _OUTWARDS * abs(high))

    @property
    def loss_error(self) -> float:
        return 64.0 * UNIT_ROUNDOFF + self.base.loss_error if self.base.atoms else 0.0

    @property
    def resolved(self) -> tuple[float, float]:
        low, high = self.base.resolved
        return (self._loss_of(max(low, float(np.log(_SMALLEST_RATIO)))), self._loss_of(high))

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(self._loss_of(atom) for atom in self.base.atoms)

    @property
    def infinite_p(self) -> float:
        return self.rate * self.base.infinite_p

    @property
    def infinite_q(self) -> float:
        return self.base.infinite_q if self.rate == 1.0 else 0.0

    @property
    def symmetric(self) -> bool:
        return self.rate == 1.0 and self.base.symmetric

    def tail_rate(self, loss: float) -> float:
        # the base threshold grows at least as fast as the threshold itself
        return self.base.tail_rate(float(self._base_loss(np.array([loss]))[0]))

    def _loss_of(self, base_loss: float) -> float:
        """log(1 - rate + rate e^{base_loss})."""
        if self.rate == 1.0:
            return float(base_loss)
        return (
            float(np.log1p(-self.rate))
            if np.isneginf(base_loss)
            else float(log_mixture(self.rate, base_loss))
        )

    def _base_loss(self, loss: Array) -> Array:
        """log(1 + (e^loss - 1)/rate); -inf at and below log(1 - rate)."""
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            ratio = np.expm1(np.minimum(loss, 1.0)) / self.rate
            near = np.log1p(np.maximum(ratio, -1.0))
            far = loss - np.log(self.rate) + np.log1p((self.rate - 1.0) * np.exp(-np.abs(loss)))
        return np.where(loss > 1.0, far, near)

    def log_otm(self, loss: Array) -> Array:
        base_loss = self._base_loss(loss)
        known = np.isfinite(base_loss)
        value = self.base.log_otm(np.where(known, base_loss, 0.0)) + np.log(self.rate)
        return np.where(known, value, -np.inf)

    def log_tail_q(self, loss: Array) -> Array:
        base_loss = self._base_loss(loss)
        known = np.isfinite(base_loss)
        return np.where(known, self.base.log_tail_q(np.where(known, base_loss, 0.0)), -np.inf)

    def log_tail_p(self, loss: Array) -> Array:
        base_loss = self._base_loss(loss)
        known = np.isfinite(base_loss)
        clean = np.where(known, base_loss, 0.0)
        with np.errstate(divide="ignore"):
            without = np.log1p(-self.rate) + self.base.log_tail_q(clean)
        both = np.logaddexp(without, np.log(self.rate) + self.base.log_tail_p(clean))
        return np.where(known, both, -np.inf)
