"""Schemes whose batches are independent of each other: Poisson batches, subsets of fixed size."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import (
    SMALLEST_SCALE,
    closed_probability,
    count,
    doubles,
    flag,
    invalid,
    short_repr,
)
from sharpdp.batches.scheme import (
    ALL_INDEPENDENT,
    MISSED_OR_TWICE,
    RANDOM_SIZE,
    Drawer,
    DrawnBatches,
    Finder,
    Indices,
    Randomness,
    batches_per_epoch,
    check_key,
    different_positions,
    keyed_stream_for,
    pluralize,
    validate_counts,
)
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.randomness.binomial import binomial_draws
from sharpdp.randomness.keyed_stream import KeyedStream

__all__ = [
    "FixedSizeBatches",
    "PoissonBatches",
    "sample_rate_of",
    "settled_steps",
    "settled_weights",
]

RECORD = "It is a name of the record, which may also be a string."

MOST_RECORDS = 10**18 + 1
"""Records of a stream are numbered from 0 to 10^18."""

FORMS = (
    "Give sample_rate= and steps= (and dataset_size= to draw batches), "
    "or dataset_size=, batch_size= and epochs= (or steps=)."
)


@dataclass(frozen=True, init=False)
class PoissonBatches(DrawnBatches):
    """Batches into which every example enters independently.

    Give ``sample_rate`` and ``steps``, or ``dataset_size``, ``batch_size`` and ``epochs``. The
    latter mean sample_rate = batch_size / dataset_size and
    steps = epochs * ceil(dataset_size / batch_size); ``steps`` may be given in place of ``epochs``.

    - Every example enters every batch with probability sample_rate.
    - All these coin flips are independent, between examples and between batches.
    - The batch size is random, and an empty batch is a step like any other.
    - An example may miss an epoch, and may come twice in one.

    Holds when: training adds its noise in every step, also after an empty batch, and divides by
    a fixed number (the expected size), not by the size that was drawn.

    Args:
        sample_rate: the probability with which an example enters a batch; 1e-30 to 1, or 0 for empty
            batches.
        steps: number of batches in the run; 0 to 10^18.
        dataset_size: number of examples, at least 1. Without it (None, the default) a run is accounted
            for, but no batches can be drawn.
        batch_size: the expected size of a batch, in place of ``sample_rate``; 0 to ``dataset_size``.
        epochs: number of passes over the data, 0 or more, in place of ``steps``; needs ``batch_size``.

    Raises:
        InvalidArgument: a value is out of range, or the arguments fit neither form.
        WrongType: a value is not a number.

    >>> plan = PoissonBatches(dataset_size=1000, batch_size=10, epochs=2)
    >>> plan.sample_rate, plan.steps
    (0.01, 200)
    >>> sum(1 for batch in plan.batches(rng=0))
    200
    """

    sample_rate: float
    steps: int
    dataset_size: int | None

    label = "Poisson batches"
    largest_batch_size = None

    def __init__(
        self,
        *,
        sample_rate: float | None = None,
        steps: int | None = None,
        dataset_size: int | None = None,
        batch_size: int | None = None,
        epochs: int | None = None,
    ) -> None:
        """Derive the sample rate and the number of steps from either form."""
        if dataset_size is not None:
            dataset_size = count(dataset_size=dataset_size, hint="It counts examples.")
        object.__setattr__(
            self, "sample_rate", sample_rate_of(sample_rate, dataset_size, batch_size)
        )
        object.__setattr__(self, "steps", settled_steps(steps, dataset_size, batch_size, epochs))
        object.__setattr__(self, "dataset_size", dataset_size)

    @property
    def expected_batch_size(self) -> float | None:
        """Expected number of examples in a batch; None without a dataset_size.

        >>> PoissonBatches(sample_rate=0.25, steps=3, dataset_size=60).expected_batch_size
        15.0
        """
        return None if self.dataset_size is None else self.sample_rate * self.dataset_size

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        return (
            f"Every example enters every batch with probability {self.sample_rate:.12g}.",
            ALL_INDEPENDENT,
            RANDOM_SIZE,
            MISSED_OR_TWICE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> PoissonBatches(sample_rate=0.01, steps=1000).describe()
        'Poisson batches: 1,000 steps at sample rate 0.01'
        """
        examples = "" if self.dataset_size is None else f" of {self.dataset_size:,} examples"
        rate = f"sample rate {self.sample_rate:.12g}"
        steps = pluralize(self.steps, "step")
        return f"{self.label}: {steps} at {rate}{examples}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        if self.dataset_size is None:
            raise InvalidArgument(
                "dataset_size must be given to draw batches; got only sample_rate and steps. "
                f"Use PoissonBatches(sample_rate={self.sample_rate!r}, steps={self.steps}, "
                "dataset_size=...)."
            )
        return self.label, self.dataset_size, repr(self.sample_rate)

    def _drawer(self, source: KeyedStream) -> Drawer:
        """A batch is its size, binomial, and then a uniformly random subset: independent coin flips."""
        dataset_size = self._examples()
        size = binomial_draws(dataset_size, Fraction(self.sample_rate))

        def batch(step: int) -> Indices:
            own = source.derive("step", step)
            return own.subset(dataset_size, size(own))

        return batch

    def steps_of(self, index: int | str, rng: Randomness = None) -> Indices:
        """The steps whose batches hold one example, if `batches` draws with the same key.

        Without a ``dataset_size`` there are no such batches: the coin flips are then keyed by the record
        itself, for streams of unknown length. Whoever reads a record asks for its steps and adds it to
        those batches, on any machine and in any order. Nothing depends on other records, so add/remove
        holds literally.

        Args:
            index: position of the example in the data set; without a ``dataset_size`` any string, or
                whole number from 0 to 10^18, that no other record has.
            rng: the key or the seed of the run.

        Returns:
            The steps, counted from 0, ascending.

        Raises:
            InvalidArgument: ``index`` is out of range, or ``rng`` is no key or seed.
            WrongType: ``index`` or ``rng`` has the wrong type.

        >>> stream = PoissonBatches(sample_rate=0.01, steps=1000)
        >>> stream.steps_of("record 7", rng=0).size
        14
        """
        if self.dataset_size is not None:
            return super().steps_of(index, rng)  # type: ignore[arg-type]
        name = index if isinstance(index, str) else count(least=0, index=index, hint=RECORD)
        check_key(rng)
        return self._coins(rng)(name)

    @property
    def finds_steps(self) -> bool:
        """Whether there is no ``dataset_size``, so each record has its own coin flips."""
        return self.dataset_size is None

    def _coins(self, rng: Randomness) -> Callable[[int | str], Indices]:
        """The steps of a record of a stream."""
        source = keyed_stream_for(rng, "Poisson records", self.steps, repr(self.sample_rate))
        often = binomial_draws(self.steps, Fraction(self.sample_rate))

        def steps_of(name: int | str) -> Indices:
            own = source.derive("record", name)
            return own.subset(self.steps, often(own))

        return steps_of

    def _positions(self, indices: object) -> Indices:
        return different_positions(indices, self.dataset_size or MOST_RECORDS)

    def _finder(self, rng: Randomness) -> Finder:
        if self.dataset_size is not None:
            return super()._finder(rng)
        steps_of = self._coins(rng)

        def found(examples: Indices) -> tuple[Indices, Indices]:
            steps = [steps_of(example) for example in examples.tolist()]
            sizes = [some.size for some in steps]
            return np.repeat(np.arange(examples.size), sizes), np.concatenate(steps)

        return found


