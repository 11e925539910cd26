"""Binomial masses and tails, and those of the lazy walk, against balls of 300 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from flint import arb, arb_poly, ctx

from sharpdp.numerics.counts import (
    MASS_ERROR,
    WALK_ACCURACY,
    beyond_over_at,
    fair_coins,
    fraction_error,
    log_mass,
    log_step_mass,
    log_step_tail,
    ratio_error,
)

PRECISION = 300
DISTANCES = (-1.0, -0.3, 0.0, 0.2, 0.99, 1.01, 2.9, 3.1, 5.9, 6.1, 12.0, 25.0, 37.0)
"""In standard deviations from the mean; the formulas change at 1, 3 and 6."""


@pytest.fixture(autouse=True)
def _precise() -> Iterator[None]:
    before, ctx.prec = ctx.prec, PRECISION
    yield
    ctx.prec = before


def exact_log_mass(n: int, k: int, rate: float) -> arb:
    p = arb(rate)
    log_ways = arb(n + 1).lgamma() - arb(k + 1).lgamma() - arb(n - k + 1).lgamma()
    return log_ways + k * p.log() + (n - k) * (1 - p).log()


def exact_ratio(n: int, k: int, rate: float) -> arb:
    """Sum of the ratios of successive masses until they no longer matter."""
    odds = arb(rate) / (1 - arb(rate))
    term, total = arb(1), arb(0)
    for i in range(n - k):
        term = term * (n - k - i) / (k + 1 + i) * odds
        total += term
        if i > 4 and float(term.mid()) < 1e-30 * float(total.mid()):
            break
    return total


@pytest.mark.parametrize("rate", [0.5, 0.25, 0.01, 1e-5])
@pytest.mark.parametrize("trials", [1, 7, 60, 3000, 10**5, 4 * 10**6])
def test_masses_and_tails_keep_their_promise(trials: int, rate: float) -> None:
    mean, deviation = trials * rate, np.sqrt(trials * rate * (1 - rate))
    hits = {round(mean + z * deviation) for z in DISTANCES}
    for k in sorted(k for k in hits if mean - deviation <= k <= trials and k >= 0):
        n_, k_ = np.array([float(trials)]), np.array([float(k)])
        exact = exact_log_mass(trials, k, rate)
        if float(exact) > -800:
            assert abs(float(arb(float(log_mass(n_, k_, rate)[0])) - exact)) <= MASS_ERROR
        ratio = float(beyond_over_at(n_, k_, rate)[0])
        if k < trials:
            off = abs(float(arb(ratio) / exact_ratio(trials, k, rate) - 1))
            far = k - mean > 3.0 * deviation
            distance = (k - mean) / deviation
            assert off <= (fraction_error(trials, distance) if far else ratio_error(trials))
        else:
            assert ratio == 0.0


def test_huge_numbers_of_trials_are_symmetric_and_smooth() -> None:
    # for 10^12 trials: masses against Stirling's series at the center, the tail beyond the middle 1/2
    n, k = np.array([1e12]), np.array([5e11])
    stirling = -0.5 * np.log(np.pi * 5e11) - 1.0 / 4e12
    assert abs(float(log_mass(n, k, 0.5)[0]) - stirling) < 1e-13
    below_half = 0.5 * (1.0 - np.exp(stirling))
    assert float(beyond_over_at(n, k, 0.5)[0]) == pytest.approx(
        below_half * np.exp(-stirling), rel=ratio_error(1e12)
    )


@pytest.mark.parametrize(
    ("steps", "local_epsilon"), [(30, 1e-6), (100, 0.1), (100, 8.0), (1000, 4.0), (2000, 1.0)]
)
def test_the_walk_keeps_its_promise(steps: int, local_epsilon: float) -> None:
    each = 1.0 / (np.exp(local_epsilon) + 2.0)
    masses = arb_poly([arb(each), 1 - 2 * arb(each), arb(each)]) ** steps
    upper_half = [masses[steps + j] for j in range(steps + 1)]
    tails, total = [arb(0)] * (steps + 1), arb(0)
    for j in range(steps, -1, -1):
        tails[j], total = total, total + upper_half[j]
    at = sorted({0, 1, 2, steps - 1, *np.geomspace(1, steps - 1, 20).astype(int).tolist()})
    mass = log_step_mass(steps, each, np.array(at, dtype=float))
    tail = log_step_tail(steps, each, np.array(at, dtype=float))
    for place, j in enumerate(at):
        for mine, exact in ((mass[place], upper_half[j].log()), (tail[place], tails[j].log())):
            if float(exact) > -800:
                assert abs(float(arb(float(mine)) - exact)) <= WALK_ACCURACY


def test_a_long_walk_of_fair_double_coins_is_binomial() -> None:
    steps, each = 10**9, 0.25  # +1, 0, -1 with 1/4, 1/2, 1/4: two coins, less one
    at = np.round(np.sqrt(steps / 2) * np.array([0.0, 0.5, 2.0, 6.0, 20.0]))
    both = np.full(at.size, 2.0 * steps)
    allowed = WALK_ACCURACY + MASS_ERROR
    assert np.abs(log_step_mass(steps, each, at) - log_mass(both, at + steps, 0.5)).max() < allowed


def test_no_walk_goes_further_than_its_steps() -> None:
    assert log_step_mass(5, 0.2, np.array([5.0, 6.0])).tolist() == [
        pytest.approx(5 * np.log(0.2)),
        -np.inf,
    ]
    assert np.isneginf(log_step_tail(5, 0.2, np.array([5.0]))).all()


@pytest.mark.parametrize(
    ("trials", "span", "deepest", "asked"),
    [
        (3, 4, 3, 40_000),
        (400, 90, 12, 40_000),
        (60_000, 40, 30, 40_000),
        (1_000_000, 500, 3, 40_000),  # next to the mean, where answers take longer
        (1_000_000, 3000, 3, 300_000),  # too large to be held at once
    ],
)
def test_tables_of_fair_coins(trials: int, span: int, deepest: int, asked: int) -> None:
    """Masses and tails that are read off a table are as accurate as those that are not."""
    rng = np.random.default_rng([trials, 3])
    c = rng.integers(trials, trials + span, asked).astype(float)
    near = 0.5 * (c + 1.0) - 0.5 * np.sqrt(c) * rng.uniform(0.0, deepest, c.size)
    b = np.clip(np.floor(near), 0.0, c)
    log_at, ratio = fair_coins(c, b)
    assert not np.array_equal(log_at, log_mass(c, b, 0.5))  # it is a table
    for index in rng.integers(0, c.size, 40):
        n, k = int(c[index]), int(b[index])
        assert abs(arb(float(log_at[index])) - exact_log_mass(n, k, 0.5)) < MASS_ERROR
        exact, away = exact_ratio(n, n - k, 0.5), max((n / 2 - k) / (0.5 * n**0.5), 1.0)
        allowed = ratio_error(n) if away < 3.0 else fraction_error(n, away)
        assert abs(arb(float(ratio[index])) - exact) <= allowed * exact
