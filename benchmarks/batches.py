"""Every batch scheme beside the accountants that know it, in one run: answers, widths, CPU seconds.

    make bench                                          after peers.py; or, without make:
    python benchmarks/batches.py --setup                make .venv-peers, and run everything
    python benchmarks/batches.py Poisson "fixed size"   some schemes

One line for each accountant: its answer, what that answer is (a bracket, an upper bound, an estimate, or
any of these for another mechanism), sharpdp's bracket for the same question at its default width of 1e-3,
CPU seconds of both, and how many times longer the other one takes. Where the answers exclude each other
the line says so. A scheme that nobody else accounts for has a line with sharpdp alone.

Each answer is measured as measuring.py says. The width is upper / lower - 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from measuring import in_process, require_peers, setup, worker

DRAWS = 20_000
ROUNDING = 1e-6  # answers that differ by less do not exclude each other

Answer = tuple[float | None, float | None]


@dataclass(frozen=True)
class Case:
    """One training run, and the delta to ask at."""

    scheme: str
    noise: float
    dataset_size: int
    batch_size: int
    epochs: int
    delta: float
    physical_batch_size: int = 0
    participations: int = 1
    adjacency: str = ""

    @property
    def rate(self) -> float:
        """Expected share of the data in a batch."""
        return self.batch_size / self.dataset_size

    @property
    def steps_per_epoch(self) -> int:
        """Steps of one epoch; a smaller last batch is one too."""
        return -(-self.dataset_size // self.batch_size)

    @property
    def steps(self) -> int:
        """Steps of the whole run."""
        return self.steps_per_epoch * self.epochs

    @property
    def words(self) -> str:
        """The numbers in short."""
        more = f" at most {self.physical_batch_size:,}" if self.physical_batch_size else ""
        more += f" {self.participations} steps each" if self.participations > 1 else ""
        more += f" {self.adjacency}" if self.adjacency else ""
        return (
            f"s={self.noise:g} n={self.dataset_size:,} b={self.batch_size:,} E={self.epochs}"
            f"{more} delta={self.delta:g}"
        )


# --- sharpdp ------------------------------------------------------------------------------------


def run_of(case: Case, noise: float) -> Any:
    """The run as sharpdp writes it."""
    import sharpdp as dp

    sizes: dict[str, Any] = {"dataset_size": case.dataset_size, "batch_size": case.batch_size}
    epochs = {**sizes, "epochs": case.epochs}
    fixed = {**sizes, "steps": case.steps}
    schemes: dict[str, Callable[[], Any]] = {
        "deterministic": lambda: dp.DeterministicBatches(**epochs),
        "Poisson": lambda: dp.PoissonBatches(sample_rate=case.rate, steps=case.steps),
        "truncated Poisson": lambda: dp.TruncatedPoissonBatches(
            **epochs, physical_batch_size=case.physical_batch_size
        ),
        "fixed size": lambda: dp.FixedSizeBatches(**fixed),
        "with replacement": lambda: dp.FixedSizeBatches(**fixed, replacement=True),
        "balls-and-bins": lambda: dp.RandomAllocation(
            steps=case.steps_per_epoch, epochs=case.epochs
        ),
        "kept bins": lambda: dp.BallsAndBins(**epochs, order="kept"),
        "some of many steps": lambda: dp.RandomAllocation(
            steps=case.steps_per_epoch,
            participations=case.participations,
            epochs=case.epochs,
        ),
        "shuffled": lambda: dp.ShuffledBatches(**epochs),
        "shuffled, one left out": lambda: dp.ShuffledBatches(**epochs, left_out=1, drop_last=True),
        "shuffle buffer": lambda: dp.BufferedShuffle(**epochs, buffer_size=10 * case.batch_size),
    }
    return dp.DPSGD(schemes[case.scheme](), noise_multiplier=noise)


def sharpdp(case: Case, noise: float) -> Answer:
    run = run_of(case, noise)
    import sharpdp as dp

    epsilon = dp.account(run, adjacency=case.adjacency or None).epsilon(delta=case.delta)
    return float(epsilon.lower), float(epsilon.upper)


# --- dp-accounting ------------------------------------------------------------------------------


def pld_deterministic(case: Case, noise: float) -> Answer:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant()
    accountant.compose(dp_accounting.GaussianDpEvent(noise), case.epochs)
    return None, float(accountant.get_epsilon(case.delta))


def pld_poisson(case: Case, noise: float) -> Answer:
    """Both sides; the lower one by rounding losses down."""
    from dp_accounting.pld import privacy_loss_distribution as library

    ends = []
    for pessimistic in (False, True):
        one = library.from_gaussian_mechanism(
            noise,
            sampling_prob=case.rate,
            value_discretization_interval=1e-4,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        ).self_compose(case.steps)
        ends.append(float(one.get_epsilon_for_delta(case.delta)))
    return ends[0], ends[1]


def rdp_poisson(case: Case, noise: float) -> Answer:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    accountant = RdpAccountant()
    event = dp_accounting.PoissonSampledDpEvent(case.rate, dp_accounting.GaussianDpEvent(noise))
    accountant.compose(event, case.steps)
    return None, float(accountant.get_epsilon(case.delta))


def pld_truncated(case: Case, noise: float) -> Answer:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant

    relation = dp_accounting.NeighboringRelation.REPLACE_SPECIAL
    accountant = PLDAccountant(neighboring_relation=relation)
    event = dp_accounting.dp_event.TruncatedSubsampledGaussianDpEvent(
        dataset_size=case.dataset_size,
        sampling_probability=case.rate,
        truncated_batch_size=case.physical_batch_size,
        noise_multiplier=noise,
    )
    accountant.compose(event, case.steps)
    return None, float(accountant.get_epsilon(case.delta))


def rdp_subset(case: Case, noise: float, scale: float = 1.0) -> Answer:
    """Replace-one; for a scale of two the noise is halved, since replacing moves a sum twice as far."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    accountant = RdpAccountant(neighboring_relation=relation)
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        case.dataset_size, case.batch_size, dp_accounting.GaussianDpEvent(noise / scale)
    )
    accountant.compose(event, case.steps)
    return None, float(accountant.get_epsilon(case.delta))


