"""Composition: certified brackets for delta(epsilon) and epsilon(delta) of many experiments together.

A question fixes the tilt; the tilt fixes where nodes are needed; nodes give two LossDistributions; each
is composed on a contour. The bracket is refined until it is as narrow as asked. One direction (P against
Q) at a time; the other is the composition of the reversed pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.bracket import Side
from sharpdp.curves.atomic import AtomicPair
from sharpdp.curves.discretize import exact, first_look, lower
from sharpdp.curves.pair import GaussianPair, Pair
from sharpdp.curves.profile import epsilon_of, log_delta_of
from sharpdp.curves.workings import Steps, Workings
from sharpdp.errors import NotCertified
from sharpdp.numerics.special import safe_log

_ROUNDS = 6
# Relative width of a first, cheap answer from which the real one is planned; the same for log delta.
_COARSE, _COARSE_DELTA = 1e-3, 0.02
# Work is shared between thresholds that are this many nats apart, and this much of it is kept.
_NATS_NEAR = 1.5
_MOST_KNOWN = 64
# Largest losses are sums of rounded logarithms: thresholds this close to them are not told apart.
_EDGE = 1e-12
_CHERNOFF_ORDERS = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Composition:
    """P against Q for a sequence of independent experiments, each repeated a number of times."""

    steps: Steps

    def reverse(self) -> Composition:
        """The other direction (made once, so that its work is kept)."""
        return self._reversed

    @cached_property
    def _reversed(self) -> Composition:
        return Composition(tuple((pair.reverse(), count) for pair, count in self.steps))

    @cached_property
    def merged(self) -> Steps:
        """Equal pairs together, all Gaussians as one (their squared distances add up)."""
        counts: dict[Pair, int] = {}
        square = 0.0
        for pair, count in self.steps:
            if isinstance(pair, GaussianPair):
                square += count * pair.mu**2
            else:
                counts[pair] = counts.get(pair, 0) + count
        if square > 0.0:
            counts[GaussianPair(float(np.sqrt(square)))] = 1
        return tuple(counts.items())

    @cached_property
    def single(self) -> Pair | None:
        """The one pair that this is, if it is one."""
        if len(self.merged) == 1 and self.merged[0][1] == 1:
            return self.merged[0][0]
        return None

    @cached_property
    def symmetric(self) -> bool:
        """Whether both directions are the same."""
        return all(pair.symmetric for pair, _ in self.merged)

    @cached_property
    def infinite_p(self) -> float:
        """P-mass at infinite loss."""
        return float(-np.expm1(sum(count * np.log1p(-p.infinite_p) for p, count in self.merged)))

    @cached_property
    def largest_loss(self) -> float:
        """Largest finite total loss (infinite if unbounded)."""
        return float(sum(count * pair.support[1] for pair, count in self.merged))

    @cached_property
    def _known(self) -> list[Workings]:
        """Recent work, kept for questions near the ones it was made for."""
        return []

    def remember(self, work: Workings) -> Workings:
        """Keep some work for later questions."""
        self._known.append(work)
        del self._known[:-_MOST_KNOWN]
        return work

    def workings_near(self, epsilon: float, tolerance: float) -> Workings:
        """Work made for a threshold close to epsilon at least this finely, new if there is none."""
        for work in reversed(self._known):
            saddle = work.plan.saddle
            near = abs(epsilon - saddle.threshold) * saddle.theta <= _NATS_NEAR
            if near and work.tolerance <= tolerance:
                return work
        return self.remember(Workings.for_threshold(self.merged, epsilon, tolerance))

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log delta at epsilon and how fast it falls there; for planning, not certified."""
        if self.single is not None:
            at = np.array([float(epsilon)])
            value, tail = float(self.single.log_otm(at)[0]), float(self.single.log_tail_q(at)[0])
            return value, float(np.exp(min(tail + epsilon - value, 700.0)))
        work = self.workings_near(epsilon, _COARSE_DELTA)
        return work.log_delta(epsilon, Side.UPPER), work.slope(epsilon)

    def _certain(self, epsilon: float) -> float:
        """A lower bound on log delta from 1 - delta <= E_P[e^{a (epsilon - L)}], 0 < a < 1.

        Sharp enough to settle the case that delta is as good as one.
        """
        tables = [
            exact(pair, Side.LOWER)
            if isinstance(pair, AtomicPair)
            else lower(first_look(pair, -60.0))
            for pair, _ in self.merged
        ]
        best = 0.0
        for a in _CHERNOFF_ORDERS:
            log_rest = a * epsilon
            for table, (_, count) in zip(tables, self.merged, strict=True):
                tilted = table.atoms.tilted(-a)
                log_rest += count * (tilted.log_moment + tilted.log_moment_error)
            best = min(best, log_rest)
        return float(np.log(-np.expm1(best))) if best < 0.0 else -np.inf

    def log_delta(self, epsilon: float, tolerance: float) -> tuple[float, float]:
        """Certified (lower, upper) for log delta at epsilon; aims at upper - lower <= tolerance."""
        if self.single is not None:
            return log_delta_of(self.single, epsilon)
        if epsilon >= self.largest_loss * (1.0 + _EDGE):
            return safe_log(self.infinite_p), safe_log(self.infinite_p)
        low, high = self._certain(epsilon), 0.0
        if low >= -tolerance:
            return low, high
        work = self.workings_near(epsilon, max(tolerance, _COARSE_DELTA))
        for _ in range(_ROUNDS):
            low = max(low, work.log_delta(epsilon, Side.LOWER))
            high = min(high, work.log_delta(epsilon, Side.UPPER))
            if high - low <= tolerance or work.exhausted:
                break
            wanted = work.tolerance * min(0.5, max(0.8 * tolerance / (high - low), 0.01))
            work = self.remember(
                Workings.for_threshold(self.merged, epsilon, wanted, work.slope(epsilon), high)
            )
        if not low <= high:
            raise NotCertified(_crossed("log delta", low, high))
        return low, high

    def epsilon(self, log_delta: float, relative_width: float) -> tuple[float, float]:
        """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta."""
        if log_delta <= safe_log(self.infinite_p):
            top = self.largest_loss
            return (top, top) if log_delta == safe_log(self.infinite_p) else (np.inf, np.inf)
        if self.single is not None:
            return epsilon_of(self.single, log_delta)
        low, high = 0.0, self.largest_loss
        work = Workings.for_value(
            self.merged, self.infinite_p, log_delta, max(relative_width, _COARSE)
        )
        for _ in range(_ROUNDS):
            low = max(low, work.epsilon(log_delta, Side.LOWER))
            high = min(high, work.epsilon(log_delta, Side.UPPER))
            if high - low <= relative_width * high or work.exhausted:
                break
            slope = work.slope(high)
            shrink = 0.8 * relative_width * high / (high - low) if np.isfinite(high) else 0.1
            tolerance = work.tolerance * min(0.5, max(shrink, 0.01))
            work = Workings.for_threshold(self.merged, high, tolerance, slope, log_delta)
        if not low <= high:
            raise NotCertified(_crossed("epsilon", low, high))
        return low, high


def _crossed(what: str, low: float, high: float) -> str:
    return (
        f"the two sides of {what} crossed: lower {low!r}, upper {high!r}. This is a defect of sharpdp; "
        "please report the mechanism and the question."
    )
