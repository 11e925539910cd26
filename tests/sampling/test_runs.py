"""One run on many machines: resumed, shared among workers, killed; and what is refused."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.batches import random_allocation as allocation
from sharpdp.errors import WrongType
from tests.sampling.chances import KEY, as_sets

PLANS: list[Any] = [
    dp.PoissonBatches(sample_rate=0.2, steps=12, dataset_size=40),
    dp.batches.CyclicPoissonBatches(dataset_size=40, batch_size=8, steps=12, cycle_length=3),
    dp.TruncatedPoissonBatches(dataset_size=40, batch_size=8, steps=12, physical_batch_size=10),
    dp.FixedSizeBatches(dataset_size=40, batch_size=8, steps=12),
    dp.FixedSizeBatches(dataset_size=40, batch_size=8, steps=12, replacement=True),
    dp.FixedSizeBatches(
        dataset_size=40, batch_size=8, steps=12, replacement=True, weights=tuple(range(40))
    ),
    dp.batches.WeightedPoissonBatches(weights=tuple(range(40)), batch_size=8, steps=12),
    dp.DeterministicBatches(dataset_size=40, batch_size=13, epochs=3),
    dp.ShuffledBatches(dataset_size=40, batch_size=13, epochs=3),
    dp.ShuffledBatches(dataset_size=40, batch_size=13, epochs=4, drop_last=True),
    dp.ShuffledBatches(dataset_size=40, batch_size=13, epochs=3, order="kept"),
    dp.BufferedShuffle(dataset_size=40, batch_size=13, epochs=3, buffer_size=11),
    dp.BallsAndBins(dataset_size=40, batch_size=9, epochs=3),
    dp.BallsAndBins(dataset_size=40, batch_size=9, epochs=3, order="kept"),
    dp.RandomAllocation(steps=5, epochs=3, dataset_size=40),
    dp.RandomAllocation(steps=5, participations=2, epochs=3, dataset_size=40),
]
LARGE: list[Any] = [
    dp.PoissonBatches(dataset_size=10**9, batch_size=500, epochs=1),
    dp.FixedSizeBatches(dataset_size=10**9, batch_size=500, steps=10**6),
    dp.ShuffledBatches(dataset_size=10**9, batch_size=500, epochs=3),
    dp.BallsAndBins(dataset_size=10**9, batch_size=500, epochs=3),
    dp.RandomAllocation(steps=10**6, participations=2, epochs=3, dataset_size=10**8),
]
DIGESTS = {
    "buffered shuffle 9514": "263edc2e",
    "Poisson batches a72d": "f1fd50c1",
    "truncated Poisson batches 1b59": "15f949e5",
    "cyclic Poisson batches ebdb": "4e571899",
    "fixed-size batches 541d": "fb1cb98b",
    "fixed-size batches de46": "a3f1ce4a",
    "fixed-size batches a3d7": "1de05b58",
    "weighted Poisson batches e1a6": "d26017d6",
    "deterministic batches 5c1a": "9914d2ea",
    "shuffled batches 5e50": "2ad09ecd",
    "shuffled batches 4a0f": "8d65dae8",
    "shuffled batches 738b": "a647f4ce",
    "balls-and-bins c358": "5c48b8aa",
    "balls-and-bins cae5": "2c37b88b",
    "random allocation 3c34": "1bf8f6b0",
    "random allocation d973": "1a10766b",
    "Poisson batches 3aa1": "3198d699",
    "fixed-size batches 8f27": "c01bc83d",
    "shuffled batches f118": "64ceb835",
    "balls-and-bins a3a3": "1de7049e",
    "random allocation 27d5": "d1b9c193",
}


def ids(plan: Any) -> str:
    return f"{plan.label} {hashlib.sha256(repr(plan).encode()).hexdigest()[:4]}"


def digest(plan: Any) -> str:
    """A few hexadecimal digits that tell the first batches of a run."""
    batches = as_sets(itertools.islice(plan.batches(KEY), 12))
    return hashlib.sha256(repr(batches).encode()).hexdigest()[:8]


def test_every_scheme_is_here() -> None:
    schemes = {getattr(dp.batches, name) for name in dp.batches.__all__} - {dp.batches.BatchScheme}
    assert {type(plan) for plan in PLANS} == schemes


@pytest.mark.parametrize("plan", PLANS, ids=ids)
@pytest.mark.parametrize("workers", [2, 3, 50])
def test_workers_together_see_what_one_sees(plan: Any, workers: int) -> None:
    whole = list(plan.batches(KEY))
    parts = [list(plan.batches(KEY, shard=(worker, workers))) for worker in range(workers)]
    for step, batch in enumerate(whole):
        own = [part[step] for part in parts]
        together = np.sort(np.concatenate(own))
        assert together.dtype == batch.dtype
        assert together.tobytes() == batch.tobytes()
        sizes = [one.size for one in own]
        assert max(sizes) - min(sizes) <= 1
        repeated = getattr(plan, "replacement", False)
        assert all(np.all(np.diff(one) >= (0 if repeated else 1)) for one in own)


@pytest.mark.parametrize("plan", PLANS, ids=ids)
def test_a_run_goes_on_from_any_step(plan: Any) -> None:
    whole = as_sets(plan.batches(KEY))
    assert len(whole) == plan.steps
    for start in range(plan.steps + 1):
        assert as_sets(plan.batches(KEY, start=start)) == whole[start:]
    assert as_sets(plan.batches(KEY, start=5, shard=(1, 2))) == tuple(
        batch[1::2] for batch in whole[5:]
    )


@pytest.mark.parametrize("plan", LARGE, ids=ids)
def test_a_large_run_goes_on_from_any_step(plan: Any) -> None:
    start = plan.steps - 700_001
    whole = as_sets(itertools.islice(plan.batches(KEY, start=start), 5))
    assert as_sets(itertools.islice(plan.batches(KEY, start=start + 3), 2)) == whole[3:]
    shared = itertools.islice(plan.batches(KEY, start=start, shard=(2, 3)), 5)
    assert as_sets(shared) == tuple(batch[2::3] for batch in whole)
    assert all(len(set(batch)) == len(batch) for batch in whole)


def test_steps_may_be_left_out_and_come_back_in_halving(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths of a halving are kept between steps; every step is the same without them."""
    monkeypatch.setattr(allocation, "LARGEST_HELD", 0)
    plan = dp.RandomAllocation(steps=13, participations=3, epochs=2, dataset_size=30)
    whole = as_sets(plan.batches(KEY))
    alone = tuple(as_sets([next(plan.batches(KEY, start=step))])[0] for step in range(plan.steps))
    assert alone == whole


