"""sharpdp on shuffled reports of sampled users: CPU seconds and widths, at the points of Figure 5.

    python benchmarks/sampled_shuffle.py            all of it (about two minutes)
    python benchmarks/sampled_shuffle.py points     the points of Figure 5 of girgis2021
    python benchmarks/sampled_shuffle.py curve      one curve over 10^2 to 10^5 rounds
    python benchmarks/sampled_shuffle.py scale      as many users, people and rounds as there may be

One thread, best of three CPU times after a warm-up; every repetition changes the local epsilon in the
twelfth digit, so that no cache can answer. `width` is how far the two ends of the upper pair's own
bracket are apart, `gap` how far randomized response lies below it: the truth is in between.
"""

from __future__ import annotations

import itertools
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

import sharpdp as dp

DELTA = 1e-8
REPEATS = 3
FRESH = itertools.count(1)
"""Numbers of repetitions: none comes twice, so that nothing kept from an earlier one serves it."""

LINE = "{:>10} {:>12} {:>8} {:>10} {:>12} {:>12} {:>9} {:>8} {:>9}"
HEADINGS = ("users", "population", "local", "rounds", "lower", "upper", "width", "gap", "CPU s")


def sampled(users: int, local: float, population: int, rounds: int) -> dp.ShuffledReports:
    """Rounds of shuffled reports by users who are drawn."""
    return dp.ShuffledReports(
        users=users, local_epsilon=local, population=population, rounds=rounds
    )


def best_of(work: Callable[[float], object]) -> float:
    """The least CPU time of some repetitions, each with another local epsilon."""
    work(1.0)
    times = []
    for _ in range(REPEATS):
        factor = 1.0 + next(FRESH) * 1e-12
        start = time.process_time()
        work(factor)
        times.append(time.process_time() - start)
    return min(times)


def epsilon(run: dp.ShuffledReports, factor: float = 1.0) -> dp.Bracket:
    """The answer, with its local epsilon moved a little."""
    moved = replace(run, local_epsilon=run.local_epsilon * factor)
    return dp.account(moved).epsilon(delta=DELTA)


def line(run: dp.ShuffledReports) -> None:
    """One question, answered and timed."""
    found = epsilon(run)
    answer = dp.account(run)
    own = replace(answer, lower_derivations=answer.upper_derivations).epsilon(delta=DELTA)
    seconds = best_of(lambda factor: epsilon(run, factor))
    print(
        LINE.format(
            f"{run.users:.0e}",
            f"{run.population:.0e}",
            f"{run.local_epsilon:g}",
            f"{run.rounds:.0e}",
            f"{found.lower:.5g}",
            f"{found.upper:.5g}",
            f"{own.upper / own.lower - 1.0:.1e}",
            f"{1.0 - found.lower / found.upper:.3f}",
            f"{seconds:.3f}",
        ),
        flush=True,
    )


def points() -> None:
    """Every point of Figure 5: panels a and b over rounds, panel c over the population."""
    print(LINE.format(*HEADINGS))
    for population in (10**6, 10**7):
        for rounds in (10**2, 10**3, 10**4, 10**5):
            line(sampled(1000, 3.0, population, rounds))
    for population in (10**5, 10**6, 10**7, 10**8):
        line(sampled(1000, 3.0, population, 10**5))


def curve() -> None:
    """One curve over rounds, all points by one process, beside its dearest point alone."""
    places = [round(x) for x in np.geomspace(1e2, 1e5, 31)]

    def whole(factor: float) -> None:
        for rounds in places:
            epsilon(sampled(1000, 3.0, 10**6, rounds), factor)

    seconds = best_of(whole)
    one = best_of(lambda factor: epsilon(sampled(1000, 3.0, 10**6, 10**5), factor))
    print(f"curve of {len(places)} points: {seconds:.2f} s; its last point alone: {one:.3f} s")


def scale() -> None:
    """10^7 users of 10^10."""
    print(LINE.format(*HEADINGS))
    for local in (0.5, 3.0):
        for rounds in (1, 10**4, 10**7):
            line(sampled(10**7, local, 10**10, rounds))
    line(sampled(10**7, 3.0, 2 * 10**7, 10**4))


PARTS = {"points": points, "curve": curve, "scale": scale}


def main(words: list[str]) -> int:
    """Run the parts that are named, or all."""
    unknown = [word for word in words if word not in PARTS]
    if unknown:
        print(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}.")
        return 2
    for name, part in PARTS.items():
        if not words or name in words:
            print(f"\n{name}: {part.__doc__}")
            part()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
