"""Products of likelihood ratios: the law of the ratio of a composition, safe on one side.

The ratio of a composition is the product of the ratios of its parts, independent under Q, and convex
functions of a product of nonnegative factors are convex in each. So laws above (or below) those of the
parts in the convex order give one above (below) that of the whole. It is made by doubling, like sums are.
Unlike a transform, which needs one tilt for all losses, this does not mind that few large ones decide.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.allocation.node_placement import ErrorWeights, NodeDensity, merged, rough
from sharpdp.bracket import Side
from sharpdp.numerics.convex_order import Grid, Law, product
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.pairs.finite import AtomicPair, TabulatedPair


def depth_of(times: int) -> float:
    """The depth to which a table reaches that is multiplied `times` times: deltas of e^-42 for one.

    As much deeper as it is repeated, in strides of four.
    """
    return 42.0 + 4.0 * float(np.ceil(np.log(times) / 4.0))


def stages(steps: int) -> list[int]:
    """Sizes of partial sums or products: each is twice the one before, or one more than it.

    >>> stages(11)
    [1, 2, 4, 5, 10, 11]
    """
    sizes = [1]
    for digit in bin(steps)[3:]:
        sizes.append(2 * sizes[-1])
        if digit == "1":
            sizes.append(sizes[-1] + 1)
    return sizes


def power(law: Law, times: int, depth: float, side: Side) -> Law:
    """The law of a product of so many independent copies of a ratio, for deltas down to e^-depth."""
    # more values are thinned before they are multiplied
    if times > 1 and law.values.size > 8000:
        law = _thinned(law, depth, side)
    total = law
    for before, size in pairwise(stages(times)):
        total = multiplied(total, total if size == 2 * before else law, depth, side)
    return total


def multiplied(first: Law, second: Law, depth: float, side: Side) -> Law:
    """The law of a product of independent ratios, on nodes for its own question and for more products."""
    looks = [_look(law, depth) for law in (first, second)]
    law = rough(looks[0], looks[1], np.multiply, 1.0, depth)
    return product(first, second, _grid(law, depth), side)


def _thinned(law: Law, depth: float, side: Side) -> Law:
    """A law moved to fewer values: its product with one."""
    certain = Law(np.ones(1), np.ones(1))
    return product(law, certain, _grid(_look(law, depth), depth), side)


def _look(law: Law, depth: float) -> Law:
    """A coarse version of a law, on few values."""
    listed = _listed(law, depth)
    return merged(law.values[listed], law.masses[listed], 1.0, depth)


def _grid(law: Law, depth: float) -> Grid:
    """Nodes for a law that is roughly this one."""
    main, _, _ = ErrorWeights.of(law, 1, depth).last(law)
    return NodeDensity.of(law, main, 1.0).grid(1600)


def _listed(law: Law, depth: float) -> NDArray[np.bool_]:
    """True where the mass up to a value is worth a look: not far below the smallest delta."""
    return np.asarray(np.cumsum(law.masses) > 1e-6 * np.exp(-depth))


def paired(law: Law, depth: float, side: Side) -> TabulatedPair:
    """The pair whose ratio has this law.

    The smallest values, with masses far below e^-depth, are split between zero and infinity (upper)
    or left out (lower), so that no composition has to follow them.
    """
    # a ratio that is zero, or too small for a double, is mass of Q that P does not have
    is_heavy = _listed(law, depth) & (law.values > 0.0)
    light, light_values = law.masses[~is_heavy], law.values[~is_heavy]
    if side is Side.LOWER:
        light = np.zeros(light.size)
    values, masses = law.values[is_heavy], law.masses[is_heavy]
    near = np.log1p(np.maximum(values - 1.0, -0.5))
    losses = np.where(np.abs(values - 1.0) < 0.5, near, np.log(values))
    log_q = np.log(masses)
    errors = 1.0 + 2.0 * (law.mass_error + law.value_error)
    largest = float(np.max(np.abs(log_q)) + np.max(np.abs(losses)))
    pair = AtomicPair(
        tuple(losses.tolist()),
        tuple((log_q + losses).tolist()),
        tuple(log_q.tolist()),
        (law.beyond + float(light @ light_values)) * errors,
        float(np.sum(light)) * errors,
        # the ratio is rounded before it is compared with one
        2.0 * law.value_error + 8.0 * UNIT_ROUNDOFF * (1.0 + float(np.max(np.abs(losses)))),
        # masses add up to one only within their error: both parities and both tails use it
        4.0 * (law.mass_error + 4.0 * UNIT_ROUNDOFF * largest),
    )
    return TabulatedPair(pair)
