"""The generator of Opacus' noise: its secret is more than can be tried out."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
import torch
from scipy import stats
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.integrations.opacus import BY_ITSELF, EXACT, NO_ERRORS, SECRET_NOISE, make_private
from sharpdp.randomness.given_secret import GIVEN_KEY, SEEDED

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other


def private(**options: Any) -> Any:
    model = nn.Linear(4, 1)
    plan = dp.PoissonBatches(dataset_size=60, batch_size=10, epochs=2)
    return make_private(
        plan=dp.DPSGD(plan, noise_multiplier=1.0),
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data=TensorDataset(torch.zeros(60, 4), torch.zeros(60, 1)),
        max_grad_norm=1.0,
        **options,
    )


def noise_generator() -> Any:
    return private()[1].generator


def test_torch_keeps_32_bits_of_a_seed() -> None:
    """Why a seed is not enough; if torch ever keeps all of it, the state need not be drawn."""
    one, other = (torch.Generator().manual_seed(seed) for seed in (5, 5 + 2**40))
    assert torch.equal(torch.randn(9, generator=one), torch.randn(9, generator=other))


def test_noise_does_not_follow_from_a_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "randbits", lambda bits: 5)
    one, other = (torch.randn(9, generator=noise_generator()) for _ in range(2))
    assert not torch.equal(one, other)


def test_noise_is_normal() -> None:
    drawn = torch.randn(100_000, generator=noise_generator(), dtype=torch.float64)
    assert stats.kstest(drawn.numpy(), "norm").pvalue > 1e-9


@pytest.mark.parametrize(
    ("options", "conditions"),
    [
        ({}, ()),
        ({"key": 7}, (SEEDED,)),
        ({"key": b"k" * 32}, (GIVEN_KEY,)),
        ({"noise_generator": torch.Generator().manual_seed(0)}, (SECRET_NOISE,)),
    ],
)
def test_given_keys_and_generators_are_conditions(
    options: dict[str, Any], conditions: tuple[str, ...]
) -> None:
    module, optimizer, batches, engine = private(**options)
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.MSELoss()(module(inputs), targets).backward()
        optimizer.step()
    assert engine.accountant.guarantee.conditions == (BY_ITSELF, NO_ERRORS, EXACT, *conditions)
