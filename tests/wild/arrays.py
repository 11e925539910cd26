"""Arrays of questions about wild cases: every entry is right, and fits what is asked by itself.

`python -m tests.wild.arrays --count 300 --seed 1` asks arrays of so many cases and prints what is wrong.
More than three values are answered in one pass, from tables and contours that they share, by code that
no single question runs.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import sharpdp as dp
from tests.wild import questions
from tests.wild.kinds import Case, case, log_uniform
from tests.wild.run import attempted

PATIENCE = 1.0  # CPU seconds after which a case is asked nothing more
LIMIT = 4.0  # CPU seconds after which an array is given up; that is counted, and no mistake
ALONE = 3  # entries of an array that are asked by themselves too


@dataclass(frozen=True)
class Quantity:
    """A method of an answer, its argument, how it goes with that, and what independent values say."""

    name: str
    argument: str
    rises: bool
    judge: Callable[[questions.Truth, float, dp.Bracket], str | None]


QUANTITIES = (
    Quantity("epsilon", "delta", False, questions.judge_epsilon),
    Quantity("delta", "epsilon", False, questions.judge_delta),
    Quantity("tpr", "fpr", True, questions.judge_tpr),
    Quantity("fnr", "fpr", False, questions.judge_fnr),
    Quantity("renyi", "order", True, questions.judge_renyi),
)


@dataclass
class Tally:
    """What was asked and what is wrong."""

    seen: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def _edges(quantity: Quantity, truth: questions.Truth) -> list[float]:
    """Values at which something ends: rates 0 and 1, what is revealed for certain, the largest loss."""
    next_to_one = math.nextafter(1.0, 0.0)
    revealed, top = truth.revealed, truth.top
    near = [math.nextafter(revealed, 0.0), revealed, math.nextafter(revealed, 1.0)]
    if quantity.argument == "delta":
        return [0.0, 5e-324, next_to_one, *near]
    if quantity.argument == "fpr":
        lost = [1.0 - value for value in near]
        return [0.0, 5e-324, 1e-300, next_to_one, 1.0, *lost]
    if quantity.argument == "order":
        return [1.01, 1.5, 2.0, 1e4]
    return [0.0, 5e-324, *((top, math.nextafter(top, 0.0)) if math.isfinite(top) else ())]


def values(quantity: Quantity, truth: questions.Truth, rng: np.random.Generator) -> np.ndarray:
    """Four to forty arguments in any order, some of them edges and some twice."""
    size = int(rng.integers(4, 41))
    if quantity.argument == "delta":
        drawn = [
            log_uniform(rng, 10.0 ** rng.choice([-250, -15, -15, -4]), 0.9) for _ in range(size)
        ]
    elif quantity.argument == "epsilon":
        scale = questions._scale(truth, log_uniform(rng, 1e-12, 0.2))
        drawn = (scale * rng.uniform(0.0, 1.5, size)).tolist()
    elif quantity.argument == "fpr":
        drawn = [log_uniform(rng, 10.0 ** rng.choice([-80, -9, -3]), 1.0) for _ in range(size)]
        drawn = [1.0 - x if rng.random() < 0.3 else x for x in drawn]
    else:
        drawn = [1.0 + log_uniform(rng, 1e-2, 100.0) for _ in range(size)]
    edges = _edges(quantity, truth)
    for place in range(size):
        if rng.random() < 0.2:
            drawn[place] = edges[int(rng.integers(len(edges)))]
        elif rng.random() < 0.1:
            drawn[place] = drawn[int(rng.integers(size))]
    allowed = {"delta": (0.0, 0.999), "fpr": (0.0, 1.0), "order": (1.0, 1e5)}
    return np.clip(drawn, *allowed.get(quantity.argument, (0.0, np.inf)))


def _overlap(first: dp.Bracket, second: dp.Bracket) -> bool:
    return bool(first.lower <= second.upper and second.lower <= first.upper)


def wrong_entries(
    one: Case, quantity: Quantity, given: np.ndarray, truth: questions.Truth | None, tally: Tally
) -> Iterator[str]:
    """What is wrong with the answers to one array."""

    def ask(at: Any) -> dp.Bracket:
        answer = dp.account(one.mechanism)  # without the work that other questions left
        return getattr(answer, quantity.name)(**{quantity.argument: at})  # type: ignore[no-any-return]

    def attempt(at: Any) -> Any:
        return attempted(record, lambda: ask(at), LIMIT)

    record: dict[str, Any] = {"question": f"{quantity.name}({given.tolist()})"}
    many = attempt(given)
    if many is None:
        tally.seen[record["verdict"]] += 1
        if record["verdict"] not in ("refused", "slow"):
            yield f"{record['verdict']} {record.get('detail', '')}"
        return
    tally.seen["arrays"] += 1
    tally.seen["entries"] += given.size
    if many.lower.shape != given.shape or not np.all(many.lower <= many.upper):
        yield f"not in order: {many.lower.tolist()} {many.upper.tolist()}"
        return
    order = (
        np.argsort(given, kind="stable") if quantity.rises else np.argsort(-given, kind="stable")
    )
    for name, ends in (("lower", many.lower), ("upper", many.upper)):
        if not np.all(ends[order][1:] >= ends[order][:-1]):
            place = int(np.argmin(ends[order][1:] >= ends[order][:-1]))
            pair = order[place : place + 2]
            yield f"{name} ends not monotone: {ends[pair].tolist()} at {given[pair].tolist()}"
    in_order = attempt(given[order])
    if in_order is None:
        tally.seen[f"sorted: {record['verdict']}"] += 1
    elif not (
        np.array_equal(in_order.lower, many.lower[order])
        and np.array_equal(in_order.upper, many.upper[order])
    ):
        yield "the sorted array has other answers"
    entries = [
        dp.Bracket(float(low), float(high), many.rigor, quantity.name, "")
        for low, high in zip(many.lower, many.upper, strict=True)
    ]
    for index in range(0, given.size, max(1, given.size // ALONE)):
        alone = attempt(float(given[index]))
        if alone is not None:
            tally.seen["asked alone"] += 1
            if not _overlap(entries[index], alone):
                yield f"at {float(given[index])!r}: {entries[index]!r} and alone {alone!r}"
    if truth is None:
        return
    start = time.process_time()
    for index in range(given.size):
        if time.process_time() - start > 0.5 * PATIENCE:
            return
        try:
            with np.errstate(all="ignore"):
                wrong = quantity.judge(truth, float(given[index]), entries[index])
        except Exception:  # counted by itself
            tally.seen["no reference"] += 1
            continue
        tally.seen["compared"] += 1
        if wrong:
            yield f"at {float(given[index])!r}: {wrong}"


def asked(one: Case, seed: int, index: int, tally: Tally, patience: float = PATIENCE) -> None:
    """Arrays of all quantities of one case, answered and judged, until they have taken long."""
    rng = np.random.default_rng([seed, index, 17])
    truth = questions.Truth(one)
    tally.seen["cases"] += 1
    start = time.process_time()
    for place in rng.permutation(len(QUANTITIES)):
        if time.process_time() - start > patience:
            return
        quantity = QUANTITIES[place]
        with np.errstate(all="ignore"):  # of the reference
            given = values(quantity, truth, rng)
        for wrong in wrong_entries(one, quantity, given, truth, tally):
            tally.problems.append(
                f"#{seed}/{index} {one} {quantity.name}({quantity.argument}={given.tolist()}): {wrong}"
            )


def run(seed: int, first: int, count: int, patience: float = PATIENCE) -> Tally:
    """Arrays about some of the cases of a seed."""
    tally = Tally()
    for index in range(first, first + count):
        asked(case(seed, index), seed, index, tally, patience)
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="cases")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    start = time.process_time()
    total: Counter[str] = Counter()
    for index in range(chosen.first, chosen.first + chosen.count):
        tally = run(chosen.seed, index, 1)
        total += tally.seen
        for text in tally.problems:
            sys.stdout.write(text + "\n")
        if index % 10 == 9 or index + 1 == chosen.first + chosen.count:
            spent = time.process_time() - start
            sys.stdout.write(f"{dict(total)} in {spent:.0f} CPU seconds\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
