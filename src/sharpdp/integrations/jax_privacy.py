"""Batches of a scheme as a `BatchSelectionStrategy` of jax-privacy.

    strategy = SchemeSelection(plan, key)
    for indices in strategy.batch_iterator(60_000):
        ...

jax-privacy asks a strategy for nothing but `batch_iterator`, so that the package is not needed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import short_repr
from sharpdp.batches import BatchScheme
from sharpdp.errors import InvalidArgument
from sharpdp.integrations.torch import BatchSampler

__all__ = ["SchemeSelection"]


class SchemeSelection:
    """The batches of a scheme, drawn once, as jax-privacy's training loops take them.

    Args:
        scheme: How batches are drawn; it must have a dataset_size.
        key: Secret of at least 16 bytes; None for a fresh one. An integer is a seed for tests.

    Raises:
        InvalidArgument: An argument is out of range.
        WrongType: An argument has the wrong type.

    >>> from sharpdp.batches import BallsAndBins
    >>> strategy = SchemeSelection(BallsAndBins(dataset_size=6, batch_size=2, epochs=1), key=1)
    >>> sum(batch.size for batch in strategy.batch_iterator(6))
    6
    """

    def __init__(self, scheme: BatchScheme, key: bytes | int | None = None) -> None:
        """Take the key, or a fresh one."""
        self.sampler = BatchSampler(scheme, key)

    def batch_iterator(self, num_examples: int, rng: Any = None) -> Iterator[NDArray[np.int64]]:
        """The index batches that are left of the run.

        Args:
            num_examples: Size of the data set, which is that of the scheme.
            rng: None: batches are drawn from the key.

        Yields:
            Positions of examples; none in an empty batch.

        Raises:
            InvalidArgument: The size is another one, rng is given, or the run is over.
        """
        planned = self.sampler.scheme.dataset_size
        if num_examples != planned:
            raise InvalidArgument(
                f"num_examples must be the dataset_size = {planned} of the scheme; got "
                f"{short_repr(num_examples)}."
            )
        if rng is not None:
            raise InvalidArgument(
                f"rng must be None, since batches are drawn from a secret key; got {short_repr(rng)}. "
                "Give the key to SchemeSelection."
            )
        for batch in self.sampler:
            yield np.asarray(batch, dtype=np.int64)
