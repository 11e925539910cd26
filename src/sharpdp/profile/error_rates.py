"""Error rates of the best test: all read off one table of the profile, which grows where they are open.

The null hypothesis is Q, the data without the record, and the alternative is P. With x = e^epsilon over
the whole line, the smallest false-negative rate and the largest true-positive rate are

    f(alpha) = sup_x 1 - H_x(P||Q) - x alpha,        t(alpha) = inf_x H_x(P||Q) + x alpha.

H and H - 1 are convex in x and fall with slopes between -1 and 0, so that one `ConvexTable` bounds the
rates at every alpha; it begins with what is known without any work, that H is 1 at x = 0 and at most the
total variation at x = 1. Where that leaves a rate open, points are added next to where its line touches
the table, all of them in one pass; where delta itself is not known well enough, it is asked again, more
sharply. Of the two rates the smaller one is computed, relative to itself: one minus the other would be
rounded next to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sharpdp.errors import NotCertified
from sharpdp.numerics.convex_table import ConvexTable
from sharpdp.numerics.special import (
    Array,
    add_up,
    exp_up,
    one_minus_down,
    one_minus_ends,
    one_minus_up,
)
from sharpdp.profile.enclosed import (
    FARTHEST,
    TERM,
    EnclosedProfile,
    Ends,
    depths,
    heights,
)
from sharpdp.profile.kept import ProfilePoints
from sharpdp.profile.many_questions import QUICK_WIDTH, SHARE_OF_QUICK, quick_pair
from sharpdp.profile.planning import is_near, is_quick, prepare, reaches

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

FEW = 3
"""From more rates on quicker pairs are asked."""

_SHARE, _SHARE_OF_FEW = 0.1, 1e-6
"""The part of the width asked that a table may leave open: points cost little beside their first one.

Few rates of one pair are as sharp as others of its answers.
"""

_OF_THE_REST = 0.01
"""What is left of a true-positive rate next to one is known this well, relative to itself, at least."""

_ROUGH = 0.05
"""From this width on a question is a first look, which need not be sharper than asked."""

_ROUNDS = 12
"""How often points are added at most, for each sharpness of delta."""

_COARSE, _FIRST_LOOK, _FINEST = 0.02, 1e-3, 1e-8
"""How well delta is known, in its logarithm: at first, where that leaves rates open, and at most."""

_USUAL, _SMALLEST, _UNITS = 1e-100, 1e-300, 2.0**500
"""Rates above the first are read off a table as they are, those from the second on in the last units.

