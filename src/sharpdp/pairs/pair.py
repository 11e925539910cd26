"""Binary experiments (P, Q): what a mechanism's output looks like under two neighboring inputs.

A Pair knows its privacy loss L = log dP/dQ through three functions of a threshold `loss`, each in
out-of-the-money form, so that none is computed as a difference from one:

    log_hockey_stick(k)  log E_Q[(X - e^k)_+] for k >= 0,  log E_Q[(e^k - X)_+] for k < 0
    log_tail_q(k)        log Q[k <= L < inf] for k >= 0,  log Q[-inf < L <= k] for k < 0
    log_tail_p(k)        the tail of the same losses under P

with X = dP/dQ where it is finite.

Mass of P where Q has none sits at loss +inf, mass of Q where P has none at -inf. The privacy profile of
one pair, delta at epsilon and epsilon at delta, comes straight from these (`log_delta_of`, `epsilon_of`).
Everything else (discretization, composition, trade-off curves) is built from them in the neighboring
modules.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sharpdp.errors import NotCertified
from sharpdp.numerics.kept_columns import KeptColumns
from sharpdp.numerics.roots import straight_crossing
from sharpdp.numerics.special import (
    LOG_SQRT_2_PI,
    UNIT_ROUNDOFF,
    Array,
    exp_down,
    exp_up,
    log1mexp,
    log_ndtr,
    log_normal_call,
    safe_log,
    widened,
)

ACCURACY = 2e-12
"""Error of logarithms of profiles made of library functions, with a margin of ten."""

STANDARD_WIDTH = 2e-4
"""Relative width of epsilon that pairs of finitely many values leave, unless a finer one is asked for."""

SMALLEST_MOMENT = 1e-307
"""Logarithms of moments below this are rounded by more than a share of themselves, or to zero."""


Interval = tuple[float, float]


class Pair(ABC):
    """A binary experiment seen through its privacy loss."""

    @property
    def accuracy(self) -> float:
        """Bound on the error of log_hockey_stick and log_tail_*, for values down to e^-800."""
        return ACCURACY

    @abstractmethod
    def log_hockey_stick(self, loss: Array) -> Array:
        """log of the out-of-the-money value at each threshold."""

    @abstractmethod
    def log_tail_q(self, loss: Array) -> Array:
        """log of the Q-probability beyond each threshold, away from zero."""

    @abstractmethod
    def log_tail_p(self, loss: Array) -> Array:
        """log of the P-probability beyond each threshold, away from zero."""

    @property
    def support(self) -> tuple[float, float]:
        """Smallest and largest finite loss; infinite where there is none."""
        return (-np.inf, np.inf)

    @property
    def accurate_range(self) -> tuple[float, float]:
        """Thresholds between which `accuracy` holds; discretization puts its nodes there."""
        return self.support

    @property
    def loss_error(self) -> float:
        """Bound on the rounding of thresholds against the losses of this pair."""
        return 0.0

    @property
    def mean_loss_error(self) -> float:
        """Bound on the mean of the rounding of losses under P: values at any threshold move by no more.

        (1 - e^{k - L})_+ changes by at most what L does.
        """
        return self.loss_error

    @property
    def atoms(self) -> tuple[float, ...]:
        """Losses that carry positive mass on their own, so that they become nodes."""
        return ()

    @property
    def tails_are_lower_bounds(self) -> bool:
        """Whether a tail may be that of a test near its threshold, and not of all that lies beyond it.

        A test and its value make a line below the profile all the same, so that lower sides are safe.
        """
        return False

    @property
    def infinite_p(self) -> float:
        """P-mass at loss +inf."""
        return 0.0

    @property
    def infinite_q(self) -> float:
        """Q-mass at loss -inf."""
        return 0.0

    @property
    def infinite_p_ends(self) -> Interval:
        """(lower, upper) of the P-mass at loss +inf; equal if the double is the mass itself."""
        return widened(self.infinite_p, self.accuracy)

    @property
    def infinite_q_ends(self) -> Interval:
        """(lower, upper) of the Q-mass at loss -inf."""
        return widened(self.infinite_q, self.accuracy)

    @property
    def symmetric(self) -> bool:
        """Whether (Q, P) has the same loss distribution as (P, Q)."""
        return False

    def reverse(self) -> Pair:
        """(Q, P): the other direction of the same experiment."""
        return self if self.symmetric else ReversedPair(self)

    @property
    def hints(self) -> Hints:
        """What is known of the pair beyond its profile, and what is quicker to ask in its place."""
        return NO_HINTS


def _not_known(_: float) -> None:
    """About no epsilon is known where it is."""


def _slowest(_: float) -> float:
    """The profile may fall as slowly as it likes."""
    return 0.0


def _certain() -> float:
    """Every loss may be other than zero."""
    return 1.0


@dataclass(frozen=True)
class Hints:
    """What helps to ask a pair sooner, or to answer more sharply; the defaults say nothing.

    Args:
        composition: A quicker pair that is safe on the side of this one, to be composed in its place.
        planning: A quicker pair with about the same profile, to look where a question is to be asked.
        few_thresholds: What is quicker to ask at few thresholds, for answers about these alone: given the
            smallest log delta that is looked for, and the largest threshold; 0 and infinity if they are
            not known. Each of its values is safe on the side of this pair. They need not belong to one
            profile, so that no line may be drawn through two of them.
        no_less: A pair that reveals no less and is composed more sharply.
        about_epsilon: About the epsilon at which delta is e^log_delta; not certified.
        tail_rate: A lower bound on the rate at which log_hockey_stick falls from a loss above 0 on.
        chance_of_loss: An upper bound on the probability of a loss other than zero.
        least_total_variation: A lower bound on delta at epsilon = 0, in closed form.
        unbounded: Whether losses below, and above, any bound are known to have positive probability.
        smallest_threshold: Thresholds closer to zero than this are not worth a look; only for planning.
    """

    composition: Callable[[], Pair] | None = None
    planning: Callable[[], Pair] | None = None
    few_thresholds: Callable[[float, float], Pair] | None = None
    no_less: Callable[[], Pair] | None = None
    about_epsilon: Callable[[float], float | None] = _not_known
    tail_rate: Callable[[float], float] = _slowest
    chance_of_loss: Callable[[], float] = _certain
    least_total_variation: float = 0.0
    unbounded: tuple[bool, bool] = (False, False)
    smallest_threshold: float = 0.0


NO_HINTS = Hints()
"""Nothing but the profile is known."""


def for_composition(pair: Pair) -> Pair:
    """The pair to use where it is composed: itself, or a quicker one that is safe on its side."""
    quicker = pair.hints.composition
    return pair if quicker is None else quicker()


def for_planning(pair: Pair) -> Pair:
    """A quicker pair with about the same profile; itself if there is none."""
    quicker = pair.hints.planning
    return pair if quicker is None else quicker()


def for_few_thresholds(pair: Pair, log_delta: float = 0.0, epsilon: float = np.inf) -> Pair:
    """What is quicker to ask at few thresholds, for answers about these alone; itself if nothing is."""
    quicker = pair.hints.few_thresholds
    return pair if quicker is None else quicker(log_delta, epsilon)


def revealing_no_less(pair: Pair) -> Pair:
    """A pair that reveals no less and is composed more sharply; itself if none is known."""
    sharper = pair.hints.no_less
    return pair if sharper is None else sharper()


@dataclass(frozen=True)
class GaussianPair(Pair):
    """N(mu, 1) against N(0, 1); L ~ N(mu^2/2, mu^2) under P.

    >>> pair = GaussianPair(1.0)
    >>> round(float(np.exp(pair.log_hockey_stick(np.array([1.0]))[0])), 10)
    0.1269367375
    """

    mu: float

    @property
    def accuracy(self) -> float:
        # k/mu - mu/2 cancels: an error of 40 units times mu in the logarithm
        return ACCURACY + 2e-14 * self.mu

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def hints(self) -> Hints:
        # the mass of N(0, 1) within mu/2 of zero, at least its width times the density at the ends
        density = math.exp(-0.125 * self.mu**2 - LOG_SQRT_2_PI)
        return Hints(
            about_epsilon=self._about_epsilon,
            tail_rate=self._tail_rate,
            least_total_variation=self.mu * density * (1.0 - 1e-9),
            unbounded=(True, True),
        )

    def log_hockey_stick(self, loss: Array) -> Array:
        return log_normal_call(self.mu, np.abs(loss)) + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return np.asarray(
            log_ndtr(-np.abs(loss) / self.mu - np.where(loss < 0, -0.5, 0.5) * self.mu)
        )

    def log_tail_p(self, loss: Array) -> Array:
        return np.asarray(
            log_ndtr(-np.abs(loss) / self.mu + np.where(loss < 0, -0.5, 0.5) * self.mu)
        )

    def _about_epsilon(self, log_delta: float) -> float | None:
        wanted = math.sqrt(max(-log_delta, 0.0))
        k = self.mu * (0.5 * self.mu + math.sqrt(2.0) * wanted)
        for _ in range(12):
            if not 0.0 < k < 700.0:
                return None
            tail_p = 0.5 * math.erfc((k / self.mu - 0.5 * self.mu) / math.sqrt(2.0))
            tail_q = 0.5 * math.erfc((k / self.mu + 0.5 * self.mu) / math.sqrt(2.0)) * math.exp(k)
            if not 1e-290 < tail_p - tail_q < 1.0 or tail_q == 0.0:
                return None
            # Newton's method in the square root of -log delta, which is nearly straight
            depth = math.sqrt(-math.log(tail_p - tail_q))
            step = 2.0 * depth * (wanted - depth) * (tail_p - tail_q) / tail_q
            k += step
            if abs(step) <= 1e-9 * k:
                return k
        return None

    def _tail_rate(self, loss: float) -> float:
        # log_hockey_stick is concave: its value is e^k times an integral of the log-concave e^-v P[L > v]
        threshold = np.array([loss])
        log_rate = self.log_tail_q(threshold) + loss - self.log_hockey_stick(threshold)
        return float(np.exp(log_rate[0])) * (1.0 - 1e-9)

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}] = order (order - 1) mu^2 / 2."""
        exact = 0.5 * order * (order - 1.0) * self.mu**2
        slack = exact * self.accuracy + SMALLEST_MOMENT
        return (max(exact - slack, 0.0), exact + slack)


