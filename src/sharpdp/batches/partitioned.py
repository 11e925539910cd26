"""Schemes that split the data set into batches in each epoch: deterministic batches."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sharpdp._validate import count, fault
from sharpdp.batches.scheme import Indices, Randomness, batches_per_epoch, generator_of

__all__ = ["DeterministicBatches"]


@dataclass(frozen=True, kw_only=True)
class DeterministicBatches:
    """Consecutive slices of the data set in its stored order, the same in every epoch.

    - Every example is in exactly one batch of every epoch.
    - An example's batch depends on its position only: not on other examples, not on chance.
    - Left-over examples form a last, smaller batch of every epoch; none is dropped.

    Holds when: the order of the data set was fixed without looking at the records, and training
    divides by a fixed number in every batch, or by sizes that may be public.

    >>> plan = DeterministicBatches(dataset_size=5, batch_size=2, epochs=1)
    >>> [batch.tolist() for batch in plan.batches()]
    [[0, 1], [2, 3], [4]]
    """

    dataset_size: int
    batch_size: int
    epochs: int

    def __post_init__(self) -> None:
        """Check the three counts."""
        dataset_size = count(dataset_size=self.dataset_size, hint="It counts examples.")
        batch_size = count(batch_size=self.batch_size, hint="It counts examples of a batch.")
        epochs = count(epochs=self.epochs, hint="It counts passes over the data.")
        if batch_size > dataset_size:
            hint = "Did you swap the two?"
            raise fault("batch_size", f"at most dataset_size = {dataset_size}", batch_size, hint)
        object.__setattr__(self, "dataset_size", dataset_size)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "epochs", epochs)
        count(steps=self.steps, hint="That is epochs times batches per epoch.")

    @property
    def steps(self) -> int:
        """How many batches the run has: epochs * ceil(dataset_size / batch_size)."""
        return self.epochs * batches_per_epoch(self.dataset_size, self.batch_size)

    @property
    def label(self) -> str:
        """The scheme in two words."""
        return "deterministic batches"

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is promised about the batches."""
        return (
            "Every example is in exactly one batch of every epoch.",
            "An example's batch depends on its position only, not on other examples or chance.",
            self._left_over().capitalize() + ".",
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> DeterministicBatches(dataset_size=60_000, batch_size=512, epochs=30).describe()
        'deterministic batches: 30 epochs of 118 batches, 512 of 60000 examples each; the last
         batch of every epoch holds the 96 examples left over'
        """
        batches = batches_per_epoch(self.dataset_size, self.batch_size)
        sizes = f"{self.batch_size} of {self.dataset_size} examples each"
        epochs = f"{self.epochs} epoch{'s' if self.epochs > 1 else ''}"
        groups = f"{batches} batch{'es' if batches > 1 else ''}"
        return f"{self.label}: {epochs} of {groups}, {sizes}; {self._left_over()}"

    def batches(self, rng: Randomness = None) -> Iterator[Indices]:
        """The batches of one run; ``rng`` is there for the sake of other schemes and not used."""
        generator_of(rng)
        return (
            np.arange(start, min(start + self.batch_size, self.dataset_size), dtype=np.int64)
            for _ in range(self.epochs)
            for start in range(0, self.dataset_size, self.batch_size)
        )

    def _left_over(self) -> str:
        rest = self.dataset_size % self.batch_size
        if rest == 0:
            return "no example is left over"
        examples = f"{rest} example{'s' if rest > 1 else ''}"
        return f"the last batch of every epoch holds the {examples} left over"
