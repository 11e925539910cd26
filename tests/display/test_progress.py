"""Work that takes long says so to whoever watches, and to nobody else."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from itertools import count
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

import sharpdp as dp
from sharpdp.display import progress as shown_by
from sharpdp.display.progress import ProgressLine, Task, progress
from sharpdp.learn import CLDPSGD, ClientRun, PrivUnitBall
from sharpdp.questions.estimate import draws


class Screen(io.StringIO):
    """A terminal that remembers everything."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Screen:
    """Standard error as a terminal, and no patience."""
    found = Screen()
    # pytest puts its own stream in the place of sys.stderr after fixtures were made
    monkeypatch.setattr(shown_by, "sys", SimpleNamespace(stderr=found))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(shown_by, "PATIENCE", 0.0)
    monkeypatch.setattr(shown_by, "PERIOD", 0.001)
    return found


def await_words(screen: io.StringIO, words: str) -> None:
    """Until the words are on the screen."""
    end = time.monotonic() + 10.0
    while words not in screen.getvalue():
        assert time.monotonic() < end, screen.getvalue()[-400:]
        time.sleep(0.002)


def test_tasks_inside_others_share_one_line(screen: Screen) -> None:
    with progress("outer", parts=3) as outer:
        await_words(screen, "outer (1 of 3), 0 s")
        outer.advance()
        with progress("inner") as inner:
            await_words(screen, "outer (2 of 3) | inner, 0 s")
            inner.words = "other"
            await_words(screen, "outer (2 of 3) | other, 0 s")
        assert "\n" not in screen.getvalue()
    assert screen.getvalue().endswith("\r\x1b[K")
    written = screen.getvalue()
    time.sleep(0.01)
    assert screen.getvalue() == written


def test_quick_work_says_nothing(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown_by, "PATIENCE", 60.0)
    dp.account(dp.Gaussian(noise_multiplier=1.0)).epsilon(delta=1e-5)
    assert screen.getvalue() == ""


def test_an_error_clears_the_line(screen: Screen) -> None:
    with contextlib.suppress(RuntimeError), progress("failing"):
        await_words(screen, "failing")
        raise RuntimeError
    assert screen.getvalue().endswith("\r\x1b[K")
    with progress("the next one"):
        await_words(screen, "the next one, 0 s")
    assert "failing | " not in screen.getvalue()


