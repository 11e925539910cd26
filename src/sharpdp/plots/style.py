"""The one style of all pictures: axes, headings, files. Needs the extra `plots` (matplotlib)."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, MissingExtra, WrongType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["finish", "styled_axes", "matplotlib", "write"]

BLUE, ORANGE, GRAY, INK = "#0072B2", "#D55E00", "#5f5f5f", "#222222"
"""The first two, of Okabe and Ito, are told apart by color-blind readers and in gray print."""

COLORS = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK, "#8c6d31")
"""Told apart by color-blind readers (Okabe and Ito); yellow, lost on paper, gives way to brown."""

LEGEND_BELOW = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.10)}
"""A legend under the label of the horizontal axis."""

FIGURE_SIZE = (6.0, 4.6)
"""Inches of a new figure, unless a picture asks for others."""

PIXELS_PER_INCH, MARGIN = 160, 0.12
"""Resolution of a new figure, and its margin in inches."""

FORMATS = (".svg", ".png", ".pdf")
"""Kinds of files that a picture is saved to."""


def matplotlib(module: str) -> Any:
    """A module of matplotlib, imported when it is needed; MissingExtra if there is none."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as missing:
        raise MissingExtra(
            "matplotlib is needed to draw and is not installed: pip install matplotlib"
        ) from missing


def styled_axes(ax: Axes | None, size: tuple[float, float] = FIGURE_SIZE) -> Axes:
    """The given axes, or new ones, in the one style of all pictures."""
    axes: Any = ax
    if axes is None:
        figure, axes = matplotlib("pyplot").subplots(
            figsize=size, dpi=PIXELS_PER_INCH, layout="constrained"
        )
        figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)
    elif not isinstance(axes, matplotlib("axes").Axes):
        raise WrongType(f"ax must be axes of matplotlib or None; got {short_repr(ax)}.")
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(GRAY)
    axes.tick_params(colors=INK, labelsize=9, length=3, which="major")
    axes.tick_params(length=0, which="minor")
    return cast("Axes", axes)


def finish(axes: Axes, question: str, run: str, **legend: Any) -> None:
    """The question, what was run, and the legend where the picture has room for it."""
    lines = textwrap.wrap(run, 78)
    heading: dict[str, Any] = {"transform": axes.transAxes, "va": "bottom", "ha": "left"}
    axes.set_title(question, loc="left", fontsize=12, fontweight="bold", pad=8 + 11 * len(lines))
    axes.text(0.0, 1.015, "\n".join(lines), fontsize=8.5, color=GRAY, **heading)
    settings = {"frameon": False, "fontsize": 8.5, "borderpad": 0, "reverse": True, **legend}
    axes.legend(**settings)


def write(path: str | Path, size: tuple[float, float], draw: Callable[[Axes], Axes]) -> None:
    """Draw a picture into a file: .svg, .png or .pdf. No window is opened, no figure stays open."""
    file = Path(path)
    if file.suffix.lower() not in FORMATS:
        raise InvalidArgument(f"output must end in {', '.join(FORMATS)}; got {file.name!r}.")
    figure = matplotlib("figure").Figure(size, PIXELS_PER_INCH, layout="constrained")
    figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)
    draw(figure.add_subplot())
    try:
        figure.savefig(file)
    except OSError as wrong:
        raise InvalidArgument(
            f"output must be a file that can be written; got {str(file)!r}: {wrong.strerror}."
        ) from wrong
