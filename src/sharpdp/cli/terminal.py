"""Views as text: plain, or in color and as wide as the terminal, which needs rich.

Both say the same; only the drawing of spans is left out of plain text.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sharpdp.cli.views import Column, Emphasis, Extent, TableLine, View
from sharpdp.display.text_table import table_lines, wrapped

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Scale", "drawable", "note_lines", "plain", "rendered", "show"]

GAP = 2
"""Blanks between columns, and before the first one, where a mark stands."""

Piece = tuple[str, str]
"""Some characters, and the style that they have."""

EIGHTHS = " ▏▎▍▌▋▊▉"
"""Blocks by their width in eighths of a cell."""


def plain(view: View, head: Sequence[str] | None = None) -> list[str]:
    """The view as plain lines: title and results or another head, the table, what stands below it."""
    if head is None:
        title = f"{view.title} | {view.subject}" if view.subject else view.title
        head = [title, *(f"  {sentence}" for sentence in (*view.results, *view.warnings))]
    lines = [line for group in view.groups for line in group.lines]
    remarks = [(line.cells[view.named_by], line.remark) for line in lines if line.remark]
    return [*head, *_plain_table(view), *note_lines((*remarks, *view.notes))]


def _plain_table(view: View) -> list[str]:
    """The table in columns, with bars but without spans."""
    if not view.groups:
        return []
    scale = Scale.of(view, 24) if view.axis and view.axis.kind == "bars" else None
    rows = [[*(column.heading for column in view.columns), ""]]
    for group in view.groups:
        rows += [[*line.cells, _ascii_bar(scale, line)] for line in group.lines]
    right = [index for index, column in enumerate(view.columns) if column.justify == "right"]
    heading, *texts = table_lines(rows, right=right)
    remaining = iter(texts)
    lines = [heading]
    for group in view.groups:
        lines += [group.heading] if group.heading else []
        lines += [next(remaining) for _ in group.lines]
    return lines


def note_lines(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Explanations as plain lines, set in; further lines of a text are items of a list."""
    lines = []
    for label, text in notes:
        first, *items = text.split("\n")
        lines += wrapped(f"{label}: {first}".rstrip())
        lines += [f"  {line}" for item in items for line in wrapped(item)]
    return lines


def _ascii_bar(scale: Scale | None, line: TableLine) -> str:
    """A bar in characters that every stream has."""
    if scale is None:
        return ""
    text = "".join(piece for piece, _ in scale.drawn(line))
    return text.translate(
        {ord("█"): "#", ord("░"): "-", **{ord(block): "#" for block in EIGHTHS[1:]}}
    )


def drawable() -> bool:
    """Whether standard output is a terminal that can show more than plain text, and rich is there."""
    stream = sys.stdout
    if stream is None or not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    if not (stream.encoding or "").lower().startswith("utf"):
        return False
    try:
        importlib.import_module("rich.console")
    except ImportError:
        return False
    return True


def rendered(view: View) -> str:
    """The view as text for the terminal that standard output is."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, 24)  # narrower terminals are written on as if so wide
    with console.capture() as caught:
        show(console, view)
    return "\n".join(line.rstrip() for line in caught.get().rstrip("\n").split("\n"))


def show(console: Console, view: View) -> None:
    """Print the view on a console of rich."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(view.title, "bold"))
    if view.subject:
        console.print(Text(view.subject))
    sentences = [(result, "bold green") for result in view.results]
    sentences += [(warning, "bold yellow") for warning in view.warnings]
    if sentences:
        console.print()
    for sentence, style in sentences:
        console.print(Padding(Text(sentence, style), (0, 0, 0, GAP)))
    if view.groups:
        console.print()
        _print_table(console, view)
    if view.notes:
        console.print()
    for label, text in view.notes:
        console.print(Text.assemble((f"{label}: ", "bold"), text))


