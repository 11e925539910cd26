"""Bounds on passes over shuffled blocks of records."""

import numpy as np

from sharpdp.bounds.registry import PairCounts, bound, needs
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.bounds.shuffle_model.known_pairs import LARGEST_NOISY
from sharpdp.bounds.shuffle_model.known_randomizer import fixed_others_lower
from sharpdp.mechanisms import Adjacency, LocalLaplace, ShuffledBlocks, ShuffledReports

__all__ = ["shuffled_blocks_lower", "shuffled_blocks_upper"]

_OUTWARDS = 2.0**-30
"""Clone rates are rounded down by this, budgets of one record up: noise on a lattice rounds a record by
the flip of a coin of 64 bits, which costs less."""


@bound(
    holds_when="each step is local_epsilon-DP between any two blocks; unit record: one record moves it "
    "by local_epsilon / block_size",
    source="feldman2021 Theorem 3.1",
)
def shuffled_blocks_upper(mechanism: ShuffledBlocks, _: Adjacency) -> PairCounts:
    """Upper side by clones of the changed block, with the budget of what is changed.

    Formula: let e be the budget of the unit (local_epsilon / block_size for a record) and D that of a
    block. The two laws of the changed block's step are (1 - w) q0 + w q1 and (1 - w) q1 + w q0 with
    w = 1/(e^e + 1), because their ratio is within e^e. Every other block's step has a law that is at
    least e^-D (q0 + q1)/2, since (q0 + q1)/2 is the mean of the two laws, each within e^D of it. So the
    pair is that of `individual_clones_upper` with budget e and clone rate e^-D.

    Every step is private given all earlier ones, and the order is uniform in every epoch. feldman2021
    uses one budget for both. Numerics: e^-D rounded down, e up; see `ShufflePair`.

    >>> one = ShuffledBlocks(blocks=9, local_epsilon=1.0, block_size=2)
    >>> pair = shuffled_blocks_upper(one, one.adjacency())[0][0]
    >>> round(pair.local_epsilon, 9), round(pair.rate, 9)
    (0.5, 0.367879441)
    """
    whole = mechanism.local_epsilon
    own = whole
    if mechanism.unit == "record" and mechanism.block_size > 1:
        own = whole / mechanism.block_size * (1.0 + _OUTWARDS)
    rate = float(np.exp(-whole)) * (1.0 - _OUTWARDS)
    return ((ShufflePair(mechanism.blocks, own, rate), mechanism.epochs),)


def _has_moderate_noise(mechanism: ShuffledBlocks) -> bool:
    """True if a whole block changes, and the noise is such that its likelihood ratios are summed."""
    whole = mechanism.unit == "block" or mechanism.block_size == 1
    return whole and mechanism.local_epsilon <= LARGEST_NOISY


@bound(
    attained_when="the noise is Laplace noise on sums that fill their range; the unit is a block, or "
    "blocks have one record",
    source="balle2019 Section 5",
    applies=needs(_has_moderate_noise, "whole blocks, and moderate noise"),
)
def shuffled_blocks_lower(mechanism: ShuffledBlocks, adjacency: Adjacency) -> PairCounts:
    """Lower side by Laplace noise on a number that is at one or the other end of its range.

    Formula: `fixed_others_lower` of shuffled reports through Laplace noise; the steps in a random order
    are the mixed reports. Steps do not adapt. Numerics: as there.

    >>> one = ShuffledBlocks(blocks=1, local_epsilon=1.0)
    >>> pair = shuffled_blocks_lower(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)  # 1 - e^(-1/2)
    0.39346934
    """
    noise = LocalLaplace(local_epsilon=mechanism.local_epsilon)
    reports = ShuffledReports(users=mechanism.blocks, randomizer=noise, rounds=mechanism.epochs)
    return fixed_others_lower(reports, adjacency)
