"""Local randomizers: constants in ball arithmetic, budgets and means by enumeration, bad input."""

from __future__ import annotations

import hashlib
import math
import os
import ssl
import sys
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from flint import arb

import sharpdp as dp
from sharpdp.learn import (
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    Randomizer,
    clipped,
    vector_randomizer,
)
from sharpdp.learn.randomizers.lattice_laplace import FINENESS, steps_of
from sharpdp.learn.randomizers.lattice_rounding import allowance
from sharpdp.learn.randomizers.privunit_cap import Cap
from sharpdp.mechanisms import BlanketRandomizer
from sharpdp.randomness import system_stream
from sharpdp.randomness.system_stream import WORDS, SystemStream
from tests.reference import sphere
from tests.reference.sphere import exactly

DIMENSIONS = (2, 3, 10, 784, 10**4, 10**6)
BUDGETS = (1e-6, 0.1, 2.0, 8.0, 30.0)


# --- PrivUnit: the constants as stored


def inside_of(dimension: int, cap: Cap) -> arb:
    """The probability of the cap: a point of it, or one of the whole sphere that falls into it."""
    beta = exactly(Fraction(cap.coin, WORDS))
    return beta + (1 - beta) * sphere.share(dimension, cap.height)


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("local_epsilon", BUDGETS)
def test_the_ratio_of_densities_is_at_most_the_budget(dimension: int, local_epsilon: float) -> None:
    cap = PrivUnit(dimension=dimension, local_epsilon=local_epsilon).cap
    beta, q = exactly(Fraction(cap.coin, WORDS)), sphere.share(dimension, cap.height)
    kappa = arb(allowance(dimension))
    ratio = (1 + beta * kappa.exp() / ((1 - beta) * q)).log()
    assert ratio <= local_epsilon  # certainly: arb compares all of a ball
    # nothing is given away either, except where a 64-bit coin is coarse
    coarse = 1e-12 * (1.0 + math.exp(local_epsilon / 2.0))
    assert ratio >= local_epsilon * (1.0 - allowance(dimension) ** 2) - coarse
    assert sphere.log_ratio(dimension, cap.height, inside_of(dimension, cap)) <= ratio


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("height", [0.0, 0.3, 1.0])
def test_the_ratio_holds_at_any_height(dimension: int, height: float) -> None:
    height = height * min(0.99, 8.0 / math.sqrt(dimension))
    cap = PrivUnit(dimension=dimension, local_epsilon=1.5, height=height).cap
    inside = inside_of(dimension, cap)
    assert cap.height == height
    assert sphere.log_ratio(dimension, height, inside) <= 1.5
    assert abs(arb(cap.mean) / sphere.mean(dimension, height, inside) - 1) < 2.0**-52


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("local_epsilon", BUDGETS)
def test_share_and_mean_are_the_nearest_doubles(dimension: int, local_epsilon: float) -> None:
    cap = PrivUnit(dimension=dimension, local_epsilon=local_epsilon).cap
    mean = sphere.mean(dimension, cap.height, inside_of(dimension, cap))
    assert abs(arb(cap.share) / sphere.share(dimension, cap.height) - 1) < 2.0**-52
    assert abs(arb(cap.mean) / mean - 1) < 2.0**-52


@pytest.mark.parametrize("dimension", [2, 3, 10, 784, 10**6])
@pytest.mark.parametrize("local_epsilon", [0.1, 2.0, 8.0, 30.0])
def test_no_other_height_has_a_larger_mean(dimension: int, local_epsilon: float) -> None:
    cap = PrivUnit(dimension=dimension, local_epsilon=local_epsilon).cap
    best = sphere.best_mean(dimension, cap.height, local_epsilon)
    factors = np.concatenate([np.linspace(0.0, 1.0, 25), 1.0 + np.geomspace(1e-6, 0.4, 12)])
    others = [float(f * cap.height) for f in factors if f * cap.height < 1.0]
    for height in [*others, cap.height * (1.0 - 1e-6)]:
        other = sphere.best_mean(dimension, height, local_epsilon)
        assert other <= best * (1 + arb(1e-15)), height
    # c = m(c), but for what rounding to doubles is allowed
    assert abs(cap.height / cap.mean - 1.0) < 1e-7 + 2.0 * allowance(dimension)


