"""Poisson batches that are cut to a fixed physical size: for hardware that wants equal shapes."""

from dataclasses import dataclass
from fractions import Fraction

from sharpdp._validate import invalid
from sharpdp.batches.independent import settled_steps
from sharpdp.batches.scheme import (
    ALL_INDEPENDENT,
    MISSED_OR_TWICE,
    Drawer,
    DrawnBatches,
    Indices,
    pluralize,
    validate_counts,
)
from sharpdp.randomness.binomial import binomial_draws
from sharpdp.randomness.keyed_stream import KeyedStream

__all__ = ["TruncatedPoissonBatches"]


@dataclass(frozen=True, init=False)
class TruncatedPoissonBatches(DrawnBatches):
    """Poisson batches of which at most ``physical_batch_size`` examples, chosen at random, are kept.

    Every example is drawn with probability sample_rate = batch_size / dataset_size. Give ``steps``, or
    ``epochs`` for steps = epochs * ceil(dataset_size / batch_size).

    - Every example is drawn for every batch by an independent coin flip.
    - If more than physical_batch_size examples are drawn, a uniformly random choice of that many of
      them is kept; a batch is never larger.
    - A smaller batch is filled up by `padded` with places that count for nothing; an empty batch is
      a step like any other.
    - An example may miss an epoch, and may come twice in one.

    Holds when: training adds its noise in every step, divides by a fixed number, and gives padding
    no weight. Under zero-out the number of examples is public, and a null record takes its place in a
    batch like any other record. Under add/remove either data set may have ``dataset_size`` examples: a
    record that is added to them may displace one of them, for which dp-accounting, whose number is
    that of the larger data set, does not account.

    Args:
        dataset_size: number of examples; 1 to 10^18.
        batch_size: the expected size of a batch before truncation; 1 to ``dataset_size``.
        physical_batch_size: the most examples that a batch may hold; ``batch_size`` to ``dataset_size``.
        steps: number of batches in the run; 0 to 10^18.
        epochs: number of passes over the data, 0 or more, in place of ``steps``.

    Raises:
        InvalidArgument: a value is out of range, or not exactly one of ``steps`` and ``epochs`` is given.
        WrongType: a value is not a number.

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

    label = "truncated Poisson batches"

    def __init__(
        self,
        *,
        dataset_size: int,
        batch_size: int,
        physical_batch_size: int,
        steps: int | None = None,
        epochs: int | None = None,
    ) -> None:
        """Check the sizes, and derive the number of steps from either form."""
        validate_counts(self, dataset_size=dataset_size, batch_size=batch_size)
        validate_counts(self, physical_batch_size=physical_batch_size)
        if not self.batch_size <= self.physical_batch_size <= self.dataset_size:
            allowed = f"from batch_size = {batch_size} to dataset_size = {dataset_size}"
            hint = "Below the expected size about every second batch would be cut."
            raise invalid("physical_batch_size", allowed, self.physical_batch_size, hint)
        total = settled_steps(steps, self.dataset_size, self.batch_size, epochs)
        object.__setattr__(self, "steps", total)

    @property
    def sample_rate(self) -> float:
        """The probability with which an example is drawn, before truncation."""
        return self.batch_size / self.dataset_size

    @property
    def expected_batch_size(self) -> float:
        """Expected number of examples drawn for a batch, before truncation."""
        return float(self.batch_size)

    @property
    def largest_batch_size(self) -> int:
        """The most examples that a batch can hold: physical_batch_size."""
        return self.physical_batch_size

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        return (
            f"Every example is drawn for every batch with probability {self.sample_rate:.12g}.",
            ALL_INDEPENDENT,
            f"At most {self.physical_batch_size:,} of the examples drawn are kept, chosen at random.",
            "Places that stay empty are padding; noise is added in every step.",
            MISSED_OR_TWICE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> TruncatedPoissonBatches(
        ...     dataset_size=1000, batch_size=10, epochs=2, physical_batch_size=16
        ... ).describe()
        'truncated Poisson batches: 200 steps at sample rate 0.01 of 1,000 examples, at most 16 kept'
        """
        rate = f"sample rate {self.sample_rate:.12g} of {self.dataset_size:,} examples"
        kept = f"at most {self.physical_batch_size:,} kept"
        return f"{self.label}: {pluralize(self.steps, 'step')} at {rate}, {kept}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        return self.label, self.dataset_size, self.batch_size

    def _drawer(self, source: KeyedStream) -> Drawer:
        """A random choice from a random subset is a random subset: only the size is cut."""
        size = binomial_draws(self.dataset_size, Fraction(self.batch_size, self.dataset_size))

        def batch(step: int) -> Indices:
            own = source.derive("step", step)
            return own.subset(self.dataset_size, min(size(own), self.physical_batch_size))

        return batch
