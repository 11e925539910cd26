"""Pictures in the style of sharpdp, as text of an SVG file that is the same whenever it is drawn."""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reproduce.cache import once
from sharpdp.curves.tradeoff.bands import sampled, tradeoff_band
from sharpdp.plots.style import BLUE, GRAY, INK, ORANGE, matplotlib, styled_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from sharpdp import Guarantee

__all__ = [
    "BLUE",
    "GREEN",
    "GRAY",
    "INK",
    "ORANGE",
    "PURPLE",
    "RATES",
    "SKY",
    "axes_of",
    "band",
    "drawn",
    "finished",
    "legend_in",
    "named",
    "svg",
    "tradeoff_axes",
    "tradeoff_ends",
    "tradeoff_labels",
]

GREEN, PURPLE, SKY = "#009E73", "#CC79A7", "#56B4E9"
"""Further colors of Okabe and Ito."""

RATES: list[float] = (0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 201))).tolist()
"""False-positive rates at which trade-off curves are drawn, closer together at the ends."""

WASH = 0.25
"""How dense the inside of a bracket is."""

PAD = 0.06
"""Inches around panels."""

_QUOTED, _LONG = re.compile(r'"[^"]*"'), re.compile(r"(\d\.\d\d)\d+")
"""Coordinates stand in quotes; hundredths of a point are enough, and half the size."""


def svg(draw: Callable[[Figure, Any], None], inches: Sequence[float], values: Any) -> str:
    """The picture that `draw` makes of the values on a canvas of this size."""
    canvas = matplotlib("figure").Figure(tuple(inches), layout="constrained")
    canvas.get_layout_engine().set(w_pad=PAD, h_pad=PAD)
    draw(canvas, values)
    library: Any = importlib.import_module("matplotlib")
    text = io.StringIO()
    with library.rc_context({"svg.fonttype": "none", "svg.hashsalt": draw.__name__}):
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _QUOTED.sub(lambda found: _LONG.sub(r"\1", found[0]), text.getvalue())


def drawn(module: str, name: str, inches: Sequence[float], values: Any) -> str:
    """The picture of a drawing function by its name, made at most once for these values."""
    return str(once(_drawn, module, name, list(inches), values, also=(f"{module}.{name}",)))


def _drawn(module: str, name: str, inches: Sequence[float], values: Any) -> str:
    return svg(getattr(importlib.import_module(module), name), inches, values)


def axes_of(canvas: Figure, rows: int = 1, columns: int = 1, **shared: Any) -> list[Axes]:
    """Axes in the one style, from the first row on."""
    grid = canvas.subplots(rows, columns, squeeze=False, **shared)
    return [styled_axes(axes) for axes in grid.flat]


def finished(canvas: Figure, question: str, axes: Axes, **legend: Any) -> None:
    """The question above everything, and the legend of these axes below it."""
    settings = {**_HEADED, "loc": "outside upper left", "ncols": 2, "title": question, **legend}
    canvas.legend(*axes.get_legend_handles_labels(), **settings)


_HEADED: dict[str, Any] = {
    "fontsize": 8.5,
    "frameon": False,
    "borderpad": 0.2,
    "columnspacing": 1.6,
    "alignment": "left",
    "title_fontproperties": {"size": 12, "weight": "bold"},
}
"""A legend with the question as its heading."""


def legend_in(place: Axes, question: str, axes: Axes) -> None:
    """Question and legend in the place of a panel that is left over."""
    place.axis("off")
    place.legend(*axes.get_legend_handles_labels(), **_HEADED, loc="center left", title=question)


def named(axes: Axes, name: str) -> None:
    """A small name above a panel."""
    axes.set_title(name, loc="left", fontsize=9, color=GRAY, pad=4)


def band(
    axes: Axes,
    x: Sequence[float],
    ends: Sequence[Sequence[float]],
    label: str,
    color: str = BLUE,
    **style: Any,
) -> None:
    """A certified bracket: both edges and what is between them; `ends` are (lower, upper) at each x."""
    lower, upper = np.asarray(ends, dtype=float).T
    line = {"color": color, "linewidth": 1.3, **style}
    axes.fill_between(x, lower, upper, color=color, alpha=WASH, linewidth=0.0)
    if line.get("linestyle", "-") == "-":  # two dashed edges fill each other's gaps
        axes.plot(x, lower, **line)
    axes.plot(x, upper, label=label, **line)


def tradeoff_axes(axes: Axes, name: str, reach: float = 1.0, low: float = 0.0) -> None:
    """A trade-off panel: the diagonal, the limits, and the name; labels are those of the sheet."""
    ends = [0.0, reach]
    axes.plot(
        ends,
        [1.0, 1.0 - reach],
        color=GRAY,
        linewidth=1.0,
        dashes=(1.5, 1.5),
        label="perfect privacy",
    )
    axes.set(xlim=(0.0, reach), ylim=(low, 1.0), aspect=reach / (1.0 - low))
    named(axes, name)


def tradeoff_labels(canvas: Figure) -> None:
    """What the axes of trade-off panels mean, once for the sheet."""
    canvas.supxlabel("false-positive rate of the attack", fontsize=9.5)
    canvas.supylabel("false-negative rate of the best attack", fontsize=9.5)


def tradeoff_ends(
    answer: Guarantee, rates: Sequence[float] | NDArray[np.float64]
) -> list[list[float]]:
    """(lower, upper) of a trade-off function at these rates, all from one sampled profile."""
    lower, upper = tradeoff_band(sampled(answer), np.asarray(rates, dtype=float))
    found: list[list[float]] = np.stack([lower, upper], 1).tolist()
    return found
