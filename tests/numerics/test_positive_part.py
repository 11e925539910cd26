"""Positive parts of sums against enumeration in fractions and against balls for many users."""

import cmath
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import exp, factorial, log, pi, prod, sqrt

import numpy as np
import pytest
from flint import acb, arb
from scipy.special import ndtr

from sharpdp.numerics.contour import PhaseTable
from sharpdp.numerics.expected_positive_part import ShiftedSum, Sums, _Contours
from tests.reference.balls import precision
from tests.reference.shuffle import blanket_delta, ternary_delta

UNIT = 2.0**-53
LAWS = [
    ([3, 5, 8], [5, -4, -1]),
    ([1, 1, 14], [16, -24, 0]),
    ([6, 10], [7, -8]),
    ([2, 2, 2, 10], [9, 3, -10, -3]),
    ([1, 15], [40, -4]),
]
"""Weights in sixteenths, values in eighths; all means are negative."""


def exact(weights: list[int], values: list[int], count: int) -> Fraction:
    """E[S_+] by going through all results."""
    total = Fraction(0)
    for result in combinations_with_replacement(range(len(weights)), count):
        times = [result.count(kind) for kind in range(len(weights))]
        ways = factorial(count)
        chance = Fraction(1)
        for kind, often in enumerate(times):
            ways //= factorial(often)
            chance *= Fraction(weights[kind], 16) ** often
        worth = sum(often * Fraction(values[kind], 8) for kind, often in enumerate(times))
        total += ways * chance * max(worth, Fraction(0))
    return total


def sums(weights: list[float], values: list[float], count: int) -> Sums:
    """One row."""
    row = np.array([values])
    return Sums(np.array([weights]), row, 4.0 * UNIT * np.abs(row), np.array([float(count)]))


def bracket(one: Sums, factor: float = 1.0, tolerance: float = 1e-3) -> tuple[float, float]:
    """What is found for the only row at its best tilt, or some times that."""
    low, high = one.log_values(factor * one.tilts(), tolerance)
    return float(low[0]), float(high[0])


@pytest.mark.parametrize("count", [1, 2, 7, 30])
@pytest.mark.parametrize(("weights", "values"), LAWS)
def test_the_bracket_holds_the_sum_over_all_results(
    weights: list[int], values: list[int], count: int
) -> None:
    if len(weights) > 3 and count > 7:
        count = 16
    one = sums([w / 16 for w in weights], [v / 8 for v in values], count)
    low, high = bracket(one)
    truth = log(exact(weights, values, count))
    assert low <= truth <= high <= low + 0.01
    assert truth <= one.log_ceilings(one.tilts())[0]


@pytest.mark.parametrize("tilt", [0.3, 0.7, 1.5, 3.0])
def test_any_tilt_gives_a_valid_bracket(tilt: float) -> None:
    weights, values = LAWS[0]
    one = sums([w / 16 for w in weights], [v / 8 for v in values], 30)
    low, high = bracket(one, tilt)
    assert low <= log(exact(weights, values, 30)) <= high


def shuffled(users: int, local: float, epsilon: float, *, blanket: bool) -> Sums:
    """k-ary randomized response: k = 2 under its blanket, k = 3 with the others holding the third."""
    odds, x = exp(local), exp(epsilon)
    if blanket:
        weights = [1 / (odds + 1), 1 / (odds + 1), (odds - 1) / (odds + 1)]
        first, second = np.array([odds, 1.0, 0.0]), np.array([1.0, odds, 0.0])
    else:
        weights = [1 / (odds + 2), 1 / (odds + 2), odds / (odds + 2)]
        first, second = np.array([odds, 1.0, 1 / odds]), np.array([1.0, odds, 1 / odds])
    row = (first - x * second)[None]
    error = 8.0 * UNIT * (first + x * second)[None]
    return Sums(np.array([weights]), row, error, np.array([float(users)]))


@pytest.mark.parametrize(
    ("users", "local", "epsilon", "blanket"),
    [
        (10_000, 1.0, 0.04, True),
        (10_000, 1.0, 0.2, True),
        (1000, 4.0, 1.0, True),
        (1_000_000, 2.0, 0.013, True),
        (10_000, 4.444, 0.49365, False),
        (10_000, 1.0, 0.0379981, False),
    ],
)
def test_many_users_against_balls(users: int, local: float, epsilon: float, blanket: bool) -> None:
    delta = (blanket_delta if blanket else ternary_delta)(users, local, epsilon)
    truth = float(delta.log()) + log(users)
    one = shuffled(users, local, epsilon, blanket=blanket)
    low, high = bracket(one)
    assert low < truth < high < low + 1e-3 + 2e-4 * abs(high)


@pytest.mark.parametrize(
    ("users", "local", "epsilon", "low_delta", "high_delta"),
    [
        (10**8, 2.0, 0.0014, 2.300416e-10, 2.300435e-10),
        (10**9, 4.0, 0.0017, 3.525875e-12, 3.525913e-12),
    ],
)
def test_very_many_users_against_published_brackets(
    users: int, local: float, epsilon: float, low_delta: float, high_delta: float
) -> None:
    one = shuffled(users, local, epsilon, blanket=True)
    low, high = bracket(one)
    assert exp(low) / users < high_delta
    assert low_delta < exp(high) / users < 1.001 * high_delta


@pytest.mark.parametrize("count", [1, 50])
def test_sums_that_do_not_spread_are_known(count: int) -> None:
    for weights, values in (([0.25, 0.75], [2.0, 2.0]), ([0.0, 1.0], [5.0, 2.0])):
        low, high = bracket(sums(weights, values, count))
        assert low <= log(2.0 * count) <= high < low + 1e-3


def test_nothing_above_zero_is_nothing() -> None:
    assert bracket(sums([0.5, 0.5], [-1.0, 0.0], 5)) == (-np.inf, -np.inf)


