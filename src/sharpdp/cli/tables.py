"""From answers to views: which lines a table has, which of them decide, and what stands below.

What is said does not depend on color or on the width of a terminal; `details` adds conditions and
sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sharpdp.cli.terminal import note_lines
from sharpdp.cli.views import Axis, Column, Emphasis, Extent, Group, TableLine, View
from sharpdp.display.outward_digits import (
    ROUND_CEILING,
    ROUND_FLOOR,
    few_digits,
    in_digits,
    percent,
)

if TYPE_CHECKING:
    from sharpdp.bounds import Bound
    from sharpdp.bracket import Bracket
    from sharpdp.curves.mixtures import MixtureComparison
    from sharpdp.questions.account import Guarantee
    from sharpdp.questions.compare import Comparison, Row
    from sharpdp.questions.compare_samplers import SamplerComparison, SamplerRow
    from sharpdp.questions.design_collection import CollectionDesign
    from sharpdp.questions.risk import Risk

__all__ = [
    "answers",
    "attacks",
    "bounds_on",
    "catalog",
    "conversions",
    "design",
    "ends",
    "inequalities",
    "schemes",
    "theorem",
]

WIDE = 96
"""Terminals at least so wide have room for sources."""

MEDIUM = 60
"""Narrower terminals show only what a table cannot do without."""


def answers(
    guarantee: Guarantee,
    brackets: Sequence[Bracket],
    *,
    details: bool,
    suggestions: Sequence[str] = (),
) -> View:
    """Brackets, what they rest on, and what would make them smaller."""
    from sharpdp.report import line

    return View(
        title=f"{brackets[0].quantity} of {guarantee.mechanism.label}",
        results=tuple(line(guarantee, bracket) for bracket in brackets),
        notes=(
            *_grounds(guarantee, details=details),
            *(("for a smaller epsilon", sentence) for sentence in suggestions),
        ),
    )


def attacks(
    guarantee: Guarantee,
    rates: Sequence[float],
    rows: Sequence[Bracket],
    advantage: Bracket,
    *,
    details: bool,
) -> View:
    """True-positive rates of the best attack at some false-positive rates."""
    from sharpdp.report import line

    lines = []
    for rate, fnr in zip(rates, rows, strict=True):
        lower, upper = 1.0 - float(fnr.upper), 1.0 - float(fnr.lower)
        cells = (
            percent(rate, ROUND_CEILING),
            percent(lower, ROUND_FLOOR) if guarantee.lower_derivations else "-",
            percent(upper, ROUND_CEILING),
        )
        certain = lower if guarantee.lower_derivations else 0.0
        lines.append(TableLine(cells, Emphasis.HOLDS, Extent(certain, upper)))
    return View(
        title=f"what an attacker can achieve against {guarantee.mechanism.label}",
        results=tuple(line(guarantee, bracket) for bracket in (*rows, advantage)),
        columns=(
            Column("false positives", "right"),
            Column("some attack finds", "right", MEDIUM),
            Column("none finds more than", "right"),
        ),
        groups=(Group("", tuple(lines)),),
        notes=_grounds(guarantee, details=details),
        axis=Axis("bars", "█ some attack finds these   ░ no attack finds more"),
    )


def risks(risk: Risk, *, details: bool) -> View:
    """Risks of an attack, one sentence and one bracket each."""
    guarantee = risk.guarantee
    assumed = tuple(("assumes", f"{name}: {words}") for name, words in risk.assumptions.items())
    return View(
        title=f"what an attacker can do with {guarantee.mechanism.label}",
        results=risk.sentences(),
        columns=(
            Column("risk"),
            Column("some attack", "right", MEDIUM),
            Column("no attack more than", "right"),
        ),
        groups=(
            Group(
                "",
                tuple(
                    TableLine(
                        (
                            name.replace("_", " "),
                            few_digits(float(bracket.lower), ROUND_FLOOR),
                            few_digits(float(bracket), ROUND_CEILING),
                        )
                    )
                    for name, bracket in risk.brackets.items()
                ),
            ),
        ),
        notes=(*(assumed if details else ()), *_grounds(guarantee, details=details)),
    )


def bounds_on(comparison: Comparison, *, details: bool) -> View:
    """Every bound, by rigor, the sharpest ones marked; those that do not hold say why."""
    from sharpdp.bracket import Rigor, Side

    best = [comparison.best(side) for side in Side]
    valued = [row for row in comparison.rows if row.value is not None]
    groups = []
    meanings = {
        Rigor.CERTIFIED: "certified by a published theorem",
        Rigor.UNREVIEWED: "certified by our own proof, which is not peer reviewed",
        Rigor.STATED: "stated by others, and not checked by sharpdp",
        Rigor.MONTE_CARLO: "Monte Carlo: true with the stated confidence",
        Rigor.APPROXIMATE: "approximate: neither an upper nor a lower bound, no answer rests on it",
    }
    for rigor, meaning in meanings.items():
        rows = [row for row in valued if row.rigor is rigor]
        if rows:
            groups.append(Group(meaning, tuple(_bound(row, best) for row in rows)))
    silent = [row for row in comparison.rows if row.value is None]
    if silent:
        groups.append(Group("says nothing here", tuple(_bound(row, best) for row in silent)))
    lower, upper = best
    bracket_words = (
        f"{lower.shown} <= " if lower else "",
        comparison.quantity,
        f" <= {upper.shown}" if upper else "",
    )
    weakest = Rigor.weakest(row.rigor for row in best if row is not None)
    stated = [row.stated_by for row in best if row is not None and row.stated_by]
    conditions = [
        (f"{row.name} ({row.kind})", f"{row.condition} ({row.source})") for row in comparison.rows
    ]
    if not details:
        conditions = [
            *_best_conditions(lower, upper),
            ("conditions of all bounds", "add --details"),
        ]
    return View(
        title=f"{comparison.quantity} at {comparison.given}={comparison.at:g}",
        subject=f"{comparison.mechanism.describe()}, {comparison.neighbors}",
        results=(f"{''.join(bracket_words)}, {weakest.by(stated)}",) if lower or upper else (),
        columns=(
            Column(comparison.quantity, "right"),
            Column("side", shown_from=MEDIUM),
            Column("bound"),
            Column("source", shown_from=WIDE),
        ),
        groups=tuple(groups),
        notes=tuple(conditions),
        axis=Axis(
            "spans",
            "A line is what one bound allows; the shorter, the sharper. Shaded: the truth.",
        ),
        named_by=2,
    )


def schemes(comparison: SamplerComparison, *, details: bool) -> View:
    """One run over every batch scheme, and what accounting the wrong one would claim."""
    smallest = min(
        (row.upper for row in comparison.rows if row.epsilon is not None), default=math.inf
    )
    notes = [("what each scheme does", "add --details")]
    if details:
        notes = [
            (row.name, row.scheme.describe()) for row in comparison.rows if row.scheme is not None
        ]
    notes = [*(("note", note) for note in comparison.notes), *notes]
    return View(
        title=f"epsilon at delta={comparison.delta:g}",
        subject=f"{comparison.describe()}, {comparison.rows[0].adjacency}",
        warnings=_mistaken(comparison),
        columns=(
            Column("batches"),
            Column("epsilon", "right"),
            Column("x Poisson", "right", MEDIUM),
        ),
        groups=(Group("", tuple(_scheme(row, smallest) for row in comparison.rows)),),
        notes=tuple(notes),
        axis=Axis("bars", "█ lost for certain   ░ may be lost"),
    )


def design(design: CollectionDesign) -> View:
    """A data collection: privacy and accuracy by local epsilon."""
    kept = (0, 0, 0, MEDIUM, MEDIUM, WIDE)
    return View(
        title="which local epsilon?",
        subject=design.describe(),
        columns=tuple(
            Column(heading, "right", shown_from)
            for heading, shown_from in zip(design.headings, kept, strict=True)
        ),
        groups=(Group("", tuple(TableLine(cells) for cells in design.cells())),),
        notes=design.notes,
    )


def inequalities(comparison: MixtureComparison) -> View:
    """Every inequality about a mixture, beside the mixture itself."""
    direction = ROUND_FLOOR if comparison.quantity == "fnr" else ROUND_CEILING
    lines, notes = [], []
    for index, row in enumerate(comparison.rows):
        if row.curves:
            values = (in_digits(value, direction) for value in comparison.values(row))
            emphasis = Emphasis.HOLDS if index else Emphasis.BEST
            lines.append(TableLine((row.name, *values, row.source), emphasis))
        else:
            notes.append((row.name, f"does not apply, {row.reason}."))
    if comparison.nothing_lost:
        notes.append(
            ("index", "releasing it changes nothing, the components agree where they meet.")
        )
    side = "lower bounds on" if comparison.quantity == "fnr" else "upper bounds on"
    values_at = tuple(Column(f"{comparison.given}={value:g}", "right") for value in comparison.at)
    return View(
        title=f"{side} {comparison.quantity}, the worse direction",
        subject=comparison.mixture.describe(),
        columns=(Column("inequality"), *values_at, Column("source", shown_from=WIDE)),
        groups=(Group("", tuple(lines)),),
        notes=tuple(notes),
    )


def conversions(title: str, subject: str, rows: Sequence[tuple[str, float, float, str]]) -> View:
    """Every conversion of Renyi divergences, the sharpest marked."""
    smallest = min(value for _, value, _, _ in rows)
    lines = [
        TableLine(
            (in_digits(value, ROUND_CEILING), name, f"{order:.6g}", source),
            Emphasis.BEST if value == smallest else Emphasis.HOLDS,
            Extent(None, value),
        )
        for name, value, order, source in rows
    ]
    return View(
        title=title,
        subject=f"{subject}, upper side only",
        columns=(
            Column("at most", "right"),
            Column("conversion"),
            Column("order", "right"),
            Column("source", shown_from=WIDE),
        ),
        groups=(Group("", tuple(lines)),),
        axis=Axis("spans", "A line is what one conversion allows; the shorter, the sharper."),
    )


def catalog(entries: Sequence[dict[str, Any]]) -> View:
    """All theorems, in a line each."""
    lines = tuple(
        TableLine(
            (
                entry["name"],
                entry["bounds"],
                ", ".join(entry["sides"]),
                entry["rigor"],
                entry["source"],
            ),
            Emphasis.HOLDS if entry["rigor"].startswith("certified") else Emphasis.FAINT,
        )
        for entry in entries
    )
    return View(
        title=f"{len(entries)} theorems",
        columns=(
            Column("bound"),
            Column("bounds", shown_from=MEDIUM),
            Column("sides"),
            Column("rigor", shown_from=WIDE),
            Column("source", shown_from=WIDE, shortened=True),
        ),
        groups=(Group("", lines),),
        notes=(("conditions", "add --details, or name a bound"),),
    )


def theorem(bound: Bound) -> list[str]:
    """One theorem with its conditions and its source, as plain lines."""
    sides = " and ".join(str(side) for side in bound.sides)
    notes = [
        ("neighbors", ", ".join(str(notion) for notion in bound.adjacency)),
        *bound.conditions,
        ("source", bound.grounds),
    ]
    head = f"{bound.name}: {bound.subject}, {sides} side, {bound.rigor_words}"
    return [head, *note_lines(notes)]


def _grounds(guarantee: Guarantee, *, details: bool) -> tuple[tuple[str, str], ...]:
    """The run, its neighboring data sets, and the conditions of the theorems."""
    from sharpdp.report import neighbors
    from sharpdp.report.words import separate

    label, _, meaning = neighbors(guarantee.adjacency, guarantee.group_size).partition(": ")
    notes = [("run", guarantee.mechanism.describe()), (label[0].lower() + label[1:], meaning)]
    if details:
        for bound in guarantee.bounds:
            notes += [("theorem", f"{bound.name} ({bound.grounds})")]
            needs = bound.needs(guarantee.adjacency)
            said = (
                (title, needs if words == bound.holds_when else words)
                for title, words in bound.conditions
            )
            notes += said
        notes += [("you must also ensure", condition) for condition in guarantee.conditions]
        return tuple(notes)
    conditions = (bound.needs(guarantee.adjacency) for bound in guarantee.bounds)
    needed = separate([*conditions, *guarantee.conditions])
    attained = dict.fromkeys(
        bound.attained_when for bound in guarantee.bounds if bound.attained_when
    )
    if needed:
        items = "".join(f"\n- {condition}" for condition in needed)
        notes.append(("you must ensure", needed[0] if len(needed) == 1 else items))
    if attained:
        notes.append(("lower end attained when", "; or ".join(attained)))
    sources = (
        f"{bound.name} ({bound.grounds if bound.stated_by else _source(bound)})"
        for bound in guarantee.bounds
    )
    return (*notes, ("theorems", ", ".join(sources)))


def _source(bound: Bound) -> str:
    return f"our proof; {bound.source}" if bound.proof else bound.source


def _bound(row: Row, best: Sequence[Row | None]) -> TableLine:
    """One bound: what it allows as a line, an estimate as a point, why it says nothing as a remark."""
    from sharpdp.questions.compare import short_source

    cells = (row.shown, row.kind, row.name, short_source(row))
    if row.value is None:
        return TableLine(cells, Emphasis.FAINT, remark=row.reason)
    if not row.rigor.proved:
        return TableLine(cells, Emphasis.FAINT, Extent(row.value, row.value))
    is_lower = str(row.side) == "lower"
    extent = Extent(row.value, None) if is_lower else Extent(None, row.value)
    return TableLine(cells, Emphasis.BEST if row in best else Emphasis.HOLDS, extent)


def _best_conditions(lower: Row | None, upper: Row | None) -> list[tuple[str, str]]:
    """When the best bounds hold."""
    return [
        (title, f"{row.attained_when or row.holds_when} ({row.source})")
        for title, row in (("you must ensure", upper), ("lower end attained when", lower))
        if row is not None
    ]


def _scheme(row: SamplerRow, smallest: float) -> TableLine:
    """One batch scheme: its epsilon as a bar, or why there is none as a remark."""
    if row.epsilon is None:
        return TableLine((row.name, *row.shown), Emphasis.FAINT, remark=row.reason)
    emphasis = Emphasis.BEST if row.upper == smallest else Emphasis.HOLDS
    return TableLine((row.name, *row.shown), emphasis, Extent(row.lower, row.upper))


def _mistaken(comparison: SamplerComparison) -> tuple[str, ...]:
    """The claim of accounting shuffled batches as Poisson batches, if it is wrong."""
    poisson, shuffled = comparison["Poisson"], comparison["shuffled"]
    if poisson.epsilon is None or shuffled.epsilon is None or not shuffled.lower > poisson.upper:
        return ()
    claimed = in_digits(poisson.upper, ROUND_CEILING)
    true = in_digits(shuffled.lower, ROUND_FLOOR)
    return (
        f"Shuffled batches accounted as Poisson: {claimed} is claimed, the truth is at least {true}.",
    )


def ends(lower: float | str | None, upper: float | str | None) -> tuple[str, str]:
    """Both ends of an answer in digits, rounded outwards; a side without a theorem is a dash.

    >>> ends(0.1305123, 0.1486789), ends(None, "inf")
    (('0.130512', '0.148679'), ('-', 'inf'))
    """
    both = ((lower, ROUND_FLOOR), (upper, ROUND_CEILING))
    low, high = ("-" if end is None else in_digits(float(end), side) for end, side in both)
    return low, high
