"""Pairs of mechanisms whose Renyi divergences are known better than those of the pair itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.special import Array
from sharpdp.pairs.finite import TabulatedPair

__all__ = ["PairOfKnownMoments"]


@dataclass(frozen=True)
class PairOfKnownMoments(TabulatedPair):
    """Outcomes that dominate a mechanism, and upper bounds on the divergences of that mechanism.

    A pair that dominates reveals more, often everything with some tiny probability, so that its own
    divergences are larger, or infinite. The bounds hold in both directions. For upper sides only.

    >>> from sharpdp.pairs.finite import AtomicPair
    >>> pair = PairOfKnownMoments(AtomicPair.approximate(0.1, 1e-9), lambda orders: 0.02 * orders)
    >>> pair.log_moments(np.array([3.0]))[1].round(12)
    array([0.12])
    """

    divergences: Callable[[Array], Array]
    """Maps orders above one to bounds on the divergences; equal functions are equal objects."""

    def reverse(self) -> PairOfKnownMoments:
        return PairOfKnownMoments(self.table.reverse(), self.divergences)

    @property
    def symmetric(self) -> bool:
        return self.table.symmetric

    def log_moments(self, orders: Array) -> tuple[Array, Array]:
        """(lower, upper) of log E_P[e^{(order - 1) L}] of the mechanism; nothing is known from below."""
        tilts = orders - 1.0
        return np.zeros(orders.size), tilts * self.divergences(orders) * (1.0 + 4e-16)
