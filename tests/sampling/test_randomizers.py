"""What local randomizers draw has the law that their budget, mean and variance are stated for.

Every test fails with probability at most FALSE_ALARM under a fresh seed: laws by the inequality of
Dvoretzky, Kiefer, Wolfowitz and Massart, means of bounded numbers by that of Hoeffding, counts by exact
binomial quantiles.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from sharpdp.learn import (
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    clipped,
)
from sharpdp.learn.randomizers.lattice_laplace import steps_of
from sharpdp.learn.randomizers.privunit import Space
from sharpdp.randomness import system_stream
from sharpdp.randomness.system_stream import SystemStream, system_stream_for
from tests.sampling.chances import FALSE_ALARM, assert_binomial, assert_distribution

CLIENTS = 10_000


@pytest.fixture(autouse=True)
def _fixed_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system's bytes, the same in every run: tests without a seed are repeatable too."""
    monkeypatch.setattr(system_stream, "_system_bytes", random.Random(7).randbytes)


def assert_continuous(sample: Any, cdf: Callable[[Any], Any]) -> None:
    """The whole law of numbers without ties; at points the empirical law jumps by 1 / size."""
    values = np.sort(np.asarray(sample))
    limit = math.sqrt(math.log(2.0 / FALSE_ALARM) / (2.0 * values.size))
    ranks = np.arange(values.size)
    exact = cdf(values)
    assert np.max((ranks + 1.0) / values.size - exact) <= limit
    assert np.max(exact - ranks / values.size) <= limit


def assert_near_law(sample: Any, cdf: Callable[[Any], Any], moved: float) -> None:
    """The whole law of numbers that were moved by so much at most."""
    values = np.sort(np.asarray(sample))
    limit = math.sqrt(math.log(2.0 / FALSE_ALARM) / (2.0 * values.size))
    ranks = np.arange(values.size)
    assert np.max((ranks + 1.0) / values.size - cdf(np.minimum(values + moved, 1.0))) <= limit
    assert np.max(cdf(np.maximum(values - moved, -1.0)) - ranks / values.size) <= limit


def assert_mean(sample: Any, expected: Any, largest: float) -> None:
    """The mean of independent rows whose entries lie between -largest and largest (Hoeffding)."""
    rows = np.asarray(sample)
    comparisons = max(np.size(expected), 1)
    limit = largest * math.sqrt(2.0 * math.log(2.0 * comparisons / FALSE_ALARM) / len(rows))
    assert np.max(np.abs(rows.mean(axis=0) - expected)) <= limit


def heights_below(unit: PrivUnit) -> Callable[[Any], Any]:
    """The distribution function of <V, u>: scipy's for the sphere, weighted inside and outside."""
    freedom = 0.5 * (unit.dimension - 1)

    def uniform(t: Any) -> Any:
        tails = 0.5 * special.betaincc(0.5, freedom, t * t)
        return np.where(t < 0.0, tails, 1.0 - tails)

    below = float(uniform(np.array(unit.height)))
    inside = unit.cap.inside

    def cdf(t: Any) -> Any:
        low = (1.0 - inside) * np.minimum(uniform(t), below) / below
        high = inside * np.maximum(uniform(t) - below, 0.0) / (1.0 - below)
        return low + high

    return cdf


def unit_vector(dimension: int, seed: int) -> Any:
    row = np.random.default_rng(seed).normal(size=dimension)
    return row / np.linalg.norm(row)


UNITS = [
    PrivUnit(dimension=2, local_epsilon=2.0),
    PrivUnit(dimension=2, local_epsilon=12.0),
    PrivUnit(dimension=3, local_epsilon=1.0),
    PrivUnit(dimension=20, local_epsilon=5.0),
    PrivUnit(dimension=20, local_epsilon=1.0, height=0.0),
]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
@pytest.mark.parametrize("seed", [None, 11])
def test_units_have_the_stated_heights_and_are_even_around_them(
    unit: PrivUnit, seed: int | None
) -> None:
    u = unit_vector(unit.dimension, 1)
    reports = unit.reports(np.tile(u, (CLIENTS, 1)), rng=seed) * unit.cap.mean
    whole = reports / unit.step
    assert whole == pytest.approx(np.round(whole), abs=1e-6)
    # random rounding moves a coordinate by more than 40 steps once in 10^12 draws
    moved = 40.0 * unit.step * math.sqrt(unit.dimension)
    assert np.linalg.norm(reports, axis=1) == pytest.approx(np.ones(CLIENTS), abs=moved)
    heights = reports @ u
    assert_near_law(heights, heights_below(unit), moved)
    # the part at right angles to u, seen along one direction
    other = unit_vector(unit.dimension, 2)
    other -= (other @ u) * u
    other /= np.linalg.norm(other)
    rest = reports - heights[:, None] * u
    across = rest @ other / np.linalg.norm(rest, axis=1)
    if unit.dimension == 2:
        assert np.median(np.abs(np.abs(across) - 1.0)) < 1e-9  # rest may be as short as a step
        assert_binomial(np.count_nonzero(across > 0.0), CLIENTS, 0.5)
    else:
        beta = 0.5 * (unit.dimension - 2)
        assert_near_law(across, lambda t: stats.beta(beta, beta).cdf(0.5 * (t + 1.0)), 4.0 * moved)


