"""How a command line is read, and what is said about a wrong one. Only the standard library.

Which commands and options there are is said by `options`, what they mean by `commands`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from sharpdp.nearest_word import hint

__all__ = [
    "PLANS",
    "UsageError",
    "Parser",
    "HelpRequested",
    "cut",
    "flag",
    "number",
    "quoted",
]

PLANS = (".toml", ".json")
"""How the names of plan files end."""

LONGEST_WORD = 60
"""Longer words of a command line are cut where they are repeated."""


class UsageError(Exception):
    """A command line that cannot be understood; the message is one sentence about it."""


class HelpRequested(Exception):
    """A text that was asked for instead of an answer: the help, or the version."""


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence and asks whether a word was meant."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        """Take -1e-3 for a number, as argparse takes -1 for one: whether it may be is said later."""
        super().__init__(*arguments, **settings)
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def print_help(self, file: Any = None) -> NoReturn:
        """Give the help to whoever writes answers."""
        raise HelpRequested(self.format_help().rstrip("\n"))

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        sentence = message.removeprefix("argument ").replace(": must be", " must be")
        end = "" if sentence.endswith((".", "?")) else "."
        if sentence.startswith("unrecognized") and sentence.endswith(PLANS):
            end = f". Did you mean --plan {sentence.split()[-1]}?"
        raise UsageError(f"{self.prog}: {sentence}{end}")

    def check(self, words: Iterable[str]) -> None:
        """Refuse a long option that does not exist, before argparse misses another one."""
        known = [word for word in self._option_string_actions if word.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if word.startswith("--") and word != "--" and name not in known:
                ask = hint(name, known, f"See {self.prog} --help.")
                self.error(f"there is no option {cut(name)}.{ask}")


def flag(word: str) -> str:
    """The option that has the name of a parameter.

    >>> flag("batch_size")
    '--batch-size'
    """
    return f"--{word.replace('_', '-')}"


def cut(word: str) -> str:
    """A word in so few characters that a sentence can hold it."""
    return word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}..."


def quoted(word: str) -> str:
    """A word in quotes, as a message repeats it.

    >>> quoted("a" * 100)[-8:]
    "aaaa...'"
    """
    return repr(cut(word))


def number(text: str) -> int | float:
    """The number that a text spells.

    >>> number("1000"), number("1e-5")
    (1000, 1e-05)
    """
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        ask = " Name the plan before the options, or by --plan." if text.endswith(PLANS) else ""
        raise argparse.ArgumentTypeError(f"must be a number; got {quoted(text)}.{ask}") from None
