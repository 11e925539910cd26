"""Normal numbers by rectangles: the exact law of what is drawn, against ball arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy import stats

from sharpdp.randomness import normal_rectangles
from sharpdp.randomness.normal_rectangles import DENSITY_ERROR, Workspace, normals
from tests.learn.test_last_bits import slots_of_cells

FIRST_LEFT = sum(slots_of_cells())
"""Slots of cells, counted in ball arithmetic."""


def ball(number: Fraction | float) -> arb:
    exact = Fraction(number)
    return arb(exact.numerator) / arb(exact.denominator)


def density(x: Fraction) -> arb:
    return (-ball(x) * ball(x) / 2).exp() / (2 * arb.pi()).sqrt()


def numbers_of(words: Any, more: Any = None) -> Any:
    space = Workspace(len(words))
    space.words[:] = words
    return normals(space, len(words), more).copy()


def test_every_slot_leads_to_its_cell() -> None:
    """All slots of cells, at the first, the last and some place: sorted, and even in the slots."""
    slots = np.arange(FIRST_LEFT, dtype=np.uint64) << np.uint64(48)
    cells = np.repeat(np.arange(512) - 256, slots_of_cells())
    for place in (0, 1, 2**48 - 1, 123_456_789_012_345):
        found = numbers_of(slots | np.uint64(place))
        units = (cells << 48) + place  # of 2^-54; below zero a word stands for its upper end
        assert np.array_equal(found, (units + (cells < 0)) * 2.0**-54)
        mirrored = numbers_of((slots | np.uint64(2**48 - 1 - place))[::-1])
        assert np.array_equal(found, -mirrored)


def left(words: list[int], coins: list[int]) -> Any:
    """What is drawn from what is left with these words and coins; all that is asked beyond is taken."""
    count = (len(words) - 32) // 2
    script = [np.array([*words, *coins], dtype=np.uint64)]

    def more(asked: int) -> Any:
        if script:
            return script.pop()
        return np.full(
            asked, 2**47 + 2**40, dtype=np.uint64
        )  # the first cell, and a coin that takes it

    return normal_rectangles._from_what_is_left(count, more)


def test_the_density_is_normal() -> None:
    """c + share of what is left * density there: phi within e^(+-2^-38), in every cell and beyond.

    The probability that a number is taken is found by bisection through the running code.
    """
    ctx.prec = 200
    tables = normal_rectangles._tables()
    assert int(tables.first_left) == FIRST_LEFT << 48
    starts = tables.left_starts.view(np.uint64) + (
        np.arange(2**16, dtype=np.uint64) << np.uint64(48)
    )
    cells = (starts >> np.uint64(48)).astype(int)  # of each slot of what is left
    slots = np.bincount(cells, minlength=257)
    assert slots.min() >= 1
    assert slots.size == 257
    first = np.searchsorted(cells, np.arange(257))
    places = [0, 2**47 + 12345, 2**48 - 2**10]
    tried = [(cell, place) for cell in range(257) for place in places]
    words = [(int(first[cell]) << 48) | place for cell, place in tried]
    # 53 bits of each coin decide; what is taken comes out in order
    low, high = [0] * len(words), [2**53] * len(words)
    for _ in range(53):
        middle = [(a + b) // 2 for a, b in zip(low, high, strict=True)]
        for index in range(0, len(words), 64):
            some = words[index : index + 64]
            padding = [0] * (len(some) + 32)
            coins = [m << 11 for m in middle[index : index + 64]]
            found = left([*some, *padding], [*coins, *([2**64 - 1] * len(padding))])
            taken = iter(found.tolist())
            value = next(taken)
            for place in range(len(some)):
                cell, bits = tried[index + place]
                size = cell / 64 + bits * 2.0**-54
                is_taken = value == size or (cell == 256 and value > 4.0)
                value = next(taken, math.nan) if is_taken else value
                if is_taken:
                    low[index + place] = middle[index + place] + 1
                else:
                    high[index + place] = middle[index + place]
    chances = {at: Fraction(a, 2**53) for at, a in zip(tried, low, strict=True)}
    # the mass that is taken: the code's chances are (phi - c) times one factor, which is found here
    covered = [Fraction(n, 2**10) for n in slots_of_cells()[256:]]
    share = Fraction(2**16 - FIRST_LEFT, 2**16)
    beyond = (arb(4) / arb(2).sqrt()).erfc() / 2
    assert (
        abs(
            beyond
            + sum(
                (((arb(k + 1) / 64) / arb(2).sqrt()).erf() - ((arb(k) / 64) / arb(2).sqrt()).erf())
                / 2
                - ball(covered[k] / 64)
                for k in range(256)
            )
            - ball(share / 2)
        )
        < arb(2) ** -150
    )
    factors = []
    for (cell, bits), chance in chances.items():
        weight = ball(chance * int(slots[cell]) / 2**16)
        x = Fraction(cell, 64) + Fraction(bits, 2**54)
        area = beyond if cell == 256 else (density(x) - ball(covered[cell])) / 64
        factors.append((weight, area, beyond if cell == 256 else density(x) / 64))
    # one factor for all: the smallest and the largest differ by less than the density allows
    factor = sum((weight for weight, _, _ in factors), arb(0)) / sum(
        (area for _, area, _ in factors), arb(0)
    )
    for weight, area, whole in factors:
        assert abs(weight / factor - area) < whole * arb(DENSITY_ERROR) / 4


def test_the_sign_is_the_last_bit_of_the_coin() -> None:
    found = left([5 << 20] * 40, [0, 1, 2, 3] * 10)
    assert np.sign(found).tolist() == [1.0, -1.0, 1.0, -1.0]


@pytest.mark.parametrize("seed", [1, 2])
def test_many_numbers_are_normal(seed: int) -> None:
    generator = np.random.default_rng(seed)

    def draw(count: int) -> Any:
        return generator.integers(2**64 - 1, size=count, dtype=np.uint64, endpoint=True)

    count = 2_000_000
    found = numbers_of(draw(count), draw)
    assert stats.kstest(found, stats.norm.cdf).pvalue > 1e-9
    edges = np.concatenate([[-np.inf], np.arange(-4.5, 4.501, 1 / 128), [np.inf]])
    seen = np.histogram(found, edges)[0]
    expected = count * np.diff(stats.norm.cdf(edges))
    assert stats.chisquare(seen, expected).pvalue > 1e-9
    left_out = found[np.abs(found) > 4.0]
    assert stats.kstest(np.abs(left_out), stats.truncnorm(4.0, np.inf).cdf).pvalue > 1e-9
