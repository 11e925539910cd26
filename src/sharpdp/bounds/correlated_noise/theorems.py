"""Bounds on training runs with correlated noise: the matrix mechanism over batches.

Released is C x + s z, up to a linear map, with unit clipping norm and noise multiplier s. If an example's
steps are known, what it moves is known too, and the pair is Gaussian. If they are random, the pair is a
mixture. Proofs are in docs/proofs/correlated-noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TypeAlias

import numpy as np

from sharpdp.batches import (
    BallsAndBins,
    CyclicPoissonBatches,
    DeterministicBatches,
    ShuffledBatches,
)
from sharpdp.bounds.correlated_noise.columns import Columns, columns_of
from sharpdp.bounds.correlated_noise.kept_bins import (
    BinGram,
    Exchangeable,
    bin_gram,
    lower_family,
    served,
    upper_family,
)
from sharpdp.bounds.correlated_noise.sensitivity import (
    once_per_epoch_upper,
    positions_lower,
    positions_upper,
    separated_lower,
    separated_upper,
)
from sharpdp.bounds.registry import CONSTANTS, REAL_NUMBERS, Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bracket import Side
from sharpdp.mechanisms import DPSGD, Adjacency, CorrelatedNoise, Mechanism, MinSeparation
from sharpdp.mechanisms.composed import Grouped
from sharpdp.numerics.tolerances import QUOTIENT_ERROR
from sharpdp.pairs.opposed import opposed
from sharpdp.pairs.pair import GaussianPair
from sharpdp.pairs.subsampled import sampled_gaussian

__all__ = [
    "banded_cyclic_lower",
    "banded_cyclic_upper",
    "correlated_bins_lower",
    "correlated_bins_upper",
    "correlated_first_step_lower",
    "correlated_linear_test_lower",
    "correlated_null_value_lower",
    "correlated_sampled_block_lower",
    "fixed_positions_lower",
    "fixed_positions_upper",
    "group_correlated_upper",
    "revealed_positions_upper",
    "separated_participation_lower",
    "separated_participation_upper",
]

Known: TypeAlias = CorrelatedNoise[
    DeterministicBatches | ShuffledBatches | BallsAndBins | CyclicPoissonBatches | MinSeparation
]
AtRandom: TypeAlias = CorrelatedNoise[ShuffledBatches | BallsAndBins | CyclicPoissonBatches]
InBins: TypeAlias = CorrelatedNoise[BallsAndBins]

OUTWARDS = {side: 1.0 + side.sign * QUOTIENT_ERROR for side in Side}
"""Factors for quotients of two doubles."""

MOST_CONVOLVED = 1 << 30
"""Products of entries that a linear test may take to check."""

LEAST_PART = 1e-12
"""Relative to the other part, what is not worth a factor of its own."""

LEAST_NOISE, MOST_NOISE = 1e-30, 1e30
"""Noise multipliers of runs over bins without a common part."""

PROOF = "correlated-noise"

register_here = partial(
    register,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE),
    holds_when="batches are drawn as the scheme says (add/remove: all other records keep theirs), "
    "per-example gradients are clipped, the noise of a step is that of the strategy, and every step adds "
    f"it; {CONSTANTS}; {REAL_NUMBERS}",
    attained_when="one gradient is as long as the clipping norm and along the same line in every step, "
    "the example being in the worst of all positions",
)


every_notion = partial(
    register_here,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
)

# a separation promises nothing about the steps of others if a record is added or removed
separated_notions = partial(
    register_here,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
)


def _columns(mechanism: CorrelatedNoise) -> Columns:
    return columns_of(mechanism.strategy, mechanism.batches.steps)


def _gaussian(
    mechanism: CorrelatedNoise, sensitivity: float, adjacency: Adjacency, side: Side
) -> PairCounts:
    """One Gaussian pair; two values of the record may pull in opposite directions."""
    values = 2.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    return ((GaussianPair(values * sensitivity / mechanism.noise_multiplier * OUTWARDS[side]), 1),)


def _revealed_upper(mechanism: Known) -> float:
    """How far one example moves C x at most, whatever its steps are."""
    scheme, columns = mechanism.batches, _columns(mechanism)
    if isinstance(scheme, MinSeparation):
        return separated_upper(columns, scheme.separation, scheme.participations or 1)
    if isinstance(scheme, CyclicPoissonBatches):
        # some of the uses may be left out, which matters if inner products are negative
        return separated_upper(columns, scheme.cycle_length, scheme.turns)
    kept = isinstance(scheme, DeterministicBatches) or scheme.order == "kept"
    bound_on = positions_upper if kept else once_per_epoch_upper
    return bound_on(columns, scheme.steps_per_epoch)


@every_notion(source="denisov2022; choquette2023 Section 2; dong2022 Theorem 2.7")
def fixed_positions_upper(
    mechanism: CorrelatedNoise[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of correlated noise over deterministic batches: a Gaussian pair.

        mu^2 = max over j of  sum over s, t = j, j + b, j + 2b, ... of |<c_s, c_t>|  / s^2

    c_t are the columns of the strategy, b the steps of an epoch. Exact if no inner product is negative,
    and then mu is the norm of the sum of the columns, not the square root of a sum of squares, unless the
    columns are orthogonal. Twice that for replace-one. Gradients may adapt to all earlier results.

    Numerics: `bounds.correlated_noise.columns`; mu is rounded up.

    >>> from sharpdp.mechanisms import BandedStrategy
    >>> plan = DeterministicBatches(dataset_size=8, batch_size=4, epochs=2)
    >>> run = CorrelatedNoise(
    ...     plan, strategy=BandedStrategy(coefficients=(1.0, 1.0, 1.0)), noise_multiplier=1.0
    ... )
    >>> ((pair, _),) = fixed_positions_upper(run, Adjacency.ZERO_OUT)
    >>> round(pair.mu**2, 9)  # (1, 1, 1, 0) + (0, 0, 1, 1)
    7.0
    """
    return _gaussian(mechanism, _revealed_upper(mechanism), adjacency, Side.UPPER)


