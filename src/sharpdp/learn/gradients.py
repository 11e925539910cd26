"""Sums of clipped per-example gradients, in physical pieces of a batch.

A gradient is a mapping from the names of the model's trainable parameters to tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from sharpdp._validate import count, scale, shown
from sharpdp.errors import InvalidArgument, SharpDPError, WrongType

__all__ = ["ClippedGradients", "Loss", "check_examples"]

Loss = Callable[[Tensor, Tensor], Tensor]
"""The loss of one example: the model's output and the target, both with a first axis of length one."""

_FINE = (torch.float32, torch.float64)
"""Kinds of numbers that clipped gradients are held in."""

_SHRINK = 1.0 - 2.0**-20
"""Clipped gradients are shorter by this: norms are summed in double precision, the factor and the product
are rounded to single, each by 2^-24, so that no gradient comes out longer than the clipping norm."""


@dataclass(frozen=True)
class ClippedGradients:
    """Per-example gradients of a loss, clipped to l2 norm at most `clip` and summed.

    `physical_batch_size` examples are held in memory at a time; it changes nothing else. The model may
    not mix the examples of a batch: a layer such as BatchNorm would give no gradient of one example.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(model.weight, 0.0)
    >>> take = ClippedGradients(model, nn.MSELoss(), clip=1.0)
    >>> total = take.sum(torch.tensor([[3.0], [0.125]]), torch.tensor([[1.0], [-1.0]]))
    >>> round(float(total["weight"]), 5)  # gradients -6 and 1/4, clipped to -1 and 1/4
    -0.75
    """

    model: nn.Module
    loss: Loss
    clip: float
    physical_batch_size: int = 256

    def __post_init__(self) -> None:
        """Check the numbers and that the model treats examples one by one."""
        _check_model(self.model)
        if isinstance(self.loss, type) or not callable(self.loss):
            raise WrongType(
                f"loss must be a function of an output and a target; got {shown(self.loss)}. "
                "Try torch.nn.CrossEntropyLoss()."
            )
        hint = "It is the largest l2 norm of one example's gradient."
        object.__setattr__(self, "clip", scale(clip=self.clip, hint=hint))
        pieces = count(physical_batch_size=self.physical_batch_size, hint="It counts examples.")
        object.__setattr__(self, "physical_batch_size", pieces)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trainable parameters by name, detached."""
        named = self.model.named_parameters()
        return {name: value.detach() for name, value in named if value.requires_grad}

    def sum(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The sum over the examples, in double precision; zero for an empty batch.

        Holds when: the loss of an example depends on that example and the parameters alone. The sum is
        taken in double precision, so that one example moves it by at most `clip` (1 + 1e-9).
        """
        _check_pair(inputs, targets)
        parameters = self.parameters
        total = {name: torch.zeros_like(v, dtype=torch.float64) for name, v in parameters.items()}
        for start in range(0, inputs.shape[0], self.physical_batch_size):
            piece = slice(start, start + self.physical_batch_size)
            each = self.each(inputs[piece], targets[piece])
            factor = self._factors(each)
            for name, gradient in each.items():
                weighted = gradient * factor.view(-1, *[1] * (gradient.dim() - 1)).to(
                    gradient.dtype
                )
                total[name] += weighted.sum(0, dtype=torch.float64)
        return total

    def each(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        """The gradient of every example before it is clipped, stacked along the first axis.

        In single precision at least: half precision would lengthen what was clipped.
        """
        _check_pair(inputs, targets)
        try:
            found = self._each(inputs, targets)
        except SharpDPError:
            raise
        except Exception as fault:  # torch has many kinds, and the model and the loss their own
            reason = str(fault).partition("\n")[0] or type(fault).__name__
            raise InvalidArgument(
                "model and loss must give a number for one example, of inputs "
                f"{tuple(inputs.shape[1:])} ({inputs.dtype}) and targets {tuple(targets.shape[1:])} "
                f"({targets.dtype}); got {type(fault).__name__}: {reason}. Nothing was released."
            ) from fault
        return {
            name: value if value.dtype in _FINE else value.float() for name, value in found.items()
        }

    def _each(self, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
        named = self.model.named_parameters()
        fixed = {name: value.detach() for name, value in named if not value.requires_grad}
        buffers = dict(self.model.named_buffers())

        def loss_of_one(some: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            output = functional_call(self.model, {**some, **fixed, **buffers}, (x.unsqueeze(0),))
            value: object = self.loss(output, y.unsqueeze(0))
            if not isinstance(value, Tensor) or not value.is_floating_point():
                got = value.dtype if isinstance(value, Tensor) else shown(value)
                raise WrongType(f"loss must return a tensor of real numbers; got {got}.")
            return value.sum()

        gradients: dict[str, Tensor] = vmap(
            grad(loss_of_one), in_dims=(None, 0, 0), randomness="different"
        )(self.parameters, inputs.detach(), targets.detach())
        return gradients

    def _factors(self, each: Mapping[str, Tensor]) -> Tensor:
        """By how much each example's gradient is shortened."""
        squares = sum(
            gradient.flatten(1).to(torch.float64).square().sum(1) for gradient in each.values()
        )
        assert isinstance(squares, Tensor)
        norms = squares.sqrt()
        if not bool(torch.isfinite(norms).all()):
            raise InvalidArgument(
                f"gradients must be finite; got {int((~torch.isfinite(norms)).sum())} examples whose "
                "gradient is not. Nothing was released. Lower the learning rate, or check the data."
            )
        return torch.clamp(self.clip / norms.clamp_min(self.clip * 2.0**-60), max=1.0) * _SHRINK


def _check_model(model: object) -> None:
    """An error unless gradients of single examples with real parameters make sense."""
    if not isinstance(model, nn.Module):
        raise WrongType(f"model must be a torch.nn.Module; got {shown(model)}.")
    for layer in model.modules():
        if isinstance(layer, nn.modules.batchnorm._NormBase) and (
            isinstance(layer, nn.modules.batchnorm._BatchNorm) or layer.track_running_stats
        ):
            raise InvalidArgument(
                f"model must treat every example on its own; got {type(layer).__name__}, which mixes a "
                "batch. Use GroupNorm or LayerNorm."
            )
    trainable = [(name, one) for name, one in model.named_parameters() if one.requires_grad]
    if not trainable:
        raise InvalidArgument("model must have trainable parameters; got none.")
    for name, one in trainable:
        if isinstance(one, nn.parameter.UninitializedParameter):
            raise InvalidArgument(
                f"model must have parameters with shapes; got {name!r}, which waits for its first "
                "input. Call the model once."
            )
        if not one.is_floating_point():
            raise InvalidArgument(f"model must have real parameters; got {name!r} of {one.dtype}.")


def check_examples(inputs: object, targets: object) -> None:
    """An error unless both are dense tensors, one row an example."""
    for name, value in {"inputs": inputs, "targets": targets}.items():
        if not isinstance(value, Tensor) or value.dim() == 0 or value.layout != torch.strided:
            raise WrongType(
                f"{name} must be a dense torch tensor, one row an example; got {shown(value)}."
            )


def _check_pair(inputs: Tensor, targets: Tensor) -> None:
    check_examples(inputs, targets)
    if len(inputs) != len(targets):
        raise InvalidArgument(
            f"targets must be as many as inputs, {len(inputs)}; got {len(targets)}."
        )
