"""One run has one set of digits: on every surface, in alternative texts, in raw HTML and in pictures."""

from __future__ import annotations

import re

from tests.docs.digits_of_one_plan import agrees, differing, written
from tests.docs.pages import blocks_of, pages


def test_one_plan_has_the_same_digits_everywhere() -> None:
    assert differing() == []


def test_files_are_looked_into() -> None:
    found = {(path, number) for path, _, number in written()}
    for path in ("README.md", "docs/index.md", "docs/tutorials/shuffled-versus-claimed.png"):
        assert sum(place == path for place, _ in found) >= 4, path


def test_other_digits_are_noticed() -> None:
    ends = ("31.2287", "33.606")
    for number in ("33.615", "33.7", "31.211", "31.3"):
        assert not agrees(number, ends, shorter=False)
    assert agrees("33.7", ends, shorter=True)
    assert not agrees("33.6", ends, shorter=True)


def test_no_page_rounds_an_end_to_the_nearest() -> None:
    """f"{bracket.upper:.2f}" may be below the upper end; f"{bracket:.2f}" and `printed` are not."""
    for path in pages():
        for block in blocks_of(path):
            if block.language == "python":
                wrong = re.findall(r"\{[^{}*]*\.(?:upper|lower):\.\d[fg]\}", block.text)
                assert not wrong, f"{block.page}:{block.line}: {wrong}"