@pytest.mark.parametrize(
    "places",
    [
        range(200),
        range(0, 400, 2),
        [0, *range(3, 200)],
        [*range(100), *range(150, 250)],
        [*range(50), *range(51, 200)],
    ],
    ids=["all", "every other", "a gap at once", "a gap", "one is missing"],
)
def test_phases_at_the_frequencies_that_are_left(places: Sequence[int]) -> None:
    values, weights = np.array([-1.0, 0.3, 2.5]), np.array([0.5, 0.3, 0.2])
    t = 0.37 * np.array(places, dtype=float)
    wanted = [
        sum(w * cmath.exp(1j * s * v) for v, w in zip(values, weights, strict=True)) for s in t
    ]
    found = PhaseTable(values, 0.37, np.array(places)).sums(weights)
    assert np.allclose(found, wanted, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4])
def test_one_sum_at_many_shifts_against_enumeration(tolerance: float) -> None:
    """Sums of a heavy-tailed variable with whole values: all probabilities by convolution."""
    values, weights = np.array([-2.0, -1.0, 0.0, 1.0, 30.0]), np.array([0.1, 0.5, 0.2, 0.19, 0.01])
    count = 40
    law = np.ones(1)
    single = np.zeros(33)
    single[(values + 2.0).astype(int)] = weights
    for _ in range(count):
        law = np.convolve(law, single)
    sums = np.arange(law.size) - 2.0 * count
    one = Sums(weights[None], values[None], np.zeros((1, 5)), np.array([float(count)]))
    shifted = ShiftedSum(one)
    for shift in (25.0, 3.5, 0.0, -4.0, -5.0, -30.0, -90.25):
        exact = float(np.log(np.maximum(sums + shift, 0.0) @ law))
        found, tilt = shifted.log_sharp_upper(shift, tolerance)
        assert exact - 1e-12 < found < exact + 2.0 * tolerance
        assert tilt > 0.0


@pytest.mark.parametrize("shrink", [1.0, 16.0])
@pytest.mark.parametrize("count", [1, 2, 7, 16])
@pytest.mark.parametrize(("weights", "values"), LAWS)
def test_trapezoid_sums_are_those_of_smoothed_values_and_their_images(
    weights: list[int], values: list[int], count: int, shrink: float
) -> None:
    """sum_k e^{-theta k W} E[(S + v Z + k W)_+], by going through all results of S."""
    row = np.array(values) / 8.0
    many = sums([w / 16 for w in weights], [v / 8 for v in values], count)
    three = Sums(
        np.repeat(many.weights, 3, axis=0),
        np.stack([row, row - 0.25, row + 0.125]),
        np.zeros((3, row.size)),
        np.full(3, float(count)),
    )
    contours = _Contours.of(three, np.array([0.6, 1.0, 2.0]) * three.tilts())
    contours = replace(contours, smoothing=contours.smoothing / shrink)
    value, error, _ = contours._sums(contours.terms())
    lead = contours.log_m + 0.5 * (contours.smoothing * contours.theta) ** 2
    for index in range(3):
        wanted = 0.0
        theta, v, window = contours.theta[index], contours.smoothing[index], contours.window[index]
        for image in range(-3, 40):
            shift = image * window
            for result in combinations_with_replacement(range(row.size), count):
                times = [result.count(kind) for kind in range(row.size)]
                ways = factorial(count) // prod(factorial(often) for often in times)
                chance = ways * prod(
                    (w / 16) ** often for w, often in zip(weights, times, strict=True)
                )
                s = (
                    sum(often * g for often, g in zip(times, three.values[index], strict=True))
                    + shift
                )
                call = s * ndtr(s / v) + v * exp(-0.5 * (s / v) ** 2) / sqrt(2.0 * pi)
                wanted += chance * exp(-theta * shift) * call
        found = value[index] * exp(lead[index])
        assert abs(found - wanted) <= error[index] * exp(lead[index]) + 1e-12 * wanted
        assert error[index] < 1e-4 * value[index]


@pytest.mark.parametrize("spread", [1e-6, 1.0])
@pytest.mark.parametrize("size", [3, 70])
@precision(200)
def test_transforms_are_within_their_claim(size: int, spread: float) -> None:
    """M(z) / M(theta) - 1 of values that are moved by the smoothing, against balls."""
    rng = np.random.default_rng(size)
    values = np.vstack(
        [spread * rng.normal(size=size) - 0.3 * spread, np.linspace(-1.0, 3.0, size)]
    )
    weights = np.tile(np.full(size, 1.0 / size), (2, 1))
    sums_of_both = Sums(weights, values, np.zeros((2, size)), np.array([1e8, 7.0]))
    contours = _Contours.of(sums_of_both, 0.8 * sums_of_both.tilts())
    seen, worst = 0, 0.0
    for rows, blocks, psi in contours._transforms():
        for index in {0, 1, rows.size // 2, rows.size - 1} & set(range(rows.size)):
            row = rows[index]
            for within in (0, 1, 17, 31):
                t = arb(float(contours._step[row])) * int(32 * blocks[index] + within)
                total = mass = acb(0)
                for weight, value in zip(weights[row].tolist(), values[row].tolist(), strict=True):
                    grown = arb(weight) * (arb(float(contours.theta[row])) * arb(value)).exp()
                    moved = arb(value) + arb(float(contours._moves[row]))
                    total, mass = total + grown * acb(0, t * moved).exp(), mass + grown
                claim = contours._known[row] * float(t)
                error = abs(total / mass - 1 - acb(complex(psi[index, within])))
                worst = max(worst, float(error.mid()) / max(claim, 1e-300))
                seen += 1
    assert worst <= 1.0
    assert seen >= 16
