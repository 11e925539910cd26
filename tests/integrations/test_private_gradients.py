"""Noisy gradients for any loop: only the next batch of the plan is released, once, and is counted."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Barrier, Thread
from time import sleep
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.integrations.private_gradients import PlannedBatch, PrivateGradients
from sharpdp.integrations.torch import BatchSampler, loader
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.ranks import Ranks

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


def steps_of(run: PrivateGradients) -> list[torch.Tensor]:
    """The released gradients, one vector a step, with the model left as it is."""
    released = []
    while run.step < run.last:
        for batch in run.loader():
            run.backward(batch)
            gradients = [parameter.grad for parameter in run.model.parameters()]
            released.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return released


def nearly_noiseless(batch_size: int) -> dp.DPSGD:
    scheme = dp.PoissonBatches(dataset_size=60, batch_size=batch_size, steps=12)
    return dp.DPSGD(scheme, noise_multiplier=1e-6)


def test_every_step_is_the_clipped_mean_of_its_batch() -> None:
    """As if each example had been clipped by hand; the plan's divisor is 60 / 6."""
    run = made(plan=nearly_noiseless(10))
    released = steps_of(run)
    for batch, found in zip(run.plan.batches.batches(KEY), released, strict=True):
        model, total = linear(), torch.zeros(4)
        for x, y in zip(INPUTS[batch], TARGETS[batch], strict=True):
            model.zero_grad()
            nn.functional.mse_loss(model(x[None]), y[None]).backward()
            one = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
            total += one / max(float(one.norm()), 1.0)
        assert torch.allclose(found, total / 10, atol=1e-5)


def test_a_run_of_the_same_key_is_the_same_model_bit_for_bit() -> None:
    """On one machine: the same shapes are computed."""
    run, other = made(), made()
    train(run)
    train(other)
    assert torch.equal(run.model.weight, other.model.weight)  # type: ignore[arg-type]
    assert torch.equal(run.model.bias, other.model.bias)  # type: ignore[arg-type]


def test_empty_batches_are_steps_with_noise() -> None:
    scheme = dp.PoissonBatches(dataset_size=60, batch_size=1, steps=12)
    run = made(plan=dp.DPSGD(scheme, noise_multiplier=1.5))
    sizes = [len(batch) for batch in scheme.batches(KEY)]
    assert 0 in sizes
    released = steps_of(run)
    assert len(released) == run.step == 12
    assert all(float(step.norm()) > 0.1 for step in released)
    quiet = steps_of(made(plan=nearly_noiseless(1)))
    assert [float(step.norm()) < 1e-4 for step in quiet] == [size == 0 for size in sizes]


