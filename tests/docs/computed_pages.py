"""`make pages`: compute again what the documentation shows, and fail if a text in the tree differs.

    python -m tests.docs.computed_pages

Outputs of pages, the terminal, the pictures of the tutorials and the reproduced papers. Of pictures only
the words count: lines depend on the renderer. Tests run the quick part (`tests/docs`).
"""

from __future__ import annotations

import subprocess
import sys

from reproduce.pages import words

from tests.docs.pages import ROOT, pages
from tests.docs.test_pages import LONG


def steps() -> list[list[str]]:
    """The commands that write everything which is computed; tutorials with random draws are left out."""
    kept = [path for path in pages() if not path.as_posix().endswith(LONG)]
    return [
        ["-m", "tests.docs.refresh", *(str(path) for path in kept)],
        ["examples/terminal.py"],
        ["docs/tutorials/pictures.py"],
        ["-m", "reproduce", "--fresh"],
    ]


def changed() -> list[str]:
    """Files whose words are not those of the last commit; PNGs are held to their words by tests."""
    names = subprocess.check_output(["git", "diff", "--name-only"], cwd=ROOT, text=True).split()
    found = []
    for name in names:
        if name.endswith((".md", ".svg")):
            before = subprocess.check_output(["git", "show", f"HEAD:{name}"], cwd=ROOT, text=True)
            if words(before, name) != words((ROOT / name).read_text("utf-8"), name):
                found.append(name)
    return found


def main() -> int:
    """Run all steps, then name what differs; 1 if a text does, or if a step failed."""
    failed = [subprocess.run([sys.executable, *step], cwd=ROOT).returncode for step in steps()]
    stale = changed()
    for name in stale:
        sys.stdout.write(f"differs: {name}\n")
    return int(any(failed) or bool(stale))


if __name__ == "__main__":
    sys.exit(main())
