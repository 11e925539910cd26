"""Laws of sums and products of independent nonnegative variables, safe on one side in the convex order.

A Law has finitely many values. Its operations keep the order: whatever lies in one cell of a Grid is
merged at its mean (lower: the conditional mean given the cell) or split between the two ends of the
cell with the same mean (upper: a spread). Both depend on the cell's content through its mass and its
mean alone, so one pass over all pairs of values serves either side. Beyond the last node there is no
right end: the mass stays at the node, and the rest of the mean is `beyond`, at infinity.

What is claimed. Let F be the exact law, and move each computed value by a factor within
1 +- `value_error` as needed. Then the computed measure C satisfies, with K some measure on the line,

    upper:  C is above K in the convex order, and K >= (1 - mass_error) F on every set,
    lower:  C is below K in the convex order, and K <= (1 + mass_error) F on every set.

So E f(C) >= (1 - mass_error) E f(F), or <= (1 + mass_error) E f(F), for every convex f >= 0.

Why. Convolutions keep both relations, and errors add up: x -> f(x + y) is convex for every y, and so
is x -> f(x y) for y >= 0. The mean at infinity is the limit of a tiny mass far away. Splitting raises,
merging lowers. Rounding is relative, since masses and means are sums of positive numbers: a sum of N of
them is off by at most N units, and what moves a cell's mean moves all values in it by the same factor. A
split at a rounded mean is the exact split of that mean, times 1 +- 4 units. Masses below 1e-150 are
raised to that (upper) or left out (lower), so that no product of two of them underflows; either can only
help.

Source: shaked2007 Theorem 3.A.4 (merging and splitting) and Theorem 3.A.12 (sums).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_nodes, log_ndtr

# So many pairs of values are added up at a time: they fit into the cache, and their number bounds the
# rounding of a sum.
_BLOCK = 1 << 14
# Masses below this are not multiplied with each other.
_SMALLEST_MASS = 1e-150
WIDEST_CELL = 0.25
"""Cells of a normal variable that the Gauss rule integrates exactly in doubles."""


@dataclass(frozen=True, eq=False)
class Law:
    """Values in increasing order, at least 0, with their masses and the mean that is at infinity."""

    values: Array
    masses: Array
    beyond: float = 0.0
    mass_error: float = 0.0
    value_error: float = 0.0


@dataclass(frozen=True, eq=False)
class Grid:
    """Nodes 0 = g_0 < g_1 < ... on a table of leading bits; cell k is [g_k, g_{k+1}), the last is open.

    Cells are found by a value's leading bits, counted from just below the first node. Wanted nodes are
    moved to the next boundary of the table below them; a few more may be `below` all of them and are
    looked up one by one.

    >>> grid = Grid(np.array([1.0, 2.0, 3.0]), np.array([0.25]))
    >>> grid.cells(np.array([0.2, 0.5, 1.0, 2.5, 9.0])).tolist()
    [0, 1, 2, 3, 4]
    """

    wanted: Array
    below: Array

    @cached_property
    def _bits(self) -> int:
        """Bits of the fraction that are looked at: at most 13, and for at most 2^20 entries."""
        octaves = np.log2(self.wanted[-1] / self._start(13)) + 2.0
        return int(min(13, 20 - np.ceil(np.log2(octaves))))

    @property
    def _shift(self) -> int:
        """Bits of the fraction, of 52, that are not."""
        return 52 - self._bits

    def _start(self, bits: int) -> float:
        """Distance of the first node from the origin: small enough to tell the closest nodes apart.

        Four of the bits are for the narrowest cell.
        """
        narrowest = float(np.min(np.diff(self.wanted), initial=np.inf))
        return min(float(self.wanted[0]), narrowest * 2.0 ** (bits - 4))

    @cached_property
    def _origin(self) -> float:
        return float(self.wanted[0]) - self._start(self._bits)

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        above = np.asarray(self.wanted - self._origin)
        return np.unique(above.view(np.int64) >> self._shift)

    @cached_property
    def nodes(self) -> Array:
        """The nodes, zero among them."""
        starts = (self._keys << self._shift).view(np.float64)
        return np.concatenate([[0.0], self.below, starts + self._origin])

    @cached_property
    def _table(self) -> NDArray[np.int64]:
        table = np.zeros(self._keys[-1] - self._keys[0] + 2, dtype=np.int64)
        table[self._keys - self._keys[0] + 1] = 1
        table[1] += self.below.size
        return np.cumsum(table)

    def cells(self, values: Array) -> NDArray[np.int64]:
        """The cell of each value, up to a rounding of the value by two units."""
        above = np.maximum(values - self._origin, np.finfo(float).tiny)
        keys = above.view(np.int64) >> self._shift
        keys -= self._keys[0] - 1
        np.clip(keys, 0, self._table.size - 1, out=keys)
        cells: NDArray[np.int64] = self._table[keys]
        low = cells == 0
        if low.any():
            cells[low] = np.searchsorted(self.below, values[low], side="right")
        return cells


def total(law: Law, other: Law, grid: Grid, side: Side) -> Law:
    """The law of a sum of independent variables, on the nodes of the grid, safe on this side."""
    moved = max(law.value_error, other.value_error)
    return _combined(law, other, grid, side, np.add, moved)


def product(law: Law, other: Law, grid: Grid, side: Side) -> Law:
    """The law of a product of independent variables of mean one, on the grid, safe on this side.

    x -> f(x y) is convex for y >= 0, so products keep the order as sums do. Of the means at infinity a
    and b, a b is counted twice, which can only raise.
    """
    moved = law.value_error + other.value_error
    return _combined(law, other, grid, side, np.multiply, moved)


def _combined(
    law: Law, other: Law, grid: Grid, side: Side, operation: np.ufunc, moved: float
) -> Law:
    """The law of the results, if those of exact values would be off by a factor 1 +- moved."""
    blocks = _doubled(law, operation) if law is other else _pairs(law, other, operation)
    size = grid.nodes.size
    mass, moment, count = np.zeros(size), np.zeros(size), 0
    for values, masses in blocks:
        cells = grid.cells(values).ravel()
        mass += np.bincount(cells, masses.ravel(), size)
        masses *= values
        moment += np.bincount(cells, masses.ravel(), size)
        count += 1
    # 16 units for what is no sum: products, quotients, splits, and a value that lands in the next cell
    longest = max(_BLOCK, law.values.size, other.values.size) + count + 16.0
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(mass > 0.0, moment / mass, grid.nodes)
    content = Law(
        means,
        mass,
        law.beyond + other.beyond,
        law.mass_error + other.mass_error + longest * UNIT_ROUNDOFF,
        moved + 2.0 * longest * UNIT_ROUNDOFF,
    )
    return settled(grid.nodes, content, side)


def _pairs(law: Law, other: Law, operation: np.ufunc) -> Iterator[tuple[Array, Array]]:
    """All results for two values with the products of their masses, a block at a time."""
    rows = max(1, _BLOCK // other.values.size)
    for start in range(0, law.values.size, rows):
        part = slice(start, start + rows)
        yield (
            operation.outer(law.values[part], other.values),
            np.multiply.outer(law.masses[part], other.masses),
        )


def _doubled(law: Law, operation: np.ufunc) -> Iterator[tuple[Array, Array]]:
    """All results for two copies of one law: pairs off the diagonal blocks come twice."""
    rows = max(1, _BLOCK // law.values.size)
    for start in range(0, law.values.size, rows):
        part, rest = slice(start, start + rows), slice(start + rows, None)
        values, masses = law.values[part], law.masses[part]
        yield operation.outer(values, values), np.multiply.outer(masses, masses)
        if start + rows < law.values.size:
            yield (
                operation.outer(values, law.values[rest]),
                np.multiply.outer(2.0 * masses, law.masses[rest]),
            )


def settled(nodes: Array, content: Law, side: Side) -> Law:
    """The content of each cell, given by its mean and mass: merged (lower) or split to the ends (upper).

    Cell k begins at node k; the last one has no end.

    >>> content = Law(np.array([0.5, 3.0]), np.array([0.5, 0.5]))
    >>> law = settled(np.array([0.0, 2.0]), content, Side.UPPER)
    >>> law.masses.tolist(), law.beyond
    ([0.375, 0.625], 0.5)
    """
    means, mass = content.values, content.masses
    if side is Side.LOWER:
        heavy = mass > _SMALLEST_MASS
        return replace(content, values=means[heavy], masses=mass[heavy])
    left, right, width = nodes[:-1], nodes[1:], np.diff(nodes)
    inside = np.clip(means[:-1], left, right)
    masses = np.zeros(nodes.size)
    masses[:-1] += mass[:-1] * ((right - inside) / width)
    masses[1:] += mass[:-1] * ((inside - left) / width)
    masses[-1] += mass[-1]
    over = float(mass[-1]) * max(float(means[-1] - nodes[-1]), 0.0)
    return replace(
        content,
        values=nodes,
        masses=np.maximum(masses, _SMALLEST_MASS),
        beyond=content.beyond + over,
    )


def lognormal(mu: float, edges: Array, side: Side) -> Law:
    """The law of e^{mu y - mu^2/2}, y standard normal, with cells between these edges of y.

    A cell's mass is an integral of the density, its mean a quotient of two; positive functions,
    integrated by a Gauss rule. Holds when: cells are at most WIDEST_CELL wide, edges below 38.

    Numerics: ten points on such a cell are off by less than a unit, as composition.one_big_jump
    proves. Rounding takes 32 units of one plus the square of the distance: products, sums of ten terms,
    an exponential whose argument is off by two units of itself, and log_ndtr.

    >>> law = lognormal(1.0, np.linspace(-8.0, 9.0, 100), Side.LOWER)
    >>> round(float(law.masses @ law.values), 12)
    1.0
    """
    half = 0.5 * np.diff(edges)
    middle = edges[:-1] + half
    move, weight = gauss_nodes(middle, half, 10)
    inner = np.sum(weight, axis=1)
    mass = np.exp(-0.5 * middle**2) * inner * half / np.sqrt(2.0 * np.pi)
    growth = np.sum(weight * np.exp(mu * move), axis=1) / inner
    mean = np.exp(mu * middle - 0.5 * mu * mu) * growth
    tail_edges = np.array([edges[0], -edges[-1]])
    log_tails, log_moments = log_ndtr(tail_edges), log_ndtr(tail_edges + np.array([-mu, mu]))
    tail_means = np.exp(log_moments - log_tails)
    reach = float(np.max(np.abs(edges))) + mu
    error = 32.0 * UNIT_ROUNDOFF * (1.0 + reach**2)
    content = Law(
        np.concatenate([tail_means[:1], mean, tail_means[1:]]),
        np.concatenate([np.exp(log_tails[:1]), mass, np.exp(log_tails[1:])]),
        mass_error=error,
        value_error=error,
    )
    nodes = np.append(0.0, np.exp(mu * edges - 0.5 * mu * mu))
    return settled(nodes, content, side)
