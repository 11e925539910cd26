"""From Renyi divergences of all orders to epsilon: the search for the best order.

Every order gives an upper bound, so a search that misses the best one is safe.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sharpdp.renyi.conversion import epsilon_from

__all__ = ["balle_epsilon", "classical_epsilon", "least_epsilon"]


Divergence = Callable[[float], float]
Conversion = Callable[[float, float, float], float]


def balle_epsilon(divergence: float, order: float, delta: float) -> float:
    """Upper bound on epsilon: D + log(1 - 1/a) - log(a delta)/(a - 1), at least 0.

    Numerics: rounded up; see `renyi.conversion`.

    Source: balle2020 Theorem 21.

    >>> round(balle_epsilon(0.1, 2, 0.01), 9) == round(0.1 - math.log(2) - math.log(0.02), 9)
    True
    """
    return float(epsilon_from(order, divergence, delta, "balle"))


def classical_epsilon(divergence: float, order: float, delta: float) -> float:
    """Upper bound on epsilon: D + log(1/delta)/(a - 1).

    Numerics: rounded up; see `renyi.conversion`.

    Source: mironov2017 Proposition 3.

    >>> round(classical_epsilon(0.1, 3, math.exp(-4)), 9)
    2.1
    """
    return float(epsilon_from(order, divergence, delta, "classical"))


def least_epsilon(
    divergence: Divergence, delta: float, conversion: Conversion = balle_epsilon
) -> tuple[float, float]:
    """The smallest epsilon that is found over whole orders from 2 on, and its order.

    Orders are doubled until epsilon grows, then searched by thirds between the neighbors of the best.

    >>> epsilon, order = least_epsilon(lambda a: 0.01 * a, 1e-6, classical_epsilon)
    >>> order  # the minimum of 0.01 a + 13.8 / (a - 1)
    38.0
    """
    epsilons: dict[float, float] = {}

    def epsilon_at(order: float) -> float:
        if order not in epsilons:
            epsilons[order] = conversion(divergence(order), order, delta)
        return epsilons[order]

    order, worse = 2.0, 0
    best = order
    # whole numbers up to here are exact; three doublings in a row that make things worse end the search
    while order < 2.0**52 and worse < 3:
        worse = 0 if epsilon_at(order) <= epsilon_at(best) else worse + 1
        best = order if worse == 0 else best
        order *= 2.0
    low, high = max(2.0, best / 2.0), best * 2.0
    # epsilon is flat next to its minimum
    while high - low > max(2.0, 1e-4 * low):
        third = math.floor((high - low) / 3.0)
        left, right = low + third, high - third
        if epsilon_at(left) <= epsilon_at(right):
            high = right - 1.0 if right - 1.0 >= left else right
        else:
            low = left + 1.0
    for order in (low, low + 1.0, high):
        epsilon_at(order)
    best = min(epsilons, key=lambda order: (epsilons[order], order))
    return epsilons[best], best
