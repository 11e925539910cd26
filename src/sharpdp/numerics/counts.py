"""Laws of whole numbers in log space, with stated error: binomial counts, lazy walks, hidden counts.

Binomial masses, for up to 10^12 trials, follow Loader's saddle-point form (loader2000): a Stirling
remainder plus a deviance, so that no two large logarithms cancel. Tails are a mass times a ratio: from
the incomplete beta function near the center, from Gauss' continued fraction of the hypergeometric series
beyond.

A lazy symmetric walk goes up or down by one with the same probability, or stays. Its masses are the
trapezoid sum of the tilted characteristic function around the circle, which is exact up to images a
circumference away; the cost does not depend on the number of steps.

`log_block_sum` sums over a hidden count, at many thresholds at once. A term is the probability of a
block of counts times a kernel at the block's left end. For each threshold only the blocks that matter are
looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from sharpdp.bracket import Side
from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    betainc,
    betaincc,
    complex_log1p,
    exact_product,
    gauss_rule,
)

MASS_ERROR = 16.0 * 800.0 * UNIT_ROUNDOFF
"""Bound on the error of log_mass: the deviance is at most 800 and carries a few units."""

WALK_ACCURACY = 1e-12
"""Bound on the error of log_step_mass and log_step_tail for values down to e^-800, checked with arb."""

_COARSE = 48
"""Blocks at which a threshold is looked at first, to see which others matter."""

_LOG_NOTHING = -1e300
"""Stands for the logarithm of zero where differences are taken."""

_LEAST_ASKED, _MOST_TRIALS, _MOST_TABLED, _WIDEST, _PANEL = 1 << 13, 1 << 22, 1 << 22, 1 << 20, 32
"""From so many questions on masses are read off a table, for at most so many numbers of trials; all at
once if it has at most so many entries, and no more neighbors than this. Logarithms are computed afresh
after so many of these, so that products of 10^9 do not overflow in between."""

_COLUMN, _ANSWER, _SLOWER, _SMALL = 500, 10, 35, 1600
"""What takes as long as so many entries of a table: to begin a column, an answer without a table, and so
much more of it near the mean, unless there are few trials."""

Kernel = Callable[[Array, Array], tuple[Array, Array]]
"""At (count, threshold): a logarithm, and values in units of its exponential, stacked and not negative;
the last one decides which counts matter."""


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
    """The tail beyond k over the mass at k, for the rates of what is counted and of what is not.

    The continued fraction from three deviations on, to 1e-16 by 56 steps, 28 from 4.5 on, or 20 from six
    on; where the variance is small 60 serve next to the mean too, where the beta function loses digits.
    An integral with a midpoint correction next to the mean where the beta function takes milliseconds,
    and out to three deviations where it loses digits. The beta function elsewhere.
    """
    rate, rest = rates
    variance = n * rate * rest
    excess = k - n * rate if rate <= rest else n * rest - (n - k)
    some = k < n
    distance = excess / np.sqrt(np.maximum(variance, 1e-300))
    farther = some & (distance > 6.0)
    few = some & ~farther & (variance <= 400.0)
    far = farther | few | (some & (distance > 3.0))
    slow = (variance >= 1e5) & (distance < 1.0)
    central = some & ~far & (slow | (variance >= 1e8))
    near = some & ~far & ~central
    ratio = np.zeros(n.shape)
    if central.any():
        ratio[central] = _integral(n[central], k[central], rates)
    if near.any():
        log_near = _log_count(n[near], k[near], rates) if log_at is None else log_at[near]
        ratio[near] = _tail(n[near], k[near], rates) * np.exp(-log_near)
    middle = far & ~farther & ~few
    close = middle & (distance <= 4.5)
    for chosen, depth in ((farther, 20), (middle & ~close, 28), (close, 56), (few, 60)):
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

    It is that of the beta function, and for more than 1e11 trials that of rounded nodes of an integral,
    which are no less accurate; further out there is `fraction_error` only.
    """
    return 2e-15 + 1e-15 * float(np.sqrt(min(trials, 1e11)))


def fraction_error(trials: float, distance: float) -> float:
    """Bound on the relative error of the continued fraction, `distance` deviations from the mean.

    That of the recurrence in `fair_coins`, too: three roundings at each step, of which one plus the ratio
    are felt, at most half of sqrt(trials) / distance.
    """
    return 2e-15 + 1.7e-16 * float(np.sqrt(trials)) / distance