def _print_table(console: Console, view: View) -> None:
    from rich.text import Text

    shown = [
        index for index, column in enumerate(view.columns) if column.shown_from <= console.width
    ]
    columns = [view.columns[index] for index in shown]
    lines = [line for group in view.groups for line in group.lines]
    natural = [
        max(len(view.columns[index].heading), *(len(line.cells[index]) for line in lines))
        for index in shown
    ]
    widths, cells = _fitted(columns, natural, console.width - GAP, drawn=view.axis is not None)
    scale = Scale.of(view, cells) if cells else None
    grid = _grid(columns, widths)
    heading = [Text(scale.heading())] if scale else []
    grid.add_row("", *(Text(column.heading) for column in columns), *heading, style="dim")
    styles = {Emphasis.BEST: "bold", Emphasis.HOLDS: "", Emphasis.FAINT: "dim"}
    for group in view.groups:
        if group.heading:
            console.print(grid)
            console.print(Text(group.heading, "italic"))
            grid = _grid(columns, widths)
        for line in group.lines:
            mark = Text("▸", "bold green") if line.emphasis is Emphasis.BEST else ""
            texts = (Text(line.cells[index], styles[line.emphasis]) for index in shown)
            pieces = scale.drawn(line) if scale else []
            drawn = [Text.assemble(*pieces, (line.remark, "dim"))] if scale else []
            grid.add_row(mark, *texts, *drawn)
    console.print(grid)
    if scale and view.axis:
        console.print(Text(f"  {view.axis.legend}", "dim italic"))
    for line in lines:
        if line.remark and not scale:
            console.print(Text(f"{line.cells[view.named_by]}: {line.remark}", "dim"))


def _grid(columns: list[Column], widths: list[int]) -> Any:
    """An empty table with columns of these widths; the axis takes what it needs."""
    from rich.table import Table

    grid = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
    grid.add_column(width=GAP - 1)
    for column, width in zip(columns, widths, strict=True):
        overflow: Any = "ellipsis" if column.shortened else "fold"
        justify: Any = column.justify
        grid.add_column(justify=justify, width=width, overflow=overflow, no_wrap=column.shortened)
    return grid


def _fitted(
    columns: list[Column], natural: list[int], room: int, *, drawn: bool
) -> tuple[list[int], int]:
    """Widths of the columns, and the cells left for an axis: 0 if there is none, or no room for one."""
    narrowest = 8  # cells that a column which must give way keeps
    widths = [
        min(wide, narrowest) if column.shortened else wide
        for column, wide in zip(columns, natural, strict=True)
    ]
    free = room - sum(widths) - GAP * len(widths)
    while free < 0 and max(widths) > narrowest:  # the widest column gives way
        widths[widths.index(max(widths))] -= 1
        free += 1
    cells = 0
    if drawn and free >= 16 + GAP:  # on a shorter axis there is nothing to see
        cells = min(free - GAP, 44)  # a longer one shows no more
        free -= cells + GAP
    for index, column in enumerate(columns):
        if column.shortened and free > 0:
            grown = min(natural[index] - widths[index], free)
            widths[index] += grown
            free -= grown
    return widths, cells


