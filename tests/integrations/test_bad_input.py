"""Wrong things given to the bridges to torch, Opacus and dp-accounting: each is refused by name."""

from __future__ import annotations

import math
from typing import Any

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting.pld import privacy_loss_distribution
from torch import nn
from torch.utils.data import TensorDataset

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.integrations import torch as bridge
from sharpdp.integrations.dp_accounting import curve_of, event_of, mechanism_of, pld_of

PLAN = dp.PoissonBatches(dataset_size=20, sample_rate=0.25, steps=3)
LONG = dp.PoissonBatches(dataset_size=20, sample_rate=0.25, steps=4)
DATA = TensorDataset(torch.zeros(20, 2))


@pytest.mark.parametrize("wrong", [None, 3, "x", dp.Gaussian, [1]])
def test_exchange_takes_mechanisms_events_and_plds_only(wrong: Any) -> None:
    with pytest.raises(WrongType, match="mechanism must be a mechanism"):
        event_of(wrong)
    with pytest.raises(WrongType, match="event must be one of dp-accounting"):
        mechanism_of(wrong)
    with pytest.raises(WrongType, match="pld must be a PrivacyLossDistribution"):
        curve_of(wrong)
    with pytest.raises(WrongType, match="mechanism must be a mechanism"):
        pld_of(wrong)


def test_an_optimistic_pld_is_no_upper_side() -> None:
    optimistic = privacy_loss_distribution.from_gaussian_mechanism(
        1.0, pessimistic_estimate=False, value_discretization_interval=1e-2
    )
    with pytest.raises(dp.Unsupported, match="optimistic"):
        curve_of(optimistic)


def test_randomized_response_without_noise_to_speak_of() -> None:
    with pytest.raises(dp.Unsupported, match="lost in rounding"):
        event_of(dp.RandomizedResponse(local_epsilon=700.0))
    event = dp_accounting.dp_event.RandomizedResponseDpEvent
    for noise, buckets in ((5e-324, 3),):
        with pytest.raises(dp.Unsupported, match="randomized response with noise"):
            mechanism_of(event(noise, buckets))
    for noise, buckets in ((math.nan, 2), ("x", 2), (0.5, 0), (0.5, None)):
        with pytest.raises(dp.InvalidArgument, match="must be"):
            mechanism_of(event(noise, buckets))


def test_a_local_epsilon_from_an_event_is_not_below_it() -> None:
    from fractions import Fraction

    from mpmath import iv, mp

    mp.prec = iv.prec = 200
    for noise in (1e-9, 0.1, 0.3, 0.5, 0.77, 1.0 - 1e-9):
        run = mechanism_of(dp_accounting.dp_event.RandomizedResponseDpEvent(noise, 3))
        odds = 1 + 3 * (1 - Fraction(noise)) / Fraction(noise)
        exact = iv.log(iv.mpf(odds.numerator) / iv.mpf(odds.denominator))
        assert exact.b <= run.local_epsilon <= float(exact.b) * (1.0 + 1e-14)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, "x", 5e-324])
def test_grids_that_are_none(wrong: Any) -> None:
    with pytest.raises(dp.SharpDPError, match="discretization must be"):
        pld_of(dp.Gaussian(noise_multiplier=1.0), discretization=wrong)


def accountant(plan: dp.batches.BatchScheme = PLAN) -> Any:
    from sharpdp.integrations.opacus import SchemeAccountant

    sampler = bridge.BatchSampler(plan, key=7)
    return SchemeAccountant(plan, loader=bridge.loader(DATA, sampler))


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"noise_multiplier": math.nan, "sample_rate": 0.25}, "noise_multiplier must be"),
        ({"noise_multiplier": 0.0, "sample_rate": 0.25}, "noise_multiplier must be"),
        ({"noise_multiplier": "x", "sample_rate": 0.25}, "noise_multiplier must be"),
        ({"noise_multiplier": 1.0, "sample_rate": math.nan}, "sample_rate must be"),
        ({"noise_multiplier": 1.0, "sample_rate": 1.5}, "sample_rate must be"),
        ({"noise_multiplier": 1.0, "sample_rate": 0.0}, "sample_rate must be"),
        ({"noise_multiplier": 1.0, "sample_rate": None}, "sample_rate must be"),
    ],
)
def test_opacus_steps_that_are_none(step: dict[str, Any], words: str) -> None:
    one = accountant()
    with pytest.raises(dp.InvalidArgument, match=words):
        one.step(**step)
    assert len(one) == 0


