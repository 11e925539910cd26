"""The pair of a Renyi curve: its optimal conversion at all deltas, as one experiment to compose with."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import Pair
from sharpdp.renyi.conversion import delta_from, epsilon_from
from sharpdp.renyi.curve import RenyiCurve

__all__ = ["dominating_pair"]

_LOG_DELTAS = -np.square(np.arange(0.0, 17.0, 0.02)[1:])
"""Logarithms of the deltas that are converted, down to 1e-125.

Profiles are nearly straight in the root of -log delta: chords between these cost about 1e-4 of epsilon.
"""

_CLOSE_ORDERS = 400
"""So many orders are tried between the smallest and the largest one that were best of a few."""

_NOTHING, _EVERYTHING = AtomicPair((0.0,), (0.0,), (0.0,)), AtomicPair((), (), (), 1.0, 1.0)
"""Pairs that reveal nothing, and everything."""


@lru_cache(maxsize=64)
def dominating_pair(curve: RenyiCurve) -> Pair:
    """A pair, the same in both directions, that dominates every mechanism with these divergences.

    Its profile is the lower convex hull, in e^epsilon, of what the curve implies at many deltas. What
    the smallest of them leaves is at infinite loss, unless the infinite order is known. A curve that
    implies nothing has the pair that reveals everything.

    Numerics: the conversions are rounded up, and chords are above a convex profile.

    >>> pair = dominating_pair(RenyiCurve.zcdp(rho=0.005))
    >>> bool(np.exp(pair.log_hockey_stick(np.array([0.44]))[0]) < 1e-6)
    True
    """
    orders = _orders(curve)
    values = curve.at(orders)
    known = np.isfinite(values)
    if not known.any():
        return _EVERYTHING
    orders, values = orders[known], values[known]
    # what a smaller delta needs is enough for a larger one
    epsilons = np.minimum.accumulate(_converted(orders, values, _LOG_DELTAS)[::-1])[::-1]
    at_zero = float(np.min(delta_from(orders, values, 0.0)))
    useful = (np.exp(_LOG_DELTAS) < at_zero) & (epsilons > 0.0) & (epsilons < np.inf)
    losses = np.append(0.0, epsilons[useful])
    deltas = np.append(at_zero, np.exp(_LOG_DELTAS[useful]) * (1.0 + 1e-13))
    pure = float(curve.at(np.array([np.inf]))[0])
    if pure < np.inf:
        below = losses < pure
        losses, deltas = np.append(losses[below], pure), np.append(deltas[below], 0.0)
    rising = np.append(True, np.diff(losses) > 0.0)
    losses, deltas = losses[rising], deltas[rising]
    if losses.size < 2:
        return _NOTHING if at_zero == 0.0 else _EVERYTHING
    rest = float(deltas[-1])
    with np.errstate(divide="ignore"):
        log_calls = np.log(np.maximum(deltas[:-1] - rest, 0.0)) + 1e-13
    calls = calls_above(losses[:-1], log_calls, float(losses[-1]))
    return pair_from_halves(calls, calls, side=Side.UPPER, infinite=(rest, rest))


def _orders(curve: RenyiCurve) -> Array:
    """Orders among which the best one for each delta is, or one close to it."""
    first = curve.first_orders()
    values = curve.at(first)
    finite = np.isfinite(values) & np.isfinite(first)
    if np.count_nonzero(finite) < 2:
        return first
    few = _LOG_DELTAS[:: _LOG_DELTAS.size // 16]
    best = _best(first[finite], values[finite], few)
    low, high = max(int(best.min()) - 1, 0), min(int(best.max()) + 1, first[finite].size - 1)
    ends = first[finite][[low, high]] - 1.0
    return np.union1d(first, 1.0 + np.geomspace(*ends, _CLOSE_ORDERS))


def _best(orders: Array, values: Array, log_deltas: Array) -> Array:
    """The index of the order whose closed form gives the smallest epsilon, for each delta."""
    deltas = np.exp(log_deltas)
    epsilons = epsilon_from(orders[:, None], values[:, None], deltas, "lemma1")
    return np.asarray(np.argmin(epsilons, axis=0))


def _converted(orders: Array, values: Array, log_deltas: Array) -> Array:
    """Upper bounds on epsilon at each delta, by the optimal conversion at about the best order."""
    best, deltas = _best(orders, values, log_deltas), np.exp(log_deltas)
    return epsilon_from(orders[best], values[best], deltas)
