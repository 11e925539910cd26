"""Where to ask a composition: looks that plan, and work that is made together before it is asked.

Nothing here is certified: what is made is evaluated afterwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from sharpdp.bracket import Side
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, safe_log
from sharpdp.pairs.pair import ReversedPair, SymmetricPair
from sharpdp.profile.engine import Declined, Engine, extremes_allowed
from sharpdp.profile.sampled_gaussian.evaluation import SampledGaussianEvaluation
from sharpdp.profile.sampled_gaussian.quick_bounds import MomentBounds, log_delta_bounds
from sharpdp.profile.sampled_gaussian.steps import kinds_of, typical_loss

if TYPE_CHECKING:
    from sharpdp.profile.composition import Composition

COARSE_DELTA = 0.02
"""Tolerance in log delta of a first, cheap answer from which the real one is planned."""

Interval = tuple[float, float]


def estimate(composition: Composition, epsilon: float) -> Interval:
    """log delta at epsilon and how fast it falls there; for planning, not certified.

    The mass at infinite loss is a part of delta, and does not fall.
    """
    rest = safe_log(composition.infinite_p_ends[1])
    if composition.single_pair is not None:
        threshold = np.array([float(epsilon)])
        finite = float(composition.single_pair.log_hockey_stick(threshold)[0])
        tail = float(composition.single_pair.log_tail_q(threshold)[0])
        value = float(np.logaddexp(finite, rest))
        return value, float(np.exp(min(tail + epsilon - value, 700.0)))
    value, slope = inf, 0.0
    for work in composition.works_near(epsilon, COARSE_DELTA):
        low, high = (work.log_delta(epsilon, side) for side in Side)
        if high < value:
            value, slope = high, work.slope(epsilon)
        if high - low <= work.largest_width(COARSE_DELTA):
            break
    if value == inf:
        value, slope = composition.chernoff_upper.log_delta(epsilon)
    return value, slope * -float(np.expm1(min(rest - value, 0.0)))


def is_near(composition: Composition, epsilon: float) -> bool:
    """Whether epsilon is no more than 30 typical losses of Poisson-sampled Gaussians, alone here."""
    try:
        return epsilon < 30.0 * typical_loss(kinds_of(composition.merged_steps))
    except Declined:
        return False


def is_quick(composition: Composition) -> bool:
    """Whether further thresholds cost next to nothing, so that answers may be sharper than asked."""
    if composition.single_pair is not None:
        pair = composition.single_pair
        return not isinstance(pair.base if isinstance(pair, ReversedPair) else pair, SymmetricPair)
    return is_near(composition, 0.0)


def prepare(composition: Composition, epsilons: Array) -> None:
    """Make work for thresholds of any sign, for both directions together where that is quick.

    It is kept, one contour for each direction; below zero thresholds are those of the reverse.
    """
    sides = (
        (composition, epsilons[epsilons >= 0.0]),
        (composition.reverse(), -epsilons[epsilons < 0.0]),
    )
    middles = [(side, float(np.sort(own)[own.size // 2])) for side, own in sides if own.size]
    if not middles or any(side.kept.works or not is_near(side, k) for side, k in middles):
        return
    with extremes_allowed(), suppress(Declined):
        works = SampledGaussianEvaluation.enclose_each(
            [side.merged_steps for side, _ in middles],
            thresholds=np.array([middle for _, middle in middles]),
        )
        for (side, _), work in zip(middles, works, strict=True):
            if not isinstance(work, Declined):
                side.kept.add(work)


def deviations(log_delta: float) -> float:
    """About how many standard deviations from the mean a tail has this probability, at least one."""
    return math.sqrt(max(-2.0 * log_delta, 1.0))


def reaches(questions: Sequence[tuple[Composition, float]]) -> list[float]:
    """For compositions and log rates thresholds beyond which P[L > k] is below the rate.

    From P[L > k + c] <= delta(k) / (1 - e^-c). For planning: rounding is not counted.
    """
    ahead = 2.0 ** np.arange(-9.0, 4.0, 2.0)
    rests = np.log(-np.expm1(-ahead))
    log_deltas = [log_rate + rests for _, log_rate in questions]
    runs = [run for run, _ in questions]
    with extremes_allowed():
        try:
            away = deviations(np.max(log_deltas)), deviations(np.min(log_deltas))
            bounds = MomentBounds.of([run.merged_steps for run in runs], *away)
            beyond = [one.epsilons(logs) for one, logs in zip(bounds, log_deltas, strict=True)]
        except Declined:
            beyond = [
                run.chernoff_upper.about(logs) for run, logs in zip(runs, log_deltas, strict=True)
            ]
    return [
        float(min((far + ahead).min(), run.largest_loss * (1.0 + 1e-9)))
        for run, far in zip(runs, beyond, strict=True)
    ]


def prepare_epsilons(compositions: Iterable[Composition], log_delta: float) -> None:
    """Work for the epsilon of each of many compositions at one delta, made together where that is quick.

    It is kept by the compositions, which then certify their answers as they always do. Where the other
    direction may be the worse one, work is made for it too.
    """
    served = []
    for composition in compositions:
        with suppress(Declined):
            mu = max(kind.mu for kind in kinds_of(composition.merged_steps))
            served.append((mu, composition))
    served.sort(key=lambda entry: entry[0])  # similar ones need tables of about the same size
    with extremes_allowed():
        for start in range(0, len(served), 32):
            _prepare([composition for _, composition in served[start : start + 32]], log_delta)


def _prepare(compositions: list[Composition], log_delta: float) -> None:
    prepared = _remember_together(compositions, log_delta)
    others = [composition.reverse() for composition, _ in prepared]
    if not others:
        return
    away = deviations(log_delta)
    steps = [other.merged_steps for other in others]
    # answers and logarithms are looked at from just below
    goal = log_delta - 16.0 * UNIT_ROUNDOFF * abs(log_delta)
    epsilons = np.array([(1.0 - 1e-6) * work.saddle.threshold for _, work in prepared])
    try:
        bounds = MomentBounds.of(steps, away, away)
        tilts = np.array([bound.best_tilt(k) for bound, k in zip(bounds, epsilons, strict=True)])
        shown = log_delta_bounds(steps, tilts, epsilons) <= goal
    except Declined:  # each is looked at when it is asked
        return
    for index, other in enumerate(others):
        if shown[index] or bounds[index].epsilons(np.array([goal]))[0] <= epsilons[index]:
            other.kept.shown.append((float(epsilons[index]), goal))
    _remember_together([other for other in others if not other.kept.shown], log_delta)


def _remember_together(
    compositions: list[Composition], log_delta: float
) -> list[tuple[Composition, Engine]]:
    """The compositions for which work was made, with it; where one declines the others go on."""
    if not compositions:
        return []
    steps = [composition.merged_steps for composition in compositions]
    try:
        works = SampledGaussianEvaluation.enclose_each(
            steps, log_deltas=np.full(len(steps), log_delta)
        )
    except Declined:
        half = len(compositions) // 2
        if not half:
            return []
        first = _remember_together(compositions[:half], log_delta)
        return first + _remember_together(compositions[half:], log_delta)
    return [
        (composition, composition.kept.add(work))
        for composition, work in zip(compositions, works, strict=True)
        if not isinstance(work, Declined)
    ]
