"""The Trainer of transformers runs the plan and nothing else: `make test-frameworks` installs it."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import sharpdp as dp
from tests.docs.pages import ROOT

pytestmark = pytest.mark.filterwarnings("ignore")  # frameworks warn about each other

transformers = pytest.importorskip("transformers", reason="make test-frameworks gets transformers")

from sharpdp.integrations.huggingface import PrivateTrainer  # noqa: E402

KEY = b"k" * 32
SCHEME = dp.PoissonBatches(dataset_size=120, batch_size=4, steps=45)  # a pass is 30 steps
PLAN = dp.DPSGD(SCHEME, noise_multiplier=1.0)
PLANNED = [batch.tolist() for batch in SCHEME.batches(KEY)]


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """Records of 1 to 4 tokens, with a column that no model takes."""

    def __len__(self) -> int:
        return 120

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": torch.tensor([float(index), 1.0]), "labels": index % 2, "text": "unused"}


class Model(nn.Module):
    """A linear classifier that keeps what it is shown."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
        logits = self.layer(x / 100.0)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Seen(PrivateTrainer):
    """Keeps the index batches that the Trainer delivered."""

    delivered: list[list[int]]

    def training_step(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        self.__dict__.setdefault("delivered", []).append(inputs.numbers.tolist())
        return super().training_step(model, inputs, *rest, **options)


def arguments(folder: Path, **options: Any) -> Any:
    quiet = {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    return transformers.TrainingArguments(str(folder), **{**quiet, **options})


def made(
    folder: Path, *, plan: dp.DPSGD = PLAN, run: dict[str, Any] | None = None, **options: Any
) -> Seen:
    settings: dict[str, Any] = {"plan": plan, "clip": 1.0, "key": KEY, "train_dataset": Rows()}
    return Seen(Model(), arguments(folder, **options), **{**settings, **(run or {})})


def hashed(trainer: Any) -> list[float]:
    weights: list[float] = trainer.model.layer.weight.flatten().tolist()
    return weights


@pytest.mark.parametrize("workers", [0, 2])
def test_the_trainer_delivers_the_batches_of_the_plan(tmp_path: Path, workers: int) -> None:
    trainer = made(tmp_path, dataloader_num_workers=workers, logging_steps=5, learning_rate=0.1)
    outcome = trainer.train()
    assert trainer.delivered == PLANNED
    assert dp.audit.sampler(batches=trainer.delivered, scheme=SCHEME).consistent
    assert trainer.run.step == trainer.state.global_step == 45
    assert trainer.run.guarantee.mechanism == PLAN
    # nothing without noise is released: no loss, and no count that depends on the batches
    assert outcome.training_loss == 0.0
    names = {name for entry in trainer.state.log_history for name in entry}
    assert not {"loss", "train_loss"} & names
    assert trainer.state.total_flos == 0
    with pytest.raises(dp.InvalidArgument, match="begun already"):
        trainer.train()


def test_a_resumed_trainer_goes_on_with_what_is_left(tmp_path: Path) -> None:
    saving = {"save_strategy": "steps", "save_steps": 7, "lr_scheduler_type": "constant"}
    whole = made(tmp_path / "whole", **saving)
    whole.train()
    folder = tmp_path / "whole" / "checkpoint-35"  # in the second pass
    state = json.loads((folder / "trainer_state.json").read_text("utf-8"))
    assert state["stateful_callbacks"]["PlannedSteps"]["attributes"]["step"] == 35
    assert KEY.decode() not in (folder / "trainer_state.json").read_text("utf-8")
    resumed = made(tmp_path / "resumed", **saving)
    resumed.train(resume_from_checkpoint=str(folder))
    assert resumed.delivered == PLANNED[35:]
    assert resumed.run.step == 45
    assert hashed(resumed) == hashed(whole)
    with pytest.raises(dp.InvalidArgument, match="same key"):
        made(tmp_path / "other", run={"key": b"l" * 32}).train(resume_from_checkpoint=str(folder))
    with pytest.raises(dp.InvalidArgument, match="checkpoint of a PrivateTrainer"):
        made(tmp_path / "other").train(resume_from_checkpoint=str(tmp_path))
    with pytest.raises(dp.InvalidArgument, match="released"):
        whole.train(resume_from_checkpoint=str(folder))


def test_a_budget_stops_the_trainer(tmp_path: Path) -> None:
    budget = dp.Budget(epsilon=1.5, delta=1e-5, adjacency="zero-out", choice="fixed in advance")
    trainer = made(tmp_path, run={"budget": budget})
    trainer.train()
    assert 0 < trainer.run.step == trainer.run.last == trainer.state.global_step < 45
    assert float(trainer.run.epsilon(delta=1e-5).upper) <= 1.5


def test_a_trainer_that_stops_early_is_accounted_for_what_ran(tmp_path: Path) -> None:
    trainer = made(tmp_path, max_steps=10)
    trainer.train()
    assert trainer.run.step == 10
    assert trainer.run.guarantee.mechanism == PLAN.stopped_after(10)


@pytest.mark.parametrize(
    ("options", "run", "message"),
    [
        ({"gradient_accumulation_steps": 2}, {}, "gradient_accumulation_steps"),
        ({"train_sampling_strategy": "group_by_length"}, {}, "train_sampling_strategy"),
        ({"dataloader_drop_last": True}, {}, "dataloader_drop_last"),
        ({"auto_find_batch_size": True}, {}, "auto_find_batch_size"),
        ({"ignore_data_skip": True}, {}, "ignore_data_skip"),
        ({"accelerator_config": {"split_batches": True}}, {}, "split_batches"),
        ({"accelerator_config": {"dispatch_batches": True}}, {}, "dispatch_batches"),
        (
            {"accelerator_config": {"gradient_accumulation_kwargs": {"num_steps": 2}}},
            {},
            "gradient_accumulation_steps",
        ),
        ({"max_steps": 46}, {}, "at most the 45 steps"),
        ({"include_num_input_tokens_seen": True}, {}, "include_num_input_tokens_seen"),
        ({}, {"model_init": Model}, "model_init"),
        ({}, {"train_dataset": torch.utils.data.Subset(Rows(), range(119))}, "dataset_size = 120"),
        ({}, {"plan": SCHEME}, "plan must be a DPSGD"),
    ],
)
def test_what_would_run_something_else_is_refused(
    tmp_path: Path, options: dict[str, Any], run: dict[str, Any], message: str
) -> None:
    with pytest.raises(dp.SharpDPError, match=message):
        made(tmp_path, run=run, **options)


def test_metrics_of_the_training_data_are_refused(tmp_path: Path) -> None:
    rows = Rows()
    for same in (rows, {"training": rows}):
        with pytest.raises(dp.InvalidArgument, match="eval_dataset"):
            made(tmp_path, run={"train_dataset": rows, "eval_dataset": same})


def test_evaluation_between_steps_changes_nothing(tmp_path: Path) -> None:
    options = {"eval_strategy": "steps", "eval_steps": 4, "lr_scheduler_type": "constant"}
    other = torch.utils.data.Subset(Rows(), range(30))
    evaluated = made(tmp_path, run={"eval_dataset": other}, **options)
    plain = made(tmp_path, lr_scheduler_type="constant")
    evaluated.train()
    plain.train()
    assert evaluated.delivered == PLANNED
    assert hashed(evaluated) == hashed(plain)


class Tampered(PrivateTrainer):
    """What a subclass must not do."""

    how = ""

    def training_step(self, model: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        if self.how == "plain":
            loss = self.compute_loss(model, inputs.examples)
            loss.backward()
            return loss.detach()
        if self.how == "twice":
            super().training_step(model, inputs)
        if self.how == "halved":
            half = {name: rows[::2] for name, rows in inputs.examples.items()}
            inputs = inputs._replace(numbers=inputs.numbers[::2], examples=half)
        released = super().training_step(model, inputs, *rest, **options)
        if self.how == "added":
            self.compute_loss(model, inputs.examples).backward()
        return released


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("plain", "gradients must be those"),
        ("twice", "step 1 of the plan"),
        ("halved", "of the plan"),
        ("added", "gradients must be those"),
    ],
)
@pytest.mark.parametrize("max_grad_norm", [0.0, 1.0])
def test_steps_that_are_no_releases_stop_the_trainer(
    tmp_path: Path, how: str, message: str, max_grad_norm: float
) -> None:
    options = arguments(tmp_path, max_grad_norm=max_grad_norm)
    trainer = Tampered(Model(), options, plan=PLAN, clip=1.0, key=KEY, train_dataset=Rows())
    trainer.how = how
    before = hashed(trainer)
    with pytest.raises(dp.InvalidArgument, match=message):
        trainer.train()
    if trainer.run.step == 0 or how == "added":  # the model did not move along other gradients
        assert hashed(trainer) == before


class Sentences(torch.utils.data.Dataset[dict[str, Any]]):
    """Records of 2 to 5 tokens."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> dict[str, Any]:
        torch.manual_seed(index)
        ids = torch.randint(1, 20, (2 + index % 4,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def padded(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    pad = torch.nn.utils.rnn.pad_sequence
    fill = {"input_ids": 0, "attention_mask": 0, "labels": -100}
    return {
        name: pad([row[name] for row in rows], batch_first=True, padding_value=value)
        for name, value in fill.items()
    }


def packed(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
    return {name: torch.cat([row[name] for row in rows])[None] for name in rows[0]}


@pytest.mark.parametrize("collator", [padded, packed])
def test_a_language_model_is_trained_on_one_record_at_a_time(tmp_path: Path, collator: Any) -> None:
    """The loss of a batch is a mean over its tokens, with which long records would weigh on others.

    Collators that fill records up to the longest, or pack them into one row, see one record only.
    """
    config = transformers.GPT2Config(
        vocab_size=20, n_embd=8, n_layer=1, n_head=2, n_positions=8, bos_token_id=0, eos_token_id=0
    )
    scheme = dp.DeterministicBatches(dataset_size=12, batch_size=6, epochs=1)
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(config)
    model.eval()
    trainer = PrivateTrainer(
        model,
        arguments(tmp_path, learning_rate=0.0),
        plan=dp.DPSGD(scheme, noise_multiplier=1e-6),
        clip=0.1,
        key=KEY,
        train_dataset=Sentences(),
        data_collator=collator,
    )
    batch = next(iter(trainer.run.loader()))
    trainer.run.backward(batch)
    released = {name: value.grad.clone() for name, value in model.named_parameters()}
    expected = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    for index in range(6):
        model.zero_grad()
        model(**padded([Sentences()[index]])).loss.backward()
        norm = torch.stack([value.grad.norm() for value in model.parameters()]).norm()
        for name, value in model.named_parameters():
            expected[name] += value.grad * min(1.0, 0.1 / float(norm)) / 6
    for name, value in expected.items():
        assert torch.allclose(released[name], value, atol=1e-5), name


class Canaries(nn.Module):
    """A weight for each record, which moves if the record is there."""

    def __init__(self, records: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(records))

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, Any]:
        return {"loss": -(x * self.weights).sum(1).mean()}


@pytest.mark.parametrize(("noise", "consistent"), [(2.0, True), (0.1, False)])
def test_an_audit_of_the_trained_model(tmp_path: Path, noise: float, consistent: bool) -> None:
    """Records of which some are blank: a run with the claimed noise passes, one with less is caught."""
    records = 300
    rng = torch.Generator().manual_seed(5)
    included = torch.rand(records, generator=rng) < 0.5
    rows = [
        {"x": torch.eye(records)[number] * included[number], "labels": 0}
        for number in range(records)
    ]
    scheme = dp.PoissonBatches(dataset_size=records, batch_size=100, steps=6)
    model = Canaries(records)
    trainer = PrivateTrainer(
        model,
        arguments(tmp_path, lr_scheduler_type="constant", max_grad_norm=0.0),
        plan=dp.DPSGD(scheme, noise_multiplier=noise),
        clip=1.0,
        key=KEY,
        train_dataset=rows,
        optimizers=(torch.optim.SGD(model.parameters(), lr=1.0), None),
    )
    trainer.train()
    claim = dp.account(dp.DPSGD(scheme, noise_multiplier=2.0), adjacency="zero-out")
    found = dp.audit.one_run(
        scores=model.weights.detach().numpy(),
        included=included.numpy(),
        confidence=0.99,
        guarantee=claim,
    )
    assert found.consistent is consistent


def on_two_ranks(folder: Path) -> None:
    """One rank of a run of `torchrun`; what it delivered and found is written to the folder."""
    trainer = made(
        folder,
        ddp_backend="gloo",
        lr_scheduler_type="constant",
        save_strategy="steps",
        save_steps=20,
        run={"physical_batch_size": 1},  # so that both have examples of most batches
    )
    trainer.train()
    found = {"delivered": trainer.delivered, "weights": hashed(trainer), "step": trainer.run.step}
    (folder / f"rank-{trainer.run.ranks.rank}").write_text(json.dumps(found))
    # a process that ends while the Trainer still holds the group is aborted by Gloo's threads
    del trainer
    gc.collect()
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_train_what_one_does(tmp_path: Path) -> None:
    """Bit for bit, and one process goes on from their checkpoint."""
    code = "from tests.integrations.test_huggingface import *; on_two_ranks(Path(sys.argv[1]))"
    (tmp_path / "run.py").write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r}); {code}")
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    subprocess.run([*launcher, str(tmp_path / "run.py"), str(tmp_path)], check=True, timeout=300)
    first, second = (json.loads((tmp_path / f"rank-{rank}").read_text()) for rank in range(2))
    shares = zip(first["delivered"], second["delivered"], strict=True)
    assert [sorted(one + other) for one, other in shares] == [sorted(batch) for batch in PLANNED]
    assert sum(map(len, second["delivered"])) > 60
    single = {"lr_scheduler_type": "constant", "run": {"physical_batch_size": 1}}
    alone = made(tmp_path / "alone", **single)
    alone.train()
    resumed = made(tmp_path / "resumed", **single)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-20"))
    assert resumed.delivered == PLANNED[20:]
    assert first["weights"] == second["weights"] == hashed(alone) == hashed(resumed)
    assert first["step"] == second["step"] == 45
