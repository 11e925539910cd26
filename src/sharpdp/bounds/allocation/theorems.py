"""Bounds on training runs in which every example chooses its steps by itself, some in each epoch.

One epoch has T steps, of which a record takes part in a uniformly random set A of k; others choose
without regard to it, so everything below holds for whatever they chose. Balls-and-bins sampling is
k = 1. Write U_t for exp(y_t / s - 1 / (2 s^2)), y_t independent standard normal.

The pair P = mean over A of N(1_A, s^2 I), Q = N(0, s^2 I) is attained (the record's gradient is the
same unit vector in every step, all others are zero) and dominates every run, adaptive ones included.
Proof. Let g_t be the record's gradient in step t, a function of earlier results, |g_t| <= 1. The
likelihood ratio of the run with the record to that without it is mean over A of prod of V_t, t in A, with
V_t = exp(<g_t, n_t> / s^2 - |g_t|^2 / (2 s^2)), n_t the noise of step t. It is affine in each V_t with
coefficients >= 0. Given the past, V_t is lognormal with mean 1 and parameter |g_t| / s, below U_t in the
convex order. Start with the last step and go back: the expectation of f(ratio) for a convex f, given
the results up to t, is a convex function of V_t if all later V are replaced by independent U, so
replacing V_t by U_t can only raise it. In the end the ratio is that of (P, Q), and all hockey-stick
divergences, in both directions, are such expectations. Epochs draw afresh: they compose.

For k = 1 both sides enclose this pair as closely as asked. For k > 1 they come to within a percent or
two of it where sums over all steps can be tabulated; else the upper one belongs to a mechanism that
reveals blocks of steps.
"""

from collections.abc import Callable
from functools import partial
from math import inf
from typing import Any, TypeAlias

from sharpdp.batches import BallsAndBins, RandomAllocation
from sharpdp.bounds.allocation.kept_bins import keeps_bins
from sharpdp.bounds.allocation.ratio_law import (
    LEAST_NOISE,
    MOST_NOISE,
    MOST_STEPS,
    Blocks,
    allocated,
)
from sharpdp.bounds.allocation.several_steps_pair import several_allocated
from sharpdp.bounds.allocation.sum_test import sum_test_pair
from sharpdp.bounds.registry import (
    CONSTANTS,
    REAL_NUMBERS,
    ROUGH_WIDTH,
    AnyTheorem,
    Effort,
    PairCounts,
    needs,
)
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.pair import STANDARD_WIDTH, GaussianPair
from sharpdp.pairs.subsampled import sampled_gaussian

__all__ = [
    "allocated_jumps_lower",
    "allocated_large_losses_lower",
    "allocated_losses_lower",
    "allocated_step_lower",
    "allocated_sum_lower",
    "random_allocation_lower",
    "random_allocation_upper",
    "revealed_allocation_upper",
    "several_steps_lower",
    "several_steps_upper",
]

Run: TypeAlias = DPSGD[BallsAndBins | RandomAllocation]

# Thresholds of k > 1 steps are as close as these widths ask for; more would not narrow the bracket.
_SPACING, _ROUGH_SPACING = 2e-3, 1e-2

_allocation_bound = partial(
    register,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE),
    holds_when="every example is assigned as the scheme says, independently of the others; per-example "
    "gradients are clipped; noise is added in every step; the members of a batch are not released; "
    f"{CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient is as long as the clipping norm and points the same way in every step",
    source="chua2025 Section 3; feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
)


def bound(
    *, applies: Callable[[Run], str | None] = lambda _: None, **named: Any
) -> Callable[[AnyTheorem], AnyTheorem]:
    """Register a theorem about epochs that are drawn afresh; `kept_bins` is about the others."""

    def afresh(run: Run) -> str | None:
        return "needs epochs that are drawn afresh" if keeps_bins(run) else applies(run)

    return _allocation_bound(applies=afresh, **named)


def _moderate_noise(mechanism: Run) -> bool:
    """True if likelihood ratios fit on a grid of doubles."""
    return LEAST_NOISE <= mechanism.noise_multiplier <= MOST_NOISE


def _exact_pair(mechanism: Run) -> bool:
    """True if the pair itself can be tabulated: one participation, and not too many steps."""
    scheme = mechanism.batches
    few_steps = _moderate_noise(mechanism) and scheme.steps_per_epoch <= MOST_STEPS
    return scheme.participations == 1 and (scheme.steps_per_epoch == 1 or few_steps)


def _some_of_many(mechanism: Run) -> bool:
    """True if sums of losses say more than the sum of the results."""
    scheme = mechanism.batches
    several = 1 < scheme.participations < scheme.steps_per_epoch <= MOST_STEPS
    return several and _moderate_noise(mechanism)


SEVERAL = needs(_some_of_many, "several participations, not in all steps, and tabulated noise")


