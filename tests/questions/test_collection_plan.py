"""Plans of a collection: every row meets its target, errors are those that runs have, limits hold."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn import CLDPSGD, CompressedPrivUnit, CoordinateSigns, HadamardSigns, PrivUnitBall


@pytest.fixture(scope="module")
def mean_plan() -> dp.collection_plan.CollectionPlan:
    return dp.plan_collection(epsilon=1.0, delta=1e-5, clients=500, dimension=8, radius=2.0)


@pytest.fixture(scope="module")
def learning_plan() -> dp.collection_plan.CollectionPlan:
    return dp.plan_collection(
        epsilon=2.0,
        delta=1e-5,
        clients=500,
        dimension=30,
        rounds=40,
        reports_per_client=3,
        diameter=4.0,
    )


def test_rows_meet_the_target_and_are_sorted(
    mean_plan: dp.collection_plan.CollectionPlan, learning_plan: dp.collection_plan.CollectionPlan
) -> None:
    for plan in (mean_plan, learning_plan):
        errors = [row.error for row in plan]
        assert errors == sorted(errors)
        assert plan.best is plan.rows[0]
        for row in plan:
            sampled = plan is learning_plan or row.users < plan.clients
            run = row.randomizer.shuffled(
                users=row.users, population=plan.clients if sampled else None, rounds=row.rounds
            )
            assert run == row.mechanism
            assert dp.account(run).epsilon(delta=plan.delta) == row.epsilon
            assert 0.98 * plan.epsilon < row.epsilon.upper <= plan.epsilon


def test_the_best_row_is_a_run(learning_plan: dp.collection_plan.CollectionPlan) -> None:
    row = learning_plan.best
    run = CLDPSGD(randomizer=row.randomizer, users=row.users, population=500, rounds=row.rounds)
    assert run.mechanism == row.mechanism
    assert run.convergence(diameter=4.0).excess_loss == row.error


def test_errors_are_those_of_the_formulas(learning_plan: dp.collection_plan.CollectionPlan) -> None:
    for row in learning_plan:
        variance = row.randomizer.largest_variance
        drawn = (500 - row.users) / (row.users * 499)
        assert row.round_error == pytest.approx(math.sqrt(variance / row.users + drawn), rel=1e-12)
        second = 1.0 + variance / row.users
        loss = 2 * 4.0 * math.sqrt(second / row.rounds) * (2 + math.log(row.rounds))
        assert row.error == pytest.approx(loss, rel=1e-6)
        assert row.reports_per_client == pytest.approx(row.users * row.rounds / 500)
        assert row.reports_per_client <= 3.0
        assert row.rounds <= 40


@pytest.mark.parametrize("index", [0, -1])
def test_a_run_is_as_exact_as_planned(
    mean_plan: dp.collection_plan.CollectionPlan, index: int
) -> None:
    """Vectors as far apart as possible: half of the clients hold one end of the ball, half the other."""
    row, rng = mean_plan.rows[index], np.random.default_rng(5)
    held = np.zeros((500, 8))
    held[:, 0] = np.where(np.arange(500) % 2, 2.0, -2.0)
    runs = 8 if isinstance(row.randomizer, CompressedPrivUnit) else 200
    squares = np.empty(runs)
    for run in range(runs):
        drawn = rng.choice(500, size=row.users, replace=False)
        estimate = row.randomizer.mean(row.randomizer.reports(held[drawn], rng=rng))
        squares[run] = np.sum((estimate - held.mean(axis=0)) ** 2)
    spread = 4.5 * squares.std() / math.sqrt(runs)
    # the bound leaves out that a client's own vector is known better than zero
    assert squares.mean() <= row.error**2 + spread
    assert squares.mean() >= 0.7 * row.error**2 - spread


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_no_other_way_is_much_better(epsilon: float) -> None:
    """All ways of the grid, each with its certified local epsilon, against the few that were tried."""
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-5}
    best = dp.plan_collection(
        **asked, clients=300, dimension=6, rounds=20, reports_per_client=4, diameter=1.0
    ).best
    for users in (300, 150, 60, 30, 15, 6, 3):
        for rounds in (1, 2, 5, 10, 20):
            if users * rounds > 4 * 300:
                continue

            def run(budget: float, users: int = users, rounds: int = rounds) -> CLDPSGD:
                unit = PrivUnitBall(dimension=6, local_epsilon=budget)
                return CLDPSGD(randomizer=unit, users=users, population=300, rounds=rounds)

            def mechanism(
                budget: float, run: Callable[[float], CLDPSGD] = run
            ) -> dp.ShuffledReports:
                return run(budget).mechanism

            budget = dp.calibrate(mechanism, **asked, relative_error=1e-2, whole=False)
            loss = run(float(budget)).convergence(diameter=1.0).excess_loss
            assert best.error <= loss * 1.05


def test_limits_on_bits_leave_short_reports() -> None:
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "clients": 60, "dimension": 20}
    kinds: list[tuple[dict[str, Any], type]] = [
        ({"norm": 2.0, "bits": 64}, CompressedPrivUnit),
        ({"norm": 1.0, "bits": 6}, HadamardSigns),
        ({"norm": math.inf, "bits": 6}, CoordinateSigns),
        ({"norm": 3.0, "bits": None}, PrivUnitBall),
    ]
    for limits, kind in kinds:
        plan = dp.plan_collection(**asked, **limits)
        assert {type(row.randomizer) for row in plan} == {kind}
        assert all(row.bits <= (limits["bits"] or math.inf) for row in plan)


def test_numbers_have_one_dimension() -> None:
    plan = dp.plan_collection(epsilon=1.0, delta=1e-5, clients=100, dimension=1)
    assert {type(row.randomizer) for row in plan} == {CoordinateSigns}


def test_tables_and_plain_data(learning_plan: dp.collection_plan.CollectionPlan) -> None:
    text = str(learning_plan)
    assert "500 clients, vectors of 30 numbers with l2 norm at most 1" in text
    assert all(words in text for words in ("loss", "diameter 4", "you must ensure"))
    assert "<table" in learning_plan._repr_html_()
    plain = json.loads(json.dumps(learning_plan.to_dict()))
    assert plain["rows"] == learning_plan.records()
    assert learning_plan.to_csv().startswith("randomizer,local_epsilon,users,rounds,")
    for row, cells in zip(learning_plan, learning_plan.cells(), strict=True):
        assert float(cells[4]) >= row.epsilon.upper
        assert float(cells[6]) >= row.error


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"clients": 1}, "clients must be"),
        ({"clients": 10**13}, "at most 10"),
        ({"dimension": 0}, "dimension"),
        ({"norm": 0.5}, "norm"),
        ({"diameter": 2.0}, "None for one round"),
        ({"reports_per_client": 1e-4}, "reports_per_client must be at least 0.001"),
        ({"bits": 3}, "bits must be at least 40"),
        ({"epsilon": 1e6}, "some local epsilon"),
    ],
)
def test_what_cannot_be_planned_is_refused(changed: dict[str, float], words: str) -> None:
    asked: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "clients": 1000, "dimension": 20}
    with pytest.raises(InvalidArgument, match=words):
        dp.plan_collection(**(asked | changed))


def test_words_are_no_numbers() -> None:
    with pytest.raises(WrongType, match="clients"):
        dp.plan_collection(epsilon=1.0, delta=1e-5, clients="many", dimension=3)  # type: ignore[arg-type]
