"""How much of a training experiment is run, and the batch schemes over its sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import sharpdp as dp
from reproduce.learning.images import Images
from reproduce.learning.ledger import kept

__all__ = ["CHOSEN", "EqualEpsilonSize", "TrainingSize"]

CHOSEN = (
    "in one run with the same noise over five sixths of the training images, tested on the last sixth; "
    "test images have no part in the choice, and no epsilon here covers it."
)
"""How learning rates are chosen."""

SomeSize = TypeVar("SomeSize", bound="EqualEpsilonSize")

Trained = Callable[[float, int, Path], float]
"""The accuracy of one run."""


@dataclass(frozen=True)
class TrainingSize:
    """Images, average batch size, epochs, and the number of seeds."""

    images: Images
    batch_size: int
    epochs: int
    seeds: int

    @property
    def sizes(self) -> dict[str, Any]:
        """The arguments that all batch schemes share."""
        return {
            "dataset_size": len(self.images.train),
            "batch_size": self.batch_size,
            "epochs": self.epochs,
        }

    def schemes(self) -> tuple[dp.batches.BatchScheme, ...]:
        """Four batch schemes over the same sizes."""
        return (
            dp.DeterministicBatches(**self.sizes),
            dp.ShuffledBatches(**self.sizes),
            dp.PoissonBatches(**self.sizes),
            dp.BallsAndBins(**self.sizes),
        )


@dataclass(frozen=True)
class EqualEpsilonSize(TrainingSize):
    """The same for runs at several epsilons, with the learning rates that are tried."""

    epsilons: tuple[float, ...]
    rates: tuple[float, ...]

    def for_choosing(self: SomeSize) -> SomeSize:
        """The same numbers of steps over the training images alone, a sixth of which is held out."""
        return replace(self, images=self.images.for_choosing(), batch_size=self.batch_size * 5 // 6)

    def best_rate(
        self, name: str, choosing: Trained, testing: Trained
    ) -> tuple[float, list[float]]:
        """The learning rate that is best on held-out images, and accuracies on test images by seed.

        Both functions are called with a rate, a seed and a path; ``choosing`` trains in the size of
        `for_choosing`. Runs are kept under the name.
        """
        tried = {
            rate: kept(f"{name}-{rate:g}-choosing", partial(choosing, rate, 0))
            for rate in self.rates
        }
        best = max(self.rates, key=tried.__getitem__)
        accuracies = [
            kept(f"{name}-{best:g}-testing-{seed}", partial(testing, best, seed))
            for seed in range(self.seeds)
        ]
        return best, accuracies
