"""Rounds of clients with PrivUnit, simulated: the sum of the reports alone, with the law it has.

A round of `sharpdp.learn.ClientRun` draws 2000 vectors of 26,010 coordinates on a lattice from the
operating system's randomness. A study of accuracy needs their sum only, so this module draws

    sum = (C / m) (sum over clients in the cap of  t_i u_i + sqrt(1 - t_i^2) s_i
                   + sum of all uniform points of the sphere)

with pseudorandom numbers in single precision: t_i is the height in the cap, s_i uniform on the unit
vectors perpendicular to u_i. A sum of uniform points has a uniform direction, and its length is a walk
with one number a step. The s_i of a chunk of clients have a part in the span of the chunk's u_i, which
takes few numbers, and a part in its complement. The latter have uniform directions, independent of all
else, so that their sum is one direction and a walk again. This is the law of the reports but for the
lattice, which adds 3e-4 of the variance at most; nothing drawn here may be published as private.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from numpy.typing import NDArray

from reproduce.learning.gradients import Gradients
from sharpdp.learn import PrivUnitBall

__all__ = ["CHUNK", "Vectors", "gaussian_limit", "sum_of_reports"]

Floats = NDArray[np.float64]
Vectors = Callable[[NDArray[np.int64]], Iterable[Gradients]]
"""Vectors of the clients with these numbers, in chunks."""

CHUNK = 40
"""Clients whose gradients are held at once."""

FLAT = 1e-4
"""An axis is no part of a span if the squares of the unit vectors along it sum to less."""


def sum_of_reports(
    ball: PrivUnitBall,
    vectors: Vectors,
    clients: int,
    rng: np.random.Generator,
    source: torch.Generator,
) -> torch.Tensor:
    """The sum of the reports of so many clients, whose vectors are clipped to the radius.

    ``vectors`` gives those of the clients that are asked for. Only those whose report depends on their
    vector are: with probability ``ball.blanket`` a report is a uniform point, whatever the client holds.
    """
    inside = np.flatnonzero(rng.random(clients) >= ball.blanket)
    uniform = clients - inside.size
    total = torch.zeros(ball.dimension)
    for taken in vectors(inside):
        gram = taken.gram().numpy()
        lengths = np.sqrt(np.diagonal(gram))
        somewhere = lengths > 0.0  # no direction: a random one, so a uniform point
        uniform += int(np.count_nonzero(~somewhere))
        shares = np.minimum(lengths / ball.radius, 1.0)
        signs = np.where(rng.random(lengths.size) < 0.5 + 0.5 * shares, 1.0, -1.0) * somewhere
        heights = cap_heights(ball, lengths.size, rng)
        scales = 1.0 / np.where(somewhere, lengths, 1.0)
        span = Span(gram * np.outer(scales, scales), ball.dimension)
        along, across = span.sideways(np.sqrt(1.0 - heights**2) * somewhere, rng)
        point = torch.empty(ball.dimension).normal_(generator=source)
        removed, square = span.projected(taken.products(point).double().numpy() * scales)
        ratio = across / (float(torch.linalg.vecdot(point, point)) - square) ** 0.5
        weights = scales * (signs * heights + along - ratio * removed)
        total += taken.combined(torch.from_numpy(weights).float()) + ratio * point
    point = torch.empty(ball.dimension).normal_(generator=source)
    length = walk_length(np.ones(uniform), ball.dimension, rng)
    total += point * (length / float(torch.linalg.vector_norm(point)))
    return total * (ball.reach / ball.unit.cap.mean)


def gaussian_limit(
    ball: PrivUnitBall,
    vectors: Vectors,
    clients: int,
    rng: np.random.Generator,
    source: torch.Generator,
) -> torch.Tensor:
    """The sum of the clipped vectors and Gaussian noise of the largest variance that reports have.

    It is fast where `sum_of_reports` is exact, and leaves out that a report varies more along its own
    vector. It serves to choose settings; ``rng`` is not used.
    """
    deviation = (clients * ball.largest_variance / ball.dimension) ** 0.5
    total: torch.Tensor = deviation * torch.empty(ball.dimension).normal_(generator=source)
    for taken in vectors(np.arange(clients)):
        lengths = taken.lengths()
        total += taken.combined(ball.radius / torch.clamp(lengths, min=ball.radius))
    return total


class Span:
    """What unit vectors span, given their inner products; a vector in it by its weights on them."""

    def __init__(self, gram: Floats, dimension: int) -> None:
        values, axes = np.linalg.eigh(gram)
        kept = slice(max(np.count_nonzero(values <= FLAT), len(gram) - dimension), None)
        self.values, self.axes = values[kept], axes[:, kept]
        self.others = dimension - self.values.size

    def sideways(self, lengths: Floats, rng: np.random.Generator) -> tuple[Floats, float]:
        """The sum of uniform vectors of these lengths, each perpendicular to one of the unit vectors.

        Returns:
            Its part in the span, as weights on the unit vectors, and the length of the rest, whose
            direction is uniform in the complement.
        """
        places = self.axes * np.sqrt(self.values)
        places /= np.maximum(np.linalg.norm(places, axis=1, keepdims=True), FLAT)
        inner = rng.standard_normal(places.shape)
        inner -= np.sum(inner * places, axis=1, keepdims=True) * places
        outer = _chisquare(self.others, lengths.size, rng)
        lengths = lengths / np.sqrt(np.sum(inner**2, axis=1) + outer)
        weights = self.axes @ ((lengths @ inner) / np.sqrt(self.values))
        return weights, walk_length(lengths * np.sqrt(outer), self.others, rng)

    def projected(self, products: Floats) -> tuple[Floats, float]:
        """The projection of a vector with these inner products, and the square of its length."""
        found = products @ self.axes
        return self.axes @ (found / self.values), float(np.sum(found**2 / self.values))


def cap_heights(ball: PrivUnitBall, count: int, rng: np.random.Generator) -> Floats:
    """Heights of uniform points of the cap: 1 - t^2 by its power law, accepted with probability c / t."""
    c, found = ball.height, np.empty(0)
    while found.size < count:
        power = rng.random(2 * count + 8) ** (2.0 / (ball.dimension - 1))
        t = np.sqrt(1.0 - (1.0 - c * c) * power)
        found = np.concatenate([found, t[rng.random(t.size) * t < c]])
    return found[:count]


def walk_length(steps: Floats, dimension: int, rng: np.random.Generator) -> float:
    """The length of a sum of vectors of these lengths with uniform directions."""
    if dimension == 0:
        return 0.0
    normal = rng.standard_normal(steps.size)
    cosines = normal / np.sqrt(normal**2 + _chisquare(dimension - 1, steps.size, rng))
    square = 0.0
    for step, cosine in zip(steps.tolist(), cosines.tolist(), strict=True):
        square = max(square + step * (step + 2.0 * square**0.5 * cosine), 0.0)
    return float(square**0.5)


def _chisquare(dimension: int, count: int, rng: np.random.Generator) -> Floats:
    """Squares of the lengths of normal vectors."""
    return rng.chisquare(dimension, count) if dimension else np.zeros(count)
