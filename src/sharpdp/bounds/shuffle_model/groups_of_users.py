"""Bounds on shuffled reports of users with different local epsilons, who answer the same question.

Everybody answers by k-ary randomized response, user u with e^local_epsilon = E_u. A report is with
probability c_u = k/(E_u + k - 1) uniform on the k categories, whatever the record, and else the record.

From above: who is told which of the other users sent their record, and what these sent, sees the victim's
report among M uniform ones, M = sum_u Bern(c_u). With X and Y the likelihood ratios of the victim's two
records to a uniform report,

    h(x) <= E[(mean_{i <= M + 1} (X_i - x Y_i))_+] = E[d_M(x)],

and d_m falls with m: whoever sees m uniform reports can add one. So M may be replaced by a binomial that
is stochastically smaller, and for that one, Bin(N - 1, c), the right side is the profile of `Reports`
with the victim's own ratios: P[Bin(N - 1, c) = m]/(m + 1) = P[Bin(N, c) = m + 1]/(N c). What the binomial
misses of being smaller, at most q in the distribution function, costs q d_0.

From below: all others hold one record. With two categories it is the victim's first, and the number of
the other answers is seen. With more it is a third one: whether a report of the others is one of the
victim's two categories depends on the group, which of the two does not. N such reports are seen, a of
them in the first; C of them come from others, t and w are the victim's chances of the first and of the
second category, and

    P(N, a) = 2 P[C = N - 1] b(N, a) (t a + w (N - a))/N + P[C = N] b(N, a) (1 - t - w),

b the masses of fair coins; Q with t and w exchanged. Where N takes many values, whoever sees it adds fair
coins up to the end of a block: the formula stays, with the probabilities of blocks.
Proof: docs/proofs/shuffle-proof.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np

from sharpdp.bounds.registry import Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffle_model.all_datasets import MOST_USERS, worst_binary_crowd
from sharpdp.bounds.shuffle_model.counts_of_groups import (
    Groups,
    law_of_sum,
    products,
    smaller_binomial,
)
from sharpdp.bounds.shuffle_model.known_pairs import ROUGH
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, dominating, thresholds
from sharpdp.bounds.shuffle_model.response_pairs import BinaryResponsePair, ternary_pair
from sharpdp.bracket import Side
from sharpdp.mechanisms import Adjacency, ReportsOfGroup, ShuffledGroups
from sharpdp.numerics.counts import MASS_ERROR, log_mass
from sharpdp.numerics.special import Array, log_sum
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile_values import CallSide, above_all, pair_from_halves
from sharpdp.pairs.pair import Pair

__all__ = [
    "distinct_group_lower",
    "group_blanket_upper",
    "group_crowds_upper",
    "group_others_lower",
    "revealing_group_lower",
    "worst_group_upper",
]

_UP, _DOWN = 1.0 + 2.0**-46, 1.0 - 2.0**-46
"""A share that is too large hides too well, one that is too small not well enough."""

MOST_PRODUCTS = 3e8
"""With so many products the law of a sum is not computed; that takes a second."""

MOST_CELLS = 4e5
"""So many counts (N, a) are listed; with more N is rounded up to blocks."""

CROWDS = 2.0
"""How coarse losses are at which thousands of crowds are compared: by 2e-4 of epsilon."""

MOST_KNOTS = 2000
"""At so many losses the largest of several profiles is taken."""

_COINS = 14.0
"""Counts of fair coins lie within so many deviations, but for e^-98; others are left out below."""

_STEP, _CENTRAL = 0.02, 9.0
"""Results whose losses differ by less than this share of their deviation are put together; from so many
deviations on in proportion to their losses."""


def _question(mechanism: ReportsOfGroup) -> tuple[Groups, int, float]:
    """The other users by local epsilon, the number of categories, and the victim's local epsilon."""
    run = mechanism.groups
    counts: dict[float, int] = {}
    for index, (users, epsilon) in enumerate(zip(run.users, run.local_epsilon, strict=True)):
        counts[epsilon] = counts.get(epsilon, 0) + users - (index == mechanism.index)
    others = tuple((users, epsilon) for epsilon, users in sorted(counts.items()) if users)
    assert run.categories is not None
    return others, run.categories, mechanism.local_epsilon


ANSWERS = "randomized response of all users, 1e9 at most"


def _answers_known(mechanism: ReportsOfGroup) -> bool:
    """True if everybody answers by randomized response, and few enough users to tell them apart."""
    return mechanism.groups.categories is not None and sum(mechanism.groups.users) <= 10**9


