"""girgis2021, Section 4: clients with one image each, PrivUnit, a shuffler, sampled rounds.

The run of the paper with accuracy against epsilon under its own accounting, under strong composition and
under ours; then the same epsilon as the paper reports, spent with the larger local epsilon that sharper
accounting allows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from reproduce.girgis2021 import published
from reproduce.learning.images import Images, digits, mnist
from reproduce.learning.ledger import PAGES, kept, spread, told
from reproduce.learning.models import accuracy, flattened, load, network, per_client
from reproduce.sheets import remark, table

import sharpdp as dp
from sharpdp.learn import CLDPSGD, ClientRun, PrivUnitBall

__all__ = ["Size", "report", "size"]

DELTA, CLIP, LOCAL = 1e-5, 0.005, 2.0
PAPER, BASELINE = "sampled_moments_epsilon_upper", "clones_strong_composition_upper"
"""The paper's Theorem 1, and its baseline, by their names in sharpdp."""


@dataclass(frozen=True)
class Size:
    """How much of the experiment is run."""

    images: Images
    users: int
    epochs: int
    seeds: int

    @property
    def rounds_per_epoch(self) -> int:
        """Rounds in which as many clients report as there are."""
        return len(self.images.train) // self.users

    def mechanism(self, local_epsilon: float, epochs: int) -> dp.ShuffledReports:
        """What is accounted after so many epochs."""
        return dp.ShuffledReports(
            users=self.users,
            population=len(self.images.train),
            local_epsilon=local_epsilon,
            rounds=epochs * self.rounds_per_epoch,
        )


def size(name: str) -> Size:
    """The sizes quick, short and full; digits stand in for MNIST where it is not at hand."""
    images = None if name == "quick" else mnist()
    if images is None:
        return Size(digits(), 50, {"quick": 2, "short": 20, "full": 200}[name], 1)
    return Size(images, 2000, {"short": 5, "full": 200}[name], {"short": 2, "full": 3}[name])


def learning_rate(scale: Size, step: int) -> float:
    """12 for 30 epochs, 4 for the next 30, 3.5 from then on."""
    epoch = step // scale.rounds_per_epoch
    return 12.0 if epoch < 30 else 4.0 if epoch < 60 else 3.5


def trained(scale: Size, local_epsilon: float, seed: int, path: Path) -> list[float]:
    """The accuracy after every epoch of one run."""
    model = network(scale.images, seed)
    start = flattened(model)
    ball = PrivUnitBall(dimension=start.size, local_epsilon=local_epsilon, radius=CLIP)
    plan = CLDPSGD(
        randomizer=ball,
        users=scale.users,
        population=len(scale.images.train),
        rounds=scale.epochs * scale.rounds_per_epoch,
        learning_rate=lambda step: learning_rate(scale, step),
    )
    gradients, notes = per_client(model, scale.images), path.with_suffix(".epochs")
    each = scale.rounds_per_epoch
    if path.exists():  # a run that was cut short goes on with randomness of its own
        found: list[float] = json.loads(notes.read_text("utf-8")) if notes.exists() else []
        rng = np.random.default_rng([seed, len(found)])
        run = ClientRun.resumed(plan, gradients, path=path, every=each, rng=rng)
    else:
        found, rng = [], np.random.default_rng(seed)
        run = ClientRun(plan, gradients, start, path=path, every=each, rng=rng)
    while run.left:
        run.run(rounds=each - run.begun % each)
        load(model, run.parameters)
        found.append(accuracy(model, scale.images))
        notes.write_text(json.dumps(found), "utf-8")
        epoch = run.begun // each
        told(
            path, f"local epsilon {local_epsilon:.3g}, seed {seed}: epoch {epoch}, {found[-1]:.3f}"
        )
    return found


def larger_budget(scale: Size) -> float:
    """The local epsilon at which our accounting gives the epsilon that the paper reports at 2."""
    target = published(scale.mechanism(LOCAL, scale.epochs), DELTA)[PAPER]
    found = dp.calibrate(
        lambda local: scale.mechanism(local, scale.epochs),
        epsilon=target,
        delta=DELTA,
        relative_error=1e-2,
    )
    return round(found, 2) - 0.01


def results(scale: Size, name: str) -> dict[float, list[list[float]]]:
    """Accuracies by local epsilon: a list over epochs for each seed."""
    found: dict[float, list[list[float]]] = {}
    for local in (LOCAL, larger_budget(scale)):
        found[local] = [
            kept(
                f"clients-{scale.images.name}-{name}-{local:g}-{seed}",
                lambda path, local=local, seed=seed: trained(scale, local, seed, path),
            )
            for seed in range(scale.seeds)
        ]
    return found


def rows_of(scale: Size, found: dict[float, list[list[float]]]) -> list[list[str]]:
    """One row for each local epsilon and a few epochs."""
    shown = sorted({1, max(1, scale.epochs // 2), scale.epochs})
    rows = []
    for local, runs in found.items():
        for epoch in shown:
            run = scale.mechanism(local, epoch)
            theirs, ours = published(run, DELTA), dp.account(run).epsilon(delta=DELTA)
            rows.append(
                [
                    f"{local:g}",
                    str(epoch),
                    spread([one[epoch - 1] for one in runs]),
                    f"{theirs[BASELINE]:.3g}",
                    f"{theirs[PAPER]:.3g}",
                    f"{ours.lower:.3g} to {ours.upper:.3g}",
                ]
            )
    return rows


HEADINGS = ("local epsilon", "epoch", "accuracy %", "strong composition", "Theorem 1", "sharpdp")


def report(name: str) -> dict[str, Any]:
    """Run what is missing, print the table, and give back what a picture needs."""
    scale = size(name)
    found = results(scale, name)
    title = f"girgis2021 on {scale.images.name}: accuracy, and epsilon at delta = {DELTA:g}"
    table(title, HEADINGS, rows_of(scale, found))
    remark(
        "The larger local epsilon spends, by our accounting, the epsilon that Theorem 1 reports for 2: "
        "the same guarantee on paper, a better model."
    )
    epsilons = {
        local: [
            float(dp.account(scale.mechanism(local, epoch)).epsilon(delta=DELTA).upper)
            for epoch in range(1, scale.epochs + 1)
        ]
        for local in found
    }
    paper = [published(scale.mechanism(LOCAL, e), DELTA)[PAPER] for e in range(1, scale.epochs + 1)]
    return {"accuracy": found, "epsilon": epsilons, "paper": paper, "folder": PAGES}
