"""Bounds on shuffled reports whose randomizer is known: randomized response, noise, or a table.

Upper sides use what all records have in common (the blanket), lower sides one real pair of data sets:
one user holds either of two records, all others hold one, or two. They are pairs of
`bounds.shuffle_model.likelihood_ratio_sums` and `bounds.shuffle_model.all_datasets`.

Users may be drawn anew in each round. Let g be the rate at which a user takes part, one if all do, and
mean(X), mean(Y) the likelihood ratios of shuffled reports in `own_blanket_upper` or `fixed_others_lower`.
With users who are drawn they become 1 - g + g mean(X) and 1 - g + g mean(Y), on both sides. From above:
who is in the place of an absent victim is not known, and hides in the same blanket
(docs/proofs/shuffle-proof.md). From below: everyone but the victim holds one record, so that one of
those takes its place.
"""

from functools import partial

from sharpdp.bounds.registry import Effort, PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffle_model.known_pairs import (
    ROUGH,
    AnyReports,
    any_binary_crowd,
    chosen_dataset,
    every_dataset,
    fixed_others,
    has_binary_reports,
    has_few_datasets,
    has_known_rows,
    has_own_blanket,
    has_some_datasets,
    is_response,
    one_round,
    own_blanket,
    sure_others,
)
from sharpdp.bracket import Side
from sharpdp.mechanisms import Adjacency, SampledReports, ShuffledReports

__all__ = [
    "binary_crowds_upper",
    "distinct_dataset_lower",
    "every_dataset_upper",
    "exposing_dataset_lower",
    "fixed_others_lower",
    "own_blanket_upper",
    "revealing_dataset_lower",
    "sure_others_lower",
]

PLAIN = "of all if there are few, else of those in which the others hold one record or two"
"""Which data sets are gone through on the lower side."""

bound = partial(
    register,
    of=ShuffledReports,
    holds_when="all users of a round run the given randomizer, each once and independently",
    source="blackwell1953",
)
sampled_bound = partial(
    register,
    of=SampledReports,
    holds_when="users are drawn without replacement; those of a round run the given randomizer",
    source="blackwell1953",
    proof="shuffle-proof",
)

OWN_BLANKET = needs(
    has_own_blanket, "a known randomizer other than binary, with few kinds of pairs of records"
)
ALL_DATASETS = needs(has_few_datasets, "a table as randomizer, and all its data sets gone through")
ROWS = "known chances of all reports"

others_bound = partial(
    register, source="balle2019 Section 5; girgis2021 Theorem 2 for users who are drawn"
)
dataset_bound = partial(
    register,
    source="blackwell1953",
    applies=needs(has_some_datasets, "a table as randomizer, and few enough data sets"),
)


def _blanket(mechanism: AnyReports, coarseness: float = 1.0) -> PairCounts:
    reports, rate = one_round(mechanism, Side.UPPER)
    return ((own_blanket(reports, rate, coarseness), reports.rounds),)


def _rough_blanket(mechanism: AnyReports, _: Adjacency) -> PairCounts:
    return _blanket(mechanism, ROUGH)


