"""Bounds on a composition that need no engine: certified, quick for every question, seldom sharp.

They settle the questions whose answer is astronomically small or as good as one, and stand where no
engine has an answer. Each class says its side and its method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, log1p

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.contour import Atoms, log_call_constant
from sharpdp.numerics.roots import certified_crossing
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    log1mexp,
    log_any,
    log_diff,
    log_mixture,
)
from sharpdp.pairs.pair import Pair, ReversedPair, epsilon_of, log_delta_of
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.discretize import coarse_distribution
from sharpdp.profile.engine import SMALLEST_LOG_DELTA, Steps, without_gaussians

EDGE = 1e-12
"""Largest losses are sums of rounded logarithms: thresholds this close to them are not told apart."""

DEEPEST = -800.0
"""Logarithms of probabilities below this are not accurate."""

_SHARES = np.append(0.0, 2.0 ** -np.arange(50.0, 0.0, -1.0))
"""How far below the largest losses may be, relative to them, in a bound from rare events."""

_ORDERS = np.append(np.geomspace(1e-6, 0.5, 30), [0.6, 0.7, 0.8, 0.9])
_TILTS = np.geomspace(1e-10, 1e24, 69)
"""Orders of Chernoff's lower bounds, and tilts of all sizes for the upper ones."""


@dataclass(frozen=True)
class ChernoffUpper:
    """Upper bounds by Chernoff, from moments of orders above one.

    For s > 0, with M_T the generating function of the total loss, all finite losses on the upper side,

        delta(k) <= P[L = inf] + c(s) M_T(s) e^{-s k},      c(s) = s^s / (1 + s)^{1 + s}.

    `parts` are upper atoms of every step but the Gaussian ones, `gaussian` is the variance of these.
    """

    parts: tuple[tuple[Atoms, float], ...]
    gaussian: float
    log_infinite: float

    @classmethod
    def of(cls, steps: Steps) -> ChernoffUpper:
        """Look at all losses that matter for any delta that is a double.

        Those are left out whose probability adds up to ten nats less than the smallest delta.
        """
        steps, gaussian = without_gaussians(steps)
        total = max(float(sum(count for _, count in steps)), 1.0)
        floor = SMALLEST_LOG_DELTA - float(np.log(total)) - 10.0
        tables = [coarse_distribution(pair, floor, Side.UPPER) for pair, _ in steps]
        counts = [float(count) for _, count in steps]
        parts = tuple((table.atoms, n) for table, n in zip(tables, counts, strict=True))
        infinite = log_any([table.log_infinite_p for table in tables], counts)
        if np.isfinite(infinite):
            # the sum of logarithms is off by a few units of the largest of them
            infinite += (
                16.0 * UNIT_ROUNDOFF * (1.0 + len(parts)) * (1.0 + abs(infinite) + np.log(total))
            )
        return cls(parts, gaussian, min(infinite, 0.0))

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """An upper bound on log delta, and the tilt that gives it."""
        epsilon = min(epsilon, 1e200)  # delta falls with epsilon, and this times a tilt is a double
        # of all tilts that show it to be below all doubles, the smallest
        floor = SMALLEST_LOG_DELTA - 10.0
        s = self._best(lambda tilts, leads: np.maximum(leads - tilts * epsilon, floor))
        lead = self._certified(s)
        bound = lead - s * epsilon + 4.0 * UNIT_ROUNDOFF * (abs(lead) + s * epsilon)
        total = float(np.logaddexp(bound, self.log_infinite))
        total += 4.0 * UNIT_ROUNDOFF * abs(total)
        return (min(total, 0.0) if total == total else 0.0), s

    def epsilon(self, log_delta: float) -> float:
        """An upper bound on the smallest epsilon with delta(epsilon) <= e^log_delta."""
        if self.log_infinite >= log_delta:
            return np.inf
        rest = float(log_diff(log_delta, self.log_infinite))
        rest -= (
            8.0 * UNIT_ROUNDOFF * (1.0 + abs(log_delta)) / -np.expm1(self.log_infinite - log_delta)
        )
        s = self._best(lambda tilts, leads: (leads - rest) / tilts)
        lead = self._certified(s)
        bound = (lead - rest + 4.0 * UNIT_ROUNDOFF * (abs(lead) + abs(rest))) / s
        return max(bound * (1.0 + 4.0 * UNIT_ROUNDOFF), 0.0) if bound == bound else np.inf

    def about(self, log_deltas: Array) -> Array:
        """About `epsilon` at several deltas; for planning, not certified."""
        rest = log_diff(np.maximum(log_deltas, self.log_infinite), self.log_infinite)[:, None]
        middle = float(np.median(rest))
        s = self._best(lambda tilts, leads: (leads - middle) / tilts)
        tilts = np.append(_TILTS, s)
        leads = np.append(self._table, self._leads(np.array([s])))
        bounds = (leads - rest) / tilts
        return np.asarray(np.where(np.isnan(bounds), np.inf, bounds).min(axis=1).clip(min=0.0))

    @cached_property
    def _table(self) -> Array:
        """log of c(s) M_T(s) at tilts of all sizes (not certified)."""
        return self._leads(_TILTS)

    def _leads(self, tilts: Array) -> Array:
        total = log_call_constant(tilts) + 0.5 * self.gaussian * tilts * (tilts + 1.0)
        for atoms, count in self.parts:
            total = total + count * atoms.log_moments(tilts, exactly=count > 1e13)
        return np.asarray(total)

    def _best(self, objective: Callable[[Array, Array], Array]) -> float:
        """About the tilt at which the objective of tilts and leads is least."""
        tilts, leads = _TILTS, self._table
        for zooms_left in range(3, -1, -1):
            values = objective(tilts, leads)
            best = int(np.argmin(np.where(np.isnan(values), np.inf, values)))
            if zooms_left == 0:
                break
            around = tilts[max(best - 1, 0)], tilts[min(best + 1, tilts.size - 1)]
            tilts = np.geomspace(*around, 7)
            leads = self._leads(tilts)
        return float(tilts[best])

    def _certified(self, s: float) -> float:
        """Not below log of c(s) M_T(s)."""
        gaussian = 0.5 * self.gaussian * s * (s + 1.0)
        constant = float(log_call_constant(np.array(s)))
        total, size = gaussian + constant, gaussian + s * np.log1p(1.0 / s) + np.log1p(s)
        for atoms, count in self.parts:
            tilted = atoms.tilted(s)
            total += count * (tilted.log_moment + tilted.log_moment_error)
            size += count * abs(tilted.log_moment)
        return float(total + 16.0 * UNIT_ROUNDOFF * (1.0 + len(self.parts) / 16.0) * size)


