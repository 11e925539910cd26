"""Engine for rare large losses: delta as a sum over jump patterns, a contour for every one that matters.

With a small sampling rate one step's loss is a narrow core and, rarely, a jump. No single tilt suits
both, but the sum over which steps jump is finite in all that matters. Cuts c < ... < f split one step's
loss measure into a core (up to c), a few stretches, and what is far (beyond f > epsilon). Then

    delta(k) = [far] + sum over patterns of  ways * E[(1 - e^{k - S})_+; these steps in these stretches],

- a pattern says how many steps jump into each stretch; the others stay in the core. Each pattern is a
  composition of sub-probability measures and gets its own tilt, window and nodes;
- far: some step jumps beyond f, P(far) - e^k Q(far) + E[(e^{k - S} - 1)_+; far], the last of these
  bounded by Chernoff;
- patterns that cannot matter, and all with more jumps, are bounded by Chernoff (upper side only).

Masses come from cells of the normal variable, with full relative accuracy, tails included. In each
cell the mass of Q, the mean of the ratio w(y) = 1 - q + q e^a, a = mu y - mu^2/2, and its split between
the two ends are integrals of positive functions, done by a Gauss rule. A cell becomes one atom at its
mean ratio (a post-processing: lower) or two atoms at its ends with the same mean (a spread: upper). Both
keep the cell's masses of P and of Q, so they may be taken on any stretch of the line separately, and
differently each time.

Sources: alghamdi2023 (the contour); the decomposition is the total probability over jumps.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.composition.engine import (
    MOST_NODES,
    NODE_SHARE,
    SMOOTHING_SHARE,
    WIDEST_SMOOTHING,
    Cumulants,
    Declined,
    Engine,
    Saddle,
    Steps,
    contour_of_atoms,
    find_saddle,
    frequency_count,
    make_plan,
    tilted,
)
from sharpdp.numerics.contour import Atoms, Contour, Tilted, log_call_constant
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    gammaln,
    gauss_nodes,
    log1mexp,
    log_cell_masses,
    log_diff,
    log_mixture,
    log_ndtr,
    log_sum,
    ndtr,
)
from sharpdp.pairs.pair import GaussianPair, epsilon_of
from sharpdp.pairs.subsampled import PoissonSampledPair

# Cores end at these parts of epsilon: the first for which few enough patterns matter. No small number of
# them adds up to epsilon, where a pattern's part of delta would vanish.
_CORES = (0.47, 0.8, 1.6)
# Losses of y this far beyond mu have a probability below e^-800.
_BEYOND = 40.0
# Tabulated moments may be off by this much of their logarithms.
_SLACK = 1e-6


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


@dataclass(frozen=True)
class FarTail:
    """The event that some step's loss is beyond f: its masses, and orders with moments for the remainder.

    Steps whose losses are beyond f with a probability below e^-800 are far earlier, at their own loss.
    """

    steps: JumpingSteps
    starts: tuple[float, ...]
    losses: tuple[float, ...]
    orders: Array
    log_moments: Array

    @classmethod
    def beyond(
        cls,
        steps: JumpingSteps,
        loss: float,
        orders: Array,
        moments: Array,
    ) -> FarTail:
        """The tail beyond a loss; steps end earlier where the probability is below e^-800."""
        starts, losses = [], []
        for step, _ in steps:
            end = step.mu + _BEYOND
            last = float(step.log_ratio(np.array(end)))
            starts.append(y_at_loss(step, loss) if loss < last else end)
            # less than the loss at these points, which are rounded
            losses.append(min(loss, last) * (1.0 - _SLACK))
        return cls(steps, tuple(starts), tuple(losses), orders, moments)

    @property
    def loss(self) -> float:
        """The loss at which the tail begins for the steps that jump farthest."""
        return max(self.losses)

    def slope(self, threshold: float) -> float:
        """How fast log_value falls, e^k Q(far) over the value (not certified); 0 if that is nothing."""
        gain, log_give, log_scale = self._masses
        give = math.exp(min(threshold + float(log1mexp(-threshold)) + log_give - log_scale, 700.0))
        return float(give / -np.expm1(-threshold) / (gain - give)) if gain > give else 0.0

    def log_value(self, threshold: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E[(1 - e^{k - S})_+; far]."""
        low, high = self.log_values(np.array([threshold]))
        return float(low[0]), float(high[0])

    def log_values(self, thresholds: Array) -> tuple[Array, Array]:
        """Certified lower and upper ends of log E[(1 - e^{k - S})_+; far] at many thresholds k."""
        gain, log_give, log_scale = self._masses
        log_factor = thresholds + log1mexp(-thresholds)
        give = np.exp(np.minimum(log_factor + log_give - log_scale, 700.0))
        slack = self.slack
        low = gain * (1.0 - slack) - give * (1.0 + slack)
        high = gain * (1.0 + slack) - give * (1.0 - slack)
        with np.errstate(divide="ignore"):
            log_low, log_high = (log_scale + np.log(np.maximum(end, 0.0)) for end in (low, high))
        log_high = np.logaddexp(log_high, self._log_remainders(thresholds))
        return log_low, np.minimum(log_high, self.log_probability)

    @property
    def slack(self) -> float:
        """Relative error of the two parts of log_value: normal tails, and a difference of two of them."""
        shifts = [
            step.mu * max(y, 1.0) for (step, _), y in zip(self.steps, self.starts, strict=True)
        ]
        return 4e-13 * (4.0 + max(y * y for y in self.starts) / 16.0) * (1.0 + 1.0 / min(shifts))

    @cached_property
    def _masses(self) -> tuple[float, float, float]:
        """P(far) - Q(far) over e^{the third number}, and log Q(far)."""
        tails = [
            (log_ndtr(step.mu - y), log_ndtr(-y))
            for (step, _), y in zip(self.steps, self.starts, strict=True)
        ]
        log_q = np.array([tail for _, tail in tails])
        rates = np.array([step.rate for step, _ in self.steps])
        log_gain = np.log(rates) + log_diff(np.array([tail for tail, _ in tails]), log_q)
        counts = np.array([count for _, count in self.steps])
        log_scale = float(np.max(log_gain + np.log(counts)))
        log_once = float(np.max(np.log(counts) + np.logaddexp(log_gain, log_q)))
        if log_once < -46.0:  # an event this rare happens at most once, to twenty digits
            gain = float(np.sum(counts * np.exp(log_gain - log_scale)))
            log_give = float(np.logaddexp.reduce(np.log(counts) + log_q))
        else:
            log_none = float(np.sum(counts * np.log1p(-np.exp(log_q))))
            less = np.log1p(-np.exp(log_gain) / -np.expm1(log_q))
            gain = -float(np.exp(log_none - log_scale) * np.expm1(np.sum(counts * less)))
            log_give = float(log1mexp(log_none))
        return gain, log_give, log_scale

    def _log_remainders(self, thresholds: Array) -> Array:
        """log of bounds on E[(e^{k - S} - 1)_+; far]: some step is far, all others are anything.

        (e^x - 1)_+ <= (a - 1)^{a - 1} / a^a e^{a x} for a > 1; E e^{-a L} >= 1 for the step left out.
        """
        a = self.orders
        constant = (a - 1.0) * np.log(a - 1.0) - a * np.log(a) + self.log_moments
        bounds = [
            np.min(constant + a * (thresholds - loss)[:, None], axis=1) + log_probability
            for loss, log_probability in zip(self.losses, self._log_probabilities, strict=True)
        ]
        return np.asarray(np.logaddexp.reduce(bounds) + _SLACK)

    @cached_property
    def log_probability(self) -> float:
        """log of a bound on P(far)."""
        return float(np.logaddexp.reduce(self._log_probabilities)) + _SLACK

    @cached_property
    def _log_probabilities(self) -> list[float]:
        """About the log of the probability that some step of each kind is far."""
        return [
            float(np.log(count) + log_tail_p(step, y))
            for (step, count), y in zip(self.steps, self.starts, strict=True)
        ]


