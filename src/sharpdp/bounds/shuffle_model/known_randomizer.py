"""Bounds on shuffled reports whose randomizer is known: randomized response, noise, or a table.

Upper sides use what all records have in common (the blanket), lower sides one real pair of data sets:
one user holds either of two records, all others hold one, or two. They are pairs of
`bounds.shuffle_model.likelihood_ratio_sums` and
`bounds.shuffle_model.all_datasets`.
"""

from functools import partial

from sharpdp.bounds.registry import PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffle_model.known_pairs import (
    ROUGH,
    any_binary_crowd,
    chosen_dataset,
    every_dataset,
    fixed_others,
    has_binary_crowd,
    has_few_datasets,
    has_known_rows,
    has_own_blanket,
    has_some_datasets,
    own_blanket,
    sure_others,
)
from sharpdp.mechanisms import Adjacency, RandomizedResponse, ShuffledReports

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


bound = partial(
    register, of=ShuffledReports, adjacency=Adjacency.REPLACE_ONE, source="blackwell1953"
)


def _structured(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer has a blanket of its own, and all users take part."""
    return mechanism.population is None and has_own_blanket(mechanism)


def _known(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer is known, and so are the users: those who are drawn reveal less."""
    return mechanism.population is None and has_known_rows(mechanism)


def _others_alike(mechanism: ShuffledReports) -> bool:
    """Whether it matters what others hold who all hold the same; not for two equal categories."""
    randomizer = mechanism.randomizer
    binary = isinstance(randomizer, RandomizedResponse) and randomizer.categories == 2
    return _known(mechanism) and not binary


def _some(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer is a table and its plainest data sets can be gone through."""
    return mechanism.population is None and has_some_datasets(mechanism)


def _few(mechanism: ShuffledReports) -> bool:
    """Whether the randomizer is a table and all data sets can be gone through."""
    return mechanism.population is None and has_few_datasets(mechanism)


@bound(
    holds_when="all users of a round run the given randomizer, each once and independently",
    source="balle2019 Lemma 5.3",
    applies=_structured,
    rough=lambda mechanism, _: ((own_blanket(mechanism, coarseness=ROUGH), mechanism.rounds),),
)
def own_blanket_upper(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of shuffled reports of a known randomizer: its own blanket hides one user.

        w(y) = min_x R_x(y),  h(l) <= E[(sum_i B_i (R_x0(y_i) - l R_x1(y_i)) / w(y_i))_+] / n

    with B_i of mean sum(w) and y_i from w / sum(w), the largest over all pairs of records x0, x1. The
    right side is the profile of a pair, so it composes. For k-ary randomized response all pairs are
    alike. For Laplace noise on [0, 1] the values 0 and 1 are the worst, as
    `bounds.shuffle_model.laplace_reports` proves.

    Numerics: certified values joined by chords, about 5e-5 of epsilon too large; noise is spread onto
    the ends of its cells.

    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=1, randomizer=coin)
    >>> pair = own_blanket_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> [round(loss, 12) for loss in pair.losses]
    [-1.0, 1.0]
    """
    return ((own_blanket(mechanism), mechanism.rounds),)


@bound(
    attained_when="one user holds either of two records and all others hold a third, in every round",
    source="balle2019 Section 5",
    applies=_known,
)
def fixed_others_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports of a known randomizer: all other users hold one record r.

        h(l) = E[(sum_i (R_x0(y_i) - l R_x1(y_i)) / R_r(y_i))_+] / n,   y_i from R_r

    is exact for these two data sets. Taken are the x0, x1, r with the largest
    sum_y (R_x0(y) - R_x1(y))^2 / R_r(y), which decides for many users. Noise is seen through cells.

    Numerics: all results listed if there are few; otherwise certified values joined by extended
    chords, about 1e-4 of epsilon too small.

    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=2, randomizer=coin)
    >>> len(fixed_others_lower(one, Adjacency.REPLACE_ONE)[0][0].losses)  # 0, 1 or 2 ones
    3
    """
    return ((fixed_others(mechanism), mechanism.rounds),)


@bound(
    attained_when="one user holds either of two records and all others hold the one that makes the "
    "largest loss most likely, in every round",
    source="balle2019 Section 5",
    applies=_others_alike,
)
def sure_others_lower(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side of shuffled reports of a known randomizer: all others hold what the victim may hold.

    The formula is that of `fixed_others_lower`. Taken are the x0, x1 and the report y with the largest
    R_x0(y) / R_x1(y), and the r with the largest R_r(y): the loss is as large as that of one report only
    if all reports are y, which has probability R_x0(y) R_r(y)^(n - 1). For randomized response r = x0.
    It decides for few users, and for losses near the local epsilon.

    Numerics: as for `fixed_others_lower`.

    >>> import math
    >>> three = RandomizedResponse(local_epsilon=math.log(2.0), categories=3)
    >>> two = ShuffledReports(users=2, randomizer=three)
    >>> pair = sure_others_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> round(math.exp(pair.losses[-1]), 9), round(math.exp(pair.log_p[-1]), 9)  # (2/4)^2
    (2.0, 0.25)
    """
    return ((sure_others(mechanism), mechanism.rounds),)


@bound(
    holds_when="all users of a round run the given randomizer, each once and independently",
    applies=_few,
)
def every_dataset_upper(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of few shuffled reports of a known randomizer: the worst of all data sets.

    The largest profile over everything that the other users may hold, and over all pairs of records of
    one user, joined by chords. Which data set is the worst depends on epsilon: for binary randomized
    response it is mostly, but not always, the one in which all others hold the same.

    Numerics: masses are rounded to the safe side, by less than 1e-8 of themselves.

    >>> import math
    >>> import numpy as np
    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=math.log(3.0))
    >>> pair = every_dataset_upper(ShuffledReports(users=2, randomizer=coin), Adjacency.REPLACE_ONE)
    >>> round(math.exp(pair[0][0].log_hockey_stick(np.zeros(1))[0]), 6)  # 9/16 - 3/16
    0.375
    """
    return ((every_dataset(mechanism), mechanism.rounds),)


def _binary(mechanism: ShuffledReports) -> bool:
    """Whether reports are binary randomized response, of many users who all take part."""
    return mechanism.population is None and has_binary_crowd(mechanism)


@bound(
    holds_when="all users of a round answer by binary randomized response, each once and independently",
    source="warner1965",
    proof="shuffle-proof",
    applies=_binary,
)
def binary_crowds_upper(mechanism: ShuffledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side of binary randomized response: the worst of all crowds, taken in groups.

    Formula: see `bounds.shuffle_model.binary_datasets`. The worst crowd is mostly the one in which all
    others hold the same, as
    on the lower side; far from it groups are wider, which costs nothing.

    Numerics: certified values joined by chords, about 5e-5 of epsilon too large.

    >>> from sharpdp.mechanisms import RandomizedResponse
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> many = ShuffledReports(users=500, randomizer=coin)
    >>> round(binary_crowds_upper(many, Adjacency.REPLACE_ONE)[0][0].losses[-1], 9)
    1.0
    """
    pair = any_binary_crowd(mechanism.users, mechanism.local_epsilon)
    return ((pair, mechanism.rounds),)


@bound(
    attained_when="those data sets occur, in every round, that are told apart most easily: of all if "
    "there are few, else of those in which the others hold one record or two",
    applies=_some,
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


@bound(
    attained_when="those data sets occur, in every round, that reveal most where those that are told "
    "apart most easily reveal little: of all if there are few, else of those in which the others hold "
    "one record or two",
    applies=_some,
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


@bound(
    attained_when="those data sets occur, in every round, that reveal most where two other choices "
    "reveal little: of all if there are few, else of those in which the others hold one record or two",
    applies=_some,
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
