"""Correlated noise (DP-FTRL) and DP-SGD at equal epsilon, noise and strategy found for each run.

chua2024, Section 5, asks how batches and correlated noise go together. Four runs over the same sizes:
Poisson batches with independent noise; batches in a fixed order, whose sampling hides nothing, with as
many bands as an epoch has steps; balls-and-bins with kept bins and as many bands; and cyclic Poisson
batches with the number of bands whose sums are most accurate.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import sharpdp as dp
from reproduce.learning.dense import Dense
from reproduce.learning.images import digits, mnist
from reproduce.learning.ledger import kept, spread, told
from reproduce.learning.training_size import CHOSEN, EqualEpsilonSize
from reproduce.pages import columns
from reproduce.sheets import Table
from sharpdp.learn import banded_strategy, prefix_error

__all__ = ["report"]

DELTA, CLIP = 1e-5, 1.0
EPSILONS, RATES = (1.0, 3.0, 8.0), (1.0, 2.0, 4.0, 8.0, 16.0)
BANDS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Size(EqualEpsilonSize):
    """How much of the experiment is run."""

    def runs(self) -> dict[str, list[tuple[dp.batches.BatchScheme, int]]]:
        """Batches and numbers of bands that may be taken, by the name of the run."""
        fixed = dp.DeterministicBatches(**self.sizes)
        bins = dp.BallsAndBins(**self.sizes, order="kept")
        epoch = fixed.steps // self.epochs
        cyclic: list[tuple[dp.batches.BatchScheme, int]] = [
            (dp.batches.CyclicPoissonBatches(**self.sizes, cycle_length=bands), bands)
            for bands in BANDS
            if bands * self.batch_size <= len(self.images.train)
        ]
        return {
            "Poisson, independent": [(dp.PoissonBatches(**self.sizes), 1)],
            "fixed order, correlated": [(fixed, epoch)],
            "kept bins, correlated": [(bins, epoch)],
            "cyclic Poisson, correlated": cyclic,
        }


def size(name: str) -> Size:
    """The sizes quick (scikit-learn's digits), short and full (MNIST)."""
    if name == "quick":
        return Size(digits(), 60, 2, 1, (8.0,), (0.01, 1.0))
    epochs, seeds = {"short": (5, 3), "full": (30, 5)}[name]
    return Size(mnist(), 600, epochs, seeds, EPSILONS, RATES)


def mechanism(
    plan: dp.batches.BatchScheme, bands: int, noise: float
) -> dp.DPSGD | dp.CorrelatedNoise:
    """The run with this noise; one band is independent noise."""
    if bands == 1:
        return dp.DPSGD(plan, noise_multiplier=noise)
    strategy = banded_strategy(steps=plan.steps, bands=bands)
    return dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=noise)


def calibrated(
    choices: list[tuple[dp.batches.BatchScheme, int]], epsilon: float, _: Path
) -> dict[str, float]:
    """Of the choices the one whose sums are most accurate: its place, noise multiplier and error."""
    found = []
    for place, (plan, bands) in enumerate(choices):
        noise = dp.calibrate(
            partial(mechanism, plan, bands),
            epsilon=epsilon,
            delta=DELTA,
            adjacency="zero-out",
            relative_error=1e-2,
        )
        error = prefix_error(banded_strategy(steps=plan.steps, bands=bands), steps=plan.steps)
        found.append({"place": place, "noise": float(noise), "error": float(noise) * error})
    return min(found, key=lambda one: one["error"])


def trained(
    scale: Size, run: dp.DPSGD | dp.CorrelatedNoise, rate: float, seed: int, path: Path
) -> float:
    """The accuracy of 64 ReLU units after one run: every record clipped, noise by numpy."""
    images = scale.images
    flat, labels = images.train.reshape(len(images.train), -1), images.train_labels
    rng = np.random.default_rng(seed)
    model = Dense(flat.shape[1], 64, rng)
    memory: tuple[Any, ...] = ()
    for batch in run.batches.batches(f"a repeatable experiment, seed {seed}".encode()):
        steps = model.gradients(flat[batch], labels[batch]).clipped(CLIP, 2)
        noise = rng.standard_normal(sum(one.size for one in steps), dtype=np.float32)
        noise *= np.float32(run.noise_multiplier * CLIP)
        if isinstance(run, dp.CorrelatedNoise):
            noise, memory = run.strategy.correlated(noise, memory)
        places = np.cumsum([one.size for one in steps])[:-1]
        for one, part in zip(steps, np.split(noise, places), strict=True):
            one += part.reshape(one.shape)
        model.descend(steps, rate / scale.batch_size)
    found = model.accuracy(images.test.reshape(len(images.test), -1), images.test_labels)
    told(
        path,
        f"{run.label}, noise {run.noise_multiplier:.3g}, rate {rate:g}, seed {seed}: {found:.4f}",
    )
    return found


def report(name: str) -> dict[str, Any]:
    """Run what is missing, print the table, and give back what a picture needs."""
    scale = size(name)
    choosing = scale.for_choosing()
    rows: list[list[str]] = []
    found: dict[str, Any] = {label: [] for label in scale.runs()}
    for epsilon in scale.epsilons:
        for label, choices in scale.runs().items():
            short = label.replace(",", "").replace(" ", "-")
            words = f"correlated-{scale.images.name}-{name}-{short}-{epsilon:g}"
            chosen = kept(f"{words}-noise", partial(calibrated, choices, epsilon))
            place, noise = chosen["place"], chosen["noise"]
            run, smaller = (
                mechanism(plan, bands, noise)
                for plan, bands in (one.runs()[label][place] for one in (scale, choosing))
            )
            best, accuracies = scale.best_rate(
                words, partial(trained, choosing, smaller), partial(trained, scale, run)
            )
            found[label].append({"epsilon": epsilon, "accuracy": accuracies})
            cells = [f"{epsilon:g}", label, f"{choices[place][1]}", f"{noise:.4g}"]
            rows.append([*cells, f"{chosen['error']:.3g}", f"{best:g}", spread(accuracies)])
    title = (
        f"Correlated noise on {scale.images.name} at equal epsilon (delta = {DELTA:g}), {scale.epochs} "
        f"epochs of batches of {scale.batch_size}, {scale.seeds} seeds"
    )
    headings = (
        "epsilon",
        "batches, noise",
        "bands",
        "noise multiplier",
        "error of sums",
        "learning rate",
        "accuracy %",
    )
    rates = ", ".join(f"{rate:g}" for rate in scale.rates)
    remark = (
        f"The learning rate is the best of {rates} for each row, {CHOSEN} The error of sums is the root "
        "of the mean squared noise of sums over steps, in clipping norms. Columns of strategies have "
        "norm 1."
    )
    print(columns(title, [Table("", headings, rows)], (remark,)))
    return found
