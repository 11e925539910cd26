"""Loaders, samplers and trainers of Accelerate, transformers and Lightning: the torch loader inside.

Nothing is imported here but torch: an object can only be of a class whose module was imported before.
"""

from __future__ import annotations

import math
import sys
from typing import Any

from sharpdp.errors import InvalidArgument, Unsupported

__all__ = [
    "DISTRIBUTED",
    "DRAW_OURS",
    "SECRET",
    "collate_inside",
    "guessable",
    "imported",
    "is_trainer",
    "loader_inside",
    "noise_of",
    "planned_run",
    "sampler_inside",
    "seed_of",
    "trained_on",
    "undescribed",
]

DRAW_OURS = "Draw the batches of a scheme: loader(data, BatchSampler(scheme))."

DISTRIBUTED = (
    "Give every process its shard, and keep the loader out of accelerator.prepare: "
    "loader(data, BatchSampler(scheme, key, shard=shard_of_rank()))."
)

SECRET = 'If nobody else can know the seed, say so: seed="secret".'

UNSEEDED = 67280421310721
"""The seed that torch gives to every generator that is made without one."""

FEWEST_SEEDS = 2**32
"""Seeds closer to zero than this can all be tried, and people choose them; torch.seed() draws 64 bits."""

ROW_BY_ROW = (
    "DataCollatorForLanguageModeling",
    "DataCollatorForMultipleChoice",
    "DataCollatorForSeq2Seq",
    "DataCollatorForTokenClassification",
    "DataCollatorWithPadding",
    "DefaultDataCollator",
)
"""Collators of transformers that put every example into a row of its own.

Some pad it to the longest of the batch, some mask tokens of it at random: neither changes who is in the
batch."""

OPTIONS_OF_TRANSFORMERS = {
    "world_size": (1, DISTRIBUTED),
    "gradient_accumulation_steps": (
        1,
        "A batch is what one noisy step sums up: write the scheme down with that batch_size.",
    ),
    "auto_find_batch_size": (
        False,
        "It may have begun several times, with batches of other sizes.",
    ),
}
"""Options of TrainingArguments with which steps are not batches of the loader: what else, and why."""

OPTIONS_OF_LIGHTNING = {
    "world_size": (1, DISTRIBUTED),
    "accumulate_grad_batches": OPTIONS_OF_TRANSFORMERS["gradient_accumulation_steps"],
    "reload_dataloaders_every_n_epochs": (0, "Only the last loader is left to be seen."),
}
"""The same for Lightning's Trainer."""


def imported(module: str, name: str) -> Any:
    """A class or function of a module that was imported already; None if it was not."""
    return getattr(sys.modules.get(module), name, None)


def undescribed(culprit: object, does: str, hint: str) -> Unsupported:
    """The exception that says: no scheme here is what this class does."""
    return Unsupported(
        f"no batch scheme describes this loader: {type(culprit).__name__} {does}. {hint}"
    )


def loader_inside(loader: Any) -> Any:
    """The DataLoader inside that of `accelerator.prepare`, which moves its batches to a device."""
    if type(loader) is imported("accelerate.data_loader", "DataLoaderDispatcher"):
        hint = "Use dispatch_batches=False on one process. " + DISTRIBUTED
        raise undescribed(loader, "shares out batches again", hint)
    if type(loader) is not imported("accelerate.data_loader", "DataLoaderShard"):
        return loader
    if loader.skip_batches:
        does = f"leaves out the first {loader.skip_batches} batches"
        raise undescribed(loader, does, "Pass the loader of the whole run.")
    return loader.base_dataloader


def sampler_inside(sampler: Any) -> Any:
    """The batch sampler inside Accelerate's share of it, if that is all of it."""
    if type(sampler) is not imported("accelerate.data_loader", "BatchSamplerShard"):
        return sampler
    if sampler.num_processes != 1:
        does = f"gives each of {sampler.num_processes} processes batches of its own"
        raise undescribed(sampler, does, DISTRIBUTED)
    inner = sampler.batch_sampler
    # with even_batches it fills up the last batch, also on one process
    if sampler.even_batches and not inner.drop_last and len(inner.sampler) % inner.batch_size:
        raise undescribed(
            sampler,
            "fills up the last batch with examples that were used before in the epoch",
            "Use drop_last=True, or even_batches=False.",
        )
    return inner


def collate_inside(collate: Any) -> Any:
    """The collate function inside those that leave out columns; None for one that is known.

    Known are collators of transformers that give every example a row of its own.
    """
    while type(collate) is imported("transformers.trainer_utils", "RemoveColumnsCollator"):
        collate = collate.data_collator
    module = "transformers.data.data_collator"
    if collate is not None and collate is imported(module, "default_data_collator"):
        return None
    return None if type(collate) in [imported(module, name) for name in ROW_BY_ROW] else collate


def seed_of(sampler: Any) -> int | None:
    """The seed from which the draws of a sampler follow, if it is one that others can find out.

    It is the one that is there now: that of the sampler's own generator, else of torch's. One that was
    seeded otherwise when the sampler drew cannot be told.
    """
    if type(sampler) is imported("accelerate.data_loader", "SeedableRandomSampler"):
        return guessable(int(sampler.initial_seed))  # plus the number of the epoch
    seed = _held_by(sampler.generator)
    if seed == UNSEEDED:
        raise undescribed(
            sampler,
            "uses a torch.Generator that was never seeded: it draws the same numbers in every run, so "
            "that anyone knows the batches",
            "Call generator.seed(), or pass no generator.",
        )
    return guessable(seed)


