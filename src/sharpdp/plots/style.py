"""The one style of all pictures: axes, headings, files. Needs the extra `plots` (matplotlib)."""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sharpdp._validate import positive, short_repr
from sharpdp.errors import InvalidArgument, MissingExtra, WrongType

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "finish",
    "is_small",
    "line_color",
    "matplotlib",
    "paper",
    "scaled",
    "styled_axes",
    "write",
]

BLUE, ORANGE, GRAY, INK = "#0072B2", "#D55E00", "#5f5f5f", "#222222"
"""The first two, of Okabe and Ito, are told apart by color-blind readers and in gray print."""

COLORS = (
    BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", INK, "#8c6d31",
    "#6a3d9a", "#b2182b", "#66a61e", "#00a0b0", "#fb8072", "#7570b3", "#4d5d00", "#a50f78", "#b8b800",
    "#003c4f",
)  # fmt: skip
"""The first eight are distinct to color-blind readers (Okabe and Ito; yellow, lost on paper, gives way to
brown). More lines than that have colors of their own as well, and markers or dashes."""

LEGEND_BELOW = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.10)}
"""A legend under the label of the horizontal axis."""

AUTO = "auto"
"""Stands for the heading that a picture has by itself."""

FIGURE_SIZE = (6.0, 4.6)
"""Inches of a new figure, unless a picture asks for others."""

BELOW_LABELS = 42.0
"""Points from an axis to what is below its labels."""

PIXELS_PER_INCH, MARGIN = 160, 0.12
"""Resolution of a new figure, and its margin in inches."""

FORMATS = (".svg", ".png", ".pdf")
"""Kinds of files that a picture is saved to."""


@dataclass(frozen=True)
class Preset:
    """How large pictures are, and whether they have headings."""

    width: float | None = None
    scale: float = 1.0
    has_headings: bool = True

    def size(self, inches: tuple[float, float], *, has_lines: bool = False) -> tuple[float, float]:
        """The size of a new figure, whose shape stays, or the height of its lines of text."""
        width, height = inches
        if self.width is None:
            return inches
        return self.width, height * self.scale if has_lines else self.width * height / width


_preset: ContextVar[Preset | None] = ContextVar("_preset", default=None)


def _current() -> Preset:
    return _preset.get() or Preset()


@contextmanager
def paper(*, width: float = 3.3, font_size: float = 7.5) -> Iterator[None]:
    """Pictures for a paper while this lasts: one column wide, no headings, embedded TrueType fonts.

    Draw and save inside of it: fonts are embedded when a file is written. Figures that you make yourself
    have the same width, and room for long labels.

    Args:
        width: Inches of a new figure; 3.3 is a column, 6.8 a page of two columns.
        font_size: Points of the labels of axes.

    Raises:
        InvalidArgument: width or font_size is not greater than 0.
        MissingExtra: matplotlib is not installed.

    >>> import sharpdp as dp
    >>> with paper():
    ...     axes = dp.account(dp.Gaussian(noise_multiplier=1.0)).plot()
    >>> axes.figure.get_size_inches()[0].item(), axes.get_title(loc="left")
    (3.3, '')
    """
    preset = Preset(positive(width=width), positive(font_size=font_size) / 10.0, has_headings=False)
    settings = {
        "pdf.fonttype": 42,
        "ps.fonttype": 42,
        "font.size": font_size,
        "figure.figsize": preset.size(FIGURE_SIZE),
        "figure.constrained_layout.use": True,
    }
    token = _preset.set(preset)
    try:
        with matplotlib("").rc_context(settings):
            yield
    finally:
        _preset.reset(token)


def scaled(points: float) -> float:
    """A font size on a screen, as it is where the picture goes."""
    return points * _current().scale


def line_color(index: int) -> str:
    """The color of a line by its place among all.

    Raises InvalidArgument if there are more lines than colors.
    """
    if index >= len(COLORS):
        raise InvalidArgument(
            f"a picture has at most {len(COLORS)} lines; got {index + 1} or more. Draw fewer."
        )
    return COLORS[index]


