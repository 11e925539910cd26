"""A line about the step, the time left, and the privacy spent so far, while training runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

__all__ = ["ProgressLine"]

SECONDS_BETWEEN = 2.0
"""The line is written at most this often: what it says of privacy takes an accounting."""


class ProgressLine:
    """Rewrites one line of a terminal; silent where there is none."""

    def __init__(
        self, first: int, last: int, spent: Callable[[], str], stream: TextIO | None = None
    ) -> None:
        """From step `first` to step `last`; `spent` says what the privacy is so far."""
        self._first, self._last, self._spent = first, last, spent
        self._stream = sys.stderr if stream is None else stream
        self._begun = self._written = time.monotonic()

    def update(self, step: int) -> None:
        """Write the line if it is time to."""
        now = time.monotonic()
        due = now - self._written >= SECONDS_BETWEEN or step == self._last
        if not due or not self._stream.isatty():
            return
        self._written = now
        left = (now - self._begun) * (self._last - step) / max(step - self._first, 1)
        words = f"step {step} of {self._last} | {left:.0f} s left | {self._spent()}"
        self._stream.write(f"\r\x1b[K{words}")
        self._stream.flush()

    def close(self) -> None:
        """End the line."""
        if self._stream.isatty():
            self._stream.write("\n")
