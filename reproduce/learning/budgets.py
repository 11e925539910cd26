"""chua2024, Section 5: what each way to draw batches learns at equal epsilon, noise calibrated for each.

The paper leaves open how utility is affected when shuffled batches are accounted as what they are. Every
scheme has the noise that its own certified epsilon needs; beside it, what a run really spends whose
batches are shuffled and whose noise was found by an accountant of Poisson batches.
"""

from __future__ import annotations

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

__all__ = ["report"]

DELTA, CLIP = 1e-5, 1.0
EPSILONS, RATES = (1.0, 3.0, 8.0), (0.25, 0.5, 1.0, 2.0)
POISSON, SHUFFLED = "Poisson batches", "shuffled batches"


def size(name: str) -> EqualEpsilonSize:
    """The sizes quick (scikit-learn's digits), short and full (MNIST)."""
    if name == "quick":
        return EqualEpsilonSize(digits(), 60, 2, 1, (8.0,), (0.01, 1.0))
    epochs, seeds = {"short": (10, 3), "full": (30, 5)}[name]
    return EqualEpsilonSize(mnist(), 600, epochs, seeds, EPSILONS, RATES)


def calibrated(plan: dp.batches.BatchScheme, epsilon: float) -> float:
    """The noise multiplier at which the certified epsilon is this one, within a percent."""
    return dp.calibrate(
        lambda noise: dp.DPSGD(plan, noise_multiplier=noise),
        epsilon=epsilon,
        delta=DELTA,
        adjacency="zero-out",
        relative_error=1e-2,
    )


def all_calibrated(scale: EqualEpsilonSize, epsilon: float, _: Path) -> dict[str, float]:
    """The noise multiplier of every scheme."""
    return {plan.label: float(calibrated(plan, epsilon)) for plan in scale.schemes()}


def spent(plan: dp.batches.BatchScheme, noise: float) -> dp.Bracket:
    """Epsilon of the scheme with this noise."""
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=noise), adjacency="zero-out")
    return answer.epsilon(delta=DELTA)


def trained(
    scale: EqualEpsilonSize,
    plan: dp.batches.BatchScheme,
    noise: float,
    rate: float,
    seed: int,
    path: Path,
) -> float:
    """The accuracy of 64 ReLU units after one run: every record clipped, Gaussian noise by numpy."""
    images = scale.images
    flat, labels = images.train.reshape(len(images.train), -1), images.train_labels
    rng = np.random.default_rng(seed)
    model = Dense(flat.shape[1], 64, rng)
    for batch in plan.batches(f"a repeatable experiment, seed {seed}".encode()):
        steps = model.gradients(flat[batch], labels[batch]).clipped(CLIP, 2)
        for one in steps:
            one += np.float32(noise * CLIP) * rng.standard_normal(one.shape, dtype=np.float32)
        model.descend(steps, rate / scale.batch_size)
    found = model.accuracy(images.test.reshape(len(images.test), -1), images.test_labels)
    told(path, f"{plan.label}, noise {noise:.3g}, rate {rate:g}, seed {seed}: {found:.4f}")
    return found


def report(name: str) -> dict[str, Any]:
    """Run what is missing, print the tables, and give back what a picture needs."""
    scale = size(name)
    choosing = scale.for_choosing()
    schemes = {plan.label: plan for plan in scale.schemes()}
    rows, honest = [], []
    found: dict[str, Any] = {label: [] for label in schemes}
    for epsilon in scale.epsilons:
        noises = kept(
            f"budgets-{scale.images.name}-{name}-noises-{epsilon:g}",
            partial(all_calibrated, scale, epsilon),
        )
        for (label, plan), smaller in zip(schemes.items(), choosing.schemes(), strict=True):
            words = f"budgets-{scale.images.name}-{name}-{label.replace(' ', '-')}-{epsilon:g}"
            best, accuracies = scale.best_rate(
                words,
                partial(trained, choosing, smaller, noises[label]),
                partial(trained, scale, plan, noises[label]),
            )
            found[label].append({"epsilon": epsilon, "accuracy": accuracies})
            cells = [
                f"{epsilon:g}",
                label,
                f"{noises[label]:.4g}",
                f"{best:g}",
                spread(accuracies),
            ]
            rows.append(cells)
        said = spent(schemes[SHUFFLED], noises[POISSON])
        honest.append(
            [f"{epsilon:g}", f"{noises[POISSON]:.4g}", f"{said.lower:.4g}", f"{said.upper:.4g}"]
        )
    title = (
        f"DP-SGD on {scale.images.name} at equal epsilon (delta = {DELTA:g}), {scale.epochs} epochs "
        f"of batches of {scale.batch_size}, {scale.seeds} seeds"
    )
    tables = [
        Table("", ("epsilon", "batches", "noise multiplier", "learning rate", "accuracy %"), rows),
        Table(
            "Noise found for Poisson batches, run with shuffled batches",
            ("epsilon reported", "noise multiplier", "epsilon spent, lower", "upper"),
            honest,
        ),
    ]
    rates = ", ".join(f"{rate:g}" for rate in scale.rates)
    remark = (
        f"The learning rate is the best of {rates} for each row, {CHOSEN} The noise of shuffled batches "
        "is what the upper side of their bracket needs; the truth needs less."
    )
    print(columns(title, tables, (remark,)))
    return found
