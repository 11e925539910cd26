"""Pairs with finitely many outcomes: two probability vectors, randomized response, promises.

An AtomicPair is composed with all its outcomes, however far away. A TabulatedPair is one whose outcomes,
thousands of them, stand for a smooth law: compositions choose nodes for their question and leave out what
lies beyond, like for any other pair. Between two outcomes calls and puts are straight lines in e^loss, so
a value is that of the next outcome and a positive piece: no cancellation, at the cost of one search.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from itertools import combinations
from math import comb, prod

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sharpdp.numerics.special import (
    UNIT_ROUNDOFF,
    Array,
    at_least_once,
    down,
    gammaln,
    log1mexp,
    log_convexity_gap,
    log_sum,
    up,
)
from sharpdp.pairs.pair import ACCURACY, Hints, Interval, Pair


@dataclass(frozen=True)
class AtomicPair(Pair):
    """Finitely many outcomes: losses l_i with P-mass p_i and Q-mass q_i = p_i e^{-l_i}, both logged.

    >>> coin = AtomicPair.pure(float(np.log(3.0)))  # binary randomized response, 3/4 against 1/4
    >>> round(float(np.exp(coin.log_hockey_stick(np.array([0.0]))[0])), 12)
    0.5
    """

    losses: tuple[float, ...]
    log_p: tuple[float, ...]
    log_q: tuple[float, ...]
    at_plus_infinity: float = 0.0
    at_minus_infinity: float = 0.0
    loss_error: float = 0.0
    mass_error: float = 0.0
    infinite_ends: tuple[Interval, Interval] | None = None
    """(lower, upper) of both masses at infinity; as accurate as the other masses if not given."""
    mean_errors: tuple[float, float] | None = None
    """Means of the rounding of losses under P and under Q; `loss_error` bounds them if not given."""

    @classmethod
    def from_pmfs(cls, p: ArrayLike, q: ArrayLike) -> AtomicPair:
        """The pair of two probability vectors on the same points, each divided by its sum.

        The masses are the given doubles. Losses come from exact fractions and are right to a few units
        of themselves, so that many repetitions of two close vectors stay sharp.
        """
        p_all, q_all = np.array(p, dtype=float), np.array(q, dtype=float)
        if np.array_equal(p_all, q_all):
            return cls((0.0,), (0.0,), (0.0,))  # nothing is learned, whatever the masses are
        both = (p_all > 0) & (q_all > 0)
        losses = _log_ratios(p_all, q_all, both)
        pair = cls._of_masses(p_all, q_all, losses, 8.0 * UNIT_ROUNDOFF * _largest(losses))
        return replace(pair, mean_errors=pair._mean_errors(8.0 * UNIT_ROUNDOFF))

    @classmethod
    def from_rounded_pmfs(cls, p: ArrayLike, q: ArrayLike) -> AtomicPair:
        """The pair of two vectors of masses that were computed to within a few units of themselves."""
        p_all, q_all = np.array(p, dtype=float), np.array(q, dtype=float)
        both = (p_all > 0) & (q_all > 0)
        log_p, log_q = np.log(p_all[both]), np.log(q_all[both])
        losses = log_p - log_q - (np.log(p_all.sum()) - np.log(q_all.sum()))
        loss_error = 8.0 * UNIT_ROUNDOFF * (1.0 + _largest(np.abs(log_p) + np.abs(log_q)))
        return cls._of_masses(p_all, q_all, losses, loss_error)

    @classmethod
    def _of_masses(cls, p: Array, q: Array, losses: Array, loss_error: float) -> AtomicPair:
        """Masses with the losses of the points that both have."""
        both, totals = (p > 0) & (q > 0), (float(p.sum()), float(q.sum()))
        log_p, log_q = (
            np.log(masses[both]) - np.log(total)
            for masses, total in zip((p, q), totals, strict=True)
        )
        order = np.argsort(losses, kind="stable")
        return cls(
            tuple(losses[order].tolist()),
            tuple(log_p[order].tolist()),
            tuple(log_q[order].tolist()),
            float(p[q == 0].sum()) / totals[0],
            float(q[p == 0].sum()) / totals[1],
            loss_error,
            infinite_ends=(_share(p, q == 0), _share(q, p == 0)),
        )

    @classmethod
    def pure(cls, epsilon: float) -> AtomicPair:
        """Binary randomized response: it dominates every epsilon-DP mechanism and is one."""
        return cls.randomized_response(epsilon, 2)

    @classmethod
    def randomized_response(cls, epsilon: float, categories: int) -> AtomicPair:
        """k-ary randomized response on two different inputs: truth with weight e^epsilon, others 1."""
        truth = -float(np.log1p((categories - 1.0) * np.exp(-epsilon)))
        losses, log_p = (-epsilon, epsilon), (truth - epsilon, truth)
        log_q = (truth, truth - epsilon)
        if categories == 2:
            return cls(losses, log_p, log_q)
        middle = float(np.log(categories - 2.0)) + truth - epsilon
        return cls(
            (losses[0], 0.0, losses[1]), (log_p[0], middle, log_p[1]), (log_q[0], middle, log_q[1])
        )

    @classmethod
    def approximate(cls, epsilon: float, delta: float) -> AtomicPair:
        """The pair that dominates every (epsilon, delta)-DP mechanism: pure with mass delta revealed."""
        if delta == 1.0:
            return cls.from_pmfs([1.0, 0.0], [0.0, 1.0])
        pure = cls.pure(epsilon) if epsilon > 0.0 else cls((0.0,), (0.0,), (0.0,))
        keep = float(np.log1p(-delta))
        log_p = tuple(value + keep for value in pure.log_p)
        log_q = tuple(value + keep for value in pure.log_q)
        exactly = (delta, delta)
        return cls(pure.losses, log_p, log_q, delta, delta, infinite_ends=(exactly, exactly))

    @property
    def support(self) -> tuple[float, float]:
        return (self.losses[0], self.losses[-1]) if self.losses else (0.0, 0.0)

    @property
    def atoms(self) -> tuple[float, ...]:
        return self.losses

    @property
    def accuracy(self) -> float:
        return ACCURACY + self.mass_error

    @property
    def mean_loss_error(self) -> float:
        return min(self.mean_errors[0], self.loss_error) if self.mean_errors else self.loss_error

    @property
    def _known_mean_errors(self) -> tuple[float, float]:
        return self.mean_errors or (self.loss_error, self.loss_error)

    def _mean_errors(self, relative: float) -> tuple[float, float]:
        """Means of the rounding of losses that are right to this part of themselves."""
        sizes = np.abs(self.losses)
        ahead, behind = (float(np.exp(masses) @ sizes) for masses in (self.log_p, self.log_q))
        return 2.0 * relative * ahead, 2.0 * relative * behind

    @property
    def hints(self) -> Hints:
        return Hints(chance_of_loss=self._chance_of_loss)

    def _chance_of_loss(self) -> float:
        if self.loss_error > 0.0:
            return 1.0  # which losses are zero is not known
        moved = sum(
            math.exp(log_p) for loss, log_p in zip(self.losses, self.log_p, strict=True) if loss
        )
        return min((moved + self.infinite_p_ends[1]) * (1.0 + 2.0 * self.accuracy), 1.0)

    def repeated(self, count: int) -> AtomicPair:
        """All results of `count` repetitions as one pair.

        Only how often each outcome occurs matters: multinomial masses at sums of losses.
        """
        kinds = len(self.losses)
        times = _ways(kinds, count)
        losses = times @ np.array(self.losses)
        log_ways = gammaln(count + 1.0) - np.sum(gammaln(times + 1.0), axis=1)
        order = np.argsort(losses, kind="stable")
        factorials = 3.0 * float(gammaln(count + 1.0)) if kinds > 1 else 0.0
        exponents = count * max(map(abs, (*self.log_p, *self.log_q)))
        inexact = 8.0 * UNIT_ROUNDOFF * (factorials + exponents)
        largest = max(map(abs, self.losses))
        units = (4.0 + kinds) * UNIT_ROUNDOFF
        errors, added = self._known_mean_errors, self._mean_errors(units)
        ahead = at_least_once([(self.infinite_p_ends, count)])
        behind = at_least_once([(self.infinite_q_ends, count)])
        return AtomicPair(
            tuple(losses[order].tolist()),
            tuple((log_ways + times @ np.array(self.log_p))[order].tolist()),
            tuple((log_ways + times @ np.array(self.log_q))[order].tolist()),
            ahead[1],
            behind[1],
            count * (self.loss_error + units * largest),
            inexact + count * self.mass_error,
            (ahead, behind),
            (count * (errors[0] + added[0]), count * (errors[1] + added[1])),
        )

    def beside(self, other: AtomicPair) -> AtomicPair:
        """All results of this and an independent pair as one pair: products of masses, sums of losses."""
        both = (self, other)
        losses, log_p, log_q = (
            np.add.outer(one, two).ravel()
            for one, two in (
                (self.losses, other.losses),
                (self.log_p, other.log_p),
                (self.log_q, other.log_q),
            )
        )
        order = np.argsort(losses, kind="stable")
        exponents = sum(max(map(abs, (*one.log_p, *one.log_q))) for one in both)
        largest = sum(max(map(abs, one.losses)) for one in both)
        errors = [(one._known_mean_errors, one._mean_errors(UNIT_ROUNDOFF)) for one in both]
        ahead = at_least_once((one.infinite_p_ends, 1) for one in both)
        behind = at_least_once((one.infinite_q_ends, 1) for one in both)
        return AtomicPair(
            tuple(losses[order].tolist()),
            tuple(log_p[order].tolist()),
            tuple(log_q[order].tolist()),
            ahead[1],
            behind[1],
            sum(one.loss_error for one in both) + 4.0 * UNIT_ROUNDOFF * largest,
            sum(one.accuracy for one in both) + 4.0 * UNIT_ROUNDOFF * exponents,
            (ahead, behind),
            (
                sum(own[0] + added[0] for own, added in errors),
                sum(own[1] + added[1] for own, added in errors),
            ),
        )

    @property
    def infinite_p(self) -> float:
        return self.at_plus_infinity

    @property
    def infinite_q(self) -> float:
        return self.at_minus_infinity

    @property
    def infinite_p_ends(self) -> Interval:
        return self.infinite_ends[0] if self.infinite_ends else super().infinite_p_ends

    @property
    def infinite_q_ends(self) -> Interval:
        return self.infinite_ends[1] if self.infinite_ends else super().infinite_q_ends

    @property
    def symmetric(self) -> bool:
        mirrored = self.at_plus_infinity == self.at_minus_infinity
        mirrored &= self.losses == tuple(-x for x in reversed(self.losses))
        return mirrored and self.log_p == tuple(reversed(self.log_q))

    def reverse(self) -> AtomicPair:
        return AtomicPair(
            tuple(-x for x in reversed(self.losses)),
            tuple(reversed(self.log_q)),
            tuple(reversed(self.log_p)),
            self.at_minus_infinity,
            self.at_plus_infinity,
            self.loss_error,
            self.mass_error,
            self.infinite_ends and (self.infinite_ends[1], self.infinite_ends[0]),
            self.mean_errors and (self.mean_errors[1], self.mean_errors[0]),
        )

    def log_hockey_stick(self, loss: Array) -> Array:
        k, atoms = np.asarray(loss, dtype=float)[..., None], np.array(self.losses)
        gap = -np.abs(atoms - k)
        weight = np.where(k < 0, np.array(self.log_q) + k, np.array(self.log_p))
        beyond = np.where(k < 0, atoms < k, atoms > k)
        return log_sum(np.where(beyond, weight + log1mexp(gap), -np.inf))

    def log_tail_q(self, loss: Array) -> Array:
        return self._log_tail(loss, np.array(self.log_q))

    def log_tail_p(self, loss: Array) -> Array:
        return self._log_tail(loss, np.array(self.log_p))

    def _log_tail(self, loss: Array, log_mass: Array) -> Array:
        k, atoms = np.asarray(loss, dtype=float)[..., None], np.array(self.losses)
        return log_sum(np.where(np.where(k < 0, atoms <= k, atoms >= k), log_mass, -np.inf))

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}]; infinite with a revealing outcome."""
        if self.at_plus_infinity > 0.0:
            return (np.inf, np.inf)
        log_gaps = np.array(self.log_p) + log_convexity_gap(order - 1.0, np.array(self.losses))
        total = float(log_sum(log_gaps))
        # both infinite masses are out of the identity: E_P[1] = 1, E_P[e^-L] = 1 - infinite_q
        linear = (order - 1.0) * self.at_minus_infinity
        if linear == 0.0 and total < 0.0:
            exact = float(np.log1p(np.exp(total)))
        else:
            exact = float(np.logaddexp(total, np.log1p(linear)))
        slack = self.accuracy * max(exact, 0.0)
        return (max(0.0, exact - slack), exact + slack)