@dataclass(frozen=True)
class JumpPattern:
    """Which steps jump: how many of each kind into which stretch, and the log of how many ways."""

    jumps: tuple[tuple[tuple[int, int], int], ...]
    log_ways: float

    @property
    def jump_count(self) -> int:
        """How many steps jump."""
        return sum(times for _, times in self.jumps)

    def of_kind(self, kind: int) -> int:
        """How many steps of this kind jump."""
        return sum(times for (which, _), times in self.jumps if which == kind)


@dataclass(frozen=True)
class MomentBounds:
    """Logs of a generating function at some tilts, not below the true ones; the largest loss."""

    tilts: Array
    logs: Array
    largest: float = np.inf

    def log_bound(self, threshold: float) -> float:
        """log of Chernoff's bound at one threshold."""
        return float(self.log_bounds(np.array([threshold]))[0])

    def log_bounds(self, thresholds: Array) -> Array:
        """log of Chernoff's bounds on E[(1 - e^{k - S})_+]; no loss exceeds the largest."""
        s = self.tilts
        bounds = np.min(self.logs + log_call_constant(s) - s * thresholds[:, None], axis=1)
        return np.where(thresholds >= self.largest, -np.inf, bounds)

    def _lead(self, threshold: float) -> tuple[Array, int]:
        """The saddle point's objective at each tilt, and the index of its minimum (not an end)."""
        s = self.tilts
        lead = self.logs - s * threshold - np.log(s) - np.log1p(s)
        return np.asarray(lead), int(np.clip(np.argmin(lead), 1, s.size - 2))

    def estimate(self, threshold: float) -> tuple[float, float]:
        """About log E[(1 - e^{k - S})_+] and how fast it falls, by the saddle point (not certified)."""
        if threshold >= self.largest:
            return -np.inf, float(self.tilts[-1])
        lead, best = self._lead(threshold)
        log_s = np.log(self.tilts[best - 1 : best + 2])
        rise = np.diff(lead[best - 1 : best + 2]) / np.diff(log_s)
        # smaller curvatures are noise of the tabulated moments
        curvature = max(float(2.0 * (rise[1] - rise[0]) / (log_s[2] - log_s[0])), 1e-3)
        before, after = np.diff(log_s)
        slope = float((rise[0] * after + rise[1] * before) / (before + after))
        move = float(np.clip(-slope / curvature, -before, after))
        # a parabola through a kink would go far below it
        value = float(lead[best]) + max(slope * move + 0.5 * curvature * move**2, -1.0)
        log_tilt = float(log_s[1]) + move
        value = value - 0.5 * float(np.log(2.0 * np.pi * curvature)) + log_tilt
        return value, float(np.exp(log_tilt))

    def between(self, threshold: float) -> Array:
        """More tilts around the best one for a threshold."""
        _, best = self._lead(threshold)
        return np.geomspace(self.tilts[best - 1], self.tilts[best + 1], 14)[1:-1]

    def joined(self, other: MomentBounds) -> MomentBounds:
        """The moments of both objects, at the tilts of both."""
        tilts = np.concatenate([self.tilts, other.tilts])
        order = np.argsort(tilts, kind="stable")
        return MomentBounds(tilts[order], np.append(self.logs, other.logs)[order], self.largest)


