"""Write what the code of a page prints today into its `output` and `console` blocks.

    python -m tests.docs.refresh docs/quickstart.md

Outputs that leave something out (`...`) stay as they are. Read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

from sharpdp.bounds import registry
from tests.docs.pages import ROOT, Block, blocks_of
from tests.docs.test_pages import NEEDS, console_output, is_shown, run


def refreshed(path: Path) -> str:
    """The text of a page with today's outputs. Its code is executed, in the present folder."""
    lines = path.read_text("utf-8").splitlines()
    found = blocks_of(path)
    namespace: dict[str, object] = {"__name__": "__page__"}
    changes: list[tuple[Block, str]] = []
    for block, following in zip(found, [*found, None][1:], strict=True):
        if block.language == "console":
            changes.append((block, _console(block)))
        elif following is None or following.language != "output":
            run(block, namespace)
        else:
            try:
                said = run(block, namespace, following)
            except AssertionError as error:
                said = str(error).partition(" prints\n")[2]
            changes.append((following, _newer(following.text, said)))
    for block, text in reversed(changes):
        start = block.line - 1
        fence = lines[start - 1]
        indent = fence[: len(fence) - len(fence.lstrip())]
        now = [f"{indent}{line}".rstrip() for line in text.splitlines()]
        lines[start : start + len(block.text.splitlines())] = now
    return "\n".join(lines) + "\n"


def _newer(shown: str, said: str) -> str:
    """What is printed, unless the page shows the same; as many lines if the page leaves out the rest.

    Numbers of many digits are doubles as they are, whose last ones depend on the processor.
    """
    if is_shown(shown, said) and ("..." in shown or _words(shown) == _words(said)):
        return shown
    lines, last = shown.splitlines(), said.strip("\n").splitlines()
    if lines and lines[-1] == "...":
        last = [*last[: len(lines) - 1], "..."]
    return "".join(f"{line.rstrip()}\n" for line in last)


def _words(text: str) -> list[str]:
    """The words, with what has more than nine digits replaced."""
    return re.sub(r"\d[\d.]{9,}(e[-+]?\d+)?", "#", text).split()


def _console(block: Block) -> str:
    """A console block with today's answers."""
    text, *parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    for part in parts:
        command = re.match(r"(?:.*\\\n)*.*\n?", part)
        assert command is not None
        shown = part[command.end() :]
        said = console_output(command[0].replace("\\\n", " "), shown, block.page)
        text += f"$ {command[0]}{shown if not shown or said is None else _newer(shown, said)}"
    return text


def in_a_folder(path: Path) -> str:
    """`refreshed` in a folder of its own; bounds that a page registers are gone after it.

    A page whose packages are missing is as it was.
    """
    text, before = path.read_text("utf-8"), Path.cwd()
    if not all(find_spec(name.partition(".")[0]) for name in NEEDS.findall(text)):
        return text
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(registry._REGISTERED):
        os.chdir(folder)
        if "torch" in sys.modules:
            # as every test begins: a page before it may have left a small seed
            sys.modules["torch"].manual_seed(2**60 + 1)
        try:
            return refreshed(path)
        finally:
            os.chdir(before)


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    for page in [(ROOT / name).resolve() for name in sys.argv[1:]]:
        page.write_text(in_a_folder(page), "utf-8")
