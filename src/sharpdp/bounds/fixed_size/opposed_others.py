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

The proof is in docs/proofs/shuffled-batches.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise

import numpy as np

from sharpdp.bounds.fixed_size.pairs import DisplacedPair
from sharpdp.bracket import Side
from sharpdp.numerics.matrix_product import weighted_sums
from sharpdp.numerics.special import Array, cell_masses, log_normal_call, ndtr
from sharpdp.numerics.tolerances import PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import CallSide, calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import PoissonSampledPair

LEAST_MU, MOST_MU = 0.05, 4.0
"""Distances in units of the noise for which cells are tried; beyond them nothing is gained."""

_COSINES, _TRIED = (-0.97, -0.9, -0.7, -0.4, 0.2, 1.0), 3
"""One of the first three is c_1; those that follow are the ends of cells."""

_POWERS = (12.0, 10.0, 8.0, 7.0, 6.5, 6.0, 5.5, 5.0, 4.5, 4.0, 3.5, 3.0)
"""The powers a that are tried; the largest costs least."""

_REST = 1e-12
"""In units of the rate: what is revealed in every step of Q against P, so that smaller B need not be
compared; half of it is beyond the rounding of G."""

_REACH, _NEWTON_STEPS, _NOWHERE, _LOG_TWO = 6.5, 12, -40.0, 0.6931471805599454
_FIRST, _LEAST, _LARGEST_LOSS = 1e-4, 1e-60, 1e4
"""Thresholds: the first in units of the value at zero; the value at which A ends; and the last loss."""

_NO_OVERFLOW = 500.0
"""G falls: beyond this loss its value there is taken."""

_FINE, _COARSE, _LOOSE = 1.01, 1.05, 1.1
"""Ratios of thresholds: of A and of B in the pair, and of both in conditions."""

_RIEMANN = 1.0015
"""Ratio of thresholds at which conditions are summed up."""


MANY_STEPS = f"100 steps or more, and noise from {1 / MOST_MU:g} to {1 / LEAST_MU:g}"
NOT_THE_WORST = "others against the record are not shown to be nearly the worst"


def opposed_others(
    mu: float, rate: float, repeats: tuple[tuple[int, float], ...] = ()
) -> tuple[AtomicPair, AtomicPair] | None:
    """The pair D of every step and the one that is added once; None if no condition is met.

    `repeats` are numbers of occurrences with their weights, in which case everything is revealed but how
    often the record comes: Gaussian pairs that are mixed into D.

    Holds when: LEAST_MU <= mu <= MOST_MU, 0 < rate < 1.

    Numerics: given the part of Z that is independent of Y, the integrand is positive on an interval whose
    ends Newton's method finds from outside; what it may leave out is added. That part is spread over
    nodes with its mean kept, which raises the mean of a convex function. Profiles are convex in x, so
    chords are above them. Integrals of conditions are sums over the worse ends of small cells.
    """
    found = opposed_condition(mu, rate)
    if found is None:
        return None
    cosine, power = found
    pair, once = DisplacedPair(mu, rate), 1.0 - sum(weight for _, weight in repeats)

    def revealed(losses: Array) -> Array:
        total = np.zeros(losses.shape)
        for times, weight in repeats:
            total += weight * np.exp(log_normal_call(times * mu, losses) + PROFILE_ERROR)
        return total

    def ahead(losses: Array) -> Array:
        seen = once * np.exp(pair.log_hockey_stick(losses) + pair.accuracy)
        return np.asarray(seen + revealed(losses))

    def behind(losses: Array) -> Array:
        seen = against_null(losses, mu, rate, cosine) + 0.5 * _REST * rate
        return np.asarray(once * seen + revealed(losses))

    start = float(ahead(np.zeros(1))[0])
    first = _thresholds(start, _end(ahead, _LEAST), _FINE)
    second = _thresholds(start, _end(behind, 1.2 * _REST * rate), _COARSE)
    calls, surely = _half(first, ahead(first))
    puts, absent = _half(second, behind(second))
    step = pair_from_halves(calls, puts, side=Side.UPPER, infinite=(surely, absent))
    return step, power_pair(power)


