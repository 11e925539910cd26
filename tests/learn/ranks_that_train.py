"""Several processes that train together, for the tests of distributed training.

python -m tests.learn.ranks_that_train FOLDER SIZE:TASK:TASK... SIZE:TASK...
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import warnings
from datetime import timedelta
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.integrations.private_gradients import PrivateGradients
from sharpdp.learn.checkpoint import fingerprint
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.ranks import Ranks
from tests.learn.forked_ranks import fork

PLAN = dp.DPSGD(dp.PoissonBatches(dataset_size=40, batch_size=2, steps=30), noise_multiplier=0.5)
KEY = b"k" * 32


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(40, 3, generator=generator), torch.arange(40) % 2


def run(some_model: nn.Module | None = None, plan: Any = PLAN, **more: Any) -> Training:
    inputs, targets = data()
    settings: dict[str, Any] = {"clip": 0.7, "key": KEY, "inputs": inputs, **more}
    optimizer_of = some_model or model()
    settings.setdefault("physical_batch_size", 1)  # so that every rank has pieces of most batches
    adam = torch.optim.Adam(optimizer_of.parameters(), lr=0.1)
    return Training(
        plan,
        optimizer_of,
        nn.CrossEntropyLoss(),
        settings.pop("inputs"),
        targets,
        optimizer=adam,
        **settings,
    )


def trained(training: Training) -> str:
    """Train to the end; a hash of the parameters, and epsilon."""
    training.run(progress=False)
    digest = fingerprint("", *training.model.state_dict().values())
    return f"{digest} {training.epsilon(delta=1e-5).upper}"


def in_shards() -> nn.Module:
    """The model, each of its layers and all of it fully sharded over all ranks."""
    plain = model()
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),))
    for layer in plain.children():
        fully_shard(layer, mesh=mesh)
    fully_shard(plain, mesh=mesh)
    return plain


def shards(folder: Path) -> str:
    """Half of a run of a sharded model, saved; what each rank holds of the first layer is a part."""
    training = run(in_shards())
    held = training.model[0].weight.to_local().shape  # type: ignore[index,union-attr,operator]
    assert held == (4 // distributed.get_world_size(), 3)
    training.run(steps=11, checkpoint=folder / "shards.pt", every=4, progress=False)
    training.close()
    if distributed.get_rank() == 0:
        (folder / "half.pt").write_bytes((folder / "shards.pt").read_bytes())
    return " ".join(str(float(value.sum())) for value in training.gradients.parameters.values())


def shards_resumed(folder: Path) -> str:
    """The other half, in other processes' shards; the sharded model itself has what its twin has."""
    training = run(in_shards()).resume(folder / "shards.pt")
    training.run(progress=False)
    whole = {name: value.full_tensor() for name, value in training.model.named_parameters()}  # type: ignore[operator]
    assert all(
        torch.equal(whole[name], value) for name, value in training.gradients.parameters.items()
    )
    inputs = data()[0]
    assert torch.allclose(training.model(inputs), training.gradients.model(inputs))
    return f"{fingerprint('', *whole.values())} {training.epsilon(delta=1e-5).upper}"


def random(_: Path) -> str:
    """A model that draws random numbers in every piece."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(3, 9), nn.Dropout(0.5), nn.Linear(9, 2))
    return trained(run(layers, physical_batch_size=2))


def correlated(folder: Path) -> str:
    """A run with correlated noise that is saved and resumed in the middle."""
    plan = dp.CorrelatedNoise(
        dp.DeterministicBatches(dataset_size=40, batch_size=4, epochs=2),
        strategy=dp.BandedStrategy(coefficients=(1.0, 0.5, 0.3)),
        noise_multiplier=2.0,
    )
    first = run(plan=plan).run(steps=7, checkpoint=folder / "correlated.pt", progress=False)
    first.close()
    again = run(plan=plan, key=b"x" * 32).resume(folder / "correlated.pt")
    return trained(again)


def plain(_: Path) -> str:
    return trained(run())


def wrapped(_: Path) -> str:
    return trained(run(nn.parallel.DistributedDataParallel(model())))


def own_loop(_: Path, **more: Any) -> str:
    """A loop of one's own over pieces of two examples, the last of them often of one."""
    some_model, (inputs, targets) = model(), data()
    settings: dict[str, Any] = {"data": TensorDataset(inputs, targets), **more}
    gradients = PrivateGradients(
        PLAN,
        some_model,
        lambda network, rows: nn.functional.cross_entropy(network(rows[0]), rows[1]),
        settings.pop("data"),
        clip=0.7,
        key=KEY,
        physical_batch_size=2,
        **settings,
    )
    adam = torch.optim.Adam(some_model.parameters(), lr=0.1)
    gradients.guard(adam)
    while gradients.step < gradients.last:
        for batch in gradients.loader():
            gradients.backward(batch)
            adam.step()
    digest = fingerprint("", *some_model.state_dict().values())
    return f"{digest} {gradients.epsilon(delta=1e-5).upper}"


