"""One epoch over shuffled batches in which everybody has a seat, from above; it needs large batches.

The record takes a random seat, and whoever sat there, the displaced example, takes the seat that
was vacant in the first batch. There its contribution shows, but if batches are large the first result
says little about the batch it came from. For every N, x >= 1 and both directions

    H_x <= E[(mean of N copies of W)_+] + rho h(x) + min(rho (x - 1), (b/n) h(x)),

W as in `upper_envelope`, h the profile of Gaussian noise, b the batch size and n the data set size. rho
bounds the probability that the first result tells more than N batches allow. That is the better bound
for much noise and large batches; the one by layers (`upper_envelope_layers`) is for less noise, or
smaller batches. The least of both counts. The proofs are in docs/proofs/displaced-example.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from sharpdp.bounds.shuffled_batches.far_types import far_types
from sharpdp.bounds.shuffled_batches.least_of_bounds import LeastOfBounds, Places
from sharpdp.bounds.shuffled_batches.upper_envelope import (
    Half,
    VacantEpoch,
    pair_above,
    spaced_half,
)
from sharpdp.bounds.shuffled_batches.upper_envelope_layers import LayeredEpoch
from sharpdp.bounds.shuffled_batches.worst_batches import WorstBatches
from sharpdp.numerics.special import Array, safe_log
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair

__all__ = ["FullEpoch"]

_RATIOS = (1.04, 1.08, 1.13, 1.2, 1.3, 1.45, 1.7, 2.0, 2.5, 3.5, 5.0, 8.0)
"""How many times fewer batches than there are may be counted; which is best depends on the threshold."""

_SHARES = np.array([0.005, 0.01, 0.02, 0.04, 0.08, 0.15, 0.25, 0.4])
"""Shares of the weight that may be too large in some batches before all counts as revealed."""

_REVEALED, _WORTH_IT, _NEGLIGIBLE = 0.3, 0.1, 1e-18
"""The most that may be revealed with any N, and with the best one; if it is as little as the last number
there is no more to gain."""

_SMALLEST_BATCH, _SMALLEST_NOISE, _LEAST_GAIN, _ROUGH = 8, 0.6, 0.03, 0.05
"""Clones are better with smaller batches, and with less noise little is hidden. By how much the log of
the profile has to fall where the bound is of use, and a tolerance that tells."""

_BACKWARD = 2.0
"""How many times as large the tolerance may be for the backward profile."""

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
        log_cuts, far = far_types(self.noise)
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

    @property
    def helps(self) -> bool:
        """Whether the first result hides anything from which epsilon could fall."""
        return self._layers_help or bool(self.revealed)

    @cached_property
    def _layers_help(self) -> bool:
        """Whether layers are of use, and do not take too long."""
        is_small = self.dataset_size < 2 * self.batch_size or self.batch_size < _SMALLEST_BATCH
        if is_small or self.noise < _SMALLEST_NOISE:
            return False
        known, at = self.known(replaced=False), np.zeros(1)
        value = self._layers.log_values("forward", known, at, np.full(1, _ROUGH))
        return bool(value[0] < known.log_hockey_stick(at)[0] - _LEAST_GAIN)

    @cached_property
    def _layers(self) -> LayeredEpoch:
        return LayeredEpoch(self.noise, self.dataset_size, self.batch_size)

    def dominating(
        self,
        tolerance: float,
        *,
        adaptive: bool = False,
        replaced: bool = False,
        rival: AtomicPair | None = None,
    ) -> AtomicPair:
        """A pair whose two profiles are above those of the epoch, if `helps`.

        The tolerance is that of `VacantEpoch`. At each threshold the bound is the least of those by
        layers, by several numbers of batches, and of a rival that dominates the epoch, too; if
        `adaptive`, also of those by some numbers with the worst policy.
        """
        known, searches, halves = self.known(replaced=replaced), list[LeastOfBounds](), list[Half]()
        for kind in ("replaced",) if replaced else ("forward", "backward"):
            is_backward = kind == "backward"
            values, estimates = list[Callable[..., Array]](), list[Callable[..., Array]]()
            if self._layers_help:
                values.append(partial(self._layers.log_values, kind, known))
                estimates.append(partial(self._layers.log_estimates, kind))
            if self.revealed:
                least = LeastOfBounds(
                    partial(self._terms, kind),
                    partial(self._estimates, kind),
                    len(self.revealed),
                    searches[0] if searches else None,
                )
                searches.append(least)
                values.append(least.log_values)
                estimates.append(least.log_estimates)
            if rival is not None:
                values.append(_bound_of(rival.reverse() if is_backward else rival))
            # the backward profile decides less
            allowed = tolerance * (_BACKWARD if is_backward else 1.0)
            halves.append(spaced_half(_least(*values), _least(*estimates), known, allowed))
        pair = pair_above(halves[0], halves[-1])
        if not adaptive or not searches:
            return pair
        counts = tuple(self.revealed)
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


def _bound_of(pair: AtomicPair) -> Callable[[Array, Array], Array]:
    """Its profile, whatever the tolerances."""
    return lambda losses, _: _log_profile(pair, losses)


def _least(*bounds: Callable[..., Array]) -> Callable[..., Array]:
    """The least of some functions."""
    return lambda *arguments: np.minimum.reduce([bound(*arguments) for bound in bounds])


def _log_profile(pair: AtomicPair, losses: Array) -> Array:
    """An upper bound on the log of the profile of a pair, what is revealed included."""
    nearer = np.maximum(losses - pair.loss_error, 0.0)
    log_value = pair.log_hockey_stick(nearer) + 2.0 * pair.accuracy
    return np.logaddexp(log_value, safe_log(pair.at_plus_infinity))
