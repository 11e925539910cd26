"""Shell completion: a script that knows every command and its options, made from the parser."""

from __future__ import annotations

import argparse
from typing import Any

from sharpdp.cli.parser import Misuse, Parser, build, nearest

__all__ = ["completion"]

SHELLS = ("bash", "fish", "zsh")


def completion(options: argparse.Namespace) -> tuple[list[str], dict[str, Any]]:
    """The script for one shell."""
    if options.shell not in SHELLS:
        meant = nearest(options.shell, SHELLS)
        ask = f" Did you mean {meant}?" if meant else ""
        raise Misuse(f"the shell must be {', '.join(SHELLS)}; got {options.shell!r}.{ask}")
    _, commands = build("")
    known = {name: _options(parser) for name, parser in commands.items()}
    lines = {"bash": _bash, "fish": _fish, "zsh": _zsh}[options.shell](known)
    return lines, {"shell": options.shell, "script": "\n".join(lines)}


def _options(parser: Parser) -> list[str]:
    words = [word for action in parser._actions for word in action.option_strings]
    return sorted(word for word in words if word.startswith("--"))


def _bash(known: dict[str, list[str]]) -> list[str]:
    """For bash: source <(sharpdp completion bash)."""
    cases = [f'    {name}) words="{" ".join(words)}" ;;' for name, words in known.items()]
    return [
        "_sharpdp() {",
        "  local words",
        '  case "${COMP_WORDS[1]}" in',
        *cases,
        f'    *) words="{" ".join(known)}" ;;',
        "  esac",
        '  [ "$COMP_CWORD" -eq 1 ] && words="' + " ".join(known) + '"',
        '  COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))',
        "}",
        "complete -o default -F _sharpdp sharpdp",
    ]


def _zsh(known: dict[str, list[str]]) -> list[str]:
    """For zsh: source <(sharpdp completion zsh)."""
    return ["autoload -U +X bashcompinit && bashcompinit", *_bash(known)]


def _fish(known: dict[str, list[str]]) -> list[str]:
    """For fish: sharpdp completion fish | source."""
    names = " ".join(known)
    lines = [f"complete -c sharpdp -n __fish_use_subcommand -f -a '{names}'"]
    for name, words in known.items():
        for word in words:
            lines.append(
                f"complete -c sharpdp -n '__fish_seen_subcommand_from {name}' -l {word[2:]}"
            )
    return lines