def _rough(mechanism: ReportsOfGroup, _: Adjacency) -> PairCounts:
    return ((_above(*_question(mechanism), ROUGH), mechanism.rounds),)


@register(
    holds_when="all users answer by randomized response with the same categories, each once and "
    "independently, with the local epsilon of their group",
    source="balle2019 Lemma 5.3",
    proof="shuffle-proof",
    applies=needs(_answers_known, ANSWERS),
    effort=Effort(rough=_rough),
)
def group_blanket_upper(mechanism: ReportsOfGroup, adjacency: Adjacency) -> PairCounts:
    """Upper side of one group's randomized response: uniform reports of all groups hide its users.

    Formula: see `bounds.shuffle_model.groups_of_users`. Numerics: certified values joined by chords; the
    binomial that stands for the number of uniform reports is smaller by about 3e-5 of it.

    >>> run = ShuffledGroups(users=[1, 2], local_epsilon=[math.log(3.0), 0.0], categories=2)
    >>> pair = group_blanket_upper(run.group(0), Adjacency.REPLACE_ONE)[0][0]
    >>> round(
    ...     math.exp(pair.log_hockey_stick(np.zeros(1))[0]), 9
    ... )  # (3 - 1)/(3 + 1) E|mean of 3 coins|
    0.25
    """
    return ((_above(*_question(mechanism)), mechanism.rounds),)


def _few_binary(mechanism: ReportsOfGroup) -> bool:
    """True if there are two categories, and few enough users of few enough groups to group crowds."""
    if not _answers_known(mechanism):
        return False
    others, categories, _ = _question(mechanism)
    return categories == 2 and len(others) <= 2 and sum(n for n, _ in others) < MOST_USERS


@register(
    holds_when="all users answer by binary randomized response, each once and independently, with the "
    "local epsilon of their group",
    source="warner1965",
    proof="shuffle-proof",
    applies=needs(_few_binary, "binary randomized response by few users of two groups at most"),
)
def group_crowds_upper(mechanism: ReportsOfGroup, adjacency: Adjacency) -> PairCounts:
    """Upper side of one group's binary randomized response: the worst of all crowds, taken in groups.

    Formula: that of `binary_crowds_upper`, for others with one or two local epsilons. Numerics: certified
    values joined by chords; data sets are put together more coarsely where there are two groups.

    >>> run = ShuffledGroups(users=[1, 2], local_epsilon=[math.log(3.0), 0.0], categories=2)
    >>> pair = group_crowds_upper(run.group(0), Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.log_hockey_stick(np.zeros(1))[0]), 9)
    0.25
    """
    return ((_worst_crowd(*_question(mechanism)), mechanism.rounds),)


@lru_cache(maxsize=128)
def _worst_crowd(others: Groups, categories: int, epsilon: float) -> AtomicPair:
    """The pair that dominates a report of this local epsilon among any crowd of others."""
    losses = thresholds([_among_uniform(others, categories, epsilon)[0]], Side.UPPER, CROWDS)
    return worst_binary_crowd(others, epsilon, losses)


@lru_cache(maxsize=128)
def _above(others: Groups, categories: int, epsilon: float, coarseness: float = 1.0) -> AtomicPair:
    """The pair that dominates a report of this local epsilon among uniform ones of others."""
    reports, missing = _among_uniform(others, categories, epsilon)
    return dominating((reports,), coarseness, missing)


def _among_uniform(others: Groups, categories: int, epsilon: float) -> tuple[Reports, float]:
    """A report of this local epsilon among uniform ones of others, and what their binomial misses."""
    hidden = tuple((users, _uniform(each, categories) * _DOWN) for users, each in others)
    smaller = smaller_binomial(hidden)
    own = _uniform(epsilon, categories)
    rate = smaller.rate if smaller.trials else own
    small, large = own / rate, math.exp(epsilon) * own / rate
    each = rate / categories
    kinds = [(each, large, small), (each, small, large)]
    if categories > 2:
        kinds.append((rate * (1.0 - 2.0 / categories), small, small))
    if rate < 1.0:
        kinds.append((1.0 - rate, 0.0, 0.0))
    weights, first, second = zip(*kinds, strict=True)
    return Reports(weights, first, second, smaller.trials + 1), smaller.missing


def _uniform(epsilon: float, categories: int) -> float:
    """c = k/(E + k - 1)."""
    return 1.0 / (1.0 + math.expm1(epsilon) / categories)


