"""Bounds on mixtures: exact where the laws are known, else by releasing the index.

Laws are known point by point, or are normal laws somewhere on the line.
"""

from functools import lru_cache, partial

from sharpdp.bounds.registry import Bound, Effort, PairCounts, bounds_for, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.errors import Inapplicable, Unsupported
from sharpdp.mechanisms import Adjacency, Mechanism, Mixture, NormalPair
from sharpdp.pairs.finite import AtomicPair, rational_pair
from sharpdp.pairs.line_densities import (
    LONGEST,
    NormalMixture,
    length,
    normal_mixture_pair,
)
from sharpdp.pairs.pair import GaussianPair, Pair
from sharpdp.pairs.released_index import released
from sharpdp.profile.composition import Composition

__all__ = [
    "hidden_normals_lower",
    "hidden_normals_upper",
    "mixture_tight",
    "normal_pair_lower",
    "normal_pair_tight",
    "normal_pair_upper",
    "released_index_lower",
    "released_index_upper",
]

DOMINATING = "on any two neighbors, or dominate them"
RESULT = f"these are the distributions of the result {DOMINATING}"
HIDDEN = f"these are the normal distributions of the components {DOMINATING}"

bound = partial(register, source="wang2023 Lemma 3.1")
normal_bound = partial(
    register,
    holds_when=RESULT,
    attained_when="two neighbors have these distributions of the result",
    source="blackwell1953",
)


