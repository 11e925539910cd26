"""Canaries go through the usual training, and an audit finds what is wrong with it."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp import audit
from sharpdp.audit import canary_runs
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn.canary_model import WithCanaries, rows_of
from sharpdp.learn.gradients import ClippedGradients

INPUTS = torch.from_numpy(np.random.default_rng(0).normal(size=(100, 6))).float()
TARGETS = torch.arange(100) % 3
CANARIES = 200
KEY = b"k" * 32


def plan(noise: float = 1.0, epochs: int = 2) -> dp.DPSGD:
    scheme = dp.BallsAndBins(dataset_size=300, batch_size=100, epochs=epochs)
    return dp.DPSGD(scheme, noise_multiplier=noise)


def run(noise: float = 1.0, loss=nn.functional.cross_entropy, **more) -> audit.CanaryAudit:
    torch.manual_seed(0)
    settings = {"clip": 1.0, "key": KEY, "progress": False, "learning_rate": 0.5, **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return audit.canaries(plan(noise), nn.Linear(6, 3), loss, INPUTS, TARGETS, **settings)


def test_the_gradient_of_each_kind_of_record() -> None:
    model = WithCanaries(nn.Linear(6, 3), shape=(6,), canaries=4)
    take = ClippedGradients(model, nn.CrossEntropyLoss(), clip=1.0)
    rows = rows_of(INPUTS[:1].repeat(3, 1), torch.tensor([0, -1, 3]))
    targets = torch.ones(1, dtype=torch.int64)
    ordinary, null, canary = (take.sum(rows[i : i + 1], targets) for i in range(3))
    assert all(float(value.abs().max()) == 0.0 for value in null.values())
    assert float(ordinary["lane.weight"].abs().max()) == 0.0
    assert float(ordinary["model.weight"].abs().max()) > 0.0
    assert float(canary["model.weight"].abs().max()) == 0.0
    assert canary["lane.weight"][0].tolist() == pytest.approx([0, 0, 1, 0], abs=1e-5)
    with torch.no_grad():
        model.lane.weight += 3.0  # the gradient of a canary does not depend on its parameter
    again = take.sum(rows[2:], targets)
    assert again["lane.weight"][0].tolist() == pytest.approx([0, 0, 1, 0], abs=1e-5)


@pytest.mark.parametrize("framework", ["sharpdp", "opacus"])
@pytest.mark.parametrize("kind", ["gradient", "input", "mislabeled"])
def test_an_honest_run_passes(framework: str, kind: str) -> None:
    result = run(framework=framework, kind=kind)
    assert result.audit.consistent
    assert result.scores.shape == result.included.shape == (CANARIES,)
    assert result.audit.guarantee.adjacency is dp.Adjacency.ZERO_OUT
    assert 0.3 < result.included.mean() < 0.7


def test_gradient_canaries_show_nearly_all_of_a_loud_run() -> None:
    result = run(0.1)
    assert result.audit.epsilon.lower > 2.0
    assert result.audit.consistent


def test_a_run_without_its_noise_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    from sharpdp.learn.gaussian_noise import StepNoise

    monkeypatch.setattr(StepNoise, "added", lambda self, total, step: dict(total))
    result = run()
    assert not result.audit.consistent
    assert "CONTRADICTS" in str(result)


def test_a_run_can_be_resumed(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    from sharpdp.learn.dpsgd import Training

    whole = run()
    advance = Training.advance

    def stopped(self) -> None:
        if self.step == 3:
            raise KeyboardInterrupt
        advance(self)

    path = tmp_path / "run.pt"
    with monkeypatch.context() as patched:
        patched.setattr(Training, "advance", stopped)
        with pytest.raises(KeyboardInterrupt):
            run(checkpoint=path)
    again = run(checkpoint=path)
    assert np.array_equal(again.scores, whole.scores)
    assert np.array_equal(again.included, whole.included)


def test_a_run_by_opacus_can_be_resumed(tmp_path) -> None:
    """Stopped within the second epoch, it goes on from the end of the first with the same noise."""
    whole = run(framework="opacus")
    path, calls = tmp_path / "run.pt", 0

    def stopped(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise KeyboardInterrupt
        return nn.functional.cross_entropy(outputs, targets)

    with pytest.raises(KeyboardInterrupt):
        run(framework="opacus", checkpoint=path, loss=stopped)
    again = run(framework="opacus", checkpoint=path)
    assert np.array_equal(again.scores, whole.scores)
    assert again.audit.guarantee.epsilon(delta=1e-5) == whole.audit.guarantee.epsilon(delta=1e-5)
    with pytest.raises(InvalidArgument, match="another mechanism, clip"):
        run(framework="opacus", checkpoint=path, clip=2.0)


def test_scores_can_be_written_and_read(tmp_path) -> None:
    result = run()
    result.write_scores(tmp_path / "scores.csv")
    table = np.genfromtxt(tmp_path / "scores.csv", delimiter=",", names=True)
    assert np.array_equal(table["score"], result.scores)
    assert np.array_equal(table["included"] == 1, result.included)


def test_coins_depend_on_the_key_alone() -> None:
    one, other = (canary_runs._Run(key, 500, "gradient").included for key in (KEY, b"l" * 32))
    assert np.array_equal(one, canary_runs._Run(KEY, 500, "gradient").included)
    assert 150 < np.count_nonzero(one != other) < 350


def test_bad_input() -> None:
    with pytest.raises(InvalidArgument, match="kind"):
        run(kind="loud")
    with pytest.raises(InvalidArgument, match="key"):
        run(key=None, checkpoint="x")
    scheme = dp.BallsAndBins(dataset_size=100, batch_size=50, epochs=1)
    small = dp.DPSGD(scheme, noise_multiplier=1.0)
    with pytest.raises(InvalidArgument, match="places for canaries"):
        audit.canaries(small, nn.Linear(6, 3), nn.CrossEntropyLoss(), INPUTS, TARGETS, clip=1.0)
    with pytest.raises(WrongType, match="mechanism"):
        audit.canaries(dp.Gaussian(noise_multiplier=1.0), None, None, INPUTS, TARGETS, clip=1.0)
    with pytest.raises(WrongType, match="real numbers"):
        audit.canaries(plan(), nn.Linear(6, 3), None, TARGETS, TARGETS, clip=1.0)