def _has_short_law(mechanism: ReportsOfGroup) -> bool:
    """True if the law of what the others report is quickly found."""
    return _answers_known(mechanism) and products(_others_law(mechanism)) <= MOST_PRODUCTS


def _others_law(mechanism: ReportsOfGroup) -> Groups:
    """How many others there are in each group, and how likely each sends what the victim may hold."""
    others, categories, _ = _question(mechanism)
    either = 1.0 if categories == 2 else 2.0
    return tuple((n, either * _uniform(each, categories) / categories) for n, each in others)


@register(
    attained_when="one user of the group holds either of two records and all others hold a third, or one "
    "of the two if there are no more, in every round",
    source="warner1965; kairouz2016",
    proof="shuffle-proof",
    applies=needs(_has_short_law, f"{ANSWERS}, in few groups"),
)
def group_others_lower(mechanism: ReportsOfGroup, adjacency: Adjacency) -> PairCounts:
    """Lower side of one group's randomized response: all other users hold one record.

    Formula: see `bounds.shuffle_model.groups_of_users`. Numerics: results with nearly equal losses are
    put together, about 1e-4 of epsilon too small; very unlikely ones are left out.

    >>> run = ShuffledGroups(users=[1, 2], local_epsilon=[math.log(3.0), 0.0], categories=2)
    >>> pair = group_others_lower(run.group(0), Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.log_hockey_stick(np.zeros(1))[0]), 9)
    0.25
    """
    categories, epsilon = mechanism.groups.categories, mechanism.local_epsilon
    assert categories is not None
    pair = _below(_others_law(mechanism), categories, epsilon)
    return ((pair, mechanism.rounds),)


@lru_cache(maxsize=128)
def _below(others: Groups, categories: int, epsilon: float) -> AtomicPair:
    """A pair that is attained by a report of this local epsilon among those of others."""
    counts, masses, error = law_of_sum(others)
    most = sum(users for users, _ in others)
    rare = _uniform(epsilon, categories) / categories
    often = math.exp(epsilon) * rare
    if categories == 2:
        return _ones_below(counts, masses, most, often, rare, error)
    return _counts_below(counts, masses, most, often, rare, error)


def _ones_below(
    counts: Array, masses: Array, most: int, often: float, rare: float, error: float
) -> AtomicPair:
    """How often the answer occurs that the others do not hold, if the victim holds theirs, or not.

    A result next to a count that is left out would lack some of its mass, and reveal too much.
    """
    whole = slice(int(counts[0] > 0), masses.size + int(counts[-1] == most))
    before, here = np.append(0.0, masses)[whole], np.append(masses, 0.0)[whole]
    p, q = often * here + rare * before, rare * here + often * before
    pair = AtomicPair.from_rounded_pmfs(p, q)
    return replace(
        pair, loss_error=pair.loss_error + 2.0 * error, mass_error=pair.mass_error + 2.0 * error
    )


def _counts_below(
    counts: Array, masses: Array, most: int, often: float, rare: float, error: float
) -> AtomicPair:
    """The counts of two categories that the others do not hold."""
    log_q, losses = [], []
    neither = max(1.0 - often - rare, 0.0)
    for total, without, with_victim in _totals(counts, masses, most):
        if total == 0:
            continue
        away = _COINS * 0.5 * math.sqrt(total) + 1.0
        a = np.arange(
            math.floor(0.5 * total) + 1.0, math.floor(min(0.5 * total + away, total)) + 1.0
        )
        coins = np.exp(log_mass(np.full(a.shape, float(total)), a, 0.5))
        q = 2.0 * with_victim * (rare * a + often * (total - a)) / total + without * neither
        gap = 2.0 * with_victim * (often - rare) * (2.0 * a - total) / total
        telling = (gap > 0.0) & (coins > 0.0)
        losses.append(np.log1p(gap[telling] / q[telling]))
        log_q.append(np.log(coins[telling] * q[telling]))
    error += MASS_ERROR + 1e-12
    every, log_mass_q = np.concatenate(losses) * (1.0 - 2.0 * error), np.concatenate(log_q)
    calls = _merged(every, log_mass_q - 2.0 * error)
    return pair_from_halves(calls, calls, side=Side.LOWER)


