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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpdp.numerics.special import Array, log_ndtr, log_sum, ndtri, ndtri_exp
from sharpdp.questions.estimate.experiment import (
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
    row_blocks,
)
from sharpdp.questions.estimate.single_precision import ERROR, single_normals
from sharpdp.questions.estimate.tokens_in_bins import log_moments, tokens

__all__ = ["AllocationRun", "log_symmetric_mean", "log_symmetric_mean_by_coins"]

MOST_TOKENS = 256
"""Tokens thrown at most: their tables grow with the square."""


LARGEST_RECURSION = 16
"""Symmetric means of more numbers at once are found as chances of coins, which is then faster."""

FEWEST_SINGLES = 64
"""Fewer normals are drawn in double precision."""

LARGEST_SINGLE_SHIFT = 4.0
"""Up to this mu single precision holds U and its logarithm well enough."""

Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

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

    @property
    def work(self) -> int:
        """Symmetric means cost k steps of the recursion, or some sixty operations with coins."""
        return self.steps * min(self.participations, 60)

    def tilts(self, direction: Direction) -> tuple[Tilt, ...]:
        """Orders b / k for up to 256 tokens b, cut or not; without the record for k = 1, by rejection."""
        k = self.participations
        if direction is Direction.WITHOUT_RECORD:
            orders = [a for a in STRENGTHS if k == 1 and self._sum(a).likely]
            return (PLAIN, *map(Tilt, orders))
        orders = [a for a in STRENGTHS if k * a == round(k * a) <= MOST_TOKENS]
        if not orders:  # k is large: as many tokens as there may be, and fewer
            orders = [b / k for b in (32, 64, 128, MOST_TOKENS)]
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
        """The moments of tilts, drawn or not; for k > 1 the moments of k epochs of one in T/k steps.

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
        """Epoch after epoch, in rows that stay in the cache."""
        if direction is Direction.WITH_RECORD:
            return self._with_record(rng, samples, repeats, tilt)
        if tilt != PLAIN:
            return by_rows(samples, repeats, self.steps, lambda rows: self._tilted(rng, rows, tilt))
        loss, error = np.zeros(samples), np.zeros(samples)
        for _ in range(repeats):
            ratios = self._ratios(rng, np.empty((samples, 0)))
            loss -= ratios.log_ratio
            error += ratios.error
        return Draws(loss, np.zeros(samples), error)

    def _sum(self, order: float) -> _Sum:
        return exponentials(self.steps, self.mu, order)

    def _tilted(self, rng: np.random.Generator, samples: int, tilt: Tilt) -> Draws:
        """One epoch without the record, for k = 1: a tilt keeps small ratios."""
        law = self._sum(tilt.order)
        which = np.searchsorted(law.rising, rng.random(samples), side="right")
        slowness = law.t[np.minimum(which, law.t.size - 1)] / self.steps
        log_mean, error = _kept(rng, self.mu, slowness, self.steps)
        log_density = np.logaddexp.reduce(
            law.log_weights - law.t * np.exp(log_mean)[:, None], axis=1
        )
        # where the sum no longer covers X^-a the payoff is given up: its chance is LOST at most
        loss = np.where(log_mean < law.log_least, -np.inf, -log_mean)
        return Draws(loss, log_density - law.log_total, error)

    def _with_record(
        self, rng: np.random.Generator, samples: int, repeats: int, tilt: Tilt
    ) -> Draws:
        """Tokens shift the record's steps, which are the first ones, and some others.

        With a cut, half of the draws have a normal beyond it somewhere, and half are tilted below it.
        """
        jump_in = np.full(samples, -1)
        if tilt.cut < math.inf:
            epochs = rng.integers(repeats, size=samples)
            jump_in = np.where(rng.random(samples) < 0.5, epochs, -1)
        loss, log_mean, beyond, error = np.zeros((4, samples))
        for epoch in range(repeats):
            special = self._special(rng, jump_in, epoch, tilt)
            ratios = self._ratios(rng, special, tilt.cut, jump_in < 0)
            loss += ratios.log_ratio
            log_mean += ratios.log_mean
            beyond += ratios.beyond + np.count_nonzero(special > tilt.cut, axis=1)
            error += ratios.error
        thrown = round(self.participations * tilt.order)
        below = thrown * log_mean - repeats * self.log_moment(Direction.WITH_RECORD, tilt)
        if tilt.cut == math.inf:
            return Draws(loss, below, error)
        log_jumps = self.log_jump(tilt) + math.log(repeats)
        log_beyond = np.log(np.maximum(beyond, 1.0)) - log_jumps
        return Draws(loss, math.log(0.5) + np.where(beyond > 0, log_beyond, below), error)

    def _special(self, rng: np.random.Generator, jump_in: Whole, epoch: int, tilt: Tilt) -> Array:
        """The normals of one epoch that are not noise alone: of the record, with tokens, or a jump."""
        cut, mu, k = tilt.cut, self.mu, self.participations
        tilted = np.flatnonzero(jump_in < 0)
        law = tokens(bins=self.steps, marked=k, thrown=round(k * tilt.order), mu=mu, cut=cut)
        shifts = mu * law.draw(rng, tilted.size)
        width = max(shifts.shape[1], min(k + 1, self.steps) if cut < math.inf else k)
        y = rng.standard_normal((jump_in.size, width))
        y[:, :k] += mu
        inner = y[tilted, : shifts.shape[1]]
        inner[:, :k] -= mu
        inner += shifts
        high = np.nonzero(inner > cut)
        # what a law gives below the cut, whatever was drawn above it
        log_room = log_ndtr(cut - shifts[high]) - rng.standard_exponential(high[0].size)
        inner[high] = np.minimum(shifts[high] + ndtri_exp(log_room), cut)
        y[tilted, : shifts.shape[1]] = inner
        _redrawn_below(rng, y[:, shifts.shape[1] :], cut, jump_in < 0)
        jumping = np.flatnonzero(jump_in == epoch)
        own = -rng.standard_exponential(jumping.size) < self._log_own(tilt) - self.log_jump(tilt)
        center = np.where(own, mu, 0.0)
        log_room = log_ndtr(center - cut) - rng.standard_exponential(jumping.size)
        height = center - ndtri_exp(log_room)
        y[jumping, np.where(own, 0, k)] = np.maximum(height, np.nextafter(cut, np.inf))
        return y

    def _ratios(
        self,
        rng: np.random.Generator,
        special: Array,
        cut: float = math.inf,
        below: Flags | None = None,
    ) -> _Ratios:
        """The ratios of one epoch: special normals, and noise in all other steps.

        Noise stays below the cut in rows that are said to; in others, normals beyond it are counted.
        """
        noise = _one_of_all if self.participations == 1 else _some_of_all
        capped = np.zeros(len(special), dtype=np.bool_) if below is None else below
        return noise(self, rng, special, cut, capped)


@dataclass(frozen=True, eq=False)
class _Ratios:
    """log X and log of the mean of U of each row, normals beyond the cut, and how far logs may be off."""

    log_ratio: Array
    log_mean: Array
    beyond: Array
    error: Array


def _one_of_all(
    run: AllocationRun, rng: np.random.Generator, special: Array, cut: float, below: Flags
) -> _Ratios:
    """k = 1: noise is summed as it comes, in single precision where that holds it."""
    rows, mu, columns = len(special), run.mu, run.steps - special.shape[1]
    slack = ERROR if _is_single(mu, columns) else 0.0
    total, beyond, error = np.zeros((3, rows))
    for part in row_blocks(rows, columns):
        for start in range(0, columns, BLOCK):
            width = min(BLOCK, columns - start)
            y = _normals(rng, mu, part.stop - part.start, width)
            if cut < math.inf:
                high = np.flatnonzero(y > cut - slack)
                near = high[y.reshape(-1)[high] < cut + slack]
                error[part.start + near // width] = np.inf
                beyond[part] += _redrawn_below(rng, y, cut, below[part])
            total[part] += np.sum(_exponential(y, mu), axis=1, dtype=np.float64)
    with np.errstate(divide="ignore"):
        log_noise = np.log(total)
    log_u = mu * special - 0.5 * mu**2
    log_mean = log_sum(np.column_stack([log_u, log_noise])) - math.log(run.steps)
    error += _single_error(mu) if slack else 0.0
    return _Ratios(log_mean, log_mean, beyond, error)


def _some_of_all(
    run: AllocationRun, rng: np.random.Generator, special: Array, cut: float, below: Flags
) -> _Ratios:
    """k > 1: all normals of some rows at once, in double precision."""
    rows, mu, columns = len(special), run.mu, run.steps - special.shape[1]
    log_ratio, log_mean, beyond = np.zeros((3, rows))
    for part in row_blocks(rows, run.steps):
        noise = rng.standard_normal((part.stop - part.start, columns))
        beyond[part] = _redrawn_below(rng, noise, cut, below[part])
        log_u = mu * np.hstack([special[part], noise]) - 0.5 * mu**2
        log_mean[part] = log_sum(log_u) - math.log(run.steps)
        log_ratio[part] = log_symmetric_mean(log_u, run.participations)
    return _Ratios(log_ratio, log_mean, beyond, np.zeros(rows))


def _redrawn_below(
    rng: np.random.Generator, y: NDArray[Any], cut: float, below: Flags
) -> NDArray[np.float64]:
    """Draw normals beyond the cut again in rows that are below it; how many there are in the others."""
    rows, columns = np.divmod(np.flatnonzero(y > cut), max(y.shape[1], 1))
    again = below[rows]
    counts = np.bincount(rows[~again], minlength=len(y)).astype(np.float64)
    rows, columns = rows[again], columns[again]
    while rows.size:
        y[rows, columns] = rng.standard_normal(rows.size)
        high = y[rows, columns] > cut
        rows, columns = rows[high], columns[high]
    return counts


def _is_single(mu: float, columns: int) -> bool:
    """Whether noise in this many steps is drawn in single precision."""
    return columns >= FEWEST_SINGLES and mu <= LARGEST_SINGLE_SHIFT


def _normals(rng: np.random.Generator, mu: float, rows: int, columns: int) -> NDArray[Any]:
    if not _is_single(mu, columns):
        return rng.standard_normal((rows, columns))
    return single_normals(rng, rows * columns).reshape(rows, columns)


def _exponential(y: NDArray[Any], mu: float) -> NDArray[Any]:
    """U = e^(mu y - mu^2/2), in the place of y."""
    y *= y.dtype.type(mu)
    y -= y.dtype.type(0.5 * mu**2)
    np.exp(y, out=y)
    return y


def _single_error(mu: float) -> float:
    """How far log U may be off in single precision: the normal, three roundings, the exponential."""
    return mu * ERROR + (11.0 * mu + 0.5 * mu**2) * 2.0**-22 + 2.0**-21


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


def _kept(rng: np.random.Generator, mu: float, slowness: Array, steps: int) -> tuple[Array, Array]:
    """log of the mean of U, each kept with chance e^(-slowness U) or drawn again, and its error.

    Where few are refused, points fall on the rectangles [0, largest U of the row] of its steps at the
    rate of its slowness, and a U is kept if none falls below it. A point that single precision cannot
    tell from U makes its row unsure.
    """
    error = np.zeros(slowness.size)
    largest = mu * float(-ndtri(0.5 / steps)) - 0.5 * mu**2
    if float(np.max(slowness)) * math.exp(min(largest, 700.0)) > 0.5:
        u = _exponential(rng.standard_normal((slowness.size, steps)), mu)
        chance = u * -slowness[:, None]
        refused = np.flatnonzero(rng.random(u.shape) >= np.exp(chance, out=chance))
    else:
        u = _exponential(_normals(rng, mu, slowness.size, steps), mu)
        slack = 0.0 if u.dtype == np.float64 else _single_error(mu)
        error += slack
        tops = np.max(u, axis=1) * (1.0 + 2.0 * slack)
        rows = np.repeat(np.arange(slowness.size), rng.poisson(slowness * tops * steps))
        points = rows * steps + rng.integers(steps, size=rows.size)
        heights, met = rng.random(rows.size) * tops[rows], u.reshape(-1)[points].astype(np.float64)
        error[rows[np.abs(heights - met) < 2.0 * slack * met]] = np.inf
        hit = np.zeros(u.size, dtype=np.bool_)
        hit[points[heights < met]] = True
        refused = np.flatnonzero(hit)
    flat = u.reshape(-1)
    while refused.size:
        again = np.exp(mu * rng.standard_normal(refused.size) - 0.5 * mu**2)
        flat[refused] = again
        fails = rng.standard_exponential(refused.size) < slowness[refused // steps] * again
        refused = refused[fails]
    return np.log(np.sum(u, axis=1, dtype=np.float64) / steps), error


def log_symmetric_mean(log_u: Array, chosen: int) -> Array:
    """log of e_k(U) / C(T, k), k = `chosen`, for each row: the mean over all products of k numbers.

    Of t numbers the mean over products of j is (1 - j/t) times that of the first t - 1 plus j/t times
    the last number times their mean over products of j - 1. All terms are positive, so nothing cancels.
    The numbers are divided by their mean first. For large k, and where the result leaves the range of
    doubles all the same, it is the chance of a sum of coins.

    >>> rows = np.log(np.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> round(float(np.exp(log_symmetric_mean(rows, 2)[0])) * 6.0, 9)  # 2 + 3 + 4 + 6 + 8 + 12
    35.0
    """
    k, steps = chosen, log_u.shape[1]
    if k == steps:
        return np.asarray(np.sum(log_u, axis=1))
    # beyond this the recursion is slower, or symmetric means leave the range of doubles on the way
    if k > LARGEST_RECURSION or k * math.log10(steps) > 290.0:
        return log_symmetric_mean_by_coins(log_u, k)
    log_mean = log_sum(log_u) - math.log(steps)
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
        result[small] = log_symmetric_mean_by_coins(log_u[small], k)
    return np.asarray(result)


def log_symmetric_mean_by_coins(log_u: Array, chosen: int) -> Array:
    """log of the symmetric mean by the probability that independent coins show k heads, 0 < k < T.

    With odds r U_t of heads, e_k r^k = prod (1 + r U_t) Pr[k heads]. r is such that k heads are expected;
    they are then the most likely number, with a chance of at least 0.75 / (4 s + 3), s^2 = sum p (1 - p)
    the variance. The chance is the mean of Re f(a) e^(-ika) over N angles a, f = prod (1 - p + p e^(ia)),

        up to Pr[heads off by N or more] <= 2 e^(-x^2 / (2 s^2 + 2 x / 3)), x = N - 1   (Bernstein)
        and angles with |f(a)| <= e^(-s^2 (1 - cos a)) <= e^(-36), which are left out:

    a relative 1e-12 together. N is 9 s + 45, and about 20 angles count.

    Source: boucheron2013 Corollary 2.11; darroch1964.

    >>> rows = np.log(np.array([[1.0, 2.0, 3.0, 4.0]]))
    >>> round(float(np.exp(log_symmetric_mean_by_coins(rows, 2)[0])) * 6.0, 9)
    35.0
    """
    k, steps = chosen, log_u.shape[1]
    columns = np.ascontiguousarray(log_u.T)
    log_r, p = _even_odds(columns, k)
    variance = np.sum(p * (1.0 - p), axis=0)
    count = math.ceil(9.0 * math.sqrt(float(np.max(variance)))) + 45
    total, factors = np.ones(len(log_u)), np.empty(p.shape, dtype=np.complex128)
    for index in range(1, count // 2 + 1):
        angle = 2.0 * math.pi * index / count
        if float(np.min(variance)) * (1.0 - math.cos(angle)) > 36.0:
            break
        np.multiply(p, np.exp(1j * angle) - 1.0, out=factors)
        factors += 1.0
        turned = np.multiply.reduce(factors, axis=0) * np.exp(-1j * angle * (k % count))
        total += (1.0 if 2 * index == count else 2.0) * turned.real
    choices = math.lgamma(steps + 1.0) - math.lgamma(k + 1.0) - math.lgamma(steps - k + 1.0)
    log_odds = columns + log_r
    log_all = np.sum(np.maximum(log_odds, 0.0) + np.log1p(np.exp(-np.abs(log_odds))), axis=0)
    return np.asarray(log_all - k * log_r + np.log(total / count) - choices)


def _even_odds(log_u: Array, k: int) -> tuple[Array, Array]:
    """log r for each column, and the chances p of heads with odds r U, whose sum is k within 1e-6.

    Newton's method from even odds in the middle, and halvings where it would leave the interval known.
    """
    steps = len(log_u)
    low, high = -np.max(log_u, axis=0), -np.min(log_u, axis=0)
    # odds between those at which all coins are as likely as the likeliest, or as the least likely one
    low, high = low + math.log(k / (steps - k)), high + math.log(k / (steps - k))
    log_r = np.clip(math.log(k / (steps - k)) - np.mean(log_u, axis=0), low, high)
    while True:
        p = 1.0 / (1.0 + np.exp(-np.clip(log_u + log_r, -700.0, 700.0)))
        excess = np.sum(p, axis=0) - k
        if float(np.max(np.abs(excess))) <= 1e-6:
            return log_r, p
        low, high = np.where(excess < 0.0, log_r, low), np.where(excess > 0.0, log_r, high)
        step = log_r - excess / np.maximum(np.sum(p * (1.0 - p), axis=0), TINY)
        log_r = np.where((step > low) & (step < high), step, 0.5 * (low + high))