Smaller ones are answered by monotony: their inverses would be no doubles.
"""

_TINY = 1e-12
"""For smaller rates than this the table begins with points at all sizes of H."""

_LARGEST_EXPONENT = 700.0
"""Thresholds beyond this have no normal doubles as exponentials."""

_APART = 1e-11
"""Neighbors in the table differ by this share of themselves at least: their chords would be noise."""


def false_negative_rates(composition: Composition, alphas: Array, tolerance: float) -> Ends:
    """Certified ends of the smallest false-negative rate at each false-positive rate alpha."""
    mass_low, mass_high = composition.infinite_p_ends
    # f begins at or below `top` and is zero from `end` on, and is convex in between
    top, end = one_minus_up(mass_low), one_minus_up(composition.reverse().infinite_p_ends[0])
    low, high = np.zeros(alphas.size), np.where(alphas < end, top, 0.0)
    low[alphas == 0.0] = one_minus_down(mass_high)
    usual = (alphas > _USUAL) & (alphas < end)
    low[usual], high[usual] = _missed(composition, alphas[usual], tolerance, alphas.size)
    tiny = (alphas > 0.0) & (alphas <= _USUAL) & (alphas < end)
    if tiny.any():
        # next to one they are better read off the true positives
        low[tiny], high[tiny] = one_minus_ends(*_tiny_hits(composition, alphas[tiny], tolerance))
        later = np.flatnonzero(tiny & (high < 0.5) & (alphas >= _SMALLEST))
        below, above = _missed(composition, alphas[later], tolerance, alphas.size)
        low[later], high[later] = np.maximum(low[later], below), np.minimum(high[later], above)
    inside = (alphas > 0.0) & (alphas < end)
    chord = top * (end - alphas[inside]) / end * (1.0 + TERM)
    high[inside] = np.minimum(
        np.minimum(high[inside], chord), np.nextafter(1.0 - alphas[inside], 1.0)
    )
    return low, np.maximum(low, high)


def _missed(composition: Composition, alphas: Array, tolerance: float, asked: int) -> Ends:
    """False-negative rates at alphas in (0, 1), each relative to itself.

    `asked` counts all rates of the question, of which these may be a few.
    """

    def values(epsilons: Array, low: Array, high: Array) -> Ends:
        below, above = depths(epsilons, low, high)
        return -above, -below

    floor = -one_minus_up(composition.infinite_p_ends[0])
    below, above = _read_off(composition, alphas, tolerance, values, 0.0, floor, asked)
    return np.maximum(-above, 0.0), -below


def true_positive_rates(composition: Composition, alphas: Array, tolerance: float) -> Ends:
    """Certified ends of the largest true-positive rate at each false-positive rate alpha.

    At alpha = 0 that is the P-mass at infinite loss.
    """
    mass_low, mass_high = composition.infinite_p_ends
    low, high = np.maximum(alphas, mass_low), np.where(alphas > 0.0, 1.0, mass_high)
    is_open = (alphas > 0.0) & (alphas < 1.0)
    # what is missed is no less than 1 - alpha - H_1, which often shows that this is of no use
    if alphas.size <= FEW and not is_near(composition, 0.0) and _may_find_all(composition, alphas):
        for index in np.flatnonzero(is_open):
            log_missed = composition.log_missed_upper(float(alphas[index]))
            if log_missed <= -38.0:  # it does not show in one minus it
                low[index], is_open[index] = one_minus_down(exp_up(log_missed)), False
    usual = np.flatnonzero(is_open & (alphas > _USUAL))
    below, above = _read_off(
        composition, alphas[usual], tolerance, heights, 1.0, mass_low, alphas.size
    )
    low[usual], high[usual] = np.maximum(low[usual], below), np.minimum(high[usual], above)
    # next to one they are better read off the false negatives
    later = usual[low[usual] > 0.5]
    if later.size:
        rough = max(tolerance, _OF_THE_REST)
        below, above = one_minus_ends(*_missed(composition, alphas[later], rough, alphas.size))
        low[later], high[later] = np.maximum(low[later], below), np.minimum(high[later], above)
    tiny = is_open & (alphas <= _USUAL)
    if tiny.any():
        below, above = _tiny_hits(composition, alphas[tiny], tolerance)
        low[tiny], high[tiny] = np.maximum(low[tiny], below), np.minimum(high[tiny], above)
    return low, np.maximum(low, high)


def _may_find_all(composition: Composition, alphas: Array) -> bool:
    """Whether the total variation leaves it open that no record is missed."""
    return add_up(float(alphas.max()), exp_up(composition.log_total_variation_upper)) > 0.999


def _tiny_hits(composition: Composition, alphas: Array, tolerance: float) -> Ends:
    """True-positive rates at tiny rates, from a table in another unit.

    Small numbers in units of 2^-500 are ordinary ones, and so are lines with such slopes.
    """

    def values(epsilons: Array, low: Array, high: Array) -> Ends:
        return heights(epsilons, low, high, scale=_UNITS)

    floor = composition.infinite_p_ends[0]
    lines = _UNITS * np.maximum(alphas, _SMALLEST)
    below, above = _read_off(
        composition, lines, tolerance, values, _UNITS, _UNITS * floor, alphas.size, _UNITS
    )
    below = np.where(alphas >= _SMALLEST, below / _UNITS, 0.0)  # less is hit at smaller rates
    return np.maximum(below, np.maximum(alphas, floor)), np.minimum(above / _UNITS, 1.0)


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

    Rates, values and answers may be in other units. They are as narrow as asked where work can do it.
    """
    low, high = np.full(alphas.size, np.nan), np.full(alphas.size, np.nan)
    left = np.arange(alphas.size)
    if not left.size:
        return low, high
    is_few = left.size <= FEW and asked <= FEW
    pair = composition.single_pair
    if not is_few and tolerance >= QUICK_WIDTH and pair is not None and pair != quick_pair(pair):
        composition = type(composition)(((quick_pair(pair), 1),))
    share = 1.0 if tolerance >= _ROUGH else SHARE_OF_QUICK if is_quick(composition) else _SHARE
    if is_few and share < 1.0 and pair is not None:
        share = _SHARE_OF_FEW
    elif is_few and share == _SHARE:
        share = 0.5  # points that serve no other rate
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
    is_tiny = alphas[left].min() < _TINY * units
    # where one's rounding reaches beyond what is looked for points are laid out anew
    kept = composition.kept.points.epsilons[: 0 if is_tiny else None]
    if kept.size:
        search.join(composition.kept.points)
        left = search.close(alphas, left, low, high)
        if not left.size:
            return low, high
    finest = min(max(0.2 * tolerance, _FINEST), _FIRST_LOOK)
    levels = [_COARSE, finest]
    if composition.single_pair is not None:
        levels = [finest]
    elif not is_few or start == 0.0:  # what is missed next to one is a difference
        levels += [0.125 * finest, 0.01 * finest]
    for level in levels:
        profile = EnclosedProfile(composition, max(level, _FINEST))
        search.asked = search.epsilons[:0]
        if level is levels[0] and (not kept.size or search.touches_ends):
            grid = _first_grid(profile, alphas[left] / units)
            if is_tiny or composition.single_pair is not None:
                grid = _with_ends(composition, grid)
            if is_tiny:
                grid = np.union1d(grid, np.linspace(0.0, max(grid[-1], 1.0), 49))
            new = (grid < kept.min()) | (grid > kept.max()) if kept.size else grid == grid
            prepare(composition, grid[new])
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
    if left.size:
        assert search.open is not None
        low[left], high[left] = search.open.below, search.open.above
        for index in left[:FEW]:
            high[index] = min(high[index], search.least(float(alphas[index])))
    composition.kept.add_points(search.points)
    composition.reverse().kept.add_points(search.points.mirrored())
    return low, high


