"""One of several processes that train with Opacus, or in a loop of their own, for `test_opacus_modes`.

python -m tests.integrations.ranks_with_opacus FOLDER SIZE RANK
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.integrations.private_gradients import PrivateGradients

warnings.filterwarnings("ignore")  # Opacus and torch warn about each other

KEY = b"k" * 32
SCHEME = dp.PoissonBatches(dataset_size=40, batch_size=2, steps=60)
INPUTS = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))
DATA = TensorDataset(INPUTS, torch.arange(40) % 2, torch.arange(40))
QUIET = 1e-9  # a noise multiplier at which sums can be compared


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def wrapped(module: nn.Module) -> nn.Module:
    """The module, for several processes if there are some."""
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel

    if not distributed.is_initialized():
        return module
    several: nn.Module = DifferentiallyPrivateDistributedDataParallel(module)
    return several


def private(
    module: nn.Module | None = None, *, noise: float = QUIET, **options: Any
) -> tuple[Any, ...]:
    from sharpdp.integrations.opacus import make_private

    inside = wrapped(model()) if module is None else module
    settings = {"key": KEY, "data": DATA, "max_grad_norm": 0.1, **options}
    return make_private(
        module=inside,
        optimizer=torch.optim.SGD(inside.parameters(), lr=0.5),
        plan=dp.DPSGD(SCHEME, noise_multiplier=noise),
        **settings,
    )


def trained(mode: str, **options: Any) -> dict[str, Any]:
    """Parameters, the examples of every step, and epsilon after a run."""
    ghost = {"criterion": nn.CrossEntropyLoss()} if mode == "ghost" else {}
    module, optimizer, *loss, batches, engine = private(grad_sample_mode=mode, **ghost, **options)
    criterion, seen = loss[0] if loss else nn.CrossEntropyLoss(), []
    for _ in range(3):
        for inputs, targets, numbers in batches:
            optimizer.zero_grad()
            criterion(module(inputs), targets).backward()
            optimizer.step()
            seen.append(numbers.tolist())
    flat = torch.cat([value.detach().reshape(-1) for value in module.parameters()])
    rerun = dp.DPSGD(SCHEME, noise_multiplier=1.0)
    claim = engine.accountant.guarantee.mechanism
    same = claim == dp.DPSGD(rerun.batches, noise_multiplier=QUIET)
    return {"parameters": flat.tolist(), "seen": seen, "claim": same}


def noise() -> dict[str, Any]:
    """The noise of one step in units of the clipping norm: how large, and whether all ranks have it."""
    torch.manual_seed(0)  # a public seed, which the noise must not come from
    inside = wrapped(nn.Linear(3, 2000))
    module, optimizer, batches, _ = private(inside, noise=2.0)
    inputs, *_ = next(iter(batches))
    module(inputs).sum().mul(0.0).backward()
    optimizer.step()
    sums = torch.cat([value.grad.reshape(-1) for value in module.parameters()]) * 2.0
    return {"deviation": float(sums.std()) / 0.1, "first": sums[:3].tolist()}


def loop() -> dict[str, Any]:
    """The parameters of a loop of one's own, and the examples of every step."""

    def loss(network: nn.Module, rows: Any) -> torch.Tensor:
        return nn.functional.cross_entropy(network(rows[0]), rows[1])

    plan = dp.DPSGD(SCHEME, noise_multiplier=1.0)
    run = PrivateGradients(
        plan, model(), loss, DATA, clip=0.1, key=KEY, physical_batch_size=1
    )  # so that both ranks have examples of most batches
    optimizer, seen = torch.optim.Adam(run.model.parameters(), lr=0.1), []
    for _ in range(3):
        for batch in run.loader():
            run.backward(batch)
            optimizer.step()
            seen.append(batch.numbers.tolist())
    flat = torch.cat([value.detach().reshape(-1) for value in run.model.parameters()])
    return {"parameters": flat.tolist(), "seen": seen, "claim": run.step == 60}


def refused(rank: int) -> list[str]:
    """What several processes must not do, and the errors they get."""
    from sharpdp.integrations.opacus import SchemeAccountant
    from sharpdp.integrations.torch import BatchSampler, loader

    def whole() -> None:
        SchemeAccountant(SCHEME, loader=loader(DATA, BatchSampler(SCHEME, KEY)))

    order = torch.arange(40).roll(rank)  # in which a record may be in a batch twice
    tries: list[Any] = [
        lambda: private(data=TensorDataset(*(one[order] for one in DATA.tensors))),
        lambda: private(model()),
        lambda: private(key=bytes([rank]) * 32),
        lambda: private(nn.parallel.DistributedDataParallel(model())),
        whole,
    ]
    found = []
    for one in tries:
        try:
            one()
            found.append("")
        except dp.SharpDPError as error:
            found.append(str(error))
    return found


def budget(folder: Path) -> list[int]:
    """How many steps a ledger allows, and how many entries it has afterwards."""
    ledger = dp.Ledger(folder / "ledger.jsonl", epsilon=1.4, delta=1e-5)
    *_, engine = private(noise=1.5, budget=ledger, budget_key="run")
    allowed = int(engine.accountant.loader.batch_sampler._last)
    distributed.barrier()
    return [allowed, len(dp.Ledger(folder / "ledger.jsonl").entries)]


def main(folder: Path, size: int, rank: int) -> None:
    meet = f"file://{folder}/meet"
    distributed.init_process_group("gloo", init_method=meet, rank=rank, world_size=size)
    found = {
        "hooks": trained("hooks"),
        "ghost": trained("ghost"),
        "per layer": trained("hooks", clipping="per_layer", max_grad_norm=[0.05] * 4),
        "noise": noise(),
        "loop": loop(),
        "refused": refused(rank),
        "budget": budget(folder),
    }
    (folder / f"found-{rank}").write_text(json.dumps(found))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