def test_other_threads_say_nothing(screen: Screen) -> None:
    def work() -> None:
        with progress("elsewhere"):
            time.sleep(0.02)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert screen.getvalue() == ""


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: dp.calibrate(lambda s: dp.Gaussian(s), epsilon=1.0, delta=1e-5),
            "calibrating to epsilon 1 at delta 1e-05",
        ),
        (lambda: dp.compare(dp.Gaussian(noise_multiplier=1.0), delta=1e-5), "comparing bounds ("),
        (lambda: dp.account(dp.Gaussian(noise_multiplier=1.0)).report(), "writing a report | "),
    ],
)
def test_calls_of_many_questions_say_what_they_do(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, call: object, words: str
) -> None:
    # every question waits until it has been seen
    quick = dp.Guarantee._worse_direction

    def seen(*arguments: object) -> object:
        await_words(screen, words)
        return quick(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(dp.Guarantee, "_worse_direction", seen)
    assert callable(call)
    call()
    assert words in screen.getvalue()
    assert "\n" not in screen.getvalue()


def test_the_line_fits_and_steers_nothing() -> None:
    screen = Screen()
    line = ProgressLine(screen)
    line.show("x" * 200, " 12 s")
    shown = screen.getvalue().removeprefix("\r\x1b[K")
    assert len(shown) == 79
    assert shown.endswith("x... 12 s")
    line.show("a\x1b[2Jb\u202ec\n")
    assert screen.getvalue().endswith("\r\x1b[Ka?[2Jb?c?")
    line.keep()
    line.clear()
    assert screen.getvalue().endswith("c?\n")


def test_notebooks_are_told_without_escape_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    line = ProgressLine(cell)
    assert line.watched
    line.show("abc")
    line.clear()
    assert cell.getvalue() == "\r\rabc\r   \r"


def test_nobody_watches_a_pipe_or_a_dumb_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = io.StringIO()
    closed.close()
    assert not ProgressLine(closed).watched
    assert not ProgressLine(io.StringIO()).watched
    monkeypatch.setenv("TERM", "dumb")
    assert not ProgressLine(Screen()).watched
    monkeypatch.setattr(sys, "stderr", None)
    assert not ProgressLine().watched


def test_a_task_says_its_share_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", count(0, 8).__next__)
    task = Task("drawing", 1)
    task.reach(2, 10)  # at once: what an earlier call had done says nothing of the time
    assert str(task) == "drawing (20 %)"
    task.reach(4, 10)
    assert str(task) == "drawing (40 %, 24 s left)"  # 8 s for two, and six are left


def test_a_cut_line_ends_with_the_share(screen: Screen) -> None:
    with progress("x" * 100), progress("inner") as inner:
        inner.reach(1, 4)
        await_words(screen, "x... (25 %), ")


def test_estimates_say_how_far_they_are(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = draws.Task.run

    def seen(task: draws.Task) -> object:
        if task.stream == (0, 1, 2):
            await_words(screen, "estimating delta of Gaussian noise, 20,000 draws | w")
            await_words(screen, " (41 %")
        return quick(task)

    monkeypatch.setattr(draws.Task, "run", seen)
    dp.estimate(dp.Gaussian(1.0), epsilon=1.0, samples=20_000, rng=1)
    assert screen.getvalue().endswith("\r\x1b[K")


def test_an_interrupted_estimate_says_that_draws_are_kept(screen: Screen) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dp.estimate(dp.Gaussian(1.5), epsilon=1.0, samples=20_000, rng=1, progress=stop)
    assert "interrupted: what was drawn is kept" in screen.getvalue()


def test_runs_of_clients_say_how_far_they_are(screen: Screen) -> None:
    plan = CLDPSGD(
        randomizer=PrivUnitBall(dimension=3, local_epsilon=2.0),
        users=5,
        population=10,
        rounds=3,
        learning_rate=0.1,
    )
    rounds = 0

    def gradients(theta: np.ndarray, clients: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            await_words(screen, "running rounds of clients (33 %")
        return np.zeros((len(clients), 3))

    ClientRun(plan, gradients, np.zeros(3), rng=1).run()
    assert rounds >= 3


def test_a_task_counts_its_parts() -> None:
    task = Task("work", 2)
    assert str(task) == "work (1 of 2)"
    task.advance()
    task.advance()
    assert str(task) == "work (2 of 2)"
    assert str(Task("work", 1)) == "work"


class FakeBar:
    """What of tqdm's bar is used."""

    made: ClassVar[list[FakeBar]] = []

    def __init__(self, *, total: int, leave: bool) -> None:
        self.total, self.leave, self.n, self.bar_format = total, leave, 0, ""
        self.said: list[tuple[str, int]] = []
        self.closed = False
        FakeBar.made.append(self)

    def set_description_str(self, words: str) -> None:
        assert ("{bar}" in self.bar_format) == (self.n > 0 or "of" in words)
        self.said.append((words, self.n))

    def close(self) -> None:
        self.closed = True


def test_notebooks_show_a_bar_of_tqdm_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=FakeBar))
    monkeypatch.setattr(shown_by, "sys", SimpleNamespace(stderr=cell))
    monkeypatch.setattr(shown_by, "PATIENCE", 0.01)
    monkeypatch.setattr(shown_by, "PERIOD", 0.01)
    FakeBar.made.clear()
    with shown_by.progress("comparing", parts=4) as task:
        task.advance()
        task.advance()
        time.sleep(0.2)
    (bar,) = FakeBar.made
    assert ("comparing (3 of 4), 0 s", 50) in bar.said
    assert bar.closed
    assert not bar.leave
    assert cell.getvalue() == ""


def test_a_bar_that_is_kept_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=FakeBar))
    line = shown_by.ProgressLine(cell)
    line.show("training")
    line.keep()
    assert FakeBar.made[-1].leave
    assert FakeBar.made[-1].closed
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    line = shown_by.ProgressLine(cell)
    line.show("training")
    assert "training" in cell.getvalue()
