"""Losses of one rarely sampled Gaussian step, integrated over cells of the normal variable.

Masses have full relative accuracy, tails included. In each cell the mass of Q, the mean of the ratio
w(y) = 1 - q + q e^a, a = mu y - mu^2/2, and its split between the two ends are integrals of positive
functions, done by a Gauss rule. A cell becomes one atom at its mean ratio (a post-processing: lower) or
two atoms at its ends with the same mean (a spread: upper). Both keep the cell's masses of P and of Q, so
they may be taken on any stretch of the line separately, and differently each time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    gauss_nodes,
    log_cell_masses,
    log_mixture,
    log_ndtr,
    log_sum,
    ndtr,
)
from sharpdp.profile.engine import Declined


@dataclass(frozen=True)
class SampledGaussianStep:
    """A step whose loss is now and then large: rate q < 1, shift mu, the record present under P."""

    rate: float
    mu: float

    def log_ratio(self, y: Array) -> Array:
        """log w(y), the loss."""
        return log_mixture(self.rate, self.mu * y - 0.5 * self.mu**2)


JumpingSteps = tuple[tuple[SampledGaussianStep, float], ...]
"""Kinds of steps with their repetitions."""


@dataclass(frozen=True)
class LossCells:
    """Neighboring cells between `edges` (the first may be -inf), with log Q-masses.

    `rise` is the mean of e^a - 1 in each cell, `log_share` the logarithms of the shares of its Q-mass
    that go to the left and to the right end when the cell is spread.
    """

    part: SampledGaussianStep
    edges: Array
    log_q: Array
    rise: Array
    log_share: tuple[Array, Array]

    @property
    def is_core(self) -> bool:
        """Whether the cells begin at the smallest loss."""
        return bool(np.isneginf(self.edges[0]))

    @property
    def accuracy(self) -> float:
        """Bound on the relative error of masses, and of losses next to their own or the next cell's."""
        reach, mu = float(max(abs(self.edges[1]), abs(self.edges[-1]))), self.part.mu
        return 64.0 * UNIT_ROUNDOFF * (2.0 + reach * (reach + mu) / 16.0 + 1.0 / mu)

    def points(self, side: Side) -> tuple[Array, Array]:
        """Losses in increasing order, and the log P-masses there."""
        if side is Side.LOWER:
            losses = np.log1p(self.part.rate * self.rise)
            return losses, self.log_q + losses
        losses = self.end_losses
        left, right = (self.log_q + share for share in self.log_share)
        with np.errstate(invalid="ignore"):
            both = np.logaddexp(np.append(left, -np.inf), np.append(-np.inf, right))
        return losses, both + losses

    @property
    def end_losses(self) -> Array:
        """The loss at each edge; log(1 - q) at -inf."""
        losses = self.part.log_ratio(np.where(np.isfinite(self.edges), self.edges, 0.0))
        return np.where(np.isfinite(self.edges), losses, np.log1p(-self.part.rate))


def grid(part: SampledGaussianStep, low: float, high: float) -> Array:
    """Edges from low to high (low may be -inf) so close that the Gauss rule is exact in doubles.

    Ten nodes on a cell whose integrands grow by at most e^3: with a Bernstein ellipse of parameter 12 the
    relative error is below (64/15) e^{9.1 - 49.7}, less than a unit in the last place. Declines if cells
    are too many: with little noise, they grow with the square of mu.
    """
    most_growth = 2.5
    # below -8, which holds less than 1e-15 of Q, cells are not cut further
    start = min(-8.0, high - 1.0) if np.isneginf(low) else low
    if (high - start) * (2.0 + max(abs(start), abs(high)) + part.mu) > most_growth * 20_000:
        raise Declined("too many cells")
    y = np.linspace(start, high, max(64, int(16.0 * (high - start))))
    density = np.maximum(4.0, (2.0 + np.abs(y) + part.mu) / most_growth)
    count = np.append(0.0, np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(y)))
    pieces = int(np.ceil(count[-1])) + 1
    edges = np.interp(np.linspace(0.0, count[-1], pieces + 1), count, y)
    edges[0], edges[-1] = start, high
    return np.append(-np.inf, edges) if np.isneginf(low) else edges


