"""Bounds on training runs whose batches are drawn with replacement: a record may come several times.

A batch is b independent draws of n examples. A record comes J times, J ~ Bin(b, 1/n), and contributes J
times its gradient: up to J clipping norms. Everybody else fills the other b - J places. With weights, the
largest probability of a draw stands for 1/n. Proofs are in docs/proofs/scheme-proofs.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sharpdp.batches import FixedSizeBatches
from sharpdp.bounds.fixed_size.opposed_others import (
    LEAST_MU,
    MANY_STEPS,
    MOST_MU,
    NOT_THE_WORST,
    opposed_others,
)
from sharpdp.bounds.fixed_size.pairs import HalvesPair, subset_zero_out
from sharpdp.bounds.registry import REAL_NUMBERS, Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.numerics.roots import many_last_true
from sharpdp.numerics.special import Array, cell_masses
from sharpdp.numerics.tolerances import FORMULA_ERROR, PROFILE_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import calls_above, pair_from_halves
from sharpdp.pairs.pair import GaussianPair, Pair
from sharpdp.pairs.released_index import released
from sharpdp.pairs.subsampled import PoissonSampledPair

__all__ = [
    "opposed_draws_lower",
    "opposed_repeats_upper",
    "revealed_repeats_upper",
    "silent_draws_lower",
    "split_draws_upper",
    "substituted_draws_upper",
]

_LEAST = 1e-290
"""Numbers of occurrences that are less likely are left out of cells, whose masses are larger."""

_SEEN, _TOLD_APART = 1e-12, 1e-24
"""Cells are put around numbers of occurrences that are at least as likely as the first. Those beyond
which there is less than the second are gathered on the upper side."""

_FINEST, _COARSEST, _CELLS, _REACH = 0.0125, 0.05, 3000, 9.5
"""Widths of cells, about how many there are between, and how many deviations around a mean have them."""

_MASS_ERROR = 1e-12
"""Relative error of the mass of a cell: probabilities of occurrences are products of up to some hundred
factors, and cells are differences of tails."""

_FIRST, _GROWTH, _LARGEST_LOSS, _LOG_REST = 1e-4, 1.02, 1e9, -140.0
"""Thresholds of a tabulated profile: the first in units of its value at zero, their ratio, and the
largest loss; it is followed until its logarithm is below the last of these."""

_ROUGH_GROWTH = 1.06
"""The ratio of thresholds for a first look."""

_HALVINGS = 44
"""Where profiles are split need not be exact: what is lost goes with the square of the error."""


@dataclass(frozen=True)
class Occurrences:
    """How often one of ``examples`` comes in ``draws`` independent draws: Bin(draws, 1 / examples).

    With weights, ``examples`` is the inverse of the probability of a draw, and no whole number.
    """

    examples: Fraction
    draws: int

    @property
    def others(self) -> float:
        """One less than the number of examples."""
        return float(self.examples - 1)

    @property
    def masses(self) -> Array:
        """P[J = 0], P[J = 1], ... as long as they are above 1e-290, each from the one before.

        >>> Occurrences(Fraction(2), 2).masses.round(12).tolist()
        [0.25, 0.5, 0.25]
        """
        absent = float((self.examples - 1) / self.examples)
        log_absent = np.log1p(-1.0 / float(self.examples)) if absent > 0.5 else np.log(absent)
        masses = [float(np.exp(self.draws * log_absent))]
        for count in range(self.draws):
            more = masses[-1] * (self.draws - count) / ((count + 1.0) * self.others)
            if more < _LEAST:
                break
            masses.append(more)
        return np.array(masses)

    def from_above(self, least: int) -> dict[int, float]:
        """Weights of numbers from ``least`` on that are above the law of J in the stochastic order.

        Unlikely numbers are gathered at larger ones, the last at ``draws``, which J never exceeds.

        >>> weights = Occurrences(Fraction(1000), 10).from_above(1)
        >>> list(weights)[0], list(weights)[-1], round(sum(weights.values()), 9)
        (1, 10, 0.00995512)
        """
        masses = self.masses
        tails = np.append(np.cumsum(masses[::-1])[::-1], 0.0) * (1.0 + FORMULA_ERROR)  # P[J >= k]
        weights, first = {}, least
        while first < masses.size:
            last = first if tails[first] > _TOLD_APART else 2 * first
            if last >= masses.size - 1:
                # the rest of the law, which is below 1e-288, is there too
                weights[self.draws] = float(tails[first]) + 1e-280
                break
            weights[last] = float(tails[first] - tails[last + 1])
            first = last + 1
        return weights


def _run(mechanism: DPSGD[FixedSizeBatches]) -> tuple[float, Occurrences, int]:
    scheme = mechanism.batches
    occurrences = Occurrences(1 / scheme.largest_share, scheme.batch_size)
    return 1.0 / mechanism.noise_multiplier, occurrences, scheme.steps


def _replaces(mechanism: DPSGD[FixedSizeBatches]) -> bool:
    """True if an example may be drawn several times."""
    return mechanism.batches.replacement


bound = partial(
    register,
    adjacency=Adjacency.ZERO_OUT,
    holds_when="batches are drawn with replacement and not revealed; weights, if there are any, are "
    "public or chosen without looking at the records; per-example gradients are clipped and counted as "
    f"often as the example was drawn; noise is added in every step; {REAL_NUMBERS}",
    attained_when="all other gradients point against that of the record (with weights, the one with the "
    "largest), each as long as the clipping norm, in every step",
    source="balle2018subsampling Theorem 10",
    proof="scheme-proofs",
    applies=needs(_replaces, "draws with replacement"),
)


def _many_steps(mechanism: DPSGD[FixedSizeBatches]) -> bool:
    """True in so many steps that others against the record count."""
    mu, occurrences, steps = _run(mechanism)
    if not _replaces(mechanism) or steps < 100 or not LEAST_MU <= mu <= MOST_MU:
        return False
    # of records with smaller weights it is not proved
    return mechanism.batches.weights is None and occurrences.examples > 1


@bound(
    source="balle2018subsampling Theorem 10; shaked2007 Section 3.A",
    proof="shuffled-batches",
    applies=needs(_many_steps, f"{MANY_STEPS}, drawn with replacement and without weights"),
    factors=lambda mechanism, adjacency: 1,
)
def opposed_repeats_upper(mechanism: DPSGD[FixedSizeBatches], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over draws with replacement: repeats are revealed, others oppose the record.

    As `revealed_repeats_upper`, with the pairs of `opposed_others_upper` if the record comes at most
    once: what the others do matters in no other case.

    Numerics: see `bounds.fixed_size.opposed_others`.

    >>> sizes = {"dataset_size": 60_000, "batch_size": 512, "steps": 3540}
    >>> run = DPSGD(FixedSizeBatches(**sizes, replacement=True), noise_multiplier=0.8)
    >>> [count for _, count in opposed_repeats_upper(run, Adjacency.ZERO_OUT)]
    [3540, 1]
    """
    mu, occurrences, steps = _run(mechanism)
    pairs = _opposed_pairs(mu, occurrences)
    if pairs is None:
        raise Inapplicable(NOT_THE_WORST)
    return ((pairs[0], steps), (pairs[1], 1))


