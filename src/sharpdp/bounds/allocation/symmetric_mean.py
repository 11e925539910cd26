"""The mean of all products of k of T lognormal variables beyond thresholds: certified values.

U_1, ..., U_T are independent copies of exp(mu y - mu^2 / 2), y standard normal, and
L = e_k(U_1, ..., U_T) / C(T, k) is the likelihood ratio of k of T steps. Its law is not that of a sum.
But for a statistic that is a sum of integers n(U_i), the three measures of each of its values z,

    q = Q[z],  p = E[L; z],  r = E[L^2; z],

are convolutions of the laws f_0, f_1, f_2 of n(U) with weights 1, U, U^2: f_0^T; f_0^{T-k} f_1^k; and the
mean of f_2^m f_1^{2k-2m} f_0^{T-2k+m} over the number m of steps that two sets of k have in common, which
is hypergeometric. By the inequalities of Jensen and Cauchy

    (p - c q)_+  <=  E[(L - c)_+; z]  <=  (p - c q + sqrt(q (r - 2 c p + c^2 q))) / 2,

and the same for (c - L)_+ with c q - p. n(U) is log(1 + x U) in units: given the sum Y of these, L is
nearly known if x is such that the posterior probabilities x U / (1 + x U) add up to about k.

Far from the threshold the square root falls too slowly, and L itself is bounded. With N the number of
independent events of these probabilities, L = e^Y x^-k P[N = k] / C(T, k), where P[N = k] is at most a
function of the variance V of N; and for some x, L >= (k/T)^k (1 - k/T)^{T-k} e^Y x^-k, by Newton's
inequalities. docs/proofs/scheme-proofs.md has the proofs.

Numerics: cells of U may be any, so their edges need no accuracy. Laws are multiplied under tilts by FFTs,
whose errors are relative to the largest mass, and enter on the safe side.

Sources: scarf1958 (the square root), hardy1952 Theorem 51 (Newton's inequalities).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    ComplexArray,
    cell_masses,
    gammaln,
    gauss_nodes,
    i0e,
    log_cell_masses,
    log_ndtr,
    log_sum,
)

EXTRA_TILTS = np.array([0.5, 1.0, 2.0, 3.0, 4.5, 6.0, 8.0, 10.0, 13.0])
"""By how much tilts of Chernoff bounds on what lies beyond a window are larger, in deviations."""

FARTHEST = 14.5
"""A result that is farther than this from its mean under P has probability 6e-48: it counts in full."""

# Cells up to this width are integrated, wider ones are differences of tails.
_NARROW = 0.1
# The FFT's rounding relative to the sum of all moduli, for each stage.
_STAGE_ERROR = (2.0 + math.sqrt(5.0)) * UNIT_ROUNDOFF
# Terms of the hypergeometric mean that are below e^-40 of the largest one count as errors.
_NEGLIGIBLE = 40.0
# Relative slack for the rounding of exponential moments, besides a few units of their exponents.
_SLACK = 1e-9
# Places at which the near part may end.
_CUTS = 96
# A function grows by at most so many nats over a cell, or its bound is infinite.
_LARGEST_STEP = 700.0
# More than what a product that underflows is.
_UNDERFLOW = 1e-300
# Smaller masses, and their products with ratios, are rounded by more than a few units of themselves.
_SMALLEST_MASS = 1e-290


@dataclass(frozen=True)
class _Masses:
    """Masses at the places of a window, in units of e^(log_unit - tilt * offset), and their errors.

    True masses are at most (1 + relative) (mass + error), and at least (1 - relative) (mass - lost).
    """

    log_unit: float
    tilt: float
    masses: Array
    error: float
    lost: float


@dataclass(frozen=True)
class SymmetricMean:
    """One statistic and one tilt: Y = sum of log(1 + x U) in so fine units, P tilted by e^{tilt Y}.

    The window has so many places from the `first` on; L is about the threshold at its `middle`, where P
    is centered by the tilt `saddle`. `kinds` > 1 also tells sums of posterior probabilities apart,
    rounded to 1 / `kinds_per_unit`, modulo `kinds`. `moves` are shifts of log x at which L is bounded for
    places that are far. Every choice of these, and of the deviations and the variance, is safe.
    """

    mu: float
    steps: int
    participations: int
    log_x: float
    tilt: float
    saddle: float
    unit: float
    first: int
    places: int
    middle: int
    moves: Array
    spread: float
    posterior_spread: float
    variance: float
    kinds: int = 1
    kinds_per_unit: float = 8.0

    @cached_property
    def _edges(self) -> Array:
        """Edges of cells of y, but -inf: log(1 + x U) is about a whole number of units in each."""
        top = self.mu + FARTHEST
        low, high = (self._score(np.array(y)) for y in (-FARTHEST, top))
        count = max(int(np.ceil(float(high - low) / self.unit)), 1)
        scores = low + self.unit * (np.arange(count, dtype=float) + 0.5)
        inner = (np.log(np.expm1(scores)) - self.log_x + 0.5 * self.mu**2) / self.mu
        return np.append(np.sort(inner[inner < top]), top)

    def _score(self, y: Array) -> Array:
        """log(1 + x U) at y."""
        return np.logaddexp(0.0, self.log_x + self.mu * y - 0.5 * self.mu**2)

    @cached_property
    def _offsets(self) -> Array:
        """The whole number of each cell times the unit, zero for the first."""
        return self.unit * np.arange(self._edges.size, dtype=float)

    @cached_property
    def _log_laws(self) -> tuple[Array, Array, Array]:
        """log E[U^j; cell] for j = 0, 1, 2."""
        edges = self._edges
        laws = []
        for power in range(3):
            mean = power * self.mu
            with np.errstate(divide="ignore"):
                logs = np.log(cell_masses(np.append(-np.inf, edges), mean))
            logs[0] = log_ndtr(np.array(edges[0] - mean))
            half = 0.5 * np.diff(edges)
            narrow = np.flatnonzero(2.0 * half <= _NARROW)
            middle = edges[narrow] + half[narrow] - mean
            _, weights = gauss_nodes(middle, half[narrow], 10)
            logs[1 + narrow] = log_cell_masses(middle, half[narrow], weights)
            laws.append(logs + 0.5 * self.mu**2 * power * (power - 1))
        return laws[0], laws[1], laws[2]

    @cached_property
    def _law_error(self) -> float:
        """A bound on the relative error of E[U^j; cell] for all cells and j.

        Ten points of a Gauss rule on a cell of half-width h = 0.05 at m are off by at most
        1.2e-24 (|m| h + h)^20 e^{|m| h} of it: less than a unit for |m| <= 45. Differences of tails over
        wider cells lose at most a factor of 16.
        """
        reach = float(np.max(np.abs(self._edges))) + 2.0 * self.mu
        wide = 16.0 if np.any(np.diff(self._edges) > _NARROW) else 1.0
        return wide * UNIT_ROUNDOFF * (64.0 + 4.0 * reach**2)

    @cached_property
    def _relative(self) -> float:
        """The relative error of products of laws: of cells, and of exponents."""
        exponents = float(np.max(np.abs(self._offsets))) * (abs(self.tilt) + 1.0)
        each = self._law_error + 8.0 * UNIT_ROUNDOFF * (4.0 + exponents)
        # each step, and the logarithms of three factorials
        log_factorial = float(gammaln(self.steps + 1.0))
        return math.expm1(self.steps * each + 64.0 * UNIT_ROUNDOFF * log_factorial)

    @cached_property
    def _kind(self) -> NDArray[np.int64]:
        """Which kind each cell is of."""
        if self.kinds == 1:
            return np.zeros(self._edges.size, dtype=np.int64)
        score = self._score(self._edges)
        kinds = np.round(-np.expm1(-score) * self.kinds_per_unit).astype(np.int64)
        return np.asarray(kinds % self.kinds)

    def _transform(self, power: int, tilt: float) -> tuple[ComplexArray, float]:
        """Of the law with weight U^power, tilted: its transform, with total mass one, and log mass."""
        from scipy.fft import rfft2

        logs = self._log_laws[power] + tilt * self._offsets
        log_total = self._log_total(power, tilt)
        index = (np.arange(logs.size) % self.places) * self.kinds + self._kind
        masses = np.bincount(index, np.exp(logs - log_total), self.places * self.kinds)
        table = masses.reshape(self.places, self.kinds).T
        return np.asarray(rfft2(table)), log_total

    @cached_property
    def _transform_error(self) -> float:
        """A bound on the error of a transform of masses that add up to one, and of its powers' units."""
        stages = math.log2(self.places * self.kinds) + 2.0
        return stages * _STAGE_ERROR + 32.0 * UNIT_ROUNDOFF

    def _inverse(self, product: ComplexArray, bound: Array) -> tuple[Array, float]:
        """Masses from a product of transforms, each known to within `bound`, and their error."""
        from scipy.fft import irfft2

        masses = np.asarray(irfft2(product, (self.kinds, self.places)))
        weights = np.full(product.shape[1], 2.0)
        weights[0] = 1.0
        cells = self.places * self.kinds
        rounding = (np.abs(product) + bound) * self._transform_error
        return masses, float(np.sum((bound + rounding) @ weights)) / cells

    def _product(self, factors: list[tuple[ComplexArray, int]]) -> tuple[ComplexArray, Array]:
        """Powers of transforms multiplied, and a bound on the error of the product.

        |a^n - b^n| <= n |a - b| max(|a|, |b|)^(n-1); a power by squaring has fewer than 2n roundings.
        """
        each = self._transform_error + 8.0 * UNIT_ROUNDOFF
        product = np.ones_like(factors[0][0])
        bound, share = np.ones(product.shape), np.zeros(product.shape)
        for transform, count in factors:
            if count == 0:
                continue
            product = product * _power(transform, count)
            size = np.abs(transform) + each
            bound = bound * size**count
            share = share + count * each / size
        return product, bound * share

    def _masses(self, log_unit: float, tilt: float, table: Array, error: float) -> _Masses:
        """Masses in the order of their places, with what the window folds in as lost."""
        order = (self.first + np.arange(self.places)) % self.places
        lost = error + self._folded(tilt)
        return _Masses(log_unit, tilt, np.maximum(table[:, order], 0.0), error, lost)

    @cached_property
    def offsets(self) -> Array:
        """Y at all places of the window, relative to that of T first cells."""
        return self.unit * (self.first + np.arange(self.places, dtype=float))

    def _folded(self, tilt: float) -> float:
        """The tilted mass beyond the window, relative to all of it, for the measure of each tilt."""
        power = {1: 0, 0: 1, -1: 2}[round(tilt - self.tilt)]
        log_all = self._log_measure(power, tilt)
        total = 0.0
        for sign, end in ((1.0, float(self.offsets[-1])), (-1.0, float(self.offsets[0]))):
            log_beyond = self._log_beyond(power, tilt + sign * EXTRA_TILTS / self.spread, end)
            total += math.exp(min(log_beyond + tilt * end - log_all, 0.0))
        return total * (1.0 + _SLACK)

    def _log_beyond(self, power: int, tilts: Array, end: float) -> float:
        """log of Chernoff's bound on one of the three measures beyond an end of Y.

        A look at few scores says which of the tilts to take; every one is safe.
        """
        logs = [
            log_sum(weights + np.multiply.outer(tilts, self._look[0]))
            for weights in self._look[1 : power + 2]
        ]
        best = int(np.argmin(self._log_means(logs) - tilts * end))
        return self._log_measure(power, float(tilts[best])) - float(tilts[best]) * end

    @cached_property
    def _look(self) -> tuple[Array, Array, Array, Array]:
        """Scores above that of the first cell at few y, and logs of weights of 1, U and U^2 there."""
        y = np.linspace(-FARTHEST, 2.0 * self.mu + FARTHEST, 300)
        log_u = self.mu * y - 0.5 * self.mu**2
        usual = -0.5 * y * y - 0.5 * math.log(2.0 * math.pi) + math.log(y[1] - y[0])
        scores = self._score(y) - float(self._score(np.array(-FARTHEST)))
        return scores, usual, usual + log_u, usual + 2.0 * log_u

    def _log_measure(self, power: int, tilt: float) -> float:
        """log of E[L^power e^{tilt Y}]: under Q, under P, or weighted with L^2."""
        return float(self._log_means([self._log_total(j, tilt) for j in range(power + 1)]))

    def _log_means(self, logs: Sequence[Array | float]) -> Array:
        """log E[L^j e^{tilt Y}] from those of U^i e^{tilt score} of one step, i = 0, ..., j."""
        steps, count = self.steps, self.participations
        if len(logs) == 1:
            return np.asarray(steps * logs[0])
        if len(logs) == 2:
            return np.asarray((steps - count) * logs[0] + count * logs[1])
        return log_sum(self._log_overlaps(logs))

    def _log_total(self, power: int, tilt: float) -> float:
        """log E[U^power e^{tilt score}] of one step, kept: several laws have it in common."""
        if (power, tilt) not in self._log_totals:
            logs = self._log_laws[power] + tilt * self._offsets
            self._log_totals[power, tilt] = float(log_sum(logs))
        return self._log_totals[power, tilt]

    @cached_property
    def _log_totals(self) -> dict[tuple[int, float], float]:
        return {}

    def _log_overlaps(self, logs: Sequence[Array | float]) -> Array:
        """log of each term of the hypergeometric mean, for m from its least value on."""
        m = self._overlaps.astype(float)
        steps, count = self.steps, self.participations
        return np.asarray(
            log_hypergeometric(steps, count)
            + np.multiply.outer(logs[2], m)
            + 2.0 * np.multiply.outer(logs[1], count - m)
            + np.multiply.outer(logs[0], steps - 2 * count + m)
        )

    @cached_property
    def _overlaps(self) -> NDArray[np.int64]:
        """How many steps two sets of k may have in common."""
        least = max(2 * self.participations - self.steps, 0)
        return np.arange(least, self.participations + 1)

    @cached_property
    def without(self) -> _Masses:
        """Q of each place."""
        transform, log_total = self._transform(0, self.tilt + 1.0)
        table, error = self._inverse(*self._product([(transform, self.steps)]))
        return self._masses(self.steps * log_total, self.tilt + 1.0, table, error)

    @cached_property
    def with_record(self) -> _Masses:
        """E[L; place] = P of each place."""
        absent, log_absent = self._transform(0, self.tilt)
        present, log_present = self._transform(1, self.tilt)
        others = self.steps - self.participations
        product = self._product([(absent, others), (present, self.participations)])
        table, error = self._inverse(*product)
        log_unit = others * log_absent + self.participations * log_present
        return self._masses(log_unit, self.tilt, table, error)

    @cached_property
    def squared(self) -> _Masses:
        """E[L^2; place]."""
        tilt, steps, count = self.tilt - 1.0, self.steps, self.participations
        pieces = [self._transform(power, tilt) for power in range(3)]
        log_terms = self._log_overlaps([log_total for _, log_total in pieces])
        log_unit = float(log_sum(log_terms))
        terms = np.exp(log_terms - log_unit)
        kept = np.flatnonzero(log_terms > log_unit - _NEGLIGIBLE)
        low, high = int(self._overlaps[kept[0]]), int(self._overlaps[kept[-1]])
        zero, one, two = (transform for transform, _ in pieces)
        common: list[tuple[ComplexArray, int]] = [
            (zero, steps - 2 * count + low),
            (one, 2 * (count - high)),
            (two, low),
        ]
        product, bound = self._product(common)
        series, series_bound = self._series(terms[kept[0] : kept[-1] + 1], zero * two, one * one)
        size = np.abs(product) + bound
        table, error = self._inverse(
            product * series, bound * (np.abs(series) + series_bound) + size * series_bound
        )
        error += float(np.sum(terms) - np.sum(terms[kept[0] : kept[-1] + 1])) + UNIT_ROUNDOFF
        return self._masses(log_unit, tilt, table, error)

    def _series(
        self, terms: Array, more: ComplexArray, fewer: ComplexArray
    ) -> tuple[ComplexArray, Array]:
        """sum_j terms_j more^j fewer^(n-j), and a bound on its error."""
        each = 2.0 * self._transform_error + 16.0 * UNIT_ROUNDOFF
        last = terms.size - 1
        value = np.full(more.shape, terms[last], dtype=complex)
        bound = np.full(more.shape, terms[last])
        power, power_bound = np.ones_like(more), np.ones(more.shape)
        large, small = np.abs(more) + each, np.abs(fewer) + each
        for term in terms[:last][::-1]:
            power, power_bound = power * fewer, power_bound * small
            value = value * more + term * power
            bound = bound * large + term * power_bound
        share = last * each * (1.0 / large + 1.0 / small)
        return value, bound * share

    def log_upper(self, sign: float, losses: Array) -> Array:
        """Upper bounds on the logs of E(L - e^loss)_+ (sign 1), or of E(1 - e^loss L)_+ (sign -1)."""
        log_c = sign * losses
        sums, log_scale = self._near(sign, log_c)
        near = sums[:, self._cut_index(sign)]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            high = near + np.exp(self._log_far(sign, log_c, near, log_scale) - log_scale)
            log_high = np.log(np.min(np.where(np.isnan(high), np.inf, high), axis=1)) + log_scale
        log_high = np.logaddexp(log_high, self._log_outside(sign, log_c))
        return np.asarray(log_high + _SLACK - np.minimum(log_c, 0.0))

    def attacks(self, sign: float, losses: Array) -> tuple[Array, Array]:
        """Q and P of the places with p > c q, for each loss: not below, and not above (sign 1).

        With sign -1 those with p < c q, Q not above and P not below.
        """
        q, p = self._event_masses(sign)
        events = []
        with np.errstate(over="ignore", invalid="ignore"):
            for ratio in np.exp(losses):
                chosen = p > ratio * q if sign > 0.0 else q > ratio * p
                events.append((np.sum(q[chosen]), np.sum(p[chosen])))
        q_masses, p_masses = np.array(events).T
        return q_masses, p_masses

    def log_lower(self, sign: float, losses: Array) -> Array:
        """Lower bounds on the logs of E(L - e^loss)_+ (sign 1), or of E(1 - e^loss L)_+ (sign -1)."""
        q, p = self._event_masses(sign)
        likely, unlikely = (p, q) if sign > 0.0 else (q, p)
        rounding = (4.0 + likely.size) * UNIT_ROUNDOFF
        gains = []
        with np.errstate(over="ignore", invalid="ignore"):
            for ratio in np.exp(losses):
                chosen = likely > ratio * unlikely
                gain = likely[chosen] - ratio * unlikely[chosen]
                gains.append(np.sum(gain) - rounding * np.sum(likely[chosen]))
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(np.array(gains), 0.0)))

    def _event_masses(self, sign: float) -> tuple[Array, Array]:
        """Q and P of each place: not below and not above (sign 1), or not above and not below (-1).

        NaN where a mass is no normal double, so that no event has it.
        """
        q, p = self.without, self.with_record
        grown = 1.0 + self._relative + _SLACK
        masses = []
        with np.errstate(over="ignore", invalid="ignore"):
            for law, is_upper in ((q, sign > 0.0), (p, sign < 0.0)):
                unit = np.exp(law.log_unit - law.tilt * self.offsets)
                high, low = (
                    (law.masses + law.error) * grown,
                    _positive(law.masses - law.lost) / grown,
                )
                mass = unit * (high if is_upper else low)
                masses.append(np.where((mass > _SMALLEST_MASS) & (mass < np.inf), mass, np.nan))
        return masses[0], masses[1]

    def _near(self, sign: float, log_c: Array) -> tuple[Array, float]:
        """Upper sums over all places to each one from the end that is far from the cut.

        All over e^log_scale.
        """
        q, p, r = self.without, self.with_record, self.squared
        offsets = self.offsets
        log_scale = p.log_unit - p.tilt * float(offsets[self.middle])
        grown = 1.0 + self._relative
        upper = []
        with np.errstate(over="ignore", invalid="ignore"):
            weight = np.exp(p.log_unit - p.tilt * offsets - log_scale)
            ratio = q.log_unit - p.log_unit - offsets
            square = r.log_unit - p.log_unit + offsets
            p_high, p_low = (p.masses + p.error) * grown, _positive(p.masses - p.lost) / grown
            for one in log_c:
                scale = np.exp(ratio + one)
                q_high = scale * (q.masses + q.error) * grown
                q_low = scale * _positive(q.masses - q.lost) / grown
                r_high = np.exp(square - one) * (r.masses + r.error) * grown
                spread = np.sqrt(q_high * _positive(r_high - 2.0 * p_low + q_high))
                if sign > 0.0:
                    most = np.minimum(0.5 * (p_high - q_low + spread), p_high)
                else:
                    most = np.minimum(0.5 * (q_high - p_low + spread), q_high)
                most = most + 8.0 * UNIT_ROUNDOFF * (p_high + q_high + spread)
                sums = np.sum(most, axis=0) * weight
                sums = np.where(np.isnan(sums), np.inf, sums)
                upper.append(np.cumsum(sums) if sign < 0.0 else np.cumsum(sums[::-1])[::-1])
        return np.array(upper) * (1.0 + 4.0 * self.places * UNIT_ROUNDOFF), log_scale

    def _cut_index(self, sign: float) -> NDArray[np.int64]:
        """Places at which the near part may end, the first or last of those that belong to it."""
        end = 0 if sign > 0.0 else self.places - 1
        cuts = self.middle + (end - self.middle) * np.linspace(0.0, 1.0, _CUTS) ** 2
        return np.unique(cuts.astype(np.int64))

    def _log_far(self, sign: float, log_c: Array, near: Array, log_scale: float) -> Array:
        """log bounds on the part beyond each cut: below it for sign 1, above it for sign -1.

        They are added to the near part, over e^log_scale.
        """
        cuts = self.offsets[self._cut_index(sign)]
        if sign > 0.0:
            return self._log_far_calls(log_c, cuts, near, log_scale)
        return self._log_far_puts(log_c, cuts)

    def _log_far_calls(self, log_c: Array, cuts: Array, near: Array, log_scale: float) -> Array:
        """log of bounds on P[L > c, Y below the cut], by Chernoff: for all a > 0 and d >= 0,

            E_P exp(a (Y + log P[N = k] - k log x - log C(T, k) - log c) + d (cut - Y)).

        P[N = k] <= F(V) <= F(v) for V >= v (`_log_most_likely`). For V < v it is at most e^-V I_0(V),
        whose logarithm is convex, and so at most V / v times that at v. Of the a and d only those are
        tried for a v whose first part alone, with the near one, is below the best sum so far.
        """  # noqa: D415
        steps, count = self.steps, self.participations
        log_sets = float(gammaln(steps + 1.0) - gammaln(count + 1.0) - gammaln(steps - count + 1.0))
        level = log_sets + count * self.log_x
        best = np.full((log_c.size, cuts.size), np.inf)
        a, d, usual = self._far_tilts
        for share, few in self._far_moments.items():
            v = share * self.variance
            many = usual + a * _log_most_likely(v, steps)
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                least = np.min(near + np.exp(best - log_scale), axis=1)
                room = np.log(np.maximum(least[:, None] - near, 0.0)) + log_scale
                lines = _lines(many - a * level, -a, log_c, d, cuts)
                tried = np.any(lines < np.minimum(best, room), axis=(1, 2))
            if not tried.any():
                continue
            new = tried & np.isnan(few)
            if new.any():
                slope = -float(np.log(i0e(np.array(v)))) / v - _SLACK
                few[new] = self._log_score_moment(a[new], a[new] * slope, -d[new])
            log_moments = np.logaddexp(many[tried], few[tried])
            lines = _lines(log_moments - a[tried] * level, -a[tried], log_c, d[tried], cuts)
            best = np.minimum(best, np.min(lines, axis=0))
        return np.asarray(best + _SLACK * (1.0 + np.abs(best)))

    @cached_property
    def _far_tilts(self) -> tuple[Array, Array, Array]:
        """The a and d of bounds on far calls, and the log moments without a part for the variance."""
        targets = self.saddle - np.array([0.0, 1.0, 2.5]) / self.spread
        targets = np.repeat(np.append(targets, self.tilt), 5)
        a = np.maximum(targets, 0.0) + np.tile([1.0, 3.0, 8.0, 25.0, 80.0], 4)
        d = a - targets
        return a, d, self._log_score_moment(a, 0.0 * a, -d)

    @cached_property
    def _far_moments(self) -> dict[float, Array]:
        """For shares of the variance, the log moments with a part for it; NaN until they are needed."""
        return {share: np.full(20, np.nan) for share in (0.8, 0.9, 0.65, 1.0, 0.5)}

    def _log_score_moment(self, a: Array, b: Array, tilts: Array) -> Array:
        """log of upper bounds on E_P exp(a Y - b V + tilt Y'), Y' being the rounded Y; a > 0, b >= 0.

        One step's V is e^-y - e^-2y of its score y, and above its chord over a cell of width w but for
        w^2 / 128. So the exponential is at most e^{b w^2 / 128} times that of a straight line, and below
        the chord of that. The mean of a score is at most the score of the mean of U.
        """
        scores = np.append(0.0, self._score(self._edges))
        width = np.diff(scores)
        variance = -np.exp(-scores) * np.expm1(-scores)
        exponent = np.multiply.outer(a, scores) - np.multiply.outer(b, variance)
        steps = np.diff(exponent, axis=1)
        # a chord that falls is largest at its left end
        rise = np.expm1(np.clip(steps, 0.0, _LARGEST_STEP))
        left = exponent[:, :-1] + np.multiply.outer(tilts, self._offsets)
        left += np.multiply.outer(b, width**2 / 128.0)
        laws, total = self._log_laws, np.zeros(a.size)
        counts = (self.steps - self.participations, self.participations)
        for power, count in enumerate(counts):
            with np.errstate(invalid="ignore", divide="ignore"):
                mean = np.logaddexp(0.0, self.log_x + laws[power + 1] - laws[power])
                share = (mean - scores[:-1]) / width
                share = share + 4.0 * self._law_error * (1.0 + mean) / width
                share = np.clip(np.where(np.isnan(share), 1.0, share), 0.0, 1.0)
            total += count * _log_product_sum(laws[power] + left, 1.0 + share * rise)
        return np.where(np.max(steps, axis=1) > _LARGEST_STEP, np.inf, total)

    def _log_far_puts(self, log_c: Array, cuts: Array) -> Array:
        """log of bounds on c Q[L < c, Y above the cut]: L >= K e^Y(x) x^-k at the x where this is least.

        If that is between two of the grid, Y(x) - k log x exceeds its least value at the nearer one by at
        most `dip`; if it is beyond the first or last, the posterior mean there is above or below k.
        """
        total = np.full((log_c.size, cuts.size), -np.inf)
        for logs, slopes, falls in self._far_puts:
            total = np.logaddexp(total, _lowest(logs, slopes, log_c, falls, cuts))
        return np.asarray(total + _SLACK * (1.0 + np.abs(total)))

    @cached_property
    def _far_puts(self) -> list[tuple[Array, Array, Array]]:
        """Parts of the bound on far puts: logs to choose from, with their slopes in log c and the cut."""
        steps, count = self.steps, self.participations
        rate = count / steps
        log_k = count * math.log(rate) + (steps - count) * math.log1p(-rate)
        half = 0.5 * float(np.max(np.diff(self.moves)))
        variance = min(0.25 * steps, min(count, steps - count) * math.exp(half))
        dip = 0.5 * variance * half**2
        targets = self.saddle + 1.0 + np.array([0.0, 1.0, 2.5, 5.0]) / self.spread
        a = np.add.outer(np.maximum(-targets, 0.0), np.array([1.0, 3.0, 8.0])).ravel()
        d = a + np.repeat(targets, 3)
        levels = -log_k + count * (self.log_x + self.moves) + dip
        parts = [
            (steps * self._log_convex(float(move), a, d) + a * level, a + 1.0, -d)
            for move, level in zip(self.moves, levels, strict=True)
        ]
        b = np.array([2.0, 4.0, 6.0, 9.0, 13.0, 20.0]) / self.posterior_spread
        d = np.repeat(np.maximum(targets, 0.0), b.size)
        b = np.tile(b, targets.size)
        for move, side in ((self.moves[0], 1.0), (self.moves[-1], -1.0)):
            log_moments = steps * self._log_posterior(float(move), side * b, d)
            parts.append((log_moments - side * b * count, np.ones_like(b), -d))
        return parts

    def _log_convex(self, move: float, a: Array, tilts: Array) -> Array:
        """log of upper bounds on E[(1 + x' U)^-a e^{tilt score}], x' = x e^move.

        The function is convex in U: over a cell it is below its chord, at the mean of U there.
        """
        log_u = self.mu * self._edges - 0.5 * self.mu**2
        value = np.append(0.0, np.logaddexp(0.0, self.log_x + move + log_u))
        left, right = self._shares
        logs = np.multiply.outer(tilts, self._offsets) - np.multiply.outer(a, value[:-1])
        fall = np.exp(-np.multiply.outer(a, np.diff(value)))
        return _log_product_sum(self._log_laws[0] + logs, left + right * fall)

    @cached_property
    def _shares(self) -> tuple[Array, Array]:
        """The weights of both ends of each cell at its mean of U, a little to the left."""
        size = np.append(0.0, np.exp(self.mu * self._edges - 0.5 * self.mu**2))
        laws = self._log_laws
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean = np.exp(laws[1] - laws[0]) * (1.0 - 4.0 * self._law_error)
            share = (mean - size[:-1]) / (size[1:] - size[:-1])
            share = np.clip(np.where(np.isnan(share), 0.0, share), 0.0, 1.0)
            return 1.0 - share, share

    def _log_posterior(self, move: float, exponents: Array, tilts: Array) -> Array:
        """log of upper bounds on E[e^{exponent v} e^{tilt score}], v = x' U / (1 + x' U); one sign."""
        log_odds = self.log_x + move + self.mu * self._edges - 0.5 * self.mu**2
        chance = np.append(0.0, np.exp(-np.logaddexp(0.0, -log_odds)))
        largest = chance[1:] if exponents[0] > 0.0 else chance[:-1]
        logs = np.multiply.outer(exponents, largest) + np.multiply.outer(tilts, self._offsets)
        return log_sum(self._log_laws[0] + logs)

    def _log_outside(self, sign: float, log_c: Array) -> Array:
        """log of a bound on what lies beyond the window at its near end, or has a y beyond all cells."""
        log_tail = float(log_ndtr(np.array(-FARTHEST)))
        log_y = math.log(self.steps) + log_tail
        low, high = float(self.offsets[0]), float(self.offsets[-1])
        extra = np.append(0.0, EXTRA_TILTS) / self.spread
        if sign > 0.0:
            log_beyond = self._log_beyond(1, max(self.saddle, 0.0) + extra, high)
        else:
            log_beyond = self._log_beyond(0, min(self.saddle + 1.0, 0.0) - extra, low)
        beyond = np.logaddexp(log_beyond + _SLACK * (1.0 + abs(log_beyond)), log_y)
        return np.asarray(beyond + np.minimum(log_c, 0.0) + _SLACK)


