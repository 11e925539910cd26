"""Bounds on training runs over Poisson batches whose groups of examples take turns."""

from sharpdp.batches import CyclicPoissonBatches
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts, bound
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

__all__ = ["cyclic_poisson_tight"]


@bound(
    batch_scheme=CyclicPoissonBatches,
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    holds_when="batches are drawn as the scheme says; all other records keep their groups; per-example "
    f"gradients are clipped; noise is added in every step; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient, of an example in the first group, is as long as the clipping norm and "
    "points the same way in every step",
    source="zhu2022 Theorem 11; chua2024 Section 3",
)
def cyclic_poisson_tight(mechanism: DPSGD, _: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over cyclic Poisson batches: ``turns`` sampled Gaussian pairs.

        P = (1 - r) N(0, s^2) + r N(1, s^2),  Q = N(0, s^2),   r = sample_rate within the group

    In all steps that are not the record's turn both data sets give the same results, as functions of
    earlier ones and of records that do not differ. The first group has ceil(steps / cycle_length) turns,
    no group has more.

    Numerics: 1/s is the nearest double.

    >>> scheme = CyclicPoissonBatches(sample_rate=0.25, steps=10, cycle_length=4)
    >>> cyclic_poisson_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ADD_REMOVE)
    ((PoissonSampledPair(base=GaussianPair(mu=0.5), rate=0.25), 3),)
    """
    scheme = mechanism.batches
    assert isinstance(scheme, CyclicPoissonBatches)
    base = GaussianPair(1 / mechanism.noise_multiplier)
    pair = base if scheme.sample_rate == 1 else PoissonSampledPair(base, scheme.sample_rate)
    return ((pair, scheme.turns),)
