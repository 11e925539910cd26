"""DP-SGD at equal noise under four batch schemes: what is learned, and what each one costs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

import sharpdp as dp
from reproduce.learning.images import digits, mnist
from reproduce.learning.ledger import kept, spread, told
from reproduce.learning.models import accuracy, network
from reproduce.learning.training_size import TrainingSize
from reproduce.pages import columns
from reproduce.sheets import Table
from sharpdp.learn.dpsgd import Training

__all__ = ["report"]

DELTA, NOISE, CLIP, LEARNING_RATE = 1e-5, 0.8, 1.0, 0.5


def size(name: str) -> TrainingSize:
    """The sizes quick (scikit-learn's digits), short and full (MNIST)."""
    if name == "quick":
        return TrainingSize(digits(), 100, 2, 1)
    return TrainingSize(mnist(), 600, {"short": 2, "full": 30}[name], {"short": 2, "full": 3}[name])


def trained(scale: TrainingSize, plan: dp.batches.BatchScheme, seed: int, path: Path) -> float:
    """The accuracy at the end of one run, which is resumed if it was cut short."""
    images = scale.images
    training = Training(
        dp.DPSGD(plan, noise_multiplier=NOISE),
        network(images.pixels, seed),
        nn.CrossEntropyLoss(),
        torch.from_numpy(images.train),
        torch.from_numpy(images.train_labels),
        clip=CLIP,
        learning_rate=LEARNING_RATE,
        key=f"a repeatable experiment, seed {seed}".encode(),
    )
    if path.exists():
        training.resume(path)
    training.run(delta=DELTA, checkpoint=path, every=50)
    found = accuracy(training.model, images)
    told(path, f"{plan.label}, seed {seed}: {found:.3f}")
    return found


def report(name: str) -> dict[str, Any]:
    """Run what is missing, print the table, and give back what a picture needs."""
    scale = size(name)
    rows, found = [], {}
    for plan in scale.schemes():
        words = plan.label.replace(" ", "-")
        runs = [
            kept(
                f"samplers-{scale.images.name}-{name}-{words}-{seed}",
                partial(trained, scale, plan, seed),
            )
            for seed in range(scale.seeds)
        ]
        answer = dp.account(dp.DPSGD(plan, noise_multiplier=NOISE), adjacency="zero-out")
        epsilon = answer.epsilon(delta=DELTA)
        found[plan.label] = {"accuracy": runs, "lower": epsilon.lower, "upper": epsilon.upper}
        rows.append([plan.label, spread(runs), f"{epsilon.lower:.4g}", f"{epsilon.upper:.4g}"])
    title = f"DP-SGD on {scale.images.name}, noise multiplier {NOISE:g}, {scale.epochs} epochs"
    headings = ("batches", "accuracy %", "epsilon, lower", f"upper (delta = {DELTA:g})")
    remark = "Accuracy hardly depends on how batches are drawn; the privacy of the run does."
    print(columns(title, [Table("", headings, rows)], (remark,)))
    return found
