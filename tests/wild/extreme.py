"""Extreme parameters over mechanisms and questions: `python -m tests.wild.extreme --count 200 --seed 1`.

An answer is a bracket whose ends are in order, or an exception that sharpdp raises on purpose and that
does not speak of a defect. Everything else is a problem: a raw exception, a warning, too much time.
"""

from __future__ import annotations

import argparse
import math
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from types import FrameType

import numpy as np

import sharpdp as dp
from sharpdp.mechanisms.sensitivity import SensitivityDistribution

MOST_SECONDS = 20

_NAMES = {"dp": dp, "math": math, "SensitivityDistribution": SensitivityDistribution}

Draw = Callable[[np.random.Generator], str]


class Slow(BaseException):
    """Too much processor time; not an Exception, so that nothing in between catches it."""


def _number(rng: np.random.Generator, low: float, high: float) -> str:
    """Log-uniform over a wide range, now and then one of its ends."""
    if rng.random() < 0.1:
        return repr(float(rng.choice([low, high])))
    return repr(float(math.exp(rng.uniform(math.log(low), math.log(high)))))


def _count(rng: np.random.Generator, most: float) -> int:
    return max(1, round(float(math.exp(rng.uniform(-0.5, math.log(most))))))


def _rate(rng: np.random.Generator) -> str:
    kind = rng.random()
    if kind < 0.1:
        return "1.0"
    return repr(1.0 - float(_number(rng, 1e-15, 0.1))) if kind < 0.25 else _number(rng, 1e-30, 1.0)


def poisson(rng: np.random.Generator) -> str:
    batches = f"dp.PoissonBatches(sample_rate={_rate(rng)}, steps={_count(rng, 1e12)})"
    return f"dp.DPSGD({batches}, noise_multiplier={_number(rng, 1e-3, 1e6)})"


def gaussian(rng: np.random.Generator) -> str:
    return f"dp.Gaussian({_number(rng, 1e-4, 1e8)}) * {_count(rng, 1e12)}"


def laplace(rng: np.random.Generator) -> str:
    return f"dp.Laplace({_number(rng, 1e-3, 1e8)}) * {_count(rng, 1e6)}"


def randomized(rng: np.random.Generator) -> str:
    kinds = int(rng.choice([2, 3, 1000]))
    response = (
        f"dp.RandomizedResponse(local_epsilon={_number(rng, 1e-6, 30.0)}, categories={kinds})"
    )
    return f"{response} * {_count(rng, 1e12)}"


def approximate(rng: np.random.Generator) -> str:
    promise = (
        f"dp.ApproximateDP(epsilon={_number(rng, 1e-12, 500.0)}, delta={_number(rng, 1e-300, 0.9)})"
    )
    return f"{promise} * {_count(rng, 1e12)}"


def finite(rng: np.random.Generator) -> str:
    size = int(rng.integers(2, 5))
    p = rng.dirichlet(np.full(size, 0.3))
    apart = float(_number(rng, 1e-9, 3.0))
    q = p * np.exp(rng.normal(0.0, apart, size)) if rng.random() < 0.6 else rng.dirichlet(p + 0.1)
    if rng.random() < 0.2:
        q[0] = 0.0
    p, q = p / p.sum(), q / q.sum()
    return f"dp.FinitePair(p={p.tolist()}, q={q.tolist()}) * {_count(rng, 1e15)}"


def rare(rng: np.random.Generator) -> str:
    seldom = float(_number(rng, 1e-12, 0.5))
    atoms = f"[({_number(rng, 1e-4, 100.0)}, {seldom!r}), (0.0, {1.0 - seldom!r})]"
    law = f"SensitivityDistribution(atoms={atoms})"
    step = f"dp.RandomlyInitializedGD(sensitivity={law}, claim='instance', initialization='public')"
    return f"{step} * {_count(rng, 1e6)}"


def sequence(rng: np.random.Generator) -> str:
    parts = [str(ALONE[int(rng.integers(len(ALONE)))](rng)) for _ in range(int(rng.integers(2, 4)))]
    return f"dp.Sequence([{', '.join(parts)}])"


ALONE: tuple[Draw, ...] = (poisson, gaussian, laplace, randomized, approximate, finite, rare)
KINDS: tuple[Draw, ...] = (*ALONE, poisson, poisson, sequence, sequence)


def question(rng: np.random.Generator) -> str:
    kind = str(rng.choice(["delta", "epsilon", "fpr_fnr", "fpr_tpr", "order", "mu", "advantage"]))
    if kind == "delta":
        return f"delta(epsilon={rng.choice(['0.0', _number(rng, 1e-12, 1e6)])})"
    if kind == "epsilon":
        return f"epsilon(delta={_number(rng, 1e-320, 0.999)})"
    if kind.startswith("fpr"):
        return f"{kind[4:]}(fpr={rng.choice(['0.0', '1.0', _number(rng, 1e-300, 1.0)])})"
    if kind == "order":
        return (
            f"renyi(order={rng.choice(['math.inf', repr(1.0 + float(_number(rng, 1e-6, 1e6)))])})"
        )
    return "mu()" if kind == "mu" else "advantage()"


def case(seed: int, index: int) -> str:
    """One call, reproducible from its text."""
    rng = np.random.default_rng([seed, index])
    mechanism = KINDS[int(rng.integers(len(KINDS)))](rng)
    return f"dp.account({mechanism}).{question(rng)}"


def _stop(_: int, __: FrameType | None) -> None:
    raise Slow


def problem(call: str) -> str | None:
    """What is wrong with the answer; None if nothing is."""
    signal.signal(signal.SIGVTALRM, _stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = eval(call, _NAMES)
    except Slow:
        return f"more than {MOST_SECONDS} s"
    except dp.SharpDPError as fault:
        refused = isinstance(fault, dp.InvalidArgument | dp.Unsupported)
        return None if refused else f"{type(fault).__name__}: {fault}"
    except Exception as fault:
        return f"raw {type(fault).__name__}: {fault}"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    low, high = float(answer.lower), float(answer.upper)
    return None if low <= high else f"out of order: {low!r}, {high!r}"


def main() -> int:
    """Ask, print every problem, and count them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--slow", type=float, default=5.0, help="seconds from which a call is shown"
    )
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    found = 0
    for index in range(options.first, options.first + options.count):
        call = case(options.seed, index)
        start = time.process_time()
        seen = problem(call)
        taken = time.process_time() - start
        if seen is None and taken < options.slow:
            continue
        found += seen is not None
        sys.stdout.write(f"#{index} {taken:.1f} s {seen or 'slow'}\n    {call}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{options.count} questions, {found} problems\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
