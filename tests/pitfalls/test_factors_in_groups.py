"""Bounds whose pairs hold only together are not chained pair by pair for groups of records."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds import all_bounds, bounds_for
from sharpdp.mechanisms.composed import Grouped
from sharpdp.pairs.chained import chained
from sharpdp.pairs.pair import log_deltas_of
from sharpdp.profile.composition import Composition

ZERO_OUT = dp.Adjacency.ZERO_OUT


def upper_of(mechanism: dp.Mechanism, base: str):
    """The group bound that converts one bound on single records."""
    return next(
        one for one in bounds_for(mechanism, ZERO_OUT) if one.base and one.base.name == base
    )


RUNS = {
    "opposed_others_upper": dp.FixedSizeBatches(dataset_size=60_000, batch_size=512, steps=3540),
    "opposed_repeats_upper": dp.FixedSizeBatches(
        dataset_size=60_000, batch_size=512, steps=3540, replacement=True
    ),
    "random_allocation_upper": dp.RandomAllocation(steps=12, participations=3, epochs=2),
    "overflow_revealed_upper": dp.TruncatedPoissonBatches(
        dataset_size=1000, batch_size=20, steps=5, physical_batch_size=70
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_round_of_factors_is_chained_as_a_whole(name: str) -> None:
    """The bound is above the chain of a whole round, computed here from its composed profile."""
    run = dp.DPSGD(RUNS[name], noise_multiplier=0.8)
    single = next(one for one in bounds_for(run, ZERO_OUT) if one.name == name)
    rounds = single.rounds_of_factors(run, ZERO_OUT)
    pairs = single(run, ZERO_OUT)
    assert rounds >= 1
    assert all(count % rounds == 0 for _, count in pairs)
    whole = Composition(tuple((pair, count // rounds) for pair, count in pairs))
    found = upper_of(Grouped(run, 2), name)(Grouped(run, 2), ZERO_OUT)
    assert [count for _, count in found] == [rounds]
    # no split of the threshold gives less than the chain; lower ends of the composed profile
    losses = np.linspace(0.0, 40.0, 81)
    h = np.exp(whole.log_deltas(losses, 1e-3)[0])
    for index in (10, 30, 50):
        best = np.min(h[: index + 1] + np.exp(losses[: index + 1]) * h[index::-1])
        upper = math.exp(log_deltas_of(found[0][0], losses[index : index + 1])[1][0])
        # splits here are within 0..loss on a grid, so that the least sum is a little above the chain
        assert upper >= min(best, 1.0) * 0.6


def test_pairs_that_are_factors_are_named() -> None:
    marked = {one.name for one in all_bounds() if one.factors is not None}
    assert marked == set(RUNS)
    once = dp.DPSGD(dp.RandomAllocation(steps=12, participations=1), noise_multiplier=0.8)
    single = next(
        one for one in bounds_for(once, ZERO_OUT) if one.name == "random_allocation_upper"
    )
    assert single.rounds_of_factors(once, ZERO_OUT) == 0


def test_groups_over_many_random_subsets() -> None:
    """The pairs of `opposed_others_upper` one by one would give 112.83, which is not proved."""
    run = dp.DPSGD(RUNS["opposed_others_upper"], noise_multiplier=0.8)
    answer = dp.account(run, group_size=2, adjacency="zero-out")
    (steps,) = [
        one for one in answer.upper_derivations if one.bounds[1].name == "random_subset_upper"
    ]
    subset = next(one for one in bounds_for(run, ZERO_OUT) if one.name == "random_subset_upper")
    ((pair, count),) = subset(run, ZERO_OUT)
    proved = Composition(((chained([pair, pair]), count),)).epsilon(math.log(1e-5), 1e-3)
    assert answer.only(steps).epsilon(delta=1e-5).upper == pytest.approx(proved[1], rel=2e-3)
    assert answer.epsilon(delta=1e-5).upper > 0.999 * proved[0] > 114.0


@pytest.mark.parametrize("size", [2, 3])
def test_two_records_in_blocks_of_their_own(size: int) -> None:
    """Brute force: 2 of 3 steps for each of a group, whose exact profile is a mean over allocations."""
    noise, draws = 1.0, 200_000
    run = dp.DPSGD(dp.RandomAllocation(steps=3, participations=2), noise_multiplier=noise)
    rng = np.random.default_rng(5)
    z = rng.normal(size=(draws, 3))
    places = [np.array(row) for row in ([1, 1, 0], [1, 0, 1], [0, 1, 1])]
    moves = [np.zeros(3)]
    for _ in range(size):
        moves = [move + place for move in moves for place in places]
    ratio = np.mean(
        [np.exp(z @ move / noise - move @ move / 2 / noise**2) for move in moves], axis=0
    )
    answer = dp.account(run, group_size=size, adjacency="zero-out")
    for epsilon in (0.5, 2.0, 4.0):
        ahead = np.maximum(1.0 - np.exp(epsilon) * ratio, 0.0)  # N(0) against the group
        upper = answer.delta(epsilon=epsilon).upper
        assert upper >= ahead.mean() - 5.0 * ahead.std() / math.sqrt(draws)


def test_added_groups_where_the_number_of_records_counts() -> None:
    """A group passes through data sets of other sizes than the plan's; other notions are left."""
    truncated = dp.DPSGD(RUNS["overflow_revealed_upper"], noise_multiplier=0.8)
    last = dp.LastIterate(
        dp.PoissonBatches(dataset_size=1000, batch_size=100, steps=50),
        noise_multiplier=2.0,
        learning_rate=0.5,
        loss=dp.SmoothLoss(gradient_norm=1.0, smoothness=1.0, regularization=0.1),
    )
    mixed = dp.Mixture(components=[truncated, truncated], weights=[0.5, 0.5])
    for run in (truncated, dp.BestOf(truncated, "geometric", mean=3.0), mixed, last):
        assert dp.Adjacency.ADD_REMOVE in run.adjacencies
        with pytest.raises(dp.Unsupported, match="add/remove"):
            dp.account(run, group_size=2, adjacency="add/remove")
        assert dp.Adjacency.ZERO_OUT in Grouped(run, 2).adjacencies
