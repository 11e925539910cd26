"""Renyi divergences of a pair at any real order above one, on both sides.

With s = order - 1 and the out-of-the-money value E(u) of the profile,

    E_P[e^{s L}] = 1 + s (s + 1) int e^{s u} E(u) du,

so chords of the profile bound it from above, up to the tail beyond the last node, and tangents from
below. The divergence is log E_P[e^{s L}] / s; it adds up over independent experiments.

`FiniteLosses` has divergences where those are infinite: of the results that are left if some, of small
probability, are split off. Proof: docs/topics/renyi.md.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, at_least_once, exp_up, log_expm1
from sharpdp.pairs.finite import AtomicPair, PairOfOutcomes
from sharpdp.pairs.from_profile import ProfilePair
from sharpdp.pairs.known_moments import PairOfKnownMoments
from sharpdp.pairs.opposed import OpposedPair
from sharpdp.pairs.pair import (
    GaussianPair,
    LaplacePair,
    Pair,
    ReversedPair,
    for_composition,
    revealing_no_less,
)
from sharpdp.pairs.released_index import LabeledMixturePair, ReleasedGaussians
from sharpdp.pairs.sampled_group import SampledGroupPair
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.discretize import (
    LossDistribution,
    Nodes,
    exact,
    first_look,
    lower,
    node_shares,
    pieces_of,
    refined,
)
from sharpdp.profile.engine import Declined
from sharpdp.profile.sampled_gaussian.large_orders import (
    mixture_moments,
    opposed_moments,
    sampled_moments,
)
from sharpdp.profile.sampled_gaussian.moments import moments_by_quadrature
from sharpdp.profile.sampled_gaussian.steps import StepKind, StepRows

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

LARGEST_ORDER = 1e12
"""Beyond this order moments leave double precision; divergences rise with the order, up to the largest
loss."""

_CLOSED_FORMS = (GaussianPair, LaplacePair, AtomicPair, ReleasedGaussians, ProfilePair)
"""Pairs that know their moments."""

_FEW = 3
"""So many orders are asked one by one."""

_SUMMED = 1e-15
"""Relative rounding of one term of a sum of divergences, and of a product."""

_FAR_OUT = 60.0
"""From this shift of the tilted noise on values of profiles are too small to have nodes there."""

_SPLIT_OFF = -46.0
"""log of about the probability that is split off a pair of whose tail nothing is known: 1e-20."""

_TYPICAL_TILTS = np.geomspace(0.05, 1e3, 12)
"""Tilts for which the nodes of such a pair are made."""


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
        for pair, count in composition.steps_of_moments:
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
    if isinstance(pair, PairOfKnownMoments):
        return pair.log_moments(orders)
    if isinstance(pair, LabeledMixturePair):
        return _moments_of_mixture(pair, orders, relative_width)
    low, high = _moments_of_noise(pair, orders, relative_width)
    left = np.flatnonzero(~(high - low <= relative_width * high))
    if left.size > _FEW and not isinstance(pair, _CLOSED_FORMS) and pair.infinite_p == 0.0:
        quick = for_composition(pair) if relative_width >= 1e-4 else pair
        tilts = orders[left] - 1.0
        several = np.unique(np.quantile(tilts, np.linspace(0.0, 1.0, 9)))
        moments = NodeMoments.fine_enough(quick, several, 0.5 * relative_width)
        ends = np.array([moments.ends(float(s)) for s in tilts]).T
        low[left], high[left] = np.fmax(low[left], ends[0]), np.fmin(high[left], ends[1])
        left = left[~(high[left] - low[left] <= relative_width * high[left])]
    for index in left:
        below, above = log_moment(pair, float(orders[index]), relative_width)
        low[index], high[index] = np.fmax(low[index], below), np.fmin(high[index], above)
    unknown, dominating = np.isinf(high), revealing_no_less(pair)
    if unknown.any() and dominating is not pair:
        high[unknown] = log_moments(dominating, orders[unknown], relative_width)[1]
    return low, high


def _moments_of_noise(pair: Pair, orders: Array, relative_width: float) -> tuple[Array, Array]:
    """Moments of sampled Gaussian noise by quadrature or closed forms; NaN where neither serves."""
    low, high = np.full(orders.size, np.nan), np.full(orders.size, np.nan)
    sampled, sign = (pair.base, -1) if isinstance(pair, ReversedPair) else (pair, 1)
    if isinstance(sampled, PoissonSampledPair) and isinstance(sampled.base, GaussianPair):
        near = orders * sampled.base.mu <= 300.0  # beyond, the tilted noise is too far out
        rows = StepRows.of([StepKind(sampled.rate, sampled.base.mu, sign, 1.0)])
        with suppress(Declined):
            if near.any():
                below, above = moments_by_quadrature(rows, orders[near][None] - 1.0)
                low[near], high[near] = np.maximum(below[0], 0.0), above[0]
        far = np.isnan(high) & (sign > 0)
        if far.any():
            low[far], high[far] = sampled_moments(
                sampled.rate, sampled.base.mu, orders[far], relative_width
            )
    elif isinstance(pair, OpposedPair):
        far = orders * pair.mu > _FAR_OUT
        if far.any():
            low[far], high[far] = opposed_moments(pair.rate, pair.mu, orders[far], relative_width)
    elif isinstance(pair, SampledGroupPair):
        far = orders * pair.mu > _FAR_OUT
        if far.any():
            low[far], high[far] = mixture_moments(*pair.mixture, orders[far])
    return low, high


def _moments_of_mixture(
    pair: LabeledMixturePair, orders: Array, relative_width: float
) -> tuple[Array, Array]:
    """Moments of pairs with their weights, the index released: the weighted sum of theirs."""
    every = [log_moments(member, orders, relative_width) for member in pair.pairs]
    log_weights = np.log(pair.weights)[:, None]
    low, high = (np.stack([ends[side] for ends in every]) for side in (0, 1))
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        # log(1 + sum w (e^m - 1)): moments are at least one, and small ones keep their digits
        low, high = (
            np.logaddexp(0.0, np.logaddexp.reduce(log_weights + log_expm1(logs), axis=0))
            for logs in (low, high)
        )
    return low * (1.0 - pair.accuracy), high * (1.0 + pair.accuracy)


def log_moment(pair: Pair, order: float, relative_width: float) -> tuple[float, float]:
    """Certified (lower, upper) for log E_P[e^{(order - 1) L}]; upper is inf if no tail bound is known."""
    if isinstance(pair, _CLOSED_FORMS):
        return pair.log_moment(order)
    if pair.infinite_p > 0.0:
        return np.inf, np.inf
    if relative_width >= 1e-4:
        pair = for_composition(pair)  # maybe a quicker one
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
        return coarse._refined(rates, sizes, relative_width)

    @classmethod
    def down_to(cls, pair: Pair, floor: float, tilts: Array, relative_width: float) -> NodeMoments:
        """Nodes for these tilts up to the loss at which the value is about e^floor."""
        coarse, rates = cls(pair, first_look(pair, floor)), tilts.tolist()
        sizes = [max(coarse._tangents.log_moment(s), 1e-300) for s in rates]
        return coarse._refined(rates, sizes, relative_width)

    def _refined(
        self, rates: list[float], sizes: list[float], relative_width: float
    ) -> NodeMoments:
        """Finer nodes for moments of about these sizes at these tilts."""
        pieces = []
        for s, size in zip(rates, sizes, strict=True):
            share = np.exp(np.minimum(node_shares(self.nodes, s, 1.0), 60.0) / 3.0)
            total = float(np.sum(share))
            wanted = min(np.sqrt(total**3 / (relative_width * size)), 200_000)
            pieces.append(pieces_of(share, wanted / max(total, 1e-300)))
        return NodeMoments(self.pair, refined(self.nodes, np.maximum.reduce(pieces)))

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
    rate = pair.hints.tail_rate(last)
    if not rate > s:
        return np.inf
    return float(np.log(s + 1.0) + s * last + log_value + np.log(rate / (rate - s)))


@dataclass(frozen=True)
class FiniteLosses:
    """A composition without what has an infinite loss, or a loss of whose tail nothing is known.

    P of such a pair is a measure of small mass and another one, P' <= P, whose losses are finite; that of
    other pairs is left as it is. With m the mass that all of them lose together, P' of all of them is
    (1 - m) times a distribution R, and at every x

        H_x(P||Q) <= m + (1 - m) H_{x / (1 - m)}(R||Q) <= m + (1 - m) H_x(R||Q).
    """

    composition: Composition

    @property
    def splits(self) -> bool:
        """Whether something is split off at all."""
        return any(not _is_whole(pair) for pair, _ in self.composition.steps_of_moments)

    @cached_property
    def _losses(self) -> tuple[tuple[Pair | LossDistribution, int], ...]:
        """Pairs of which nothing is split off, and what is left of the others."""
        return tuple((_finite(pair), count) for pair, count in self.composition.steps_of_moments)

    @cached_property
    def mass(self) -> float:
        """Not less than the probability of all that is split off, under P."""
        masses = (
            (exp_up(losses.log_infinite_p * (1.0 - 4.0 * UNIT_ROUNDOFF)), count)
            for losses, count in self._losses
            if isinstance(losses, LossDistribution)
        )
        return at_least_once(((mass, mass), count) for mass, count in masses)[1]

    def divergences(self, orders: Array) -> Array:
        """Upper bounds on the divergences of R from Q."""
        if not self.mass < 1.0:
            return np.full(orders.size, np.inf)
        usual = np.minimum(orders, LARGEST_ORDER)
        total = np.zeros(orders.size)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for losses, count in self._losses:
                if isinstance(losses, LossDistribution):
                    logs = np.array([_log_moment_upper(losses, float(s)) for s in usual - 1.0])
                else:
                    logs = log_moments(losses, usual, 1e-3)[1]
                total += count * logs + _SUMMED * count * np.abs(logs)
            # R is P' divided by 1 - m
            scale = -np.log1p(-self.mass) * (1.0 + 4.0 * UNIT_ROUNDOFF)
            sizes = _SUMMED * (len(self._losses) + 4.0) * (np.abs(total) + usual * scale)
            values = np.maximum(total + usual * scale + sizes, 0.0) / (usual - 1.0)
            top = (self.composition.largest_loss + scale) * (1.0 + _SUMMED)
        values = np.where(orders > LARGEST_ORDER, np.inf, values * (1.0 + _SUMMED))
        return np.asarray(np.fmin(np.where(np.isnan(values), np.inf, values), top))


def _finite(pair: Pair) -> Pair | LossDistribution:
    """The pair if its moments may be finite; otherwise losses that dominate it, with mass at infinity."""
    if _is_whole(pair):
        return pair
    if isinstance(pair, AtomicPair | PairOfOutcomes):
        return exact(pair if isinstance(pair, AtomicPair) else pair.outcomes, Side.UPPER)
    quick = for_composition(pair)
    return NodeMoments.down_to(quick, _SPLIT_OFF, _TYPICAL_TILTS, 1e-3).nodes.chords


def _is_whole(pair: Pair) -> bool:
    """Whether nothing needs to be split off, since moments may be finite."""
    if isinstance(pair, PairOfKnownMoments):
        return True
    return pair.infinite_p_ends[1] == 0.0 and (pair.support[1] < np.inf or _has_tail(pair))


def _has_tail(pair: Pair) -> bool:
    """Whether the moments of a pair with unbounded losses have upper ends."""
    if isinstance(pair, LabeledMixturePair):
        return all(member.support[1] < np.inf or _has_tail(member) for member in pair.pairs)
    return isinstance(pair, _CLOSED_FORMS) or pair.hints.tail_rate(8.0) > 0.0


def _log_moment_upper(losses: LossDistribution, s: float) -> float:
    """Not less than log of the sum of p e^{s loss} over finite losses."""
    return losses.atoms.log_moment(s) + losses.atoms.tilted(s).log_moment_error
