"""Bounds on training runs whose batches are drawn independently, or not drawn at all."""

from sharpdp.batches import DeterministicBatches, PoissonBatches
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts, bound
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import sampled_gaussian

__all__ = ["deterministic_batches_tight", "poisson_batches_tight"]


@bound(
    batch_scheme=PoissonBatches,
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    holds_when="batches are drawn as the scheme says; per-example gradients are clipped; "
    f"noise is added in every step; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient is as long as the clipping norm and points the same way in every step",
    source="zhu2022 Theorem 11; chua2024 Section 3",
)
def poisson_batches_tight(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over Poisson batches: ``steps`` sampled Gaussian pairs.

        P = (1 - r) N(0, s^2) + r N(1, s^2)   with the record, r = sample_rate
        Q = N(0, s^2)                         without it, s = noise_multiplier

    P against Q is the removal of the record, Q against P its addition. A record that contributes
    zero is as good as absent, because the size of a batch is not released: zero-out is the same
    pair. Both sides are attained at once, by data whose other gradients are zero.

    Noise is added after an empty batch too, and nothing but the noisy sums is released.

    Numerics: 1/s is the nearest double, off by at most 2^-53 of itself.

    >>> scheme = PoissonBatches(sample_rate=0.25, steps=10)
    >>> poisson_batches_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ADD_REMOVE)
    ((PoissonSampledPair(base=GaussianPair(mu=0.5), rate=0.25), 10),)
    """
    scheme = mechanism.batches
    assert isinstance(scheme, PoissonBatches)
    pair = sampled_gaussian(1 / mechanism.noise_multiplier, scheme.sample_rate)
    return ((pair, scheme.steps),)


@bound(
    batch_scheme=DeterministicBatches,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    holds_when="the batches do not depend on the records (add/remove: all other records keep "
    "their batches); per-example gradients are clipped; noise is added in every step; "
    f"{CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient is as long as the clipping norm in every epoch",
    source="chua2024 Section 3; dong2022 Theorem 2.7",
)
def deterministic_batches_tight(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over deterministic batches: one Gaussian pair for each epoch.

        P = N(mu, 1), Q = N(0, 1),   mu = 1 / noise_multiplier, twice that for replace-one

    A record takes part in one step of each epoch. In all other steps both data sets give the
    same results, so those steps reveal nothing more: they are functions of earlier results and
    of records that do not differ.

    Under add/remove all other records keep their batches, as if the missing one left a gap; without
    that the pair is not known, since every later batch would change. Under replace-one both values of
    the record may have gradients as long as the clipping norm, in opposite directions, so the
    sensitivity doubles.

    Numerics: mu is the nearest double, off by at most 2^-53 of itself.

    >>> scheme = DeterministicBatches(dataset_size=100, batch_size=10, epochs=3)
    >>> deterministic_batches_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((GaussianPair(mu=1.0), 3),)
    """
    scheme = mechanism.batches
    assert isinstance(scheme, DeterministicBatches)
    sensitivity = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return ((GaussianPair(sensitivity / mechanism.noise_multiplier), scheme.epochs),)
