"""Values kept between questions, and routes that are not asked: neither changes an answer."""

from dataclasses import replace

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.shuffle_model.clone_pair import ShufflePair
from sharpdp.pairs.pair import _known
from sharpdp.pairs.subsampled import SubsetSampledPair


def test_values_do_not_depend_on_what_was_asked_before() -> None:
    pair = ShufflePair(users=60, local_epsilon=1.5, rate=0.3)
    rng = np.random.default_rng(5)
    for _ in range(6):
        k = rng.uniform(-1.6, 1.6, 40).round(2)  # many come again
        inside = np.abs(k) < pair.largest
        direct = pair.call_and_tails(np.abs(k[inside]))[0] + np.minimum(k[inside], 0.0)
        np.testing.assert_allclose(pair.log_hockey_stick(k)[inside], direct, rtol=0.0, atol=1e-12)
        assert np.all(np.isneginf(pair.log_hockey_stick(k)[~inside]))


def test_what_is_kept_is_bounded() -> None:
    class Cheap(SubsetSampledPair):
        def call_and_tails(self, loss: np.ndarray) -> np.ndarray:
            return np.stack([-loss, -loss, -loss])

    pair = Cheap(ShufflePair(users=3, local_epsilon=2.0, rate=0.5), rate=0.5)
    limit = _known(pair).limit
    for step in range(4):
        thresholds = np.linspace(0.0, 1.0, limit // 2 + step)
        np.testing.assert_array_equal(pair.log_hockey_stick(thresholds), -thresholds)
    assert len(_known(pair)) <= 2 * limit


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [1, 7, 300])
@pytest.mark.parametrize("local_epsilon", [0.3, 2.0, 5.0])
def test_lower_routes_that_are_not_asked_would_not_have_won(
    rounds: int, local_epsilon: float
) -> None:
    run = dp.ShuffledReports(users=40, local_epsilon=local_epsilon, population=400, rounds=rounds)
    answer = dp.account(run)
    assert len(answer.lower_derivations) == 2
    for delta in (1e-2, 1e-6, 1e-12):
        alone = [
            replace(answer, lower_derivations=(route,)).epsilon(delta=delta).lower
            for route in answer.lower_derivations
        ]
        assert answer.epsilon(delta=delta).lower == pytest.approx(max(alone), rel=2e-3)
