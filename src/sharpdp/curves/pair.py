"""Binary experiments (P, Q): what a mechanism's output looks like under two neighbouring inputs.

A Pair knows its privacy loss L = log dP/dQ through three functions of a threshold `loss`, each in
out-of-the-money form, so that none is computed as a difference from one:

    log_otm(k)     log E_Q[(X - e^k)_+] for k >= 0, log E_Q[(e^k - X)_+] for k < 0,  X = dP/dQ finite
    log_tail_q(k)  log Q[k <= L < inf] for k >= 0,  log Q[-inf < L <= k] for k < 0
    log_tail_p(k)  the same under P

Mass of P where Q has none sits at loss +inf, mass of Q where P has none at -inf. Everything else
(discretisation, composition, trade-off curves) is built from these in the neighbouring modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr

from sharpdp.numerics.special import Array, log1mexp, log_convexity_gap, log_normal_call


class Pair(ABC):
    """A binary experiment seen through its privacy loss."""

    # Bound on the relative error of exp(log_otm) and exp(log_tail_*).
    accuracy: float = 2e-12

    @abstractmethod
    def log_otm(self, loss: Array) -> Array:
        """log of the out-of-the-money value at each threshold."""

    @abstractmethod
    def log_tail_q(self, loss: Array) -> Array:
        """log of the Q-probability beyond each threshold, away from zero."""

    @abstractmethod
    def log_tail_p(self, loss: Array) -> Array:
        """log of the P-probability beyond each threshold, away from zero."""

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest finite loss; infinite where there is none."""
        return (-np.inf, np.inf)

    @property
    def resolved(self) -> tuple[float, float]:
        """Thresholds between which `accuracy` holds; discretisation puts its nodes there."""
        return self.support

    @property
    def atoms(self) -> tuple[float, ...]:
        """Losses that carry positive mass on their own, so that they become nodes."""
        return ()

    @property
    def infinite_p(self) -> float:
        """P-mass at loss +inf."""
        return 0.0

    @property
    def infinite_q(self) -> float:
        """Q-mass at loss -inf."""
        return 0.0

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same loss distribution as (P, Q)."""
        return False

    def reverse(self) -> Pair:
        """(Q, P): the other direction of the same experiment."""
        return self if self.symmetric else ReversedPair(self)

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}], order > 1; (0, inf) if unknown."""
        return (0.0, np.inf)


@dataclass(frozen=True)
class GaussianPair(Pair):
    """N(mu, 1) against N(0, 1); L ~ N(mu^2/2, mu^2) under P.

    >>> pair = GaussianPair(1.0)
    >>> round(float(np.exp(pair.log_otm(np.array([1.0]))[0])), 10)
    0.1269367375
    """

    mu: float

    @property
    def symmetric(self) -> bool:
        return True

    def log_otm(self, loss: Array) -> Array:
        return log_normal_call(self.mu, np.abs(loss)) + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return np.asarray(log_ndtr(-np.abs(loss) / self.mu - np.where(loss < 0, -0.5, 0.5) * self.mu))

    def log_tail_p(self, loss: Array) -> Array:
        return np.asarray(log_ndtr(-np.abs(loss) / self.mu + np.where(loss < 0, -0.5, 0.5) * self.mu))

    def log_moment(self, order: float) -> tuple[float, float]:
        exact = 0.5 * order * (order - 1.0) * self.mu**2
        return (exact * (1.0 - self.accuracy), exact * (1.0 + self.accuracy))


@dataclass(frozen=True)
class LaplacePair(Pair):
    """Laplace noise of scale 1/epsilon, centres at distance one; |L| <= epsilon with atoms at both ends.

    delta(k) = 1 - e^{(k - epsilon)/2}; Q[L >= k] = e^{-(epsilon + k)/2} / 2 for |k| <= epsilon.
    """

    epsilon: float

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def support(self) -> tuple[float, float]:
        return (-self.epsilon, self.epsilon)

    @property
    def atoms(self) -> tuple[float, ...]:
        return (-self.epsilon, self.epsilon)

    def log_otm(self, loss: Array) -> Array:
        inside = np.minimum((np.abs(loss) - self.epsilon) / 2.0, 0.0)
        return log1mexp(inside) + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return np.where(loss < 0, self._large_tail(loss), self._small_tail(loss))

    def log_tail_p(self, loss: Array) -> Array:
        return np.where(loss < 0, self._small_tail(loss), self._large_tail(loss))

    def _small_tail(self, loss: Array) -> Array:
        """log of the tail under the centre that is farther from it."""
        k = np.abs(loss)
        return np.where(k <= self.epsilon, -0.5 * (self.epsilon + k) - np.log(2.0), -np.inf)

    def _large_tail(self, loss: Array) -> Array:
        """log of the tail under the nearer centre."""
        k = np.abs(loss)
        value = np.log1p(-0.5 * np.exp(np.minimum(0.5 * (k - self.epsilon), 0.0)))
        return np.where(k <= self.epsilon, value, -np.inf)

    def log_moment(self, order: float) -> tuple[float, float]:
        # E_P e^{(a-1)L} = a/(2a-1) e^{(a-1)e} + (a-1)/(2a-1) e^{-a e}
        a, e = order, self.epsilon
        exact = float(
            np.logaddexp(
                np.log(a / (2 * a - 1)) + (a - 1) * e, np.log((a - 1) / (2 * a - 1)) - a * e
            )
        )
        slack = 8e-16 * (1.0 + (a - 1) * e)
        return (max(0.0, exact - slack), exact + slack)


