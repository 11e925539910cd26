"""Every example a reader can copy runs: README.md and docs/, each page in one fresh namespace.

`python` blocks are executed in order of appearance, and an `output` block is what the block before
it prints, or the error that it ends in (numbers to four digits; `...` matches anything). A comment
that begins with `<!-- check` holds code that readers do not see. In `console` blocks every `$
sharpdp` line must succeed and print what the page shows, or be refused with the sentence that the
page shows; `$ cat FILE` shows a file that the reader has. `python -m tests.docs.refresh PAGE`
writes what is printed today into a page.
"""

from __future__ import annotations

import contextlib
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
from tests.docs.pages import CHECK, ROOT, RUN, SHOWN, Block, blocks, blocks_of, pages

NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w])")
RELATIVE = 1e-4
REFUSAL = re.compile(r"sharpdp(?: [\w-]+)?: ")
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)")


NEEDS = re.compile(r"^<!-- needs ([\w.]+) -->$", re.MULTILINE)
"""A page about a package that is not always there says so in a comment."""

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
    for package in NEEDS.findall(path.read_text("utf-8")):
        pytest.importorskip(
            package, reason=f"make test-frameworks gets {package}", exc_type=ImportError
        )
    found = blocks_of(path)
    for block, following in zip(found, [*found, None][1:], strict=True):
        shown = following if following and following.language == "output" else None
        run(block, namespace, shown)


def test_readme_answers_its_question_with_code() -> None:
    assert RUN & {block.language for block in blocks_of(ROOT / "README.md")}


def test_no_block_is_overlooked() -> None:
    for path in pages():
        before = ""
        for block in blocks_of(path):
            assert block.language in RUN | SHOWN, f"{block.page}:{block.line}"
            assert block.language != "output" or before == "python", f"{block.page}:{block.line}"
            before = block.language
            is_code = "import sharpdp" in block.text or block.text.startswith("sharpdp ")
            assert block.language in RUN or not is_code, f"{block.page}:{block.line} is not run"


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def run(block: Block, namespace: dict[str, object], shown: Block | None = None) -> str:
    """Execute one block; what it prints, which is held to the block that shows it."""
    if block.language == "console":
        run_console(block)
    if block.language not in ("python", CHECK):
        return ""
    padding = "\n" * (block.line - 1)  # so that a traceback shows the line of the page
    code = compile(padding + block.text, block.page, "exec", dont_inherit=True)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            exec(code, namespace)
    except Exception as error:
        if shown is None:
            raise
        said.write(
            f"{type(error).__module__}.{type(error).__name__}: {error}\n".removeprefix("builtins.")
        )
    if shown is not None:
        assert is_shown(shown.text, said.getvalue()), (
            f"{block.page}:{block.line} prints\n{said.getvalue()}"
        )
    return said.getvalue()


def is_shown(shown: str, said: str) -> bool:
    """Whether a page shows what is printed: the same words, and numbers to four digits.

    The word `...` stands for any words, and dots at the end of a number for its further digits.
    """
    words = said.split()
    reached = {0}  # how many of the printed words the words so far may stand for
    for word in shown.replace("<BLANKLINE>", "").split():
        if word == "...":
            reached = set(range(min(reached, default=len(words) + 1), len(words) + 1))
        else:
            reached = {end + 1 for end in reached if end < len(words) and is_word(word, words[end])}
    return len(words) in reached


def is_word(shown: str, said: str) -> bool:
    """Whether a word of the page is the one that is printed."""
    if "..." in shown:
        pattern = ".*".join(map(re.escape, shown.split("...")))
        return re.fullmatch(pattern, said, re.DOTALL) is not None
    if NUMBER.sub("#", shown) != NUMBER.sub("#", said):
        return False
    return all(map(is_close, NUMBER.findall(shown), NUMBER.findall(said)))


def is_close(shown: str, said: str) -> bool:
    """Counts must be equal; of other numbers the last digit that is shown may differ."""
    if not re.search(r"[.e]", shown + said):
        return shown == said
    digits, _, exponent = shown.partition("e")
    unit = 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
    return abs(float(shown) - float(said)) <= max(1.01 * unit, RELATIVE * abs(float(said)))


def run_console(block: Block) -> None:
    for command, shown in commands(block.text):
        said = console_output(command, shown, block.page)
        assert not shown or said is None or is_shown(shown, said), (
            f"{block.page}: {command} prints\n{said}"
        )


def console_output(command: str, shown: str, page: str) -> str | None:
    """What `$ sharpdp` prints, or how it refuses if that is shown; None for other commands."""
    arguments = shlex.split(command)
    if arguments[0] == "cat" and shown:
        Path(arguments[1]).write_text(shown, "utf-8")
    if arguments[0] != "sharpdp":
        return None
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
    assert code == (2 if is_refused else 0), f"{page}: {command}\n{complaint.getvalue()}"
    return (complaint if is_refused else answer).getvalue()


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
    text = (
        "a\n```python\nx = 1\n```\n\n- item\n  ```output\n  1\n  ```\n<!-- check\nassert x\n-->\n"
    )
    assert blocks(text) == [
        Block("page", 3, "python", "x = 1\n"),
        Block("page", 8, "output", "1\n"),
        Block("page", 11, "check", "assert x\n"),
    ]


def test_an_unclosed_fence_is_an_error() -> None:
    with pytest.raises(ValueError, match="never closed"):
        blocks("```python\nx = 1\n")


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "assert x == 2\n"),
        ("python", "raise ValueError\n"),
        ("check", "assert x == 2\n"),
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


@pytest.mark.parametrize(
    ("shown", "said", "is_same"),
    [
        ("1.8282 <= epsilon", "1.82823 <= epsilon", True),
        ("1.828 <= epsilon", "1.831 <= epsilon", False),
        ("1.828 <= epsilon", "1.828 <= delta", False),
        ("118 batches", "119 batches", False),
        ("1e-26", "2e-26", True),
        ("1.1e-26", "1.3e-26", False),
        ("4.5 to 4.6", "4.5", False),
        ("chua2024 Theorem 3.1", "chua2025 Theorem 3.1", False),
        ("sharpdp.errors.Unsupported: no ...", "sharpdp.errors.Unsupported: no scheme", True),
        ("1.82 <= ... certified", "1.8282 <= epsilon <= 1.8283, certified", True),
        ("1.82 <= ... certified", "1.8282 <= epsilon", False),
        ("0.1305..., and", "0.13052, and", True),
        ("0.1305..., and", "0.13142, and", False),
        ("... end", "no", False),
    ],
)
def test_numbers_are_compared_to_four_digits(shown: str, said: str, is_same: bool) -> None:
    assert is_shown(shown, said) == is_same


def test_an_error_is_shown_by_its_last_line() -> None:
    block = Block("page", 1, "python", "print(1)\n1 / 0\n")
    run(block, {}, Block("page", 4, "output", "1\nZeroDivisionError: division by zero\n"))
    with pytest.raises(AssertionError):
        run(block, {}, Block("page", 4, "output", "1\n"))
