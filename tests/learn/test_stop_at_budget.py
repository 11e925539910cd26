"""Runs that share a budget count their steps in it before the first one, and stop there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import sharpdp as dp
from sharpdp import learn
from sharpdp.budget import counted_rounds
from sharpdp.learn.dpsgd import Training

RUN = dp.DPSGD(dp.PoissonBatches(dataset_size=20, sample_rate=0.25, steps=40), noise_multiplier=4.0)
KEY = b"k" * 32


def training() -> Training:
    torch.manual_seed(0)
    return Training(
        RUN,
        torch.nn.Linear(2, 1),
        lambda output, target: (output - target).square().sum(),
        torch.zeros(20, 2),
        torch.zeros(20, 1),
        clip=1.0,
        learning_rate=0.1,
        key=KEY,
    )


def test_training_stops_where_the_shared_budget_ends(tmp_path: Path) -> None:
    ledger = dp.Ledger(
        tmp_path / "budget.jsonl", epsilon=1.0, delta=1e-5, choice="fixed in advance"
    )
    ledger.add(dp.Gaussian(noise_multiplier=8.0), note="a table")
    run = training().run(budget=ledger, budget_key="first", progress=False)
    assert 0 < run.step < 40
    assert [entry.mechanism for entry in ledger.entries][1] == RUN.stopped_after(run.step)
    assert ledger.total().upper <= 1.0
    assert ledger.would_exceed(RUN.stopped_after(run.step + 1)) or run.step == 40
    before = run.step
    run.run(progress=False)  # no more than was counted, later either
    assert run.step == before
    # a run that starts again under its name is not counted twice
    again = training().run(budget=ledger, budget_key="first", progress=False)
    assert again.step == before
    assert len(ledger.entries) == 2
    with pytest.raises(dp.BudgetExceeded):
        training().run(budget=ledger, budget_key="second", progress=False)
    with pytest.raises(dp.InvalidArgument, match="budget must be given before the run begins"):
        again.run(budget=ledger, progress=False)


def test_clients_stop_where_an_adaptive_budget_ends() -> None:
    ball = learn.PrivUnitBall(dimension=2, local_epsilon=1.0)
    plan = learn.CLDPSGD(randomizer=ball, users=20, population=200, rounds=50)
    budget = dp.Budget(epsilon=0.3, delta=1e-4)
    run = learn.ClientRun(plan, lambda _, numbers: np.zeros((len(numbers), 2)), np.zeros(2), rng=1)
    run.run(budget=budget)
    assert 0 < run.begun < 50
    assert budget.mechanisms == (plan.begun(run.begun),)
    assert budget.would_exceed(plan.begun(1)) or run.begun == 50
    assert run.run().begun == len(range(run.begun))


def test_no_round_is_run_beyond_the_budget_in_any_way() -> None:
    run = training().run(budget=dp.Budget(epsilon=0.5, delta=1e-5), progress=False)
    assert 0 < run.step < 40
    with pytest.raises(dp.BudgetExceeded, match=f"the budget allows {run.step} steps of this run"):
        run.advance()
    ball = learn.PrivUnitBall(dimension=2, local_epsilon=1.0)
    plan = learn.CLDPSGD(randomizer=ball, users=20, population=200, rounds=50)
    clients = learn.ClientRun(plan, lambda _, who: np.zeros((len(who), 2)), np.zeros(2), rng=1)
    clients.run(budget=dp.Budget(epsilon=0.3, delta=1e-4))
    with pytest.raises(dp.BudgetExceeded, match="rounds of this run"):
        clients.step()


def test_blocks_stop_where_the_budget_ends(tmp_path: Path) -> None:
    plan = learn.BlockSGD(
        records=400, blocks=400, epochs=9, local_epsilon=0.5, clip=1.0, dimension=2
    )

    def begun() -> learn.BlockRun:
        return learn.BlockRun(plan, lambda _, who: np.zeros((len(who), 2)), np.zeros(2), rng=1)

    spent = float(dp.account(plan.begun(4)).epsilon(delta=1e-6).upper)
    ledger = dp.Ledger(
        tmp_path / "budget.jsonl", epsilon=1.001 * spent, delta=1e-6, choice="fixed in advance"
    )
    run = begun().run(budget=ledger, budget_key="blocks")
    assert run.begun == 4
    with pytest.raises(dp.BudgetExceeded, match="the budget allows 4 epochs"):
        run.epoch()
    assert begun().run(budget=ledger, budget_key="blocks").begun == 4
    assert len(ledger.entries) == 1
    with pytest.raises(dp.InvalidArgument, match="budget must be given before the run begins"):
        run.run(budget=ledger)


@pytest.mark.parametrize("choice", ["adaptive", "fixed in advance"])
def test_users_with_several_records_stop_a_run_earlier(choice: str) -> None:
    def steps(group_size: int | None) -> int:
        budget = dp.Budget(epsilon=2.0, delta=1e-5, choice=choice, unit="user")
        run = training().run(budget=budget, group_size=group_size, progress=False)
        assert "for one user" in repr(budget)
        return run.step

    assert steps(None) == steps(1) > steps(2) > steps(4) > 0


def test_what_is_no_budget_is_refused() -> None:
    with pytest.raises(dp.InvalidArgument, match="budget must be a Budget or a Ledger; got 3"):
        counted_rounds(3, RUN.stopped_after, 40)  # type: ignore[arg-type]
