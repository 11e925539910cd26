"""Composition: certified brackets for delta(epsilon) and epsilon(delta) of many experiments together.

A question fixes the tilt; the tilt fixes where nodes are needed; nodes give two LossDistributions; each
is composed on a contour. The bracket is refined until it is as narrow as asked. One direction (P against
Q) at a time; the other is the composition of the reversed pairs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import inf

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.errors import Contradiction, NotCertified
from sharpdp.numerics.roots import certified_crossing
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    at_least_once,
    down,
    log1mexp,
    safe_log,
    up,
)
from sharpdp.pairs.finite import AtomicPair, listed
from sharpdp.pairs.known_moments import PairOfKnownMoments
from sharpdp.pairs.pair import (
    GaussianPair,
    Pair,
    beside_mass,
    epsilon_of,
    for_composition,
    for_few_thresholds,
    for_planning,
    log_delta_of,
    log_deltas_of,
    revealing_no_less,
)
from sharpdp.profile.contour_engine import ContourEvaluation
from sharpdp.profile.elementary_bounds import (
    DEEPEST,
    EDGE,
    ChernoffLower,
    ChernoffUpper,
    LargestLossLower,
    RareLosses,
    largest_losses,
)
from sharpdp.profile.engine import (
    SMALLEST_LOG_DELTA,
    Declined,
    Engine,
    Steps,
    Thresholds,
    extremes_allowed,
)
from sharpdp.profile.error_rates import false_negative_rates, true_positive_rates
from sharpdp.profile.gaussian_mu import mu_between
from sharpdp.profile.kept import Kept
from sharpdp.profile.many_questions import (
    FEW,
    epsilons,
    epsilons_of,
    log_deltas,
)
from sharpdp.profile.one_big_jump.expansion import JumpExpansion
from sharpdp.profile.planning import COARSE_DELTA, deviations, estimate, is_near
from sharpdp.profile.renyi import divergence, divergences
from sharpdp.profile.sampled_gaussian.evaluation import SampledGaussianEvaluation
from sharpdp.profile.sampled_gaussian.quick_bounds import MomentBounds, log_delta_bounds

ENGINES: tuple[type[Engine], ...] = (
    SampledGaussianEvaluation,
    ContourEvaluation,
    JumpExpansion,
)
"""Engines in the order in which they are asked, until the answer is as narrow as asked.