@every_notion(source="dong2022 Theorem 2.7")
def fixed_positions_lower(
    mechanism: CorrelatedNoise[DeterministicBatches], adjacency: Adjacency
) -> PairCounts:
    """Lower side of correlated noise over deterministic batches: gradients along one line.

    The signs are the best ones that single flips find; all are equal if no inner product is negative.

    Numerics: `bounds.correlated_noise.columns`; mu is rounded down.
    """
    sensitivity = positions_lower(_columns(mechanism), mechanism.batches.steps_per_epoch)
    return _gaussian(mechanism, sensitivity, adjacency, Side.LOWER)


@separated_notions(source="denisov2022; choquette2023banded Equation 5; kalinin2024")
def separated_participation_upper(
    mechanism: CorrelatedNoise[MinSeparation], adjacency: Adjacency
) -> PairCounts:
    """Upper side of correlated noise if uses of an example are some steps apart: a Gaussian pair.

    With as few bands as the uses are apart, columns do not overlap and mu^2 is a sum of squares: exact.
    With Toeplitz coefficients that are not negative and do not grow the first steps are the worst: exact.
    Else each step's inner products with all others are bounded by themselves.

    Numerics: `bounds.correlated_noise.sensitivity`; mu is rounded up.
    """
    return _gaussian(mechanism, _revealed_upper(mechanism), adjacency, Side.UPPER)


@separated_notions(source="dong2022 Theorem 2.7")
def separated_participation_lower(
    mechanism: CorrelatedNoise[MinSeparation], adjacency: Adjacency
) -> PairCounts:
    """Lower side of correlated noise if uses of an example are some steps apart: one pattern of them.

    Numerics: `bounds.correlated_noise.columns`; mu is rounded down.
    """
    scheme = mechanism.batches
    uses = scheme.participations or 1
    sensitivity = separated_lower(_columns(mechanism), scheme.separation, uses)
    return _gaussian(mechanism, sensitivity, adjacency, Side.LOWER)


def _is_banded_cycle(mechanism: CorrelatedNoise[CyclicPoissonBatches]) -> bool:
    """Whether the columns of an example's steps do not overlap."""
    scheme = mechanism.batches
    return mechanism.strategy.bands(scheme.steps) <= scheme.cycle_length


def _sampled(
    mechanism: CorrelatedNoise[CyclicPoissonBatches],
    adjacency: Adjacency,
    norms: list[float],
    side: Side,
) -> PairCounts:
    """A sampled Gaussian pair for each use, equal ones together."""
    scheme = mechanism.batches
    make = opposed if adjacency is Adjacency.REPLACE_ONE else sampled_gaussian
    counts: dict[float, int] = {}
    for norm in norms:
        if norm > 0.0:
            mu = norm / mechanism.noise_multiplier * OUTWARDS[side]
            counts[mu] = counts.get(mu, 0) + 1
    return tuple((make(mu, scheme.sample_rate), count) for mu, count in counts.items())


