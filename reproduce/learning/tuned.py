"""CLDP-SGD with PrivUnit, tuned: the accuracy at a certified epsilon, for two models.

girgis2021's network and a linear model on oriented gradients. For each budget, the clip and the step are
chosen on a part of the training images that is held out; then the model is trained on all of them, and
tested. Momentum, warm-up and decay act on sums of reports that were released, and cost no privacy.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

import sharpdp as dp
from reproduce.chen2024.blocks import BUDGET, BUDGET_ORDERS
from reproduce.girgis2021.accuracies import PAPER, PARAMETERS, ROUNDS_PER_EPOCH, after, epsilons
from reproduce.girgis2021.accuracies import runs as papers_runs
from reproduce.girgis2021.claims import CLIENTS, DRAWN
from reproduce.learning.features import with_features
from reproduce.learning.gradients import Gradients, gradients, in_order, outputs
from reproduce.learning.images import Images, digits, mnist
from reproduce.learning.ledger import PAGES, kept, spread, told
from reproduce.learning.models import accuracy, flattened, linear, load, network
from reproduce.learning.simulation import CHUNK, gaussian_limit, sum_of_reports
from reproduce.pages import columns
from reproduce.sheets import Table
from sharpdp.learn import CLDPSGD, PrivUnitBall

__all__ = ["BY_ORDER", "EPSILONS", "Model", "Run", "Setting", "models", "report"]

RUNS = PAGES / "tuned.csv"
"""Every run of `python -m reproduce.learning tuned --full`."""

DELTA, MOMENTUM, WARM_UP = 1e-5, 0.9, 0.05
EPSILONS = (0.56, 1.0, 3.0, 5.8)
BY_ORDER = f"{BUDGET:g} x order"
"""chen2024's budget of Figure 4: a Rényi divergence of this at most, at all of `ORDERS`."""

ORDERS = (1.25, 1.5, *BUDGET_ORDERS, 32, 64)
"""Those at which the budget is kept: our list for the paper's figure, and some on both sides."""

CHOOSING, TESTING = "choosing", "testing"
"""On which images a run is tested: some training images that were held out, or the test images."""

MANY = 2000
"""Clients whose gradients are held at once where no inner products are needed."""


@dataclass(frozen=True)
class Setting:
    """What is chosen: the clip, and the longest way that the gradient of one client can lead.

    ``step`` is learning rate x clip / (1 - momentum), where the learning rate is at its peak.
    """

    clip: float
    step: float

    def learning_rate(self, number: int, rounds: int) -> float:
        """That of a round: up to the peak in the first twentieth, and down to 0 linearly."""
        warm = min(1.0, (number + 1) / (WARM_UP * rounds))
        return self.step * (1.0 - MOMENTUM) / self.clip * warm * (1.0 - number / rounds)


@dataclass(frozen=True)
class Model:
    """A model, how it is trained, and what is tried."""

    name: str
    dimension: int
    population: int
    users: int
    rounds: int
    budgets: tuple[float | str, ...]
    clips: tuple[float, ...]
    steps: tuple[float, ...]
    seeds: int
    images: Callable[[], Images]
    layers: Callable[[int], nn.Sequential]
    """The model before training, by seed."""
    is_chosen_by_limit: bool
    """Whether settings are tried with the Gaussian limit of the sum of reports."""

    def plan(self, local_epsilon: float, setting: Setting) -> CLDPSGD:
        """The rounds with this local epsilon."""
        return CLDPSGD(
            randomizer=self.ball(local_epsilon, setting),
            users=self.users,
            population=self.population,
            rounds=self.rounds,
            learning_rate=lambda number: setting.learning_rate(number, self.rounds),
        )

    def ball(self, local_epsilon: float, setting: Setting) -> PrivUnitBall:
        """The randomizer of a client."""
        return PrivUnitBall(
            dimension=self.dimension, local_epsilon=local_epsilon, radius=setting.clip
        )

    def settings(self) -> list[Setting]:
        """All that are tried for each budget."""
        return list(itertools.starmap(Setting, itertools.product(self.clips, self.steps)))


