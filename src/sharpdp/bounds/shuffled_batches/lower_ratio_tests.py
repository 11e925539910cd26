"""One epoch over batches in a random order, from below: a record that moves its batch against all others.

Every other record contributes -1, the one in question +1, and what replaces it 0 if it is a null record
or -1 if it is another record. Its batch is shifted by 2, by 1 or not at all against the batches without
it, and nobody knows which batch that is:

    P = share / T sum_t N(2 e_t, s^2 I) + (1 - share) N(0, s^2 I),   Q the same with m e_t, m = 1 or 0,

T whole batches, of which the record is in one with probability `share`. Two families of events are used:

- E_C, some batch is above C:  P[E_C] = 1 - Phi(C/s - 2/s) Phi(C/s)^{T-1};
- the likelihood ratio test at x = e^k: sum_t g(z_t) above a threshold, with z = w/s from N(0, 1) and
  g(z) = e^{2z/s - 2/s^2} - x e^{m z/s - m^2/(2 s^2)}; batches beyond a cut c decide at once, the others
  are seen through cells, and a little noise is added to their sum. All that is post-processing.

Source: chua2024 Section 4 for the pair and E_C.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sharpdp.numerics.special import Array, cell_masses, log_ndtr, ndtr, ndtri
from sharpdp.numerics.tolerances import FORMULA_ERROR
from sharpdp.numerics.wrapped_sum import CircularSum
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_events import Attacks

FINE, COARSE = 0.005, 0.06
"""Steps of the log odds of E_C: where one epoch is all there is, and where many are composed."""

_CELLS = 400
"""Cells of one batch's value: what is lost by them is far less than what noise costs."""

_LEFTMOST = -8.5
_FARTHEST = 36.0
_BEYOND = 5.0
"""The cut: a batch there lifts the sum over the threshold from so many deviations below its mean."""

_FEW_JUMPS = 0.1
"""At the cut or before it, so many batches are expected beyond it."""

_DEVIATIONS = 10.0
"""Half the window of the core's sum, in its deviations."""

_NOISE = 0.01
"""Noise that is added to the sum, in its deviations: it lowers delta by about 1e-3 of itself."""

_ROUNDS, _CLOSE = 25, 1e-4
_MASS_ERROR = 1e-13
"""Relative error of the probability of a cell: a difference of two normal tails 1/50 apart or more."""

_FAR_TEST = 30.0
"""If the threshold is so many deviations from the mean, only single batches can reach it."""


def _log_below(z: Array) -> Array:
    """log Phi(z), with relative accuracy where it is close to zero too."""
    return np.where(z > 0.0, np.log1p(-ndtr(-np.maximum(z, 0.0))), log_ndtr(np.minimum(z, 0.0)))


@dataclass(frozen=True)
class ShuffledEpoch:
    """The pair above: noise s, T whole batches, the probability 1 - share to be in none, and m."""

    noise: float
    batches: int
    absent: float = 0.0
    other: float = 1.0

    @property
    def share(self) -> float:
        """The probability that the record is in a whole batch."""
        return 1.0 - self.absent

    def largest(self, cuts: Array) -> tuple[Array, Array, Array, Array]:
        """log P[E_C], log Q[E_C] and the same of the complements, at cuts C/s."""
        others = (self.batches - 1) * _log_below(cuts)
        log_none = [
            _log_below(cuts - shift / self.noise) + others for shift in (2.0, self.other, 0.0)
        ]
        with np.errstate(divide="ignore"):
            log_some = [np.log(-np.expm1(np.minimum(one, -_TINY))) for one in log_none]
            absent = np.log(self.absent)
        present = np.log1p(-self.absent)
        some = [np.logaddexp(present + one, absent + log_some[2]) for one in log_some[:2]]
        none = [np.logaddexp(present + one, absent + log_none[2]) for one in log_none[:2]]
        return some[0], some[1], none[0], none[1]

    def maximum_attacks(self, cuts: Array) -> Attacks:
        """The events E_C at cuts C/s, and their complements."""
        p, q, miss_p, miss_q = (np.exp(one) for one in self.largest(cuts))
        down, up = 1.0 - FORMULA_ERROR, 1.0 + FORMULA_ERROR
        return Attacks(q * up, p * down, miss_q * down, miss_p * up)


_TINY = 1e-300


