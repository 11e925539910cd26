"""The command `python -m reproduce [NAME] [--quick] [--only ITEM] [--fresh]`.

It ends with 1 if a page or a picture in docs/ had other words than what is computed.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from reproduce.cache import Shelf, shelved
from reproduce.catalog import EVERYTHING, PAPERS
from reproduce.drawing import drawn
from reproduce.pages import index, page, picture_name, screen, with_verdicts, words
from reproduce.progress import LABEL, line
from reproduce.reference import missed
from reproduce.sheets import QUICK, WHOLE, Item, Paper
from reproduce.sources import ROOT, snapshot

DOCS, QUICK_FOLDER = ROOT / "docs", ROOT / "out" / "reproduce"
INTERRUPTED = 130
"""The usual exit status after Ctrl-C."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; a wrong name is answered with the right ones."""
    names = [one.key for one in EVERYTHING]
    parser = argparse.ArgumentParser(
        prog="python -m reproduce",
        description="Five papers again: published values, their methods, and the truth.",
        epilog="Learning experiments: python -m reproduce.learning --help",
    )
    parser.add_argument("name", nargs="?", choices=names, help="one paper; all of them if left out")
    parser.add_argument("--only", metavar="ITEM", help="one table or figure, such as table1")
    parser.add_argument("--quick", action="store_true", help="fewer points, in seconds")
    parser.add_argument("--fresh", action="store_true", help="compute again what is in out/cache")
    told = parser.parse_args(arguments)
    if told.only:
        if told.name is None:
            parser.error("--only needs a paper: python -m reproduce wang2023 --only table1")
        items = [item.name for item in _chosen(told.name)[0].items]
        if told.only not in items:
            parser.error(f"--only: {told.name} has {', '.join(items)}; got {told.only!r}")
    return told


def _chosen(name: str | None) -> list[Paper]:
    return [one for one in EVERYTHING if name in (None, one.key)]


def shown(paper: Paper, item: Item, size: str, folder: Path, stale: list[Path]) -> Any:
    """Compute an item, print it, write its picture; its values."""
    LABEL.set(f"{paper.key} {item.name}")
    values = item.values(size)
    line("")
    print(screen(item, values))
    if item.draw is not None:
        line(f"{LABEL.get()}: drawing")
        text = drawn(item.draw.__module__, item.draw.__name__, item.inches, values)
        line("")
        _written(folder / picture_name(paper.key, item), text, stale)
    return values


def _written(file: Path, text: str, stale: list[Path]) -> None:
    """Write a file if it changes, and tell of it; one that was there with other words is stale."""
    file.parent.mkdir(parents=True, exist_ok=True)
    before = file.read_text("utf-8") if file.exists() else None
    if before != text:
        file.write_text(text, "utf-8")
        if before is not None and words(before, file.name) != words(text, file.name):
            stale.append(file)
    print(f"  -> {file.relative_to(ROOT) if file.is_relative_to(ROOT) else file}")


def _folder(paper: Paper, size: str) -> Path:
    if size == QUICK:
        return QUICK_FOLDER
    return DOCS / "papers" if paper in PAPERS else DOCS


def run(told: argparse.Namespace) -> int:
    """Everything that is asked for; 1 if a reference value was missed, or a page of docs/ is stale."""
    size = QUICK if told.quick else WHOLE
    status = 0
    stale: list[Path] = []
    for paper in _chosen(told.name):
        print(f"\n{paper.key}: {paper.title}\n{'=' * (len(paper.key) + len(paper.title) + 2)}")
        folder = _folder(paper, size)
        items = [
            item
            for item in paper.items
            if item.name == told.only or (not told.only and (size == WHOLE or item.quick))
        ]
        found = [(item, shown(paper, item, size, folder, stale)) for item in items]
        if paper.key == "reference":
            status |= int(missed(found[0][1]))
        if paper in PAPERS and not told.only:
            _written(folder / f"{paper.key}.md", page(paper, found), stale)
    if told.name is None:
        _written(_folder(PAPERS[0], size) / "index.md", index(PAPERS), stale)
        if size == WHOLE:
            table = DOCS / "proofs" / "repaired.md"
            _written(table, with_verdicts(table.read_text("utf-8"), PAPERS), stale)
    if size == QUICK:
        return status
    for file in stale:
        print(f"differs from what was in docs: {file.name}")
    return status | int(bool(stale))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; what is done when it is interrupted stays done."""
    told = options(arguments)
    started = time.monotonic()
    snapshot()
    with shelved(Shelf(fresh=told.fresh)) as kept:
        try:
            status = run(told)
        except KeyboardInterrupt:
            line("")
            print(f"\nInterrupted. {kept.computed} new results are kept and not computed again.")
            return INTERRUPTED
        print(f"\n{kept.computed} computed, {time.monotonic() - started:.1f} s.")
    return status


if __name__ == "__main__":
    sys.exit(main())
