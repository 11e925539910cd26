"""Where to put the nodes of a law of partial sums or products, so that few of them do.

A first look with few values knows the density f of a partial sum and how much an error there would
matter: an error e(x) of its calls moves the call of the whole sum at c by the integral of
e(x) f_rest(c - x). Nodes are put with density (f times the largest such weight)^(1/3), which makes the
error of n nodes smallest, of order n^-2; some are spread over both tails, for thresholds that nobody
weighed. None of this is certified or needs to be: laws are safe on any nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.convex_order import Grid, Law
from sharpdp.numerics.special import Array

FIRST_VALUES = 128
"""Values per law in the first look, and half as many by octaves."""

# The share of nodes that is spread over both tails by depth alone, and over octaves below the mean: mass
# is moved to the left by every split, and must not get far.
_EVENLY, _LEFT = 0.12, 0.06
# Chords and tangents are f w^2 / 8 apart on average in a cell of width w.
_CELL_SHARE = 8.0
# Densities below this have no nodes.
_TINY = 1e-100


@dataclass(frozen=True, eq=False)
class NodeDensity:
    """The node density of one partial sum: places, and the share of nodes up to each."""

    places: Array
    shares: Array

    @classmethod
    def of(cls, law: Law, main: Array, mean: float) -> NodeDensity:
        """Most nodes by the given shares, some evenly."""
        return cls(law.values, (1.0 - _EVENLY - _LEFT) * main + _even_shares(law, mean))

    def nodes(self, count: int) -> Array:
        """`count` nodes, placed by the density."""
        rising = np.append(True, np.diff(self.shares) > 0.0)
        wanted = np.linspace(0.0, self.shares[-1], count)
        return np.unique(np.interp(wanted, self.shares[rising], self.places[rising]))

    def grid(self, count: int) -> Grid:
        """A grid with so many nodes, and some below them."""
        nodes = self.nodes(count)
        # nodes below the first one keep the little that gets there from being split to zero at once
        return Grid(nodes, nodes[0] * 2.0 ** (np.arange(-40.0, 0.0) / 4.0))


def _log_deltas(values: Array, masses: Array, mean: float) -> Array:
    """log delta of either direction at each value of a sum with this mean: calls above, puts below."""
    widths = np.diff(values)
    tails, heads = np.cumsum(masses[::-1])[::-1], np.cumsum(masses)
    calls = np.append(np.cumsum((tails[1:] * widths)[::-1])[::-1], 0.0) / mean
    puts = np.append(0.0, np.cumsum(heads[:-1] * widths)) / values
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.where(values >= mean, calls, puts)))


def _depths(values: Array, masses: Array, mean: float) -> tuple[Array, Array]:
    """log delta at each value, and a rising coordinate: roots of the nats below its largest value."""
    log_values = _log_deltas(values, masses, mean)
    nats = np.max(log_values) - log_values
    # there is nothing beyond the ends; a nat more keeps them apart from their neighbors
    nats = np.minimum(nats, np.max(nats[np.isfinite(nats)]) + 1.0)
    signs = np.where(values >= mean, 1.0, -1.0)
    return log_values, np.maximum.accumulate(signs * (np.sqrt(1.0 + nats) - 1.0))


def _octaves_below(values: Array, mean: float) -> Array:
    """Octaves by which each value is below the mean, as a rising coordinate up to zero."""
    return np.asarray(np.minimum(np.log2(values / mean), 0.0))


def _marks(values: Array, masses: Array, mean: float, depth: float) -> Array:
    """Nodes of the first look: evenly by depth."""
    log_values, depths = _depths(values, masses, mean)
    seen = log_values > -depth
    octaves = _octaves_below(values, mean)
    return np.unique(
        np.concatenate(
            [
                np.interp(
                    np.linspace(line[seen][0], line[seen][-1], count), line[seen], values[seen]
                )
                for line, count in ((depths, FIRST_VALUES), (octaves, FIRST_VALUES // 2))
            ]
        )
    )


def rough(law: Law, other: Law, operation: np.ufunc, mean: float, depth: float) -> Law:
    """About the law of a sum or a product with this mean, on few values."""
    values = operation.outer(law.values, other.values).ravel()
    order = np.argsort(values)
    values = values[order]
    masses = np.multiply.outer(law.masses, other.masses).ravel()[order]
    return merged(values, masses, mean, depth)


def merged(values: Array, masses: Array, mean: float, depth: float) -> Law:
    """Rising values with masses, merged in few cells whose means are apart from each other."""
    cells = np.searchsorted(_marks(values, masses, mean, depth), values, side="right")
    law = _gathered(values, masses, cells)
    # closer values are merged: slopes and densities between them are noise
    steps = np.diff(law.values) > 2.0**-36 * law.values[1:]
    return _gathered(law.values, law.masses, np.append(0, np.cumsum(steps)))


def _gathered(values: Array, masses: Array, cells: NDArray[np.intp]) -> Law:
    """The mean of each cell, with its mass; cells without mass are left out."""
    mass = np.asarray(np.bincount(cells, masses), dtype=float)
    heavy = mass > 0.0
    return Law(np.bincount(cells, masses * values)[heavy] / mass[heavy], mass[heavy])


def _even_shares(law: Law, mean: float) -> Array:
    """The share of nodes up to each value of a law that go by depth and by octaves."""
    _, depths = _depths(law.values, law.masses, mean)
    octaves = _octaves_below(law.values, mean)
    lines = [(line - line[0]) / (line[-1] - line[0]) for line in (depths, octaves)]
    return np.asarray(_EVENLY * lines[0] + _LEFT * lines[1])


def _log_density(law: Law) -> Array:
    """log of the density of a law at its values, from the distances of its values."""
    middles = 0.5 * (law.values[1:] + law.values[:-1])
    edges = np.concatenate([law.values[:1], middles, law.values[-1:]])
    return np.asarray(np.log(law.masses) - np.log(np.diff(edges)))


def _shares(density: Array, places: Array) -> tuple[Array, float]:
    """The share of an integral up to each place, and the integral."""
    pieces = 0.5 * (density[1:] + density[:-1]) * np.diff(places)
    sums = np.append(0.0, np.cumsum(pieces))
    return sums / sums[-1], float(sums[-1])


@dataclass(frozen=True, eq=False)
class ErrorWeights:
    """The law of the whole sum in the first look, with thresholds and what an error there would cost."""

    law: Law
    steps: int
    places: Array
    log_density: Array
    log_worth: Array

    @classmethod
    def of(cls, law: Law, steps: int, depth: float) -> ErrorWeights:
        """Errors count relative to epsilon, in the worse direction."""
        values, losses = law.values, np.log(law.values / steps)
        log_values = _log_deltas(values, law.masses, float(steps))
        seen = log_values > -depth
        call = seen & (losses > 0.0)
        other = np.interp(-losses, losses[call], log_values[call], right=-np.inf)
        worst = np.where(losses > 0.0, log_values, np.maximum(log_values, other))
        scale = np.log(np.where(losses > 0.0, float(steps), values))
        worth = (-worst - scale)[seen]
        # how fast log delta falls with log epsilon: that much more error is allowed
        fall = np.abs(np.gradient(worst[seen], losses[seen]) * losses[seen])
        # next to epsilon = 0 log delta hardly falls with log epsilon: widths count as if it did
        worth -= np.log(np.maximum(fall, 0.5))
        return cls(law, steps, values[seen], _log_density(law)[seen], worth)

    def last(self, law: Law) -> tuple[Array, float, Array]:
        """Shares of nodes for the whole sum: by the root of the error, and for its own convolutions."""
        log_root = np.interp(law.values, self.places, 0.5 * (self.log_density + self.log_worth))
        root, _ = _shares(np.exp(log_root), law.values)
        bulk, _ = _shares(np.exp(_log_density(law) / 3.0), law.values)
        return 0.5 * (root + bulk), 1.0, np.zeros(self.places.size)

    def weighed(self, law: Law, size: int) -> tuple[Array, float, Array]:
        """Shares of nodes for a partial sum, its weight, and the error at all thresholds, times count^2.

        The rest of the sum is taken to have the density of the whole one, moved to its mean.
        """
        arrival = self.places - law.values[:, None] + size
        log_rest = np.interp(arrival, self.places, self.log_density, left=-np.inf, right=-np.inf)
        log_path = np.log(law.masses)[:, None] + log_rest
        peak = np.max(log_path, axis=0)
        path = np.exp(log_path - peak)
        log_total = peak + np.log(np.sum(path, axis=0))
        # the number of such parts times their density at each threshold, relative to what counts
        log_cost = self.log_density + self.log_worth + np.log(self.steps / size / _CELL_SHARE)
        log_weight = np.max(log_rest - log_total + log_cost, axis=1)
        log_density = _log_density(law)
        density = np.exp((log_density + log_weight) / 3.0)
        density *= np.sqrt(_shares(density, law.values)[1])
        density = np.maximum(density, self._alone(law, size, log_density))
        shares, integral = _shares(density, law.values)
        with np.errstate(over="ignore"):
            squares = np.minimum(integral / np.maximum(density, _TINY), 1.0 / _TINY) ** 2
        error = (squares @ (path / np.sum(path, axis=0))) * np.exp(log_cost)
        return shares, integral**2, np.asarray(error)

    def _alone(self, law: Law, size: int, log_density: Array) -> Array:
        """Density of nodes for thresholds that one part reaches by itself, the rest at its mean.

        Where the rest is narrower than the scale on which f changes, each threshold sees the error of
        its own cell, and equal errors ask for the root of f instead of the cube root.
        """
        log_worth = np.interp(law.values + (self.steps - size), self.places, self.log_worth)
        with np.errstate(divide="ignore"):
            log_scale = np.log(np.abs(law.values - size)) + np.max(self.log_density)
        log_parts = np.log(self.steps / size / _CELL_SHARE)
        return np.asarray(
            np.exp(0.5 * (log_density + log_parts + log_worth + np.minimum(log_scale, 0.0)))
        )
