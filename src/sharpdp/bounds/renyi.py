"""Bounds by Renyi divergences: curves of the user, and what is published about Gaussian noise."""

from sharpdp.bounds.registry import Pieces, bound
from sharpdp.bracket import Rigor, Side
from sharpdp.mechanisms import Adjacency
from sharpdp.renyi import RenyiCurve

__all__ = ["renyi_curve_upper"]


@bound(
    of=RenyiCurve,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.NEIGHBOURS,),
    holds_when="the values bound the Renyi divergences of both directions, for all neighbours",
    source="asoodeh2020 Theorem 3; mironov2017 Proposition 1",
)
def renyi_curve_upper(mechanism: RenyiCurve, adjacency: Adjacency) -> Pieces:
    """Upper side without a pair: `account` adds up divergences, and converts the sum optimally.

    Holds when: the values bound the Renyi divergences of both directions, for all neighbours; also if
    later parts are chosen after seeing earlier results.

    Numerics: see `curves.conversion`.

    Source: asoodeh2020 Theorem 3; mironov2017 Proposition 1.

    >>> renyi_curve_upper(RenyiCurve(orders=[2.0], values=[0.1]), Adjacency.NEIGHBOURS)
    ()
    """
    return ()
