"""Sums of laws in the convex order, held to exact fractions and to thirty digits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from operator import add, mul

import mpmath
import numpy as np
import pytest

from sharpdp.bracket import Side
from sharpdp.numerics.convex_order import Grid, Law, lognormal, product, settled, total
from sharpdp.numerics.special import UNIT_ROUNDOFF

Exact = dict[Fraction, Fraction]


def exact(law: Law) -> Exact:
    """The finite part of a law as the rationals that its numbers are."""
    masses: Exact = {}
    for value, mass in zip(law.values.tolist(), law.masses.tolist(), strict=True):
        masses[Fraction(value)] = masses.get(Fraction(value), Fraction(0)) + Fraction(mass)
    return masses


def combined(
    one: Exact, other: Exact, operation: Callable[[Fraction, Fraction], Fraction]
) -> Exact:
    masses: Exact = {}
    for x, p in one.items():
        for y, q in other.items():
            value = operation(x, y)
            masses[value] = masses.get(value, Fraction(0)) + p * q
    return masses


def call(law: Exact, x: Fraction) -> Fraction:
    return sum(((value - x) * mass for value, mass in law.items() if value > x), Fraction(0))


def put(law: Exact, x: Fraction) -> Fraction:
    return sum(((x - value) * mass for value, mass in law.items() if value < x), Fraction(0))


def random_law(rng: np.random.Generator, size: int) -> Law:
    values = np.sort(rng.lognormal(0.0, 1.5, size))
    masses = rng.dirichlet(np.ones(size)) * np.exp(rng.normal(0.0, 4.0, size))
    return Law(values, masses / masses.sum())


def random_grid(rng: np.random.Generator, size: int) -> Grid:
    nodes = np.sort(rng.lognormal(0.5, 1.0, size))
    return Grid(nodes, nodes[0] * 2.0 ** np.arange(-3.0, 0.0))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("copies", ["same", "different"])
@pytest.mark.parametrize(("combine", "operation"), [(total, add), (product, mul)])
def test_results_are_ordered_at_every_threshold(
    seed: int,
    side: Side,
    copies: str,
    combine: Callable[[Law, Law, Grid, Side], Law],
    operation: Callable[[Fraction, Fraction], Fraction],
) -> None:
    """Calls and puts are piecewise linear: thresholds at all values of both laws decide."""
    rng = np.random.default_rng(seed)
    one = random_law(rng, 7)
    other = one if copies == "same" else random_law(rng, 5)
    law = combine(one, other, random_grid(rng, int(rng.integers(2, 12))), side)
    truth, found = combined(exact(one), exact(other), operation), exact(law)
    beyond, mass = Fraction(law.beyond), Fraction(law.mass_error)
    moved = Fraction(law.value_error)
    for x in sorted({*truth, *found}):
        # values may be off by a factor: the threshold moves by the same factor, to the safe side
        if side is Side.UPPER:
            assert (call(found, x / (1 + moved)) + beyond) * (1 + moved) >= call(truth, x) * (
                1 - mass
            )
            assert put(found, x * (1 + moved)) >= put(truth, x) * (1 - mass)
        else:
            assert law.beyond == 0.0
            assert call(found, x * (1 + moved)) <= call(truth, x) * (1 + mass) * (1 + moved)
            assert put(found, x / (1 + moved)) <= put(truth, x) * (1 + mass)


@pytest.mark.parametrize("side", list(Side))
def test_mass_and_mean_are_kept(side: Side) -> None:
    rng = np.random.default_rng(3)
    one, other = random_law(rng, 40), random_law(rng, 30)
    law = total(one, other, random_grid(rng, 20), side)
    mean = sum(float(part.masses @ part.values) for part in (one, other))
    assert float(np.sum(law.masses)) == pytest.approx(1.0, rel=1e-13)
    assert float(law.masses @ law.values) + law.beyond == pytest.approx(mean, rel=1e-13)


def test_sides_differ_and_finer_grids_bring_them_together() -> None:
    rng = np.random.default_rng(4)
    one = random_law(rng, 60)
    gaps = []
    for size in (8, 64, 512):
        nodes = np.geomspace(2.0 * one.values[0], 2.0 * one.values[-1], size)
        low, high = (total(one, one, Grid(nodes, np.zeros(0)), side) for side in Side)
        x = Fraction(1.5)
        gaps.append(float(call(exact(high), x) - call(exact(low), x)))
    assert gaps[0] > 10.0 * gaps[1] > 100.0 * gaps[2] > 0.0


def test_a_split_is_exact_in_dyadic_numbers() -> None:
    content = Law(np.array([0.0, 1.25, 3.0]), np.array([0.0, 0.5, 0.5]))
    law = settled(np.array([0.0, 1.0, 2.0]), content, Side.UPPER)
    assert law.masses.tolist() == [1e-150, 0.375, 0.625]
    assert law.beyond == 0.5


@pytest.mark.parametrize("seed", range(6))
def test_the_table_finds_the_cell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, wide = float(np.exp(rng.normal(0.0, 5.0))), float(np.exp(rng.normal(0.0, 4.0)))
    nodes = low + low * wide * np.sort(rng.random(200)) ** 3
    grid = Grid(np.unique(nodes), low * 2.0 ** np.arange(-5.0, 0.0))
    values = np.concatenate([nodes, low * rng.random(300), nodes[-1] * (1.0 + rng.random(300))])
    cells = grid.cells(values)
    slack = 1.0 + 4.0 * UNIT_ROUNDOFF
    assert np.all(grid.nodes[cells] <= values * slack)
    ends = np.append(grid.nodes, np.inf)[cells + 1]
    assert np.all(values <= ends * slack)
    assert np.all(np.diff(grid.nodes) > 0.0)


@pytest.mark.parametrize("mu", [0.02, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("side", list(Side))
def test_one_lognormal_is_ordered_at_every_threshold(mu: float, side: Side) -> None:
    edges = np.linspace(-9.0, mu + 9.0, int((18.0 + mu) / 0.2))
    law = lognormal(mu, edges, side)
    for loss in np.linspace(-4.0, 5.0, 10) * mu:
        x = float(np.exp(loss))
        with mpmath.workdps(40):
            k, m = mpmath.mpf(x), mpmath.mpf(mu)
            d = -mpmath.log(k) / m - m / 2
            calls = mpmath.ncdf(d + m) - k * mpmath.ncdf(d)
            puts = k * mpmath.ncdf(-d) - mpmath.ncdf(-d - m)
        above = float(law.masses @ np.maximum(law.values - x, 0.0)) + law.beyond
        below = float(law.masses @ np.maximum(x - law.values, 0.0))
        share = 1e-9 if side is Side.UPPER else -1e-9
        assert (above * (1.0 + share) >= calls) is (side is Side.UPPER)
        assert (below * (1.0 + share) >= puts) is (side is Side.UPPER)
