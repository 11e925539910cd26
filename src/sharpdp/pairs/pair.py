"""Binary experiments (P, Q): what a mechanism's output looks like under two neighboring inputs.

A Pair knows its privacy loss L = log dP/dQ through three functions of a threshold `loss`, each in
out-of-the-money form, so that none is computed as a difference from one:

    log_hockey_stick(k)  log E_Q[(X - e^k)_+] for k >= 0,  log E_Q[(e^k - X)_+] for k < 0
    log_tail_q(k)        log Q[k <= L < inf] for k >= 0,  log Q[-inf < L <= k] for k < 0
    log_tail_p(k)        the tail of the same losses under P

with X = dP/dQ where it is finite.

Mass of P where Q has none sits at loss +inf, mass of Q where P has none at -inf. Everything else
(discretization, composition, trade-off curves) is built from these in the neighboring modules.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.directed import widened
from sharpdp.numerics.scipy_special import log_ndtr
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log1mexp, log_normal_call

ACCURACY = 2e-12
"""Error of logarithms of profiles made of library functions, with a margin of ten."""

STANDARD_WIDTH = 2e-4
"""Relative width of epsilon that pairs of finitely many values leave, unless a finer one is asked for."""

SMALLEST_MOMENT = 1e-307
"""Logarithms of moments below this are rounded by more than a share of themselves, or to zero."""

_ACCURACY_PER_MU = 2e-14
"""k/mu - mu/2 cancels: an error of 40 units times mu in the logarithm."""


Interval = tuple[float, float]


class Pair(ABC):
    """A binary experiment seen through its privacy loss."""

    @property
    def accuracy(self) -> float:
        """Bound on the error of log_hockey_stick and log_tail_*, for values down to e^-800."""
        return ACCURACY

    @abstractmethod
    def log_hockey_stick(self, loss: Array) -> Array:
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
    def unbounded(self) -> tuple[bool, bool]:
        """Whether losses below, and above, any bound are known to have positive probability."""
        return (False, False)

    @property
    def accurate_range(self) -> tuple[float, float]:
        """Thresholds between which `accuracy` holds; discretization puts its nodes there."""
        return self.support

    @property
    def loss_error(self) -> float:
        """Bound on the rounding of thresholds against the losses of this pair."""
        return 0.0

    @property
    def mean_loss_error(self) -> float:
        """Bound on the mean of the rounding of losses under P: values at any threshold move by no more.

        (1 - e^{k - L})_+ changes by at most what L does.
        """
        return self.loss_error

    @property
    def atoms(self) -> tuple[float, ...]:
        """Losses that carry positive mass on their own, so that they become nodes."""
        return ()

    @property
    def smallest_threshold(self) -> float:
        """Thresholds closer to zero than this are not worth a look; only for planning."""
        return 0.0

    @property
    def tails_are_lower_bounds(self) -> bool:
        """Whether a tail may be that of a test near its threshold, and not of all that lies beyond it.

        A test and its value make a line below the profile all the same, so that lower sides are safe.
        """
        return False

    @property
    def infinite_p(self) -> float:
        """P-mass at loss +inf."""
        return 0.0

    @property
    def infinite_q(self) -> float:
        """Q-mass at loss -inf."""
        return 0.0

    @property
    def infinite_p_ends(self) -> Interval:
        """(lower, upper) of the P-mass at loss +inf; equal if the double is the mass itself."""
        return widened(self.infinite_p, self.accuracy)

    @property
    def infinite_q_ends(self) -> Interval:
        """(lower, upper) of the Q-mass at loss -inf."""
        return widened(self.infinite_q, self.accuracy)

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same loss distribution as (P, Q)."""
        return False

    def reverse(self) -> Pair:
        """(Q, P): the other direction of the same experiment."""
        return self if self.symmetric else ReversedPair(self)

    @property
    def chance_of_loss(self) -> float:
        """An upper bound on the probability of a loss other than zero; 1 if nothing is known."""
        return 1.0

    def tail_rate(self, loss: float) -> float:
        """A lower bound on the rate at which log_hockey_stick falls from `loss` > 0 on; 0 if unknown."""
        return 0.0

    def dominating(self) -> Pair:
        """A pair that reveals no less and is composed more sharply; itself if none is known."""
        return self

    def for_composition(self) -> Pair:
        """The pair to use where it is composed: itself, or a quicker one that is safe on its side."""
        return self