@dataclass(frozen=True)
class ChernoffLower:
    """Lower bounds by Chernoff, from moments M(a) = E_P[e^{-a L}] of orders 0 < a < 1.

    Pairs that reveal less have larger moments of these orders. `parts` are lower atoms of every step but
    the Gaussian ones, `gaussian` is the variance of these.
    """

    parts: tuple[tuple[Atoms, float], ...]
    gaussian: float

    @classmethod
    def of(cls, steps: Steps) -> ChernoffLower:
        """Look at losses down to values of e^-60."""
        steps, gaussian = without_gaussians(steps)
        parts = tuple(
            (coarse_distribution(pair, -60.0, Side.LOWER).atoms, float(count))
            for pair, count in steps
        )
        return cls(parts, gaussian)

    @cached_property
    def _log_moments(self) -> Array:
        """About log M at the orders that are tried; for planning, not certified."""
        result = -0.5 * self.gaussian * _ORDERS * (1.0 - _ORDERS)
        for atoms, count in self.parts:
            result = result + count * atoms.log_moments(-_ORDERS)
        return np.asarray(result)

    def _log_moment_upper(self, order: float) -> float:
        """Not below log M(order)."""
        terms = [-0.5 * self.gaussian * order * (1.0 - order)]
        for atoms, count in self.parts:
            if not atoms.points.size:
                return -np.inf  # no loss is finite
            tilted = atoms.tilted(-order)
            terms.append(count * (tilted.log_moment + tilted.log_moment_error))
        return sum(terms) + EDGE * sum(abs(term) for term in terms)

    def log_delta(self, epsilon: float) -> float:
        """A lower bound on log delta from 1 - delta <= e^{a epsilon} M(a).

        Sharp enough to settle the case that delta is as good as one.
        """
        a = float(_ORDERS[np.argmin(_ORDERS * epsilon + self._log_moments)])
        log_rest = a * epsilon * (1.0 + EDGE) + self._log_moment_upper(a)
        # below all doubles the rest is nothing, and yet delta is not one
        return min(float(log1mexp(log_rest)), -5e-324) if log_rest < 0.0 else -np.inf

    def log_missed(self, alpha: float) -> float:
        """Not below the log of the smallest false-negative rate at false-positive rate alpha > 0.

        The test L > k has a false-positive rate of at most e^{-(1-a) k} M, and it misses with probability
        at most e^{a k} M (Markov's inequality, under Q and under P). The first is alpha at
        k = log(M / alpha) / (1 - a), where the second is (M / alpha^a)^{1 / (1-a)}. Losses of either
        infinite sign add nothing to M.
        """
        far = -float(np.log(alpha))
        a = float(_ORDERS[np.argmin((self._log_moments + _ORDERS * far) / (1.0 - _ORDERS))])
        bound = a * far * (1.0 + EDGE) + self._log_moment_upper(a)
        return bound / (1.0 - a) + EDGE * abs(bound) if bound > -np.inf else bound


