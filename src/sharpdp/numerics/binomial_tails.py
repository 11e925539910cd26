"""Binomial probabilities and tails for up to 10^12 trials, in log space, with stated error.

Masses follow Loader's saddle-point form (loader2000): a Stirling remainder plus a deviance, so that no
two large logarithms cancel. Tails are a mass times a ratio: from the incomplete beta function near the
center, from Gauss' continued fraction of the hypergeometric series beyond.
"""

from __future__ import annotations

import numpy as np

from sharpdp.numerics.scipy_special import betainc, betaincc, gauss_rule
from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, exact_product

_STIRLING_FROM = 16.0
"""From here on the Stirling remainder is an asymptotic series; five terms leave 1e-16."""

_STIRLING = (1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0)

_FRACTION_FROM, _SHALLOW_FROM = 3.0, 6.0
"""Standard deviations from the mean beyond which the continued fraction is used; with few steps."""

_SHALLOW, _DEEP, _NEXT_TO_MEAN = 30, 90, 60
"""Steps of the continued fraction: 1e-15 from six and from three deviations on; next to a small mean."""

_SMALL_VARIANCE = 400.0
"""Up to here the deeper fraction serves next to the mean too, and the beta function loses digits."""

_LARGE_VARIANCE, _HUGE_VARIANCE = 1e5, 1e8
"""From here on sums within a deviation of the mean are integrals with a midpoint correction, where the
beta function takes milliseconds; from there on also further out, where it loses digits."""

_REACH = 8.5
"""Deviations over which a tail is integrated; what lies beyond is e^-36 of it."""

_NODES = 28
"""Points of the integral: Gauss' rule reaches 1e-15 with them."""

_TINY = 1e-300

_MOST_BY_BETA = 1e11
"""Beyond, nodes of integrals are no less accurate than the beta function was before."""

_NEAR = 0.4
"""Relative distance below which the deviance is summed as a series, 21 terms of which reach 1e-17.

Beyond it numbers whose deviance is at most 800 are below 4000, and so is what rounding of a ratio to the
mean is multiplied by."""

_SERIES_TERMS = 21


def log_mass(trials: Array, hits: Array, rate: float) -> Array:
    """log P[M = hits] for M ~ Bin(trials, rate), -inf outside 0..trials.

    Numerics: absolute error below MASS_ERROR for values down to e^-800, if hits and trials are whole
    numbers; the rate is taken as the double that it is.

    >>> round(float(np.exp(log_mass(np.array([4.0]), np.array([1.0]), 0.5))[0]), 14)
    0.25
    """
    n, k = np.broadcast_arrays(np.asarray(trials, dtype=float), np.asarray(hits, dtype=float))
    miss = n - k
    inner = (k > 0.0) & (miss > 0.0)
    one_k, one_m = np.where(inner, k, 1.0), np.where(inner, miss, 1.0)
    total = one_k + one_m
    mean, rest = exact_product(total, rate)
    excess = (one_k - mean) - rest
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (
            _stirling_rest(total)
            - _stirling_rest(one_k)
            - _stirling_rest(one_m)
            - _deviance(one_k, mean, excess)
            - _deviance(one_m, total * (1.0 - rate), -excess)
            + 0.5 * np.log(total / (2.0 * np.pi * one_k * one_m))
        )
        none, all_ = n * np.log1p(-rate), n * np.log(rate)
    value = np.where(inner, value, np.where(k == 0.0, none, all_))
    return np.asarray(np.where((k < 0.0) | (miss < 0.0), -np.inf, value))


MASS_ERROR = 16.0 * 800.0 * UNIT_ROUNDOFF
"""Bound on the error of log_mass: the deviance is at most 800 and carries a few units."""


def beyond_over_at(trials: Array, hits: Array, rate: float, log_at: Array | None = None) -> Array:
    """P[M > hits] / P[M = hits] for M ~ Bin(trials, rate), hits at least a deviation below the mean.

    `log_at` is log P[M = hits], if it is known. Numerics: relative error below `ratio_error(trials)`,
    checked with arb for rates from 1e-13 to 1/2 and 10^12 trials.

    >>> round(float(beyond_over_at(np.array([4.0]), np.array([3.0]), 0.5)[0]), 14)
    0.25
    """
    n, k = np.broadcast_arrays(np.asarray(trials, dtype=float), np.asarray(hits, dtype=float))
    return _beyond(n, k, (rate, 1.0 - rate), log_at)


def below_over_at(trials: Array, hits: Array, rate: float, log_at: Array | None = None) -> Array:
    """P[M < hits] / P[M = hits] for M ~ Bin(trials, rate), hits at most a deviation above the mean.

    The same for the misses, without forming one minus a small rate.

    >>> round(float(below_over_at(np.array([4.0]), np.array([1.0]), 0.5)[0]), 14)
    0.25
    """
    n, k = np.broadcast_arrays(np.asarray(trials, dtype=float), np.asarray(hits, dtype=float))
    return _beyond(n, n - k, (1.0 - rate, rate), log_at)


