"""Pictures of one answer: the trade-off curve and the privacy profile, drawn as bands."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.curves.tradeoff.bands import Array, profile_band, sampled, tradeoff_band
from sharpdp.plots.style import (
    AUTO,
    BLUE,
    FIGURE_SIZE,
    GRAY,
    LEGEND_BELOW,
    ORANGE,
    finish,
    scaled,
    styled_axes,
    write,
)
from sharpdp.questions.account import Guarantee

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["profile", "save", "tradeoff"]

CURVE_POINTS = 201
"""Points at which a band is drawn; between its nodes it costs nothing."""

TRADEOFF_SIZE = (5.6, 6.7)
"""Inches of a new figure of the trade-off curve."""


def tradeoff(guarantee: Guarantee, ax: Axes | None = None, *, title: str | None = AUTO) -> Axes:
    """The trade-off curve of an answer as a band.

    The curve is the convex trade-off function of the guarantee: no attack on any two neighbors, in
    either direction, gets below the lower edge at any false-positive rate. Beside it: perfect
    privacy, and Gaussian noise under which the best attacker has the same advantage. The inset
    shows the true-positive rate at small false-positive rates.

    Args:
        guarantee: The answer, from `account`.
        ax: Matplotlib axes to draw on; None for a new figure.
        title: Heading of the picture; None for none, "auto" for its own.

    Returns:
        The axes.

    Raises:
        MissingExtra: matplotlib is not installed.
        WrongType: ax is neither axes of matplotlib nor None.
        NotCertified: An answer that the picture needs cannot be given with a proof.
    """
    axes = styled_axes(ax, TRADEOFF_SIZE)
    samples = sampled(guarantee)
    mu = _same_advantage(float(samples.upper[0]))
    fpr = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, CURVE_POINTS))  # closer at both ends
    _references(axes, fpr, 1.0 - fpr, _gaussian_tradeoff(mu, fpr), mu)
    _band(axes, fpr, *tradeoff_band(samples, fpr), _label(guarantee))
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the best attack")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    finish(axes, "What can an attacker tell?", _run(guarantee), title=title, **LEGEND_BELOW)

    inset = styled_axes(axes.inset_axes((0.59, 0.56, 0.39, 0.38)))
    limits = (1e-6, 1.0)
    fpr = np.geomspace(*limits, CURVE_POINTS)
    lower, upper = tradeoff_band(samples, fpr)
    _references(inset, fpr, fpr, 1.0 - _gaussian_tradeoff(mu, fpr), mu)
    _band(inset, fpr, 1.0 - upper, 1.0 - lower, "")
    inset.set(xlim=limits, ylim=limits, xscale="log", yscale="log")
    small = 0.8 * scaled(9.0)
    inset.set_title("true-positive rate, few false positives", fontsize=small, color=GRAY)
    inset.tick_params(labelsize=small)
    return axes


def profile(guarantee: Guarantee, ax: Axes | None = None, *, title: str | None = AUTO) -> Axes:
    """The privacy profile, delta against epsilon on a logarithmic axis, as a band.

    Args:
        guarantee: The answer, from `account`.
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
    smallest = 1e-12  # the profile is drawn down to this delta
    top = max(float(guarantee.rough_upper().advantage()), smallest)
    decades = math.ceil(math.log10(top / smallest))
    shares = 10.0 ** -np.arange(0.5, decades, 1.5)
    samples = sampled(guarantee, (*shares, smallest / top))
    epsilon = np.linspace(0.0, float(samples.epsilon[-1]), CURVE_POINTS)
    epsilon = np.union1d(epsilon, samples.epsilon)
    floor = 0.1 * smallest  # below the axis
    lower, upper = (np.maximum(edge, floor) for edge in profile_band(samples, epsilon))
    _band(axes, epsilon, lower, upper, _label(guarantee))
    # a little beyond the curve, which may end in a vertical drop
    axes.set(xlim=(0.0, 1.03 * float(epsilon[-1])), ylim=(smallest, 1.0), yscale="log")
    axes.set_xlabel("epsilon")
    axes.set_ylabel("smallest delta")
    finish(axes, "How private is it?", _run(guarantee), title=title, loc="lower left")
    return axes


def save(guarantee: Guarantee, path: str | Path, *, draw: Callable[..., Axes] = tradeoff) -> None:
    """Draw a picture of an answer into a file. No window is opened, no figure stays open.

    Args:
        guarantee: The answer, from `account`.
        path: File to write, whose name ends in .svg, .png or .pdf.
        draw: Which picture: `tradeoff` or `profile`.

    Raises:
        InvalidArgument: The name has another ending, or the file cannot be written.
        MissingExtra: matplotlib is not installed.
        NotCertified: An answer that the picture needs cannot be given with a proof.
    """
    size = FIGURE_SIZE if draw is profile else TRADEOFF_SIZE
    write(path, size, lambda ax: draw(guarantee, ax=ax))


def _run(guarantee: Guarantee) -> str:
    """The mechanism and its neighbors, in words."""
    return f"{guarantee.mechanism.describe()}; {guarantee.neighbors}"


def _same_advantage(advantage: float) -> float:
    """The mu of Gaussian noise with this advantage, 2 Phi(mu/2) - 1; 0 or inf at the ends."""
    if advantage <= 0.0 or advantage >= 1.0:
        return 0.0 if advantage <= 0.0 else math.inf
    return -2.0 * NormalDist().inv_cdf(0.5 * (1.0 - advantage))


def _gaussian_tradeoff(mu: float, fpr: Array) -> Array:
    """The trade-off function of Gaussian noise: Phi(Phi^-1(1 - fpr) - mu)."""
    normal = NormalDist()
    rates = np.clip(fpr, np.finfo(float).tiny, 1.0).tolist()
    return np.array([normal.cdf(-normal.inv_cdf(x) - mu) if x < 1.0 else 0.0 for x in rates])


def _label(guarantee: Guarantee) -> str:
    """The label of the band: enclosed on both sides, or on the upper side of epsilon only."""
    sides = "bracket" if guarantee.lower_derivations else "bound, no lower side is known"
    return f"{guarantee.mechanism.label}: {sides}, {guarantee.rigor}"


def _references(axes: Axes, across: Array, perfect: Array, gaussian: Array, mu: float) -> None:
    """Curves beside the band: perfect privacy, and Gaussian noise."""
    axes.plot(
        across, perfect, color=GRAY, linewidth=1.0, dashes=(1.5, 1.5), label="perfect privacy"
    )
    if mu == 0.0 or math.isinf(mu):
        return
    label = f"Gaussian noise of the same advantage (μ = {mu:.3g})"
    axes.plot(across, gaussian, color=ORANGE, linewidth=1.1, dashes=(4, 4), zorder=3, label=label)


def _band(axes: Axes, across: Array, lower: Array, upper: Array, label: str) -> None:
    """A filled band between two thin edges; where it is narrower than a line, a line."""
    axes.fill_between(across, lower, upper, color=BLUE, alpha=0.25, linewidth=0.0)
    axes.plot(across, upper, color=BLUE, linewidth=1.2)
    axes.plot(across, lower, color=BLUE, linewidth=1.2, label=label)
