"""Every example a reader can copy runs: README.md and docs/, each page in one fresh namespace.

`python` blocks are executed and `pycon` blocks doctested, in order of appearance; in `console`
blocks every `$ sharpdp` line must succeed and print what the page shows (`...` matches anything), or be
refused with the sentence that the page shows; `$ cat FILE` shows a file that the reader has.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from sharpdp import __version__
from sharpdp.bounds import registry
from sharpdp.cli import main
from tests.docs.pages import ROOT, RUN, SHOWN, Block, blocks, blocks_of, pages

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
REFUSAL = re.compile(r"sharpdp(?: [\w-]+)?: ")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


LONG = ("tutorials/audit.md", "federated.md", "honest-epsilon.md", "private-collection.md")
"""Tutorials that train or compare for long: `make test-slow` runs them."""


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path,
            id=str(path.relative_to(ROOT)),
            marks=[pytest.mark.slow] if path.as_posix().endswith(LONG) else [],
        )
        for path in pages()
    ],
)
def test_examples_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    # bounds that a page registers are gone after it
    monkeypatch.setattr(registry, "_REGISTERED", dict(registry._REGISTERED))
    namespace: dict[str, object] = {"__name__": "__page__"}
    for block in blocks_of(path):
        run(block, namespace)


def test_readme_answers_its_question_with_code() -> None:
    assert RUN & {block.language for block in blocks_of(ROOT / "README.md")}


def test_no_block_is_overlooked() -> None:
    for path in pages():
        for block in blocks_of(path):
            assert block.language in RUN | SHOWN, f"{block.page}:{block.line}"
            is_code = "import sharpdp" in block.text or block.text.startswith("sharpdp ")
            assert block.language in RUN or not is_code, f"{block.page}:{block.line} is not run"


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def run(block: Block, namespace: dict[str, object]) -> None:
    if block.language == "python":
        padding = "\n" * (block.line - 1)  # so that a traceback shows the line of the page
        code = compile(padding + block.text, block.page, "exec", dont_inherit=True)
        exec(code, namespace)
    elif block.language == "pycon":
        run_session(block, namespace)
    elif block.language == "console":
        run_console(block)


def run_session(block: Block, namespace: dict[str, object]) -> None:
    name = f"{block.page}:{block.line}"
    test = doctest.DocTestParser().get_doctest(block.text, {}, name, block.page, block.line - 1)
    assert test.examples, f"{name} has no >>> line"
    test.globs = namespace
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)


def run_console(block: Block) -> None:
    for command, shown in commands(block.text):
        arguments = shlex.split(command)
        if arguments[0] == "cat" and shown:
            Path(arguments[1]).write_text(shown, "utf-8")
        if arguments[0] != "sharpdp":
            continue
        answer, complaint = io.StringIO(), io.StringIO()
        for stage in command.split(" | "):
            stdin, answer = io.StringIO(answer.getvalue()), io.StringIO()
            # in this process: its start takes longer than most answers
            with (
                contextlib.redirect_stdout(answer),
                contextlib.redirect_stderr(complaint),
                mock.patch("sys.stdin", stdin),
            ):
                code = main(shlex.split(stage)[1:])
        is_refused = REFUSAL.match(shown) is not None
        said = (complaint if is_refused else answer).getvalue()
        assert code == (2 if is_refused else 0), f"{block.page}: {command}\n{complaint.getvalue()}"
        is_same = doctest.OutputChecker().check_output(shown, said, FLAGS)
        assert is_same or not shown, f"{block.page}: {command} prints\n{said}"


def test_the_command_is_installed() -> None:
    script = Path(sys.executable).parent / "sharpdp"
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert __version__ in done.stdout


def commands(text: str) -> list[tuple[str, str]]:
    """(command, shown output) of every `$` line; a trailing backslash continues the command."""
    found: list[tuple[str, str]] = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.replace("\\\n", " ").partition("\n")
        found.append((command, shown))
    return found


def test_blocks_are_found_with_their_lines() -> None:
    text = "a\n```python\nx = 1\n```\n\n- item\n  ```pycon\n  >>> x\n  1\n  ```\n"
    assert blocks(text) == [
        Block("page", 3, "python", "x = 1\n"),
        Block("page", 8, "pycon", ">>> x\n1\n"),
    ]


def test_an_unclosed_fence_is_an_error() -> None:
    with pytest.raises(ValueError, match="never closed"):
        blocks("```python\nx = 1\n")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "assert x == 2\n"),
        ("python", "raise ValueError\n"),
        ("pycon", ">>> x\n2\n"),
        ("pycon", "no prompt\n"),
        ("console", "$ sharpdp no-such-command\n"),
        ("console", "$ sharpdp no-such-command\nsharpdp: another sentence.\n"),
        ("console", "$ sharpdp --version\nsharpdp: a sentence.\n"),
    ],
)
def test_a_wrong_block_fails(language: str, text: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        run(Block("page", 1, language, text), {"x": 1})


def test_commands_are_split() -> None:
    text = "$ sharpdp bounds \\\n  --json\n[]\n$ make test\n"
    assert commands(text) == [("sharpdp bounds    --json", "[]\n"), ("make test", "")]
