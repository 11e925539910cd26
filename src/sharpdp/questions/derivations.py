"""Derivations: which bounds apply to the parts of a mechanism, and the experiments that they lead to.

A derivation takes one proved bound for each part and composes the pairs that these give. There may be
several for each side; their pairs are made when they are first asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, overload

from sharpdp.bounds import Bound, bounds_for
from sharpdp.bounds.registry import PairCounts
from sharpdp.bracket import Rigor, Side
from sharpdp.curves.renyi import RenyiCurve
from sharpdp.curves.renyi.sequence import WithCurves
from sharpdp.display.progress import progress
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import Adjacency, Mechanism
from sharpdp.mechanisms.composed import Parts, in_groups
from sharpdp.numerics.special import Array
from sharpdp.pairs.pair import STANDARD_WIDTH, Pair, seems_above
from sharpdp.profile.composition import Composition
from sharpdp.profile.many_questions import AsksEpsilon, Ends

__all__ = ["Composable", "Derivation", "Derivations", "bounds_on"]

MOST_COMBINATIONS = 32
"""So many combinations of bounds on the parts of a mechanism are looked at."""

Interval = tuple[float, float]
Known = dict[tuple[int, Bound], PairCounts | str]
"""The pairs of bounds on parts, by the places of the parts; or why there are none."""


class Composable(AsksEpsilon, Protocol):
    """What a derivation can be asked: certified lower and upper ends in one direction, P against Q.

    `Composition` answers from pairs, `WithCurves` also from Renyi divergences. The second argument of a
    question is the relative width to aim at.
    """

    @property
    def symmetric(self) -> bool:
        """Whether both directions have the same answers."""

    @property
    def repeated_pair(self) -> tuple[Pair, int] | None:
        """The pair and its count if one pair is all that is run, more than once; None otherwise."""

    def reverse(self) -> Composable:
        """The other direction."""

    def fresh(self) -> Composable:
        """The same without the work that earlier questions left."""

    def final_log_deltas(self, epsilons: Array, width: float, /) -> Ends:
        """The logarithms of the smallest deltas at epsilons >= 0, each an answer by itself."""

    def false_negative_rates(self, fprs: Array, width: float, /) -> Ends:
        """The smallest false-negative rates at false-positive rates."""

    def true_positive_rates(self, fprs: Array, width: float, /) -> Ends:
        """The largest true-positive rates at false-positive rates."""

    def renyi_divergences(self, orders: Array, width: float, /) -> Ends:
        """The Renyi divergences of orders > 1."""

    def mu(self, smallest_fpr: float, width: float, /) -> Interval:
        """The mu of Gaussian noise that is no more private where both error rates are this large."""


@dataclass(frozen=True)
class Derivation:
    """One way to bound a mechanism on one side: a bound for each part, and the pairs they give."""

    bounds: tuple[Bound, ...]
    composition: Composable
    premise: Rigor = Rigor.CERTIFIED
    aims: tuple[object, ...] = ()
    """For each part its pairs, or "exact" if they approach the exact ones: equal aims meet."""

    @property
    def rigor(self) -> Rigor:
        """The weakest rigor among its bounds and its premise."""
        return Rigor.weakest([self.premise, *(bound.rigor for bound in self.bounds)])

    def reveals_more(self, other: Derivation, negligible: float = 0.0) -> bool:
        """Whether both repeat one pair equally often, and this one's seems to reveal more anywhere.

        A pair that is run once is quickly asked, so that it is left to the answers.
        """
        first, second = self.composition.repeated_pair, other.composition.repeated_pair
        if first is None or second is None or first[1] != second[1]:
            return False
        return seems_above(first[0], second[0], negligible)


class Derivations(Sequence[Derivation]):
    """Combinations of proved bounds on the parts, at most 32; none if a part has none on this side.

    Which bounds there are is found out at once, and their pairs, which may take seconds, when one of the
    derivations is first asked for. It is equal to a tuple of the same derivations.

    Args:
        mechanism: What is run on the data.
        adjacency: Which data sets are neighbors.
        side: The side that is bounded.
        width: About as far as pairs may be from the exact ones, in epsilon.
        group_size: In how many records neighbors differ at most.
        bounds: What `bounds_on` says about the mechanism, if that is known already.
        without: Combinations that are left out, by the names of their bounds.

    Raises:
        Unsupported: No theorem covers a part of the mechanism under this adjacency.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        adjacency: Adjacency,
        side: Side,
        *,
        width: float = STANDARD_WIDTH,
        group_size: int = 1,
        bounds: Sequence[Sequence[Bound]] | None = None,
        without: Collection[tuple[str, ...]] = (),
    ) -> None:
        self._mechanism, self._adjacency, self._side = mechanism, adjacency, side
        self._width, self._group_size = width, group_size
        if bounds is None:
            bounds = bounds_on(mechanism, adjacency, group_size)
        choices = [[b for b in part if side in b.sides and b.rigor.proved] for part in bounds]
        self._choices, self._without = choices, frozenset(without)

    @property
    def _recipe(self) -> tuple[object, ...]:
        return (
            self._mechanism,
            self._adjacency,
            self._side,
            self._width,
            self._group_size,
            self._without,
        )

    @property
    def names(self) -> tuple[tuple[str, ...], ...]:
        """For each of them the names of its bounds, one for each part."""
        return tuple(self._made[0])

    @property
    def declined(self) -> dict[str, str]:
        """Why bounds gave no pairs when they were asked, by their names."""
        return self._made[1]

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy or a pickle makes them anew: theorems are functions of a module, and no data."""
        return _derived, self._recipe

    def __len__(self) -> int:
        """How many there are."""
        return len(self._every)

    @overload
    def __getitem__(self, index: int) -> Derivation: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Derivation, ...]: ...

    def __getitem__(self, index: int | slice) -> Derivation | tuple[Derivation, ...]:
        """One of them, or some."""
        return self._every[index]

    def __eq__(self, other: object) -> bool:
        """Whether they are those of the other one; what is asked alike is not made for that."""
        if isinstance(other, Derivations):
            return self._recipe == other._recipe or self._every == other._every
        return self._every == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        """That of the tuple, to which they are equal."""
        return hash(self._every)

    def __repr__(self) -> str:
        """That of the tuple."""
        return repr(self._every)

    def refined(self, width: float) -> Derivations:
        """Combinations of the same bounds, with pairs of another width.

        Args:
            width: About as far as pairs may be from the exact ones, in epsilon.
        """
        other = object.__new__(Derivations)  # a copy would look for bounds anew
        kept = {name: value for name, value in vars(self).items() if name != "_made"}
        vars(other).update(kept, _width=width)
        return other

    def make(self) -> None:
        """Make them now, so that what is wrong is said now."""
        assert self._made is not None

    @property
    def _every(self) -> tuple[Derivation, ...]:
        return tuple(self._made[0].values())

    @cached_property
    def _made(self) -> tuple[dict[tuple[str, ...], Derivation], dict[str, str]]:
        """All of them by their names, and why some bounds declined.

        Two threads that ask at once may both make them, alike.
        """
        parts = in_groups(self._mechanism.parts(), self._group_size)
        known: Known = {}
        with progress(f"computing bounds on {self._mechanism.label}"):
            while True:
                every = self._combined(known)
                asked = (place for each in every.values() for place in enumerate(each))
                new = [place for place in dict.fromkeys(asked) if place not in known]
                if not new:
                    break
                for index, bound in new:
                    known[index, bound] = self._asked(parts[index][0], bound)
            made = {
                names: self._derivation(parts, combination, known)
                for names, combination in every.items()
            }
        reasons = {
            _full_name(bound): why for (_, bound), why in known.items() if isinstance(why, str)
        }
        return made, reasons

    def _combined(self, known: Known) -> dict[tuple[str, ...], tuple[Bound, ...]]:
        """Combinations of bounds on the parts by their names, without those that declined."""
        choices = (
            [bound for bound in part if not isinstance(known.get((index, bound)), str)]
            for index, part in enumerate(self._choices)
        )
        every = itertools.islice(itertools.product(*choices), MOST_COMBINATIONS)
        return {
            names: combination
            for combination in every
            if (names := tuple(map(_full_name, combination))) not in self._without
        }

    def _asked(self, part: Mechanism, bound: Bound) -> PairCounts | str:
        """The pairs of a bound on a part, or why it has none."""
        try:
            return bound(part, self._adjacency, width=self._width)
        except Inapplicable as why:
            return str(why).rstrip(".")

    def _derivation(self, parts: Parts, combination: tuple[Bound, ...], known: Known) -> Derivation:
        """The derivation by one bound for each part."""
        steps: list[tuple[Pair, int]] = []
        aims: list[object] = []
        grounds: dict[Bound, None] = {}
        for index, (bound, (part, times)) in enumerate(zip(combination, parts, strict=True)):
            pairs = known[index, bound]
            assert not isinstance(pairs, str)
            steps += [(pair, count * times) for pair, count in pairs]
            aims.append("exact" if bound.effort.approaches(part) else pairs)
            grounds.update(dict.fromkeys(bound.premises(part, self._adjacency, self._side)))
        run = Composition(tuple(steps))
        curves = tuple((part, times) for part, times in parts if isinstance(part, RenyiCurve))
        composable = WithCurves(curves, run) if curves or run.has_known_moments else run
        premise = Rigor.weakest(
            [
                *(part.premise for part, _ in parts),
                *([composable.rigor] if isinstance(composable, WithCurves) else []),
            ]
        )
        return Derivation(tuple(grounds), composable, premise, tuple(aims))


def bounds_on(
    mechanism: Mechanism,
    adjacency: Adjacency,
    group_size: int,
) -> tuple[tuple[Bound, ...], ...]:
    """The bounds on each part of a mechanism, as groups of records see it."""
    return tuple(
        bounds_for(part, adjacency) for part, _ in in_groups(mechanism.parts(), group_size)
    )


def _full_name(bound: Bound) -> str:
    """The name of a bound, and of those that it converts."""
    return bound.name if bound.base is None else f"{bound.name} of {_full_name(bound.base)}"


def _derived(
    mechanism: Mechanism,
    adjacency: Adjacency,
    side: Side,
    width: float,
    group_size: int,
    without: frozenset[tuple[str, ...]],
) -> Derivations:
    return Derivations(
        mechanism, adjacency, side, width=width, group_size=group_size, without=without
    )
