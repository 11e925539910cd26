"""The pair of a Renyi curve: its conversion at all deltas, as one experiment to compose with.

The convex hull of the best conversions of single orders is the conversion by all of them together.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.renyi.conversion import delta_from, epsilon_from
from sharpdp.curves.renyi.curve import RenyiCurve
from sharpdp.numerics.special import Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile import ProfilePair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import Pair

__all__ = ["dominating_pair"]

_LOG_DELTAS = -np.square(np.arange(0.0, 13.0, 0.025)[1:])
"""Logarithms of the deltas that are converted, down to 1e-73.

Profiles are nearly straight in the root of -log delta: chords between these cost about 2e-4 of epsilon.
"""

_SHARES = np.linspace(0.02, 0.98, 49)
"""Shares of the delta at epsilon = 0 that are converted as well: close to it profiles bend most."""

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
    at_zero = float(np.min(delta_from(orders, values, 0.0)))
    if at_zero == 0.0:
        return _NOTHING
    deltas = np.concatenate([np.exp(_LOG_DELTAS), at_zero * _SHARES])
    deltas = np.sort(deltas[deltas < at_zero])[::-1]
    # what a smaller delta needs is enough for a larger one
    epsilons = np.minimum.accumulate(_converted(orders, values, deltas)[::-1])[::-1]
    useful = (epsilons > 0.0) & (epsilons < np.inf)
    losses, deltas = np.append(0.0, epsilons[useful]), np.append(at_zero, deltas[useful])
    pure = float(curve.at(np.array([np.inf]))[0])
    if pure < np.inf:
        below = losses < pure
        losses, deltas = np.append(losses[below], pure), np.append(deltas[below], 0.0)
    rising = np.append(True, np.diff(losses) > 0.0)
    losses, deltas = losses[rising], deltas[rising]
    if losses.size < 2:
        return _EVERYTHING
    rest = float(deltas[-1])
    with np.errstate(divide="ignore"):
        log_calls = np.log(np.maximum(deltas[:-1] - rest, 0.0)) + 1e-13
    calls = calls_above(losses[:-1], log_calls, float(losses[-1]))
    return ProfilePair(pair_from_halves(calls, calls, side=Side.UPPER, infinite=(rest, rest)))


def _orders(curve: RenyiCurve) -> Array:
    """Orders among which one close to the best one for each delta is."""
    first = curve.first_orders()
    values = curve.at(first)
    finite = np.isfinite(values) & np.isfinite(first)
    if np.count_nonzero(finite) < 2:
        return first
    known, values = first[finite], values[finite]
    epsilons = epsilon_from(known[:, None], values[:, None], np.exp(_LOG_DELTAS[::32]))
    best = np.argmin(epsilons, axis=0)[np.min(epsilons, axis=0) > 0.0]
    if not best.size:
        return first
    low, high = max(int(best.min()) - 1, 0), min(int(best.max()) + 1, known.size - 1)
    between = np.geomspace(known[low] - 1.0, known[high] - 1.0, _CLOSE_ORDERS)
    return np.union1d(first, 1.0 + between)


def _converted(orders: Array, values: Array, deltas: Array) -> Array:
    """Upper bounds on epsilon at each delta, by the optimal conversion at about the best order.

    That is either the best one of a closed form, or about that of the optimal conversion at some deltas,
    and the smaller epsilon counts.
    """
    closed = np.argmin(epsilon_from(orders[:, None], values[:, None], deltas, "lemma1"), axis=0)
    every = epsilon_from(orders[closed], values[closed], deltas)
    if np.isinf(orders[-1]):
        every = np.minimum(every, epsilon_from(np.inf, values[-1], deltas))
    finite = np.flatnonzero(np.isfinite(orders))
    if finite.size < 2:
        return every
    some, few = finite[:: max(1, finite.size // 96)], deltas[:: max(1, deltas.size // 24)]
    at_few = epsilon_from(orders[some, None], values[some, None], few)
    places = np.interp(-np.log(deltas), -np.log(few), some[np.argmin(at_few, axis=0)])
    index = finite[np.searchsorted(finite, places.round().astype(int), side="right") - 1]
    return np.minimum(every, epsilon_from(orders[index], values[index], deltas))
