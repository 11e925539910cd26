"""Pictures of an answer: the trade-off curve and the privacy profile, drawn as bands.

Needs the extra `plots` (matplotlib). A band is true between the points at which the answer was
asked, not only at them: both curves follow from the privacy profile H(x) = delta at x = e^epsilon,
which is convex in x on the whole line, so its chords lie above it and its extended chords below.
"""

from __future__ import annotations

import importlib
import itertools
import math
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from sharpdp.account import Guarantee
from sharpdp.bracket import Rigor
from sharpdp.errors import InvalidArgument, MissingExtra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["profile", "save", "tradeoff"]

Array = NDArray[np.float64]

BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#5f5f5f", "#222222"
"""The first two, of Okabe and Ito, are told apart by colour-blind readers and in grey print."""

BAND = 0.25
"""How opaque a band is between its two edges."""

LEVELS = (0.5, 0.1, 1e-2, 1e-4, 1e-7)
"""The profile is asked between the epsilons at which delta falls to these shares of delta(0)."""

NODES_PER_LEVEL = 10
"""How often, between two of those epsilons. A question costs some milliseconds."""

SMALLEST_DELTA = 1e-12
"""The privacy profile is drawn down to this delta."""

SMALLEST_FPR = 1e-6
"""The inset of the trade-off curve begins at this false-positive rate."""

LARGEST_EPSILON = 600.0
"""Beyond this, e^epsilon leaves double precision."""

BEYOND = 1.15
"""How far the picture of a delta goes that levels out, beyond the last fall."""

CURVE_POINTS = 201
"""Points at which a band is drawn; between its nodes it costs nothing."""

TRADEOFF_SIZE, PROFILE_SIZE = (5.6, 6.7), (6.0, 4.6)
"""Inches of a new figure."""

PIXELS_PER_INCH, MARGIN = 160, 0.12
"""Resolution of a new figure, and its margin in inches."""

BELOW = {"loc": "upper left", "bbox_to_anchor": (-0.02, -0.10)}
"""A legend under the label of the horizontal axis."""

FORMATS = (".svg", ".png", ".pdf")
"""Kinds of files that a picture is saved to."""

ROOM = 1.03
"""The axis of epsilon goes a little beyond the curve, which may end in a vertical drop."""

LINE = 78
"""Characters of a line below the title."""


def tradeoff(guarantee: Guarantee, ax: Axes | None = None) -> Axes:
    """The trade-off curve as a band, on the given axes or new ones.

    The curve is the convex trade-off function of the guarantee: no attack on any two neighbours, in
    either direction, gets below the lower edge at any false-positive rate. Beside it: perfect
    privacy, and Gaussian noise under which the best attacker has the same advantage. The inset
    shows the true-positive rate at small false-positive rates.
    """
    axes = _house(ax, TRADEOFF_SIZE)
    samples = _sampled(guarantee, LEVELS)
    mu = _same_advantage(float(samples.upper[0]))
    fpr = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, CURVE_POINTS))  # closer at both ends
    _references(axes, fpr, 1.0 - fpr, _gaussian_tradeoff(mu, fpr), mu)
    _band(axes, fpr, *tradeoff_band(samples, fpr), _label(guarantee))
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the best attack")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    _finish(axes, "What can an attacker tell?", guarantee, **BELOW)

    inset = _house(axes.inset_axes((0.59, 0.56, 0.39, 0.38)))
    fpr = np.geomspace(SMALLEST_FPR, 1.0, CURVE_POINTS)
    lower, upper = tradeoff_band(samples, fpr)
    _references(inset, fpr, fpr, 1.0 - _gaussian_tradeoff(mu, fpr), mu)
    _band(inset, fpr, 1.0 - upper, 1.0 - lower, "")
    inset.set(xlim=(SMALLEST_FPR, 1.0), ylim=(SMALLEST_FPR, 1.0), xscale="log", yscale="log")
    inset.set_title("true-positive rate, few false positives", fontsize=7.5, color=GREY)
    inset.tick_params(labelsize=7)
    return axes


def profile(guarantee: Guarantee, ax: Axes | None = None) -> Axes:
    """The privacy profile, delta against epsilon on a logarithmic axis, as a band."""
    axes = _house(ax, PROFILE_SIZE)
    top = max(float(guarantee.advantage()), SMALLEST_DELTA)
    decades = math.ceil(math.log10(top / SMALLEST_DELTA))
    shares = 10.0 ** -np.arange(0.5, decades, 1.5)
    samples = _sampled(guarantee, (*shares, SMALLEST_DELTA / top))
    epsilon = np.linspace(0.0, float(samples.epsilon[-1]), CURVE_POINTS)
    epsilon = np.union1d(epsilon, samples.epsilon)
    floor = 0.1 * SMALLEST_DELTA  # below the axis
    lower, upper = (np.maximum(edge, floor) for edge in profile_band(samples, epsilon))
    _band(axes, epsilon, lower, upper, _label(guarantee))
    axes.set(xlim=(0.0, ROOM * float(epsilon[-1])), ylim=(SMALLEST_DELTA, 1.0), yscale="log")
    axes.set_xlabel("epsilon")
    axes.set_ylabel("smallest delta")
    _finish(axes, "How private is it?", guarantee, loc="lower left")
    return axes


