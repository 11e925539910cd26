"""chen2024, Figure 4 and Table 2: ReLU units on 60 principal components, as printed and as programmed.

Algorithm 1 as printed clips every record to l1 norm 10. The authors' public program (Shuffled-SGD.py of
github.com/EChen233/A-full-version-of-RDP-in-the-shuffle-model) does something else: records are permuted
once, every epoch has the same batches of 300, and only their *mean* gradient is clipped, by a sum of
numpy's matrix norms of order 1 (the largest column sum, not the l1 norm). Both are run here with numpy's
noise; neither program is one to use.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.chen2024.blocks import ALLOWED
from reproduce.learning.dense import Dense, Floats, PerRecord
from reproduce.learning.images import digits, mnist, pixels_of
from reproduce.learning.ledger import kept, spread, told
from reproduce.pages import columns
from reproduce.sheets import Table

__all__ = ["report"]

CLIP, RATE, EPOCHS = 10.0, 0.05, 50
PRINTED, PROGRAM = "Algorithm 1", "public program"
NO_NOISE = float("inf")


@dataclass(frozen=True)
class Task:
    """The components of the images, in two halves, and what they show."""

    name: str
    train: Floats
    train_labels: NDArray[np.int64]
    test: Floats
    test_labels: NDArray[np.int64]
    batch: dict[str, int]
    """Records in a batch, by program."""


@dataclass(frozen=True)
class Setting:
    """One way to train: ``clip`` is "record", "l1 of the mean", "columns of the mean" or "none"."""

    program: str
    hidden: int
    clip: str
    local_epsilon: float
    epochs: int = EPOCHS
    seeds: int = 3

    @property
    def words(self) -> str:
        """All of it, as a name."""
        program, clip = (one.replace(" ", "-") for one in (self.program, self.clip))
        return f"{program}-{self.hidden}-{clip}-{self.local_epsilon:.5g}-{self.epochs}"


def settings(name: str) -> list[Setting]:
    """What is run: both programs, without noise, with the paper's budget, and with what bounds allow."""
    allowed = sorted({2.0, *(local for local in ALLOWED.values() if local is not None)})
    if name == "quick":
        both = ((PRINTED, "record"), (PROGRAM, "columns of the mean"))
        return [Setting(program, 16, clip, 2.0, 2, 1) for program, clip in both]
    seeds = {"short": 3, "full": 10}[name]
    return [
        Setting(PRINTED, 100, "none", NO_NOISE, seeds=seeds),
        Setting(PRINTED, 100, "record", NO_NOISE, seeds=seeds),
        *(Setting(PRINTED, 100, "record", local, seeds=seeds) for local in allowed),
        Setting(PRINTED, 1000, "record", 2.0, seeds=1),
        Setting(PROGRAM, 1000, "columns of the mean", NO_NOISE, seeds=seeds),
        Setting(PROGRAM, 1000, "columns of the mean", 2.0, seeds=seeds),
        *(
            Setting(PROGRAM, 1000, "columns of the mean", local, seeds=1)
            for local in allowed
            if local != 2.0
        ),
        Setting(PROGRAM, 1000, "l1 of the mean", 2.0, 10, 1),
        Setting(PROGRAM, 1000, "record", 2.0, 10, 1),
    ]


