"""Calls that were the slowest ones of the wild-domain runs: CPU seconds and width of each.

    python benchmarks/slowest.py                 # all of them
    python benchmarks/slowest.py profile mu      # those whose text or name has both words

Every call runs in a process of its own, one thread, and is stopped after --limit CPU seconds; the import
is not counted. `width` is (upper - lower) / upper. Issue 15 allows 20 s.
"""

from __future__ import annotations

import argparse
import math
import sys

from measuring import printed

PARTS = {
    "many_responses": "dp.Sequence([dp.FinitePair(p=[0.006643772125244141, 0.9867124557495117, "
    "0.006643772125244141], q=[0.3898599214926435, 0.6101400785073565, 0.0]) * 19, "
    "dp.Gaussian(0.3398784717561435)])",
    "quiet": "dp.DPSGD(dp.PoissonBatches(sample_rate=0.001, steps=10**6), noise_multiplier=1e-3)",
    "quiet_and_rare": "dp.DPSGD(dp.PoissonBatches(sample_rate=5.056e-12, steps=32356818712), "
    "noise_multiplier=0.009866748515136744)",
    "laplaces": "dp.Sequence([dp.Laplace(5.0 + 0.01 * i) for i in range(3000)])",
    "knots": "dp.TradeoffCurve.from_points(epsilons=KNOTS.tolist(), deltas=gaussian(KNOTS).tolist())",
    "knots_attained": "dp.TradeoffCurve.from_points(epsilons=KNOTS.tolist(), "
    "deltas=gaussian(KNOTS).tolist(), attained=True)",
    "promise_and_points": "dp.Sequence([dp.ApproximateDP(epsilon=0.5, delta=1e-6), "
    "dp.TradeoffCurve.from_points(epsilons=[0.0, 1.0, 2.0], deltas=[0.4, 0.15, 1e-3])])",
    "profile": "dp.mechanisms.ProfileMechanism(profile=gaussian)",
}

QUESTIONS = {
    "many_responses": ["tpr(fpr=0.0347)", "mu()", "epsilon(delta=1e-5)"],
    "quiet": ["epsilon(delta=1e-5)", "delta(epsilon=1.0)", "tpr(fpr=0.01)", "mu()"],
    "quiet_and_rare": ["mu()", "epsilon(delta=1e-5)", "tpr(fpr=0.01)"],
    "laplaces": ["epsilon(delta=1e-5)", "delta(epsilon=1.0)", "tpr(fpr=0.01)", "mu()"],
    "knots": ["delta(epsilon=0.5)", "epsilon(delta=1e-5)", "tpr(fpr=0.01)", "mu()"],
    "knots_attained": ["delta(epsilon=0.5)", "epsilon(delta=1e-5)", "tpr(fpr=0.01)", "mu()"],
    "promise_and_points": ["epsilon(delta=1e-5)", "delta(epsilon=1.0)", "tpr(fpr=0.01)", "mu()"],
}

CALLS = [
    (f"{name}: {question}", f"dp.account({PARTS[name]}).{question}")
    for name, questions in QUESTIONS.items()
    for question in questions
]
for times, questions in {
    1: ["mu()"],
    20: ["epsilon(delta=1e-5)", "mu()"],
    360: ["epsilon(delta=1e-5)", "tpr(fpr=0.01)", "mu()"],
    1000: ["epsilon(delta=1e-5)", "tpr(fpr=0.01)", "mu()"],
}.items():
    CALLS += [
        (f"profile * {times}: {question}", f"dp.account({PARTS['profile']} * {times}).{question}")
        for question in questions
    ]
for users in (1000, 10_000):
    CALLS.append(
        (
            f"calibrate shuffled Laplace noise, {users} users",
            "dp.calibrate(lambda local: dp.ShuffledReports("
            f"users={users}, randomizer=dp.LocalLaplace(local_epsilon=local)), epsilon=1.0, delta=1e-6)",
        )
    )

SETTING = """
import math, sys, time
import numpy as np
from scipy.special import log_ndtr, ndtr
import sharpdp as dp
MU = 0.5
KNOTS = np.linspace(0.0, 5.0, 20_001)
def gaussian(epsilon):
    a, b = MU / 2 - epsilon / MU, -MU / 2 - epsilon / MU
    ratio = np.exp(np.minimum(epsilon + log_ndtr(b) - log_ndtr(a), 0.0))
    return ndtr(a) * (1.0 - ratio)
dp.account(dp.Gaussian(1.0) * 2).tpr(fpr=0.1)  # what is imported late
start = time.process_time()
answer = CALL
low, high = (answer.lower, answer.upper) if hasattr(answer, "lower") else (answer, answer)
print(time.process_time() - start, repr(float(low)), repr(float(high)))
"""


def measured(call: str, limit: int) -> str:
    """CPU seconds, width and ends of one call."""
    try:
        taken, low, high = map(float, printed(SETTING.replace("CALL", call), limit).split())
    except RuntimeError as error:
        return str(error)
    width = (high - low) / high if 0.0 < high < math.inf else 0.0
    return f"{taken:7.2f} s  width {width:8.1e}  [{low:.6g}, {high:.6g}]"


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--limit", type=int, default=120)
    options = parser.parse_args()
    for name, call in CALLS:
        if all(word in name or word in call for word in options.words):
            sys.stdout.write(f"{measured(call, options.limit)}  {name}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
