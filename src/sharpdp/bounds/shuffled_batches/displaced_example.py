"""One epoch over shuffled batches in which everybody has a seat, from above; it needs large batches.

The record takes a random seat, and whoever sat there, the displaced example, takes the seat that
was vacant in the first batch. There its contribution shows, but if batches are large the first result
says little about the batch it came from. For every N, x >= 1 and both directions

    H_x <= E[(mean of N copies of W)_+] + rho h(x) + min(rho (x - 1), (b/n) h(x)),

W as in `vacant_seat`, h the profile of Gaussian noise, b the batch size and n the data set size. rho
bounds the probability that the first result tells more than N batches allow. The proof is in
docs/displaced-example.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

import numpy as np

from sharpdp.bounds.shuffled_batches.vacant_seat import VacantEpoch
from sharpdp.bracket import Side
from sharpdp.numerics.special import Array, log_normal_call, log_normal_calls
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair

__all__ = ["FullEpoch"]

_RATIOS = (1.04, 1.08, 1.13, 1.2, 1.3, 1.45, 1.7, 2.0, 2.5, 3.5, 5.0, 8.0)
"""How many times fewer batches than there are may be counted; which is best depends on the threshold."""

_SHARES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4])
"""Shares of the weight that may be too large in some batches before all counts as revealed."""

_CUTS_PER_FACTOR, _LARGEST_LOG_CUT = 5.0, 16.0
"""Ratios are cut at powers of e^(1/5), up to e^16."""

_MEANS, _DISTANCES = 40, 120
"""Cells of the mean of all contributions, and of squared distances from it."""

_REVEALED, _WORTH_IT, _NEGLIGIBLE = 0.3, 0.1, 1e-18
"""The most that may be revealed with any N, and with the best one; if it is as little as the last number
there is no more to gain."""

_MARGIN = 1e-9
"""Rounding of sums of a few positive numbers, taken upwards once."""

_LEVELS = (-6.0, -10.0, -15.0)
"""Logs of the bound where the worst policy is worth its time."""

_LOG_REST = -37.0
"""Values of the profile below e^this count as revealed."""


@dataclass(frozen=True)
class FullEpoch:
    """An epoch over `dataset_size` examples in batches of `batch_size`, a smaller last one included."""

    noise: float
    dataset_size: int
    batch_size: int

    @cached_property
    def revealed(self) -> dict[int, float]:
        """For some numbers N of batches, from many to few, the rho that goes with them; or none."""
        others = (self.dataset_size - self.batch_size) / self.batch_size
        counts = sorted({int(others / ratio) for ratio in _RATIOS}, reverse=True)
        found: dict[int, float] = {}
        for count in counts:
            rho = self._rho(others / count) if count > 1 else 1.0
            if rho < min([_REVEALED, *found.values()]):
                found[count] = rho
            if rho < _NEGLIGIBLE:
                break
        return found if min(found.values(), default=1.0) < _WORTH_IT else {}

    def _rho(self, ratio: float) -> float:
        """The smallest (I_K + tau) / eta over some eta and K, with 1 + theta = (1 - eta) ratio.

        tau = e^{-(b/K) ((1 + theta) log(1 + theta) - theta)} K / (e b log(1 + theta)) bounds the mean
        excess over 1 + theta of the mean of b draws from [0, K] with mean one.
        """
        log_cuts, far = _far_types(self.noise)
        cuts = np.exp(log_cuts)
        best = 1.0
        for share in _SHARES:
            grown = (1.0 - share) * ratio * (1.0 - _MARGIN)
            if grown <= 1.0 + 1e-6:
                continue
            log_grown = math.log(grown)
            draws = self.batch_size / cuts
            exponent = draws * (grown * log_grown - (grown - 1.0)) * (1.0 - _MARGIN) - _MARGIN
            tau = np.exp(-1.0 - exponent) / (draws * log_grown)
            best = min(best, float(np.min(far + tau)) / float(share))
        return best * (1.0 + _MARGIN)

    def dominating(
        self, tolerance: float, *, adaptive: bool = False, replaced: bool = False
    ) -> AtomicPair:
        """A pair whose two profiles are above those of the epoch; `revealed` must not be empty.

        The tolerance is that of `VacantEpoch`. Numbers of batches that are best somewhere are looked
        at, and if `adaptive` some of them with the worst policy.
        """
        known = GaussianPair((2.0 if replaced else 1.0) / self.noise)
        pairs = {
            count: self._vacant(count, tolerance, adaptive=False, replaced=replaced)
            for count in self._promising(known, 6 if tolerance < 5e-2 else 2, replaced=replaced)
        }
        candidates = _Candidates(self, pairs, known)
        if adaptive:
            for count in candidates.best_at(_LEVELS):
                pairs[count] = self._vacant(count, tolerance, adaptive=True, replaced=replaced)
        return candidates.pair()

    def _promising(self, known: GaussianPair, looks: int, *, replaced: bool) -> list[int]:
        """Numbers of batches with the least bound at one of a few thresholds; any others would do."""
        kind = "replaced" if replaced else "forward"
        losses = known.mu * np.array([1.0, 3.5, 2.0, 0.3, 5.0, 0.0])[:looks]
        log_known = known.log_hockey_stick(losses)
        rows = []
        for count, rho in self.revealed.items():
            epoch = VacantEpoch(self.noise, count, 1.0 / count, 0.0)
            values = [epoch.log_value(float(loss), kind, 0.1) for loss in losses]
            rows.append(np.logaddexp(values, math.log(rho) + log_known))
        best = set(np.argmin(rows, axis=0).tolist())
        return [count for row, count in enumerate(self.revealed) if row in best]

    def _vacant(
        self, count: int, tolerance: float, *, adaptive: bool, replaced: bool
    ) -> AtomicPair:
        epoch = VacantEpoch(self.noise, count, 1.0 / count, 0.0)
        if replaced:
            return epoch.dominating_replaced(tolerance)
        return epoch.dominating(tolerance, adaptive=adaptive)


@dataclass(frozen=True)
class _Candidates:
    """Pairs for some numbers of batches, with the rest of the bound; in `FullEpoch.dominating` only."""

    epoch: FullEpoch
    pairs: dict[int, AtomicPair]
    known: GaussianPair

    def pair(self) -> AtomicPair:
        """The pair with the least of their bounds at many thresholds, joined by chords."""
        halves, infinite = [], []
        tables = [self._table(reverse=reverse) for reverse in (False, True)]
        # at loss zero both profiles are the total variation
        start = min(float(rows[:, 0].min()) for _, rows in tables)
        for losses, rows in tables:
            values = np.minimum.accumulate(np.exp(np.minimum(rows.min(axis=0), min(start, 0.0))))
            end = int(np.argmax(values <= values[-1]))
            with np.errstate(divide="ignore"):
                log_more = np.log(values[:end] - values[end])
            halves.append(calls_above(losses[:end], log_more, float(losses[end])))
            infinite.append(float(values[end]) * (1.0 + _MARGIN))
        return pair_from_halves(
            halves[0], halves[1], side=Side.UPPER, infinite=(infinite[0], infinite[1])
        )

    def best_at(self, levels: tuple[float, ...]) -> set[int]:
        """The numbers of batches that are best where the log of the bound falls to these levels."""
        counts = list(self.pairs)
        values = self._table(reverse=False)[1]
        least, best = values.min(axis=0), values.argmin(axis=0)
        rows = [int(best[int(np.argmax(least <= level))]) for level in levels]
        return {counts[row] for row in rows if row < len(counts)}

    def _table(self, *, reverse: bool) -> tuple[Array, Array]:
        """Losses from zero on, and a row of bounds for each number of batches and for the noise."""
        sign = -1.0 if reverse else 1.0
        outcomes = [sign * np.array(pair.losses) for pair in self.pairs.values()]
        # the profile of the noise is next to nothing at the last of these
        end = self.known.mu * (0.5 * self.known.mu + math.sqrt(-2.0 * _LOG_REST))
        losses = np.unique(np.concatenate([*outcomes, np.linspace(0.0, end, 80)]))
        losses = losses[losses >= 0.0]
        log_known = self.known.log_hockey_stick(losses) + _MARGIN
        log_first = log_known + math.log(self.epoch.batch_size / self.epoch.dataset_size)
        rows = []
        for count, pair in self.pairs.items():
            log_rho = math.log(self.epoch.revealed[count])
            with np.errstate(divide="ignore"):
                log_drift = log_rho + np.log(np.expm1(losses))
            extra = np.logaddexp(log_rho + log_known, np.minimum(log_drift, log_first))
            rows.append(np.logaddexp(_log_profile(pair, losses, reverse=reverse), extra) + _MARGIN)
        return losses, np.array([*rows, log_known])


def _log_profile(pair: AtomicPair, losses: Array, *, reverse: bool) -> Array:
    """An upper bound on the log of one profile of a pair, what is revealed included."""
    nearer = np.maximum(losses - pair.loss_error, 0.0)
    if reverse:
        log_value = pair.log_hockey_stick(-nearer) + nearer
        infinite = pair.at_minus_infinity
    else:
        log_value, infinite = pair.log_hockey_stick(nearer), pair.at_plus_infinity
    with np.errstate(divide="ignore"):
        return np.logaddexp(log_value + 2.0 * pair.accuracy, np.log(infinite))


@lru_cache(maxsize=64)
def _far_types(noise: float) -> tuple[Array, Array]:
    """log K for many K, and bounds on the mean over v of H_K(phi_v || mean phi), for any population of v.

    Let beta be the distance of the mean of all v from zero and sigma^2 <= 1 - beta^2 their variance. The
    mean of all phi_v is at least e^{-sigma^2 / (2 s^2)} times phi at the mean of v. So H_K is at most the
    normal profile at the distance of v from that mean, at K e^{-sigma^2 / (2 s^2)}. Squared distances
    have mean sigma^2 and are at most (1 + beta)^2. The largest mean over all distributions of them is
    that of two values. beta and distances are seen through cells, with everything at its worst end.
    """
    log_cuts = np.arange(1.0 / _CUTS_PER_FACTOR, _LARGEST_LOG_CUT, 1.0 / _CUTS_PER_FACTOR)
    values = np.zeros(log_cuts.size)
    means = np.linspace(0.0, 1.0, _MEANS + 1)
    for low, high in pairwise(means.tolist()):
        variance = 1.0 - low**2
        squares = np.linspace(0.0, (1.0 + high) ** 2, _DISTANCES + 1)
        lowered = log_cuts - 0.5 * variance / noise**2
        positive = lowered > 0.0
        shape = (int(positive.sum()), _DISTANCES)
        profile = np.exp(
            log_normal_calls(
                np.broadcast_to(np.sqrt(squares[1:]) / noise, shape),
                np.broadcast_to(lowered[positive][:, None], shape),
            )
        )
        values[~positive] = 1.0
        values[positive] = np.maximum(
            values[positive], _largest_mean(squares[:-1], profile, variance)
        )
    apart = np.exp(log_normal_call(2.0 / noise, log_cuts))
    return log_cuts, np.minimum(np.minimum(values, apart), 1.0) * (1.0 + _MARGIN)


def _largest_mean(points: Array, values: Array, mean: float) -> Array:
    """The largest mean of rising values, one row each, over laws on the points with at most this mean."""
    below, above = points <= mean, points > mean
    best = values[:, below].max(axis=1)
    near, far = points[below][:, None], points[above][None, :]
    share = (mean - near) / (far - near)
    for row, value in enumerate(values):
        mixed = (1.0 - share) * value[below][:, None] + share * value[above][None, :]
        best[row] = max(best[row], float(mixed.max(initial=0.0)))
    return np.asarray(best)
