"""One epoch over shuffled batches that leaves out at least one random example, nearly exactly from above.

The theorem, for w = batch_size / dataset_size, T batches and rho = w T, is

    H_x(P||Q) <= E[((1 - rho)(1 - x) + w (W_1 + ... + W_T))_+],

with independent copies of a variable W that has the positive part of one difference of likelihood
ratios and the negative part of another (see `Step`). The proof is in docs/proofs/vacant-seat.md. For
one x the right side is a contour integral (`numerics.expected_positive_part`) after three changes that
only raise it: W is spread onto the ends of cells with its mean kept, values above a cap are cut and
what is cut off, T E(W - cap)_+, is added, and values below a floor are raised to it. Values at many x
are joined by chords.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from sharpdp.bounds.shuffled_batches.worst_batches import WorstBatches
from sharpdp.bracket import Side
from sharpdp.display.progress import progress
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair

if TYPE_CHECKING:
    from sharpdp.bounds.shuffled_batches.upper_adaptive_replace_one import WorstReplacement
    from sharpdp.bounds.shuffled_batches.upper_adaptive_zero_out import WorstPolicy

__all__ = ["LEAST_NOISE", "MOST_NOISE", "Half", "VacantEpoch", "pair_above", "spaced_half"]

LEAST_NOISE, MOST_NOISE = 0.3, 1000.0
"""With less noise ratios within a cell differ too much for the rule that integrates over it; with more,
they are too close to one for the lattices of the worst policy."""

# The worst policy is asked farther and farther out until it gains less than this in the logarithm, since
# single large values decide from there on, or the value is below e^this; farther in a run of few epochs,
# where single epochs decide.
_NO_GAIN, _LOG_SMALL, _LOG_SMALLER = 1.5e-2, -16.0, -20.0
# With little noise the backward profile decides no epsilon, and is followed for so many nats.
_BACKWARD_FALL, _LITTLE_NOISE = 5.0, 1.5
# From one ratio at which the policy is found to the next, the profile falls by so many nats at most.
_FALL, _REPLACED_FALL = 4.5, 0.25
# How starts may move from ratio to ratio, in multiples of the number of batches.
_SLOPES, _REPLACED_SLOPES = np.linspace(0.8, 1.5, 15), np.linspace(0.1, 1.3, 25)
# They are apart by this share of e^{2/s^2} - 1 at most.
_FAR_RATIO = 0.15
# What interpolation between two ratios may add to the variance, relative to it; and so many times as
# much with few batches, where each ratio takes longer.
_MORE_VARIANCE = {"forward": 3e-3, "backward": 8e-3}
_FEW_BATCHES, _MUCH_MORE = 150, 2.0
# How fast the share that chords may add grows with the fall of the profile, in nats.
_LESS_CARE = 0.3
# Values of the profile below e^this count as revealed.
_LOG_REST = -37.0


Half: TypeAlias = tuple[Array, Array]
"""Losses from zero on, and upper bounds on the log of one profile at them."""


Profile: TypeAlias = Callable[[Array, Array], Array]
"""From rising losses, and shares that may be added to values there, to bounds on the log of a profile."""


def spaced_half(
    values: Profile, estimates: Callable[[Array], Array], known: GaussianPair, tolerance: float
) -> Half:
    """Losses from zero on, spaced so that chords are close, and bounds on the log of a profile at them.

    Chords are a share of the profile above it that grows with the logarithm of the profile: tails need
    less care than the bulk. No tolerance below `_FINE` is of use: the theorem leaves more. A first look
    at places where estimates fall by some nats says how many thresholds are needed between them. The
    profile is also at most that of a known pair.
    """
    tolerance = max(tolerance, _FINE)
    end = known.mu * (_FARTHEST + 0.5 * known.mu)

    def below(logs: Array, losses: Array) -> Array:
        return np.minimum(logs, known.log_hockey_stick(losses) + PROFILE_ERROR)

    def bounded(losses: Array, fallen: Array) -> Array:
        allowed = tolerance * (1.0 + _LESS_CARE * fallen)
        return below(values(losses, allowed), losses)

    grid = np.append(0.0, np.geomspace(_NEAREST * end, end, _ESTIMATES))
    estimated = np.minimum.accumulate(below(estimates(grid), grid))
    levels = [float(estimated[0])]
    while levels[-1] > _LOG_REST:
        fallen = levels[0] - levels[-1]
        care = _FIRST_LOOK * math.sqrt(tolerance * (1.0 + _LESS_CARE * fallen))
        levels.append(levels[-1] - max(care, _LEAST_LOOK * (1.0 + 0.1 * fallen)))
    losses = np.unique(np.append(0.0, np.interp(-np.array(levels[1:]), -estimated, grid)))
    logs = np.minimum.accumulate(bounded(losses, estimated[0] - np.interp(losses, grid, estimated)))
    size = min(int(np.sum(logs > _LOG_REST)) + 1, losses.size)
    losses, logs = losses[:size], logs[:size]
    # slopes between the new ones show where still more are needed
    for spared in _SPARED if size > 1 else ():
        more = _between(losses, logs, tolerance, spared)
        if more.size:
            added = bounded(more, logs[0] - np.interp(more, losses, logs))
            losses, logs = np.append(losses, more), np.append(logs, added)
            order = np.argsort(losses, kind="stable")
            losses, logs = losses[order], np.minimum.accumulate(logs[order])
    return losses, logs


def _between(losses: Array, logs: Array, tolerance: float, spared: float) -> Array:
    """Losses between these at which chords are close, by the slopes between them."""
    apart = np.diff(losses)
    rate = np.maximum(-np.diff(logs) / apart, _SLOWEST)
    allowed = tolerance * (1.0 + _LESS_CARE * (logs[0] - 0.5 * (logs[1:] + logs[:-1])))
    wanted = apart / np.sqrt(8.0 * allowed / (rate * (rate + 1.0)))
    wanted *= min(1.0, _MOST_THRESHOLDS / float(np.sum(wanted)))
    pieces = np.maximum(np.ceil(wanted - spared), 1.0)
    return np.concatenate(
        [
            start + step * np.arange(1.0, number) / number
            for start, step, number in zip(losses, apart, pieces, strict=False)
        ]
    )


def pair_above(ahead: Half, behind: Half) -> AtomicPair:
    """The pair whose two profiles are the chords between these values, revealed beyond the last."""
    start = min(ahead[1][0], behind[1][0])
    halves, revealed = [], []
    for losses, logs in (ahead, behind):
        assert losses[0] == 0.0, "both profiles are needed where they meet"
        values = np.minimum(np.exp(np.minimum(logs, start)), 1.0)
        with np.errstate(divide="ignore"):
            log_more = np.log(values[:-1] - values[-1])
        halves.append(calls_above(losses[:-1], log_more, float(losses[-1])))
        revealed.append(float(values[-1]) * (1.0 + PROFILE_ERROR))
    infinite = (revealed[0], revealed[1])
    return pair_from_halves(halves[0], halves[1], side=Side.UPPER, infinite=infinite)


def _halved(losses: Array, values: Array) -> Half:
    """Twice as many losses, with the logs of the chords at the new ones, rounded up."""
    middle = 0.5 * (losses[:-1] + losses[1:])
    share = np.expm1(middle - losses[:-1]) / np.expm1(np.diff(losses))
    chords = (
        np.logaddexp(np.log1p(-share) + values[:-1], np.log(share) + values[1:]) + PROFILE_ERROR
    )
    order = np.argsort(np.append(losses, middle), kind="stable")
    return np.append(losses, middle)[order], np.append(values, chords)[order]


def _fallen(half: Half, loss: float, fall: float) -> float:
    """Where the profile is lower by some nats than at a loss, or too low to matter."""
    losses, values = half
    aim = max(float(np.interp(loss, losses, values)) - fall, _LOG_SMALLER)
    return max(float(np.interp(-aim, -values, losses)), loss)


@dataclass(frozen=True)
class Anchor:
    """A ratio e^loss at which the worst policy is found, for some counts; it serves up to the next."""

    loss: float
    following: float
    policies: Mapping[int, WorstPolicy | WorstReplacement]


@dataclass(frozen=True)
class VacantEpoch:
    """An epoch in which a given example is in each of `batches` full batches with probability `share`.

    It is in a smaller last batch with probability ``last * share``, and left out with probability
    ``absent``, which must not be zero.
    """

    noise: float
    batches: int
    share: float
    absent: float
    last: float = 0.0

    def dominating(
        self, tolerance: float, *, adaptive: bool, few_epochs: bool = True
    ) -> AtomicPair:
        """A pair whose profile exceeds the theorem's by about `tolerance` of itself in the bulk.

        If `adaptive` it is lowered to about what an adaptive adversary can do
        (`upper_adaptive_zero_out`), where that is less; not so far out unless it is for few epochs, and
        with more care for a tolerance below `_USUAL`.
        """
        least = _LOG_SMALLER if few_epochs else _LOG_SMALL
        halves = [self._half(kind, tolerance) for kind in ("forward", "backward")]
        if adaptive:
            halves = [
                self._lowered(kind, half, least=least, is_careful=tolerance < _USUAL)
                for kind, half in zip(("forward", "backward"), halves, strict=True)
            ]
        return pair_above(halves[0], halves[1])

    def dominating_replaced(
        self, tolerance: float, policy_tolerance: float = math.inf
    ) -> AtomicPair:
        """The same for replace-one, whose two directions are alike."""
        half = self._half("replaced", tolerance)
        if policy_tolerance < math.inf:
            half = self._lowered("replaced", half, policy_tolerance)
        return pair_above(half, half)

    def _half(self, kind: str, tolerance: float) -> Half:
        """Losses from zero on, and upper bounds on the log of one profile at them, by the theorem."""
        known = GaussianPair((2.0 if kind == "replaced" else 1.0) / self.noise)

        def values(losses: Array, allowed: Array) -> Array:
            return self.log_values(losses, kind, allowed)

        def estimates(losses: Array) -> Array:
            return self._worst(losses, kind, self.batches).log_estimates() + math.log(self.share)

        return spaced_half(values, estimates, known, tolerance)

    def _lowered(
        self,
        kind: str,
        half: Half,
        no_gain: float = _NO_GAIN,
        least: float = _LOG_SMALL,
        *,
        is_careful: bool = False,
    ) -> Half:
        """The same values, or those of the worst policy as far as they are lower by more than `no_gain`.

        The recursion is done at few ratios x. Between two of them the value at (x, s) is at most the mean
        of those at their ends, at starting sums that move with the ratio, since it is convex in both.
        """
        losses, values = half
        if (
            kind != "replaced"
        ):  # values take little time, and chords are shorter than those of the half
            losses, values = _halved(losses, values)
            half = losses, values
        lower = values.copy()
        if kind == "backward" and self.noise <= _LITTLE_NOISE:
            least = max(least, values[0] - _BACKWARD_FALL)
        size = max(int(np.sum(values > least)), 2)
        place, gained = 0, True
        slope = int(np.argmin(np.abs(_SLOPES - 1.0)))

        def following(loss: float) -> float:
            """Where the next ratio is at most."""
            if kind != "replaced":
                return _fallen(half, loss, _FALL)
            fallen = values[0] - float(np.interp(loss, losses, values))
            return _fallen(half, loss, _REPLACED_FALL * math.sqrt(1.0 + _LESS_CARE * fallen))

        low = self._anchor(kind, 0.0, following(0.0), is_careful=is_careful)
        with progress("worst policy of all other examples", size) as task:
            while place < size and gained:
                last = following(low.following)
                high = self._anchor(kind, low.following, last, is_careful=is_careful)
                first, slopes = place, _REPLACED_SLOPES
                if kind != "replaced":  # values take time, and few of them are enough
                    slope = self._best_slope(low, high, slope)
                    slopes = _SLOPES[slope : slope + 1]
                while place < size and losses[place] <= high.loss:
                    found = self._between(low, high, float(losses[place]), slopes)
                    lower[place] = min(lower[place], float(np.min(found)))
                    place += 1
                    task.advance()
                gains = values[first:place] - lower[first:place]
                gained = bool(np.max(gains, initial=0.0) > no_gain) or place == first
                low = high
        return losses, np.minimum.accumulate(lower)

    def _best_slope(self, low: Anchor, high: Anchor, start: int) -> int:
        """The place of about the best slope between two anchors; any choice is safe.

        It is about the mean of B where sums decide. Values are convex in the slope, so that the search
        goes downhill from the place that was best between the last two.
        """
        middle, known = 0.5 * (low.loss + high.loss), dict[int, float]()

        def value(place: int) -> float:
            if place not in known:
                found = self._between(low, high, middle, _SLOPES[place : place + 1])
                known[place] = float(found[0])
            return known[place]

        best = start if value(start) < math.inf else min(range(_SLOPES.size), key=value)
        while True:
            near = range(max(best - 1, 0), min(best + 2, _SLOPES.size))
            following = min(near, key=value)
            if value(following) == value(best):
                return best
            best = following

    def _anchor(self, kind: str, loss: float, last: float, *, is_careful: bool = False) -> Anchor:
        """The recursion at a ratio, and the next ratio at which it is done.

        Means of values at both are those of a variance that is hardly larger.
        """
        if kind == "replaced":
            return self._replaced_anchor(loss, max(last, loss))
        from sharpdp.bounds.shuffled_batches.upper_adaptive_zero_out import (
            WorstPolicy,  # for scipy.fft
        )

        policy = WorstPolicy(self.noise, loss, kind, self.batches, 0.0)
        more = _MORE_VARIANCE[kind] * (_MUCH_MORE if self.batches <= _FEW_BATCHES else 1.0)
        apart = 2.0 * math.sqrt(more) * policy.deviation / policy.slope_deviation
        # beyond x = e^{2/s^2} others like the record would often be better
        apart = min(apart, _FAR_RATIO * math.expm1(2.0 / self.noise**2))
        following = loss + math.log1p(apart * math.exp(-loss))
        following = max(min(following, last), loss)
        drift = self._drift(loss, following)
        policies = {
            n: WorstPolicy(self.noise, loss, kind, n, drift, is_careful=is_careful)
            for n in self._counts
        }
        return Anchor(loss, following, policies)

    def _replaced_anchor(self, loss: float, following: float) -> Anchor:
        """The same for replace-one, where the next ratio is given."""
        from sharpdp.bounds.shuffled_batches.upper_adaptive_replace_one import (
            WorstReplacement,  # for scipy
        )

        drift = self._drift(loss, following)
        worst = {n: WorstReplacement(self.noise, loss, n, drift) for n in self._counts}
        return Anchor(loss, following, worst)

    @property
    def _counts(self) -> tuple[int, ...]:
        """The numbers of full batches that an epoch may have."""
        return (self.batches, self.batches + 1) if self.last > 0.0 else (self.batches,)

    def _drift(self, loss: float, following: float) -> float:
        """How far below zero sums start at most, for ratios up to the following one."""
        return self._shift(following) + self.batches * (math.exp(following) - math.exp(loss))

    def _between(self, low: Anchor, high: Anchor, loss: float, slopes: Array) -> Array:
        """Upper bounds on log H_x between two anchors, one for each slope.

        From ratio to ratio starting sums move by so many times the number of batches.
        """
        weight = 0.0
        if high.loss > low.loss:
            weight = math.expm1(loss - low.loss) / math.expm1(high.loss - low.loss)

        def value(count: int) -> Array:
            logs = []
            for anchor, share in ((low, 1.0 - weight), (high, weight)):
                if share > 0.0:
                    moved = math.exp(anchor.loss) * -math.expm1(loss - anchor.loss) * count
                    starts = slopes * moved - self._shift(loss)
                    # raised by what rounding may have taken from it
                    size = count * math.exp(high.loss) + np.abs(starts)
                    starts = starts + 32.0 * UNIT_ROUNDOFF * size
                    logs.append(math.log(share) + anchor.policies[count].log_values(starts))
            return np.asarray(np.logaddexp.reduce(logs)) + math.log(self.share) + PROFILE_ERROR

        return self._mixed(value)

    def log_value(self, loss: float, kind: str, tolerance: float) -> float:
        """An upper bound on log H_x at x = e^loss, by the theorem."""
        return float(self.log_values(np.array([loss]), kind, np.array([tolerance]))[0])

    def log_values(self, losses: Array, kind: str, tolerances: Array) -> Array:
        """Upper bounds on log H_x at many x = e^loss, by the theorem."""
        least = np.full(losses.size, _LOG_REST - math.log(self.share))

        def value(count: int) -> Array:
            found = self._worst(losses, kind, count).log_values(0.3 * tolerances, least)
            return found + math.log(self.share) + PROFILE_ERROR

        return self._mixed(value)

    def _worst(self, losses: Array, kind: str, count: int) -> WorstBatches:
        shifts = np.array([self._shift(loss) for loss in losses.tolist()])
        return WorstBatches(self.noise, kind, losses, np.full(losses.size, float(count)), shifts)

    def log_worst_value(self, loss: float, kind: str) -> float:
        """An upper bound on log H_x at x = e^loss, by the worst policy of all other examples."""
        anchor = self._anchor(kind, loss, loss)
        return float(self._between(anchor, anchor, loss, np.ones(1))[0])

    def log_worst_replacement(self, loss: float) -> float:
        """An upper bound on log H_x at x = e^loss for replace-one, by the worst policy of all vectors."""
        return self.log_worst_value(loss, "replaced")

    def _mixed(self, value: Callable[[int], Array]) -> Array:
        """A smaller last batch counts as a full one with probability `last`, else as none."""
        without = value(self.batches)
        if self.last == 0.0:
            return without
        with_last = math.log(self.last) + value(self.batches + 1)
        return np.asarray(np.logaddexp(with_last, math.log1p(-self.last) + without) + PROFILE_ERROR)

    def _shift(self, loss: float) -> float:
        """What the event of being left out adds, (x - 1) absent / share, rounded down."""
        return self.absent * math.expm1(loss) / self.share * (1.0 - PROFILE_ERROR)


_USUAL, _FINE = 1e-3, 1e-4
_MOST_THRESHOLDS, _SLOWEST, _SPARED = 400.0, 1e-3, (0.4, 0.6)
"""About so many thresholds at most; the least rate at which the profile is taken to fall when others are
chosen; and the part of a threshold between two that is spared, at first and in the end."""

_FARTHEST, _NEAREST, _ESTIMATES = 8.7, 1e-5, 24
"""The last threshold in deviations of the noise alone, whose profile is below e^-37 there; the first one
of the estimates, as a share of it; and how many of them there are."""

_FIRST_LOOK, _LEAST_LOOK = 5.5, 0.8
"""By how many times the root of the tolerance estimates fall between thresholds that are looked at first,
and by how many nats at least; that grows with the fall."""
