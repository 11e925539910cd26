"""Published formulas about a mechanism, by name, for comparison only.

A formula maps a mechanism and a delta to an epsilon, or a mechanism and an order to a Renyi
divergence. No answer of `account` rests on one: the bounds of `registry` are at least as sharp. Each
checks its own conditions and raises Inapplicable, with the reason, where it says nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from sharpdp.bracket import Rigor, Side
from sharpdp.errors import Inapplicable, InvalidArgument
from sharpdp.mechanisms import Mechanism

__all__ = ["Formula", "all_formulas", "formula", "formulas_for"]

Theorem = Callable[[Any, float], float]
AnyTheorem = TypeVar("AnyTheorem", bound=Theorem)

QUANTITIES = ("epsilon", "renyi")
"""What a formula gives: epsilon at a delta, or the Renyi divergence at an order."""

_REGISTERED: dict[str, "Formula"] = {}


@dataclass(frozen=True)
class Formula:
    """One published formula: about what, on which side, how firmly, when, and where it is printed.

    ``composes`` says whether the publication covers several rounds; one that does not is silent
    about them.
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

    def __call__(self, mechanism: Mechanism, at: float) -> float:
        """The value at a delta, or at an order; Inapplicable if the formula does not hold there."""
        if getattr(mechanism, "rounds", 1) > 1 and not self.composes:
            raise Inapplicable("it covers one round only")
        return self.theorem(mechanism, at)


def formula(
    *,
    of: type[Mechanism],
    side: Side,
    rigor: Rigor,
    quantity: str,
    holds_when: str,
    source: str,
    composes: bool = False,
) -> Callable[[AnyTheorem], AnyTheorem]:
    """A decorator that registers a formula under the name of its function."""
    if quantity not in QUANTITIES:
        raise InvalidArgument(f"quantity must be {' or '.join(QUANTITIES)}; got {quantity!r}.")

    def register(theorem: AnyTheorem) -> AnyTheorem:
        name = theorem.__name__
        known = _REGISTERED.get(name)
        if known is not None and known.theorem.__module__ != theorem.__module__:
            raise InvalidArgument(
                f"a formula must have a name of its own; got a second {name!r} "
                f"in {theorem.__module__}. The first is in {known.theorem.__module__}."
            )
        _REGISTERED[name] = Formula(
            name, of, side, rigor, quantity, holds_when, source, composes, theorem
        )
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
    return tuple(
        one for one in all_formulas() if type(mechanism) is one.of and one.quantity == quantity
    )
