"""The questions that a trade-off curve answers, each with a Bracket."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import (
    elementwise,
    half_open_probability,
    invalid,
    nonnegative,
    positive,
    real,
    short_repr,
)
from sharpdp.bracket import Bracket, Rigor, bracketed
from sharpdp.errors import InvalidArgument
from sharpdp.numerics.directed import add_up, exp_up
from sharpdp.tradeoff.divergences import DIVERGENCES, length, limit, of_function, renyi
from sharpdp.tradeoff.enclosure import stick_between
from sharpdp.tradeoff.exact import down, up
from sharpdp.tradeoff.oracle import OneWay, Source
from sharpdp.tradeoff.polyline import Polyline
from sharpdp.tradeoff.readings import (
    LARGEST_EPSILON,
    Interval,
    delta_between,
    epsilon_between,
    falling,
    rates_between,
    rising,
)

__all__ = ["Bounds", "Questions", "rate"]

Bounds = tuple[Polyline, Polyline]

CLOSE_TO_ONE = 1.0 + 1e-4
"""The order whose divergence stands in for that of order 1, from above."""


class Questions(ABC):
    """What can be asked of a curve that has a source or is held by two polylines."""

    known: Source | Bounds
    rigor: Rigor
    """What stands behind the curve: that of the theorems it was made from."""

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is, in a few words."""

    @property
    @abstractmethod
    def bounds(self) -> Bounds:
        """(lower, upper) polylines."""

    def fnr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the smallest false-negative rate at this false-positive rate."""

        def answer(value: float) -> Interval:
            if isinstance(self.known, tuple):
                return rates_between(*self.known, value)
            return self.known.rates(value)

        return self._asked("fnr", "fpr", elementwise(rate, fpr=fpr), answer)

    def tpr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the largest true-positive rate at this false-positive rate."""

        def answer(value: float) -> Interval:
            if isinstance(self.known, tuple):
                return falling(*self.known, lambda f: 1 - f.at(value))
            return self.known.true_positives(value)

        return self._asked("tpr", "fpr", elementwise(rate, fpr=fpr), answer)

    def lower(self, fpr: ArrayLike) -> float | NDArray[np.float64]:
        """Certified lower bound on the false-negative rate: what every attacker is held to."""
        return self.fnr(fpr=fpr).lower

    def upper(self, fpr: ArrayLike) -> float | NDArray[np.float64]:
        """Certified upper bound on the false-negative rate: what some attacker achieves."""
        return self.fnr(fpr=fpr).upper

    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """Bracket for the smallest delta at which (epsilon, delta)-DP holds in both orders."""

        def answer(value: float) -> Interval:
            if isinstance(self.known, tuple):
                return delta_between(*self.known, value)
            return self.known.delta(value)

        return self._asked("delta", "epsilon", elementwise(nonnegative, epsilon=epsilon), answer)

    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """Bracket for the smallest epsilon >= 0 at which (epsilon, delta)-DP holds in both orders."""

        def answer(value: float) -> Interval:
            if isinstance(self.known, tuple):
                return epsilon_between(*self.known, value)
            return self.known.epsilon(value)

        return self._asked(
            "epsilon", "delta", elementwise(half_open_probability, delta=delta), answer
        )

    def hockey_stick(self, *, ratio: ArrayLike) -> Bracket:
        """Bracket for the sum of (alternative - ratio null)_+: one order, any ratio > 0."""
        clean = elementwise(positive, ratio=ratio)
        return self._asked("hockey stick", "ratio", clean, self._stick)

    def _stick(self, ratio: float) -> Interval:
        if not isinstance(self.known, tuple):
            return stick_between(self.known, ratio)
        return falling(*self.known, lambda f: f.hockey_stick(Fraction(ratio)))

    def conjugate(self, *, slope: ArrayLike) -> Bracket:
        """Bracket for the largest slope x - f(x): the hockey stick at -slope, minus 1, if slope < 0."""

        def answer(value: float) -> Interval:
            if value >= 0.0:
                return value, value
            low, high = self._stick(-value)
            return down(Fraction(low) - 1), up(Fraction(high) - 1)

        return self._asked("conjugate", "slope", elementwise(real, slope=slope), answer)

    def fixed_point(self) -> Bracket:
        """Bracket for the rate x with f(x) = x, where both errors are equally frequent."""
        return self._bracket("fixed point", rising(*self.bounds, Polyline.fixed_point))

    def area(self) -> Bracket:
        """Bracket for the area under the curve: 1/2 is perfect privacy, 0 is none."""
        return self._bracket("area", rising(*self.bounds, Polyline.area))

    def advantage(self) -> Bracket:
        """Bracket for the largest 1 - fpr - fnr: the total variation distance."""
        if isinstance(self.known, tuple):
            return self._bracket("advantage", falling(*self.known, Polyline.advantage))
        return self._bracket("advantage", self.known.delta(0.0))

    def length(self) -> Bracket:
        """Bracket for the length of the graph with its jump at 0, between sqrt(2) and 2."""
        lower, upper = self.bounds
        ends = length(upper)[0], length(lower)[1]
        return self._bracket("length", ends)

    def renyi(self, *, order: ArrayLike) -> Bracket:
        """Bracket for the Renyi divergence of order > 1, the larger of both directions."""

        def answer(value: float) -> Interval:
            if not isinstance(self.known, tuple):
                return self.known.renyi(value)
            lower, upper = self.known
            low = max(renyi(one, value)[0] for one in (upper, upper.inverse()))
            return low, max(renyi(one, value)[1] for one in (lower, lower.inverse()))

        return self._asked("renyi", "order", elementwise(_order, order=order), answer)

    def divergence(
        self,
        kind: str | Callable[[float], float],
        *,
        at_zero: float | None = None,
        at_infinity: float | None = None,
    ) -> Bracket:
        """Bracket for an F-divergence of the null from the alternative; the inverse has the other order.

        ``kind`` is "total variation", "kl", "squared hellinger", "chi squared", or a convex function F
        of the likelihood ratio null / alternative with its limits: F(0), and F(s)/s at infinity (both
        may be infinite). A function of one's own is computed in doubles, and its bracket says so.

        Where F(s)/s is unbounded, a curve that touches zero before fpr = 1 has an infinite divergence;
        the lower polyline of a curve that is only enclosed always does. The named ones of a pair are
        then bounded from above by its moments.

        Source: wang2023 Lemma B.4.
        """
        if isinstance(kind, str):
            if kind not in DIVERGENCES or not at_zero is at_infinity is None:
                names = ", ".join(repr(name) for name in DIVERGENCES)
                raise InvalidArgument(
                    f"kind must be {names}, or a function with at_zero and at_infinity; "
                    f"got {short_repr(kind)}."
                )
            lower, upper = self.bounds
            named = DIVERGENCES[kind]
            ends = self._from_moments(kind, (named(upper)[0], named(lower)[1]))
            return self._bracket(kind, ends)
        if at_zero is None or at_infinity is None or not callable(kind):
            raise InvalidArgument(
                "kind must be a name, or a function with at_zero and at_infinity; "
                f"got {short_repr(kind)}, at_zero={short_repr(at_zero)}, "
                f"at_infinity={short_repr(at_infinity)}."
            )
        lower, upper = self.bounds
        limits = limit(at_zero=at_zero), limit(at_infinity=at_infinity)
        values = [of_function(one, kind, *limits) for one in (upper, lower)]
        return Bracket(min(values), max(values), Rigor.APPROXIMATE, "divergence", f"| {self.label}")

    def _from_moments(self, kind: str, ends: Interval) -> Interval:
        """The ends, the upper one from moments of the pair where polylines leave it open.

        Renyi divergences rise with the order, so that they are above that of order 1; chi squared is
        the exponential of the one of order 2, minus 1.
        """
        if not isinstance(self.known, OneWay) or math.isfinite(ends[1]):
            return ends
        if kind == "kl":
            return ends[0], self.known.from_alternative(CLOSE_TO_ONE)[1]
        high = self.known.from_alternative(2.0)[1]
        return ends[0], add_up(exp_up(high), -1.0) if high < LARGEST_EPSILON else math.inf

    def _bracket(self, quantity: str, ends: Interval) -> Bracket:
        return Bracket(*ends, self.rigor, quantity, f"| {self.label}")

    def _asked(
        self,
        quantity: str,
        given: str,
        at: float | NDArray[np.float64],
        answer: Callable[[float], Interval],
    ) -> Bracket:
        intervals = [answer(value) for value in np.ravel(at).tolist()]
        return bracketed(quantity, given, at, intervals, f"| {self.label}", self.rigor)


def rate(*, hint: str = "", **argument: object) -> float:
    """The argument as a rate in [0, 1]."""
    ((name, value),) = argument.items()
    number = real(hint=hint, **{name: value})
    if not 0.0 <= number <= 1.0:
        raise invalid(name, "in [0, 1]", value, "It is the false-positive rate of an attack.")
    return number


def _order(*, hint: str = "", **argument: object) -> float:
    ((name, value),) = argument.items()
    number = real(hint=hint, **{name: value})
    if not number > 1.0:
        raise invalid(name, "greater than 1", value, hint)
    return number
