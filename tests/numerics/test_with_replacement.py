"""Draws with replacement: quadrature, any contributions on a grid, and the law of repeats."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import sharpdp as dp
from sharpdp.bounds.fixed_size.with_replacement import Occurrences

EDGES = np.concatenate([[-np.inf], np.linspace(-6.0, 6.0, 121), [np.inf]])


def run(examples: int, draws: int, noise: float, steps: int = 1) -> dp.DPSGD:
    plan = dp.FixedSizeBatches(
        dataset_size=examples, batch_size=draws, steps=steps, replacement=True
    )
    return dp.DPSGD(plan, noise_multiplier=noise)


@pytest.mark.parametrize(("examples", "draws"), [(2, 2), (10, 3), (60_000, 512), (10**9, 1000)])
def test_occurrences_are_binomial(examples: int, draws: int) -> None:
    masses = Occurrences(Fraction(examples), draws).masses
    with mp.workdps(40):
        p = mp.mpf(1) / examples
        for count in range(min(masses.size, 12)):
            exact = mp.binomial(draws, count) * p**count * (1 - p) ** (draws - count)
            assert abs(masses[count] - exact) <= 1e-13 * exact


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize(("examples", "draws"), [(2, 2), (10, 10), (60_000, 512), (500, 500)])
def test_gathered_occurrences_are_above_the_law(examples: int, draws: int, least: int) -> None:
    weights = Occurrences(Fraction(examples), draws).from_above(least)
    law = stats.binom(draws, 1 / examples)
    for start in range(least, draws + 1):
        above = sum(weight for times, weight in weights.items() if times >= start)
        exact = float(law.sf(start - 1))
        assert above >= exact * (1 - 1e-9)
        if start <= 4:
            assert above <= exact * (1 + 1e-9)


def attained(examples: int, draws: int, mu: float, other: float, x: float) -> tuple[float, float]:
    """Both directions of sum_k p_k N(2 k mu) against sum_k p_k N(k other), on 400,000 points."""
    z, step = np.linspace(-9.0, 2.0 * draws * mu + 9.0, 400_001, retstep=True)
    masses = stats.binom(draws, 1 / examples).pmf(np.arange(draws + 1))
    p, q = (
        sum(mass * stats.norm.pdf(z - k * shift) for k, mass in enumerate(masses))
        for shift in (2 * mu, other)
    )
    ahead, behind = (np.sum(np.maximum(one - x * two, 0.0)) for one, two in ((p, q), (q, p)))
    return float(ahead * step), float(behind * step)


@pytest.mark.parametrize(
    ("examples", "draws", "mu", "epsilon"), [(5, 3, 0.7, 0.3), (50, 4, 1.0, 0.5), (8, 2, 0.5, 0.1)]
)
@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_the_attained_pair_by_quadrature(
    examples: int, draws: int, mu: float, epsilon: float, adjacency: str
) -> None:
    other = 0.0 if adjacency == "replace-one" else mu
    truth = max(attained(examples, draws, mu, other, math.exp(epsilon)))
    answer = dp.account(run(examples, draws, 1 / mu), adjacency=adjacency)
    bracket = answer.delta(epsilon=epsilon)
    assert bracket.lower <= truth * (1 + 1e-5)
    assert bracket.lower >= truth * (1 - 1e-3)  # the lower side is this pair, seen through cells
    assert bracket.upper >= truth * (1 - 1e-5)
    assert bracket.upper <= truth * 1.2


def cells(mean: np.ndarray) -> np.ndarray:
    """N(mean, 1) of each cell of the plane, exactly: to see cells only is a post-processing."""
    first, second = (np.diff(stats.norm.cdf(EDGES - one)) for one in mean)
    return np.asarray(first[:, None] * second[None, :])


def test_no_contributions_are_worse() -> None:
    """Two or three draws, any contributions in the disc: 60 random pairs, both ways, in cells."""
    rng = np.random.default_rng(11)
    closest = 0.0
    for number in range(60):
        draws = int(rng.integers(2, 4))
        examples = int(rng.integers(max(2, draws), 12))
        mu = float(rng.uniform(0.3, 1.0))
        angles = rng.uniform(0.0, 2.0 * math.pi, draws + 2)
        lengths = mu * rng.choice([1.0, 1.0, 0.5], size=draws + 2)
        vectors = lengths[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        if number % 4 == 0:  # on a line, others against the record or with it
            signs = rng.choice([-1.0, 1.0], size=draws + 2)
            vectors = mu * signs[:, None] * np.array([[1.0, 0.0]])
            vectors[1:-1] = vectors[1]
        record, others, another = vectors[0], vectors[1:-1], vectors[-1]
        adjacency = "zero-out" if rng.random() < 0.5 else "replace-one"
        if adjacency == "zero-out":
            another = np.zeros(2)
        p, q = np.zeros((122, 122)), np.zeros((122, 122))
        for chosen in itertools.product([False, True], repeat=draws):
            chance = math.prod(1 / examples if one else 1 - 1 / examples for one in chosen)
            rest = sum((y for y, one in zip(others, chosen, strict=True) if not one), np.zeros(2))
            p += chance * cells(rest + sum(chosen) * record)
            q += chance * cells(rest + sum(chosen) * another)
        answer = dp.account(run(examples, draws, 1 / mu), adjacency=adjacency)
        for epsilon in (0.05, 0.6):
            x, upper = math.exp(epsilon), float(answer.delta(epsilon=epsilon).upper)
            both = [np.sum(np.maximum(one - x * two, 0.0)) for one, two in ((p, q), (q, p))]
            assert max(both) <= upper
            closest = max(closest, max(both) / upper)
    assert closest > 0.97


def test_replacement_costs_and_one_draw_does_not() -> None:
    for adjacency in ("zero-out", "replace-one"):
        once = dp.account(run(100, 1, 1.0, 50), adjacency=adjacency).epsilon(delta=1e-5)
        plan = dp.FixedSizeBatches(dataset_size=100, batch_size=1, steps=50)
        same = dp.account(dp.DPSGD(plan, noise_multiplier=1.0), adjacency=adjacency)
        epsilon = same.epsilon(delta=1e-5)
        assert once.lower <= epsilon.upper
        assert epsilon.lower <= once.upper
        more = dp.account(run(100, 20, 1.0, 50), adjacency=adjacency).epsilon(delta=1e-5)
        plan = dp.FixedSizeBatches(dataset_size=100, batch_size=20, steps=50)
        less = dp.account(dp.DPSGD(plan, noise_multiplier=1.0), adjacency=adjacency)
        assert more.lower > less.epsilon(delta=1e-5).upper


@pytest.mark.parametrize("noise", [pytest.param(1e-2, marks=pytest.mark.slow), 0.3, 100.0])
def test_every_noise_has_both_sides(noise: float) -> None:
    for adjacency in ("zero-out", "replace-one"):
        bracket = dp.account(run(300, 30, noise, 7), adjacency=adjacency).epsilon(delta=1e-6)
        assert 0.0 <= bracket.lower <= bracket.upper < math.inf


def test_groups_take_no_law_of_draws_without_replacement() -> None:
    answer = dp.account(run(100, 20, 1.0, 50), group_size=2)
    epsilon = answer.epsilon(delta=1e-5)
    names = {bound.name for bound in answer.bounds}
    assert not names & {"group_subset_lower", "group_opposed_subset_lower"}
    single = dp.account(run(100, 20, 1.0, 50)).epsilon(delta=1e-5)
    assert single.lower <= epsilon.lower <= epsilon.upper
    assert epsilon.upper > single.upper