HEADINGS = ("model", "budget", "local_epsilon", "clip", "step", "images", "seed", "accuracy")


@dataclass(frozen=True)
class Run:
    """One finished run; ``images`` says what it was tested on."""

    model: str
    budget: str
    local_epsilon: float
    setting: Setting
    images: str
    seed: int
    accuracy: float

    def row(self) -> str:
        """A line of the file of all runs."""
        numbers = (self.local_epsilon, self.setting.clip, self.setting.step)
        cells = [self.model, self.budget, *(f"{one:g}" for one in numbers)]
        return ",".join([*cells, self.images, str(self.seed), f"{self.accuracy:.4f}"])

    @classmethod
    def from_row(cls, row: dict[str, str]) -> Run:
        """The run of such a line."""
        return cls(
            row["model"],
            row["budget"],
            float(row["local_epsilon"]),
            Setting(float(row["clip"]), float(row["step"])),
            row["images"],
            int(row["seed"]),
            float(row["accuracy"]),
        )


def models(size: str) -> list[Model]:
    """Both models in the sizes quick (scikit-learn's digits), short and full (MNIST)."""
    if size == "quick":
        small: dict[str, Any] = {
            "population": 1500,
            "users": 500,
            "rounds": 20,
            "budgets": (5.8,),
            "seeds": 1,
        }
        return [
            Model("network", 1210, **small, clips=(0.5,), steps=(1.0,),
                  images=_digits, layers=partial(network, 8), is_chosen_by_limit=False),
            Model("features", 1290, **small, clips=(1.0,), steps=(2.0, 8.0),
                  images=_digit_features, layers=lambda seed: linear(128), is_chosen_by_limit=True),
        ]  # fmt: skip
    seeds = {"short": 1, "full": 4}[size]
    return [
        Model("network", 26_010, 60_000, 2000, 300, EPSILONS, (0.005,), (0.6, 1.2), seeds,
              _mnist, partial(network, 28), is_chosen_by_limit=False),
        Model("features", 3930, 60_000, 6000, 300, (*EPSILONS, BY_ORDER), (0.25, 0.5),
              (3.0, 6.0, 12.0, 24.0), seeds, _mnist_features, lambda seed: linear(392),
              is_chosen_by_limit=True),
    ]  # fmt: skip


@cache
def _digits() -> Images:
    return digits()


@cache
def _mnist() -> Images:
    return mnist()


@cache
def _digit_features() -> Images:
    return with_features(digits())


@cache
def _mnist_features() -> Images:
    return with_features(mnist())


def largest_local(model: Model, budget: float | str, _: Path) -> float:
    """The largest local epsilon, in hundredths, whose rounds certainly keep the budget."""
    low, high = 1, 1200
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if keeps(model, middle / 100, budget) else (low, middle)
    return low / 100


def keeps(model: Model, local_epsilon: float, budget: float | str) -> bool:
    """Whether all rounds are certainly within the budget."""
    answer = dp.account(model.plan(local_epsilon, model.settings()[0]).mechanism)
    if budget == BY_ORDER:
        return all(answer.renyi(order=o).upper <= BUDGET * o for o in ORDERS)
    return bool(answer.epsilon(delta=DELTA).upper <= float(budget))


