"""Epsilon at tiny deltas and many runs, against a contour: `python -m tests.wild.contour --count 300`."""

from __future__ import annotations

import argparse
import resource
import sys
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from math import inf, isfinite, log

import numpy as np

import sharpdp as dp
from tests.reference import gaussian, laplace, poisson_direct, randomized
from tests.wild import oracle
from tests.wild.cases import Case, case

WIDTHS = (1e-3, 1e-5)
SLOW = 2.0  # seconds
MOST_MEMORY = 300.0  # MB
# How far the float oracle may be off, in log delta.
ORACLE = 1e-7
_TINY = 1e-12  # of exact references whose arguments are rounded


@dataclass
class Tally:
    """What was seen."""

    seen: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def note(self, kind: str, text: str) -> None:
        self.seen[kind] += 1
        self.problems.append(f"{kind}: {text}")


def exact_log_delta(one: Case, epsilon: float) -> float | None:
    """log delta(epsilon) from an exact reference, None if there is none that is fast."""
    if not one.exact:
        return None
    kind, *numbers = one.exact
    value = None
    if kind == "gaussian":
        value = gaussian.delta(numbers[0], numbers[1], epsilon, 15)
    elif kind == "poisson" and numbers[0] == 1.0:
        value = gaussian.delta(numbers[1], numbers[2], epsilon, 15)
    elif kind == "poisson" and numbers[2] == 1:
        rate, sigma, _ = numbers
        both = [poisson_direct.one_step(rate, sigma, way, epsilon, 15) for way in ("remove", "add")]
        value = max(both, key=float)
    elif kind == "randomized" and numbers[1] == 2 and numbers[2] <= 20_000:
        value = randomized.delta(numbers[0], numbers[2], epsilon, 2, 15)
    elif kind == "approximate" and numbers[2] <= 20_000:
        value = randomized.approximate_delta(*numbers, epsilon, 15)
    elif kind == "laplace" and numbers[1] <= 12:
        value = laplace.delta(numbers[0], numbers[1], epsilon, 15)
    if value is None:
        return None
    return float(value.log()) if value > 0 else -inf


def reference(one: Case, epsilon: float) -> tuple[float, float] | None:
    """(log delta, its error) from elsewhere."""
    exact = exact_log_delta(one, epsilon)
    if exact is not None:
        return exact, _TINY * (1.0 + abs(exact) if isfinite(exact) else 1.0)
    if one.factors is None or not isfinite(epsilon):
        return None
    try:
        with np.errstate(all="ignore"):
            return _from_oracle(one, epsilon)
    except (oracle.Unknown, FloatingPointError, ValueError):
        return None


def _from_oracle(one: Case, epsilon: float) -> tuple[float, float]:
    """(log delta, its error) in plain floats."""
    if one.exact and one.exact[0] == "finite":
        _, p, q, count = one.exact
        both = [oracle.log_delta_of_atoms(a, b, count, epsilon) for a, b in ((p, q), (q, p))]
        return max(both), ORACLE
    if one.exact and one.exact[0] == "randomized":
        _, local, categories, count = one.exact
        scale = np.exp(local) + categories - 1.0
        p = [np.exp(local) / scale, 1.0 / scale, (categories - 2) / scale]
        return oracle.log_delta_of_lattice(p, local, count, epsilon), 10.0 * ORACLE
    assert one.factors is not None
    return max(oracle.log_delta(f, epsilon) for f in one.factors.values()), ORACLE


def judge_epsilon(one: Case, bracket: dp.Bracket, tally: Tally) -> None:
    """The reference's delta at both ends must be on the right side of the one asked for."""
    goal = log(one.delta)
    for end, sign in ((bracket.lower, 1.0), (bracket.upper, -1.0)):
        end = float(end)
        if not isfinite(end) or (sign > 0 and end == 0.0):
            continue
        known = reference(one, end)
        if known is None:
            tally.seen["no reference"] += 1
            continue
        tally.seen["compared"] += 1
        value, error = known
        if sign * (value - goal) < -error:
            tally.note(
                "VIOLATION",
                f"{one}: {bracket}; reference log delta({end!r}) = {value!r}, wanted {goal!r}",
            )


