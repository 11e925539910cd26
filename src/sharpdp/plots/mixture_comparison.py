"""A picture of one mixture: its trade-off curve, and what each inequality says about it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.curves.mixtures.compare import MixtureComparison, compare_mixture
from sharpdp.plots.style import AUTO, BLUE, GRAY, ORANGE, finish, styled_axes, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["mixture", "save_mixture"]

SIZE = (5.6, 6.0)
"""Inches of a new figure: the legend has room above the diagonal."""


def mixture(
    comparison: MixtureComparison, ax: Axes | None = None, *, title: str | None = AUTO
) -> Axes:
    """Every inequality as a curve: false-negative against false-positive rate, the worse direction.

    A curve that is the best of a family is drawn as the largest of members chosen for some rates, so
    that all of it is a bound.

    Args:
        comparison: The result of `compare_mixture`.
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    axes = styled_axes(ax, SIZE)
    # rates for which the parameters of advanced joint concavity are chosen
    rates = (0.002, 0.01, 0.03, 0.07, 0.15, 0.25, 0.4, 0.6, 0.8)
    aimed = compare_mixture(comparison.mixture, fpr=rates)
    corners = [
        float(rate)
        for row in aimed.rows
        for curve in row.curves[:2]  # of a family the members are many, and corners of few show
        for rate in (*curve.fpr, *curve.fnr)
    ]
    fpr = np.unique([*(0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 121))), *corners])
    axes.plot(fpr, 1.0 - fpr, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="perfect privacy")
    # color, dashes and width of each row: told apart in gray print and by everyone
    styles = (
        (BLUE, "-", 1.8),
        (ORANGE, "--", 1.3),
        ("#CC79A7", "-.", 1.3),
        ("#009E73", (0, (6, 1.5, 1, 1.5)), 1.3),
        ("#56B4E9", (0, (3, 1)), 1.3),
        ("#8c6d31", ":", 1.6),
        ("#222222", (0, (1, 1.5)), 1.6),
    )
    drawn = [(row, style) for row, style in zip(aimed.rows, styles, strict=True) if row.curves]
    for row, (color, dashes, width) in reversed(drawn):
        values = [row.fnr(float(rate)) for rate in fpr]
        axes.plot(fpr, values, color=color, linestyle=dashes, linewidth=width, label=row.name)
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the best attack, worse direction")
    words = comparison.mixture.describe()
    finish(axes, "What does each inequality say?", words, title=title, loc="upper right")
    return axes


def save_mixture(comparison: MixtureComparison, path: str | Path) -> None:
    """Draw the comparison of a mixture with its bounds into a file.

    Args:
        comparison: The result of `compare_mixture`.
        path: File to write, whose name ends in .svg, .png or .pdf.

    Raises:
        InvalidArgument: The name has another ending, or the file cannot be written.
        MissingExtra: matplotlib is not installed.
    """
    write(path, SIZE, lambda ax: mixture(comparison, ax=ax))
