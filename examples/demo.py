"""One real question from start to end: how private are 1000 steps of DP-SGD with Poisson batches?

Run it with `make demo`. It prints the bracket and the report, answers the question the other way
round (how much noise for epsilon = 1), and draws the trade-off curve into out/.
"""

from __future__ import annotations

import time
from pathlib import Path

import sharpdp as dp

PICTURE = Path("out") / "tradeoff.svg"


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
    print(f"  noise_multiplier = {noise_multiplier:.6f}")
    print(f"({time.process_time() - start:.2f} CPU seconds so far)")
    print()
    print(answer.report())

    PICTURE.parent.mkdir(exist_ok=True)
    answer.tradeoff().plot().figure.savefig(PICTURE)
    print()
    print(f"The trade-off curve is in {PICTURE}.")


if __name__ == "__main__":
    main()
