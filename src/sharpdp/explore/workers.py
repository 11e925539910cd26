"""Processes that answer one question at a time, and that stop if nobody waits any more.

A question is sent to `python -m sharpdp.explore.worker` as one line of JSON and answered with lines of
JSON, the last of which is marked as such. A process that nobody waits for is asked to stop, which it does
between two parts of its answer, with all that it has computed at hand for the next question; if it takes
too long, it is ended and replaced.
"""

from __future__ import annotations

import bisect
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

from sharpdp.explore.questions import USUAL_SECONDS

__all__ = ["Gone", "Pool"]

Message = dict[str, Any]

PATIENCE = 0.1
"""Seconds between two looks at whether somebody still waits for the answer."""

GRACE = 2.0
"""Seconds in which a process may stop by itself."""

PASSING = 20.0
"""How much later a question may come and be answered first, for each second that it is shorter."""

SHORT = 0.7
"""Seconds of computing up to which a question is short: one process is kept free for those."""

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

    @property
    def has_ended(self) -> bool:
        """Whether the process is over, such as one that the system ended for want of memory."""
        return self._process.poll() is not None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def send(self, message: Message) -> None:
        """Send a question, or that nobody waits for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def next_message(self, seconds: float) -> Message | None:
        """The next line of the answer; None if there is none within `seconds`.

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
                with contextlib.suppress(OSError):  # what it was still to be told is lost
                    stream.close()


class Place(NamedTuple):
    """A place in the line: when it is due, and whether the question is a long one."""

    due: float
    is_long: bool
    mark: object


class Pool:
    """Some processes, each of which answers one question at a time; further questions wait in line."""

    def __init__(self, size: int | None = None) -> None:
        """Start this many processes; None for one more than there are processors."""
        self._idle: list[Worker] = []  # the one used last is taken first: it has most at hand
        self._all: set[Worker] = set()
        self._line: list[Place] = []
        self._long: set[Worker] = set()  # at work on long questions
        # by name of a question, about as many seconds of computing as the last ones took
        self._seconds: dict[str, float] = dict(USUAL_SECONDS)
        self._changed = threading.Condition()
        self._closed = False
        for _ in range((os.cpu_count() or 1) + 1 if size is None else size):
            self._start()

    def _start(self) -> None:
        with self._changed:
            if not self._closed:
                worker = Worker()
                self._all.add(worker)
                self._idle.insert(0, worker)
                self._changed.notify_all()

    def _replace(self, worker: Worker) -> None:
        worker.stop()
        with self._changed:
            self._all.discard(worker)
            self._long.discard(worker)
        self._start()

    def _release(self, worker: Worker) -> None:
        with self._changed:
            self._long.discard(worker)
            self._idle.append(worker)
            self._changed.notify_all()

    @property
    def processes(self) -> tuple[int, ...]:
        """The numbers of the processes."""
        with self._changed:
            return tuple(worker.process_id for worker in self._all)

    def _taken(self, name: str, is_waiting: Callable[[], bool]) -> Generator[Message, None, Worker]:
        """A process that is free; what is said while one waits.

        First come, first served, but a question that takes a second longer lets others pass who come up
        to PASSING seconds later, and long questions leave one process to the short ones.
        """
        with self._changed:
            seconds = self._seconds.get(name, 0.0)
            turn = Place(time.monotonic() + PASSING * seconds, seconds > SHORT, object())
            bisect.insort(self._line, turn, key=lambda one: one.due)
        try:
            while True:
                with self._changed:
                    if self._idle and self._next_place() is turn:
                        worker = self._idle.pop()
                        if worker.has_ended:
                            self._replace(worker)
                            continue
                        if turn.is_long:
                            self._long.add(worker)
                        return worker
                    self._changed.wait(PATIENCE)
                    ahead = self._line.index(turn)
                if not is_waiting():
                    raise Gone
                yield {"progress": f"waiting for a free processor, {ahead} ahead"}
        finally:
            with self._changed:
                self._line.remove(turn)
                self._changed.notify_all()

    def _next_place(self) -> Place | None:
        """Who is to be served next; None if only long questions wait and enough of them are at work."""
        is_full = len(self._long) >= max(1, len(self._all) - 1)
        return next((turn for turn in self._line if not (turn.is_long and is_full)), None)

    def answers(self, question: Message, is_waiting: Callable[[], bool]) -> Iterator[Message]:
        """The messages of an answer, as they come.

        Args:
            question: What to send to a process.
            is_waiting: Whether somebody still waits; asked ten times a second.

        Yields:
            Messages, the last of which has "done" or "error".

        Raises:
            Gone: Nobody waits any more. The process that was at work has stopped or has been replaced.
        """
        name = str(question.get("name", ""))
        worker = yield from self._taken(name, is_waiting)
        try:
            worker.send(question)
            message: Message | None = None
            while message is None or not _is_last(message):
                message = worker.next_message(PATIENCE)
                if not is_waiting():
                    raise Gone
                if message is not None:
                    yield message
        except (EOFError, OSError):
            self._replace(worker)
            yield {"error": "the computation ended without an answer; it may need too much memory."}
        except (Gone, GeneratorExit):
            self._stopped(worker, message)
            raise
        else:
            with self._changed:
                usual = self._seconds.get(name, 0.0)
                self._seconds[name] = usual + 0.3 * (message.get("seconds", usual) - usual)
            self._checked(worker, message)

    def _checked(self, worker: Worker, message: Message) -> None:
        """Put a process that has answered back, unless it has become too large."""
        is_small = message.get("megabytes", 0) < MOST_MEGABYTES
        (self._release if is_small else self._replace)(worker)

    def _stopped(self, worker: Worker, message: Message | None) -> None:
        """Have a process stop, by itself if it does so soon."""
        try:
            if message is None or not _is_last(message):
                worker.send({"cancel": True})
            deadline = time.monotonic() + GRACE
            while message is None or not _is_last(message):
                left = deadline - time.monotonic()
                if left <= 0.0:
                    return self._replace(worker)
                message = worker.next_message(left)
        except (EOFError, OSError):
            return self._replace(worker)
        return self._checked(worker, message)

    def close(self) -> None:
        """End all processes."""
        with self._changed:
            self._closed = True
            for worker in self._all:
                worker.stop()
            self._all.clear()


def _is_last(message: Message) -> bool:
    return "done" in message or "error" in message