Contours serve all steps. Jumps come after them: they take several times as long, and pay only where large
losses are so rare that one contour stays wide.
"""

Interval = tuple[float, float]


@dataclass(frozen=True)
class DeltaQuestion:
    """log delta at an epsilon, to within a tolerance."""

    epsilon: float
    tolerance: float

    def bracket(self, work: Engine) -> Interval:
        """Certified (lower, upper) of the answer."""
        return work.log_delta(self.epsilon, Side.LOWER), work.log_delta(self.epsilon, Side.UPPER)

    def width(self, upper: float, part: float = 1.0) -> float:
        """A part of the width that is asked for."""
        return part * self.tolerance

    def aim(self, work: Engine, upper: float) -> tuple[float, float, float]:
        """The epsilon that finer work is made for, log delta there, nats of it per unit of width."""
        return self.epsilon, upper, 1.0


@dataclass(frozen=True)
class EpsilonQuestion:
    """epsilon at a log delta, to within a relative width; finer work is made for its upper end."""

    log_delta: float
    relative_width: float

    def bracket(self, work: Engine) -> Interval:
        """Certified (lower, upper) of the answer."""
        return work.epsilon_ends(self.log_delta, 4.0 * UNIT_ROUNDOFF * abs(self.log_delta))

    def width(self, upper: float, part: float = 1.0) -> float:
        """A part of the width that is asked for."""
        return part * self.relative_width * upper

    def aim(self, work: Engine, upper: float) -> tuple[float, float, float]:
        """The epsilon that finer work is made for, log delta there, nats of it per unit of width."""
        return upper, self.log_delta, work.slope(upper)


@dataclass(frozen=True)
class Composition:
    """P against Q for a sequence of independent experiments, each repeated a number of times.

    Answers are certified (lower, upper).
    """

    steps: Steps

    def reverse(self) -> Composition:
        """Q against P for the same experiments (made once, so that its work is kept)."""
        origin = None if self._origin is None else self._origin()
        return self._reversed if origin is None else origin

    @cached_property
    def _reversed(self) -> Composition:
        other = Composition(tuple((pair.reverse(), count) for pair, count in self.steps))
        # weakly: a cycle would keep the work of both for long
        other.__dict__["_origin"] = weakref.ref(self)
        return other

    @cached_property
    def _origin(self) -> weakref.ref[Composition] | None:
        """What this is the reverse of, if it was made from that."""
        return None

    def __reduce__(self) -> tuple[type[Composition], tuple[Steps]]:
        """A copy or a pickle has the experiments, without the work that earlier questions left."""
        return Composition, (self.steps,)

    def fresh(self) -> Composition:
        """The same experiments without the work that earlier questions left."""
        return Composition(self.steps)

    @cached_property
    def merged_steps(self) -> Steps:
        """Equal pairs together, all Gaussians as one (their squared distances add up).

        One that reveals everything is all there is, and where nothing is learned one says so.
        """
        counted = self._counted_steps
        if len(counted) == 1 and counted[0][1] == 1:
            return counted
        return tuple((for_composition(pair), count) for pair, count in counted)

    @cached_property
    def _counted_steps(self) -> Steps:
        """`merged_steps` before each pair says what to compose in its place."""
        for pair, _ in self.steps:
            if isinstance(pair, AtomicPair) and not pair.losses:
                return ((pair, 1),)
        counts: dict[Pair, int] = {}
        square = 0.0
        for pair, count in self.steps:
            if isinstance(pair, GaussianPair):
                square += count * pair.mu**2
            else:
                counts[pair] = counts.get(pair, 0) + count
        if square > 0.0:
            counts[GaussianPair(float(np.sqrt(square)))] = 1
        return tuple(counts.items()) or ((AtomicPair((0.0,), (0.0,), (0.0,)), 1),)

    @property
    def steps_of_moments(self) -> Steps:
        """`merged_steps`, with the pairs of which divergences are known otherwise as they are."""
        return tuple(
            counted if isinstance(counted[0], PairOfKnownMoments) else merged
            for counted, merged in zip(self._counted_steps, self.merged_steps, strict=True)
        )

    @property
    def has_known_moments(self) -> bool:
        """Whether it is more than one run, and divergences of some are known otherwise."""
        several = sum(count for _, count in self._counted_steps) > 1
        return several and any(isinstance(pair, PairOfKnownMoments) for pair, _ in self.steps)

    @cached_property
    def single_pair(self) -> Pair | None:
        """The one pair that this is: run once, or with few enough different results to list them."""
        if len(self.merged_steps) == 1 and self.merged_steps[0][1] == 1:
            return self.merged_steps[0][0]
        atomic = []
        for pair, count in self.merged_steps:
            if not isinstance(pair, AtomicPair):
                return None
            atomic.append((pair, count))
        return listed(atomic) if atomic else None

    @cached_property
    def for_planning(self) -> Composition:
        """About the same run by quicker pairs, to look where a question is to be asked."""
        steps = tuple((for_planning(pair), count) for pair, count in self.steps)
        return self if steps == self.steps else Composition(steps)

    @property
    def repeated_pair(self) -> tuple[Pair, int] | None:
        """The pair and its count if one pair is all that is run, more than once; None otherwise."""
        is_one = len(self.merged_steps) == 1 and self.merged_steps[0][1] > 1
        return self.merged_steps[0] if is_one else None

    @cached_property
    def symmetric(self) -> bool:
        """Whether both directions are the same."""
        return all(pair.symmetric for pair, _ in self.merged_steps)

    @cached_property
    def infinite_p_ends(self) -> Interval:
        """(lower, upper) of the P-mass at infinite loss."""
        return at_least_once((pair.infinite_p_ends, count) for pair, count in self.merged_steps)

    @cached_property
    def largest_loss(self) -> float:
        """Not less than the largest finite total loss (infinite if unbounded)."""
        total = Fraction(0)
        for pair, count in self.merged_steps:
            if np.isinf(pair.support[1]):
                return inf
            total += count * (Fraction(pair.support[1]) + Fraction(pair.loss_error))
        return up(total)

    @property
    def highest_loss(self) -> float:
        """Not less than any total loss: the divergence of infinite order."""
        return inf if self.infinite_p_ends[1] > 0.0 else self.largest_loss

    @cached_property
    def _constant_loss(self) -> float | None:
        """The total loss if it can take just one finite value (None otherwise)."""
        total = 0.0
        for pair, count in self.merged_steps:
            if not isinstance(pair, AtomicPair) or len(pair.losses) > 1:
                return None
            total += count * (pair.losses[0] if pair.losses else 0.0)
        return total

    @cached_property
    def kept(self) -> Kept:
        """What earlier questions left."""
        return Kept()

    def works_near(self, epsilon: float, tolerance: float) -> Iterator[Engine]:
        """Work aimed at epsilon and the tolerance, kept or new, by one engine after the other."""
        kept = self.kept.near(epsilon, tolerance)
        # beside a mass at infinity delta may be sharp where finite losses are not
        if kept and (self.infinite_p_ends[1] == 0.0 or kept[0].nats_away(epsilon) <= 1.5):
            yield kept[0]
        yield from self.enclosing(Thresholds.at(epsilon), tolerance)

    def enclosing(
        self, thresholds: Thresholds, tolerance: float, *, asked_first: bool | None = None
    ) -> Iterator[Engine]:
        """New work by one engine after the other, made when it is asked for, where none declines.

        Of all engines, or only of those that are asked before elementary bounds, or after them.
        """
        for engine in ENGINES:
            if asked_first is None or engine.asked_first is asked_first:
                with suppress(Declined):
                    yield self.kept.add(engine.enclose(self.merged_steps, thresholds, tolerance))

    @cached_property
    def _dominating(self) -> Composition | None:
        """A composition of pairs that reveal no less, for a second opinion; None if none is known."""
        steps = tuple((revealing_no_less(pair), count) for pair, count in self.merged_steps)
        return Composition(steps) if steps != self.merged_steps else None

    @cached_property
    def _bounded_apart(self) -> BoundedApart | None:
        """The steps with bounded losses apart from the others; None if either kind is missing."""
        bounded = tuple(
            (pair, count)
            for pair, count in self.merged_steps
            if 0.0 <= pair.support[1] < np.inf and pair.infinite_p_ends[1] == 0.0
        )
        others = tuple(step for step in self.merged_steps if step not in bounded)
        return (
            BoundedApart(Composition(bounded), Composition(others)) if bounded and others else None
        )

    @cached_property
    def _rare_losses(self) -> RareLosses | None:
        return RareLosses.of(self.merged_steps)

    @cached_property
    def chernoff_upper(self) -> ChernoffUpper:
        return ChernoffUpper.of(self.merged_steps)

    @cached_property
    def _chernoff_lower(self) -> ChernoffLower:
        return ChernoffLower.of(self.merged_steps)

    @cached_property
    def _largest_loss_lower(self) -> LargestLossLower:
        return LargestLossLower.of(self.merged_steps)

    def _largest_loss_upper(self, epsilon: float) -> float:
        """An upper bound on log delta: no finite loss exceeds the largest one."""
        if not np.isfinite(self.largest_loss):
            return 0.0
        share = float(log1mexp(epsilon - self.largest_loss))
        return min(0.0, float(np.logaddexp(share, safe_log(self.infinite_p_ends[1]))) + EDGE)

    @cached_property
    def log_total_variation_upper(self) -> float:
        """log of the sum of all total variations, not below that of the composition."""
        origin = None if self._origin is None else self._origin()
        for other in (origin, self.__dict__.get("_reversed")):
            if other is not None and "log_total_variation_upper" in other.__dict__:
                return other.log_total_variation_upper  # both directions have the same
        total = 0.0
        for pair, count in self.merged_steps:
            total += count * float(np.exp(log_delta_of(pair, 0.0)[1]))
        return safe_log(total) + EDGE

    @property
    def least_sum_of_variations(self) -> float:
        """A quick lower bound on the sum of which `log_total_variation_upper` is the logarithm."""
        return sum(count * pair.hints.least_total_variation for pair, count in self.merged_steps)

    def log_missed_upper(self, alpha: float) -> float:
        """Not below the log of the smallest false-negative rate at false-positive rate alpha > 0."""
        return self._chernoff_lower.log_missed(alpha)

    def pure_epsilon(self, relative_width: float) -> Interval:
        """Certified (lower, upper) for epsilon at delta = 0: the largest loss, infinite or not.

        From below it is the sum of losses that are reached with positive probability; where a pair
        does not say how far its losses go, epsilon at a delta next to zero stands in for that.
        """
        if self.infinite_p_ends[0] > 0.0 or any(
            pair.hints.unbounded[1] for pair, _ in self.merged_steps
        ):
            return inf, inf
        high = self.highest_loss
        low = down(
            sum((c * Fraction(_reached(pair)) for pair, c in self.merged_steps), Fraction(0))
        )
        if np.isinf(high):
            low = max(low, self.epsilon(-690.0, relative_width)[0])
        return _in_order("epsilon", low, high)

    def log_delta(self, epsilon: float, tolerance: float) -> Interval:
        """Certified (lower, upper) for log delta at epsilon; aims at upper - lower <= tolerance."""
        with extremes_allowed():
            if self.single_pair is not None:
                return log_delta_of(self.single_pair, epsilon)
            if epsilon >= self.largest_loss or self._constant_loss is not None:
                return self._log_delta_without_spread(epsilon)
            kept = self.kept.near(epsilon, tolerance)
            if kept is not None:
                return kept[1]
            question, coarse = DeltaQuestion(epsilon, tolerance), max(tolerance, COARSE_DELTA)
            # far out delta may be below all doubles, which takes no engine
            if is_near(self, epsilon):
                for work in self.enclosing(Thresholds.at(epsilon), coarse, asked_first=True):
                    low, high = question.bracket(work)
                    if high - low <= tolerance:
                        return _in_order("log delta", low, high)
            low = max(
                self._chernoff_lower.log_delta(epsilon), self._largest_loss_lower.log_delta(epsilon)
            )
            high = self._largest_loss_upper(epsilon)
            if low >= -tolerance:
                return low, high
            if self._rare_losses is not None:
                low, high = _intersection((low, high), self._rare_losses.log_delta(epsilon))
                if high - low <= tolerance:
                    return _in_order("log delta", low, high)
            high = min(high, self.chernoff_upper.log_delta(epsilon)[0])
            if high < SMALLEST_LOG_DELTA:
                return _in_order("log delta", low, high)
            for work in self.works_near(epsilon, coarse):
                low, high = self._refined(question, work, low, high)
                if high - low <= tolerance:
                    break
            if high - low > tolerance:
                # all results together reveal no less than each one alone
                low = max(low, *(log_delta_of(pair, epsilon)[0] for pair, _ in self.merged_steps))
                if self._dominating is not None:
                    high = min(high, self._dominating.log_delta(epsilon, tolerance)[1])
            if high - low > tolerance and self._bounded_apart is not None:
                apart = self._bounded_apart.log_delta(epsilon, tolerance, (low, high))
                low, high = _intersection((low, high), apart)
            return _in_order("log delta", low, high)

    def epsilon(
        self, log_delta: float, relative_width: float, delta: float | None = None
    ) -> Interval:
        """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

        `delta`, if given, is the value itself, of which log_delta is the rounded logarithm.
        """
        with extremes_allowed():
            if self.single_pair is not None:
                low, high = epsilon_of(self.single_pair, log_delta, delta)
                return min(low, self.highest_loss), min(high, self.highest_loss)
            below, above = beside_mass(self.infinite_p_ends, log_delta, delta)
            if below:
                return inf, inf
            if log_delta <= safe_log(self.infinite_p_ends[1]) + EDGE:
                # next to the mass nothing is left to plan with
                low = self._largest_loss_lower.epsilon(log_delta + EDGE)
                return low, self.largest_loss if above else inf
            if self._delta_at_zero_is_below(log_delta):
                return 0.0, 0.0
            if self._constant_loss is not None:
                return _epsilon_without_spread(self._constant_loss, self.infinite_p_ends, log_delta)
            question = EpsilonQuestion(log_delta, relative_width)
            made = self.kept.made_for(log_delta)
            value = Thresholds.of(log_delta)
            for work in [made] if made else self.enclosing(value, relative_width, asked_first=True):
                low, high = self._refined(question, work, 0.0, inf)
                if high - low <= relative_width * high < inf:
                    return _in_order("epsilon", low, high)
            low, high = self._largest_loss_lower.epsilon(log_delta), self.largest_loss
            if self._rare_losses is not None:
                low, high = _intersection((low, high), self._rare_losses.epsilon(log_delta))
            if np.isfinite(high) and high - low <= relative_width * high:
                return low, high
            for work in self.enclosing(value, relative_width, asked_first=False):
                low, high = self._refined(question, work, low, high)
                if high - low <= relative_width * high < inf:
                    break
            if not high - low <= relative_width * high < inf:
                low = max(
                    low, *(epsilon_of(pair, log_delta, delta)[0] for pair, _ in self.merged_steps)
                )
                high = min(high, self.chernoff_upper.epsilon(log_delta))
                if self._dominating is not None:
                    high = min(high, self._dominating.epsilon(log_delta, relative_width, delta)[1])
            if not high - low <= relative_width * high < inf and self._bounded_apart is not None:
                apart = self._bounded_apart.epsilon(log_delta, relative_width, low)
                low, high = _intersection((low, high), apart)
            return _in_order("epsilon", low, high)

    def log_deltas(self, epsilons: Array, tolerance: float) -> tuple[Array, Array]:
        """`log_delta` at many epsilons in one pass: all lower and all upper ends."""
        with extremes_allowed():
            if self.single_pair is not None:
                return log_deltas_of(self.single_pair, epsilons)
            return log_deltas(self, epsilons, tolerance)

    def epsilons(
        self, log_deltas: Array, relative_width: float, deltas: Array
    ) -> tuple[Array, Array]:
        """`epsilon` at many deltas in one pass: all lower and all upper ends."""
        with extremes_allowed():
            if (pair := self._pair_for(log_deltas=log_deltas)) is not None:
                low, high = epsilons_of(pair, log_deltas, deltas, relative_width)
                if pair is not self.single_pair:
                    return low, high
                return np.minimum(low, self.highest_loss), np.minimum(high, self.highest_loss)
            return epsilons(self, log_deltas, deltas, relative_width)

    def _pair_for(
        self, *, log_deltas: Array | None = None, epsilons: Array | None = None
    ) -> Pair | None:
        """The single pair, or what is quicker to ask at few values, for answers about these alone."""
        pair = self.single_pair
        asked = [values for values in (log_deltas, epsilons) if values is not None]
        if pair is None or asked[0].size > FEW:
            return pair
        return for_few_thresholds(
            pair,
            0.0 if log_deltas is None else float(np.min(log_deltas)),
            inf if epsilons is None else float(np.max(epsilons)),
        )

    def final_log_deltas(self, epsilons: Array, tolerance: float) -> tuple[Array, Array]:
        """`log_deltas` as answers by themselves: no line is drawn through two of them."""
        pair = self._pair_for(epsilons=epsilons)
        if pair is None or pair is self.single_pair:
            return self.log_deltas(epsilons, tolerance)
        with extremes_allowed():
            return log_deltas_of(pair, epsilons)

    def shows(self, epsilons: Array, log_deltas: Array) -> NDArray[np.bool_]:
        """Where a quick bound shows that delta(epsilon) is at most the given one, in this direction.

        First Chernoff's bound, from moments at a few tilts, then for a few questions the sizes of a
        contour's terms; False says nothing.
        """
        shown = np.zeros(epsilons.size, dtype=bool)
        for epsilon, log_delta in self.kept.shown:
            shown |= (epsilons >= epsilon) & (log_deltas >= log_delta)
        if shown.all():
            return shown
        pair = self._pair_for(log_deltas=log_deltas, epsilons=epsilons)
        if pair is not None:
            with extremes_allowed():
                return shown | (log_deltas_of(pair, epsilons)[1] <= log_deltas)
        least, most = deviations(log_deltas.max()), deviations(log_deltas.min())
        with extremes_allowed(), suppress(Declined):
            (bounds,) = MomentBounds.of([self.merged_steps], least, most)
            shown |= bounds.epsilons(log_deltas) <= epsilons
            left = np.flatnonzero(~shown)
            for index in left if left.size <= 4 else ():
                tilt = np.array([bounds.best_tilt(float(epsilons[index]))])
                bound = log_delta_bounds([self.merged_steps], tilt, epsilons[index : index + 1])
                shown[index] = bound[0] <= log_deltas[index]
        return shown

    def forget(self) -> None:
        """Drop the work that is kept for later questions, in both directions."""
        for direction in (self, self.__dict__.get("_reversed")):
            if direction is not None:
                direction.kept.clear()

    def false_negative_rates(self, fprs: Array, relative_width: float) -> tuple[Array, Array]:
        """The smallest false-negative rates at false-positive rates: all lower and all upper ends."""
        with extremes_allowed():
            return false_negative_rates(self, fprs, relative_width)

    def true_positive_rates(self, fprs: Array, relative_width: float) -> tuple[Array, Array]:
        """The largest true-positive rates at false-positive rates: all lower and all upper ends."""
        with extremes_allowed():
            return true_positive_rates(self, fprs, relative_width)

    def renyi(self, order: float, relative_width: float) -> Interval:
        """The Renyi divergence of an order > 1.

        >>> low, high = Composition(((GaussianPair(1.0), 2),)).renyi(
        ...     3.0, 1e-6
        ... )  # order mu^2 / 2 each
        >>> bool(low <= 3.0 <= high < 3.0 + 1e-9)
        True
        """
        return divergence(self, order, relative_width)

    def renyi_divergences(self, orders: Array, relative_width: float) -> tuple[Array, Array]:
        """`renyi` at many orders in one pass: all lower and all upper ends."""
        return divergences(self, orders, relative_width)

    def mu(self, smallest_fpr: float, relative_width: float) -> Interval:
        """The mu of Gaussian noise that is no more private where both error rates are this large.

        >>> low, high = Composition(((GaussianPair(0.5), 4),)).mu(1e-6, 1e-3)
        >>> round(low, 6), round(high, 6)
        (1.0, 1.0)
        """
        with extremes_allowed():
            return mu_between(self, smallest_fpr, relative_width)

    def _refined(
        self, question: DeltaQuestion | EpsilonQuestion, work: Engine, low: float, high: float
    ) -> Interval:
        """The answer between low and high by engines, refined until it is as narrow as asked.

        A refinement that left nine tenths of the width is not repeated.
        """
        before = inf
        for _ in range(6):
            low, high = _intersection((low, high), question.bracket(work))
            stuck = np.isfinite(before) and high - low > 0.9 * before
            before = high - low
            if stuck or work.exhausted or before <= question.width(high) < inf:
                break
            epsilon, log_delta, slope = question.aim(work, high)
            shrink = question.width(high, 0.8) / before if np.isfinite(high) else 0.1
            tolerance = work.tolerance * min(0.5, max(shrink, 0.01))
            if np.isfinite(high):
                # a bracket may be wide only because its ends were far from where the work was made for
                enough = question.width(high, 0.1) * slope
                tolerance = max(tolerance, min(enough, 0.5 * work.tolerance))
            finer = Thresholds.at(epsilon, log_delta=log_delta, slope=work.slope(epsilon))
            try:
                work = self.kept.add(type(work).enclose(self.merged_steps, finer, tolerance))
            except Declined:
                break
        return low, high

    def _delta_at_zero_is_below(self, log_delta: float) -> bool:
        """Whether delta(0) is at most this, by the sum of total variations or by a contour.

        The sum is at most a few nats more than a delta(0) for which a contour is worth its work.
        """
        # all results together reveal no less than each one alone
        least = max(pair.hints.least_total_variation for pair, _ in self.merged_steps)
        if safe_log(least) > log_delta + EDGE:
            return False
        total = self.log_total_variation_upper
        if total <= log_delta:
            return True
        if total > log_delta + 7.0 or self._constant_loss is not None:
            return False
        for work in self.enclosing(Thresholds.at(0.0), COARSE_DELTA):
            return work.log_delta(0.0, Side.UPPER) <= log_delta
        return False

    def _log_delta_without_spread(self, epsilon: float) -> Interval:
        """log delta where the finite loss is below epsilon, or is always the same."""
        only = -inf if self._constant_loss is None else self._constant_loss
        excess = max(-np.expm1(epsilon - only), 0.0) if only > epsilon else 0.0
        slack = EDGE * (1.0 + abs(only)) / max(excess, EDGE) if excess > 0.0 else EDGE
        low, high = (safe_log(mass + (1.0 - mass) * excess) for mass in self.infinite_p_ends)
        return low - slack, min(high + slack, 0.0)


_ROUGH = 0.3
"""How well log delta is known, in nats, where it is asked whether more work is worth its time."""


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

    def log_delta(self, epsilon: float, tolerance: float, known: Interval) -> Interval:
        """Certified (lower, upper) for log delta at epsilon; only what may improve on what is known."""
        low, high = known
        rough = max(tolerance, _ROUGH)
        if max(self._log_sums(epsilon, rough, Side.LOWER)) > low:
            low = self._log_sum(epsilon, tolerance, Side.LOWER)
        if min(self._log_sums(epsilon, rough, Side.UPPER)) < high:
            high = self._log_sum(epsilon, tolerance, Side.UPPER)
        return low, high

    def epsilon(self, log_delta: float, relative_width: float, lower: float) -> Interval:
        """Certified (lower, upper) for epsilon; `lower` is a bound that the width may be relative to."""
        low, high = self.others.epsilon(log_delta, relative_width)
        if not np.isfinite(high):
            return 0.0, inf
        start = high + self.bounded.largest_loss
        # how slowly log delta falls at least, and how finely it is asked for at most
        slope = max(estimate(self.others, high)[1], 1e-7)
        tolerance = max(0.1 * relative_width * max(low, lower) * slope, 1e-9)
        rounding = 4.0 * UNIT_ROUNDOFF * abs(log_delta)

        def crossing(side: Side, sign: float) -> float:
            return certified_crossing(
                lambda epsilon: (
                    self._log_sum(epsilon, tolerance, side) - log_delta + sign * rounding
                ),
                start,
                slope,
                sign,
                0.1 * relative_width,
            )

        return crossing(Side.LOWER, -1.0), crossing(Side.UPPER, 1.0)

    def _log_sum(self, epsilon: float, tolerance: float, side: Side) -> float:
        """log of the lower or upper sum over results; delta' is at most one, and left out below zero."""
        return self._log_sums(epsilon, tolerance, side)[0]

    def _log_sums(self, epsilon: float, tolerance: float, side: Side) -> tuple[float, float]:
        """`_log_sum`, and what it would be with the other ends of delta': more work leads no further."""
        total = np.full(2, -np.inf)
        for loss, log_p in self._results[side]:
            rest = epsilon - loss
            slack = 2.0 * UNIT_ROUNDOFF * (abs(epsilon) + abs(loss))
            rest = rest + slack if side is Side.LOWER else rest - slack
            if rest >= 0.0:
                low, high = self.others.log_delta(rest, tolerance)
                ends = (low, high) if side is Side.LOWER else (high, low)
                total = np.logaddexp(total, log_p + np.array(ends))
            elif side is Side.UPPER:
                total = np.logaddexp(total, log_p)
        outwards = 16.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(total), np.abs(total), 0.0))
        here, other = total.tolist()
        if side is Side.LOWER:
            return here - float(outwards[0]), other + float(outwards[1])
        return min(here + float(outwards[0]), 0.0), other - float(outwards[1])

    @cached_property
    def _results(self) -> dict[Side, list[tuple[float, float]]]:
        """Losses with the logarithms of their probabilities, safe on each side."""
        pair = self.bounded.single_pair
        if not isinstance(pair, AtomicPair) or len(pair.losses) > 4:
            events = self.bounded._largest_loss_lower
            top = (float(events.losses[0]), float(events.log_masses[0]))
            return {Side.LOWER: [top], Side.UPPER: [(self.bounded.largest_loss, 0.0)]}
        slack = 2.0 * pair.accuracy
        many = list(zip(pair.losses, pair.log_p, strict=True))
        return {
            Side.LOWER: [(loss - pair.loss_error, log_p - slack) for loss, log_p in many],
            Side.UPPER: [(loss + pair.loss_error, log_p + slack) for loss, log_p in many],
        }


