"""Fully sharded models (FSDP2, `fully_shard`): a plain twin computes, and the shards are moved.

FSDP's own backward pass averages gradients over ranks before anything could be clipped. So per-example
gradients are taken of a twin: the same modules without FSDP, with whole parameters. The optimizer moves
the shards by the shard of the released gradient, and the twin gathers them after every step.

A rank therefore holds all parameters once more, and shards of the optimizer's state.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from sharpdp.errors import InvalidArgument

__all__ = ["ShardedModel", "sharded"]

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_FSDP = "torch.distributed.fsdp"


def sharded(model: object, ranks: int) -> ShardedModel | None:
    """The model with its twin, if any part of it is fully sharded by `fully_shard`."""
    if not isinstance(model, nn.Module) or not torch.distributed.is_available():
        return None
    from torch.distributed import fsdp

    if not any(isinstance(module, fsdp.FSDPModule) for module in model.modules()):
        return None
    return ShardedModel(model, ranks)


class ShardedModel:
    """A model whose parameters are shards, and its plain twin.

    Args:
        model: The model, of which every parameter is sharded over all ranks.
        ranks: How many ranks there are.
    """

    def __init__(self, model: nn.Module, ranks: int) -> None:
        """Gather all parameters: a collective call."""
        self.model = model
        for name, value in model.named_parameters():
            mesh: Any = getattr(value, "device_mesh", None)  # which shards have
            if mesh is None or mesh.size() != ranks:
                raise InvalidArgument(
                    f"model must be sharded over all {ranks} ranks, as fully_shard(model) does; got "
                    f"{name!r}, which is not."
                )
        copies: dict[int, Any] = {}
        self.twin = _twin(model, copies)
        whole = dict(self.twin.named_parameters())
        self._pairs = {name: (value, whole[name]) for name, value in model.named_parameters()}

    def gather(self) -> None:
        """Bring the twin's parameters up to date: a collective call."""
        with torch.no_grad():
            for shard, whole in self._pairs.values():
                whole.copy_(shard.full_tensor())  # type: ignore[attr-defined]

    def scatter(self) -> None:
        """Bring the shards up to date with the twin's parameters."""
        with torch.no_grad():
            for shard, whole in self._pairs.values():
                mine = _shard_of(whole, shard)
                shard.to_local().copy_(mine.to_local())  # type: ignore[attr-defined]

    def set_gradients(self, gradients: Mapping[str, Tensor]) -> None:
        """Give every shard its part of a gradient that all ranks have."""
        for name, gradient in gradients.items():
            shard, _ = self._pairs[name]
            shard.grad = _shard_of(gradient, shard)

    def whole_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """The state of the optimizer as that of whole parameters: a collective call."""
        state: dict[str, Any] = _mapped(optimizer.state_dict(), _gathered)
        return state

    def sharded_state(
        self, state: Mapping[str, Any], optimizer: torch.optim.Optimizer
    ) -> dict[str, Any]:
        """The reverse of `whole_state`."""
        moved = [value for group in optimizer.param_groups for value in group["params"]]
        entries = {}
        for number, entry in state["state"].items():
            shard = moved[number]
            entries[number] = _mapped(entry, partial(_fitting, shard))
        return {**state, "state": entries}


def _gathered(value: Any) -> Any:
    """The whole tensor of a shard; what is none stays as it is."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _fitting(shard: Tensor, value: Tensor) -> Any:
    """What an optimizer keeps for a parameter: in shards like it if it has its shape."""
    return _shard_of(value, shard) if value.shape == shard.shape else value


def _shard_of(value: Tensor, like: Any) -> Any:
    """This rank's shard of a tensor that all ranks have."""
    from torch.distributed.tensor import distribute_tensor

    # older releases of torch send the shards from the first rank, which has the same values
    known = "src_data_rank" in inspect.signature(distribute_tensor).parameters
    whole = value.detach().to(like.device)
    options: dict[str, Any] = {"src_data_rank": None} if known else {}
    return distribute_tensor(whole, like.device_mesh, like.placements, **options)


def _mapped(state: Any, change: Callable[[Any], Any]) -> Any:
    """Nested plain data with its tensors changed."""
    if isinstance(state, Tensor):
        return change(state)
    if isinstance(state, dict):
        return {key: _mapped(value, change) for key, value in state.items()}
    if isinstance(state, list):
        return [_mapped(value, change) for value in state]
    return state


def _twin(module: nn.Module, copies: dict[int, Any]) -> nn.Module:
    """The module without FSDP: its class, its hooks, and with whole parameters."""
    if id(module) in copies:
        known: nn.Module = copies[id(module)]
        return known
    from torch.distributed import fsdp

    kind = type(module)
    if isinstance(module, fsdp.FSDPModule):
        kind = kind.__bases__[1]  # fully_shard made a class of FSDPModule and this one
    twin: nn.Module = kind.__new__(kind)
    copies[id(module)] = twin
    twin.__dict__.update(module.__dict__)
    for name in _HOOKS:
        hooks = {
            number: hook
            for number, hook in getattr(module, name).items()
            if not str(getattr(hook, "__module__", "")).startswith(_FSDP)
        }
        if hooks:
            raise InvalidArgument(
                f"model must have no hooks to be trained in shards; got one of {kind.__name__}."
            )
        twin.__dict__[name] = type(getattr(module, name))()
    twin.__dict__["_modules"] = {
        name: None if child is None else _twin(child, copies)
        for name, child in module._modules.items()
    }
    twin.__dict__["_parameters"] = {
        name: None if value is None else _whole(value, copies)
        for name, value in module._parameters.items()
    }
    return twin


def _whole(value: Any, copies: dict[int, Any]) -> nn.Parameter:
    """A parameter of the whole tensor, once for each."""
    if id(value) not in copies:
        whole = value.detach().full_tensor().clone()
        copies[id(value)] = nn.Parameter(whole, requires_grad=value.requires_grad)
    parameter: nn.Parameter = copies[id(value)]
    return parameter
