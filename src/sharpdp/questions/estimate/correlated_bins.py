"""Correlated noise over kept bins, drawn from with tilts.

    P = mean over j of N(m_j, I),  Q = N(0, I),   L = dP/dQ = mean over j of e^(X_j),  G_ij = <m_i, m_j>

With the record, P L^n is a sum over n + 1 tokens in the bins: with k_j of them in bin j it is a normal
law around the sum of k_j m_j that weighs e^(k^T G k / 2 - sum k_j G_jj / 2). Tokens are drawn in one of
two ways, and what is missing is a weight with an upper end:

- one after the other, into bin j with chance proportional to e^((G k)_j), k being those thrown before.
  The weight is the product of the means of these exponentials, each at most what it is if all
  earlier tokens are in one bin, since the logarithm of the mean is convex in k;
- all at once, as for bins with nothing in common and the square a, if a I + rho 1 1^T - G is copositive.

Without the record, 1 / L is at most the exponential of minus the mean of the X_j.

Source: choquette2025; kahane1986.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp.bounds.correlated_noise.kept_bins import bin_gram, common_parts, exchangeable
from sharpdp.bracket import Side
from sharpdp.mechanisms import CorrelatedNoise
from sharpdp.numerics.special import Array, log_sum
from sharpdp.questions.estimate.allocated_epoch import AllocationRun
from sharpdp.questions.estimate.experiment import (
    PLAIN,
    STRENGTHS,
    Direction,
    Draws,
    Experiment,
    Tilt,
    by_rows,
)
from sharpdp.questions.estimate.tokens_in_bins import log_moments, tokens

__all__ = ["CorrelatedBinsRun"]

MU = (1e-4, 20.0)
"""Own parts, as shifts, that moments are computed for."""

MOST_TOKENS = 64
"""Tokens thrown at most, and so the largest order with the record."""


@dataclass(frozen=True)
class CorrelatedBinsRun(Experiment):
    """One run over some kept bins, given by the mechanism."""

    mechanism: CorrelatedNoise
    bins: int

    @property
    def coordinates(self) -> int:
        """A normal for each bin."""
        return self.bins

    @property
    def work(self) -> int:
        """A product of a matrix and a vector costs less than its entries."""
        return self.bins * max(self.bins // 16, 1)

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """No tilt, whole orders with the record, and all orders without it."""
        if direction is Direction.WITHOUT_RECORD:
            return (PLAIN, *map(Tilt, STRENGTHS))
        whole = (order for order in STRENGTHS if order == round(order) <= MOST_TOKENS)
        return (PLAIN, *map(Tilt, whole))

    def log_moment(self, direction: Direction, tilt: Tilt) -> float:
        """log of the upper end of E_A[h^order]; h is L with the record, and its bound without it."""
        order = tilt.order
        if tilt == PLAIN:
            return 0.0
        if direction is Direction.WITH_RECORD:
            return _proposal(self.mechanism, self.bins, round(order))[1]
        gram, _ = _scaled(self.mechanism, self.bins)
        return 0.5 * order * (float(np.diag(gram).mean()) + order * float(gram.mean()))

    def log_known(self, direction: Direction, order: float) -> float:
        """Moments of bins with nothing in common but a common part, which are not smaller."""
        if direction is Direction.WITH_RECORD:
            return math.inf
        moments = (
            AllocationRun(self.bins, 1, math.sqrt(own)).log_known(direction, order)
            + 0.5 * order * (order + 1.0) * common
            for own, common in _families(self.mechanism, self.bins)
            if MU[0] <= math.sqrt(own) <= MU[1]
        )
        return min(moments, default=math.inf)

    def draw(
        self, rng: np.random.Generator, samples: int, repeats: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Independent draws, each the sum over repeats."""
        drawn = self._with_record if direction is Direction.WITH_RECORD else self._without_record
        return by_rows(samples, repeats, self.bins, lambda rows: drawn(rng, rows, tilt))

    def _with_record(self, rng: np.random.Generator, rows: int, tilt: Tilt) -> Draws:
        gram, root = _scaled(self.mechanism, self.bins)
        order = round(tilt.order)
        own, log_moment, slack = _proposal(self.mechanism, self.bins, order)
        if own is None:
            sums, log_weight = self._one_by_one(rng, rows, order)
        else:
            sums, log_weight = self._at_once(rng, rows, order, own)
            log_weight += log_moment - slack
        logs = sums + rng.standard_normal((rows, self.bins)) @ root
        loss = log_sum(logs - 0.5 * np.diag(gram)) - math.log(self.bins)
        return Draws(loss, order * loss - log_weight)

    def _one_by_one(self, rng: np.random.Generator, rows: int, order: int) -> tuple[Array, Array]:
        """G k, and the logarithm of the weight of the tokens k."""
        gram, _ = _scaled(self.mechanism, self.bins)
        sums = gram[rng.integers(self.bins, size=rows)]
        log_weight = np.zeros(rows)
        for _ in range(order):
            top = sums.max(axis=1)
            rising = np.cumsum(np.exp(sums - top[:, None]), axis=1)
            log_weight += top + np.log(rising[:, -1] / self.bins)
            height = rng.random(rows) * rising[:, -1]
            chosen = np.minimum(np.sum(rising <= height[:, None], axis=1), self.bins - 1)
            sums = sums + gram[chosen]
        return sums, log_weight

    def _at_once(
        self, rng: np.random.Generator, rows: int, order: int, own: float
    ) -> tuple[Array, Array]:
        """G k, and the logarithm of the weight of the tokens k, but for their total."""
        gram, _ = _scaled(self.mechanism, self.bins)
        counts = np.zeros((rows, self.bins))
        law = tokens(bins=self.bins, marked=1, thrown=order, mu=math.sqrt(own))
        taken = law.draw(rng, rows)
        # the bins that hold tokens are any of all, all different
        bins = np.argsort(rng.random((rows, self.bins)), axis=1)[:, : taken.shape[1]]
        np.put_along_axis(counts, bins, taken, axis=1)
        sums = counts @ gram
        log_weight = 0.5 * np.sum(counts * (sums - np.diag(gram)), axis=1)
        return sums, log_weight - 0.5 * own * np.sum(counts * (counts - 1.0), axis=1)

    def _without_record(self, rng: np.random.Generator, rows: int, tilt: Tilt) -> Draws:
        gram, root = _scaled(self.mechanism, self.bins)
        noise = rng.standard_normal((rows, self.bins)) @ root
        logs = noise - tilt.order * gram.mean(axis=0)
        loss = math.log(self.bins) - log_sum(logs - 0.5 * np.diag(gram))
        density = -tilt.order * logs.mean(axis=1) - 0.5 * tilt.order**2 * float(gram.mean())
        return Draws(loss, density)


