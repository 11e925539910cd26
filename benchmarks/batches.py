"""sharpdp beside other accountants of batch schemes, in one run: widths of answers and CPU seconds.

    python benchmarks/batches.py --setup        make .venv-allocation with the other accountants
    python benchmarks/batches.py                everything (about ten minutes)
    python benchmarks/batches.py balls shuffled parts of it

Each answer comes from a process of its own (one thread): a warm-up on another noise, then the best of
three CPU times, or one if it takes long. `width` is upper / lower - 1; an accountant that has an upper
side only has none. sharpdp is asked twice: certified, at its default width of 1e-3, and by draws
(`estimate`, confidence 0.99).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OTHERS = ROOT / ".venv-allocation"
PACKAGES = ("pld-accounting", "random-allocation", "dp-accounting", "pandas")
LIMIT = 40  # CPU seconds for one answer with its warm-up
LONG = 2.0  # CPU seconds beyond which one run must do
REPEATS = 3
DRAWS = 10_000
LINE = "{:<34} {:<26} {:>12} {:>12} {:>9} {:>9}"


@dataclass(frozen=True)
class Case:
    """One run: how batches are drawn, noise, steps of an epoch, epochs, and the delta to ask at."""

    scheme: str
    noise: float
    steps: int
    epochs: int
    delta: float
    participations: int = 1

    @property
    def words(self) -> str:
        """The case in short."""
        more = f" k={self.participations}" if self.participations > 1 else ""
        more += f" E={self.epochs}" if self.epochs > 1 else ""
        return f"s={self.noise:g} T={self.steps:g}{more} d={self.delta:g}"


PARTS = {
    "balls": [
        Case("balls", 0.35, 1000, 1, 1e-6),
        Case("balls", 0.8, 1000, 1, 1e-6),
        Case("balls", 1.0, 10**4, 1, 1e-6),
        Case("balls", 0.4, 10**5, 1, 1e-6),
        Case("balls", 1.0, 1000, 10, 1e-6),
    ],
    "allocation": [
        Case("allocation", 1.0, 4, 1, 1e-2, 2),
        Case("allocation", 1.0, 1000, 1, 1e-6, 10),
    ],
    "poisson": [Case("poisson", 0.4, 10**5, 1, 1e-6), Case("poisson", 0.8, 1000, 1, 1e-6)],
    "shuffled": [
        Case("shuffled", 0.5, 10**4, 1, 1e-6),
        Case("shuffled", 1.0, 1000, 10, 1e-6),
        Case("shuffled", 4.0, 10**4, 1, 1e-6),
    ],
}
METHODS = {
    "balls": ["sharpdp", "sharpdp draws", "pld-accounting", "random-allocation"],
    "allocation": ["sharpdp", "sharpdp draws", "pld-accounting", "random-allocation"],
    "poisson": ["sharpdp", "sharpdp draws", "dp-accounting PLD"],
    "shuffled": ["sharpdp", "sharpdp draws"],
}
Answer = tuple[float | None, float]


def run_of(case: Case, noise: float) -> object:
    import sharpdp as dp

    sizes = {"dataset_size": case.steps, "batch_size": 1, "epochs": case.epochs}
    plan: dp.batches.BatchScheme
    if case.scheme == "balls":
        plan = dp.BallsAndBins(**sizes)
    elif case.scheme == "shuffled":
        plan = dp.ShuffledBatches(**sizes)
    elif case.scheme == "poisson":
        plan = dp.PoissonBatches(sample_rate=1.0 / case.steps, steps=case.steps * case.epochs)
    else:
        plan = dp.RandomAllocation(
            steps=case.steps, participations=case.participations, epochs=case.epochs
        )
    return dp.DPSGD(plan, noise_multiplier=noise)


def sharpdp(case: Case, noise: float) -> Answer:
    import sharpdp as dp

    found = dp.account(run_of(case, noise)).epsilon(delta=case.delta)
    return float(found.lower), float(found.upper)


def sharpdp_draws(case: Case, noise: float) -> Answer:
    import sharpdp as dp

    found = dp.estimate(run_of(case, noise), delta=case.delta, samples=DRAWS, rng=1)
    return float(found.lower), float(found.upper)


def pld_accounting(case: Case, noise: float) -> Answer:
    from PLD_accounting import gaussian_allocation_epsilon_range

    upper, lower = gaussian_allocation_epsilon_range(
        delta=case.delta,
        sigma=noise,
        num_steps=case.steps,
        num_selected=case.participations,
        num_epochs=case.epochs,
    )
    return lower, upper


def random_allocation(case: Case, noise: float) -> Answer:
    """The smaller of its decomposition and direct bounds, upper side only."""
    from random_allocation import (
        PrivacyParams,
        SchemeConfig,
        allocation_epsilon_decomposition,
        allocation_epsilon_direct,
    )

    params = PrivacyParams(
        sigma=noise,
        num_steps=case.steps,
        num_selected=case.participations,
        num_epochs=case.epochs,
        delta=case.delta,
    )
    settings = SchemeConfig(allocation_direct_alpha_orders=list(range(2, 40)))
    methods = (allocation_epsilon_decomposition, allocation_epsilon_direct)
    return None, min(float(method(params, settings)) for method in methods)


def dp_accounting(case: Case, noise: float) -> Answer:
    from dp_accounting.pld import privacy_loss_distribution as library

    ends = []
    for pessimistic in (False, True):
        one = library.from_gaussian_mechanism(
            noise,
            sampling_prob=1.0 / case.steps,
            value_discretization_interval=1e-4,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        ).self_compose(case.steps * case.epochs)
        ends.append(float(one.get_epsilon_for_delta(case.delta)))
    return ends[0], ends[1]


ASKED = {
    "sharpdp": (sharpdp, ROOT / ".venv"),
    "sharpdp draws": (sharpdp_draws, ROOT / ".venv"),
    "pld-accounting": (pld_accounting, OTHERS),
    "random-allocation": (random_allocation, OTHERS),
    "dp-accounting PLD": (dp_accounting, OTHERS),
}


def worker(text: str) -> None:
    """One answer, timed; printed as JSON. A limit on CPU time ends it."""
    question = json.loads(text)
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    case = Case(**question["case"])
    asked, _ = ASKED[question["method"]]
    start = time.process_time()
    asked(case, case.noise * 1.01)
    first = time.process_time() - start
    times, found = [], (None, float("nan"))
    for repeat in range(REPEATS if first < LONG else 1):
        start = time.process_time()
        found = asked(case, case.noise * (1.0 + repeat * 1e-12))
        times.append(time.process_time() - start)
    print(json.dumps({"lower": found[0], "upper": found[1], "seconds": min(times)}))


def answered(case: Case, method: str) -> dict[str, float | None] | str:
    """What one process says, or why it says nothing."""
    python = ASKED[method][1] / "bin" / "python"
    if not python.exists():
        return "not installed"
    question = json.dumps({"case": asdict(case), "method": method})
    settings = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    done = subprocess.run(
        [str(python), __file__, "--worker", question],
        capture_output=True,
        text=True,
        check=False,
        env=settings,
    )
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or [f"over {LIMIT} CPU s"]
        return reason[0][:60]
    found: dict[str, float | None] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def line(case: Case, method: str) -> None:
    """One answer as a line."""
    found = answered(case, method)
    start = f"{case.scheme} {case.words}"
    if isinstance(found, str):
        print(LINE.format(start, method, "-", "-", "-", "-"), found, flush=True)
        return
    lower, upper, seconds = found["lower"], found["upper"], found["seconds"]
    assert upper is not None
    assert seconds is not None
    width = "-" if not lower else f"{upper / lower - 1.0:.1e}"
    low = "-" if lower is None else f"{lower:.6g}"
    print(LINE.format(start, method, low, f"{upper:.6g}", width, f"{seconds:.2f}"), flush=True)


def main() -> int:
    """Run the parts that are named, or all."""
    parser = argparse.ArgumentParser(description="Batch schemes: sharpdp beside other accountants.")
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--setup", action="store_true", help="make .venv-allocation first")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return 0
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        print(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
        return 2
    if options.setup:
        venv.create(OTHERS, with_pip=True)
        install = [str(OTHERS / "bin" / "python"), "-m", "pip", "install", "--quiet", *PACKAGES]
        subprocess.run(install, check=True)
    print(LINE.format("case", "accountant", "lower", "upper", "width", "CPU s"))
    for part in options.parts or PARTS:
        for case in PARTS[part]:
            for method in METHODS[part]:
                line(case, method)
    return 0


if __name__ == "__main__":
    sys.exit(main())
