"""Where users wait: the calls of documentation and command line that took more than a CPU second.

    python benchmarks/waits.py                       all of them
    python benchmarks/waits.py calibrate             those whose name has the word
    python benchmarks/waits.py --cold                the first call of each only
    python benchmarks/waits.py --source ../old/src   with the sources of another tree

Every call runs in a process of its own, with as many threads as numpy takes by itself. *Cold* is the
first call after `import sharpdp`, with all that is imported late; *warm* is the same call with numbers
changed by a thousandth, so that no cache can answer. A command line counts with its start. *Before* is
cold at a15ee80, before issue 18.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from measuring import ROOT, printed

ALLOWED = 1.0  # CPU seconds

RUNS = {
    "poisson": "dp.DPSGD(dp.PoissonBatches(sample_rate=0.01, steps=1000), noise_multiplier=1.0 * F)",
    "reports": "dp.ShuffledReports(users=10_000, local_epsilon=4.0 * F, rounds=100)",
    "federated": "dp.ShuffledReports(users=2000, population=60_000, local_epsilon=2.0 * F, rounds=6000)",
    "private_unit": "PrivUnitBall(dimension=784, local_epsilon=2.0 * F, radius=0.005)"
    ".shuffled(users=2000, population=60_000, rounds=6000)",
    "balls": "dp.DPSGD(dp.BallsAndBins(dataset_size=60_000, batch_size=60, epochs=10), "
    "noise_multiplier=1.0 * F)",
    "shuffled": "dp.DPSGD(dp.ShuffledBatches(dataset_size=60_000, batch_size=60, epochs=10), "
    "noise_multiplier=1.0 * F)",
    "vacancy": "dp.DPSGD(dp.ShuffledBatches(dataset_size=60_000, batch_size=512, epochs=30, "
    "drop_last=True), noise_multiplier=0.8 * F)",
    "responses": "dp.ShuffledReports(users=1_000_000, randomizer=dp.RandomizedResponse("
    "local_epsilon=2.0 * F, categories=4))",
    "laplace": "dp.ShuffledReports(users=1000, randomizer=dp.LocalLaplace(local_epsilon=1.0 * F))",
}


def asked(name: str) -> str:
    """The account of one of the runs."""
    return f"dp.account({RUNS[name]})"


def noise(batches: str, target: str = "epsilon=2.0 * F, delta=1e-6") -> str:
    """The noise of a training run over some batches."""
    return f"dp.calibrate(lambda s: dp.DPSGD(dp.{batches}, noise_multiplier=s), {target})"


def local(run: str, target: str) -> str:
    """The local epsilon of shuffled reports."""
    return f"dp.calibrate(lambda e: {run}, {target})"


BATCHES = "dataset_size=60_000, batch_size=60, epochs="
PLAN = "dataset_size=60_000, batch_size=512"
CALLS: list[tuple[str, float | None, str]] = [  # name, CPU seconds before, call of a factor F
    (
        "calibrate PrivUnit to 5.8",
        18.3,
        local(
            "PrivUnitBall(dimension=784, local_epsilon=e, radius=0.005)"
            ".shuffled(users=2000, population=60_000, rounds=6000)",
            "epsilon=5.8 * F, delta=1e-5",
        ),
    ),
    (
        "estimate, balls-and-bins, 1000 steps",
        13.7,
        "dp.estimate(dp.DPSGD(dp.BallsAndBins(dataset_size=1000, batch_size=1, epochs=1), "
        "noise_multiplier=1.0 * F), delta=1e-6, rng=1)",
    ),
    ("report, shuffled reports x 100", 11.2, f"{asked('reports')}.report()"),
    (
        "calibrate randomized response, 5000 users",
        8.8,
        local(
            "dp.ShuffledReports(users=5000, randomizer=dp.RandomizedResponse(local_epsilon=e))",
            "epsilon=0.5 * F, delta=1e-6",
        ),
    ),
    ("calibrate shuffled batches, 10 epochs", 8.8, noise(f"ShuffledBatches({BATCHES}10)")),
    ("calibrate balls-and-bins, 10 epochs", 6.9, noise(f"BallsAndBins({BATCHES}10)")),
    ("calibrate shuffled batches, 1 epoch", 5.7, noise(f"ShuffledBatches({BATCHES}1)")),
    (
        "calibrate sampled reports to 5.8",
        5.6,
        local(
            "dp.ShuffledReports(users=2000, population=60_000, local_epsilon=e, rounds=6000)",
            "epsilon=5.8 * F, delta=1e-5",
        ),
    ),
    (
        "$ sharpdp compare shuffle -o",
        5.6,
        "$compare shuffle --users 10000 --local-epsilon 1 --delta 1e-6 -o OUT.svg",
    ),
    ("report, HTML, shuffled batches", 5.8, f"{asked('shuffled')}.report(format='html')"),
    ("report, HTML, balls-and-bins", 5.5, f"{asked('balls')}.report(format='html')"),
    ("tradeoff().plot(), shuffled batches", 5.1, f"{asked('shuffled')}.tradeoff().plot()"),
    ("tradeoff().plot(), balls-and-bins", 4.0, f"{asked('balls')}.tradeoff().plot()"),
    (
        "calibrate 1 of 1000 steps",
        4.5,
        noise("RandomAllocation(steps=1000, participations=1)", "epsilon=0.5 * F, delta=1e-6"),
    ),
    (
        "calibrate 10 of 1000 steps",
        4.3,
        noise("RandomAllocation(steps=1000, participations=10)"),
    ),
    (
        "compare_samplers, 60,000 / 512, 10 epochs",
        4.3,
        f"dp.compare_samplers(noise_multiplier=1.0 * F, {PLAN}, epochs=10, delta=1e-5)",
    ),
    ("report, federated", 3.3, f"{asked('federated')}.report()"),
    (
        "$ sharpdp tradeoff -o",
        2.6,
        "$tradeoff --noise-multiplier 1 --sample-rate 0.01 --steps 1000 -o OUT.svg",
    ),
    (
        "compare_samplers, 1000 / 100, 2 epochs",
        2.3,
        "dp.compare_samplers(noise_multiplier=1.0 * F, dataset_size=1000, batch_size=100, epochs=2, "
        "delta=1e-5)",
    ),
    (
        "calibrate local epsilon, 12 rounds",
        2.3,
        local(
            "dp.ShuffledReports(users=10_000, local_epsilon=e, rounds=12)",
            "epsilon=1.0 * F, delta=1e-6",
        ),
    ),
    ("shuffled Laplace noise, 1000 users", 2.4, f"{asked('laplace')}.epsilon(delta=1e-6)"),
    ("tradeoff().plot(), shuffled reports", 1.9, f"{asked('reports')}.tradeoff().plot()"),
    (
        "pld_of(shuffled reports)",
        2.0,
        "pld_of(dp.ShuffledReports(users=10_000, local_epsilon=4.0 * F))",
    ),
    ("randomized response, 4 categories", 1.5, f"{asked('responses')}.epsilon(delta=1e-8)"),
    ("PrivUnit, federated", 1.66, f"{asked('private_unit')}.epsilon(delta=1e-5)"),
    (
        "CLDPSGD.affordable",
        1.8,
        "CLDPSGD(randomizer=PrivUnitBall(dimension=20, local_epsilon=2.0 * F, radius=1.0), users=1000, "
        "population=20_000, rounds=100, learning_rate=lambda step: 1.0)"
        ".affordable(epsilon=0.1, delta=1e-5)",
    ),
    ("plots.profile, Poisson", 1.6, f"profile({asked('poisson')})"),
    ("tradeoff().plot(), Poisson", 1.2, f"{asked('poisson')}.tradeoff().plot()"),
    ("report, Poisson", 1.1, f"{asked('poisson')}.report()"),
    ("epsilon, balls-and-bins, 10 epochs", 1.5, f"{asked('balls')}.epsilon(delta=1e-6)"),
    ("epsilon, shuffled batches, 10 epochs", 1.5, f"{asked('shuffled')}.epsilon(delta=1e-6)"),
    ("epsilon, shuffled batches with a vacancy", None, f"{asked('vacancy')}.epsilon(delta=1e-5)"),
    (
        "epsilon, the same, replace-one",
        None,
        f"dp.account({RUNS['vacancy']}, adjacency='replace-one').epsilon(delta=1e-5)",
    ),
    (
        "calibrate truncated Poisson",
        1.6,
        noise(
            "TruncatedPoissonBatches(dataset_size=60_000, batch_size=512, steps=1000, "
            "physical_batch_size=600)"
        ),
    ),
    (
        "calibrate fixed size",
        1.4,
        noise("FixedSizeBatches(dataset_size=60_000, batch_size=512, steps=1000)"),
    ),
    ("epsilon, federated", 1.15, f"{asked('federated')}.epsilon(delta=1e-5)"),
    ("compare, federated", 1.45, f"dp.compare({RUNS['federated']}, delta=1e-5)"),
    (
        "epsilon of a profile",
        1.02,
        "dp.account(dp.mechanisms.ProfileMechanism(profile=lambda e: 0.1 * F * np.exp(-e)))"
        ".epsilon(delta=1e-5)",
    ),
    (
        "$ sharpdp report -o",
        1.33,
        "$report --noise-multiplier 1 --sample-rate 0.01 --steps 1000 -o OUT.html",
    ),
]

TIMED = """
import time
import matplotlib as mpl
import numpy as np
mpl.use("Agg")
import sharpdp as dp
from sharpdp.learn import CLDPSGD, PrivUnitBall
{imports}
for F in {factors}:
    start = time.process_time()
    {call}
    print(time.process_time() - start)
