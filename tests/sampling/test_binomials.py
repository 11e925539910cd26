"""Binomial counts: the arithmetic against mpmath and fractions, the draws against their law."""

from __future__ import annotations

import math
from bisect import bisect_right
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from sharpdp.randomness import binomial
from sharpdp.randomness.binomial import Binomial, binomial_draws, binomial_once
from sharpdp.randomness.keyed_stream import KeyedStream
from tests.sampling.chances import KEY, assert_distribution, assert_law

LAWS = [(1, Fraction(1, 3)), (5, Fraction(1, 2)), (9, Fraction(1, 7)), (12, Fraction(9, 10))]


class Cells:
    """A source that is not random: it gives one number of 128 bits after the other."""

    def __init__(self, *cells: int) -> None:
        self.cells = list(cells)

    def integer(self, bits: int) -> int:
        assert bits == 128
        return self.cells.pop(0)


def drawn(way: str, trials: int, chance: Fraction, count: int) -> list[int]:
    """Counts drawn in one of the three ways."""
    source = KeyedStream(KEY).derive(trials, way)
    if way == "made":
        return [binomial_once(source, trials, chance) for _ in range(count)]
    draw = binomial_draws(trials, chance) if way == "table" else Binomial(trials, chance).draw
    return [draw(source) for _ in range(count)]


def exact(trials: int, chance: Fraction) -> list[Fraction]:
    return [
        math.comb(trials, count) * chance**count * (1 - chance) ** (trials - count)
        for count in range(trials + 1)
    ]


@pytest.mark.parametrize("number", [0, 1, 2, 63, 64, 65, 1000, 10**6 + 1, 10**9, 10**18])
def test_log_factorials(number: int) -> None:
    with localcontext(binomial.PRECISION), mpmath.workdps(70):
        ours = mpmath.mpf(str(binomial._log_factorial(number)))
        assert abs(ours - mpmath.loggamma(number + 1)) <= mpmath.mpf("1e-29")


@pytest.mark.parametrize(("trials", "chance"), LAWS)
def test_a_table_cuts_the_cells_where_the_law_says(trials: int, chance: Fraction) -> None:
    """The first and the last cell of every count are those of exact fractions, to ten cells."""
    draw = binomial_draws(trials, chance)
    ends = [int(2**128 * sum(exact(trials, chance)[: count + 1])) for count in range(trials + 1)]
    for cell in (end + side for end in ends[:-1] for side in (-10, 10)):
        assert draw(Cells(cell)) == bisect_right(ends, cell)  # type: ignore[arg-type]
    assert draw(Cells(0)) == 0  # type: ignore[arg-type]
    assert draw(Cells(2**128 - 1)) == trials  # type: ignore[arg-type]


@pytest.mark.parametrize(("trials", "chance"), LAWS)
@pytest.mark.parametrize("way", ["made", "table", "rejection"])
def test_small_counts_follow_their_law(trials: int, chance: Fraction, way: str) -> None:
    law = {count: float(share) for count, share in enumerate(exact(trials, chance))}
    assert_law(drawn(way, trials, chance, 500), law)


@pytest.mark.parametrize(
    ("way", "trials", "chance"),
    [
        ("made", 4000, Fraction(7, 100)),
        ("table", 4000, Fraction(7, 100)),
        ("table", 10**9, Fraction(1, 10**6)),
        ("rejection", 4000, Fraction(7, 100)),
        ("rejection", 10**6, Fraction(999, 1000)),
        ("made", 10**9, Fraction(1, 10**6)),  # too many: drawn by rejection
    ],
)
def test_large_counts_follow_their_law(way: str, trials: int, chance: Fraction) -> None:
    sample = drawn(way, trials, chance, 400)
    assert_distribution(sample, stats.binom(trials, float(chance)).cdf)


def test_a_huge_count_follows_its_law() -> None:
    """Of 10^18 trials; the normal law is off by less than 1e-9 (Berry and Esseen)."""
    trials, law = 10**18, Binomial(10**18, Fraction(1, 2))
    source = KeyedStream(KEY).derive("huge")
    sample = np.array([law.draw(source) - trials // 2 for _ in range(400)])
    assert_distribution(sample, stats.norm(scale=math.sqrt(trials) / 2).cdf)


@pytest.mark.parametrize(
    ("trials", "chance"), [*LAWS, (400, Fraction(1, 50)), (300, Fraction(1, 2))]
)
def test_the_cover_lies_above_the_law(trials: int, chance: Fraction) -> None:
    """Each count, compared with the mode, is at most min(1, exp(1 - p |i|)): rejection is exact."""
    law = exact(trials, chance)
    mode = int((trials + 1) * chance)
    assert law[mode] == max(law)
    top = Decimal(law[mode].numerator) / Decimal(law[mode].denominator)
    for count, share in enumerate(law):
        ratio = share / law[mode]
        cover = min(Decimal(1), (1 - top * abs(count - mode)).exp())
        assert Decimal(ratio.numerator) / Decimal(ratio.denominator) <= cover


@pytest.mark.parametrize("reach", ["0.6", "0.2", "0.03"])
def test_a_count_in_the_tail_is_kept_with_the_probability_that_the_cover_leaves(
    reach: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the flat top the cover has fallen to `reach`: a count is kept with share / reach."""
    trials, chance = 400, Fraction(1, 2)
    law, one, mode = exact(trials, chance), Binomial(trials, chance), 200
    cover, script = Decimal(reach), list[Decimal]()
    monkeypatch.setattr(binomial, "_uniform", lambda source: script.pop(0))

    def drawn_with(last: Decimal) -> int:
        # a place in the right tail, and if it is refused the mode itself
        script[:] = [cover, Decimal("0.999999"), last, Decimal("1e-9"), Decimal("1e-9"), cover]
        return one.draw(Cells(1, 1))  # type: ignore[arg-type]

    monkeypatch.setattr(Cells, "integer", lambda self, bits: self.cells.pop(0))
    top = Decimal(law[mode].numerator) / Decimal(law[mode].denominator)
    count = mode + int((1 + top / 2 - cover.ln()) / top + Decimal("0.5"))
    share = law[count] / law[mode]
    kept = Decimal(share.numerator) / Decimal(share.denominator) / cover
    assert kept < 1
    assert drawn_with(kept * Decimal("0.999")) == count
    assert drawn_with(kept * Decimal("1.001")) == mode


def test_certain_counts_use_no_bits() -> None:
    nothing = Cells()
    for trials, chance, count in ((7, 1, 7), (7, 0, 0), (0, Fraction(1, 2), 0)):
        assert Binomial(trials, Fraction(chance)).draw(nothing) == count  # type: ignore[arg-type]
    assert binomial_draws(10**18, Fraction(1))(nothing) == 10**18  # type: ignore[arg-type]


def test_a_tiny_rate_is_taken_as_it_is() -> None:
    """1e-30 of 10^18 examples: a batch has an example once in 10^12 steps."""
    draw = binomial_draws(10**18, Fraction(1e-30))
    assert draw(Cells(2**127)) == 0  # type: ignore[arg-type]
    assert draw(Cells(2**128 - 1)) > 0  # type: ignore[arg-type]
    assert draw(Cells(2**128 - 2**128 // 10**11)) == 0  # type: ignore[arg-type]
