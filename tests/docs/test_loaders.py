"""The page on data loaders: every epsilon in its tables is one that its code computes."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT, blocks_of

PAGE = ROOT / "docs" / "how-to" / "which-batches.md"


def test_every_epsilon_of_the_tables_is_computed() -> None:
    printed = "".join(block.text for block in blocks_of(PAGE) if block.language == "output")
    computed = dict(re.findall(r"^([^:\n]+): (\d\S* to \d\S*)$", printed, re.MULTILINE))
    uppers = {epsilon.rpartition(" ")[2] for epsilon in computed.values()}
    rows = re.findall(r"^\|.*\|$", PAGE.read_text("utf-8"), re.MULTILINE)
    tables = "\n".join(rows)
    brackets = re.findall(r"\d+(?:\.\d+)? to \d+(?:\.\d+)?", tables)
    assert len(computed) == 17
    assert len(brackets) > 30
    assert set(brackets) <= set(computed.values())
    assert set(re.findall(r"at most (\S+)", tables)) <= uppers