"""
COMMAND = """
import os, resource, subprocess, sys, tempfile
with tempfile.TemporaryDirectory() as folder:
    words = {words!r}.replace("OUT", os.path.join(folder, "out")).split()
    subprocess.run([sys.executable, "-m", "sharpdp", *words], check=True, capture_output=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime)
"""


def code_of(call: str, factors: tuple[float, ...]) -> str:
    """The lines that time one call."""
    if call.startswith("$"):
        return COMMAND.format(words=call[1:])
    imports = "from sharpdp.integrations.dp_accounting import pld_of" if "pld_of" in call else ""
    if call.startswith("profile("):
        imports = "from sharpdp.plots import profile"
    return TIMED.format(imports=imports, call=call, factors=factors)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--source", type=Path, default=ROOT / "src")
    options = parser.parse_args()
    factors = (1.0,) if options.cold else (1.0, 1.001)
    print("| call | before | cold | warm | |\n|---|---|---|---|---|")
    for name, before, call in CALLS:
        if not all(word in name for word in options.words):
            continue
        try:
            code = code_of(call, factors)
            said = printed(code, options.limit, options.source, one_thread=False)
        except RuntimeError as error:
            print(f"| {name} | {before or ''} | {error} | | |", flush=True)
            continue
        times = [float(line) for line in said.split()]
        warm = "" if len(times) == 1 else f"{times[1]:.2f}"
        mark = "**over 1 s**" if max(times) > ALLOWED else ""
        print(f"| {name} | {before or ''} | {times[0]:.2f} | {warm} | {mark} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
