"""No record stops a run, shows in a message or counts for more than its clip, whatever it holds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.learn import (
    CLDPSGD,
    BlockRun,
    BlockSGD,
    ClientRun,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    clipped,
)
from sharpdp.learn import gaussian_noise as noise
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.gradients import ClippedGradients

KEY = b"k" * 32
BALL = PrivUnitBall(dimension=3, local_epsilon=1.0)
CLIENTS = CLDPSGD(randomizer=BALL, users=6, population=6, rounds=3)
BLOCKS = BlockSGD(records=12, blocks=4, epochs=2, local_epsilon=1.0, clip=1.0, dimension=3)
SECRET = 1789.0625
"""A value of a record."""


# --- gradients that are not finite


def pull(value: float) -> Callable[[Any, Any], Any]:
    """Gradients, of which that of record 2 is zero but for this value in its last entry."""
    targets = np.random.default_rng(3).normal(size=(12, 3))

    def gradients(parameters: Any, numbers: Any) -> Any:
        rows = parameters - targets[numbers]
        rows[numbers == 2] = 0.0
        rows[numbers == 2, 2] = value
        return rows

    return gradients


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_s5_clients_and_blocks_count_a_gradient_that_is_not_finite_as_zero(value: float) -> None:
    for make in (
        lambda gradients: ClientRun(CLIENTS, gradients, np.zeros(3), rng=5),
        lambda gradients: BlockRun(BLOCKS, gradients, np.zeros(3), rng=5),
    ):
        found, wanted = make(pull(value)).run(), make(pull(0.0)).run()
        assert found.left == 0
        assert np.array_equal(found.parameters, wanted.parameters)


def test_s5_a_client_without_a_finite_gradient_reports_like_any_other() -> None:
    reports = ClientRun(CLIENTS, lambda theta, some: np.full((6, 3), np.nan), np.zeros(3)).step()
    sizes = np.linalg.norm(reports, axis=1) * BALL.unit.cap.mean
    assert sizes == pytest.approx(np.ones(6), rel=1e-2)


def test_s5_strict_clients_and_blocks_stop_in_the_words_of_training() -> None:
    clients = ClientRun(CLIENTS, pull(math.inf), np.zeros(3), strict=True)
    blocks = BlockRun(BLOCKS, pull(math.inf), np.zeros(3), strict=True)
    model = nn.Linear(1, 1)
    take = ClippedGradients(model, nn.MSELoss(), clip=1.0, strict=True)
    said = set()
    for stop in (
        clients.step,
        blocks.epoch,
        lambda: take.sum(torch.tensor([[math.inf]]), torch.ones(1, 1)),
    ):
        with pytest.raises(
            dp.InvalidArgument, match="shows that there was such a record"
        ) as caught:
            stop()
        said.add(str(caught.value))
    assert len(said) == 1
    assert clients.begun == 0
    for make in (
        lambda: ClientRun(CLIENTS, pull(0.0), np.zeros(3), strict=1),  # type: ignore[arg-type]
        lambda: BlockRun(BLOCKS, pull(0.0), np.zeros(3), strict=None),  # type: ignore[arg-type]
    ):
        with pytest.raises(WrongType, match="strict must be True or False"):
            make()


# --- messages


def refusals() -> list[Callable[[], object]]:
    """Calls that refuse records, each of which holds the secret value."""
    row = [[SECRET, 0.0, 0.0]]
    code = int(SECRET)
    randomizers = [
        kind(dimension=3, local_epsilon=1.0)
        for kind in (CoordinateSigns, HadamardSigns, LatticeLaplace, PrivUnit, PrivUnitBall)
    ]
    take = ClippedGradients(nn.Linear(1, 1), nn.MSELoss(), clip=1.0)
    adds = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
    constant = ClippedGradients(nn.Linear(1, 1), lambda output, target: SECRET, clip=1.0)  # type: ignore[arg-type, return-value]
    broken = ClientRun(CLIENTS, lambda theta, clients: str(SECRET), np.zeros(3))
    return [
        *(lambda one=one: one.reports(row) for one in randomizers),
        *(lambda one=one: one.reports([[SECRET, math.nan, 0.0]]) for one in randomizers),
        lambda: randomizers[3].reports([[1.0 / SECRET, 0.0, 0.0]]),
        lambda: RandomizedAnswers(local_epsilon=1.0, categories=3).reports([1, code]),
        lambda: RandomizedAnswers(local_epsilon=1.0).reports(
            np.array([2**63 + code], dtype=np.uint64)
        ),
        lambda: RandomizedAnswers(local_epsilon=1.0).reports([SECRET]),
        lambda: clipped([[SECRET, math.nan]], radius=1.0, strict=True),
        lambda: clipped(str(SECRET), radius=1.0),
        lambda: take.sum([[SECRET]], torch.ones(1, 1)),  # type: ignore[arg-type]
        lambda: constant.sum(torch.ones(1, 1), torch.ones(1, 1)),
        lambda: adds.added({"w": [SECRET]}, 0),  # type: ignore[dict-item]
        lambda: adds.added([SECRET], 0),  # type: ignore[arg-type]
        broken.step,
    ]


@pytest.mark.parametrize("number", range(len(refusals())))
def test_s5_messages_carry_no_values_of_records(number: int) -> None:
    with pytest.raises(dp.InvalidArgument) as caught:
        refusals()[number]()
    told = str(caught.value)
    secrets = [str(int(SECRET)), f"{SECRET:.12g}", f"{1.0 / SECRET:.6g}", str(2**63 + int(SECRET))]
    assert not [one for one in secrets if one in told], told


# --- the norm of what was clipped


def is_within(row: Any, radius: float, norm: float) -> bool:
    """Whether the exact norm is at most the radius, for whole orders."""
    sizes = [abs(Fraction(float(one))) for one in row]
    if norm == math.inf:
        return max(sizes) <= Fraction(radius)
    order = int(norm)
    return sum(one**order for one in sizes) <= Fraction(radius) ** order


@pytest.mark.parametrize("norm", [1, 2, 3, math.inf])
@pytest.mark.parametrize("radius", [1e-30, 1e-20, 0.1, 1.0, 1e30])
def test_s6_no_clipped_vector_is_longer_than_the_radius(norm: float, radius: float) -> None:
    generator = np.random.default_rng(6)
    for dimension in (1, 2, 7, 130):
        signs = generator.choice([-1.0, 1.0], size=(12, dimension))
        rows = signs * 10.0 ** generator.uniform(-3.0, 0.0, size=(12, dimension))
        # of the size of the radius, which only rounding puts in or out; huge ones; the largest
        sizes = np.linalg.norm(rows[:6], ord=norm, axis=1)
        rows[:6] *= (radius * np.array([0.5, 1.0, 1.0, 1.0, 1.0 + 1e-13, 2.0]) / sizes)[:, None]
        rows[6:] *= np.array([1e3, 1e50, 1e290, 1e300, 1e305, 1e308])[:, None]
        kept = clipped(rows, radius=radius, norm=norm)
        assert all(is_within(row, radius, norm) for row in kept)
        # nothing is lost but rounding, nor is anything clipped twice
        assert np.array_equal(kept[0], rows[0])
        found = np.linalg.norm(kept[5:] / radius, ord=norm, axis=1)
        assert found[radius < np.abs(rows[5:]).max(axis=1)] == pytest.approx(1.0, rel=1e-12)
        assert np.array_equal(clipped(kept, radius=radius, norm=norm), kept)


def test_s6_a_factor_that_doubles_cannot_hold() -> None:
    (kept,) = clipped([[1.7e308, 1.2e308]], radius=1e-15)
    assert is_within(kept, 1e-15, 2)
    assert kept[1] / kept[0] == pytest.approx(12.0 / 17.0, rel=1e-14)


# --- threads


def slowly(seen: list[int]) -> Callable[[int], float]:
    """A learning rate that takes its time, and notes for which step it was asked."""

    def rate(step: int) -> float:
        seen.append(step)
        time.sleep(0.05)
        return 0.1

    return rate


def trained(rate: Callable[[int], float]) -> Training:
    plan = dp.PoissonBatches(dataset_size=20, batch_size=4, epochs=2)
    inputs = torch.ones(20, 1)
    run = dp.DPSGD(plan, noise_multiplier=1.0)
    return Training(
        run, nn.Linear(1, 1), nn.MSELoss(), inputs, inputs, clip=1.0, key=KEY, learning_rate=rate
    )


def in_threads(*calls: Callable[[], object]) -> list[object]:
    """What each call returned, or the error that it raised."""

    def outcome(call: Callable[[], object]) -> object:
        try:
            return call()
        except Exception as error:  # the test says which are right
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(outcome, calls))


def test_s13_threads_that_advance_one_training_take_turns() -> None:
    seen: list[int] = []
    run = trained(slowly(seen))
    seen.clear()
    assert in_threads(run.advance, run.advance, run.advance) == [None] * 3
    assert seen == [0, 1, 2]
    assert run.step == 3


def test_s13_threads_that_run_one_training_keep_its_budget() -> None:
    run = trained(slowly([]))
    budget = run.mechanism.stopped_after(3)
    epsilon = dp.account(budget, adjacency="zero-out").epsilon(delta=1e-5).upper * 1.0001

    def go() -> object:
        return run.run(epsilon=epsilon, progress=False)

    assert in_threads(go, go) == [run, run]
    assert run.step == 3


def test_s13_one_step_has_one_noise_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    adds = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
    digest = noise._digest

    def slow(*sums: Any) -> str:
        time.sleep(0.1)
        return digest(*sums)

    monkeypatch.setattr(noise, "_digest", slow)
    totals = [{"w": torch.full((2,), float(value))} for value in range(3)]
    found = in_threads(*(lambda one=one: adds.added(one, 0) for one in totals))
    assert sum(isinstance(one, dict) for one in found) == 1
    assert sum(isinstance(one, dp.InvalidArgument) for one in found) == 2


def test_s13_rounds_and_epochs_in_threads_follow_each_other() -> None:
    starts: list[Any] = []

    def gradients(parameters: Any, numbers: Any) -> Any:
        starts.append(parameters)
        time.sleep(0.02)
        return np.ones((len(numbers), 3))

    clients = ClientRun(CLIENTS, gradients, np.zeros(3))
    in_threads(clients.step, clients.step, clients.step, clients.step)  # the last is refused
    assert clients.begun == clients.finished == 3
    blocks = BlockRun(BLOCKS, gradients, np.zeros(3))
    in_threads(blocks.epoch, blocks.epoch, blocks.epoch)
    assert blocks.begun == blocks.finished == 2
    assert len({one.tobytes() for one in starts}) == 3 - 1 + 8  # both begin at zero
