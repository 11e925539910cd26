"""Make the golden values: `python tests/golden/make_golden.py [family ...]`.

One JSON file per family, one case per line: the mechanism, the question, a decimal value and a
radius that together enclose the exact answer for the exact binary arguments, both directions
where they differ, and how the enclosure was proved. sharpdp is not imported.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from math import log
from pathlib import Path
from typing import Any

from flint import arb

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.reference import (  # noqa: E402
    gaussian,
    laplace,
    poisson,
    poisson_direct,
    randomized,
)
from tests.reference.balls import ball, precision  # noqa: E402

HERE = Path(__file__).resolve().parent
PROVED = "ball arithmetic"
DELTAS = (0.5, 1e-2, 1e-5, 1e-12, 1e-50, 1e-300)
EPSILONS = (0.0, 0.1, 1.0, 10.0, 100.0)
SMALLEST = 1e-300
SMALLEST_EPSILON = 1e-6  # below lie only accidents of rounding in the arguments
DIGITS = 20

Case = dict[str, Any]


def decimal(value: arb) -> tuple[str, str]:
    """(value, radius) as decimals that enclose the ball."""
    middle, radius, exponent = (int(part) for part in value.mid_rad_10exp(DIGITS))
    surplus = 10 ** max(0, len(str(radius)) - 2)  # digits that the radius makes meaningless
    shorter = round(middle / Fraction(surplus))
    wider = -(-(radius + abs(middle - shorter * surplus)) // surplus)
    scale = exponent + len(str(surplus)) - 1
    return str(Decimal(shorter).scaleb(scale)), str(Decimal(wider).scaleb(scale))


def case(mechanism: Case, ask: Case, value: arb, route: str, **more: Any) -> Case:
    """One line of a golden file."""
    text, radius = decimal(value)
    return {
        "mechanism": mechanism,
        "ask": ask,
        "value": text,
        "radius": radius,
        "route": route,
        "rigour": PROVED,
        **more,
    }


def questions(
    epsilon_of: Callable[[float], arb], delta_of: Callable[[float], arb]
) -> Iterator[tuple[Case, arb]]:
    """epsilon at every delta, delta at every epsilon where it is not tiny."""
    for d in DELTAS:
        value = epsilon_of(d)
        if value > SMALLEST_EPSILON and value < 1e6:
            yield {"quantity": "epsilon", "delta": d}, value
    for e in EPSILONS:
        value = delta_of(e)
        if value > SMALLEST and value < 1 - 1e-9:
            yield {"quantity": "delta", "epsilon": e}, value


def gaussian_cases() -> Iterator[Case]:
    route = "closed form"
    for s in (0.1, 0.5, 1.0, 5.0, 20.0, 1000.0):
        for steps in (1, 10, 1000, 10**6, 10**8):
            mu = steps**0.5 / s
            if not 1e-4 < mu < 300:
                continue
            mechanism = {"kind": "gaussian", "noise_multiplier": s, "steps": steps}
            for ask, value in questions(
                lambda d, s=s, n=steps: gaussian.epsilon(s, n, d, 20),
                lambda e, s=s, n=steps: gaussian.delta(s, n, e),
            ):
                yield case(mechanism, ask, value, route)
            for fpr in (1e-6, 0.05, 0.5):
                value = gaussian.tradeoff(s, steps, fpr)
                if value > 1e-12:
                    yield case(mechanism, {"quantity": "tradeoff", "fpr": fpr}, value, route)
            for order in (1.5, 8.0):
                ask = {"quantity": "renyi", "order": order}
                yield case(mechanism, ask, gaussian.renyi(s, steps, order), route)


def deterministic_cases() -> Iterator[Case]:
    """DP-SGD over fixed batches, one participation per epoch, and Poisson batches of rate one."""
    for s, epochs in ((5.0, 30), (0.6, 1), (40.0, 5000)):
        for adjacency, factor in (("add/remove", 1), ("zero-out", 1), ("replace-one", 2)):
            mechanism = {
                "kind": "deterministic",
                "dataset_size": 60_000,
                "batch_size": 500,
                "epochs": epochs,
                "noise_multiplier": s,
                "adjacency": adjacency,
            }
            for d in (1e-2, 1e-6, 1e-60):
                ask = {"quantity": "epsilon", "delta": d}
                value = gaussian.epsilon(s / factor, epochs, d, 20)
                yield case(mechanism, ask, value, "closed form")
    for s, steps in ((1.0, 1), (20.0, 1000)):
        mechanism = sampled_mechanism(((1.0, s, steps),))
        ask = {"quantity": "epsilon", "delta": 1e-5}
        yield case(mechanism, ask, gaussian.epsilon(s, steps, 1e-5, 20), "closed form")


def randomized_cases() -> Iterator[Case]:
    for e, categories, rounds in (
        (log(3), 2, 10),
        (log(3), 2, 1),
        (0.1, 2, 1000),
        (0.02, 2, 10**4),
        (1e-3, 2, 10**6),
        (4.0, 2, 30),
        (20.0, 2, 5),
        (1.0, 3, 10),
        (0.1, 10, 1000),
        (2.0, 100, 50),
    ):
        mechanism = {
            "kind": "randomized_response",
            "local_epsilon": e,
            "categories": categories,
            "rounds": rounds,
        }
        for ask, value in questions(
            lambda d, e=e, k=categories, n=rounds: randomized.epsilon(e, n, d, k),
            lambda x, e=e, k=categories, n=rounds: randomized.delta(e, n, x, k),
        ):
            yield case(mechanism, ask, value, "exact lattice sum")
        ask = {"quantity": "renyi", "order": 4.0}
        value = randomized.renyi(e, rounds, 4.0, categories)
        yield case(mechanism, ask, value, "closed form")
        for fpr in (0.01, 0.3) if categories == 2 and rounds <= 1000 else ():
            value = randomized.tradeoff(e, rounds, fpr)
            if value > 1e-12:
                ask = {"quantity": "tradeoff", "fpr": fpr}
                yield case(mechanism, ask, value, "exact lattice sum")


def promise_cases() -> Iterator[Case]:
    for e, d, rounds in (
        (0.1, 0.0, 100),
        (1.0, 0.0, 4),
        (0.01, 0.0, 10**5),
        (0.1, 1e-6, 100),
        (0.5, 1e-9, 40),
        (0.01, 1e-10, 10**4),
    ):
        mechanism = {"kind": "approximate_dp", "epsilon": e, "delta": d, "rounds": rounds}
        mass = randomized.infinite_mass(d, rounds) if d else arb(0)
        for ask, value in questions(
            lambda t, e=e, d=d, n=rounds, m=mass: (
                randomized.epsilon(e, n, t, delta_each=d) if m < t else arb(0)
            ),
            lambda x, e=e, d=d, n=rounds: randomized.approximate_delta(e, d, n, x),
        ):
            yield case(mechanism, ask, value, "exact lattice sum")


def laplace_cases() -> Iterator[Case]:
    for scale, rounds in (
        *((s, n) for s in (0.1, 1.0, 7.5) for n in (1, 2, 3, 4)),
        (1.0, 10),
        (10.0, 10),
        (1.0, 100),
        (10.0, 100),
        (100.0, 100),
    ):
        mechanism = {"kind": "laplace", "scale": scale, "rounds": rounds}
        for ask, value in questions(
            lambda d, s=scale, n=rounds: laplace.epsilon(s, n, d, 16),
            lambda x, s=scale, n=rounds: laplace.delta(s, n, x),
        ):
            yield case(mechanism, ask, value, "exact exponential-polynomial sum")
        ask = {"quantity": "renyi", "order": 3.0}
        yield case(mechanism, ask, laplace.renyi(scale, rounds, 3.0), "closed form")


def both_ways(answer: Callable[[str], arb], take: Callable[[arb, arb], arb]) -> tuple[arb, Case]:
    """The worse of the two directions and both of them as decimals."""
    values = {direction: answer(direction) for direction in ("remove", "add")}
    names = ("value", "radius")
    told = {way: dict(zip(names, decimal(v), strict=True)) for way, v in values.items()}
    return take(values["remove"], values["add"]), {"directions": told}


def sampled_mechanism(steps: poisson.Steps) -> Case:
    """Poisson-sampled steps as JSON."""
    parts = [{"sample_rate": q, "noise_multiplier": s, "steps": n} for q, s, n in steps]
    return {"kind": "poisson", "parts": parts}


def sampled_case(steps: poisson.Steps, ask: Case, digits: int = 15) -> Case:
    """Both directions of one question to the contour."""
    route = "contour and panels, all errors bounded in balls"
    if ask["quantity"] == "epsilon":
        value, more = both_ways(
            lambda way: poisson.epsilon(steps, way, ask["delta"], digits), arb.max
        )
    elif ask["quantity"] == "delta":
        value, more = both_ways(
            lambda way: poisson.delta(steps, way, ask["epsilon"], digits), arb.max
        )
    elif ask["quantity"] == "tradeoff":
        value, more = both_ways(
            lambda way: poisson.tradeoff(steps, way, ask["fpr"], digits), arb.min
        )
    else:
        value, more = both_ways(
            lambda way: poisson.renyi(steps, way, ask["order"], digits), arb.max
        )
    return case(sampled_mechanism(steps), ask, value, route, **more)


def noise_for(rate: float, steps: int, epsilon: float, delta: float, start: float) -> arb:
    """The smallest noise multiplier with delta(epsilon) <= delta in both directions.

    Secant on log delta (remove), then a proof: above the target at the lower end in one direction,
    below it at the upper end in both. The noise is a float at each end.
    """

    def excess(s: float, way: str = "remove") -> arb:
        return (poisson.delta(((rate, s, steps),), way, epsilon, 15) / ball(delta)).log()

    low, high = start, start * 1.001
    f_low, f_high = float(excess(low)), float(excess(high))
    for _ in range(8):
        new = high - f_high * (high - low) / (f_high - f_low)
        low, f_low, high, f_high = high, f_high, new, float(excess(new))
        if abs(high - low) < 1e-13 * high:
            break
    lower, upper = high * (1 - 1e-12), high * (1 + 1e-12)
    if not (excess(lower) > 0 and excess(upper) < 0 and excess(upper, "add") < 0):
        raise ArithmeticError("no certificate")
    with precision(128):
        return arb(lower).union(arb(upper))


ISSUE_B = ((0.01, 1.0, 1000),)
LADDER = tuple((0.005 + 0.0001 * i, 0.8 + 0.01 * i, 10) for i in range(100))


def issue_cases() -> Iterator[Case]:
    """The reference cases (a) to (i) of the first issue."""

    def sampled(name: str, steps: poisson.Steps, **ask: Any) -> Case:
        quantity = {"delta": "epsilon", "epsilon": "delta", "fpr": "tradeoff"}[next(iter(ask))]
        return {"name": name, **sampled_case(steps, {"quantity": quantity, **ask})}

    yield sampled("a", ((1e-3, 0.8, 10**4),), delta=1e-6)
    yield sampled("a", ((1e-3, 0.8, 10**4),), epsilon=1.0)
    yield sampled("b", ISSUE_B, delta=1e-5)
    yield sampled("c", ((1e-4, 0.6, 10**6),), delta=1e-6)
    mechanism = {"kind": "gaussian", "noise_multiplier": 20.0, "steps": 1000}
    ask = {"quantity": "epsilon", "delta": 1e-5}
    value = gaussian.epsilon(20.0, 1000, 1e-5, 20)
    yield {"name": "d", **case(mechanism, ask, value, "closed form")}
    yield sampled("e", LADDER, delta=1e-5)
    plan = {"kind": "poisson_plan", "sample_rate": 0.01, "steps": 1000}
    ask = {"quantity": "noise_multiplier", "epsilon": 1.0, "delta": 1e-6}
    value = noise_for(0.01, 1000, 1.0, 1e-6, 1.5626)
    yield {"name": "f", **case(plan, ask, value, "contour, bracketed root")}
    for fpr in (10 / 999, 100 / 999, 500 / 999):
        yield sampled("g", ISSUE_B, fpr=fpr)
    yield sampled("g", ISSUE_B, epsilon=0.0)  # the advantage
    yield sampled("h", ((0.01, 0.3, 1000),), delta=1e-5)
    yield sampled("i", ISSUE_B, delta=1e-12)
    yield sampled("i", ISSUE_B, delta=1e-20)


def poisson_cases() -> Iterator[Case]:
    """A spread over noise 0.1 to 1000, rate 1e-8 to 1, steps 3 to 1e8, delta 0.5 to 1e-300."""
    for q, s, n, d, digits in (
        (1e-8, 1.0, 10**8, 1e-6, 10),
        (1e-8, 1000.0, 10**8, 1e-12, 12),
        (1e-5, 0.4, 10**5, 1e-6, 10),
        (1e-5, 0.4, 10**5, 1e-30, 10),
        (1e-4, 0.6, 10**8, 1e-6, 12),
        (1e-3, 0.8, 10**4, 1e-30, 12),
        (1e-3, 0.8, 10**4, 1e-100, 12),
        (1e-3, 100.0, 10**8, 1e-5, 12),
        (1e-3, 100.0, 100, 1e-8, 12),
        (0.01, 1.0, 1000, 0.1, 12),
        (0.01, 1.0, 1000, 1e-100, 12),
        (0.01, 1.0, 1000, 1e-300, 12),
        (0.02, 2.0, 10**6, 1e-200, 12),
        (0.1, 10.0, 10**4, 1e-50, 12),
        (0.1, 1.0, 100, 1e-9, 12),
        (0.3, 5.0, 1000, 0.5, 12),
        (0.01, 1.0, 10, 1e-5, 8),
        (0.2, 2.0, 4, 1e-20, 10),
        (0.5, 1.0, 3, 1e-10, 10),
        (0.5, 1.0, 5, 1e-6, 10),
        (0.5, 1000.0, 10**8, 1e-10, 12),
        (0.5, 1000.0, 10**8, 1e-300, 12),
        (0.9, 0.5, 10, 1e-5, 12),
        (0.999, 2.0, 50, 1e-8, 12),
    ):
        yield attempt(((q, s, n),), {"quantity": "epsilon", "delta": d}, digits)
    for q, s, n, e, digits in (
        (0.01, 1.0, 1000, 0.0, 15),
        (0.25, 0.1, 100, 2000.0, 10),
        (1e-6, 2.0, 10**7, 0.01, 12),
        (0.05, 0.7, 300, 5.0, 12),
    ):
        yield attempt(((q, s, n),), {"quantity": "delta", "epsilon": e}, digits)
    mixed = ((0.01, 1.0, 500), (0.1, 3.0, 200), (0.001, 0.5, 300))
    yield sampled_case(mixed, {"quantity": "epsilon", "delta": 1e-6})
    for order in (2.0, 8.0, 32.0):
        yield sampled_case(ISSUE_B, {"quantity": "renyi", "order": order})
    for fpr in (1e-6, 1e-3, 0.9):
        yield sampled_case(ISSUE_B, {"quantity": "tradeoff", "fpr": fpr}, 12)


def attempt(steps: poisson.Steps, ask: Case, digits: int) -> Case:
    """The case, or a note that it is out of reach; notes are not written."""
    try:
        return sampled_case(steps, ask, digits)
    except ArithmeticError as reason:
        return {"skipped": str(reason)}


def few_steps_cases() -> Iterator[Case]:
    """One and two sampled steps, where the exact answer needs no contour."""
    for q in (1e-8, 1e-3, 0.1, 0.5, 0.99):
        for s in (0.1, 0.5, 1.0, 10.0, 1000.0):
            for e in (0.0, 1e-4, 0.1, 1.0, 10.0):
                for n, route in ((1, "closed form"), (2, "direct integration")):
                    yield from few_steps(q, s, n, e, route)


def few_steps(q: float, s: float, n: int, e: float, route: str) -> Iterator[Case]:
    function = poisson_direct.one_step if n == 1 else poisson_direct.two_steps
    try:
        value, more = both_ways(lambda way: function(q, s, way, e, 15), arb.max)
    except ArithmeticError as reason:
        yield {"skipped": str(reason)}
        return
    if value > SMALLEST and value < 1 - 1e-9:
        ask = {"quantity": "delta", "epsilon": e}
        yield case(sampled_mechanism(((q, s, n),)), ask, value, route, **more)


FAMILIES: dict[str, Callable[[], Iterator[Case]]] = {
    "gaussian": gaussian_cases,
    "deterministic": deterministic_cases,
    "randomized": randomized_cases,
    "promises": promise_cases,
    "laplace": laplace_cases,
    "few_steps": few_steps_cases,
    "issue": issue_cases,
    "poisson": poisson_cases,
}


def main(names: list[str]) -> None:
    for name in names or list(FAMILIES):
        lines = []
        start = time.process_time()
        for entry in FAMILIES[name]():
            taken = time.process_time() - start
            start = time.process_time()
            if "skipped" in entry:
                sys.stdout.write(f"{name}: skipped, {entry['skipped']} ({taken:.1f} s)\n")
                continue
            if taken > 1:
                told = str(entry["mechanism"])[:90]
                sys.stdout.write(f"{name}: {told} {entry['ask']} {taken:.1f} s\n")
                sys.stdout.flush()
            lines.append(json.dumps(entry))
        (HERE / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")
        sys.stdout.write(f"{name}: {len(lines)} cases\n")
        sys.stdout.flush()


if __name__ == "__main__":
    with precision(256):
        main(sys.argv[1:])
