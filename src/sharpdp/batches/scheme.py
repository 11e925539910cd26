"""The interface of batch schemes, and how batches are handed out.

A scheme is frozen data. It yields the batches of one training run, and the same object is what
`account` reads. The analysis of a scheme is in ``bounds``; where random bits come from is in
``source``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import HintedKeywords, count, has_entries, invalid, is_masked, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.randomness.keyed_stream import FEWEST_KEY_BYTES, KEY_BYTES, KeyedStream

__all__ = [
    "WHOLE",
    "PADDING",
    "BatchScheme",
    "ALL_INDEPENDENT",
    "DrawnBatches",
    "EpochBatches",
    "EpochScheme",
    "Drawer",
    "Finder",
    "Indices",
    "MISSED_OR_TWICE",
    "RANDOM_SIZE",
    "Randomness",
    "Shard",
    "batches_per_epoch",
    "by_example",
    "check_key",
    "check_order",
    "checked_shard",
    "different_positions",
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

Finder: TypeAlias = Callable[[Indices], tuple[Indices, Indices]]
"""From positions to their uses: where each example is among the positions, and the step."""

Drawer: TypeAlias = Callable[[int], Indices]
"""From a step to its batch."""

WHOLE: Shard = (0, 1)
"""The only worker."""

PADDING = -1
"""The index that stands for no example in a padded batch."""

STEPS_DONE = "It is the number of steps that are done."

# what several schemes guarantee
ALL_INDEPENDENT = "All these coin flips are independent, between examples and between batches."
MISSED_OR_TWICE = "An example may miss an epoch, and may come twice in one."
RANDOM_SIZE = "The batch size is random; an empty batch is a step, and noise is added in it too."

MEANINGS = {
    "dataset_size": "It counts examples.",
    "batch_size": "It counts examples of a batch.",
    "physical_batch_size": "It is the most examples that a batch may hold.",
    "buffer_size": "It counts slots of the buffer.",
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
        """Number of examples; None if the scheme does not know it."""

    @property
    def expected_batch_size(self) -> float | None:
        """The usual or expected size of a batch, by which `Training` divides sums.

        None if the scheme does not know how many examples there are.
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
                0, is a seed for tests: it can be guessed, and the batches with it. From a
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


