"""The base of all mechanisms, their neighbors, and compositions: repetitions, sequences, groups.

Composition is only written down here; it is never expanded and never analyzed.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from sharpdp._validate import LARGEST_COUNT, HintedKeywords, count, has_entries, invalid, short_repr
from sharpdp.bracket import Rigor
from sharpdp.errors import InvalidArgument, Unsupported, WrongType

__all__ = [
    "Adjacency",
    "Grouped",
    "Mechanism",
    "Parts",
    "Repeated",
    "Sequence",
    "checked_group_size",
    "chosen",
    "common",
    "drawn_by",
    "in_groups",
    "independently_drawn",
    "named_neighbors",
    "notion",
]

Parts: TypeAlias = "tuple[tuple[Mechanism, int], ...]"
"""Mechanisms that are not composed of others, each with how often it is run."""

MOST_DESCRIBED = 4
"""A longer sequence is described by its first parts."""

MOST_RECORDS = 1000
"""Larger groups are refused: sampling hides next to nothing of a group of this size."""

NO_NOISE = "Without noise there is no privacy to account for."
NOTHING = "no release"
NO_LESS_NOISE = "0 is no noise at all."
NO_LESS = "0 is perfect privacy, and larger is less."
"""Hints about arguments that several mechanisms have."""

ANY_SAMPLES = ("any samples",)
"""What a mechanism may draw of which only a guarantee is known."""


class Adjacency(str, Enum):
    """Which two data sets are neighbors.

    - ADD_REMOVE: one has a record that the other lacks.
    - ZERO_OUT: one record is replaced by a null record, which contributes zero.
    - REPLACE_ONE: one record has two different values.
    - NEIGHBORS: any two inputs for which the stated sensitivity, or the stated guarantee, holds. It
      stands for every other notion.

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


class Mechanism(HintedKeywords, ABC):
    """A mechanism that is run on the data: frozen data about it, without any analysis.

    ``mechanism * 10`` runs it ten times, ``a + b`` runs one after the other, each with fresh
    randomness. The later ones may be chosen after seeing the results of the earlier ones, as
    long as they stay within what is written down.

    >>> from sharpdp.mechanisms.elementary import Gaussian, Laplace
    >>> (Gaussian(1.0) * 3 + Laplace(2.0)).describe()
    '3 x Gaussian noise (noise multiplier 1), then Laplace noise (scale 2)'
    """

    __array_ufunc__ = None  # numpy integers leave the product to this class

    @abstractmethod
    def describe(self) -> str:
        """The mechanism in one line."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The mechanism in two or three words."""

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """The notions of neighboring data sets with a theorem; the first is the default."""
        return (Adjacency.NEIGHBORS,)

    @property
    def _group_adjacencies(self) -> tuple[Adjacency, ...]:
        """The notions among `adjacencies` for which groups of records are accounted."""
        return self.adjacencies

    def adjacency(self, adjacency: Adjacency | str | None = None) -> Adjacency:
        """The notion asked for if there is a theorem for it, the default if none is asked for.

        Args:
            adjacency: an `Adjacency`, or its name in any spelling, such as "add/remove" or "ADD_REMOVE".
                None (default) asks for the first of `adjacencies`.

        Returns:
            The notion of neighboring data sets that an answer about the mechanism is for.

        Raises:
            InvalidArgument: there is no notion of that name.
            Unsupported: no theorem covers the mechanism under that notion.
        """
        return chosen(self.adjacencies, adjacency, self.describe())

    @property
    def uses_records(self) -> bool:
        """Whether a record may enter a result: not in a run without steps, or with empty batches."""
        return True

    @property
    def adds_noise(self) -> bool:
        """Whether there is noise in what is released: not with a noise multiplier of 0."""
        return True

    @property
    def degenerate(self) -> bool:
        """Whether no record is used, or nothing hides those that are; both have their own theorems."""
        return not (self.uses_records and self.adds_noise)

    @property
    def premise(self) -> Rigor:
        """Rigor of the mechanism's own data, such as a curve that came from another answer."""
        return Rigor.CERTIFIED

    @property
    def holds_when(self) -> tuple[str, ...]:
        """Conditions on how it is run, besides the premises of the theorems on its parts.

        >>> from sharpdp.mechanisms.elementary import Gaussian, PureDP
        >>> (Gaussian(1.0) * 3).holds_when
        ()
        >>> (PureDP(1.0) * 3).holds_when[0][-44:]
        'draw any samples independently of each other'
        """
        return ()

    @property
    def _draws(self) -> tuple[str, ...]:
        """Random draws of a run besides noise, such as "their batches"; empty if there are none."""
        return ()

    def parts(self) -> Parts:
        """The mechanisms it is accounted as, equal ones together, each with how often it is run.

        The order is that of first appearance: accounting does not depend on it.
        """
        return ((self, 1),)

    def pieces(self) -> Parts:
        """The mechanisms it consists of in words, where these are accounted as others."""
        return self.parts()

    def __mul__(self, count: object) -> "Repeated":
        """The mechanism, run ``count`` times."""
        if isinstance(count, Mechanism):
            raise WrongType(
                "a mechanism is multiplied by how often it is run; "
                f"got {short_repr(count)}. Did you mean a + b?"
            )
        return Repeated(self, count)  # type: ignore[arg-type]  # checked there

    def __rmul__(self, count: object) -> "Repeated":
        """The mechanism, run ``count`` times."""
        return self * count

    def __add__(self, other: object) -> "Sequence":
        """The sequence of this mechanism and the other."""
        if not isinstance(other, Mechanism):
            raise WrongType(
                f"only a mechanism can be added to a mechanism; got {short_repr(other)}. "
                "Did you mean mechanism * count?"
            )
        return Sequence._joined(self, other)

    def __radd__(self, other: object) -> "Mechanism":
        """The mechanism itself after the 0 with which the built-in ``sum`` starts."""
        if isinstance(other, int) and not isinstance(other, bool) and other == 0:
            return self
        raise WrongType(
            f"only a mechanism can be added to a mechanism; got {short_repr(other)}. "
            "Did you mean count * mechanism?"
        )


