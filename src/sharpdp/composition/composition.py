"""Composition: certified brackets for delta(epsilon) and epsilon(delta) of many experiments together.

A question fixes the tilt; the tilt fixes where nodes are needed; nodes give two LossDistributions; each
is composed on a contour. The bracket is refined until it is as narrow as asked. One direction (P against
Q) at a time; the other is the composition of the reversed pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf

import numpy as np

from sharpdp.bracket import Side
from sharpdp.composition.chernoff import SMALLEST_LOG_DELTA, ChernoffBounds
from sharpdp.composition.contour_engine import ContourEvaluation, without_gaussians
from sharpdp.composition.discretize import exact, first_look, lower
from sharpdp.composition.engine import Declined, Engine, Steps
from sharpdp.composition.one_big_jump.engine import JumpExpansion
from sharpdp.composition.rare_losses import Seldom
from sharpdp.composition.sampled_gaussian.engine import SampledGaussianEvaluation
from sharpdp.errors import NotCertified
from sharpdp.numerics.directed import at_least_once, down, up
from sharpdp.numerics.roots import certified_crossing
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, log1mexp, log_mixture, safe_log
from sharpdp.numerics.transform import Atoms
from sharpdp.pairs.finite import AtomicPair, listed
from sharpdp.pairs.pair import GaussianPair, Pair, ReversedPair
from sharpdp.pairs.privacy_profile import beside_mass, epsilon_of, log_delta_of
from sharpdp.pairs.subsampled import PoissonSampledPair

ENGINES: tuple[type[Engine], ...] = (SampledGaussianEvaluation, JumpExpansion, ContourEvaluation)
"""Engines in the order in which they are asked; the last one serves all steps."""

_ROUNDS = 6
# Tolerance in log delta of a first, cheap answer from which the real one is planned.
_COARSE_DELTA = 0.02
# So many frequencies are kept.
_MOST_KEPT = 1 << 18
# Largest losses are sums of rounded logarithms: thresholds this close to them are not told apart.
_EDGE = 1e-12
# How far below the largest losses may be, relative to them, in a bound from rare events.
_SHARES = np.append(0.0, 2.0 ** -np.arange(50.0, 0.0, -1.0))
_BASE_LOSSES = -np.geomspace(1e-2, 5e3, _SHARES.size)
# A refinement is not repeated that left this much of the width.
_STUCK = 0.9
# Work is never made finer than this part of what is asked for.
_FINE_ENOUGH = 0.1
# Total variations add up to at most these nats more than that of a composition whose epsilon is 0.
_NATS_ABOVE = 7.0
# The smallest double: what is below it is not nothing.
_SMALLEST = 5e-324
# Chernoff orders for values close to one, and how far down the tables for them reach.
_CHERNOFF_ORDERS = np.append(np.geomspace(1e-6, 0.5, 30), [0.6, 0.7, 0.8, 0.9])
_FLOOR = -60.0
# How slowly log delta falls at least, where steps are planned by that.
_FLATTEST = 1e-7
# So many results of bounded steps are taken one by one, and the others are known this finely.
_FEW_RESULTS, _FINEST = 4, 1e-9
# Logarithms of probabilities below this are not accurate.
_DEEPEST = -800.0
# The log of the delta whose epsilon stands in for that at zero, from below.
_NEARLY_ZERO_LOG_DELTA = -690.0


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
        if len(counts) == 1 and 1 in counts.values():
            return tuple(counts.items())
        return tuple((pair.for_composition(), count) for pair, count in counts.items())

    @cached_property
    def single(self) -> Pair | None:
        """The one pair that this is: run once, or with few enough different results to list them."""
        if len(self.merged) == 1 and self.merged[0][1] == 1:
            return self.merged[0][0]
        atomic = [(pair, count) for pair, count in self.merged if isinstance(pair, AtomicPair)]
        return listed(atomic) if atomic and len(atomic) == len(self.merged) else None

    @cached_property
    def symmetric(self) -> bool:
        """Whether both directions are the same."""
        return all(pair.symmetric for pair, _ in self.merged)

    @cached_property
    def infinite_p(self) -> float:
        """P-mass at infinite loss, about; for planning."""
        return self.infinite_p_ends[1]

    @cached_property
    def infinite_p_ends(self) -> tuple[float, float]:
        """(lower, upper) of the P-mass at infinite loss."""
        return at_least_once((pair.infinite_p_ends, count) for pair, count in self.merged)

    @cached_property
    def largest_loss(self) -> float:
        """Not less than the largest finite total loss (infinite if unbounded)."""
        if any(np.isinf(pair.support[1]) for pair, _ in self.merged):
            return inf
        ends = (
            (c, Fraction(pair.support[1]), Fraction(pair.loss_error)) for pair, c in self.merged
        )
        return up(sum((c * (largest + error) for c, largest, error in ends), Fraction(0)))

    @property
    def highest_loss(self) -> float:
        """Not less than any total loss: the divergence of infinite order."""
        return inf if self.infinite_p_ends[1] > 0.0 else self.largest_loss

    @cached_property
    def only_loss(self) -> float | None:
        """The total loss if it can take just one finite value (None otherwise)."""
        total = 0.0
        for pair, count in self.merged:
            if not isinstance(pair, AtomicPair) or len(pair.losses) > 1:
                return None
            total += count * (pair.losses[0] if pair.losses else 0.0)
        return total

    @cached_property
    def _recent(self) -> list[Engine]:
        """Recent work, kept for questions near the ones it was made for."""
        return []

    def remember(self, work: Engine) -> Engine:
        """Keep some work for later questions; the oldest goes first when it is too much."""
        self._recent.append(work)
        while sum(other.size for other in self._recent[:-1]) > _MOST_KEPT:
            del self._recent[0]
        return work

    def work_near(self, epsilon: float, tolerance: float) -> Engine:
        """The finest work made for a threshold close to epsilon; new if there is none this fine.

        Raises Declined where every engine does.
        """
        near = [work for work in self._recent if work.serves(epsilon)]
        work = min(near, key=lambda work: work.tolerance, default=None)
        if work is not None and work.tolerance <= tolerance:
            return work
        return self.remember(
            first_answer(
                ENGINES, lambda engine: engine.for_threshold(self.merged, epsilon, tolerance)
            )
        )

    def _finer(self, work: Engine, epsilon: float, tolerance: float, log_delta: float) -> Engine:
        """New work for epsilon, by the same engine or by the one that serves all steps."""
        return first_answer(
            dict.fromkeys((type(work), ENGINES[-1])),
            lambda engine: engine.for_threshold(self.merged, epsilon, tolerance, work, log_delta),
        )

    @cached_property
    def _dominating(self) -> Composition | None:
        """The same with pairs that reveal no less, for a second opinion; None if none is known."""
        steps = tuple((pair.dominating(), count) for pair, count in self.merged)
        return Composition(steps) if steps != self.merged else None

    @cached_property
    def _split(self) -> BoundedApart | None:
        """The steps with bounded losses apart from the others; None if either kind is missing."""
        bounded = tuple(
            (pair, count)
            for pair, count in self.merged
            if 0.0 <= pair.support[1] < np.inf and pair.infinite_p_ends[1] == 0.0
        )
        others = tuple(step for step in self.merged if step not in bounded)
        return (
            BoundedApart(Composition(bounded), Composition(others)) if bounded and others else None
        )

    @cached_property
    def _seldom(self) -> Seldom | None:
        """The bounds for steps that seldom lose anything; None if they do."""
        return Seldom.of(self.merged)

    @cached_property
    def _chernoff(self) -> ChernoffBounds:
        return ChernoffBounds.of(*without_gaussians(self.merged))

    def estimate(self, epsilon: float) -> tuple[float, float]:
        """log delta at epsilon and how fast it falls there; for planning, not certified.

        The mass at infinite loss is a part of delta, and does not fall.
        """
        rest = safe_log(self.infinite_p)
        if self.single is not None:
            at = np.array([float(epsilon)])
            finite, tail = (
                float(self.single.log_hockey_stick(at)[0]),
                float(self.single.log_tail_q(at)[0]),
            )
            value = float(np.logaddexp(finite, rest))
            return value, float(np.exp(min(tail + epsilon - value, 700.0)))
        try:
            work = self.work_near(epsilon, _COARSE_DELTA)
        except Declined:
            value, slope = self._chernoff.log_delta(epsilon)
        else:
            value, slope = work.log_delta(epsilon, Side.UPPER), work.slope(epsilon)
        return value, slope * -float(np.expm1(min(rest - value, 0.0)))

    @cached_property
    def _lower_parts(self) -> tuple[list[tuple[Atoms, float]], float]:
        """Losses of all but the Gaussians, safe on the lower side, with counts; the variance of these."""
        others, gaussian = without_gaussians(self.merged)
        parts = [
            (
                exact(pair, Side.LOWER).atoms
                if isinstance(pair, AtomicPair)
                else lower(first_look(pair, _FLOOR)).atoms,
                float(count),
            )
            for pair, count in others
        ]
        return parts, gaussian

    @cached_property
    def _log_moments(self) -> Array:
        """About log E_P[e^{-a L}] at the Chernoff orders a; for planning, not certified."""
        parts, gaussian = self._lower_parts
        orders = _CHERNOFF_ORDERS
        result = -0.5 * gaussian * orders * (1.0 - orders)
        for atoms, count in parts:
            result = result + count * atoms.log_moments(-orders)
        return np.asarray(result)

    def _log_moment_bound(self, order: float) -> float:
        """Not below log E_P[e^{-order L}], 0 < order < 1.

        Pairs that reveal less have larger moments of these orders.
        """
        parts, gaussian = self._lower_parts
        terms = [-0.5 * gaussian * order * (1.0 - order)]
        for atoms, count in parts:
            tilted = atoms.tilted(-order)
            terms.append(count * (tilted.log_moment + tilted.log_moment_error))
        return sum(terms) + _EDGE * sum(abs(term) for term in terms)

    def _certain(self, epsilon: float) -> float:
        """A lower bound on log delta from 1 - delta <= E_P[e^{a (epsilon - L)}], 0 < a < 1.

        Sharp enough to settle the case that delta is as good as one.
        """
        a = float(_CHERNOFF_ORDERS[np.argmin(_CHERNOFF_ORDERS * epsilon + self._log_moments)])
        best = a * epsilon * (1.0 + _EDGE) + self._log_moment_bound(a)
        # below all doubles the rest is nothing, and yet delta is not one
        return min(float(log1mexp(best)), -_SMALLEST) if best < 0.0 else -np.inf

    def log_missed_bound(self, alpha: float) -> float:
        """Not below the log of the smallest false-negative rate at false-positive rate alpha > 0.

        With M = E_P[e^{-a L}], 0 < a < 1, the test L > k has a false-positive rate of at most
        e^{-(1-a) k} M, and it misses with probability at most e^{a k} M (Markov's inequality, under
        Q and under P). The first is alpha at k = log(M / alpha) / (1 - a), where the second is
        (M / alpha^a)^{1 / (1-a)}. Losses of either infinite sign add nothing to M.
        """
        orders, far = _CHERNOFF_ORDERS, -float(np.log(alpha))
        a = float(orders[np.argmin((self._log_moments + orders * far) / (1.0 - orders))])
        best = a * far * (1.0 + _EDGE) + self._log_moment_bound(a)
        return best / (1.0 - a) + _EDGE * abs(best)

    def log_delta(self, epsilon: float, tolerance: float) -> tuple[float, float]:
        """Certified (lower, upper) for log delta at epsilon; aims at upper - lower <= tolerance."""
        with extremes_allowed():
            return self._log_delta(epsilon, tolerance)

    def epsilon(
        self, log_delta: float, relative_width: float, delta: float | None = None
    ) -> tuple[float, float]:
        """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

        `delta`, if given, is the value itself, of which log_delta is the rounded logarithm.
        """
        with extremes_allowed():
            return self._epsilon(log_delta, relative_width, delta)

    def pure_epsilon(self, relative_width: float) -> tuple[float, float]:
        """Certified (lower, upper) for epsilon at delta = 0: the largest loss, infinite or not.

        From below it is the sum of losses that are reached with positive probability; where a pair
        does not say how far its losses go, epsilon at the smallest delta stands in for that.
        """
        if self.infinite_p_ends[0] > 0.0 or any(pair.unbounded[1] for pair, _ in self.merged):
            return inf, inf
        high = self.highest_loss
        low = down(sum((c * Fraction(_reached(pair)) for pair, c in self.merged), Fraction(0)))
        if np.isinf(high):
            low = max(low, self.epsilon(_NEARLY_ZERO_LOG_DELTA, relative_width)[0])
        return _in_order("epsilon", low, high)

    def _log_delta(self, epsilon: float, tolerance: float) -> tuple[float, float]:
        if self.single is not None:
            return log_delta_of(self.single, epsilon)
        if epsilon >= self.largest_loss or self.only_loss is not None:
            return self._without_spread(epsilon)
        low, high = max(self._certain(epsilon), self._top(epsilon)), self._ceiling(epsilon)
        if low >= -tolerance:
            return low, high
        if self._seldom is not None:
            least, most = self._seldom.log_delta(epsilon)
            low, high = max(low, least), min(high, most)
            if high - low <= tolerance:
                return _in_order("log delta", low, high)
        high = min(high, self._chernoff.log_delta(epsilon)[0])
        if high < SMALLEST_LOG_DELTA:
            return _in_order("log delta", low, high)
        with suppress(Declined):  # what is known without an engine stands
            low, high = self._refined_log_delta(epsilon, tolerance, low, high)
        if high - low > tolerance:
            # all results together reveal no less than each one alone
            low = max(low, *(log_delta_of(pair, epsilon)[0] for pair, _ in self.merged))
            if self._dominating is not None:
                high = min(high, self._dominating._log_delta(epsilon, tolerance)[1])
        if high - low > tolerance and self._split is not None:
            low, high = self._split.log_delta(epsilon, tolerance, low, high)
        return _in_order("log delta", low, high)

    def _refined_log_delta(
        self, epsilon: float, tolerance: float, low: float, high: float
    ) -> tuple[float, float]:
        """log delta between low and high by the engines, refined until it is as narrow as asked."""
        work = self.work_near(epsilon, max(tolerance, _COARSE_DELTA))
        before = np.inf
        for _ in range(_ROUNDS):
            low = max(low, work.log_delta(epsilon, Side.LOWER))
            high = min(high, work.log_delta(epsilon, Side.UPPER))
            stuck = np.isfinite(before) and high - low > _STUCK * before
            before = high - low
            if before <= tolerance or work.exhausted or stuck:
                break
            wanted = work.tolerance * min(0.5, max(0.8 * tolerance / (high - low), 0.01))
            wanted = max(wanted, min(_FINE_ENOUGH * tolerance, 0.5 * work.tolerance))
            try:
                work = self.remember(self._finer(work, epsilon, wanted, high))
            except Declined:
                break
        return low, high

    def _epsilon(
        self, log_delta: float, relative_width: float, delta: float | None
    ) -> tuple[float, float]:
        if self.single is not None:
            low, high = epsilon_of(self.single, log_delta, delta)
            return min(low, self.highest_loss), min(high, self.highest_loss)
        below, above = beside_mass(self.infinite_p_ends, log_delta, delta)
        if below:
            return np.inf, np.inf
        if log_delta <= safe_log(self.infinite_p) + _EDGE:
            # next to the mass nothing is left to plan with
            return self._below_top(log_delta + _EDGE), self.largest_loss if above else np.inf
        if self.log_total_variation_bound() <= log_delta:
            return 0.0, 0.0
        if self._reached_at_zero(log_delta):
            return 0.0, 0.0
        if self.only_loss is not None:
            return epsilon_without_spread(self.only_loss, self.infinite_p_ends, log_delta)
        low, high = self._below_top(log_delta), self.largest_loss
        if self._seldom is not None:
            start = max(epsilon_of(pair, log_delta - np.log(n))[1] for pair, n in self.merged)
            if np.isfinite(start):
                least, most = self._seldom.epsilon(log_delta, start)
                low, high = max(low, least), min(high, most)
        if np.isfinite(high) and high - low <= relative_width * high:
            return low, high
        with suppress(Declined):  # what is known without an engine stands
            low, high = self._refined_epsilon(log_delta, relative_width, low, high)
        if not high - low <= relative_width * high < np.inf:
            low = max(low, *(epsilon_of(pair, log_delta, delta)[0] for pair, _ in self.merged))
            high = min(high, self._chernoff.epsilon(log_delta))
            if self._dominating is not None:
                high = min(high, self._dominating._epsilon(log_delta, relative_width, delta)[1])
        if not high - low <= relative_width * high < np.inf and self._split is not None:
            low, high = self._split.epsilon(log_delta, relative_width, low, high)
        return _in_order("epsilon", low, high)

    def _refined_epsilon(
        self, log_delta: float, relative_width: float, low: float, high: float
    ) -> tuple[float, float]:
        """epsilon between low and high by the engines, refined until it is as narrow as asked."""
        work = first_answer(
            ENGINES, lambda engine: engine.for_value(self.merged, log_delta, relative_width)
        )
        rounding = 4.0 * UNIT_ROUNDOFF * abs(log_delta)
        before = np.inf
        for _ in range(_ROUNDS):
            low = max(low, work.epsilon(log_delta + rounding, Side.LOWER))
            high = min(high, work.epsilon(log_delta - rounding, Side.UPPER))
            stuck = np.isfinite(before) and high - low > _STUCK * before
            before = high - low
            if stuck or work.exhausted or (np.isfinite(high) and before <= relative_width * high):
                break
            shrink = 0.8 * relative_width * high / (high - low) if np.isfinite(high) else 0.1
            tolerance = work.tolerance * min(0.5, max(shrink, 0.01))
            # a bracket may be wide only because its ends were far from where the work was made for
            enough = _FINE_ENOUGH * relative_width * high * work.slope(high)
            finer = max(tolerance, min(enough, 0.5 * work.tolerance))
            finer = finer if np.isfinite(high) else tolerance
            try:
                work = self._finer(work, high, finer, log_delta)
            except Declined:
                break
        return low, high

    def log_total_variation_bound(self) -> float:
        """log of the sum of all total variations, not below that of the composition."""
        total = sum(count * np.exp(log_delta_of(pair, 0.0)[1]) for pair, count in self.merged)
        return safe_log(float(total)) + _EDGE

    def _reached_at_zero(self, log_delta: float) -> bool:
        """Whether delta(0) is seen to be at most this; looked at only where it is likely."""
        if self.log_total_variation_bound() > log_delta + _NATS_ABOVE or self.only_loss is not None:
            return False
        try:
            work = ContourEvaluation.for_threshold(self.merged, 0.0, _COARSE_DELTA)
        except Declined:
            return False
        return work.log_delta(0.0, Side.UPPER) <= log_delta

    def _without_spread(self, epsilon: float) -> tuple[float, float]:
        """log delta where the finite loss is below epsilon, or is always the same."""
        only = -np.inf if self.only_loss is None else self.only_loss
        excess = max(-np.expm1(epsilon - only), 0.0) if only > epsilon else 0.0
        slack = _EDGE * (1.0 + abs(only)) / max(excess, _EDGE) if excess > 0.0 else _EDGE
        low, high = (safe_log(mass + (1.0 - mass) * excess) for mass in self.infinite_p_ends)
        return low - slack, min(high + slack, 0.0)

    def _ceiling(self, epsilon: float) -> float:
        """An upper bound on log delta: no finite loss exceeds the largest one."""
        if not np.isfinite(self.largest_loss):
            return 0.0
        share = float(log1mexp(epsilon - self.largest_loss))
        return min(0.0, float(np.logaddexp(share, safe_log(self.infinite_p))) + _EDGE)

    @cached_property
    def _tops(self) -> tuple[Array, Array]:
        """Total losses below the largest, each with the log of a probability under P not above its own.

        Of the event that every loss is at least a certain part of the largest possible one.
        """
        if not all(0.0 <= pair.support[1] < np.inf for pair, _ in self.merged):
            return np.zeros(1), np.full(1, -np.inf)
        loss, log_mass = np.zeros(_SHARES.shape), np.zeros(_SHARES.shape)
        for pair, count in self.merged:
            least, log_tail = _largest_losses(pair)
            loss += count * least
            log_mass += count * (log_tail - 2.0 * pair.accuracy)
        return loss * (1.0 - 2.0 * _EDGE), log_mass - _EDGE

    def _top(self, epsilon: float) -> float:
        """A lower bound on log delta from the event that every loss is one of the largest."""
        loss, log_mass = self._tops
        gap = np.minimum(epsilon - loss, 0.0)
        return float(np.max(log_mass + log1mexp(gap)))

    def _below_top(self, log_delta: float) -> float:
        """A lower bound on epsilon from the same events; 0 if they say nothing."""
        loss, log_mass = self._tops
        shrink = log1mexp(np.minimum(log_delta - log_mass, 0.0))
        return max(0.0, float(np.max(loss + (1.0 + _EDGE) * shrink)))


@dataclass(frozen=True)
class BoundedApart:
    """Steps whose losses are bounded, and others whose losses are not: a sum over results of the first.

    Let the bounded steps have the results A_1, ..., A_n, with losses between l_i and h_i. With delta' the
    profile of the others,

        sum P[A_i] delta'(k - l_i) <= delta(k) <= sum P[A_i] delta'(k - h_i).

    Few results are taken one by one, l_i = h_i up to rounding. Otherwise one result with the largest loss
    is the upper side, and the event that every loss is the largest one is the lower side. That is sharp
    where delta is so small that the bounded steps take their largest losses.
    """

    bounded: Composition
    others: Composition

    def log_delta(
        self, epsilon: float, tolerance: float, low: float, high: float
    ) -> tuple[float, float]:
        """Bounds on log delta, not wider than the given ones."""
        return (
            max(low, self._log_sum(epsilon, tolerance, Side.LOWER)),
            min(high, self._log_sum(epsilon, tolerance, Side.UPPER)),
        )

    def epsilon(
        self, log_delta: float, relative_width: float, low: float, high: float
    ) -> tuple[float, float]:
        """Bounds on epsilon, not wider than the given ones."""
        least, most = self.others._epsilon(log_delta, relative_width, None)
        if not np.isfinite(most):
            return low, high
        start = most + self.bounded.largest_loss
        slope = max(self.others.estimate(most)[1], _FLATTEST)
        tolerance = max(_FINE_ENOUGH * relative_width * max(least, low) * slope, _FINEST)
        rounding = 4.0 * UNIT_ROUNDOFF * abs(log_delta)

        def crossing(side: Side, sign: float) -> float:
            def excess(epsilon: float) -> float:
                return self._log_sum(epsilon, tolerance, side) - log_delta + sign * rounding

            close = _FINE_ENOUGH * relative_width
            return certified_crossing(excess, start, slope, sign, close)

        return max(low, crossing(Side.LOWER, -1.0)), min(high, crossing(Side.UPPER, 1.0))

    def _log_sum(self, epsilon: float, tolerance: float, side: Side) -> float:
        """log of one of the sums, safe on its side; delta' is at most one, and left out below zero."""
        total = -np.inf
        for loss, log_p in self._results[side]:
            rest = epsilon - loss
            slack = 2.0 * UNIT_ROUNDOFF * (abs(epsilon) + abs(loss))
            rest = rest + slack if side is Side.LOWER else rest - slack
            if rest >= 0.0:
                ends = self.others._log_delta(rest, tolerance)
                log_p += ends[0 if side is Side.LOWER else 1]
            elif side is Side.LOWER:
                continue
            total = float(np.logaddexp(total, log_p))
        outwards = 16.0 * UNIT_ROUNDOFF * (1.0 + abs(total)) if np.isfinite(total) else 0.0
        return total - outwards if side is Side.LOWER else min(total + outwards, 0.0)

    @cached_property
    def _results(self) -> dict[Side, list[tuple[float, float]]]:
        """Losses with the logarithms of their probabilities, safe on each side."""
        pair = self.bounded.single
        if not isinstance(pair, AtomicPair) or len(pair.losses) > _FEW_RESULTS:
            loss, log_mass = self.bounded._tops
            top = (float(loss[0]), float(log_mass[0]))
            return {Side.LOWER: [top], Side.UPPER: [(self.bounded.largest_loss, 0.0)]}
        slack = 2.0 * pair.accuracy
        many = list(zip(pair.losses, pair.log_p, strict=True))
        return {
            Side.LOWER: [(loss - pair.loss_error, log_p - slack) for loss, log_p in many],
            Side.UPPER: [(loss + pair.loss_error, log_p + slack) for loss, log_p in many],
        }


