"""One real question from start to end: how private are 1000 steps of DP-SGD with Poisson batches?

Run it with `make demo`. It prints the bracket and the report, answers the question the other way
round (how much noise for epsilon = 1), and draws the trade-off curve and the privacy profile.
"""

from __future__ import annotations

import time
from pathlib import Path

import sharpdp as dp
from sharpdp import plots

OUT = Path("out")


def main() -> None:
    """Ask, print, draw."""
    start = time.process_time()
    plan = dp.PoissonBatches(sample_rate=0.01, steps=1000)
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=1.0))

    print(
        "1000 steps of DP-SGD, noise multiplier 1, each example in each batch with probability 1 %."
    )
    print()
    print("How private is it?")
    print(f"  {answer.epsilon(delta=1e-5)}")
    print(f"  {answer.epsilon(delta=1e-20)}")
    print("What can an attacker achieve who wants to know whether one example was used?")
    print(f"  {answer.tpr(fpr=1e-3)}")
    print(f"  {answer.advantage()}")
    print("How much noise would bring epsilon down to 1 at delta = 1e-6?")
    noise_multiplier = dp.calibrate(
        lambda unknown: dp.DPSGD(plan, noise_multiplier=unknown), epsilon=1.0, delta=1e-6
    )
    print(f"  noise_multiplier = {noise_multiplier!r}")
    print(f"({time.process_time() - start:.2f} CPU seconds for these five answers)")
    print()
    print(answer.report())

    OUT.mkdir(exist_ok=True)
    plots.save(answer, OUT / "tradeoff.svg")
    plots.save(answer, OUT / "profile.svg", draw=plots.profile)
    print()
    print(f"Pictures: {OUT / 'tradeoff.svg'}, {OUT / 'profile.svg'}")


if __name__ == "__main__":
    main()
