"""Bounds on mixtures: exact where the laws are known point by point, else by releasing the index."""

from functools import lru_cache, partial

from sharpdp.bounds.registry import Bound, PairCounts, bounds_for
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.composition.composition import Composition
from sharpdp.errors import Unsupported
from sharpdp.mechanisms import Adjacency, Mechanism, Mixture
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.finite_exact import rational_pair
from sharpdp.pairs.pair import Pair
from sharpdp.pairs.released_index import released

__all__ = ["mixture_tight", "released_index_lower", "released_index_upper"]


bound = partial(register, of=Mixture, source="wang2023 Lemma 3.1")


@bound(
    holds_when="the pmfs are those of the components on the two inputs in question, and the index "
    "is drawn afresh in each round",
    attained_when="the two inputs in question occur, in every round",
    source="blackwell1953; wang2023 Lemma 3.1",
    applies=lambda mechanism: mechanism.finite,
)
def mixture_tight(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Both sides of a mixture of pmfs: the law of what is seen.

        hidden:    P(x) = sum of w_i P_i(x)     released:    P(i, x) = w_i P_i(x)

    and Q with the weights of the other data set.

    If the index is released, the upper side also holds if the components' pmfs dominate the true ones.

    Numerics: masses are added as exact fractions and rounded once, ties of ratios are exact.

    >>> from sharpdp.mechanisms import FinitePair
    >>> coin = FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
    >>> back = FinitePair(p=[0.25, 0.75], q=[0.75, 0.25])
    >>> even = Mixture(components=[coin, back], weights=[0.5, 0.5])
    >>> mixture_tight(even, Adjacency.NEIGHBORS)[0][0].losses  # nothing can be told
    (0.0,)
    """
    return ((_law_pair(mechanism), 1),)


@lru_cache(maxsize=32)
def _law_pair(mechanism: Mixture) -> AtomicPair:
    return rational_pair(*mechanism.laws())


def _is_located(mechanism: Mixture) -> bool:
    """Whether it is enclosed on the line (`bounds.mixture.normal_theorems`)."""
    return mechanism.normal and mechanism.index == "hidden"


def _usable(part: Mechanism, adjacency: Adjacency, side: Side) -> Bound | None:
    """The first proved bound on one part of a component."""
    for one in bounds_for(part, adjacency):
        if side in one.sides and one.rigor.proved:
            return one
    return None


def _component_bounds(mechanism: Mixture, adjacency: Adjacency, side: Side) -> tuple[Bound, ...]:
    """The bounds on the components, which a bound on the whole takes as premises."""
    chosen = [
        (_usable(part, adjacency, side), part)
        for component in mechanism.components
        for part, _ in component.parts()
    ]
    every = [
        one
        for bound, part in chosen
        if bound is not None
        for one in bound.premises(part, adjacency, side)
    ]
    return tuple(dict.fromkeys(every))


@bound(
    holds_when="the index is drawn whatever the data are, and each component within its own bound",
    applies=lambda mechanism: not (mechanism.finite or _is_located(mechanism)),
    rests_on=_component_bounds,
)
def released_index_upper(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Upper side of any mixture: the index and the result of the component that was drawn.

        H_x = sum of w_i H_x(P_i || Q_i)

    Exact if the index is released. If it is hidden, telling it can only help an attacker.

    Each component needs one pair that dominates it.

    Numerics: weights are the given doubles; see `pairs.released_index`.

    >>> from sharpdp.mechanisms import Gaussian
    >>> two = Mixture(components=[Gaussian(1.0), Gaussian(2.0)], weights=[0.25, 0.75])
    >>> released_index_upper(two, Adjacency.NEIGHBORS)[0][0].shifts
    (0.5, 1.0)
    """
    pairs = []
    for one in mechanism.components:
        pair = _only_pair(one, adjacency, Side.UPPER)
        if pair is None:
            raise Unsupported(
                "components must each be known by one pair of distributions; "
                f"got {one.describe()}. Most compositions are not, and a Renyi curve is not."
            )
        pairs.append(pair)
    return ((released(pairs, mechanism.weights), 1),)


def _has_lower(mechanism: Mixture) -> bool:
    """Whether the index is told, or tells nothing, and every component has a pair that it attains."""
    drawn = {one for one, w in zip(mechanism.components, mechanism.weights, strict=True) if w > 0.0}
    if mechanism.finite or _is_located(mechanism):
        return False
    if mechanism.index == "hidden" and len(drawn) > 1:
        return False
    notion = mechanism.adjacency()
    return all(_only_pair(one, notion, Side.LOWER) is not None for one in mechanism.components)


@bound(
    attained_when="the index is released, or tells nothing; one pair of data sets attains all components",
    applies=_has_lower,
    rests_on=_component_bounds,
)
def released_index_lower(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Lower side of a mixture whose index is released: what the components attain, with their weights.

    If all components that can be drawn are the same, the index tells nothing and may be hidden.

    Numerics: weights are the given doubles; see `pairs.released_index`.

    >>> from sharpdp.mechanisms import Gaussian
    >>> two = Mixture(components=[Gaussian(1.0)] * 2, weights=[0.25, 0.75], index="released")
    >>> released_index_lower(two, Adjacency.NEIGHBORS)
    ((GaussianPair(mu=1.0), 1),)
    """
    pairs = [_only_pair(one, adjacency, Side.LOWER) for one in mechanism.components]
    known = [pair for pair in pairs if pair is not None]
    return ((released(known, mechanism.weights), 1),)


def _only_pair(component: Mechanism, adjacency: Adjacency, side: Side) -> Pair | None:
    """One pair that bounds a whole component on this side; None if there is none.

    Repeated Gaussian noise is one pair, and so are repetitions with few different results.
    """
    steps: list[tuple[Pair, int]] = []
    for part, times in component.parts():
        usable = _usable(part, adjacency, side)
        pieces = usable(part, adjacency) if usable else ()
        if not pieces:
            return None
        steps += [(pair, count * times) for pair, count in pieces]
    return Composition(tuple(steps)).single
