"""Rounds of clients with PrivUnit, simulated: the sum of the reports alone, with the law it has.

A round of `sharpdp.learn.ClientRun` draws 2000 vectors of 26,010 coordinates on a lattice from the
operating system's randomness. A study of accuracy needs their sum only, so this module draws

    sum = (C / m) (sum over clients in the cap of  t_i u_i + sqrt(1 - t_i^2) s_i
                   + sum of all uniform points of the sphere)

with pseudorandom numbers in single precision: t_i is the height in the cap, s_i a normal vector made
perpendicular to u_i and scaled to length one. A sum of uniform points has a uniform direction, and its
length is a walk with one number a step. This is the law of the reports but for the lattice, which adds
3e-4 of the variance at most; nothing drawn here may be published as private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sharpdp.learn import PrivUnitBall

__all__ = ["Chunks", "gradient_rows", "sum_of_reports"]

Chunks = Iterator[Tensor]
Rows = Callable[[NDArray[np.int64]], Chunks]
"""Vectors of the clients with these numbers, in chunks that are used up one after the other."""

CHUNK = 100
"""Gradients of so many clients are held at once."""


def gradient_rows(model: nn.Sequential, inputs: Tensor, labels: Tensor) -> Chunks:
    """Gradients of the cross entropy, a row for each client, in chunks that share one block of memory.

    One pass forward and one back for a chunk: the gradient of a layer's weights for one record is the
    product of what the record sent in and what came back.
    """
    size = sum(one.numel() for one in model.parameters())
    memory = torch.empty(min(CHUNK, len(inputs)), size)
    layers = [one for one in model if any(True for _ in one.parameters())]
    for start in range(0, len(inputs), CHUNK):
        some = inputs[start : start + CHUNK]
        seen: list[Tensor] = []
        outcomes: list[Tensor] = []
        value = some
        for layer in model:
            if layer in layers:
                seen.append(value.detach())
                value = layer(value)
                outcomes.append(value)
            else:
                value = layer(value)
        loss = nn.functional.cross_entropy(value, labels[start : start + CHUNK], reduction="sum")
        back = torch.autograd.grad(loss, outcomes)
        rows, place = memory[: len(some)], 0
        for layer, x, y in zip(layers, seen, back, strict=True):
            if isinstance(layer, nn.Conv2d):
                shape = (layer.kernel_size, layer.dilation, layer.padding, layer.stride)
                columns = nn.functional.unfold(x, *shape)  # type: ignore[arg-type]
                sent = y.flatten(2)
                weight, bias = sent @ columns.transpose(1, 2), sent.sum(2)
            else:
                weight, bias = y[:, :, None] * x[:, None, :], y
            for part in (weight, bias):
                width = part[0].numel()
                rows[:, place : place + width] = part.flatten(1)
                place += width
        yield rows


def sum_of_reports(
    ball: PrivUnitBall, rows: Rows, clients: int, rng: np.random.Generator, source: torch.Generator
) -> NDArray[np.float64]:
    """The sum of the reports of so many clients, whose vectors are clipped to the radius.

    ``rows`` gives the vectors of the clients that are asked for. Only those whose report depends on their
    vector are: with probability ``ball.blanket`` a report is a uniform point, whatever the client holds.
    """
    total = np.zeros(ball.dimension)
    inside = np.flatnonzero(rng.random(clients) >= ball.blanket)
    uniform = clients - inside.size
    memory = torch.empty(min(CHUNK, inside.size), ball.dimension)
    for taken in rows(inside):
        lengths = torch.linalg.vecdot(taken, taken).double().sqrt().numpy()
        nowhere = lengths == 0.0  # a random direction, so a uniform point
        uniform += int(np.count_nonzero(nowhere))
        shares = np.minimum(lengths / ball.radius, 1.0)
        signs = np.where(rng.random(len(taken)) < 0.5 + 0.5 * shares, 1.0, -1.0)
        heights = cap_heights(ball, len(taken), rng)
        lengths[nowhere] = 1.0
        sides = memory[: len(taken)].normal_(generator=source)
        along = torch.linalg.vecdot(sides, taken).double().numpy() / lengths
        squares = torch.linalg.vecdot(sides, sides).double().numpy()
        scales = np.sqrt((1.0 - heights**2) / (squares - along**2)) * ~nowhere
        factors = (signs * heights - scales * along) / lengths
        total += (torch.from_numpy(factors).float() @ taken).double().numpy()
        total += (torch.from_numpy(scales).float() @ sides).double().numpy()
    total += walk_length(uniform, ball.dimension, rng) * _direction(ball.dimension, rng)
    return total * (ball.reach / ball.unit.cap.mean)


def cap_heights(ball: PrivUnitBall, count: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Heights of uniform points of the cap: 1 - t^2 by its power law, accepted with probability c / t."""
    c, found = ball.height, np.empty(0)
    while found.size < count:
        power = rng.random(2 * count + 8) ** (2.0 / (ball.dimension - 1))
        t = np.sqrt(1.0 - (1.0 - c * c) * power)
        found = np.concatenate([found, t[rng.random(t.size) * t < c]])
    return found[:count]


def walk_length(steps: int, dimension: int, rng: np.random.Generator) -> float:
    """The length of a sum of so many uniform points of the sphere."""
    normal, others = rng.standard_normal(steps), rng.chisquare(dimension - 1, steps)
    cosines = normal / np.sqrt(normal**2 + others)
    square = 0.0
    for cosine in cosines.tolist():
        square += 1.0 + 2.0 * square**0.5 * cosine
        square = max(square, 0.0)
    return float(square**0.5)


def _direction(dimension: int, rng: np.random.Generator) -> NDArray[np.float64]:
    point = rng.standard_normal(dimension)
    return np.asarray(point / np.linalg.norm(point))
