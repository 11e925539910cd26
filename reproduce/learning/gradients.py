"""Gradients of single clients for small networks, in chunks, with linear layers left as products.

Layers are run forward and back by hand, with channels last; the columns of a convolution serve both ways.
A linear layer's gradient for one record is the outer product of what came back and what the record sent
in: inner products and sums need the two factors only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["Gradients", "gradients", "in_order", "outputs"]

Piece = Tensor | tuple[Tensor, Tensor]
Back = Callable[[Tensor], Tensor]


SHORTEST, ZERO = 1e-10, 1e-30
"""What is sent back for a record that is recognized almost surely is made as large as the first, so that
inner products in single precision do not underflow; below the second it counts as zero. PrivUnit's sign
is a fair coin for any gradient so short."""


@dataclass(frozen=True)
class Gradients:
    """Vectors of some clients, cut into pieces.

    A piece is a matrix with a row for each client, or a pair (y, x): row i is then the outer product of
    y[i] and x[i].
    """

    pieces: list[Piece]

    def gram(self) -> Tensor:
        """All inner products, in double precision."""
        total = torch.zeros((), dtype=torch.float64)
        for piece in self.pieces:
            if isinstance(piece, tuple):
                y, x = piece
                total = total + (y @ y.T).double() * (x @ x.T).double()
            else:
                total = total + (piece @ piece.T).double()
        return total

    def lengths(self) -> Tensor:
        """The length of each."""
        total = torch.zeros(())
        for piece in self.pieces:
            if isinstance(piece, tuple):
                y, x = piece
                total = total + (y * y).sum(1) * (x * x).sum(1)
            else:
                total = total + (piece * piece).sum(1)
        return torch.sqrt(total)

    def products(self, vector: Tensor) -> Tensor:
        """The inner product of each with a vector."""
        total, place = torch.zeros(()), 0
        for piece in self.pieces:
            some = vector[place : place + _width(piece)]
            place += len(some)
            if isinstance(piece, tuple):
                y, x = piece
                total = total + torch.linalg.vecdot(y @ some.view(y.shape[1], x.shape[1]), x)
            else:
                total = total + piece @ some
        return total

    def combined(self, weights: Tensor) -> Tensor:
        """The sum with these weights."""
        parts = []
        for piece in self.pieces:
            if isinstance(piece, tuple):
                y, x = piece
                parts.append(((weights[:, None] * y).T @ x).flatten())
            else:
                parts.append(weights @ piece)
        return torch.cat(parts)


def _width(piece: Piece) -> int:
    if isinstance(piece, tuple):
        return piece[0].shape[1] * piece[1].shape[1]
    return piece.shape[1]


@torch.no_grad()
def gradients(model: nn.Sequential, inputs: Tensor, labels: Tensor) -> Gradients:
    """Gradients of the cross entropy, one for each record.

    Pieces are in the order of the parameters; see `in_order` for the weights within a convolution. Those
    of records that are recognized almost surely are longer than they are: see `SHORTEST`.
    """
    found: list[list[Piece]] = []
    value, backs = _run(model, inputs, found)
    sent = torch.softmax(value, 1)
    sent[torch.arange(len(labels)), labels] -= 1.0
    largest = sent.abs().amax(1, keepdim=True)
    longer = torch.clamp(SHORTEST / torch.clamp(largest, min=ZERO), min=1.0)
    sent = torch.where(largest < ZERO, 0.0, sent * longer)
    for back in reversed(backs):
        sent = back(sent)
    return Gradients([piece for pieces in reversed(found) for piece in pieces])


@torch.no_grad()
def outputs(model: nn.Sequential, inputs: Tensor) -> Tensor:
    """What the network says, a row for each record."""
    return torch.cat([_run(model, some, [])[0] for some in torch.split(inputs, 100)])


def _run(
    model: nn.Sequential, inputs: Tensor, found: list[list[Piece]]
) -> tuple[Tensor, list[Back]]:
    value, backs = inputs.movedim(1, -1), []
    for layer in model:
        value, back = _LAYERS[type(layer)](layer, value, found)
        backs.append(back)
    return value, backs


def _linear(layer: nn.Linear, x: Tensor, found: list[list[Piece]]) -> tuple[Tensor, Back]:
    def back(y: Tensor) -> Tensor:
        found.append([(y, x), y])
        return y @ layer.weight

    return nn.functional.linear(x, layer.weight, layer.bias), back


def _convolution(layer: nn.Conv2d, x: Tensor, found: list[list[Piece]]) -> tuple[Tensor, Back]:
    s, margin, size = layer.stride[0], int(layer.padding[0]), layer.kernel_size[0]
    if margin:
        x = nn.functional.pad(x, (0, 0, margin, margin, margin, margin))
    count, edge, _, deep = x.shape
    out = (edge - size) // s + 1
    one, row = edge * edge * deep, edge * deep
    windows = x.as_strided((count, out, out, size, size * deep), (one, s * row, s * deep, row, 1))
    columns = windows.reshape(count * out * out, size * size * deep)
    weight = layer.weight.permute(0, 2, 3, 1).flatten(1)

    def back(y: Tensor) -> Tensor:
        y = y.reshape(count, out * out, -1)
        rows = torch.bmm(y.transpose(1, 2), columns.view(count, out * out, -1))
        found.append([rows.flatten(1), y.sum(1)])
        if deep == 1:
            return y  # pixels, which nothing is behind
        steps = size // s
        parts = (y.flatten(0, 1) @ weight).view(count, out, out, steps, s, steps, s, deep)
        blocks = -(-edge // s)
        sent = torch.zeros(count, blocks, s, blocks, s, deep)
        for i in range(steps):
            for j in range(steps):
                sent[:, i : i + out, :, j : j + out] += parts[:, :, :, i, :, j].transpose(2, 3)
        whole = sent.view(count, blocks * s, blocks * s, deep)
        return whole[:, margin : edge - margin, margin : edge - margin]

    value = nn.functional.linear(columns, weight, layer.bias)
    return value.view(count, out, out, -1), back


def in_order(model: nn.Sequential, vector: Tensor) -> Tensor:
    """A vector in the order of the pieces, in the order of the parameters."""
    parts, place = [], 0
    for one in model.parameters():
        part = vector[place : place + one.numel()]
        place += one.numel()
        if one.dim() == 4:
            part = part.view(one.permute(0, 2, 3, 1).shape).permute(0, 3, 1, 2).flatten()
        parts.append(part)
    return torch.cat(parts)


def _pool(layer: nn.MaxPool2d, x: Tensor, found: list[list[Piece]]) -> tuple[Tensor, Back]:
    upper, lower = x[:, :-1], x[:, 1:]
    pairs = torch.maximum(upper, lower)
    left, right = pairs[:, :, :-1], pairs[:, :, 1:]

    def back(y: Tensor) -> Tensor:
        mine = y * torch.ge(left, right, out=torch.empty_like(y))
        between = torch.zeros_like(pairs)
        between[:, :, :-1] = mine
        between[:, :, 1:] += y - mine
        mine = between * torch.ge(upper, lower, out=torch.empty_like(pairs))
        sent = torch.zeros_like(x)
        sent[:, :-1] = mine
        sent[:, 1:] += between - mine
        return sent

    return torch.maximum(left, right), back


def _relu(layer: nn.ReLU, x: Tensor, found: list[list[Piece]]) -> tuple[Tensor, Back]:
    value = torch.relu(x)
    return value, lambda y: torch.ops.aten.threshold_backward(y, value, 0)


def _tanh(layer: nn.Tanh, x: Tensor, found: list[list[Piece]]) -> tuple[Tensor, Back]:
    value = torch.tanh(x)
    return value, lambda y: y * (1.0 - value * value)


def _flat(layer: nn.Flatten, x: Tensor, found: list[list[Piece]]) -> tuple[Tensor, Back]:
    first = x.movedim(-1, 1)
    return first.flatten(1), lambda y: y.view(first.shape).movedim(1, -1).contiguous()


_LAYERS: dict[type[nn.Module], Callable[..., tuple[Tensor, Back]]] = {
    nn.Linear: _linear,
    nn.Conv2d: _convolution,
    nn.MaxPool2d: _pool,
    nn.ReLU: _relu,
    nn.Tanh: _tanh,
    nn.Flatten: _flat,
}
