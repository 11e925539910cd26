"""Gaussian sums over a random subset of fixed size: a record takes part at some rate, or another does.

In a step the sum is N(v) if another record has the place, N(u) or N(u') if the record or its alternative
has it (noise one, rate r). For x >= 1

    H_x(P||Q) = int (r phi_u - x r phi_u' - (x - 1)(1 - r) phi_v)_+
              = E_u[(r - x r Y - (x - 1)(1 - r) Z)_+],   Y = phi_u'/phi_u, Z = phi_v/phi_u,

a convex function of a sum of two lognormals with mean one. It rises with both variances and with the
covariance of their logarithms, |u - u'|^2, |u - v|^2 and <u - u', u - v>. If no mean is longer than mu,
all three are largest together. So in each direction one arrangement on a line is the worst:

- u' = 0 (a null record), P against Q: means mu, 0, -mu;          Q against P: mu, 0, mu;
- u' free (replace-one): means mu, -mu, -mu, and mirrored.

The proof is in docs/proofs/shuffled-batches.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sharpdp.numerics.special import Array, cell_masses, log_ndtr, log_normal_call
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import ACCURACY, GaussianPair, Hints, Pair
from sharpdp.pairs.subsampled import PoissonSampledPair


@dataclass(frozen=True)
class HalvesPair(Pair):
    """The profile of one pair above loss zero, and of another, reversed, below it.

    H_x(P||Q) is that of `ahead` for x >= 1, H_x(Q||P) that of `behind`. They agree at x = 1.

    Holds when: both have no mass at infinity and the same total variation.

    >>> base = PoissonSampledPair(GaussianPair(1.0), 0.5)
    >>> HalvesPair(base, base).symmetric
    True
    """

    ahead: Pair
    behind: Pair

    @property
    def accuracy(self) -> float:
        return max(self.ahead.accuracy, self.behind.accuracy)

    @property
    def support(self) -> tuple[float, float]:
        return (-self.behind.support[1], self.ahead.support[1])

    @property
    def accurate_range(self) -> tuple[float, float]:
        return (-self.behind.accurate_range[1], self.ahead.accurate_range[1])

    @property
    def symmetric(self) -> bool:
        return self.ahead == self.behind

    def reverse(self) -> Pair:
        return HalvesPair(self.behind, self.ahead)

    @property
    def hints(self) -> Hints:
        ahead, behind = self.ahead.hints, self.behind.hints
        return Hints(tail_rate=ahead.tail_rate, unbounded=(behind.unbounded[1], ahead.unbounded[1]))

    def log_hockey_stick(self, loss: Array) -> Array:
        values = _by_halves(loss, self.ahead.log_hockey_stick, self.behind.log_hockey_stick)
        return values + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return _by_halves(loss, self.ahead.log_tail_q, self.behind.log_tail_p)

    def log_tail_p(self, loss: Array) -> Array:
        return _by_halves(loss, self.ahead.log_tail_p, self.behind.log_tail_q)


Values = Callable[[Array], Array]


def _by_halves(loss: Array, ahead: Values, behind: Values) -> Array:
    """One function at thresholds from zero on, the other at the sizes of those below."""
    k = np.asarray(loss, dtype=float)
    values, below = np.empty(k.shape), k < 0.0
    values[~below] = ahead(k[~below])
    values[below] = behind(-k[below])
    return values


@dataclass(frozen=True)
class SettledPair(Pair):
    """A sampled pair from above, known everywhere: its last digits are lost next to its smallest loss.

    There the value of the nearest threshold that is resolved takes its place, which is larger.

    >>> pair = SettledPair(PoissonSampledPair(GaussianPair(1.0), 0.5))
    >>> pair.accurate_range == pair.support
    True
    """

    base: PoissonSampledPair

    @property
    def accuracy(self) -> float:
        return self.base.accuracy

    @property
    def support(self) -> tuple[float, float]:
        return self.base.support

    @property
    def hints(self) -> Hints:
        return Hints(tail_rate=self.base.hints.tail_rate)

    def log_hockey_stick(self, loss: Array) -> Array:
        return self._settled(loss, self.base.log_hockey_stick)

    def log_tail_q(self, loss: Array) -> Array:
        return self._settled(loss, self.base.log_tail_q)

    def log_tail_p(self, loss: Array) -> Array:
        return self._settled(loss, self.base.log_tail_p)

    def _settled(self, loss: Array, values: Values) -> Array:
        accurate = values(np.maximum(loss, self.base.accurate_range[0]))
        return np.where(loss > self.support[0], accurate, -np.inf)


@dataclass(frozen=True)
class DisplacedPair(Pair):
    """(1 - r) N(-mu) + r N(mu) against (1 - r) N(-mu) + r N(0), above loss zero only.

    The ratio passes x = e^k at z, where w = e^{mu z} solves r c w^2 - x r w - (x - 1)(1 - r) c = 0 with
    c = e^{-mu^2/2}.
    There the densities in the integrand cancel, so that with h_m the profile of N(m) against N(0)

        H_x = x r e^{-a} h_mu(e^a) + (x - 1)(1 - r) e^{-b} h_2mu(e^b),   a = mu z - mu^2/2, b = 2 mu z:

    a sum of positive terms.

    >>> whole = DisplacedPair(1.0, 1.0)  # N(1) against N(0)
    >>> round(float(np.exp(whole.log_hockey_stick(np.array([1.0])))[0]), 10)
    0.1269367375
    """

    mu: float
    rate: float

    @property
    def accuracy(self) -> float:
        # the place is rounded, and values fall by up to 40/mu for each unit of it
        return 5.0 * ACCURACY + 1e-12 * self.mu

    @property
    def hints(self) -> Hints:
        return Hints(tail_rate=self._tail_rate)

    def _tail_rate(self, loss: float) -> float:
        # the loss rises by at most 2 mu for each deviation, and Q beyond z lies below N(0) beyond z: no
        # slower than N(2 mu) against N(0) at the same z, as for opposed records
        threshold = 2.0 * float(self._place(np.array([loss]))[0]) - 2.0 * self.mu**2
        return GaussianPair(2.0 * self.mu).hints.tail_rate(threshold) if threshold > 0.0 else 0.0

    def _place(self, loss: Array) -> Array:
        """mu z, in logarithms so that nothing overflows."""
        k, r, mu = np.asarray(loss, dtype=float), self.rate, self.mu
        with np.errstate(divide="ignore"):
            other = np.log1p(-r) - np.log(r) + np.log(-np.expm1(-k)) - k
        # w = x (1 + sqrt(1 + 4 (x - 1)(1 - r) c^2 / (r x^2))) / (2 c)
        root = np.sqrt(1.0 + 4.0 * np.exp(np.minimum(other - mu * mu, 600.0)))
        return np.asarray(k + np.log(0.5 * (1.0 + root)) + 0.5 * mu * mu)

    def log_hockey_stick(self, loss: Array) -> Array:
        k, r, mu = np.asarray(loss, dtype=float), self.rate, self.mu
        crossing = self._place(k)
        near, far = np.maximum(crossing - 0.5 * mu * mu, 0.0), 2.0 * crossing
        with np.errstate(divide="ignore"):
            weight = k + np.log(-np.expm1(-k)) + np.log1p(-r)
        null_record = k + np.log(r) - near + log_normal_call(mu, near)
        other = weight - far + log_normal_call(2.0 * mu, far)
        return np.asarray(np.logaddexp(null_record, other))

    def log_tail_q(self, loss: Array) -> Array:
        return self._tail(loss, 0.0)

    def log_tail_p(self, loss: Array) -> Array:
        return self._tail(loss, self.mu)

    def _tail(self, loss: Array, mean: float) -> Array:
        """log of (1 - r) N(-mu) + r N(mean) beyond z."""
        z = self._place(loss) / self.mu
        with np.errstate(divide="ignore"):
            without = np.log1p(-self.rate) + log_ndtr(-z - self.mu)
        return np.asarray(np.logaddexp(without, np.log(self.rate) + log_ndtr(mean - z)))


def subset_zero_out(mu: float, rate: float) -> Pair:
    """The pair that dominates one step with a null record or a record in the subset at this rate."""
    if rate == 1.0:
        return GaussianPair(mu)
    return HalvesPair(DisplacedPair(mu, rate), PoissonSampledPair(GaussianPair(mu), rate))


def subset_replace_one(mu: float, rate: float) -> Pair:
    """The pair that dominates one step in which the record has two values, at most 2 mu apart."""
    if rate == 1.0:
        return GaussianPair(2.0 * mu)
    half = PoissonSampledPair(GaussianPair(2.0 * mu), rate)
    return HalvesPair(half, half)


def displaced(mu: float, rate: float) -> AtomicPair:
    """The data sets behind `DisplacedPair`, seen through cells: a pair that is attained, from below.

    >>> len(displaced(1.0, 0.5).losses) > 1000
    True
    """
    edges = np.linspace(-9.5 - mu, 9.5 + mu, 1599)
    edges = np.concatenate([[-np.inf], edges, [np.inf]])
    other, null_record, record = (cell_masses(edges, mean) for mean in (-mu, 0.0, mu))
    p = (1.0 - rate) * other + rate * record
    q = (1.0 - rate) * other + rate * null_record
    pair = AtomicPair.from_rounded_pmfs(p, q)
    # relative error of a cell's probability
    return replace(pair, loss_error=pair.loss_error + 2e-13, mass_error=2e-13)
