"""Who writes the parameters and buffers of a model, other than its optimizer.

What a forward pass writes is in the model without noise: rows of an embedding that are shortened when
they are looked up, running statistics, the vectors of a spectral norm. Layers of torch that do so are
known by name; everything else is seen by the version that torch counts for each tensor, and by a sum
over its bits where memory is written behind torch's back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import _SpectralNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from sharpdp.errors import InvalidArgument, Unsupported

__all__ = ["WrittenState", "WrittenWeights", "check_layers", "unchanged"]

_Versions = dict[str, tuple[Tensor, int]]


class WrittenWeights(InvalidArgument):
    """A model wrote to its parameters or buffers when a gradient was computed."""


def check_layers(module: nn.Module) -> None:
    """Refuse layers of torch that write their parameters or buffers when they are called.

    Args:
        module: The model.

    Raises:
        Unsupported: A layer has ``max_norm``, running statistics or a spectral norm.
    """
    for name, layer in module.named_modules():
        how = _writes(layer)
        if how:
            raise Unsupported(
                f"module must not write its parameters or buffers when it is called; got layer {name!r}, "
                f"a {type(layer).__name__} with {how}, which would be in the model without noise."
            )


def _writes(layer: nn.Module) -> str:
    """What a layer of torch writes when it is called, in words; empty if that is nothing we know."""
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag) and layer.max_norm is not None:
        return f"max_norm={layer.max_norm}"
    if getattr(layer, "track_running_stats", False):
        return "track_running_stats=True"
    hooks = list(layer._forward_pre_hooks.values())
    if any(isinstance(one, _SpectralNorm | SpectralNorm) for one in (layer, *hooks)):
        return "a spectral norm"
    return ""


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """An error if parameters or buffers were written to; what can be is put back.

    Torch counts what is written to a tensor, except through ``.data``. So trainable parameters and
    buffers are compared with copies; frozen parameters, which may be many more, are not copied.
    """
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    seen = {
        name: (
            tensor,
            tensor._version,
            tensor.detach().clone()
            if tensor.requires_grad or not isinstance(tensor, nn.Parameter)
            else None,
        )
        for name, tensor in tensors.items()
        if tensor.layout == torch.strided and not isinstance(tensor, nn.UninitializedParameter)
    }
    changed = []
    try:
        yield
    finally:
        for name, (tensor, version, copy) in seen.items():
            if tensor._version != version or (copy is not None and not _same_bits(tensor, copy)):
                changed.append(name)
                if copy is not None:
                    with torch.no_grad():
                        tensor.copy_(copy)
    if changed:
        raise WrittenWeights(
            "model must not write to its parameters or buffers when a loss is computed; got "
            f"{changed[0]!r}, which changed. What is written holds data without noise: use no max_norm "
            "of an embedding, and no running statistics. Nothing was released."
        )


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape and type are equal bit for bit, also where they are no numbers."""
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    whole = _WHOLE[one.element_size()]
    return torch.equal(one.detach().view(whole), other.view(whole))


class WrittenState:
    """The parameters and buffers of a module, and whether a forward pass or a loss has written them.

    No forward pass may write them. From the first one in training to the step that follows it nobody may,
    but `load_state_dict`.

    Args:
        module: The module that is called.

    Raises:
        Unsupported: A layer is known to write.
    """

    def __init__(self, module: nn.Module) -> None:
        """Watch every call from here on."""
        check_layers(module)
        self.module, self.written = module, ""
        self._entered: _Versions | None = None
        self._before: tuple[_Versions, dict[str, int]] | None = None
        module.register_forward_pre_hook(self._enter)
        module.register_forward_hook(self._leave)
        loaded: Any = module.register_load_state_dict_post_hook
        loaded(lambda *_: self.settle())

    def check(self) -> None:
        """Refuse what was written since the first forward pass after the last step.

        Raises:
            InvalidArgument: A parameter or buffer was written, replaced, added or removed.
        """
        if self._before is not None and not self.written:
            versions, bits = self._before
            self.written = _changed(versions, self._versions()) or _changed(bits, self._bits())
        if self.written:
            raise InvalidArgument(
                "parameters and buffers must be written by the optimizer alone; got a model whose "
                f"{self.written!r} was written between a forward pass and the step. What is written "
                "there has no noise. Keep the model from doing so, and train a new one."
            )

    def settle(self) -> None:
        """Begin anew: whatever was written so far is meant."""
        self._before = None

    def _enter(self, *_: Any) -> None:
        self._entered = self._versions()
        if self._before is None and self.module.training and torch.is_grad_enabled():
            self._before = self._entered, self._bits()

    def _leave(self, *_: Any) -> None:
        entered, self._entered = self._entered, None
        if entered is not None:
            self.written = self.written or _changed(entered, self._versions())
            if self.written:
                self.check()

    def _named(self) -> dict[str, Tensor]:
        return dict([*self.module.named_parameters(), *self.module.named_buffers()])

    def _versions(self) -> _Versions:
        return {
            name: (value, 0 if value.is_inference() else value._version)
            for name, value in self._named().items()
        }

    def _bits(self) -> dict[str, int]:
        """For every tensor the sum of its bits, read as whole numbers, modulo 2^64."""
        names, sums = [], []
        for name, value in self._named().items():
            if value.layout is torch.strided and not (value.is_meta or value.is_quantized):
                names.append(name)
                sums.append(_sum_of_bits(value.detach()))
        return dict(zip(names, torch.stack(sums).tolist(), strict=True)) if sums else {}


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The first name whose value is not the same; empty if there is none."""
    for name in (*before, *after):
        one, other = before.get(name), after.get(name)
        if isinstance(one, tuple) and isinstance(other, tuple):
            if one[0] is not other[0] or one[1] != other[1]:
                return name
        elif one != other:
            return name
    return ""


_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def _sum_of_bits(value: Tensor) -> Tensor:
    flat = (torch.view_as_real(value) if value.is_complex() else value).reshape(-1)
    size, place = (number * flat.element_size() for number in (len(flat), flat.storage_offset()))
    fits = size % 8 == place % 8 == 0  # words of 8 bytes are added up several times as fast
    whole = flat.view(torch.int64 if fits else _WHOLE[flat.element_size()])
    return whole.sum(dtype=torch.int64).cpu()
