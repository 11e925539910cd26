"""How tests are collected: each module of the package once, and on every platform that is listed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
POSIX = {"fcntl", "grp", "pty", "pwd", "resource", "termios"}
"""Modules that Windows lacks."""


def test_examples_run_whatever_is_collected_first() -> None:
    """The first module was executed twice: classes of one name were told apart."""
    source = ROOT / "src" / "sharpdp"
    first, second = "mechanisms/strategies.py", "bounds/correlated_noise/theorems.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, str(source / first), str(source / second)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def core_files() -> list[Path]:
    """The files of tests that run on every platform."""
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text("utf-8")
    (places,) = re.findall(r"run: python -m pytest ((?:tests\S* ?)+)$", workflow, re.MULTILINE)
    found = [ROOT / place for place in places.split()]
    return [
        path
        for place in found
        for path in ([place] if place.suffix else sorted(place.rglob("*.py")))
    ]


@pytest.mark.parametrize("path", core_files(), ids=lambda path: path.stem)
def test_modules_that_windows_lacks_are_imported_by_the_tests_that_need_them(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    names = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not names & POSIX
