"""Schemes in which every example chooses its batches by itself: balls-and-bins, random allocation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp._validate import count, invalid
from sharpdp.batches.scheme import (
    RANDOM_SIZE,
    Drawer,
    DrawnBatches,
    EpochBatches,
    Finder,
    Indices,
    Randomness,
    check_order,
    pluralize,
    validate_counts,
)
from sharpdp.errors import InvalidArgument
from sharpdp.randomness.allocation import (
    MOST_CHOICES,
    choices_of,
    chosen_often,
    chosen_once,
    held_choices,
)
from sharpdp.randomness.keyed_stream import KeyedStream
from sharpdp.randomness.permutation import orderable

__all__ = ["BallsAndBins", "RandomAllocation"]

LARGEST_HELD = 2**22
"""Choices that are held for one epoch rather than found by halving: about 70 megabytes."""


@dataclass(frozen=True, kw_only=True)
class BallsAndBins(EpochBatches):
    """Balls-and-bins batches: every example picks one batch, in every epoch or once for all epochs.

    An epoch has ``bins`` = dataset_size // batch_size batches. The expected size of a batch is
    therefore ``batch_size`` if it divides ``dataset_size``, and slightly more otherwise.

    - Every example is in exactly one batch of every epoch, each with probability 1 / bins.
    - These choices are independent between examples, and between epochs unless they are kept.
    - The batch size is random, and an empty batch is a step like any other.
    - No order is held beyond 2^20 examples.

    Holds when: training adds its noise in every step, also after an empty batch, and divides by a
    fixed number, not by the size that was drawn.

    Args:
        dataset_size: number of examples; 1 to 10^18, and at most 10^13 to draw batches.
        batch_size: the intended size of a batch, which sets the number of bins; 1 to ``dataset_size``.
        epochs: number of passes over the data, 0 or more, for at most 10^18 steps in all.
        order: "redrawn" (default) assigns every example anew in every epoch; "kept" assigns it once,
            so all epochs have the same batches, which costs more privacy.

    Raises:
        InvalidArgument: a count is out of range, or ``order`` is neither of the two words.
        WrongType: a count is not a number, or ``order`` is not a string.

    >>> plan = BallsAndBins(dataset_size=1000, batch_size=300, epochs=2)
    >>> plan.bins, plan.steps
    (3, 6)
    """

    order: str = "redrawn"

    label = "balls-and-bins"
    largest_batch_size = None

    def _check_own(self) -> None:
        check_order(self.order)

    @property
    def bins(self) -> int:
        """Number of batches per epoch: dataset_size // batch_size."""
        return self.dataset_size // self.batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch: the bins."""
        return self.bins

    @property
    def participations(self) -> int:
        """In how many batches of an epoch an example is."""
        return 1

    @property
    def expected_batch_size(self) -> float:
        """Expected number of examples in a batch: dataset_size / bins.

        >>> BallsAndBins(dataset_size=1000, batch_size=300, epochs=2).expected_batch_size
        333.3333333333333
        """
        return self.dataset_size / self.bins

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        bins = pluralize(self.bins, "batch", "batches")
        return (
            f"Every example is in exactly one of the {bins} of every epoch, equally likely in each.",
            "These choices are independent between examples, drawn once and kept for all epochs."
            if self.order == "kept"
            else "These choices are independent, between examples and between epochs.",
            RANDOM_SIZE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> BallsAndBins(dataset_size=60_000, batch_size=512, epochs=30).describe()
        'balls-and-bins: each of 60,000 examples is assigned to 1 of 117 batches per epoch; 30 epochs'
        """
        batches = pluralize(self.bins, "batch", "batches")
        examples = f"each{_of(self.dataset_size)} is assigned to 1 of {batches} per epoch"
        kept = ", the same in each" if self.order == "kept" else ""
        return f"{self.label}: {examples}; {pluralize(self.epochs, 'epoch')}{kept}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        # the name is older than the label: a key must go on to give the same batches
        return "balls in bins", orderable(self.dataset_size), self.bins

    def _drawer(self, source: KeyedStream) -> Drawer:
        """Each epoch is one random order, cut at random sizes as independent choices have them."""
        return _epochs(
            source,
            self.bins,
            lambda stream: chosen_once(stream, self.dataset_size, self.bins),
            kept=self.order == "kept",
        )

    @property
    def finds_steps(self) -> bool:
        """True: an example is followed to the batch that it chose."""
        return True

    def _finder(self, rng: Randomness) -> Finder:
        kept = self.order == "kept"
        return _one_choice(self._stream(rng), self.dataset_size, self.bins, self.epochs, kept=kept)


BallsInBins = BallsAndBins
"""Another name of the scheme, which plans may use as well."""


@dataclass(frozen=True, init=False)
class RandomAllocation(DrawnBatches):
    """Random allocation: in every epoch, every example picks ``participations`` of ``steps`` batches.

    The argument ``steps`` counts the batches of one epoch, as in "k of t", and is kept as
    ``steps_per_epoch``. The attribute ``steps`` counts the batches of the whole run, as for every
    scheme: epochs * steps_per_epoch.

    - Every example is in exactly ``participations`` batches of every epoch; all such choices are
      equally likely.
    - These choices are independent, between examples and between epochs.
    - The batch size is random, and an empty batch is a step like any other.
    - One participation is drawn as in `BallsAndBins`. More are held for one epoch if there are at most
      2^22 of them in all; beyond, up to 16 for each example are found without holding them.

    Holds when: training adds its noise in every step, also after an empty batch, and divides by a
    fixed number, not by the size that was drawn.

    Args:
        steps: number of batches of one epoch, at least 1.
        participations: number of batches of an epoch that an example is in; 1 (default) to the number
            of batches of an epoch.
        epochs: number of epochs, 0 or more, for at most 10^18 batches in all; 1 by default.
        dataset_size: number of examples, at least 1. Without it (None, the default) a run is accounted
            for, but no batches can be drawn. At most 10^18, and at most 10^13 to draw batches.
        steps_per_epoch: another name for the argument ``steps``; give one of the two.

    Raises:
        InvalidArgument: a value is out of range, or not exactly one of ``steps`` and ``steps_per_epoch``
            is given.
        WrongType: a value is not a number.

    >>> plan = RandomAllocation(steps=100, participations=2, epochs=3)
    >>> plan.steps_per_epoch, plan.steps
    (100, 300)
    """

    steps_per_epoch: int
    participations: int
    epochs: int
    dataset_size: int | None

    label = "random allocation"
    largest_batch_size = None

    def __init__(
        self,
        *,
        steps: int | None = None,
        participations: int = 1,
        epochs: int = 1,
        dataset_size: int | None = None,
        steps_per_epoch: int | None = None,
    ) -> None:
        """Check the counts; the steps of an epoch may go by either name."""
        validate_counts(self, steps_per_epoch=_of_one_epoch(steps, steps_per_epoch), epochs=epochs)
        validate_counts(self, participations=participations)
        if self.participations > self.steps_per_epoch:
            allowed = f"at most the {self.steps_per_epoch} steps of an epoch"
            raise invalid("participations", allowed, self.participations, "Did you swap the two?")
        object.__setattr__(self, "dataset_size", None)
        if dataset_size is not None:
            validate_counts(self, dataset_size=dataset_size)
        count(least=0, steps=self.steps, hint="That is epochs times steps of an epoch.")

    @property
    def steps(self) -> int:
        """Number of batches in the run: epochs * steps_per_epoch."""
        return self.epochs * self.steps_per_epoch

    @property
    def expected_batch_size(self) -> float | None:
        """Expected number of examples in a batch; None without a dataset_size."""
        if self.dataset_size is None:
            return None
        return self.dataset_size * self.participations / self.steps_per_epoch

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        batches = (
            f"{self.participations} of the {pluralize(self.steps_per_epoch, 'batch', 'batches')}"
        )
        return (
            f"Every example is in exactly {batches} of every epoch, all choices equally likely.",
            "These choices are independent, between examples and between epochs.",
            RANDOM_SIZE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> RandomAllocation(steps=100, participations=2, epochs=3).describe()
        'random allocation: each example is assigned to 2 of 100 steps per epoch; 3 epochs'
        """
        steps = f"{self.participations:,} of {pluralize(self.steps_per_epoch, 'step')} per epoch"
        examples = f"each{_of(self.dataset_size)} is assigned to {steps}"
        return f"{self.label}: {examples}; {pluralize(self.epochs, 'epoch')}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        if self.dataset_size is None:
            raise InvalidArgument(
                "dataset_size must be given to draw batches; got None. "
                f"Use RandomAllocation(steps={self.steps_per_epoch}, ..., dataset_size=...)."
            )
        return self.label, orderable(self.dataset_size), self.steps_per_epoch

    def _drawer(self, source: KeyedStream) -> Drawer:
        return _epochs(source, self.steps_per_epoch, self._way(self._examples()))

    @property
    def finds_steps(self) -> bool:
        """Whether an example is in one batch of an epoch, to which it can be followed."""
        return self.participations == 1

    def _finder(self, rng: Randomness) -> Finder:
        if not self.finds_steps:
            return super()._finder(rng)
        return _one_choice(self._stream(rng), self._examples(), self.steps_per_epoch, self.epochs)

    def _way(self, dataset_size: int) -> Callable[[KeyedStream], Drawer]:
        """The function that draws the choices of one epoch."""
        steps, choices = self.steps_per_epoch, self.participations
        if choices == 1:
            return lambda source: chosen_once(source, dataset_size, steps)
        if dataset_size * choices <= LARGEST_HELD:
            return lambda source: held_choices(source, dataset_size, steps, choices)
        if choices <= MOST_CHOICES:
            return lambda source: chosen_often(source, dataset_size, steps, choices)
        # choices that are held where halving would be slow: about four gigabytes
        if dataset_size * choices <= 2**28:
            return lambda source: held_choices(source, dataset_size, steps, choices)
        allowed = f"at most {MOST_CHOICES} to draw batches of {dataset_size} examples"
        raise invalid("participations", allowed, choices, "More would have to be held in memory.")


def _epochs(
    source: KeyedStream,
    steps: int,
    drawn: Callable[[KeyedStream], Drawer],
    *,
    kept: bool = False,
) -> Drawer:
    """The batch of a step of the run, from what is drawn for each epoch or, if kept, for the first."""
    epoch_of = lru_cache(maxsize=1)(lambda epoch: drawn(source.derive("epoch", epoch)))
    return lambda step: epoch_of(0 if kept else step // steps)(step % steps)


def _one_choice(
    source: KeyedStream, examples: int, steps: int, epochs: int, *, kept: bool = False
) -> Finder:
    """The uses of examples that choose one step in every epoch, or once for all epochs."""
    chosen_in = lru_cache(maxsize=None)(
        lambda epoch: choices_of(source.derive("epoch", epoch), examples, steps)
    )

    def found(some: Indices) -> tuple[Indices, Indices]:
        columns = [chosen_in(0 if kept else epoch)(some) + epoch * steps for epoch in range(epochs)]
        where = np.repeat(np.arange(some.size), epochs)
        return where, np.stack(columns, axis=1).reshape(-1)

    return found


def _of(dataset_size: int | None) -> str:
    return " example" if dataset_size is None else f" of {pluralize(dataset_size, 'example')}"


def _of_one_epoch(steps: int | None, steps_per_epoch: int | None) -> int:
    """The steps of one epoch, given by either name."""
    if steps is None and steps_per_epoch is not None:
        return steps_per_epoch
    if steps is not None and steps_per_epoch is None:
        return count(steps=steps, hint="It counts batches of one epoch.")
    got = "both" if steps is not None else "neither"
    raise InvalidArgument(
        f"exactly one of steps and steps_per_epoch must be given; got {got}. "
        "Both mean the batches of one epoch."
    )
