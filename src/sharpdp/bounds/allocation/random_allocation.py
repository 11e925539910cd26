"""Bounds on training runs in which every example takes part in some steps of each epoch, at random.

The pair and the proof that it dominates are in `bounds.allocation.balls_and_bins`. With one
participation it is balls-and-bins sampling; with more, the two sides belong to different pairs: the upper
one to a mechanism that reveals blocks of steps, the lower one to tests of the mechanism itself.
"""

from __future__ import annotations

from functools import partial
from math import inf

from sharpdp.batches import RandomAllocation
from sharpdp.bounds.allocation.balls_and_bins import (
    ATTAINED,
    NEIGHBORS,
    RUN,
    blocks_of,
    composed,
    composed_lower,
    composed_upper,
    epochs_of,
    first_step,
    multipliable,
    multiplied,
    not_tabulated,
    one_of_few,
    plan_of,
    revealed,
    several,
    tabulated,
)
from sharpdp.bounds.allocation.ratio_law import MOST_STEPS
from sharpdp.bounds.allocation.sum_test import summed
from sharpdp.bounds.registry import PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.pair import GaussianPair

__all__ = [
    "allocated_jumps_lower",
    "allocated_losses_lower",
    "allocated_step_lower",
    "allocated_sum_lower",
    "multiplied_allocation_lower",
    "multiplied_allocation_upper",
    "random_allocation_lower",
    "random_allocation_upper",
    "revealed_allocation_upper",
]

# Single losses are told apart up to so many standard deviations of their sum, and the share of k / T that
# counts large results more.
_DEVIATIONS, _RARER = 3.0, 0.3


bound = partial(
    register,
    of=DPSGD,
    batch_scheme=RandomAllocation,
    adjacency=NEIGHBORS,
    holds_when=RUN,
    attained_when=ATTAINED,
)


def _some_of_many(mechanism: DPSGD) -> bool:
    """Whether sums of losses say more than the sum of the results."""
    plan = plan_of(mechanism)
    return tabulated(mechanism) and 1 < plan.participations < plan.steps_per_epoch <= MOST_STEPS


def _without_table(mechanism: DPSGD) -> bool:
    return not tabulated(mechanism)


def _one_in_several(mechanism: DPSGD) -> bool:
    return plan_of(mechanism).participations == 1 and several(mechanism)


@bound(
    source="feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=tabulated,
    refined=composed_upper,
    approaches=one_of_few,
)
def random_allocation_upper(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random allocation: k pairs of one step among about T / k each.

    Cut the T steps of an epoch, in a uniformly random order, into k blocks of T // k steps or one
    more, and choose one step of each block. The chosen set is a uniformly random one of size k,
    because nothing in this depends on the names of the steps. So P is the mean, over orders, of
    products of k pairs of one step among T / k, and Q is the same for all orders: by joint convexity
    no divergence exceeds that of the product, which all orders have in common. For k = 1 the pair is
    exact; for k > 1 it belongs to a mechanism that reveals the blocks.

    >>> plan = RandomAllocation(steps=3, participations=3, epochs=2)
    >>> random_allocation_upper(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 6),)
    """
    return composed(mechanism, blocks_of(mechanism), Side.UPPER)


@bound(
    source="feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=one_of_few,
    refined=composed_lower,
    approaches=one_of_few,
)
def random_allocation_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of one step: the same as for balls-and-bins.

    >>> plan = RandomAllocation(steps=1, epochs=2)
    >>> random_allocation_lower(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 2),)
    """
    return composed(mechanism, epochs_of(mechanism), Side.LOWER)


@bound(
    source="feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=several,
    approaches=one_of_few,
)
def multiplied_allocation_upper(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random allocation: a law above that of the product of all ratios.

    The same pairs as in `random_allocation_upper`, composed by multiplying their ratios: better where few
    large losses decide.
    """
    return multiplied(mechanism, blocks_of(mechanism), Side.UPPER)


@bound(
    source="feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=_one_in_several,
    approaches=one_of_few,
)
def multiplied_allocation_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of one step: a law below the product of all ratios."""
    return multiplied(mechanism, epochs_of(mechanism), Side.LOWER)


@bound(source="chua2024 Section 3; dong2022 Theorem 2.7")
def revealed_allocation_upper(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random allocation that is revealed: k Gaussians for each epoch.

    Batches may even be released.
    """
    return revealed(mechanism)


@bound(source="zhu2022 Theorem 11; blackwell1953", applies=_without_table)
def allocated_step_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation from the first step of each epoch: sampled at k / T."""
    return first_step(mechanism)


@bound(source="dong2022 Theorem 2.7; blackwell1953", applies=not_tabulated)
def allocated_sum_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation, from the sum of an epoch's results: a Gaussian.

    The sum has mean k with the record and 0 without it, and variance T s^2 in both cases: mu =
    k / (s sqrt(T)). It is exact for k = T.

    >>> plan = RandomAllocation(steps=16, participations=2)
    >>> allocated_sum_lower(DPSGD(plan, noise_multiplier=1.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 1),)
    """
    plan = plan_of(mechanism)
    mu = plan.participations / (mechanism.noise_multiplier * plan.steps_per_epoch**0.5)
    return ((GaussianPair(mu), plan.epochs),)


@bound(source="blackwell1953; zhu2022 Theorem 11", applies=_some_of_many)
def allocated_losses_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from the sum of Poisson losses.

    Each result is mapped to the loss that it would have if the record entered every step with
    probability k / T; their sum, rounded, is a post-processing whose two laws are convolutions. The
    mechanism that is bounded is the one that was run, with hidden steps, not the one with known blocks
    of `random_allocation_upper`: the two sides do not meet.
    """
    return _from_losses(mechanism, 1.0, _DEVIATIONS)


@bound(source="blackwell1953; zhu2022 Theorem 11", applies=_some_of_many)
def allocated_jumps_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from a sum in which few results count.

    As `allocated_losses_lower` with a smaller probability: the better test for small deltas, where
    the record is seen by few large results.
    """
    return _from_losses(mechanism, _RARER, inf)


def _from_losses(mechanism: DPSGD, share: float, far: float) -> PairCounts:
    plan = plan_of(mechanism)
    steps, participations = plan.steps_per_epoch, plan.participations
    rate = share * participations / steps
    times = plan.epochs if multipliable(mechanism) else 1
    pair = summed(mechanism.noise_multiplier, steps, participations, rate, far, times)
    return ((pair, plan.epochs // times),)