@sampled_bound(
    name="sampled_own_blanket_upper",
    source="balle2019 Lemma 5.3",
    applies=OWN_BLANKET,
    effort=Effort(rough=_rough_blanket),
)
@bound(source="balle2019 Lemma 5.3", applies=OWN_BLANKET, effort=Effort(rough=_rough_blanket))
def own_blanket_upper(mechanism: AnyReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of shuffled reports of a known randomizer: its own blanket hides one user.

        w(y) = min_x R_x(y),  h(l) <= E[(sum_i B_i (R_x0(y_i) - l R_x1(y_i)) / w(y_i))_+] / n

    with B_i of mean sum(w) and y_i from w / sum(w), the largest over all pairs of records x0, x1. The
    right side is the profile of a pair, so it composes. With users who are drawn it is
    E[((1 - g)(1 - l) + g mean(B_i (X_i - l Y_i)))_+]. For k-ary randomized response all pairs are
    alike. For Laplace noise on [0, 1] the values 0 and 1 are the worst, as
    `bounds.shuffle_model.laplace_reports` proves.

    Numerics: certified values joined by chords, about 5e-5 of epsilon too large; noise is spread onto
    the ends of its cells.

    >>> import math
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=1, randomizer=coin)
    >>> pair = own_blanket_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> [round(loss, 12) for loss in pair.losses]
    [-1.0, 1.0]
    >>> four = RandomizedResponse(local_epsilon=1.0, categories=4)
    >>> drawn = SampledReports(ShuffledReports(users=5, randomizer=four), population=20)
    >>> pair = own_blanket_upper(drawn, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 9) == round(1 + (math.e - 1) / 4, 9)
    True
    """
    return _blanket(mechanism)


def _has_no_exact_pair(mechanism: AnyReports) -> bool:
    """True if rows are known; drawn users of two or three categories have pairs in `sampled_users`."""
    exact = isinstance(mechanism, SampledReports) and is_response(mechanism, 2, 3)
    return has_known_rows(mechanism) and not exact


@others_bound(
    attained_when="one user holds either of two records and all others hold a third, in every round",
    applies=needs(_has_no_exact_pair, f"{ROWS}, which no exact pair covers"),
)
def fixed_others_lower(mechanism: AnyReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports of a known randomizer: all other users hold one record r.

        h(l) = E[(sum_i (R_x0(y_i) - l R_x1(y_i)) / R_r(y_i))_+] / n,   y_i from R_r

    is exact for these two data sets. Taken are the x0, x1, r with the largest
    sum_y (R_x0(y) - R_x1(y))^2 / R_r(y), which decides for many users. Noise is seen through cells.
    With users who are drawn it is (1 - g) R + g P against (1 - g) R + g Q, where R is the law without the
    victim.

    Numerics: all results listed if there are few; otherwise certified values joined by extended
    chords, about 1e-4 of epsilon too small.

    >>> import math
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=2, randomizer=coin)
    >>> len(fixed_others_lower(one, Adjacency.REPLACE_ONE)[0][0].losses)  # 0, 1 or 2 ones
    3
    >>> four = RandomizedResponse(local_epsilon=1.0, categories=4)
    >>> drawn = SampledReports(ShuffledReports(users=1, randomizer=four), population=4)
    >>> pair = fixed_others_lower(drawn, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 9) == round(1 + (math.e - 1) / 4, 9)
    True
    """
    reports, rate = one_round(mechanism, Side.LOWER)
    return ((fixed_others(reports, rate), reports.rounds),)


@others_bound(
    attained_when="one user holds either of two records and all others hold the one that makes the "
    "largest loss most likely, in every round",
    # for two equal categories it does not matter what others hold who all hold the same
    applies=needs(
        lambda mechanism: has_known_rows(mechanism) and not is_response(mechanism, 2),
        f"{ROWS}, other than binary randomized response",
    ),
)
def sure_others_lower(mechanism: AnyReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports of a known randomizer: all others hold what the victim may hold.

    The formula is that of `fixed_others_lower`. Taken are the x0, x1 and the report y with the largest
    R_x0(y) / R_x1(y), and the r with the largest R_r(y): the loss is as large as that of one report only
    if all reports are y, which has probability R_x0(y) R_r(y)^(n - 1). For randomized response r = x0.
    It decides for few users, and for losses near the local epsilon.

    Numerics: as for `fixed_others_lower`.

    >>> import math
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> three = RandomizedResponse(local_epsilon=math.log(2.0), categories=3)
    >>> two = ShuffledReports(users=2, randomizer=three)
    >>> pair = sure_others_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 9), round(math.exp(pair.log_p[-1]), 9)  # (2/4)^2
    (2.0, 0.25)
    >>> drawn = SampledReports(ShuffledReports(users=1, randomizer=three), population=4)
    >>> pair = sure_others_lower(drawn, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(-pair.losses[-1]), 9)  # 3/4 + 1/4 of 1/2
    0.875
    """
    reports, rate = one_round(mechanism, Side.LOWER)
    return ((sure_others(reports, rate), reports.rounds),)


@sampled_bound(name="sampled_every_dataset_upper", applies=ALL_DATASETS)
@bound(applies=ALL_DATASETS)
def every_dataset_upper(mechanism: AnyReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of few shuffled reports of a known randomizer: the worst of all data sets.

    The largest profile over everything that the other users may hold, and over all pairs of records of
    one user, joined by chords. Which data set is the worst depends on epsilon: for binary randomized
    response it is mostly, but not always, the one in which all others hold the same.

    With users who are drawn: (1 - g) [T] + g mean_j [T - j + x] against the same with y, where [.] is the
    law of the counts, T any users without the victim and j one of them; the largest profile over all
    T, x, y.

    Numerics: masses are rounded to the safe side, by less than 1e-8 of themselves.

    >>> import math
    >>> import numpy as np
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> pair = every_dataset_upper(ShuffledReports(users=2, randomizer=coin), Adjacency.REPLACE_ONE)
    >>> round(math.exp(pair[0][0].log_hockey_stick(np.zeros(1))[0]), 6)  # 9/16 - 3/16
    0.375
    >>> drawn = SampledReports(ShuffledReports(users=1, randomizer=coin), population=4)
    >>> pair = every_dataset_upper(drawn, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 9)  # 1 + (3 - 1)/4
    1.5
    """
    reports, rate = one_round(mechanism, Side.UPPER)
    return ((every_dataset(reports, rate), reports.rounds),)


