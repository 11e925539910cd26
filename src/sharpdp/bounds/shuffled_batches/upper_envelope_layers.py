"""One epoch over shuffled batches in which everybody has a seat, from above, by layers.

The record takes a random seat, and the displaced example takes the seat that was vacant in the first
batch. Example j is a_j times as likely as the average one to be it, given the first result. What is known
is split into layers: for each K, that the displaced example is one of those with a_j > K. If these are a
share p of all examples, they are spread over the batches at random, and

    H_x <= (b/n) h(x) + (1 - b/n) int gamma(P(K)) dK,
    gamma(p) / p <= (R(q) - tau R(1)) / (1 - tau),   R(q) = E[(mean of B_t W_t)_+],

with concave gamma, P the slopes of any bound on the excess of a_j over K, W as in `upper_envelope`,
independent binomial counts B_t = Bin(b, q) / (b q), one for each batch, and the chance tau that such
counts are too many for p. The proof is in docs/proofs/displaced-example.md.

B W is on a geometric grid: W is spread onto it, so is B, and the product of two values is another one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.bounds.shuffled_batches.far_types import far_types
from sharpdp.bounds.shuffled_batches.worst_batches import Laws, WorstBatches
from sharpdp.numerics.counts import log_mass
from sharpdp.numerics.expected_positive_part import Sums
from sharpdp.numerics.hull import lower_hull
from sharpdp.numerics.special import Array, betainc, log_normal_call
from sharpdp.pairs.pair import GaussianPair

__all__ = ["LayeredEpoch"]

_GROWTH, _SMALLEST = 0.07, 0.02
"""Values on the grid are a factor e^0.07 apart; the smallest, relative to x and to x / noise."""

_BEYOND = 40
"""So many places beyond the cap are counted where values are bounded from below."""

_LEAST_COUNT, _LARGEST_SHARE, _COUNTS = 6.0, 0.95, 120
"""Layers of fewer examples count as revealed; the largest q; and how many sizes are told apart."""

_FIRST_STRIDE, _RATE_STEP, _WORTH, _COARSEST = 16, 0.15, 0.1, 0.05
"""Of all q, a factor e^0.15 apart, every 16th is looked at first, and others where they may lower the
bound by a tenth of the tolerance; and the largest tolerance."""

_CONTOUR, _CARES = 0.3, (0.01, 0.25)
"""The share of the tolerance that a contour may use up, over the weight of its layers within limits."""

_MOST = 8192.0
"""With more frequencies R is not found, and what is known counts as revealed."""

_LIKELY = 0.7
"""The largest tau."""

_UNLIKELY = 120.0
"""Twice the log of the chance of counts that are left out."""

_MARGIN, _ROUNDING = 1e-9, 1e-11
"""Rounding of sums of a few positive numbers, taken upwards, and of each weight."""

_LITTLE = 1e-10
"""What rounding of slopes adds, as a share of the profile of the noise alone."""


@dataclass(frozen=True)
class LayeredEpoch:
    """An epoch over `dataset_size` examples in batches of `batch_size`, a smaller last one included."""

    noise: float
    dataset_size: int
    batch_size: int

    @property
    def others(self) -> int:
        """How many examples are outside the first batch."""
        return self.dataset_size - self.batch_size

    @property
    def batches(self) -> int:
        """The number of full batches besides the first."""
        return self.others // self.batch_size

    def log_values(self, kind: str, known: GaussianPair, losses: Array, tolerances: Array) -> Array:
        """Upper bounds on log H_x at x = e^loss, within about these shares of the theorem's.

        `known` is the pair of the noise alone.
        """
        log_known = known.log_hockey_stick(losses) + _MARGIN
        means, least = self._means(kind, losses, np.exp(log_known), tolerances)
        values = np.array(
            [
                self._layered(np.exp(known), row, end)
                for known, row, end in zip(log_known, means.T, least, strict=True)
            ]
        )
        share = self.batch_size / self.dataset_size
        with np.errstate(divide="ignore"):
            log_layers = np.log(values) + math.log1p(-share)
        return np.asarray(np.logaddexp(log_layers, log_known + math.log(share)) + _MARGIN)

    def log_estimates(self, kind: str, losses: Array) -> Array:
        """About as much, for plans: as if the first result told nothing."""
        count = np.full(losses.size, float(self.batches))
        batches = WorstBatches(self.noise, kind, losses, count, np.zeros(losses.size))
        return batches.log_estimates() - math.log(self.batches)

    def _layered(self, known: float, means: Array, least: float) -> float:
        """The integral over all layers, from R(q) for each q and a lower bound on R(1)."""
        likely = self._unlikely < _LIKELY
        rest = np.where(likely, 1.0 - self._unlikely, 1.0)
        ends = np.where(likely, (means - self._unlikely * least) / rest, known)
        slopes = np.minimum.accumulate(np.append(known, np.minimum(ends.min(axis=1), known)))
        # gamma(p) <= p slope from each share up to the next one
        shares = np.append(self._shares, 1.0)
        points = [(0.0, 0.0), *zip(shares.tolist(), (-shares * slopes).tolist(), strict=True)]
        corners = np.array([points[index] for index in lower_hull(points)])
        steps = -np.diff(corners[:, 1]) / np.diff(corners[:, 0])
        cuts, excess = self._excess
        # int min(P(K), p) dK is the least p K + I(K)
        areas = np.min(np.multiply.outer(corners[1:-1, 0], cuts) + excess, axis=1)
        value = float(steps[-1] + (steps[:-1] - steps[1:]) @ areas)
        return (value + _LITTLE * known) * (1.0 + _MARGIN)

    @cached_property
    def _excess(self) -> tuple[Array, Array]:
        """Some K, and bounds on the mean excess of a_j over K, whatever all others contribute."""
        log_cuts, values = far_types(self.noise)
        small = np.linspace(0.02, 1.0, 50)
        # for K < 1, H_K = 1 - K + K H_{1/K} of the other direction, which is alike
        apart = np.exp(log_normal_call(2.0 / self.noise, -np.log(small)))
        near = np.minimum((1.0 - small + small * apart) * (1.0 + _MARGIN), 1.0)
        return np.concatenate([[0.0], small, np.exp(log_cuts)]), np.concatenate(
            [[1.0], near, values]
        )

    @cached_property
    def _shares(self) -> Array:
        """Shares p of examples, as whole numbers over how many there are."""
        counts = np.rint(np.geomspace(_LEAST_COUNT, self.others, _COUNTS + 1))[:-1]
        return np.unique(counts[counts < self.others]) / self.others

    @cached_property
    def _rates(self) -> Array:
        """Rising q, evenly apart in their logarithms."""
        least = min(_LEAST_COUNT / self.others, 0.5 * _LARGEST_SHARE)
        pieces = math.ceil(math.log(_LARGEST_SHARE / least) / (_FIRST_STRIDE * _RATE_STEP))
        return np.geomspace(least, _LARGEST_SHARE, _FIRST_STRIDE * pieces + 1)

    @cached_property
    def _weights(self) -> Array:
        """About the weight of layers of shares below each q."""
        return self._beyond(self._rates)

    def _beyond(self, shares: Array) -> Array:
        """About the weight of layers of fewer examples."""
        cuts, excess = self._excess
        lines = np.multiply.outer(shares, cuts) + excess
        best = np.argmin(lines, axis=1)
        return np.asarray(lines[np.arange(shares.size), best] - shares * cuts[best])

    @cached_property
    def _unlikely(self) -> Array:
        """Upper bounds on tau for each share and q: the chance of p n' or more among n' - 1 examples."""
        counts = np.rint(self._shares * self.others)[:, None]
        tails = betainc(counts, self.others - counts, self._rates)
        return np.asarray(np.minimum(tails * (1.0 + _MARGIN) + _MARGIN, 1.0))

    def _means(
        self, kind: str, losses: Array, known: Array, tolerances: Array
    ) -> tuple[Array, Array]:
        """Upper bounds on R(q), a row for each q, infinite where not needed, and lower ones on R(1)."""
        law, least = self._law(kind, losses, tolerances)
        means = np.full((self._rates.size, losses.size), np.inf)
        stride = _FIRST_STRIDE
        wanted = np.zeros(means.shape, dtype=bool)
        wanted[::stride] = True
        while wanted.any():
            weight = np.diff(self._weights[::stride])
            around = np.maximum(np.append(weight, 0.0), np.append(0.0, weight))
            care = np.zeros(self._rates.size)
            care[::stride] = np.clip(around, *_CARES)
            rates, rows = np.nonzero(wanted)
            within = np.minimum(_CONTOUR / care[rates] * tolerances[rows], _COARSEST)
            means[rates, rows] = self._mean(law, rates, rows, within)
            if stride == 1:
                break
            # from one q to the next R is taken to be constant
            ends = np.minimum(means[::stride], known)
            gains = weight[:, None] * (ends[:-1] - ends[1:])
            total = np.sum(weight[:, None] * ends[:-1], axis=0) + ends[-1]
            worth = gains > _WORTH * tolerances * total
            worth &= np.isfinite(means[:-1:stride]) & np.isfinite(means[stride::stride])
            wanted[:] = False
            wanted[stride // 2 :: stride] = worth
            stride //= 2
        return means, least

    def _law(self, kind: str, losses: Array, tolerances: Array) -> tuple[_Law, Array]:
        """W on a grid, a row for each loss, and lower bounds on R(1)."""
        count = np.full(losses.size, float(self.batches))
        batches = WorstBatches(self.noise, kind, losses, count, np.zeros(losses.size))
        cap, _ = batches.limits()
        smallest = _SMALLEST * np.exp(losses) * min(1.0, 1.0 / self.noise)
        size = math.ceil(float(np.max(np.log(cap / smallest))) / _GROWTH) + 1
        grid = smallest[:, None] * np.exp(_GROWTH * np.arange(size + _BEYOND))
        # the lemma holds for W as it is spread, which both bounds are for; from below what is cut is lost
        wide = batches.spread(grid)
        values = np.minimum(wide.values, cap[:, None] * math.exp(_GROWTH * _BEYOND))
        plain = Sums(wide.weights, values, wide.errors, count + self._has_rest)
        log_least = plain.log_values(plain.tilts(), tolerances, _MOST)[0]
        least = np.exp(log_least - _ROUNDING * (count + 1.0)) / (self.batches + self._has_rest)
        return _Law.of(batches.spread(grid[:, :size]), cap), least * (1.0 - _MARGIN)

    def _mean(
        self,
        law: _Law,
        rates: NDArray[np.intp],
        rows: NDArray[np.intp],
        tolerances: Array,
    ) -> Array:
        """Upper bounds on R at several pairs of a q and a row of the law, in the order of q."""
        spread = math.sqrt(1.0 + 1.0 / (self.batch_size * self._rates[0]))
        more = math.ceil(math.log(spread) / _GROWTH)
        parts = []
        for rate in np.unique(rates):
            factor = _binomial(self.batch_size, float(self._rates[rate]))
            parts.append(law.multiplied(rows[rates == rate], factor, more))
        weights, cut = (np.concatenate(part) for part in zip(*parts, strict=True))
        count = np.full(rows.size, float(self.batches))
        size = (weights.shape[1] - 1) // 2
        high = law.smallest[rows, None] * np.exp(_GROWTH * np.arange(size))
        grid = np.hstack([-high[:, ::-1], np.zeros((rows.size, 1)), high])
        cap = (law.cap[rows] * spread)[:, None]
        values = np.clip(grid, -cap, cap)
        sums = Sums(weights, values, (law.error[rows, None] + 1e-14) * np.abs(values), count)
        beyond = law.beyond[rows] + cut
        beyond += np.einsum("ij,ij->i", weights, np.maximum(grid - cap, 0.0))
        with np.errstate(over="ignore", invalid="ignore"):  # what is lost in rounding is infinite
            log_highs = sums.log_values(sums.tilts(), tolerances, _MOST)[1]
            highs = np.exp(log_highs + _ROUNDING * count)
        means = (highs / self.batches + beyond + _LITTLE**2) * (1.0 + _MARGIN)
        return np.where(np.isnan(means), np.inf, means)

    @property
    def _has_rest(self) -> bool:
        """Whether there is a smaller last batch."""
        return self.others % self.batch_size > 0


@dataclass(frozen=True)
class _Law:
    """Weights of W on values e^{0.07 i} times the smallest, of both signs, and zero; a row for each loss.

    Values above the cap may be cut; `error` is that of values relative to themselves.
    """

    high: Array
    low: Array
    smallest: Array
    cap: Array
    beyond: Array
    error: Array

    @staticmethod
    def of(law: Laws, cap: Array) -> _Law:
        """From weights on the values in their order."""
        size = (law.values.shape[1] - 1) // 2
        smallest = law.values[:, size + 1]
        relative = law.errors / np.maximum(np.abs(law.values), smallest[:, None])
        high, low = law.weights[:, size + 1 :], law.weights[:, :size][:, ::-1]
        return _Law(high, low, smallest, cap, law.beyond, np.max(relative, axis=1))

    def multiplied(
        self, rows: NDArray[np.intp], factor: tuple[int, Array], more: int
    ) -> tuple[Array, Array]:
        """Weights of B W for some rows, on so many more values of each sign; means of what is beyond."""
        high, beyond = _shifted(self.high[rows], *factor, more)
        low, _ = _shifted(self.low[rows], *factor, more)
        rest = np.maximum(1.0 - np.sum(high, axis=1) - np.sum(low, axis=1), 0.0)
        weights = np.hstack([low[:, ::-1], rest[:, None], high])
        return weights / np.sum(weights, axis=1)[:, None], beyond * self.smallest[rows]


@lru_cache(maxsize=1024)
def _binomial(batch: int, rate: float) -> tuple[int, Array]:
    """The law of B = Bin(b, q) / (b q) on e^{0.07 i} and zero: the first i, and weights from there on.

    Counts whose chance is below e^-60 on either side are left out.
    """
    mean = batch * rate
    reach = math.sqrt(_UNLIKELY * mean)
    first = max(1, math.floor(mean - reach))
    counts = np.arange(first, min(batch, math.ceil(mean + reach + 0.5 * _UNLIKELY)) + 1.0)
    masses = np.exp(log_mass(np.full(counts.size, float(batch)), counts, rate))
    logs = np.log(counts / mean) / _GROWTH
    start = math.floor(logs[0])
    places = np.floor(logs).astype(np.intp) - start
    up = np.expm1(_GROWTH * (logs - places - start)) / math.expm1(_GROWTH)
    weights = np.zeros(places[-1] + 2)
    np.add.at(weights, places, masses * (1.0 - up))
    np.add.at(weights, places + 1, masses * up)
    return start, weights


def _shifted(law: Array, first: int, weights: Array, more: int) -> tuple[Array, Array]:
    """Weights of the products for values of one sign, and means of what is beyond, over the smallest.

    What is below the grid is spread on its first place and zero.
    """
    size = law.shape[1]
    full = np.zeros((law.shape[0], size + weights.size - 1))
    for place, weight in enumerate(weights.tolist()):
        full[:, place : place + size] += weight * law
    # the k-th place of the product is k + first on the grid
    if first < 0:
        small = full[:, :-first] @ np.exp(_GROWTH * (np.arange(-first) + first))
        full = full[:, -first:]
        full[:, 0] += small
    full = np.pad(full, ((0, 0), (max(first, 0), 0)))
    end = size + more
    full = np.pad(full, ((0, 0), (0, max(end - full.shape[1], 0))))
    over = np.arange(full.shape[1] - end) + 1.0
    cut = math.exp(_GROWTH * (end - 1)) * (full[:, end:] @ np.expm1(_GROWTH * over))
    kept = full[:, :end]
    kept[:, -1] += np.sum(full[:, end:], axis=1)
    return kept, np.asarray(cut)
