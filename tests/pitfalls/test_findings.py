"""The table of findings names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent


def test_every_test_of_the_table_exists() -> None:
    named = 0
    for line in (TESTS / "pitfalls" / "FINDINGS.md").read_text("utf-8").splitlines():
        source = ""
        for path, name in re.findall(r"([\w/]+\.py)?(?:::\w+)?::(test_\w+)", line):
            source = (TESTS / path).read_text("utf-8") if path else source
            assert f"def {name}(" in source, line
            named += 1
    assert named >= 60
