"""Bounds on the shuffle model: n reports through local randomizers, mixed by a shuffler."""

from functools import partial

import numpy as np

from sharpdp.bounds.registry import PairCounts, bound, needs
from sharpdp.bounds.shuffle_model.all_datasets import some_datasets
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.bounds.shuffle_model.known_pairs import split_coins
from sharpdp.bounds.shuffle_model.response_pairs import BinaryResponsePair, ternary_pair
from sharpdp.mechanisms import Adjacency, ShuffledReports

__all__ = [
    "binary_response_lower",
    "individual_clones_upper",
    "shared_clones_upper",
    "split_response_lower",
    "ternary_response_lower",
]

_ROUND_DOWN = 1.0 - 2.0**-46
"""A clone rate that is rounded down is on the safe side."""


def _is_unknown(mechanism: ShuffledReports) -> bool:
    """True if nothing is known about the randomizer but its budget."""
    return isinstance(mechanism.randomizer, str)


def _may_split(mechanism: ShuffledReports) -> bool:
    """True if nothing is known about the randomizer, and there are few data sets of zeros and ones."""
    few = mechanism.population is None and some_datasets(2, 2, mechanism.users)
    return few and _is_unknown(mechanism)


UNKNOWN = "a randomizer of which only the local epsilon is known"

response_bound = partial(bound, proof="shuffle-proof", applies=needs(_is_unknown, UNKNOWN))


@bound(
    holds_when="all users of a round run the same local_epsilon-DP randomizer",
    source="balle2019 Lemma 5.3",
    proof="shuffle-proof",
    applies=needs(lambda mechanism: mechanism.randomizer != "individual", "one randomizer for all"),
)
def shared_clones_upper(mechanism: ShuffledReports, _: Adjacency) -> PairCounts:
    """Upper side by the pair with clone rate 2/(E + 1), for any randomizer that all users share.

    Formula: C ~ Bin(n - 1, 2/(E + 1)) other reports look like the victim's, A ~ Bin(C, 1/2) like its
    first value; P = (A + 1, C - A) with probability E/(E + 1), else (A, C - A + 1); Q mirrored. The
    next round may use another randomizer, chosen after this one. Numerics: C rounded down, see
    `ShufflePair`.

    >>> two = ShuffledReports(users=2, local_epsilon=np.log(3.0))
    >>> pair = shared_clones_upper(two, Adjacency.REPLACE_ONE)[0][0]
    >>> # 1/2 (3/4 - 1/4) + 1/2 (3/8 - 1/8)
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)
    0.375
    """
    e = mechanism.local_epsilon
    rate = 2.0 * float(np.exp(-np.logaddexp(0.0, e))) * _ROUND_DOWN
    return ((ShufflePair(mechanism.users, e, min(rate, 1.0)), mechanism.rounds),)


@bound(
    holds_when="records are mixed first, each is reported by a local_epsilon-DP randomizer of its place",
    source="feldman2021 Theorem 3.1",
    applies=needs(lambda mechanism: mechanism.randomizer == "individual", "individual randomizers"),
)
def individual_clones_upper(mechanism: ShuffledReports, _: Adjacency) -> PairCounts:
    """Upper side by the pair with clone rate e^-local_epsilon, for adaptive, individual randomizers.

    Formula: as `shared_clones_upper` with C ~ Bin(n - 1, 1/E): every report is with probability 1/E a
    draw from the even mixture of the victim's two reports, whatever the sender holds. Each randomizer
    is local_epsilon-DP given all earlier reports. It must belong to a place, not to a user: that may
    give the sender away. Numerics: C rounded down.

    >>> two = ShuffledReports(users=2, local_epsilon=np.log(3.0), randomizer="individual")
    >>> pair = individual_clones_upper(two, Adjacency.REPLACE_ONE)[0][0]
    >>> # 2/3 (3/4 - 1/4) + 1/3 (3/8 - 1/8)
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)
    0.416666667
    """
    e = mechanism.local_epsilon
    return ((ShufflePair(mechanism.users, e, float(np.exp(-e)) * _ROUND_DOWN), mechanism.rounds),)


@response_bound(attained_when="the randomizer is binary randomized response", source="warner1965")
def binary_response_lower(mechanism: ShuffledReports, _: Adjacency) -> PairCounts:
    """Lower side by binary randomized response where all others hold 0.

    Formula: the number of ones, Bern(1 - w) + Bin(n - 1, w) against Bin(n, w), w = 1/(E + 1). Numerics:
    see `BinaryResponsePair`.

    >>> two = ShuffledReports(users=2, local_epsilon=np.log(3.0))
    >>> pair = binary_response_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> # (3, 10, 3)/16 against (9, 6, 1)/16
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)
    0.375
    """
    return ((BinaryResponsePair(mechanism.users, mechanism.local_epsilon), mechanism.rounds),)


@bound(
    attained_when="the randomizer is binary randomized response, and the others hold the zeros and ones "
    "with which the two records are told apart most easily, in every round",
    source="warner1965; blackwell1953",
    applies=needs(_may_split, f"{UNKNOWN}, and few data sets of zeros and ones"),
)
def split_response_lower(mechanism: ShuffledReports, _: Adjacency) -> PairCounts:
    """Lower side by binary randomized response where some others hold 0 and some hold 1.

    The data sets and the numerics are those of `distinct_dataset_lower`. At small epsilon and with few
    users about half of the others hold each symbol.

    >>> import math
    >>> three = ShuffledReports(users=3, local_epsilon=math.log(3.0))
    >>> pair = split_response_lower(three, three.adjacency())[0][0]
    >>> round(
    ...     math.exp(pair.log_hockey_stick(np.zeros(1))[0]), 12
    ... )  # the others hold one of each: (1/2)(10/16)
    0.3125
    """
    return ((split_coins(mechanism.users, mechanism.local_epsilon), mechanism.rounds),)


@response_bound(
    attained_when="the randomizer is randomized response with three categories",
    source="kairouz2016",
)
def ternary_response_lower(mechanism: ShuffledReports, _: Adjacency) -> PairCounts:
    """Lower side by ternary randomized response where all others hold the third symbol.

    Formula: counts (a, b, c) of the three reports, see `bounds.shuffle_model.response_pairs`.
    Numerics: see `ThreeCountsPair`, `DifferencePair`.

    >>> two = ShuffledReports(users=2, local_epsilon=np.log(2.0))
    >>> pair = ternary_response_lower(two, Adjacency.REPLACE_ONE)[0][0]
    >>> # 2/16 - 1/16 for 00, 5/16 - 3/16 for 02
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)
    0.1875
    """
    return ((ternary_pair(mechanism.users, mechanism.local_epsilon), mechanism.rounds),)
