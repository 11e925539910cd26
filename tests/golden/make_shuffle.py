"""Make the golden values of the shuffle model: `python tests/golden/make_shuffle.py` (some minutes).

One line per value, as in make_golden.py. The name says which pair the value is of: `clones` is what
the upper side of an answer should attain, `ternary` and `binary` are exactly shuffled randomized
response, of which the larger one is what the lower side should attain. sharpdp is not imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from math import exp, nextafter, sqrt, tanh
from pathlib import Path
from typing import Any

from flint import arb

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.golden.make_golden import Case, case  # noqa: E402
from tests.reference import shuffle  # noqa: E402
from tests.reference.balls import ball  # noqa: E402

HERE = Path(__file__).resolve().parent
LOCALS = (1e-6, 0.1, 1.0, 4.0, 8.0, 30.0)
FEW = (1, 3, 30, 1000, 10**4)
DELTAS = (1e-3, 1e-6, 1e-15)
FAR = 1e-300
SCALES = (0.05, 1.0, 4.0)  # epsilons in units of the width of the loss
MANY = ((10**6, 0.01), (10**6, 2.0), (10**6, 7.0), (10**8, 2.0), (10**9, 4.0))
MOST = (10**12, 4.0, 5e-5)
START = 1e-7  # an inverse is looked for from this share of the local epsilon on
ROUTE = "sum over a window of the binomial"

Curve = Callable[[float | arb], arb]


def width(users: int, local: float) -> float:
    """The standard deviation of the loss, for choosing questions only."""
    return 2 * tanh(local / 2) / sqrt(1 + 2 * (users - 1) / (exp(local) + 1))


def curves(users: int, local: float) -> dict[str, Curve]:
    """delta against epsilon of every pair; both rates of clones."""
    return {
        "shared": lambda e: shuffle.delta(users, local, e, "shared"),
        "individual": lambda e: shuffle.delta(users, local, e, "individual"),
        "ternary": lambda e: shuffle.ternary_delta(users, local, e),
        "binary": lambda e: shuffle.binary_worst(users, local, e),
    }


def told(users: int, local: float, kind: str) -> tuple[Case, str]:
    """The mechanism and the name of the pair."""
    randomizer = kind if kind in ("shared", "individual") else "shared"
    mechanism: dict[str, Any] = {
        "kind": "shuffled_reports",
        "users": users,
        "local_epsilon": local,
        "rounds": 1,
        "randomizer": randomizer,
    }
    return mechanism, "clones" if kind == randomizer else kind


def deltas(users: int, local: float, epsilons: tuple[float, ...]) -> Iterator[Case]:
    """delta of all pairs at some epsilons."""
    for epsilon in epsilons:
        for kind, curve in curves(users, local).items():
            value = curve(epsilon)
            if value > FAR:
                mechanism, name = told(users, local, kind)
                ask = {"quantity": "delta", "epsilon": epsilon}
                yield case(mechanism, ask, value, ROUTE, name=name)


def epsilons(users: int, local: float, levels: tuple[float, ...]) -> Iterator[Case]:
    """epsilon of all pairs at some deltas."""
    for delta in levels:
        for kind, curve in curves(users, local).items():
            low, high = local * START, nextafter(local, 0.0)
            if not curve(low) > ball(delta) > curve(high):
                continue
            value = shuffle.epsilon_of(curve, delta, low, high, 12)
            mechanism, name = told(users, local, kind)
            ask = {"quantity": "epsilon", "delta": delta}
            yield case(mechanism, ask, value, ROUTE, name=name)


def asked(users: int, local: float) -> tuple[float, ...]:
    """Epsilons at which delta is asked."""
    found = [scale * width(users, local) for scale in SCALES]
    return (0.0, *sorted({min(e, 0.9 * local) for e in found}))


def cases() -> Iterator[Case]:
    """All golden lines."""
    for users in FEW:
        for local in LOCALS:
            yield from deltas(users, local, asked(users, local))
            if users in (3, 1000, 10**4):
                yield from epsilons(users, local, DELTAS)
    for local in (0.5, 1.0):
        yield from epsilons(10**4, local, (FAR,))
    for users, local in MANY:
        yield from deltas(users, local, asked(users, local)[2:])
    yield from epsilons(10**6, 2.0, (1e-8,))
    users, local, epsilon = MOST
    value = shuffle.delta(users, local, epsilon, digits=15)
    mechanism, name = told(users, local, "shared")
    ask = {"quantity": "delta", "epsilon": epsilon}
    yield case(mechanism, ask, value, ROUTE, name=name)


def main() -> None:
    """Write shuffle.json."""
    lines = []
    for number, line in enumerate(cases()):
        lines.append(json.dumps(line))
        if number % 100 == 0:
            print(number, lines[-1][:140], flush=True)  # noqa: T201
    (HERE / "shuffle.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
