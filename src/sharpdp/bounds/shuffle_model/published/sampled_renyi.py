"""Renyi divergences of one round of shuffled reports by sampled users: the sums of published bounds.

E = e^local_epsilon, k = users, g = sample rate, r = E - 1/E, V = (E - 1)^2/E, and the number of clones
that is exceeded with high probability, m' = floor((k - 1)/(2E)) + 1. Every sum is taken in log space over
j, up to the term from which the rest is a geometric series. What is done with them is in
`sampled_epsilon`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from sharpdp.mechanisms import SampledReports
from sharpdp.numerics.counts import log_mass
from sharpdp.numerics.special import (
    CLOSED_FORM_ERROR,
    UNIT_ROUNDOFF,
    Array,
    gammaln,
    log_convexity_gap,
    log_diff,
    log_mixture,
)

__all__ = [
    "amplified_divergence",
    "chernoff_terms",
    "clone_terms",
    "pure_divergence",
    "response_divergence",
    "subset_divergence",
]

MOST_TERMS = 4096
"""Where more terms would count, a sum is far above what holds without shuffling, which is used then."""

FALLING = 64
"""Terms that are taken after each is at most half of the one before."""

FULL = 64
"""Sums over fewer terms than this are always taken whole."""

DEVIATIONS = 45.0
"""How far from the mean a binomial is followed: e^-1000 of it lies beyond."""


Terms = Callable[[SampledReports, Array], Array]


@dataclass(frozen=True)
class _Numbers:
    """The quantities of which all formulas are made."""

    users: int
    local_epsilon: float

    @property
    def log_reach(self) -> float:
        """log r, the largest deviation of a ratio."""
        return math.log(2.0 * math.sinh(self.local_epsilon))

    @property
    def log_spread(self) -> float:
        """log V."""
        return 2.0 * math.log(2.0 * math.sinh(0.5 * self.local_epsilon))

    @property
    def clones(self) -> float:
        """m', rounded down."""
        half = (self.users - 1) / (2.0 * math.exp(self.local_epsilon))
        return float(math.floor(half * (1.0 - CLOSED_FORM_ERROR)) + 1)

    @property
    def log_few(self) -> float:
        """log of the Chernoff bound on fewer clones, -(k - 1)/(8E)."""
        return -(self.users - 1) / (8.0 * math.exp(self.local_epsilon)) * (1.0 - CLOSED_FORM_ERROR)

    def log_usual(self, j: Array, clones: Array | float) -> Array:
        """log B_j(m): 4 V/m for j = 2, j Gamma(j/2) (2 r^2/m)^{j/2} from 3 on.

        Source: girgis2021 Theorem 6.
        """
        log_m = np.log(clones)
        moments = np.log(j) + gammaln(0.5 * j)
        many = moments + 0.5 * j * (math.log(2.0) + 2.0 * self.log_reach - log_m)
        return np.asarray(np.where(j == 2.0, math.log(4.0) + self.log_spread - log_m, many))


def _numbers(mechanism: SampledReports) -> _Numbers:
    return _Numbers(mechanism.reports.users, mechanism.reports.local_epsilon)


def pure_divergence(mechanism: SampledReports) -> float:
    """Upper bound on every Renyi divergence of one round: log(1 + g (E - 1)), without any shuffling.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> half = SampledReports(ShuffledReports(users=5, local_epsilon=math.log(3)), 10)
    >>> round(math.exp(pure_divergence(half)), 9)
    2.0
    """
    local_epsilon = mechanism.reports.local_epsilon
    return float(log_mixture(mechanism.sample_rate, local_epsilon)) * (1.0 + CLOSED_FORM_ERROR)


def chernoff_terms(mechanism: SampledReports, j: Array) -> Array:
    """log of B_j(m') + r^j e^{-(k-1)/(8E)}, upper bounds on the j-th ternary divergence to the power j.

    Source: girgis2021 Theorem 4.
    """
    numbers = _numbers(mechanism)
    return np.logaddexp(
        numbers.log_usual(j, numbers.clones), j * numbers.log_reach + numbers.log_few
    )


def clone_terms(mechanism: SampledReports, j: Array) -> Array:
    """log of E[min(r^j, B_j(M + 1))], M ~ Bin(k - 1, 1/E): the same without Chernoff's bound.

    Source: girgis2021 Theorems 5 and 6.
    """
    last = max(FULL, 1 << (int(j[-1]) - 1).bit_length())
    table: Array = _clone_table(_numbers(mechanism), last)
    return np.asarray(table[j.astype(int)])


