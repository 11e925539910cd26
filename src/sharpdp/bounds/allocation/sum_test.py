"""Some of many steps, chosen at random: what a sum over the steps tells about P and Q, from below.

P = mean over sets A of k of T steps of N(1_A, s^2 I), Q = N(0, s^2 I). Any function of the results is a
post-processing, so its pair of laws is dominated by (P, Q). The function is the sum over all steps of

    g(y) = log(1 - r + r exp(y / s - 1 / (2 s^2))),

rounded to integers times a unit: the loss of a run in which the record enters each step with
probability r. With r = k / T this is nearly the best test for large deltas; a smaller r counts large
results more and small ones less, and is better for small deltas, where the record shows itself by few
large results. Given A the terms are independent, k of them from P's single step and the others from Q's,
whatever A is: both laws are convolutions of the laws f_0 and f_1 of one term,

    Q:  f_0^{*T},     P:  f_1^{*k} * f_0^{*(T - k)}.

Numerics: the values of g, and of which cells of y they are taken, need no accuracy, since any function
would do. All masses are sums of products of positive numbers, with relative errors that add up. Values
next to both ends with a mass below e^-120 are left out of a law; in the end all cells that are not much
heavier than everything left out are merged with their neighbors, so that it does not count there.

Source: blackwell1953 (post-processing).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import UNIT_ROUNDOFF, Array, gauss_nodes, log_mixture, log_ndtr
from sharpdp.pairs.finite import AtomicPair, TabulatedPair

_DEPTH = 120.0
"""Cells of y reach to where the tails are e^-120 = 1e-52."""

_HEAVIER = 1e10
"""Cells of the sum are kept if they are so many times heavier than all that was left out."""

_UNITS = 16.0


@dataclass(frozen=True, eq=False)
class _Terms:
    """Masses of the integers from `first` on, the mass that was left out, and the relative error."""

    first: int
    masses: Array
    lost: float
    error: float

    def plus(self, other: _Terms) -> _Terms:
        """The law of an independent sum."""
        masses = np.convolve(self.masses, other.masses)
        units = min(self.masses.size, other.masses.size) + _UNITS
        error = self.error + other.error + units * UNIT_ROUNDOFF
        lost = (self.lost + other.lost) * (1.0 + error)
        return _trimmed(_Terms(self.first + other.first, masses, lost, error))

    def times(self, count: int) -> _Terms:
        """The law of a sum of so many copies."""
        total = _Terms(0, np.ones(1), 0.0, 0.0)
        for digit in bin(count)[2:]:
            total = total.plus(total)
            if digit == "1":
                total = total.plus(self)
        return total


def _trimmed(law: _Terms) -> _Terms:
    """Without the ends that carry next to nothing."""
    floor = float(np.exp(-_DEPTH))
    heads, tails = np.cumsum(law.masses), np.cumsum(law.masses[::-1])
    low = int(np.searchsorted(heads, floor))
    high = law.masses.size - int(np.searchsorted(tails, floor))
    low, high = min(low, high - 1), max(high, low + 1)
    lost = law.lost + float(np.sum(law.masses[:low]) + np.sum(law.masses[high:]))
    return _Terms(law.first + low, law.masses[low:high], lost * (1.0 + law.error), law.error)


@lru_cache(maxsize=64)
def sum_test_pair(
    noise_multiplier: float,
    steps: int,
    participations: int,
    rate: float,
    far: float,
) -> TabulatedPair:
    """A pair below that of `participations` of `steps` steps: sums with r = rate.

    Single terms are told apart up to `far` standard deviations of the sum: fewer leave room for finer
    units.

    Holds when: noise_multiplier is at least `bounds.allocation.ratio_law.LEAST_NOISE`.

    >>> pair = sum_test_pair(1.0, 4, 2, 0.15, np.inf)
    >>> from sharpdp.pairs.pair import epsilon_of
    >>> bool(5.55 < epsilon_of(pair, float(np.log(1e-6)))[0] < 5.681)
    True
    """
    absent, present = _one_step(1.0 / noise_multiplier, steps, participations, rate, far)
    others = absent.times(steps - participations)
    without = others.plus(absent.times(participations))
    with_record = others.plus(present.times(participations))
    p, q = _told_apart(with_record, without)
    error = without.error + with_record.error + 2.0 / _HEAVIER + _UNITS * UNIT_ROUNDOFF
    log_p, log_q = np.log(p), np.log(q)
    losses = log_p - log_q
    order = np.argsort(losses, kind="stable")
    largest = float(np.max(np.abs(log_q)) + np.max(np.abs(losses)))
    return TabulatedPair(
        AtomicPair(
            tuple(losses[order].tolist()),
            tuple(log_p[order].tolist()),
            tuple(log_q[order].tolist()),
            loss_error=4.0 * error + 8.0 * UNIT_ROUNDOFF * largest,
            # masses add up to one only within their error: both parities and both tails use it
            mass_error=4.0 * (error + 4.0 * UNIT_ROUNDOFF * largest),
        )
    )


def _one_step(
    mu: float, steps: int, participations: int, rate: float, far: float
) -> tuple[_Terms, _Terms]:
    """The laws of one rounded term without and with the record."""
    depth = float(np.sqrt(2.0 * _DEPTH))
    edges = np.linspace(-depth, mu + depth, int((mu + 2.0 * depth) / 0.02) + 2)
    masses, ratios, error = _cells(mu, edges)
    scores = log_mixture(rate, np.log(ratios))
    weights = masses * ratios
    # the spread of the sum under both laws, and the largest single term
    both = (masses + weights) / 2.0
    means = [float(mass @ scores) for mass in (masses, weights)]
    spread = np.sqrt(steps * float(masses @ (scores - means[0]) ** 2))
    spread += np.sqrt(participations * float(both @ (scores - means[0]) ** 2))
    shift = participations * (means[1] - means[0])
    scores = np.minimum(scores, means[0] + shift + far * spread)
    reach = float(scores[-1] - scores[0])
    # the sum is followed for 15.5 deviations on both sides
    whole = 2.0 * 15.5 * spread + shift + reach
    alone = np.sqrt(float(masses @ (scores - means[0]) ** 2))
    # a term is rounded to 0.3 of its deviation if the sum then has 4000 to 14,000 values, and it has at
    # most 4000 itself
    unit = max(min(whole / 4000, 0.3 * alone), whole / 14_000, reach / 4000)
    places = np.round((scores - means[0]) / unit).astype(np.int64)
    first = int(places[0])
    error += masses.size * UNIT_ROUNDOFF
    laws = [
        np.asarray(np.bincount(places - first, mass), dtype=float) for mass in (masses, weights)
    ]
    absent, present = (_trimmed(_Terms(first, law, 0.0, error)) for law in laws)
    return absent, present


def _cells(mu: float, edges: Array) -> tuple[Array, Array, float]:
    """Masses of cells of a normal variable y, the mean of e^{mu y - mu^2/2} in each, and their error.

    The first and the last cell have no end.

    Numerics: ten points of a Gauss rule on a cell this narrow are off by less than a unit, as
    composition.one_big_jump proves. Rounding takes 64 units of one plus the square of the distance:
    products, sums of ten terms, an exponential whose argument is off by two units of itself, log_ndtr.
    """
    half = 0.5 * np.diff(edges)
    middle = edges[:-1] + half
    move, weight = gauss_nodes(middle, half, 10)
    inner = np.sum(weight, axis=1)
    mass = np.exp(-0.5 * middle**2) * inner * half / np.sqrt(2.0 * np.pi)
    growth = np.sum(weight * np.exp(mu * move), axis=1) / inner
    mean = np.exp(mu * middle - 0.5 * mu * mu) * growth
    ends = np.array([edges[0], -edges[-1]])
    log_tails, log_moments = log_ndtr(ends), log_ndtr(ends + np.array([-mu, mu]))
    tails, means = np.exp(log_tails), np.exp(log_moments - log_tails)
    reach = float(np.max(np.abs(edges))) + mu
    return (
        np.concatenate([tails[:1], mass, tails[1:]]),
        np.concatenate([means[:1], mean, means[1:]]),
        64.0 * UNIT_ROUNDOFF * (1.0 + reach**2),
    )


def _told_apart(with_record: _Terms, without: _Terms) -> tuple[Array, Array]:
    """Masses of both laws on the same cells, each much heavier than all that was left out."""
    first = max(without.first, with_record.first)
    last = min(without.first + without.masses.size, with_record.first + with_record.masses.size)
    floor = _HEAVIER * max(without.lost, with_record.lost, float(np.exp(-_DEPTH)))
    p, q = (
        law.masses[max(first - law.first, 0) :][: max(last - first, 0)]
        for law in (with_record, without)
    )
    heavy = first + np.flatnonzero((p > floor) & (q > floor))
    return _merged(with_record, heavy), _merged(without, heavy)


def _merged(law: _Terms, heavy: NDArray[np.int64]) -> Array:
    """The masses of cells that begin at the given integers, the first at -inf; of one cell if none."""
    places = law.first + np.arange(law.masses.size)
    groups = np.maximum(np.searchsorted(heavy, places, side="right") - 1, 0)
    return np.asarray(np.bincount(groups, law.masses, max(heavy.size, 1)), dtype=float)
