"""Gaussian pairs whose distance is random and released: from any law of the distance to few components.

Given the distance m, delta is a function of the total variation y = 2 Phi(m/2) - 1 of the pair, with

    d delta / d y = e^{k/2} e^{-k^2 / (2 m^2)},

which rises with m: at every threshold k, delta is a convex function of y. So if the law of y is spread
to the two ends of a bin with its mean kept, delta(k) rises for all k at once, and if it is gathered at
its mean, delta(k) falls. Both are mixtures of finitely many Gaussian pairs, and they differ by the
square of the width of the bins (at k = 0 not at all). Moving mass to larger distances raises delta,
too; that is all that is needed where the law itself is known up to an interval.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, erfcx, gauss_rule, log_normal_calls
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import Pair
from sharpdp.pairs.released_index import ReleasedGaussians

__all__ = ["DistanceLaw", "gaussian_mixture_pair"]

Indices = NDArray[np.intp]

_SMALLEST_SHARE = 1e-6
"""Distances of this share of the largest are where bins of equal ratio begin."""

_RULE_ERROR = 2.0**-47
"""Error of a length that is integrated, relative to it."""


@dataclass(frozen=True, eq=False)
class DistanceLaw:
    """A law of distances: cell j has probability `mass`[j] and lies between `low`[j] and `high`[j].

    Given the cell, the mean distance is between low + least (high - low) and low + most (high - low).
    Cells may be points. If they overlap, only their ends are used. Masses and distances are right to a
    relative `mass_error` and `end_error`; with probability `beyond` the distance is not known at all.
    """

    low: Array
    high: Array
    mass: Array
    least: Array | float = 0.0
    most: Array | float = 1.0
    beyond: float = 0.0
    mass_error: float = 0.0
    end_error: float = 0.0

    def within(self, side: Side) -> DistanceLaw:
        """The law without the far tail of a very wide one, safe on the given side.

        So far apart a pair is told apart anyway, and bins that reach so far are rough: such cells count
        as not known from above, and as the largest distance that is kept from below.
        """
        order = np.argsort(self.high, kind="stable")
        level = np.cumsum(self.mass[order])
        middle = float(self.high[order][np.searchsorted(level, 0.5 * level[-1])])
        # so far apart, all but one result in e^(10^7) tell
        limit = max(1e4, 2.0 * middle)
        far = self.high > limit
        if not far.any():
            return self
        if side is Side.LOWER:
            return replace(self, low=np.minimum(self.low, limit), high=np.minimum(self.high, limit))
        lost = float(np.sum(self.mass[far])) * (1.0 + self.mass_error + UNIT_ROUNDOFF * far.size)
        least, most = (
            np.broadcast_to(shares, far.shape)[~far] for shares in (self.least, self.most)
        )
        low, high, mass = self.low[~far], self.high[~far], self.mass[~far]
        return replace(
            self, low=low, high=high, mass=mass, least=least, most=most, beyond=self.beyond + lost
        )

    def points(self, side: Side) -> Points:
        """One distance for each cell, whose y is on the given side of the cell's mean y.

        y is concave in the distance, with a slope that goes like w = e^{-m^2/8}. So its mean is at most
        y at the mean distance, and at least the chord's value there, for which

            y(low) + least (y(high) - y(low)) >= y(low + least (high - low) w(high) / w(low)).
        """
        keep = self.mass > 0.0
        low, high, mass = self.low[keep], self.high[keep], self.mass[keep]
        order = np.lexsort((high, low))
        low, high, mass = low[order], high[order], mass[order]
        apart = bool(np.all(high[:-1] <= low[1:]))
        least = np.broadcast_to(self.least, keep.shape)[keep][order] if apart else 0.0
        most = np.broadcast_to(self.most, keep.shape)[keep][order] if apart else 1.0
        if side is Side.UPPER:
            where = np.minimum(low + most * (high - low), high)
        else:
            slope = np.exp(-0.125 * (high - low) * (high + low))
            where = np.minimum(low + least * slope * (high - low), high)
        ends = np.concatenate([low, high]) if apart else where
        order = np.argsort(where, kind="stable")
        error = self.mass_error + 4.0 * UNIT_ROUNDOFF * mass.size
        outwards = 16.0 * UNIT_ROUNDOFF + self.end_error
        return Points(
            where[order], mass[order], np.unique(ends), side, error, outwards, self.beyond
        )


@dataclass(frozen=True, eq=False)
class Points:
    """Distances in increasing order, their masses, and the ends that bins may have."""

    where: Array
    mass: Array
    ends: Array
    side: Side
    error: float
    outwards: float
    beyond: float

    def spread(self, cuts: Array) -> tuple[Array, Array]:
        """Masses that go to the left and to the right end of each bin; the last bin is a point."""
        index = self._bins(cuts)
        left, right = cuts[index], np.append(cuts[1:], cuts[-1])[index]
        whole = _length(left, right - left, Side.LOWER)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.minimum(_length(left, self.where - left, Side.UPPER) / whole, 1.0)
        # in bins too narrow for a share to be known, everything goes to the right
        share = np.where(whole > 0.0, share, 1.0)
        share = np.where(self.where > left, share, 0.0)
        return _per_bin(cuts, index, self.mass * (1.0 - share)), _per_bin(
            cuts, index, self.mass * share
        )

    def gathered(self, cuts: Array) -> tuple[Array, Array]:
        """Mass of each bin, and a distance whose y is at most the bin's mean (its left end if empty)."""
        index = self._bins(cuts)
        mass = _per_bin(cuts, index, self.mass)
        lengths = _length(cuts[index], self.where - cuts[index], Side.LOWER)
        lengths = _per_bin(cuts, index, self.mass * lengths)
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(mass > 0.0, lengths / mass, 0.0) * (1.0 - 3.0 * self.error)
        width = np.append(np.diff(cuts), 0.0)
        offset = np.zeros(cuts.shape)
        for _ in range(6):
            # y is concave in the distance, so that steps from the left never go too far
            missing = np.maximum(mean - _length(cuts, offset, Side.UPPER), 0.0)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(missing > 0.0, missing / _slope(cuts, offset), 0.0)
            offset = np.minimum(offset + step * (1.0 - _RULE_ERROR), width)
        return mass, np.asarray(cuts + offset)

    @cached_property
    def look(self) -> tuple[Array, Array, Array]:
        """Bins of a first look, the gap of each at some thresholds, and delta there."""
        cuts = _trial(self)
        return (cuts, *_gaps(self, cuts))

    def _bins(self, cuts: Array) -> Indices:
        return np.searchsorted(cuts, self.where, side="right") - 1


