"""Spelling is American, and pages use the field's words."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of, pages

CHECKED = ("README.md", "docs", "src", "reproduce", "examples", "benchmarks", ".github")
PROJECT = ("CHANGELOG.md", "CONTRIBUTING.md", "CODE_OF_CONDUCT.md", "RELEASING.md", "SECURITY.md")
# What pages used to say, and what the field says.
HOME_MADE = {
    r"ghosts?": "null record",
    r"balls[- ]in[- ]bins": "balls-and-bins",
    r"as close as the known bounds are": "gap between best known bounds",
    r"\d %": "no space before a percent sign",
    r"\d{1,3} 000": "commas in thousands: 60,000",
    r"in earnest": "in production",
    r"told apart": "distinguished",
    r"nouns?": "concepts",
}
# Names of others are theirs.
QUOTED = re.compile(r"`[^`]*`|\$[^$]*\$|ghost clipping|BallsInBins")


def test_spelling_is_american() -> None:
    """Dictionaries and words to leave alone are in pyproject.toml."""
    command = [sys.executable, "-m", "codespell_lib", *CHECKED, *PROJECT]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def prose(path: Path) -> str:
    """A page without code, formulas and quotations."""
    text = path.read_text("utf-8")
    for block in blocks_of(path):
        text = text.replace(block.text, "")
    return QUOTED.sub("", text)


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_use_the_words_of_the_field(path: Path) -> None:
    text = prose(path)
    found = [
        f"{match[0]!r}: {better}"
        for pattern, better in HOME_MADE.items()
        for match in re.finditer(rf"\b(?:{pattern})(?!\w)", text)
    ]
    assert found == []
