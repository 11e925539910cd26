"""Attacks on the real training step: they stay below our upper side, and they find broken variants.

One long run with a learning rate that moves nothing is many independent runs: the parameters stay where
they are, and every epoch is released afresh. An attack is a threshold on a statistic of the releases; it
shows a delta of at least tpr - e^epsilon fpr, with exact binomial confidence limits.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

import sharpdp as dp
from sharpdp.learn.dpsgd import Training

FALSE_ALARM = 1e-9
STILL = 1e-30
"""A learning rate that moves no parameter."""


class Plain(nn.Module):
    """A model whose gradient is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * self.weight


def released(
    plan: dp.batches.BatchScheme,
    gradients: list[float],
    noise: float,
    *,
    key: bytes,
    spoiled: float = 1.0,
) -> np.ndarray:
    """The noisy sums of all steps of a real run; `spoiled` scales the noise behind its back."""
    inputs = torch.tensor(gradients)[:, None]
    run = Training(
        dp.DPSGD(plan, noise_multiplier=noise),
        Plain(),
        lambda output, target: output.sum(),
        inputs,
        torch.zeros(len(gradients)),
        clip=1.0,
        learning_rate=STILL,
        key=key,
    )
    run._noise.deviation *= spoiled
    found = []
    for _ in range(plan.steps):
        run.advance()
        gradient = run.model.weight.grad
        found.append(float(gradient[0]) * run.expected_batch_size)
    return np.array(found)


def shown_delta(inside: np.ndarray, outside: np.ndarray, epsilon: float, threshold: float) -> float:
    """A lower bound on delta at epsilon by the attack `statistic > threshold`, error FALSE_ALARM."""
    hits, alarms, runs = (
        int(np.sum(inside > threshold)),
        int(np.sum(outside > threshold)),
        inside.size,
    )
    least = stats.beta.ppf(FALSE_ALARM / 2, hits, runs - hits + 1) if hits else 0.0
    most = stats.beta.isf(FALSE_ALARM / 2, alarms + 1, runs - alarms) if alarms < runs else 1.0
    return float(least - np.exp(epsilon) * most)


def one_epoch(noise: float, spoiled: float) -> tuple[np.ndarray, np.ndarray]:
    """Sums of 1000 epochs of one batch, with the record's gradient as long as the clip and without it."""
    plan = dp.DeterministicBatches(dataset_size=2, batch_size=2, epochs=1000)
    inside = released(plan, [5.0, 0.0], noise, key=b"with the record ....", spoiled=spoiled)
    outside = released(plan, [0.0, 0.0], noise, key=b"without the record .", spoiled=spoiled)
    return inside, outside


@pytest.mark.parametrize(("spoiled", "caught"), [(1.0, False), (0.5, True)])
def test_halved_noise_is_caught_and_honest_noise_is_not(spoiled: float, caught: bool) -> None:
    plan = dp.DeterministicBatches(dataset_size=2, batch_size=2, epochs=1)
    claimed = dp.account(dp.DPSGD(plan, noise_multiplier=1.0)).epsilon(delta=0.05).upper
    inside, outside = one_epoch(1.0, spoiled)
    shown = max(shown_delta(inside, outside, claimed, t) for t in (0.75, 1.0, 1.25, 1.5))
    assert (shown > 0.05) is caught


@pytest.mark.slow
def test_shuffled_batches_accounted_as_poisson_are_caught() -> None:
    steps, size, epochs, noise = 10, 1, 400, 0.5
    sizes = {"dataset_size": steps * size, "batch_size": size, "epochs": epochs}
    shuffled = dp.ShuffledBatches(**sizes)
    others = [-1.0] * (steps * size - 1)
    with_record, without = (
        released(shuffled, [own, *others], noise, key=key).reshape(epochs, steps).max(1)
        for own, key in ((1.0, b"with the record ...."), (0.0, b"without the record ."))
    )
    epoch = {**sizes, "epochs": 1}
    poisson = dp.DPSGD(dp.PoissonBatches(**epoch), noise_multiplier=noise)
    honest = dp.DPSGD(dp.ShuffledBatches(**epoch), noise_multiplier=noise)
    delta = 0.3
    wrong = dp.account(poisson, adjacency="zero-out").epsilon(delta=delta).upper
    right = dp.account(honest).epsilon(delta=delta).upper
    thresholds = np.linspace(0.3, 0.9, 7)
    assert max(shown_delta(with_record, without, wrong, t) for t in thresholds) > delta
    assert max(shown_delta(with_record, without, right, t) for t in thresholds) < delta
