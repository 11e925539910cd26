"""PrivUnit by the number of a public direction: its exact law, its mean, its variance."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx

from sharpdp.errors import InvalidArgument
from sharpdp.learn import CompressedPrivUnit, PrivUnitBall
from sharpdp.learn.randomizers.compressed_privunit import LISTS, largest_mean, listed
from sharpdp.mechanisms import BlanketRandomizer
from sharpdp.randomness.system_stream import WORDS, SystemStream


@pytest.mark.parametrize("local_epsilon", [1e-6, 0.1, 1.0, math.log(3.0), 4.0, 10.0, 30.0])
@pytest.mark.parametrize("candidates", [2, 16, 4096])
def test_largest_ratio_is_within_the_budget(local_epsilon: float, candidates: int) -> None:
    """1 + beta N / ((1 - beta) T) <= e^epsilon for the stored coin, and not for the next one."""
    short = CompressedPrivUnit(dimension=7, local_epsilon=local_epsilon, candidates=candidates)
    ctx.prec = 400

    def ratio(coin: int) -> arb:
        share = Fraction(coin * candidates, (WORDS - coin) * short.chosen)
        return 1 + arb(share.numerator) / arb(share.denominator)

    budget = arb(local_epsilon).exp()
    assert ratio(short.coin) <= budget
    assert ratio(short.coin + 1) > budget
    assert Fraction(short.blanket) <= 1 - Fraction(short.coin, WORDS)


class Scripted:
    """Words in a given order, so that every draw of the running code can be listed."""

    def __init__(self, words: list[int]) -> None:
        self.words = words

    def __call__(self, count: int) -> np.ndarray:
        taken, self.words = self.words[:count], self.words[count:]
        return np.array(taken, dtype=np.uint64)


def test_law_of_the_running_code_is_within_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """All reports about one list are listed for several records, with their exact probabilities."""
    short = CompressedPrivUnit(dimension=3, local_epsilon=0.5, candidates=8)
    assert short.chosen == 4
    beta = Fraction(short.coin, WORDS)
    base = [[1.0, 0.0, 0.0], [0.0, -0.6, 0.8], [0.0, 0.0, 0.0], [0.3, 0.3, -0.2]]

    def law(record: list[float], number: int) -> dict[int, Fraction]:
        chances: dict[int, Fraction] = {}
        # the sign may have any chance, since the budget holds for each sign
        plus = min(Fraction(0.5 + 0.5 * math.hypot(*record)), 1 - Fraction(1, WORDS))
        for word, share in ((0, plus), (WORDS - 1, 1 - plus)):
            for near, weight in ((0, beta), (WORDS - 1, 1 - beta)):
                for place in range(8):
                    for rank in range(short.chosen):
                        words = Scripted([word, number, place, near, rank])
                        source = SystemStream(words)
                        monkeypatch.setattr(
                            "sharpdp.learn.randomizers.compressed_privunit.system_stream_for",
                            lambda rng, source=source: source,
                        )
                        report = int(short.reports([record])[0])
                        assert not words.words
                        chance = share * weight / 8 / short.chosen
                        chances[report] = chances.get(report, Fraction(0)) + chance
        assert sum(chances.values()) == 1
        return chances

    largest = Fraction(0)
    for number in (0, 77, LISTS - 1):
        laws = [law(record, number) for record in base]
        assert all(set(each) == {8 * number + place for place in range(8)} for each in laws)
        for one in laws:
            # the blanket: every direction has at least (1 - beta) / N
            assert min(one.values()) >= (1 - beta) / 8
            for other in laws:
                largest = max(largest, max(one[key] / other[key] for key in one))
    assert 0.999 * math.exp(0.5) < largest <= Fraction(math.exp(0.5)) * (1 + Fraction(1, 10**15))


@pytest.mark.parametrize(("candidates", "chosen"), [(2, 1), (8, 3), (64, 64 - 1), (256, 17)])
def test_mean_height_in_three_dimensions_is_that_of_uniform_numbers(
    candidates: int, chosen: int
) -> None:
    """Archimedes: heights are uniform on [-1, 1], whose order statistics have rational means."""
    exact = 1 - Fraction(chosen + 1, candidates + 1)
    assert largest_mean(3, candidates, chosen) == pytest.approx(float(exact), rel=1e-11)


def test_mean_height_of_the_highest_of_two() -> None:
    """E max of two heights is E|t - t'| / 2: 4 / pi^2 on a circle, 1 / sqrt(pi d) for large d."""
    assert largest_mean(2, 2, 1) == pytest.approx(4.0 / math.pi**2, rel=1e-11)
    assert largest_mean(10**8, 2, 1) == pytest.approx(1.0 / math.sqrt(math.pi * 1e8), rel=1e-7)


