"""Convergence of CLDP-SGD: how far the loss of a plan is from the best one, at most, on average."""

from __future__ import annotations

import math
from dataclasses import dataclass

from sharpdp._validate import HintedKeywords, count, nonnegative, positive

__all__ = ["Convergence"]

ROUNDING = 1e-9
"""Relative room for all rounding errors."""


@dataclass(frozen=True, kw_only=True)
class Convergence(HintedKeywords):
    """The rate at which CLDP-SGD reaches the best loss, made by `CLDPSGD.convergence`.

        G^2 = max(d^(1 - 2/p), 1) L^2 + V / users
        learning rate of round t = 1, 2, ...:   D / (G sqrt(t))
        E[loss after T rounds] - best loss <= 2 D G (2 + log T) / sqrt(T)

    L is the radius of the randomizer in the norm l_p, V the largest variance of one estimate, and D the
    diameter of the set. It holds if the loss of every client is convex in the parameters, no gradient is
    longer than the radius (so that nothing is clipped), the set is convex and closed, the projection is
    onto it, and the learning rates are these. Numbers are rounded up. Source: girgis2021 Theorem 3,
    Lemma 9; shamir2013 Theorem 2.

    Args:
        second_moment: G^2, an upper bound on the mean squared length of the averaged estimates.
        diameter: Largest distance of two points of the set in which the parameters stay.
        rounds: Number of rounds T.

    Raises:
        InvalidArgument: A field is out of range.
        WrongType: A field has the wrong type.

    >>> rate = Convergence(second_moment=4.0, diameter=10.0, rounds=10_000)
    >>> [round(rate.learning_rate(step), 3) for step in (0, 3, 99)]
    [5.0, 2.5, 0.5]
    >>> round(rate.excess_loss, 2)
    4.48
    """

    second_moment: float
    diameter: float
    rounds: int

    def __post_init__(self) -> None:
        """Check all fields."""
        object.__setattr__(self, "second_moment", positive(second_moment=self.second_moment))
        object.__setattr__(self, "diameter", positive(diameter=self.diameter))
        object.__setattr__(self, "rounds", count(rounds=self.rounds))

    def learning_rate(self, step: float) -> float:
        """The learning rate of a round: pass this method to `CLDPSGD`.

        Args:
            step: Number of the round, from 0 on.

        Returns:
            The step size.

        Raises:
            InvalidArgument: step is negative.
            WrongType: step is no number.
        """
        turn = 1.0 + nonnegative(step=step)
        return self.diameter / math.sqrt(self.second_moment * turn)

    @property
    def excess_loss(self) -> float:
        """Expected loss after all rounds, less the best loss in the set, at most."""
        times = 2.0 * self.diameter * math.sqrt(self.second_moment) / math.sqrt(self.rounds)
        return times * (2.0 + math.log(self.rounds)) * (1.0 + ROUNDING)
