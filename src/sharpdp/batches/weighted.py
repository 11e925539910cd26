"""Poisson batches in which examples have probabilities of their own, proportional to weights."""

import hashlib
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import count, invalid
from sharpdp.batches.independent import PoissonBatches, settled_steps, settled_weights
from sharpdp.batches.scheme import (
    ALL_INDEPENDENT,
    MISSED_OR_TWICE,
    RANDOM_SIZE,
    Drawer,
    DrawnBatches,
    Indices,
    pluralize,
)
from sharpdp.randomness.binomial import binomial_draws
from sharpdp.randomness.keyed_stream import KeyedStream

__all__ = ["WeightedPoissonBatches"]

_UNITS = 1 << 53
"""Probabilities are whole multiples of 2^-53, so that coin flips are exact and rates are doubles."""


@dataclass(frozen=True, init=False)
class WeightedPoissonBatches(DrawnBatches):
    """Poisson batches with a probability for each example, proportional to its weight.

    For importance sampling and for classes of unequal size. The probability of example i is
    weights[i] * batch_size / sum(weights), rounded up to a multiple of 2^-53. A run is as private as for
    the example with the largest one, `sample_rate`; `for_example` tells what it is for another.

    - Example i enters every batch with probability ``rates[i]``.
    - All these coin flips are independent, between examples and between batches.
    - The batch size is random, and an empty batch is a step like any other.

    Holds when: the weights are public, or chosen without looking at the records; weights that are
    computed from the records are a separate release. Neighbors have the same weights, and with
    add/remove the probabilities of all others stay as they are. Training adds its noise in every step,
    and clips a gradient after multiplying it by whatever makes up for the weights.

    Args:
        weights: one number for each example, at least 0, some of them positive.
        batch_size: the expected size of a batch; at least 1, and so small that no probability is above 1.
        steps: number of batches in the run; 0 to 10^18.
        epochs: in place of ``steps``: that many times ceil(examples / batch_size) batches.

    Raises:
        InvalidArgument: a value is out of range, or both or neither of steps and epochs are given.
        WrongType: weights are not a list of numbers, or a value is not a number.

    >>> plan = WeightedPoissonBatches(weights=[1, 1, 1, 5], batch_size=1, steps=100)
    >>> plan.rates.tolist(), plan.sample_rate
    ([0.125, 0.125, 0.125, 0.625], 0.625)
    """

    weights: tuple[float, ...]
    batch_size: int
    steps: int

    label = "weighted Poisson batches"
    largest_batch_size = None

    def __init__(
        self,
        *,
        weights: tuple[float, ...],
        batch_size: int,
        steps: int | None = None,
        epochs: int | None = None,
    ) -> None:
        """Check that every weight gives a probability."""
        settled = settled_weights(weights)
        size = count(batch_size=batch_size, hint="It is the expected size of a batch.")
        object.__setattr__(self, "weights", settled)
        object.__setattr__(self, "batch_size", size)
        object.__setattr__(self, "steps", settled_steps(steps, len(settled), size, epochs))
        largest = float(np.max(self._exact_rates()))
        if largest > 1.0 + 1e-12:
            allowed = f"at most {int(size / largest)}, so that no probability is above 1"
            hint = f"The largest weight would have probability {largest:.4g}."
            raise invalid("batch_size", allowed, size, hint)

    def _exact_rates(self) -> NDArray[np.float64]:
        weights = np.array(self.weights)
        weights = weights / np.max(weights)  # so that no sum overflows
        return np.asarray(self.batch_size * weights / np.sum(weights))

    @cached_property
    def _units(self) -> NDArray[np.int64]:
        """Probabilities in units of 2^-53; at least one of them for a positive weight."""
        units = np.minimum(np.ceil(self._exact_rates() * _UNITS), _UNITS)
        return np.maximum(units, np.array(self.weights) > 0.0).astype(np.int64)

    @property
    def rates(self) -> NDArray[np.float64]:
        """The probability with which each example enters a batch."""
        return np.asarray(self._units / _UNITS)

    @property
    def sample_rate(self) -> float:
        """The largest probability with which an example enters a batch."""
        return float(np.max(self._units)) / _UNITS

    @property
    def dataset_size(self) -> int:
        """Number of examples."""
        return len(self.weights)

    @property
    def expected_batch_size(self) -> float:
        """Expected number of examples in a batch.

        >>> WeightedPoissonBatches(weights=[1, 3], batch_size=1, steps=3).expected_batch_size
        1.0
        """
        return float(np.sum(self.rates))

    @property
    def guarantees(self) -> tuple[str, ...]:
        """Guarantees about the batches, one sentence each."""
        return (
            "Every example enters every batch with its own probability, proportional to its weight; "
            f"the largest one is {self.sample_rate:.12g}.",
            ALL_INDEPENDENT,
            RANDOM_SIZE,
            MISSED_OR_TWICE,
        )

    def describe(self) -> str:
        """The scheme in one line.

        >>> WeightedPoissonBatches(weights=[1, 1, 2], batch_size=1, steps=100).describe()
        'weighted Poisson batches: 100 steps at sample rates up to 0.5 of 3 examples'
        """
        steps, examples = pluralize(self.steps, "step"), pluralize(self.dataset_size, "example")
        return f"{self.label}: {steps} at sample rates up to {self.sample_rate:.12g} of {examples}"

    def for_example(self, index: int) -> PoissonBatches:
        """The Poisson batches that are as private for everybody as these are for one example.

        Args:
            index: position of the example in the data set.

        Returns:
            Poisson batches at the probability of the example.

        Raises:
            InvalidArgument: ``index`` is not a position in the data set, or the example has weight 0 and
                is never used.
            WrongType: ``index`` is not a number.

        >>> plan = WeightedPoissonBatches(weights=[1, 1, 2], batch_size=1, steps=100)
        >>> plan.for_example(0).describe()
        'Poisson batches: 100 steps at sample rate 0.25'
        """
        rate = float(self.rates[self._position(index)])
        if rate == 0.0:
            hint = "It is never used, so that nothing is revealed about it."
            raise invalid("index", "that of an example with a positive weight", index, hint)
        return PoissonBatches(sample_rate=rate, steps=self.steps)

    def _drawn_by(self) -> tuple[str | int, ...]:
        return self.label, hashlib.shake_256(self._units.astype("<i8").tobytes()).hexdigest(16)

    def _drawer(self, source: KeyedStream) -> Drawer:
        """Poisson batches at the largest probability, where each stays with its own over that one."""
        units = self._units
        largest = int(np.max(units))
        size = binomial_draws(units.size, Fraction(largest, _UNITS))

        def batch(step: int) -> Indices:
            own = source.derive("step", step)
            drawn = own.subset(units.size, size(own))
            return drawn[own.below(largest, drawn.size) < units[drawn]]

        return batch
