"""Pictures of the landing page and the tutorials: each is drawn by a function, and shown on a page."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.pages import ROOT, pages

TUTORIALS = ROOT / "docs" / "tutorials"


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", TUTORIALS / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_picture_is_drawn_and_shown(pictures: ModuleType) -> None:
    drawn = {one.__name__.replace("_", "-") for one in pictures.PICTURES}
    files = {path for ending in ("svg", "png") for path in TUTORIALS.glob(f"*.{ending}")}
    assert drawn == {path.stem for path in files}
    shown = [
        (page.parent / target).resolve()
        for page in pages()
        for target in re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    ]
    assert files <= set(shown)


def test_a_picture_is_the_one_in_the_tree(
    pictures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pictures, "HERE", tmp_path)
    pictures.roc_flipped()
    words = [
        re.findall(r"<text[^>]*>([^<]+)<", (folder / "roc-flipped.svg").read_text("utf-8"))
        for folder in (tmp_path, TUTORIALS)
    ]
    assert words[0] == words[1]
    assert "best attack, certified" in words[0]


def test_the_bars_of_the_landing_page_are_what_it_computes() -> None:
    """Ends are rounded outwards, and bars are as long as upper ends."""
    text = (ROOT / "docs" / "index.md").read_text("utf-8")
    found = re.findall(r"^\w+: epsilon (\S+) to (\S+)$", text, re.MULTILINE)
    claimed, shuffled, bins = ((float(low), float(high)) for low, high in found)
    shown = re.findall(r"</span>([\d. to]+)</dd>", text)
    low, high = (float(end) for end in shown[1].split(" to "))
    assert [float(shown[0]), float(shown[2])] == [claimed[1], bins[1]]
    assert shuffled[0] - 0.1 < low <= shuffled[0]
    assert shuffled[1] <= high < shuffled[1] + 0.1
    shares = [float(share) for share in re.findall(r"--share: ([\d.]+)", text)]
    assert shares == pytest.approx([claimed[1] / shuffled[1], 1.0, bins[1] / shuffled[1]], rel=0.01)
    (sure,) = (float(share) for share in re.findall(r'class="sure" style="width: ([\d.]+)%', text))
    assert sure == pytest.approx(100 * shuffled[0] / shuffled[1], rel=0.01)
