"""choquette2025: the example of the authors' program, and how far plain and tilted draws reach."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import sharpdp as dp
from reproduce.cache import once
from reproduce.drawing import BLUE, GREEN, ORANGE, axes_of, band, finished
from reproduce.sheets import QUICK, Table, bracket, number
from sharpdp.questions.estimate.correlated_bins import CorrelatedBinsRun
from sharpdp.questions.estimate.draws import payoff
from sharpdp.questions.estimate.experiment import PLAIN, Direction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS, EPOCHS, EPSILON, DELTA = 10, 10, 1.0, 1e-2
PROGRAM = 3.74465
"""What `examples/balls_in_bins_accounting.py` of jax-privacy (8967688c) prints."""

NOISE, SAMPLES = 3.0, 100_000
DELTAS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10)


def run(noise: float) -> dp.CorrelatedNoise:
    """The run of the example."""
    column = np.array([8.0, 4.0, 2.0, 1.0]) / np.sqrt(85.0)
    plan = dp.BallsAndBins(dataset_size=BINS, batch_size=1, epochs=EPOCHS, order="kept")
    return dp.CorrelatedNoise(
        plan, strategy=dp.BandedStrategy(coefficients=column), noise_multiplier=noise
    )


def needed(samples: int) -> dict[str, float]:
    """Noise multipliers for the target of the example."""
    fixed = dp.DeterministicBatches(dataset_size=BINS, batch_size=1, epochs=EPOCHS)

    def revealed(noise: float) -> dp.CorrelatedNoise:
        return dp.CorrelatedNoise(fixed, strategy=run(1.0).strategy, noise_multiplier=noise)

    low, high = 1.0, 8.0
    while high / low > 1.001:
        middle = (low * high) ** 0.5
        found = dp.estimate(run(middle), epsilon=EPSILON, samples=samples, rng=1)
        low, high = (low, middle) if found.upper <= DELTA else (middle, high)
    return {
        "revealed": float(dp.calibrate(revealed, epsilon=EPSILON, delta=DELTA)),
        "certified": float(dp.calibrate(run, epsilon=EPSILON, delta=DELTA)),
        "draws": high,
    }


def example_values(size: str) -> dict[str, float]:
    """The noise multipliers; quickly, from fewer draws."""
    values: dict[str, float] = once(needed, 2000 if size == QUICK else 50_000)
    return values


def example_tables(values: dict[str, float]) -> list[Table]:
    """Who needs how much noise."""
    rows = [
        ["positions revealed, exact", number(values["revealed"], 4)],
        ["sharpdp, certified", number(values["certified"], 4)],
        ["the authors' program", number(PROGRAM, 4)],
        ["sharpdp, draws at confidence 0.99", number(values["draws"], 4)],
    ]
    return [Table("noise multiplier for ε = 1 at δ = 0.01", ("method", "noise multiplier"), rows)]


def plain(samples: int) -> list[float]:
    """Epsilon at all deltas by plain draws in both directions."""
    experiment, rng = CorrelatedBinsRun(run(NOISE), BINS), np.random.default_rng(1)
    drawn = [experiment.draw(rng, samples, 1, direction, PLAIN) for direction in Direction]
    found = []
    for delta in DELTAS:
        low, high = 0.0, 20.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            above = max(float(payoff(one, middle, 0.0).mean()) for one in drawn) > delta
            low, high = (middle, high) if above else (low, middle)
        found.append(high)
    return found


def point(delta: float) -> dict[str, Any]:
    """Tilted draws and the certified bracket at one delta."""
    drawn = dp.estimate(run(NOISE), delta=delta, samples=SAMPLES, rng=1)
    certified = dp.account(run(NOISE)).epsilon(delta=delta)
    return {
        "delta": delta,
        "draws": [drawn.lower, drawn.upper],
        "truth": [certified.lower, certified.upper],
    }


def figure_values(size: str) -> list[dict[str, Any]]:
    """Epsilon at all deltas; quickly, at two."""
    estimates = once(plain, SAMPLES)
    deltas = DELTAS[:2] if size == QUICK else DELTAS
    return [
        {**once(point, delta), "plain": epsilon}
        for delta, epsilon in zip(deltas, estimates, strict=False)
    ]


def figure_tables(values: list[dict[str, Any]]) -> list[Table]:
    """Epsilon at the drawn deltas."""
    rows = [
        [
            number(one["delta"]),
            number(one["plain"], 4),
            bracket(one["draws"], 4),
            bracket(one["truth"], 4),
        ]
        for one in values
    ]
    headings = ("δ", "plain draws", "tilted draws, confidence 0.99", "truth")
    return [Table("ε from 100,000 draws", headings, rows)]


def draw(canvas: Figure, values: list[dict[str, Any]]) -> None:
    """Epsilon against delta."""
    (axes,) = axes_of(canvas)
    deltas = [one["delta"] for one in values]
    axes.plot(
        deltas,
        [one["plain"] for one in values],
        color=ORANGE,
        linewidth=1.3,
        marker="+",
        label="plain draws, the paper's estimator",
    )
    band(axes, deltas, [one["truth"] for one in values], "sharpdp, certified bracket", BLUE)
    band(axes, deltas, [one["draws"] for one in values], "sharpdp, tilted draws", GREEN)
    axes.set(xlabel="δ", ylabel="ε", xscale="log")
    finished(canvas, "Correlated noise over ten kept bins, 100,000 draws", axes)