@dataclass(frozen=True)
class LaplacePair(Pair):
    """Laplace noise of scale 1/epsilon, centers at distance one; |L| <= epsilon with atoms at both ends.

    delta(k) = 1 - e^{(k - epsilon)/2}; Q[L >= k] = e^{-(epsilon + k)/2} / 2 for |k| <= epsilon.
    """

    epsilon: float

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def support(self) -> tuple[float, float]:
        return (-self.epsilon, self.epsilon)

    @property
    def atoms(self) -> tuple[float, ...]:
        return (-self.epsilon, self.epsilon)

    @property
    def loss_error(self) -> float:
        # epsilon is one over the scale, rounded
        return 4.0 * UNIT_ROUNDOFF * self.epsilon

    def log_hockey_stick(self, loss: Array) -> Array:
        inside = np.minimum((np.abs(loss) - self.epsilon) / 2.0, 0.0)
        return log1mexp(inside) + np.minimum(loss, 0.0)

    def log_tail_q(self, loss: Array) -> Array:
        return np.where(loss < 0, self._large_tail(loss), self._small_tail(loss))

    def log_tail_p(self, loss: Array) -> Array:
        return np.where(loss < 0, self._small_tail(loss), self._large_tail(loss))

    def _small_tail(self, loss: Array) -> Array:
        """log of the tail under the center that is farther from it."""
        k = np.abs(loss)
        return np.where(k <= self.epsilon, -0.5 * (self.epsilon + k) - np.log(2.0), -np.inf)

    def _large_tail(self, loss: Array) -> Array:
        """log of the tail under the nearer center."""
        k = np.abs(loss)
        value = np.log1p(-0.5 * np.exp(np.minimum(0.5 * (k - self.epsilon), 0.0)))
        return np.where(k <= self.epsilon, value, -np.inf)

    def log_moment(self, order: float) -> tuple[float, float]:
        """Certified (lower, upper) for log E_P[e^{(order - 1) L}]."""
        # E_P e^{(a-1)L} = a/(2a-1) e^{(a-1)e} + (a-1)/(2a-1) e^{-a e}
        a, e = order, self.epsilon
        exact = float(
            np.logaddexp(
                np.log(a / (2 * a - 1)) + (a - 1) * e, np.log((a - 1) / (2 * a - 1)) - a * e
            )
        )
        slack = 8e-16 * (1.0 + (a - 1) * e)
        return (max(0.0, exact - slack), exact + slack)


