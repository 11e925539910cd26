"""Released sums have the law of a rounded Gaussian mechanism: which bits lead to which value, exactly.

A release is a monotone function of the binary fraction P whose leading bits are the random word. The
tests take P next to the edges of cells, where the value changes, and check the value against the normal
distribution function in ball arithmetic. So they check the probability of each value by its definition,
also of values that no test would ever draw.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import pytest
import torch
from flint import arb, ctx
from scipy.special import ndtri
from torch import nn

import sharpdp as dp
from sharpdp.errors import InvalidArgument
from sharpdp.learn.dpsgd import Training
from sharpdp.learn.gaussian_noise import StepNoise
from sharpdp.mechanisms.strategies import BandedStrategy
from sharpdp.randomness.keyed_stream import KeyedStream

KEY = b"k" * 32
FINEST = 2.0**25
"""The finest grid of released values: so many steps to a standard deviation of the noise."""

BITS = 192
"""So many bits of P are told by a test: the first word and two further ones."""


def ball(number: Fraction | float) -> arb:
    ctx.prec = 400
    exact = Fraction(number)
    return arb(exact.numerator) / arb(exact.denominator)


def distribution(x: Fraction) -> arb:
    """The normal distribution function; the smaller tail keeps its digits."""
    ctx.prec = 400
    return (-ball(x) / arb(2).sqrt()).erfc() / 2


def edge(k: int, shift: float, scale: float) -> Fraction:
    """The normal number between the values k and k + 1."""
    return (k + Fraction(1, 2) - Fraction(shift)) / Fraction(scale)


def bits_at(x: Fraction) -> int:
    """The leading bits of the probability below x."""
    return int((distribution(x) * arb(2) ** BITS).floor().unique_fmpz())


def words_of(bits: int) -> list[int]:
    return [bits >> 128, (bits >> 64) % 2**64, bits % 2**64]


def following(words: list[int]) -> Callable[[int], Callable[[], int]]:
    """The further words, for whichever place they are asked for."""
    return lambda place: iter(words).__next__


def value_of(bits: int, shift: float, scale: float) -> int:
    from sharpdp.randomness.normals import rounded

    first, *others = words_of(bits)
    found = rounded(np.array([first], dtype=np.uint64), np.array([shift]), scale, following(others))
    return int(found[0])


PLACES = (0.0, 0.3, -1.7, 4.4, 4.6, -5.5, 6.3, -6.6, 7.0, -8.0, 9.3, -11.0, 14.0)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("shift", "scale"), [(0.0, FINEST), (0.37, FINEST / 1.7), (-0.5, 5.3)])
def test_s2_values_change_where_the_distribution_function_says(
    place: float, shift: float, scale: float
) -> None:
    k = math.floor(place * scale)
    at = bits_at(edge(k, shift, scale))
    # the last bit that was told decides, 2^-192 before and after the edge
    assert value_of(at - 1, shift, scale) == k
    assert value_of(at + 1, shift, scale) == k + 1
    # and so do all neighbors of the first word
    for near in (-2, -1, 1, 2):
        bits = at + near * 2**128
        if 0 < bits < 2**BITS:
            found = value_of(bits, shift, scale)
            share = ball(Fraction(2 * bits + 1, 2 ** (BITS + 1)))
            assert distribution(edge(found - 1, shift, scale)) < share
            assert share < distribution(edge(found, shift, scale))


def scripted(monkeypatch: pytest.MonkeyPatch, words: list[int], rest: int = 0) -> None:
    """The source gives these words, one for each time that it is asked, and `rest` from then on."""
    script: Iterator[int] = itertools.chain(words, itertools.repeat(rest))
    monkeypatch.setattr(
        KeyedStream,
        "_next",
        lambda self, size: next(script).to_bytes(8, "little").ljust(size, b"\0"),
    )


@pytest.mark.parametrize("first", [2**20, 2**30, 2**40])
def test_s2_random_words_in_the_tail_leave_no_gap(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All values between those of neighboring words can be released: their ends meet on the grid.

    A word has an interval of values, from the one with no further random bit set to the one with all
    of them set. Values between two intervals would be impossible under this sum and possible under
    another one.
    """

    def released(word: int, rest: int) -> float:
        with monkeypatch.context() as patch:
            scripted(patch, [word], rest)
            noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
            return float(noise.added({"w": torch.zeros(1, dtype=torch.float64)}, 0)["w"].item())

    intervals = [
        [released(word, rest) for rest in (0, 2**64 - 1)] for word in range(first, first + 16)
    ]
    left = [interval for interval in intervals if interval[0] < 0.0]
    assert len(left) >= 8
    for (_, high), (low, _) in itertools.pairwise(left):
        assert low - high <= 1.0 / FINEST


