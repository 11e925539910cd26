"""Renyi divergences of a pair at any real order above one, on both sides.

With s = order - 1 and the out-of-the-money value E(u) of the profile,

    E_P[e^{s L}] = 1 + s (s + 1) int e^{s u} E(u) du,

so chords of the profile bound it from above, up to the tail beyond the last node, and tangents from
below. The divergence is log E_P[e^{s L}] / s; it adds up over independent experiments.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.composition.discretize import (
    first_look,
    lower,
    node_shares,
    pieces_of,
    refined,
    upper,
)
from sharpdp.composition.engine import Declined
from sharpdp.composition.sampled_gaussian import StepKind, StepRows, moments_by_quadrature
from sharpdp.numerics.special import Array
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile import ProfilePair
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair, ReversedPair
from sharpdp.pairs.released_index import ReleasedGaussians
from sharpdp.pairs.subsampled import PoissonSampledPair

if TYPE_CHECKING:
    from sharpdp.composition.composition import Composition

LARGEST_ORDER = 1e12
"""Beyond this order moments leave double precision; divergences rise with the order, up to the largest
loss."""

_SUMMED = 1e-15
"""Relative rounding of one term of a sum of divergences, and of a product."""


def divergence(
    composition: Composition, order: float, relative_width: float
) -> tuple[float, float]:
    """(lower, upper) of the Renyi divergence of a composition: those of its parts added up."""
    low, high = divergences(composition, np.array([order]), relative_width)
    return float(low[0]), float(high[0])


def divergences(
    composition: Composition, orders: Array, relative_width: float
) -> tuple[Array, Array]:
    """`divergence` at many orders: all lower and all upper ends."""
    top, usual = composition.highest_loss, np.minimum(orders, LARGEST_ORDER)
    low, high = np.zeros(orders.size), np.zeros(orders.size)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for pair, count in composition.merged_steps:
            below, above = log_moments(pair, usual, relative_width)
            low, high = low + count * below, high + count * above
    slack = _SUMMED * len(composition.merged_steps)
    low = low * (1.0 - slack) / (usual - 1.0)
    high = high * (1.0 + slack) / (usual - 1.0)
    low, high = np.where(low >= 0.0, low, 0.0), np.where(high <= top, high, top)  # NaN is neither
    larger = orders > LARGEST_ORDER
    if all(isinstance(pair, GaussianPair) for pair, _ in composition.merged_steps):
        ratio = orders[larger] / LARGEST_ORDER  # in proportion to the order
        with np.errstate(over="ignore"):
            low[larger] = np.minimum(
                low[larger] * ratio * (1.0 - 4.0 * _SUMMED), sys.float_info.max
            )
            high[larger] *= ratio * (1.0 + 4.0 * _SUMMED)
    else:
        high[larger] = top
    return low, high


def log_moments(pair: Pair, orders: Array, relative_width: float) -> tuple[Array, Array]:
    """`log_moment` at many orders; those of a Poisson-sampled Gaussian as columns of one quadrature."""
    low, high = np.full(orders.size, np.nan), np.full(orders.size, np.nan)
    sampled, sign = (pair.base, -1) if isinstance(pair, ReversedPair) else (pair, 1)
    if isinstance(sampled, PoissonSampledPair) and isinstance(sampled.base, GaussianPair):
        near = orders * sampled.base.mu <= 300.0  # beyond, the tilted noise is too far out
        rows = StepRows.of([StepKind(sampled.rate, sampled.base.mu, sign, 1.0)])
        with suppress(Declined):
            if near.any():
                below, above = moments_by_quadrature(rows, orders[near][None] - 1.0)
                low[near], high[near] = np.maximum(below[0], 0.0), above[0]
    for index in np.flatnonzero(~(high - low <= relative_width * high)):
        low[index], high[index] = log_moment(pair, float(orders[index]), relative_width)
    return low, high


def log_moment(pair: Pair, order: float, relative_width: float) -> tuple[float, float]:
    """Certified (lower, upper) for log E_P[e^{(order - 1) L}]; upper is inf if no tail bound is known."""
    if isinstance(pair, GaussianPair | LaplacePair | AtomicPair | ReleasedGaussians | ProfilePair):
        return pair.log_moment(order)
    if pair.infinite_p > 0.0:
        return np.inf, np.inf
    if relative_width >= 1e-4:
        pair = pair.for_composition()  # maybe a quicker one
    s = order - 1.0
    low, high = 0.0, np.inf
    floor = -60.0
    while floor > -3000.0:
        nodes = first_look(pair, floor)
        rest = _log_rest(pair, float(nodes.losses[-1]), float(nodes.log_hockey_stick[-1]), s)
        estimate = lower(nodes).atoms.log_moment(s)
        if rest <= np.log(max(estimate, 1e-300)) + np.log(1e-12):
            break
        floor *= 1.5
    size = max(estimate, 1e-300)
    share = np.exp(np.minimum(node_shares(nodes, s, 1.0), 60.0) / 3.0)
    total = float(np.sum(share))
    factor = min(np.sqrt(total**3 / (relative_width * size)), 200_000) / max(total, 1e-300)
    fine = refined(nodes, pieces_of(share, factor))
    tangents, chords = lower(fine).atoms, upper(fine).atoms
    low = tangents.log_moment(s) - tangents.tilted(s).log_moment_error
    finite = chords.log_moment(s) + chords.tilted(s).log_moment_error
    rest = _log_rest(pair, float(fine.losses[-1]), float(fine.log_hockey_stick[-1]), s)
    high = float(np.log1p(np.exp(rest - finite)) + finite)
    return max(low, 0.0), high


def _log_rest(pair: Pair, last: float, log_value: float, s: float) -> float:
    """log of what the chords leave out of the moment: the value beyond the last node.

    (s + 1) e^{s u} E(u) (1 + s / (rate - s)), if E falls at least at `rate` > s from u on; with bounded
    losses (s + 1) e^{s h} E(u), h the largest one.
    """
    if np.isneginf(log_value):
        return -np.inf
    if np.isfinite(pair.support[1]):
        return float(np.log(s + 1.0) + s * pair.support[1] + log_value)
    rate = pair.tail_rate(last)
    if not rate > s:
        return np.inf
    return float(np.log(s + 1.0) + s * last + log_value + np.log(rate / (rate - s)))
