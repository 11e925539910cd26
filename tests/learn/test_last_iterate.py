"""Logistic regression whose last model is released: what runs is what is accounted, and audits agree."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import sharpdp as dp
import sharpdp.audit as audit
from sharpdp.learn.logistic_training import LastIterateTraining

KEY = b"a secret of more than 16 bytes"
LOSS = dp.SmoothLoss.logistic(feature_norm=1.0, regularization=0.1)


def data(size: int = 60, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    x = np.random.default_rng(seed).normal(size=(size, 3))
    return x, x[:, 0] > 0


def mechanism(
    scheme: type = dp.DeterministicBatches,
    *,
    noise: float = 5.0,
    diameter: float | None = None,
    **said: object,
) -> dp.LastIterate:
    counts = {"dataset_size": 60, "batch_size": 20, "epochs": 4, **said}
    return dp.LastIterate(
        scheme(**counts), noise_multiplier=noise, learning_rate=1.0, loss=LOSS, diameter=diameter
    )


def test_steps_are_those_of_the_plan() -> None:
    x, y = data()
    plan = mechanism(noise=1e-9, batch_size=60)
    weights = LastIterateTraining(plan, x, y, classes=2).run(progress=False).release()[0]
    rows = x * np.minimum(1.0, 1.0 / np.linalg.norm(x, axis=1))[:, None]
    w = np.zeros(3)
    for _ in range(4):
        mean = ((1.0 / (1.0 + np.exp(-rows @ w))) - y) @ rows / 60
        w -= 1.0 * (mean + 0.1 * w)
    assert np.allclose(weights, w, rtol=1e-6)


def test_softmax_steps_and_the_projection() -> None:
    x, _ = data()
    labels = np.arange(60) % 3
    loss = dp.SmoothLoss.softmax(feature_norm=1.0, regularization=0.1)
    full = dp.DeterministicBatches(dataset_size=60, batch_size=60, epochs=3)
    plan = dp.LastIterate(full, noise_multiplier=1e-9, learning_rate=1.0, loss=loss, diameter=0.02)
    weights = LastIterateTraining(plan, x, labels, classes=3).run(progress=False).release()
    rows = x * np.minimum(1.0, 1.0 / np.linalg.norm(x, axis=1))[:, None]
    w = np.zeros((3, 3))
    for _ in range(3):
        scores = np.exp(rows @ w.T)
        excess = scores / scores.sum(axis=1, keepdims=True) - np.eye(3)[labels]
        w = w - (excess.T @ rows / 60 + 0.1 * w)
        w = w * min(1.0, 0.01 / np.linalg.norm(w))
    assert np.allclose(weights, w, rtol=1e-5)
    assert np.linalg.norm(weights) <= 0.01


def test_gradients_are_never_longer_than_stated() -> None:
    x, _ = data(seed=3)
    loss = dp.SmoothLoss.softmax(feature_norm=2.0, regularization=0.1)
    full = dp.DeterministicBatches(dataset_size=60, batch_size=1, epochs=1)
    plan = dp.LastIterate(full, noise_multiplier=1.0, learning_rate=50.0, loss=loss)
    training = LastIterateTraining(plan, 1e3 * x, np.arange(60) % 3, classes=3)
    inner = training.run(steps=5, progress=False)._training
    for row in range(60):
        index = slice(row, row + 1)
        gradient = inner.linear.sum(inner.inputs[index], inner.targets[index])["weight"]
        assert float(gradient.norm()) <= loss.gradient_norm


def test_guarantees_count_releases() -> None:
    x, y = data()
    plan = mechanism()
    once = LastIterateTraining(plan, x, y, classes=2).run(progress=False)
    assert once.epsilon(delta=1e-5).upper == dp.account(plan).epsilon(delta=1e-5).upper
    twice = LastIterateTraining(plan, x, y, classes=2).run(steps=6, progress=False)
    twice.release()
    twice.release()
    twice.run(progress=False).release()
    assert twice.releases == (6, 12)
    half = plan.stopped_after(6)
    both = dp.account(half + half).epsilon(delta=1e-5).upper
    assert twice.epsilon(delta=1e-5).upper == both > once.epsilon(delta=1e-5).upper


def test_a_resumed_run_is_the_same_and_keeps_its_releases(tmp_path: Path) -> None:
    x, y = data()
    plan = mechanism(dp.PoissonBatches)
    whole = LastIterateTraining(plan, x, y, classes=2, key=KEY).run(progress=False).release()
    first = LastIterateTraining(plan, x, y, classes=2, key=KEY)
    first.run(steps=5, checkpoint=tmp_path / "run", progress=False)
    first.release()
    first.close()
    again = LastIterateTraining(plan, x, y, classes=2).resume(tmp_path / "run")
    assert again.releases == (5,)
    assert np.array_equal(again.run(progress=False).release(), whole)
    other = LastIterateTraining(plan, x + 1.0, y, classes=2)
    with pytest.raises(dp.InvalidArgument, match="checkpoint of this very run"):
        other.resume(tmp_path / "run")


def test_parts_of_epochs_are_no_runs_of_their_own() -> None:
    """Over cyclic batches no record is used last in both parts; the lower side of two runs needs one."""
    x, y = data()
    cyclic = mechanism(dp.DeterministicBatches)
    training = LastIterateTraining(cyclic, x, y, classes=2)
    training.run(steps=4, progress=False).release()
    assert training.guarantee.mechanism == cyclic.stopped_after(4)
    training.run(steps=2, progress=False)
    with pytest.raises(dp.InvalidArgument, match="ends of epochs, of 3 steps each"):
        training.release()
    assert training.releases == (4,)
    whole = LastIterateTraining(cyclic, x, y, classes=2)
    whole.run(steps=3, progress=False).release()
    whole.run(steps=3, progress=False).release()
    assert whole.releases == (3, 6)


def test_shuffled_batches_are_released_where_the_theorem_says() -> None:
    x, y = data()
    redrawn = LastIterateTraining(mechanism(dp.ShuffledBatches), x, y, classes=2)
    redrawn.run(steps=4, progress=False)
    with pytest.raises(dp.InvalidArgument, match="multiple of 3"):
        redrawn.release()
    redrawn.run(steps=2, progress=False).release()
    kept = LastIterateTraining(mechanism(dp.ShuffledBatches, order="kept"), x, y, classes=2)
    kept.run(steps=6, progress=False).release()
    with pytest.raises(dp.InvalidArgument, match="released once"):
        kept.run(progress=False).release()


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"features": np.full((60, 3), np.nan)}, "features must be"),
        ({"labels": np.full(60, 2)}, "labels must be 60 whole numbers from 0 to 1"),
        ({"labels": np.zeros(59)}, "labels must be"),
        ({"classes": 1}, "classes must be"),
        ({"mechanism": dp.Gaussian(1.0)}, "mechanism must be a LastIterate"),
        (
            {"mechanism": dp.LastIterate(mechanism().batches, noise_multiplier=1.0)},
            "mechanism must have a loss",
        ),
    ],
)
def test_bad_input(said: dict[str, object], message: str) -> None:
    x, y = data()
    given: dict[str, object] = {
        "mechanism": mechanism(),
        "features": x,
        "labels": y,
        "classes": 2,
        **said,
    }
    with pytest.raises(dp.SharpDPError, match=message):
        LastIterateTraining(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"loss": dp.SmoothLoss.linear(gradient_norm=1.0)}, "a loss that bends; got linear losses"),
        (
            {"start_deviation": 0.5},
            "a fixed start, since weights start at zero; got start_deviation",
        ),
    ],
)
def test_runs_that_training_does_not_follow_are_refused(
    said: dict[str, object], message: str
) -> None:
    x, y = data()
    with pytest.raises(dp.InvalidArgument, match=message):
        LastIterateTraining(dataclasses.replace(mechanism(), **said), x, y, classes=2)  # type: ignore[arg-type]


def scores(runs: int, *, record: bool, noise: float, steps: int = 6) -> NDArray[np.float64]:
    """How far released weights went in the direction of one record, among nulls, from fresh runs."""
    x, y = np.zeros((8, 2)), np.zeros(8)
    if record:
        x[0], y[0] = [1.0, 0.0], 1.0
    full = dp.DeterministicBatches(dataset_size=8, batch_size=8, epochs=steps)
    loss = dp.SmoothLoss.logistic(feature_norm=1.0, regularization=0.05)
    plan = dp.LastIterate(full, noise_multiplier=noise, learning_rate=1.0, loss=loss)
    return np.array(
        [
            LastIterateTraining(plan, x, y, classes=2).run(progress=False).release()[0, 0]
            for _ in range(runs)
        ]
    )


def audited(noise: float, runs: int) -> object:
    """Runs at this noise, against what is claimed at noise multiplier 4."""
    full = dp.DeterministicBatches(dataset_size=8, batch_size=8, epochs=6)
    loss = dp.SmoothLoss.logistic(feature_norm=1.0, regularization=0.05)
    claimed = dp.LastIterate(full, noise_multiplier=4.0, learning_rate=1.0, loss=loss)
    return audit.many_runs(
        with_record=scores(runs, record=True, noise=noise),
        without_record=scores(runs, record=False, noise=noise),
        confidence=0.999,
        guarantee=dp.account(claimed),
    )


@pytest.mark.slow
def test_an_audit_of_the_loop_agrees() -> None:
    assert audited(4.0, 400).consistent  # type: ignore[attr-defined]


@pytest.mark.slow
def test_an_audit_catches_too_little_noise() -> None:
    assert not audited(0.5, 400).consistent  # type: ignore[attr-defined]
