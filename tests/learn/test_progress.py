"""The line about a training run: on a terminal only, and its last state stays."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest

from sharpdp.display import progress
from sharpdp.learn.training_progress import TrainingProgress


class Screen(io.StringIO):
    """A terminal that remembers everything."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Standard error as a terminal."""
    found = Screen()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setenv("TERM", "xterm")
    return found


def test_the_last_step_stays_on_the_screen(screen: Screen) -> None:
    line = TrainingProgress(0, 3, lambda: "1 <= epsilon <= 2")
    line.update(1)  # too soon
    line.update(3)
    line.close()
    assert screen.getvalue() == "\r\x1b[Kstep 3 of 3 | 0 s left | 1 <= epsilon <= 2\n"


def test_a_run_that_said_nothing_leaves_no_empty_line(screen: Screen) -> None:
    TrainingProgress(0, 3, lambda: "").close()
    assert screen.getvalue() == ""