def _beyond(n: Array, k: Array, rates: tuple[float, float], log_at: Array | None) -> Array:
    """The tail beyond k over the mass at k, for the rates of what is counted and of what is not."""
    rate, rest = rates
    variance = n * rate * rest
    excess = k - n * rate if rate <= rest else n * rest - (n - k)
    some = k < n
    distance = excess / np.sqrt(np.maximum(variance, _TINY))
    farther = some & (distance > _SHALLOW_FROM)
    few = some & ~farther & (variance <= _SMALL_VARIANCE)
    far = farther | few | (some & (distance > _FRACTION_FROM))
    slow = (variance >= _LARGE_VARIANCE) & (distance < 1.0)
    central = some & ~far & (slow | (variance >= _HUGE_VARIANCE))
    near = some & ~far & ~central
    ratio = np.zeros(n.shape)
    if central.any():
        ratio[central] = _integral(n[central], k[central], rates)
    if near.any():
        log_near = _log_count(n[near], k[near], rates) if log_at is None else log_at[near]
        ratio[near] = _tail(n[near], k[near], rates) * np.exp(-log_near)
    middle = far & ~farther & ~few
    for chosen, depth in ((farther, _SHALLOW), (middle, _DEEP), (few, _NEXT_TO_MEAN)):
        if chosen.any():
            ratio[chosen] = _fraction(n[chosen], k[chosen], rate / rest, depth)
    return ratio


def _log_count(n: Array, k: Array, rates: tuple[float, float]) -> Array:
    """log P[k of n are counted], from the smaller of the two rates."""
    rate, rest = rates
    return log_mass(n, k, rate) if rate <= rest else log_mass(n, n - k, rest)


def _tail(n: Array, k: Array, rates: tuple[float, float]) -> Array:
    """P[more than k of n are counted], from the smaller of the two rates."""
    rate, rest = rates
    return betainc(k + 1.0, n - k, rate) if rate <= rest else betaincc(n - k, k + 1.0, rest)


def ratio_error(trials: float) -> float:
    """Bound on the relative error of beyond_over_at up to three deviations from the mean.

    It is that of the beta function, and for very many trials that of rounded nodes of an integral;
    further out there is `fraction_error` only.
    """
    return 2e-15 + 1e-15 * float(np.sqrt(min(trials, _MOST_BY_BETA)))


def fraction_error(trials: float, distance: float) -> float:
    """Bound on the relative error of the continued fraction, `distance` deviations from the mean."""
    return 2e-15 + 7.5e-17 * float(np.sqrt(trials)) / distance


def tail_error(trials: float) -> float:
    """Bound on the error of a difference of mass and tail, relative to what it leaves.

    That is about one part in z^2 at z deviations: one in twelve where the beta function ends, one in
    2000 where values reach e^-800.
    """
    deepest = 40.0
    return 12.0 * ratio_error(trials) + 2000.0 * fraction_error(trials, deepest)


def _fraction(n: Array, k: Array, odds: float, depth: int) -> Array:
    """(n - k) odds / (k + 1) times Gauss' fraction of 2F1(1, k + 1 - n; k + 2; -odds)."""
    left, base = n - k, k + 2.0
    value = np.ones(n.shape)
    for m in range(depth, 0, -1):
        even = m * (n + m) / ((base + (2 * m - 2)) * (base + (2 * m - 1))) * odds
        value = 1.0 + even / value
        odd = np.maximum(left - m, 0.0) * (base + (m - 2)) * odds
        value = 1.0 - odd / ((base + (2 * m - 3)) * (base + (2 * m - 2))) / value
    return left * odds / (k + 1.0) / value


def _integral(n: Array, k: Array, rates: tuple[float, float]) -> Array:
    """Sum of f(j) over j > k as the integral from k + 1/2 on, plus f'(k + 1/2)/24, all over f(k).

    f is the mass as a smooth function; the next term of the midpoint rule is below 1e-3 / sigma^4.
    """
    rate, rest = rates
    sigma = np.sqrt(n * rate * rest)
    start, at = k + 0.5, _log_count(n, k, rates)
    half = 0.5 * _REACH * sigma
    nodes, weights = gauss_rule(_NODES)
    points = start[:, None] + half[:, None] * (nodes + 1.0)
    inside = np.minimum(points, n[:, None])
    grown = np.exp(_log_count(n[:, None], inside, rates) - at[:, None])
    slope = np.log((n - start + 0.5) / (start + 0.5) * (rate / rest))
    edge = slope * np.exp(_log_count(n, start, rates) - at)
    return np.asarray(half * (grown @ weights) + edge / 24.0)


def _stirling_rest(x: Array) -> Array:
    """log x! - log(sqrt(2 pi x) (x/e)^x) for x >= 1."""
    large = np.maximum(x, _STIRLING_FROM)
    inverse = 1.0 / (large * large)
    series = np.zeros(x.shape)
    for coefficient in reversed(_STIRLING):
        series = series * inverse + coefficient
    series = series / large
    small = x < _STIRLING_FROM
    if small.any():
        series[small] = _SMALL_RESTS[x[small].astype(np.int64)]
    return np.asarray(series)


def _small_rests() -> Array:
    """Stirling remainders of the whole numbers below the start of the series."""
    counts = np.arange(1.0, _STIRLING_FROM)
    log_factorial = np.cumsum(np.log(counts))
    rests = log_factorial - (0.5 * np.log(2.0 * np.pi * counts) + counts * np.log(counts) - counts)
    return np.concatenate([[0.0], rests])


_SMALL_RESTS = _small_rests()


def _deviance(x: Array, mean: Array, excess: Array) -> Array:
    """x log(x / mean) + mean - x for positive x = mean + excess, without cancellation where close."""
    share = excess / (x + mean)
    square = share * share
    series = np.zeros(x.shape)
    for term in range(_SERIES_TERMS, 0, -1):
        series = series * square + 1.0 / (2 * term + 1)
    close = excess * share + 2.0 * x * share * square * series
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = x * np.log(x / mean) - excess
    return np.asarray(np.where(np.abs(share) < _NEAR, close, apart))
