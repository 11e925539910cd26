"""The training scripts that the page offers train, over exactly the batches of their plan."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import sharpdp as dp
from sharpdp.explore.snippets import snippets
from sharpdp.plans import Plan

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

SIZES: dict[str, Any] = {"dataset_size": 60, "batch_size": 10, "epochs": 2}
SCHEMES = [
    dp.ShuffledBatches(**SIZES),
    dp.PoissonBatches(**SIZES),
    dp.BallsAndBins(**SIZES),
]


@pytest.mark.parametrize("form", ["opacus", "sharpdp"])
@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
def test_a_script_trains_and_says_what_it_cost(
    scheme: Any, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = dp.DPSGD(scheme, noise_multiplier=2.0)
    model = torch.nn.Linear(3, 1)
    inputs, targets = torch.randn(60, 3), torch.randn(60, 1)
    space = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "dataset": torch.utils.data.TensorDataset(inputs, targets),
        "loss_function": torch.nn.MSELoss(),
        "inputs": inputs,
        "targets": targets,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus and torch warn of much
        exec(snippets(Plan(run, (1e-5,), "zero-out"))[form], space)
    said = capsys.readouterr().out
    truth = dp.account(run, adjacency="zero-out").epsilon(delta=1e-5)
    assert f"<= {str(truth).split('<= ')[2].split()[0][:5]}" in said
