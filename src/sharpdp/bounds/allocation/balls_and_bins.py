"""Bounds on training runs in which every example chooses its steps by itself, some in each epoch.

One epoch has T steps, of which a record takes part in a uniformly random set A of k; others choose
without regard to it, so everything below holds for whatever they chose. Write U_t for
exp(y_t / s - 1 / (2 s^2)), y_t independent standard normal.

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
"""

from __future__ import annotations

from functools import partial
from math import expm1, log1p

from sharpdp.batches import BallsAndBins, RandomAllocation
from sharpdp.bounds.allocation.ratio_law import (
    LEAST_NOISE,
    MOST_NOISE,
    MOST_STEPS,
    Blocks,
    allocated,
    repeated,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.pair import STANDARD_WIDTH, GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

__all__ = [
    "balls_and_bins_lower",
    "balls_and_bins_upper",
    "binned_step_lower",
    "multiplied_bins_lower",
    "multiplied_bins_upper",
    "revealed_bins_upper",
]

MOST_TERMS = 10**8
"""Products of so many ratios in all keep their masses to 1e-3; more are left to compositions."""

MOST_NATS = 60.0
"""Ratios whose mean square is at most e^60 are not below e^-600 where it matters."""

NEIGHBORS = (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE)
RUN = (
    "every example is drawn as the scheme says and by itself, per-example gradients are clipped, and "
    "noise is added in every step; which examples a batch had is not released; "
    f"{CONSTANTS}; {REAL_NUMBERS}"
)
ATTAINED = "one gradient is as long as the clipping norm and points the same way in every step"


bound = partial(
    register,
    of=DPSGD,
    batch_scheme=BallsAndBins,
    adjacency=NEIGHBORS,
    holds_when=RUN,
    attained_when=ATTAINED,
)


def plan_of(mechanism: DPSGD) -> BallsAndBins | RandomAllocation:
    """The scheme of the run."""
    plan = mechanism.batches
    assert isinstance(plan, BallsAndBins | RandomAllocation)
    return plan


def tabulated(mechanism: DPSGD) -> bool:
    """Whether likelihood ratios fit on a grid of doubles."""
    return LEAST_NOISE <= mechanism.noise_multiplier <= MOST_NOISE


def one_of_few(mechanism: DPSGD) -> bool:
    """Whether the pair itself is tabulated: one participation, and not too many steps."""
    plan = plan_of(mechanism)
    return plan.participations == 1 and (
        plan.steps_per_epoch == 1 or (tabulated(mechanism) and plan.steps_per_epoch <= MOST_STEPS)
    )


def not_tabulated(mechanism: DPSGD) -> bool:
    """Whether it is not."""
    return not one_of_few(mechanism)


def blocks_of(mechanism: DPSGD) -> Blocks:
    """One participation in each of k blocks of T // k steps or one more, T in all, in every epoch."""
    plan = plan_of(mechanism)
    size, larger = divmod(plan.steps_per_epoch, plan.participations)
    # fewer steps are less private: the mean of fewer ratios is above that of more
    return tuple(
        (min(steps, MOST_STEPS), count * plan.epochs)
        for steps, count in ((size, plan.participations - larger), (size + 1, larger))
        if count
    )


def composed(
    mechanism: DPSGD, blocks: Blocks, side: Side, width: float = STANDARD_WIDTH
) -> PairCounts:
    """Each block's pair with its count, to be composed."""
    noise = mechanism.noise_multiplier
    return tuple((allocated(noise, steps, times, side, width), times) for steps, times in blocks)


def composed_upper(mechanism: DPSGD, _: Adjacency, width: float) -> PairCounts:
    """The upper side for a width below the standard one."""
    return composed(mechanism, blocks_of(mechanism), Side.UPPER, width)


def composed_lower(mechanism: DPSGD, _: Adjacency, width: float) -> PairCounts:
    """The lower side for a width below the standard one."""
    return composed(mechanism, epochs_of(mechanism), Side.LOWER, width)


def multiplied(mechanism: DPSGD, blocks: Blocks, side: Side) -> PairCounts:
    """One pair for all blocks: the law of the product of their ratios."""
    return ((repeated(mechanism.noise_multiplier, blocks, side), 1),)


def several(mechanism: DPSGD) -> bool:
    """Whether there is a product to be made, of at least two steps each."""
    blocks = blocks_of(mechanism)
    return (
        tabulated(mechanism)
        and sum(times for _, times in blocks) > 1
        and all(steps > 1 for steps, _ in blocks)
        and multipliable(mechanism)
    )


def multipliable(mechanism: DPSGD) -> bool:
    """Whether products of ratios keep their masses, and stay in the range of doubles.

    The square of a ratio X of one of T steps has the mean 1 + (e^{1/s^2} - 1) / T.
    """
    blocks, mu = blocks_of(mechanism), 1.0 / mechanism.noise_multiplier
    nats = sum(times * log1p(expm1(mu * mu) / steps) for steps, times in blocks)
    return nats <= MOST_NATS and sum(steps * times for steps, times in blocks) <= MOST_TERMS


def epochs_of(mechanism: DPSGD) -> Blocks:
    """All steps of an epoch as one block, once for each epoch."""
    plan = plan_of(mechanism)
    return ((plan.steps_per_epoch, plan.epochs),)


def revealed(mechanism: DPSGD) -> PairCounts:
    """A Gaussian for each participation."""
    plan = plan_of(mechanism)
    return ((GaussianPair(1 / mechanism.noise_multiplier), plan.participations * plan.epochs),)


def first_step(mechanism: DPSGD) -> PairCounts:
    """The first step of each epoch, in which the record is now and then."""
    plan, base = plan_of(mechanism), GaussianPair(1 / mechanism.noise_multiplier)
    share = plan.participations / plan.steps_per_epoch
    return ((base if share == 1 else PoissonSampledPair(base, share), plan.epochs),)


@bound(
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=tabulated,
    refined=composed_upper,
    approaches=one_of_few,
)
def balls_and_bins_upper(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over balls-and-bins: for each epoch a law above that of X in the convex order.

        P = mean over t of N(e_t, s^2 I),  Q = N(0, s^2 I),  X = dP/dQ = mean of T lognormals under Q

    The pair is exact (see the module); its law is spread over finitely many values.

    Zero-out and add/remove are the same pair: a record that contributes nothing is as good as absent.

    Numerics: see `bounds.allocation.ratio_law`; the distance to the lower side is 1e-4 to 1e-3 of
    epsilon.

    >>> plan = BallsAndBins(dataset_size=10, batch_size=10, epochs=3)
    >>> balls_and_bins_upper(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    return composed(mechanism, blocks_of(mechanism), Side.UPPER)


@bound(
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=one_of_few,
    refined=composed_lower,
    approaches=one_of_few,
)
def balls_and_bins_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over balls-and-bins: for each epoch a law below that of X in the convex order.

    X as for `balls_and_bins_upper`, merged into finitely many conditional means. One pair of data sets
    attains the exact pair in every epoch, so the lower side composes.

    All other gradients are zero.

    >>> plan = BallsAndBins(dataset_size=10, batch_size=10, epochs=3)
    >>> balls_and_bins_lower(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    return composed(mechanism, epochs_of(mechanism), Side.LOWER)


@bound(
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=several,
    approaches=one_of_few,
)
def multiplied_bins_upper(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over balls-and-bins for several epochs: a law above that of the product of X.

    The same pairs as in `balls_and_bins_upper`, composed by multiplying their ratios: better where few
    large losses decide.
    """
    return multiplied(mechanism, blocks_of(mechanism), Side.UPPER)


@bound(
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=several,
    approaches=one_of_few,
)
def multiplied_bins_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over balls-and-bins for several epochs: a law below the product of X."""
    return multiplied(mechanism, epochs_of(mechanism), Side.LOWER)


@bound(source="chua2024 Section 3; dong2022 Theorem 2.7")
def revealed_bins_upper(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over balls-and-bins whose throws are revealed: one Gaussian for each epoch.

    To know which step the record is in can only help (joint convexity). For thresholds beyond what
    the law of X is tabulated for.

    Batches may even be released.
    """
    return revealed(mechanism)


@bound(source="zhu2022 Theorem 11; blackwell1953", applies=not_tabulated)
def binned_step_lower(mechanism: DPSGD, adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over balls-and-bins, from the first step of each epoch: sampled at 1 / T.

    Ignoring all other steps is a post-processing. For runs that are not tabulated.
    """
    return first_step(mechanism)
