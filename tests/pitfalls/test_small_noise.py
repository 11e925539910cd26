"""Little noise and few batches: an answer without a warning, whatever some route has to say."""

from __future__ import annotations

import pytest

import sharpdp as dp


@pytest.mark.parametrize(
    ("plan", "noise"),
    [
        (dp.BallsAndBins(dataset_size=2, batch_size=1, epochs=1), 0.12),
        (dp.BallsAndBins(dataset_size=2, batch_size=1, epochs=2), 0.18988847548089183),
        (dp.RandomAllocation(steps=4, participations=2), 0.19),
        (dp.ShuffledBatches(dataset_size=3, batch_size=2, epochs=1), 1.0),
        (dp.ShuffledBatches(dataset_size=3, batch_size=1, epochs=1), 0.12),
        (dp.ShuffledBatches(dataset_size=6, batch_size=2, epochs=3, order="kept"), 0.2),
    ],
)
def test_there_is_an_answer(plan: dp.batches.BatchScheme, noise: float) -> None:
    answer = dp.account(dp.DPSGD(plan, noise_multiplier=noise)).epsilon(delta=1e-3)
    every = dp.DeterministicBatches(dataset_size=4, batch_size=4, epochs=6)
    assert 0.0 < answer.lower <= answer.upper
    assert (
        answer.upper
        <= dp.account(dp.DPSGD(every, noise_multiplier=noise)).epsilon(delta=1e-3).upper
    )


def test_upper_deltas_far_out_are_not_those_of_knowing_nothing() -> None:
    answer = dp.account(dp.ShuffledReports(users=10**6, local_epsilon=1.0, rounds=10))
    assert all(one < 1e-100 for one in answer.delta(epsilon=[0.1, 0.2, 0.5, 3.0]).upper)
