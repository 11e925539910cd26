"""The table of docs/topics/audit.md: nine ways to break a private run, and the audit that catches each.

Runs are real ones of `sharpdp.learn.Training` where the break is in training, and index batches where
it is in a loader. Every row is also run unbroken, and passes.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp import audit
from sharpdp.learn.dpsgd import Training

CLIP, NOISE, STEPS = 1.0, 2.0, 10
INPUTS = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 8))).float() + 1.0
INPUTS[0] *= -50.0  # an outlier, without which nobody sees what clipping does
TARGETS = torch.zeros(60, dtype=torch.int64)
DATA = (INPUTS, TARGETS)
SCHEME = dp.PoissonBatches(dataset_size=60, batch_size=30, steps=STEPS)
LOADED = {"dataset_size": 2000, "batch_size": 100}
PLANNED = dp.PoissonBatches(**LOADED, epochs=3)


def training(data: tuple[torch.Tensor, torch.Tensor], **more: object) -> Training:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))
    settings = {"clip": CLIP, "key": b"k" * 32, "learning_rate": 0.1, **more}
    run = dp.DPSGD(SCHEME, noise_multiplier=NOISE)
    return Training(run, model, nn.CrossEntropyLoss(), *data, **settings)


def replayed(make) -> audit.ReplayAudit:
    return audit.replay(
        audit.training_step(make, steps=STEPS),
        data=DATA,
        neighbors=[audit.zeroed(DATA, index) for index in (0, 1, 2)],
        sensitivity=CLIP,
        noise_multiplier=NOISE,
        releases=STEPS,
    )


def noise_halved(data) -> Training:
    run = training(data)
    run._noise.deviation *= 0.5
    return run


def noise_omitted_once(data) -> Training:
    run = training(data)
    added = run._noise.added
    run._noise.added = lambda total, step: total if step == 7 else added(total, step)
    return run


def clip_too_large(data) -> Training:
    run = training(data)
    object.__setattr__(run.gradients, "clip", 1.2 * CLIP)
    return run


def clipped_per_batch(data) -> Training:
    run = training(data)
    gradients = run.gradients

    class PerBatch:
        model, clip, parameters = gradients.model, gradients.clip, gradients.parameters
        physical_batch_size = gradients.physical_batch_size

        @staticmethod
        def sum(inputs, targets):
            each = gradients.each(inputs, targets)
            total = {name: torch.nan_to_num(value).sum(0).double() for name, value in each.items()}
            norm = torch.sqrt(sum((value**2).sum() for value in total.values()))
            return {name: value / max(float(norm) / CLIP, 1.0) for name, value in total.items()}

    run.gradients = PerBatch()
    return run


def divided_by_real_size(data) -> Training:
    run = training(data)
    move, usable = run._move, torch.isfinite(data[0]).all(1)
    sizes = [int(usable[torch.from_numpy(batch)].sum()) for batch in SCHEME.batches(b"k" * 32)]

    def moved(released, rate) -> None:
        run.expected_batch_size = float(max(sizes[run.step - 1], 1))
        move(released, rate)
        run.expected_batch_size = 30.0

    run._move = moved
    return run


def resumed(batches: list) -> list:
    """The batches of a run that was resumed in the middle and began to count from 0 again."""
    half = len(batches) // 2
    return [*batches[:half], *batches[:half]]


REPLAYED = {
    "noise halved": (noise_halved, "scale of the noise"),
    "noise omitted in one step of ten": (noise_omitted_once, "distribution of the noise"),
    "clipping norm 1.2 times too large": (clip_too_large, "sensitivity"),
    "clipped per batch, not per example": (clipped_per_batch, "sensitivity"),
    "divided by the real batch size": (divided_by_real_size, "published"),
}
DRAWN = {
    "shuffled batches claimed to be Poisson": (
        list(dp.ShuffledBatches(**LOADED, epochs=3).batches(1)),
        "twice in an epoch",
    ),
    "key used again after a resume": (
        resumed(list(PLANNED.batches(1))),
        "batches that share examples",
    ),
    "a loader with a fixed order": (
        list(dp.DeterministicBatches(**LOADED, epochs=3).batches()),
        "order of the data set",
    ),
    "workers that draw the same batches": (
        [np.concatenate([batch, batch]) for batch in PLANNED.batches(1)],
        "repetition in a step",
    ),
}


def test_honest_training_passes() -> None:
    result = replayed(training)
    assert result.consistent, str(result)
    assert audit.sampler(batches=PLANNED.batches(1), scheme=PLANNED).consistent


@pytest.mark.parametrize("name", REPLAYED)
def test_broken_training_is_caught(name: str) -> None:
    make, test = REPLAYED[name]
    result = replayed(make)
    assert test in {one.test for one in result.findings if one.failed}, str(result)


@pytest.mark.parametrize("name", DRAWN)
def test_broken_loaders_are_caught(name: str) -> None:
    batches, test = DRAWN[name]
    result = audit.sampler(batches=batches, scheme=PLANNED)
    assert test in {one.test for one in result.findings if one.failed}, str(result)


def test_every_variant_is_in_the_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "topics", "audit.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| (.+?) \| `\w+` \| (.+?) \|", page, re.MULTILINE))
    for name, (_, test) in {**REPLAYED, **DRAWN}.items():
        assert name in rows, name
        assert test in rows[name], name


# --- shuffled batches claimed to be Poisson, seen by an attack ---


class Plain(nn.Module):
    """A model whose gradient is its input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return inputs * self.weight


BATCHES, FEW = 10, 0.4
"""Batches of an epoch, and the noise multiplier."""


def epochs(scheme, canary: float) -> np.ndarray:
    """The noisy sums of all steps of a real run, a row for each epoch: each of them is a run."""
    gradients = torch.full((2 * BATCHES, 1), -1.0)
    gradients[0] = canary
    run = Training(
        dp.DPSGD(scheme, noise_multiplier=FEW),
        Plain(),
        lambda output, target: output.sum(),
        gradients,
        torch.zeros(2 * BATCHES),
        clip=1.0,
        learning_rate=1e-30,
        key=b"shuffled" * 4 if canary else b"poisson!" * 4,
    )
    sums = []
    for _ in range(scheme.steps):
        run.advance()
        sums.append(float(run.model.weight.grad[0]) * run.expected_batch_size)
    return np.array(sums).reshape(-1, BATCHES)


def seen(sums: np.ndarray) -> np.ndarray:
    """Log-likelihood ratio of the canary (+2) against a null record (+1), in an unknown batch."""
    above = sums + 2.0
    logs = [(2.0 * shift * above - shift**2) / (2.0 * FEW**2) for shift in (2.0, 1.0)]
    with_record, without = (np.logaddexp.reduce(one, axis=1) for one in logs)
    return with_record - without


def test_an_attack_tells_shuffled_batches_from_the_poisson_claim() -> None:
    """What arXiv 2411.10614 found in practice: the Poisson certificate does not hold for them."""
    size = {"dataset_size": 2 * BATCHES, "batch_size": 2}
    scheme = dp.ShuffledBatches(**size, epochs=80)
    scores = [seen(epochs(scheme, canary)) for canary in (1.0, 0.0)]
    claims = [
        dp.account(dp.DPSGD(kind(**size, epochs=1), noise_multiplier=FEW), adjacency="zero-out")
        for kind in (dp.PoissonBatches, dp.ShuffledBatches)
    ]
    results = [
        audit.many_runs(with_record=scores[0], without_record=scores[1], guarantee=claim)
        for claim in claims
    ]
    assert [result.consistent for result in results] == [False, True], list(map(str, results))