class DrawnBatches(HintedKeywords):
    """Base of the schemes that draw batches: the steps of one example, and batches of one size."""

    __slots__ = ()

    label: ClassVar[str]
    """The scheme in two or three words."""

    if (
        TYPE_CHECKING
    ):  # fields of most schemes, of which a dataclass would take a property for a default

        @property
        def steps(self) -> int: ...
        @property
        def dataset_size(self) -> int | None: ...

    def batches(
        self, rng: Randomness = None, *, start: int = 0, shard: Shard = WHOLE
    ) -> Iterator[Indices]:
        """The batches of one run, empty ones included; see `BatchScheme.batches` for the arguments."""
        drawer = self._drawer(self._stream(rng, start, shard))
        return iterate_batches(drawer, self.steps, start, shard)

    def _stream(self, rng: Randomness, start: int = 0, shard: Shard = WHOLE) -> KeyedStream:
        """The random bits of a run, which settle its batches and the steps of its examples."""
        return keyed_stream_for(rng, *self._drawn_by(), start=start, shard=shard)

    def _drawn_by(self) -> tuple[str | int, ...]:
        """The data besides the key that random bits depend on; an error if no batches can be drawn."""
        raise NotImplementedError

    def _drawer(self, source: KeyedStream) -> Drawer:
        """The function that draws the batch of a step."""
        raise NotImplementedError

    def steps_of(self, index: int, rng: Randomness = None) -> Indices:
        """The steps whose batches hold one example, if `batches` draws with the same key.

        What a job needs that reads the data once and writes every record to its batches. Schemes of which
        every epoch is an order, and balls-and-bins, find them without drawing the batches; others draw
        all of them.

        Args:
            index: position of the example in the data set.
            rng: the key or the seed that `batches` takes; it must be given unless nothing is drawn.

        Returns:
            The steps, counted from 0, ascending; a step in which the example comes several times is there
            as often.

        Raises:
            InvalidArgument: ``index`` is not a position in the data set, ``rng`` is no key or seed, or
                the scheme has no ``dataset_size``.
            WrongType: ``index`` or ``rng`` has the wrong type.
        """
        return self.steps_of_many(np.array([self._position(index)]), rng)[1]

    def steps_of_many(self, indices: Indices, rng: Randomness = None) -> tuple[Indices, Indices]:
        """The steps of many examples at once: the assignment that a job over all records needs.

        Args:
            indices: positions of different examples in the data set.
            rng: the key or the seed that `batches` takes; it must be given unless nothing is drawn.

        Returns:
            Two arrays of one length: for each use of an example, where the example is in ``indices``, and
            the step. They ascend by the first, then by the second.

        Raises:
            InvalidArgument: ``indices`` are not different positions in the data set, ``rng`` is no key or
                seed, or the scheme has no ``dataset_size``.
            WrongType: ``indices`` are not whole numbers, or ``rng`` has the wrong type.

        >>> from sharpdp.batches import DeterministicBatches
        >>> plan = DeterministicBatches(dataset_size=6, batch_size=2, epochs=2)
        >>> where, steps = plan.steps_of_many([5, 0])
        >>> where.tolist(), steps.tolist()
        ([0, 0, 1, 1], [2, 5, 0, 3])
        """
        examples = self._positions(indices)
        if self._draws:
            check_key(rng)
        if self.steps == 0:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return self._finder(rng)(examples)

    @property
    def finds_steps(self) -> bool:
        """Whether the steps of an example are found without drawing the batches of all steps."""
        return False

    _draws = True

    def _finder(self, rng: Randomness) -> Finder:
        """A function of checked positions that gives what `steps_of_many` returns.

        What it works out for one call serves the next.
        """

        def found(examples: Indices) -> tuple[Indices, Indices]:
            order = np.argsort(examples)
            ascending = examples[order]
            where, steps = [], []
            for step, batch in enumerate(self.batches(rng)):
                first, last = np.searchsorted(batch, (ascending[0], ascending[-1] + 1))
                inside = batch[first:last]
                # each in range: the last is not passed
                indices = np.searchsorted(ascending, inside)
                hits = order[indices[ascending[indices] == inside]]
                where.append(hits)
                steps.append(np.full(hits.size, step, dtype=np.int64))
            return by_example(np.concatenate(where), np.concatenate(steps))

        return found

    @property
    def expected_batch_size(self) -> float | None:
        """Number of examples in a full batch; the last of an epoch may hold fewer."""
        largest = self.largest_batch_size
        return None if largest is None else float(largest)

    @property
    def largest_batch_size(self) -> int | None:
        """The most examples that a batch can hold; None if only chance limits it."""
        size: int = self.batch_size  # type: ignore[attr-defined]
        return size

    def overflow(self, physical_batch_size: int) -> float:
        """Not less than the chance that some batch of the run has more examples than this.

        The price of a fixed physical size. Whatever is done with a batch that does not fit (leaving
        examples out, splitting it, giving up), a run that is (epsilon, delta)-DP without a limit is
        (epsilon, delta + (1 + e^epsilon) overflow)-DP with it: it differs from that run with no larger
        chance, in either data set. `TruncatedPoissonBatches` are accounted more closely.

        Args:
            physical_batch_size: number of places, at least 1.

        Returns:
            0 if every batch fits; else the number of steps times Chernoff's bound on the binomial tail.

        Raises:
            InvalidArgument: ``physical_batch_size`` is below 1, or the scheme has no ``dataset_size``.
            WrongType: ``physical_batch_size`` is not a number.
        """
        slots = count(physical_batch_size=physical_batch_size, hint=MEANINGS["physical_batch_size"])
        largest = self.largest_batch_size
        if largest is not None:
            return 0.0 if largest <= slots else 1.0
        trials, rate = self._size_law()
        share = (slots + 1) / trials
        if share > 1.0 or rate == 0.0 or self.steps == 0:
            return 0.0
        if share <= rate:
            return 1.0
        # Chernoff: P[Bin(n, q) >= n s] <= exp(-n KL(s || q)); the margin covers rounding
        gain = share * math.log(share / rate)
        if share < 1.0:
            gain += (1.0 - share) * (math.log1p(-share) - math.log1p(-rate))
        exponent = math.log(self.steps) - trials * gain * (1.0 - 1e-9)
        return min(math.exp(min(exponent, 0.0)) * (1.0 + 1e-9), 1.0)

    def padded(
        self, indices: Indices, *, physical_batch_size: int | None = None, workers: int = 1
    ) -> Indices:
        """A batch in as many places as physical_batch_size, the last ones -1 for no example.

        What has a negative index gets weight 0: ``padded(batch) >= 0`` is the mask. What a limit costs
        is told by `overflow`.

        Args:
            indices: a batch of this scheme, or one worker's part of it: positions in the data set.
            physical_batch_size: number of places, at least 1; None (default) for the most that a batch
                can hold, if the scheme limits it.
            workers: number of workers that share each batch, at least 1 (default).

        Returns:
            The indices, followed by -1 up to ceil(physical_batch_size / workers) places.

        Raises:
            InvalidArgument: there are more indices than places, ``physical_batch_size`` is missing where
                only chance limits a batch, or a number is below 1.
            WrongType: ``indices`` are not positions in the data set, or a number is none.

        >>> from sharpdp.batches import FixedSizeBatches
        >>> plan = FixedSizeBatches(dataset_size=10, batch_size=2, steps=1)
        >>> plan.padded([3, 8], physical_batch_size=4).tolist()
        [3, 8, -1, -1]
        """
        size = self.largest_batch_size if physical_batch_size is None else physical_batch_size
        if size is None:
            raise InvalidArgument(
                "physical_batch_size must be given, since only chance limits a batch; got None. "
                "overflow(size) tells how likely a batch is larger."
            )
        whole = count(physical_batch_size=size, hint=MEANINGS["physical_batch_size"])
        share = -(-whole // count(workers=workers))
        slots = np.full(share, PADDING, dtype=np.int64)
        batch = tuple(indices) if has_entries(indices) else None
        if batch is None or not all(_is_place(index, self.dataset_size) for index in batch):
            raise WrongType(
                f"indices must be whole numbers, those of a batch; got {short_repr(indices)}."
            )
        if len(batch) > share:
            allowed = f"at most {share} examples"
            raise invalid("indices", allowed, len(batch), "Is it a batch of this scheme?")
        slots[: len(batch)] = batch
        return slots

    def _size_law(self) -> tuple[int, float]:
        """Trials and rate of a binomial law that no batch size exceeds, where chance alone limits it."""
        size = self.expected_batch_size
        if self.dataset_size is None or size is None:
            raise InvalidArgument(
                "dataset_size must be given to tell how large batches are; got None."
            )
        return self.dataset_size, size / self.dataset_size

    def _examples(self) -> int:
        """How many examples there are, if the scheme was told."""
        if self.dataset_size is None:
            raise InvalidArgument("dataset_size must be given to draw batches; got None.")
        return self.dataset_size

    def _position(self, index: int) -> int:
        """The position of an example, checked."""
        dataset_size = self._examples()
        example = count(least=0, index=index, hint="It is a position in the data set.")
        if example >= dataset_size:
            raise invalid("index", f"below dataset_size = {dataset_size}", example)
        return example

    def _positions(self, indices: object) -> Indices:
        """Positions of examples, checked."""
        return different_positions(indices, self._examples())


@dataclass(frozen=True, kw_only=True)
class EpochBatches(DrawnBatches):
    """Base of the schemes that use the examples once in every epoch, in batches of about one size."""

    dataset_size: int
    batch_size: int
    epochs: int

    def __post_init__(self) -> None:
        """Check the three counts, then what else a scheme has, then the steps."""
        validate_counts(
            self, dataset_size=self.dataset_size, batch_size=self.batch_size, epochs=self.epochs
        )
        self._check_own()
        count(least=0, steps=self.steps, hint="That is epochs times batches per epoch.")

    def _check_own(self) -> None:
        """Check the arguments that only this scheme has."""

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch: dataset_size / batch_size, rounded up."""
        return batches_per_epoch(self.dataset_size, self.batch_size)

    @property
    def steps(self) -> int:
        """Number of batches in the run: epochs * steps_per_epoch."""
        return self.epochs * self.steps_per_epoch


def _is_place(value: object, dataset_size: int | None) -> bool:
    is_whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_whole and value >= 0 and (dataset_size is None or value < dataset_size)  # type: ignore[operator]


def different_positions(indices: object, dataset_size: int) -> Indices:
    """Positions of at least one example, each below the size and there once.

    >>> different_positions([2, 0], 3).tolist()
    [2, 0]
    """
    positions = np.zeros(0)
    if has_entries(indices) and not is_masked(indices):
        with suppress(ValueError, OverflowError):  # ragged
            positions = np.asarray(indices)
    if positions.ndim != 1 or positions.dtype.kind not in "iu" or positions.size == 0:
        raise WrongType(
            "indices must be whole numbers, positions of one example or more; got "
            f"{short_repr(indices)}."
        )
    least, most = int(positions.min()), int(positions.max())
    if least < 0 or most >= dataset_size:
        got = least if least < 0 else most
        raise invalid("indices", f"from 0 to below dataset_size = {dataset_size}", got)
    if positions.size > 1 and not np.all(np.diff(np.sort(positions)) > 0):
        raise invalid("indices", "different from each other", indices)
    return positions.astype(np.int64)


def by_example(where: Indices, steps: Indices) -> tuple[Indices, Indices]:
    """The two arrays of `DrawnBatches.steps_of_many`, put in order."""
    order = np.lexsort((steps, where))
    return where[order], steps[order]


def check_key(rng: object) -> None:
    """Refuse what draws a new key each time: it tells nothing about a run."""
    if not isinstance(rng, bytes | int | np.integer):
        raise InvalidArgument(
            f"rng must be the key (bytes) or the seed of the run; got {short_repr(rng)}. "
            f"Keep a key: secrets.token_bytes({KEY_BYTES})."
        )


def keyed_stream_for(
    rng: Randomness, *labels: str | int, start: int = 0, shard: Shard = WHOLE
) -> KeyedStream:
    """The source of random bits of one run of a scheme, which the labels describe.

    A run that starts later, or is shared, must be told its key: no other run could be the same.

    >>> keyed_stream_for(7, "scheme").integer(20) == keyed_stream_for(7, "scheme").integer(20)
    True
    """
    is_part = count(least=0, start=start, hint=STEPS_DONE) > 0 or checked_shard(shard) != WHOLE
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
    worker, workers = checked_shard(shard)
    first = count(least=0, start=start, hint=STEPS_DONE)
    if first > steps:
        raise invalid("start", f"at most steps = {steps}", first, "The run has no more.")
    return (np.ascontiguousarray(drawn(step)[worker::workers]) for step in range(first, steps))


def checked_shard(shard: object) -> Shard:
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


def validate_counts(
    scheme: object, may_be_zero: Container[str] = ("epochs", "steps"), **counts: int
) -> None:
    """Set these fields of a frozen scheme to whole numbers; a batch is no larger than the data set.

    A run may be of no steps; other counts are at least 1 unless they are listed.
    """
    for name, value in counts.items():
        least = 0 if name in may_be_zero else 1
        object.__setattr__(scheme, name, count(least=least, hint=MEANINGS[name], **{name: value}))
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
