"""A model around another one that lets canaries, and null records in their places, take part in training.

Records become rows of numbers: the flattened input and a tag. The tag of an ordinary record is 0, that
of a null record -1, and that of gradient canary i is i from 1 on. A null record has output zero
whatever the parameters are, so that its gradient is zero. A gradient canary moves one parameter of its
own, which nothing else depends on: its gradient has one entry, so large that clipping leaves exactly
the clipping norm.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["WithCanaries", "rows_of"]

STRENGTH = 1e6
"""Factor of a canary's gradient, so that it is clipped."""


class WithCanaries(nn.Module):
    """The model with a lane for canaries beside it.

    Args:
        model: The model, whose outputs have at least one entry per record.
        shape: Shape of one input.
        canaries: Number of gradient canaries, at least 0; 0 for none.

    >>> model = WithCanaries(nn.Linear(3, 2), shape=(3,), canaries=4)
    >>> rows = rows_of(torch.ones(3, 3), torch.tensor([0, -1, 2]))
    >>> model(rows)[1].tolist()
    [0.0, 0.0]
    """

    def __init__(self, model: nn.Module, *, shape: tuple[int, ...], canaries: int) -> None:
        """Start with canary parameters at zero."""
        super().__init__()
        self.model, self.shape, self.canaries = model, shape, canaries
        # the linear layer is one that every library of per-example gradients knows
        self.lane = nn.Linear(canaries, 1, bias=False) if canaries else None
        if self.lane is not None:
            nn.init.zeros_(self.lane.weight)

    def forward(self, rows: Tensor) -> Tensor:
        """Outputs of ordinary records, zeros for null records and gradient canaries."""
        inputs, tags = rows[:, :-1].reshape(-1, *self.shape), rows[:, -1]
        is_ordinary = (tags == 0).to(rows.dtype)
        outputs: Tensor = self.model(inputs * _spread(is_ordinary, inputs))
        outputs = outputs * _spread(is_ordinary, outputs)
        if self.lane is not None:
            own = (tags[:, None] == torch.arange(1, self.canaries + 1, device=rows.device)).to(
                rows.dtype
            )
            moved = self.lane(own)
            # the value stays zero, and the gradient does not depend on the parameter
            outputs = outputs + STRENGTH * (moved - moved.detach()) * _first(outputs)
        return outputs

    def scores(self) -> Tensor:
        """How far the parameter of each gradient canary was moved down: large if it was in."""
        if self.lane is None:
            return torch.zeros(0)
        return -self.lane.weight.detach()[0].double().cpu()


def rows_of(inputs: Tensor, tags: Tensor) -> Tensor:
    """Inputs with their tags, one row of numbers each."""
    flat = inputs.flatten(1)
    return torch.cat([flat, tags.to(flat)[:, None]], dim=1)


def _spread(weights: Tensor, like: Tensor) -> Tensor:
    return weights.reshape(-1, *([1] * (like.dim() - 1)))


def _first(outputs: Tensor) -> Tensor:
    """1 for the first entry of an output, 0 for the others."""
    return (torch.arange(outputs.shape[1], device=outputs.device) == 0).to(outputs.dtype)
