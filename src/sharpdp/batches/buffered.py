"""Batches of a stream that a shuffle buffer mixes, as streaming data loaders make them."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp._validate import invalid
from sharpdp.batches.scheme import Drawer, EpochBatches, Indices, pluralize, validate_counts
from sharpdp.randomness.keyed_stream import KeyedStream
from sharpdp.randomness.permutation import random_order

__all__ = ["BufferedShuffle"]


@dataclass(frozen=True, kw_only=True)
class BufferedShuffle(EpochBatches):
    """Consecutive slices of a stream that goes through a shuffle buffer, anew in every epoch.

    The examples come in their stored order. The first ``buffer_size`` of them fill the buffer; each
    output is the content of a uniformly random slot, which the next example then takes; at the end of the
    stream what is left in the buffer comes out in random order. Batches are slices of the output. So do
    ``shuffle(buffer_size)`` of tf.data and of streaming Hugging Face datasets.

    - Every example is in exactly one batch of every epoch.
    - The example at position i is output at place i - buffer_size + 1 or later, mostly within a few
      buffer sizes: its position tells roughly when it is used.
    - Epochs are drawn independently. The last batch of an epoch may be smaller.

    Holds when: the stored order was fixed without looking at the records, random slots stay secret, and
    training divides by a fixed number in every batch, or by sizes that may be public.

    Args:
        dataset_size: number of examples; 1 to 10^18, and at most 10^8 to draw batches, which takes some
            gigabytes for the order of one epoch.
        batch_size: number of examples in a full batch; 1 to ``dataset_size``.
        epochs: number of passes over the data, 0 or more, for at most 10^18 steps in all.
        buffer_size: number of slots of the buffer, at least 1 (no shuffling at all); one of
            ``dataset_size`` or more is the whole order of `ShuffledBatches`.

    Raises:
        InvalidArgument: a value is out of range.
        WrongType: a value is not a number.

    >>> plan = BufferedShuffle(dataset_size=10, batch_size=4, epochs=2, buffer_size=3)
    >>> plan.steps_per_epoch, plan.steps
    (3, 6)
    >>> plan = BufferedShuffle(dataset_size=5, batch_size=2, epochs=1, buffer_size=1)
    >>> [batch.tolist() for batch in plan.batches(0)]
    [[0, 1], [2, 3], [4]]
    """

    buffer_size: int

    label = "buffered shuffle"

    def _check_own(self) -> None:
        validate_counts(self, buffer_size=self.buffer_size)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        return (
            "Every example is in exactly one batch of every epoch.",
            f"A buffer of {pluralize(self.buffer_size, 'slot')} mixes the stored order; each output is "
            "that of a random slot, which the next example takes.",
            "Epochs are drawn independently.",
            "Batch sizes are fixed; the last of an epoch may be smaller.",
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> BufferedShuffle(
        ...     dataset_size=60_000, batch_size=512, epochs=30, buffer_size=10_000
        ... ).describe()
        'buffered shuffle: 30 epochs of 118 batches, 512 of 60,000 examples each, through a buffer of
         10,000 slots'
        """
        batches = pluralize(self.steps_per_epoch, "batch", "batches")
        sizes = f"{self.batch_size:,} of {pluralize(self.dataset_size, 'example')} each"
        buffer = f"through a buffer of {pluralize(self.buffer_size, 'slot')}"
        return f"{self.label}: {pluralize(self.epochs, 'epoch')} of {batches}, {sizes}, {buffer}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        if self.dataset_size > 10**8:
            hint = "The order of an epoch is held in memory."
            raise invalid("dataset_size", "at most 10^8 to draw batches", self.dataset_size, hint)
        return self.label, self.dataset_size, self.buffer_size

    def _drawer(self, source: KeyedStream) -> Drawer:
        order = lru_cache(maxsize=1)(
            lambda epoch: buffered_order(
                source.derive("epoch", epoch), self.dataset_size, self.buffer_size
            )
        )

        def batch(step: int) -> Indices:
            epoch, number = divmod(step, self.steps_per_epoch)
            first = number * self.batch_size
            return np.sort(order(epoch)[first : first + self.batch_size])

        return batch


def buffered_order(source: KeyedStream, examples: int, slots: int) -> Indices:
    """The order in which a buffer of some slots hands out the examples of a stream.

    A slot that is drawn at output t gets example t + slots; so an output is the example that came when
    its slot was last drawn, or the one that filled it first.

    >>> sorted(buffered_order(KeyedStream(b"k" * 32), 6, 2).tolist())
    [0, 1, 2, 3, 4, 5]
    """
    slots = min(slots, examples)
    drawn = source.below(slots, examples - slots)
    by_slot = np.argsort(drawn, kind="stable")  # the draws of a slot one after the other, in time
    ordered = drawn[by_slot]
    is_first = np.append(True, np.diff(ordered) > 0)[: ordered.size]
    out = np.empty(examples, dtype=np.int64)
    out[by_slot] = np.where(is_first, ordered, np.roll(by_slot, 1) + slots)
    left = np.arange(slots, dtype=np.int64)
    left[drawn] = np.arange(slots, examples, dtype=np.int64)  # the last assignment counts
    last_order = random_order(source.derive("rest"), slots)
    out[examples - slots :] = left[last_order(np.arange(slots, dtype=np.int64))]
    return out
