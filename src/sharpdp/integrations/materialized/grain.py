"""Materialized batches for Grain: an `IterDataset` whose state is the number of the step."""

from __future__ import annotations

from typing import Any

from sharpdp._validate.extras import optional_packages

with optional_packages("grain", "grain"):
    import grain

from sharpdp._validate import short_repr
from sharpdp.errors import WrongType
from sharpdp.integrations.grain import check_forward
from sharpdp.integrations.materialized.reader import Batch, MaterializedBatches

__all__ = ["BatchesDataset"]


class BatchesDataset(grain.IterDataset):  # type: ignore[misc]  # Grain's types are not followed
    """Materialized batches in their order, to be mapped and prefetched as Grain does.

    Grain's own `shuffle`, `batch`, `repeat` and sharding would make other batches than those that are
    accounted: leave them out, and give the reader its shard.

    Args:
        batches: The reader. A second iterator goes on where the first one stands.

    Raises:
        WrongType: batches is no `MaterializedBatches`.
    """

    def __init__(self, batches: MaterializedBatches) -> None:
        """Nothing is read yet."""
        super().__init__()
        if not isinstance(batches, MaterializedBatches):
            raise WrongType(f"batches must be MaterializedBatches; got {short_repr(batches)}.")
        self.batches = batches

    def __iter__(self) -> BatchesIterator:
        """The batches that are left."""
        return BatchesIterator(self.batches)


class BatchesIterator(grain.DatasetIterator):  # type: ignore[misc]
    """The iterator of a `BatchesDataset`; its state is set in constant time."""

    def __init__(self, batches: MaterializedBatches) -> None:
        """Nothing is read yet."""
        super().__init__()
        self._batches = batches

    def __next__(self) -> Batch:
        """The next batch."""
        left = self._batches.steps_left
        if not len(left):
            raise StopIteration
        return self._batches[next(iter(left))]

    def get_state(self) -> dict[str, Any]:
        """Where it stands.

        Returns:
            Plain data, of the same form at every step.
        """
        return self._batches.steps_left.state_dict()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from a state of the same batches, made by a process before this one.

        Args:
            state: What `get_state` gave.

        Raises:
            InvalidArgument: The state is that of other batches, or batches after it were handed out here,
                as for Grain's `repeat`.
            WrongType: It is no such state.
        """
        left = self._batches.steps_left
        before = left.step
        left.load_state_dict(state)
        after, left.step = left.step, max(before, left.step)
        check_forward(after, before)
