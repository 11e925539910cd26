"""Bounds for groups: neighbors differ in up to k records, such as all those of one person.

Where the records of a group are drawn by themselves, the group is one record that contributes as many
unit vectors as are drawn. Elsewhere a group is a chain of k neighbors, and the bound says so by its
name. Proofs are in docs/proofs/groups.md.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from sharpdp.batches import (
    BallsAndBins,
    DeterministicBatches,
    FixedSizeBatches,
    PoissonBatches,
    RandomAllocation,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.curves.renyi.curve import RenyiCurve
from sharpdp.mechanisms import DPSGD, Adjacency, CorrelatedNoise, Gaussian, Laplace, Mechanism
from sharpdp.mechanisms.composed import Grouped
from sharpdp.pairs.chained import chained, either_way
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.normal_cells import binned_normals
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair
from sharpdp.pairs.sampled_group import SampledGroupPair
from sharpdp.profile.as_one_pair import as_one_pair
from sharpdp.profile.composition import Composition

__all__ = [
    "group_allocated_step_lower",
    "group_allocated_sum_lower",
    "group_deterministic_tight",
    "group_noise_tight",
    "group_of_one_lower",
    "group_opposed_lower",
    "group_opposed_subset_lower",
    "group_poisson_tight",
    "group_privacy_upper",
    "group_replaced_upper",
    "group_subset_lower",
]

SampledGroup: TypeAlias = Grouped[DPSGD[PoissonBatches]]
AllocatedGroup: TypeAlias = Grouped[DPSGD[BallsAndBins | RandomAllocation]]
SubsetGroup: TypeAlias = Grouped[DPSGD[FixedSizeBatches]]

TRAINED = (
    "batches are drawn as the scheme says, every record of a group independently; per-example gradients "
    "are clipped; noise is added in every step"
)
ALIGNED = (
    "the gradients of a group are as long as the clipping norm and point one way in every step"
)
ORDERED = (Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT)
"""Notions under which one data set lacks what the other has: all links of a chain point one way."""

LEAST_WEIGHT = 1e-200
"""Mixtures in which a group is missing less often than this are left to other lower sides."""

bound = partial(register, adjacency=Adjacency.NEIGHBORS)
training_bound = partial(
    bound,
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    holds_when=f"{TRAINED}; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when=ALIGNED,
)


def _mu(mechanism: Grouped[DPSGD]) -> float:
    """The length of one record's contribution, in deviations of the noise."""
    return 1.0 / mechanism.mechanism.noise_multiplier


@bound(
    holds_when=f"the sensitivity is at most 1 between neighbors, and so k for groups; {REAL_NUMBERS}",
    attained_when="some groups differ by k, in one coordinate for Laplace noise, in every round",
    source="dong2022 Theorems 2.7 and 2.14; balle2018 Theorem 8",
)
def group_noise_tight(mechanism: Grouped[Gaussian | Laplace], adjacency: Adjacency) -> PairCounts:
    """Both sides of Gaussian or Laplace noise for groups of k: the sensitivity is k.

    Numerics: k / noise multiplier, or k / scale, is the nearest double.

    >>> group_noise_tight(Grouped(Gaussian(2.0), 4), Adjacency.NEIGHBORS)
    ((GaussianPair(mu=2.0), 1),)
    """
    size, run = mechanism.group_size, mechanism.mechanism
    if isinstance(run, Gaussian):
        return ((GaussianPair(size / run.noise_multiplier), 1),)
    return ((LaplacePair(size / run.scale), 1),)


