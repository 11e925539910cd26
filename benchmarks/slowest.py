"""Calls that were the slowest ones of the wild-domain runs: CPU seconds and width of each.

    python benchmarks/slowest.py                 # all of them
    python benchmarks/slowest.py profile mu      # those whose text or name has both words
    python benchmarks/slowest.py batches         # batch schemes: first answers, calibrations, reports

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

MILLION, MNIST = "dataset_size=10**6, batch_size=1000", "dataset_size=60_000, batch_size=512"
VACANCY = "left_out=1, drop_last=True"
SCHEMES = {
    "shuffled": f"dp.ShuffledBatches({MILLION}, epochs=10)",
    "shuffled, one epoch": f"dp.ShuffledBatches({MILLION}, epochs=1)",
    "shuffled, one left out": f"dp.ShuffledBatches({MILLION}, epochs=10, {VACANCY})",
    "balls-and-bins": f"dp.BallsAndBins({MILLION}, epochs=10)",
    "kept bins": f"dp.BallsAndBins({MILLION}, epochs=10, order='kept')",
    "1 of 1000": "dp.RandomAllocation(steps=1000)",
    "10 of 1000": "dp.RandomAllocation(steps=1000, participations=10)",
    "truncated": f"dp.TruncatedPoissonBatches({MILLION}, epochs=10, physical_batch_size=1200)",
    "fixed size": f"dp.FixedSizeBatches({MILLION}, steps=10_000)",
    "with replacement": f"dp.FixedSizeBatches({MILLION}, steps=10_000, replacement=True)",
    "60,000 shuffled": f"dp.ShuffledBatches({MNIST}, epochs=30)",
    "60,000 shuffled, one left out": f"dp.ShuffledBatches({MNIST}, epochs=30, {VACANCY})",
}
for name, scheme in SCHEMES.items():
    run = f"dp.DPSGD({scheme}, noise_multiplier=0.8)"
    CALLS.append((f"batches, epsilon: {name}", f"dp.account({run}).epsilon(delta=1e-5)"))
    CALLS.append(
        (
            f"batches, calibrate: {name}",
            f"dp.calibrate(lambda s: dp.DPSGD({scheme}, noise_multiplier=s), epsilon=1.0, delta=1e-6)",
        )
    )
    if "shuffled" in name:
        CALLS.append(
            (
                f"batches, replace-one: {name}",
                f"dp.account({run}, adjacency='replace-one').epsilon(delta=1e-5)",
            )
        )
for name in ("shuffled", "balls-and-bins"):
    answer = f"dp.account(dp.DPSGD({SCHEMES[name]}, noise_multiplier=0.8))"
    CALLS.append((f"batches, report: {name}", f"len({answer}.report())"))
CALLS.append(
    (
        "batches, all of 60,000 compared: the largest epsilon",
        "max(row.upper for row in dp.compare_samplers(noise_multiplier=0.8, "
        f"{MNIST}, epochs=30, delta=1e-5))",
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
