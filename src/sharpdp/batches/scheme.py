"""What every batch scheme offers, and where its randomness comes from.

A scheme is frozen data. It yields the batches of one training run, and the same object is what
`account` reads. The analysis of a scheme is in ``bounds``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import count, fault, shown
from sharpdp.errors import InvalidArgument, WrongType

__all__ = [
    "BatchScheme",
    "Indices",
    "Randomness",
    "batches_per_epoch",
    "counted",
    "generator_of",
    "settle",
]

Indices: TypeAlias = NDArray[np.int64]
"""The examples of one batch: positions in the data set, ascending, each at most once."""

Randomness: TypeAlias = "np.random.Generator | int | None"
"""A numpy generator, a seed for one, or None to take a seed from the operating system."""


@runtime_checkable
class BatchScheme(Protocol):
    """How examples enter the batches of one training run."""

    @property
    def steps(self) -> int:
        """How many batches the run has, empty ones included."""

    @property
    def label(self) -> str:
        """The scheme in two or three words."""

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is promised about the batches, one sentence each; an analysis may use no more."""

    def describe(self) -> str:
        """The scheme in one line, with its numbers and what happens to left-over examples."""

    def batches(self, rng: Randomness = None) -> Iterator[Indices]:
        """The batches of one run, one after the other, each drawn when it is asked for."""


def generator_of(rng: Randomness) -> np.random.Generator:
    """The numpy generator to draw from.

    Holds when: the generator is as unpredictable as the guarantee is to be believed. A seed
    makes a run repeatable, and whoever knows it knows the batches; None takes fresh entropy
    from the operating system. numpy's generators are not cryptographic: against an adversary
    who could reconstruct their state, pass a Generator on top of a secure bit generator.

    >>> int(generator_of(7).integers(10)) == int(generator_of(7).integers(10))
    True
    """
    if isinstance(rng, np.random.Generator):
        return rng
    allowed = "rng must be a numpy Generator, a seed (an integer, at least 0) or None"
    if isinstance(rng, bool) or not (rng is None or isinstance(rng, int | np.integer)):
        raise WrongType(f"{allowed}; got {shown(rng)}. Try numpy.random.default_rng().")
    if rng is not None and rng < 0:
        raise InvalidArgument(f"{allowed}; got {shown(rng)}. Leave the sign out.")
    return np.random.default_rng(rng)


def batches_per_epoch(dataset_size: int, batch_size: int) -> int:
    """How many batches of ``batch_size`` hold ``dataset_size`` examples, the last maybe smaller.

    >>> batches_per_epoch(10, 4)
    3
    """
    return -(-dataset_size // batch_size)


def settle(scheme: object, **counts: int) -> None:
    """Set these fields of a frozen scheme to whole numbers; a batch is no larger than the data set."""
    for name, value in counts.items():
        object.__setattr__(scheme, name, count(hint=MEANINGS[name], **{name: value}))
    dataset_size = getattr(scheme, "dataset_size", None)
    batch_size = getattr(scheme, "batch_size", 1)
    if dataset_size is not None and batch_size > dataset_size:
        hint = "Did you swap the two?"
        raise fault("batch_size", f"at most dataset_size = {dataset_size}", batch_size, hint)


MEANINGS = {
    "dataset_size": "It counts examples.",
    "batch_size": "It counts examples of a batch.",
    "physical_batch_size": "It is the most examples that a batch may hold.",
    "epochs": "It counts passes over the data.",
    "steps": "It counts batches, over all epochs.",
    "steps_per_epoch": "It counts batches of one epoch.",
    "participations": "It counts the batches of an epoch that an example is in.",
}
"""What each count of a scheme counts, as hints of messages say it."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the plural unless the number is 1.

    >>> counted(1, "epoch"), counted(2, "batch", "batches")
    ('1 epoch', '2 batches')
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
