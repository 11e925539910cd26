"""What each choice of batches costs: the epsilon of every scheme as a bar between its two bounds."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sharpdp.plots.style import BLUE, GRAY, INK, ORANGE, finish, matplotlib, styled_axes, write
from sharpdp.sampler_comparison import BASIS, SamplerComparison, SamplerRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["samplers", "save_samplers"]

SIZE = (7.4, 3.9)
"""Inches of a new figure: a line of text for each scheme."""

ROOM = 1.8
"""How far the axis goes beyond the largest epsilon, for its label."""


def samplers(comparison: SamplerComparison, ax: Axes | None = None) -> Axes:
    """The epsilon of each batch scheme: points, or bars where the bounds differ.

    The upright line is the epsilon of Poisson batches, which is often quoted for all of them.

    Args:
        comparison: The result of `compare_samplers`.
        ax: Axes of matplotlib to draw on; None for a new figure.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    axes = styled_axes(ax, SIZE)
    rows = [row for row in reversed(comparison.rows) if row.epsilon is not None]
    finite = [end for row in rows for end in (row.lower, row.upper) if 0.0 < end < math.inf]
    top = max(finite, default=1.0)
    wide = bool(finite) and top > 8.0 * min(finite)
    floor = 0.5 * min(finite, default=1.0) if wide else 0.0
    basis = comparison[BASIS].upper
    words = "epsilon of Poisson batches"
    axes.axvline(basis, color=GRAY, linewidth=0.9, dashes=(1.5, 1.5), zorder=1, label=words)
    for index, row in enumerate(rows):
        _bar(axes, index, row, floor, top)
    axes.set_yticks(range(len(rows)), [row.name for row in rows])
    axes.tick_params(axis="y", length=0, labelsize=9.5)
    axes.grid(visible=False, axis="y")
    if wide:
        axes.set_xscale("log")
        ticker = matplotlib("ticker")
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
        axes.xaxis.set_minor_formatter(ticker.NullFormatter())
    axes.set(xlim=(floor, ROOM * top), ylim=(-0.9, len(rows) - 0.4))
    axes.set_xlabel(f"epsilon at delta = {comparison.delta:g}")
    finish(axes, "What do these batches cost?", comparison.describe(), loc="lower right")
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


def _bar(axes: Axes, index: int, row: SamplerRow, floor: float, top: float) -> None:
    """A point where the bracket is narrow, a bar where it is not; the numbers beside it."""
    assert row.epsilon is not None
    low, high = max(row.lower, floor), min(row.upper, top * ROOM)
    color = BLUE if row.name == BASIS else ORANGE
    if float(row.epsilon.relative_width) <= 0.01:  # a bar would not be seen
        axes.plot([high], [index], "o", color=color, markersize=6.0)
        text = f"{row.upper:.3g}"
    else:
        axes.barh(index, high - low, left=low, height=0.34, color=color, alpha=0.3)
        for end in (low, high):
            axes.plot([end, end], [index - 0.17, index + 0.17], color=color, linewidth=1.6)
        text = f"{row.lower:.3g} to {row.upper:.3g}"
    axes.annotate(
        text,
        (high, index),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        fontsize=8.5,
        color=INK,
    )
