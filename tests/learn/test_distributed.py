"""Models that are wrapped for several workers, and processes that train together, are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing, nn

import sharpdp as dp
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gradients import ClippedGradients

PLAN = dp.DPSGD(dp.DeterministicBatches(dataset_size=8, batch_size=4, epochs=1), noise_multiplier=1)


def training(model: nn.Module) -> Training:
    return Training(PLAN, model, nn.MSELoss(), torch.ones(8, 3), torch.ones(8, 1), clip=1.0)


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of this process only."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1
    )
    yield
    distributed.destroy_process_group()


def test_s7_a_model_in_data_parallel_is_refused() -> None:
    for model in (
        nn.DataParallel(nn.Linear(3, 1)),
        nn.Sequential(nn.DataParallel(nn.Linear(3, 1))),
    ):
        with pytest.raises(dp.InvalidArgument, match="distributed training; got DataParallel"):
            training(model)
        with pytest.raises(dp.InvalidArgument, match="distributed training; got DataParallel"):
            ClippedGradients(model, nn.MSELoss(), clip=1.0)


@pytest.mark.usefixtures("alone")
def test_s7_a_model_in_distributed_data_parallel_is_refused() -> None:
    wrapped = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
    with pytest.raises(dp.InvalidArgument, match="got DistributedDataParallel"):
        training(wrapped)
    assert training(wrapped.module).run(progress=False).step == 2  # one rank alone may train


@pytest.mark.usefixtures("alone")
def test_s7_a_fully_sharded_model_is_refused() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = nn.Linear(3, 1)
    fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    with pytest.raises(dp.InvalidArgument, match="got fully sharded data parallel"):
        training(model)


def test_s7_a_model_in_the_first_kind_of_fully_sharded_wrapper_is_refused() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    wrapped = FullyShardedDataParallel.__new__(FullyShardedDataParallel)  # wants an accelerator
    nn.Module.__init__(wrapped)
    with pytest.raises(dp.InvalidArgument, match="got fully sharded data parallel"):
        ClippedGradients(wrapped, nn.MSELoss(), clip=1.0)


def test_s7_a_process_group_of_several_ranks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    run = training(nn.Linear(3, 1))
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(distributed, "get_world_size", lambda: 2)
    with pytest.raises(dp.InvalidArgument, match="got a process group of 2 ranks"):
        training(nn.Linear(3, 1))
    with pytest.raises(dp.InvalidArgument, match="got a process group of 2 ranks"):
        run.advance()
    assert run.step == 0


def _one_of_two(rank: int, folder: str) -> None:
    meet = f"file://{folder}/meet"
    distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    try:
        training(nn.Linear(3, 1))
    except dp.InvalidArgument as refusal:
        Path(folder, str(rank)).write_text(str(refusal))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.slow
def test_s7_two_processes_are_refused(tmp_path: Path) -> None:
    multiprocessing.spawn(_one_of_two, args=(str(tmp_path),), nprocs=2)
    for rank in "01":
        assert "a process group of 2 ranks" in (tmp_path / rank).read_text()
