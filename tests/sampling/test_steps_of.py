"""In which steps an example is, batches of one physical size, and draws keyed by records."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sharpdp as dp
from sharpdp.errors import WrongType
from tests.sampling.chances import KEY, assert_binomial, assert_distribution, occurrences
from tests.sampling.test_runs import PLANS, ids

LARGE: list[Any] = [
    dp.ShuffledBatches(dataset_size=10**9 + 7, batch_size=500, epochs=2),
    dp.ShuffledBatches(
        dataset_size=3 * 10**6, batch_size=7, epochs=2, drop_last=True, order="kept"
    ),
    dp.BallsAndBins(dataset_size=10**9, batch_size=500, epochs=2),
    dp.BallsAndBins(dataset_size=3 * 10**6, batch_size=7, epochs=2, order="kept"),
]


@pytest.mark.parametrize("plan", PLANS, ids=ids)
@pytest.mark.parametrize("key", [KEY, 5])
def test_steps_of_an_example_are_those_of_its_batches(plan: Any, key: Any) -> None:
    counts = occurrences(plan, key)
    for example in range(plan.dataset_size):
        steps = plan.steps_of(example, key)
        assert steps.dtype == np.int64
        expected = np.repeat(np.arange(plan.steps), counts[:, example])
        assert np.array_equal(steps, expected)


@pytest.mark.parametrize("plan", LARGE, ids=ids)
def test_steps_are_found_without_drawing_the_batches(plan: Any) -> None:
    for step in (0, plan.steps // 2 + 3, plan.steps - 1):
        batch = next(plan.batches(KEY, start=step))
        for example in batch[:3].tolist():
            steps = plan.steps_of(example, KEY)
            assert step in steps
            assert np.all(np.diff(steps // plan.steps_per_epoch) == 1)
            for other in steps.tolist():
                assert example in next(plan.batches(KEY, start=other))


def test_records_of_a_stream_flip_their_own_coins() -> None:
    """2000 records of nobody knows how many: sizes, steps and pairs of records are binomial."""
    stream = dp.PoissonBatches(sample_rate=0.3, steps=12)
    members = np.zeros((2000, 12), dtype=bool)
    for record in range(2000):
        members[record, stream.steps_of(record, KEY)] = True
    assert_distribution(members.sum(axis=1), stats.binom(12, 0.3).cdf)
    assert_binomial(members.sum(axis=0), 2000, 0.3, comparisons=12)
    assert_binomial(np.sum(members[0::2] & members[1::2]), 12_000, 0.09)
    assert_binomial(np.sum(members[:, 0::2] & members[:, 1::2]), 12_000, 0.09)


def test_names_of_records_tell_them_apart() -> None:
    stream = dp.PoissonBatches(sample_rate=0.5, steps=200)
    names: list[Any] = ["a", "b", "1", 1, 10**18]
    found = [tuple(stream.steps_of(name, KEY).tolist()) for name in names]
    assert len(set(found)) == len(names)
    assert tuple(stream.steps_of("a", KEY).tolist()) == found[0]
    assert tuple(stream.steps_of("a", 7).tolist()) != found[0]
    other = dp.PoissonBatches(sample_rate=0.5, steps=201)
    assert tuple(other.steps_of("a", KEY).tolist()) != found[0]
    whole = dp.PoissonBatches(sample_rate=1, steps=3)
    assert whole.steps_of("a", KEY).tolist() == [0, 1, 2]


@pytest.mark.parametrize("plan", PLANS, ids=ids)
def test_batches_are_padded_to_one_size(plan: Any) -> None:
    size = plan.dataset_size if plan.largest_batch_size is None else plan.largest_batch_size
    for batch in itertools.islice(plan.batches(KEY), 8):
        places = plan.padded(batch, physical_batch_size=size)
        assert places.size == size
        assert np.array_equal(places[places >= 0], batch)
        assert np.all(places[batch.size :] == -1)
    if plan.largest_batch_size is None:
        with pytest.raises(dp.InvalidArgument, match=r"^physical_batch_size must be given, since"):
            plan.padded([0])
    else:
        assert plan.padded([0]).size == plan.largest_batch_size
    with pytest.raises(dp.InvalidArgument, match=r"^indices must be at most 2 examples; got 3"):
        plan.padded([0, 1, 2], physical_batch_size=2)
    for wrong in ([plan.dataset_size], [-1], [0.5], [True], 3, "01"):
        with pytest.raises(WrongType, match=r"^indices must be whole numbers"):
            plan.padded(wrong, physical_batch_size=4)


@pytest.mark.parametrize("plan", PLANS, ids=ids)
def test_overflow_is_not_below_the_chance_of_a_larger_batch(plan: Any) -> None:
    largest = plan.largest_batch_size
    if largest is not None:
        assert (plan.overflow(largest), plan.overflow(largest - 1)) == (0.0, 1.0)
        return
    trials, rate = plan._size_law()
    for size in range(1, plan.dataset_size + 1):
        exact = min(plan.steps * float(stats.binom.sf(size, trials, rate)), 1.0)
        assert exact <= plan.overflow(size) <= 1.0
    assert plan.overflow(plan.dataset_size) == 0.0
    sizes = np.array([batch.size for batch in plan.batches(KEY)])
    assert plan.overflow(int(sizes.max()) - 1) > 1e-6


def test_the_price_of_a_physical_size() -> None:
    """A thousand batches of 1000 outgrow 1250 places with a chance of about 1e-11."""
    plan = dp.PoissonBatches(dataset_size=10**6, batch_size=1000, steps=1000)
    exact = 1000 * float(stats.binom.sf(1250, 10**6, 1e-3))
    assert exact <= plan.overflow(1250) <= 30 * exact
    assert math.isclose(plan.overflow(900), 1.0)


def test_what_is_refused() -> None:
    plan = dp.ShuffledBatches(dataset_size=10, batch_size=4, epochs=2)
    with pytest.raises(dp.InvalidArgument, match=r"^index must be below dataset_size = 10; got 10"):
        plan.steps_of(10, KEY)
    with pytest.raises(dp.InvalidArgument, match=r"^index must be a whole number, at least 0"):
        plan.steps_of(-1, KEY)
    for rng in (None, np.random.default_rng(0)):
        with pytest.raises(dp.InvalidArgument, match=r"^rng must be the key \(bytes\) or the seed"):
            plan.steps_of(0, rng)
    with pytest.raises(dp.InvalidArgument, match=r"^dataset_size must be given"):
        dp.RandomAllocation(steps=3).steps_of(0, KEY)
    with pytest.raises(WrongType, match=r"^index must be a whole number"):
        dp.PoissonBatches(sample_rate=0.1, steps=3, dataset_size=5).steps_of("a", KEY)
    with pytest.raises(WrongType, match=r"^index must be a whole number"):
        dp.PoissonBatches(sample_rate=0.1, steps=3).steps_of(None, KEY)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match=r"^physical_batch_size must be a whole number"):
        plan.overflow(0)
    deterministic = dp.DeterministicBatches(dataset_size=10, batch_size=4, epochs=2)
    assert deterministic.steps_of(9).tolist() == [2, 5]


@pytest.mark.parametrize("plan", PLANS, ids=ids)
def test_steps_of_many_examples_are_those_of_each(plan: Any) -> None:
    """In any order of the examples, some of them left out."""
    some = np.random.default_rng(3).permutation(plan.dataset_size)[:29]
    where, steps = plan.steps_of_many(some, KEY)
    assert np.array_equal(where, np.sort(where))
    for place, example in enumerate(some.tolist()):
        assert np.array_equal(steps[where == place], plan.steps_of(example, KEY))


@pytest.mark.parametrize("plan", [LARGE[1], LARGE[3]], ids=ids)
def test_a_range_of_a_large_data_set_is_assigned_at_once(plan: Any) -> None:
    """All steps that a table finds are those whose batches hold the example."""
    few = np.arange(10**6, 10**6 + 20)
    where, steps = plan.steps_of_many(few, KEY)
    assert np.array_equal(where, np.repeat(np.arange(20), 2))
    for place, step in zip(where.tolist(), steps.tolist(), strict=True):
        assert few[place] in next(plan.batches(KEY, start=step))


def test_a_table_of_all_steps_agrees_with_single_searches() -> None:
    plan = dp.BallsAndBins(dataset_size=2**20 + 50, batch_size=10_000, epochs=2)
    everybody = np.arange(plan.dataset_size)
    where, steps = plan.steps_of_many(everybody, KEY)
    for step, batch in enumerate(plan.batches(KEY)):
        assert np.array_equal(where[steps == step], batch)
    assert plan.steps_of(77, KEY).tolist() == steps[where == 77].tolist()


def test_records_of_a_stream_are_assigned_at_once() -> None:
    stream = dp.PoissonBatches(sample_rate=0.3, steps=12)
    where, steps = stream.steps_of_many([5, 10**17], KEY)
    assert steps[where == 1].tolist() == stream.steps_of(10**17, KEY).tolist()
    assert steps[where == 0].tolist() == stream.steps_of(5, KEY).tolist()


def test_wrong_examples_are_refused() -> None:
    plan = dp.ShuffledBatches(dataset_size=10, batch_size=4, epochs=2)
    for wrong in ([0.5], [], "01", [[0]], 3, [True]):
        with pytest.raises(WrongType, match=r"^indices must be whole numbers"):
            plan.steps_of_many(wrong, KEY)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match=r"^indices must be from 0 to below dataset_size"):
        plan.steps_of_many([3, 10], KEY)
    with pytest.raises(dp.InvalidArgument, match=r"^indices must be different from each other"):
        plan.steps_of_many([3, 3], KEY)
    with pytest.raises(dp.InvalidArgument, match=r"^rng must be the key"):
        plan.steps_of_many([3])
