"""Bounds on training runs over a stream that a shuffle buffer mixes.

A record whose position is known comes out at a place that is partly known, so that less is hidden than by
a whole random order. Proofs are in docs/proofs/scheme-proofs.md.
"""

from functools import lru_cache, partial
from math import expm1, log1p

import numpy as np

from sharpdp.batches import BufferedShuffle
from sharpdp.bounds.registry import REAL_NUMBERS, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffled_batches.lower_ratio_tests import (
    COARSE,
    FINE,
    ShuffledEpoch,
    largest_batch,
    likelihood_ratio_pair,
)
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

__all__ = [
    "buffered_batch_lower",
    "buffered_largest_lower",
    "buffered_ratio_lower",
    "revealed_buffer_upper",
]

bound = partial(
    register,
    adjacency=Adjacency.ZERO_OUT,
    attained_when="the record is the last of the stream, and all other gradients point against its own, "
    "each as long as the clipping norm, in every step",
    proof="scheme-proofs",
)


@bound(
    holds_when="the stored order does not depend on the records; per-example gradients are clipped; "
    f"noise is added in every step; {REAL_NUMBERS}",
    source="chua2024 Theorem 4.1; dong2022 Theorem 2.7",
    proof="",
)
def revealed_buffer_upper(mechanism: DPSGD[BufferedShuffle], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over a buffered shuffle by revealing the slots: one Gaussian for each epoch.

        P = N(mu, 1), Q = N(0, 1),   mu = 1 / noise_multiplier

    Given all slots, the record takes part in one step of each epoch. Slots have the same law for both
    data sets, and H is jointly convex.

    >>> scheme = BufferedShuffle(dataset_size=100, batch_size=10, epochs=3, buffer_size=50)
    >>> revealed_buffer_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    return ((GaussianPair(1 / mechanism.noise_multiplier), mechanism.batches.epochs),)


def windows(scheme: BufferedShuffle) -> list[tuple[int, float]]:
    """Numbers of batches in each of which the last record is with some probability, or a larger one.

    It is equally likely at each of the last places, as many as the buffer has slots; whole batches, and
    the two incomplete ones at the ends of these places, may be looked at or not.

    >>> windows(BufferedShuffle(dataset_size=19, batch_size=4, epochs=1, buffer_size=10))
    [(1, 0.4), (3, 0.3)]
    """
    slots = min(scheme.buffer_size, scheme.dataset_size)
    before, size = scheme.dataset_size - slots, scheme.batch_size
    first, last = -before % size, scheme.dataset_size % size
    if slots <= first:  # all within one batch
        return [(1, 1.0)]
    whole = (slots - first - last) // size
    sizes = sorted([one for one in (first, last) if one] + [size] * (whole > 0), reverse=True)
    counts = {one: whole * (size >= one) + (first >= one) + (last >= one) for one in sizes}
    return [(counts[one], one / slots) for one in counts]


def _lost_in(mechanism: DPSGD[BufferedShuffle]) -> list[ShuffledEpoch]:
    """The epochs of the last record, as if it were equally likely in some batches and else absent.

    A batch in which it is more likely than that can be overwritten by noise in so many cases.
    """
    return [
        ShuffledEpoch(mechanism.noise_multiplier, batches, max(1.0 - batches * rate, 0.0))
        for batches, rate in windows(mechanism.batches)
        if rate < 1.0
    ]


HIDDEN = needs(
    lambda mechanism: bool(_lost_in(mechanism)), "a last record whose batch is not known"
)


def _window(mechanism: DPSGD[BufferedShuffle]) -> ShuffledEpoch:
    """The choice of batches whose largest sum tells most on average; any choice is safe."""

    def divergence(window: ShuffledEpoch) -> float:
        pair = _largest(window, COARSE)
        return float(np.sum(np.exp(pair.log_p) * np.array(pair.losses)))

    return max(_lost_in(mechanism), key=divergence)


@lru_cache(maxsize=64)
def _largest(window: ShuffledEpoch, step: float) -> AtomicPair:
    return largest_batch(window, step)


@lru_cache(maxsize=64)
def _ratio_pair(window: ShuffledEpoch) -> AtomicPair:
    return likelihood_ratio_pair(window)


@bound(source="chua2024 Section 4.2", applies=HIDDEN)
def buffered_largest_lower(mechanism: DPSGD[BufferedShuffle], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over a buffered shuffle, from the largest of the last batches' sums.

    The pair of `largest_batch_lower` for an epoch of only as many batches as the buffer holds: the last
    record of the stream is at one of their places, each equally likely.

    Numerics: as for `largest_batch_lower`.
    """
    epochs = mechanism.batches.epochs
    return ((_largest(_window(mechanism), FINE if epochs == 1 else COARSE), epochs),)


@bound(source="chua2024 Section 3", applies=HIDDEN)
def buffered_ratio_lower(mechanism: DPSGD[BufferedShuffle], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over a buffered shuffle, from likelihood ratio tests of the last batches.

    The pair of `ratio_test_lower` for an epoch of only as many batches as the buffer holds.

    Numerics: see `bounds.shuffled_batches.lower_ratio_tests`.
    """
    return ((_ratio_pair(_window(mechanism)), mechanism.batches.epochs),)


@bound(
    attained_when="the record is the first or the last of the stream, and all other gradients are zero",
    source="zhu2022 Theorem 11; blackwell1953",
)
def buffered_batch_lower(mechanism: DPSGD[BufferedShuffle], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over a buffered shuffle, from one batch: the likeliest for some record.

        P = (1 - r) N(0) + r N(mu), Q = N(0)

    r is the larger of two probabilities: that the first record of the stream is in the first batch, and
    the last one in the last. It is one, and this side exact, if the last batch holds a whole buffer.

    Numerics: r is rounded down.

    >>> scheme = BufferedShuffle(dataset_size=100, batch_size=10, epochs=3, buffer_size=10)
    >>> buffered_batch_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    scheme, base = mechanism.batches, GaussianPair(1 / mechanism.noise_multiplier)
    rate = likeliest_batch(scheme)
    return ((base if rate == 1.0 else PoissonSampledPair(base, rate), scheme.epochs),)


def likeliest_batch(scheme: BufferedShuffle) -> float:
    """The probability that the first record is in the first batch, or the last in the last; from below.

    >>> scheme = BufferedShuffle(dataset_size=9, batch_size=2, epochs=1, buffer_size=4)
    >>> round(likeliest_batch(scheme), 9)  # 1 - (3/4)^2
    0.4375
    """
    slots = min(scheme.buffer_size, scheme.dataset_size)
    last = scheme.dataset_size - (scheme.steps_per_epoch - 1) * scheme.batch_size
    if last >= slots:
        return 1.0
    # while the stream lasts, a slot is drawn with probability 1 / slots; at its end all places are alike
    draws = min(scheme.batch_size, scheme.dataset_size - slots)
    leaves = -expm1(draws * log1p(-1.0 / slots))
    first = leaves + (1.0 - leaves) * (scheme.batch_size - draws) / slots
    return max(first, last / slots) * (1.0 - 1e-12)
