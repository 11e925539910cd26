"""The list of all bounds: what each one bounds, on which side, when it holds, who proved it.

A bound is a function of a mechanism and a notion of adjacency that returns pairs (P, Q) with
counts: the run is the product of all of them, P with the record and Q without. It is registered
by the decorator ``bound``; nothing else needs to know that it exists. Which bound is best for
some numbers, and what the product of its pairs implies, is for `account` to find out.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import or_
from types import MappingProxyType, UnionType
from typing import Any, Protocol, TypeAlias, TypeVar, Union, get_args, get_origin

from sharpdp._validate import invalid
from sharpdp.batches.scheme import BatchScheme
from sharpdp.bounds.proofs import cited
from sharpdp.bounds.references import keys_in
from sharpdp.bracket import Rigor, Side
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms.composed import Adjacency, Grouped, Mechanism, Repeated, Sequence
from sharpdp.mechanisms.training import DPSGD
from sharpdp.numerics.underflow import underflow_is_zero, underflow_is_zero_in_methods
from sharpdp.pairs.pair import STANDARD_WIDTH, Pair

__all__ = [
    "CONSTANTS",
    "REAL_NUMBERS",
    "Bound",
    "Effort",
    "PairCounts",
    "all_bounds",
    "bound",
    "bounds_for",
    "needs",
    "only_ours",
    "reasons_against",
    "temporarily",
]

PairCounts: TypeAlias = tuple[tuple[Pair, int], ...]
"""Pairs, each with how often it occurs in the product."""

Theorem = Callable[[Any, Adjacency], PairCounts]
Refined = Callable[[Any, Adjacency, float], PairCounts]
AnyTheorem = TypeVar("AnyTheorem", bound=Callable[..., PairCounts])
Asked = Callable[[Any, Adjacency], tuple[Mechanism, Adjacency]]

ROUGH_WIDTH = 2e-3
"""Relative width of epsilon that rough pairs leave; they are asked for by widths of at least this."""
Condition = Callable[[Any], bool]
Reason = Callable[[Any], "str | None"]
Rounds = Callable[[Any, Adjacency], int]
Kinds: TypeAlias = "Mapping[type, Kinds | None]"
Premises = Callable[[Any, Adjacency, Side], tuple["Bound", ...]]

REAL_NUMBERS = "arithmetic on sums and noise is exact, and timing reveals nothing"
"""What every bound on noise idealizes; the releases of `sharpdp.learn` are exact in this sense."""

CONSTANTS = (
    "sums are divided by a constant of the plan, for add/remove by one that is chosen without looking at "
    "the data, as the sample rate and the steps are"
)
"""What bounds on training need, so that no released number tells how many records there are."""

DIFFERING = {
    Adjacency.ADD_REMOVE: "data sets that differ in adding or removing one record",
    Adjacency.ZERO_OUT: "data sets that differ in replacing one record by a null record",
    Adjacency.REPLACE_ONE: "data sets that differ in replacing one record",
    Adjacency.NEIGHBORS: "neighbors",
}
"""Neighbors by what they differ in."""

_REGISTERED: dict[str, "Bound"] = {}

_TEMPORARY: ContextVar[Mapping[str, "Bound"]] = ContextVar(
    "temporary bounds", default=MappingProxyType({})
)
"""Bounds of this thread or task only, while a block runs."""

_SET_ASIDE: dict[object, dict[str, "Bound"]] = {}
"""Bounds that are registered in blocks of `temporarily` only, by their functions."""

_ONLY_OURS: ContextVar[bool] = ContextVar("only bounds of sharpdp", default=False)


class Registered(Protocol):
    """The fields that bounds and published formulas have in common."""

    @property
    def name(self) -> str:
        """The name of the function."""

    @property
    def theorem(self) -> Callable[..., object]:
        """The function."""


Entry = TypeVar("Entry", bound=Registered)


def nowhere(_: Any) -> bool:
    """A condition that no mechanism meets."""
    return False


@dataclass(frozen=True)
class Effort:
    """Which of a theorem's pairs are worth their time: nothing here decides what is true.

    Args:
        rough: Pairs that are as safe and quicker to find, but wider; a search asks them first.
        refined: Pairs for a width below STANDARD_WIDTH.
        approaches: Of which mechanisms the pairs approach the exact pair as they are refined, so that
            only work lies between the two sides.
        yields_to: Names of bounds that say at least as much where they apply; it is not asked there.
        outdoes_conversion: For a bound on several notions of neighbors: of which mechanisms it says more
            by itself than what others make of it for one notion by way of another. They do not ask it
            then about the same run; about another one, such as one record of a group's, they do.
    """

    rough: Theorem | None = None
    refined: Refined | None = None
    approaches: Condition = nowhere
    yields_to: tuple[str, ...] = ()
    outdoes_conversion: Condition = nowhere

    def pairs(
        self, theorem: Theorem, mechanism: Mechanism, adjacency: Adjacency, width: float
    ) -> PairCounts:
        """The pairs that a width asks for.

        Args:
            theorem: The pairs of standard width.
            mechanism: A mechanism to which the theorem applies.
            adjacency: A notion of neighbors for which it holds.
            width: About how far apart, relative to epsilon, the pairs may leave the two sides.

        Returns:
            Pairs with counts.
        """
        if width >= ROUGH_WIDTH and self.rough is not None:
            return self.rough(mechanism, adjacency)
        if width < STANDARD_WIDTH and self.refined is not None:
            return self.refined(mechanism, adjacency, width)
        return theorem(mechanism, adjacency)


ALL = Effort()
"""One kind of pairs, asked wherever the theorem applies."""


@underflow_is_zero_in_methods
@dataclass(frozen=True)
class Bound:
    """One theorem: what it bounds, its side, rigor, adjacency, conditions and source.

    Args:
        name: That of its function; it ends in the side.
        about: The kinds of mechanism that it bounds, such as ``DPSGD[PoissonBatches]``: classes, some of
            them with what is run over in brackets.
        sides: Lower, upper, or both.
        rigor: What stands behind it.
        adjacency: The notions of neighboring data sets for which it holds.
        holds_when: What must be ensured for the upper side to hold; empty without that side. `needs`
            names the neighbors in it.
        attained_when: What attains the lower side: one fixed pair of data sets in every round, so that
            the lower side composes as upper sides always do; empty without that side.
        source: The publications that prove it, or that our proof builds on.
        proof: The page with our own proof, which ships with sharpdp and is not peer reviewed.
        theorem: The function that gives the pairs.
        applies: Why it says nothing about some mechanisms of the right kind, in a few words, and None
            about all others. It looks at parameters and computes nothing: a theorem that finds out as it
            computes raises `Inapplicable`.
        effort: Which pairs are worth their time, and where it is not asked at all.
        rests_on: The bounds on parts of a mechanism that it takes as premises.
        converts: For a theorem that turns bounds on one question into bounds on another: the mechanism
            and the notion of neighbors whose bounds it takes. It is asked once for each of them, and
            gets their pairs, and the width, as further arguments.
        takes_steps: For a theorem that converts bounds and takes their pairs one by one, each for a step
            of the run: it gets one more argument, in how many rounds pairs that are factors fall, or 0.
        factors: For a bound whose pairs are factors: none of them dominates a step by itself, they
            dominate a round of the run only all together. In how many equal rounds they fall.
        degenerate: Whether it is about runs in which no record is used, or without noise. Such a theorem
            is asked about no other runs, and no other theorem about them.
        base: The bound that is converted; None in the registry.
    """

    name: str
    about: tuple[Any, ...]
    sides: tuple[Side, ...]
    rigor: Rigor
    adjacency: tuple[Adjacency, ...]
    holds_when: str
    attained_when: str
    source: str
    proof: str
    theorem: Callable[..., PairCounts]
    applies: Reason | None = None
    effort: Effort = ALL
    rests_on: Premises | None = None
    converts: Asked | None = None
    takes_steps: bool = False
    factors: Rounds | None = None
    degenerate: bool = False
    base: "Bound | None" = None

    @cached_property
    def kinds(self) -> Kinds:
        """The classes of what it bounds, each with those of what is run over, none for any."""
        return _by_class(self.about)

    @property
    def of(self) -> tuple[type[Mechanism], ...]:
        """The kinds of mechanism that it bounds, whatever they are run over."""
        return tuple(self.kinds)

    @property
    def batch_scheme(self) -> tuple[type[BatchScheme], ...]:
        """For DP-SGD, the kinds of batch scheme; else empty."""
        return tuple(self.kinds.get(DPSGD) or ())

    def __call__(
        self, mechanism: Mechanism, adjacency: Adjacency, *, width: float = STANDARD_WIDTH
    ) -> PairCounts:
        """The pairs for one run of the mechanism, each with how often it occurs.

        Args:
            mechanism: A mechanism to which the bound applies.
            adjacency: A notion of neighbors for which it holds.
            width: About how far apart, relative to epsilon, the pairs may leave the two sides.

        Returns:
            Pairs with counts; the run is their product.
        """
        if self.converts is not None:
            question = self.converts(mechanism, adjacency)
            base = self.base or self.converted(mechanism, adjacency)[0].base
            assert base is not None
            pairs = base(*question, width=width)
            if self.takes_steps:
                rounds = base.rounds_of_factors(*question)
                return self.theorem(mechanism, adjacency, pairs, width, rounds)
            return self.theorem(mechanism, adjacency, pairs, width)
        with self._asking_ours():
            return self.effort.pairs(self.theorem, mechanism, adjacency, width)

    def _asking_ours(self) -> AbstractContextManager[None]:
        """Theorems of ours ask no theorem of others about a part: their own rigor would not say so.

        What they keep for later calls is then never based on one.
        """
        return nullcontext() if self.stated_by else only_ours()

    def premises(
        self, mechanism: Mechanism, adjacency: Adjacency, side: Side
    ) -> tuple["Bound", ...]:
        """The bound itself, then the bounds on parts of this mechanism that it takes for granted.

        Args:
            mechanism: A mechanism to which the bound applies.
            adjacency: The notion of neighbors.
            side: The side that is asked for.

        Returns:
            The bounds, this one first.
        """
        if self.converts is not None and self.base is not None:
            question = self.converts(mechanism, adjacency)
            own = _REGISTERED.get(self.name) or replace(self, base=None)
            return (own, *self.base.premises(*question, side))
        with self._asking_ours():
            return (self, *(self.rests_on(mechanism, adjacency, side) if self.rests_on else ()))

    def converted(self, mechanism: Mechanism, adjacency: Adjacency) -> tuple["Bound", ...]:
        """The theorem once for each bound that it converts, as rigorous as both; itself if it has none.

        Args:
            mechanism: A mechanism to which it applies.
            adjacency: The notion of neighbors.

        Returns:
            The bounds.
        """
        if self.converts is None:
            return (self,)
        asked, notion = self.converts(mechanism, adjacency)
        return tuple(
            replace(self, base=base, rigor=Rigor.weakest([self.rigor, base.rigor]))
            for base in bounds_for(asked, notion)
            if set(self.sides) <= set(base.sides)
            and not (asked is mechanism and base._outdoes(mechanism, adjacency))
        )

    def rounds_of_factors(self, mechanism: Mechanism, adjacency: Adjacency) -> int:
        """In how many equal rounds its pairs fall, or those that it converts, if they are factors.

        Args:
            mechanism: A mechanism to which it applies.
            adjacency: The notion of neighbors.

        Returns:
            The number of rounds, by which all counts of pairs can be divided; 0 if every pair is a step.
        """
        if self.converts is not None and self.base is not None:
            return self.base.rounds_of_factors(*self.converts(mechanism, adjacency))
        return 0 if self.factors is None else self.factors(mechanism, adjacency)

    def _outdoes(self, mechanism: Mechanism, adjacency: Adjacency) -> bool:
        """Whether it is asked about these neighbors itself, and says more than a conversion of it."""
        return self.covers(adjacency) and self.effort.outdoes_conversion(mechanism)

    @property
    def stated_by(self) -> str:
        """The module outside sharpdp that states it; empty for a theorem of ours."""
        return outside(self.theorem)

    @property
    def rigor_words(self) -> str:
        """What stands behind it, in a few words: of a theorem of others, who states it."""
        return self.rigor.by([self.stated_by] if self.stated_by else [])

    @property
    def grounds(self) -> str:
        """The publications that prove it, or our own page and what it builds on.

        Of a theorem of others, who states it; a source that is not in our bibliography is unknown.
        """
        if self.stated_by:
            known = "" if keys_in(self.source) else "unknown source "
            return f"stated by {self.stated_by}: {known}{self.source}"
        if not self.proof:
            return self.source
        return f"our proof, not peer reviewed: {cited(self.proof)}; builds on {self.source}"

    def needs(self, adjacency: Adjacency) -> str:
        """What must be ensured for the upper side, with the neighbors of an answer by name.

        A theorem about any neighbors, such as one about a stated sensitivity, speaks of "neighbors". What
        it needs must hold for those that an answer is about.

        Args:
            adjacency: The notion of neighbors of the answer.

        Returns:
            The text of `holds_when`; empty without an upper side.

        >>> from sharpdp.bounds import all_bounds
        >>> laplace = next(one for one in all_bounds() if one.name == "laplace_tight")
        >>> laplace.needs(Adjacency.REPLACE_ONE).partition(";")[0]
        'the l1 sensitivity is at most 1 between data sets that differ in replacing one record'
        """
        if Adjacency.NEIGHBORS not in self.adjacency:
            return self.holds_when
        return self.holds_when.replace("neighbors", DIFFERING[adjacency])

    @property
    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Titled conditions: what the upper side needs, and what attains the lower side."""
        titled = (("holds when", self.holds_when), ("lower end attained when", self.attained_when))
        return tuple((title, words) for title, words in titled if words)

    @property
    def subject(self) -> str:
        """The names of the classes that are bounded; those of degenerate runs are nearly all."""
        if self.degenerate:
            return "runs without records or noise"
        kinds = " or ".join(kind.__name__ for kind in self.of)
        schemes = " or ".join(scheme.__name__ for scheme in self.batch_scheme)
        return f"{kinds} over {schemes}" if schemes else kinds

    def applies_to(self, mechanism: Mechanism) -> bool:
        """True if it is about this mechanism; a subclass may change what is run, so none is covered.

        Args:
            mechanism: Any mechanism.

        Returns:
            Whether the theorem says something about it, for some notion of neighbors, as far as is known
            before it is asked.
        """
        return self._is_about(mechanism) and self._objection(mechanism) is None

    def _is_about(self, mechanism: Mechanism) -> bool:
        """Whether the mechanism is of a kind that the theorem is about."""
        among = _is_among(mechanism, self.kinds)
        return among and mechanism.degenerate is self.degenerate

    def _objection(self, mechanism: Mechanism) -> str | None:
        """Why it says nothing about a mechanism of the right kind; None if it does."""
        if self.applies is None:
            return None
        with self._asking_ours():
            reason = self.applies(mechanism)
        if isinstance(reason, bool):
            raise WrongType(
                f"applies must return a reason or None; got {reason} from {self.name}. "
                'Try applies=needs(condition, "what the theorem needs").'
            )
        return reason

    def covers(self, adjacency: Adjacency) -> bool:
        """True if it holds for this notion of neighboring data sets.

        Args:
            adjacency: A notion of neighbors.

        Returns:
            Whether the theorem is proved for it; one for NEIGHBORS is proved for every notion.
        """
        return adjacency in self.adjacency or Adjacency.NEIGHBORS in self.adjacency


