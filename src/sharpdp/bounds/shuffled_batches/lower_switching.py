"""One epoch over shuffled batches from below, replace-one: others who change sides when the record shows.

All others contribute what the other record would, u', until the results speak for the record, and what
the record contributes, u = -u', from then on. Relative to the distribution of the results if the record
is in no batch, with z_t normal and R(z) = e^{2z/s - 2/s^2}, the two data sets have the densities

    p = absent + w (sum_{t <= tau} R(z_t) + T - tau),   q = absent + w (tau + sum_{t > tau} R(z_t)),

T batches, w = (1 - absent) / T, and tau the step after which the others change sides.

What is evaluated is attained, not approximated: a batch is seen through cells of R, the cells' numbers
are added up to a score, and a score between two nodes is rounded to one of them at random. The others
look at the score only, and so does the attacker: at tau, the score by then and the score of what
followed. Two measures of scores are carried from step to step by nonnegative matrices, without a record
and with one in some step so far, up to tau and, with the data sets exchanged, after it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.matrix_product import matrix_product
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, cell_masses
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_events import Attacks

__all__ = ["MOST_TRIALS", "SwitchingOthers", "scores_suffice"]

MOST_TRIALS = 12
"""So many levels are tried at most."""

_LEAST_NOISE = 0.3
"""With less noise ratios span more than the nodes of the score."""

_MOST_NODES, _MOST_BATCHES = 400, 2000
"""Even nodes at most, and batches: with more of them it takes long, and gains little."""

_HIDDEN, _MOST_HIDDEN = 0.005, 0.03
"""How much of the variance of R cells may hide, and how much if there are too few nodes."""

_CELL_GROWTH, _NODE_GROWTH, _LARGEST = 0.1, 0.05, 1e7
"""By which share of themselves cells and nodes are apart where they are not even, and the last node, as
a multiple of the number of batches."""

_DEVIATIONS = 5.0
"""Even nodes reach so many deviations beyond the mean score."""

_LOG_RATIO_STEP, _LARGEST_LOG_RATIO = 0.02, 60.0
"""Steps of the log likelihood ratio that the attacker tells apart, and where they end."""

_FIRST_LEVEL, _LEVEL_FACTOR = 2.0, 1.25
"""The density at which others change sides: the first one that is tried, and how the next ones follow."""

_TYPICAL_LOG_DELTA = math.log(1e-6)
"""Levels are compared at about this delta."""

_MASS_ERROR = 1e-12
"""Relative error of a cell's probability: a difference of normal tails at least 1/100 apart."""

_SMALLEST = 1e-300
"""Added to probabilities that are rounded up, for masses that are too small for doubles."""


@dataclass(frozen=True)
class SwitchingOthers:
    """An epoch of `batches` whole batches, in none of which the record is with probability `absent`."""

    noise: float
    batches: int
    absent: float

    @property
    def _share(self) -> float:
        return (1.0 - self.absent) / self.batches

    @cached_property
    def _ratios(self) -> tuple[Array, Array]:
        """Values of R with their weights, for plans."""
        z = np.linspace(-9.0, 9.0 + 4.0 / self.noise, 4000)
        weight = np.exp(-0.5 * z * z)
        return np.exp(2.0 * z / self.noise - 2.0 / self.noise**2), weight / np.sum(weight)

    @property
    def _variance(self) -> float:
        """The variance of R, with values that decide by themselves cut."""
        ratio, weight = self._ratios
        value = np.minimum(ratio, float(self.batches))
        return float(weight @ value**2 - (weight @ value) ** 2)

    def _hidden_variance(self, step: float) -> float:
        """The variance of R within cells [(j - 1/2) step, (j + 1/2) step]."""
        ratio, weight = self._ratios
        cells = np.minimum(np.round(ratio / step), 100.0).astype(int)
        mass, mean, square = (np.bincount(cells, weight * ratio**power)[:100] for power in range(3))
        used = mass > 0.0
        return float(np.sum(square[used] - mean[used] ** 2 / mass[used]))

    @cached_property
    def _plan(self) -> tuple[float, int, float]:
        """The step of the score, how many nodes are even, and the variance hidden; any choice is safe."""
        variance = self._variance
        reach = self.batches + _DEVIATIONS * math.sqrt(self.batches * variance)
        steps = np.geomspace(0.05, 0.01 * self.batches + 0.05, 40)
        hidden = np.array([self._hidden_variance(float(step)) for step in steps]) / variance
        step = max(float(steps[max(int(np.sum(hidden < _HIDDEN)) - 1, 0)]), reach / _MOST_NODES)
        return step, math.ceil(reach / step), self._hidden_variance(step) / variance

    def dominated(self, epochs: int, trials: int = MOST_TRIALS) -> AtomicPair:
        """A finite pair that this epoch dominates, with a good level for so many epochs."""
        others = _Others(self, _Chain.of(self.noise, self.batches, *self._plan[:2]))
        values: dict[int, float] = {}

        def value(place: int) -> float:
            if place not in values:
                level = _FIRST_LEVEL * _LEVEL_FACTOR**place
                values[place] = _log_moment_epsilon(*others.masses(level), epochs)
            return values[place]

        place = 0
        for direction in (1, -1):
            while len(values) < trials - 1 and value(place + direction) > value(place):
                place += direction
        return others.attacks(_FIRST_LEVEL * _LEVEL_FACTOR**place).pair()