@lru_cache(maxsize=64)
def _opposed_pairs(mu: float, occurrences: Occurrences) -> tuple[Pair, Pair] | None:
    """The pair of every step, and the one that is added once; None if no condition is met."""
    repeats = tuple(occurrences.from_above(2).items())
    return opposed_others(mu, _rate_of_one(occurrences), repeats)


@bound()
def revealed_repeats_upper(mechanism: DPSGD[FixedSizeBatches], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over draws with replacement: a record that comes twice or more is revealed.

        J <= 1: a random subset in which the record is at rate b / (n - 1 + b);  J = k >= 2: N(k mu), N(0)

    J has the same law for both data sets, so that it may be told whether it is above one, and then what
    it is.

    Numerics: unlikely J are gathered at larger ones; probabilities are rounded up.

    >>> scheme = FixedSizeBatches(dataset_size=1, batch_size=1, steps=3, replacement=True)
    >>> revealed_repeats_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    mu, occurrences, steps = _run(mechanism)
    return ((_zero_out_pair(mu, occurrences), steps),)


@lru_cache(maxsize=64)
def _zero_out_pair(mu: float, occurrences: Occurrences) -> Pair:
    if occurrences.examples == 1:
        return GaussianPair(mu)
    repeats = occurrences.from_above(2)
    subset = subset_zero_out(mu, _rate_of_one(occurrences))
    pairs = [subset, *(GaussianPair(times * mu) for times in repeats)]
    return released(pairs, [1.0 - sum(repeats.values()), *repeats.values()])


def _rate_of_one(occurrences: Occurrences) -> float:
    """The chance that the record comes once if it comes at most once, rounded up."""
    return occurrences.draws / (occurrences.others + occurrences.draws) * (1.0 + FORMULA_ERROR)


def _split_draws(
    mechanism: DPSGD[FixedSizeBatches], adjacency: Adjacency, growth: float
) -> PairCounts:
    """The pair of every step, with thresholds in this ratio."""
    mu, occurrences, steps = _run(mechanism)
    return ((_split_pair(mu, occurrences, adjacency, growth), steps),)


@bound(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    source="rhodes2014",
    effort=Effort(
        rough=lambda mechanism, adjacency: _split_draws(mechanism, adjacency, _ROUGH_GROWTH)
    ),
)
def split_draws_upper(mechanism: DPSGD[FixedSizeBatches], adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over draws with replacement: each number of occurrences is split in two.

        H_x <= sum over k >= 1 of p_k t_k h_{d k mu}(x / t_k)
                                  + p_k (1 - t_k) h_{c k mu}(l_k (x - 1) p_0 / (p_k (1 - t_k)))

    p_k = P[J = k]; for x >= 1, all t_k in (0, 1] and all l_k >= 0 with sum one. Replace-one: c = d = 2;
    zero-out has d = 1, and c = 2 for the record against the null record, c = 1 the other way. The t_k and
    l_k are those with which the bound is attained by others that all contribute the opposite (c = 2) or
    the same (c = 1), as far as they are in range.

    Numerics: the t_k and l_k need not be exact. Probabilities are rounded up, that of J = 0 down; values
    at some thousand x are joined by chords, and what is left at the last one counts as revealed.
    """
    return _split_draws(mechanism, adjacency, _GROWTH)


@bound(adjacency=Adjacency.REPLACE_ONE, proof="")
def substituted_draws_upper(mechanism: DPSGD[FixedSizeBatches], _: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over draws with replacement, for a record with another value.

        H_x <= sum over k >= 1 of P[J = k] h_{2 k mu}(1 + (x - 1)/eta),   eta = P[J >= 1], x >= 1

    both ways; h_m is the profile of N(m) against N(0). To replace k occurrences moves the sum by up to
    2 k clipping norms.

    Numerics: unlikely J are gathered at larger ones; probabilities are rounded up.

    >>> scheme = FixedSizeBatches(dataset_size=1, batch_size=1, steps=3, replacement=True)
    >>> substituted_draws_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.REPLACE_ONE)
    ((GaussianPair(mu=1.0), 3),)
    """
    mu, occurrences, steps = _run(mechanism)
    return ((_replace_one_pair(mu, occurrences), steps),)


@lru_cache(maxsize=64)
def _replace_one_pair(mu: float, occurrences: Occurrences) -> Pair:
    if occurrences.examples == 1:
        return GaussianPair(2.0 * mu)
    weights = occurrences.from_above(1)
    rate = sum(weights.values())
    shares = [weight / rate for weight in weights.values()]
    base = released([GaussianPair(2.0 * times * mu) for times in weights], shares)
    half = PoissonSampledPair(base, rate)
    return HalvesPair(half, half)


@lru_cache(maxsize=64)
def _split_pair(mu: float, occurrences: Occurrences, adjacency: Adjacency, growth: float) -> Pair:
    replaced = adjacency is Adjacency.REPLACE_ONE
    if occurrences.examples == 1:
        return GaussianPair(2.0 * mu if replaced else mu)
    ahead = _SplitProfile(mu, occurrences, 2, 2 if replaced else 1)
    profiles = (ahead, ahead if replaced else _SplitProfile(mu, occurrences, 1, 1))
    halves, revealed = [], []
    for profile in profiles:
        losses, values = profile.tabulated(growth)
        with np.errstate(divide="ignore"):
            more = np.log(values[:-1] - values[-1])
        halves.append(calls_above(losses[:-1], more, float(losses[-1])))
        revealed.append(float(values[-1]) * (1.0 + PROFILE_ERROR))
    first, second = (halves[0], halves[0] if replaced else halves[1])
    return pair_from_halves(first, second, side=Side.UPPER, infinite=(revealed[0], revealed[1]))


class _SplitProfile:
    """The bound of `split_draws_upper` for means at c k mu and distances of d k mu, k occurrences."""

    def __init__(self, mu: float, occurrences: Occurrences, c: int, d: int) -> None:
        """Take the probabilities of occurrences, from above."""
        weights = occurrences.from_above(1)
        self.log_weights = np.log(np.array(list(weights.values())))
        self.log_absent = float(np.log(occurrences.masses[0] / (1.0 + FORMULA_ERROR)))
        times = np.array(list(weights), dtype=float)
        self.far, self.near, self.apart = times * (c * mu), times * ((c - d) * mu), times * (d * mu)

    def log_values(self, losses: Array) -> Array:
        """Upper bounds on log H_x at x = e^loss, loss >= 0."""
        with np.errstate(divide="ignore"):
            log_rest = losses + np.log(-np.expm1(-losses)) + self.log_absent  # (x - 1) p_0
        z = self._places(losses, log_rest)
        ratio = z[:, None] * self.far - 0.5 * self.far**2  # log of N(far) over N(0) at z
        log_t = np.minimum(
            losses[:, None] + z[:, None] * self.near - 0.5 * self.near**2 - ratio, 0.0
        )
        log_t[losses == 0.0] = 0.0  # nothing is left to split off
        with np.errstate(divide="ignore"):
            log_other = self.log_weights + np.log(-np.expm1(log_t))  # p_k (1 - t_k)
        shares = log_other + ratio
        total = np.logaddexp.reduce(shares, axis=1, keepdims=True)
        # where nothing is split off, thresholds do not matter
        usable = np.isfinite(log_other) & np.isfinite(total)
        with np.errstate(invalid="ignore"):
            thresholds = np.where(usable, ratio + log_rest[:, None] - total, 0.0)
        values = np.full(losses.size, -np.inf)
        for column, (far, apart) in enumerate(zip(self.far, self.apart, strict=True)):
            split = log_t[:, column]
            one = GaussianPair(float(apart)).log_hockey_stick(losses - split)
            other = GaussianPair(float(far)).log_hockey_stick(thresholds[:, column])
            both = np.logaddexp(
                self.log_weights[column] + split + one, log_other[:, column] + other
            )
            values = np.logaddexp(values, both)
        return np.minimum.accumulate(values) + PROFILE_ERROR

    def _places(self, losses: Array, log_rest: Array) -> Array:
        """Where sum p_k (N(far_k) - x N(near_k))_+ passes (x - 1) p_0 N(0), by halving; not certified."""
        low = np.full(losses.size, -1.0)
        high = np.full(losses.size, 2.0 * float(self.far[-1]) + 40.0) + losses / float(
            self.apart[0]
        )

        def is_below(z: Array) -> NDArray[np.bool_]:
            ratio = z[:, None] * self.far - 0.5 * self.far**2
            other = losses[:, None] + z[:, None] * self.near - 0.5 * self.near**2
            with np.errstate(divide="ignore", invalid="ignore"):
                gain = ratio + np.log(-np.expm1(np.minimum(other - ratio, 0.0)))
            above = np.logaddexp.reduce(self.log_weights + gain, axis=1) > log_rest
            return np.asarray(~above)

        return many_last_true(is_below, low, high, _HALVINGS)[1]

    def tabulated(self, growth: float) -> tuple[Array, Array]:
        """Losses from zero on, and upper bounds on the profile, until next to nothing is left."""
        start = float(np.exp(self.log_values(np.zeros(1))[0]))
        ends = np.geomspace(1e-3 * start, _LARGEST_LOSS, 200)
        end = ends[int(np.argmax(self.log_values(ends) < _LOG_REST))]
        count = int(np.log(end / (_FIRST * start)) / np.log(growth)) + 2
        losses = np.append(0.0, np.geomspace(_FIRST * start, end, count))
        return losses, np.exp(self.log_values(losses))


@bound(adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE))
def opposed_draws_lower(mechanism: DPSGD[FixedSizeBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over draws with replacement: all other records contribute the opposite.

        replace-one: sum_k P[J = k] N(2 k mu) against N(0);   zero-out: against sum_k P[J = k] N(k mu)

    Numerics: through cells, which are a post-processing.
    """
    mu, occurrences, steps = _run(mechanism)
    other = 0.0 if adjacency is Adjacency.REPLACE_ONE else mu
    return ((_in_cells(2.0 * mu, other, occurrences), steps),)


@bound(attained_when="all other gradients are zero in every step")
def silent_draws_lower(mechanism: DPSGD[FixedSizeBatches], _: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over draws with replacement: all other records contribute nothing.

        sum_k P[J = k] N(k mu) against N(0)

    Numerics: through cells, which are a post-processing.
    """
    mu, occurrences, steps = _run(mechanism)
    return ((_in_cells(mu, 0.0, occurrences), steps),)


@lru_cache(maxsize=64)
def _in_cells(mu: float, other: float, occurrences: Occurrences) -> Pair:
    """sum_k P[J = k] N(k mu) against sum_k P[J = k] N(k other), seen through cells: from below."""
    if occurrences.examples == 1:
        return GaussianPair(mu - other)
    masses = occurrences.masses
    seen = np.flatnonzero(masses >= _SEEN)
    edges = _edges(np.concatenate([seen * mu, seen * other]))
    p, q = _mixed(masses, edges, mu), _mixed(masses, edges, other)
    # next to cells that one of the two hardly reaches, the border is left out
    starts = np.flatnonzero((p > _LEAST) & (q > _LEAST))
    starts[0] = 0
    pair = AtomicPair.from_rounded_pmfs(*(np.add.reduceat(law, starts) for law in (p, q)))
    error = pair.loss_error + 2.0 * _MASS_ERROR
    return replace(pair, loss_error=error, mass_error=_MASS_ERROR)


def _mixed(masses: Array, edges: Array, shift: float) -> Array:
    """The mass of each cell under sum_k masses[k] N(k shift)."""
    cells = np.zeros(edges.size - 1)
    for times, mass in enumerate(masses):
        cells += mass * cell_masses(edges, times * shift)
    return cells


def _edges(means: Array) -> Array:
    """Cells of equal width around all means."""
    width = float(np.clip((np.ptp(means) + 2.0 * _REACH) / _CELLS, _FINEST, _COARSEST))
    reach = np.arange(-np.ceil(_REACH / width), np.ceil(_REACH / width) + 1.0)
    places = np.unique(np.round(means / width)[:, None] + reach)
    return np.concatenate([[-np.inf], places * width, [np.inf]])
