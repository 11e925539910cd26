"""Trade-off curves at many rates: all read off one table of the profile, which grows where they are open.

The largest true-positive rate is the smallest H_x + x alpha, the smallest false-negative rate the largest
1 - H_x - x alpha (see `false_negatives`). H and H - 1 are convex in x and fall with slopes between -1 and
0, so that one `ConvexTable` bounds the rates at every alpha; it begins with what is known without any
work, that H is 1 at x = 0 and at most the total variation at x = 1. Where that leaves a rate open,
points are added next to where its line touches the table, all of them in one pass; where delta itself is
not known well enough, it is asked again, more sharply.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.convex_table import ConvexTable
from sharpdp.numerics.special import Array, exp_up, one_minus_ends, one_minus_up
from sharpdp.profile.false_negatives import (
    FARTHEST,
    FINEST,
    FullProfile,
    false_negatives,
    hit_points,
    missed_lines,
    true_positives,
)
from sharpdp.profile.kept import ProfilePoints
from sharpdp.profile.many_questions import QUICK_WIDTH, SHARE_OF_QUICK

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

Ends = tuple[Array, Array]
"""All lower and all upper ends."""

FEW = 3
"""So many rates are asked one by one, unless all steps are sampled Gaussians or have listed outcomes."""

_SHARE = 0.1
"""The part of the width asked that a table may leave open: points cost little beside their first one."""

_OF_THE_REST = 0.01
"""What is left of a true-positive rate next to one is known this well, relative to itself, at least."""

_ROUGH = 0.05
"""From this width on a question is a first look, which need not be sharper than asked."""

_ROUNDS = 12
"""How often points are added at most, for each sharpness of delta."""

_COARSE, _FIRST_LOOK = 0.02, 1e-3
"""How well delta is known, in its logarithm: at first, and where that leaves rates open."""

_USUAL, _SMALLEST, _UNITS = 1e-100, 1e-300, 2.0**500
"""Rates above the first are read off a table as they are, those from the second on in the last units."""

_LARGEST_EXPONENT = 700.0
"""Thresholds beyond this have no normal doubles as exponentials."""

_APART = 1e-11
"""Neighbors in the table differ by this share of themselves at least: their chords would be noise."""


def false_negative_rates(composition: Composition, alphas: Array, tolerance: float) -> Ends:
    """`false_negatives` at many rates in one pass: all lower and all upper ends."""
    low, high = _missed(composition, alphas, tolerance, alphas.size)
    # next to one they are better read off the true positives
    later = np.flatnonzero(np.isnan(low) & (alphas <= _USUAL))
    below, above = one_minus_ends(*_tiny_hits(composition, alphas[later], tolerance))
    low[later], high[later] = below, above
    for index in np.flatnonzero(np.isnan(low)):
        low[index], high[index] = false_negatives(composition, float(alphas[index]), tolerance)
    return low, high


def _missed(composition: Composition, alphas: Array, tolerance: float, asked: int) -> Ends:
    """False-negative rates that one table closes; NaN where it leaves them open.

    `asked` counts all rates of the question, of which these may be a few.
    """

    def values(epsilons: Array, low: Array, high: Array) -> Ends:
        below, above = missed_lines(epsilons, 0.0, low, high)
        return -above, -below

    floor = -one_minus_up(composition.infinite_p_ends[0])
    below, above = _read_off(composition, alphas, tolerance, values, 0.0, floor, asked)
    return np.maximum(-above, 0.0), np.minimum(-below, np.nextafter(1.0 - alphas, 1.0))


def true_positive_rates(composition: Composition, alphas: Array, tolerance: float) -> Ends:
    """`true_positives` at many rates in one pass: all lower and all upper ends."""
    floor = composition.infinite_p_ends[0]
    low, high = _read_off(composition, alphas, tolerance, _hits, 1.0, floor, alphas.size)
    low, high = np.maximum(low, np.maximum(alphas, floor)), np.minimum(high, 1.0)
    # next to one they are better read off the false negatives
    later = np.flatnonzero(low > 0.5)
    if later.size:
        rough = max(tolerance, _OF_THE_REST)
        missed_low, missed_high = _missed(composition, alphas[later], rough, alphas.size)
        below, above = one_minus_ends(missed_low, missed_high)
        low[later], high[later] = np.fmax(low[later], below), np.fmin(high[later], above)
    tiny = np.flatnonzero(np.isnan(low) & (alphas <= _USUAL))
    low[tiny], high[tiny] = _tiny_hits(composition, alphas[tiny], tolerance)
    for index in np.flatnonzero(np.isnan(low)):
        low[index], high[index] = true_positives(composition, float(alphas[index]), tolerance)
    return low, high


def _hits(epsilons: Array, low: Array, high: Array) -> Ends:
    """H_x at some thresholds."""
    return hit_points(epsilons, 0.0, low, high)


def _tiny_hits(composition: Composition, alphas: Array, tolerance: float) -> Ends:
    """True-positive rates below 1/2 at tiny rates, from a table in another unit; NaN where it is open.

    Small numbers in units of 2^-500 are ordinary ones, and so are lines with such slopes.
    """
    low, high = np.full(alphas.size, np.nan), np.full(alphas.size, np.nan)
    seen = np.flatnonzero(alphas >= _SMALLEST)
    if seen.size <= FEW:
        return low, high

    def values(epsilons: Array, low: Array, high: Array) -> Ends:
        return hit_points(epsilons, 0.0, low, high, scale=_UNITS)

    floor = composition.infinite_p_ends[0]
    lines = _UNITS * alphas[seen]
    below, above = _read_off(
        composition, lines, tolerance, values, _UNITS, _UNITS * floor, seen.size, _UNITS
    )
    below, above = np.maximum(below / _UNITS, np.maximum(alphas[seen], floor)), above / _UNITS
    small = above < 0.5  # false for NaN too
    low[seen[small]], high[seen[small]] = below[small], above[small]
    return low, high


def _read_off(
    composition: Composition,
    alphas: Array,
    tolerance: float,
    values: Callable[[Array, Array, Array], Ends],
    start: float,
    floor: float,
    asked: int,
    units: float = 1.0,
) -> Ends:
    """Bounds on min_x y(x) + x alpha for the function with these values, `start` at x = 0 and a floor.

    NaN for extreme rates, for few rates whose points may take long unless many were asked, and where the
    table leaves an answer wider than asked. Rates, values and answers may be in other units.
    """
    low, high = np.full(alphas.size, np.nan), np.full(alphas.size, np.nan)
    least, most = (_USUAL, 1.0) if units == 1.0 else (0.0, np.inf)
    left = np.flatnonzero((alphas > least) & (alphas < most))
    is_few = left.size <= FEW and asked <= FEW
    is_sampled = is_few and composition.is_near(0.0)
    # a single pair is asked as sharply as doubles allow; others have quick bounds next to one
    if not left.size or (is_few and not is_sampled and not composition.is_composed_of_outcomes):
        return low, high
    if not is_few and tolerance >= QUICK_WIDTH:
        composition = composition.for_many_rates
    share = 1.0 if tolerance >= _ROUGH else SHARE_OF_QUICK if composition.is_quick else _SHARE
    x, first = np.array([0.0, 1.0]), np.array([start, floor])
    if units == 1.0 and composition.least_sum_of_variations <= share * tolerance:
        variation = min(exp_up(composition.log_total_variation_upper), 1.0)
        second = np.array([start, variation + start - 1.0 + 4e-16])
        table = ConvexTable(x, first, second, floor)
        at_hand = TableSearch(table, np.log(x), values, tolerance, share)
        left = at_hand.close(alphas, left, low, high)
        if not left.size:
            return low, high
    # a point at one would be known too badly to go on with
    table = ConvexTable(x[:1], first[:1], first[:1], floor, units)
    search = TableSearch(table, np.log(x[:1]), values, tolerance, share, units)
    kept = composition.kept.points.epsilons
    if kept.size:
        search.join(composition.kept.points)
        left = search.close(alphas, left, low, high)
        if not left.size:
            return low, high
    finest = min(max(0.2 * tolerance, FINEST), _FIRST_LOOK)
    levels = [_COARSE, finest, 0.125 * finest, 0.01 * finest]
    if composition.single_pair is not None:
        levels = [finest]
    for level in levels:
        profile = FullProfile(composition, composition.reverse(), max(level, FINEST))
        search.asked = search.epsilons[:0]
        if level is levels[0] and (not kept.size or search.touches_ends):
            grid = _first_grid(profile, alphas[left] / units)
            new = (grid < kept.min()) | (grid > kept.max()) if kept.size else grid == grid
            composition.prepare(grid[new])
            search.add(profile, grid[new])
        for _ in range(_ROUNDS):
            if search.open is None:
                left = search.close(alphas, left, low, high)
            if not left.size or not (more := search.wanted()).size:
                break
            search.add(profile, more)
        left = search.close(alphas, left, low, high, wide=True)
        if not left.size:
            break
    composition.keep_profile(search.points)
    return low, high


def _first_grid(profile: FullProfile, alphas: Array) -> Array:
    """Thresholds between those at which lines with the extreme alphas touch, not certified."""
    log_rate = float(np.log(alphas.min()))
    first, last = -np.inf, np.inf
    if profile.composition.single_pair is None:
        last, before = profile.composition.reach_both_ways(log_rate, float(np.log1p(-alphas.max())))
        first, last = -before, min(last, -log_rate)
    if not last - first < FARTHEST:
        ends = (float(alphas.min()), float(alphas.max()))
        (last, _), (first, _) = (profile.argmax(alpha) for alpha in ends)
    first, last = np.clip([first, last], -_LARGEST_EXPONENT, _LARGEST_EXPONENT).tolist()
    if not last > first:
        return np.array([first])
    # where the finest engine answers points cost next to nothing
    few, most = (97, 769) if profile.composition.is_near(last - first) else (17, 129)
    return np.linspace(first, last, min(most, few + 8 * alphas.size))


@dataclass(frozen=True)
class OpenRates:
    """Rates whose answers are not narrow enough, with what the table says of them (see `minima`)."""

    alphas: Array
    below: Array
    above: Array
    best: NDArray[np.intp]
    cell: NDArray[np.intp]
    is_corner: NDArray[np.bool_]


@dataclass
class TableSearch:
    """A table that grows, the logarithms of its points, and the function whose values it holds."""

    table: ConvexTable
    epsilons: Array
    values: Callable[[Array, Array, Array], Ends]
    tolerance: float
    share: float
    units: float = 1.0
    open: OpenRates | None = None
    points: ProfilePoints = field(default_factory=lambda: ProfilePoints())
    asked: Array = field(default_factory=lambda: np.zeros(0))
    """Thresholds at which delta is as sharp as it gets with the profile that is asked."""

    def close(
        self, alphas: Array, left: NDArray[np.intp], low: Array, high: Array, *, wide: bool = False
    ) -> NDArray[np.intp]:
        """Write the answers that are narrow enough, or as narrow as asked; the others are left."""
        if not left.size:
            return left
        below, above, best, cell, is_corner = self.table.minima(alphas[left])
        closed = above - below <= (1.0 if wide else self.share) * self._allowed(below, above)
        low[left[closed]], high[left[closed]] = below[closed], above[closed]
        still = ~closed
        self.open = OpenRates(
            alphas[left[still]],
            below[still],
            above[still],
            best[still],
            cell[still],
            is_corner[still],
        )
        return left[~closed]

    @property
    def touches_ends(self) -> bool:
        """Whether some line that is open touches before the first or behind the last point."""
        assert self.open is not None
        return bool(np.isin(self.open.cell, (0, self.epsilons.size - 1)).any())

    def _allowed(self, below: Array, above: Array) -> Array:
        """The width that is asked for."""
        return self.tolerance * np.maximum(np.abs(below), np.abs(above))

    def add(self, profile: FullProfile, epsilons: Array) -> None:
        """Points at more thresholds, or sharper values at those that are known."""
        self.join(ProfilePoints(epsilons, *profile.log_deltas(epsilons)))
        self.asked = np.append(self.asked, epsilons)

    def join(self, points: ProfilePoints) -> None:
        """Points whose log deltas are known."""
        self.open = None
        self.points = self.points.joined(points)
        low, high = self.values(points.epsilons, points.low, points.high)
        self.table = self.table.joined(np.exp(points.epsilons), low, high)
        every = np.unique(np.append(self.epsilons, points.epsilons))
        # two thresholds may have the same exponential
        self.epsilons = every if every.size == self.table.x.size else np.log(self.table.x)

    def wanted(self) -> Array:
        """Thresholds of points that would help what is open: known ones if delta is too vague there.

        A cell of width w leaves open about as much as w^2. If many lines touch one cell it is cut into
        equal pieces; otherwise three points are put around each corner.
        """
        assert self.open is not None
        alphas, below, above = self.open.alphas, self.open.below, self.open.above
        best, cell, is_corner = self.open.best, self.open.cell, self.open.is_corner
        width = above - below
        need = np.sqrt(width / (self.share * self._allowed(below, above)))
        cell = np.where(~is_corner & (best < cell), cell - 1, cell)
        last = self.epsilons.size - 1
        near = np.stack([best - 1, best, best + 1, cell, cell + 1]).clip(1, last)
        vague = (self.table.high - self.table.low)[near[1:]].max(axis=0)
        open_ = (need > 1.0) & (vague < 0.2 * width)
        again = np.setdiff1d(self.epsilons[near[:, (need > 1.0) & ~open_]], self.asked)
        inner = open_ & (cell > 0) & (cell < last)
        more = [self._outside(alphas, open_, cell)]
        if inner.any():
            cells, index = np.unique(cell[inner], return_inverse=True)
            pieces = np.full(cells.size, 2.0)
            np.maximum.at(pieces, index, np.minimum(np.ceil(need[inner]), 16.0))
            spacing = self.epsilons[cells + 1] - self.epsilons[cells]
            is_shared = 3.0 * np.bincount(index) >= pieces - 1.0
            for parts in np.unique(pieces[is_shared]).tolist():
                chosen = is_shared & (pieces == parts)
                inside = np.arange(1.0, parts) / parts
                starts, widths = self.epsilons[cells[chosen]], spacing[chosen]
                more.append((starts[:, None] + widths[:, None] * inside).ravel())
            alone = np.flatnonzero(inner)[~is_shared[index]]
            if alone.size <= FEW:
                more += [self._around(alphas[i], best[i], cell[i], need[i]) for i in alone]
            else:
                corner = np.log(self.table.corners[0][cell[alone]])
                step = spacing[index[~is_shared[index]]] * np.clip(
                    0.5 / need[alone], 1.0 / 32.0, 0.25
                )
                more += [corner - step, corner, corner + step]
        return np.asarray(np.union1d(self._apart(np.unique(np.concatenate(more))), again))

    def _around(self, alpha: float, best: int, cell: int, need: float) -> Array:
        """Thresholds around the one at which a line touches, the densest next to where that seems to be.

        A parabola through the best point and its neighbors says where; the corner is added in case that
        it is wrong. The cell is `need` times as wide as it may be.
        """
        left, right = self.epsilons[cell], self.epsilons[cell + 1]
        middle = min(max(best, 2), self.epsilons.size - 2)
        (before, center, after), points = (
            self.epsilons[middle - 1 : middle + 2].tolist(),
            self.table,
        )
        first, second, third = (points.high + alpha * points.x)[middle - 1 : middle + 2].tolist()
        ahead, behind = (after - center) * (second - first), (center - before) * (second - third)
        bend = ahead + behind
        touching = 0.5 * (left + right)
        if bend < 0.0:
            touching = center + 0.5 * ((after - center) * ahead - (center - before) * behind) / bend
        step = 0.5 * (right - left) / need
        apart = step * 4.0 ** np.arange(math.ceil(math.log(max(need, 4.0), 4.0)))
        corner = float(np.log(self.table.corners[0][cell]))
        near = np.concatenate([touching - apart, [touching, corner], touching + apart])
        return np.asarray(np.clip(near, left, right))

    def _outside(self, alphas: Array, open_: NDArray[np.bool_], cell: NDArray[np.intp]) -> Array:
        """Thresholds before the first and after the last one, if some line touches there."""
        first, last = float(self.epsilons[1]), float(self.epsilons[-1])
        step = max((last - first) / max(self.epsilons.size - 2, 1), 1e-3)
        before, after = np.any(open_ & (cell == 0)), open_ & (cell == self.epsilons.size - 1)
        far = step * np.array([1.0, 4.0, 16.0])
        more = first - far if before else far[:0]
        if after.any():
            # beyond 1 / alpha the line is above one
            end = -np.log(alphas[after].min() / self.units)
            more = np.append(more, np.minimum(last + far, end))
        return np.asarray(np.clip(more, -_LARGEST_EXPONENT, _LARGEST_EXPONENT))

    def _apart(self, epsilons: Array) -> Array:
        """Those that are told apart from each other and from the points of the table."""
        epsilons = epsilons[np.diff(epsilons, prepend=-np.inf) > _APART]
        known = np.append(self.epsilons, np.inf)
        index = np.searchsorted(known, epsilons)
        before, after = epsilons - known[np.maximum(index - 1, 0)], known[index] - epsilons
        return np.asarray(epsilons[(before > _APART) & (after > _APART)])