@dataclass(frozen=True)
class LargestLossLower:
    """Lower bounds from events that every loss is at least a certain part of the largest possible one.

    Of each event the total loss, and the log of a probability under P that is not above its own.
    """

    losses: Array
    log_masses: Array

    @classmethod
    def of(cls, steps: Steps) -> LargestLossLower:
        """One event for each of many parts of the largest loss; none if losses are not bounded."""
        losses, log_masses = np.zeros(_SHARES.shape), np.zeros(_SHARES.shape)
        for pair, count in steps:
            if not 0.0 <= pair.support[1] < np.inf:
                return cls(np.zeros(1), np.full(1, -np.inf))
            own_losses, log_tail = largest_losses(pair)
            losses += count * own_losses
            log_masses += count * (log_tail - 2.0 * pair.accuracy)
        return cls(losses * (1.0 - 2.0 * EDGE), log_masses - EDGE)

    def log_delta(self, epsilon: float) -> float:
        """A lower bound on log delta."""
        gap = np.minimum(epsilon - self.losses, 0.0)
        return float(np.max(self.log_masses + log1mexp(gap)))

    def epsilon(self, log_delta: float) -> float:
        """A lower bound on epsilon; 0 if the events say nothing."""
        shrink = log1mexp(np.minimum(log_delta - self.log_masses, 0.0))
        return max(0.0, float(np.max(self.losses + (1.0 + EDGE) * shrink)))


def largest_losses(pair: Pair) -> tuple[Array, Array]:
    """Losses up to the largest one, and the log of the P-probability beyond each; lower bounds.

    An event A shows delta >= P[A] - e^epsilon Q[A]: its loss is log P[A]/Q[A], which is a threshold or
    more if A is what lies beyond that; a pair whose tails are those of other tests is asked for both.
    """
    if isinstance(pair, ReversedPair) and isinstance(pair.base, PoissonSampledPair):
        # as functions of the base loss, since the losses themselves are hardly apart
        sampled = pair.base
        base_losses = -np.geomspace(1e-2, 5e3, _SHARES.size)
        losses = -log_mixture(sampled.rate, base_losses) - pair.loss_error
        return losses, sampled.base.log_tail_q(base_losses)
    losses = np.minimum((1.0 - _SHARES) * pair.support[1], max(pair.accurate_range[1], 0.0))
    # the largest loss itself may be an atom
    losses[0] = pair.support[1]
    log_p = pair.log_tail_p(losses)
    if pair.tails_are_lower_bounds:
        slack = 2.0 * pair.accuracy + 4.0 * UNIT_ROUNDOFF * np.abs(log_p)
        shown = np.where(log_p > DEEPEST, log_p - pair.log_tail_q(losses) - slack, -np.inf)
        losses = np.minimum(losses, shown)
    return losses - pair.loss_error, log_p


@dataclass(frozen=True)
class RareLosses:
    """Steps that seldom lose anything: delta by the one step that does.

    Let step i have a loss other than zero with probability w_i (under P; under Q it is the same, since a
    loss of zero means equal densities), and m = sum n_i w_i. For k >= 0 and delta_i the profile of a step

        (1 - m) sum n_i delta_i(k)  <=  delta(k)  <=  sum n_i delta_i(k) + m^2 / 2.

    Split delta(k) = E_P[(1 - e^{k - L})_+] by the set of steps whose loss is not zero. No such step:
    nothing. One: delta_i(k) times the probability that all others lose nothing, which is between 1 - m
    and 1. Two or more: at least 0, and at most the probability of that, which is at most m^2 / 2.
    `mean` is about m, not less.
    """

    steps: Steps
    mean: float

    @classmethod
    def of(cls, steps: Steps) -> RareLosses | None:
        """The bounds for these steps; None if losses are not rare, where the two sides are far apart."""
        mean = 0.0
        for pair, count in steps:
            mean += count * pair.hints.chance_of_loss()
        mean *= 1.0 + 4.0 * UNIT_ROUNDOFF * (1.0 + len(steps))
        return cls(steps, mean) if 0.0 < mean < 0.1 else None

    def log_delta(self, epsilon: float) -> tuple[float, float]:
        """Certified (lower, upper) for log delta at epsilon >= 0."""
        brackets = [(log_delta_of(pair, epsilon), log(count)) for pair, count in self.steps]
        low, high = (
            float(
                np.logaddexp.reduce([bracket[side] + log_count for bracket, log_count in brackets])
            )
            for side in (0, 1)
        )
        low += log1p(-self.mean)
        high = float(np.logaddexp(high, 2.0 * log(self.mean) - log(2.0)))
        slack = 16.0 * UNIT_ROUNDOFF * (1.0 + len(brackets))
        low -= slack * (1.0 + abs(low)) if low > -inf else 0.0
        return low, min(high + slack * (1.0 + abs(high)), 0.0)

    def epsilon(self, log_delta: float) -> tuple[float, float]:
        """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

        The search begins where every step alone gives its part; if that is infinite, nothing is said.
        """
        start = max(epsilon_of(pair, log_delta - np.log(n))[1] for pair, n in self.steps)
        if not np.isfinite(start):
            return 0.0, inf
        rounding = 4.0 * UNIT_ROUNDOFF * abs(log_delta)
        step = 1e-4 * max(start, 1e-4)
        fall = (self.log_delta(start)[0] - self.log_delta(start + step)[0]) / step
        slope = max(fall if np.isfinite(fall) else 1.0, 1e-6)
        low = certified_crossing(
            lambda epsilon: self.log_delta(epsilon)[0] - log_delta - rounding, start, slope, -1.0
        )
        high = certified_crossing(
            lambda epsilon: self.log_delta(epsilon)[1] - log_delta + rounding, start, slope, 1.0
        )
        return low, high
