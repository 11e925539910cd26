"""The pair that dominates one round of shuffled reports, for any number of users.

C ~ Bin(users - 1, rate) of the other reports look as if they came from the victim's two possible
values, A ~ Bin(C, 1/2) of them from the first. With E = e^local_epsilon and w = 1/(E + 1),

    P0 = (A + 1, C - A),  Q0 = (A, C - A + 1),  P = (1 - w) P0 + w Q0,  Q = (1 - w) Q0 + w P0.

Given C = c the ratio of P and Q falls with the second count b, and for g = e^k

    H_g = sum_c P[C = c] { w (E - g) P[B = b*] - (g - 1) P[B < b*] },   B ~ Bin(c, 1/2),

with b* = floor((c + 1)(E - g)/((E - 1)(g + 1))): binomial masses and tails, no atoms are listed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.counts import (
    MASS_ERROR,
    below_over_at,
    beyond_over_at,
    fair_coins,
    log_block_sum,
    log_mass,
    ratio_error,
    tail_error,
)
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log1mexp, log_diff
from sharpdp.pairs.pair import Hints, SymmetricPair


@dataclass(frozen=True)
class ShufflePair(SymmetricPair):
    """P against Q above, with C rounded down so that epsilon grows by a relative `error` or less.

    Rounding down is safe: adding a coin is post-processing, so H_g falls with c, and the rounded pair
    is a pair of its own that dominates. If C takes fewer values than that, nothing is rounded. The
    rate may be a lower bound for the same reason.

    >>> alone = ShufflePair(users=1, local_epsilon=1.0, rate=0.5)  # nobody to hide behind
    >>> round(float(np.exp(alone.log_hockey_stick(np.array([0.0])))[0]), 10)  # tanh(1/2)
    0.4621171573
    """

    users: int
    local_epsilon: float
    rate: float
    error: float = 1e-7

    @property
    def accuracy(self) -> float:
        return 1e-12 + 2.0 * MASS_ERROR + tail_error(float(self.users))

    @property
    def largest(self) -> float:
        return self.local_epsilon

    @property
    def loss_error(self) -> float:
        # the share u of b* in c + 1 carries eight units, and a loss moves with it no faster than
        # tanh(local_epsilon / 2) / (u (1 - u))
        return 64.0 * UNIT_ROUNDOFF * float(np.tanh(0.5 * self.local_epsilon))

    @property
    def hints(self) -> Hints:
        deviation = np.tanh(0.5 * self.local_epsilon) / np.sqrt(1.0 + self.users * self.rate)
        return Hints(
            # instead of 1e-7, where one round is all there is
            composition=lambda: replace(self, error=max(self.error, 2e-5)),
            planning=lambda: replace(self, error=1e-3),
            # a small share of the standard deviation of the loss
            smallest_threshold=float(2.0**-14 * deviation),
        )

    def call_and_tails(self, loss: Array) -> Array:
        left, log_weight = _blocks(self.users, self.rate, self.error)
        return log_block_sum(loss, left, log_weight, self._kernel, Side.UPPER)

    def _kernel(self, c: Array, k: Array) -> tuple[Array, Array]:
        """P[B = b*] given C = c as a logarithm, and the three values in units of it."""
        e = self.local_epsilon
        # in units of e^local_epsilon, so that nothing overflows
        gap = -np.expm1(k - e)
        share = gap / (-np.expm1(-e) * (np.exp(k) + 1.0))
        log_at, ratio = fair_coins(c, np.floor((c + 1.0) * share))
        truth = 1.0 / (1.0 + np.exp(-e))
        call = np.maximum(gap * truth - np.expm1(k) * ratio, 0.0)
        return log_at, np.stack([call, ratio + truth * np.exp(-e), ratio + truth])


@lru_cache(maxsize=32)
def _blocks(users: int, rate: float, error: float) -> tuple[Array, Array]:
    """Left ends of the blocks into which C is rounded down, and the logs of their probabilities.

    Probabilities are differences of a distribution function that is never below that of C, so that the
    rounded C is stochastically smaller, whatever the rounding of each single one.
    """
    trials = users - 1
    mean, deviation = trials * rate, float(np.sqrt(trials * rate * (1.0 - rate)))
    # down to values of e^-800 the decisive counts lie at most 800 below nine deviations; a small mean has
    # a longer tail above
    low = max(0, int(mean - 9.0 * deviation) - 800)
    high = min(trials, int(mean + 9.0 * deviation) + 60)
    # epsilon goes like C^(-1/2), and C loses half the width of a block
    wanted = 0.25 * (high - low) / (error * max(mean, 1.0))
    width = -(-(high - low + 1) // int(min(max(wanted, 64), 1 << 14)))
    inner = np.arange(low, high + 1, width, dtype=float)
    below, step = [], 2 * width
    while low > 0:
        low = max(0, low - step)
        below.append(float(low))
        step *= 2
    left = np.concatenate([below[::-1], inner])
    return left, log_block_weights(left, trials, rate)


def log_block_weights(left: Array, trials: int, rate: float) -> Array:
    """log of F(next left end) - F(left end), F from above P[C < .]; from each end to the mean."""
    error = MASS_ERROR + ratio_error(float(trials))
    split = int(np.count_nonzero(left[1:] <= trials * rate))
    low, high = left[1 : split + 1] - 1.0, left[split + 1 :]
    n_low, n_high = np.full(low.size, float(trials)), np.full(high.size, float(trials))
    log_below = log_mass(n_low, low, rate) + error
    log_below += np.log1p(below_over_at(n_low, low, rate))
    log_above = log_mass(n_high, high, rate) - error
    log_above += np.log1p(beyond_over_at(n_high, high, rate))
    log_below, log_above = np.append(-np.inf, log_below), np.append(log_above, -np.inf)
    middle = log1mexp(min(float(np.logaddexp(log_below[-1], log_above[0])), 0.0))
    return np.concatenate(
        [log_diff(log_below[1:], log_below[:-1]), [middle], log_diff(log_above[:-1], log_above[1:])]
    )
