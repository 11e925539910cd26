"""Bounds on shuffled reports of a known randomizer by users who are drawn anew in each round.

Let g be the rate at which a user takes part, and mean(X), mean(Y) the likelihood ratios of shuffled
reports in `own_blanket_upper` or `fixed_others_lower`. With users who are drawn they become
1 - g + g mean(X) and 1 - g + g mean(Y), on both sides. From above: who is in the place of an absent
victim is not known, and hides in the same blanket (docs/shuffle-proof.md). From below: everyone but the
victim holds one record, so that one of those takes its place.
"""

from functools import partial

from sharpdp.bounds.registry import PairCounts
from sharpdp.bounds.registry import bound as register
from sharpdp.bounds.shuffle_model.known_pairs import (
    ROUGH,
    drawn_rate,
    every_dataset,
    fixed_others,
    has_few_datasets,
    has_known_rows,
    has_own_blanket,
    own_blanket,
    sure_others,
)
from sharpdp.bracket import Side
from sharpdp.mechanisms import Adjacency, RandomizedResponse, SampledReports

__all__ = [
    "sampled_every_dataset_upper",
    "sampled_fixed_others_lower",
    "sampled_own_blanket_upper",
    "sampled_sure_others_lower",
]


bound = partial(register, of=SampledReports, adjacency=Adjacency.REPLACE_ONE, proof="shuffle-proof")


def _others_matter(mechanism: SampledReports) -> bool:
    """Whether the rows are known, and are not those that have an exact pair of their own."""
    randomizer = mechanism.reports.randomizer
    exact = isinstance(randomizer, RandomizedResponse) and randomizer.categories <= 3
    return has_known_rows(mechanism.reports) and not exact


@bound(
    holds_when="users are drawn without replacement; those of a round run the given randomizer",
    source="balle2019 Lemma 5.3",
    applies=lambda mechanism: has_own_blanket(mechanism.reports),
    rough=lambda mechanism, _: _drawn_blanket(mechanism, ROUGH),
)
def sampled_own_blanket_upper(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side by the pair of `own_blanket_upper`, with users who are drawn.

    Formula: h(x) <= E[((1 - rate)(1 - x) + rate mean(B_i (X_i - x Y_i)))_+]. Numerics: certified values
    of h joined by chords.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> four = RandomizedResponse(local_epsilon=1.0, categories=4)
    >>> one = ShuffledReports(users=5, randomizer=four, population=20).parts()[0][0]
    >>> pair = sampled_own_blanket_upper(one, one.adjacency())[0][0]
    >>> round(pair.losses[-1], 9) == round(math.log(1 + (math.e - 1) / 4), 9)
    True
    """
    return _drawn_blanket(mechanism)


def _drawn_blanket(mechanism: SampledReports, coarseness: float = 1.0) -> PairCounts:
    """The blanket with users who are drawn."""
    reports, rate = mechanism.reports, drawn_rate(mechanism, Side.UPPER)
    return ((own_blanket(reports, rate, coarseness), reports.rounds),)


@bound(
    holds_when="users are drawn without replacement; those of a round run the given randomizer",
    source="blackwell1953",
    applies=lambda mechanism: has_few_datasets(mechanism.reports),
)
def sampled_every_dataset_upper(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side for few users: the worst of all that could have been drawn in the victim's absence.

    Formula: (1 - rate) [T] + rate mean_j [T - j + x] against the same with y, where [.] is the law of
    the counts, T any users without the victim and j one of them; the largest profile over all T, x, y.
    Numerics: masses are rounded to the safe side, by less than 1e-8 of themselves.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> coin = RandomizedResponse(local_epsilon=1.0)
    >>> one = ShuffledReports(users=1, randomizer=coin, population=4).parts()[0][0]
    >>> pair = sampled_every_dataset_upper(one, one.adjacency())[0][0]
    >>> round(pair.losses[-1], 9) == round(math.log(1 + (math.e - 1) / 4), 9)
    True
    """
    reports = mechanism.reports
    return ((every_dataset(reports, drawn_rate(mechanism, Side.UPPER)), reports.rounds),)


@bound(
    attained_when="one user holds either of two records and all others hold a third, in every round",
    source="balle2019 Section 5; girgis2021 Theorem 2",
    proof="",
    applies=_others_matter,
)
def sampled_fixed_others_lower(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side by the two data sets of `fixed_others_lower`, with users who are drawn.

    Formula: (1 - rate) R + rate P against (1 - rate) R + rate Q, where R is the law without the victim.
    Numerics: see `dominated`.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> four = RandomizedResponse(local_epsilon=1.0, categories=4)
    >>> one = ShuffledReports(users=1, randomizer=four, population=4).parts()[0][0]
    >>> pair = sampled_fixed_others_lower(one, one.adjacency())[0][0]
    >>> round(pair.losses[-1], 9) == round(math.log(1 + (math.e - 1) / 4), 9)
    True
    """
    reports = mechanism.reports
    return ((fixed_others(reports, drawn_rate(mechanism, Side.LOWER)), reports.rounds),)


def _sure_others_matter(mechanism: SampledReports) -> bool:
    """Whether the rows are known, and others who hold what the victim may hold are not all there is."""
    randomizer = mechanism.reports.randomizer
    binary = isinstance(randomizer, RandomizedResponse) and randomizer.categories == 2
    return has_known_rows(mechanism.reports) and not binary


@bound(
    attained_when="one user holds either of two records and all others hold the one that makes the "
    "largest loss most likely, in every round",
    source="balle2019 Section 5; girgis2021 Theorem 2",
    proof="",
    applies=_sure_others_matter,
)
def sampled_sure_others_lower(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Lower side by the two data sets of `sure_others_lower`, with users who are drawn.

    Formula: as `sampled_fixed_others_lower`. Numerics: see `dominated`.

    >>> import math
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> three = RandomizedResponse(local_epsilon=1.0, categories=3)
    >>> one = ShuffledReports(users=1, randomizer=three, population=4).parts()[0][0]
    >>> pair = sampled_sure_others_lower(one, one.adjacency())[0][0]
    >>> round(pair.losses[-1], 9) == round(-math.log(0.75 + 0.25 / math.e), 9)
    True
    """
    reports = mechanism.reports
    return ((sure_others(reports, drawn_rate(mechanism, Side.LOWER)), reports.rounds),)