def tail_error(trials: float) -> float:
    """Bound on the error of a difference of mass and tail, relative to what it leaves.

    That is about one part in z^2 at z deviations: one in twelve where the beta function ends, one in
    2000 where values reach e^-800.
    """
    deepest = 40.0
    return 12.0 * ratio_error(trials) + 2000.0 * fraction_error(trials, deepest)


def _fraction(n: Array, k: Array, odds: float, depth: int) -> Array:
    """(n - k) odds / (k + 1) times Gauss' fraction of 2F1(1, k + 1 - n; k + 2; -odds).

    The fraction is written with whole denominators, (k + 1) - a_1 / ((k + 2) + b_1 / ((k + 3) - ...)),
    so that a level takes one division, in arrays that are used again.
    """
    left, above = n - k, k + 1.0
    value = above + 2 * depth
    term = np.empty(value.shape)
    for m in range(depth, 0, -1):
        np.add(n, m, out=term)
        term *= m * odds
        term /= value
        np.add(above, 2 * m - 1, out=value)
        value += term
        np.subtract(left, m, out=term)
        np.maximum(term, 0.0, out=term)
        term *= odds
        term /= value
        np.add(above, m - 1, out=value)
        term *= value
        value += m - 1
        value -= term
    np.divide(left * odds, value, out=value)
    return value


def _integral(n: Array, k: Array, rates: tuple[float, float]) -> Array:
    """Sum of f(j) over j > k as the integral from k + 1/2 on, plus f'(k + 1/2)/24, all over f(k).

    f is the mass as a smooth function; the next term of the midpoint rule is below 1e-3 / sigma^4. What
    lies beyond 8.5 deviations is e^-36 of a tail; Gauss' rule with 28 points reaches 1e-15 over them.
    """
    rate, rest = rates
    sigma = np.sqrt(n * rate * rest)
    start, log_at = k + 0.5, _log_count(n, k, rates)
    half = 0.5 * 8.5 * sigma
    nodes, weights = gauss_rule(28)
    points = start[:, None] + half[:, None] * (nodes + 1.0)
    inside = np.minimum(points, n[:, None])
    grown = np.exp(_log_count(n[:, None], inside, rates) - log_at[:, None])
    slope = np.log((n - start + 0.5) / (start + 0.5) * (rate / rest))
    edge = slope * np.exp(_log_count(n, start, rates) - log_at)
    return np.asarray(half * (grown @ weights) + edge / 24.0)


def _stirling_rest(x: Array) -> Array:
    """log x! - log(sqrt(2 pi x) (x/e)^x) for x >= 1.

    From 16 on an asymptotic series, five terms of which leave 1e-16; a table of whole numbers before.
    """
    start = 16.0
    large = np.maximum(x, start)
    inverse = 1.0 / (large * large)
    series = np.zeros(x.shape)
    for coefficient in (1.0 / 1188.0, -1.0 / 1680.0, 1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0):
        series = series * inverse + coefficient
    series = series / large
    small = x < start
    if small.any():
        series[small] = _small_rests(start)[x[small].astype(np.int64)]
    return np.asarray(series)


@cache
def _small_rests(start: float) -> Array:
    """Stirling remainders of the whole numbers below the start of the series."""
    counts = np.arange(1.0, start)
    log_factorial = np.cumsum(np.log(counts))
    rests = log_factorial - (0.5 * np.log(2.0 * np.pi * counts) + counts * np.log(counts) - counts)
    return np.concatenate([[0.0], rests])


def _deviance(x: Array, mean: Array, excess: Array) -> Array:
    """x log(x / mean) + mean - x for positive x = mean + excess, without cancellation where close.

    Below a relative distance of 0.4 it is a series, 21 terms of which reach 1e-17. Beyond it numbers
    whose deviance is at most 800 are below 4000, and so is what rounding of a ratio to the mean is
    multiplied by.
    """
    share = excess / (x + mean)
    square = share * share
    series = np.zeros(x.shape)
    for term in range(21, 0, -1):
        series = series * square + 1.0 / (2 * term + 1)
    close = excess * share + 2.0 * x * share * square * series
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = x * np.log(x / mean) - excess
    return np.asarray(np.where(np.abs(share) < 0.4, close, apart))


