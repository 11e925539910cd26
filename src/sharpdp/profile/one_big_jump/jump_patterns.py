"""Which steps jump into which stretch of losses: patterns, how many ways each has, and its moments."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations_with_replacement, pairwise

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms, log_call_constant
from sharpdp.numerics.special import Array, gammaln
from sharpdp.profile.one_big_jump.far_tail import MOMENT_SLACK, FarTail
from sharpdp.profile.one_big_jump.loss_cells import (
    JumpingSteps,
    LossCells,
    SampledGaussianStep,
    core_atoms,
    grid,
    integrated_cells,
    jump_atoms,
    log_tail_p,
    y_at_loss,
)


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
        logs = total + MOMENT_SLACK * (1.0 + np.abs(total))
        return MomentBounds(table.tilts, np.asarray(logs), largest * (1.0 + MOMENT_SLACK))

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
        return MomentBounds(table.tilts, np.asarray(total + MOMENT_SLACK * (1.0 + np.abs(total))))


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
