"""One epoch of balls-and-bins or of random allocation, drawn from with tilts.

    P = average of N(mu 1_S, I) over all sets S of k of T steps,   Q = N(0, I)
    dP/dQ = X = e_k(U_1, ..., U_T) / C(T, k),   U_t = e^(mu y_t - mu^2/2)

Forward, h = (mean of U)^k is at least X (Maclaurin), and powers of the mean are tokens in bins. Backward,
for k = 1, X^-a is an integral of e^(-t X) over t, which factorizes: a normal is kept with chance
e^(-t U / T). Owns both, and the elementary symmetric polynomials.

Source: hardy1952 Section 2.22; chua2024 Section 3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sharpdp.montecarlo.experiment import (
    BLOCK,
    LIKELY,
    LOST,
    PLAIN,
    STRENGTHS,
    Direction,
    Draws,
    Tilt,
    by_rows,
    normal_points,
)
from sharpdp.montecarlo.tokens_in_bins import log_moments, tokens
from sharpdp.numerics.special import Array, log_ndtr, ndtri, ndtri_exp

__all__ = ["AllocationRun", "log_symmetric_mean"]

MOST_TOKENS = 256
"""Tokens thrown at most: their tables grow with the square."""


Whole = NDArray[np.int64]

TINY = 1e-250
"""Symmetric means below this are computed again in logarithms."""

LARGEST_RATIO = 1e3
"""Above this X the tilt is constant."""


@dataclass(frozen=True)
class AllocationRun:
    """One epoch in which a record takes part in k = `participations` of T = `steps` steps."""

    steps: int
    participations: int
    mu: float

    @property
    def coordinates(self) -> int:
        """A normal for each step; symmetric polynomials add k roundings to each."""
        return self.steps * self.participations

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """Orders b / k for up to 256 tokens b, cut or not; without the record for k = 1, by rejection."""
        k = self.participations
        if direction is Direction.WITHOUT_RECORD:
            orders = [a for a in STRENGTHS if k == 1 and self._sum(a).likely]
            return (PLAIN, *map(Tilt, orders))
        orders = [a for a in STRENGTHS if k * a == round(k * a) <= MOST_TOKENS]
        cuts = [Tilt(a, cut) for cut in self._cuts() for a in orders]
        return (PLAIN, *map(Tilt, orders), *cuts)

    def _cuts(self) -> list[float]:
        """Places that some normal exceeds with chances from 1/10 down to 10^-40."""
        exponents = (*range(1, 15), 17, 20, 24, 28, 32, 36, 40)
        return [-float(ndtri(0.1**digits / self.steps)) for digits in exponents]

    def log_moment(self, direction: Direction, tilt: Tilt) -> float:
        """log E_A[h^order] below the cut, with the slack of the sum over t without the record."""
        if tilt == PLAIN:
            return 0.0
        if direction is Direction.WITHOUT_RECORD:
            return self._sum(tilt.order).log_total + 1e-3
        thrown = round(self.participations * tilt.order)
        weights = log_moments(
            bins=self.steps, marked=self.participations, last=MOST_TOKENS, mu=self.mu, cut=tilt.cut
        )
        return float(weights[thrown]) - thrown * math.log(self.steps)

    def log_jump(self, tilt: Tilt) -> float:
        """log of k Phi(mu - cut) + (T - k) Phi(-cut)."""
        if tilt.cut == math.inf:
            return -math.inf
        others = log_ndtr(-tilt.cut) + math.log(self.steps - self.participations or TINY)
        return float(np.logaddexp(self._log_own(tilt), others))

    def _log_own(self, tilt: Tilt) -> float:
        return float(log_ndtr(self.mu - tilt.cut)) + math.log(self.participations)

    def log_known(self, direction: Direction, order: float) -> float:
        """The moments of tilts, drawn or not; for k > 1 those of k epochs of one in T/k steps.

        Steps dealt at random into k blocks, one chosen in each, are k of T steps; telling the blocks
        gives more away.
        """
        k = self.participations
        if direction is Direction.WITH_RECORD and order != round(order):
            return math.inf
        size, larger = divmod(self.steps, k)
        small = AllocationRun(size, 1, self.mu).log_moment(direction, Tilt(order))
        if not larger:
            return k * small
        large = AllocationRun(size + 1, 1, self.mu).log_moment(direction, Tilt(order))
        return larger * large + (k - larger) * small

    def draw(
        self, rng: np.random.Generator, samples: int, repeats: int, direction: Direction, tilt: Tilt
    ) -> Draws:
        """Epoch after epoch, in rows that fit into memory."""
        if tilt.cut < math.inf:
            return self._cut(rng, samples, repeats, tilt)
        with_record = direction is Direction.WITH_RECORD
        one_epoch = self._with_record if with_record else self._without_record
        return by_rows(samples, repeats, self.steps, lambda rows: one_epoch(rng, rows, tilt))

    def _sum(self, order: float) -> _Sum:
        return exponentials(self.steps, self.mu, order)

    def _with_record(self, rng: np.random.Generator, samples: int, tilt: Tilt) -> Draws:
        """The record's steps are the first ones; tokens shift them and some others."""
        k, mu = self.participations, self.mu
        y = rng.standard_normal((samples, self.steps))
        thrown = round(k * tilt.order)
        law = tokens(bins=self.steps, marked=k, thrown=thrown, mu=mu)
        shifts = law.draw(rng, samples)
        y[:, : shifts.shape[1]] += mu * shifts
        log_u = mu * y - 0.5 * mu**2
        loss, log_mean = self._ratios(log_u)
        return Draws(loss, thrown * log_mean - self.log_moment(Direction.WITH_RECORD, tilt))

    def _ratios(self, log_u: Array) -> tuple[Array, Array]:
        """log X and log of the mean of U, for each row of log U."""
        log_mean = _log_mean(log_u)
        if self.participations == 1:
            return log_mean, log_mean
        return log_symmetric_mean(log_u, self.participations), log_mean

    def _without_record(self, rng: np.random.Generator, samples: int, tilt: Tilt) -> Draws:
        """Without the record nothing is shifted; a tilt keeps small ratios."""
        mu = self.mu
        if tilt == PLAIN:
            log_u = mu * rng.standard_normal((samples, self.steps)) - 0.5 * mu**2
            return Draws(-self._ratios(log_u)[0], np.zeros(samples))
        law = self._sum(tilt.order)
        which = np.searchsorted(law.rising, rng.random(samples), side="right")
        slowness = law.t[np.minimum(which, law.t.size - 1)] / self.steps
        log_mean = _log_mean(_kept(rng, mu, slowness, self.steps))
        log_density = np.logaddexp.reduce(
            law.log_weights - law.t * np.exp(log_mean)[:, None], axis=1
        )
        # where the sum no longer covers X^-a the payoff is given up: its chance is LOST at most
        loss = np.where(log_mean < law.log_least, -np.inf, -log_mean)
        return Draws(loss, log_density - law.log_total)

    def _cut(self, rng: np.random.Generator, samples: int, repeats: int, tilt: Tilt) -> Draws:
        """Half of the draws with a normal beyond the cut somewhere, half tilted below it."""
        loss, log_mean, beyond = np.zeros(samples), np.zeros(samples), np.zeros(samples)
        jump_in = np.where(rng.random(samples) < 0.5, rng.integers(repeats, size=samples), -1)
        rows = max(1, BLOCK // self.steps)
        for epoch in range(repeats):
            for start in range(0, samples, rows):
                part = slice(start, min(start + rows, samples))
                y = self._one_epoch(rng, jump_in[part], epoch, tilt)
                ratios = self._ratios(self.mu * y - 0.5 * self.mu**2)
                loss[part] += ratios[0]
                log_mean[part] += ratios[1]
                beyond[part] += np.count_nonzero(y > tilt.cut, axis=1)
        log_jumps = self.log_jump(tilt) + math.log(repeats)
        thrown = round(self.participations * tilt.order)
        below = thrown * log_mean - repeats * self.log_moment(Direction.WITH_RECORD, tilt)
        log_beyond = np.log(np.maximum(beyond, 1.0)) - log_jumps
        return Draws(loss, math.log(0.5) + np.where(beyond > 0, log_beyond, below))

    def _one_epoch(self, rng: np.random.Generator, jump_in: Whole, epoch: int, tilt: Tilt) -> Array:
        """The normals of one epoch: with a jump in it, free, or tilted below the cut."""
        cut, mu, k = tilt.cut, self.mu, self.participations
        y = rng.standard_normal((jump_in.size, self.steps))
        y[:, :k] += mu
        tilted = np.flatnonzero(jump_in < 0)
        inner = y[tilted]
        while (high := inner > cut).any():
            inner[high] = rng.standard_normal(np.count_nonzero(high))
        law = tokens(bins=self.steps, marked=k, thrown=round(k * tilt.order), mu=mu, cut=cut)
        counts = law.draw(rng, tilted.size)
        shifts = mu * counts
        log_room = log_ndtr(cut - shifts) - rng.standard_exponential(shifts.shape)
        inner[:, : shifts.shape[1]] = np.minimum(shifts + ndtri_exp(log_room), cut)
        y[tilted] = inner
        jumping = np.flatnonzero(jump_in == epoch)
        own = -rng.standard_exponential(jumping.size) < self._log_own(tilt) - self.log_jump(tilt)
        center = np.where(own, mu, 0.0)
        log_room = log_ndtr(center - cut) - rng.standard_exponential(jumping.size)
        height = center - ndtri_exp(log_room)
        y[jumping, np.where(own, 0, k)] = np.maximum(height, np.nextafter(cut, np.inf))
        return y


@dataclass(frozen=True, eq=False)
class _Sum:
    """X^-a as a sum of weights times e^(-t X): points t, log weights, log of the whole under Q."""

    t: Array
    log_weights: Array
    rising: Array
    log_total: float
    log_least: float
    likely: bool


@lru_cache(maxsize=128)
def exponentials(steps: int, mu: float, order: float) -> _Sum:
    """The trapezoid rule in log t for X^-a = int t^(a-1) e^(-t X) dt / Gamma(a), X from x0 on.

    x0 is the ratio below which X falls with chance at most LOST: all U would be below T x0. Beyond
    X = 1000 a constant takes over.
    """
    log_least = float(mu * ndtri(LOST ** (1.0 / steps)) - 0.5 * mu**2 - math.log(steps))
    # the rule is then off by 1e-3 at most, which log_moment adds
    step = 0.9 / math.sqrt(max(order, 1.0))
    # from below the smallest mode to ten deviations beyond the largest
    first = math.log(order / LARGEST_RATIO) - 12.0
    last = math.log(order + 10.0 * math.sqrt(order) + 10.0) - log_least
    t = np.exp(np.arange(first, last + step, step))
    log_weights = order * np.log(t) + math.log(step) - math.lgamma(order)
    t, log_weights = np.append(0.0, t), np.append(-order * math.log(LARGEST_RATIO), log_weights)
    # chances to be kept matter only if they are not small
    y = normal_points(mu, 13.0)
    share = np.exp(-0.5 * y * y) * float(y[1] - y[0]) / math.sqrt(2.0 * math.pi)
    u = np.exp(mu * y - 0.5 * mu**2)
    log_kept = np.log(np.sum(share * np.exp(-t[:, None] / steps * u), axis=1) + LOST)
    log_each = log_weights + steps * log_kept
    log_total = float(np.logaddexp.reduce(log_each))
    chance = np.exp(log_each - log_total)
    work = float(np.sum(chance * np.exp(-log_kept)))
    return _Sum(t, log_weights, np.cumsum(chance), log_total, log_least, work < 1.0 / LIKELY)


def _kept(rng: np.random.Generator, mu: float, slowness: Array, steps: int) -> Array:
    """log U of every step, each kept with chance e^(-slowness U) or drawn again."""
    log_u = mu * rng.standard_normal((slowness.size, steps)) - 0.5 * mu**2
    flat, slow = log_u.reshape(-1), np.repeat(slowness, steps)
    indices = np.arange(flat.size)
    while indices.size:
        accepted = rng.standard_exponential(indices.size) > slow[indices] * np.exp(flat[indices])
        indices = indices[~accepted]
        flat[indices] = mu * rng.standard_normal(indices.size) - 0.5 * mu**2
    return log_u


def _log_mean(log_u: Array) -> Array:
    """log of the mean of each row."""
    top = np.max(log_u, axis=1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.mean(np.exp(log_u - top), axis=1)))


