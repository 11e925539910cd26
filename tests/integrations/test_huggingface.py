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

from sharpdp.integrations.framework_loaders import ROW_BY_ROW, collate_inside  # noqa: E402
from sharpdp.integrations.huggingface import PrivateTrainer, finished_run  # noqa: E402
from sharpdp.integrations.torch import scheme_of  # noqa: E402

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


class Plain(Model):
    """A model that transformers may hand its count of examples."""

    def forward(self, x: Any, labels: Any = None, num_items_in_batch: Any = None) -> dict[str, Any]:
        return super().forward(x, labels)


def plain(folder: Path, *callbacks: Any, **options: Any) -> Any:
    """A Trainer of transformers that has trained without a plan."""
    sizes = {"per_device_train_batch_size": 32, "num_train_epochs": 2, "max_grad_norm": 0.0}
    given = arguments(folder, **{**sizes, **options})
    trainer = transformers.Trainer(Plain(), given, train_dataset=Rows(), callbacks=[*callbacks])
    trainer.train()
    return trainer


WHOLE = {"dataset_size": 120, "batch_size": 32, "epochs": 2}
SECRET = 2**61 + 12345


def test_the_loader_of_a_trainer_is_read_and_its_seed_seen(tmp_path: Path) -> None:
    """Seed 42 is the default of TrainingArguments."""
    trainer = plain(tmp_path)
    found: Any = scheme_of(trainer)
    assert found == dp.DeterministicBatches(**WHOLE)
    assert found.seed == 42
    assert scheme_of(trainer, seed="secret") == dp.ShuffledBatches(**WHOLE)
    assert scheme_of(trainer.get_train_dataloader(), epochs=2) == found
    dropping = plain(tmp_path, data_seed=SECRET, dataloader_drop_last=True)
    assert scheme_of(dropping) == dp.ShuffledBatches(**WHOLE, drop_last=True)
    with pytest.raises(dp.InvalidArgument, match="epochs must be None for a Trainer"):
        scheme_of(trainer, epochs=2)


class StopsEpochs(transformers.TrainerCallback):  # type: ignore[misc]
    """Breaks off every epoch after its first step."""

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        control.should_epoch_stop = True


def test_passes_that_were_broken_off_count_as_whole_ones(tmp_path: Path) -> None:
    seen = [batch["x"][:, 0].tolist() for batch in plain(tmp_path).get_train_dataloader()]
    assert sum(map(len, seen)) == 120  # 4 batches a pass
    assert scheme_of(plain(tmp_path, data_seed=SECRET, max_steps=5)) == dp.ShuffledBatches(**WHOLE)
    broken = plain(tmp_path, StopsEpochs(), data_seed=SECRET, num_train_epochs=7)
    assert broken.state.global_step == 7
    assert scheme_of(broken) == dp.ShuffledBatches(**{**WHOLE, "epochs": 7})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gradient_accumulation_steps": 2}, "gradient_accumulation_steps must be 1"),
        ({"auto_find_batch_size": True}, "auto_find_batch_size must be False"),
        ({"train_sampling_strategy": "group_by_length"}, "LengthGroupedSampler draws"),
    ],
    ids=str,
)
def test_runs_of_a_trainer_that_cannot_be_read(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    rows = [{**Rows()[index], "input_ids": [1] * (1 + index % 4)} for index in range(120)]
    trainer = transformers.Trainer(Plain(), arguments(tmp_path, **options), train_dataset=rows)
    trainer.state.global_step, trainer.state.epoch = 4, 1.0
    trainer.callback_handler.train_dataloader = trainer.get_train_dataloader()
    with pytest.raises(dp.Unsupported, match=words):
        scheme_of(trainer)
    trainer.state.global_step = 0
    with pytest.raises(dp.InvalidArgument, match=r"Before training: scheme_of\(trainer.get_train"):
        scheme_of(trainer)


def with_opacus(folder: Path, noise_generator: Any = None) -> Any:
    """A Trainer that steps with an optimizer of Opacus, and clears what that keeps."""
    from opacus import PrivacyEngine

    class Clears(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *_: Any, **__: Any) -> None:
            optimizer.zero_grad()

    model = Plain()
    private, optimizer, _ = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(Rows(), batch_size=32),
        noise_multiplier=1.3,
        max_grad_norm=1.0,
        poisson_sampling=False,
        noise_generator=noise_generator,
    )
    given = arguments(
        folder,
        per_device_train_batch_size=32,
        num_train_epochs=2,
        max_grad_norm=0.0,
        remove_unused_columns=False,
    )
    rows = [
        {name: row[name] for name in ("x", "labels")} for row in map(Rows().__getitem__, range(120))
    ]
    trainer = transformers.Trainer(
        private, given, train_dataset=rows, optimizers=(optimizer, None), callbacks=[Clears()]
    )
    trainer.train()
    return trainer


def test_a_run_that_is_over_is_read(tmp_path: Path) -> None:
    """The plan of a PrivateTrainer, or batches, epochs and the noise of Opacus."""
    ours = made(tmp_path, max_steps=13)
    with pytest.raises(dp.InvalidArgument, match="no step was taken"):
        finished_run(ours)
    ours.train()
    assert finished_run(ours) == PLAN.stopped_after(13)
    assert scheme_of(ours) == PLAN.stopped_after(13).batches
    secret = torch.Generator()
    secret.seed()
    run = finished_run(with_opacus(tmp_path, secret))
    assert run == dp.DPSGD(dp.DeterministicBatches(**WHOLE), noise_multiplier=1.3)
    assert "seed 42" in run.describe()
    known = with_opacus(tmp_path)  # noise from torch's generator, which the Trainer has seeded
    with pytest.raises(dp.Unsupported, match=r"noise must not follow .* got seed 42"):
        finished_run(known)
    run = finished_run(known, seed="secret")
    assert run == dp.DPSGD(dp.ShuffledBatches(**WHOLE), noise_multiplier=1.3)
    with pytest.raises(dp.Unsupported, match="got AdamW, whose steps are exact"):
        finished_run(plain(tmp_path))
    with pytest.raises(dp.errors.WrongType, match="Trainer of transformers"):
        finished_run(Plain())


def test_collators_of_transformers_give_every_example_a_row_of_its_own() -> None:
    """Those that are known; others, which pack examples together, must be vouched for."""
    module = transformers.data.data_collator
    assert collate_inside(transformers.default_data_collator) is None
    for name in ROW_BY_ROW:
        assert collate_inside(object.__new__(getattr(module, name))) is None
    packs = transformers.DataCollatorWithFlattening()
    assert collate_inside(packs) is packs
    rows = [{"x": [float(number)], "label": number} for number in range(3)]
    for known in (transformers.default_data_collator, transformers.DefaultDataCollator()):
        assert known(rows)["x"].tolist() == [[0.0], [1.0], [2.0]]
    words = tokenizer()
    texts = [{"input_ids": [5] * length, "attention_mask": [1] * length} for length in (1, 3, 2)]
    for made_by in (
        transformers.DataCollatorWithPadding(words),
        transformers.DataCollatorForLanguageModeling(words, mlm=False),
    ):
        assert made_by(texts)["attention_mask"].sum(1).tolist() == [1, 3, 2]


def tokenizer() -> Any:
    tokenizers = pytest.importorskip("tokenizers")
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[PAD]": 0, "[MASK]": 1}, "[PAD]"))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=fast, pad_token="[PAD]", mask_token="[MASK]"
    )
