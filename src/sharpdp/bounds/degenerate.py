"""Bounds on runs in which no record is used, and on runs without noise.

The first reveal nothing. The second reveal a record if it takes part, and nothing of it if it does not.
Proofs are in docs/proofs/scheme-proofs.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import TypeAlias

from sharpdp.batches import (
    BallsAndBins,
    BufferedShuffle,
    CyclicPoissonBatches,
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
    TruncatedPoissonBatches,
    WeightedPoissonBatches,
)
from sharpdp.bounds.registry import PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.mechanisms import (
    DPSGD,
    Adjacency,
    ApproximateDP,
    BestOf,
    CorrelatedNoise,
    Gaussian,
    Laplace,
    LastIterate,
    Mechanism,
    MinSeparation,
    Sequence,
)
from sharpdp.mechanisms.composed import Grouped, Repeated
from sharpdp.mechanisms.training import BatchQueries
from sharpdp.numerics.special import UNIT_ROUNDOFF, down, up
from sharpdp.pairs.finite import AtomicPair

__all__ = ["no_noise_lower", "no_noise_upper", "no_record_tight"]

Uses: TypeAlias = tuple[Fraction, int]
"""With which chance a record takes part in a round, and how many independent rounds there are."""

DRAWN_ALONE = (PoissonBatches, CyclicPoissonBatches, WeightedPoissonBatches)
"""Schemes that draw every record by itself, whatever the others are."""

SCHEMES = (
    *DRAWN_ALONE,
    FixedSizeBatches,
    TruncatedPoissonBatches,
    DeterministicBatches,
    ShuffledBatches,
    BufferedShuffle,
    BallsAndBins,
    RandomAllocation,
)

REVEALING = "records that are used, and revealed with a known chance"

bound = partial(
    register,
    batch_scheme=SCHEMES,
    adjacency=Adjacency.NEIGHBORS,
    degenerate=True,
    holds_when="batches, if there are any, are drawn as the scheme says, for add/remove with the same "
    "sample rate and steps for both data sets, and nothing else that is released depends on the records",
)


@bound(
    attained_when="anything is run, since no epsilon is below 0",
    source="dwork2014 Proposition 2.1",
    applies=needs(lambda mechanism: not mechanism.uses_records, "a run that uses no record"),
)
def no_record_tight(
    mechanism: DPSGD | LastIterate | CorrelatedNoise | BestOf | Sequence | Repeated | Grouped,
    adjacency: Adjacency,
) -> PairCounts:
    """Both sides of a run without steps, or whose batches are empty: there is nothing to tell apart.

    What is released, noise or none, has the same distribution for all data sets.

    >>> no_record_tight(
    ...     DPSGD(PoissonBatches(sample_rate=0, steps=9), noise_multiplier=1), Adjacency.ZERO_OUT
    ... )
    ()
    """
    return ()


@bound(
    source="dwork2014 Proposition 2.1",
    proof="scheme-proofs",
    applies=needs(lambda mechanism: _uses(mechanism, Side.UPPER) is not None, REVEALING),
)
def no_noise_upper(
    mechanism: Gaussian | Laplace | ApproximateDP | DPSGD | LastIterate | CorrelatedNoise | Grouped,
    adjacency: Adjacency,
) -> PairCounts:
    """Upper side without noise: a record is revealed if it takes part, and not otherwise.

        P = r [it] + (1 - r) [nothing],   Q = r [the other value] + (1 - r) [nothing]

    r is the chance that a record takes part in a round, such as the sample rate of a Poisson batch. If
    records are drawn one by one and one data set lacks the record, Q = [nothing].

    Numerics: r is rounded up.

    >>> run = DPSGD(PoissonBatches(sample_rate=0.25, steps=9), noise_multiplier=0)
    >>> ((pair, count),) = no_noise_upper(run, Adjacency.ADD_REMOVE)
    >>> pair.at_plus_infinity, pair.at_minus_infinity, count
    (0.25, 0.0, 9)
    """
    return _revealed(mechanism, adjacency, Side.UPPER)


@bound(
    attained_when="what a record contributes is never the same on both data sets, and all others "
    "contribute nothing",
    source="dwork2014 Proposition 2.1",
    proof="scheme-proofs",
    applies=needs(lambda mechanism: _uses(mechanism, Side.LOWER) is not None, REVEALING),
)
def no_noise_lower(
    mechanism: Gaussian | Laplace | ApproximateDP | DPSGD | LastIterate | CorrelatedNoise | Grouped,
    adjacency: Adjacency,
) -> PairCounts:
    """Lower side without noise: all others contribute nothing, so one sees whether the record takes part.

        P = r [it] + (1 - r) [nothing],   Q = [nothing], for replace-one as in `no_noise_upper`

    Numerics: r is rounded down.

    >>> run = DPSGD(PoissonBatches(sample_rate=0.25, steps=9), noise_multiplier=0)
    >>> no_noise_lower(run, Adjacency.ZERO_OUT) == no_noise_upper(run, Adjacency.ZERO_OUT)
    True
    """
    return _revealed(mechanism, adjacency, Side.LOWER)


def _revealed(mechanism: Mechanism, adjacency: Adjacency, side: Side) -> PairCounts:
    uses = _uses(mechanism, side)
    assert uses is not None
    chance, rounds = uses
    run = mechanism.mechanism if isinstance(mechanism, Grouped) else mechanism
    alone = isinstance(run, BatchQueries) and isinstance(run.batches, DRAWN_ALONE)
    is_one_sided = adjacency in (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE) and (
        alone or side is Side.LOWER
    )
    rate = up(chance) if side is Side.UPPER else down(chance)
    return ((_pair(min(max(rate, 0.0), 1.0), is_one_sided=is_one_sided), rounds),)


def _pair(rate: float, *, is_one_sided: bool) -> AtomicPair:
    """A record that is revealed with this chance, on one data set or on both."""
    if rate == 1.0 or not is_one_sided:
        return AtomicPair.approximate(0.0, rate)
    missed = math.log1p(-rate)
    return AtomicPair(
        (missed,),
        (missed,),
        (0.0,),
        rate,
        0.0,
        8.0 * UNIT_ROUNDOFF * abs(missed),
        infinite_ends=((rate, rate), (0.0, 0.0)),
    )


def _uses(mechanism: Mechanism, side: Side) -> Uses | None:
    """With which chance a record, or one of a group, is revealed in each round; None if it is not known.

    What holds on this side: a chance that is not below the true one, or not above it.
    """
    if not mechanism.uses_records:
        return None
    if isinstance(mechanism, Grouped):
        return _group_uses(mechanism, side)
    if isinstance(mechanism, Gaussian | Laplace | ApproximateDP):
        return Fraction(1), 1
    if not isinstance(mechanism, BatchQueries) or not isinstance(
        mechanism.batches, (*SCHEMES, MinSeparation)
    ):
        return None
    # of a known loss it is not known how much of a record the last model shows
    if isinstance(mechanism, LastIterate) and mechanism.loss is not None and side is Side.LOWER:
        return None
    return _uses_in(mechanism.batches, side)


def _uses_in(scheme: object, side: Side) -> Uses:
    match scheme:
        case PoissonBatches() | WeightedPoissonBatches():
            return Fraction(scheme.sample_rate), scheme.steps
        case CyclicPoissonBatches():
            return Fraction(scheme.sample_rate), scheme.turns
        case FixedSizeBatches(replacement=True):
            return scheme.largest_share, scheme.batch_size * scheme.steps
        case FixedSizeBatches():
            return Fraction(scheme.batch_size, scheme.dataset_size), scheme.steps
        case TruncatedPoissonBatches():
            return _uses_truncated(scheme, side)
        case ShuffledBatches():
            share = Fraction(scheme.examples_per_epoch, scheme.dataset_size)
            return share, 1 if scheme.order == "kept" else scheme.epochs
    return Fraction(1), 1  # every record takes part


def _uses_truncated(scheme: TruncatedPoissonBatches, side: Side) -> Uses:
    """A record that is drawn may be cut; on the lower side by the mean of the smaller sizes.

    With n records, rate q and a batch of at most B >= m = n q, a record stays with chance
    E[min(K, B)] / n, K binomial, and E[(K - m)_+] = E|K - m| / 2 <= sqrt(m) / 2.
    """
    rate = Fraction(scheme.batch_size, scheme.dataset_size)
    if side is Side.LOWER and scheme.physical_batch_size < scheme.dataset_size:
        rate *= 1 - Fraction(1, 2 * math.isqrt(scheme.batch_size))
    return rate, scheme.steps


def _group_uses(mechanism: Grouped, side: Side) -> Uses | None:
    """A group is revealed if one of its records is; on the lower side one of them may be all there is."""
    run = mechanism.mechanism
    uses = _uses(run, side)
    if uses is None or uses[0] == 1:
        return uses
    (chance, rounds), size = uses, mechanism.group_size
    if isinstance(run, BatchQueries) and isinstance(run.batches, PoissonBatches):
        return chance, rounds * size
    return (min(chance * size, Fraction(1)), rounds) if side is Side.UPPER else uses