@pytest.mark.parametrize("place", [0.5, 6.0, 6.6, -7.0, 8.0, -10.0])
def test_s2_every_value_is_possible_under_every_sum(
    place: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values in the tail can be reached from all sums, each with its exact probability."""
    for total in (0.0, 0.001, -0.37, 1.0, 1e-30):
        noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
        target = round(place / noise.grid)
        deviation, grid = Fraction(noise.deviation), Fraction(noise.grid)
        low, high = (
            bits_at(((target + half) * grid - Fraction(total)) / deviation)
            for half in (Fraction(-1, 2), Fraction(1, 2))
        )
        assert high - low > 2**60  # of 2^192 equally likely ones
        for bits in (low + 1, (low + high) // 2, high - 1):
            with monkeypatch.context() as patch:
                scripted(patch, words_of(bits))
                noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
                sums = {"w": torch.tensor([total], dtype=torch.float64)}
                assert noise.added(sums, 0)["w"].item() == target * noise.grid


def test_s2_doubles_of_normal_numbers_are_as_near_as_believed() -> None:
    from sharpdp.randomness.normals import tails

    # words before and after which further bits are drawn, and the tails
    places = [
        2**63 - 1,
        2**63,
        2**62,
        2**50,
        2**46,
        2**46 - 1,
        2**20,
        3,
        0,
        2**64 - 1,
        2**64 - 2**46,
    ]
    generator = np.random.default_rng(1)
    places += [int(2.0**x) for x in generator.uniform(0.0, 64.0, 400)]
    further = [1, 2**64 - 1, 2**63 + 12345]
    for word in places:
        for tail in further:
            [upper], [share] = tails(
                np.array([word], dtype=np.uint64),
                lambda count, tail=tail: np.full(count, tail, dtype=np.uint64),
            )
            found = float(-ndtri(share) if upper else ndtri(share))
            slack = Fraction(max(1.0, abs(found))) * Fraction(1, 2**48)  # a quarter of ERROR
            bits = (word << 128) + (tail << 64) + tail
            if word >= 2**63:  # further bits count from the nearer end
                bits = (word << 128) + 2**128 - 1 - (tail << 64) - tail
            few = min(word, 2**64 - 1 - word) < 2**46
            ends = (bits, bits + 1) if few else (word << 128, (word + 1) << 128)
            for end in ends:
                share = ball(Fraction(end, 2**BITS))
                if 0 < end < 2**BITS:
                    assert distribution(Fraction(found) - slack) < share
                    assert share < distribution(Fraction(found) + slack)


@pytest.mark.parametrize("size", [2.0**20, 2.0**30, 2.0**60, -(2.0**100)])
def test_s13_sums_far_above_their_noise_are_whole_steps(
    size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is released is the rounded sum of two whole numbers, also where doubles are coarser."""
    bits = bits_at(Fraction(6.7))
    scripted(monkeypatch, words_of(bits))
    noise = StepNoise(noise_multiplier=1.0, clip=1.0, key=KEY)
    sums = {"w": torch.tensor([size + 0.3], dtype=torch.float64)}
    released = noise.added(sums, 0)["w"].item()
    exact = (Fraction(size + 0.3) + Fraction(noise.deviation) * Fraction(6.7)) / Fraction(
        noise.grid
    )
    assert released == float(round(exact)) * noise.grid


def test_s13_sums_that_no_double_holds_in_steps_are_refused() -> None:
    noise = StepNoise(noise_multiplier=1e-30, clip=1e-30, key=KEY)
    with pytest.raises(InvalidArgument, match=r"total\['w'\] must be .*Nothing was released"):
        noise.added({"w": torch.tensor([1e300], dtype=torch.float64)}, 0)
    assert noise.added({"w": torch.zeros(1)}, 0)["w"].item() != 0.0


def _released(mechanism: dp.DPSGD | dp.CorrelatedNoise, clip: float = 1.0) -> np.ndarray:
    """The noisy sum of the first step, of gradients that no clip reaches."""
    torch.manual_seed(1)
    model = nn.Linear(20, 1).double()
    before = model.weight.detach().clone()
    inputs = torch.randn(30, 20, generator=torch.Generator().manual_seed(2)).double() / 100
    run = Training(
        mechanism,
        model,
        nn.MSELoss(),
        inputs,
        torch.ones(30, 1).double() / 10,
        clip=clip,
        key=KEY,
        learning_rate=1.0,
    )
    run.advance()
    return ((before - model.weight.detach()) * run.expected_batch_size).numpy()[0]


def test_b3_one_key_has_independent_noise_for_each_size_clip_and_mechanism() -> None:
    """Two sizes of the same noise would show the sum: 2 (S + Z) - (S + 2 Z) = S."""
    plan = dp.DeterministicBatches(dataset_size=30, batch_size=30, epochs=2)
    banded = BandedStrategy(coefficients=(1.0, 0.5))
    drawn = {
        "noise 1": (1.0, _released(dp.DPSGD(plan, noise_multiplier=1.0))),
        "noise 2": (2.0, _released(dp.DPSGD(plan, noise_multiplier=2.0))),
        "clip 1.5": (1.5, _released(dp.DPSGD(plan, noise_multiplier=1.0), clip=1.5)),
        "clip 2, noise 1/2": (1.0, _released(dp.DPSGD(plan, noise_multiplier=0.5), clip=2.0)),
        "longer": (
            1.0,
            _released(
                dp.DPSGD(
                    dp.DeterministicBatches(dataset_size=30, batch_size=30, epochs=3),
                    noise_multiplier=1.0,
                )
            ),
        ),
        "correlated 1": (
            1.0,
            _released(dp.CorrelatedNoise(plan, noise_multiplier=1.0, strategy=banded)),
        ),
        "correlated 3": (
            3.0,
            _released(dp.CorrelatedNoise(plan, noise_multiplier=3.0, strategy=banded)),
        ),
        "other strategy": (
            1.0,
            _released(
                dp.CorrelatedNoise(
                    plan, noise_multiplier=1.0, strategy=BandedStrategy(coefficients=(1.0, 0.25))
                )
            ),
        ),
    }
    for (one, (size, noisy)), (other, (larger, more)) in itertools.combinations(drawn.items(), 2):
        # with the same noise, what is left is a part of the sum, whose entries are below 0.1
        assert np.abs(noisy / size - more / larger).max() > 0.5, (one, other)


def test_the_deviation_is_longer_than_planned_by_what_rounding_is_paid_with() -> None:
    step = StepNoise(noise_multiplier=1.5, clip=0.25, key=KEY)
    assert step.deviation == 1.5 * 0.25 * (1.0 + 2.0**-20)
    plan = dp.DeterministicBatches(dataset_size=4, batch_size=2, epochs=1)
    data = torch.ones(4, 2), torch.ones(4, 1)
    given = dp.DPSGD(plan, noise_multiplier=3.0)
    run = Training(given, nn.Linear(2, 1), nn.MSELoss(), *data, clip=0.5)
    assert run._noise.deviation == 3.0 * 0.5 * (1.0 + 2.0**-20)
