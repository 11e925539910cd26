"""Bounds on mixtures: exact where the laws are known point by point, else by releasing the index."""

from sharpdp.bounds.registry import Pieces, bound
from sharpdp.bracket import Rigor, Side
from sharpdp.curves.rational import rational_pair
from sharpdp.mechanisms import Adjacency, Mixture

__all__ = ["mixture_tight"]


@bound(
    of=Mixture,
    sides=(Side.LOWER, Side.UPPER),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.NEIGHBOURS,),
    holds_when="the pmfs are those of the components on the two inputs in question, and the index "
    "is drawn afresh in each round",
    source="blackwell1953; wang2023 Lemma 3.1",
    applies=lambda mechanism: mechanism.finite,
)
def mixture_tight(mechanism: Mixture, adjacency: Adjacency) -> Pieces:
    """Both sides of a mixture of pmfs: the law of what is seen.

        hidden:    P(x) = sum of w_i P_i(x)     released:    P(i, x) = w_i P_i(x)

    and Q with the weights of the other data set.

    Holds when: these are the laws of the components on the two inputs in question; the upper side
    with a released index also if they dominate those laws.

    Numerics: masses are added as exact fractions and rounded once, ties of ratios are exact.

    Source: blackwell1953; wang2023 Lemma 3.1.

    >>> from sharpdp.mechanisms import FinitePair
    >>> coin = FinitePair(p=[0.75, 0.25], q=[0.25, 0.75])
    >>> back = FinitePair(p=[0.25, 0.75], q=[0.75, 0.25])
    >>> even = Mixture(components=[coin, back], weights=[0.5, 0.5])
    >>> mixture_tight(even, Adjacency.NEIGHBOURS)[0][0].losses  # nothing can be told
    (0.0,)
    """
    return ((rational_pair(*mechanism.laws()), 1),)