@dataclass(frozen=True)
class Scale:
    """An axis of some cells, from lower to upper, and the two points between which the truth is known."""

    kind: str
    cells: int
    lower: float
    upper: float
    logarithmic: bool
    band: tuple[int, int] | None = None

    @staticmethod
    def of(view: View, cells: int) -> Scale | None:
        """The axis that holds all extents of a view; None if there is nothing to show."""
        lines = [line for group in view.groups for line in group.lines]
        values = [value for line in lines for value in _finite(line.extent)]
        if view.axis is None or not values:
            return None
        if view.axis.kind == "bars":
            largest = max(values)
            return Scale("bars", cells, 0.0, largest, logarithmic=False) if largest > 0.0 else None
        return _spans(values, [line for line in lines if line.emphasis is Emphasis.BEST], cells)

    def heading(self) -> str:
        """The ends of the axis.

        >>> Scale("bars", 20, 0.0, 2.5, logarithmic=False).heading()
        '0                2.5'
        """
        left, right = f"{self.lower:.2g}", f"{self.upper:.2g}"
        name = " log scale " if self.logarithmic else ""
        room = self.cells - len(left) - len(right)
        return f"{left}{name:^{room}}{right}" if room > len(name) else ""

    def drawn(self, line: TableLine) -> list[Piece]:
        """One line on the axis."""
        if line.extent is None:
            return []
        is_bar = self.kind == "bars"
        text = self._bar(line.extent) if is_bar else self._span(line.extent, line.emphasis)
        styles = {Emphasis.BEST: "bold green", Emphasis.HOLDS: "cyan", Emphasis.FAINT: "dim"}
        style = styles[line.emphasis]
        if self.band is None:
            return [(text, style)]
        first, last = self.band
        inside = f"{style} on gray19"  # where the truth lies
        padded = f"{text:<{last + 1}}"
        return [
            (padded[:first], style),
            (padded[first : last + 1], inside),
            (padded[last + 1 :], style),
        ]

    def place(self, value: float) -> int:
        """The cell in which a value lies; those beyond an end are in the last one."""
        part = self._part(value)
        return min(max(int(part * self.cells), 0), self.cells - 1)

    def _part(self, value: float) -> float:
        """How far along the axis a value is."""
        if value <= self.lower:
            return 0.0
        if value >= self.upper:
            return 1.0
        if self.logarithmic:
            return math.log(value / self.lower) / math.log(self.upper / self.lower)
        return (value - self.lower) / (self.upper - self.lower)

    def _span(self, extent: Extent, emphasis: Emphasis) -> str:
        """The values that a bound allows: up to its own, from its own on, or just one for an estimate."""
        line, left, right = "━┣┫" if emphasis is Emphasis.BEST else "─├┤"
        if extent.lower is None and extent.upper is not None:
            return line * self.place(extent.upper) + right
        if extent.lower is not None and extent.upper is None:
            first = self.place(extent.lower)
            return " " * first + left + line * (self.cells - 1 - first)
        return " " * self.place(extent.lower or 0.0) + "◆"

    def _bar(self, extent: Extent) -> str:
        """Full up to the lower end, light up to the upper one."""
        sure = self._part(extent.lower or 0.0) * self.cells
        full, eighths = divmod(round(sure * len(EIGHTHS)), len(EIGHTHS))
        may = self.cells if extent.upper is None else round(self._part(extent.upper) * self.cells)
        text = "█" * int(full) + (EIGHTHS[int(eighths)] if eighths else "")
        return text + "░" * (may - len(text))


def _spans(values: Sequence[float], best: Iterable[TableLine], cells: int) -> Scale:
    """The axis of spans: from 0, or logarithmic if values are far apart, with the band of the best."""
    low, high = min(values), max(values)
    logarithmic = low > 0.0 and high > 12.0 * low
    margin = 0.03  # what the axis has beyond the values, as a part of its length
    if logarithmic:
        factor = (high / low) ** margin
        low, high = low / factor, high * factor
    else:
        low, high = min(low, 0.0), high * (1.0 + margin) or 1.0
    scale = Scale("spans", cells, low, high, logarithmic)
    extents = [line.extent for line in best if line.extent]
    lower = [extent.lower for extent in extents if extent.lower is not None]
    upper = [extent.upper for extent in extents if extent.upper is not None]
    if not lower or not upper:
        return scale
    return replace(scale, band=(scale.place(max(lower)), scale.place(min(upper))))


def _finite(extent: Extent | None) -> list[float]:
    if extent is None:
        return []
    ends = (extent.lower, extent.upper)
    return [end for end in ends if end is not None and math.isfinite(end)]