@dataclass(frozen=True, kw_only=True)
class FixedSizeBatches(DrawnBatches):
    """Batches of ``batch_size`` examples, drawn anew in every step with or without replacement.

    - Every batch has exactly batch_size examples. Without replacement they are different ones, and all
      such subsets are equally likely; with replacement each is drawn from all examples, independently,
      and one that is drawn several times is in the batch as often.
    - Batches are independent of each other.
    - An example may miss an epoch, and may come twice in one.

    Holds when: neighboring data sets have equally many examples, since a missing example would
    change the distribution of every batch. With replacement, training clips and adds up the gradient of
    an example as often as it was drawn. Weights are public, or chosen without looking at the records.

    Args:
        dataset_size: number of examples; 1 to 10^18.
        batch_size: number of examples in every batch; 0 to ``dataset_size``.
        steps: number of batches in the run; 0 to 10^18.
        replacement: whether an example may be drawn several times for one batch, as torch's
            ``RandomSampler(replacement=True)`` does; False by default.
        weights: with replacement only: one number for each example, at least 0, to which the probability
            of a draw is proportional, as torch's ``WeightedRandomSampler`` has it. A run is as private as
            for the largest one. None (default) for equal probabilities.

    Raises:
        InvalidArgument: a value is out of range, or there are weights without replacement.
        WrongType: a count is not a number, ``replacement`` is not a bool, or weights are not numbers.

    >>> plan = FixedSizeBatches(dataset_size=1000, batch_size=10, steps=200)
    >>> plan.sample_rate
    0.01
    """

    dataset_size: int
    batch_size: int
    steps: int
    replacement: bool = False
    weights: tuple[float, ...] | None = None

    label = "fixed-size batches"

    def __post_init__(self) -> None:
        """Check the three counts, the flag and the weights."""
        sizes = {"dataset_size": self.dataset_size, "batch_size": self.batch_size}
        validate_counts(self, ("batch_size", "steps"), **sizes, steps=self.steps)
        flag(replacement=self.replacement)
        if self.weights is None:
            return
        weights = settled_weights(self.weights)
        if not self.replacement:
            hint = "Use replacement=True, or WeightedPoissonBatches."
            raise invalid("weights", "None without replacement", len(weights), hint)
        if len(weights) != self.dataset_size:
            allowed = f"one for each of dataset_size = {self.dataset_size} examples"
            raise invalid("weights", allowed, len(weights))
        object.__setattr__(self, "weights", weights)

    @cached_property
    def _tickets(self) -> NDArray[np.int64]:
        """Whole numbers in the proportions of the weights, summed up; the sum is about 2^62.

        Every weight is rounded to a multiple of 2^-62 of n times the largest one, and a positive one to
        one of them at least: draws follow these numbers exactly, and so does the accounting.
        """
        weights = np.array(self.weights)
        shares = weights / np.max(weights) * ((1 << 62) // weights.size)
        return np.cumsum(np.maximum(np.rint(shares), weights > 0.0).astype(np.int64))

    @property
    def largest_share(self) -> Fraction:
        """The probability that one draw is the example with the largest weight.

        >>> plan = {"dataset_size": 3, "batch_size": 1, "steps": 1, "replacement": True}
        >>> float(FixedSizeBatches(**plan, weights=[1, 1, 2]).largest_share)
        0.5
        """
        if self.weights is None:
            return Fraction(1, self.dataset_size)
        tickets = self._tickets
        return Fraction(int(np.max(np.diff(tickets, prepend=0))), int(tickets[-1]))

    @property
    def sample_rate(self) -> float:
        """The expected number of times that an example is in a batch, with weights the largest one."""
        if self.weights is None:
            return self.batch_size / self.dataset_size
        return float(self.batch_size * self.largest_share)

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        examples = pluralize(self.dataset_size, "example")
        chances = (
            ""
            if self.weights is None
            else f", with probabilities of their own up to {float(self.largest_share):.12g}"
        )
        drawn = (
            f"Every batch is {self.batch_size} independent draws of the {examples}, with "
            f"replacement{chances}."
            if self.replacement
            else f"Every batch holds exactly {self.batch_size} of the {examples}; "
            "all such subsets are equally likely."
        )
        return (
            drawn,
            "Batches are independent of each other.",
            MISSED_OR_TWICE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> FixedSizeBatches(dataset_size=1000, batch_size=10, steps=200).describe()
        'fixed-size batches: 200 steps with 10 of 1,000 examples each, drawn without replacement'
        """
        size = f"{self.batch_size:,} of {pluralize(self.dataset_size, 'example')} each"
        drawn = "with" if self.replacement else "without"
        steps = pluralize(self.steps, "step")
        weighted = (
            ""
            if self.weights is None
            else f", with probabilities up to {float(self.largest_share):.12g}"
        )
        return f"{self.label}: {steps} with {size}, drawn {drawn} replacement{weighted}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        label = f"{self.label}, replaced" if self.replacement else self.label
        if self.weights is not None:
            shares = hashlib.shake_256(self._tickets.astype("<i8").tobytes()).hexdigest(16)
            label = f"{label}, weighted {shares}"
        return label, self.dataset_size, self.batch_size

    def _drawer(self, source: KeyedStream) -> Drawer:
        tickets = None if self.weights is None else self._tickets

        def batch(step: int) -> Indices:
            own = source.derive("step", step)
            if tickets is not None:
                drawn = own.below(int(tickets[-1]), self.batch_size)
                return np.sort(np.searchsorted(tickets, drawn, side="right"))
            if self.replacement:
                return np.sort(own.below(self.dataset_size, self.batch_size))
            return own.subset(self.dataset_size, self.batch_size)

        return batch


def sample_rate_of(
    sample_rate: float | None, dataset_size: int | None, batch_size: int | None
) -> float:
    """The sample rate, given as it is or as batch_size / dataset_size."""
    if (sample_rate is None) == (batch_size is None):
        got = "both" if sample_rate is not None else "neither"
        raise InvalidArgument(
            f"exactly one of sample_rate and batch_size must be given; got {got}. {FORMS}"
        )
    if batch_size is not None:
        size = count(least=0, batch_size=batch_size, hint="It is the expected size of a batch.")
        if dataset_size is None:
            raise InvalidArgument(f"dataset_size must be given with batch_size; got None. {FORMS}")
        if size > dataset_size:
            hint = "Did you swap the two?"
            raise invalid("batch_size", f"at most dataset_size = {dataset_size}", size, hint)
        return size / dataset_size
    hint = "Did you mean batch_size / dataset_size?"
    clean = closed_probability(sample_rate=sample_rate, hint=hint)
    if 0.0 < clean < SMALLEST_SCALE:
        hint = "Beyond that, double precision breaks down."
        raise invalid("sample_rate", f"0, or between {SMALLEST_SCALE:g} and 1", sample_rate, hint)
    return clean


def settled_weights(weights: object) -> tuple[float, ...]:
    """Weights as a tuple of numbers from 0 on, not all of them 0."""
    allowed = "one number for each example, at least 0, and some of them positive"
    array = doubles(weights)
    if array.ndim != 1 or array.size == 0:
        raise WrongType(f"weights must be {allowed}; got {short_repr(weights)}.")
    wrong = np.flatnonzero(~((array >= 0.0) & np.isfinite(array)))
    if wrong.size:
        raise InvalidArgument(f"weights must be {allowed}; got {array[wrong[0]]!r} at {wrong[0]}.")
    if not array.any():
        raise InvalidArgument(f"weights must be {allowed}; got zeros only.")
    return tuple(array.tolist())


def settled_steps(
    steps: int | None, dataset_size: int | None, batch_size: int | None, epochs: int | None
) -> int:
    """The number of steps, given as it is or as epochs."""
    if (steps is None) == (epochs is None):
        got = "both" if steps is not None else "neither"
        raise InvalidArgument(f"exactly one of steps and epochs must be given; got {got}. {FORMS}")
    if steps is not None:
        return count(least=0, steps=steps, hint="It counts batches, over all epochs.")
    passes = count(
        least=0, epochs=epochs, hint="It counts passes over the data; steps= counts batches."
    )
    if dataset_size is None or batch_size is None:
        raise InvalidArgument(
            f"epochs must come with dataset_size and batch_size; got epochs={short_repr(passes)} "
            f"without them. {FORMS}"
        )
    size = count(batch_size=batch_size, hint="Empty batches fill no epoch: give steps=.")
    total = passes * batches_per_epoch(dataset_size, size)
    return count(least=0, steps=total, hint="That is epochs times batches per epoch.")