@lru_cache(maxsize=64)
def log_hypergeometric(steps: int, count: int) -> Array:
    """log of the probability that two sets of so many steps have m in common, from the least m on.

    >>> np.round(np.exp(log_hypergeometric(4, 2)) * 6.0, 12).tolist()
    [1.0, 4.0, 1.0]
    """
    m = np.arange(max(2 * count - steps, 0), count + 1, dtype=float)
    return np.asarray(
        2.0 * (gammaln(count + 1.0) + gammaln(steps - count + 1.0))
        - gammaln(steps + 1.0)
        - gammaln(m + 1.0)
        - 2.0 * gammaln(count - m + 1.0)
        - gammaln(steps - 2.0 * count + m + 1.0)
    )


def _log_most_likely(variance: float, steps: int) -> float:
    """log F(v): no value of a sum of so many independent events of variance >= v is likelier than F(v).

    By Fourier, P[N = k] is at most the mean over angles of prod sqrt(1 - 2 v_i (1 - cos)), which is
    largest, for a given sum, if all v_i are equal. With an even number of steps n this is a polynomial
    in the cosine, whose mean over n / 2 + 1 angles is exact.

    >>> round(float(np.exp(_log_most_likely(0.64, 4))), 8)  # probabilities .8, .8, .2, .2
    0.5136
    """
    half = (steps + 1) // 2
    angles = 2.0 * np.pi * np.arange(half + 1) / (half + 1)
    bases = 1.0 - (variance / half) * (1.0 - np.cos(angles))
    return float(np.log(np.mean(np.maximum(bases, 0.0) ** half))) + _SLACK


