"""From answers to views: which lines a table has, which of them decide, and what stands below."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sharpdp.cli.safe_digits import down, up
from sharpdp.cli.views import Axis, Column, Emphasis, Extent, Group, Line, View

if TYPE_CHECKING:
    from sharpdp.accounting import Guarantee
    from sharpdp.bracket import Bracket
    from sharpdp.comparison import Comparison, Row
    from sharpdp.mixtures import MixtureComparison
    from sharpdp.sampler_comparison import SamplerComparison, SamplerRow

__all__ = [
    "answers",
    "attacks",
    "bounds_on",
    "catalog",
    "conversions",
    "grounds",
    "inequalities",
    "schemes",
    "wrapped",
]

LINE = 100
"""Characters of a line of explanations; brackets are never broken."""

WIDE, WIDER = 96, 130
"""Terminals at least so wide have room for sources, and for conditions beside them."""

MEDIUM = 60
"""Narrower terminals show only what a table cannot do without."""

CLAIM_DIGITS = 4
"""Digits of what is claimed and of what is true."""

SPANS = Axis(
    "spans", "A line is what one bound allows; the shorter, the sharper. Shaded: the truth."
)
TOPS = Axis("spans", "A line is what one conversion allows; the shorter, the sharper.")
BARS = Axis("bars", "█ lost for certain   ░ may be lost")
FOUND = Axis("bars", "█ some attack finds so many   ░ no attack finds more")

MEANINGS = {
    "CERTIFIED": "certified by a published theorem",
    "UNREVIEWED": "certified by our own proof, which is not peer reviewed",
    "MONTE_CARLO": "Monte Carlo: true with the stated confidence",
    "APPROXIMATE": "approximate: an estimate on neither side, no answer rests on it",
    "CONJECTURED": "conjectured: true if an open conjecture is, no answer rests on it",
}
"""What stands above the bounds of each degree of rigor."""


def answers(guarantee: Guarantee, shown: Sequence[Bracket]) -> View:
    """Brackets, and what they rest on."""
    return View(
        title=f"{shown[0].quantity} of {_run(guarantee)}",
        findings=tuple(_bracket(guarantee, one) for one in shown),
        notes=_notes(guarantee),
    )


def attacks(
    guarantee: Guarantee, rates: Sequence[float], rows: Sequence[Bracket], advantage: Bracket
) -> View:
    """What the best attack finds at some rates of false alarms."""
    from sharpdp.report.outward_digits import ROUND_CEILING, ROUND_FLOOR, percent

    lines = []
    for rate, fnr in zip(rates, rows, strict=True):
        least, most = 1.0 - float(fnr.upper), 1.0 - float(fnr.lower)
        cells = (
            percent(rate, ROUND_CEILING),
            percent(least, ROUND_FLOOR) if guarantee.lower_derivations else "-",
            percent(most, ROUND_CEILING),
        )
        known = least if guarantee.lower_derivations else 0.0
        lines.append(Line(cells, Emphasis.HOLDS, Extent(known, most)))
    return View(
        title=f"what an attacker can achieve against {_run(guarantee)}",
        findings=(_bracket(guarantee, advantage),),
        columns=(
            Column("false alarms", "right"),
            Column("some attack finds", "right", MEDIUM),
            Column("none finds more than", "right"),
        ),
        groups=(Group("", tuple(lines)),),
        notes=_notes(guarantee),
        axis=FOUND,
    )


def bounds_on(found: Comparison) -> View:
    """Every bound, by rigor, the sharpest ones marked; those that do not hold say why."""
    from sharpdp.bracket import Rigor, Side

    best = [found.best(side) for side in Side]
    known = [row for row in found.rows if row.value is not None]
    groups = []
    for name, meaning in MEANINGS.items():
        rows = [row for row in known if row.rigor.name == name]
        if rows:
            groups.append(Group(meaning, tuple(_bound(row, best) for row in rows)))
    silent = [row for row in found.rows if row.value is None]
    if silent:
        groups.append(Group("says nothing here", tuple(_bound(row, best) for row in silent)))
    lower, upper = best
    ends = (
        f"{lower.shown} ≤ " if lower else "",
        found.quantity,
        f" ≤ {upper.shown}" if upper else "",
    )
    rigor = Rigor.weakest(row.rigor for row in best if row is not None)
    return View(
        title=f"{found.quantity} at {found.given}={found.at:g}",
        subject=f"{found.mechanism.describe()}, {found.adjacency}",
        findings=(f"{''.join(ends)}, {rigor}",) if lower or upper else (),
        columns=(
            Column(found.quantity, "right"),
            Column("side", shown_from=MEDIUM),
            Column("bound"),
            Column("source", shown_from=WIDE),
            Column("holds when", shown_from=WIDER, shortened=True),
        ),
        groups=tuple(groups),
        notes=(*_conditions(lower, upper), ("all conditions", "add --plain")),
        axis=SPANS,
        named_by=2,
    )


def schemes(found: SamplerComparison) -> View:
    """One run over every batch scheme, and what accounting the wrong one would claim."""
    smallest = min((row.upper for row in found.rows if row.epsilon is not None), default=math.inf)
    return View(
        title=f"epsilon at delta={found.delta:g}",
        subject=f"{found.describe()}, {found.rows[0].adjacency}",
        warnings=_mistaken(found),
        columns=(
            Column("batches"),
            Column("epsilon", "right"),
            Column("x Poisson", "right", MEDIUM),
        ),
        groups=(Group("", tuple(_scheme(row, smallest) for row in found.rows)),),
        notes=(("what each scheme does", "add --plain"),),
        axis=BARS,
    )


def inequalities(found: MixtureComparison) -> View:
    """What each inequality says about a mixture, beside the mixture itself."""
    rounded = down if found.quantity == "fnr" else up
    lines, silent = [], []
    for place, row in enumerate(found.rows):
        cells = (row.name, *(rounded(value) for value in found.values(row)), row.source)
        if row.curves:
            lines.append(Line(cells, Emphasis.HOLDS if place else Emphasis.BEST))
        else:
            silent.append((row.name, f"does not apply, {row.reason}."))
    side = "at least" if found.quantity == "fnr" else "at most"
    places = tuple(Column(f"{found.given}={place:g}", "right") for place in found.at)
    return View(
        title=f"{found.quantity} {side}, the worse direction",
        subject=found.mixture.describe(),
        columns=(Column("inequality"), *places, Column("source", shown_from=WIDE)),
        groups=(Group("", tuple(lines)),),
        notes=tuple(silent),
    )


def conversions(
    title: str, subject: str, rows: Sequence[tuple[str, ...]], values: Sequence[float]
) -> View:
    """What each conversion of Renyi divergences gives, the sharpest marked."""
    least = min(values)
    lines = [
        Line(cells, Emphasis.BEST if value == least else Emphasis.HOLDS, Extent(None, value))
        for cells, value in zip(rows, values, strict=True)
    ]
    return View(
        title=title,
        subject=subject,
        columns=(
            Column("at most", "right"),
            Column("conversion"),
            Column("order", "right"),
            Column("source", shown_from=WIDE),
        ),
        groups=(Group("", tuple(lines)),),
        axis=TOPS,
    )


def catalog(entries: Sequence[dict[str, Any]]) -> View:
    """All theorems, in a line each."""
    lines = tuple(
        Line(
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
        notes=(("conditions", "add --plain, or name a bound"),),
    )


def grounds(guarantee: Guarantee) -> list[str]:
    """What a bracket rests on, as plain lines."""
    from sharpdp.report import neighbors

    lines = wrapped("run: ", guarantee.mechanism.describe())
    sentence = neighbors(guarantee.adjacency)
    lines += wrapped("", sentence[0].lower() + sentence[1:])
    for title, words in _theorems(guarantee):
        lines += wrapped(f"{title}: ", words)
    return lines


def wrapped(title: str, text: str) -> list[str]:
    """An explanation in lines, set in."""
    return textwrap.wrap(
        title + text,
        LINE,
        initial_indent="  ",
        subsequent_indent="    ",
        break_on_hyphens=False,
    )


def _run(guarantee: Guarantee) -> str:
    return guarantee.mechanism.label


def _bracket(guarantee: Guarantee, bracket: Bracket) -> str:
    """A bracket and its rigor, without the mechanism, which the title has named."""
    from sharpdp.report import line

    words = line(guarantee, bracket).partition(" |")[0].replace("<=", "≤")
    return f"{words}, {bracket.rigor}"


def _notes(guarantee: Guarantee) -> tuple[tuple[str, str], ...]:
    """What was run, which data sets are compared, and when the theorems hold."""
    from sharpdp.report import neighbors

    label, _, meaning = neighbors(guarantee.adjacency).partition(": ")
    entries = [("run", guarantee.mechanism.describe()), (label[0].lower() + label[1:], meaning)]
    return (*entries, *_theorems(guarantee))


def _theorems(guarantee: Guarantee) -> list[tuple[str, str]]:
    """Each theorem with who proved it, then when it holds and what attains it."""
    lines = []
    for one in guarantee.bounds:
        lines += [("theorem", f"{one.name} ({one.grounds})"), *one.conditions]
    return lines


def _bound(row: Row, best: Sequence[Row | None]) -> Line:
    """One bound: what it allows as a line, an estimate as a point, why it says nothing as a remark."""
    from sharpdp.comparison import short_source

    cells = (row.shown, row.kind, row.name, short_source(row), row.attained_when or row.holds_when)
    if row.value is None:
        return Line(cells, Emphasis.FAINT, remark=row.reason)
    if not row.rigor.proved:
        return Line(cells, Emphasis.FAINT, Extent(row.value, row.value))
    is_lower = str(row.side) == "lower"
    extent = Extent(row.value, None) if is_lower else Extent(None, row.value)
    return Line(cells, Emphasis.BEST if row in best else Emphasis.HOLDS, extent)


def _conditions(lower: Row | None, upper: Row | None) -> list[tuple[str, str]]:
    """When the best bounds hold, said once if it is the same on both sides."""
    said = {
        side: f"{row.attained_when or row.holds_when} ({row.source})"
        for side, row in (("lower end attained", lower), ("upper end holds", upper))
        if row is not None
    }
    return [(f"{side} when", text) for side, text in said.items()]


def _scheme(row: SamplerRow, smallest: float) -> Line:
    if row.epsilon is None:
        return Line((row.name, *row.shown), Emphasis.FAINT, remark=row.reason)
    emphasis = Emphasis.BEST if row.upper == smallest else Emphasis.HOLDS
    return Line((row.name, *row.shown), emphasis, Extent(row.lower, row.upper))


def _mistaken(found: SamplerComparison) -> tuple[str, ...]:
    """What accounting shuffled batches as Poisson batches claims, if it is wrong."""
    said, true = found["Poisson"], found["shuffled"]
    if said.epsilon is None or true.epsilon is None or not true.lower > said.upper:
        return ()
    return (
        f"Shuffled batches accounted as Poisson: {up(said.upper, CLAIM_DIGITS)} is claimed, "
        f"the truth is at least {down(true.lower, CLAIM_DIGITS)}.",
    )
