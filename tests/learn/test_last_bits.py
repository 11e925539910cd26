"""No bit of a report tells more than the budget: the attack on last bits, and the proof, step by step.

The attack inverts a coordinate of a report: if only some doubles can come from a gradient, a report that
cannot excludes the gradient with certainty. docs/topics/randomizers.md has the proof that the tests
follow.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special, stats

from sharpdp.learn import (
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
)
from sharpdp.learn.randomizers.privunit import Space
from sharpdp.randomness.system_stream import WORDS, SystemStream, system_stream_for
from tests.learn import last_bits

NEIGHBORS = np.arange(-256, 257)


def reachable(reports: Any, axis: int, unit: PrivUnit) -> Any:
    """Whether a coordinate is, bit for bit, a height made from a 53-bit word or its neighbors."""
    cap, freedom = unit.cap, 0.5 * (unit.dimension - 1)
    tails = 0.5 * special.betaincc(
        0.5, freedom, np.minimum((reports[:, axis] * cap.mean) ** 2, 1.0)
    )
    found = np.zeros(len(reports), dtype=bool)
    for share in (cap.share, 1.0 - cap.share):
        for spots in (tails, 1.0 - tails):
            words = np.floor(spots / share * 2.0**53)[:, None] + NEIGHBORS
            tried = np.clip((words + 0.5) * 2.0**-53 * share, 0.0, 1.0)
            heights = np.sqrt(
                special.betainccinv(0.5, freedom, 2.0 * np.minimum(tried, 1.0 - tried))
            )
            coordinates = heights * (1.0 / cap.mean)
            found |= np.any(coordinates == np.abs(reports[:, [axis]]), axis=1)
    return found


@pytest.mark.parametrize(("dimension", "local_epsilon"), [(3, 0.5), (10, 0.5)])
def test_s1_no_report_excludes_a_gradient(dimension: int, local_epsilon: float) -> None:
    """Reports that the attack calls impossible are at most e^budget times as frequent elsewhere."""
    ball = PrivUnitBall(dimension=dimension, local_epsilon=local_epsilon)
    size, axes = 200, np.eye(dimension)
    for held, other in ((axes[0], axes[1]), (0.0 * axes[0], axes[1])):
        most, least = (
            stats.binomtest(
                size
                - np.count_nonzero(reachable(ball.reports(np.tile(x, (size, 1))), 0, ball.unit)),
                size,
            ).proportion_ci(confidence_level=1.0 - 1e-9)
            for x in (held, other)
        )
        assert least.low <= math.exp(local_epsilon) * most.high


@pytest.mark.parametrize("reports", [400, pytest.param(10**6, marks=pytest.mark.slow)])
def test_s1_s2_nothing_released_excludes_an_input(reports: int) -> None:
    """Every report can come, bit for bit, from every candidate: the random words are found and run."""
    found = last_bits.main(reports, dimensions=(2, 3, 20) if reports < 10**6 else (2, 3, 20, 784))
    assert len(found) > 20
    for name, row in found.items():
        assert row["excluded"] == 0, name
        assert row["tried"] >= row["reports"] * row["candidates"] > 0
        if "Unit" in name:
            assert 0.2 < row["from the candidate's cap"] / row["tried"] < 0.9, name


def test_the_attack_excludes_what_is_impossible() -> None:
    """Half a step aside, or a zero with a sign: no random word leads there."""
    ball, noise = (
        PrivUnitBall(dimension=3, local_epsilon=1.0),
        LatticeLaplace(dimension=3, local_epsilon=1.0),
    )
    x = np.array([0.3, 0.0, -0.4])
    reports = ball.reports(np.tile(x, (50, 1)))
    reports[::2, 1] += 0.4 * ball.unit.step / ball.unit.cap.mean
    excluded, _ = last_bits.sphere_excluded(ball, reports, x)
    assert np.array_equal(excluded, np.arange(50) % 2 == 0)
    reports = noise.reports(np.tile(x, (50, 1)))
    reports[::2, 2] += 0.4 * noise.step
    assert np.array_equal(last_bits.lattice_excluded(noise, reports, x), np.arange(50) % 2 == 0)
    for value, is_excluded in ((1.0, False), (1.0 + 2.0**-27, True), (0.0, False), (-0.0, True)):
        assert bool(last_bits.noise_excluded(np.array([value]), 0.0, 1.0)[0]) == is_excluded


@pytest.mark.parametrize("total", [0.0, -0.0, 1e-12, -1e-12])
def test_s2_a_released_zero_has_no_sign(total: float) -> None:
    """The sign of a zero came from a sum just below zero only, once in 10^8 numbers."""
    words = np.uint64(2**63) + np.arange(-(2**37), 2**37, 2**30).astype(np.uint64)
    found = last_bits.released(np.full(words.size, total), words, {}, 1.0)
    assert np.any(found == 0.0)
    assert not np.any(np.signbit(found) & (found == 0.0))


@pytest.mark.parametrize("reports", [20_000, pytest.param(350_000, marks=pytest.mark.slow)])
def test_s1_the_lowest_bits_of_reports_are_noise(reports: int) -> None:
    """The lowest four bits of the whole numbers have one law, whatever the gradient; 10^6 when slow."""
    unit = PrivUnit(dimension=3, local_epsilon=2.0)
    seen = []
    for u in ([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.6, 0.0, -0.8]):
        first = unit.reports(np.tile(u, (reports, 1)))[:, 0]
        whole = np.round(first * (unit.cap.mean / unit.step)).astype(np.int64)
        np.testing.assert_allclose(first, whole * (unit.step / unit.cap.mean), rtol=1e-12)
        seen.append(np.bincount(whole % 16, minlength=16))
    assert stats.chi2_contingency(np.array(seen)).pvalue > 1e-9


class Script(SystemStream):
    """A source that gives the words of a list, in order."""

    def __init__(self, words: Sequence[int]) -> None:
        rest = list(words)

        def draw(count: int) -> Any:
            taken, rest[:] = rest[:count], rest[count:]
            assert len(taken) == count
            return np.array(taken, dtype=np.uint64)

        super().__init__(draw)


def packed(halves: Any) -> list[int]:
    """Numbers of 16 bits as words."""
    return np.asarray(halves, dtype=np.uint16).view(np.uint64).tolist()  # type: ignore[no-any-return]


def test_s1_every_step_has_its_exact_probability() -> None:
    """Each of 2^16 slots leads to one step, and 17 to one of 51 equally likely ones: 2^-|k| / 3."""
    from sharpdp.learn.randomizers.lattice_rounding import dithered

    every, none = np.arange(2**16), np.zeros(2**16)  # no coin rounds 0.0 up
    script = packed(np.concatenate([none, every]))
    law: Counter[int] = Counter()
    for third in range(51):
        edges = dithered(np.zeros(2**16), Script([*script, *([third] * 17), *([1] * 17)][:]))
        law.update(edges.astype(int).tolist())
    counts = {k: Fraction(n, 51 * 2**16) for k, n in law.items()}
    assert sum(counts.values()) == 1
    for k in range(-16, 17):
        assert counts[k] == Fraction(1, 3 * 2 ** abs(k))
    # the first head of fair coins decides beyond 16
    for sign in (-1, 1):
        assert counts[17 * sign] == Fraction(1, 3 * 2**16)
    assert set(counts) == set(range(-17, 18))


def test_s1_steps_beyond_the_slots_halve() -> None:
    from sharpdp.learn.randomizers.lattice_rounding import _steps_left

    for zeros in (0, 1, 5, 62):
        assert _steps_left(2, Script([49, 50, 1 << zeros, 1 << zeros])).tolist() == [
            17 + zeros,
            -17 - zeros,
        ]


@pytest.mark.parametrize("number", [0.3, -0.7, 2.0**-40, 17.999999, -(2.0**-60), 1000.123456789])
def test_s1_every_coin_has_its_exact_probability(number: float) -> None:
    """All 2^16 coins, and the word at which the undecided one turns, found by bisection."""
    from sharpdp.learn.randomizers.lattice_rounding import dithered

    every = np.arange(2**16)
    kept = np.full(2**16, 2**15)  # no step
    floor = math.floor(number)

    def ups(further: int) -> int:
        script = packed(np.concatenate([every, kept]))
        found = dithered(np.full(2**16, number), Script([*script, *([further] * 2)]))
        assert set(found.tolist()) <= {floor, floor + 1.0}
        return int(np.sum(found - floor))

    few, many = ups(WORDS - 1), ups(0)
    assert 0 <= many - few <= 1
    low, high = 0, WORDS
    while many > few and low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if ups(middle) == many else (low, middle)
    chance = (few + Fraction(low, WORDS) * (many - few)) / 2**16
    moved = abs(chance - (Fraction(number) - floor))
    assert moved <= Fraction(max(abs(number), 1.0)) / 2**52  # as if the double had been rounded


def chance(k: int, a: Fraction) -> Fraction:
    """The probability that a number a becomes the whole number k."""
    floor = a.numerator // a.denominator
    share = a - floor

    def step(j: int) -> Fraction:
        return Fraction(1, 3 * 2 ** abs(j))

    return (1 - share) * step(k - floor) + share * step(k - floor - 1)


def test_s1_the_logarithm_of_a_probability_has_slope_one_at_most() -> None:
    ctx.prec = 200
    places = [Fraction(n, 8) for n in range(-12, 13)] + [Fraction(1, 10**9), Fraction(-1, 10**9)]
    for k in range(-6, 7):
        for a in places:
            for b in places:
                ratio = chance(k, a) / chance(k, b)
                distance = arb(abs(a - b).numerator) / abs(a - b).denominator
                assert arb(ratio.numerator) / ratio.denominator <= distance.exp() * (
                    1 + arb(2) ** -150
                )


def test_s1_reports_of_a_small_sphere_keep_the_budget() -> None:
    """All reports within 12 steps of the circle, by the definition of their probability."""
    nodes, step, budget, share = 720, 0.4, 1.5, 0.25
    angles = 2.0 * math.pi * (np.arange(nodes) + 0.5) / nodes
    excess = share * math.expm1(budget)
    beta = excess / (1.0 + excess)
    grid = np.arange(-15, 16)

    def chances(a: Any) -> Any:
        floor = np.floor(a)
        part = a - floor
        away = grid[None, :] - floor[:, None]
        return (
            (1.0 - part)[:, None] * 2.0 ** -np.abs(away) + part[:, None] * 2.0 ** -np.abs(away - 1)
        ) / 3

    across, along = chances(np.cos(angles) / step), chances(np.sin(angles) / step)

    def law(turn: int) -> Any:
        weights = np.full(nodes, (1.0 - beta) / nodes)
        cap = (np.arange(int(nodes * share)) + turn) % nodes
        weights[cap] += beta / cap.size
        return np.einsum("n,ni,nj->ij", weights, across, along)

    laws = [law(turn) for turn in range(0, nodes, 60)]
    worst = max(float(np.max(one / other)) for one in laws for other in laws)
    assert 1.2 < worst <= math.exp(budget) * (1.0 + 1e-12)
    assert all(np.all(one > 0.0) for one in laws)


# --- points in doubles are as near to the real ones as the allowance says


def ball_of(number: Fraction | float) -> arb:
    exact = Fraction(number)
    return arb(exact.numerator) / arb(exact.denominator)


def norm(vector: Sequence[arb]) -> arb:
    return sum((x * x for x in vector), arb(0)).sqrt()


EXTREME = [1, 2**45, 2**48, 2**63 - 1, 2**63, 64871 << 48, 3 * 2**61, 12345678901234567890]


def drawn(count: int, seed: int) -> tuple[list[int], list[arb]]:
    """Random words and extreme ones that end in the slots of a cell, and the middle of each place."""
    generator = np.random.default_rng(seed)
    words = [int(x) for x in generator.integers(2**63 + 2**62, size=count, dtype=np.uint64)]
    if seed % 2:
        words[: len(EXTREME)] = EXTREME[:count]
    return words, [exact_normal(word) for word in words]


@cache
def slots_of_cells() -> list[int]:
    """How many slots lie below the density on each cell of width 1/64, from -4 to 4."""
    ctx.prec = 300
    edges = (arb(k) / 64 for k in range(1, 257))
    heights = (2**10 * (-x * x / 2).exp() / (2 * arb.pi()).sqrt() for x in edges)
    counts = [int(height.floor().unique_fmpz()) for height in heights]
    return [*reversed(counts), *counts]


def exact_normal(word: int) -> arb:
    """The real number in the middle of those that begin with this word: a cell, and a place in it."""
    slot, place = divmod(word, 2**48)
    for cell, slots in enumerate(slots_of_cells()):
        if slot < slots:
            return ball_of(Fraction(cell - 256, 64) + Fraction(2 * place + 1, 2**55))
        slot -= slots
    raise AssertionError("one of the words that are left")


@pytest.mark.parametrize("dimension", [2, 3, 11, 40])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_s1_points_in_doubles_are_as_near_as_believed(dimension: int, seed: int) -> None:
    from sharpdp.learn.randomizers.lattice_rounding import allowance, directions, step_of

    ctx.prec = 300
    limit = arb(allowance(dimension) * step_of(dimension) / math.sqrt(dimension))
    # a point of the sphere
    words, exact = drawn(dimension, seed)
    found = directions(1, dimension, Script(words))[0]
    size = norm(exact)
    assert norm([ball_of(a) - b / size for a, b in zip(found, exact, strict=True)]) < limit
    # a point of a cap, around an axis, close to one, and anywhere
    unit = PrivUnit(dimension=dimension, local_epsilon=4.0)
    generator = np.random.default_rng(seed)
    for u in (
        np.eye(dimension)[0],
        -np.eye(dimension)[-1],
        np.eye(dimension)[0] + 1e-9 * generator.normal(size=dimension),
        generator.normal(size=dimension),
    ):
        u = u / np.linalg.norm(u)
        words, side = drawn(dimension - 1, seed)
        for first in (2**62 + 7, 2**63 - 3, 2**46 + 5):
            script = Script([first, 0, *words])  # the coin accepts the height
            heights = unit._heights(1, script)
            found = unit._in_high_cap(u[None, :].copy(), heights, script, Space(1, dimension))[0]
            c = ball_of(unit.height)
            log = (ball_of(Fraction(2 * first + 1, 2**64))).log() * 2 / (dimension - 1)
            height = (c * c + (1 - c * c) * (1 - log.exp())).sqrt()
            across = ((1 - c * c) * log.exp()).sqrt()
            size = norm(side)
            axis = [ball_of(x) for x in u.tolist()]
            length = norm(axis)
            axis = [x / length for x in axis]
            sign = -1 if u[0] < 0 else 1
            point = [-sign * height, *(across * x / size for x in side)]
            mirror = [axis[0] + sign, *axis[1:]]
            share = sum((a * b for a, b in zip(mirror, point, strict=True)), arb(0)) / (
                1 + abs(axis[0])
            )
            point = [a - share * b for a, b in zip(point, mirror, strict=True)]
            along = sum((a * b for a, b in zip(axis, point, strict=True)), arb(0))
            assert abs(along - height) < arb(2) ** -200  # the exact point has this height
            assert norm([ball_of(a) - b for a, b in zip(found, point, strict=True)]) < limit


@pytest.mark.parametrize("kind", [CoordinateSigns, HadamardSigns])
def test_values_beyond_the_radius_by_rounding_keep_their_sign(kind: Any) -> None:
    """A norm may exceed the radius by 1e-9; at large budgets the probability then left [0, 1]."""
    signs = kind(dimension=1, local_epsilon=29.0)
    reports = signs.reports(np.full((1000, 1), -1.0 - 9e-10), rng=1)
    assert np.all(reports % 2 == 0)
    assert np.all(signs.reports(np.full((1000, 1), 1.0 + 9e-10), rng=1) % 2 == 1)


def test_unseeded_points_have_the_law_of_the_sphere() -> None:
    from sharpdp.learn.randomizers.lattice_rounding import directions

    points = directions(20_000, 3, system_stream_for(None))
    for column in points.T:
        assert stats.kstest(column, stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-9
