"""What every batch scheme offers, and how its batches are handed out.

A scheme is frozen data. It yields the batches of one training run, and the same object is what
`account` reads. The analysis of a scheme is in ``bounds``; where random bits come from is in
``source``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import count, invalid, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.randomness.keyed_stream import FEWEST_KEY_BYTES, KEY_BYTES, KeyedStream

__all__ = [
    "WHOLE",
    "BatchScheme",
    "EpochScheme",
    "Indices",
    "Randomness",
    "Shard",
    "batches_per_epoch",
    "check_order",
    "pluralize",
    "iterate_batches",
    "validate_counts",
    "keyed_stream_for",
]

Indices: TypeAlias = NDArray[np.int64]
"""The examples of one batch: positions in the data set, ascending; each at most once unless drawn with
replacement."""

Randomness: TypeAlias = "bytes | int | np.random.Generator | None"
"""A key, a seed for tests, a numpy generator to draw a key from, or None for a key that is nobody's."""

Shard: TypeAlias = "tuple[int, int]"
"""A worker and how many there are: ``(0, 4)`` is the first of four."""

WHOLE: Shard = (0, 1)
"""The only worker."""

STEPS_DONE = "It is the number of steps that are done."


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


@runtime_checkable
class BatchScheme(Protocol):
    """How examples enter the batches of one training run."""

    @property
    def steps(self) -> int:
        """Number of batches in the run, empty ones included."""

    @property
    def dataset_size(self) -> int | None:
        """Number of examples; None where the scheme was not told."""

    @property
    def expected_batch_size(self) -> float | None:
        """The usual or expected size of a batch, by which `Training` divides sums.

        None where the scheme was not told how many examples there are.
        """

    @property
    def label(self) -> str:
        """The scheme in two or three words."""

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each; an analysis may use no more."""

    def describe(self) -> str:
        """The scheme in one line, with its numbers and what happens to an incomplete batch."""

    def batches(
        self, rng: Randomness = None, *, start: int = 0, shard: Shard = WHOLE
    ) -> Iterator[Indices]:
        """The batches of one run from step ``start`` on, each drawn when it is asked for.

        Args:
            rng: a secret key of at least 16 bytes, such as ``secrets.token_bytes(32)``. It settles all
                batches: the same key gives the same ones, from any step on and on any machine. None
                (default) takes a key from the operating system and forgets it. A whole number, at least
                0, is a seed for tests: it can be guessed, and whoever knows it knows the batches. From a
                numpy generator a key is drawn.
            start: number of steps that are done already; 0 (default) to `steps`. Above 0, ``rng`` must
                be a key or a seed.
            shard: ``(worker, workers)``, counted from 0, for one worker's part of every batch; all parts
                together are the batch, and their sizes differ by at most one. ``(0, 1)`` (default) is
                the whole batch; any other needs a key or a seed.

        Returns:
            An iterator over `steps` - start arrays: positions in the data set, ascending, each at most
            once unless it is drawn with replacement.

        Raises:
            InvalidArgument: a key is too short or a seed out of range; a run that starts later or is
                shared has neither; ``start`` or ``shard`` is out of range; or the scheme has no
                ``dataset_size``, or one that is too large to draw batches.
            WrongType: ``rng``, ``start`` or ``shard`` has the wrong type.
        """


@runtime_checkable
class EpochScheme(BatchScheme, Protocol):
    """A batch scheme that draws the batches of an epoch together."""

    @property
    def epochs(self) -> int:
        """Number of passes over the data."""


def keyed_stream_for(
    rng: Randomness, *labels: str | int, start: int = 0, shard: Shard = WHOLE
) -> KeyedStream:
    """The source of random bits of one run of a scheme, which the labels describe.

    A run that starts later, or is shared, must be told its key: no other run could be the same.

    >>> keyed_stream_for(7, "scheme").integer(20) == keyed_stream_for(7, "scheme").integer(20)
    True
    """
    is_part = count(least=0, start=start, hint=STEPS_DONE) > 0 or _shared(shard) != WHOLE
    if is_part and not isinstance(rng, bytes | int | np.integer):
        raise InvalidArgument(
            f"rng must be a key (bytes) or a seed to start later or to share a run; got "
            f"{short_repr(rng)}. Keep a key: secrets.token_bytes({KEY_BYTES})."
        )
    return KeyedStream(_key(rng)).derive(*labels)


def _key(rng: Randomness) -> bytes:
    """The key itself, or one that is drawn or made from a seed."""
    allowed = (
        f"rng must be a key (bytes, at least {FEWEST_KEY_BYTES}), a seed (an integer, at least 0), "
        "a numpy Generator or None"
    )
    if rng is None:
        import secrets

        return secrets.token_bytes(KEY_BYTES)
    if isinstance(rng, bytes):
        if len(rng) < FEWEST_KEY_BYTES:
            raise InvalidArgument(
                f"{allowed}; got {pluralize(len(rng), 'byte')}. Try secrets.token_bytes({KEY_BYTES})."
            )
        return b"key" + rng
    if isinstance(rng, int | np.integer) and not isinstance(rng, bool):
        if rng < 0:
            raise InvalidArgument(f"{allowed}; got {short_repr(rng)}. Leave the sign out.")
        # longer seeds are a mistake, and Python does not write them out
        if int(rng).bit_length() > 4096:
            raise InvalidArgument(f"{allowed}; got {short_repr(rng)}. Try a smaller seed.")
        return b"seed" + str(int(rng)).encode()
    if isinstance(rng, np.random.Generator):
        return rng.bytes(KEY_BYTES)
    raise WrongType(f"{allowed}; got {short_repr(rng)}. Try secrets.token_bytes({KEY_BYTES}).")


def iterate_batches(
    drawn: Callable[[int], Indices], steps: int, start: int, shard: Shard
) -> Iterator[Indices]:
    """Iterator over one worker's part of each batch from step ``start`` on: every ``workers``-th example.

    >>> [part.tolist() for part in iterate_batches(lambda step: np.arange(5) + step, 3, 1, (1, 2))]
    [[2, 4], [3, 5]]
    """
    worker, workers = _shared(shard)
    first = count(least=0, start=start, hint=STEPS_DONE)
    if first > steps:
        raise invalid("start", f"at most steps = {steps}", first, "The run has no more.")
    return (np.ascontiguousarray(drawn(step)[worker::workers]) for step in range(first, steps))


def _shared(shard: object) -> Shard:
    """The worker and the number of workers, checked."""
    if not isinstance(shard, tuple) or len(shard) != len(WHOLE):
        raise WrongType(
            f"shard must be a worker and the number of workers; got {short_repr(shard)}. Try (0, 1)."
        )
    workers = count(workers=shard[1], hint="It is the second entry of shard.")
    worker = count(least=0, worker=shard[0], hint="It is the first entry of shard.")
    if worker >= workers:
        raise invalid("worker", f"below workers = {workers}", worker, "Workers count from 0.")
    return worker, workers


def batches_per_epoch(dataset_size: int, batch_size: int) -> int:
    """Number of batches of ``batch_size`` in ``dataset_size`` examples, the last maybe smaller.

    >>> batches_per_epoch(10, 4)
    3
    """
    return -(-dataset_size // batch_size)


def validate_counts(scheme: object, **counts: int) -> None:
    """Set these fields of a frozen scheme to whole numbers; a batch is no larger than the data set."""
    for name, value in counts.items():
        object.__setattr__(scheme, name, count(hint=MEANINGS[name], **{name: value}))
    dataset_size = getattr(scheme, "dataset_size", None)
    batch_size = getattr(scheme, "batch_size", 1)
    if dataset_size is not None and batch_size > dataset_size:
        hint = "Did you swap the two?"
        raise invalid("batch_size", f"at most dataset_size = {dataset_size}", batch_size, hint)


def check_order(order: object) -> None:
    """Refuse an order of the epochs that is neither redrawn nor kept."""
    allowed = "order must be 'redrawn' or 'kept'"
    if not isinstance(order, str):
        raise WrongType(f"{allowed}; got {short_repr(order)}.")
    if order not in ("redrawn", "kept"):
        raise InvalidArgument(f"{allowed}; got {order!r}.")


def pluralize(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun, in the plural unless the number is 1.

    >>> pluralize(1, "epoch"), pluralize(2000, "batch", "batches")
    ('1 epoch', '2,000 batches')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