@dataclass(frozen=True)
class PoissonSampledPair(Pair):
    """(1 - rate) Q + rate P against Q, for a base pair (P, Q): one record enters with probability rate.

    The ratio is X = 1 - rate + rate X_base, hence (X - e^k)_+ = rate (X_base - e^{k'})_+ with
    e^{k'} = 1 + (e^k - 1)/rate: the amplification lemma without cancellation. `reverse()` is the
    direction in which the record is added.
    """

    base: Pair
    rate: float
    # exp(k') loses digits next to the left end log(1 - rate); nodes stay where it is above this.
    accuracy = 4e-12
    _smallest_ratio = 2.0**-10

    @property
    def support(self) -> tuple[float, float]:
        low, high = self.base.support
        return (self._loss_of(low), self._loss_of(high))

    @property
    def resolved(self) -> tuple[float, float]:
        low, high = self.base.resolved
        return (self._loss_of(max(low, float(np.log(self._smallest_ratio)))), self._loss_of(high))

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

    def _loss_of(self, base_loss: float) -> float:
        """log(1 - rate + rate e^{base_loss})."""
        if base_loss > 1.0:
            tail = (1.0 - self.rate) / self.rate * np.exp(-base_loss)
            return float(base_loss + np.log(self.rate) + np.log1p(tail))
        if self.rate == 1.0:
            return float(base_loss)
        return float(np.log1p(self.rate * np.expm1(base_loss)))

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


@dataclass(frozen=True)
class ReversedPair(Pair):
    """(Q, P) of a given pair (P, Q): losses change sign, the two tails change places."""

    forward: Pair

    @property
    def accuracy(self) -> float:  # type: ignore[override]
        return self.forward.accuracy

    @property
    def support(self) -> tuple[float, float]:
        low, high = self.forward.support
        return (-high, -low)

    @property
    def resolved(self) -> tuple[float, float]:
        low, high = self.forward.resolved
        return (-high, -low)

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(-atom for atom in reversed(self.forward.atoms))

    @property
    def infinite_p(self) -> float:
        return self.forward.infinite_q

    @property
    def infinite_q(self) -> float:
        return self.forward.infinite_p

    def reverse(self) -> Pair:
        return self.forward

    def log_otm(self, loss: Array) -> Array:
        return self.forward.log_otm(-loss) + loss

    def log_tail_q(self, loss: Array) -> Array:
        return self.forward.log_tail_p(_negated(loss))

    def log_tail_p(self, loss: Array) -> Array:
        return self.forward.log_tail_q(_negated(loss))


def _negated(loss: Array) -> Array:
    """-loss, with zero mapped to just below zero: the tail at or above 0 becomes the one at or below."""
    return np.where(loss == 0.0, -np.finfo(float).smallest_subnormal, -loss)


