"""Sweeps, estimates and audits are the same over any executor, also if a worker is lost on the way."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import WrongType


def run(noise: float, batch_size: int) -> dp.DPSGD:
    return dp.DPSGD(
        dp.PoissonBatches(dataset_size=10_000, batch_size=batch_size, epochs=2),
        noise_multiplier=noise,
    )


AXES = {"noise": [0.8, 1.0, 1.3, 1.7, 2.2], "batch_size": [50, 100, 200, 400, 800]}
"""So many that a worker can be lost on the way."""

FEW = {"noise": [0.8, 2.2], "batch_size": [50, 200, 800]}
"""Enough for some tasks each, on one or two workers that nobody stops."""


def score(seed: int) -> float:
    """One run of an audit: even seeds have the canary."""
    noisy = np.random.default_rng(seed).normal(0.0, 0.5)
    return float(noisy + 2.0 * (seed % 2 == 0))


def audited(executor: Executor | None) -> dp.Bracket:
    """The epsilon that 200 runs show."""
    scores = np.array(list((executor.map if executor else map)(score, range(200))))
    return dp.audit.many_runs(with_record=scores[::2], without_record=scores[1::2]).epsilon


def ends(executor: Executor | None, axes: dict[str, list[Any]] = AXES) -> tuple[np.ndarray, ...]:
    answers = dp.sweep(run, executor=executor, **axes)
    epsilon, tpr = answers.epsilon(delta=[1e-5, 1e-7]), answers.tpr(fpr=0.1)
    drawn = dp.estimate(run(1.0, 100), epsilon=0.5, samples=2000, rng=1, executor=executor)
    shown = audited(executor)
    sampled = np.array([drawn.lower, drawn.upper, shown.lower])
    return epsilon.lower, epsilon.upper, tpr.lower, tpr.upper, sampled


@pytest.fixture(scope="module")
def here() -> tuple[np.ndarray, ...]:
    return ends(None)


@pytest.fixture(scope="module")
def few_here() -> tuple[np.ndarray, ...]:
    return ends(None, FEW)


def check(there: tuple[np.ndarray, ...], here: tuple[np.ndarray, ...]) -> None:
    assert all(np.array_equal(one, other) for one, other in zip(there, here, strict=True))


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_and_threads_answer_the_same(
    workers: int, few_here: tuple[np.ndarray, ...]
) -> None:
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as processes:
        check(ends(processes, FEW), few_here)
    with ThreadPoolExecutor(workers) as threads:
        check(ends(threads, FEW), few_here)


def test_bad_input() -> None:
    with pytest.raises(WrongType, match="executor must be one of"):
        dp.sweep(run, executor=2, **AXES)  # type: ignore[arg-type]


@pytest.fixture
def dask_client() -> Iterator[object]:
    distributed = import_module("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as some,
        distributed.Client(some) as client,
    ):
        yield client


@pytest.mark.skipif(not find_spec("distributed"), reason="make test-frameworks gets dask")
def test_dask_answers_the_same_though_a_worker_is_killed(
    dask_client: object, here: tuple[np.ndarray, ...]
) -> None:
    client: object = dask_client
    pids = client.run(os.getpid)  # type: ignore[attr-defined]
    with client.get_executor() as executor, ThreadPoolExecutor(1) as beside:  # type: ignore[attr-defined]
        under_way = beside.submit(ends, executor)
        time.sleep(0.3)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        check(under_way.result(timeout=300), here)


@pytest.mark.skipif(not find_spec("ray"), reason="make test-frameworks gets Ray")
def test_ray_answers_the_same(here: tuple[np.ndarray, ...]) -> None:
    from ray.util.multiprocessing import Pool

    class OverRay(ThreadPoolExecutor):
        """Ray has no executor of its own: a thread waits for each task of its pool."""

        def __init__(self, pool: Pool) -> None:
            super().__init__(2)
            self._pool = pool

        def submit(self, function, /, *some, **more):  # type: ignore[no-untyped-def]
            return super().submit(self._pool.apply, function, some, more)

    with Pool(2) as pool, OverRay(pool) as executor:
        check(ends(executor), here)
