"""Random questions over a wild domain: every answer is right, or refused (`make test-slow`).

Two runs. `run` asks all quantities of mechanisms of every public kind, alone and in sequences, at
edges above all. `contour` asks for epsilon of a few kinds at tiny deltas and up to 1e8 runs. The number
of questions of each is SHARPDP_WILD_COUNT (default 2000), the seed SHARPDP_WILD_SEED. Every answer is
compared with an independent value and timed.

`python -m tests.wild.run --count 20000 --seed 7 --out wild.jsonl` can be stopped and started again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from math import comb, e
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

import sharpdp as dp
from sharpdp.bracket import Bracket, Rigor
from tests.wild import arrays, kinds, pairs
from tests.wild import run as wild
from tests.wild.cases import case
from tests.wild.contour import MOST_MEMORY, Tally, run, summary
from tests.wild.convolved import Composition
from tests.wild.questions import Truth, judge_delta

BATCHES = 20
COUNT = int(os.environ.get("SHARPDP_WILD_COUNT", "2000"))
SEED = int(os.environ.get("SHARPDP_WILD_SEED", "20240"))
FORBIDDEN = ("VIOLATION", "exception", "warning", "memory")


def verdict(tally: Tally) -> list[str]:
    return [text for text in tally.problems if text.startswith(FORBIDDEN)]


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_answer_is_wrong(batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    size = -(-COUNT // BATCHES)
    tally = run(SEED, batch * size, size)
    with capsys.disabled():
        sys.stdout.write(f"\nwild {batch + 1}/{BATCHES}: {summary(tally)}\n")
    assert not verdict(tally), "\n".join(verdict(tally))


def test_a_few_questions_right_away() -> None:
    """The same on so few that every test run can afford it."""
    tally = run(7, 3, 12, patient=False)
    assert not [text for text in verdict(tally) if not text.startswith("memory")], tally.problems
    assert tally.seen["compared"] > 0


def test_questions_are_reproducible() -> None:
    assert str(case(3, 5)) == str(case(3, 5))
    assert str(case(3, 5)) != str(case(3, 6))


def test_memory_is_counted() -> None:
    assert MOST_MEMORY == 300.0


def _bad(records: list[wild.Record]) -> list[wild.Record]:
    return [one for one in records if one["verdict"] in wild.BAD]


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_answer_about_any_kind_is_wrong(batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    size = -(-COUNT // BATCHES)
    records: list[wild.Record] = []
    index = 0
    while len(records) < size:
        records += wild.asked(kinds.case(SEED + batch, index), SEED + batch, index)
        index += 1
    with capsys.disabled():
        sys.stdout.write(f"\nwild kinds {batch + 1}/{BATCHES}: {wild.summary(records)}\n")
    assert not _bad(records)


@pytest.mark.parametrize(
    "make",
    dict.fromkeys(one for own, others, *_ in kinds.FAMILIES for one in (*own, *others)),
    ids=lambda make: make.__name__,
)
def test_every_kind_once(make: object) -> None:
    """One case of each kind, a few questions."""
    part = make(np.random.default_rng(15))  # type: ignore[operator]
    one = kinds.Case(part.kind, (part,))
    records = list(wild.asked(one, 15, 0, patience=0.1))
    assert records
    assert not _bad(records)


@pytest.mark.parametrize("index", [2, 8, 9])
def test_a_few_sequences(index: int) -> None:
    records = list(wild.asked(kinds.case(1, index), 1, index, patience=0.2))
    assert not _bad(records)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_entry_of_an_array_is_wrong(batch: int, capsys: pytest.CaptureFixture[str]) -> None:
    size = -(-COUNT // (5 * BATCHES))  # each case is asked five arrays
    tally = arrays.run(SEED + batch, 0, size)
    with capsys.disabled():
        sys.stdout.write(f"\nwild arrays {batch + 1}/{BATCHES}: {dict(tally.seen)}\n")
    assert not tally.problems, "\n".join(tally.problems)


@pytest.mark.parametrize("make", [kinds.finite, kinds.approximate, kinds.laplace, kinds.pure])
def test_a_few_arrays(make: Callable[[np.random.Generator], kinds.Part]) -> None:
    part = make(np.random.default_rng(15))
    tally = arrays.Tally()
    arrays.asked(kinds.Case(part.kind, (part,)), 15, 0, tally)
    assert not tally.problems, tally.problems
    assert tally.seen["compared"] > 0


def test_a_wrong_entry_of_an_array_is_noticed() -> None:
    """The masses of a mechanism that reveals a little more than what is asked."""
    part = kinds.pure(np.random.default_rng(4))
    assert isinstance(part.mechanism, dp.PureDP)
    less = dp.PureDP(epsilon=part.mechanism.epsilon * 0.98)
    one = kinds.Case("PureDP", (replace(part, mechanism=less),))
    given, tally = np.array([0.2, 1e-3, 0.01, 0.1, 0.05]), arrays.Tally()
    for quantity in arrays.QUANTITIES[:4]:
        assert list(arrays.wrong_entries(one, quantity, given, Truth(one), tally)), quantity.name


def test_the_float_reference_encloses_exact_values() -> None:
    """delta of four Gaussian runs, and of ten responses, against closed forms."""
    composed = Composition([(pairs.gaussian(0.5).low, 4)])
    revealing = Composition([(pairs.gaussian(0.5).high, 4)])
    for epsilon in (0.0, 1.0, 5.0):
        exact = ndtr(0.5 - epsilon) - np.exp(epsilon) * ndtr(-0.5 - epsilon)
        low = composed.on_grid(composed.tilt_at(epsilon)).delta_low(epsilon)
        high = revealing.on_grid(revealing.tilt_at(epsilon)).delta_high(epsilon)
        assert low <= exact <= high <= 1.05 * exact + 1e-9
        assert low >= 0.6 * exact
    responses = Composition([(pairs.response(1.0), 10)])
    at = sum(
        comb(10, k) * e**k / (1 + e) ** 10 * (1 - e ** (5.0 - (2 * k - 10))) for k in range(8, 11)
    )
    grid = responses.on_grid(responses.tilt_at(5.0))
    assert grid.delta_low(5.0) <= at <= grid.delta_high(5.0) <= 1.05 * at


def test_a_wrong_answer_is_noticed() -> None:
    """Ends that are a little off, next to the truth of ten responses."""
    part = kinds.pure(np.random.default_rng(4))
    truth = Truth(kinds.Case("PureDP", (part,)))
    epsilon = 0.5 * truth.top
    ball = truth.ball(epsilon)
    assert ball is not None
    value = float(ball)
    right = Bracket(
        np.nextafter(value, 0.0), np.nextafter(value, 1.0), Rigor.CERTIFIED, "delta", ""
    )
    above = Bracket(value * (1.0 + 1e-14), 1.0, Rigor.CERTIFIED, "delta", "")
    below = Bracket(0.0, value * (1.0 - 1e-14), Rigor.CERTIFIED, "delta", "")
    assert judge_delta(truth, epsilon, right) is None
    assert judge_delta(truth, epsilon, above) is not None
    assert judge_delta(truth, epsilon, below) is not None


def test_records_are_read_back(tmp_path: Path) -> None:
    """A line that was cut off is left out, and the run goes on with the next case."""
    path = tmp_path / "wild.jsonl"
    path.write_text('{"seed": 1, "index": 0, "verdict": "right"}\n{"seed": 1, "ind')
    assert [one["index"] for one in wild.read(path)] == [0]


def test_rates_of_a_sequence_with_huge_losses() -> None:
    """Three lines at x = e^-4000 are one point: no slope is divided by their distance.

    32068 responses of an epsilon of 1/2 have a mean loss of 3927 and a deviation below 90: the rest of
    the tail, by Hoeffding, is below 1e-100 at a loss of 15, and so is 1 - tpr.
    """
    run = dp.Sequence([dp.ApproximateDP(epsilon=0.5, delta=1e-6) * 32068, dp.Laplace(33.4)])
    found = dp.account(run).tpr(fpr=4.6e-7)
    assert found.lower > 1.0 - 1e-9
