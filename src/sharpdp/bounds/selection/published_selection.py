"""Published bounds on the best of several runs that no answer rests on: for comparison."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from sharpdp.bounds.published import formula as register
from sharpdp.bounds.selection.theorems import moments, poisson_terms
from sharpdp.curves.tradeoff.curve import TradeoffCurve
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import Adjacency, BestOf

__all__ = ["pure_selection_upper", "selection_moments_upper"]

formula = partial(
    register,
    holds_when="candidates are drawn independently for every repetition, and nothing is released but the "
    "best result",
)


@formula(source="papernot2022 Theorems 2 and 6")
def selection_moments_upper(mechanism: BestOf, order: float, adjacency: Adjacency) -> float:
    """Upper bound on the Renyi divergence of the best of a random number of runs: see `theorems.moments`.

    For the Poisson law as published, which needs a mean of at least 1.

    >>> from sharpdp.mechanisms import Gaussian
    >>> best = BestOf(Gaussian(noise_multiplier=4.0), "geometric", mean=10.0)
    >>> round(selection_moments_upper(best, 8.0, Adjacency.NEIGHBORS), 2)
    1.59
    """
    if isinstance(mechanism.repetitions, int):
        raise Inapplicable("it covers a random number of repetitions")
    orders = np.array([order])
    if mechanism.repetitions != "poisson":
        return float(moments(mechanism, adjacency, orders)[0])
    assert mechanism.mean is not None
    if mechanism.mean < 1.0:
        raise Inapplicable("it covers a Poisson number of repetitions of mean 1 or more")
    own, more = poisson_terms(mechanism, adjacency, orders)
    return float((own + more + math.log(mechanism.mean) / (orders - 1.0))[0]) * (1.0 + 1e-12)


@formula(source="papernot2022 Corollary 3")
def pure_selection_upper(mechanism: BestOf, delta: float, adjacency: Adjacency) -> float:
    """Upper bound on epsilon of the best of several runs that are e-DP without a delta: (2 + shape) e.

    For the geometric law, of shape 1, that is 3 e, whatever its mean. It holds at every delta.

    Numerics: the upper end of e, moved up by 1e-12.

    >>> from sharpdp.mechanisms import PureDP
    >>> best = BestOf(PureDP(epsilon=0.2), "geometric", mean=10.0)
    >>> round(pure_selection_upper(best, 1e-6, Adjacency.NEIGHBORS), 6)
    0.6
    """
    if mechanism.repetitions not in ("geometric", "negative-binomial"):
        raise Inapplicable("it covers a geometric or negative-binomial number of repetitions")
    pure = float(TradeoffCurve.of(mechanism.run, adjacency=adjacency).epsilon(delta=0.0).upper)
    if not math.isfinite(pure):
        raise Inapplicable("one run is not epsilon-DP without a delta")
    return (2.0 + mechanism._shape) * pure * (1.0 + 1e-12)
