"""Every guarantee that a scheme lists, tested: exact laws of tiny runs, statistics of larger ones.

Each test would fail with probability at most 1e-9 if its key were drawn anew.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sharpdp as dp
from sharpdp.batches import random_allocation as allocation
from sharpdp.randomness import allocation as halving
from sharpdp.randomness.keyed_stream import KeyedStream
from tests.sampling.chances import (
    KEY,
    as_sets,
    assert_binomial,
    assert_distribution,
    assert_law,
    membership,
)


def epochs(plan: Any) -> list[tuple[tuple[int, ...], ...]]:
    """The batches of every epoch of one run."""
    batches = as_sets(plan.batches(KEY))
    steps = plan.steps_per_epoch
    return [batches[start : start + steps] for start in range(0, len(batches), steps)]


def slices(size: int, cuts: list[tuple[int, int]]) -> list[tuple[tuple[int, ...], ...]]:
    """The epochs that all orders of a data set give, as often as orders give them."""
    return [
        tuple(tuple(sorted(order[start:stop])) for start, stop in cuts)
        for order in itertools.permutations(range(size))
    ]


def law_of(every: list[Any]) -> dict[Any, float]:
    return {outcome: times / len(every) for outcome, times in Counter(every).items()}


@pytest.mark.parametrize(
    ("drop_last", "cuts"),
    [(False, [(0, 2), (2, 4), (4, 5)]), (True, [(0, 2), (2, 4)])],
)
def test_shuffled_epochs_are_equally_likely(drop_last: bool, cuts: list[tuple[int, int]]) -> None:
    plan = dp.ShuffledBatches(dataset_size=5, batch_size=2, epochs=5000, drop_last=drop_last)
    assert_law(epochs(plan), law_of(slices(5, cuts)))


def test_shuffled_epochs_are_independent() -> None:
    plan = dp.ShuffledBatches(dataset_size=3, batch_size=1, epochs=8000)
    found = epochs(plan)
    every = list(itertools.product(slices(3, [(0, 1), (1, 2), (2, 3)]), repeat=2))
    assert_law(zip(found[0::2], found[1::2], strict=True), law_of(every))


def test_a_kept_order_is_the_same_in_every_epoch_and_random_between_runs() -> None:
    plan = dp.ShuffledBatches(dataset_size=4, batch_size=2, epochs=3, order="kept")
    assert len(set(epochs(plan))) == 1
    first = [as_sets(plan.batches(turn))[:2] for turn in range(2000)]
    assert_law(first, law_of(slices(4, [(0, 2), (2, 4)])))


@pytest.mark.parametrize("order", ["redrawn", "kept"])
def test_shuffled_epochs_hold_everyone_once(order: str) -> None:
    plan = dp.ShuffledBatches(dataset_size=1000, batch_size=64, epochs=4, order=order)
    for epoch in epochs(plan):
        assert [len(batch) for batch in epoch] == [64] * 15 + [40]
        assert sorted(itertools.chain(*epoch)) == list(range(1000))


@pytest.mark.parametrize("options", [{"drop_last": True}, {"left_out": 2}], ids=str)
def test_examples_that_sit_out_are_random_ones(options: dict[str, Any]) -> None:
    plan = dp.ShuffledBatches(dataset_size=10, batch_size=4, epochs=6000, **options)
    members = membership(plan).reshape(plan.epochs, 2, 10).sum(axis=1)
    assert set(np.unique(members)) == {0, 1}
    assert np.all(members.sum(axis=1) == 8)
    assert_binomial(members.sum(axis=0), plan.epochs, 0.8, comparisons=10)


@pytest.mark.parametrize("left_out", [1, 3, 5])
def test_as_many_as_stated_sit_out(left_out: int) -> None:
    """Also where the last batch has room for them."""
    plan = dp.ShuffledBatches(dataset_size=12, batch_size=4, epochs=5, left_out=left_out)
    batches = [batch.tolist() for batch in plan.batches(rng=3)]
    for epoch in range(5):
        used = batches[epoch * plan.steps_per_epoch : (epoch + 1) * plan.steps_per_epoch]
        assert len({example for batch in used for example in batch}) == 12 - left_out


def test_balls_go_to_bins_independently() -> None:
    """All 27 ways to throw three examples into three bins, and all pairs of ways in two epochs."""
    plan = dp.BallsAndBins(dataset_size=3, batch_size=1, epochs=2500)
    bins = membership(plan).reshape(plan.epochs, 3, 3).argmax(axis=1)
    ways = [tuple(way) for way in bins.tolist()]
    every = list(itertools.product(range(3), repeat=3))
    assert_law(ways, dict.fromkeys(every, 1 / 27))
    again = [way[0] == other[0] for way, other in itertools.pairwise(ways)]
    assert_binomial(sum(again[0::2]), len(again[0::2]), 1 / 3)


def test_kept_bins_are_the_same_in_every_epoch_and_random_between_runs() -> None:
    plan = dp.BallsAndBins(dataset_size=3, batch_size=1, epochs=4, order="kept")
    assert len(set(epochs(plan))) == 1
    every = list(itertools.product(range(3), repeat=3))
    ways = [tuple(membership(plan, turn)[:3].argmax(axis=0).tolist()) for turn in range(2500)]
    assert_law(ways, dict.fromkeys(every, 1 / 27))


def test_sizes_that_do_not_divide_make_fewer_bins() -> None:
    plan = dp.BallsAndBins(dataset_size=11, batch_size=4, epochs=3000)
    assert plan.bins == 2
    members = membership(plan).reshape(plan.epochs, 2, 11)
    assert np.all(members.sum(axis=1) == 1)  # nobody is left over
    assert_distribution(members[:, 0].sum(axis=1), stats.binom(11, 0.5).cdf)


def test_bins_of_many_balls() -> None:
    plan = dp.BallsAndBins(dataset_size=2000, batch_size=100, epochs=50)
    members = membership(plan).reshape(plan.epochs, plan.bins, 2000)
    assert np.all(members.sum(axis=1) == 1)
    sizes = members.sum(axis=2)
    for part in (0, 7, 19):
        assert_distribution(sizes[:, part], stats.binom(2000, 1 / 20).cdf)
    assert_binomial(members.sum(axis=(0, 2)), 50 * 2000, 1 / 20, comparisons=20)
    together = (members[:, :, 0::2] & members[:, :, 1::2]).sum()
    assert_binomial(together, 50 * 1000, 1 / 20)
    again = (members[0::2] & members[1::2]).sum()
    assert_binomial(again, 25 * 2000, 1 / 20)


def test_balls_leave_bins_empty_as_they_should() -> None:
    plan = dp.BallsAndBins(dataset_size=6, batch_size=1, epochs=2000)
    empty = sum(batch.size == 0 for batch in itertools.islice(plan.batches(KEY), 0, None, 6))
    assert_binomial(empty, plan.epochs, (5 / 6) ** 6)


def subsets(members: Any, steps: int) -> list[tuple[int, ...]]:
    """The codes of the steps that each example chose, in each epoch."""
    codes = np.tensordot(
        2 ** np.arange(steps), members.reshape(-1, steps, members.shape[1]), (0, 1)
    )
    return [tuple(epoch) for epoch in codes.tolist()]


@pytest.mark.parametrize("choices", [1, 2, 3])
def test_random_allocations_are_independent(choices: int) -> None:
    """All choices of two examples at once, and of one example in two epochs."""
    plan = dp.RandomAllocation(steps=3, participations=choices, epochs=2500, dataset_size=2)
    found = subsets(membership(plan), 3)
    codes = [sum(2**step for step in way) for way in itertools.combinations(range(3), choices)]
    every = list(itertools.product(codes, repeat=2))
    assert_law(found, dict.fromkeys(every, 1 / len(every)))
    in_two_epochs = [(one[0], other[0]) for one, other in itertools.pairwise(found)][0::2]
    assert_law(in_two_epochs, dict.fromkeys(every, 1 / len(every)))


@pytest.mark.parametrize(("steps", "choices"), [(4, 2), (5, 3)])
def test_halving_gives_the_law_of_independent_choices(steps: int, choices: int) -> None:
    """What is used beyond 2^22 participations, for two examples: all pairs of choices."""
    ways = list(itertools.combinations(range(steps), choices))
    found = []
    for turn in range(500):
        step = halving.chosen_often(KeyedStream(KEY).derive(turn), 2, steps, choices)
        at = [step(place).tolist() for place in range(steps)]
        found.append(tuple(tuple(s for s in range(steps) if one in at[s]) for one in range(2)))
    every = itertools.product(ways, repeat=2)
    assert_law(found, dict.fromkeys(every, 1 / len(ways) ** 2))


@pytest.mark.parametrize("listed", [2**14, 0])
def test_halving_of_many_examples(listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly three choices each; sizes, examples and pairs as independent choices have them."""
    monkeypatch.setattr(allocation, "LARGEST_HELD", 0)
    monkeypatch.setattr(halving, "LARGEST_LISTED", listed)
    plan = dp.RandomAllocation(steps=16, participations=3, epochs=6, dataset_size=1500)
    members = membership(plan).reshape(6, 16, 1500)
    assert np.all(members.sum(axis=1) == 3)
    assert_binomial(members.sum(axis=2), 1500, 3 / 16, comparisons=96)
    assert_binomial((members[:, 0] & members[:, 1]).sum(), 9000, 3 / 16 * 2 / 15)
    assert_binomial((members[:, 0] & members[:, 15]).sum(), 9000, 3 / 16 * 2 / 15)
    assert_binomial((members[:, :, 0::2] & members[:, :, 1::2])[:, 5].sum(), 4500, (3 / 16) ** 2)
    assert_binomial((members[0, 3] & members[1, 3]).sum(), 1500, (3 / 16) ** 2)


