"""The accountant inside a real Opacus run, fed by our sampler."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other

EXAMPLES = 60


def run(plan: dp.BatchScheme, passes: int = 1) -> tuple[Any, Any]:
    """An Opacus engine after training on the batches of a scheme, and its accountant."""
    from opacus import PrivacyEngine

    from sharpdp.integrations.opacus import SchemeAccountant
    from sharpdp.integrations.torch import BatchSampler, loader

    torch.manual_seed(1)
    dataset = TensorDataset(torch.randn(EXAMPLES, 4), torch.randn(EXAMPLES, 1))
    model = nn.Linear(4, 1)
    engine = PrivacyEngine()
    engine.accountant = SchemeAccountant(plan)
    sampler = BatchSampler(plan, key=7, steps_per_pass=plan.steps // passes)
    model, optimizer, batches = engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=loader(dataset, sampler),
        noise_multiplier=1.5,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for _ in range(passes):
        for inputs, targets in batches:
            optimizer.zero_grad()
            nn.MSELoss()(model(inputs), targets).backward()
            optimizer.step()
    return engine, engine.accountant


SIZES = {"dataset_size": EXAMPLES, "batch_size": 10, "epochs": 2}


@pytest.mark.parametrize(
    "plan",
    [dp.PoissonBatches(**SIZES), dp.DeterministicBatches(**SIZES), dp.BallsInBins(**SIZES)],
    ids=lambda plan: plan.label,
)
def test_opacus_reports_the_scheme_that_ran(plan: dp.BatchScheme) -> None:
    engine, accountant = run(plan, passes=2)
    whole = dp.account(dp.DPSGD(plan, noise_multiplier=1.5))
    assert len(accountant) == plan.steps
    assert engine.get_epsilon(delta=1e-5) == whole.epsilon(delta=1e-5).upper


def test_state_goes_through_opacus_and_back() -> None:
    from sharpdp.integrations.opacus import SchemeAccountant

    plan = dp.DeterministicBatches(**SIZES)
    _, accountant = run(plan)
    again = SchemeAccountant(plan)
    again.load_state_dict(accountant.state_dict())
    assert len(again) == len(accountant) == plan.steps
    assert again.get_epsilon(delta=1e-5) == accountant.get_epsilon(delta=1e-5)


def test_what_no_bound_covers_is_refused() -> None:
    from sharpdp.integrations.opacus import SchemeAccountant

    accountant = SchemeAccountant(dp.PoissonBatches(sample_rate=0.1, steps=2))
    assert accountant.get_epsilon(delta=1e-5) == 0.0
    with pytest.raises(dp.InvalidArgument, match="no step was taken"):
        accountant.guarantee.epsilon(delta=1e-5)
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(dp.InvalidArgument, match=r"must stay 1\.0"):
        accountant.step(noise_multiplier=2.0, sample_rate=0.1)
    accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(dp.InvalidArgument, match="at most the 2"):
        accountant.step(noise_multiplier=1.0, sample_rate=0.1)
    with pytest.raises(dp.WrongType, match="scheme must be a batch scheme"):
        SchemeAccountant(0.1)
