"""Gradients of plain layers by one pass are those of single examples; no other model is passed so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.modules import module as all_modules
from torch.overrides import TorchFunctionMode

from sharpdp.learn import gradients as module
from sharpdp.learn.gradients import ClippedGradients
from sharpdp.learn.layer_gradients import layers_of

Shape = tuple[int, ...]


def frozen(layer: nn.Module) -> nn.Module:
    for parameter in layer.parameters():
        parameter.requires_grad_(False)
    return layer


MODELS: dict[str, tuple[Callable[[], nn.Module], Shape]] = {
    "one layer": (lambda: nn.Linear(5, 3), (5,)),
    "no bias": (
        lambda: nn.Sequential(nn.Linear(5, 4, bias=False), nn.Tanh(), nn.Linear(4, 3)),
        (5,),
    ),
    "rows": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.GELU(), nn.Flatten(), nn.Linear(8, 3)),
        (2, 5),
    ),
    "nested": (
        lambda: nn.Sequential(nn.Sequential(nn.Linear(5, 4), nn.ReLU()), nn.Linear(4, 3)),
        (5,),
    ),
    "frozen first": (
        lambda: nn.Sequential(frozen(nn.Linear(5, 4)), nn.Sigmoid(), nn.Linear(4, 3)),
        (5,),
    ),
    "frozen last": (
        lambda: nn.Sequential(nn.Linear(5, 4), nn.SiLU(), frozen(nn.Linear(4, 3))),
        (5,),
    ),
    "images": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, (3, 2), (2, 1), padding=(1, 2)),
            nn.ReLU(),
            nn.MaxPool2d(2, 1),
            nn.Conv2d(4, 3, 2, dilation=2, padding="valid", bias=False),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.LazyLinear(3),
        ),
        (2, 9, 8),
    ),
    "the last is an image": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 2), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
        (2, 4, 4),
    ),
}


def taken(model: nn.Module, shape: Shape, kind: torch.dtype = torch.float64) -> tuple[Any, ...]:
    torch.manual_seed(0)
    inputs = torch.randn(11, *shape, dtype=kind)
    model.to(kind)
    model(inputs[:2])
    return ClippedGradients(model, nn.CrossEntropyLoss(), clip=1.0), inputs, torch.arange(11) % 3


@pytest.mark.parametrize("name", MODELS)
def test_one_pass_has_the_gradients_of_single_examples(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, shape = MODELS[name]
    take, inputs, targets = taken(make(), shape)
    assert layers_of(take.model) is not None
    with monkeypatch.context() as patch:
        patch.setattr(module, "vmap", None)  # which one pass does not need for the model
        fast = take.each(inputs, targets)
    monkeypatch.setattr(module, "layers_of", lambda _: None)
    slow = take.each(inputs, targets)
    assert list(fast) == list(slow) == list(take.parameters)
    for key, value in slow.items():
        assert value.shape == fast[key].shape
        torch.testing.assert_close(fast[key], value, rtol=1e-12, atol=1e-14)


def hooked(layer: nn.Module) -> nn.Module:
    layer.register_forward_hook(lambda _, __, out: out - out.mean(0))
    return layer


def overridden(layer: nn.Module) -> nn.Module:
    inside = layer.forward
    layer.forward = lambda x: inside(x) - inside(x).mean(0)  # type: ignore[method-assign]
    return layer


class Mixing(nn.Linear):
    """Takes the mean over the batch off."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0))


def twice() -> nn.Module:
    layer = nn.Linear(5, 5)
    return nn.Sequential(layer, nn.Tanh(), layer)


def compiled() -> nn.Module:
    layer = nn.Linear(5, 3)
    layer.compile(backend="eager")
    return layer