@pytest.mark.parametrize(
    "state",
    [
        None,
        {},
        3,
        {"history": [], "mechanism": "rdp"},
        {"history": "x"},
        {"history": [1]},
        {"history": [(1.0, 0.25, 99)]},
        {"history": [(math.nan, 0.25, 1)]},
        {"history": [(1.0, 0.25, 1), (2.0, 0.25, 1)]},
        {"history": [(1.0, 0.5, 1)]},
        {"history": [(1.0, 0.25, 2)], "begun": 1},
        {"history": [(1.0, 0.25, 2)], "begun": 99},
    ],
    ids=str,
)
def test_opacus_states_of_nothing(state: Any) -> None:
    one = accountant()
    if isinstance(state, dict) and state and "mechanism" not in state:
        state = {"mechanism": "sharpdp", "scheme": PLAN.describe(), "begun": 3, **state}
    with pytest.raises(dp.InvalidArgument, match="must"):
        one.load_state_dict(state)
    assert len(one) == 0


def test_a_wrong_delta_is_refused_before_the_first_step_too() -> None:
    with pytest.raises(dp.InvalidArgument, match="delta"):
        accountant().get_epsilon(delta="x")


@pytest.mark.filterwarnings("ignore")  # Opacus and torch warn about each other
def test_batches_that_opacus_adds_up_are_refused() -> None:
    from opacus import PrivacyEngine

    engine = PrivacyEngine()
    engine.accountant = accountant(LONG)
    layer = nn.Linear(2, 1)
    model, optimizer, batches = engine.make_private(
        module=layer,
        optimizer=torch.optim.SGD(layer.parameters(), lr=0.1),
        data_loader=engine.accountant.loader,
        noise_multiplier=1.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    for place, (inputs,) in enumerate(batches):
        model(inputs).sum().backward()
        if place == 1:
            break
    with pytest.raises(dp.InvalidArgument, match="got 2 batches"):
        optimizer.step()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scheme": None}, "scheme must be a batch scheme"),
        ({"scheme": dp.PoissonBatches}, "scheme must be a batch scheme"),
        ({"scheme": dp.PoissonBatches(sample_rate=0.1, steps=2)}, "dataset_size"),
        ({"key": True}, "key must be"),
        ({"key": "x"}, "key must be"),
        ({"key": 1.5}, "key must be"),
        ({"key": -1}, "must be"),
        ({"key": b"short"}, "must be"),
        ({"shard": np.zeros(2)}, "shard must be"),
        ({"shard": (0, 0)}, "workers must be"),
        ({"shard": "x", "key": None}, "key must be given"),
        ({"steps_per_pass": 0}, "steps_per_pass must be"),
        ({"steps_per_pass": "x"}, "steps_per_pass must be"),
    ],
)
def test_samplers_of_nothing(options: dict[str, Any], words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        bridge.BatchSampler(**{"scheme": PLAN, "key": 7, **options})


@pytest.mark.parametrize(
    "state", [None, {}, {"step": 1, "fingerprint": np.zeros(2)}, {"step": "x", "fingerprint": ""}]
)
def test_states_of_no_sampler(state: Any) -> None:
    with pytest.raises(dp.InvalidArgument, match="state must"):
        bridge.BatchSampler(PLAN, key=7).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sampler": None}, "sampler must be a BatchSampler"),
        ({"sampler": PLAN}, "sampler must be a BatchSampler"),
        ({"dataset": None}, "dataset must be"),
        ({"dataset": "x" * 20}, "dataset must be"),
        ({"dataset": np.array(3.0)}, "dataset must be"),
        ({"dataset": {k: k for k in range(20)}}, "dataset must be"),
        ({"dataset": torch.zeros(19, 2)}, "dataset must be of dataset_size = 20"),
        ({"batch_size": 4}, "batch_size must be left out"),
        ({"shuffle": True}, "shuffle must be left out"),
        ({"collate": 3}, "collate must be a function"),
        ({"num_workers": -1}, "dataset and options must be"),
        ({"no_such_option": 1}, "dataset and options must be"),
    ],
)
def test_loaders_of_nothing(options: dict[str, Any], words: str) -> None:
    given = {"dataset": DATA, "sampler": bridge.BatchSampler(PLAN, key=7), **options}
    with pytest.raises(dp.InvalidArgument, match=words):
        bridge.loader(**given)


def test_examples_that_do_not_go_together() -> None:
    with pytest.raises(dp.InvalidArgument, match="examples must be a list"):
        bridge.Collate(np.zeros(2))(None)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match="examples must be ones that collate"):
        bridge.Collate(np.zeros(2))([np.zeros(2), np.zeros(3)])
    with pytest.raises(dp.InvalidArgument, match="examples must be ones that collate"):
        bridge.Collate(object())([])
    with pytest.raises(dp.InvalidArgument, match="places must be"):
        bridge.Collate(np.zeros(2), places=0)
