"""A network with one hidden layer of ReLU units whose per-record gradients are never written out.

The gradient of a layer's weights for one record is a product of two vectors, what came in and what came
back. Its lp norm is the product of their lp norms, and a weighted sum over records is one product of
matrices, so that clipping every record costs what a batch costs.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Dense", "PerRecord"]

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class PerRecord:
    """The gradients of some records: for each layer what came in (with a last 1) and what came back."""

    layers: tuple[tuple[Floats, Floats], ...]
    right: int

    def norms(self, order: int) -> Floats:
        """The norm of the whole gradient of each record: 1 or 2."""
        powers = [
            (np.abs(x) ** order).sum(1) * (np.abs(back) ** order).sum(1) for x, back in self.layers
        ]
        total: Floats = np.sum(powers, axis=0) ** np.float32(1.0 / order)
        return total

    def clipped(self, clip: float, order: int) -> list[Floats]:
        """The sum of the gradients, each scaled down to the clip in this norm."""
        weights = np.minimum(1.0, clip / np.maximum(self.norms(order), 1e-30)).astype(np.float32)
        return self.total(weights)

    def total(self, weights: Floats | None = None) -> list[Floats]:
        """The weighted sum of the gradients, layer by layer."""
        return [
            x.T @ (back if weights is None else back * weights[:, None]) for x, back in self.layers
        ]


class Dense:
    """Softmax over ten classes after one hidden layer, or after none (hidden = 0)."""

    def __init__(self, inputs: int, hidden: int, rng: np.random.Generator) -> None:
        """Weights as torch draws them: uniform, within one over the root of the inputs."""
        sizes = (inputs, hidden, 10) if hidden else (inputs, 10)
        self.weights: list[Floats] = [
            rng.uniform(-(rows**-0.5), rows**-0.5, (rows + 1, columns)).astype(np.float32)
            for rows, columns in itertools.pairwise(sizes)
        ]

    @property
    def dimension(self) -> int:
        """The number of parameters."""
        return sum(one.size for one in self.weights)

    def gradients(self, x: Floats, labels: NDArray[np.int64]) -> PerRecord:
        """Gradients of the cross entropy of these records."""
        seen = self._seen(x)
        shares = _softmax(seen[-1] @ self.weights[-1])
        right = int(np.count_nonzero(shares.argmax(1) == labels))
        shares[np.arange(len(labels)), labels] -= 1.0
        layers = [(seen[-1], shares)]
        if len(seen) > 1:
            below = (shares @ self.weights[-1][:-1].T) * (seen[-1][:, :-1] > 0.0)
            layers.insert(0, (seen[0], below))
        return PerRecord(tuple(layers), right)

    def accuracy(self, x: Floats, labels: NDArray[np.int64]) -> float:
        """The share of records that are recognized."""
        found = (self._seen(x)[-1] @ self.weights[-1]).argmax(1)
        return float(np.mean(found == labels))

    def descend(self, steps: list[Floats], rate: float) -> None:
        """One step against these sums."""
        for weights, step in zip(self.weights, steps, strict=True):
            weights -= np.float32(rate) * step

    def _seen(self, x: Floats) -> list[Floats]:
        """What goes into each layer."""
        seen = [_with_one(x)]
        if len(self.weights) > 1:
            seen.append(_with_one(np.maximum(seen[0] @ self.weights[0], 0.0)))
        return seen


def _with_one(x: Floats) -> Floats:
    return np.hstack([x, np.ones((len(x), 1), dtype=np.float32)])


def _softmax(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    return shares
