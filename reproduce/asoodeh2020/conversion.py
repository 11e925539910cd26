"""asoodeh2020, Figure 1: the largest divergence that forces (epsilon, delta), and bounds on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reproduce.drawing import BLUE, GREEN, ORANGE, axes_of, finished
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, number
from sharpdp.curves.renyi.conversion import forcing_level, theorem4_f, theorem4_g

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIRS = ((2.0, 0.5), (5.0, 1.0), (20.0, 2.0))
"""(order, epsilon) of Figure 1; the paper does not say which ones it draws."""

LOW, HIGH, POINTS = 1e-7, 0.999, 200
"""Smallest delta that is drawn, largest delta times the order, and how many between."""


def levels(order: float, epsilon: float) -> dict[str, Any]:
    """Theorems 3 and 4 at some deltas, and at all that are drawn."""
    some = np.array([1e-6, 1e-3, 0.5 / order])
    many = np.geomspace(LOW, HIGH / order, POINTS)
    bounds = {"f": theorem4_f, "g": theorem4_g, "optimal": forcing_level}
    return {
        "order": order,
        "epsilon": epsilon,
        "deltas": [some.tolist(), many.tolist()],
        **{
            name: [np.asarray(one(order, epsilon, x)).tolist() for x in (some, many)]
            for name, one in bounds.items()
        },
    }


def values(size: str) -> list[dict[str, Any]]:
    """Figure 1; quickly, its first pair."""
    return each(levels, PAIRS[:1] if size == QUICK else PAIRS)


def tables(known: list[dict[str, Any]]) -> list[Table]:
    """Three deltas for each pair."""
    rows = []
    for one in known:
        parts = zip(one["deltas"][0], one["f"][0], one["g"][0], one["optimal"][0], strict=True)
        for delta, *levels_ in parts:
            name = [number(one["order"]), number(one["epsilon"]), number(delta)]
            share = max(levels_[:2]) / levels_[2]
            rows.append([*name, *(number(x) for x in levels_), f"{100.0 * share:.1f}%"])
    headings = ("order", "ε", "δ", "Theorem 4, f", "Theorem 4, g", "Theorem 3", "max(f, g) / Thm 3")
    return [Table("The largest divergence that forces (ε, δ)", headings, rows)]


def draw(canvas: Figure, known: list[dict[str, Any]]) -> None:
    """delta at each level."""
    (axes,) = axes_of(canvas)
    for one, color in zip(known, (BLUE, ORANGE, GREEN), strict=False):
        bound = np.maximum(one["f"][1], one["g"][1])
        name = f"order {one['order']:g}, ε = {one['epsilon']:g}"
        deltas = one["deltas"][1]
        axes.plot(one["optimal"][1], deltas, color=color, label=f"{name}: Theorem 3, optimal")
        axes.plot(bound, deltas, color=color, linestyle=":", label=f"{name}: Theorem 4")
    axes.set(xscale="log", yscale="log")
    axes.set_xlabel("Rényi divergence")
    axes.set_ylabel("smallest δ that it still proves")
    finished(canvas, "From a Rényi divergence to δ", axes)
