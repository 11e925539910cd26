"""Least squares from a hidden start: both sides against quadrature of the descent, and simulated runs."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest

import sharpdp as dp
from sharpdp.bounds.random_start.hidden_start_pair import HiddenStart
from sharpdp.bracket import Side
from tests.reference.initialization import delta_of_densities, descended

FREE = math.inf


def answer(slope: float, clip: float, points: int | None, **said: float) -> dp.Guarantee:
    run = dp.RandomlyInitializedGD.least_squares(
        slope=slope, clip=clip, points=points, claim="instance", **said
    )
    return dp.account(run)


def assert_between(
    slope: float,
    clip: float,
    points: int,
    noise: float,
    rate: float,
    steps: int,
) -> None:
    one, other, step = descended(points, slope, clip, noise, rate, steps)
    assert abs(float(np.sum(one)) * step - 1.0) < 1e-11
    found = answer(slope, clip, points, noise_deviation=noise, learning_rate=rate, steps=steps)
    for epsilon in (0.0, 0.3, 1.0, 2.5):
        ways = [delta_of_densities(*pair, step, epsilon) for pair in ((one, other), (other, one))]
        truth, delta = max(ways), found.delta(epsilon=epsilon)
        # the rule for a positive part is off by the square of its step
        room = 1e-4 * truth + 1e-6
        assert delta.lower <= truth + room
        assert truth - room <= delta.upper
        assert delta.upper - delta.lower <= 1e-3 * delta.upper + 1e-7


@pytest.mark.parametrize(
    ("slope", "clip", "points", "noise", "rate"),
    [
        (1.0, 2.0, 2, 1.0, 1.0),
        (-0.7, 0.4, 5, 0.5, 0.3),
        (1.5, 1.0, 3, 2.0, 0.2),
        (30.0, 0.8, 4, 1.0, 0.5),  # every start is clipped
        (0.3, 17.0, 3, 1.0, 0.4),  # none is
        (0.0, 0.02, 7, 0.4, 1.0),
    ],
)
def test_one_clipped_step(
    slope: float, clip: float, points: int, noise: float, rate: float
) -> None:
    assert_between(slope, clip, points, noise, rate, 1)


@pytest.mark.parametrize(
    ("slope", "points", "noise", "rate", "steps"),
    [
        (1.0, 1, 1.0, 1.0, 1),
        (1.0, 5, 1.0, 0.1, 6),
        (-2.0, 2, 0.5, 0.7, 3),
        (1.0, 3, 1.0, 0.75, 4),  # with all points 1 - 3 * 0.75 < -1: the descent diverges
        (0.0, 4, 0.3, 0.25, 3),  # 1 - 4/4 = 0: nothing of the start is kept
        (1.0, 2, 2.0, 0.05, 4),
    ],
)
def test_several_steps_without_clipping(
    slope: float, points: int, noise: float, rate: float, steps: int
) -> None:
    assert_between(slope, FREE, points, noise, rate, steps)


@pytest.mark.slow
def test_random_cases() -> None:
    """A search for a case in which one of the sides is not one."""
    rng, tried = np.random.default_rng(40), 0
    while tried < 150:
        slope, points = float(rng.normal(0.0, 2.0)), int(rng.integers(1, 9))
        noise, rate = np.exp(rng.normal(0.0, 0.5)), np.exp(rng.normal(-1.0, 0.8))
        clip = FREE if rng.random() < 0.5 else float(np.exp(rng.normal(0.0, 0.7)))
        steps = int(rng.integers(1, 7)) if clip == FREE else 1
        start = HiddenStart(slope, clip, points, float(noise), float(rate), steps)
        diverges = max(abs(1.0 - rate * n) for n in (points, points - 1)) ** steps
        if not start.is_resolved or max(diverges, 1.5) / (rate * noise) > 15.0:
            continue
        assert_between(slope, clip, points, float(noise), float(rate), steps)
        tried += 1


def test_two_normal_laws_in_closed_form() -> None:
    """12 steps on 6 points: N(m, V) with powers of exact fractions; the ratio passes e^k at two roots."""
    found = answer(1.5, FREE, 6, learning_rate=0.0625, steps=12, noise_deviation=0.5)
    laws = []
    for points in (6, 5):
        r, h = mpmath.mpf(1) - mpmath.mpf(points) / 16, mpmath.mpf(1) / 32
        variance = r**24 + h * h * sum(r ** (2 * i) for i in range(12))
        laws.append((mpmath.mpf("1.5") * (1 - r**12), mpmath.sqrt(variance)))
    for epsilon in (0.25, 1.0, 4.0):
        truth = max(_two_normals(*pair, epsilon) for pair in (laws, laws[::-1]))
        delta = found.delta(epsilon=epsilon)
        assert delta.lower <= truth <= delta.upper
        assert delta.relative_width < 1e-3


def _two_normals(p: tuple[mpmath.mpf, ...], q: tuple[mpmath.mpf, ...], epsilon: float) -> float:
    """P(S) - e^epsilon Q(S), S being where log p/q = a x^2 + b x + c is above epsilon."""
    a = 1 / (2 * q[1] ** 2) - 1 / (2 * p[1] ** 2)
    b = p[0] / p[1] ** 2 - q[0] / q[1] ** 2
    c = (
        q[0] ** 2 / (2 * q[1] ** 2)
        - p[0] ** 2 / (2 * p[1] ** 2)
        + mpmath.log(q[1] / p[1])
        - epsilon
    )
    square = b * b - 4 * a * c
    if square < 0:
        return 0.0 if a < 0 else float(1 - mpmath.exp(epsilon))
    low, high = sorted((-b + sign * mpmath.sqrt(square)) / (2 * a) for sign in (-1, 1))
    inside = [mpmath.ncdf((high - m) / s) - mpmath.ncdf((low - m) / s) for m, s in (p, q)]
    masses = [1 - mass for mass in inside] if a > 0 else inside
    return float(masses[0] - mpmath.exp(epsilon) * masses[1])


def test_simulated_descents_are_told_apart_no_better() -> None:
    """The test that is best by the two normal laws, on 400,000 runs of the descent itself each."""
    slope, points, rate, steps, noise, epsilon = 2.0, 4, 0.2, 5, 0.5, 1.0
    rng, runs, told = np.random.default_rng(7), 400_000, []
    for count in (points, points - 1):
        at = rng.normal(size=runs)
        for _ in range(steps):
            at -= rate * (count * (at - slope) + noise * rng.normal(size=runs))
        told.append(at)
    found = answer(slope, FREE, points, learning_rate=rate, steps=steps, noise_deviation=noise)
    delta = found.delta(epsilon=epsilon)
    reached = 0.0
    for one, other in (told, told[::-1]):
        for threshold in np.linspace(0.5, 2.5, 41):
            for sign in (-1, 1):
                rates = [float(np.mean(sign * at > sign * threshold)) for at in (one, other)]
                reached = max(reached, rates[0] - math.e * rates[1])
    # seven deviations of the difference of two frequencies
    error = 7.0 * math.sqrt(0.25 * (1.0 + math.e**2) / runs)
    assert reached <= delta.upper + error
    assert delta.lower <= reached + error + 0.01  # the best set is not quite a half-line


@pytest.mark.parametrize(
    ("slope", "clip", "points", "noise", "rate"),
    [
        *(
            (0.75, clip, points, 0.9, 0.5)
            for clip in (0.002, 0.05, 1.0, 12.0)
            for points in (1, 3, 12)
        ),
        (3.0, 0.01, 16_000, 1.0, 1.0),  # a short and steep piece, far from zero
        (6.0, 0.001, 100_000, 1.0, 0.1),
        (1e5, 1.0, 100, 1.0, 1.0),
        (0.1, 0.5, 30, 0.1, 0.2),
    ],
)
def test_log_densities_far_out(
    slope: float, clip: float, points: int, noise: float, rate: float
) -> None:
    """Wherever cells are, to the accuracy that the pair declares."""
    start = HiddenStart(slope, clip, points, noise, rate, 1)
    assert start.is_resolved
    for law, count in zip(start._clipped_laws, (points, points - 1), strict=True):
        low, high = law.ends()
        # in the cells of a tenth that are next to these places, too
        x = np.concatenate(
            [np.linspace(low, high, 9), np.linspace(-3.0, 3.0, 5) + slope / noise / rate]
        )
        x = x[(x >= low) & (x <= high)]
        found = law.log_density(x)
        for place, value in zip(x.tolist(), found.tolist(), strict=True):
            truth = _log_density(place, slope, clip, count, noise, rate)
            assert abs(float(truth) - value) < 1e-9


def _log_density(
    x: float, slope: float, clip: float, count: int, noise: float, rate: float
) -> mpmath.mpf:
    """log of the sum over the pieces of I - rate count clip(I - slope), |I| <= 14, in units of noise."""
    with mpmath.workdps(400):
        a, c, h = mpmath.mpf(slope), mpmath.mpf(clip), mpmath.mpf(rate)
        unit, total = h * mpmath.mpf(noise), mpmath.mpf(0)
        for b, d, low, high in (
            (1, h * count * c, -14, a - c),
            (1 - h * count, h * count * a, a - c, a + c),
            (1, -h * count * c, a + c, 14),
        ):
            low, high = max(low, mpmath.mpf(-14)), min(high, mpmath.mpf(14))
            if low >= high:
                continue
            factor, gap = b / unit, mpmath.mpf(x) - d / unit
            v = factor * factor + 1
            left, right = ((end - factor * gap / v) * mpmath.sqrt(v / 2) for end in (low, high))
            part = (mpmath.erfc(left) - mpmath.erfc(right)) / 2
            total += mpmath.npdf(gap / mpmath.sqrt(v)) / mpmath.sqrt(v) * part
        return mpmath.log(total)


def test_one_clipped_and_one_free_law_meet() -> None:
    """A clip that no start within 14 deviations reaches is none: two ways to the same numbers."""
    for points, rate in ((1, 0.4), (3, 0.4), (6, 0.1)):
        said = {"learning_rate": rate, "noise_deviation": 1.5}
        clipped, free = (answer(0.5, clip, points, **said) for clip in (25.0, FREE))
        for epsilon in (0.0, 1.0, 3.0):
            one, other = clipped.delta(epsilon=epsilon), free.delta(epsilon=epsilon)
            assert one.lower <= other.upper
            assert other.lower <= one.upper
            assert one.upper - one.lower <= 1e-3 * one.upper + 1e-12


def test_many_points_hide_a_start_that_is_not_clipped() -> None:
    """Without clipping delta tends to 0, with it to the chance of a clipped start times that of noise."""
    deltas = [answer(1.0, FREE, n).delta(epsilon=0.5).upper for n in (2, 8, 32, 128, 10**6)]
    assert deltas == sorted(deltas, reverse=True)
    assert deltas[-1] < 1e-12
    # clipped starts keep what is left of them as noise, and a record moves them by the clip
    x, start = np.linspace(-12.0, 12.0, 2401), np.linspace(0.0, 9.0, 1801)
    step, limit = float(x[1] - x[0]), 0.0
    for ends in (-9.0 + start, 2.0 + start * 7.0 / 9.0):
        weight = np.exp(-0.5 * ends**2) * np.gradient(ends)
        weight[[0, -1]] *= 0.5
        one, other = (
            np.exp(-0.5 * (x[:, None] - ends - move) ** 2) @ weight / (2.0 * np.pi)
            for move in (0.0, 1.0)
        )
        limit += delta_of_densities(other, one, step, 0.5)
    gaps = [abs(answer(1.0, 1.0, n).delta(epsilon=0.5).lower / limit - 1.0) for n in (20, 40, 80)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.05


def test_a_hidden_start_is_never_worse_than_a_released_one() -> None:
    rng = np.random.default_rng(11)
    for _ in range(4):
        slope, clip = float(rng.normal()), float(np.exp(rng.normal()))
        known = {"noise_deviation": float(np.exp(rng.normal())), "learning_rate": 0.3}
        hidden = answer(slope, clip, int(rng.integers(1, 12)), **known)
        released = answer(slope, clip, None, **known)
        for epsilon in (0.1, 1.0):
            assert hidden.delta(epsilon=epsilon).lower <= released.delta(epsilon=epsilon).upper


def test_later_clipped_steps_count_as_released() -> None:
    """One released start, and two steps at the clip."""
    several = answer(1.0, 0.5, 3, steps=3).epsilon(delta=1e-5)
    parts = dp.account(
        dp.RandomlyInitializedGD.least_squares(slope=1.0, clip=0.5, claim="instance")
        + dp.Gaussian(2.0) * 2
    )
    assert several.upper == pytest.approx(parts.epsilon(delta=1e-5).upper, rel=1e-6)
    assert several.lower == 0.0


@pytest.mark.parametrize(
    "start",
    [
        HiddenStart(1.0, 1.0, 10**9, 1.0, 1.0, 1),  # the line is too long
        HiddenStart(1.0, 1.0, 2, 0.01, 1.0, 1),  # a record is a hundred deviations
        HiddenStart(1.0, 1e-4, 2, 1.0, 1.0, 1),  # the piece between the kinks is short
        HiddenStart(1.0, 1.0, 2, 1.0, 1.0, 2),  # clipped steps have no closed form
        HiddenStart(1.0, FREE, 3, 1.0, 0.7, 60),  # deviations are far apart
        HiddenStart(1.0, FREE, 10**12, 1.0, 1e12, 10**6),  # powers overflow
    ],
)
def test_what_is_not_resolved_is_left_to_other_bounds(start: HiddenStart) -> None:
    assert not start.is_resolved


@pytest.mark.parametrize(
    "start",
    [
        HiddenStart(1e6, 2.0, 3, 1.0, 1.0, 1),
        HiddenStart(-13.5, 0.5, 3, 0.9, 1.0, 1),
        HiddenStart(15.0, 1.005, 1, 1.0, 0.5, 1),
        HiddenStart(0.0, 18.0, 1, 1.0, 1.0, 1),
        HiddenStart(1.0, 1.0, 900, 1.0, 1.0, 1),
        HiddenStart(1.0, 1.0, 3, 1.0, 0.02, 1),
        HiddenStart(1.0, FREE, 10**12, 1.0, 1e-12, 10**6),
        HiddenStart(0.0, FREE, 1, 1e20, 1e-20, 3),
    ],
)
def test_at_the_ends_of_what_is_resolved_the_sides_are_a_pair(start: HiddenStart) -> None:
    assert start.is_resolved
    low, high = (start.pair(side) for side in (Side.LOWER, Side.UPPER))
    losses = np.array([-3.0, -0.1, 0.0, 0.2, 1.0, 5.0])
    below, above = (np.exp(pair.log_hockey_stick(losses)) for pair in (low, high))
    assert np.all(below <= above * (1.0 + 1e-6))
    for pair in (low, high):
        assert sum(np.exp(pair.log_q)) + pair.at_minus_infinity == pytest.approx(1.0, abs=1e-9)
        assert sum(np.exp(pair.log_p)) + pair.at_plus_infinity == pytest.approx(1.0, abs=1e-9)
