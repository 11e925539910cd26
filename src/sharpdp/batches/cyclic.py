"""Poisson batches whose examples take turns: one fixed group of them in each step."""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sharpdp._validate import count, invalid
from sharpdp.batches.independent import sample_rate_of, settled_steps
from sharpdp.batches.scheme import (
    ALL_INDEPENDENT,
    RANDOM_SIZE,
    Drawer,
    DrawnBatches,
    Indices,
    pluralize,
)
from sharpdp.errors import InvalidArgument
from sharpdp.randomness.binomial import binomial_draws
from sharpdp.randomness.keyed_stream import KeyedStream

__all__ = ["CyclicPoissonBatches"]


@dataclass(frozen=True, init=False)
class CyclicPoissonBatches(DrawnBatches):
    """Poisson batches of one group of the examples in each step, the groups taking turns.

    The examples are divided into ``cycle_length`` groups by their positions: example i belongs to group
    i mod cycle_length, whose turn is in steps i mod cycle_length, that plus cycle_length, and so on. Give
    ``sample_rate`` and ``steps``, or ``dataset_size``, ``batch_size`` and ``epochs`` (or ``steps``). The
    latter mean sample_rate = cycle_length * batch_size / dataset_size.

    - In a step, every example of its group enters the batch with probability sample_rate, and no other
      example does. All these coin flips are independent.
    - An example has its turn in every cycle_length-th step, at most `turns` times.
    - The batch size is random, and an empty batch is a step like any other.

    Holds when: training adds its noise in every step, also after an empty batch, divides by a fixed
    number, and the position of an example does not depend on other records.

    Args:
        cycle_length: number of groups, at least 1; 1 is `PoissonBatches`.
        sample_rate: the probability with which an example enters a batch of its group; 1e-30 to 1,
            or 0 for empty batches.
        steps: number of batches in the run; 0 to 10^18.
        dataset_size: number of examples, at least ``cycle_length``. Without it (None, the default) a run
            is accounted for, but no batches can be drawn.
        batch_size: the expected size of a batch, in place of ``sample_rate``; at most
            dataset_size / cycle_length.
        epochs: number of passes over the data, 0 or more, in place of ``steps``; needs ``batch_size``.

    Raises:
        InvalidArgument: a value is out of range, or the arguments fit neither form.
        WrongType: a value is not a number.

    >>> plan = CyclicPoissonBatches(dataset_size=1000, batch_size=10, epochs=2, cycle_length=4)
    >>> plan.sample_rate, plan.steps, plan.turns
    (0.04, 200, 50)
    """

    cycle_length: int
    sample_rate: float
    steps: int
    dataset_size: int | None

    label = "cyclic Poisson batches"
    largest_batch_size = None

    def __init__(
        self,
        *,
        cycle_length: int,
        sample_rate: float | None = None,
        steps: int | None = None,
        dataset_size: int | None = None,
        batch_size: int | None = None,
        epochs: int | None = None,
    ) -> None:
        """Derive the sample rate within a group and the number of steps from either form."""
        groups = count(cycle_length=cycle_length, hint="It counts groups of examples.")
        if dataset_size is not None:
            dataset_size = count(dataset_size=dataset_size, hint="It counts examples.")
            if groups > dataset_size:
                hint = "Every group has an example."
                raise invalid(
                    "cycle_length", f"at most dataset_size = {dataset_size}", groups, hint
                )
        rate = sample_rate_of(sample_rate, dataset_size, batch_size)
        if batch_size is not None and dataset_size is not None:
            if batch_size * groups > dataset_size:
                allowed = f"at most dataset_size / cycle_length = {dataset_size} / {groups}"
                hint = "A batch comes from one group."
                raise invalid("batch_size", allowed, batch_size, hint)
            rate = batch_size * groups / dataset_size
        object.__setattr__(self, "cycle_length", groups)
        object.__setattr__(self, "sample_rate", rate)
        object.__setattr__(self, "steps", settled_steps(steps, dataset_size, batch_size, epochs))
        object.__setattr__(self, "dataset_size", dataset_size)

    @property
    def turns(self) -> int:
        """In how many steps an example may take part at most: steps / cycle_length, rounded up."""
        return -(-self.steps // self.cycle_length)

    @property
    def expected_batch_size(self) -> float | None:
        """Expected number of examples in a batch, over all groups; None without a dataset_size.

        >>> CyclicPoissonBatches(
        ...     sample_rate=0.5, steps=3, cycle_length=2, dataset_size=60
        ... ).expected_batch_size
        15.0
        """
        if self.dataset_size is None:
            return None
        return self.sample_rate * self.dataset_size / self.cycle_length

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        groups = pluralize(self.cycle_length, "group")
        return (
            f"The examples are divided into {groups} by their positions; each step is one group's turn.",
            f"An example enters a batch of its group with probability {self.sample_rate:.12g}.",
            ALL_INDEPENDENT,
            RANDOM_SIZE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> CyclicPoissonBatches(sample_rate=0.04, steps=1000, cycle_length=4).describe()
        'cyclic Poisson batches: 1,000 steps at sample rate 0.04 of 1 group in 4'
        """
        examples = "" if self.dataset_size is None else f", {self.dataset_size:,} examples in all"
        rate = f"sample rate {self.sample_rate:.12g} of 1 group in {self.cycle_length:,}"
        return f"{self.label}: {pluralize(self.steps, 'step')} at {rate}{examples}"

    def _drawn_by(self) -> tuple[str | int, ...]:
        if self.dataset_size is None:
            raise InvalidArgument(
                "dataset_size must be given to draw batches; got only sample_rate and steps. "
                f"Use CyclicPoissonBatches(sample_rate={self.sample_rate!r}, steps={self.steps}, "
                f"cycle_length={self.cycle_length}, dataset_size=...)."
            )
        return self.label, self.dataset_size, self.cycle_length, repr(self.sample_rate)

    def _drawer(self, source: KeyedStream) -> Drawer:
        """A batch is its size, binomial, and then a uniformly random subset of the group."""
        dataset_size, groups = self._examples(), self.cycle_length
        rate = Fraction(self.sample_rate)
        # groups have at most two sizes
        size_of = lru_cache(maxsize=2)(lambda members: binomial_draws(members, rate))

        def batch(step: int) -> Indices:
            group, own = step % groups, source.derive("step", step)
            members = -(-(dataset_size - group) // groups)
            return own.subset(members, size_of(members)(own)) * groups + group

        return batch

    def _size_law(self) -> tuple[int, float]:
        examples, _ = super()._size_law()
        return -(-examples // self.cycle_length), self.sample_rate
