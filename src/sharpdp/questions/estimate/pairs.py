"""From a mechanism to an experiment that can be drawn from."""

from __future__ import annotations

import math

from sharpdp.batches import (
    BallsAndBins,
    CyclicPoissonBatches,
    DeterministicBatches,
    PoissonBatches,
    RandomAllocation,
    ShuffledBatches,
    WeightedPoissonBatches,
)
from sharpdp.bounds.correlated_noise.theorems import keeps_bins
from sharpdp.errors import Unsupported
from sharpdp.mechanisms import DPSGD, Adjacency, CorrelatedNoise, Gaussian, Mechanism
from sharpdp.questions.estimate.allocated_epoch import AllocationRun
from sharpdp.questions.estimate.correlated_bins import CorrelatedBinsRun
from sharpdp.questions.estimate.experiment import Experiment, GaussianRun, PoissonRun, Product
from sharpdp.questions.estimate.shuffled import ShuffledRun

__all__ = ["product_of"]

SHIFTS = (1e-4, 20.0)
"""Shifts of a normal, over its deviation, that moments are computed for."""

MOST_STEPS = 2**23
"""Normal variables of one epoch that are held at once."""

KNOWN = (
    "Gaussian, and DPSGD over PoissonBatches, CyclicPoissonBatches, WeightedPoissonBatches, "
    "DeterministicBatches, BallsAndBins, RandomAllocation and ShuffledBatches, and CorrelatedNoise over "
    "several kept bins with a strategy without negative entries, under add/remove or zero-out"
)


def product_of(mechanism: Mechanism, adjacency: Adjacency) -> Product:
    """The experiment that a mechanism is, or, over shuffled batches, one that it is no more private than.

    >>> product_of(Gaussian(noise_multiplier=2.0) * 3, Adjacency.NEIGHBORS).parts
    ((GaussianRun(mu=0.5), 3),)
    """
    parts = []
    for part, times in mechanism.parts():
        if part.uses_records:
            experiment, count = _part(part, adjacency)
            parts.append((experiment, count * times))
    if not parts:
        raise Unsupported(
            f"nothing is to be drawn for {mechanism.describe()}. Use account instead."
        )
    return Product(tuple(parts))


def _part(mechanism: Mechanism, adjacency: Adjacency) -> tuple[Experiment, int]:
    if not mechanism.adds_noise:
        raise Unsupported(f"draws are of noise; got {mechanism.describe()}. Use account instead.")
    if isinstance(mechanism, Gaussian):
        return GaussianRun(1.0 / mechanism.noise_multiplier), 1
    if isinstance(mechanism, CorrelatedNoise) and adjacency is not Adjacency.REPLACE_ONE:
        plan = mechanism.batches
        if isinstance(plan, BallsAndBins) and keeps_bins(mechanism):
            return CorrelatedBinsRun(mechanism, plan.bins), 1
    if not isinstance(mechanism, DPSGD) or adjacency is Adjacency.REPLACE_ONE:
        raise Unsupported(
            f"no draws are known for {mechanism.describe()}, {adjacency}. There are: {KNOWN}."
        )
    mu, plan = 1.0 / mechanism.noise_multiplier, mechanism.batches
    if not SHIFTS[0] <= mu <= SHIFTS[1] or getattr(plan, "steps_per_epoch", 1) > MOST_STEPS:
        raise Unsupported(
            f"draws need a noise multiplier from {1 / SHIFTS[1]:g} to {1 / SHIFTS[0]:g} and at most "
            f"{MOST_STEPS} steps in an epoch; got {mechanism.describe()}. Use account instead."
        )
    if isinstance(plan, PoissonBatches | CyclicPoissonBatches | WeightedPoissonBatches):
        run = GaussianRun(mu) if plan.sample_rate == 1.0 else PoissonRun(plan.sample_rate, mu)
        return run, plan.turns if isinstance(plan, CyclicPoissonBatches) else plan.steps
    if isinstance(plan, DeterministicBatches):
        return GaussianRun(mu), plan.epochs
    if isinstance(plan, BallsAndBins) and plan.order == "kept":
        # results of a bin add up over epochs
        return AllocationRun(plan.bins, 1, mu * math.sqrt(plan.epochs)), 1
    if isinstance(plan, BallsAndBins | RandomAllocation):
        return AllocationRun(plan.steps_per_epoch, plan.participations, mu), plan.epochs
    if isinstance(plan, ShuffledBatches):
        return _shuffled(plan, mu)
    raise Unsupported(f"no draws are known for {mechanism.describe()}. There are: {KNOWN}.")


def _shuffled(plan: ShuffledBatches, mu: float) -> tuple[Experiment, int]:
    """Chances of batches by their sizes. An order that is kept adds up over epochs to one of more mu."""
    steps, share = plan.steps_per_epoch, plan.batch_size / plan.dataset_size
    last_share = (plan.examples_per_epoch - (steps - 1) * plan.batch_size) / plan.dataset_size
    absent = (plan.dataset_size - plan.examples_per_epoch) / plan.dataset_size
    if plan.order == "kept":
        return ShuffledRun(steps, share, last_share, mu * math.sqrt(plan.epochs), absent), 1
    return ShuffledRun(steps, share, last_share, mu, absent), plan.epochs
