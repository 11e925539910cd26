"""Pictures of many answers: a sweep as bands, and a Renyi curve."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.curves.renyi import RenyiCurve
from sharpdp.errors import InvalidArgument
from sharpdp.plots.style import AUTO, BLUE, LEGEND_BELOW, finish, line_color, styled_axes
from sharpdp.questions.sweep import Sweep

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["renyi", "sweep"]


def sweep(
    answers: Sweep, *, delta: float, ax: Axes | None = None, title: str | None = AUTO
) -> Axes:
    """Epsilon against the last setting of a sweep, one band for each choice of the others.

    Args:
        answers: The result of `sweep`.
        delta: Delta at which epsilon is asked for, in [0, 1).
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        InvalidArgument: delta is out of range, or there are more choices than colors.
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    axes = styled_axes(ax)
    epsilon = answers.epsilon(delta=delta)
    *others, last = answers.axes
    values = list(answers.axes[last])
    numeric = all(isinstance(value, int | float) for value in values)
    across = np.array(values if numeric else range(len(values)), dtype=float)
    choices = list(itertools.product(*(answers.axes[name] for name in others)))
    rows = [np.reshape(end, (len(choices), len(values))) for end in (epsilon.lower, epsilon.upper)]
    for index, (choice, low, high) in enumerate(zip(choices, *rows, strict=True)):
        color = line_color(index)
        words = ", ".join(f"{name} {value}" for name, value in zip(others, choice, strict=True))
        axes.fill_between(across, low, high, color=color, alpha=0.25, linewidth=0.0)
        axes.plot(across, high, "o-", color=color, markersize=3.5, label=words or "at most")
    if not numeric:
        axes.set_xticks(across, [str(value) for value in values], rotation=20, ha="right")
    axes.set_xlabel(last.replace("_", " "))
    axes.set_ylabel(f"epsilon at delta = {delta:g}")
    below = {**LEGEND_BELOW, "bbox_to_anchor": (-0.02, -0.14), "reverse": False}
    finish(axes, "What does each setting cost?", str(answers), title=title, **below)
    return axes


def renyi(curve: RenyiCurve, ax: Axes | None = None, *, title: str | None = AUTO) -> Axes:
    """The divergences of a Renyi curve against their orders, both axes logarithmic.

    Args:
        curve: The curve.
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        InvalidArgument: No divergence of the curve is finite and positive.
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    points = [
        (row["order"], row["divergence_upper"])
        for row in curve.records()
        if np.isfinite([row["order"], row["divergence_upper"]]).all()
        and row["divergence_upper"] > 0.0
    ]
    if not points:
        raise InvalidArgument("curve must have a finite divergence above 0 to be drawn; got none.")
    axes = styled_axes(ax)
    axes.plot(*zip(*points, strict=True), "o-", color=BLUE, markersize=3.0, label="at most")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("order")
    axes.set_ylabel("Rényi divergence")
    finish(
        axes, "How private is it, order by order?", curve.describe(), title=title, loc="upper left"
    )
    return axes