@lru_cache(maxsize=64)
def _clone_table(numbers: _Numbers, last: int) -> Array:
    """The logarithms of `clone_terms` for all j up to `last`; those of 0 and 1 have no meaning."""
    places, log_masses = _clones_below(numbers)
    table = np.full(last + 1, np.nan)
    j = np.arange(2.0, last + 1.0)
    # so many entries are made at once
    for row in np.array_split(j, math.ceil(len(j) * len(places) / 2**16)):
        usual = numbers.log_usual(row[:, None], places[None, :] + 1.0)
        smaller = np.minimum(usual, row[:, None] * numbers.log_reach)
        table[row.astype(int)] = np.logaddexp.reduce(smaller + log_masses[None, :], axis=1)
    return table


def _clones_below(numbers: _Numbers) -> tuple[Array, Array]:
    """A law on few places that is stochastically below Bin(k - 1, 1/E): places and logs of masses.

    Upper bounds on the masses of blocks are added up from below until they reach one. Masses below all
    doubles count too: high moments are large where clones are few.
    """
    others, share = float(numbers.users - 1), math.exp(-numbers.local_epsilon)
    mean = others * share
    low = max(0.0, math.floor(mean - DEVIATIONS * math.sqrt(mean)))
    high = min(others, math.ceil(mean + DEVIATIONS * math.sqrt(mean) + DEVIATIONS))
    step = math.ceil((high - low + 1.0) / 4096)  # blocks of values
    first = np.arange(low, high + 1.0, step)
    last = np.minimum(first + (step - 1.0), others)
    mode = np.clip(math.floor((others + 1.0) * share), first, last)
    log_largest = np.maximum.reduce([_log_clones(numbers, m) for m in (first, mode, last)])
    heavy = log_largest + np.log(last - first + 1.0)
    # Chernoff: what lies below the first place is at most e^{-(mean - low)^2 / (2 mean)}
    beyond = -0.5 * (mean - low) ** 2 / mean * (1.0 - CLOSED_FORM_ERROR) if low > 0.0 else -math.inf
    added = np.logaddexp.accumulate(np.concatenate([[beyond], heavy]))
    reached = np.append(np.minimum(added + 4.0 * CLOSED_FORM_ERROR, 0.0)[:-1], 0.0)
    log_masses = log_diff(reached, np.concatenate([[-math.inf], reached[:-1]]))
    places, some = np.concatenate([[0.0], first]), log_masses > -math.inf
    return places[some], log_masses[some]


def _log_clones(numbers: _Numbers, m: Array) -> Array:
    """log P[M = m], moved up; the rarer of the two outcomes is counted, whose rate is known best."""
    others, e = float(numbers.users - 1), numbers.local_epsilon
    if others == 0.0:
        return np.zeros_like(m)
    rare, hits = (math.exp(-e), m) if e > math.log(2.0) else (-math.expm1(-e), others - m)
    return log_mass(np.full_like(m, others), hits, rare) + _mass_error(others)


def _mass_error(trials: float) -> float:
    """Bound on the error of the logarithm of a binomial mass whose rate is a rounded one.

    The deviance is at most 1100 and carries a few units; a rate that is off by two units moves it by at
    most 45 deviations times that.
    """
    return UNIT_ROUNDOFF * (2.0e4 + 8.0 * DEVIATIONS * math.sqrt(trials))


def subset_divergence(mechanism: SampledReports, order: float, terms: Terms) -> float:
    """Upper bound on the Renyi divergence of one round at a real order, from ternary divergences z_j.

        log(1 + sum over j from 2 of C(order, j) g^j z_j^j) / (order - 1)

    at whole orders, (order - 1) times it joined by chords between them, and never more than without
    shuffling.

    Numerics: logarithms of terms carry the error of j additions, and are moved up by it.

    Source: girgis2021 Lemma 2.
    """
    return _between_orders(mechanism, order, partial(_whole_moment, terms=terms))


def _between_orders(
    mechanism: SampledReports, order: float, moment: Callable[[SampledReports, float], float]
) -> float:
    """The divergence at a real order, moments of whole ones joined by a chord; or without shuffling."""
    below, above = float(math.floor(order)), float(math.ceil(order))
    moments = [moment(mechanism, whole) for whole in (below, above)]
    share = order - below
    chord = moments[0] if share == 0.0 else (1.0 - share) * moments[0] + share * moments[1]
    return min(chord / (order - 1.0) * (1.0 + CLOSED_FORM_ERROR), pure_divergence(mechanism))


