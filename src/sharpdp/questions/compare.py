"""Every known bound on one mechanism, side by side: `compare(mechanism, delta=...)`.

The bounds that answers rest on and the published formulas, both sides, each with its rigor, its
condition and its source; one that does not hold says why instead of giving a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN
from typing import Any

from sharpdp._validate import half_open_probability, renyi_order, short_repr
from sharpdp.bounds.published import Formula, formulas_for
from sharpdp.bounds.registry import reasons_against
from sharpdp.bracket import STANDARD_WIDTH, Rigor, Side
from sharpdp.display import notebook
from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, in_digits
from sharpdp.display.progress import progress
from sharpdp.display.tabular import NamedRows, Plotted, Tabular
from sharpdp.display.text_table import table_lines, wrapped
from sharpdp.errors import Inapplicable, InvalidArgument, NotCertified, WrongType
from sharpdp.mechanisms import (
    Adjacency,
    ApproximateReports,
    Gaussian,
    Mechanism,
    SampledReports,
    ShuffledReports,
)
from sharpdp.mechanisms.composed import named_neighbors
from sharpdp.numerics.underflow import underflow_is_zero
from sharpdp.questions.account import Guarantee, account
from sharpdp.questions.derivations import Derivation, Derivations

__all__ = ["Comparison", "Row", "compare", "in_rounds"]

PEOPLE = {"bennett", "gaussian", "hoeffding", "laplace", "poisson", "renyi"}
"""Words of names of bounds that are written with a capital letter."""


@dataclass(frozen=True)
class Row:
    """One bound: its value, or the reason why it gives none.

    Args:
        name: Name of the bound, or of several that make one derivation, joined by " + ".
        side: Side on which the value lies.
        rigor: What stands behind the value.
        value: Epsilon, or the Renyi divergence; None if the bound gives none.
        reason: Why there is no value; empty if there is one.
        holds_when: What an upper bound needs; empty for a lower one.
        source: Publications that prove it, or our own proof and what it builds on.
        attained_when: What attains a lower bound; empty for an upper one.
        stated_by: The module outside sharpdp that states it; empty for a bound of ours.
    """

    name: str
    side: Side
    rigor: Rigor
    value: float | None
    reason: str
    holds_when: str
    source: str
    attained_when: str = ""
    stated_by: str = ""

    @property
    def rigor_words(self) -> str:
        """The rigor of the value in a few words; a bound of others names who states it."""
        return self.rigor.by([self.stated_by] if self.stated_by else [])

    @property
    def kind(self) -> str:
        """The side; an estimate is on neither.

        >>> Row("limit", Side.UPPER, Rigor.APPROXIMATE, 1.0, "", "n is large", "dong2022").kind
        'estimate'
        """
        return "estimate" if self.rigor is Rigor.APPROXIMATE else str(self.side)

    @property
    def title(self) -> str:
        """The name for a reader: without underscores and side.

        >>> Row(
        ...     "blanket_bennett_upper", Side.UPPER, Rigor.CERTIFIED, 1.0, "", "", "balle2019"
        ... ).title
        'blanket Bennett'
        """
        words = self.name.replace(f"_{self.side}", "").replace("_tight", "").split("_")
        return " ".join(word.capitalize() if word in PEOPLE else word for word in words)

    @property
    def condition(self) -> str:
        """When the bound holds, what attains it, or what is known of an estimate."""
        if self.rigor is Rigor.APPROXIMATE:
            return self.holds_when
        if self.attained_when:
            return f"attained when {self.attained_when}"
        return "holds always" if self.holds_when == "always" else f"holds when {self.holds_when}"

    @property
    def shown(self) -> str:
        """The value in a few digits, rounded to its side; a dash if there is none."""
        if self.value is None:
            return "-"
        direction = ROUND_FLOOR if self.side is Side.LOWER else ROUND_CEILING
        if not self.rigor.proved:
            direction = ROUND_HALF_EVEN
        return in_digits(self.value, direction)


@dataclass(frozen=True)
class Comparison(NamedRows[Row], Tabular, Plotted):
    """All bounds on one quantity of one mechanism, the smallest first, those without a value last.

    Args:
        mechanism: Mechanism that is bounded.
        adjacency: Which data sets are neighbors.
        quantity: "epsilon" or "renyi".
        given: What it is asked at: "delta" or "order".
        at: Value of that delta or order.
        rows: The bounds.
        group_size: In how many records neighbors differ at most.
        declined: Names of theorems on this kind of mechanism that say nothing about this one, and why.
    """

    mechanism: Mechanism
    adjacency: Adjacency
    quantity: str
    given: str
    at: float
    rows: tuple[Row, ...] = field(repr=False)
    group_size: int = 1
    declined: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    _row_word = "bound"

    @property
    def neighbors(self) -> str:
        """Which data sets are neighbors, in words."""
        return named_neighbors(self.adjacency, self.group_size)

    def __getitem__(self, name: str) -> Row:
        """The bound of that name."""
        if not isinstance(name, str):
            raise WrongType(f"the name of a bound must be text; got {short_repr(name)}.")
        return super().__getitem__(name)

    def best(self, side: Side) -> Row | None:
        """The sharpest proved bound on one side; None if there is none.

        Args:
            side: `Side.LOWER` for the largest lower bound, `Side.UPPER` for the smallest upper one.

        Returns:
            The row of that bound, or None. Estimates do not count.

        >>> table = compare(Gaussian(noise_multiplier=1.0), delta=1e-5)
        >>> table.best(Side.UPPER).name
        'gaussian_tight'
        """
        rows = [
            row
            for row in self.rows
            if row.side is side and row.rigor.proved and row.value is not None
        ]
        if not rows:
            return None
        return rows[-1] if side is Side.LOWER else rows[0]

    def __repr__(self) -> str:
        """The question of the comparison, in one short line."""
        about = f"{self.quantity} at {self.given}={self.at:g} by {len(self.rows)} bounds"
        return notebook.shortened(f"<Comparison: {about} | {self.mechanism.describe()}>")

    def __str__(self) -> str:
        """A table, then the conditions, and why other theorems say nothing here."""
        head = f"{self.quantity} at {self.given}={self.at:g} | {self.mechanism.describe()}"
        headings = (self.quantity, "side", "rigor", "bound", "source")
        table = [headings, *((row.shown, *_words(row)) for row in self.rows)]
        lines = [f"{head}, {self.neighbors}", *table_lines(table, right={0})]
        silent = ["not here:", *self._objections()] if self.declined else []
        return "\n".join([*lines, "conditions:", *self._conditions(), *silent])

    def _repr_html_(self) -> str:
        """The table as a notebook shows it."""
        rows = [(row.shown, *_words(row)) for row in self.rows]
        title = f"{self.quantity} at {self.given}={self.at:g}: {self.mechanism.describe()}"
        return notebook.table(
            (self.quantity, "side", "rigor", "bound", "source"), rows, title=title
        )

    def records(self, **asked: Any) -> list[dict[str, Any]]:
        """The bounds as dictionaries, the smallest first; nothing more is asked.

        Each has its value, side, rigor, name, source, condition, and why it has no value.
        """
        return [
            {
                self.quantity: row.value,
                "side": row.kind,
                "rigor": row.rigor_words,
                "bound": row.name,
                "source": row.source,
                "condition": row.condition,
                "reason": row.reason,
            }
            for row in self.rows
        ]

    def plot(self, ax: Any = None, *, title: str | None = "auto") -> Any:
        """Draw every bound as a point on one axis (needs the extra `plots`)."""
        from sharpdp import plots

        return plots.theorems(self, ax=ax, title=title)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data for JSON.

        Returns:
            A dictionary; an infinite value is "inf".
        """
        from sharpdp import __version__

        return {
            "quantity": self.quantity,
            self.given: self.at,
            "mechanism": self.mechanism.describe(),
            "adjacency": self.neighbors,
            "bounds": [_plain(row) for row in self.rows],
            "declined": dict(self.declined),
            "version": __version__,
        }

    def _conditions(self) -> list[str]:
        """One condition each, and why it does not hold here if it does not."""
        lines = []
        for row in self.rows:
            failing = f" Not here: {row.reason}." if row.value is None else ""
            text = f"{row.name} ({row.kind}): {row.condition} ({row.source}).{failing}"
            lines += wrapped(text)
        return lines

    def _objections(self) -> list[str]:
        """Theorems that say nothing here, those with one reason together."""
        names: dict[str, list[str]] = {}
        for name, reason in self.declined:
            names.setdefault(reason, []).append(name)
        return [
            line for why, each in names.items() for line in wrapped(f"{', '.join(each)}: {why}.")
        ]


