"""The list of all bounds: what each one bounds, on which side, when it holds, who proved it.

A bound is a function of a mechanism and a notion of adjacency that returns pairs (P, Q) with
counts: the run is the product of all of them, P with the record and Q without. It is registered
by the decorator ``bound``; nothing else needs to know that it exists. Which bound is best for
some numbers, and what the product of its pairs implies, is for `account` to find out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from sharpdp.bracket import Rigor, Side
from sharpdp.errors import InvalidArgument, Unsupported
from sharpdp.mechanisms import DPSGD, Adjacency, Mechanism, Repeated, Sequence
from sharpdp.pairs.pair import STANDARD_WIDTH, Pair
from sharpdp.proofs import cited

__all__ = ["CONSTANTS", "REAL_NUMBERS", "Bound", "PairCounts", "all_bounds", "bound", "bounds_for"]

PairCounts: TypeAlias = tuple[tuple[Pair, int], ...]
"""Pairs, each with how often it occurs in the product."""

Theorem = Callable[[Any, Adjacency], PairCounts]
Refined = Callable[[Any, Adjacency, float], PairCounts]
AnyTheorem = TypeVar("AnyTheorem", bound=Theorem)

ROUGH_WIDTH = 2e-3
"""Relative width of epsilon that rough pairs leave; they are asked for by widths of at least this."""
Condition = Callable[[Any], bool]
Premises = Callable[[Any, Adjacency, Side], tuple["Bound", ...]]

REAL_NUMBERS = "arithmetic on sums and noise is exact, and timing reveals nothing"
"""What every bound on noise idealizes; the releases of `sharpdp.learn` are exact in this sense."""

CONSTANTS = (
    "sums are divided by a constant of the plan, for add/remove by one that is chosen without looking at "
    "the data, as the sample rate and the steps are"
)
"""What bounds on training need, so that no released number tells how many records there are."""

_REGISTERED: dict[str, "Bound"] = {}


@dataclass(frozen=True)
class Bound:
    """One theorem: what it bounds, on which side, how firmly, when, and where it is proved.

    ``holds_when`` is what must be ensured for the upper side to hold, ``attained_when`` names what
    attains the lower side; either is empty for a bound without that side. ``proof`` is the page
    with our own proof, which ships with sharpdp and is not peer reviewed; ``source`` then names
    what the proof builds on. ``rests_on`` gives the bounds on the parts of a mechanism that a bound
    takes as premises. ``over`` is the batch scheme for training runs, None for everything else.
    ``applies`` declines mechanisms of the right class that it says nothing about.
    ``lower_composes`` says whether one fixed pair of data sets attains the lower side in every
    round, so that the lower side may be composed too; upper sides always may. ``rough`` gives
    pairs that are as safe and quicker to find, but wider; a search asks them first. ``refined``
    gives pairs for a width below STANDARD_WIDTH. ``approaches`` says of which mechanisms the pairs
    approach the exact pair as they are refined, so that only work lies between the two sides.
    """

    name: str
    of: type[Mechanism]
    over: type | None
    sides: tuple[Side, ...]
    rigor: Rigor
    adjacency: tuple[Adjacency, ...]
    holds_when: str
    attained_when: str
    source: str
    proof: str
    lower_composes: bool
    theorem: Theorem
    applies: Condition | None = None
    rests_on: Premises | None = None
    rough: Theorem | None = None
    refined: Refined | None = None
    approaches: Condition | None = None

    def __call__(
        self, mechanism: Mechanism, adjacency: Adjacency, *, width: float = STANDARD_WIDTH
    ) -> PairCounts:
        """The pairs for one run of the mechanism, each with how often it occurs.

        `width` is about as far as epsilons of the two sides may be apart because of the pairs.
        """
        if width >= ROUGH_WIDTH and self.rough is not None:
            return self.rough(mechanism, adjacency)
        if width < STANDARD_WIDTH and self.refined is not None:
            return self.refined(mechanism, adjacency, width)
        return self.theorem(mechanism, adjacency)

    def premises(
        self, mechanism: Mechanism, adjacency: Adjacency, side: Side
    ) -> tuple["Bound", ...]:
        """The bound itself, then the bounds on parts of this mechanism that it takes for granted."""
        return (self, *(self.rests_on(mechanism, adjacency, side) if self.rests_on else ()))

    @property
    def grounds(self) -> str:
        """Who proved it: the publications, or our own page and what it builds on."""
        if not self.proof:
            return self.source
        return f"our proof, not peer reviewed: {cited(self.proof)}; builds on {self.source}"

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """What must hold for the upper side, and what attains the lower side, each after its title."""
        titled = (("holds when", self.holds_when), ("lower end attained when", self.attained_when))
        return tuple((title, words) for title, words in titled if words)

    @property
    def subject(self) -> str:
        """What is bounded, by the names of its classes."""
        return self.of.__name__ + (f" over {self.over.__name__}" if self.over else "")

    def bounds(self, mechanism: Mechanism) -> bool:
        """Whether it is about this mechanism; a subclass may change what is run, so none is."""
        if type(mechanism) is not self.of:
            return False
        if isinstance(mechanism, DPSGD) and type(mechanism.batches) is not self.over:
            return False
        return self.applies is None or self.applies(mechanism)

    def covers(self, adjacency: Adjacency) -> bool:
        """Whether it holds for this notion of neighboring data sets."""
        return adjacency in self.adjacency or Adjacency.NEIGHBORS in self.adjacency


def bound(
    *,
    of: type[Mechanism],
    over: type | None = None,
    sides: tuple[Side, ...],
    rigor: Rigor,
    adjacency: tuple[Adjacency, ...],
    holds_when: str = "",
    attained_when: str = "",
    source: str,
    proof: str = "",
    lower_composes: bool = True,
    applies: Condition | None = None,
    rests_on: Premises | None = None,
    rough: Theorem | None = None,
    refined: Refined | None = None,
    approaches: Condition | None = None,
) -> Callable[[AnyTheorem], AnyTheorem]:
    """A decorator that registers a theorem under the name of its function."""

    def register(theorem: AnyTheorem) -> AnyTheorem:
        name = theorem.__name__
        known = _REGISTERED.get(name)
        if known is not None and known.theorem.__module__ != theorem.__module__:
            raise InvalidArgument(
                f"a bound must have a name of its own; got a second {name!r} "
                f"in {theorem.__module__}. The first is in {known.theorem.__module__}."
            )
        _REGISTERED[name] = Bound(
            name,
            of,
            over,
            sides,
            rigor,
            adjacency,
            holds_when,
            attained_when,
            source,
            proof,
            lower_composes,
            theorem,
            applies,
            rests_on,
            rough,
            refined,
            approaches,
        )
        return theorem

    return register


def all_bounds() -> tuple[Bound, ...]:
    """Every bound, in the order of registration.

    >>> from sharpdp.bounds import all_bounds
    >>> next(one.source for one in all_bounds() if one.name == "gaussian_tight")
    'dong2022 Theorem 2.7; balle2018 Theorem 8'
    """
    return tuple(_REGISTERED.values())


def bounds_for(mechanism: Mechanism, adjacency: Adjacency | str | None = None) -> tuple[Bound, ...]:
    """The bounds on one mechanism, at least one; Unsupported, with what exists, if there is none.

    Holds when: the mechanism is not composed of others; go through its ``parts()`` if it is.

    >>> from sharpdp.mechanisms import Gaussian
    >>> [one.name for one in bounds_for(Gaussian(1.0))]
    ['gaussian_tight']
    """
    if isinstance(mechanism, Repeated | Sequence):
        raise InvalidArgument(
            "mechanism must not be composed of others; "
            f"got {mechanism.describe()}. Ask for each of its parts()."
        )
    wanted = mechanism.adjacency(adjacency)
    about = [one for one in all_bounds() if one.bounds(mechanism)]
    matching = tuple(one for one in about if one.covers(wanted))
    if matching:
        return matching
    if about:
        known = " and ".join(str(each) for one in about for each in one.adjacency)
        raise Unsupported(
            f"adjacency {wanted} has no theorem for {mechanism.describe()}. What exists: {known}."
        )
    subjects = ", ".join(sorted({one.subject for one in all_bounds()}))
    raise Unsupported(f"no bound covers {mechanism.describe()}. There are bounds on: {subjects}.")
