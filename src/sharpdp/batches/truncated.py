"""Poisson batches that are cut to a fixed physical size: for hardware that wants equal shapes."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sharpdp._validate import fault
from sharpdp.batches.independent import settled_steps
from sharpdp.batches.scheme import Indices, Randomness, counted, settle
from sharpdp.errors import Unsupported

__all__ = ["PADDING", "TruncatedPoissonBatches"]

PADDING = -1
"""The index that stands for no example in a padded batch."""


@dataclass(frozen=True, init=False)
class TruncatedPoissonBatches:
    """Poisson batches of which at most ``physical_batch_size`` examples, chosen at random, are kept.

    ``batch_size`` is the expected size before truncation: every example is drawn with probability
    sample_rate = batch_size / dataset_size. Give ``epochs``, for steps = epochs *
    ceil(dataset_size / batch_size), or ``steps``.

    - Every example is drawn for every batch by a coin flip of its own; all are independent.
    - If more than physical_batch_size examples are drawn, a uniformly random choice of so many of
      them is kept; a batch is never larger.
    - A smaller batch is filled up by `padded` with places that count for nothing; an empty batch is
      a step like any other.
    - No example is left over: one may miss an epoch, and may come twice in one.

    Holds when: training adds its noise in every step, divides by a fixed number, and gives padding
    no weight. Under zero-out the number of examples is public, and a ghost takes its place in a
    batch like any other record.

    >>> plan = TruncatedPoissonBatches(
    ...     dataset_size=1000, batch_size=10, epochs=2, physical_batch_size=16
    ... )
    >>> plan.sample_rate, plan.steps
    (0.01, 200)
    """

    dataset_size: int
    batch_size: int
    physical_batch_size: int
    steps: int

    def __init__(
        self,
        *,
        dataset_size: int,
        batch_size: int,
        physical_batch_size: int,
        steps: int | None = None,
        epochs: int | None = None,
    ) -> None:
        """Check the sizes, and settle the steps from either form."""
        settle(self, dataset_size=dataset_size, batch_size=batch_size)
        settle(self, physical_batch_size=physical_batch_size)
        if not self.batch_size <= self.physical_batch_size <= self.dataset_size:
            allowed = f"from batch_size = {batch_size} to dataset_size = {dataset_size}"
            hint = "Below the expected size about every second batch would be cut."
            raise fault("physical_batch_size", allowed, self.physical_batch_size, hint)
        total = settled_steps(steps, self.dataset_size, self.batch_size, epochs)
        object.__setattr__(self, "steps", total)

    @property
    def sample_rate(self) -> float:
        """The probability with which an example is drawn, before truncation."""
        return self.batch_size / self.dataset_size

    @property
    def label(self) -> str:
        """The scheme in three words."""
        return "truncated Poisson batches"

    @property
    def guarantees(self) -> tuple[str, ...]:
        """What is promised about the batches."""
        return (
            f"Every example is drawn for every batch with probability {self.sample_rate:.12g}.",
            "All these coin flips are independent, between examples and between batches.",
            f"At most {self.physical_batch_size} of the examples drawn are kept, chosen at random.",
            "Places that stay empty are padding; noise is added in every step.",
            "No example is left over: one may miss an epoch, and may come twice in one.",
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> TruncatedPoissonBatches(
        ...     dataset_size=1000, batch_size=10, epochs=2, physical_batch_size=16
        ... ).describe()
        'truncated Poisson batches: 200 steps at sample rate 0.01 of 1000 examples, at most 16 kept,
         no example left over'
        """
        rate = f"sample rate {self.sample_rate:.12g} of {self.dataset_size} examples"
        kept = f"at most {self.physical_batch_size} kept"
        return (
            f"{self.label}: {counted(self.steps, 'step')} at {rate}, {kept}, no example left over"
        )

    def batches(self, rng: Randomness = None) -> Iterator[Indices]:
        """The batches of one run."""
        raise Unsupported("truncated Poisson batches are not drawn yet.")

    def padded(self, batch: Indices) -> Indices:
        """The batch with as many places as physical_batch_size, the last ones -1 for no example.

        >>> plan = TruncatedPoissonBatches(
        ...     dataset_size=10, batch_size=2, steps=1, physical_batch_size=4
        ... )
        >>> plan.padded([3, 8]).tolist()
        [3, 8, -1, -1]
        """
        places = np.full(self.physical_batch_size, PADDING, dtype=np.int64)
        places[: len(batch)] = batch
        return places