def listed(steps: Sequence[tuple[AtomicPair, int]]) -> AtomicPair | None:
    """All results of independent runs as one pair; None if there are too many of them to list."""
    kinds = [(len(pair.losses), count) for pair, count in steps]
    if 0 in (kind for kind, _ in kinds):
        return None
    if prod(comb(count + kind - 1, kind - 1) for kind, count in kinds) > 20_000:
        return None
    runs = (pair if count == 1 else pair.repeated(count) for pair, count in steps)
    return reduce(AtomicPair.beside, runs)


def _log_ratios(p: Array, q: Array, both: NDArray[np.bool_]) -> Array:
    """log of (p / sum p) / (q / sum q) at some points, to within a few units of itself.

    Whole numbers in place of doubles: their differences are exact and their quotients rounded once.
    Between 1/4 and 4 log1p keeps that; beyond, the logarithm exceeds its error by log 2 at least.
    """
    ahead, behind = _whole(p), _whole(q)
    total_p, total_q = sum(ahead), sum(behind)
    ratios = []
    for index in np.flatnonzero(both).tolist():
        over, under = ahead[index] * total_q, behind[index] * total_p
        octaves = over.bit_length() - under.bit_length()
        if abs(octaves) <= 1:
            ratios.append(math.log1p((over - under) / under))
        else:
            near = over / (under << octaves) if octaves > 0 else (over << -octaves) / under
            ratios.append(math.log(near) + octaves * math.log(2.0))
    return np.array(ratios)


