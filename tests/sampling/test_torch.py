"""The bridge to torch: batches as lists, empty ones, ranks, states; with torch itself if it is there."""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.integrations import torch as bridge
from tests.sampling.chances import KEY, as_sets

PLAN = dp.PoissonBatches(sample_rate=0.05, steps=30, dataset_size=20)
EPOCHS = dp.BallsAndBins(dataset_size=20, batch_size=5, epochs=3)
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)


def test_batches_are_those_of_the_scheme() -> None:
    lists = list(bridge.BatchSampler(PLAN, KEY))
    assert lists == [list(batch) for batch in as_sets(PLAN.batches(KEY))]
    assert [] in lists
    assert all(type(index) is int for batch in lists for index in batch)


def test_ranks_together_see_what_one_sees() -> None:
    whole = list(bridge.BatchSampler(PLAN, KEY))
    ranks = [list(bridge.BatchSampler(PLAN, KEY, shard=(rank, 3))) for rank in range(3)]
    assert [len(batches) for batches in ranks] == [PLAN.steps] * 3
    assert [sorted(itertools.chain(*parts)) for parts in zip(*ranks, strict=True)] == whole


def test_passes_are_epochs_and_the_run_ends() -> None:
    sampler = bridge.BatchSampler(EPOCHS, KEY, steps_per_pass=EPOCHS.steps_per_epoch)
    whole = []
    for _ in range(EPOCHS.epochs):
        assert len(sampler) == 4
        epoch = list(sampler)
        assert sorted(itertools.chain(*epoch)) == list(range(20))
        whole += epoch
    assert whole == [list(batch) for batch in as_sets(EPOCHS.batches(KEY))]
    assert len(sampler) == 0
    with pytest.raises(dp.InvalidArgument, match=r"^the run of 12 steps is over"):
        list(sampler)


def test_a_state_goes_on_where_it_was() -> None:
    whole = list(bridge.BatchSampler(PLAN, KEY))
    sampler = bridge.BatchSampler(PLAN, KEY)
    batches = iter(sampler)
    first = [next(batches) for _ in range(11)]
    state = sampler.state_dict()
    later = bridge.BatchSampler(PLAN, KEY)
    later.load_state_dict(state)
    assert len(later) == 19
    assert first + list(later) == whole
    behind = bridge.BatchSampler(PLAN, KEY)
    behind.load_state_dict(sampler.state_dict(step=9))
    assert list(behind) == whole[9:]


def test_a_pass_that_was_left_is_finished() -> None:
    whole = list(bridge.BatchSampler(EPOCHS, KEY))
    sampler = bridge.BatchSampler(EPOCHS, KEY, steps_per_pass=4)
    found = []
    for batch in sampler:
        found.append(batch)
        if len(found) == 3:
            break
    assert len(sampler) == 1
    found += list(sampler)
    assert found == whole[:4]
    assert len(sampler) == 4


def test_two_passes_at_once_are_refused() -> None:
    sampler = bridge.BatchSampler(PLAN, KEY)
    one, other = iter(sampler), iter(sampler)
    next(one)
    next(other)
    with pytest.raises(dp.InvalidArgument, match=r"^only one pass may be under way"):
        next(one)


def test_a_state_does_not_give_the_key_away() -> None:
    state = bridge.BatchSampler(PLAN, KEY).state_dict()
    assert set(state) == {"step", "fingerprint"}
    assert KEY.hex() not in str(state)
    assert KEY.decode() not in str(state)
    other = bridge.BatchSampler(PLAN, KEY + b"!")
    with pytest.raises(
        dp.InvalidArgument, match=r"^state must come from a sampler with the same key"
    ):
        other.load_state_dict(state)
    with pytest.raises(dp.InvalidArgument, match=r"^step must be at most steps = 30"):
        bridge.BatchSampler(PLAN, KEY).load_state_dict({**state, "step": 31})
    with pytest.raises(WrongType, match=r"^state must be one that state_dict"):
        bridge.BatchSampler(PLAN, KEY).load_state_dict([1])
    with pytest.raises(dp.InvalidArgument, match=r"^step must be at most steps = 30"):
        bridge.BatchSampler(PLAN, KEY).state_dict(step=31)


def test_keys_are_fresh_and_kept() -> None:
    one, other = bridge.BatchSampler(PLAN), bridge.BatchSampler(PLAN)
    assert one.key != other.key
    assert list(one) == list(bridge.BatchSampler(PLAN, one.key))


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: bridge.BatchSampler([[0, 1]]), "scheme must be a batch scheme; got [[0, 1]]."),
        (lambda: bridge.BatchSampler(PLAN, "key"), "key must be bytes, a seed or None; got 'key'."),
        (lambda: bridge.BatchSampler(PLAN, b"short"), "rng must be a key (bytes, at least 16)"),
        (
            lambda: bridge.BatchSampler(PLAN, shard=(0, 2)),
            "key must be given, the same to every worker, with shard = (0, 2); got None.",
        ),
        (lambda: bridge.BatchSampler(PLAN, KEY, shard=(3, 3)), "worker must be below workers = 3"),
        (
            lambda: bridge.BatchSampler(PLAN, KEY, steps_per_pass=0),
            "steps_per_pass must be a whole",
        ),
        (
            lambda: bridge.BatchSampler(dp.PoissonBatches(sample_rate=0.1, steps=3)),
            "dataset_size must be given to draw batches",
        ),
    ],
)
def test_what_a_sampler_refuses(make: Any, sentence: str) -> None:
    with pytest.raises(dp.InvalidArgument) as caught:
        make()
    assert str(caught.value).startswith(sentence)