@underflow_is_zero
def compare(
    mechanism: Mechanism,
    *,
    delta: float | None = None,
    order: float | None = None,
    relative_width: float = STANDARD_WIDTH,
    adjacency: Adjacency | str | None = None,
    group_size: int = 1,
) -> Comparison:
    """Every bound on epsilon at this delta, or on the Renyi divergence of this order.

    The bounds that `account` uses are listed with published formulas, which it does not use. A
    value is on its side if its rigor is `proved`; an approximate one is an estimate.

    Args:
        mechanism: Mechanism to bound.
        delta: Delta at which epsilon is bounded, in [0, 1). Either this or order must be given.
        order: Order of the Renyi divergence, greater than 1.
        relative_width: How far a numerically composed bound may be from its exact value, relative to it,
            from 1e-9 to 0.5.
        adjacency: Which data sets are neighbors; None for the default of the mechanism.
        group_size: In how many records neighbors differ at most. Published formulas are about single
            records, and left out for groups.

    Returns:
        The bounds, the smallest value first. One that gives no number here has a row with the reason;
        `declined` says why theorems say nothing.

    Raises:
        InvalidArgument: Both delta and order are given or neither is, or an argument is out of range.
        WrongType: mechanism is no mechanism, or an argument has the wrong type.
        Unsupported: No theorem covers the mechanism, or not under this adjacency.

    >>> [str(row.side) for row in compare(Gaussian(noise_multiplier=1.0), delta=1e-5).rows]
    ['lower', 'upper', 'upper', 'upper', 'upper']
    """
    if (delta is None) == (order is None):
        got = "neither" if delta is None else "both"
        raise InvalidArgument(f"exactly one of delta and order must be given; got {got}.")
    guarantee = account(
        mechanism, relative_width=relative_width, adjacency=adjacency, group_size=group_size
    )
    if delta is not None:
        quantity, given, at = "epsilon", "delta", half_open_probability(delta=delta)
    else:
        quantity, given, at = "renyi", "order", renyi_order(order=order)
    sides = [(derivation, Side.LOWER) for derivation in guarantee.lower_derivations]
    sides += [(derivation, Side.UPPER) for derivation in guarantee.upper_derivations]
    whole = in_rounds(mechanism)
    formulas = formulas_for(whole, quantity) if guarantee.group_size == 1 else ()
    rows = []
    with progress("comparing bounds", len(sides) + len(formulas)) as task:
        for derivation, side in sides:
            rows.append(_from_derivation(guarantee, derivation, side, given, at))
            task.advance()
        for formula in formulas:
            rows.append(_from_formula(formula, whole, at, guarantee.adjacency))
            task.advance()
    return Comparison(
        mechanism,
        guarantee.adjacency,
        quantity,
        given,
        at,
        tuple(sorted(rows, key=_rank)),
        guarantee.group_size,
        tuple(_declined(guarantee).items()),
    )


