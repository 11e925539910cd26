"""A gallery: the trade-off curves of twelve mechanisms in one style, as a picture and a table.

Every band holds at every false-positive rate: its lower edge is what all attacks are held to, its upper
edge what some attack achieves.
"""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from reproduce.drawing import BLUE, GRAY, INK, ORANGE, axes_of
from reproduce.progress import each
from reproduce.sheets import QUICK, Item, Paper, Table, bracket
from sharpdp.plots.curves import edges
from sharpdp.plots.style import matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (7.6, 6.7)
"""Inches: the width of a published page."""

ROWS, COLUMNS = 3, 4
WIDTH = 2e-3
"""How far apart the two edges are at most where both sides are known."""

BAND = 0.28
RATES = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 101))


def mechanisms() -> dict[str, dp.Mechanism]:
    """What is drawn, by its name in the picture."""
    data: dict[str, Any] = {"dataset_size": 60_000, "batch_size": 512}
    poisson = dp.PoissonBatches(**data, epochs=30)
    shuffled = dp.ShuffledBatches(**data, epochs=1)
    bins = dp.BallsAndBins(**data, epochs=1)
    different = dp.ShuffledReports(users=20, local_epsilon=2.0, randomizer="individual")
    return {
        "Gaussian noise\nnoise multiplier 1": dp.Gaussian(noise_multiplier=1.0),
        "Laplace noise\nscale 1": dp.Laplace(scale=1.0),
        "randomized response\n16 categories, ε = 3": dp.RandomizedResponse(
            local_epsilon=3.0, categories=16
        ),
        "any (½, 0.1)-DP\nmechanism": dp.ApproximateDP(epsilon=0.5, delta=0.1),
        "three (ε, δ) points\nand nothing else": dp.TradeoffCurve.from_points(
            epsilons=[0.0, 1.0, 2.0], deltas=[0.4, 0.15, 1e-3]
        ),
        "one outcome\ngives it away": dp.FinitePair(p=(0.3, 0.4, 0.3), q=(0.5, 0.5, 0.0)),
        "½-zCDP, known by its\nRényi divergences": dp.RenyiCurve.zcdp(rho=0.5),
        "DP-SGD, 30 epochs of\nPoisson batches": dp.DPSGD(poisson, noise_multiplier=0.8),
        "DP-SGD, one epoch of\nshuffled batches": dp.DPSGD(shuffled, noise_multiplier=0.8),
        "DP-SGD, one epoch of\nballs-and-bins": dp.DPSGD(bins, noise_multiplier=0.8),
        "10,000 shuffled reports\nlocal ε = 4": dp.ShuffledReports(users=10_000, local_epsilon=4.0),
        "20 places, each its own\nrandomizer, local ε = 2": different,
    }


def curve_of(mechanism: dp.Mechanism) -> dp.TradeoffCurve:
    """The curve, which can be asked for a picture or for a number."""
    return mechanism if isinstance(mechanism, dp.TradeoffCurve) else dp.TradeoffCurve.of(mechanism)


def same_advantage(advantage: float) -> float:
    """The mu of Gaussian noise with this advantage, 2 Phi(mu/2) - 1."""
    return -2.0 * NormalDist().inv_cdf(0.5 * (1.0 - advantage))


def panel(axes: Axes, name: str, one: dict[str, Any]) -> None:
    """One curve with its name above it and its advantage in the corner."""
    rates, (lower, upper) = one["rates"], np.array(one["ends"]).T
    least, most = one["readings"][0]
    normal, mu = NormalDist(), same_advantage(most)
    gaussian = [normal.cdf(-normal.inv_cdf(x) - mu) for x in RATES[1:-1]]
    axes.plot([0, 1], [1, 0], color=GRAY, linewidth=0.8, dashes=(1, 1.6))
    axes.plot(RATES, [1.0, *gaussian, 0.0], color=ORANGE, linewidth=0.9, dashes=(4, 2))
    axes.fill_between(rates, lower, upper, color=BLUE, alpha=BAND, linewidth=0.0)
    axes.plot(rates, upper, color=BLUE, linewidth=0.6)
    axes.plot(rates, lower, color=BLUE, linewidth=1.3)
    axes.set_title(name, loc="left", fontsize=8, color=INK, pad=4)
    advantage = dp.Bracket(least, most)
    text = f"{advantage:.3f}" if most - least < 1e-3 else f"{advantage:.2f}"
    axes.text(0.96, 0.94, f"advantage\n{text}", fontsize=7.5, color=GRAY, ha="right", va="top")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axes.tick_params(labelsize=7, length=2)
    ticks: Any = ["0", "½", "1"]
    axes.set_xticklabels(ticks)
    axes.set_yticklabels(ticks)


def drawn_panels(place: int, width: float) -> dict[str, Any]:
    """One mechanism: its edges, its advantage, and other readings of its curve."""
    name, mechanism = list(mechanisms().items())[place]
    asked = curve_of(mechanism)
    curve, found = asked.refined(width=width), asked.advantage()
    others = (curve.fixed_point(), curve.area(), curve.divergence("squared hellinger"))
    rates, lower, upper = edges(curve)
    return {
        "name": name,
        "rates": np.asarray(rates).tolist(),
        "ends": np.stack([lower, upper], 1).tolist(),
        "readings": [[float(one.lower), float(one.upper)] for one in (found, *others)],
    }


def values(size: str) -> list[dict[str, Any]]:
    """All mechanisms; quickly, the first row."""
    rows = 1 if size == QUICK else ROWS
    return each(drawn_panels, [(place, WIDTH) for place in range(rows * COLUMNS)])


def tables(known: list[dict[str, Any]]) -> list[Table]:
    """Four readings of every curve."""
    rows = [
        [one["name"].replace("\n", " "), *(bracket(ends, 4) for ends in one["readings"])]
        for one in known
    ]
    headings = ("mechanism", "advantage", "fixed point", "area", "squared Hellinger")
    return [Table("", headings, rows)]


def draw(canvas: Figure, known: list[dict[str, Any]]) -> None:
    """All panels in one picture, with one legend above them."""
    grid = axes_of(canvas, len(known) // COLUMNS, COLUMNS, sharex=True, sharey=True)
    for letter, axes, one in zip("abcdefghijkl", grid, known, strict=False):
        panel(axes, f"{letter}  {one['name']}", one)
    canvas.supxlabel("false-positive rate of the attack", fontsize=9)
    canvas.supylabel("false-negative rate of the best attack", fontsize=9)
    patches, lines = matplotlib("patches"), matplotlib("lines")
    canvas.legend(
        handles=[
            patches.Patch(facecolor=BLUE, alpha=BAND, edgecolor=BLUE, label="certified bracket"),
            lines.Line2D([], [], color=ORANGE, dashes=(4, 2), label="Gaussian, same advantage"),
            lines.Line2D([], [], color=GRAY, dashes=(1, 1.6), label="perfect privacy"),
        ],
        loc="outside upper center",
        ncols=3,
        frameon=False,
        fontsize=8.5,
    )


CURVES = Item(
    "gallery",
    "Twelve trade-off curves",
    "Attacks against twelve mechanisms, in one style.",
    values,
    tables,
    (
        "Area 1/2 and fixed point 1/2 are perfect privacy. (e) and (g) say nothing about attacks, "
        "(i) and (l) are known between two theorems; the edges of all others are at most 0.002 "
        "apart, and further digits are to be had by asking for them.",
    ),
    draw,
    SIZE,
)
PAPER = Paper("gallery", "The gallery of trade-off curves", (), (CURVES,))
