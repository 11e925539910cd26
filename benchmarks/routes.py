"""Special routes to an answer, with and without: what each one gains on the questions that people ask.

    python benchmarks/routes.py                      all routes, a table in Markdown
    python benchmarks/routes.py "rare losses"        those whose name has the words
    python benchmarks/routes.py --questions report   only questions whose name has the words

A route is taken away by a patch; nothing else changes, and no answer becomes wrong. It stays in the
sources if it gains 20% of CPU time or of width on some question. Only questions that it changes by that
much are printed, for better or worse. The best CPU time of a few calls, each with numbers changed in the
ninth digit, so that no cache can answer; set OMP_NUM_THREADS and OPENBLAS_NUM_THREADS to 1.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import PropertyMock, patch

import numpy as np

import sharpdp as dp
from sharpdp.bounds import registry
from sharpdp.bracket import Bracket
from sharpdp.mechanisms.sensitivity import SensitivityDistribution
from sharpdp.pairs import pair as pairs
from sharpdp.profile import composition, error_rates, planning
from sharpdp.profile.composition import ENGINES, Composition
from sharpdp.profile.contour_engine import ContourEvaluation
from sharpdp.profile.engine import Declined
from sharpdp.questions import account as accounting

GAIN = 0.2
"""What a route has to gain to stay."""

REPEATS, LONG = 3, 3.0
"""Calls of every question; and the CPU seconds from which one call must do."""

WITH_RANGES = ContourEvaluation.enclose


@dataclass(frozen=True)
class Route:
    """One special way to an answer: what it is, and how it is taken away."""

    name: str
    without: Callable[[], Any]


def patched(*patches: tuple[Any, str, Any]) -> Callable[[], Any]:
    """Attributes that are replaced while the route is taken away."""

    @contextmanager
    def away() -> Iterator[None]:
        with ExitStack() as stack:
            for owner, name, value in patches:
                stack.enter_context(patch.object(owner, name, value))
            yield

    return away


def engines_but(name: str) -> Callable[[], Any]:
    """All engines but one."""
    left = tuple(engine for engine in ENGINES if engine.__name__ != name)
    return patched((composition, "ENGINES", left))


def without_ranges(steps: Any, thresholds: Any, tolerance: float) -> Any:
    """What the engine of all steps does with one threshold; it declines many."""
    if thresholds.values.size > 1:
        raise Declined("one threshold at a time")
    return WITH_RANGES(steps, thresholds, tolerance)


def none_of(name: str) -> tuple[Any, str, Any]:
    """A property of `Composition` that is None."""
    return (Composition, name, PropertyMock(return_value=None))


def without_settled() -> Any:
    """No quick look at the other direction: both are asked."""
    stack = ExitStack()
    for question in (accounting.EPSILON, accounting.DELTA):
        stack.callback(object.__setattr__, question, "settled", question.settled)
        object.__setattr__(question, "settled", None)
    return stack


def without_field(name: str) -> Callable[[], Any]:
    """A scheduling field of all registered bounds, empty."""

    def away() -> Any:
        stack = ExitStack()
        for bound in registry.all_bounds():
            stack.callback(object.__setattr__, bound, name, getattr(bound, name))
            object.__setattr__(bound, name, () if name == "yields_to" else None)
        return stack

    return away


ROUTES = (
    Route("jumps: contours for rare large losses", engines_but("JumpExpansion")),
    Route("rare losses: bounds without an engine", patched(none_of("_rare_losses"))),
    Route("bounded losses apart from unbounded ones", patched(none_of("_bounded_apart"))),
    Route("a dominating pair as a second opinion", patched(none_of("_dominating"))),
    Route(
        "derivations that others seem to beat are left out",
        patched((accounting, "_unbeaten", lambda derivations, _: tuple(derivations))),
    ),
    Route(
        "derivations far behind at some of many values are left out",
        patched((accounting.Guarantee, "_worth_asking", lambda self, *_: self._best_upper)),
    ),
    Route(
        "runs far behind by quicker pairs are left out",
        patched((accounting.Guarantee, "_seems_behind", lambda *_: False)),
    ),
    Route("quick bounds on the other direction", without_settled),
    Route(
        "a rough look at the other direction",
        patched((accounting, "ROUGH_LOOK", 0.0)),
    ),
    Route(
        "pairs made for few thresholds",
        patched((Composition, "_pair_for", lambda self, **_: self.single_pair)),
    ),
    Route(
        "one contour between many thresholds",
        patched((ContourEvaluation, "enclose", without_ranges)),
    ),
    Route(
        "quicker pairs for many rates",
        patched((error_rates, "quick_pair", lambda pair: pair)),
    ),
    Route("work of a sweep made together", patched((planning, "_prepare", lambda *_: None))),
    Route("rough pairs for searches", without_field("rough")),
    Route("bounds that yield to better ones", without_field("yields_to")),
    Route(
        "quicker pairs to plan with",
        patched((pairs.Pair, "for_planning", lambda self: self)),
    ),
)


def poisson(rate: float, steps: int, noise: float) -> dp.DPSGD:
    """A run over Poisson batches."""
    return dp.DPSGD(dp.PoissonBatches(sample_rate=rate, steps=steps), noise_multiplier=noise)


def over(scheme: type, noise: float, **sizes: Any) -> dp.DPSGD:
    """A run over batches of a scheme."""
    return dp.DPSGD(scheme(**sizes), noise_multiplier=noise)


MNIST = {"dataset_size": 60_000, "batch_size": 512}
SMALL = {"dataset_size": 60_000, "batch_size": 60}
RATES = np.linspace(1e-4, 0.9999, 1000)
DELTAS = np.geomspace(1e-12, 1e-2, 1000)

RUNS: dict[str, Callable[[float], dp.Mechanism]] = {
    "Poisson 0.01 x 1000": lambda f: poisson(0.01, 1000, f),
    "Poisson 512 / 60,000 x 30 epochs": lambda f: over(
        dp.PoissonBatches, 0.8 * f, epochs=30, **MNIST
    ),
    "Poisson 0.1 x 8": lambda f: poisson(0.1, 8, f),
    "Poisson 0.01 x 31, noise 0.5": lambda f: poisson(0.01, 31, 0.5 * f),
    "Poisson 0.001 x 20, noise 0.6": lambda f: poisson(1e-3, 20, 0.6 * f),
    "Poisson 1e-4 x 100, noise 0.5": lambda f: poisson(1e-4, 100, 0.5 * f),
    "Poisson 1e-6 x 10^6, noise 0.3": lambda f: poisson(1e-6, 10**6, 0.3 * f),
    "100 different Poisson steps": lambda f: dp.Sequence(
        [poisson(0.01, 10, (1.0 + 0.01 * i) * f) for i in range(100)]
    ),
    "Laplace": lambda f: dp.Laplace(scale=10.0 * f) * 30,
    "Laplace and Gaussian": lambda f: dp.Laplace(scale=2.0 * f) * 5 + dp.Gaussian(3.0) * 10,
    "randomized response x 2": lambda f: (
        dp.RandomizedResponse(local_epsilon=1.0 * f, categories=4) * 2
    ),
    "randomized response x 40": lambda f: (
        dp.RandomizedResponse(local_epsilon=0.3 * f, categories=4) * 40
    ),
    "pure and Gaussian": lambda f: dp.PureDP(epsilon=0.1 * f) * 20 + dp.Gaussian(5.0) * 10,
    "shuffled reports": lambda f: dp.ShuffledReports(users=10_000, local_epsilon=4.0 * f),
    "shuffled reports x 12": lambda f: dp.ShuffledReports(
        users=10_000, local_epsilon=2.0 * f, rounds=12
    ),
    "federated": lambda f: dp.ShuffledReports(
        users=2000, population=60_000, local_epsilon=2.0 * f, rounds=6000
    ),
    "shuffled answers, 4 categories": lambda f: dp.ShuffledReports(
        users=100_000, randomizer=dp.RandomizedResponse(local_epsilon=2.0 * f, categories=4)
    ),
    "shuffled Laplace noise": lambda f: dp.ShuffledReports(
        users=1000, randomizer=dp.LocalLaplace(local_epsilon=1.0 * f)
    ),
    "shuffled Gaussian noise": lambda f: dp.ShuffledReports(
        users=1000, randomizer=dp.LocalGaussian(2.0 * f)
    ),
    "balls-and-bins, 2 epochs": lambda f: over(dp.BallsAndBins, f, epochs=2, **SMALL),
    "balls-and-bins, 10 epochs": lambda f: over(dp.BallsAndBins, f, epochs=10, **SMALL),
    "10 of 1000 steps": lambda f: over(dp.RandomAllocation, f, steps=1000, participations=10),
    "shuffled batches, README": lambda f: over(dp.ShuffledBatches, 0.8 * f, epochs=30, **MNIST),
    "shuffled batches, 10 epochs": lambda f: over(dp.ShuffledBatches, f, epochs=10, **SMALL),
    "shuffled batches, a vacancy": lambda f: over(
        dp.ShuffledBatches, 0.8 * f, epochs=30, drop_last=True, **MNIST
    ),
    "truncated Poisson": lambda f: dp.DPSGD(
        dp.TruncatedPoissonBatches(steps=1000, physical_batch_size=600, **MNIST),
        noise_multiplier=f,
    ),
    "fixed size": lambda f: over(dp.FixedSizeBatches, f, steps=1000, **MNIST),
    "a rare sensitivity x 2": lambda f: (
        dp.RandomlyInitializedGD(
            sensitivity=SensitivityDistribution(atoms=[(0.145 * f, 4.8e-6), (0.0, 1 - 4.8e-6)]),
            claim="instance",
            initialization="public",
        )
        * 2
    ),
    "best of 20": lambda f: dp.BestOf(poisson(0.01, 1000, f), repetitions="geometric", mean=20),
}

Question = Callable[[dp.Mechanism], Any]
QUESTIONS: dict[str, Question] = {
    "epsilon": lambda run: dp.account(run).epsilon(delta=1e-6),
    "delta": lambda run: dp.account(run).delta(epsilon=1.0),
    "tpr": lambda run: dp.account(run).tpr(fpr=1e-3),
    "1000 epsilons": lambda run: dp.account(run).epsilon(delta=DELTAS),
    "1000 tpr": lambda run: dp.account(run).tpr(fpr=RATES),
    "report": lambda run: dp.account(run).report(),
}

CALIBRATIONS: dict[str, Callable[[float], Any]] = {
    "calibrate Poisson": lambda f: dp.calibrate(
        lambda s: poisson(0.01, 1000, s), epsilon=f, delta=1e-6
    ),
    "calibrate balls-and-bins": lambda f: dp.calibrate(
        lambda s: over(dp.BallsAndBins, s, epochs=10, **SMALL), epsilon=2.0 * f, delta=1e-6
    ),
    "calibrate shuffled batches": lambda f: dp.calibrate(
        lambda s: over(dp.ShuffledBatches, s, epochs=1, **SMALL), epsilon=2.0 * f, delta=1e-6
    ),
    "calibrate 10 of 1000 steps": lambda f: dp.calibrate(
        lambda s: over(dp.RandomAllocation, s, steps=1000, participations=10),
        epsilon=f,
        delta=1e-6,
    ),
    "calibrate local epsilon, 12 rounds": lambda f: dp.calibrate(
        lambda e: dp.ShuffledReports(users=10_000, local_epsilon=e, rounds=12),
        epsilon=f,
        delta=1e-6,
    ),
    "sweep of 5 rates and 40 noises": lambda f: dp.sweep(
        lambda noise, rate: poisson(rate, 1000, noise),
        noise=list(f * np.geomspace(0.5, 2.0, 40)),
        rate=[0.001, 0.003, 0.01, 0.03, 0.1],
    ).epsilon(delta=1e-6),
}


def asked() -> dict[str, Callable[[float], Any]]:
    """All questions by name, as functions of a factor near one."""
    single = {
        f"{question}, {run}": (lambda f, make=make, ask=ask: ask(make(f)))
        for run, make in RUNS.items()
        for question, ask in QUESTIONS.items()
    }
    return {**single, **CALIBRATIONS}


_calls = iter(range(10**9))


def measured(call: Callable[[float], Any]) -> tuple[float, float]:
    """The best CPU time, and the width of the answer relative to its upper end."""
    best, width = np.inf, 0.0
    for _ in range(REPEATS):
        start = time.process_time()
        answer = call(1.0 + 1e-9 * next(_calls))
        best = min(best, time.process_time() - start)
        if isinstance(answer, Bracket):
            low, high = np.asarray(answer.lower, float), np.asarray(answer.upper, float)
            with np.errstate(all="ignore"):
                width = float(np.nanmax(np.where(high > low, (high - low) / high, 0.0)))
        if best > LONG:
            break
    return best, width


def main() -> None:
    """Measure all questions, then all of them again without each route."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("routes", nargs="*", help="words in the names of routes")
    parser.add_argument("--questions", nargs="*", default=[], help="words in their names")
    options = parser.parse_args()
    questions = {
        name: call
        for name, call in asked().items()
        if not options.questions or any(word in name for word in options.questions)
    }
    routes = [
        route
        for route in ROUTES
        if not options.routes or any(word in route.name for word in options.routes)
    ]
    for call in questions.values():  # imports, and what is tabulated once
        call(0.99)
    before = {name: measured(call) for name, call in questions.items()}
    print("| route | question | CPU ms with | without | width with | without | gain |")
    print("|---|---|---|---|---|---|---|")
    for route in routes:
        stays = False
        with route.without():
            for name, call in questions.items():
                (seconds, width), (other, wider) = before[name], measured(call)
                if 1.0 - min(seconds, other) / max(seconds, other) >= GAIN:
                    other = min(
                        other, measured(call)[0]
                    )  # another process may have slowed one down
                gain = max(1.0 - seconds / other, 1.0 - width / wider if wider > 1e-12 else 0.0)
                loss = max(1.0 - other / seconds, 1.0 - wider / width if width > 1e-12 else 0.0)
                if max(gain, loss) < GAIN:
                    continue
                stays |= gain >= GAIN
                changes = f"{gain:+.0%}" + (f", {-loss:.0%}" if loss >= GAIN else "")
                print(
                    f"| {route.name} | {name} | {1e3 * seconds:.1f} | {1e3 * other:.1f} "
                    f"| {width:.1e} | {wider:.1e} | {changes} |",
                    flush=True,
                )
        print(f"| **{route.name}** | **{'stays' if stays else 'goes'}** | | | | | |", flush=True)


if __name__ == "__main__":
    main()
