"""Renyi divergences of a pair at any real order above one, on both sides.

With s = order - 1 and the out-of-the-money value E(u) of the profile,

    E_P[e^{s L}] = 1 + s (s + 1) int e^{s u} E(u) du,

so chords of the profile bound it from above, up to the tail beyond the last node, and tangents from
below. The divergence is log E_P[e^{s L}] / s; it adds up over independent experiments.
"""

from __future__ import annotations

import sys
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
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile import ProfilePair
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair
from sharpdp.pairs.released_index import ReleasedGaussians

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
    top = composition.highest_loss
    if order > LARGEST_ORDER:
        low, high = divergence(composition, LARGEST_ORDER, relative_width)
        if not all(isinstance(pair, GaussianPair) for pair, _ in composition.merged_steps):
            return low, top
        ratio = order / LARGEST_ORDER  # in proportion to the order
        low = min(low * ratio * (1.0 - 4.0 * _SUMMED), sys.float_info.max)
        return low, high * ratio * (1.0 + 4.0 * _SUMMED)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        log_moments = [
            (count * low, count * high)
            for pair, count in composition.merged_steps
            for low, high in [log_moment(pair, order, relative_width)]
        ]
    slack = _SUMMED * len(log_moments)
    low = sum(end[0] for end in log_moments) * (1.0 - slack) / (order - 1.0)
    high = sum(end[1] for end in log_moments) * (1.0 + slack) / (order - 1.0)
    return (low if low >= 0.0 else 0.0), (high if high <= top else top)  # NaN is neither


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
