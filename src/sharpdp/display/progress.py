"""A line about work that takes longer than a second: what is computed, how far it is, and for how long.

Only a person who watches sees it: it is written to standard error if that is a terminal or a notebook,
and cleared when the work is done. Nothing is written to files and pipes. A notebook shows a bar of tqdm
if that is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TextIO

__all__ = ["ProgressLine", "Task", "progress", "tasks_in_words"]

PATIENCE = 1.0
"""Seconds of work before anything is said."""

PERIOD = 1.0
"""Seconds between two updates."""


class ProgressLine:
    """One line of standard error that is rewritten in place; nothing happens where nobody watches."""

    def __init__(self, stream: TextIO | None = None) -> None:
        """On this stream; None stands for standard error."""
        self._stream = sys.stderr if stream is None else stream
        self._terminal = _is_terminal(self._stream)
        in_notebook = _is_notebook(self._stream)
        self.watched = self._terminal or in_notebook
        self._make_bar = _tqdm() if in_notebook else None
        self._bar: Any = None
        self._length = 0

    def show(self, words: str, end: str = "", share: float | None = None) -> None:
        """Show these words instead of what the line said; `end` is shown in any case.

        Args:
            words: What is done.
            end: How far it is, in words.
            share: How far it is, from 0 to 1, for a bar; None if that is not known.
        """
        if self._make_bar is not None:
            self._show_bar(words + end, share)
            return
        room = max(_columns(self._stream) - 1 - len(end), 0)
        text = (words if len(words) <= room else f"{words[: max(room - 3, 0)]}...") + end
        text = "".join(char if char.isprintable() else "?" for char in text)
        encoding = getattr(self._stream, "encoding", None) or "ascii"
        self._write(self._blank() + text.encode(encoding, "replace").decode(encoding))
        self._length = len(text)

    def _show_bar(self, words: str, share: float | None) -> None:
        assert self._make_bar is not None
        if self._bar is None:
            self._bar = self._make_bar(total=100, leave=False)
        self._bar.bar_format = "{desc}" if share is None else "{desc} {bar}"
        self._bar.n = 0 if share is None else int(100 * share)
        self._bar.set_description_str(words)

    def clear(self) -> None:
        """Remove what the line says."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        if self._length:
            self._write(self._blank())
            self._length = 0

    def keep(self) -> None:
        """Leave what the line says, and go to the next one."""
        if self._bar is not None:
            self._bar.leave = True
            self.clear()
        if self._length:
            self._write("\n")
            self._length = 0

    def _blank(self) -> str:
        return "\r\x1b[K" if self._terminal else f"\r{' ' * self._length}\r"

    def _write(self, text: str) -> None:
        if self.watched:
            with contextlib.suppress(OSError, ValueError):  # a closed stream is no reason to stop
                self._stream.write(text)
                self._stream.flush()


class Task:
    """A task in words that may change, and the share of it that is done, if that is known."""

    def __init__(self, words: str, parts: int) -> None:
        """Start with no part done; a task of one part counts nothing."""
        self.words, self._parts, self._done = words, parts, 0
        self._first: tuple[float, float] | None = None
        self._share = 0.0

    def advance(self) -> None:
        """One more part is done."""
        self._done += 1

    def reach(self, done: int, total: int) -> None:
        """So much is done of all there is to do: what is left will take as long in proportion."""
        self._share = done / total
        if self._first is None:
            self._first = self._share, time.monotonic()

    @property
    def share(self) -> float | None:
        """How much is done, from 0 to 1; None if that is not known."""
        if self._first is not None:
            return self._share
        return min(self._done / self._parts, 1.0) if self._parts > 1 else None

    @property
    def state(self) -> str:
        """The count of parts, or the share that is done with the time left; empty if neither is known."""
        if self._first is not None:
            share, begun = self._first
            percent = f"{100.0 * self._share:.0f} %"
            if self._share <= share:
                return f" ({percent})"
            left = (time.monotonic() - begun) * (1.0 - self._share) / (self._share - share)
            return f" ({percent}, {left:.0f} s left)"
        if self._parts <= 1:
            return ""
        return f" ({min(self._done + 1, self._parts)} of {self._parts})"

    def __str__(self) -> str:
        """The words, and how much is done."""
        return self.words + self.state


_tasks: list[Task] = []
"""What the main thread is doing, the outermost task first."""


@contextlib.contextmanager
def progress(words: str = "", parts: int = 1) -> Iterator[Task]:
    """Show these words while the work inside takes longer than a second.

    Tasks may contain others, all of which are named in the line of the outermost one. What other
    threads than the main one do is not shown.
    """
    task, depth = Task(words, parts), len(_tasks)
    if threading.current_thread() is not threading.main_thread():
        yield task
        return
    ticker = None
    try:
        _tasks.append(task)
        if depth == 0:
            line = ProgressLine()
            ticker = Ticker(line) if line.watched else None
        yield task
    finally:
        if ticker is not None:
            ticker.stop()
        del _tasks[depth:]


def tasks_in_words() -> str:
    """The tasks of the main thread, the outermost first; empty if it states none."""
    return " | ".join(filter(None, map(str, list(_tasks))))


class Ticker:
    """Shows what the main thread is doing, every second until it is stopped."""

    def __init__(self, line: ProgressLine) -> None:
        """Start at once, from a thread of its own."""
        self._line, self._begun = line, time.monotonic()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Clear the line."""
        self._over.set()
        self._thread.join()
        self._line.clear()

    def _run(self) -> None:
        wait = PATIENCE
        while not self._over.wait(wait):
            words = tasks_in_words()
            # how far the innermost task is stays readable where the words are cut
            state = "".join(task.state for task in list(_tasks)[-1:])
            shares = [task.share for task in list(_tasks) if task.share is not None]
            seconds = time.monotonic() - self._begun
            words = words.removesuffix(state) or "computing"
            self._line.show(words, f"{state}, {seconds:.0f} s", shares[0] if shares else None)
            wait = PERIOD


def _is_terminal(stream: TextIO | None) -> bool:
    """Whether this is a terminal that can rewrite a line."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False


def _is_notebook(stream: object) -> bool:
    """Whether what is written here appears below the cell of a notebook."""
    return type(stream).__module__.startswith("ipykernel.")


def _tqdm() -> Callable[..., Any] | None:
    """The bar of tqdm that suits this notebook; None if it is not installed."""
    try:
        with warnings.catch_warnings():  # without widgets it draws with characters
            warnings.simplefilter("ignore")
            bar: Callable[..., Any] = importlib.import_module("tqdm.auto").tqdm
    except ImportError:
        return None
    return bar


def _columns(stream: TextIO | None) -> int:
    """The width of the terminal; 80 if it does not say."""
    try:
        columns = 0 if stream is None else os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    return columns or 80
