"""The page on data loaders: every epsilon in its tables is one that its code computes."""

from __future__ import annotations

import re

from sharpdp.display.outward_digits import ROUND_CEILING, ROUND_FLOOR, in_digits
from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "how-to" / "which-batches.md"


def test_every_epsilon_of_the_tables_is_computed() -> None:
    printed = "".join(block.text for block in blocks_of(PAGE) if block.language == "output")
    computed = dict(re.findall(r"^([^:\n]+): (\d\S* to \d\S*)$", printed, re.MULTILINE))
    # in three digits, rounded outwards once more
    short = set()
    for epsilon in computed.values():
        low, high = map(float, epsilon.split(" to "))
        short.add(f"{in_digits(low, ROUND_FLOOR, 3)} to {in_digits(high, ROUND_CEILING, 3)}")
    uppers = {epsilon.rpartition(" ")[2] for epsilon in short}
    rows = re.findall(r"^\|.*\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    tables = "\n".join(rows)
    brackets = re.findall(r"\d+(?:\.\d+)? to \d+(?:\.\d+)?", tables)
    assert len(computed) == 17
    assert len(brackets) > 30
    assert set(brackets) <= short
    assert set(re.findall(r"at most (\S+)", tables)) <= uppers
