"""Bounds on training runs over balls-and-bins whose bins are kept for all epochs.

E epochs with the same T bins are one epoch with noise s / sqrt(E), also if queries adapt:

    P = mean over t of N(e_t, s^2 I / E),   Q = N(0, s^2 I / E)

is attained and dominates; the proof is in docs/proofs/scheme-proofs.md.
"""

from dataclasses import replace
from functools import lru_cache, partial
from math import sqrt

from sharpdp.batches import BallsAndBins, RandomAllocation
from sharpdp.bounds.allocation.largest_ratio import (
    MOST_MU,
    largest_ratio_above,
    largest_ratio_below,
    lead,
)
from sharpdp.bounds.allocation.ratio_law import (
    LEAST_NOISE,
    MOST_NOISE,
    MOST_STEPS,
    OneStepPair,
    allocated,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, ROUGH_WIDTH, Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.numerics.tolerances import QUOTIENT_ERROR
from sharpdp.pairs.pair import STANDARD_WIDTH, GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

__all__ = [
    "keeps_bins",
    "kept_bins_lower",
    "kept_bins_upper",
    "kept_step_lower",
    "kept_sum_lower",
    "largest_bin_lower",
    "largest_bin_upper",
    "revealed_bins_upper",
]


def keeps_bins(mechanism: DPSGD[BallsAndBins | RandomAllocation]) -> bool:
    """True if several epochs have the same bins."""
    scheme = mechanism.batches
    return isinstance(scheme, BallsAndBins) and scheme.order == "kept" and scheme.epochs > 1


def _noise(mechanism: DPSGD[BallsAndBins], side: Side) -> float:
    """The noise of the one epoch that reveals as much, rounded to the safe side."""
    noise = mechanism.noise_multiplier / sqrt(mechanism.batches.epochs)
    return noise * (1.0 - side.sign * QUOTIENT_ERROR)


def _lead(mechanism: DPSGD[BallsAndBins]) -> float:
    """How far the record's bin is ahead of all others, in deviations; zero if that is not to be asked."""
    if not keeps_bins(mechanism) or mechanism.batches.bins == 1:
        return 0.0
    mu = 1.0 / _noise(mechanism, Side.UPPER)
    return lead(mu, mechanism.batches.bins) if mu <= MOST_MU else 0.0


def _stands_out(mechanism: DPSGD[BallsAndBins]) -> bool:
    """True if the largest likelihood ratio says almost everything for many deltas."""
    return _lead(mechanism) >= 1.5


def _tabulated(mechanism: DPSGD[BallsAndBins]) -> bool:
    """True if bins are kept, and likelihood ratios of the one epoch fit on a grid of doubles.

    With so little noise that the largest ratio says almost everything for all deltas, tables are coarser.
    """
    if not keeps_bins(mechanism) or _lead(mechanism) >= 3.3:
        return False
    return LEAST_NOISE <= _noise(mechanism, Side.LOWER) <= MOST_NOISE


def _few_bins(mechanism: DPSGD[BallsAndBins]) -> bool:
    """True if the pair itself can be tabulated."""
    return _tabulated(mechanism) and mechanism.batches.bins <= MOST_STEPS


def _one_epoch(
    mechanism: DPSGD[BallsAndBins], side: Side, width: float = STANDARD_WIDTH
) -> PairCounts:
    """One epoch with less noise; both sides share the values of the profile, which take long.

    Those for mu, rounded up, are made safe for the true one below it: where no result is farther than 40
    from its mean, which is all that counts, a ratio exp(mu y - mu^2 / 2) changes by a factor of at most
    e^r, r = (40 + mu) times what mu is off by, and e^-r H(e^r x) is below the true profile.
    """
    # fewer bins are less private: the mean of fewer ratios is above that of more
    bins = min(mechanism.batches.bins, MOST_STEPS)
    noise = _noise(mechanism, Side.UPPER)
    pair = allocated(noise, bins, 1, side, width)
    if side is Side.UPPER:
        return ((pair, 1),)
    if not isinstance(pair, OneStepPair):
        return ((GaussianPair(1.0 / _noise(mechanism, side)), 1),)
    return ((replace(pair, moved=2.0**-46 * pair.mu * (40.0 + pair.mu)), 1),)


_is_redrawn = needs(keeps_bins, "bins that are kept for several epochs")
TABULATED = "kept bins, and noise whose likelihood ratios are tabulated"
STANDING_OUT = "kept bins, and so little noise that the largest likelihood ratio decides"

bound = partial(
    register,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE),
    holds_when="every example is assigned to a bin once for all epochs, independently of the others; "
    "per-example gradients are clipped; noise is added in every step; the members of a batch are not "
    "released; "
    f"{CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient is as long as the clipping norm and points the same way in every step",
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    proof="scheme-proofs",
    applies=_is_redrawn,
)