@dataclass(frozen=True)
class RatioTest:
    """The statistic of one likelihood ratio test, and its law."""

    order: ShuffledEpoch
    loss: float
    cells: int = _CELLS
    noise: float = _NOISE
    farthest: float = _FAR_TEST

    def score(self, z: Array) -> Array:
        """g(z), in units of e^loss where that is above one, so that it does not overflow."""
        s, k, m = self.order.noise, self.loss, self.order.other
        unit = max(k, 0.0)
        return np.asarray(
            np.exp(2.0 * z / s - 2.0 / s**2 - unit)
            - np.exp(k - unit + m * z / s - 0.5 * (m / s) ** 2)
        )

    @property
    def threshold(self) -> float:
        """The threshold of the sum of the scores; a record that may be nowhere moves it."""
        unit, rest = max(self.loss, 0.0), self.order.absent
        gap = np.expm1(self.loss) * np.exp(-unit)
        return float(self.order.batches * rest / self.order.share * gap)

    @cached_property
    def cut(self) -> float:
        """The place beyond which one batch decides; found by iteration, and any place would do."""
        count = self.order.batches
        z = np.linspace(_LEFTMOST, _FARTHEST, 4 * _CELLS)
        weight, score = np.exp(-0.5 * z * z), self.score(z)
        weight = weight / np.sum(weight)
        least = -float(ndtri(_FEW_JUMPS / count))
        cut = least
        for _ in range(_ROUNDS):
            core = np.where(z < cut, weight, 0.0)
            with np.errstate(
                over="ignore", invalid="ignore"
            ):  # then the cut is as far as it can be
                mean = float(core @ score)
                deviation = np.sqrt(max(float(core @ score**2) - mean**2, 0.0))
                aim = self.threshold - count * mean + _BEYOND * np.sqrt(count) * deviation
            beyond = np.flatnonzero((score > aim) & (z > 0.0))
            new = max(float(z[beyond[0]]) if beyond.size else _FARTHEST, least)
            if abs(new - cut) < _CLOSE:
                cut = new
                break
            cut = 0.5 * (cut + new)
        return min(cut, _FARTHEST)

    @cached_property
    def core(self) -> tuple[Array, Array, float]:
        """Scores of the cells below the cut, with their mean removed; the edges; the mean."""
        inner = np.linspace(_LEFTMOST, self.cut, self.cells)
        edges = np.concatenate([[-np.inf], inner])
        middle = np.concatenate([[_LEFTMOST], 0.5 * (inner[1:] + inner[:-1])])
        score = self.score(middle)
        masses = cell_masses(edges, 0.0)
        mean = float(masses @ score / np.sum(masses))
        return score - mean, edges, mean

    def attacks(self, offsets: Array) -> Attacks | None:
        """The tests with these thresholds, as events and as complements of events."""
        values, edges, mean = self.core
        count, masses = self.order.batches, cell_masses(edges, 0.0)
        with np.errstate(over="ignore"):  # then there is no test
            deviation = float(np.sqrt(count * (masses @ values**2)))
        center = self.threshold - count * mean
        reach = max(abs(center), float(np.max(np.abs(values))))
        if not 0.0 < deviation < np.inf or reach > self.farthest * deviation:
            return None
        low = min(-_DEVIATIONS * deviation, center - deviation)
        top = max(_DEVIATIONS * deviation, center + deviation) + float(np.max(values))
        law = CircularSum(
            values,
            masses,
            float(_log_below(np.array([self.cut]))[0]),
            _MASS_ERROR,
            count - 1,
            self.noise * deviation,
            top - low,
        )
        thresholds = np.append(center + offsets * deviation, low)
        return self._events(law, thresholds, edges, top)

    def _events(self, law: CircularSum, thresholds: Array, edges: Array, top: float) -> Attacks:
        """Probabilities under P and Q, moved to the safe side by their errors."""
        share, absent, s = self.order.share, self.order.absent, self.order.noise
        log_some = self.order.largest(np.array([self.cut]))
        record, null_record = (
            law.arcs(cell_masses(edges, shift / s), thresholds, top)
            for shift in (2.0, self.order.other)
        )
        nowhere = (np.zeros(thresholds.size), 0.0)
        if absent > 0.0:
            nowhere = law.arcs(cell_masses(edges, 0.0), thresholds, top)
        p, q = (share * one[0] + absent * nowhere[0] for one in (record, null_record))
        p_slack, q_slack = (one[1] + nowhere[1] for one in (record, null_record))
        jump_p, jump_q = float(np.exp(log_some[0][0])), float(np.exp(log_some[1][0]))
        down, up = 1.0 - FORMULA_ERROR, 1.0 + FORMULA_ERROR
        events = (
            (q[:-1] + jump_q + q_slack) * up,
            (p[:-1] + jump_p - p_slack) * down,
            (q[-1] - q[:-1] - 2.0 * q_slack) * down,
            (p[-1] - p[:-1] + 2.0 * p_slack) * up,
        )
        return Attacks(*(np.clip(one, 0.0, 1.0) for one in events))


