"""The utility half of girgis2021 Theorem 3: the second moment of a round, and the rate."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

from sharpdp.errors import InvalidArgument
from sharpdp.learn import (
    CLDPSGD,
    ClientRun,
    Convergence,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnitBall,
    vector_randomizer,
)

RANDOMIZERS = [
    HadamardSigns(dimension=4, local_epsilon=1.5, radius=0.5),
    CoordinateSigns(dimension=4, local_epsilon=1.5, radius=0.5),
    PrivUnitBall(dimension=4, local_epsilon=1.5, radius=0.5),
    LatticeLaplace(dimension=4, local_epsilon=1.5, radius=0.5),
    vector_randomizer(dimension=4, local_epsilon=1.5, radius=0.5, norm=3.0),
]


def longest(randomizer: object) -> list[np.ndarray]:
    """Vectors on the boundary of the ball: one coordinate, and all of them alike."""
    norm, radius, size = randomizer.norm, randomizer.radius, randomizer.dimension  # type: ignore[attr-defined]
    one = np.zeros(size)
    one[0] = radius * (1 - 1e-12)
    alike = np.full(size, radius * size ** (-1.0 / norm) * (1 - 1e-12))
    return [one, alike, np.zeros(size)]


@pytest.mark.parametrize("randomizer", RANDOMIZERS, ids=lambda one: type(one).__name__)
def test_no_round_has_a_larger_second_moment(randomizer: object) -> None:
    """20,000 simulated rounds of five clients: the mean square is below G^2, and not far below."""
    users, rounds = 5, 20_000
    plan = CLDPSGD(randomizer=randomizer, users=users, population=50, rounds=10)  # type: ignore[arg-type]
    limit = plan.convergence(diameter=1.0).second_moment
    means = []
    for index, vector in enumerate(longest(randomizer)):
        reports = randomizer.reports(np.tile(vector, (users * rounds, 1)), rng=index)  # type: ignore[attr-defined]
        estimates = randomizer.estimates(reports)  # type: ignore[attr-defined]
        averages = estimates.reshape(rounds, users, -1).mean(axis=1)
        squares = (averages**2).sum(axis=1)
        error = squares.std() / math.sqrt(rounds)
        assert squares.mean() - 5 * error <= limit
        means.append(squares.mean())
    assert max(means) >= 0.5 * limit


@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("dimension", [2, 30, 1000])
def test_lemma_9_as_published_is_never_below(dimension: int, local_epsilon: float) -> None:
    squared = (1 / math.tanh(local_epsilon / 2)) ** 2
    for norm, constant in ((1.0, 4), (2.0, 14), (math.inf, 4)):
        randomizer = vector_randomizer(
            dimension=dimension, local_epsilon=local_epsilon, norm=norm, radius=0.3
        )
        plan = CLDPSGD(randomizer=randomizer, users=100, population=900, rounds=5)
        longer = max(dimension ** (1 - 2 / norm), 1.0)
        published = 0.3**2 * longer * (1 + constant * dimension / 100 * squared)
        ours = plan.convergence(diameter=1.0).second_moment
        assert 0.3**2 * longer < ours <= published


@pytest.mark.parametrize("rounds", [1, 7, 1500])
def test_the_rate_in_high_precision(rounds: int) -> None:
    with mpmath.workdps(40):
        exact = 2 * mpmath.mpf(3) * mpmath.sqrt(mpmath.mpf("0.7"))
        exact *= (2 + mpmath.log(rounds)) / mpmath.sqrt(rounds)
        rate = Convergence(second_moment=0.7, diameter=3.0, rounds=rounds)
        assert exact <= rate.excess_loss <= exact * (1 + mpmath.mpf("1e-8"))


@pytest.mark.parametrize("slope", [1.0, 5.0])
def test_steps_of_this_size_keep_the_rate_on_the_hardest_line(slope: float) -> None:
    """slope |x| on [-1, 1] without noise, from the worst start and with either subgradient at 0."""
    rate = Convergence(second_moment=slope**2, diameter=2.0, rounds=500)
    for start in (-1.0, 0.3, 1.0):
        for at_zero in (-1.0, 1.0):
            x = start
            for step in range(500):
                sign = math.copysign(1.0, x) if x else at_zero
                x = min(max(x - rate.learning_rate(step) * slope * sign, -1.0), 1.0)
                so_far = Convergence(second_moment=slope**2, diameter=2.0, rounds=step + 1)
                assert slope * abs(x) <= so_far.excess_loss


def test_a_run_with_these_learning_rates_is_within_the_bound() -> None:
    """The mean distance to 200 clients' points in the unit ball: convex, gradients of length 1."""
    points = np.random.default_rng(0).normal(size=(200, 2)) * 0.3 + [0.4, 0.0]
    ball = PrivUnitBall(dimension=2, local_epsilon=4.0, radius=1.0)
    sizes = {"randomizer": ball, "users": 50, "population": 200, "rounds": 150}

    def project(theta: np.ndarray) -> np.ndarray:
        return theta / max(1.0, float(np.linalg.norm(theta)))

    def gradients(theta: np.ndarray, clients: np.ndarray) -> np.ndarray:
        away = theta - points[clients]
        return away / np.maximum(np.linalg.norm(away, axis=1, keepdims=True), 1e-12)

    def loss(theta: np.ndarray) -> float:
        return float(np.linalg.norm(theta - points, axis=1).mean())

    rate = CLDPSGD(**sizes, learning_rate=1.0).convergence(diameter=2.0)  # type: ignore[arg-type]
    plan = CLDPSGD(**sizes, learning_rate=rate.learning_rate, projection=project)  # type: ignore[arg-type]
    grid = np.linspace(-1.0, 1.0, 41)
    best = min(loss(np.array([x, y])) for x in grid for y in grid if x * x + y * y <= 1.0)
    excess = []
    for seed in range(5):
        run = ClientRun(plan, gradients, np.array([-1.0, 0.0]), rng=seed).run()
        excess.append(loss(run.parameters) - best)
    assert np.mean(excess) <= rate.excess_loss
    assert loss(np.array([-1.0, 0.0])) - best > 4 * max(excess)  # it has learned


def test_wrong_sizes_are_refused() -> None:
    plan = CLDPSGD(randomizer=RANDOMIZERS[0], users=5, population=50, rounds=10)
    with pytest.raises(InvalidArgument, match="diameter must be"):
        plan.convergence(diameter=0.0)
    with pytest.raises(InvalidArgument, match="step must be"):
        plan.convergence(diameter=1.0).learning_rate(-1)