def trained(
    model: Model, purpose: str, local_epsilon: float, setting: Setting, seed: int, path: Path
) -> float:
    """The accuracy after one simulated run, on held-out images or, of all images, on test images."""
    images = model.images()
    images = images.for_choosing() if purpose == CHOOSING else images
    inputs, labels = (torch.from_numpy(one) for one in (images.train, images.train_labels))
    is_limit = model.is_chosen_by_limit and purpose == CHOOSING
    layers, plan = model.layers(seed), model.plan(local_epsilon, setting)
    ball = model.ball(local_epsilon, setting)
    rng, source = np.random.default_rng([seed, 7]), torch.Generator().manual_seed(seed)
    theta = flattened(layers)
    velocity = np.zeros_like(theta)
    for number in range(plan.rounds):
        chosen = rng.permutation(len(inputs))[: plan.users]

        def vectors(
            which: NDArray[np.int64], chosen: NDArray[np.int64] = chosen
        ) -> Iterator[Gradients]:
            for some in torch.split(torch.from_numpy(chosen[which]), MANY if is_limit else CHUNK):
                yield gradients(layers, inputs[some], labels[some])

        draw = gaussian_limit if is_limit else sum_of_reports
        total = draw(ball, vectors, plan.users, rng, source)
        velocity *= MOMENTUM
        velocity += in_order(layers, total).double().numpy() / plan.users
        theta = theta - plan.rate(number) * velocity
        load(layers, theta)
    found = accuracy(partial(outputs, layers), images)
    words = f"{model.name}, local epsilon {local_epsilon:g}, {setting}, {purpose}, seed {seed}"
    told(path, f"{words}: {found:.4f}")
    return found


def all_runs(model: Model, size: str, budget: float | str) -> list[Run]:
    """Every setting on held-out images, then the best one on the test images with all seeds."""
    short = f"tuned-{size}-{model.name}-{budget}"
    short = short.replace(" ", "-")
    local = kept(f"{short}-local", partial(largest_local, model, budget))

    def run(purpose: str, setting: Setting, seed: int) -> Run:
        name = f"{short}-{setting.clip:g}-{setting.step:g}-{purpose}-{seed}"
        found = kept(name, partial(trained, model, purpose, local, setting, seed))
        return Run(model.name, str(budget), local, setting, purpose, seed, found)

    tried = [run(CHOOSING, setting, 0) for setting in model.settings()]
    best = max(tried, key=lambda one: one.accuracy).setting
    return [*tried, *(run(TESTING, best, seed) for seed in range(model.seeds))]


def report(size: str, *, recorded: bool = False) -> dict[str, Any]:
    """Run what is missing, print the tables, and give back what a picture needs.

    With ``recorded`` nothing is run: the accuracies are those that are kept with the documentation.
    """
    trained_models = models(size)
    if recorded:
        with RUNS.open(encoding="utf-8", newline="") as file:
            found = [Run.from_row(row) for row in csv.DictReader(file)]
    else:
        found = [
            run
            for model in trained_models
            for budget in model.budgets
            for run in all_runs(model, size, budget)
        ]
    points = {model.name: points_of(model, found) for model in trained_models}
    tables = [
        Table(
            "",
            _POINT,
            [cells(model, one) for model in trained_models for one in points[model.name]],
        )
    ]
    if size == "full":
        tables.append(Table("Beside the settings of the paper", _BESIDE, beside(points)))
    title = (
        f"CLDP-SGD with PrivUnit, {trained_models[0].population} clients, tuned at each budget "
        f"(delta = {DELTA:g})"
    )
    print(columns(title, tables, REMARKS))
    return {
        "points": points,
        "paper": papers_curve() if size == "full" else None,
        "data": [",".join(HEADINGS), *(run.row() for run in found)],
    }


SHOWN = (10, 15, 20, 30, 40, 50, 70, 100, 150, 200)
"""Epochs of the paper's settings in the picture."""


def papers_curve() -> dict[str, Any]:
    """The paper's run, local epsilon 2: epsilon by its Theorem 1 and by us, and accuracies."""
    local, some = min(papers_runs().items())
    costs = [epsilons(local, epoch) for epoch in SHOWN]
    return {
        "theorem": [one[PAPER] for one in costs],
        "ours": [one["unit"][1] for one in costs],
        "accuracy": [after(some, epoch) for epoch in SHOWN],
    }


def points_of(model: Model, found: list[Run]) -> list[dict[str, Any]]:
    """A point for each budget whose runs are there."""
    at = {
        budget: [run for run in found if (run.model, run.budget) == (model.name, str(budget))]
        for budget in model.budgets
    }
    return [
        point(model, budget, runs)
        for budget, runs in at.items()
        if any(run.images == TESTING for run in runs)
    ]


