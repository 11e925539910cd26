"""Bounds on training runs whose batches have a fixed size: random subsets, and cut Poisson batches.

Proofs are in docs/proofs/shuffled-batches.md.
"""

from functools import lru_cache, partial

from sharpdp.batches import FixedSizeBatches, TruncatedPoissonBatches
from sharpdp.bounds.fixed_size.opposed_others import (
    LEAST_MU,
    MANY_STEPS,
    MOST_MU,
    NOT_THE_WORST,
    opposed_others,
)
from sharpdp.bounds.fixed_size.pairs import (
    SettledPair,
    displaced,
    subset_replace_one,
    subset_zero_out,
)
from sharpdp.bounds.fixed_size.truncation import Overflow
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.opposed import opposed
from sharpdp.pairs.pair import GaussianPair, Pair
from sharpdp.pairs.released_index import released
from sharpdp.pairs.subsampled import PoissonSampledPair, sampled_gaussian

__all__ = [
    "cut_rate_lower",
    "opposed_others_upper",
    "opposed_subset_lower",
    "overflow_mixture_upper",
    "overflow_revealed_upper",
    "random_subset_upper",
    "silent_others_lower",
]

DRAWN = (
    "batches are drawn as the scheme says and not revealed; per-example gradients are clipped; "
    "noise is added in every step"
)
SILENT = "all other gradients are zero in every step"

subset_bound = partial(
    register,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    holds_when=f"{DRAWN}; {REAL_NUMBERS}",
    attained_when="all other gradients point against that of the record, each as long as the clipping "
    "norm, in every step",
    applies=needs(lambda mechanism: not mechanism.batches.replacement, "draws without replacement"),
)
truncated_bound = partial(
    register,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    holds_when=f"{DRAWN}; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when=SILENT,
    proof="shuffled-batches",
)


_displaced = lru_cache(maxsize=32)(displaced)