def save(guarantee: Guarantee, path: str | Path, *, draw: Callable[..., Axes] = tradeoff) -> None:
    """Draw a picture into a file: .svg, .png or .pdf. No window is opened, no figure stays open."""
    place = Path(path)
    if place.suffix.lower() not in FORMATS:
        raise InvalidArgument(f"output must end in {', '.join(FORMATS)}; got {place.name!r}.")
    size = PROFILE_SIZE if draw is profile else TRADEOFF_SIZE
    figure = _matplotlib("figure").Figure(size, PIXELS_PER_INCH, layout="constrained")
    figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)
    draw(guarantee, ax=figure.add_subplot())
    try:
        figure.savefig(place)
    except OSError as wrong:
        raise InvalidArgument(
            f"output must be a file that can be written; got {str(place)!r}: {wrong.strerror}."
        ) from wrong


@dataclass(frozen=True)
class Samples:
    """The privacy profile at some epsilons from 0 on: delta between lower and upper."""

    epsilon: Array
    lower: Array
    upper: Array

    def whole_line(self) -> tuple[Array, Array, Array]:
        """(x, lower, upper) of H at x = 0, e^-epsilon and e^epsilon, ascending in x.

        H(0) = 1, and H(1/x) = 1 - 1/x + H(x)/x for the worse of both directions.
        """
        x = np.exp(self.epsilon)
        inverse = np.exp(-self.epsilon[:0:-1])
        ends = [
            np.concatenate([[1.0], 1.0 - inverse + inverse * one[:0:-1], one])
            for one in (self.lower, self.upper)
        ]
        return np.concatenate([[0.0], inverse, x]), ends[0], ends[1]


def tradeoff_band(samples: Samples, fpr: Array) -> tuple[Array, Array]:
    """(lower, upper) of the trade-off function f(a) = max over x of 1 - H(x) - x a, for all a.

    Each x with H <= upper gives a line below f. Above f: H is at least its extended chords, so the
    maximum is at most that over the corners of those.

    >>> known = Samples(np.array([0.0]), np.array([0.25]), np.array([0.25]))
    >>> [float(end[0]) for end in tradeoff_band(known, np.array([0.5]))]
    [0.25, 0.375]
    """
    x, low, high = samples.whole_line()
    corners, at_corners = _corners(x, low, high)
    below = np.max(1.0 - high[:, None] - x[:, None] * fpr, axis=0)
    above = np.max(1.0 - at_corners[:, None] - corners[:, None] * fpr, axis=0)
    lower = np.clip(below, 0.0, 1.0 - fpr)
    return lower, np.clip(above, lower, 1.0 - fpr)


def profile_band(samples: Samples, epsilon: Array) -> tuple[Array, Array]:
    """(lower, upper) of the profile at every epsilon: extended chords below it, chords above."""
    x, low, high = samples.whole_line()
    at = np.exp(epsilon)
    left, right = _extended_chords(x, low, high)
    piece = np.clip(np.searchsorted(x, at, side="right") - 1, 0, len(x) - 2)
    below = np.maximum(
        low[piece] + left[piece] * (at - x[piece]),
        low[piece + 1] + right[piece] * (at - x[piece + 1]),
    )
    upper = np.interp(at, x, high)
    return np.clip(below, 0.0, upper), upper


