"""All numbers of a report, before they are put into words.

Which numbers are true is the business of the Guarantee; here they are only asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import each, open_probability
from sharpdp.account import Guarantee, Route
from sharpdp.bounds import Bound
from sharpdp.bracket import Bracket, Side
from sharpdp.errors import NotCertified, Unsupported
from sharpdp.plans import DELTAS, Plan

__all__ = ["DELTAS", "FALSE_POSITIVE_RATES", "Findings", "Points", "findings"]

EPSILONS = (1.0, 2.0, 4.0)
"""Where delta is reported."""

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
"""Where the success of an attack is reported."""

POINTS = 81
"""Points of the trade-off curve."""

PLACES = 6
"""Decimal places of these points, rounded away from the truth."""

ROUNDING = 1e-9
"""Far more than what the doubles of a band are off by."""

Points = tuple[tuple[float, float, float], ...]
"""(false-positive rate, lower and upper false-negative rate) along the trade-off curve."""


@dataclass(frozen=True)
class Findings:
    """What a report says, before it is laid out."""

    guarantee: Guarantee
    epsilons: tuple[tuple[float, Bracket], ...]
    deltas: tuple[tuple[float, Bracket], ...]
    rates: tuple[tuple[float, Bracket], ...]
    advantage: Bracket
    mu: Bracket

    @property
    def brackets(self) -> tuple[Bracket, ...]:
        """The answers for a privacy claim: epsilon at each delta, then delta at each epsilon."""
        return tuple(bracket for _, bracket in (*self.epsilons, *self.deltas))

    @cached_property
    def plan(self) -> Plan:
        """What was asked, as a plan."""
        answer = self.guarantee
        asked = tuple(delta for delta, _ in self.epsilons)
        return Plan(answer.mechanism, asked, str(answer.adjacency), answer.relative_width)

    @cached_property
    def unwritten(self) -> str:
        """Why the plan cannot be written; nothing if it can."""
        try:
            self.plan.to_dict()
        except Unsupported as why:
            return str(why)
        return ""

    @cached_property
    def curve(self) -> Points:
        """The trade-off curve at some false-positive rates, closer at both ends."""
        from sharpdp.plots.bands import sampled, tradeoff_band

        fpr = np.round(0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, POINTS)), PLACES)
        lower, upper = tradeoff_band(sampled(self.guarantee), fpr)
        unit = 10.0**PLACES
        low = np.maximum(np.floor((lower - ROUNDING) * unit), 0.0) / unit
        high = np.minimum(np.ceil((upper + ROUNDING) * unit), unit) / unit
        return tuple(zip(fpr.tolist(), low.tolist(), high.tolist(), strict=True))

    @cached_property
    def decided(self) -> dict[Bound, tuple[Side, ...]]:
        """The sides of epsilon that each theorem decided, at some of the deltas."""
        sides: dict[Bound, list[Side]] = {one: [] for one in self.guarantee.bounds}
        for side in Side:
            for one in _deciding(self.guarantee, side, [delta for delta, _ in self.epsilons]):
                sides[one].append(side)
        return {one: tuple(found) for one, found in sides.items()}


def findings(guarantee: Guarantee, *, delta: ArrayLike = DELTAS) -> Findings:
    """All numbers of a report, asked at the given deltas."""
    places = np.ravel(each(open_probability, delta=delta)).tolist()
    return Findings(
        guarantee,
        tuple((one, guarantee.epsilon(delta=one)) for one in places),
        tuple((one, guarantee.delta(epsilon=one)) for one in EPSILONS),
        tuple((one, guarantee.tpr(fpr=one)) for one in FALSE_POSITIVE_RATES),
        guarantee.advantage(),
        guarantee.mu(),
    )


def _deciding(guarantee: Guarantee, side: Side, deltas: list[float]) -> list[Bound]:
    """The theorems whose epsilon is the best one of this side, at some delta."""
    routes = guarantee.lower_routes if side is Side.LOWER else guarantee.upper_routes
    if len(routes) < 2:
        return [one for route in routes for one in route.bounds]
    found: dict[Bound, None] = {}
    for delta in deltas:
        ends = [_end(guarantee, side, route, delta) for route in routes]
        best = max(ends) if side is Side.LOWER else min(ends)
        winners = [route for route, end in zip(routes, ends, strict=True) if end == best]
        found.update(dict.fromkeys(one for route in winners for one in route.bounds))
    return list(found)


def _end(guarantee: Guarantee, side: Side, route: Route, delta: float) -> float:
    """The end of epsilon that one way alone gives."""
    alone = replace(guarantee, lower_routes=(route,), upper_routes=(route,))
    try:
        answer = alone.epsilon(delta=delta)
    except NotCertified:
        return -np.inf if side is Side.LOWER else np.inf
    return float(answer.lower if side is Side.LOWER else answer.upper)