@dataclass(frozen=True)
class GaussianPair(Pair):
    """N(mu, 1) against N(0, 1); L ~ N(mu^2/2, mu^2) under P.

    >>> pair = GaussianPair(1.0)
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([1.0]))[0])), 10)
    0.1269367375
    """

    mu: float

    @property
    def accuracy(self) -> float:
        return ACCURACY + _ACCURACY_PER_MU * self.mu

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def unbounded(self) -> tuple[bool, bool]:
        return (True, True)

    def log_hockey_stick(self, loss: Array) -> Array:
        return log_normal_call(self.mu, np.abs(loss)) + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return np.asarray(
            log_ndtr(-np.abs(loss) / self.mu - np.where(loss < 0, -0.5, 0.5) * self.mu)
        )

    def log_tail_p(self, loss: Array) -> Array:
        return np.asarray(
            log_ndtr(-np.abs(loss) / self.mu + np.where(loss < 0, -0.5, 0.5) * self.mu)
        )

    def tail_rate(self, loss: float) -> float:
        # log_hockey_stick is concave: its value is e^k times an integral of the log-concave e^-v P[L > v]
        at = np.array([loss])
        log_rate = self.log_tail_q(at) + loss - self.log_hockey_stick(at)
        return float(np.exp(log_rate[0])) * (1.0 - 1e-9)

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}] = order (order - 1) mu^2 / 2."""
        exact = 0.5 * order * (order - 1.0) * self.mu**2
        slack = exact * self.accuracy + SMALLEST_MOMENT
        return (max(exact - slack, 0.0), exact + slack)


@dataclass(frozen=True)
class LaplacePair(Pair):
    """Laplace noise of scale 1/epsilon, centers at distance one; |L| <= epsilon with atoms at both ends.

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

    @property
    def loss_error(self) -> float:
        # epsilon is one over the scale, rounded
        return 4.0 * UNIT_ROUNDOFF * self.epsilon

    def log_hockey_stick(self, loss: Array) -> Array:
        inside = np.minimum((np.abs(loss) - self.epsilon) / 2.0, 0.0)
        return log1mexp(inside) + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return np.where(loss < 0, self._large_tail(loss), self._small_tail(loss))

    def log_tail_p(self, loss: Array) -> Array:
        return np.where(loss < 0, self._small_tail(loss), self._large_tail(loss))

    def _small_tail(self, loss: Array) -> Array:
        """log of the tail under the center that is farther from it."""
        k = np.abs(loss)
        return np.where(k <= self.epsilon, -0.5 * (self.epsilon + k) - np.log(2.0), -np.inf)

    def _large_tail(self, loss: Array) -> Array:
        """log of the tail under the nearer center."""
        k = np.abs(loss)
        value = np.log1p(-0.5 * np.exp(np.minimum(0.5 * (k - self.epsilon), 0.0)))
        return np.where(k <= self.epsilon, value, -np.inf)

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}]."""
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
class ReversedPair(Pair):
    """(Q, P) of a given pair (P, Q): losses change sign, the two tails change places."""

    base: Pair

    @property
    def accuracy(self) -> float:
        return self.base.accuracy

    @property
    def loss_error(self) -> float:
        return self.base.loss_error

    @property
    def tails_are_lower_bounds(self) -> bool:
        return self.base.tails_are_lower_bounds

    @property
    def smallest_threshold(self) -> float:
        return self.base.smallest_threshold

    @property
    def support(self) -> tuple[float, float]:
        low, high = self.base.support
        return (-high, -low)

    @property
    def unbounded(self) -> tuple[bool, bool]:
        low, high = self.base.unbounded
        return (high, low)

    @property
    def accurate_range(self) -> tuple[float, float]:
        low, high = self.base.accurate_range
        return (-high, -low)

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(-atom for atom in reversed(self.base.atoms))

    @property
    def infinite_p(self) -> float:
        return self.base.infinite_q

    @property
    def infinite_q(self) -> float:
        return self.base.infinite_p

    @property
    def infinite_p_ends(self) -> Interval:
        return self.base.infinite_q_ends

    @property
    def infinite_q_ends(self) -> Interval:
        return self.base.infinite_p_ends

    def reverse(self) -> Pair:
        return self.base

    def dominating(self) -> Pair:
        above = self.base.dominating()
        return self if above is self.base else above.reverse()

    def log_hockey_stick(self, loss: Array) -> Array:
        return self.base.log_hockey_stick(-loss) + loss

    def log_tail_q(self, loss: Array) -> Array:
        return self.base.log_tail_p(_negated(loss))

    def log_tail_p(self, loss: Array) -> Array:
        return self.base.log_tail_q(_negated(loss))


def _negated(loss: Array) -> Array:
    """-loss, with zero mapped to just below zero: the tail at or above 0 becomes the one at or below."""
    return np.where(loss == 0.0, -np.finfo(float).smallest_subnormal, -loss)