def gaussian_mixture_pair(cells: DistanceLaw, side: Side) -> Pair:
    """Finitely many Gaussian pairs, index released, that are safe on one side for a law of distances.

    Numerics: masses keep their relative error; shares of a bin, distances and sums are rounded to the
    side. How many bins there are is decided by the tolerance, and by nothing that must be right.

    Source: wang2023 Theorem 5.1 for the mixture over a continuous index.

    >>> even = DistanceLaw(np.array([0.5, 1.0]), np.array([0.5, 1.0]), np.array([0.25, 0.75]))
    >>> lower, upper = (gaussian_mixture_pair(even, side).accuracy for side in Side)
    >>> lower == upper < 1e-11
    True
    """
    points = cells.points(side)
    if points.ends[-1] == 0.0:
        lost = points.beyond if side is Side.UPPER else 0.0
        return AtomicPair.from_pmfs([1.0 - lost, lost, 0.0], [1.0 - lost, 0.0, lost])
    # alone, and in compositions, where the losses of one step are small
    fine, coarse = (_mixture(points, *aim) for aim in ((2e-6, 46.0), (4e-4, 25.0)))
    return replace(fine, coarser=coarse)


def _mixture(points: Points, tolerance: float, nats: float) -> ReleasedGaussians:
    """The components for bins that are as fine as this tolerance asks for."""
    cuts = _cuts(points, tolerance, nats)
    if points.side is Side.UPPER:
        to_left, to_right = points.spread(cuts)
        shifts, weights = cuts * (1.0 + points.outwards), to_left + np.append(0.0, to_right[:-1])
    else:
        weights, shifts = points.gathered(cuts)
        shifts = shifts * (1.0 - points.outwards)
    still = float(np.sum(weights[shifts == 0.0]))
    used = (weights > 0.0) & (shifts > 0.0)
    revealed = points.beyond if points.side is Side.UPPER else 0.0
    if points.side is Side.LOWER:
        still += points.beyond
    # moving a bin outwards changes the shares in it: y is not linear
    bent = points.outwards * float(np.max(np.diff(cuts) * cuts[1:], initial=0.0))
    return ReleasedGaussians(
        tuple(shifts[used].tolist()),
        tuple(weights[used].tolist()),
        still,
        revealed,
        points.error + bent,
    )


