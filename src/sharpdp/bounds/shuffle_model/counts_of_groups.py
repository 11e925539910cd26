"""How many users of several groups do something, each group with its own probability: sums of binomials.

Such a sum C = sum_j Bin(n_j, c_j) is close to the binomial with its mean and variance, Bin(N, c) with

    c = sum n_j c_j^2 / sum n_j c_j,   N c = sum n_j c_j,

whose third cumulant is smaller. A binomial with a slightly smaller rate is stochastically smaller than C:
the rate is found by comparing the distribution functions at all counts, with their rounding, so that
nothing is assumed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp.bounds.shuffle_model.clone_pair import log_block_weights
from sharpdp.numerics.counts import (
    MASS_ERROR,
    below_over_at,
    beyond_over_at,
    log_mass,
    ratio_error,
)
from sharpdp.numerics.roots import last_true
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array

Groups = tuple[tuple[int, float], ...]
"""Numbers of users, each with a probability."""

_REACH, _POINTS = 17.0, 4000
"""Counts of a group lie within so many deviations of their mean, and 150, but for e^-140; they are
rounded to about so many values."""

_HALVINGS = 40
"""Of the interval in which the rate of the smaller binomial lies."""


@dataclass(frozen=True)
class SmallerBinomial:
    """Bin(trials, rate) with P[C <= k] <= P[Bin <= k] + missing for all k."""

    trials: int
    rate: float
    missing: float


@lru_cache(maxsize=64)
def smaller_binomial(groups: Groups) -> SmallerBinomial:
    """A binomial that is stochastically smaller than a sum of binomials, but for next to nothing.

    >>> coins = smaller_binomial(((3, 0.5), (5, 0.5)))
    >>> coins.trials, coins.rate, coins.missing
    (8, 0.5, 0.0)
    >>> mixed = smaller_binomial(((1000, 0.5), (9000, 0.03)))  # 770 on average
    >>> 768.0 < mixed.trials * mixed.rate < 770.0
    True
    """
    groups = tuple((count, rate) for count, rate in groups if count and rate)
    rates = {rate for _, rate in groups}
    if len(rates) < 2:
        return SmallerBinomial(sum(count for count, _ in groups), max(rates, default=0.0), 0.0)
    values, masses, missing = _rounded_sum(groups)
    mean = math.fsum(count * rate for count, rate in groups)
    square = math.fsum(count * rate**2 for count, rate in groups)
    matched = mean**2 / square
    trials = {max(math.floor(matched), 1), math.ceil(matched)}
    found = [
        SmallerBinomial(each, _rate(values, masses, each, missing), 2.0 * missing)
        for each in sorted(trials)
    ]
    return max(found, key=lambda one: one.trials * one.rate)


def _rounded_sum(groups: Groups) -> tuple[Array, Array, float]:
    """Values of a sum that is stochastically smaller, their masses, and what these lack of one."""
    deviation = max(math.sqrt(count * rate * (1.0 - rate)) for count, rate in groups)
    width = max(math.ceil(2.0 * (_REACH * deviation + 150.0) / _POINTS), 1)
    first, masses, missing = 0, np.ones(1), 0.0
    for count, rate in groups:
        start, law, cut = _rounded_law(count, rate, width)
        first += start
        masses = np.convolve(masses, law)
        missing += cut
    values = width * (first + np.arange(float(masses.size)))
    # products that vanish; where laws are cut off, so much that the cut ends decide nothing
    whole = width == 1 and values[-1] == sum(count for count, _ in groups)
    return values, masses, missing + (1e-280 if whole else 1e-60)


def _rounded_law(count: int, rate: float, width: int) -> tuple[int, Array, float]:
    """A binomial, rounded down to multiples of a width: the first one, masses, and what is left out."""
    low, high = _window(count, rate)
    first, last = low // width, high // width
    left = width * np.arange(first, last + 1.0)
    masses = np.exp(log_block_weights(np.append(0.0, left) if first else left, count, rate))
    return first, masses[1:] if first else masses, float(masses[0]) if first else 0.0


def _rate(values: Array, masses: Array, trials: int, missing: float) -> float:
    """The largest rate with which a binomial of so many trials is seen to be stochastically smaller."""
    error = 4.0 * UNIT_ROUNDOFF * masses.size + 1e-12
    below = np.cumsum(masses) * (1.0 + error) + missing
    beyond = np.append(np.cumsum(masses[::-1])[::-1][1:], 0.0) * (1.0 - error)

    def is_smaller(rate: float) -> bool:
        return _is_smaller(values, below, beyond, trials, rate, missing)

    return last_true(is_smaller, 0.0, 1.0, halvings=_HALVINGS)[0]


def _is_smaller(
    values: Array, below: Array, beyond: Array, trials: int, rate: float, missing: float
) -> bool:
    """Whether P[C <= v] <= P[Bin <= v] + 2 missing, from the tail that is small.

    `below` is not less than P[C <= v], and `beyond` not more than P[C > v].
    """
    error = MASS_ERROR + ratio_error(float(trials)) + 1e-12
    left = values <= trials * rate
    counts = np.minimum(values, trials)
    n = np.full(counts.shape, float(trials))
    log_at = log_mass(n, counts, rate)
    at = np.exp(log_at)
    own_below = at[left] * (1.0 + below_over_at(n[left], counts[left], rate, log_at[left]))
    own_beyond = at[~left] * beyond_over_at(n[~left], counts[~left], rate, log_at[~left])
    own_beyond[values[~left] >= trials] = 0.0
    fits_below = below[left] <= own_below * (1.0 - error) + 2.0 * missing
    fits_beyond = own_beyond * (1.0 + error) <= beyond[~left] + missing
    return bool(fits_below.all() and fits_beyond.all())


def law_of_sum(groups: Groups) -> tuple[Array, Array, float]:
    """The counts that a sum of binomials takes, their masses, and what these are off by, relatively.

    Masses below 1e-40 are left out: to these, what is left out of each group would matter.

    >>> counts, masses, _ = law_of_sum(((1, 0.5), (2, 0.25)))
    >>> (32.0 * masses).round(9).tolist()  # (1, 1)/2 and (9, 6, 1)/16
    [9.0, 15.0, 7.0, 1.0]
    """
    first, masses = 0, np.ones(1)
    for count, rate in groups:
        low, high = _window(count, rate)
        hits = np.arange(low, high + 1.0)
        law = np.exp(log_mass(np.full(hits.shape, float(count)), hits, rate))
        first += low
        masses = np.convolve(masses, law)
    kept = np.flatnonzero(masses > 1e-40)
    error = 2.0 * len(groups) * MASS_ERROR + 4.0 * UNIT_ROUNDOFF * masses.size
    return first + kept.astype(float), masses[kept], error


def products(groups: Groups) -> float:
    """About how many products `law_of_sum` takes."""
    size, total = 1.0, 0.0
    for count, rate in groups:
        low, high = _window(count, rate)
        total += size * (high - low + 1.0)
        size += high - low
    return total


def _window(count: int, rate: float) -> tuple[int, int]:
    """The counts of a group but for less than e^-140, by Bernstein's inequality."""
    away = _REACH * math.sqrt(count * rate * (1.0 - rate)) + 150.0
    return max(math.floor(count * rate - away), 0), min(math.ceil(count * rate + away), count)
