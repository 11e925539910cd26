"""An answer as a table that a terminal can show: what stands in it, not how it looks.

Commands make views from answers; `terminal` draws them. Nothing here needs a terminal or a package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

__all__ = ["Axis", "Column", "Extent", "Group", "TableLine", "Reply", "Emphasis", "View"]


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
class TableLine:
    """One line of the table; a remark stands where one without an extent has nothing to draw."""

    cells: tuple[str, ...]
    emphasis: Emphasis = Emphasis.HOLDS
    extent: Extent | None = None
    remark: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under one heading."""

    heading: str
    lines: tuple[TableLine, ...]


@dataclass(frozen=True)
class View:
    """A table with its title, its results and warnings in a line each, and notes below it.

    `named_by` is the column that names a line.
    """

    title: str
    subject: str = ""
    results: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    groups: tuple[Group, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    axis: Axis | None = None
    named_by: int = 0


@dataclass(frozen=True)
class Reply:
    """The answer of a command: for a program, for a terminal, and as plain lines.

    - `answers`: the entries of "answers" in JSON; `plan` is what was run, as plain data, and `facts` is
      what else is said there.
    - `lines`: plain text instead of that of the view; needed if there is no view.
    - `code`: the exit code, which is not 0 if the answer is no.
    - `afterwards`: what is done once the answer is written, until it is interrupted.
    """

    answers: list[dict[str, Any]]
    view: View | None = None
    lines: list[str] | None = None
    plan: dict[str, Any] | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    code: int = 0
    afterwards: Callable[[], None] | None = None

    def drawn(self, output: str) -> Reply:
        """The reply with the name of the picture that was saved."""
        return replace(self, facts={**self.facts, "drawn": output})
