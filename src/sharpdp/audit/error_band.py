"""Upper bounds on an error rate at all thresholds at once, from independent scores.

The rate at a threshold is that of scores beyond it. If k of n scores are beyond it, the bound is the
one-sided limit of Clopper and Pearson at a *local* risk; that all of them hold together has a risk that
is computed exactly: with V[1] < ... < V[n] the order of n uniform numbers and u[k] the limit for k, the
band fails if V[k + 1] > u[k] for some k. Let c[j] be the chance that this happens first at j; then

    P[N(u[j-1]) = j - 1] = sum over i <= j of c[i] P[N(u[j-1]) = j - 1 | N(u[i-1]) = i - 1]

where N(g) counts numbers up to g, so that the c[j] follow one after the other. Scores with ties, or of
any law, only make failures rarer. For more scores than `MOST_EXACT` the band is made for some ranks
only, and the risk is their sum.

Source: clopper1934, owen1995.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import Array, betainccinv, gammaln

__all__ = ["ErrorBand", "band_risk", "local_risk"]

MOST_EXACT = 1500
"""Scores up to which the risk of a band is computed exactly."""

RANKS_PER_DOUBLING = 4
"""Ranks of a coarse band between a number and its double."""

ROUNDING = 1e-9
"""Relative allowance for inverse incomplete beta functions, and absolute one for risks."""


@dataclass(frozen=True, eq=False)
class ErrorBand:
    """Upper limits of a rate for each number of scores beyond a threshold, all at once.

    Args:
        scores: Number of independent scores.
        local: The risk of each single limit.
    """

    scores: int
    local: float

    @property
    def limits(self) -> Array:
        """The limit for 0, 1, ..., all scores beyond the threshold; rising to 1."""
        return limits_for(self.scores, self.local)


def limits_for(scores: int, local: float) -> Array:
    """The limits of Clopper and Pearson at a local risk, for every count; coarse ones between ranks.

    >>> round(float(limits_for(10, 0.05)[0]), 6)  # 1 - 0.05^(1/10)
    0.258866
    """
    ranks = _ranks(scores)
    tops = np.ones(ranks.size + 1)
    # P[Bin(n, u) <= k] = local, which is the upper tail of a beta law
    tops[:-1] = betainccinv(ranks + 1.0, scores - ranks * 1.0, local)
    tops[:-1] = np.minimum(tops[:-1] * (1.0 + ROUNDING), 1.0)
    indices = np.searchsorted(ranks, np.arange(scores + 1))
    return np.asarray(tops[indices])


def _ranks(scores: int) -> Array:
    """The counts at which the band has a limit of its own: all, or some, and never the last."""
    if scores <= MOST_EXACT:
        return np.arange(scores, dtype=np.float64)
    doublings = np.arange(RANKS_PER_DOUBLING * np.log2(scores))
    ranks = np.unique(np.floor(np.exp2(doublings / RANKS_PER_DOUBLING)).astype(int) - 1)
    return ranks[ranks < scores].astype(np.float64)


def band_risk(scores: int, local: float) -> float:
    """Upper bound on the chance that some limit of a band is too small.

    >>> abs(band_risk(1, 0.05) - 0.05) < 1e-7
    True
    """
    ranks = _ranks(scores)
    if scores > MOST_EXACT:
        return min(ranks.size * local, 1.0)
    u = np.minimum(limits_for(scores, local)[:-1], 1.0)  # u[j-1] is the limit of V[j]
    n = float(scores)
    counts = np.arange(scores)
    log_factorials = gammaln(np.arange(scores + 2) + 1.0)
    with np.errstate(divide="ignore"):
        log_free = np.log1p(-u)
    first = np.zeros(scores)
    for j in range(scores):
        # exactly j numbers up to u[j], whatever happened before
        log_all = _log_binomial(log_factorials, n, float(j), u[j], log_free[j])
        chance = float(np.exp(log_all))
        if j:
            i = counts[:j]
            share = (u[j] - u[:j]) / (1.0 - u[:j])
            with np.errstate(divide="ignore"):
                log_rest = log_free[j] - log_free[:j]
                logs = (
                    log_factorials[scores - i]
                    - log_factorials[j - i]
                    - log_factorials[scores - j]
                    + (j - i) * np.log(share)
                    + (scores - j) * log_rest
                )
            chance -= float(np.dot(first[:j], np.exp(logs)))
        first[j] = max(chance, 0.0)
    return min(float(np.sum(first)) * (1.0 + 1e-6) + ROUNDING, 1.0)


def _log_binomial(
    log_factorials: Array, trials: float, successes: float, rate: float, log_free: float
) -> float:
    n, k = int(trials), int(successes)
    ways = log_factorials[n] - log_factorials[k] - log_factorials[n - k]
    logs = (k * np.log(rate) if k else 0.0) + ((n - k) * log_free if n > k else 0.0)
    return float(ways + logs)


@lru_cache(maxsize=64)
def local_risk(scores: int, risk: float) -> float:
    """The largest local risk found for which a band of n scores fails with at most this risk.

    >>> local = local_risk(100, 0.005)
    >>> band_risk(100, local) <= 0.005, local > 0.005 / 30
    (True, True)
    """

    def is_enough(log_local: float) -> bool:
        return band_risk(scores, math.exp(log_local)) <= risk

    low, high = math.log(risk / (scores + 1.0)), math.log(risk)
    return math.exp(last_true(is_enough, low, high, halvings=10)[0])
