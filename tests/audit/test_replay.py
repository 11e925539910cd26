"""A correct step passes, and every kind of broken step is caught by replaying it on neighbors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp import audit
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.dpsgd import Training

CLIP, NOISE = 1.0, 2.0
RECORDS = np.random.default_rng(0).normal(size=(30, 5))
RECORDS[0] = -100.0 * RECORDS[1:].sum(axis=0)  # an outlier against all others
NEIGHBORS = [np.delete(RECORDS, index, axis=0) for index in (0, 3, 7)]


def clipped(rows: np.ndarray, clip: float = CLIP) -> np.ndarray:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(norms / clip, 1.0)


def verdict(step, **more) -> audit.ReplayAudit:
    settings = {"sensitivity": CLIP, "noise_multiplier": NOISE, "releases": 1, **more}
    return audit.replay(step, data=RECORDS, neighbors=NEIGHBORS, **settings)


def failed(result: audit.ReplayAudit) -> set[str]:
    return {one.test for one in result.findings if one.failed}


def test_a_correct_step_passes() -> None:
    result = verdict(lambda rows, release: release(clipped(rows).sum(0), NOISE) / 30)
    assert result.consistent, str(result)
    assert result.largest_change == pytest.approx(CLIP)
    assert result.to_dict()["consistent"] is True


BROKEN = {
    "clip 1.2 times too large": (
        lambda rows, release: release(clipped(rows, 1.2).sum(0), NOISE),
        "sensitivity",
    ),
    "clipped per batch": (
        lambda rows, release: release(clipped(rows.sum(0, keepdims=True))[0], NOISE),
        "sensitivity",
    ),
    "divided by the real size": (
        lambda rows, release: release(clipped(rows).sum(0), NOISE) / len(rows),
        "published",
    ),
    "noise halved": (
        lambda rows, release: release(clipped(rows).sum(0), NOISE / 2),
        "scale of the noise",
    ),
    "loss published": (
        lambda rows, release: (release(clipped(rows).sum(0), NOISE), rows.mean()),
        "published",
    ),
    "no noise": (lambda rows, release: clipped(rows).sum(0), "noise is added"),
    "noise scaled by the data": (
        lambda rows, release: release(clipped(rows).sum(0), NOISE * len(rows) / 30),
        "scale of the noise",
    ),
    "no noise for few records": (
        lambda rows, release: release(clipped(rows).sum(0), NOISE) if len(rows) > 29 else 0,
        "control flow",
    ),
    "raises for few records": (
        lambda rows, release: release(clipped(rows).sum(0), NOISE) / (len(rows) > 29 or [][1]),
        "control flow",
    ),
    "other shape": (
        lambda rows, release: release(clipped(rows)[:, : len(rows) - 26].sum(0), NOISE),
        "control flow",
    ),
    "noise added twice": (
        lambda rows, release: release(release(clipped(rows).sum(0), NOISE), NOISE),
        "noise is added",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_step_is_caught(name: str) -> None:
    step, test = BROKEN[name]
    result = verdict(step)
    assert test in failed(result), str(result)


@pytest.mark.parametrize(
    ("true", "reused", "test"),
    [(1.0, False, ""), (0.5, False, "distribution of the noise"), (1.0, True, "noise used again")],
)
def test_noise_of_the_step_itself(true: float, reused: bool, test: str) -> None:
    def step(rows, release):
        rng = np.random.default_rng(1)
        value = np.zeros(400)
        fresh = rng.normal(size=400)
        first = release(value, NOISE, value + true * NOISE * fresh)
        second = fresh if reused else rng.normal(size=400)
        return first, release(value, NOISE, value + NOISE * second)

    result = verdict(step, releases=2)
    assert failed(result) == ({test} if test else set()), str(result)


def test_false_alarms_of_the_noise_are_as_rare_as_stated() -> None:
    def step_of(seed: int):
        def step(rows, release):
            rng = np.random.default_rng(seed)
            return [release(np.zeros(20), NOISE, NOISE * rng.normal(size=20)) for _ in range(3)]

        return step

    alarms = sum(
        not verdict(step_of(seed), releases=3, false_alarm=0.2).consistent for seed in range(200)
    )
    assert alarms <= 75  # more than 200 draws at 0.2 give with probability 1e-6


# --- sharpdp.learn and Opacus -------------------------------------------------------------------------


INPUTS = torch.from_numpy(np.random.default_rng(2).normal(size=(60, 8))).float()
INPUTS[0] *= 100.0
TARGETS = torch.arange(60) % 3


def training(data, **more) -> Training:
    torch.manual_seed(0)
    plan = dp.DPSGD(
        dp.BallsAndBins(dataset_size=60, batch_size=30, epochs=5), noise_multiplier=NOISE
    )
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 3))
    settings = {"clip": CLIP, "key": b"k" * 32, "learning_rate": 0.5, **more}
    return Training(plan, model, nn.CrossEntropyLoss(), *data, **settings)


def replayed(make, steps: int = 4) -> audit.ReplayAudit:
    data = (INPUTS, TARGETS)
    return audit.replay(
        audit.training_step(make, steps=steps),
        data=data,
        neighbors=[audit.zeroed(data, index) for index in (0, 5)],
        sensitivity=CLIP,
        noise_multiplier=NOISE,
        releases=steps,
    )


def test_training_passes() -> None:
    result = replayed(training)
    assert result.consistent, str(result)
    assert 0.9 * CLIP < result.largest_change <= CLIP


def louder(data) -> Training:
    run = training(data)
    object.__setattr__(run.gradients, "clip", 1.2 * CLIP)
    return run


def quieter(data) -> Training:
    run = training(data)
    added, noise = run._noise.added, run._noise

    def half(total, step):
        noisy = added(total, step)
        return {name: total[name] + 0.5 * (noisy[name] - total[name]) for name in total}

    noise.added = half
    return run


def silent_once(data) -> Training:
    run = training(data)
    added = run._noise.added
    run._noise.added = lambda total, step: total if step == 2 else added(total, step)
    return run


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (louder, "sensitivity"),
        (quieter, "distribution of the noise"),
        (silent_once, "distribution of the noise"),
        (
            lambda data: training(
                data, expected_batch_size=float(torch.isfinite(data[0][:, 0]).sum())
            ),
            "published",
        ),
    ],
)
def test_broken_training_is_caught(make, test: str) -> None:
    assert test in failed(replayed(make))


def opacus_run(data, *, clip: float = CLIP, mean: bool = False):
    """One step of Opacus on all records, in the order of the data."""
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    torch.manual_seed(1)
    inputs, targets = data
    model = GradSampleModule(nn.Linear(8, 3))
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=len(inputs) if mean else 60,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), targets).backward()
            for parameter in optimizer.params if clip != CLIP else ():
                parameter.grad_sample *= clip
            optimizer.step()
    return model


@pytest.mark.parametrize(("mean", "test"), [(False, ""), (True, "published")])
def test_opacus(mean: bool, test: str) -> None:
    data = (INPUTS, TARGETS)
    result = audit.replay(
        audit.opacus_step(lambda some: opacus_run(some, mean=mean)),
        data=data,
        neighbors=[(INPUTS[1:], TARGETS[1:])],
        sensitivity=CLIP,
        noise_multiplier=NOISE,
        releases=2,
    )
    assert failed(result) == ({test} if test else set()), str(result)


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument, match="neighbors"):
        audit.replay(lambda data, release: 0, data=1, neighbors=[], sensitivity=1.0)
    with pytest.raises(WrongType, match="step"):
        audit.replay(None, data=1, neighbors=[2], sensitivity=1.0)
    with pytest.raises(WrongType, match="real numbers"):
        audit.zeroed((TARGETS, TARGETS), 0)
    with pytest.raises(InvalidArgument, match="below"):
        audit.zeroed((INPUTS, TARGETS), 60)
