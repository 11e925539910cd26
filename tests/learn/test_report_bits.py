"""Bits of a report: what is sent is decoded to the same report, and is as long as stated."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from sharpdp.errors import InvalidArgument, WrongType
from sharpdp.learn import (
    CompressedPrivUnit,
    CoordinateSigns,
    HadamardSigns,
    LatticeLaplace,
    PrivUnit,
    PrivUnitBall,
    RandomizedAnswers,
    Randomizer,
    VectorRandomizer,
)

LATTICES: list[VectorRandomizer] = [
    LatticeLaplace(dimension=40, local_epsilon=0.5, radius=3.0),
    LatticeLaplace(dimension=7, local_epsilon=20.0, radius=0.1),
    PrivUnit(dimension=40, local_epsilon=4.0),
    PrivUnitBall(dimension=40, local_epsilon=1.0, radius=0.01),
    PrivUnitBall(dimension=3, local_epsilon=8.0, radius=2.0, norm=1.5),
]
FIXED: list[tuple[Randomizer, int]] = [
    (RandomizedAnswers(local_epsilon=1.0), 1),
    (RandomizedAnswers(local_epsilon=1.0, categories=6), 3),
    (RandomizedAnswers(local_epsilon=1.0, categories=8), 3),
    (RandomizedAnswers(local_epsilon=1.0, categories=9), 4),
    (CoordinateSigns(dimension=1, local_epsilon=1.0), 1),
    (CoordinateSigns(dimension=26_010, local_epsilon=1.0), 15 + 1),
    (HadamardSigns(dimension=1000, local_epsilon=1.0), 10 + 1),
    (HadamardSigns(dimension=1024, local_epsilon=1.0), 10 + 1),
    (HadamardSigns(dimension=1025, local_epsilon=1.0), 11 + 1),
    (CompressedPrivUnit(dimension=9, local_epsilon=1.0, candidates=8), 32 + 3),
]


def records(randomizer: Randomizer, clients: int) -> np.ndarray:
    """Records that every randomizer here takes: categories, or vectors on an axis."""
    if isinstance(randomizer, RandomizedAnswers):
        return np.arange(clients) % randomizer.categories
    assert isinstance(randomizer, VectorRandomizer)
    rows = np.zeros((clients, randomizer.dimension))
    rows[:, 0] = randomizer.radius
    return rows


@pytest.mark.parametrize("randomizer", LATTICES, ids=repr)
def test_lattice_reports_are_decoded_and_no_longer_than_stated(
    randomizer: VectorRandomizer,
) -> None:
    reports = randomizer.reports(records(randomizer, 300), rng=1)
    codes = randomizer.encoded(reports)
    assert np.array_equal(randomizer.decoded(codes), reports)
    sizes = np.array([code.size for code in codes])
    error = 4.0 * sizes.std() / math.sqrt(sizes.size)
    # the bound is at most a bit per coordinate above what is sent on average
    assert sizes.mean() - error <= randomizer.bits <= sizes.mean() + randomizer.dimension + error


@pytest.mark.parametrize(("randomizer", "bits"), FIXED, ids=repr)
def test_numbers_have_a_fixed_length(randomizer: Randomizer, bits: int) -> None:
    reports = randomizer.reports(records(randomizer, 50), rng=1)
    codes = randomizer.encoded(reports)
    assert randomizer.bits == bits
    assert {code.size for code in codes} == {bits}
    assert np.array_equal(randomizer.decoded(codes), reports)


def test_largest_number_fits_and_the_next_one_is_refused() -> None:
    signs = CoordinateSigns(dimension=5, local_epsilon=1.0)
    assert signs.encoded([9])[0].tolist() == [1, 0, 0, 1]
    with pytest.raises(InvalidArgument, match="from 0 to 9; got 10"):
        signs.encoded([10])
    with pytest.raises(InvalidArgument, match="codes must be numbers from 0 to 9; got 15"):
        signs.decoded([np.ones(4, dtype=np.uint8)])


def test_extreme_whole_numbers_survive() -> None:
    ball = PrivUnit(dimension=3, local_epsilon=2.0)
    rows = np.array([[0, -1, 1], [-12345, 3, 99999], [10**6, -(10**6), 0]]) * ball.code.spacing
    assert np.array_equal(ball.decoded(ball.encoded(rows)), rows)


def test_codes_are_prefix_free() -> None:
    """No code is the beginning of another one, so no mark is needed between reports."""
    ball = PrivUnitBall(dimension=2, local_epsilon=1.0)
    whole = np.array([[a, b] for a in range(-9, 10) for b in range(-9, 10)])
    codes = ["".join(map(str, code)) for code in ball.encoded(whole * ball.code.spacing)]
    assert not any(after.startswith(code) for code, after in pairwise(sorted(codes)))


@pytest.mark.parametrize("randomizer", [LATTICES[0], LATTICES[3], FIXED[1][0]], ids=repr)
def test_whole_bytes_can_be_sent(randomizer: Randomizer) -> None:
    reports = randomizer.reports(records(randomizer, 20), rng=2)
    sent = [np.packbits(code).tobytes() for code in randomizer.encoded(reports)]
    received = [np.unpackbits(np.frombuffer(code, dtype=np.uint8)) for code in sent]
    assert np.array_equal(randomizer.decoded(received), reports)


def test_what_was_not_sent_is_refused() -> None:
    ball = PrivUnitBall(dimension=4, local_epsilon=2.0)
    code = ball.encoded(ball.reports(np.zeros((1, 4)), rng=1))[0]
    with pytest.raises(InvalidArgument, match="whole multiples"):
        ball.encoded(np.full((1, 4), 0.1))
    for wrong in (code[:-1], np.append(code, 1), np.append(code, np.zeros(8, dtype=np.uint8))):
        with pytest.raises(InvalidArgument, match="codes must be what encoded"):
            ball.decoded([wrong])
    with pytest.raises(WrongType, match="unpackbits"):
        ball.decoded([b"\x01"])
    with pytest.raises(InvalidArgument, match="zeros and ones"):
        ball.decoded([np.packbits(code)])
    with pytest.raises(InvalidArgument, match="at most 1000000000 bits"):
        ball.encoded(np.full((1, 4), 2.0**45) * ball.code.spacing)