def _first_grid(profile: EnclosedProfile, alphas: Array) -> Array:
    """Thresholds between those at which lines with the extreme alphas touch, not certified."""
    composition, log_rate = profile.composition, float(np.log(alphas.min()))
    if composition.single_pair is not None and alphas.size <= FEW:
        around = (profile.touching(float(alpha)) for alpha in alphas)
        grid = np.concatenate([best + scale * _AROUND for best, scale in around])
        return np.unique(np.clip(grid, -_LARGEST_EXPONENT, min(_LARGEST_EXPONENT, -log_rate)))
    first, last = -np.inf, np.inf
    if composition.single_pair is None:
        rates = log_rate, float(np.log1p(-alphas.max()))
        last, before = reaches(list(zip((composition, composition.reverse()), rates, strict=True)))
        first, last = -before, min(last, -log_rate)
    if not last - first < FARTHEST:
        ends = (float(alphas.min()), float(alphas.max()))
        (last, _), (first, _) = (profile.touching(alpha) for alpha in ends)
    first, last = np.clip([first, last], -_LARGEST_EXPONENT, _LARGEST_EXPONENT).tolist()
    if not last > first:
        return np.array([first])
    # where the finest engine answers points cost next to nothing
    few, most = (97, 769) if is_near(composition, last - first) else (17, 129)
    return np.linspace(first, last, min(most, few + 8 * alphas.size))


def _with_ends(composition: Composition, grid: Array) -> Array:
    """Thresholds with the largest losses of both directions, beyond which there is nothing."""
    for largest in (composition.largest_loss, -composition.reverse().largest_loss):
        if abs(largest) < _LARGEST_EXPONENT:
            apart = np.abs(grid - largest) > 1e-9 * (1.0 + abs(largest))
            grid = np.sort(np.append(grid[apart], largest))
    return grid


_AROUND = np.concatenate(
    [-(4.0 ** -np.arange(-2.0, 8.0)), np.zeros(1), 4.0 ** np.arange(-7.0, 3.0)]
)
"""Where one pair is asked at first, around the threshold at which a line touches, by the scale there."""


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

    def add(self, profile: EnclosedProfile, epsilons: Array) -> None:
        """Points at more thresholds, or sharper values at those that are known."""
        self.asked = np.append(self.asked, epsilons)
        try:
            points = profile.certified_points(epsilons)
        except NotCertified:
            if self.epsilons.size > 1:
                return  # other points may do
            raise
        self.join(points)

    def join(self, points: ProfilePoints) -> None:
        """Points whose log deltas are known."""
        self.open = None
        self.points = self.points.joined(points)
        low, high = self.values(points.epsilons, points.low, points.high)
        self.table = self.table.joined(np.exp(points.epsilons), low, high)
        every = np.unique(np.append(self.epsilons, points.epsilons))
        # two thresholds may have the same exponential
        self.epsilons = every if every.size == self.table.x.size else np.log(self.table.x)

    def least(self, alpha: float) -> float:
        """The smallest upper value of y(x) + x alpha at any point, wherever it seems to be."""
        high, x = self.table.high, self.table.x
        tops = high + 2.0 * TERM * np.abs(high) + alpha * x * (1.0 + 4.0 * TERM)
        return float(np.min(tops + 2.0 * TERM * np.abs(tops)))

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
        # where it falls in a cell by far more than the line rises it bends there
        behind = np.minimum(cell + 1, last)
        fall = self.table.high[cell] - self.table.low[behind]
        bends = fall > 10.0 * alphas * (self.table.x[behind] - self.table.x[cell])
        open_ = (need > 1.0) & (vague < 0.2 * np.where(bends, np.maximum(fall, width), width))
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
