"""Regularized softmax regression at equal epsilon: every step released, or the last model only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sharpdp as dp
from reproduce.learning.images import DEVIATION, MEAN, Images, digits, mnist
from reproduce.learning.ledger import kept, spread, told
from reproduce.pages import columns
from reproduce.sheets import Table
from sharpdp.learn.logistic_training import LastIterateTraining

__all__ = ["Size", "report", "size"]

DELTA, REGULARIZATION = 1e-5, 0.01
LOSS = dp.SmoothLoss.softmax(feature_norm=1.0, regularization=REGULARIZATION)
CLASSES = 10


@dataclass(frozen=True)
class Size:
    """How much of the experiment is run; full batches have epochs of their own."""

    images: Images
    batch_size: int
    full_epochs: int
    epochs: int
    seeds: int
    epsilon: float

    def plans(self) -> dict[str, tuple[dp.batches.BatchScheme, float]]:
        """The batches by name, each with its learning rate."""
        count = len(self.images.train)
        sizes: dict[str, Any] = {
            "dataset_size": count,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
        }
        full = dp.DeterministicBatches(
            dataset_size=count, batch_size=count, epochs=self.full_epochs
        )
        return {
            "full": (full, 3.5),
            "cyclic": (dp.DeterministicBatches(**sizes), 1.0),
            "shuffled": (dp.ShuffledBatches(**sizes), 1.0),
            "Poisson": (dp.PoissonBatches(**sizes), 1.0),
        }


def size(name: str) -> Size:
    """Digits, with one seed or five; with ``full`` MNIST at a tenth of the epsilon."""
    if name == "full":
        return Size(mnist(), 1500, 200, 40, 3, 0.1)
    return Size(digits(), 150, 200, 40, {"quick": 1, "short": 5}[name], 1.0)


def features(images: NDArray[np.float32]) -> NDArray[np.float64]:
    """Pixels and a constant one, each row of length one."""
    pixels = images.reshape(len(images), -1).astype(np.float64) * DEVIATION + MEAN
    rows = np.hstack([pixels, np.ones((len(pixels), 1))])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def run_of(plan: dp.batches.BatchScheme, rate: float, noise: float) -> dp.LastIterate:
    """The run with this noise, as if its last model is all that is released."""
    return dp.LastIterate(plan, noise_multiplier=noise, learning_rate=rate, loss=LOSS)


def noises(plan: dp.batches.BatchScheme, rate: float, epsilon: float) -> tuple[float, float]:
    """The noise multipliers that reach epsilon: every step released, and the last model."""
    target: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    every = dp.calibrate(lambda s: dp.DPSGD(plan, noise_multiplier=s), **target)
    last = dp.calibrate(lambda s: run_of(plan, rate, s), **target)
    return float(every), float(last)


def trained(scale: Size, run: dp.LastIterate, seed: int, path: Path) -> float:
    """The accuracy of the last model, of a run that is resumed if it was cut short."""
    images = scale.images
    key = f"a repeatable experiment, seed {seed}".encode()
    training = LastIterateTraining(
        run, features(images.train), images.train_labels, classes=CLASSES, key=key
    )
    if path.exists():
        training.resume(path)
    weights = training.run(checkpoint=path, every=500, progress=False).release()
    guesses = np.argmax(features(images.test) @ weights.T, axis=1)
    found = float(np.mean(guesses == images.test_labels))
    told(path, f"{run.label}, noise {run.noise_multiplier:.3g}, seed {seed}: {found:.3f}")
    return found


def report(name: str) -> dict[str, Any]:
    """Run what is missing, print the table, and give back what a picture needs."""
    scale = size(name)
    rows, found = [], {}
    for words, (plan, rate) in scale.plans().items():
        cells, accuracies = [], []
        for how, noise in zip(("every", "last"), noises(plan, rate, scale.epsilon), strict=True):
            runs = [
                kept(
                    f"releases-{scale.images.name}-{name}-{words}-{how}-{seed}",
                    partial(trained, scale, run_of(plan, rate, noise), seed),
                )
                for seed in range(scale.seeds)
            ]
            accuracies.append(runs)
            cells += [f"{noise:.2f}", spread(runs)]
        found[words] = dict(zip(("every", "last"), accuracies, strict=True))
        rows.append([words, f"{plan.steps}", *cells])
    title = (
        f"Softmax regression on {scale.images.name}, penalty {REGULARIZATION:g}, at epsilon = "
        f"{scale.epsilon:g}, delta = {DELTA:g} (zero-out, upper sides)"
    )
    headings = (
        "batches",
        "steps",
        "noise, every step",
        "accuracy %",
        "noise, last model",
        "accuracy %",
    )
    remark = "Both columns are the same training; only the noise that reaches epsilon differs."
    print(columns(title, [Table("", headings, rows)], (remark,)))
    return found
