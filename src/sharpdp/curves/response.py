"""A real pair of data sets in the shuffle model, computed exactly: what no analysis can beat.

All other users hold 0, the victim 1 or 0, everyone runs binary randomized response: only the number of
ones is seen, and the likelihood ratio is linear in it. The same two data sets attain it in every round,
so that it composes. (It is not always the worst data set: with few users another split of the others
can be worse.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sharpdp.curves.pair import Pair
from sharpdp.numerics.binomial import MASS_ERROR, beyond_over_at, log_mass, tail_error
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array


@dataclass(frozen=True)
class BinaryResponsePair(Pair):
    """The number M of ones: Bern(1 - w) + Bin(users - 1, w) under P, Bin(users, w) under Q.

    With E = e^local_epsilon and w = 1/(E + 1) the ratio is X = 1/E + (E - 1/E) M/users, and

        E_Q[(X - g)_+] = Q[M = m] { (E - g) - (E - 1)(users - m)/users } - (g - 1) Q[M > m],

    m the first M with X >= g; below, E_Q[(g - X)_+] is the same from the other end.

    >>> alone = BinaryResponsePair(users=1, local_epsilon=float(np.log(3.0)))
    >>> round(float(np.exp(alone.log_otm(np.array([0.0])))[0]), 12)  # 3/4 - 1/4
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
    def finest(self) -> float:
        # a small share of the standard deviation of the loss
        return float(2.0**-14 * np.tanh(0.5 * self.local_epsilon) / np.sqrt(self.users))

    @property
    def _rate(self) -> float:
        """w = 1/(E + 1)."""
        return float(np.exp(-np.logaddexp(0.0, self.local_epsilon)))

    def _from_end(self, k: Array) -> tuple[Array, Array]:
        """The distance of a threshold from the end of the support; the reports that differ beyond it.

        The distance is one of ratios, over E at the upper end and over 1/E at the lower one, where all
        reports agree; at most so many differ if the loss is at least as extreme as the threshold.
        """
        e = self.local_epsilon
        gap = np.where(k < 0.0, np.expm1(np.minimum(e + k, e)), -np.expm1(np.minimum(k - e, 0.0)))
        most = np.where(k < 0.0, np.expm1(2.0 * e), -np.expm1(-2.0 * e))
        return gap, np.floor(np.clip(self.users * gap / most, 0.0, float(self.users)))

    def _log_tails(self, k: Array) -> tuple[Array, Array, Array, Array]:
        """The gap and the differing reports at each threshold; log Q there, and Q beyond over it."""
        n, w = np.full(k.shape, float(self.users)), self._rate
        gap, differ = self._from_end(k)
        put = k < 0.0
        ones = np.where(put, differ, n - differ)
        log_at = log_mass(n, ones, w)
        ratio = np.empty(k.shape)
        ratio[~put] = beyond_over_at(n[~put], ones[~put], w, log_at[~put])
        ratio[put] = beyond_over_at(n[put], (n - ones)[put], 1.0 - w, log_at[put])
        return gap, differ, log_at, ratio

    def log_otm(self, loss: Array) -> Array:
        k, e = np.asarray(loss, dtype=float), self.local_epsilon
        gap, differ, log_at, ratio = self._log_tails(k)
        # over E above, over 1/E below
        scale = np.where(k < 0.0, -e, e)
        slope = np.where(k < 0.0, np.expm1(e), -np.expm1(-e))
        beyond = np.abs(np.expm1(k)) * ratio * np.exp(-scale)
        with np.errstate(divide="ignore"):
            braces = np.log(np.maximum(gap - slope * differ / self.users - beyond, 0.0))
        return np.where(np.abs(k) < e, log_at + scale + braces, -np.inf)

    def log_tail_q(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        _, _, log_at, ratio = self._log_tails(k)
        value = log_at + np.log1p(ratio)
        return np.where(np.abs(k) <= self.local_epsilon, value, -np.inf)

    def log_tail_p(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        # above, P = X Q: the tail of Q times the ratio at the threshold, plus what lies beyond it
        value = np.logaddexp(self.log_tail_q(k) + k, self.log_otm(k))
        put = (k < 0.0) & (k >= -self.local_epsilon)
        value[put] = self._log_few_ones(self._from_end(k[put])[1])
        return np.where(np.abs(k) <= self.local_epsilon, value, -np.inf)

    def _log_few_ones(self, m: Array) -> Array:
        """log P[M <= m] = log(w f(m) + F(m - 1)), f and F those of the users - 1 others."""
        n, w = np.full(m.shape, self.users - 1.0), self._rate
        few = np.minimum(m, n)
        log_at = log_mass(n, few, w)
        value = log_at + np.log(beyond_over_at(n, n - few, 1.0 - w) + w)
        return np.where(m > n, 0.0, value)