def fair_coins(trials: Array, hits: Array) -> tuple[Array, Array]:
    """log P[B = b] and P[B < b] / P[B = b] for B ~ Bin(c, 1/2), b at most a deviation above the mean.

    Many of them are read off a table. In that, ratios follow R(b + 1) = (R(b) + 1)(b + 1)/(c - b): all
    terms are positive, and an error is multiplied by R/(R + 1) from step to step. Numerics: the errors
    are those of `log_mass` and `beyond_over_at`; two roundings a step between two of its values are a
    part of MASS_ERROR.

    >>> log_at, ratio = fair_coins(np.array([4.0]), np.array([1.0]))
    >>> round(float(np.exp(log_at)[0]), 12), round(float(ratio[0]), 12)
    (0.25, 0.25)
    """
    c, b = np.broadcast_arrays(trials, hits)
    if c.size >= _LEAST_ASKED:
        lowest, highest = int(c.min()), int(c.max())
        if highest <= 10**9 and highest - lowest < _MOST_TRIALS:
            index = (c - lowest).astype(np.int64)
            is_asked = np.zeros(highest - lowest + 1, dtype=bool)
            is_asked[index] = True
            rows: Array = np.flatnonzero(is_asked) + np.float64(lowest)
            row = (np.cumsum(is_asked) - 1)[index]
            first = np.full(rows.size, np.inf)
            np.minimum.at(first, row.ravel(), b.ravel())
            column = (b - first[row]).astype(np.int64)
            width = int(column.max()) + 1
            if rows.size * width <= min(8 * c.size, _MOST_TABLED):
                return _read_off_coins(rows, first, row, column)
            near = np.count_nonzero((c - 2.0 * b < 3.0 * np.sqrt(c)) & (c > _SMALL))
            cost = width * (_COLUMN + rows.size)
            if cost < _ANSWER * c.size + _SLOWER * near and width <= _WIDEST:
                return _read_off_coins(rows, first, row, column)
    log_at = log_mass(c, b, 0.5)
    return log_at, beyond_over_at(c, c - b, 0.5, log_at)


def _read_off_coins(
    c: Array, first: Array, row: NDArray[np.int64], column: NDArray[np.int64]
) -> tuple[Array, Array]:
    """`fair_coins` for b = first + column, with the trials of some rows, off a table in panels."""
    width = int(column.max()) + 1
    panels = _coin_panels(c, first, width)
    if c.size * width <= _MOST_TABLED:
        tables = (np.concatenate(some).ravel() for some in zip(*panels, strict=True))
        log_at, ratio = (table[row + c.size * column] for table in tables)
        return log_at, ratio
    log_at, ratio = np.empty(row.size), np.empty(row.size)
    panel, place = column.ravel() // _PANEL, (column.ravel() % _PANEL) * c.size + row.ravel()
    order = np.argsort(panel.astype(np.uint16), kind="stable")
    ends = np.searchsorted(panel, np.arange(int(panel.max()) + 2), sorter=order).tolist()
    for (logs, ratios), (begin, end) in zip(panels, pairwise(ends), strict=True):
        asked = order[begin:end]
        log_at[asked], ratio[asked] = logs.ravel()[place[asked]], ratios.ravel()[place[asked]]
    return log_at.reshape(row.shape), ratio.reshape(row.shape)


def _coin_panels(c: Array, first: Array, width: int) -> Iterator[tuple[Array, Array]]:
    """`fair_coins` for so many b = first, first + 1, ... at each number of trials, some at a time."""
    here = beyond_over_at(c, c - first, 0.5)
    for start in range(0, width, _PANEL):
        log_at, ratio, here = _coin_panel(c, first + start, here, min(width - start, _PANEL))
        yield log_at, ratio