@dataclass(frozen=True)
class TiltedMoments:
    """Upper moments of the core and of every stretch of each kind of step, at the given tilts."""

    tilts: Array
    core: Array
    jumps: Array


@dataclass(frozen=True)
class LossPartition:
    """The losses of each kind of step cut into a core and stretches, with coarse cells."""

    steps: JumpingSteps
    core: tuple[LossCells, ...]
    stretches: tuple[tuple[LossCells, ...], ...]
    scale: float

    @classmethod
    def at(cls, far: FarTail, cuts: Sequence[float], scale: float) -> LossPartition:
        """Cut at the given losses, and where far begins; tilts are looked at in units of 1/scale."""
        cores, stretches = [], []
        for (step, _), end, loss in zip(far.steps, far.starts, far.losses, strict=True):
            before = (y_at_loss(step, cut) for cut in cuts if cut < loss)
            edges = [*(y for y in before if y < end), end]
            cores.append(integrated_cells(step, grid(step, -np.inf, edges[0])))
            parts = [integrated_cells(step, grid(step, low, high)) for low, high in pairwise(edges)]
            stretches.append(tuple(parts))
        return cls(far.steps, tuple(cores), tuple(stretches), scale)

    @cached_property
    def table(self) -> TiltedMoments:
        """Upper moments of core and stretches at tilts of all sizes."""
        return self.table_at(np.geomspace(1e-2, 1e4, 160) / self.scale)

    @cached_property
    def _atoms(self) -> list[tuple[Atoms, list[tuple[Atoms, float]]]]:
        """Upper atoms of the core and of the stretches of each kind of step."""
        return [
            (core_atoms(core, Side.UPPER), [jump_atoms(cells, Side.UPPER) for cells in stretches])
            for core, stretches in zip(self.core, self.stretches, strict=True)
        ]

    def table_at(self, tilts: Array, pattern: JumpPattern | None = None) -> TiltedMoments:
        """Upper moments of core and stretches at these tilts; only of those in a pattern if it is given.

        Those of the others are NaN.
        """
        wanted = None if pattern is None else {place for place, _ in pattern.jumps}
        core = [
            atoms.log_moments(tilts, exactly=count > 1e7)
            for (atoms, _), (_, count) in zip(self._atoms, self.steps, strict=True)
        ]
        longest = max(len(stretches) for stretches in self.stretches)
        rest = -np.inf if wanted is None else np.nan
        jumps = np.full((len(self.steps), longest, tilts.size), rest)
        for kind, (_, stretches) in enumerate(self._atoms):
            for stretch, (atoms, log_mass) in enumerate(stretches):
                if wanted is None or (kind, stretch) in wanted:
                    jumps[kind, stretch] = atoms.log_moments(tilts) + log_mass
        return TiltedMoments(tilts, np.array(core), jumps)

    @property
    def mean_jumps(self) -> float:
        """How many steps jump, on average under P (not certified)."""
        return sum(
            count * float(np.exp(log_tail_p(step, float(core.edges[-1]))))
            for (step, count), core in zip(self.steps, self.core, strict=True)
        )

    def pattern_count(self, jumps: int) -> int:
        """Not less than the number of patterns with this many jumps."""
        kinds = sum(len(stretches) for stretches in self.stretches)
        return math.comb(kinds + jumps - 1, jumps)

    def patterns(self, jumps: int) -> list[JumpPattern]:
        """All patterns with this many jumps."""
        kinds = [(a, k) for a in range(len(self.steps)) for k in range(len(self.stretches[a]))]
        patterns = []
        for targets in combinations_with_replacement(kinds, jumps):
            times = Counter(targets)
            pattern = JumpPattern(tuple(times.items()), 0.0)
            log_ways = 0.0
            for kind, (_, count) in enumerate(self.steps):
                jumping = pattern.of_kind(kind)
                if jumping > count:
                    break
                log_ways += float(np.sum(np.log(count - np.arange(jumping))))
            else:
                log_ways -= sum(float(gammaln(n + 1.0)) for n in times.values())
                patterns.append(replace(pattern, log_ways=log_ways))
        return patterns

    def moments(self, pattern: JumpPattern, table: TiltedMoments | None = None) -> MomentBounds:
        """Moments of one jump pattern, not below the true ones."""
        table = table or self.table
        total, largest = np.full(table.tilts.shape, pattern.log_ways), 0.0
        for kind, (_, count) in enumerate(self.steps):
            rest = count - pattern.of_kind(kind)
            total = total + rest * table.core[kind]
            largest += rest * float(self.core[kind].end_losses[-1])
        for (kind, stretch), times in pattern.jumps:
            total = total + times * table.jumps[kind, stretch]
            largest += times * float(self.stretches[kind][stretch].end_losses[-1])
        logs = total + _SLACK * (1.0 + np.abs(total))
        return MomentBounds(table.tilts, np.asarray(logs), largest * (1.0 + _SLACK))

    def zoomed(self, pattern: JumpPattern, threshold: float) -> MomentBounds:
        """Moments of one jump pattern, with more tilts around the best one for this threshold."""
        moments = self.moments(pattern)
        for _ in range(3):
            more = self.table_at(moments.between(threshold), pattern)
            moments = moments.joined(self.moments(pattern, more))
        return moments

    def moments_beyond(self, jumps: int) -> MomentBounds:
        """Moments of all patterns with more than m jumps: x^{m+1}/(m+1)! e^x, x their mean number."""
        counts = np.array([count for _, count in self.steps])
        table = self.table
        if jumps >= float(np.sum(counts)):
            return MomentBounds(table.tilts, np.full(table.tilts.shape, -np.inf))
        none = counts @ table.core
        ratio = np.logaddexp.reduce(table.jumps, axis=1) - table.core
        log_mean = np.logaddexp.reduce(np.log(counts)[:, None] + ratio, axis=0)
        more = jumps + 1.0
        with np.errstate(over="ignore"):
            total = none + more * log_mean - gammaln(more + 1.0) + np.exp(log_mean)
        return MomentBounds(table.tilts, np.asarray(total + _SLACK * (1.0 + np.abs(total))))


