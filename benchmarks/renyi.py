"""Converting a Renyi curve of 1000 orders: sharpdp beside dp-accounting and Opacus, in one run.

    .venv-peers/bin/python benchmarks/renyi.py

Every library gets the same lists of orders and values and gives an epsilon at delta = 1e-5. CPU time,
one thread, the best of five after a warm-up; every repetition changes the values in the twelfth digit.
`excess` is how far an answer lies above sharpdp's optimal conversion at the given orders; ours must
never be the larger one.
"""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(
    0, str(Path(__file__).resolve().parents[1] / "src")
)  # the peers' venv has no sharpdp
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

REPEATS = 5
DELTA = 1e-5
Convert = Callable[[np.ndarray, np.ndarray], float]


def ours(conversion: str) -> Convert:
    import sharpdp as dp

    def convert(orders: np.ndarray, values: np.ndarray) -> float:
        curve = dp.RenyiCurve(orders=orders, values=values)
        return float(curve.epsilon(delta=DELTA, conversion=conversion))

    return convert


def dp_accounting() -> Convert:
    from dp_accounting.rdp.rdp_privacy_accountant import compute_epsilon

    return lambda orders, values: float(compute_epsilon(orders, values, DELTA)[0])


def opacus() -> Convert:
    from opacus.accountants.analysis.rdp import get_privacy_spent

    return lambda orders, values: float(
        get_privacy_spent(orders=list(orders), rdp=list(values), delta=DELTA)[0]
    )


METHODS: dict[str, Callable[[], Convert]] = {
    "sharpdp optimal": lambda: ours("optimal"),
    "sharpdp balle": lambda: ours("balle"),
    "dp-accounting": dp_accounting,
    "opacus": opacus,
}


def curves() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Curves of 1000 orders: Gaussian noise, randomized response, a small divergence at all orders."""
    orders = 1.0 + np.geomspace(0.05, 500.0, 1000)
    keep = 0.52
    lean, other = keep / (1.0 - keep), (1.0 - keep) / keep
    response = np.log((1.0 - keep) * lean**orders + keep * other**orders) / (orders - 1.0)
    return {
        "Gaussian, sigma 20": (orders, orders / 800.0),
        "1000 rounds of it": (orders, orders / 0.8),
        "Gaussian, sigma 1": (orders, orders / 2.0),
        "10 randomized responses": (orders, 10.0 * response),
        "a single order, 8": (np.array([8.0]), np.array([0.05])),
        "a single order, 2": (np.array([2.0]), np.array([0.1])),
    }


def measured(convert: Convert, orders: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """The answer, and the best CPU seconds."""
    answer, best = convert(orders, values), math.inf
    for repeat in range(1, REPEATS + 1):
        start = time.process_time()
        convert(orders, values * (1.0 + 1e-12 * repeat))
        best = min(best, time.process_time() - start)
    return answer, best


def main() -> int:
    """Print one table per curve; fail if an answer of ours is larger than another one."""
    warnings.simplefilter("ignore")
    failed = False
    for title, (orders, values) in curves().items():
        print(f"{title} ({orders.size} orders)")
        best = None
        for name, make in METHODS.items():
            try:
                answer, seconds = measured(make(), orders, values)
            except ImportError as missing:
                print(f"  {name:16} not installed ({missing})")
                continue
            best = answer if best is None else best
            failed |= answer < best * (1.0 - 1e-9)
            excess = f"{100.0 * (answer / best - 1.0):+.3f} %"
            print(f"  {name:16} epsilon {answer:<12.7g} {excess:>11} {1e3 * seconds:9.3f} ms")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
