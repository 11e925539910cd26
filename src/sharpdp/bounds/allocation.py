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

from math import inf

from sharpdp.batches import BallsInBins, RandomAllocation
from sharpdp.bounds.registry import Pieces, bound
from sharpdp.bracket import Rigor, Side
from sharpdp.curves.allocation import LEAST_NOISE, MOST_STEPS, allocated
from sharpdp.curves.pair import GaussianPair
from sharpdp.curves.sampled import PoissonSampledPair
from sharpdp.curves.statistic import summed
from sharpdp.mechanisms import DPSGD, Adjacency

__all__ = [
    "allocated_jumps_lower",
    "allocated_losses_lower",
    "allocated_step_lower",
    "allocated_sum_lower",
    "balls_in_bins_lower",
    "balls_in_bins_upper",
    "binned_step_lower",
    "random_allocation_lower",
    "random_allocation_upper",
    "revealed_allocation_upper",
    "revealed_bins_upper",
]

# Single losses are told apart up to so many standard deviations of their sum, and the share of k / T that
# counts large results more.
_DEVIATIONS, _RARER = 8.0, 0.3
_NEIGHBOURS = (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE)
_RUN = (
    "every example is drawn as the scheme says and by itself, per-example gradients are clipped, and "
    "noise is added in every step; which examples a batch had is not released"
)
_ATTAINED = (
    f"{_RUN}; one gradient is as long as the clipping norm and points the same way in every step"
)


def _plan_of(mechanism: DPSGD) -> BallsInBins | RandomAllocation:
    plan = mechanism.batches
    assert isinstance(plan, BallsInBins | RandomAllocation)
    return plan


def _tabulated(mechanism: DPSGD) -> bool:
    """Whether likelihood ratios fit into doubles."""
    return mechanism.noise_multiplier >= LEAST_NOISE


def _one_of_few(mechanism: DPSGD) -> bool:
    """Whether the pair itself is tabulated: one participation, and not too many steps."""
    plan = _plan_of(mechanism)
    return plan.participations == 1 and (
        plan.steps_per_epoch == 1 or (_tabulated(mechanism) and plan.steps_per_epoch <= MOST_STEPS)
    )


def _not_tabulated(mechanism: DPSGD) -> bool:
    return not _one_of_few(mechanism)


def _some_of_many(mechanism: DPSGD) -> bool:
    """Whether sums of losses say more than the sum of the results."""
    plan = _plan_of(mechanism)
    return _tabulated(mechanism) and 1 < plan.participations < plan.steps_per_epoch <= MOST_STEPS


def _blocks(mechanism: DPSGD) -> Pieces:
    """One participation in each of k blocks of T // k steps or one more, T in all."""
    plan, noise = _plan_of(mechanism), mechanism.noise_multiplier
    size, larger = divmod(plan.steps_per_epoch, plan.participations)
    pieces = []
    for steps, count in ((size, plan.participations - larger), (size + 1, larger)):
        times = count * plan.epochs
        if times:
            # fewer steps are less private: the mean of fewer ratios is above that of more
            pair = allocated(noise, min(steps, MOST_STEPS), times, Side.UPPER)
            pieces.append((pair, times))
    return tuple(pieces)


def _revealed(mechanism: DPSGD) -> Pieces:
    plan = _plan_of(mechanism)
    return ((GaussianPair(1 / mechanism.noise_multiplier), plan.participations * plan.epochs),)


def _one_step(mechanism: DPSGD) -> Pieces:
    plan, base = _plan_of(mechanism), GaussianPair(1 / mechanism.noise_multiplier)
    share = plan.participations / plan.steps_per_epoch
    return ((base if share == 1 else PoissonSampledPair(base, share), plan.epochs),)