def find_far_tail(
    steps: JumpingSteps,
    epsilon: float,
    tolerance: float,
    margin: float = 0.0,
) -> FarTail:
    """The nearest far tail whose two bounds are close, else one that is beyond everything.

    It begins at least a margin after epsilon, so that the bounds stay close for thresholds up to there.
    """
    highest = max(float(step.log_ratio(np.array(step.mu + _BEYOND))) for step, _ in steps)
    candidates = (1.0 + 0.01 * 2.0 ** (np.arange(22) / 2.0)) * epsilon
    losses = [loss for loss in candidates.tolist() if epsilon + margin < loss < highest]
    a = 1.0 + np.geomspace(0.5, 3e5, 36) / epsilon
    log_moments = np.zeros(a.shape)
    for step, count in steps:
        top = step.mu + _BEYOND
        atoms = core_atoms(integrated_cells(step, grid(step, -np.inf, top)), Side.UPPER)
        within = atoms.log_moments(-a, exactly=count > 1e7)
        # beyond the top e^{-a L} < 1
        log_moments += count * np.logaddexp(within, log_tail_p(step, top))
    log_moments += _SLACK * (1.0 + np.abs(log_moments))
    largest = -np.inf
    for loss in losses:
        far = FarTail.beyond(steps, loss, a, log_moments)
        low, high = far.log_value(epsilon)
        largest = max(largest, low)  # nearer tails are the larger ones
        if float(log_diff(high, low)) < largest + np.log(0.05 * tolerance):
            return far
    return FarTail.beyond(steps, highest, a, log_moments)


