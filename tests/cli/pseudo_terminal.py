"""Terminals for commands under test, where the platform has pseudo-terminals."""

from __future__ import annotations

import os
import struct

import pytest


def pseudo_terminal(columns: int) -> tuple[int, int]:
    """Both ends of a terminal of so many columns: one to read from, one for a process.

    Skips the test on Windows, which lacks the modules.
    """
    fcntl, pty, termios = (
        pytest.importorskip(name, reason="needs pseudo-terminals", exc_type=ImportError)
        for name in ("fcntl", "pty", "termios")
    )
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    return leader, follower


def sent_to(leader: int, said: bytes = b"", until: bytes | None = None) -> bytes:
    """What the terminal was sent, after what it said already: up to these words, or all of it."""
    while until is None or until not in said:
        try:
            part = os.read(leader, 65_536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    return said