def _extended_chords(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """Slopes of lines below H on each piece: one through its left end, one through its right end.

    A convex function runs, to the right of a chord, above its extension; the chord that uses the
    upper value at its far end is the lower one. At x = 0 the slope is at least -1, far right it
    is at most 0.
    """
    step = np.diff(x)
    left = np.concatenate([[-1.0], (low[1:-1] - high[:-2]) / step[:-1]])
    right = np.concatenate([(high[2:] - low[1:-1]) / step[1:], [0.0]])
    return np.minimum(left, 0.0), np.minimum(right, 0.0)


def _corners(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The corners (x, H) of the lower outline of H: its nodes, and where extended chords meet.

    Beyond the last node the last chord is extended until it reaches 0, which H does not undercut.
    """
    left, right = _extended_chords(x, low, high)
    step = np.diff(x)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        meet = np.nan_to_num((low[:-1] - low[1:] + right * step) / (right - left))
        end = x[-1] + low[-1] * step[-1] / max(high[-2] - low[-1], 0.0)
    meet = x[:-1] + np.clip(meet, 0.0, step)
    at_meet = np.maximum(low[:-1] + left * (meet - x[:-1]), low[1:] + right * (meet - x[1:]))
    ends = [float(end)] if np.isfinite(end) else []
    corners = np.concatenate([x, meet, ends])
    return corners, np.concatenate([low, at_meet, np.zeros(len(ends))])


def _sampled(guarantee: Guarantee, shares: tuple[float, ...]) -> Samples:
    """The profile at epsilons that are closer together where delta changes more."""
    marks = _marks(guarantee, shares)
    pieces = [np.linspace(a, b, NODES_PER_LEVEL + 1) for a, b in itertools.pairwise(marks)]
    nodes = np.unique(np.concatenate(pieces))
    delta = guarantee.delta(epsilon=nodes)
    return Samples(nodes, np.asarray(delta.lower), np.asarray(delta.upper))


def _marks(guarantee: Guarantee, shares: tuple[float, ...]) -> list[float]:
    """0, and the epsilons at which delta falls to these shares of delta(0), ascending.

    If it never falls that far, the last one lies a little beyond the others.
    """
    top = float(guarantee.advantage())
    if top == 0.0:
        return [0.0, 1.0]
    found = np.asarray(guarantee.epsilon(delta=top * np.array(shares)).upper)
    finite = np.minimum(found[np.isfinite(found)], LARGEST_EPSILON)
    marks: list[float] = np.unique(np.append(finite, 0.0)).tolist()
    if len(marks) == 1 or len(finite) < len(found):
        marks.append(BEYOND * marks[-1] or 1.0)
    return marks


def _same_advantage(advantage: float) -> float:
    """The mu of Gaussian noise with this advantage, 2 Phi(mu/2) - 1; 0 or inf at the ends."""
    if advantage <= 0.0 or advantage >= 1.0:
        return 0.0 if advantage <= 0.0 else math.inf
    return -2.0 * NormalDist().inv_cdf(0.5 * (1.0 - advantage))


def _gaussian_tradeoff(mu: float, fpr: Array) -> Array:
    """The trade-off function of Gaussian noise: Phi(Phi^-1(1 - fpr) - mu)."""
    normal = NormalDist()
    inner = np.clip(fpr, np.finfo(float).tiny, 1.0).tolist()
    return np.array([normal.cdf(-normal.inv_cdf(a) - mu) if a < 1.0 else 0.0 for a in inner])


def _label(guarantee: Guarantee) -> str:
    """What the band is: enclosed on both sides, or on the upper side of epsilon only."""
    rigor = Rigor.weakest(one.rigor for one in guarantee.bounds)
    sides = "bracket" if guarantee.lower_routes else "bound, no lower side is known"
    return f"{guarantee.mechanism.label} ({rigor} {sides})"


def _matplotlib(module: str) -> Any:
    """A module of matplotlib, imported when it is needed; MissingExtra if there is none."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as missing:
        raise MissingExtra(
            "matplotlib is needed to draw and is not installed: pip install sharpdp[plots]"
        ) from missing


def _house(ax: Axes | None, size: tuple[float, float] = PROFILE_SIZE) -> Axes:
    """The given axes, or new ones, in the one style of all pictures."""
    axes: Any = ax
    if axes is None:
        figure, axes = _matplotlib("pyplot").subplots(
            figsize=size, dpi=PIXELS_PER_INCH, layout="constrained"
        )
        figure.get_layout_engine().set(w_pad=MARGIN, h_pad=MARGIN)
    axes.grid(visible=True, color="#e6e6e6", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["bottom", "left"]].set_color(GREY)
    axes.tick_params(colors=INK, labelsize=9, length=3, which="major")
    axes.tick_params(length=0, which="minor")
    return cast("Axes", axes)


def _references(axes: Axes, across: Array, perfect: Array, gaussian: Array, mu: float) -> None:
    """What the band is compared with: perfect privacy, and Gaussian noise."""
    axes.plot(
        across, perfect, color=GREY, linewidth=1.0, dashes=(1.5, 1.5), label="perfect privacy"
    )
    if mu == 0.0 or math.isinf(mu):
        return
    label = f"Gaussian noise of the same advantage (μ = {mu:.3g})"
    axes.plot(across, gaussian, color=ORANGE, linewidth=1.1, dashes=(4, 4), zorder=3, label=label)


def _band(axes: Axes, across: Array, lower: Array, upper: Array, label: str) -> None:
    """A filled band between two thin edges; where it is narrower than a line, a line."""
    axes.fill_between(across, lower, upper, color=BLUE, alpha=BAND, linewidth=0.0)
    axes.plot(across, upper, color=BLUE, linewidth=1.2)
    axes.plot(across, lower, color=BLUE, linewidth=1.2, label=label)


def _finish(axes: Axes, question: str, guarantee: Guarantee, **legend: Any) -> None:
    """The question, what was run, and the legend where the picture has room for it."""
    run = textwrap.wrap(f"{guarantee.mechanism.describe()}; {guarantee.adjacency}", LINE)
    heading: dict[str, Any] = {"transform": axes.transAxes, "va": "bottom", "ha": "left"}
    axes.set_title(question, loc="left", fontsize=12, fontweight="bold", pad=8 + 11 * len(run))
    axes.text(0.0, 1.015, "\n".join(run), fontsize=8.5, color=GREY, **heading)
    axes.legend(frameon=False, fontsize=8.5, borderpad=0, reverse=True, **legend)
