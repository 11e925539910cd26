"""chua2024, Figures 1 to 7: four ways to make batches, epsilon over the noise or delta over epsilon."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from reproduce.chua2024.peer import DELTA_FIGURES, EPSILON_FIGURES, RECORD
from reproduce.chua2024.schemes import ours, sets_delta, sets_epsilon
from reproduce.drawing import BLUE, GREEN, INK, ORANGE, PURPLE, SKY, axes_of, band, finished, named
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Values = dict[str, Any]

PEER: dict[str, Any] = json.loads(RECORD.read_text("utf-8"))
DRAWS = 4000
"""Draws of each point that is estimated."""

FLOOR, BELOW = 1e-30, 1e-90
"""Deltas are drawn down to the first, far below what others see; smaller ones leave the axes."""

STRIDE = 3
"""From one row of a table to the next."""

STYLES = {
    "S": ("shuffled: the truth is in the band", ORANGE, "-"),
    "D": ("deterministic", INK, (0, (4, 4))),
    "P": ("Poisson", BLUE, "-"),
    "B": ("balls-and-bins", GREEN, (0, (4, 3))),
}
"""How brackets are drawn: those above each other are dashed."""


def point(figure: str, place: float) -> dict[str, Any]:
    """Every scheme at a point of a figure, and the paper's lower bound for shuffled batches."""
    given, at, noise, steps = _question(figure, place)
    schemes = "DP" if figure == "2" else "DPSB"
    found = {scheme: ours(scheme, noise, steps, given, at) for scheme in schemes}
    known: dict[str, Any] = {name: [float(x.lower), float(x.upper)] for name, x in found.items()}
    if figure != "2":
        method = sets_epsilon if given == "delta" else sets_delta
        known["sets"] = method(noise, steps, at)
    if figure in ("6", "7"):
        plan = dp.BallsAndBins(dataset_size=steps, batch_size=1, epochs=1)
        run = dp.DPSGD(plan, noise_multiplier=noise)
        draws = dp.estimate(run, epsilon=at, samples=DRAWS, rng=1)
        known["draws"] = [float(draws.lower), float(draws.upper)]
    return known


def _question(figure: str, place: float) -> tuple[str, float, float, int]:
    """(what is given, its value, noise, steps) at a point of a figure."""
    if figure in EPSILON_FIGURES:
        delta, steps = EPSILON_FIGURES[figure]
        return "delta", delta, place, steps
    noise, steps, _ = DELTA_FIGURES[figure]
    return "epsilon", place, noise, steps


def values(figure: str, size: str) -> Values:
    """A figure at the recorded points; quickly, at the last of them."""
    last = -1 if figure in EPSILON_FIGURES else -2
    some = slice(last if size == QUICK else 0, None)
    kept = {key: PEER[figure][key][some] for key in ("x", "pld", "rdp")}
    return {"figure": figure, **kept, "points": each(point, [(figure, x) for x in kept["x"]])}


def tables(known: Values) -> list[Table]:
    """Every third point."""
    rows = []
    stride = STRIDE if len(known["x"]) > STRIDE else 1
    for place in range(0, len(known["x"]), stride):
        one = known["points"][place]
        cells = [number(known["rdp"][place], 4), number(known["pld"][place], 4)]
        cells += [bracket(one["P"], 4), bracket(one["D"], 4)]
        if "S" in one:
            cells += [number(one["sets"], 4), bracket(one["S"], 4), bracket(one["B"], 4)]
        rows.append([number(known["x"][place]), *cells])
    over = "σ" if known["figure"] in EPSILON_FIGURES else "ε"
    headings = [over, "Poisson, RDP", "Poisson, PLD", "Poisson, truth", "deterministic"]
    if known["figure"] != "2":
        headings += ["shuffled, (7)", "shuffled, truth", "balls-and-bins"]
    what = "ε" if known["figure"] in EPSILON_FIGURES else "δ"
    return [Table(f"{what}, brackets of sharpdp and the paper's bounds", tuple(headings), rows)]


def draw(canvas: Figure, known: Values) -> None:
    """The paper's bounds as thin lines, brackets as bands."""
    (axes,) = axes_of(canvas)
    x, points = known["x"], known["points"]
    for key, label, color, mark in (
        ("rdp", "Poisson by RDP", SKY, ""),
        ("pld", "Poisson by PLD, grid 1e-4", PURPLE, "."),
    ):
        heights = np.maximum(known[key], BELOW)
        axes.plot(x, heights, color=color, linewidth=1.0, marker=mark, label=label)
    for scheme, (label, color, dashes) in STYLES.items():
        if scheme in points[0]:
            ends = [np.maximum(one[scheme], BELOW) for one in points]
            band(axes, x, ends, f"{label} (certified)", color, linewidth=1.5, linestyle=dashes)
    if "sets" in points[0]:
        heights = np.maximum([one["sets"] for one in points], BELOW)
        label = "shuffled, lower bound (7) of the paper"
        axes.plot(x, heights, color=INK, linewidth=1.1, linestyle=":", label=label)
    if "draws" in points[0]:
        lower, upper = np.array([one["draws"] for one in points]).T
        middle = np.sqrt(lower * upper)
        style: dict[str, Any] = {"fmt": "D", "color": GREEN, "markersize": 3.0}
        style["label"] = f"balls-and-bins by {DRAWS} draws (99%)"
        axes.errorbar(x, middle, [middle - lower, upper - middle], **style)
    axes.set(yscale="log", xmargin=0.0)
    _labels(axes, known)
    finished(canvas, "The same noise, four ways to make batches", axes)


def _labels(axes: Axes, known: Values) -> None:
    """What the axes mean, their limits, and what is fixed."""
    schemes = [scheme for scheme in STYLES if scheme in known["points"][0]]
    lower = [one[scheme][0] for one in known["points"] for scheme in schemes]
    smallest = min(x for x in lower if x > 0.0)
    figure = known["figure"]
    if figure in EPSILON_FIGURES:
        delta, steps = EPSILON_FIGURES[figure]
        axes.set(xlabel="noise multiplier σ", ylabel=f"ε at δ = {number(delta)}")
        axes.set_ylim(0.5 * smallest, 40.0)
        named(axes, f"one epoch of {steps:,} steps")
    else:
        noise, steps, _ = DELTA_FIGURES[figure]
        axes.set(xlabel="ε", ylabel="δ")
        axes.set_ylim(max(0.3 * smallest, FLOOR), 3.0)
        named(axes, f"σ = {noise:g}, one epoch of {steps:,} steps")
