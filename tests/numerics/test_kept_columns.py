"""Values that are kept belong to the points that are asked for, also if threads share the table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.numerics.kept_columns import KeptColumns


def both(x: np.ndarray) -> np.ndarray:
    return np.stack([1.0 - x, x * x])  # exact: last bits may depend on the length of an array


@pytest.fixture
def eager_threads() -> Iterator[None]:
    """Threads take turns a thousand times as often as usual."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def test_it_starts_anew_after_many_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptColumns, "limit", 20)
    table = KeptColumns(2, both)
    for start in range(30):
        points = np.arange(start, start + 7.0)
        assert np.array_equal(table.at(points), both(points))


@pytest.mark.usefixtures("eager_threads")
def test_threads_share_a_table() -> None:
    table = KeptColumns(2, both)

    def wrong(seed: int) -> int:
        rng = np.random.default_rng(seed)
        asked = (np.unique(rng.integers(0, 4000, size=40) / 16.0) for _ in range(200))
        return sum(not np.array_equal(table.at(points), both(points)) for points in asked)

    with ThreadPoolExecutor(6) as threads:
        assert sum(threads.map(wrong, range(6))) == 0


@pytest.mark.usefixtures("eager_threads")
def test_threads_account_for_shuffled_reports_as_one_thread_does() -> None:
    """In 0.1 threads read values at the thresholds of other threads.

    Columns that another thread has asked for are added up in other groups: the last digits may differ.
    """
    runs = [
        dp.ShuffledReports(users=2000, local_epsilon=local, rounds=rounds)
        for local in (1.0, 2.0)
        for rounds in (1, 5)
    ]

    def ends(run: dp.Mechanism) -> tuple[float, float]:
        answer = dp.account(run).epsilon(delta=1e-6)
        return answer.lower, answer.upper

    with ThreadPoolExecutor(4) as threads:
        several = list(threads.map(ends, runs * 2))
    np.testing.assert_allclose(several, [ends(run) for run in runs] * 2, rtol=1e-13)
