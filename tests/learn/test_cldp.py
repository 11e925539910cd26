"""CLDP-SGD: what is accounted is what was run, however often it was killed; the update is Algorithm 1."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.learn import (
    CLDPSGD,
    ClientRun,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    clipped,
)
from tests.sampling.chances import FALSE_ALARM, assert_law

TARGETS = np.random.default_rng(1).normal(size=(60, 3)) * 0.3 + np.array([0.5, -0.2, 0.1])
BALL = PrivUnitBall(dimension=3, local_epsilon=2.0, radius=0.5)


def pull(parameters: Any, clients: Any) -> Any:
    """The gradient of half the squared distance to the client's target."""
    return parameters - TARGETS[clients]


def plan(**changes: Any) -> CLDPSGD:
    fields: dict[str, Any] = {"randomizer": BALL, "users": 6, "population": 60, "rounds": 10}
    return CLDPSGD(**(fields | changes))


def test_the_run_of_the_paper_costs_what_the_specification_says() -> None:
    signs = CoordinateSigns(dimension=10_000, local_epsilon=2.0, radius=0.005)
    paper = CLDPSGD(randomizer=signs, users=2000, population=60_000, rounds=6000)
    # there with the worst one in the place of an absent client; ternary response costs 0.608446
    assert 0.608446 < dp.account(paper.mechanism).epsilon(delta=1e-5).upper < 0.975 * 0.667129
    # 1500 rounds cost 0.313369 there
    assert 1500 < paper.affordable(epsilon=0.313369, delta=1e-5) < 1700


def test_points_on_a_sphere_cost_less_than_their_budget_says() -> None:
    ball = PrivUnitBall(dimension=10_000, local_epsilon=2.0, radius=0.005)
    paper = CLDPSGD(randomizer=ball, users=2000, population=60_000, rounds=6000)
    epsilon = dp.account(paper.mechanism).epsilon(delta=1e-5)
    # many rounds: epsilon goes with the root of chi, 2 q (E-1)^2 / (1 + q (E-1)) with q = 0.2158 for
    # this cap and 2 (E-1)^2 / (E+1) for any randomizer, that is 0.872 of 0.667129
    assert epsilon.upper == pytest.approx(0.872 * 0.667129, rel=0.05)
    assert 0.999 * epsilon.upper < epsilon.lower < epsilon.upper


@pytest.mark.parametrize(
    "randomizer",
    [
        BALL,
        CoordinateSigns(dimension=3, local_epsilon=2.0, radius=0.5),
        HadamardSigns(dimension=3, local_epsilon=2.0, radius=0.5),
        LatticeLaplace(dimension=3, local_epsilon=2.0, radius=0.5),
    ],
    ids=lambda randomizer: type(randomizer).__name__,
)
def test_a_round_is_the_step_of_algorithm_1(randomizer: Any) -> None:
    seen: list[Any] = []

    def watched(parameters: Any, clients: Any) -> Any:
        seen.append((parameters.copy(), clients.copy()))
        return pull(parameters, clients)

    once = plan(randomizer=randomizer, learning_rate=lambda step: 0.1 / (step + 1), rounds=3)
    run = ClientRun(once, watched, [1.0, 1.0, 1.0], rng=5)
    for number in range(3):
        before = run.parameters
        reports = run.step()
        moved = before - 0.1 / (number + 1) * randomizer.estimates(reports).mean(axis=0)
        assert run.parameters == pytest.approx(moved)
        asked, clients = seen[number]
        assert asked.tolist() == before.tolist()
        assert len(set(clients.tolist())) == 6
        assert (run.begun, run.finished, run.left) == (number + 1, number + 1, 2 - number)
        assert run.mechanism == randomizer.shuffled(users=6, population=60, rounds=number + 1)
    assert run.mechanism == once.mechanism
    assert not np.array_equal(seen[0][1], seen[1][1])


def test_reports_are_those_of_the_clipped_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    draw = PrivUnitBall.reports

    def watched(self: Any, records: Any, rng: Any = None) -> Any:
        kept.append((np.array(records), draw(self, records, rng)))
        return kept[-1][1]

    monkeypatch.setattr(PrivUnitBall, "reports", watched)
    run = ClientRun(plan(), lambda theta, clients: 10.0 * pull(theta, clients), np.ones(3), rng=2)
    released = run.step()
    held = np.concatenate([before for before, _ in kept])
    assert np.linalg.norm(held, axis=1) == pytest.approx(np.full(6, 0.5))
    assert released.tolist() == np.concatenate([after for _, after in kept]).tolist()


