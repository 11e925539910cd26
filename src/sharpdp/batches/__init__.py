"""How examples enter batches: schemes that yield the batches and are what is accounted."""

from sharpdp.batches.independent import PoissonBatches
from sharpdp.batches.partitioned import DeterministicBatches
from sharpdp.batches.scheme import BatchScheme

__all__ = ["BatchScheme", "DeterministicBatches", "PoissonBatches"]
