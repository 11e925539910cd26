"""Where a curve can be asked one point at a time: a pair of distributions, or an answer.

A source answers with certified numbers: how small the false-negative rate is at one false-positive
rate, and how large delta is at one epsilon. `enclosures` makes polylines of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from numpy.typing import ArrayLike

from sharpdp.bracket import Bracket, Rigor
from sharpdp.composition.composition import Composition
from sharpdp.composition.false_negatives import false_negatives, true_positives
from sharpdp.composition.renyi import divergence
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.numerics.directed import exp_down, exp_up
from sharpdp.pairs.pair import Pair

__all__ = ["Answers", "OneWay", "Source", "Worst"]

Interval: TypeAlias = tuple[float, float]

TOLERANCE = 1e-6
"""Width that is asked of a pair's own answers."""


class Answers(Protocol):
    """What a Guarantee can be asked; both directions at once, the worse one counts."""

    @property
    def mechanism(self) -> Mechanism:
        """What was run."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """For which neighbors."""
        ...

    @property
    def rigor(self) -> Rigor:
        """What stands behind all answers."""
        ...

    def fnr(self, *, fpr: ArrayLike) -> Bracket:
        """The smallest false-negative rate."""
        ...

    def tpr(self, *, fpr: ArrayLike) -> Bracket:
        """The largest true-positive rate."""
        ...

    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """The smallest delta."""
        ...

    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """The smallest epsilon."""
        ...

    def renyi(self, *, order: ArrayLike) -> Bracket:
        """The Renyi divergence."""
        ...


class Source(Protocol):
    """A curve that is asked one point at a time."""

    @property
    def symmetric(self) -> bool:
        """Whether the curve is its own inverse."""
        ...

    @property
    def attackers(self) -> tuple[Source, ...]:
        """Curves of experiments that some attacker can make: this one is below each of them."""
        ...

    @property
    def revealed(self) -> Interval:
        """Lower bounds on delta at infinite epsilon: of the alternative, and of the null."""
        ...

    def rates(self, fpr: float) -> Interval:
        """(lower, upper) of the smallest false-negative rate."""
        ...

    def true_positives(self, fpr: float) -> Interval:
        """(lower, upper) of the largest true-positive rate."""
        ...

    def delta(self, epsilon: float) -> Interval:
        """(lower, upper) of delta, the larger of both orders, epsilon >= 0."""
        ...

    def epsilon(self, delta: float) -> Interval:
        """(lower, upper) of the smallest epsilon, both orders, delta in [0, 1)."""
        ...

    def delta_towards(self, epsilon: float) -> Interval:
        """(lower, upper) of delta: of the alternative for epsilon >= 0, of the null at -epsilon below."""
        ...

    def renyi(self, order: float) -> Interval:
        """(lower, upper) of the Renyi divergence, the larger of both orders."""
        ...


@dataclass(frozen=True, eq=False)
class OneWay:
    """T(Q, P) of a composition of pairs (P, Q): this direction only."""

    composition: Composition
    attackers = ()

    @classmethod
    def of(cls, pair: Pair) -> OneWay:
        """The curve of one pair."""
        return cls(Composition(((pair, 1),)))

    @property
    def symmetric(self) -> bool:
        return self.composition.symmetric

    @property
    def revealed(self) -> Interval:
        return self.composition.infinite_p_ends[0], self.composition.reverse().infinite_p_ends[0]

    def rates(self, fpr: float) -> Interval:
        return false_negatives(self.composition, fpr, TOLERANCE)

    def true_positives(self, fpr: float) -> Interval:
        return true_positives(self.composition, fpr, TOLERANCE)

    def delta(self, epsilon: float) -> Interval:
        both = (self.composition, self.composition.reverse())
        ends = [one.log_delta(epsilon, TOLERANCE) for one in both]
        return exp_down(max(end[0] for end in ends)), min(exp_up(max(end[1] for end in ends)), 1.0)

    def epsilon(self, delta: float) -> Interval:
        both = (self.composition, self.composition.reverse())
        if delta == 0.0:
            ends = [one.pure_epsilon(TOLERANCE) for one in both]
        else:
            ends = [one.epsilon(math.log(delta), TOLERANCE, delta) for one in both]
        return max(end[0] for end in ends), max(end[1] for end in ends)

    def delta_towards(self, epsilon: float) -> Interval:
        one = self.composition if epsilon >= 0.0 else self.composition.reverse()
        low, high = one.log_delta(abs(epsilon), TOLERANCE)
        return exp_down(low), min(exp_up(high), 1.0)

    def renyi(self, order: float) -> Interval:
        ends = [
            divergence(one, order, TOLERANCE)
            for one in (self.composition, self.composition.reverse())
        ]
        return max(end[0] for end in ends), max(end[1] for end in ends)

    def from_alternative(self, order: float) -> Interval:
        """(lower, upper) of the Renyi divergence of the null from the alternative."""
        return divergence(self.composition.reverse(), order, TOLERANCE)


@dataclass(frozen=True, eq=False)
class Worst:
    """The curve of an answer: at each rate the best attack on any neighbors, in either direction.

    Its polylines enclose the largest trade-off function below that, which is its own inverse; they are
    made from `finer`, the same with narrower brackets. Where the two sides are different theorems, the
    one for the lower side gives curves of `attackers`.
    """

    answers: Answers
    finer: Answers
    attackers: tuple[Source, ...] = ()
    symmetric = True
    revealed = (0.0, 0.0)

    def rates(self, fpr: float) -> Interval:
        found = self.answers.fnr(fpr=fpr)
        return float(found.lower), float(found.upper)

    def true_positives(self, fpr: float) -> Interval:
        found = self.answers.tpr(fpr=fpr)
        return float(found.lower), float(found.upper)

    def delta(self, epsilon: float) -> Interval:
        found = self.answers.delta(epsilon=epsilon)
        return float(found.lower), float(found.upper)

    def epsilon(self, delta: float) -> Interval:
        found = self.answers.epsilon(delta=delta)
        return float(found.lower), float(found.upper)

    def delta_towards(self, epsilon: float) -> Interval:
        found = self.finer.delta(epsilon=abs(epsilon))
        return float(found.lower), float(found.upper)

    def renyi(self, order: float) -> Interval:
        found = self.answers.renyi(order=order)
        return float(found.lower), float(found.upper)
