"""How examples enter batches: schemes that yield the batches and are what is accounted."""

from sharpdp.batches.buffered import BufferedShuffle
from sharpdp.batches.cyclic import CyclicPoissonBatches
from sharpdp.batches.independent import FixedSizeBatches, PoissonBatches
from sharpdp.batches.partitioned import DeterministicBatches, ShuffledBatches
from sharpdp.batches.random_allocation import BallsAndBins, BallsInBins, RandomAllocation  # noqa: F401
from sharpdp.batches.scheme import BatchScheme
from sharpdp.batches.truncated import TruncatedPoissonBatches
from sharpdp.batches.weighted import WeightedPoissonBatches

__all__ = [
    "BallsAndBins",
    "BatchScheme",
    "BufferedShuffle",
    "CyclicPoissonBatches",
    "DeterministicBatches",
    "FixedSizeBatches",
    "PoissonBatches",
    "RandomAllocation",
    "ShuffledBatches",
    "TruncatedPoissonBatches",
    "WeightedPoissonBatches",
]