def _largest_losses(pair: Pair) -> tuple[Array, Array]:
    """Losses up to the largest one, and the log of the P-probability beyond each; lower bounds.

    An event A shows delta >= P[A] - e^epsilon Q[A]: its loss is log P[A]/Q[A], which is a threshold or
    more if A is what lies beyond that; a pair whose tails are those of other tests is asked for both.
    """
    if isinstance(pair, ReversedPair) and isinstance(pair.forward, PoissonSampledPair):
        # as functions of the base loss, since the losses themselves are hardly apart
        sampled = pair.forward
        losses = -log_mixture(sampled.rate, _BASE_LOSSES) - pair.loss_error
        return losses, sampled.base.log_tail_q(_BASE_LOSSES)
    least = np.minimum((1.0 - _SHARES) * pair.support[1], max(pair.resolved[1], 0.0))
    # the largest loss itself may be an atom
    least[0] = pair.support[1]
    log_p = pair.log_tail_p(least)
    if pair.tails_are_lower_bounds:
        slack = 2.0 * pair.accuracy + 4.0 * UNIT_ROUNDOFF * np.abs(log_p)
        shown = np.where(log_p > _DEEPEST, log_p - pair.log_tail_q(least) - slack, -np.inf)
        least = np.minimum(least, shown)
    return least - pair.loss_error, log_p


