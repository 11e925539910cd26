"""The site builds without a warning, loads nothing from elsewhere, has no dead ends, and can be read."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from markdown_it import MarkdownIt

from tests.docs.pages import ROOT
from tests.docs.site import dead_ends, fetched_elsewhere, read

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
PAGES = ("index", "quickstart", "pitfalls", "command-line", "how-to/which-batches", "api/answers")
FOUND_FIRST = {
    "shuffle": "tutorials/",
    "epsilon": "tutorials/",
    "budget": "how-to/keep-a-budget",
    "loader": "how-to/",
}
# `python -m sphinx` that seldom looks for garbage: the trees of all pages stay until the end.
SPHINX = """
import gc, sys
from sphinx.cmd.build import main
gc.set_threshold(10_000, 20, 1_000_000)
sys.exit(main(sys.argv[1:]))
"""


def test_the_site_stands_on_its_own(tmp_path: Path) -> None:
    """One test, so that the site is built once."""
    site = tmp_path / "html"
    build = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(tmp_path / "read")]
    command = [sys.executable, "-c", SPHINX, *build, str(ROOT / "docs"), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = read(site)
    assert fetched_elsewhere(site, pages) == []
    assert dead_ends(site, pages) == []
    assert "<math " in (site / "proofs" / "shuffle-proof.html").read_text("utf-8")
    for page in site.rglob("*.html"):
        text = re.sub(
            r"<pre>.*?</pre>|<code.*?</code>|<[^>]*>", "", page.read_text("utf-8"), flags=re.S
        )
        assert not re.search(r"\$\\|\\[a-z]+\$", text), f"{page.name}: a formula that is not one"
        assert not re.search(r"\*\*(keywords|kwargs): (object|Any)\)", text), page.name
    if CHROMIUM is None:
        pytest.skip("all but the look in a browser passed; for that: apt-get install chromium")
    look(site)


def look(site: Path) -> None:
    """On a phone nothing is cut off; what is copied can be pasted; search finds what people want."""
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 400, "height": 800})
        for name in PAGES:
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 400, name
        assert page.locator("button.copy").count() > 0
        for language, block, wanted in (
            ("pycon", ">>> a = 1\n>>> print(\n...     a\n... )\n1\n", "a = 1\nprint(\n    a\n)"),
            ("console", "$ sharpdp a \\\n    --b\nanswer\n$ c\n", "sharpdp a \\\n    --b\nc"),
            ("python", "x = 1\n", "x = 1"),
        ):
            assert page.evaluate("([a, b]) => pasteable(a, b)", [block, language]) == wanted
        for word, start in FOUND_FIRST.items():
            assert first_found(page, site, word).startswith(start), word
        browser.close()


def first_found(page: Any, site: Path, word: str) -> str:
    """The page that the search lists first."""
    page.goto(f"{(site / 'search.html').as_uri()}?q={word}")
    page.wait_for_function("document.querySelector('.search-summary')?.innerText.match(/\\d/)")
    link = page.locator("#search-results li > a").first.get_attribute("href")
    return str(link)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>'),
        ("a.html", '<link rel="preload stylesheet" href="//cdn.example/x.css">'),
        ("a.html", '<p style="background: url(http://x.example/y.png)">'),
        ("a.css", "@import url('https://fonts.example/css');"),
        ("a.css", "@font-face { src: url(https://fonts.example/x.woff2) }"),
    ],
)
def test_what_is_fetched_elsewhere_is_seen(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, "utf-8")
    assert len(fetched_elsewhere(tmp_path, read(tmp_path))) == 1


def test_links_that_a_reader_may_follow_are_not_fetched(tmp_path: Path) -> None:
    text = '<a href="https://doi.org/x">paper</a><link rel="canonical" href="https://x.example">'
    (tmp_path / "a.html").write_text(text, "utf-8")
    assert fetched_elsewhere(tmp_path, read(tmp_path)) == []


@pytest.mark.parametrize("target", ["b.html", "#no", "a.html#no", "pictures/x.png"])
def test_a_dead_end_is_seen(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.html").write_text(f'<h1 id="yes"></h1><a href="{target}">x</a>', "utf-8")
    assert len(dead_ends(tmp_path, read(tmp_path))) == 1


@pytest.mark.parametrize(
    "target", ["a.html", "#yes", "a.html#yes", "https://x.example", "b%20c.txt"]
)
def test_a_live_link_is_none(tmp_path: Path, target: str) -> None:
    (tmp_path / "b c.txt").write_text("", "utf-8")
    (tmp_path / "a.html").write_text(f'<h1 id="yes"></h1><a href="{target}">x</a>', "utf-8")
    assert dead_ends(tmp_path, read(tmp_path)) == []


def test_the_package_index_can_follow_every_link_of_the_readme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it is written into the package: relative links and pictures would lead nowhere there."""
    for name in ("", ".metadata", ".metadata.plugin", ".metadata.plugin.interface"):
        monkeypatch.setitem(sys.modules, f"hatchling{name}", Mock(MetadataHookInterface=object))
    absolute = runpy.run_path(str(ROOT / "hatch_build.py"))["absolute"]
    source = "https://github.com/sharpdp/sharpdp"
    text = absolute((ROOT / "README.md").read_text("utf-8"), source, "0.2.0")
    page = MarkdownIt("commonmark").enable("table").render(text)
    targets = re.findall(r'(?:href|src)="([^"]+)"', page)
    assert len(targets) > 15
    for target in targets:
        assert target.startswith("https://")
        path = re.sub(rf"^.*/sharpdp/(?:blob/)?v0.2.0/|^(?!{source}).*", "", target)
        assert (ROOT / path).exists(), target
    assert "<table>" in page
    assert "<img" in page