def test_groups_take_turns() -> None:
    """Seven examples in three groups: nobody out of turn, and in turn by coin flips of one's own."""
    plan = dp.batches.CyclicPoissonBatches(
        sample_rate=0.3, steps=9000, cycle_length=3, dataset_size=7
    )
    members = membership(plan)
    for group in range(3):
        own, turn = members[:, group::3], np.arange(plan.steps) % 3 == group
        assert not own[~turn].any()
        assert_binomial(own[turn].sum(axis=0), 3000, 0.3, comparisons=own.shape[1])
        assert_distribution(own[turn].sum(axis=1), stats.binom(own.shape[1], 0.3).cdf)
        assert_binomial(np.sum(own[turn][0::2, 0] & own[turn][1::2, 0]), 1500, 0.09)
    assert plan.turns == 3000


def test_weights_are_probabilities_of_coin_flips() -> None:
    """Each example at its own rate, independently of others and of other steps; weight 0 never."""
    plan = dp.batches.WeightedPoissonBatches(
        weights=[1.0, 2.0, 0.0, 4.0, 1.0], batch_size=2, steps=8000
    )
    members = membership(plan)
    assert not members[:, 2].any()
    assert_binomial(members.sum(axis=0), plan.steps, plan.rates, comparisons=5)
    sets = {
        subset: float(np.prod(np.where(np.isin(range(5), subset), plan.rates, 1.0 - plan.rates)))
        for size in range(5)
        for subset in itertools.combinations((0, 1, 3, 4), size)
    }
    assert_law(as_sets(plan.batches(KEY)), sets)
    assert_binomial(np.sum(members[0::2, 3] & members[1::2, 3]), 4000, plan.rates[3] ** 2)