BANDED = needs(_is_banded_cycle, "a cycle at least as long as the bands of the strategy")


@every_notion(
    source="choquette2023banded; zhu2022 Theorem 11",
    proof=PROOF,
    applies=BANDED,
)
def banded_cyclic_upper(
    mechanism: CorrelatedNoise[CyclicPoissonBatches], adjacency: Adjacency
) -> PairCounts:
    """Upper side of banded correlated noise over cyclic Poisson batches: sampled Gaussian pairs.

        P = (1 - r) N(0, 1) + r N(|c_t| / s, 1),  Q = N(0, 1)   for t = j, j + b, j + 2b, ...

    b is the cycle length, at least the number of bands, and r the sample rate within a group: the rows
    that a use touches are touched by no other use. Of all groups the longest column counts in each turn.

    Numerics: norms are rounded up.

    >>> from sharpdp.mechanisms import BandedStrategy
    >>> plan = CyclicPoissonBatches(sample_rate=0.25, steps=8, cycle_length=2)
    >>> strategy = BandedStrategy(coefficients=(3.0, 4.0))
    >>> run = CorrelatedNoise(plan, strategy=strategy, noise_multiplier=10.0)
    >>> [
    ...     (round(pair.base.mu, 9), count)
    ...     for pair, count in banded_cyclic_upper(run, Adjacency.ZERO_OUT)
    ... ]
    [(0.5, 4)]
    """
    scheme = mechanism.batches
    squares = _columns(mechanism).squares_upper()
    turns = range(0, scheme.steps, scheme.cycle_length)
    norms = [math.sqrt(float(squares[t : t + scheme.cycle_length].max())) for t in turns]
    return _sampled(mechanism, adjacency, norms, Side.UPPER)


@every_notion(source="zhu2022 Theorem 11", proof=PROOF, applies=BANDED)
def banded_cyclic_lower(
    mechanism: CorrelatedNoise[CyclicPoissonBatches], adjacency: Adjacency
) -> PairCounts:
    """Lower side of banded correlated noise over cyclic Poisson batches: the columns of one group.

    Numerics: norms are rounded down.
    """
    scheme = mechanism.batches
    columns = _columns(mechanism)
    squares = columns.squares_lower()
    starts = range(min(scheme.cycle_length, scheme.steps))
    best = max(starts, key=lambda start: float(squares[start :: scheme.cycle_length].sum()))
    norms = np.sqrt(squares[best :: scheme.cycle_length]).tolist()
    return _sampled(mechanism, adjacency, norms, Side.LOWER)


@every_notion(
    source="denisov2022; choquette2023 Section 2; dong2022 Theorem 2.7",
    effort=Effort(yields_to=("banded_cyclic_upper",)),
)
def revealed_positions_upper(mechanism: AtRandom, adjacency: Adjacency) -> PairCounts:
    """Upper side of correlated noise over random batches whose draws are revealed: a Gaussian pair.

    To know the steps of the example can only help (joint convexity), and then the worst pattern counts:
    positions that are kept for all epochs, or any position in each epoch.

    Numerics: `bounds.correlated_noise.sensitivity`; mu is rounded up.
    """
    return _gaussian(mechanism, _revealed_upper(mechanism), adjacency, Side.UPPER)


@register(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    holds_when="the bound on single records whose positions are known holds for all data sets on the way "
    "from one to the other",
    source="dong2022 Theorem 2.14; denisov2022",
)
def group_correlated_upper(mechanism: Grouped[Known], adjacency: Adjacency) -> PairCounts:
    """Upper side of correlated noise for groups of k, positions revealed: k times the shift of one.

    Factors of the amplified bounds are not steps, and chaining them one by one would not be sound.

    Numerics: mu is rounded up.
    """
    run = mechanism.mechanism
    return _gaussian(run, mechanism.group_size * _revealed_upper(run), adjacency, Side.UPPER)


def _is_testable(mechanism: CorrelatedNoise) -> bool:
    """Whether a test is checked in reasonable time."""
    steps = mechanism.batches.steps
    return steps * mechanism.strategy.bands(steps) <= MOST_CONVOLVED