def rdp_subset_halved(case: Case, noise: float) -> Answer:
    return rdp_subset(case, noise, 2.0)


# --- prv-accountant, Opacus, riskcal ----------------------------------------------------------------


def prv(case: Case, noise: float) -> Answer:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import PoissonSubsampledGaussianMechanism

    variable = PoissonSubsampledGaussianMechanism(
        sampling_probability=case.rate, noise_multiplier=noise
    )
    accountant = PRVAccountant(
        prvs=[variable],
        max_self_compositions=[case.steps],
        eps_error=0.01,
        delta_error=case.delta / 1000,
    )
    low, _, high = accountant.compute_epsilon(case.delta, [case.steps])
    return float(low), float(high)


def opacus(case: Case, noise: float, kind: str) -> Answer:
    from opacus.accountants import create_accountant

    accountant = create_accountant(kind)
    accountant.history = [(noise, case.rate, case.steps)]
    return None, float(accountant.get_epsilon(delta=case.delta))


def opacus_prv(case: Case, noise: float) -> Answer:
    return opacus(case, noise, "prv")


def opacus_rdp(case: Case, noise: float) -> Answer:
    return opacus(case, noise, "rdp")


def riskcal(case: Case, noise: float) -> Answer:
    from riskcal.accountants import CTDAccountant

    accountant = CTDAccountant()
    accountant.history = [(noise, case.rate, case.steps)]
    return None, float(accountant.get_epsilon(delta=case.delta, grid_step=1e-4))


# --- pld-accounting, random-allocation, jax-privacy ----------------------------------------------------


def pld_accounting(case: Case, noise: float) -> Answer:
    from PLD_accounting import gaussian_allocation_epsilon_range

    upper, lower = gaussian_allocation_epsilon_range(
        delta=case.delta,
        sigma=noise,
        num_steps=case.steps_per_epoch,
        num_selected=case.participations,
        num_epochs=case.epochs,
    )
    return float(lower), float(upper)


def random_allocation(case: Case, noise: float) -> Answer:
    """The smaller of its direct bound and, for one epoch with one step each, its decomposition."""
    from random_allocation import (
        PrivacyParams,
        SchemeConfig,
        allocation_epsilon_decomposition,
        allocation_epsilon_direct,
    )

    params = PrivacyParams(
        sigma=noise,
        num_steps=case.steps_per_epoch,
        num_selected=case.participations,
        num_epochs=case.epochs,
        delta=case.delta,
    )
    settings = SchemeConfig(allocation_direct_alpha_orders=list(range(2, 40)))
    methods = [allocation_epsilon_direct]
    if case.epochs == case.participations == 1:
        methods.append(allocation_epsilon_decomposition)
    return None, min(float(method(params, settings)) for method in methods)


def jax_subset(case: Case, noise: float) -> Answer:
    """Fixed-size batches of jax-privacy: one user with one example, twice the sensitivity, PLD."""
    from jax_privacy.accounting import accountants, analysis

    accountant = analysis.DpsgdTrainingUserLevelAccountant(accountants.PldAccountantConfig())
    params = analysis.DpParams(
        noise_multipliers=noise,
        num_samples=case.dataset_size,
        delta=case.delta,
        batch_size=case.batch_size,
        examples_per_user=1,
        sampling_method=analysis.SamplingMethod.FIXED_BATCH_SIZE,
    )
    return None, float(accountant.compute_epsilon(case.steps, params))


