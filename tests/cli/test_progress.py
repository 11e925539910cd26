"""A command that takes longer than a second says so on the terminal, in a line that goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from tests.cli.pseudo_terminal import pseudo_terminal, sent_to

SLOW = """
import contextlib, signal, sys, time
from sharpdp.questions.account import Guarantee
from sharpdp.cli import main

# a test run in the background inherits that interrupts are ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
with contextlib.suppress(ImportError):  # a15ee80 has no such module
    import sharpdp.display.progress

    sharpdp.display.progress.PATIENCE, sharpdp.display.progress.PERIOD = 0.1, 0.05
quick = Guarantee._worse_direction

def slow(*arguments):
    time.sleep({seconds})
    return quick(*arguments)

Guarantee._worse_direction = slow
sys.exit(main({words!r}))
"""
"""A command line whose every question takes a while, with less patience than usual."""

QUESTION = ["account", "gaussian noise_multiplier=1", "--delta", "1e-5"]
SAID = "computing epsilon of Gaussian noise"
CLEARED = b"\r\x1b[K"


class Watched:
    """A command with standard error, and perhaps standard output, on a terminal of 60 columns."""

    def __init__(self, words: list[str], seconds: float, *, piped: bool = False) -> None:
        self.leader, follower = pseudo_terminal(60)
        self.process = subprocess.Popen(
            [sys.executable, "-c", SLOW.format(words=words, seconds=seconds)],
            stdout=subprocess.PIPE if piped else follower,
            stderr=follower,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(follower)
        self.said = b""

    def read(self, until: bytes | None = None) -> bytes:
        """What the terminal was sent: up to these words, or all of it."""
        self.said = sent_to(self.leader, self.said, until)
        return self.said

    def end(self) -> tuple[int, bytes]:
        """The exit code, and standard output if it is not the terminal."""
        output = self.process.communicate()[0]
        os.close(self.leader)
        return self.process.returncode, output or b""


def test_b10_a_long_question_shows_what_is_computed() -> None:
    watched = Watched([*QUESTION, "--json"], 0.4, piped=True)
    said = watched.read()
    code, output = watched.end()
    assert code == 0
    assert SAID.encode() in said
    assert said.endswith(CLEARED)
    assert b"\n" not in said  # one line, which is gone in the end
    assert output.startswith(b"{")
    assert b"computing" not in output


def test_b10_the_line_is_gone_before_the_answer_is_written() -> None:
    watched = Watched([*QUESTION, "--plain"], 0.4)
    said = watched.read()
    assert watched.end()[0] == 0
    line, _, answer = said.rpartition(CLEARED)
    assert SAID.encode() in line
    assert b"<= epsilon <=" in answer
    assert b"computing" not in answer


def test_b10_ctrl_c_ends_a_long_question_in_one_line() -> None:
    watched = Watched(QUESTION, 30.0)
    watched.read(until=SAID.encode())
    begun = time.monotonic()
    watched.process.send_signal(signal.SIGINT)
    said = watched.read()
    assert watched.end()[0] == 130
    assert time.monotonic() - begun < 10.0
    assert said.rpartition(CLEARED)[2] == b"sharpdp: stopped.\r\n"