def _reached(pair: Pair) -> float:
    """A loss that is reached or passed with positive probability, not below 0."""
    if np.isinf(pair.support[1]):
        return 0.0
    least, log_p = _largest_losses(pair)
    # the masses of outcomes are what they are; other tails are accurate down to some depth only
    seen = log_p > (-np.inf if isinstance(pair, AtomicPair) else _DEEPEST)
    return float(np.max(least[seen], initial=0.0))


def first_answer(
    engines: Iterable[type[Engine]], prepare: Callable[[type[Engine]], Engine]
) -> Engine:
    """The work of the first engine that does not decline; Declined if all do."""
    for engine in engines:
        with suppress(Declined):
            return prepare(engine)
    raise Declined("no engine has an answer")


def epsilon_without_spread(
    loss: float, infinite_p: tuple[float, float], log_delta: float
) -> tuple[float, float]:
    """epsilon at which mass + (1 - mass)(1 - e^{epsilon - loss})_+ = delta, mass given by its ends.

    That is loss + log((1 - delta) / (1 - mass)): neither difference is small unless it is exact.
    """
    kept = loss + float(np.log(-np.expm1(log_delta)))
    least, most = (kept - float(np.log1p(-mass)) for mass in infinite_p)
    slack = _EDGE * (1.0 + abs(loss) + abs(kept))
    return max(least - slack, 0.0), max(most + slack, 0.0)


def extremes_allowed() -> np.errstate:
    """Infinite and zero results of numpy's arithmetic without warnings: bounds may be trivial."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")


def _in_order(what: str, low: float, high: float) -> tuple[float, float]:
    if low <= high:  # false for NaN too
        return low, high
    raise NotCertified(
        f"the two sides of {what} crossed: lower {low!r}, upper {high!r}. This is a defect of sharpdp; "
        "please report the mechanism and the question."
    )
