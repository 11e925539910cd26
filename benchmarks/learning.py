"""One step of DP-SGD beside Opacus' on the same model and batch: CPU seconds and their ratio.

    PYTHONPATH=. python benchmarks/learning.py

One thread, best of five after a warm-up. The model is the small network of girgis2021 (26 010 weights),
the batches have 600 and 2000 images; gradients are clipped per example and noise is added in both.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable

import torch
from reproduce.learning.models import network
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import sharpdp as dp
from sharpdp.learn.dpsgd import Training

REPEATS, PIXELS = 5, 28
LINE = "{:>8} {:>12} {:>12} {:>8}"


def best_of(work: Callable[[], object]) -> float:
    """The least CPU time of some repetitions after a warm-up."""
    work()
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def ours(images: torch.Tensor, labels: torch.Tensor) -> float:
    """A step of `Training`."""
    size = len(images)
    plan = dp.DeterministicBatches(dataset_size=size, batch_size=size, epochs=REPEATS + 1)
    run = Training(
        dp.DPSGD(plan, noise_multiplier=1.0),
        network(PIXELS, seed=0),
        nn.CrossEntropyLoss(),
        images,
        labels,
        clip=1.0,
    )
    return best_of(run.advance)


def theirs(images: torch.Tensor, labels: torch.Tensor) -> float:
    """A step of Opacus with its default, hooks."""
    from opacus import PrivacyEngine

    model = network(PIXELS, seed=0)
    model, optimizer, _ = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=DataLoader(TensorDataset(images, labels), batch_size=len(images)),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return best_of(step)


def main() -> None:
    """Both sizes."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(LINE.format("batch", "sharpdp s", "Opacus s", "ratio"))
    for size in (600, 2000):
        images, labels = torch.randn(size, 1, 28, 28), torch.randint(0, 10, (size,))
        one, other = ours(images, labels), theirs(images, labels)
        print(LINE.format(size, f"{one:.3f}", f"{other:.3f}", f"{other / one:.2f}"), flush=True)


if __name__ == "__main__":
    main()