@bound(
    of=DPSGD,
    over=BallsInBins,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_RUN,
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=_tabulated,
)
def balls_in_bins_upper(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Upper side of DP-SGD over balls in bins: for each epoch a law above that of X in the convex order.

        P = mean over t of N(e_t, s^2 I),  Q = N(0, s^2 I),  X = dP/dQ = mean of T lognormals under Q

    The pair is exact (see the module); its law is spread over finitely many values.

    Holds when: every example is thrown into its batch by itself, gradients are clipped, noise is
    added in every step, and batches are not released. Zero-out and add/remove are the same pair: a
    record that contributes nothing is as good as absent.

    Numerics: see `curves.allocation`; the distance to the lower side is 1e-4 to 1e-3 of epsilon.

    Source: chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12.

    >>> plan = BallsInBins(dataset_size=10, batch_size=10, epochs=3)
    >>> balls_in_bins_upper(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    return _blocks(mechanism)


@bound(
    of=DPSGD,
    over=BallsInBins,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=_one_of_few,
)
def balls_in_bins_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over balls in bins: for each epoch a law below that of X in the convex order.

    X as for `balls_in_bins_upper`, merged into finitely many conditional means. One pair of data sets
    attains the exact pair in every epoch, so the lower side composes.

    Holds when: as for the upper side; one record's gradient is the same vector of full length in
    every step, and all others are zero.

    Source: chua2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12.

    >>> plan = BallsInBins(dataset_size=10, batch_size=10, epochs=3)
    >>> balls_in_bins_lower(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    plan = _plan_of(mechanism)
    noise, steps = mechanism.noise_multiplier, plan.steps_per_epoch
    return ((allocated(noise, steps, plan.epochs, Side.LOWER), plan.epochs),)


@bound(
    of=DPSGD,
    over=BallsInBins,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_RUN,
    source="chua2024 Section 3; dong2022 Theorem 2.7",
)
def revealed_bins_upper(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Upper side of DP-SGD over balls in bins whose throws are revealed: one Gaussian for each epoch.

    To know which step the record is in can only help (joint convexity). For thresholds beyond what
    the law of X is tabulated for.

    Holds when: as for `balls_in_bins_upper`; batches may be released.

    Source: chua2024 Section 3; dong2022 Theorem 2.7.
    """
    return _revealed(mechanism)


@bound(
    of=DPSGD,
    over=BallsInBins,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="zhu2022 Theorem 11; blackwell1953",
    applies=_not_tabulated,
)
def binned_step_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over balls in bins, from the first step of each epoch: sampled at 1 / T.

    Ignoring all other steps is a post-processing. For runs that are not tabulated.

    Holds when: as for `balls_in_bins_lower`.

    Source: zhu2022 Theorem 11; blackwell1953.
    """
    return _one_step(mechanism)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_RUN,
    source="feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=_tabulated,
)
def random_allocation_upper(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Upper side of DP-SGD over random allocation: k pairs of one step among about T / k each.

    Cut the T steps of an epoch, in a uniformly random order, into k blocks of T // k steps or one
    more, and choose one step of each block. The chosen set is a uniformly random one of size k,
    because nothing in this depends on the names of the steps. So P is the mean, over orders, of
    products of k pairs of one step among T / k, and Q is the same for all orders: by joint convexity
    no divergence exceeds that of the product, which all orders have in common. For k = 1 the pair is
    exact; for k > 1 it belongs to a mechanism that reveals the blocks.

    Holds when: as for `balls_in_bins_upper`.

    Source: feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12.

    >>> plan = RandomAllocation(steps=3, participations=3, epochs=2)
    >>> random_allocation_upper(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 6),)
    """
    return _blocks(mechanism)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12",
    applies=_one_of_few,
)
def random_allocation_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over random allocation of one step: the same as for balls in bins.

    Holds when: as for `balls_in_bins_lower`; one participation in each epoch.

    Source: feldman2025 Section 3; shaked2007 Theorems 3.A.4 and 3.A.12.

    >>> plan = RandomAllocation(steps=1, epochs=2)
    >>> random_allocation_lower(DPSGD(plan, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 2),)
    """
    return balls_in_bins_lower(mechanism, adjacency)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_RUN,
    source="chua2024 Section 3; dong2022 Theorem 2.7",
)
def revealed_allocation_upper(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Upper side of DP-SGD over random allocation that is revealed: k Gaussians for each epoch.

    Holds when: as for `random_allocation_upper`; batches may be released.

    Source: chua2024 Section 3; dong2022 Theorem 2.7.
    """
    return _revealed(mechanism)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="zhu2022 Theorem 11; blackwell1953",
    applies=lambda mechanism: not _tabulated(mechanism),
)
def allocated_step_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over random allocation, from the first step of each epoch: sampled at k / T.

    Holds when: as for `balls_in_bins_lower`.

    Source: zhu2022 Theorem 11; blackwell1953.
    """
    return _one_step(mechanism)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="dong2022 Theorem 2.7; blackwell1953",
    applies=_not_tabulated,
)
def allocated_sum_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over random allocation, from the sum of an epoch's results: a Gaussian.

    The sum has mean k with the record and 0 without it, and variance T s^2 in both cases: mu =
    k / (s sqrt(T)). It is exact for k = T.

    Holds when: as for `balls_in_bins_lower`.

    Source: dong2022 Theorem 2.7; blackwell1953.

    >>> plan = RandomAllocation(steps=16, participations=2)
    >>> allocated_sum_lower(DPSGD(plan, noise_multiplier=1.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 1),)
    """
    plan = _plan_of(mechanism)
    mu = plan.participations / (mechanism.noise_multiplier * plan.steps_per_epoch**0.5)
    return ((GaussianPair(mu), plan.epochs),)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="blackwell1953; zhu2022 Theorem 11",
    applies=_some_of_many,
)
def allocated_losses_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from the sum of Poisson losses.

    Each result is mapped to the loss that it would have if the record entered every step with
    probability k / T; their sum, rounded, is a post-processing whose two laws are convolutions. The
    mechanism that is bounded is the one that was run, with hidden steps, not the one with known blocks
    of `random_allocation_upper`: the two sides do not meet.

    Holds when: as for `balls_in_bins_lower`.

    Source: blackwell1953; zhu2022 Theorem 11.
    """
    return _from_losses(mechanism, 1.0, _DEVIATIONS)


@bound(
    of=DPSGD,
    over=RandomAllocation,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=_NEIGHBOURS,
    holds_when=_ATTAINED,
    source="blackwell1953; zhu2022 Theorem 11",
    applies=_some_of_many,
)
def allocated_jumps_lower(mechanism: DPSGD, adjacency: Adjacency) -> Pieces:
    """Lower side of DP-SGD over random allocation of k > 1 steps, from a sum in which few results count.

    As `allocated_losses_lower` with a smaller probability: the better test for small deltas, where
    the record is seen by few large results.

    Holds when: as for `balls_in_bins_lower`.

    Source: blackwell1953; zhu2022 Theorem 11.
    """
    return _from_losses(mechanism, _RARER, inf)


def _from_losses(mechanism: DPSGD, share: float, far: float) -> Pieces:
    plan = _plan_of(mechanism)
    steps, participations = plan.steps_per_epoch, plan.participations
    rate = share * participations / steps
    pair = summed(mechanism.noise_multiplier, steps, participations, rate, far)
    return ((pair, plan.epochs),)