@lru_cache(maxsize=64)
def scores_suffice(noise: float, batches: int) -> bool:
    """Whether a few hundred scores tell nearly as much as the results themselves."""
    if noise < _LEAST_NOISE or not 1 < batches <= _MOST_BATCHES:
        return False
    return SwitchingOthers(noise, batches, 0.0)._plan[2] < _MOST_HIDDEN


def _log_moment_epsilon(p: Array, q: Array, epochs: int) -> float:
    """Epsilon by the best moment of the likelihood ratio: an order of merit, not a bound."""
    used = (p > 0.0) & (q > 0.0)
    log_p, losses = np.log(p[used]), np.log(p[used]) - np.log(q[used])
    orders = np.geomspace(0.05, 60.0, 60)
    exponents = log_p + np.multiply.outer(orders, losses)
    log_moments = np.logaddexp.reduce(exponents, axis=1)
    return float(np.min((epochs * log_moments - _TYPICAL_LOG_DELTA) / orders))


def _graded(start: int, end: float, growth: float) -> list[int]:
    """Whole numbers from start to the first one beyond the end, a share of themselves apart."""
    numbers = [start]
    while numbers[-1] < end:
        numbers.append(max(numbers[-1] + 1, round(numbers[-1] * (1.0 + growth))))
    return numbers


@dataclass(frozen=True)
class _Chain:
    """Scores on nodes, in units of a step, and one batch as matrices: without the record, and with it."""

    step: float
    nodes: Array
    base: Array
    record: Array
    cells: int

    @staticmethod
    def of(noise: float, batches: int, step: float, even: int) -> _Chain:
        graded = _graded(even, _LARGEST * batches / step, _NODE_GROWTH)
        nodes = np.array([*range(even), *graded], dtype=float)
        moves = np.array([0, *_graded(1, nodes[-1], _CELL_GROWTH)], dtype=float)
        edges = 0.5 * noise * np.log(0.5 * (moves[1:] + moves[:-1]) * step) + 1.0 / noise
        edges = np.concatenate([[-np.inf], edges, [np.inf]])
        ends = np.minimum(np.add.outer(nodes, moves), nodes[-1])
        left = np.minimum(np.searchsorted(nodes, ends, side="right") - 1, nodes.size - 2)
        upper = (ends - nodes[left]) / (nodes[left + 1] - nodes[left])
        places = np.arange(nodes.size)[:, None] * nodes.size + left

        def matrix(masses: Array) -> Array:
            size = nodes.size**2
            down = np.bincount(places.ravel(), (masses * (1.0 - upper)).ravel(), size)
            up = np.bincount(places.ravel() + 1, (masses * upper).ravel(), size)
            return np.asarray((down + up).reshape(nodes.size, nodes.size))

        return _Chain(
            step,
            nodes,
            matrix(cell_masses(edges, 0.0)),
            matrix(cell_masses(edges, 2.0 / noise)),
            moves.size,
        )

    def after(self, base: Array, record: Array) -> tuple[Array, Array]:
        """Both measures after one more batch, of scores on the first nodes."""
        size = base.size
        both = matrix_product(np.stack([base, record]), self.base[:size])
        return both[0], both[1] + base @ self.record[:size]


