"""Pairs whose index is released: sums of the values of their components, in balls."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from sharpdp.pairs.pair import GaussianPair, LaplacePair, Pair, epsilon_of, log_delta_of
from sharpdp.pairs.released_index import LabeledMixturePair, ReleasedGaussians, released
from sharpdp.pairs.subsampled import PoissonSampledPair
from sharpdp.profile.composition import Composition
from sharpdp.profile.discretize import first_look, lower, upper
from sharpdp.profile.renyi import log_moment
from tests.numerics import exact
from tests.reference.balls import precision

SMALL = (LaplacePair(0.5), GaussianPair(0.7), PoissonSampledPair(GaussianPair(1.3), 0.2))
SHARES = (0.25, 0.5, 0.25)
THRESHOLDS = np.array(
    [-9.0, -1.3, -0.5, -0.2, -1e-9, 0.0, 1e-9, 0.01, 0.3, 0.5, 1.0, 4.0, 9.0, 20.0]
)


def many(rng: np.random.Generator, count: int, still: float) -> ReleasedGaussians:
    shifts = np.sort(np.exp(rng.uniform(np.log(1e-4), np.log(3.0), count)))
    weights = np.exp(rng.uniform(-60.0, 0.0, count))
    weights *= (1.0 - still) / weights.sum()
    return ReleasedGaussians(tuple(shifts.tolist()), tuple(weights.tolist()), still)


def pieces(pair: LabeledMixturePair | ReleasedGaussians) -> list[tuple[Pair, float]]:
    if isinstance(pair, LabeledMixturePair):
        return list(zip(pair.pairs, pair.weights, strict=True))
    return [(GaussianPair(mu), w) for mu, w in zip(pair.shifts, pair.weights, strict=True)]


@pytest.mark.parametrize(
    "pair",
    [
        LabeledMixturePair(SMALL, SHARES),
        LabeledMixturePair(SMALL, SHARES).reverse(),
        many(np.random.default_rng(1), 40, 0.0),
        many(np.random.default_rng(2), 40, 0.25),
    ],
    ids=["mixed", "reversed", "gaussians", "still"],
)
def test_values_are_the_weighted_sums_of_their_components(
    pair: LabeledMixturePair | ReleasedGaussians,
) -> None:
    still = getattr(pair, "still", 0.0)
    kinds = {"log_hockey_stick": exact.otm, "log_tail_q": exact.tail_q, "log_tail_p": exact.tail_p}
    with precision(exact.BITS):
        for name, truth in kinds.items():
            got = getattr(pair, name)(THRESHOLDS)
            for k, value in zip(THRESHOLDS, got, strict=True):
                sure = sum((arb(w) * truth(one, arb(k)) for one, w in pieces(pair)), arb(0))
                if k == 0.0 and name != "log_hockey_stick":
                    sure += arb(still)
                if sure > arb(-740).exp():
                    assert abs(sure.log() - arb(value)) <= pair.accuracy, (name, k)


def test_one_component_is_itself_and_gaussians_are_recognized() -> None:
    assert released([GaussianPair(1.0), LaplacePair(1.0)], [1.0, 0.0]) == GaussianPair(1.0)
    together = released(
        [GaussianPair(2.0), GaussianPair(1.0), GaussianPair(2.0)], [0.25, 0.5, 0.25]
    )
    assert together == ReleasedGaussians((1.0, 2.0), (0.5, 0.5))
    assert isinstance(released(SMALL, SHARES), LabeledMixturePair)


def test_symmetric_only_if_all_are() -> None:
    assert LabeledMixturePair((LaplacePair(0.5), GaussianPair(0.7)), (0.5, 0.5)).symmetric
    assert not LabeledMixturePair(SMALL, SHARES).symmetric
    low, high = LabeledMixturePair(SMALL, SHARES).support
    assert (low, high) == (-np.inf, np.inf)
    assert LabeledMixturePair((LaplacePair(0.5), LaplacePair(1.5)), (0.5, 0.5)).atoms == (
        -1.5,
        -0.5,
        0.5,
        1.5,
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6, 2.0])
def test_discretized_sides_enclose_the_profile(epsilon: float) -> None:
    for pair in (LabeledMixturePair(SMALL, SHARES), many(np.random.default_rng(3), 30, 0.5)):
        nodes = first_look(pair, -40.0)
        low, high = log_delta_of(pair, epsilon)
        assert np.log(lower(nodes).delta(epsilon)) <= high + 1e-9
        assert np.log(upper(nodes).delta(epsilon)) >= low - 1e-9


def test_a_product_of_released_pairs_is_the_released_product() -> None:
    """(w_i, mu_i) twice is the mixture over pairs (i, j) of Gaussians at distance |(mu_i, mu_j)|."""
    shifts, weights = (0.4, 1.1), (0.3, 0.7)
    twice = Composition(((ReleasedGaussians(shifts, weights), 2),))
    product = ReleasedGaussians(
        (shifts[0] * 2**0.5, (shifts[0] ** 2 + shifts[1] ** 2) ** 0.5, shifts[1] * 2**0.5),
        (weights[0] ** 2, 2 * weights[0] * weights[1], weights[1] ** 2),
    )
    for epsilon in (0.0, 0.5, 3.0):
        low, high = twice.log_delta(epsilon, 1e-5)
        exact_low, exact_high = log_delta_of(product, epsilon)
        assert low <= exact_high + 1e-12
        assert high >= exact_low - 1e-12
        assert high - low <= 1e-4
    low, high = twice.epsilon(float(np.log(1e-6)), 1e-5)
    exact_low, exact_high = epsilon_of(product, float(np.log(1e-6)))
    assert low <= exact_high * (1.0 + 1e-12)
    assert exact_low <= high * (1.0 + 1e-12)


@pytest.mark.parametrize("order", [1.1, 2.0, 9.0])
def test_renyi_divergences_are_those_of_the_sum(order: float) -> None:
    pair = ReleasedGaussians((0.4, 1.1), (0.3, 0.6), still=0.1)
    moment = arb(0.1)
    for mu, w in zip(pair.shifts, pair.weights, strict=True):
        moment += arb(w) * (arb(order) * (arb(order) - 1) * arb(mu) ** 2 / 2).exp()
    low, high = log_moment(pair, order, 1e-6)
    # the three weights are doubles, whose sum is one up to a unit
    assert low <= float(moment.log()) + 1e-15
    assert high >= float(moment.log()) - 1e-15
    assert high - low <= 1e-10 * high