def bound(
    *,
    of: type[Mechanism] | tuple[type[Mechanism], ...] | None = None,
    batch_scheme: type[BatchScheme] | tuple[type[BatchScheme], ...] = (),
    adjacency: Adjacency | tuple[Adjacency, ...] | None = None,
    holds_when: str = "",
    attained_when: str = "",
    source: str,
    proof: str = "",
    applies: Reason | None = None,
    effort: Effort = ALL,
    rests_on: Premises | None = None,
    converts: Asked | None = None,
    takes_steps: bool = False,
    factors: Rounds | None = None,
    degenerate: bool = False,
    name: str = "",
    registered: bool = True,
) -> Callable[[AnyTheorem], AnyTheorem]:
    """A decorator that registers a theorem under the name of its function.

    A theorem of sharpdp is certified. One from any other module is stated by that module: answers that
    rest on it say so, budgets and ledgers do not count by it, and theorems of sharpdp about larger
    mechanisms do not build on it.

    The name ends in the side: `_lower`, `_upper`, or `_tight` for both. Conditions and source are
    appended to the docstring. A file states what its theorems share once, by `functools.partial`:
    ``holds_when`` counts for those with an upper side only, ``attained_when`` for those with a lower
    side.

    Args:
        of: One kind of mechanism or several; by default what the first parameter is annotated with, such
            as ``DPSGD[PoissonBatches]``. Other arguments are those of `Bound`.
        batch_scheme: One kind of batch scheme or several, if that has none in brackets.
        adjacency: One notion of neighbors or several; by default the only one that the mechanism has.
        holds_when: What must be ensured for the upper side.
        attained_when: What attains the lower side.
        source: The publications that prove it, by their keys.
        proof: The page with our own proof, if there is one.
        applies: Why it says nothing about some mechanisms of the right kind; see also `needs`.
        effort: Which pairs are worth their time, and where it is not asked at all.
        rests_on: The bounds that it takes as premises.
        converts: The question whose bounds it turns into its own.
        takes_steps: Whether it takes the pairs that it converts one by one.
        factors: In how many rounds its pairs fall if they are factors and no steps.
        degenerate: Whether it is about runs that use no record or add no noise, and no others.
        name: Another name, if one function is registered twice because a part of what it is about has
            another source.
        registered: False to register it in blocks of `temporarily` only.

    Returns:
        The decorator, which returns the function itself.

    Raises:
        InvalidArgument: If a theorem from outside sharpdp has a ``proof``, if another module has
            registered a bound of this name, if the name has no side, if neither ``of`` nor the first
            parameter says the kind of mechanism, or if no adjacency is stated for training runs, which
            have several.
    """

    def register(theorem: AnyTheorem) -> AnyTheorem:
        own_name = name or theorem.__name__
        sides = sides_of(own_name)
        if not sides:
            raise InvalidArgument(
                f"the name of a bound must end in _lower, _upper or _tight; got {own_name!r}."
            )
        about = kinds_of(theorem) if of is None else _listed(of)
        if batch_scheme:
            about = tuple(_over(kind, _listed(batch_scheme)) for kind in about)
        if proof and outside(theorem):
            hint = "It names a page of sharpdp: say in source where the proof is."
            raise invalid("proof", "left out for theorems from outside sharpdp", proof, hint)
        entry = Bound(
            own_name,
            about,
            sides,
            rigor_of(theorem, Rigor.UNREVIEWED if proof else Rigor.CERTIFIED),
            _only_notion(about) if adjacency is None else _listed(adjacency),
            holds_when if Side.UPPER in sides else "",
            attained_when if Side.LOWER in sides else "",
            source,
            proof,
            theorem,
            applies,
            effort,
            rests_on,
            converts,
            takes_steps,
            factors,
            degenerate,
        )
        if registered:
            register_once(_REGISTERED, entry, "bound")
        else:
            _SET_ASIDE.setdefault(theorem, {})[own_name] = entry
        append_to_docstring(theorem, (*entry.conditions, ("source", entry.grounds)))
        return theorem

    return register