GOLDEN = {  # specification: (d, local epsilon): c = m, p, q, variance
    (10, 2.0): (0.25080001, 0.68634411, 0.22847939, 14.898089),
    (100, 1.0): (0.039829939, 0.59011551, 0.34625155, 629.34848),
    (10_000, 2.0): (0.0078648775, 0.67033822, 0.21580461, 16165.502),
}


@pytest.mark.parametrize("case", GOLDEN)
def test_printed_constants(case: tuple[int, float]) -> None:
    unit = PrivUnit(dimension=case[0], local_epsilon=case[1])
    found = (unit.cap.mean, unit.cap.inside, unit.cap.share, unit.largest_variance)
    # the height is that of the specification; rounding costs a little of the rest
    assert (unit.height, unit.cap.share) == pytest.approx(np.array(GOLDEN[case])[[0, 2]], rel=1e-7)
    assert found == pytest.approx(GOLDEN[case], rel=5e-5)
    ideal = (1.0 - unit.height**2) / unit.height**2
    assert ideal == pytest.approx(GOLDEN[case][3], rel=1e-7)
    assert ideal < unit.largest_variance < ideal * (1.0 + 5e-5)


@pytest.mark.parametrize(
    ("dimension", "local_epsilon", "variance"),
    [(10_000, 4.0, 4352.4884), (10_000, 8.0, 1328.5587), (10**6, 2.0, 1616679.8)],
)
def test_printed_variances(dimension: int, local_epsilon: float, variance: float) -> None:
    unit = PrivUnit(dimension=dimension, local_epsilon=local_epsilon)
    assert variance < unit.largest_variance < variance * (1.0 + 1e-3)
    assert 1.0 / unit.height**2 - 1.0 == pytest.approx(variance, rel=1e-7)


def test_half_sphere_has_the_printed_variance() -> None:
    half = PrivUnit(dimension=10_000, local_epsilon=2.0, height=0.0)
    assert half.largest_variance == pytest.approx(27079.143, rel=5e-5)


@pytest.mark.parametrize("local_epsilon", [0.01, 1.0, 5.0, 20.0])
def test_closed_form_in_space(local_epsilon: float) -> None:
    cap = PrivUnit(dimension=3, local_epsilon=local_epsilon).cap
    assert cap.height == pytest.approx(math.tanh(local_epsilon / 4.0), rel=1e-12)
    share = 1.0 / (1.0 + math.exp(local_epsilon / 2.0))
    assert cap.share == pytest.approx(share, rel=1e-8)
    assert cap.inside == pytest.approx(1.0 - share, rel=1e-5)


def test_a_ball_scales_its_unit_vectors() -> None:
    ball = PrivUnitBall(dimension=784, local_epsilon=2.0, radius=0.005)
    assert ball.unit == PrivUnit(dimension=784, local_epsilon=2.0)
    inside = np.zeros((2, 784))
    inside[1, 3] = -0.003
    second = (0.005 / ball.unit.cap.mean) ** 2
    assert ball.variance(inside).tolist() == pytest.approx([second, second - 9e-6], rel=1e-5)
    assert second < ball.largest_variance < second * (1.0 + 1e-5)
    norms = np.linalg.norm(ball.reports(inside, rng=1), axis=1)
    assert norms == pytest.approx(np.full(2, 0.005 / ball.unit.cap.mean), rel=1e-3)


@pytest.mark.parametrize("size", [1.0 + 9e-10, 1.0 - 9e-10])
def test_a_norm_that_is_rounded_does_not_show(size: float) -> None:
    u = np.array([[0.6, 0.8]])
    unit = PrivUnit(dimension=2, local_epsilon=12.0)
    ball = PrivUnitBall(dimension=2, local_epsilon=12.0)
    for randomizer in (unit, ball):
        reports = randomizer.reports(np.repeat(u * size, 50, axis=0), rng=3)
        norms = np.linalg.norm(reports, axis=1) * unit.cap.mean
        assert norms == pytest.approx(np.ones(50), abs=2.0 * 60.0 * unit.step)