def test_clients_report_in_every_order_equally_often() -> None:
    orders: list[tuple[int, ...]] = []

    def asked(theta: Any, clients: Any) -> Any:
        orders.append(tuple(clients.tolist()))
        return pull(theta, clients)

    ClientRun(plan(users=3, population=3, rounds=6000), asked, np.ones(3), rng=3).run()
    assert len(orders) == 6000
    assert_law(orders, dict.fromkeys(permutations(range(3)), 1 / 6))


def test_the_mean_of_many_clients_is_found() -> None:
    # one step of rate 1 from 0: the parameters become the mean of -estimates, unbiased for -mean
    everyone = plan(users=60, population=60, rounds=1, learning_rate=1.0)
    ends = np.array(
        [ClientRun(everyone, pull, np.zeros(3), rng=seed).run().parameters for seed in range(300)]
    )
    mean = clipped(TARGETS, radius=0.5).mean(axis=0)
    largest = 0.5 / BALL.unit.cap.mean
    limit = largest * math.sqrt(2.0 * math.log(2.0 * 3.0 / FALSE_ALARM) / (300 * 60))
    assert np.max(np.abs(ends.mean(axis=0) - mean)) <= limit
    assert limit < 0.2 < np.linalg.norm(mean)


def test_parameters_stay_in_the_set() -> None:
    def unit(parameters: Any) -> Any:
        return parameters / max(1.0, float(np.linalg.norm(parameters)))

    run = ClientRun(plan(projection=unit, learning_rate=100.0), pull, np.zeros(3), rng=1)
    for _ in range(10):
        run.step()
        assert np.linalg.norm(run.parameters) <= 1.0 + 1e-12


# --- killed and resumed


class Killed(BaseException):
    """Not an Exception: nothing in the library may catch it."""


def test_killed_at_every_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # the sequence of moments: every flush to disk, every gradient, every report drawn
    alive = {"moments": 10**9, "released": 0}

    def moment() -> None:
        alive["moments"] -= 1
        if alive["moments"] < 0:
            raise Killed

    flush, draw, swap = os.fsync, PrivUnitBall.reports, os.replace

    def flushing(handle: int) -> None:
        moment()
        flush(handle)

    def reporting(self: Any, records: Any, rng: Any = None) -> Any:
        alive["released"] += 1  # from here on something may have been seen
        moment()
        reports = draw(self, records, rng)
        moment()
        return reports

    def grieving(parameters: Any, clients: Any) -> Any:
        moment()
        return pull(parameters, clients)

    monkeypatch.setattr(os, "fsync", flushing)
    monkeypatch.setattr(PrivUnitBall, "reports", reporting)
    whole = plan(rounds=2)
    for moments in range(60):
        alive["moments"], alive["released"] = 10**9, 0
        path = tmp_path / f"run{moments}"
        run = ClientRun(whole, grieving, np.zeros(3), path=path, rng=moments)
        alive["moments"] = moments
        survived = False
        try:
            run.run()
            survived = True
        except Killed:
            alive["moments"] = 10**9
            again = ClientRun.resumed(whole, grieving, path=path, rng=moments + 1000)
            # never less than what may have been seen, never more than one that was not
            assert alive["released"] <= again.begun <= alive["released"] + 1
            run = again.run()
        assert run.mechanism == whole.mechanism
        assert alive["released"] <= 2
        assert run.left == 0
        if survived:
            break
    assert survived
    assert moments >= 2 * 5
    assert swap is os.replace


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from sharpdp.learn import CLDPSGD, ClientRun, PrivUnitBall
ball = PrivUnitBall(dimension=3, local_epsilon=2.0, radius=0.5)
plan = CLDPSGD(randomizer=ball, users=6, population=60, rounds=10**9)
run = ClientRun(plan, lambda theta, who: np.ones((len(who), 3)), np.zeros(3), path=sys.argv[1])
with Path(sys.argv[2]).open("ab", buffering=0) as seen:
    while True:
        run.step()
        seen.write(b".")
