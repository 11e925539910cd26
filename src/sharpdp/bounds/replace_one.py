"""Bounds on training runs whose neighbors differ in the value of one record.

Both values contribute up to a unit vector, and may contribute opposite ones. Where a record is drawn by
itself in every step, the pair of opposite vectors is the worst. Elsewhere the way from one value to the
other leads through a null record: a chain of two neighbors, as the name of the bound says. Proofs are in
docs/proofs/groups.md.
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from sharpdp.batches import (
    BallsAndBins,
    BufferedShuffle,
    CyclicPoissonBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.mechanisms import DPSGD, Adjacency, Mechanism
from sharpdp.pairs.chained import chained
from sharpdp.pairs.opposed import opposed
from sharpdp.pairs.pair import GaussianPair

__all__ = [
    "null_value_lower",
    "opposed_step_lower",
    "opposed_sum_lower",
    "poisson_replaced_tight",
    "through_null_record_upper",
]

Allocated: TypeAlias = DPSGD[BallsAndBins | RandomAllocation]
Converted: TypeAlias = DPSGD[
    BallsAndBins | BufferedShuffle | CyclicPoissonBatches | RandomAllocation | ShuffledBatches
]

OPPOSED = (
    "both values have a gradient as long as the clipping norm, in opposite directions that are the same "
    "in every step"
)

bound = partial(
    register,
    adjacency=Adjacency.REPLACE_ONE,
    holds_when="batches are drawn as the scheme says, per-example gradients are clipped, and noise is "
    f"added in every step; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when=OPPOSED,
)


@bound(
    source="zhu2022 Theorem 11; dong2022 Theorem 2.14",
    proof="groups",
)
def poisson_replaced_tight(mechanism: DPSGD[PoissonBatches], adjacency: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over Poisson batches with one record replaced: opposite gradients.

        P = (1 - r) N(0, s^2) + r N(1, s^2),   Q = (1 - r) N(0, s^2) + r N(-1, s^2)

    To remove the record and to add it with its other value are two links, P against N(0, s^2) and
    N(0, s^2) against Q. All three laws are in monotone likelihood ratio, so that one event is the best
    test of both links, and the chain of the two is this pair.

    Numerics: see `pairs.opposed`.

    >>> scheme = PoissonBatches(sample_rate=0.25, steps=10)
    >>> poisson_replaced_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((OpposedPair(mu=0.5, rate=0.25), 10),)
    """
    scheme = mechanism.batches
    return ((opposed(1 / mechanism.noise_multiplier, scheme.sample_rate), scheme.steps),)


def _null_record(mechanism: Converted, adjacency: Adjacency) -> tuple[Mechanism, Adjacency]:
    """The same question about a record that is replaced by a null record."""
    return mechanism, Adjacency.ZERO_OUT


converted_bound = partial(bound, converts=_null_record)


@converted_bound(
    holds_when="the bound on a record that is replaced by a null record holds",
    source="dong2022 Theorem 2.14; vadhan2023 for blocks of an epoch",
)
def through_null_record_upper(
    mechanism: Converted, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Upper side of a replaced record by group privacy: from one value to a null record to the other.

        H_x(P || P') <= H_{x_1}(P || Q) + x_1 H_{x_2}(Q || P'),   x = x_1 x_2

    at the best split of x, Q being the run with a null record. Taken of each pair of the bound on
    zero-out neighbors before they are composed. The blocks of `random_allocation_upper` are those of one
    record, the same for its two values and the null record; steps of different blocks take turns, so that
    the blocks compose concurrently.

    Numerics: see `pairs.chained`.
    """
    return tuple((chained([pair, pair.reverse()], width), count) for pair, count in pairs)


@converted_bound(
    attained_when="one of the two values contributes nothing, and the other one does what attains the "
    "bound on zero-out neighbors",
    source="blackwell1953",
)
def null_value_lower(
    mechanism: Converted, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Lower side of a replaced record: one of its values may be that of a null record."""
    return pairs


@bound(
    source="blackwell1953; zhu2022 Theorem 11",
    applies=needs(
        lambda mechanism: getattr(mechanism.batches, "order", "redrawn") == "redrawn",
        "epochs that are drawn afresh",
    ),
)
def opposed_step_lower(mechanism: Allocated, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation with one record replaced, from first steps.

    The record is in it with probability participations / steps. Ignoring all other steps is a
    post-processing.

    >>> run = DPSGD(RandomAllocation(steps=8, participations=2, epochs=3), noise_multiplier=2.0)
    >>> opposed_step_lower(run, Adjacency.REPLACE_ONE)
    ((OpposedPair(mu=0.5, rate=0.25), 3),)
    """
    scheme = mechanism.batches
    rate = scheme.participations / scheme.steps_per_epoch
    return ((opposed(1 / mechanism.noise_multiplier, rate), scheme.epochs),)


@bound(source="dong2022 Theorem 2.7; blackwell1953")
def opposed_sum_lower(mechanism: Allocated, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation with one record replaced, from the sum of an epoch.

    The sum has mean +k or -k, k the participations, and variance steps s^2.

    >>> run = DPSGD(RandomAllocation(steps=16, participations=2), noise_multiplier=1.0)
    >>> opposed_sum_lower(run, Adjacency.REPLACE_ONE)
    ((GaussianPair(mu=1.0), 1),)
    """
    scheme = mechanism.batches
    mu = 2 * scheme.participations / (mechanism.noise_multiplier * scheme.steps_per_epoch**0.5)
    return ((GaussianPair(mu), scheme.epochs),)
