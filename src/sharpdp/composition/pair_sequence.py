"""Pairs run one after the other, with every question that can be asked of them in one direction."""

from __future__ import annotations

from functools import cached_property

from sharpdp.composition.composition import Composition
from sharpdp.composition.false_negatives import false_negatives, true_positives
from sharpdp.composition.gaussian_mu import mu_between
from sharpdp.composition.renyi import divergence
from sharpdp.pairs.pair import Pair

__all__ = ["PairSequence"]

Interval = tuple[float, float]


class PairSequence(Composition):
    """A composition that also answers for error rates, Renyi divergences and Gaussian mu.

    Answers are certified (lower, upper); `width` is the relative width to aim at.
    """

    @cached_property
    def _reversed(self) -> PairSequence:
        return PairSequence(tuple((pair.reverse(), count) for pair, count in self.steps))

    def reverse(self) -> PairSequence:
        """The other direction (made once, so that its work is kept)."""
        return self._reversed

    def fresh(self) -> PairSequence:
        """The same pairs without the work that earlier questions left."""
        return PairSequence(self.steps)

    @property
    def repeated_pair(self) -> tuple[Pair, int] | None:
        """The pair and its count if one pair is all that is run, more than once; None otherwise."""
        return (
            self.merged_steps[0]
            if len(self.merged_steps) == 1 and self.merged_steps[0][1] > 1
            else None
        )

    def false_negatives(self, fpr: float, width: float) -> Interval:
        """The smallest false-negative rate at a false-positive rate."""
        return false_negatives(self, fpr, width)

    def true_positives(self, fpr: float, width: float) -> Interval:
        """The largest true-positive rate at a false-positive rate."""
        return true_positives(self, fpr, width)

    def renyi(self, order: float, width: float) -> Interval:
        """The Renyi divergence of an order > 1."""
        return divergence(self, order, width)

    def mu(self, smallest_fpr: float, width: float) -> Interval:
        """The mu of Gaussian noise that is no more private where both error rates are this large."""
        return mu_between(self, smallest_fpr, width)
