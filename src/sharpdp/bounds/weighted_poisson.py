"""Bounds on training runs over Poisson batches with a probability for each example."""

from functools import partial

from sharpdp.batches import WeightedPoissonBatches
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.opposed import opposed
from sharpdp.pairs.subsampled import sampled_gaussian

__all__ = ["weighted_poisson_replaced_tight", "weighted_poisson_tight"]

bound = partial(
    register,
    batch_scheme=WeightedPoissonBatches,
    holds_when="weights are public or chosen without looking at the records; neighbors have the same "
    "probabilities (add/remove: those of all others do not depend on the record); batches are drawn as "
    "the scheme says; per-example gradients are clipped; noise is added in every step; "
    f"{CONSTANTS}; {REAL_NUMBERS}",
)


def _scheme(mechanism: DPSGD) -> WeightedPoissonBatches:
    scheme = mechanism.batches
    assert isinstance(scheme, WeightedPoissonBatches)
    return scheme


@bound(
    adjacency=(Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT),
    attained_when="one gradient, of an example with the largest weight, is as long as the clipping norm "
    "and points the same way in every step",
    source="zhu2022 Theorem 11; chua2024 Section 3",
)
def weighted_poisson_tight(mechanism: DPSGD, _: Adjacency) -> PairCounts:
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
    scheme = _scheme(mechanism)
    return ((sampled_gaussian(1 / mechanism.noise_multiplier, scheme.sample_rate), scheme.steps),)


@bound(
    adjacency=Adjacency.REPLACE_ONE,
    attained_when="both values of an example with the largest weight have a gradient as long as the "
    "clipping norm, in opposite directions that are the same in every step",
    source="zhu2022 Theorem 11; dong2022 Theorem 2.14",
    proof="groups",
)
def weighted_poisson_replaced_tight(mechanism: DPSGD, _: Adjacency) -> PairCounts:
    """Both sides of DP-SGD over weighted Poisson batches with one record replaced: opposite gradients.

        P = (1 - r) N(0, s^2) + r N(1, s^2),   Q = (1 - r) N(0, s^2) + r N(-1, s^2)

    r is the largest probability; that of a record stays the same when its value changes. A smaller one
    reveals less, as for `weighted_poisson_tight`.

    Numerics: see `pairs.opposed`.

    >>> scheme = WeightedPoissonBatches(weights=[1, 1, 2], batch_size=1, steps=10)
    >>> weighted_poisson_replaced_tight(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((OpposedPair(mu=0.5, rate=0.5), 10),)
    """
    scheme = _scheme(mechanism)
    return ((opposed(1 / mechanism.noise_multiplier, scheme.sample_rate), scheme.steps),)
