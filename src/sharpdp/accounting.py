"""From a mechanism to its answer: `account(mechanism)` gives a Guarantee, which answers questions.

A Guarantee holds, for each side, the compositions that bound it. Every question is answered by all of
them in both directions, refined until the bracket is as narrow as asked, and the best one counts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp._validate import each, fault, mass, nonnegative, open_probability, real, shown
from sharpdp.bounds import Bound, bounds_for
from sharpdp.bracket import Bracket, Rigor, Side, bracketed
from sharpdp.composition.composition import Composition
from sharpdp.composition.false_negatives import false_negatives, true_positives
from sharpdp.composition.gaussian_mu import mu_between
from sharpdp.composition.renyi import divergence
from sharpdp.errors import InvalidArgument, NotCertified, WrongType
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.numerics.directed import exp_down, exp_up, one_minus_up
from sharpdp.pairs.pair import STANDARD_WIDTH
from sharpdp.pairs.privacy_profile import seems_above
from sharpdp.progress import Task, progress
from sharpdp.renyi import RenyiCurve
from sharpdp.renyi.sequence import ByOrders
from sharpdp.tradeoff import TradeoffCurve
from sharpdp.tradeoff.oracle import Worst
from sharpdp.tradeoff.questions import rate

__all__ = ["Guarantee", "account", "checked_width"]

NARROWEST, WIDEST = 1e-9, 0.5
"""Relative widths that can be asked for."""

EPSILON_SHARE = 0.2
"""Part of the relative width that pairs may use up in epsilon: deltas are some five times as wide."""

POLYLINE_WIDTH = 1e-5
"""Relative width of the deltas that the polylines around a trade-off curve are made from."""

MOST_ROUTES = 32
"""Combinations of bounds on the parts of a sequence that are tried."""

OPACUS_ORDERS = (*(1.0 + x / 10.0 for x in range(1, 100)), *map(float, range(12, 64)))
"""The orders that Opacus exchanges divergences at unless told otherwise."""

Interval = tuple[float, float]
Run = Composition | ByOrders
Question = Callable[[Run], Interval]
Rigors = list[Rigor]
"""Collects what stands behind the ends of one answer."""


def account(
    mechanism: Mechanism,
    *,
    relative_width: float = 1e-3,
    adjacency: Adjacency | str | None = None,
) -> Guarantee:
    """The privacy of a mechanism as a Guarantee; brackets are at most relative_width wide.

    `adjacency` is the mechanism's documented one unless given; every answer prints it.

    >>> from sharpdp.mechanisms import Gaussian
    >>> answer = account(Gaussian(noise_multiplier=1.0)).delta(epsilon=1.0)
    >>> 0.1269367375 in answer, answer.context
    (False, 'at epsilon=1 | Gaussian noise, neighboring inputs')
    >>> 0.12693673750664 in answer
    True
    """
    if not isinstance(mechanism, Mechanism):
        raise WrongType(
            f"mechanism must be a mechanism; got {shown(mechanism)}. "
            "Try DPSGD(PoissonBatches(...), noise_multiplier=1.0)."
        )
    width = checked_width(relative_width)
    notion = mechanism.adjacency(adjacency)
    with progress(f"computing bounds on {mechanism.label}"):
        found = {
            side: routes(mechanism, notion, side, width=EPSILON_SHARE * width) for side in Side
        }
    return Guarantee(mechanism, notion, width, found[Side.LOWER], found[Side.UPPER])


def checked_width(relative_width: object) -> float:
    """The relative width as a float that can be asked for."""
    width = real(relative_width=relative_width)
    if NARROWEST <= width <= WIDEST:
        return width
    raise fault("relative_width", f"between {NARROWEST:g} and {WIDEST:g}", width)


@dataclass(frozen=True)
class Route:
    """One way to bound a mechanism on one side: a bound for each part, and the pairs they give."""

    bounds: tuple[Bound, ...]
    composition: Run
    premise: Rigor = Rigor.CERTIFIED
    aims: tuple[object, ...] = ()
    """For each part the pairs, or that they approach the exact ones: two routes of equal aims meet."""

    @property
    def rigor(self) -> Rigor:
        """What stands behind it: no more than behind the weakest of its bounds, and its premise."""
        return Rigor.weakest([self.premise, *(one.rigor for one in self.bounds)])


def routes(
    mechanism: Mechanism,
    adjacency: Adjacency,
    side: Side,
    rigors: tuple[Rigor, ...] = (Rigor.CERTIFIED, Rigor.UNREVIEWED),
    *,
    width: float = STANDARD_WIDTH,
) -> tuple[Route, ...]:
    """All combinations of bounds of these rigors on the parts; none if a part has none on this side.

    `width` is about as far as their pairs may be from the exact ones, in epsilon.
    """
    parts = mechanism.parts()
    alone = len(parts) == 1 and parts[0][1] == 1
    curves = tuple((part, times) for part, times in parts if isinstance(part, RenyiCurve))
    choices = []
    for part, _ in parts:
        bounds = [one for one in bounds_for(part, adjacency) if side in one.sides]
        if side is Side.LOWER and not alone:
            bounds = [one for one in bounds if one.lower_composes]
        choices.append([one for one in bounds if one.rigor in rigors])
    premise = Rigor.weakest(part.premise for part, _ in parts)
    found = []
    for chosen in itertools.islice(itertools.product(*choices), MOST_ROUTES):
        pieces = [
            one(part, adjacency, width=width) for one, (part, _) in zip(chosen, parts, strict=True)
        ]
        steps = tuple(
            (pair, count * times)
            for few, (_, times) in zip(pieces, parts, strict=True)
            for pair, count in few
        )
        aims = tuple(
            "exact" if one.approaches is not None and one.approaches(part) else few
            for one, few, (part, _) in zip(chosen, pieces, parts, strict=True)
        )
        run: Run = ByOrders(curves, Composition(steps)) if curves else Composition(steps)
        grounds = (
            premise
            for one, (part, _) in zip(chosen, parts, strict=True)
            for premise in one.premises(part, adjacency, side)
        )
        found.append(Route(tuple(dict.fromkeys(grounds)), run, premise, aims))
    return tuple(found)


@dataclass(frozen=True)
class Guarantee:
    """What is known about the privacy of one mechanism; each method answers one question.

    Answers are Brackets: the truth for the stated adjacency lies between `lower` and `upper`.
    Arguments may be numbers or arrays.
    """

    mechanism: Mechanism
    adjacency: Adjacency
    relative_width: float
    lower_routes: tuple[Route, ...]
    upper_routes: tuple[Route, ...]

    def epsilon(self, *, delta: ArrayLike) -> Bracket:
        """Bracket for the smallest epsilon >= 0 at which the mechanism is (epsilon, delta)-DP.

        At delta = 0 that is pure DP: the largest loss of any result, infinite for Gaussian noise.

        >>> from sharpdp.mechanisms import RandomizedResponse
        >>> ten = RandomizedResponse(local_epsilon=np.log(3)) * 10
        >>> answer = account(ten).epsilon(delta=1e-6)
        >>> bool(10.98 < answer.lower <= answer.upper < 10 * np.log(3))
        True
        >>> print(f"{account(ten).epsilon(delta=0):.6g}")  # ten times log 3
        10.9861 to 10.9862
        """
        clean = each(mass, delta=delta)

        def question(value: float) -> Question:
            if value == 0.0:
                return lambda one: one.pure_epsilon(self.relative_width)
            log_delta = float(np.log(value))
            return lambda one: one.epsilon(log_delta, self.relative_width, value)

        def answer(value: float, rigors: Rigors) -> Interval:
            low, high = self._worst(question(value), rigors)
            return max(low, 0.0), high  # if nothing is known from below

        return self._bracket("epsilon", "delta", clean, answer)

    def delta(self, *, epsilon: ArrayLike) -> Bracket:
        """Bracket for the smallest delta at which the mechanism is (epsilon, delta)-DP."""
        clean = each(nonnegative, epsilon=epsilon)

        def answer(value: float, rigors: Rigors) -> Interval:
            low, high = self._worst(lambda one: one.log_delta(value, self.relative_width), rigors)
            return exp_down(low), min(exp_up(high), 1.0)

        return self._bracket("delta", "epsilon", clean, answer)

    def advantage(self) -> Bracket:
        """Bracket for the largest true-positive minus false-positive rate of any attack: delta(0)."""
        rigors: Rigors = []
        with self._computing("advantage"):
            low, high = self._worst(lambda one: one.log_delta(0.0, self.relative_width), rigors)
        rigor = Rigor.weakest(rigors)
        return Bracket(exp_down(low), min(exp_up(high), 1.0), rigor, "advantage", self._context)

    def tradeoff(self) -> TradeoffCurve:
        """The enclosing curves of the false-negative rate of every attack."""
        finer = replace(self, relative_width=min(self.relative_width, POLYLINE_WIDTH))
        known = {route.composition for route in self.upper_routes}
        alone = [
            replace(finer, lower_routes=(route,), upper_routes=(route,))
            for route in self._best_lower
            if route.composition not in known
        ]
        return TradeoffCurve(Worst(self, finer, tuple(Worst(one, one) for one in alone)))

    def fnr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the smallest false-negative rate of any attack at this false-positive rate."""
        clean = each(rate, fpr=fpr)

        def answer(value: float, rigors: Rigors) -> Interval:
            # the worst direction has the smaller false-negative rate
            low, high = self._worst(
                lambda one: _negated(_fnr(one, value, self.relative_width)), rigors
            )
            top = min(-low, one_minus_up(value))  # that much is always reached
            return min(-high, top), top

        return self._bracket("fnr", "fpr", clean, answer)

    def tpr(self, *, fpr: ArrayLike) -> Bracket:
        """Bracket for the largest true-positive rate of any attack at this false-positive rate.

        At 0 that is the probability of an outcome that gives the record away.

        >>> from sharpdp.mechanisms import Gaussian
        >>> account(Gaussian(noise_multiplier=1.0)).tpr(fpr=0.0).upper  # there is none
        0.0
        """
        clean = each(rate, fpr=fpr)

        def answer(value: float, rigors: Rigors) -> Interval:
            low, high = self._worst(lambda one: _tpr(one, value, self.relative_width), rigors)
            return max(low, value), min(max(high, value), 1.0)  # guessing reaches that much

        return self._bracket("tpr", "fpr", clean, answer)

    def renyi(self, *, order: ArrayLike) -> Bracket:
        """Bracket for the Renyi divergence of the given order > 1, the larger of both directions."""
        clean = each(_order, order=order)

        def answer(value: float, rigors: Rigors) -> Interval:
            low, high = self._worst(lambda one: _renyi(one, value, self.relative_width), rigors)
            return max(low, 0.0), high

        return self._bracket("renyi", "order", clean, answer)

    def renyi_curve(self, *, orders: Iterable[float] = OPACUS_ORDERS) -> RenyiCurve:
        """The upper sides of the Renyi divergences at these orders, as a curve of its own.

        Its orders and values can be passed to other libraries; the default orders are those of Opacus.

        >>> from sharpdp.mechanisms import Gaussian
        >>> curve = account(Gaussian(noise_multiplier=1.0)).renyi_curve(orders=[2.0, 4.0])
        >>> [round(value, 9) for value in curve.values]  # order / 2
        [1.0, 2.0]
        """
        rising = np.unique(each(_order, orders=orders))
        found = self.renyi(order=rising)
        uppers = np.asarray(found.upper)
        # a value bounds the divergences of all smaller orders too
        least = np.minimum.accumulate(uppers[::-1])[::-1]
        return RenyiCurve(
            orders=rising.tolist(),
            values=least.tolist(),
            name=self.mechanism.label,
            rigor=found.rigor,
        )

    def mu(self, *, smallest_fpr: float = 1e-6) -> Bracket:
        """Bracket for the smallest mu whose Gaussian trade-off curve lies below this one.

        Compared where both error rates are at least smallest_fpr: as a rate goes to zero the tail
        of a sampled mechanism is that of its noise alone, and no smaller mu would do.
        """
        least = open_probability(smallest_fpr=smallest_fpr)
        rigors: Rigors = []
        with self._computing("mu"):
            low, high = self._worst(lambda one: _mu(one, least, self.relative_width), rigors)
        context = f"for fpr>={least:g} {self._context}{self._note(low, high)}"
        return Bracket(max(low, 0.0), high, Rigor.weakest(rigors), "mu", context)

    def report(
        self,
        format: str = "text",  # noqa: A002  # "text", "markdown", "html" or "json"
        *,
        delta: ArrayLike = (1e-5, 1e-6, 1e-8),
        date: str | None = None,
    ) -> str:
        """The answer in words, for a model card: text, Markdown, one HTML page, or JSON."""
        from sharpdp.report import render

        return render(self, format, delta=delta, date=date)

    @classmethod
    def from_json(cls, text: str) -> Guarantee:
        """The answer behind a report in JSON, if its numbers hold when they are computed again."""
        from sharpdp.report import from_json

        return from_json(text)

    def __str__(self) -> str:
        """What was run, and for which neighbors."""
        return f"Guarantee for {self.mechanism.describe()}, {self.adjacency}"

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The theorems that the answers rest on."""
        routes = (*self.lower_routes, *self.upper_routes)
        return tuple(dict.fromkeys(one for route in routes for one in route.bounds))

    @property
    def rigor(self) -> Rigor:
        """The weakest rigor of all its routes; an answer that not all of them decide may have more."""
        return Rigor.weakest(one.rigor for one in (*self.lower_routes, *self.upper_routes))

    @property
    def _context(self) -> str:
        return f"| {self.mechanism.label}, {self.adjacency}"

    def _computing(self, quantity: str, parts: int = 1) -> AbstractContextManager[Task]:
        """Says what is computed, if it takes long."""
        return progress(f"computing {quantity} of {self.mechanism.label}", parts)

    def _worst(self, question: Question, rigors: Rigors) -> Interval:
        """(lower, upper) of the worse direction: best bound of each side, worst direction of each.

        Adds the rigor of the bounds that decide to `rigors`.
        """
        answers: dict[Run, Interval] = {}
        refused: dict[Run, NotCertified] = {}

        def of(route: Route) -> Interval:
            one = route.composition
            if one not in answers:
                try:
                    answers[one] = _both_directions(one, question)
                except NotCertified as why:
                    answers[one], refused[one] = (-np.inf, np.inf), why
            return answers[one]

        low = max((of(route)[0] for route in self._best_lower), default=-np.inf)
        high = min((of(route)[1] for route in self.upper_routes), default=np.inf)
        if low > -np.inf:
            rigors.append(_strongest(route for route in self._best_lower if of(route)[0] == low))
        if high < np.inf:
            rigors.append(_strongest(route for route in self.upper_routes if of(route)[1] == high))
        if refused and all(route.composition in refused for route in self.upper_routes):
            raise next(iter(refused.values()))
        return low, high

    @cached_property
    def _best_lower(self) -> tuple[Route, ...]:
        """The lower routes without those that another one seems to beat whatever is asked.

        Leaving one out is safe, and asking it would take as long as asking the better one.
        """
        kept: list[Route] = []
        for route in self.lower_routes:
            if not any(_beats(other, route) for other in kept):
                kept = [other for other in kept if not _beats(route, other)]
                kept.append(route)
        return tuple(kept)

    def _bracket(
        self,
        quantity: str,
        given: str,
        at: float | NDArray[np.float64],
        answer: Callable[[float, Rigors], Interval],
    ) -> Bracket:
        """Ask for every entry; print what was asked."""
        rigors: Rigors = []
        with self._computing(quantity, np.size(at)) as task:

            def ends(value: float) -> Interval:
                found = answer(value, rigors)
                task.advance()
                return found

            found = bracketed(
                quantity, given, at, ends, lambda *both: f"{self._context}{self._note(*both)}"
            )
        return replace(found, rigor=Rigor.weakest(rigors))

    def _note(self, low: ArrayLike, high: ArrayLike) -> str:
        """A word of warning if some bracket did not become as narrow as asked."""
        low, high = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
        with np.errstate(invalid="ignore"):
            narrow = (high - low <= 1.01 * self.relative_width * high) & np.isfinite(high)
        if bool(np.all(narrow | (low == high))):
            return ""
        # no refinement closes the gap between two theorems about different pairs
        known = {one for route in self.lower_routes for one in (route.aims, route.composition)}
        meet = any(
            one in known for route in self.upper_routes for one in (route.aims, route.composition)
        )
        return ", wider than asked" if meet else ", as close as the known bounds are"


def _strongest(routes: Iterable[Route]) -> Rigor:
    """The rigor of the best founded of some routes."""
    return min((route.rigor for route in routes), key=list(Rigor).index)


def _beats(one: Route, other: Route) -> bool:
    """Whether both run one pair equally often, and the pair of the first reveals more at a look."""
    if isinstance(one.composition, ByOrders) or isinstance(other.composition, ByOrders):
        return False
    first, second = one.composition.merged, other.composition.merged
    if len(first) != 1 or len(second) != 1 or not 1 < first[0][1] == second[0][1]:
        return False  # one pair alone is quickly asked
    return seems_above(first[0][0], second[0][0])


def _both_directions(one: Run, question: Question) -> Interval:
    """The larger answer of the two directions, end by end."""
    forward = question(one)
    if one.symmetric:
        return forward
    backward = question(one.reverse())
    return max(forward[0], backward[0]), max(forward[1], backward[1])


def _negated(interval: Interval) -> Interval:
    return -interval[1], -interval[0]


def _order(*, hint: str = "", **argument: object) -> float:
    """The argument as a finite float above 1."""
    ((name, value),) = argument.items()
    order = real(hint=hint, **{name: value})
    if not order > 1.0:
        raise InvalidArgument(f"{name} must be greater than 1; got {order!r}. {hint}".rstrip())
    return order


def _fnr(one: Run, fpr: float, relative_width: float) -> Interval:
    """(lower, upper) of the smallest false-negative rate."""
    if isinstance(one, ByOrders):
        return one.false_negatives(fpr, relative_width)
    return false_negatives(one, fpr, relative_width)


def _tpr(one: Run, fpr: float, relative_width: float) -> Interval:
    """(lower, upper) of the largest true-positive rate."""
    if isinstance(one, ByOrders):
        return one.true_positives(fpr, relative_width)
    return true_positives(one, fpr, relative_width)


def _mu(one: Run, smallest_fpr: float, relative_width: float) -> Interval:
    """(lower, upper) of the smallest mu."""
    if isinstance(one, ByOrders):
        return one.mu(smallest_fpr)
    return mu_between(one, smallest_fpr, relative_width)


def _renyi(one: Run, order: float, relative_width: float) -> Interval:
    """(lower, upper) of the Renyi divergence."""
    if isinstance(one, ByOrders):
        return one.renyi(order, relative_width)
    return divergence(one, order, relative_width)
