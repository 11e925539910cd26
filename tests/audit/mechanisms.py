"""Mechanisms whose privacy is known, for audits to be held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import sharpdp as dp

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Known:
    """A mechanism, and scores of records of which some are in."""

    mechanism: dp.Mechanism
    draw: Draw

    @property
    def guarantee(self) -> dp.Guarantee:
        return dp.account(self.mechanism)


def gaussian(rng: np.random.Generator, inside: np.ndarray) -> np.ndarray:
    """The likelihood-ratio score of Gaussian noise with noise multiplier 1."""
    return inside + rng.normal(size=inside.shape)


def poisson(rng: np.random.Generator, inside: np.ndarray) -> np.ndarray:
    """The likelihood-ratio score of ten steps at sample rate 0.3 and noise multiplier 0.7."""
    drawn = inside[..., None] & (rng.random((*inside.shape, 10)) < 0.3)
    seen = drawn + 0.7 * rng.normal(size=drawn.shape)
    return np.log(0.7 + 0.3 * np.exp((seen - 0.5) / 0.49)).sum(-1)


KNOWN = {
    "gaussian": Known(dp.Gaussian(noise_multiplier=1.0), gaussian),
    "poisson": Known(
        dp.DPSGD(dp.PoissonBatches(sample_rate=0.3, steps=10), noise_multiplier=0.7), poisson
    ),
}
