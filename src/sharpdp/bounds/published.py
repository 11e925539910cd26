"""Published formulas about a mechanism, by name, for comparison only.

A formula maps a mechanism and a delta to an epsilon, or a mechanism and an order to a Renyi
divergence. No answer of `account` rests on one: the bounds of `registry` are at least as sharp. Each
checks its own conditions and raises Inapplicable, with the reason, where it says nothing.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sharpdp.bounds.registry import (
    append_to_docstring,
    kinds_of,
    outside,
    register_once,
    rigor_of,
    sides_of,
)
from sharpdp.bracket import Rigor, Side
from sharpdp.errors import Inapplicable, InvalidArgument
from sharpdp.mechanisms.composed import Adjacency, Mechanism

__all__ = ["Formula", "all_formulas", "formula", "formulas_for"]

Theorem = Callable[..., float]
AnyTheorem = TypeVar("AnyTheorem", bound=Theorem)

QUANTITIES = {"delta": "epsilon", "order": "renyi"}
"""What a formula gives at a delta, and at an order."""

_REGISTERED: dict[str, "Formula"] = {}


@dataclass(frozen=True)
class Formula:
    """One published formula: what it bounds, its side, rigor, conditions and source.

    ``composes`` says whether the publication covers several rounds; one that does not is silent
    about them. A theorem with a parameter ``adjacency`` is told the neighbors.
    """

    name: str
    of: type[Mechanism]
    side: Side
    rigor: Rigor
    quantity: str
    holds_when: str
    source: str
    composes: bool
    theorem: Theorem

    @property
    def stated_by(self) -> str:
        """The module outside sharpdp that states it; empty for a formula of ours."""
        return outside(self.theorem)

    def __call__(
        self, mechanism: Mechanism, argument: float, adjacency: Adjacency | None = None
    ) -> float:
        """The value at a delta, or at an order; Inapplicable if the formula does not hold there."""
        if getattr(mechanism, "rounds", 1) > 1 and not self.composes:
            raise Inapplicable("it covers one round only")
        if "adjacency" in inspect.signature(self.theorem).parameters:
            return self.theorem(mechanism, argument, mechanism.adjacency(adjacency))
        return self.theorem(mechanism, argument)


def formula(
    *, holds_when: str = "always", source: str, composes: bool = False, side: Side = Side.UPPER
) -> Callable[[AnyTheorem], AnyTheorem]:
    """A decorator that registers a formula under the name of its function.

    A name that ends in `_lower` or `_upper` is that of a bound, any other one that of an estimate. The
    second parameter says what the formula gives: epsilon for a `delta`, the Renyi divergence for an
    `order`. The first one is annotated with the kind of mechanism. Conditions and source are appended to
    the docstring.

    Args:
        holds_when: Its conditions.
        source: Where it is printed, by the keys of the publications.
        composes: Whether the publication covers several rounds.
        side: On which side an estimate is meant to be.

    Returns:
        The decorator, which returns the function itself.

    Raises:
        InvalidArgument: If another module has registered a formula of this name, if the first parameter
            has no annotation, or if the second one is neither `delta` nor `order`.
    """

    def register(theorem: AnyTheorem) -> AnyTheorem:
        name, sides = theorem.__name__, sides_of(theorem.__name__)
        parameter = list(inspect.signature(theorem).parameters)[1]
        if parameter not in QUANTITIES:
            raise InvalidArgument(
                f"the second parameter of a formula must be {' or '.join(QUANTITIES)}; got {parameter!r}."
            )
        entry = Formula(
            name,
            kinds_of(theorem)[0],
            sides[0] if sides else side,
            rigor_of(theorem, Rigor.CERTIFIED if sides else Rigor.APPROXIMATE),
            QUANTITIES[parameter],
            holds_when,
            source,
            composes,
            theorem,
        )
        register_once(_REGISTERED, entry, "formula")
        append_to_docstring(theorem, (("holds when", holds_when), ("source", source)))
        return theorem

    return register


def all_formulas() -> tuple[Formula, ...]:
    """Every formula, in the order of registration."""
    return tuple(_REGISTERED.values())


def formulas_for(mechanism: Mechanism, quantity: str) -> tuple[Formula, ...]:
    """The formulas that give this quantity for this kind of mechanism; none for most kinds.

    >>> from sharpdp.mechanisms import Laplace
    >>> formulas_for(Laplace(1.0), "epsilon")
    ()
    """
    if mechanism.degenerate:  # formulas divide by the noise, and by the number of rounds
        return ()
    return tuple(
        entry
        for entry in all_formulas()
        if type(mechanism) is entry.of and entry.quantity == quantity
    )
