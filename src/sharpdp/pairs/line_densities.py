"""Two laws on the line with densities, cell by cell: pairs that enclose them on either side.

The line is cut into cells. Losses are sorted into a graded ladder. Lower: what is seen is between which
rungs the loss of the cell's masses lies. Upper: the masses of a cell go to two rungs around all its
losses, to which any ratio in between can be spread.

How far the loss moves within a cell follows from values at four points. If p is a law of numbers to each
of which normal noise of deviation s or more is added, then log p(x) + x^2 / (2 s^2) is a convex function
of x: up to a constant it is the cumulant generating function of what the noise hides. So its slope on a
cell lies between those of the chords over intervals on the left and on the right of the cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import (
    LOG_SQRT_2_PI,
    UNIT_ROUNDOFF,
    Array,
    gauss_nodes,
    log_cell_masses,
    log_ndtr,
)
from sharpdp.pairs.finite import AtomicPair

__all__ = [
    "LONGEST",
    "LineDensity",
    "NormalMixture",
    "density_pair",
    "length",
    "normal_mixture_pair",
]

_REACH = 14.0
"""Deviations beyond the outermost means: what lies further has mass below 1e-43."""

LONGEST = 400.0
"""How long the line may be in units of the smallest deviation: beyond, double precision gets coarse."""

_GROWTH = 800.0
"""Rungs of the ladder are 1/800 of the loss apart far out; errors of the profile go with its square."""

_LARGEST_LOSS = 600.0
"""Cells of larger losses are taken for revealed on the upper side, and not cut further."""

_MOST_CELLS = 60_000


class LineDensity(Protocol):
    """A law on the line: normal noise of `deviation` or more, added to something."""

    @property
    def deviation(self) -> float:
        """The smallest deviation of the noise."""

    @property
    def least(self) -> float:
        """log of the mass of a cell that what is left out cannot change by much."""

    @property
    def farthest(self) -> float:
        """Noise of more deviations than this is nowhere a part of the density that matters."""

    def ends(self) -> tuple[float, float]:
        """The interval outside which there is a negligible rest."""

    def log_density(self, x: Array) -> Array:
        """log p(x)."""

    def log_masses(self, edges: Array) -> Array:
        """log of the mass of each cell."""

    def log_tails(self, low: float, high: float) -> tuple[float, float]:
        """log of bounds on the mass below `low` and above `high`, and of what else is left out."""


@dataclass(frozen=True)
class NormalMixture:
    """A mixture of normal laws: weights greater than 0 with sum one, means, deviations."""

    weights: tuple[float, ...]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    least: float = -np.inf
    farthest: float = np.inf

    @property
    def _columns(self) -> tuple[Array, Array, Array]:
        log_weights = np.log(np.array(self.weights))
        return (
            log_weights[:, None],
            np.array(self.means)[:, None],
            np.array(self.deviations)[:, None],
        )

    @property
    def deviation(self) -> float:
        """The smallest deviation of a component."""
        return min(self.deviations)

    def ends(self) -> tuple[float, float]:
        """The interval outside which the mixture has a negligible rest."""
        _, mean, deviation = self._columns
        return float(np.min(mean - _REACH * deviation)), float(np.max(mean + _REACH * deviation))

    def seen_from(self, origin: float) -> NormalMixture:
        """The mixture with the origin moved."""
        return replace(self, means=tuple(mean - origin for mean in self.means))

    def log_density(self, x: Array) -> Array:
        """log p(x)."""
        log_w, mean, deviation = self._columns
        z = (x - mean) / deviation
        return _log_sum(log_w - 0.5 * z * z - np.log(deviation) - LOG_SQRT_2_PI)

    def log_masses(self, edges: Array) -> Array:
        """log of the mass of each cell, by a Gauss rule: no difference of distribution functions."""
        half = 0.5 * np.diff(edges)
        middle = edges[:-1] + half
        log_w, mean, deviation = self._columns
        z, width = (middle - mean) / deviation, half / deviation
        _, weights = gauss_nodes(z, width, 10)  # exact in doubles for cells of `_edges`
        return _log_sum(log_w + log_cell_masses(z, width, weights))

    def log_tails(self, low: float, high: float) -> tuple[float, float]:
        """log of the mass below `low` and above `high`."""
        log_w, mean, deviation = (column[:, 0] for column in self._columns)
        below, above = log_ndtr((low - mean) / deviation), log_ndtr((mean - high) / deviation)
        return float(np.logaddexp.reduce(log_w + below)), float(np.logaddexp.reduce(log_w + above))


def normal_mixture_pair(
    p: NormalMixture, q: NormalMixture, side: Side, parameter_error: float = 0.0
) -> AtomicPair:
    """The pair of two mixtures of normal laws; see `density_pair`.

    >>> one = NormalMixture((1.0,), (1.0,), (1.0,))
    >>> zero = NormalMixture((1.0,), (0.0,), (1.0,))
    >>> low, high = (normal_mixture_pair(one, zero, side) for side in (Side.LOWER, Side.UPPER))
    >>> ends = [float(np.exp(pair.log_hockey_stick(np.array([1.0]))[0])) for pair in (low, high)]
    >>> [round(end, 4) for end in ends]
    [0.1269, 0.1269]
    """
    # around zero, so that places are rounded by units of the length of the line
    p, q = p.seen_from(p.means[0]), q.seen_from(p.means[0])
    # a component whose mean and deviation are off by e deviations is off by e (1 + z^2)
    return density_pair(p, q, side, parameter_error * (4.0 + length(p, q) ** 2))


def density_pair(p: LineDensity, q: LineDensity, side: Side, error: float = 0.0) -> AtomicPair:
    """A pair that is dominated by (p, q) on the lower side, and dominates it on the upper side.

    Holds when: the line is at most `LONGEST`, as `length` measures it, if noise from all of it matters;
    log densities and logarithms of masses are right to within `error` beside rounding.

    Numerics: losses and logarithms of masses are off by less than 32 units times 4 + z^2, z being the
    length or the farthest noise that matters, and the given error, which moves losses outwards on the
    upper side and is declared by the pair. Mass beyond the ends is revealed on the upper side, and not
    told apart from the heaviest cell on the lower one.
    """
    # rounding of a log ratio is in units of 1 + z^2, ten times over
    slack = 32.0 * UNIT_ROUNDOFF * (4.0 + _farthest(p, q) ** 2) + error
    edges, unit = _edges(p, q)
    log_p, log_q = p.log_masses(edges), q.log_masses(edges)
    tails_p, tails_q = (law.log_tails(edges[0], edges[-1]) for law in (p, q))
    if side is Side.LOWER:
        smaller = np.minimum(log_p, log_q)
        told_apart, heaviest = smaller >= max(p.least, q.least), int(np.argmax(smaller))
        for log_mass, tails in ((log_p, tails_p), (log_q, tails_q)):
            rest = np.logaddexp.reduce([*tails, *log_mass[~told_apart]])
            log_mass[heaviest] = np.logaddexp(log_mass[heaviest], rest)
        return _gathered(log_p[told_apart], log_q[told_apart], unit, slack)
    revealed = float(np.sum(np.exp(tails_p))), float(np.sum(np.exp(tails_q)))
    return _spread(log_p, log_q, _ranges(p, q, edges, slack), unit, revealed, slack)


def _gathered(log_p: Array, log_q: Array, unit: float, slack: float) -> AtomicPair:
    """Cells between the same rungs as one, at the loss of their masses."""
    losses = np.clip(log_p - log_q, -_LARGEST_LOSS, _LARGEST_LOSS)
    _, start = np.unique(np.floor(_rung(losses, unit)), return_inverse=True)
    order = np.argsort(start, kind="stable")
    first = np.flatnonzero(np.diff(start[order], prepend=-1))
    here, there = (np.logaddexp.reduceat(log_mass[order], first) for log_mass in (log_p, log_q))
    return _made(here - there, here, there, (0.0, 0.0), slack)


def _spread(
    log_p: Array,
    log_q: Array,
    ranges: tuple[Array, Array],
    unit: float,
    tails: tuple[float, float],
    slack: float,
) -> AtomicPair:
    """Each cell at the two rungs around its losses, with the same masses; extreme ones are revealed."""
    extreme = (ranges[0] < -_LARGEST_LOSS) | (ranges[1] > _LARGEST_LOSS)
    # what is lost to underflow below is less than the last term
    rest_p, rest_q = (
        tail + float(np.sum(np.exp(log_masses[extreme]))) + 1e-300
        for tail, log_masses in zip(tails, (log_p, log_q), strict=True)
    )
    low, high = (bound[~extreme] for bound in ranges)
    left, right = np.floor(_rung(low, unit)), np.ceil(_rung(high, unit))
    # the ranges have a slack already, far above the rounding of the ladder
    below, above = _loss_at(left, unit), _loss_at(right, unit)
    mean = np.clip((log_p - log_q)[~extreme], low, high)
    # shares of Q: expm1(mean - below) / expm1(above - below) goes to the upper rung
    whole = np.expm1(above - below)
    shares = np.exp(mean - below) * np.expm1(above - mean) / whole, np.expm1(mean - below) / whole
    rungs, share = np.append(below, above), np.append(*shares)
    losses, index = np.unique(rungs, return_inverse=True)
    # the larger of the two masses is added up, since the smaller one may underflow
    log_larger = np.append(log_q[~extreme], log_q[~extreme]) + np.maximum(rungs, 0.0)
    with np.errstate(divide="ignore"):
        log_mass = np.log(np.bincount(index, np.exp(log_larger) * share))
    log_mass -= np.maximum(losses, 0.0)
    return _made(losses, log_mass + losses, log_mass, (rest_p, rest_q), slack)


def _rung(loss: Array, unit: float) -> Array:
    """The place of a loss on the ladder."""
    return np.asarray(np.sign(loss) * _GROWTH * np.log1p(np.abs(loss) / (_GROWTH * unit)))


def _loss_at(rung: Array, unit: float) -> Array:
    """The loss at a place on the ladder."""
    return np.asarray(np.sign(rung) * _GROWTH * unit * np.expm1(np.abs(rung) / _GROWTH))


def length(p: LineDensity, q: LineDensity) -> float:
    """The length of the line on which the laws live, in units of the smallest deviation."""
    reach = [*p.ends(), *q.ends()]
    return (max(reach) - min(reach)) / min(p.deviation, q.deviation)


def _farthest(p: LineDensity, q: LineDensity) -> float:
    """Noise of more deviations than this does not matter."""
    return min(max(p.farthest, q.farthest), length(p, q))


def _edges(p: LineDensity, q: LineDensity) -> tuple[Array, float]:
    """Cells so narrow that the loss moves by little in each that matters; and the unit of the ladder."""
    reach, long = [*p.ends(), *q.ends()], length(p, q)
    # a tenth of the smallest deviation wide, and densities change by a factor of e^5 at most
    cells = long * max(10.0, (2.0 + _farthest(p, q)) / 5.0)
    x = np.linspace(min(reach), max(reach), int(np.ceil(cells)) + 1)
    middle = 0.5 * (x[:-1] + x[1:])
    here, there = p.log_density(middle), q.log_density(middle)
    loss = here - there
    typical = np.sqrt(np.sum(np.minimum(loss * loss, 1.0) * np.exp(there) * np.diff(x)))
    # rungs are a hundredth of the typical loss apart at zero; a smaller one than 1e-6 is not resolved
    unit = 0.01 * max(min(float(typical), 1.0), 1e-6)
    # the loss moves by half a rung within a cell
    rung = 0.5 * (unit + np.abs(loss) / _GROWTH)
    steps = np.diff(x) * _steepest(p, q, x) / rung
    matters = (np.abs(loss) < _LARGEST_LOSS) & (np.maximum(here, there) > -120.0)
    pieces = np.where(matters, np.ceil(np.minimum(steps, _MOST_CELLS)) + 1.0, 1.0)
    pieces = np.ceil(pieces * min(1.0, _MOST_CELLS / float(np.sum(pieces)))).astype(int)
    inner = [
        np.linspace(a, b, n, endpoint=False) for a, b, n in zip(x, x[1:], pieces, strict=False)
    ]
    return np.append(np.concatenate(inner), x[-1]), unit


def _steepest(p: LineDensity, q: LineDensity, edges: Array) -> Array:
    """A bound on the size of the slope of the loss on each cell."""
    left, right = edges[:-1], edges[1:]
    width = right - left
    chords = []
    for law in (p, q):
        at = [law.log_density(x) for x in (left - width, left, right, right + width)]
        # chords of log p + bend x^2 / 2
        bend = 1.0 / law.deviation**2
        before = (at[1] - at[0]) / width + bend * (left - 0.5 * width)
        after = (at[3] - at[2]) / width + bend * (right + 0.5 * width)
        chords.append((before, after, bend))
    (p_low, p_high, p_bend), (q_low, q_high, q_bend) = chords
    rest = (q_bend - p_bend) * left, (q_bend - p_bend) * right
    low, high = p_low - q_high + np.minimum(*rest), p_high - q_low + np.maximum(*rest)
    return np.asarray(np.maximum(np.abs(low), np.abs(high)))


def _ranges(p: LineDensity, q: LineDensity, edges: Array, slack: float) -> tuple[Array, Array]:
    """Between which the loss lies on each cell."""
    center = 0.5 * (edges[:-1] + edges[1:])
    loss = p.log_density(center) - q.log_density(center)
    # widened by far more than the shares of the ends are rounded; a chord has the rounding of two values
    reach = 0.5 * np.diff(edges) * _steepest(p, q, edges) * (1.0 + 0.02) + 4.0 * slack
    return loss - reach, loss + reach


def _made(
    losses: Array, log_p: Array, log_q: Array, rest: tuple[float, float], slack: float
) -> AtomicPair:
    order = np.argsort(losses, kind="stable")
    order = order[np.isfinite(log_q[order]) & np.isfinite(log_p[order])]
    return AtomicPair(
        tuple(losses[order].tolist()),
        tuple(log_p[order].tolist()),
        tuple(log_q[order].tolist()),
        rest[0],
        rest[1],
        slack,
        1e3 * slack,  # a share is such a difference over a hundredth part of a step or more
    )


def _log_sum(log_terms: Array) -> Array:
    return np.asarray(np.logaddexp.reduce(log_terms, axis=0))
