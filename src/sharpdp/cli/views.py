"""An answer as a table that a terminal can show: what stands in it, not how it looks.

Commands make views from answers; `terminal` draws them. Nothing here needs a terminal or a package.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

__all__ = ["Axis", "Column", "Extent", "Group", "Line", "Reply", "Emphasis", "View"]


class Emphasis(Enum):
    """How much a line matters: what decides, what holds as well, what nothing rests on."""

    BEST = "best"
    HOLDS = "holds"
    FAINT = "faint"


@dataclass(frozen=True)
class Extent:
    """Where a line stands on the axis: from lower to upper; None is the end of the axis."""

    lower: float | None
    upper: float | None


@dataclass(frozen=True)
class Axis:
    """The axis of a table with extents: spans show what is allowed, bars how much is lost."""

    kind: str
    legend: str


@dataclass(frozen=True)
class Column:
    """One column: its heading, its side of the cell, and from which width of the terminal it is shown."""

    heading: str
    justify: str = "left"
    shown_from: int = 0
    shortened: bool = False


@dataclass(frozen=True)
class Line:
    """One line of the table; a remark stands where one without an extent has nothing to draw."""

    cells: tuple[str, ...]
    emphasis: Emphasis = Emphasis.HOLDS
    extent: Extent | None = None
    remark: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under one heading."""

    heading: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class View:
    """A table with its title, its findings and warnings in a line each, and notes below it.

    `named_by` is the column that names a line.
    """

    title: str
    subject: str = ""
    findings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    groups: tuple[Group, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    axis: Axis | None = None
    named_by: int = 0


@dataclass(frozen=True)
class Reply:
    """What a command answers: lines for a reader, data for a program, and a table for a terminal.

    The exit code is not 0 if the answer is no.
    """

    lines: list[str]
    data: dict[str, Any]
    view: View | None = None
    code: int = 0

    def drawn(self, output: str) -> Reply:
        """The same, with the picture that was saved."""
        view = self.view
        if view is not None:
            view = replace(view, notes=(*view.notes, ("drawn", output)))
        return Reply([*self.lines, f"drawn: {output}"], {**self.data, "drawn": output}, view)