@pytest.mark.parametrize("plan", PLANS, ids=ids)
def test_a_longer_run_begins_with_a_shorter_one(plan: Any) -> None:
    longer = {"epochs": 9} if hasattr(plan, "epochs") else {"steps": 3 * plan.steps}
    more = as_sets(dataclasses.replace(plan, **longer).batches(KEY))
    assert more[: plan.steps] == as_sets(plan.batches(KEY))
    assert len(more) > plan.steps


@pytest.mark.parametrize(
    "plan", [plan for plan in PLANS if not isinstance(plan, dp.DeterministicBatches)], ids=ids
)
def test_keys_tell_runs_apart(plan: Any) -> None:
    runs = [KEY, KEY + b"!", 0, 1, np.random.default_rng(1), None, None]
    assert len({as_sets(plan.batches(run)) for run in runs}) == len(runs)
    assert as_sets(plan.batches(np.int64(1))) == as_sets(plan.batches(1))
    assert as_sets(plan.batches(bytes(KEY))) == as_sets(plan.batches(KEY))


def test_schemes_share_nothing_under_one_key() -> None:
    """Two schemes that draw alike, and two sizes of one scheme, are different runs of one key."""
    plans = [
        dp.FixedSizeBatches(dataset_size=1000, batch_size=10, steps=5),
        dp.FixedSizeBatches(dataset_size=1000, batch_size=11, steps=5),
        dp.TruncatedPoissonBatches(
            dataset_size=1000, batch_size=10, steps=5, physical_batch_size=10
        ),
        dp.PoissonBatches(sample_rate=0.01, steps=5, dataset_size=1000),
        dp.PoissonBatches(sample_rate=0.011, steps=5, dataset_size=1000),
    ]
    firsts = [frozenset(next(plan.batches(KEY)).tolist()) for plan in plans]
    for one, other in itertools.combinations(firsts, 2):
        assert len(one & other) <= 7  # of ten or so; more in common once in 10^9 keys