@bound(
    holds_when="all users of a round answer by binary randomized response, each once and independently",
    source="warner1965",
    proof="shuffle-proof",
    applies=needs(has_binary_reports, "binary randomized response, and not too many users"),
    effort=Effort(yields_to=("every_dataset_upper",)),
)
def binary_crowds_upper(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of binary randomized response: the worst of all crowds, taken in groups.

    Formula: see `bounds.shuffle_model.all_datasets`. The worst crowd is mostly the one in which all
    others hold the same, as on the lower side; far from it groups are wider, which costs nothing.

    Numerics: certified values joined by chords, about 5e-5 of epsilon too large.

    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> many = ShuffledReports(users=500, randomizer=coin)
    >>> round(binary_crowds_upper(many, Adjacency.REPLACE_ONE)[0][0].losses[-1], 9)
    1.0
    """
    pair = any_binary_crowd(mechanism.users, mechanism.local_epsilon)
    return ((pair, mechanism.rounds),)


@dataset_bound(
    attained_when=f"the data sets, in every round, are those that are easiest to distinguish: {PLAIN}"
)
def distinct_dataset_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of few shuffled reports: the data sets with the largest total variation.

    Of all data sets if they can be gone through; else the others hold one record, or some eighths or
    quarters of them another one.

    Numerics: sums of positive products, with their rounding counted; counts with a probability below
    1e-250 are left out.

    >>> import math
    >>> import numpy as np
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> three = ShuffledReports(users=3, randomizer=coin)
    >>> pair = distinct_dataset_lower(three, Adjacency.REPLACE_ONE)[0][0]
    >>> round(
    ...     math.exp(pair.log_hockey_stick(np.zeros(1))[0]), 12
    ... )  # the others hold one of each: (1/2)(10/16)
    0.3125
    """
    return ((chosen_dataset(mechanism, 0), mechanism.rounds),)


@dataset_bound(
    attained_when="the data sets, in every round, are those that reveal most where those that are "
    f"easiest to distinguish reveal little: {PLAIN}"
)
def revealing_dataset_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of few shuffled reports: the data sets that reveal most where others reveal little.

    They have the largest delta at the epsilon where the data sets of `distinct_dataset_lower` and those
    with the largest losses are farthest below the largest delta of any. The data sets that are gone
    through and the numerics are those of `distinct_dataset_lower`.

    >>> import math
    >>> import numpy as np
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> two = ShuffledReports(users=2, randomizer=coin)
    >>> pair = revealing_dataset_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 12)  # 9/16 against 3/16
    3.0
    """
    return ((chosen_dataset(mechanism, 1), mechanism.rounds),)


@dataset_bound(
    attained_when="those data sets occur, in every round, that reveal most where two other choices "
    f"reveal little: {PLAIN}"
)
def exposing_dataset_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of few shuffled reports: the data sets that fill the largest gap which is left.

    Chosen as those of `revealing_dataset_lower`, which are then among the others. The data sets that are
    gone through and the numerics are those of `distinct_dataset_lower`.

    >>> import math
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> two = ShuffledReports(users=2, randomizer=coin)
    >>> pair = exposing_dataset_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 12)  # 9/16 against 3/16
    3.0
    """
    return ((chosen_dataset(mechanism, 2), mechanism.rounds),)