"""


@pytest.mark.skipif(os.name != "posix", reason="kills a process outright")
def test_a_process_that_is_killed_outright_loses_no_round(tmp_path: Path) -> None:
    path, log = tmp_path / "run", tmp_path / "seen"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path), str(log)])
    while not (log.exists() and log.stat().st_size > 3):
        assert process.poll() is None
        time.sleep(0.003)
    process.send_signal(signal.SIGKILL)
    process.wait()
    run = ClientRun.resumed(plan(rounds=10**9), pull, path=path)
    seen = log.stat().st_size
    assert seen <= run.begun <= seen + 1
    assert run.finished <= run.begun
    assert run.step().shape == (6, 3)
    assert run.mechanism.rounds == run.begun >= seen + 1


def test_a_resumed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = ClientRun(plan(), pull, np.zeros(3), path=path).run(4)
    second = ClientRun.resumed(plan(), pull, path=path)
    assert second.parameters.tolist() == first.parameters.tolist()
    assert (second.begun, second.finished, second.left) == (4, 4, 6)
    longer = ClientRun.resumed(plan(rounds=12), pull, path=path, every=10)
    assert longer.run().mechanism.rounds == 12


def test_rounds_since_the_parameters_were_kept_are_given_up(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    first = ClientRun(plan(), pull, np.zeros(3), path=path, every=3)
    kept = first.run(3).parameters
    first.run(2)
    second = ClientRun.resumed(plan(), pull, path=path, every=3)
    assert (second.begun, second.finished, second.left) == (5, 3, 5)
    assert second.parameters.tolist() == kept.tolist()
    assert second.run().mechanism == plan().mechanism
    third = ClientRun.resumed(plan(), pull, path=path)
    assert third.parameters.tolist() == second.parameters.tolist()


def test_only_the_same_plan_is_resumed(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    ClientRun(plan(), pull, np.zeros(3), path=path).run(1)
    other = PrivUnitBall(dimension=3, local_epsilon=1.0, radius=0.5)
    for changed in (plan(users=7), plan(population=61), plan(randomizer=other)):
        with pytest.raises(dp.InvalidArgument, match="same plan"):
            ClientRun.resumed(changed, pull, path=path)
    with pytest.raises(dp.InvalidArgument, match="free for a new run"):
        ClientRun(plan(), pull, np.zeros(3), path=path)
    (tmp_path / "run.npz.begun").unlink()
    with pytest.raises(dp.InvalidArgument, match="would not be counted"):
        ClientRun.resumed(plan(), pull, path=path)
    with pytest.raises(dp.InvalidArgument, match="run that was begun"):
        ClientRun.resumed(plan(), pull, path=tmp_path / "nowhere")


# --- bad input


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (np.full((6, 3), np.nan), "got 6 that are not"),
        (np.full((6, 3), np.inf), "got 6 that are not"),
        (np.zeros((5, 3)), "one row for each of 6 clients; got 5"),
        (np.zeros((6, 4)), r"gradients must be an array of shape \(clients, 3\)"),
        (np.zeros(3), "gradients must be"),
        (None, "gradients must be"),
    ],
)
def test_bad_gradients_release_nothing(bad: Any, message: str, monkeypatch: Any) -> None:
    run = ClientRun(plan(), lambda theta, clients: bad, np.zeros(3), strict=True)
    monkeypatch.setattr(PrivUnitBall, "reports", None)
    with pytest.raises(dp.InvalidArgument, match=message):
        run.step()
    assert run.begun == 0
    with pytest.raises(dp.InvalidArgument, match="no round was started"):
        run.mechanism  # noqa: B018


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": 0}, "users must be"),
        ({"users": 61}, "population must be at least the 61 users"),
        ({"rounds": 0}, "rounds must be"),
        ({"learning_rate": 0.0}, "learning_rate must be"),
        ({"learning_rate": math.nan}, "learning_rate must be"),
        ({"projection": 1.0}, "projection must be a function"),
        ({"randomizer": "shared"}, "randomizer must be one of vectors"),
        ({"randomizer": RandomizedAnswers(local_epsilon=1.0)}, "randomizer must be one of vectors"),
        ({"randomizer": PrivUnit(dimension=3, local_epsilon=1.0)}, "Use PrivUnitBall"),
    ],
)
def test_bad_plans_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=message):
        plan(**changes)


@pytest.mark.parametrize("parameters", [[0.0, 0.0], [[0.0, 0.0, 0.0]], [0.0, math.nan, 0.0]])
def test_bad_parameters_are_refused(parameters: Any) -> None:
    with pytest.raises(dp.InvalidArgument, match="parameters must be 3 finite numbers"):
        ClientRun(plan(), pull, parameters)


def test_a_schedule_that_fails_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    run = ClientRun(plan(learning_rate=lambda step: math.nan), pull, np.zeros(3))
    monkeypatch.setattr(PrivUnitBall, "reports", None)
    with pytest.raises(dp.InvalidArgument, match="learning_rate must be"):
        run.step()
    assert run.begun == 0


def test_a_plan_that_is_done_is_done() -> None:
    run = ClientRun(plan(rounds=1), pull, np.zeros(3), rng=1).run()
    assert run.run(5).begun == 1
    with pytest.raises(dp.InvalidArgument, match="all of which were started"):
        run.step()
