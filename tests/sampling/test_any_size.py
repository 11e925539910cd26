"""Schemes of any size, the smallest included: who is in which batch, and that every step stands alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import sharpdp as dp
from sharpdp.randomness import allocation as halving
from sharpdp.randomness.keyed_stream import KeyedStream
from tests.sampling.chances import KEY, as_sets, membership

sizes = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(1, size)))
epochs = st.integers(1, 3)


@st.composite
def plans(draw: Any) -> Any:
    size, batch = draw(sizes)
    once = {"dataset_size": size, "batch_size": batch}
    steps = draw(st.integers(1, 9))
    return draw(
        st.sampled_from(
            [
                dp.PoissonBatches(**once, steps=steps),
                dp.TruncatedPoissonBatches(
                    **once, steps=steps, physical_batch_size=draw(st.integers(batch, size))
                ),
                dp.FixedSizeBatches(**once, steps=steps),
                dp.DeterministicBatches(**once, epochs=draw(epochs)),
                dp.ShuffledBatches(
                    **once,
                    epochs=draw(epochs),
                    order=draw(st.sampled_from(["redrawn", "kept"])),
                    drop_last=draw(st.booleans()),
                    left_out=draw(st.integers(0, size - batch)),
                ),
                dp.BallsAndBins(**once, epochs=draw(epochs)),
                dp.RandomAllocation(
                    steps=steps,
                    participations=draw(st.integers(1, steps)),
                    epochs=draw(epochs),
                    dataset_size=size,
                ),
            ]
        )
    )


@settings(max_examples=150, deadline=None, derandomize=True)
@given(plan=plans(), data=st.data())
def test_any_plan(plan: Any, data: Any) -> None:
    whole = list(plan.batches(KEY))
    assert len(whole) == plan.steps
    for batch in whole:
        assert batch.dtype == np.int64
        assert np.all(np.diff(batch) > 0)
        assert batch.size == 0 or 0 <= batch[0] <= batch[-1] < plan.dataset_size
    start = data.draw(st.integers(0, plan.steps))
    workers = data.draw(st.integers(1, 4))
    worker = data.draw(st.integers(0, workers - 1))
    part = plan.batches(KEY, start=start, shard=(worker, workers))
    assert as_sets(part) == tuple(batch[worker::workers] for batch in as_sets(whole[start:]))
    assert all("  " not in sentence for sentence in (*plan.guarantees, plan.describe()))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(plan=plans().filter(lambda plan: hasattr(plan, "epochs")))
def test_any_epoch(plan: Any) -> None:
    """Every example takes part as often as is promised, in every epoch."""
    members = membership(plan).reshape(plan.epochs, plan.steps_per_epoch, plan.dataset_size)
    times = members.sum(axis=1)
    promised = getattr(plan, "participations", 1)
    if "at most" in plan.guarantees[0]:
        assert np.all(times.sum(axis=1) == plan.examples_per_epoch)
        assert np.all(times <= promised)
    else:
        assert np.all(times == promised)
    if isinstance(plan, dp.ShuffledBatches | dp.DeterministicBatches):
        assert np.all(members.sum(axis=2)[:, :-1] == plan.batch_size)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    examples=st.integers(1, 40),
    steps=st.integers(1, 12),
    choices=st.integers(1, 12),
    listed=st.sampled_from([0, 5, 2**14]),
)
def test_any_halving(examples: int, steps: int, choices: int, listed: int) -> None:
    """Found by halving: every example has exactly its choices, whatever orders are held."""
    choices = min(choices, steps)
    before = halving.LARGEST_LISTED
    halving.LARGEST_LISTED = listed
    try:
        step = halving.chosen_often(KeyedStream(KEY).derive(listed), examples, steps, choices)
        every = np.concatenate([step(place) for place in range(steps)])
    finally:
        halving.LARGEST_LISTED = before
    assert np.array_equal(np.bincount(every, minlength=examples), np.full(examples, choices))