def own_order(_: Path) -> str:
    """Rank 1 has the records in another order, so that a record may be in a batch twice."""
    inputs, targets = data()
    order = torch.arange(40).roll(distributed.get_rank())
    try:
        return own_loop(_, data=TensorDataset(inputs[order], targets[order]))
    except dp.InvalidArgument as refusal:
        return str(refusal).partition(";")[0]


def random_rows(folder: Path) -> str:
    """Examples that are drawn anew whenever they are read are not compared."""
    inputs, targets = data()

    class Noisy(TensorDataset):
        def __getitem__(self, index: int) -> Any:
            return inputs[index] + 0.1 * torch.randn(3), targets[index]

    torch.manual_seed(distributed.get_rank())
    return own_loop(folder, data=Noisy(inputs)).split()[1]


def killed(folder: Path) -> str:
    """Rank 1 is gone in step 5, after the run was saved at step 4."""
    training = run()
    training.run(steps=4, checkpoint=folder / "run.pt", every=2, progress=False)
    take = training.gradients.sum

    def gone(*some: Any) -> Any:
        if training.step == 5 and distributed.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return take(*some)

    object.__setattr__(training.gradients, "sum", gone)
    return trained(training)


def resumed(folder: Path) -> str:
    """The run that was killed goes on; a copy is left for one process."""
    if distributed.get_rank() == 0:
        shutil.copyfile(folder / "run.pt", folder / "copy.pt")
    distributed.barrier()
    return trained(run().resume(folder / "run.pt"))


def different(_: Path) -> str:
    """Data, parameters and keys that are not the same, one after the other."""
    rank, words = distributed.get_rank(), []
    for more in ({"inputs": data()[0] + rank}, {"some_model": None}, {"key": bytes([rank]) * 32}):
        if "some_model" in more:
            torch.manual_seed(rank)
            more = {"some_model": nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))}
        try:
            run(**more)
        except dp.InvalidArgument as refusal:
            words.append(str(refusal).partition(";")[0])
    return "\n".join(words)


def failing(_: Path) -> str:
    """A record without a gradient stops rank 1, and with it the other one."""
    inputs = data()[0]
    inputs[:] = float("nan")
    training = run(inputs=inputs, strict=True)
    # only rank 1 looks at its records
    if distributed.get_rank() == 0:
        object.__setattr__(training.gradients, "strict", False)
    try:
        for _step in range(10):
            training.advance()
    except dp.SharpDPError as refusal:
        return f"{training.step} {str(refusal).partition('.')[0]}"
    return "nothing"


def budget(folder: Path) -> str:
    """A ledger that allows five steps is asked by the first rank alone."""
    total = dp.account(PLAN.stopped_after(5), adjacency="zero-out").epsilon(delta=1e-5).upper
    ledger = dp.Ledger(
        folder / "ledger.jsonl",
        epsilon=total * (1 + 1e-6),
        delta=1e-5,
        choice="fixed in advance",
        adjacency="zero-out",
    )
    training = run().run(budget=ledger, budget_key="run", progress=False)
    return f"{training.step} steps, {len(ledger.entries)} release"


def batches(_: Path) -> str:
    """The indices of this rank's part of every batch."""
    training, lines = run(), []
    take = training._part

    def seen(pieces: list[tuple[int, torch.Tensor]]) -> Any:
        lines.append(" ".join(str(index) for _, piece in pieces for index in piece.tolist()))
        return take(pieces)

    training._part = seen  # type: ignore[method-assign]
    training.run(progress=False)
    return "\n".join(lines)


def canaries(_: Path) -> str:
    """A run with canaries, audited; all ranks have the same scores."""
    inputs, targets = data()
    scheme = dp.BallsAndBins(dataset_size=440, batch_size=150, epochs=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dp.audit.canaries(
            dp.DPSGD(scheme, noise_multiplier=2.5),
            model(),
            nn.CrossEntropyLoss(),
            inputs,
            targets,
            clip=1.0,
            key=KEY,
            learning_rate=0.5,
            progress=False,
        )
    verdict = "consistent" if found.audit.consistent else "contradicted"
    return f"{verdict} {fingerprint('', torch.from_numpy(found.scores))}"


def same_batches(folder: Path) -> str:
    """The same, but every rank takes the whole batch, as if it were the only one."""
    pieces = Ranks.pieces
    with mock.patch.object(Ranks, "pieces", lambda _, *sizes: pieces(Ranks(), *sizes)):
        return canaries(folder)


def noise_of_its_own(_: Path) -> str:
    """Every rank draws noise of its own: a release of the same sum for each of them."""
    training = run()
    own = bytes([distributed.get_rank()]) * 32
    training._noise = StepNoise(noise_multiplier=0.5, clip=0.7, key=own)
    try:
        training.run(progress=False)
    except dp.InvalidArgument as refusal:
        return str(refusal).partition(";")[0]
    return "nothing"


def main(folder: Path, size: int, tasks: list[str], rank: int) -> None:
    distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meet-{tasks[0]}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=120),
    )
    for task in tasks:
        (folder / f"{task}-{rank}").write_text(globals()[task](folder))
        distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    import_module("torch._dynamo")  # once for all ranks, whose optimizers need it
    place, *groups = sys.argv[1:]
    for group in groups:
        size, *given = group.split(":")
        fork(int(size), partial(main, Path(place), int(size), given))
