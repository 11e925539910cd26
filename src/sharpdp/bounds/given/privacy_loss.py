"""Bounds on mechanisms of which the privacy-loss distribution is known, exactly or from one side."""

from functools import lru_cache, partial

import numpy as np

from sharpdp.bounds.registry import PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.mechanisms import Adjacency, PrivacyLoss
from sharpdp.numerics.special import Array
from sharpdp.pairs.from_loss_masses import (
    exact_loss_pair,
    pessimistic_loss_halves,
    pessimistic_loss_pair,
    pooled_loss_pair,
)
from sharpdp.pairs.pair import Pair

__all__ = ["privacy_loss_lower", "privacy_loss_tight", "privacy_loss_upper"]

bound = partial(
    register,
    holds_when="delta of the table is at least that of every pair of neighbors: at every real "
    "epsilon, or at every epsilon >= 0 if each direction has its table",
    attained_when="delta of the table is at most that of one pair of neighbors, in every round",
    source="blackwell1953; zhu2022 Theorem 10",
)


@bound(applies=needs(lambda mechanism: mechanism.rounding == "exact", "exact losses"))
def privacy_loss_tight(mechanism: PrivacyLoss, adjacency: Adjacency) -> PairCounts:
    """Both sides of a privacy-loss distribution: P with the masses, Q with mass * e^-loss.

    What Q lacks then is at loss -infinity: it has no mass under P.

    Numerics: sums of doubles are rounded once. By how much they miss 1 (at most 1e-9), and rounding of
    the losses, widens both sides.

    >>> table = PrivacyLoss(losses=[0.0], masses=[0.5], mass_at_infinity=0.5)
    >>> privacy_loss_tight(table, Adjacency.NEIGHBORS)[0][0].infinite_p
    0.5
    """
    return ((_pairs(mechanism), 1),)


@bound(applies=needs(lambda mechanism: mechanism.rounding == "pessimistic", "losses rounded up"))
def privacy_loss_upper(mechanism: PrivacyLoss, adjacency: Adjacency) -> PairCounts:
    """Upper side of a pessimistic privacy-loss distribution: the pair of the table, or of two halves.

    With a table for either direction, the losses of each that are above zero are what delta at
    epsilon >= 0 depends on; both halves are moved up to one delta at epsilon
    zero, and the rest is at loss zero.

    Numerics: P-mass that is missing counts as revealed.

    >>> table = PrivacyLoss(
    ...     losses=[0.0], masses=[0.5], mass_at_infinity=0.5, rounding="pessimistic"
    ... )
    >>> privacy_loss_upper(table, Adjacency.NEIGHBORS)[0][0].infinite_p
    0.5000000000000001
    """
    return ((_pairs(mechanism), 1),)


@bound(applies=needs(lambda mechanism: mechanism.rounding == "optimistic", "losses rounded down"))
def privacy_loss_lower(mechanism: PrivacyLoss, adjacency: Adjacency) -> PairCounts:
    """Lower side of an optimistic privacy-loss distribution: its smallest losses pooled into one.

    Losses that were rounded down make the masses of Q sum to more than 1. The pair has the larger of the
    table's delta and that of no information, or less.

    Numerics: see `pairs.from_loss_masses`.

    >>> table = PrivacyLoss(losses=[-1.0, 0.9], masses=[0.25, 0.75], rounding="optimistic")
    >>> len(privacy_loss_lower(table, Adjacency.NEIGHBORS)[0][0].losses)
    2
    """
    return ((_pairs(mechanism), 1),)


@lru_cache(maxsize=16)
def _pairs(mechanism: PrivacyLoss) -> Pair:
    if mechanism.reverse is not None:
        other = mechanism.reverse
        behind = _table(other) if isinstance(other, PrivacyLoss) else None
        return pessimistic_loss_halves(_table(mechanism), behind)
    make = {
        "exact": exact_loss_pair,
        "pessimistic": pessimistic_loss_pair,
        "optimistic": pooled_loss_pair,
    }[mechanism.rounding]
    return make(*_table(mechanism))


def _table(mechanism: PrivacyLoss) -> tuple[Array, Array, float]:
    return np.array(mechanism.losses), np.array(mechanism.masses), mechanism.mass_at_infinity
