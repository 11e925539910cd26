"""Wrong things given to a training run: each is refused by name, and nothing leaves without noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import sharpdp as dp
from sharpdp.errors import WrongType
from sharpdp.learn.dpsgd import Training, affordable_steps
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.learn.gradients import ClippedGradients
from tests.learn.test_dpsgd import (
    EXAMPLES,
    FEATURES,
    KEY,
    data,
    network,
    poisson,
    training,
    weights,
)

MECHANISM = dp.DPSGD(poisson(), noise_multiplier=1.0)
LOSS = nn.BCEWithLogitsLoss()


def made(**changes: Any) -> Training:
    inputs, targets = data()
    given: dict[str, Any] = {
        "mechanism": MECHANISM,
        "model": network(),
        "loss": LOSS,
        "inputs": inputs,
        "targets": targets,
        "clip": 1.0,
        **changes,
    }
    return Training(**given)


class Running(nn.Module):
    """A model that would keep what it sees in a buffer."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.layer = nn.Linear(FEATURES, 1)
        self.way = way
        self.register_buffer("seen", torch.zeros(1, FEATURES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "in place":
            self.seen += x
        else:
            self.seen = self.seen + x
        return self.layer(x)


WRONG = [
    (
        {"mechanism": dp.DPSGD(poisson(), noise_multiplier=0.0)},
        "mechanism must have noise, and steps with records, to be trained; got DP-SGD",
    ),
    ({"mechanism": MECHANISM.stopped_after(0)}, "mechanism must have noise, and steps with rec"),
    ({"mechanism": None}, "mechanism must be a DPSGD"),
    (
        {"mechanism": dp.DPSGD},
        "mechanism must be a DPSGD or a CorrelatedNoise; got the class DPSGD",
    ),
    ({"model": "net"}, r"model must be a torch\.nn\.Module; got 'net'"),
    ({"model": nn.Linear}, r"model must be a torch\.nn\.Module; got the class Linear"),
    ({"model": nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5))}, "mixes a batch"),
    ({"model": nn.InstanceNorm1d(4, track_running_stats=True)}, "mixes a batch"),
    ({"model": nn.LazyLinear(1)}, "waits for its first input"),
    ({"model": nn.Linear(FEATURES, 1, dtype=torch.complex64)}, "real parameters"),
    ({"model": nn.Tanh()}, "trainable parameters; got none"),
    ({"model": nn.Linear(FEATURES + 1, 1)}, "model and loss must give a number for one example"),
    ({"loss": "mse"}, "loss must be a function of an output and a target; got 'mse'"),
    ({"loss": nn.MSELoss}, "loss must be .* got the class MSELoss"),
    ({"loss": lambda output, target: "x"}, "loss must return .* got an object of type str"),
    ({"loss": lambda output, target: output.long().sum()}, "loss must return .* got torch.int64"),
    ({"inputs": np.zeros((EXAMPLES, FEATURES))}, "inputs must be a dense torch tensor"),
    ({"inputs": torch.zeros(())}, r"inputs must be .* got an object of type Tensor and shape \(\)"),
    ({"inputs": torch.zeros(EXAMPLES, FEATURES, dtype=torch.float64)}, "model and loss"),
    ({"inputs": torch.zeros(EXAMPLES, FEATURES).to_sparse()}, "inputs must be a dense"),
    ({"inputs": torch.zeros(EXAMPLES, 3)}, r"one example, of inputs \(3,\)"),
    ({"targets": torch.zeros(EXAMPLES, 3)}, "model and loss must give a number"),
    ({"targets": list(range(EXAMPLES))}, "targets must be a dense torch tensor"),
    ({"clip": math.nan}, "clip must be"),
    ({"optimizer": "sgd"}, "optimizer must be one of torch.optim"),
    ({"learning_rate": "fast"}, "learning_rate must be"),
    ({"learning_rate": float}, "learning_rate must be"),
    ({"learning_rate": lambda step: "fast"}, "learning_rate must be"),
    ({"learning_rate": lambda step: math.nan}, "learning_rate must be"),
    ({"learning_rate": lambda step: -0.1}, "learning_rate must be"),
    ({"physical_batch_size": 0}, "physical_batch_size must be"),
    ({"physical_batch_size": 2.5}, "physical_batch_size must be"),
    ({"key": "secret"}, "key must be bytes; got an object of type str"),
    ({"key": b"short"}, "key must have at least 16 bytes"),
]