def refined(edges: Array, pieces: NDArray[np.int64]) -> Array:
    """The edges with each cell cut into this many equal pieces; an infinite first cell is kept."""
    first = edges[:1] if np.isneginf(edges[0]) else edges[:0]
    inner, pieces = edges[first.size :], pieces[first.size :]
    start, width = np.repeat(inner[:-1], pieces), np.repeat(np.diff(inner) / pieces, pieces)
    offset = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return np.concatenate([first, start + offset * width, inner[-1:]])


def integrated_cells(part: SampledGaussianStep, edges: Array) -> LossCells:
    """Cells between these edges, each integrated by a Gauss rule."""
    finite = edges[1:] if np.isneginf(edges[0]) else edges
    halves = 0.5 * np.diff(finite)
    middles = finite[:-1] + halves
    move, weight = gauss_nodes(middles, halves, 10)
    log_q = log_cell_masses(middles, halves, weight)
    total, half, middle = np.sum(weight, axis=1), halves[:, None], middles[:, None]
    mu = part.mu
    rise = np.sum(weight * np.expm1(mu * (middle + move) - 0.5 * mu * mu), axis=1) / total
    stretch = np.expm1(2.0 * mu * half[:, 0])
    to_right = np.sum(weight * np.expm1(mu * (half + move)), axis=1) / (total * stretch)
    to_left = np.sum(weight * np.exp(mu * (half + move)) * np.expm1(mu * (half - move)), axis=1)
    shares = np.log(to_left / (total * stretch)), np.log(to_right)
    if finite is edges:
        return LossCells(part, edges, log_q, rise, shares)
    first_q, first_rise, first_shares = _first_cell(part, float(edges[1]))
    return LossCells(
        part,
        edges,
        np.append(first_q, log_q),
        np.append(first_rise, rise),
        (np.append(first_shares[0], shares[0]), np.append(first_shares[1], shares[1])),
    )


def _first_cell(part: SampledGaussianStep, end: float) -> tuple[float, float, tuple[float, float]]:
    """The cell from -inf to `end`: log Q-mass, mean of e^a - 1, log shares of its ends 1 - q and w(end).

    E[e^a; y < end] = Phi(end - mu): the right end's share is Phi(end - mu) e^{-a(end)} / Phi(end).
    """
    log_q, log_shifted = float(log_ndtr(end)), float(log_ndtr(end - part.mu))
    log_right = log_shifted - log_q - (part.mu * end - 0.5 * part.mu**2)
    log_right = min(log_right, -UNIT_ROUNDOFF)
    rise = float(np.expm1(log_shifted - log_q))
    return log_q, rise, (float(np.log(-np.expm1(log_right))), log_right)


def core_atoms(cells: LossCells, side: Side) -> Atoms:
    """Atoms of a core: everything up to the last edge; what lies beyond is missing from both masses."""
    losses, log_p = cells.points(side)
    return Atoms(
        losses,
        log_p,
        log_deficit=log_tail_p(cells.part, float(cells.edges[-1])),
        dual_deficit=float(ndtr(-cells.edges[-1])),
        accuracy=cells.accuracy,
    )


def jump_atoms(cells: LossCells, side: Side) -> tuple[Atoms, float]:
    """Atoms of a stretch of positive losses with their mass taken out, and the log of that mass."""
    losses, log_p = cells.points(side)
    log_mass = float(log_sum(log_p))
    normal = log_p - log_mass
    dual = -float(np.sum(np.exp(normal) * np.expm1(-losses)))
    return Atoms(losses, normal, dual_deficit=dual, accuracy=cells.accuracy), log_mass


def log_tail_p(part: SampledGaussianStep, y: float) -> float:
    """log P[beyond y]."""
    without = np.log1p(-part.rate) + log_ndtr(-y)
    return float(np.logaddexp(without, np.log(part.rate) + log_ndtr(part.mu - y)))


def y_at_loss(part: SampledGaussianStep, loss: float) -> float:
    """The y at which the loss is `loss` > log(1 - q)."""
    if loss <= 1.0:
        excess = np.log(np.expm1(loss) + part.rate)
    else:
        excess = loss + np.log1p((part.rate - 1.0) * np.exp(-loss))
    return float((excess - np.log(part.rate)) / part.mu + 0.5 * part.mu)
