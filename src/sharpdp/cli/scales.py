"""Extents on an axis of characters: spans that a bound allows, and bars that show how much is lost."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sharpdp.cli.views import Emphasis, Extent, Line, View

__all__ = ["Piece", "Scale"]

Piece = tuple[str, str]
"""Some characters, and the style that they have."""

MANY_TIMES = 12.0
"""If the largest value is so many times the smallest, spans stand on a logarithmic axis."""

MARGIN = 0.03
"""What the axis has beyond the values on both sides, as a part of its length."""

EIGHTHS = " ▏▎▍▌▋▊▉"
"""Blocks by their width in eighths of a cell."""

STYLES = {Emphasis.BEST: "bold green", Emphasis.HOLDS: "cyan", Emphasis.FAINT: "dim"}

BAND = "on gray19"
"""Behind the places where the truth lies."""


@dataclass(frozen=True)
class Scale:
    """An axis of so many cells, from lower to upper, and the places between which the truth is known."""

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
            most = max(values)
            return Scale("bars", cells, 0.0, most, logarithmic=False) if most > 0.0 else None
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

    def drawn(self, line: Line) -> list[Piece]:
        """One line on the axis."""
        if line.extent is None:
            return []
        is_bar = self.kind == "bars"
        text = self._bar(line.extent) if is_bar else self._span(line.extent, line.emphasis)
        style = STYLES[line.emphasis]
        if self.band is None:
            return [(text, style)]
        first, last = self.band
        inside = f"{style} {BAND}"
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
        """What a bound allows: up to its value, from its value on, or just there for an estimate."""
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
        full, rest = divmod(round(sure * len(EIGHTHS)), len(EIGHTHS))
        may = self.cells if extent.upper is None else round(self._part(extent.upper) * self.cells)
        text = "█" * int(full) + (EIGHTHS[int(rest)] if rest else "")
        return text + "░" * (may - len(text))


def _spans(values: Sequence[float], best: Iterable[Line], cells: int) -> Scale:
    """The axis of spans: from 0, or logarithmic if values are far apart, with the band of the best."""
    low, high = min(values), max(values)
    logarithmic = low > 0.0 and high > MANY_TIMES * low
    if logarithmic:
        margin = (high / low) ** MARGIN
        low, high = low / margin, high * margin
    else:
        low, high = min(low, 0.0), high * (1.0 + MARGIN) or 1.0
    scale = Scale("spans", cells, low, high, logarithmic)
    lowest = [one.extent.lower for one in best if one.extent and one.extent.lower is not None]
    highest = [one.extent.upper for one in best if one.extent and one.extent.upper is not None]
    if not lowest or not highest:
        return scale
    band = scale.place(max(lowest)), scale.place(min(highest))
    return Scale("spans", cells, low, high, logarithmic, band)


def _finite(extent: Extent | None) -> list[float]:
    if extent is None:
        return []
    ends = (extent.lower, extent.upper)
    return [end for end in ends if end is not None and math.isfinite(end)]
