"""One of several mechanisms, drawn at random: its index is released beside the result, or hidden."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sharpdp._validate import has_entries, is_among, pmf, short_repr
from sharpdp.bracket import Rigor
from sharpdp.errors import InvalidArgument, Unsupported, WrongType
from sharpdp.mechanisms.composed import MOST_DESCRIBED, Adjacency, Mechanism, common, drawn_by
from sharpdp.mechanisms.elementary import FinitePair
from sharpdp.mechanisms.normal import NormalPair

__all__ = ["Law", "Mixture"]

Law = tuple[Fraction, ...]
"""The probabilities of finitely many outcomes, with sum one."""

INDICES = ("hidden", "released")
"""What becomes of the index of the component that was run."""

HINT = "Give one weight per component, such as [0.25, 0.75]."


@dataclass(frozen=True, kw_only=True)
class Mixture(Mechanism):
    """One of ``components``, drawn with probabilities ``weights`` and run once.

        P = sum of weights[i] P_i   against   Q = sum of other_weights[i] Q_i

    The index i is drawn whatever the data are unless ``other_weights`` are given. Components with
    finitely many outcomes are FinitePairs; if the index is hidden, their outcomes are the same points in
    the same order. Normal distributions are NormalPairs.

    Args:
        components: the mechanisms, at least one.
        weights: the probability of each component, at least 0 each, with sum 1 up to 1e-9.
        index: "hidden" (default) if only the result is seen, "released" if the result and i are.
        other_weights: the weights on the data set without the record; None (default) if they are the
            same. For FinitePairs, or NormalPairs with a hidden index.

    Raises:
        InvalidArgument: there are no components, weights are not a pmf with one entry per component,
            ``index`` is neither of the two words, or it is hidden and the FinitePairs have different
            numbers of outcomes.
        WrongType: ``components`` is not a list of mechanisms, or weights are not a list of numbers.
        Unsupported: the components share no notion of neighboring data sets, or no theorem covers
            ``other_weights`` for them.

    >>> coin, still = (
    ...     FinitePair(p=[0.75, 0.25], q=[0.25, 0.75]),
    ...     FinitePair(p=[0.5, 0.5], q=[0.5, 0.5]),
    ... )
    >>> mixed = Mixture(components=[coin, still], weights=[0.5, 0.5])
    >>> mixed.describe()
    'mixture of 2 mechanisms (index hidden): 0.5 pair of pmfs on 2 points, 0.5 pair of pmfs on 2 points'
    >>> [float(mass) for mass in mixed.laws()[0]]
    [0.625, 0.375]
    """

    components: tuple[Mechanism, ...]
    weights: tuple[float, ...]
    index: str = "hidden"
    other_weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        """Check components, weights and index, and that they go together."""
        object.__setattr__(self, "components", _components(self.components))
        if not is_among(INDICES, self.index):
            allowed = " or ".join(repr(word) for word in INDICES)
            raise InvalidArgument(f"index must be {allowed}; got {short_repr(self.index)}.")
        object.__setattr__(self, "weights", self._checked(weights=self.weights))
        if self.other_weights is not None:
            other = self._checked(other_weights=self.other_weights)
            object.__setattr__(self, "other_weights", None if other == self.weights else other)
        self._check_spaces()
        if not common(component.adjacencies for component in self.components):
            raise Unsupported(
                "components must share a notion of neighboring data sets; got: "
                + "; ".join(
                    f"{component.label} has {', '.join(map(str, component.adjacencies))}"
                    for component in self.components
                )
            )

    @property
    def label(self) -> str:
        """The mechanism in two words."""
        return f"{self.index} mixture"

    @property
    def holds_when(self) -> tuple[str, ...]:
        """The conditions of its components."""
        every = (condition for each in self.components for condition in each.holds_when)
        return tuple(dict.fromkeys(every))

    @property
    def _draws(self) -> tuple[str, ...]:
        return drawn_by(tuple(part for each in self.components for part in each.parts()))

    @property
    def adjacencies(self) -> tuple[Adjacency, ...]:
        """Adjacencies that all components share."""
        return common(component.adjacencies for component in self.components)

    @property
    def _group_adjacencies(self) -> tuple[Adjacency, ...]:
        """The notions that all components share and for which groups are accounted."""
        parts = (part for component in self.components for part, _ in component.parts())
        return common(part._group_adjacencies for part in parts)

    @property
    def premise(self) -> Rigor:
        """The weakest of the components' own."""
        return Rigor.weakest(
            part.premise for component in self.components for part, _ in component.parts()
        )

    @property
    def finite(self) -> bool:
        """Whether the distribution of the result is known point by point."""
        return all(map(_is_finite, self.components))

    @property
    def normal(self) -> bool:
        """Whether all components are normal distributions whose places on the line are known."""
        return all(isinstance(component, NormalPair) for component in self.components)

    def describe(self) -> str:
        """The mechanism in one line."""
        count, named = len(self.components), self.components[:MOST_DESCRIBED]
        shares = [
            f"{weight:.6g} {component.describe()}"
            for weight, component in zip(self.weights, named, strict=False)
        ]
        if count > MOST_DESCRIBED:
            shares.append(f"{count - MOST_DESCRIBED:,} more")
        elsewhere = "" if self.other_weights is None else ", other weights without the record"
        title = f"mixture of {count:,} mechanism{'s' if count > 1 else ''}"
        return f"{title} (index {self.index}{elsewhere}): {', '.join(shares)}"

    def laws(self) -> tuple[Law, Law]:
        """The distributions (P, Q) of what is seen with and without the record, exactly.

        Weights and masses are the given doubles; a largest one takes what a sum misses of one.

        Returns:
            The probability of each outcome under P and under Q; with a released index, the outcomes of
            each component in turn.

        Raises:
            Unsupported: some component is not a FinitePair or a mixture of them.
        """
        if not self.finite:
            raise Unsupported(
                "the distribution of a mixture is known point by point only if its components are "
                f"FinitePairs; got {self.describe()}."
            )
        here, there = self.exact_weights()
        return self._law(0, here), self._law(1, there)

    def exact_weights(self) -> tuple[Law, Law]:
        """The weights with and without the record, exactly."""
        other = self.weights if self.other_weights is None else self.other_weights
        return settled(self.weights), settled(other)

    def component_laws(self) -> tuple[tuple[Law, Law], ...]:
        """The distributions (P_i, Q_i) of each component, exactly."""
        return tuple(_laws(component) for component in self.components)

    def _law(self, side: int, shares: Law) -> Law:
        parts = [laws[side] for laws in self.component_laws()]
        scaled = [[share * mass for mass in law] for share, law in zip(shares, parts, strict=True)]
        if self.index == "released":
            return tuple(mass for law in scaled for mass in law)
        return tuple(sum(masses, Fraction(0)) for masses in zip(*scaled, strict=True))

    def _checked(self, **argument: object) -> tuple[float, ...]:
        ((name, _),) = argument.items()
        weights = pmf(hint=HINT, **argument)
        if len(weights) != len(self.components):
            raise InvalidArgument(
                f"{name} must have one entry per component; got {len(weights)} for "
                f"{len(self.components)} components. {HINT}"
            )
        return weights

    def _check_spaces(self) -> None:
        """Refuse what has no meaning: points that differ, or weights that differ unsupported."""
        if not self.finite:
            located = self.normal and self.index == "hidden"
            if self.other_weights is not None and not located:
                raise Unsupported(
                    "other_weights are supported if all components are FinitePairs, or NormalPairs "
                    f"with a hidden index; got {self.describe()}."
                )
            return
        sizes = [_points(component) for component in self.components]
        if self.index == "hidden" and len(set(sizes)) > 1:
            raise InvalidArgument(
                "components must have the same outcomes if the index is hidden; got pmfs on "
                f"{', '.join(map(str, sizes))} points. Give an outcome that a component never takes "
                "the probability 0."
            )


