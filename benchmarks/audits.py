"""Audits beside jax-privacy's auditor on the same scores: how much each finds, and how often it is wrong.

    python benchmarks/audits.py [repetitions]

Needs the extra `peers`. Scores come from mechanisms of known privacy. For every method: the mean lower
bound on epsilon over some repetitions, and the share of repetitions in which it is above the truth,
which the significance should bound. Bounds that assume a Gaussian curve are marked; for the sampled
mechanism that assumption is false.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import sharpdp as dp
from sharpdp import audit

SIGNIFICANCE, DELTA = 0.05, 1e-5
SCORES = 1000


def gaussian(mu: float) -> Callable[..., np.ndarray]:
    return lambda rng, inside: mu * inside + rng.normal(size=inside.shape)


def poisson(rng: np.random.Generator, inside: np.ndarray) -> np.ndarray:
    """The best score for ten steps at sample rate 0.3 and noise multiplier 0.5."""
    drawn = inside[..., None] & (rng.random((*inside.shape, 10)) < 0.3)
    seen = drawn + 0.5 * rng.normal(size=drawn.shape)
    return np.log(0.7 + 0.3 * np.exp((seen - 0.5) / 0.25)).sum(-1)


MECHANISMS: dict[str, tuple[dp.Mechanism, Callable[..., np.ndarray]]] = {
    "Gaussian, mu 0.5": (dp.Gaussian(noise_multiplier=2.0), gaussian(0.5)),
    "Gaussian, mu 1": (dp.Gaussian(noise_multiplier=1.0), gaussian(1.0)),
    "Gaussian, mu 3": (dp.Gaussian(noise_multiplier=1 / 3), gaussian(3.0)),
    "Poisson, 10 steps": (
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.3, steps=10), noise_multiplier=0.5),
        poisson,
    ),
}


def jax_privacy(inside: np.ndarray, outside: np.ndarray, method: str, strategy: str) -> float:
    from jax_privacy import auditing

    auditor = auditing.CanaryScoreAuditor(inside, outside)
    chosen = {
        "Bonferroni": auditing.Bonferroni,
        "Split": lambda: auditing.Split(seed=0),
        "MultiSplit": lambda: auditing.MultiSplit(num_samples=20, seed=0),
    }
    if method == "gdp":
        return float(auditor.epsilon_from_gdp(SIGNIFICANCE, DELTA))
    function = {
        "many": lambda **more: auditor.epsilon_clopper_pearson(
            SIGNIFICANCE, DELTA, one_sided=False, **more
        ),
        "one": lambda **more: auditor.epsilon_one_run(SIGNIFICANCE, DELTA, **more),
        "one f-DP": lambda **more: auditor.epsilon_one_run_fdp(SIGNIFICANCE, DELTA, **more),
    }[method]
    return float(function(threshold_strategy=chosen[strategy]()))


def many(rng: np.random.Generator, draw: Callable[..., np.ndarray]) -> dict[str, float]:
    inside, outside = (draw(rng, np.full(SCORES, value)) for value in (True, False))
    settings = {"confidence": 1.0 - SIGNIFICANCE, "delta": DELTA}
    ours = audit.many_runs(with_record=inside, without_record=outside, **settings)
    running = audit.Sequential(**settings).add(with_record=inside, without_record=outside).result()
    found = {"sharpdp": ours.epsilon.lower, "sharpdp sequential": running.epsilon.lower}
    for strategy in ("Bonferroni", "Split", "MultiSplit"):
        found[f"jax-privacy {strategy}"] = jax_privacy(inside, outside, "many", strategy)
    found["sharpdp, if Gaussian"] = ours.epsilon_if_gaussian.lower
    found["sharpdp sequential, if Gaussian"] = running.epsilon_if_gaussian.lower
    found["jax-privacy, if Gaussian"] = jax_privacy(inside, outside, "gdp", "")
    return found


def one(rng: np.random.Generator, draw: Callable[..., np.ndarray]) -> dict[str, float]:
    coins = rng.random(SCORES) < 0.5
    scores = draw(rng, coins)
    settings = {"confidence": 1.0 - SIGNIFICANCE, "delta": DELTA}
    ours = audit.one_run(scores=scores, included=coins, **settings)
    found = {"sharpdp": ours.epsilon.lower}
    for strategy in ("Bonferroni", "Split", "MultiSplit"):
        found[f"jax-privacy {strategy}"] = jax_privacy(
            scores[coins], scores[~coins], "one", strategy
        )
    found["sharpdp, if Gaussian"] = ours.epsilon_if_gaussian.lower
    for strategy in ("Bonferroni", "Split"):
        found[f"jax-privacy f-DP {strategy}, if Gaussian"] = jax_privacy(
            scores[coins], scores[~coins], "one f-DP", strategy
        )
    return found


def main(repetitions: int) -> None:
    for title, measured in (("many runs", many), ("one run", one)):
        for name, (mechanism, draw) in MECHANISMS.items():
            truth = dp.account(mechanism).epsilon(delta=DELTA).upper
            rng = np.random.default_rng(1)
            begun = time.process_time()
            rows = [measured(rng, draw) for _ in range(repetitions)]
            spent = time.process_time() - begun
            print(
                f"\n{title}, {name}: epsilon {truth:.2f}, {repetitions} repetitions, {spent:.0f} CPU s"
            )
            for method in rows[0]:
                values = np.array([row[method] for row in rows])
                wrong = np.mean(values > truth)
                print(
                    f"  {method:<42} {values.mean():7.3f}   above the truth: {wrong:.1%}",
                    flush=True,
                )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