def judge_delta(one: Case, epsilon: float, bracket: dp.Bracket, tally: Tally) -> None:
    known = reference(one, epsilon)
    if known is None:
        return
    value, error = known
    tally.seen["compared"] += 1
    low = log(bracket.lower) if bracket.lower > 0 else -inf
    high = log(bracket.upper) if bracket.upper > 0 else -inf
    if value == -inf:
        wrong = low > -inf
    else:
        wrong = low > value + error or (value > -744 and high < value - error)
    if wrong:
        tally.note("VIOLATION", f"{one} [delta at {epsilon!r}]: {bracket}; reference {value!r}")


def ask(one: Case, tally: Tally, widths: tuple[float, ...] = WIDTHS) -> None:
    """Both questions at two widths; everything that is not as it should be is noted."""
    answers = []
    for width in widths:
        start = time.process_time()
        answer = dp.account(one.mechanism, relative_width=width)
        bracket = answer.epsilon(delta=one.delta)
        taken = time.process_time() - start
        tally.times.append(taken)
        if taken > SLOW:
            tally.note("slow", f"{taken:.1f} s: {one} width={width}")
        answers.append(bracket)
        relative = float(bracket.relative_width)
        tally.widths.append(relative / width)
        if relative > 1.01 * width:
            tally.note("wide", f"{one}: {bracket!r} relative width {relative:.2g} > {width}")
        judge_epsilon(one, bracket, tally)
    if answers[0].lower > answers[-1].upper or answers[-1].lower > answers[0].upper:
        tally.note("VIOLATION", f"{one}: widths disagree {answers}")
    epsilon = 0.9 * float(answers[-1].upper) if isfinite(answers[-1].upper) else 1.0
    start = time.process_time()
    bracket = dp.account(one.mechanism).delta(epsilon=epsilon)
    taken = time.process_time() - start
    if taken > SLOW:
        tally.note("slow", f"{taken:.1f} s: {one} delta at epsilon={epsilon!r}")
    judge_delta(one, epsilon, bracket, tally)
    if float(bracket.relative_width) > 2e-3 and bracket.upper > 1e-290:
        tally.note("wide", f"{one} [delta at {epsilon!r}]: {bracket!r}")


def run(seed: int, first: int, count: int, *, echo: bool = False, patient: bool = True) -> Tally:
    """Ask `count` questions of one seed, at two widths if patient."""
    tally = Tally()
    for index in range(first, first + count):
        one = case(seed, index)
        shown = len(tally.problems)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                ask(one, tally, WIDTHS if patient else WIDTHS[:1])
        except dp.NotCertified as refusal:
            tally.note("refused", f"{one}: {refusal}")
        except Warning as warning:
            where = traceback.extract_tb(sys.exc_info()[2])[-1]
            tally.note("warning", f"{one}: {warning} in {where.filename}:{where.lineno}")
        except Exception as error:
            where = traceback.extract_tb(sys.exc_info()[2])[-1]
            text = f"{type(error).__name__} {error} in {where.filename}:{where.lineno}"
            tally.note("exception", f"{one}: {text}")
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        if memory > MOST_MEMORY and not tally.seen["memory"]:
            tally.note("memory", f"{memory:.0f} MB: {one}")
        if echo:
            for text in tally.problems[shown:]:
                sys.stdout.write(f"#{index} {text}\n")
                sys.stdout.flush()
    return tally


def summary(tally: Tally) -> str:
    times, widths = np.array(tally.times or [0.0]), np.array(tally.widths or [0.0])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    return (
        f"{dict(tally.seen)}; seconds per answer: median {np.median(times):.3f}, "
        f"p95 {np.quantile(times, 0.95):.3f}, max {times.max():.2f}; "
        f"achieved/asked width: median {np.median(widths):.2g}, max {widths.max():.2g}; "
        f"peak memory {memory:.0f} MB"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    sys.stdout.write(summary(run(chosen.seed, chosen.first, chosen.count, echo=True)) + "\n")
