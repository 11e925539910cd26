"""The pages of the papers are what the command writes today, as far as that is quickly computed."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from reproduce import pages, sheets
from reproduce.cache import Shelf, shelved
from reproduce.catalog import EVERYTHING, PAPERS
from reproduce.sheets import WHOLE, Paper

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "papers"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
SAME = 1e-3
"""Brackets may become a little sharper without the pages being written again."""

CHEAP = {
    "wang2023": ("table2", "figure4", "statements"),
    "asoodeh2020": ("figure1", "rounds", "theorem5", "equation28"),
    "chen2024": ("unsafe",),
    "chua2024": ("figure2", "remark4.3.1"),
    "girgis2021": ("rate",),
    "bok2024": ("figure1",),
}
"""Items that are computed whole in well under a second."""


def text_of(paper: Paper) -> str:
    return (FOLDER / f"{paper.key}.md").read_text("utf-8")


def in_step(one: str, other: str) -> bool:
    """Whether two texts have the same words, and numbers that are nearly the same."""
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (one, other)]
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    return all(math.isclose(x, y, rel_tol=SAME) for x, y in zip(*numbers, strict=True))


def test_what_in_step_means() -> None:
    assert in_step("a 1.0001 b", "a 1.0002 b")
    assert not in_step("a 1.0001 b", "a 1.01 b")
    assert not in_step("a 1 b", "a 1 c")


@pytest.mark.parametrize("paper", PAPERS, ids=lambda paper: paper.key)
def test_words_and_pictures(paper: Paper) -> None:
    text = text_of(paper)
    assert text.startswith(f"# {paper.title}\n")
    for item in paper.items:
        assert f"\n## {item.title}\n\n{item.about}\n" in text
        assert all(pages._point(remark) in text for remark in item.remarks)
        name = pages.picture_name(paper.key, item)
        assert (item.draw is not None) is (f"]({name})" in text) is (FOLDER / name).exists()
    assert not paper.errata or pages.errata(paper) in text
    assert all(part in text for part in (*paper.about, *paper.elsewhere))


@pytest.mark.parametrize(("key", "name"), [(k, n) for k, names in CHEAP.items() for n in names])
def test_tables(key: str, name: str, tmp_path: Path) -> None:
    (paper,) = [one for one in PAPERS if one.key == key]
    (item,) = [one for one in paper.items if one.name == name]
    with shelved(Shelf(tmp_path)):
        section = pages.section(paper, item, item.values(WHOLE))
    page = text_of(paper)
    start = page.index(f"## {item.title}")
    end = page.find("\n## ", start)
    assert in_step(page[start:end].strip(), section.strip())


def test_the_index() -> None:
    assert (FOLDER / "index.md").read_text("utf-8") == pages.index(PAPERS)


def test_no_picture_is_left_over() -> None:
    wanted = {pages.picture_name(p.key, i) for p in PAPERS for i in p.items if i.draw is not None}
    assert {file.name for file in FOLDER.glob("*.svg")} == wanted


def test_names_are_told_apart() -> None:
    assert len({one.key for one in EVERYTHING}) == len(EVERYTHING)
    for paper in EVERYTHING:
        names = [item.name for item in paper.items]
        assert len(set(names)) == len(names)
        assert all(erratum.label in pages.LABELS for erratum in paper.errata)


def test_brackets_are_rounded_outwards() -> None:
    assert sheets.bracket([0.12999999, 0.13000001], 3) == "[0.129, 0.131]"
    assert sheets.bracket([0.0, 0.25], 3) == "[0, 0.25]"
    assert sheets.bracket([0.0, 1e-30], 3) == "[0, 1.01e-30]"  # the double is above 1e-30
    assert sheets.bracket([2.0, math.inf]) == "[2, inf]"
    for value in (1 / 3, 2 / 3, 1e-17 / 7, 123456.789):
        low, high = map(float, sheets.bracket([value, value]).strip("[]").split(","))
        assert low <= value <= high
        assert high - low <= 2e-4 * value
