"""Pairs under sampling: the record takes part only with some probability, alone or in a subset."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_mixture
from sharpdp.pairs.pair import (
    GaussianPair,
    Hints,
    Pair,
    SymmetricPair,
    for_composition,
    revealing_no_less,
)


def sampled_gaussian(mu: float, rate: float) -> Pair:
    """The Gaussian pair of this mu under Poisson sampling; itself at rate one.

    >>> sampled_gaussian(1.0, 0.5)
    PoissonSampledPair(base=GaussianPair(mu=1.0), rate=0.5)
    """
    return GaussianPair(mu) if rate == 1.0 else PoissonSampledPair(GaussianPair(mu), rate)


def _base_threshold(loss: Array, rate: float) -> Array:
    """log(1 + (e^loss - 1)/rate); -inf at and below log(1 - rate)."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        move = np.expm1(np.minimum(loss, 1.0))
        ratio = move / rate
        near = np.where(
            np.isinf(ratio), np.log(move) - np.log(rate), np.log1p(np.maximum(ratio, -1.0))
        )
        far = loss - np.log(rate) + np.log1p((rate - 1.0) * np.exp(-np.abs(loss)))
    return np.where(loss > 1.0, far, near)


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
        low, high = self._loss_of(self.base.support[0]), self._loss_of(self.base.support[1])
        # a few units outwards, so that no loss lies outside
        units = 8.0 * UNIT_ROUNDOFF
        return (low - units * abs(low), high + units * abs(high))

    @property
    def loss_error(self) -> float:
        if not self.base.atoms:
            return 0.0
        # losses carry a few units of themselves, or of one if they are larger
        return 64.0 * UNIT_ROUNDOFF * min(max(map(abs, self.support)), 1.0) + self.base.loss_error

    @property
    def accurate_range(self) -> tuple[float, float]:
        return (self._loss_of(self._lowest), self._loss_of(self.base.accurate_range[1]))

    @cached_property
    def _lowest(self) -> float:
        """The smallest threshold of the base at which values are accurate.

        e^{k'} loses digits next to the left end log(1 - rate): k' is off by 1.5 units over it. Logarithms
        of values fall by about twice their size over |k'|. So nodes stay where e^{k'} is above the first
        of some ratios at which the product of the two is below 3e-12.
        """
        ratios = 2.0 ** np.arange(-10.0, -4.0)
        low, thresholds = self.base.accurate_range[0], np.log(ratios)
        nats = np.maximum(-self.base.log_hockey_stick(thresholds), 0.0)
        products = nats / (np.abs(thresholds) * ratios)
        fine = (thresholds <= low) | (products <= 2.0**13)
        return max(low, float(thresholds[np.argmax(fine)] if fine.any() else thresholds[-1]))

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

    @property
    def hints(self) -> Hints:
        base = self.base.hints
        low, high = base.unbounded
        return Hints(
            # sampled always: the divergences are convex in the pair, and those of (Q, Q) are the least
            no_less=lambda: revealing_no_less(self.base),
            tail_rate=self._tail_rate,
            least_total_variation=self.rate * base.least_total_variation * (1.0 - 1e-9),
            unbounded=(low and self.rate == 1.0, high),
        )

    def _tail_rate(self, loss: float) -> float:
        # the base threshold grows at least as fast as the threshold itself
        return self.base.hints.tail_rate(float(_base_threshold(np.array([loss]), self.rate)[0]))

    def _loss_of(self, base_loss: float) -> float:
        """log(1 - rate + rate e^{base_loss})."""
        if self.rate == 1.0 or base_loss == np.inf:
            return float(base_loss)
        return (
            float(np.log1p(-self.rate))
            if base_loss == -np.inf
            else float(log_mixture(self.rate, base_loss))
        )

    def log_hockey_stick(self, loss: Array) -> Array:
        base_loss = _base_threshold(loss, self.rate)
        finite = np.isfinite(base_loss)
        value = self.base.log_hockey_stick(np.where(finite, base_loss, 0.0)) + np.log(self.rate)
        return np.where(finite, value, -np.inf)

    def log_tail_q(self, loss: Array) -> Array:
        base_loss = _base_threshold(loss, self.rate)
        finite = np.isfinite(base_loss)
        return np.where(finite, self.base.log_tail_q(np.where(finite, base_loss, 0.0)), -np.inf)

    def log_tail_p(self, loss: Array) -> Array:
        base_loss = _base_threshold(loss, self.rate)
        finite = np.isfinite(base_loss)
        clean = np.where(finite, base_loss, 0.0)
        with np.errstate(divide="ignore"):
            without = np.log1p(-self.rate) + self.base.log_tail_q(clean)
        both = np.logaddexp(without, np.log(self.rate) + self.base.log_tail_p(clean))
        return np.where(finite, both, -np.inf)


@dataclass(frozen=True)
class SubsetSampledPair(SymmetricPair):
    """A mirrored pair applied to a random subset of the records, of which each is in it at this rate.

    Holds when: neighbors differ by replacing one record, and the base pair dominates the mechanism on
    the subset in both directions. With h and h' the profiles in x = e^loss

        h'(x) = rate h(1 + (x - 1)/rate) for x >= 1,

    and below one by symmetry; what is left is mass at loss zero. Source: balle2018subsampling.

    >>> from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
    >>> coin = SubsetSampledPair(ShufflePair(1, float(np.log(3.0)), 0.5), rate=0.5)
    >>> round(float(np.exp(coin.log_hockey_stick(np.array([0.0])))[0]), 10)  # half of 3/4 - 1/4
    0.25
    """

    base: SymmetricPair
    rate: float

    @property
    def accuracy(self) -> float:
        return 2e-12 + 2.0 * self.base.accuracy

    @property
    def loss_error(self) -> float:
        return 64.0 * UNIT_ROUNDOFF * self.largest + self.rate * self.base.loss_error

    @property
    def largest(self) -> float:
        return float(log_mixture(self.rate, self.base.largest))

    @property
    def hints(self) -> Hints:
        smallest = self.rate * self.base.hints.smallest_threshold
        return Hints(composition=self._composed, smallest_threshold=smallest)

    def _composed(self) -> Pair:
        base = for_composition(self.base)
        return replace(self, base=base) if isinstance(base, SymmetricPair) else self

    def call_and_tails(self, loss: Array) -> Array:
        base_loss = np.minimum(_base_threshold(loss, self.rate), self.base.largest)
        log_call, log_farther, _ = self.base.call_and_tails(base_loss)
        log_call = log_call + np.log(self.rate)
        return np.stack([log_call, log_farther, np.logaddexp(log_call, loss + log_farther)])
