"""Random questions over a wild domain: every answer is right, or refused (`make test-slow`).

The number of questions is SHARPDP_WILD_COUNT (default 2000), the seed SHARPDP_WILD_SEED. Every answer
is asked at two widths, compared with an independent value wherever there is one, and timed.
`python -m tests.wild.run --count 300 --seed 7` shows each problem as it is found.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.wild.cases import case
from tests.wild.run import MOST_MEMORY, Tally, run, summary

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
