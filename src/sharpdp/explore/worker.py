"""One process that answers questions of the page: lines of JSON in, lines of JSON out.

A line is a question, or {"cancel": true} for the one that is being answered: the process then stops
before the next part of the answer, and keeps what it has computed for the next question.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
import traceback
from typing import Any, TextIO

from sharpdp.display.progress import tasks_in_words
from sharpdp.errors import Contradiction, SharpDPError
from sharpdp.explore.questions import QUESTIONS, answering

PERIOD = 0.25
"""Seconds between two words about what is being computed."""


class Answering:
    """Writes messages, and what is being computed between them."""

    def __init__(self, stream: TextIO) -> None:
        """On this stream."""
        self._stream = stream
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.canceled = threading.Event()

    def say(self, **message: Any) -> None:
        """One message."""
        with self._lock:
            self._stream.write(json.dumps(message, allow_nan=False) + "\n")
            self._stream.flush()

    def __enter__(self) -> Answering:
        """Start to say what is being computed."""
        self._over.clear()
        self._ticker = threading.Thread(target=self._tick, daemon=True)
        self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Say no more."""
        self._over.set()
        self._ticker.join()

    def _tick(self) -> None:
        while not self._over.wait(PERIOD):
            self.say(progress=tasks_in_words() or "computing")


def answer(question: dict[str, Any], out: Answering) -> None:
    """Answer one question: its parts, then that it is done, or a sentence about what is wrong."""
    begun = time.process_time()
    try:
        with out:
            for part in answering(question["name"])(question["fields"]):
                if out.canceled.is_set():
                    break
                out.say(part=part)
        seconds = time.process_time() - begun
        out.say(done=not out.canceled.is_set(), seconds=round(seconds, 4), megabytes=_megabytes())
    except Contradiction as alarm:
        traceback.print_exc()
        out.say(error=f"this is an error in sharpdp, please report it: {alarm}")
    except SharpDPError as fault:
        out.say(error=str(fault))
    except Exception:
        traceback.print_exc()
        out.say(error="this is an error in sharpdp; the terminal that serves this page has more.")


def _megabytes() -> float:
    """The most memory that this process has used."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def _read(out: Answering, questions: queue.Queue[dict[str, Any] | None]) -> None:
    """Pass questions on as they come; the end of the input is None."""
    for line in sys.stdin:
        message = json.loads(line)
        if "cancel" in message:
            out.canceled.set()
        else:
            out.canceled.clear()
            questions.put(message)
    questions.put(None)


def main() -> None:
    """Answer questions until there are no more."""
    out = Answering(sys.stdout)
    sys.stdout = sys.stderr  # whatever prints must not write between messages
    for name in QUESTIONS:  # what a question needs is imported before it comes
        answering(name)
    questions: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_read, args=(out, questions), daemon=True).start()
    while (question := questions.get()) is not None:
        answer(question, out)


if __name__ == "__main__":
    main()