def _half(losses: Array, values: Array) -> tuple[CallSide, float]:
    """Masses above these values, but for what is left at the last one, which counts as revealed."""
    values = np.minimum.accumulate(values)
    rest = float(values[-1])
    end = int(np.argmax(values <= rest))
    calls = calls_above(
        losses[:end], np.log(values[:end] - rest) + PROFILE_ERROR, float(losses[end])
    )
    return calls, rest * (1.0 + PROFILE_ERROR)


def _thresholds(start: float, end: float, growth: float) -> Array:
    count = int(np.log(end / (_FIRST * start)) / np.log(growth)) + 2
    return np.append(0.0, np.geomspace(_FIRST * start, end, count))


def _end(profile: Callable[[Array], Array], least: float) -> float:
    """A loss at which the profile is smaller than that; at the last one it is below all doubles."""
    losses = np.geomspace(1e-6, _LARGEST_LOSS, 400)
    return float(losses[np.argmax(profile(losses) < least)])


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
    mean = _spread_mean(losses, mu, rate, entries, Side.UPPER)
    return np.asarray(mean * (1.0 + PROFILE_ERROR) + 0.5 * _REST * rate)


def _spread_mean(
    losses: Array, mu: float, rate: float, entries: tuple[float, float, float], side: Side
) -> Array:
    """G with the other part of Z spread over nodes, from this side but for rounding."""
    _, variance, covariance = entries
    slope = covariance * mu
    spread = mu * np.sqrt(max(variance - covariance**2, 0.0))
    shares, masses = _spread_lognormal(spread) if spread > 0.0 else (np.ones(1), np.ones(1))
    losses = np.minimum(losses, _NO_OVERFLOW)
    x = np.exp(losses)[:, None]
    alpha = x * rate * np.exp(-0.5 * mu * mu)
    beta = np.expm1(losses)[:, None] * (1.0 - rate) * np.exp(-0.5 * slope**2) * shares
    return np.asarray(_positive_part(rate, alpha, mu, beta, slope, side) @ masses)


def _spread_lognormal(spread: float) -> tuple[Array, Array]:
    """Values and masses above e^{spread y - spread^2/2}, y normal, in the convex order.

    Each cell of y is split onto its ends with its mean kept; what is beyond the last one stays there.
    """
    cells = int(np.ceil((2.0 * _REACH + spread) / 0.25)) + 1
    edges = np.append(-np.inf, np.linspace(-_REACH, _REACH + spread, cells))
    values = np.exp(spread * edges - 0.5 * spread**2)
    mass, mean = cell_masses(edges, 0.0), cell_masses(edges, spread)
    above = np.clip((mean - mass * values[:-1]) / np.diff(values), 0.0, mass)
    masses = np.append(mass - above, ndtr(-edges[-1:]))
    masses[1:] += above
    return values, masses