def _cuts(points: Points, tolerance: float, nats: float) -> Array:
    """Ends of bins that keep the two sides within about the tolerance in log delta.

    Down to e^-nats of the largest delta; beyond that they hold just as well, but may be farther apart.

    A bin in k pieces leaves 1/k^2 of its gap; for each threshold the best split of a number of pieces
    goes with the cube root of the gaps.
    """
    # few ends are all used: a finite law stays as it is
    if points.ends.size <= 512:
        return points.ends
    cuts, share, size = points.look
    roots = np.cbrt(share[:, size > np.exp(-nats) * size[0]])
    totals = np.sum(roots, axis=0)
    pieces = np.max(roots[:-1] * np.sqrt(totals / tolerance), axis=1)
    pieces *= min(1.0, 12_000 / max(float(np.sum(pieces)), 1.0))
    passed = np.append(0.0, np.cumsum(pieces))
    levels = np.linspace(0.0, passed[-1], int(np.ceil(passed[-1])) + 1)
    # heavy points are ends of bins
    heavy = points.where[points.mass > 1e-3 * np.sum(points.mass)]
    return _snapped(points.ends, np.concatenate([np.interp(levels, passed, cuts), heavy]))


def _trial(points: Points) -> Array:
    """Bins for a first look: of equal width, of equal ratio, of equal mass."""
    edges, steps = points.ends, 65
    first, last = float(edges[0]), float(edges[-1])
    heaviness = np.cumsum(points.mass)
    levels = np.searchsorted(heaviness, np.linspace(0.0, heaviness[-1], steps))
    wanted = [
        np.linspace(first, last, steps),
        np.geomspace(max(first, _SMALLEST_SHARE * last), last, steps),
        points.where[np.minimum(levels, points.where.size - 1)],
    ]
    return _snapped(edges, np.concatenate([[first], *wanted, [last]]))


def _snapped(edges: Array, wanted: Array) -> Array:
    """The ends at or after the wanted places, each once, the first and the last among them."""
    places = np.searchsorted(edges, wanted).clip(0, edges.size - 1)
    return np.asarray(edges[np.unique(np.concatenate([[0], places, [edges.size - 1]]))])


def _gaps(points: Points, cuts: Array) -> tuple[Array, Array]:
    """Each bin's share of the distance between the two sides, relative to delta; and delta.

    Columns are thresholds, from zero to where the largest distance has a delta of 1e-20.
    """
    last = float(cuts[-1])
    # e^-46 is a tail of 9.6 deviations
    farthest = last * (9.6 + 0.5 * last)
    k = np.append(0.0, np.geomspace(_SMALLEST_SHARE * last, farthest, 48))
    to_left, to_right = points.spread(cuts)
    mass, middle = points.gathered(cuts)
    at_cuts, at_middle = _calls(cuts, k), _calls(middle, k)
    high = to_left[:, None] * at_cuts + to_right[:, None] * np.vstack([at_cuts[1:], at_cuts[-1:]])
    low = mass[:, None] * at_middle
    total = np.sum(low, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.maximum(high - low, 0.0) / total), total


def _per_bin(cuts: Array, index: Indices, mass: Array) -> Array:
    """The sum of the masses in each bin."""
    return np.asarray(np.bincount(index, mass, cuts.size), dtype=float)


def _calls(shifts: Array, k: Array) -> Array:
    """delta of Gaussian pairs at these distances, a row for each; 0 at distance 0."""
    value = np.zeros((shifts.size, k.size))
    moved = shifts > 0.0
    mu, loss = np.broadcast_arrays(shifts[moved, None], k)
    with np.errstate(divide="ignore", under="ignore", over="ignore"):
        value[moved] = np.exp(log_normal_calls(mu.ravel(), loss.ravel())).reshape(mu.shape)
    return value


def _slope(left: Array, offset: Array) -> Array:
    """The derivative of a length by its offset."""
    return np.asarray(np.exp(-0.125 * offset * (2.0 * left + offset)) / np.sqrt(2.0 * np.pi))


def _length(left: Array, offset: Array, side: Side) -> Array:
    """(y(left + offset) - y(left)) e^{left^2/8}, at least 0, rounded to a side.

    Where the slope hardly changes it is integrated by a Gauss rule, to full relative accuracy;
    elsewhere it is a difference of two values of erfcx.
    """
    half = 0.5 * offset
    near = np.zeros(np.shape(offset))
    for node, weight in zip(*gauss_rule(7), strict=True):
        near = near + weight * _slope(left, half * (1.0 + node))
    at_left = erfcx(left / np.sqrt(8.0))
    fall = np.sqrt(2.0 * np.pi) * _slope(left, offset)
    far = at_left - fall * erfcx((left + offset) / np.sqrt(8.0))
    # the exponent changes by less than a quarter
    is_near = (half < 0.5) & (half * (left + half) < 0.5)
    value = np.where(is_near, half * near, far)
    # relative to erfcx at the left end: two values of erfcx and an exponential
    error = np.where(is_near, _RULE_ERROR * value, 2.0**-46 * at_left)
    return np.asarray(value + error if side is Side.UPPER else np.maximum(value - error, 0.0))
