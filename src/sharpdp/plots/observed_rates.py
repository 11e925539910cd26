"""Error rates that an attack was seen to have, against the curve that it is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sharpdp.curves.tradeoff import TradeoffCurve
from sharpdp.curves.tradeoff.bands import Array
from sharpdp.plots.curves import SIZE, edges
from sharpdp.plots.style import AUTO, BLUE, GRAY, INK, LEGEND_BELOW, ORANGE, finish, styled_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["observed"]


def observed(
    rates: tuple[Array, Array],
    upper: tuple[Array, Array] | None,
    curve: TradeoffCurve | None,
    *,
    audited: str,
    title: str | None = AUTO,
    ax: Axes | None = None,
) -> Axes:
    """Observed error rates as steps, their simultaneous upper bounds, and a certified curve as a band.

    An attack below the band breaks the guarantee; one whose upper bounds reach below it does so with the
    stated confidence.

    Args:
        rates: False-positive and false-negative rates at all thresholds.
        upper: Upper bounds on both, true for all thresholds at once; None for none.
        curve: The certified curve; None for none.
        audited: What was audited, in one line.
        title: Heading of the picture; None for none, "auto" for its own.
        ax: Matplotlib axes to draw on; None for a new figure.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
    """
    axes = styled_axes(ax, SIZE)
    axes.plot([0.0, 1.0], [1.0, 0.0], color=GRAY, linewidth=0.9, dashes=(1, 1.5))
    if curve is not None:
        across, low, high = edges(curve)
        axes.fill_between(across, low, high, color=BLUE, alpha=0.25, linewidth=0.0)
        axes.plot(across, low, color=BLUE, linewidth=1.4, label="no attack gets below: certified")
        axes.fill_between(across, 0.0, low, color=BLUE, alpha=0.06, linewidth=0.0)
    axes.plot(*rates, color=ORANGE, linewidth=1.2, drawstyle="steps-post", label="observed")
    if upper is not None:
        axes.plot(
            *upper,
            color=INK,
            linewidth=0.9,
            dashes=(4, 2),
            label="true rates are below, with confidence",
        )
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the attack")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    question = "Does the run agree with its certificate?"
    finish(axes, question, audited, title=title, **LEGEND_BELOW)
    return axes