def _whole_moment(mechanism: SampledReports, order: float, terms: Terms) -> float:
    """(order - 1) times the bound of `subset_divergence` at a whole order, unclipped; inf if too long."""
    if order == 1.0:
        return 0.0
    numbers, log_rate = _numbers(mechanism), math.log(mechanism.sample_rate)
    last = _needed(numbers, mechanism.sample_rate, order)
    if last > MOST_TERMS:
        return math.inf
    j = np.arange(2.0, last + 1.0)
    log_terms = _log_binomials(order, last)[2:] + j * log_rate + terms(mechanism, j)
    # sums of j logarithms, each rounded; the binomial coefficient is the longest of them
    rounding = 4.0 * UNIT_ROUNDOFF * j * (1.0 + np.abs(log_terms) + j * abs(log_rate))
    log_sum = float(np.logaddexp.reduce(log_terms + rounding))
    if last < order:
        log_sum = float(np.logaddexp(log_sum, _log_tail(numbers, log_rate, order, last)))
    return float(np.logaddexp(0.0, log_sum))


def _needed(numbers: _Numbers, rate: float, order: float) -> int:
    """The number of terms until both parts fall by half at each, and some more."""
    # ratios: order g c / sqrt(2 j) with c^2 = 2 r^2/m', and order g r / j
    usual = 4.0 * (order * rate) ** 2 * math.exp(2.0 * numbers.log_reach) / numbers.clones
    every = _log_few_moment(numbers, rate, order)
    unusual = 2.0 * order * rate * math.exp(numbers.log_reach) if every > -FALLING else 0.0
    return int(min(order, max(FULL, max(usual, unusual) + FALLING)))


def _log_few_moment(numbers: _Numbers, rate: float, order: float) -> float:
    """log of (1 + g r)^order e^{-(k-1)/(8E)}, above the sum of all terms in which clones are few."""
    return order * math.log1p(rate * math.exp(numbers.log_reach)) + numbers.log_few


def _log_tail(numbers: _Numbers, log_rate: float, order: float, last: int) -> float:
    """log of an upper bound on all terms beyond `last`: each part falls by half, or is bounded whole."""
    j = np.array([last + 1.0])
    log_scale = float(_log_binomials(order, last + 1)[-1]) + (last + 1.0) * log_rate + math.log(2.0)
    usual = log_scale + float(numbers.log_usual(j, numbers.clones)[0])
    whole = _log_few_moment(numbers, math.exp(log_rate), order)
    falls = order * math.exp(log_rate + numbers.log_reach) <= 0.5 * last
    few = log_scale + (last + 1.0) * numbers.log_reach + numbers.log_few
    unusual = min(whole, few) if falls else whole
    return float(np.logaddexp(usual, unusual))


def _log_binomials(order: float, last: int) -> Array:
    """log C(order, j) for j = 0 .. most, order a whole number of any size."""
    i = np.arange(float(last))
    return np.concatenate([[0.0], np.cumsum(np.log((order - i) / (i + 1.0)))])


def amplified_divergence(mechanism: SampledReports, order: float) -> float:
    """Upper bound on the Renyi divergence of one round: shuffling first, then any subset.

    With D(j) the bound of girgis2021renyi on the shuffled reports and A_j = min(2, (E - 1)^j):

        log(1 + g^2 C(order, 2) min(4 (e^{D(2)} - 1), e^{D(2)} A_2)
              + sum over j from 3 of g^j C(order, j) e^{(j - 1) D(j)} A_j) / (order - 1)

    at whole orders, chords between them; never more than D(order), nor than without shuffling.

    Numerics: as `subset_divergence`.

    Source: girgis2021renyi Theorem 1; wang2019 Theorem 9.
    """
    return _between_orders(mechanism, order, _amplified_moment)


def _amplified_moment(mechanism: SampledReports, order: float) -> float:
    """(order - 1) times the bound of `amplified_divergence` at a whole order; inf if too long."""
    if order == 1.0:
        return 0.0
    e, log_rate = mechanism.reports.local_epsilon, math.log(mechanism.sample_rate)
    needed = 2.0 * order * mechanism.sample_rate * math.exp(e) + FALLING
    last = int(min(order, max(FULL, needed)))
    if last > MOST_TERMS:
        return math.inf
    j = np.arange(2.0, last + 1.0)
    shuffled = _shuffled_moments(_numbers(mechanism), max(FULL, 1 << (last - 1).bit_length()))
    log_apart = np.minimum(math.log(2.0), j * math.log(math.expm1(e)))
    log_growth = shuffled[2 : last + 1] + log_apart
    log_growth[0] = min(log_growth[0], math.log(4.0 * math.expm1(shuffled[2])))
    log_terms = _log_binomials(order, last)[2:] + j * log_rate + log_growth
    rounding = 4.0 * UNIT_ROUNDOFF * j * (1.0 + np.abs(log_terms) + j * abs(log_rate))
    log_sum = float(np.logaddexp.reduce(log_terms + rounding))
    if last < order:
        # D <= e and A <= 2; each term is at most half of the one before
        log_first = float(_log_binomials(order, last + 1)[-1]) + (last + 1.0) * log_rate
        log_sum = float(np.logaddexp(log_sum, log_first + last * e + math.log(4.0)))
    unsampled = shuffled[int(order)] if order <= last else math.inf
    return min(float(np.logaddexp(0.0, log_sum)), unsampled)