def _coin_panel(c: Array, first: Array, here: Array, width: int) -> tuple[Array, Array, Array]:
    """`fair_coins` for so many b = first, first + 1, ... (one row each) at each number of trials.

    `here` are the ratios at the first ones; those just after the panel are returned, too.
    """
    log_at, ratio = np.empty((width, c.size)), np.empty((width, c.size))
    log_at[0], share = log_mass(c, first, 0.5), np.ones(c.size)
    with np.errstate(over="ignore", divide="ignore"):  # where a row has more than is asked for
        for column in range(width):
            ratio[column] = here
            hits, left = first + (column + 1.0), np.maximum(c - first - column, 1.0)
            here = (here + 1.0) * hits / left
            if column + 1 < width:
                log_at[column + 1] = share = share * left / hits
        log_at[1:] = np.log(log_at[1:]) + log_at[0]
    return log_at, ratio, here


def log_step_mass(steps: int, each: float, position: Array) -> Array:
    """log P[W = position] for whole positions >= 0; `each` is the probability of +1, and of -1.

    >>> round(float(np.exp(log_step_mass(2, 0.25, np.array([1.0])))[0]), 12)  # 2 * 1/4 * 1/2
    0.25
    """
    value = np.where(position == steps, steps * np.log(each), -np.inf)
    value[position < steps] = _log_circle(steps, each, position[position < steps], tail=False)
    return value


def log_step_tail(steps: int, each: float, position: Array) -> Array:
    """log P[W > position] for whole positions >= 0.

    >>> round(float(np.exp(log_step_tail(2, 0.25, np.array([0.0])))[0]), 12)  # 1/4 + 1/16
    0.3125
    """
    value = np.full(position.shape, -np.inf)
    value[position < steps] = _log_circle(steps, each, position[position < steps], tail=True)
    return value


def _log_circle(steps: int, each: float, position: Array, *, tail: bool) -> Array:
    """log of e^{-theta k} M^steps times the mean over the circle of what is left."""
    stay = 1.0 - 2.0 * each
    # the saddle: each (steps - k) x^2 - k stay x - each (steps + k) = 0 for x = e^theta, k the position
    root = np.sqrt((position * stay) ** 2 + 4.0 * each**2 * (steps - position) * (steps + position))
    theta = np.log((position * stay + root) / (2.0 * each * (steps - position)))
    deviation = _deviation(steps, each, theta)
    if tail:
        theta = np.maximum(theta, 1.5 / deviation)  # so that images stay below e^-45
        deviation = _deviation(steps, each, theta)
    value = np.empty(position.shape)
    whole = deviation < 8.0
    for chosen, circle in ((whole, True), (~whole, False)):
        if chosen.any():
            rows = (position[chosen], theta[chosen], deviation[chosen])
            mean = _mean(steps, each, *rows, tail=tail, circle=circle)
            value[chosen] = np.log(np.maximum(mean, 0.0))
    log_moment = np.log1p(4.0 * each * np.sinh(0.5 * theta) ** 2)
    return np.asarray(value + steps * log_moment - theta * position)


def _deviation(steps: int, each: float, theta: Array) -> Array:
    """Standard deviation of the tilted walk."""
    moment = 1.0 - 2.0 * each + 2.0 * each * np.cosh(theta)
    drift = 2.0 * each * np.sinh(theta) / moment
    return np.asarray(
        np.sqrt(steps * np.maximum(2.0 * each * np.cosh(theta) / moment - drift**2, 0.0))
    )


def _mean(
    steps: int,
    each: float,
    position: Array,
    theta: Array,
    deviation: Array,
    *,
    tail: bool,
    circle: bool,
) -> Array:
    """The mean of the tilted characteristic function times e^{-i t k}; over 1 - e^{-z} for a tail.

    Over 256 points of the whole circle, or with images 30 deviations away, which are e^-45 of the value
    and less; 56 frequencies then reach 11.7 deviations of the characteristic function, where it is e^-68.
    """
    count = 128 if circle else 56
    around = np.full(position.shape, 256.0) if circle else 30.0 * deviation
    t = 2.0 * np.pi * np.arange(count + 1.0) / around[:, None]
    cosh, sinh = np.cosh(theta)[:, None], np.sinh(theta)[:, None]
    moment = 1.0 - 2.0 * each + 2.0 * each * cosh
    change = -2.0 * cosh * np.sin(0.5 * t) ** 2 + 1j * sinh * np.sin(t)
    with np.errstate(divide="ignore"):
        log_value = steps * complex_log1p(2.0 * each / moment * change)
    value = np.exp(log_value - 1j * t * position[:, None])
    if tail:
        value = value / np.expm1(theta[:, None] + 1j * t)
    weights = np.full(count + 1, 2.0)
    weights[0] = 1.0
    if circle:
        weights[-1] = 1.0
    return np.asarray((value.real @ weights) / around)


