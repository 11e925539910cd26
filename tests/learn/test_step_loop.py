"""What every loop of steps owes: noise of its own plan, counts that never go down, one run a key."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.ranks import Ranks

KEY = b"k" * 32
INPUTS, TARGETS = torch.zeros(40, 2), torch.zeros(40, 1)


def plan(steps: int = 8) -> dp.DPSGD[Any]:
    return dp.DPSGD(
        dp.PoissonBatches(dataset_size=40, sample_rate=0.2, steps=steps), noise_multiplier=2.0
    )


def training(run: dp.DPSGD[Any], **options: Any) -> Training:
    settings: dict[str, Any] = {"clip": 1.0, "key": KEY, **options}
    model = settings.pop("model", None) or nn.Linear(2, 1)
    return Training(run, model, nn.MSELoss(), INPUTS, TARGETS, **settings)


def gradients(run: dp.DPSGD[Any], **options: Any) -> PrivateGradients:
    settings: dict[str, Any] = {"clip": 1.0, "key": KEY, **options}
    model = settings.pop("model", None) or nn.Linear(2, 1)
    data = TensorDataset(INPUTS, TARGETS)

    def loss(model: nn.Module, rows: Any) -> torch.Tensor:
        return nn.functional.mse_loss(model(rows[0]), rows[1])

    return PrivateGradients(run, model, loss, data, **settings)


LOOPS = pytest.mark.parametrize("loop", [training, gradients])
Loop = Callable[..., Any]


def advance(run: Any) -> None:
    """Take the next step."""
    if isinstance(run, Training):
        run.advance()
    else:
        run.backward(next(iter(run.loader())))


def noise_of(run: Any, step: int = 0) -> torch.Tensor:
    zeros = {"weight": torch.zeros(4, dtype=torch.float64)}
    released: torch.Tensor = run._noise.added(zeros, step)["weight"]
    return released


@LOOPS
def test_noise_of_one_sum_differs_between_plans_clips_keys_and_steps(loop: Loop) -> None:
    released = [
        noise_of(loop(plan())),
        noise_of(loop(plan()), step=1),
        noise_of(loop(plan(steps=9))),  # the same batches, the same deviation
        noise_of(loop(plan(), clip=0.5)) * 2.0,
        noise_of(loop(plan(), key=b"o" * 32)),
    ]
    assert len({tuple(value.tolist()) for value in released}) == len(released)
    assert torch.equal(released[0], noise_of(loop(plan())))


class Failing(Ranks):
    """The first of two ranks, which fails when the other one may have the sum already."""

    def check_unchanged(self, made: str) -> None:
        """Nobody joins."""

    def check_same(self, **digests: str) -> None:
        """The other one has the same."""

    def pieces(self, length: int, size: int) -> list[tuple[int, slice]]:
        """All of them."""
        return Ranks().pieces(length, size)

    def summed(self, examples: int, make: Any, like: Any) -> Any:
        """Make the sum, and fail."""
        make()
        raise ConnectionError("the other rank is gone")


@LOOPS
def test_a_step_that_another_rank_may_have_finished_counts(loop: Loop) -> None:
    run = loop(plan())
    advance(run)
    run.ranks = Failing(0, 2)
    with pytest.raises(ConnectionError):
        advance(run)
    assert (run.step, run.begun) == (1, 2)
    assert run.guarantee.mechanism == plan().stopped_after(2)


@LOOPS
def test_what_an_earlier_process_may_have_released_stays_counted(
    loop: Loop, tmp_path: Path
) -> None:
    """It saved itself at step 1 as one that may take 5 steps, and was killed."""
    run = loop(plan())
    advance(run)
    if isinstance(run, Training):
        run.save(tmp_path / "run")
        run._store(5)
        run.close()
        run = loop(plan()).resume(tmp_path / "run")
    else:
        state = {**run.state_dict(), "begun": 5}
        run = loop(plan())
        run.load_state_dict(state)
    assert (run.step, run.begun) == (1, 5)
    run.ranks = Failing(0, 2)
    with pytest.raises(ConnectionError):
        advance(run)
    assert run.begun == 5


def test_an_older_copy_of_a_checkpoint_takes_no_release_back(tmp_path: Path) -> None:
    run = training(plan())
    run.advance()
    run.save(tmp_path / "run")
    run._store(1)
    shutil.copy(tmp_path / "run", tmp_path / "older")
    run.advance()
    run.advance()
    run.close()
    assert run.resume(tmp_path / "older").step == 1
    assert run.begun == 3
    other = training(plan(), key=b"o" * 32)
    other.run(steps=5, progress=False)
    assert other.resume(tmp_path / "older").begun == 1  # it is that run from here on


@LOOPS
def test_counting_again_does_not_make_a_run_another_one(loop: Loop, tmp_path: Path) -> None:
    """It has the key of a run that was counted and may have been released, and must be resumed."""
    ledger = dp.Ledger(tmp_path / "ledger", epsilon=9.0, delta=1e-5)
    counted = loop(plan())
    counted.count_in(ledger, key="run")
    advance(counted)
    again = loop(plan())
    for _ in range(2):
        again.count_in(ledger, key="run")
        with pytest.raises(dp.InvalidArgument, match="key must be a fresh one"):
            advance(again)
    assert again.begun == 0
    counted.count_in(ledger, key="run")
    advance(counted)
    assert len(ledger.entries) == 1


@LOOPS
def test_a_fresh_ledger_does_not_hide_that_another_one_counted_the_run(
    loop: Loop, tmp_path: Path
) -> None:
    old, fresh = (dp.Ledger(tmp_path / name, epsilon=9.0, delta=1e-5) for name in ("old", "fresh"))
    counted = loop(plan())
    counted.count_in(old, key="run")
    advance(counted)
    again = loop(plan())
    again.count_in(fresh, key="run")
    again.count_in(old, key="run")
    with pytest.raises(dp.InvalidArgument, match="key must be a fresh one"):
        advance(again)
    counted.count_in(dp.Ledger(tmp_path / "old"), key="run")  # that file, opened again
    advance(counted)


@LOOPS
def test_a_run_that_began_without_its_ledger_is_found_in_it(loop: Loop, tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "ledger", epsilon=9.0, delta=1e-5)
    counted = loop(plan())
    counted.count_in(ledger, key="run")
    advance(counted)
    again = loop(plan())
    advance(again)
    again.count_in(ledger, key="run")
    with pytest.raises(dp.InvalidArgument, match="key must be a fresh one"):
        advance(again)


@LOOPS
def test_ranks_compare_names_and_values_of_parameters(loop: Loop) -> None:
    """Noise is drawn by name: with another one a rank would release another noisy sum."""

    class Scaled(nn.Module):
        def __init__(self, name: str, value: float) -> None:
            super().__init__()
            self.name = name
            self.register_parameter(name, nn.Parameter(torch.tensor(value)))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            scale: torch.Tensor = getattr(self, self.name)
            return scale * rows.sum(-1, keepdim=True)

    seen = set()
    for name, value in (("a", 1.0), ("b", 1.0), ("a", 2.0), ("a", 1.0)):
        run = loop(plan(), model=Scaled(name, value))
        run.ranks = Ranks(0, 2)
        seen.add(run._parameters_seen)
    assert len(seen) == 3


@LOOPS
def test_no_step_beyond_what_was_counted(loop: Loop) -> None:
    allowed = dp.account(plan().stopped_after(2)).epsilon(delta=1e-5).upper * (1 + 1e-6)
    run = loop(plan())
    assert run.count_in(dp.Budget(epsilon=allowed, delta=1e-5, choice="fixed")) == run.last == 2
    advance(run)
    advance(run)
    refused = dp.BudgetExceeded if isinstance(run, Training) else StopIteration
    with pytest.raises(refused):  # loaders end there
        advance(run)
    assert run.begun == 2


@LOOPS
def test_of_two_budgets_the_smaller_one_decides(loop: Loop) -> None:
    small, large = (
        dp.account(plan().stopped_after(steps)).epsilon(delta=1e-5).upper * (1 + 1e-6)
        for steps in (2, 5)
    )
    run = loop(plan())
    counted = [
        run.count_in(dp.Budget(epsilon=epsilon, delta=1e-5, choice="fixed"))
        for epsilon in (small, large)
    ]
    assert (counted, run.last) == ([2, 5], 2)
