"""The command line `sharpdp`: the words of the API with dashes, one answer per call.

Answers go to standard output; a wrong command line gets one sentence on standard error and exit
code 2, a question that cannot be answered exit code 1. Nothing heavy is imported before it is
needed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence

from sharpdp.cli.parser import Misuse, parsed
from sharpdp.errors import InvalidArgument, SharpDPError, Unsupported

__all__ = ["main"]

PLACES = ("plan", "names", "shell")
"""Words of the command line that are told by their place and not by an option."""


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of one command line; None stands for the one that this process was given."""
    if "numpy" not in sys.modules:  # one answer keeps one thread busy; more only cost their start
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from sharpdp import __version__

    known: list[str] = []
    try:
        options = parsed(sys.argv[1:] if words is None else list(words), __version__)
        known = [name for name in vars(options) if name not in PLACES]
        from sharpdp.cli.commands import COMMANDS

        reply = COMMANDS[options.command](options)
    except Misuse as wrong:
        return _refused(str(wrong), 2)
    except (InvalidArgument, Unsupported) as wrong:
        return _refused(_in_options(str(wrong), known), 2)
    except SharpDPError as wrong:
        return _refused(str(wrong), 1)
    except KeyboardInterrupt:
        return 130
    text = json.dumps(reply.data, indent=2) if options.json else "\n".join(reply.lines)
    return _written(text)


def _written(text: str) -> int:
    """Print; a reader that has gone away is no error of ours."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _refused(sentence: str, code: int) -> int:
    start = "" if sentence.startswith("sharpdp") else "sharpdp: "
    sys.stderr.write(f"{start}{sentence}\n")
    return code


def _in_options(message: str, known: list[str]) -> str:
    """A message of the API in the words of the command line, where it means one of its options.

    >>> _in_options("batch_size must be at least 1; give steps= instead.", ["batch_size", "steps"])
    '--batch-size must be at least 1; give --steps instead.'
    """
    for name in known:
        word = name if "_" in name else rf"{name}(?==| must\b| and [-\w]+ must\b)"
        # not inside another option: --local-epsilon ends in a word that is one, too
        message = re.sub(rf"(?<![\w.-]){word}=?", f"--{name.replace('_', '-')}", message)
    return message