@pytest.mark.parametrize("norm", [1.0, 1.5, 3.0, 8.0, math.inf])
def test_balls_of_other_norms_are_held_by_a_euclidean_one(norm: float) -> None:
    ball = PrivUnitBall(dimension=4, local_epsilon=1.0, radius=0.5, norm=norm)
    generator = np.random.default_rng(2)
    rows = [*np.eye(4), np.ones(4), *generator.normal(size=(20, 4))]
    inside = clipped(1e3 * np.array(rows), radius=0.5, norm=norm)
    largest = np.linalg.norm(inside, axis=1).max()
    assert largest == pytest.approx(ball.reach, rel=1e-12)  # touched at a corner
    norms = np.linalg.norm(ball.reports(inside, rng=1), axis=1)
    assert norms == pytest.approx(np.full(len(rows), ball.reach / ball.unit.cap.mean), rel=0.05)
    squares = ball.unit.largest_square * (ball.reach / ball.unit.cap.mean) ** 2
    assert ball.variance(inside) == pytest.approx(squares - np.linalg.norm(inside, axis=1) ** 2)


def test_every_norm_has_its_randomizer() -> None:
    kinds = {1: HadamardSigns, 2: PrivUnitBall, 3.5: PrivUnitBall, math.inf: CoordinateSigns}
    for norm, kind in kinds.items():
        chosen = vector_randomizer(dimension=3, local_epsilon=1.0, radius=0.5, norm=norm)
        assert type(chosen) is kind
        assert (chosen.norm, chosen.radius, chosen.local_epsilon) == (norm, 0.5, 1.0)


@pytest.mark.parametrize("dimension", [2, 3, 784, 10**6])
@pytest.mark.parametrize("local_epsilon", [1e-6, 2.0, 30.0])
def test_the_blanket_is_the_density_outside_the_cap(dimension: int, local_epsilon: float) -> None:
    unit = PrivUnit(dimension=dimension, local_epsilon=local_epsilon)
    truth = 1 - exactly(Fraction(unit.cap.coin, WORDS))
    outside = 1 - inside_of(dimension, unit.cap)
    assert abs(truth - outside / (1 - sphere.share(dimension, unit.height))) < 1e-30
    assert arb(unit.blanket) <= truth
    assert arb(unit.blanket) >= truth * (1 - arb(2.0**-51))
    known = BlanketRandomizer(local_epsilon=local_epsilon, blanket=unit.blanket)
    assert unit.mechanism == known
    assert unit.shuffled(users=5).randomizer == known


# --- signs: every report listed


def least_word(judge: Callable[[int], bool]) -> int:
    """The least word for which `judge` is false: the threshold of a coin, found from outside."""
    low, high = 0, WORDS
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if judge(middle) else (low, middle)
    return low


def chance_of_plus(randomizer: Any, value: float) -> Fraction:
    """Exactly: the share of words with which the sign at this value is drawn as plus."""

    def judge(word: int) -> bool:
        source = SystemStream(lambda count: np.full(count, word, dtype=np.uint64))
        return bool(randomizer.signs(np.array([value]), source)[0])

    return Fraction(least_word(judge), WORDS)


def hadamard(j: int, i: int) -> int:
    return -1 if bin(i & j).count("1") % 2 else 1


def values_at(randomizer: Any, row: list[float]) -> list[float]:
    """What the row holds at each index, by the definition."""
    if isinstance(randomizer, CoordinateSigns):
        return row
    size = randomizer.indices
    return [math.fsum(hadamard(j, i) * x for i, x in enumerate(row)) for j in range(size)]


def corners(randomizer: Any) -> list[list[float]]:
    """Extreme vectors, some inner ones and zero."""
    d, a = randomizer.dimension, randomizer.radius
    if isinstance(randomizer, CoordinateSigns):
        rows = [[a if (bits >> i) & 1 else -a for i in range(d)] for bits in range(2**d)]
    else:
        rows = [[s * a if i == j else 0.0 for i in range(d)] for j in range(d) for s in (-1, 1)]
    generator = np.random.default_rng(5)
    inner = generator.uniform(-a / d, a / d, size=(4, d)).tolist()
    return [*rows, *inner, [0.0] * d]


SIGNS = [
    kind(dimension=dimension, local_epsilon=epsilon, radius=radius)
    for kind in (CoordinateSigns, HadamardSigns)
    for dimension, epsilon, radius in (
        (1, 1.0, 1.0),
        (3, 0.01, 0.005),
        (4, 3.0, 2.0),
        (3, 30.0, 1.0),
    )
]


