"""Passes over blocks of records in a random order, with noise after every block."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sharpdp._validate import count, invalid, real, short_repr
from sharpdp.errors import InvalidArgument
from sharpdp.mechanisms.adjacency import Adjacency
from sharpdp.mechanisms.composed import Mechanism, Parts
from sharpdp.mechanisms.shuffle import LARGEST_LOCAL_EPSILON, MOST_USERS, SMALLEST_LOCAL_EPSILON

__all__ = ["ShuffledBlocks"]

UNITS = ("record", "block")
"""What is protected: one record of a block, or a whole block."""


@dataclass(frozen=True, kw_only=True)
class ShuffledBlocks(Mechanism):
    """Every epoch goes through all blocks of records in a fresh random order, and releases every step.

    The step on one block is ``local_epsilon``-DP in the block as a whole, whatever was released before
    it and whichever block it is: noise must cover the difference of any *two blocks*, not of two
    records, because it is the other blocks that hide one. The blocks themselves are fixed.

    - ``unit="block"``: neighbors differ by all records of one block.
    - ``unit="record"``: neighbors differ by one of the ``block_size`` records of a block, which moves
      the step by local_epsilon / block_size only. That holds for additive noise on a sum of clipped
      contributions, each of the same size at most.

    Args:
        blocks: number of blocks, and of steps per epoch; 1 to 10^12.
        local_epsilon: the epsilon of one step for a whole block; 1e-6 to 30, times ``block_size`` if the
            unit is a record.
        block_size: number of records in a block, at least 1 (default).
        epochs: number of passes over all blocks, at least 1 (default).
        unit: what is protected: "record" (default) or "block".

    Raises:
        InvalidArgument: a value is out of range, or the unit is unknown.
        WrongType: a numeric argument is not a number.

    >>> ShuffledBlocks(blocks=100, block_size=600, local_epsilon=1.0, epochs=50).describe()
    '50 epochs over 100 shuffled blocks of 600 records (local epsilon 1 of a block, protects one record)'
    """

    blocks: int
    local_epsilon: float
    block_size: int = 1
    epochs: int = 1
    unit: str = "record"

    adjacencies = (Adjacency.REPLACE_ONE,)

    def __post_init__(self) -> None:
        """Check all fields."""
        blocks = count(blocks=self.blocks, hint="It counts the steps of an epoch.")
        if blocks > MOST_USERS:
            raise invalid("blocks", "at most 10^12", blocks)
        size = count(block_size=self.block_size, hint="It counts the records of a block.")
        epochs = count(epochs=self.epochs, hint="It counts passes over the data.")
        if str(self.unit) not in UNITS:
            raise InvalidArgument(
                f"unit must be one of {', '.join(map(repr, UNITS))}; got {short_repr(self.unit)}. "
                "It says what is protected."
            )
        local = real(local_epsilon=self.local_epsilon, hint="It is that of a whole block.")
        records = size if self.unit == "record" else 1
        smallest, largest = SMALLEST_LOCAL_EPSILON * records, LARGEST_LOCAL_EPSILON * records
        if not smallest <= local <= largest:
            allowed = f"between {smallest:g} and {largest:g}"
            raise invalid(
                "local_epsilon", allowed, self.local_epsilon, "It is that of a whole block."
            )
        clean = {"blocks": blocks, "block_size": size, "epochs": epochs, "local_epsilon": local}
        for name, value in clean.items():
            object.__setattr__(self, name, value)

    @property
    def label(self) -> str:
        """The mechanism in a few words."""
        return f"shuffled blocks, one {self.unit}"

    def parts(self) -> Parts:
        """One epoch, repeated ``epochs`` times."""
        return ((replace(self, epochs=1), self.epochs),)

    def describe(self) -> str:
        """The mechanism in one line."""
        often = f"{self.epochs:,} epochs" if self.epochs > 1 else "1 epoch"
        records = f"{self.block_size:,} records" if self.block_size > 1 else "1 record"
        return (
            f"{often} over {self.blocks:,} shuffled blocks of {records} "
            f"(local epsilon {self.local_epsilon:.12g} of a block, protects one {self.unit})"
        )