Record = namedtuple("Record", "image label")


def stacked(examples: list[Any]) -> Any:
    """What torch's default does with arrays, text, dictionaries, lists and named tuples."""
    first = examples[0]
    if isinstance(first, dict):
        return {name: stacked([one[name] for one in examples]) for name in first}
    if isinstance(first, Record):
        return Record(*(stacked(list(parts)) for parts in zip(*examples, strict=True)))
    if isinstance(first, list):
        return [stacked(list(parts)) for parts in zip(*examples, strict=True)]
    return list(examples) if isinstance(first, str) else np.stack(examples)


def test_an_empty_batch_looks_like_any_other() -> None:
    example = Record(
        np.zeros((3, 4), np.float32), {"class": np.int64(1), "name": "a", "pair": [np.ones(2)] * 2}
    )
    collate = bridge.Collate(example, stacked)
    full, empty = collate([example, example]), collate([])
    assert full.image.shape == (2, 3, 4)
    assert type(empty) is Record
    assert empty.image.shape == (0, 3, 4)
    assert empty.image.dtype == np.float32
    assert empty.label["class"].shape == (0,)
    assert empty.label["class"].dtype == np.int64
    assert empty.label["name"] == []
    assert [part.shape for part in empty.label["pair"]] == [(0, 2), (0, 2)]
    with pytest.raises(WrongType, match=r"^collate must return arrays"):
        bridge.Collate(example, lambda examples: 3)([])


def test_a_fixed_number_of_places_is_filled_up_and_masked() -> None:
    plan = dp.TruncatedPoissonBatches(
        dataset_size=20, batch_size=2, steps=50, physical_batch_size=3
    )
    collate = bridge.Collate(np.full(2, -7.0), np.stack, places=3)
    data = np.arange(40.0).reshape(20, 2)
    sizes = set()
    for indices in bridge.BatchSampler(plan, KEY):
        batch, mask = collate([data[index] for index in indices])
        assert batch.shape == (3, 2)
        assert mask.tolist() == [place < len(indices) for place in range(3)]
        assert np.array_equal(batch[mask], data[indices])
        assert np.all(batch[~mask] == -7.0)
        sizes.add(len(indices))
    assert sizes == {0, 1, 2, 3}
    with pytest.raises(dp.InvalidArgument, match=r"^examples must be at most places = 3; got 4"):
        collate([data[0]] * 4)


def test_what_needs_torch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    for ask in (
        lambda: bridge.Collate(1.0),
        lambda: bridge.loader([], bridge.BatchSampler(PLAN)),
        bridge.shard_of_rank,
        bridge.shared_key,
    ):
        with pytest.raises(dp.MissingExtra, match=r"pip install torch$"):
            ask()


@needs_torch
@pytest.mark.parametrize("workers", [0, 2])
def test_a_real_loader_yields_every_batch(workers: int) -> None:
    import torch
    from torch.utils.data import TensorDataset

    data = TensorDataset(torch.arange(40.0).reshape(20, 2), torch.arange(20))
    loader = bridge.loader(data, bridge.BatchSampler(PLAN, KEY), num_workers=workers)
    assert len(loader) == PLAN.steps
    batches = list(loader)
    assert [labels.tolist() for _, labels in batches] == list(bridge.BatchSampler(PLAN, KEY))
    for values, labels in batches:
        assert values.shape == (len(labels), 2)
        assert values.dtype == torch.float32
        assert labels.dtype == torch.int64
    with pytest.raises(dp.InvalidArgument, match=r"^dataset must be of dataset_size = 20 examples"):
        bridge.loader(TensorDataset(torch.zeros(21)), bridge.BatchSampler(PLAN, KEY))


@needs_torch
def test_a_process_that_is_alone_has_the_whole() -> None:
    assert bridge.shard_of_rank() == (0, 1)
    assert len(bridge.shared_key()) == 32
    assert bridge.shared_key() != bridge.shared_key()


WORKER = """
import json, sys
import torch, torch.distributed as distributed
from torch.utils.data import TensorDataset
import sharpdp as dp
from sharpdp.integrations.torch import BatchSampler, loader, shard_of_rank, shared_key

rank, store = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
plan = dp.PoissonBatches(sample_rate=0.05, steps=30, dataset_size=20)
key = shared_key()
sampler = BatchSampler(plan, key, shard=shard_of_rank())
found = [labels.tolist() for (labels,) in loader(TensorDataset(torch.arange(20)), sampler)]
distributed.barrier()
print(json.dumps([key.hex(), found]))
distributed.destroy_process_group()
"""


@needs_torch
@pytest.mark.slow
def test_real_ranks_share_one_run(tmp_path: Path) -> None:
    commands = [
        [sys.executable, "-c", WORKER, str(rank), str(tmp_path / "store")] for rank in (0, 1)
    ]
    started = [subprocess.Popen(one, stdout=subprocess.PIPE, text=True) for one in commands]
    (key, first), (other, second) = (json.loads(one.communicate()[0]) for one in started)
    assert key == other
    whole = as_sets(PLAN.batches(bytes.fromhex(key)))
    assert [tuple(sorted(a + b)) for a, b in zip(first, second, strict=True)] == list(whole)
