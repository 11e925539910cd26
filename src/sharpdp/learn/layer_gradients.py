"""Per-example gradients of plain sequences of layers, by one forward and one backward pass.

A batch goes through the model as a whole. The gradient of an example in the weights of a layer is then a
product of what went into the layer and of the derivative of the loss in what came out of it, both those
of this example alone. That holds if no layer mixes examples. `layers_of` therefore takes only layers that
are known not to, of exactly these types, as torch defines them, and without hooks of their own or of all
modules; for every other model gradients are taken one by one (`torch.func.vmap`), where nothing can mix:
a hook is called there with one example at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import CodeType

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn.modules import module as all_modules
from torch.overrides import _get_current_function_mode_stack
from torch.utils._device import DeviceContext

__all__ = ["Layers", "layer_gradients", "layers_of"]

_WITHOUT_PARAMETERS = (
    *(nn.ReLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU, nn.LeakyReLU, nn.Softplus),
    *(nn.Identity, nn.Flatten, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d),
)
_POOLS = (nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d)
_HOOKS = (
    *("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"),
    *("_state_dict_hooks", "_state_dict_pre_hooks"),
)
_HOOKS_OF_ALL = (
    *("_global_forward_hooks", "_global_forward_pre_hooks"),
    *("_global_backward_hooks", "_global_backward_pre_hooks"),
)


def _functions(kind: type[nn.Module]) -> tuple[Callable[..., object], ...]:
    """What runs when a module of this class is called."""
    return kind.forward, kind.__call__, kind._call_impl, kind._wrapped_call_impl


def _is_of_torch(function: Callable[..., object]) -> bool:
    code = getattr(function, "__code__", None)
    if not isinstance(
        code, CodeType
    ):  # of a torch that stands in for one when documentation is built
        return False
    return Path(torch.__file__).parent in Path(code.co_filename).parents


_KNOWN: dict[type[nn.Module], tuple[Callable[..., object], ...]] = {
    kind: _functions(kind)
    for kind in (nn.Sequential, nn.Linear, nn.Conv2d, *_WITHOUT_PARAMETERS)
    if all(map(_is_of_torch, _functions(kind)))
}
"""Classes of torch that are taken, with their functions: another one may be put in their place later."""

Layers = list[tuple[str, nn.Module]]
"""Layers in the order in which they are called, by their names in the model."""


def layers_of(model: nn.Module) -> Layers | None:
    """The layers of a model that are known not to mix examples; None if there is any other.

    >>> [name for name, _ in layers_of(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))]
    ['0', '1']
    >>> layers_of(nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=0))) is None
    True
    """
    layers: Layers = []
    if _is_watched_by_others() or not _gather("", model, layers):
        return None
    parameters = [id(value) for _, layer in layers for value in layer.parameters()]
    if len(set(parameters)) < len(parameters):  # a layer or a weight that is used twice
        return None
    return layers


def _is_watched_by_others() -> bool:
    """Whether something sees the batch in every module, or in every function of torch."""
    hooks = any(getattr(all_modules, kind, None) for kind in _HOOKS_OF_ALL)
    modes: list[object] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
    return hooks or any(type(one) is not DeviceContext for one in modes)


def _gather(name: str, module: nn.Module, layers: Layers) -> bool:
    if "forward" in module.__dict__ or any(getattr(module, kind, None) for kind in _HOOKS):
        return False
    if (
        _KNOWN.get(type(module)) != _functions(type(module))
        or module._compiled_call_impl is not None
    ):
        return False
    if type(module) is nn.Sequential:
        children = ((f"{name}.{key}" if name else key, one) for key, one in module._modules.items())
        return all(_gather(where, one, layers) for where, one in children)
    layers.append((name, module))
    if type(module) is nn.Conv2d:
        return module.groups == 1 and module.padding_mode == "zeros" and module.padding != "same"
    if type(module) is nn.Flatten:
        return module.start_dim == 1
    return not getattr(module, "inplace", False)


def layer_gradients(
    layers: Layers,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: Tensor,
    targets: Tensor,
) -> dict[str, Tensor]:
    """The gradient of every example in the trainable parameters, stacked along the first axis.

    Args:
        layers: What `layers_of` gave.
        loss: The loss of one example: a function of its output and its target.
        inputs: Examples, one per row.
        targets: Their targets.

    Returns:
        Gradients by the names of the parameters.

    Raises:
        ValueError: A layer does not see a row for every example, so that the batch cannot go through it
            as a whole.
    """
    value, passed = inputs, []
    with torch.enable_grad():
        for name, layer in layers:
            is_image = isinstance(layer, (nn.Conv2d, *_POOLS))
            if value.dim() != 4 if is_image else value.dim() < 2:
                raise ValueError("a layer that takes this shape for one example")
            before = value
            if type(layer) is nn.MaxPool2d:  # in this order of its numbers it is ten times as fast
                value = value.contiguous(memory_format=torch.channels_last)
            value = layer(value)
            if len(value) != len(inputs):
                raise ValueError("a layer that does not keep the examples apart")
            if any(parameter.requires_grad for parameter in layer.parameters()):
                passed.append((name, layer, before.detach(), value))
    slopes = vmap(grad(loss), in_dims=(0, 0))(value.detach(), targets)
    sent = torch.autograd.grad(value, [after for *_, after in passed], slopes)
    gradients: dict[str, Tensor] = {}
    for (name, layer, before, _), slope in zip(passed, sent, strict=True):
        gradients.update(_of_layer(f"{name}." if name else "", layer, before, slope))
    return gradients


def _of_layer(prefix: str, layer: nn.Module, before: Tensor, slope: Tensor) -> dict[str, Tensor]:
    """The gradients of one layer, from what went in and the slope of what came out."""
    assert isinstance(layer, nn.Linear | nn.Conv2d)
    found = {}
    if isinstance(layer, nn.Conv2d):
        rows = slope.flatten(2)  # examples, outputs, patches
        if layer.weight.requires_grad:
            found[f"{prefix}weight"] = torch.bmm(rows, _patches(layer, before))
    else:
        rows = slope.flatten(1, -2).transpose(1, 2) if slope.dim() > 2 else slope[:, :, None]
        columns = before.flatten(1, -2) if before.dim() > 2 else before[:, None, :]
        if layer.weight.requires_grad:
            by = torch.bmm if before.dim() > 2 else torch.mul
            found[f"{prefix}weight"] = by(rows, columns)
    if layer.weight.requires_grad:
        weight = found[f"{prefix}weight"]
        found[f"{prefix}weight"] = weight.view(len(before), *layer.weight.shape)
    if layer.bias is not None and layer.bias.requires_grad:
        found[f"{prefix}bias"] = rows.sum(2)
    return found


def _patches(layer: nn.Conv2d, before: Tensor) -> Tensor:
    """What each patch of an image has in the places of the kernel: examples, patches, places."""
    padding = layer.padding if isinstance(layer.padding, tuple) else (0, 0)  # "valid"
    (high, wide), (down, right) = layer.kernel_size, layer.stride
    if layer.dilation != (1, 1):
        sizes = (layer.kernel_size, layer.dilation, padding, layer.stride)
        return nn.functional.unfold(before, *sizes).transpose(1, 2)
    padded = nn.functional.pad(before, (padding[1], padding[1], padding[0], padding[0]))
    windows = padded.unfold(2, high, down).unfold(3, wide, right)
    places = layer.in_channels * high * wide
    return windows.permute(0, 2, 3, 1, 4, 5).reshape(len(before), -1, places)