def test_weighted_draws_follow_their_weights() -> None:
    """Two draws of three examples with replacement: every multiset has its probability."""
    plan = dp.FixedSizeBatches(
        dataset_size=3, batch_size=2, steps=8000, replacement=True, weights=[1.0, 2.0, 5.0]
    )
    share = (0.125, 0.25, 0.625)
    law = {
        (i, j): share[i] * share[j] * (1 if i == j else 2)
        for i, j in itertools.combinations_with_replacement(range(3), 2)
    }
    assert_law(as_sets(plan.batches(KEY)), law)


def test_truncated_batches_follow_their_law() -> None:
    """Of three examples at most two are kept: every subset has its probability."""
    plan = dp.TruncatedPoissonBatches(
        dataset_size=3, batch_size=2, steps=8000, physical_batch_size=2
    )
    rate = Fraction(2, 3)
    law: dict[tuple[int, ...], Fraction] = {}
    for size in range(3):
        for subset in itertools.combinations(range(3), size):
            drawn = rate**size * (1 - rate) ** (3 - size)
            law[subset] = drawn + (rate**3 / 3 if size == 2 else 0)
    assert sum(law.values()) == 1
    assert_law(as_sets(plan.batches(KEY)), {key: float(value) for key, value in law.items()})


def test_truncated_batches_are_never_larger_and_independent() -> None:
    plan = dp.TruncatedPoissonBatches(
        dataset_size=200, batch_size=20, steps=3000, physical_batch_size=24
    )
    members = membership(plan)
    sizes = members.sum(axis=1)
    law = stats.binom(200, 0.1)
    assert sizes.max() == 24
    assert_distribution(sizes, lambda at: np.where(at < 24, law.cdf(at), 1.0))
    assert_binomial(np.sum(sizes == 24), 3000, law.sf(23))
    rate = sum(min(count, 24) * law.pmf(count) for count in range(201)) / 200
    by_example = members.sum(axis=0)
    assert_binomial(by_example, 3000, rate, comparisons=200)
    full = sizes == 24
    assert_binomial(np.sum(full[0::2] & full[1::2]), 1500, law.sf(23) ** 2)