@lru_cache(maxsize=4)
def _scaled(mechanism: CorrelatedNoise, bins: int) -> tuple[Array, Array]:
    """G over the variance of the noise, and a symmetric root of it."""
    gram = bin_gram(mechanism, bins).gram / mechanism.noise_multiplier**2
    values, vectors = np.linalg.eigh(gram)
    return gram, np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


@lru_cache(maxsize=64)
def _families(mechanism: CorrelatedNoise, bins: int) -> tuple[tuple[float, float], ...]:
    """Pairs of a and rho, over the variance of the noise, for which a I + rho 1 1^T - G is copositive."""
    gram, variance = bin_gram(mechanism, bins), mechanism.noise_multiplier**2
    families = (exchangeable(gram, common, Side.UPPER) for common in common_parts(gram))
    return tuple((family.own / variance, family.common / variance) for family in families)


@lru_cache(maxsize=256)
def _proposal(
    mechanism: CorrelatedNoise, bins: int, order: int
) -> tuple[float | None, float, float]:
    """a, the upper end of log E_P[L^order], and by how much that exceeds the total of the proposals.

    None for a if tokens are better thrown one after the other.
    """
    gram, _ = _scaled(mechanism, bins)
    held, least = order + 1, float(np.diag(gram).min())
    best: tuple[float | None, float, float] = (
        None,
        _one_by_one_moments(mechanism, bins)[order],
        0.0,
    )
    for own, common in _families(mechanism, bins):
        weights = log_moments(bins=bins, marked=1, last=MOST_TOKENS, mu=math.sqrt(own))
        # k^T G k <= a |k|^2 + rho (sum of k)^2, and a |k|^2 is in the proposals but for a of each token
        slack = 0.5 * common * held**2 + 0.5 * held * (own - least)
        log_moment = float(weights[order]) - order * math.log(bins) + slack
        best = min(best, (own, log_moment, slack), key=lambda entry: entry[1])
    return best


@lru_cache(maxsize=4)
def _one_by_one_moments(mechanism: CorrelatedNoise, bins: int) -> tuple[float, ...]:
    """Upper ends of the logarithm of the weight of some tokens, from none to the most."""
    gram, _ = _scaled(mechanism, bins)
    means = (
        float(np.max(log_sum(held * gram))) - math.log(bins) for held in range(1, MOST_TOKENS + 1)
    )
    return (0.0, *itertools.accumulate(means))