@register_here(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    source="dong2022 Theorem 2.7; blackwell1953",
    proof=PROOF,
    applies=needs(
        _is_testable, "fewer steps or bands, so that a test is checked in reasonable time"
    ),
)
def correlated_linear_test_lower(
    mechanism: CorrelatedNoise[ShuffledBatches | BallsAndBins], adjacency: Adjacency
) -> PairCounts:
    """Lower side of correlated noise over random batches, from one linear function of all results.

    With w = C v for weights v, the mean of <w, C x> given the positions is at least the sum over
    epochs of the smallest inner product of w with a column of the epoch: m. Thresholds of it are no worse
    than for N(m / (s |w|), 1) against N(0, 1). Some records may be in no batch of an epoch: then 0.

    Numerics: w is any vector; its inner products are rounded down, its norm up.
    """
    scheme, columns = mechanism.batches, _columns(mechanism)
    weights = columns.times(np.ones(columns.steps))
    projections = columns.projections_lower(weights)
    epochs = projections.reshape(scheme.epochs, scheme.steps_per_epoch)
    least = epochs.sum(axis=0).min() if scheme.order == "kept" else epochs.min(axis=1).sum()
    if isinstance(scheme, ShuffledBatches) and scheme.examples_per_epoch < scheme.dataset_size:
        least = min(least, 0.0)
    norm = math.sqrt(float(weights @ weights)) * (1.0 + 2.0**-30)
    sensitivity = max(float(least), 0.0) * (1.0 - 2.0**-30) / norm
    return _gaussian(mechanism, sensitivity, adjacency, Side.LOWER)


@register_here(
    adjacency=(Adjacency.ZERO_OUT, Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE),
    source="zhu2022 Theorem 11; blackwell1953",
    effort=Effort(yields_to=("banded_cyclic_lower",)),
)
def correlated_first_step_lower(mechanism: AtRandom, adjacency: Adjacency) -> PairCounts:
    """Lower side of correlated noise over random batches, from the first step alone: a sampled Gaussian.

    Ignoring all other steps is a post-processing.

    Numerics: 1 / s is rounded down.
    """
    scheme = mechanism.batches
    if isinstance(scheme, CyclicPoissonBatches):
        rate = scheme.sample_rate
    elif isinstance(scheme, ShuffledBatches):
        rate = scheme.batch_size / scheme.dataset_size
    else:
        rate = 1.0 / scheme.bins
    entry = float(mechanism.strategy.column(0, 1)[0])
    make = opposed if adjacency is Adjacency.REPLACE_ONE else sampled_gaussian
    return ((make(entry / mechanism.noise_multiplier * OUTWARDS[Side.LOWER], rate), 1),)


def _bins(mechanism: InBins) -> BinGram:
    return bin_gram(mechanism, mechanism.batches.bins)


def keeps_bins(mechanism: InBins) -> bool:
    """Whether there are several bins, the same in every epoch, and no entry of C is negative."""
    scheme = mechanism.batches
    if not (scheme.order == "kept" or scheme.epochs == 1) or not served(mechanism, scheme.bins):
        return False
    # no part of the Gram matrix is larger than its largest eigenvalue
    most = math.sqrt(scheme.bins * float(_bins(mechanism).upper().max()))
    return mechanism.noise_multiplier >= 2.0 * LEAST_NOISE * most


@lru_cache(maxsize=32)
def _family(mechanism: InBins, side: Side) -> Exchangeable:
    choose = upper_family if side is Side.UPPER else lower_family
    return choose(_bins(mechanism), mechanism.noise_multiplier**2)


def _independent_noise(mechanism: InBins, side: Side) -> float:
    """The noise multiplier of bins whose sums have nothing in common, with the own part for a norm.

    Infinite if that part is not worth a factor. From above it is then taken for larger than it is.
    """
    family = _family(mechanism, side)
    own = family.own
    if side is Side.UPPER:
        own = max(own, LEAST_PART * family.common)
    elif own <= LEAST_PART * family.common:
        return math.inf
    noise = mechanism.noise_multiplier / math.sqrt(own) / OUTWARDS[side]
    if noise <= MOST_NOISE:
        return noise
    return MOST_NOISE if side is Side.UPPER else math.inf