class Stubborn(nn.Linear):
    """A linear layer of which torch cannot compute many examples at once."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if rows.sum().item() > 1e9:
            raise ValueError("never")
        return super().forward(rows)


def test_models_that_cannot_be_mapped_get_the_same_gradients() -> None:
    torch.manual_seed(1)
    plan = nearly_noiseless(10)
    stubborn, plain = made(Stubborn(3, 1), plan), made(plan=plan)
    assert type(stubborn.gradients) is not type(plain.gradients)
    for one, other in zip(steps_of(stubborn), steps_of(plain), strict=True):
        assert torch.allclose(one, other, atol=1e-5)


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


def test_threads_release_a_batch_once() -> None:
    run = made()
    batches, together, refused = list(run.loader()), Barrier(4), []
    take = run.gradients.sum

    def slow(*rows: torch.Tensor, **options: Any) -> Any:
        total = take(*rows, **options)
        sleep(0.1)
        return total

    object.__setattr__(run.gradients, "sum", slow)

    def release() -> None:
        together.wait()
        try:
            run.backward(batches[0])
        except dp.InvalidArgument as refusal:
            refused.append(str(refusal))

    threads = [Thread(target=release) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.step == 1
    assert len(refused) == 3
    assert all("step 1 of the plan" in words for words in refused)


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


def test_a_run_is_counted_by_its_key(tmp_path: Path) -> None:
    ledger = dp.Ledger(tmp_path / "budget.jsonl", epsilon=100.0, delta=1e-5, adjacency="zero-out")
    first = made(budget=ledger, budget_key="run")
    first.backward(next(iter(first.loader())))
    again = made(budget=ledger, budget_key="run")
    assert again.last == 12
    assert len(ledger.entries) == 1
    with pytest.raises(dp.InvalidArgument, match=r"begins anew.*Nothing was released"):
        again.backward(next(iter(again.loader())))
    again.load_state_dict(first.state_dict())
    again.backward(next(iter(again.loader())))
    assert again.step == 2
    for key in (None, b"l" * 32):
        with pytest.raises(dp.InvalidArgument, match="Resume it, or choose another name"):
            made(key=key, budget=ledger, budget_key="run")
    made(key=None, budget=ledger, budget_key="another")
    assert len(ledger.entries) == 2


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


def test_an_optimizer_that_is_guarded_takes_released_gradients_only() -> None:
    run = made()
    beside = nn.Linear(3, 1)
    optimizer = torch.optim.SGD([*run.model.parameters(), *beside.parameters()], lr=0.1)
    handle = run.guard(optimizer)
    batches = iter(run.loader())
    run.backward(next(batches))
    optimizer.step()
    optimizer.step(lambda: 0.0)
    before = run.model.weight.detach().clone()  # type: ignore[union-attr,operator]

    def raw() -> float:
        squared(run.model, (INPUTS, TARGETS)).backward()
        return 0.0

    for step in (partial(optimizer.step, raw), partial(optimizer.step, closure=raw)):
        run.backward(next(batches))
        with pytest.raises(dp.InvalidArgument, match="got others for 'weight'"):
            step()
    run.backward(next(batches))
    squared(beside, (INPUTS, TARGETS)).backward()
    with pytest.raises(dp.InvalidArgument, match="a parameter outside of the model"):
        optimizer.step()
    assert torch.equal(run.model.weight, before)  # type: ignore[arg-type]
    handle.remove()
    optimizer.step()
    with pytest.raises(WrongType, match="optimizer must be"):
        run.guard(run.model)  # type: ignore[arg-type]


ROWS = [torch.tensor([1 + number % 9, 2]) for number in range(8)]


def filled_up(rows: list[torch.Tensor]) -> torch.Tensor:
    """As long as the longest of the batch, as collators of text do."""
    return nn.utils.rnn.pad_sequence(rows, batch_first=True)


class MeanOfTokens(nn.Module):
    """Takes what is filled up for tokens, as a model without a mask does."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.layer = nn.Embedding(10, 4), nn.Linear(4, 1)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layer(self.words(tokens).mean(1)).squeeze(1)


def released_sum(rows: list[torch.Tensor], **options: Any) -> torch.Tensor:
    """The sum of one whole batch, nearly without noise, in units of the clip."""
    scheme = dp.DeterministicBatches(dataset_size=len(rows), batch_size=len(rows), epochs=1)
    model = MeanOfTokens()
    run = PrivateGradients(
        dp.DPSGD(scheme, noise_multiplier=1e-6),
        model,
        lambda model, tokens: model(tokens).square().mean(),
        rows,
        clip=0.01,
        key=KEY,
        **options,
    )
    (batch,) = run.loader()
    run.backward(batch)
    gradients = [value.grad.flatten() for value in model.parameters()]
    return torch.cat(gradients) * len(rows) / 0.01


def test_a_long_record_does_not_move_the_gradients_of_others() -> None:
    """One record instead of another moves the sum by two clips at most; filled up it was five."""
    for size in (1, 256):
        sums = [
            released_sum(
                [*ROWS, torch.ones(length, dtype=torch.long)],
                collate=filled_up,
                physical_batch_size=size,
            )
            for length in (1, 50)
        ]
        assert 0.0 < float((sums[0] - sums[1]).norm()) <= 2.0 + 1e-4
    same = released_sum(ROWS, collate=filled_up)
    assert torch.allclose(same, released_sum(ROWS), atol=1e-4)


