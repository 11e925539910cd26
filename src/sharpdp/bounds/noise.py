"""Bounds on mechanisms given by their noise, by a promise, or by a pair of distributions.

All of them are tight: one pair of inputs attains the pair (P, Q) that dominates every other,
and does so in every round, so both sides compose.
"""

from collections.abc import Mapping
from functools import lru_cache

from sharpdp.bounds.registry import REAL_NUMBERS, PairCounts, bound
from sharpdp.bracket import Side
from sharpdp.mechanisms import (
    Adjacency,
    ApproximateDP,
    FinitePair,
    Gaussian,
    Laplace,
    ProfileMechanism,
    PureDP,
    RandomizedResponse,
)
from sharpdp.pairs.finite import AtomicPair
from sharpdp.pairs.from_profile import profile_pairs
from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair

__all__ = [
    "approximate_dp_tight",
    "finite_pair_tight",
    "gaussian_tight",
    "laplace_tight",
    "profile_lower",
    "profile_upper",
    "pure_dp_tight",
    "randomized_response_tight",
]


@bound(
    holds_when=f"the l2 sensitivity is at most 1 between neighbors; {REAL_NUMBERS}",
    attained_when="some neighbors differ by an l2 distance of 1",
    source="dong2022 Theorem 2.7; balle2018 Theorem 8",
)
def gaussian_tight(mechanism: Gaussian, adjacency: Adjacency) -> PairCounts:
    """Both sides of Gaussian noise: N(mu, 1) against N(0, 1), mu = 1 / noise_multiplier.

    Smaller moves, and moves in more coordinates, are the same pair with a smaller mu.

    Numerics: mu is the nearest double, off by at most 2^-53 of itself.

    >>> gaussian_tight(Gaussian(2.0), Adjacency.NEIGHBORS)
    ((GaussianPair(mu=0.5), 1),)
    """
    return ((GaussianPair(1 / mechanism.noise_multiplier), 1),)


@bound(
    holds_when=f"the l1 sensitivity is at most 1 between neighbors; {REAL_NUMBERS}",
    attained_when="some neighbors differ by an l1 distance of 1 in one coordinate",
    source="balle2018subsampling Theorem 3; dong2022 Theorem 2.14 for several coordinates",
)
def laplace_tight(mechanism: Laplace, adjacency: Adjacency) -> PairCounts:
    """Both sides of Laplace noise: two Laplace distributions of scale b, centers 1 apart.

        delta(k) = 1 - e^{(k - 1/b)/2}   for |k| <= 1/b

    A move in several coordinates is a walk along them, one at a time. The trade-off functions T_a of
    translates of log-concave noise satisfy T_a(1 - T_b) = T_{a+b}, so the walk is no easier to detect
    than one step of the same total length.

    Numerics: 1/b is the nearest double, off by at most 2^-53 of itself.

    >>> laplace_tight(Laplace(2.0), Adjacency.NEIGHBORS)
    ((LaplacePair(epsilon=0.5), 1),)
    """
    return ((LaplacePair(1 / mechanism.scale), 1),)


@bound(
    holds_when="one user's record changes from one category to another",
    attained_when="any two categories are compared, in every round",
    source="warner1965; kairouz2016",
)
def randomized_response_tight(mechanism: RandomizedResponse, adjacency: Adjacency) -> PairCounts:
    """Both sides of k-ary randomized response: its reports for two different records.

    The loss is +local_epsilon if the report is the one record, -local_epsilon if it is the
    other, and 0 for the k - 2 reports that are neither. Every two records give this same pair.

    Numerics: masses are kept as logarithms; none of them underflows.

    >>> pieces = randomized_response_tight(
    ...     RandomizedResponse(local_epsilon=1.0, categories=3), Adjacency.REPLACE_ONE
    ... )
    >>> pieces[0][0].losses
    (-1.0, 0.0, 1.0)
    """
    if mechanism.local_epsilon == 0:
        return _nothing_learned()
    return ((AtomicPair.randomized_response(mechanism.local_epsilon, mechanism.categories), 1),)


@bound(
    holds_when="the mechanism is epsilon-DP for neighbors",
    attained_when="it is binary randomized response, the worst epsilon-DP mechanism",
    source="kairouz2015 Theorem 3.3",
)
def pure_dp_tight(mechanism: PureDP, adjacency: Adjacency) -> PairCounts:
    """Both sides of "any epsilon-DP mechanism": binary randomized response, the worst of them.

    Every epsilon-DP mechanism is a randomized function of binary randomized response with the
    same epsilon, which is epsilon-DP itself. So the upper side holds for each of them and the
    lower side says what the worst of them does, not what a particular one does.

    The mechanism may be chosen after seeing earlier results.

    Numerics: masses are kept as logarithms; none of them underflows.

    >>> pure_dp_tight(PureDP(1.0), Adjacency.NEIGHBORS)[0][0].losses
    (-1.0, 1.0)
    """
    if mechanism.epsilon == 0:
        return _nothing_learned()
    return ((AtomicPair.pure(mechanism.epsilon), 1),)


