"""One real question from start to end: how private are 1,000 steps of DP-SGD with Poisson batches?

Run it with `make demo`. It answers in a bracket, says what an attacker can achieve, asks the other way
round (how much noise for epsilon = 1), shows what other ways to draw batches would cost, and writes two
pictures and the report of the run: a page for readers, JSON for machines.
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
        "A model is trained by DP-SGD: 1,000 steps, noise multiplier 1, and each example is in each"
    )
    print("batch with probability 1%.")
    print()
    print("How private is it? The truth lies between two certified ends.")
    print(f"  {answer.epsilon(delta=1e-5)}")
    print(f"  {answer.epsilon(delta=1e-20)}")
    print("What can an attacker achieve who wants to know whether one example was used?")
    print("At a false-positive rate (fpr) of 0.1%, this share of the members is identified (tpr):")
    print(f"  {answer.tpr(fpr=1e-3)}")
    print("How much noise would bring epsilon down to 1 at delta = 1e-6?")
    noise_multiplier = dp.calibrate(
        lambda unknown: dp.DPSGD(plan, noise_multiplier=unknown), epsilon=1.0, delta=1e-6
    )
    print(f"  noise_multiplier = {noise_multiplier!r}")
    print(f"({time.process_time() - start:.2f} CPU seconds for these four answers)")
    print()
    print("And if batches were not drawn by coin flips? One run of 60,000 examples:")
    print()
    print(
        dp.compare_samplers(
            noise_multiplier=0.8, dataset_size=60_000, batch_size=512, epochs=30, delta=1e-5
        )
    )
    print()
    write(answer)


def write(answer: dp.Guarantee) -> None:
    """The report and the pictures, and where they are."""
    OUT.mkdir(exist_ok=True)
    for format_name, name in (("html", "report.html"), ("json", "report.json")):
        (OUT / name).write_text(answer.report(format_name), "utf-8")
    plots.save(answer, OUT / "tradeoff.svg")
    plots.save(answer, OUT / "profile.svg", draw=plots.profile)
    short, _, _ = answer.report().partition("\nWhat was run\n")
    print(short.rstrip())
    print()
    print("Written:")
    print(f"  {OUT / 'report.html'}  the whole report, to be opened in a browser")
    print(f"  {OUT / 'report.json'}  the same for machines; sharpdp verify checks it")
    print(f"  {OUT / 'tradeoff.svg'}  what an attacker can achieve")
    print(f"  {OUT / 'profile.svg'}  delta at every epsilon")


if __name__ == "__main__":
    main()