def make_partition(far: FarTail, epsilon: float, core: float) -> LossPartition:
    """A core up to about this part of epsilon, then stretches, each at most twice the last, up to far."""
    start = min(core * epsilon, 0.5 * far.loss, *(_benign(step, epsilon) for step, _ in far.steps))
    pieces = max(1, int(np.ceil(np.log(far.loss / start) / np.log(2.0))))
    cuts = start * (far.loss / start) ** (np.arange(pieces) / pieces)
    return LossPartition.at(far, [float(cut) for cut in cuts], epsilon)


def _benign(step: SampledGaussianStep, epsilon: float) -> float:
    """Up to which loss a core does not jump by itself under the tilts at which others jump.

    Far out a jump is normal with mean -m < 0. Where one of size epsilon is typical, losses c are rare
    for c + m^2/c > 2 epsilon; beyond sqrt(2) m several jumps share epsilon. One tilt for any number of
    jumps costs a whole number's distance from the best one, which may be few nats (not certified).
    """
    mean = -(float(np.log(step.rate)) + 0.5 * step.mu**2)
    if not 0.0 < mean < epsilon:
        return np.inf
    ratio = epsilon / mean
    jumps = max(np.floor(ratio), 1.0) + np.arange(2.0)
    lost = float(np.min(0.5 * ratio**2 / jumps + 0.5 * jumps)) - ratio
    if lost * (mean / step.mu) ** 2 < 3.0:
        return np.inf
    ratio = min(ratio, float(np.sqrt(2.0)))
    return 0.9 * mean * (ratio - float(np.sqrt(ratio * ratio - 1.0)))


@dataclass(frozen=True)
class Term:
    """One jump pattern: a contour for each side, the log of what it is multiplied by, and its error."""

    moments: MomentBounds
    contours: dict[Side, Contour]
    log_weights: dict[Side, float]
    log_weight_error: float

    def log_values(self, thresholds: Array, side: Side) -> Array:
        """log of the pattern's part of delta at many thresholds, safe on the given side."""
        low, high = self.contours[side].log_calls(thresholds)
        if side is Side.UPPER:
            return high + self.log_weights[side] + self.log_weight_error
        return low + self.log_weights[side] - self.log_weight_error

    @property
    def size(self) -> int:
        """How many frequencies are held."""
        return sum(contour.frequencies.size for contour in self.contours.values())


@dataclass(frozen=True)
class JumpPlan:
    """Which jump patterns matter at a threshold, about how much, and what bounds the others."""

    epsilon: float
    far: FarTail
    partition: LossPartition
    patterns: tuple[tuple[JumpPattern, MomentBounds, float], ...]
    dropped: tuple[MomentBounds, ...]
    log_total: float
    slope: float

    @property
    def margin(self) -> float:
        """How far after epsilon the far tail should begin if thresholds nearby are to be served too."""
        return min(0.7 / self.slope, self.epsilon) if self.slope > 0.0 else self.epsilon