@dataclass(frozen=True)
class ReversedPair(Pair):
    """(Q, P) of a given pair (P, Q): losses change sign, the two tails change places."""

    base: Pair

    @property
    def accuracy(self) -> float:
        return self.base.accuracy

    @property
    def loss_error(self) -> float:
        return self.base.loss_error

    @property
    def tails_are_lower_bounds(self) -> bool:
        return self.base.tails_are_lower_bounds

    @property
    def support(self) -> tuple[float, float]:
        low, high = self.base.support
        return (-high, -low)

    @property
    def accurate_range(self) -> tuple[float, float]:
        low, high = self.base.accurate_range
        return (-high, -low)

    @property
    def atoms(self) -> tuple[float, ...]:
        return tuple(-atom for atom in reversed(self.base.atoms))

    @property
    def infinite_p(self) -> float:
        return self.base.infinite_q

    @property
    def infinite_q(self) -> float:
        return self.base.infinite_p

    @property
    def infinite_p_ends(self) -> Interval:
        return self.base.infinite_q_ends

    @property
    def infinite_q_ends(self) -> Interval:
        return self.base.infinite_p_ends

    def reverse(self) -> Pair:
        return self.base

    @property
    def hints(self) -> Hints:
        hints = self.base.hints
        return Hints(
            planning=lambda: self._reversed(for_planning(self.base)),
            few_thresholds=lambda *asked: self._reversed(for_few_thresholds(self.base, *asked)),
            no_less=lambda: self._reversed(revealing_no_less(self.base)),
            least_total_variation=hints.least_total_variation,
            unbounded=(hints.unbounded[1], hints.unbounded[0]),
            smallest_threshold=hints.smallest_threshold,
        )

    def _reversed(self, other: Pair) -> Pair:
        return self if other is self.base else other.reverse()

    def log_hockey_stick(self, loss: Array) -> Array:
        return self.base.log_hockey_stick(-loss) + loss

    def log_tail_q(self, loss: Array) -> Array:
        return self.base.log_tail_p(_negated(loss))

    def log_tail_p(self, loss: Array) -> Array:
        return self.base.log_tail_q(_negated(loss))