@dataclass(frozen=True)
class _Binned:
    """Masses of scores by the log likelihood ratio that they show, from bin `start` on.

    `base` has those without the record, `seen` those of a data set in which it may be somewhere.
    """

    start: int
    base: Array
    seen: Array

    @staticmethod
    def of(base: Array, seen: Array) -> _Binned:
        used = (base > 0.0) | (seen > 0.0)
        if not used.any():
            return _Binned(0, np.zeros(1), np.zeros(1))
        log_seen, log_base = (np.log(np.maximum(part[used], _SMALLEST)) for part in (seen, base))
        ratios = log_seen - log_base
        ratios = np.clip(ratios, -_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
        bins = np.floor(ratios / _LOG_RATIO_STEP).astype(int)
        start = int(np.min(bins))
        bins -= start
        return _Binned(
            start,
            np.asarray(np.bincount(bins, base[used]), dtype=float),
            np.asarray(np.bincount(bins, seen[used]), dtype=float),
        )


_BINS: int = 2 * math.ceil(2.0 * _LARGEST_LOG_RATIO / _LOG_RATIO_STEP) + 8


class _Others:
    """All policies of one epoch: what follows the change of sides is the same for all of them."""

    def __init__(self, epoch: SwitchingOthers, chain: _Chain) -> None:
        self._epoch, self._chain = epoch, chain
        size = chain.nodes.size
        base, record = np.zeros(size), np.zeros(size)
        base[0] = 1.0
        later = []
        for steps in range(epoch.batches + 1):
            if steps > 0:
                base, record = chain.after(base, record)
            before = epoch.absent + epoch._share * (epoch.batches - steps)
            later.append(_Binned.of(base, before * base + epoch._share * record))
        self._later = later[::-1]

    def _boundary(self, level: float) -> NDArray[np.int64]:
        """The first node after each step at which the density p is above the level."""
        epoch = self._epoch
        rest = epoch.batches - np.arange(epoch.batches + 1)
        scores = ((level - epoch.absent) / epoch._share - rest) / self._chain.step
        return np.clip(np.searchsorted(self._chain.nodes, scores), 1, self._chain.nodes.size)

    def _switches(self, level: float) -> Iterator[tuple[int, _Binned]]:
        """How many batches came before the change of sides, and what they showed; all of them last."""
        epoch, chain = self._epoch, self._chain
        boundary = self._boundary(level)
        boundary[-1] = 0
        base, record = np.zeros(chain.nodes.size), np.zeros(chain.nodes.size)
        base[0] = 1.0
        for steps, first in enumerate(boundary.tolist()):
            if steps > 0:
                base, record = chain.after(base, record)
            rest = epoch.absent + epoch._share * (epoch.batches - steps)
            yield (
                steps,
                _Binned.of(base[first:], rest * base[first:] + epoch._share * record[first:]),
            )
            base, record = base[:first], record[:first]

    def masses(self, level: float) -> tuple[Array, Array]:
        """Probabilities of falling log likelihood ratios, with the record and with the other one."""
        p, q = np.zeros(_BINS), np.zeros(_BINS)
        for steps, first in self._switches(level):
            then = self._later[steps]
            start = first.start - then.start - (then.base.size - 1) + _BINS // 2
            stop = start + first.base.size + then.base.size - 1
            p[start:stop] += np.convolve(first.seen, then.base[::-1])
            q[start:stop] += np.convolve(first.base, then.seen[::-1])
        return p[::-1], q[::-1]

    def attacks(self, level: float) -> Attacks:
        """Tests of the ratio at all thresholds, moved to the safe side.

        All terms are nonnegative, so errors are relative: those of the cells' probabilities and of sums
        over nodes and cells in each step, and of the last sums over bins.
        """
        p, q = self.masses(level)
        used = (p > 0.0) | (q > 0.0)
        p, q = p[used], q[used]
        nodes, steps = self._chain.nodes.size, self._epoch.batches
        error = steps * (_MASS_ERROR + (nodes + self._chain.cells + 16.0) * UNIT_ROUNDOFF)
        error += (2.0 * nodes + _BINS + steps + 64.0) * UNIT_ROUNDOFF
        down, up = 1.0 - 2.0 * error, 1.0 + 2.0 * error
        return Attacks(
            np.minimum(np.cumsum(q) * up + _SMALLEST, 1.0),
            np.cumsum(p) * down,
            np.cumsum(q[::-1]) * down,
            np.minimum(np.cumsum(p[::-1]) * up + _SMALLEST, 1.0),
        )
