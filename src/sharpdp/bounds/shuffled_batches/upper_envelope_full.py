"""One epoch over shuffled batches in which everybody has a seat, from above; it needs large batches.

The record takes a random seat, and whoever sat there, the displaced example, takes the seat that
was vacant in the first batch. There its contribution shows, but if batches are large the first result
says little about the batch it came from. For every N, x >= 1 and both directions

    H_x <= E[(mean of N copies of W)_+] + rho h(x) + min(rho (x - 1), (b/n) h(x)),

W as in `upper_envelope`, h the profile of Gaussian noise, b the batch size and n the data set size. rho
bounds the probability that the first result tells more than N batches allow. The proof is in
docs/proofs/displaced-example.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np

from sharpdp.bounds.shuffled_batches.least_of_bounds import LeastOfBounds, Places
from sharpdp.bounds.shuffled_batches.upper_envelope import (
    VacantEpoch,
    pair_above,
    spaced_half,
)
from sharpdp.bounds.shuffled_batches.worst_batches import WorstBatches
from sharpdp.numerics.special import Array, log_normal_call, log_normal_calls, safe_log
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair

__all__ = ["FullEpoch"]

_RATIOS = (1.04, 1.08, 1.13, 1.2, 1.3, 1.45, 1.7, 2.0, 2.5, 3.5, 5.0, 8.0)
"""How many times fewer batches than there are may be counted; which is best depends on the threshold."""

_SHARES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4])
"""Shares of the weight that may be too large in some batches before all counts as revealed."""

_CUTS_PER_FACTOR, _LARGEST_LOG_CUT = 5.0, 16.0
"""Ratios are cut at powers of e^(1/5), up to e^16."""

_MEANS, _DISTANCES = 40, 60
"""Cells of the mean of all contributions, and of squared distances from it."""

_REVEALED, _WORTH_IT, _NEGLIGIBLE = 0.3, 0.1, 1e-18
"""The most that may be revealed with any N, and with the best one; if it is as little as the last number
there is no more to gain."""

_TAIL = 9.5
"""A normal tail from here on is below 1e-20, and as good as the profile."""

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
            grown = (1.0 - share) * ratio * (1.0 - PROFILE_ERROR)
            if grown <= 1.0 + 1e-6:
                continue
            log_grown = math.log(grown)
            draws = self.batch_size / cuts
            exponent = (
                draws * (grown * log_grown - (grown - 1.0)) * (1.0 - PROFILE_ERROR) - PROFILE_ERROR
            )
            tau = np.exp(-1.0 - exponent) / (draws * log_grown)
            best = min(best, float(np.min(far + tau)) / float(share))
        return best * (1.0 + PROFILE_ERROR)

    def dominating(
        self, tolerance: float, *, adaptive: bool = False, replaced: bool = False
    ) -> AtomicPair:
        """A pair whose two profiles are above those of the epoch; `revealed` must not be empty.

        The tolerance is that of `VacantEpoch`. At each threshold the bound is that of the number of
        batches which is about the best there; if `adaptive`, also those of some numbers with the
        worst policy.
        """
        kinds = ("replaced",) * 2 if replaced else ("forward", "backward")
        counts, known = tuple(self.revealed), self.known(replaced=replaced)
        searches, halves = list[LeastOfBounds](), []
        for kind in kinds:
            least = LeastOfBounds(
                partial(self._terms, kind),
                partial(self._estimates, kind),
                len(counts),
                searches[0] if searches else None,
            )
            searches.append(least)
            halves.append(spaced_half(least.log_values, least.log_estimates, known, tolerance))
        pair = pair_above(halves[0], halves[1])
        if not adaptive:
            return pair
        best = {counts[searches[0].best_at(level)] for level in _LEVELS}
        pairs = {count: self._vacant(count, tolerance, replaced=replaced) for count in best}
        return self._least(pair, pairs, replaced=replaced)

    def known(self, *, replaced: bool) -> GaussianPair:
        """The pair of the noise alone."""
        return GaussianPair((2.0 if replaced else 1.0) / self.noise)

    def _epoch(self, count: int) -> VacantEpoch:
        return VacantEpoch(self.noise, count, 1.0 / count, 0.0)

    def _terms(
        self, kind: str, places: Places, losses: Array, allowed: Array
    ) -> tuple[Array, Array]:
        """Logs of the first term with some numbers of batches, and of what is added to it."""
        batches, log_extra = self._batches(kind, places, losses)
        log_share = np.log(batches.counts)
        log_first = batches.log_values(0.3 * allowed, log_share + _LOG_REST)
        return log_first - log_share + PROFILE_ERROR, log_extra

    def _estimates(self, kind: str, places: Places, losses: Array) -> tuple[Array, Array]:
        """About the same, for plans."""
        batches, log_extra = self._batches(kind, places, losses)
        return batches.log_estimates() - np.log(batches.counts), log_extra

    def _batches(self, kind: str, places: Places, losses: Array) -> tuple[WorstBatches, Array]:
        """Sums over some numbers of batches, and the logs of what is added to the first term."""
        counts, rhos = (
            np.array(each, dtype=float) for each in zip(*self.revealed.items(), strict=True)
        )
        batches = WorstBatches(self.noise, kind, losses, counts[places], np.zeros(losses.size))
        return batches, self._log_extra(rhos[places], losses, replaced=kind == "replaced")

    def _log_extra(self, rhos: Array, losses: Array, *, replaced: bool) -> Array:
        """The log of what is added to the first term."""
        log_known = self.known(replaced=replaced).log_hockey_stick(losses) + PROFILE_ERROR
        log_first = log_known + math.log(self.batch_size / self.dataset_size)
        log_rho = np.log(rhos)
        with np.errstate(divide="ignore"):
            log_drift = log_rho + np.log(np.expm1(losses))
        added = np.minimum(log_drift, log_first)
        return np.asarray(np.logaddexp(log_rho + log_known, added))

    def _vacant(self, count: int, tolerance: float, *, replaced: bool) -> AtomicPair:
        """One epoch of so many batches with a vacancy, with the worst policy."""
        epoch = self._epoch(count)
        if replaced:
            return epoch.dominating_replaced(tolerance)
        return epoch.dominating(tolerance, adaptive=True)

    def _least(
        self, pair: AtomicPair, pairs: dict[int, AtomicPair], *, replaced: bool
    ) -> AtomicPair:
        """The pair with the least of all bounds at many thresholds, joined by chords."""
        halves = []
        for reverse in (False, True):
            # at loss zero the two directions share out differently what is revealed
            first, *others = (one.reverse() if reverse else one for one in (pair, *pairs.values()))
            losses = np.unique(np.concatenate([[0.0], *(one.losses for one in (first, *others))]))
            losses = losses[losses >= 0.0]
            logs = _log_profile(first, losses)
            for count, one in zip(pairs, others, strict=True):
                rhos = np.full(losses.size, self.revealed[count])
                extra = self._log_extra(rhos, losses, replaced=replaced)
                logs = np.minimum(
                    logs, np.logaddexp(_log_profile(one, losses), extra) + PROFILE_ERROR
                )
            logs = np.minimum.accumulate(logs)
            end = int(np.argmax(logs <= max(logs[-1], _LOG_REST)))
            halves.append((losses[: end + 1], logs[: end + 1]))
        return pair_above(halves[0], halves[1])


def _log_profile(pair: AtomicPair, losses: Array) -> Array:
    """An upper bound on the log of the profile of a pair, what is revealed included."""
    nearer = np.maximum(losses - pair.loss_error, 0.0)
    log_value = pair.log_hockey_stick(nearer) + 2.0 * pair.accuracy
    return np.logaddexp(log_value, safe_log(pair.at_plus_infinity))


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
    means = np.linspace(0.0, 1.0, _MEANS + 1)
    variances = 1.0 - means[:-1] ** 2
    squares = np.linspace(0.0, (1.0 + means[1:]) ** 2, _DISTANCES + 1, axis=-1)
    distances = np.sqrt(squares[:, None, 1:]) / noise
    lowered = (log_cuts - 0.5 * variances[:, None] / noise**2)[:, :, None]
    deep = lowered / distances - 0.5 * distances
    # a profile is at most the tail that it is a part of, or one
    profiles = np.where(lowered > 0.0, np.exp(-0.5 * np.maximum(deep, 0.0) ** 2), 1.0)
    sharp = (lowered > 0.0) & (deep < _TAIL)
    profiles[sharp] = np.exp(
        log_normal_calls(
            *(np.broadcast_to(part, deep.shape)[sharp] for part in (distances, lowered))
        )
    )
    values = np.max(
        [_largest_mean(*each) for each in zip(squares[:, :-1], profiles, variances, strict=True)],
        axis=0,
    )
    apart = np.exp(log_normal_call(2.0 / noise, log_cuts))
    return log_cuts, np.minimum(np.minimum(values, apart), 1.0) * (1.0 + PROFILE_ERROR)


def _largest_mean(points: Array, values: Array, mean: float) -> Array:
    """The largest mean of rising values, one row each, over laws on the points with at most this mean."""
    below = int(np.searchsorted(points, mean, side="right"))
    best = values[:, below - 1]
    near, far = points[:below, None], points[None, below:]
    share = (mean - near) / (far - near)
    mixed = (1.0 - share) * values[:, :below, None] + share * values[:, None, below:]
    return np.asarray(np.maximum(best, mixed.max(axis=(1, 2), initial=0.0)))
