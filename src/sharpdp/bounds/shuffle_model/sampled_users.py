"""Bounds on shuffled reports of users who are drawn anew from a population in each round."""

from collections.abc import Callable
from functools import lru_cache, partial

from sharpdp.bounds.registry import Effort, PairCounts, bound, needs
from sharpdp.bounds.shuffle_model.any_randomizer import individual_clones_upper, shared_clones_upper
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.bounds.shuffle_model.known_pairs import ROUGH, drawn_rate
from sharpdp.bounds.shuffle_model.likelihood_ratio_sums import Reports, dominating
from sharpdp.bounds.shuffle_model.response_pairs import BinaryResponsePair, ternary_pair
from sharpdp.bracket import Side
from sharpdp.mechanisms import Adjacency, RandomizedResponse, SampledReports, ShuffledReports
from sharpdp.pairs.pair import Pair, SymmetricPair
from sharpdp.pairs.subsampled import PoissonSampledPair, SubsetSampledPair

__all__ = [
    "drawn_individual_clones_upper",
    "sampled_binary_response_lower",
    "sampled_individual_clones_upper",
    "sampled_shared_clones_upper",
    "sampled_ternary_response_lower",
]

LEAST_SPREAD = 1e-4
"""With smaller losses before the draw than this all subsets are alike, and the simpler pair is sharp."""


def _is_individual(mechanism: SampledReports) -> bool:
    """True if the randomizer may differ from place to place."""
    return mechanism.reports.randomizer == "individual"


def _with_clones(
    clones: Callable[[ShuffledReports, Adjacency], PairCounts],
    mechanism: SampledReports,
    adjacency: Adjacency,
    coarseness: float = 1.0,
) -> PairCounts:
    """The pairs of all users together, with users who are drawn."""
    rate = drawn_rate(mechanism, Side.UPPER)
    pieces = clones(mechanism.reports, adjacency)
    return tuple((_drawn(pair, rate, coarseness), count) for pair, count in pieces)


individual_bound = partial(
    bound,
    holds_when="users are drawn without replacement; each place has its own randomizer",
    applies=needs(_is_individual, "individual randomizers"),
)


