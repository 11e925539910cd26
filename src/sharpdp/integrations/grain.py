"""Batches of a scheme for Grain: an `IterDataset` whose state is the number of the step.

    data = SchemeDataset(source, BatchSampler(plan, key))
    for records in data:                 # a list of records for every step, some maybe empty
        ...

Needs `pip install grain`. States are small and are set in constant time, whatever the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sharpdp._validate.extras import optional_packages

with optional_packages("grain", "grain"):
    import grain

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.integrations.torch import BatchSampler

__all__ = ["SchemeDataset", "check_forward"]


class SchemeDataset(grain.IterDataset):  # type: ignore[misc]  # Grain's types are not followed
    """The batches of a scheme, each a list of records; to be mapped and prefetched as Grain does.

    Grain's own `shuffle`, `batch`, `repeat` and sharding would make other batches than those that are
    accounted: leave them out. A second iterator goes on where the first one stands, since going through
    the same batches again is more than was accounted for.

    Args:
        source: Anything with a length and records by position, such as a Grain data source.
        sampler: The scheme, its key, and the shard of this process.

    Raises:
        InvalidArgument: The source has another number of records than the scheme.
        WrongType: sampler is no `BatchSampler`.
    """

    def __init__(self, source: Any, sampler: BatchSampler) -> None:
        """Check that the source is the data set of the scheme."""
        super().__init__()
        if not isinstance(sampler, BatchSampler):
            raise WrongType(f"sampler must be a BatchSampler; got {short_repr(sampler)}.")
        planned = sampler.scheme.dataset_size
        if len(source) != planned:
            raise InvalidArgument(
                f"source must hold the dataset_size = {planned} records of the scheme; got {len(source)}."
            )
        self.source, self.sampler = source, sampler

    def __iter__(self) -> SchemeIterator:
        """The batches that are left."""
        return SchemeIterator(self.source, self.sampler)


class SchemeIterator(grain.DatasetIterator):  # type: ignore[misc]
    """The iterator of a `SchemeDataset`; its state is the step, with a fingerprint of the key."""

    def __init__(self, source: Any, sampler: BatchSampler) -> None:
        """Nothing is read yet."""
        super().__init__()
        self._source, self._sampler = source, sampler
        self._batches: Iterator[list[int]] | None = None

    def __next__(self) -> list[Any]:
        """The records of the next batch."""
        if self._sampler.step >= self._sampler.scheme.steps:
            raise StopIteration
        while True:
            if self._batches is None:
                self._batches = iter(self._sampler)
            for batch in self._batches:
                return [self._source[index] for index in batch]
            self._batches = None  # the next pass

    def get_state(self) -> dict[str, Any]:
        """Where it stands, without the key.

        Returns:
            Plain data, of the same form at every step.
        """
        return self._sampler.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same run, made by a process before this one.

        Args:
            state: What `get_state` gave.

        Raises:
            InvalidArgument: The state is that of another key or kind of scheme, or batches after it were
                handed out here, as for Grain's `repeat`.
            WrongType: It is no such state.
        """
        before = self._sampler.step
        self._sampler.load_state_dict(state)
        after, self._sampler.step = self._sampler.step, max(before, self._sampler.step)
        check_forward(after, before)
        self._batches = None


def check_forward(step: int, handed_out: int) -> None:
    """An error if a state would have batches handed out a second time.

    Args:
        step: The step of the state.
        handed_out: Number of steps whose batches were handed out.
    """
    if step < handed_out:
        raise InvalidArgument(
            f"state must be at step {handed_out} or later; got one at step {step}. To go through the "
            "same batches again is more than was accounted for. To resume, make a new data set with a "
            "new sampler or reader."
        )
