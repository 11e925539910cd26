"""An answer in words, for a model card: what was run, how private it is, and why that is so.

`text`, `markdown` and `to_dict` show the same findings. Which numbers are true is the business of
the Guarantee; here they are only asked for, and rounded outwards.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np

from sharpdp._validate import open_probability
from sharpdp.account import Guarantee
from sharpdp.bounds import Bound
from sharpdp.bracket import Bracket, Rigor
from sharpdp.mechanisms import DPSGD, Adjacency

__all__ = [
    "DELTAS",
    "Findings",
    "findings",
    "line",
    "markdown",
    "neighbours",
    "plain",
    "sections",
    "short",
    "text",
    "theorems",
    "to_dict",
]

DELTAS = (1e-5, 1e-6, 1e-8)
"""Where epsilon is reported."""

EPSILONS = (1.0, 2.0, 4.0)
"""Where delta is reported."""

FALSE_POSITIVE_RATES = (0.001, 0.01, 0.1)
"""Where the success of an attack is reported."""

PERCENT_DIGITS = 3
"""Digits of a percentage, rounded away from the truth."""

LINE = 88
"""Characters of a line of the text."""

MEANING = {
    Adjacency.ADD_REMOVE: "one data set has a record that the other lacks",
    Adjacency.ZERO_OUT: "one record of one data set is a ghost in the other: it contributes zero",
    Adjacency.REPLACE_ONE: "one record has a different value in each of the two data sets",
    Adjacency.NEIGHBOURS: "any two inputs for which the sensitivity, or the promise, holds",
}
"""What the two data sets are that a guarantee compares."""

SECRET = {
    Adjacency.ADD_REMOVE: ("whether one record was used", "the records that were used"),
    Adjacency.ZERO_OUT: ("whether one record was used", "the records that were used"),
    Adjacency.REPLACE_ONE: ("which of two values one record has", "the records with the one value"),
    Adjacency.NEIGHBOURS: ("which of two neighbouring inputs it was", "the cases of the one input"),
}
"""What an attacker wants to know, and of what a share is found out."""

CERTIFIED = (
    "Certified: the truth for what was run and for these neighbours lies inside each bracket if "
    "the conditions above hold. A published theorem stands behind each side, and the errors of "
    "discretisation, truncation and rounding are bounded and counted in."
)


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


def findings(guarantee: Guarantee, *, delta: Iterable[float] = DELTAS) -> Findings:
    """All numbers of a report, asked at the given deltas."""
    places = [open_probability(delta=one) for one in delta]
    return Findings(
        guarantee,
        tuple((one, guarantee.epsilon(delta=one)) for one in places),
        tuple((one, guarantee.delta(epsilon=one)) for one in EPSILONS),
        tuple((one, guarantee.tpr(fpr=one)) for one in FALSE_POSITIVE_RATES),
        guarantee.advantage(),
        guarantee.mu(),
    )


def text(guarantee: Guarantee, *, delta: Iterable[float] = DELTAS) -> str:
    """The findings as plain text.

    >>> from sharpdp.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> print(text(account(Gaussian(noise_multiplier=1.0))).splitlines()[0])
    Privacy report
    """
    lines: list[str] = []
    for heading, entries in sections(findings(guarantee, delta=delta)):
        lines += ["", heading] if lines else [heading, "=" * len(heading)]
        for entry in entries:
            wrapped = textwrap.wrap(entry, LINE - 2, break_on_hyphens=False)
            lines += [f"  {wrapped[0]}", *(f"    {line}" for line in wrapped[1:])]
    return "\n".join(lines)


def markdown(guarantee: Guarantee, *, delta: Iterable[float] = DELTAS) -> str:
    """The findings as Markdown, one list per section.

    >>> from sharpdp.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> print(markdown(account(Gaussian(noise_multiplier=1.0))).splitlines()[0])
    ## Privacy report
    """
    lines: list[str] = []
    for heading, entries in sections(findings(guarantee, delta=delta)):
        lines += ["", f"### {heading}", ""] if lines else [f"## {heading}", ""]
        lines += [f"- {entry.replace('<=', '≤')}" for entry in entries]
    return "\n".join(lines)


def to_dict(guarantee: Guarantee, *, delta: Iterable[float] = DELTAS) -> dict[str, Any]:
    """The findings as plain data for JSON; infinite ends are "inf", a missing side is None."""
    found = findings(guarantee, delta=delta)
    return {
        **theorems(guarantee),
        "epsilon": [{"delta": at, **plain(guarantee, one)} for at, one in found.epsilons],
        "delta": [{"epsilon": at, **plain(guarantee, one)} for at, one in found.deltas],
        "tpr": [{"fpr": at, **plain(guarantee, one)} for at, one in found.rates],
        "advantage": plain(guarantee, found.advantage),
        "mu": plain(guarantee, found.mu),
    }


def theorems(guarantee: Guarantee) -> dict[str, Any]:
    """What was run and what the answers rest on, as plain data.

    >>> from sharpdp.account import account
    >>> from sharpdp.mechanisms import Gaussian
    >>> theorems(account(Gaussian(noise_multiplier=1.0)))["sources"]
    ['dong2022 Theorem 2.7; balle2018 Theorem 8']
    """
    from sharpdp import __version__

    return {
        "mechanism": guarantee.mechanism.describe(),
        "adjacency": str(guarantee.adjacency),
        "bounds": [one.name for one in guarantee.bounds],
        "holds_when": [one.holds_when for one in guarantee.bounds],
        "sources": [one.source for one in guarantee.bounds],
        "version": __version__,
    }


def plain(guarantee: Guarantee, bracket: Bracket) -> dict[str, Any]:
    """One answer as plain data: scalars stay scalars, arrays become lists."""
    return {
        "quantity": bracket.quantity,
        "lower": _json(bracket.lower) if guarantee.lower_routes else None,
        "upper": _json(bracket.upper),
        "rigor": str(bracket.rigor),
    }


def _json(end: object) -> Any:
    """A number, or a list of numbers, as JSON can hold it: infinities by their names."""
    if isinstance(end, np.ndarray):
        return [_json(float(one)) for one in end.ravel()]
    return str(end) if isinstance(end, float) and math.isinf(end) else end


def sections(found: Findings) -> list[tuple[str, list[str]]]:
    """The report as headings with their lines; the first heading is the title."""
    guarantee = found.guarantee
    rigors = Rigor.weakest(bracket.rigor for bracket in found.brackets)
    return [
        ("Privacy report", _run(guarantee)),
        (f"How private it is ({rigors})", [short(guarantee, one) for one in found.brackets]),
        ("What an attacker can do", _attacks(found)),
        ("What this rests on", _grounds(guarantee)),
    ]


def _run(guarantee: Guarantee) -> list[str]:
    """What was run, what the batches promise, and which data sets are compared."""
    parts = guarantee.mechanism.parts()
    lines = [f"What was run: {guarantee.mechanism.describe()}."]
    if len(parts) == 1 and isinstance(parts[0][0], DPSGD):
        lines += parts[0][0].batches.guarantees
    return [*lines, neighbours(guarantee.adjacency)]


def neighbours(adjacency: Adjacency) -> str:
    """The notion of neighbouring data sets as a sentence.

    >>> neighbours(Adjacency.ADD_REMOVE)
    'Neighbours (add/remove): one data set has a record that the other lacks.'
    """
    name = "" if adjacency is Adjacency.NEIGHBOURS else f" ({adjacency})"
    return f"Neighbours{name}: {MEANING[adjacency]}."


def line(guarantee: Guarantee, bracket: Bracket) -> str:
    """A bracket in one line; without its lower end if no lower side is known."""
    words = str(bracket)
    return words if guarantee.lower_routes else words.partition(" <= ")[2]


def short(guarantee: Guarantee, bracket: Bracket) -> str:
    """A bracket without the mechanism, which the report has named already."""
    words = line(guarantee, bracket).partition(" |")[0]
    if bracket.lower == math.inf and guarantee.lower_routes:
        return words.partition(" <= ")[2].replace("<= inf", "is infinite")
    return words


def _attacks(found: Findings) -> list[str]:
    """What the trade-off curve means for an attacker, in words."""
    guarantee = found.guarantee
    secret, share = SECRET[guarantee.adjacency]
    lines = [
        "The attacker knows everything but one secret, sees all that was released, and wants to "
        f"know {secret}.",
    ]
    for rate, tpr in found.rates:
        most = _percent(float(tpr), ROUND_CEILING)
        least = _percent(float(tpr.lower), ROUND_FLOOR)
        reached = f", and some attack finds {least}" if guarantee.lower_routes else ""
        alarms = _percent(rate, ROUND_CEILING)
        lines.append(
            f"With {alarms} false alarms no attack finds more than {most} of {share}{reached}."
        )
    advantage = short(guarantee, found.advantage)
    lines.append(f"{advantage}: the largest true-positive rate minus false-positive rate.")
    return [*lines, _gaussian(found)]


def _gaussian(found: Findings) -> str:
    """The trade-off curve against that of Gaussian noise, in words."""
    mu = float(found.mu)
    line = short(found.guarantee, found.mu)
    if not 0.0 < mu < math.inf:
        return f"{line}."
    return (
        f"{line}: at those false-positive rates no attack does better than against Gaussian noise "
        f"with noise multiplier {_digits(1.0 / mu, ROUND_FLOOR)}."
    )


def _grounds(guarantee: Guarantee) -> list[str]:
    """The theorems, their conditions and sources, and what certified means."""
    from sharpdp import __version__

    lines = [_theorem(one) for one in guarantee.bounds]
    if not guarantee.lower_routes:
        lines.append("No lower side is known: how far the upper ends are from the truth is open.")
    made = (
        f"Computed by sharpdp {__version__}, relative width {guarantee.relative_width:g} or less."
    )
    return [*lines, CERTIFIED, made]


def _theorem(one: Bound) -> str:
    sides = " and ".join(str(side) for side in one.sides)
    return f"{one.name} ({sides} side, {one.rigor}; {one.source}) holds when {one.holds_when}."


def _percent(rate: float, direction: str) -> str:
    """The rate as a percentage, rounded in the given direction.

    >>> _percent(0.00406845, ROUND_CEILING)
    '0.407 %'
    """
    return f"{_digits(Decimal(repr(rate)) * 100, direction)} %"


def _digits(number: float | Decimal, direction: str) -> str:
    """The number in a few digits, rounded in the given direction."""
    exact = number if isinstance(number, Decimal) else Decimal(repr(number))
    return f"{Context(prec=PERCENT_DIGITS, rounding=direction).create_decimal(exact).normalize():f}"
