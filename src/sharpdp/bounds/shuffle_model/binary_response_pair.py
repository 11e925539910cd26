"""A real pair of data sets in the shuffle model, computed exactly: what no analysis can beat.

All other users hold 0, the victim 1 or 0, everyone runs binary randomized response: only the number of
ones is seen, and the likelihood ratio is linear in it. The same two data sets attain it in every round,
so that it composes. (It is not always the worst data set: with few users another split of the others
can be worse.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.counts import MASS_ERROR, below_over_at, beyond_over_at, log_mass, tail_error
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.pair import Pair


@dataclass(frozen=True)
class BinaryResponsePair(Pair):
    """The number M of ones: Bern(1 - w) + Bin(users - 1, w) under P, Bin(users, w) under Q.

    With E = e^local_epsilon and w = 1/(E + 1) the ratio is X = 1/E + (E - 1/E) M/users, and

        E_Q[(X - g)_+] = Q[M = m] { (E - g) - (E - 1)(users - m)/users } - (g - 1) Q[M > m],

    m the first M with X >= g; below, E_Q[(g - X)_+] is the same from the other end.

    >>> alone = BinaryResponsePair(users=1, local_epsilon=float(np.log(3.0)))
    >>> round(float(np.exp(alone.log_hockey_stick(np.array([0.0])))[0]), 12)  # 3/4 - 1/4
    0.5
    """

    users: int
    local_epsilon: float

    @property
    def accuracy(self) -> float:
        return 1e-12 + 2.0 * MASS_ERROR + tail_error(float(self.users))

    @property
    def support(self) -> tuple[float, float]:
        return (-self.local_epsilon, self.local_epsilon)

    @property
    def atoms(self) -> tuple[float, ...]:
        return self.support

    @property
    def loss_error(self) -> float:
        # the count at a threshold carries a few units, and all ratios are between 1/E and E
        return 64.0 * UNIT_ROUNDOFF * min(self.local_epsilon, 1.0)

    @property
    def smallest_threshold(self) -> float:
        # a small share of the standard deviation of the loss
        return float(2.0**-14 * np.tanh(0.5 * self.local_epsilon) / np.sqrt(self.users))

    @property
    def _rate(self) -> float:
        """w = 1/(E + 1)."""
        return float(np.exp(-np.logaddexp(0.0, self.local_epsilon)))

    def _ones(self, k: Array) -> Array:
        """The fewest ones whose loss is at least k >= 0, the most whose loss is at most k < 0.

        X = 1/E + (E - 1/E) M/users = E - (E - 1/E)(users - M)/users, counted from the nearer end.
        """
        n, e = float(self.users), self.local_epsilon
        # over E - 1/E: the distance of e^k from 1/E, and from E
        bottom = np.exp(-2.0 * e) * np.expm1(np.clip(k + e, 0.0, 2.0 * e)) / -np.expm1(-2.0 * e)
        top = -np.expm1(np.minimum(k - e, 0.0)) / -np.expm1(-2.0 * e)
        few = np.where(k < 0.0, np.floor(n * bottom), np.ceil(n * bottom))
        many = n - np.where(k < 0.0, np.ceil(n * top), np.floor(n * top))
        return np.asarray(np.clip(np.where(bottom < 0.5, few, many), 0.0, n))

    def _log_tails(self, k: Array) -> tuple[Array, Array, Array]:
        """The number of ones at each threshold; log Q there, and Q beyond over it."""
        n, w = np.full(k.shape, float(self.users)), self._rate
        ones, put = self._ones(k), k < 0.0
        log_at = log_mass(n, ones, w)
        ratio = np.empty(k.shape)
        ratio[~put] = beyond_over_at(n[~put], ones[~put], w, log_at[~put])
        ratio[put] = below_over_at(n[put], ones[put], w, log_at[put])
        return ones, log_at, ratio

    def log_hockey_stick(self, loss: Array) -> Array:
        k, e = np.asarray(loss, dtype=float), self.local_epsilon
        ones, log_at, ratio = self._log_tails(k)
        share, put = ones / self.users, k < 0.0
        # the braces over E above, over 1/E below; above in two forms, for few and for many ones
        scale, beyond = np.where(put, -e, e), np.abs(np.expm1(k)) * ratio
        below = np.expm1(np.minimum(k + e, e)) - np.expm1(e) * share - np.exp(e) * beyond
        few = -np.expm1(-e) * share - np.exp(-e) * (np.expm1(np.maximum(k, 0.0)) + beyond)
        rest = (self.users - ones) / self.users
        many = -np.expm1(np.minimum(k - e, 0.0)) + np.expm1(-e) * rest - np.exp(-e) * beyond
        braces = np.where(put, below, np.where(share < 0.5, few, many))
        with np.errstate(divide="ignore"):
            value = log_at + scale + np.log(np.maximum(braces, 0.0))
        return np.where(np.abs(k) < e, value, -np.inf)

    def log_tail_q(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        _, log_at, ratio = self._log_tails(k)
        value = log_at + np.log1p(ratio)
        return np.where(np.abs(k) <= self.local_epsilon, value, -np.inf)

    def log_tail_p(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        # above, P = X Q: the tail of Q times the ratio at the threshold, plus what lies beyond it
        value = np.logaddexp(self.log_tail_q(k) + k, self.log_hockey_stick(k))
        put = (k < 0.0) & (k >= -self.local_epsilon)
        value[put] = self._log_few_ones(self._ones(k[put]))
        return np.where(np.abs(k) <= self.local_epsilon, value, -np.inf)

    def _log_few_ones(self, m: Array) -> Array:
        """log P[M <= m] = log(w f(m) + F(m - 1)), f and F those of the users - 1 others."""
        n, w = np.full(m.shape, self.users - 1.0), self._rate
        few = np.minimum(m, n)
        log_at = log_mass(n, few, w)
        value = log_at + np.log(below_over_at(n, few, w, log_at) + w)
        return np.where(m > n, 0.0, value)