def largest_batch(order: ShuffledEpoch, step: float = COARSE) -> AtomicPair:
    """A finite pair that the pair of this order dominates, from the sets E_C alone.

    Their odds grow by factors e^step, which costs about step^2 / 10 of delta.
    """
    return order.maximum_attacks(_cuts(order, step)).pair()


def likelihood_ratio_pair(order: ShuffledEpoch) -> AtomicPair:
    """A finite pair that the pair of this order dominates: the hull of all attacks that were tried."""
    every = order.maximum_attacks(_cuts(order, COARSE))
    for loss in _test_losses(order):
        tests = RatioTest(order, float(loss)).attacks(_OFFSETS)
        if tests is not None:
            every = every.joined(tests)
    return every.pair()


def _cuts(order: ShuffledEpoch, step: float) -> Array:
    """Cuts C/s at which the odds of E_C under Q grow by about equal factors."""
    dense = np.linspace(_LEFTMOST, _FARTHEST + 2.0 / order.noise, _DENSE)
    _, log_q, _, log_miss = order.largest(dense)
    odds = np.where(log_q > log_miss, -log_miss, log_q)
    kept = np.abs(odds) < _DEEPEST
    dense, odds = dense[kept], odds[kept]
    # one unit of `place` is one cut: even steps near the middle, and beyond it growing ones
    size = np.abs(odds)
    place = (
        np.sign(odds)
        / step
        * np.where(size < _NEAR, size, _NEAR * (1.0 + np.log(np.maximum(size, _NEAR) / _NEAR)))
    )
    wanted = np.arange(np.ceil(np.min(place)), np.max(place))
    return np.asarray(np.interp(wanted, place[::-1], dense[::-1]))


def _test_losses(order: ShuffledEpoch) -> Array:
    """Losses at which tests are made: by the spread of the loss, as far as delta is not negligible."""
    s = order.noise
    if 4.0 / s**2 > _LARGEST_EXPONENT:
        return np.zeros(0)
    m = order.other
    # e^a - 2 e^b + e^c as differences from one, which are all there is with much noise
    variance = np.expm1(4.0 / s**2) - 2.0 * np.expm1(2.0 * m / s**2) + np.expm1((m / s) ** 2)
    if not variance > 0.0:
        return np.zeros(0)
    spread = float(np.sqrt(variance / order.batches))
    distance = (2.0 - m) / s
    end = _REACH * distance + 0.5 * distance**2
    near = spread * _SPREADS
    more = max(np.log(end / near[-1]) / np.log(_GROWTH), 0.0)
    far = near[-1] * _GROWTH ** np.arange(1.0, more + 1.0)
    even = end * np.arange(1.0, _EVEN) / _EVEN if near[2] > end / _EVEN else np.zeros(0)
    losses = np.unique(np.concatenate([near, far, even]))
    losses = losses[losses <= end]
    return np.concatenate([-losses[(losses > 0.0) & (losses <= near[-1])][::-1], losses])


_DENSE, _DEEPEST, _NEAR = 20_000, 650.0, 28.0
"""Cuts: looked for on so many places, down to e^-650; log odds up to 28 count as near, and beyond them
steps grow in proportion."""

_LARGEST_EXPONENT = 300.0
_REACH = 6.5
"""The last loss of a test in standard deviations of Gaussian noise: its delta is below 1e-10."""

_SPREADS, _GROWTH, _EVEN = np.arange(0.0, 8.01, 0.5), 1.08, 32
"""Losses of tests: in steps of half a spread of the loss up to 8 of them, then by this factor; so many
even ones instead where the spread is large."""

_OFFSETS = np.linspace(-0.25, 0.25, 11)
"""Thresholds around each test, in deviations of its statistic."""