def _lines(logs: Array, slopes: Array, log_c: Array, falls: Array, cuts: Array) -> Array:
    """All logs + slope log_c + fall cut, for every threshold and cut."""
    lines = logs[:, None, None] + slopes[:, None, None] * log_c[:, None]
    return np.asarray(lines + falls[:, None, None] * cuts)


def _lowest(logs: Array, slopes: Array, log_c: Array, falls: Array, cuts: Array) -> Array:
    """The least of logs + slope log_c + fall cut, for every threshold and cut."""
    return np.asarray(np.min(_lines(logs, slopes, log_c, falls, cuts), axis=0))


def _log_product_sum(logs: Array, factors: Array) -> Array:
    """log of the sum over cells of e^log times a factor >= 0, not below: products may underflow."""
    peak = np.max(logs, axis=-1)
    terms = np.exp(logs - peak[:, None])
    terms *= factors
    return np.asarray(peak + np.log(np.sum(terms, axis=-1) + logs.shape[-1] * _UNDERFLOW))


def _positive(x: Array) -> Array:
    return np.maximum(x, 0.0)


def _power(base: ComplexArray, count: int) -> ComplexArray:
    """The power by repeated squaring, count >= 1."""
    result = base
    for digit in bin(count)[3:]:
        result = result * result
        if digit == "1":
            result = result * base
    return result
