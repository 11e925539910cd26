"""How much of a training experiment is run, and the batch schemes over its sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import sharpdp as dp
from reproduce.learning.images import Images
from reproduce.learning.ledger import kept, mean

__all__ = ["EqualEpsilonSize", "TrainingSize"]


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

    def best_rate(
        self, name: str, trained: Callable[[float, int, Path], float]
    ) -> tuple[float, list[float]]:
        """The learning rate with the best mean accuracy, and its accuracies by seed.

        ``trained`` is called with a rate, a seed and a path; runs are kept under the name.
        """
        tried = {
            rate: [
                kept(f"{name}-{rate:g}-{seed}", partial(trained, rate, seed))
                for seed in range(self.seeds)
            ]
            for rate in self.rates
        }
        best = max(tried, key=lambda rate: mean(tried[rate]))
        return best, tried[best]