@bound(
    holds_when=f"the pmfs are those of the components {DOMINATING}; the index is drawn afresh in each "
    "round",
    attained_when="the two inputs in question occur, in every round",
    source="blackwell1953; wang2023 Lemma 3.1",
    applies=needs(lambda mechanism: mechanism.finite, "components that are pmfs"),
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


def _hidden_normals(mechanism: Mixture) -> bool:
    """True if normal laws are mixed with a hidden index, and so are enclosed on the line."""
    return mechanism.normal and mechanism.index == "hidden"


NORMALS = needs(_hidden_normals, "normal laws and a hidden index")


def _usable(part: Mechanism, adjacency: Adjacency, side: Side) -> Bound | None:
    """The first proved bound on one part of a component."""
    candidates = bounds_for(part, adjacency)
    return next((entry for entry in candidates if side in entry.sides and entry.rigor.proved), None)


def _component_bounds(mechanism: Mixture, adjacency: Adjacency, side: Side) -> tuple[Bound, ...]:
    """The bounds on the components, which a bound on the whole takes as premises."""
    every = [
        premise
        for component in mechanism.components
        for part, _ in component.parts()
        for chosen in [_usable(part, adjacency, side)]
        if chosen is not None
        for premise in chosen.premises(part, adjacency, side)
    ]
    return tuple(dict.fromkeys(every))


_in_parts = needs(
    lambda mechanism: not (mechanism.finite or _hidden_normals(mechanism)),
    "components other than pmfs, or normal laws of a hidden index",
)
released_bound = partial(bound, rests_on=_component_bounds)


@released_bound(
    holds_when="the index is drawn whatever the data are, and each component within its own bound",
    applies=_in_parts,
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
    for component in mechanism.components:
        pair = _only_pair(component, adjacency, Side.UPPER)
        if pair is None:
            raise Unsupported(
                "components must each be known by one pair of distributions; "
                f"got {component.describe()}. Most compositions are not, and a Renyi curve is not."
            )
        pairs.append(pair)
    return ((released(pairs, mechanism.weights), 1),)


def _tells_no_more(mechanism: Mixture) -> str | None:
    """A reason unless the index is told, or tells nothing."""
    weighted = zip(mechanism.components, mechanism.weights, strict=True)
    drawn = {component for component, weight in weighted if weight > 0.0}
    if mechanism.index == "hidden" and len(drawn) > 1:
        return "needs an index that is told, or tells nothing"
    return _in_parts(mechanism)


@released_bound(
    attained_when="the index is released, or tells nothing; one pair of data sets attains all components",
    applies=_tells_no_more,
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
    candidates = (_only_pair(part, adjacency, Side.LOWER) for part in mechanism.components)
    pairs = [pair for pair in candidates if pair is not None]
    if len(pairs) < len(mechanism.components):
        raise Inapplicable("some component attains no pair")
    return ((released(pairs, mechanism.weights), 1),)


def _only_pair(component: Mechanism, adjacency: Adjacency, side: Side) -> Pair | None:
    """One pair that bounds a whole component on this side; None if there is none.

    Repeated Gaussian noise is one pair, and so are repetitions with few different results.
    """
    steps: list[tuple[Pair, int]] = []
    for part, times in component.parts():
        usable = _usable(part, adjacency, side)
        pieces = usable(part, adjacency) if usable else ()
        if not pieces and part.uses_records:  # a Renyi curve has no pair
            return None
        steps += [(pair, count * times) for pair, count in pieces]
    return Composition(tuple(steps)).single_pair


@normal_bound(
    attained_when="these two inputs occur, in every round",
    source="dong2022 Theorem 2.7; balle2018 Theorem 8",
    applies=needs(
        lambda mechanism: mechanism.deviation == mechanism.other_deviation, "equal deviations"
    ),
)
def normal_pair_tight(mechanism: NormalPair, adjacency: Adjacency) -> PairCounts:
    """Both sides of two normal laws of one deviation: N(mu, 1) against N(0, 1).

    mu is the distance of the means in deviations.

    Numerics: mu is rounded by at most two units.

    >>> normal_pair_tight(NormalPair(mean=3.0, other_mean=1.0, deviation=4.0), Adjacency.NEIGHBORS)
    ((GaussianPair(mu=0.5), 1),)
    """
    mu = abs(mechanism.mean - mechanism.other_mean) / mechanism.deviation
    if mu == 0.0:
        return ((AtomicPair.from_pmfs([1.0], [1.0]), 1),)
    return ((GaussianPair(mu), 1),)


@normal_bound(effort=Effort(yields_to=("normal_pair_tight",)))
def normal_pair_upper(mechanism: NormalPair, adjacency: Adjacency) -> PairCounts:
    """Upper side of two normal laws of different deviations: cells of the line, spread to their ends.

    Numerics: see `pairs.line_densities`.
    """
    return ((_pair((mechanism,), (1.0,), (1.0,), Side.UPPER), 1),)


@normal_bound(effort=Effort(yields_to=("normal_pair_tight",)))
def normal_pair_lower(mechanism: NormalPair, adjacency: Adjacency) -> PairCounts:
    """Lower side of two normal laws of different deviations: which cell of the line was hit.

    Numerics: see `pairs.line_densities`.
    """
    return ((_pair((mechanism,), (1.0,), (1.0,), Side.LOWER), 1),)


@bound(holds_when=HIDDEN, source="blackwell1953", applies=NORMALS)
def hidden_normals_upper(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Upper side of normal laws mixed with a hidden index: cells of the line, spread to their ends.

        p(x) = sum of w_i N(x; mean_i, deviation_i)   against   q(x), likewise

    Numerics: see `pairs.line_densities`.

    >>> away, back = NormalPair(mean=1.0), NormalPair(mean=0.0, other_mean=1.0)
    >>> even = Mixture(components=[away, back], weights=[0.5, 0.5])
    >>> pair, _ = hidden_normals_upper(even, Adjacency.NEIGHBORS)[0]
    >>> max(pair.losses) < 1e-3  # nothing can be told
    True
    """
    return _mixed(mechanism, Side.UPPER)


@bound(
    attained_when="the components have these normal distributions on two neighbors",
    source="blackwell1953",
    applies=NORMALS,
)
def hidden_normals_lower(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Lower side of normal laws mixed with a hidden index: which cell of the line was hit.

    Numerics: see `pairs.line_densities`.
    """
    return _mixed(mechanism, Side.LOWER)


def _mixed(mechanism: Mixture, side: Side) -> PairCounts:
    parts = tuple(
        component for component in mechanism.components if isinstance(component, NormalPair)
    )
    other = mechanism.weights if mechanism.other_weights is None else mechanism.other_weights
    return ((_pair(parts, mechanism.weights, other, side), 1),)


@lru_cache(maxsize=32)
def _pair(
    parts: tuple[NormalPair, ...],
    weights: tuple[float, ...],
    other_weights: tuple[float, ...],
    side: Side,
) -> AtomicPair:
    p = _normals([(w, part.mean, part.deviation) for w, part in zip(weights, parts, strict=True)])
    q = _normals(
        [
            (w, part.other_mean, part.other_deviation or part.deviation)
            for w, part in zip(other_weights, parts, strict=True)
        ]
    )
    if length(p, q) > LONGEST:
        raise Unsupported(
            f"normal distributions must lie within {LONGEST:g} of their smallest deviation to be "
            "compared; "
            f"got {length(p, q):.6g}. So far apart, little is hidden: release the index."
        )
    return normal_mixture_pair(p, q, side)


def _normals(parts: list[tuple[float, float, float]]) -> NormalMixture:
    """The components that can occur; equal ones as one."""
    weights: dict[tuple[float, float], float] = {}
    for weight, mean, deviation in parts:
        if weight > 0.0:
            weights[mean, deviation] = weights.get((mean, deviation), 0.0) + weight
    means, deviations = zip(*weights, strict=True)
    return NormalMixture(tuple(weights.values()), means, deviations)
