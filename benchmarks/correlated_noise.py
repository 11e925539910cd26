"""Correlated noise: our brackets and draws beside jax-privacy, the same questions in one run.

    python benchmarks/correlated_noise.py --peer PYTHON

PYTHON is an interpreter in whose environment jax_privacy can be imported (its git head, for the draws);
without it ours stand alone. Times are CPU seconds; those of the peer are without its imports.
"""

import argparse
import json
import math
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

COEFFICIENTS = (1.0, 0.5, 0.25, 0.125)
"""The strategy of the peer's example of balls in bins, before it is divided by its norm."""

BINS, EPOCHS = 10, 10
NOISE = 3.0
DELTAS = (1e-2, 1e-4, 1e-6, 1e-8)
SAMPLES = 100_000
SENSITIVITIES = ((64, 8, 8), (256, 16, 16), (1024, 64, 16))
"""Steps, separation and participations of uses that are some steps apart."""

CYCLIC = ((1000, 4, 0.04, 1.0), (10_000, 16, 0.1, 2.0))
"""Steps, bands, sample rate within a group and noise multiplier over the norm of a column."""


def normalized(bands: int) -> list[float]:
    """Coefficients of the square root of prefix sums, in units of the norm of a column."""
    entries = [math.comb(2 * k, k) / 4**k for k in range(bands)]
    return (np.array(entries) / np.linalg.norm(entries)).tolist()


def timed(call: Callable[..., Any], *values: object, **keywords: object) -> tuple[Any, float]:
    """What a call gives, and its CPU seconds."""
    start = time.process_time()
    value = call(*values, **keywords)
    return value, time.process_time() - start


def peer() -> dict[str, list]:
    """The answers of jax-privacy."""
    import dp_accounting
    from jax_privacy import accounting, batch_selection
    from jax_privacy.experimental.monte_carlo import delta_calculation, sample_generation
    from jax_privacy.matrix_factorization import sensitivity

    def epsilon_of(event: dp_accounting.DpEvent) -> float:
        return dp_accounting.pld.PLDAccountant().compose(event).get_epsilon(1e-6)

    found: dict[str, list] = {"separated": [], "cyclic": [], "bins": []}
    for steps, separation, uses in SENSITIVITIES:
        column = np.array(normalized(steps))
        lags = np.subtract.outer(np.arange(steps), np.arange(steps))
        matrix = np.where(lags >= 0, column[np.maximum(lags, 0)], 0.0)
        bound = sensitivity.get_min_sep_sensitivity_upper_bound
        value, seconds = timed(bound, matrix, separation, uses)
        found["separated"].append((float(value), seconds))
    for steps, bands, rate, noise in CYCLIC:
        event = accounting.amplified_bandmf_event(noise, steps, num_bands=bands, sampling_prob=rate)
        found["cyclic"].append(timed(epsilon_of, event))
    column = np.array(COEFFICIENTS) / np.linalg.norm(COEFFICIENTS)
    scheme = batch_selection.BallsInBinsSampling(cycle_length=BINS, iterations=BINS * EPOCHS)

    def losses(*, with_record: bool) -> np.ndarray:
        return sample_generation.get_privacy_loss_sample(
            strategy=scheme,
            noise_multiplier=NOISE,
            c_col=column,
            seed=1,
            positive_sample=with_record,
            num_samples=SAMPLES,
        )[0]

    (there, first), (back, second) = (
        timed(losses, with_record=with_record) for with_record in (True, False)
    )
    seconds = first + second
    for delta in DELTAS:
        low, high = 0.0, 30.0
        for _ in range(40):
            middle = 0.5 * (low + high)
            deltas = [
                delta_calculation.delta_from_epsilon_and_samples(middle, np.asarray(one))
                for one in (there, back)
            ]
            low, high = (middle, high) if max(deltas) > delta else (low, middle)
        verified = delta_calculation.minimum_samples_to_calibrate(delta / 2, delta)
        found["bins"].append((high, seconds, verified))
    return found


def ours() -> None:
    """Our answers, with those of the peer beside them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", help="an interpreter that can import jax_privacy")
    parser.add_argument("--only-peer", action="store_true", help="print the peer's answers as JSON")
    chosen = parser.parse_args()
    if chosen.only_peer:
        print(json.dumps(peer()))
        return
    theirs = {
        "separated": [("-", 0.0)] * 9,
        "cyclic": [("-", 0.0)] * 9,
        "bins": [("-", 0.0, 0)] * 9,
    }
    if chosen.peer:
        run = subprocess.run(
            [chosen.peer, __file__, "--only-peer"], capture_output=True, text=True, check=True
        )
        theirs = json.loads(run.stdout.splitlines()[-1])

    import sharpdp as dp
    from sharpdp.bounds.correlated_noise.columns import columns_of
    from sharpdp.bounds.correlated_noise.sensitivity import separated_lower, separated_upper

    print("sensitivity, uses some steps apart: jax-privacy (upper), sharpdp (both sides)")
    for (steps, separation, uses), other in zip(SENSITIVITIES, theirs["separated"], strict=False):
        strategy = dp.BandedStrategy(coefficients=normalized(steps))
        columns = columns_of(strategy, steps)
        low, first = timed(separated_lower, columns, separation, uses)
        high, second = timed(separated_upper, columns, separation, uses)
        ends, seconds = (low, high), first + second
        print(f"  {steps:5} {separation:3} {uses:3}  {other}  {ends}, {seconds:.3f} s")

    print("epsilon at delta 1e-6, banded and cyclic Poisson: jax-privacy (PLD), sharpdp")
    for (steps, bands, rate, noise), other in zip(CYCLIC, theirs["cyclic"], strict=False):
        plan = dp.batches.CyclicPoissonBatches(sample_rate=rate, steps=steps, cycle_length=bands)
        strategy = dp.BandedStrategy(coefficients=normalized(bands))
        mechanism = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=noise)
        answer, seconds = timed(dp.account(mechanism).epsilon, delta=1e-6)
        print(f"  {steps:6} {bands:3}  {other}  [{answer.lower}, {answer.upper}], {seconds:.3f} s")

    print(
        f"epsilon, {BINS} kept bins, {EPOCHS} epochs: jax-privacy ({SAMPLES:,} draws, no interval; "
    )
    print("draws that it needs to verify), sharpdp draws at confidence 0.99, sharpdp certified")
    plan = dp.BallsAndBins(dataset_size=BINS, batch_size=1, epochs=EPOCHS, order="kept")
    column = np.array(COEFFICIENTS) / np.linalg.norm(COEFFICIENTS)
    strategy = dp.BandedStrategy(coefficients=column)
    mechanism = dp.CorrelatedNoise(plan, strategy=strategy, noise_multiplier=NOISE)
    for delta, other in zip(DELTAS, theirs["bins"], strict=False):
        drawn, seconds = timed(dp.estimate, mechanism, delta=delta, samples=SAMPLES, rng=1)
        certified, more = timed(dp.account(mechanism).epsilon, delta=delta)
        print(
            f"  {delta:g}  {other}  [{drawn.lower:.4f}, {drawn.upper:.4f}], {seconds:.2f} s  "
            f"[{certified.lower:.4f}, {certified.upper:.4f}], {more:.2f} s"
        )


if __name__ == "__main__":
    ours()
