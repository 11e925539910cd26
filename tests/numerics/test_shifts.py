"""Laws of distances in few Gaussian pairs: both sides against sums in balls, on hostile laws."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb

from sharpdp.bounds.random_start.gaussian_mixture import (
    DistanceLaw,
    Points,
    _length,
    gaussian_mixture_pair,
)
from sharpdp.bounds.random_start.sensitivity_law import (
    FARTHEST,
    _graded,
    _mean_within,
    _most_runs,
    _normal_mass,
)
from sharpdp.bracket import Side
from sharpdp.pairs.pair import GaussianPair, Pair
from tests.numerics import exact
from tests.reference.balls import normal_upper, precision

THRESHOLDS = (0.0, 1e-3, 0.2, 1.0, 3.0, 9.0)


def profile(shifts: np.ndarray, masses: np.ndarray, k: float) -> arb:
    """sum of masses times delta_m(k), in balls; nothing at distance 0."""
    moved = [(s, p) for s, p in zip(shifts, masses, strict=True) if s > 0.0 and p > 0.0]
    return sum((arb(p) * exact.otm(GaussianPair(s), arb(k)) for s, p in moved), arb(0))


def random_law(rng: np.random.Generator, largest: float) -> tuple[np.ndarray, np.ndarray]:
    shifts = np.sort(largest * rng.beta(0.6, 0.6, 12))
    masses = rng.dirichlet(np.full(12, 0.5)) + 1e-9
    return shifts, masses / masses.sum()


@pytest.mark.parametrize("largest", [1e-7, 0.3, 2.0, 12.0])
def test_spread_is_above_and_gathered_below_for_any_bins(largest: float) -> None:
    rng = np.random.default_rng(round(largest * 1e7) % 2**32)
    shifts, masses = random_law(rng, largest)
    inner = np.sort(rng.uniform(0.0, largest, 2))
    cuts = (
        np.concatenate([[0.0], inner, [shifts[-1]]]) if inner[-1] < shifts[-1] else shifts[[0, -1]]
    )
    points = Points(shifts, masses, cuts, Side.UPPER, 0.0, 0.0, 0.0)
    to_left, to_right = points.spread(cuts)
    mass, middle = points.gathered(cuts)
    ends = np.append(cuts[1:], cuts[-1])
    with precision(exact.BITS):
        for k in THRESHOLDS:
            truth = profile(shifts, masses, k * largest)
            above = profile(cuts, to_left, k * largest) + profile(ends, to_right, k * largest)
            below = profile(middle, mass, k * largest)
            assert above >= truth * arb(1.0 - 1e-13)
            assert below <= truth * arb(1.0 + 1e-13)
        # at zero y itself is compared, of which the mean is kept
        truth = profile(shifts, masses, 0.0)
        above = profile(cuts, to_left, 0.0) + profile(ends, to_right, 0.0)
        assert above <= truth * arb(1.0 + 1e-12)
        assert profile(middle, mass, 0.0) >= truth * arb(1.0 - 1e-4)


@pytest.mark.parametrize("seed", range(4))
def test_cells_with_known_means_hold_whatever_is_inside(seed: int) -> None:
    """Within each cell two atoms with a mean in the given range; the cells do not know which."""
    rng = np.random.default_rng(seed)
    ends = np.unique(np.concatenate([[0.0], rng.uniform(0.0, 3.0, 40), [3.0]]))
    low, high = ends[:-1], ends[1:]
    mass = rng.dirichlet(np.ones(low.size))
    first, second = rng.uniform(0.0, 1.0, low.size), rng.uniform(0.0, 1.0, low.size)
    share = rng.uniform(0.0, 1.0, low.size)
    mean = share * first + (1.0 - share) * second
    law = DistanceLaw(low, high, mass, np.maximum(mean - 0.01, 0.0), np.minimum(mean + 0.01, 1.0))
    shifts = np.concatenate([low + first * (high - low), low + second * (high - low)])
    masses = np.concatenate([share * mass, (1.0 - share) * mass])
    sides: dict[Side, Pair] = {side: gaussian_mixture_pair(law, side) for side in Side}
    with precision(exact.BITS):
        for k in THRESHOLDS:
            truth = profile(shifts, masses, k).log()
            for side, sign in ((Side.LOWER, -1), (Side.UPPER, 1)):
                pair = sides[side]
                value = arb(float(pair.log_hockey_stick(np.array([k]))[0]))
                assert sign * (value - truth) >= -pair.accuracy, (side, k)


def test_overlapping_cells_are_known_by_their_ends_only() -> None:
    law = DistanceLaw(np.array([0.2, 0.5]), np.array([1.0, 0.8]), np.array([0.5, 0.5]), 0.5, 0.5)
    upper, lower = (law.points(side).where.tolist() for side in (Side.UPPER, Side.LOWER))
    assert (upper, lower) == ([0.8, 1.0], [0.2, 0.5])


def test_unknown_mass_is_revealed_above_and_still_below() -> None:
    law = DistanceLaw(np.array([1.0]), np.array([1.0]), np.array([0.75]), beyond=0.25)
    upper, lower = gaussian_mixture_pair(law, Side.UPPER), gaussian_mixture_pair(law, Side.LOWER)
    assert (upper.infinite_p, lower.infinite_p) == (0.25, 0.0)
    assert np.exp(lower.log_tail_q(np.array([0.0]))[0]) > 0.25


@pytest.mark.parametrize("left", [0.0, 1e-9, 0.4, 3.0, 20.0])
def test_lengths_are_rounded_to_their_side(left: float) -> None:
    for width in (1e-12, 1e-6, 1e-3, 0.3, 1.2, 7.0):
        right = left + width
        with precision(exact.BITS):
            a, b = arb(left), arb(right)
            truth = 2 * (normal_upper(a / 2) - normal_upper(b / 2)) * (a * a / 8).exp()
            cell = np.array([left]), np.array([right]) - left
            low, high = (arb(float(_length(*cell, side)[0])) for side in (Side.LOWER, Side.UPPER))
            assert low <= truth <= high
            assert high - low <= truth * 1e-12 + 1e-13


def test_normal_masses_are_as_accurate_as_claimed() -> None:
    ends = _graded(-FARTHEST, FARTHEST, 0.0)
    mass = _normal_mass(ends)
    assert abs(float(np.sum(mass)) - 1.0) < 1e-12
    with precision(exact.BITS):
        for place in (*range(mass.size // 2, mass.size, 5000), mass.size - 1):
            u, v = (arb(float(end)) for end in (ends[place], ends[place + 1]))
            truth = normal_upper(u) - normal_upper(v)
            assert abs(arb(float(mass[place])) / truth - 1) < 1e-12
    assert np.allclose(mass, mass[::-1], rtol=1e-12, atol=0.0)


def test_the_mean_of_an_exponential_cell_is_where_it_may_be() -> None:
    """The extreme density e^(s t) on [0, 1] has the mean 1/(1 - e^-s) - 1/s."""
    change = np.array([1e-3, 0.1, 1.0, 3.0, 50.0])
    least, most = _mean_within(change)
    mean = 1.0 / -np.expm1(-change) - 1.0 / change
    assert np.all(mean <= most + 1e-12)
    assert np.all(1.0 - mean >= least - 1e-12)
    assert most[0] - mean[0] < 1e-8


def test_runs_of_cells_are_counted() -> None:
    assert _most_runs(np.array([0, 1, 2, 3])) == 1.0
    assert _most_runs(np.array([0, 2, 4, 1, 3])) == 3.0
    assert _most_runs(np.array([2, 1, 3, 0])) == 1.0
