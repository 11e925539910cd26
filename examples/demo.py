"""One real question from start to end: how private are 1000 steps of DP-SGD with Poisson batches?

Run it with `make demo`. It prints the bracket and the report, answers the question the other way
round (how much noise for epsilon = 1), shows what other ways to draw batches would cost, draws the
trade-off curve and the privacy profile, and writes the report as a page.
"""

from __future__ import annotations

import time
from pathlib import Path

import sharpdp as dp
from sharpdp import plots
from sharpdp.page import page

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
    print("And if batches were not drawn by coin flips? One run of 60 000 examples:")
    print()
    print(
        dp.compare_samplers(
            noise_multiplier=0.8, dataset_size=60_000, batch_size=512, epochs=30, delta=1e-5
        )
    )
    print()
    print(answer.report())

    OUT.mkdir(exist_ok=True)
    (OUT / "report.html").write_text(page(answer), "utf-8")
    plots.save(answer, OUT / "tradeoff.svg")
    plots.save(answer, OUT / "profile.svg", draw=plots.profile)
    print()
    print(f"Pictures: {OUT / 'tradeoff.svg'}, {OUT / 'profile.svg'}")
    print(f"The report as a page: {OUT / 'report.html'}")


if __name__ == "__main__":
    main()