@dataclass(frozen=True)
class JumpExpansion(Engine):
    """A sum over jump patterns: a term for each that matters, bounds on the far tail and the rest."""

    far: FarTail
    terms: tuple[Term, ...]
    dropped: tuple[MomentBounds, ...]
    slope_step: ClassVar[float] = 1e-3

    @classmethod
    def for_threshold(
        cls,
        steps: Steps,
        epsilon: float,
        tolerance: float,
        coarser: Engine | None = None,
        log_delta: float = 0.0,
    ) -> JumpExpansion:
        parts = jumping(steps)
        if not epsilon > 0.0:
            raise Declined("jumps are sorted by their size in units of epsilon")
        tolerance = min(tolerance, 0.1)
        rough = _plan(parts, epsilon)
        work = _expanded(_plan(parts, epsilon, tolerance, rough.margin), tolerance)
        return work._no_wider_than(4.0 * tolerance)

    @classmethod
    def for_value(cls, steps: Steps, log_delta: float, relative_width: float) -> JumpExpansion:
        parts = jumping(steps)
        rough = _search(steps, parts, log_delta)
        tolerance = min(0.7 * relative_width * rough.epsilon * rough.slope, 0.1)
        work = _expanded(_plan(parts, rough.epsilon, tolerance, rough.margin), tolerance)
        return work._no_wider_than(0.5)

    def _no_wider_than(self, nats: float) -> JumpExpansion:
        """This work if its two sides are that close in log delta; it declines otherwise."""
        low, high = (self.log_delta(self.saddle.threshold, side) for side in Side)
        if high - low <= nats:
            return self
        raise Declined("the sum over jumps is not sharp")

    @property
    def size(self) -> int:
        return sum(term.size for term in self.terms)

    def log_delta(self, epsilon: float, side: Side) -> float:
        return float(self._end(np.array([epsilon]), side)[0])

    def log_deltas(self, epsilons: Array) -> tuple[Array, Array]:
        return self._end(epsilons, Side.LOWER), self._end(epsilons, Side.UPPER)

    def _end(self, epsilons: Array, side: Side) -> Array:
        """One end of log delta at many epsilons."""
        values = [term.log_values(epsilons, side) for term in self.terms]
        end = 0 if side is Side.LOWER else 1
        far = self.far.log_values(epsilons)[end]
        if side is Side.UPPER:
            bounds = [term.moments.log_bounds(epsilons) for term in self.terms]
            values = [np.minimum(*both) for both in zip(values, bounds, strict=True)]
            values += [moments.log_bounds(epsilons) for moments in self.dropped]
        values.append(far)
        total = np.logaddexp.reduce(values)
        # each term may be lost in the rounding of a sum
        outwards = (32.0 + 4.0 * len(values)) * UNIT_ROUNDOFF * (1.0 + np.abs(total))
        return np.asarray(total + outwards if side is Side.UPPER else total - outwards)


def jumping(steps: Steps) -> JumpingSteps:
    """The steps as rarely jumping ones; declines unless they all are."""
    parts = []
    for pair, count in steps:
        if not (isinstance(pair, PoissonSampledPair) and isinstance(pair.base, GaussianPair)):
            raise Declined("not all steps are Poisson-sampled Gaussians")
        if pair.rate > 0.2:
            raise Declined("a step is not sampled rarely")
        parts.append((SampledGaussianStep(pair.rate, pair.base.mu), float(count)))
    return tuple(parts)


def _search(steps: Steps, parts: JumpingSteps, log_delta: float) -> JumpPlan:
    """A plan at about the threshold that has this value; the search begins at that of a single jump.

    It ends within 0.3 nats of the value; a plan that misses it by 3 nats is of no use.
    """
    total = float(np.log(sum(count for _, count in parts)))
    epsilon = max(epsilon_of(pair, log_delta - total)[1] for pair, _ in steps)
    best: JumpPlan | None = None
    distance = 3.0
    bracket: dict[bool, tuple[float, float]] = {}
    for _ in range(12):
        if not 0.0 < epsilon < np.inf:
            break
        try:
            plan = _plan(parts, epsilon)
        except Declined:
            break
        excess = plan.log_total - log_delta
        if abs(excess) < distance:
            best, distance = plan, abs(excess)
        if distance < 0.3:
            break
        bracket[excess > 0.0] = (epsilon, excess)
        if len(bracket) == 2:
            (high, under), (low, over) = bracket[False], bracket[True]
            share = min(max(over / (over - under), 0.1), 0.9)
            epsilon = low + share * (high - low)
        else:
            move = excess / plan.slope
            epsilon = min(max(epsilon + move, epsilon / 2.0), epsilon * 2.0)
    if best is None:
        raise Declined("no threshold was seen near the value")
    return best


