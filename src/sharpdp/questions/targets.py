"""A target: a limit on one quantity of a guarantee, and whether a guarantee meets it.

Everything that compares a run with a target or a budget does it here: `calibrate`, `Guarantee.meets`, the
command line, ledgers, budgets and training runs. So they agree on which runs meet which target.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sharpdp._validate import (
    half_open_probability,
    nonnegative,
    open_probability,
    positive,
    probability,
)
from sharpdp.bracket import Bracket, Rigor
from sharpdp.errors import InvalidArgument

if TYPE_CHECKING:
    from sharpdp.questions.account import Guarantee

__all__ = ["Target", "the_target"]

UNFINISHED = "Give a target: epsilon= and delta=, or advantage=, or tpr= and fpr=, or mu=."

FINEST, FINER = 1e-6, 0.1
"""Answers whose upper end is within one width above a limit are asked again, so much narrower each time,
down to the first width."""


@dataclass(frozen=True)
class Target:
    """A largest epsilon at delta, advantage, true-positive rate at fpr, or mu.

    Args:
        quantity: "epsilon", "advantage", "tpr" or "mu".
        limit: The largest value that meets the target.
        given: The delta of an epsilon, or the fpr of a tpr.
    """

    quantity: str
    limit: float
    given: float = 0.0

    @property
    def words(self) -> str:
        """The target as people read it."""
        of = {"epsilon": " at delta", "tpr": " at fpr"}.get(self.quantity)
        return f"{self.quantity} {self.limit:g}" + (f"{of} {self.given:g}" if of else "")

    def asked(self, answer: Guarantee) -> Bracket:
        """The quantity in an answer, as wide as the answer is."""
        match self.quantity:
            case "epsilon":
                return answer.epsilon(delta=self.given)
            case "tpr":
                return answer.tpr(fpr=self.given)
            case "mu":
                return answer.mu()
            case _:
                return answer.advantage()

    def settled(self, answer: Guarantee) -> Bracket:
        """The quantity in an answer, narrower where its upper end is within one width above the limit.

        So a run that was calibrated to the limit is not refused for the width of an answer.

        >>> from sharpdp import Gaussian, account
        >>> bracket = Target("epsilon", 2.0, 1e-5).settled(account(Gaussian(noise_multiplier=2.0)))
        >>> print(f"{bracket.upper:.4f}")
        1.9931
        """
        found, width = self._capped(answer), answer.relative_width
        while self._is_open(found, width) and width > FINEST:
            width *= FINER
            found = self._capped(answer.refined(width))
        return found

    def is_met(self, answer: Guarantee) -> bool:
        """Whether the upper end is at most the limit, for sure."""
        return float(self.settled(answer).upper) <= self.limit

    def _capped(self, answer: Guarantee) -> Bracket:
        """The quantity; an epsilon just above the limit is the limit if delta says so.

        Delta at one epsilon is one question, whose answer is narrower than that for epsilon.
        """
        found = self.asked(answer)
        if self.quantity == "epsilon" and self._is_open(found, answer.relative_width):
            delta = answer.delta(epsilon=self.limit)
            if float(delta.upper) <= self.given:
                rigor = Rigor.weakest((found.rigor, delta.rigor))
                return replace(found, upper=self.limit, rigor=rigor)
        return found

    def _is_open(self, found: Bracket, width: float) -> bool:
        """Whether a narrower answer may still meet the limit that this one misses."""
        low, high = float(found.lower), float(found.upper)
        near = self.limit == 0.0 or (1.0 - 2.0 * width) * high <= self.limit
        return near and low <= self.limit < high


def the_target(
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    advantage: float | None = None,
    tpr: float | None = None,
    fpr: float | None = None,
    mu: float | None = None,
) -> Target:
    """The one target that is given; an error that says what is missing otherwise.

    >>> the_target(epsilon=1.0, delta=1e-6).words
    'epsilon 1 at delta 1e-06'
    """
    kinds = [
        mu is not None,
        advantage is not None,
        tpr is not None or fpr is not None,
        epsilon is not None or delta is not None,
    ]
    if sum(kinds) != 1:
        raise InvalidArgument(f"exactly one target must be given; got {sum(kinds)}. {UNFINISHED}")
    if mu is not None:
        return Target("mu", positive(mu=mu))
    if advantage is not None:
        return Target("advantage", open_probability(advantage=advantage))
    if kinds[2]:
        if tpr is None or fpr is None:
            raise InvalidArgument(f"tpr and fpr must be given together. {UNFINISHED}")
        rate, limit = open_probability(fpr=fpr), probability(tpr=tpr)
        if limit <= rate:
            raise InvalidArgument(
                f"tpr must be greater than fpr = {rate:g}; got {limit:g}. "
                "An attacker who guesses reaches tpr = fpr."
            )
        return Target("tpr", limit, rate)
    if epsilon is None or delta is None:
        raise InvalidArgument(f"epsilon and delta must be given together. {UNFINISHED}")
    value, limit = nonnegative(epsilon=epsilon), half_open_probability(delta=delta)
    if value == limit == 0.0:
        raise InvalidArgument(
            "epsilon or delta must be greater than 0; got 0 for both. Nothing useful is that private."
        )
    return Target("epsilon", value, limit)
