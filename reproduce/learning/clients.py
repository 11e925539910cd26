"""girgis2021, Section 4: clients with one image each, PrivUnit, a shuffler, sampled rounds.

The run of the paper with accuracy against epsilon under its own accounting, under strong composition and
under ours, for any randomizer and for PrivUnit; then the same epsilon as the paper reports, spent with
the larger local epsilon that sharper accounting allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import sharpdp as dp
from reproduce.girgis2021.accuracies import BASELINE, PAPER, PRINTED, Runs, after
from reproduce.girgis2021.accuracies import runs as recorded_runs
from reproduce.girgis2021.panels import published
from reproduce.learning.gradients import Gradients, gradients, in_order, outputs
from reproduce.learning.images import Images, digits, mnist
from reproduce.learning.ledger import begun, kept, spread, told
from reproduce.learning.models import accuracy, flattened, load, network
from reproduce.learning.simulation import CHUNK, sum_of_reports
from reproduce.pages import columns
from reproduce.sheets import Table, number
from sharpdp.learn import CLDPSGD, PrivUnitBall

__all__ = ["Size", "report", "results", "size"]

DELTA, CLIP, LOCAL, EPOCHS, LARGER = 1e-5, 0.005, 2.0, 200, 5.65
SHOWN = 3
"""Digits of an epsilon."""


@dataclass(frozen=True)
class Size:
    """How much of the experiment is run."""

    images: Callable[[], Images]
    population: int
    pixels: int
    users: int
    epochs: int
    seeds: int

    @property
    def name(self) -> str:
        """The name of the images."""
        return self.images.__name__

    @property
    def rounds_per_epoch(self) -> int:
        """Rounds in which as many clients report as there are."""
        return self.population // self.users

    def mechanism(self, local_epsilon: float, epochs: int) -> dp.ShuffledReports:
        """So many epochs with any randomizer of that budget, as the paper accounts them."""
        return dp.ShuffledReports(
            users=self.users,
            population=self.population,
            local_epsilon=local_epsilon,
            rounds=epochs * self.rounds_per_epoch,
        )

    def plan(self, local_epsilon: float, epochs: int) -> CLDPSGD:
        """So many epochs with PrivUnit, which is what is run."""
        return CLDPSGD(
            randomizer=self.ball(local_epsilon),
            users=self.users,
            population=self.population,
            rounds=epochs * self.rounds_per_epoch,
            learning_rate=self.learning_rate,
        )

    def ball(self, local_epsilon: float) -> PrivUnitBall:
        """The randomizer of a client."""
        dimension = flattened(network(self.pixels, seed=0)).size
        return PrivUnitBall(dimension=dimension, local_epsilon=local_epsilon, radius=CLIP)

    def learning_rate(self, step: int) -> float:
        """12 for 30 epochs, 4 for the next 30, 3.5 from then on."""
        epoch = step // self.rounds_per_epoch
        return 12.0 if epoch < 30 else 4.0 if epoch < 60 else 3.5


def size(name: str) -> Size:
    """The sizes quick (scikit-learn's digits), short and full (MNIST)."""
    if name == "quick":
        return Size(digits, 1500, 8, 50, 2, 1)
    return Size(mnist, 60_000, 28, 2000, *{"short": (5, 2), "full": (EPOCHS, 4)}[name])


def trained(scale: Size, local_epsilon: float, seed: int, path: Path) -> list[float]:
    """The accuracy after every epoch of one simulated run, which goes on where it was cut short.

    What is drawn in an epoch depends on the seed and the epoch alone, so that a run that was resumed
    gives what an uninterrupted one gives.
    """
    model, ball, held = network(scale.pixels, seed), scale.ball(local_epsilon), scale.images()
    images, labels = (torch.from_numpy(one) for one in (held.train, held.train_labels))
    found: list[float] = []
    state = begun(path)
    if state:
        found = state["accuracies"].tolist()
        load(model, state["parameters"])
    theta = flattened(model)
    while len(found) < scale.epochs:
        epoch = len(found)
        rng = np.random.Generator(np.random.SFC64([seed, epoch]))
        source = torch.Generator().manual_seed(int(rng.integers(2**62)))
        for step in range(epoch * scale.rounds_per_epoch, (epoch + 1) * scale.rounds_per_epoch):
            chosen = rng.permutation(len(images))[: scale.users]

            def vectors(
                which: NDArray[np.int64], chosen: NDArray[np.int64] = chosen
            ) -> Iterator[Gradients]:
                for some in torch.split(torch.from_numpy(chosen[which]), CHUNK):
                    yield gradients(model, images[some], labels[some])

            total = in_order(model, sum_of_reports(ball, vectors, scale.users, rng, source))
            theta = theta - scale.learning_rate(step) / scale.users * total.double().numpy()
            load(model, theta)
        found.append(accuracy(partial(outputs, model), held))
        theta = flattened(model)
        with path.with_suffix(".new").open("wb") as file:
            np.savez_compressed(file, parameters=theta.astype(np.float32), accuracies=found)
        path.with_suffix(".new").replace(path)
        words = (
            f"local epsilon {local_epsilon:.3g}, seed {seed}: epoch {epoch + 1}, {found[-1]:.4f}"
        )
        told(path, words)
    return found


def larger_budget(scale: Size) -> float:
    """The local epsilon at which our accounting gives the epsilon that the paper reports at 2.

    In the paper's size one that was found once, so that a sharper bound does not begin all runs anew.
    """
    if scale.name == "mnist" and scale.epochs == EPOCHS:
        return LARGER
    target = published(scale.mechanism(LOCAL, scale.epochs), DELTA, [PAPER])[PAPER]
    found = dp.calibrate(
        lambda local: scale.plan(local, scale.epochs).mechanism,
        epsilon=target,
        delta=DELTA,
        relative_error=1e-2,
    )
    return round(found, 2) - 0.01


def results(scale: Size, name: str, *, seeds: Sequence[int] | None = None) -> Runs:
    """All runs, or those with these seeds."""
    return {
        local: [
            kept(named(scale, name, local, seed), partial(trained, scale, local, seed))
            for seed in (range(scale.seeds) if seeds is None else seeds)
        ]
        for local in (LOCAL, larger_budget(scale))
    }


def named(scale: Size, name: str, local_epsilon: float, seed: int) -> str:
    """The name under which a run is kept."""
    return f"clients-{scale.name}-{name}-{local_epsilon:g}-{seed}"


def rows_of(scale: Size, found: Runs) -> list[list[str]]:
    """One row for each local epsilon and a few epochs."""
    rows = []
    for local, runs in found.items():
        epochs = max(len(run) for run in runs)
        for epoch in sorted({*(e for e in (1, 5, 10, 20, 30, 50, 100, 150) if e < epochs), epochs}):
            reached = after(runs, epoch)
            cells = [f"{local:g}", str(epoch), str(len(reached)), spread(reached)]
            rows.append([*cells, *epsilons_of(scale, local, epoch)])
    return rows


def epsilons_of(scale: Size, local: float, epoch: int) -> list[str]:
    """Epsilon after so many epochs: two published accounts, then ours."""
    run, known = scale.mechanism(local, epoch), scale.plan(local, epoch).mechanism
    theirs = published(run, DELTA, [BASELINE, PAPER])
    ours = (f"{dp.account(one).epsilon(delta=DELTA):.3g}" for one in (run, known))
    return [number(theirs[BASELINE], SHOWN), number(theirs[PAPER], SHOWN), *ours]


EPSILONS = ("clones", "Theorem 1", "any randomizer", "PrivUnit")
HEADINGS = ("local epsilon", "epoch", "seeds", "accuracy %", *EPSILONS)


def printed_rows(scale: Size, runs: list[list[float]]) -> list[list[str]]:
    """The accuracies of the paper beside ours, at local epsilon 2."""
    rows = []
    for accuracy_there, epsilon, epoch in PRINTED:
        reached = after(runs, epoch)
        ours = spread(reached) if reached else "not reached"
        cells = [accuracy_there, epsilon, str(epoch), str(len(reached)), ours]
        rows.append([*cells, *epsilons_of(scale, LOCAL, epoch)])
    return rows


def report(name: str, *, recorded: bool = False) -> dict[str, Any]:
    """Run what is missing, print the tables, and give back what a picture needs.

    With ``recorded`` nothing is run: the accuracies are those that are kept with the documentation.
    """
    scale = size(name)
    found = recorded_runs() if recorded else results(scale, name)
    title = (
        f"girgis2021 on {scale.name}: accuracy, and epsilon at delta = {DELTA:g}; "
        f"{scale.epochs} epochs and {scale.seeds} seeds are the whole run"
    )
    come = "; ".join(
        f"local epsilon {local:g}: " + ", ".join(str(len(run)) for run in runs)
        for local, runs in found.items()
    )
    remarks = (
        f"Epochs completed by each seed: {come}.",
        "Simulated with the exact distribution of PrivUnit's reports in single precision; see "
        "reproduce/learning/simulation.py.",
        "Clones are those of feldman2021, evaluated, with strong composition. The last two columns are "
        "sharpdp's brackets, for any randomizer with that budget and for PrivUnit.",
        f"The larger local epsilon spends in {scale.epochs} epochs, by the last column, no more than the "
        "epsilon that Theorem 1 reports for 2.",
    )
    tables = [Table("", HEADINGS, rows_of(scale, found))]
    if scale.epochs == EPOCHS:
        headings = ("published %", "at epsilon", "epoch", "seeds", "ours %", *EPSILONS)
        rows = printed_rows(scale, found[LOCAL])
        tables.append(Table("The paper's accuracies (local epsilon 2)", headings, rows))
    print(columns(title, tables, remarks))
    return {
        "accuracy": found,
        "curves": {local: curve(scale, local, runs) for local, runs in found.items()},
        "data": [
            "local_epsilon,seed,epoch,accuracy",
            *(
                f"{local:g},{seed},{epoch},{right:.4f}"
                for local, runs in found.items()
                for seed, run in enumerate(runs)
                for epoch, right in enumerate(run, 1)
            ),
        ],
    }


def curve(scale: Size, local: float, runs: list[list[float]]) -> dict[str, Any]:
    """Some epochs, epsilon there by Theorem 1 and by us, and the accuracies."""
    epochs = max(len(run) for run in runs)
    spaced = np.geomspace(1, epochs, 24).round().astype(int).tolist()
    some = sorted({*spaced, *(epoch for epoch in (10, 50, 100, 150) if epoch < epochs)})
    return {
        "epochs": some,
        "accuracy": [after(runs, epoch) for epoch in some],
        "theorem": [
            published(scale.mechanism(local, epoch), DELTA, [PAPER])[PAPER] for epoch in some
        ],
        "ours": [
            float(dp.account(scale.plan(local, epoch).mechanism).epsilon(delta=DELTA).upper)
            for epoch in some
        ],
    }