def log_block_sum(
    threshold: Array, left: Array, log_weight: Array, kernel: Kernel, side: Side
) -> Array:
    """log of the sums over blocks of e^log_weight times the kernel's values at their left ends.

    Holds when: on the upper side the kernel falls with the count, so that blocks that hardly matter
    may be taken together at the left end of a run of them; on the lower side they are left out.

    >>> def kernel(count, threshold):  # one everywhere
    ...     shape = np.broadcast(count, threshold).shape
    ...     return np.zeros(shape), np.ones((1, *shape))
    >>> weights = np.log(np.array([0.5, 0.5]))
    >>> float(log_block_sum(np.zeros(1), np.array([0.0, 1.0]), weights, kernel, Side.UPPER)[0, 0])
    0.0
    """
    if threshold.size == 0 or left.size <= 2 * _COARSE:
        log_unit, values = kernel(left[None, :], threshold[:, None])
        return _log_total(log_unit + log_weight, values)
    return _pruned(threshold, left, log_weight, kernel, side)


def _log_total(log_unit: Array, values: Array) -> Array:
    """log of the sums of values times e^log_unit along the last axis."""
    peak = np.maximum(np.max(log_unit, axis=-1, keepdims=True, initial=-np.inf), _LOG_NOTHING)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.sum(np.exp(log_unit - peak) * values, axis=-1)) + peak[..., 0])


def _pruned(k: Array, left: Array, log_weight: Array, kernel: Kernel, side: Side) -> Array:
    """log sums over blocks, those that hardly matter taken together or left out."""
    starts = np.unique(np.linspace(0, left.size - 1, _COARSE).astype(np.int64))
    runs = np.logaddexp.reduceat(log_weight, starts)
    log_unit, values = kernel(left[None, starts], k[:, None])
    with np.errstate(divide="ignore"):
        decisive = log_unit + np.log(values[-1])
    peak = np.maximum((decisive + log_weight[starts]).max(axis=1), _LOG_NOTHING)
    # blocks that many nats below the largest add less than e^-36 of the sum
    matters = decisive + runs >= peak[:, None] - 42.0
    # one run more on each side, since a run may matter although its left end does not
    first = np.maximum(np.argmax(matters, axis=1) - 1, 0)
    last = np.minimum(starts.size - np.argmax(matters[:, ::-1], axis=1), starts.size - 1)
    stops = np.append(starts, left.size)
    begin, stop = starts[first], stops[last + 1]
    inner = _ragged(k, begin, stop - begin, left, log_weight, kernel)
    if side is Side.LOWER:
        return inner
    run = np.arange(starts.size)
    aside = (run < first[:, None]) | (run > last[:, None])
    rest = _log_total(np.where(aside, log_unit + runs, -np.inf), values)
    return np.asarray(np.logaddexp(rest, inner))


def _ragged(
    k: Array,
    begin: NDArray[np.int64],
    size: NDArray[np.int64],
    left: Array,
    log_weight: Array,
    kernel: Kernel,
) -> Array:
    """log sums over `size` blocks from `begin` on, a different range for each threshold."""
    at_once = max(1, (1 << 20) // int(size.max(initial=1)))  # terms held in memory at the same time
    sums = []
    for start in range(0, k.size, at_once):
        part = slice(start, start + at_once)
        sizes, stops = size[part], np.cumsum(size[part])
        firsts = stops - sizes
        block = np.arange(stops[-1]) + np.repeat(begin[part] - firsts, sizes)
        log_unit, values = kernel(left[block], np.repeat(k[part], sizes))
        log_unit = log_unit + log_weight[block]
        peak = np.maximum(np.maximum.reduceat(log_unit, firsts), _LOG_NOTHING)
        grown = np.exp(log_unit - np.repeat(peak, sizes)) * values
        with np.errstate(divide="ignore"):
            sums.append(peak + np.log(np.add.reduceat(grown, firsts, axis=-1)))
    return np.concatenate(sums, axis=-1)
