"""Rooms stay small enough to read: short files, short functions, nothing left for later."""

from __future__ import annotations

import re

import pytest

from tests.architecture.house import Module, body_lines, functions, modules

MOST_LINES_PER_FILE = 400
MOST_LINES_PER_FUNCTION = 40
LEFT_FOR_LATER = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")


def long_files(every: list[Module]) -> list[str]:
    return [
        f"{module.path}: {lines} lines"
        for module in every
        if (lines := len(module.text.splitlines())) > MOST_LINES_PER_FILE
    ]


def long_functions(every: list[Module]) -> list[str]:
    return [
        f"{module.path}:{function.lineno} {function.name}: {lines} lines without its docstring"
        for module in every
        for function in functions(module)
        if (lines := body_lines(function)) > MOST_LINES_PER_FUNCTION
    ]


def test_files_are_short() -> None:
    assert modules()
    assert long_files(modules()) == []


def test_functions_are_short() -> None:
    assert long_functions(modules()) == []


def test_nothing_is_left_for_later() -> None:
    assert [m.path for m in modules() if LEFT_FOR_LATER.search(m.text)] == []


@pytest.mark.parametrize(("lines", "is_long"), [(39, False), (40, True)])
def test_the_function_rule_counts_code_and_not_docstrings(lines: int, is_long: bool) -> None:
    docstring = '    """Fact.\n' + "\n    more" * 60 + '\n    """\n'
    text = "def f():\n" + docstring + "    x = 1\n" * lines
    assert bool(long_functions([Module("m", "m.py", text)])) is is_long


def test_the_file_rule_counts() -> None:
    assert long_files([Module("m", "m.py", "x = 1\n" * 400)]) == []
    assert long_files([Module("m", "m.py", "x = 1\n" * 401)]) != []
