"""Minima of a convex function plus lines: bounds from a few points hold for the function itself."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sharpdp.numerics.convex_table import ConvexChain, ConvexTable


def polyline(rng: np.random.Generator, kinks: int) -> tuple[list[Fraction], list[Fraction]]:
    """Corners of a falling convex polyline from (0, 1), slopes between -1 and 0, in exact numbers."""
    x = [Fraction(0), *sorted(Fraction(float(end)) for end in rng.uniform(0.05, 20.0, kinks))]
    slopes = sorted(Fraction(float(slope)) for slope in -rng.uniform(0.0, 1.0, kinks))
    y = [Fraction(1)]
    for before, after, slope in zip(x, x[1:], slopes, strict=False):
        y.append(y[-1] + slope * (after - before) / 20)
    return x, y


def value(x: list[Fraction], y: list[Fraction], at: Fraction) -> Fraction:
    """The polyline at any place; constant behind its last corner."""
    for left, right, low, high in zip(x, x[1:], y, y[1:], strict=False):
        if at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return y[-1]


@pytest.mark.parametrize("seed", range(40))
def test_minima_of_polylines_are_between_the_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners, heights = polyline(rng, int(rng.integers(1, 12)))
    points = np.append(0.0, np.unique(rng.uniform(0.01, 30.0, int(rng.integers(1, 15)))))
    noise = 10.0 ** rng.uniform(-15.0, -1.0) * rng.uniform(size=(2, points.size))
    # the table is told points that are a unit in the last place or two away from the true ones
    true = [Fraction(float(x)) * (1 + Fraction(int(rng.integers(-4, 5)), 2**53)) for x in points]
    exact = [value(corners, heights, x) for x in true]
    low, high = np.array([float(y) for y in exact]) + np.array([[-1.0], [1.0]]) * (noise + 2e-16)
    low[0] = high[0] = 1.0
    table = ConvexTable(points, low, high, float(heights[-1]) - 1e-3)
    slopes = 10.0 ** rng.uniform(-6.0, 0.0, 30)
    below, above, *_ = table.minima(slopes)
    for slope, least, most in zip(slopes.tolist(), below.tolist(), above.tolist(), strict=True):
        truth = min(
            y + Fraction(slope) * x
            for x, y in [*zip(corners, heights, strict=True), *zip(true, exact, strict=True)]
        )
        assert Fraction(least) <= truth <= Fraction(most)


@pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-3])
def test_a_thousand_lines_have_the_minima_that_each_has_alone(noise: float) -> None:
    rng = np.random.default_rng(7)
    x = np.append(0.0, np.exp(np.linspace(-3.0, 3.0, 200)))
    y = np.exp(-x) + noise * rng.normal(size=x.size)  # noise makes the lower polyline wiggle
    table = ConvexTable(x, y, y + 2.0 * noise, -1.0)
    slopes = rng.permutation(np.append(np.geomspace(1e-9, 1.0, 500), np.linspace(0.01, 1.0, 500)))
    together = table.minima(slopes)[:2]
    alone = [table.minima(slopes[index : index + 1])[:2] for index in range(slopes.size)]
    assert np.array_equal(np.stack(together, axis=1), np.array(alone)[:, :, 0])


@pytest.mark.parametrize("noise", [0.0, 1e-12, 1e-9, 1e-6, 1e-3])
def test_minima_in_large_tables_are_those_of_all_vertices(noise: float) -> None:
    """At slopes of the lower polyline itself neighbors are equally low, and rounding decides."""
    rng = np.random.default_rng(11)
    x = np.append(0.0, np.exp(np.linspace(-3.0, 3.0, 400)))
    y = np.exp(-x)
    low, high = (y * (1.0 + sign * noise * rng.random(x.size)) for sign in (-1.0, 1.0))
    low[0] = high[0] = 1.0
    table = ConvexTable(x, low, high, 0.0)
    assert (table._chain is None) == (noise > 1e-9)
    height, place = table._vertices
    apart = np.flatnonzero(np.diff(place[1::2]) > 0.0)
    ties = (-np.diff(height[1::2])[apart] / np.diff(place[1::2])[apart])[::20]
    slopes = np.append(ties[(ties > 0.0) & (ties < 1.0)], np.geomspace(1e-6, 1.0, 20))
    below, above, *_ = table.minima(slopes)
    exact = [
        (Fraction(a), Fraction(b)) for a, b in zip(height.tolist(), place.tolist(), strict=True)
    ]
    for slope, least, most in zip(slopes.tolist(), below.tolist(), above.tolist(), strict=True):
        smallest = min(a + Fraction(slope) * b for a, b in exact)
        assert abs(Fraction(least) - smallest) <= 4e-16 * abs(smallest)
        assert least <= slope * (1.0 - math.log(slope)) + 1e-15
        assert least <= most


def test_vertices_that_are_not_convex_make_no_chain() -> None:
    x = np.append(0.0, np.exp(np.linspace(-3.0, 3.0, 300)))
    smooth = ConvexTable(x, np.exp(-x), np.exp(-x), 0.0)._vertices
    assert ConvexChain.through(*smooth) is not None
    for index, move in ((200, -1e-2), (201, 1e-2), (202, np.nan)):
        height = smooth[0].copy()
        height[index] += move
        assert ConvexChain.through(height, smooth[1]) is None
    scale = 1e-300  # where products are no normal doubles nothing is seen
    assert ConvexChain.through(scale * smooth[0], scale * smooth[1]) is None


def test_a_corner_between_two_straight_pieces_is_found() -> None:
    x = np.array([0.0, 1.0, 2.0, 4.0, 5.0])
    y = np.maximum(1.0 - 0.3 * x, 0.1)  # a corner at 3
    below, above, best, cell, is_corner = ConvexTable(x, y, y, 0.1).minima(np.array([0.2]))
    assert below[0] == pytest.approx(0.1 + 0.2 * 3.0, abs=1e-12)
    assert above[0] == pytest.approx(0.4 + 0.2 * 2.0, abs=1e-12)
    assert (best[0], cell[0], is_corner[0]) == (2, 2, True)


def test_points_that_are_known_twice_count_together() -> None:
    table = ConvexTable(np.array([0.0, 1.0]), np.array([1.0, 0.2]), np.array([1.0, 0.6]), 0.0)
    joined = table.joined(np.array([1.0, 2.0]), np.array([0.3, 0.0]), np.array([0.7, 0.5]))
    assert joined.x.tolist() == [0.0, 1.0, 2.0]
    assert joined.low.tolist() == [1.0, 0.3, 0.0]
    assert joined.high.tolist() == [1.0, 0.6, 0.5]
