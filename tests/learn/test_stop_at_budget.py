"""Runs that share a budget count their steps in it before the first one, and stop there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sharpdp as dp
from sharpdp import learn
from sharpdp.budget import counted_rounds
from sharpdp.learn.dpsgd import Training

RUN = dp.DPSGD(dp.PoissonBatches(dataset_size=20, sample_rate=0.25, steps=40), noise_multiplier=4.0)
KEY = b"k" * 32


def training(key: bytes | None = KEY, scale: float = 0.0) -> Training:
    torch.manual_seed(0)
    return Training(
        RUN,
        torch.nn.Linear(2, 1),
        lambda output, target: (output - target).square().sum(),
        torch.full((20, 2), scale),
        torch.zeros(20, 1),
        clip=1.0,
        learning_rate=0.1,
        key=key,
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
    run.run(budget=ledger, budget_key="first", progress=False)  # is not counted twice
    assert run.step == before
    assert len(ledger.entries) == 2
    with pytest.raises(dp.BudgetExceeded):
        training(b"l" * 32).run(budget=ledger, budget_key="second", progress=False)
    with pytest.raises(dp.InvalidArgument, match=r"key must be 'first'.*got None"):
        run.run(budget=ledger, progress=False)
    late = training(b"m" * 32).run(steps=1, progress=False)
    for name in (None, "third"):  # steps that no ledger has counted
        with pytest.raises(dp.InvalidArgument, match="budget must be given before the run begins"):
            late.run(budget=ledger, budget_key=name, progress=False)


def wide(folder: Path) -> dp.Ledger:
    return dp.Ledger(folder / "budget.jsonl", epsilon=100.0, delta=1e-5, choice="fixed in advance")


REFUSED = r"key must be new for another run.*Resume it, or choose another name\."


def test_every_new_run_is_counted_whatever_it_is_called(tmp_path: Path) -> None:
    ledger = wide(tmp_path)
    training(None).run(budget=ledger, budget_key="my-run", progress=False)
    for other in (training(None), training(KEY)):
        with pytest.raises(dp.InvalidArgument, match=REFUSED):
            other.run(budget=ledger, budget_key="my-run", progress=False)
        assert other.step == 0
    assert len(ledger.entries) == 1
    for number in range(2):
        training(None).run(budget=ledger, budget_key=f"run {number}", progress=False)
    assert (
        ledger.total().upper >= dp.account(RUN * 3, adjacency="zero-out").epsilon(delta=1e-5).lower
    )


def test_a_run_on_other_data_is_another_run(tmp_path: Path) -> None:
    ledger = wide(tmp_path)
    training().run(budget=ledger, budget_key="first", progress=False)
    with pytest.raises(dp.InvalidArgument, match=REFUSED):
        training(scale=1.0).run(budget=ledger, budget_key="first", progress=False)


def test_two_runs_do_not_draw_the_same_batches(tmp_path: Path) -> None:
    """One key, two data sets: other sums with fresh noise, over the same batches."""
    ledger = wide(tmp_path)
    training().run(budget=ledger, budget_key="first", progress=False)
    other = training(scale=1.0)
    with pytest.raises(dp.InvalidArgument, match=r"got that of release 1.*dp\.SameBatches"):
        other.run(budget=ledger, budget_key="second", progress=False)
    assert (other.step, len(ledger.entries)) == (0, 1)
    training(b"l" * 32, scale=1.0).run(budget=ledger, budget_key="second", progress=False)
    assert len(dp.Ledger(ledger.path).entries) == 2


def test_a_run_keeps_its_name(tmp_path: Path) -> None:
    ledger = wide(tmp_path)
    training().run(budget=ledger, budget_key="first", progress=False)
    for name in ("second", None):
        with pytest.raises(dp.InvalidArgument, match=r"key must be 'first'.*Resume it under that"):
            training().run(budget=ledger, budget_key=name, progress=False)
    unnamed = training(b"u" * 32).run(steps=3, budget=ledger, progress=False)
    unnamed.run(budget=ledger, progress=False)  # the same object goes on
    with pytest.raises(dp.InvalidArgument, match="key must be given for a run that was counted"):
        training(b"u" * 32).run(budget=ledger, progress=False)
    assert len(ledger.entries) == 2


def test_a_resumed_run_is_counted_once(tmp_path: Path) -> None:
    ledger, file = wide(tmp_path), tmp_path / "checkpoint"
    first = training(None)
    first.run(steps=5, budget=ledger, budget_key="run", checkpoint=file, progress=False)
    first.close()
    again = training(None)
    again.resume(file)
    again.run(budget=ledger, budget_key="run", progress=False)
    assert (again.step, len(ledger.entries)) == (40, 1)
    with pytest.raises(dp.InvalidArgument, match="group_size must be 1"):
        training_from(file).run(budget=ledger, budget_key="run", group_size=4, progress=False)


def training_from(file: Path) -> Training:
    made = training(None)
    made.resume(file)
    return made


def test_two_runs_of_one_name_at_the_same_time_are_not_one(tmp_path: Path) -> None:
    ledger, other = wide(tmp_path), b"o" * 32
    asked: list[int] = []

    def begun(rounds: int) -> dp.Mechanism:
        if not asked:  # after the name was looked for, before it is written
            asked.append(rounds)
            counted_rounds(dp.Ledger(ledger.path), RUN.stopped_after, 40, key="run", run=other)
        return RUN.stopped_after(rounds)

    with pytest.raises(dp.InvalidArgument, match=REFUSED):
        counted_rounds(ledger, begun, 40, key="run", run=KEY)
    assert len(ledger.entries) == 1


def test_a_ledger_that_knows_no_fingerprint_takes_a_resumed_run_by_its_name(tmp_path: Path) -> None:
    ledger = wide(tmp_path)
    ledger.add(RUN, key="run")  # as earlier versions counted it
    with pytest.raises(dp.InvalidArgument, match=REFUSED):
        counted_rounds(ledger, RUN.stopped_after, 40, key="run", run=KEY)
    assert counted_rounds(ledger, RUN.stopped_after, 40, key="run", run=KEY, done=3) == 40
    # without anything that tells runs apart, a name stands for a run that goes on
    with pytest.raises(dp.InvalidArgument, match=REFUSED):
        counted_rounds(ledger, RUN.stopped_after, 40, key="run")
    assert counted_rounds(ledger, RUN.stopped_after, 40, key="run", done=3) == 40
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("kind", ["clients", "blocks"])
def test_clients_and_blocks_are_counted_by_the_run_of_their_journal(
    kind: str, tmp_path: Path
) -> None:
    ledger, path = wide(tmp_path), tmp_path / "run"
    begun = {"clients": client_run, "blocks": block_run}[kind]
    run = begun(path, resumed=False)
    run.run(2, budget=ledger, budget_key=kind)
    run.close()
    begun(path, resumed=True).run(budget=ledger, budget_key=kind)
    assert len(ledger.entries) == 1
    for _ in range(2):
        with pytest.raises(dp.InvalidArgument, match=REFUSED):
            begun(None, resumed=False).run(budget=ledger, budget_key=kind)


def zeros(_: object, who: object) -> np.ndarray[Any, Any]:
    return np.zeros((len(who), 2))  # type: ignore[arg-type]


def client_run(path: Path | None, *, resumed: bool) -> Any:
    ball = learn.PrivUnitBall(dimension=2, local_epsilon=1.0)
    plan = learn.CLDPSGD(randomizer=ball, users=20, population=200, rounds=5)
    if resumed:
        return learn.ClientRun.resumed(plan, zeros, path=path)
    return learn.ClientRun(plan, zeros, np.zeros(2), path=path)


def block_run(path: Path | None, *, resumed: bool) -> Any:
    plan = learn.BlockSGD(records=40, blocks=40, epochs=5, local_epsilon=0.5, clip=1.0, dimension=2)
    return learn.BlockRun(plan, zeros, None if resumed else np.zeros(2), path=path)


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


@pytest.mark.parametrize("kind", ["clients", "blocks"])
def test_of_two_budgets_the_smaller_one_decides(kind: str) -> None:
    start, none = np.zeros(2), lambda _, who: np.zeros((len(who), 2))
    run: Any
    if kind == "clients":
        ball = learn.PrivUnitBall(dimension=2, local_epsilon=1.0)
        clients = learn.CLDPSGD(randomizer=ball, users=20, population=200, rounds=9)
        run = learn.ClientRun(clients, none, start, rng=1)
    else:
        sizes = {"records": 40, "blocks": 10, "epochs": 9, "dimension": 2}
        blocks = learn.BlockSGD(**sizes, local_epsilon=1.0, clip=1.0)  # type: ignore[arg-type]
        run = learn.BlockRun(blocks, none, start, rng=1)
    for rounds in (2, 5):
        cost = dp.account(run.plan.begun(rounds)).epsilon(delta=1e-5).upper
        budget = dp.Budget(epsilon=cost * (1 + 1e-6), delta=1e-5, choice="fixed")
        run.run(0, budget=budget)
    assert run.run().begun == 2


def test_blocks_stop_where_the_budget_ends(tmp_path: Path) -> None:
    plan = learn.BlockSGD(
        records=400, blocks=400, epochs=9, local_epsilon=0.5, clip=1.0, dimension=2
    )

    def begun(start: Any) -> learn.BlockRun:
        path = tmp_path / "run"
        return learn.BlockRun(plan, zeros, start, path=path, rng=1)

    spent = float(dp.account(plan.begun(4)).epsilon(delta=1e-6).upper)
    ledger = dp.Ledger(
        tmp_path / "budget.jsonl", epsilon=1.001 * spent, delta=1e-6, choice="fixed in advance"
    )
    run = begun(np.zeros(2)).run(budget=ledger, budget_key="blocks")
    assert run.begun == 4
    with pytest.raises(dp.BudgetExceeded, match="the budget allows 4 epochs"):
        run.epoch()
    assert begun(None).run(budget=ledger, budget_key="blocks").begun == 4
    assert len(ledger.entries) == 1
    with pytest.raises(dp.InvalidArgument, match="key must be 'blocks'"):
        run.run(budget=ledger)
    with pytest.raises(dp.InvalidArgument, match="budget must be given before the run begins"):
        run.run(budget=dp.Budget(epsilon=1.0, delta=1e-6))


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


def test_a_run_that_begins_anew_with_its_key_is_not_the_one_that_was_counted(
    tmp_path: Path,
) -> None:
    """With another learning rate it has other sums after its first step, over the same batches."""
    ledger = wide(tmp_path)
    key = b"k" * 32
    training(key).run(budget=ledger, budget_key="run", progress=False)
    refusals = {"run": "a fresh one for a run that begins anew", "another": "key must be 'run'"}
    for name, words in refusals.items():
        other = training(key)
        with pytest.raises(dp.InvalidArgument, match=words):
            other.run(budget=ledger, budget_key=name, progress=False)
        assert other.step == 0
    assert len(ledger.entries) == 1
    once = training(b"l" * 32)
    once.run(steps=3, budget=ledger, budget_key="other", progress=False)
    once.run(budget=ledger, budget_key="other", progress=False)
    assert (once.step, len(ledger.entries)) == (40, 2)