@pytest.mark.parametrize("randomizer", SIGNS, ids=repr)
def test_signs_by_enumeration(randomizer: Any) -> None:
    law: list[list[Fraction]] = []
    size = randomizer.indices
    table = randomizer.estimates(np.arange(2 * size))
    for row in corners(randomizer):
        plus = [chance_of_plus(randomizer, h) for h in values_at(randomizer, row)]
        law.append([p / size for h in plus for p in (1 - h, h)])
        chances = np.array([float(p) for p in law[-1]])
        # unbiased, and the variance is what is stated
        tolerance = 1e-12 * randomizer.radius / randomizer.lean * size
        assert chances @ table == pytest.approx(np.array(row), abs=tolerance)
        second = float(chances @ (table**2).sum(axis=1))
        variance = second - float(np.dot(row, row))
        assert randomizer.variance([row])[0] == pytest.approx(variance, rel=1e-9)
        assert variance <= randomizer.largest_variance * (1.0 + 1e-9)
    ratio = max(max(column) / min(column) for column in zip(*law, strict=True))
    assert exactly(ratio) <= arb(randomizer.local_epsilon).exp()
    assert math.log(ratio) >= randomizer.local_epsilon * (1.0 - 1e-5)


@pytest.mark.parametrize("dimension", [1, 2, 5, 8, 100])
def test_values_and_rows_are_those_of_the_hadamard_matrix(dimension: int) -> None:
    randomizer = HadamardSigns(dimension=dimension, local_epsilon=1.0)
    generator = np.random.default_rng(3)
    rows = clipped(generator.normal(size=(6, dimension)), radius=1.0, norm=1)
    index = generator.integers(randomizer.indices, size=6)
    matrix = np.array([[hadamard(j, i) for i in range(dimension)] for j in index], dtype=float)
    assert randomizer._values(rows, index) == pytest.approx((matrix * rows).sum(axis=1), abs=1e-14)
    scale = randomizer.radius / randomizer.lean
    assert randomizer.estimates(2 * index) == pytest.approx(-scale * matrix)


@pytest.mark.parametrize("kind", [CoordinateSigns, HadamardSigns])
def test_the_quick_mean_is_the_mean(kind: Any) -> None:
    randomizer = kind(dimension=13, local_epsilon=1.0)
    reports = randomizer.reports(np.zeros((500, 13)), rng=2)
    assert randomizer.mean(reports) == pytest.approx(randomizer.estimates(reports).mean(axis=0))


# --- randomized response


@pytest.mark.parametrize("local_epsilon", [1e-6, 0.5, 4.0, 30.0])
@pytest.mark.parametrize("categories", [2, 3, 1000, 10**9])
def test_answers_keep_the_budget_exactly(local_epsilon: float, categories: int) -> None:
    answers = RandomizedAnswers(local_epsilon=local_epsilon, categories=categories)
    truth, others = answers.truth, categories - 1
    odds = exactly(Fraction(truth * others, WORDS - truth))
    assert odds <= arb(local_epsilon).exp()
    # one more would be too many: nothing is given away
    assert exactly(Fraction((truth + 2) * others, WORDS - truth - 2)) > arb(local_epsilon).exp()
    assert truth * others > WORDS - truth


@pytest.mark.parametrize(("local_epsilon", "categories"), [(0.3, 2), (2.0, 5), (30.0, 3)])
def test_answers_by_enumeration(local_epsilon: float, categories: int) -> None:
    answers = RandomizedAnswers(local_epsilon=local_epsilon, categories=categories)
    truth = Fraction(answers.truth, WORDS)
    other = (1 - truth) / (categories - 1)
    table = answers.estimates(np.arange(categories))
    for record in range(categories):
        law = [float(truth if y == record else other) for y in range(categories)]
        one_hot = np.eye(categories)[record]
        assert law @ table == pytest.approx(one_hot, abs=1e-12)
        variance = float(law @ ((table - one_hot) ** 2).sum(axis=1))
        assert answers.largest_variance == pytest.approx(variance, rel=1e-9)
        assert answers.variance([record, record]) == pytest.approx(np.full(2, variance), rel=1e-9)


