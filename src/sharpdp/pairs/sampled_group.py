"""Gaussian sums over a sampled group: how many of its records take part is binomial."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    log1mexp,
    log_expm1,
    log_ndtr,
    log_normal_call,
)
from sharpdp.pairs.pair import ACCURACY, GaussianPair, Hints, Pair

_STEEPEST = 40.0
"""Logarithms of values down to e^-800 fall by less than this for each deviation."""

_UNITS = 16.0
"""Rounding of a term's logarithm in units of its parts, and of the place where the terms add up."""

_MOST_ROUNDS, _SETTLED = 100, 2.0**-51
"""Newton steps, and the relative move at which they end: the next one would be far smaller."""

_SMALLEST_RATIOS = 2.0 ** np.arange(-10.0, 0.0)
"""Shares of the way from the smallest ratio to one, next to which digits are lost; the first is taken
at which the logarithm of the value is still right to the following."""

_LOST = 4e-12


@dataclass(frozen=True)
class SampledGroupPair(Pair):
    """N(j mu, 1) with j ~ Bin(group_size, rate) against N(0, 1): a group whose records are drawn singly.

    X = dP/dQ = sum of w_j e^{j u - j^2 mu^2 / 2}, u = mu z, rises with the result z. At the u with
    X = e^k it is a sum of e^{a_j} with weights w_j, a_j = j u - j^2 mu^2 / 2, hence

        E_Q (X - e^k)_+ = sum of w_j E_Q (X_j - e^{a_j})_+,   X_j the ratio of N(j mu, 1) to N(0, 1),

    and so for puts: sums of positive terms.

    Numerics: u by Newton's method on a convex function, from the right. Its rounding moves logarithms
    of values by at most 40 / mu times as much, which `accuracy` counts in.

    >>> pair = SampledGroupPair(1.0, 0.5, 2)  # N(0), N(1) and N(2) with weights 1/4, 1/2, 1/4
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 8)
    0.35328362
    """

    mu: float
    rate: float
    group_size: int

    @cached_property
    def _log_weights(self) -> Array:
        """log w_j of j = 1 to group_size."""
        n, q = self.group_size, self.rate
        return np.array(
            [
                math.log(math.comb(n, j)) + j * math.log(q) + (n - j) * math.log1p(-q)
                for j in range(1, n + 1)
            ]
        )

    @cached_property
    def _log_none(self) -> float:
        """log w_0, which is the smallest loss."""
        return self.group_size * math.log1p(-self.rate)

    @cached_property
    def _counts(self) -> Array:
        return np.arange(1.0, self.group_size + 1.0)

    @cached_property
    def _log_terms(self) -> Array:
        """log of the coefficients of e^{j u} in X."""
        return self._log_weights - 0.5 * (self._counts * self.mu) ** 2

    @property
    def mixture(self) -> tuple[Array, Array]:
        """log weights and means of the normals that P is a mixture of."""
        return np.append(self._log_none, self._log_weights), self.mu * np.append(0.0, self._counts)

    @cached_property
    def accuracy(self) -> float:
        n, q, j = self.group_size, self.rate, self._counts
        parts = n * math.log(2.0) - j * math.log(q) - (n - j) * math.log1p(-q)
        largest = 1.0 + float(np.max(parts + 0.5 * (j * self.mu) ** 2))
        place = _UNITS * UNIT_ROUNDOFF * largest * (1.0 + _STEEPEST / self.mu)
        return 4.0 * ACCURACY + GaussianPair(n * self.mu).accuracy + place

    @property
    def support(self) -> tuple[float, float]:
        return (self._log_none * (1.0 + 8.0 * UNIT_ROUNDOFF), np.inf)

    @cached_property
    def accurate_range(self) -> tuple[float, float]:
        # the distance of a threshold from log w_0 is rounded by a unit of either
        losses = np.log(np.exp(self._log_none) - np.expm1(self._log_none) * _SMALLEST_RATIOS)
        losses = np.minimum(losses, -UNIT_ROUNDOFF)
        distance = losses - self._log_none
        error = 2.0 * UNIT_ROUNDOFF * (np.abs(losses) + abs(self._log_none)) / distance
        log_steepness = (
            losses + log1mexp(-distance) + self.log_tail_q(losses) - self.log_hockey_stick(losses)
        )
        fine = error * np.exp(log_steepness) <= _LOST
        return (float(losses[np.argmax(fine)] if fine.any() else losses[-1]), np.inf)

    @property
    def hints(self) -> Hints:
        # sampled always: the divergences are convex in the pair, and rise with the number of records
        always = GaussianPair(self.group_size * self.mu)
        return Hints(no_less=lambda: always, tail_rate=self._tail_rate, unbounded=(False, True))

    def _tail_rate(self, loss: float) -> float:
        # the loss rises by at most group_size mu for each deviation, like that of N(group_size mu)
        top = self.group_size * self.mu
        threshold = self.group_size * float(self._place(np.array([loss]))[0]) - 0.5 * top * top
        return GaussianPair(top).hints.tail_rate(threshold) if threshold > 0.0 else 0.0

    def _place(self, loss: Array) -> Array:
        """u at which X = e^loss; -inf at and below the smallest loss."""
        k = np.asarray(loss, dtype=float)
        with np.errstate(divide="ignore"):
            aim = self._log_none + log_expm1(np.maximum(k - self._log_none, 0.0))
        place = np.full(k.shape, -np.inf)
        inside = np.isfinite(aim)
        aim, j = aim[inside], self._counts
        # no term exceeds the sum, so that all these are at or beyond the place
        u = np.min((aim[:, None] - self._log_terms) / j, axis=1)
        active = np.arange(u.size)
        for _ in range(_MOST_ROUNDS):
            logs = self._log_terms + j * u[active, None]
            peak = np.max(logs, axis=1, keepdims=True)
            shares = np.exp(logs - peak)
            total = np.sum(shares, axis=1)
            excess = peak[:, 0] + np.log(total) - aim[active]
            move = excess * total / (shares @ j)
            u[active] -= move
            active = active[np.abs(move) > _SETTLED * (1.0 + np.abs(u[active]))]
            if not active.size:
                break
        place[inside] = u
        return place

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        u, is_call = self._place(k), k >= 0.0
        known = np.isfinite(u)
        u, is_call = u[known], is_call[known]
        total = np.full(u.shape, -np.inf)
        for j, log_weight in enumerate(self._log_weights, 1):
            total = np.logaddexp(total, log_weight + _log_value(j * self.mu, j * u, is_call))
        values = np.full(k.shape, -np.inf)
        values[known] = total
        return values

    def log_tail_q(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        z = self._place(k) / self.mu
        return np.asarray(log_ndtr(np.where(k >= 0.0, -z, z)))

    def log_tail_p(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        z, sign = self._place(k) / self.mu, np.where(k >= 0.0, -1.0, 1.0)
        total = self._log_none + log_ndtr(sign * z)
        for j, log_weight in enumerate(self._log_weights, 1):
            total = np.logaddexp(total, log_weight + log_ndtr(sign * (z - j * self.mu)))
        return np.asarray(total)


def _log_value(mu: float, moved: Array, is_call: NDArray[np.bool_]) -> Array:
    """log of the call, or of the put, of N(mu, 1) against N(0, 1) at the threshold moved - mu^2 / 2."""
    threshold = moved - 0.5 * mu * mu
    size = np.abs(threshold)
    outside = log_normal_call(mu, size) + np.minimum(threshold, 0.0)
    # a value that is in the money is the one that is not, and |e^threshold - 1|
    with np.errstate(divide="ignore"):
        log_gap = log_expm1(size) + np.minimum(threshold, 0.0)
    inside = np.logaddexp(outside, log_gap)
    return np.where(is_call == (threshold >= 0.0), outside, inside)
