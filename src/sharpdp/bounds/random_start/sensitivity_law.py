"""The law of the sensitivity of one step as cells: what is drawn at the start, and what it leads to.

Each function gives the law of |g(I, D) - g(I, D')| as cells with probabilities, safe on one side; how
delta follows from them is the business of `bounds.random_start.gaussian_mixture`. Where the density of
the start and the slope
of the sensitivity are known to change slowly, so is where the mean of a cell lies: with a log-density
that changes by at most s along a cell, the exponential density is the extreme one, and the mean is
within s/12 of the middle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.random_start.gaussian_mixture import DistanceLaw
from sharpdp.bracket import Side
from sharpdp.mechanisms.sensitivity import (
    CDF_ERROR,
    FUNCTION_ERROR,
    Curve,
    EnclosedSensitivity,
    LeastSquares,
    Logistic,
    MonotoneSensitivity,
    SensitivityDistribution,
    distribution,
)
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_nodes, log_cell_masses, ndtr

__all__ = ["cells_of", "record_cells"]

CORE, FARTHEST = 9.0, 37.0
"""Nearly all normal starts are within the first number of deviations; beyond the second the probability
is below 1e-299, and is not resolved."""

CORE_CELLS, TAIL_CELLS = 3 << 14, 1 << 13
"""Into how many cells a core and each of its tails are cut."""

LOOKS = 1 << 12
"""Cells of a first look at what is given."""

NORMAL_ERROR = 1e-12
"""Relative error of the mass of a cell."""

CURVE_ERROR = 2.0 * FUNCTION_ERROR
"""Relative error of sensitivities, those of given functions included."""


@singledispatch
def cells_of(sensitivity: object, side: Side) -> DistanceLaw:
    """The law of a sensitivity, safe on one side."""
    raise NotImplementedError(type(sensitivity).__name__)


@cells_of.register
def _(sensitivity: LeastSquares, side: Side) -> DistanceLaw:
    """min(|Z|, clip), Z ~ N(slope, 1): two branches of a normal density, and an atom at the clip."""
    a, clip = abs(sensitivity.slope), sensitivity.clip
    first, last = max(a - FARTHEST, 0.0), min(a + FARTHEST, clip)
    error = NORMAL_ERROR + 1e-14 * a  # it grows with the distance from zero
    if not first < last:
        return DistanceLaw(np.full(1, clip), np.full(1, clip), np.ones(1), mass_error=error)
    edges = _graded(first, last, a)
    mass, change = _normal_mass(edges, a), np.abs(edges - a)
    if first == 0.0:  # else the other branch is among what is not resolved
        mass, change = mass + _normal_mass(edges, -a), edges + a
    least, most = _mean_within(np.maximum(change[1:], change[:-1]) * np.diff(edges))
    unseen = 4.0 * float(ndtr(-FARTHEST)) if first > 0.0 or last < clip else 0.0
    at_clip = np.array([float(ndtr(a - clip) + ndtr(-a - clip))] if clip < np.inf else [])
    if side is Side.UPPER and clip < np.inf:
        at_clip, unseen = at_clip + unseen, 0.0
    at_largest, points = np.full(at_clip.shape, clip), np.zeros(at_clip.shape)
    return DistanceLaw(
        np.append(edges[:-1], at_largest),
        np.append(edges[1:], at_largest),
        np.append(mass, at_clip),
        np.append(least, points),
        np.append(most, 1.0 - points),
        unseen,
        error,
    )


@cells_of.register
def _(sensitivity: Logistic, side: Side) -> DistanceLaw:
    """The largest over all records, margin / (1 + e^{-|I| margin})."""
    margin = sensitivity.margin
    u = _graded(0.0, FARTHEST, 0.0)
    value = np.maximum.accumulate(margin / (1.0 + np.exp(-margin * u)))
    return _smooth(value[:-1], value[1:], u, 2.0 * _normal_mass(u), margin, side)


def record_cells(sensitivity: Logistic, side: Side) -> DistanceLaw:
    """The law for the one record with x y = margin: margin / (1 + e^{I margin})."""
    margin = sensitivity.margin
    u = _graded(-FARTHEST, FARTHEST, 0.0)
    with np.errstate(over="ignore"):
        value = np.minimum.accumulate(margin / (1.0 + np.exp(margin * u)))
    return _smooth(value[1:], value[:-1], u, _normal_mass(u), margin, side)


def _smooth(
    low: Array, high: Array, u: Array, mass: Array, margin: float, side: Side
) -> DistanceLaw:
    """Cells of margin times the logistic function of margin I, whose log-slope moves by margin at most.

    The law of the value has a log-density that moves by that and by |I|, for each unit of I. What is
    beyond the last start goes to the largest value, or to zero.
    """
    width = np.diff(u)
    steepest = np.maximum(np.abs(u[1:]), np.abs(u[:-1])) + margin
    least, most = _mean_within(steepest * width * np.exp(np.minimum(margin * width, CORE)))
    rest = margin if side is Side.UPPER else 0.0
    return DistanceLaw(
        np.append(low, rest),
        np.append(high, rest),
        np.append(mass, 2.0 * float(ndtr(-FARTHEST))),
        np.append(least, 0.0),
        np.append(most, 1.0),
        mass_error=NORMAL_ERROR,
        end_error=CURVE_ERROR,
    )


@cells_of.register
def _(sensitivity: MonotoneSensitivity, side: Side) -> DistanceLaw:
    """Cells by their ends; 0 is an end, so that |start| is monotone in each."""

    def bounds(starts: Array) -> tuple[Array, Array]:
        values = sensitivity.values(starts)
        return np.minimum(values[:-1], values[1:]), np.maximum(values[:-1], values[1:])

    return _bounded(bounds, sensitivity, side)


@cells_of.register
def _(sensitivity: EnclosedSensitivity, side: Side) -> DistanceLaw:
    """Cells by the bounds that were given."""

    def bounds(starts: Array) -> tuple[Array, Array]:
        return sensitivity.bounds(starts[:-1], starts[1:])

    return _bounded(bounds, sensitivity, side)


@cells_of.register
def _(sensitivity: SensitivityDistribution, side: Side) -> DistanceLaw:
    """Atoms, and cells of the rest."""
    where, share = np.array(sensitivity.atoms, dtype=float).reshape(-1, 2).T
    # exact: 1 - sum is far below the rounding of the sum where the rest is rare
    total = sum(map(Fraction, share.tolist()), Fraction(0))
    if sensitivity.cdf is None or total > 1:
        share = share / float(total)
    if sensitivity.cdf is None or total >= 1:
        return DistanceLaw(where, where, share, mass_error=4.0 * UNIT_ROUNDOFF)
    assert sensitivity.interval is not None
    edges = np.linspace(*sensitivity.interval, LOOKS + 1)
    edges = _refined(edges, np.diff(distribution(sensitivity.cdf, edges)), edges[:-1], edges[1:])
    level = np.append(0.0, distribution(sensitivity.cdf, edges))
    rest, lost = float(1 - total), 1.0 - float(level[-1])
    low = np.append(0.0, edges[:-1])  # what is not above the interval, then its cells
    cells = _enclosed(low, edges, np.diff(level), lost, CDF_ERROR, side)
    return DistanceLaw(
        np.append(cells.low, where),
        np.append(cells.high, where),
        np.append(rest * cells.mass, share),
        beyond=rest * cells.beyond,
        mass_error=cells.mass_error + 4.0 * UNIT_ROUNDOFF,
        end_error=CURVE_ERROR,
    )


def _enclosed(
    low: Array, high: Array, mass: Array, beyond: float, error: float, side: Side
) -> DistanceLaw:
    """Cells whose masses are differences of values that are off by `error`, moved to the safe side.

    The probability of all cells beyond a value is off by that much at each end of each run of
    neighboring cells among them. So much is added at the largest value, or taken away there.
    Cells without an upper bound count as not known.
    """
    where = high if side is Side.UPPER else low
    order = np.argsort(-where, kind="stable")
    slack = 2.0 * error * _most_runs(order)
    finite = np.isfinite(high)
    if side is Side.UPPER:
        beyond = beyond + float(np.sum(mass[~finite])) + (0.0 if finite.all() else slack)
        low, high, mass = low[finite], high[finite], mass[finite]
        top = float(np.max(high, initial=0.0))
        low, high, mass = np.append(low, top), np.append(high, top), np.append(mass, slack)
    else:
        safe = np.empty_like(mass)
        safe[order] = np.clip(np.cumsum(mass[order]) - slack, 0.0, mass[order])
        beyond = beyond + float(np.sum(mass - safe))
        mass, high = safe, np.where(finite, high, low)
    rounding = 4.0 * UNIT_ROUNDOFF * (1.0 + mass.size)
    return DistanceLaw(
        low, high, mass, beyond=beyond, mass_error=NORMAL_ERROR + rounding, end_error=CURVE_ERROR
    )


def _most_runs(order: NDArray[np.intp]) -> float:
    """Upper bound on the number of runs of neighboring cells, as cells are taken in this order."""
    rank = np.empty(order.size + 2, dtype=np.intp)
    rank[[0, -1]] = order.size
    rank[1:-1][order] = np.arange(order.size)
    inner = rank[1:-1]
    new = 1 - (rank[:-2] < inner).astype(np.intp) - (rank[2:] < inner).astype(np.intp)
    return float(np.max(np.cumsum(new[order])))


def _bounded(
    bounds: Callable[[Array], tuple[Array, Array]],
    sensitivity: MonotoneSensitivity | EnclosedSensitivity,
    side: Side,
) -> DistanceLaw:
    """Cells of the start, narrower where that matters, with bounds on the sensitivity in each."""
    if sensitivity.start_range is None:
        starts = _graded(-FARTHEST, FARTHEST, 0.0, LOOKS, LOOKS)
    else:
        zero = [0.0] if sensitivity.start_range[0] < 0.0 < sensitivity.start_range[1] else []
        starts = np.unique(np.append(np.linspace(*sensitivity.start_range, LOOKS + 1), zero))
    starts = _refined(starts, _probabilities(sensitivity.cdf, starts)[0], *bounds(starts))
    mass, beyond, error = _probabilities(sensitivity.cdf, starts)
    cells = _enclosed(*bounds(starts), mass, beyond, error, side)
    if side is Side.LOWER or sensitivity.largest == np.inf:
        return cells
    # what is not known is at most the largest
    low, high = (
        np.append(cells.low, sensitivity.largest),
        np.append(cells.high, sensitivity.largest),
    )
    return replace(cells, low=low, high=high, mass=np.append(cells.mass, cells.beyond), beyond=0.0)


def _probabilities(cdf: Curve | None, starts: Array) -> tuple[Array, float, float]:
    """Probabilities of cells of the start, that of the rest, and the error at each end of a run."""
    if cdf is None:
        return _normal_mass(starts), 2.0 * float(ndtr(-FARTHEST)), 0.0
    level = distribution(cdf, starts)
    return np.diff(level), 1.0 - float(level[-1] - level[0]), CDF_ERROR


def _refined(edges: Array, mass: Array, low: Array, high: Array) -> Array:
    """More ends of cells, most of them where cells are likely and wide.

    Least error in the mean asks for cells that go with the square roots of both; likelihood counts
    less here, for the sake of small deltas. A quarter of the cells is spread evenly.
    """
    with np.errstate(invalid="ignore"):
        width = np.nan_to_num(high - low, nan=0.0, posinf=0.0)
    wanted = np.sqrt(width) * np.sqrt(np.sqrt(mass))
    wanted = 0.25 * np.mean(wanted) + 0.75 * wanted + np.finfo(float).tiny
    passed = np.append(0.0, np.cumsum(wanted))
    levels = np.linspace(0.0, passed[-1], CORE_CELLS + 1)
    return np.unique(np.append(edges, np.interp(levels, passed, edges)))


def _graded(
    first: float, last: float, center: float, core: int = CORE_CELLS, tail: int = TAIL_CELLS
) -> Array:
    """Ends of cells from first to last, most of them within the core around the center."""
    left, right = max(first, center - CORE), min(last, center + CORE)
    pieces = [np.linspace(min(left, last), max(right, first), core + 1)]
    if first < left:
        pieces.append(np.linspace(first, min(left, last), tail + 1))
    if right < last:
        pieces.append(np.linspace(max(right, first), last, tail + 1))
    inside = np.concatenate([*pieces, [0.0] if first < 0.0 < last else []])
    return np.unique(inside[(inside >= first) & (inside <= last)])


def _normal_mass(edges: Array, mean: float = 0.0) -> Array:
    """Probabilities of N(mean, 1) between increasing ends, each to full relative accuracy."""
    middle, half = 0.5 * (edges[1:] + edges[:-1]) - mean, 0.5 * np.diff(edges)
    # right to 1e-14: the logarithm of the density changes by less than 1/2 along a cell
    _, weights = gauss_nodes(middle, half, 5)
    return np.exp(log_cell_masses(middle, half, weights))


def _mean_within(change: Array) -> tuple[Array, Array]:
    """Bounds on the mean of a cell, as shares of it, from a bound on the change of the log-density."""
    off = np.minimum((1.0 / 12.0) * change * (1.0 + CURVE_ERROR), 0.5)
    return 0.5 - off, 0.5 + off