def _totals(counts: Array, masses: Array, most: int) -> list[tuple[int, float, float]]:
    """Ends of blocks of N, and their probabilities without and with the victim's report among N.

    Blocks with counts that are left out would lack some of the first, and are left out as well.
    """
    first, last = int(counts[0]), int(counts[-1]) + 1
    cells = (last - first + 1) * (_COINS * 0.5 * math.sqrt(last) + 1.0)
    width = max(math.ceil(cells / MOST_CELLS), 1)
    ends = np.arange(first, last + width, width)
    here = np.searchsorted(ends, counts)
    without = np.bincount(here, masses, ends.size)
    with_victim = np.bincount(np.searchsorted(ends, counts + 1.0), masses, ends.size)
    whole = ends.size if counts[-1] == most else int(np.sum(ends <= counts[-1]))
    columns = (each[:whole].tolist() for each in (ends, without, with_victim))
    return list(zip(*columns, strict=True))


def _merged(losses: Array, log_q: Array) -> CallSide:
    """Results with nearly equal losses put together: whoever is told less can tell no more."""
    q = np.exp(log_q)
    more = q * np.expm1(losses)
    deviation = math.sqrt(float(more @ np.expm1(losses)))
    scale = _CENTRAL * deviation
    bins = np.floor(np.arcsinh(losses / scale) * _CENTRAL / _STEP)
    order = np.argsort(bins, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(bins[order]) != 0.0))
    total_q, total_more = (np.add.reduceat(each[order], starts) for each in (q, more))
    error = 1e-13
    together = np.log1p(total_more / total_q) * (1.0 - error)
    log_total_q = np.log(total_q) - error
    total = float(log_sum(log_total_q + np.log(np.expm1(together))))
    return CallSide(together, log_total_q, total)


def _uppers(run: ShuffledGroups, coarseness: float = 1.0) -> dict[int, AtomicPair]:
    """For each group that may be the worst the pair that dominates what its users send."""
    if run.categories is not None:
        some = [group for group in run.groups if group.local_epsilon]
        if all(map(_few_binary, some)):
            return {group.index: _worst_crowd(*_question(group)) for group in some}
        return {group.index: _above(*_question(group), coarseness) for group in some}
    sizes = list(zip(run.users, run.local_epsilon, strict=True))
    return {
        index: _clones(users, epsilon, coarseness)
        for index, (users, epsilon) in enumerate(sizes)
        if epsilon and not any(_hides_less(each, (users, epsilon)) for each in sizes)
    }


def _hides_less(one: tuple[int, float], other: tuple[int, float]) -> bool:
    """Whether a group has fewer users with a larger local epsilon.

    Whoever sees its reports can add some, and randomizers with a smaller one are among its own.
    """
    return one != other and one[0] <= other[0] and one[1] >= other[1]


@lru_cache(maxsize=128)
def _clones(users: int, epsilon: float, coarseness: float = 1.0) -> AtomicPair:
    """The pair of `shared_clones_upper` as a list."""
    rate = 2.0 * _DOWN / (math.exp(epsilon) + 1.0)
    return dominating((Reports.clones(users, epsilon, rate),), coarseness)


def _worst(run: ShuffledGroups, coarseness: float = 1.0) -> AtomicPair:
    """A pair that dominates the pairs of all groups: one of them if it does."""
    left, worst = list(_uppers(run, coarseness).values()), []
    probes = np.linspace(0.0, max(run.local_epsilon), 50, endpoint=False)
    while left:
        values = np.array([pair.log_hockey_stick(probes) for pair in left])
        index = int(np.argmax(np.sum(values >= np.max(values, axis=0), axis=1)))
        pair = left.pop(index)
        worst.append(pair)
        # convex functions that a chain of chords exceeds at its knots it exceeds everywhere
        knots = np.array([0.0, *(loss for loss in pair.losses if loss > 0.0)])
        high = pair.log_hockey_stick(knots)
        left = [other for other in left if (other.log_hockey_stick(knots) > high).any()]
    # where profiles cross, one may have few losses and another one many
    return worst[0] if len(worst) == 1 else above_all(worst, limit=MOST_KNOTS)


def _answer_one_question(run: ShuffledGroups) -> bool:
    """True if all answer by randomized response, and are not too many to tell their reports apart."""
    return run.categories is not None and sum(run.users) <= 10**9


def _are_unknown(run: ShuffledGroups) -> bool:
    """True if nothing is known about the randomizers but their local epsilons."""
    return run.categories is None


def _rough_worst(run: ShuffledGroups, _: Adjacency) -> PairCounts:
    return ((_worst(run, ROUGH), run.rounds),)