def point(model: Model, budget: float | str, found: list[Run]) -> dict[str, Any]:
    """The chosen setting, what it costs, and the accuracies on test images."""
    tests = [run for run in found if run.images == TESTING]
    tried = [run for run in found if run.images == CHOOSING]
    local, setting = tests[0].local_epsilon, tests[0].setting
    answer = dp.account(model.plan(local, setting).mechanism)
    spent = answer.epsilon(delta=DELTA)
    return {
        "budget": str(budget),
        "local": local,
        "setting": setting,
        "spent": [spent.lower, spent.upper],
        "tried": len(tried),
        "held out": max(run.accuracy for run in tried),
        "accuracy": [run.accuracy for run in tests],
    }


_POINT = (
    "model",
    "budget",
    "clients x rounds",
    "local epsilon",
    "epsilon",
    "tried",
    "clip",
    "step",
    "held out %",
    "seeds",
    "test %",
)


def cells(model: Model, one: dict[str, Any]) -> list[str]:
    """One row of the table."""
    lower, upper = one["spent"]
    return [
        model.name,
        one["budget"],
        f"{model.users} x {model.rounds}",
        f"{one['local']:g}",
        f"{lower:.4g} to {upper:.4g}",
        str(one["tried"]),
        f"{one['setting'].clip:g}",
        f"{one['setting'].step:g}",
        f"{100 * one['held out']:.1f}",
        str(len(one["accuracy"])),
        spread(one["accuracy"]),
    ]


PUBLISHED = {3.0: "81.15 ± 0.7", 5.8: "89.7 ± 0.5"}
"""Accuracies in percent in the text of girgis2021, by the epsilon of its Theorem 1."""

_BESIDE = (
    "epsilon",
    "published %",
    "settings of the paper, local epsilon 2",
    "the same, local epsilon 5.65",
    "network %",
    "features %",
)


def beside(points: dict[str, list[dict[str, Any]]]) -> list[list[str]]:
    """For each epsilon: what was published there, and what the runs reach that certainly keep it."""
    rows = []
    for epsilon in EPSILONS:
        cells = [f"{epsilon:g}", PUBLISHED.get(epsilon, "")]
        for local, some in papers_runs().items():
            epoch = min(affordable(local, epsilon), len(some[0]))
            cells.append(f"{spread(after(some, epoch))} (epoch {epoch})")
        for one in points.values():
            reached = [p["accuracy"] for p in one if p["budget"] == str(epsilon)]
            cells.append(spread(reached[0]) if reached else "not run")
        rows.append(cells)
    return rows


def affordable(local_epsilon: float, epsilon: float) -> int:
    """The epochs of the paper's network that are certainly within epsilon."""
    plan = CLDPSGD(
        randomizer=PrivUnitBall(dimension=PARAMETERS, local_epsilon=local_epsilon),
        users=DRAWN,
        population=CLIENTS,
        rounds=200 * ROUNDS_PER_EPOCH,
    )
    return plan.affordable(epsilon=epsilon, delta=DELTA) // ROUNDS_PER_EPOCH


REMARKS = (
    "Epsilon is sharpdp's bracket for PrivUnit. The local epsilon is the largest, in hundredths, whose "
    f"upper end keeps the budget; {BY_ORDER} is that of chen2024's Figure 4, a bound on the Rényi "
    f"divergences of orders {', '.join(f'{order:g}' for order in ORDERS)}.",
    "Clip and step are the best of those tried, with seed 0, on the last 10,000 training images after "
    "training on the others, never on test images; no epsilon here covers that choice. The tried runs of "
    "the features take the Gaussian limit of the sum of reports.",
    "The step is learning rate x clip / (1 - momentum) at the peak of the schedule. All 60,000 training "
    "images and the exact distribution of PrivUnit's reports are behind the test accuracies.",
)