def test_a_collate_function_cannot_mix_examples() -> None:
    def centered(rows: list[torch.Tensor]) -> torch.Tensor:
        together = torch.stack(rows)
        return together - together[0]

    assert torch.allclose(
        released_sum(ROWS, collate=centered),
        released_sum([torch.zeros(2, dtype=torch.long)] * 8),
        atol=1e-4,
    )


class Remembers(Stubborn):
    """Keeps a mean of what it saw in a buffer, which is part of the model that is handed on."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__(3, 1)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("last", torch.zeros(3))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.seen.mul_(0.9).add_(0.1 * rows.mean(0))  # type: ignore[operator,union-attr]
        self.last = rows[0].detach()
        return super().forward(rows)


def test_buffers_do_not_carry_data_out_of_a_run() -> None:
    run = made(Remembers())
    train(run)
    assert not run.model.seen.any()  # type: ignore[operator,union-attr]
    assert not run.model.last.any()  # type: ignore[operator,union-attr]


class Recurrent(nn.Module):
    """Goes on from the hidden values of the example before."""

    def __init__(self, stubborn: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.hidden, self.stubborn = nn.Linear(3, 1), torch.zeros(1, 1), stubborn

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if self.stubborn and rows.sum().item() > 1e9:
            raise ValueError("never")
        self.hidden = torch.tanh(self.layer(rows) + 0.9 * self.hidden).detach()
        return torch.as_tensor(self.layer(rows) * (1.0 + self.hidden))


@pytest.mark.parametrize("stubborn", [False, True])
def test_models_that_carry_a_state_from_example_to_example_are_refused(stubborn: bool) -> None:
    with pytest.raises(dp.InvalidArgument, match="Keep no state"):
        made(Recurrent(stubborn))
    if not stubborn:
        with pytest.raises(dp.InvalidArgument, match="Keep no state"):
            Training(PLAN, Recurrent(False), nn.MSELoss(), INPUTS, TARGETS, clip=1.0)
    random_layers = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Softplus(), nn.Linear(8, 1))
    made(random_layers)  # draws, and keeps nothing


def test_a_record_at_two_indices_is_refused() -> None:
    doubled = torch.utils.data.Subset(DATA, [*range(59), 0])
    with pytest.raises(dp.SharpDPError, match="record more than once"):
        PrivateGradients(PLAN, linear(), squared, doubled, clip=1.0)
    with pytest.raises(dp.SharpDPError, match="record more than once"):
        loader(doubled, BatchSampler(PLAN.batches))


def test_a_run_that_was_made_before_the_other_ranks_came_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = made()
    batch = next(iter(run.loader()))
    monkeypatch.setattr(Ranks, "of_process", classmethod(lambda cls: cls(0, 2)))
    with pytest.raises(dp.InvalidArgument, match="1 ranks when it was made and 2 now"):
        run.backward(batch)
    assert run.step == 0


def test_a_step_that_other_ranks_may_have_finished_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    run = made()
    batches = iter(run.loader())
    run.backward(next(batches))

    def lost(*_: Any) -> Any:
        raise RuntimeError("connection closed by peer")

    with monkeypatch.context() as patched:
        patched.setattr(Ranks, "of_process", classmethod(lambda cls: cls(0, 2)))
        patched.setattr(Ranks, "summed", lost)
        run.ranks = Ranks(0, 2)
        with pytest.raises(RuntimeError, match="closed"):
            run.backward(next(batches))
    assert (run.step, run.begun) == (1, 2)
    assert run.guarantee.mechanism == PLAN.stopped_after(2)
    resumed = made()
    resumed.load_state_dict(run.state_dict())
    assert (resumed.step, resumed.begun) == (1, 2)
    with pytest.raises(dp.InvalidArgument, match="begun"):
        made().load_state_dict({**run.state_dict(), "begun": 13})


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
