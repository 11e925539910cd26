"""How a command line is read, and what is said about a wrong one. Only the standard library.

Which commands and options there are is said by `commands`, what they do by `ask`, `choose` and
`document`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any, NoReturn

from sharpdp.display.nearest_word import hint

__all__ = [
    "PAGES",
    "HelpRequested",
    "Parser",
    "Several",
    "UsageError",
    "Varied",
    "cut",
    "flag",
    "is_plan",
    "number",
    "quoted",
]

PAGES = (".html", ".htm")
"""Endings of reports that are pages."""


class UsageError(Exception):
    """A command line that cannot be understood; the message is one sentence about it."""


class HelpRequested(Exception):
    """A text that was asked for instead of an answer: the help, or the version."""


class Several(tuple[Any, ...]):
    """The values of an option that was given more than one: the command is run for each of them."""


class Varied(argparse.Action):
    """An option of which one value is a setting, and several are a sweep over it."""

    def __init__(self, option_strings: list[str], dest: str, **settings: Any) -> None:
        """Take one value or more."""
        super().__init__(option_strings, dest, nargs="+", **settings)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Keep one value as it is, several in their order."""
        setattr(namespace, self.dest, values[0] if len(values) == 1 else Several(values))


class Parser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one sentence and asks whether a word was meant.

    `runs` are groups of options that describe a run, by the words after which the help shows them; if
    none of these words was given, the help only says that there are such options.
    """

    def __init__(self, **settings: Any) -> None:
        """Take -1e-3 for a number, as argparse takes -1 for one: whether it may be is said later."""
        super().__init__(
            **settings,
            allow_abbrev=False,
            formatter_class=lambda prog: _Formatter(prog, max_help_position=36),
        )
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self.runs: dict[str, argparse._ArgumentGroup] = {}
        self.shown_run: str | None = None

    def format_help(self) -> str:
        """The help, with the options of one kind of run at most if the command takes several."""
        hidden = [group for name, group in self.runs.items() if name != self.shown_run]
        if len(self.runs) < 2:
            hidden = []
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        _, general, *others = self._action_groups  # positional arguments are explained below
        for group in (*others, general):
            if group not in hidden:
                formatter.start_section(group.title)
                formatter.add_arguments(group._group_actions)
                formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def print_help(self, file: Any = None) -> NoReturn:
        """Give the help to whoever writes answers."""
        raise HelpRequested(self.format_help().rstrip("\n"))

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        sentence = message.removeprefix("argument ").replace(": must be", " must be")
        end = "" if sentence.endswith((".", "?")) else "."
        if sentence.startswith("unrecognized") and is_plan(sentence):
            end = f". Did you mean --plan {sentence.split()[-1]}?"
        raise UsageError(f"{self.prog}: {sentence}{end}")

    def check(self, words: Iterable[str]) -> None:
        """Refuse a long option that does not exist, before argparse misses another one."""
        options = [word for word in self._option_string_actions if word.startswith("--")]
        for word in words:
            name = word.partition("=")[0]
            if word.startswith("--") and word != "--" and name not in options:
                ask = hint(name, options, f"See {self.prog} --help.")
                self.error(f"there is no option {cut(name)}.{ask}")


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help that says shortly where an option takes several values."""

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if isinstance(action, Varied):
            return f"{action.metavar} ..."
        return super()._format_args(action, default_metavar)


def is_plan(text: str) -> bool:
    """Whether a word names a plan file, a report (which has a plan in it), or standard input.

    >>> is_plan("plan.toml"), is_plan("-"), is_plan("laplace scale=1")
    (True, True, False)
    """
    return text == "-" or text.lower().endswith((".toml", ".json", *PAGES))


def flag(word: str) -> str:
    """The option that has the name of a parameter.

    >>> flag("batch_size")
    '--batch-size'
    """
    return f"--{word.replace('_', '-')}"


def cut(word: str) -> str:
    """A word in so few characters that a sentence can hold it."""
    return word if len(word) <= 60 else f"{word[:60]}..."


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
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    ask = ""
    if is_plan(text):
        ask = " Name the plan before the options, or by --plan."
    elif re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        ask = f" Write {text.replace(',', '')}."
    elif short := re.fullmatch(r"(\d{1,6})([kKM])", text):
        ask = f" Write {int(short[1]) * (1000 if short[2] in 'kK' else 1_000_000)}."
    raise argparse.ArgumentTypeError(f"must be a number; got {quoted(text)}.{ask}")
