"""bok2024, Figure 1 and Table 1: the last iterate of full and of cyclic gradient descent.

Published are the formulas, and the numbers that they give; here they are evaluated as they stand and held
against certified brackets of the same runs, whose lower ends are attained by linear losses.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import sharpdp as dp
from reproduce.cache import once
from reproduce.drawing import BLUE, GREEN, ORANGE, axes_of, band, finished
from reproduce.sheets import QUICK, Table, bracket, number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DELTA = 1e-5
STEPS, CONTRACTION, MOVE = (10, 20, 40, 80, 160), 0.95, 0.1
"""Figure 1: numbers of steps, c, and L / (n sigma)."""

EPOCHS, BATCHES = (50, 100, 200), 40
PENALTIES, RATE, NOISE = (0.002, 0.004), 0.05, 3.0
"""Table 1: softmax regression on MNIST in batches of 1500, clipped at 5, with noise 15 on the sum."""


def gaussian_epsilon(mu: float) -> float:
    """Epsilon of mu-GDP, the upper end."""
    return float(dp.account(dp.Gaussian(1.0 / mu)).epsilon(delta=DELTA).upper)


def full_formula(c: float, steps: int) -> float:
    """mu of full-batch descent, in units of one move."""
    return math.sqrt((1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c))


def cyclic_formula(c: float, period: int, epochs: int) -> float:
    """mu of cyclic descent, in units of one move."""
    tail = (1 - c ** (period * (epochs - 1))) / (1 + c ** (period * (epochs - 1)))
    return math.sqrt(1 + c ** (2 * period - 2) * (1 - c**2) / (1 - c**period) ** 2 * tail)


def full(steps: int) -> dict[str, Any]:
    """One point of Figure 1."""
    plan = dp.DeterministicBatches(dataset_size=10, batch_size=10, epochs=steps)
    loss = dp.SmoothLoss(gradient_norm=1.0, smoothness=1.0, regularization=1.0 - CONTRACTION)
    run = dp.LastIterate(plan, noise_multiplier=1.0 / MOVE, learning_rate=1.0, loss=loss)
    truth = dp.account(run).epsilon(delta=DELTA)
    return {
        "steps": steps,
        "every": gaussian_epsilon(MOVE * math.sqrt(steps)),
        "formula": gaussian_epsilon(MOVE * full_formula(CONTRACTION, steps)),
        "truth": [truth.lower, truth.upper],
    }


def figure_values(size: str) -> list[dict[str, Any]]:
    """Figure 1; quickly, two points."""
    return [once(full, steps) for steps in (STEPS[:2] if size == QUICK else STEPS)]


def figure_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Epsilon at the drawn numbers of steps."""
    rows = [
        [str(one["steps"]), number(one["every"]), number(one["formula"]), bracket(one["truth"], 7)]
        for one in values
    ]
    return [Table("ε at δ = 1e-5", ("steps", "every step", "formula", "truth"), rows)]


def draw(canvas: Figure, values: list[dict[str, Any]]) -> None:
    """Epsilon against the number of steps."""
    (axes,) = axes_of(canvas)
    steps = [one["steps"] for one in values]
    for name, label, color in (
        ("every", "every step released", ORANGE),
        ("formula", "the paper's formula", GREEN),
    ):
        axes.plot(
            steps,
            [one[name] for one in values],
            color=color,
            linewidth=1.3,
            label=label,
            marker="+",
        )
    band(axes, steps, [one["truth"] for one in values], "sharpdp, certified bracket", BLUE)
    axes.set(xlabel="steps", ylabel=f"ε at δ = {number(DELTA)}")
    finished(canvas, "The last iterate of full-batch descent, c = 0.95", axes)


def cyclic(epochs: int) -> dict[str, Any]:
    """One row of Table 1, and the same run over shuffled batches."""
    sizes: dict[str, Any] = {"dataset_size": 60_000, "batch_size": 1500, "epochs": epochs}
    move = 2.0 / NOISE
    row: dict[str, Any] = {"epochs": epochs, "every": gaussian_epsilon(move * math.sqrt(epochs))}
    for penalty in PENALTIES:
        loss = dp.SmoothLoss(gradient_norm=5.0, smoothness=32.0, regularization=penalty)
        ends = {}
        for name, scheme in (("truth", dp.DeterministicBatches), ("shuffled", dp.ShuffledBatches)):
            run = dp.LastIterate(
                scheme(**sizes), noise_multiplier=NOISE, learning_rate=RATE, loss=loss
            )
            found = dp.account(run, adjacency="replace-one").epsilon(delta=DELTA)
            ends[name] = [found.lower, found.upper]
        mu = move * cyclic_formula(1.0 - RATE * penalty, BATCHES, epochs)
        row[str(penalty)] = {"mu": mu, "formula": gaussian_epsilon(mu), **ends}
    return row


def table_values(size: str) -> list[dict[str, Any]]:
    """Table 1; quickly, its first row."""
    return [once(cyclic, epochs) for epochs in (EPOCHS[:1] if size == QUICK else EPOCHS)]


def table_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Epsilon for both penalties."""
    rows = []
    for one in values:
        for penalty in PENALTIES:
            found = one[str(penalty)]
            cells = [number(one["every"], 4), number(found["mu"], 4), number(found["formula"], 4)]
            rows.append(
                [
                    str(one["epochs"]),
                    number(penalty),
                    *cells,
                    bracket(found["truth"], 4),
                    number(found["shuffled"][1], 4),
                ]
            )
    headings = (
        "epochs",
        "penalty",
        "every step",
        "μ, formula",
        "ε, formula",
        "truth",
        "shuffled, at most",
    )
    return [Table("ε at δ = 1e-5, replace-one", headings, rows)]
