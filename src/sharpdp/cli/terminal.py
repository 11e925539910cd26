"""Views on a terminal, in color and as wide as it is. Needs rich; without it text stays plain."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

from sharpdp.cli.scales import Scale
from sharpdp.cli.views import Column, Emphasis, View

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["drawable", "rendered", "show"]

GAP = 2
"""Blanks between columns, and before the first one, where a mark stands."""

LEAST_AXIS, MOST_AXIS = 16, 44
"""Cells of the axis: with fewer there is nothing to see, more show no more."""

LEAST_CELL = 8
"""A column that must give way keeps so many cells."""

LEAST_WIDTH = 24
"""Narrower terminals are written on as if they had so many cells."""

STYLES = {Emphasis.BEST: "bold", Emphasis.HOLDS: "", Emphasis.FAINT: "dim"}


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
    console.width = max(console.width, LEAST_WIDTH)
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
    said = [(one, "bold green") for one in view.findings]
    said += [(one, "bold yellow") for one in view.warnings]
    if said:
        console.print()
    for sentence, style in said:
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

    kept = [place for place, one in enumerate(view.columns) if one.shown_from <= console.width]
    columns = [view.columns[place] for place in kept]
    lines = [line for group in view.groups for line in group.lines]
    natural = [
        max(len(view.columns[place].heading), *(len(line.cells[place]) for line in lines))
        for place in kept
    ]
    widths, cells = _fitted(columns, natural, console.width - GAP, drawn=view.axis is not None)
    scale = Scale.of(view, cells) if cells else None
    grid = _grid(columns, widths)
    heading = [Text(scale.heading())] if scale else []
    grid.add_row("", *(Text(one.heading) for one in columns), *heading, style="dim")
    for group in view.groups:
        if group.heading:
            console.print(grid)
            console.print(Text(group.heading, "italic"))
            grid = _grid(columns, widths)
        for line in group.lines:
            mark = Text("▸", "bold green") if line.emphasis is Emphasis.BEST else ""
            texts = (Text(line.cells[place], STYLES[line.emphasis]) for place in kept)
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
    for one, width in zip(columns, widths, strict=True):
        overflow: Any = "ellipsis" if one.shortened else "fold"
        justify: Any = one.justify
        grid.add_column(justify=justify, width=width, overflow=overflow, no_wrap=one.shortened)
    return grid


def _fitted(
    columns: list[Column], natural: list[int], room: int, *, drawn: bool
) -> tuple[list[int], int]:
    """Widths of the columns, and the cells left for an axis: 0 if there is none, or no room for one."""
    widths = [
        min(wide, LEAST_CELL) if one.shortened else wide
        for one, wide in zip(columns, natural, strict=True)
    ]
    free = room - sum(widths) - GAP * len(widths)
    while free < 0 and max(widths) > LEAST_CELL:  # the widest column gives way
        widths[widths.index(max(widths))] -= 1
        free += 1
    cells = 0
    if drawn and free >= LEAST_AXIS + GAP:
        cells = min(free - GAP, MOST_AXIS)
        free -= cells + GAP
    for place, one in enumerate(columns):
        if one.shortened and free > 0:
            grown = min(natural[place] - widths[place], free)
            widths[place] += grown
            free -= grown
    return widths, cells
