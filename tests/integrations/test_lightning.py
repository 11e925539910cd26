"""Lightning runs the plan and nothing else: `make test-frameworks` installs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.integrations.private_gradients import PrivateGradients

pytestmark = pytest.mark.filterwarnings("ignore")  # frameworks warn about each other

lightning = pytest.importorskip("lightning", reason="make test-frameworks gets Lightning")

from sharpdp.integrations.lightning import PlannedSteps  # noqa: E402

KEY = b"k" * 32
SCHEME = dp.BallsAndBins(dataset_size=120, batch_size=8, epochs=3)  # 15 steps an epoch
PLAN = dp.DPSGD(SCHEME, noise_multiplier=1.0)
PLANNED = [batch.tolist() for batch in SCHEME.batches(KEY)]
INPUTS = torch.arange(120.0)[:, None] / 100.0
DATA = torch.utils.data.TensorDataset(INPUTS, (INPUTS > 0.6).float())


def logistic(model: nn.Module, rows: Any) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(model(rows[0]), rows[1])


def made(**options: Any) -> PrivateGradients:
    torch.manual_seed(0)
    settings = {"clip": 1.0, "key": KEY, **options}
    return PrivateGradients(PLAN, nn.Linear(1, 1), logistic, DATA, **settings)


class Private(lightning.LightningModule):  # type: ignore[misc]
    """One release for each batch; `how` says what else it does."""

    def __init__(self, run: PrivateGradients, how: str = "") -> None:
        super().__init__()
        self.network, self.released, self.how = run.model, run, how
        self.automatic_optimization = how == "automatic"
        self.delivered: list[list[int]] = []
        self.head = nn.Linear(1, 1) if how == "beside" else None

    def training_step(self, batch: Any, _: int) -> None:
        optimizer = self.optimizers()
        if self.how not in ("plain", "unreleased"):
            self.released.backward(batch)
        if self.how in ("plain", "added"):
            logistic(self.network, batch.examples).backward()
        if self.how == "twice":
            self.released.backward(batch)
        if self.how == "raw":
            logistic(self.network, batch.examples).backward()
            optimizer = self.optimizers(use_pl_optimizer=False)
        if self.head is not None:
            logistic(self.head, batch.examples).backward()
        if self.how == "closure":
            optimizer.step(lambda: logistic(self.network, batch.examples).backward())
        optimizer.step()
        self.delivered.append(batch.numbers.tolist())

    def validation_step(self, batch: Any, _: int) -> None:
        logistic(self.network, batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trainer(run: PrivateGradients, folder: Path, **options: Any) -> Any:
    settings = {
        "max_epochs": 10,
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        "default_root_dir": str(folder),
        "callbacks": [PlannedSteps(run)],
    }
    return lightning.Trainer(**{**settings, **options})


def weights(run: PrivateGradients) -> list[float]:
    return [*run.model.weight.flatten().tolist(), *run.model.bias.tolist()]  # type: ignore[union-attr,operator]


@pytest.mark.parametrize("workers", [0, 2])
def test_lightning_delivers_the_batches_of_the_plan_and_ends_with_it(
    tmp_path: Path, workers: int
) -> None:
    run = made()
    module = Private(run)
    trainer(run, tmp_path).fit(module, run.loader(num_workers=workers))
    assert module.delivered == PLANNED
    assert dp.audit.sampler(batches=module.delivered, scheme=SCHEME).consistent
    assert run.step == 45
    assert run.guarantee.mechanism == PLAN


def test_validation_and_short_epochs_change_nothing(tmp_path: Path) -> None:
    run, plain = made(), made()
    module = Private(run)
    other = torch.utils.data.DataLoader(DATA, batch_size=7, shuffle=True)
    options = {"val_check_interval": 2, "limit_train_batches": 4, "num_sanity_val_steps": 2}
    trainer(run, tmp_path, max_epochs=30, **options).fit(module, run.loader(num_workers=1), other)
    trainer(plain, tmp_path).fit(Private(plain), plain.loader())
    assert module.delivered == PLANNED
    assert weights(run) == weights(plain)


@pytest.mark.parametrize("after", [15, 20])
def test_a_resumed_run_goes_on_with_what_is_left(tmp_path: Path, after: int) -> None:
    whole, first, second = made(), made(), made()
    trainer(whole, tmp_path).fit(Private(whole), whole.loader())
    begun = trainer(first, tmp_path, max_steps=after)
    seen = Private(first)
    begun.fit(seen, first.loader(num_workers=2))
    assert first.step == after
    begun.save_checkpoint(tmp_path / "run.ckpt")
    assert KEY not in (tmp_path / "run.ckpt").read_bytes()
    resumed = Private(second)
    trainer(second, tmp_path).fit(resumed, second.loader(), ckpt_path=str(tmp_path / "run.ckpt"))
    assert seen.delivered + resumed.delivered == PLANNED
    assert second.step == 45
    assert weights(second) == weights(whole)
    other = made(key=b"l" * 32)
    with pytest.raises(dp.InvalidArgument, match="same key"):
        trainer(other, tmp_path).fit(
            Private(other), other.loader(), ckpt_path=str(tmp_path / "run.ckpt")
        )
    with pytest.raises(dp.InvalidArgument, match="released"):
        trainer(second, tmp_path).fit(
            Private(second), second.loader(), ckpt_path=str(tmp_path / "run.ckpt")
        )


def test_a_budget_stops_lightning(tmp_path: Path) -> None:
    budget = dp.Budget(epsilon=2.0, delta=1e-5, adjacency="zero-out", choice="fixed in advance")
    run = made(budget=budget)
    trainer(run, tmp_path).fit(Private(run), run.loader())
    assert 0 < run.step == run.last < 45
    assert float(run.epsilon(delta=1e-5).upper) <= 2.0


@pytest.mark.parametrize(
    ("options", "how", "message"),
    [
        ({"use_distributed_sampler": True}, "", "use_distributed_sampler"),
        ({"accumulate_grad_batches": 2}, "automatic", "automatic_optimization"),
        ({"overfit_batches": 2}, "", "overfit_batches"),
        ({}, "automatic", "automatic_optimization"),
        ({}, "plain", "others for"),
        ({}, "added", "others for"),
        ({}, "raw", "others for"),
        ({}, "closure", "others for"),
        ({}, "beside", "outside of the model"),
        ({}, "twice", "step 1 of the plan"),
        ({}, "unreleased", "one release"),
    ],
)
def test_what_would_run_something_else_is_refused(
    tmp_path: Path, options: dict[str, Any], how: str, message: str
) -> None:
    run = made()
    before = weights(run)
    with pytest.raises(dp.InvalidArgument, match=message):
        trainer(run, tmp_path, **options).fit(Private(run, how), run.loader())
    assert run.step == (how in ("added", "raw", "twice", "closure", "beside"))
    assert weights(run) == before


def test_batches_of_another_loader_are_refused(tmp_path: Path) -> None:
    run, other = made(), made(key=b"l" * 32)
    with pytest.raises(dp.InvalidArgument, match="step 0 of the plan"):
        trainer(run, tmp_path).fit(Private(run), other.loader())
    with pytest.raises(WrongType, match="loader"):
        trainer(run, tmp_path).fit(Private(run), torch.utils.data.DataLoader(DATA, batch_size=8))
    with pytest.raises(WrongType, match="PrivateGradients"):
        PlannedSteps(PLAN)  # type: ignore[arg-type]
