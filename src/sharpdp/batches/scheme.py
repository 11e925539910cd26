"""What every batch scheme offers, and where its randomness comes from.

A scheme is frozen data. It yields the batches of one training run, and the same object is what
`account` reads. The analysis of a scheme is in ``bounds``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import shown
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["BatchScheme", "Indices", "Randomness", "batches_per_epoch", "generator_of"]

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
