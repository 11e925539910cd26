"""Bounds on the last iterate of noisy gradient descent. Proofs are in docs/proofs/last-iterate.md.

In the unit of the noise of one step, a record that takes part moves the iterate by at most 1 / noise
multiplier, twice that if it has two values. What earlier steps moved is multiplied by at most c in every
later step, and noise is added to it: steps that contract forget.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from sharpdp.batches import DeterministicBatches, PoissonBatches, ShuffledBatches
from sharpdp.bounds.last_iterate.quadratic_pair import bernoulli_uses, quadratic_pair, shuffled_uses
from sharpdp.bounds.last_iterate.shift_schedule import (
    Participations,
    log_power_sum,
    squared_mu,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.mechanisms import DPSGD, Adjacency, LastIterate, Mechanism, SmoothLoss
from sharpdp.numerics.special import UNIT_ROUNDOFF
from sharpdp.numerics.tolerances import FORMULA_ERROR
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.opposed import opposed
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.released_index import released
from sharpdp.pairs.subsampled import sampled_gaussian

__all__ = [
    "any_loss_lower",
    "contracting_batches_upper",
    "contracting_poisson_upper",
    "contracting_shuffle_upper",
    "every_step_upper",
    "full_batch_upper",
    "linear_losses_upper",
    "penalized_linear_lower",
    "penalized_linear_sampled_lower",
]

STEPS = (
    "nothing but the last iterate is released, no checkpoint and no average; the loss of every possible "
    "record has the stated gradient norm and smoothness, and is convex if stated so, without clipping of "
    "gradients; all steps have the stated learning rate and penalty, and no momentum; the start does not "
    f"depend on the data; noise is added in every step; {CONSTANTS}; {REAL_NUMBERS}"
)
LINEAR = (
    "the loss of the record is linear with the largest gradient, all other losses are zero, and the "
    "start is fixed, or normal with the stated deviation"
)
LINEAR_STEPS = "no projection, no penalty that overshoots, and known losses"
_MOST_POSITIONS = 256
"""Positions in an epoch that are told apart; neighbors count as the later one of them."""

_BEYOND = 1e-12
"""Chance with which a record may be used more often than counted on: then everything is revealed."""

_SHARES = np.linspace(0.02, 0.9, 45)
"""Shares of the noise that may hide what came before a window; every choice gives an upper bound."""

bound = partial(register, holds_when=STEPS, attained_when=LINEAR, proof="last-iterate")
EVERY_NOTION = (Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)


def _log_contraction(mechanism: LastIterate, fullness: float = 1.0) -> float:
    """Logarithm of the Lipschitz constant of a step, rounded up; see `LastIterate.contraction_of`."""
    penalty, curved = _rates(mechanism)
    curved *= fullness
    if not _known(mechanism)[0].convex:
        return math.log((abs(1.0 - penalty) + curved) * (1.0 + FORMULA_ERROR) + FORMULA_ERROR)
    if penalty < 1.0:
        shrinking = math.log1p(-penalty * (1.0 - 4.0 * UNIT_ROUNDOFF)) * (1.0 - 4.0 * UNIT_ROUNDOFF)
    else:
        shrinking = math.log(penalty - 1.0 + 8.0 * UNIT_ROUNDOFF * penalty)
    # a step that is not too long overshoots by nothing
    over = (penalty + curved) * (1.0 + 8.0 * UNIT_ROUNDOFF) - 1.0
    return max(shrinking, math.log(over)) if over > 0.0 else shrinking


def _known(mechanism: LastIterate) -> tuple[SmoothLoss, float]:
    """The loss, and the learning rate that comes with it."""
    assert mechanism.loss is not None
    assert mechanism.learning_rate is not None
    return mechanism.loss, mechanism.learning_rate


def _rates(mechanism: LastIterate) -> tuple[float, float]:
    """Learning rate times regularization, and times smoothness."""
    loss, rate = _known(mechanism)
    return rate * loss.regularization, rate * loss.smoothness


def _move(mechanism: LastIterate, adjacency: Adjacency) -> float:
    """What one use of a record moves the iterate by, in deviations of the noise."""
    return (2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0) / mechanism.noise_multiplier


def _batch_size(mechanism: LastIterate) -> float:
    size = mechanism.batches.expected_batch_size
    assert size is not None
    return size


def _diameter(mechanism: LastIterate, adjacency: Adjacency) -> float:
    """The diameter in units of what one use of a record moves, rounded up; infinite without one."""
    if mechanism.diameter is None:
        return math.inf
    loss, rate = _known(mechanism)
    moved = rate * loss.gradient_norm / _batch_size(mechanism)
    moved *= 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    return mechanism.diameter / moved * (1.0 + FORMULA_ERROR)


def _is_exact(mechanism: LastIterate[DeterministicBatches]) -> bool:
    """Full batches, no projection, and steps that contract as the penalty alone does."""
    if mechanism.loss is None or mechanism.diameter is not None:
        return False
    # a hair of room, so that the slower of two rates is known to be the one of the penalty
    full = mechanism.batches.steps_per_epoch == 1
    return full and mechanism.largest_fullness >= 1.0 + FORMULA_ERROR


@bound(
    adjacency=EVERY_NOTION,
    source="bok2024 Section 4; altschuler2022",
    proof="",
    applies=needs(
        _is_exact, "full batches, no projection, and steps that contract as their penalty"
    ),
    effort=Effort(yields_to=("linear_losses_upper",)),
)
def full_batch_upper(
    mechanism: LastIterate[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of full-batch descent on smooth convex losses with a penalty: one Gaussian pair.

        mu^2 = (1 - c^t) / (1 + c^t) (1 + c) / (1 - c) / s^2,   c = 1 - learning rate * regularization

    for t steps at noise multiplier s, four times that for replace-one; t / s^2 without a penalty. It is
    bounded in t: steps before the last few 1 / (1 - c) cost nothing. `penalized_linear_lower` attains it
    from a fixed start.

    Numerics: mu is rounded up, by a relative 1e-11 at most.

    >>> from sharpdp.mechanisms import SmoothLoss
    >>> plan = DeterministicBatches(dataset_size=50, batch_size=50, epochs=1000)
    >>> loss = SmoothLoss(gradient_norm=1.0, smoothness=1.0, regularization=0.5)
    >>> run = LastIterate(plan, noise_multiplier=1.0, learning_rate=1.0, loss=loss)
    >>> round(full_batch_upper(run, Adjacency.ZERO_OUT)[0][0].mu ** 2, 9)  # 1.5 / 0.5
    3.0
    """
    return ((GaussianPair(_mu(mechanism, adjacency, _batch_uses(mechanism, 0))), 1),)


