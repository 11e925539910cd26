"""Bounds on the best of several runs, from the trade-off curve of one of them.

Proofs: docs/proofs/selection.md.

With F the law of one result in the order of scores, and phi the generating function of the number of
repetitions, the result that is released has distribution function phi(F). So its density with respect to
F is phi'(F), which rises with the score from phi'(0) to phi'(1), the mean number of repetitions.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np

from sharpdp.bounds.registry import PairCounts, needs
from sharpdp.bounds.registry import bound as register
from sharpdp.curves.renyi.conversion import epsilon_from
from sharpdp.curves.tradeoff.curve import LARGEST_EPSILON, TradeoffCurve
from sharpdp.curves.tradeoff.losses import to_pair
from sharpdp.curves.tradeoff.polyline import Polyline
from sharpdp.mechanisms import Adjacency, BestOf, Mechanism
from sharpdp.numerics.special import Array
from sharpdp.numerics.tolerances import FORMULA_ERROR
from sharpdp.pairs.finite import AtomicPair, rational_pair
from sharpdp.pairs.known_moments import PairOfKnownMoments

__all__ = [
    "fixed_repetitions_upper",
    "moments",
    "poisson_repetitions_moments_upper",
    "poisson_terms",
    "random_repetitions_moments_upper",
    "random_repetitions_upper",
    "ranked_by_likelihood_lower",
]

_DELTAS = np.concatenate(
    [10.0 ** -np.arange(0.05, 4.0, 0.05), 10.0 ** -np.arange(4.0, 18.1, 0.25), [0.0]]
)
"""Deltas at which one run is asked for epsilon."""

_FEWER_DELTAS = np.concatenate(
    [10.0 ** -np.arange(0.5, 15.0, 0.25), 10.0 ** -np.arange(15.0, 45.0)]
)
"""Deltas at which Renyi divergences are converted; tiny ones, where profiles end, among them."""

MOMENT_ORDERS = 1.0 + np.geomspace(0.05, 1e5, 110)
"""Orders at which one run is asked for its divergence; every choice gives an upper bound."""

_RATES = np.concatenate([np.geomspace(1e-16, 0.02, 60), np.linspace(0.03, 0.97, 48)])
"""False-positive rates at which tests on one run are looked for."""

bound = partial(
    register,
    adjacency=tuple(Adjacency),
    holds_when="candidates are drawn independently for every repetition from a distribution fixed in "
    "advance, a run includes its evaluation, the number of repetitions is drawn as stated, and nothing "
    "is released but the best result; what one run needs holds for neighbors",
    attained_when="the run is the worst of those that are as private as the stated one: what it "
    "releases, and its score, is how likely its result is with the record against without it, and then "
    "coin flips that it releases too; what attains the lower side of one run holds",
    source="koskela2024; papernot2022",
    proof="selection",
)


@bound(
    applies=needs(
        lambda mechanism: isinstance(mechanism.repetitions, str), "a random number of runs"
    )
)
def random_repetitions_upper(mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    """Upper side of the best of a random number of runs, by the privacy profile of one run.

        delta(epsilon + c) <= m delta_1(epsilon),   m = E[K],

    where e^c bounds phi'(u) / phi'(v) over all (u, v) that distribution functions of one run can have at
    the same score: 1 - v <= e^k (1 - u) + delta_1(k) at every k >= 0. For the negative-binomial law with
    shape eta and stopping probability g that is

        c = (eta + 1) log min over k of max(a, b),
        a = 1 + (1 - g) delta_1(k) / g,   b = 1 / (g + (1 - g)(1 - delta_1(k)) e^-k),

    for the Poisson law m times the advantage of one run.

    Numerics: epsilons of one run are upper ends at 137 deltas; what is computed from them is moved up by
    1e-12 of itself.
    """
    epsilons, deltas, advantage = _profile(mechanism.run, adjacency)
    assert mechanism.mean is not None
    if not epsilons.size:  # one run may reveal everything
        return ((AtomicPair.approximate(0.0, 1.0), 1),)
    if mechanism.repetitions == "poisson":
        shift = mechanism.mean * advantage
    else:
        gamma = mechanism.stopping_probability * (1.0 - FORMULA_ERROR)
        at_zero = (1.0 - gamma) * deltas / gamma + 1.0
        at_kink = 1.0 / (gamma + (1.0 - gamma) * (1.0 - deltas) * np.exp(-epsilons))
        ratio = float(np.min(np.maximum(at_zero, at_kink)))
        shift = (1.0 + mechanism._shape) * math.log(ratio)
    moved = (epsilons + shift) * (1.0 + FORMULA_ERROR) + FORMULA_ERROR
    total = np.minimum(mechanism.mean * deltas * (1.0 + FORMULA_ERROR), 1.0)
    return ((_promised(moved, total), 1),)


@bound(
    applies=needs(
        lambda mechanism: mechanism.repetitions in ("geometric", "negative-binomial"),
        "a geometric or negative-binomial number of runs",
    ),
    source="papernot2022 Theorem 2, converted by asoodeh2020 Theorem 3",
    proof="",
    attained_when="",
)
def random_repetitions_moments_upper(mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    """Upper side of the best of a random number of runs, by the Renyi divergences of one run.

    Sharper than the privacy profile at tiny deltas; divergences are those of the theorem.

    Numerics: `moments` at 110 orders, each converted to epsilon at 88 deltas.
    """
    return _by_moments(mechanism, adjacency)


@bound(
    applies=needs(lambda mechanism: mechanism.repetitions == "poisson", "a Poisson number of runs"),
    source="papernot2022 Theorem 6, converted by asoodeh2020 Theorem 3",
    attained_when="",
)
def poisson_repetitions_moments_upper(mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    """Upper side of the best of a Poisson number of runs, by the Renyi divergences of one run.

    Sharper than the privacy profile for many repetitions, and at tiny deltas; divergences are those of
    the theorem.

    Numerics: `moments` at 110 orders, each converted to epsilon at 88 deltas.
    """
    return _by_moments(mechanism, adjacency)


def _by_moments(mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    values = moments(mechanism, adjacency, MOMENT_ORDERS)
    epsilons = np.min(
        epsilon_from(MOMENT_ORDERS[:, None], values[:, None], _FEWER_DELTAS[None, :]), axis=0
    )
    finite = np.isfinite(epsilons)
    pair = _promised(epsilons[finite], _FEWER_DELTAS[finite])
    return _with_divergences(pair, mechanism, adjacency)


def _with_divergences(pair: AtomicPair, mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    """The pair with the divergences of the theorem, unless it reveals everything anyway."""
    if not pair.losses:
        return ((pair, 1),)
    return ((PairOfKnownMoments(pair, SelectionDivergences(mechanism, adjacency)), 1),)


@dataclass(frozen=True)
class SelectionDivergences:
    """Upper bounds on the divergences of the best of several runs, at any orders.

    Those of a random number are `moments`, of which larger orders bound smaller ones too: the term
    log E[K] / (order - 1) falls. Those of a fixed number are the ones of all runs together.
    """

    mechanism: BestOf
    adjacency: Adjacency

    def __call__(self, orders: Array) -> Array:
        """The bounds at some orders."""
        if isinstance(self.mechanism.repetitions, int):
            every = self.mechanism.run * self.mechanism.repetitions
            return _divergences(every, self.adjacency, tuple(orders.tolist()))
        known = moments(self.mechanism, self.adjacency, MOMENT_ORDERS)
        beyond = np.append(np.minimum.accumulate(known[::-1])[::-1], np.inf)
        later = beyond[np.searchsorted(MOMENT_ORDERS, orders)]
        return np.asarray(np.fmin(moments(self.mechanism, self.adjacency, orders), later))


@bound(
    applies=needs(
        lambda mechanism: isinstance(mechanism.repetitions, int), "a fixed number of runs"
    )
)
def fixed_repetitions_upper(mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    """Upper side of the best of a fixed number of runs: all of them, composed.

    Releasing one result is a post-processing of releasing them all. (A random number of repetitions costs
    much less: one that is fixed can be counted on.)

    Numerics: epsilons of the composition are upper ends at 137 deltas, joined by chords.
    """
    assert isinstance(mechanism.repetitions, int)
    epsilons, deltas, _ = _profile(mechanism.run * mechanism.repetitions, adjacency)
    pair = _promised(epsilons, deltas)
    return _with_divergences(pair, mechanism, adjacency)


@bound(
    applies=needs(
        lambda mechanism: mechanism.repetitions == "geometric" or _is_few(mechanism),
        "a geometric number of runs, or 64 at most",
    )
)
def ranked_by_likelihood_lower(mechanism: BestOf, adjacency: Adjacency) -> PairCounts:
    """Lower side of the best of a geometric or a fixed number of runs: the score is the likelihood ratio.

    The upper side holds for every run that is as private as the stated one; this is what the worst of
    them does. Its results are the pieces of a curve through tests that one pair of data sets attains, a
    post-processing of the stated run. With t the chance of a better one, the best one is better with
    probability

        t / (g + (1 - g) t)   for the geometric law,   1 - (1 - t)^k   for k repetitions.

    Numerics: exact fractions until logarithms are taken.
    """
    polyline = _attained(mechanism, adjacency)
    # from the largest likelihood ratio on: (mass with the record, mass without it)
    outcomes = [(polyline.jump, Fraction(0))] + [(drop, width) for width, drop in polyline.segments]
    best_p, best_q = (_best(mechanism, [row[side] for row in outcomes]) for side in (0, 1))
    return ((rational_pair(best_p, best_q), 1),)


def moments(mechanism: BestOf, adjacency: Adjacency, orders: Array) -> Array:
    """Upper bounds on the Renyi divergences of the best of a random number K of runs.

    With D the divergence of one run, g the stopping probability and s the shape of the negative-binomial
    law (1 for the geometric one):

        D(a) + (1 + s) min over b of ((1 - 1/b) D(b) + log(1/g) / b) + log E[K] / (a - 1)

    and with delta the privacy profile of one run, for the Poisson law:

        log(1 + E[K] e^((a - 1) E[K] delta(log(1 + 1 / (a - 1)))) (e^((a - 1) D(a)) - 1)) / (a - 1)

    (Published for E[K] >= 1: D(a) + E[K] delta(...) + log E[K] / (a - 1), which is larger.)

    Numerics: the minimum is over the given orders and `MOMENT_ORDERS`; upper ends of D and delta, moved
    up by 1e-12 of all terms.
    """
    assert mechanism.mean is not None
    from_mean = math.log(mechanism.mean) / (orders - 1.0)
    if mechanism.repetitions == "poisson":
        own, more = poisson_terms(mechanism, adjacency, orders)
        sizes = own + more + np.abs(from_mean)
        with np.errstate(divide="ignore"):
            # log(1 - e^-((a - 1) D)), 0 if D is large
            lack = np.log(-np.expm1(-(orders - 1.0) * own))
        exponent = (orders - 1.0) * (own + more + from_mean + FORMULA_ERROR * sizes)
        exponent = exponent + lack + FORMULA_ERROR
        return np.asarray(np.logaddexp(0.0, exponent) / (orders - 1.0) * (1.0 + FORMULA_ERROR))
    every = np.concatenate([orders, MOMENT_ORDERS])
    divergences = _divergences(mechanism.run, adjacency, tuple(every.tolist()))
    own = divergences[: orders.size]
    gamma = mechanism.stopping_probability * (1.0 - FORMULA_ERROR)
    shift = np.min((1.0 - 1.0 / every) * divergences - math.log(gamma) / every)
    total = own + (1.0 + mechanism._shape) * shift + from_mean
    return np.asarray(total * (1.0 + FORMULA_ERROR))


def poisson_terms(mechanism: BestOf, adjacency: Adjacency, orders: Array) -> tuple[Array, Array]:
    """D(a) of one run, and E[K] delta(log(1 + 1 / (a - 1))); upper ends."""
    assert mechanism.mean is not None
    # a threshold below that of the theorem has a larger delta
    thresholds = np.log1p(1.0 / (orders - 1.0)) * (1.0 - FORMULA_ERROR)
    curve = TradeoffCurve.of(mechanism.run, adjacency=adjacency)
    more = mechanism.mean * np.asarray(curve.delta(epsilon=thresholds).upper)
    return _divergences(mechanism.run, adjacency, tuple(orders.tolist())), more


@lru_cache(maxsize=16)
def _divergences(run: Mechanism, adjacency: Adjacency, orders: tuple[float, ...]) -> Array:
    """Upper ends of the Renyi divergences of one run."""
    guarantee = TradeoffCurve.of(run, adjacency=adjacency).oracle.guarantee
    assert guarantee is not None
    return np.asarray(guarantee.renyi(order=np.array(orders)).upper)


def _best(mechanism: BestOf, masses: list[Fraction]) -> list[Fraction]:
    """The masses of the best result, from those of one result, the best ones first."""
    chances = [Fraction(0)]
    for mass in masses:
        chances.append(chances[-1] + mass)
    if isinstance(mechanism.repetitions, int):
        times = mechanism.repetitions
        better = [1 - (1 - chance) ** times for chance in chances]
    else:
        gamma = Fraction(mechanism.stopping_probability)
        better = [chance / (gamma + (1 - gamma) * chance) for chance in chances]
    return [after - before for before, after in itertools.pairwise(better)]


def _is_few(mechanism: BestOf) -> bool:
    """Whether powers of fractions stay short."""
    return isinstance(mechanism.repetitions, int) and mechanism.repetitions <= 64


@lru_cache(maxsize=16)
def _attained(mechanism: BestOf, adjacency: Adjacency) -> Polyline:
    """A trade-off function that one pair of data sets attains or is below of: the chords of some tests.

    Answers of a guarantee may be about different pairs, and either direction: here it is one of them.
    """
    guarantee = TradeoffCurve.of(mechanism.run, adjacency=adjacency).oracle.guarantee
    assert guarantee is not None
    best = np.zeros(_RATES.size)
    for derivation in guarantee.lower_derivations:
        forth = derivation.composition
        for run in (forth, forth.reverse()):
            found = np.maximum(run.true_positive_rates(_RATES, guarantee.relative_width)[0], _RATES)
            if np.sum(np.log(found)) > np.sum(np.log(np.maximum(best, _RATES))):
                best = found
    points = zip(_RATES.tolist(), np.maximum(best, _RATES).tolist(), strict=True)
    return Polyline.from_points((Fraction(fpr), 1 - Fraction(tpr)) for fpr, tpr in points)


def _promised(epsilons: Array, deltas: Array) -> AtomicPair:
    """The pair of the worst mechanism that keeps all these promises; one that reveals all without any."""
    # a curve has no points beyond; to leave promises out is safe
    useful = (deltas < 1.0) & (epsilons <= LARGEST_EPSILON)
    if not useful.any():
        return to_pair(Polyline.revealed())
    curve = TradeoffCurve.from_points(
        epsilons=tuple(epsilons[useful].tolist()), deltas=tuple(deltas[useful].tolist())
    )
    return to_pair(curve.lower_polyline)


@lru_cache(maxsize=16)
def _profile(run: Mechanism, adjacency: Adjacency) -> tuple[Array, Array, float]:
    """Upper ends of epsilon at some deltas, where finite; and the advantage."""
    curve = TradeoffCurve.of(run, adjacency=adjacency)
    epsilons = np.asarray(curve.epsilon(delta=_DELTAS).upper)
    finite = np.isfinite(epsilons)
    return epsilons[finite], _DELTAS[finite], float(curve.advantage().upper)
