"""Bounds on mechanisms of which the trade-off curve is known, or a curve on one of its sides."""

from functools import partial

from sharpdp.bounds.registry import PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.curves.tradeoff.curve import PairOracle, TradeoffCurve
from sharpdp.curves.tradeoff.losses import to_pair
from sharpdp.mechanisms import Adjacency

__all__ = ["tradeoff_curve_lower", "tradeoff_curve_upper"]

bound = partial(register, source="blackwell1953; dong2022 Theorem 2.10")


@bound(
    holds_when="no attack on neighbors gets below the lower curve or, with the two exchanged, its inverse"
)
def tradeoff_curve_upper(curve: TradeoffCurve, adjacency: Adjacency) -> PairCounts:
    """Upper side of a trade-off curve: the pair whose trade-off function is its lower curve.

    A pair with a smaller trade-off function can be processed into the other, so that this one dominates
    whatever is held to the curve, also round by round. Segments of the curve are its outcomes.

    The curve bounds the trade-off function for the data with the record as the alternative, and its
    inverse the one with the two exchanged.

    Numerics: outcomes are exact fractions until their logarithms are taken.

    >>> half = TradeoffCurve.from_knots(fpr=[0, 1], fnr=[0.5, 0])
    >>> tradeoff_curve_upper(half, Adjacency.NEIGHBORS)[0][0].infinite_p
    0.5
    """
    if isinstance(curve.oracle, PairOracle):
        return curve.oracle.pairs.steps
    return ((to_pair(curve.lower_polyline), 1),)


@bound(
    attained_when="one pair of inputs reaches the upper curve or gets below it, in every round",
    applies=needs(lambda curve: curve.attained, "a curve that is attained"),
)
def tradeoff_curve_lower(curve: TradeoffCurve, adjacency: Adjacency) -> PairCounts:
    """Lower side of a trade-off curve that is attained: the pair whose function is its upper curve.

    Numerics: outcomes are exact fractions until their logarithms are taken.

    >>> half = TradeoffCurve.from_knots(fpr=[0, 1], fnr=[0.5, 0])
    >>> tradeoff_curve_lower(half, Adjacency.NEIGHBORS)[0][0].infinite_p
    0.5
    """
    if isinstance(curve.oracle, PairOracle):
        return curve.oracle.pairs.steps
    return ((to_pair(curve.upper_polyline), 1),)