def jax_truncated(case: Case, noise: float) -> Answer:
    from jax_privacy.accounting import accountants, analysis

    accountant = analysis.DpsgdTrainingAccountant(accountants.PldAccountantConfig())
    params = analysis.DpParams(
        noise_multipliers=noise,
        num_samples=case.dataset_size,
        delta=case.delta,
        batch_size=case.batch_size,
        truncated_batch_size=case.physical_batch_size,
    )
    return None, float(accountant.compute_epsilon(case.steps, params))


def jax_bins(case: Case, noise: float) -> Answer:
    """Balls-in-bins of jax-privacy, whose bins are the same in every epoch, by draws."""
    import numpy as np
    from jax_privacy import batch_selection
    from jax_privacy.experimental.monte_carlo import delta_calculation, sample_generation

    strategy = batch_selection.BallsInBinsSampling(
        iterations=case.steps, cycle_length=case.steps_per_epoch
    )
    losses, _ = sample_generation.get_privacy_loss_sample(
        strategy, noise, np.ones(1), seed=1, num_samples=DRAWS
    )
    low, high = 0.0, float(np.max(losses))
    for _ in range(50):
        middle = 0.5 * (low + high)
        if delta_calculation.delta_from_epsilon_and_samples(middle, losses) > case.delta:
            low = middle
        else:
            high = middle
    return None, high


# --- what is asked of whom --------------------------------------------------------------------------

BRACKET, UPPER, ESTIMATE = "bracket", "upper bound", "estimate"
OTHER = "for another mechanism"


@dataclass(frozen=True)
class Method:
    """One way to ask one accountant, and what its answer is."""

    name: str
    asked: Callable[[Case, float], Answer]
    kind: str


OURS = Method("sharpdp", sharpdp, BRACKET)
POISSON = [
    Method("dp-accounting PLD 1e-4", pld_poisson, BRACKET),
    Method("dp-accounting RDP", rdp_poisson, UPPER),
    Method("prv-accountant 0.01", prv, BRACKET),
    Method("Opacus PRV", opacus_prv, UPPER),
    Method("Opacus RDP", opacus_rdp, UPPER),
    Method("riskcal 1e-4", riskcal, UPPER),
]
SUBSETS = [
    Method("dp-accounting RDP", rdp_subset, UPPER),
    Method("dp-accounting RDP, s/2", rdp_subset_halved, UPPER),
    Method("jax-privacy, 1 per user", jax_subset, UPPER),
]
ALLOCATION = [
    Method("pld-accounting", pld_accounting, BRACKET),
    Method("random-allocation", random_allocation, UPPER),
]
SOME = [
    Method("pld-accounting", pld_accounting, f"{BRACKET} {OTHER}"),
    Method("random-allocation", random_allocation, UPPER),
]
CUT = [
    Method("dp-accounting PLD", pld_truncated, UPPER),
    Method("jax-privacy", jax_truncated, UPPER),
]
MNIST: dict[str, Any] = {"noise": 0.8, "dataset_size": 60_000, "batch_size": 512, "epochs": 30}
LARGE: dict[str, Any] = {"dataset_size": 10**6, "batch_size": 1000, "epochs": 1}
DRAWN: dict[str, Any] = {"noise": 2.0, "dataset_size": 1000, "batch_size": 10, "epochs": 10}


def one_each(scheme: str, noise: float, steps: int, epochs: int, delta: float) -> Case:
    """Batches of one example on average."""
    return Case(scheme, noise, steps, 1, epochs, delta)