@bound(
    applies=needs(_tabulated, TABULATED),
    effort=Effort(
        rough=lambda mechanism, _: _one_epoch(mechanism, Side.UPPER, ROUGH_WIDTH),
        refined=lambda mechanism, _, width: _one_epoch(mechanism, Side.UPPER, width),
        approaches=_few_bins,
    ),
)
def kept_bins_upper(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over bins that are kept: one epoch with noise s / sqrt(epochs).

    Numerics: see `bounds.allocation.ratio_law`; the noise is rounded down.

    >>> scheme = BallsAndBins(dataset_size=10, batch_size=10, epochs=4, order="kept")
    >>> ((pair, count),) = kept_bins_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    >>> round(pair.mu, 12), count
    (1.0, 1)
    """
    return _one_epoch(mechanism, Side.UPPER)


@bound(
    applies=needs(_few_bins, f"{TABULATED}, and not too many bins"),
    effort=Effort(
        rough=lambda mechanism, _: _one_epoch(mechanism, Side.LOWER, ROUGH_WIDTH),
        refined=lambda mechanism, _, width: _one_epoch(mechanism, Side.LOWER, width),
        approaches=_few_bins,
    ),
)
def kept_bins_lower(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over bins that are kept: one epoch with noise s / sqrt(epochs).

    The mean of the results of a bin over all epochs is sufficient.

    Numerics: see `bounds.allocation.ratio_law`; losses and masses leave room for the rounding of mu.
    """
    return _one_epoch(mechanism, Side.LOWER)


_above, _below = (
    lru_cache(maxsize=32)(made) for made in (largest_ratio_above, largest_ratio_below)
)


@bound(applies=needs(_stands_out, STANDING_OUT))
def largest_bin_upper(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over bins that are kept, with little noise: the largest ratio decides.

        H_x(P||Q) <= h(theta T x) + (T - 1) Q[X_1 > (1 - theta) T x / (T - 1)],   theta in (0, 1)

    h is the profile of N(mu) against N(0), mu = sqrt(epochs) / noise_multiplier, T the number of bins.

    Numerics: see `bounds.allocation.largest_ratio`; mu is rounded up.

    >>> scheme = BallsAndBins(dataset_size=60_000, batch_size=512, epochs=30, order="kept")
    >>> run = DPSGD(scheme, noise_multiplier=0.8)
    >>> ((upper, _),) = largest_bin_upper(run, Adjacency.ZERO_OUT)
    >>> ((lower, _),) = largest_bin_lower(run, Adjacency.ZERO_OUT)
    >>> [round(float(pair.log_hockey_stick([47.1])[0]), 3) for pair in (lower, upper)]
    [-11.513, -11.513]
    """
    mu = 1.0 / _noise(mechanism, Side.UPPER)
    return ((_above(mu, mechanism.batches.bins), 1),)


@bound(source="chua2025 Section 3; blackwell1953", applies=needs(_stands_out, STANDING_OUT))
def largest_bin_lower(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over bins that are kept, from the largest mean of a bin over all epochs.

        P[max <= y] = Phi(y - mu) Phi(y)^{T-1},   Q[max <= y] = Phi(y)^T

    Numerics: through cells, which are a post-processing; mu is rounded down.
    """
    mu = 1.0 / _noise(mechanism, Side.LOWER)
    return ((_below(mu, mechanism.batches.bins), 1),)


@bound(source="chua2024 Section 3; dong2022 Theorem 2.7", proof="")
def revealed_bins_upper(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over bins that are kept and revealed: one Gaussian for each epoch.

    To know the bin can only help (joint convexity). For noise beyond what the pair is tabulated for.

    >>> scheme = BallsAndBins(dataset_size=100, batch_size=10, epochs=4, order="kept")
    >>> revealed_bins_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 4),)
    """
    return ((GaussianPair(1 / mechanism.noise_multiplier), mechanism.batches.epochs),)


@bound(source="zhu2022 Theorem 11; blackwell1953", effort=Effort(yields_to=("kept_bins_lower",)))
def kept_step_lower(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over bins that are kept, from the first bin alone: sampled once at 1 / T.

    Ignoring all other bins is a post-processing.
    """
    base, bins = GaussianPair(1 / _noise(mechanism, Side.LOWER)), mechanism.batches.bins
    return ((base if bins == 1 else PoissonSampledPair(base, 1 / bins), 1),)


@bound(source="dong2022 Theorem 2.7; blackwell1953", effort=Effort(yields_to=("kept_bins_lower",)))
def kept_sum_lower(mechanism: DPSGD[BallsAndBins], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over bins that are kept, from the sum of all results: a Gaussian.

    The sum has mean E with the record and 0 without it, and variance T E s^2: mu = sqrt(E / T) / s.
    """
    return ((GaussianPair(1 / (_noise(mechanism, Side.LOWER) * sqrt(mechanism.batches.bins))), 1),)
