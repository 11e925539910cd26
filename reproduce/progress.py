"""One line on the terminal that says how far it is; nothing where there is no terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any

from reproduce.cache import once

__all__ = ["LABEL", "each", "line"]

LABEL: ContextVar[str] = ContextVar("label", default="")
"""What is being computed."""

WIDTH = 24
"""Characters of the bar."""

CLEAR = "\r\x1b[2K"


def bar(done: int, total: int) -> str:
    """A bar of fixed width.

    >>> bar(1, 2)
    '############............'
    """
    full = WIDTH * done // max(total, 1)
    return "#" * full + "." * (WIDTH - full)


def line(text: str) -> None:
    """Show a line in place of the last one, if standard error is a terminal."""
    if sys.stderr.isatty():
        sys.stderr.write(CLEAR + text)
        sys.stderr.flush()


def each(function: Callable[..., Any], parameters: Iterable[tuple[Any, ...]]) -> list[Any]:
    """`once` of the function at all parameters, with a bar."""
    places = list(parameters)
    started = time.monotonic()
    found = []
    for done, place in enumerate(places):
        seconds = time.monotonic() - started
        line(f"{LABEL.get():34} {bar(done, len(places))} {done}/{len(places)}  {seconds:.0f} s")
        found.append(once(function, *place))
    line("")
    return found
