"""wang2023, Figure 2 and Example D.3: one step of DP-GD from a random start.

Least squares with y = x, x^2 = 1, noise of deviation 1, gradients clipped at c. The paper bounds the step
by releasing its start; that curve is exact if the start is public. The true curves, whose start is
hidden, are computed here by plain quadrature for data of one and of two points. All of it is about this
data set: over arbitrary records the curve is that of the noise alone.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

import sharpdp as dp
from reproduce.drawing import (
    BLUE,
    GREEN,
    ORANGE,
    RATES,
    axes_of,
    band,
    finished,
    tradeoff_axes,
    tradeoff_ends,
    tradeoff_labels,
)
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number, rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
Values = list[dict[str, Any]]

SLOPE = 1.0
CLIPS = (0.5, 1.0, 2.0, 3.0)
"""Clipping norms of the four panels."""

MARGINS = (1.0, 2.0)
"""Bounds on |x y| of the logistic rows."""

SOME_RATES = (0.01, 0.05, 0.1, 0.3, 0.5)
START, STARTS = 9.0, 1801
REACH, RESULTS = 16.0, 2401
"""Ranges and sizes of the two grids on which true curves are computed; good for five digits."""


def run(clip: float, start: str) -> dp.RandomlyInitializedGD:
    """The step of Figure 2."""
    return dp.RandomlyInitializedGD.least_squares(
        slope=SLOPE, clip=clip, claim="instance", initialization=start
    )


def noise_alone(clip: float, fpr: Array) -> Array:
    """G_c, the curve of c-GDP."""
    return np.asarray(ndtr(-ndtri(fpr) - clip))


def truth(points: int, clip: float, fpr: Array) -> Array:
    """The curve of data with so many points against one fewer, start hidden; the worse direction."""
    start = np.linspace(-START, START, STARTS)
    weight = np.exp(-0.5 * start**2) * (start[1] - start[0]) / np.sqrt(2.0 * np.pi)
    result = np.linspace(-REACH, REACH, RESULTS)
    step = (result[1] - result[0]) / np.sqrt(2.0 * np.pi)
    gradient = np.clip(start - SLOPE, -clip, clip)
    one, other = (
        step * np.exp(-0.5 * (result[:, None] - start + count * gradient) ** 2) @ weight
        for count in (points, points - 1)
    )
    return np.minimum(_tested(one, other, fpr), _tested(other, one, fpr))


def _tested(null: Array, alternative: Array, fpr: Array) -> Array:
    order = np.argsort(null / alternative, kind="stable")
    rates = np.append(0.0, np.cumsum(null[order]))
    return np.interp(fpr, rates, 1.0 - np.append(0.0, np.cumsum(alternative[order])))


def panel(clip: float) -> dict[str, Any]:
    """One panel: every curve at some rates and at all that are drawn."""
    answer = dp.account(run(clip, "public"))
    some, many = np.array(SOME_RATES), np.array(RATES)
    found, advantage, delta = answer.fnr(fpr=some), answer.advantage(), answer.delta(epsilon=1.0)
    alone = None if clip == inf else dp.account(dp.Gaussian(1.0 / clip)).delta(epsilon=1.0)
    return {
        "clip": clip,
        "released": [
            np.stack([found.lower, found.upper], 1).tolist(),
            tradeoff_ends(answer, RATES),
        ],
        "alone": [noise_alone(min(clip, REACH), rates).tolist() for rates in (some, many)],
        "hidden": [
            [truth(points, clip, rates).tolist() for rates in (some, many)] for points in (1, 2)
        ],
        # a symmetric curve meets the diagonal where its slope is -1, and there 1 - 2 f = delta(0)
        "fixed": [0.5 - 0.5 * advantage.upper, 0.5 - 0.5 * advantage.lower],
        "delta": [delta.lower, delta.upper],
        "delta_alone": None if alone is None else [alone.lower, alone.upper],
    }


def figure_values(size: str) -> Values:
    """Figure 2; quickly, its second panel."""
    return each(panel, [(one,) for one in (CLIPS[1:2] if size == QUICK else (*CLIPS, inf))])


def figure_tables(values: Values) -> list[Table]:
    """The curves at five rates; fixed point and delta of the released start."""
    rows, points = [], []
    for one in values:
        name = "none" if one["clip"] == inf else number(one["clip"])
        points.append([name, bracket(one["fixed"], 7), bracket(one["delta"], 7)])
        if one["delta_alone"] is not None:
            rows.append([name, "noise alone, G_c", *(rate(x) for x in one["alone"][0])])
            points[-1] += [rate(float(ndtr(-0.5 * one["clip"])), 7), bracket(one["delta_alone"], 7)]
        else:
            points[-1] += ["–", "–"]
        rows.append([name, "Theorem 5.1", *(bracket(x, 6) for x in one["released"][0])])
        for count, hidden in zip(("one point", "two points"), one["hidden"], strict=True):
            rows.append([name, f"start hidden, {count}", *(rate(x, 4) for x in hidden[0])])
    rates = tuple(f"f({x:g})" for x in SOME_RATES)
    return [
        Table("False-negative rates", ("clip", "curve", *rates), rows),
        Table(
            "Where f(x) = x, and δ at ε = 1: with the start released, and for the noise alone",
            ("clip", "f(x) = x", "δ(1)", "noise alone: f(x) = x", "noise alone: δ(1)"),
            points,
        ),
    ]


def draw_figure(canvas: Figure, values: Values) -> None:
    """The clipped panels."""
    clipped = [one for one in values if one["clip"] < inf]
    rows, columns = (2, 2) if len(clipped) > 1 else (1, 1)
    grid = axes_of(canvas, rows, columns, sharex=True, sharey=True)
    for axes, one in zip(grid, clipped, strict=True):
        tradeoff_axes(axes, f"gradients clipped at {one['clip']:g}")
        label = "noise alone: c-GDP, holds for all records"
        axes.plot(RATES, one["alone"][1], color=ORANGE, linewidth=1.3, label=label)
        label = "Theorem 5.1, start released (certified bracket)"
        band(axes, RATES, one["released"][1], label, BLUE)
        for count, dashes, place in (("two points", (5.0, 1.5), 1), ("one point", (2.0, 1.5), 0)):
            label = f"start hidden, {count} (quadrature)"
            value = one["hidden"][place][1]
            axes.plot(RATES, value, color=GREEN, linewidth=1.2, dashes=dashes, label=label)
    tradeoff_labels(canvas)
    finished(canvas, "What a random start hides, for these records only", grid[0])


def logistic(margin: float) -> dict[str, Any]:
    """Example D.3 with the factor |x y| that its formula lacks: both sides at some rates."""
    sides = {}
    for start, side in (("hidden", "lower"), ("public", "upper")):
        plan = dp.RandomlyInitializedGD.logistic(
            margin=margin, claim="worst-case", initialization=start
        )
        found = dp.account(plan).fnr(fpr=np.array(SOME_RATES))
        sides[side] = np.asarray(getattr(found, side)).tolist()
    return {"margin": margin, **sides}


def logistic_values(size: str) -> Values:
    """Example D.3; quickly, its first bound."""
    return each(logistic, [(one,) for one in (MARGINS[:1] if size == QUICK else MARGINS)])


def logistic_tables(values: Values) -> list[Table]:
    """Both sides at five rates."""
    rows = []
    for one in values:
        for side, name in (("lower", "all records, >="), ("upper", "one record, <=")):
            rows.append([number(one["margin"]), name, *(rate(x) for x in one[side])])
    return [Table("", ("|xy| <=", "curve", *(f"f({x:g})" for x in SOME_RATES)), rows)]