@pytest.mark.parametrize("dimension", [784, 10**6])
def test_heights_in_many_dimensions(dimension: int) -> None:
    for unit in (
        PrivUnit(dimension=dimension, local_epsilon=2.0),
        PrivUnit(dimension=dimension, local_epsilon=10.0),
    ):
        along, across = unit._heights(CLIENTS, system_stream_for(5))
        below, inside = heights_below(unit), unit.cap.inside
        assert_continuous(along, lambda t, below=below, p=inside: (below(t) - (1.0 - p)) / p)
        assert along**2 + across**2 == pytest.approx(np.ones(CLIENTS), rel=1e-14)


def test_a_million_dimensions() -> None:
    unit = PrivUnit(dimension=10**6, local_epsilon=2.0)
    u = unit_vector(10**6, 3)
    reports = unit.reports(np.tile(u, (4, 1)), rng=6) * unit.cap.mean
    assert np.linalg.norm(reports, axis=1) == pytest.approx(np.ones(4), rel=1e-3)
    # |<V, u>| > 7 / sqrt(d) has probability 2.6e-12 on the sphere, at most e^2 times that here
    assert np.all(np.abs(reports @ u) < 7e-3)
    assert np.all(np.abs(reports[:, ::1000]) < 1e-2)


def test_small_parts_of_the_circle_are_drawn_without_losing_digits() -> None:
    unit = PrivUnit(dimension=2, local_epsilon=30.0)
    u = np.array([1.0, 0.0])
    reports = unit.reports(np.tile(u, (CLIENTS, 1)), rng=8) * unit.cap.mean
    angles = np.arctan2(reports[:, 1], reports[:, 0]) / math.pi
    # a cap of 10^-6 of the circle is finer than the lattice: what is seen is the lattice's own noise
    assert np.count_nonzero(np.abs(angles) <= 100.0 * unit.step) >= CLIENTS - 2
    source, space = system_stream_for(8), Space(CLIENTS, 2)
    heights = unit._heights(CLIENTS, source)
    points = unit._in_high_cap(np.tile(u, (CLIENTS, 1)), heights, source, space)
    angles = np.arctan2(points[:, 1], points[:, 0]) / math.pi
    assert np.all(np.abs(angles) <= unit.cap.share * (1.0 + 1e-9))
    assert_continuous(angles / unit.cap.share, lambda x: 0.5 * (1.0 + x))


@pytest.mark.parametrize("length", [0.0, 0.4, 1.0])
def test_balls_are_unbiased(length: float) -> None:
    ball = PrivUnitBall(dimension=5, local_epsilon=3.0, radius=2.0)
    x = 2.0 * length * unit_vector(5, 4)
    reports = ball.reports(np.tile(x, (10 * CLIENTS, 1)), rng=9)
    largest = 2.0 / ball.unit.cap.mean
    assert_mean(reports, x, largest)
    second = float((reports**2).sum(axis=1).mean())
    assert second - float(x @ x) == pytest.approx(ball.variance(x[None, :])[0], rel=1e-4)


@pytest.mark.parametrize("local_epsilon", [0.5, 8.0])  # a low cap and a high one
def test_s1_zero_vectors_report_on_a_random_direction(local_epsilon: float) -> None:
    ball = PrivUnitBall(dimension=4, local_epsilon=local_epsilon)
    reports = ball.reports(np.zeros((CLIENTS, 4)), rng=2) * ball.unit.cap.mean
    # <V, a> for V uniform on the sphere in four dimensions: Beta(3/2, 3/2) on [-1, 1]
    law = stats.beta(1.5, 1.5)
    moved = 80.0 * 2.0**-12  # steps of rounding
    for axis in [*np.eye(4), unit_vector(4, 5)]:
        assert_near_law(reports @ axis, lambda t: law.cdf(0.5 * (t + 1.0)), moved)


