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
# Units for what is not a sum: products, quotients, splits, and a value that lands in the next cell.
_UNITS = 16.0
# Masses below this are not multiplied with each other.
_SMALLEST_MASS = 1e-150
# Cells are found in a table: a value's leading bits, counted from just below the first node. At most so
# many bits of the fraction, or entries in the table; so many of the bits for the narrowest cell.
_MOST_BITS, _LOG_ENTRIES, _CELL_BITS = 13, 20, 4
_FRACTION_BITS = 52
# Ten points on a cell not wider than this: composition.jump_decomposition proves less than a unit.
_GAUSS_POINTS = 10
WIDEST_CELL = 0.25
"""Cells of a normal variable that the Gauss rule integrates exactly in doubles."""

# Rounding of a cell of the normal law, in units of one plus the square of its distance: products, sums of
# ten terms, an exponential whose argument is off by two units of itself, and log_ndtr.
_QUADRATURE_UNITS = 32.0


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

    Wanted nodes are moved to the next boundary of the table below them; a few more may be `below` all
    of them and are looked up one by one.

    >>> grid = Grid(np.array([1.0, 2.0, 3.0]), np.array([0.25]))
    >>> grid.cells(np.array([0.2, 0.5, 1.0, 2.5, 9.0])).tolist()
    [0, 1, 2, 3, 4]
    """

    wanted: Array
    below: Array

    @cached_property
    def _bits(self) -> int:
        octaves = np.log2(self.wanted[-1] / self._start(_MOST_BITS)) + 2.0
        return int(min(_MOST_BITS, _LOG_ENTRIES - np.ceil(np.log2(octaves))))

    def _start(self, bits: int) -> float:
        """Distance of the first node from the origin: small enough to tell the closest nodes apart."""
        narrowest = float(np.min(np.diff(self.wanted), initial=np.inf))
        return min(float(self.wanted[0]), narrowest * 2.0 ** (bits - _CELL_BITS))

    @cached_property
    def _origin(self) -> float:
        return float(self.wanted[0]) - self._start(self._bits)

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        above = np.asarray(self.wanted - self._origin)
        return np.unique(above.view(np.int64) >> (_FRACTION_BITS - self._bits))

    @cached_property
    def nodes(self) -> Array:
        """The nodes, zero among them."""
        starts = (self._keys << (_FRACTION_BITS - self._bits)).view(np.float64)
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
        keys = above.view(np.int64) >> (_FRACTION_BITS - self._bits)
        keys -= self._keys[0] - 1
        np.clip(keys, 0, self._table.size - 1, out=keys)
        cells: NDArray[np.int64] = self._table[keys]
        low = cells == 0
        if low.any():
            cells[low] = np.searchsorted(self.below, values[low], side="right")
        return cells


def total(one: Law, other: Law, grid: Grid, side: Side) -> Law:
    """The law of a sum of independent variables, on the nodes of the grid, safe on this side."""
    moved = max(one.value_error, other.value_error)
    return _combined(one, other, grid, side, np.add, moved)


def product(one: Law, other: Law, grid: Grid, side: Side) -> Law:
    """The law of a product of independent variables of mean one, on the grid, safe on this side.

    x -> f(x y) is convex for y >= 0, so products keep the order as sums do. Of the means at infinity a
    and b, a b is counted twice, which can only raise.
    """
    moved = one.value_error + other.value_error
    return _combined(one, other, grid, side, np.multiply, moved)


def _combined(
    one: Law, other: Law, grid: Grid, side: Side, operation: np.ufunc, moved: float
) -> Law:
    """The law of the results, if those of exact values would be off by a factor 1 +- moved."""
    blocks = _doubled(one, operation) if one is other else _pairs(one, other, operation)
    size = grid.nodes.size
    mass, moment, count = np.zeros(size), np.zeros(size), 0
    for values, masses in blocks:
        cells = grid.cells(values).ravel()
        mass += np.bincount(cells, masses.ravel(), size)
        masses *= values
        moment += np.bincount(cells, masses.ravel(), size)
        count += 1
    longest = max(_BLOCK, one.values.size, other.values.size) + count + _UNITS
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(mass > 0.0, moment / mass, grid.nodes)
    content = Law(
        means,
        mass,
        one.beyond + other.beyond,
        one.mass_error + other.mass_error + longest * UNIT_ROUNDOFF,
        moved + 2.0 * longest * UNIT_ROUNDOFF,
    )
    return settled(grid.nodes, content, side)


def _pairs(one: Law, other: Law, operation: np.ufunc) -> Iterator[tuple[Array, Array]]:
    """All results for two values with the products of their masses, a block at a time."""
    rows = max(1, _BLOCK // other.values.size)
    for at in range(0, one.values.size, rows):
        part = slice(at, at + rows)
        yield (
            operation.outer(one.values[part], other.values),
            np.multiply.outer(one.masses[part], other.masses),
        )


def _doubled(one: Law, operation: np.ufunc) -> Iterator[tuple[Array, Array]]:
    """All results for two copies of one law: pairs off the diagonal blocks come twice."""
    rows = max(1, _BLOCK // one.values.size)
    for at in range(0, one.values.size, rows):
        part, rest = slice(at, at + rows), slice(at + rows, None)
        values, masses = one.values[part], one.masses[part]
        yield operation.outer(values, values), np.multiply.outer(masses, masses)
        if at + rows < one.values.size:
            yield (
                operation.outer(values, one.values[rest]),
                np.multiply.outer(2.0 * masses, one.masses[rest]),
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
        kept = mass > _SMALLEST_MASS
        return replace(content, values=means[kept], masses=mass[kept])
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

    Numerics: exponents are rounded relative to their size, which the errors account for.

    >>> law = lognormal(1.0, np.linspace(-8.0, 9.0, 100), Side.LOWER)
    >>> round(float(law.masses @ law.values), 12)
    1.0
    """
    half = 0.5 * np.diff(edges)
    middle = edges[:-1] + half
    move, weight = gauss_nodes(middle, half, _GAUSS_POINTS)
    inner = np.sum(weight, axis=1)
    mass = np.exp(-0.5 * middle**2) * inner * half / np.sqrt(2.0 * np.pi)
    growth = np.sum(weight * np.exp(mu * move), axis=1) / inner
    mean = np.exp(mu * middle - 0.5 * mu * mu) * growth
    ends = np.array([edges[0], -edges[-1]])
    log_tails, log_moments = log_ndtr(ends), log_ndtr(ends + np.array([-mu, mu]))
    tail_means = np.exp(log_moments - log_tails)
    reach = float(np.max(np.abs(edges))) + mu
    content = Law(
        np.concatenate([tail_means[:1], mean, tail_means[1:]]),
        np.concatenate([np.exp(log_tails[:1]), mass, np.exp(log_tails[1:])]),
        mass_error=_QUADRATURE_UNITS * UNIT_ROUNDOFF * (1.0 + reach**2),
        value_error=_QUADRATURE_UNITS * UNIT_ROUNDOFF * (1.0 + reach**2),
    )
    nodes = np.append(0.0, np.exp(mu * edges - 0.5 * mu * mu))
    return settled(nodes, content, side)
