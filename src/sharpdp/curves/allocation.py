"""One of many steps, chosen at random: P = mean over t of N(e_t, s^2 I) against Q = N(0, s^2 I).

Under Q the ratio X = dP/dQ is the mean of T independent lognormal variables exp(y / s - 1 / (2 s^2)).
Both directions of delta are expectations of convex functions of X,

    delta_PQ(k) = E_Q (X - e^k)_+,    delta_QP(k) = E_Q (1 - e^k X)_+,

so a law above that of X in the convex order is a pair that dominates (P, Q), and one below it is
dominated, at every threshold and under composition (products of such ratios are convex in each one).
`numerics.convex_order` keeps such laws through sums; here the nodes are chosen. A first look with few
nodes finds, for every size of a partial sum, the density f of that sum and how much an error there would
matter: an error e(x) of its calls moves the call at c by the integral of e(x) f_rest(c - x). Nodes are
then put with density (f times the largest such weight)^(1/3), which makes the error of n nodes
smallest, of order n^-2; some are spread over both tails for thresholds that nobody weighed.
None of this planning is certified or needs to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.atomic import AtomicPair
from sharpdp.curves.pair import GaussianPair, Pair
from sharpdp.numerics.convex_order import WIDEST_CELL, Grid, Law, lognormal, total
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array

LEAST_NOISE = 0.1
"""Noise below which ratios span more than seventy orders of magnitude, too many for so few nodes."""

MOST_STEPS = 1 << 30
"""Sums of more terms would lose their masses in rounding."""

# The table reaches to deltas of e^-42, about 1e-18, and as much deeper as it is repeated, in strides.
_DEPTH, _STRIDE = 42.0, 4.0
# Values per law in the first look.
_FIRST_VALUES = 128
# The share of nodes that is spread over both tails by depth alone, and over octaves below the mean: mass
# is moved to the left by every split, and must not get far.
_EVENLY, _LEFT = 0.12, 0.06
# Nodes below the first one, so that the little that gets there is not split to zero at once.
_STEPS_DOWN = 2.0 ** (np.arange(-40.0, 0.0) / 4.0)
# Wanted width of the two sides together, relative to epsilon. Where log delta falls more slowly than
# this with log epsilon, next to epsilon = 0, widths count as if it did not.
_WIDTH, _LEAST_FALL = 2e-4, 0.5
# So many pairs of values are added for each side, at about 5 nanoseconds each; the last law costs
# nothing to make fine, the others have so many values at least.
_MOST_PAIRS, _LAST, _LEAST_VALUES = 4e7, 2.0, 100
# No law has less than this part of the largest number of values.
_LEAST_RATIO = 0.15
# Chords and tangents are f w^2 / 8 apart on average in a cell of width w.
_CELL_SHARE = 8.0
# Densities below this have no nodes.
_TINY = 1e-100
# Masses of a pair add up to one only within their error: both parities and both tails use it.
_PARITY = 4.0


def allocated(noise_multiplier: float, steps: int, times: int, side: Side) -> Pair:
    """A pair above (upper) or below (lower) that of one step of `steps`, to be repeated `times` times.

    Holds when: noise_multiplier >= LEAST_NOISE and steps <= MOST_STEPS.

    Numerics: the distance of the two sides is about 1e-4 to 1e-3 of epsilon for deltas from 1e-3 to
    1e-15; below 1e-18 the upper one is infinite.

    >>> allocated(2.0, 1, 1, Side.UPPER)
    GaussianPair(mu=0.5)
    """
    mu = 1.0 / noise_multiplier
    if steps == 1:
        return GaussianPair(mu)
    return _table(mu, steps, _DEPTH + _STRIDE * float(np.ceil(np.log(times) / _STRIDE)), side)


@lru_cache(maxsize=64)
def _table(mu: float, steps: int, depth: float, side: Side) -> AtomicPair:
    """The pair of a law of X on this side."""
    law = _summed(_plan(mu, steps, depth), side)
    ratios = law.values / steps
    near = np.abs(ratios - 1.0) < 0.5
    with np.errstate(divide="ignore"):
        losses = np.where(near, np.log1p((law.values - steps) / steps), np.log(ratios))
        log_q = np.log(law.masses)
    finite = np.isfinite(losses)
    kept, at_zero = losses[finite], float(np.sum(law.masses[~finite]))
    largest = float(np.max(np.abs(log_q)) + np.max(np.abs(kept)))
    return AtomicPair(
        tuple(kept.tolist()),
        tuple((log_q[finite] + kept).tolist()),
        tuple(log_q[finite].tolist()),
        law.beyond / steps * (1.0 + 2.0 * (law.mass_error + law.value_error)),
        at_zero * (1.0 + 2.0 * law.mass_error),
        # log1p and log of a quotient, and 1 / noise_multiplier was rounded: its ratio X would be another
        2.0 * law.value_error + 8.0 * UNIT_ROUNDOFF * (1.0 + float(np.max(np.abs(kept)))),
        _PARITY * (law.mass_error + 4.0 * UNIT_ROUNDOFF * largest),
    )


def stages(steps: int) -> list[int]:
    """Sizes of the partial sums: each is twice the one before, or one more than it.

    >>> stages(11)
    [1, 2, 4, 5, 10, 11]
    """
    sizes = [1]
    for digit in bin(steps)[3:]:
        sizes.append(2 * sizes[-1])
        if digit == "1":
            sizes.append(sizes[-1] + 1)
    return sizes


@dataclass(frozen=True, eq=False)
class _Design:
    """Where the nodes of one partial sum go: places, and the share of nodes up to each."""

    places: Array
    shares: Array

    def nodes(self, count: int) -> Array:
        """So many nodes."""
        rising = np.append(True, np.diff(self.shares) > 0.0)
        wanted = np.linspace(0.0, self.shares[-1], count)
        return np.unique(np.interp(wanted, self.shares[rising], self.places[rising]))

    def grid(self, count: int) -> Grid:
        """A grid with so many nodes, and some below them."""
        nodes = self.nodes(count)
        return Grid(nodes, nodes[0] * _STEPS_DOWN)


@dataclass(frozen=True, eq=False)
class _Plan:
    """The sizes of the partial sums, with a design and a number of nodes for each."""

    mu: float
    designs: dict[int, _Design]
    counts: dict[int, int]

    def edges(self, count: int) -> Array:
        """Edges of the normal variable for a single term, none too far apart."""
        y = (np.log(self.designs[1].nodes(count)) + 0.5 * self.mu**2) / self.mu
        pieces = np.ceil(np.diff(y) / WIDEST_CELL).astype(int)
        width = np.repeat(np.diff(y) / pieces, pieces)
        offset = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        return np.append(np.repeat(y[:-1], pieces) + offset * width, y[-1])


def _summed(plan: _Plan, side: Side) -> Law:
    """The law of the whole sum, safe on this side."""
    sizes = list(plan.designs)
    law = lognormal(plan.mu, plan.edges(plan.counts[1]), side)
    for before, size in pairwise(sizes):
        other = law
        if size == before + 1 and before > 1:
            # one term among many: its own error hardly counts
            count = max(int(plan.counts[1] / np.sqrt(before)), _LEAST_VALUES)
            other = lognormal(plan.mu, plan.edges(count), side)
        law = total(law, other, plan.designs[size].grid(plan.counts[size]), side)
    return law


@lru_cache(maxsize=64)
def _plan(mu: float, steps: int, depth: float) -> _Plan:
    """Choose the nodes of all partial sums."""
    laws = _first_look(mu, steps, depth)
    final = _Final.of(laws[steps], steps, depth)
    designs, weights, errors = {}, [], []
    for size, law in laws.items():
        main, weight, error = final.last(law) if size == steps else final.weighed(law, size)
        designs[size] = _Design(law.values, (1.0 - _EVENLY - _LEFT) * main + _evenly(law, size))
        weights.append(weight)
        errors.append(error)
    # the error of a stage is weight / count^2 and its work count^2: counts go with weight^(1/4)
    ratios = np.array(weights[:-1]) ** 0.25
    ratios = np.maximum(ratios / np.max(ratios), _LEAST_RATIO)
    most = np.sqrt(_MOST_PAIRS / np.sum(ratios**2))
    largest = float(np.max(ratios**-2.0 @ np.array(errors[:-1])))
    scale = float(min(most, np.sqrt(largest / _WIDTH)))
    counts = {
        size: max(int(scale * ratio), _LEAST_VALUES)
        for size, ratio in zip(laws, ratios, strict=False)
    }
    counts[steps] = int(_LAST * max(counts.values()))
    return _Plan(mu, designs, counts)


def _first_look(mu: float, steps: int, depth: float) -> dict[int, Law]:
    """A rough law for every partial sum."""
    low, high = -np.sqrt(2.0 * depth), mu + np.sqrt(2.0 * (depth + np.log(steps)))
    count = max(_FIRST_VALUES, int((high - low) / WIDEST_CELL) + 2)
    one = lognormal(mu, np.linspace(low, high, count), Side.LOWER)
    laws, law = {1: one}, one
    for before, size in pairwise(stages(steps)):
        other = one if size == before + 1 else law
        values = np.add.outer(law.values, other.values).ravel()
        order = np.argsort(values)
        values = values[order]
        masses = np.multiply.outer(law.masses, other.masses).ravel()[order]
        marks = _marks(values, masses, size, depth)
        cells = np.searchsorted(marks, values, side="right")
        mass = np.asarray(np.bincount(cells, masses), dtype=float)
        kept = mass > 0.0
        law = Law(np.bincount(cells, masses * values)[kept] / mass[kept], mass[kept])
        laws[size] = law
    return laws


def _log_values(values: Array, masses: Array, mean: float) -> Array:
    """log delta of either direction at each value of a sum with this mean: calls above, puts below."""
    widths = np.diff(values)
    tails, heads = np.cumsum(masses[::-1])[::-1], np.cumsum(masses)
    calls = np.append(np.cumsum((tails[1:] * widths)[::-1])[::-1], 0.0) / mean
    puts = np.append(0.0, np.cumsum(heads[:-1] * widths)) / values
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.where(values >= mean, calls, puts)))


def _depths(values: Array, masses: Array, mean: float) -> tuple[Array, Array]:
    """log delta at each value, and a rising coordinate: roots of the nats below its largest value."""
    log_values = _log_values(values, masses, mean)
    nats = np.max(log_values) - log_values
    # there is nothing beyond the ends; a nat more keeps them apart from their neighbours
    nats = np.minimum(nats, np.max(nats[np.isfinite(nats)]) + 1.0)
    signs = np.where(values >= mean, 1.0, -1.0)
    return log_values, np.maximum.accumulate(signs * (np.sqrt(1.0 + nats) - 1.0))


def _octaves(values: Array, mean: float) -> Array:
    """How many octaves each value is below the mean, as a rising coordinate up to zero."""
    return np.asarray(np.minimum(np.log2(values / mean), 0.0))


def _marks(values: Array, masses: Array, size: int, depth: float) -> Array:
    """Nodes of the first look: evenly by depth."""
    log_values, place = _depths(values, masses, float(size))
    seen = log_values > -depth
    octaves = _octaves(values, float(size))
    return np.unique(
        np.concatenate(
            [
                np.interp(
                    np.linspace(line[seen][0], line[seen][-1], count), line[seen], values[seen]
                )
                for line, count in ((place, _FIRST_VALUES), (octaves, _FIRST_VALUES // 2))
            ]
        )
    )


def _evenly(law: Law, size: int) -> Array:
    """The share of nodes up to each value of a law that go by depth and by octaves."""
    _, place = _depths(law.values, law.masses, float(size))
    octaves = _octaves(law.values, float(size))
    lines = [(line - line[0]) / (line[-1] - line[0]) for line in (place, octaves)]
    return np.asarray(_EVENLY * lines[0] + _LEFT * lines[1])


def _log_density(law: Law) -> Array:
    """log of the density of a law at its values, from the distances of its values."""
    middles = 0.5 * (law.values[1:] + law.values[:-1])
    ends = np.concatenate([law.values[:1], middles, law.values[-1:]])
    return np.asarray(np.log(law.masses) - np.log(np.diff(ends)))


def _shares(density: Array, places: Array) -> tuple[Array, float]:
    """The share of an integral up to each place, and the integral."""
    pieces = 0.5 * (density[1:] + density[:-1]) * np.diff(places)
    sums = np.append(0.0, np.cumsum(pieces))
    return sums / sums[-1], float(sums[-1])


@dataclass(frozen=True, eq=False)
class _Final:
    """The law of the whole sum in the first look, with thresholds and what an error there would cost."""

    law: Law
    steps: int
    places: Array
    log_density: Array
    log_worth: Array

    @classmethod
    def of(cls, law: Law, steps: int, depth: float) -> _Final:
        """Errors count relative to epsilon, in the worse direction."""
        values, losses = law.values, np.log(law.values / steps)
        log_values = _log_values(values, law.masses, float(steps))
        seen = log_values > -depth
        call = seen & (losses > 0.0)
        other = np.interp(-losses, losses[call], log_values[call], right=-np.inf)
        worst = np.where(losses > 0.0, log_values, np.maximum(log_values, other))
        scale = np.log(np.where(losses > 0.0, float(steps), values))
        worth = (-worst - scale)[seen]
        # how fast log delta falls with log epsilon: that much more error is allowed
        fall = np.abs(np.gradient(worst[seen], losses[seen]) * losses[seen])
        worth -= np.log(np.maximum(fall, _LEAST_FALL))
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
        log_rest = np.interp(
            arrival,
            self.places,
            self.log_density,
            left=-np.inf,
            right=-np.inf,
        )
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
