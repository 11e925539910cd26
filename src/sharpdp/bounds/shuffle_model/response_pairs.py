"""Real pairs of data sets in the shuffle model, computed exactly: what no analysis can beat.

Everyone runs randomized response, and the same two data sets attain the pair in every round, so that it
composes.

Two categories (BinaryResponsePair): all other users hold 0, the victim 1 or 0. Only the number of ones is
seen, and the likelihood ratio is linear in it. (It is not always the worst data set: with few users
another split of the others can be worse.)

Three categories: all other users hold the third symbol, the victim one of the first two; a, b, c are the
counts of the three reports. With E = e^local_epsilon, v = 1/(E + 2) and (a, b, c) ~ Mult(n; v, v, E v)
under M

    P = M (E a + b + c/E)/n,   Q = M (a + E b + c/E)/n.

If the victim is in the round only with some probability `rate`, in whose absence one more user holds the
third symbol, both are mixed with M: c/E becomes c' = c/E + n (1 - rate)/rate, and all is multiplied by
the rate.

The number N = a + b has the same law under both, so that the profile is a sum over N (ThreeCountsPair).
With so many users that N takes too many values only D = a - b is kept, a post-processing that loses a
share of about 1/N (DifferencePair).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.counts import (
    MASS_ERROR,
    WALK_ACCURACY,
    below_over_at,
    beyond_over_at,
    fair_coins,
    log_block_sum,
    log_mass,
    log_step_mass,
    log_step_tail,
    tail_error,
)
from sharpdp.numerics.kept_columns import KeptColumns
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log_mixture
from sharpdp.pairs.pair import ACCURACY, Hints, Pair, SymmetricPair

__all__ = ["BinaryResponsePair", "DifferencePair", "ThreeCountsPair", "ternary_pair"]


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
    def hints(self) -> Hints:
        # a small share of the standard deviation of the loss
        deviation = np.tanh(0.5 * self.local_epsilon) / np.sqrt(self.users)
        return Hints(smallest_threshold=float(2.0**-14 * deviation))

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
        ones = self._ones(k)
        codes, back = np.unique(2.0 * ones + (k < 0.0), return_inverse=True)
        kept = _known_tails(self.users, self._rate).at(codes)
        log_at, ratio = kept[:, back.reshape(k.shape)]
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


@lru_cache(maxsize=8)
def _known_tails(users: int, rate: float) -> KeptColumns:
    """log P[M = m] and the tail beyond m, or below it, over that, M ~ Bin(users, rate).

    At the points 2 m, and 2 m + 1 for tails below. Many thresholds have the same count, and questions ask
    for nearly the same thresholds over and over.
    """

    def computed(codes: Array) -> Array:
        ones, put = np.floor(codes / 2.0), codes % 2.0 == 1.0
        n = np.full(ones.shape, float(users))
        log_at = log_mass(n, ones, rate)
        ratio = np.empty(ones.shape)
        ratio[~put] = beyond_over_at(n[~put], ones[~put], rate, log_at[~put])
        ratio[put] = below_over_at(n[put], ones[put], rate, log_at[put])
        return np.stack([log_at, ratio])

    return KeptColumns(2, computed)


def ternary_pair(
    users: int, local_epsilon: float, rate: float = 1.0
) -> ThreeCountsPair | DifferencePair:
    """The sharper of the two pairs that is quick for so many users."""
    # with more the difference alone is good enough: it loses a share of 1e-4
    if 2.0 * _each(local_epsilon) * users <= 2e4:
        return ThreeCountsPair(users, local_epsilon, rate)
    return DifferencePair(users, local_epsilon, rate)


def _each(local_epsilon: float) -> float:
    """v = 1/(E + 2)."""
    return float(np.exp(-np.logaddexp(np.log(2.0), local_epsilon)))


_MANY_REPORTS = 1000.0
"""From so many reports of the first two symbols on their difference tells about as much as both."""


@lru_cache(maxsize=32)
def _weights(users: int, local_epsilon: float) -> tuple[Array, Array]:
    """The values of N that matter and the logs of their probabilities under M."""
    rate = 2.0 * _each(local_epsilon)
    mean, deviation = users * rate, float(np.sqrt(users * rate * (1.0 - rate)))
    # down to values of e^-800 the decisive counts lie at most 800 beyond nine deviations
    low = max(int(mean - 9.0 * deviation) - 800, 0)
    high = min(int(mean + 9.0 * deviation) + 800, users)
    counts = np.arange(low, high + 1.0)
    return counts, log_mass(np.full(counts.size, float(users)), counts, rate)


@dataclass(frozen=True)
class _TernaryPair(SymmetricPair):
    """What both pairs have in common."""

    users: int
    local_epsilon: float
    rate: float = 1.0

    @property
    def largest(self) -> float:
        return float(log_mixture(self.rate, self.local_epsilon))

    @property
    def hints(self) -> Hints:
        # a small share of the standard deviation of the loss
        deviation = np.tanh(0.5 * self.local_epsilon) / np.sqrt(self.users)
        return Hints(smallest_threshold=float(2.0**-14 * self.rate * deviation))


@dataclass(frozen=True)
class ThreeCountsPair(_TernaryPair):
    """(a, b, c) under P against Q.

    Given N the ratio falls with b, and for g = e^k and B ~ Bin(N - 1, 1/2)

        H_g = sum_N M[N] { [(E - g) N - (g - 1) c'] P[B = b*] / 2 - (g - 1) R P[B < b*] } rate / n,

    R = (E + 1) N/2 + c', b* = floor(N (E - g)/((E - 1)(g + 1)) - c' tanh(k/2)/(E - 1)).

    >>> alone = ThreeCountsPair(users=1, local_epsilon=float(np.log(2.0)))
    >>> round(float(np.exp(alone.log_hockey_stick(np.array([0.0])))[0]), 12)  # 2/4 - 1/4
    0.25
    """

    @property
    def accuracy(self) -> float:
        return 1e-12 + 2.0 * MASS_ERROR + tail_error(float(self.users))

    @property
    def loss_error(self) -> float:
        # b* carries a few units, as if the threshold did
        return 64.0 * UNIT_ROUNDOFF * min(self.largest, 1.0)

    @property
    def hints(self) -> Hints:
        return replace(super().hints, planning=self._planned)

    def _planned(self) -> _TernaryPair:
        # of few reports the difference tells less than the counts
        if 2.0 * _each(self.local_epsilon) * self.users < _MANY_REPORTS:
            return self
        return DifferencePair(self.users, self.local_epsilon, self.rate)

    def call_and_tails(self, loss: Array) -> Array:
        counts, log_weight = _weights(self.users, self.local_epsilon)
        return log_block_sum(loss, counts, log_weight, self._kernel, Side.LOWER)

    def _kernel(self, count: Array, k: Array) -> tuple[Array, Array]:
        """P[B = b*] given N = count as a logarithm, and the three values in units of it.

        Under Q the probability beyond is { R P[B < b*] + (N + c') P[B = b*] / 2 } rate / n, under P
        with E N instead of N.
        """
        e = self.local_epsilon
        others = (self.users - count) * np.exp(-e) + self.users * (1.0 - self.rate) / self.rate
        gap = np.exp(e) * -np.expm1(k - e)
        share = gap / (np.expm1(e) * (np.exp(k) + 1.0))
        last = np.floor(count * share - others * np.tanh(0.5 * k) / np.expm1(e))
        coins, b = np.maximum(count - 1.0, 0.0), np.maximum(last, 0.0)
        log_at, ratio = fair_coins(coins, b)
        spread = 0.5 * (np.exp(e) + 1.0) * count + others
        call = 0.5 * (gap * count - np.expm1(k) * others) - np.expm1(k) * spread * ratio
        farther = spread * ratio + 0.5 * (count + others)
        nearer = spread * ratio + 0.5 * (np.exp(e) * count + others)
        values = np.stack([np.maximum(call, 0.0), farther, nearer]) * (self.rate / self.users)
        some = (count > 0.0) & (last >= 0.0)
        return np.where(some, log_at, -np.inf), values


@dataclass(frozen=True)
class DifferencePair(_TernaryPair):
    """The difference D of the first two counts; W is the walk of the other users' reports.

    For many users: the walk's accuracy is promised down to e^-800 only if it is much longer than that.

    With v = 1/(E + 2) a report of the others adds 1 or -1 with probability v each, else 0; the
    victim's, or that of the user in its place, adds 1 with probability G v under P, v under Q, and -1
    the other way round, G = 1 + rate (E - 1). The ratio grows with D, because the masses f of W are
    log-concave. For g = e^k and d the first D beyond it

        H_g = v { (G - g) f(d - 1) + [E + 1 - g (E + 2 - G)] f(d) } - (g - 1) P[W > d].
    """

    @property
    def accuracy(self) -> float:
        # so much the difference of mass and tail magnifies the error of both at 40 deviations
        return ACCURACY + 2000.0 * WALK_ACCURACY

    @property
    def tails_are_lower_bounds(self) -> bool:
        # the search for the first difference beyond a threshold may end at another one
        return True

    def _masses(self, d: Array) -> tuple[Array, Array]:
        """log f(d - 1), log f(d)."""
        both = np.stack([np.abs(d - 1.0), d])
        before, here = log_step_mass(self.users - 1, _each(self.local_epsilon), both)
        return before, here

    def _first(self, k: Array) -> Array:
        """The first difference whose loss is at least k, or a neighbor of it if that is undecided.

        Any choice is safe: each difference gives a test, and H_g is at least the value of every test.
        """
        n = float(self.users)
        d = np.ceil(2.0 * n * np.tanh(0.5 * k) / np.expm1(self.largest)).clip(0.0, n)
        # three corrections are usual
        for _ in range(60):
            here, before = self._loss(d), self._loss(np.maximum(d - 1.0, 0.0))
            slope = np.maximum(here - before, 1e-3 * self.largest / n)
            step = np.clip(np.ceil((k - here) / slope), -n, n)
            wrong = (here < k) & (d < n) | (before >= k) & (d > 0.0)
            moved = np.where(step == 0.0, np.where(here < k, 1.0, -1.0), step)
            if not wrong.any():
                break
            d = np.where(wrong, d + moved, d).clip(0.0, n)
        return np.asarray(d)

    def _loss(self, d: Array) -> Array:
        """log of P[D = d] / Q[D = d]."""
        before, here = self._masses(d)
        after = log_step_mass(self.users - 1, _each(self.local_epsilon), d + 1.0)
        peak = np.maximum(np.maximum(before, here), after)
        x, y, z = np.exp(before - peak), np.exp(here - peak), np.exp(after - peak)
        top = np.expm1(self.largest)
        stay = np.expm1(self.local_epsilon) - top + 1.0
        # (G x + (E + 1 - G) y + z) / (x + (E + 1 - G) y + G z), as one plus a difference
        return np.asarray(np.log1p(top * (x - z) / (x + stay * y + (1.0 + top) * z)))

    def call_and_tails(self, loss: Array) -> Array:
        # of the test that rejects from the first difference beyond the threshold on
        k, e, v = loss, self.local_epsilon, _each(self.local_epsilon)
        d = self._first(k)
        before, here = self._masses(d)
        beyond = log_step_tail(self.users - 1, v, d)
        peak = np.maximum(np.maximum(before, here), beyond)
        x, y, z = np.exp(before - peak), np.exp(here - peak), np.exp(beyond - peak)
        top, over = np.expm1(self.largest), np.expm1(k)
        gap, stay = top - over, np.expm1(e) - top + 1.0
        call = v * gap * x + v * (gap - stay * over) * y - over * z
        farther = z + v * ((1.0 + stay) * y + x)
        nearer = z + v * ((np.exp(e) + 1.0) * y + (1.0 + top) * x)
        with np.errstate(divide="ignore"):
            return np.asarray(peak + np.log(np.stack([np.maximum(call, 0.0), farther, nearer])))
