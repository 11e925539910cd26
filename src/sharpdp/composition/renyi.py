"""Renyi divergences of a pair at any real order above one, on both sides.

With s = order - 1 and the out-of-the-money value E(u) of the profile,

    E_P[e^{s L}] = 1 + s (s + 1) int e^{s u} E(u) du,

so chords of the profile bound it from above, up to the tail beyond the last node, and tangents from
below. The divergence is log E_P[e^{s L}] / s; it adds up over independent experiments.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.composition.discretize import (
    Nodes,
    first_look,
    lower,
    node_shares,
    pieces_of,
    refined,
)
from sharpdp.composition.engine import Declined
from sharpdp.composition.sampled_gaussian.moments import moments_by_quadrature
from sharpdp.composition.sampled_gaussian.steps import StepKind, StepRows
from sharpdp.numerics.contour import Atoms
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

_CLOSED_FORMS = (GaussianPair, LaplacePair, AtomicPair, ReleasedGaussians, ProfilePair)
"""Pairs that know their moments."""

_FEW = 3
"""So many orders are asked one by one."""

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
    """`log_moment` at many orders: of a Poisson-sampled Gaussian as columns of one quadrature.

    Those of other pairs without a closed form come from nodes that are fine enough for all of them.
    """
    low, high = np.full(orders.size, np.nan), np.full(orders.size, np.nan)
    sampled, sign = (pair.base, -1) if isinstance(pair, ReversedPair) else (pair, 1)
    if isinstance(sampled, PoissonSampledPair) and isinstance(sampled.base, GaussianPair):
        near = orders * sampled.base.mu <= 300.0  # beyond, the tilted noise is too far out
        rows = StepRows.of([StepKind(sampled.rate, sampled.base.mu, sign, 1.0)])
        with suppress(Declined):
            if near.any():
                below, above = moments_by_quadrature(rows, orders[near][None] - 1.0)
                low[near], high[near] = np.maximum(below[0], 0.0), above[0]
    left = np.flatnonzero(~(high - low <= relative_width * high))
    if left.size > _FEW and not isinstance(pair, _CLOSED_FORMS) and pair.infinite_p == 0.0:
        quick = pair.for_composition() if relative_width >= 1e-4 else pair
        tilts = orders[left] - 1.0
        several = np.unique(np.quantile(tilts, np.linspace(0.0, 1.0, 9)))
        moments = NodeMoments.fine_enough(quick, several, 0.5 * relative_width)
        ends = [moments.ends(float(s)) for s in tilts]
        low[left], high[left] = np.array(ends).T
        left = left[~(high[left] - low[left] <= relative_width * high[left])]
    for index in left:
        low[index], high[index] = log_moment(pair, float(orders[index]), relative_width)
    return low, high


def log_moment(pair: Pair, order: float, relative_width: float) -> tuple[float, float]:
    """Certified (lower, upper) for log E_P[e^{(order - 1) L}]; upper is inf if no tail bound is known."""
    if isinstance(pair, _CLOSED_FORMS):
        return pair.log_moment(order)
    if pair.infinite_p > 0.0:
        return np.inf, np.inf
    if relative_width >= 1e-4:
        pair = pair.for_composition()  # maybe a quicker one
    s = order - 1.0
    return NodeMoments.fine_enough(pair, np.array([s]), relative_width).ends(s)


@dataclass(frozen=True)
class NodeMoments:
    """Moments of a pair from tangents and chords of its profile between nodes."""

    pair: Pair
    nodes: Nodes

    @classmethod
    def fine_enough(cls, pair: Pair, tilts: Array, relative_width: float) -> NodeMoments:
        """Nodes with which the moments at all these tilts are about as narrow as asked."""
        floor, rates = -60.0, tilts.tolist()
        while floor > -3000.0:
            coarse = cls(pair, first_look(pair, floor))
            sizes = [max(coarse._tangents.log_moment(s), 1e-300) for s in rates]
            enough = np.log(sizes) + np.log(1e-12)
            if all(coarse._rest(s) <= allowed for s, allowed in zip(rates, enough, strict=True)):
                break
            floor *= 1.5
        pieces = []
        for s, size in zip(rates, sizes, strict=True):
            share = np.exp(np.minimum(node_shares(coarse.nodes, s, 1.0), 60.0) / 3.0)
            total = float(np.sum(share))
            wanted = min(np.sqrt(total**3 / (relative_width * size)), 200_000)
            pieces.append(pieces_of(share, wanted / max(total, 1e-300)))
        return cls(pair, refined(coarse.nodes, np.maximum.reduce(pieces)))

    def ends(self, s: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{s L}]."""
        tangents, chords = self._tangents, self.nodes.chords.atoms
        low = tangents.log_moment(s) - tangents.tilted(s).log_moment_error
        finite = chords.log_moment(s) + chords.tilted(s).log_moment_error
        high = float(np.log1p(np.exp(self._rest(s) - finite)) + finite)
        return max(low, 0.0), high

    @cached_property
    def _tangents(self) -> Atoms:
        return lower(self.nodes).atoms

    def _rest(self, s: float) -> float:
        last, log_value = self.nodes.losses[-1], self.nodes.log_hockey_stick[-1]
        return _log_rest(self.pair, float(last), float(log_value), s)


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
