"""A built site as a reader's browser meets it: what each page loads, links to, and offers as a target."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data"}
OF_A_STYLE = re.compile(r"""(?:@import\s+(?:url\()?|url\()\s*["']?([^"')]+)""")
ELSEWHERE = ("http:", "https:", "//")
# Kinds of <link> that make a browser fetch something.
FETCHED = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "manifest"}


@dataclass
class Page(HTMLParser):
    """One page: what it loads, where it links to, and its anchors."""

    path: Path
    loads: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if given.get("id"):
            self.anchors.add(given["id"])
        if tag in LOADS and given.get(LOADS[tag]):
            self.loads.append(given[LOADS[tag]])
        if tag == "link" and FETCHED & set(given.get("rel", "").split()):
            self.loads.append(given.get("href", ""))
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        self.loads += OF_A_STYLE.findall(given.get("style", ""))


Pages = dict[Path, Page]


def read(root: Path) -> Pages:
    """Every page of a site."""
    return {path.resolve(): Page(path) for path in sorted(root.rglob("*.html"))}


def fetched_elsewhere(root: Path, pages: Pages) -> list[str]:
    """Everything that a page or a style sheet would fetch from another machine."""
    found = []
    for path, page in pages.items():
        found += [f"{path.name}: {one}" for one in page.loads if one.startswith(ELSEWHERE)]
    for path in sorted(root.rglob("*.css")):
        named = OF_A_STYLE.findall(path.read_text("utf-8"))
        found += [f"{path.name}: {one}" for one in named if one.startswith(ELSEWHERE)]
    return found


def dead_ends(root: Path, pages: Pages) -> list[str]:
    """Links and images within the site that lead nowhere, targets within pages included."""
    found = []
    for path, page in pages.items():
        for one in [*page.links, *page.loads]:
            parts = urlsplit(one)
            if parts.scheme or one.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            is_known = target.exists()
            if is_known and parts.fragment and target in pages:
                is_known = unquote(parts.fragment) in pages[target].anchors
            if not is_known:
                found.append(f"{path.relative_to(root.resolve())}: {one}")
    return found