def _negated(loss: Array) -> Array:
    """-loss, with zero mapped to just below zero: the tail at or above 0 becomes the one at or below."""
    return np.where(loss == 0.0, -np.finfo(float).smallest_subnormal, -loss)


class SymmetricPair(Pair):
    """A symmetric pair with bounded losses; what costs time is done once for all three values."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest loss, attained with positive probability."""

    @abstractmethod
    def call_and_tails(self, loss: Array) -> Array:
        """logs of E_Q[(X - e^k)_+], Q[L >= k] and P[L >= k] at thresholds 0 <= k <= largest, stacked."""

    @property
    def support(self) -> tuple[float, float]:
        return (-self.largest, self.largest)

    @property
    def atoms(self) -> tuple[float, ...]:
        return self.support

    @property
    def symmetric(self) -> bool:
        return True

    def log_hockey_stick(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        return np.asarray(self._both_ways(k)[0] + np.minimum(k, 0.0))

    def log_tail_q(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        _, farther, nearer = self._both_ways(k)
        return np.asarray(np.where(k < 0.0, nearer, farther))

    def log_tail_p(self, loss: Array) -> Array:
        k = np.asarray(loss, dtype=float)
        _, farther, nearer = self._both_ways(k)
        return np.asarray(np.where(k < 0.0, farther, nearer))

    def _both_ways(self, loss: Array) -> Array:
        """The three values at |loss|; nothing is beyond the largest loss."""
        k, back = np.unique(np.abs(loss), return_inverse=True)
        return _known(self).at(k)[:, back.reshape(loss.shape)]


@lru_cache(maxsize=16)
def _known(pair: SymmetricPair) -> KeptColumns:
    """The three values of one pair at all thresholds that were asked for.

    Compositions of different length ask for nearly the same thresholds, over and over.
    """

    def computed(k: Array) -> Array:
        value = np.full((3, k.size), -np.inf)
        inside = k <= pair.largest
        if inside.any():
            value[:, inside] = pair.call_and_tails(k[inside])
        value[0, k >= pair.largest] = -np.inf
        return value

    return KeptColumns(3, computed)


def log_delta_of(pair: Pair, epsilon: float) -> tuple[float, float]:
    """Certified (lower, upper) for log delta of one pair at epsilon >= 0."""
    low, high = log_deltas_of(pair, np.array([epsilon]))
    return float(low[0]), float(high[0])


def log_deltas_of(pair: Pair, epsilons: Array) -> tuple[Array, Array]:
    """`log_delta_of` at many epsilons: all lower and all upper ends."""
    if pair.accuracy > 1.0:
        raise NotCertified(
            f"the profile of a {type(pair).__name__} is lost in rounding: its parameters are too "
            "extreme for double precision. With so little noise nothing is private."
        )
    shift, last = pair.loss_error, pair.accurate_range[1]
    if shift == 0.0:
        later = earlier = epsilons
        low = high = pair.log_hockey_stick(np.minimum(epsilons, last))
    else:
        later, earlier = epsilons + shift, np.maximum(epsilons - shift, 0.0)
        both = pair.log_hockey_stick(np.minimum(np.concatenate([later, earlier]), last))
        low, high = both[: later.size], both[later.size :]
    # beyond what is resolved only monotony is used, and that there is nothing beyond the support
    low = np.where(later > last, -np.inf, low)
    high = np.where(earlier >= pair.support[1], -np.inf, high)
    if shift > 0.0:
        # no threshold below zero makes up for the rounding of losses
        more = np.logaddexp(high, safe_log(pair.mean_loss_error))
        high = np.where(epsilons < shift, more, high)
    mass_low, mass_high = pair.infinite_p_ends
    lost = np.isnan(low) | np.isnan(high)
    if lost.any() or not 0.0 <= mass_low <= mass_high <= 1.0:
        raise NotCertified(
            f"the profile of a {type(pair).__name__} is not a number at epsilon = "
            f"{float(epsilons[int(np.argmax(lost))])!r}."
        )
    slack = 2.0 * pair.accuracy
    low = np.logaddexp(low - slack, safe_log(mass_low))
    high = np.logaddexp(high + slack, safe_log(mass_high))
    if mass_high > 0.0:
        # of each logarithm itself: a few units of it, however small the mass
        low = low - np.where(np.isfinite(low), 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(low)), 0.0)
        high = high + 4.0 * UNIT_ROUNDOFF * (1.0 + np.abs(high))
    return low, np.minimum(high, 0.0)


def epsilon_of(pair: Pair, log_delta: float, delta: float | None = None) -> tuple[float, float]:
    """Certified (lower, upper) for the smallest epsilon >= 0 with delta(epsilon) <= e^log_delta.

    `delta`, if given, is the value itself, of which log_delta is the rounded logarithm: only so are
    values next to the mass at infinite loss told apart.
    """
    below, above = beside_mass(pair.infinite_p_ends, log_delta, delta)
    if below:
        return np.inf, np.inf
    ceiling = log_delta - 2.0 * UNIT_ROUNDOFF * abs(log_delta)

    def depth(end: int) -> Callable[[float], float]:
        # nearly straight in epsilon, since the profile falls like that of a Gaussian
        return lambda epsilon: float(np.sqrt(max(-log_delta_of(pair, epsilon)[end], 0.0)))

    quick = _newton_crossing(pair, log_delta)
    if quick is not None:
        return quick
    if (
        safe_log(pair.hints.least_total_variation) <= ceiling
        and log_delta_of(pair, 0.0)[1] <= ceiling
    ):
        return 0.0, 0.0
    largest = pair.support[1] + pair.loss_error
    high = min(1.0, largest)
    while high < largest and log_delta_of(pair, high)[1] > ceiling:
        high = min(2.0 * high, largest)
    top = high if above else np.inf
    if log_delta_of(pair, high)[1] <= ceiling:
        top = straight_crossing(depth(1), _above(-ceiling), 0.0, high)[1]
    floor = log_delta + 2.0 * UNIT_ROUNDOFF * abs(log_delta)
    # the two ends of the profile are close, so that the other crossing is just before this one
    for share in 2.0 ** -np.arange(45.0, 20.0, -5.0):
        before = high * (1.0 - share) if np.isinf(top) else top * (1.0 - share)
        if log_delta_of(pair, before)[0] >= floor:
            return before, top
    if not log_delta_of(pair, 0.0)[0] > floor:
        return 0.0, top
    return straight_crossing(depth(0), _below(-floor), 0.0, high)[0], top


_LOOK = np.append(0.0, 2.0 ** np.arange(-12.0, 7.0))
"""Thresholds that are asked together before a search."""


def _newton_crossing(pair: Pair, log_delta: float) -> tuple[float, float] | None:
    """Epsilons just before and after the one at which delta passes a value; None if it is not found so.

    Parabolas through three thresholds each, in the square root of -log delta, in which profiles are
    nearly straight, from a few thresholds that are asked together, unless the pair itself says about
    where it is. Both ends are certified.
    """
    about = pair.hints.about_epsilon(log_delta)
    if about is not None and (around := _just_around(pair, log_delta, about, _CLOSE[:1])):
        return around
    rough = for_planning(pair)
    grid = _LOOK[pair.accurate_range[1] > _LOOK]
    depths = np.sqrt(-np.minimum(log_deltas_of(rough, grid)[1], 0.0))
    wanted = float(np.sqrt(-log_delta))
    cell = int(np.searchsorted(depths, wanted))
    if not 0 < cell < grid.size or not np.isfinite(depths[cell]):
        return None
    ends = float(grid[cell - 1]), float(grid[cell])
    start = float(np.interp(wanted, depths[cell - 1 : cell + 1], ends))
    x = _crossing_between(rough, wanted, start, ends, (0.03, 1e-3, 1e-4, 1e-5, 1e-5, 1e-5))
    if rough is not pair and x is not None:
        x = _crossing_between(pair, wanted, x, (0.9 * x, 1.1 * x), (1e-3, 1e-5, 1e-5, 1e-5))
    for shares in ((), (1e-7, 1e-8)):  # closer, where the profile bends from one loss to the next
        if x is not None and shares:
            x = _crossing_between(pair, wanted, x, (0.999 * x, 1.001 * x), shares)
        if x is not None and (around := _just_around(pair, log_delta, x)):
            return around
    return None


_CLOSE = (2.0 ** -np.array([46.0, 42.0, 38.0, 34.0]), 2.0 ** -np.array([30.0, 26.0]))
"""How far from a crossing, relative to it, its two ends are looked for."""


def _just_around(
    pair: Pair, log_delta: float, x: float, distances: Sequence[Array] = _CLOSE
) -> Interval | None:
    """Epsilons before and after x between which delta certainly passes a value; None if none are seen."""
    rounding = 2.0 * UNIT_ROUNDOFF * abs(log_delta)
    before, after = np.nan, np.nan
    for apart in distances:
        low, high = log_deltas_of(pair, x * np.append(1.0 - apart, 1.0 + apart))
        above = np.flatnonzero(low[: apart.size] >= log_delta + rounding)
        below = np.flatnonzero(high[apart.size :] <= log_delta - rounding)
        if above.size and np.isnan(before):
            before = x * (1.0 - float(apart[above[0]]))
        if below.size and np.isnan(after):
            after = x * (1.0 + float(apart[below[0]]))
        if not (np.isnan(before) or np.isnan(after)):
            return before, after
    return None


def _crossing_between(
    pair: Pair, wanted: float, x: float, ends: Interval, shares: tuple[float, ...]
) -> float | None:
    """About the epsilon at which sqrt(-log delta) is as wanted; None if it is not found between the ends.

    A parabola for each share: through thresholds that are so far apart, relative to epsilon.
    """
    for share in shares:
        h = share * x
        if h < 1e-100:  # its square may be below all doubles
            return None
        values = -log_deltas_of(pair, np.array([x - h, x, x + h]))[1]
        before, depth, after = (math.sqrt(max(value, 0.0)) for value in values.tolist())
        slope, bend = 0.5 * (after - before) / h, (before + after - 2.0 * depth) / h**2
        root = slope * slope + 2.0 * bend * (wanted - depth)
        fall = slope + math.sqrt(root) if root > 0.0 else 0.0
        step = 2.0 * (wanted - depth) / fall if fall > 0.0 else np.inf
        if not ends[0] < x + step < ends[1]:
            return None
        x += step
        if abs(step) <= 1e-6 * x:
            break
    return x


def beside_mass(
    mass: tuple[float, float], log_delta: float, delta: float | None = None
) -> tuple[bool, bool]:
    """Whether delta is certainly below a mass at infinite loss, and whether it certainly is not.

    The mass is given as (lower, upper), delta as in `epsilon_of`.
    """
    if delta is None:
        slack = 2.0 * UNIT_ROUNDOFF * abs(log_delta)
        return exp_up(log_delta + slack) < mass[0], exp_down(log_delta - slack) >= mass[1]
    return delta < mass[0], delta >= mass[1]


@lru_cache(maxsize=64)
def seems_above(pair: Pair, other: Pair, negligible: float = 0.0) -> bool:
    """Whether the profile of a pair is above the other's at all thresholds of a look (not certified).

    Or equal, up to rounding. Thresholds below zero stand for the reversed pairs. Values below e^-800 are
    not accurate. Masses at infinite losses up to `negligible` count as equal.
    """
    if max(pair.infinite_p, negligible) < other.infinite_p:
        return False
    if max(pair.infinite_q, negligible) < other.infinite_q:
        return False
    losses = np.abs([*other.support, *pair.support])
    finite = losses[np.isfinite(losses)]
    scales = np.max(finite, initial=0.0) * 2.0 ** -np.arange(0.0, 16.0, 0.5)
    if finite.size < losses.size:
        scales = np.append(scales, 2.0 ** np.arange(-20.0, 10.0, 0.5))
    scales = np.unique(scales)
    thresholds = np.concatenate([-scales[::-1], [0.0], scales])
    first, second = (one.log_hockey_stick(thresholds) for one in (pair, other))
    return bool(np.all(np.maximum(first, -800.0) >= second * (1.0 + 1e-12) - 1e-12))


def _above(square: float) -> float:
    """The root, rounded up far enough that a depth at or above it means a value at or below."""
    return float(np.sqrt(square)) * (1.0 + 4.0 * UNIT_ROUNDOFF)


def _below(square: float) -> float:
    """The root, rounded down far enough that a depth below it means a value above."""
    return float(np.sqrt(square)) * (1.0 - 4.0 * UNIT_ROUNDOFF)