def matplotlib(module: str) -> Any:
    """A module of matplotlib, imported when it is needed; MissingExtra if there is none."""
    try:
        return importlib.import_module(f"matplotlib.{module}".rstrip("."))
    except ImportError as missing:
        raise MissingExtra(
            "matplotlib is needed to draw and is not installed: pip install matplotlib"
        ) from missing


def is_small() -> bool:
    """Whether pictures are drawn for a column of a paper."""
    return _current().width is not None


def styled_axes(
    ax: Axes | None, size: tuple[float, float] = FIGURE_SIZE, *, has_lines: bool = False
) -> Axes:
    """The given axes, or new ones, in the one style of all pictures."""
    axes: Any = ax
    preset = _current()
    if axes is None:
        figure, axes = matplotlib("pyplot").subplots(
            figsize=preset.size(size, has_lines=has_lines),
            dpi=PIXELS_PER_INCH,
            layout="constrained",
        )
        figure.get_layout_engine().set(w_pad=preset.scale * MARGIN, h_pad=preset.scale * MARGIN)
    elif not isinstance(axes, matplotlib("axes").Axes):
        raise WrongType(f"ax must be axes of matplotlib or None; got {short_repr(ax)}.")
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(GRAY)
    axes.tick_params(colors=INK, labelsize=9 * preset.scale, length=3, which="both")
    axes.tick_params(length=0, which="minor")
    return cast("Axes", axes)


def finish(axes: Axes, question: str, run: str, *, title: str | None = AUTO, **legend: Any) -> None:
    """The heading, and the legend where the picture has room for it.

    Args:
        axes: The axes.
        question: The question that the picture answers.
        run: What was run.
        title: A heading instead of these two; None for none.
        **legend: Settings of the legend.
    """
    preset = _current()
    if title is not None and not isinstance(title, str):
        raise WrongType(f"title must be text or None; got {short_repr(title)}.")
    if title == AUTO and preset.has_headings:
        lines = textwrap.wrap(run, 78)
        heading: dict[str, Any] = {"transform": axes.transAxes, "va": "bottom", "ha": "left"}
        pad = 8 + 11 * len(lines)
        axes.set_title(question, loc="left", fontsize=12, fontweight="bold", pad=pad)
        axes.text(0.0, 1.015, "\n".join(lines), fontsize=8.5, color=GRAY, **heading)
    elif title not in (None, AUTO):
        axes.set_title(title, loc="left", fontsize=12 * preset.scale, fontweight="bold")
    settings = {"frameon": False, "fontsize": 8.5, "borderpad": 0, "reverse": True, **legend}
    settings["fontsize"] *= preset.scale
    across, down = settings.get("bbox_to_anchor", (0.0, 0.0))
    if preset.width is not None and down < 0.0:  # below labels that do not shrink with the figure
        below = matplotlib("transforms").ScaledTranslation(
            0.0, -BELOW_LABELS * preset.scale / 72.0, axes.figure.dpi_scale_trans
        )
        settings |= {"bbox_to_anchor": (across, 0.0), "bbox_transform": axes.transAxes + below}
    if axes.get_legend_handles_labels()[0]:
        axes.legend(**settings)


def write(path: str | Path, size: tuple[float, float], draw: Callable[[Axes], Axes]) -> None:
    """Draw a picture into a file: .svg, .png or .pdf. No window is opened, no figure stays open."""
    file = Path(path)
    if file.suffix.lower() not in FORMATS:
        raise InvalidArgument(f"output must end in {', '.join(FORMATS)}; got {file.name!r}.")
    figure = matplotlib("figure").Figure(
        _current().size(size), PIXELS_PER_INCH, layout="constrained"
    )
    figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)
    draw(figure.add_subplot())
    try:
        figure.savefig(file)
    except OSError as wrong:
        raise InvalidArgument(
            f"output must be a file that can be written; got {str(file)!r}: {wrong.strerror}."
        ) from wrong
