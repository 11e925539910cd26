"""Bounds on training runs whose batches are drawn independently, or not drawn at all."""

from functools import partial

from sharpdp.batches import (
    CyclicPoissonBatches,
    DeterministicBatches,
    PoissonBatches,
    WeightedPoissonBatches,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts, bound
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.opposed import opposed
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import sampled_gaussian

__all__ = [
    "cyclic_poisson_tight",
    "deterministic_batches_tight",
    "poisson_batches_tight",
    "weighted_poisson_replaced_tight",
    "weighted_poisson_tight",
]

DRAWN = (
    "batches are drawn as the scheme says; per-example gradients are clipped; noise is added in every "
    f"step; {CONSTANTS}; {REAL_NUMBERS}"
)
WEIGHED = (
    "weights are public or chosen without looking at the records; neighbors have the same probabilities "
    f"(add/remove: those of all others do not depend on the record); {DRAWN}"
)

sampled_bound = partial(
    bound,
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    source="zhu2022 Theorem 11; chua2024 Section 3",
)


def _sampled(
    mechanism: DPSGD[PoissonBatches | WeightedPoissonBatches | CyclicPoissonBatches], steps: int
) -> PairCounts:
    """A sampled Gaussian pair for each step that may use the record."""
    pair = sampled_gaussian(1 / mechanism.noise_multiplier, mechanism.batches.sample_rate)
    return ((pair, steps),)


@sampled_bound(
    holds_when=DRAWN,
    attained_when="one gradient is as long as the clipping norm and points the same way in every step",
)
def poisson_batches_tight(mechanism: DPSGD[PoissonBatches], adjacency: Adjacency) -> PairCounts:
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
    return _sampled(mechanism, mechanism.batches.steps)


@sampled_bound(
    holds_when=WEIGHED,
    attained_when="one gradient, of an example with the largest weight, is as long as the clipping norm "
    "and points the same way in every step",
)
def weighted_poisson_tight(mechanism: DPSGD[WeightedPoissonBatches], _: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over weighted Poisson batches: those of the example with the largest weight.

        P = (1 - r) N(0, s^2) + r N(1, s^2),  Q = N(0, s^2),   r = the largest probability

    Coin flips are independent, so those of all others have the same distribution for both data sets and
    may be revealed. An example with a smaller probability r' has the pair of r with weight r'/r and else
    Q against Q, and H is jointly convex: it is at most as revealing.

    Numerics: 1/s is the nearest double; probabilities are exact.

    >>> scheme = WeightedPoissonBatches(weights=[1, 1, 2], batch_size=1, steps=10)
    >>> weighted_poisson_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((PoissonSampledPair(base=GaussianPair(mu=0.5), rate=0.5), 10),)
    """
    return _sampled(mechanism, mechanism.batches.steps)


@bound(
    adjacency=Adjacency.REPLACE_ONE,
    holds_when=WEIGHED,
    attained_when="both values of an example with the largest weight have a gradient as long as the "
    "clipping norm, in opposite directions that are the same in every step",
    source="zhu2022 Theorem 11; dong2022 Theorem 2.14",
    proof="groups",
)
def weighted_poisson_replaced_tight(
    mechanism: DPSGD[WeightedPoissonBatches], _: Adjacency
) -> PairCounts:
    """Both sides of DP-SGD over weighted Poisson batches with one record replaced: opposite gradients.

        P = (1 - r) N(0, s^2) + r N(1, s^2),   Q = (1 - r) N(0, s^2) + r N(-1, s^2)

    r is the largest probability; that of a record stays the same when its value changes. A smaller one
    reveals less, as for `weighted_poisson_tight`.

    Numerics: see `pairs.opposed`.

    >>> scheme = WeightedPoissonBatches(weights=[1, 1, 2], batch_size=1, steps=10)
    >>> weighted_poisson_replaced_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((OpposedPair(mu=0.5, rate=0.5), 10),)
    """
    scheme = mechanism.batches
    return ((opposed(1 / mechanism.noise_multiplier, scheme.sample_rate), scheme.steps),)


@sampled_bound(
    holds_when="batches are drawn as the scheme says; all other records keep their groups; per-example "
    f"gradients are clipped; noise is added in every step; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient, of an example in the first group, is as long as the clipping norm and "
    "points the same way in every step",
)
def cyclic_poisson_tight(mechanism: DPSGD[CyclicPoissonBatches], _: Adjacency) -> PairCounts:
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
    return _sampled(mechanism, mechanism.batches.turns)


@bound(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    holds_when="the batches do not depend on the records (add/remove: all other records keep "
    "their batches); per-example gradients are clipped; noise is added in every step; "
    f"{CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient is as long as the clipping norm in every epoch",
    source="chua2024 Section 3; dong2022 Theorem 2.7",
)
def deterministic_batches_tight(
    mechanism: DPSGD[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
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
    sensitivity = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return ((GaussianPair(sensitivity / mechanism.noise_multiplier), mechanism.batches.epochs),)
