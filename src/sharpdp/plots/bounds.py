"""All bounds on a mechanism against one of its numbers: which one is best, and where."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sharpdp._validate import short_repr
from sharpdp.bracket import Side
from sharpdp.curves.tradeoff.bands import Array
from sharpdp.display.progress import progress
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms import Mechanism
from sharpdp.plots.style import (
    AUTO,
    BLUE,
    GRAY,
    ORANGE,
    finish,
    is_small,
    line_color,
    matplotlib,
    styled_axes,
    write,
)
from sharpdp.questions.compare import Comparison, Row, compare, short_source

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["comparison", "save_comparison", "theorems"]

SIZE = (8.6, 5.0)
"""Inches of a new figure: the legend stands beside the curves."""

POINTS = 13
"""Values at which all bounds are asked; one takes some tenths of a second."""

RANGES = {
    "local_epsilon": (0.1, 8.0),
    "users": (1e2, 1e8),
    "rounds": (1.0, 1e3),
    "population": (1e2, 1e9),
}
"""What can be varied, and between which values."""


@dataclass(frozen=True)
class Curve:
    """One bound at all places; not a number where it does not hold."""

    row: Row
    values: Array

    @property
    def label(self) -> str:
        """The name of the bound and what it is."""
        return in_words(self.row)


def theorems(comparison: Comparison, ax: Axes | None = None, *, title: str | None = AUTO) -> Axes:
    """Every bound of a comparison as a point on one axis; the truth lies in the band.

    What says nothing here is left out.

    Args:
        comparison: The result of `compare`.
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    rows = [row for row in reversed(comparison.rows) if row.value is not None and row.value > 0.0]
    rows = [row for row in rows if row.value is not None and math.isfinite(row.value)]
    axes = styled_axes(ax, (7.4, 1.4 + 0.27 * len(rows)), has_lines=True)
    best = [comparison.best(side) for side in Side]
    low, high = (None if row is None else row.value for row in best)
    if low is not None and high is not None and low > 0.0 and high < math.inf:
        axes.axvspan(low, high, color=BLUE, alpha=0.2, linewidth=0.0)
    styles = {"upper": ("v", ORANGE), "lower": ("^", BLUE), "estimate": ("o", GRAY)}
    for index, row in enumerate(rows):
        marker, color = styles[row.kind]
        axes.plot(
            [row.value or 0.0], [index], marker, color=color, markersize=6 if row in best else 5
        )
    for kind in dict.fromkeys(row.kind for row in rows):
        marker, color = styles[kind]
        words = kind if kind == "estimate" else f"{kind} bound"
        axes.plot([], [], marker, color=color, markersize=5, label=words)
    axes.set_yticks(range(len(rows)), [", ".join(_name_and_author(row)) for row in rows])
    axes.tick_params(axis="y", length=0)
    axes.set(xscale="log", ylim=(-0.6, len(rows) - 0.4))
    _few_ticks(axes)
    words = f"{comparison.quantity} at {comparison.given} = {comparison.at:g}"
    axes.set_xlabel(words, loc="right" if is_small() else "center")  # names may leave little room
    words = comparison.mechanism.describe()
    below: dict[str, Any] = {"bbox_to_anchor": (1.0, -0.15), "ncols": 3, "reverse": False}
    finish(axes, "Which bound is best?", words, title=title, loc="upper right", **below)
    return axes


def _few_ticks(axes: Axes) -> None:
    """Plain numbers on a logarithmic axis that spans less than a decade, so few that none overlap."""
    low, high = axes.get_xlim()
    if high < 10.0 * low:
        ticker = matplotlib("ticker")
        axes.xaxis.set_major_locator(ticker.MaxNLocator(3 if is_small() else 6))
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_locator(ticker.NullLocator())


