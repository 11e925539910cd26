"""Audit of many runs, with a record and without it: scores beyond a threshold that a pilot chose.

A part of the scores, the pilot, chooses a threshold and which of the two data sets is the likelier one
beyond it, and guesses the rate of the other one, which selects one line of a claim, tpr <= offset +
slope fpr. Among the other scores, x of n runs of the likelier one, and y of k runs of the other, are
beyond the threshold. The statistic is by how many deviations the line is broken:

    W(x, y) = (x / n - offset - slope y / k) / sqrt(x (n - x) / n^3 + slope^2 r (1 - r) / k)

with r = (y + 1) / (k + 2).

Under the claim its tail is largest if the true-positive rate is as large as the claim allows, so that
only the false-positive rate q is open:

    p-value = sup over q of P[W >= observed],  x ~ Bin(n, most_tpr(q)), y ~ Bin(k, q)

taken over an interval that holds q with a small risk, which is added, and cell by cell: within a cell the
tail is at most that for its smallest q and its largest true-positive rate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import count, real
from sharpdp.accounting import Guarantee
from sharpdp.audit.claims import Claim, checked_guarantee
from sharpdp.audit.error_band import limits_for, local_risk
from sharpdp.audit.score_results import (
    LARGEST_EPSILON,
    LARGEST_MU,
    ScoreAudit,
    at_least,
    checked_scores,
    checked_settings,
    epsilon_of_mu,
    observed_rates,
)
from sharpdp.audit.tails import binomial_at_least
from sharpdp.montecarlo.confidence import counted
from sharpdp.numerics.special import Array, gammaln, ndtri
from sharpdp.tradeoff.curve import TradeoffCurve

__all__ = ["Counts", "many_runs"]

PILOT = 0.25
"""Share of the scores that choose the threshold."""

INTERVAL_RISK = 0.02
"""Share of the risk that is spent on the interval of the false-positive rate."""

CELLS = (6, 24, 96)
"""Cells into which that interval is cut, from coarse to fine."""

EPSILONS = np.concatenate([np.arange(0.0, 2.0, 0.04), np.geomspace(2.0, LARGEST_EPSILON, 172)])
"""Epsilons that are tested one after the other."""

MUS = np.concatenate([np.arange(0.0, 1.0, 0.02), np.geomspace(1.0, LARGEST_MU, 172)])
"""The same for mu."""

LEFT_OUT = 1e-13
"""Probability of counts that are left out of a sum, and added again."""


def many_runs(
    *,
    with_record: ArrayLike,
    without_record: ArrayLike,
    confidence: float = 0.99,
    delta: float = 1e-5,
    guarantee: Guarantee | TradeoffCurve | None = None,
    threshold: float | None = None,
    seed: int = 0,
) -> ScoreAudit:
    """Lower bounds on epsilon and mu, and a test of a guarantee, from runs with and without a record.

    Every run gives one score, larger if the record seems to be in the data. A quarter of the scores,
    chosen by lot, selects the threshold and which of the two data sets is the likelier one beyond it; the
    others are counted, so that the confidence is true for the threshold that was chosen. The lower ends
    hold for the two data sets that were run: whatever is private for all neighbors is so for these.

    Holds when: runs are independent and use the same two data sets; how a score is computed was settled
    before these runs.

    Source: clopper1934, berger1994; docs/audit-proofs.md.

    Args:
        with_record: Scores of runs with the record, at least 4.
        without_record: Scores of runs without it, at least 4.
        confidence: Probability, in (0, 1), with which each lower end holds, and a true guarantee passes.
        delta: The delta at which epsilon is bounded, in (0, 1).
        guarantee: What to test; None tests nothing.
        threshold: A threshold that was fixed without looking at these runs; None has the quarter choose.
        seed: For the lot that draws the quarter.

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
    1.32 0.80
    """
    sure, small = checked_settings(confidence, delta)
    inside = checked_scores("with_record", with_record, 4)
    outside = checked_scores("without_record", without_record, 4)
    risk = 1.0 - sure
    halves = Halves.of(inside, outside, threshold, risk, count(seed=seed, least=0))
    counts = halves.counts(Claim.of_point(halves.promised_epsilon(small), small))
    epsilon = _refuted_up_to(EPSILONS, lambda e: counts.refute(Claim.of_point(e, small), risk))
    for_mu = halves.counts(_gaussian(halves.promised_mu()))
    mu = _refuted_up_to(MUS, lambda m: for_mu.refute(_gaussian(m), risk))
    p_value = None
    if guarantee is not None:
        claim = Claim.of_guarantee(checked_guarantee(guarantee))
        counts = halves.counts(claim)
        p_value = counts.p_value(claim, risk)
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
        counts.words,
        fpr,
        fnr,
        *upper,
    )


def _refuted_up_to(grid: Array, refuted: Callable[[float], bool]) -> float:
    """The last point of a fixed grid before the first one that is not refuted; 0 if that is the first.

    If the bound is too large, the smallest point at which the claim is true was refuted: that is one
    test, whatever the others do.
    """
    reached = 0.0
    for value in grid.tolist():
        if not refuted(value):
            break
        reached = value
    return reached


def _gaussian(mu: float) -> Claim:
    return Claim.gaussian(mu) if mu > 0.0 else Claim.of_point(0.0, 0.0)


@dataclass(frozen=True)
class Counts:
    """Scores beyond a threshold, of two kinds of runs, and the line that they are held against.

    Args:
        hits: Scores beyond the threshold among those that an attacker wants there.
        runs: Scores of that kind.
        misses: Scores beyond the threshold among the others.
        others: Scores of that kind.
        guess: About the rate of misses, settled before these scores were seen.
        words: What was counted, in one line.
    """

    hits: int
    runs: int
    misses: int
    others: int
    guess: float
    words: str = ""

    def p_value(self, claim: Claim, risk: float) -> float:
        """Upper bound on the chance of such a statistic, or a larger one, under the claim.

        >>> fair = Counts(hits=9, runs=10, misses=1, others=10, guess=0.1)
        >>> round(fair.p_value(Claim.of_point(0.0, 0.0), 0.01), 4)
        0.0004
        """
        return self._p_value(claim, risk, CELLS[-1])

    def refute(self, claim: Claim, risk: float) -> bool:
        """Whether the p-value is at most the risk; coarse cells, which are safe, often show it."""
        return any(self._p_value(claim, risk, cells) <= risk for cells in CELLS)

    def _p_value(self, claim: Claim, risk: float, cells: int) -> float:
        slopes, offsets = claim.lines()
        chosen = int(np.argmin(offsets + slopes * self.guess))
        line = Line(float(slopes[chosen]), float(offsets[chosen]), self.runs, self.others)
        if line.excess(self.hits, self.misses) <= 0.0:
            return 1.0
        spent = INTERVAL_RISK * risk
        low, high = counted(self.misses, self.others, float(np.log(0.5 * spent)))
        edges = np.linspace(low, high, cells + 1)
        fprs, tprs = edges[:-1], claim.most_tpr(edges[1:])
        misses = _likely(self.others, low, high)
        hits = line.fewest_hits(misses, line.deviations(self.hits, self.misses))
        log_ways = (
            gammaln(self.others + 1.0) - gammaln(misses + 1.0) - gammaln(self.others - misses + 1.0)
        )
        with np.errstate(divide="ignore"):
            log_rates, log_rests = np.log(fprs)[:, None], np.log1p(-fprs)[:, None]
        logs = log_ways + _times(misses, log_rates) + _times(self.others - misses, log_rests)
        chances = binomial_at_least(hits, self.runs, tprs[:, None])
        tails = np.sum(np.exp(logs) * chances, axis=1) * (1.0 + 1e-9) + 4.0 * LEFT_OUT
        return min(spent + float(np.max(tails)), 1.0)


@dataclass(frozen=True)
class Line:
    """A line of a claim, tpr <= offset + slope fpr, and the statistic W of counts against it."""

    slope: float
    offset: float
    runs: int
    others: int

    def excess(self, hits: int, misses: int) -> float:
        """By how much the line is broken."""
        return hits / self.runs - self.offset - self.slope * misses / self.others

    def deviations(self, hits: int, misses: int) -> float:
        """The statistic W."""
        return float(self.excess(hits, misses) / np.sqrt(self._variance(hits, np.array(misses))))

    def fewest_hits(self, misses: Array, deviations: float) -> Array:
        """For each number of misses the fewest hits with W at least so large; fewer are safe.

        W grows with hits. So that the set is monotone in the misses as well, no more hits are asked for
        than at any larger number of them.
        """
        squared = deviations * deviations
        part = squared / self.runs
        line = self.offset + self.slope * misses / self.others
        # (t - line)^2 = squared (t (1 - t) / runs + variance of misses), for t at or above the line
        middle = 2.0 * line + part
        rest = line * line - squared * self._variance(0, misses)
        root = np.sqrt(np.maximum(middle * middle - 4.0 * (1.0 + part) * rest, 0.0))
        hits = np.ceil((middle + root) / (2.0 * (1.0 + part)) * self.runs - 1e-7)
        return np.asarray(np.minimum.accumulate(hits[::-1])[::-1])

    def _variance(self, hits: int, misses: Array) -> Array:
        tpr, fpr = hits / self.runs, (misses + 1.0) / (self.others + 2.0)
        return np.asarray(
            tpr * (1.0 - tpr) / self.runs + self.slope**2 * fpr * (1.0 - fpr) / self.others
        )


def _times(counts: Array, logs: Array) -> Array:
    """counts * logs, where none of something impossible is possible."""
    with np.errstate(invalid="ignore"):
        return np.where(counts == 0, 0.0, counts * logs)


def _likely(trials: int, low: float, high: float) -> Array:
    """Counts that binomial draws at such rates leave, on either side, with probability below LEFT_OUT.

    By Bernstein's inequality.
    """
    log_inverse = -np.log(LEFT_OUT)
    means = trials * low, trials * high
    first = means[0] - np.sqrt(2.0 * means[0] * log_inverse) - log_inverse
    last = means[1] + np.sqrt(2.0 * means[1] * log_inverse) + log_inverse
    return np.arange(max(np.floor(first), 0.0), min(np.ceil(last) + 1.0, trials) + 1.0)


@dataclass(frozen=True, eq=False)
class Halves:
    """Scores with and without the record: those that choose, and those that are counted."""

    pilots: tuple[Array, Array]
    rests: tuple[Array, Array]
    thresholds: Array
    z: float

    @classmethod
    def of(
        cls, inside: Array, outside: Array, threshold: float | None, risk: float, seed: int
    ) -> Halves:
        """A quarter of the scores, by lot, and the others; the former choose among the thresholds."""
        lots = np.random.default_rng(seed)
        (first, counted_in), (second, counted_out) = (_split(lots, s) for s in (inside, outside))
        thresholds = np.unique(np.concatenate([first, second]))
        if threshold is not None:
            thresholds = np.array([real(threshold=threshold)])
        pilots, rests = (first, second), (counted_in, counted_out)
        return cls(pilots, rests, thresholds, float(-ndtri(risk)))

    def promised_epsilon(self, delta: float) -> float:
        """About the epsilon that the counted scores will show."""
        best = 0.0
        for above in (True, False):
            tpr, fpr, runs, others = self._rates(above=above)
            epsilon = np.log(np.maximum(tpr - delta, 1e-300) / fpr)
            for _ in range(20):  # a fixed point; what it is off by costs power only
                slope = np.exp(np.clip(epsilon, 0.0, LARGEST_EPSILON))
                spread = np.sqrt(
                    tpr * (1.0 - tpr) / runs + slope * slope * fpr * (1.0 - fpr) / others
                )
                shown = np.log(np.maximum(tpr - delta - self.z * spread, 1e-300) / fpr)
                epsilon = 0.5 * (epsilon + shown)
            best = max(best, float(np.max(epsilon)))
        return best

    def promised_mu(self) -> float:
        """About the mu that the counted scores will show."""
        tpr, fpr, runs, others = self._rates(above=True)
        far, near = ndtri(tpr), ndtri(fpr)
        density = [np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi) for x in (far, near)]
        spread = np.sqrt(
            tpr * (1.0 - tpr) / runs / density[0] ** 2
            + fpr * (1.0 - fpr) / others / density[1] ** 2
        )
        return max(float(np.max(far - near - self.z * spread)), 0.0)

    def counts(self, claim: Claim) -> Counts:
        """The counted scores at the threshold at which the pilots break the claim most."""
        slopes, offsets = claim.lines()
        best = (-np.inf, True, 0, 0.5)
        for above in (True, False):
            tpr, fpr, runs, others = self._rates(above=above)
            line = np.argmin(offsets[:, None] + slopes[:, None] * fpr, axis=0)
            excess = tpr - offsets[line] - slopes[line] * fpr
            spread = np.sqrt(
                tpr * (1.0 - tpr) / runs + slopes[line] ** 2 * fpr * (1.0 - fpr) / others
            )
            place = int(np.argmax(excess / spread))
            if (excess / spread)[place] > best[0]:
                best = (float((excess / spread)[place]), above, place, float(fpr[place]))
        _, above, place, guess = best
        threshold = self.thresholds[place : place + 1]
        first, second = self.rests if above else self.rests[::-1]
        hits, misses = (int(_beyond(s, threshold, above=above)[0]) for s in (first, second))
        side = "at or above" if above else "below"
        names = ("with", "without") if above else ("without", "with")
        words = (
            f"{hits:,} of {first.size:,} runs {names[0]} the record and {misses:,} of "
            f"{second.size:,} {names[1]} it score {side} {threshold[0]:.4g}"
        )
        return Counts(hits, first.size, misses, second.size, guess, words)

    def _rates(self, *, above: bool) -> tuple[Array, Array, int, int]:
        """Cautious rates of the pilots at every threshold, and how many scores will be counted.

        Each rate is one deviation worse than it was seen, so that few scores promise little.
        """
        order = 1 if above else -1
        (likely, unlikely), ends = self.pilots[::order], []
        for scores, worse in ((likely, -1.0), (unlikely, 1.0)):
            rate = (_beyond(scores, self.thresholds, above=above) + 1.0) / (scores.size + 2.0)
            moved = rate + worse * np.sqrt(rate * (1.0 - rate) / scores.size)
            ends.append(np.clip(moved, 1e-9, 1.0 - 1e-9))
        runs, others = (scores.size for scores in self.rests[::order])
        return ends[0], ends[1], runs, others


def _split(lots: np.random.Generator, scores: Array) -> tuple[Array, Array]:
    """A pilot, drawn by lot, and the other scores."""
    order = lots.permutation(scores.size)
    pilot = max(int(PILOT * scores.size), 1)
    return scores[order[:pilot]], scores[order[pilot:]]


def _beyond(scores: Array, thresholds: Array, *, above: bool) -> Array:
    """How many scores are at or above each threshold, or below it."""
    below = np.searchsorted(np.sort(scores), thresholds, side="left")
    return np.asarray(scores.size - below if above else below, dtype=np.float64)
