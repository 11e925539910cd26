"""Sums over many batches, each the worst for its threshold, from above, at many thresholds at once.

    E[(W_1 + ... + W_T - shift)_+],

with independent copies of a variable W that has the positive part of one difference of likelihood ratios
and the negative part of another. With the ratios R1 = e^{z/s - 1/(2 s^2)} and R2 = e^{2 z/s - 2/s^2} of
normal distributions at distance one and two, z normal and s the noise, and x = e^loss, these are

    forward    above = R2 - x R1,  below = 1 - x R1    for H_x(P||Q), zero-out
    backward   above = R1 - x,     below = R1 - x R2   for H_x(Q||P), zero-out
    replaced   above = R2 - x,     below = 1 - x R2    for replace-one, both directions

For one x this is a contour integral (`numerics.expected_positive_part`) after three changes that only
raise it: W is spread onto the ends of cells with its mean kept, values above a cap are cut and what is
cut off, T E(W - cap)_+, is added, and values below a floor are raised to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sharpdp.numerics.expected_positive_part import Sums
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_rule, ndtr

__all__ = ["Laws", "WorstBatches"]

_CELLS, _ESTIMATE_CELLS = (120, 80), (40, 30)
_FEW_CELLS, _FEWER_CELLS = 100, 40
"""Cells above zero and below, and for estimates; cells from which cap and floor are chosen, likewise."""

_GAUSS_POINTS, _GRID_POINTS, _FEW_POINTS = 10, 8, 2
_FIRST_POINTS = 48
"""On a grid the cell next to zero is up to nine deviations wide if the loss is large."""

_REACH = 9.5
"""How far cells reach, in deviations: mass beyond is 1e-21 and counts at its full value."""

_CAP_DRIFTS, _CAP_SPREADS = 1.2, 3.0
"""The cap is this many times what the other batches lack on average, and so many of their deviations."""

_FLOOR_MEANS, _FLOOR_SPREADS = 1.5, 4.0
"""The floor is so many times the mean of the positive parts, and so many of their deviations."""

_VALUE_UNITS, _MARGIN = 256.0 * UNIT_ROUNDOFF, 1e-9
"""Rounding of values relative to the ratios that they are differences of, and of all that is added up."""

Distances = tuple[float, float]


@dataclass(frozen=True)
class Laws:
    """For each loss values with their weights and errors, and the mean of what is beyond the last."""

    weights: Array
    values: Array
    errors: Array
    beyond: Array


@dataclass(frozen=True)
class WorstBatches:
    """Sums of copies of W: for each row the loss, how many copies there are, and what is subtracted."""

    noise: float
    kind: str
    losses: Array
    counts: Array
    shifts: Array

    def log_values(self, tolerances: Array, log_least: Array) -> Array:
        """Upper bounds on the log of each mean, within these shares of it if work can do it.

        Not so where Chernoff's bound is already below `log_least`.
        """
        laws = self._laws(self._stops(_FEW_CELLS), _CELLS, _GAUSS_POINTS)
        values = laws.values - (self.shifts / self.counts)[:, None]
        errors = laws.errors + 4.0 * UNIT_ROUNDOFF * np.abs(values)
        sums = Sums(laws.weights, values, errors, self.counts)
        tilts = sums.tilts()
        log_high = sums.log_ceilings(tilts)
        rows = np.flatnonzero(log_high > log_least)
        _, sharp = sums.chosen(rows).log_values(tilts[rows], tolerances[rows])
        log_high[rows] = np.minimum(log_high[rows], sharp)
        return np.asarray(np.logaddexp(log_high, np.log(self.counts * laws.beyond)))

    def log_estimates(self) -> Array:
        """About the same, as if tilted sums were normal: for plans."""
        laws = self._laws(self._stops(_FEWER_CELLS), _ESTIMATE_CELLS, _FEW_POINTS)
        values = laws.values - (self.shifts / self.counts)[:, None]
        sums = Sums(laws.weights, values, np.zeros(values.shape), self.counts)
        return np.asarray(
            np.logaddexp(sums.log_estimates(sums.tilts()), np.log(self.counts * laws.beyond))
        )

    def limits(self) -> tuple[Array, Array]:
        """Cap and floor, both positive: larger values count in full, and smaller ones as the floor."""
        up, down = self._distances
        above, below = self._stops(_FEW_CELLS)
        return self._differences(above, up)[0], -self._differences(below, down)[0]

    def spread(self, sizes: Array) -> Laws:
        """One copy of W on zero and on values of these sizes, a rising row for each loss, of both signs.

        The cells in between keep its mean; values below the lowest are raised to it.
        """
        up, down = self._distances
        parts = [self._spread(distances, sizes) for distances in (up, down)]
        (high, high_error, last), (low, low_error, _) = parts
        zero = np.zeros((self.losses.size, 1))
        rest = 1.0 - (ndtr(-self._starts(up)) + ndtr(-self._starts(down)))
        middle = np.maximum(rest, 0.0)[:, None] + high[:, :1] + low[:, :1]
        past, gained, lost = ndtr(
            -np.array([last, last - up[0] / self.noise, last - up[1] / self.noise])
        )
        beyond = gained - np.exp(self.losses) * lost - sizes[:, -1] * past
        return Laws(
            np.hstack([low[:, :0:-1], middle, high[:, 1:]]),
            np.hstack([-sizes[:, ::-1], zero, sizes]),
            np.hstack([low_error[:, ::-1], zero, high_error]),
            np.maximum(beyond, 0.0) + _MARGIN * gained,
        )

    def _spread(self, distances: Distances, sizes: Array) -> tuple[Array, Array, Array]:
        """Weights of zero and of these sizes, their errors, and the z of the last one."""
        z = self._places(distances, sizes)
        edges = np.hstack([self._starts(distances)[:, None], z])
        weights, values, errors = self._on(distances, edges, _GRID_POINTS, _FIRST_POINTS)
        weights[:, -1] += ndtr(-z[:, -1])
        return weights, errors[:, 1:] + np.abs(np.abs(values[:, 1:]) - sizes), z[:, -1]

    def _places(self, distances: Distances, sizes: Array) -> Array:
        """The z at which the difference has these sizes."""
        first, second = distances
        s, x = self.noise, np.exp(self.losses)[:, None]
        if min(distances) == 0.0:
            distance = max(distances)
            ratio = x + sizes if second == 0.0 else (1.0 + sizes) / x
            return np.asarray(s * np.log(ratio) / distance + 0.5 * distance / s)
        # leading R1^2 - linear R1 = size, with R2 = e^{-1/s^2} R1^2
        leading, linear = (1.0, x) if first > second else (x, 1.0)
        leading = leading * math.exp(-1.0 / s**2)
        root = np.sqrt(linear * linear + 4.0 * leading * sizes)
        return np.asarray(s * np.log(0.5 * (linear + root) / leading) + 0.5 / s)

    @property
    def _distances(self) -> tuple[Distances, Distances]:
        """The distances of the two ratios in `above`, and of those in `below`."""
        return {
            "forward": ((2.0, 1.0), (0.0, 1.0)),
            "backward": ((1.0, 0.0), (1.0, 2.0)),
            "replaced": ((2.0, 0.0), (0.0, 2.0)),
        }[self.kind]

    def _differences(self, z: Array, distances: Distances) -> tuple[Array, Array]:
        """The difference of two ratios at some z of each row, and the sum of their sizes."""
        x = np.exp(self.losses).reshape(-1, *[1] * (z.ndim - 1))
        first, second = (
            np.exp(distance * z / self.noise - 0.5 * (distance / self.noise) ** 2)
            for distance in distances
        )
        second *= x
        return first - second, first + second

    def _starts(self, distances: Distances) -> Array:
        """The z from which on the difference has the sign that it has for large z."""
        first, second = distances
        s = self.noise
        return np.asarray(0.5 * (first + second) / s + s * self.losses / (first - second))

    def _farthest(self, distances: Distances) -> Array:
        """The last z that is looked at: beyond it the larger ratio has next to no mass."""
        return np.maximum(max(distances) / self.noise + _REACH, self._starts(distances) + 1.0)

    def _laws(self, stops: tuple[Array, Array], cells: tuple[int, int], points: int) -> Laws:
        """W spread onto cells that end at these z, above zero and below."""
        (up, down), (above, below), s = self._distances, stops, self.noise
        places = [self._starts(up), self._starts(down), above, below]
        moved = [above - up[0] / s, above - up[1] / s]
        positive, negative, past, past_below, gained, lost = ndtr(-np.array([*places, *moved]))
        high = self._part(up, above, cells[0], points)
        low = self._part(down, below, cells[1], points)
        high[0][:, -1] += past
        low[0][:, -1] += past_below
        zero = np.zeros((self.losses.size, 1))
        rest = np.maximum(1.0 - (positive + negative), 0.0)[:, None]
        # E(W - value)_+ for the value at the stop, rounded up
        beyond = gained - np.exp(self.losses) * lost - high[1][:, -1] * past
        return Laws(
            np.hstack([low[0][:, ::-1], rest, high[0]]),
            np.hstack([low[1][:, ::-1], zero, high[1]]),
            np.hstack([low[2][:, ::-1], zero, high[2]]),
            np.maximum(beyond, 0.0) + _MARGIN * gained,
        )

    def _part(
        self, distances: Distances, stops: Array, cells: int, points: int
    ) -> tuple[Array, Array, Array]:
        """Weights, values and errors of one sign, on cells from the start to the stop, none beyond."""
        edges = np.linspace(self._starts(distances), stops, cells, axis=-1)
        return self._on(distances, edges, points, points)

    def _on(
        self, distances: Distances, edges: Array, points: int, first_points: int
    ) -> tuple[Array, Array, Array]:
        """The same on cells with these edges, of which the first is the start."""
        values, sizes = self._differences(edges, distances)
        values[:, 0] = 0.0
        weights = np.zeros(values.shape)
        for first, last, number in ((0, 1, first_points), (1, edges.shape[1] - 1, points)):
            cells = slice(first, last + 1)
            near, far = self._shares(distances, edges[:, cells], values[:, cells], number)
            weights[:, first:last] += near
            weights[:, first + 1 : last + 1] += far
        return weights, values, _VALUE_UNITS * (1.0 + np.abs(edges) / self.noise) * sizes

    def _shares(
        self, distances: Distances, edges: Array, values: Array, points: int
    ) -> tuple[Array, Array]:
        """What of each cell goes to its near end and to its far one."""
        nodes, node_weights = gauss_rule(points)
        half = 0.5 * np.diff(edges)[:, :, None]
        z = edges[:, :-1, None] + half * (nodes + 1.0)
        density = np.exp(-0.5 * z * z) * (half * node_weights / np.sqrt(2.0 * np.pi))
        width = np.diff(values)[:, :, None]
        up = self._differences(z, distances)[0]
        up -= values[:, :-1, None]
        # in a cell that is lost in rounding any share is covered by the errors of its ends
        np.divide(up, width, out=up, where=width != 0.0)
        np.clip(up, 0.0, 1.0, out=up)
        return np.sum(density * (1.0 - up), axis=2), np.sum(density * up, axis=2)

    def _stops(self, cells: int) -> tuple[Array, Array]:
        """Where to put the cap and the floor for so many copies that have to make up for the shift.

        Any choice is safe; this one makes jumps beyond the cap decisive, and a value at the floor fatal.
        """
        up, down = self._distances
        ends = self._farthest(up), self._farthest(down)
        high = self._part(up, ends[0], cells, _FEW_POINTS)
        low = self._part(down, ends[1], cells, _FEW_POINTS)
        count, shift = self.counts[:, None], self.shifts[:, None]
        mean, square = _clipped_moments(high[0], high[1])
        floors = _FLOOR_MEANS * count * mean + _FLOOR_SPREADS * np.sqrt(count * square)
        below, below_square = _clipped_moments(low[0], -low[1])
        floors = np.maximum(floors, high[1])
        index = np.array(
            [np.searchsorted(-row, floor) for row, floor in zip(low[1], floors, strict=True)]
        )
        index = np.minimum(index, cells - 1)
        mean = mean - np.take_along_axis(below, index, axis=1)
        square = square + np.take_along_axis(below_square, index, axis=1)
        needed = _CAP_DRIFTS * (shift - count * mean)
        needed = needed + _CAP_SPREADS * np.sqrt(count * np.maximum(square - mean**2, 0.0))
        enough = high[1] >= np.maximum(needed, high[1][:, 1:2])
        chosen = np.where(enough.any(axis=1), np.argmax(enough, axis=1), cells - 1)
        lowest = np.maximum(index[np.arange(chosen.size), chosen], 1)
        shares = chosen / (cells - 1.0), lowest / (cells - 1.0)
        above, under = (
            self._starts(way) + share * (end - self._starts(way))
            for way, share, end in zip((up, down), shares, ends, strict=True)
        )
        return above, under


def _clipped_moments(weights: Array, values: Array) -> tuple[Array, Array]:
    """Means and mean squares of min(value, cap) for a cap at each of the rising values."""
    tail = np.cumsum(weights[:, ::-1], axis=1)[:, ::-1] - weights
    mean = np.cumsum(weights * values, axis=1) + tail * values
    square = np.cumsum(weights * values**2, axis=1) + tail * values**2
    return mean, square
