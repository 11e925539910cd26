"""One epoch over batches in a random order, from below: others that react to the results so far.

All others contribute alike: against the record (-1), but with it (+1) once the results so far look as if
the record had been there already, since then nothing is gained by contrast. As all
others are alike, it does not matter who sits where: relative to batches without the record, that of the
record is shifted by 2 or by 0, that of the null record by 1 or by -1.

The attacker sees every result through cells with whole numbers as scores, about (A - x B) / step with the
likelihood ratios A and B of the two shifts, and adds them up, cut off at both ends. Which sums make the
others change sides is found by dynamic programming; any choice is a valid attack. What the sums are worth
is exact for the chosen cells: with f the distribution of the sum without a record,

    f' = f * K,   g' = g * K + f * K_A,   g = E[A_1 + ... + A_t; sum],

K and K_A the distributions of one score without the record and with it, each taken for the side that the
others are on at that sum. P is g_T / T, and Q the same with B. The rounding of transforms is bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from sharpdp.bounds.shuffled_batches.lower_ratio_tests import ShuffledEpoch
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, ComplexArray, cell_masses
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_events import Attacks

__all__ = ["AdaptiveOthers", "reacting_pair"]

_CELLS, _REACH = 1500, 8.5
_STEP = 0.12
"""Cells of a result, within so many deviations, and the unit of scores in deviations of A - x B."""

_WIDTH = 6.0
"""Sums are cut off at so many of their deviations."""

_MASS_ERROR = 2e-13
"""Relative error of the probability of a cell, with a margin."""

_FARTHEST, _LOSSES = 6.0, 400
"""The last loss that is looked at in deviations of a revealed batch, and how many there are."""

_SIDES = ((2.0, 1.0), (0.0, -1.0))
"""Shifts of the record's batch and of the null record's, for others against it and for others with it."""


@dataclass(frozen=True)
class AdaptiveOthers:
    """The policy that is best for the threshold e^loss, and the test that goes with it."""

    order: ShuffledEpoch
    loss: float

    @cached_property
    def _edges(self) -> Array:
        return np.linspace(-_REACH, _REACH + 2.0 / self.order.noise, _CELLS)

    def _score(self, z: Array, side: int) -> Array:
        s, x = self.order.noise, math.exp(self.loss)
        a, b = _SIDES[side]
        return np.asarray(
            np.exp(a * z / s - 0.5 * (a / s) ** 2) - x * np.exp(b * z / s - 0.5 * (b / s) ** 2)
        )

    @cached_property
    def _plan(self) -> tuple[float, int, int]:
        """The unit of scores, the place of zero among the sums, and how many sums there are."""
        edges, count = self._edges, self.order.batches
        score = self._score(0.5 * (edges[1:] + edges[:-1]), 0)
        masses, drift = cell_masses(edges, 0.0), count * math.expm1(self.loss)
        cap = math.inf
        for _ in range(4):  # scores that decide alone need no resolution
            square = float(masses @ np.minimum(score, cap) ** 2)
            cap = drift + 4.0 * math.sqrt(count * square)
        deviation = math.sqrt(square)
        # the last batches decide by single scores
        resolved = float(masses @ np.abs(score)) * max(2.0, 0.5 * math.sqrt(count))
        step = _STEP * min(deviation, resolved)
        reach = _WIDTH * deviation * max(math.sqrt(count), 4.0)
        origin = math.ceil((reach + drift) / step)
        return step, origin, origin + math.ceil((reach + drift) / step) + 1

    @cached_property
    def _kernels(self) -> tuple[NDArray[np.intp], Array]:
        """Scores, and for each side their masses without the record, with it and with the null record."""
        step, _, size = self._plan
        edges = self._edges
        middle = 0.5 * (edges[1:] + edges[:-1])
        middle = np.concatenate([edges[:1], middle, edges[-1:]])
        outer = np.concatenate([[-np.inf], edges, [np.inf]])
        labels = np.array(
            [np.rint(np.clip(self._score(middle, side) / step, -size, size)) for side in (0, 1)]
        ).astype(np.intp)
        scores = np.arange(labels.min(), labels.max() + 1)
        rows = [
            [
                np.bincount(
                    labels[side] - scores[0],
                    cell_masses(outer, shift / self.order.noise),
                    minlength=scores.size,
                )
                for shift in (0.0, *_SIDES[side])
            ]
            for side in (0, 1)
        ]
        return scores, np.array(rows)

    @cached_property
    def _transforms(self) -> tuple[int, ComplexArray]:
        """The length of transforms, and those of all masses."""
        scores, rows = self._kernels
        length = next_fast_len(self._plan[2] + scores.size, real=True)
        table = np.zeros((2, 3, length))
        table[..., scores % length] = rows
        return length, np.asarray(rfft(table))

    def _policy(self) -> NDArray[np.bool_]:
        """For each batch and sum, whether the others are against the record; good, not exactly best."""
        (step, origin, size), (scores, _) = self._plan, self._kernels
        length, kernels = self._transforms
        order = self.order
        start = order.batches * order.absent / order.share * math.expm1(self.loss)
        left = max(-int(scores[0]), 0)
        # what scores beyond the last one would add: each decides alone
        middle = 0.5 * (self._edges[1:] + self._edges[:-1])
        masses = cell_masses(self._edges, 0.0)
        cut = [
            float(masses @ np.maximum(self._score(middle, side) - scores[-1] * step, 0.0))
            for side in (0, 1)
        ]
        places = (np.arange(-left, length - left) - origin) * step - start
        values = np.maximum(places, 0.0)
        against = np.empty((order.batches, size), dtype=bool)
        for batch in reversed(range(order.batches)):
            both = irfft(rfft(values) * np.conj(kernels[:, 0]), length)[:, left : left + size]
            both += np.array(cut)[:, None]
            against[batch] = both[0] >= both[1]
            best = np.max(both, axis=0)
            # beyond the sums the value is that at the left end, and rises with slope one at the right
            values = best[-1] + step * (np.arange(-left, length - left) - (size - 1.0))
            values[:left] = best[0]
            values[left : left + size] = best
        return against

    def attacks(self) -> Attacks:
        """The tests with all thresholds, as events and as complements of events."""
        (_, origin, size), (scores, _) = self._plan, self._kernels
        length, kernels = self._transforms
        laws = np.zeros((3, size))  # f, and g with A and with B
        laws[0, origin] = 1.0
        units = 16.0 * math.log2(length) * UNIT_ROUNDOFF * math.sqrt(length)
        errors = np.zeros(3)
        first = max(-int(scores[0]), 0)
        for against in self._policy():
            total = np.zeros((3, length // 2 + 1), dtype=complex)
            for side, chosen in enumerate((against, ~against)):
                parts = rfft(np.where(chosen, laws, 0.0), length)
                total += parts * kernels[side, 0]
                total[1:] += parts[0] * kernels[side, 1:]
            norms = np.linalg.norm(laws, axis=1)
            errors += units * (norms + np.array([0.0, norms[0], norms[0]]))
            sums = np.maximum(irfft(total, length), 0.0)
            # sums beyond the ends stay there; negative ones are at the end of the array
            laws = sums[:, :size].copy()
            laws[:, -1] += np.sum(sums[:, size : length - first], axis=1)
            laws[:, 0] += np.sum(sums[:, length - first :], axis=1)
        return self._events(laws, errors)

    def _events(self, laws: Array, errors: Array) -> Attacks:
        """Probabilities under P and Q, moved to the safe side by their errors."""
        order = self.order
        share, absent = order.share / order.batches, order.absent
        p, q = (share * laws[i] + absent * laws[0] for i in (1, 2))
        p_slack, q_slack = (share * errors[i] + absent * errors[0] for i in (1, 2))
        margin = order.batches * _MASS_ERROR
        down, up = 1.0 - margin, 1.0 + margin
        hits_p, hits_q = (np.cumsum(one[::-1])[::-1][1:] for one in (p, q))
        miss_p, miss_q = (np.cumsum(one)[:-1] for one in (p, q))
        return Attacks(
            *(
                np.clip(one, 0.0, 1.0)
                for one in (
                    (hits_q + q_slack) * up,
                    (hits_p - p_slack) * down,
                    (miss_q - q_slack) * down,
                    (miss_p + p_slack) * up,
                )
            )
        )


def reacting_pair(order: ShuffledEpoch, constant: AtomicPair, delta: float) -> AtomicPair:
    """What one policy attains: the best where the profile of others that never react is `delta`.

    It is one rule for all thresholds, so that epochs with the same rule compose.
    """
    losses = np.linspace(0.0, _FARTHEST / order.noise + 0.5 / order.noise**2, _LOSSES)
    values = np.minimum.accumulate(constant.log_hockey_stick(losses))
    loss = float(np.interp(-math.log(delta), -values, losses))
    return AdaptiveOthers(order, loss).attacks().pair()
