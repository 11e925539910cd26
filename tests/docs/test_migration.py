"""The migration tables against the real packages: both cells of a row run, and compare as it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sharpdp as dp
from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "migration.md"
ROW = re.compile(r"^\| `(?P<theirs>[^|]+)` \| `(?P<ours>[^|]+)` \| (?P<said>[a-z][^|`]*) \|$")
LARGER = re.compile(r"up to ([\d.]+)% larger")
EQUAL = re.compile(r"equal to ([\d.]+)%")
ROUNDING = 1e-9
FEWEST_ROWS = 20

pytestmark = pytest.mark.filterwarnings("ignore")  # Opacus warns about its own accountants


def rows(page: Path = PAGE) -> list[tuple[str, str, str]]:
    found = (ROW.match(line) for line in page.read_text("utf-8").splitlines())
    return [(row["theirs"], row["ours"], row["said"]) for row in found if row]


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    """What the page defines before its tables."""
    namespace: dict[str, Any] = {}
    for block in blocks_of(PAGE):
        if block.language == "python":
            exec(compile(block.text, block.page, "exec"), namespace)
    return namespace


def holds(theirs: Any, ours: Any, said: str) -> bool:
    """Whether two values compare as a row says."""
    if said == "equal":
        return bool(theirs == ours)
    lower, upper = (ours.lower, ours.upper) if isinstance(ours, dp.Bracket) else (ours, ours)
    there = np.asarray(theirs[0] if isinstance(theirs, tuple) else theirs, dtype=float)
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    if said == "below the truth":
        return bool(np.all(there < lower))
    if match := EQUAL.fullmatch(said):
        return bool(np.all(np.abs(there - upper) <= float(match[1]) / 100 * upper))
    if match := LARGER.fullmatch(said):
        most = 1 + float(match[1]) / 100
        return bool(np.all(lower * (1 - ROUNDING) <= there) and np.all(there <= upper * most))
    raise ValueError(f"a row says {said!r}")


@pytest.mark.parametrize(("theirs", "ours", "said"), rows())
def test_a_row_says_the_truth(names: dict[str, Any], theirs: str, ours: str, said: str) -> None:
    there, here = eval(theirs, names), eval(ours, names)
    assert holds(there, here, said), (there, here)


def test_rows_are_found() -> None:
    assert len(rows()) >= FEWEST_ROWS


@pytest.mark.parametrize(
    ("theirs", "ours", "said"),
    [
        (1.2, dp.Bracket(1.0, 1.1), "up to 5% larger"),
        (0.9, dp.Bracket(1.0, 1.1), "up to 5% larger"),
        (1.05, dp.Bracket(1.0, 1.1), "below the truth"),
        ((1.2, 8.0), (1.0, 2.0), "equal to 1%"),
        (1, 2, "equal"),
    ],
)
def test_a_wrong_row_is_seen(theirs: Any, ours: Any, said: str) -> None:
    assert not holds(theirs, ours, said)