def _held_by(generator: Any) -> int:
    """The seed of a generator, of torch's own for None."""
    import torch

    return torch.initial_seed() if generator is None else int(generator.initial_seed())


def guessable(seed: int) -> int | None:
    """A seed of torch as it was given, if it is closer to zero than 2^32; None for others.

    >>> guessable(42), guessable(2**64 - 1), guessable(2**32)
    (42, -1, None)
    """
    signed = seed - 2**64 if seed >= 2**63 else seed  # as torch keeps negative ones
    return signed if abs(signed) < FEWEST_SEEDS else None


def is_trainer(thing: object) -> bool:
    """Whether this is a Trainer of transformers or Lightning."""
    return any(isinstance(thing, kind) for kind in (_transformers(), *_lightning()))


def _transformers() -> type:
    kind: type = imported("transformers.trainer", "Trainer") or _Unimported
    return kind


def _lightning() -> tuple[type, ...]:
    packages = ("lightning.pytorch", "pytorch_lightning")
    return tuple(imported(f"{name}.trainer.trainer", "Trainer") or _Unimported for name in packages)


class _Unimported:
    """A class of which there are no objects."""


def planned_run(trainer: Any) -> Any:
    """The `PrivateGradients` that a Trainer has trained with; None if it has none."""
    kind = imported("sharpdp.integrations.private_gradients", "PrivateGradients") or _Unimported
    holder = getattr(trainer, "callback_handler", trainer)  # that of transformers
    runs = (getattr(callback, "run", None) for callback in holder.callbacks)
    return next((run for run in runs if isinstance(run, kind)), None)


def trained_on(trainer: Any) -> tuple[Any, int, int]:
    """The loader of a Trainer whose run is over, how many passes over it were begun, and the steps."""
    if isinstance(trainer, _transformers()):
        return _trained_by_transformers(trainer)
    return _trained_by_lightning(trainer)


def _trained_by_transformers(trainer: Any) -> tuple[Any, int, int]:
    state, loader = trainer.state, trainer.callback_handler.train_dataloader
    if loader is None or not state.global_step:
        raise _untrained("scheme_of(trainer.get_train_dataloader(), epochs=...)")
    _check_options(trainer.args, OPTIONS_OF_TRANSFORMERS)
    if trainer.args.ignore_data_skip and getattr(trainer, "_initial_global_step", 0):
        raise Unsupported(
            "ignore_data_skip must be False for a run that was resumed; got True, with which an epoch "
            "begins anew. Write the scheme down with one more epoch for each time."
        )
    # a pass that a callback has broken off counts as a whole one
    begun = max(math.ceil(state.epoch), math.ceil(state.global_step / len(loader)))
    return loader, begun, state.global_step


def _trained_by_lightning(trainer: Any) -> tuple[Any, int, int]:
    loader, loop = trainer.train_dataloader, trainer.fit_loop
    if loader is None or not trainer.global_step:
        raise _untrained("scheme_of(loader, epochs=...)")
    _check_options(trainer, OPTIONS_OF_LIGHTNING)
    batches = loop.epoch_loop.batch_progress.total.ready
    if trainer.global_step > batches:
        raise Unsupported(
            f"every batch must be one step; got {trainer.global_step} steps of optimizers for {batches} "
            "batches. Write down what ran: each step is a release."
        )
    return loader, loop.epoch_progress.total.started, batches


def _untrained(before: str) -> InvalidArgument:
    return InvalidArgument(
        f"trainer must have taken a step; got one that has not trained. Before training: {before}."
    )


def _check_options(holder: Any, options: dict[str, tuple[Any, str]]) -> None:
    """Refuse a run whose steps are not one batch of one loader each."""
    for name, (allowed, hint) in options.items():
        value = getattr(holder, name, allowed)
        if value != allowed:
            raise Unsupported(f"{name} must be {allowed!r} to read a run; got {value!r}. {hint}")


def noise_of(optimizer: Any, *, seed: str | None) -> float:
    """The noise multiplier of an optimizer of Opacus, if its noise does not follow from a known seed."""
    while type(optimizer) is imported("accelerate.optimizer", "AcceleratedOptimizer"):
        optimizer = optimizer.optimizer
    kind = imported("opacus.optimizers.optimizer", "DPOptimizer")
    if kind is None or not isinstance(optimizer, kind):
        raise Unsupported(
            "trainer must have added noise to clipped gradients, by a plan of sharpdp or an optimizer "
            f"of Opacus; got {type(optimizer).__name__}, whose steps are exact. No epsilon holds."
        )
    from sharpdp.integrations.opacus import check_clips_alone

    check_clips_alone(optimizer)
    held = _held_by(optimizer.generator)
    if held == UNSEEDED or (guessable(held) is not None and seed != "secret"):
        raise Unsupported(
            f"noise must not follow from a seed that others can find out; got seed {held} in the "
            f"generator of {type(optimizer).__name__}: no epsilon holds. Pass noise_generator= to "
            f"Opacus' make_private. {SECRET}"
        )
    return float(optimizer.noise_multiplier)