OTHERS: dict[str, Callable[[], nn.Module]] = {
    "softmax over examples": lambda: nn.Sequential(nn.Linear(5, 3), nn.Softmax(dim=0)),
    "flat examples": lambda: nn.Sequential(nn.Linear(5, 3), nn.Flatten(0)),
    "a hook": lambda: nn.Sequential(hooked(nn.Linear(5, 3))),
    "a hook of the whole": lambda: hooked(nn.Sequential(nn.Linear(5, 3))),
    "another forward": lambda: nn.Sequential(overridden(nn.Linear(5, 3))),
    "a subclass": lambda: nn.Sequential(Mixing(5, 3)),
    "used twice": twice,
    "parametrized": lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(5, 3))),
    "in place": lambda: nn.Sequential(nn.Linear(5, 3), nn.ReLU(inplace=True)),
    "random": lambda: nn.Sequential(nn.Linear(5, 3), nn.Dropout(0.5)),
    "groups": lambda: nn.Sequential(nn.Conv2d(4, 4, 1, groups=2)),
    "compiled": compiled,
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_model_that_may_mix_examples_is_not_passed_as_a_batch(name: str) -> None:
    assert layers_of(OTHERS[name]()) is None


@pytest.mark.parametrize("name", ["a hook", "a hook of the whole", "another forward", "a subclass"])
def test_an_example_moves_no_gradient_but_its_own(name: str) -> None:
    """Layers that take off the mean of a batch: alone, each example is its own mean."""
    take, inputs, targets = taken(OTHERS[name](), (5,))
    before = take.each(inputs, targets)
    inputs[3] = 100.0
    after = take.each(inputs, targets)
    others = [place for place in range(11) if place != 3]
    assert all(torch.equal(before[key][others], after[key][others]) for key in before)


@contextmanager
def seen_by(how: str) -> Iterator[None]:
    """Something outside of the model that takes the mean of a batch off, in every module."""
    inside = nn.Linear.forward

    def forward(self: nn.Linear, x: Tensor) -> Tensor:
        return inside(self, x - x.mean(0))

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found = function(*args, **(kwargs or {}))
            return found - found.mean(0) if function is nn.functional.linear else found

    hooks: dict[str, Callable[[], Any]] = {
        "pre-hook": lambda: all_modules.register_module_forward_pre_hook(
            lambda one, args: (args[0] - args[0].mean(0),) if type(one) is nn.Linear else None
        ),
        "hook": lambda: all_modules.register_module_forward_hook(
            lambda one, _, out: out - out.mean(0) if type(one) is nn.Linear else None
        ),
        "backward hook": lambda: all_modules.register_module_full_backward_hook(lambda *_: None),
        "backward pre-hook": lambda: all_modules.register_module_full_backward_pre_hook(
            lambda *_: None
        ),
    }
    with ExitStack() as stack:
        if how in hooks:
            stack.callback(hooks[how]().remove)
        elif how == "class":
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(nn.Linear, "forward", forward)
        elif how == "call":
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(nn.Linear, "__call__", forward)
        else:
            stack.enter_context(Mode())
        yield


@pytest.mark.parametrize("how", ["backward hook", "backward pre-hook"])
def test_b12_backward_hooks_on_every_module_leave_the_layers(how: str) -> None:
    with seen_by(how):
        assert layers_of(nn.Linear(5, 3)) is None


@pytest.mark.parametrize("how", ["pre-hook", "hook", "class", "call", "mode"])
def test_b12_what_sees_every_module_sees_one_example_at_a_time(how: str) -> None:
    take, inputs, targets = taken(nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3)), (5,))
    with seen_by(how):
        assert layers_of(take.model) is None
        before = take.each(inputs, targets)
        inputs[3] = 100.0
        after = take.each(inputs, targets)
    others = [place for place in range(11) if place != 3]
    assert all(torch.equal(before[key][others], after[key][others]) for key in before)
    assert layers_of(take.model) is not None


def test_a_default_device_is_nothing_that_mixes() -> None:
    with torch.device("cpu"):
        assert layers_of(nn.Linear(5, 3)) is not None


def test_images_without_channels_are_taken_one_by_one() -> None:
    """A convolution takes them for the channels of one image, if they come as a batch."""
    take, inputs, _ = taken(nn.Sequential(nn.Conv2d(1, 1, 3), nn.Flatten()), (1, 3, 3))
    flat = ClippedGradients(take.model, nn.MSELoss(), clip=1.0)
    targets = torch.zeros(11, 1, dtype=torch.float64)
    with_channels = flat.each(inputs, targets)
    without = flat.each(inputs[:, 0], targets)
    assert all(torch.allclose(with_channels[key], without[key]) for key in without)