def _positive_part(
    rate: float, alpha: Array, mu: float, beta: Array, slope: float, side: Side
) -> Array:
    """E(rate - alpha e^{mu z} - beta e^{slope z})_+ from one side, z standard normal, entry by entry.

    The function is concave in z. Newton's method for its ends starts where one term alone makes it
    negative, and stays where it is: between the end and the last iterate the function is at least its
    value there.
    """
    alpha = np.broadcast_to(alpha, beta.shape)

    def terms(z: Array) -> tuple[Array, Array]:
        return alpha * np.exp(mu * z), beta * np.exp(slope * z)

    def end(z: Array) -> tuple[Array, Array]:
        """The end of the interval from a place outside of it, and how far the function is below zero."""
        for _ in range(_NEWTON_STEPS):
            first, second = terms(z)
            z = z + (rate - first - second) / (mu * first + slope * second)
        first, second = terms(z)
        return z, np.maximum(first + second - rate, 0.0)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_alpha, log_beta = np.log(alpha / rate), np.log(beta / rate)
        left, below = np.full(beta.shape, -np.inf), np.zeros(beta.shape)
        if slope > 0.0:
            right = np.minimum(-log_alpha / mu, -log_beta / slope)
            # here both terms are at most half of the rate
            top = np.minimum(-(log_alpha + _LOG_TWO) / mu, -(log_beta + _LOG_TWO) / slope)
            peak = np.full(beta.shape, rate)
        else:
            right, top = -log_alpha / mu, np.full(beta.shape, _NOWHERE)
            both = beta > 0.0
            top[both] = (np.log(-slope / mu) + log_beta - log_alpha)[both] / (mu - slope)
            peak = rate - np.sum(terms(top), axis=0)
            start = np.where(both & (peak > 0.0), -log_beta / slope, top)
            left, below = end(start)
            left, below = np.where(both, left, -np.inf), np.where(both, below * (top - left), 0.0)
        alive = peak > 0.0
        right, above = end(np.where(alive, right, top))
        inside = (
            rate * _between(left, right, 0.0)
            - alpha * np.exp(0.5 * mu * mu) * _between(left, right, mu)
            - beta * np.exp(0.5 * slope**2) * _between(left, right, slope)
        )
        total = np.maximum(inside, 0.0)
        if side is Side.UPPER:
            total = total + above * np.abs(right - top) + below
    return np.where(alive, np.minimum(total, np.maximum(peak, 0.0)), 0.0)


def _between(left: Array, right: Array, mean: float) -> Array:
    """N(mean, 1) between the two, as a difference of the smaller tails."""
    low, high = left - mean, right - mean
    return np.where(low > 0.0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))


@lru_cache(maxsize=64)
def opposed_condition(mu: float, rate: float) -> tuple[float, float] | None:
    """The c_1 and the largest power for which the condition of the theorem holds; None if none does."""
    ahead, behind = DisplacedPair(mu, rate), PoissonSampledPair(GaussianPair(mu), rate)
    start = float(np.exp(ahead.log_hockey_stick(np.zeros(1))[0]))
    end = _end(
        lambda losses: np.exp(behind.log_hockey_stick(losses) + PROFILE_ERROR), 0.4 * _REST * rate
    )
    knots, fine = _thresholds(start, end, _LOOSE), _thresholds(start, end, _RIEMANN)
    x = np.exp(fine)
    highest = np.exp(ahead.log_hockey_stick(fine) - ahead.accuracy)
    # over a small cell profiles fall: what is worse at its two ends counts, and for D at the next knot
    following = np.searchsorted(knots, fine[1:])
    less, more = {}, {}
    for low, high in pairwise(_COSINES):
        chord = np.interp(x, np.exp(knots), with_record(knots, mu, rate, low))
        less[low] = np.maximum(highest[1:] - chord[:-1], 0.0)
        more[high] = np.interp(x, np.exp(knots), against_null(knots, mu, rate, high))[:-1]
    own = {}
    for cosine in _COSINES[:_TRIED]:
        mean = _spread_mean(knots, mu, rate, (1.0, 1.0, cosine), Side.LOWER)[following]
        own[cosine] = np.maximum(mean * (1.0 - PROFILE_ERROR), _REST * rate)
    for power in _POWERS:
        gained, paid = _weights(fine, 1.0 - power), _weights(fine, power - 2.0)
        for first, cosine in enumerate(_COSINES[:_TRIED]):
            if all(
                weighted_sums(less[low], gained)
                >= weighted_sums(np.maximum(more[high] - own[cosine], 0.0), paid)
                * (1.0 + PROFILE_ERROR)
                for low, high in pairwise(_COSINES[first:])
            ):
                return cosine, power
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
    ahead = calls_above(
        losses, np.log(values + 1e-14) + PROFILE_ERROR, most * (1.0 + 1e-12) + 1e-12
    )
    losses = np.append(0.0, np.geomspace(1e-3, 40.0 / (power - 2.0), 400))
    values = np.exp(-(power - 2.0) * (most + losses)) / (power - 1.0)
    behind, revealed = _half(losses, values)
    return pair_from_halves(ahead, behind, side=Side.UPPER, infinite=(0.0, revealed))
