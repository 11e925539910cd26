"""Which steps are written to which file, and how large a batch is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from sharpdp._validate import count, short_repr
from sharpdp.batches.scheme import MEANINGS, BatchScheme, DrawnBatches, check_key
from sharpdp.errors import InvalidArgument, WrongType

__all__ = ["Key", "Layout", "key_of"]

Key: TypeAlias = "bytes | int | Callable[[], bytes] | None"
"""The key of the run, or a function that fetches it where it is needed, say from a secret store."""

SMALLEST_FILE = 2**16
"""Rows of a file that is not worth to be split."""


@dataclass(frozen=True)
class Layout:
    """The files of one run: a function of the plan and of sizes, not of who writes them.

    Args:
        plan: The batch scheme.
        records: How many records there are.
        steps_per_file: Batches in one file; the last one may have fewer.
        places: Rows of every batch, the last ones empty; None for batches as long as they are.
    """

    plan: Any
    records: int
    steps_per_file: int
    places: int | None

    @classmethod
    def of(
        cls,
        plan: BatchScheme,
        records: int,
        rows_per_file: int | None,
        physical_batch_size: int | None,
    ) -> Layout:
        """The layout for so many records, about ``rows_per_file`` rows a file.

        By default about 32 sqrt(rows) of them, at least 2^16: then files, and the parts of a file that
        come from one piece of the input, grow alike.
        """
        if not isinstance(plan, DrawnBatches) or not isinstance(plan, BatchScheme):
            raise WrongType(f"plan must be a batch scheme; got {short_repr(plan)}.")
        planned = plan.dataset_size
        if planned is None and not plan.finds_steps:
            raise InvalidArgument(f"dataset_size must be given in {plan.describe()}; got None.")
        if planned is not None and planned != records:
            raise InvalidArgument(
                f"records must be the dataset_size = {planned} examples of the plan; got {records}."
            )
        usual = plan.expected_batch_size
        if usual is None:
            usual = plan.sample_rate * records  # type: ignore[attr-defined]  # a stream
        wanted = max(SMALLEST_FILE, 32 * math.isqrt(int(usual * plan.steps)))
        if rows_per_file is not None:
            wanted = count(rows_per_file=rows_per_file, hint="It counts rows of all batches.")
        if physical_batch_size is None:
            places = getattr(plan, "physical_batch_size", None)
        else:
            hint = MEANINGS["physical_batch_size"]
            places = count(physical_batch_size=physical_batch_size, hint=hint)
        steps = min(max(int(wanted / max(places or usual, 1.0)), 1), plan.steps)
        return cls(plan, records, steps, places)

    @property
    def files(self) -> int:
        """How many files there are."""
        return -(-int(self.plan.steps) // self.steps_per_file)

    def steps_of_file(self, number: int) -> range:
        """The steps whose batches are in a file."""
        first = number * self.steps_per_file
        return range(first, min(first + self.steps_per_file, self.plan.steps))


def key_of(plan: Any, key: Key) -> bytes | int | None:
    """The key itself, checked; None where nothing is drawn."""
    settled = key() if callable(key) else key
    if settled is not None or plan._draws:
        check_key(settled)
        if isinstance(plan, BatchScheme) and plan.dataset_size is not None:
            plan.batches(settled)  # refuses a key that is too short
        else:
            plan._finder(settled)
    return settled
