"""A line about the step, the time left, and the privacy spent so far, while training runs."""

from __future__ import annotations

import time
from collections.abc import Callable

from sharpdp.display.progress import ProgressLine

__all__ = ["TrainingProgress"]


class TrainingProgress:
    """Progress of a training run, for whoever watches."""

    def __init__(self, first: int, last: int, spent: Callable[[], str]) -> None:
        """From step `first` to step `last`; `spent` says what the privacy is so far."""
        self._first, self._last, self._spent = first, last, spent
        self._line = ProgressLine()
        self._begun = self._written = time.monotonic()

    def update(self, step: int) -> None:
        """Write the line if it is time to."""
        now = time.monotonic()
        # the line is written at most this often: what it says of privacy takes an accounting
        due = now - self._written >= 2.0 or step == self._last
        if not due or not self._line.watched:
            return
        self._written = now
        left = (now - self._begun) * (self._last - step) / max(step - self._first, 1)
        self._line.show(f"step {step} of {self._last} | {left:.0f} s left | {self._spent()}")

    def close(self) -> None:
        """End the line."""
        self._line.keep()
