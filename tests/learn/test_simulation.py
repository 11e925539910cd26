"""Simulated rounds and networks: the law of the library's reports, and the gradients of torch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from reproduce.learning import simulation
from reproduce.learning.dense import Dense
from reproduce.learning.models import flattened, network
from scipy.stats import ks_2samp
from torch import nn

from sharpdp.learn import PrivUnitBall

ROUNDS = 4000


@pytest.fixture(scope="module")
def vectors() -> NDArray[np.float64]:
    """One client on the rim, two inside, and one at zero."""
    rows = np.random.default_rng(3).normal(size=(4, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.array([1.0, 0.5, 0.2, 0.0])[:, None]


def test_the_simulated_sum_has_the_law_of_the_reports(vectors: NDArray[np.float64]) -> None:
    ball = PrivUnitBall(dimension=6, local_epsilon=2.0)
    many = np.tile(vectors, (ROUNDS, 1))
    real = ball.reports(many, rng=np.random.default_rng(1)).reshape(ROUNDS, 4, 6).sum(1)
    # twice the radius is clipped to it
    held = torch.from_numpy(vectors * np.array([2.0, 1.0, 1.0, 1.0])[:, None]).float()
    rng, source = np.random.default_rng(2), torch.Generator().manual_seed(2)

    def rows(which: NDArray[np.int64]) -> Iterator[torch.Tensor]:
        yield held[torch.from_numpy(which)]

    drawn = np.array([simulation.sum_of_reports(ball, rows, 4, rng, source) for _ in range(ROUNDS)])
    for way in (vectors[0], vectors[1], vectors[0] - vectors[1], np.eye(6)[2]):
        assert ks_2samp(real @ way, drawn @ way).pvalue > 1e-3
    assert ks_2samp((real**2).sum(1), (drawn**2).sum(1)).pvalue > 1e-3
    error = 5.0 * drawn.std(0) / ROUNDS**0.5
    assert np.all(np.abs(drawn.mean(0) - vectors.sum(0)) < error)


def test_the_length_of_a_sum_of_uniform_points() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2000, 5, 3))
    points /= np.linalg.norm(points, axis=2, keepdims=True)
    lengths = [simulation.walk_length(5, 3, rng) for _ in range(2000)]
    assert ks_2samp(np.linalg.norm(points.sum(1), axis=1), lengths).pvalue > 1e-3
    assert simulation.walk_length(0, 3, rng) == 0.0
    assert simulation.walk_length(1, 3, rng) == pytest.approx(1.0)


def test_rows_are_the_gradients_of_single_records() -> None:
    model = network(28, seed=0)
    images, labels = torch.randn(3, 1, 28, 28), torch.tensor([0, 4, 9])
    (rows,) = simulation.gradient_rows(model, images, labels)
    assert rows.shape == (3, flattened(model).size)
    for place in range(3):
        loss = nn.functional.cross_entropy(
            model(images[place : place + 1]), labels[place : place + 1]
        )
        right = torch.cat([one.ravel() for one in torch.autograd.grad(loss, model.parameters())])
        assert torch.allclose(rows[place], right, atol=1e-6)


@pytest.mark.parametrize("order", [1, 2])
def test_a_dense_network_clips_every_record(order: int) -> None:
    rng = np.random.default_rng(0)
    model, x, labels = Dense(5, 4, rng), rng.normal(size=(6, 5)).astype(np.float32), np.arange(6)
    first, second = (
        torch.tensor(one, dtype=torch.float64, requires_grad=True) for one in model.weights
    )
    singles, norms = [], []
    for place in range(6):
        row = torch.from_numpy(np.append(x[place], 1.0)).double()
        hidden = torch.cat([torch.relu(row @ first), torch.ones(1, dtype=torch.float64)])
        loss = nn.functional.cross_entropy((hidden @ second)[None], torch.tensor([place]))
        found = torch.autograd.grad(loss, (first, second))
        singles.append([one.numpy() for one in found])
        whole = torch.cat([one.ravel() for one in found])
        norms.append(float(torch.linalg.vector_norm(whole, order)))
    gradients, clip = model.gradients(x, labels), float(np.median(norms))
    assert gradients.norms(order) == pytest.approx(norms, rel=1e-5)
    for layer, ours in enumerate(gradients.clipped(clip, order)):
        scaled = [
            one[layer] * min(1.0, clip / norm) for one, norm in zip(singles, norms, strict=True)
        ]
        assert np.allclose(ours, sum(scaled), atol=1e-5)
