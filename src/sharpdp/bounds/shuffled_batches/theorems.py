"""Bounds on training runs over batches in a random order, drawn anew for every epoch or kept.

Proofs are in docs/shuffled-batches.md, docs/vacant-seat.md and docs/displaced-example.md. In the other
data set of zero-out a null record takes its place in the order like any other, and contributes zero; in
that of replace-one, another record.
"""

import math
from dataclasses import replace
from functools import lru_cache, partial

from sharpdp.batches import ShuffledBatches
from sharpdp.bounds.registry import REAL_NUMBERS, Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffled_batches.lower_ratio_tests import (
    COARSE,
    FINE,
    ShuffledEpoch,
    largest_batch,
    likelihood_ratio_pair,
)
from sharpdp.bounds.shuffled_batches.lower_switching import (
    MOST_TRIALS,
    SwitchingOthers,
    scores_suffice,
)
from sharpdp.bounds.shuffled_batches.upper_clones import clones_help, dominating_epoch
from sharpdp.bounds.shuffled_batches.upper_envelope import LEAST_NOISE, MOST_NOISE, VacantEpoch
from sharpdp.bounds.shuffled_batches.upper_envelope_full import FullEpoch
from sharpdp.errors import Inapplicable
from sharpdp.mechanisms import DPSGD, Adjacency
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.pair import GaussianPair

__all__ = [
    "displaced_example_upper",
    "early_reaction_lower",
    "late_reaction_lower",
    "null_record_clones_upper",
    "largest_batch_lower",
    "ratio_test_lower",
    "revealed_order_upper",
    "switching_others_lower",
    "vacant_seat_upper",
]

OUTWARDS = 1.0 + 2.0**-50
"""More noise reveals less: a lower side rounds it up."""


NOISE = f"noise from {LEAST_NOISE:g} to {MOST_NOISE:g}"

bound = partial(
    register,
    adjacency=(Adjacency.ZERO_OUT, Adjacency.REPLACE_ONE),
    attained_when="all other gradients point against that of the record, each as long as the "
    "clipping norm, in every step (and so does that of the record that replaces it)",
)


