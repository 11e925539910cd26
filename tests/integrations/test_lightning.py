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

from sharpdp.integrations.lightning import PlannedSteps, finished_run  # noqa: E402
from sharpdp.integrations.torch import scheme_of  # noqa: E402

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


def fitted(
    *,
    seed: int | None = None,
    secret_noise: bool = True,
    poisson_sampling: bool = False,
    **options: Any,
) -> Any:
    """A Trainer of Lightning that has trained with an optimizer of Opacus."""
    from opacus import PrivacyEngine

    if seed is not None:
        lightning.seed_everything(seed, verbose=False)
    generator = torch.Generator()
    generator.seed()
    network = nn.Linear(1, 1)
    private, optimizer, batches = PrivacyEngine().make_private(
        module=network,
        optimizer=torch.optim.SGD(network.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(DATA, batch_size=32, shuffle=True),
        noise_multiplier=1.3,
        max_grad_norm=1.0,
        poisson_sampling=poisson_sampling,
        noise_generator=generator if secret_noise else None,
    )

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.network = private

        def training_step(self, batch: Any, _: int) -> torch.Tensor:
            return logistic(self.network, batch)

        def configure_optimizers(self) -> Any:
            return optimizer

    trainer = quiet_trainer(**{"max_epochs": 2, **options})
    trainer.fit(Module(), batches)
    return trainer


def quiet_trainer(**options: Any) -> Any:
    return lightning.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **options,
    )


WHOLE = {"dataset_size": 120, "batch_size": 32, "epochs": 2}


def test_a_run_that_is_over_is_read() -> None:
    """Batches, passes that were begun, and noise."""
    trainer = fitted()
    assert scheme_of(trainer) == dp.ShuffledBatches(**WHOLE)
    assert finished_run(trainer) == dp.DPSGD(dp.ShuffledBatches(**WHOLE), noise_multiplier=1.3)
    stopped = fitted(max_epochs=-1, max_steps=5)
    assert scheme_of(stopped) == dp.ShuffledBatches(**WHOLE)
    broken = fitted(max_epochs=5, limit_train_batches=3)
    assert broken.global_step == 15
    assert scheme_of(broken) == dp.ShuffledBatches(**{**WHOLE, "epochs": 5})
    drawn: Any = finished_run(fitted(max_epochs=5, limit_train_batches=3, poisson_sampling=True))
    assert isinstance(drawn.batches, dp.PoissonBatches)
    assert drawn.batches.steps == 15


def test_a_run_that_is_over_knows_its_seed() -> None:
    found: Any = finished_run(fitted(seed=7))
    assert found == dp.DPSGD(dp.DeterministicBatches(**WHOLE), noise_multiplier=1.3)
    assert found.batches.seed == 7
    known = fitted(seed=7, secret_noise=False)
    with pytest.raises(dp.Unsupported, match=r"noise must not follow .* got seed 7"):
        finished_run(known)
    secret = dp.DPSGD(dp.ShuffledBatches(**WHOLE), noise_multiplier=1.3)
    assert finished_run(known, seed="secret") == secret
    with pytest.raises(dp.Unsupported, match="draws with seed 7"):
        finished_run(fitted(seed=7, poisson_sampling=True))


def test_runs_that_cannot_be_read() -> None:
    with pytest.raises(dp.Unsupported, match="accumulate_grad_batches must be 1"):
        finished_run(fitted(accumulate_grad_batches=2))
    with pytest.raises(dp.Unsupported, match="reload_dataloaders_every_n_epochs must be 0"):
        finished_run(fitted(reload_dataloaders_every_n_epochs=1))
    with pytest.raises(dp.InvalidArgument, match="has not trained"):
        finished_run(quiet_trainer())
    with pytest.raises(WrongType, match="Trainer of Lightning"):
        finished_run(nn.Linear(1, 1))


class Twice(lightning.LightningModule):  # type: ignore[misc]
    """Two steps for each batch, without noise."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.network, self.steps, self.automatic_optimization = nn.Linear(1, 1), steps, False

    def training_step(self, batch: Any, _: int) -> None:
        for _ in range(self.steps):
            self.manual_backward(logistic(self.network, batch))
            self.optimizers().step()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_steps_without_noise_or_several_for_one_batch_are_refused() -> None:
    loader = torch.utils.data.DataLoader(DATA, batch_size=32, shuffle=True)
    for steps, words in (
        (1, "got SGD, whose steps are exact"),
        (2, "16 steps of optimizers for 8"),
    ):
        trainer = quiet_trainer(max_epochs=2)
        trainer.fit(Twice(steps), loader)
        with pytest.raises(dp.Unsupported, match=words):
            finished_run(trainer)


def test_the_plan_of_a_callback_is_what_ran() -> None:
    run = made()
    trainer = quiet_trainer(
        max_epochs=2, use_distributed_sampler=False, callbacks=[PlannedSteps(run)]
    )
    with pytest.raises(dp.InvalidArgument, match="no step was taken"):
        finished_run(trainer)
    trainer.fit(Private(run), run.loader())
    assert finished_run(trainer) == PLAN.stopped_after(run.step)
    assert scheme_of(trainer) == PLAN.stopped_after(run.step).batches
