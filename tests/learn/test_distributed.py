"""Several ranks train as one process would: same batches, same noise, same parameters."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import sharpdp as dp
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gradients import ClippedGradients
from sharpdp.learn.ranks import Ranks
from tests.learn import ranks_that_train
from tests.learn.forked_ranks import exit_codes

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


def written(size: int, folder: Path, *tasks: str) -> dict[str, list[str]]:
    """For each task what every one of some processes wrote."""
    return {
        task: [(folder / f"{task}-{rank}").read_text() for rank in range(size)] for task in tasks
    }


def on_ranks(size: int, folder: Path, *tasks: str) -> dict[str, list[str]]:
    """For each task what every one of some processes wrote; an error of one is the test's."""
    assert exit_codes(ranks_that_train.__name__, folder, (size, *tasks)) == [[0] * size]
    return written(size, folder, *tasks)


TWO_RANKS = (
    "plain",
    "wrapped",
    "correlated",
    "random",
    "noise_of_its_own",
    "shards",
    "shards_resumed",
    "different",
    "failing",
    "budget",
    "batches",
    "own_loop",
    "own_order",
    "random_rows",
)


@pytest.fixture(scope="module")
def two_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def ended(two_folder: Path) -> list[list[int]]:
    """How all ranks ended, which are forked from one process: it imports torch once."""
    groups = ((2, *TWO_RANKS), (2, "killed"), (3, "resumed"))
    return exit_codes(ranks_that_train.__name__, two_folder, *groups)


@pytest.fixture(scope="module")
def two_ranks(two_folder: Path, ended: list[list[int]]) -> dict[str, list[str]]:
    """What two processes found, task after task."""
    assert ended[0] == [0, 0]
    return written(2, two_folder, *TWO_RANKS)


def test_two_ranks_train_what_one_process_does(two_ranks: dict[str, list[str]]) -> None:
    """Bit for bit: batches of any size, empty parts included, in DistributedDataParallel or not."""
    alone = ranks_that_train.trained(ranks_that_train.run())
    assert two_ranks["plain"] == two_ranks["wrapped"] == [alone, alone]


def test_a_loop_of_ones_own_on_two_ranks_is_that_of_one_process(
    two_ranks: dict[str, list[str]], tmp_path: Path
) -> None:
    """Bit for bit: ranks share out pieces, in which torch rounds as it does on one process."""
    assert two_ranks["own_loop"] == [ranks_that_train.own_loop(tmp_path)] * 2


def test_ranks_whose_data_differ_do_not_train_together(two_ranks: dict[str, list[str]]) -> None:
    assert two_ranks["own_order"] == ["data must be the same on all 2 ranks"] * 2
    claimed = {text.split()[1] for text in two_ranks["own_loop"]}
    assert set(two_ranks["random_rows"]) == claimed


def test_correlated_noise_is_the_same_on_two_ranks_and_after_a_resume(
    two_ranks: dict[str, list[str]], tmp_path: Path
) -> None:
    assert two_ranks["correlated"] == [ranks_that_train.correlated(tmp_path)] * 2


def test_random_layers_draw_the_same_on_any_number_of_ranks(
    two_ranks: dict[str, list[str]], tmp_path: Path
) -> None:
    assert two_ranks["random"] == [ranks_that_train.random(tmp_path)] * 2


def test_ranks_with_noise_of_their_own_are_told_apart(two_ranks: dict[str, list[str]]) -> None:
    """They would release the same sum twice."""
    assert two_ranks["noise_of_its_own"] == ["parameters must be the same on all 2 ranks"] * 2


def test_a_run_of_two_ranks_goes_on_with_one_and_with_three(
    two_folder: Path, ended: list[list[int]]
) -> None:
    """Rank 1 is killed in a step: nothing that was released is left out, and nothing is counted twice."""
    alone = ranks_that_train.trained(ranks_that_train.run())
    _, (first, second), three = ended
    assert second == -signal.SIGKILL
    assert first != 0
    resumed = ranks_that_train.run().resume(two_folder / "copy.pt")
    assert resumed.step == 5
    assert resumed.begun == 6  # rank 0 cannot know whether rank 1 had the sum of the sixth step
    resumed.run(progress=False)
    assert ranks_that_train.trained(resumed) == alone
    assert three == [0] * 3
    assert written(3, two_folder, "resumed") == {"resumed": [alone] * 3}


def test_ranks_that_disagree_are_told_so(two_ranks: dict[str, list[str]]) -> None:
    for words in two_ranks["different"]:
        assert words.splitlines() == [
            "data must be the same on all 2 ranks",
            "parameters must be the same on all 2 ranks",
            "key must be the same on all 2 ranks",
        ]


def test_a_failure_on_one_rank_stops_all_and_releases_nothing(
    two_ranks: dict[str, list[str]],
) -> None:
    first, second = two_ranks["failing"]
    assert first == "0 1 other ranks could not compute their part of the sum"
    assert second.startswith("0 gradients must be finite")


def test_a_budget_is_spent_once(two_ranks: dict[str, list[str]]) -> None:
    assert two_ranks["budget"] == ["5 steps, 1 release"] * 2


