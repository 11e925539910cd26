"""asoodeh2020, Theorem 2: the joint range of two f-divergences, by tangents that are certified.

`sharpdp.curves.renyi.joint_range` is held against ranges that are known in closed form, against
Theorem 3, which is the case of a hockey-stick divergence and a chi^alpha divergence, and against
random pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, expm1, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduce.cache import once
from reproduce.sheets import Table, bracket, number
from sharpdp.curves.renyi import FDivergence, joint_range
from sharpdp.curves.renyi.conversion import forcing_level

Array = NDArray[np.float64]
Generator = Callable[[Array], Array]

ORDER, EPSILON = 2.0, 0.5
"""Of the pair of divergences of Theorem 3."""

SYMBOLS, DRAWS = (2, 3, 6), 20_000
"""Sizes and number of the random pairs that must lie inside."""

TANGENTS = np.linspace(0.05, 0.95, 13)
"""Values of the first divergence between whose lower ends random pairs are held against chords."""


@dataclass(frozen=True)
class Ranged:
    """Two divergences with their generators, and the least second one for a first one."""

    name: str
    divergences: tuple[FDivergence, FDivergence]
    generators: tuple[Generator, Generator]
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
        (FDivergence.total_variation(), FDivergence.squared_hellinger()),
        (total_variation, lambda t: 1.0 - np.sqrt(t)),
        lambda v: 1.0 - sqrt(1.0 - v * v),
    ),
    Ranged(
        "χ² by total variation",
        (FDivergence.total_variation(), FDivergence.chi_squared()),
        (total_variation, lambda t: (t - 1.0) ** 2),
        least_chi_square,
    ),
    Ranged(
        "χ^α by E_λ: Theorem 3, α = 2, ε = 0.5",
        (FDivergence.hockey_stick(x=exp(EPSILON)), FDivergence.chi_power(order=ORDER)),
        (hockey_stick, power),
        least_power,
    ),
)


def divergence(f: Generator, p: Array, q: Array) -> Array:
    """Sums of q f(p / q) over the last axis; every q is positive."""
    return np.asarray((q * f(p / q)).sum(-1))


def edge_of(place: int) -> dict[str, Any]:
    """The least second divergence at some first ones, and how many random pairs lie below tangents."""
    one = RANGES[place]
    edges = joint_range(*one.divergences)
    tangents = np.asarray(edges.least(at=TANGENTS).lower)
    rng = np.random.default_rng(place)
    below = 0
    for symbols in SYMBOLS:
        p, q = rng.dirichlet(np.full(symbols, 0.5), (2, DRAWS))
        q = np.maximum(q, 1e-12)
        q /= q.sum(-1, keepdims=True)
        p = p / p.sum(-1, keepdims=True)
        first, second = (divergence(f, p, q) for f in one.generators)
        # the edge rises: that at the place before is a lower bound
        index = np.searchsorted(TANGENTS, first) - 1
        least = np.where(index >= 0, tangents[index], 0.0)
        below += int(np.count_nonzero(second < least * (1.0 - 1e-9) - 1e-12))
    found = edges.least(at=PLACES)
    return {
        "found": np.stack([found.lower, found.upper], -1).tolist(),
        "known": [one.known(x) for x in PLACES],
        "below": below,
    }


def values(size: str) -> list[dict[str, Any]]:
    """All ranges, at every size."""
    del size
    return [once(edge_of, place) for place in range(len(RANGES))]


def tables(known: list[dict[str, Any]]) -> list[Table]:
    """The certified edge beside the closed form."""
    rows = []
    for one, ranged in zip(known, RANGES, strict=True):
        for place, found, right in zip(PLACES, one["found"], one["known"], strict=True):
            name = ranged.name if place == PLACES[0] else ""
            rows.append([name, number(place), bracket(found, 8), number(right, 8)])
    headings = ("least value of", "at", "sharpdp", "known")
    inside = [
        [ranged.name, f"{len(SYMBOLS) * DRAWS}", f"{one['below']}"]
        for one, ranged in zip(known, RANGES, strict=True)
    ]
    return [
        Table("", headings, rows),
        Table("Random pairs with 2, 3 and 6 symbols", ("least value of", "pairs", "below"), inside),
    ]