def _reached(pair: Pair) -> float:
    """A loss that is reached or passed with positive probability, not below 0."""
    if np.isinf(pair.support[1]):
        return 0.0
    losses, log_p = largest_losses(pair)
    # the masses of outcomes are what they are; other tails are accurate down to some depth only
    seen = log_p > (-np.inf if isinstance(pair, AtomicPair) else DEEPEST)
    return float(np.max(losses[seen], initial=0.0))


def _epsilon_without_spread(loss: float, infinite_p: Interval, log_delta: float) -> Interval:
    """epsilon at which mass + (1 - mass)(1 - e^{epsilon - loss})_+ = delta, mass given by its ends.

    That is loss + log((1 - delta) / (1 - mass)): neither difference is small unless it is exact.
    """
    shifted = loss + float(np.log(-np.expm1(log_delta)))
    low, high = (shifted - float(np.log1p(-mass)) for mass in infinite_p)
    slack = EDGE * (1.0 + abs(loss) + abs(shifted))
    return max(low - slack, 0.0), max(high + slack, 0.0)


def _intersection(first: Interval, second: Interval) -> Interval:
    return max(first[0], second[0]), min(first[1], second[1])


def _in_order(what: str, low: float, high: float) -> Interval:
    if low <= high:
        return low, high
    if low > high:
        raise Contradiction(
            f"the two sides of {what} crossed: lower {low!r}, upper {high!r}. This is a defect of "
            "sharpdp; please report the mechanism and the question."
        )
    raise NotCertified(
        f"doubles do not hold the two sides of {what}: lower {low!r}, upper {high!r}."
    )