@pytest.mark.parametrize("dimension", [2, 5, 300])
def test_mean_height_is_that_of_drawn_directions(dimension: int) -> None:
    rng = np.random.default_rng(dimension)
    first = rng.normal(size=(4000, 32))
    rest = np.sqrt(rng.chisquare(dimension - 1, size=(4000, 32)))
    heights = np.sort(first / np.hypot(first, rest), axis=1)[:, -5:].mean(axis=1)
    error = 4.5 * heights.std() / math.sqrt(4000)
    assert heights.mean() == pytest.approx(largest_mean(dimension, 32, 5), abs=error)


def test_estimates_are_unbiased_with_the_stated_variance() -> None:
    short = CompressedPrivUnit(dimension=5, local_epsilon=3.0, radius=2.0, candidates=16)
    record = np.array([0.6, -1.0, 0.2, 0.0, 0.4])
    rows = np.tile(record, (2500, 1))
    reports = short.reports(rows, rng=1)
    estimates = short.estimates(reports)
    error = estimates.std(axis=0) / math.sqrt(len(rows))
    assert np.all(np.abs(estimates.mean(axis=0) - record) < 4.5 * error)
    np.testing.assert_allclose(short.mean(reports), estimates.mean(axis=0), rtol=1e-9)
    squares = ((estimates - record) ** 2).sum(axis=1)
    spread = 4.5 * squares.std() / math.sqrt(len(rows))
    assert squares.mean() == pytest.approx(short.variance(record[None, :])[0], abs=spread)
    lengths = np.linalg.norm(estimates, axis=1)
    np.testing.assert_allclose(lengths, math.sqrt(short.largest_variance), rtol=1e-12)


@pytest.mark.parametrize("local_epsilon", [0.5, 1.0, 2.0, 4.0, 6.0, 8.0])
def test_variance_is_a_few_percent_above_that_of_privunit(local_epsilon: float) -> None:
    short = CompressedPrivUnit(dimension=1000, local_epsilon=local_epsilon)
    long = PrivUnitBall(dimension=1000, local_epsilon=local_epsilon)
    assert 1.0 < short.largest_variance / long.largest_variance < 1.045


def test_accounting_is_that_of_the_blanket() -> None:
    short = CompressedPrivUnit(dimension=50, local_epsilon=2.0)
    run = short.shuffled(users=100, population=1000, rounds=3)
    assert run.randomizer == BlanketRandomizer(local_epsilon=2.0, blanket=short.blanket)


def test_directions_are_the_same_everywhere() -> None:
    """A receiver computes what the client had: values are written down here, but for last bits."""
    row = [0.8530445384665998, 0.0279218745853315, -0.2678735085927465, -0.4469666292981598]
    np.testing.assert_allclose(listed(LISTS * 256 - 1, 4), row, rtol=1e-12)
    assert not np.allclose(listed(0, 4), listed(1, 4))


@pytest.mark.parametrize("candidates", [1, 3, 2**17])
def test_candidates_are_a_power_of_two(candidates: int) -> None:
    with pytest.raises(InvalidArgument, match="candidates"):
        CompressedPrivUnit(dimension=4, local_epsilon=1.0, candidates=candidates)


def test_reports_that_cannot_have_been_sent() -> None:
    short = CompressedPrivUnit(dimension=4, local_epsilon=1.0, candidates=2)
    with pytest.raises(InvalidArgument, match="reports must be numbers from 0 to 8589934591"):
        short.estimates([2 * LISTS])
    with pytest.raises(InvalidArgument, match="at least one"):
        short.mean(np.array([], dtype=np.int64))