def settled(masses: tuple[float, ...]) -> Law:
    """The masses exactly, the largest one changed by what their sum misses of one.

    Doubles are multiples of a power of two, and stay short fractions that way; dividing by the sum
    would not change them by less.

    >>> settled((0.5, 0.5))
    (Fraction(1, 2), Fraction(1, 2))
    >>> sum(settled((0.1,) * 10))
    Fraction(1, 1)
    """
    exact = [Fraction(mass) for mass in masses]
    largest = max(range(len(exact)), key=exact.__getitem__)
    exact[largest] += 1 - sum(exact)
    return tuple(exact)


def _is_finite(component: Mechanism) -> bool:
    return isinstance(component, FinitePair) or (
        isinstance(component, Mixture) and component.finite
    )


def _points(component: Mechanism) -> int:
    """Number of outcomes of a component."""
    if isinstance(component, Mixture):
        sizes = [_points(part) for part in component.components]
        return sum(sizes) if component.index == "released" else sizes[0]
    return len(component.p) if isinstance(component, FinitePair) else 0


def _laws(component: Mechanism) -> tuple[Law, Law]:
    if isinstance(component, Mixture):
        return component.laws()
    if isinstance(component, FinitePair):
        return settled(component.p), settled(component.q)
    raise Unsupported(f"the distribution of {component.describe()} is not known point by point.")


def _components(components: object) -> tuple[Mechanism, ...]:
    hint = "Give a list of mechanisms, such as [FinitePair(...), FinitePair(...)]."
    if isinstance(components, Mechanism) or not has_entries(components):
        raise WrongType(
            f"components must be a list of mechanisms; got {short_repr(components)}. {hint}"
        )
    listed = tuple(components)
    for index, component in enumerate(listed):
        if not isinstance(component, Mechanism):
            raise WrongType(
                f"components[{index}] must be a mechanism; got {short_repr(component)}. {hint}"
            )
    if not listed:
        raise InvalidArgument(f"components must be at least one mechanism; got none. {hint}")
    return listed
