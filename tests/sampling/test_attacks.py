"""What is drawn is what is accounted: attacks on runs with drawn batches do as well as the brackets say.

One record has gradient 1, or is a ghost; the others have gradients that hide nothing. Real batches of the
scheme are summed with noise, thousands of times, and the best test between the two worlds is tried. Its
P(E) - e^epsilon Q(E) is at most delta, and reaches it where the scheme has a pair that is attained.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import sharpdp as dp
from tests.sampling.chances import FALSE_ALARM, occurrences

NOISE, EPSILON = 0.7, 0.5
SIZE, BATCH, STEPS = 8, 2, 4
RUNS, REPLICATES = 4000, 32
TARGET = 3
Ratio = Callable[[Any], Any]
ONE = {"dataset_size": SIZE, "batch_size": BATCH}
WEIGHTS = tuple(2.0 if index == TARGET else 1.0 for index in range(SIZE))


def up_by(shift: float, x: Any) -> Any:
    """The log ratio of N(shift, NOISE^2) to N(0, NOISE^2)."""
    return (shift * x - shift**2 / 2) / NOISE**2


def poisson(x: Any) -> Any:
    rate = BATCH / SIZE
    return np.sum(np.logaddexp(math.log1p(-rate), math.log(rate) + up_by(1, x)), axis=1)


def cyclic(x: Any) -> Any:
    """The record, at position 3, has its turn in every other step, from the second on."""
    rate = 2 * BATCH / SIZE
    turns = up_by(1, x[:, TARGET % 2 :: 2])
    return np.sum(np.logaddexp(math.log1p(-rate), math.log(rate) + turns), axis=1)


def truncated(x: Any) -> Any:
    """All others are silent: the record is kept with probability E[min(size, BATCH)] / SIZE."""
    sizes = stats.binom(SIZE, BATCH / SIZE).pmf(np.arange(SIZE + 1))
    rate = float(sizes @ np.minimum(np.arange(SIZE + 1), BATCH)) / SIZE
    return np.sum(np.logaddexp(math.log1p(-rate), math.log(rate) + up_by(1, x)), axis=1)


def fixed(x: Any) -> Any:
    """All others have gradient -1: a batch with the record is up by 2, or by 1 with a ghost."""
    rate = BATCH / SIZE
    worlds = [
        np.logaddexp(math.log1p(-rate), math.log(rate) + up_by(shift, x + BATCH))
        for shift in (2, 1)
    ]
    return np.sum(worlds[0] - worlds[1], axis=1)


def draws(share: float) -> Ratio:
    """All others have gradient -1: a batch with k occurrences is up by 2 k, or by k with a ghost."""
    chances = np.log(stats.binom(BATCH, share).pmf(np.arange(BATCH + 1)))

    def ratio(x: Any) -> Any:
        worlds = [
            logsumexp(
                [chance + up_by(shift * k, x + BATCH) for k, chance in enumerate(chances)], axis=0
            )
            for shift in (2, 1)
        ]
        return np.sum(worlds[0] - worlds[1], axis=1)

    return ratio


def one_of_all(x: Any) -> Any:
    return logsumexp(up_by(1, x), axis=1) - math.log(STEPS)


def one_of_kept(x: Any) -> Any:
    """Two epochs with the same bins: the sum over epochs says all."""
    return logsumexp(up_by(1, x[:, :STEPS]) + up_by(1, x[:, STEPS:]), axis=1) - math.log(STEPS)


def two_of_all(x: Any) -> Any:
    pairs = [up_by(1, x[:, i]) + up_by(1, x[:, j]) for i, j in combinations(range(STEPS), 2)]
    return logsumexp(pairs, axis=0) - math.log(len(pairs))


def shuffled(x: Any) -> Any:
    """All others have gradient -1: the batch of the record is up by 2, or by 1 with a ghost."""
    return logsumexp(up_by(2, x + BATCH), axis=1) - logsumexp(up_by(1, x + BATCH), axis=1)


def seated(sizes: tuple[int, ...], absent: float) -> Ratio:
    """The same for batches of these sizes, with an example left out with some probability."""
    shares = np.log((1.0 - absent) * np.array(sizes) / sum(sizes))

    def ratio(x: Any) -> Any:
        worlds = []
        for shift in (2, 1):
            terms = shares[:, None] + up_by(shift, x + np.array(sizes)[:, None])
            out = np.full_like(terms[:, :1], math.log(absent) if absent else -np.inf)
            worlds.append(logsumexp(np.concatenate([terms, out], axis=1), axis=1))
        return worlds[0] - worlds[1]

    return ratio


def shuffled_once(x: Any) -> Any:
    """Two epochs in one order: the sum over epochs says all."""
    first, second = x[:, :STEPS] + BATCH, x[:, STEPS:] + BATCH
    worlds = [logsumexp(up_by(s, first) + up_by(s, second), axis=1) for s in (2, 1)]
    return worlds[0] - worlds[1]


def buffered(x: Any) -> Any:
    """The last record of the stream comes out of a buffer of four: in one of the last two batches."""
    return shuffled(x[:, 2:])


def weighted(x: Any) -> Any:
    """The record has twice the weight of each other one."""
    rate = 2 * BATCH / (SIZE + 1)
    return np.sum(np.logaddexp(math.log1p(-rate), math.log(rate) + up_by(1, x)), axis=1)


def deterministic(x: Any) -> Any:
    return up_by(1, x[:, TARGET // BATCH])


# A plan of many runs (or the one run, drawn with many keys), one run of it, the gradients of the others,
# and the best test.
CASES: list[tuple[Any, Any, float, Ratio]] = [
    (
        dp.PoissonBatches(**ONE, steps=STEPS * RUNS),
        dp.PoissonBatches(**ONE, steps=STEPS),
        0.0,
        poisson,
    ),
    (
        dp.batches.CyclicPoissonBatches(**ONE, steps=STEPS * RUNS, cycle_length=2),
        dp.batches.CyclicPoissonBatches(**ONE, steps=STEPS, cycle_length=2),
        0.0,
        cyclic,
    ),
    (
        dp.TruncatedPoissonBatches(**ONE, steps=STEPS * RUNS, physical_batch_size=BATCH),
        dp.TruncatedPoissonBatches(**ONE, steps=STEPS, physical_batch_size=BATCH),
        0.0,
        truncated,
    ),
    (
        dp.FixedSizeBatches(**ONE, steps=STEPS * RUNS),
        dp.FixedSizeBatches(**ONE, steps=STEPS),
        -1.0,
        fixed,
    ),
    (
        dp.FixedSizeBatches(**ONE, steps=STEPS * RUNS, replacement=True),
        dp.FixedSizeBatches(**ONE, steps=STEPS, replacement=True),
        -1.0,
        draws(1 / SIZE),
    ),
    (
        dp.FixedSizeBatches(**ONE, steps=STEPS * RUNS, replacement=True, weights=WEIGHTS),
        dp.FixedSizeBatches(**ONE, steps=STEPS, replacement=True, weights=WEIGHTS),
        -1.0,
        draws(2 / (SIZE + 1)),
    ),
    (
        dp.batches.WeightedPoissonBatches(weights=WEIGHTS, batch_size=BATCH, steps=STEPS * RUNS),
        dp.batches.WeightedPoissonBatches(weights=WEIGHTS, batch_size=BATCH, steps=STEPS),
        0.0,
        weighted,
    ),
    (dp.BallsAndBins(**ONE, epochs=RUNS), dp.BallsAndBins(**ONE, epochs=1), 0.0, one_of_all),
    (
        dp.BallsAndBins(**ONE, epochs=2, order="kept"),
        dp.BallsAndBins(**ONE, epochs=2, order="kept"),
        0.0,
        one_of_kept,
    ),
    (
        dp.RandomAllocation(steps=STEPS, participations=2, epochs=RUNS, dataset_size=SIZE),
        dp.RandomAllocation(steps=STEPS, participations=2),
        0.0,
        two_of_all,
    ),
    (dp.ShuffledBatches(**ONE, epochs=RUNS), dp.ShuffledBatches(**ONE, epochs=1), -1.0, shuffled),
    (
        dp.ShuffledBatches(**ONE, epochs=2, order="kept"),
        dp.ShuffledBatches(**ONE, epochs=2, order="kept"),
        -1.0,
        shuffled_once,
    ),
    (
        dp.ShuffledBatches(**ONE, epochs=RUNS, left_out=1),
        dp.ShuffledBatches(**ONE, epochs=1, left_out=1),
        -1.0,
        seated((2, 2, 2, 1), 1 / 8),
    ),
    (
        dp.ShuffledBatches(dataset_size=SIZE, batch_size=3, epochs=RUNS, drop_last=True),
        dp.ShuffledBatches(dataset_size=SIZE, batch_size=3, epochs=1, drop_last=True),
        -1.0,
        seated((3, 3), 1 / 4),
    ),
    (
        dp.BufferedShuffle(**ONE, epochs=RUNS, buffer_size=4),
        dp.BufferedShuffle(**ONE, epochs=1, buffer_size=4),
        -1.0,
        buffered,
    ),
    (
        dp.DeterministicBatches(**ONE, epochs=RUNS),
        dp.DeterministicBatches(**ONE, epochs=1),
        0.0,
        deterministic,
    ),
]


def success(members: Any, gradients: Any, ratio: Ratio, rng: np.random.Generator) -> Any:
    """How often the test says "record" in each run, over some replicates of the noise."""
    sums = members.astype(float) @ gradients
    noisy = sums[:, :, None] + NOISE * rng.standard_normal((*sums.shape, REPLICATES))
    return np.mean(ratio(noisy) > EPSILON, axis=1)


def margin(shares: Any) -> float:
    """How far the mean of independent shares in [0, 1] may be off (Maurer and Pontil, 2009)."""
    log = math.log(4 / FALSE_ALARM)
    spread = math.sqrt(2 * float(np.var(shares, ddof=1)) * log / len(shares))
    return spread + 7 * log / (3 * (len(shares) - 1))


@pytest.mark.parametrize(
    ("many", "one", "others", "ratio"), CASES, ids=lambda x: getattr(x, "label", "")
)
def test_attacks_succeed_as_often_as_accounted(
    many: Any, one: Any, others: float, ratio: Ratio
) -> None:
    runs = [occurrences(one, key) for key in range(RUNS)] if many == one else occurrences(many)
    members = np.reshape(runs, (RUNS, one.steps, SIZE))
    gradients = np.full(SIZE, others)
    # a record that comes out late is the worst for a buffer
    target = SIZE - 1 if isinstance(one, dp.BufferedShuffle) else TARGET
    rng = np.random.default_rng(1)
    shares = []
    for contribution in (1.0, 0.0):
        gradients[target] = contribution
        shares.append(success(members, gradients, ratio, rng))
    found = np.mean(shares[0]) - math.exp(EPSILON) * np.mean(shares[1])
    off = margin(shares[0]) + math.exp(EPSILON) * margin(shares[1])
    assert off < 0.1  # small against the differences between schemes
    run = dp.DPSGD(one, noise_multiplier=NOISE)
    delta = dp.account(run, adjacency="zero-out").delta(epsilon=EPSILON)
    assert delta.lower - off <= found <= delta.upper + off