@training_bound(source="ganesh2024 Theorem 3.1; choquette2024")
def group_poisson_tight(mechanism: SampledGroup, adjacency: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over Poisson batches for groups of k: the number drawn is binomial.

        P = sum over j of Bin(k, r)(j) N(j, s^2),   Q = N(0, s^2),   r = sample_rate

    In each step the group contributes the sum of the j gradients that were drawn, at most j long. All of
    them pointing the same way is the worst case, and is attained.

    Numerics: see `pairs.sampled_group`.

    >>> scheme = PoissonBatches(sample_rate=0.25, steps=10)
    >>> run = DPSGD(scheme, noise_multiplier=2.0)
    >>> group_poisson_tight(Grouped(run, 3), Adjacency.ADD_REMOVE)
    ((SampledGroupPair(mu=0.5, rate=0.25, group_size=3), 10),)
    """
    scheme = mechanism.mechanism.batches
    return ((_sampled(_mu(mechanism), scheme.sample_rate, mechanism.group_size), scheme.steps),)


def _sampled(mu: float, rate: float, size: int) -> Pair:
    return GaussianPair(size * mu) if rate == 1.0 else SampledGroupPair(mu, rate, size)


@training_bound(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    holds_when="the batches do not depend on the records (add/remove: all other records keep "
    "their batches); per-example gradients are clipped; noise is added in every step; "
    f"{CONSTANTS}; {REAL_NUMBERS}",
    attained_when=f"the records of a group fill one batch after the other, and {ALIGNED}",
    source="chua2024 Section 3; dong2022 Theorem 2.7",
)
def group_deterministic_tight(
    mechanism: Grouped[DPSGD[DeterministicBatches]], adjacency: Adjacency
) -> PairCounts:
    """Both sides of DP-SGD over deterministic batches for groups of k: they may share a batch.

        P = N(mu, 1), Q = N(0, 1) in each epoch,   mu = sqrt(k // B * B^2 + (k % B)^2) / s

    with batches of B, twice that for replace-one. The sum of the squares of how many records of the
    group each batch has is largest if they fill one batch after the other.

    Numerics: mu is off by at most a few units.

    >>> scheme = DeterministicBatches(dataset_size=100, batch_size=10, epochs=3)
    >>> run = DPSGD(scheme, noise_multiplier=2.0)
    >>> group_deterministic_tight(Grouped(run, 4), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=2.0), 3),)
    """
    scheme = mechanism.mechanism.batches
    whole, rest = divmod(mechanism.group_size, scheme.batch_size)
    distance = math.sqrt(whole * scheme.batch_size**2 + rest**2)
    sensitivity = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return ((GaussianPair(sensitivity * distance * _mu(mechanism)), scheme.epochs),)


def _of_one(mechanism: Grouped, adjacency: Adjacency) -> tuple[Mechanism, Adjacency]:
    """The same question about single records."""
    return mechanism.mechanism, _stated(mechanism, adjacency)


def _stated(mechanism: Grouped, adjacency: Adjacency) -> Adjacency:
    """The notion of neighbors; "neighboring inputs" leaves the choice to what is run."""
    return mechanism.adjacency(None if adjacency is Adjacency.NEIGHBORS else adjacency)


@bound(
    holds_when="the bound on single records holds for all data sets on the way from one to the other",
    source="dong2022 Theorem 2.14",
    applies=needs(
        lambda mechanism: not isinstance(mechanism.mechanism, RenyiCurve | CorrelatedNoise),
        "steps that are bounded one by one",
    ),
    converts=_of_one,
    takes_steps=True,
    effort=Effort(
        yields_to=("group_noise_tight", "group_poisson_tight", "group_deterministic_tight")
    ),
)
def group_privacy_upper(
    mechanism: Grouped, adjacency: Adjacency, pairs: PairCounts, width: float, rounds: int
) -> PairCounts:
    """Upper side for groups of k by group privacy: k neighbors in a chain.

        H_x(P_0 || P_k) <= sum over i of x_1 ... x_{i-1} H_{x_i}(P_{i-1} || P_i),   x = x_1 ... x_k

    at the best split of x: the k-fold composition of the trade-off function with itself. If any two
    neighbors may be exchanged (replace-one, neighboring inputs), a chain may have links of both orders,
    and each link has the larger profile of the two. Taken of each pair of the bound on single records,
    before they are composed over steps or rounds, which is better than of the whole run; where pairs are
    factors and not steps, of all those of a round together. For correlated noise see
    `group_correlated_upper`.

    Numerics: see `pairs.chained`.
    """
    notion, size = _stated(mechanism, adjacency), mechanism.group_size
    if rounds:
        each = tuple((pair, count // rounds) for pair, count in pairs)
        pairs = ((as_one_pair(Composition(each), width), rounds),)
    if notion not in ORDERED:
        pairs = tuple((either_way(pair, width), count) for pair, count in pairs)
    return tuple((chained([pair] * size, width), count) for pair, count in pairs)


@bound(
    attained_when="one record of a group does what attains it for single records, and the others "
    "contribute the same to both data sets",
    source="blackwell1953",
    applies=needs(
        lambda mechanism: not isinstance(mechanism.mechanism, RenyiCurve),
        "a run that is known by pairs",
    ),
    converts=_of_one,
    effort=Effort(
        yields_to=("group_noise_tight", "group_poisson_tight", "group_deterministic_tight")
    ),
)
def group_of_one_lower(
    mechanism: Grouped, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Lower side for groups of k: what a single record of the group attains."""
    return pairs