def test_the_batches_of_all_ranks_pass_the_audit(two_ranks: dict[str, list[str]]) -> None:
    """And those of ranks that draw the same batches do not."""
    scheme = ranks_that_train.PLAN.batches
    parts = [[*map(indices_of, text.splitlines())] for text in two_ranks["batches"]]
    steps = [[*first, *second] for first, second in zip(*parts, strict=True)]
    assert dp.audit.sampler(batches=steps, scheme=scheme).consistent
    twice = [[*first, *first] for first in parts[0]]
    assert not dp.audit.sampler(batches=twice, scheme=scheme).consistent


@pytest.mark.slow
def test_an_audit_by_canaries_tells_a_true_run_from_one_that_counts_records_thrice(
    tmp_path: Path,
) -> None:
    alone = ranks_that_train.canaries(tmp_path)
    assert alone.startswith("consistent")
    found = on_ranks(3, tmp_path, "canaries", "same_batches")
    assert found["canaries"] == [alone] * 3
    assert all(verdict.startswith("contradicted") for verdict in found["same_batches"])


def indices_of(line: str) -> list[int]:
    return [int(word) for word in line.split()]


@pytest.mark.slow
def test_the_example_prints_equal_hashes(tmp_path: Path) -> None:
    """`torchrun --nproc-per-node 2 examples/distributed_training.py`, as the page says."""
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}:{os.environ.get('PYTHONPATH', '')}"}
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    # on a machine with much other work, a minute may not be enough to meet
    patience = ["--rdzv-conf", "timeout=900,read_timeout=600"]
    done = subprocess.run(
        [*torchrun, "2", *patience, str(root / "examples" / "distributed_training.py")],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = [line.split()[-1] for line in done.stdout.splitlines() if "parameters" in line]
    assert len(seen) == 2
    assert len(set(seen)) == 1


def test_a_model_in_data_parallel_is_refused() -> None:
    for model in (
        nn.DataParallel(nn.Linear(3, 1)),
        nn.Sequential(nn.DataParallel(nn.Linear(3, 1))),
    ):
        with pytest.raises(dp.InvalidArgument, match="distributed training; got DataParallel"):
            training(model)
        with pytest.raises(dp.InvalidArgument, match="distributed training; got DataParallel"):
            ClippedGradients(model, nn.MSELoss(), clip=1.0)


@pytest.mark.usefixtures("alone")
def test_the_gradients_of_a_wrapped_model_are_refused_and_its_training_is_not() -> None:
    wrapped = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
    with pytest.raises(dp.InvalidArgument, match="got DistributedDataParallel"):
        ClippedGradients(wrapped, nn.MSELoss(), clip=1.0)
    assert training(wrapped).run(progress=False).step == 2
    assert training(wrapped.module).run(progress=False).step == 2


def test_a_fully_sharded_model_trains_as_a_plain_one_does(two_ranks: dict[str, list[str]]) -> None:
    """Bit for bit, also if it is saved in the middle and goes on."""
    alone = ranks_that_train.trained(ranks_that_train.run())
    assert two_ranks["shards_resumed"] == [alone, alone]


def test_a_checkpoint_of_shards_goes_on_in_one_process(
    two_ranks: dict[str, list[str]], two_folder: Path
) -> None:
    """With the state of its optimizer, which was in shards as well."""
    assert len(set(two_ranks["shards"])) == 1
    plain = ranks_that_train.run().resume(two_folder / "half.pt")
    assert plain.step == 11
    alone = ranks_that_train.trained(ranks_that_train.run())
    assert ranks_that_train.trained(plain) == alone


@pytest.mark.usefixtures("alone")
def test_the_gradients_of_a_fully_sharded_model_are_refused_and_its_training_is_not() -> None:
    mesh = init_device_mesh("cpu", (1,))
    model = fully_shard(nn.Linear(3, 1), mesh=mesh)
    with pytest.raises(dp.InvalidArgument, match="got fully sharded data parallel"):
        ClippedGradients(model, nn.MSELoss(), clip=1.0)
    assert training(model).run(progress=False).step == 2
    partly = nn.Sequential(fully_shard(nn.Linear(3, 2), mesh=mesh), nn.Linear(2, 1))
    with pytest.raises(dp.InvalidArgument, match=r"sharded over all 1 ranks.*got '1\.weight'"):
        training(partly)
    hooked = fully_shard(nn.Linear(3, 1), mesh=mesh)
    hooked.register_forward_hook(lambda _, __, out: out - out.mean(0))
    with pytest.raises(dp.InvalidArgument, match="model must have no hooks"):
        training(hooked)


def test_a_model_in_the_first_kind_of_fully_sharded_wrapper_is_refused() -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel

    wrapped = FullyShardedDataParallel.__new__(FullyShardedDataParallel)  # wants an accelerator
    nn.Module.__init__(wrapped)
    with pytest.raises(dp.InvalidArgument, match="got fully sharded data parallel"):
        ClippedGradients(wrapped, nn.MSELoss(), clip=1.0)


def test_ranks_may_not_join_a_run_that_has_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    run = training(nn.Linear(3, 1))
    monkeypatch.setattr(Ranks, "of_process", classmethod(lambda cls: cls(0, 2)))
    with pytest.raises(dp.InvalidArgument, match="1 ranks when it was made and 2 now"):
        run.advance()
    assert run.step == 0


def test_the_hash_of_a_run_depends_on_its_parameters() -> None:
    """What the tests above compare can differ."""
    other = ranks_that_train.run()
    assert ranks_that_train.trained(other) != ranks_that_train.trained(
        ranks_that_train.run(key=hashlib.sha256(b"other").digest())
    )