@bound(
    holds_when="users are drawn without replacement; those of a round run the same randomizer",
    source="balle2019 Lemma 5.3",
    proof="shuffle-proof",
    applies=needs(lambda mechanism: not _is_individual(mechanism), "one randomizer for all"),
    effort=Effort(
        rough=partial(_with_clones, shared_clones_upper, coarseness=ROUGH),
        yields_to=("sampled_own_blanket_upper", "sampled_blanket_upper"),
    ),
)
def sampled_shared_clones_upper(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side by the clones of `shared_clones_upper`, with users who are drawn.

    Formula: the shuffled reports with the victim have the likelihood ratios mean(X) and mean(Y) to
    those of clones alone, see `Reports.clones`; here they are 1 - rate + rate times those. Numerics:
    certified values joined by chords, about 5e-5 of epsilon too large; see `LEAST_SPREAD`.

    >>> import numpy as np
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> one = ShuffledReports(users=5, local_epsilon=1.0, population=20).parts()[0][0]
    >>> pair = sampled_shared_clones_upper(one, one.adjacency())[0][0]
    >>> round(float(np.exp(pair.losses[-1])), 9) == round(1 + (np.e - 1) / 4, 9)
    True
    """
    return _with_clones(shared_clones_upper, mechanism, adjacency)


@individual_bound(source="balle2018subsampling; feldman2021 Theorem 3.1")
def sampled_individual_clones_upper(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side by the pair of `individual_clones_upper` on a random subset of the users.

    Formula: h'(x) = rate h(1 + (x - 1)/rate) for x >= 1, the mirror image below; h the profile of the
    shuffled reports of the subset. Numerics: see `SubsetSampledPair`.

    >>> import numpy as np
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> alone = ShuffledReports(users=1, local_epsilon=np.log(3.0), randomizer="individual")
    >>> one = SampledReports(alone, population=4)
    >>> pair = sampled_individual_clones_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)  # (3/4 - 1/4) / 4
    0.125
    """
    return tuple(
        (_on_a_subset(pair, drawn_rate(mechanism, Side.UPPER)), count)
        for pair, count in individual_clones_upper(mechanism.reports, adjacency)
    )


@individual_bound(
    source="feldman2021 Theorem 3.1",
    proof="shuffle-proof",
    effort=Effort(rough=partial(_with_clones, individual_clones_upper, coarseness=ROUGH)),
)
def drawn_individual_clones_upper(mechanism: SampledReports, adjacency: Adjacency) -> PairCounts:
    """Upper side by the clones of `individual_clones_upper`, with users who are drawn.

    Formula and numerics: as `sampled_shared_clones_upper`, with the clone rate e^-local_epsilon.
    Sharper than `sampled_individual_clones_upper` if there are many clones.

    >>> import numpy as np
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> alone = ShuffledReports(users=1, local_epsilon=np.log(3.0), randomizer="individual")
    >>> one = SampledReports(alone, population=4)
    >>> pair = drawn_individual_clones_upper(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)  # (3/4 - 1/4) / 4
    0.125
    """
    return _with_clones(individual_clones_upper, mechanism, adjacency)


def _may_be_response(categories: int, mechanism: SampledReports) -> bool:
    """True if the randomizer is, or could be, randomized response with so many categories."""
    randomizer = mechanism.reports.randomizer
    if isinstance(randomizer, RandomizedResponse):
        return randomizer.categories == categories
    return isinstance(randomizer, str)


def _on_a_subset(pair: Pair, rate: float) -> SubsetSampledPair:
    """The pair with its record in the subset only at this rate, whatever takes its place."""
    assert isinstance(pair, SymmetricPair)
    return SubsetSampledPair(pair, rate)


@lru_cache(maxsize=32)
def _drawn(pair: Pair, rate: float, coarseness: float = 1.0) -> Pair:
    """The pair of clones with its user in the round only at this rate, else one more of the others."""
    assert isinstance(pair, ShufflePair)
    clones = Reports.clones(pair.users, pair.local_epsilon, pair.rate, rate)
    if rate == 1.0 or clones.spread < LEAST_SPREAD * rate:
        return _on_a_subset(pair, rate)
    return dominating((clones,), coarseness)


@bound(
    attained_when="the randomizer is binary randomized response",
    source="warner1965; girgis2021 Theorem 2",
    applies=needs(
        partial(_may_be_response, 2), "a randomizer that may be binary randomized response"
    ),
)
def sampled_binary_response_lower(mechanism: SampledReports, _: Adjacency) -> PairCounts:
    """Lower side by binary randomized response where everyone but the victim holds 0.

    Formula: the number of ones, (1 - rate) Q + rate P against Q for the pair of
    `binary_response_lower`, since a user who holds 0 takes the place of an absent victim. Numerics: see
    `BinaryResponsePair`.

    >>> import numpy as np
    >>> from sharpdp.mechanisms import ShuffledReports
    >>> one = SampledReports(ShuffledReports(users=1, local_epsilon=np.log(3.0)), population=4)
    >>> pair = sampled_binary_response_lower(one, Adjacency.REPLACE_ONE)[0][0]
    >>> round(float(np.exp(pair.log_hockey_stick(np.zeros(1))[0])), 9)  # (3/4 - 1/4) / 4
    0.125
    """
    reports = mechanism.reports
    base = BinaryResponsePair(reports.users, reports.local_epsilon)
    return ((PoissonSampledPair(base, drawn_rate(mechanism, Side.LOWER)), reports.rounds),)


@bound(
    attained_when="the randomizer is randomized response with three categories",
    source="kairouz2016",
    proof="shuffle-proof",
    applies=needs(
        partial(_may_be_response, 3), "a randomizer that may be ternary randomized response"
    ),
)
def sampled_ternary_response_lower(mechanism: SampledReports, _: Adjacency) -> PairCounts:
    """Lower side by ternary randomized response where all but the victim hold the third symbol.

    Formula: as `ternary_response_lower`, mixed with the law in which another user takes the victim's
    place; see `bounds.shuffle_model.response_pairs`. Numerics: see `ThreeCountsPair` and
    `DifferencePair`.

    >>> from sharpdp.mechanisms import ShuffledReports
    >>> one = ShuffledReports(users=5, local_epsilon=1.0, population=20).parts()[0][0]
    >>> sampled_ternary_response_lower(one, one.adjacency())[0][0].rate
    0.25
    """
    reports = mechanism.reports
    pair = ternary_pair(reports.users, reports.local_epsilon, drawn_rate(mechanism, Side.LOWER))
    return ((pair, reports.rounds),)