def _removed(mechanism: SampledGroup, adjacency: Adjacency) -> tuple[Mechanism, Adjacency]:
    """The same question about groups that are replaced by null records."""
    return mechanism, Adjacency.ZERO_OUT


@training_bound(
    adjacency=Adjacency.REPLACE_ONE,
    source="dong2022 Theorem 2.14",
    converts=_removed,
)
def group_replaced_upper(
    mechanism: SampledGroup, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Upper side of DP-SGD over Poisson batches for groups of k with two values: through null records.

        sum over j of Bin(k, r)(j) N(j, s^2)   against   N(0, s^2)   against   the mirror image

    All three are in monotone likelihood ratio, so that one event is the best test of both links, and the
    chain is no weaker than the pair of its ends, which `group_opposed_lower` attains.

    Numerics: see `pairs.chained`.
    """
    return tuple((chained([pair, pair.reverse()], width), count) for pair, count in pairs)


def _opposable(mechanism: SampledGroup) -> bool:
    rate = mechanism.mechanism.batches.sample_rate
    return rate < 1.0 and mechanism.group_size * math.log1p(-rate) > math.log(LEAST_WEIGHT)


@training_bound(
    adjacency=Adjacency.REPLACE_ONE,
    attained_when=f"{ALIGNED} for the one values, and against that for the others",
    source="ganesh2024 Theorem 3.1; blackwell1953",
    applies=needs(_opposable, "a chance that no record of the group is drawn"),
)
def group_opposed_lower(mechanism: SampledGroup, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over Poisson batches for groups of k with two values: opposite gradients.

        sum over j of Bin(k, r)(j) N(j, s^2)   against   sum over j of Bin(k, r)(j) N(-j, s^2)

    Numerics: seen through cells of the line; see `pairs.normal_cells`.
    """
    scheme, mu = mechanism.mechanism.batches, _mu(mechanism)
    weights = _binomial_weights(mechanism.group_size, scheme.sample_rate)
    return ((_binned(weights, mu, -mu), scheme.steps),)


def _binomial_weights(size: int, rate: float) -> tuple[float, ...]:
    log_rates = math.log(rate), math.log1p(-rate)
    return tuple(
        math.exp(math.log(math.comb(size, j)) + j * log_rates[0] + (size - j) * log_rates[1])
        for j in range(size + 1)
    )


@lru_cache(maxsize=32)
def _binned(weights: tuple[float, ...], step: float, other_step: float) -> AtomicPair:
    """N(j step) against N(j other_step), j drawn with these weights, through cells."""
    counts = np.arange(float(len(weights)))
    return binned_normals(np.array(weights), step * counts, other_step * counts)


@training_bound(
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    source="ganesh2024 Theorem 3.1; blackwell1953",
    applies=needs(
        lambda mechanism: getattr(mechanism.mechanism.batches, "order", "redrawn") == "redrawn",
        "epochs that are drawn afresh",
    ),
)
def group_allocated_step_lower(mechanism: AllocatedGroup, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation for groups of k, from the first step of each epoch.

    Each record of the group is in it with probability participations / steps, by itself. Ignoring all
    other steps is a post-processing.

    >>> run = DPSGD(RandomAllocation(steps=8, participations=2, epochs=3), noise_multiplier=2.0)
    >>> group_allocated_step_lower(Grouped(run, 5), Adjacency.ZERO_OUT)
    ((SampledGroupPair(mu=0.5, rate=0.25, group_size=5), 3),)
    """
    scheme = mechanism.mechanism.batches
    rate = scheme.participations / scheme.steps_per_epoch
    return ((_sampled(_mu(mechanism), rate, mechanism.group_size), scheme.epochs),)


@training_bound(
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    source="dong2022 Theorem 2.7; blackwell1953",
)
def group_allocated_sum_lower(mechanism: AllocatedGroup, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation for groups of k, from the sum of an epoch's results.

    The sum has mean k times the participations with the group, 0 or the opposite without it, and variance
    steps s^2 in all cases.

    >>> run = DPSGD(RandomAllocation(steps=16, participations=2), noise_multiplier=1.0)
    >>> group_allocated_sum_lower(Grouped(run, 3), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=1.5), 1),)
    """
    scheme, mu = mechanism.mechanism.batches, _mu(mechanism)
    moved = mechanism.group_size * scheme.participations * mu / scheme.steps_per_epoch**0.5
    sensitivity = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return ((GaussianPair(sensitivity * moved), scheme.epochs),)


def _hypergeometric(mechanism: SubsetGroup) -> tuple[float, ...]:
    """How many of a group are in a subset of fixed size, from none on; empty if that is too unlikely."""
    scheme, size = mechanism.mechanism.batches, mechanism.group_size
    others, drawn = scheme.dataset_size - size, scheme.batch_size
    if drawn > others or scheme.replacement:
        return ()
    weights = [math.prod((others - drawn + i) / (others + i) for i in range(1, size + 1))]
    if weights[0] < LEAST_WEIGHT:
        return ()
    for j in range(min(size, drawn)):
        ratio = (size - j) * (drawn - j) / ((j + 1) * (others - drawn + j + 1))
        weights.append(weights[-1] * ratio)
    return tuple(weights)


IN_SUBSETS = needs(
    lambda mechanism: bool(_hypergeometric(mechanism)),
    "draws without replacement that may leave out the whole group",
)


@training_bound(
    adjacency=Adjacency.ZERO_OUT,
    attained_when=f"{ALIGNED}; all other gradients are zero",
    source="ganesh2024; blackwell1953",
    applies=IN_SUBSETS,
)
def group_subset_lower(mechanism: SubsetGroup, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random subsets for groups of k: all other records contribute nothing.

        sum over j of w_j N(j, s^2)   against   N(0, s^2),   w the hypergeometric law of the number drawn

    Numerics: seen through cells of the line; see `pairs.normal_cells`.
    """
    weights, steps = _hypergeometric(mechanism), mechanism.mechanism.batches.steps
    return ((_binned(weights, _mu(mechanism), 0.0), steps),)


@training_bound(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    attained_when=f"{ALIGNED}; all other gradients point against them",
    source="balle2018subsampling Section 5; blackwell1953",
    applies=IN_SUBSETS,
)
def group_opposed_subset_lower(mechanism: SubsetGroup, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random subsets for groups of k: all others contribute the opposite.

        sum over j of w_j N(2 j, s^2)   against   sum over j of w_j N(j, s^2),   replace-one: N(0, s^2)

    j of the B places go to the group, so that the others contribute j - B in all.

    Numerics: seen through cells of the line; see `pairs.normal_cells`.
    """
    weights, steps = _hypergeometric(mechanism), mechanism.mechanism.batches.steps
    mu = _mu(mechanism)
    other = 0.0 if adjacency is Adjacency.REPLACE_ONE else mu
    return ((_binned(weights, 2.0 * mu, other), steps),)