def in_words(row: Row) -> str:
    """A bound for a reader: its idea, its side, and who proved it.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> table = compare(ShuffledReports(users=1000, local_epsilon=1.0), delta=1e-6)
    >>> in_words(table["blanket_bennett_upper"]), in_words(table["shared_clones_upper"])
    ('Blanket Bennett: upper bound, Balle 2019', 'Shared clones: upper bound, our proof')
    """
    kind = "estimate" if row.kind == "estimate" else f"{row.kind} bound"
    name, author = _name_and_author(row)
    return f"{name}: {kind}, {author}"


def _name_and_author(row: Row) -> tuple[str, str]:
    published = re.fullmatch(r"([a-z]+)(\d{4})[a-z]*", short_source(row))
    author = f"{published[1].capitalize()} {published[2]}" if published else "our proof"
    return f"{row.title[:1].upper()}{row.title[1:]}", author


def comparison(
    mechanism: Mechanism,
    *,
    over: str = "local_epsilon",
    delta: float = 1e-6,
    ax: Axes | None = None,
    title: str | None = AUTO,
) -> Axes:
    """Epsilon by every bound against one number of the mechanism.

    Upper bounds are solid, lower bounds dashed, estimates dotted; a curve ends where its bound does
    not hold. The truth lies in the band. A thin upright line marks the mechanism itself.

    Args:
        mechanism: `ShuffledReports` or another mechanism with the number to vary.
        over: What is varied, on a logarithmic axis: "local_epsilon", "users", "rounds", or "population"
            if users are drawn from one.
        delta: Delta at which epsilon is bounded, in [0, 1).
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        InvalidArgument: The mechanism has no such number to vary, or delta is out of range.
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    own, values = _values(mechanism, over)
    curves = _curves(mechanism, over, values, delta)
    axes = styled_axes(ax, SIZE)
    axes.axvline(own, color=GRAY, linewidth=0.8, dashes=(1.5, 1.5), zorder=1)
    axes.fill_between(values, *_truth(curves), color=BLUE, alpha=0.15, linewidth=0.0)
    for index, curve in enumerate(sorted(curves, key=lambda curve: curve.label)):
        _line(axes, values, curve, index)
    axes.set(xscale="log", yscale="log", xlim=(values[0], values[-1]), ylim=_limits(curves))
    _ticks(axes, values)
    axes.set_xlabel(over)
    axes.set_ylabel(f"epsilon at delta = {delta:g}")
    beside: dict[str, Any] = {"bbox_to_anchor": (1.01, 1.0), "fontsize": 7.5, "reverse": False}
    words = mechanism.describe()
    finish(axes, "Which bound is best?", words, title=title, loc="upper left", **beside)
    return axes


def save_comparison(
    mechanism: Mechanism, path: str | Path, *, over: str = "local_epsilon", delta: float = 1e-6
) -> None:
    """Draw the comparison of all bounds on a mechanism into a file.

    Args:
        mechanism: `ShuffledReports` or another mechanism with the number to vary.
        path: File to write, whose name ends in .svg, .png or .pdf.
        over: What is varied, on a logarithmic axis: "local_epsilon", "users", "rounds", or "population"
            if users are drawn from one.
        delta: Delta at which epsilon is bounded, in [0, 1).

    Raises:
        InvalidArgument: The mechanism has no such number to vary, delta is out of range, the name has
            another ending, or the file cannot be written.
        MissingExtra: matplotlib is not installed.
    """
    write(path, SIZE, lambda ax: comparison(mechanism, over=over, delta=delta, ax=ax))


def _values(mechanism: Mechanism, over: str) -> tuple[float, Array]:
    """The mechanism's own value, and the values to ask at: the usual range, wide enough for its own."""
    allowed = [name for name in RANGES if getattr(mechanism, name, None) is not None]
    if not isinstance(getattr(mechanism, "randomizer", ""), str):
        allowed.remove("local_epsilon")  # it is that of a randomizer that is known
    if over not in allowed:
        ask = f"{', '.join(allowed)} for {mechanism.label}" if allowed else "left out"
        hint = "" if allowed else f" Nothing of {mechanism.label} can be varied here."
        raise InvalidArgument(f"over must be {ask}; got {short_repr(over)}.{hint}")
    own = float(getattr(mechanism, over))
    low, high = _range(mechanism, over)
    values = np.geomspace(low, high, POINTS)
    whole = isinstance(getattr(mechanism, over), int)
    return own, np.unique(values.round()) if whole else values


