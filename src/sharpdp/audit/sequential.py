"""Audit of runs as they come: bets against a claim, which may be looked at after every pair of runs.

A pair of runs, one with the record and one without it, pays the bettor on a threshold and a line of the
claim

    X = [with beyond] - slope [without beyond] - offset,

whose mean is at most 0 if tpr <= offset + slope fpr. A bettor who starts with 1 and stakes the part b
of it has the product of the factors 1 + b X; thresholds, lines and parts are settled by the pairs
before. Some bettors share the stake. Under the claim their capital is a nonnegative supermartingale: it
ever reaches 1 / risk with probability at most the risk (Ville), so that an audit may stop whenever it
likes.

Source: ville1939, waudbysmith2024 Section 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import HintedKeywords
from sharpdp.audit.claims import Claim, checked_guarantee
from sharpdp.audit.score_results import (
    ScoreAudit,
    at_least,
    checked_scores,
    checked_settings,
    epsilon_of_mu,
    observed_rates,
)
from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.errors import InvalidArgument
from sharpdp.numerics.special import Array
from sharpdp.numerics.underflow import underflow_is_zero_in_methods
from sharpdp.questions.account import Guarantee

__all__ = ["Sequential"]

LEVELS = (0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.99)
"""Quantiles of all earlier scores at which bettors put their thresholds."""

WATCHED = 10
"""Pairs that are only looked at: nobody bets on the first ones."""

GROWTH = 1.2
"""Bettors think again when the number of pairs has grown by this factor."""

LARGEST_PART = 0.75
"""The largest part of the capital that one pair may cost."""

EPSILONS = np.concatenate([np.arange(0.0, 3.0, 0.05), np.geomspace(3.0, 20.0, 60)])
"""Epsilons that are bet against."""

MUS = np.concatenate([np.arange(0.0, 2.0, 0.05), np.geomspace(2.0, 10.0, 40)])
"""The same for mu."""


class Stakes:
    """The capital of all bettors against some claims: a row for each claim, a column for each bettor."""

    def __init__(self, claims: Sequence[Claim]) -> None:
        """Everybody starts with 1, and bets nothing."""
        self.claims = claims
        shape = (len(claims), 2 * len(LEVELS))
        self.slopes, self.offsets, self.parts = np.ones(shape), np.zeros(shape), np.zeros(shape)
        self.log_capital = np.zeros(shape)
        self.best = np.ones(len(claims))
        """The most that the bettors against each claim ever had together."""

    def think(self, tpr: Array, fpr: Array) -> None:
        """Choose a line and a part for every bettor, from the rates of earlier pairs."""
        for row, claim in enumerate(self.claims):
            slopes, offsets = claim.lines()
            chosen = np.argmin(offsets[:, None] + slopes[:, None] * fpr, axis=0)
            self.slopes[row], self.offsets[row] = slopes[chosen], offsets[chosen]
        mean = tpr - self.slopes * fpr - self.offsets
        spread = tpr * (1.0 - tpr) + self.slopes**2 * fpr * (1.0 - fpr)
        most = LARGEST_PART / (self.slopes + self.offsets)
        self.parts = np.clip(mean / (spread + mean * mean), 0.0, most)

    def settle(self, hits: Array, misses: Array) -> None:
        """Pay out some pairs: a row for each, a column for each bettor."""
        for hit, miss in zip(hits, misses, strict=True):
            paid = hit - self.slopes * miss - self.offsets
            self.log_capital += np.log1p(self.parts * paid)
        top = np.max(self.log_capital, axis=1, keepdims=True)
        shared = top[:, 0] + np.log(np.mean(np.exp(self.log_capital - top), axis=1))
        # a little less than they have is safe
        self.best = np.maximum(self.best, np.exp(np.minimum(shared, 600.0)) * (1.0 - 1e-9))


@underflow_is_zero_in_methods
class Sequential(HintedKeywords):
    """An audit that gets runs as they come and may stop at any time: the confidence stays true.

    Every pair is one run with the record and one without it, each with a score that is larger if the
    record seems to be in. After any number of pairs `result` gives the lower ends, and `consistent` says
    whether the guarantee still stands; nothing has to be settled before, not even the number of runs.

    Holds when: runs are independent and use the same two data sets.

    Source: ville1939, waudbysmith2024 Section 4; docs/proofs/audit-proofs.md.

    Args:
        guarantee: What to test; None tests nothing.
        confidence: Probability, in (0, 1), with which a lower end is never too large and a true guarantee
            is never refused, however long the audit goes on.
        delta: The delta at which epsilon is bounded, in (0, 1).

    Raises:
        InvalidArgument: an argument is out of range.
        WrongType: an argument has the wrong type.

    >>> rng = np.random.default_rng(0)
    >>> audit = Sequential()
    >>> while audit.result().epsilon.lower < 1.0:
    ...     _ = audit.add(with_record=rng.normal(2.0, size=10), without_record=rng.normal(size=10))
    >>> audit.pairs
    60
    """

    def __init__(
        self,
        *,
        guarantee: Guarantee | TradeoffCurve | None = None,
        confidence: float = 0.99,
        delta: float = 1e-5,
    ) -> None:
        """Nothing is bet yet."""
        self.confidence, self.delta = checked_settings(confidence, delta)
        self.guarantee = guarantee
        tested = [] if guarantee is None else [Claim.of_guarantee(checked_guarantee(guarantee))]
        self._stakes = Stakes(
            [
                *(Claim.of_point(epsilon, self.delta) for epsilon in EPSILONS.tolist()),
                *(Claim.gaussian(mu) if mu else Claim.of_point(0.0, 0.0) for mu in MUS.tolist()),
                *tested,
            ]
        )
        self._inside, self._outside = np.zeros(0), np.zeros(0)
        self._thresholds = np.zeros(0)
        self._next = WATCHED

    @property
    def pairs(self) -> int:
        """Number of pairs of runs so far."""
        return self._inside.size

    @property
    def p_value(self) -> float | None:
        """If the guarantee is true, it ever gets so small with at most this probability."""
        return None if self.guarantee is None else min(1.0 / float(self._stakes.best[-1]), 1.0)

    @property
    def consistent(self) -> bool | None:
        """Whether the guarantee still stands; None without one."""
        return None if self.p_value is None else self.p_value > 1.0 - self.confidence

    def add(self, *, with_record: ArrayLike, without_record: ArrayLike) -> Sequential:
        """Take the scores of further runs, the first with the first, the second with the second.

        Args:
            with_record: Scores of runs with the record, one or more.
            without_record: As many scores of runs without it.

        Returns:
            The audit itself.

        Raises:
            InvalidArgument: the two lists differ in length, or hold NaN.
            WrongType: they are no numbers.
        """
        inside = checked_scores("with_record", np.atleast_1d(np.asanyarray(with_record)))
        outside = checked_scores("without_record", np.atleast_1d(np.asanyarray(without_record)))
        if inside.size != outside.size:
            raise InvalidArgument(
                f"without_record must have as many scores as with_record, {inside.size}; got "
                f"{outside.size}."
            )
        while inside.size:
            size = min(inside.size, max(self._next - self.pairs, 0))
            if size:
                self._bet(inside[:size], outside[:size])
                inside, outside = inside[size:], outside[size:]
            if self.pairs >= self._next:
                self._think()
        return self

    def _bet(self, inside: Array, outside: Array) -> None:
        """Pay out pairs with what was settled before them, and remember them."""
        if self._thresholds.size:
            above = [scores[:, None] >= self._thresholds for scores in (inside, outside)]
            hits = np.concatenate([above[0], ~above[1]], axis=1).astype(float)
            misses = np.concatenate([above[1], ~above[0]], axis=1).astype(float)
            self._stakes.settle(hits, misses)
        self._inside = np.concatenate([self._inside, inside])
        self._outside = np.concatenate([self._outside, outside])

    def _think(self) -> None:
        """Settle thresholds, lines and parts from the pairs so far."""
        both = np.concatenate([self._inside, self._outside])
        self._thresholds = np.quantile(both, LEVELS, method="lower")  # scores may be infinite
        above = [
            (np.sum(scores[:, None] >= self._thresholds, axis=0) + 0.5) / (self.pairs + 1.0)
            for scores in (self._inside, self._outside)
        ]
        tpr = np.concatenate([above[0], 1.0 - above[1]])
        fpr = np.concatenate([above[1], 1.0 - above[0]])
        self._stakes.think(tpr, fpr)
        self._next = int(np.ceil(GROWTH * self.pairs)) + 1

    def result(self) -> ScoreAudit:
        """The result of the pairs so far.

        Returns:
            The result, with `epsilon` and `mu` as Brackets with confidence.
        """
        risk = 1.0 - self.confidence
        refused = self._stakes.best >= 1.0 / risk
        epsilon = _reached(refused[: EPSILONS.size], EPSILONS)
        mu = _reached(refused[EPSILONS.size :], MUS)
        method = f"{self.pairs:,} pairs of runs, at any time"
        at_delta = f"at delta={self.delta:g}"
        if self.pairs:
            fpr, fnr = observed_rates(self._inside, self._outside)
        else:
            fpr, fnr = np.array([0.0, 1.0]), np.array([1.0, 0.0])
        if_gaussian = epsilon_of_mu(mu, self.delta)
        return ScoreAudit(
            "sequential",
            at_least("epsilon", epsilon, self.confidence, at_delta, method),
            at_least("mu", mu, self.confidence, "", method),
            at_least("epsilon", if_gaussian, self.confidence, f"{at_delta}, if Gaussian", method),
            self.confidence,
            self.delta,
            self.p_value,
            self.guarantee,
            f"{self.pairs:,} pairs of runs",
            fpr,
            fnr,
        )


def _reached(refused: NDArray[np.bool_], grid: Array) -> float:
    """The last point of the grid before the first that was not refused; 0 if that is the first."""
    first = int(np.argmin(np.append(refused[: grid.size], False)))
    return float(grid[first - 1]) if first else 0.0