@pytest.mark.parametrize("kind", [CoordinateSigns, HadamardSigns])
def test_signs_are_unbiased(kind: Any) -> None:
    randomizer = kind(dimension=6, local_epsilon=2.0, radius=0.5)
    norm = randomizer.norm
    x = clipped([[0.3, -0.5, 0.1, 0.0, 0.2, -0.4]], radius=0.5, norm=norm)[0]
    reports = randomizer.reports(np.tile(x, (5 * CLIENTS, 1)), rng=3)
    largest = float(np.max(np.abs(randomizer.estimates(np.arange(2 * randomizer.indices)))))
    assert_mean(randomizer.estimates(reports), x, largest)
    seen = np.bincount(reports // 2, minlength=randomizer.indices)
    assert_binomial(seen, 5 * CLIENTS, 1.0 / randomizer.indices, comparisons=randomizer.indices)


@pytest.mark.parametrize(("local_epsilon", "categories"), [(1.0, 2), (3.0, 5)])
def test_answers_are_as_frequent_as_they_should_be(local_epsilon: float, categories: int) -> None:
    answers = RandomizedAnswers(local_epsilon=local_epsilon, categories=categories)
    odds = math.exp(local_epsilon)
    for record in range(categories):
        reports = answers.reports(np.full(CLIENTS, record), rng=record)
        law = np.full(categories, 1.0 / (odds + categories - 1.0))
        law[record] *= odds
        seen = np.bincount(reports, minlength=categories)
        assert_binomial(seen, CLIENTS, law, comparisons=categories**2)


def test_steps_are_discrete_laplace_noise() -> None:
    drawn = steps_of().drawn(20 * CLIENTS, system_stream_for(4))
    # Pr[|K| = k] ~ s^|k| with s = 2^(-1/1024), whose neighbors differ by a factor below 1.00068
    decay = math.log(2.0) / 1024.0
    assert_distribution(drawn, stats.dlaplace(decay).cdf)


def test_noise_beyond_many_halvings_keeps_halving() -> None:
    words = iter([[0, 0], [2**63, 8], [1]])  # no bit set but the sign; then one more word

    def draw(count: int) -> Any:
        script = next(words)
        assert len(script) == count
        return np.array(script, dtype=np.uint64)

    # the sign bit of the first is set and no other: 63 halvings, then 0; of the second: 3 halvings
    assert steps_of().drawn(2, SystemStream(draw)).tolist() == [-63 * 1024, 3 * 1024]


@pytest.mark.parametrize("seed", [None, 21])
def test_lattice_noise_is_that_of_laplace(seed: int | None) -> None:
    noise = LatticeLaplace(dimension=3, local_epsilon=2.0, radius=1.5)
    x = np.array([0.7, -0.5, 0.3 * noise.step])
    reports = noise.reports(np.tile(x, (5 * CLIENTS, 1)), rng=seed)
    steps = reports / noise.step
    assert steps == pytest.approx(np.round(steps), abs=1e-9)
    scale = 2.0 * 1.5 / 2.0
    for column, entry in enumerate(x):
        errors = (reports[:, column] - entry) / scale
        limit = math.sqrt(math.log(2.0 / FALSE_ALARM) / (2.0 * len(errors)))
        values = np.sort(errors)
        gap = np.abs(np.arange(1, len(values) + 1) / len(values) - stats.laplace.cdf(values))
        # half a step on either side has probability below g / 2, g = 0.00068, and ties as much again
        assert np.max(gap) <= limit + 2.0 * 0.00068


def test_zeros_of_the_lattice_have_no_sign() -> None:
    noise = LatticeLaplace(dimension=2, local_epsilon=30.0)
    reports = noise.reports(np.full((5 * CLIENTS, 2), -0.01 * noise.step), rng=30)
    zeros = reports[reports == 0.0]
    assert zeros.size > 10  # one in 3000
    assert not np.any(np.signbit(zeros))


def test_rounding_to_the_lattice_is_unbiased() -> None:
    # at the largest budget the noise is shortest, and the share of rounding the largest
    noise = LatticeLaplace(dimension=2, local_epsilon=30.0)
    x = np.array([3.3 * noise.step, -0.75 * noise.step])
    reports = noise.reports(np.tile(x, (20 * CLIENTS, 1)), rng=22)
    # a report is off by at most 45 scales but with probability e^-45 per draw
    scale = 2.0 / 30.0
    spread = math.sqrt(2.0) * scale
    errors = np.abs(reports.mean(axis=0) - x)
    # Bernstein: variance 2 b^2, largest 45 b
    t = math.log(4.0 / FALSE_ALARM)
    limit = spread * math.sqrt(2.0 * t / len(reports)) + 45.0 * scale * t / (3.0 * len(reports))
    assert np.all(errors <= limit * 1.01)


def test_normals_of_the_operating_system_are_normal() -> None:
    rows = system_stream_for(None).normals(401, 251)
    assert rows.shape == (401, 251)
    assert_continuous(rows.reshape(-1), stats.norm.cdf)
    # neither the signs nor the sizes of two numbers tell anything of each other
    half = -(-rows.size // 2)
    flat = rows.reshape(-1)
    first, second = flat[:half][: rows.size - half], flat[half:]
    signs = np.count_nonzero((first > 0.0) == (second > 0.0))
    assert_binomial(signs, first.size, 0.5)
    sizes = np.count_nonzero((np.abs(first) > 0.6745) == (np.abs(second) > 0.6745))
    inner = 2.0 * stats.norm.cdf(0.6745) - 1.0
    assert_binomial(sizes, first.size, inner**2 + (1.0 - inner) ** 2)
