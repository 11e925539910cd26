"""Audits of training with correlated noise: honest runs pass, and each way to break one is caught."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp import audit
from sharpdp.learn.correlated_step_noise import CorrelatedStepNoise, NoiseMemory
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.strategy_design import banded_strategy, buffered_strategy

CLIP, NOISE, STEPS = 1.0, 2.0, 12
INPUTS = torch.from_numpy(np.random.default_rng(0).normal(size=(60, 8))).float() + 1.0
INPUTS[0] *= -50.0
DATA = (INPUTS, torch.zeros(60, dtype=torch.int64))
PLAN = dp.DeterministicBatches(dataset_size=60, batch_size=10, epochs=2)


@cache
def strategy(name: str) -> dp.BandedStrategy | dp.BufferedLinearToeplitz:
    if name == "banded":
        return banded_strategy(steps=STEPS, bands=6)
    return buffered_strategy(steps=STEPS, buffers=2, participations=2)


def training(data, name: str = "banded") -> Training:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2))
    run = dp.CorrelatedNoise(PLAN, strategy=strategy(name), noise_multiplier=NOISE)
    settings = {"clip": CLIP, "key": b"k" * 32, "learning_rate": 0.1}
    return Training(run, model, nn.CrossEntropyLoss(), *data, **settings)


def replayed(make) -> audit.ReplayAudit:
    return audit.replay(
        audit.training_step(make, steps=STEPS),
        data=DATA,
        neighbors=[audit.zeroed(DATA, index) for index in (0, 11, 59)],
        sensitivity=CLIP,
        noise_multiplier=NOISE,
        releases=STEPS,
    )


@pytest.mark.parametrize("name", ["banded", "buffered"])
def test_honest_runs_pass(name: str) -> None:
    result = replayed(lambda data: training(data, name))
    assert result.consistent, str(result)
    assert result.largest_change == pytest.approx(CLIP, rel=1e-5)


def not_correlated(data) -> Training:
    """Independent noise under the name of a strategy."""
    run = training(data)
    run._noise._strategy = dp.BandedStrategy(coefficients=(1.0,))
    run._noise._sums._bands = 1
    return run


def another_strategy(data) -> Training:
    """The noise of fewer bands."""
    run = training(data)
    fewer = training(data)._noise
    fewer.__init__(
        strategy=dp.BandedStrategy(coefficients=strategy("banded").coefficients[:2]),
        steps=STEPS,
        noise_multiplier=NOISE,
        clip=CLIP,
        key=b"k" * 32,
    )
    run._noise = fewer
    return run


def used_again(data) -> Training:
    """The same independent noise in steps 3 and 7."""
    run = training(data)
    fresh = run._noise._fresh
    drawn, first = fresh.added, {}

    def added(total, step, *, lower=None):
        noisy = drawn(total, step, lower=lower)
        if step == 3:
            first.update({name: noisy[name] - total[name] for name in total})
        return {name: total[name] + first[name] for name in total} if step == 7 else noisy

    fresh.added = added
    return run


def memory_lost(data) -> Training:
    """A run that was resumed in the middle without the memory of its noise."""
    run = training(data)
    added = run._noise.added

    def forgetful(total, step):
        if step == 6:
            run._noise._memories = {6: NoiseMemory()}
        return added(total, step)

    run._noise.added = forgetful
    return run


def noise_halved(data) -> Training:
    run = training(data)
    run._noise._fresh.deviation *= 0.5
    return run


BROKEN = {
    "noise not correlated as planned": (not_correlated, "noise used again"),
    "a strategy other than planned": (another_strategy, "noise used again"),
    "independent noise used again": (used_again, "noise used again"),
    "memory of the noise lost in a resume": (memory_lost, "noise used again"),
    "correlated noise halved": (noise_halved, "scale of the noise"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_runs_are_caught(name: str) -> None:
    make, test = BROKEN[name]
    result = replayed(make)
    assert test in {one.test for one in result.findings if one.failed}, str(result)


def test_every_variant_is_in_the_table() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "topics", "audit.md").read_text("utf-8")
    for name, (_, test) in BROKEN.items():
        assert any(line.startswith(f"| {name} |") and test in line for line in page.splitlines())


def test_examples_that_come_too_often_or_too_soon_are_seen() -> None:
    promise = dp.MinSeparation(steps=12, separation=6, participations=2)
    honest = list(PLAN.batches())
    assert audit.sampler(batches=honest, scheme=promise).consistent
    soon = [*honest[:4], np.append(honest[4], 59), *honest[5:]]
    found = audit.sampler(batches=soon, scheme=promise)
    assert {one.test for one in found.findings if one.failed} == {"separation", "participations"}
    once = dp.MinSeparation(steps=12, separation=6, participations=1)
    found = audit.sampler(batches=honest, scheme=once)
    assert {one.test for one in found.findings if one.failed} == {"participations"}
    shuffled = list(dp.ShuffledBatches(dataset_size=60, batch_size=10, epochs=2).batches(1))
    found = audit.sampler(batches=shuffled, scheme=promise)
    assert {one.test for one in found.findings if one.failed} == {"separation"}


def canary_run(noise_factor: float = 1.0) -> audit.CanaryAudit:
    """100 canaries among 20 records, in known positions: one epoch of ten steps."""
    plan = dp.DeterministicBatches(dataset_size=320, batch_size=32, epochs=1)
    run = dp.CorrelatedNoise(
        plan, strategy=banded_strategy(steps=10, bands=10), noise_multiplier=1.0
    )
    torch.manual_seed(0)
    original = CorrelatedStepNoise.__init__

    def quieter(self, **settings) -> None:
        settings["noise_multiplier"] *= noise_factor
        original(self, **settings)

    with mock.patch.object(CorrelatedStepNoise, "__init__", quieter):
        return audit.canaries(
            run,
            nn.Linear(8, 2),
            nn.CrossEntropyLoss(),
            INPUTS[:20],
            DATA[1][:20],
            clip=CLIP,
            key=b"canaries" * 4,
            progress=False,
        )


def test_canaries_agree_with_the_guarantee_and_contradict_a_broken_run() -> None:
    honest, broken = canary_run(), canary_run(0.1)
    assert honest.audit.consistent, str(honest)
    assert not broken.audit.consistent, str(broken)


def test_correlated_noise_is_not_for_opacus() -> None:
    run = dp.CorrelatedNoise(PLAN, strategy=strategy("banded"), noise_multiplier=1.0)
    with pytest.raises(dp.SharpDPError, match="mechanism must be a DPSGD; got"):
        audit.canaries(
            run, nn.Linear(8, 2), nn.CrossEntropyLoss(), *DATA, clip=CLIP, framework="opacus"
        )
