"""Schemes that cut an order of the data set into slices: deterministic and shuffled batches."""

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from sharpdp._validate import count, flag, invalid, short_repr
from sharpdp.batches.scheme import (
    WHOLE,
    Drawer,
    EpochBatches,
    Finder,
    Indices,
    Randomness,
    Shard,
    batches_per_epoch,
    by_example,
    check_order,
    pluralize,
)
from sharpdp.errors import WrongType
from sharpdp.randomness.keyed_stream import KeyedStream
from sharpdp.randomness.permutation import orderable, random_order, random_places

__all__ = ["DeterministicBatches", "ShuffledBatches"]


@dataclass(frozen=True, kw_only=True)
class DeterministicBatches(EpochBatches):
    """Consecutive slices of the data set in its stored order, the same in every epoch.

    - Every example is in exactly one batch of every epoch.
    - An example's batch depends on its position only: not on other examples, not on chance.
    - The last batch of every epoch may be smaller; no example is dropped.

    Orders that follow from a known seed hide no more than the stored one, and cost the same. ``seed``
    says so of a run whose loader shuffled; `sharpdp.integrations.torch.scheme_of` finds it. Such orders
    differ from epoch to epoch, so `CorrelatedNoise` and `LastIterate` refuse them. `batches` does not
    draw them: it takes the stored order.

    Holds when: the order of the data set was fixed without looking at the records, and training
    divides by a fixed number in every batch, or by sizes that may be public. With a seed, noise does not
    follow from it.

    Args:
        dataset_size: number of examples; 1 to 10^18.
        batch_size: number of examples in a full batch; 1 to ``dataset_size``.
        epochs: number of passes over the data, 0 or more, for at most 10^18 steps in all.
        seed: the known seed from which the orders of a run followed, -2^63 to 2^63 - 1; None (default)
            for the stored order. Schemes that differ in it only are equal.

    Raises:
        InvalidArgument: a value is out of range.
        WrongType: a value is not a number.

    >>> plan = DeterministicBatches(dataset_size=5, batch_size=2, epochs=1)
    >>> [batch.tolist() for batch in plan.batches()]
    [[0, 1], [2, 3], [4]]
    """

    seed: int | None = field(default=None, compare=False)

    label = "deterministic batches"

    def __post_init__(self) -> None:
        """Check the three counts and the seed."""
        super().__post_init__()
        if self.seed is None:
            return
        if isinstance(self.seed, bool) or not isinstance(self.seed, int):
            raise WrongType(f"seed must be a whole number or None; got {short_repr(self.seed)}.")
        if not -(2**63) <= self.seed < 2**63:
            raise invalid("seed", "from -2^63 to 2^63 - 1", self.seed)

    def __repr__(self) -> str:
        """The call that makes it, without a seed that there is not."""
        names = ("dataset_size", "batch_size", "epochs", *(() if self.seed is None else ("seed",)))
        arguments = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__name__}({arguments})"

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        decides = "" if self.seed is None else f" and the known seed {self.seed}"
        return (
            "Every example is in exactly one batch of every epoch.",
            f"An example's batch depends on its position{decides} only, not on other examples or chance.",
            *_sentence(_incomplete_batch(self)),
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> DeterministicBatches(dataset_size=60_000, batch_size=512, epochs=30).describe()
        'deterministic batches: 30 epochs of 118 batches, 512 of 60,000 examples each; the last
         batch of every epoch holds the remaining 96 examples'
        """
        order = (
            "" if self.seed is None else f", in orders that follow from the known seed {self.seed}"
        )
        return f"{self.label}: {_slices(self)}{order}{_incomplete_batch(self)}"

    def _stream(self, rng: Randomness, start: int = 0, shard: Shard = WHOLE) -> KeyedStream:
        """Checked and not used, so a run may start later or be shared without a key."""
        return super()._stream(rng)

    def _drawn_by(self) -> tuple[str | int, ...]:
        return (self.label,)

    def _drawer(self, source: KeyedStream) -> Drawer:
        return lambda step: _places(self, step)

    @property
    def finds_steps(self) -> bool:
        """True: an example's place is its position."""
        return True

    _draws = False

    def _finder(self, rng: Randomness) -> Finder:
        self._stream(rng)

        def found(examples: Indices) -> tuple[Indices, Indices]:
            return _in_every_epoch(self, examples // self.batch_size)

        return found


@dataclass(frozen=True, kw_only=True)
class ShuffledBatches(EpochBatches):
    """Consecutive slices of the data set in a random order, as most training loops take them.

    - Every example is in exactly one batch of every epoch (at most one if some are dropped).
    - Every order of the examples is equally likely; redrawn orders are independent.
    - Batch sizes are fixed. Batches are not independent of each other, and an example's batch
      is not independent of the batches of other examples.
    - To draw them, an order of up to 2^20 examples is held; one of more is computed where it is needed,
      from some megabytes of tables for 10^9 examples.

    Holds when: the order stays secret, and training divides by a fixed number in every batch, or by
    sizes that may be public.

    Args:
        dataset_size: number of examples; 1 to 10^18, and at most 10^13 to draw batches.
        batch_size: number of examples in a full batch; 1 to ``dataset_size``.
        epochs: number of passes over the data, 0 or more, for at most 10^18 steps in all.
        order: "redrawn" (default) draws a new order for every epoch, "kept" one for the whole run.
        drop_last: whether to leave out the smaller batch with which every epoch ends if ``batch_size``
            does not divide the number of examples, as torch's ``DataLoader`` can; False by default.
        left_out: number of random examples that sit out every epoch; 0 by default, and at most
            ``dataset_size - batch_size``. One is enough for a far smaller epsilon under zero-out
            (docs/proofs/vacant-seat.md) and costs nothing in training.

    Raises:
        InvalidArgument: a count is out of range, or ``order`` is neither of the two words.
        WrongType: a count is not a number, ``order`` is not a string, or ``drop_last`` is not a bool.

    >>> plan = ShuffledBatches(dataset_size=10, batch_size=4, epochs=2)
    >>> plan.steps_per_epoch, plan.steps
    (3, 6)
    >>> ShuffledBatches(dataset_size=10, batch_size=4, epochs=2, drop_last=True).steps
    4
    """

    order: str = "redrawn"
    drop_last: bool = False
    left_out: int = 0

    label = "shuffled batches"

    def _check_own(self) -> None:
        check_order(self.order)
        flag(drop_last=self.drop_last)
        if count(left_out=self.left_out, least=0) > self.dataset_size - self.batch_size:
            raise invalid(
                "left_out",
                f"at most dataset_size - batch_size = {self.dataset_size - self.batch_size:,}",
                self.left_out,
                "The other examples have to fill a batch.",
            )

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch: examples_per_epoch / batch_size, rounded up."""
        return batches_per_epoch(self.examples_per_epoch, self.batch_size)

    @property
    def examples_per_epoch(self) -> int:
        """Number of examples that take part in an epoch; the others are left out at random.

        >>> ShuffledBatches(dataset_size=12, batch_size=4, epochs=1, left_out=1).examples_per_epoch
        11
        """
        examples = self.dataset_size - self.left_out
        return examples - examples % self.batch_size if self.drop_last else examples

    @property
    def participations(self) -> int:
        """In how many batches of an epoch an example is at most."""
        return 1

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        everybody = self.examples_per_epoch == self.dataset_size
        often = "exactly" if everybody else "at most"
        again = {
            "redrawn": "it is drawn anew for every epoch, independently.",
            "kept": "it is drawn once and kept for all epochs.",
        }
        return (
            f"Every example is in {often} one batch of every epoch.",
            f"Every order of the examples is equally likely; {again[self.order]}",
            "Batch sizes are fixed; which examples share a batch is random.",
            *_sentence(_incomplete_batch(self)),
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> ShuffledBatches(dataset_size=60_000, batch_size=512, epochs=30).describe()
        'shuffled batches: 30 epochs of 118 batches, 512 of 60,000 examples each, order redrawn
         in every epoch; the last batch of every epoch holds the remaining 96 examples'
        """
        order = {"redrawn": "order redrawn in every epoch", "kept": "one order for all epochs"}
        return f"{self.label}: {_slices(self)}, {order[self.order]}{_incomplete_batch(self)}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        return self.label, orderable(self.dataset_size), self.batch_size

    def _drawer(self, source: KeyedStream) -> Drawer:
        order = lru_cache(maxsize=1)(
            lambda epoch: random_order(source.derive("epoch", epoch), self.dataset_size)
        )

        def batch(step: int) -> Indices:
            epoch = 0 if self.order == "kept" else step // self.steps_per_epoch
            return np.sort(order(epoch)(_places(self, step)))

        return batch

    @property
    def finds_steps(self) -> bool:
        """True: an example has its place in every order."""
        return True

    def _finder(self, rng: Randomness) -> Finder:
        source = self._stream(rng)
        epochs = 1 if self.order == "kept" else self.epochs

        def found(examples: Indices) -> tuple[Indices, Indices]:
            where, steps = [], []
            for epoch in range(epochs):
                order = source.derive("epoch", epoch)
                positions = random_places(order, self.dataset_size)(examples)
                taking_part = np.flatnonzero(positions < self.examples_per_epoch)
                where.append(taking_part)
                first = epoch * self.steps_per_epoch
                steps.append(first + positions[taking_part] // self.batch_size)
            if self.order == "kept":
                inside, uses = where[0], _in_every_epoch(self, steps[0])
                return inside[uses[0]], uses[1]
            return by_example(np.concatenate(where), np.concatenate(steps))

        return found


def _in_every_epoch(
    scheme: DeterministicBatches | ShuffledBatches, first: Indices
) -> tuple[Indices, Indices]:
    """The uses of examples that are in the same step of every epoch as of the first."""
    later = np.arange(scheme.epochs, dtype=np.int64) * scheme.steps_per_epoch
    return np.repeat(np.arange(first.size), scheme.epochs), np.add.outer(first, later).reshape(-1)


def _places(scheme: DeterministicBatches | ShuffledBatches, step: int) -> Indices:
    """Positions in the order of an epoch that belong to a step."""
    start = step % scheme.steps_per_epoch * scheme.batch_size
    examples = scheme.dataset_size
    if isinstance(scheme, ShuffledBatches):
        examples = scheme.examples_per_epoch
    return np.arange(start, min(start + scheme.batch_size, examples), dtype=np.int64)


def _slices(scheme: DeterministicBatches | ShuffledBatches) -> str:
    """Numbers of epochs, batches and examples of a partition in words."""
    batches = pluralize(scheme.steps_per_epoch, "batch", "batches")
    sizes = f"{scheme.batch_size:,} of {scheme.dataset_size:,} examples each"
    return f"{pluralize(scheme.epochs, 'epoch')} of {batches}, {sizes}"


def _incomplete_batch(scheme: DeterministicBatches | ShuffledBatches) -> str:
    """Clause about examples that fill no whole batch or are left out; empty if there are none."""
    left_out, drop_last = 0, False
    if isinstance(scheme, ShuffledBatches):
        left_out, drop_last = scheme.left_out, scheme.drop_last
    clauses = []
    if left_out:
        verb = "sits out" if left_out == 1 else "sit out"
        clauses.append(f"; {pluralize(left_out, 'random example')} {verb} every epoch")
    incomplete = (scheme.dataset_size - left_out) % scheme.batch_size
    if incomplete:
        examples = f"remaining {pluralize(incomplete, 'example')}"
        dropped = f"; the {examples} of every epoch {'is' if incomplete == 1 else 'are'} dropped"
        last = f"; the last batch of every epoch holds the {examples}"
        clauses.append(dropped if drop_last else last)
    return "".join(clauses)


def _sentence(clause: str) -> tuple[str, ...]:
    """The clause as a sentence of its own, none if it is empty."""
    return (f"{clause.removeprefix('; ').capitalize()}.",) if clause else ()
