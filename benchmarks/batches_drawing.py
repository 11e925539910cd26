"""Drawing batches: CPU time of the first batch and of the next ones, and memory, for every scheme.

    python benchmarks/batches_drawing.py            all sizes (about a minute)
    python benchmarks/batches_drawing.py 1e9        one data set size

A batch has 1000 examples on average. `first` is the CPU time from `plan.batches(key, start=...)` in the
middle of the run to its first batch, `next` the mean over the next ones, `longest` the slowest of them,
`memory` the peak of what Python and numpy hold meanwhile (tracemalloc, in a second pass: it slows down),
`numpy` the time of numpy's own Generator for one batch where it can draw the same (a subset of that
size; a permutation of everything once per epoch, which is not done beyond 10^7).
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np

import sharpdp as dp

BATCH = 1000
NEXT = 200
KEY = b"a key of a benchmark, not secret"
SIZES = (10**5, 10**7, 10**9, 10**12)
LARGEST_PERMUTED = 10**7
LINE = "{:>8} {:<34} {:>10} {:>10} {:>10} {:>10} {:>10}"
HEADINGS = ("examples", "scheme", "first ms", "next ms", "longest", "memory MB", "numpy ms")


def plans(size: int) -> list[tuple[str, Any]]:
    steps = size // BATCH
    sizes = {"dataset_size": size, "batch_size": BATCH}
    return [
        ("Poisson", dp.PoissonBatches(**sizes, epochs=2)),
        (
            "truncated Poisson",
            dp.TruncatedPoissonBatches(**sizes, epochs=2, physical_batch_size=1250),
        ),
        ("fixed size", dp.FixedSizeBatches(**sizes, steps=2 * steps)),
        ("deterministic", dp.DeterministicBatches(**sizes, epochs=2)),
        ("shuffled", dp.ShuffledBatches(**sizes, epochs=2)),
        ("balls-and-bins", dp.BallsAndBins(**sizes, epochs=2)),
        (
            "random allocation, 2 of all",
            dp.RandomAllocation(steps=2 * steps, participations=2, epochs=2, dataset_size=size),
        ),
    ]


def timed(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def by_numpy(name: str, size: int) -> str:
    """numpy's time for one batch, or the share of one batch in a permutation of everything."""
    rng = np.random.default_rng(1)
    if name in ("Poisson", "truncated Poisson", "fixed size"):
        draw = timed(lambda: [np.sort(rng.choice(size, BATCH, replace=False)) for _ in range(20)])
        return f"{1e3 * draw / 20:.3f}"
    if name == "shuffled" and size <= LARGEST_PERMUTED:
        return f"{1e3 * timed(lambda: rng.permutation(size)) * BATCH / size:.3f}"
    return "-"


def line(size: int, name: str, plan: Any) -> None:
    start = plan.steps // 2
    batches = plan.batches(KEY, start=start)
    first = timed(lambda: next(batches))
    later = [timed(lambda: next(batches)) for _ in range(min(NEXT, plan.steps - start - 1))]
    tracemalloc.start()
    for _ in islice(plan.batches(KEY, start=start), len(later)):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    mean, longest = 1e3 * sum(later) / len(later), 1e3 * max(later)
    shown = (f"{1e3 * first:.2f}", f"{mean:.3f}", f"{longest:.2f}", f"{peak / 2**20:.1f}")
    print(LINE.format(f"{size:.0e}", name, *shown, by_numpy(name, size)), flush=True)


def main(words: list[str]) -> None:
    print(LINE.format(*HEADINGS))
    for size in [int(float(word)) for word in words] or SIZES:
        for name, plan in plans(size):
            line(size, name, plan)


if __name__ == "__main__":
    main(sys.argv[1:])
