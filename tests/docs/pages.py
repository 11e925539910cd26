"""The code that README.md, CONTRIBUTING.md and the pages of docs/ show: fenced blocks, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w{}-]*)[^\n]*$")
# A comment that readers do not see, with code that holds the page to what it says.
CHECK = "check"
HIDDEN = "<!-- check"
# What a reader could run. Any other language on a fence must be one of these two lists.
RUN = {"python", "output", "console", CHECK}
SHOWN = {"", "bash", "bibtex", "text", "toml"}
SHOWN |= {
    "{automodule}",
    "{eval-rst}",
    "{image}",
    "{include}",
    "{literalinclude}",
    "{raw}",
    "{toctree}",
}


@dataclass(frozen=True)
class Block:
    """One fenced block: where its first line of code stands, its language and its text."""

    page: str
    line: int
    language: str
    text: str


def pages() -> list[Path]:
    """README.md, CONTRIBUTING.md and every Markdown page of the documentation."""
    written = sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts)
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *written]


def blocks(text: str, page: str = "page") -> list[Block]:
    """Every fenced block of a Markdown text; an unclosed fence is an error."""
    found: list[Block] = []
    opening: re.Match[str] | None = None
    inside: list[str] = []
    start, hidden = 0, False
    for number, line in enumerate(text.splitlines(), start=1):
        if opening is None and line == HIDDEN:
            hidden, inside, start = True, [], number + 1
            continue
        if hidden and line == "-->":
            found.append(Block(page, start, CHECK, "".join(f"{part}\n" for part in inside)))
            hidden = False
            continue
        match = None if hidden else FENCE.match(line)
        if opening is None and match:
            opening, inside, start = match, [], number + 1
        elif opening is not None and line.strip() == opening["ticks"]:
            body = "".join(f"{part.removeprefix(opening['indent'])}\n" for part in inside)
            found.append(Block(page, start, opening["language"], body))
            opening = None
        else:
            inside.append(line)
    if opening is not None or hidden:
        raise ValueError(f"{page}: the fence opened before line {start} is never closed")
    return found


def blocks_of(path: Path) -> list[Block]:
    """Every fenced block of one page."""
    return blocks(path.read_text("utf-8"), str(path.relative_to(ROOT)))
