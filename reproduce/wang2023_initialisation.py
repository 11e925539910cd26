"""wang2023, Figure 2: one step of DP-GD from a random start, beside the noise alone and the truth.

    python -m reproduce.wang2023_initialisation [--quick]

Least squares with y = x, x^2 = 1, noise of deviation 1, gradients clipped at c. The paper bounds the step
by releasing its start; that curve is exact if the start is public. The true curves, whose start is
hidden, are computed here by plain quadrature for data of one and of two points. All of it is about this
data set: over arbitrary records the curve is that of the noise alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from reproduce.sheets import bracket, options, picture, remark, table
from scipy.special import ndtr, ndtri

import sharpdp as dp
from sharpdp.plots.bands import sampled, tradeoff_band
from sharpdp.plots.house import BLUE, GREY, ORANGE, finish, house, write

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

SLOPE = 1.0
CLIPS = (0.5, 1.0, 2.0, 3.0)
"""Clipping norms of the four panels."""

MARGINS = (1.0, 2.0)
"""Bounds on |x y| of the logistic rows."""

RATES = (0.01, 0.05, 0.1, 0.3, 0.5)
GREEN = "#009E73"

START, STARTS = 9.0, 1801
REACH, RESULTS = 16.0, 2401
"""Ranges and sizes of the two grids on which true curves are computed; good for five digits."""


def run(clip: float, start: str) -> dp.RandomlyInitialisedGD:
    """The step of Figure 2."""
    return dp.RandomlyInitialisedGD.least_squares(
        slope=SLOPE, clip=clip, claim="instance", initialisation=start
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


def second_figure(clips: tuple[float, ...]) -> None:
    """Figure 2: false-negative rates at five rates, fixed points, delta at epsilon 1; pictures."""
    rates = np.array(RATES)
    rows = []
    for clip in (*clips, np.inf):
        answer = dp.account(run(clip, "public"))
        found = answer.fnr(fpr=rates)
        # a symmetric curve meets the diagonal where its slope is -1, and there 1 - 2 f = delta(0)
        advantage = answer.advantage()
        ends = (0.5 - 0.5 * advantage.upper, 0.5 - 0.5 * advantage.lower)
        delta = answer.delta(epsilon=1.0)
        cells = [bracket(*pair, 7) for pair in zip(found.lower, found.upper, strict=True)]
        rows.append(
            [f"{clip:g}", "start released", *cells, bracket(*ends, 7), f"{delta.upper:.8g}"]
        )
        if clip < np.inf:
            alone = dp.account(dp.Gaussian(1.0 / clip)).delta(epsilon=1.0).upper
            values = [f"{value:.8f}" for value in noise_alone(clip, rates)]
            rows.append(
                ["", "noise alone (G_c)", *values, f"{ndtr(-0.5 * clip):.8f}", f"{alone:.8g}"]
            )
        for points in (1, 2):
            values = [f"{value:.4f}" for value in truth(points, clip, rates)]
            rows.append(["", f"hidden, {points} point{'s' * (points > 1)}", *values, "", ""])
    headings = ["clip", "curve", *(f"f({rate:g})" for rate in RATES), "f(x) = x", "delta(1)"]
    table("Figure 2: least squares with slope 1, noise deviation 1", headings, rows)
    remark(
        "No numbers are printed for Figure 2. The bracket is the curve of Theorem 5.1, exact for a "
        "public start and a lower bound for a hidden one; the true curves lie above it."
    )
    remark(
        "It is a statement about these records: y = x, x^2 = 1, one of them removed. Over arbitrary "
        "records some gradient has the clipping norm at every start, and the curve is that of the "
        "noise alone. The paper's remark after Theorem 5.1 calls the bound instance-based."
    )


def logistic_rows() -> None:
    """Example D.3 with the factor |x y| that its formula lacks."""
    rates, rows = np.array(RATES), []
    for margin in MARGINS:
        for start in ("hidden", "public"):
            found = dp.account(
                dp.RandomlyInitialisedGD.logistic(
                    margin=margin, claim="worst-case", initialisation=start
                )
            ).fnr(fpr=rates)
            side, values = ("upper", found.upper) if start == "public" else ("lower", found.lower)
            name = "one record" if side == "upper" else "all records"
            rows.append([f"{margin:g}", name, *(f"{value:.8f}" for value in values)])
    headings = ["|xy| <=", "curve", *(f"f({rate:g})" for rate in RATES)]
    table("Logistic loss: largest gradient M / (1 + e^(-|I| M)) over all records", headings, rows)
    remark(
        "'all records' is what every attacker is held to, for any record. 'one record' is that of "
        "x y = M with a public start: no record has the largest gradient at every start."
    )


def panel(axes: Axes, clip: float) -> Axes:
    """One panel of Figure 2."""
    house(axes)
    fpr = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 201))
    axes.plot(fpr, 1.0 - fpr, color=GREY, linewidth=1.0, dashes=(1.5, 1.5), label="perfect privacy")
    label = f"noise alone: {clip:g}-GDP, any records"
    axes.plot(fpr, noise_alone(clip, fpr), color=ORANGE, linewidth=1.3, label=label)
    lower, upper = tradeoff_band(sampled(dp.account(run(clip, "public"))), fpr)
    axes.fill_between(fpr, lower, upper, color=BLUE, alpha=0.25, linewidth=0.0)
    axes.plot(fpr, lower, color=BLUE, linewidth=1.3, label="start released (certified bracket)")
    for points, dashes in ((2, (5.0, 1.5)), (1, (2.0, 1.5))):
        label = f"start hidden, {points} point{'s' * (points > 1)} (quadrature)"
        value = truth(points, clip, fpr)
        axes.plot(fpr, value, color=GREEN, linewidth=1.1, dashes=dashes, label=label)
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0), aspect="equal")
    axes.set_xlabel("false-positive rate of the attack")
    axes.set_ylabel("false-negative rate of the best attack")
    said = f"least squares with slope 1, clipped at {clip:g}, noise 1; this instance only"
    finish(axes, "wang2023, Figure 2", said, loc="upper right")
    return axes


def main() -> None:
    """Print the tables, draw the panels."""
    told = options("Figure 2 of wang2023 and its logistic example, beside the truth")
    clips = CLIPS[1::2] if told.quick else CLIPS
    second_figure(clips)
    logistic_rows()
    for clip in clips:
        path = picture(f"wang2023-figure2-{clip:g}.png")
        write(path, (5.6, 5.9), lambda axes, clip=clip: panel(axes, clip))


if __name__ == "__main__":
    main()