SCRIPT = """
import json, sys
import sharpdp as dp
plan = dp.BallsAndBins(dataset_size=5000, batch_size=10, epochs=40)
start = int(sys.argv[1])
for batch in plan.batches(bytes.fromhex(sys.argv[2]), start=start):
    print(json.dumps(batch.tolist()), flush=True)
"""


def test_a_killed_pass_goes_on_where_it_was() -> None:
    """A process is killed in the middle of a pass; another one goes on, from the key and a number."""
    plan = dp.BallsAndBins(dataset_size=5000, batch_size=10, epochs=40)

    def started(step: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", SCRIPT, str(step), KEY.hex()]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def lines(process: subprocess.Popen[str], count: int) -> list[list[int]]:
        assert process.stdout is not None
        return [json.loads(process.stdout.readline()) for _ in range(count)]

    found: list[list[int]] = []
    for count in (700, 500):
        with started(len(found)) as process:
            found += lines(process, count)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    whole = itertools.islice(plan.batches(KEY), len(found))
    assert found == [batch.tolist() for batch in whole]


@pytest.mark.parametrize("plan", PLANS, ids=ids)
@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"start": -1}, dp.InvalidArgument, "start must be a whole number, at least 0; got -1."),
        ({"start": 1.5}, dp.InvalidArgument, "start must be a whole number, at least 0; got 1.5."),
        ({"start": "1"}, WrongType, "start must be a whole number, at least 0; got '1'"),
        ({"start": 10**6}, dp.InvalidArgument, "start must be at most steps = "),
        ({"shard": (2, 2)}, dp.InvalidArgument, "worker must be below workers = 2; got 2."),
        ({"shard": (0, 0)}, dp.InvalidArgument, "workers must be a whole number, at least 1"),
        ({"shard": (-1, 2)}, dp.InvalidArgument, "worker must be a whole number, at least 0"),
        (
            {"shard": 2},
            WrongType,
            "shard must be a worker and the number of workers; got 2.",
        ),
        (
            {"shard": (0, 1, 2)},
            WrongType,
            "shard must be a worker and the number of workers",
        ),
        ({"shard": (0, None)}, WrongType, "workers must be a whole number, at least 1"),
    ],
)
def test_what_is_refused(plan: Any, arguments: Any, error: type, sentence: str) -> None:
    with pytest.raises(error) as caught:
        plan.batches(KEY, **arguments)
    assert type(caught.value) is error
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    "plan", [plan for plan in PLANS if not isinstance(plan, dp.DeterministicBatches)], ids=ids
)
@pytest.mark.parametrize("arguments", [{"start": 1}, {"shard": (0, 2)}])
@pytest.mark.parametrize("rng", [None, np.random.default_rng(0)])
def test_no_run_goes_on_without_its_key(plan: Any, arguments: Any, rng: Any) -> None:
    with pytest.raises(
        dp.InvalidArgument, match=r"^rng must be a key \(bytes\) or a seed to start"
    ):
        plan.batches(rng, **arguments)


@pytest.mark.parametrize("key", [b"", b"short", b"fifteen bytes.."])
def test_short_keys_are_refused(key: bytes) -> None:
    for plan in PLANS:
        with pytest.raises(dp.InvalidArgument, match=r"^rng must be a key \(bytes, at least 16\)"):
            plan.batches(key)


def test_batches_are_the_same_in_every_version() -> None:
    """A run that was begun with one version of sharpdp can be finished with the next.

    These digests are what the first version with keys gave. A change of them breaks runs under way:
    it must be deliberate, and be said in the changelog.
    """
    assert {ids(plan): digest(plan) for plan in [*PLANS, *LARGE]} == DIGESTS
