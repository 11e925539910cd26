"""The index batches that frameworks deliver are those of the plan, and pass `audit.sampler`.

Tests are skipped where a framework is not installed: `make test-frameworks` installs all of them.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sharpdp as dp
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.integrations.torch import BatchSampler, loader

pytestmark = pytest.mark.filterwarnings("ignore")  # frameworks warn about each other

KEY = b"k" * 32
PLAN = dp.PoissonBatches(dataset_size=300, batch_size=10, steps=60)
DATA = torch.utils.data.TensorDataset(torch.arange(300))
PLANNED = [batch.tolist() for batch in PLAN.batches(KEY)]


def collate() -> Callable[..., Any]:
    made: Callable[..., Any] = loader(DATA, BatchSampler(PLAN, KEY)).collate_fn
    return made


def check(delivered: list[list[int]]) -> None:
    assert delivered == PLANNED
    assert dp.audit.sampler(batches=delivered, scheme=PLAN).consistent


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_goes_on_where_it_stood(workers: int) -> None:
    """Also if worker processes were ahead of training."""
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")

    def made() -> Any:
        sampler = BatchSampler(PLAN, KEY)
        return torchdata.StatefulDataLoader(
            DATA, batch_sampler=sampler, num_workers=workers, collate_fn=collate()
        )

    first = made()
    batches = iter(first)
    seen = [next(batches)[0].tolist() for _ in range(17)]
    state = first.state_dict()
    second = made()
    second.load_state_dict(state)
    check(seen + [batch[0].tolist() for batch in second])


def test_accelerate_delivers_the_batches_and_refuses_to_share_them_out_again() -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
    prepared = accelerate.Accelerator(cpu=True).prepare(loader(DATA, BatchSampler(PLAN, KEY)))
    check([batch[0].tolist() for batch in prepared])
    with pytest.raises(InvalidArgument, match="as they were drawn"):
        accelerate.data_loader.prepare_data_loader(
            loader(DATA, BatchSampler(PLAN, KEY)), num_processes=2, process_index=0
        )


RUN = dp.DPSGD(PLAN, noise_multiplier=1.0)
ROWS = [{"x": torch.tensor([float(number)]), "labels": torch.tensor(0.0)} for number in range(300)]


class Model(torch.nn.Module):
    """A model with a loss of its own, as transformers have it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"loss": (self.layer(x)[:, 0] - labels).square().mean()}


def loss(model: Any, rows: Any) -> torch.Tensor:
    value: torch.Tensor = model(**rows)["loss"]
    return value


def test_a_loop_of_ones_own_takes_the_batches() -> None:
    run = PrivateGradients(RUN, Model(), loss, ROWS, clip=1.0, key=KEY)
    seen = []
    while run.step < run.last:
        for batch in run.loader():
            run.backward(batch)
            seen.append(batch.numbers.tolist())
    check(seen)


def test_opacus_steps_on_the_batches() -> None:
    from sharpdp.integrations.opacus import make_private

    model = torch.nn.Linear(1, 1)
    data = torch.utils.data.TensorDataset(torch.ones(300, 1), torch.arange(300))
    module, optimizer, batches, engine = make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        plan=RUN,
        data=data,
        max_grad_norm=1.0,
        key=KEY,
    )
    seen = []
    while len(engine.accountant) < PLAN.steps:
        for inputs, numbers in batches:
            optimizer.zero_grad()
            module(inputs).mean().backward()
            optimizer.step()
            seen.append(numbers.tolist())
    check(seen)


