"""No released number depends on the size of the data set where add/remove is claimed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.learn.dpsgd import Training
from sharpdp.report.words import obligations
from tests.learn.test_dpsgd import FEATURES, KEY, data, network, schemes, training

SIZE_FREE = [
    dp.PoissonBatches(sample_rate=0.2, steps=5),
    dp.RandomAllocation(steps=5, participations=2, epochs=1),
]


def zero_gradients(
    plan: dp.batches.BatchScheme, records: int, **options: object
) -> list[np.ndarray]:
    """What is released if no record has a gradient."""
    run = Training(
        dp.DPSGD(plan, noise_multiplier=1.0),
        network(),
        lambda output, target: 0.0 * output.sum(),
        torch.ones(records, FEATURES),
        torch.ones(records, 1),
        clip=1.0,
        key=KEY,
        **options,  # type: ignore[arg-type]
    )
    found = []
    for _ in range(3):
        run.advance()
        found += [one.grad.numpy().copy() for one in run.model.parameters()]
    return found


def test_s0_add_remove_is_not_claimed_where_the_scale_tells_the_size() -> None:
    """Through calls of a15ee80 alone: the divisor was sample_rate * n, and add/remove was claimed."""
    few, more = (
        dp.PoissonBatches(sample_rate=0.2, steps=5, dataset_size=size) for size in (60, 61)
    )
    scale, other = (
        max(np.abs(one).max() for one in zero_gradients(plan, size))
        for plan, size in ((few, 60), (more, 61))
    )
    run = training(few)
    run.advance()
    if run.guarantee.adjacency is dp.Adjacency.ADD_REMOVE:
        assert scale / other == 1.0


@pytest.mark.parametrize("plan", schemes(), ids=lambda plan: plan.label)
def test_s0_a_planned_size_is_public_and_the_neighbors_have_it(
    plan: dp.batches.BatchScheme,
) -> None:
    run = training(plan)
    run.advance()
    assert run.adjacency is run.guarantee.adjacency is dp.Adjacency.ZERO_OUT
    with pytest.raises(dp.InvalidArgument, match=r"adjacency must be zero-out .* got add/remove"):
        training(plan, adjacency="add/remove")


@pytest.mark.parametrize("plan", SIZE_FREE, ids=lambda plan: plan.label)
def test_s0_without_a_size_the_release_does_not_depend_on_it(plan: dp.batches.BatchScheme) -> None:
    released = [
        zero_gradients(plan, records, expected_batch_size=20, adjacency="add/remove")
        for records in (400, 401)
    ]
    for one, other in zip(*released, strict=True):
        np.testing.assert_array_equal(one, other)


def test_s0_add_remove_is_claimed_where_it_is_asked_for_and_true() -> None:
    run = training(SIZE_FREE[0], expected_batch_size=12)
    run.advance()
    assert run.guarantee.adjacency is dp.Adjacency.ZERO_OUT
    asked = training(SIZE_FREE[0], expected_batch_size=12, adjacency="add/remove")
    asked.advance()
    assert asked.guarantee.adjacency is dp.Adjacency.ADD_REMOVE
    with pytest.raises(dp.InvalidArgument, match="expected_batch_size must be given to train"):
        training(SIZE_FREE[0])
    inputs, targets = data()
    loss, given = nn.BCEWithLogitsLoss(), {"clip": 1.0, "expected_batch_size": 12}
    with pytest.raises(dp.InvalidArgument, match="targets must be as many as inputs"):
        Training(run.mechanism, network(), loss, inputs, targets[1:], **given)


@pytest.mark.parametrize("wrong", [0, -3, "many", float("nan")])
def test_s0_a_divisor_is_a_positive_number(wrong: object) -> None:
    with pytest.raises(dp.InvalidArgument, match="expected_batch_size must be"):
        training(SIZE_FREE[0], expected_batch_size=wrong)


def test_s0_a_budget_is_read_for_the_neighbors_of_the_run() -> None:
    plan = dp.FixedSizeBatches(dataset_size=60, batch_size=7, steps=9)
    given = {"epsilon": 4.0, "delta": 1e-3, "progress": False}
    far = training(plan).run(**given).step
    near = training(plan, adjacency="replace-one").run(**given).step
    assert near < far


def test_s0_expected_sizes_are_those_of_the_scheme() -> None:
    for plan in schemes():
        drawn = [len(batch) for seed in range(40) for batch in plan.batches(seed)]
        assert plan.expected_batch_size == pytest.approx(np.mean(drawn), rel=0.1)
    assert [plan.expected_batch_size for plan in SIZE_FREE] == [None, None]


@pytest.mark.parametrize("plan", [*SIZE_FREE, *schemes()], ids=lambda plan: plan.label)
def test_s0_every_training_report_speaks_of_the_divisor(plan: dp.batches.BatchScheme) -> None:
    run = dp.DPSGD(plan, noise_multiplier=2.0)
    for mechanism in (run, run * 3, run + dp.Gaussian(noise_multiplier=3.0)):
        assert "divided by a constant of the plan" in " ".join(obligations(mechanism))
