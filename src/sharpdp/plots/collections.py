"""A picture of a data collection: central epsilon and the error of a share against the local epsilon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sharpdp.bracket import Bracket
from sharpdp.plots.style import (
    AUTO,
    BLUE,
    GRAY,
    LEGEND_BELOW,
    ORANGE,
    finish,
    scaled,
    styled_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SIZE", "collection"]

SIZE = (6.4, 5.0)
"""Inches of the picture."""


def collection(
    local_epsilons: Sequence[float],
    *,
    central: Sequence[Bracket],
    with_drop_outs: Sequence[float],
    errors: Sequence[float],
    drop_outs: float,
    collected: str,
    title: str | None = AUTO,
    ax: Axes | None = None,
) -> Axes:
    """Central epsilon on the left axis, the error of a share on the right one.

    Args:
        local_epsilons: Local epsilon of each design.
        central: Central epsilon of each, both sides.
        with_drop_outs: Upper end of it if some users do not report.
        errors: Two standard errors of a share.
        drop_outs: Share of users who do not report.
        collected: What is collected, in one line.
        title: Heading of the picture; None for none, "auto" for its own.
        ax: Matplotlib axes to draw on; None for a new figure.

    Returns:
        The axes of epsilon.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    axes = styled_axes(ax, SIZE, has_lines=True)
    order = sorted(range(len(local_epsilons)), key=lambda index: local_epsilons[index])
    across = [local_epsilons[index] for index in order]
    low = [float(central[index].lower) for index in order]
    high = [float(central[index]) for index in order]
    axes.plot(across, across, color=GRAY, linestyle="--", label="one report without a shuffler")
    axes.fill_between(across, low, high, color=BLUE, alpha=0.25, linewidth=0.0)
    axes.plot(across, high, "o-", color=BLUE, markersize=3.5, label="central epsilon, at most")
    missing = [with_drop_outs[index] for index in order]
    label = f"with {100 * drop_outs:g}% drop-outs"
    axes.plot(across, missing, color=BLUE, linewidth=1.0, dashes=(4, 2), label=label)
    axes.set(yscale="log")
    axes.set_xlabel("local epsilon of a report")
    axes.set_ylabel("epsilon of all rounds")
    right = axes.twinx()
    points = [100.0 * errors[index] for index in order]
    (line,) = right.plot(across, points, "s-", color=ORANGE, markersize=3.5)
    line.set_label("_right")
    axes.plot([], [], "s-", color=ORANGE, markersize=3.5, label="error of a share (right axis)")
    right.set(yscale="log")
    right.set_ylabel("two standard errors of a share, percentage points")
    right.yaxis.label.set_color(ORANGE)
    right.spines[["top"]].set_visible(False)
    right.tick_params(labelsize=scaled(9), length=3, which="both", colors=ORANGE)
    for scale in (axes.yaxis, right.yaxis):
        scale.set_major_formatter("{x:g}")
        scale.set_minor_formatter("{x:g}")
    below = {**LEGEND_BELOW, "bbox_to_anchor": (-0.02, -0.13)}
    finish(axes, "Which local epsilon?", collected, title=title, **below)
    return axes
