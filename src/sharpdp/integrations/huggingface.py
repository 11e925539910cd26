"""Private training with Hugging Face's Trainer: batches, noise and accounting of one plan.

    trainer = PrivateTrainer(model, arguments, plan=plan, clip=1.0, train_dataset=data)
    trainer.train()
    trainer.run.epsilon(delta=1e-5)

Needs `pip install "sharpdp[huggingface]"`. The optimizer, its schedule, evaluation, checkpoints and
callbacks are the Trainer's. What it would do with batches and gradients of its own is not: see
`PrivateTrainer`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sharpdp._validate.extras import optional_packages

with optional_packages("huggingface", "torch", "transformers", "accelerate"):
    import torch
    from transformers import Trainer, TrainerCallback
    from transformers.trainer_callback import ExportableState
    from transformers.trainer_utils import get_last_checkpoint

from sharpdp._validate import invalid, short_repr
from sharpdp.budget import Budget, Ledger
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.integrations.framework_loaders import noise_of, planned_run
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.integrations.torch import scheme_of
from sharpdp.mechanisms import DPSGD

__all__ = ["PrivateTrainer", "finished_run"]

REFUSED: dict[str, tuple[tuple[object, ...], str]] = {
    "gradient_accumulation_steps": (
        (1,),
        "One batch of the plan is one step; physical_batch_size limits memory.",
    ),
    "train_sampling_strategy": (("random",), "The plan draws the batches."),
    "group_by_length": ((False,), "The plan draws the batches."),
    "dataloader_drop_last": ((False,), "The plan says which examples are left out."),
    "auto_find_batch_size": ((False,), "It would start the run again with other batches."),
    "ignore_data_skip": ((False,), "A resumed run goes on with the batches that are left."),
    "restore_callback_states_from_checkpoint": (
        (False,),
        "The state of the run is restored anyway.",
    ),
    "include_num_input_tokens_seen": (
        ("no", False),
        "The number of tokens seen is a statistic of the data without noise.",
    ),
    "fp16": ((False,), "Scaled gradients are not those that were released. Use bf16=True."),
    "deepspeed": ((None,), "It has gradients of its own."),
    "fsdp": ((None, "", (), [], False), "It holds a share of the parameters only."),
    "parallelism_config": ((None,), "It shares out examples in its own way."),
}
"""Options of TrainingArguments that would run something else: what they must be, and why."""


class PrivateTrainer(Trainer):  # type: ignore[misc]  # its types are not followed
    """Hugging Face's Trainer over the batches of one DP-SGD plan, which is also what is accounted.

    Batches are drawn by ``plan.batches``, and each is one step of the optimizer with the noisy gradient
    of `PrivateGradients`. The loss is the Trainer's `compute_loss`, for one example at a time: the mean
    over the tokens of an example, not over those of a batch, which would let examples depend on one
    another. ``per_device_train_batch_size`` and ``num_train_epochs`` have no effect, since the plan says
    both; ``max_grad_norm`` clips the noisy gradient, which costs nothing.

    Training ends with the plan, or where a budget ends. Checkpoints hold the number of steps taken, and
    ``train(resume_from_checkpoint=...)`` goes on with the batches that are left; pass the same key.

    The training loss is neither logged nor returned, since it would be a release without noise. What
    callbacks of your own look at is yours to account for, as are metrics of the training data.

    Args:
        model: The model. There is no model_init.
        args: TrainingArguments. Those that would change batches or gradients are refused.
        plan: The scheme, with a dataset_size, and the noise multiplier.
        clip: Largest l2 norm of an example's gradient.
        train_dataset: The data set, of the plan's dataset_size examples, with positions.
        key: Secret of at least 16 bytes from which batches and noise are drawn; None for a fresh one.
            Keep it to resume.
        physical_batch_size: Examples whose gradients are computed at once, at least 1.
        budget: A `Budget` or `Ledger` that several runs share; see `PrivateGradients`.
        budget_key: Name of this run in a ledger, so that a run resumed with its key is not counted twice.
        group_size: How many records one protected unit, such as a user, has in the data; None for that of
            the budget.
        **options: Further options of the Trainer, such as ``eval_dataset`` and ``optimizers``.

    Attributes:
        run: The `PrivateGradients`, with ``step``, ``guarantee`` and ``epsilon(delta=...)``.

    Raises:
        BudgetExceeded: The budget does not allow a single step.
        InvalidArgument: An option would run something other than the plan.
        WrongType: An argument has the wrong type.
    """

    def __init__(
        self,
        model: Any,
        args: Any,
        *,
        plan: DPSGD,
        clip: float,
        train_dataset: Any,
        key: bytes | None = None,
        physical_batch_size: int = 256,
        budget: Budget | Ledger | None = None,
        budget_key: str | None = None,
        group_size: int | None = None,
        **options: Any,
    ) -> None:
        """Refuse what would run something else, before anything is counted."""
        if not isinstance(plan, DPSGD):
            raise WrongType(f"plan must be a DPSGD; got {short_repr(plan)}.")
        _check(args, plan.batches.steps, train_dataset, options)
        super().__init__(model=model, args=args, train_dataset=train_dataset, **options)
        # accelerator_config may have changed the arguments
        _check(self.args, plan.batches.steps, train_dataset, options)
        self.run = PrivateGradients(
            plan,
            self.model,
            lambda module, inputs: self.compute_loss(module, inputs),
            train_dataset,
            clip=clip,
            key=key,
            collate=self._get_collator_with_removed_columns(self.data_collator, "training"),
            physical_batch_size=physical_batch_size,
            budget=budget,
            budget_key=budget_key,
            group_size=group_size,
        )
        if args.max_steps <= 0:
            args.max_steps = self.run.last
        self.add_callback(PlannedSteps(self.run))

    def get_train_dataloader(self) -> Any:
        """The batches of the plan; Accelerate, which would share them out again, is not asked.

        Returns:
            A torch DataLoader of `PlannedBatch`.
        """
        arguments: Any = self.args
        names = ("num_workers", "pin_memory", "prefetch_factor")
        given = {name: getattr(arguments, f"dataloader_{name}") for name in names}
        pinned = given["pin_memory"] and torch.cuda.is_available()
        return self.run.loader_over(_SkippedPasses(self.run), **{**given, "pin_memory": pinned})

    def train(self, resume_from_checkpoint: Any = None, **options: Any) -> Any:
        """Train to the end of the plan, or of a budget, from the beginning or from a checkpoint.

        Args:
            resume_from_checkpoint: A folder, or True for the last one in the output directory, as for the
                Trainer; None to begin.
            **options: Further options of the Trainer's train, but no hyperparameter trial.

        Returns:
            What the Trainer returns, with a training loss of 0.

        Raises:
            InvalidArgument: The checkpoint is that of another run, or this run was begun already.
        """
        if options.get("trial") is not None:
            raise invalid(
                "trial", "None", options["trial"], "Each trial is a run with its own plan."
            )
        folder = resume_from_checkpoint or None
        if folder is True:
            folder = get_last_checkpoint(self.args.output_dir)
            if folder is None:
                raise invalid("output_dir", "a folder with checkpoints", self.args.output_dir)
        if folder is not None:
            self.run.load_state_dict(_saved(folder))
        elif self.run.step:
            raise InvalidArgument(
                f"the run must be resumed from a checkpoint; got one at step {self.run.step} that was "
                "begun already. Make a new PrivateTrainer for another run."
            )
        return super().train(resume_from_checkpoint=folder, **options)

    def training_step(self, model: Any, inputs: Any, *_: Any, **__: Any) -> Any:
        """Release the noisy gradient of one batch.

        Args:
            model: What the Trainer made of the model, which is put into training mode.
            inputs: A batch of the plan.
            *_: Ignored: the number of tokens in the batch.
            **__: The same.

        Returns:
            0, in place of the loss, which is not released.
        """
        model.train()
        with self.compute_loss_context_manager():
            self.run.backward(inputs)
        return torch.zeros((), device=self.args.device)

    def log(self, logs: Mapping[str, Any], *arguments: Any, **options: Any) -> None:
        """Log everything but the training loss.

        Args:
            logs: Numbers by name.
            *arguments: As for the Trainer.
            **options: As for the Trainer.
        """
        kept = {name: value for name, value in logs.items() if name not in ("loss", "train_loss")}
        super().log(kept, *arguments, **options)

    def floating_point_ops(self, inputs: Any) -> int:
        """Not counted: it would tell how long the examples of a batch are.

        Args:
            inputs: A batch.

        Returns:
            0.
        """
        return 0


def finished_run(
    trainer: Any,
    *,
    collate: Callable[[list[Any]], Any] | None = None,
    seed: str | None = None,
) -> DPSGD:
    """What the last `train` of a Trainer was, for `account`: its batches, its epochs, its noise.

    Of a `PrivateTrainer` it is the plan, up to the steps that were released. Of any other Trainer the
    loader tells the batches, the state the epochs begun (one that was broken off counts as a whole one),
    and an optimizer of Opacus the noise multiplier. A Trainer without either has added no noise.

    TrainingArguments have the seed 42 by default. The order of the batches follows from it, so that it
    counts as known, and so does noise that Opacus draws from torch's own generator: that is refused.

    Holds when: what `scheme_of` asks for; the noise multiplier stayed the same; every step used the
    examples of one batch, each of them once, clipped; and earlier calls of `train` are counted elsewhere.

    Args:
        trainer: the Trainer, after `train`.
        collate: as for `sharpdp.integrations.torch.scheme_of`.
        seed: as for `sharpdp.integrations.torch.scheme_of`.

    Returns:
        The run, of at least one step.

    Raises:
        InvalidArgument: no step was taken.
        Unsupported: the batches follow no scheme, steps are not batches, or noise is missing or known.
        WrongType: this is no Trainer of transformers.
    """
    if not isinstance(trainer, Trainer):
        raise WrongType(f"trainer must be a Trainer of transformers; got {short_repr(trainer)}.")
    run = planned_run(trainer)
    if run is not None:
        taken: DPSGD = run.taken
        return taken
    scheme = scheme_of(trainer, collate=collate, seed=seed)
    return DPSGD(scheme, noise_multiplier=noise_of(trainer.optimizer, seed=seed))


class PlannedSteps(TrainerCallback, ExportableState):  # type: ignore[misc]
    """Compares the Trainer's steps with those of a run, saves them, and stops at the end of the run."""

    def __init__(self, run: PrivateGradients) -> None:
        """Nothing was run yet."""
        self.run = run

    def on_train_begin(
        self, args: Any, state: Any, control: Any, optimizer: Any = None, **_: Any
    ) -> None:
        """Refuse steps of the optimizer along other gradients than those released.

        The Trainer clips each of them once more, also if it does so to find out their norm.
        """
        plain = getattr(optimizer, "optimizer", optimizer)  # which Accelerate has wrapped
        self._guard = self.run.guard(plain, changes=1)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave the optimizer as it was."""
        self._guard.remove()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Refuse a step of the optimizer that was not released, and stop after the last one."""
        if state.global_step != self.run.step:
            raise InvalidArgument(
                f"every step of the optimizer must be one release of the run; got {state.global_step} "
                f"steps and {self.run.step} releases. Do not override training_step."
            )
        if self.run.step >= self.run.last:
            control.should_training_stop = True

    def state(self) -> dict[str, Any]:
        """What a checkpoint of the Trainer holds.

        Returns:
            Plain data.
        """
        return {"args": {}, "attributes": self.run.state_dict()}


