"""Data on which one record would move the gradients of others, if anything could.

A gradient that is computed in another shape, or at another place, differs in its last bits only, except
where rounding decides: at a kink of the loss, such as a ReLU at 0, it changes by its full length. So
records are moved to kinks, by halving lines between them until the gradient jumps from one double to the
next; then one record is spoiled in every way that must count as zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sharpdp._validate import kind_of
from sharpdp.errors import WrongType

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["at_kinks", "check_tensors", "counts_as_zero", "spoiled"]

Data = tuple[Any, Any]
"""Inputs and targets, tensors with one row per record."""

HALVINGS = 40
"""Enough for two single-precision numbers on a line to become neighbors."""


def check_tensors(data: Any) -> Data:
    """The data, if they are a pair of tensors with one row per record."""
    import torch

    pair = isinstance(data, tuple) and len(data) == 2
    if not pair or not all(isinstance(part, torch.Tensor) and part.dim() for part in data):
        raise WrongType(
            "data must be two tensors, inputs and targets, with one row per record, for "
            f"adversarial=True; got {kind_of(data)}."
        )
    return data[0], data[1]


def at_kinks(each: Callable[[Tensor, Tensor], dict[str, Tensor]], data: Data) -> Data:
    """The records, every other one moved to a point at which its gradient jumps, if there is one.

    Args:
        each: Gradients of all examples, from inputs and targets, by the name of the parameter.
        data: Inputs and targets; inputs that are no real numbers are returned as they are.

    Returns:
        Inputs and targets.
    """
    import torch

    inputs, targets = data
    if not inputs.is_floating_point() or len(inputs) < 2:
        return data

    def gradients(rows: Tensor) -> Tensor:
        parts = each(rows, targets).values()
        return torch.cat([part.flatten(1).double() for part in parts], 1)

    start, end = inputs.clone(), inputs.roll(1, 0)
    first, last = gradients(start), gradients(end)
    for _ in range(HALVINGS):
        middle = (start + end) / 2
        found = gradients(middle)
        is_near = (found - first).norm(dim=1) <= (found - last).norm(dim=1)
        shape = (-1, *[1] * (inputs.dim() - 1))
        start = torch.where(is_near.view(shape), middle, start)
        end = torch.where(is_near.view(shape), end, middle)
    moved = inputs.clone()
    moved[::2], moved[1::4] = start[::2], end[1::4]
    return moved, targets


def spoiled(data: Data, index: int) -> Iterator[tuple[str, Data]]:
    """The data with one record spoiled in ways that should leave it without a gradient, by name.

    Args:
        data: Inputs and targets.
        index: The record.
    """
    inputs, targets = data
    for name, part in (("inputs", inputs), ("targets", targets)):
        values = [float("nan"), float("inf")] if part.is_floating_point() else [2**40, -(2**40)]
        if part.element_size() < 8 and not part.is_floating_point():
            values = [2 ** (8 * part.element_size() - 1) - 1]
        for value in values if part[index].numel() and part.dtype.is_signed else ():
            changed = part.clone()
            changed[index] = value
            whole = (changed, targets) if name == "inputs" else (inputs, changed)
            yield f"{name} {value}", whole


def counts_as_zero(
    total: Callable[[Tensor, Tensor], dict[str, Tensor]], data: Data, index: int
) -> bool:
    """Whether a record adds nothing to a sum: a model may make numbers of what is none.

    Args:
        total: The sum of clipped gradients, from inputs and targets, by the name of the parameter.
        data: Inputs and targets.
        index: The record.
    """
    inputs, targets = data
    alone = total(inputs[index : index + 1], targets[index : index + 1])
    return not any(bool(value.any()) for value in alone.values())