def needs(holds: Condition, words: str) -> Reason:
    """A reason to say nothing about mechanisms for which a condition does not hold.

    Args:
        holds: The condition, of which nothing is computed but what parameters say.
        words: What it needs.

    Returns:
        What `Bound.applies` takes.

    >>> no_rounding = needs(lambda table: table.rounding == "exact", "exact losses")
    >>> from sharpdp.mechanisms import PrivacyLoss
    >>> no_rounding(PrivacyLoss(losses=[0.0], masses=[1.0], rounding="pessimistic"))
    'needs exact losses'
    """
    return lambda mechanism: None if holds(mechanism) else f"needs {words}"


@contextmanager
def temporarily(*theorems: object) -> Iterator[None]:
    """A block in which some theorems count, for this thread or asynchronous task.

    Answers that are asked for in the block rest on them for good, and say so; none outside it does.

    Args:
        *theorems: Functions that are decorated by ``bound(..., registered=False)``.

    Yields:
        Nothing.

    Raises:
        InvalidArgument: A theorem is not decorated so, or its name is that of another bound.

    >>> from sharpdp.mechanisms import Laplace
    >>> from sharpdp.pairs.finite import AtomicPair
    >>> @bound(
    ...     source="kairouz2015 Theorem 3.3", holds_when="the noise is pure DP", registered=False
    ... )
    ... def laplace_as_any_upper(mechanism: Laplace, adjacency: Adjacency):
    ...     return ((AtomicPair.pure(1.0 / mechanism.scale), 1),)
    >>> with temporarily(laplace_as_any_upper):
    ...     [one.name for one in bounds_for(Laplace(1.0))]
    ['laplace_tight', 'laplace_as_any_upper']
    >>> [one.name for one in bounds_for(Laplace(1.0))]
    ['laplace_tight']
    """
    added = dict(_TEMPORARY.get())
    for theorem in theorems:
        entries = next((kept for one, kept in _SET_ASIDE.items() if one is theorem), None)
        if not entries:
            hint = "Decorate a function with bound(..., registered=False)."
            raise invalid("theorems", "bounds that are not registered", theorem, hint)
        for name, entry in entries.items():
            if name in _REGISTERED or added.get(name, entry) is not entry:
                raise invalid("theorems", "bounds with names of their own", name)
            added[name] = entry
    token = _TEMPORARY.set(added)
    try:
        yield
    finally:
        _TEMPORARY.reset(token)


