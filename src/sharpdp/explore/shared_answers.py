"""Answers for all who ask the same: one that is being computed is shared, a whole one is kept."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

from sharpdp.explore.workers import PATIENCE, Gone, Pool

__all__ = ["Answers"]

LARGEST_CACHE = 32_000_000
"""Characters of answers that are kept, so that going back needs no computation."""


class Running:
    """An answer that is being computed, and those who wait for it."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.lines: list[str] = []  # without progress
        self.readers: list[Callable[[], bool]] = []
        self._progress, self._over = "", False
        self._changed = threading.Condition()

    def add(self, message: dict[str, Any]) -> None:
        """The next message; of those about progress only the last one counts."""
        line = json.dumps(message) + "\n"
        with self._changed:
            if "progress" in message:
                self._progress = line
            else:
                self.lines.append(line)
            self._changed.notify_all()

    def end(self) -> None:
        """There are no more messages."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def follow(self, is_waiting: Callable[[], bool]) -> Iterator[str]:
        """All lines, from the first one on; raises Gone if the reader leaves."""
        read, told = 0, ""
        while True:
            with self._changed:
                if len(self.lines) == read and self._progress == told and not self._over:
                    self._changed.wait(PATIENCE)
                fresh, is_over = self.lines[read:], self._over
                is_stale = self._progress == told or bool(fresh) or is_over
                progress = "" if is_stale else self._progress
            yield from [progress, *fresh] if progress else fresh
            read, told = read + len(fresh), progress or told
            if is_over and not fresh:
                return
            if not is_waiting():
                raise Gone


class Answers:
    """Answers by their question: computed once for all who ask, those used last kept longest.

    Args:
        pool: The processes that compute.
        most: How many characters of answers to keep.
    """

    def __init__(self, pool: Pool, most: int = LARGEST_CACHE) -> None:
        """Keep at most this many characters."""
        self._pool, self._most, self._size = pool, most, 0
        self._kept: OrderedDict[str, list[str]] = OrderedDict()
        self._running: dict[str, Running] = {}
        self._lock = threading.Lock()

    def lines(self, question: dict[str, Any], is_waiting: Callable[[], bool]) -> Iterator[str]:
        """The lines of an answer as they come, one message of JSON each.

        Args:
            question: Its name and fields.
            is_waiting: Whether this reader still waits. The work is stopped when no reader does.

        Yields:
            Lines; the last one says that the answer is done, or what is wrong.

        Raises:
            Gone: This reader does not wait any more.
        """
        key = json.dumps(question, sort_keys=True)
        with self._lock:
            kept = self._kept.get(key)
            if kept is None:
                is_new = key not in self._running
                running = self._running.setdefault(key, Running())
                running.readers.append(is_waiting)
            else:
                self._kept.move_to_end(key)
        if kept is not None:
            yield from kept
            return
        if is_new:
            arguments = (question, key, running)
            threading.Thread(target=self._compute, args=arguments, daemon=True).start()
        yield from running.follow(is_waiting)

    def _compute(self, question: dict[str, Any], key: str, running: Running) -> None:
        """Have an answer computed, and keep it if it is whole."""

        def is_wanted() -> bool:
            with self._lock:
                running.readers = [reader for reader in running.readers if reader()]
                if not running.readers:  # who asks from now on starts anew
                    self._forget(key, running)
                return bool(running.readers)

        try:
            message: dict[str, Any] = {}
            for message in self._pool.answers(question, is_wanted):
                running.add(message)
            if message.get("done"):
                self._keep(key, running.lines)
        except Gone:
            pass
        finally:
            with self._lock:
                self._forget(key, running)
            running.end()

    def _forget(self, key: str, running: Running) -> None:
        if self._running.get(key) is running:
            del self._running[key]

    def _keep(self, key: str, lines: list[str]) -> None:
        """Keep an answer, and forget the oldest ones if there are too many."""
        size = _characters(key, lines)
        with self._lock:
            if size > self._most or key in self._kept:
                return
            self._kept[key] = lines
            self._size += size
            while self._size > self._most:
                self._size -= _characters(*self._kept.popitem(last=False))


def _characters(key: str, lines: list[str]) -> int:
    return len(key) + sum(map(len, lines))
