"""The exact law of what is released, by enumeration of the random words: ratios and supports.

Coins are monotone in their word: bisection through the running code finds the word at which the coin
turns, hence its probability. Where a word is a number, all words of a few bits stand for all words. All
probabilities are fractions; e^epsilon is compared with them in ball arithmetic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx, fmpq

from sharpdp.learn import (
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    RandomizedAnswers,
)
from sharpdp.learn.randomizers.coin_thresholds import thresholds
from sharpdp.learn.randomizers.lattice_laplace import FINENESS, steps_of
from sharpdp.learn.randomizers.lattice_rounding import directions
from sharpdp.learn.randomizers.privunit import Space
from sharpdp.randomness.normal_rectangles import _tables
from sharpdp.randomness.system_stream import WORDS, SystemStream
from tests.learn.last_bits import LAST, all_words, given


def at_most(ratio: Fraction, epsilon: float) -> bool:
    """Whether a ratio of probabilities is certainly not above e^epsilon."""
    ctx.prec = 300
    return bool(arb(fmpq(ratio.numerator, ratio.denominator)) <= arb(epsilon).exp())


def turning(is_below: Callable[[Any], Any], count: int = 1) -> list[int]:
    """How many words, from 0 on, show each of so many coins."""
    low, high = [0] * count, [WORDS] * count  # below low: yes; from high on: no
    while any(a < b for a, b in zip(low, high, strict=True)):
        middle = [min((a + b) // 2, LAST) for a, b in zip(low, high, strict=True)]
        shown = is_below(np.array(middle, dtype=np.uint64))
        for place, word in enumerate(middle):
            if low[place] < high[place]:
                if shown[place]:
                    low[place] = word + 1
                else:
                    high[place] = word
    return low


def script(*arrays: Any) -> SystemStream:
    """A source that gives the words of these arrays, in order."""
    rest = [np.concatenate([np.array(array, dtype=np.uint64).reshape(-1) for array in arrays])]

    def draw(count: int) -> Any:
        taken, rest[0] = rest[0][:count], rest[0][count:]
        assert taken.size == count
        return taken

    return SystemStream(draw)


@pytest.mark.parametrize("categories", [2, 3, 7])
@pytest.mark.parametrize("budget", [0.01, 1.0, 8.0])
def test_s1_every_law_of_randomized_answers(categories: int, budget: float) -> None:
    answers = RandomizedAnswers(local_epsilon=budget, categories=categories)
    laws = []
    for held in range(categories):

        def is_kept(words: Any, held: int = held) -> Any:
            with given([words, all_words(0, words.size)]):
                return answers.reports(np.full(words.size, held)) == held

        [truth] = turning(is_kept)
        others = []
        for word in range(categories - 1):
            with given([[LAST], [word]]):
                others.append(int(answers.reports([held])[0]))
        assert sorted([held, *others]) == list(range(categories))
        rest = Fraction(WORDS - truth, WORDS * (categories - 1))
        laws.append([Fraction(truth, WORDS) if y == held else rest for y in range(categories)])
    # words are taken modulo k - 1 up to the last whole period, and drawn again beyond it
    whole = WORDS - WORDS % (categories - 1)
    for word in (whole - 1, whole):
        if word < WORDS:
            again = [[3]] if word == whole else []
            taken = script([word], *again).below(categories - 1, 1).tolist()
            assert taken == [(3 if again else word) % (categories - 1)]
    assert all(sum(law) == 1 and min(law) > 0 for law in laws)
    worst = max(a[y] / b[y] for a in laws for b in laws for y in range(categories))
    assert at_most(worst, budget)
    assert not at_most(worst * (1 + Fraction(1, 10**9)), budget)  # and it is spent


@pytest.mark.parametrize("kind", [CoordinateSigns, HadamardSigns])
@pytest.mark.parametrize("budget", [0.01, 1.0, 8.0])
def test_s1_every_law_of_signs(kind: Any, budget: float) -> None:
    signs = kind(dimension=3, local_epsilon=budget, radius=0.3)
    records = 0.3 * np.array(
        [[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 0, 1], [0.2, -0.3, 0.5], [1 + 9e-10, 0, 0]]
    )
    shape = (len(records), signs.indices)
    rows = np.repeat(records, signs.indices, axis=0)
    index = np.tile(np.arange(signs.indices), len(records))

    def is_plus(words: Any) -> Any:
        with given([index, words]):
            found = signs.reports(rows)
        assert np.array_equal(found // 2, index)  # the index is the word, whatever the record
        return found % 2 == 1

    plus = np.array(turning(is_plus, len(rows)), dtype=object).reshape(shape)
    for counts in (plus, WORDS - plus):
        assert counts.min() > 0
        for column in counts.T:
            assert at_most(Fraction(int(column.max()), int(column.min())), budget)


def masses_of_steps() -> list[int]:
    """Words that lead to each place in a block, by bisection through the sampler."""

    def is_before(words: Any) -> Any:
        tails = all_words(1, words.size)
        return steps_of().drawn(words.size, script(words, tails)) < np.arange(1, FINENESS + 1)

    sums = turning(is_before, FINENESS)
    assert sums[-1] == WORDS
    return np.diff(np.array([0, *sums], dtype=object)).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("budget", [0.5, 4.0])
def test_s1_every_law_of_lattice_laplace(budget: float) -> None:
    """All whole numbers, in one and two dimensions: beyond the window both probabilities halve."""
    noise = LatticeLaplace(dimension=2, local_epsilon=budget, radius=0.3)
    held = 0.3 * np.array([[0, 0], [1, 0], [0, -1], [-1, 0], [0.5, -0.5], [0.3, 0.1], [1e-9, 0]])
    flat = held.reshape(-1)
    masses = masses_of_steps()
    for zeros in (0, 1, 5, 62):  # the lowest of 63 fair coins, and a sign
        for sign in (0, 1):
            word = (sign << 63) | (1 << zeros)
            [found] = steps_of().drawn(1, script([2**63], [word])).tolist()
            assert abs(found) // FINENESS == zeros
            assert (found < 0) == bool(sign)
    assert steps_of().drawn(1, script([0], [2**63 + 1], [0], [1])).tolist() == [0]  # -0 is redrawn

    def whole(words: Any) -> Any:
        count = words.size // 2
        with given([words, all_words(0, words.size), all_words(1, words.size)]):
            return np.rint(noise.reports(held[:count]) / noise.step).reshape(-1)

    none = whole(all_words(LAST, flat.size))
    ups = turning(lambda words: whole(words) != none, flat.size)
    reach = int(np.abs(none).max()) + 2 + FINENESS

    def weight(k: int) -> int:
        block, place = divmod(abs(k), FINENESS)
        return masses[place] << (64 - block)

    weights = {k: weight(k) for k in range(-2 * reach, 2 * reach + 1)}
    laws = []
    for x, floor, up in zip(flat.tolist(), none.astype(int).tolist(), ups, strict=True):
        aside = -1 if math.copysign(1.0, x) < 0 else 1
        laws.append(
            [
                (WORDS - up) * weights[n - floor] + up * weights[n - floor - aside]
                for n in range(-reach, reach + 1)
            ]
        )
    assert min(min(law) for law in laws) > 0
    for a in range(len(held)):
        for b in range(len(held)):
            worst = Fraction(1)  # coordinates are independent: their largest ratios multiply
            for i in range(2):
                pairs = zip(laws[2 * a + i], laws[2 * b + i], strict=True)
                p, q = max(pairs, key=lambda pair: pair[0] / pair[1])
                worst *= Fraction(p, q)
            assert at_most(worst, budget * (1.0 - 2.0**-45))  # max() was by doubles


def coarse(bits: int) -> Any:
    """The middle of each of so few words."""
    return (2 * np.arange(2**bits, dtype=np.uint64) + 1) << np.uint64(63 - bits)


def normal_words(bits: int) -> Any:
    """So few words of normal numbers, evenly over the slots of cells and symmetric around zero."""
    first_left = int(_tables().first_left)
    plus = [
        first_left // 2 + (2 * i + 1) * first_left // 2 ** (bits + 1) for i in range(2**bits // 2)
    ]
    return np.array([*(first_left - 1 - word for word in reversed(plus)), *plus], dtype=np.uint64)


def products(words: Any, repeat: int) -> Any:
    return np.array(list(itertools.product(words.tolist(), repeat=repeat)), dtype=np.uint64)


def cap_points(unit: PrivUnit, axes: Any, bits: int) -> tuple[Any, list[int]]:
    """All points of the caps around these axes that words of so few bits make, and their weights."""
    c, d = unit.height, unit.dimension
    if c * c * d < 0.25:
        words = products(normal_words(bits), d)
        heights = directions(len(words), d, script(words)) @ axes.T
        points = []
        for axis, column in zip(axes, heights.T, strict=True):
            kept = words[np.abs(column) >= c]  # others are drawn again
            source = script(kept)
            points.append(unit._in_low_cap(np.tile(axis, (len(kept), 1)), source))
        return np.concatenate(points), [1] * sum(len(part) for part in points)
    heights, sides = (
        coarse(bits) >> np.uint64(1),
        products(normal_words(bits if d > 2 else 1), d - 1),
    )
    first = np.tile(np.repeat(heights, len(sides)), len(axes))
    second = np.tile(sides, (len(axes) * len(heights), 1))
    rows = np.repeat(axes, len(heights) * len(sides), axis=0)
    accepted = all_words(0, len(first))
    along, across = unit._heights(len(first), script(first, accepted))
    points = unit._in_high_cap(
        rows, np.stack([along, across]), script(second), Space(len(first), d)
    )
    return points, [int(t) for t in thresholds(c / along)]  # the coin that takes a height


def exact_law(points: Any, weights: Iterable[int], step: Fraction, reach: int) -> Any:
    """The probability of every pair of whole numbers up to `reach`, over a common whole number."""
    grid = range(-reach, reach + 1)
    table = []
    for column in points.T:
        rows = []
        for a in (Fraction(x) / step for x in column.tolist()):
            floor = math.floor(a)
            share = int((a - floor) * 2**80)
            rows.append(
                [
                    ((2**80 - share) << (40 - abs(k - floor)))
                    + (share << (40 - abs(k - floor - 1)))
                    for k in grid
                ]
            )
        table.append(np.array(rows, dtype=object))
    weighted = table[0] * np.array(list(weights), dtype=object)[:, None]
    return weighted.T.dot(table[1])


@pytest.mark.parametrize("budget", [1.0, 3.0])  # a low cap, and a high one
def test_s1_every_law_of_privunit_with_few_random_bits(budget: float) -> None:
    """Two dimensions, words of few bits, and a lattice so coarse that it makes up for such short words.

    Whole numbers beyond 5 are half as likely at each step from all points, so ratios repeat there.
    """
    bits, step, reach = 4, Fraction(1, 4), 6
    unit = PrivUnit(dimension=2, local_epsilon=budget)
    assert (unit.height**2 * 2 < 0.25) == (budget == 1.0)
    words = products(normal_words(bits), 2)
    sphere = directions(len(words), 2, script(words))
    everywhere = exact_law(sphere, [1] * len(sphere), step, reach)
    axes = np.array([[1.0, 0.0], [0.0, -1.0], [-1.0, 0.0], [0.6, 0.8], [-0.28, 0.96]])
    random = directions(
        4, 2, script([*normal_words(1), *normal_words(2), *normal_words(1)])
    )  # of a zero gradient
    laws, coin = [], unit.cap.coin
    for centers in (*axes[:, None, :], random):
        points, weights = cap_points(unit, centers, bits)
        cap = exact_law(points, weights, step, reach)
        # both laws over the common whole number
        laws.append((WORDS - coin) * sum(weights) * everywhere + coin * len(sphere) * cap)
        laws[-1] = laws[-1] * Fraction(1, sum(weights))
    assert all(law.min() > 0 for law in laws)
    worst = max(max((a / b).flat) for a, b in itertools.permutations(laws, 2))
    assert at_most(worst, budget)
    assert not at_most(worst, 0.9 * budget)


@pytest.mark.parametrize("budget", [1.0, 3.0])
def test_s1_every_law_of_privunit_in_three_dimensions(budget: float) -> None:
    """The same in doubles: sums of at most 4096 positive terms, off by less than a relative 1e-11."""
    bits, step = 4, 0.25
    unit = PrivUnit(dimension=3, local_epsilon=budget)
    assert (unit.height**2 * 3 < 0.25) == (budget == 1.0)
    grid = np.arange(-6.0, 7.0)

    def law(points: Any, weights: Any) -> Any:
        numbers = points.T[:, :, None] / step
        floors = np.floor(numbers)
        stay, go = (2.0 ** -np.abs(grid - floors - up) / 3.0 for up in (0.0, 1.0))
        chances = (1.0 - (numbers - floors)) * stay + (numbers - floors) * go
        pairs = (weights / weights.sum())[:, None, None] * chances[0][:, :, None]
        pairs = (pairs * chances[1][:, None, :]).reshape(len(points), -1)
        return pairs.T @ chances[2]

    words = products(normal_words(bits), 3)
    everywhere = law(directions(len(words), 3, script(words)), np.ones(len(words)))
    beta = unit.cap.coin / WORDS
    laws = []
    for center in ([1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.48, 0.6, 0.64], [-0.8, 0.6, 0.0]):
        points, weights = cap_points(unit, np.array([center]), bits)
        laws.append((1.0 - beta) * everywhere + beta * law(points, np.array(weights, dtype=float)))
    assert min(law.min() for law in laws) > 0.0
    worst = max(float((a / b).max()) for a, b in itertools.permutations(laws, 2))
    assert 0.85 * budget < math.log(worst) < budget - 1e-9


@pytest.mark.parametrize("scale", [1.0, 1.7])
def test_s2_every_law_of_noise_on_a_small_grid(scale: float) -> None:
    """The exact law of all values under two sums is no easier to tell apart than two normal laws.

    The number of 192-bit fractions below each value is bracketed by the running code; Gaussian delta by
    the closed form.
    """
    from tests.learn.test_released_noise import BITS, ball, bits_at, edge, value_of

    laws = []
    for shift in (0.0, 0.43):
        ends = [0]
        for k in range(-12, 12):
            at = bits_at(edge(k, shift, scale))
            assert value_of(at - 2, shift, scale) == k
            assert value_of(at + 2, shift, scale) == k + 1
            ends.append(at)
        laws.append([b - a for a, b in itertools.pairwise([*ends, 2**BITS])])
    assert min(min(law) for law in laws) > 2**40
    gap = Fraction(0.43) / Fraction(scale)
    for epsilon in (0.0, 0.2, 1.0):
        ctx.prec = 400
        e, mu = ball(epsilon), ball(gap)
        true = distribution_at(mu / 2 - e / mu) - e.exp() * distribution_at(-mu / 2 - e / mu)
        for first, second in (laws, laws[::-1]):
            delta = sum(
                max(ball(Fraction(p, 2**BITS)) - e.exp() * ball(Fraction(q, 2**BITS)), arb(0))
                for p, q in zip(first, second, strict=True)
            )
            assert delta <= true + arb(2) ** -180


def distribution_at(x: arb) -> arb:
    return (-x / arb(2).sqrt()).erfc() / 2
