"""Processes that answer one question at a time, and that are replaced if nobody waits any more.

A question is sent to `python -m sharpdp.explore.worker` as one line of JSON and answered with lines of
JSON, the last of which is marked as such. Python cannot stop a thread that computes, but a process.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["Gone", "Pool"]

Message = dict[str, Any]

PATIENCE = 0.1
"""Seconds between two looks at whether somebody still waits for the answer."""

MOST_MEGABYTES = 700
"""A process that has become larger than this is replaced before it takes another question."""


class Gone(Exception):
    """Nobody waits for the answer any more."""


class Worker:
    """One process, with a thread that reads what it says."""

    def __init__(self) -> None:
        """Start the process; it imports what it needs while it waits for its first question."""
        command = [sys.executable, "-m", "sharpdp.explore.worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def process_id(self) -> int:
        """The number of the process."""
        return self._process.pid

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def ask(self, question: Message) -> None:
        """Send a question."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()

    def next_message(self, seconds: float) -> Message | None:
        """The next line of the answer; None if there is none in so many seconds.

        Raises EOFError if the process has ended.
        """
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return None
        if line is None:
            raise EOFError
        message: Message = json.loads(line)
        return message

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()


class Pool:
    """Some processes, each of which answers one question at a time; further questions wait."""

    def __init__(self, size: int | None = None) -> None:
        """Start so many processes; None for one more than there are processors."""
        self._idle: queue.Queue[Worker] = queue.Queue()
        self._all: set[Worker] = set()
        self._lock = threading.Lock()
        self._closed = False
        for _ in range((os.cpu_count() or 1) + 1 if size is None else size):
            self._start()

    def _start(self) -> None:
        with self._lock:
            if not self._closed:
                worker = Worker()
                self._all.add(worker)
                self._idle.put(worker)

    def _replace(self, worker: Worker) -> None:
        worker.stop()
        with self._lock:
            self._all.discard(worker)
        self._start()

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of the processes."""
        with self._lock:
            return tuple(worker.process_id for worker in self._all)

    def answers(self, question: Message, is_waiting: Callable[[], bool]) -> Iterator[Message]:
        """The messages of an answer, as they come.

        Args:
            question: What to send to a process.
            is_waiting: Whether somebody still waits; asked ten times a second.

        Yields:
            Messages, the last of which has "done" or "error".

        Raises:
            Gone: Nobody waits any more. The process that was at work has been replaced.
        """
        worker = None
        while worker is None:
            if not is_waiting():
                raise Gone
            try:
                worker = self._idle.get(timeout=PATIENCE)
            except queue.Empty:
                yield {"progress": "waiting for a free processor"}
        is_reusable = False
        try:
            worker.ask(question)
            message = None
            while message is None or not ("done" in message or "error" in message):
                message = worker.next_message(PATIENCE)
                if message is not None:
                    yield message
                elif not is_waiting():
                    raise Gone
            is_reusable = message.get("megabytes", 0) < MOST_MEGABYTES
        except (EOFError, OSError):
            yield {"error": "the computation ended without an answer; it may need too much memory."}
        finally:
            if is_reusable:
                self._idle.put(worker)
            else:
                self._replace(worker)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            for worker in self._all:
                worker.stop()
            self._all.clear()
