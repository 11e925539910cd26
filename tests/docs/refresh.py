"""Write what the code of a page prints today into its `output` blocks.

    python -m tests.docs.refresh docs/quickstart.md

Blocks that leave something out (`...`) stay as they are. Read the difference before you commit it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from unittest import mock

from sharpdp.bounds import registry
from tests.docs.pages import blocks_of
from tests.docs.test_pages import is_shown, run


def refresh(path: Path) -> None:
    """Execute one page, and replace each output that differs."""
    lines = path.read_text("utf-8").splitlines()
    found = blocks_of(path)
    namespace: dict[str, object] = {"__name__": "__page__"}
    changes: list[tuple[int, int, list[str]]] = []
    for block, following in zip(found, [*found, None][1:], strict=True):
        if following is None or following.language != "output":
            run(block, namespace)
            continue
        try:
            said = run(block, namespace, following)
        except AssertionError as error:
            said = str(error).partition(" prints\n")[2]
        if "..." not in following.text and not (following.text and is_shown(following.text, said)):
            start = following.line - 1
            stop = start + len(following.text.splitlines())
            indent = lines[start - 1][: len(lines[start - 1]) - len(lines[start - 1].lstrip())]
            changes.append(
                (start, stop, [f"{indent}{line}".rstrip() for line in said.splitlines()])
            )
    for start, stop, said_lines in reversed(changes):
        lines[start:stop] = said_lines
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    pages = [Path(name).resolve() for name in sys.argv[1:]]
    for page in pages:
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(registry._REGISTERED):
            os.chdir(folder)
            refresh(page)