@pytest.mark.parametrize(("changes", "words"), WRONG, ids=range(len(WRONG)))
def test_what_does_not_fit_is_refused_at_once(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=words):
        made(**changes)


def test_a_message_never_shows_the_key() -> None:
    with pytest.raises(WrongType) as caught:
        made(key="correct horse battery staple")
    assert "horse" not in str(caught.value)


def test_optimizers_that_ask_twice_or_want_sparse_gradients_are_refused() -> None:
    model = network()
    with pytest.raises(dp.InvalidArgument, match="got LBFGS"):
        made(model=model, optimizer=torch.optim.LBFGS(model.parameters()))
    run = made(model=model, optimizer=torch.optim.SparseAdam(list(model.parameters())))
    with pytest.raises(dp.InvalidArgument, match="optimizer must take a step along dense"):
        run.advance()
    assert run.step == 1  # its noisy gradient was there to be seen


def test_an_optimizer_keeps_its_own_learning_rate_unless_told() -> None:
    for wanted, given in ((0.25, {}), (0.5, {"learning_rate": 0.5})):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        made(model=model, optimizer=optimizer, **given).advance()
        assert optimizer.param_groups[0]["lr"] == wanted


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delta": "a"}, "delta must be"),
        ({"delta": 0.0}, "delta must be"),
        ({"epsilon": "a"}, "epsilon must be"),
        ({"epsilon": math.nan}, "epsilon must be"),
        ({"steps": -1}, "steps must be"),
        ({"steps": "a"}, "steps must be"),
        ({"every": 0}, "every must be"),
        ({"checkpoint": 3}, "checkpoint must be a path"),
        ({"checkpoint": "no/such/folder/run.pt"}, "checkpoint must be in a folder that exists"),
        ({"checkpoint": "."}, "checkpoint must be the path of a file"),
        ({"checkpoint": "a\0b"}, "checkpoint must be the path of a file"),
        ({"progress": np.zeros(2)}, "progress must be True or False"),
    ],
)
def test_a_wrong_question_stops_a_run_before_its_first_step(
    options: dict[str, Any], words: str
) -> None:
    run = training()
    before = weights(run)
    with pytest.raises(dp.InvalidArgument, match=words):
        run.run(**{"progress": False, **options})
    assert run.step == 0
    np.testing.assert_array_equal(weights(run), before)


def test_budgets_of_nothing() -> None:
    for wrong in ("x", None, dp.Gaussian(noise_multiplier=1.0), dp.DPSGD):
        with pytest.raises(WrongType, match="mechanism must be a DPSGD"):
            affordable_steps(wrong, epsilon=1.0, delta=1e-5)  # type: ignore[arg-type]
    with pytest.raises(dp.InvalidArgument, match="delta"):
        affordable_steps(MECHANISM, epsilon=1.0, delta=0.0)


def test_a_schedule_that_fails_later_draws_no_noise() -> None:
    run = training(learning_rate=lambda step: 0.5 if step != 2 else math.nan)
    with pytest.raises(dp.InvalidArgument, match="learning_rate"):
        run.run(progress=False)
    assert run.step == 2
    whole = training()
    whole.run(steps=2, progress=False)
    np.testing.assert_array_equal(weights(run), weights(whole))
    for name, parameter in run.model.named_parameters():
        np.testing.assert_array_equal(
            parameter.grad, dict(whole.model.named_parameters())[name].grad
        )


class Stop(BaseException):
    """Comes at any moment, as a KeyboardInterrupt does."""