class _SkippedPasses:
    """Passes that begin with an empty batch for each step of the pass that was taken before.

    A Trainer that resumes drops so many batches before it goes on. If it did not, the empty batches would
    not be those of the plan, and would be refused.
    """

    def __init__(self, run: PrivateGradients) -> None:
        self.run = run

    def __len__(self) -> int:
        return self.run.sampler.steps_per_pass

    def __iter__(self) -> Iterator[list[int]]:
        if self.run.step < self.run.last:
            for _ in range(self.run.step % len(self)):
                yield []
            yield from self.run.sampler

    @property
    def drop_last(self) -> bool:
        return self.run.sampler.drop_last


def _check(args: Any, steps: int, dataset: Any, options: Mapping[str, Any]) -> None:
    """Refuse options with which something other than the plan would run."""
    for name, (allowed, why) in REFUSED.items():
        value = getattr(args, name, allowed[0])
        if not any(value is one or value == one for one in allowed):
            raise invalid(name, f"{allowed[0]!r} in TrainingArguments", value, why)
    for name in ("dispatch_batches", "split_batches"):
        value = getattr(getattr(args, "accelerator_config", None), name, None)
        if value:
            raise invalid(
                name, "False in accelerator_config", value, "The plan shares out batches."
            )
    if args.max_steps > steps:
        hint = "Plan a longer run: its privacy is that of the whole."
        raise invalid("max_steps", f"at most the {steps} steps of the plan", args.max_steps, hint)
    if options.get("model_init") is not None:
        raise InvalidArgument(
            "model_init must be left out; got a function. Every model that it makes is a run of its own."
        )
    evaluated = options.get("eval_dataset")
    several = evaluated.values() if isinstance(evaluated, dict) else [evaluated]
    if any(some is dataset for some in several):
        raise InvalidArgument(
            "eval_dataset must not be the training data; got the same object. Metrics of the training "
            "data are a release without noise."
        )


def _saved(folder: str | Path) -> Any:
    """The state of the run in a checkpoint of the Trainer."""
    path = Path(folder) / "trainer_state.json"
    try:
        held = json.loads(path.read_text("utf-8"))
        return held["stateful_callbacks"][PlannedSteps.__name__]["attributes"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
        raise InvalidArgument(
            "resume_from_checkpoint must be a checkpoint of a PrivateTrainer; got "
            f"{short_repr(str(folder))}."
        ) from fault
