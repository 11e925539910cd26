"""Random plans, calibrated to random targets, on every surface: does each accept what calibrate returned?

    python -m tests.laws.one_answer --plans 500

Every surface is asked as its users ask it. A disagreement is a surface that shows more than the target,
or other digits than `account`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import sharpdp as dp
from sharpdp.budget import Budget
from sharpdp.cli import main
from sharpdp.explore import training_view
from sharpdp.learn.budget import affordable
from sharpdp.plans import Plan
from sharpdp.questions.compare_samplers import schemes_for
from sharpdp.report.model_card import card_data
from sharpdp.report.results import Results

Template = Callable[[float], dp.Mechanism]

SURFACES = (
    "account",
    "command line",
    "report",
    "model card",
    "ledger",
    "budget",
    "training",
    "page",
    "page's noise",
)


@dataclass(frozen=True)
class Question:
    """What is calibrated: a run as a function of one unknown, and a target."""

    name: str
    template: Template
    target: dict[str, float]
    sizes: dict[str, int] = field(default_factory=dict)
    """Of a run that the page has a row for."""

    def __str__(self) -> str:
        limits = ", ".join(f"{word} {value:g}" for word, value in self.target.items())
        return f"{self.name}: {limits}"


def questions(plans: int, seed: int = 0) -> list[Question]:
    """Random questions, each kind of run in turn."""
    rng = np.random.default_rng(seed)
    kinds = itertools.islice(itertools.cycle(KINDS), plans)
    drawn = [(kind(rng), _target(rng)) for kind in kinds]
    return [Question(name, template, target, sizes) for (name, template, sizes), target in drawn]


def _target(rng: np.random.Generator) -> dict[str, float]:
    """A target in two digits, as people write them."""
    two = float(f"{np.exp(rng.uniform(np.log(0.3), np.log(9.0))):.2g}")
    match rng.choice(["epsilon", "advantage", "tpr", "mu"], p=[0.7, 0.1, 0.1, 0.1]):
        case "epsilon":
            return {"epsilon": two, "delta": float(rng.choice([1e-5, 1e-6, 1e-8]))}
        case "advantage":
            return {"advantage": round(rng.uniform(0.05, 0.5), 2)}
        case "tpr":
            return {"tpr": round(rng.uniform(0.02, 0.3), 2), "fpr": 0.01}
        case _:
            return {"mu": round(rng.uniform(0.3, 2.0), 2)}


Drawn = tuple[str, Template, dict[str, int]]


def _sizes(rng: np.random.Generator) -> dict[str, int]:
    per_epoch = int(rng.integers(4, 40))
    batch = int(rng.choice([16, 64, 256]))
    return {
        "dataset_size": per_epoch * batch,
        "batch_size": batch,
        "epochs": int(rng.integers(1, 5)),
    }


def _noise_over(name: str) -> Callable[[np.random.Generator], Drawn]:
    """The noise of training over a batch scheme of the page."""

    def drawn(rng: np.random.Generator) -> Drawn:
        sizes = _sizes(rng)
        scheme = schemes_for(delta=1e-6, **sizes)[name]
        return name, lambda noise: dp.DPSGD(scheme, noise_multiplier=noise), sizes

    return drawn


def _steps(rng: np.random.Generator) -> Drawn:
    rate, noise = float(rng.choice([0.002, 0.01, 0.05])), float(rng.uniform(0.8, 3.0))

    def template(steps: float) -> dp.Mechanism:
        return dp.DPSGD(
            dp.PoissonBatches(sample_rate=rate, steps=int(steps)), noise_multiplier=noise
        )

    return f"Poisson steps, rate {rate}", template, {}


def _repeated(
    noise: Callable[[float], dp.Mechanism], name: str
) -> Callable[[np.random.Generator], Drawn]:
    def drawn(rng: np.random.Generator) -> Drawn:
        times = int(rng.integers(1, 60))
        return f"{name} * {times}", lambda scale: noise(scale) * times, {}

    return drawn


def _reports(rng: np.random.Generator) -> Drawn:
    users = int(rng.choice([2_000, 20_000]))
    return (
        f"{users} shuffled reports",
        lambda local: dp.ShuffledReports(users=users, local_epsilon=local),
        {},
    )


KINDS: tuple[Callable[[np.random.Generator], Drawn], ...] = (
    _noise_over("Poisson"),
    _noise_over("balls-and-bins"),
    _steps,
    _repeated(lambda scale: dp.Laplace(scale=scale), "Laplace"),
    _noise_over("random allocation"),
    _noise_over("deterministic"),
    _noise_over("shuffled"),
    _repeated(lambda scale: dp.Gaussian(noise_multiplier=scale), "Gaussian"),
    _noise_over("fixed size"),
    _reports,
    _noise_over("truncated Poisson"),
    _repeated(
        lambda scale: dp.RandomizedResponse(local_epsilon=1.0 / scale), "randomized response"
    ),
    _noise_over("with replacement"),
)


def disagreements(question: Question, folder: Path) -> dict[str, str]:
    """The surfaces that do not accept what calibrate returned, with what they say instead."""
    try:
        value = dp.calibrate(question.template, **question.target)
    except dp.InvalidArgument:  # every value meets the target, or none does
        return {}
    run, target = question.template(value), question.target
    delta = target.get("delta", 1e-6)
    answer = dp.account(run)
    shown = {"account": _missed(answer, target)}
    plan = folder / "plan.json"
    plan.write_text(json.dumps(Plan(run, (delta,), str(answer.adjacency)).to_dict()))
    epsilon = answer.epsilon(delta=delta)
    ends = (float(epsilon.lower), float(epsilon.upper))
    shown["command line"] = _other(_command_line(plan), ends)
    results = Results.of(answer, delta=delta)
    reported = results.epsilons[0][1]
    shown["report"] = _other((float(reported.lower), float(reported.upper)), ends)
    if "epsilon" in target:
        shown |= _accepted(run, target, folder)
        claim = card_data(results)["privacy"]["epsilon"]
        shown["model card"] = f"says {claim}" if claim > target["epsilon"] else ""
    if _is_on_the_page(question, run, delta) and answer.adjacency is dp.Adjacency.ZERO_OUT:
        shown["page"] = _other(_page(question, float(value), delta), ends)
        if "epsilon" in target:
            shown["page's noise"] = _missed(dp.account(_page_run(question)), target)
    return {surface: words for surface, words in shown.items() if words}


def _missed(answer: dp.Guarantee, target: dict[str, float]) -> str:
    """Which answers at the default width are above the target."""
    match target:
        case {"epsilon": epsilon, "delta": delta}:
            asked = [
                (answer.epsilon(delta=delta), epsilon),
                (answer.delta(epsilon=epsilon), delta),
            ]
        case {"advantage": limit}:
            asked = [(answer.advantage(), limit)]
        case {"tpr": limit, "fpr": fpr}:
            asked = [(answer.tpr(fpr=fpr), limit)]
        case _:
            asked = [(answer.mu(), target["mu"])]
    above = [f"{float(found.upper)!r} > {limit!r}" for found, limit in asked if found.upper > limit]
    return ", ".join(above + ([] if answer.meets(**target) else ["meets says no"]))


def _other(found: tuple[float, float], ends: tuple[float, float]) -> str:
    return "" if found == ends else f"{found} is not {ends}"


def _command_line(plan: Path) -> tuple[float, float]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["account", "--plan", str(plan), "--json"]) == 0
    (answer,) = json.loads(out.getvalue())["answers"]
    return float(answer["lower"]), float(answer["upper"])


def _accepted(run: dp.Mechanism, target: dict[str, float], folder: Path) -> dict[str, str]:
    """Ledger, budget and training, which compare with the target."""
    shown = {}
    ledger = dp.Ledger(folder / "ledger.jsonl", **target, choice="fixed")
    if ledger.would_exceed(run):
        shown["ledger"] = "refuses the run"
    else:
        ledger.add(run)
        if float(ledger.total().upper) > target["epsilon"]:
            shown["ledger"] = f"totals {ledger.total().upper!r}"
    budget = Budget(**target, choice="fixed")
    if budget.would_exceed(run):
        shown["budget"] = "refuses the run"
    if isinstance(run, dp.DPSGD):
        steps = affordable(run.stopped_after, run.batches.steps, **target)
        if steps < run.batches.steps:
            shown["training"] = f"stops after {steps} of {run.batches.steps} steps"
    return shown


def _is_on_the_page(question: Question, run: dp.Mechanism, delta: float) -> bool:
    """Whether the page has a row for just these batches: how it cuts Poisson batches depends on delta."""
    if not question.sizes or not isinstance(run, dp.DPSGD):
        return False
    return schemes_for(delta=delta, **question.sizes)[question.name] == run.batches


def _page(question: Question, noise: float, delta: float) -> tuple[float, float]:
    """The row of the page, as its server sends it."""
    (event,) = training_view._rows(noise, delta, question.sizes, [question.name])
    return float(event["row"]["lower"]), float(event["row"]["upper"])


def _page_run(question: Question) -> dp.Mechanism:
    """The run with the noise that the page prints for a target, typed in again."""
    scheme = question.template(1.0)
    assert isinstance(scheme, dp.DPSGD)
    found = training_view._noise(
        scheme.batches, question.target["epsilon"], question.target["delta"]
    )
    return question.template(float(found["shown"]))


def run(plans: int, seed: int) -> Counter[str]:
    """How many plans each surface disagrees about; disagreements are printed as they are found."""
    count: Counter[str] = Counter()
    for question in questions(plans, seed):
        with tempfile.TemporaryDirectory() as folder:
            found = disagreements(question, Path(folder))
        for surface, words in found.items():
            print(f"{question}: {surface} {words}", flush=True)  # noqa: T201
        count.update(found.keys())
    return count


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--plans", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = run(options.plans, options.seed)
    print(f"{options.plans} plans:", {surface: found[surface] for surface in SURFACES})  # noqa: T201