def _independent_bins(
    side: Side,
) -> Callable[[InBins, Adjacency], tuple[Mechanism, Adjacency]]:
    """The run over one epoch of such bins."""

    def asked(mechanism: InBins, adjacency: Adjacency) -> tuple[Mechanism, Adjacency]:
        noise = min(_independent_noise(mechanism, side), MOST_NOISE)
        scheme = BallsAndBins(dataset_size=_family(mechanism, side).bins, batch_size=1, epochs=1)
        return DPSGD(scheme, noise_multiplier=noise), adjacency

    return asked


def _with_common_part(mechanism: InBins, pairs: PairCounts, side: Side) -> PairCounts:
    common = (
        math.sqrt(_family(mechanism, side).common) / mechanism.noise_multiplier * OUTWARDS[side]
    )
    own = () if _independent_noise(mechanism, side) == math.inf else pairs
    return own if common == 0.0 and own else (*own, (GaussianPair(common), 1))


KEPT = needs(
    keeps_bins, "the same bins in all epochs, no negative entry, and noise that is not too small"
)


@register_here(
    source="kahane1986; choquette2025",
    proof=PROOF,
    applies=KEPT,
    converts=_independent_bins(Side.UPPER),
)
def correlated_bins_upper(
    mechanism: InBins, _: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Upper side of correlated noise over bins that are kept, for strategies without negative entries.

        P = mean over j of N(m_j, s^2 I),  Q = N(0, s^2 I),   m_j = c_j + c_{j+b} + c_{j+2b} + ...

    is attained and dominates, and it is monotone in the Gram matrix G of the m_j: any a, rho for which
    a I + rho 1 1^T - G is copositive give a pair that reveals more, the product of a Gaussian pair with
    mu = sqrt(rho) / s and one epoch of balls-and-bins with noise s / sqrt(a). Bins of which only every
    w-th one is possible are taken if they are better.

    Numerics: a by the theorem of Collatz and Wielandt, rounded up.
    """
    return _with_common_part(mechanism, pairs, Side.UPPER)


@register_here(
    source="kahane1986; choquette2025",
    proof=PROOF,
    applies=KEPT,
    converts=_independent_bins(Side.LOWER),
)
def correlated_bins_lower(
    mechanism: InBins, _: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Lower side of correlated noise over bins that are kept: an exchangeable Gram matrix below.

    Numerics: a by the theorem of Collatz and Wielandt, rounded down.
    """
    return _with_common_part(mechanism, pairs, Side.LOWER)


@register_here(
    source="kahane1986; zhu2022 Theorem 11",
    proof=PROOF,
    applies=KEPT,
)
def correlated_sampled_block_lower(mechanism: InBins, _: Adjacency) -> PairCounts:
    """Lower side of correlated noise over bins that are kept, from the first few bins alone.

    Inner products within the first w bins are replaced by the smallest one, all others by 0: a Gaussian
    that is sampled at rate w / b.

    Numerics: inner products are rounded down.
    """
    gram = _bins(mechanism).lower()
    size = len(gram)
    variance = mechanism.noise_multiplier**2

    def about(width: int) -> float:
        # log of what the sampled part contributes to delta where the planned one is reached
        return math.sqrt(float(gram[:width, :width].min()) / variance) - _quantile(width / size)

    best = max(
        (width for width in range(1, size + 1) if gram[:width, :width].min() > 0.0), key=about
    )
    mu = math.sqrt(float(gram[:best, :best].min())) * (1.0 - 2.0**-40)
    rate = best / size
    return ((sampled_gaussian(mu / mechanism.noise_multiplier * OUTWARDS[Side.LOWER], rate), 1),)


def _quantile(rate: float) -> float:
    """About how many deviations away the planned delta is, if only this share is left to reach it."""
    return math.sqrt(max(-2.0 * math.log(1e-6 / rate), 0.0))


def _null_record(mechanism: InBins, _: Adjacency) -> tuple[Mechanism, Adjacency]:
    return mechanism, Adjacency.ZERO_OUT


@register(
    adjacency=Adjacency.REPLACE_ONE,
    attained_when="one of the two values contributes nothing, and the other one does what attains the "
    "bound on zero-out neighbors",
    source="blackwell1953",
    applies=KEPT,
    converts=_null_record,
)
def correlated_null_value_lower(
    mechanism: InBins, adjacency: Adjacency, pairs: PairCounts, width: float
) -> PairCounts:
    """Lower side of a replaced record over bins that are kept: one value may be that of a null record."""
    return pairs
