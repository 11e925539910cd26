"""A billion examples: batches arrive in milliseconds, and memory stays flat."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from tests.sampling.chances import KEY, assert_binomial

SIZE, BATCH, COUNT = 10**9, 1000, 20
MOST_SECONDS = 0.05
"""CPU time of a batch on average; it is ten to a hundred times less on an idle machine."""
MOST_BYTES = 48 * 2**20

PLANS: list[Any] = [
    dp.PoissonBatches(dataset_size=SIZE, batch_size=BATCH, epochs=2),
    dp.TruncatedPoissonBatches(
        dataset_size=SIZE, batch_size=BATCH, epochs=2, physical_batch_size=1250
    ),
    dp.FixedSizeBatches(dataset_size=SIZE, batch_size=BATCH, steps=10**6),
    dp.DeterministicBatches(dataset_size=SIZE, batch_size=BATCH, epochs=2),
    dp.ShuffledBatches(dataset_size=SIZE, batch_size=BATCH, epochs=2),
    dp.BallsAndBins(dataset_size=SIZE, batch_size=BATCH, epochs=2),
    dp.RandomAllocation(steps=10**6, epochs=2, dataset_size=SIZE),
    dp.RandomAllocation(steps=10**6, participations=2, epochs=2, dataset_size=SIZE),
]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.label} {plan.steps}")
def test_a_billion_examples(plan: Any) -> None:
    """Across the end of an epoch: what is drawn for an epoch as a whole is paid twice."""
    start = plan.steps // 2 - COUNT // 2
    began = time.process_time()
    batches = list(itertools.islice(plan.batches(KEY, start=start), COUNT))
    seconds = time.process_time() - began
    tracemalloc.start()
    again = list(itertools.islice(plan.batches(KEY, start=start + COUNT // 2 - 1), 2))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds / COUNT < MOST_SECONDS
    assert peak < MOST_BYTES
    assert all(map(np.array_equal, again, batches[COUNT // 2 - 1 : COUNT // 2 + 1]))
    rate = BATCH * getattr(plan, "participations", 1)
    for batch in batches:
        assert batch.dtype == np.int64
        assert np.all(np.diff(batch) > 0)
        assert 0 <= batch[0] <= batch[-1] < SIZE
        assert_binomial(batch.size, SIZE, rate / SIZE, comparisons=COUNT)


def test_numbers_beyond_tables_are_refused_at_once() -> None:
    for plan in (
        dp.ShuffledBatches(dataset_size=10**14, batch_size=10, epochs=1),
        dp.BallsAndBins(dataset_size=10**14, batch_size=10, epochs=1),
        dp.RandomAllocation(steps=10, dataset_size=10**14),
    ):
        with pytest.raises(dp.InvalidArgument, match=r"^dataset_size must be at most 10\^13"):
            plan.batches(KEY)  # type: ignore[attr-defined]
    many = dp.RandomAllocation(steps=100, participations=17, dataset_size=10**9)
    with pytest.raises(dp.InvalidArgument, match=r"^participations must be at most 16 to draw"):
        many.batches(KEY)
