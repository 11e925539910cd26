"""A mechanism for neighbors that differ in a whole group of records."""

from __future__ import annotations

from dataclasses import dataclass

from sharpdp._validate import count, invalid
from sharpdp.batches import TruncatedPoissonBatches
from sharpdp.bracket import Rigor
from sharpdp.mechanisms.composed import Adjacency, Mechanism, Parts
from sharpdp.mechanisms.training import BatchQueries

__all__ = ["Grouped", "checked_group_size", "in_groups", "named_neighbors"]

MOST_RECORDS = 1000
"""Larger groups are refused: with so many records sampling hides next to nothing of a group."""


@dataclass(frozen=True)
class Grouped(Mechanism):
    """A mechanism, seen by a group: neighbors differ in up to `group_size` records.

    It runs what the mechanism runs. `account(mechanism, group_size=k)` asks for it part by part.

    - add/remove: one data set has up to `group_size` records that the other lacks.
    - zero-out: up to so many records are replaced by null records.
    - replace-one: up to so many records have two different values each.
    - neighboring inputs: a chain of so many neighbors leads from one to the other.

    Args:
        mechanism: what is run; not composed of others.
        group_size: number of records of a group; 1 to 1000, and no more than there are.

    Raises:
        InvalidArgument: ``group_size`` is out of range.
        WrongType: it is not a number.

    >>> from sharpdp.mechanisms.elementary import Gaussian
    >>> Grouped(Gaussian(2.0), 4).describe()
    'groups of 4 in Gaussian noise (noise multiplier 2)'
    """

    mechanism: Mechanism
    group_size: int

    def __post_init__(self) -> None:
        """Check the size of the group against what is run."""
        size = checked_group_size(self.group_size)
        records = getattr(getattr(self.mechanism, "batches", None), "dataset_size", None)
        if records is not None and size > records:
            raise invalid("group_size", f"at most the dataset_size of {records}", size)
        object.__setattr__(self, "group_size", size)

    @property
    def label(self) -> str:
        """The label of what is run."""
        return self.mechanism.label

    @property
    def premise(self) -> Rigor:
        """Rigor of the mechanism's own data."""
        return self.mechanism.premise

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of what is run.

        The bounds on cut Poisson batches are about one number of records, and a group that is added or
        removed passes through many: there zero-out and replace-one are left.
        """
        every = self.mechanism.adjacencies
        run = self.mechanism
        if isinstance(run, BatchQueries) and isinstance(run.batches, TruncatedPoissonBatches):
            return tuple(notion for notion in every if notion is not Adjacency.ADD_REMOVE)
        return every

    def describe(self) -> str:
        """The group and the mechanism in one line."""
        return f"groups of {self.group_size} in {self.mechanism.describe()}"


def in_groups(parts: Parts, group_size: int) -> Parts:
    """The parts as groups of this size see them; single records see them as they are."""
    if group_size == 1:
        return parts
    return tuple((Grouped(part, group_size), times) for part, times in parts)


def named_neighbors(adjacency: Adjacency, group_size: int) -> str:
    """Which data sets are neighbors, in a few words.

    >>> named_neighbors(Adjacency.ZERO_OUT, 4)
    'zero-out in groups of 4'
    """
    return f"{adjacency} in groups of {group_size}" if group_size > 1 else str(adjacency)


def checked_group_size(group_size: object) -> int:
    """The size of a group as a whole number in range.

    >>> checked_group_size(3.0)
    3
    """
    size = count(group_size=group_size, hint="It counts the records of one person or group.")
    if size > MOST_RECORDS:
        raise invalid("group_size", f"at most {MOST_RECORDS}", size)
    return size
