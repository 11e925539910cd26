"""Noisy gradients for any loop: only the next batch of the plan is released, once, and is counted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.integrations.private_gradients import PlannedBatch, PrivateGradients
from sharpdp.learn.dpsgd import Training

KEY = b"k" * 32
SIZES = {"dataset_size": 60, "batch_size": 10, "epochs": 2}
PLAN = dp.DPSGD(dp.PoissonBatches(**SIZES), noise_multiplier=1.5)
torch.manual_seed(0)
INPUTS, TARGETS = torch.randn(60, 3), torch.randn(60, 1)
DATA = TensorDataset(INPUTS, TARGETS)


def squared(model: nn.Module, rows: Any) -> torch.Tensor:
    return nn.functional.mse_loss(model(rows[0]), rows[1])


def linear() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(3, 1)


def made(model: nn.Module | None = None, plan: dp.DPSGD = PLAN, **options: Any) -> PrivateGradients:
    settings = {"clip": 1.0, "key": KEY, **options}
    return PrivateGradients(plan, model or linear(), squared, DATA, **settings)


def train(run: PrivateGradients, epochs: int = 2, **options: Any) -> list[list[int]]:
    """The batches that were released, by plain SGD on passes over a loader."""
    optimizer, seen = torch.optim.SGD(run.model.parameters(), lr=0.1), []
    for _ in range(epochs):
        for batch in run.loader(**options):
            run.backward(batch)
            optimizer.step()
            seen.append(batch.numbers.tolist())
    return seen


@pytest.mark.parametrize(
    "scheme",
    [
        dp.PoissonBatches(**SIZES),
        dp.BallsAndBins(**SIZES),
        dp.ShuffledBatches(**SIZES),
        dp.DeterministicBatches(**SIZES),
        dp.RandomAllocation(dataset_size=60, steps=12, participations=2),
        dp.FixedSizeBatches(dataset_size=60, batch_size=10, steps=12),
    ],
    ids=lambda scheme: scheme.label,
)
def test_every_scheme_is_what_is_trained_on_and_accounted(scheme: Any) -> None:
    run = made(plan=dp.DPSGD(scheme, noise_multiplier=1.5))
    seen: list[list[int]] = []
    while run.step < run.last:
        seen += train(run, 1)
    assert seen == [batch.tolist() for batch in scheme.batches(KEY)]
    assert run.guarantee.mechanism == run.plan
    assert run.guarantee.adjacency is dp.Adjacency.ZERO_OUT
    with pytest.raises(dp.InvalidArgument, match="is over"):
        iter(run.loader())


def test_it_is_training_step_by_step() -> None:
    """The same key gives the model of `Training` bit for bit."""
    run = made()
    train(run)
    other = linear()
    Training(PLAN, other, nn.MSELoss(), INPUTS, TARGETS, clip=1.0, key=KEY).run(progress=False)
    assert torch.equal(run.model.weight, other.weight)  # type: ignore[arg-type]
    assert torch.equal(run.model.bias, other.bias)  # type: ignore[arg-type]


def test_empty_batches_are_steps_with_noise() -> None:
    scheme = dp.PoissonBatches(dataset_size=60, batch_size=1, steps=12)
    run = made(plan=dp.DPSGD(scheme, noise_multiplier=1.5))
    seen = train(run, 1)
    assert [] in seen
    assert len(seen) == run.step == 12
    other = linear()
    Training(run.plan, other, nn.MSELoss(), INPUTS, TARGETS, clip=1.0, key=KEY).run(progress=False)
    assert torch.equal(run.model.weight, other.weight)  # type: ignore[arg-type]


class Stubborn(nn.Linear):
    """A linear layer of which torch cannot compute many examples at once."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if rows.sum().item() > 1e9:
            raise ValueError("never")
        return super().forward(rows)


def test_models_that_cannot_be_mapped_get_the_same_gradients() -> None:
    torch.manual_seed(1)
    stubborn, plain = made(Stubborn(3, 1)), made()
    assert type(stubborn.gradients) is not type(plain.gradients)
    train(stubborn)
    train(plain)
    assert torch.allclose(stubborn.model.weight, plain.model.weight, atol=1e-6)  # type: ignore[arg-type]


def test_a_loss_that_mixes_a_batch_is_seen_by_one_example_at_a_time() -> None:
    """A mean over the tokens of a batch would make every gradient depend on all others."""
    tokens = torch.zeros(4, 6)
    tokens[0] = 1.0  # one long record
    tokens[1:, 0] = 1.0
    plan = dp.DPSGD(
        dp.DeterministicBatches(dataset_size=4, batch_size=4, epochs=1), noise_multiplier=1e-9
    )
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)

    def loss(model: nn.Module, rows: Any) -> torch.Tensor:
        mask = rows[0]
        return (0.5 * model(mask[..., None]).squeeze(-1) * mask).sum() / mask.sum()

    run = PrivateGradients(plan, model, loss, TensorDataset(tokens), clip=1.0, key=KEY)
    (batch,) = run.loader()
    run.backward(batch)
    assert float(model.weight.grad) == pytest.approx(0.5, abs=1e-5)  # type: ignore[arg-type]


