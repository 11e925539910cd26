"""girgis2021, Figure 6: the accuracies of its text beside those of our runs, and what both cost."""

from __future__ import annotations

import csv
from collections import defaultdict
from typing import Any

import sharpdp as dp
from reproduce.girgis2021.claims import CLIENTS, DRAWN, MNIST_DELTA
from reproduce.girgis2021.panels import published, sampled
from reproduce.learning.ledger import mean, spread
from reproduce.progress import each
from reproduce.sheets import QUICK, Table, bracket, number
from reproduce.sources import ROOT
from sharpdp.learn import CLDPSGD, PrivUnitBall

RUNS = ROOT / "docs" / "experiments" / "clients.csv"
"""Accuracies by local epsilon, seed and epoch, of `python -m reproduce.learning clients --full`."""

PARAMETERS, ROUNDS_PER_EPOCH = 26_010, 30

PRINTED = (
    ("81.15 ± 0.7", "3 by Theorem 1", 50),
    ("76.46 ± 1.9", "3 by clones (evaluated)", 39),
    ("", "3 by clones (closed form)", 5),
    ("", "3 by rounds that cost 18.3 after 200", 7),
    ("89.7 ± 0.5", "5.8 by Theorem 1", 200),
)
"""Accuracies of the paper in percent, the epsilon there, and the epochs that it allows."""

PAPER, BASELINE = "sampled_moments_epsilon_upper", "numeric_clones_strong_composition_upper"
"""The paper's Theorem 1, and its baseline, by their names in sharpdp."""

Runs = dict[float, list[list[float]]]
"""Accuracies by local epsilon: a list over epochs for each seed."""


def runs() -> Runs:
    """The runs that are kept with the documentation."""
    found: dict[float, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    with RUNS.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[float(row["local_epsilon"])][int(row["seed"])].append(float(row["accuracy"]))
    return {local: list(seeds.values()) for local, seeds in found.items()}


def after(some: list[list[float]], epoch: int) -> list[float]:
    """The accuracies of the runs that have come so far."""
    return [run[epoch - 1] for run in some if len(run) >= epoch]


def first_epoch(some: list[list[float]], accuracy: float) -> int | None:
    """The first epoch whose mean over seeds is at least this; None if there is none."""
    longest = max(map(len, some))
    return next((e for e in range(1, longest + 1) if mean(after(some, e)) >= accuracy), None)


def epsilons(local_epsilon: float, epochs: int) -> dict[str, Any]:
    """Epsilon of so many epochs: two published accounts, any randomizer, and PrivUnit."""
    rounds = epochs * ROUNDS_PER_EPOCH
    run = sampled(DRAWN, local_epsilon, CLIENTS, rounds)
    plan = CLDPSGD(
        randomizer=PrivUnitBall(dimension=PARAMETERS, local_epsilon=local_epsilon),
        users=DRAWN,
        population=CLIENTS,
        rounds=rounds,
    )
    truths = [dp.account(one).epsilon(delta=MNIST_DELTA) for one in (run, plan.mechanism)]
    ends = [[one.lower, one.upper] for one in truths]
    return {**published(run, MNIST_DELTA, [BASELINE, PAPER]), "any": ends[0], "unit": ends[1]}


def values(size: str) -> dict[str, Any]:
    """What was printed and what is reached, with all epsilons; quickly, one row of each."""
    found = runs()
    shown = PRINTED[:1] if size == QUICK else PRINTED
    small = min(found)
    printed = each(epsilons, [(small, epoch) for _, _, epoch in shown])
    goals = [float(text.partition(" ")[0]) for text, _, _ in shown if text]
    reached = [
        (goal, local, first_epoch(some, goal / 100.0))
        for goal in sorted(goals)
        for local, some in found.items()
    ]
    there = [one for one in reached if one[2] is not None]
    return {
        "lengths": {f"{local:g}": [len(run) for run in some] for local, some in found.items()},
        "printed": [
            {"printed": text, "at": at, "epoch": epoch, "ours": after(found[small], epoch), **row}
            for (text, at, epoch), row in zip(shown, printed, strict=True)
        ],
        "reached": [
            {"goal": goal, "local": local, "epoch": epoch, **row}
            for (goal, local, epoch), row in zip(
                there, each(epsilons, [(local, epoch) for _, local, epoch in there]), strict=True
            )
        ],
    }


def _costs(row: dict[str, Any]) -> list[str]:
    return [
        number(row[BASELINE], 3),
        number(row[PAPER], 3),
        *(bracket(row[n], 3) for n in ("any", "unit")),
    ]


def tables(found: dict[str, Any]) -> list[Table]:
    """Printed accuracies beside ours; what they take; how far each seed has come."""
    names = ("clones, evaluated", "Theorem 1", "truth, any randomizer", "truth, PrivUnit")
    printed = [
        [
            row["printed"] or "–",
            row["at"],
            f"{row['epoch']}",
            f"{len(row['ours'])}",
            spread(row["ours"]) if row["ours"] else "not reached",
            *_costs(row),
        ]
        for row in found["printed"]
    ]
    reached = [
        [f"{row['goal']:g}", f"{row['local']:g}", f"{row['epoch']}", *_costs(row)]
        for row in found["reached"]
    ]
    come = [[local, ", ".join(map(str, lengths))] for local, lengths in found["lengths"].items()]
    return [
        Table(
            "Accuracies of the paper, and ours at the same epoch (local ε = 2)",
            ("published %", "at ε", "epoch", "seeds", "ours %", *names),
            printed,
        ),
        Table(
            "The first epoch at which ours reach them on average, and what it costs",
            ("accuracy %", "local ε", "epoch", *names),
            reached,
        ),
        Table("Epochs completed by each seed, of 200", ("local ε", "epochs"), come),
    ]