@pytest.mark.parametrize("word", [0, 1, WORDS - 1])
def test_answers_follow_their_coin(word: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def scripted(_: object) -> SystemStream:
        return SystemStream(lambda count: np.full(count, word, dtype=np.uint64))

    monkeypatch.setitem(RandomizedAnswers.reports.__globals__, "system_stream_for", scripted)
    answers = RandomizedAnswers(local_epsilon=1.0)
    monkeypatch.setitem(answers.__dict__, "truth", 1)  # only the word 0 is below
    assert answers.reports([0, 1]).tolist() == ([0, 1] if word == 0 else [1, 0])


def test_frequencies_are_the_mean_of_the_estimates() -> None:
    answers = RandomizedAnswers(local_epsilon=1.0, categories=4)
    reports = answers.reports(np.arange(100) % 4, rng=1)
    assert answers.mean(reports) == pytest.approx(answers.estimates(reports).mean(axis=0))


# --- Laplace noise on a lattice


def step_masses() -> list[int]:
    """The masses of one block as the sampler holds them: gaps between its stored sums."""
    sums = [0, *[int(word) for word in steps_of().cumulative], WORDS]
    return [after - before for before, after in pairwise(sums)]


def step_law(k: int, masses: list[int]) -> Fraction:
    """Pr[K = k]: the magnitude's mass, where -0 is drawn again."""
    block, place = divmod(abs(k), FINENESS)
    return Fraction(masses[place], WORDS * 2 ** (block + 2)) / (1 - Fraction(masses[0], 4 * WORDS))


def test_steps_are_a_law_with_the_stated_moments() -> None:
    masses = step_masses()
    far = 80 * FINENESS
    sizes = np.arange(1, far)
    law = np.array([masses[k % FINENESS] / WORDS * 2.0 ** -(k // FINENESS + 2) for k in sizes])
    at_zero = masses[0] / WORDS / 4.0
    total = at_zero * 1.0 + 2.0 * law.sum()
    assert total == pytest.approx(1.0 - at_zero, rel=1e-12)
    assert 2.0 * float(law @ sizes.astype(float) ** 2) / total == pytest.approx(
        steps_of().square, rel=1e-12
    )


@pytest.mark.parametrize(("local_epsilon", "radius"), [(0.5, 1.0), (2.0, 0.01), (30.0, 3.0)])
def test_lattice_by_enumeration(local_epsilon: float, radius: float) -> None:
    noise = LatticeLaplace(dimension=1, local_epsilon=local_epsilon, radius=radius)
    masses, step = step_masses(), Fraction(noise.step)
    extent = int(radius / noise.step)
    records = [Fraction(radius), -Fraction(radius), Fraction(0), Fraction(radius) / 3]
    reports = [0, 1, -1, extent, -extent, extent + 1, -extent - 2, extent + FINENESS, 10 * extent]

    def chance(report: int, record: Fraction) -> Fraction:
        y = record / step
        below = math.floor(y)
        share = y - below
        nearer, further = (step_law(report - n, masses) for n in (below, below + 1))
        return (1 - share) * nearer + share * further

    worst = Fraction(0)
    for report in reports:
        chances = [chance(report, record) for record in records]
        worst = max(worst, max(chances) / min(chances))
    assert exactly(worst) <= arb(local_epsilon).exp()
    assert math.log(worst) >= local_epsilon * 0.999


def test_the_blanket_of_the_lattice() -> None:
    # the chance of every report is at least e^(-epsilon/2) of that for the record 0
    noise = LatticeLaplace(dimension=1, local_epsilon=2.0)
    masses, y = step_masses(), 1 / Fraction(noise.step)
    below, share = math.floor(y), y - math.floor(y)
    for report in (0, -1, -below, -5 * below, below, below + 1):
        chance = (1 - share) * step_law(report - below, masses)
        chance += share * step_law(report - below - 1, masses)
        assert chance >= Fraction(noise.blanket) * step_law(report, masses)
    far = (1 - share) * step_law(below + 9, masses) + share * step_law(below + 10, masses)
    assert far <= Fraction(noise.blanket) * step_law(9, masses) * Fraction(1001, 1000)


def test_the_step_pays_for_neighbors_of_the_stored_masses() -> None:
    masses = step_masses()
    halved = [*masses, Fraction(masses[0], 2)]
    ratios = [Fraction(a) / Fraction(b) for a, b in pairwise(halved)]
    growth = max(max(ratio, 1 / ratio) for ratio in ratios) - 1
    for dimension in (1, 784, 10**6):
        noise = LatticeLaplace(dimension=dimension, local_epsilon=1e-3, radius=0.7)
        # norms, quotients and coins of two records, in steps
        apart = 2 * (Fraction(0.7) * (1 + Fraction(1, 10**13)) / Fraction(noise.step))
        apart += 2 * Fraction(dimension, WORDS)
        assert growth * apart <= Fraction(1e-3)
        assert growth * apart >= Fraction(1e-3) * (1 - Fraction(1, 10**10))


def test_variance_of_the_lattice() -> None:
    noise = LatticeLaplace(dimension=2, local_epsilon=1.0)
    rows = np.array([[0.0, 0.0], [0.5 * noise.step, -0.25 * noise.step]])
    first, second = noise.variance(rows)
    assert second - first == pytest.approx(noise.step**2 * (0.25 + 0.1875), rel=1e-6)
    assert first == pytest.approx(2 * 8.0, rel=1e-3)  # d 2 b^2 with b = 2 C / epsilon
    assert first <= second <= noise.largest_variance


# --- randomness


EVERY: list[tuple[Randomizer, Any]] = [
    (PrivUnit(dimension=3, local_epsilon=1.0), [[0.6, 0.0, 0.8]] * 3),
    (PrivUnitBall(dimension=3, local_epsilon=1.0), [[0.0, 0.0, 0.0]] * 3),
    (CoordinateSigns(dimension=3, local_epsilon=1.0), [[1.0, -1.0, 0.5]] * 3),
    (HadamardSigns(dimension=3, local_epsilon=1.0), [[0.5, -0.5, 0.0]] * 3),
    (LatticeLaplace(dimension=3, local_epsilon=1.0), [[0.5, -0.5, 0.0]] * 3),
    (RandomizedAnswers(local_epsilon=1.0, categories=3), [0, 1, 2]),
]
NAMES = [type(randomizer).__name__ for randomizer, _ in EVERY]


@pytest.mark.parametrize(("randomizer", "records"), EVERY, ids=NAMES)
def test_reports_come_from_the_operating_system(
    randomizer: Randomizer, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    system = system_stream._system_bytes

    def watched(size: int) -> bytes:
        asked.append(size)
        return system(size)

    def refused(*_: object) -> None:
        raise AssertionError("numpy's generators are for tests")

    monkeypatch.setattr(system_stream, "_system_bytes", watched)
    monkeypatch.setattr(np.random, "default_rng", refused)
    assert len(randomizer.reports(records)) == 3
    assert sum(asked) >= 8 * 3


def test_bits_without_openssl_come_from_keys_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python may be built without OpenSSL: SHAKE-128 under a fresh key then makes the bytes."""
    monkeypatch.setitem(sys.modules, "ssl", None)
    expanded = system_stream._expander.__wrapped__()
    first, second = expanded(1000), expanded(1000)
    assert len(first) == len(second) == 1000
    assert first != second
    key = bytes(range(32))
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    assert expanded(100) == hashlib.shake_128(key).digest(100)


def test_few_bytes_are_the_systems_own_and_many_are_openssls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    key = bytes(range(32))
    monkeypatch.setattr(os, "urandom", lambda size: key[:size])
    assert system_stream._system_bytes(32) == key
    assert system_stream._expander() is ssl.RAND_bytes
    assert system_stream._system_bytes(4000) != system_stream._system_bytes(4000)


@pytest.mark.parametrize(("randomizer", "records"), EVERY, ids=NAMES)
def test_a_seed_repeats_and_never_asks_the_system(
    randomizer: Randomizer, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(system_stream, "_system_bytes")
    first = randomizer.reports(records, rng=np.random.default_rng(4))
    assert np.array_equal(first, randomizer.reports(records, rng=4))
    assert not np.array_equal(
        randomizer.reports(records * 20, rng=5), randomizer.reports(records * 20, rng=6)
    )


def test_words_that_do_not_fit_are_drawn_again() -> None:
    script = iter([[WORDS - 1, 7, WORDS - 2], [WORDS - 1, 5], [4]])

    def draw(count: int) -> Any:
        words = next(script)
        assert len(words) == count
        return np.array(words, dtype=np.uint64)

    # 2^64 = 2 mod 7: the two largest words are too many
    assert SystemStream(draw).below(7, 3).tolist() == [4, 0, 5]


# --- accounting


@pytest.mark.parametrize(("randomizer", "records"), EVERY, ids=NAMES)
def test_the_shuffle_accounting_takes_each(randomizer: Randomizer, records: Any) -> None:
    run = randomizer.shuffled(users=1000, rounds=3, population=10_000)
    assert (run.local_epsilon, run.users, run.rounds, run.population) == (1.0, 1000, 3, 10_000)
    assert dp.account(randomizer.mechanism).epsilon(delta=1e-12).upper == pytest.approx(1.0)
    assert dp.account(randomizer.shuffled(users=1000)).epsilon(delta=1e-6).upper < 0.15


def test_more_is_known_about_answers_than_their_budget() -> None:
    run = RandomizedAnswers(local_epsilon=1.0, categories=3).shuffled(users=10)
    assert run.randomizer == dp.RandomizedResponse(local_epsilon=1.0, categories=3)


# --- clipping


@pytest.mark.parametrize("norm", [1, 1.5, 2, 3, math.inf])
def test_clipping_bounds_the_norm_and_keeps_the_direction(norm: float) -> None:
    generator = np.random.default_rng(8)
    rows = generator.normal(size=(50, 7)) * np.geomspace(1e-12, 1e12, 50)[:, None]
    kept = clipped(rows, radius=0.25, norm=norm)
    sizes = np.linalg.norm(rows, ord=norm, axis=1)
    assert np.all(np.linalg.norm(kept, ord=norm, axis=1) <= 0.25 * (1.0 + 1e-15))
    small = sizes <= 0.25
    assert np.any(small)
    assert not np.all(small)
    assert np.array_equal(kept[small], rows[small])
    factors = np.minimum(1.0, 0.25 / sizes)
    assert kept == pytest.approx(rows * factors[:, None], rel=1e-12)


@pytest.mark.parametrize("norm", [1, 2, 3, math.inf])
def test_clipping_where_squares_overflow(norm: float) -> None:
    rows = np.array([[1e200, -1e200], [1.5e308, 1.5e308], [1e-200, 0.0]])
    kept = clipped(rows, radius=1.0, norm=norm)
    corner = 2.0 ** (-1.0 / norm)
    assert kept[:2] == pytest.approx(np.array([[corner, -corner], [corner, corner]]), rel=1e-12)
    assert kept[2].tolist() == [1e-200, 0.0]


def test_clipping_leaves_what_was_passed() -> None:
    rows = np.array([[3.0, 4.0]])
    clipped(rows, radius=1.0)
    assert rows.tolist() == [[3.0, 4.0]]


# --- bad input


VECTORS = [case for case in EVERY if not isinstance(case[0], RandomizedAnswers)]
VECTOR_NAMES = NAMES[:-1]
BAD_ROWS: list[tuple[Any, str]] = [
    ([[0.6, math.nan, 0.8]], "finite numbers; got 1 rows that are not. .* takes them for zero"),
    ([[0.0, 0.0, 0.0], [math.inf, 0.0, 0.0]], "finite numbers; got 1 rows that are not"),
    ([0.0, 0.0, 0.0], r"one vector alone is vector\[None, :\]"),
    ([[0.0, 0.0]], r"shape \(clients, 3\); got shape \(1, 2\)"),
    ([[[0.0, 0.0, 0.0]]], r"got shape \(1, 1, 3\)"),
    ([[0.0, 0.0, 0.0], [0.0]], "rows of equal length"),
    ([["a", "b", "c"]], "real numbers"),
    ([[1j, 0.0, 0.0]], "real numbers"),
    ([[True, False, False]], "real numbers"),
    (None, "real numbers; got None"),
    (3.0, r"got shape \(\)"),
    ([[2.0, 2.0, 2.0]], "norm at most 1; got 1 rows that are longer. Use clipped"),
    ([[1e200, 1e200, 1e200]], "norm at most 1"),
]


@pytest.mark.parametrize(("records", "message"), BAD_ROWS)
@pytest.mark.parametrize("randomizer", [case[0] for case in VECTORS], ids=VECTOR_NAMES)
def test_bad_rows_are_refused_before_anything_is_drawn(
    randomizer: Randomizer, records: Any, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(system_stream, "_system_bytes")
    with pytest.raises(dp.InvalidArgument, match=message):
        randomizer.reports(records)


@pytest.mark.parametrize("records", [[3], [-1], [0.5], ["a"], [[0]], 1, None, [math.nan], [True]])
def test_bad_categories_are_refused(records: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(system_stream, "_system_bytes")
    answers = RandomizedAnswers(local_epsilon=1.0, categories=3)
    for ask in (answers.reports, answers.estimates, answers.mean):
        with pytest.raises(dp.InvalidArgument, match="from 0 to 2"):
            ask(records)


@pytest.mark.parametrize(("randomizer", "records"), EVERY, ids=NAMES)
@pytest.mark.parametrize("rng", [1.5, "seed", -1, True, np.random.RandomState])
def test_bad_generators_are_refused(randomizer: Randomizer, records: Any, rng: Any) -> None:
    with pytest.raises(dp.InvalidArgument, match="rng must be None"):
        randomizer.reports(records, rng=rng)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PrivUnit(dimension=1, local_epsilon=1.0), "at least 2; got 1. .*CoordinateSigns"),
        (lambda: PrivUnit(dimension=0, local_epsilon=1.0), "dimension must be a whole number"),
        (lambda: PrivUnit(dimension=10**9, local_epsilon=1.0), "dimension must be at most"),
        (lambda: PrivUnit(dimension=2.5, local_epsilon=1.0), "dimension must be"),  # type: ignore[arg-type]
        (lambda: PrivUnit(dimension=3, local_epsilon=0.0), "local_epsilon must be"),
        (lambda: PrivUnit(dimension=3, local_epsilon=31.0), "between 1e-06 and 30"),
        (lambda: PrivUnit(dimension=3, local_epsilon=math.nan), "local_epsilon must be"),
        (lambda: PrivUnit(dimension=3, local_epsilon=1.0, height=1.0), "height must be"),
        (lambda: PrivUnit(dimension=3, local_epsilon=1.0, height=-0.5), "height must be"),
        (lambda: PrivUnit(dimension=10**6, local_epsilon=1.0, height=0.5), "height must be"),
        (lambda: PrivUnit(dimension=784, local_epsilon=1.0, height=0.32), "height must be"),
        (lambda: PrivUnitBall(dimension=3, local_epsilon=1.0, radius=0.0), "radius must be"),
        (lambda: LatticeLaplace(dimension=3, local_epsilon=1.0, radius=-1.0), "radius must be"),
        (lambda: LatticeLaplace(dimension=0, local_epsilon=1.0), "dimension must be"),
        (lambda: CoordinateSigns(dimension=0, local_epsilon=1.0), "dimension must be"),
        (lambda: HadamardSigns(dimension=3, local_epsilon=1.0, radius=math.inf), "radius"),
        (lambda: RandomizedAnswers(local_epsilon=1.0, categories=1), "categories must be"),
        (lambda: RandomizedAnswers(local_epsilon=1.0, categories=10**10), "categories must be"),
        (lambda: clipped([[1.0]], radius=0.0), "radius must be"),
        (lambda: clipped([[1.0]], radius=1.0, norm=0.5), "norm must be"),
        (lambda: clipped([[1.0]], radius=1.0, norm=math.nan), "norm must be"),
        (lambda: clipped([[math.nan]], radius=1.0, strict=True), "got 1 that are not"),
        (lambda: clipped([[1.0]], radius=1.0, strict=1), "strict must be True or False; got 1"),  # type: ignore[arg-type]
        (lambda: clipped(np.zeros((2, 0)), radius=1.0), "shape"),
    ],
)
def test_bad_parameters_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(dp.InvalidArgument, match=message):
        make()


def test_vectors_that_are_not_of_length_one_are_refused() -> None:
    with pytest.raises(dp.InvalidArgument, match=r"must have norm 1; got 1 rows.*Ball"):
        PrivUnit(dimension=2, local_epsilon=1.0).reports([[1.0, 0.0], [0.5, 0.0]])


@pytest.mark.parametrize("kind", [CoordinateSigns, HadamardSigns])
@pytest.mark.parametrize("reports", [[-1], [8], [0.5], [[1]], "a"])
def test_reports_that_nobody_sent_are_refused(kind: Any, reports: Any) -> None:
    randomizer = kind(dimension=4, local_epsilon=1.0)
    for ask in (randomizer.estimates, randomizer.mean):
        with pytest.raises(dp.InvalidArgument, match="reports must be"):
            ask(reports)


@pytest.mark.parametrize(("randomizer", "records"), EVERY, ids=NAMES)
def test_no_clients_no_reports_and_no_mean(randomizer: Randomizer, records: Any) -> None:
    nobody = np.asarray(records)[:0]
    reports = randomizer.reports(nobody)
    assert len(reports) == 0
    with pytest.raises(dp.InvalidArgument, match="at least one; got none"):
        randomizer.mean(reports)