@pytest.mark.parametrize("place", ["sum", "added", "_move", "step"])
def test_an_interrupt_at_any_place_neither_loses_nor_repeats_a_step(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, whole = training(), training()
    whole.run(progress=False)
    run.run(steps=3, progress=False)
    owner = {"sum": ClippedGradients, "added": StepNoise, "_move": Training}.get(
        place, type(run.optimizer)
    )
    kept = getattr(owner, place)

    def stop(*given: Any, **options: Any) -> None:
        if place == "added":
            kept(*given, **options)  # the noise was drawn, and nobody has seen it
        raise Stop

    monkeypatch.setattr(owner, place, stop)
    with pytest.raises(Stop):
        run.advance()
    monkeypatch.setattr(owner, place, kept)
    spent = place in ("_move", "step")
    assert run.step == 3 + spent
    run.run(progress=False)
    assert run.step == whole.step
    if not spent:  # the very step that was interrupted came again
        np.testing.assert_array_equal(weights(run), weights(whole))
    assert run.epsilon(delta=1e-3).upper == whole.epsilon(delta=1e-3).upper


def test_buffers_keep_nothing_of_the_examples() -> None:
    model = Running("in place")
    with pytest.raises(dp.InvalidArgument, match="Nothing was released"):
        made(model=model)
    assert not model.seen.any()
    model = Running("anew")
    made(model=model).run(progress=False)
    assert not model.seen.any()


def test_half_precision_does_not_lengthen_gradients() -> None:
    torch.manual_seed(5)
    model = nn.Linear(64, 8, dtype=torch.bfloat16)
    take = ClippedGradients(model, lambda output, target: (output * target).sum(), clip=1.0)
    for _ in range(20):
        x, y = torch.randn(1, 64, dtype=torch.bfloat16), torch.randn(1, 8, dtype=torch.bfloat16)
        total = take.sum(x, y)
        assert math.sqrt(sum(float(v.square().sum()) for v in total.values())) <= 1.0


def test_a_probe_of_the_model_draws_no_random_numbers() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(FEATURES, 1))
    inputs, targets = data()
    state = torch.get_rng_state()
    Training(MECHANISM, model, LOSS, inputs, targets, clip=1.0)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("total", "words"),
    [
        (None, "total must map names to tensors"),
        ({}, "total must map names to tensors"),
        ({"w": 3.0}, r"total\['w'\] must be a tensor"),
        ({3: torch.zeros(2)}, r"total\[3\] must be a tensor under a name"),
        ({"w": torch.full((2,), math.nan)}, r"total\['w'\] must be finite"),
        ({"w": torch.zeros(2, dtype=torch.complex64)}, "dense and real"),
    ],
)
def test_sums_that_get_no_noise(total: Any, words: str) -> None:
    noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
    with pytest.raises(dp.InvalidArgument, match=words):
        noise.added(total, 0)
    assert noise.added({"w": torch.zeros(2)}, 0)["w"].abs().min() > 0.0  # the step is still there


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"noise_multiplier": math.nan}, "noise_multiplier"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"clip": "x"}, "clip"),
        ({"key": b""}, "key"),
        ({"key": None}, "key"),
        ({"start": -1}, "start"),
    ],
)
def test_noise_that_hides_nothing(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=f"{words} must"):
        StepNoise(**{"noise_multiplier": 1.0, "clip": 1.0, "key": KEY, **changes})


def test_an_empty_batch_is_released_with_noise_and_counted() -> None:
    rare = dp.PoissonBatches(dataset_size=EXAMPLES, sample_rate=1e-9, steps=3)
    run = training(rare)
    before = weights(run)
    run.run(progress=False)
    assert run.step == 3
    assert float(np.abs(weights(run) - before).min()) > 0.0


def test_two_runs_over_the_same_batches_cost_more_than_their_sum() -> None:
    """What the documentation says of copies: noise / sqrt(2), and not twice the steps."""
    both = dp.account(dp.DPSGD(poisson(), noise_multiplier=1.0 / math.sqrt(2.0)))
    added = dp.account(dp.DPSGD(poisson(2 * poisson().steps), noise_multiplier=1.0))
    assert both.epsilon(delta=1e-5).lower > 1.3 * added.epsilon(delta=1e-5).upper


def test_a_wrong_delta_is_named_before_the_first_step() -> None:
    with pytest.raises(dp.InvalidArgument, match="delta must be"):
        training().epsilon(delta="x")  # type: ignore[arg-type]