@lru_cache(maxsize=64)
def _shuffled_moments(numbers: _Numbers, last: int) -> Array:
    """(j - 1) D(j) for all j up to `last`, D the bound on the shuffled reports, at most local_epsilon.

        log(1 + C(j, 2) V/m' + sum over i from 3 of C(j, i) i Gamma(i/2) (r^2/(2 m'))^{i/2}
              + e^{j local_epsilon - (k-1)/(8E)})

    Source: girgis2021renyi Theorem 1.
    """
    e = numbers.local_epsilon
    i = np.arange(last + 1.0)
    log_factorial = gammaln(i + 1.0)
    log_parts = np.log(np.maximum(i, 1.0)) + gammaln(0.5 * np.maximum(i, 1.0))
    log_parts += 0.5 * i * (2.0 * numbers.log_reach - math.log(2.0 * numbers.clones))
    log_parts[2] = numbers.log_spread - math.log(numbers.clones)
    moments = np.zeros(last + 1)
    for j in range(2, last + 1):
        inner = slice(2, j + 1)
        log_choices = log_factorial[j] - log_factorial[inner] - log_factorial[j::-1][inner]
        log_sum = np.logaddexp.reduce(log_choices + log_parts[inner])
        log_sum = np.logaddexp(log_sum, j * e + numbers.log_few)
        moved = log_sum + 16.0 * UNIT_ROUNDOFF * (1.0 + log_factorial[j] + j * e)
        moments[j] = min(np.logaddexp(0.0, moved), (j - 1.0) * e)
    return moments


def response_divergence(mechanism: SampledReports, order: float) -> float:
    """Lower bound on the Renyi divergence of one round: binary randomized response, others hold 0.

    With p = 1/(E + 1), m ~ Bin(k, p) and x = g (r/k)(m - k p), the larger one of

        log E[(1 + x)^order] / (order - 1),   log E[(1 + x)^{1 - order}] / (order - 1).

    Numerics: x has mean 0, and only convex remainders are added up, so that what lies far out can be
    left out. Many counts are grouped in blocks: the one nearest to the mean stands for all.

    Source: girgis2021 Theorem 2.
    """
    users, e = mechanism.reports.users, mechanism.reports.local_epsilon
    lie = 1.0 / (math.exp(e) + 1.0)
    slope = mechanism.sample_rate * 2.0 * math.sinh(e) / users
    # twelve deviations around where a moment has its weight
    nearest, log_masses = _blocks(users, lie, 12.0 + order * slope * math.sqrt(users * lie))
    loss = np.log1p(slope * (nearest - users * lie))
    moment = 0.0
    for exponent in (-order, order - 1.0):
        log_sum = float(np.logaddexp.reduce(log_masses + log_convexity_gap(exponent, -loss)))
        moment = max(moment, float(np.logaddexp(0.0, log_sum)))
    return (
        moment / (order - 1.0) * (1.0 - CLOSED_FORM_ERROR - 8.0 * UNIT_ROUNDOFF * math.sqrt(users))
    )


def _blocks(trials: int, rate: float, deviations: float) -> tuple[Array, Array]:
    """Blocks of counts of Bin(trials, rate): the one nearest to the mean, logs of masses from below."""
    mean = trials * rate
    reach = min(deviations, DEVIATIONS) * math.sqrt(mean) + DEVIATIONS
    low, high = max(0.0, math.floor(mean - reach)), min(float(trials), math.ceil(mean + reach))
    step = math.ceil((high - low + 1.0) / 2**14)
    first = np.arange(low, high + 1.0, step)
    last = np.minimum(first + (step - 1.0), trials)
    n = np.full_like(first, float(trials))
    log_least = np.minimum(log_mass(n, first, rate), log_mass(n, last, rate))
    log_masses = log_least + np.log(last - first + 1.0) - _mass_error(float(trials))
    return np.clip(mean, first, last), log_masses
