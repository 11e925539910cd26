"""A step that is run again is the same release, bit for bit, whatever the model draws in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.learn.dpsgd import Training
from tests.learn.test_dpsgd import EXAMPLES, FEATURES, KEY, data, weights


class Shaken(torch.optim.SGD):
    """An optimizer that draws random numbers."""

    def step(self, closure: object = None) -> None:
        super().step()
        for group in self.param_groups:
            for one in group["params"]:
                one.data += 1e-3 * torch.randn_like(one)


def dropping(seed: int = 0) -> Training:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    plan = dp.PoissonBatches(dataset_size=EXAMPLES, batch_size=12, epochs=2)
    run = Training(
        dp.DPSGD(plan, noise_multiplier=1.0),
        model,
        nn.BCEWithLogitsLoss(),
        *data(),
        clip=0.5,
        optimizer=Shaken(model.parameters(), lr=0.1),
        key=KEY,
    )
    torch.manual_seed(seed)  # what else the process draws is another matter
    return run


def released(run: Training, steps: int) -> list[np.ndarray]:
    """The noisy gradients of so many steps."""
    found = []
    for _ in range(steps):
        run.advance()
        found.append(np.concatenate([p.grad.numpy().ravel() for p in run.model.parameters()]))
    return found


def test_s8_a_resumed_run_with_dropout_repeats_the_steps_it_lost(tmp_path: Path) -> None:
    path = tmp_path / "run.pt"
    run = dropping(seed=1)
    run.run(steps=3, checkpoint=path, progress=False)
    lost = released(run, 4)
    again = released(dropping(seed=2).resume(path), 4)
    for one, other in zip(lost, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(lost[0], lost[1])


def test_s8_a_step_that_failed_comes_again_with_the_same_dropout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, run = dropping(seed=1), dropping(seed=2)
    whole.run(steps=2, progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(run._noise, "added", lambda *given: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            run.advance()
    run.run(steps=2, progress=False)
    np.testing.assert_array_equal(weights(run), weights(whole))


def test_s8_a_step_leaves_the_random_numbers_of_the_process_alone() -> None:
    run = dropping()
    state = torch.get_rng_state()
    run.advance()
    assert torch.equal(torch.get_rng_state(), state)
