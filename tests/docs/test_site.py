"""The site builds without a warning, loads nothing from elsewhere, and has no dead ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.docs.site import dead_ends, fetched_elsewhere


def test_the_site_stands_on_its_own(tmp_path: Path) -> None:
    """One test, so that the site is built once."""
    site = tmp_path / "html"
    build = ["-W", "--keep-going", "-n", "-q", "-b", "html", "-d", str(tmp_path / "read")]
    command = [sys.executable, "-m", "sphinx", *build, str(ROOT / "docs"), str(site)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert fetched_elsewhere(site) == []
    assert dead_ends(site) == []
    assert "<math " in (site / "shuffle-proof.html").read_text("utf-8")


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
    assert len(fetched_elsewhere(tmp_path)) == 1


def test_links_that_a_reader_may_follow_are_not_fetched(tmp_path: Path) -> None:
    text = '<a href="https://doi.org/x">paper</a><link rel="canonical" href="https://x.example">'
    (tmp_path / "a.html").write_text(text, "utf-8")
    assert fetched_elsewhere(tmp_path) == []


@pytest.mark.parametrize("target", ["b.html", "#no", "a.html#no", "pictures/x.png"])
def test_a_dead_end_is_seen(tmp_path: Path, target: str) -> None:
    (tmp_path / "a.html").write_text(f'<h1 id="yes"></h1><a href="{target}">x</a>', "utf-8")
    assert len(dead_ends(tmp_path)) == 1


@pytest.mark.parametrize(
    "target", ["a.html", "#yes", "a.html#yes", "https://x.example", "b%20c.txt"]
)
def test_a_live_link_is_none(tmp_path: Path, target: str) -> None:
    (tmp_path / "b c.txt").write_text("", "utf-8")
    (tmp_path / "a.html").write_text(f'<h1 id="yes"></h1><a href="{target}">x</a>', "utf-8")
    assert dead_ends(tmp_path) == []
