"""One step of DP-SGD beside Opacus' on the same model and batch, by one process and by two.

    PYTHONPATH=. python benchmarks/learning.py

CPU seconds of one thread; steps of the two take turns, and the best of fifteen counts, since other work
on the machine slows down both. The model is the small network of girgis2021 (26 010 weights), the batches
have 600 and 2000 images; gradients are clipped per example and noise is added in both. With two processes
(gloo) the slower rank counts, and each has half of the batch. Then where the time of our step goes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from reproduce.learning.models import network
from torch import distributed, multiprocessing, nn
from torch.utils.data import DataLoader, TensorDataset

import sharpdp as dp
from sharpdp.learn.dpsgd import Training

REPEATS, PIXELS, SIZES = 15, 28, (600, 2000)
LINE = "{:>6} {:>10} {:>11} {:>11} {:>7} {:>12}"
Step = Callable[[], object]


def ours(images: torch.Tensor, labels: torch.Tensor) -> Training:
    """Steps of `Training`."""
    size = len(images)
    plan = dp.DeterministicBatches(dataset_size=size, batch_size=size, epochs=10 * REPEATS)
    return Training(
        dp.DPSGD(plan, noise_multiplier=1.0),
        network(PIXELS, seed=0),
        nn.CrossEntropyLoss(),
        images,
        labels,
        clip=1.0,
        key=b"k" * 32,
    )


def theirs(images: torch.Tensor, labels: torch.Tensor) -> Step:
    """A step of Opacus with its default, hooks; on several ranks with its own distributed wrapper."""
    from opacus import PrivacyEngine
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Distributed

    model = network(PIXELS, seed=0)
    if distributed.is_initialized():
        model = Distributed(model)
        rank, ranks = distributed.get_rank(), distributed.get_world_size()
        images, labels = images[rank::ranks], labels[rank::ranks]
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

    return step


def best_of(*steps: Step) -> list[float]:
    """The least CPU time of each, taking turns."""
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(REPEATS + 1):
        for step, taken in zip(steps, times, strict=True):
            start = time.process_time()
            step()
            taken.append(time.process_time() - start)
    return [min(taken[1:]) for taken in times]


def data(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random images, the same on every rank."""
    torch.manual_seed(0)
    return torch.randn(size, 1, PIXELS, PIXELS), torch.randint(0, 10, (size,))


def one_rank(rank: int, folder: str, ranks: int, size: int) -> None:
    """Both steps on one of several ranks, or alone; what they took goes to a file."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if ranks > 1:
        distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=ranks
        )
    run = ours(*data(size))
    run.advance()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    taken = best_of(run.advance, theirs(*data(size)))
    Path(folder, str(rank)).write_text(" ".join(map(str, [*taken, memory])))
    if ranks > 1:
        distributed.destroy_process_group()


def compared(size: int, ranks: int) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.spawn(one_rank, (folder, ranks, size), ranks)
        found = [
            [float(word) for word in Path(folder, str(rank)).read_text().split()]
            for rank in range(ranks)
        ]
    one, other, memory = (max(column) for column in zip(*found, strict=True))
    times = (f"{one:.3f}", f"{other:.3f}", f"{other / one:.2f}")
    return LINE.format(size, ranks, *times, f"{memory:.0f} MB a rank")


def parts(size: int) -> dict[str, float]:
    """The least CPU time of the parts of our step, over all of its pieces."""
    run = ours(*data(size))
    spent: dict[str, float] = {}

    def timed(owner: Any, name: str, words: str) -> None:
        inside = getattr(owner, name)

        def measured(*some: Any, **more: Any) -> Any:
            start = time.process_time()
            found = inside(*some, **more)
            spent[words] = spent.get(words, 0.0) + time.process_time() - start
            return found

        object.__setattr__(owner, name, measured)

    timed(run.gradients, "each", "gradients of single examples")
    timed(run.gradients, "_grid_steps", "norms, clipping, exact sums")
    timed(run._noise, "added", "noise")
    timed(run, "_move", "optimizer")
    timed(run, "advance", "whole step")
    best: dict[str, float] = {}
    for _ in range(REPEATS + 1):
        spent.clear()
        run.advance()
        if spent["whole step"] <= best.get("whole step", 1e9):
            best = dict(spent)
    return best


def main(*words: str) -> None:
    """Both sizes, one and two processes, and the parts of a step."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    print(LINE.format("batch", "processes", "sharpdp s", "Opacus s", "ratio", "memory"))
    for ranks in (1, 2):
        for size in SIZES:
            print(compared(size, ranks), flush=True)
    for size in SIZES:
        found = parts(size)
        print(f"\na step of {size}, in milliseconds:")
        for name, taken in found.items():
            print(f"{1e3 * taken:8.1f}  {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
