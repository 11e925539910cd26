"""Several trade-off curves in one picture, each as a band with its name beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sharpdp._validate import short_repr
from sharpdp.curves.tradeoff import TradeoffCurve
from sharpdp.curves.tradeoff.bands import Array
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.plots.style import AUTO, GRAY, LEGEND_BELOW, finish, line_color, styled_axes, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["save_tradeoffs", "tradeoffs"]

SIZE = (5.6, 6.0)
"""Inches of a new figure."""


def tradeoffs(
    curves: Sequence[TradeoffCurve],
    ax: Axes | None = None,
    *,
    labels: Sequence[str] | None = None,
    title: str | None = AUTO,
) -> Axes:
    """Several trade-off curves as bands, with perfect privacy for comparison.

    A band lies between the two polylines of its curve, and what it says is true at every rate.

    Args:
        curves: The curves, at least one.
        ax: Matplotlib axes to draw on; None for a new figure.
        labels: One name per curve for the legend; None for their own.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        InvalidArgument: There is no curve, or not one label per curve.
        MissingExtra: matplotlib is not installed.
        WrongType: curves is no list of `TradeoffCurve`, or ax is neither axes of matplotlib nor None.
    """
    names = _labels(curves, labels)
    axes = styled_axes(ax, SIZE)
    axes.plot([0.0, 1.0], [1.0, 0.0], color=GRAY, linewidth=0.9, dashes=(1, 1.5))
    for index, (curve, name) in enumerate(zip(curves, names, strict=True)):
        band(axes, curve, name, index)
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the best attack")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    below = {**LEGEND_BELOW, "reverse": False}
    words = "The dotted line is perfect privacy."
    finish(axes, "What can an attacker tell?", words, title=title, **below)
    return axes


def save_tradeoffs(
    curves: Sequence[TradeoffCurve],
    path: str | Path,
    *,
    labels: Sequence[str] | None = None,
) -> None:
    """Draw several trade-off curves into a file.

    Args:
        curves: The curves, at least one.
        path: File to write, whose name ends in .svg, .png or .pdf.
        labels: One name per curve for the legend; None for their own.

    Raises:
        InvalidArgument: There is no curve, not one label per curve, the name has another ending, or the
            file cannot be written.
        MissingExtra: matplotlib is not installed.
        WrongType: curves is no list of `TradeoffCurve`.
    """
    write(path, SIZE, lambda ax: tradeoffs(curves, ax, labels=labels))


def band(axes: Axes, curve: TradeoffCurve, name: str, index: int) -> None:
    """One curve in the style of its place among all: a filled band between two thin edges."""
    # distinct in gray print
    dashes: tuple[Any, ...] = ((), (5, 2), (1.5, 1.5), (7, 2, 1.5, 2), (3, 1.2))
    color = line_color(index)
    rates, lower, upper = edges(curve)
    axes.fill_between(rates, lower, upper, color=color, alpha=0.25, linewidth=0.0)
    axes.plot(rates, upper, color=color, linewidth=0.7)
    axes.plot(
        rates, lower, color=color, linewidth=1.4, dashes=dashes[index % len(dashes)], label=name
    )


def edges(curve: TradeoffCurve) -> tuple[Array, Array, Array]:
    """Rates, and the lower and upper polylines at them, at every knot of either.

    A jump at 0 begins at 1, so that it is drawn.
    """
    lower, upper = curve.bounds
    rates = sorted({*lower.fpr, *upper.fpr})
    low, high = ([float(line.at(x)) for x in rates] for line in (lower, upper))
    across = np.array([0.0, *map(float, rates)])
    return across, np.array([1.0, *low]), np.array([1.0, *high])


def _labels(curves: object, labels: Sequence[str] | None) -> list[str]:
    if isinstance(curves, TradeoffCurve | str) or not isinstance(curves, Sequence):
        raise WrongType(f"curves must be a list of TradeoffCurve; got {short_repr(curves)}.")
    for index, curve in enumerate(curves):
        if not isinstance(curve, TradeoffCurve):
            raise WrongType(f"curves[{index}] must be a TradeoffCurve; got {short_repr(curve)}.")
    if not curves:
        raise InvalidArgument("curves must have at least one entry; got an empty list.")
    names = [curve.label for curve in curves] if labels is None else list(labels)
    if len(names) != len(curves):
        raise InvalidArgument(
            f"labels must have one entry for each curve; got {len(names)} for {len(curves)} curves."
        )
    return names