def _range(mechanism: Mechanism, over: str) -> tuple[float, float]:
    """The usual range, wide enough for the mechanism's own value, no more users than there are."""
    own, (low, high) = float(getattr(mechanism, over)), RANGES[over]
    population = getattr(mechanism, "population", None)
    if population is not None:
        if over == "users":
            high = float(population)
            low = min(low, high)
        elif over == "population":
            low = max(2.0, float(cast("Any", mechanism).users))
            high = max(high, 100.0 * low)
        elif over == "rounds":
            high = 1e5  # users who are drawn take part in many rounds
    return min(low, own), max(high, own)


def _curves(mechanism: Mechanism, over: str, values: Array, delta: float) -> list[Curve]:
    """Every bound that holds somewhere, the largest first."""
    by_name: dict[tuple[str, Side], Curve] = {}
    with progress(f"comparing over {over}", len(values)) as task:
        for index, value in enumerate(values.tolist()):
            varied = replace(cast("Any", mechanism), **{over: value})
            # a bracket is no wider than a line
            for row in compare(varied, delta=delta, relative_width=2e-3).rows:
                # a bound that says nothing at some values has no row there
                empty = np.full(len(values), np.nan)
                curve = by_name.setdefault((row.name, row.side), Curve(row, empty))
                curve.values[index] = math.nan if row.value is None else row.value
            task.advance()
    curves = list(by_name.values())
    holding = [curve for curve in curves if np.isfinite(curve.values).any()]
    return sorted(holding, key=lambda curve: -float(np.nanmean(np.log(curve.values + 1e-12))))


def _line(axes: Axes, values: Array, curve: Curve, index: int) -> None:
    """One curve in the style of its side, its rigor and its place among all names."""
    dashes = "-" if curve.row.side is Side.UPPER else "--"
    markers = "osD^vP"  # distinct in gray print
    first = int(np.argmax(np.isfinite(curve.values)))
    axes.plot(
        values,
        curve.values,
        color=line_color(index),
        marker=markers[index % len(markers)],
        markersize=3.2,
        markevery=(first, 1 + index % 3),
        linestyle=dashes if curve.row.rigor.proved else ":",
        linewidth=1.3,
        label=curve.label,
    )


def _truth(curves: list[Curve]) -> tuple[Array, Array]:
    """The best certified lower and upper bound at each place; a side that nobody knows is left out."""

    def best(side: Side, choose: Any) -> Array:
        certified = [
            curve.values for curve in curves if curve.row.side is side and curve.row.rigor.proved
        ]
        return np.asarray(choose(certified, axis=0)) if certified else np.array(math.nan)

    return best(Side.LOWER, np.fmax.reduce), best(Side.UPPER, np.fmin.reduce)


def _ticks(axes: Axes, values: Array) -> None:
    """Round numbers below the axis where powers of ten would be too few; none between them."""
    ticker = matplotlib("ticker")
    if values[-1] < 1e3 * values[0]:
        axes.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    axes.xaxis.set_minor_formatter(ticker.NullFormatter())


def _limits(curves: list[Curve]) -> tuple[float, float]:
    """From a little below the smallest value to a little above what the reports alone would give."""
    every = np.concatenate([curve.values for curve in curves])
    smallest = np.min(every[every > 0.0], initial=1.0)
    alone = [curve.values for curve in curves if curve.row.name == "unshuffled_upper"]
    # what is left of sampled users without a shuffler
    local = "local_strong_composition_upper"
    alone = alone or [curve.values for curve in curves if curve.row.name == local]
    top = np.nanmax(alone[0]) if alone else np.nanmax(every[np.isfinite(every)])
    return float(0.7 * smallest), float(2.0 * top)
