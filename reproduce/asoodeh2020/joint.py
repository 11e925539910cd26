"""asoodeh2020, Theorem 2: the joint range of two f-divergences is the hull of what coins give.

For any two f-divergences, by a grid of pairs of coins: an approximation from inside, for the reproduction
only. It is held against ranges that are known in closed form, and against Theorem 3, which is the case of
a hockey-stick divergence and a chi^alpha divergence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.cache import once
from reproduce.sheets import Table, number
from sharpdp.renyi.conversion import forcing_level

Array = NDArray[np.float64]
Generator = Callable[[Array], Array]

COINS, REACH = 801, 12.0
"""Coins of the grid, and the largest logarithm of their odds."""

ORDER, EPSILON = 2.0, 0.5
"""Of the pair of divergences of Theorem 3."""

SYMBOLS, DRAWS = (2, 3, 6), 20_000
"""Sizes and number of the random pairs that must lie inside."""

FARTHEST = 0.9
"""The grid is not asked beyond this first divergence, where the second goes to infinity."""


@dataclass(frozen=True)
class Ranged:
    """Two divergences, and the least second one for a first one, if it is known."""

    name: str
    first: Generator
    second: Generator
    places: tuple[float, ...]
    known: Callable[[float], float]


def total_variation(t: Array) -> Array:
    """sup |P(A) - Q(A)|."""
    return 0.5 * np.abs(t - 1.0)


def hockey_stick(t: Array) -> Array:
    """E_lambda with lambda = e^EPSILON."""
    return np.maximum(t - exp(EPSILON), 0.0)


def power(t: Array) -> Array:
    """The chi^alpha divergence of order ORDER."""
    return np.asarray((t**ORDER - 1.0) / (ORDER - 1.0))


def least_chi_square(v: float) -> float:
    """4 v^2 up to v = 1/2, v / (1 - v) from there on."""
    return 4.0 * v * v if v <= 0.5 else v / (1.0 - v)


def least_power(delta: float) -> float:
    """Theorem 3: the least chi^alpha divergence at which E_lambda can be delta."""
    gamma = float(forcing_level(ORDER, EPSILON, delta))
    return expm1((ORDER - 1.0) * gamma) / (ORDER - 1.0)


PLACES = (0.1, 0.3, 0.5, 0.7)
RANGES = (
    Ranged(
        "squared Hellinger (1 - √t) by total variation",
        total_variation,
        lambda t: 1.0 - np.sqrt(t),
        PLACES,
        lambda v: 1.0 - sqrt(1.0 - v * v),
    ),
    Ranged(
        "χ² by total variation", total_variation, lambda t: (t - 1.0) ** 2, PLACES, least_chi_square
    ),
    Ranged("χ^α by E_λ: Theorem 3, α = 2, ε = 0.5", hockey_stick, power, PLACES, least_power),
)


def divergence(f: Generator, p: Array, q: Array) -> Array:
    """Sums of q f(p / q) over the last axis; every q is positive."""
    return np.asarray((q * f(p / q)).sum(-1))


def coins(f: Generator, g: Generator) -> Array:
    """Both divergences of every pair of coins of the grid."""
    heads = 1.0 / (1.0 + np.exp(-np.linspace(-REACH, REACH, COINS)))
    one, other = (each.ravel() for each in np.meshgrid(heads, heads))
    p, q = (np.stack([side, 1.0 - side], -1) for side in (one, other))
    return np.stack([divergence(f, p, q), divergence(g, p, q)], -1)


def lower_edge(points: Array) -> Array:
    """The corners of the lower edge of the hull of points, from left to right."""
    order = np.lexsort((points[:, 1], points[:, 0]))
    first = order[np.r_[True, np.diff(points[order, 0]) > 1e-12]]
    corners: list[Array] = []
    for point in points[first]:
        while len(corners) > 1 and _turns_right(corners[-2], corners[-1], point):
            corners.pop()
        corners.append(point)
    return np.array(corners)


def _turns_right(a: Array, b: Array, c: Array) -> bool:
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])) <= 0.0


def edge_of(place: int) -> dict[str, Any]:
    """The least second divergence at some first ones, and how far random pairs lie below the edge."""
    one = RANGES[place]
    edge = lower_edge(coins(one.first, one.second))
    rng = np.random.default_rng(place)
    below = 0.0
    for symbols in SYMBOLS:
        p, q = rng.dirichlet(np.full(symbols, 0.5), (2, DRAWS))
        q = np.maximum(q, 1e-12)
        q /= q.sum(-1, keepdims=True)
        p = p / p.sum(-1, keepdims=True)
        first, second = (divergence(f, p, q) for f in (one.first, one.second))
        least = np.interp(first, *edge.T)
        inside = first < FARTHEST
        below = max(below, float(((least - second) / (1.0 + least))[inside].max()))
    found = [float(np.interp(x, *edge.T)) for x in one.places]
    return {"found": found, "known": [one.known(x) for x in one.places], "below": below}


def values(size: str) -> list[dict[str, Any]]:
    """All ranges, at every size."""
    del size
    return [once(edge_of, place) for place in range(len(RANGES))]


def tables(known: list[dict[str, Any]]) -> list[Table]:
    """The edge by coins beside the closed form."""
    rows = []
    for one, ranged in zip(known, RANGES, strict=True):
        for place, found, right in zip(ranged.places, one["found"], one["known"], strict=True):
            name = ranged.name if place == ranged.places[0] else ""
            rows.append([name, number(place), number(found, 4), number(right, 4)])
    headings = ("least value of", "at", "hull of coins", "known")
    inside = [
        [ranged.name, f"{len(SYMBOLS) * DRAWS}", number(one["below"], 2)]
        for one, ranged in zip(known, RANGES, strict=True)
    ]
    return [
        Table("", headings, rows),
        Table(
            "Random pairs with 2, 3 and 6 symbols",
            ("least value of", "pairs", "farthest below the hull, over 1 + its edge"),
            inside,
        ),
    ]
