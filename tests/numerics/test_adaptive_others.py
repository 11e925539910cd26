"""Others that react to results: probabilities of the attacks, golden values and certified bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.bounds.registry import bounds_for
from sharpdp.bounds.shuffled_batches.lower_ratio_tests import ShuffledEpoch
from sharpdp.bounds.shuffled_batches.lower_reacting import AdaptiveOthers
from sharpdp.bounds.shuffled_batches.theorems import (
    early_reaction_lower,
    late_reaction_lower,
    ratio_test_lower,
)
from sharpdp.pairs.pair import Pair
from sharpdp.profile.composition import Composition
from tests.reference.shuffled_epoch import Adversary, divergences

pytestmark = pytest.mark.underflows

X = 1.3


def value(order: ShuffledEpoch, x: float) -> float:
    """The largest P[E] - x Q[E] of the policy for x."""
    attacks = AdaptiveOthers(order, math.log(x)).attacks()
    return float(np.max(attacks.p - x * attacks.q))


def test_two_batches_reach_the_counterexample_to_conjecture_3_2() -> None:
    """0.286713 by two-dimensional integrals; others that never react reach 0.283993."""
    assert 0.2863 < value(ShuffledEpoch(1.0, 2), X) < 0.286713


def profile(pair: Pair, x: float) -> float:
    return float(pair.log_hockey_stick(np.array([math.log(x)]))[0])


def test_one_batch_is_two_normal_distributions() -> None:
    """Nothing to react to: H_x of N(1, 1) and N(0, 1), and with a record that is left out at times."""
    exact = ndtr(0.5 - math.log(X)) - X * ndtr(-0.5 - math.log(X))
    assert exact * (1.0 - 3e-4) < value(ShuffledEpoch(1.0, 1), X) < exact
    attacks = AdaptiveOthers(ShuffledEpoch(1.0, 1, 0.5), 0.0).attacks()
    assert float(np.max(attacks.p - attacks.q)) == pytest.approx(
        0.5 * (2.0 * ndtr(0.5) - 1.0), rel=3e-4
    )


def test_events_and_complements_add_up() -> None:
    attacks = AdaptiveOthers(ShuffledEpoch(2.0, 20, 0.1), 0.05).attacks()
    assert attacks.p + attacks.miss_p == pytest.approx(1.0, abs=1e-9)
    assert attacks.q + attacks.miss_q == pytest.approx(1.0, abs=1e-9)
    assert np.all(np.diff(attacks.p) <= 0.0)


def test_two_batches_with_a_vacancy_are_attained_by_thresholds() -> None:
    """One of two others is left out: no policy with one threshold, on a grid, is better by much."""
    order = ShuffledEpoch(1.0, 2, 1.0 / 3.0)
    found, best = value(order, X), 0.0
    others = np.array([[[1.0], [-1.0], [-1.0]]])
    both = np.concatenate([others, np.array([[[1.0], [1.0], [1.0]]])])
    null = (np.zeros((1, 1)), np.zeros((2, 1)))
    for threshold in np.linspace(0.0, 1.5, 7):
        adversary = Adversary((others, both), null, np.array([threshold]))
        best = max(best, divergences(adversary, (1, 1), 1.0, np.array([X]), 401)[0, 0])
    assert found == pytest.approx(best, rel=4e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "delta"), [(2.0, 1e-6), (4.0, 1e-5)])
def test_one_epoch_of_few_batches_is_known_to_a_percent(noise: float, delta: float) -> None:
    scheme = dp.ShuffledBatches(dataset_size=10_050, batch_size=100, epochs=1, drop_last=True)
    run = dp.DPSGD(scheme, noise_multiplier=noise)
    answer = dp.account(run).epsilon(delta=delta)
    assert answer.lower < answer.upper < 1.01 * answer.lower


def test_reacting_others_gain_most_at_their_own_delta() -> None:
    run = dp.DPSGD(
        dp.ShuffledBatches(dataset_size=1_000, batch_size=50, epochs=1), noise_multiplier=2.0
    )
    late, early, never = (
        lower(run, dp.Adjacency.ZERO_OUT)[0][0]
        for lower in (late_reaction_lower, early_reaction_lower, ratio_test_lower)
    )
    for x, best, other in ((4.6, late, early), (3.3, early, late)):  # delta is 1e-6 and 1e-5 there
        assert profile(best, x) > max(profile(never, x), profile(other, x))
        assert profile(best, x) > profile(never, x) + 0.03


def test_three_epochs_with_one_rule_stay_below_the_upper_side() -> None:
    """Rules compose, unlike the best of several rules for each threshold."""
    sizes = {"dataset_size": 1_050, "batch_size": 100, "drop_last": True}
    one, three = (
        dp.DPSGD(dp.ShuffledBatches(**sizes, epochs=epochs), noise_multiplier=2.0)
        for epochs in (1, 3)
    )
    upper = dp.account(three).epsilon(delta=1e-6).upper
    for lower in (late_reaction_lower, early_reaction_lower):
        pair = lower(one, dp.Adjacency.ZERO_OUT)[0][0]
        low, _ = Composition(((pair, 3),)).epsilon(math.log(1e-6), 1e-4)
        assert 0.7 * upper < low < upper


def test_reacting_others_are_asked_for_two_fresh_epochs_at_most() -> None:
    """With an order that is kept, results of the first epoch tell where the record is in the second."""
    sizes = {"dataset_size": 1_000, "batch_size": 100}
    cases = (1, "redrawn", True), (2, "redrawn", True), (2, "kept", False), (3, "redrawn", False)
    for epochs, order, asked in cases:
        scheme = dp.ShuffledBatches(**sizes, epochs=epochs, order=order)
        run = dp.DPSGD(scheme, noise_multiplier=2.0)
        names = [bound.name for bound in bounds_for(run, dp.Adjacency.ZERO_OUT)]
        assert ("late_reaction_lower" in names) == asked
