"""One of many steps, chosen at random: P = mean over t of N(e_t, s^2 I) against Q = N(0, s^2 I).

Under Q the ratio X = dP/dQ is the mean of T independent lognormal variables exp(y / s - 1 / (2 s^2)).
Both directions of delta are expectations of convex functions of X,

    delta_PQ(k) = E_Q (X - e^k)_+,    delta_QP(k) = E_Q (1 - e^k X)_+,

so a law above that of X in the convex order is a pair that dominates (P, Q), and one below it is
dominated, at every threshold and under composition (products of such ratios are convex in each one).
`numerics.convex_order` keeps such laws through sums, on nodes that `bounds.allocation.node_placement`
chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sharpdp.bounds.allocation.node_placement import FIRST_VALUES, ErrorWeights, NodeDensity, rough
from sharpdp.bounds.allocation.product_law import depth_of, multiplied, paired, power, stages
from sharpdp.bracket import Side
from sharpdp.numerics.convex_order import WIDEST_CELL, Law, lognormal, total
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.pairs.finite import TabulatedPair
from sharpdp.pairs.pair import STANDARD_WIDTH, GaussianPair, Pair

Blocks = tuple[tuple[int, int], ...]
"""Numbers of steps, of which one is chosen, each with how often."""

LEAST_NOISE = 0.1
"""Noise below which ratios span more than seventy orders of magnitude, too many for so few nodes."""

MOST_NOISE = 1e4
"""Noise above which ratios are too close to one to be told apart on a grid."""

MOST_STEPS = 1 << 30
"""Sums of more terms would lose their masses in rounding."""

_LEAST_VALUES = 100
"""A law has so many values at least."""


def allocated(
    noise_multiplier: float, steps: int, times: int, side: Side, width: float = STANDARD_WIDTH
) -> Pair:
    """A pair above (upper) or below (lower) that of one step of `steps`, to be repeated `times` times.

    Holds when: LEAST_NOISE <= noise_multiplier <= MOST_NOISE and steps <= MOST_STEPS.

    Numerics: the distance of the two sides is about `width` of epsilon for deltas from 1e-3 to 1e-15,
    with few steps; no finer than 1e-4 or so with many, where the work would be too much. Below 1e-18
    the upper one is infinite.

    >>> allocated(2.0, 1, 1, Side.UPPER)
    GaussianPair(mu=0.5)
    """
    mu = 1.0 / noise_multiplier
    if steps == 1:
        return GaussianPair(mu)
    return _table(mu, steps, depth_of(times), side, width)


def repeated(noise_multiplier: float, blocks: Blocks, side: Side) -> Pair:
    """A pair above (upper) or below (lower) all of these at once: (steps, times), one of steps each.

    The ratio of a composition is the product of all ratios, whose law is made like that of the sums.
    Unlike a composition of tables it does not mind that few large losses decide.

    Holds when: LEAST_NOISE <= noise_multiplier <= MOST_NOISE; at least two steps, and at most MOST_STEPS,
    each; the product is neither so large nor so small that it leaves the range of doubles.
    """
    depth = depth_of(sum(times for _, times in blocks))
    return _repeated(1.0 / noise_multiplier, blocks, depth, side)


@lru_cache(maxsize=64)
def _repeated(mu: float, blocks: Blocks, depth: float, side: Side) -> TabulatedPair:
    """The pair of the law of the product."""
    whole: Law | None = None
    for steps, times in blocks:
        law = power(law_of_ratio(mu, steps, depth, side, STANDARD_WIDTH), times, depth, side)
        whole = law if whole is None else multiplied(whole, law, depth, side)
    assert whole is not None
    return paired(whole, depth, side)


@lru_cache(maxsize=64)
def _table(mu: float, steps: int, depth: float, side: Side, width: float) -> TabulatedPair:
    """The pair of a law of X on this side."""
    return paired(law_of_ratio(mu, steps, depth, side, width), depth, side)


@lru_cache(maxsize=64)
def law_of_ratio(mu: float, steps: int, depth: float, side: Side, width: float) -> Law:
    """The law of X itself on this side."""
    law = _summed(_plan(mu, steps, depth, width), side)
    # one division more for each value
    error = law.value_error + UNIT_ROUNDOFF
    return replace(law, values=law.values / steps, beyond=law.beyond / steps, value_error=error)


@dataclass(frozen=True, eq=False)
class _Plan:
    """The sizes of the partial sums, with a design and a number of nodes for each."""

    mu: float
    densities: dict[int, NodeDensity]
    counts: dict[int, int]

    def edges(self, count: int) -> Array:
        """Edges of the normal variable for a single term, none too far apart."""
        y = (np.log(self.densities[1].nodes(count)) + 0.5 * self.mu**2) / self.mu
        pieces = np.ceil(np.diff(y) / WIDEST_CELL).astype(int)
        width = np.repeat(np.diff(y) / pieces, pieces)
        offset = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        return np.append(np.repeat(y[:-1], pieces) + offset * width, y[-1])


def _summed(plan: _Plan, side: Side) -> Law:
    """The law of the whole sum, safe on this side."""
    sizes = list(plan.densities)
    law = lognormal(plan.mu, plan.edges(plan.counts[1]), side)
    for before, size in pairwise(sizes):
        other = law
        if size == before + 1 and before > 1:
            # one term among many: its own error hardly counts
            count = max(int(plan.counts[1] / np.sqrt(before)), _LEAST_VALUES)
            other = lognormal(plan.mu, plan.edges(count), side)
        law = total(law, other, plan.densities[size].grid(plan.counts[size]), side)
    return law


@lru_cache(maxsize=64)
def _plan(mu: float, steps: int, depth: float, width: float) -> _Plan:
    """Choose the nodes of all partial sums."""
    laws = _first_look(mu, steps, depth)
    error_weights = ErrorWeights.of(laws[steps], steps, depth)
    densities, weights, errors = {}, [], []
    for size, law in laws.items():
        last = size == steps
        main, weight, error = error_weights.last(law) if last else error_weights.weighed(law, size)
        densities[size] = NodeDensity.of(law, main, float(size))
        weights.append(weight)
        errors.append(error)
    # the error of a stage is weight / count^2 and its work count^2: counts go with weight^(1/4)
    ratios = np.array(weights[:-1]) ** 0.25
    ratios = np.maximum(ratios / np.max(ratios), 0.15)
    # so many pairs of values are added for a side, at about 5 nanoseconds each; at finer widths than the
    # standard one twice as many
    work = min(max(STANDARD_WIDTH / width, 1.0), 2.0)
    limit = np.sqrt(work * 4e7 / np.sum(ratios**2))
    largest = float(np.max(ratios**-2.0 @ np.array(errors[:-1])))
    scale = float(min(limit, np.sqrt(largest / width)))
    counts = {
        size: max(int(scale * ratio), _LEAST_VALUES)
        for size, ratio in zip(laws, ratios, strict=False)
    }
    # the last law costs nothing to make fine
    counts[steps] = int(2.0 * max(counts.values()))
    return _Plan(mu, densities, counts)


def _first_look(mu: float, steps: int, depth: float) -> dict[int, Law]:
    """A rough law for every partial sum."""
    low, high = -np.sqrt(2.0 * depth), mu + np.sqrt(2.0 * (depth + np.log(steps)))
    count = max(FIRST_VALUES, int((high - low) / WIDEST_CELL) + 2)
    term = lognormal(mu, np.linspace(low, high, count), Side.LOWER)
    laws, law = {1: term}, term
    for before, size in pairwise(stages(steps)):
        other = term if size == before + 1 else law
        law = rough(law, other, np.add, float(size), depth)
        laws[size] = law
    return laws