@subset_bound(source="balle2018subsampling Theorem 11", proof="shuffled-batches")
def random_subset_upper(mechanism: DPSGD[FixedSizeBatches], adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random subsets: in each direction the worst three Gaussians, on a line.

        replace-one: H_x = r h_2mu(1 + (x - 1)/r), x >= 1, both ways;   r = batch_size / dataset_size
        zero-out: (1 - r) N(-mu) + r N(mu) against (1 - r) N(-mu) + r N(0) one way, r h_mu the other

    mu = 1 / noise_multiplier, h_m the profile of N(m) against N(0). If the record is not in the batch
    another one has its place, at a distance of up to 2 mu.

    Numerics: see `bounds.fixed_size.pairs`.

    >>> scheme = FixedSizeBatches(dataset_size=10, batch_size=10, steps=3)
    >>> random_subset_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((GaussianPair(mu=1.0), 3),)
    """
    mu, scheme = 1 / mechanism.noise_multiplier, mechanism.batches
    pair = subset_replace_one if adjacency is Adjacency.REPLACE_ONE else subset_zero_out
    return ((pair(mu, scheme.sample_rate), scheme.steps),)


_opposed_others = lru_cache(maxsize=32)(opposed_others)


def _many_steps(mechanism: DPSGD[FixedSizeBatches]) -> bool:
    """True in so many steps that others against the record count."""
    scheme = mechanism.batches
    enough = scheme.steps >= 100 and LEAST_MU <= 1 / mechanism.noise_multiplier <= MOST_MU
    return enough and not scheme.replacement and scheme.sample_rate < 1.0


@subset_bound(
    adjacency=Adjacency.ZERO_OUT,
    source="balle2018subsampling Section 5; shaked2007 Section 3.A",
    proof="shuffled-batches",
    applies=needs(_many_steps, MANY_STEPS),
    factors=lambda mechanism, adjacency: 1,
)
def opposed_others_upper(mechanism: DPSGD[FixedSizeBatches], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over many random subsets: others point against the record in all of them.

    In every step a pair that is a little above that of `opposed_subset_lower`, and once a factor of the
    likelihood ratio with a power law: for such payoffs no other arrangement pays, whatever happened
    before, and every payoff is below one of these. Neither pair dominates a step: they hold together.

    Numerics: see `bounds.fixed_size.opposed_others`.

    >>> scheme = FixedSizeBatches(dataset_size=60_000, batch_size=512, steps=3540)
    >>> pairs = opposed_others_upper(DPSGD(scheme, noise_multiplier=0.8), Adjacency.ZERO_OUT)
    >>> [count for _, count in pairs]
    [3540, 1]
    """
    mu, scheme = 1 / mechanism.noise_multiplier, mechanism.batches
    found = _opposed_others(mu, scheme.sample_rate)
    if found is None:
        raise Inapplicable(NOT_THE_WORST)
    step, once = found
    return ((step, scheme.steps), (once, 1))


@subset_bound(source="balle2018subsampling Section 5", proof="shuffled-batches")
def opposed_subset_lower(mechanism: DPSGD[FixedSizeBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random subsets: all other records contribute the opposite.

        replace-one: (1 - r) N(-mu) + r N(mu) against N(-mu);   zero-out: against (1 - r) N(-mu) + r N(0)

    Numerics: zero-out through 1600 cells.

    >>> scheme = FixedSizeBatches(dataset_size=10, batch_size=5, steps=3)
    >>> opposed_subset_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((PoissonSampledPair(base=GaussianPair(mu=1.0), rate=0.5), 3),)
    """
    mu, scheme = 1 / mechanism.noise_multiplier, mechanism.batches
    rate = scheme.sample_rate
    if adjacency is Adjacency.REPLACE_ONE:
        return ((sampled_gaussian(2.0 * mu, rate), scheme.steps),)
    pair: Pair = GaussianPair(mu) if rate == 1.0 else _displaced(mu, rate)
    return ((pair, scheme.steps),)


@subset_bound(adjacency=Adjacency.ZERO_OUT, attained_when=SILENT, source="chua2024 Section 3")
def silent_others_lower(mechanism: DPSGD[FixedSizeBatches], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random subsets: all other records contribute nothing, as if sampled.

        P = (1 - r) N(0) + r N(mu), Q = N(0)

    Numerics: as for Poisson batches.

    >>> scheme = FixedSizeBatches(dataset_size=10, batch_size=5, steps=3)
    >>> silent_others_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((PoissonSampledPair(base=GaussianPair(mu=0.5), rate=0.5), 3),)
    """
    mu, scheme = 1 / mechanism.noise_multiplier, mechanism.batches
    return ((sampled_gaussian(mu, scheme.sample_rate), scheme.steps),)


def _cut(
    mechanism: DPSGD[TruncatedPoissonBatches],
) -> tuple[float, TruncatedPoissonBatches, Overflow]:
    scheme = mechanism.batches
    overflow = Overflow(scheme.dataset_size, scheme.sample_rate, scheme.physical_batch_size)
    return 1 / mechanism.noise_multiplier, scheme, overflow


def _others(scheme: TruncatedPoissonBatches, adjacency: Adjacency) -> int:
    """The largest number of other records: a record may also be added to the data set."""
    return scheme.dataset_size - (adjacency is not Adjacency.ADD_REMOVE)


@truncated_bound(source="zhu2022 Theorem 11")
def overflow_mixture_upper(
    mechanism: DPSGD[TruncatedPoissonBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of DP-SGD over cut Poisson batches: whether others fill the batch is released.

        with probability 1 - f: a Poisson batch;   with probability f = P[Bin(others, r) >= B]:
        a record that gets a place at rate r B / (B + 1) at most, and then another one leaves

    The latter is a random subset under zero-out and replace-one, and N(2 mu) at that rate against N(0)
    under add/remove. Under replace-one the former is the pair of opposite gradients.
    There are n - 1 others if the record is removed and n if it is added, and neither kind dominates the
    other: what lies between the two f, and their rounding, is given to a pair that dominates both, N(mu)
    (zero-out), N(2 mu) (replace-one) or N(2 mu) at rate r.

    Under zero-out and replace-one the number of examples is public; under add/remove the rate must not
    depend on it.

    Numerics: f between its two ends; see `bounds.fixed_size.truncation`.

    >>> scheme = TruncatedPoissonBatches(
    ...     dataset_size=9, batch_size=3, steps=2, physical_batch_size=9
    ... )
    >>> overflow_mixture_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)[0][0].rate
    0.3333333333333333
    """
    mu, scheme, overflow = _cut(mechanism)
    rarest, likeliest = (
        overflow.full(scheme.dataset_size - 1)[0],
        overflow.full(_others(scheme, adjacency))[1],
    )
    usual = sampled_gaussian(mu, scheme.sample_rate)
    crowded = sampled_gaussian(2.0 * mu, overflow.full_rate)
    either = sampled_gaussian(2.0 * mu, scheme.sample_rate)
    if adjacency is Adjacency.ZERO_OUT:
        crowded, either = subset_zero_out(mu, overflow.full_rate), GaussianPair(mu)
        if isinstance(usual, PoissonSampledPair) and likeliest > 0.0:
            usual = SettledPair(usual)
    elif adjacency is Adjacency.REPLACE_ONE:
        usual, either = opposed(mu, scheme.sample_rate), GaussianPair(2.0 * mu)
        crowded = subset_replace_one(mu, overflow.full_rate)
    pairs, weights = [usual, crowded, either], [1.0 - likeliest, rarest, likeliest - rarest]
    return ((released(pairs, weights), scheme.steps),)


@truncated_bound(
    holds_when=f"{DRAWN}; a full batch is rare; {CONSTANTS}; {REAL_NUMBERS}",
    source="zhu2022 Theorem 11",
    factors=lambda mechanism, adjacency: mechanism.batches.steps,
)
def overflow_revealed_upper(
    mechanism: DPSGD[TruncatedPoissonBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of DP-SGD over cut Poisson batches: a batch that others fill reveals everything.

    Formula: Poisson batches, and in each step mass f = P[Bin(others, r) >= B] at infinite loss. Weaker
    than `overflow_mixture_upper`, and as good where f is negligible. Which batch is full is not the same
    for every record of a group, so that groups chain the two pairs of a step together.

    Numerics: f is rounded up.

    >>> scheme = TruncatedPoissonBatches(
    ...     dataset_size=6, batch_size=1, steps=1, physical_batch_size=5
    ... )
    >>> run = DPSGD(scheme, noise_multiplier=2.0)
    >>> _, (full, _) = overflow_revealed_upper(run, Adjacency.ZERO_OUT)
    >>> round(full.infinite_p, 9)  # all five others are in: 6^-5
    0.000128601
    """
    mu, scheme, overflow = _cut(mechanism)
    if scheme.steps * overflow.full(scheme.dataset_size)[1] > 1e-3:
        raise Inapplicable("batches that others fill are too likely to reveal everything")
    full = overflow.full(_others(scheme, adjacency))[1]
    one = opposed if adjacency is Adjacency.REPLACE_ONE else sampled_gaussian
    pieces: PairCounts = ((one(mu, scheme.sample_rate), scheme.steps),)
    if full == 0.0:
        return pieces
    return (*pieces, (AtomicPair.approximate(0.0, full), scheme.steps))


@truncated_bound(source="chua2024 Section 3")
def cut_rate_lower(mechanism: DPSGD[TruncatedPoissonBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over cut Poisson batches: other records contribute nothing.

        P = (1 - r') N(0) + r' N(mu), Q = N(0),   r' = r P[Bin(n - 1, r) < B] + (B / n) P[Bin(n, r) > B]

    Under replace-one Q has N(-mu) where P has N(mu).

    Numerics: r' is rounded down.

    >>> scheme = TruncatedPoissonBatches(
    ...     dataset_size=2, batch_size=1, steps=2, physical_batch_size=1
    ... )
    >>> ((pair, _),) = cut_rate_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    >>> round(pair.rate, 9)  # 1/4 alone, 1/8 of two
    0.375
    """
    mu, scheme, overflow = _cut(mechanism)
    one = opposed if adjacency is Adjacency.REPLACE_ONE else sampled_gaussian
    return ((one(mu, overflow.least_rate), scheme.steps),)
