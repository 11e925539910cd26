"""The command line `sharpdp`: the words of the API with dashes, one answer per call.

Answers go to standard output; a wrong command line gets one sentence on standard error and exit
code 2, a question that cannot be answered exit code 1. Nothing heavy is imported before it is
needed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from sharpdp.cli.commands import function_of, parsed
from sharpdp.cli.parser import HelpRequested, UsageError
from sharpdp.cli.swept import answered, as_csv
from sharpdp.display.progress import progress
from sharpdp.errors import Contradiction, InvalidArgument, SharpDPError, Unsupported

if TYPE_CHECKING:
    from sharpdp.cli.views import Reply

__all__ = ["main"]

ISSUES = "https://github.com/sharpdp/sharpdp/issues"

TRACEBACKS = "SHARPDP_TRACEBACK"
"""The environment variable with which unforeseen errors are shown with all calls."""


def main(words: Sequence[str] | None = None) -> int:
    """The exit code of one command line; None stands for the one that this process was given."""
    if "numpy" not in sys.modules:  # one answer keeps one thread busy; more only cost their start
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        return _answered(sys.argv[1:] if words is None else list(words))
    except KeyboardInterrupt:
        return _refused("stopped.", 130)  # the exit code that shells have for Ctrl-C
    except Exception as wrong:
        if os.environ.get(TRACEBACKS):
            raise
        return _refused(_unforeseen(wrong), 1)


def _answered(words: list[str]) -> int:
    """The exit code of one command line, whose answer is written."""
    from sharpdp import __version__

    names: list[str] = []
    try:
        with progress():
            options = parsed(words, __version__)
            # these are told by their position and not by an option
            positions = (
                "command",
                "plan",
                "names",
                "run",
                "shell",
                "file",
                "document",
                "action",
                "release",
            )
            names = [name for name in vars(options) if name not in positions]
            if getattr(options, "output", None) is not None:
                from sharpdp.cli.document import check_output

                check_output(options)
            reply = answered(options, function_of(options.command))
            text = _text(reply, options, __version__)
        code = _written(text) or reply.code
        if code == 0 and reply.afterwards is not None:
            reply.afterwards()
        return code
    except HelpRequested as asked:
        return _written(str(asked))
    except UsageError as wrong:
        return _refused(str(wrong), 2)
    except Contradiction:
        raise
    except (InvalidArgument, Unsupported) as wrong:
        return _refused(_in_options(str(wrong), names), 2)
    except SharpDPError as wrong:
        return _refused(str(wrong), 1)


def _text(reply: Reply, options: argparse.Namespace, version: str) -> str:
    """The reply as it was asked for: as data, as a table on a terminal, or as plain text."""
    if getattr(options, "csv", False):
        if options.json:
            raise UsageError("give --json or --csv; got both.")
        return as_csv(reply.answers)
    if options.json:
        start = {"command": options.command, "plan": reply.plan, "answers": reply.answers}
        return json.dumps({**start, **reply.facts, "version": version}, indent=2)
    from sharpdp.cli.terminal import drawable, plain, rendered

    if reply.view is not None and not options.plain and drawable():
        lines = [rendered(reply.view)]
    elif reply.lines is None and reply.view is not None:
        lines = [_harmless(line) for line in plain(reply.view)]
    else:
        lines = [_harmless(line) for line in reply.lines or ()]
    if "drawn" in reply.facts:
        lines.append(_harmless(f"drawn: {reply.facts['drawn']}"))
    return "\n".join(lines)


def _written(text: str) -> int:
    """Write the answer. A reader that has gone away is no error of ours, a full disk is one."""
    if sys.stdout is None:
        return _refused("there is no standard output to write the answer to.", 1)
    try:
        _write(sys.stdout, text)
    except BrokenPipeError:
        _give_up(sys.stdout)
    except (OSError, ValueError) as wrong:
        _give_up(sys.stdout)
        why = getattr(wrong, "strerror", None) or wrong
        return _refused(f"the answer could not be written: {why}.", 1)
    return 0


def _refused(sentence: str, code: int) -> int:
    """Say one sentence on standard error, if there is one."""
    start = "" if sentence.startswith("sharpdp") else "sharpdp: "
    words = " ".join(sentence.split())
    if len(words) > 1000:  # no message of ours is
        words = f"{words[:1000]}..."
    shown = _harmless(f"{start}{words}")
    if sys.stderr is not None:
        try:
            _write(sys.stderr, shown)
        except (OSError, ValueError):
            _give_up(sys.stderr)
    return code


def _harmless(line: str) -> str:
    """The line with control and formatting characters spelled out, which would steer a terminal.

    >>> chr(27) in _harmless(f"a{chr(27)}[2Jb")
    False
    """
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in line)


def _write(stream: TextIO, text: str) -> None:
    """Write a text and a new line; characters that the stream does not have are spelled out."""
    try:
        stream.write(f"{text}\n")
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(f"{text.encode(encoding, 'backslashreplace').decode(encoding)}\n")
    stream.flush()


def _give_up(stream: TextIO) -> None:
    """Let what could not be written go nowhere, so that nothing is said about it at the end."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _unforeseen(wrong: Exception) -> str:
    """A sentence about an error that should not be."""
    if isinstance(wrong, MemoryError):
        return "this needs more memory than there is."
    if isinstance(wrong, RecursionError):
        return "this is nested too deeply."
    return (
        f"this is an error in sharpdp, please report it at {ISSUES} "
        f"({type(wrong).__name__}: {wrong}). {TRACEBACKS}=1 shows where."
    )


def _in_options(message: str, names: list[str]) -> str:
    """A message of the API in the words of the command line, where it means one of its options.

    >>> _in_options("batch_size must be at least 1; give steps= instead.", ["batch_size", "steps"])
    '--batch-size must be at least 1; give --steps instead.'
    """
    for name in names:
        word = name if "_" in name else rf"{name}(?==| must\b| and [-\w]+ must\b)"
        # not inside another option: --local-epsilon ends in a word that is one, too
        message = re.sub(rf"(?<![\w.-]){word}=?", f"--{name.replace('_', '-')}", message)
    return message