def _dense(mechanism: Run) -> bool:
    """True if sums over all steps of an epoch are tabulated well: not too many, nor too few of them.

    With less noise tables are long, and with more blocks that are revealed tell little.
    """
    scheme = mechanism.batches
    most = min(10_000, 200 * scheme.participations)
    return (
        _some_of_many(mechanism)
        and 0.5 <= mechanism.noise_multiplier <= 20.0
        and scheme.steps_per_epoch <= most
    )


def _blocks(mechanism: Run) -> Blocks:
    """One participation in each of k blocks of T // k steps or one more, T in all, in every epoch."""
    scheme = mechanism.batches
    size, larger = divmod(scheme.steps_per_epoch, scheme.participations)
    # fewer steps are less private: the mean of fewer ratios is above that of more
    return tuple(
        (min(steps, MOST_STEPS), count * scheme.epochs)
        for steps, count in ((size, scheme.participations - larger), (size + 1, larger))
        if count
    )


def _whole_epochs(mechanism: Run) -> Blocks:
    """All steps of an epoch as one block, once for each epoch."""
    scheme = mechanism.batches
    return ((scheme.steps_per_epoch, scheme.epochs),)


def _rounds_of_blocks(mechanism: Run, _: Adjacency) -> int:
    """Epochs, if their blocks are dominated only together: a group has blocks for each of its records."""
    scheme = mechanism.batches
    return scheme.epochs if scheme.participations > 1 else 0


def _composed_upper(mechanism: Run, _: Adjacency, width: float = STANDARD_WIDTH) -> PairCounts:
    return _composed(mechanism, _blocks(mechanism), Side.UPPER, width)


def _composed_lower(mechanism: Run, _: Adjacency, width: float = STANDARD_WIDTH) -> PairCounts:
    return _composed(mechanism, _whole_epochs(mechanism), Side.LOWER, width)


def _composed(mechanism: Run, blocks: Blocks, side: Side, width: float) -> PairCounts:
    """Each block's pair with its count, to be composed."""
    noise = mechanism.noise_multiplier
    return tuple((allocated(noise, steps, times, side, width), times) for steps, times in blocks)


@bound(
    applies=needs(_moderate_noise, "noise whose likelihood ratios are tabulated"),
    factors=_rounds_of_blocks,
    effort=Effort(
        rough=lambda mechanism, notion: _composed_upper(mechanism, notion, ROUGH_WIDTH),
        refined=_composed_upper,
        approaches=_exact_pair,
    ),
)
def random_allocation_upper(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random allocation: k pairs of one step among about T / k each.

        P = mean over t of N(e_t, s^2 I),  Q = N(0, s^2 I),  X = dP/dQ = mean of T lognormals under Q

    is the pair of k = 1, and exact (see the module); chords between values of its profile are above it.

    For k > 1 cut the T steps of an epoch, in a uniformly random order, into k blocks of T // k steps or
    one more, and choose one step of each block. The chosen set is a uniformly random one of size k,
    because nothing in this depends on the names of the steps. So P is the mean, over orders, of
    products of k pairs of one step among T / k, and Q is the same for all orders: by joint convexity
    no divergence exceeds that of the product, which all orders have in common. The pair belongs to a
    mechanism that reveals the blocks. Every record of a group has blocks of its own, so that groups chain
    those of an epoch together.

    Zero-out and add/remove are the same pair: a record that contributes nothing is as good as absent.

    Numerics: see `bounds.allocation.ratio_law`; for k = 1 the lower side is as close as asked.

    >>> scheme = RandomAllocation(steps=3, participations=3, epochs=2)
    >>> random_allocation_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 6),)
    """
    return _composed_upper(mechanism, adjacency)


@bound(
    applies=needs(_exact_pair, "one participation in an epoch of not too many steps"),
    effort=Effort(
        rough=lambda mechanism, notion: _composed_lower(mechanism, notion, ROUGH_WIDTH),
        refined=_composed_lower,
        approaches=_exact_pair,
    ),
)
def random_allocation_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of one step: lines below the profile of the pair.

    The pair as for `random_allocation_upper`. One pair of data sets attains it in every epoch: all other
    gradients are zero.

    >>> scheme = BallsAndBins(dataset_size=10, batch_size=10, epochs=3)
    >>> random_allocation_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    return _composed_lower(mechanism, adjacency)


@bound(source="chua2024 Section 3; dong2022 Theorem 2.7")
def revealed_allocation_upper(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random allocation that is revealed: k Gaussians for each epoch.

    To know which steps the record is in can only help (joint convexity), so batches may even be
    released. For thresholds beyond what the profile is tabulated for.
    """
    scheme = mechanism.batches
    return ((GaussianPair(1 / mechanism.noise_multiplier), scheme.participations * scheme.epochs),)