@contextmanager
def only_ours() -> Iterator[None]:
    """A block in which no theorem from outside sharpdp counts, for this thread or asynchronous task."""
    token = _ONLY_OURS.set(True)
    try:
        yield
    finally:
        _ONLY_OURS.reset(token)


def outside(theorem: Callable[..., object]) -> str:
    """The module of a theorem, if that is not in sharpdp."""
    module = theorem.__module__
    return "" if module.partition(".")[0] == "sharpdp" else module


def rigor_of(theorem: Callable[..., object], ours: Rigor) -> Rigor:
    """The rigor of a theorem: that of ours, or stated by others."""
    return Rigor.weakest([Rigor.STATED, ours]) if outside(theorem) else ours


def sides_of(name: str) -> tuple[Side, ...]:
    """The sides that the end of a name states; none if it states none.

    >>> [str(side) for side in sides_of("gaussian_tight")]
    ['lower', 'upper']
    """
    suffixes = {"lower": (Side.LOWER,), "upper": (Side.UPPER,), "tight": (Side.LOWER, Side.UPPER)}
    return suffixes.get(name.rpartition("_")[2], ())


def kinds_of(theorem: Callable[..., object]) -> tuple[Any, ...]:
    """The kinds of mechanism that the first parameter of a theorem is annotated with.

    >>> from sharpdp.batches import PoissonBatches
    >>> def never_upper(mechanism: DPSGD[PoissonBatches] | Sequence, adjacency: Adjacency): ...
    >>> len(kinds_of(never_upper)), kinds_of(never_upper)[1].__name__
    (2, 'Sequence')
    """
    annotations = inspect.get_annotations(theorem, eval_str=True)
    parameter = next(iter(inspect.signature(theorem).parameters))
    if parameter not in annotations:
        raise InvalidArgument(
            f"of must be stated where the first parameter of a theorem has no annotation; got "
            f"{theorem.__name__}({parameter}, ...). Try {parameter}: Gaussian."
        )
    return _alternatives(annotations[parameter])


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; anything else by itself."""
    is_union = get_origin(annotation) in (Union, UnionType)
    return get_args(annotation) if is_union else (annotation,)


def _by_class(about: tuple[Any, ...]) -> Kinds:
    """The classes, each with those in its brackets; of DP-SGD every theorem names the batches.

    >>> from sharpdp.batches import PoissonBatches
    >>> _by_class((Grouped[DPSGD[PoissonBatches]], DPSGD)) == {
    ...     Grouped: {DPSGD: {PoissonBatches: None}},
    ...     DPSGD: {},
    ... }
    True
    """
    inside: dict[type, tuple[Any, ...]] = {}
    for kind in about:
        parts = get_args(kind)
        name = get_origin(kind) or kind
        inside[name] = inside.get(name, ()) + (_alternatives(*parts) if parts else ())
    return {
        name: _by_class(parts) if parts or name is DPSGD else None for name, parts in inside.items()
    }


def _is_among(run: Any, kinds: Kinds) -> bool:
    """Whether a mechanism is of these very classes, and what it is run over, too."""
    if type(run) not in kinds:
        return False
    inner = kinds[type(run)]
    if inner is None:
        return True
    over = "mechanism" if isinstance(run, Grouped) else "batches"
    return _is_among(getattr(run, over, None), inner)


def _over(kind: Any, schemes: tuple[type[BatchScheme], ...]) -> Any:
    """DP-SGD over one of these batch schemes; any other kind as it is."""
    return kind[reduce(or_, schemes)] if kind is DPSGD else kind


def register_once(registered: dict[str, Entry], entry: Entry, kind: str) -> None:
    """Add a theorem to a registry, unless another module has one of the same name there."""
    module, earlier = entry.theorem.__module__, registered.get(entry.name)
    if earlier is not None and earlier.theorem.__module__ != module:
        raise InvalidArgument(
            f"a {kind} must have a name of its own; got a second {entry.name!r} in {module}. "
            f"The first is in {earlier.theorem.__module__}."
        )
    registered[entry.name] = entry


def append_to_docstring(theorem: object, paragraphs: Iterable[tuple[str, str]]) -> None:
    """Add titled paragraphs to a docstring: what a registration knows is not written twice.

    Nor is what two registrations of one theorem have in common.
    """
    text = inspect.cleandoc(theorem.__doc__ or "")
    for title, words in paragraphs:
        titled = f"\n\n{title.capitalize()}: {words}."
        text += titled if titled not in text else ""
    theorem.__doc__ = text


def _only_notion(about: tuple[Any, ...]) -> tuple[Adjacency, ...]:
    """The notion of neighbors that these kinds of mechanism have; a property is one of the instance."""
    kinds: list[type[Mechanism]] = [get_origin(kind) or kind for kind in about]
    stated: list[object] = [kind.adjacencies for kind in kinds]
    notions = {each if isinstance(each, tuple) else (Adjacency.NEIGHBORS,) for each in stated}
    if DPSGD in kinds or len(notions) > 1:
        names = " and ".join(kind.__name__ for kind in kinds)
        raise InvalidArgument(f"adjacency must be stated for bounds on {names}; got none.")
    return notions.pop()


def _listed(values: Any) -> tuple[Any, ...]:
    return values if isinstance(values, tuple) else (values,)


def all_bounds() -> tuple[Bound, ...]:
    """Every bound, in the order of registration.

    Returns:
        The registered bounds, whatever mechanism they are about.

    >>> from sharpdp.bounds import all_bounds
    >>> next(one.source for one in all_bounds() if one.name == "gaussian_tight")
    'dong2022 Theorem 2.7; balle2018 Theorem 8'
    """
    every = (*_REGISTERED.values(), *_TEMPORARY.get().values())
    return tuple(entry for entry in every if not (_ONLY_OURS.get() and entry.stated_by))


def reasons_against(mechanism: Mechanism, adjacency: Adjacency) -> dict[str, str]:
    """Why bounds on this kind of mechanism say nothing about this one, by their names.

    Args:
        mechanism: A mechanism that is not composed of others.
        adjacency: Which data sets are neighbors.

    Returns:
        The reasons that are known before a theorem is asked.

    >>> from sharpdp.batches import FixedSizeBatches
    >>> scheme = FixedSizeBatches(dataset_size=10, batch_size=5, steps=3)
    >>> run = DPSGD(scheme, noise_multiplier=2.0)
    >>> reasons_against(run, Adjacency.ZERO_OUT)["revealed_repeats_upper"]
    'needs draws with replacement'
    """
    objections = {
        entry.name: entry._objection(mechanism)
        for entry in all_bounds()
        if entry._is_about(mechanism) and entry.covers(adjacency)
    }
    return {name: reason for name, reason in objections.items() if reason is not None}


@underflow_is_zero
def bounds_for(
    mechanism: Mechanism,
    adjacency: Adjacency | str | None = None,
) -> tuple[Bound, ...]:
    """The bounds on one mechanism under one notion of neighbors, at least one.

    Args:
        mechanism: A mechanism that is not composed of others; for one that is, go through its
            ``parts()``.
        adjacency: Which data sets are neighbors; None for the default of the mechanism.

    Returns:
        The bounds that apply, but for those that yield to another one here. Some may still raise
        `Inapplicable` when they are asked.

    Raises:
        InvalidArgument: The mechanism is composed of others, or there is no such adjacency.
        Unsupported: No bound covers the mechanism under this adjacency; the message says what exists.

    >>> from sharpdp.bounds import bounds_for
    >>> from sharpdp.mechanisms import Gaussian
    >>> [one.name for one in bounds_for(Gaussian(1.0))]
    ['gaussian_tight']
    """
    if isinstance(mechanism, Repeated | Sequence) and mechanism.uses_records:
        raise InvalidArgument(
            "mechanism must not be composed of others; "
            f"got {mechanism.describe()}. Ask for each of its parts()."
        )
    notion = mechanism.adjacency(adjacency)
    about = [
        entry
        for entry in all_bounds()
        if _is_among(mechanism, entry.kinds) and entry.applies_to(mechanism)
    ]
    matching = {entry.name: entry for entry in about if entry.covers(notion)}
    if matching:
        return tuple(
            each
            for entry in matching.values()
            if matching.keys().isdisjoint(entry.effort.yields_to)
            for each in entry.converted(mechanism, notion)
        )
    if about:
        proved = dict.fromkeys(str(each) for entry in about for each in entry.adjacency)
        raise Unsupported(
            f"adjacency {notion} has no theorem for {mechanism.describe()}. "
            f"What exists: {' and '.join(proved)}."
        )
    usual = (entry for entry in all_bounds() if not entry.degenerate)
    subjects = ", ".join(sorted({entry.subject for entry in usual}))
    raise Unsupported(f"no bound covers {mechanism.describe()}. There are bounds on: {subjects}.")