def _whole(masses: Array) -> list[int]:
    """The masses as multiples of one unit."""
    fractions = [mass.as_integer_ratio() for mass in masses.tolist()]
    unit = max(denominator for _, denominator in fractions)
    return [numerator * (unit // denominator) for numerator, denominator in fractions]


def _largest(values: Array) -> float:
    return float(np.max(np.abs(values), initial=0.0))


def _share(masses: ArrayLike, chosen: NDArray[np.bool_]) -> Interval:
    """(lower, upper) of the sum of some masses, as given and divided by the sum of all.

    A sum of all that is not 1 is a matter of rounding: either may be what is meant.
    """
    if not chosen.any():
        return 0.0, 0.0
    every = [Fraction(mass) for mass in np.array(masses, dtype=float).tolist()]
    some = sum(
        (mass for mass, is_chosen in zip(every, chosen, strict=True) if is_chosen), Fraction(0)
    )
    both = (some, some / sum(every))
    return down(min(both)), min(up(max(both)), 1.0)


def _ways(kinds: int, count: int) -> Array:
    """How often each kind occurs among `count`, one row per possibility.

    >>> _ways(2, 2).tolist()
    [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    """
    if kinds == 1:
        return np.full((1, 1), float(count))
    # the bars between stars: the first kinds - 1 counts are the gaps between them
    bars = np.array(list(combinations(range(count + kinds - 1), kinds - 1)), dtype=float)
    edges = np.pad(bars, ((0, 0), (1, 1)), constant_values=((0, 0), (-1.0, count + kinds - 1)))
    return np.asarray(np.diff(edges, axis=1) - 1.0)


def rational_pair(p: Sequence[Fraction], q: Sequence[Fraction]) -> AtomicPair:
    """The pair of two laws on the same points, points of one ratio merged; each sums to one.

    Numerics: ratios are compared exactly, so equal ones never fall apart. A loss is the logarithm of
    an exact ratio, rounded by less than `rounded`; logarithms of masses are off by less than 1e-12.

    >>> pair = rational_pair([Fraction(1, 2), Fraction(1, 2)], [Fraction(1, 2), Fraction(1, 2)])
    >>> pair.losses, pair.log_p
    ((0.0,), (0.0,))
    >>> third, rest = Fraction(1, 3), Fraction(2, 3)
    >>> rational_pair([third, rest], [rest, third]).symmetric
    True
    """
    both: dict[Fraction, list[Fraction]] = {}
    revealed, hidden = Fraction(0), Fraction(0)
    for here, there in zip(p, q, strict=True):
        if here == 0 or there == 0:
            revealed, hidden = revealed + here, hidden + there
            continue
        masses = both.setdefault(here / there, [Fraction(0), Fraction(0)])
        masses[0], masses[1] = masses[0] + here, masses[1] + there
    ratios = sorted(both)
    log_p = tuple(_log(both[ratio][0]) for ratio in ratios)
    log_q = tuple(_log(both[ratio][1]) for ratio in ratios)
    # a ratio of one has the loss 0, which is not rounded
    sizes = (
        1.0 + abs(a) + abs(b)
        for ratio, a, b in zip(ratios, log_p, log_q, strict=True)
        if ratio != 1
    )
    return AtomicPair(
        # so that exchanging both laws changes signs and nothing else
        tuple(_log(ratio) if ratio >= 1 else -_log(1 / ratio) for ratio in ratios),
        log_p,
        log_q,
        float(revealed),
        float(hidden),
        # the logarithm of one ratio: at worst a difference of two rounded logarithms
        8.0 * UNIT_ROUNDOFF * max(sizes, default=0.0),
        infinite_ends=((down(revealed), up(revealed)), (down(hidden), up(hidden))),
    )


def _log(x: Fraction) -> float:
    """log x for x > 0, also where x itself is no double."""
    if abs(x - 1) < Fraction(1, 2):
        return math.log1p(float(x - 1))
    if Fraction(2) ** -1000 < x < Fraction(2) ** 1000:  # rounds to an ordinary double
        return math.log(float(x))
    return math.log(x.numerator) - math.log(x.denominator)


class PairOfOutcomes(Pair):
    """A pair that is that of an AtomicPair's outcomes, with sums over them kept."""

    @property
    @abstractmethod
    def outcomes(self) -> AtomicPair:
        """The outcomes, which compositions take."""

    @property
    def accuracy(self) -> float:
        # Sums over all outcomes one after the other, twice (calls are sums of sums), with a product in
        # each. Thresholds are up to hundreds: their exponentials carry that many units.
        units = 4.0 * self._losses.size + 64.0 * (1.0 + float(np.max(np.abs(self._losses))))
        return self.outcomes.accuracy + units * UNIT_ROUNDOFF

    @property
    def loss_error(self) -> float:
        return self.outcomes.loss_error

    @property
    def mean_loss_error(self) -> float:
        return self.outcomes.mean_loss_error

    @property
    def support(self) -> tuple[float, float]:
        return self.outcomes.support

    @property
    def infinite_p(self) -> float:
        return self.outcomes.infinite_p

    @property
    def infinite_q(self) -> float:
        return self.outcomes.infinite_q

    @property
    def infinite_p_ends(self) -> Interval:
        return self.outcomes.infinite_p_ends

    @property
    def infinite_q_ends(self) -> Interval:
        return self.outcomes.infinite_q_ends

    @property
    def hints(self) -> Hints:
        return Hints(composition=lambda: self.outcomes)

    @cached_property
    def _losses(self) -> Array:
        return np.array(self.outcomes.losses)

    @cached_property
    def _tails(self) -> tuple[Array, Array, Array]:
        """Of each outcome: log masses of Q and P from it on, and the call at it."""
        return _sums(self._losses, np.array(self.outcomes.log_p))

    @cached_property
    def _heads(self) -> tuple[Array, Array, Array]:
        """Of each outcome: log masses of P and Q up to it, and the call of (Q, P), from the end on."""
        return _sums(-self._losses[::-1], np.array(self.outcomes.log_q)[::-1])

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        call = _log_call(self._losses, self._tails, np.maximum(k, 0.0))
        # E_Q (e^k - X)_+ = e^k E_P (1/X - e^-k)_+
        put = k + _log_call(-self._losses[::-1], self._heads, np.maximum(-k, 0.0))
        return np.where(k < 0.0, put, call)

    def log_tail_q(self, loss: Array) -> Array:
        return self._log_tail(np.asarray(loss, dtype=float), self._tails[0], self._heads[1])

    def log_tail_p(self, loss: Array) -> Array:
        return self._log_tail(np.asarray(loss, dtype=float), self._tails[1], self._heads[0])

    def _log_tail(self, k: Array, tails: Array, heads: Array) -> Array:
        above = np.searchsorted(self._losses, k, side="left")
        below = np.searchsorted(-self._losses[::-1], -k, side="left")
        high, low = np.append(tails, -np.inf), np.append(heads, -np.inf)
        return np.asarray(np.where(k < 0.0, low[below], high[above]))


@dataclass(frozen=True)
class TabulatedPair(PairOfOutcomes):
    """The pair of given outcomes.

    >>> coin = AtomicPair.pure(float(np.log(3.0)))  # 3/4 against 1/4
    >>> pair = TabulatedPair(coin)
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([0.0]))[0])), 12)
    0.5
    """

    table: AtomicPair

    @property
    def outcomes(self) -> AtomicPair:
        return self.table


def _sums(losses: Array, log_p: Array) -> tuple[Array, Array, Array]:
    """Of each outcome, in rising order: log Q- and P-mass from it on, and E_Q (X - e^loss)_+.

    The Q-mass beyond a loss times e^loss is at most one, whatever the loss: it is summed in that unit.
    """
    masses = np.exp(log_p)
    tails, calls = np.zeros(losses.size), np.zeros(losses.size)
    tail = call = 0.0
    steps = np.append(np.diff(losses), 0.0)
    shrinks, grows = np.exp(-steps).tolist(), (-np.expm1(-steps)).tolist()
    for index in range(losses.size - 1, -1, -1):
        call += tail * grows[index]
        tail = tail * shrinks[index] + masses[index]
        tails[index], calls[index] = tail, call
    with np.errstate(divide="ignore"):
        return np.log(tails) - losses, np.log(np.cumsum(masses[::-1])[::-1]), calls


def _log_call(losses: Array, sums: tuple[Array, Array, Array], k: Array) -> Array:
    """log E_Q (X - e^k)_+ for k >= 0: the call at the next outcome, and the way to it."""
    log_tail_q, _, calls = sums
    index = np.searchsorted(losses, k, side="right")
    inside = np.minimum(index, losses.size - 1)
    way = np.maximum(losses[inside] - k, 0.0)
    rise = np.exp(log_tail_q[inside] + losses[inside]) * -np.expm1(-way)
    with np.errstate(divide="ignore"):
        return np.where(index < losses.size, np.log(calls[inside] + rise), -np.inf)