def _order(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> tuple[ShuffledEpoch, int]:
    """The pair of one epoch, or of all epochs in one order, and how often it occurs."""
    scheme, noise = mechanism.batches, mechanism.noise_multiplier
    other = 0.0 if adjacency is Adjacency.REPLACE_ONE else 1.0
    batches = scheme.examples_per_epoch // scheme.batch_size
    absent = _absent(scheme)
    if scheme.order == "kept" and scheme.epochs > 1:
        averaged = noise / math.sqrt(scheme.epochs) * OUTWARDS
        return ShuffledEpoch(averaged, batches, absent, other), 1
    return ShuffledEpoch(noise, batches, absent, other), scheme.epochs


def _absent(scheme: ShuffledBatches) -> float:
    """The share of examples that are in no full batch, rounded up: less is revealed then."""
    rest = scheme.dataset_size - scheme.examples_per_epoch // scheme.batch_size * scheme.batch_size
    return math.nextafter(rest / scheme.dataset_size, 1.0) if rest else 0.0


def _one_batch(order: ShuffledEpoch) -> bool:
    """True if every epoch is one batch with everybody in it, so that there is no order to hide in."""
    return order.batches == 1 and order.absent == 0.0


@lru_cache(maxsize=64)
def _ratio_pair(order: ShuffledEpoch) -> AtomicPair:
    return likelihood_ratio_pair(order)


@lru_cache(maxsize=64)
def _largest(order: ShuffledEpoch, step: float) -> AtomicPair:
    return largest_batch(order, step)


@lru_cache(maxsize=64)
def _hidden(noise_multiplier: float, batches: int, *, is_rough: bool = False) -> AtomicPair:
    if not clones_help(noise_multiplier, batches):
        raise Inapplicable("with this noise, and so many batches, no clones can be expected")
    return dominating_epoch(noise_multiplier, batches, is_rough=is_rough)


def _hidden_epochs(
    mechanism: DPSGD[ShuffledBatches], _: Adjacency, *, is_rough: bool = False
) -> PairCounts:
    scheme = mechanism.batches
    batches = scheme.examples_per_epoch // scheme.batch_size
    return ((_hidden(mechanism.noise_multiplier, batches, is_rough=is_rough), scheme.epochs),)


@bound(
    holds_when=f"per-example gradients are clipped; noise is added in every step; {REAL_NUMBERS}",
    source="chua2024 Theorem 4.1; dong2022 Theorem 2.7",
)
def revealed_order_upper(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over shuffled batches by revealing the order: one Gaussian for each epoch.

        P = N(mu, 1), Q = N(0, 1),   mu = 1 / noise_multiplier, for replace-one 2 / noise_multiplier

    Given the orders of all epochs, the record takes part in at most one step of each. Orders have the
    same law for both data sets, and H is jointly convex.

    Numerics: mu is the nearest double.

    >>> scheme = ShuffledBatches(dataset_size=100, batch_size=10, epochs=3)
    >>> revealed_order_upper(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 3),)
    """
    distance = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    return ((GaussianPair(distance / mechanism.noise_multiplier), mechanism.batches.epochs),)


def _is_fresh(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if orders are independent between epochs."""
    return mechanism.batches.order == "redrawn" or mechanism.batches.epochs == 1


def _can_hide(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if orders are independent between epochs; with more noise everything rounds to one."""
    return _is_fresh(mechanism) and mechanism.noise_multiplier <= 1e6


@bound(
    holds_when="a new order is drawn for every epoch and stays secret; per-example gradients are "
    f"clipped; noise is added in every step; {REAL_NUMBERS}",
    adjacency=Adjacency.ZERO_OUT,
    source="feldman2021",
    proof="shuffled-batches",
    applies=needs(_can_hide, "a new order for every epoch, and noise of at most 1e6"),
    effort=Effort(rough=partial(_hidden_epochs, is_rough=True)),
)
def null_record_clones_upper(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over shuffled batches: other records pass for the null record.

        H_x(P||Q) <= M E[(mean_{i<=N} X_i - x)_+] + x (M - 1),   N - 1 ~ Bin(T - 1, c/(1 + g))

    X = e^{z/s - 1/(2 s^2)}, z normal, T the number of full batches, M = (1 + g)^{T-1}, for every c < 1;
    g = c H_{1/c} of two normal laws at distance 1/s. The reverse with 1 - x mean X. The smallest over
    some c and the Gaussian profile counts, joined by chords.

    Numerics: see `bounds.shuffled_batches.upper_clones`.

    >>> import numpy as np
    >>> scheme = ShuffledBatches(dataset_size=10**6, batch_size=100, epochs=3)
    >>> pair = null_record_clones_upper(DPSGD(scheme, noise_multiplier=4.0), Adjacency.ZERO_OUT)[0][
    ...     0
    ... ]
    >>> delta = math.exp(pair.log_hockey_stick(np.zeros(1))[0])
    >>> delta < 0.02 * math.erf(1 / 8 / math.sqrt(2))  # 0.0995 for one epoch in a revealed order
    True
    >>> delta > math.sqrt(math.expm1(1 / 16) / (2 * math.pi * 10**4))  # mean of T exact clones
    True
    """
    return _hidden_epochs(mechanism, adjacency)


def _has_vacancy(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if every epoch leaves out some random examples, and ratios fit on cells and lattices."""
    scheme = mechanism.batches
    # a double tells those who are left out from everybody
    vacancy = scheme.examples_per_epoch < scheme.dataset_size and _absent(scheme) < 1.0
    fits = LEAST_NOISE <= mechanism.noise_multiplier <= MOST_NOISE
    return _is_fresh(mechanism) and vacancy and fits


FEW_EPOCHS = 3
"""With more of them the far tail of the profile of one hardly matters."""


@lru_cache(maxsize=64)
def _vacant(
    noise: float,
    scheme: ShuffledBatches,
    adjacency: Adjacency,
    tolerance: float,
    policy_tolerance: float,
    *,
    few_epochs: bool,
) -> AtomicPair:
    size, examples = scheme.dataset_size, scheme.examples_per_epoch
    batches, rest = divmod(examples, scheme.batch_size)
    share, absent = scheme.batch_size / size, (size - examples) / size
    epoch = VacantEpoch(noise, batches, share, absent, rest / scheme.batch_size)
    if adjacency is Adjacency.REPLACE_ONE:
        return epoch.dominating_replaced(tolerance, policy_tolerance)
    adaptive = policy_tolerance < math.inf
    return epoch.dominating(tolerance, adaptive=adaptive, few_epochs=few_epochs)


def _vacant_epochs(
    mechanism: DPSGD[ShuffledBatches],
    adjacency: Adjacency,
    tolerance: float,
    policy_tolerance: float = math.inf,
) -> PairCounts:
    scheme, noise = mechanism.batches, mechanism.noise_multiplier
    one = replace(scheme, epochs=1, order="redrawn")
    few_epochs = scheme.epochs <= FEW_EPOCHS
    pair = _vacant(noise, one, adjacency, tolerance, policy_tolerance, few_epochs=few_epochs)
    return ((pair, scheme.epochs),)


def _policy_tolerance(
    mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency, *, is_refined: bool = False
) -> float:
    """How close together thresholds for the worst policy are; infinite if it is not worth the time.

    Zero-out chooses them by itself.
    """
    scheme, noise = mechanism.batches, mechanism.noise_multiplier
    if adjacency is Adjacency.REPLACE_ONE:
        if scheme.steps_per_epoch > 2000 or noise > 20.0:
            return math.inf
        return (5e-3 if scheme.steps_per_epoch <= 300 else 3e-2) * (0.4 if is_refined else 1.0)
    # with less noise single large results decide, and choices hardly matter
    return 0.0 if noise >= (0.7 if scheme.epochs > 1 else 1.25) else math.inf


MOST_OUTDONE = 8.0
"""With more noise the bound by way of a null record comes close to that by the worst policy."""


def _outdoes_null_record(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if replaced records are bounded by the worst policy: a null record on the way is no better."""
    has_policy = _policy_tolerance(mechanism, Adjacency.REPLACE_ONE) < math.inf
    return has_policy and mechanism.noise_multiplier <= MOST_OUTDONE


@bound(
    holds_when="a new order is drawn for every epoch and stays secret; which examples are left out stays "
    "secret; a gradient does not depend on the other examples of its batch; per-example gradients are "
    f"clipped; noise is added in every step; {REAL_NUMBERS}",
    source="chua2024 Section 3; zhu2022 Theorem 10",
    proof="vacant-seat",
    applies=needs(
        _has_vacancy, f"a new order for every epoch, which leaves somebody out, and {NOISE}"
    ),
    effort=Effort(
        rough=lambda mechanism, adjacency: _vacant_epochs(mechanism, adjacency, 1e-2),
        refined=lambda mechanism, adjacency, width: _vacant_epochs(
            mechanism, adjacency, width, _policy_tolerance(mechanism, adjacency, is_refined=True)
        ),
        outdoes_conversion=_outdoes_null_record,
    ),
)
def vacant_seat_upper(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over shuffled batches that leave somebody out: the record takes a seat.

        H_x(P||Q) <= E[((1 - rho)(1 - x) + w (W_1 + ... + W_T))_+]

    w = batch_size / dataset_size, T the number of batches, rho the share of examples in an epoch
    (a smaller last batch counts as a full one with some probability); the W_t are independent,
    with the positive part of R2 - x R1 and the negative part of 1 - x R1, R1 and R2 being the likelihood
    ratios of normal distributions at distance one and two. The reverse with R1 - x and R1 - x R2; both
    directions of replace-one with R2 - x and 1 - x R2.

    That of zero-out is lowered to about what an adversary can reach who chooses the angle between the
    record and the others batch by batch, knowing all earlier results; not for wide brackets, and not for
    little noise, where it is hardly lower. So is that of replace-one up to 2,000 batches, with all three
    vectors chosen.

    Numerics: see `bounds.shuffled_batches.upper_envelope`,
    `bounds.shuffled_batches.upper_adaptive_zero_out` and
    `bounds.shuffled_batches.upper_adaptive_replace_one`.

    >>> scheme = ShuffledBatches(dataset_size=60_000, batch_size=512, epochs=30, drop_last=True)
    >>> run = DPSGD(scheme, noise_multiplier=0.8)
    >>> ((pair, count),) = vacant_seat_upper(run, Adjacency.ZERO_OUT)
    >>> round(float(pair.log_hockey_stick([math.log(3.0)])[0]), 2), count  # e^-2.65 = 0.0707
    (-2.65, 30)
    """
    tolerance = 1e-3
    if adjacency is Adjacency.ZERO_OUT:
        tolerance = 2e-3 if mechanism.batches.steps_per_epoch <= MOST_BATCHES else 4e-3
    return _vacant_epochs(mechanism, adjacency, tolerance, _policy_tolerance(mechanism, adjacency))


ROUGH = 1e-2
"""Tolerances of rough pairs are larger."""


def _full(mechanism: DPSGD[ShuffledBatches]) -> FullEpoch:
    scheme = mechanism.batches
    return _full_epoch(mechanism.noise_multiplier, scheme.dataset_size, scheme.batch_size)


@lru_cache(maxsize=64)
def _full_epoch(noise: float, dataset_size: int, batch_size: int) -> FullEpoch:
    """The same object for the same numbers: what the first result may tell is found once."""
    return FullEpoch(noise, dataset_size, batch_size)


def _has_no_vacancy(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if everybody has a seat in every epoch."""
    full = mechanism.batches.examples_per_epoch == mechanism.batches.dataset_size
    return _is_fresh(mechanism) and full and LEAST_NOISE <= mechanism.noise_multiplier <= MOST_NOISE


@lru_cache(maxsize=64)
def _displaced(
    epoch: FullEpoch, adjacency: Adjacency, tolerance: float, *, adaptive: bool
) -> AtomicPair:
    replaced = adjacency is Adjacency.REPLACE_ONE
    batches = epoch.dataset_size // epoch.batch_size
    clones = None
    if not replaced and clones_help(epoch.noise, batches):
        clones = _hidden(epoch.noise, batches, is_rough=tolerance > ROUGH)
    return epoch.dominating(tolerance, adaptive=adaptive, replaced=replaced, rival=clones)


def _displaced_epochs(
    mechanism: DPSGD[ShuffledBatches],
    adjacency: Adjacency,
    tolerance: float,
    *,
    adaptive: bool = False,
) -> PairCounts:
    epoch = _full(mechanism)
    if not epoch.helps:
        raise Inapplicable("batches are too small to hide who gives way")
    pair = _displaced(epoch, adjacency, tolerance, adaptive=adaptive)
    return ((pair, mechanism.batches.epochs),)


@bound(
    holds_when="a new order is drawn for every epoch and stays secret; a gradient does not depend on the "
    "other examples of its batch; per-example gradients are clipped; noise is added in every "
    f"step; {REAL_NUMBERS}",
    source="chua2024 Section 3; zhu2022 Theorem 10; hoeffding1963 Theorem 4",
    proof="displaced-example",
    applies=needs(
        _has_no_vacancy, f"a new order for every epoch, which leaves nobody out, and {NOISE}"
    ),
    effort=Effort(
        rough=lambda mechanism, adjacency: _displaced_epochs(mechanism, adjacency, 2.5e-2),
        refined=lambda mechanism, adjacency, _: _displaced_epochs(
            mechanism, adjacency, 1e-3, adaptive=True
        ),
    ),
)
def displaced_example_upper(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Upper side of DP-SGD over shuffled batches without a vacancy: who gives way joins the first batch.

        H_x <= (b/n) h(x) + (1 - b/n) int gamma(P(K)) dK
        gamma(p) / p <= (R(q) - tau R(1)) / (1 - tau),   R(q) = E[(mean of B_t W_t)_+]

    W as in `vacant_seat_upper`, h the profile of two normal distributions at distance
    1/noise_multiplier (twice that for replace-one), b the batch size, n the data set size; the B_t are
    independent, Bin(b, q) / (b q), and P(K) bounds the share of examples that the first result makes more
    than K times as likely as the average to have given way. With much noise

        H_x <= E[(mean of N copies of W)_+] + rho h(x) + min(rho (x - 1), (b/n) h(x))

    is better, rho being what the first result may tell beyond what N batches allow. The least of both,
    and of the clones of the null record for zero-out, at every x, joined by chords.

    Numerics: see `bounds.shuffled_batches.upper_envelope_layers` and
    `bounds.shuffled_batches.upper_envelope_full`.

    >>> scheme = ShuffledBatches(dataset_size=10**7, batch_size=10**5, epochs=1)
    >>> run = DPSGD(scheme, noise_multiplier=2.0)
    >>> ((pair, count),) = displaced_example_upper(run, Adjacency.ZERO_OUT)
    >>> round(float(pair.log_hockey_stick([0.0])[0]), 1), count  # -1.6 in a revealed order
    (-3.3, 1)
    """
    # the worst policy takes seconds; it gains up to a tenth of epsilon from here on
    is_loose = mechanism.noise_multiplier >= 3.0 and mechanism.batches.batch_size >= 1000
    return _displaced_epochs(mechanism, adjacency, 7e-3, adaptive=is_loose)


LEAST_TESTED, MOST_TESTED = 1e-5, 1e8
"""With less noise every ratio is lost in rounding, with more all are one."""


def _is_resolved(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if likelihood ratios of the noise, and shares in batches, are told from none by doubles."""
    is_somewhere = _absent(mechanism.batches) < 1.0
    return is_somewhere and LEAST_TESTED <= mechanism.noise_multiplier <= MOST_TESTED


TESTED = f"full batches, and noise from {LEAST_TESTED:g} to {MOST_TESTED:g}"
RESOLVED = needs(_is_resolved, TESTED)


@bound(source="chua2024 Section 4.2", proof="shuffled-batches", applies=RESOLVED)
def largest_batch_lower(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over shuffled batches from the largest batch sum: the sets E_C, over all C.

        P[E_C] = 1 - Phi((C - 2)/s) Phi(C/s)^{T-1},   Q[E_C] = 1 - Phi((C - 1)/s) Phi(C/s)^{T-1}

    for T whole batches (for replace-one C in place of C - 1); with left-over examples both are mixed with
    the law without the record. An order
    that is kept for E epochs is one epoch with noise s / sqrt(E): the mean over epochs is sufficient.

    Numerics: a finite pair whose cells are a factor of odds apart, e^0.005 for one epoch, which costs
    3e-6 of delta, and e^0.06 for several; 1e-12 for rounding.

    >>> scheme = ShuffledBatches(dataset_size=10, batch_size=10, epochs=2)
    >>> largest_batch_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    ((GaussianPair(mu=0.5), 2),)
    """
    order, count = _order(mechanism, adjacency)
    if _one_batch(order):
        return ((GaussianPair((2.0 - order.other) / order.noise), count),)
    return ((_largest(order, FINE if count == 1 else COARSE), count),)


@bound(source="chua2024 Section 3", proof="shuffled-batches", applies=RESOLVED)
def ratio_test_lower(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over shuffled batches from likelihood ratio tests of the same two data sets.

        P = mean_t N(2 e_t, s^2 I),  Q = mean_t N(e_t, s^2 I),  test: sum_t g(z_t) > c,
        g(z) = e^{2z/s - 2/s^2} - x e^{z/s - 1/(2 s^2)}

    (for replace-one Q = N(0, s^2 I), and the last factor is 1) at many x, in both directions, and the
    sets E_C besides: their points span a finite pair. Left-over
    examples and orders that are kept as in `largest_batch_lower`.

    Numerics: see `bounds.shuffled_batches.lower_ratio_tests`.

    >>> scheme = ShuffledBatches(dataset_size=10, batch_size=10, epochs=2, order="kept")
    >>> ((pair, count),) = ratio_test_lower(DPSGD(scheme, noise_multiplier=2.0), Adjacency.ZERO_OUT)
    >>> round(pair.mu**2, 12), count  # two epochs of mu = 1/2
    (0.5, 1)
    """
    order, count = _order(mechanism, adjacency)
    if _one_batch(order):
        return ((GaussianPair((2.0 - order.other) / order.noise), count),)
    return ((_ratio_pair(order), count),)


@lru_cache(maxsize=64)
def _switching(order: ShuffledEpoch, epochs: int, *, is_rough: bool) -> AtomicPair:
    if not scores_suffice(order.noise, order.batches):
        raise Inapplicable("a few hundred scores do not tell what so many results do")
    others = SwitchingOthers(order.noise, order.batches, order.absent)
    return others.dominated(epochs, trials=1 if is_rough else MOST_TRIALS)


def _switching_epochs(
    mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency, *, is_rough: bool
) -> PairCounts:
    order, count = _order(mechanism, adjacency)
    return ((_switching(order, count, is_rough=is_rough), count),)


def _can_switch(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if every epoch has an order of its own, whose batches are told apart."""
    return _is_fresh(mechanism) and _is_resolved(mechanism)


@bound(
    adjacency=Adjacency.REPLACE_ONE,
    attained_when="the record and the one that replaces it have opposed gradients as long as the "
    "clipping norm; in each epoch all others have that of the latter until the results speak for the "
    "former, and that of the former from then on",
    source="chua2024 Section 3",
    proof="vacant-seat",
    applies=needs(_can_switch, f"a new order for every epoch, and {TESTED}"),
    effort=Effort(rough=partial(_switching_epochs, is_rough=True)),
)
def switching_others_lower(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over shuffled batches, replace-one: others who change sides in each epoch.

        p = 1 - rho + w (R_1 + ... + R_tau + T - tau),   q = 1 - rho + w (tau + R_{tau+1} + ... + R_T)

    are the densities of the two data sets relative to an epoch without the record: R_t are the ratios of
    normal distributions at distance two, and the others are like the other record until p is above a
    level, at tau, and like the record from then on. T whole batches with w = batch_size /
    dataset_size, rho = w T.

    Numerics: see `bounds.shuffled_batches.lower_switching`.

    >>> scheme = ShuffledBatches(dataset_size=60_000, batch_size=512, epochs=30, drop_last=True)
    >>> run = DPSGD(scheme, noise_multiplier=0.8)
    >>> ((pair, count),) = switching_others_lower(run, Adjacency.REPLACE_ONE)
    >>> log_delta = float(pair.log_hockey_stick([5.0])[0])
    >>> round(log_delta, 2), count  # -6.34 without a change
    (-6.13, 30)
    """
    return _switching_epochs(mechanism, adjacency, is_rough=False)


MOST_BATCHES = 150
"""With more batches, others that react to results gain less than a percent of delta."""


def _few_batches(mechanism: DPSGD[ShuffledBatches]) -> bool:
    """True if there are one or two epochs of few batches; with more, policies gain next to nothing."""
    scheme = mechanism.batches
    few = 2 <= scheme.examples_per_epoch // scheme.batch_size <= MOST_BATCHES
    return (
        _is_fresh(mechanism)
        and few
        and scheme.epochs <= 2
        and mechanism.noise_multiplier >= LEAST_NOISE
        and _is_resolved(mechanism)
    )


@lru_cache(maxsize=64)
def _reacting(order: ShuffledEpoch, delta: float) -> AtomicPair:
    from sharpdp.bounds.shuffled_batches.lower_reacting import reacting_pair  # for scipy.fft

    return reacting_pair(order, _ratio_pair(order), delta)


reaction = partial(
    bound,
    adjacency=Adjacency.ZERO_OUT,
    attained_when="all other gradients are as long as the clipping norm and point against that of the "
    "record, or along with it once the results so far point to the record",
    source="chua2024 Section 3",
    proof="vacant-seat",
    applies=needs(
        _few_batches, f"one or two epochs of at most {MOST_BATCHES} batches, and {TESTED}"
    ),
)


@reaction()
def late_reaction_lower(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side of DP-SGD over few shuffled batches: others that react to earlier results.

        H_y(P||Q) >= P[E] - y Q[E],   E: the sum of scores A_t - x B_t is above a threshold,

    A_t and B_t the likelihood ratios of the result of batch t with the record and with the null record
    in it. The others are against the record as long as the sum is low, and with it once that is better
    (by dynamic programming), for the x at which others that never react leave a delta of 1e-6. There is
    one rule for all y, so epochs with this rule compose.

    Numerics: see `bounds.shuffled_batches.lower_reacting`.

    >>> scheme = ShuffledBatches(dataset_size=100, batch_size=5, epochs=1)
    >>> run = DPSGD(scheme, noise_multiplier=2.0)
    >>> at = [math.log(4.58)]  # about epsilon at delta = 1e-6
    >>> late, never = (
    ...     lower(run, Adjacency.ZERO_OUT)[0][0].log_hockey_stick(at)[0]
    ...     for lower in (late_reaction_lower, ratio_test_lower)
    ... )
    >>> bool(never + 0.03 < late < never + 0.2)
    True
    """
    order, count = _order(mechanism, adjacency)
    return ((_reacting(order, 1e-6), count),)


@reaction()
def early_reaction_lower(mechanism: DPSGD[ShuffledBatches], adjacency: Adjacency) -> PairCounts:
    """Lower side like `late_reaction_lower`, with the rule that is best at a delta of 1e-5.

    Formula and numerics: those of `late_reaction_lower`. Its x is smaller, so the others change sides
    earlier.

    >>> scheme = ShuffledBatches(dataset_size=2, batch_size=1, epochs=1)
    >>> early_reaction_lower(DPSGD(scheme, noise_multiplier=1.0), Adjacency.ZERO_OUT)[0][1]
    1
    """
    order, count = _order(mechanism, adjacency)
    return ((_reacting(order, 1e-5), count),)