def _declined(guarantee: Guarantee) -> dict[str, str]:
    """Why theorems on such parts say nothing about these, by their names."""
    found: dict[str, str] = {}
    for part, _ in guarantee.parts():
        found |= reasons_against(part, guarantee.adjacency)
    for side in (guarantee.lower_derivations, guarantee.upper_derivations):
        if isinstance(side, Derivations):
            found |= side.declined
    return found


def _from_derivation(
    guarantee: Guarantee, derivation: Derivation, side: Side, given: str, at: float
) -> Row:
    """The row of one derivation alone."""
    alone, bounds = guarantee.only(derivation), derivation.bounds
    is_lower = side is Side.LOWER

    def value() -> float:
        bracket = alone.epsilon(delta=at) if given == "delta" else alone.renyi(order=at)
        return float(bracket.lower if is_lower else bracket.upper)

    number, reason = _attempted(value)
    return Row(
        " + ".join(bound.name for bound in bounds),
        side,
        derivation.rigor,
        number,
        reason,
        "" if is_lower else "; ".join(bound.needs(guarantee.adjacency) for bound in bounds),
        "; ".join(bound.grounds for bound in bounds),
        "; ".join(bound.attained_when for bound in bounds) if is_lower else "",
        ", ".join(dict.fromkeys(bound.stated_by for bound in bounds if bound.stated_by)),
    )