@dataclass(frozen=True)
class Repeated(Mechanism):
    """A mechanism, run ``count`` times on the same data with fresh randomness.

    Args:
        mechanism: what is run.
        count: how often it is run; 0 to 10^18.

    Raises:
        InvalidArgument: ``count`` is out of range, or a part would be run more than 10^18 times.
        WrongType: ``mechanism`` is not a mechanism, or ``count`` is not a number.

    >>> from sharpdp.mechanisms.elementary import Gaussian
    >>> Repeated(Gaussian(1.0), 10**18).parts()
    ((Gaussian(noise_multiplier=1.0), 1000000000000000000),)
    """

    mechanism: Mechanism
    count: int

    def __post_init__(self) -> None:
        """Check both fields, and that no part is run more often than can be counted."""
        _checked_mechanism("mechanism", self.mechanism)
        hint = "It says how often the mechanism is run."
        object.__setattr__(self, "count", count(least=0, count=self.count, hint=hint))
        self.parts()

    @property
    def label(self) -> str:
        """The label of what is repeated."""
        return self.mechanism.label

    @property
    def uses_records(self) -> bool:
        """Whether it is run at all, and a record may enter a result."""
        return any(part.uses_records for part, _ in self.parts())

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of the repeated mechanism."""
        return self.mechanism.adjacencies

    @property
    def holds_when(self) -> tuple[str, ...]:
        """The conditions of the repeated mechanism, and that its runs draw batches independently."""
        return (*self.mechanism.holds_when, *independently_drawn(self.parts()))

    def describe(self) -> str:
        """The pieces in one line."""
        return _described(self.pieces())

    def parts(self) -> Parts:
        """The parts of the repeated mechanism, each ``count`` times as often."""
        return _merged((part, times * self.count) for part, times in self.mechanism.parts())

    def pieces(self) -> Parts:
        """The pieces of the repeated mechanism, each ``count`` times as often."""
        return _merged((piece, times * self.count) for piece, times in self.mechanism.pieces())


@dataclass(frozen=True)
class Sequence(Mechanism):
    """Mechanisms, run one after the other on the same data with fresh randomness.

    Args:
        mechanisms: what is run, in this order. An empty list stands for a run that releases nothing.

    Raises:
        WrongType: ``mechanisms`` is not a list, or an entry is not a mechanism.
        Unsupported: the mechanisms share no notion of neighboring data sets.

    >>> from sharpdp.mechanisms.elementary import Gaussian, Laplace
    >>> [times for _, times in Sequence([Gaussian(1.0), Laplace(1.0), Gaussian(1.0)]).parts()]
    [2, 1]
    """

    mechanisms: tuple[Mechanism, ...]
    _adjacencies: tuple[Adjacency, ...] = field(repr=False, compare=False)

    def __init__(self, mechanisms: Iterable[Mechanism]) -> None:
        """Check each part, and that they share a notion of neighboring data sets."""
        if isinstance(mechanisms, Mechanism) or not has_entries(mechanisms):
            raise WrongType(
                f"mechanisms must be a list of mechanisms; got {short_repr(mechanisms)}. "
                "Use Sequence([a, b]) or a + b."
            )
        parts = tuple(mechanisms)
        for index, part in enumerate(parts):
            _checked_mechanism(f"mechanisms[{index}]", part)
        self._settle(parts, common(part.adjacencies for part in parts))

    @classmethod
    def _joined(cls, first: Mechanism, then: Mechanism) -> "Sequence":
        """``first + then`` without looking into the parts again: long sums stay cheap."""
        sequence = cls.__new__(cls)
        shared = common([first.adjacencies, then.adjacencies])
        sequence._settle((*_flat(first), *_flat(then)), shared)
        return sequence

    def _settle(self, mechanisms: tuple[Mechanism, ...], shared: tuple[Adjacency, ...]) -> None:
        object.__setattr__(self, "mechanisms", mechanisms)
        object.__setattr__(self, "_adjacencies", shared)
        if not shared:
            raise Unsupported(_no_common_adjacency(mechanisms))

    @property
    def label(self) -> str:
        """The label of its only part, or how many it has."""
        if not self.mechanisms:
            return NOTHING
        parts = self.parts()
        return parts[0][0].label if len(parts) == 1 else f"sequence of {len(parts):,} mechanisms"

    @property
    def holds_when(self) -> tuple[str, ...]:
        """The conditions of its mechanisms, and that they draw their batches independently."""
        own = (condition for each in self.mechanisms for condition in each.holds_when)
        return tuple(dict.fromkeys((*own, *independently_drawn(self.parts()))))

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies that all parts share."""
        return self._adjacencies

    @property
    def uses_records(self) -> bool:
        """Whether a record may enter a result of any part."""
        return bool(self.mechanisms) and any(part.uses_records for part, _ in self.parts())

    def describe(self) -> str:
        """The first pieces in one line."""
        return _described(self.pieces()) if self.mechanisms else NOTHING

    def parts(self) -> Parts:
        """The parts of all its mechanisms, equal ones together; itself if it has none."""
        return _merged(part for mechanism in self.mechanisms for part in mechanism.parts())

    def pieces(self) -> Parts:
        """The pieces of all its mechanisms, equal ones together."""
        return _merged(piece for mechanism in self.mechanisms for piece in mechanism.pieces())


