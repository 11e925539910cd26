"""Which two data sets a guarantee compares, and how mechanisms agree on it."""

from collections.abc import Iterable
from enum import Enum

from sharpdp._validate import short_repr
from sharpdp.errors import InvalidArgument, Unsupported

__all__ = ["Adjacency", "chosen", "common", "notion"]


class Adjacency(str, Enum):
    """Which two data sets are neighbors.

    - ADD_REMOVE: one has a record that the other lacks.
    - ZERO_OUT: one record is replaced by a null record, which contributes zero.
    - REPLACE_ONE: one record has two different values.
    - NEIGHBORS: any two inputs for which the stated sensitivity, or the promise, holds. It stands for
      every other notion.

    >>> Adjacency("add-remove")
    <Adjacency.ADD_REMOVE: 'add/remove'>
    """

    ADD_REMOVE = "add/remove"
    ZERO_OUT = "zero-out"
    REPLACE_ONE = "replace-one"
    NEIGHBORS = "neighboring inputs"

    @classmethod
    def _missing_(cls, value: object) -> "Adjacency":
        if isinstance(value, str):
            for member in cls:
                if _words(value) in (_words(member.value), _words(member.name)):
                    return member
        names = ", ".join(repr(member.value) for member in cls)
        raise InvalidArgument(f"adjacency must be one of {names}; got {short_repr(value)}.")

    def __str__(self) -> str:
        """The notion in words."""
        return self.value


def _words(text: str) -> list[str]:
    return text.lower().replace("_", " ").replace("-", " ").replace("/", " ").split()


def notion(adjacency: object) -> Adjacency:
    """The notion of this name, or itself.

    >>> str(notion("zero out"))
    'zero-out'
    """
    # an array would be compared with each name
    return Adjacency(adjacency) if isinstance(adjacency, str) else Adjacency._missing_(adjacency)


def chosen(
    adjacencies: tuple[Adjacency, ...], adjacency: Adjacency | str | None, described: str
) -> Adjacency:
    """The notion asked for, or the first one that a mechanism has if none was.

    >>> str(chosen((Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE), None, "some mechanism"))
    'zero-out'
    """
    if adjacency is None:
        return adjacencies[0]
    wanted = notion(adjacency)
    if wanted in adjacencies or Adjacency.NEIGHBORS in adjacencies:
        return wanted
    listed = " and ".join(str(adjacency) for adjacency in adjacencies)
    raise Unsupported(f"adjacency {wanted} has no theorem for {described}. What exists: {listed}.")


def common(every: Iterable[tuple[Adjacency, ...]]) -> tuple[Adjacency, ...]:
    """The notions that all of some mechanisms have, in the order of the first that is choosy.

    >>> [str(one) for one in common([(Adjacency.NEIGHBORS,), (Adjacency.ZERO_OUT,)])]
    ['zero-out']
    """
    choosy = [adjacencies for adjacencies in every if Adjacency.NEIGHBORS not in adjacencies]
    if not choosy:
        return (Adjacency.NEIGHBORS,)
    return tuple(
        adjacency for adjacency in choosy[0] if all(adjacency in other for other in choosy)
    )