def task(name: str) -> Task:
    """The sizes quick (scikit-learn's digits), short and full (MNIST); pixels from 0 to 1, then a PCA."""
    images = digits() if name == "quick" else mnist()
    train, test = pixels_of(images)
    middle = train.mean(0)
    _, axes = np.linalg.eigh(np.cov(train - middle, rowvar=False))
    axes = axes[:, -(60 if images.name == "mnist" else 20) :]
    halves = [((half - middle) @ axes).astype(np.float32) for half in (train, test)]
    return Task(
        images.name,
        halves[0],
        images.train_labels,
        halves[1],
        images.test_labels,
        {PRINTED: len(train) // 100, PROGRAM: len(train) // 200},
    )


def step_of(found: PerRecord, setting: Setting, size: int, blocks: int) -> list[Floats]:
    """What is added up for a batch before the noise: over the blocks as printed, else the mean."""
    divisor = blocks if setting.program == PRINTED else size
    if setting.clip == "record":
        steps = found.clipped(CLIP, 1)
    else:
        steps = found.total()
    steps = [(one / divisor).astype(np.float32) for one in steps]
    if setting.clip in ("record", "none"):
        return steps
    # a layer's last row is its bias: a vector, whose norm of order 1 is the sum
    if setting.clip == "l1 of the mean":
        length = sum(float(np.abs(one).sum()) for one in steps)
    else:
        length = sum(float(np.abs(one[:-1]).sum(0).max() + np.abs(one[-1]).sum()) for one in steps)
    return [one * np.float32(min(1.0, CLIP / length)) for one in steps]


def trained(data: Task, setting: Setting, seed: int, path: Path) -> list[float]:
    """Accuracy on the records as they pass in the last epoch, and on the test images at the end."""
    rng = np.random.default_rng(seed)
    model = Dense(data.train.shape[1], setting.hidden, rng)
    size = data.batch[setting.program]
    order = rng.permutation(len(data.train))
    parts = np.array_split(order, len(order) // size)
    scale = 2.0 * CLIP / setting.local_epsilon
    scale /= len(parts) if setting.program == PRINTED else size
    right = 0
    for _ in range(setting.epochs):
        right = 0
        places = range(len(parts))
        for place in rng.permutation(places) if setting.program == PRINTED else places:
            some = parts[place]
            found = model.gradients(data.train[some], data.train_labels[some])
            right += found.right
            steps = step_of(found, setting, size, len(parts))
            if scale > 0.0:
                for one in steps:
                    one += scale * laplace(one.shape, rng)
            model.descend(steps, RATE)
    result = [right / len(order), model.accuracy(data.test, data.test_labels)]
    told(path, f"{setting.words}, seed {seed}: {result[0]:.4f} {result[1]:.4f}")
    return result


def laplace(shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Laplace noise of scale 1, in single precision: a difference of two exponential numbers."""
    one, other = (rng.standard_exponential(shape, dtype=np.float32) for _ in range(2))
    return one - other


def per_step(data: Task) -> list[list[str]]:
    """What one step of the public program costs a record at local epsilon 2, at the start and after."""
    rng = np.random.default_rng(0)
    model = Dense(data.train.shape[1], 1000, rng)
    setting = Setting(PROGRAM, 1000, "columns of the mean", 2.0)
    size, rows = data.batch[PROGRAM], []
    parts = np.array_split(rng.permutation(len(data.train)), len(data.train) // size)
    for epoch in range(6):
        if epoch in (0, 1, 5):
            some = rng.permutation(len(data.train))[:3000]
            norms = model.gradients(data.train[some], data.train_labels[some]).norms(1)
            losses = setting.local_epsilon * norms / (2.0 * CLIP)
            cells = [f"{float(np.quantile(losses, q)):.3g}" for q in (0.5, 0.9, 1.0)]
            rows.append([str(epoch), *cells])
        for some in parts:
            found = model.gradients(data.train[some], data.train_labels[some])
            steps = step_of(found, setting, size, len(parts))
            scale = 2.0 * CLIP / (setting.local_epsilon * size)
            model.descend([one + scale * laplace(one.shape, rng) for one in steps], RATE)
    return rows


def report(name: str) -> dict[str, Any]:
    """Run what is missing, print the tables, and give back what a picture needs."""
    data = task(name)
    rows, found = [], {}
    for setting in settings(name):
        runs = [
            kept(f"units-{data.name}-{setting.words}-{seed}", partial(trained, data, setting, seed))
            for seed in range(setting.seeds)
        ]
        passing, tested = ([run[place] for run in runs] for place in (0, 1))
        noise = "none" if setting.local_epsilon == NO_NOISE else f"{setting.local_epsilon:.4g}"
        rows.append(
            [
                setting.program,
                str(setting.hidden),
                setting.clip,
                noise,
                str(setting.epochs),
                str(setting.seeds),
                spread(passing),
                spread(tested),
            ]
        )
        found[setting.words] = {
            "program": setting.program,
            "hidden": setting.hidden,
            "clip": setting.clip,
            "local": setting.local_epsilon,
            "epochs": setting.epochs,
            "accuracy": passing,
        }
    tables = [
        Table(
            "",
            (
                "program",
                "units",
                "clipped",
                "local epsilon",
                "epochs",
                "seeds",
                "train %",
                "test %",
            ),
            rows,
        )
    ]
    if name != "quick":
        tables.append(
            Table(
                "Public program, local epsilon 2: loss of privacy of one step for one of 3000 records",
                ("after epochs", "half of them", "a tenth", "the largest"),
                per_step(data),
            )
        )
    remark = (
        "Train accuracy is that of the records as they pass in the last epoch, which is what the public "
        "program prints. The second table has eps0 ||g||_1 / (2 C), the loss if the record is taken out: "
        "the program takes it for 2 at most, for every record."
    )
    print(
        columns(
            f"chen2024 Figure 4 on {data.name}: clip {CLIP:g}, step {RATE:g}", tables, (remark,)
        )
    )
    return found