if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVariable

    Run = TypeVariable("Run", bound=Mechanism, default=Mechanism, covariant=True)
else:
    Run = TypeVar("Run", bound=Mechanism, covariant=True)


@dataclass(frozen=True)
class Grouped(Mechanism, Generic[Run]):
    """A mechanism, seen by a group: neighbors differ in up to `group_size` records.

    It runs what the mechanism runs. `account(mechanism, group_size=k)` asks for it part by part.

    - add/remove: one data set has up to `group_size` records that the other lacks.
    - zero-out: up to that many records are replaced by null records.
    - replace-one: up to that many records have two different values each.
    - neighboring inputs: a chain of that many neighbors leads from one to the other.

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

    mechanism: Run
    group_size: int

    def __post_init__(self) -> None:
        """Check the size of the group against what is run."""
        size = checked_group_size(self.group_size)
        records = getattr(getattr(self.mechanism, "batches", None), "dataset_size", None)
        if records is not None and size > records:
            raise invalid("group_size", f"at most the dataset_size of {records}", size)
        object.__setattr__(self, "group_size", size)

    @property
    def _draws(self) -> tuple[str, ...]:
        return self.mechanism._draws

    @property
    def label(self) -> str:
        """The label of what is run."""
        return self.mechanism.label

    @property
    def uses_records(self) -> bool:
        """Whether a record may enter a result of what is run."""
        return self.mechanism.uses_records

    @property
    def adds_noise(self) -> bool:
        """Whether there is noise in what is released."""
        return self.mechanism.adds_noise

    @property
    def premise(self) -> Rigor:
        """Rigor of the mechanism's own data."""
        return self.mechanism.premise

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies of what is run for which groups are accounted."""
        return self.mechanism._group_adjacencies

    def describe(self) -> str:
        """The group and the mechanism in one line."""
        return f"groups of {self.group_size} in {self.mechanism.describe()}"


def drawn_by(parts: Parts) -> tuple[str, ...]:
    """Random draws of these parts besides noise, each named once.

    >>> from sharpdp.mechanisms.elementary import Laplace, PureDP
    >>> drawn_by((Laplace(1.0) + PureDP(1.0)).parts())
    ('any samples',)
    """
    return tuple(dict.fromkeys(noun for part, _ in parts for noun in part._draws))


def independently_drawn(parts: Parts) -> tuple[str, ...]:
    """The condition of a composition in which batches are drawn more than once; none otherwise.

    Batches hide who is in them. If two parts see the same ones, what the first reveals about them makes
    the second less private.
    """
    if sum(times for part, times in parts if part._draws) < 2:
        return ()
    what = " and ".join(drawn_by(parts))
    return (f"all parts, and all runs of one part, draw {what} independently of each other",)


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


def _flat(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    return mechanism.mechanisms if isinstance(mechanism, Sequence) else (mechanism,)


def _merged(pieces: Iterable[tuple[Mechanism, int]]) -> Parts:
    """Equal ones together, without empty sequences, or one empty sequence if that is all there is."""
    total: dict[Mechanism, int] = {}
    for mechanism, times in pieces:
        if times == 0 or (isinstance(mechanism, Sequence) and not mechanism.mechanisms):
            continue
        total[mechanism] = total.get(mechanism, 0) + times
        if total[mechanism] > LARGEST_COUNT:
            raise InvalidArgument(
                f"count must be at most 10^18 for each part; got {short_repr(total[mechanism])} times "
                f"{mechanism.describe()}."
            )
    return tuple(total.items()) or ((Sequence([]), 1),)


def _described(parts: Parts) -> str:
    lines = [
        (f"{times:,} x " if times > 1 else "") + part.describe()
        for part, times in parts[:MOST_DESCRIBED]
    ]
    if len(parts) > MOST_DESCRIBED:
        lines.append(f"{len(parts) - MOST_DESCRIBED:,} more")
    return ", then ".join(lines)


def _checked_mechanism(name: str, value: object) -> None:
    if isinstance(value, Mechanism):
        return
    hint = "Try Gaussian(noise_multiplier=1.0)."
    raise WrongType(f"{name} must be a mechanism; got {short_repr(value)}. {hint}")


def _no_common_adjacency(mechanisms: tuple[Mechanism, ...]) -> str:
    lines = "; ".join(
        f"{part.label} has {', '.join(str(adjacency) for adjacency in part.adjacencies)}"
        for part in mechanisms
    )
    return f"mechanisms of a sequence must share a notion of neighboring data sets; got: {lines}."
