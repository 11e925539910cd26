"""A sequence with parts that are known by their Renyi divergences: two routes, the better counts.

By orders: the divergences of all parts add up, those of the other parts taken from their own pairs, and
the sum is converted. What has an infinite loss is split off first, and added to delta.

By pairs: the conversion of the curves by all orders, at all deltas, is the profile of a pair, which is
composed with those of the other parts. Once for the sum of all curves and, if there are several, once
for each of them. So no answer is worse than adding epsilons and deltas of the parts.

Upper side only: both ends of an answer are the upper bound. Proofs: docs/topics/renyi.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.bracket import Rigor
from sharpdp.curves.renyi.curve import RenyiCurve
from sharpdp.curves.renyi.dominating import dominating_pair
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import Array
from sharpdp.numerics.tolerances import QUOTIENT_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.engine import extremes_allowed
from sharpdp.profile.many_questions import Ends
from sharpdp.profile.renyi import FiniteLosses

__all__ = ["WithCurves"]

Interval = tuple[float, float]

_LARGE_ORDER = 1e9
"""In place of the infinite order where that would be converted by way of both directions."""


@dataclass(frozen=True)
class WithCurves:
    """Curves, each so many times, and a composition of pairs, run one after the other.

    One direction at a time, as of the composition; the curves bound both. There may be no curve, if
    divergences of pairs are known otherwise.
    """

    curves: tuple[tuple[RenyiCurve, int], ...]
    others: Composition
    repeated_pair = None
    """Its answers do not come from one pair."""

    @property
    def symmetric(self) -> bool:
        """Whether both directions have the same answers."""
        return self.others.symmetric

    @property
    def rigor(self) -> Rigor:
        """That of its own proof: what is split off is our argument."""
        ways = (self.others, self.others.reverse())
        splits = self.others.steps and any(FiniteLosses(way).splits for way in ways)
        return Rigor.UNREVIEWED if splits else Rigor.CERTIFIED

    def reverse(self) -> WithCurves:
        """The other direction."""
        return self if self.symmetric else self._reversed

    @cached_property
    def _reversed(self) -> WithCurves:
        other = WithCurves(self.curves, self.others.reverse())
        other.__dict__["_by_orders"] = self._by_orders  # which is about both directions
        return other

    def fresh(self) -> WithCurves:
        """The same sequence without the work that earlier questions left."""
        return WithCurves(self.curves, self.others.fresh())

    @cached_property
    def _by_orders(self) -> ByOrders:
        if not self.others.steps:
            return ByOrders(self._sum, ())
        ways = (self.others,) if self.symmetric else (self.others, self.others.reverse())
        return ByOrders(self._sum, tuple(map(FiniteLosses, ways)))

    @cached_property
    def _sum(self) -> RenyiCurve | None:
        return RenyiCurve.summed(self.curves) if self.curves else None

    @cached_property
    def _by_pairs(self) -> tuple[Composition, ...]:
        """The others with the pair of the sum of all curves, and with one for each curve."""
        if self._sum is None:
            return (self.others,)
        every: list[tuple[RenyiCurve, ...]] = [(self._sum,)]
        if len(self.curves) > 1:
            every.append(tuple(RenyiCurve.summed((part,)) for part in self.curves))
        return tuple(self._beside_others(curves) for curves in every)

    def _beside_others(self, curves: Iterable[RenyiCurve]) -> Composition:
        return Composition((*self.others.steps, *((dominating_pair(curve), 1) for curve in curves)))

    @cached_property
    def _sharper_pairs(self) -> tuple[Composition, ...]:
        """Those that say more than one curve by itself does about epsilon and delta."""
        return self._by_pairs if self.others.steps or len(self.curves) > 1 else ()

    def _least(
        self, known: Array, routes: Iterable[Composition], ask: Callable[[Composition], Ends]
    ) -> Ends:
        """The smallest upper ends, twice; what a route cannot certify is no bound."""
        for route in routes:
            with suppress(NotCertified):
                known = np.fmin(known, ask(route)[1])
        return known, known

    def epsilons(self, log_deltas: Array, relative_width: float, deltas: Array) -> Ends:
        """The upper bounds on epsilon, twice."""
        with extremes_allowed():
            known = np.array([self._by_orders.epsilon(float(delta)) for delta in deltas])
        return self._least(
            known,
            self._sharper_pairs,
            lambda route: route.epsilons(log_deltas, relative_width, deltas),
        )

    def pure_epsilon(self, relative_width: float) -> Interval:
        """The upper bound on epsilon at delta = 0, twice: finite if the infinite order is known."""
        with extremes_allowed():
            known = np.array([self._by_orders.epsilon(0.0)])

        def asked(route: Composition) -> Ends:
            low, high = route.pure_epsilon(relative_width)
            return np.array([low]), np.array([high])

        value = float(self._least(known, self._sharper_pairs, asked)[1][0])
        return value, value

    def log_deltas(self, epsilons: Array, relative_width: float) -> Ends:
        """The upper bounds on log delta, twice."""
        return self._least(
            self._by_orders.log_deltas(epsilons),
            self._sharper_pairs,
            lambda route: route.log_deltas(epsilons, relative_width),
        )

    def final_log_deltas(self, epsilons: Array, relative_width: float) -> Ends:
        """The same, each an answer by itself."""
        return self._least(
            self._by_orders.log_deltas(epsilons),
            self._sharper_pairs,
            lambda route: route.final_log_deltas(epsilons, relative_width),
        )

    def renyi_divergences(self, orders: Array, relative_width: float) -> Ends:
        """The upper bounds on the divergences, twice."""
        values = np.zeros(orders.size) if self._sum is None else self._sum.at(orders)
        if self.others.steps:
            others = self.others.renyi_divergences(orders, relative_width)[1]
            values = (values + others) * (1.0 + QUOTIENT_ERROR)
        return values, values

    @property
    def _rated(self) -> tuple[Composition, ...]:
        """The compositions that are asked for error rates: also the pair of what is added by orders."""
        return (*self._by_pairs, *((self._by_orders.pair,) if self.others.steps else ()))

    def false_negative_rates(self, fprs: Array, relative_width: float) -> Ends:
        """The lower bounds on false-negative rates, twice."""

        def negated(route: Composition) -> Ends:
            low, high = route.false_negative_rates(fprs, relative_width)
            return -high, -low

        rates = -self._least(np.zeros(fprs.size), self._rated, negated)[0]
        return rates, rates

    def true_positive_rates(self, fprs: Array, relative_width: float) -> Ends:
        """The upper bounds on true-positive rates, twice."""
        known = np.where(fprs == 0.0, self._by_orders.revealed, 1.0)
        return self._least(
            known,
            self._rated,
            lambda route: route.true_positive_rates(fprs, relative_width),
        )

    def mu(self, smallest_fpr: float, relative_width: float) -> Interval:
        """The upper bound on mu, twice."""

        def asked(route: Composition) -> Ends:
            low, high = route.mu(smallest_fpr, relative_width)
            return np.array([low]), np.array([high])

        value = float(self._least(np.full(1, np.inf), self._rated, asked)[1][0])
        return value, value


@dataclass(frozen=True)
class ByOrders:
    """The sum of a curve and the divergences of a composition, what is split off being added to delta.

    With m the mass that is split off and D(a) the sum of divergences of what is left,

        delta(epsilon) <= m + (1 - m) delta'(epsilon),   delta' the conversion of D.

    Of the directions of the composition the worse one is taken for each of them, so that answers hold
    in both.
    """

    curve: RenyiCurve | None
    others: tuple[FiniteLosses, ...]

    @cached_property
    def _mass(self) -> float:
        return max((losses.mass for losses in self.others), default=0.0)

    @cached_property
    def _whole(self) -> RenyiCurve:
        """The sum at at most 40 orders: those that the curve lists, thinned out, or a fixed set."""
        listed = self.curve.orders if self.curve else ()
        if not listed:
            return self._at(1.0 + np.geomspace(0.05, 1e5, 40))
        few = np.linspace(0, len(listed) - 1, min(len(listed), 40)).round().astype(int)
        return self._at(np.array(listed)[few])

    def _at(self, orders: Array) -> RenyiCurve:
        """The sum as a curve; a value bounds the divergences of all smaller orders too.

        A bound on all losses is converted by way of both directions of one pair, and what is left of
        two directions is none: then it stands for a large order only.
        """
        values = np.zeros(orders.size) if self.curve is None else self.curve.at(orders)
        if self.others:
            more = np.max([losses.divergences(orders) for losses in self.others], axis=0)
            values = (values + more) * (1.0 + QUOTIENT_ERROR)
        values = np.minimum.accumulate(values[::-1])[::-1]
        if self._mass > 0.0:
            finite = orders[np.isfinite(orders)]
            beyond = max(_LARGE_ORDER, 2.0 * float(np.max(finite, initial=1.0)))
            orders = np.where(np.isinf(orders), beyond, orders)
        return RenyiCurve(orders=tuple(orders.tolist()), values=tuple(values.tolist()))

    def _best(self, quantity: str, given: float) -> float:
        """The smallest epsilon or delta: over a few orders, then over more around the best one."""
        if self.curve is not None and not self.others:
            return self.curve.best(quantity, given, "joint")[0]
        # of what is left of two directions each is converted by itself
        conversion = "joint" if self._mass == 0.0 else "optimal"
        value, order = self._whole.best(quantity, given, conversion)
        finite = np.array([order for order in self._whole.orders if order < np.inf])
        if finite.size < 2 or not 0.0 < value < np.inf or np.isinf(order):
            return value
        index = int(np.clip(np.searchsorted(finite, order), 1, finite.size - 1))
        low, high = finite[max(index - 2, 0)], finite[min(index + 1, finite.size - 1)]
        closer = 1.0 + np.geomspace(low - 1.0, high - 1.0, 20)
        return min(value, self._at(closer).best(quantity, given, conversion)[0])

    def epsilon(self, delta: float) -> float:
        """The upper bound on epsilon."""
        mass = self._mass
        if mass == 0.0:
            return self._best("epsilon", delta)
        # (delta - m) / (1 - m) is at least delta - m
        return (
            self._best("epsilon", (delta - mass) * (1.0 - QUOTIENT_ERROR))
            if mass < delta
            else np.inf
        )

    @cached_property
    def revealed(self) -> float:
        """Not less than the probability of results that reveal the record for certain.

        Where some divergence is finite, only what is split off does.
        """
        return self._mass if np.isfinite(self._whole.values).any() else 1.0

    def log_deltas(self, epsilons: Array) -> Array:
        """The upper bounds on log delta."""
        with extremes_allowed():
            deltas = np.array([self._best("delta", float(epsilon)) for epsilon in epsilons])
            deltas = np.minimum((deltas + self._mass) * (1.0 + QUOTIENT_ERROR), 1.0)
            return np.where(deltas > 0.0, np.log(deltas) * (1.0 - QUOTIENT_ERROR), -np.inf)

    @cached_property
    def pair(self) -> Composition:
        """A pair that dominates everything: that of the sum, beside one that reveals the rest."""
        sum_pair, mass = dominating_pair(self._whole), self._mass
        revealed = ((AtomicPair.approximate(0.0, mass), 1),) if mass > 0.0 else ()
        return Composition(((sum_pair, 1), *revealed))
