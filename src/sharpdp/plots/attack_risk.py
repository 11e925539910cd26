"""A picture of risk: what an attack succeeds in, against the chance of guessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sharpdp.plots.style import AUTO, BLUE, GRAY, LEGEND_BELOW, ORANGE, finish, styled_axes
from sharpdp.questions.risk import Risk

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["risk"]


def risk(risk: Risk, ax: Axes | None = None, *, title: str | None = AUTO) -> Axes:
    """The success of the best attack at every chance of guessing, and where the risk was asked.

    The blue line is the largest true-positive rate at a false-positive rate, and the most that anyone
    reconstructs of a secret with that chance. The gray line is guessing.

    Args:
        risk: From `Guarantee.risk`.
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
        NotCertified: An answer that the picture needs cannot be given with a proof.
    """
    axes = styled_axes(ax)
    chance = np.geomspace(1e-4, 1.0, 41)
    success = np.asarray(risk.guarantee.tpr(fpr=chance).upper)
    axes.plot(chance, chance, color=GRAY, linestyle="--", label="guessing")
    axes.fill_between(chance, chance, success, color=BLUE, alpha=0.15, linewidth=0.0)
    axes.plot(chance, success, color=BLUE, label="no attack does better")
    asked = (
        (risk.baseline, risk.reconstruction, f"secret with a chance of {risk.baseline:g}"),
        (1.0 / risk.candidates, risk.singling_out, f"one of {risk.candidates:,} candidates"),
    )
    for (chance_of, bracket, label), marker in zip(asked, "os", strict=True):
        axes.plot([chance_of], [float(bracket)], marker, color=ORANGE, label=label)
    axes.set(xlim=(1e-4, 1.0), ylim=(1e-4, 1.05), xscale="log", yscale="log")
    axes.set_xlabel("chance without the release")
    axes.set_ylabel("largest success with it")
    run = risk.guarantee.mechanism.label
    finish(axes, "What does the release add?", run, title=title, **LEGEND_BELOW)
    return axes
