"""The cost of batch schemes: the epsilon of each as a bar between its two bounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sharpdp.plots.style import (
    AUTO,
    BLUE,
    GRAY,
    INK,
    LEGEND_BELOW,
    ORANGE,
    finish,
    is_small,
    scaled,
    styled_axes,
    write,
)
from sharpdp.questions.compare_samplers import BASIS, SamplerComparison, SamplerRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["samplers", "save_samplers"]

SIZE = (7.4, 3.9)
"""Inches of a new figure: a line of text for each scheme."""

ROOM = 1.25
"""How far the axis goes beyond the largest epsilon, for its label."""


def samplers(
    comparison: SamplerComparison, ax: Axes | None = None, *, title: str | None = AUTO
) -> Axes:
    """The epsilon of each batch scheme as a bar: full up to its lower bound, pale up to its upper one.

    The upright line is the epsilon of Poisson batches, which is often quoted for all of them.

    Args:
        comparison: The result of `compare_samplers`.
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    axes = styled_axes(ax, SIZE, has_lines=True)
    rows = [row for row in reversed(comparison.rows) if row.epsilon is not None]
    top = max(
        (end for row in rows for end in (row.lower, row.upper) if end < math.inf), default=1.0
    )
    limit = ROOM * (top or 1.0)
    basis = comparison[BASIS].upper
    words = "epsilon of Poisson batches"
    axes.axvline(basis, color=GRAY, linewidth=0.9, dashes=(1.5, 1.5), zorder=1, label=words)
    for index, row in enumerate(rows):
        _bar(axes, index, row, limit)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.tick_params(axis="y", length=0, labelsize=scaled(9.5))
    axes.grid(visible=False, axis="y")
    axes.set(xlim=(0.0, limit), ylim=(-0.6, len(rows) - 0.4))
    axes.set_xlabel(f"epsilon at delta = {comparison.delta:g}")
    words = comparison.describe()
    legend: dict[str, Any] = LEGEND_BELOW if is_small() else {"loc": "upper right"}
    finish(axes, "What do these batches cost?", words, title=title, **legend)
    return axes


def save_samplers(comparison: SamplerComparison, path: str | Path) -> None:
    """Draw the comparison of batch schemes into a file.

    Args:
        comparison: The result of `compare_samplers`.
        path: File to write, whose name ends in .svg, .png or .pdf.

    Raises:
        InvalidArgument: The name has another ending, or the file cannot be written.
        MissingExtra: matplotlib is not installed.
    """
    write(path, SIZE, lambda ax: samplers(comparison, ax=ax))


def _bar(axes: Axes, index: int, row: SamplerRow, limit: float) -> None:
    """A bar that is full up to the lower bound and pale up to the upper one; the numbers beside it."""
    assert row.epsilon is not None
    low, high = min(row.lower, limit), min(row.upper, limit)
    color = BLUE if row.name == BASIS else ORANGE
    axes.barh(index, low, height=0.56, color=color)
    axes.barh(index, high - low, left=low, height=0.56, color=color, alpha=0.3)
    axes.annotate(
        row.shown[0],
        (high, index),
        xytext=(6, 0),
        textcoords="offset points",
        va="center",
        fontsize=scaled(8.5),
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
    )
