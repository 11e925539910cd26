"""All numbers of a report, before they are put into words.

Which numbers are true is the business of the Guarantee; here they are only asked for, always in the
same order and of a Guarantee that was asked nothing before: equal plans give equal numbers.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sharpdp._validate import elementwise, half_open_probability
from sharpdp.accounting import Derivation, Guarantee
from sharpdp.bounds import Bound
from sharpdp.bracket import Bracket, Side
from sharpdp.errors import NotCertified, Unsupported
from sharpdp.plans import DELTAS, Plan
from sharpdp.progress import progress

__all__ = [
    "DELTAS",
    "FALSE_POSITIVE_RATES",
    "PLACES",
    "TITLE",
    "VERIFY",
    "Findings",
    "Points",
    "asked_nothing",
    "curve_at",
    "findings",
    "versions",
]

TITLE = "Privacy report"

VERIFY = "sharpdp verify report.json"
"""How a reader checks a report against a new computation."""

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
    """What a report says, before it is laid out.

    Args:
        guarantee: The answer that is reported.
        epsilons: Each delta that was asked, with epsilon there.
        deltas: Some epsilons, with delta there.
        rates: Some false-positive rates, with the largest true-positive rate of any attack there.
        advantage: Advantage of the best attack.
        mu: The mu of Gaussian differential privacy.
        curve: Points of the trade-off curve: false-positive rate, lower and upper false-negative rate.
        decided: The sides of epsilon that each theorem decided, at some of the deltas.
        versions: Versions of what computed the answers.
        date: Whatever the caller says it is; None for no date.
    """

    guarantee: Guarantee
    epsilons: tuple[tuple[float, Bracket], ...]
    deltas: tuple[tuple[float, Bracket], ...]
    rates: tuple[tuple[float, Bracket], ...]
    advantage: Bracket
    mu: Bracket
    curve: Points
    decided: Mapping[Bound, tuple[Side, ...]]
    versions: Mapping[str, str]
    date: str | None = None

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


def findings(
    guarantee: Guarantee, *, delta: ArrayLike = DELTAS, date: str | None = None
) -> Findings:
    """All numbers of a report, asked at the given deltas.

    Args:
        guarantee: The answer to report on, from `account`.
        delta: Deltas at which epsilon is reported, each in [0, 1): one number or an array.
        date: Date to report; None for no date.

    Returns:
        The numbers, always asked in the same order of a guarantee without earlier work, so that equal
        plans give equal numbers.

    Raises:
        InvalidArgument: A delta is out of range.
        WrongType: delta is no number or array of numbers.
        NotCertified: An answer cannot be given with a proof.
    """
    places = np.ravel(elementwise(half_open_probability, delta=delta)).tolist()
    asked = asked_nothing(guarantee)
    with progress("writing a report"):
        return Findings(
            guarantee,
            tuple((one, asked.epsilon(delta=one)) for one in places),
            tuple((one, asked.delta(epsilon=one)) for one in EPSILONS),
            tuple((one, asked.tpr(fpr=one)) for one in FALSE_POSITIVE_RATES),
            asked.advantage(),
            asked.mu(),
            curve_at(asked, _rates()),
            _decided(asked, places),
            versions(),
            date,
        )


def asked_nothing(guarantee: Guarantee) -> Guarantee:
    """The same guarantee without the work that earlier questions left, which sharpens later answers."""
    lower, upper = (
        tuple(replace(one, composition=one.composition.fresh()) for one in side)
        for side in (guarantee.lower_derivations, guarantee.upper_derivations)
    )
    return replace(guarantee, lower_derivations=lower, upper_derivations=upper)


def curve_at(guarantee: Guarantee, rates: Sequence[float]) -> Points:
    """The trade-off curve at some false-positive rates, rounded away from the truth."""
    from sharpdp.tradeoff.bands import sampled, tradeoff_band

    fpr = np.asarray(rates, dtype=float)
    lower, upper = tradeoff_band(sampled(guarantee), fpr)
    unit = 10.0**PLACES
    low = np.maximum(np.floor((lower - ROUNDING) * unit), 0.0) / unit
    high = np.minimum(np.ceil((upper + ROUNDING) * unit), unit) / unit
    return tuple(zip(fpr.tolist(), low.tolist(), high.tolist(), strict=True))


def _rates() -> list[float]:
    """False-positive rates from 0 to 1, closer at both ends."""
    angles = np.linspace(0.0, np.pi, POINTS)
    rates: list[float] = np.round(0.5 - 0.5 * np.cos(angles), PLACES).tolist()
    return rates


def versions() -> dict[str, str]:
    """What computes answers here."""
    import scipy

    from sharpdp import __version__

    return {
        "sharpdp": __version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "python": platform.python_version(),
    }


def _decided(guarantee: Guarantee, deltas: list[float]) -> dict[Bound, tuple[Side, ...]]:
    """The sides of epsilon that each theorem decided, at some of the deltas."""
    sides: dict[Bound, list[Side]] = {one: [] for one in guarantee.bounds}
    for side in Side:
        for one in _deciding(guarantee, side, deltas):
            sides[one].append(side)
    return {one: tuple(found) for one, found in sides.items()}


def _deciding(guarantee: Guarantee, side: Side, deltas: list[float]) -> list[Bound]:
    """The theorems whose epsilon is the best one of this side, at some delta."""
    is_lower = side is Side.LOWER
    every = guarantee.lower_derivations if is_lower else guarantee.upper_derivations
    if len(every) < 2:
        return [bound for derivation in every for bound in derivation.bounds]
    deciding: dict[Bound, None] = {}
    for delta in deltas:
        ends = [_end(guarantee, side, derivation, delta) for derivation in every]
        best = max(ends) if is_lower else min(ends)
        for derivation, end in zip(every, ends, strict=True):
            if end == best:
                deciding.update(dict.fromkeys(derivation.bounds))
    return list(deciding)


def _end(guarantee: Guarantee, side: Side, derivation: Derivation, delta: float) -> float:
    """The end of epsilon that one derivation alone gives."""
    try:
        bracket = guarantee.only(derivation).epsilon(delta=delta)
    except NotCertified:
        return -np.inf if side is Side.LOWER else np.inf
    return float(bracket.lower if side is Side.LOWER else bracket.upper)