def log_symmetric_mean(log_u: Array, chosen: int) -> Array:
    """log of e_k(U) / C(T, k), k = `chosen`, for each row: the mean over all products of k numbers.

    Of t numbers the mean over products of j is (1 - j/t) times that of the first t - 1 plus j/t times
    the last number times their mean over products of j - 1. All terms are positive, so nothing cancels.
    The numbers are divided by their mean first; where the result leaves the range of doubles all the
    same, the row is done again in logarithms.

    >>> rows = np.log(np.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> round(float(np.exp(log_symmetric_mean(rows, 2)[0])) * 6.0, 9)  # 2 + 3 + 4 + 6 + 8 + 12
    35.0
    """
    k, steps = chosen, log_u.shape[1]
    log_mean = _log_mean(log_u)
    # beyond this, symmetric means leave the range of doubles on the way
    if k * math.log10(steps) > 290.0:
        return _in_logarithms(log_u, k)
    u = np.exp(log_u - log_mean[:, None])
    means = np.zeros((k + 1, len(u)))
    means[0] = 1.0
    j = np.arange(1.0, k + 1.0)[:, None]
    for t in range(1, steps + 1):
        means[1:] = np.maximum(1.0 - j / t, 0.0) * means[1:] + j / t * u[:, t - 1] * means[:-1]
        means[t + 1 :] = 0.0  # there are no products of more numbers than there are
    with np.errstate(divide="ignore"):
        result = k * log_mean + np.log(means[k])
    small = np.flatnonzero(means[k] < TINY)
    if small.size:
        result[small] = _in_logarithms(log_u[small], k)
    return np.asarray(result)


def _in_logarithms(log_u: Array, k: int) -> Array:
    """The same recursion in logarithms: slower, of any size."""
    steps = log_u.shape[1]
    means = np.full((k + 1, len(log_u)), -np.inf)
    means[0] = 0.0
    j = np.arange(1.0, k + 1.0)[:, None]
    for t in range(1, steps + 1):
        with np.errstate(divide="ignore"):
            stay, join = np.log(np.maximum(1.0 - j / t, 0.0)), np.log(np.minimum(j / t, 1.0))
        means[1:] = np.logaddexp(stay + means[1:], join + log_u[:, t - 1] + means[:-1])
        means[t + 1 :] = -np.inf
    return np.asarray(means[k])
