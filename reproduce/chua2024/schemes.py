"""chua2024: certified brackets for four ways to make batches, and the paper's own lower bound.

One epoch of T steps. The lower bound for shuffled batches is that of the sets E_C, equation (7).
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

import sharpdp as dp
from sharpdp.numerics.special import log_ndtr

__all__ = ["ours", "sets_delta", "sets_epsilon"]

SETS = np.concatenate([np.linspace(0.0, 10.0, 4001), np.linspace(10.0, 100.0, 901)])
"""The levels C that the sets E_C are tried at first."""

WIDEST, NEAR, NARROWER, TIMES = 0.1, 201, 50.0, 6
"""How far about the best level is looked, at how many, how much narrower each time, and how often."""

LARGEST, HALVINGS = 100.0, 50
"""No epsilon is larger, and how often it is halved: down to the last bit."""


@cache
def answer(scheme: str, noise: float, steps: int) -> dp.Guarantee:
    """One epoch over deterministic (D), Poisson (P), shuffled (S) batches or balls-and-bins (B)."""
    sizes = {"dataset_size": steps, "batch_size": 1, "epochs": 1}
    plan: dp.batches.BatchScheme
    if scheme == "P":
        plan = dp.PoissonBatches(sample_rate=1.0 / steps, steps=steps)
    else:
        kinds = {"D": dp.DeterministicBatches, "S": dp.ShuffledBatches, "B": dp.BallsAndBins}
        plan = kinds[scheme](**sizes)
    return dp.account(dp.DPSGD(plan, noise_multiplier=noise), adjacency="zero-out")


def ours(scheme: str, noise: float, steps: int, given: str, at: float) -> dp.Bracket:
    """The certified bracket."""
    one = answer(scheme, noise, steps)
    return one.epsilon(delta=at) if given == "delta" else one.delta(epsilon=at)


def sets_delta(noise: float, steps: int, epsilon: float, reach: float = 1.0) -> float:
    """Equation (7): the largest P_S(E_C) - e^epsilon Q_S(E_C) over C, the other examples at -reach."""

    def gain(level: NDArray[np.float64]) -> NDArray[np.float64]:
        rest = (steps - 1) * log_ndtr(level / noise)
        with_record = -np.expm1(log_ndtr((level - reach - 1.0) / noise) + rest)
        without = -np.expm1(log_ndtr((level - reach) / noise) + rest)
        return np.asarray(with_record - math.exp(epsilon) * without)

    level, width = float(SETS[np.argmax(gain(SETS))]), WIDEST
    for _ in range(TIMES):
        near = np.linspace(level - width, level + width, NEAR)
        level, width = float(near[np.argmax(gain(near))]), width / NARROWER
    return max(float(gain(np.array([level]))[0]), 0.0)


def sets_epsilon(noise: float, steps: int, delta: float) -> float:
    """The epsilon at which equation (7) falls to delta."""
    low, high = 0.0, LARGEST
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sets_delta(noise, steps, middle) > delta else (low, middle)
    return low
