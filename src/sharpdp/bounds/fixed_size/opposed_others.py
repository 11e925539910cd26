"""Many steps over random subsets, from above: others against the record are nearly the worst throughout.

In one step the record has means u and 0 (zero-out), another record in its place v; noise one, none longer
than mu, c = <u, v> / mu^2. For x >= 1 let

    G_x(d, q, e) = E(r - x r Y - (x - 1)(1 - r) Z)_+

with Y, Z lognormal, mean one, log-variances mu^2 d and mu^2 q and log-covariance mu^2 e. Then

    H_x(P||Q) <= A_x(c) = G_x(1, 2 - 2c, 1 - c),    H_x(Q||P) <= B_x(c) = G_x(1, 1, c):

A falls with c and B rises. `pairs.subset_zero_out` takes A at c = -1 and B at c = 1, though no step has
both. Here D has A at -1 and B at some c_1 near -1, and the run is dominated by

    D in every step, and once dP/dQ = 1/M, where under P  M has density ~ m^-a from (a - 2)/(a - 1) on

if in all cells [c_i, c_{i+1}] beyond c_1

    int_1^oo x^-a (A_x(-1) - A_x(c_i)) dx >= int_1^oo x^{a-3} (B_x(c_{i+1}) - B_x(c_1))_+ dx.

The proof is in docs/shuffled-batches.md.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import numpy as np

from sharpdp.bounds.fixed_size.pairs import DisplacedPair
from sharpdp.bracket import Side
from sharpdp.numerics.convex_order import WIDEST_CELL, lognormal
from sharpdp.numerics.special import Array, ndtr
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import CallSide, calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

LEAST_MU, MOST_MU = 0.05, 4.0
"""Distances in units of the noise for which cells are tried; beyond them nothing is gained."""

_COSINES = (-0.95, -0.9, -0.7, -0.4, 0.2, 1.0)
"""The first one that is met is c_1; the others are the ends of cells."""

_POWERS = (12.0, 10.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0)
"""The powers a that are tried; the largest costs least."""

_REST = 1e-12
"""In units of the rate: twice of what is added to G, beyond its rounding. That much is revealed in every
step of Q against P, so that smaller B need not be compared."""

_MARGIN = 1e-9
"""Beyond the rounding of masses and logarithms."""

_REACH, _NEWTON_STEPS = 6.5, 12
_FIRST, _LOG_LEAST, _LARGEST_LOSS = 1e-4, -140.0, 400.0
"""Thresholds: the first in units of the value at zero; the log at which A ends; and a loss beyond all."""

_FINE, _COARSE, _LOOSE = 1.01, 1.05, 1.1
"""Ratios of thresholds: of A and of B in the pair, and of both in conditions."""

_RIEMANN = 1.0015
"""Ratio of thresholds at which conditions are summed up."""


def opposed_others(mu: float, rate: float) -> tuple[AtomicPair, AtomicPair] | None:
    """The pair D of every step and the one that is added once; None if no condition is met.

    Holds when: LEAST_MU <= mu <= MOST_MU, 0 < rate < 1.

    Numerics: given the part of Z that is independent of Y, the integrand is positive on an interval whose
    ends Newton's method finds from outside; what it may leave out is added. That part is spread over
    nodes with its mean kept, which raises the mean of a convex function. Profiles are convex in x, so
    chords are above them. Integrals of conditions are sums over the worse ends of small cells.
    """
    found = _condition(mu, rate)
    if found is None:
        return None
    cosine, power = found
    ahead, behind = DisplacedPair(mu, rate), PoissonSampledPair(GaussianPair(mu), rate)
    start = float(np.exp(ahead.log_hockey_stick(np.zeros(1))[0]))
    first = _thresholds(start, _end(ahead, _LOG_LEAST), _FINE)
    second = _thresholds(start, _end(behind, _log_rest(rate)), _COARSE)
    calls, revealed = _half(first, np.exp(ahead.log_hockey_stick(first) + ahead.accuracy))
    puts, lost = _half(second, against_null(second, mu, rate, cosine))
    pair = pair_from_halves(calls, puts, side=Side.UPPER, infinite=(revealed, lost))
    return pair, power_pair(power)


def _half(losses: Array, values: Array) -> tuple[CallSide, float]:
    """Masses above these values, but for what is left at the last one, which counts as revealed."""
    values = np.minimum.accumulate(values)
    rest = float(values[-1])
    end = int(np.argmax(values <= rest))
    calls = calls_above(losses[:end], np.log(values[:end] - rest) + _MARGIN, float(losses[end]))
    return calls, rest * (1.0 + _MARGIN)


def _thresholds(start: float, end: float, growth: float) -> Array:
    count = int(np.log(end / (_FIRST * start)) / np.log(growth)) + 2
    return np.append(0.0, np.geomspace(_FIRST * start, end, count))


def _log_rest(rate: float) -> float:
    """Below what is revealed in every step."""
    return float(np.log(0.4 * _REST * rate))


def _end(pair: DisplacedPair | PoissonSampledPair, log_least: float) -> float:
    """A loss at which the profile is smaller than that; at the last one it is below all doubles."""
    losses = np.geomspace(1e-6, _LARGEST_LOSS, 400)
    return float(losses[np.argmax(pair.log_hockey_stick(losses) + pair.accuracy < log_least)])


def against_null(losses: Array, mu: float, rate: float, cosine: float) -> Array:
    """B at e^loss from above, loss >= 0, for others at this cosine, which is not 0, to the record.

    >>> round(float(against_null(np.zeros(1), 1.0, 0.5, -0.5)[0]), 7)  # Phi(1/2) - 1/2
    0.1914625
    """
    return _raised(losses, mu, rate, (1.0, 1.0, cosine))


def with_record(losses: Array, mu: float, rate: float, cosine: float) -> Array:
    """A at e^loss from above, loss >= 0, for others at this cosine, below one, to the record."""
    return _raised(losses, mu, rate, (1.0, 2.0 - 2.0 * cosine, 1.0 - cosine))


def _raised(losses: Array, mu: float, rate: float, entries: tuple[float, float, float]) -> Array:
    """G from above; d is one."""
    _, variance, covariance = entries
    slope = covariance * mu
    spread = mu * np.sqrt(max(variance - covariance**2, 0.0))
    shares, masses = np.ones(1), np.ones(1)
    if spread > 0.0:
        cells = int(np.ceil((2.0 * _REACH + spread) / WIDEST_CELL)) + 1
        law = lognormal(spread, np.linspace(-_REACH, _REACH + spread, cells), Side.UPPER)
        shares, masses = law.values, law.masses
    x = np.exp(losses)[:, None]
    alpha = x * rate * np.exp(-0.5 * mu * mu)
    beta = np.expm1(losses)[:, None] * (1.0 - rate) * np.exp(-0.5 * slope**2) * shares
    mean = _positive_part(rate, alpha, mu, beta, slope) @ masses
    return np.asarray(mean * (1.0 + _MARGIN) + 0.5 * _REST * rate)


def _positive_part(rate: float, alpha: Array, mu: float, beta: Array, slope: float) -> Array:
    """E(rate - alpha e^{mu z} - beta e^{slope z})_+ from above, z standard normal, entry by entry.

    The function is concave in z. Newton's method for its ends starts where one term alone makes it
    negative, and stays where it is: between the end and the last iterate the function is at least its
    value there.
    """
    alpha = np.broadcast_to(alpha, beta.shape)

    def value(z: Array) -> Array:
        return np.asarray(rate - alpha * np.exp(mu * z) - beta * np.exp(slope * z))

    def steepness(z: Array) -> Array:
        return np.asarray(-alpha * mu * np.exp(mu * z) - beta * slope * np.exp(slope * z))

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        both = np.log(rate / alpha) / mu, np.log(rate / beta) / slope
        nearer = np.log(0.5 * rate / alpha) / mu, np.log(0.5 * rate / beta) / slope
        if slope > 0.0:
            right, top = np.minimum(*both), np.minimum(*nearer)
            left, peak = np.full(beta.shape, -np.inf), np.full(beta.shape, rate)
        else:
            right, left = both
            top = np.where(beta > 0.0, np.log(-slope * beta / (mu * alpha)) / (mu - slope), -40.0)
            peak = value(top)
        alive = (peak > 0.0) & (right > left)
        right, left = np.where(alive, right, 0.0), np.where(alive, left, -np.inf)
        for _ in range(_NEWTON_STEPS):
            right = right - value(right) / steepness(right)
            moved = left - value(left) / steepness(left)
            left = np.where(np.isfinite(left), moved, left)
        missing = np.maximum(-value(right), 0.0) * np.abs(right - top)
        at_left = np.where(np.isfinite(left), np.maximum(-value(left), 0.0) * (top - left), 0.0)
        inside = (
            rate * _between(left, right, 0.0)
            - alpha * np.exp(0.5 * mu * mu) * _between(left, right, mu)
            - beta * np.exp(0.5 * slope**2) * _between(left, right, slope)
        )
        total = np.minimum(np.maximum(inside, 0.0) + missing + at_left, np.maximum(peak, 0.0))
    return np.where(alive, total, 0.0)


def _between(left: Array, right: Array, mean: float) -> Array:
    """N(mean, 1) between the two, as a difference of the smaller tails."""
    low, high = left - mean, right - mean
    return np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


@lru_cache(maxsize=64)
def _condition(mu: float, rate: float) -> tuple[float, float] | None:
    """The c_1 and the largest power for which the condition of the theorem holds."""
    ahead, behind = DisplacedPair(mu, rate), PoissonSampledPair(GaussianPair(mu), rate)
    start = float(np.exp(ahead.log_hockey_stick(np.zeros(1))[0]))
    end = _end(behind, _log_rest(rate))
    knots, fine = _thresholds(start, end, _LOOSE), _thresholds(start, end, _RIEMANN)
    x = np.exp(fine)
    highest = np.exp(ahead.log_hockey_stick(fine) - ahead.accuracy)
    # over a small cell profiles fall: what is worse at its two ends counts
    less, more = {}, {}
    for low, high in pairwise(_COSINES):
        chord = np.interp(x, np.exp(knots), with_record(knots, mu, rate, low))
        less[low] = np.maximum(highest[1:] - chord[:-1], 0.0)
        chord = np.interp(x, np.exp(knots), against_null(knots, mu, rate, high))
        more[high] = np.maximum(chord[:-1] - _REST * rate, 0.0)
    for power in _POWERS:
        gained, paid = _weights(fine, 1.0 - power), _weights(fine, power - 2.0)
        for first in range(3):
            cells = pairwise(_COSINES[first:])
            if all(
                less[low] @ gained >= more[high] @ paid * (1.0 + _MARGIN) for low, high in cells
            ):
                return _COSINES[first], power
    return None


def _weights(losses: Array, exponent: float) -> Array:
    """The integral of e^{exponent loss} over each cell."""
    width = np.diff(losses)
    return np.asarray(np.exp(exponent * losses[:-1]) * np.expm1(exponent * width) / exponent)


@lru_cache(maxsize=16)
def power_pair(power: float) -> AtomicPair:
    """The pair that is added once, dP/dQ = 1/M for a power law of M under P, from above.

    With a the power and t = log((a - 1)/(a - 2)), the loss is t - E, E exponential at rate a - 1 under P
    and a - 2 under Q:

        H_x(P||Q) = 1 - e^{-(a-1)(t-k)} - e^k (1 - e^{-(a-2)(t-k)}),   x = e^k <= e^t,
        H_x(Q||P) = e^{-(a-2)(t+k)} - e^k e^{-(a-1)(t+k)} = e^{-(a-2)(t+k)} / (a - 1)

    >>> power_pair(6.0).losses[-1] < 0.2232  # log(5/4) = 0.22314
    True
    """
    most = float(np.log((power - 1.0) / (power - 2.0)))
    losses = np.linspace(0.0, most, 300)[:-1]
    rest = most - losses
    values = -np.expm1(-(power - 1.0) * rest) + np.exp(losses) * np.expm1(-(power - 2.0) * rest)
    # rounded, these are off by some units of one
    ahead = calls_above(losses, np.log(values + 1e-14) + _MARGIN, most * (1.0 + 1e-12) + 1e-12)
    losses = np.append(0.0, np.geomspace(1e-3, 40.0 / (power - 2.0), 400))
    values = np.exp(-(power - 2.0) * (most + losses)) / (power - 1.0)
    behind, revealed = _half(losses, values)
    return pair_from_halves(ahead, behind, side=Side.UPPER, infinite=(0.0, revealed))
