"""Bounds on shuffled reports of users who are drawn anew from a population in each round."""

from sharpdp.bounds.registry import Pieces, bound
from sharpdp.bounds.shuffle_model import individual_clones_upper, shared_clones_upper
from sharpdp.bracket import Rigor, Side
from sharpdp.curves.mirrored import MirroredPair
from sharpdp.curves.response import BinaryResponsePair
from sharpdp.curves.sampled import PoissonSampledPair, SubsetSampledPair
from sharpdp.curves.ternary import ternary_pair
from sharpdp.mechanisms import Adjacency, RandomizedResponse, SampledReports

__all__ = [
    "sampled_binary_response_lower",
    "sampled_individual_clones_upper",
    "sampled_shared_clones_upper",
    "sampled_ternary_response_lower",
]


@bound(
    of=SampledReports,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="users are drawn without replacement; those of a round run the same randomizer",
    source="balle2018subsampling; docs/shuffle-proof with balle2019 Lemma 5.3",
    applies=lambda mechanism: mechanism.reports.randomizer != "individual",
)
def sampled_shared_clones_upper(mechanism: SampledReports, adjacency: Adjacency) -> Pieces:
    """Upper side by the pair of `shared_clones_upper` on a random subset of the users.

    Formula: h'(x) = rate h(1 + (x - 1)/rate) for x >= 1, the mirror image below; h the profile of the
    shuffled reports of the subset. Holds when: the subset is uniform and not revealed, and all of its
    users run the same randomizer. Numerics: see `SubsetSampledPair`. Source: balle2018subsampling for the
    subset, docs/shuffle-proof.md for the shuffle.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> one = ShuffledReports(users=5, local_epsilon=1.0, population=20).parts()[0][0]
    >>> sampled_shared_clones_upper(one, one.adjacency())[0][0].rate
    0.25
    """
    return _on_a_subset(shared_clones_upper(mechanism.reports, adjacency), mechanism.sample_rate)


@bound(
    of=SampledReports,
    sides=(Side.UPPER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="users are drawn without replacement; each place has its own randomizer",
    source="balle2018subsampling; feldman2021 Theorem 3.1",
    applies=lambda mechanism: mechanism.reports.randomizer == "individual",
)
def sampled_individual_clones_upper(mechanism: SampledReports, adjacency: Adjacency) -> Pieces:
    """Upper side by the pair of `individual_clones_upper` on a random subset of the users.

    Formula and numerics: as `sampled_shared_clones_upper`, with the clone rate e^-local_epsilon.
    Holds when: the subset is uniform and not revealed; randomizers may differ from place to place.
    Source: balle2018subsampling, feldman2021.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> each = ShuffledReports(users=5, local_epsilon=1.0, population=20, randomizer="individual")
    >>> one = each.parts()[0][0]
    >>> sampled_individual_clones_upper(one, one.adjacency())[0][1]
    1
    """
    pieces = individual_clones_upper(mechanism.reports, adjacency)
    return _on_a_subset(pieces, mechanism.sample_rate)


def _may_be_response(mechanism: SampledReports, categories: int) -> bool:
    """Whether the randomizer is randomized response with so many categories, or could be."""
    randomizer = mechanism.reports.randomizer
    if isinstance(randomizer, RandomizedResponse):
        return randomizer.categories == categories
    return isinstance(randomizer, str)


def _on_a_subset(pieces: Pieces, rate: float) -> Pieces:
    """Every pair with its record in the subset only at this rate."""
    sampled = []
    for pair, count in pieces:
        assert isinstance(pair, MirroredPair)
        sampled.append((SubsetSampledPair(pair, rate), count))
    return tuple(sampled)


@bound(
    of=SampledReports,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="the randomizer may be binary randomized response",
    source="warner1965; girgis2021 Theorem 2",
    applies=lambda mechanism: _may_be_response(mechanism, 2),
)
def sampled_binary_response_lower(mechanism: SampledReports, _: Adjacency) -> Pieces:
    """Lower side by binary randomized response where everyone but the victim holds 0.

    Formula: the number of ones, (1 - rate) Q + rate P against Q for the pair of
    `binary_response_lower`, since a user who holds 0 takes the place of an absent victim. Holds when:
    the randomizer is that, or nothing but its budget is known. Numerics: see `BinaryResponsePair`.
    Source: the law of girgis2021 Theorem 2.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> one = ShuffledReports(users=5, local_epsilon=1.0, population=20).parts()[0][0]
    >>> sampled_binary_response_lower(one, one.adjacency())[0][1]
    1
    """
    reports = mechanism.reports
    base = BinaryResponsePair(reports.users, reports.local_epsilon)
    return ((PoissonSampledPair(base, mechanism.sample_rate), reports.rounds),)


@bound(
    of=SampledReports,
    sides=(Side.LOWER,),
    rigor=Rigor.CERTIFIED,
    adjacency=(Adjacency.REPLACE_ONE,),
    holds_when="the randomizer may be randomized response with three categories",
    source="kairouz2016; docs/shuffle-proof",
    applies=lambda mechanism: _may_be_response(mechanism, 3),
)
def sampled_ternary_response_lower(mechanism: SampledReports, _: Adjacency) -> Pieces:
    """Lower side by ternary randomized response where all but the victim hold the third symbol.

    Formula: as `ternary_response_lower`, mixed with the law in which another user takes the victim's
    place; see `curves.ternary`. Holds when: the randomizer is that, or nothing but its budget is known.
    Numerics: see `ThreeCountsPair` and `DifferencePair`. Source: the randomizer is that of kairouz2016.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> one = ShuffledReports(users=5, local_epsilon=1.0, population=20).parts()[0][0]
    >>> sampled_ternary_response_lower(one, one.adjacency())[0][0].rate
    0.25
    """
    reports = mechanism.reports
    pair = ternary_pair(reports.users, reports.local_epsilon, mechanism.sample_rate)
    return ((pair, reports.rounds),)
