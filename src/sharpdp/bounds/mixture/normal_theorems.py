"""Bounds on normal laws that lie somewhere on the line, alone or mixed with a hidden index."""

from functools import lru_cache, partial

from sharpdp.bounds.mixture.normal_mixture_pair import LONGEST, Normals, length, normal_mixture_pair
from sharpdp.bounds.registry import PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.errors import Unsupported
from sharpdp.mechanisms import Adjacency, Mixture, NormalPair
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair

__all__ = [
    "hidden_normals_lower",
    "hidden_normals_upper",
    "normal_pair_lower",
    "normal_pair_tight",
    "normal_pair_upper",
]


bound = partial(register, source="blackwell1953")


def _same_deviation(mechanism: NormalPair) -> bool:
    return mechanism.deviation == mechanism.other_deviation


def _different_deviations(mechanism: NormalPair) -> bool:
    return not _same_deviation(mechanism)


def _hidden_normals(mechanism: Mixture) -> bool:
    return mechanism.normal and mechanism.index == "hidden"


@bound(
    of=NormalPair,
    holds_when="these are the laws of the result on the two inputs in question",
    attained_when="these two inputs occur, in every round",
    source="dong2022 Theorem 2.7; balle2018 Theorem 8",
    applies=_same_deviation,
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


@bound(
    of=NormalPair,
    holds_when="these are the laws of the result on the two inputs in question",
    applies=_different_deviations,
)
def normal_pair_upper(mechanism: NormalPair, adjacency: Adjacency) -> PairCounts:
    """Upper side of two normal laws of different deviations: cells of the line, spread to their ends.

    Numerics: see `bounds.mixture.normal_mixture_pair`.
    """
    return ((_pair((mechanism,), (1.0,), (1.0,), Side.UPPER), 1),)


@bound(
    of=NormalPair,
    attained_when="these are the laws of the result on the two inputs in question",
    applies=_different_deviations,
)
def normal_pair_lower(mechanism: NormalPair, adjacency: Adjacency) -> PairCounts:
    """Lower side of two normal laws of different deviations: which cell of the line was hit.

    Numerics: see `bounds.mixture.normal_mixture_pair`.
    """
    return ((_pair((mechanism,), (1.0,), (1.0,), Side.LOWER), 1),)


@bound(
    of=Mixture,
    holds_when="the components have these normal laws on the two inputs in question",
    applies=_hidden_normals,
)
def hidden_normals_upper(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Upper side of normal laws mixed with a hidden index: cells of the line, spread to their ends.

        p(x) = sum of w_i N(x; mean_i, deviation_i)   against   q(x), likewise

    Numerics: see `bounds.mixture.normal_mixture_pair`.

    >>> away, back = NormalPair(mean=1.0), NormalPair(mean=0.0, other_mean=1.0)
    >>> even = Mixture(components=[away, back], weights=[0.5, 0.5])
    >>> pair, _ = hidden_normals_upper(even, Adjacency.NEIGHBORS)[0]
    >>> max(pair.losses) < 1e-3  # nothing can be told
    True
    """
    return _mixed(mechanism, Side.UPPER)


@bound(
    of=Mixture,
    attained_when="the components have these normal laws on the two inputs in question",
    applies=_hidden_normals,
)
def hidden_normals_lower(mechanism: Mixture, adjacency: Adjacency) -> PairCounts:
    """Lower side of normal laws mixed with a hidden index: which cell of the line was hit.

    Numerics: see `bounds.mixture.normal_mixture_pair`.
    """
    return _mixed(mechanism, Side.LOWER)


def _mixed(mechanism: Mixture, side: Side) -> PairCounts:
    parts = tuple(one for one in mechanism.components if isinstance(one, NormalPair))
    other = mechanism.weights if mechanism.other_weights is None else mechanism.other_weights
    return ((_pair(parts, mechanism.weights, other, side), 1),)


@lru_cache(maxsize=32)
def _pair(
    parts: tuple[NormalPair, ...],
    weights: tuple[float, ...],
    other_weights: tuple[float, ...],
    side: Side,
) -> AtomicPair:
    p = _normals([(w, one.mean, one.deviation) for w, one in zip(weights, parts, strict=True)])
    q = _normals(
        [
            (w, one.other_mean, one.other_deviation or one.deviation)
            for w, one in zip(other_weights, parts, strict=True)
        ]
    )
    if length(p, q) > LONGEST:
        raise Unsupported(
            f"normal laws must lie within {LONGEST:g} of their smallest deviation to be compared; "
            f"got {length(p, q):.6g}. So far apart, little is hidden: release the index."
        )
    return normal_mixture_pair(p, q, side)


def _normals(parts: list[tuple[float, float, float]]) -> Normals:
    """The components that can occur; equal ones as one."""
    found: dict[tuple[float, float], float] = {}
    for weight, mean, deviation in parts:
        if weight > 0.0:
            found[mean, deviation] = found.get((mean, deviation), 0.0) + weight
    means, deviations = zip(*found, strict=True)
    return Normals(tuple(found.values()), means, deviations)
