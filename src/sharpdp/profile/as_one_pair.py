"""A whole composition as one pair, for theorems that need one: a group chains what it sees as a whole."""

from __future__ import annotations

import math

import numpy as np

from sharpdp.numerics.special import Array
from sharpdp.pairs.chained import ladder, pair_above
from sharpdp.pairs.pair import Pair
from sharpdp.profile.composition import Composition

__all__ = ["as_one_pair"]

LAST_DELTA, LARGEST_LOSS = 1e-87, 600.0
"""What is left where the profile has fallen to about this, or at this loss, counts as revealed."""

COARSER = 16.0
"""Thresholds are those for a width so many times as wide: a value of a composition takes long."""


def as_one_pair(run: Composition, width: float) -> Pair:
    """A pair that dominates a composition in both directions: chords between values of its profile.

    Args:
        run: The composition.
        width: About how far, relative to epsilon, the pair may be from the composition.

    Returns:
        The pair of the composition itself if it has one.

    >>> from sharpdp.pairs.pair import GaussianPair
    >>> as_one_pair(Composition(((GaussianPair(0.3), 1), (GaussianPair(0.4), 1))), 1e-3)
    GaussianPair(mu=0.5)
    """
    if run.single_pair is not None:
        return run.single_pair
    ahead = _values(run, width)
    return pair_above(ahead, ahead if run.symmetric else _values(run.reverse(), width))


def _values(run: Composition, width: float) -> tuple[Array, Array]:
    """Losses from zero on, and upper ends of log delta there."""
    at_zero = float(np.exp(run.log_delta(0.0, 0.1)[1]))
    last = min(1.01 * run.infinite_p_ends[1] + LAST_DELTA, 1.0)
    end = run.epsilon(math.log(last), 0.1)[1]
    losses = ladder(min(end, run.largest_loss, LARGEST_LOSS), at_zero, COARSER * width)
    high = run.final_log_deltas(losses, width)[1]
    return losses, np.minimum.accumulate(np.minimum(high, 0.0))