@register(
    name="worst_lone_group_upper",
    holds_when="all users of a group run the same local_epsilon-DP randomizer with the local epsilon of "
    "their group",
    source="balle2019 Lemma 5.3",
    proof="shuffle-proof",
    applies=needs(_are_unknown, "randomizers of which only the local epsilons are known"),
    effort=Effort(rough=_rough_worst),
)
@register(
    holds_when="all users answer by randomized response with the same categories, each once and "
    "independently, with the local epsilon of their group",
    source="balle2019 Lemma 5.3",
    proof="shuffle-proof",
    applies=needs(_answer_one_question, ANSWERS),
    effort=Effort(rough=_rough_worst),
)
def worst_group_upper(run: ShuffledGroups, adjacency: Adjacency) -> PairCounts:
    """Upper side of reports of several groups: the worst of the pairs that dominate what each sends.

    Formula: the largest profile of the pairs of `group_blanket_upper`, or of `shared_clones_upper` for
    each group by itself if the randomizers are not known. Numerics: if no pair is the worst everywhere,
    the largest profile at many losses is joined by chords.

    >>> run = ShuffledGroups(users=[50, 5], local_epsilon=[1.0, 2.0])
    >>> round(worst_group_upper(run, Adjacency.REPLACE_ONE)[0][0].losses[-1], 9)
    2.0
    """
    return ((_worst(run), run.rounds),)


def _lower(run: ShuffledGroups, log_delta: float, response: Callable[[int, float], Pair]) -> Pair:
    """A pair of the group that is worst, by its upper side, where the largest profile is this.

    It is that of this response, if the randomizers are not known.
    """
    uppers = _uppers(run, ROUGH)
    losses = np.linspace(0.0, max(run.local_epsilon), 2000)
    values = np.array([pair.log_hockey_stick(losses) for pair in uppers.values()])
    index = int(np.argmin(np.max(values, axis=0) >= log_delta)) if log_delta < 0.0 else 0
    group = run.group(list(uppers)[int(np.argmax(values[:, index]))])
    if run.categories is None:
        return response(group.users, group.local_epsilon)
    return _below(_others_law(group), run.categories, group.local_epsilon)


def _have_short_laws(run: ShuffledGroups) -> bool:
    """True if all answer by randomized response, and the laws of what others report are quickly found."""
    return run.categories is not None and all(map(_has_short_law, run.groups))


answers_bound = partial(
    register,
    source="warner1965; kairouz2016",
    proof="shuffle-proof",
    applies=needs(_have_short_laws, f"{ANSWERS}, in few groups"),
)
lone_bound = partial(
    register,
    source="warner1965; kairouz2016",
    proof="shuffle-proof",
    applies=needs(_are_unknown, "randomizers of which only the local epsilons are known"),
)
_HELD = (
    "it holds either of two records and all others hold a third, or one of the two if there are no more, "
    "in every round"
)


@lone_bound(
    name="revealing_lone_group_lower",
    attained_when="a user of the group whose delta is the largest around 1e-6 is replaced; this group "
    f"answers by randomized response with three categories, the other groups in other words; {_HELD}",
)
@answers_bound(
    attained_when="a user of the group whose delta is the largest around 1e-6 is replaced; " + _HELD
)
def revealing_group_lower(run: ShuffledGroups, adjacency: Adjacency) -> PairCounts:
    """Lower side of reports of several groups: the group that is worst where one round has delta 1e-6.

    Formula: that of `group_others_lower`, or of `ternary_response_lower` for this group by itself if
    the randomizers are not known. Any group is safe: which one is the worst is judged by upper sides.

    >>> run = ShuffledGroups(users=[50, 5], local_epsilon=[1.0, 2.0])
    >>> round(revealing_group_lower(run, Adjacency.REPLACE_ONE)[0][0].largest, 9)
    2.0
    """
    return ((_lower(run, math.log(1e-6), ternary_pair), run.rounds),)


@lone_bound(
    name="distinct_lone_group_lower",
    attained_when="a user of the group with the largest total variation is replaced; this group answers "
    f"by randomized response with two categories, the other groups in other words; {_HELD}",
)
@answers_bound(
    attained_when="a user of the group with the largest total variation is replaced; " + _HELD
)
def distinct_group_lower(run: ShuffledGroups, adjacency: Adjacency) -> PairCounts:
    """Lower side of reports of several groups: the group with the largest total variation.

    The formula is that of `revealing_group_lower`, or of `binary_response_lower` if the randomizers are
    not known.

    >>> run = ShuffledGroups(users=[50, 5], local_epsilon=[1.0, 2.0])
    >>> round(distinct_group_lower(run, Adjacency.REPLACE_ONE)[0][0].local_epsilon, 9)
    2.0
    """
    return ((_lower(run, 0.0, BinaryResponsePair), run.rounds),)