ASKED: list[tuple[Case, list[Method]]] = [
    (
        Case("deterministic", **MNIST, delta=1e-5),
        [Method("dp-accounting PLD", pld_deterministic, UPPER)],
    ),
    (Case("Poisson", **MNIST, delta=1e-5), POISSON),
    (one_each("Poisson", 0.4, 10**5, 1, 1e-6), POISSON),
    (Case("truncated Poisson", **MNIST, delta=1e-5, physical_batch_size=600), CUT),
    (Case("truncated Poisson", 0.8, **LARGE, delta=1e-6, physical_batch_size=1150), CUT),
    (Case("fixed size", **MNIST, delta=1e-5, adjacency="replace-one"), SUBSETS),
    (Case("fixed size", 1.0, **LARGE, delta=1e-6, adjacency="replace-one"), SUBSETS),
    (Case("fixed size", **MNIST, delta=1e-5), []),
    (Case("with replacement", **MNIST, delta=1e-5), []),
    (Case("balls-and-bins", **MNIST, delta=1e-5), ALLOCATION),
    (one_each("balls-and-bins", 0.35, 1000, 1, 1e-6), ALLOCATION),
    (one_each("balls-and-bins", 0.8, 1000, 1, 1e-6), ALLOCATION),
    (one_each("balls-and-bins", 0.4, 10**5, 1, 1e-6), ALLOCATION),
    (Case("some of many steps", 1.0, 4, 1, 1, 1e-2, participations=2), SOME),
    (Case("some of many steps", 1.0, 1000, 1, 1, 1e-6, participations=10), SOME),
    (Case("kept bins", **DRAWN, delta=1e-3), [Method("jax-privacy draws", jax_bins, ESTIMATE)]),
    (Case("kept bins", **MNIST, delta=1e-5), []),
    (Case("shuffled", **MNIST, delta=1e-5), []),
    (Case("shuffled, one left out", **MNIST, delta=1e-5), []),
    (one_each("shuffled", 0.5, 10**4, 1, 1e-6), []),
    (Case("shuffle buffer", **MNIST, delta=1e-5), []),
]
METHODS = {method.name + method.asked.__name__: method for _, many in ASKED for method in many}
METHODS[OURS.name] = OURS


# --- judging ------------------------------------------------------------------------------------


def answered(case: Case, key: str) -> dict[str, Any]:
    """What one process says, or why it says nothing."""
    return in_process(__file__, json.dumps({"case": asdict(case), "method": key}))


def span(answer: dict[str, Any]) -> str:
    """Both ends, or the one there is, and the width."""
    lower, upper = answer["lower"], answer["upper"]
    if lower is None:
        return f"{upper:.6g}"
    width = f"{upper / lower - 1.0:.1e}" if lower > 0.0 else "-"
    return f"{lower:.6g} to {upper:.6g} ({width})"


def verdict(method: Method, answer: dict[str, Any], ours: dict[str, Any]) -> str:
    """Which of the two excludes the other, if one does."""
    if OTHER in method.kind:
        return ""
    if answer["lower"] is not None and answer["lower"] > ours["upper"] * (1.0 + ROUNDING):
        return "**lower end above ours**"
    if answer["upper"] < ours["lower"] * (1.0 - ROUNDING):
        return "below our lower end" if method.kind == ESTIMATE else "**below our lower end**"
    if method.kind == ESTIMATE and answer["upper"] > ours["upper"] * (1.0 + ROUNDING):
        return "above our upper end"
    return ""


def lines(case: Case, methods: list[Method]) -> None:
    """One case: a line of the table for each accountant, or one if there is none."""
    ours = answered(case, OURS.name)
    if "failed" in ours:
        print(
            f"| {case.scheme}, {case.words} | sharpdp | {ours['failed']} | | | | | | |", flush=True
        )
        return
    start = f"| {case.scheme}, {case.words} "
    end = f"| {span(ours)} | {ours['seconds']:.3g} "
    if not methods:
        print(f"{start}| none | | | {end}| | |", flush=True)
    for method in methods:
        answer = answered(case, method.name + method.asked.__name__)
        if "failed" in answer:
            print(f"{start}| {method.name} | {answer['failed']} | | {end}| | |", flush=True)
            continue
        ratio = answer["seconds"] / ours["seconds"]
        print(
            f"{start}| {method.name} | {method.kind} | {span(answer)} | {answer['seconds']:.3g} {end}"
            f"| {ratio:.2g} | {verdict(method, answer, ours)} |",
            flush=True,
        )


def main() -> int:
    """Run the schemes that are named, or all."""
    schemes = list(dict.fromkeys(case.scheme for case, _ in ASKED))
    parser = argparse.ArgumentParser(description="Batch schemes: sharpdp beside other accountants.")
    parser.add_argument("schemes", nargs="*", help=", ".join(schemes))
    parser.add_argument("--setup", action="store_true", help="make .venv-peers first")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        question = json.loads(options.worker)
        case, asked = Case(**question["case"]), METHODS[question["method"]].asked
        worker(lambda amount: asked(case, case.noise * (1.0 + amount)))
        return 0
    unknown = [name for name in options.schemes if name not in schemes]
    if unknown:
        print(f"there is no scheme {unknown[0]!r}; there are {', '.join(schemes)}.")
        return 2
    if options.setup:
        setup()
    require_peers()
    heads = ("scheme", "accountant", "answer is", "answer (width)", "CPU s", "sharpdp (width)")
    print(f"| {' | '.join((*heads, 'CPU s', 'ratio', 'verdict'))} |")
    print("|---" * 9 + "|")
    for case, methods in ASKED:
        if case.scheme in (options.schemes or schemes):
            lines(case, methods)
    return 0


if __name__ == "__main__":
    sys.exit(main())