def _plan(
    parts: JumpingSteps, epsilon: float, tolerance: float = 0.05, margin: float = 0.0
) -> JumpPlan:
    """The plan with the smallest core for which few enough patterns matter; declines if none does."""
    far = find_far_tail(parts, epsilon, tolerance, margin)
    if far.loss > 32.0 * epsilon:
        raise Declined("it is not single jumps that matter")
    for core in _CORES:
        partition = make_partition(far, epsilon, core)
        is_rare = partition.mean_jumps < 0.7
        plan = _selected(far, partition, epsilon, tolerance) if is_rare else None
        if plan is not None:
            return plan
    raise Declined("too many patterns matter")


def _selected(
    far: FarTail, partition: LossPartition, epsilon: float, tolerance: float
) -> JumpPlan | None:
    """The plan with the patterns of a partition that matter; None if there are too many."""
    candidates: list[tuple[JumpPattern, MomentBounds]] = []
    values = [(far.log_value(epsilon)[0], far.slope(epsilon))]
    log_share = float(np.log(0.05 * tolerance))  # what is dropped may take up that
    for jumps in range(9):
        if partition.pattern_count(jumps) > 200:
            return None
        candidates += _sharpened(partition, jumps, values, epsilon, log_share)
        log_total = float(np.logaddexp.reduce([value for value, _ in values]))
        dropped = [partition.moments_beyond(jumps)]
        log_dropped = dropped[0].log_bound(epsilon)
        if log_dropped < log_total + log_share - 1.0:
            break
    selected = []
    for pattern, moments in sorted(candidates, key=lambda item: item[1].log_bound(epsilon)):
        more = float(np.logaddexp(log_dropped, moments.log_bound(epsilon)))
        if more < log_total + log_share:
            log_dropped = more
            dropped.append(moments)
        else:
            selected.append((pattern, moments, moments.estimate(epsilon)[0]))
    if len(selected) > 24:
        return None
    slope = sum(float(np.exp(value - log_total)) * slope for value, slope in values)
    return JumpPlan(epsilon, far, partition, tuple(selected), tuple(dropped), log_total, slope)


def _sharpened(
    partition: LossPartition,
    jumps: int,
    values: list[tuple[float, float]],
    epsilon: float,
    log_share: float,
) -> list[tuple[JumpPattern, MomentBounds]]:
    """Patterns with this many jumps, sharper moments for those that seem to matter.

    Their estimates join the values. A coarse look only overestimates: patterns that are three nats below
    what matters even so are left at it.
    """
    coarse = [(pattern, partition.moments(pattern)) for pattern in partition.patterns(jumps)]
    log_total = float(np.logaddexp.reduce([value for value, _ in values]))
    result = []
    for pattern, moments in sorted(coarse, key=lambda item: -item[1].estimate(epsilon)[0]):
        if moments.estimate(epsilon)[0] > log_total + (log_share - 3.0):
            moments = partition.zoomed(pattern, epsilon)
        result.append((pattern, moments))
        values.append(moments.estimate(epsilon))
        log_total = float(np.logaddexp(log_total, values[-1][0]))
    return result


def _expanded(plan: JumpPlan, tolerance: float) -> JumpExpansion:
    """The contours of every pattern, each as fine as its part of the whole asks for."""
    # work grows as one over the square root of a tolerance: these tolerances make it least
    weights = [float(np.exp(min(value - plan.log_total, 0.0))) for _, _, value in plan.patterns]
    total = sum(weight ** (1.0 / 3.0) for weight in weights)
    terms, complete = [], True
    for (pattern, moments, _), weight in zip(plan.patterns, weights, strict=True):
        own = tolerance / (total * max(weight, tolerance**2) ** (2.0 / 3.0))
        term, is_fine = _make_term(plan.partition, pattern, moments, plan.epsilon, min(own, 0.3))
        terms.append(term)
        complete &= is_fine
    saddle = Saddle(plan.slope, plan.epsilon, plan.log_total)
    return JumpExpansion(saddle, tolerance, not complete, plan.far, tuple(terms), plan.dropped)