@dataclass(frozen=True)
class AtomicPair(Pair):
    """Finitely many outcomes: losses l_i with P-mass p_i and Q-mass q_i = p_i e^{-l_i}, both logged.

    >>> coin = AtomicPair.pure(float(np.log(3.0)))  # binary randomized response, 3/4 against 1/4
    >>> round(float(np.exp(coin.log_otm(np.array([0.0]))[0])), 12)
    0.5
    """

    losses: tuple[float, ...]
    log_p: tuple[float, ...]
    log_q: tuple[float, ...]
    at_plus_infinity: float = 0.0
    at_minus_infinity: float = 0.0

    @classmethod
    def from_pmfs(cls, p: ArrayLike, q: ArrayLike) -> AtomicPair:
        """The exact pair of two probability vectors on the same points (normalised here)."""
        p, q = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
        p, q = p / p.sum(), q / q.sum()
        both = (p > 0) & (q > 0)
        ratio = (p[both] - q[both]) / q[both]
        losses = np.where(np.abs(ratio) < 0.5, np.log1p(ratio), np.log(p[both]) - np.log(q[both]))
        order = np.argsort(losses, kind="stable")
        return cls(
            tuple(losses[order].tolist()),
            tuple(np.log(p[both])[order].tolist()),
            tuple(np.log(q[both])[order].tolist()),
            float(p[q == 0].sum()),
            float(q[p == 0].sum()),
        )

    @classmethod
    def pure(cls, epsilon: float) -> AtomicPair:
        """Binary randomized response: it dominates every epsilon-DP mechanism and is one."""
        return cls.randomized_response(epsilon, 2)

    @classmethod
    def randomized_response(cls, epsilon: float, categories: int) -> AtomicPair:
        """k-ary randomized response on two different inputs: truth with weight e^epsilon, others 1."""
        log_total = np.logaddexp(epsilon, np.log(categories - 1.0))
        losses, log_p = (-epsilon, epsilon), (-log_total, epsilon - log_total)
        log_q = (epsilon - log_total, -log_total)
        if categories == 2:
            return cls(losses, log_p, log_q)
        middle = float(np.log(categories - 2.0) - log_total)
        return cls(
            (losses[0], 0.0, losses[1]), (log_p[0], middle, log_p[1]), (log_q[0], middle, log_q[1])
        )

    @classmethod
    def approximate(cls, epsilon: float, delta: float) -> AtomicPair:
        """The pair that dominates every (epsilon, delta)-DP mechanism: pure with mass delta revealed."""
        pure, keep = cls.pure(epsilon), float(np.log1p(-delta))
        log_p = tuple(value + keep for value in pure.log_p)
        log_q = tuple(value + keep for value in pure.log_q)
        return cls(pure.losses, log_p, log_q, delta, delta)

    @property
    def support(self) -> tuple[float, float]:
        return (self.losses[0], self.losses[-1]) if self.losses else (0.0, 0.0)

    @property
    def atoms(self) -> tuple[float, ...]:
        return self.losses

    @property
    def infinite_p(self) -> float:
        return self.at_plus_infinity

    @property
    def infinite_q(self) -> float:
        return self.at_minus_infinity

    @property
    def symmetric(self) -> bool:
        mirrored = self.at_plus_infinity == self.at_minus_infinity
        mirrored &= self.losses == tuple(-x for x in reversed(self.losses))
        return mirrored and self.log_p == tuple(reversed(self.log_q))

    def reverse(self) -> Pair:
        return AtomicPair(
            tuple(-x for x in reversed(self.losses)),
            tuple(reversed(self.log_q)),
            tuple(reversed(self.log_p)),
            self.at_minus_infinity,
            self.at_plus_infinity,
        )

    def log_otm(self, loss: Array) -> Array:
        k, atoms = np.asarray(loss, dtype=float)[..., None], np.array(self.losses)
        gap = -np.abs(atoms - k)
        weight = np.where(k < 0, np.array(self.log_q) + k, np.array(self.log_p))
        beyond = np.where(k < 0, atoms < k, atoms > k)
        return _log_sum(np.where(beyond, weight + log1mexp(gap), -np.inf))

    def log_tail_q(self, loss: Array) -> Array:
        return self._log_tail(loss, np.array(self.log_q))

    def log_tail_p(self, loss: Array) -> Array:
        return self._log_tail(loss, np.array(self.log_p))

    def _log_tail(self, loss: Array, log_mass: Array) -> Array:
        k, atoms = np.asarray(loss, dtype=float)[..., None], np.array(self.losses)
        return _log_sum(np.where(np.where(k < 0, atoms <= k, atoms >= k), log_mass, -np.inf))

    def log_moment(self, order: float) -> tuple[float, float]:
        if self.at_plus_infinity > 0.0:
            return (np.inf, np.inf)
        log_gaps = np.array(self.log_p) + log_convexity_gap(order - 1.0, np.array(self.losses))
        total = float(_log_sum(log_gaps))
        # both infinite masses are out of the identity: E_P[1] = 1, E_P[e^-L] = 1 - infinite_q
        linear = (order - 1.0) * self.at_minus_infinity
        if linear == 0.0 and total < 0.0:
            exact = float(np.log1p(np.exp(total)))
        else:
            exact = float(np.logaddexp(total, np.log1p(linear)))
        slack = self.accuracy * max(exact, 0.0)
        return (max(0.0, exact - slack), exact + slack)


def _log_sum(log_terms: Array) -> Array:
    """log of the sum of exponentials along the last axis; -inf for an empty sum."""
    if log_terms.shape[-1] == 0:
        return np.full(log_terms.shape[:-1], -np.inf)
    peak = np.max(log_terms, axis=-1, keepdims=True)
    safe = np.where(np.isfinite(peak), peak, 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.sum(np.exp(log_terms - safe), axis=-1)) + safe[..., 0])