def _batch_uses(
    mechanism: LastIterate[DeterministicBatches | ShuffledBatches], position: int
) -> Participations:
    """A record that is used in every epoch, so many steps before its end."""
    scheme = mechanism.batches
    period = scheme.steps_per_epoch
    return Participations(scheme.steps, position, position + period, period, scheme.epochs - 1)


def _mu(mechanism: LastIterate, adjacency: Adjacency, uses: Participations) -> float:
    diameter = _diameter(mechanism, adjacency)
    square = squared_mu(_log_contraction(mechanism), uses, diameter)
    return _move(mechanism, adjacency) * math.sqrt(square)


@bound(
    adjacency=EVERY_NOTION,
    source="bok2024 Section 4; chien2025",
    applies=needs(lambda mechanism: mechanism.loss is not None, "a known loss"),
    effort=Effort(yields_to=("full_batch_upper", "linear_losses_upper")),
)
def contracting_batches_upper(
    mechanism: LastIterate[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of deterministic batches, full or cyclic, by the best schedule of shifts.

    A record of the last batch of an epoch is the worst: noise after a use hides it. With contraction c, l
    batches an epoch, E epochs and no projection

        mu^2 s^2 = 1 + c^(2l-2) (1 - c^2) / (1 - c^l)^2 (1 - c^(l(E-1))) / (1 + c^(l(E-1))).

    A projection onto a set of diameter D bounds the distance at any time: all that came before a window
    of steps counts as D. Losses that are not convex have c > 1; the window may still be worth it.

    Numerics: see `bounds.last_iterate.shift_schedule`; the constants and c are rounded up.
    """
    return ((GaussianPair(_mu(mechanism, adjacency, _batch_uses(mechanism, 0))), 1),)


def _is_whole(scheme: ShuffledBatches) -> bool:
    """Whether every record is used once in every epoch."""
    return scheme.examples_per_epoch == scheme.dataset_size


def _shuffles_and_contracts(mechanism: LastIterate[ShuffledBatches]) -> bool:
    """Steps that expand distances are refused: there an earlier use is not better than a later one."""
    if mechanism.loss is None or not _is_whole(mechanism.batches):
        return False
    return _log_contraction(mechanism) <= 0.0


@bound(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    source="bok2024 Section 4; chien2025; jiang2025",
    applies=needs(
        _shuffles_and_contracts,
        "a known loss, every record in every epoch, and steps that do not expand",
    ),
)
def contracting_shuffle_upper(
    mechanism: LastIterate[ShuffledBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of shuffled batches: the place of a record in the last epoch is random and revealed.

    Given its place, q steps before the end, the record is as in deterministic batches. Where the order is
    drawn anew, its places in earlier epochs count as the worst ones, at their ends. (A step later is
    never better: see the proof.)

    Numerics: as for `contracting_batches_upper`; of more than 256 places, neighbors count as the last one
    of them.
    """
    scheme = mechanism.batches
    period, size = scheme.steps_per_epoch, scheme.dataset_size
    rest = size - (period - 1) * scheme.batch_size  # in the last batch
    edges = np.unique(np.linspace(0, period, min(period, _MOST_POSITIONS) + 1).astype(int))
    pairs, weights = [], []
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        uses = _batch_uses(mechanism, first)
        if scheme.order == "redrawn":
            uses = Participations(scheme.steps, first, period, period, scheme.epochs - 1)
        pairs.append(GaussianPair(_mu(mechanism, adjacency, uses)))
        held = (end - first) * scheme.batch_size
        weights.append((held - scheme.batch_size + rest if first == 0 else held) / size)
    return ((released(pairs, weights), 1),)


def _samples(mechanism: LastIterate[PoissonBatches]) -> bool:
    """Poisson batches of known expected size, over losses that let a batch be larger than that."""
    return (
        mechanism.loss is not None
        and mechanism.batches.dataset_size is not None
        and mechanism.largest_fullness > 1.0
        and _log_contraction(mechanism, 0.0) < 0.0
        and _chance_of_large_batch(mechanism) < 1.0
    )


@bound(
    adjacency=EVERY_NOTION,
    source="bok2024 Section 4; altschuler2022; zhu2022 Theorem 11",
    applies=needs(
        _samples,
        "a known loss, a known data set size, and steps that contract on nearly all batches",
    ),
)
def contracting_poisson_upper(
    mechanism: LastIterate[PoissonBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of Poisson batches: a window of sampled steps, and what came before as one Gaussian.

    Before the last w steps two runs are at most z moves apart: the diameter, or the sum of c^i over the
    uses, i steps before the window, which is at most (1 - c^(t-w)) / (1 - c) and, with most chance, not
    much above the sample rate times that. A share h of the noise hides that distance, contracted, over
    the window; the rest hides uses there:

        N(mu, 1) against N(0, 1),   mu^2 = (c^w z / s)^2 (1 - c^2) / (1 - c^(2w)) / h,
        w sampled Gaussian pairs of noise multiplier s sqrt(1 - h).

    Steps contract by c = 1 - learning rate * regularization as long as no batch has more than
    ``largest_fullness`` times its expected size; that one has counts as revealing everything, and so do
    uses whose sum is above z, of chance 1e-12.

    Numerics: the window and the share are looked for by a normal approximation, which decides nothing but
    how good the bound is. Chernoff bounds on batches and uses, c and all else are rounded up.
    """
    scheme = mechanism.batches
    window, share = _window(mechanism, adjacency)
    log_c = _log_contraction(mechanism, 0.0)
    move = _move(mechanism, adjacency)
    pairs: list[tuple[GaussianPair | AtomicPair, int]] = []
    often = _reach(log_c, scheme.sample_rate, scheme.steps)
    distance = _distance(log_c, scheme.steps - window, _diameter(mechanism, adjacency))
    before = _before(log_c, window, min(distance, often))
    revealed = _chance_of_large_batch(mechanism) + (_BEYOND if often < distance else 0.0)
    if before > 0.0:
        pairs.append((GaussianPair(move * before / math.sqrt(share) * (1.0 + FORMULA_ERROR)), 1))
    kept = 1.0 if before == 0.0 else math.sqrt(1.0 - share)
    used = 1.0 / (mechanism.noise_multiplier * kept) * (1.0 + FORMULA_ERROR)
    replaced = adjacency is Adjacency.REPLACE_ONE
    step = (opposed if replaced else sampled_gaussian)(used, scheme.sample_rate)
    if revealed > 0.0:
        pairs.append((AtomicPair.approximate(0.0, min(revealed * (1.0 + FORMULA_ERROR), 1.0)), 1))
    return (*pairs, (step, window))


def _distance(log_c: float, steps: int, diameter: float) -> float:
    """How many moves apart two runs are at most after so many steps."""
    worst = math.expm1(steps * log_c) / math.expm1(log_c) * (1.0 + FORMULA_ERROR)
    return min(worst, diameter)


def _before(log_c: float, window: int, distance: float) -> float:
    """c^w z over the square root of the window's summed c^(2i), in moves; rounded up."""
    hidden = math.expm1(2.0 * window * log_c) / math.expm1(2.0 * log_c)
    return distance * math.exp(window * log_c) / math.sqrt(hidden) * (1.0 + FORMULA_ERROR)


@lru_cache(maxsize=64)
def _reach(log_c: float, rate: float, steps: int) -> float:
    """What the sum of c^i over the sampled ones of so many steps exceeds with chance 1e-12 at most.

    By Chernoff's bound: for every a > 0 the sum of log(1 + rate (e^(a c^i) - 1)), plus log 1e12, over a.
    Terms from the 20,000th on are bounded by rate a c^i e^(a c^i).
    """
    newest = min(steps, 20_000)
    sizes = np.exp(log_c * np.arange(newest))
    at = math.exp(newest * log_c)
    rest = at * -math.expm1((steps - newest) * log_c) / -math.expm1(log_c)
    best = math.inf
    for a in np.geomspace(1e-3, 60.0, 60).tolist():
        log_moment = float(np.sum(np.log1p(rate * np.expm1(a * sizes))))
        log_moment += rate * a * rest * math.exp(a * at)
        best = min(best, (log_moment - math.log(_BEYOND)) / a)
    return best * (1.0 + 1e-9)


@lru_cache(maxsize=64)
def _window(mechanism: LastIterate[PoissonBatches], adjacency: Adjacency) -> tuple[int, float]:
    """A good window, and a good share of the noise for what came before it; both are only choices."""
    scheme = mechanism.batches
    log_c, steps = _log_contraction(mechanism, 0.0), scheme.steps
    diameter, move = _diameter(mechanism, adjacency), _move(mechanism, adjacency)
    often = _reach(log_c, scheme.sample_rate, steps)
    best = (_spread(scheme, steps, move), steps, 0.5)
    for window in np.unique(np.geomspace(1, steps, 200).astype(int)).tolist()[:-1]:
        distance = min(_distance(log_c, steps - window, diameter), often)
        before = (move * _before(log_c, window, distance)) ** 2
        for share in _SHARES.tolist():
            total = before / share + _spread(scheme, window, move / math.sqrt(1.0 - share))
            best = min(best, (total, window, share))
    return best[1], best[2]


def _spread(scheme: PoissonBatches, steps: int, move: float) -> float:
    """About the square of mu of so many sampled steps."""
    grown = math.expm1(min(move * move, 600.0))
    return min(steps * scheme.sample_rate**2 * grown, steps * move * move)


def _chance_of_large_batch(mechanism: LastIterate[PoissonBatches]) -> float:
    """A bound on the chance that some batch, with the record, is too large for its step to contract."""
    scheme = mechanism.batches
    assert scheme.dataset_size is not None
    size, rate = scheme.dataset_size, scheme.sample_rate
    if mechanism.largest_fullness == math.inf:
        return 0.0
    most = math.floor(mechanism.largest_fullness * rate * size * (1.0 - FORMULA_ERROR))
    if most >= size:
        return 0.0
    # at least `most` of the others, by the bound of Chernoff
    share = most / size
    if share <= rate:
        return 1.0
    fewer = math.log1p((rate - share) / (1.0 - rate))
    divergence = share * math.log(share / rate) + (1.0 - share) * fewer
    exponent = math.log(scheme.steps) - size * divergence * (1.0 - 1e-6)
    return min(math.exp(min(exponent, 0.0)) * (1.0 + FORMULA_ERROR), 1.0)


def _steps_released(mechanism: LastIterate, adjacency: Adjacency) -> tuple[Mechanism, Adjacency]:
    """The same run with every step released."""
    return DPSGD(mechanism.batches, noise_multiplier=mechanism.noise_multiplier), adjacency


@bound(
    adjacency=tuple(Adjacency),
    holds_when="the bound on releasing every step holds, and no gradient is longer than the norm that "
    "scales the noise",
    source="dong2022 Theorem 3.2",
    proof="",
    converts=_steps_released,
    effort=Effort(yields_to=("full_batch_upper", "linear_losses_upper")),
)
def every_step_upper(
    mechanism: LastIterate, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Upper side of the last iterate by releasing every step, of which it is a function."""
    return pairs


@bound(
    adjacency=tuple(Adjacency),
    attained_when="the objective has a penalty that is the same for all data sets, not clipped, not "
    "convex and steeply curved, which writes the result of every step into parameters that later steps "
    "magnify, so that the last iterate tells them all; and what attains the bound on every step",
    source="annamalai2024",
    applies=needs(lambda mechanism: mechanism.loss is None, "a loss of which nothing is known"),
    converts=_steps_released,
)
def any_loss_lower(
    mechanism: LastIterate, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Lower side of the last iterate over all losses: that of releasing every step.

    A supremum: losses come as close to it as one likes.
    """
    return pairs


def _log_kept(mechanism: LastIterate) -> float:
    """Logarithm of 1 - learning rate * regularization, by which a step multiplies what came before.

    Infinite, and no lower side, where that is negative.
    """
    penalty, _ = _rates(mechanism)
    return math.log1p(-penalty) if penalty < 1.0 else math.inf


def _is_linear(mechanism: LastIterate) -> bool:
    """Whether linear losses stay what they are: no projection, and no penalty that overshoots."""
    return (
        mechanism.loss is not None
        and mechanism.diameter is None
        and _log_kept(mechanism) < math.inf
    )


def _log_variance(mechanism: LastIterate) -> float:
    """Logarithm of what V is for linear losses: the noise of all steps, and what is left of the start.

    V = sum over all steps of r^(2i) + r^(2 steps) (start deviation / noise of a step)^2
    """
    log_r, steps = _log_kept(mechanism), mechanism.batches.steps
    noise = log_power_sum(2.0 * log_r, steps)
    if mechanism.start_deviation is None:
        return noise
    loss, rate = _known(mechanism)
    # deviations of a step's noise, learning rate * multiplier * gradient norm / batch size
    log_start = math.log(mechanism.start_deviation) + math.log(_batch_size(mechanism))
    for factor in (rate, mechanism.noise_multiplier, loss.gradient_norm):
        log_start -= math.log(factor)
    return float(np.logaddexp(noise, 2.0 * (steps * log_r + log_start)))


def _linear_mu(mechanism: LastIterate[DeterministicBatches], adjacency: Adjacency) -> float:
    """mu of linear losses over deterministic batches, the record being in the last one of each epoch."""
    scheme = mechanism.batches
    moved = log_power_sum(scheme.steps_per_epoch * _log_kept(mechanism), scheme.epochs)
    return _move(mechanism, adjacency) * math.exp(moved - 0.5 * _log_variance(mechanism))


def _is_all_linear(mechanism: LastIterate) -> bool:
    """Whether the losses of all records are linear, and stay so."""
    if mechanism.loss is None or mechanism.loss.smoothness > 0.0:
        return False
    return _is_linear(mechanism)


@bound(
    adjacency=EVERY_NOTION,
    holds_when=f"{STEPS}; no gradient depends on the parameters; the start is fixed, or normal with at "
    "least the stated deviation in every direction, and secret",
    source="dong2022 Theorem 2.7",
    applies=needs(_is_all_linear, f"{LINEAR_STEPS} that are linear"),
)
def linear_losses_upper(
    mechanism: LastIterate[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of losses that are linear in the parameters, over deterministic batches: it is attained.

        mu = (sum over uses of r^q) / sqrt(V) / s,   r = 1 - learning rate * regularization,
        V = sum over all steps of r^(2i) + r^(2 steps) (start deviation / noise of a step)^2

    with q steps after a use; twice that for replace-one. A random start counts as the noise of one more
    step, before the first.

    Numerics: sums of powers to a relative 1e-13; mu is rounded up by 1e-11 of itself.

    >>> from sharpdp.mechanisms import SmoothLoss
    >>> plan = DeterministicBatches(dataset_size=50, batch_size=50, epochs=3)
    >>> loss = SmoothLoss.linear(gradient_norm=1.0)
    >>> run = LastIterate(
    ...     plan, noise_multiplier=1.0, learning_rate=50.0, loss=loss, start_deviation=1.0
    ... )
    >>> round(linear_losses_upper(run, Adjacency.ZERO_OUT)[0][0].mu ** 2, 9)  # 9 / (3 + 1)
    2.25
    """
    return ((GaussianPair(_linear_mu(mechanism, adjacency) * (1.0 + 1e-11)), 1),)


@bound(
    adjacency=EVERY_NOTION,
    source="bok2024 Section 4; dong2022 Theorem 2.7",
    proof="",
    applies=needs(_is_linear, LINEAR_STEPS),
)
def penalized_linear_lower(
    mechanism: LastIterate[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
    """Lower side of deterministic batches: a linear loss with the penalty has a Gaussian last iterate.

        mu = (sum over uses of r^q) / sqrt(V) / s,   r = 1 - learning rate * regularization,
        V = sum over all steps of r^(2i) + r^(2 steps) (start deviation / noise of a step)^2

    with q steps after a use; twice that for replace-one. The record is in the last batch of every epoch.

    Numerics: sums of powers to a relative 1e-13; mu is rounded down by 1e-11 of itself.
    """
    return ((GaussianPair(_linear_mu(mechanism, adjacency) * (1.0 - 1e-11)), 1),)


def _is_linear_and_sampled(mechanism: LastIterate[PoissonBatches | ShuffledBatches]) -> bool:
    scheme = mechanism.batches
    drawn = isinstance(scheme, PoissonBatches) or _is_whole(scheme)
    return drawn and _is_linear(mechanism)


@bound(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE),
    source="bok2024 Section 4; choquette2024",
    applies=needs(_is_linear_and_sampled, f"every record in an epoch, {LINEAR_STEPS}"),
)
def penalized_linear_sampled_lower(
    mechanism: LastIterate[PoissonBatches | ShuffledBatches], adjacency: Adjacency
) -> PairCounts:
    """Lower side of Poisson and shuffled batches: a linear loss with the penalty, used at random steps.

        N(W, V) against N(0, V),   W = sum over uses of r^q / s,
        V = sum over all steps of r^(2i) + r^(2 steps) (start deviation / noise of a step)^2

    where q steps follow a use, and r = 1 - learning rate * regularization.

    Numerics: W is rounded down to a lattice, and its oldest terms are left out; which cell of the line
    the iterate lies in is a function of it. See `bounds.last_iterate.quadratic_pair`.
    """
    scheme, log_r = mechanism.batches, _log_kept(mechanism)
    if isinstance(scheme, PoissonBatches):
        uses = bernoulli_uses(scheme.sample_rate, scheme.steps, math.exp(log_r))
    else:
        uses = shuffled_uses(scheme, log_r)
    deviation = math.exp(0.5 * _log_variance(mechanism))
    return ((quadratic_pair(uses, 1.0 / mechanism.noise_multiplier / deviation), 1),)