@bound(
    source="zhu2022 Theorem 11; blackwell1953",
    effort=Effort(yields_to=("random_allocation_lower", "allocated_losses_lower")),
)
def allocated_step_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation from the first step of each epoch: sampled at k / T.

    Ignoring all other steps is a post-processing.

    >>> scheme = RandomAllocation(steps=8, participations=2, epochs=3)
    >>> allocated_step_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((PoissonSampledPair(base=GaussianPair(mu=0.5), rate=0.25), 3),)
    """
    scheme = mechanism.batches
    rate = scheme.participations / scheme.steps_per_epoch
    return ((sampled_gaussian(1 / mechanism.noise_multiplier, rate), scheme.epochs),)


@bound(
    source="dong2022 Theorem 2.7; blackwell1953",
    effort=Effort(yields_to=("random_allocation_lower",)),
)
def allocated_sum_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation, from the sum of an epoch's results: a Gaussian.

    The sum has mean k with the record and 0 without it, and variance T s^2 in both cases: mu =
    k / (s sqrt(T)). It is exact for k = T.

    >>> scheme = RandomAllocation(steps=16, participations=2)
    >>> allocated_sum_lower(DPSGD(scheme, noise_multiplier=1.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 1),)
    """
    scheme = mechanism.batches
    mu = scheme.participations / (mechanism.noise_multiplier * scheme.steps_per_epoch**0.5)
    return ((GaussianPair(mu), scheme.epochs),)


@bound(source="blackwell1953; zhu2022 Theorem 11", applies=SEVERAL)
def allocated_losses_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from the sum of Poisson losses.

    Each result is mapped to the loss that it would have if the record entered every step with
    probability k / T; their sum, rounded, is a post-processing whose two laws are convolutions. The
    mechanism that is bounded is the one that was run, with hidden steps, not the one with known blocks
    of `random_allocation_upper`.
    """
    return _from_losses(mechanism, share=1.0, deviations=3.0)


@bound(source="blackwell1953; zhu2022 Theorem 11", applies=SEVERAL)
def allocated_jumps_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from a sum in which few results count.

    As `allocated_losses_lower` with a smaller probability: the better test for small deltas, where
    the record is seen by few large results.
    """
    return _from_losses(mechanism, share=0.3, deviations=inf)


@bound(source="blackwell1953; zhu2022 Theorem 11", applies=SEVERAL)
def allocated_large_losses_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from a sum that large results decide.

    As `allocated_losses_lower` with 0.6 of the probability: the best of these tests for most plans.
    """
    return _from_losses(mechanism, share=0.6, deviations=inf)


def _from_losses(mechanism: Run, share: float, deviations: float) -> PairCounts:
    """Sums of losses at a share of k / T, single ones told apart up to so many deviations of the sum."""
    scheme = mechanism.batches
    steps, participations = scheme.steps_per_epoch, scheme.participations
    rate = share * participations / steps
    pair = sum_test_pair(mechanism.noise_multiplier, steps, participations, rate, deviations)
    return ((pair, scheme.epochs),)


several_bound = partial(
    bound,
    applies=needs(_dense, "several participations, and sums over an epoch that are tabulated"),
)


def _several(mechanism: Run, side: Side, width: float) -> PairCounts:
    """The pair of all steps of an epoch, once for each epoch."""
    scheme = mechanism.batches
    steps, participations, epochs = scheme.steps_per_epoch, scheme.participations, scheme.epochs
    noise = mechanism.noise_multiplier
    return ((several_allocated(noise, steps, participations, epochs, side, width), epochs),)


@several_bound(
    proof="scheme-proofs",
    source="feldman2025 Section 3; shaked2007 Theorem 3.A.12; scarf1958; hardy1952 Theorem 51",
    effort=Effort(rough=lambda mechanism, _: _several(mechanism, Side.UPPER, _ROUGH_SPACING)),
)
def several_steps_upper(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over random allocation of k > 1 steps, hidden as they are.

    The likelihood ratio L is the mean over all sets of k steps of the product of their U_t. For every
    value z of a statistic, with q = Q[z], p = E[L; z] and r = E[L^2; z],

        E[(L - x)_+; z] <= (p - x q + sqrt(q (r - 2 x p + x^2 q))) / 2.

    The statistic is the sum of log(1 + w U_t), rounded, which tells L nearly; its three measures are
    convolutions. Where it is far from the threshold L is bounded by it. A few percent below
    `random_allocation_upper` with little noise or many participations.

    Numerics: see `bounds.allocation.symmetric_mean`.

    >>> from sharpdp.pairs.pair import epsilon_of
    >>> run = DPSGD(RandomAllocation(steps=20, participations=5), noise_multiplier=1.0)
    >>> ((pair, count),) = several_steps_upper(run, Adjacency.ZERO_OUT)
    >>> bool(6.86 < epsilon_of(pair, -13.8155)[1] < 6.90)  # that of blocks is 7.44
    True
    """
    return _several(mechanism, Side.UPPER, _SPACING)


@several_bound(
    source="blackwell1953",
    effort=Effort(rough=lambda mechanism, _: _several(mechanism, Side.LOWER, _ROUGH_SPACING)),
)
def several_steps_lower(mechanism: Run, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from the statistic of the upper side.

    Any set of its values is an event, whose P- and Q-masses are known; the best events for many
    thresholds make a pair. Here w is the best one for each threshold, and with few steps the sum of
    posterior probabilities is a part of the statistic.
    """
    return _several(mechanism, Side.LOWER, _SPACING)