def test_any_batch_but_the_next_one_is_refused_and_nothing_is_released() -> None:
    run = made()
    batches = list(run.loader())
    others = {
        "skipped": batches[1],
        "partial": PlannedBatch(
            batches[0].numbers[:-1], [rows[:-1] for rows in batches[0].examples]
        ),
        "doubled": PlannedBatch(
            batches[0].numbers.repeat(2), [rows.repeat(2, 1) for rows in batches[0].examples]
        ),
        "reordered": PlannedBatch(
            batches[0].numbers.flip(0), [rows.flip(0) for rows in batches[0].examples]
        ),
    }
    for name, other in others.items():
        with pytest.raises(dp.InvalidArgument, match="step 0 of the plan"):
            run.backward(other)
        assert run.step == 0, name
        assert run.model.weight.grad is None
    packed = [rows.reshape(1, -1) for rows in batches[0].examples]
    with pytest.raises(dp.InvalidArgument, match="a row for each"):
        run.backward(PlannedBatch(batches[0].numbers, packed))
    with pytest.raises(WrongType, match="batch must be"):
        run.backward(batches[0].examples)  # type: ignore[arg-type]
    run.backward(batches[0])
    with pytest.raises(dp.InvalidArgument, match="step 1 of the plan"):
        run.backward(batches[0])
    assert run.step == 1


def test_batches_that_were_loaded_ahead_come_again() -> None:
    run = made()
    first = iter(run.loader(num_workers=1))
    run.backward(next(first))
    del first  # with two batches in the queue
    assert [run.step, *map(len, train(run))] == [1, *map(len, list(PLAN.batches.batches(KEY))[1:])]


def test_a_resumed_run_goes_on_and_one_that_is_beyond_a_state_does_not() -> None:
    whole, first = made(), made()
    train(whole)
    early = first.state_dict()
    batches = iter(first.loader())
    optimizer = torch.optim.SGD(first.model.parameters(), lr=0.1)
    for _ in range(4):
        first.backward(next(batches))
        optimizer.step()
    with pytest.raises(dp.InvalidArgument, match="released"):
        first.load_state_dict(early)
    second = made(first.model)
    second.load_state_dict(first.state_dict())
    assert len(second.loader()) == 6  # of a pass, of which two batches are left
    train(second)
    assert second.step == 12
    assert torch.equal(second.model.weight, whole.model.weight)  # type: ignore[arg-type]
    assert second.epsilon(delta=1e-5) == whole.epsilon(delta=1e-5)
    for other in (
        made(key=b"l" * 32),
        made(clip=2.0),
        made(plan=dp.DPSGD(PLAN.batches, noise_multiplier=2.0)),
    ):
        with pytest.raises(dp.InvalidArgument, match="state must"):
            other.load_state_dict(first.state_dict())
    with pytest.raises(WrongType, match="state"):
        second.load_state_dict({})


def test_a_budget_ends_the_run() -> None:
    budget = dp.Budget(epsilon=2.0, delta=1e-5, adjacency="zero-out")
    run = made(budget=budget)
    assert 0 < run.last < 12
    assert len(train(run)) == run.last == run.step
    assert float(run.epsilon(delta=1e-5).upper) <= 2.0
    run.sampler.stop_after(12)
    with pytest.raises(dp.BudgetExceeded, match="allows"):
        run.backward(next(iter(run.loader())))
    with pytest.raises(dp.BudgetExceeded):
        made(budget=budget)


def test_gradients_of_something_else_are_noticed() -> None:
    run = made()
    run.backward(next(iter(run.loader())))
    run.check_gradients()
    squared(run.model, (INPUTS, TARGETS)).backward()
    with pytest.raises(dp.InvalidArgument, match=r"no loss\.backward"):
        run.check_gradients()
    run.model.zero_grad()
    squared(run.model, (INPUTS, TARGETS)).backward()
    with pytest.raises(dp.InvalidArgument, match="weight"):
        run.check_gradients()


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(dp.InvalidArgument, match="dataset_size = 60"):
        PrivateGradients(PLAN, linear(), squared, TensorDataset(INPUTS[:9], TARGETS[:9]), clip=1.0)
    with pytest.raises(WrongType, match="plan must be a DPSGD"):
        made(plan=PLAN.batches)  # type: ignore[arg-type]
    with pytest.raises(WrongType, match="loss must"):
        PrivateGradients(PLAN, linear(), None, DATA, clip=1.0)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match="shuffle"):
        made().loader(shuffle=True)
    with pytest.raises(dp.InvalidArgument, match="no step"):
        made().epsilon(delta=1e-5)
    with pytest.raises(TypeError, match="clip="):
        made(clipping=1.0)
    with pytest.raises(dp.InvalidArgument, match="dataset_size"):
        made(plan=dp.DPSGD(dp.PoissonBatches(sample_rate=0.1, steps=3), noise_multiplier=1.0))
    with pytest.raises(dp.SharpDPError, match="one number"):
        PrivateGradients(PLAN, linear(), lambda model, rows: rows[0], DATA, clip=1.0)