def _from_formula(formula: Formula, mechanism: Mechanism, at: float, adjacency: Adjacency) -> Row:
    """The row of one published formula; a formula for epsilon divides by delta or takes its logarithm."""
    if at == 0.0:
        number, reason = None, "delta is 0, and the formula needs one above 0"
    else:
        number, reason = _attempted(lambda: formula(mechanism, at, adjacency))
    return Row(
        formula.name,
        formula.side,
        formula.rigor,
        number,
        reason,
        formula.holds_when,
        formula.source,
        stated_by=formula.stated_by,
    )


def _attempted(value: Callable[[], float]) -> tuple[float | None, str]:
    """The value and no reason, or no value and the reason."""
    try:
        return value(), ""
    except (Inapplicable, NotCertified) as why:
        return None, str(why).rstrip(".")


def in_rounds(mechanism: Mechanism) -> Mechanism:
    """Repeated rounds of one kind as one mechanism that counts its rounds, as formulas take it."""
    parts = mechanism.parts()
    if len(parts) > 1:
        return mechanism
    part, rounds = parts[0]
    if isinstance(part, ApproximateReports | ShuffledReports):
        return replace(part, rounds=rounds)
    if isinstance(part, Gaussian):
        return Gaussian(part.noise_multiplier / math.sqrt(rounds))
    if isinstance(part, SampledReports):
        return replace(part, reports=replace(part.reports, rounds=rounds))
    return mechanism


def _rank(row: Row) -> tuple[float, bool, str]:
    """Smallest first, a lower bound before an upper one, those without a value last."""
    value = math.inf if row.value is None else row.value
    return value, row.value is None or row.side is Side.UPPER, row.name


def _words(row: Row) -> tuple[str, ...]:
    rigor = "our proof" if row.rigor is Rigor.UNREVIEWED else row.rigor_words
    return row.kind, rigor, row.name, short_source(row)


def short_source(row: Row) -> str:
    """The first publication that a row names, that the proof is ours, or who states it."""
    if row.stated_by:
        return row.stated_by
    return "ours" if row.rigor is Rigor.UNREVIEWED else row.source.split()[0].rstrip(",;")


def _plain(row: Row) -> dict[str, Any]:
    value = row.value
    return {
        "name": row.name,
        "side": None if row.rigor is Rigor.APPROXIMATE else str(row.side),
        "rigor": row.rigor_words,
        "value": str(value) if value is not None and math.isinf(value) else value,
        "reason": row.reason or None,
        "holds_when": row.holds_when or None,
        "attained_when": row.attained_when or None,
        "source": row.source,
    }