def _make_term(
    partition: LossPartition,
    pattern: JumpPattern,
    moments: MomentBounds,
    epsilon: float,
    tolerance: float,
) -> tuple[Term, bool]:
    """The term of one jump pattern, and whether nodes and frequencies sufficed."""
    coarse = _pieces(partition, pattern)
    cumulants = Cumulants([(_atoms(cells, Side.UPPER)[0], count) for cells, count in coarse])
    saddle = find_saddle(cumulants, threshold=epsilon)
    theta = saddle.theta
    fine, all_nodes = _refined(coarse, theta, NODE_SHARE * tolerance)
    plan = make_plan(cumulants, saddle, 0.05 * tolerance)
    smoothing = float(np.sqrt(SMOOTHING_SHARE * tolerance / (theta * (theta + 1.0))))
    smoothing = min(smoothing, WIDEST_SMOOTHING)
    size, all_frequencies = frequency_count(plan, smoothing, tolerance)
    contours, log_weights, error = {}, {}, 0.0
    for side in Side:
        parts, log_masses = [], []
        for cells, count in fine:
            atoms, log_mass = _atoms(cells, side)
            parts.append((atoms, count))
            log_masses.append(count * log_mass)
        contours[side] = contour_of_atoms(
            parts, plan, size, smoothing=smoothing, harmless=0.01 * tolerance, tilt=_tilted
        )
        log_weights[side] = pattern.log_ways + sum(log_masses)
        magnitude = abs(pattern.log_ways) + sum(map(abs, log_masses))
        mass_error = pattern.jump_count * max(atoms.accuracy for atoms, _ in parts)
        error = max(error, 2.0 * mass_error + 8.0 * UNIT_ROUNDOFF * magnitude)
    return Term(moments, contours, log_weights, error), all_nodes and all_frequencies


def _tilted(atoms: Atoms, theta: float) -> Tilted:
    """Atoms under a tilt, which multiplies the relative errors of their losses too."""
    part = tilted(atoms, theta)
    reach = 1.0 + theta * float(np.max(np.abs(atoms.points)))
    return replace(part, structured=part.structured * reach)


def _pieces(partition: LossPartition, pattern: JumpPattern) -> list[tuple[LossCells, float]]:
    """The cells of core and stretches with how many steps fall into each; cores begin at -inf."""
    cores = [
        (cells, count - pattern.of_kind(kind))
        for kind, (cells, (_, count)) in enumerate(
            zip(partition.core, partition.steps, strict=True)
        )
        if count > pattern.of_kind(kind)
    ]
    jumps = [(partition.stretches[kind][k], float(times)) for (kind, k), times in pattern.jumps]
    return cores + jumps


def _atoms(cells: LossCells, side: Side) -> tuple[Atoms, float]:
    """Atoms of some cells, and the logarithm of the mass that was taken out of them."""
    return (core_atoms(cells, side), 0.0) if cells.is_core else jump_atoms(cells, side)


def _refined(
    coarse: Sequence[tuple[LossCells, float]], theta: float, tolerance: float
) -> tuple[list[tuple[LossCells, float]], bool]:
    """Cells fine enough that the two sides differ by about tolerance in log M(theta); whether they are.

    A cell of loss width h and tilted mass p counts p theta (theta + 1) h^2 / 8.
    """
    shares = []
    for cells, count in coarse:
        losses, log_p = cells.points(Side.LOWER)
        exponent = log_p + theta * losses
        weight = np.exp(exponent - np.max(exponent))
        square = np.diff(cells.end_losses) ** 2 * weight / np.sum(weight)
        shares.append(np.cbrt(count * theta * (theta + 1.0) / 8.0 * square))
    total = sum(float(np.sum(share)) for share in shares)
    wanted = np.sqrt(total**3 / tolerance)
    factor = min(wanted, MOST_NODES) / max(total, 1e-300)
    fine = []
    for (cells, count), share in zip(coarse, shares, strict=True):
        # where all masses underflow no share is a number, and no cell matters
        many = np.nan_to_num(np.ceil(factor * share), nan=1.0, posinf=float(MOST_NODES))
        pieces = np.clip(many, 1.0, float(MOST_NODES)).astype(np.int64)
        fine.append((integrated_cells(cells.part, refined(cells.edges, pieces)), count))
    return fine, wanted <= MOST_NODES
