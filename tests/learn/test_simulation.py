"""Simulated rounds and networks: the law of the library's reports, and the gradients of torch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from reproduce.learning import gradients, simulation
from reproduce.learning.dense import Dense
from reproduce.learning.gradients import Gradients
from reproduce.learning.models import network
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


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_the_simulated_sum_has_the_law_of_the_reports(
    vectors: NDArray[np.float64], chunk: int
) -> None:
    ball = PrivUnitBall(dimension=6, local_epsilon=2.0)
    many = np.tile(vectors, (ROUNDS, 1))
    real = ball.reports(many, rng=np.random.default_rng(1)).reshape(ROUNDS, 4, 6).sum(1)
    # twice the radius is clipped to it
    held = torch.from_numpy(vectors * np.array([2.0, 1.0, 1.0, 1.0])[:, None]).float()
    rng, source = np.random.default_rng(2), torch.Generator().manual_seed(2)

    def rows(which: NDArray[np.int64]) -> Iterator[Gradients]:
        return (Gradients([held[some]]) for some in torch.from_numpy(which).split(chunk))

    drawn = np.array([simulation.sum_of_reports(ball, rows, 4, rng, source) for _ in range(ROUNDS)])
    for way in (vectors[0], vectors[1], vectors[0] - vectors[1], np.eye(6)[2]):
        assert ks_2samp(real @ way, drawn @ way).pvalue > 1e-3
    assert ks_2samp((real**2).sum(1), (drawn**2).sum(1)).pvalue > 1e-3
    error = 5.0 * drawn.std(0) / ROUNDS**0.5
    assert np.all(np.abs(drawn.mean(0) - vectors.sum(0)) < error)


@pytest.mark.parametrize(("count", "dimension"), [(1, 2), (3, 8), (5, 5), (7, 4)])
def test_sideways_parts_have_the_law_of_the_plain_way(count: int, dimension: int) -> None:
    """Each test raises a false alarm with probability 1e-4; with fixed seeds none does."""
    rng = np.random.default_rng(count)
    units = rng.normal(size=(count, dimension)) + 1.0  # a common part, as gradients have
    units[-1] = units[0]  # and two that are the same
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    lengths = rng.uniform(0.2, 1.0, count)
    sides = rng.standard_normal((10 * ROUNDS, count, dimension))
    sides -= np.einsum("rij,ij->ri", sides, units)[:, :, None] * units
    sides /= np.linalg.norm(sides, axis=2, keepdims=True)
    plain = np.einsum("rij,i->rj", sides, lengths)
    span, drawn = simulation.Span(units @ units.T, dimension), np.zeros((ROUNDS, dimension))
    for place in range(ROUNDS):
        along, across = span.sideways(lengths, rng)
        point = rng.standard_normal(dimension)
        removed, square = span.projected(units @ point)
        if span.others:
            point = (point - removed @ units) * across / (point @ point - square) ** 0.5
            assert np.allclose(units @ point, 0.0, atol=1e-9)
        drawn[place] = along @ units + point * (span.others > 0)
    ways = np.array([*units[:3], *np.eye(dimension)[:2], rng.standard_normal(dimension)]).T
    seen, mine = (np.round(one @ ways, 9) for one in (plain, drawn))
    for place in range(ways.shape[1]):
        assert ks_2samp(seen[:, place], mine[:, place]).pvalue > 1e-4
        products = (one[:, place] * one[:, place - 1] for one in (seen, mine))
        assert ks_2samp(*products).pvalue > 1e-4
    squares = (np.round((one**2).sum(1), 9) for one in (plain, drawn))
    assert ks_2samp(*squares).pvalue > 1e-4
    right = sum(
        length**2 * (np.eye(dimension) - np.outer(unit, unit)) / (dimension - 1)
        for length, unit in zip(lengths, units, strict=True)
    )
    assert np.allclose(drawn.T @ drawn / ROUNDS, right, atol=5.0 * np.sum(lengths**2) / ROUNDS**0.5)


def test_the_length_of_a_sum_of_vectors_with_uniform_directions() -> None:
    rng = np.random.default_rng(0)
    steps = np.array([1.0, 1.0, 0.5, 0.2, 1.0])
    points = rng.standard_normal((2000, 5, 3))
    points *= steps[:, None] / np.linalg.norm(points, axis=2, keepdims=True)
    lengths = [simulation.walk_length(steps, 3, rng) for _ in range(2000)]
    assert ks_2samp(np.linalg.norm(points.sum(1), axis=1), lengths).pvalue > 1e-3
    assert simulation.walk_length(np.ones(0), 3, rng) == 0.0
    assert simulation.walk_length(np.ones(1), 3, rng) == pytest.approx(1.0)
    assert simulation.walk_length(np.ones(2), 1, rng) in (0.0, 2.0)


@pytest.mark.parametrize("pixels", [8, 28])
def test_gradients_of_single_records(pixels: int) -> None:
    model = network(pixels, seed=0)
    images, labels = torch.randn(3, 1, pixels, pixels), torch.tensor([0, 4, 9])
    found = gradients.gradients(model, images, labels)
    right = []
    for place in range(3):
        loss = nn.functional.cross_entropy(
            model(images[place : place + 1]), labels[place : place + 1]
        )
        one = torch.autograd.grad(loss, list(model.parameters()))
        right.append(torch.cat([part.ravel() for part in one]))
    rows = torch.stack(right)
    for place, one in enumerate(torch.eye(3)):
        mine = gradients.in_order(model, found.combined(one))
        assert torch.allclose(mine, rows[place], atol=1e-6)
        assert torch.allclose(found.products(found.combined(one)), (rows @ rows[place]), rtol=1e-4)
    assert torch.allclose(found.gram().float(), rows @ rows.T, rtol=1e-4)
    assert torch.allclose(gradients.outputs(model, images), model(images), atol=1e-5)


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
