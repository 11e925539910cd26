"""Local randomizers: clients per CPU second, with the system's randomness and with numpy's.

    python benchmarks/randomizers.py            all of it (about half a minute)
    python benchmarks/randomizers.py 784        one dimension only

One thread, best of five CPU times after a warm-up. `system` draws every bit from the operating system,
as reports that protect someone do; `numpy` draws from a seeded generator, for simulations.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from typing import Any

import numpy as np

from sharpdp.learn import (
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    clipped,
)

LOCAL_EPSILON = 2.0
REPEATS = 5
NUMBERS = 4_000_000
"""Numbers that the clients of one repetition hold together."""

KINDS = (PrivUnit, PrivUnitBall, LatticeLaplace, CoordinateSigns, HadamardSigns)
LINE = "{:>20} {:>10} {:>14} {:>14} {:>14}"


def clients_per_second(randomizer: Any, records: Any, rng: Any) -> float:
    """How many clients report in one second of CPU time, at best."""
    randomizer.reports(records[:2], rng=rng)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        randomizer.reports(records, rng=rng)
        times.append(time.process_time() - start)
    return len(records) / min(times)


def row(randomizer: Any, records: Any, name: str, dimension: int) -> None:
    """One line: both sources of randomness, and the variance of one report."""
    speeds = [clients_per_second(randomizer, records, rng) for rng in (None, 1)]
    shown = [f"{speed:,.0f}" for speed in speeds]
    print(LINE.format(name, dimension, *shown, f"{randomizer.largest_variance:.6g}"), flush=True)


def main(dimensions: list[int]) -> None:
    print(f"local epsilon {LOCAL_EPSILON:g}, radius 1; clients per CPU second")
    print(LINE.format("randomizer", "dimension", "system", "numpy", "variance"))
    answers = RandomizedAnswers(local_epsilon=LOCAL_EPSILON, categories=10)
    row(answers, np.arange(10**6) % 10, "RandomizedAnswers", 10)
    for dimension in dimensions:
        clients = max(NUMBERS // dimension, 2)
        records = np.random.default_rng(1).normal(size=(clients, dimension))
        for kind in KINDS:
            randomizer: Any = kind(dimension=dimension, local_epsilon=LOCAL_EPSILON)
            if isinstance(randomizer, PrivUnit):
                rows = records / np.linalg.norm(records, axis=1)[:, None]
            else:
                rows = clipped(records, radius=1.0, norm=randomizer.norm)
            row(randomizer, rows, kind.__name__, dimension)


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [784, 10**4, 10**6])
