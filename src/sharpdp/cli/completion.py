"""Shell completion: scripts that know commands, options and their values, made from the parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass

from sharpdp.cli.calibrations import UNKNOWNS
from sharpdp.cli.comparisons import KINDS, VARIED
from sharpdp.cli.options import build
from sharpdp.cli.parser import Parser, UsageError, quoted
from sharpdp.cli.schemes import SCHEMES
from sharpdp.cli.views import Reply
from sharpdp.nearest_word import hint
from sharpdp.report.json_schema import SCHEMAS

__all__ = ["completion"]

SHELLS = ("bash", "fish", "zsh")

FILES = ("plan", "output", "file", "mechanisms", "mechanism")
"""Words that may be files."""

VALUES: dict[str, tuple[str, ...]] = {
    "adjacency": ("add/remove", "zero-out", "replace-one"),
    "batches": tuple(SCHEMES),
    "document": SCHEMAS,
    "mechanism": ("samplers", *KINDS),
    "over": VARIED,
    "randomizer": ("shared", "individual"),
    "shell": SHELLS,
    "unknown": tuple(word.replace("_", "-") for word in UNKNOWNS),
}
"""Words of which there are few."""


@dataclass(frozen=True)
class Word:
    """An option of a command, or a place without a name: what may stand there."""

    names: tuple[str, ...]
    fact: str
    values: tuple[str, ...]
    is_file: bool
    is_flag: bool


@dataclass(frozen=True)
class Command:
    """A command with its fact and its words."""

    name: str
    fact: str
    words: tuple[Word, ...]

    @property
    def options(self) -> list[str]:
        """The long options."""
        return sorted(one for word in self.words for one in word.names if one.startswith("--"))

    @property
    def places(self) -> Word:
        """What may stand without an option."""
        unnamed = [word for word in self.words if not word.names]
        return unnamed[0] if unnamed else Word((), "", (), is_file=False, is_flag=False)


def completion(options: argparse.Namespace) -> Reply:
    """The script for one shell."""
    if options.shell not in SHELLS:
        ask = hint(options.shell, SHELLS)
        raise UsageError(
            f"the shell must be {', '.join(SHELLS)}; got {quoted(options.shell)}.{ask}"
        )
    _, parsers = build("")
    known = [_command(name, parser) for name, parser in parsers.items()]
    lines = {"bash": _bash, "fish": _fish, "zsh": _zsh}[options.shell](known)
    return Reply(lines, {"shell": options.shell, "script": "\n".join(lines)})


def _command(name: str, parser: Parser) -> Command:
    words = tuple(_word(action) for action in parser._actions)
    return Command(name, (parser.description or "").rstrip("."), words)


def _word(action: argparse.Action) -> Word:
    values = _bounds() if action.dest == "names" else VALUES.get(action.dest, ())
    is_flag = bool(action.option_strings) and action.nargs == 0
    names = tuple(action.option_strings)
    return Word(names, action.help or "", values, action.dest in FILES, is_flag)


def _bounds() -> tuple[str, ...]:
    from sharpdp.bounds import all_bounds

    return tuple(one.name for one in all_bounds())


def _by_option(known: Iterable[Command]) -> dict[tuple[str, ...], Word]:
    """Every option that takes a value, once: one name means the same everywhere."""
    words = (word for command in known for word in command.words)
    return {word.names: word for word in words if word.names and not word.is_flag}


def _bash(known: list[Command]) -> list[str]:
    """For bash: source <(sharpdp completion bash)."""
    lines = [
        "_sharpdp() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        "  COMPREPLY=()",
        '  if [ "$COMP_CWORD" -eq 1 ]; then',
        f'    words="{" ".join(one.name for one in known)} --help --version"',
        '    COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "    return",
        "  fi",
        '  case "$before" in',
    ]
    for names, one in _by_option(known).items():
        files = "compopt -o default; " if one.is_file else ""
        lines.append(
            f"    {'|'.join(names)}) {files}"
            f'COMPREPLY=($(compgen -W "{" ".join(one.values)}" -- "$word")); return ;;'
        )
    lines += ["  esac", '  case "${COMP_WORDS[1]}:$word" in']
    for command in known:
        lines.append(f'    {command.name}:-*) words="{" ".join(command.options)}" ;;')
        place = command.places
        files = "compopt -o default; " if place.is_file else ""
        lines.append(f'    {command.name}:*) {files}words="{" ".join(place.values)}" ;;')
    return [
        *lines,
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -F _sharpdp sharpdp",
    ]


def _zsh(known: list[Command]) -> list[str]:
    """For zsh: source <(sharpdp completion zsh)."""
    lines = [
        "#compdef sharpdp",
        "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }",
        "_sharpdp() {",
        "  local -a commands",
        "  commands=(",
        *(f"    {_single(f'{one.name}:{one.fact}')}" for one in known),
        "  )",
        "  if (( CURRENT == 2 )); then _describe command commands; return; fi",
        '  case "$words[CURRENT-1]" in',
    ]
    for names, one in _by_option(known).items():
        offers = f"compadd -- {' '.join(one.values)}" if one.values else ":"
        lines.append(f"    {'|'.join(names)}) {'_files' if one.is_file else offers}; return ;;")
    lines += ["  esac", '  case "$words[2]:$words[CURRENT]" in']
    for command in known:
        lines.append(f"    {command.name}:-*) compadd -- {' '.join(command.options)} ;;")
        place = command.places
        added = [f"compadd -- {' '.join(place.values)}"] if place.values else []
        added += ["_files"] if place.is_file else []
        lines.append(f"    {command.name}:*) {'; '.join(added) or ':'} ;;")
    return [*lines, "  esac", "}", "compdef _sharpdp sharpdp"]


def _fish(known: list[Command]) -> list[str]:
    """For fish: sharpdp completion fish | source."""
    lines = ["complete -c sharpdp -f"]
    lines += [
        f"complete -c sharpdp -n __fish_use_subcommand -a {one.name} -d {_single(one.fact)}"
        for one in known
    ]
    for command in known:
        start = f"complete -c sharpdp -n '__fish_seen_subcommand_from {command.name}'"
        for word in command.words:
            names = "".join(
                f" -l {one[2:]}" if one.startswith("--") else f" -s {one[1:]}" for one in word.names
            )
            takes = "" if word.is_flag or not word.names else " -r" if word.is_file else " -x"
            files = " -F" if word.is_file else ""
            values = f" -a {_single(' '.join(word.values))}" if word.values else ""
            fact = f" -d {_single(word.fact)}" if word.names else ""
            if word.names or word.values or word.is_file:
                lines.append(f"{start}{names}{takes}{files}{values}{fact}")
    return lines


def _single(text: str) -> str:
    """The text in single quotes, without any inside, which shells write in different ways.

    >>> _single("the reader's delta")
    "'the readers delta'"
    """
    return "'" + text.replace("'", "") + "'"