def test_the_trainer_of_transformers_trains_on_the_batches(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="make test-frameworks gets it")
    from sharpdp.integrations.huggingface import PrivateTrainer

    seen = []

    class Seen(PrivateTrainer):
        def training_step(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
            seen.append(inputs.numbers.tolist())
            return super().training_step(model, inputs, *rest, **options)

    settings = {"report_to": "none", "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    arguments = transformers.TrainingArguments(str(tmp_path), **settings)
    Seen(Model(), arguments, plan=RUN, clip=1.0, key=KEY, train_dataset=ROWS).train()
    check(seen)


def test_lightning_trains_on_the_batches() -> None:
    lightning = pytest.importorskip("lightning", reason="make test-frameworks gets Lightning")
    from sharpdp.integrations.lightning import PlannedSteps

    run = PrivateGradients(RUN, Model(), loss, ROWS, clip=1.0, key=KEY)

    class Seen(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.network, self.automatic_optimization, self.batches = run.model, False, []

        def training_step(self, batch: Any, _: int) -> None:
            run.backward(batch)
            self.optimizers().step()
            self.batches.append(batch.numbers.tolist())

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    module = Seen()
    lightning.Trainer(
        max_epochs=9,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
        callbacks=[PlannedSteps(run)],
    ).fit(module, run.loader())
    check(module.batches)


def test_grain_delivers_the_batches_and_goes_on_in_constant_time() -> None:
    grain = pytest.importorskip("grain", reason="needs grain")
    from sharpdp.integrations.grain import SchemeDataset

    source = range(300)
    batches = iter(SchemeDataset(source, BatchSampler(PLAN, KEY)))
    seen = [next(batches) for _ in range(17)]
    state = batches.get_state()
    again = iter(SchemeDataset(source, BatchSampler(PLAN, KEY, steps_per_pass=7)))
    again.set_state(state)
    check(seen + list(again))
    doubled = SchemeDataset(source, BatchSampler(PLAN, KEY)).map(lambda rows: [2 * x for x in rows])
    assert next(iter(doubled)) == [2 * x for x in PLANNED[0]]
    once = SchemeDataset(source, BatchSampler(PLAN, KEY))
    with pytest.raises(InvalidArgument, match="more than was accounted for"):
        list(grain.experimental.RepeatIterDataset(once, 2))
    with pytest.raises(InvalidArgument, match="same key"):
        iter(SchemeDataset(source, BatchSampler(PLAN, b"l" * 32))).set_state(state)
    with pytest.raises(InvalidArgument, match="source must hold"):
        SchemeDataset(range(299), BatchSampler(PLAN, KEY))
    with pytest.raises(WrongType, match="sampler"):
        SchemeDataset(source, PLAN)  # type: ignore[arg-type]


def test_jax_privacy_takes_the_batches() -> None:
    jax_privacy = pytest.importorskip(
        "jax_privacy.batch_selection", reason="make test-frameworks gets jax-privacy"
    )
    from sharpdp.integrations.jax_privacy import SchemeSelection

    strategy = SchemeSelection(PLAN, KEY)
    asked = jax_privacy.BatchSelectionStrategy.__abstractmethods__
    assert all(hasattr(strategy, name) for name in asked)
    check([batch.tolist() for batch in strategy.batch_iterator(300)])
    with pytest.raises(InvalidArgument, match="is over"):
        list(strategy.batch_iterator(300))
    with pytest.raises(InvalidArgument, match="num_examples"):
        list(SchemeSelection(PLAN, KEY).batch_iterator(299))
    with pytest.raises(InvalidArgument, match="rng must be None"):
        list(SchemeSelection(PLAN, KEY).batch_iterator(300, rng=np.random.default_rng(0)))


class Numbers:
    """So many records, none of which is held."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, number: int) -> torch.Tensor:
        return torch.tensor([float(number % 7)])


def plain_batches(plan: Any) -> Any:
    return loader(Numbers(plan.dataset_size), BatchSampler(plan, KEY))


def stateful_batches(plan: Any) -> Any:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")
    sampler = BatchSampler(plan, KEY)
    return torchdata.StatefulDataLoader(Numbers(plan.dataset_size), batch_sampler=sampler)


def grain_batches(plan: Any) -> Any:
    pytest.importorskip("grain", reason="needs grain")
    from sharpdp.integrations.grain import SchemeDataset

    return SchemeDataset(Numbers(plan.dataset_size), BatchSampler(plan, KEY))


def jax_batches(plan: Any) -> Any:
    from sharpdp.integrations.jax_privacy import SchemeSelection

    return SchemeSelection(plan, KEY).batch_iterator(plan.dataset_size)


def own_batches(plan: Any) -> Any:
    run = PrivateGradients(
        dp.DPSGD(plan, noise_multiplier=1.0),
        torch.nn.Linear(1, 1),
        lambda model, rows: model(rows).sum(),
        Numbers(plan.dataset_size),
        clip=1.0,
        key=KEY,
    )
    return ((batch, run.backward(batch)) for batch in run.loader())


@pytest.mark.parametrize(
    "batches", [plain_batches, stateful_batches, grain_batches, jax_batches, own_batches]
)
@pytest.mark.parametrize("scheme", ["poisson", "shuffled", "fixed"])
def test_nothing_of_the_size_of_the_data_is_held(
    batches: Callable[[Any], Any], scheme: str
) -> None:
    """A bit for each of 10^9 records would be 119 MB."""

    def plan(size: int) -> Any:
        if scheme == "poisson":
            return dp.PoissonBatches(dataset_size=size, batch_size=100, steps=9)
        if scheme == "shuffled":
            return dp.ShuffledBatches(dataset_size=size, batch_size=100, epochs=1)
        return dp.FixedSizeBatches(dataset_size=size, batch_size=100, steps=9)

    list(islice(batches(plan(1000)), 3))  # what is imported or kept from now on is not counted
    tracemalloc.start()
    try:
        assert len(list(islice(batches(plan(10**9)), 3))) == 3
        held = tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
    assert held < 16.0
