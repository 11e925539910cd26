"""Strategies of correlated noise for a training length: those that make sums over many steps accurate.

What is learned follows sums of gradients, x_1 + ... + x_t for every t, rather than single gradients. With
strategy C their noise is (A C^-1 z)_t, A the lower-triangular matrix of ones, and its variance for a
Toeplitz matrix is the sum of w_j^2 over j < t, where C w = (1, 1, ...). One example moves C x by at most

    sensitivity^2 = |c(0) + c(b) + ... + c((k - 1) b)|^2,    c(s) the column of step s,

if it takes part k times at a distance of b steps: exactly if the columns do not overlap, and for columns
that are nonnegative and descending. The product of both, its mean or its largest value over t, is what is
made small here. It is a plan, found in floating point: whatever comes out, `account` reads the privacy of
a run off the coefficients themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp._validate import count, invalid, is_among, short_repr
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.mechanisms.strategies import BandedStrategy, BufferedLinearToeplitz, Strategy

__all__ = ["banded_strategy", "buffered_strategy", "prefix_error"]

Floats = NDArray[np.float64]
Filter = tuple[Floats, Floats]
"""A Toeplitz matrix as a quotient of two polynomials in the shift: numerator, denominator."""

ERRORS = ("mean", "max")
MOST_STEPS = 1 << 22
"""Steps for which arrays of that length are worked on."""
MOST_BUFFERS = 12
UNSTABLE = 1e30
"""Noise of sums that grows beyond this is taken for endless."""


def banded_strategy(*, steps: int, bands: int, error: str = "mean") -> BandedStrategy:
    """The banded Toeplitz strategy whose sums are most accurate at equal sensitivity.

    An example may take part once in every ``bands`` steps or more rarely: then its columns do not
    overlap, and how often it does changes nothing about which strategy is best. Columns have norm 1, so
    that an example that takes part k times moves C x by sqrt(k) clipping norms, as without correlation.

    Found by L-BFGS from the square root of the matrix of ones, in O(steps * bands) for each iteration;
    that start is the best strategy for one participation and the largest error.

    Args:
        steps: length of the training run, at least 1.
        bands: number of diagonals, from 1 to steps; 1 is independent noise.
        error: "mean" for the mean squared error over all sums, "max" for that of the last one.

    Returns:
        The strategy.

    Raises:
        InvalidArgument: a number is out of range, or ``error`` is neither of the two.
        WrongType: a number is none.

    Source: mckenna2024; choquette2023banded for bands and separated participation.

    >>> strategy = banded_strategy(steps=100, bands=3)
    >>> first = strategy.coefficients[0]
    >>> [round(entry / first, 4) for entry in strategy.coefficients]
    [1.0, 0.7395, 0.622]
    >>> round(prefix_error(banded_strategy(steps=100, bands=1), steps=100), 4)  # sqrt(101 / 2)
    7.1063
    >>> round(prefix_error(strategy, steps=100), 4)
    4.374
    """
    length, weights = _length(steps), _weights(steps, error)
    wide = count(bands=bands, hint="It counts diagonals.")
    if wide > length:
        raise invalid("bands", f"at most steps = {length}", wide)
    entries = _square_root(wide)
    if wide > 1:

        def measured(later: Floats) -> tuple[float, Floats]:
            column = np.concatenate([[1.0], later])
            variance, slopes = _variance((column, np.ones(1)), weights)
            square = float(column @ column)
            gradient = slopes[:wide] / variance + 2.0 * column / square
            return math.log(variance) + math.log(square), gradient[1:]

        entries = np.concatenate([[1.0], _smallest(measured, entries[1:])])
    entries = entries / np.linalg.norm(entries)
    return BandedStrategy(coefficients=tuple(entries.tolist()))


def buffered_strategy(
    *,
    steps: int,
    buffers: int,
    separation: int | None = None,
    participations: int = 1,
    error: str = "mean",
) -> BufferedLinearToeplitz:
    """The strategy with few buffers (BLT) whose sums are most accurate at equal sensitivity.

    Its noise needs ``buffers`` vectors of memory, for any number of steps. Found by L-BFGS from
    several starts. Scales are positive, so that columns descend.

    Args:
        steps: length of the training run, at least 1.
        buffers: number of buffers, 1 to 12. Few do: two or three.
        separation: the least distance between two steps that use the same example; None (default) for
            steps / participations, rounded up.
        participations: the most steps that an example is in, at least 1.
        error: "mean" for the mean squared error over all sums, "max" for that of the last one.

    Returns:
        The strategy.

    Raises:
        InvalidArgument: a number is out of range, or ``error`` is neither of the two.
        WrongType: a number is none.

    Source: mcmahan2024; dvijotham2024 for one participation.

    >>> strategy = buffered_strategy(steps=1000, buffers=2, error="max")
    >>> [round(decay, 4) for decay in strategy.decays]
    [0.9981, 0.908]
    """
    length, weights = _length(steps), _weights(steps, error)
    number = count(buffers=buffers, hint="It counts buffers.")
    if number > MOST_BUFFERS:
        raise invalid("buffers", f"at most {MOST_BUFFERS}", number, "Two or three do.")
    starts = _starts(length, separation, participations)

    def measured(point: Floats) -> tuple[float, Floats]:
        decays, scales = _buffers_of(point)
        variance, slopes = _variance(_filter_of(scales, decays), weights)
        powers = decays[:, None] ** np.arange(length - 1)
        column = np.concatenate([[1.0], scales @ powers])
        square, square_slopes = _sensitivity(column, length, starts)
        gradient = (slopes / variance + square_slopes / square)[1:]
        lags = np.arange(1, length - 1)
        by_decay = scales * ((lags * powers[:, :-1]) @ gradient[1:])
        by_scale = powers @ gradient
        return (
            math.log(variance) + math.log(square),
            np.concatenate([by_decay * decays * (1.0 - decays), by_scale * scales]),
        )

    best = np.zeros(0)
    for size in range(1, number + 1):
        logits, logs = np.split(best, 2)
        begin = [
            np.concatenate([logits, [0.0], logs, [-9.0]])
        ]  # the best so far, and hardly one more
        for far in {length, starts.step}:
            smallest = 1.0 / (1.0 + far) if size > 1 else 1.0 / math.sqrt(1.0 + far)
            gaps = np.geomspace(smallest, 0.5, size)
            begin.append(np.concatenate([np.log((1.0 - gaps) / gaps), 0.5 * np.log(gaps)]))
        found = [_smallest(measured, point, largest=16.0) for point in begin]
        best = min(found, key=lambda point: measured(point)[0])
    decays, scales = _buffers_of(best)
    order = np.argsort(-decays)
    return BufferedLinearToeplitz(
        scales=tuple(scales[order].tolist()), decays=tuple(decays[order].tolist())
    )


def prefix_error(
    strategy: Strategy,
    *,
    steps: int,
    separation: int | None = None,
    participations: int = 1,
    error: str = "mean",
) -> float:
    """Root of the squared error of sums over steps, for noise multiplier and sensitivity 1.

    The number by which strategies are compared: at equal unamplified privacy, sums of clipped gradients
    are off by this many clipping norms per coordinate times the noise multiplier. An ordinary floating-
    point number about accuracy; no guarantee follows from it.

    Args:
        strategy: A strategy with constant diagonals.
        steps: length of the training run, at least 1.
        separation: the least distance between two steps that use the same example; None (default) for
            steps / participations, rounded up.
        participations: the most steps that an example is in, at least 1.
        error: "mean" for the mean over all sums, "max" for the last one.

    Returns:
        The root of the mean, or largest, squared error times sensitivity squared.

    Raises:
        InvalidArgument: a number is out of range, the strategy's diagonals are not constant, or ``error``
            is neither of the two.
        WrongType: an argument has the wrong type.

    >>> round(prefix_error(BandedStrategy(coefficients=(1.0,)), steps=100, error="max"), 9)
    10.0
    """
    length, weights = _length(steps), _weights(steps, error)
    if isinstance(strategy, type) or not isinstance(strategy, Strategy):
        raise WrongType(f"strategy must be a strategy matrix; got {short_repr(strategy)}.")
    if not strategy.toeplitz:
        raise InvalidArgument(
            f"strategy must have constant diagonals, as BandedStrategy has; got {strategy.describe()}."
        )
    column = strategy.column(0, length)
    if isinstance(strategy, BufferedLinearToeplitz):
        found = _filter_of(np.array(strategy.scales), np.array(strategy.decays))
    else:
        found = (column, np.ones(1))
    variance, _ = _variance(found, weights)
    square, _ = _sensitivity(column, length, _starts(length, separation, participations))
    return math.sqrt(variance * square)


def _length(steps: int) -> int:
    length = count(steps=steps, hint="It is the length of the training run.")
    if length > MOST_STEPS:
        raise invalid("steps", f"at most {MOST_STEPS:,} to look for a strategy", length)
    return length


def _weights(steps: int, error: str) -> Floats:
    """How often w_j^2 counts in the error: in T - j of T sums, or in the last one."""
    if not is_among(ERRORS, error):
        raise InvalidArgument(f"error must be 'mean' or 'max'; got {short_repr(error)}.")
    return np.ones(steps) if error == "max" else 1.0 - np.arange(steps) / steps


def _starts(steps: int, separation: int | None, participations: int) -> range:
    """The steps of an example that takes part as often and as closely as it may, from the first on."""
    times = count(participations=participations, hint="It counts the steps of one example.")
    apart = -(-steps // times) if separation is None else count(separation=separation)
    return range(0, min(steps, apart * times), apart)


def _square_root(entries: int) -> Floats:
    """Coefficients of (1 - x)^(-1/2): the square root of the matrix of ones."""
    k = np.arange(1, entries)
    return np.concatenate([[1.0], np.cumprod((k - 0.5) / k)])


def _variance(toeplitz: Filter, weights: Floats) -> tuple[float, Floats]:
    """The sum of weights w^2 with C w = 1, and its derivatives by the entries of C's first column.

    With the adjoint a, which solves C^T a = 2 weights w, the derivative by entry k is the sum of
    -a_t w_(t - k) over t.
    """
    from scipy.fft import irfft, next_fast_len, rfft
    from scipy.signal import lfilter

    numerator, denominator = toeplitz
    w = lfilter(denominator, numerator, np.ones(weights.size))
    if not np.abs(w).max() < UNSTABLE:  # a search may look there
        return UNSTABLE**2, np.zeros(weights.size)
    adjoint = lfilter(denominator, numerator, (2.0 * weights * w)[::-1])[::-1]
    padded = next_fast_len(2 * weights.size, real=True)
    slopes = -irfft(rfft(adjoint, padded) * np.conj(rfft(w, padded)), padded)[: weights.size]
    return float(weights @ (w * w)), slopes


def _sensitivity(column: Floats, steps: int, starts: range) -> tuple[float, Floats]:
    """Square of the norm of the sum of all columns that start there, and its derivatives."""
    total = np.zeros(steps)
    for start in starts:
        part = column[: steps - start]
        total[start : start + part.size] += part
    slopes = np.zeros(column.size)
    for start in starts:
        part = total[start : start + column.size]
        slopes[: part.size] += 2.0 * part
    return float(total @ total), slopes


def _filter_of(scales: Floats, decays: Floats) -> Filter:
    """1 + sum of scale x / (1 - decay x) as a quotient of two polynomials."""
    denominator = np.poly(decays)
    numerator = denominator.copy()
    for index, scale in enumerate(scales):
        others = np.atleast_1d(np.poly(np.delete(decays, index)))
        numerator[1 : 1 + others.size] += scale * others
    return np.asarray(numerator, dtype=np.float64), np.asarray(denominator, dtype=np.float64)


def _buffers_of(point: Floats) -> tuple[Floats, Floats]:
    """Decays in (0, 1) and positive scales of a point without constraints."""
    logits, logs = np.split(point, 2)
    return 1.0 / (1.0 + np.exp(-logits)), np.exp(logs)


def _smallest(
    measured: Callable[[Floats], tuple[float, Floats]], start: Floats, largest: float | None = None
) -> Floats:
    """The point at which the value is smallest, by L-BFGS with its gradient."""
    from scipy.optimize import minimize

    bounds = None if largest is None else [(-largest, largest)] * start.size
    options: Any = {"maxiter": 2000, "ftol": 1e-14, "gtol": 1e-9}
    found = minimize(measured, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    point: Floats = found.x
    return point