def test_padding_is_minus_one() -> None:
    plan = dp.TruncatedPoissonBatches(
        dataset_size=50, batch_size=5, steps=40, physical_batch_size=8
    )
    for batch in plan.batches(KEY):
        places = plan.padded(batch)
        assert places.size == 8
        assert np.array_equal(places[places >= 0], batch)
        assert np.all(places[batch.size :] == -1)
    for worker in range(3):
        for part in plan.batches(KEY, shard=(worker, 3)):
            assert plan.padded(part, workers=3).size == 3
    with pytest.raises(dp.InvalidArgument, match=r"^indices must be at most 8 examples; got 9"):
        plan.padded(np.arange(9))


def test_fixed_sizes_are_fixed_and_subsets_equally_likely() -> None:
    plan = dp.FixedSizeBatches(dataset_size=5, batch_size=2, steps=6000)
    every = list(itertools.combinations(range(5), 2))
    found = as_sets(plan.batches(KEY))
    assert_law(found, dict.fromkeys(every, 1 / 10))
    pairs = zip(found[0::2], found[1::2], strict=True)
    assert_law(pairs, dict.fromkeys(itertools.product(every, repeat=2), 1 / 100))


def test_fixed_sizes_among_many() -> None:
    plan = dp.FixedSizeBatches(dataset_size=1000, batch_size=30, steps=400)
    members = membership(plan)
    assert np.all(members.sum(axis=1) == 30)
    assert_binomial(members.sum(axis=0), 400, 0.03, comparisons=1000)
    again = (members[0::2] & members[1::2]).sum()
    assert_binomial(again, 200 * 30, 0.03)  # hypergeometric in each step, narrower than this
    assert math.isclose(plan.sample_rate, 0.03)


def test_draws_with_replacement_are_independent() -> None:
    """All nine ordered draws of two of three examples, as six sets, and pairs of steps."""
    plan = dp.FixedSizeBatches(dataset_size=3, batch_size=2, steps=6000, replacement=True)
    every = list(itertools.combinations_with_replacement(range(3), 2))
    law = {pair: (1 if pair[0] == pair[1] else 2) / 9 for pair in every}
    found = as_sets(plan.batches(KEY))
    assert_law(found, law)
    together = {(one, other): law[one] * law[other] for one in every for other in every}
    assert_law(zip(found[0::2], found[1::2], strict=True), together)


def test_occurrences_among_many_are_binomial() -> None:
    plan = dp.FixedSizeBatches(dataset_size=50, batch_size=40, steps=3000, replacement=True)
    times = np.array([np.bincount(batch, minlength=50) for batch in plan.batches(KEY)])
    assert np.all(times.sum(axis=1) == 40)
    for example in (0, 17, 49):
        assert_distribution(times[:, example], stats.binom(40, 1 / 50).cdf)


def test_poisson_over_many_keys() -> None:
    """One batch of each of many runs: keys give independent runs, as steps give batches."""
    plan = dp.PoissonBatches(sample_rate=0.25, steps=64, dataset_size=2)
    found = [tuple(next(plan.batches(key, start=17)).tolist()) for key in range(3000)]
    assert_law(found, {(): 0.5625, (0,): 0.1875, (1,): 0.1875, (0, 1): 0.0625})