@bound(
    holds_when="the mechanism is (epsilon, delta)-DP for neighbors",
    attained_when="it is the worst (epsilon, delta)-DP mechanism, which reveals its input with "
    "probability delta",
    source="kairouz2015 Theorem 3.3",
)
def approximate_dp_tight(mechanism: ApproximateDP, adjacency: Adjacency) -> PairCounts:
    """Both sides of "any (epsilon, delta)-DP mechanism": the worst of them.

    With probability delta it reveals its input, otherwise it is binary randomized response.
    Every (epsilon, delta)-DP mechanism is a randomized function of it. So the upper side holds
    for each of them and the lower side says what the worst of them does.

    The mechanism may be chosen after seeing earlier results.

    Numerics: 1 - delta enters as a logarithm, without cancellation.

    >>> approximate_dp_tight(ApproximateDP(epsilon=1, delta=0.25), Adjacency.NEIGHBORS)[0][
    ...     0
    ... ].infinite_p
    0.25
    """
    epsilon, delta = mechanism.epsilon, mechanism.delta
    if delta == 0:
        return ((AtomicPair.pure(epsilon), 1),) if epsilon else _nothing_learned()
    return ((AtomicPair.approximate(epsilon, delta), 1),)


@bound(
    holds_when="the two pmfs are those of the mechanism on any two neighbors, or dominate them",
    attained_when="these two inputs occur, in every round",
    source="blackwell1953",
)
def finite_pair_tight(mechanism: FinitePair, adjacency: Adjacency) -> PairCounts:
    """Both sides of two pmfs on the same points: the pair itself, p with the record.

    The upper side also holds if the two pmfs dominate the laws of the result.

    Numerics: the masses are the given doubles, divided by their sum if that is not 1.

    >>> pair = finite_pair_tight(FinitePair(p=[0.5, 0.5], q=[1.0, 0.0]), Adjacency.NEIGHBORS)
    >>> pair[0][0].infinite_p
    0.5
    """
    return ((AtomicPair.from_pmfs(mechanism.p, mechanism.q), 1),)


@bound(
    holds_when="no pair of neighbors has a larger profile than the given one, which is convex in "
    "e^epsilon and right to a relative 1e-9",
    source="blackwell1953; doroshenko2022",
)
def profile_upper(mechanism: ProfileMechanism, adjacency: Adjacency) -> PairCounts:
    """Upper side of a privacy profile: chords of it in e^epsilon.

    A function delta(epsilon) that is convex in e^epsilon, at most 1 and at least (1 - e^epsilon)_+
    is the profile of a pair, and of one only, up to equivalence.

    The given values may be off by a relative 1e-9 above the value they fall to, at an epsilon that is
    off by at most 2e-15 (1 + epsilon).

    Numerics: values are moved up by what is believed of them. Where there are none, everything that is
    left counts as revealed.

    >>> half = ProfileMechanism(profile=lambda epsilon: 0.5 + 0 * epsilon, name="half")
    >>> round(profile_upper(half, Adjacency.NEIGHBORS)[0][0].infinite_p, 6)
    0.5
    """
    return ((_profile_pairs(mechanism)[Side.UPPER], 1),)


@bound(
    attained_when="the given profile is that of one pair of neighbors, right to a relative 1e-9",
    source="blackwell1953",
)
def profile_lower(mechanism: ProfileMechanism, adjacency: Adjacency) -> PairCounts:
    """Lower side of a privacy profile: extended chords of it in e^epsilon.

    Numerics: values are moved down by what is believed of them, slopes come from bounds on values.
    Where there are no values, nothing is counted.

    >>> half = ProfileMechanism(profile=lambda epsilon: 0.5 + 0 * epsilon, name="half")
    >>> round(profile_lower(half, Adjacency.NEIGHBORS)[0][0].infinite_p, 6)
    0.5
    """
    return ((_profile_pairs(mechanism)[Side.LOWER], 1),)


@lru_cache(maxsize=16)
def _profile_pairs(mechanism: ProfileMechanism) -> Mapping[Side, Pair]:
    return profile_pairs(mechanism.profile, mechanism.reverse, mechanism.largest_loss)


def _nothing_learned() -> PairCounts:
    """One outcome, of the same probability for both inputs."""
    return ((AtomicPair.from_pmfs([1.0], [1.0]), 1),)
