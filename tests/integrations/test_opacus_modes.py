"""Ghost clipping and several processes with the real Opacus: the same sums, or a refusal."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import nn

import sharpdp as dp
from tests.integrations import ranks_with_opacus as ranks

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other


def ghost(**options: Any) -> tuple[Any, ...]:
    return ranks.private(
        grad_sample_mode="ghost", **{"criterion": nn.CrossEntropyLoss(), **options}
    )


def test_ghost_clipping_takes_the_steps_of_the_plan() -> None:
    """Also for empty batches, of which this plan has some."""
    planned = [batch.tolist() for batch in ranks.SCHEME.batches(ranks.KEY)]
    assert [] in planned
    one, other = ranks.trained("hooks"), ranks.trained("ghost")
    assert one["seen"] == other["seen"] == planned
    assert one["claim"]
    assert other["claim"]
    assert other["parameters"] == pytest.approx(one["parameters"], abs=1e-5)


def test_large_batches_come_in_pieces() -> None:
    from opacus.utils.batch_memory_manager import BatchMemoryManager

    def parameters(*, pieces: bool) -> list[float]:
        module, optimizer, loss, batches, engine = ghost()
        with BatchMemoryManager(
            data_loader=batches, max_physical_batch_size=2 if pieces else 99, optimizer=optimizer
        ) as parts:
            for inputs, targets, _ in parts:
                optimizer.zero_grad()
                loss(module(inputs), targets).backward()
                optimizer.step()
        assert len(engine.accountant) == 20
        return torch.cat([value.detach().reshape(-1) for value in module.parameters()]).tolist()

    assert parameters(pieces=True) == pytest.approx(parameters(pieces=False), abs=1e-6)


def test_opacus_alone_does_not_clip_losses_with_two_axes() -> None:
    """Why they are refused: 20 examples move the sum by 400 times the norm, and not by 20 times."""
    from opacus import PrivacyEngine

    model = nn.Linear(1, 1, bias=False)
    rows = torch.utils.data.TensorDataset(torch.ones(20, 1), torch.full((20, 1), 100.0))
    module, _, loss, batches = PrivacyEngine().make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=nn.MSELoss(),
        data_loader=torch.utils.data.DataLoader(rows, batch_size=20),
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
        grad_sample_mode="ghost",
    )
    inputs, targets = next(iter(batches))
    loss(module(inputs), targets).backward()
    assert float(model.weight.grad.abs()) == pytest.approx(400.0, rel=1e-3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("plain", "backward of the loss"),
        ("added", "backward of the loss"),
        ("changed", "backward of the loss"),
        ("cleared", "backward of the loss"),
        ("twice", "backward of the loss"),
        ("evaluation", r"module\.train"),
        ("two axes", "one loss for each example"),
    ],
)
def test_gradients_that_ghost_clipping_did_not_clip_are_refused(how: str, message: str) -> None:
    criterion = nn.MSELoss() if how == "two axes" else nn.CrossEntropyLoss()
    module, optimizer, loss, batches, _ = ghost(criterion=criterion)
    inputs, targets, _ = next(iter(batches))

    def step() -> None:
        if how == "evaluation":
            loss(module(inputs), targets).backward()  # leaves norms behind
            module.eval()
        outputs = module(inputs)
        if how == "plain":
            nn.functional.cross_entropy(outputs, targets).backward()
        elif how == "two axes":
            loss(outputs, torch.ones(len(inputs), 2)).backward()
        else:
            loss(outputs, targets).backward()
        if how == "added":
            module.disable_hooks()
            nn.functional.cross_entropy(module(inputs), targets).backward()
        if how == "changed":
            next(module.parameters()).grad.mul_(2.0)
        if how == "cleared":
            optimizer.zero_grad()
        optimizer.step()
        if how == "twice":
            optimizer.step()

    before = [value.detach().clone() for value in module.parameters()]
    with pytest.raises(dp.InvalidArgument, match=message):
        step()
    if how != "twice":
        assert all(map(torch.equal, before, module.parameters()))


def test_losses_of_ghost_clipping_have_no_sums() -> None:
    module, _, loss, batches, _ = ghost()
    inputs, targets, _ = next(iter(batches))
    value = loss(module(inputs), targets)
    for wrong in (lambda: value + 1.0, lambda: 2.0 * value, lambda: value + value):
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong()
    assert value.item() == float(value.detach())


def test_what_cannot_be_checked_is_refused() -> None:
    for module in (nn.DataParallel(ranks.model()), ranks.model().bfloat16()):
        with pytest.raises(dp.Unsupported, match=r"wrapped|precision"):
            ranks.private(module)
    for mode in ("ghost_fsdp", "ghost fsdp", None):
        with pytest.raises(dp.Unsupported, match="grad_sample_mode"):
            ranks.private(grad_sample_mode=mode)


def test_noise_does_not_come_from_a_public_seed() -> None:
    first, second = ranks.noise(), ranks.noise()
    assert first["first"] != second["first"]
    assert first["deviation"] == pytest.approx(2.0, rel=0.05)


@pytest.mark.slow
def test_two_processes_release_what_one_does(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "tests.integrations.ranks_with_opacus", str(folder), "2"]
    started = [subprocess.Popen([*command, str(rank)]) for rank in range(2)]
    assert [one.wait(timeout=300) for one in started] == [0, 0]
    first, second = (json.loads((folder / f"found-{rank}").read_text()) for rank in range(2))
    planned = [batch.tolist() for batch in ranks.SCHEME.batches(ranks.KEY)]
    alone = {
        "hooks": ranks.trained("hooks"),
        "ghost": ranks.trained("ghost"),
        "per layer": ranks.trained("hooks", clipping="per_layer", max_grad_norm=[0.05] * 4),
        "loop": ranks.loop(),
    }
    for name, single in alone.items():
        shares = zip(first[name]["seen"], second[name]["seen"], strict=True)
        together = [sorted(one + other) for one, other in shares]
        assert together == [sorted(batch) for batch in planned], name
        assert dp.audit.sampler(batches=together, scheme=ranks.SCHEME).consistent, name
        assert any(not one for one in first[name]["seen"])  # empty shares, and no rank runs ahead
        assert first[name]["parameters"] == second[name]["parameters"], name
        exact = name == "loop"
        close = single["parameters"] if exact else pytest.approx(single["parameters"], abs=1e-5)
        assert first[name]["parameters"] == close, name
        assert first[name]["claim"]
        assert second[name]["claim"]
    assert first["noise"] == second["noise"]
    assert first["noise"]["deviation"] == pytest.approx(2.0, rel=0.05)  # added once, not twice
    words = (
        "data must be the same",
        "DifferentiallyPrivateDistributedDataParallel",
        "key must be the same",
        "wrapped",
        "shard",
    )
    for found in (first["refused"], second["refused"]):
        assert [word in message for word, message in zip(words, found, strict=True)] == [True] * 5
    assert first["budget"] == second["budget"]
    allowed, entries = first["budget"]
    assert 0 < allowed < 60
    assert entries == 1
