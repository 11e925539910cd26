"""Audit of many runs, with a record and without it, by counting scores that exceed some ranks.

Let T be the k-th largest of n scores of one kind of runs, k settled in advance. Whatever the law of the
scores, the false-positive rate F of the threshold T has the law Beta(k, n - k + 1), and given T the
scores of the other kind above it are Bin(m, tpr) with tpr <= most_tpr(F) under a claim. So h hits refute
the claim with

    p-value = E[ P[Bin(m, most_tpr(F)) >= h] ],  F ~ Beta(k, n - k + 1),

which has no unknown parameter, and uses every score. A few ranks of either kind share the risk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import count
from sharpdp.audit.claims import Claim, checked_guarantee
from sharpdp.audit.error_band import ROUNDING, limits_for, local_risk
from sharpdp.audit.score_results import (
    LARGEST_EPSILON,
    LARGEST_MU,
    ScoreAudit,
    at_least,
    checked_scores,
    checked_settings,
    epsilon_of_mu,
    largest_refuted,
    observed_rates,
)
from sharpdp.audit.tails import binomial_at_least
from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.numerics.special import Array, betainccinv, ndtr
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import Guarantee

__all__ = ["RankedHits", "many_runs"]

RATIO = 4
"""Ranks that are tried are the powers of this number."""

LARGEST_RANK = 0.75
"""Share of the scores up to which ranks are tried."""

LEVELS = ndtr(np.arange(6.0, -7.5, -0.03))
"""Probabilities with which the false-positive rate exceeds the edges of its cells."""


@underflow_is_zero
def many_runs(
    *,
    with_record: ArrayLike,
    without_record: ArrayLike,
    confidence: float = 0.99,
    delta: float = 1e-5,
    guarantee: Guarantee | TradeoffCurve | None = None,
    seed: int = 0,
) -> ScoreAudit:
    """Lower bounds on epsilon and mu, and a test of a guarantee, from runs with and without a record.

    Every run gives one score, larger if the record seems to be in the data. Thresholds are scores of
    fixed ranks: the largest, the fourth largest, the 16th, ... of the runs without the record, and the
    smallest ones of the runs with it. Their error rates have a known distribution, so no score is
    spent on choosing among them; the ranks share the risk. The lower ends hold for the two data
    sets that were run: whatever is private for all neighbors is so for these.

    Holds when: runs are independent and use the same two data sets; how a score is computed was settled
    before these runs.

    Source: wilks1941, clopper1934; docs/proofs/audit-proofs.md.

    Args:
        with_record: Scores of runs with the record, at least 4.
        without_record: Scores of runs without it, at least 4.
        confidence: Probability, in (0, 1), with which each lower end holds, and a true guarantee passes.
        delta: The delta at which epsilon is bounded, in (0, 1).
        guarantee: What to test; None tests nothing.
        seed: For the lot that orders equal scores.

    Returns:
        The result: `epsilon` and `mu` are Brackets with confidence, `consistent` and `p_value` are about
        the guarantee; `fpr_upper` and `fnr_upper` hold at all thresholds at once.

    Raises:
        InvalidArgument: an argument is out of range.
        WrongType: an argument has the wrong type.

    >>> rng = np.random.default_rng(0)
    >>> audit = many_runs(
    ...     with_record=rng.normal(1.0, size=2000), without_record=rng.normal(size=2000)
    ... )
    >>> print(f"{audit.epsilon.lower:.2f} {audit.mu.lower:.2f}")  # mu is 1
    1.82 0.88
    """
    sure, small = checked_settings(confidence, delta)
    inside = checked_scores("with_record", with_record, 4)
    outside = checked_scores("without_record", without_record, 4)
    risk = 1.0 - sure
    tests = _tests(inside, outside, count(seed=seed, least=0))

    def strongest(claim: Claim) -> tuple[float, RankedHits, int]:
        """The smallest of the p-values, corrected for their number, and the rank that it is about."""
        ranked = (
            (p, test, i) for test in tests for i, p in enumerate(test.p_values(claim).tolist())
        )
        smallest, test, rank_index = min(ranked, key=lambda one: one[0])
        return min(sum(one.ranks.size for one in tests) * smallest, 1.0), test, rank_index

    epsilon = largest_refuted(
        lambda value: strongest(Claim.of_point(value, small))[0] <= risk, LARGEST_EPSILON
    )
    mu = largest_refuted(lambda value: strongest(_gaussian(value))[0] <= risk, LARGEST_MU)
    p_value, (_, test, rank_index) = None, strongest(Claim.of_point(epsilon, small))
    if guarantee is not None:
        claim = Claim.of_guarantee(checked_guarantee(guarantee))
        p_value, test, rank_index = strongest(claim)
    fpr, fnr = observed_rates(inside, outside)
    upper = (
        limits_for(scores.size, local_risk(scores.size, 0.5 * risk))[
            np.rint(rates * scores.size).astype(int)
        ]
        for scores, rates in ((outside, fpr), (inside, fnr))
    )
    method = f"{inside.size:,} and {outside.size:,} runs"
    at_delta = f"at delta={small:g}"
    gaussian = f"at delta={small:g}, if Gaussian"
    return ScoreAudit(
        "many runs",
        at_least("epsilon", epsilon, sure, at_delta, method),
        at_least("mu", mu, sure, "", method),
        at_least("epsilon", epsilon_of_mu(mu, small), sure, gaussian, method),
        sure,
        small,
        p_value,
        guarantee,
        test.words(rank_index),
        fpr,
        fnr,
        *upper,
    )


def _gaussian(mu: float) -> Claim:
    return Claim.gaussian(mu) if mu > 0.0 else Claim.of_point(0.0, 0.0)


def _tests(inside: Array, outside: Array, seed: int) -> tuple[RankedHits, RankedHits]:
    """Few runs without the record score high, and few with it score low; equal scores by lot."""
    lots = np.random.default_rng(seed).permutation(inside.size + outside.size)
    order = np.lexsort((lots, np.concatenate([inside, outside])))
    scores = np.concatenate([inside, outside])[order]
    has_record = order < inside.size
    return (
        RankedHits.of(
            scores[::-1], has_record[::-1], "{0} with the record and {1} without it score above"
        ),
        RankedHits.of(scores, ~has_record, "{0} without the record and {1} with it score below"),
    )


@dataclass(frozen=True, eq=False)
class RankedHits:
    """Scores of the likely kind that come before those of some ranks of the other kind.

    Args:
        runs: Scores of the likely kind.
        others: Scores of the other kind.
        ranks: Ranks among the latter, from 1, that were settled in advance.
        hits: For each rank, how many scores of the likely kind come before that score.
        thresholds: The scores of these ranks.
        sentence: How to say what was counted.
    """

    runs: int
    others: int
    ranks: Array
    hits: Array
    thresholds: Array
    sentence: str = "{0} and {1} before"

    @classmethod
    def of(cls, scores: Array, likely: NDArray[np.bool_], sentence: str) -> RankedHits:
        """Count scores that are given in order, those first in which the likely kind should be."""
        others = np.flatnonzero(~likely)
        ranks = RATIO ** np.arange(25)
        ranks = ranks[(ranks <= LARGEST_RANK * others.size) | (ranks == 1)]
        positions = others[ranks - 1]
        runs = scores.size - others.size
        hits = positions - (ranks - 1)
        return cls(runs, others.size, ranks, hits, scores[positions], sentence)

    def p_values(self, claim: Claim) -> Array:
        """For each rank, the probability of at least as many hits under the claim; never too small.

        The tail rises with the false-positive rate. Within a cell it is at most that at its upper edge,
        and 1 beyond the last one.

        >>> certain = RankedHits(10, 10, np.array([1]), np.array([10]), np.array([0.0]))
        >>> equal = Claim.of_point(0.0, 0.0)  # both laws are the same: 10! 10! / 20!
        >>> round(float(certain.p_values(equal)[0]) * 184_756, 1)
        1.1
        """
        tails = binomial_at_least(self.hits[:, None], self.runs, claim.most_tpr(self._edges))
        cells = -np.diff(LEVELS, prepend=1.0)
        return np.asarray(np.minimum((tails @ cells + LEVELS[-1]) * (1.0 + 1e-9), 1.0))

    @cached_property
    def _edges(self) -> Array:
        """For each rank, false-positive rates exceeded with probabilities of at most `LEVELS`."""
        ranks = self.ranks[:, None].astype(np.float64)
        edges = betainccinv(ranks, self.others - ranks + 1.0, LEVELS)
        return np.asarray(np.minimum(edges * (1.0 + ROUNDING), 1.0))

    def words(self, index: int) -> str:
        """The counts at one of the ranks, in one line."""
        hits = f"{int(self.hits[index]):,} of {self.runs:,} runs"
        misses = f"{int(self.ranks[index]) - 1:,} of {self.others:,}"
        return f"{self.sentence.format(hits, misses)} {self.thresholds[index]:.4g}"
